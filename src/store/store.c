/*
 * The store's own folder, and its lock. Whoever holds the lock is the only one who changes the
 * store, and what a killed writer left is finished before anything else is begun.
 */
#include "store/internal.h"
#include "store/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define LOCK_WAIT_MS   30000
#define LOCK_TRY_MS    20
#define LOCK_NAME      "lock"
#define QUARANTINE_DIR "quarantine"

/* -- making it --------------------------------------------------------------------------------- */

struct store *store_new(const struct store_parts *parts)
{
    struct store *store = kg_alloc(sizeof(*store));
    store->parts = *parts;
    store->dir = kg_strdup(parts->plugins_dir ? parts->plugins_dir : parts->paths->plugins_dir);
    store->parts.plugins_dir = store->dir;
    store->folder = kg_format("%s/" STORE_FOLDER_NAME, store->dir);
    store->quarantine_dir = kg_format("%s/" QUARANTINE_DIR, store->folder);
    pthread_mutex_init(&store->limits_lock, NULL);
    return store;
}

void store_free(struct store *store)
{
    if (store == NULL)
        return;
    local_free(store->local);
    pthread_mutex_destroy(&store->limits_lock);
    free(store->dir);
    free(store->folder);
    free(store->quarantine_dir);
    free(store);
}

void store_set_limits(struct store *store, const struct store_limits *limits)
{
    pthread_mutex_lock(&store->limits_lock);
    store->parts.limits = *limits;
    pthread_mutex_unlock(&store->limits_lock);
}

void store_set_catalog(struct store *store, store_catalog_fn *find, void *data)
{
    store->catalog_find = find;
    store->catalog_data = data;
}

struct store_limits store_limits_now(struct store *store)
{
    pthread_mutex_lock(&store->limits_lock);
    struct store_limits limits = store->parts.limits;
    pthread_mutex_unlock(&store->limits_lock);
    return limits;
}

const char *store_dir(const struct store *store)
{
    return store->dir;
}

bool store_name_is_plugin(const char *name)
{
    return manifest_name_is_valid(kg_str(name));
}

void store_on_wait(struct store *store, void (*on_wait)(void *data), void *data)
{
    store->on_wait = on_wait;
    store->on_wait_data = data;
}

/* -- folders ----------------------------------------------------------------------------------- */

int store_open_dir(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int store_open_plugins(const struct store *store, struct kg_err *err)
{
    int fd = open(store->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? kg_fail_errno(err, errno, "open the plugins folder %s", store->dir) : fd;
}

int store_open_sub(int parent_fd, const char *name, mode_t mode, struct kg_err *err)
{
    if (mkdirat(parent_fd, name, mode) < 0 && errno != EEXIST)
        return kg_fail_errno(err, errno, "make the folder %s of the plugin store", name);
    int fd = store_open_dir(parent_fd, name);
    return fd < 0 ? kg_fail_errno(err, -fd, "open the folder %s of the plugin store", name) : fd;
}

int store_open_folder(const struct store *store, int plugins_fd, struct kg_err *err)
{
    int fd = store_open_sub(plugins_fd, STORE_FOLDER_NAME, 0755, err);
    return fd < 0 ? kg_wrap(err, fd, "%s", store->dir) : fd;
}

int store_sync_folder(int fd, struct kg_err *err)
{
    if (fsync(fd) < 0 && errno != EINVAL) /* not every file system has that for folders */
        return kg_fail_errno(err, errno, "write a folder of the plugin store");
    return 0;
}

/* -- files ------------------------------------------------------------------------------------- */

static int write_and_close(int fd, struct kg_str text, bool sync)
{
    int result = kg_write_all(fd, text.data, text.length);
    if (result == 0 && sync && fsync(fd) < 0)
        result = -errno;
    return close(fd) < 0 && result == 0 ? -errno : result;
}

static int write_file(int folder_fd, const char *name, struct kg_str text, mode_t mode, bool sync,
                      struct kg_err *err)
{
    kg_auto(kg_free) char *passing = kg_format("%s.new", name);
    (void)unlinkat(folder_fd, passing, 0); /* what a killed writer has left */
    int fd = openat(folder_fd, passing, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    int result = fd < 0 ? -errno : write_and_close(fd, text, sync);
    if (result == 0 && renameat(folder_fd, passing, folder_fd, name) < 0)
        result = -errno;
    if (result < 0) {
        (void)unlinkat(folder_fd, passing, 0);
        return kg_fail_errno(err, -result, "write %s of the plugin store", name);
    }
    return sync ? store_sync_folder(folder_fd, err) : 0;
}

int store_write_synced(int folder_fd, const char *name, struct kg_str text, struct kg_err *err)
{
    return write_file(folder_fd, name, text, 0600, true, err);
}

int store_write_public(int folder_fd, const char *name, struct kg_str text, struct kg_err *err)
{
    return write_file(folder_fd, name, text, 0644, false, err);
}

/* -- removing ---------------------------------------------------------------------------------- */

int store_remove_all(int folder_fd, const char *name)
{
    if (unlinkat(folder_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    return errno == EISDIR || errno == EPERM ? tree_remove(folder_fd, name, NULL) : -errno;
}

/* -- the lock ---------------------------------------------------------------------------------- */

static int fail_locked(int lock_fd, struct kg_err *err)
{
    char text[16] = {0};
    ssize_t got = pread(lock_fd, text, sizeof(text) - 1, 0);
    int64_t pid = 0;
    kg_str_to_int((struct kg_str){text, got > 0 ? strcspn(text, "\n") : 0}, &pid);
    kg_fail(err, KG_E_CONFLICT,
            "another change of the plugin store (process %lld) is not done after %d s",
            (long long)pid, LOCK_WAIT_MS / 1000);
    return kg_hint(err, "try again when it is");
}

static int wait_for_lock(const struct store *store, int lock_fd, struct kg_err *err)
{
    uint64_t deadline = kg_monotonic_ms() + LOCK_WAIT_MS;
    bool told = false;
    while (flock(lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return kg_fail_errno(err, errno, "lock the plugin store");
        if (kg_monotonic_ms() >= deadline)
            return fail_locked(lock_fd, err);
        if (!told && store->on_wait != NULL)
            store->on_wait(store->on_wait_data);
        told = true;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_TRY_MS * 1000000L}, NULL);
    }
    return 0;
}

/* The number in it is for people only; the lock is what counts. */
static void sign_lock(int lock_fd)
{
    char text[16];
    int length = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(lock_fd, 0) == 0)
        (void)!pwrite(lock_fd, text, (size_t)length, 0);
}

static int open_lock(int folder_fd, struct kg_err *err)
{
    int fd = openat(folder_fd, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? kg_fail_errno(err, errno, "open the lock of the plugin store") : fd;
}

void store_hold_end(struct store_hold *hold)
{
    kg_close(&hold->lock_fd);
    kg_close(&hold->folder_fd);
    kg_close(&hold->plugins_fd);
}

static int take_lock(struct store *store, struct store_hold *hold, struct kg_err *err)
{
    hold->plugins_fd = store_open_plugins(store, err);
    if (hold->plugins_fd < 0)
        return hold->plugins_fd;
    hold->folder_fd = store_open_folder(store, hold->plugins_fd, err);
    if (hold->folder_fd < 0)
        return hold->folder_fd;
    hold->lock_fd = open_lock(hold->folder_fd, err);
    if (hold->lock_fd < 0)
        return hold->lock_fd;
    int result = wait_for_lock(store, hold->lock_fd, err);
    if (result == 0)
        sign_lock(hold->lock_fd);
    return result;
}

int store_hold_begin(struct store *store, struct store_hold *ret_hold, struct kg_err *err)
{
    kg_auto(store_hold_end) struct store_hold hold = {-1, -1, -1};
    int result = take_lock(store, &hold, err);
    if (result == 0)
        result = store_finish(store, &hold, err);
    if (result < 0)
        return result;
    *ret_hold = hold;
    hold = (struct store_hold){-1, -1, -1};
    return 0;
}

int store_recover(struct store *store, struct kg_err *err)
{
    kg_auto(store_hold_end) struct store_hold hold = {-1, -1, -1};
    int result = store_hold_begin(store, &hold, err);
    if (result == 0)
        result = store_take_over(store, &hold, err);
    if (result < 0)
        return result;
    store_sweep(&hold);
    store_sweep_versions(store, &hold);
    return 0;
}
