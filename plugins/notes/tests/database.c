/* A SQLite database in memory. Its answers are valid until the next one. */
#include "database.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct database {
    sqlite3 *handle;
    char *answer; /* owned */
    int broken;   /* requests that will fail */
};

struct database *database_new(void)
{
    struct database *database = calloc(1, sizeof(*database));
    assert(sqlite3_open(":memory:", &database->handle) == SQLITE_OK);
    return database;
}

void database_free(struct database *database)
{
    sqlite3_close(database->handle);
    free(database->answer);
    free(database);
}

void database_run(struct database *database, const char *sql)
{
    assert(sqlite3_exec(database->handle, sql, NULL, NULL, NULL) == SQLITE_OK);
}

void database_break(struct database *database, int requests)
{
    database->broken = requests;
}

static void put_text(FILE *out, const unsigned char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text < ' ' || *text == '"' || *text == '\\')
            fprintf(out, "\\u%04x", *text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

static void put_row(FILE *out, sqlite3_stmt *statement)
{
    fputc('{', out);
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
        fputs(i > 0 ? "," : "", out);
        put_text(out, (const unsigned char *)sqlite3_column_name(statement, i));
        fputc(':', out);
        if (sqlite3_column_type(statement, i) == SQLITE_INTEGER)
            fprintf(out, "%lld", sqlite3_column_int64(statement, i));
        else
            put_text(out, sqlite3_column_text(statement, i));
    }
    fputc('}', out);
}

static void bind(sqlite3_stmt *statement, const struct kaged_json *params)
{
    assert((int)kaged_json_count(params) == sqlite3_bind_parameter_count(statement));
    for (size_t i = 0; i < kaged_json_count(params); i++) {
        const struct kaged_json *value = kaged_json_at(params, i);
        int64_t number;
        if (kaged_json_int(value, &number))
            sqlite3_bind_int64(statement, (int)i + 1, number);
        else if (kaged_json_text(value) != NULL)
            sqlite3_bind_text(statement, (int)i + 1, kaged_json_text(value), -1, SQLITE_TRANSIENT);
    }
}

/* The result of one statement, {sql, params}, goes to out. */
static int run(struct database *database, const struct kaged_json *asked, FILE *out)
{
    const char *sql = kaged_json_text(kaged_json_get(asked, "sql"));
    sqlite3_stmt *statement;
    int code = sqlite3_prepare_v2(database->handle, sql, -1, &statement, NULL);
    const char *comma = "";
    if (code != SQLITE_OK)
        return code;
    bind(statement, kaged_json_get(asked, "params"));
    fputs("{\"rows\":[", out);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        fputs(comma, out);
        put_row(out, statement);
        comma = ",";
    }
    fprintf(out, "],\"rows_affected\":%d,\"last_insert_rowid\":%lld}",
            sqlite3_changes(database->handle), sqlite3_last_insert_rowid(database->handle));
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int run_batch(struct database *database, const struct kaged_json *asked, FILE *out)
{
    const struct kaged_json *statements = kaged_json_get(asked, "statements");
    int code = sqlite3_exec(database->handle, "BEGIN", NULL, NULL, NULL);
    fputs("{\"results\":[", out);
    for (size_t i = 0; i < kaged_json_count(statements) && code == SQLITE_OK; i++) {
        fputs(i > 0 ? "," : "", out);
        code = run(database, kaged_json_at(statements, i), out);
    }
    fputs("]}", out);
    sqlite3_exec(database->handle, code == SQLITE_OK ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
    return code;
}

const char *database_answer(void *data, struct kaged_test *test, const char *method,
                            const struct kaged_json *params)
{
    struct database *database = data;
    size_t length;
    if (database->broken > 0) {
        database->broken--;
        kaged_test_refuse(test, KAGED_BUSY, "resource busy");
        return NULL;
    }
    free(database->answer);
    FILE *out = open_memstream(&database->answer, &length);
    int code = strcmp(method, "kaged.storage.batch") == 0 ? run_batch(database, params, out)
                                                          : run(database, params, out);
    fclose(out);
    if (code == SQLITE_OK)
        return database->answer;
    kaged_test_refuse(test, KAGED_PLUGIN_ERROR, sqlite3_errstr(code));
    return NULL;
}
