/*
 * A folder as a source: copied without following a link, and without .git. Others may change it
 * meanwhile; what is copied is judged as it is read.
 */
#include "store/tree_rules.h"
#include "store/unpack/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES ((size_t)256 * 1024)

struct copy {
    struct sink *sink;
    struct kg_err *err;
    const char *left_out; /* what is not copied, by its path there; or NULL */
    char *block;          /* owned */
};

static int copy_folder(struct copy *copy, int fd, const char *path);

static int folder_fail_errno(const struct copy *copy, const char *path, const char *act)
{
    int errnum = errno;
    kg_auto(kg_buf_free) struct kg_buf name = {0};
    tree_quote(&name, kg_str(path));
    return kg_fail_errno(copy->err, errnum, "%s entry %s", act, kg_buf_terminate(&name));
}

static int folder_copy_content(struct copy *copy, int fd, const char *path)
{
    ssize_t got;
    while ((got = read(fd, copy->block, READ_BYTES)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return folder_fail_errno(copy, path, "read");
        int result = sink_file_write(copy->sink, copy->block, (size_t)got, copy->err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int folder_check_mode(const struct copy *copy, const char *path, mode_t mode)
{
    const char *problem = tree_mode_problem(mode);
    if (problem == NULL)
        return 0;
    return sink_refuse(KG_E_REFUSED, kg_str(path), problem, copy->err);
}

static int folder_copy_file(struct copy *copy, int folder, const char *name, const char *path)
{
    struct stat status;
    kg_auto(kg_close) int fd =
        openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return folder_fail_errno(copy, path, "open");
    if (fstat(fd, &status) < 0)
        return folder_fail_errno(copy, path, "look at");
    int result = folder_check_mode(copy, path, status.st_mode);
    if (result == 0 && !S_ISREG(status.st_mode))
        result = sink_refuse(KG_E_REFUSED, kg_str(path), "it changed meanwhile", copy->err);
    if (result == 0)
        result =
            sink_file_begin(copy->sink, kg_str(path), (status.st_mode & S_IXUSR) != 0, copy->err);
    if (result == 0)
        result = folder_copy_content(copy, fd, path);
    return result < 0 ? result : sink_file_end(copy->sink, copy->err);
}

static int folder_copy_link(struct copy *copy, int folder, const char *name, const char *path)
{
    char target[TREE_LINK_BYTES_MAX + 1];
    ssize_t length = readlinkat(folder, name, target, sizeof(target));
    if (length < 0)
        return folder_fail_errno(copy, path, "read link");
    return sink_link(copy->sink, kg_str(path), (struct kg_str){target, (size_t)length}, copy->err);
}

/* How deep it may go, the sink decides. */
static int enter_folder(struct copy *copy, int folder, const char *name, const char *path)
{
    int result = sink_folder(copy->sink, kg_str(path), copy->err);
    if (result < 0)
        return result;
    kg_auto(kg_close) int fd =
        openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? folder_fail_errno(copy, path, "open") : copy_folder(copy, fd, path);
}

static int folder_copy_entry(struct copy *copy, int folder, const char *name, const char *path)
{
    struct stat status;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return folder_fail_errno(copy, path, "look at");
    int result = folder_check_mode(copy, path, status.st_mode);
    if (result < 0)
        return result;
    if (S_ISDIR(status.st_mode))
        return enter_folder(copy, folder, name, path);
    return S_ISLNK(status.st_mode) ? folder_copy_link(copy, folder, name, path)
                                   : folder_copy_file(copy, folder, name, path);
}

static bool folder_is_left_out(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, ".git") == 0;
}

static void folder_close_folder(DIR **dir)
{
    if (*dir != NULL)
        closedir(*dir);
}

/* fd stays the caller's; path is "" at the top. */
static int copy_folder(struct copy *copy, int fd, const char *path)
{
    int names = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    kg_auto(folder_close_folder) DIR *dir = names < 0 ? NULL : fdopendir(names);
    if (dir == NULL) {
        kg_close(&names);
        return folder_fail_errno(copy, path, "list");
    }
    const struct dirent *item;
    int result = 0;
    while (result == 0 && (item = readdir(dir)) != NULL) {
        if (folder_is_left_out(item->d_name))
            continue;
        kg_auto(kg_free) char *inner =
            path[0] != '\0' ? kg_format("%s/%s", path, item->d_name) : kg_strdup(item->d_name);
        if (copy->left_out == NULL || strcmp(inner, copy->left_out) != 0)
            result = folder_copy_entry(copy, fd, item->d_name, inner);
    }
    return result;
}

int folder_copy(const char *from, const struct folder_copy *how, struct sink *sink,
                struct kg_err *err)
{
    kg_auto(kg_close) int fd = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return kg_fail_errno(err, errno, "open folder %s", from);
    struct copy copy = {
        .sink = sink, .err = err, .left_out = how->left_out, .block = kg_alloc(READ_BYTES)};
    int result = copy_folder(&copy, fd, how->below);
    free(copy.block);
    return result;
}

int unpack_folder(const struct options *options, struct sink *sink, struct report *report,
                  struct kg_err *err)
{
    report_phase(report, "copying", 0);
    int result = folder_copy(options->source, &(struct folder_copy){.below = ""}, sink, err);
    return result < 0 ? result : sink_finish(sink, SINK_MANIFEST_AT_TOP, err);
}
