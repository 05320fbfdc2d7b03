/*
 * Steps through a statement and writes what it gives. A row is an object; when two columns have one
 * name, the later ones are called name:1, name:2 and so on, as SQLite itself does. The bounds of a
 * result hold at every value, so that the buffer never grows past them by more than one.
 */
#include "storage/worker/internal.h"

#include <stdio.h>
#include <stdlib.h>

void rows_forget_names(struct statement *statement)
{
    kg_buf_free(&statement->names);
    free(statement->name_ends);
    statement->name_ends = NULL;
}

/* A name that no column before has. */
static void storage_rows_put_name(struct kg_buf *names, struct kg_map *taken, const char *name)
{
    kg_auto(kg_buf_free) struct kg_buf unique = {0};
    kg_buf_text(&unique, name);
    size_t length = unique.length;
    for (unsigned i = 1; kg_map_get(taken, kg_buf_view(&unique)) != NULL; i++) {
        unique.length = length;
        kg_buf_printf(&unique, ":%u", i);
    }
    kg_map_set(taken, kg_buf_view(&unique), names);
    kg_json_put_string(names, kg_buf_view(&unique));
    kg_buf_char(names, ':');
}

/* Taken again when SQLite had to prepare the statement again: the tables have changed. */
static void take_names(struct statement *statement)
{
    int again = sqlite3_stmt_status(statement->handle, SQLITE_STMTSTATUS_REPREPARE, 0);
    if (again == statement->prepared_again)
        return;
    rows_forget_names(statement);
    statement->prepared_again = again;
    statement->columns = sqlite3_column_count(statement->handle);
    statement->name_ends = kg_alloc_array((size_t)statement->columns + 1, sizeof(size_t));
    struct kg_map *taken = kg_map_new();
    for (int i = 0; i < statement->columns; i++) {
        const char *name = sqlite3_column_name(statement->handle, i);
        storage_rows_put_name(&statement->names, taken, name ? name : "");
        statement->name_ends[i] = statement->names.length;
    }
    kg_map_free(taken);
}

/* `"a":` of a column. */
static struct kg_str storage_rows_name_of(const struct statement *statement, int column)
{
    size_t start = column ? statement->name_ends[column - 1] : 0;
    return (struct kg_str){statement->names.data + start, statement->name_ends[column] - start};
}

static void put_columns(struct kg_json_writer *writer, const struct statement *statement)
{
    kg_json_named_begin(writer, "columns", '[');
    for (int i = 0; i < statement->columns; i++) {
        struct kg_str name = storage_rows_name_of(statement, i);
        name.length--;
        kg_json_raw(writer, name);
    }
    kg_json_end(writer, ']');
}

static int fail_large(const struct options *options, struct failure *failure)
{
    return failure_set(failure, KG_E_PLUGIN, "result_bytes",
                       "the result has more than %lld bytes (result_bytes): page through it with "
                       "LIMIT and OFFSET, or by a key (WHERE id > ? ORDER BY id LIMIT n)",
                       (long long)options->result_bytes);
}

static int fail_many(const struct options *options, struct failure *failure)
{
    return failure_set(failure, KG_E_PLUGIN, "rows_max",
                       "the result has more than %lld rows (rows_max): page through it with LIMIT "
                       "and OFFSET, or by a key (WHERE id > ? ORDER BY id LIMIT n)",
                       (long long)options->rows_max);
}

static bool would_overflow(sqlite3_stmt *handle, int column, size_t room)
{
    int type = sqlite3_column_type(handle, column);
    return (type == SQLITE_TEXT || type == SQLITE_BLOB) &&
           (size_t)sqlite3_column_bytes(handle, column) > room;
}

static int storage_rows_put_row(struct database *database, const struct statement *statement,
                                struct kg_buf *out, size_t end, struct failure *failure)
{
    kg_buf_char(out, '{');
    for (int i = 0; i < statement->columns; i++) {
        if (i > 0)
            kg_buf_char(out, ',');
        kg_buf_str(out, storage_rows_name_of(statement, i));
        if (out->length > end || would_overflow(statement->handle, i, end - out->length))
            return fail_large(database->options, failure);
        if (!value_write(out, statement->handle, i))
            return database_fail(database, SQLITE_NOMEM, failure);
    }
    kg_buf_char(out, '}');
    return out->length > end ? fail_large(database->options, failure) : 0;
}

static int storage_rows_put_rows(struct database *database, struct statement *statement, int code,
                                 struct kg_buf *out, size_t end, struct failure *failure)
{
    int64_t count = 0;
    for (; code == SQLITE_ROW; code = sqlite3_step(statement->handle)) {
        if (count++ == database->options->rows_max)
            return fail_many(database->options, failure);
        if (count > 1)
            kg_buf_char(out, ',');
        if (storage_rows_put_row(database, statement, out, end, failure) < 0)
            return -1;
    }
    return code == SQLITE_DONE ? 0 : database_fail(database, code, failure);
}

int rows_run(struct database *database, struct statement *statement, struct kg_json_writer *writer,
             size_t result_start, struct failure *failure)
{
    database->guard.vacuuming = statement->vacuums;
    int code = sqlite3_step(statement->handle);
    take_names(statement);
    if (statement->columns == 0)
        return code == SQLITE_DONE ? 0 : database_fail(database, code, failure);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return database_fail(database, code, failure);
    put_columns(writer, statement);
    kg_json_named_begin(writer, "rows", '[');
    if (storage_rows_put_rows(database, statement, code, writer->buf,
                              result_start + (size_t)database->options->result_bytes, failure) < 0)
        return -1;
    kg_json_end(writer, ']');
    return 0;
}
