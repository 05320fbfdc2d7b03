/*
 * JSON text to tree. The scanner judges the whole text first, so what is built here is valid: the
 * only thing left to refuse is a key given twice. Positions count from 1, columns in bytes.
 */
#include "base/json/json.h"

#include <stdio.h>

#define KEY_SHOWN_MAX 64 /* bytes of a key in a message */

struct reader {
    struct kg_json_cursor cursor;
    const char *line_start;
    uint32_t line;
    struct kg_builder *builder; /* owned */
};

static void reader_free(struct reader *reader)
{
    kg_builder_free(reader->builder);
}

static uint32_t column(const struct reader *reader)
{
    return (uint32_t)(reader->cursor.at - reader->line_start) + 1;
}

/* In valid JSON, lines end in white space only: a string has no raw line feed. */
static void skip_space(struct reader *reader)
{
    const char *start = reader->cursor.at;
    kg_json_skip_space(&reader->cursor);
    for (; start < reader->cursor.at; start++) {
        if (*start != '\n')
            continue;
        reader->line++;
        reader->line_start = start + 1;
    }
}

/* -- faults ------------------------------------------------------------------------------------ */

static int fail_at(struct kg_err *err, struct kg_str text, size_t offset, const char *what)
{
    uint32_t line = 1;
    size_t line_start = 0;
    for (size_t i = 0; i < offset; i++) {
        if (text.data[i] != '\n')
            continue;
        line++;
        line_start = i + 1;
    }
    return kg_fail(err, KG_E_PARSE, "%u:%zu: %s", line, offset - line_start + 1, what);
}

static int check(struct kg_str text, struct kg_err *err)
{
    if (text.length > UINT32_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "1:1: the text is larger than 4 GiB");
    size_t offset;
    enum kg_json_fault fault = kg_json_check(text, &offset);
    if (fault == KG_JSON_OK)
        return 0;
    if (fault != KG_JSON_SYNTAX)
        return fail_at(err, text, offset, kg_json_fault_text(fault));
    unsigned char byte = (unsigned char)text.data[offset];
    char what[32];
    snprintf(what, sizeof(what),
             byte > ' ' && byte < 0x7F ? "unexpected '%c'" : "unexpected 0x%02x", byte);
    return fail_at(err, text, offset, what);
}

static int fail_twice(struct kg_err *err, uint32_t line, uint32_t key_column, struct kg_str key)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    if (key.length > KEY_SHOWN_MAX) {
        key.length = KEY_SHOWN_MAX;
        key.length = kg_utf8_valid(key);
    }
    kg_json_put_string(&shown, key);
    return kg_fail(err, KG_E_PARSE, "%u:%u: the key %.*s is given twice", line, key_column,
                   KG_STR_ARG(kg_buf_view(&shown)));
}

/* -- building: the cursor is at the first byte of each piece ----------------------------------- */

static struct kg_str take_string(struct reader *reader)
{
    struct kg_arena *arena = kg_builder_arena(reader->builder);
    struct kg_str raw = KG_STR_NULL;
    bool escaped = false;
    kg_json_skip_string(&reader->cursor, &raw, &escaped);
    if (!escaped)
        return kg_arena_str(arena, raw);
    char *text = kg_arena_alloc(arena, raw.length);
    return (struct kg_str){text, kg_json_unescape(raw, text)};
}

/* A string is a key exactly when a colon follows. */
static int read_string(struct reader *reader, struct kg_err *err)
{
    struct kg_node node = {.type = KG_STRING, .line = reader->line, .column = column(reader)};
    node.text = take_string(reader);
    skip_space(reader);
    if (reader->cursor.at == reader->cursor.end || *reader->cursor.at != ':')
        kg_builder_value(reader->builder, node);
    else if (!kg_builder_key(reader->builder, node.text, node.line, node.column))
        return fail_twice(err, node.line, node.column, node.text);
    return 0;
}

static void read_scalar(struct reader *reader)
{
    struct kg_node node = {.line = reader->line, .column = column(reader)};
    struct kg_str span = KG_STR_NULL;
    kg_json_skip_value(&reader->cursor, &span);
    switch (span.data[0]) {
    case 'n':
        node.type = KG_NULL;
        break;
    case 't':
    case 'f':
        node.type = KG_BOOL;
        node.boolean = span.data[0] == 't';
        break;
    default:
        node.type = KG_NUMBER;
        node.text = kg_arena_str(kg_builder_arena(reader->builder), span);
    }
    kg_builder_value(reader->builder, node);
}

static int read_piece(struct reader *reader, struct kg_err *err)
{
    char c = *reader->cursor.at;
    switch (c) {
    case '"':
        return read_string(reader, err);
    case '{':
    case '[':
        kg_builder_open(reader->builder, c == '{' ? KG_OBJECT : KG_ARRAY, reader->line,
                        column(reader));
        break;
    case '}':
    case ']':
        kg_builder_close(reader->builder);
        break;
    case ',':
    case ':':
        break;
    default:
        read_scalar(reader);
        return 0;
    }
    reader->cursor.at++;
    return 0;
}

struct kg_doc *kg_json_read(struct kg_str text, struct kg_err *err)
{
    if (check(text, err) < 0)
        return NULL;
    kg_auto(reader_free) struct reader reader = {
        .cursor = {text.data, text.data + text.length},
        .line_start = text.data,
        .line = 1,
        .builder = kg_builder_new(),
    };
    for (skip_space(&reader); reader.cursor.at < reader.cursor.end; skip_space(&reader))
        if (read_piece(&reader, err) < 0)
            return NULL;
    return kg_builder_finish(reader.builder);
}
