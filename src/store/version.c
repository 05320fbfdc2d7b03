/*
 * Installed versions. One is made in the quarantine, gets its place by a rename, and is never
 * changed again: plugins/.store/versions/NAME-HASH, where the hash is that of its files. Which of
 * them a plugin is started from is what local.toml says. A version is locked by each who uses it,
 * so that one that nobody needs can be told from one that is still running.
 */
#include "store/internal.h"
#include "store/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define VERSIONS_NAME "versions"
#define HASH_PREFIX   "sha256:"
#define HEX_LENGTH    64

/* -- names ------------------------------------------------------------------------------------- */

/* A hash that is none, which somebody may have written into local.toml, names no version. */
static bool is_hash(const char *hash)
{
    return hash != NULL && kg_str_starts(kg_str(hash), HASH_PREFIX) &&
           strspn(hash + strlen(HASH_PREFIX), "0123456789abcdef") == HEX_LENGTH &&
           strlen(hash) == strlen(HASH_PREFIX) + HEX_LENGTH;
}

static char *version_name(const char *name, const char *hash)
{
    if (!is_hash(hash) || !store_name_is_plugin(name))
        return NULL;
    return kg_format("%s-%s", name, hash + strlen(HASH_PREFIX));
}

char *store_version_path(const struct store *store, const char *name, const char *hash)
{
    kg_auto(kg_free) char *version = version_name(name, hash);
    return version ? kg_format("%s/" VERSIONS_NAME "/%s", store->folder, version) : NULL;
}

static bool store_version_is_folder(const char *path)
{
    struct stat there;
    return path != NULL && lstat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

bool store_version_is_there(const struct store *store, const char *name, const char *hash)
{
    kg_auto(kg_free) char *path = store_version_path(store, name, hash);
    return store_version_is_folder(path);
}

char *store_folder_path(const struct store *store, const char *name)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", store->dir, name);
    return store_version_is_folder(path) ? kg_steal(&path) : NULL;
}

char *store_files_path(const struct store *store, const char *name, const char *hash)
{
    char *folder = store_folder_path(store, name);
    if (folder != NULL)
        return folder;
    kg_auto(kg_free) char *version = store_version_path(store, name, hash);
    return store_version_is_folder(version) ? kg_steal(&version) : NULL;
}

/* -- holding one ------------------------------------------------------------------------------- */

static int fail_gone(const char *name, struct kg_err *err)
{
    int result = kg_fail(err, KG_E_NOT_APPROVED,
                         "plugin %s: the version that was approved is not in the store", name);
    kg_hint(err, "install it again, or kaged plugin approve %s where its folder is there", name);
    return result;
}

/* Between the look at local.toml and the lock it may have been removed for another one. */
static bool is_still_there(const char *path, int fd)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && lstat(path, &there) == 0 && ours.st_ino == there.st_ino &&
           ours.st_dev == there.st_dev;
}

int store_version_hold(struct store *store, const char *name, const char *hash,
                       struct store_version **ret_version, struct kg_err *err)
{
    kg_auto(kg_free) char *path = store_version_path(store, name, hash);
    kg_auto(kg_close) int fd = path ? store_open_dir(AT_FDCWD, path) : -ENOENT;
    if (fd < 0 && fd != -ENOENT)
        return kg_fail_errno(err, -fd, "plugin %s: open %s", name, path);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0 || !is_still_there(path, fd))
        return fail_gone(name, err);
    struct store_version *version = kg_alloc(sizeof(*version));
    version->path = kg_steal(&path);
    version->fd = kg_steal_fd(&fd);
    *ret_version = version;
    return 0;
}

void store_version_free(struct store_version *version)
{
    if (version == NULL)
        return;
    kg_close(&version->fd);
    free(version->path);
    free(version);
}

/* -- making one -------------------------------------------------------------------------------- */

/* Whether what is there under that name is what the name says. */
static bool store_version_is_whole(struct store *store, int versions_fd, const char *version,
                                   const char *hash)
{
    kg_auto(store_look_free) struct store_look look = {0};
    return store_look_read(store, versions_fd, version, &look, NULL) == 0 &&
           strcmp(look.tree.hash, hash) == 0;
}

static int move_in(struct store *store, int from_fd, const char *from, int versions_fd,
                   const char *version, const char *hash)
{
    if (renameat2(from_fd, from, versions_fd, version, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EEXIST)
        return -errno;
    if (store_version_is_whole(store, versions_fd, version, hash))
        return 0; /* the same files, from before */
    return renameat2(from_fd, from, versions_fd, version, RENAME_EXCHANGE) < 0 ? -errno : 0;
}

int store_version_put(struct store *store, const struct store_hold *hold, int from_fd,
                      const char *from, const char *name, const char *hash, struct kg_err *err)
{
    kg_auto(kg_free) char *version = version_name(name, hash);
    kg_auto(kg_close) int versions = store_open_sub(hold->folder_fd, VERSIONS_NAME, 0755, err);
    if (versions < 0)
        return versions;
    int result = store_step("version");
    if (result == 0)
        result = version ? move_in(store, from_fd, from, versions, version, hash) : -EINVAL;
    if (result < 0)
        return kg_fail_errno(err, -result, "plugin %s: put its files in their place", name);
    result = store_sync_folder(versions, err);
    return result < 0 ? result : store_sync_folder(from_fd, err);
}

static int copy_into(struct store *store, const struct store_quarantine *quarantine,
                     const char *folder, const struct store_tree *tree, struct store_look *ret_look,
                     struct kg_err *err)
{
    kg_auto(kg_close) int fd = store_open_dir(AT_FDCWD, folder);
    if (fd < 0)
        return kg_fail_errno(err, -fd, "open %s", folder);
    int result = tree_copy(fd, tree, quarantine->fd, STORE_TREE_NAME, err);
    if (result == 0)
        result = store_look_read(store, quarantine->fd, STORE_TREE_NAME, ret_look, err);
    if (result == 0 && syncfs(quarantine->fd) < 0)
        result = kg_fail_errno(err, errno, "write its files");
    return result;
}

int store_version_copy(struct store *store, const struct store_hold *hold, const char *name,
                       const char *folder, const struct store_tree *tree,
                       struct store_look *ret_look, struct kg_err *err)
{
    struct store_quarantine *quarantine = NULL;
    kg_auto(store_look_free) struct store_look look = {0};
    int result = store_quarantine_new(store, &quarantine, err);
    if (result < 0)
        return result;
    result = copy_into(store, quarantine, folder, tree, &look, err);
    if (result == 0 && strcmp(look.tree.hash, tree->hash) != 0)
        result = kg_fail(err, KG_E_CONFLICT, "its files were changed meanwhile");
    if (result == 0)
        result =
            store_version_put(store, hold, quarantine->fd, STORE_TREE_NAME, name, tree->hash, err);
    store_quarantine_free(quarantine);
    kg_auto(kg_free) char *path = store_version_path(store, name, tree->hash);
    if (result == 0) /* of what is there, which may be from before */
        result = store_quick_read(store, path, look.quick, err);
    if (result < 0)
        return kg_wrap(err, result, "plugin %s: copy its files", name);
    *ret_look = look;
    look = (struct store_look){0};
    return 0;
}

/* -- which there are --------------------------------------------------------------------------- */

typedef void each_fn(void *data, const char *name);

static void for_each_name(int folder_fd, each_fn *each, void *data)
{
    DIR *entries = folder_fd < 0 ? NULL : fdopendir(folder_fd);
    if (entries == NULL) {
        kg_close(&folder_fd);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (entry->d_name[0] != '.')
            each(data, entry->d_name);
    closedir(entries);
}

struct listing {
    const struct store *store;
    char **names;
};

/* A link could lead anywhere: it is not a plugin. */
static void store_version_list_folder(void *data, const char *name)
{
    struct listing *listing = data;
    kg_auto(kg_free) char *path =
        store_name_is_plugin(name) ? store_folder_path(listing->store, name) : NULL;
    if (path != NULL)
        kg_list_add(&listing->names, kg_strdup(name));
}

char **store_names(struct store *store, struct kg_err *err)
{
    int plugins = store_open_plugins(store, err);
    if (plugins < 0)
        return NULL;
    struct listing listing = {store, kg_list_new(0)};
    for_each_name(plugins, store_version_list_folder, &listing);
    struct local *local = local_load(store->parts.paths->local_file, LOCAL_LEAVE, NULL);
    for (size_t i = 0; local != NULL && i < local->plugin_count; i++) {
        const struct local_plugin *plugin = &local->plugins[i];
        kg_auto(kg_free) char *name = kg_str_dup(manifest_package_name(plugin->package));
        kg_auto(kg_free) char *hash = kg_str_dup(plugin->hash);
        if (!kg_list_has(listing.names, kg_str(name)) && store_version_is_there(store, name, hash))
            kg_list_add(&listing.names, kg_steal(&name));
    }
    local_free(local);
    return listing.names;
}

/* -- those that nobody needs ------------------------------------------------------------------- */

struct sweep {
    int versions_fd;
    char **needed; /* owned; names of versions that local.toml names */
};

static void store_version_sweep_one(void *data, const char *version)
{
    const struct sweep *sweep = data;
    if (kg_list_has(sweep->needed, kg_str(version)))
        return;
    kg_auto(kg_close) int fd = store_open_dir(sweep->versions_fd, version);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
        return; /* a process or a trial uses it */
    (void)store_step("sweep");
    int result = store_remove_all(sweep->versions_fd, version);
    if (result < 0)
        kg_log(KG_WARN, "remove version %s from the plugin store: %s", version, strerror(-result));
}

/* Without a local.toml that can be read nobody knows what is needed. */
void store_sweep_versions(struct store *store, const struct store_hold *hold)
{
    struct local *local = local_load(store->parts.paths->local_file, LOCAL_LEAVE, NULL);
    kg_auto(kg_close) int versions = store_open_dir(hold->folder_fd, VERSIONS_NAME);
    if (local != NULL && versions >= 0) {
        struct sweep sweep = {versions, kg_list_new(0)};
        for (size_t i = 0; i < local->plugin_count; i++) {
            kg_auto(kg_free) char *name =
                kg_str_dup(manifest_package_name(local->plugins[i].package));
            kg_auto(kg_free) char *hash = kg_str_dup(local->plugins[i].hash);
            char *version = version_name(name, hash);
            if (version != NULL)
                kg_list_add(&sweep.needed, version);
        }
        for_each_name(store_open_dir(hold->folder_fd, VERSIONS_NAME), store_version_sweep_one,
                      &sweep);
        kg_list_free(sweep.needed);
    }
    local_free(local);
}

void store_tidy(struct store *store)
{
    struct kg_err err;
    kg_auto(store_hold_end) struct store_hold hold = {-1, -1, -1};
    if (store_hold_begin(store, &hold, &err) < 0)
        kg_log(KG_WARN, "%s", err.message);
    else
        store_sweep_versions(store, &hold);
}
