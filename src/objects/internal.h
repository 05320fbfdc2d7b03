/* What the files of this folder share. */
#ifndef KAGED_OBJECTS_INTERNAL_H
#define KAGED_OBJECTS_INTERNAL_H

#include "objects/objects.h"

/* -- files.c: objects as files of a folder; functions block -------------------------------------
 */

char *objects_file_path(const char *folder, const char *hash); /* where it is; owned */
/* Takes the file; one that is there already is left alone, and the file too. */
int objects_file_put(const char *folder, const char *hash, const char *file, struct kg_err *err);
/* It was read once, and is what it should be. -ENOENT: it is not there; KG_E_IO: it is damaged. */
int objects_file_open(const char *folder, const char *hash, struct kg_err *err);
void objects_file_remove(const char *folder, const char *hash);
/* Removes the files that were used least recently, until they are no more than so many bytes. */
uint64_t objects_file_trim(const char *folder, uint64_t bytes_max);

/* -- bucket.c: one errand to a bucket, by kaged-fetch in a cage ---------------------------------
 */

/* Where the bucket is, of the configuration. */
struct bucket_place {
    char *url;  /* owned: what keys are added to, with a slash at its end */
    char *host; /* owned: the only one that is reached */
    uint16_t port;
};
int bucket_place_find(const struct config *config, struct bucket_place *ret_place,
                      struct kg_err *err);
void bucket_place_free(struct bucket_place *place); /* for kg_auto */

struct bucket_errand {
    const char *act;    /* "put", "get", "check" */
    const char *key;    /* below the bucket's prefix */
    const char *hash;   /* of what is put */
    const char *file;   /* that is put; or NULL */
    const char *folder; /* into which "object" is written; or NULL */
    uint64_t bytes_max; /* of what comes */
};
struct bucket_answer {
    int status; /* of HTTP; 0: there is none */
    uint64_t bytes;
    int64_t clock_ms;
    bool is_missing;            /* the key */
    const struct kg_node *said; /* all of it */
};
struct bucket_run;
/* Once, never before it returns. */
typedef void bucket_done_fn(void *data, const struct bucket_answer *answer,
                            const struct kg_err *err_or_null);
struct bucket_run *bucket_run_start(const struct objects_parts *parts,
                                    const struct bucket_errand *errand, bucket_done_fn *on_done,
                                    void *data, struct kg_err *err);
void bucket_run_cancel(struct bucket_run *run); /* on_done is not called */

#endif
