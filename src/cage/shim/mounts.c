/*
 * What was bound is what the spawner opened, and nothing else was. bwrap goes by paths, and whoever
 * may write in a folder that is bound can move what lies in it, or put a link in its place, before
 * and between bwrap's steps; and undo it before anybody looks. But a mount stays the mount that it
 * became. So each has to be one of its own, at its path, of the right file and with no more rights
 * than it was to have. bwrap makes one mount for each: where all are right, none is a stranger's.
 */
#include "mounts.h"
#include "bare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#define MOUNTS_MAX 512

struct expected {
    char letter;
    const char *path;
    uint64_t major, minor, inode;
};

static uint64_t met[MOUNTS_MAX]; /* the mounts that were looked at */
static size_t met_count;

static struct expected next_expected(struct orders *orders)
{
    const char *word = orders_next(orders);
    struct expected expected = {.letter = word[0]};
    if (expected.letter == '\0')
        return expected;
    expected.path = word + 1;
    expected.major = bare_number(orders_next(orders));
    expected.minor = bare_number(orders_next(orders));
    expected.inode = bare_number(orders_next(orders));
    return expected;
}

static bool is_expected_file(const struct statx *status, const struct expected *expected)
{
    return (status->stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 &&
           status->stx_dev_major == expected->major && status->stx_dev_minor == expected->minor &&
           status->stx_ino == expected->inode;
}

static bool is_met_again(uint64_t mount)
{
    for (size_t i = 0; i < met_count; i++)
        if (met[i] == mount)
            return true;
    return false;
}

static long check_fd(long fd, const struct expected *expected)
{
    struct statx status;
    struct statfs mount;
    long flags = ST_NOSUID | ST_NODEV | (expected->letter == 'w' ? 0 : ST_RDONLY);
    long result = BARE_CALL(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                            STATX_INO | STATX_MNT_ID, &status);
    if (result < 0)
        return result;
    result = BARE_CALL(SYS_fstatfs, fd, &mount, 0, 0, 0);
    if (result < 0)
        return result;
    if (!is_expected_file(&status, expected) || is_met_again(status.stx_mnt_id) ||
        (mount.f_flags & flags) != flags)
        return -ESTALE;
    if (met_count == MOUNTS_MAX)
        return -E2BIG;
    met[met_count++] = status.stx_mnt_id;
    return 0;
}

long mounts_check(struct orders *orders, const char **ret_path)
{
    for (;;) {
        struct expected expected = next_expected(orders);
        if (expected.letter == '\0')
            return 0;
        *ret_path = expected.path;
        long fd =
            BARE_CALL(SYS_openat, AT_FDCWD, expected.path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0);
        if (fd < 0)
            return fd;
        long result = check_fd(fd, &expected);
        BARE_CALL(SYS_close, fd, 0, 0, 0, 0);
        if (result < 0)
            return result;
    }
}
