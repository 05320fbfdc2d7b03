/*
 * After the drop from root a cage cannot read what its owner keeps to himself. So a root spawner,
 * in a mount namespace that nobody else sees, binds each of it where the cage's user may go,
 * through a map that shows an owner's files as that user's: what the plugin writes is the owner's
 * on disk. What is mounted below a folder, now or later, is not there. A filesystem that knows no
 * such maps is bound plainly: then its modes decide, and a plugin has to be the same user always.
 *
 * bwrap copies the mounts that it finds, and reads the list of them all after each that it makes.
 * So each bwrap gets a room: a mount namespace without those of the host that no cage is made of.
 * What is bound for its cage is bound there, and lasts until the cage has copied it.
 */
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* Not below the daemon's own run folder, which is closed to others. */
#define STAGE_FOLDER "/run/kaged-stage"

#define RECENT_MAX 3  /* owners that the next cage may have folders of */
#define MAPS_MAX   16 /* owners whose maps are kept; another takes the place of the oldest */

/* Mounts that no cage is made of: each is the kernel's, or holds what is staged from elsewhere. */
static const char *const unneeded[] = {"/sys",        "/dev/pts",       "/dev/shm",
                                       "/dev/mqueue", "/dev/hugepages", "/boot"};
#define STACKED_MAX 8 /* on one mount point */

/* A user namespace that maps an owner to the cage's user. */
struct owner_map {
    uid_t uid, cage_uid;
    int fd;
};

struct cage_stage {
    struct cage_owner owner;
    struct owner_map maps[MAPS_MAX];
    unsigned map_count;       /* ever made */
    uid_t recent[RECENT_MAX]; /* owners whose maps are made ahead */
    unsigned recent_count;    /* ever met */
    unsigned next;
    int home; /* our own mount namespace, */
    int room; /* and one to make rooms of; -1: it cannot be made, and bwrap does without */
};

static int stage_make_folder(struct kg_err *err)
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

/* -- rooms ------------------------------------------------------------------------------------- */

/* To go on in a room, where the host is not whole, would be worse than to end. */
static void go_home(const struct cage_stage *stage)
{
    if (setns(stage->home, CLONE_NEWNS) < 0)
        abort();
}

static int open_mounts(void)
{
    return open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
}

/* The host's later mounts come into it, as into the one that it is copied from. */
static void stage_make_room(struct cage_stage *stage)
{
    stage->home = open_mounts();
    /* That we are here already does not matter: whoever cannot go home must not leave. */
    if (stage->home < 0 || setns(stage->home, CLONE_NEWNS) < 0 || unshare(CLONE_NEWNS) < 0)
        return;
    for (size_t i = 0; i < KG_COUNT(unneeded); i++)
        for (unsigned times = 0; times < STACKED_MAX; times++)
            if (umount2(unneeded[i], MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
                break;
    stage->room = open_mounts();
    go_home(stage);
}

int cage_stage_enter_room(const struct cage_stage *stage)
{
    if (stage == NULL || stage->room < 0 || setns(stage->room, CLONE_NEWNS) < 0)
        return -1;
    kg_auto(kg_close) int room = unshare(CLONE_NEWNS) < 0 ? -1 : open_mounts();
    if (room < 0)
        go_home(stage);
    return kg_steal_fd(&room);
}

void cage_stage_leave_room(const struct cage_stage *stage, int room)
{
    if (room >= 0)
        go_home(stage);
}

/* -- the stage --------------------------------------------------------------------------------- */

struct cage_stage *cage_stage_new(const struct cage_owner *owner, struct kg_err *err)
{
    if (stage_make_folder(err) < 0)
        return NULL;
    struct cage_stage *stage = kg_alloc(sizeof(*stage));
    *stage = (struct cage_stage){.owner = *owner, .home = -1, .room = -1};
    stage_make_room(stage);
    return stage;
}

const struct cage_owner *cage_stage_owner(const struct cage_stage *stage)
{
    return &stage->owner;
}

static unsigned maps_kept(const struct cage_stage *stage)
{
    return stage->map_count < MAPS_MAX ? stage->map_count : MAPS_MAX;
}

/*
 * The group that an owner has at his login, whatever the group of his folder is: a plugin has no
 * right that he lacks, and its new files look as if he had made them. Nobody's, if he is unknown.
 */
static gid_t group_of(const struct cage_stage *stage, uid_t uid)
{
    if (uid == stage->owner.uid)
        return stage->owner.gid;
    const struct passwd *entry = getpwuid(uid);
    return entry != NULL ? entry->pw_gid : CAGE_GID;
}

/*
 * The fd of the map for what has this owner, or -1; it stays the stage's. Root may act for whoever
 * a folder belongs to; another daemon only for its own user.
 */
static int map_for(struct cage_stage *stage, uid_t uid, uid_t cage_uid)
{
    for (unsigned i = 0; i < maps_kept(stage); i++)
        if (stage->maps[i].uid == uid && stage->maps[i].cage_uid == cage_uid)
            return stage->maps[i].fd;
    int fd = cage_idmap_new(uid, group_of(stage, uid), cage_uid);
    if (fd < 0)
        return -1; /* the next start may have more luck */
    struct owner_map *map = &stage->maps[stage->map_count % MAPS_MAX];
    if (stage->map_count++ >= MAPS_MAX)
        kg_close(&map->fd);
    *map = (struct owner_map){uid, cage_uid, fd};
    return fd;
}

static uid_t owner_of(const struct cage_stage *stage, const struct stat *status)
{
    return stage->owner.uid == 0 ? status->st_uid : stage->owner.uid;
}

static void note_owner(struct cage_stage *stage, uid_t uid)
{
    for (unsigned i = 0; i < RECENT_MAX && i < stage->recent_count; i++)
        if (stage->recent[i] == uid)
            return;
    stage->recent[stage->recent_count++ % RECENT_MAX] = uid;
}

void cage_stage_make_maps(struct cage_stage *stage, uid_t cage_uid)
{
    for (unsigned i = 0; stage != NULL && i < RECENT_MAX && i < stage->recent_count; i++)
        (void)map_for(stage, stage->recent[i], cage_uid);
}

/* Which of read, write and search, as in S_IRWXO, the cage's user has by the modes alone. */
static mode_t rights_by_mode(const struct stat *status, uid_t cage_uid)
{
    if (status->st_uid == cage_uid)
        return status->st_mode >> 6 & S_IRWXO;
    if (status->st_gid == CAGE_GID)
        return status->st_mode >> 3 & S_IRWXO;
    return status->st_mode & S_IRWXO;
}

/* Without a map, what an owner keeps to himself stays so, and a cage of it could not even start. */
static int check_rights(const struct stat *status, bool write, uid_t cage_uid, struct kg_err *err)
{
    mode_t needed = S_IROTH | (write ? S_IWOTH : 0) | (S_ISDIR(status->st_mode) ? S_IXOTH : 0);
    if ((rights_by_mode(status, cage_uid) & needed) == needed)
        return 0;
    return kg_fail(err, KG_E_CAGE,
                   "its filesystem cannot be mapped to the user of the cage, who may not %s it: "
                   "give others %s permission",
                   write ? "write" : "read", write ? "write" : "read");
}

static int set_attributes(struct cage_stage *stage, int tree, const struct stat *owned, bool write,
                          struct cage_user user, struct kg_err *err)
{
    int map = map_for(stage, owner_of(stage, owned), user.uid);
    note_owner(stage, owner_of(stage, owned));
    struct mount_attr attributes = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                    (uint64_t)(write ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_RDONLY) | MOUNT_ATTR_IDMAP,
        .propagation = MS_PRIVATE, /* what the host mounts below it later has none of these */
        .userns_fd = (uint64_t)map,
    };
    if (map >= 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) == 0)
        return 0;
    if (stage->owner.uids.count > 0 && !user.fixed) {
        kg_fail(err, KG_E_CAGE, "its filesystem cannot be mapped to another user");
        return -ENOTSUP;
    }
    attributes.attr_set &= ~(uint64_t)MOUNT_ATTR_IDMAP;
    attributes.userns_fd = 0;
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) < 0)
        return kg_fail_errno(err, errno, "stage: mount_setattr");
    return check_rights(owned, write, user.uid, err);
}

static int make_mount_point(const char *path, const struct stat *status)
{
    if (S_ISDIR(status->st_mode))
        return mkdir(path, 0755) < 0 ? -errno : 0;
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : 0;
}

static int stage_place(const char *path, const struct stat *status, int tree, struct kg_err *err)
{
    int result = make_mount_point(path, status);
    if (result < 0)
        return kg_fail_errno(err, -result, "stage: make %s", path);
    if (move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) == 0)
        return 0;
    int errnum = errno;
    cage_stage_remove(path);
    return kg_fail_errno(err, errnum, "stage: mount %s", path);
}

/* In the room, if there is one. */
static int stage_place_in(const struct cage_stage *stage, int room, const char *path,
                          const struct stat *status, int tree, struct kg_err *err)
{
    if (room >= 0 && setns(room, CLONE_NEWNS) < 0)
        return kg_fail_errno(err, errno, "stage: enter the mounts of bwrap");
    int result = stage_place(path, status, tree, err);
    cage_stage_leave_room(stage, room);
    return result;
}

int cage_stage_add(struct cage_stage *stage, int room, int source, int whole, bool write,
                   struct cage_user user, char **ret_path, struct kg_err *err)
{
    struct stat status, owned;
    if (fstat(source, &status) < 0 || fstat(whole < 0 ? source : whole, &owned) < 0)
        return kg_fail_errno(err, errno, "stage: stat");
    kg_auto(kg_close) int tree =
        open_tree(source, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return kg_fail_errno(err, errno, "stage: open_tree");
    int result = set_attributes(stage, tree, &owned, write, user, err);
    if (result < 0)
        return result;
    kg_auto(kg_free) char *path = kg_format("%s/%u", STAGE_FOLDER, stage->next++);
    result = stage_place_in(stage, room, path, &status, tree, err);
    if (result < 0)
        return result;
    *ret_path = kg_steal(&path);
    return 0;
}

/* Without its mount point a mount goes, in every room. */
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
    kg_close(&stage->home);
    kg_close(&stage->room);
    free(stage);
}
