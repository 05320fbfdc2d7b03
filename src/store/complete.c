/*
 * A folder that has no kaged-plugin.yaml gets one before its files are hashed: what the operator
 * reads, approves and later compares is that file. One that has its own is left as it is.
 */
#include "store/complete.h"

#include "base/doc.h"
#include "manifest/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The files that say what a folder holds; the first that is there counts. */
static const struct kind {
    const char *file;
    complete_fn *make;
} kinds[] = {
    {"manifest.json", bundle_manifest},
    {"package.json", package_manifest},
    {"pyproject.toml", pyproject_manifest},
};

static bool store_complete_is_file(int folder_fd, const char *name)
{
    struct stat status;
    return fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

static int store_complete_make(int folder_fd, const struct kind *kind, struct kg_buf *ret_manifest,
                               char ***ret_remarks, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_close) int fd = openat(folder_fd, kind->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return kg_fail_errno(err, errno, "open %s", kind->file);
    int result = kg_read_fd(fd, kind->file, KG_DOC_BYTES_MAX, &text, err);
    if (result < 0)
        return result;
    result = kind->make(kg_buf_view(&text), ret_manifest, ret_remarks, err);
    return kg_wrap(err, result, "%s", kind->file);
}

/* As kaged-unpack would have made it: its folder's owner's, and for all to read. */
int complete_write(int folder_fd, struct kg_str text, struct kg_err *err)
{
    struct stat folder;
    kg_auto(kg_close) int fd = openat(folder_fd, MANIFEST_FILE,
                                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || fstat(folder_fd, &folder) < 0 || fchmod(fd, 0644) < 0)
        return kg_fail_errno(err, errno, "make %s", MANIFEST_FILE);
    if (folder.st_uid != geteuid() && fchown(fd, folder.st_uid, folder.st_gid) < 0)
        return kg_fail_errno(err, errno, "give %s to its owner", MANIFEST_FILE);
    int result = kg_write_all(fd, text.data, text.length);
    return result < 0 ? kg_fail_errno(err, -result, "write %s", MANIFEST_FILE) : 0;
}

int store_complete(int folder_fd, char ***ret_remarks, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf manifest = {0};
    char **remarks = NULL;
    if (store_complete_is_file(folder_fd, MANIFEST_FILE))
        return 0;
    for (size_t i = 0; i < KG_COUNT(kinds); i++) {
        if (!store_complete_is_file(folder_fd, kinds[i].file))
            continue;
        int result = store_complete_make(folder_fd, &kinds[i], &manifest, &remarks, err);
        if (result == 0)
            result = complete_write(folder_fd, kg_buf_view(&manifest), err);
        if (result == 0)
            *ret_remarks = kg_steal(&remarks);
        kg_list_free(remarks);
        return result;
    }
    return kg_fail(err, KG_E_INVALID_SOURCE, "there is no file %s at its top", MANIFEST_FILE);
}
