/*
 * Whom the cages of a root spawner run as. With a range of uids each cage has one of its own while
 * it lasts, from the bwrap that waits for it to its last process, so that no process of another
 * cage, or of the host, has the same; where they are used up no cage is started. The lower half of
 * the range is for these, in turn, and other spawners of this machine see which are taken. The
 * upper half is for plugins whose files cannot be mapped to whoever they run as (uids_fixed.c).
 * Without a range all run as one.
 */
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SUBUID_FILE      "/etc/subuid"
#define SUBUID_MAX_BYTES ((size_t)1 << 20)
#define UID_MAP_FILE     "/proc/self/uid_map"
#define CONFIGURED       65536             /* uids, from the one that the configuration names */
#define ENOUGH           1024              /* a range of fewer is none */
#define TAKEN_FILE       "/run/kaged-uids" /* the byte at a uid is locked while that is taken */

struct cage_uid_pool {
    struct cage_uids range;
    uint32_t next;
    bool *taken;   /* owned; of the lower half */
    int others_fd; /* by which spawners keep apart; -1: there is no such file */
};

/* -- the range --------------------------------------------------------------------------------- */

static bool uids_read_number(struct kg_str *line, int64_t *ret_number)
{
    size_t length = 0;
    while (length < line->length && line->data[length] != ':')
        length++;
    bool good = kg_str_to_int((struct kg_str){line->data, length}, ret_number);
    length += length < line->length;
    *line = (struct kg_str){line->data + length, line->length - length};
    return good;
}

/* NAME:FIRST:COUNT of that user, by his name or number. */
static bool uids_read_line(struct kg_str line, const char *name, uid_t uid,
                           struct cage_uids *ret_uids)
{
    int64_t first, count;
    const char *colon = memchr(line.data, ':', line.length);
    struct kg_str who = {line.data, colon ? (size_t)(colon - line.data) : 0};
    kg_auto(kg_free) char *number = kg_format("%u", (unsigned)uid);
    if (colon == NULL || !(kg_str_is(who, name) || kg_str_is(who, number)))
        return false;
    line = (struct kg_str){colon + 1, line.length - who.length - 1};
    if (!uids_read_number(&line, &first) || !uids_read_number(&line, &count) || first <= 0 ||
        count < ENOUGH || first + count >= UINT32_MAX)
        return false;
    *ret_uids = (struct cage_uids){.base = (uid_t)first, .count = (uint32_t)count};
    return true;
}

bool cage_uids_read(struct kg_str text, const char *name, uid_t uid, struct cage_uids *ret_uids)
{
    while (text.length > 0) {
        const char *end = memchr(text.data, '\n', text.length);
        size_t length = end ? (size_t)(end - text.data) : text.length;
        if (uids_read_line((struct kg_str){text.data, length}, name, uid, ret_uids))
            return true;
        length += end != NULL;
        text = (struct kg_str){text.data + length, text.length - length};
    }
    return false;
}

bool cage_uids_are_mapped(struct kg_str map, const struct cage_uids *uids)
{
    kg_auto(kg_free) char *text = kg_str_dup(map);
    char *next = text;
    for (char *line; (line = strsep(&next, "\n")) != NULL;) {
        unsigned long long first, outside, count;
        if (sscanf(line, "%llu %llu %llu", &first, &outside, &count) == 3 && uids->base >= first &&
            (uint64_t)uids->base + uids->count <= first + count)
            return true;
    }
    return false;
}

static struct cage_uids find_range(int64_t base, const struct cage_owner *owner)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct cage_uids uids = {0};
    if (base > 0)
        return (struct cage_uids){.base = (uid_t)base, .count = CONFIGURED};
    if (kg_read_file(SUBUID_FILE, SUBUID_MAX_BYTES, &text, NULL) < 0 ||
        cage_uids_read(kg_buf_view(&text), "root", 0, &uids))
        return uids;
    const struct passwd *entry = owner->uid != 0 ? getpwuid(owner->uid) : NULL;
    if (entry != NULL)
        cage_uids_read(kg_buf_view(&text), entry->pw_name, owner->uid, &uids);
    return uids;
}

/* In a container most uids are nobody's: root cannot become what is not mapped there. */
struct cage_uids cage_uids_find(int64_t base, const struct cage_owner *owner)
{
    kg_auto(kg_buf_free) struct kg_buf map = {0};
    struct cage_uids uids = geteuid() == 0 ? find_range(base, owner) : (struct cage_uids){0};
    if (uids.count > 0 && (kg_read_file(UID_MAP_FILE, SUBUID_MAX_BYTES, &map, NULL) < 0 ||
                           !cage_uids_are_mapped(kg_buf_view(&map), &uids)))
        return (struct cage_uids){0};
    return uids;
}

/* -- one of them ------------------------------------------------------------------------------- */

static uint32_t half(const struct cage_uid_pool *pool)
{
    return pool->range.count / 2;
}

struct cage_uids cage_uids_fixed(struct cage_uids range)
{
    uint32_t lower = range.count / 2;
    return (struct cage_uids){.base = range.base + lower, .count = range.count - lower};
}

struct cage_uid_pool *cage_uid_pool_new(struct cage_uids range)
{
    struct cage_uid_pool *pool = kg_alloc(sizeof(*pool));
    pool->range = range;
    pool->taken = kg_alloc_array(half(pool) + 1, sizeof(*pool->taken));
    pool->others_fd =
        range.count > 0 ? open(TAKEN_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    return pool;
}

void cage_uid_pool_free(struct cage_uid_pool *pool)
{
    if (pool == NULL)
        return;
    kg_close(&pool->others_fd);
    free(pool->taken);
    free(pool);
}

/* Among spawners; the kernel gives back what a dead one has. */
static bool lock_uid(const struct cage_uid_pool *pool, uid_t uid, short kind)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = (off_t)uid, .l_len = 1};
    return pool->others_fd < 0 || fcntl(pool->others_fd, F_OFD_SETLK, &lock) == 0;
}

int cage_uid_take(struct cage_uid_pool *pool, uid_t *ret_uid, struct kg_err *err)
{
    if (pool->range.count == 0) {
        *ret_uid = CAGE_UID;
        return 0;
    }
    for (uint32_t tried = 0; tried < half(pool); tried++) {
        uint32_t at = pool->next++ % half(pool);
        if (pool->taken[at] || !lock_uid(pool, pool->range.base + at, F_WRLCK))
            continue;
        pool->taken[at] = true;
        *ret_uid = pool->range.base + at;
        return 0;
    }
    kg_fail(err, KG_E_CAGE, "all %u uids for running cages are in use", (unsigned)half(pool));
    kg_hint(err, "give root a larger range in /etc/subuid, or let fewer plugins run");
    return -EAGAIN;
}

void cage_uid_give(struct cage_uid_pool *pool, uid_t uid)
{
    if (uid < pool->range.base || uid - pool->range.base >= half(pool))
        return;
    pool->taken[uid - pool->range.base] = false;
    (void)lock_uid(pool, uid, F_UNLCK);
}
