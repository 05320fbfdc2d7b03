/*
 * Text of a plugin stands between <plugin:NAME> and </plugin:NAME>, which kaged writes. Within them
 * the plugin may use its own, in pairs; those of others nobody but kaged writes. So in all else
 * that comes from plugins a `<` becomes `&lt;` where it could begin one: before "plugin", in
 * letters of any size or style, with slashes, white space, controls or invisible characters before
 * or between. The wide forms of `<` (U+FF1C, U+FE64) are held to be one as well; letters of other
 * scripts that only look alike are not. All else stays as it is, `&lt;` too: the text is for a
 * model to read, not for a parser to undo.
 */
#include "session/internal.h"

#include <stdlib.h>

static bool is_less_than(uint32_t c)
{
    return c == '<' || c == 0xFF1C || c == 0xFE64;
}

/* Characters that a reader does not see. */
static bool is_invisible(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0, 0x1F},        {0x7F, 0x9F},       {0xAD, 0xAD},       {0x34F, 0x34F},
        {0x61C, 0x61C},   {0x115F, 0x1160},   {0x17B4, 0x17B5},   {0x180B, 0x180F},
        {0x200B, 0x200F}, {0x2028, 0x202E},   {0x2060, 0x206F},   {0x2800, 0x2800},
        {0x3164, 0x3164}, {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},
        {0xFFF0, 0xFFFB}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
    };
    for (size_t i = 0; i < KG_COUNT(ranges); i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

static bool wrap_is_space(uint32_t c)
{
    return c == ' ' || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

static bool is_filler(uint32_t c)
{
    return is_invisible(c) || wrap_is_space(c) || c == '/' || c == '\\' || c == 0xFF0F ||
           c == 0x2044 || c == 0x2215 || c == 0x29F8;
}

/* A letter as it is in ASCII, whatever its style: fullwidth, mathematical, in a circle; or 0. */
static char plain_letter(uint32_t c)
{
    if (c < 0x80)
        return (char)(c | 0x20);
    if ((c >= 0xFF21 && c <= 0xFF3A) || (c >= 0xFF41 && c <= 0xFF5A))
        return (char)((c - 0xFF21) % 32 + 'a');
    if (c >= 0x24B6 && c <= 0x24E9)
        return (char)((c - 0x24B6) % 26 + 'a');
    if (c >= 0x1D400 && c <= 0x1D6A3)
        return (char)((c - 0x1D400) % 26 + 'a');
    return 0;
}

/* Behind a `<`. The next `<` ends it, so that a text of many costs no more than two walks. */
static bool begins_delimiter(const char *at, const char *end)
{
    static const char word[] = "plugin";
    size_t matched = 0;
    while (at < end && matched < sizeof(word) - 1) {
        size_t length;
        uint32_t c = kg_utf8_decode(at, &length);
        at += length;
        if (plain_letter(c) == word[matched])
            matched++;
        else if (matched == 0 ? !is_filler(c) : !is_invisible(c))
            return false;
    }
    return matched == sizeof(word) - 1;
}

/* The next `<` of any form, or the end. */
static const char *next_less_than(const char *at, const char *end)
{
    for (; at < end; at++) {
        if (*at == '<')
            return at;
        if ((unsigned char)*at != 0xEF || end - at < 3)
            continue;
        size_t length;
        if (is_less_than(kg_utf8_decode(at, &length)))
            return at;
    }
    return end;
}

/* A plugin's own delimiters, which it may use in pairs. */
struct own_pair {
    char *open, *close; /* owned */
    size_t closes;      /* how many are still to come */
    size_t depth;       /* of pairs that are open */
};

static void own_pair_free(struct own_pair *own)
{
    free(own->open);
    free(own->close);
}

/*
 * The length of an own delimiter that may stand there, or 0. One that closes never closes what
 * kaged opened, and one that opens has another that closes it.
 */
static size_t take_own(struct own_pair *own, struct kg_str rest)
{
    bool closes = kg_str_starts(rest, own->close);
    if (closes) {
        own->closes--;
        if (own->depth == 0)
            return 0;
        own->depth--;
        return strlen(own->close);
    }
    if (!kg_str_starts(rest, own->open) || own->closes <= own->depth)
        return 0;
    own->depth++;
    return strlen(own->open);
}

static void defuse(struct kg_str text, struct own_pair *own_or_null, struct kg_buf *buf)
{
    const char *at = text.data;
    const char *end = text.length ? text.data + text.length : text.data;
    while (at < end) {
        const char *less = next_less_than(at, end);
        kg_buf_append(buf, at, (size_t)(less - at));
        if (less == end)
            return;
        struct kg_str rest = {less, (size_t)(end - less)};
        size_t length = own_or_null ? take_own(own_or_null, rest) : 0;
        bool allowed = length > 0;
        if (!allowed)
            kg_utf8_decode(less, &length);
        if (!allowed && begins_delimiter(less + length, end))
            kg_buf_text(buf, "&lt;");
        else
            kg_buf_append(buf, less, length);
        at = less + length;
    }
}

void session_defuse(struct kg_str text, struct kg_buf *buf)
{
    defuse(text, NULL, buf);
}

/* -- wrapping ---------------------------------------------------------------------------------- */

static size_t wrap_count_of(struct kg_str text, const char *word)
{
    size_t count = 0, length = strlen(word);
    const char *end = text.data + text.length;
    const char *at = text.length > 0 ? text.data : NULL;
    while (at != NULL && (at = memmem(at, (size_t)(end - at), word, length)) != NULL) {
        count++;
        at += length;
    }
    return count;
}

void session_wrap(const char *plugin, struct kg_str text, struct kg_buf *buf)
{
    kg_auto(own_pair_free) struct own_pair own = {
        .open = kg_format("<plugin:%s>", plugin),
        .close = kg_format("</plugin:%s>", plugin),
    };
    own.closes = wrap_count_of(text, own.close);
    kg_buf_printf(buf, "%s\n", own.open);
    defuse(text, &own, buf);
    kg_buf_printf(buf, "\n%s", own.close);
}

/* -- inside JSON ------------------------------------------------------------------------------- */

/* Between the quotes of a valid string. */
static void defuse_raw(struct kg_str raw, bool escaped, struct kg_buf *buf)
{
    kg_auto(kg_buf_free) struct kg_buf decoded = {0}, safe = {0};
    struct kg_str text = raw;
    if (escaped) {
        kg_buf_reserve(&decoded, raw.length);
        decoded.length = kg_json_unescape(raw, decoded.data);
        text = kg_buf_view(&decoded);
    }
    const char *end = text.length ? text.data + text.length : text.data;
    if (text.length == 0 || next_less_than(text.data, end) == end) {
        kg_buf_char(buf, '"');
        kg_buf_str(buf, raw);
        kg_buf_char(buf, '"');
        return;
    }
    session_defuse(text, &safe);
    kg_json_put_string(buf, kg_buf_view(&safe));
}

void session_defuse_json(struct kg_str json, struct kg_buf *buf)
{
    struct kg_json_cursor cursor = {json.data, json.data + json.length};
    while (cursor.at < cursor.end) {
        const char *quote = memchr(cursor.at, '"', (size_t)(cursor.end - cursor.at));
        kg_buf_append(buf, cursor.at, (size_t)((quote ? quote : cursor.end) - cursor.at));
        if (quote == NULL)
            return;
        struct kg_str raw;
        bool escaped;
        cursor.at = quote;
        if (kg_json_skip_string(&cursor, &raw, &escaped) != KG_JSON_OK)
            return; /* the JSON was not valid */
        defuse_raw(raw, escaped, buf);
    }
}
