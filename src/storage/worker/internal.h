/*
 * kaged-storage: one plugin's SQL on one SQLite file, in a process of its own.
 *   main       confinement, and the loop over stdin
 *   serve      lines in, answers out; commits that several statements share
 *   method     what can be asked
 *   statement  prepared statements: cached, bound, run
 *   rows       results as JSON
 *   value      one value, JSON to SQLite and back
 *   guard      what SQL may reach
 *   database   the file and the settings of the connection
 *   failure    why a request was not done
 *   options    bounds, from the command line
 */
#ifndef KAGED_STORAGE_WORKER_H
#define KAGED_STORAGE_WORKER_H

#include "base/json/json.h"

#include <sqlite3.h>

/* How the process ends; the daemon reads it. */
enum worker_exit {
    WORKER_DONE = 0,        /* stdin ended */
    WORKER_IO = 1,          /* stdin or stdout failed, or a line was too long */
    WORKER_USAGE = 2,       /* the command line is wrong */
    WORKER_CORRUPT = 3,     /* the file is not a database, or a damaged one */
    WORKER_CANNOT_OPEN = 4, /* the file cannot be opened, or somebody else has it open */
};

/* -- options ----------------------------------------------------------------------------------- */

struct options {
    const char *file; /* borrowed from the command line */
    int64_t size_bytes;
    int64_t statement_ms; /* of one request; a batch is one */
    int64_t rows_max;
    int64_t result_bytes;
    int64_t line_bytes;
    int64_t sql_bytes;
    int64_t value_bytes; /* of one value or one row */
    int64_t batch_max;
    int64_t columns;
    int64_t depth;
    int64_t variables;
    int64_t compounds;
    int64_t arguments;
    int64_t operations;
    int64_t trigger_depth;
    int64_t pattern_bytes;
    int64_t heap_bytes;
    int64_t cache_bytes;
    int64_t statements_cached;
    bool sync_full;
};
int options_parse(int count, char **words, struct options *ret_options, struct kg_err *err);

/* -- failure ----------------------------------------------------------------------------------- */

#define FAILURE_MESSAGE_MAX 512

struct failure {
    enum kg_code code;
    const char *rule; /* of the guard, or a bound; NULL: none */
    int sqlite_code;  /* extended; 0: SQLite did not say it */
    int64_t index;    /* of a statement in a batch, or -1 */
    char message[FAILURE_MESSAGE_MAX];
};
/* Both return -1. */
int failure_set(struct failure *failure, enum kg_code code, const char *rule, const char *format,
                ...) KG_PRINTF(4, 5);
int failure_sqlite(struct failure *failure, int sqlite_code, const char *message);
void failure_write(struct kg_json_writer *writer, const struct failure *failure);

/* -- spans: parts of JSON that is known to be valid -------------------------------------------- */

/*
 * The decoded text of a JSON string: of the span itself, or in scratch, which must have room for
 * all of it so that earlier texts stay where they are.
 */
struct kg_str span_text(struct kg_str string, struct kg_buf *scratch);

/* -- guard ------------------------------------------------------------------------------------- */

/* What the authorizer saw while a statement was prepared. */
enum guard_seen {
    GUARD_WROTE = 1 << 0,
    GUARD_INSERTED = 1 << 1,
    GUARD_CHANGED_SCHEMA = 1 << 2,
    GUARD_READS_SCHEMA = 1 << 3, /* ALTER, DROP: SQLite itself reads the schema tables */
};

struct guard_rule;

struct guard {
    bool trusted;           /* the statement is ours */
    bool read_only;         /* the request may not write, whatever the statement is */
    bool vacuuming;         /* SQLite copies the whole file by statements of its own */
    bool schema_rowid;      /* SQLite is about to find the row of the schema that it updates */
    bool stale;             /* shadows may be out of date */
    unsigned seen;          /* enum guard_seen */
    struct kg_str sql;      /* borrowed: the plugin's text */
    struct kg_map *shadows; /* owned: names of tables that belong to a virtual table, lower case */
    const struct guard_rule *broken; /* the first rule that the statement broke, or NULL */
    char object[128];                /* what it broke it with */
};
int guard_install(struct guard *guard, sqlite3 *handle);
void guard_free(struct guard *guard);
/* Before the plugin's statement is prepared, and before it is run. */
void guard_begin(struct guard *guard, struct kg_str sql);
/* Whether an error of SQLite comes from a rule; then failure says which. */
bool guard_explain(const struct guard *guard, int sqlite_code, const char *message,
                   struct failure *failure);
void guard_refuse_write(struct failure *failure);
void guard_forget_shadows(struct guard *guard);
void guard_add_shadow(struct guard *guard, const char *name);

/* -- database ---------------------------------------------------------------------------------- */

enum own_statement {
    OWN_BEGIN,
    OWN_COMMIT,
    OWN_ROLLBACK,
    OWN_SAVEPOINT,
    OWN_RELEASE,
    OWN_UNDO,
    OWN_COUNT
};

struct statement_cache;

struct database {
    sqlite3 *handle;
    const struct options *options; /* borrowed */
    struct guard guard;
    struct statement_cache *cache; /* owned */
    sqlite3_stmt *own[OWN_COUNT];
    uint64_t deadline_ns; /* of the request at hand */
    int64_t rowid_before; /* the last insert of the statements before this one */
    bool corrupt;         /* SQLite found the file damaged */
};

struct database *database_open(const struct options *options, struct failure *failure);
/* Whether the code means that the file itself is damaged. */
bool database_is_damage(int sqlite_code);
void database_close(struct database *database); /* takes NULL */
/* Turns the error of the last call into a failure; returns -1. */
int database_fail(struct database *database, int sqlite_code, struct failure *failure);
int database_run_own(struct database *database, enum own_statement which, struct failure *failure);
/* Out of any transaction, whatever happened. */
void database_roll_back(struct database *database);
bool database_in_transaction(const struct database *database);
/* The clock of a request starts; past statement_ms SQLite is interrupted. */
void database_start_clock(struct database *database);
/* Before a plugin's text is prepared: knows the shadow tables that there are now. */
void database_refresh_guard(struct database *database);
/* A statement of ours, which the guard lets pass; finalize it with database_end_query. */
sqlite3_stmt *database_query(struct database *database, const char *sql, struct failure *failure);
void database_end_query(struct database *database, sqlite3_stmt *query);
int64_t database_number(struct database *database, const char *sql);

/* -- statement --------------------------------------------------------------------------------- */

struct statement {
    sqlite3_stmt *handle;
    struct statement *newer, *older; /* in the cache, by last use */
    char *text;                      /* owned: the key in the cache; NULL: not cached */
    size_t text_length;
    bool reads_only;
    bool changes_rows; /* INSERT, UPDATE, DELETE: can share a commit */
    bool inserts;
    bool changes_schema;
    bool vacuums;
    int columns;
    int prepared_again;  /* how often SQLite did so when the names were taken */
    struct kg_buf names; /* `"a":` for each column, one after the other */
    size_t *name_ends;   /* owned, of columns */
};

struct statement_cache *statement_cache_new(void);
void statement_cache_free(struct statement_cache *cache);
/* Give it back with statement_done. */
struct statement *statement_get(struct database *database, struct kg_str sql,
                                struct failure *failure);
void statement_done(struct database *database, struct statement *statement);
/* params: a span, data NULL if absent. Texts stay in the span or in scratch. */
int statement_bind(struct statement *statement, struct kg_str params, struct kg_buf *scratch,
                   struct failure *failure);

/* -- value ------------------------------------------------------------------------------------- */

int value_bind(sqlite3_stmt *handle, int index, struct kg_str span, struct kg_buf *scratch,
               struct failure *failure);
/* False if SQLite had no memory to give the value. */
bool value_write(struct kg_buf *out, sqlite3_stmt *handle, int column);

/* -- rows -------------------------------------------------------------------------------------- */

/* Runs the statement; appends its columns and rows as members of an object, if it has any. */
int rows_run(struct database *database, struct statement *statement, struct kg_json_writer *writer,
             size_t result_start, struct failure *failure);
void rows_forget_names(struct statement *statement);

/* -- method ------------------------------------------------------------------------------------ */

/*
 * Requests that change rows and came together share one commit: a group. Each of them is still
 * whole or undone on its own, and none is answered before the commit.
 */
enum group_loss {
    GROUP_KEPT,
    GROUP_LOST_BEFORE, /* its commit failed, and the request at hand was not run */
    GROUP_LOST_WITH,   /* the failure of the request at hand undid the whole transaction */
};

struct worker {
    struct database *database; /* owned */
    const struct options *options;
    struct kg_buf out;     /* answers that are not written yet */
    struct kg_buf scratch; /* decoded texts of the request at hand */
    bool share;            /* a request that changes rows opens a group or joins it */
    bool group_open;       /* a transaction waits for its commit */
    enum group_loss loss;
};

/* params: a span, data NULL if absent. Appends the result to out. */
int method_call(struct worker *worker, struct kg_str name, struct kg_str params,
                struct failure *failure);
/* The commit that a group shares; false, with nothing of the group done, if it failed. */
bool method_commit_group(struct worker *worker);

/* -- serve ------------------------------------------------------------------------------------- */

/* Answers whole lines; all are written to fd when it returns. Negative errno if that failed. */
int serve_lines(struct worker *worker, struct kg_str lines, int fd);
/* Answers whole lines with one failure, since there is no database. */
int serve_failure(struct kg_str lines, const struct failure *failure, int fd);

#endif
