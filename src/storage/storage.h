/*
 * Storage of plugins. Each instance has a database file of its own, and a process of its own in a
 * cage that runs its SQL: kaged-storage. It is started on first use, ended when idle, and killed
 * when a statement outlives its deadline. What is here is the daemon's side: requests go in, in
 * order, and each is answered once. No SQL is read in the daemon.
 */
#ifndef KAGED_STORAGE_H
#define KAGED_STORAGE_H

#include "base/json/json.h"
#include "cage/cage.h"

struct storage_limits {
    int64_t size_bytes;   /* of the file */
    int64_t statement_ms; /* of one request */
    int64_t rows_max;     /* of a result, like the next */
    int64_t result_bytes;
    int64_t line_bytes;    /* of a request or an answer on the wire */
    int64_t sql_bytes;     /* SQLite's own limits: of a statement, */
    int64_t value_bytes;   /* of a value or a row, */
    int64_t depth;         /* of an expression, */
    int64_t variables;     /* of a statement */
    uint32_t requests_max; /* of one plugin, without an answer */
    uint64_t idle_ms;      /* without a request: the process ends */
    bool sync_full;        /* each commit is on the disk before its answer */
};

/* What all storages share. Each part is borrowed and outlives them. */
struct storage_place {
    struct loop *loop;
    struct cage_spawner *spawner;
    const struct cage_facts *facts; /* NULL: no cage can be built, so there is no storage */
    const char *dir;                /* absolute, without a link in it; the files are in it */
    struct storage_limits limits;   /* read when a process starts */
};

struct storage;

/* What the one above is told. */
struct storage_ops {
    /* The file was damaged, and is called moved_to now. Nothing more is answered until a reset. */
    void (*on_damaged)(void *data, const char *moved_to);
    void (*on_closed)(void *data); /* after storage_close: the process is gone */
};

/* name is that of the instance, and of the file: NAME.db. */
struct storage *storage_new(const struct storage_place *place, const char *name,
                            const struct storage_ops *ops, void *data);
/* Kills the process if there is one; requests that wait are not answered any more. */
void storage_free(struct storage *storage);

enum storage_outcome {
    STORAGE_RESULT, /* payload: the result, as JSON */
    STORAGE_ERROR,  /* payload: an error object, as JSON: {code, message, data?} */
};
/* Called once, never before storage_ask returns. The payload dies with the callback. */
typedef void storage_done_fn(void *data, enum storage_outcome outcome, struct kg_str payload);

struct storage_request {
    const char *method;   /* of kaged-storage: exec, query, schema, batch, size */
    struct kg_str params; /* a valid JSON object */
    bool only_reads;      /* it is asked again if the process ends before it answers */
    const void *whose;    /* for storage_drop; NULL: nobody's that could leave */
    storage_done_fn *on_done;
    void *data;
};
/* KG_E_BUSY past the bound of waiting requests, KG_E_REFUSED while the file is damaged. */
int storage_ask(struct storage *storage, const struct storage_request *request, struct kg_err *err);

/*
 * The caller is gone: what waits is answered at once with an error, and what its process has been
 * given is killed if that takes longer than a moment.
 */
void storage_drop(struct storage *storage, const void *whose);

/*
 * Once all that was asked before is answered, and the process has closed the file, copies it to
 * `path`, which must not exist. Requests that come meanwhile wait. on_done's payload is null.
 */
int storage_export(struct storage *storage, const char *path, struct loop_worker *worker,
                   storage_done_fn *on_done, void *data, struct kg_err *err);
/* Lets a plugin whose file was damaged start with an empty one. -ENOENT if it was not. */
int storage_reset(struct storage *storage, struct kg_err *err);

/*
 * Ends the process in good order, or after a while in any, and takes no more requests; on_closed
 * follows.
 */
void storage_close(struct storage *storage);
/* The same at once: what is not answered by now never is. */
void storage_kill(struct storage *storage);
bool storage_is_closed(const struct storage *storage);

struct storage_facts {
    char *file;     /* borrowed; until the storage goes */
    bool running;   /* its process lives */
    bool damaged;   /* see on_damaged */
    uint64_t bytes; /* of the file; 0: there is none yet */
    uint32_t waiting;
    uint64_t requests;
};
struct storage_facts storage_facts(const struct storage *storage);

/*
 * A statement without its values, for logs: what stands in quotes and numbers become `?`, comments
 * go. sql is valid JSON: a string, or anything with statements in it.
 */
void storage_redact(struct kg_str sql, struct kg_buf *out);

#endif
