/*
 * One value, there and back without loss:
 *
 *   JSON                              SQLite
 *   null                              NULL
 *   true, false                       INTEGER 1, 0 (and come back as 1, 0)
 *   12 (an integer within int64)      INTEGER, every digit kept
 *   1.5, 1e3, a larger integer        REAL, which always comes back with a point or an exponent
 *   9e999, -9e999                     REAL, infinite
 *   "text"                            TEXT, NUL included
 *   {"$blob": "base64"}               BLOB; also TEXT that is not UTF-8, on its way out
 */
#include "base/base64.h"
#include "storage/worker/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOB_KEY "$blob"

/* -- JSON to SQLite ---------------------------------------------------------------------------- */

static int storage_value_refuse(struct failure *failure, int index, const char *what)
{
    return failure_set(failure, KG_E_INVALID_PARAMS, NULL, "params: value %d %s", index, what);
}

static int storage_value_bound(sqlite3_stmt *handle, int code, int index, struct failure *failure)
{
    if (code == SQLITE_OK)
        return 0;
    if (code == SQLITE_TOOBIG)
        return storage_value_refuse(failure, index, "is larger than a value may be");
    return failure_sqlite(failure, code, sqlite3_errmsg(sqlite3_db_handle(handle)));
}

static int bind_number(sqlite3_stmt *handle, int index, struct kg_str span, struct kg_buf *scratch)
{
    int64_t integer;
    if (kg_str_to_int(span, &integer))
        return sqlite3_bind_int64(handle, index, integer);
    char *text = scratch->data + scratch->length; /* not kept: it is read at once */
    memcpy(text, span.data, span.length);
    text[span.length] = '\0';
    return sqlite3_bind_double(handle, index, strtod(text, NULL));
}

static int bind_blob(sqlite3_stmt *handle, int index, struct kg_str span, struct kg_buf *scratch,
                     struct failure *failure)
{
    struct kg_json_cursor walk = kg_json_inside(span);
    struct kg_str key, value, other;
    bool escaped;
    if (!kg_json_next_member(&walk, &key, &escaped, &value) ||
        !kg_json_raw_is(key, escaped, BLOB_KEY) || value.data[0] != '"' ||
        kg_json_next_member(&walk, &key, &escaped, &other))
        return storage_value_refuse(failure, index,
                                    "is an object, but only {\"$blob\": \"base64\"} can be one");
    struct kg_str text = span_text(value, scratch);
    char *bytes = scratch->data + scratch->length;
    size_t length;
    if (!kg_base64_read(text, (unsigned char *)bytes, &length))
        return storage_value_refuse(failure, index,
                                    "has a $blob that is not base64 with its padding");
    scratch->length += length;
    return storage_value_bound(
        handle, sqlite3_bind_blob64(handle, index, bytes, length, SQLITE_STATIC), index, failure);
}

int value_bind(sqlite3_stmt *handle, int index, struct kg_str span, struct kg_buf *scratch,
               struct failure *failure)
{
    int code;
    switch (span.data[0]) {
    case '{':
        return bind_blob(handle, index, span, scratch, failure);
    case '[':
        return storage_value_refuse(failure, index, "is an array; give it as JSON text instead");
    case '"': {
        struct kg_str text = span_text(span, scratch);
        code =
            sqlite3_bind_text64(handle, index, text.data, text.length, SQLITE_STATIC, SQLITE_UTF8);
        break;
    }
    case 'n':
        code = sqlite3_bind_null(handle, index);
        break;
    case 't':
    case 'f':
        code = sqlite3_bind_int(handle, index, span.data[0] == 't');
        break;
    default:
        code = bind_number(handle, index, span, scratch);
    }
    return storage_value_bound(handle, code, index, failure);
}

/* -- SQLite to JSON ---------------------------------------------------------------------------- */

/* The fewest digits that read back as the same number; never to be taken for an integer. */
static void put_real(struct kg_buf *out, double value)
{
    char text[40];
    if (isinf(value)) {
        kg_buf_text(out, value < 0 ? "-9e999" : "9e999");
        return;
    }
    snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, sizeof(text), "%.17g", value);
    kg_buf_text(out, text);
    if (strpbrk(text, ".e") == NULL)
        kg_buf_text(out, ".0");
}

static void put_blob(struct kg_buf *out, const void *bytes, size_t length)
{
    kg_buf_text(out, "{\"" BLOB_KEY "\":\"");
    if (bytes != NULL)
        kg_base64_put(out, (struct kg_str){(const char *)bytes, length});
    kg_buf_text(out, "\"}");
}

static void storage_value_put_text(struct kg_buf *out, struct kg_str text)
{
    if (kg_utf8_valid(text) == text.length)
        kg_json_put_string(out, text);
    else
        put_blob(out, text.data, text.length);
}

bool value_write(struct kg_buf *out, sqlite3_stmt *handle, int column)
{
    switch (sqlite3_column_type(handle, column)) {
    case SQLITE_INTEGER:
        kg_buf_int(out, sqlite3_column_int64(handle, column));
        return true;
    case SQLITE_FLOAT:
        put_real(out, sqlite3_column_double(handle, column));
        return true;
    case SQLITE_TEXT: {
        const char *text = (const char *)sqlite3_column_text(handle, column);
        if (text == NULL)
            return false;
        storage_value_put_text(out,
                               (struct kg_str){text, (size_t)sqlite3_column_bytes(handle, column)});
        return true;
    }
    case SQLITE_BLOB: {
        const void *bytes = sqlite3_column_blob(handle, column); /* NULL also if it is empty */
        if (bytes == NULL && sqlite3_errcode(sqlite3_db_handle(handle)) == SQLITE_NOMEM)
            return false;
        put_blob(out, bytes, (size_t)sqlite3_column_bytes(handle, column));
        return true;
    }
    default:
        kg_buf_text(out, "null");
        return true;
    }
}
