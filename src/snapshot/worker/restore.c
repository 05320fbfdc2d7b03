/*
 * From one tree to another. What is removed or written over is in the tree of now, which is kept
 * first; what is not in it, such as ignored files, is never touched. A file is written beside its
 * place and then put there, so that nobody meets half of one.
 */
#include "snapshot/worker/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BESIDE ".kaged-restore.tmp"

/* -- removing ---------------------------------------------------------------------------------- */

/* Folders that are empty by that go, too. */
static void snapshot_restore_remove_folders(int folder, const char *path)
{
    kg_auto(kg_free) char *above = kg_strdup(path);
    char *slash;
    while ((slash = strrchr(above, '/')) != NULL) {
        const char *name;
        *slash = '\0';
        kg_auto(kg_close) int parent = snapshot_open_parent(folder, above, false, &name);
        if (parent < 0 || unlinkat(parent, name, AT_REMOVEDIR) < 0)
            return;
    }
}

static int remove_file(const struct snapshot *snapshot, const char *path, struct kg_err *err)
{
    const char *name;
    kg_auto(kg_close) int parent = snapshot_open_parent(snapshot->folder, path, false, &name);
    if (parent < 0)
        return 0;
    if (unlinkat(parent, name, 0) < 0 && errno != ENOENT)
        return kg_fail_errno(err, errno, "remove %s", path);
    snapshot_restore_remove_folders(snapshot->folder, path);
    return 0;
}

/* -- writing ----------------------------------------------------------------------------------- */

static int snapshot_restore_make_link(int parent, struct kg_str leads_to)
{
    kg_auto(kg_free) char *text = kg_str_dup(leads_to);
    return symlinkat(text, parent, BESIDE) < 0 ? -errno : 0;
}

static int snapshot_restore_make_file(int parent, unsigned mode, struct kg_str content)
{
    mode_t rights = mode == 0100755 ? 0777 : 0666;
    kg_auto(kg_close) int fd =
        openat(parent, BESIDE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, rights);
    return fd < 0 ? -errno : kg_write_all(fd, content.data, content.length);
}

/* The rights of a file that is there stay, but for whether it can be run. */
static int keep_rights(int parent, const char *name, unsigned mode)
{
    struct stat there;
    if (fstatat(parent, name, &there, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(there.st_mode))
        return 0;
    mode_t rights = there.st_mode & 0777;
    rights = mode == 0100755 ? rights | (rights & 0444) >> 2 : rights & ~(mode_t)0111;
    return fchmodat(parent, BESIDE, rights, 0) < 0 ? -errno : 0;
}

static int snapshot_restore_write_file(void *data, const struct snapshot_file *file,
                                       struct kg_str content, struct kg_err *err)
{
    const struct snapshot *snapshot = data;
    const char *name;
    kg_auto(kg_close) int parent = snapshot_open_parent(snapshot->folder, file->path, true, &name);
    if (parent < 0)
        return kg_fail_errno(err, errno, "open the folder of %s", file->path);
    (void)unlinkat(parent, BESIDE, 0);
    bool is_link = file->mode == 0120000;
    int result = is_link ? snapshot_restore_make_link(parent, content)
                         : snapshot_restore_make_file(parent, file->mode, content);
    if (result == 0 && !is_link)
        result = keep_rights(parent, name, file->mode);
    if (result == 0 && renameat(parent, BESIDE, parent, name) < 0)
        result = -errno;
    if (result == 0)
        return 0;
    (void)unlinkat(parent, BESIDE, 0);
    return kg_fail_errno(err, -result, "write %s", file->path);
}

/* -- what differs ------------------------------------------------------------------------------ */

struct changes {
    const struct snapshot_file **removed, **written; /* owned */
    size_t removed_count, written_count;
};

/* Something is there that no snapshot has: it stays. */
static bool snapshot_restore_is_in_the_way(const struct snapshot *snapshot, const char *path)
{
    const char *name;
    struct stat there;
    kg_auto(kg_close) int parent = snapshot_open_parent(snapshot->folder, path, false, &name);
    return parent >= 0 && fstatat(parent, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           !S_ISDIR(there.st_mode);
}

static void snapshot_restore_add_new(struct snapshot *snapshot, const struct snapshot_file *file,
                                     struct changes *changes)
{
    if (snapshot_restore_is_in_the_way(snapshot, file->path)) {
        snapshot_tell(&snapshot->left_out, file->path, "why", "another file is in its place");
        return;
    }
    snapshot_tell(&snapshot->changes, file->path, "change", "created");
    changes->written[changes->written_count++] = file;
}

static void add_other(struct snapshot *snapshot, const struct snapshot_file *now,
                      const struct snapshot_file *then, struct changes *changes)
{
    if (strcmp(now->id, then->id) == 0 && now->mode == then->mode)
        return;
    snapshot_tell(&snapshot->changes, then->path, "change", "changed");
    changes->written[changes->written_count++] = then;
}

static void snapshot_restore_compare(struct snapshot *snapshot, const struct snapshot_list *now,
                                     const struct snapshot_list *then, struct changes *changes)
{
    changes->removed = kg_alloc_array(now->count + 1, sizeof(changes->removed[0]));
    changes->written = kg_alloc_array(then->count + 1, sizeof(changes->written[0]));
    for (size_t i = 0, j = 0; i < now->count || j < then->count;) {
        int order = i == now->count    ? 1
                    : j == then->count ? -1
                                       : strcmp(now->items[i].path, then->items[j].path);
        if (order == 0) {
            add_other(snapshot, &now->items[i++], &then->items[j++], changes);
        } else if (order > 0) {
            snapshot_restore_add_new(snapshot, &then->items[j++], changes);
        } else {
            snapshot_tell(&snapshot->changes, now->items[i].path, "change", "removed");
            changes->removed[changes->removed_count++] = &now->items[i++];
        }
    }
}

int snapshot_change(struct snapshot *snapshot, const struct snapshot_list *now,
                    const struct snapshot_list *then, bool apply, struct kg_err *err)
{
    struct changes changes = {0};
    int result = 0;
    snapshot_restore_compare(snapshot, now, then, &changes);
    for (size_t i = 0; apply && i < changes.removed_count && result == 0; i++)
        result = remove_file(snapshot, changes.removed[i]->path, err);
    if (apply && result == 0 && changes.written_count > 0)
        result = git_contents(snapshot, changes.written, changes.written_count,
                              snapshot_restore_write_file, snapshot, err);
    free(changes.removed);
    free(changes.written);
    return result;
}
