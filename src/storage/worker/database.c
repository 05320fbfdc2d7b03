/*
 * The connection. Its file and the file's WAL are the only files that are ever written: the WAL's
 * index lives in memory (exclusive locking), so do temporary tables and journals. Whatever a
 * request did, the connection is out of any transaction when the next one comes, except for the
 * group that serve.c keeps open on purpose.
 */
#include "base/disk.h"
#include "storage/worker/internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define BUSY_TIMEOUT_MS   2000      /* for the worker before this one to be gone */
#define PROGRESS_STEPS    1000      /* of SQLite's machine between two looks at the clock */
#define WAL_KEPT_BYTES    "4194304" /* what a checkpoint leaves of a larger WAL */
#define NANOSECONDS_IN_MS UINT64_C(1000000)

static const char *const own_texts[OWN_COUNT] = {
    [OWN_BEGIN] = "BEGIN",           [OWN_COMMIT] = "COMMIT",
    [OWN_ROLLBACK] = "ROLLBACK",     [OWN_SAVEPOINT] = "SAVEPOINT kaged",
    [OWN_RELEASE] = "RELEASE kaged", [OWN_UNDO] = "ROLLBACK TO kaged",
};

/* -- errors ------------------------------------------------------------------------------------ */

bool database_is_damage(int sqlite_code)
{
    /* Damage in a virtual table's own tables can be repaired by SQL; the file is whole. */
    return sqlite_code == SQLITE_NOTADB ||
           ((sqlite_code & 0xFF) == SQLITE_CORRUPT && sqlite_code != SQLITE_CORRUPT_VTAB);
}

/* Bounds of ours, said with their figures where SQLite's words are short. */
static int fail_at_bound(const struct options *options, int sqlite_code, const char *message,
                         struct failure *failure)
{
    char text[FAILURE_MESSAGE_MAX];
    switch (sqlite_code & 0xFF) {
    case SQLITE_INTERRUPT:
        snprintf(text, sizeof(text), "interrupted: a request may run for %lld ms (statement_ms)",
                 (long long)options->statement_ms);
        break;
    case SQLITE_FULL:
    case SQLITE_IOERR:
        if (kg_disk_is_full(options->file))
            snprintf(text, sizeof(text),
                     "%s: the disk is full, which is not for this plugin to fix: ask the operator "
                     "to make room",
                     message);
        else if ((sqlite_code & 0xFF) == SQLITE_IOERR)
            return failure_sqlite(failure, sqlite_code, message);
        else
            snprintf(
                text, sizeof(text),
                "%s: the storage of a plugin may grow to %lld bytes (size_bytes); delete what is "
                "not needed, or ask the operator for more",
                message, (long long)options->size_bytes);
        break;
    case SQLITE_TOOBIG:
        snprintf(text, sizeof(text),
                 "%s: a value or row may have %lld bytes (value_bytes), a statement %lld "
                 "(sql_bytes)",
                 message, (long long)options->value_bytes, (long long)options->sql_bytes);
        break;
    case SQLITE_NOMEM:
        snprintf(text, sizeof(text), "%s: a request may use %lld bytes (heap_bytes)", message,
                 (long long)options->heap_bytes);
        break;
    default:
        return failure_sqlite(failure, sqlite_code, message);
    }
    return failure_sqlite(failure, sqlite_code, text);
}

int database_fail(struct database *database, int sqlite_code, struct failure *failure)
{
    const char *message = sqlite3_errmsg(database->handle);
    if (database_is_damage(sqlite_code))
        database->corrupt = true;
    if (!database->guard.trusted && guard_explain(&database->guard, sqlite_code, message, failure))
        return -1;
    return fail_at_bound(database->options, sqlite_code, message, failure);
}

/* -- time -------------------------------------------------------------------------------------- */

static int database_on_progress(void *data)
{
    const struct database *database = data;
    return kg_monotonic_ns() > database->deadline_ns;
}

void database_start_clock(struct database *database)
{
    database->deadline_ns =
        kg_monotonic_ns() + (uint64_t)database->options->statement_ms * NANOSECONDS_IN_MS;
}

/* -- statements of ours ------------------------------------------------------------------------ */

sqlite3_stmt *database_query(struct database *database, const char *sql, struct failure *failure)
{
    sqlite3_stmt *query = NULL;
    database->guard.trusted = true;
    int code = sqlite3_prepare_v2(database->handle, sql, -1, &query, NULL);
    if (code != SQLITE_OK)
        database_fail(database, code, failure);
    return query;
}

void database_end_query(struct database *database, sqlite3_stmt *query)
{
    sqlite3_finalize(query);
    database->guard.trusted = false;
}

int64_t database_number(struct database *database, const char *sql)
{
    struct failure ignored;
    int64_t number = 0;
    sqlite3_stmt *query = database_query(database, sql, &ignored);
    if (query != NULL && sqlite3_step(query) == SQLITE_ROW)
        number = sqlite3_column_int64(query, 0);
    database_end_query(database, query);
    return number;
}

int database_run_own(struct database *database, enum own_statement which, struct failure *failure)
{
    sqlite3_stmt **statement = &database->own[which];
    int code = SQLITE_OK;
    database->guard.trusted = true;
    if (*statement == NULL)
        code = sqlite3_prepare_v3(database->handle, own_texts[which], -1, SQLITE_PREPARE_PERSISTENT,
                                  statement, NULL);
    if (code == SQLITE_OK) {
        sqlite3_step(*statement);
        code = sqlite3_reset(*statement);
    }
    int result = code == SQLITE_OK ? 0 : database_fail(database, code, failure);
    database->guard.trusted = false;
    return result;
}

bool database_in_transaction(const struct database *database)
{
    return sqlite3_get_autocommit(database->handle) == 0;
}

void database_roll_back(struct database *database)
{
    struct failure ignored;
    if (database_in_transaction(database))
        database_run_own(database, OWN_ROLLBACK, &ignored);
}

void database_refresh_guard(struct database *database)
{
    struct guard *guard = &database->guard;
    if (!guard->stale)
        return;
    struct failure ignored;
    guard_forget_shadows(guard);
    sqlite3_stmt *query = database_query(database, "PRAGMA main.table_list", &ignored);
    int code = SQLITE_ERROR;
    while (query != NULL && (code = sqlite3_step(query)) == SQLITE_ROW)
        if (strcmp((const char *)sqlite3_column_text(query, 2), "shadow") == 0)
            guard_add_shadow(guard, (const char *)sqlite3_column_text(query, 1));
    database_end_query(database, query);
    guard->stale = code != SQLITE_DONE;
}

/* -- opening ----------------------------------------------------------------------------------- */

static int database_set_limits(sqlite3 *handle, const struct options *options)
{
    const struct {
        int id;
        int64_t value;
    } limits[] = {
        {SQLITE_LIMIT_LENGTH, options->value_bytes},
        {SQLITE_LIMIT_SQL_LENGTH, options->sql_bytes},
        {SQLITE_LIMIT_COLUMN, options->columns},
        {SQLITE_LIMIT_EXPR_DEPTH, options->depth},
        {SQLITE_LIMIT_COMPOUND_SELECT, options->compounds},
        {SQLITE_LIMIT_VDBE_OP, options->operations},
        {SQLITE_LIMIT_FUNCTION_ARG, options->arguments},
        {SQLITE_LIMIT_ATTACHED, 1}, /* VACUUM attaches its copy */
        {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, options->pattern_bytes},
        {SQLITE_LIMIT_VARIABLE_NUMBER, options->variables},
        {SQLITE_LIMIT_TRIGGER_DEPTH, options->trigger_depth},
        {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    for (size_t i = 0; i < KG_COUNT(limits); i++)
        sqlite3_limit(handle, limits[i].id, (int)limits[i].value);
    return SQLITE_OK;
}

static int set_switches(sqlite3 *handle)
{
    static const struct {
        int id;
        int value;
    } switches[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        /*
         * Triggers that feed a full-text table need it, since SQLite 3.40 does not call fts5
         * innocuous. What it would let through from a hostile schema is not there: the guard
         * dropped every other module, and replaced the functions that load code.
         */
        {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 1},
        {SQLITE_DBCONFIG_ENABLE_FKEY, 1},
        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
        {SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0},
        {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0},
        {SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0},
    };
    for (size_t i = 0; i < KG_COUNT(switches); i++) {
        int code = sqlite3_db_config(handle, switches[i].id, switches[i].value, NULL);
        if (code != SQLITE_OK)
            return code;
    }
    return SQLITE_OK;
}

/* Runs one statement of ours; *ret_text is its first column, or "". */
static int database_ask(struct database *database, const char *sql, char *ret_text, size_t size,
                        struct failure *failure)
{
    sqlite3_stmt *query = database_query(database, sql, failure);
    if (query == NULL)
        return -1;
    int code = sqlite3_step(query);
    const char *text = code == SQLITE_ROW ? (const char *)sqlite3_column_text(query, 0) : NULL;
    snprintf(ret_text, size, "%s", text ? text : "");
    while (code == SQLITE_ROW)
        code = sqlite3_step(query);
    int result = code == SQLITE_DONE ? 0 : database_fail(database, code, failure);
    sqlite3_finalize(query);
    return result;
}

static int database_tell(struct database *database, const char *sql, struct failure *failure)
{
    char ignored[32];
    return database_ask(database, sql, ignored, sizeof(ignored), failure);
}

/*
 * A file that is not in WAL mode (it is new, or was brought from elsewhere) is switched. That is a
 * write to one page, which would need a journal file of its own; there is no place for one, so it
 * goes without.
 */
static int switch_to_wal(struct database *database, struct failure *failure)
{
    char mode[32];
    if (database_ask(database, "PRAGMA journal_mode", mode, sizeof(mode), failure) < 0)
        return -1;
    if (strcmp(mode, "wal") == 0)
        return 0;
    if (database_tell(database, "PRAGMA journal_mode = MEMORY", failure) < 0 ||
        database_ask(database, "PRAGMA journal_mode = WAL", mode, sizeof(mode), failure) < 0)
        return -1;
    if (strcmp(mode, "wal") == 0)
        return 0;
    return failure_sqlite(failure, SQLITE_CANTOPEN, "the file cannot be switched to WAL");
}

static int bound_size(struct database *database, struct failure *failure)
{
    const struct options *options = database->options;
    int64_t page_bytes = database_number(database, "PRAGMA page_size");
    char pragma[96];
    snprintf(pragma, sizeof(pragma), "PRAGMA max_page_count = %lld",
             (long long)(options->size_bytes / (page_bytes ? page_bytes : 4096)));
    if (database_tell(database, pragma, failure) < 0)
        return -1;
    snprintf(pragma, sizeof(pragma), "PRAGMA cache_size = -%lld",
             (long long)(options->cache_bytes / 1024));
    return database_tell(database, pragma, failure);
}

static int database_set_up(struct database *database, struct failure *failure)
{
    static const char *const before_wal[] = {
        "PRAGMA locking_mode = EXCLUSIVE", /* first: then the WAL needs no shared memory */
        "PRAGMA temp_store = MEMORY",      "PRAGMA mmap_size = 0",
        "PRAGMA cell_size_check = ON",     "PRAGMA page_size = 4096",
    };
    for (size_t i = 0; i < KG_COUNT(before_wal); i++)
        if (database_tell(database, before_wal[i], failure) < 0)
            return -1;
    int persist = 1;
    sqlite3_file_control(database->handle, "main", SQLITE_FCNTL_PERSIST_WAL, &persist);
    const char *sync =
        database->options->sync_full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL";
    if (switch_to_wal(database, failure) < 0 || database_tell(database, sync, failure) < 0 ||
        database_tell(database, "PRAGMA journal_size_limit = " WAL_KEPT_BYTES, failure) < 0 ||
        bound_size(database, failure) < 0)
        return -1;
    /* Reads the whole schema, so that a damaged one shows now. */
    return database_tell(database, "SELECT count(*) FROM sqlite_schema", failure);
}

/*
 * SQLite's own number is 0 while a statement has inserted nothing yet, so that we see whether it
 * does. The plugin's SQL is told of the insert before.
 */
static void last_insert_rowid(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count, (void)values;
    const struct database *database = sqlite3_user_data(context);
    int64_t rowid = sqlite3_last_insert_rowid(database->handle);
    sqlite3_result_int64(context, rowid != 0 ? rowid : database->rowid_before);
}

static int database_open_file(struct database *database)
{
    const struct options *options = database->options;
    /* One thread, no mutexes; and a name that looks like a URI is still only a name. */
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    sqlite3_config(SQLITE_CONFIG_URI, 0);
    sqlite3_hard_heap_limit64(options->heap_bytes);
    int code = sqlite3_open_v2(options->file, &database->handle,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE, NULL);
    if (code == SQLITE_OK)
        code = database_set_limits(database->handle, options);
    if (code == SQLITE_OK)
        code = set_switches(database->handle);
    if (code == SQLITE_OK)
        code = guard_install(&database->guard, database->handle);
    if (code == SQLITE_OK)
        code = sqlite3_create_function(database->handle, "last_insert_rowid", 0,
                                       SQLITE_UTF8 | SQLITE_INNOCUOUS, database, last_insert_rowid,
                                       NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_busy_timeout(database->handle, BUSY_TIMEOUT_MS);
    return code;
}

static void database_cleanup(struct database **database)
{
    database_close(*database);
}

struct database *database_open(const struct options *options, struct failure *failure)
{
    kg_auto(database_cleanup) struct database *database = kg_alloc(sizeof(*database));
    database->options = options;
    database->cache = statement_cache_new();
    int code = database_open_file(database);
    if (code != SQLITE_OK) {
        failure_sqlite(failure, code, sqlite3_errstr(code));
        return NULL;
    }
    if (database_set_up(database, failure) < 0)
        return NULL;
    sqlite3_progress_handler(database->handle, PROGRESS_STEPS, database_on_progress, database);
    database->guard.trusted = false;
    return kg_steal(&database);
}

void database_close(struct database *database)
{
    if (database == NULL)
        return;
    database->guard.trusted = true;
    statement_cache_free(database->cache);
    for (size_t i = 0; i < OWN_COUNT; i++)
        sqlite3_finalize(database->own[i]);
    sqlite3_close(database->handle);
    guard_free(&database->guard);
    free(database);
}
