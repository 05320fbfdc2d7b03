/*
 * Texts that must not be shown, wherever they stand: in strings of JSON, however these are escaped,
 * and in plain text. Short ones only count as whole words, since they are parts of many. A line
 * that would take too long to look through is hidden whole.
 */
#include "trace/internal.h"

#include <stdlib.h>

#define SECRET_MIN    4 /* shorter ones are hidden in their own fields only */
#define WORD_MAX      8 /* shorter ones must stand alone */
#define KEPT_MAX      1024
#define SEEN_MAX      256
#define WORK_PER_BYTE 16
#define WORK_LEAST    65536

struct secret {
    char *text; /* owned */
    size_t length;
    bool is_kept;
    struct secret *next; /* that starts with the same byte */
};

struct trace_secrets {
    struct secret *by_first[256];
    struct secret *kept[KEPT_MAX]; /* owned, like the next */
    struct secret *seen[SEEN_MAX]; /* a ring */
    size_t kept_count, seen_count;
    bool too_many; /* nothing can be shown any more */
    size_t work;   /* bytes that may still be compared for this line */
};

/* -- the set ----------------------------------------------------------------------------------- */

struct trace_secrets *trace_secrets_new(void)
{
    return kg_alloc(sizeof(struct trace_secrets));
}

static void secret_free(struct secret *secret)
{
    if (secret == NULL)
        return;
    free(secret->text);
    free(secret);
}

void trace_secrets_free(struct trace_secrets *secrets)
{
    if (secrets == NULL)
        return;
    for (size_t i = 0; i < KEPT_MAX; i++)
        secret_free(secrets->kept[i]);
    for (size_t i = 0; i < SEEN_MAX; i++)
        secret_free(secrets->seen[i]);
    free(secrets);
}

static struct secret **bucket_of(struct trace_secrets *secrets, struct kg_str text)
{
    return &secrets->by_first[(unsigned char)text.data[0]];
}

static bool has(struct trace_secrets *secrets, struct kg_str text, bool only_kept)
{
    for (struct secret *at = *bucket_of(secrets, text); at != NULL; at = at->next)
        if (at->length == text.length && memcmp(at->text, text.data, text.length) == 0 &&
            (at->is_kept || !only_kept))
            return true;
    return false;
}

static void forget(struct trace_secrets *secrets, struct secret *old)
{
    if (old == NULL)
        return;
    KG_UNLINK(*bucket_of(secrets, (struct kg_str){old->text, old->length}), old);
    secret_free(old);
}

static void add(struct trace_secrets *secrets, struct kg_str text, bool is_kept)
{
    if (has(secrets, text, is_kept))
        return;
    if (is_kept && secrets->kept_count == KEPT_MAX) {
        secrets->too_many = true;
        return;
    }
    struct secret *secret = kg_alloc(sizeof(*secret));
    secret->text = kg_str_dup(text);
    secret->length = text.length;
    secret->is_kept = is_kept;
    struct secret **bucket = bucket_of(secrets, text);
    secret->next = *bucket;
    *bucket = secret;
    if (is_kept) {
        secrets->kept[secrets->kept_count++] = secret;
        return;
    }
    struct secret **place = &secrets->seen[secrets->seen_count++ % SEEN_MAX];
    forget(secrets, *place);
    *place = secret;
}

/* A key of many lines may be printed line by line. */
void trace_secrets_add(struct trace_secrets *secrets, struct kg_str text, bool is_kept)
{
    if (text.length < SECRET_MIN)
        return;
    const char *end = text.data + text.length;
    add(secrets, text, is_kept);
    for (const char *at = text.data, *newline; at < end; at = newline + 1) {
        newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL && at == text.data)
            return;
        if (newline == NULL)
            newline = end;
        if ((size_t)(newline - at) >= WORD_MAX)
            add(secrets, (struct kg_str){at, (size_t)(newline - at)}, is_kept);
    }
}

/* -- plain text -------------------------------------------------------------------------------- */

static bool is_word(struct kg_str text, size_t at, size_t length)
{
    bool before = at > 0 && kg_is_letter_or_digit(text.data[at - 1]);
    bool after = at + length < text.length && kg_is_letter_or_digit(text.data[at + length]);
    return !before && !after;
}

static void spend(struct trace_secrets *secrets, size_t work)
{
    secrets->work -= work < secrets->work ? work : secrets->work;
}

/* How long the longest secret is that stands at this place; 0: none does. */
static size_t secret_at(struct trace_secrets *secrets, struct kg_str text, size_t at)
{
    size_t longest = 0;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what has a length has data */
    for (struct secret *secret = secrets->by_first[(unsigned char)text.data[at]]; secret != NULL;
         secret = secret->next) {
        size_t same = 0;
        if (secret->length > text.length - at)
            continue;
        while (same < secret->length && secret->text[same] == text.data[at + same])
            same++;
        spend(secrets, same + 1);
        if (same == secret->length && same > longest &&
            (same >= WORD_MAX || is_word(text, at, same)))
            longest = same;
    }
    return longest;
}

/* Appends the text without secrets; false, and nothing is appended, if none is in it. */
static bool put_without(struct trace_secrets *secrets, struct kg_str text, struct kg_buf *out)
{
    size_t from = 0, start = out->length;
    for (size_t at = 0; at < text.length && secrets->work > 0;) {
        size_t length = secret_at(secrets, text, at);
        if (length == 0) {
            at++;
            continue;
        }
        kg_buf_append(out, text.data + from, at - from);
        kg_buf_str(out, KG_STR(TRACE_REDACTED));
        from = at += length;
    }
    if (out->length == start)
        return false;
    kg_buf_append(out, text.data + from, text.length - from);
    return true;
}

/* -- JSON -------------------------------------------------------------------------------------- */

static bool hide_string(struct trace_secrets *secrets, struct kg_json_cursor *cursor,
                        struct kg_buf *out)
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
    if (!put_without(secrets, text, &shown)) {
        kg_buf_append(out, start, (size_t)(cursor->at - start));
        return false;
    }
    kg_json_put_string(out, kg_buf_view(&shown));
    return true;
}

static bool is_secret_number(struct trace_secrets *secrets, struct kg_str number)
{
    for (struct secret *at = *bucket_of(secrets, number); at != NULL && secrets->work > 0;
         at = at->next) {
        spend(secrets, 1);
        if (at->length == number.length && memcmp(at->text, number.data, number.length) == 0)
            return true;
    }
    return false;
}

static bool hide_number(struct trace_secrets *secrets, struct kg_json_cursor *cursor,
                        struct kg_buf *out)
{
    struct kg_str number = {cursor->at, 0};
    while (cursor->at < cursor->end && strchr("+-.0123456789eE", *cursor->at) != NULL)
        cursor->at++;
    number.length = (size_t)(cursor->at - number.data);
    bool is_secret = is_secret_number(secrets, number);
    kg_buf_str(out, is_secret ? KG_STR("\"" TRACE_REDACTED "\"") : number);
    return is_secret;
}

/* The line is valid JSON. Numbers at its top are ids, which have to stay. */
static bool hide_in_json(struct trace_secrets *secrets, struct kg_str line, struct kg_buf *out)
{
    struct kg_json_cursor cursor = {line.data, line.data + line.length};
    bool any = false;
    int depth = 0;
    while (cursor.at < cursor.end) {
        char c = *cursor.at;
        if (c == '"') {
            any |= hide_string(secrets, &cursor, out);
        } else if (depth > 1 && (c == '-' || kg_is_digit(c))) {
            any |= hide_number(secrets, &cursor, out);
        } else {
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            kg_buf_char(out, *cursor.at++);
        }
    }
    return any;
}

bool trace_secrets_hide(struct trace_secrets *secrets, struct kg_str line, struct kg_buf *ret_line)
{
    size_t start = ret_line->length, offset;
    bool any;
    secrets->work = WORK_LEAST + WORK_PER_BYTE * line.length;
    if (kg_json_check(line, &offset) == KG_JSON_OK) {
        any = hide_in_json(secrets, line, ret_line);
    } else {
        any = put_without(secrets, line, ret_line);
        if (!any)
            kg_buf_str(ret_line, line);
    }
    if (!secrets->too_many && secrets->work > 0)
        return any;
    ret_line->length = start;
    kg_buf_str(ret_line, KG_STR(TRACE_REDACTED));
    return true;
}
