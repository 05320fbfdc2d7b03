/*
 * A file is replaced whole or not at all: the new text is complete and on disk under another name
 * before it takes the place of the old one, and all of that happens under one lock.
 */
#include "base/doc.h"
#include "config/edit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINKS_MAX    40
#define LOCK_WAIT_MS 10000
#define LOCK_TRY_MS  5

/* No name of a file that anyone edits: what is found under it while we have the lock is left over.
 */
#define TEMPORARY_PREFIX ".kaged-edit-"

struct place {
    char *path;       /* owned; behind all symbolic links */
    const char *name; /* the last part of path */
    int folder;       /* owned; carries the lock */
};

static void place_end(struct place *place)
{
    kg_close(&place->folder);
    free(place->path);
}

/* -- where it is ------------------------------------------------------------------------------- */

static char *beside(const char *path, const char *target)
{
    kg_auto(kg_free) char *folder = kg_path_folder(path);
    return target[0] == '/' ? kg_strdup(target) : kg_path_join(folder, target);
}

/* A link may lead to a file that is not there yet: then it is made there. NULL sets errno. */
static char *edit_file_resolve(const char *path)
{
    char target[PATH_MAX];
    kg_auto(kg_free) char *at = kg_strdup(path);
    for (int links = 0; links < LINKS_MAX; links++) {
        char *real = realpath(at, NULL);
        if (real != NULL || errno != ENOENT)
            return real;
        ssize_t length = readlink(at, target, sizeof(target) - 1);
        if (length < 0) {
            kg_auto(kg_free) char *folder = kg_path_folder(at);
            kg_auto(kg_free) char *real_folder = realpath(folder, NULL);
            return real_folder ? kg_path_join(real_folder, kg_path_name(at)) : NULL;
        }
        target[length] = '\0';
        char *next = beside(at, target);
        free(at);
        at = next;
    }
    errno = ELOOP;
    return NULL;
}

/* -- the lock ---------------------------------------------------------------------------------- */

static int lock_folder(const struct place *place, struct kg_err *err)
{
    uint64_t deadline = kg_monotonic_ms() + LOCK_WAIT_MS;
    while (flock(place->folder, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return kg_fail_errno(err, errno, "lock its folder");
        if (kg_monotonic_ms() >= deadline)
            return kg_fail(err, KG_E_CONFLICT, "another edit has had its folder locked for %d s",
                           LOCK_WAIT_MS / 1000);
        nanosleep(&(struct timespec){.tv_nsec = LOCK_TRY_MS * 1000000L}, NULL);
    }
    return 0;
}

static int open_place(const char *path, struct place *ret_place, struct kg_err *err)
{
    kg_auto(place_end) struct place place = {.folder = -1};
    place.path = edit_file_resolve(path);
    if (place.path == NULL)
        return kg_fail_errno(err, errno, "find it");
    place.name = kg_path_name(place.path);
    if (place.name[0] == '\0')
        return kg_fail_errno(err, EISDIR, "find it");
    kg_auto(kg_free) char *folder = kg_path_folder(place.path);
    place.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place.folder < 0)
        return kg_fail_errno(err, errno, "open its folder %s", folder);
    int result = lock_folder(&place, err);
    if (result < 0)
        return result;
    *ret_place = place;
    place = (struct place){.folder = -1};
    return 0;
}

/* What a process that was killed has left. */
static void remove_leftovers(const struct place *place)
{
    int fd = openat(place->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (entries == NULL) {
        kg_close(&fd);
        return;
    }
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
        if (kg_str_starts(kg_str(entry->d_name), TEMPORARY_PREFIX))
            unlinkat(place->folder, entry->d_name, 0);
    closedir(entries);
}

/* -- writing ----------------------------------------------------------------------------------- */

/* A file under a passing name, which goes away unless it was renamed. */
struct temporary {
    int folder;                                      /* borrowed */
    int fd;                                          /* owned */
    char name[sizeof(TEMPORARY_PREFIX) + KG_ID_MAX]; /* "": there is none */
};

static void temporary_end(struct temporary *temporary)
{
    kg_close(&temporary->fd);
    if (temporary->name[0])
        unlinkat(temporary->folder, temporary->name, 0);
}

static int temporary_open(struct temporary *temporary, struct kg_err *err)
{
    char name[sizeof(temporary->name)];
    snprintf(name, sizeof(name), TEMPORARY_PREFIX "%s", kg_id_new("").text);
    temporary->fd =
        openat(temporary->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (temporary->fd < 0)
        return kg_fail_errno(err, errno, "make %s in its folder", name);
    memcpy(temporary->name, name, sizeof(name));
    return 0;
}

/* The owner first, since that takes set-id bits away. Only root may give files away: best effort.
 */
static int keep_status(int fd, const struct stat *old, struct kg_err *err)
{
    if (fchown(fd, old->st_uid, old->st_gid) < 0 && fchown(fd, (uid_t)-1, old->st_gid) < 0)
        kg_log(KG_DEBUG, "an edited file could not keep its owner: %m");
    if (fchmod(fd, old->st_mode & 07777) < 0)
        return kg_fail_errno(err, errno, "keep its mode");
    return 0;
}

static int edit_file_write_text(int fd, struct kg_str text, struct kg_err *err)
{
    int result = kg_write_all(fd, text.data, text.length);
    if (result == 0 && fsync(fd) < 0)
        result = -errno;
    return result < 0 ? kg_fail_errno(err, -result, "write it") : 0;
}

/* old: what stands there now, or NULL. */
static int edit_file_replace(const struct place *place, struct kg_str text, const struct stat *old,
                             struct kg_err *err)
{
    kg_auto(temporary_end) struct temporary temporary = {.folder = place->folder, .fd = -1};
    int result = temporary_open(&temporary, err);
    if (result == 0 && old != NULL)
        result = keep_status(temporary.fd, old, err);
    if (result == 0)
        result = edit_file_write_text(temporary.fd, text, err);
    if (result < 0)
        return result;
    if (renameat(place->folder, temporary.name, place->folder, place->name) < 0)
        return kg_fail_errno(err, errno, "put the new text in its place");
    temporary.name[0] = '\0';
    if (fsync(place->folder) < 0 &&
        errno != EINVAL) /* not every file system has that for folders */
        return kg_fail_errno(err, errno, "write its folder");
    return 0;
}

/* -- the edit ---------------------------------------------------------------------------------- */

static int read_old(const struct place *place, struct kg_buf *text, struct stat *ret_status,
                    bool *ret_exists, struct kg_err *err)
{
    *ret_exists = fstatat(place->folder, place->name, ret_status, AT_SYMLINK_NOFOLLOW) == 0;
    if (!*ret_exists && errno != ENOENT)
        return kg_fail_errno(err, errno, "stat it");
    return *ret_exists ? kg_read_file(place->path, KG_DOC_BYTES_MAX, text, err) : 0;
}

static int edit_place(const struct place *place, edit_change *change, void *data,
                      struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf before = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct stat status;
    bool exists;
    int result = read_old(place, &before, &status, &exists, err);
    if (result < 0)
        return result;
    kg_buf_str(&text, kg_buf_view(&before));
    result = change(&text, data, err);
    if (result < 0 || kg_str_equal(kg_buf_view(&before), kg_buf_view(&text)))
        return result < 0 ? result : 0;
    remove_leftovers(place);
    return edit_file_replace(place, kg_buf_view(&text), exists ? &status : NULL, err);
}

int edit_file(const char *path, edit_change *change, void *data, struct kg_err *err)
{
    kg_auto(place_end) struct place place = {.folder = -1};
    int result = open_place(path, &place, err);
    if (result == 0)
        result = edit_place(&place, change, data, err);
    return result < 0 ? kg_wrap(err, result, "edit %s", path) : 0;
}
