/*
 * JSON text to tree, in one pass over a copy of the text that lies in the tree's own arena: strings
 * and numbers are pieces of it. NULs behind the copy end whatever is being read, so no step looks
 * for the end. Whatever is wrong, the scanner then says what and where. Positions count from 1,
 * columns in bytes.
 */
#include "base/json/internal.h"

#include <stdio.h>

#define KEY_SHOWN_MAX 64 /* bytes of a key in a message */
#define TREE_BYTES    5  /* of an arena for each of the text: enough for most */
#define PADDING       16 /* NULs: so many bytes are looked at together */
#define SMALL_DIGITS  18 /* of a number that is within int64 for sure */

struct reader {
    const char *end; /* of the text, where the padding begins */
    const char *line_start;
    uint32_t line;
    struct kg_builder builder;
};

static inline uint32_t column(const struct reader *reader, const char *at)
{
    return (uint32_t)(at - reader->line_start) + 1;
}

/* Lines end in white space only: a string has no raw line feed. */
static inline const char *base_json_read_skip_space(struct reader *reader, const char *at)
{
    for (; (unsigned char)*at <= ' '; at++) {
        if (*at == ' ')
            continue;
        if (*at == '\n') {
            reader->line++;
            reader->line_start = at + 1;
        } else if (*at != '\t' && *at != '\r') {
            break;
        }
    }
    return at;
}

/* -- faults ------------------------------------------------------------------------------------ */

static int base_json_read_fail_at(struct kg_err *err, struct kg_str text, size_t offset,
                                  const char *what)
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

static int base_json_read_check(struct kg_str text, struct kg_err *err)
{
    size_t offset;
    enum kg_json_fault fault = kg_json_check(text, &offset);
    if (fault == KG_JSON_OK)
        return 0;
    if (fault != KG_JSON_SYNTAX)
        return base_json_read_fail_at(err, text, offset, kg_json_fault_text(fault));
    unsigned char byte = (unsigned char)text.data[offset];
    char what[32];
    snprintf(what, sizeof(what),
             byte > ' ' && byte < 0x7F ? "unexpected '%c'" : "unexpected 0x%02x", byte);
    return base_json_read_fail_at(err, text, offset, what);
}

static int fail_twice(const struct reader *reader, struct kg_err *err)
{
    const struct kg_member *member = reader->builder.next;
    struct kg_str key = member->key;
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    if (key.length > KEY_SHOWN_MAX) {
        key.length = KEY_SHOWN_MAX;
        key.length = kg_utf8_valid(key);
    }
    kg_json_put_string(&shown, key);
    return kg_fail(err, KG_E_PARSE, "%u:%u: the key %.*s is given twice", member->key_line,
                   member->key_column, KG_STR_ARG(kg_buf_view(&shown)));
}

/* -- pieces: each returns the byte behind it, or NULL if something is wrong -------------------- */

/* The first byte that is not a plain one of ASCII. */
static inline const char *plain_end(const char *at)
{
#ifdef __SSE2__
    for (;; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        /* as signed numbers, those that are not ASCII are below the control characters */
        __m128i found = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20));
        found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
        found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
        unsigned marks = (unsigned)_mm_movemask_epi8(found);
        if (marks != 0)
            return at + __builtin_ctz(marks);
    }
#else
    for (;; at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof(word));
        word = le64toh(word);
        uint64_t marks = kg_json_marks(word) | (word & KG_JSON_EACH(0x80));
        if (marks != 0)
            return at + __builtin_ctzll(marks) / 8;
    }
#endif
}

static const char *take_any(struct reader *reader, const char *at, struct kg_str *ret_text)
{
    struct kg_json_cursor cursor = {at, reader->end};
    bool escaped;
    if (kg_json_skip_string(&cursor, ret_text, &escaped) != KG_JSON_OK)
        return NULL;
    if (escaped) {
        char *text = kg_arena_alloc(reader->builder.arena, ret_text->length);
        *ret_text = (struct kg_str){text, kg_json_unescape(*ret_text, text)};
    }
    return cursor.at;
}

/* At the opening quote. Most strings have nothing but plain ASCII in them. */
static inline const char *take_string(struct reader *reader, const char *at,
                                      struct kg_str *ret_text)
{
    const char *end = plain_end(at + 1);
    if (*end != '"')
        return take_any(reader, at, ret_text);
    *ret_text = (struct kg_str){at + 1, (size_t)(end - at - 1)};
    return end + 1;
}

/* One digit or more. */
static inline const char *base_json_read_skip_digits(const char *at)
{
    const char *start = at;
    while (kg_is_digit(*at))
        at++;
    return at > start ? at : NULL;
}

/* What may stand behind an integer: ".5", "e+3". */
static const char *skip_fraction(const char *at)
{
    if (*at == '.')
        at = base_json_read_skip_digits(at + 1);
    if (at != NULL && (*at == 'e' || *at == 'E')) {
        at++;
        at = base_json_read_skip_digits(at + (*at == '+' || *at == '-'));
    }
    return at;
}

/* Most numbers are small integers, whose value comes with their digits. */
static const char *base_json_read_take_number(const char *at, struct kg_node *node)
{
    const char *start = at;
    bool negative = *at == '-';
    at += negative;
    const char *digits = at;
    uint64_t value = 0;
    for (; kg_is_digit(*at); at++)
        value = value * 10 + (unsigned)(*at - '0');
    if (at == digits || (*digits == '0' && at - digits > 1))
        return NULL;
    if (*at == '.' || *at == 'e' || *at == 'E') {
        at = skip_fraction(at);
    } else if (at - digits <= SMALL_DIGITS) {
        node->is_small = true;
        node->small = (int64_t)(negative ? -value : value);
    }
    node->text = (struct kg_str){start, at ? (size_t)(at - start) : 0};
    return at;
}

static const char *base_json_read_take_word(const char *at, struct kg_node *node)
{
    if (memcmp(at, "null", 4) == 0)
        return at + 4;
    node->type = KG_BOOL;
    node->boolean = *at == 't';
    return memcmp(at, "true", 4) == 0 ? at + 4 : memcmp(at, "false", 5) == 0 ? at + 5 : NULL;
}

static inline const char *read_scalar(struct reader *reader, const char *at)
{
    struct kg_node *node = &reader->builder.next->value;
    *node = (struct kg_node){.line = reader->line, .column = column(reader, at)};
    if (*at == '"') {
        node->type = KG_STRING;
        at = take_string(reader, at, &node->text);
    } else if (*at >= 'a') {
        at = base_json_read_take_word(at, node);
    } else {
        node->type = KG_NUMBER;
        at = base_json_read_take_number(at, node);
    }
    kg_builder_keep_next(&reader->builder);
    return at;
}

/* Goes on to the value. */
static inline const char *base_json_read_key(struct reader *reader, const char *at)
{
    uint32_t line = reader->line, start = column(reader, at);
    struct kg_str key;
    at = take_string(reader, at, &key);
    if (at == NULL || !kg_builder_next_key(&reader->builder, key, line, start))
        return NULL;
    at = base_json_read_skip_space(reader, at);
    return *at == ':' ? base_json_read_skip_space(reader, at + 1) : NULL;
}

/* -- values: the depth is bounded, so they may call each other --------------------------------- */

static const char *base_json_read_object(struct reader *reader, const char *at);
static const char *base_json_read_array(struct reader *reader, const char *at);

static inline const char *base_json_read_value(struct reader *reader, const char *at)
{
    return *at == '{'   ? base_json_read_object(reader, at)
           : *at == '[' ? base_json_read_array(reader, at)
                        : read_scalar(reader, at);
}

/* At a bracket; goes on to what comes first behind it. */
static const char *read_open(struct reader *reader, const char *at, enum kg_type type)
{
    if (reader->builder.depth == KG_JSON_DEPTH_MAX)
        return NULL;
    kg_builder_open(&reader->builder, type, reader->line, column(reader, at));
    return base_json_read_skip_space(reader, at + 1);
}

static const char *read_close(struct reader *reader, const char *at, char bracket)
{
    if (*at != bracket)
        return NULL;
    kg_builder_close(&reader->builder);
    return at + 1;
}

static const char *base_json_read_object(struct reader *reader, const char *at)
{
    at = read_open(reader, at, KG_OBJECT);
    if (at == NULL || *at == '}')
        return at ? read_close(reader, at, '}') : NULL;
    for (;;) {
        if (*at != '"' || (at = base_json_read_key(reader, at)) == NULL ||
            (at = base_json_read_value(reader, at)) == NULL)
            return NULL;
        at = base_json_read_skip_space(reader, at);
        if (*at != ',')
            return read_close(reader, at, '}');
        at = base_json_read_skip_space(reader, at + 1);
    }
}

static const char *base_json_read_array(struct reader *reader, const char *at)
{
    at = read_open(reader, at, KG_ARRAY);
    if (at == NULL || *at == ']')
        return at ? read_close(reader, at, ']') : NULL;
    for (;;) {
        if ((at = base_json_read_value(reader, at)) == NULL)
            return NULL;
        at = base_json_read_skip_space(reader, at);
        if (*at != ',')
            return read_close(reader, at, ']');
        at = base_json_read_skip_space(reader, at + 1);
    }
}

static bool base_json_read_all(struct reader *reader, const char *at)
{
    at = base_json_read_value(reader, base_json_read_skip_space(reader, at));
    return at != NULL && base_json_read_skip_space(reader, at) == reader->end;
}

struct kg_doc *kg_json_read(struct kg_str text, struct kg_err *err)
{
    struct reader reader;
    if (text.length > UINT32_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "1:1: the text is larger than 4 GiB"), NULL;
    kg_builder_begin(&reader.builder, text.length * TREE_BYTES + PADDING);
    const char *copy = kg_arena_padded(reader.builder.arena, text, PADDING);
    reader.end = copy + text.length;
    reader.line_start = copy;
    reader.line = 1;
    struct kg_doc *doc = NULL;
    if (base_json_read_all(&reader, copy))
        doc = kg_builder_finish(&reader.builder);
    else if (base_json_read_check(text, err) == 0)
        fail_twice(&reader, err);
    kg_builder_end(&reader.builder);
    return doc;
}

struct kg_doc *kg_doc_copy(const struct kg_node *node)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_json_put_node(&text, node);
    return kg_json_read(kg_buf_view(&text), NULL);
}
