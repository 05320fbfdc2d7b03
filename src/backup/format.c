/*
 * The form of a backup: a first line, a header of JSON, then records, and at the end a hash of all
 * that comes before it. Numbers are big-endian. A reader takes the file for a stranger's: every
 * length is bounded, and what it says is believed only once the hash was.
 */
#include "backup/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define MAGIC            "kaged backup\n"
#define HASH_BYTES       crypto_hash_sha256_BYTES
#define HEADER_BYTES_MAX 65536

/* -- writing ----------------------------------------------------------------------------------- */

static int backup_format_put(struct backup_writer *writer, const void *data, size_t length,
                             struct kg_err *err)
{
    int result = kg_write_all(writer->fd, data, length);
    crypto_hash_sha256_update(&writer->hash, data, length);
    writer->bytes += length;
    return result < 0 ? kg_fail_errno(err, -result, "write the backup") : 0;
}

static void backup_format_encode(struct kg_buf *out, uint64_t number, int bytes)
{
    while (bytes-- > 0)
        kg_buf_char(out, (char)(number >> (8 * bytes)));
}

int backup_writer_begin(struct backup_writer *writer, int fd, struct kg_str header,
                        struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf start = {0};
    *writer = (struct backup_writer){.fd = fd};
    if (sodium_init() < 0)
        return kg_fail(err, KG_E_INTERNAL, "libsodium failed to initialize");
    crypto_hash_sha256_init(&writer->hash);
    kg_buf_text(&start, MAGIC);
    backup_format_encode(&start, BACKUP_VERSION, 4);
    backup_format_encode(&start, header.length, 4);
    kg_buf_str(&start, header);
    return backup_format_put(writer, start.data, start.length, err);
}

int backup_write_entry(struct backup_writer *writer, const struct backup_entry *entry,
                       struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf record = {0};
    size_t length = strlen(entry->name);
    kg_buf_char(&record, (char)entry->kind);
    kg_buf_char(&record, (char)entry->place);
    backup_format_encode(&record, entry->mode, 4);
    backup_format_encode(&record, (uint64_t)entry->modified_ms, 8);
    backup_format_encode(&record, length, 4);
    kg_buf_append(&record, entry->name, length);
    return backup_format_put(writer, record.data, record.length, err);
}

int backup_write_piece(struct backup_writer *writer, struct kg_str piece, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf length = {0};
    backup_format_encode(&length, piece.length, 4);
    int result = backup_format_put(writer, length.data, length.length, err);
    return result < 0 || piece.length == 0
               ? result
               : backup_format_put(writer, piece.data, piece.length, err);
}

int backup_writer_end(struct backup_writer *writer, struct kg_err *err)
{
    unsigned char hash[HASH_BYTES];
    const char end = BACKUP_END;
    int result = backup_format_put(writer, &end, 1, err);
    crypto_hash_sha256_final(&writer->hash, hash);
    if (result == 0)
        result = kg_write_all(writer->fd, hash, sizeof(hash));
    if (result == 0 && fsync(writer->fd) < 0)
        result = -errno;
    return result < 0 ? kg_fail_errno(err, -result, "write the backup") : 0;
}

/* -- reading ----------------------------------------------------------------------------------- */

static int backup_format_refuse(const struct backup_reader *reader, const char *why,
                                struct kg_err *err)
{
    kg_fail(err, KG_E_INVALID_SOURCE, "backup %s: %s", reader->path, why);
    return -EBADMSG;
}

static int backup_format_fill(struct backup_reader *reader, struct kg_err *err)
{
    ssize_t got;
    do
        got = read(reader->fd, reader->buffer, BACKUP_PIECE_BYTES);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return kg_fail_errno(err, errno, "backup %s: read", reader->path);
    if (got == 0)
        return backup_format_refuse(reader, "it is truncated", err);
    reader->at = 0;
    reader->filled = (size_t)got;
    return 0;
}

static int backup_format_take(struct backup_reader *reader, void *to, size_t length, bool hashed,
                              struct kg_err *err)
{
    for (size_t done = 0; done < length;) {
        int result = reader->at == reader->filled ? backup_format_fill(reader, err) : 0;
        if (result < 0)
            return result;
        size_t more = reader->filled - reader->at;
        more = more < length - done ? more : length - done;
        memcpy((char *)to + done, reader->buffer + reader->at, more);
        reader->at += more;
        done += more;
    }
    if (hashed)
        crypto_hash_sha256_update(&reader->hash, to, length);
    return 0;
}

static int backup_format_take_number(struct backup_reader *reader, int bytes, uint64_t *ret_number,
                                     struct kg_err *err)
{
    unsigned char digits[8];
    int result = backup_format_take(reader, digits, (size_t)bytes, true, err);
    *ret_number = 0;
    for (int i = 0; result == 0 && i < bytes; i++)
        *ret_number = *ret_number << 8 | digits[i];
    return result;
}

static int backup_format_read_header(struct backup_reader *reader, struct kg_buf *ret_header,
                                     struct kg_err *err)
{
    char magic[sizeof(MAGIC) - 1];
    uint64_t version = 0, length = 0;
    int result = backup_format_take(reader, magic, sizeof(magic), true, err);
    if (result == 0 && memcmp(magic, MAGIC, sizeof(magic)) != 0)
        result = backup_format_refuse(reader, "it is not a backup of kaged", err);
    if (result == 0)
        result = backup_format_take_number(reader, 4, &version, err);
    if (result == 0 && version > BACKUP_VERSION) {
        kg_fail(err, KG_E_CONFLICT, "backup %s: a newer version of kaged made it", reader->path);
        return kg_hint(err, "restore it with that version");
    }
    if (result == 0)
        result = backup_format_take_number(reader, 4, &length, err);
    if (result == 0 && (version == 0 || length > HEADER_BYTES_MAX))
        result = backup_format_refuse(reader, "it is damaged", err);
    if (result < 0)
        return result;
    kg_buf_reserve(ret_header, length);
    result = backup_format_take(reader, ret_header->data + ret_header->length, length, true, err);
    ret_header->length += result == 0 ? length : 0;
    return result;
}

int backup_reader_open(struct backup_reader *reader, const char *path, struct kg_buf *ret_header,
                       struct kg_err *err)
{
    *reader = (struct backup_reader){.fd = -1, .path = path};
    if (sodium_init() < 0)
        return kg_fail(err, KG_E_INTERNAL, "libsodium failed to initialize");
    reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (reader->fd < 0) {
        int result = kg_fail_errno(err, errno, "backup %s: open", path);
        if (err != NULL && result == -ENOENT)
            err->code = KG_E_NOT_FOUND;
        return result;
    }
    reader->buffer = kg_alloc(BACKUP_PIECE_BYTES);
    crypto_hash_sha256_init(&reader->hash);
    return backup_format_read_header(reader, ret_header, err);
}

void backup_reader_close(struct backup_reader *reader)
{
    kg_close(&reader->fd);
    kg_free(&reader->buffer);
}

static int backup_format_read_end(struct backup_reader *reader, struct kg_err *err)
{
    unsigned char hash[HASH_BYTES], written[HASH_BYTES];
    char more;
    crypto_hash_sha256_final(&reader->hash, hash);
    int result = backup_format_take(reader, written, sizeof(written), false, err);
    if (result == 0 && memcmp(hash, written, sizeof(hash)) != 0)
        result = backup_format_refuse(reader, "it was changed or is damaged", err);
    if (result == 0 && (reader->at < reader->filled || read(reader->fd, &more, 1) != 0))
        result = backup_format_refuse(reader, "there is data after its end", err);
    return result;
}

/* No way out of the root, and nothing that two systems read differently. */
static bool backup_format_is_name(const char *name, size_t length)
{
    if (strlen(name) != length || name[0] == '/')
        return false;
    for (const char *part = name; length > 0;) {
        size_t size = strcspn(part, "/");
        if (size == 0 || (size == 1 && part[0] == '.') ||
            (size == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        if (part[size] == '\0')
            return true;
        part += size + 1;
    }
    return true;
}

int backup_read_entry(struct backup_reader *reader, struct backup_entry *ret_entry,
                      struct kg_err *err)
{
    uint64_t kind = 0, place = 0, mode = 0, modified = 0, length = 0;
    int result = backup_format_take_number(reader, 1, &kind, err);
    ret_entry->kind = (enum backup_kind)kind;
    if (result == 0 && kind == BACKUP_END)
        return backup_format_read_end(reader, err);
    if (result == 0)
        result = backup_format_take_number(reader, 1, &place, err);
    if (result == 0)
        result = backup_format_take_number(reader, 4, &mode, err);
    if (result == 0)
        result = backup_format_take_number(reader, 8, &modified, err);
    if (result == 0)
        result = backup_format_take_number(reader, 4, &length, err);
    if (result < 0)
        return result;
    if (strchr("DFL", (int)kind) == NULL || kind == 0 || place >= BACKUP_PLACES ||
        length >= sizeof(ret_entry->name))
        return backup_format_refuse(reader, "it was changed or is damaged", err);
    ret_entry->place = (enum backup_place)place;
    ret_entry->mode = (uint32_t)mode & 0777;
    ret_entry->modified_ms = (int64_t)modified;
    result = backup_format_take(reader, ret_entry->name, length, true, err);
    ret_entry->name[length] = '\0';
    if (result == 0 &&
        (!backup_format_is_name(ret_entry->name, length) || (length == 0 && kind != BACKUP_FOLDER)))
        result = backup_format_refuse(reader, "it was changed or is damaged", err);
    return result;
}

int backup_read_piece(struct backup_reader *reader, char piece[BACKUP_PIECE_BYTES],
                      size_t *ret_length, struct kg_err *err)
{
    uint64_t length = 0;
    int result = backup_format_take_number(reader, 4, &length, err);
    if (result == 0 && length > BACKUP_PIECE_BYTES)
        result = backup_format_refuse(reader, "it was changed or is damaged", err);
    if (result == 0)
        result = backup_format_take(reader, piece, length, true, err);
    *ret_length = result == 0 ? length : 0;
    return result;
}
