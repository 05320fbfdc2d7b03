/*
 * The worker against plain SQLite in this process: for every statement of a public suite that the
 * guard lets pass, both give the same rows, the same count of changes and the same class of error,
 * and at the end of each file the same tables with the same rows.
 *
 * Two things are as the worker documents them, not as SQLite has them by default: foreign keys are
 * on, and a statement that fails changes nothing (OR FAIL would keep what came before).
 *
 * Of the suite's files each twentieth is a sample, which make test takes; make test-long takes all.
 * With KAGED_SHOW_REFUSED in the environment each refused statement is printed.
 */
#include "storage.h"
#include "suite.h"

#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include <cmocka.h>

#define SUITE           "sqlite-parser-sql"
#define COUNTERS        48
#define DIFFERENCES_MAX 20
#define SAMPLE          20
#define FILES_EACH      20 /* starting a sanitized program takes longer than running most files */

static const char *const wide[] = {
    "size_bytes=8388608", "rows_max=10000000",    "result_bytes=134217728", "value_bytes=67108864",
    "sql_bytes=1000000",  "heap_bytes=268435456", "statement_ms=2000",      NULL};

struct counter {
    char name[64];
    unsigned count;
};

struct compare {
    struct storage *worker; /* both serve FILES_EACH files, emptied between them */
    sqlite3 *plain;
    unsigned seen, files;
    bool tainted;     /* the tables have something in them that is not the same twice */
    const char *file; /* of the suite */
    unsigned statements, same_result, same_error, at_ends, differences;
    struct counter refused[COUNTERS], skipped[COUNTERS];
    bool show_refused;
};

static void count(struct counter *counters, const char *name)
{
    size_t i = 0;
    while (counters[i].count != 0 && strcmp(counters[i].name, name) != 0)
        assert_true(++i < COUNTERS);
    snprintf(counters[i].name, sizeof(counters[i].name), "%s", name);
    counters[i].count++;
}

static void print_counters(const char *title, const struct counter *counters)
{
    printf("# %s:", title);
    for (size_t i = 0; i < COUNTERS && counters[i].count != 0; i++)
        printf("%s %u %s", i ? "," : "", counters[i].count, counters[i].name);
    printf("\n");
}

static void differ(struct compare *compare, struct kg_str sql, const char *how)
{
    if (compare->differences++ < DIFFERENCES_MAX)
        printf("%s: %s\n  %.*s\n", compare->file, how, KG_STR_CUT(sql, 600));
}

/* -- values ------------------------------------------------------------------------------------ */

static bool same_bytes(sqlite3_stmt *row, int column, const char *base64)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = sqlite3_column_blob(row, column);
    size_t length = (size_t)sqlite3_column_bytes(row, column);
    for (size_t i = 0; i < length; i += 3) {
        unsigned bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (i + k < length ? bytes[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            kg_buf_char(&text, i + k <= length ? digits[bits >> (18 - 6 * k) & 63] : '=');
    }
    return kg_str_is(kg_buf_view(&text), base64);
}

static bool same_number(sqlite3_stmt *row, int column, const struct kg_node *node)
{
    int64_t integer;
    kg_auto(kg_free) char *text = kg_str_dup(node->text);
    if (node->type != KG_NUMBER)
        return false;
    if (sqlite3_column_type(row, column) == SQLITE_INTEGER)
        return kg_node_int(node, &integer) && integer == sqlite3_column_int64(row, column);
    return strpbrk(text, ".eE") != NULL && strtod(text, NULL) == sqlite3_column_double(row, column);
}

static bool same_value(sqlite3_stmt *row, int column, const struct kg_node *node)
{
    const struct kg_node *blob = kg_node_get(node, "$blob");
    kg_auto(kg_free) char *base64 = blob ? kg_str_dup(blob->text) : NULL;
    struct kg_str text;
    switch (sqlite3_column_type(row, column)) {
    case SQLITE_NULL:
        return node->type == KG_NULL;
    case SQLITE_BLOB:
        return blob != NULL && same_bytes(row, column, base64);
    case SQLITE_TEXT:
        if (blob != NULL)
            return same_bytes(row, column, base64);
        text.data = (const char *)sqlite3_column_text(row, column);
        text.length = (size_t)sqlite3_column_bytes(row, column);
        return node->type == KG_STRING && kg_str_equal(node->text, text);
    default:
        return same_number(row, column, node);
    }
}

static bool same_row(sqlite3_stmt *row, const struct kg_node *node, const struct kg_node *columns)
{
    int wanted = sqlite3_column_count(row);
    if (node->type != KG_OBJECT || node->count != (uint32_t)wanted ||
        columns->count != (uint32_t)wanted)
        return false;
    for (int i = 0; i < wanted; i++) {
        const struct kg_member *member = &node->members[i];
        if (!kg_str_equal(member->key, columns->items[i].text) ||
            !kg_str_starts(member->key, sqlite3_column_name(row, i)) ||
            !same_value(row, i, &member->value))
            return false;
    }
    return true;
}

/* -- one statement ----------------------------------------------------------------------------- */

static bool starts(struct kg_str sql, const char *word)
{
    size_t length = strlen(word);
    return sql.length >= length && strncasecmp(sql.data, word, length) == 0;
}

static bool has(struct kg_str sql, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= sql.length; i++)
        if (strncasecmp(sql.data + i, word, length) == 0)
            return true;
    return false;
}

static bool changes_rows(struct kg_str sql)
{
    return starts(sql, "insert") || starts(sql, "update") || starts(sql, "delete") ||
           starts(sql, "replace") || starts(sql, "with");
}

/* What is not the same twice, or depends on the file's place and age. */
static const char *why_not_compared(struct kg_str sql)
{
    static const struct {
        const char *word, *reason;
    } rows[] = {
        {"random", "random"},
        {"'now'", "the time"},
        {"current_", "the time"},
        {"sqlite_stat", "statistics"},
        {"schema_version", "how often the schema changed"},
        {"page_count", "the size of the file"},
        {"cache_size", "a setting of the host's"},
        {"synchronous", "a setting of the host's"},
        {"9223372036854775807", "random"}, /* past this rowid SQLite draws them */
        {"pragma defer_foreign_keys", "a switch of one transaction"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (has(sql, rows[i].word))
            return rows[i].reason;
    return starts(sql, "explain") ? "the machine's own steps" : NULL;
}

/* As the worker promises: a statement that fails changes nothing. */
static int end_plain(struct compare *compare, bool wrapped, int code)
{
    if (wrapped && code != SQLITE_DONE)
        sqlite3_exec(compare->plain, "ROLLBACK TO plain", NULL, NULL, NULL);
    if (wrapped) {
        int released = sqlite3_exec(compare->plain, "RELEASE plain", NULL, NULL, NULL);
        if (code == SQLITE_DONE && released != SQLITE_OK)
            code = released;
    }
    if (sqlite3_get_autocommit(compare->plain) == 0)
        sqlite3_exec(compare->plain, "ROLLBACK", NULL, NULL, NULL);
    return code;
}

/* Runs the statement here and compares each row on the way; returns SQLite's last word. */
static int run_plain(struct compare *compare, struct kg_str sql, const struct kg_node *result,
                     bool *ret_same, int64_t *ret_changes)
{
    const struct kg_node *rows = result ? kg_node_get(result, "rows") : NULL;
    const struct kg_node *columns = result ? kg_node_get(result, "columns") : NULL;
    sqlite3_stmt *statement = NULL;
    bool wrapped = changes_rows(sql), same = true;
    if (wrapped)
        sqlite3_exec(compare->plain, "SAVEPOINT plain", NULL, NULL, NULL);
    int code = sqlite3_prepare_v2(compare->plain, sql.data, (int)sql.length, &statement, NULL);
    uint32_t at = 0;
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    for (; code == SQLITE_ROW; code = sqlite3_step(statement), at++)
        same = same && rows != NULL && at < rows->count &&
               same_row(statement, &rows->items[at], columns);
    *ret_same = same && (rows == NULL || rows->count == at);
    bool changed = wrapped && statement != NULL && !sqlite3_stmt_readonly(statement);
    *ret_changes = changed ? sqlite3_changes64(compare->plain) : 0;
    sqlite3_finalize(statement);
    return end_plain(compare, wrapped, code);
}

static int64_t number(const struct kg_node *node, const char *key)
{
    const struct kg_node *member = node ? kg_node_get(node, key) : NULL;
    int64_t value = 0;
    if (member != NULL)
        assert_true(kg_node_int(member, &value));
    return value;
}

static void compare_result(struct compare *compare, struct kg_str sql, const struct kg_node *result)
{
    const char *reason = why_not_compared(sql);
    int64_t changes;
    bool same;
    int code = run_plain(compare, sql, result, &same, &changes);
    bool drawn =
        has(sql, "random") || has(sql, "now") || has(sql, "current_") || has(sql, "9223372");
    if (drawn && (changes_rows(sql) || starts(sql, "create")))
        compare->tainted = true;
    if (reason == NULL && compare->tainted)
        reason = "what those left in the tables";
    if (code != SQLITE_DONE)
        differ(compare, sql, "worker: done; plain: an error");
    else if (reason != NULL)
        count(compare->skipped, reason);
    else if (!same)
        differ(compare, sql, "the rows differ");
    else if (changes != number(result, "rows_affected"))
        differ(compare, sql, "the count of changes differs");
    else
        compare->same_result++;
}

static void compare_error(struct compare *compare, struct kg_str sql, const struct kg_node *error)
{
    int64_t changes, worker_code = number(kg_node_get(error, "data"), "sqlite_code");
    bool same;
    if (worker_code == SQLITE_INTERRUPT || worker_code == SQLITE_NOMEM || worker_code == 0) {
        count(compare->skipped, "a bound of time, memory or result");
        return;
    }
    int code = run_plain(compare, sql, NULL, &same, &changes);
    if ((code & 0xFF) == (worker_code & 0xFF)) {
        compare->same_error++;
        return;
    }
    kg_auto(kg_free) char *how =
        kg_format("worker: %lld %.*s; plain: %d %s", (long long)worker_code,
                  KG_STR_ARG(kg_node_get(error, "message")->text), code,
                  code == SQLITE_DONE ? "done" : sqlite3_errmsg(compare->plain));
    differ(compare, sql, how);
}

static void refuse(struct compare *compare, struct kg_str sql, const struct kg_node *error)
{
    const struct kg_node *data = kg_node_get(error, "data");
    const struct kg_node *rule = data ? kg_node_get(data, "rule") : NULL;
    kg_auto(kg_free) char *name =
        kg_str_dup(rule ? rule->text : kg_node_get(error, "message")->text);
    count(compare->refused, name);
    if (compare->show_refused)
        printf("refused by %s: %.*s\n", name, KG_STR_CUT(sql, 200));
}

/* As many NULLs as the statement has parameters, which is what SQLite takes for unbound ones. */
static char *nulls_for(struct compare *compare, struct kg_str sql)
{
    sqlite3_stmt *statement = NULL;
    struct kg_buf text = {0};
    if (starts(sql, "pragma") || starts(sql, "attach") || starts(sql, "detach"))
        return NULL;
    sqlite3_prepare_v2(compare->plain, sql.data, (int)sql.length, &statement, NULL);
    int wanted = statement ? sqlite3_bind_parameter_count(statement) : 0;
    sqlite3_finalize(statement);
    for (int i = 0; i < wanted; i++)
        kg_buf_text(&text, i ? ",null" : "[null");
    if (wanted == 0)
        return NULL;
    kg_buf_char(&text, ']');
    return kg_buf_terminate(&text);
}

static void compare_statement(struct compare *compare, struct kg_str sql)
{
    kg_auto(kg_free) char *values = nulls_for(compare, sql);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = storage_sql(compare->worker, "exec", sql, values);
    const struct kg_node *error = kg_node_get(doc->root, "error");
    compare->statements++;
    if (error == NULL)
        compare_result(compare, sql, kg_node_get(doc->root, "result"));
    else if (number(error, "code") == -32000)
        compare_error(compare, sql, error);
    else
        refuse(compare, sql, error);
}

/* -- one file ---------------------------------------------------------------------------------- */

static sqlite3 *open_plain(const struct storage *worker)
{
    kg_auto(kg_free) char *path = kg_format("%s/plain.db", worker->dir);
    sqlite3 *plain;
    assert_int_equal(sqlite3_open(path, &plain), SQLITE_OK);
    assert_int_equal(sqlite3_exec(plain,
                                  "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL;"
                                  "PRAGMA synchronous=OFF; PRAGMA foreign_keys=ON; "
                                  "PRAGMA max_page_count=2048;",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_limit(plain, SQLITE_LIMIT_LENGTH, 64 * 1024 * 1024);
    return plain;
}

/* For each name that the query gives, compares a statement made of it. */
static void compare_each(struct compare *compare, const char *query)
{
    sqlite3_stmt *names;
    assert_int_equal(sqlite3_prepare_v2(compare->plain, query, -1, &names, NULL), SQLITE_OK);
    kg_auto(kg_buf_free) struct kg_buf statements = {0};
    while (sqlite3_step(names) == SQLITE_ROW)
        kg_buf_append(&statements, sqlite3_column_text(names, 0),
                      (size_t)sqlite3_column_bytes(names, 0) + 1);
    sqlite3_finalize(names);
    for (size_t at = 0; at < statements.length; at += strlen(statements.data + at) + 1) {
        compare_statement(compare, kg_str(statements.data + at));
        compare->statements--;
        compare->at_ends++;
    }
}

/* What the file left: the same on both sides. Then both are emptied. */
static void compare_end(struct compare *compare)
{
#define OWN_TABLES                                                                                 \
    " FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual', 'view') "      \
    "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    compare_each(compare, "SELECT format('SELECT * FROM main.\"%w\" LIMIT 1000', name)" OWN_TABLES);
    compare_each(compare,
                 "SELECT format('DROP %s main.\"%w\"', iif(type = 'view', 'VIEW', 'TABLE'),"
                 " name)" OWN_TABLES " ORDER BY type DESC, name DESC");
    compare_each(compare, "VALUES ('DELETE FROM sqlite_sequence'), ('PRAGMA user_version = 0')");
}

/* Behind white space and comments, so that the first word can be looked at. */
static struct kg_str trim(struct kg_str sql)
{
    const char *at = sql.data, *end = sql.data + sql.length, *close;
    for (;;) {
        while (at < end && isspace((unsigned char)*at))
            at++;
        bool line = end - at >= 2 && at[0] == '-' && at[1] == '-';
        bool block = end - at >= 2 && at[0] == '/' && at[1] == '*';
        if (!line && !block)
            return (struct kg_str){at, (size_t)(end - at)};
        close = line ? memchr(at, '\n', (size_t)(end - at))
                     : memmem(at + 2, (size_t)(end - at - 2), "*/", 2);
        at = close ? close + (line ? 1 : 2) : end;
    }
}

/* A statement ends at the semicolon where SQLite's own shell would run it. */
static void each_statement(struct compare *compare, char *text, size_t length)
{
    char *start = text, *end = text + length;
    for (char *at = text; at < end; at++) {
        if (*at != ';' && at + 1 != end)
            continue;
        char next = at[1];
        at[1] = '\0';
        bool whole = sqlite3_complete(start) || at + 1 == end;
        at[1] = next;
        struct kg_str sql = trim((struct kg_str){start, (size_t)(at + 1 - start)});
        if (!whole)
            continue;
        if (sql.length > 0 && !kg_str_is(sql, ";"))
            compare_statement(compare, sql);
        start = at + 1;
    }
}

static void stop(struct compare *compare)
{
    sqlite3_close(compare->plain);
    assert_int_equal(storage_stop(compare->worker), 0);
    storage_free(compare->worker);
    compare->worker = NULL;
}

static void compare_file(const char *path, struct kg_str text, void *data)
{
    struct compare *compare = data;
    if (compare->seen++ % SAMPLE != 0 && !suite_is_long())
        return;
    kg_auto(kg_free) char *copy = kg_str_dup(text);
    compare->file = strrchr(path, '/') + 1;
    if (compare->worker == NULL) {
        compare->worker = storage_new();
        storage_start(compare->worker, wide);
        compare->plain = open_plain(compare->worker);
    }
    compare->tainted = false;
    each_statement(compare, copy, text.length);
    compare_end(compare);
    if (++compare->files % FILES_EACH == 0)
        stop(compare);
}

static void the_worker_does_what_plain_sqlite_does(void **state)
{
    (void)state;
    kg_auto(kg_free) char *path = suite_path(SUITE);
    if (path == NULL)
        return suite_skip(__func__, SUITE);
    struct compare compare = {.show_refused = getenv("KAGED_SHOW_REFUSED") != NULL};
    size_t files = suite_each_file(path, ".sql", compare_file, &compare);
    if (compare.worker != NULL)
        stop(&compare);
    printf("# %u of %zu files, %u statements: %u with the same result, %u with the same error\n",
           compare.files, files, compare.statements, compare.same_result, compare.same_error);
    printf("# %u more to look at, and drop, what the files left\n", compare.at_ends);
    print_counters("refused", compare.refused);
    print_counters("run, but not compared for", compare.skipped);
    assert_int_equal(compare.differences, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worker_does_what_plain_sqlite_does),
    };
    return cmocka_run_group_tests_name("storage_differential", tests, NULL, NULL);
}
