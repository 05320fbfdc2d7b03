/* The real kaged-storage on pipes, with a database in a folder of its own. */
#ifndef KAGED_TEST_STORAGE_H
#define KAGED_TEST_STORAGE_H

#include "base/json/json.h"

struct storage {
    char dir[64];
    char path[96]; /* of the database; FILE-wal is beside it */
    pid_t pid;     /* 0: not running */
    int in, out;
    uid_t uid;  /* to run as, or 0: as we are */
    int64_t id; /* of the last request */
    struct kg_buf received;
};

struct storage *storage_new(void); /* the folder and two empty files */
void storage_free(struct storage *storage);
/* options: NAME=VALUE texts, ended by NULL; or NULL. */
void storage_start(struct storage *storage, const char *const *options);
/* Closes stdin and waits: the exit code, or 128 + signal. */
int storage_stop(struct storage *storage);
/* The same without closing anything first. */
int storage_wait(struct storage *storage);
void storage_kill(struct storage *storage); /* SIGKILL, and waits */

/* Appends a request to text, as one line; returns its id. params is JSON. */
int64_t storage_put(struct storage *storage, struct kg_buf *text, const char *method,
                    struct kg_str params);
void storage_write(struct storage *storage, struct kg_str text);
/* The next line that the worker wrote, parsed; NULL at the end of its output. */
struct kg_doc *storage_read(struct storage *storage);

/* One request and its answer; the answer must carry the id of the request. */
struct kg_doc *storage_ask(struct storage *storage, const char *method, struct kg_str params);
/* params as an object of sql and JSON values (NULL: none). */
struct kg_doc *storage_sql(struct storage *storage, const char *method, struct kg_str sql,
                           const char *values);

#endif
