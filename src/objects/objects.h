/*
 * Objects: bytes that never change, by the SHA-256 of what they are. Where they are is a row: files
 * below the state folder, or a bucket of S3 with a cache here. Whoever asks sees no path, and reads
 * nothing that was not seen to be what its name says.
 */
#ifndef KAGED_OBJECTS_H
#define KAGED_OBJECTS_H

#include "config/config.h"
#include "config/local.h"
#include "helper/helper.h"

#define OBJECTS_HASH_TEXT 65 /* SHA-256 in hexadecimal, and NUL */

struct objects_parts {
    struct helper_place place; /* borrowed, like the rest */
    const struct cage_facts *facts;
    const char *folder; /* of the files, or of the bucket's cache: below it */
    /* Asked again each time, as both may change: */
    const struct config *(*config)(void *data);
    const struct local *(*local)(void *data);
    void *data;
};

struct objects;
/* Which row it is, cluster.bucket says. */
struct objects *objects_new(const struct objects_parts *parts, struct kg_err *err);
void objects_stop(struct objects *objects); /* all that is under way ends with KG_E_STOPPING */
void objects_free(struct objects *objects); /* takes NULL */

/* Of an open file, from its start. Blocks. */
int objects_hash(int fd, char ret_hash[OBJECTS_HASH_TEXT], struct kg_err *err);

/*
 * Once, maybe before the function returns. fd: to read it from its start, the receiver's from then;
 * -1 after a put. path: where a cage can read it, dies with the callback; a cache may forget it
 * later, and NULL: it is nowhere but in the fd. KG_E_OBJECTS: the bucket cannot be had now, and may
 * later.
 */
typedef void objects_done_fn(void *data, int fd, const char *path_or_null,
                             const struct kg_err *err_or_null);
/* Takes the file, whose hash that is, once it is there for good; after an error it is as it was. */
void objects_put(struct objects *objects, const char *hash, const char *file,
                 objects_done_fn *on_done, void *data);
/* bytes: how many it has; a longer answer is not even read to its end. */
void objects_open(struct objects *objects, const char *hash, uint64_t bytes,
                  objects_done_fn *on_done, void *data);

/* -- how it does ------------------------------------------------------------------------------- */

struct objects_facts {
    const char *bucket;           /* "s3://NAME/PREFIX"; NULL: files */
    uint64_t hits, misses;        /* of the cache */
    uint64_t bytes_in, bytes_out; /* from and to the bucket */
    uint64_t errors;
    uint64_t cache_bytes; /* at the last look */
};
struct objects_facts objects_facts(const struct objects *objects);

/* What a bucket says to an object of a few bytes that is put, read and removed. */
struct objects_check {
    bool reached, may_write, may_read, may_remove;
    int64_t clock_ms;    /* how far its clock is ahead of ours */
    const char *problem; /* "" if there is none; dies with the callback, like the next */
    const char *hint;
};
typedef void objects_check_fn(void *data, const struct objects_check *check);
/* Of a bucket; once, maybe before it returns. */
void objects_check(struct objects *objects, objects_check_fn *on_done, void *data);

#endif
