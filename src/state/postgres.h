/*
 * What the files of the PostgreSQL backend share: libpq, which is loaded when it is first needed, a
 * connection that outlives its socket, and statements. A connection belongs to one thread.
 */
#ifndef KAGED_STATE_POSTGRES_H
#define KAGED_STATE_POSTGRES_H

#include "state/cluster.h"
#include "state/internal.h"

#include <libpq-fe.h>

/* -- libpq, see postgres_library.c ------------------------------------------------------------- */

/* Every function of it that is called. */
#define POSTGRES_FUNCTIONS(ROW)                                                                    \
    ROW(PQconnectdbParams)                                                                         \
    ROW(PQfinish)                                                                                  \
    ROW(PQstatus)                                                                                  \
    ROW(PQerrorMessage)                                                                            \
    ROW(PQserverVersion)                                                                           \
    ROW(PQtransactionStatus)                                                                       \
    ROW(PQsocket)                                                                                  \
    ROW(PQbackendPID)                                                                              \
    ROW(PQsetnonblocking)                                                                          \
    ROW(PQflush)                                                                                   \
    ROW(PQconsumeInput)                                                                            \
    ROW(PQisBusy)                                                                                  \
    ROW(PQgetResult)                                                                               \
    ROW(PQsendQuery)                                                                               \
    ROW(PQsendQueryParams)                                                                         \
    ROW(PQsendPrepare)                                                                             \
    ROW(PQsendQueryPrepared)                                                                       \
    ROW(PQenterPipelineMode)                                                                       \
    ROW(PQexitPipelineMode)                                                                        \
    ROW(PQpipelineSync)                                                                            \
    ROW(PQresultStatus)                                                                            \
    ROW(PQresultErrorField)                                                                        \
    ROW(PQcmdStatus)                                                                               \
    ROW(PQcmdTuples)                                                                               \
    ROW(PQntuples)                                                                                 \
    ROW(PQgetvalue)                                                                                \
    ROW(PQgetlength)                                                                               \
    ROW(PQgetisnull)                                                                               \
    ROW(PQclear)                                                                                   \
    ROW(PQnotifies)                                                                                \
    ROW(PQfreemem)

struct postgres_library {
#define POSTGRES_FIELD(name) __typeof__(&(name)) name;
    POSTGRES_FUNCTIONS(POSTGRES_FIELD)
#undef POSTGRES_FIELD
};
/* NULL: it is not there. Any thread may ask; it stays until the program ends. */
const struct postgres_library *postgres_library(struct kg_err *err);

/* -- statements, see postgres_statements.c ----------------------------------------------------- */

enum postgres_statement {
#define POSTGRES_STATEMENT(name, again, act, sql) PG_##name,
#include "state/postgres_statements.def"
#undef POSTGRES_STATEMENT
    PG_STATEMENT_COUNT
};

/* -- a connection, see postgres_connection.c --------------------------------------------------- */

/* Steps of a transaction that go with the next statement, before it and without a wait for them. */
struct postgres_ahead {
    bool begins, writes, forgets, saves;
    const char *org; /* for which all that follows is; borrowed; NULL: as before */
};

#define POSTGRES_LIFE_BYTES 80
struct postgres {
    const struct postgres_library *pq;
    struct postgres_target *target; /* borrowed */
    const char *purpose;            /* borrowed; what the server knows it by */
    bool readonly;
    PGconn *connection; /* NULL: there is none now */
    bool prepared[PG_STATEMENT_COUNT];
    struct postgres_ahead ahead;
    bool broken;  /* it was lost within a transaction, which nobody ended yet */
    char xid[24]; /* of the transaction that writes */
    char server_life[POSTGRES_LIFE_BYTES]; /* another one after the server crashed or restarted */
    int before;          /* the server's process of the connection before, which may still work */
    uint64_t answer_ms;  /* for which a server may be silent; 0: as long as most may */
    bool silent;         /* it was, for longer */
    uint64_t tries;      /* to connect, which failed since it was lost */
    uint64_t next_ms;    /* no sooner is tried again */
    struct kg_err cause; /* of the last failure */
};

/* Where connections lead to. It does not change. */
struct postgres_target {
    char *url, *password_or_null, *shown, *node;
    /* Whether a connection that was just made may be used; or why not. NULL: any may. */
    int (*check)(struct postgres *postgres, void *data, struct kg_err *err);
    /* Whether one may be used at all, now; asked before each use. */
    int (*allow)(void *data, struct kg_err *err);
    void *data;
};
int postgres_target_set(struct postgres_target *target, const struct state_cluster_options *options,
                        struct kg_err *err);
void postgres_target_clear(struct postgres_target *target);

/* Connects if it is not, no sooner than the pause after the last try allows. */
int postgres_ready(struct postgres *postgres, struct kg_err *err);
void postgres_disconnect(struct postgres *postgres);
/* What came of something that was sent (what libpq's functions return), to be cleared; or NULL. */
PGresult *postgres_answer(struct postgres *postgres, int sent);
/* Sets err of what the server, or libpq without one, says; a lost connection is closed. */
int postgres_fail(struct postgres *postgres, const PGresult *result_or_null, const char *act,
                  struct kg_err *err);
/* A script without parameters, and nothing of what it gives. */
int postgres_script(struct postgres *postgres, const char *sql, const char *act,
                    struct kg_err *err);
/* A query, with up to two texts; results are in binary. NULL: it failed. To be cleared. */
PGresult *postgres_ask(struct postgres *postgres, const char *sql, const char *act,
                       const char *first_or_null, const char *second_or_null, struct kg_err *err);
/* See state_step. */
int postgres_step(struct postgres *postgres, enum state_step step, struct kg_err *err);
bool postgres_in_transaction(struct postgres *postgres);
/* The number of a transaction that writes, of what was asked for it. */
void postgres_take_xid(struct postgres *postgres, const PGresult *rows);
bool postgres_is_good(const struct postgres *postgres, const PGresult *result);

/* -- what goes ahead of a statement, see postgres_ahead.c -------------------------------------- */

/* As postgres_step, but what can wait for the next statement does. */
int postgres_step_later(struct postgres *postgres, enum state_step step, struct kg_err *err);
/* Sends what waits; statements are to follow, sent like these, */
int postgres_ahead_send(struct postgres *postgres);
/* and this is what came of all of it: what failed first, else the last. */
struct postgres_go {
    size_t count; /* statements */
    void (*take)(void *data, size_t at,
                 const PGresult *rows); /* for each that went well; or NULL */
    void *data;
};
PGresult *postgres_ahead_answer(struct postgres *postgres, int sent, const struct postgres_go *go);
static inline bool postgres_has_ahead(const struct postgres *postgres)
{
    const struct postgres_ahead *ahead = &postgres->ahead;
    return ahead->begins || ahead->forgets || ahead->saves || ahead->org != NULL;
}

/* -- rows of a result -------------------------------------------------------------------------- */

int64_t postgres_int_at(const struct postgres *postgres, const PGresult *rows, int row, int column);
/* NULL where the database has none. */
const char *postgres_text_at(const struct postgres *postgres, const PGresult *rows, int row,
                             int column);

/* -- the backend's handle ---------------------------------------------------------------------- */

struct postgres_state {
    struct state base;
    struct state *local; /* owned; what is the node's own */
    struct postgres postgres;
};

static inline struct postgres_state *postgres_own(struct state *base)
{
    return KG_CONTAINER(base, struct postgres_state, base);
}

/* What is on a disk is of this node alone. */
static inline const char *postgres_node(struct state *base)
{
    return postgres_own(base)->postgres.target->node;
}

/*
 * Runs a statement with parameters, a letter each: 'i' an int64_t, 't' a text or NULL, 'b' bytes as
 * a struct kg_str. *ret_rows is to be cleared; NULL: they are not wanted.
 */
int postgres_query(struct state *state, enum postgres_statement which, PGresult **ret_rows,
                   struct kg_err *err, const char *types, ...);
#define postgres_run(state, which, err, ...) postgres_query(state, which, NULL, err, __VA_ARGS__)

/* What a statement is run with. Texts and bytes are borrowed until it is sent. */
#define POSTGRES_PARAMETERS_MAX 16
struct postgres_parameters {
    int count;
    const char *values[POSTGRES_PARAMETERS_MAX];
    int lengths[POSTGRES_PARAMETERS_MAX], formats[POSTGRES_PARAMETERS_MAX];
    Oid types[POSTGRES_PARAMETERS_MAX];
    char numbers[POSTGRES_PARAMETERS_MAX][24];
};
void postgres_set(struct postgres_parameters *all, const char *types, ...);
/* Which statement it is that is run as the at-th of a go, and with what. */
typedef enum postgres_statement postgres_set_fn(void *data, size_t at,
                                                struct postgres_parameters *all);
/* Several statements, within a transaction, in one go. After an error nothing that was taken
 * counts. */
int postgres_run_all(struct state *state, postgres_set_fn *set, const struct postgres_go *go,
                     struct kg_err *err);

/* What walks over rows does with each. */
struct postgres_row {
    const struct postgres *postgres;
    PGresult *rows;
    int at, count;
};
int postgres_begin(struct state *state, enum postgres_statement which, struct postgres_row *ret_row,
                   struct kg_err *err, const char *types, ...);
bool postgres_next(struct postgres_row *row); /* false: it was the last one, and all is cleared */
void postgres_end(struct postgres_row *row);  /* before the last */
int64_t postgres_int(const struct postgres_row *row, int column);
const char *postgres_text(const struct postgres_row *row, int column);
struct kg_str postgres_bytes(const struct postgres_row *row, int column);

extern const struct state_backend state_postgres;
extern const struct state_sessions_backend state_sessions_postgres;
extern const struct state_catalog_backend state_catalog_postgres;

/* -- the schema, see postgres_schema.c --------------------------------------------------------- */

int64_t postgres_newest_version(void);
/* 0: there is none. */
int postgres_version(struct postgres *postgres, int64_t *ret_version, struct kg_err *err);
/* Within a transaction of the caller's. From 0 it makes a cluster of that name. */
int postgres_migrate(struct postgres *postgres, const char *name, struct kg_err *err);
/* The server is one that we know, and keeps texts as UTF-8. */
int postgres_check_server(struct postgres *postgres, struct kg_err *err);

/* -- who has the database, see cluster.c ------------------------------------------------------- */

/* Of a daemon's own connections. */
struct postgres_target *state_cluster_lanes(struct state_cluster *cluster);
/* The one that this process joined with that kaged.db, or NULL. */
struct postgres_target *state_cluster_target(const char *place);
/* For as long as the connection lasts; -EBUSY after so long. */
int state_cluster_lock(struct postgres *postgres, uint64_t wait_ms, struct kg_err *err);
int state_cluster_note(const char *place, const char *name_or_null, struct kg_err *err);

#endif
