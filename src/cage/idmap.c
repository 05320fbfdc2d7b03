/*
 * A user namespace that is only a table: it shows the files of an owner as those of the user that
 * root's cages run as, and all others as their own.
 */
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void put_same(struct kg_buf *map, uint32_t first, uint32_t end)
{
    if (first < end)
        kg_buf_printf(map, "%u %u %u\n", first, first, end - first);
}

/* Whoever already has the number `as` on disk is shown as nobody's. */
static void put_map(struct kg_buf *map, uint32_t owner, uint32_t as)
{
    uint32_t low = owner < as ? owner : as, high = owner < as ? as : owner;
    put_same(map, 0, low);
    kg_buf_printf(map, "%u %u 1\n", owner, as);
    put_same(map, low + 1, high);
    put_same(map, high + 1, UINT32_MAX);
}

static int write_map(pid_t pid, const char *file, uint32_t owner, uint32_t as)
{
    char path[64];
    kg_auto(kg_buf_free) struct kg_buf map = {0};
    put_map(&map, owner, as);
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : kg_write_all(fd, map.data, map.length);
}

static int open_map_of(pid_t pid, uid_t uid, gid_t gid, uid_t cage_uid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
    if (write_map(pid, "uid_map", uid, cage_uid) < 0 ||
        write_map(pid, "gid_map", gid, CAGE_GID) < 0)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A namespace needs a process to be born in; it only waits to be killed. */
int cage_idmap_new(uid_t uid, gid_t gid, uid_t cage_uid)
{
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWUSER) < 0 || write(ready[1], "", 1) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    char byte;
    int map = pid > 0 && read(ready[0], &byte, 1) == 1 ? open_map_of(pid, uid, gid, cage_uid) : -1;
    close(ready[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return map;
}

int cage_idmap_try(int map, const char *folder)
{
    kg_auto(kg_close) int tree =
        open_tree(AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    if (tree < 0)
        return -errno;
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)map};
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) < 0)
        return -errno;
    return 0;
}
