/*
 * After the drop from root a cage cannot read root's own folders. So a root spawner, in a mount
 * namespace that nobody else sees, binds each of them where the cage's user may go, through a map
 * that shows root's files as that user's. The mounts are read-only and last until bwrap has copied
 * the namespace. A filesystem that knows no such maps is bound plainly: then its modes decide.
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

struct cage_stage {
    int user_map; /* a user namespace that maps root to the cage's user, or -1 */
    unsigned next;
};

/* Files of root are shown as the cage's user's, all others as their own. */
static int write_map(pid_t pid, const char *file, unsigned as)
{
    char path[64], map[128];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    int length = snprintf(map, sizeof(map), "0 %u 1\n1 1 %u\n%u %u %u\n", as, as - 1, as + 1,
                          as + 1, UINT32_MAX - 1 - as);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : kg_write_all(fd, map, (size_t)length);
}

static int open_map_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
    if (write_map(pid, "uid_map", CAGE_UID) < 0 || write_map(pid, "gid_map", CAGE_GID) < 0)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A namespace needs a process to be born in; it only waits to be killed. */
static int make_user_map(void)
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
    int map = pid > 0 && read(ready[0], &byte, 1) == 1 ? open_map_of(pid) : -1;
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
    struct cage_stage *stage = kg_alloc(sizeof(*stage));
    stage->user_map = make_user_map();
    return stage;
}

/* Without a map, what root keeps to itself stays so, and a cage of it could not even start. */
static int check_readable_by_all(int source, struct kg_err *err)
{
    struct stat status;
    if (fstat(source, &status) < 0)
        return kg_fail_errno(err, errno, "stage: stat");
    mode_t needed = S_ISDIR(status.st_mode) ? S_IROTH | S_IXOTH : S_IROTH;
    if ((status.st_mode & needed) == needed)
        return 0;
    return kg_fail(err, KG_E_CAGE,
                   "its filesystem cannot be mapped to the user of the cage, who may not read it: "
                   "give others read permission");
}

static int set_attributes(const struct cage_stage *stage, int tree, int source, struct kg_err *err)
{
    struct mount_attr attributes = {
        .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_IDMAP,
        .userns_fd = (uint64_t)stage->user_map,
    };
    if (stage->user_map >= 0 &&
        mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) == 0)
        return 0;
    attributes.attr_set &= ~(uint64_t)MOUNT_ATTR_IDMAP;
    attributes.userns_fd = 0;
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) < 0)
        return kg_fail_errno(err, errno, "stage: mount_setattr");
    return check_readable_by_all(source, err);
}

static int make_mount_point(const char *path, int source)
{
    struct stat status;
    if (fstat(source, &status) < 0)
        return -errno;
    if (S_ISDIR(status.st_mode))
        return mkdir(path, 0755) < 0 ? -errno : 0;
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : 0;
}

int cage_stage_add(struct cage_stage *stage, int source, char **ret_path, struct kg_err *err)
{
    kg_auto(kg_close) int tree =
        open_tree(source, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return kg_fail_errno(err, errno, "stage: open_tree");
    int result = set_attributes(stage, tree, source, err);
    if (result < 0)
        return result;
    kg_auto(kg_free) char *path = kg_format("%s/%u", STAGE_FOLDER, stage->next++);
    result = make_mount_point(path, source);
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
    kg_close(&stage->user_map);
    free(stage);
}
