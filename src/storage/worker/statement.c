/*
 * Prepared statements, one for each text, the least used one forgotten first. A statement that is
 * in nobody's hands is reset and has no bindings: it holds no lock, and no pointer into a request.
 */
#include "storage/worker/internal.h"

#include <stdlib.h>
#include <strings.h>

#define CACHED_TEXT_MAX_BYTES ((size_t)16 * 1024)

struct statement_cache {
    struct kg_map *by_text; /* of struct statement */
    struct statement *newest, *oldest;
};

struct statement_cache *statement_cache_new(void)
{
    struct statement_cache *cache = kg_alloc(sizeof(*cache));
    cache->by_text = kg_map_new();
    return cache;
}

static void statement_free(struct statement *statement)
{
    if (statement == NULL)
        return;
    sqlite3_finalize(statement->handle);
    rows_forget_names(statement);
    free(statement->text);
    free(statement);
}

void statement_cache_free(struct statement_cache *cache)
{
    if (cache == NULL)
        return;
    for (struct statement *statement = cache->newest; statement != NULL;) {
        struct statement *older = statement->older;
        statement_free(statement);
        statement = older;
    }
    kg_map_free(cache->by_text);
    free(cache);
}

/* -- the order of use -------------------------------------------------------------------------- */

static void unlink_statement(struct statement_cache *cache, struct statement *statement)
{
    *(statement->newer ? &statement->newer->older : &cache->newest) = statement->older;
    *(statement->older ? &statement->older->newer : &cache->oldest) = statement->newer;
}

static void statement_link_newest(struct statement_cache *cache, struct statement *statement)
{
    statement->newer = NULL;
    statement->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = statement;
    cache->newest = statement;
}

static void statement_keep(struct statement_cache *cache, struct statement *statement,
                           struct kg_str sql, size_t count_max)
{
    if (kg_map_count(cache->by_text) >= count_max) {
        struct statement *oldest = cache->oldest;
        unlink_statement(cache, oldest);
        kg_map_remove(cache->by_text, (struct kg_str){oldest->text, oldest->text_length});
        statement_free(oldest);
    }
    statement->text = kg_str_dup(sql);
    statement->text_length = sql.length;
    kg_map_set(cache->by_text, sql, statement);
    statement_link_newest(cache, statement);
}

/* -- the text ---------------------------------------------------------------------------------- */

/* Behind white space and comments; an unclosed one takes all that follows, as in SQLite. */
static struct kg_str statement_skip_blank(struct kg_str sql)
{
    const char *at = sql.data, *end = sql.data + sql.length;
    while (at < end) {
        const char *close = NULL;
        if (strchr(" \t\n\f\r", *at) != NULL && *at != '\0') {
            at++;
        } else if (end - at >= 2 && at[0] == '-' && at[1] == '-') {
            close = memchr(at, '\n', (size_t)(end - at));
            at = close ? close + 1 : end;
        } else if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
            close = memmem(at + 2, (size_t)(end - at - 2), "*/", 2);
            at = close ? close + 2 : end;
        } else {
            break;
        }
    }
    return (struct kg_str){at, (size_t)(end - at)};
}

static bool is_blank(struct kg_str sql)
{
    for (sql = statement_skip_blank(sql); sql.length > 0; sql = statement_skip_blank(sql)) {
        if (*sql.data != ';')
            return false;
        sql.data++;
        sql.length--;
    }
    return true;
}

static bool starts_with_word(struct kg_str sql, const char *word)
{
    size_t length = strlen(word);
    sql = statement_skip_blank(sql);
    while (sql.length > 0 && *sql.data == ';') {
        sql.data++;
        sql.length--;
        sql = statement_skip_blank(sql);
    }
    return sql.length >= length && strncasecmp(sql.data, word, length) == 0;
}

/* -- preparing --------------------------------------------------------------------------------- */

static void statement_classify(struct statement *statement, struct kg_str sql, unsigned seen)
{
    statement->reads_only = sqlite3_stmt_readonly(statement->handle) != 0;
    statement->changes_schema = !statement->reads_only && (seen & GUARD_CHANGED_SCHEMA) != 0;
    /* ANALYZE of the schema table writes statistics, without being called a change of the schema */
    statement->changes_rows = !statement->reads_only && (seen & GUARD_WROTE) != 0 &&
                              !statement->changes_schema && !starts_with_word(sql, "analyze");
    statement->inserts = statement->changes_rows && (seen & GUARD_INSERTED) != 0;
    statement->vacuums = starts_with_word(sql, "vacuum");
}

/* Some PRAGMAs do their work while they are prepared, so none is kept. */
static bool is_worth_keeping(const struct statement *statement, struct kg_str sql)
{
    return sql.length <= CACHED_TEXT_MAX_BYTES &&
           (statement->changes_rows || (statement->reads_only && !starts_with_word(sql, "pragma")));
}

static struct statement *statement_prepare(struct database *database, struct kg_str sql,
                                           struct failure *failure)
{
    sqlite3_stmt *handle = NULL;
    const char *tail = NULL;
    database_refresh_guard(database);
    guard_begin(&database->guard, sql);
    int code = sqlite3_prepare_v3(database->handle, sql.data, (int)sql.length,
                                  SQLITE_PREPARE_PERSISTENT, &handle, &tail);
    if (code != SQLITE_OK) {
        database_fail(database, code, failure);
        return NULL;
    }
    if (handle == NULL) {
        failure_set(failure, KG_E_INVALID_PARAMS, NULL, "sql: it contains no statement");
        return NULL;
    }
    if (!is_blank((struct kg_str){tail, sql.length - (size_t)(tail - sql.data)})) {
        sqlite3_finalize(handle);
        failure_set(failure, KG_E_INVALID_PARAMS, NULL,
                    "sql: it contains more than one statement; send several as one batch");
        return NULL;
    }
    struct statement *statement = kg_alloc(sizeof(*statement));
    statement->handle = handle;
    statement->prepared_again = -1;
    statement_classify(statement, sql, database->guard.seen);
    return statement;
}

static int statement_check_text(const struct database *database, struct kg_str sql,
                                struct failure *failure)
{
    if (sql.length > (size_t)database->options->sql_bytes)
        return failure_set(failure, KG_E_INVALID_PARAMS, "sql_bytes",
                           "sql: it may have %lld bytes (sql_bytes)",
                           (long long)database->options->sql_bytes);
    if (memchr(sql.data, '\0', sql.length) != NULL)
        return failure_set(failure, KG_E_INVALID_PARAMS, NULL, "sql: it contains a NUL");
    return 0;
}

struct statement *statement_get(struct database *database, struct kg_str sql,
                                struct failure *failure)
{
    struct statement_cache *cache = database->cache;
    struct statement *statement = kg_map_get(cache->by_text, sql);
    if (statement != NULL) {
        guard_begin(&database->guard, sql);
        if (statement != cache->newest) {
            unlink_statement(cache, statement);
            statement_link_newest(cache, statement);
        }
        return statement;
    }
    if (statement_check_text(database, sql, failure) < 0)
        return NULL;
    statement = statement_prepare(database, sql, failure);
    if (statement != NULL && is_worth_keeping(statement, sql))
        statement_keep(cache, statement, sql, (size_t)database->options->statements_cached);
    return statement;
}

void statement_done(struct database *database, struct statement *statement)
{
    if (statement->changes_schema)
        database->guard.stale = true;
    sqlite3_reset(statement->handle);
    sqlite3_clear_bindings(statement->handle);
    if (statement->text == NULL)
        statement_free(statement);
}

/* -- parameters -------------------------------------------------------------------------------- */

static int bind_array(struct statement *statement, struct kg_str params, struct kg_buf *scratch,
                      struct failure *failure)
{
    int wanted = sqlite3_bind_parameter_count(statement->handle);
    struct kg_json_cursor walk = kg_json_inside(params);
    struct kg_str value;
    int given = 0;
    for (; kg_json_next_item(&walk, &value); given++)
        if (given < wanted && value_bind(statement->handle, given + 1, value, scratch, failure) < 0)
            return -1;
    if (given == wanted)
        return 0;
    return failure_set(failure, KG_E_INVALID_PARAMS, NULL,
                       "params: the statement takes %d values, but %d are given", wanted, given);
}

/* The parameter of that name: written with its sign, or without. */
static int index_of_name(sqlite3_stmt *handle, struct kg_str name)
{
    char text[130];
    if (name.length + 2 > sizeof(text) || memchr(name.data, '\0', name.length) != NULL)
        return 0;
    memcpy(text + 1, name.data, name.length);
    text[name.length + 1] = '\0';
    if (name.length > 0 && strchr(":@$", name.data[0]) != NULL)
        return sqlite3_bind_parameter_index(handle, text + 1);
    for (const char *sign = ":@$"; *sign != '\0'; sign++) {
        text[0] = *sign;
        int index = sqlite3_bind_parameter_index(handle, text);
        if (index > 0)
            return index;
    }
    return 0;
}

static int bind_member(struct statement *statement, struct kg_str raw_key, struct kg_str value,
                       unsigned char *bound, struct kg_buf *scratch, struct failure *failure)
{
    struct kg_str quoted = {raw_key.data - 1, raw_key.length + 2};
    struct kg_str name = span_text(quoted, scratch);
    int index = index_of_name(statement->handle, name);
    if (index == 0)
        return failure_set(failure, KG_E_INVALID_PARAMS, NULL,
                           "params: the statement has no parameter named %.*s",
                           KG_STR_CUT(name, KG_CUT_WORD));
    if (bound[index - 1]++ != 0)
        return failure_set(failure, KG_E_INVALID_PARAMS, NULL, "params: %.*s is given twice",
                           KG_STR_CUT(name, KG_CUT_WORD));
    return value_bind(statement->handle, index, value, scratch, failure);
}

static int fail_unbound(sqlite3_stmt *handle, int index, struct failure *failure)
{
    const char *name = sqlite3_bind_parameter_name(handle, index);
    if (name == NULL)
        return failure_set(failure, KG_E_INVALID_PARAMS, NULL,
                           "params: parameter %d has no name; give the values as an array", index);
    return failure_set(failure, KG_E_INVALID_PARAMS, NULL, "params: %s has no value", name);
}

static int bind_object(struct statement *statement, struct kg_str params, struct kg_buf *scratch,
                       struct failure *failure)
{
    int wanted = sqlite3_bind_parameter_count(statement->handle);
    kg_auto(kg_free) unsigned char *bound = kg_alloc((size_t)wanted + 1);
    struct kg_json_cursor walk = kg_json_inside(params);
    struct kg_str raw_key, value;
    bool escaped;
    while (kg_json_next_member(&walk, &raw_key, &escaped, &value))
        if (bind_member(statement, raw_key, value, bound, scratch, failure) < 0)
            return -1;
    for (int i = 0; i < wanted; i++)
        if (bound[i] == 0)
            return fail_unbound(statement->handle, i + 1, failure);
    return 0;
}

int statement_bind(struct statement *statement, struct kg_str params, struct kg_buf *scratch,
                   struct failure *failure)
{
    if (params.data == NULL || params.data[0] == 'n')
        params = KG_STR("[]");
    if (params.data[0] == '[')
        return bind_array(statement, params, scratch, failure);
    if (params.data[0] == '{')
        return bind_object(statement, params, scratch, failure);
    return failure_set(failure, KG_E_INVALID_PARAMS, NULL,
                       "params: the values must be an array or an object");
}
