/*
 * The folder of a plugin that is run while its author changes it. It becomes a part of a cage as it
 * is, so it may be none of the system's or of kaged's own, and nobody may be able to put another in
 * its place. What is looked at is bounded, however much there is.
 */
#include "host/dev_internal.h"

#include "base/doc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDERS_MAX 1024  /* that are watched */
#define ENTRIES_MAX 65536 /* that are looked at */

void dev_place_free(struct dev_place *place)
{
    free(place->path);
    free(place->user);
    kg_list_free(place->kept);
}

void dev_folder_free(struct dev_folder *folder)
{
    kg_list_free(folder->folders);
    *folder = (struct dev_folder){0};
}

/* -- whether it may be shown in a cage --------------------------------------------------------- */

static int dev_folder_refuse(const struct dev_place *place, const char *why, const char *hint,
                             struct kg_err *err)
{
    kg_fail(err, KG_E_REFUSED, "folder %" KG_S_CAUSE ": %s", place->path, why);
    return kg_hint(err, "%s", hint);
}

/* The daemon may be another user than the one whose folder it is. */
static int fail_open(const struct dev_place *place, int errnum, struct kg_err *err)
{
    if (errnum == ENOENT)
        return kg_fail(err, KG_E_NOT_FOUND, "folder %" KG_S_CAUSE ": it does not exist",
                       place->path);
    if (errnum == ENOTDIR)
        return kg_fail(err, KG_E_REFUSED, "folder %" KG_S_CAUSE ": it is not a folder",
                       place->path);
    if (errnum != EACCES)
        return kg_fail_errno(err, errnum, "open folder %" KG_S_CAUSE, place->path);
    kg_fail(err, KG_E_REFUSED,
            "folder %" KG_S_CAUSE ": kaged runs as user %" KG_S_NAME ", who may not read it",
            place->path, place->user);
    return kg_hint(err, "give that user x on every folder above, and r and x on this one");
}

static int check_real(const struct dev_place *place, struct kg_err *err)
{
    kg_auto(kg_free) char *real = realpath(place->path, NULL);
    if (real == NULL)
        return fail_open(place, errno, err);
    if (strcmp(real, place->path) == 0)
        return 0;
    kg_fail(err, KG_E_REFUSED,
            "folder %" KG_S_CAUSE
            ": its path contains a symbolic link, or is not in its plain form",
            place->path);
    return kg_hint(err, "use the real path, %" KG_S_PATH, real);
}

static int dev_folder_check_owner(const struct dev_place *place, struct kg_err *err)
{
    if (!cage_place_may_be_installed(place->path))
        return dev_folder_refuse(place, "it is the system's own",
                                 "give the plugin a folder of its own", err);
    for (char **kept = place->kept; *kept != NULL; kept++)
        if (kg_path_within(place->path, *kept) || kg_path_within(*kept, place->path))
            return dev_folder_refuse(place, "it belongs to kaged itself, or holds what does",
                                     "give the plugin a folder outside of kaged's own", err);
    return 0;
}

/* Whoever may write to a folder may replace what is in it, unless the folder is sticky. */
static int check_writers(const struct dev_place *place, const char *path, struct kg_err *err)
{
    struct stat there;
    bool itself = strcmp(path, place->path) == 0;
    if (lstat(path, &there) < 0)
        return fail_open(place, errno, err);
    if ((there.st_mode & S_IWOTH) == 0 || there.st_uid == geteuid() ||
        (!itself && (there.st_mode & S_ISVTX) != 0))
        return 0;
    kg_fail(err, KG_E_REFUSED,
            "folder %" KG_S_CAUSE ": %s belongs to user %u, and everybody may write to it",
            place->path, itself ? "it" : "one above it", (unsigned)there.st_uid);
    return kg_hint(err, "chmod o-w %" KG_S_PATH, path);
}

static int check_all_writers(const struct dev_place *place, struct kg_err *err)
{
    kg_auto(kg_free) char *path = kg_strdup(place->path);
    int result = check_writers(place, path, err);
    for (char *slash; result == 0 && (slash = strrchr(path, '/')) != NULL && slash > path;) {
        *slash = '\0';
        result = check_writers(place, path, err);
    }
    return result;
}

/* -- what is in it ----------------------------------------------------------------------------- */

/* What tools keep for themselves, and what editors leave beside a file while it is open. */
bool dev_folder_counts(const char *name)
{
    static const char *const names[] = {"node_modules", "__pycache__", ".git"};
    static const char *const ends[] = {"~", ".swp", ".swo", ".swx"};
    for (size_t i = 0; i < KG_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return false;
    for (size_t i = 0; i < KG_COUNT(ends); i++)
        if (kg_str_ends(kg_str(name), ends[i]))
            return false;
    return strncmp(name, ".#", 2) != 0;
}

/* They are large, and nothing that an author writes by hand. */
static bool is_passed_over(const char *name)
{
    return name[0] == '.' || !dev_folder_counts(name);
}

struct scan {
    struct dev_folder *folder;
    size_t folders, entries;
};

static void add_to_digest(struct dev_folder *folder, const char *dir, const char *name,
                          const struct stat *there)
{
    const int64_t facts[] = {
        (int64_t)there->st_ino,          (int64_t)there->st_mode,
        (int64_t)there->st_size,         (int64_t)there->st_mtim.tv_sec,
        (int64_t)there->st_mtim.tv_nsec, (int64_t)there->st_ctim.tv_sec,
        (int64_t)there->st_ctim.tv_nsec,
    };
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_append(&text, facts, sizeof(facts));
    kg_buf_text(&text, dir);
    kg_buf_char(&text, '/');
    kg_buf_text(&text, name);
    folder->digest += kg_hash(kg_buf_view(&text)); /* whatever the order */
}

static void scan_entry(struct scan *scan, const char *dir, int fd, const char *name)
{
    struct stat there;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        fstatat(fd, name, &there, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (!S_ISDIR(there.st_mode)) {
        if (dev_folder_counts(name))
            add_to_digest(scan->folder, dir, name, &there);
    } else if (is_passed_over(name)) {
        return;
    } else if (scan->folders < FOLDERS_MAX) {
        scan->folder->folders[scan->folders++] = kg_format("%s/%s", dir, name);
    } else {
        scan->folder->cut = true;
    }
}

/* One that is gone by now, or cannot be read, is passed over: its folder tells when it comes. */
static void scan_folder(struct scan *scan, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        kg_close(&fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (++scan->entries > ENTRIES_MAX) {
            scan->folder->cut = true;
            break;
        }
        scan_entry(scan, path, fd, entry->d_name);
    }
    closedir(dir);
}

int dev_folder_look(const struct dev_place *place, struct dev_folder *ret_folder,
                    struct kg_err *err)
{
    struct stat there;
    int result = check_real(place, err);
    if (result == 0)
        result = dev_folder_check_owner(place, err);
    if (result == 0)
        result = check_all_writers(place, err);
    if (result < 0)
        return result;
    kg_auto(kg_close) int fd = open(place->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &there) < 0)
        return fail_open(place, errno, err);
    if (faccessat(fd, ".", X_OK, AT_EACCESS) < 0)
        return fail_open(place, errno, err);
    struct dev_folder folder = {.device = there.st_dev, .inode = there.st_ino};
    struct scan scan = {.folder = &folder};
    folder.folders = kg_list_new(FOLDERS_MAX);
    folder.folders[scan.folders++] = kg_strdup(place->path);
    for (size_t i = 0; i < scan.folders; i++)
        scan_folder(&scan, folder.folders[i]);
    *ret_folder = folder;
    return 0;
}

int dev_folder_manifest(const struct dev_place *place, struct kg_buf *ret_text, struct kg_err *err)
{
    struct stat there;
    kg_auto(kg_free) char *path = kg_format("%s/" MANIFEST_FILE, place->path);
    kg_auto(kg_close) int fd =
        open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        kg_fail(err, KG_E_INVALID_MANIFEST, "%" KG_S_CAUSE ": there is no %s", place->path,
                MANIFEST_FILE);
        kg_hint(err, "it is what says that a folder is a plugin: see kaged-plugin.yaml(5)");
        return -ENOENT;
    }
    if (fd < 0 || fstat(fd, &there) < 0)
        return kg_fail_errno(err, errno, "open %" KG_S_CAUSE, path);
    if (!S_ISREG(there.st_mode))
        return kg_fail(err, KG_E_INVALID_MANIFEST, "%" KG_S_CAUSE ": it is not a file", path);
    return kg_read_fd(fd, path, KG_DOC_BYTES_MAX, ret_text, err);
}
