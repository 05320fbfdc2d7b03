/*
 * Who the daemon is. Started by root with daemon.user it becomes that user, and only kaged-spawner
 * stays root. Folders that the daemon writes to are given to that user, files never: whatever lies
 * in a folder of his may be a link to somebody else's. The home with config.toml is not given
 * either, since who may write there chooses daemon.user; local.toml is a link out of it.
 */
#include "cli/cli.h"

#include "cage/cage.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#define UID_BASE_LEAST 65536

int user_find(const struct config *config, struct cage_owner *ret_owner, struct kg_err *err)
{
    struct cage_owner owner = cage_owner_self();
    int64_t base = config->sandbox_uid_base;
    if (base != 0 && base < UID_BASE_LEAST) {
        kg_fail(err, KG_E_INVALID_CONFIG,
                "sandbox.uid_base: %lld is in the range of ordinary users", (long long)base);
        return kg_hint(err, "use %d or above, where nobody else has uids", UID_BASE_LEAST);
    }
    int result = geteuid() == 0 && config->daemon_user[0] != '\0'
                     ? cage_owner_find(config->daemon_user, &owner, err)
                     : 0;
    if (result < 0)
        return result;
    owner.uids = cage_uids_find(base, &owner);
    if (base != 0 && geteuid() == 0 && owner.uids.count == 0) {
        kg_fail(err, KG_E_INVALID_CONFIG,
                "sandbox.uid_base: root cannot become a user from %lld on", (long long)base);
        return kg_hint(err, "this container has too few uids: give it more, or leave the key out");
    }
    *ret_owner = owner;
    return 0;
}

static int give_folder(const char *path, const struct cage_owner *owner)
{
    kg_auto(kg_close) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat folder;
    if (fd < 0 || fstat(fd, &folder) < 0)
        return -errno;
    if (folder.st_uid == owner->uid)
        return 0;
    return fchown(fd, owner->uid, owner->gid) < 0 ? -errno : 0;
}

/* The folders are his; those above them are not, and may keep him out. */
static int user_check_reach(const char *path, const struct cage_owner *owner, struct kg_err *err)
{
    int result = cage_owner_enter(owner, err);
    if (result < 0)
        return result;
    int problem = faccessat(AT_FDCWD, path, R_OK | W_OK | X_OK, AT_EACCESS) < 0 ? errno : 0;
    cage_owner_leave();
    if (problem == 0)
        return 0;
    result = kg_fail_errno(err, problem, "folder %s: use it as daemon.user (uid %u)", path,
                           (unsigned)owner->uid);
    kg_hint(err, "let that user through the folders above it: chmod o+x");
    return result;
}

/*
 * The daemon writes local.toml, and for that its folder, which the one of config.toml is not. So it
 * lies in the state folder, and a link leads there; one that root has written already stays.
 */
static int link_local(const struct config_paths *paths, struct kg_err *err)
{
    struct stat there;
    kg_auto(kg_free) char *target = kg_format("%s/local.toml", paths->state_dir);
    if (lstat(paths->local_file, &there) == 0 || symlink(target, paths->local_file) == 0)
        return 0;
    return kg_fail_errno(err, errno, "make the link %s to %s", paths->local_file, target);
}

int user_give_folders(const struct config_paths *paths, const struct cage_owner *owner,
                      struct kg_err *err)
{
    const char *folders[CONFIG_PATHS_FOLDERS + 1];
    config_paths_folders(paths, folders);
    if (owner->uid == geteuid())
        return 0;
    for (const char **folder = folders; *folder != NULL; folder++) {
        int result = give_folder(*folder, owner);
        if (result < 0)
            return kg_fail_errno(err, -result, "give folder %s to daemon.user (uid %u)", *folder,
                                 (unsigned)owner->uid);
    }
    /* Only now: one of them may lie above another. */
    for (const char **folder = folders; *folder != NULL; folder++) {
        int result = user_check_reach(*folder, owner, err);
        if (result < 0)
            return result;
    }
    return link_local(paths, err);
}

int user_open(const struct cage_owner *owner, const char *path, int flags, mode_t mode)
{
    if (owner->uid == geteuid())
        return open(path, flags, mode);
    if (cage_owner_enter(owner, NULL) < 0)
        return -1;
    int fd = open(path, flags, mode);
    int errnum = errno;
    cage_owner_leave();
    errno = errnum;
    return fd;
}

int user_become(const struct cage_owner *owner, struct kg_err *err)
{
    if (owner->uid == geteuid())
        return 0;
    if (setgroups(owner->group_count, owner->groups) < 0 ||
        setresgid(owner->gid, owner->gid, owner->gid) < 0 ||
        setresuid(owner->uid, owner->uid, owner->uid) < 0)
        return kg_fail_errno(err, errno, "become daemon.user (uid %u)", (unsigned)owner->uid);
    return 0;
}
