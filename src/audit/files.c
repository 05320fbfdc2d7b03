/* The folder of the log and the lines of one file; a line is given whole or not at all. */
#include "audit/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_BYTES ((size_t)256 * 1024)

void audit_file_name(uint32_t number, char ret_name[AUDIT_NAME_MAX])
{
    snprintf(ret_name, AUDIT_NAME_MAX, "audit-%06" PRIu32 ".ndjson", number);
}

char *audit_file_path(const char *dir, uint32_t number)
{
    char name[AUDIT_NAME_MAX];
    audit_file_name(number, name);
    return kg_format("%s/%s", dir, name);
}

int audit_sync_dir(const char *dir, struct kg_err *err)
{
    kg_auto(kg_close) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return kg_fail_errno(err, errno, "sync folder %s", dir);
    return 0;
}

/* -- the folder -------------------------------------------------------------------------------- */

static bool audit_files_number_of(const char *name, uint32_t *ret_number)
{
    uint32_t number;
    char same[AUDIT_NAME_MAX];
    if (sscanf(name, "audit-%9" SCNu32, &number) != 1)
        return false;
    audit_file_name(number, same);
    *ret_number = number;
    return strcmp(name, same) == 0;
}

static int by_number(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static void audit_files_close_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

int audit_files_list(const char *dir, struct audit_files *ret_files, struct kg_err *err)
{
    kg_auto(audit_files_close_dir) DIR *folder = opendir(dir);
    if (folder == NULL)
        return kg_fail_errno(err, errno, "audit log %s: open", dir);
    kg_auto(audit_files_free) struct audit_files files = {0};
    size_t room = 0;
    struct dirent *entry;
    while (errno = 0, (entry = readdir(folder)) != NULL) {
        uint32_t number;
        if (!audit_files_number_of(entry->d_name, &number))
            continue;
        if (files.count == room) {
            room = room ? room * 2 : 16;
            files.numbers = kg_realloc(files.numbers, room * sizeof(*files.numbers));
        }
        files.numbers[files.count++] = number;
    }
    if (errno != 0)
        return kg_fail_errno(err, errno, "audit log %s: list", dir);
    if (files.count > 0)
        qsort(files.numbers, files.count, sizeof(*files.numbers), by_number);
    *ret_files = files;
    files = (struct audit_files){0};
    return 0;
}

void audit_files_free(struct audit_files *files)
{
    free(files->numbers);
    *files = (struct audit_files){0};
}

/* -- lines ------------------------------------------------------------------------------------- */

int audit_reader_open(struct audit_reader *reader, const char *dir, uint32_t number,
                      struct kg_err *err)
{
    kg_auto(kg_free) char *path = audit_file_path(dir, number);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return kg_fail_errno(err, errno, "open %s", path);
    *reader = (struct audit_reader){.fd = fd};
    kg_buf_reserve(&reader->buf, READ_BYTES);
    return 0;
}

int audit_reader_seek(struct audit_reader *reader, uint64_t offset, struct kg_err *err)
{
    if (lseek(reader->fd, (off_t)offset, SEEK_SET) < 0)
        return kg_fail_errno(err, errno, "audit log: seek");
    reader->buf.length = reader->at = 0;
    reader->offset = offset;
    return 0;
}

void audit_reader_close(struct audit_reader *reader)
{
    if (reader->buf.data == NULL)
        return;
    kg_close(&reader->fd);
    kg_buf_free(&reader->buf);
}

/* Reads more behind what is there; 0 at the end of the file. */
static ssize_t audit_files_read_more(struct audit_reader *reader, struct kg_err *err)
{
    struct kg_buf *buf = &reader->buf;
    kg_buf_consume(buf, reader->at);
    reader->at = 0;
    if (buf->length > AUDIT_LINE_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "audit log: a line is longer than %zu bytes",
                       AUDIT_LINE_MAX);
    kg_buf_reserve(buf, READ_BYTES / 2);
    ssize_t got;
    do
        got = read(reader->fd, buf->data + buf->length, buf->capacity - buf->length);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return kg_fail_errno(err, errno, "audit log: read");
    buf->length += (size_t)got;
    return got;
}

int audit_reader_next(struct audit_reader *reader, struct kg_str *ret_line, struct kg_err *err)
{
    size_t searched = 0; /* behind `at`: no newline up to there */
    for (;;) {
        const char *start = reader->buf.data + reader->at;
        size_t length = reader->buf.length - reader->at;
        const char *newline = memchr(start + searched, '\n', length - searched);
        if (newline) {
            *ret_line = (struct kg_str){start, (size_t)(newline - start) + 1};
            reader->at += ret_line->length;
            reader->offset += ret_line->length;
            return 1;
        }
        searched = length;
        ssize_t got = audit_files_read_more(reader, err);
        if (got <= 0)
            return (int)got;
    }
}

size_t audit_reader_rest(const struct audit_reader *reader)
{
    return reader->buf.length - reader->at;
}

bool audit_is_event(struct kg_str line)
{
    return line.length > AUDIT_HEAD_LENGTH && kg_str_starts(line, "{\"ts\":\"") &&
           memcmp(line.data + AUDIT_ID_AT, "evt_", 4) == 0;
}

int audit_first_seal(const char *dir, uint32_t number, struct audit_seal *ret_seal, bool *ret_found,
                     struct kg_err *err)
{
    kg_auto(audit_reader_close) struct audit_reader reader = {0};
    int result = audit_reader_open(&reader, dir, number, err);
    struct kg_str line;
    bool found = false;
    size_t covered;
    while (result >= 0 && !found && (result = audit_reader_next(&reader, &line, err)) > 0)
        found = audit_is_seal(line) && audit_seal_parse(line, ret_seal, &covered);
    if (result < 0)
        return result;
    *ret_found = found;
    return 0;
}
