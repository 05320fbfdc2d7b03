/*
 * The uids that plugins have for good, where their files cannot be mapped to whoever they run as. A
 * uid that was given to a name is never another's: who has which is written down in a file of the
 * home, a line each, since what a plugin wrote on disk outlives it. A name begins to look where its
 * hash says, so that without the file it would most likely find the same.
 */
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define RECORD_MAX_BYTES ((size_t)4 << 20)

struct cage_uid_record {
    struct cage_uids range; /* of these alone */
    char *file;             /* owned; NULL: it is remembered by us alone */
    char **names;           /* owned; by uid, NULL where it is free */
};

struct cage_uid_record *cage_uid_record_new(struct cage_uids range, const char *file_or_null)
{
    struct cage_uid_record *record = kg_alloc(sizeof(*record));
    record->range = range;
    record->file = file_or_null != NULL ? kg_strdup(file_or_null) : NULL;
    record->names = kg_alloc_array(range.count + 1, sizeof(*record->names));
    return record;
}

void cage_uid_record_free(struct cage_uid_record *record)
{
    if (record == NULL)
        return;
    for (uint32_t at = 0; at < record->range.count; at++)
        free(record->names[at]);
    free(record->names);
    free(record->file);
    free(record);
}

/* -1: it has none. */
static int64_t uids_fixed_find(const struct cage_uid_record *record, const char *name)
{
    for (uint32_t at = 0; at < record->range.count; at++)
        if (record->names[at] != NULL && strcmp(record->names[at], name) == 0)
            return at;
    return -1;
}

static uint32_t first_of(const struct cage_uid_record *record, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return (uint32_t)(hash % record->range.count);
}

static int64_t find_free(const struct cage_uid_record *record, const char *name)
{
    uint32_t first = first_of(record, name);
    for (uint32_t tried = 0; tried < record->range.count; tried++) {
        uint32_t at = (first + tried) % record->range.count;
        if (record->names[at] == NULL)
            return at;
    }
    return -1;
}

/* UID NAME. What is of another range, or of two names, counts as it was first. */
static void uids_fixed_take_line(struct cage_uid_record *record, struct kg_str line)
{
    int64_t uid;
    const char *blank = line.length > 0 ? memchr(line.data, ' ', line.length) : NULL;
    struct kg_str number = {line.data, blank != NULL ? (size_t)(blank - line.data) : 0};
    if (blank == NULL || !kg_str_to_int(number, &uid) || uid < (int64_t)record->range.base ||
        uid - (int64_t)record->range.base >= (int64_t)record->range.count)
        return;
    size_t at = (size_t)(uid - (int64_t)record->range.base);
    kg_auto(kg_free) char *name =
        kg_str_dup((struct kg_str){blank + 1, line.length - number.length - 1});
    if (record->names[at] == NULL && uids_fixed_find(record, name) < 0)
        record->names[at] = kg_steal(&name);
}

/* How much of it is lines: the writer of the last may have been killed. */
static size_t uids_fixed_take_lines(struct cage_uid_record *record, struct kg_str text)
{
    size_t taken = 0;
    for (const char *end; taken < text.length; taken = (size_t)(end - text.data) + 1) {
        end = memchr(text.data + taken, '\n', text.length - taken);
        if (end == NULL)
            break;
        uids_fixed_take_line(record,
                             (struct kg_str){text.data + taken, (size_t)(end - text.data) - taken});
    }
    return taken;
}

static int uids_fixed_write_line(const struct cage_uid_record *record, int fd, int64_t at,
                                 const char *name)
{
    kg_auto(kg_free) char *line =
        kg_format("%lld %s\n", (long long)record->range.base + (long long)at, name);
    int result = kg_write_all(fd, line, strlen(line));
    return result == 0 && fdatasync(fd) < 0 ? -errno : result;
}

static int uids_fixed_give(struct cage_uid_record *record, int fd, const char *name,
                           struct kg_err *err)
{
    int64_t at = uids_fixed_find(record, name);
    if (at >= 0)
        return 0;
    at = find_free(record, name);
    if (at < 0) {
        kg_fail(err, KG_E_CAGE,
                "all %u uids for plugins whose files cannot be mapped are given away",
                (unsigned)record->range.count);
        return kg_hint(err, "give root a larger range in /etc/subuid");
    }
    int result = fd >= 0 ? uids_fixed_write_line(record, fd, at, name) : 0;
    if (result < 0)
        return kg_fail_errno(err, -result, "write down its uid in %s", record->file);
    record->names[at] = kg_strdup(name);
    return 0;
}

/* Another spawner of this home may have given one away since we looked: the lock keeps us apart. */
static int give_by_file(struct cage_uid_record *record, const char *name, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_close) int fd =
        open(record->file, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0)
        return kg_fail_errno(err, errno, "open %s", record->file);
    int result = kg_read_fd(fd, record->file, RECORD_MAX_BYTES, &text, err);
    if (result < 0)
        return result;
    size_t taken = uids_fixed_take_lines(record, kg_buf_view(&text));
    if (taken < text.length && ftruncate(fd, (off_t)taken) < 0)
        return kg_fail_errno(err, errno, "cut %s", record->file);
    return uids_fixed_give(record, fd, name, err);
}

int cage_uid_fixed(struct cage_uid_record *record, const struct cage_owner *owner, const char *name,
                   uid_t *ret_uid, struct kg_err *err)
{
    int result = 0;
    if (uids_fixed_find(record, name) < 0 && record->file == NULL) {
        result = uids_fixed_give(record, -1, name, err);
    } else if (uids_fixed_find(record, name) < 0) {
        /* The file is the owner's, and so is what its path leads through. */
        if (owner->uid != 0 && (result = cage_owner_enter(owner, err)) < 0)
            return result;
        result = give_by_file(record, name, err);
        if (owner->uid != 0)
            cage_owner_leave();
    }
    if (result == 0)
        *ret_uid = record->range.base + (uid_t)uids_fixed_find(record, name);
    return result;
}
