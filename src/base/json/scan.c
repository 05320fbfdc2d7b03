/*
 * The scanner validates hostile bytes in one pass: no recursion, no allocation, no read past the
 * end. What it accepts is RFC 8259 in strict UTF-8, and every other reader of JSON here trusts it.
 */
#include "base/json/internal.h"

/* Kept out of the hot loop, so that the rest of it fits together. */
#define RARE __attribute__((noinline))

const char *kg_json_fault_text(enum kg_json_fault fault)
{
    static const char *const texts[] = {
        [KG_JSON_OK] = "nothing is wrong",
        [KG_JSON_SYNTAX] = "this byte is not allowed here",
        [KG_JSON_TRUNCATED] = "the text ends too early",
        [KG_JSON_UTF8] = "this is not UTF-8",
        [KG_JSON_SURROGATE] = "an escaped surrogate lacks its other half",
        [KG_JSON_CONTROL] = "a control character in a string must be escaped",
        [KG_JSON_DEPTH] = "nested too deep",
    };
    return (size_t)fault < KG_COUNT(texts) ? texts[fault] : "unknown fault";
}

/* -- pieces: each leaves the cursor behind it, or at the wrong byte ---------------------------- */

/* What to say of the byte at the cursor when another was needed there. */
static inline enum kg_json_fault scan_unexpected(const struct kg_json_cursor *cursor)
{
    return cursor->at == cursor->end ? KG_JSON_TRUNCATED : KG_JSON_SYNTAX;
}

static inline enum kg_json_fault skip_byte(struct kg_json_cursor *cursor, char wanted)
{
    if (cursor->at == cursor->end || *cursor->at != wanted)
        return scan_unexpected(cursor);
    cursor->at++;
    return KG_JSON_OK;
}

/* At "\uXXXX". */
static enum kg_json_fault skip_unicode(struct kg_json_cursor *cursor, unsigned *ret_unit)
{
    enum kg_json_fault fault = skip_byte(cursor, '\\');
    if (fault == KG_JSON_OK)
        fault = skip_byte(cursor, 'u');
    unsigned unit = 0;
    for (int i = 0; i < 4 && fault == KG_JSON_OK; i++) {
        int digit = cursor->at == cursor->end ? -1 : kg_hex_digit(*cursor->at);
        if (digit < 0)
            return scan_unexpected(cursor);
        unit = unit << 4 | (unsigned)digit;
        cursor->at++;
    }
    if (fault == KG_JSON_OK)
        *ret_unit = unit;
    return fault;
}

static bool is_high_surrogate(unsigned unit)
{
    return unit >= 0xD800 && unit <= 0xDBFF;
}

static bool is_low_surrogate(unsigned unit)
{
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

/* At "\uXXXX", of which two make one character past U+FFFF. */
static RARE enum kg_json_fault skip_unicode_escape(struct kg_json_cursor *cursor)
{
    const char *first = cursor->at;
    unsigned unit;
    enum kg_json_fault fault = skip_unicode(cursor, &unit);
    if (fault != KG_JSON_OK)
        return fault;
    if (is_high_surrogate(unit)) {
        fault = skip_unicode(cursor, &unit);
        if (fault == KG_JSON_TRUNCATED || (fault == KG_JSON_OK && is_low_surrogate(unit)))
            return fault;
    } else if (!is_low_surrogate(unit)) {
        return KG_JSON_OK;
    }
    cursor->at = first;
    return KG_JSON_SURROGATE;
}

/* What an escaped character stands for; 0: no such escape. */
static const char escapes[256] = {['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
                                  ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t'};

/*
 * At a backslash. The rare cases, here and below, work on a copy, so that the caller's cursor can
 * stay in registers; this is worth a fifth of the speed.
 */
static inline enum kg_json_fault skip_escape(struct kg_json_cursor *cursor)
{
    if (cursor->end - cursor->at >= 2 && escapes[(unsigned char)cursor->at[1]] != 0) {
        cursor->at += 2;
        return KG_JSON_OK;
    }
    struct kg_json_cursor copy = *cursor;
    enum kg_json_fault fault = skip_unicode_escape(&copy);
    cursor->at = copy.at;
    return fault;
}

/* What is wrong in [start, cursor->at) of a string, or else what was found at its end. */
static RARE enum kg_json_fault check_utf8(struct kg_json_cursor *cursor, const char *start,
                                          enum kg_json_fault at_end)
{
    size_t length = (size_t)(cursor->at - start);
    size_t valid = kg_utf8_valid((struct kg_str){start, length});
    if (valid == length)
        return at_end;
    cursor->at = start + valid;
    return KG_JSON_UTF8;
}

/* Behind the opening quote; leaves the cursor at the closing one. */
static inline enum kg_json_fault skip_inside(struct kg_json_cursor *cursor, bool *ret_escaped)
{
    const char *start = cursor->at;
    bool escaped = false;
    uint64_t seen = 0;
    enum kg_json_fault fault = KG_JSON_OK;
    while (fault == KG_JSON_OK) {
        cursor->at = kg_json_plain_end(cursor->at, cursor->end, &seen);
        if (cursor->at == cursor->end) {
            fault = KG_JSON_TRUNCATED;
        } else if (*cursor->at == '"') {
            break;
        } else if (*cursor->at == '\\') {
            escaped = true;
            fault = skip_escape(cursor);
        } else {
            fault = KG_JSON_CONTROL;
        }
    }
    if (kg_json_seen_wide(seen)) {
        struct kg_json_cursor copy = *cursor;
        fault = check_utf8(&copy, start, fault);
        cursor->at = copy.at;
    }
    if (fault == KG_JSON_OK)
        *ret_escaped = escaped;
    return fault;
}

static inline enum kg_json_fault scan_skip_string(struct kg_json_cursor *cursor)
{
    bool escaped;
    enum kg_json_fault fault = skip_byte(cursor, '"');
    if (fault == KG_JSON_OK)
        fault = skip_inside(cursor, &escaped);
    if (fault == KG_JSON_OK)
        cursor->at++;
    return fault;
}

/* One digit or more. */
static inline enum kg_json_fault scan_skip_digits(struct kg_json_cursor *cursor)
{
    if (cursor->at == cursor->end || !kg_is_digit(*cursor->at))
        return scan_unexpected(cursor);
    do
        cursor->at++;
    while (cursor->at < cursor->end && kg_is_digit(*cursor->at));
    return KG_JSON_OK;
}

static inline bool at_byte(const struct kg_json_cursor *cursor, char c)
{
    return cursor->at != cursor->end && *cursor->at == c;
}

static inline enum kg_json_fault skip_number(struct kg_json_cursor *cursor)
{
    enum kg_json_fault fault = KG_JSON_OK;
    if (at_byte(cursor, '-'))
        cursor->at++;
    if (at_byte(cursor, '0'))
        cursor->at++;
    else
        fault = scan_skip_digits(cursor);
    if (fault == KG_JSON_OK && at_byte(cursor, '.')) {
        cursor->at++;
        fault = scan_skip_digits(cursor);
    }
    if (fault == KG_JSON_OK && (at_byte(cursor, 'e') || at_byte(cursor, 'E'))) {
        cursor->at++;
        if (at_byte(cursor, '+') || at_byte(cursor, '-'))
            cursor->at++;
        fault = scan_skip_digits(cursor);
    }
    return fault;
}

static inline enum kg_json_fault skip_word(struct kg_json_cursor *cursor, const char *word)
{
    enum kg_json_fault fault = KG_JSON_OK;
    while (*word != '\0' && fault == KG_JSON_OK)
        fault = skip_byte(cursor, *word++);
    return fault;
}

static inline enum kg_json_fault skip_scalar(struct kg_json_cursor *cursor)
{
    switch (*cursor->at) {
    case '"':
        return scan_skip_string(cursor);
    case 't':
        return skip_word(cursor, "true");
    case 'f':
        return skip_word(cursor, "false");
    case 'n':
        return skip_word(cursor, "null");
    default:
        return skip_number(cursor);
    }
}

/* -- values ------------------------------------------------------------------------------------ */

/* A walk through a value: one bit for each open container tells whether it is an object. */
struct walk {
    struct kg_json_cursor cursor;
    unsigned depth;
    uint64_t objects[KG_JSON_DEPTH_MAX / 64];
};

static inline bool in_object(const struct walk *walk)
{
    unsigned level = walk->depth - 1;
    return walk->objects[level / 64] >> level % 64 & 1;
}

static inline void scan_push(struct walk *walk, bool object)
{
    unsigned level = walk->depth++;
    uint64_t bit = (uint64_t)1 << level % 64;
    uint64_t *bits = &walk->objects[level / 64];
    *bits = object ? *bits | bit : *bits & ~bit;
}

/* At a key; leaves the cursor at the value that follows it. */
static inline enum kg_json_fault skip_key(struct kg_json_cursor *cursor)
{
    enum kg_json_fault fault = scan_skip_string(cursor);
    if (fault != KG_JSON_OK)
        return fault;
    kg_json_skip_space(cursor);
    fault = skip_byte(cursor, ':');
    if (fault == KG_JSON_OK)
        kg_json_skip_space(cursor);
    return fault;
}

/* At '{' or '['. *ret_ended tells whether a value ended (an empty container) or is to come. */
static inline enum kg_json_fault scan_open_container(struct walk *walk, bool *ret_ended)
{
    struct kg_json_cursor *cursor = &walk->cursor;
    bool object = *cursor->at == '{';
    if (walk->depth == KG_JSON_DEPTH_MAX)
        return KG_JSON_DEPTH;
    cursor->at++;
    kg_json_skip_space(cursor);
    if (at_byte(cursor, object ? '}' : ']')) {
        cursor->at++;
        *ret_ended = true;
        return KG_JSON_OK;
    }
    scan_push(walk, object);
    *ret_ended = false;
    return object ? skip_key(cursor) : KG_JSON_OK;
}

/* Behind a value: closes what ends there, up to the next value or the end of all. */
static inline enum kg_json_fault close_containers(struct walk *walk)
{
    struct kg_json_cursor *cursor = &walk->cursor;
    while (walk->depth > 0) {
        bool object = in_object(walk);
        kg_json_skip_space(cursor);
        if (at_byte(cursor, ',')) {
            cursor->at++;
            kg_json_skip_space(cursor);
            return object ? skip_key(cursor) : KG_JSON_OK;
        }
        enum kg_json_fault fault = skip_byte(cursor, object ? '}' : ']');
        if (fault != KG_JSON_OK)
            return fault;
        walk->depth--;
    }
    return KG_JSON_OK;
}

/* -- for callers ------------------------------------------------------------------------------- */

enum kg_json_fault kg_json_skip_string(struct kg_json_cursor *cursor, struct kg_str *ret_raw,
                                       bool *ret_escaped)
{
    enum kg_json_fault fault = skip_byte(cursor, '"');
    const char *start = cursor->at;
    if (fault == KG_JSON_OK)
        fault = skip_inside(cursor, ret_escaped);
    if (fault != KG_JSON_OK)
        return fault;
    *ret_raw = (struct kg_str){start, (size_t)(cursor->at - start)};
    cursor->at++;
    return KG_JSON_OK;
}

/* At a value: the whole of it, or the opening of a container. */
static inline enum kg_json_fault scan_step(struct walk *walk)
{
    struct kg_json_cursor *cursor = &walk->cursor;
    bool ended = true;
    enum kg_json_fault fault;
    if (cursor->at == cursor->end)
        return KG_JSON_TRUNCATED;
    if (*cursor->at == '{' || *cursor->at == '[')
        fault = scan_open_container(walk, &ended);
    else
        fault = skip_scalar(cursor);
    if (fault == KG_JSON_OK && ended)
        fault = close_containers(walk);
    return fault;
}

enum kg_json_fault kg_json_skip_value(struct kg_json_cursor *cursor, struct kg_str *ret_span)
{
    struct walk walk = {.cursor = *cursor};
    enum kg_json_fault fault;
    do
        fault = scan_step(&walk);
    while (fault == KG_JSON_OK && walk.depth > 0);
    const char *start = cursor->at;
    cursor->at = walk.cursor.at;
    if (fault == KG_JSON_OK)
        *ret_span = (struct kg_str){start, (size_t)(cursor->at - start)};
    return fault;
}

static struct kg_json_cursor cursor_of(struct kg_str text)
{
    return (struct kg_json_cursor){text.data, text.length ? text.data + text.length : text.data};
}

enum kg_json_fault kg_json_check(struct kg_str text, size_t *ret_offset)
{
    struct kg_json_cursor cursor = cursor_of(text);
    struct kg_str span;
    kg_json_skip_space(&cursor);
    enum kg_json_fault fault = kg_json_skip_value(&cursor, &span);
    if (fault == KG_JSON_OK) {
        kg_json_skip_space(&cursor);
        if (cursor.at != cursor.end)
            fault = KG_JSON_SYNTAX;
    }
    if (fault != KG_JSON_OK && ret_offset != NULL)
        *ret_offset = (size_t)(cursor.at - text.data);
    return fault;
}

/* -- decoding: only of strings that passed above ----------------------------------------------- */

static size_t encode_utf8(unsigned code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {[2] = 0xC0, [3] = 0xE0, [4] = 0xF0};
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)(leads[length] | code);
    return length;
}

/* At the backslash of a valid escape; returns how many bytes it stands for. */
static size_t decode_escape(struct kg_json_cursor *cursor, char out[4])
{
    char c = cursor->at[1];
    if (c != 'u') {
        out[0] = escapes[(unsigned char)c];
        cursor->at += 2;
        return 1;
    }
    unsigned unit = 0;
    unsigned low = 0;
    skip_unicode(cursor, &unit);
    if (!is_high_surrogate(unit))
        return encode_utf8(unit, out);
    skip_unicode(cursor, &low);
    return encode_utf8(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00), out);
}

size_t kg_json_unescape(struct kg_str raw, char *out)
{
    struct kg_json_cursor cursor = cursor_of(raw);
    char *to = out;
    while (cursor.at < cursor.end) {
        size_t left = (size_t)(cursor.end - cursor.at);
        const char *escape = memchr(cursor.at, '\\', left);
        size_t run = escape ? (size_t)(escape - cursor.at) : left;
        memcpy(to, cursor.at, run);
        to += run;
        cursor.at += run;
        if (escape == NULL)
            break;
        char decoded[4];
        size_t length = decode_escape(&cursor, decoded);
        memcpy(to, decoded, length);
        to += length;
    }
    return (size_t)(to - out);
}

bool kg_json_raw_is(struct kg_str raw, bool escaped, const char *text)
{
    if (!escaped)
        return kg_str_is(raw, text);
    struct kg_json_cursor cursor = cursor_of(raw);
    struct kg_str rest = kg_str(text);
    while (cursor.at < cursor.end) {
        char decoded[4] = {*cursor.at};
        size_t length = 1;
        if (*cursor.at == '\\')
            length = decode_escape(&cursor, decoded);
        else
            cursor.at++;
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): what has a length has data */
        if (rest.length < length || memcmp(rest.data, decoded, length) != 0)
            return false;
        rest.data += length;
        rest.length -= length;
    }
    return rest.length == 0;
}

bool kg_json_member(struct kg_str text, const char *key, struct kg_str *ret_value)
{
    struct kg_json_cursor cursor = cursor_of(text);
    kg_json_skip_space(&cursor);
    char before = '{';
    while (skip_byte(&cursor, before) == KG_JSON_OK) {
        struct kg_str raw, value;
        bool escaped;
        kg_json_skip_space(&cursor);
        if (kg_json_skip_string(&cursor, &raw, &escaped) != KG_JSON_OK)
            return false;
        kg_json_skip_space(&cursor);
        if (skip_byte(&cursor, ':') != KG_JSON_OK)
            return false;
        kg_json_skip_space(&cursor);
        if (kg_json_skip_value(&cursor, &value) != KG_JSON_OK)
            return false;
        if (kg_json_raw_is(raw, escaped, key)) {
            *ret_value = value;
            return true;
        }
        kg_json_skip_space(&cursor);
        before = ',';
    }
    return false;
}

struct kg_json_cursor kg_json_inside(struct kg_str container)
{
    return (struct kg_json_cursor){container.data + 1, container.data + container.length};
}

/* At the next key or item; false at the closing bracket. */
static bool next(struct kg_json_cursor *cursor)
{
    kg_json_skip_space(cursor);
    if (cursor->at == cursor->end || *cursor->at == ']' || *cursor->at == '}')
        return false;
    if (*cursor->at == ',') {
        cursor->at++;
        kg_json_skip_space(cursor);
    }
    return true;
}

bool kg_json_next_item(struct kg_json_cursor *cursor, struct kg_str *ret_item)
{
    return next(cursor) && kg_json_skip_value(cursor, ret_item) == KG_JSON_OK;
}

bool kg_json_next_member(struct kg_json_cursor *cursor, struct kg_str *ret_raw_key,
                         bool *ret_escaped, struct kg_str *ret_value)
{
    if (!next(cursor) || kg_json_skip_string(cursor, ret_raw_key, ret_escaped) != KG_JSON_OK)
        return false;
    kg_json_skip_space(cursor);
    if (skip_byte(cursor, ':') != KG_JSON_OK)
        return false;
    kg_json_skip_space(cursor);
    return kg_json_skip_value(cursor, ret_value) == KG_JSON_OK;
}
