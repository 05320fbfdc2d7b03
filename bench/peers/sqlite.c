/*
 * The statements of bench/plugins/storing on SQLite in this process, with the settings that kaged's
 * storage has.
 *
 * usage: sqlite DATABASE
 * commands: storage-read COUNT, storage-write COUNT   one statement after the other, each its own
 *           transaction
 */
#include "../contender.h"

#include <sqlite3.h>
#include <string.h>

#define ROWS 10000

static void run_sql(sqlite3 *database, const char *text)
{
    if (sqlite3_exec(database, text, NULL, NULL, NULL) != SQLITE_OK)
        contender_die(text, sqlite3_errmsg(database));
}

static sqlite3 *open_database(const char *path)
{
    sqlite3 *database;
    if (sqlite3_open(path, &database) != SQLITE_OK)
        contender_die(path, sqlite3_errmsg(database));
    run_sql(database,
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
            "CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT); BEGIN;"
            "WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < 9999)"
            "INSERT INTO t SELECT n, 'a value of some length' FROM c; COMMIT");
    return database;
}

/* Each step must end well, and a read must find one row. */
static void run_statement(sqlite3 *database, sqlite3_stmt *statement, long number, int rows)
{
    int result, found = 0;
    sqlite3_bind_int64(statement, 1, number % ROWS);
    while ((result = sqlite3_step(statement)) == SQLITE_ROW)
        found += sqlite3_column_bytes(statement, 0) > 0;
    if (result != SQLITE_DONE || found != rows)
        contender_die("sqlite", sqlite3_errmsg(database));
    sqlite3_reset(statement);
}

static void report_rate(sqlite3 *database, const char *text, long count, int rows)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(database, text, -1, &statement, NULL) != SQLITE_OK)
        contender_die(text, sqlite3_errmsg(database));
    uint64_t start_ns = contender_now_ns();
    for (long i = 0; i < count; i++)
        run_statement(database, statement, i, rows);
    contender_figure("rate", (double)count * 1e9 / (double)(contender_now_ns() - start_ns));
    sqlite3_finalize(statement);
}

static void run_read(void *data, const long numbers[])
{
    report_rate(data, "SELECT v FROM t WHERE k = ?", numbers[0], 1);
}

static void run_write(void *data, const long numbers[])
{
    report_rate(data, "UPDATE t SET v = 'another value' WHERE k = ?", numbers[0], 0);
}

int main(int argc, char **argv)
{
    static const struct contender_command commands[] = {
        {"storage-read", run_read}, {"storage-write", run_write}, {NULL, NULL}};
    if (argc != 2)
        contender_die("usage", "sqlite DATABASE");
    sqlite3 *database = open_database(argv[1]);
    contender_serve(commands, NULL, database);
    sqlite3_close(database);
    return 0;
}
