/*
 * ZIP files, by libzip, which checks that both headers of an entry agree and each entry against its
 * checksum. What it leaves open, zip_layout.c closes. Stored and deflated entries only: what else
 * there is has hardly been attacked.
 */
#include "store/tree_rules.h"
#include "store/unpack/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#define READ_BYTES ((size_t)64 * 1024)

/* One entry, as it is told. */
struct entry {
    zip_uint64_t index;
    zip_stat_t stat;
    struct kg_str path; /* without the slash of a folder */
    bool slash;
    mode_t mode; /* with its type */
};

struct reader {
    zip_t *archive;
    struct sink *sink;
    struct kg_err *err;
    char *block; /* owned */
};

static void zip_reader_free(struct reader *reader)
{
    if (reader->archive != NULL)
        zip_discard(reader->archive);
    free(reader->block);
}

static int fail_entry(const struct reader *reader, const struct entry *entry, const char *why)
{
    return sink_refuse(KG_E_INVALID_SOURCE, entry->path, why, reader->err);
}

/* -- what an entry is -------------------------------------------------------------------------- */

/* Only systems with modes tell one; of others a folder is known by its slash. */
static mode_t mode_of(const struct reader *reader, const struct entry *entry)
{
    zip_uint8_t system;
    zip_uint32_t attributes;
    mode_t mode = 0;
    if (zip_file_get_external_attributes(reader->archive, entry->index, 0, &system, &attributes) ==
            0 &&
        (system == ZIP_OPSYS_UNIX || system == ZIP_OPSYS_OS_X))
        mode = (mode_t)(attributes >> 16);
    if ((mode & S_IFMT) == 0)
        mode |= entry->slash ? S_IFDIR : S_IFREG;
    return mode;
}

static int zip_check_entry(const struct reader *reader, const struct entry *entry)
{
    const char *problem = tree_mode_problem(entry->mode);
    if (problem != NULL)
        return sink_refuse(KG_E_REFUSED, entry->path, problem, reader->err);
    if (S_ISDIR(entry->mode) != entry->slash)
        return fail_entry(reader, entry,
                          "its name and its mode disagree on whether it is a folder");
    if (entry->slash && entry->stat.size != 0)
        return fail_entry(reader, entry, "it is a folder with content");
    if (entry->stat.encryption_method != ZIP_EM_NONE)
        return sink_refuse(KG_E_REFUSED, entry->path, "it is encrypted", reader->err);
    if (entry->stat.comp_method != ZIP_CM_STORE && entry->stat.comp_method != ZIP_CM_DEFLATE)
        return sink_refuse(KG_E_REFUSED, entry->path, "it is neither stored nor deflated",
                           reader->err);
    return 0;
}

static int zip_look_at(const struct reader *reader, zip_uint64_t index, struct entry *ret_entry)
{
    static const zip_uint64_t needed =
        ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    struct entry entry = {.index = index};
    const char *name = zip_get_name(reader->archive, index, ZIP_FL_ENC_RAW);
    entry.path = kg_str(name);
    if (name == NULL || zip_stat_index(reader->archive, index, 0, &entry.stat) < 0 ||
        (entry.stat.valid & needed) != needed)
        return fail_entry(reader, &entry, "libzip cannot tell what it is");
    entry.slash = entry.path.length > 1 && entry.path.data[entry.path.length - 1] == '/';
    entry.path.length -= entry.slash ? 1 : 0;
    entry.mode = mode_of(reader, &entry);
    *ret_entry = entry;
    return zip_check_entry(reader, &entry);
}

/* -- its content ------------------------------------------------------------------------------- */

/* The next block of it into `block`: its length, 0 at the end, negative with err. */
static zip_int64_t read_block(const struct reader *reader, const struct entry *entry,
                              zip_file_t *file, size_t length)
{
    zip_int64_t got = zip_fread(file, reader->block, length);
    if (got < 0)
        fail_entry(reader, entry, zip_file_strerror(file));
    return got;
}

static int zip_write_content(const struct reader *reader, const struct entry *entry,
                             zip_file_t *file)
{
    uint64_t bytes = 0;
    zip_int64_t got;
    while ((got = read_block(reader, entry, file, READ_BYTES)) > 0) {
        bytes += (uint64_t)got;
        int result = sink_file_write(reader->sink, reader->block, (size_t)got, reader->err);
        if (result < 0)
            return result;
    }
    if (got == 0 && bytes != entry->stat.size)
        return fail_entry(reader, entry, "it has another size than its header says");
    return got < 0 ? -EINVAL : 0;
}

static int zip_write_file(const struct reader *reader, const struct entry *entry, zip_file_t *file)
{
    int result =
        sink_file_begin(reader->sink, entry->path, (entry->mode & S_IXUSR) != 0, reader->err);
    if (result == 0)
        result = zip_write_content(reader, entry, file);
    return result < 0 ? result : sink_file_end(reader->sink, reader->err);
}

/* A little more than a link may have, so that a longer one is seen as such. */
static int zip_write_link(const struct reader *reader, const struct entry *entry, zip_file_t *file)
{
    size_t length = 0, room = TREE_LINK_BYTES_MAX + 1;
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    zip_int64_t got = 1;
    while (got > 0 && length < room) {
        got = read_block(reader, entry, file, room - length);
        if (got < 0)
            return -EINVAL;
        kg_buf_append(&target, reader->block, (size_t)got);
        length += (size_t)got;
    }
    kg_buf_terminate(&target);
    return sink_link(reader->sink, entry->path, kg_buf_view(&target), reader->err);
}

static int zip_unpack_entry(const struct reader *reader, zip_uint64_t index)
{
    struct entry entry = {0};
    int result = zip_look_at(reader, index, &entry);
    if (result < 0)
        return result;
    if (entry.slash)
        return sink_folder(reader->sink, entry.path, reader->err);
    zip_file_t *file = zip_fopen_index(reader->archive, index, 0);
    if (file == NULL)
        return fail_entry(reader, &entry, zip_strerror(reader->archive));
    result = S_ISLNK(entry.mode) ? zip_write_link(reader, &entry, file)
                                 : zip_write_file(reader, &entry, file);
    zip_fclose(file);
    return result;
}

/* -- the archive ------------------------------------------------------------------------------- */

static int zip_open_archive(int fd, struct reader *reader)
{
    int code = 0;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return kg_fail_errno(reader->err, errno, "open the archive");
    reader->archive = zip_fdopen(own, ZIP_CHECKCONS, &code);
    if (reader->archive != NULL)
        return 0;
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    kg_fail(reader->err, KG_E_INVALID_SOURCE, "the archive cannot be read: %s",
            zip_error_strerror(&error));
    zip_error_fini(&error);
    kg_close(&own);
    return -EINVAL;
}

/* What all entries say that they are, for the progress; hardly believed. */
static uint64_t expected_bytes(const struct reader *reader, zip_int64_t count)
{
    uint64_t bytes = 0;
    zip_stat_t stat;
    for (zip_int64_t i = 0; i < count; i++)
        if (zip_stat_index(reader->archive, (zip_uint64_t)i, 0, &stat) == 0 &&
            (stat.valid & ZIP_STAT_SIZE) != 0)
            bytes += stat.size;
    return bytes;
}

static int zip_unpack_entries(const struct options *options, const struct reader *reader,
                              struct report *report)
{
    zip_int64_t count = zip_get_num_entries(reader->archive, 0);
    if (count > options->files_max)
        return kg_fail(reader->err, KG_E_TOO_LARGE,
                       "the archive has %lld entries; the bound is %lld", (long long)count,
                       (long long)options->files_max);
    report_phase(report, "unpacking", expected_bytes(reader, count));
    for (zip_int64_t i = 0; i < count; i++) {
        int result = zip_unpack_entry(reader, (zip_uint64_t)i);
        if (result < 0)
            return result;
    }
    return 0;
}

int unpack_zip(const struct options *options, struct sink *sink, struct report *report,
               struct kg_err *err)
{
    uint64_t bytes;
    kg_auto(kg_close) int fd = source_open(options, &bytes, err);
    if (fd < 0)
        return fd;
    int result = zip_layout_check(fd, bytes, err);
    if (result < 0)
        return result;
    kg_auto(zip_reader_free) struct reader reader = {
        .sink = sink, .err = err, .block = kg_alloc(READ_BYTES)};
    result = zip_open_archive(fd, &reader);
    if (result == 0)
        result = zip_unpack_entries(options, &reader, report);
    return result < 0 ? result : sink_finish(sink, SINK_MANIFEST_BELOW, err);
}
