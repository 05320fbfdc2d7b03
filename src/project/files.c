/*
 * Where a project is, and its files. A stranger may have made the links in it, so nothing below the
 * root is reached by one that leads out.
 */
#include "project/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPEN_TRIES 8 /* of a path that somebody renames meanwhile */

/* -- below the root ---------------------------------------------------------------------------- */

int project_root_open(const char *root, struct kg_err *err)
{
    int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? kg_fail_errno(err, errno, "open %s", root) : fd;
}

static int open_below(int root, const char *path, uint64_t resolve, struct kg_err *err)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
                           .resolve = resolve | RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int fd = -1;
    for (int i = 0; i < OPEN_TRIES && fd < 0; i++) {
        fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
        if (fd < 0 && errno != EAGAIN)
            break;
    }
    if (fd >= 0)
        return fd;
    if (errno == EXDEV)
        return kg_fail(err, KG_E_REFUSED, "open %s: it leads out of the project", path);
    if (errno == ELOOP)
        return kg_fail(err, KG_E_REFUSED, "open %s: this path contains a symbolic link", path);
    return kg_fail_errno(err, errno, "open %s", path);
}

int project_read_below(int root, const char *path, size_t max, struct kg_buf *ret_text,
                       struct kg_err *err)
{
    kg_auto(kg_close) int fd = open_below(root, path, 0, err);
    return fd < 0 ? fd : kg_read_fd(fd, path, max, ret_text, err);
}

int project_check_plain(int root, const char *path, struct kg_err *err)
{
    kg_auto(kg_close) int fd = open_below(root, path, RESOLVE_NO_SYMLINKS, err);
    if (fd < 0)
        kg_hint(err, "edit the file that the link leads to by hand");
    return fd < 0 ? fd : 0;
}

/* -- where it is ------------------------------------------------------------------------------- */

void project_location_free(struct project_location *location)
{
    free(location->root);
    free(location->file);
    free(location->path);
    *location = (struct project_location){0};
}

/* A user who names a place that does not exist has made a mistake; it is not an error of the
 * system. */
static int fail_to_look(const char *path, struct kg_err *err)
{
    int result = kg_fail_errno(err, errno, "stat %s", path);
    if (err != NULL && (result == -ENOENT || result == -ENOTDIR))
        err->code = KG_E_NOT_FOUND;
    if (err != NULL && result == -EACCES)
        err->code = KG_E_REFUSED;
    return result;
}

/* The folder that the file is in, and the file's name there. */
static int project_files_split(const char *path, char **ret_folder, char **ret_name,
                               struct kg_err *err)
{
    struct stat there;
    if (stat(path, &there) < 0)
        return fail_to_look(path, err);
    bool is_folder = S_ISDIR(there.st_mode);
    kg_auto(kg_free) char *above = kg_path_folder(path);
    kg_auto(kg_free) char *folder = realpath(is_folder ? path : above, NULL);
    if (folder == NULL)
        return fail_to_look(path, err);
    bool is_ours = strcmp(kg_path_name(folder), PROJECT_DIR) == 0;
    if (is_folder && !is_ours) {
        char *below = kg_path_join(folder, PROJECT_DIR);
        free(folder);
        folder = below;
    }
    *ret_name = kg_strdup(is_folder ? PROJECT_FILE : kg_path_name(path));
    *ret_folder = kg_steal(&folder);
    return 0;
}

int project_locate(const char *path, struct project_location *ret_location, struct kg_err *err)
{
    kg_auto(kg_free) char *folder = NULL, *name = NULL;
    kg_auto(project_location_free) struct project_location location = {0};
    struct stat there;
    int result = project_files_split(path, &folder, &name, err);
    if (result < 0)
        return result;
    location.path = kg_path_join(folder, name);
    bool is_ours = strcmp(kg_path_name(folder), PROJECT_DIR) == 0;
    location.file = is_ours ? kg_path_join(PROJECT_DIR, name) : kg_strdup(name);
    location.root = is_ours ? kg_path_folder(folder) : kg_strdup(folder);
    if (lstat(location.path, &there) < 0) {
        result = fail_to_look(location.path, err);
        kg_hint(err, "a project's file is %s/%s", PROJECT_DIR, PROJECT_FILE);
        return result;
    }
    *ret_location = location;
    location = (struct project_location){0};
    return 0;
}

int project_locate_folder(const char *path, struct project_location *ret_location,
                          struct kg_err *err)
{
    struct stat there;
    kg_auto(kg_free) char *root = realpath(path, NULL);
    if (root == NULL || stat(root, &there) < 0)
        return fail_to_look(path, err);
    if (!S_ISDIR(there.st_mode))
        return kg_fail(err, KG_E_NOT_FOUND, "%s is not a folder", root);
    ret_location->file = kg_strdup("");
    ret_location->path = kg_strdup(root);
    ret_location->root = kg_steal(&root);
    return 0;
}

/* As it is made to be kept from plugins. */
static bool is_empty_folder(const char *path)
{
    size_t count = 0;
    DIR *folder = opendir(path);
    while (folder != NULL && count <= 2 && readdir(folder) != NULL)
        count++;
    if (folder != NULL)
        closedir(folder);
    return count == 2; /* itself, and the one above */
}

/* A .kaged with something in it, but not the file, is a mistake, as is what is nothing at all. */
static bool is_folder_alone(const char *path)
{
    struct stat there;
    kg_auto(kg_free) char *root = realpath(path, NULL);
    if (root == NULL || stat(root, &there) < 0 || !S_ISDIR(there.st_mode) ||
        strcmp(kg_path_name(root), PROJECT_DIR) == 0)
        return false;
    kg_auto(kg_free) char *ours = kg_path_join(root, PROJECT_DIR);
    return lstat(ours, &there) < 0 ? errno == ENOENT : is_empty_folder(ours);
}

int project_locate_any(const char *path, struct project_location *ret_location, struct kg_err *err)
{
    return is_folder_alone(path) ? project_locate_folder(path, ret_location, err)
                                 : project_locate(path, ret_location, err);
}
