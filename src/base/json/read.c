/*
 * JSON text to tree, in one pass over a copy of the text that lies in the tree's own arena: strings
 * and numbers are pieces of it. Whatever is wrong, the scanner then says what and where. Positions
 * count from 1, columns in bytes.
 */
#include "base/json/internal.h"

#include <stdio.h>

#define KEY_SHOWN_MAX 64 /* bytes of a key in a message */
#define TREE_BYTES    5  /* of an arena for each of the text: enough for most */

struct reader {
    struct kg_json_cursor cursor;
    const char *line_start;
    uint32_t line;
    struct kg_builder builder;
};

static uint32_t column(const struct reader *reader)
{
    return (uint32_t)(reader->cursor.at - reader->line_start) + 1;
}

/* Lines end in white space only: a string has no raw line feed. Returns the byte behind it, or 0.
 */
static inline char skip_space(struct reader *reader)
{
    const char *at = reader->cursor.at;
    for (; at < reader->cursor.end && (unsigned char)*at <= ' '; at++) {
        if (*at == '\n') {
            reader->line++;
            reader->line_start = at + 1;
        } else if (*at != ' ' && *at != '\t' && *at != '\r') {
            break;
        }
    }
    reader->cursor.at = at;
    return at < reader->cursor.end ? *at : '\0';
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

static int fail_twice(const struct reader *reader, struct kg_err *err)
{
    const struct kg_builder *builder = &reader->builder;
    struct kg_str key = builder->key;
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    if (key.length > KEY_SHOWN_MAX) {
        key.length = KEY_SHOWN_MAX;
        key.length = kg_utf8_valid(key);
    }
    kg_json_put_string(&shown, key);
    return kg_fail(err, KG_E_PARSE, "%u:%u: the key %.*s is given twice", builder->key_line,
                   builder->key_column, KG_STR_ARG(kg_buf_view(&shown)));
}

/* -- pieces: the cursor is at the first byte; false if there is something wrong ---------------- */

/* Most strings have nothing but plain ASCII in them. */
static inline bool take_plain(struct reader *reader, struct kg_str *ret_text)
{
    const char *start = reader->cursor.at + 1;
    uint64_t seen = 0;
    const char *end = kg_json_plain_end(start, reader->cursor.end, &seen);
    if (end == reader->cursor.end || *end != '"' || kg_json_seen_wide(seen))
        return false;
    *ret_text = (struct kg_str){start, (size_t)(end - start)};
    reader->cursor.at = end + 1;
    return true;
}

static bool take_any(struct reader *reader, struct kg_str *ret_text)
{
    bool escaped;
    if (kg_json_skip_string(&reader->cursor, ret_text, &escaped) != KG_JSON_OK)
        return false;
    if (escaped) {
        char *text = kg_arena_alloc(reader->builder.arena, ret_text->length);
        *ret_text = (struct kg_str){text, kg_json_unescape(*ret_text, text)};
    }
    return true;
}

static inline bool take_string(struct reader *reader, struct kg_str *ret_text)
{
    return take_plain(reader, ret_text) || take_any(reader, ret_text);
}

/* Leaves the cursor at the value. */
static bool read_key(struct reader *reader)
{
    uint32_t line = reader->line, start = column(reader);
    struct kg_str key;
    if (!take_string(reader, &key) || !kg_builder_key(&reader->builder, key, line, start) ||
        skip_space(reader) != ':')
        return false;
    reader->cursor.at++;
    skip_space(reader);
    return true;
}

static bool read_scalar(struct reader *reader, char first)
{
    struct kg_node node = {.line = reader->line, .column = column(reader)};
    const char *start = reader->cursor.at;
    if (first == '"') {
        node.type = KG_STRING;
        if (!take_string(reader, &node.text))
            return false;
    } else {
        if (kg_json_skip_scalar(&reader->cursor) != KG_JSON_OK)
            return false;
        node.type = first == 'n' ? KG_NULL : first == 't' || first == 'f' ? KG_BOOL : KG_NUMBER;
        node.boolean = first == 't';
        if (node.type == KG_NUMBER)
            node.text = (struct kg_str){start, (size_t)(reader->cursor.at - start)};
    }
    kg_builder_value(&reader->builder, node);
    return true;
}

static void read_close(struct reader *reader)
{
    kg_builder_close(&reader->builder);
    reader->cursor.at++;
}

/* -- the walk ---------------------------------------------------------------------------------- */

/* Behind a value: closes what ends there, up to the next value or the end of all. */
static bool read_on(struct reader *reader)
{
    struct kg_builder *builder = &reader->builder;
    char next = skip_space(reader);
    while (builder->depth > 0) {
        bool object = builder->frames[builder->depth - 1].type == KG_OBJECT;
        if (next == ',') {
            reader->cursor.at++;
            next = skip_space(reader);
            return !object || (next == '"' && read_key(reader));
        }
        if (next != (object ? '}' : ']'))
            return false;
        read_close(reader);
        next = skip_space(reader);
    }
    return reader->cursor.at == reader->cursor.end;
}

/* At a bracket; goes on to the first value in it. */
static bool read_open(struct reader *reader, char bracket)
{
    bool object = bracket == '{';
    if (reader->builder.depth == KG_JSON_DEPTH_MAX)
        return false;
    kg_builder_open(&reader->builder, object ? KG_OBJECT : KG_ARRAY, reader->line, column(reader));
    reader->cursor.at++;
    char next = skip_space(reader);
    if (next == (object ? '}' : ']')) {
        read_close(reader);
        return read_on(reader);
    }
    return !object || (next == '"' && read_key(reader));
}

static bool read_all(struct reader *reader)
{
    skip_space(reader);
    do {
        if (reader->cursor.at == reader->cursor.end)
            return false;
        char first = *reader->cursor.at;
        if (first == '{' || first == '[' ? !read_open(reader, first)
                                         : !read_scalar(reader, first) || !read_on(reader))
            return false;
    } while (reader->builder.depth > 0);
    return true;
}

struct kg_doc *kg_json_read(struct kg_str text, struct kg_err *err)
{
    struct reader reader;
    if (text.length > UINT32_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "1:1: the text is larger than 4 GiB"), NULL;
    kg_builder_begin(&reader.builder, text.length * TREE_BYTES);
    struct kg_str copy = kg_arena_str(reader.builder.arena, text);
    reader.cursor = (struct kg_json_cursor){copy.data, copy.data + copy.length};
    reader.line_start = copy.data;
    reader.line = 1;
    struct kg_doc *doc = NULL;
    if (read_all(&reader))
        doc = kg_builder_finish(&reader.builder);
    else if (check(text, err) == 0)
        fail_twice(&reader, err);
    kg_builder_end(&reader.builder);
    return doc;
}
