/*
 * The log for who sends it on: event after event from a position that he keeps. Files are read
 * while they grow, and never changed. What a position is in the middle of, and what is gone since,
 * is told: nobody skips a line without knowing it.
 */
#include "audit/internal.h"

#include <errno.h>
#include <sys/stat.h>

int audit_end(const char *dir, struct audit_position *ret_position, struct kg_err *err)
{
    kg_auto(audit_files_free) struct audit_files files = {0};
    int result = audit_files_list(dir, &files, err);
    struct audit_position end = {0};
    struct stat found = {0};
    if (result < 0)
        return result;
    if (files.count > 0) {
        end.file = files.numbers[files.count - 1];
        kg_auto(kg_free) char *path = audit_file_path(dir, end.file);
        if (stat(path, &found) < 0)
            return kg_fail_errno(err, errno, "look at %s", path);
        end.offset = (uint64_t)found.st_size;
    }
    *ret_position = end;
    return 0;
}

uint64_t audit_bytes_after(const char *dir, const struct audit_position *position)
{
    kg_auto(audit_files_free) struct audit_files files = {0};
    uint64_t bytes = 0;
    if (audit_files_list(dir, &files, NULL) < 0)
        return 0;
    for (size_t i = 0; i < files.count; i++) {
        struct stat found;
        kg_auto(kg_free) char *path = audit_file_path(dir, files.numbers[i]);
        if (files.numbers[i] >= position->file && stat(path, &found) == 0)
            bytes += (uint64_t)found.st_size;
    }
    return bytes > position->offset ? bytes - position->offset : 0;
}

/* What of one file comes after the position; 1: take wants no more. */
static int read_file_on(const char *dir, struct audit_position *position, audit_take_fn *take,
                        void *data, struct kg_err *err)
{
    kg_auto(audit_reader_close) struct audit_reader reader = {0};
    struct kg_str line;
    int result = audit_reader_open(&reader, dir, position->file, err);
    if (result == 0)
        result = audit_reader_seek(&reader, position->offset, err);
    while (result == 0 && (result = audit_reader_next(&reader, &line, err)) > 0) {
        result =
            audit_is_event(line) ? take(data, (struct kg_str){line.data, line.length - 1}, err) : 0;
        if (result == 0)
            position->offset = reader.offset;
    }
    return result;
}

/* The files that the position is before, or in the middle of: the oldest one first. */
static size_t first_after(const struct audit_files *files, uint32_t file)
{
    size_t at = 0;
    while (at < files->count && files->numbers[at] < file)
        at++;
    return at;
}

static int count_event(void *data, struct kg_str line, struct kg_err *err)
{
    struct audit_position *position = data;
    (void)line, (void)err;
    position->lost++;
    return 0;
}

/* Past one that rotation removes next, and whatever it still has. */
static int count_rest(const char *dir, struct audit_position *position, struct kg_err *err)
{
    struct audit_position at = *position;
    int result = read_file_on(dir, &at, count_event, &at, err);
    if (result == 0)
        *position = at;
    return result;
}

/* The file of the position, or the oldest behind it; -ENOENT: there is none. */
static int find_place(const char *dir, struct audit_files *ret_files, size_t *ret_at,
                      const struct audit_position *position, struct kg_err *err)
{
    int result = audit_files_list(dir, ret_files, err);
    if (result < 0)
        return result;
    *ret_at = first_after(ret_files, position->file);
    return *ret_at < ret_files->count ? 0 : -ENOENT;
}

int audit_skip_rotated(const char *dir, unsigned keep, struct audit_position *position,
                       struct kg_err *err)
{
    kg_auto(audit_files_free) struct audit_files files = {0};
    size_t at;
    int result = find_place(dir, &files, &at, position, err);
    if (result < 0)
        return result == -ENOENT ? 0 : result;
    uint32_t newest = files.numbers[files.count - 1];
    if (files.numbers[at] != position->file) {
        position->lost_files += position->file > 0 ? files.numbers[at] - position->file : 0;
        position->file = files.numbers[at];
        position->offset = 0;
    }
    while (result == 0 && keep > 0 && at + 1 < files.count &&
           (uint64_t)position->file + keep <= (uint64_t)newest + 1) {
        result = count_rest(dir, position, err);
        if (result == 0) {
            position->file = files.numbers[++at];
            position->offset = 0;
        }
    }
    return result;
}

int audit_read_on(const char *dir, struct audit_position *position, audit_take_fn *take, void *data,
                  struct kg_err *err)
{
    kg_auto(audit_files_free) struct audit_files files = {0};
    size_t at;
    int result = find_place(dir, &files, &at, position, err);
    if (result < 0)
        return result == -ENOENT ? 0 : result;
    for (; result == 0 && at < files.count; at++) {
        if (position->file != files.numbers[at]) {
            position->file = files.numbers[at];
            position->offset = 0;
        }
        result = read_file_on(dir, position, take, data, err);
    }
    return result < 0 ? result : 0;
}
