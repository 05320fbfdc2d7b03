/*
 * Hiding: in strings of JSON, however these are escaped, and in plain text. Short values only count
 * as whole words, since they are parts of many. A text that would take too long to look through is
 * hidden whole.
 */
#include "base/json/json.h"
#include "redact/internal.h"

#define WORK_PER_BYTE 16
#define WORK_LEAST    65536

/* One look through a text. */
struct search {
    const struct redact_set *set;
    size_t work; /* bytes that may still be compared */
};

/* -- plain text -------------------------------------------------------------------------------- */

static bool put_is_word(struct kg_str text, size_t at, size_t length)
{
    bool before = at > 0 && kg_is_letter_or_digit(text.data[at - 1]);
    bool after = at + length < text.length && kg_is_letter_or_digit(text.data[at + length]);
    return !before && !after;
}

static size_t same_bytes(struct search *search, const struct redact_value *value, const char *at,
                         size_t most)
{
    size_t same = 0;
    while (same < most && value->text[same] == at[same])
        same++;
    search->work -= same + 1 < search->work ? same + 1 : search->work;
    return same;
}

/* How long the longest value is that stands at this place, which has enough bytes; 0: none does. */
static size_t value_at(struct search *search, const struct redact_set *set, struct kg_str text,
                       size_t at)
{
    size_t longest = 0;
    for (const struct redact_value *value = set->buckets[redact_bucket(set, text.data + at)];
         value != NULL; value = value->next) {
        if (value->length > text.length - at || value->length <= longest ||
            same_bytes(search, value, text.data + at, value->length) < value->length)
            continue;
        if (value->length >= REDACT_WORD_MAX || put_is_word(text, at, value->length))
            longest = value->length;
    }
    return longest;
}

static size_t longest_at(struct search *search, struct kg_str text, size_t at)
{
    size_t longest = 0;
    for (const struct redact_set *set = search->set; set != NULL; set = set->more) {
        size_t length = set->buckets != NULL ? value_at(search, set, text, at) : 0;
        if (length > longest)
            longest = length;
    }
    return longest;
}

/* Appends the text without values; false, and nothing is appended, if none is in it. */
static bool put_without(struct search *search, struct kg_str text, struct kg_buf *out)
{
    size_t from = 0, start = out->length;
    for (size_t at = 0; at + REDACT_MIN <= text.length && search->work > 0;) {
        size_t length = longest_at(search, text, at);
        if (length == 0) {
            at++;
            continue;
        }
        kg_buf_append(out, text.data + from, at - from);
        kg_buf_str(out, KG_STR(REDACT_MARK));
        from = at += length;
    }
    if (out->length == start)
        return false;
    kg_buf_append(out, text.data + from, text.length - from);
    return true;
}

static bool begins_at(struct search *search, const struct redact_set *set, struct kg_str text,
                      size_t at)
{
    size_t rest = text.length - at;
    if (set->buckets == NULL)
        return false;
    for (const struct redact_value *value = set->buckets[redact_bucket(set, text.data + at)];
         value != NULL; value = value->next)
        if (value->length > rest && value->length >= REDACT_WORD_MAX &&
            same_bytes(search, value, text.data + at, rest) == rest)
            return true;
    return false;
}

/* How many bytes at the end of a text may be the beginning of a value whose rest was cut off. */
static size_t open_end(struct search *search, struct kg_str text)
{
    size_t longest = 0;
    for (const struct redact_set *set = search->set; set != NULL; set = set->more)
        longest = set->longest > longest ? set->longest : longest;
    size_t at = text.length > longest ? text.length - longest : 0;
    for (; at + REDACT_MIN <= text.length && search->work > 0; at++)
        for (const struct redact_set *set = search->set; set != NULL; set = set->more)
            if (begins_at(search, set, text, at))
                return text.length - at;
    return 0;
}

static bool put_plain(struct search *search, struct kg_str text, bool is_cut, struct kg_buf *out)
{
    size_t hidden = is_cut ? open_end(search, text) : 0;
    text.length -= hidden;
    bool any = put_without(search, text, out);
    if (!any)
        kg_buf_str(out, text);
    if (hidden > 0)
        kg_buf_str(out, KG_STR(REDACT_MARK));
    return any || hidden > 0;
}

/* -- JSON -------------------------------------------------------------------------------------- */

static bool hide_string(struct search *search, struct kg_json_cursor *cursor, struct kg_buf *out)
{
    const char *start = cursor->at;
    struct kg_str raw;
    bool escaped = false;
    kg_auto(kg_buf_free) struct kg_buf plain = {0}, shown = {0};
    kg_json_skip_string(cursor, &raw, &escaped);
    struct kg_str text = raw;
    if (escaped) {
        kg_buf_reserve(&plain, raw.length);
        text = (struct kg_str){plain.data, kg_json_unescape(raw, plain.data)};
    }
    if (!put_without(search, text, &shown)) {
        kg_buf_append(out, start, (size_t)(cursor->at - start));
        return false;
    }
    kg_json_put_string(out, kg_buf_view(&shown));
    return true;
}

static bool hide_number(struct search *search, struct kg_json_cursor *cursor, struct kg_buf *out)
{
    struct kg_str number = {cursor->at, 0};
    while (cursor->at < cursor->end && strchr("+-.0123456789eE", *cursor->at) != NULL)
        cursor->at++;
    number.length = (size_t)(cursor->at - number.data);
    bool is_secret = number.length >= REDACT_MIN && longest_at(search, number, 0) == number.length;
    kg_buf_str(out, is_secret ? KG_STR("\"" REDACT_MARK "\"") : number);
    return is_secret;
}

/* The text is valid JSON. Numbers at its top are ids, which have to stay. */
static bool redact_put_json(struct search *search, struct kg_str text, struct kg_buf *out)
{
    struct kg_json_cursor cursor = {text.data, text.data + text.length};
    bool any = false;
    int depth = 0;
    while (cursor.at < cursor.end) {
        char c = *cursor.at;
        if (c == '"') {
            any |= hide_string(search, &cursor, out);
        } else if (depth > 1 && (c == '-' || kg_is_digit(c))) {
            any |= hide_number(search, &cursor, out);
        } else {
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            kg_buf_char(out, *cursor.at++);
        }
    }
    return any;
}

/* -- the interface ----------------------------------------------------------------------------- */

bool redact_put(const struct redact_set *set, struct kg_str text, bool is_cut,
                struct kg_buf *ret_text)
{
    struct search search = {set, WORK_LEAST + WORK_PER_BYTE * text.length};
    size_t start = ret_text->length, offset, count = 0;
    bool is_full = false;
    for (const struct redact_set *at = set; at != NULL; at = at->more) {
        count += at->count;
        is_full |= at->is_full;
    }
    if (count == 0 && !is_full) {
        kg_buf_str(ret_text, text);
        return false;
    }
    bool any = kg_json_check(text, &offset) == KG_JSON_OK
                   ? redact_put_json(&search, text, ret_text)
                   : put_plain(&search, text, is_cut, ret_text);
    if (!is_full && search.work > 0)
        return any;
    ret_text->length = start;
    kg_buf_str(ret_text, KG_STR(REDACT_MARK));
    return true;
}
