/*
 * What can be asked of the worker. exec, query and batch are the plugin's; schema too; size is
 * the operator's. A request that fails leaves nothing behind, in the database or in the
 * answers.
 */
#include "storage/worker/internal.h"

/* -- what a request has in it ------------------------------------------------------------------ */

enum key { KEY_SQL, KEY_PARAMS, KEY_READ_ONLY, KEY_STATEMENTS, KEY_COUNT };
static const char *const key_names[KEY_COUNT] = {"sql", "params", "read_only", "statements"};

#define BIT(key) (1u << (key))

struct asked {
    struct kg_str value[KEY_COUNT]; /* spans; data NULL: absent */
};

static enum key method_find_key(struct kg_str raw, bool escaped)
{
    enum key key = 0;
    while (key < KEY_COUNT && !kg_json_raw_is(raw, escaped, key_names[key]))
        key++;
    return key;
}

/* Only those of `keys` (a bit for each) may be there, each once. */
static int read_keys(struct kg_str params, unsigned keys, struct asked *ret_asked,
                     struct failure *failure)
{
    struct asked asked = {0};
    if (params.data == NULL)
        params = KG_STR("{}");
    if (params.data[0] != '{')
        return failure_set(failure, KG_E_INVALID_PARAMS, NULL, "the parameters must be an object");
    struct kg_json_cursor walk = kg_json_inside(params);
    struct kg_str raw, value;
    bool escaped;
    while (kg_json_next_member(&walk, &raw, &escaped, &value)) {
        enum key key = method_find_key(raw, escaped);
        if (key == KEY_COUNT || (keys & BIT(key)) == 0)
            return failure_set(failure, KG_E_INVALID_PARAMS, NULL,
                               "there is no parameter %.*s in this method",
                               KG_STR_CUT(raw, KG_CUT_NAME));
        if (asked.value[key].data != NULL)
            return failure_set(failure, KG_E_INVALID_PARAMS, NULL, "%s is given twice",
                               key_names[key]);
        asked.value[key] = value;
    }
    *ret_asked = asked;
    return 0;
}

static int read_sql(struct worker *worker, const struct asked *asked, struct kg_str *ret_sql,
                    struct failure *failure)
{
    struct kg_str span = asked->value[KEY_SQL];
    if (span.data == NULL || span.data[0] != '"')
        return failure_set(failure, KG_E_INVALID_PARAMS, NULL, "sql is missing, or not a string");
    *ret_sql = span_text(span, &worker->scratch);
    return 0;
}

static int read_read_only(const struct asked *asked, bool *ret_read_only, struct failure *failure)
{
    struct kg_str span = asked->value[KEY_READ_ONLY];
    if (span.data != NULL && span.data[0] != 't' && span.data[0] != 'f')
        return failure_set(failure, KG_E_INVALID_PARAMS, NULL, "read_only must be true or false");
    *ret_read_only = span.data != NULL && span.data[0] == 't';
    return 0;
}

/* -- transactions ------------------------------------------------------------------------------ */

bool method_commit_group(struct worker *worker)
{
    if (!worker->group_open)
        return true;
    struct failure ignored;
    worker->group_open = false;
    if (database_run_own(worker->database, OWN_COMMIT, &ignored) == 0)
        return true;
    database_roll_back(worker->database);
    return false;
}

/* For a request that needs a transaction of its own. */
static int leave_group(struct worker *worker, struct failure *failure)
{
    if (method_commit_group(worker))
        return 0;
    worker->loss = GROUP_LOST_BEFORE;
    return failure_set(failure, KG_E_INTERNAL, NULL, "an earlier commit failed");
}

/* Inside a group nobody else would see it before the commit, and then it would fail everybody. */
static int check_foreign_keys(struct worker *worker, struct failure *failure)
{
    int unresolved = 0, ignored;
    sqlite3_db_status(worker->database->handle, SQLITE_DBSTATUS_DEFERRED_FKS, &unresolved, &ignored,
                      0);
    if (unresolved == 0)
        return 0;
    return failure_sqlite(failure, SQLITE_CONSTRAINT_FOREIGNKEY, "FOREIGN KEY constraint failed");
}

static int open_savepoint(struct worker *worker, struct failure *failure)
{
    if (worker->share && !worker->group_open) {
        if (database_run_own(worker->database, OWN_BEGIN, failure) < 0)
            return -1;
        worker->group_open = true;
    }
    return database_run_own(worker->database, OWN_SAVEPOINT, failure);
}

/* What a failed statement changed is undone; the others of its group stay. */
static void undo_savepoint(struct worker *worker)
{
    struct database *database = worker->database;
    struct failure ignored;
    if (!worker->group_open) {
        database_roll_back(database);
    } else if (!database_in_transaction(database) ||
               database_run_own(database, OWN_UNDO, &ignored) < 0 ||
               database_run_own(database, OWN_RELEASE, &ignored) < 0) {
        database_roll_back(database);
        worker->group_open = false;
        worker->loss = GROUP_LOST_WITH;
    }
}

/* -- running one statement --------------------------------------------------------------------- */

struct run {
    struct worker *worker;
    struct statement *statement;
    struct kg_json_writer writer;
    size_t result_start; /* in out: the bound on results counts from here */
};

static void method_put_changes(struct run *run, sqlite3 *handle, int64_t rowid)
{
    kg_json_named_int(&run->writer, "rows_affected",
                      run->statement->changes_rows ? sqlite3_changes64(handle) : 0);
    if (rowid != 0)
        kg_json_named_int(&run->writer, "last_insert_rowid", rowid);
}

/* Like rows_run; tells the rowid that the statement inserted last, or 0. */
static int run_inserting(struct run *run, int64_t *ret_rowid, struct failure *failure)
{
    struct database *database = run->worker->database;
    database->rowid_before = sqlite3_last_insert_rowid(database->handle);
    sqlite3_set_last_insert_rowid(database->handle, 0);
    int result = rows_run(database, run->statement, &run->writer, run->result_start, failure);
    *ret_rowid = sqlite3_last_insert_rowid(database->handle);
    if (*ret_rowid == 0)
        sqlite3_set_last_insert_rowid(database->handle, database->rowid_before);
    return result;
}

/* The statement's rows and what it changed, in one object. */
static int run_statement(struct run *run, struct failure *failure)
{
    struct database *database = run->worker->database;
    int64_t rowid = 0;
    kg_json_begin(&run->writer, '{');
    int result = run->statement->inserts
                     ? run_inserting(run, &rowid, failure)
                     : rows_run(database, run->statement, &run->writer, run->result_start, failure);
    if (result < 0)
        return result;
    method_put_changes(run, database->handle, rowid);
    kg_json_end(&run->writer, '}');
    return 0;
}

static int run_in_savepoint(struct run *run, struct failure *failure)
{
    struct worker *worker = run->worker;
    if (open_savepoint(worker, failure) < 0)
        return -1;
    int result = run_statement(run, failure);
    sqlite3_reset(run->statement->handle); /* a savepoint ends only when no statement runs in it */
    if (result == 0 && worker->group_open)
        result = check_foreign_keys(worker, failure);
    if (result == 0)
        result = database_run_own(worker->database, OWN_RELEASE, failure);
    if (result < 0)
        undo_savepoint(worker);
    return result;
}

/* Alone, as SQLite does it: VACUUM, PRAGMA, CREATE and the like. */
static int run_alone(struct run *run, struct failure *failure)
{
    if (leave_group(run->worker, failure) < 0)
        return -1;
    int result = run_statement(run, failure);
    if (result < 0) {
        sqlite3_reset(run->statement->handle);
        database_roll_back(run->worker->database);
    }
    return result;
}

static int run_exec(struct run *run, struct failure *failure)
{
    if (run->statement->changes_rows)
        return run_in_savepoint(run, failure);
    if (run->statement->reads_only)
        return run_statement(run, failure);
    return run_alone(run, failure);
}

/* Prepares, binds and runs what one object {sql, params} asks for. */
static int run_asked(struct worker *worker, const struct asked *asked, size_t result_start,
                     int (*how)(struct run *run, struct failure *failure), struct failure *failure)
{
    struct database *database = worker->database;
    struct kg_str sql = KG_STR_NULL;
    if (read_sql(worker, asked, &sql, failure) < 0)
        return -1;
    struct run run = {
        .worker = worker,
        .statement = statement_get(database, sql, failure),
        .writer = kg_json_writer(&worker->out),
        .result_start = result_start,
    };
    if (run.statement == NULL)
        return -1;
    int result = 0;
    if (database->guard.read_only && !run.statement->reads_only) {
        guard_refuse_write(failure);
        result = -1;
    }
    if (result == 0)
        result = statement_bind(run.statement, asked->value[KEY_PARAMS], &worker->scratch, failure);
    if (result == 0)
        result = how(&run, failure);
    statement_done(database, run.statement);
    return result;
}

/* -- the methods ------------------------------------------------------------------------------- */

static int do_exec(struct worker *worker, const struct asked *asked, struct failure *failure)
{
    if (read_read_only(asked, &worker->database->guard.read_only, failure) < 0)
        return -1;
    return run_asked(worker, asked, worker->out.length, run_exec, failure);
}

static int method_run_query(struct run *run, struct failure *failure)
{
    kg_json_begin(&run->writer, '{');
    if (rows_run(run->worker->database, run->statement, &run->writer, run->result_start, failure) <
        0)
        return -1;
    if (run->statement->columns == 0)
        kg_json_raw(&run->writer, KG_STR("\"columns\":[],\"rows\":[]"));
    kg_json_end(&run->writer, '}');
    return 0;
}

static int do_query(struct worker *worker, const struct asked *asked, struct failure *failure)
{
    worker->database->guard.read_only = true;
    return run_asked(worker, asked, worker->out.length, method_run_query, failure);
}

static int method_run_batch(struct worker *worker, struct kg_str statements,
                            struct failure *failure)
{
    size_t start = worker->out.length;
    struct kg_json_cursor walk = kg_json_inside(statements);
    struct kg_str item;
    kg_buf_text(&worker->out, "{\"results\":[");
    for (int64_t i = 0; kg_json_next_item(&walk, &item); i++) {
        struct asked asked;
        int result = 0;
        if (i == worker->options->batch_max)
            return failure_set(failure, KG_E_INVALID_PARAMS, "batch_max",
                               "a batch may have %lld statements (batch_max)",
                               (long long)worker->options->batch_max);
        if (i > 0)
            kg_buf_char(&worker->out, ',');
        result = read_keys(item, BIT(KEY_SQL) | BIT(KEY_PARAMS), &asked, failure);
        if (result == 0)
            result = run_asked(worker, &asked, start, run_statement, failure);
        if (result < 0) {
            failure->index = i;
            return -1;
        }
    }
    kg_buf_text(&worker->out, "]}");
    return 0;
}

static int do_batch(struct worker *worker, const struct asked *asked, struct failure *failure)
{
    struct kg_str statements = asked->value[KEY_STATEMENTS];
    struct database *database = worker->database;
    if (read_read_only(asked, &database->guard.read_only, failure) < 0)
        return -1;
    if (statements.data == NULL || statements.data[0] != '[')
        return failure_set(failure, KG_E_INVALID_PARAMS, NULL,
                           "statements is missing, or not an array");
    if (leave_group(worker, failure) < 0 || database_run_own(database, OWN_BEGIN, failure) < 0)
        return -1;
    int result = method_run_batch(worker, statements, failure);
    if (result == 0)
        result = database_run_own(database, OWN_COMMIT, failure);
    if (result < 0) {
        database_roll_back(database);
        database->guard.stale = true;
    }
    return result;
}

/* What a plugin or its operator would call a table. */
#define OWN_TABLES                                                                                 \
    "SELECT name, type FROM pragma_table_list WHERE schema = 'main' AND type <> 'shadow' "         \
    "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"

static struct kg_str column_text(sqlite3_stmt *query, int column)
{
    const char *text = (const char *)sqlite3_column_text(query, column);
    return (struct kg_str){text ? text : "", (size_t)sqlite3_column_bytes(query, column)};
}

static int do_schema(struct worker *worker, const struct asked *asked, struct failure *failure)
{
    (void)asked;
    struct database *database = worker->database;
    struct kg_json_writer writer = kg_json_writer(&worker->out);
    sqlite3_stmt *query = database_query(database, OWN_TABLES, failure);
    int code = SQLITE_ERROR;
    kg_buf_text(&worker->out, "{\"tables\":[");
    while (query != NULL && (code = sqlite3_step(query)) == SQLITE_ROW)
        kg_json_str(&writer, column_text(query, 0));
    kg_buf_text(&worker->out, "]}");
    int result = query == NULL ? -1 : 0;
    if (result == 0 && code != SQLITE_DONE)
        result = database_fail(database, code, failure);
    database_end_query(database, query);
    return result;
}

/* A view is not counted: it would run whatever is written in it. */
static void put_row_count(struct worker *worker, struct kg_json_writer *writer, const char *name)
{
    struct database *database = worker->database;
    struct failure ignored;
    char *sql = sqlite3_mprintf("SELECT count(*) FROM main.\"%w\"", name);
    sqlite3_stmt *query = sql ? database_query(database, sql, &ignored) : NULL;
    kg_json_key(writer, "rows");
    if (query != NULL && sqlite3_step(query) == SQLITE_ROW)
        kg_json_int(writer, sqlite3_column_int64(query, 0));
    else
        kg_json_null(writer);
    sqlite3_finalize(query);
    sqlite3_free(sql);
}

static void put_tables(struct worker *worker, struct kg_json_writer *writer, sqlite3_stmt *query)
{
    kg_json_named_begin(writer, "tables", '[');
    while (sqlite3_step(query) == SQLITE_ROW) {
        kg_json_begin(writer, '{');
        kg_json_named_str(writer, "name", column_text(query, 0));
        kg_json_named_str(writer, "type", column_text(query, 1));
        if (!kg_str_is(column_text(query, 1), "view"))
            put_row_count(worker, writer, (const char *)sqlite3_column_text(query, 0));
        kg_json_end(writer, '}');
    }
    kg_json_end(writer, ']');
}

static int64_t file_bytes(sqlite3 *handle, int control)
{
    sqlite3_file *file = NULL;
    sqlite3_int64 bytes = 0;
    sqlite3_file_control(handle, "main", control, (void *)&file);
    if (file != NULL && file->pMethods != NULL)
        file->pMethods->xFileSize(file, &bytes);
    return bytes;
}

static int do_size(struct worker *worker, const struct asked *asked, struct failure *failure)
{
    (void)asked;
    struct database *database = worker->database;
    const struct {
        const char *key;
        int64_t value;
    } figures[] = {
        {"file_bytes", file_bytes(database->handle, SQLITE_FCNTL_FILE_POINTER)},
        {"wal_bytes", file_bytes(database->handle, SQLITE_FCNTL_JOURNAL_POINTER)},
        {"page_bytes", database_number(database, "PRAGMA page_size")},
        {"pages", database_number(database, "PRAGMA page_count")},
        {"free_pages", database_number(database, "PRAGMA freelist_count")},
        {"pages_max", database_number(database, "PRAGMA max_page_count")},
    };
    sqlite3_stmt *query = database_query(database, OWN_TABLES, failure);
    if (query == NULL)
        return -1;
    struct kg_json_writer writer = kg_json_writer(&worker->out);
    kg_json_begin(&writer, '{');
    for (size_t i = 0; i < KG_COUNT(figures); i++)
        kg_json_named_int(&writer, figures[i].key, figures[i].value);
    put_tables(worker, &writer, query);
    kg_json_end(&writer, '}');
    database_end_query(database, query);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct worker *worker, const struct asked *asked, struct failure *failure);
    unsigned keys;
} methods[] = {
    {"query", do_query, BIT(KEY_SQL) | BIT(KEY_PARAMS)},
    {"exec", do_exec, BIT(KEY_SQL) | BIT(KEY_PARAMS) | BIT(KEY_READ_ONLY)},
    {"batch", do_batch, BIT(KEY_STATEMENTS) | BIT(KEY_READ_ONLY)},
    {"schema", do_schema, 0},
    {"size", do_size, 0},
};

int method_call(struct worker *worker, struct kg_str name, struct kg_str params,
                struct failure *failure)
{
    for (size_t i = 0; i < KG_COUNT(methods); i++) {
        struct asked asked;
        if (!kg_str_is(name, methods[i].name))
            continue;
        if (read_keys(params, methods[i].keys, &asked, failure) < 0)
            return -1;
        database_start_clock(worker->database);
        return methods[i].run(worker, &asked, failure);
    }
    return failure_set(failure, KG_E_METHOD_NOT_FOUND, NULL, "there is no method %.*s",
                       KG_STR_CUT(name, KG_CUT_NAME));
}
