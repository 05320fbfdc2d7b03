/*
 * A ZIP file says everything twice, and readers differ in whom they believe. Here a file has one
 * meaning or none: entries lie one behind the other from its first byte to the central directory,
 * each as both of its headers say, and behind the directory comes the one end record that closes
 * the file. Nothing larger than the bounds needs ZIP64 records, so there are none.
 */
#include "store/tree_rules.h"
#include "store/unpack/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define END_BYTES         22
#define COMMENT_BYTES_MAX 65535
#define CENTRAL_BYTES     46
#define LOCAL_BYTES       30
#define CENTRAL_BYTES_MAX ((size_t)64 << 20)
#define FLAG_STREAMED     0x0008 /* sizes come behind the data */
#define FLAGS_COMPARED    0x0809 /* encrypted, streamed, UTF-8 */
#define FLAGS_ENCRYPTED   0x2041 /* in the old way, strongly, its header */
#define FLAG_UTF8         0x0800
#define METHOD_AES        99

#define SIGNATURE_LOCAL      0x04034b50u
#define SIGNATURE_DESCRIPTOR 0x08074b50u
#define SIGNATURE_CENTRAL    0x02014b50u
#define SIGNATURE_END        0x06054b50u

#define EXTRA_ZIP64     0x0001
#define EXTRA_UTF8_NAME 0x7075
#define EXTRA_UTF8_NOTE 0x6375
#define UTF8_PREFIX     5 /* version and checksum before the text itself */

/* One row of the central directory; the texts are borrowed from it. */
struct row {
    struct kg_str name, comment;
    uint16_t flags, method;
    uint32_t crc, packed, unpacked, offset;
};

struct layout {
    int fd;
    uint64_t size;
    struct kg_err *err;
    char *central; /* owned; the directory */
    size_t central_bytes, central_at;
    struct row *rows; /* owned; by offset */
    size_t count;
};

static uint16_t zip_layout_get16(const char *at)
{
    const unsigned char *bytes = (const unsigned char *)at;
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static uint32_t get32(const char *at)
{
    return zip_layout_get16(at) | (uint32_t)zip_layout_get16(at + 2) << 16;
}

static int zip_layout_fail(const struct layout *layout, const char *why)
{
    return kg_fail(layout->err, KG_E_INVALID_SOURCE, "the archive is inconsistent: %s", why);
}

static int fail_row(const struct layout *layout, const struct row *row, const char *why)
{
    int result = sink_refuse(KG_E_INVALID_SOURCE, row->name, why, layout->err);
    return kg_wrap(layout->err, result, "the archive is inconsistent");
}

static int zip_layout_read_at(const struct layout *layout, uint64_t offset, void *data,
                              size_t length)
{
    if (offset > layout->size || length > layout->size - offset)
        return zip_layout_fail(layout, "it ends too early");
    ssize_t got = pread(layout->fd, data, length, (off_t)offset);
    if (got < 0)
        return kg_fail_errno(layout->err, errno, "read the archive");
    return (size_t)got == length ? 0 : zip_layout_fail(layout, "it ends too early");
}

/* -- the end record ---------------------------------------------------------------------------- */

/* It may be found in the bytes of a comment, too: two that fit are one too many. */
static int zip_layout_find_end(struct layout *layout, const char *tail, size_t length,
                               const char **ret_end)
{
    *ret_end = NULL;
    for (size_t at = 0; at + END_BYTES <= length; at++) {
        const char *end = tail + at;
        if (get32(end) != SIGNATURE_END || zip_layout_get16(end + 20) != length - at - END_BYTES)
            continue;
        if (*ret_end != NULL)
            return zip_layout_fail(layout, "it has two ends");
        *ret_end = end;
    }
    return *ret_end != NULL
               ? 0
               : zip_layout_fail(layout, "it has no end record, or something follows it");
}

static int zip_layout_take_end(struct layout *layout, const char *end, uint64_t end_at)
{
    uint32_t bytes = get32(end + 12), offset = get32(end + 16);
    layout->count = zip_layout_get16(end + 10);
    if (bytes == UINT32_MAX || offset == UINT32_MAX || layout->count == UINT16_MAX)
        return zip_layout_fail(layout, "it has ZIP64 records, which nothing of its size needs");
    if (zip_layout_get16(end + 4) != 0 || zip_layout_get16(end + 6) != 0 ||
        zip_layout_get16(end + 8) != layout->count)
        return zip_layout_fail(layout, "it is a part of several");
    if ((uint64_t)offset + bytes != end_at)
        return zip_layout_fail(layout, "its central directory does not end at its end record");
    if (bytes > CENTRAL_BYTES_MAX || layout->count > bytes / CENTRAL_BYTES)
        return zip_layout_fail(layout,
                               "its central directory has another size than its count of entries");
    layout->central_at = offset;
    layout->central_bytes = bytes;
    layout->central = kg_alloc(bytes + 1);
    return zip_layout_read_at(layout, offset, layout->central, bytes);
}

static int zip_layout_read_end(struct layout *layout)
{
    size_t length = END_BYTES + COMMENT_BYTES_MAX;
    if (layout->size < END_BYTES)
        return zip_layout_fail(layout, "it is too short for a ZIP file");
    length = layout->size < length ? (size_t)layout->size : length;
    kg_auto(kg_free) char *tail = kg_alloc(length);
    const char *end = NULL;
    int result = zip_layout_read_at(layout, layout->size - length, tail, length);
    if (result == 0)
        result = zip_layout_find_end(layout, tail, length, &end);
    if (result < 0)
        return result;
    return zip_layout_take_end(layout, end, layout->size - length + (uint64_t)(end - tail));
}

/* -- extra fields ------------------------------------------------------------------------------ */

static bool is_another(struct kg_str extra, struct kg_str text)
{
    struct kg_str other = {extra.data + UTF8_PREFIX, extra.length - UTF8_PREFIX};
    return extra.length < UTF8_PREFIX || !kg_str_equal(other, text);
}

static int check_field(const struct layout *layout, const struct row *row, uint16_t id,
                       struct kg_str value)
{
    if (id == EXTRA_UTF8_NAME && is_another(value, row->name))
        return fail_row(layout, row, "it has a second name in an extra field");
    if (id == EXTRA_UTF8_NOTE && is_another(value, row->comment))
        return fail_row(layout, row, "it has a second comment in an extra field");
    return 0;
}

/* The fields fill their room, none that means something comes twice, none gives another name. */
static int check_extra(const struct layout *layout, const struct row *row, struct kg_str extra)
{
    static const uint16_t once[] = {EXTRA_ZIP64, EXTRA_UTF8_NAME, EXTRA_UTF8_NOTE};
    unsigned seen = 0;
    while (extra.length > 0) {
        if (extra.length < 4 || zip_layout_get16(extra.data + 2) > extra.length - 4)
            return fail_row(layout, row, "its extra fields do not fill their room");
        uint16_t id = zip_layout_get16(extra.data);
        struct kg_str value = {extra.data + 4, zip_layout_get16(extra.data + 2)};
        for (size_t i = 0; i < KG_COUNT(once); i++) {
            if (id == once[i] && (seen & 1u << i) != 0)
                return fail_row(layout, row, "it has an extra field twice");
            seen |= id == once[i] ? 1u << i : 0;
        }
        int result = check_field(layout, row, id, value);
        if (result < 0)
            return result;
        extra.data += 4 + value.length;
        extra.length -= 4 + value.length;
    }
    return 0;
}

/* -- the central directory --------------------------------------------------------------------- */

static int check_row(const struct layout *layout, const struct row *row, const char *header)
{
    if (row->name.length == 0)
        return fail_row(layout, row, "its name is empty");
    if (memchr(row->name.data, '\0', row->name.length) != NULL)
        return fail_row(layout, row, "its name contains a NUL");
    if (row->packed == UINT32_MAX || row->unpacked == UINT32_MAX || row->offset == UINT32_MAX)
        return fail_row(layout, row, "it needs ZIP64 records, which nothing of its size does");
    if (zip_layout_get16(header + 34) != 0)
        return fail_row(layout, row, "it is in another part of several");
    if ((row->flags & FLAG_UTF8) != 0 && kg_utf8_valid(row->comment) != row->comment.length)
        return fail_row(layout, row, "its comment is not UTF-8");
    return check_extra(
        layout, row,
        (struct kg_str){row->name.data + row->name.length, zip_layout_get16(header + 30)});
}

static int read_row(struct layout *layout, size_t *at, struct row *row)
{
    const char *header = layout->central + *at;
    size_t left = layout->central_bytes - *at;
    if (left < CENTRAL_BYTES || get32(header) != SIGNATURE_CENTRAL)
        return zip_layout_fail(layout, "its central directory has fewer entries than it says");
    size_t name = zip_layout_get16(header + 28), comment = zip_layout_get16(header + 32);
    size_t whole = CENTRAL_BYTES + name + zip_layout_get16(header + 30) + comment;
    if (whole > left)
        return zip_layout_fail(layout, "its central directory ends within an entry");
    *row = (struct row){
        .name = {header + CENTRAL_BYTES, name},
        .comment = {header + whole - comment, comment},
        .flags = zip_layout_get16(header + 8),
        .method = zip_layout_get16(header + 10),
        .crc = get32(header + 16),
        .packed = get32(header + 20),
        .unpacked = get32(header + 24),
        .offset = get32(header + 42),
    };
    *at += whole;
    return check_row(layout, row, header);
}

static int read_rows(struct layout *layout)
{
    size_t at = 0;
    layout->rows = kg_alloc_array(layout->count + 1, sizeof(*layout->rows));
    for (size_t i = 0; i < layout->count; i++) {
        int result = read_row(layout, &at, &layout->rows[i]);
        if (result < 0)
            return result;
    }
    return at == layout->central_bytes
               ? 0
               : zip_layout_fail(layout, "its central directory has more in it than its entries");
}

static int zip_layout_compare_names(const void *a, const void *b)
{
    return kg_str_compare(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static int compare_offsets(const void *a, const void *b)
{
    const struct row *one = a, *other = b;
    return (one->offset > other->offset) - (one->offset < other->offset);
}

/* What libzip would refuse, too, without a word on what is wrong. */
static int check_kinds(const struct layout *layout)
{
    for (size_t i = 0; i < layout->count; i++) {
        const struct row *row = &layout->rows[i];
        struct kg_str path = row->name;
        path.length -= path.length > 1 && path.data[path.length - 1] == '/' ? 1 : 0;
        const char *problem = tree_path_problem(path, UINT32_MAX);
        if (problem == NULL && ((row->flags & FLAGS_ENCRYPTED) != 0 || row->method == METHOD_AES))
            problem = "it is encrypted";
        if (problem != NULL)
            return sink_refuse(KG_E_REFUSED, row->name, problem, layout->err);
    }
    return 0;
}

static int check_names(struct layout *layout)
{
    qsort(layout->rows, layout->count, sizeof(*layout->rows), zip_layout_compare_names);
    for (size_t i = 1; i < layout->count; i++)
        if (kg_str_equal(layout->rows[i - 1].name, layout->rows[i].name))
            return sink_refuse(KG_E_REFUSED, layout->rows[i].name,
                               "there is a second entry of this name", layout->err);
    return 0;
}

/* -- the entries themselves -------------------------------------------------------------------- */

/* Checksum and sizes once more, of 4 or 8 bytes each, with or without a signature. */
static int check_descriptor(const struct layout *layout, const struct row *row, uint64_t at,
                            uint64_t length)
{
    char bytes[24];
    if (length != 12 && length != 16 && length != 20 && length != 24)
        return fail_row(layout, row, "something follows its data");
    int result = zip_layout_read_at(layout, at, bytes, (size_t)length);
    if (result < 0)
        return result;
    bool is_signed = length == 16 || length == 24, is_wide = length >= 20;
    const char *fields = bytes + (is_signed ? 4 : 0);
    const char *unpacked = fields + (is_wide ? 12 : 8);
    bool same = (!is_signed || get32(bytes) == SIGNATURE_DESCRIPTOR) && get32(fields) == row->crc &&
                get32(fields + 4) == row->packed && get32(unpacked) == row->unpacked;
    if (is_wide)
        same = same && get32(fields + 8) == 0 && get32(unpacked + 4) == 0;
    return same ? 0 : fail_row(layout, row, "the record after its data differs");
}

/* *ret_end: where its data end. */
static int check_local(const struct layout *layout, const struct row *row, uint64_t *ret_end)
{
    char header[LOCAL_BYTES];
    int result = zip_layout_read_at(layout, row->offset, header, sizeof(header));
    if (result < 0)
        return result;
    if (get32(header) != SIGNATURE_LOCAL || zip_layout_get16(header + 26) != row->name.length)
        return fail_row(layout, row, "its two headers differ");
    size_t extra = zip_layout_get16(header + 28), length = row->name.length + extra;
    kg_auto(kg_free) char *texts = kg_alloc(length + 1);
    result = zip_layout_read_at(layout, row->offset + LOCAL_BYTES, texts, length);
    if (result < 0)
        return result;
    if (memcmp(texts, row->name.data, row->name.length) != 0 ||
        zip_layout_get16(header + 8) != row->method ||
        ((zip_layout_get16(header + 6) ^ row->flags) & FLAGS_COMPARED) != 0)
        return fail_row(layout, row, "its two headers differ");
    *ret_end = (uint64_t)row->offset + LOCAL_BYTES + length + row->packed;
    return check_extra(layout, row, (struct kg_str){texts + row->name.length, extra});
}

/* next: where what follows it begins. */
static int zip_layout_check_entry(const struct layout *layout, const struct row *row, uint64_t next)
{
    uint64_t end = 0;
    int result = check_local(layout, row, &end);
    if (result < 0)
        return result;
    if (end > next)
        return fail_row(layout, row, "it overlaps what follows it");
    if ((row->flags & FLAG_STREAMED) != 0)
        return check_descriptor(layout, row, end, next - end);
    return end == next ? 0 : fail_row(layout, row, "there is a gap after it");
}

static int zip_layout_check_entries(struct layout *layout)
{
    qsort(layout->rows, layout->count, sizeof(*layout->rows), compare_offsets);
    uint64_t first = layout->count > 0 ? layout->rows[0].offset : layout->central_at;
    if (first != 0)
        return zip_layout_fail(layout, "there is something before its first entry");
    for (size_t i = 0; i < layout->count; i++) {
        bool is_last = i + 1 == layout->count;
        int result = zip_layout_check_entry(
            layout, &layout->rows[i], is_last ? layout->central_at : layout->rows[i + 1].offset);
        if (result < 0)
            return result;
    }
    return 0;
}

static void layout_free(struct layout *layout)
{
    free(layout->central);
    free(layout->rows);
}

int zip_layout_check(int fd, uint64_t size, struct kg_err *err)
{
    kg_auto(layout_free) struct layout layout = {.fd = fd, .size = size, .err = err};
    int result = zip_layout_read_end(&layout);
    if (result == 0)
        result = read_rows(&layout);
    if (result == 0)
        result = check_kinds(&layout);
    if (result == 0)
        result = check_names(&layout);
    return result < 0 ? result : zip_layout_check_entries(&layout);
}
