/*
 * kaged-storage, the real program on pipes: what it answers, what it refuses, and that the file is
 * whole whatever happens. Each test has a worker and a folder of its own.
 */
#include "storage.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define NOBODY 65534

/* -- helpers ----------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    struct storage *storage = storage_new();
    storage_start(storage, NULL);
    *state = storage;
    return 0;
}

static int set_up_stopped(void **state)
{
    *state = storage_new();
    return 0;
}

static int tear_down(void **state)
{
    storage_free(*state);
    return 0;
}

/* The answer without its envelope: {"result":...} or {"error":...}, as text that a test can read.
 */
static char *told(struct kg_doc *doc)
{
    struct kg_buf text = {0};
    struct kg_json_writer writer = kg_json_writer(&text);
    const struct kg_node *result = kg_node_get(doc->root, "result");
    kg_json_node(&writer, result ? result : kg_node_get(doc->root, "error"));
    kg_doc_free(doc);
    return kg_buf_terminate(&text);
}

static char *ask(struct storage *storage, const char *method, const char *params)
{
    return told(storage_ask(storage, method, kg_str(params)));
}

static char *run(struct storage *storage, const char *method, const char *sql, const char *values)
{
    return told(storage_sql(storage, method, kg_str(sql), values));
}

#define assert_told(told_text, wanted)                                                             \
    do {                                                                                           \
        kg_auto(kg_free) char *told_ = (told_text);                                                \
        assert_string_equal(told_, wanted);                                                        \
    } while (0)

#define assert_mentions(told_text, wanted)                                                         \
    do {                                                                                           \
        kg_auto(kg_free) char *told_ = (told_text);                                                \
        if (strstr(told_, wanted) == NULL)                                                         \
            fail_msg("\"%s\" is not in %s", wanted, told_);                                        \
    } while (0)

static void done(struct storage *storage, const char *sql)
{
    kg_auto(kg_free) char *text = run(storage, "exec", sql, NULL);
    if (strstr(text, "\"rows_affected\"") == NULL)
        fail_msg("%s: %s", sql, text);
}

#define assert_rows(storage, sql, wanted) assert_told(run(storage, "query", sql, NULL), wanted)

static void assert_rule(struct storage *storage, const char *sql, int code, const char *rule)
{
    kg_auto(kg_free) char *text = run(storage, "exec", sql, NULL);
    kg_auto(kg_free) char *head = kg_format("{\"code\":%d,", code);
    kg_auto(kg_free) char *tail = kg_format("\"data\":{\"rule\":\"%s\"}}", rule);
    if (strncmp(text, head, strlen(head)) != 0 || strstr(text, tail) == NULL)
        fail_msg("%s is not refused by %s, but: %s", sql, rule, text);
    if (strstr(text, storage->dir) != NULL)
        fail_msg("%s tells where the file is: %s", sql, text);
}

/* -- answers ----------------------------------------------------------------------------------- */

static void exec_tells_what_it_changed(void **state)
{
    struct storage *storage = *state;
    assert_told(run(storage, "exec", "CREATE TABLE t(a, b)", NULL), "{\"rows_affected\":0}");
    assert_told(run(storage, "exec", "INSERT INTO t VALUES(1, 2), (3, 4)", NULL),
                "{\"rows_affected\":2,\"last_insert_rowid\":2}");
    assert_told(run(storage, "exec", "UPDATE t SET b = 0 WHERE a > 5", NULL),
                "{\"rows_affected\":0}");
    assert_told(run(storage, "exec", "CREATE TABLE u AS SELECT * FROM t", NULL),
                "{\"rows_affected\":0}");
    assert_told(run(storage, "exec", "DELETE FROM t RETURNING a AS gone", NULL),
                "{\"columns\":[\"gone\"],\"rows\":[{\"gone\":1},{\"gone\":3}],"
                "\"rows_affected\":2}");
}

static void query_gives_rows_and_columns(void **state)
{
    struct storage *storage = *state;
    assert_rows(storage, "VALUES (1, 'x'), (2, NULL)",
                "{\"columns\":[\"column1\",\"column2\"],"
                "\"rows\":[{\"column1\":1,\"column2\":\"x\"},{\"column1\":2,\"column2\":null}]}");
    assert_rows(storage, "SELECT 1 AS a WHERE 0", "{\"columns\":[\"a\"],\"rows\":[]}");
}

static void columns_of_one_name_are_told_apart(void **state)
{
    assert_rows(*state, "SELECT 1 AS a, 2 AS a, 3 AS \"a:1\", 4 AS a",
                "{\"columns\":[\"a\",\"a:1\",\"a:1:1\",\"a:2\"],"
                "\"rows\":[{\"a\":1,\"a:1\":2,\"a:1:1\":3,\"a:2\":4}]}");
}

static void every_value_comes_back_as_it_went(void **state)
{
    struct storage *storage = *state;
    static const char *const rows[][3] = {
        {"null", "null", "null"},
        {"true", "1", "integer"},
        {"false", "0", "integer"},
        {"9223372036854775807", "9223372036854775807", "integer"},
        {"-9223372036854775808", "-9223372036854775808", "integer"},
        {"9007199254740993", "9007199254740993", "integer"},
        {"9223372036854775808", "9.2233720368547758e+18", "real"},
        {"-0", "0", "integer"},
        {"1.0", "1.0", "real"},
        {"1e3", "1000.0", "real"},
        {"0.1", "0.1", "real"},
        {"0.30000000000000004", "0.30000000000000004", "real"},
        {"9e999", "9e999", "real"},
        {"-1e400", "-9e999", "real"},
        {"\"\"", "\"\"", "text"},
        {"\"a\\u0000b\\ud83d\\ude00\\\"\"", "\"a\\u0000b\xF0\x9F\x98\x80\\\"\"", "text"},
        {"{\"$blob\":\"\"}", "{\"$blob\":\"\"}", "blob"},
        {"{\"\\u0024blob\":\"AP\\/+\"}", "{\"$blob\":\"AP/+\"}", "blob"},
        {"{\"$blob\":\"AA==\"}", "{\"$blob\":\"AA==\"}", "blob"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *values = kg_format("[%s]", rows[i][0]);
        kg_auto(kg_free) char *wanted =
            kg_format("{\"columns\":[\"v\",\"t\"],\"rows\":[{\"v\":%s,\"t\":\"%s\"}]}", rows[i][1],
                      rows[i][2]);
        assert_told(run(storage, "query", "SELECT ?1 AS v, typeof(?1) AS t", values), wanted);
    }
}

static void text_that_is_not_utf8_comes_as_a_blob(void **state)
{
    assert_rows(
        *state, "SELECT CAST(x'61ff' AS TEXT) AS t, 0.0 / 0 AS nan",
        "{\"columns\":[\"t\",\"nan\"],\"rows\":[{\"t\":{\"$blob\":\"Yf8=\"},\"nan\":null}]}");
}

static void parameters_have_positions_or_names(void **state)
{
    struct storage *storage = *state;
    static const char *const sql = "SELECT :a || @b || $c AS x";
    static const char *const wanted = "{\"columns\":[\"x\"],\"rows\":[{\"x\":\"123\"}]}";
    assert_told(run(storage, "query", sql, "[1,2,3]"), wanted);
    assert_told(run(storage, "query", sql, "{\"c\":3,\"@b\":2,\"a\":1}"), wanted);
    assert_told(run(storage, "query", "SELECT '123' AS x", "null"), wanted);
}

static void wrong_parameters_are_named(void **state)
{
    struct storage *storage = *state;
    static const char *const rows[][3] = {
        {"SELECT ?", NULL, "takes 1 values, but 0 are given"},
        {"SELECT ?", "[1,2]", "takes 1 values, but 2 are given"},
        {"SELECT :a", "{\"b\":1}", "no parameter named b"},
        {"SELECT :a, :b", "{\"b\":1}", ":a has no value"},
        {"SELECT :a", "{\"a\":1,\":a\":2}", ":a is given twice"},
        {"SELECT ?, :a", "{\"a\":1}", "parameter 1 has no name"},
        {"SELECT ?", "[[1]]", "value 1 is an array"},
        {"SELECT ?", "[{}]", "only {\\\"$blob\\\": \\\"base64\\\"} can be one"},
        {"SELECT ?", "[{\"$blob\":\"AA==\",\"x\":1}]", "only {\\\"$blob\\\""},
        {"SELECT ?", "[{\"$blob\":7}]", "only {\\\"$blob\\\""},
        {"SELECT ?", "[{\"$blob\":\"AA\"}]", "not base64"},
        {"SELECT ?", "[{\"$blob\":\"AB==\"}]", "not base64"},
        {"SELECT ?", "[{\"$blob\":\"A===\"}]", "not base64"},
        {"SELECT ?", "\"x\"", "an array or an object"},
        {"SELECT 1; SELECT 2", NULL, "more than one statement"},
        {"SELECT 1; x", NULL, "more than one statement"},
        {" -- nothing", NULL, "no statement"},
        {"", NULL, "no statement"},
        {";", NULL, "no statement"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *text = run(storage, "query", rows[i][0], rows[i][1]);
        if (strncmp(text, "{\"code\":-32602,", 15) != 0 || strstr(text, rows[i][2]) == NULL)
            fail_msg("%s with %s: %s", rows[i][0], rows[i][1], text);
    }
    assert_mentions(ask(storage, "query", "{\"sql\":\"SELECT 1\\u0000; DROP TABLE t\"}"), "NUL");
    assert_mentions(ask(storage, "query", "{\"sql\":1}"), "-32602");
    assert_mentions(ask(storage, "query", "{\"sql\":\"SELECT 1\",\"sq\":1}"), "no parameter sq");
    assert_mentions(ask(storage, "query", "{\"sql\":\"SELECT 1\",\"sql\":\"SELECT 2\"}"), "twice");
    assert_mentions(ask(storage, "exec", "{\"sql\":\"SELECT 1\",\"read_only\":1}"), "read_only");
    assert_mentions(ask(storage, "query", "[]"), "-32602");
    assert_mentions(ask(storage, "nothing", "{}"), "-32601");
}

static void blanks_and_comments_may_follow_a_statement(void **state)
{
    assert_rows(*state, " /* a */ ; SELECT 1 AS a ; -- b\n ;; /* c",
                "{\"columns\":[\"a\"],"
                "\"rows\":[{\"a\":1}]}");
}

static void lines_that_are_no_requests_are_answered_too(void **state)
{
    struct storage *storage = *state;
    static const char lines[] = "{\"jsonrpc\":\n"
                                "\n"
                                "[]\n"
                                "{\"id\":null,\"method\":\"query\"}\n"
                                "{\"id\":\"x\",\"method\":7}\n"
                                "{\"id\":\"x\",\"method\":\"schema\"}\n";
    static const char *const wanted[] = {"-32700", "-32600", "-32600", "-32600", "{\"tables\":[]}"};
    storage_write(storage, kg_str(lines));
    for (size_t i = 0; i < KG_COUNT(wanted); i++)
        assert_mentions(told(storage_read(storage)), wanted[i]);
}

static void schema_lists_what_the_plugin_made(void **state)
{
    struct storage *storage = *state;
    done(storage, "CREATE TABLE b(a INTEGER PRIMARY KEY AUTOINCREMENT)");
    done(storage, "CREATE VIEW a AS SELECT * FROM b");
    done(storage, "CREATE VIRTUAL TABLE f USING fts5(x)");
    done(storage, "CREATE VIRTUAL TABLE r USING rtree(id, a, b)");
    assert_told(ask(storage, "schema", "{}"), "{\"tables\":[\"a\",\"b\",\"f\",\"r\"]}");
}

static void size_counts_pages_and_rows(void **state)
{
    struct storage *storage = *state;
    done(storage, "CREATE TABLE \"a \"\"b\"(x)");
    done(storage, "INSERT INTO \"a \"\"b\" VALUES(1), (2)");
    done(storage, "CREATE VIEW v AS SELECT 1");
    assert_mentions(ask(storage, "size", "{}"), "\"pages_max\":65536");
    assert_mentions(ask(storage, "size", "{}"),
                    "\"tables\":[{\"name\":\"a \\\"b\",\"type\":\"table\",\"rows\":2},"
                    "{\"name\":\"v\",\"type\":\"view\"}]");
}

static void errors_carry_sqlites_code_and_words(void **state)
{
    struct storage *storage = *state;
    done(storage, "CREATE TABLE t(a UNIQUE, b NOT NULL DEFAULT 1, c CHECK (c > 0))");
    done(storage, "INSERT INTO t(a) VALUES(1)");
    assert_told(run(storage, "exec", "INSERT INTO t(a) VALUES(1)", NULL),
                "{\"code\":-32000,\"message\":\"UNIQUE constraint failed: t.a\",\"data\":"
                "{\"sqlite_code\":2067,\"sqlite_name\":\"SQLITE_CONSTRAINT_UNIQUE\"}}");
    assert_mentions(run(storage, "exec", "INSERT INTO t(c) VALUES(-1)", NULL),
                    "SQLITE_CONSTRAINT_CHECK");
    assert_told(run(storage, "exec", "SELEKT 1", NULL),
                "{\"code\":-32000,\"message\":\"near \\\"SELEKT\\\": syntax error\",\"data\":"
                "{\"sqlite_code\":1,\"sqlite_name\":\"SQLITE_ERROR\"}}");
}

/* -- reach ------------------------------------------------------------------------------------- */

static const char *const reaching[][2] = {
    {"SELECT * FROM sqlite_master", "schema_table"},
    {"SELECT sql FROM \"SQLITE_schema\"", "schema_table"},
    {"SELECT 1 FROM [sqlite_master]", "schema_table"},
    {"SELECT * FROM main.`sqlite_master`", "schema_table"},
    {"SELECT * FROM 'sqlite_master'", "schema_table"},
    {"SELECT * FROM /* x */ sqlite_temp_schema", "schema_table"},
    {"SELECT * FROM temp.sqlite_master", "schema_table"},
    {"SELECT * FROM through", "schema_table"},
    {"SELECT count(*) FROM sqlite_master", "schema_table"},
    {"WITH x AS (SELECT sql FROM sqlite_master) SELECT * FROM x", "schema_table"},
    {"SELECT (SELECT group_concat(sql) FROM sqlite_master)", "schema_table"},
    {"SELECT m.rowid FROM json_each('[1]'), sqlite_master AS m", "schema_table"},
    {"CREATE TABLE u AS SELECT sql FROM sqlite_master", "schema_table"},
    {"CREATE TABLE u AS SELECT rowid FROM sqlite_master", "schema_table"},
    {"INSERT INTO t SELECT sql FROM sqlite_master", "schema_table"},
    {"UPDATE t SET a = sql FROM sqlite_master", "schema_table"},
    {"DELETE FROM t WHERE a IN (SELECT sql FROM sqlite_master)", "schema_table"},
    {"INSERT INTO sqlite_master VALUES(1,2,3,4,5)", "schema_table"},
    {"UPDATE sqlite_master SET sql = 'x' WHERE rowid = 1", "schema_table"},
    {"DELETE FROM sqlite_schema", "schema_table"},
    {"EXPLAIN SELECT * FROM sqlite_master", "schema_table"},
    {"SELECT * FROM of_schema", "schema_table"},
    {"INSERT INTO of_schema(of_schema) VALUES('rebuild')", "schema_table"},
    {"SELECT * FROM f_data", "shadow_table"},
    {"SELECT * FROM main.\"F_Content\"", "shadow_table"},
    {"SELECT * FROM shadow", "shadow_table"},
    {"INSERT INTO f_data VALUES(1, 2)", "shadow_table"},
    {"DELETE FROM f_config", "shadow_table"},
    {"DROP TABLE f_idx", "shadow_table"},
    {"ALTER TABLE f_data RENAME TO g", "shadow_table"},
    {"CREATE INDEX i ON f_content(c0)", "shadow_table"},
    {"SELECT * FROM plugin_other_notes", "other_plugin"},
    {"SELECT * FROM \"Plugin_Other_Notes\"", "other_plugin"},
    {"INSERT INTO main.plugin_other_notes VALUES(1)", "other_plugin"},
    {"DROP TABLE plugin_other_notes", "other_plugin"},
    {"ALTER TABLE plugin_other_notes RENAME TO mine", "other_plugin"},
    {"SELECT * FROM other.t", "other_schema"},
    {"CREATE TABLE other.t(a)", "other_schema"},
    {"SELECT * FROM temp.t", "temp_schema"},
    {"CREATE TEMP TABLE x(a)", "temp_schema"},
    {"CREATE TABLE temp.x(a)", "temp_schema"},
    {"CREATE TEMP VIEW x AS SELECT 1", "temp_schema"},
    {"CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END", "temp_schema"},
    {"CREATE TRIGGER temp.x AFTER INSERT ON t BEGIN SELECT 1; END", "temp_schema"},
    {"ATTACH '/etc/passwd' AS x", "attach"},
    {"ATTACH ':memory:' AS x", "attach"},
    {"DETACH main", "attach"},
    {"VACUUM INTO '/tmp/stolen.db'", "vacuum_into"},
    {"VACUUM main INTO 'file:/tmp/stolen.db'", "vacuum_into"},
    {"PRAGMA writable_schema = ON", "pragma"},
    {"PRAGMA temp_store_directory = '/tmp'", "pragma"},
    {"PRAGMA data_store_directory = '/tmp'", "pragma"},
    {"PRAGMA database_list", "pragma"},
    {"SELECT file FROM pragma_database_list", "pragma"},
    {"PRAGMA main.journal_mode = DELETE", "pragma"},
    {"PRAGMA locking_mode = NORMAL", "pragma"},
    {"PRAGMA max_page_count = 1000000", "pragma"},
    {"PRAGMA foreign_keys = OFF", "pragma"},
    {"PRAGMA trusted_schema = ON", "pragma"},
    {"PRAGMA hard_heap_limit = 0", "pragma"},
    {"PRAGMA mmap_size = 1000000", "pragma"},
    {"PRAGMA query_only = ON", "pragma"},
    {"PRAGMA case_sensitive_like = ON", "pragma"},
    {"PRAGMA ignore_check_constraints = ON", "pragma"},
    {"PRAGMA legacy_alter_table = ON", "pragma"},
    {"PRAGMA schema_version = 1", "pragma"},
    {"PRAGMA wal_checkpoint", "pragma"},
    {"CREATE VIRTUAL TABLE x USING fts4(a)", "virtual_table"},
    {"CREATE VIRTUAL TABLE x USING csv(filename='/etc/passwd')", "virtual_table"},
    {"CREATE VIRTUAL TABLE x USING dbstat(main)", "virtual_table"},
    {"SELECT * FROM dbstat", "virtual_table"},
    {"SELECT * FROM sqlite_dbpage", "virtual_table"},
    {"SELECT * FROM sqlite_stmt", "virtual_table"},
    {"SELECT * FROM bytecode('SELECT 1')", "virtual_table"},
    {"SELECT * FROM fsdir('/')", "virtual_table"},
    {"SELECT load_extension('x')", "function"},
    {"SELECT \"load_extension\"('x', 'y')", "function"},
    {"SELECT fts3_tokenizer('simple')", "function"},
    {"SELECT readfile('/etc/passwd')", "function"},
    {"SELECT writefile('/tmp/x', 'y')", "function"},
    {"SELECT edit('x')", "function"},
};

static void reach_past_the_own_tables_is_refused_by_rule(void **state)
{
    struct storage *storage = *state;
    done(storage, "CREATE TABLE t(a)");
    done(storage, "CREATE VIRTUAL TABLE f USING fts5(x)");
    done(storage, "CREATE VIEW through AS SELECT sql FROM sqlite_master");
    done(storage, "CREATE VIRTUAL TABLE of_schema USING fts5(sql, content='sqlite_master')");
    done(storage, "CREATE VIEW shadow AS SELECT * FROM f_data");
    for (size_t i = 0; i < KG_COUNT(reaching); i++)
        assert_rule(storage, reaching[i][0], -32003, reaching[i][1]);
    assert_told(ask(storage, "schema", "{}"),
                "{\"tables\":[\"f\",\"of_schema\",\"shadow\",\"t\",\"through\"]}");
}

static void a_trigger_reaches_no_further_than_its_statement(void **state)
{
    struct storage *storage = *state;
    done(storage, "CREATE TABLE t(a)");
    done(storage, "CREATE TABLE log(x)");
    done(storage, "CREATE TRIGGER spy AFTER INSERT ON t BEGIN "
                  "INSERT INTO log SELECT sql FROM sqlite_master; END");
    assert_rule(storage, "INSERT INTO t VALUES(1)", -32003, "schema_table");
    assert_rows(storage, "SELECT count(*) AS n FROM t",
                "{\"columns\":[\"n\"],\"rows\":[{\"n\":0}]}");
}

static void a_function_hidden_in_the_schema_does_not_run(void **state)
{
    struct storage *storage = *state;
    sqlite3 *plain;
    assert_int_equal(sqlite3_open(storage->path, &plain), SQLITE_OK);
    sqlite3_db_config(plain, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1, NULL);
    sqlite3_exec(plain,
                 "CREATE TABLE t(a, b DEFAULT (load_extension('x')));"
                 "CREATE TABLE u(a CHECK (load_extension(a) = 1));"
                 "CREATE TABLE w(a); CREATE VIEW v AS SELECT load_extension('x');"
                 "CREATE TRIGGER tr AFTER INSERT ON w BEGIN SELECT load_extension('x'); END",
                 NULL, NULL, NULL);
    sqlite3_close(plain);
    storage_start(storage, NULL);
    static const char *const rows[] = {"INSERT INTO t(a) VALUES(1)", "INSERT INTO u VALUES(1)",
                                       "SELECT * FROM v", "INSERT INTO w VALUES(1)"};
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_rule(storage, rows[i], -32003, "function");
}

static void transactions_are_refused_and_batch_is_named(void **state)
{
    struct storage *storage = *state;
    static const char *const rows[] = {"BEGIN",         "BEGIN EXCLUSIVE",  "COMMIT",
                                       "END",           "ROLLBACK",         "SAVEPOINT a",
                                       "RELEASE kaged", "ROLLBACK TO kaged"};
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        assert_rule(storage, rows[i], -32602, "transaction");
        assert_mentions(run(storage, "exec", rows[i], NULL), "as one batch");
    }
}

static const char *const ordinary[] = {
    "CREATE TABLE \"my table\"(id INTEGER PRIMARY KEY, [a b] TEXT COLLATE NOCASE, `c` REAL)",
    "CREATE TABLE plugin_settings(k TEXT PRIMARY KEY, v ANY) STRICT, WITHOUT ROWID",
    "INSERT INTO plugin_settings VALUES('k', 1) ON CONFLICT(k) DO UPDATE SET v = excluded.v",
    "CREATE TABLE t(a, b GENERATED ALWAYS AS (a * 2) STORED, c CHECK (c > 0))",
    ("CREATE TABLE child(id INTEGER PRIMARY KEY AUTOINCREMENT, "
     "parent REFERENCES \"my table\"(id) ON DELETE CASCADE)"),
    "CREATE INDEX part ON t(a) WHERE c IS NOT NULL",
    ("CREATE TRIGGER tr AFTER UPDATE ON t WHEN NEW.a <> OLD.a BEGIN "
     "INSERT INTO child(parent) VALUES(NULL); END"),
    "CREATE VIEW v AS SELECT a AS t, \"quoted text\" AS q FROM t",
    "INSERT INTO t(a, c) SELECT value, 1 FROM json_each('[1, 2, 3]')",
    "WITH t AS (SELECT 7 AS a) INSERT INTO child(parent) SELECT NULL FROM t",
    "UPDATE t SET c = n.c FROM (SELECT 5 AS c) AS n WHERE t.a = 2",
    ("SELECT a, row_number() OVER t FROM t INDEXED BY part WHERE c IS NOT NULL WINDOW t AS "
     "(ORDER BY a)"),
    "SELECT * FROM v, json_tree('{\"t\": [1]}')",
    ("SELECT date('now'), printf('%5d', 3), hex(randomblob(4)), sqrt(2), json_extract('[1]', "
     "'$[0]')"),
    "ALTER TABLE t RENAME TO \"plugin_x\"",
    "ALTER TABLE plugin_x RENAME COLUMN a TO aa",
    "ALTER TABLE plugin_x ADD COLUMN d NOT NULL DEFAULT 4 CHECK (d > 0)",
    "ALTER TABLE plugin_x DROP COLUMN d",
    "CREATE VIRTUAL TABLE notes USING fts5(body, tokenize = 'porter')",
    "INSERT INTO notes VALUES('hello there')",
    ("SELECT snippet(notes, 0, '[', ']', '', 4), bm25(notes) FROM notes WHERE notes MATCH "
     "'hello'"),
    "INSERT INTO notes(notes) VALUES('optimize')",
    "CREATE VIRTUAL TABLE words USING fts5vocab(notes, row)",
    "SELECT * FROM words",
    "ALTER TABLE notes RENAME TO memos",
    "SELECT * FROM memos('hello')",
    "DROP TABLE memos",
    "CREATE TABLE posts(id INTEGER PRIMARY KEY, body)",
    "CREATE VIRTUAL TABLE found USING fts5(body, content = 'posts', content_rowid = 'id')",
    ("CREATE TRIGGER posted AFTER INSERT ON posts BEGIN "
     "INSERT INTO found(rowid, body) VALUES(NEW.id, NEW.body); END"),
    ("CREATE TRIGGER unposted AFTER DELETE ON posts BEGIN "
     "INSERT INTO found(found, rowid, body) VALUES('delete', OLD.id, OLD.body); END"),
    "INSERT INTO posts(body) VALUES('some words'), ('more words')",
    "SELECT p.id FROM found JOIN posts AS p ON p.id = found.rowid WHERE found MATCH 'more'",
    "DELETE FROM posts",
    "CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1)",
    "INSERT INTO boxes VALUES(1, 0, 1)",
    "DELETE FROM boxes WHERE x0 < 5",
    "DROP TABLE boxes",
    "DELETE FROM sqlite_sequence",
    "ANALYZE",
    "REINDEX",
    "VACUUM",
    "PRAGMA user_version = 3",
    "PRAGMA user_version",
    "PRAGMA table_info(t)",
    "SELECT name FROM pragma_table_info('plugin_x')",
    "PRAGMA table_list",
    "PRAGMA foreign_keys = ON",
    "PRAGMA journal_mode = WAL",
    "PRAGMA integrity_check",
    "PRAGMA optimize",
    "EXPLAIN QUERY PLAN SELECT * FROM plugin_x",
    "DROP VIEW IF EXISTS v",
    "DROP INDEX part",
    "DROP TABLE IF EXISTS plugin_other",
};

static void ordinary_statements_just_work(void **state)
{
    struct storage *storage = *state;
    for (size_t i = 0; i < KG_COUNT(ordinary); i++)
        done(storage, ordinary[i]);
}

static void query_and_read_only_requests_do_not_write(void **state)
{
    struct storage *storage = *state;
    done(storage, "CREATE TABLE t(a)");
    static const char *const rows[] = {"INSERT INTO t VALUES(1)",
                                       "DELETE FROM t RETURNING a",
                                       "CREATE TABLE u(a)",
                                       "DROP TABLE t",
                                       "VACUUM",
                                       "ANALYZE",
                                       "PRAGMA user_version = 1",
                                       "PRAGMA optimize",
                                       "SELECT * FROM pragma_optimize",
                                       "PRAGMA incremental_vacuum"};
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *params = kg_format("{\"sql\":\"%s\",\"read_only\":true}", rows[i]);
        kg_auto(kg_free) char *batch =
            kg_format("{\"statements\":[{\"sql\":\"%s\"}],\"read_only\":true}", rows[i]);
        assert_mentions(run(storage, "query", rows[i], NULL), "{\"rule\":\"read_only\"");
        assert_mentions(ask(storage, "exec", params), "{\"rule\":\"read_only\"");
        assert_mentions(ask(storage, "batch", batch), "{\"rule\":\"read_only\"");
    }
    assert_mentions(ask(storage, "exec", "{\"sql\":\"SELECT 1\",\"read_only\":true}"), "rows");
}

/* -- transactions ------------------------------------------------------------------------------ */

static void a_batch_is_all_or_nothing(void **state)
{
    struct storage *storage = *state;
    assert_told(ask(storage, "batch",
                    "{\"statements\":[{\"sql\":\"CREATE TABLE t(a UNIQUE)\"},"
                    "{\"sql\":\"INSERT INTO t VALUES(?)\",\"params\":[5]},"
                    "{\"sql\":\"SELECT a FROM t\"}]}"),
                "{\"results\":[{\"rows_affected\":0},"
                "{\"rows_affected\":1,\"last_insert_rowid\":1},"
                "{\"columns\":[\"a\"],\"rows\":[{\"a\":5}],\"rows_affected\":0}]}");
    assert_mentions(ask(storage, "batch",
                        "{\"statements\":[{\"sql\":\"INSERT INTO t VALUES(6)\"},"
                        "{\"sql\":\"CREATE VIRTUAL TABLE f USING fts5(x)\"},"
                        "{\"sql\":\"INSERT INTO t VALUES(5)\"}]}"),
                    "\"sqlite_name\":\"SQLITE_CONSTRAINT_UNIQUE\",\"index\":2}");
    assert_mentions(ask(storage, "batch",
                        "{\"statements\":[{\"sql\":\"INSERT INTO t VALUES(7)\"},"
                        "{\"sql\":\"SELECT * FROM sqlite_master\"}]}"),
                    "{\"rule\":\"schema_table\",\"index\":1}");
    assert_mentions(ask(storage, "batch",
                        "{\"statements\":[{\"sql\":\"INSERT INTO t VALUES(8)\"},"
                        "{\"sql\":\"INSERT OR ROLLBACK INTO t VALUES(5)\"}]}"),
                    "\"index\":1}");
    assert_mentions(ask(storage, "batch", "{\"statements\":[{\"sql\":\"COMMIT\"}]}"),
                    "\"transaction\"");
    assert_mentions(ask(storage, "batch", "{\"statements\":[7]}"), "\"index\":0}");
    assert_mentions(ask(storage, "batch", "{\"statements\":{}}"), "-32602");
    assert_told(ask(storage, "batch", "{\"statements\":[]}"), "{\"results\":[]}");
    assert_rows(storage, "SELECT a FROM t", "{\"columns\":[\"a\"],\"rows\":[{\"a\":5}]}");
    assert_told(ask(storage, "schema", "{}"), "{\"tables\":[\"t\"]}");
}

/* A note and its tags, in the words of every book on SQL: the function still told 0. */
static void a_statement_knows_what_the_one_before_inserted(void **state)
{
    struct storage *storage = *state;
    done(storage, "CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE)");
    done(storage, "CREATE TABLE tag(of, word)");
    assert_told(ask(storage, "batch",
                    "{\"statements\":[{\"sql\":\"INSERT INTO t VALUES(7, 1)\"},"
                    "{\"sql\":\"INSERT INTO tag VALUES(last_insert_rowid(), 'x')\"}]}"),
                "{\"results\":[{\"rows_affected\":1,\"last_insert_rowid\":7},"
                "{\"rows_affected\":1,\"last_insert_rowid\":1}]}");
    done(storage, "INSERT INTO t VALUES(9, 2)");
    assert_told(
        run(storage, "exec", "INSERT OR IGNORE INTO t VALUES(8, last_insert_rowid() / 9)", NULL),
        "{\"rows_affected\":0}");
    done(storage, "INSERT INTO tag SELECT last_insert_rowid(), 'y' UNION SELECT 'and', 'z'");
    assert_rows(storage, "SELECT of FROM tag WHERE word < 'z'",
                "{\"columns\":[\"of\"],\"rows\":[{\"of\":7},{\"of\":9}]}");
}

static void a_statement_that_fails_changes_nothing(void **state)
{
    struct storage *storage = *state;
    done(storage, "CREATE TABLE t(a UNIQUE)");
    done(storage, "CREATE TABLE log(a)");
    done(storage, "CREATE TRIGGER tr BEFORE INSERT ON t WHEN NEW.a = 9 BEGIN "
                  "INSERT INTO log VALUES(1); SELECT RAISE(FAIL, 'no nines'); END");
    static const char *const rows[] = {
        "INSERT INTO t VALUES(1), (1)", "INSERT OR FAIL INTO t VALUES(1), (1)",
        "INSERT OR ROLLBACK INTO t VALUES(1), (1)", "INSERT INTO t VALUES(1), (9)"};
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_mentions(run(storage, "exec", rows[i], NULL), "SQLITE_CONSTRAINT");
    assert_rows(storage, "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM log) AS n",
                "{\"columns\":[\"n\"],\"rows\":[{\"n\":0}]}");
}

/* Sends all statements at once and expects as many answers, in their order. */
static void together(struct storage *storage, const char *const *rows, size_t count,
                     const char *const *wanted)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int64_t first = storage->id + 1, id = 0;
    for (size_t i = 0; i < count; i++) {
        kg_auto(kg_buf_free) struct kg_buf params = {0};
        kg_buf_text(&params, "{\"sql\":");
        kg_json_put_string(&params, kg_str(rows[i]));
        kg_buf_char(&params, '}');
        storage_put(storage, &text, "exec", kg_buf_view(&params));
    }
    storage_write(storage, kg_buf_view(&text));
    for (size_t i = 0; i < count; i++) {
        struct kg_doc *doc = storage_read(storage);
        assert_true(kg_node_int(kg_node_get(doc->root, "id"), &id));
        assert_int_equal(id, first + (int64_t)i);
        assert_mentions(told(doc), wanted[i]);
    }
}

static void writes_that_come_together_fail_one_by_one(void **state)
{
    struct storage *storage = *state;
    done(storage, "CREATE TABLE p(a PRIMARY KEY)");
    done(storage, "CREATE TABLE c(a REFERENCES p DEFERRABLE INITIALLY DEFERRED)");
    static const char *const rows[][2] = {
        {"INSERT INTO p VALUES(1)", "\"rows_affected\":1"},
        {"INSERT INTO p VALUES(2), (1)", "SQLITE_CONSTRAINT_PRIMARYKEY"},
        {"INSERT INTO c VALUES(77)", "SQLITE_CONSTRAINT_FOREIGNKEY"},
        {"INSERT INTO c VALUES(1)", "\"rows_affected\":1"},
        {"SELECT count(*) AS n FROM p", "{\"n\":1}"},
        {"SELECT * FROM sqlite_master", "schema_table"},
        {"INSERT OR ROLLBACK INTO p VALUES(3), (1)", "SQLITE_CONSTRAINT_PRIMARYKEY"},
        {"INSERT INTO p VALUES(4)", "\"rows_affected\":1"},
        {"CREATE TABLE x(a)", "\"rows_affected\":0"},
        {"INSERT INTO x SELECT a FROM p RETURNING a", "[{\"a\":1},{\"a\":4}]"},
        {"INSERT OR FAIL INTO p VALUES(5), (1)", "SQLITE_CONSTRAINT_PRIMARYKEY"},
        {"DELETE FROM p WHERE a = 1", "SQLITE_CONSTRAINT_FOREIGNKEY"},
        {"VACUUM", "\"rows_affected\":0"},
        {"UPDATE p SET a = 6 WHERE a = 4", "\"rows_affected\":1"},
        {"BEGIN", "transaction"},
        {"SELECT group_concat(a) AS all_of_p FROM (SELECT a FROM p ORDER BY a)", "\"1,6\""},
    };
    const char *sql[KG_COUNT(rows)], *wanted[KG_COUNT(rows)];
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        sql[i] = rows[i][0];
        wanted[i] = rows[i][1];
    }
    together(storage, sql, KG_COUNT(rows), wanted);
    assert_int_equal(storage_stop(storage), 0);
    storage_start(storage, NULL);
    assert_rows(storage, "SELECT group_concat(a) AS a FROM (SELECT a FROM p ORDER BY a)",
                "{\"columns\":[\"a\"],\"rows\":[{\"a\":\"1,6\"}]}");
}

static void many_requests_are_answered_in_order(void **state)
{
    struct storage *storage = *state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    const int count = 5000;
    done(storage, "CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    for (int i = 0; i < count; i++) {
        bool reads = i % 3 == 0;
        kg_auto(kg_free) char *params =
            reads ? kg_format("{\"sql\":\"SELECT %d AS n, count(*) AS c FROM t\"}", i % 400)
                  : kg_format("{\"sql\":\"INSERT INTO t(v) VALUES(?)\",\"params\":[%d]}", i);
        storage_put(storage, &text, reads ? "query" : "exec", kg_str(params));
    }
    storage_write(storage, kg_buf_view(&text));
    int64_t inserted = 0, got;
    for (int i = 0; i < count; i++) {
        kg_auto(kg_doc_cleanup) struct kg_doc *doc = storage_read(storage);
        assert_true(kg_node_int(kg_node_get(doc->root, "id"), &got));
        assert_int_equal(got, i + 2);
        const struct kg_node *result = kg_node_get(doc->root, "result");
        assert_non_null(result);
        const struct kg_node *rows = kg_node_get(result, "rows");
        assert_true(kg_node_int(rows ? kg_node_get(&rows->items[0], "c")
                                     : kg_node_get(result, "last_insert_rowid"),
                                &got));
        inserted += rows == NULL;
        assert_int_equal(got, inserted);
    }
}

static void a_statement_follows_a_change_of_its_table(void **state)
{
    struct storage *storage = *state;
    done(storage, "CREATE TABLE t(a)");
    done(storage, "INSERT INTO t VALUES(1)");
    assert_rows(storage, "SELECT * FROM t", "{\"columns\":[\"a\"],\"rows\":[{\"a\":1}]}");
    done(storage, "ALTER TABLE t ADD COLUMN b DEFAULT 2");
    assert_rows(storage, "SELECT * FROM t",
                "{\"columns\":[\"a\",\"b\"],\"rows\":[{\"a\":1,\"b\":2}]}");
    done(storage, "ALTER TABLE t RENAME COLUMN a TO c");
    assert_rows(storage, "SELECT * FROM t",
                "{\"columns\":[\"c\",\"b\"],\"rows\":[{\"c\":1,\"b\":2}]}");
    done(storage, "DROP TABLE t");
    done(storage, "CREATE VIEW t AS SELECT sql FROM sqlite_master");
    assert_rule(storage, "SELECT * FROM t", -32003, "schema_table");
}

static void the_cache_of_statements_is_bounded_and_right(void **state)
{
    struct storage *storage = *state;
    static const char *const options[] = {"statements_cached=3", NULL};
    storage_start(storage, options);
    for (int i = 0; i < 40; i++) {
        int n = i % 7 < 2 ? 0 : i % 5;
        kg_auto(kg_free) char *sql = kg_format("SELECT %d + ? AS n", n);
        kg_auto(kg_free) char *values = kg_format("[%d]", i);
        kg_auto(kg_free) char *wanted =
            kg_format("{\"columns\":[\"n\"],\"rows\":[{\"n\":%d}]}", n + i);
        assert_told(run(storage, "query", sql, values), wanted);
    }
}

/* -- the file ---------------------------------------------------------------------------------- */

static void count_after_kill(struct storage *storage, int *ret_rows)
{
    int64_t rows;
    storage_start(storage, NULL);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        storage_sql(storage, "query", KG_STR("SELECT count(*) AS n FROM t"), NULL);
    const struct kg_node *result = kg_node_get(doc->root, "result");
    assert_non_null(result);
    assert_true(kg_node_int(kg_node_get(&kg_node_get(result, "rows")->items[0], "n"), &rows));
    assert_rows(storage, "PRAGMA integrity_check",
                "{\"columns\":[\"integrity_check\"],\"rows\":[{\"integrity_check\":\"ok\"}]}");
    *ret_rows = (int)rows;
}

/* The kill comes at some moment of the batch, another one each time. */
static void a_killed_batch_is_whole_or_absent(void **state)
{
    struct storage *storage = *state;
    int rows = 0, before = 0;
    done(storage, "CREATE TABLE t(a, b)");
    for (int round = 0; round < 12; round++) {
        kg_auto(kg_buf_free) struct kg_buf text = {0}, params = {0};
        kg_buf_text(&params, "{\"statements\":[");
        for (int i = 0; i < 100; i++)
            kg_buf_printf(&params,
                          "%s{\"sql\":\"INSERT INTO t SELECT value, zeroblob(300) FROM "
                          "json_each('[1,2,3,4,5,6,7,8,9,10]')\"}",
                          i ? "," : "");
        kg_buf_text(&params, "]}");
        storage_put(storage, &text, "batch", kg_buf_view(&params));
        storage_write(storage, kg_buf_view(&text));
        usleep((useconds_t)(round * 1500)); /* which moment does not matter */
        storage_kill(storage);
        count_after_kill(storage, &rows);
        assert_true(rows == before || rows == before + 1000);
        before = rows;
    }
}

/* An answer that was seen is a write that stays, though its commit was shared. */
static void what_was_answered_survives_a_kill(void **state)
{
    struct storage *storage = *state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int rows = 0;
    done(storage, "CREATE TABLE t(a)");
    for (int i = 0; i < 2000; i++)
        storage_put(storage, &text, "exec", KG_STR("{\"sql\":\"INSERT INTO t VALUES(1)\"}"));
    storage_write(storage, kg_buf_view(&text));
    int answered = 0;
    for (; answered < 700; answered++)
        kg_doc_free(storage_read(storage));
    while (memchr(storage->received.data, '\n', storage->received.length) != NULL) {
        kg_doc_free(storage_read(storage));
        answered++;
    }
    storage_kill(storage);
    count_after_kill(storage, &rows);
    assert_true(rows >= answered);
}

static void only_the_two_files_are_ever_made(void **state)
{
    struct storage *storage = *state;
    if (geteuid() == 0) {
        kg_auto(kg_free) char *wal = kg_format("%s-wal", storage->path);
        storage->uid = NOBODY;
        assert_int_equal(chown(storage->path, NOBODY, NOBODY), 0);
        assert_int_equal(chown(wal, NOBODY, NOBODY), 0);
    }
    assert_int_equal(chmod(storage->dir, 0555), 0);
    static const char *const options[] = {"cache_bytes=65536", NULL};
    for (int round = 0; round < 2; round++) {
        storage_start(storage, options);
        done(storage, "CREATE TABLE IF NOT EXISTS t(a)");
        done(storage, "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
                      "INSERT INTO t SELECT hex(zeroblob(500)) || i FROM n");
        done(storage, "UPDATE t SET a = a || 'x' WHERE a IN (SELECT a FROM t ORDER BY a DESC)");
        done(storage, "CREATE INDEX IF NOT EXISTS i ON t(a)");
        done(storage, "VACUUM");
        assert_int_equal(storage_stop(storage), 0);
    }
}

static void a_file_of_another_making_is_taken_over(void **state)
{
    struct storage *storage = *state;
    sqlite3 *plain;
    assert_int_equal(sqlite3_open(storage->path, &plain), SQLITE_OK);
    sqlite3_exec(plain,
                 "PRAGMA page_size = 1024; PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(a);"
                 "INSERT INTO t VALUES('h\xC3\xA9')",
                 NULL, NULL, NULL);
    sqlite3_close(plain);
    static const char *const options[] = {"size_bytes=1048576", NULL};
    storage_start(storage, options);
    assert_rows(storage, "SELECT a FROM t",
                "{\"columns\":[\"a\"],\"rows\":[{\"a\":\"h\xC3\xA9\"}]}");
    assert_mentions(run(storage, "exec", "PRAGMA journal_mode", NULL),
                    "{\"journal_mode\":\"wal\"}");
    assert_mentions(ask(storage, "size", "{}"), "\"pages_max\":1024");
}

static void write_file(const char *path, const char *text, size_t at)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, text, strlen(text), (off_t)at), strlen(text));
    close(fd);
}

static void a_file_that_is_no_database_ends_the_worker(void **state)
{
    struct storage *storage = *state;
    write_file(storage->path,
               "this is not a database, though it is long enough to be one ........"
               "..................................................................",
               0);
    storage_start(storage, NULL);
    assert_told(run(storage, "query", "SELECT 1", NULL),
                "{\"code\":-32000,\"message\":\"file is not a database\",\"data\":"
                "{\"sqlite_code\":26,\"sqlite_name\":\"SQLITE_NOTADB\"}}");
    assert_int_equal(storage_wait(storage), 3);
}

static void damage_found_on_the_way_ends_the_worker(void **state)
{
    struct storage *storage = *state;
    storage_start(storage, NULL);
    done(storage, "CREATE TABLE t(a)");
    done(storage, "INSERT INTO t VALUES(1)");
    assert_int_equal(storage_stop(storage), 0);
    write_file(storage->path, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 4096);
    storage_start(storage, NULL);
    assert_mentions(run(storage, "query", "SELECT * FROM t", NULL),
                    "\"sqlite_name\":\"SQLITE_CORRUPT\"");
    assert_int_equal(storage_wait(storage), 3);
}

static void a_missing_file_ends_the_worker_without_a_path(void **state)
{
    struct storage *storage = *state;
    assert_int_equal(unlink(storage->path), 0);
    storage_start(storage, NULL);
    assert_told(run(storage, "query", "SELECT 1", NULL),
                "{\"code\":-32000,\"message\":\"unable to open database file\",\"data\":"
                "{\"sqlite_code\":14,\"sqlite_name\":\"SQLITE_CANTOPEN\"}}");
    assert_int_equal(storage_wait(storage), 4);
}

static void a_second_worker_on_the_file_gives_up(void **state)
{
    struct storage *storage = *state;
    storage_start(storage, NULL);
    done(storage, "CREATE TABLE t(a)");
    struct storage second = *storage;
    second.received = (struct kg_buf){0};
    storage_start(&second, NULL);
    assert_mentions(run(&second, "query", "SELECT 1", NULL), "\"SQLITE_BUSY\"");
    assert_int_equal(storage_wait(&second), 4);
    kg_buf_free(&second.received);
    done(storage, "INSERT INTO t VALUES(1)");
}

static void wrong_options_are_a_usage_error(void **state)
{
    struct storage *storage = *state;
    static const char *const wrong[] = {"size_bytes", "size_bytes=-1", "sise_bytes=1",
                                        "sync=maybe"};
    for (size_t i = 0; i < KG_COUNT(wrong); i++) {
        const char *const options[] = {wrong[i], NULL};
        storage_start(storage, options);
        assert_int_equal(storage_wait(storage), 2);
    }
}

/* -- bounds ------------------------------------------------------------------------------------ */

static void a_statement_that_does_not_end_is_interrupted(void **state)
{
    struct storage *storage = *state;
    static const char *const options[] = {"statement_ms=200", NULL};
    storage_start(storage, options);
    done(storage, "CREATE TABLE t(a)");
    static const char *const rows[] = {
        "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        ("WITH n(i) AS (SELECT 1 UNION ALL SELECT 1 FROM n) INSERT INTO t SELECT 1 FROM n WHERE i "
         "= "
         "2"),
        ("WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9999) "
         "SELECT count(*) FROM n a, n b, n c"),
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_mentions(run(storage, "exec", rows[i], NULL),
                        "interrupted: a request may run for 200 ms (statement_ms)\",\"data\":"
                        "{\"sqlite_code\":9,\"sqlite_name\":\"SQLITE_INTERRUPT\"}");
    assert_rows(storage, "SELECT count(*) AS n FROM t",
                "{\"columns\":[\"n\"],\"rows\":[{\"n\":0}]}");
}

/* The interrupt undoes the whole transaction that they shared; the others are done again. */
static void an_interrupt_hurts_only_its_own_request(void **state)
{
    struct storage *storage = *state;
    static const char *const options[] = {"statement_ms=300", NULL};
    storage_start(storage, options);
    done(storage, "CREATE TABLE t(a)");
    static const char *const sql[] = {"INSERT INTO t VALUES(1)", "INSERT INTO t VALUES(2)",
                                      ("WITH n(i) AS (SELECT 1 UNION ALL SELECT 1 FROM n) INSERT "
                                       "INTO t SELECT 1 FROM n WHERE i = 2"),
                                      "INSERT INTO t VALUES(3)",
                                      "SELECT group_concat(a) AS a FROM t"};
    static const char *const wanted[] = {"\"last_insert_rowid\":1", "\"last_insert_rowid\":2",
                                         "SQLITE_INTERRUPT", "\"last_insert_rowid\":3",
                                         "\"1,2,3\""};
    together(storage, sql, KG_COUNT(sql), wanted);
}

static void the_file_grows_no_further_than_its_bound(void **state)
{
    struct storage *storage = *state;
    static const char *const options[] = {"size_bytes=262144", NULL};
    storage_start(storage, options);
    done(storage, "CREATE TABLE t(a)");
    int rows = 0;
    for (;; rows++) {
        kg_auto(kg_free) char *text =
            run(storage, "exec", "INSERT INTO t VALUES(zeroblob(10000))", NULL);
        if (strstr(text, "\"code\"") == NULL)
            continue;
        assert_non_null(strstr(text, "may grow to 262144 bytes (size_bytes)"));
        assert_non_null(strstr(text, "\"SQLITE_FULL\""));
        break;
    }
    assert_in_range(rows, 15, 26);
    static const char *const sql[] = {
        "DELETE FROM t WHERE rowid = 1", "INSERT INTO t VALUES(zeroblob(9000))",
        "INSERT INTO t VALUES(zeroblob(200000))", "INSERT INTO t VALUES(NULL)"};
    static const char *const wanted[] = {"\"rows_affected\":1", "\"rows_affected\":1",
                                         "SQLITE_FULL", "\"rows_affected\":1"};
    together(storage, sql, KG_COUNT(sql), wanted);
    assert_int_equal(storage_stop(storage), 0);
    struct stat status;
    assert_int_equal(stat(storage->path, &status), 0);
    assert_true(status.st_size <= 262144);
}

static void large_results_are_refused_with_advice(void **state)
{
    struct storage *storage = *state;
    static const char *const options[] = {"rows_max=10", "result_bytes=2000", NULL};
    static const char *const many =
        "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT %d) "
        "SELECT i FROM n";
    kg_auto(kg_free) char *ten = kg_format(many, 10);
    kg_auto(kg_free) char *eleven = kg_format(many, 11);
    storage_start(storage, options);
    assert_mentions(run(storage, "query", ten, NULL), "{\"i\":10}]");
    assert_mentions(run(storage, "query", eleven, NULL), "more than 10 rows (rows_max): page");
    assert_mentions(run(storage, "query", "SELECT hex(zeroblob(1500))", NULL),
                    "2000 bytes (result_bytes): page");
    assert_mentions(run(storage, "query", "SELECT zeroblob(1500)", NULL), "result_bytes");
    assert_mentions(run(storage, "query",
                        "SELECT hex(zeroblob(400)), hex(zeroblob(400)), "
                        "hex(zeroblob(400))",
                        NULL),
                    "result_bytes");
    done(storage, "CREATE TABLE t(a)");
    assert_mentions(run(storage, "exec",
                        "INSERT INTO t SELECT value FROM json_each('[1,2,3,4,5,6,7,8,9,10,11]') "
                        "RETURNING a",
                        NULL),
                    "rows_max");
    assert_rows(storage, "SELECT count(*) AS n FROM t",
                "{\"columns\":[\"n\"],\"rows\":[{\"n\":0}]}");
    assert_mentions(ask(storage, "batch",
                        "{\"statements\":[{\"sql\":\"SELECT hex(zeroblob(600))\"},"
                        "{\"sql\":\"SELECT hex(zeroblob(600))\"}]}"),
                    "result_bytes");
}

static void other_bounds_hold_too(void **state)
{
    struct storage *storage = *state;
    static const char *const options[] = {
        "value_bytes=1024", "sql_bytes=1024",     "columns=5",   "variables=3", "depth=20",
        "batch_max=2",      "heap_bytes=8388608", "arguments=4", "compounds=3", NULL};
    storage_start(storage, options);
    static const char *const rows[][2] = {
        {"SELECT zeroblob(2000)", "a value or row may have 1024 bytes (value_bytes)"},
        {"SELECT randomblob(2000)", "SQLITE_TOOBIG"},
        {"SELECT printf('%2000d', 1) AS a", "{\"a\":null}"},
        {"SELECT replace(hex(zeroblob(400)), '0', '1234')", "SQLITE_TOOBIG"},
        {"SELECT 1,2,3,4,5,6", "too many columns"},
        {"SELECT ?1, ?4", "variable number must be between"},
        {"SELECT ((((((((((((((((((((((((1+1)+1)+1)+1)+1)+1)+1)+1)+1)+1)+1)+1)+1)+1)+1)+1)+1)+1)"
         "+1)+1)+1)+1)+1)+1)",
         "Expression tree is too large"},
        {"SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4", "too many terms"},
        {"SELECT max(1,2,3,4,5)", "too many arguments"},
        {"SELECT length(group_concat(i)) FROM (WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM "
         "n LIMIT 9999) "
         "SELECT i FROM n)",
         "SQLITE_TOOBIG"},
        {"WITH n(i) AS (SELECT zeroblob(900) UNION ALL SELECT i FROM n LIMIT 100000) "
         "SELECT count(*) FROM (SELECT i FROM n ORDER BY i)",
         "8388608 bytes (heap_bytes)"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_mentions(run(storage, "query", rows[i][0], NULL), rows[i][1]);
    kg_auto(kg_free) char *spaces = kg_format("SELECT 1%1024s", "");
    assert_mentions(run(storage, "query", spaces, NULL), "1024 bytes (sql_bytes)");
    kg_auto(kg_free) char *text = kg_format("[\"%01030d\"]", 0);
    assert_mentions(run(storage, "query", "SELECT ?", text), "larger than a value may be");
    assert_mentions(ask(storage, "batch",
                        "{\"statements\":[{\"sql\":\"SELECT 1\"},{\"sql\":\"SELECT 1\"},"
                        "{\"sql\":\"SELECT 1\"}]}"),
                    "2 statements (batch_max)");
    assert_rows(storage, "SELECT 1 AS a", "{\"columns\":[\"a\"],\"rows\":[{\"a\":1}]}");
}

static void a_line_without_an_end_ends_the_worker(void **state)
{
    struct storage *storage = *state;
    static const char *const options[] = {"line_bytes=1000", NULL};
    storage_start(storage, options);
    kg_auto(kg_free) char *line = kg_format("%01200d", 0);
    storage_write(storage, kg_str(line));
    assert_null(storage_read(storage));
    assert_int_equal(storage_wait(storage), 1);
}

#define TEST(name)         cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_STOPPED(name) cmocka_unit_test_setup_teardown(name, set_up_stopped, tear_down)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        TEST(exec_tells_what_it_changed),
        TEST(query_gives_rows_and_columns),
        TEST(columns_of_one_name_are_told_apart),
        TEST(every_value_comes_back_as_it_went),
        TEST(text_that_is_not_utf8_comes_as_a_blob),
        TEST(parameters_have_positions_or_names),
        TEST(wrong_parameters_are_named),
        TEST(blanks_and_comments_may_follow_a_statement),
        TEST(lines_that_are_no_requests_are_answered_too),
        TEST(schema_lists_what_the_plugin_made),
        TEST(size_counts_pages_and_rows),
        TEST(errors_carry_sqlites_code_and_words),
        TEST(reach_past_the_own_tables_is_refused_by_rule),
        TEST(a_trigger_reaches_no_further_than_its_statement),
        TEST_STOPPED(a_function_hidden_in_the_schema_does_not_run),
        TEST(transactions_are_refused_and_batch_is_named),
        TEST(ordinary_statements_just_work),
        TEST(query_and_read_only_requests_do_not_write),
        TEST(a_batch_is_all_or_nothing),
        TEST(a_statement_knows_what_the_one_before_inserted),
        TEST(a_statement_that_fails_changes_nothing),
        TEST(writes_that_come_together_fail_one_by_one),
        TEST(many_requests_are_answered_in_order),
        TEST(a_statement_follows_a_change_of_its_table),
        TEST_STOPPED(the_cache_of_statements_is_bounded_and_right),
        TEST(a_killed_batch_is_whole_or_absent),
        TEST(what_was_answered_survives_a_kill),
        TEST_STOPPED(only_the_two_files_are_ever_made),
        TEST_STOPPED(a_file_of_another_making_is_taken_over),
        TEST_STOPPED(a_file_that_is_no_database_ends_the_worker),
        TEST_STOPPED(damage_found_on_the_way_ends_the_worker),
        TEST_STOPPED(a_missing_file_ends_the_worker_without_a_path),
        TEST_STOPPED(a_second_worker_on_the_file_gives_up),
        TEST_STOPPED(wrong_options_are_a_usage_error),
        TEST_STOPPED(a_statement_that_does_not_end_is_interrupted),
        TEST_STOPPED(an_interrupt_hurts_only_its_own_request),
        TEST_STOPPED(the_file_grows_no_further_than_its_bound),
        TEST_STOPPED(large_results_are_refused_with_advice),
        TEST_STOPPED(other_bounds_hold_too),
        TEST_STOPPED(a_line_without_an_end_ends_the_worker),
    };
    return cmocka_run_group_tests_name("storage_worker", tests, NULL, NULL);
}
