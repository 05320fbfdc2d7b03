/*
 * Folders of the quarantine. Each is locked by whoever works with it, so that what a killed process
 * left can be told from what somebody still needs, and only the former is removed.
 */
#include "store/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define QUARANTINE_NAME "quarantine"
#define TRIES           10

static int open_all(const struct store *store, struct kg_err *err)
{
    kg_auto(kg_close) int plugins = store_open_plugins(store, err);
    if (plugins < 0)
        return plugins;
    kg_auto(kg_close) int folder = store_open_folder(store, plugins, err);
    return folder < 0 ? folder : store_open_sub(folder, QUARANTINE_NAME, 0700, err);
}

/* Between its making and its lock somebody may have taken it for left over, and removed it. */
static int make_locked(int all_fd, const char *id, struct kg_err *err)
{
    struct stat ours, there;
    if (mkdirat(all_fd, id, 0700) < 0)
        return kg_fail_errno(err, errno, "make a folder in the quarantine");
    kg_auto(kg_close) int fd = store_open_dir(all_fd, id);
    if (fd < 0)
        return fd == -ENOENT ? -EAGAIN : kg_fail_errno(err, -fd, "open a folder of the quarantine");
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &ours) < 0)
        return kg_fail_errno(err, errno, "lock a folder of the quarantine");
    if (fstatat(all_fd, id, &there, AT_SYMLINK_NOFOLLOW) < 0 || there.st_ino != ours.st_ino)
        return -EAGAIN;
    return kg_steal_fd(&fd);
}

int store_quarantine_new(struct store *store, struct store_quarantine **ret_quarantine,
                         struct kg_err *err)
{
    kg_auto(kg_close) int all = open_all(store, err);
    if (all < 0)
        return all;
    kg_auto(kg_free) char *id = NULL;
    int fd = -EAGAIN;
    for (int i = 0; i < TRIES && fd == -EAGAIN; i++) {
        free(id);
        id = kg_strdup(kg_id_new("").text);
        fd = make_locked(all, id, err);
    }
    if (fd == -EAGAIN)
        return kg_fail(err, KG_E_IO, "the quarantine %s does not keep its folders",
                       store->quarantine_dir);
    if (fd < 0)
        return fd;
    struct store_quarantine *quarantine = kg_alloc(sizeof(*quarantine));
    quarantine->fd = fd;
    quarantine->path = kg_format("%s/%s", store->quarantine_dir, id);
    quarantine->id = kg_steal(&id);
    *ret_quarantine = quarantine;
    return 0;
}

int store_quarantine_open(const struct store_hold *hold, const char *id, struct kg_err *err)
{
    kg_auto(kg_close) int all = store_open_sub(hold->folder_fd, QUARANTINE_NAME, 0700, err);
    return all < 0 ? all : store_open_sub(all, id, 0700, err);
}

void store_quarantine_free(struct store_quarantine *quarantine)
{
    if (quarantine == NULL)
        return;
    int result = store_remove_all(AT_FDCWD, quarantine->path);
    if (result < 0)
        kg_log(KG_WARN, "remove %s: %s", quarantine->path, strerror(-result));
    kg_close(&quarantine->fd);
    free(quarantine->id);
    free(quarantine->path);
    free(quarantine);
}

void store_fetched_free(struct store_fetched *fetched)
{
    if (fetched == NULL)
        return;
    store_tree_free(&fetched->tree);
    kg_list_free(fetched->remarks);
    store_quarantine_free(fetched->quarantine);
    free(fetched);
}

/* -- what is left over ------------------------------------------------------------------------- */

static void quarantine_sweep_one(int all_fd, const char *id)
{
    kg_auto(kg_close) int fd = store_open_dir(all_fd, id);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
        return; /* somebody works with it */
    int result = store_remove_all(all_fd, id);
    if (result < 0)
        kg_log(KG_WARN, "remove %s from the quarantine: %s", id, strerror(-result));
}

void store_sweep(const struct store_hold *hold)
{
    int fd = store_open_dir(hold->folder_fd, QUARANTINE_NAME);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (entries == NULL) {
        kg_close(&fd);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            quarantine_sweep_one(dirfd(entries), entry->d_name);
    closedir(entries);
}
