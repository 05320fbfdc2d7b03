/*
 * A copy of a plugin's folder, entry by entry as it was listed. Others may change the folder
 * meanwhile: who copies looks at the copy, and takes no other than the one that was approved.
 */
#include "store/tree.h"

#include "store/tree_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)256 * 1024)

static int store_copy_content(int from, int to, uint64_t bytes)
{
    kg_auto(kg_free) char *block = kg_alloc(COPY_BYTES);
    while (bytes > 0) {
        ssize_t got = read(from, block, bytes < COPY_BYTES ? bytes : COPY_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : 0;
        int result = kg_write_all(to, block, (size_t)got);
        if (result < 0)
            return result;
        bytes -= (uint64_t)got;
    }
    return 0;
}

static int store_copy_file(int from_fd, int to_fd, const struct store_entry *entry)
{
    mode_t mode = entry->executable ? 0755 : 0644;
    kg_auto(kg_close) int from =
        openat(from_fd, entry->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    kg_auto(kg_close) int to =
        from < 0 ? -1
                 : openat(to_fd, entry->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                          mode);
    if (to < 0 || fchmod(to, mode) < 0)
        return -errno;
    return store_copy_content(from, to, entry->bytes);
}

static int store_copy_link(int from_fd, int to_fd, const struct store_entry *entry)
{
    char target[TREE_LINK_BYTES_MAX + 1];
    ssize_t length = readlinkat(from_fd, entry->path, target, sizeof(target) - 1);
    if (length < 0)
        return -errno;
    target[length] = '\0';
    return symlinkat(target, to_fd, entry->path) < 0 ? -errno : 0;
}

static int store_copy_make_folder(int to_fd, const char *path)
{
    if (mkdirat(to_fd, path, 0755) < 0)
        return -errno;
    return fchmodat(to_fd, path, 0755, 0) < 0 ? -errno : 0;
}

static int store_copy_entry(int from_fd, int to_fd, const struct store_entry *entry)
{
    switch (entry->type) {
    case STORE_ENTRY_FILE:
        return store_copy_file(from_fd, to_fd, entry);
    case STORE_ENTRY_LINK:
        return store_copy_link(from_fd, to_fd, entry);
    case STORE_ENTRY_FOLDER:
        break;
    }
    return store_copy_make_folder(to_fd, entry->path);
}

/* Folders come before what is in them: that is how paths sort. */
int tree_copy(int from_fd, const struct store_tree *tree, int parent_fd, const char *name,
              struct kg_err *err)
{
    int result = store_copy_make_folder(parent_fd, name);
    kg_auto(kg_close) int to =
        result < 0 ? result
                   : openat(parent_fd, name, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return kg_fail_errno(err, result < 0 ? -result : errno, "make a folder for the copy");
    for (size_t i = 0; i < tree->count; i++) {
        result = store_copy_entry(from_fd, to, &tree->entries[i]);
        if (result < 0)
            return kg_fail_errno(err, -result, "copy %s", tree->entries[i].path);
    }
    return 0;
}
