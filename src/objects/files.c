/*
 * Objects as files of a folder, each named by its hash. One is put by a rename, so that it is there
 * whole or not at all, and is read only after it was seen to be what its name says.
 */
#include "objects/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *objects_file_path(const char *folder, const char *hash)
{
    return kg_format("%s/%.2s/%s", folder, hash, hash);
}

int objects_hash(int fd, char ret_hash[OBJECTS_HASH_TEXT], struct kg_err *err)
{
    struct sha256_ctx context;
    unsigned char digest[SHA256_DIGEST_SIZE], bytes[65536];
    sha256_init(&context);
    for (off_t at = 0;;) {
        ssize_t got = pread(fd, bytes, sizeof(bytes), at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kg_fail_errno(err, errno, "read an object");
        if (got == 0)
            break;
        sha256_update(&context, (size_t)got, bytes);
        at += got;
    }
    sha256_digest(&context, sizeof(digest), digest);
    sodium_bin2hex(ret_hash, OBJECTS_HASH_TEXT, digest, sizeof(digest));
    return 0;
}

/* In another filesystem it is copied, beside its place first. */
static int move_file(const char *from, const char *to)
{
    if (rename(from, to) == 0)
        return 0;
    if (errno != EXDEV)
        return -errno;
    kg_auto(kg_free) char *beside = kg_format("%s.new", to);
    unlink(beside);
    int result = kg_copy_file(from, beside, 0600);
    if (result == 0 && rename(beside, to) < 0)
        result = -errno;
    if (result == 0)
        unlink(from);
    return result;
}

int objects_file_put(const char *folder, const char *hash, const char *file, struct kg_err *err)
{
    kg_auto(kg_free) char *path = objects_file_path(folder, hash);
    kg_auto(kg_free) char *parent = kg_path_folder(path);
    if (access(path, F_OK) == 0)
        return 0;
    int result = kg_make_dirs(parent, 0700, err);
    if (result < 0)
        return result;
    result = move_file(file, path);
    return result < 0 ? kg_fail_errno(err, -result, "keep the object %s", hash) : 0;
}

int objects_file_open(const char *folder, const char *hash, struct kg_err *err)
{
    char found[OBJECTS_HASH_TEXT];
    kg_auto(kg_free) char *path = objects_file_path(folder, hash);
    kg_auto(kg_close) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return kg_fail_errno(err, errno, "open the object %s", hash);
    int result = objects_hash(fd, found, err);
    if (result < 0)
        return result;
    if (strcmp(found, hash) != 0) {
        kg_fail(err, KG_E_IO, "the object %s is damaged: it is not what its hash says", hash);
        return kg_hint(err, "restore it from a backup, or upload the package again");
    }
    futimens(fd, NULL); /* when it was used */
    return kg_steal_fd(&fd);
}

void objects_file_remove(const char *folder, const char *hash)
{
    kg_auto(kg_free) char *path = objects_file_path(folder, hash);
    unlink(path);
}

/* -- a bound ----------------------------------------------------------------------------------- */

struct found_file {
    char *path; /* owned */
    struct timespec used;
    uint64_t bytes;
};

struct found_files {
    struct found_file *items; /* owned */
    size_t count, room;
    uint64_t bytes;
};

static void objects_files_close_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

static void found_add(struct found_files *found, const char *folder, const char *name)
{
    struct stat file;
    kg_auto(kg_free) char *path = kg_path_join(folder, name);
    if (lstat(path, &file) < 0 || !S_ISREG(file.st_mode))
        return;
    if (found->count == found->room) {
        found->room = found->room ? found->room * 2 : 64;
        found->items = kg_realloc(found->items, found->room * sizeof(*found->items));
    }
    found->bytes += (uint64_t)file.st_size;
    found->items[found->count++] = (struct found_file){
        .path = kg_steal(&path), .used = file.st_mtim, .bytes = (uint64_t)file.st_size};
}

static void found_add_all(struct found_files *found, const char *folder)
{
    kg_auto(objects_files_close_dir) DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            found_add(found, folder, entry->d_name);
}

static int by_use(const void *a, const void *b)
{
    const struct timespec *left = &((const struct found_file *)a)->used,
                          *right = &((const struct found_file *)b)->used;
    if (left->tv_sec != right->tv_sec)
        return left->tv_sec < right->tv_sec ? -1 : 1;
    return left->tv_nsec < right->tv_nsec ? -1 : left->tv_nsec > right->tv_nsec;
}

uint64_t objects_file_trim(const char *folder, uint64_t bytes_max)
{
    struct found_files found = {0};
    kg_auto(objects_files_close_dir) DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.') {
            kg_auto(kg_free) char *inner = kg_path_join(folder, entry->d_name);
            found_add_all(&found, inner);
        }
    if (found.count > 0)
        qsort(found.items, found.count, sizeof(*found.items), by_use);
    for (size_t i = 0; i < found.count; i++) {
        if (found.bytes > bytes_max && unlink(found.items[i].path) == 0)
            found.bytes -= found.items[i].bytes;
        free(found.items[i].path);
    }
    free(found.items);
    return found.bytes;
}
