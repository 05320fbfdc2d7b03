/*
 * After the drop from root a cage cannot read root's own folders. So a root spawner, in a mount
 * namespace that nobody else sees, binds each of them where the cage's user may go, through a map
 * that shows the files of the folder's owner as that user's: what the plugin writes is the owner's
 * on disk. What is mounted below a folder is not there. The mounts last until bwrap has copied the
 * namespace. A filesystem that knows no such maps is bound plainly: then its modes decide.
 */
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Not below the daemon's own run folder, which is closed to others. */
#define STAGE_FOLDER "/run/kaged-stage"

#define MAPS_MAX 16 /* owners whose maps are kept; another takes the place of the oldest */

/* A user namespace that maps an owner to the cage's user. */
struct owner_map {
    uid_t uid;
    gid_t gid;
    int fd; /* -1: there is none here */
};

struct cage_stage {
    struct owner_map maps[MAPS_MAX];
    unsigned map_count; /* ever made */
    unsigned next;
};

/* One range of a map, unless it is empty. */
static void add_range(struct kg_buf *map, uint64_t first, uint64_t as, uint64_t end)
{
    if (first < end)
        kg_buf_printf(map, "%llu %llu %llu\n", (unsigned long long)first, (unsigned long long)as,
                      (unsigned long long)(end - first));
}

/* The owner's files are shown as the cage's user's, all others but that user's as their own. */
static int write_map(pid_t pid, const char *file, uint32_t owner, uint32_t as)
{
    uint32_t low = owner < as ? owner : as, high = owner < as ? as : owner;
    kg_auto(kg_buf_free) struct kg_buf map = {0};
    add_range(&map, 0, 0, low);
    add_range(&map, owner, as, (uint64_t)owner + 1);
    add_range(&map, (uint64_t)low + 1, (uint64_t)low + 1, high);
    add_range(&map, (uint64_t)high + 1, (uint64_t)high + 1, UINT32_MAX);
    kg_auto(kg_free) char *path = kg_format("/proc/%d/%s", pid, file);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : kg_write_all(fd, map.data, map.length);
}

static int open_map_of(pid_t pid, const struct owner_map *owner)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
    if (write_map(pid, "uid_map", owner->uid, CAGE_UID) < 0 ||
        write_map(pid, "gid_map", owner->gid, CAGE_GID) < 0)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A namespace needs a process to be born in; it only waits to be killed. */
static int make_user_map(const struct owner_map *owner)
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
    int map = pid > 0 && read(ready[0], &byte, 1) == 1 ? open_map_of(pid, owner) : -1;
    close(ready[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return map;
}

static int make_folder(struct kg_err *err)
{
    if (unshare(CLONE_NEWNS) < 0)
        return kg_fail_errno(err, errno, "stage: unshare mount namespace");
    /* The host's later mounts still come in, ours do not go out. */
    if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) < 0)
        return kg_fail_errno(err, errno, "stage: make mounts slave");
    int result = kg_make_dirs(STAGE_FOLDER, 0755, err);
    if (result < 0)
        return kg_wrap(err, result, "stage");
    if (chmod(STAGE_FOLDER, 0755) < 0) /* the daemon's umask is strict */
        return kg_fail_errno(err, errno, "stage: chmod %s", STAGE_FOLDER);
    if (mount("kaged", STAGE_FOLDER, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "mode=0755,size=1m") < 0)
        return kg_fail_errno(err, errno, "stage: mount %s", STAGE_FOLDER);
    return 0;
}

struct cage_stage *cage_stage_new(struct kg_err *err)
{
    if (make_folder(err) < 0)
        return NULL;
    return kg_alloc(sizeof(struct cage_stage));
}

static unsigned maps_kept(const struct cage_stage *stage)
{
    return stage->map_count < MAPS_MAX ? stage->map_count : MAPS_MAX;
}

/* The fd of the map for what has this owner, or -1; it stays the stage's. */
static int map_for(struct cage_stage *stage, const struct stat *status)
{
    for (unsigned i = 0; i < maps_kept(stage); i++)
        if (stage->maps[i].uid == status->st_uid && stage->maps[i].gid == status->st_gid)
            return stage->maps[i].fd;
    struct owner_map *map = &stage->maps[stage->map_count % MAPS_MAX];
    if (stage->map_count++ >= MAPS_MAX)
        kg_close(&map->fd);
    *map = (struct owner_map){.uid = status->st_uid, .gid = status->st_gid};
    map->fd = make_user_map(map);
    return map->fd;
}

/* Which of read, write and search, as in S_IRWXO, the cage's user has by the modes alone. */
static mode_t rights_by_mode(const struct stat *status)
{
    if (status->st_uid == CAGE_UID)
        return status->st_mode >> 6 & S_IRWXO;
    if (status->st_gid == CAGE_GID)
        return status->st_mode >> 3 & S_IRWXO;
    return status->st_mode & S_IRWXO;
}

/* Without a map, what an owner keeps to himself stays so, and a cage of it could not even start. */
static int check_rights(const struct stat *status, bool write, struct kg_err *err)
{
    mode_t needed = S_IROTH | (write ? S_IWOTH : 0) | (S_ISDIR(status->st_mode) ? S_IXOTH : 0);
    if ((rights_by_mode(status) & needed) == needed)
        return 0;
    return kg_fail(err, KG_E_CAGE,
                   "its filesystem cannot be mapped to the user of the cage, who may not %s it: "
                   "give others %s permission",
                   write ? "write" : "read", write ? "write" : "read");
}

static int set_attributes(struct cage_stage *stage, int tree, const struct stat *status, bool write,
                          struct kg_err *err)
{
    int map = map_for(stage, status);
    struct mount_attr attributes = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                    (uint64_t)(write ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_RDONLY) | MOUNT_ATTR_IDMAP,
        .userns_fd = (uint64_t)map,
    };
    if (map >= 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) == 0)
        return 0;
    attributes.attr_set &= ~(uint64_t)MOUNT_ATTR_IDMAP;
    attributes.userns_fd = 0;
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) < 0)
        return kg_fail_errno(err, errno, "stage: mount_setattr");
    return check_rights(status, write, err);
}

static int make_mount_point(const char *path, const struct stat *status)
{
    if (S_ISDIR(status->st_mode))
        return mkdir(path, 0755) < 0 ? -errno : 0;
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : 0;
}

int cage_stage_add(struct cage_stage *stage, int source, bool write, char **ret_path,
                   struct kg_err *err)
{
    struct stat status;
    if (fstat(source, &status) < 0)
        return kg_fail_errno(err, errno, "stage: stat");
    kg_auto(kg_close) int tree =
        open_tree(source, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return kg_fail_errno(err, errno, "stage: open_tree");
    int result = set_attributes(stage, tree, &status, write, err);
    if (result < 0)
        return result;
    kg_auto(kg_free) char *path = kg_format("%s/%u", STAGE_FOLDER, stage->next++);
    result = make_mount_point(path, &status);
    if (result < 0)
        return kg_fail_errno(err, -result, "stage: make %s", path);
    if (move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        int errnum = errno;
        cage_stage_remove(path);
        return kg_fail_errno(err, errnum, "stage: mount %s", path);
    }
    *ret_path = kg_steal(&path);
    return 0;
}

void cage_stage_remove(const char *path)
{
    umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
    if (rmdir(path) < 0)
        unlink(path);
}

void cage_stage_free(struct cage_stage *stage)
{
    if (stage == NULL)
        return;
    for (unsigned i = 0; i < maps_kept(stage); i++)
        kg_close(&stage->maps[i].fd);
    free(stage);
}
