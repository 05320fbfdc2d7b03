/*
 * Objects: bytes that never change, by the SHA-256 of what they are. Files below the state folder
 * today. An object is read only after it was seen to be what its name
 * says. Functions block, and belong on a worker or the keeper's thread.
 */
#include "catalog/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct objects {
    char *folder; /* owned */
};

struct objects *objects_new(const char *folder)
{
    struct objects *objects = kg_alloc(sizeof(*objects));
    objects->folder = kg_strdup(folder);
    return objects;
}

void objects_free(struct objects *objects)
{
    if (objects == NULL)
        return;
    free(objects->folder);
    free(objects);
}

char *objects_path(const struct objects *objects, const char *hash)
{
    return kg_format("%s/%.2s/%s", objects->folder, hash, hash);
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

bool objects_has(const struct objects *objects, const char *hash)
{
    kg_auto(kg_free) char *path = objects_path(objects, hash);
    return access(path, F_OK) == 0;
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

int objects_put(struct objects *objects, const char *hash, const char *file, struct kg_err *err)
{
    kg_auto(kg_free) char *path = objects_path(objects, hash);
    kg_auto(kg_free) char *folder = kg_path_folder(path);
    if (access(path, F_OK) == 0)
        return 0;
    int result = kg_make_dirs(folder, 0700, err);
    if (result < 0)
        return result;
    result = move_file(file, path);
    return result < 0 ? kg_fail_errno(err, -result, "keep the object %s", hash) : 0;
}

int objects_open(const struct objects *objects, const char *hash, struct kg_err *err)
{
    char found[OBJECTS_HASH_TEXT];
    kg_auto(kg_free) char *path = objects_path(objects, hash);
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
    return kg_steal_fd(&fd);
}

int objects_remove(struct objects *objects, const char *hash, struct kg_err *err)
{
    kg_auto(kg_free) char *path = objects_path(objects, hash);
    if (unlink(path) < 0 && errno != ENOENT)
        return kg_fail_errno(err, errno, "remove the object %s", hash);
    return 0;
}
