/*
 * The set. Values are found by their first bytes; the table grows with them, so that a look at a
 * place where none begins costs one load, however many there are. An empty set has no table.
 */
#include "redact/internal.h"

#include <stdlib.h>

#define KEPT_MAX     1024
#define SEEN_MAX     256
#define BUCKETS_MIN  64
#define LOAD_INVERSE 4 /* buckets for each value, so that most are empty */

struct redact_set *redact_set_new(const struct redact_set *more_or_null)
{
    struct redact_set *set = kg_alloc(sizeof(*set));
    set->more = more_or_null;
    return set;
}

static void wipe(struct redact_value *value)
{
    explicit_bzero(value->text, value->length);
    free(value);
}

void redact_set_free(struct redact_set *set)
{
    if (set == NULL)
        return;
    for (size_t i = 0; i < set->bucket_count; i++)
        for (struct redact_value *at = set->buckets[i], *next; at != NULL; at = next) {
            next = at->next;
            wipe(at);
        }
    free(set->buckets);
    free(set->seen);
    free(set);
}

static void link_value(struct redact_set *set, struct redact_value *value)
{
    struct redact_value **bucket = &set->buckets[redact_bucket(set, value->text)];
    value->next = *bucket;
    *bucket = value;
}

static void set_grow(struct redact_set *set)
{
    size_t before = set->bucket_count;
    struct redact_value **old = set->buckets;
    if (set->count * LOAD_INVERSE < before)
        return;
    set->bucket_count = before > 0 ? before * 2 : BUCKETS_MIN;
    set->buckets = kg_alloc_array(set->bucket_count, sizeof(struct redact_value *));
    for (size_t i = 0; i < before; i++)
        for (struct redact_value *at = old[i], *next; at != NULL; at = next) {
            next = at->next;
            link_value(set, at);
        }
    free(old);
}

static bool redact_set_has(const struct redact_set *set, struct kg_str text, bool is_kept)
{
    if (set->buckets == NULL)
        return false;
    for (struct redact_value *at = set->buckets[redact_bucket(set, text.data)]; at != NULL;
         at = at->next)
        if (at->length == text.length && memcmp(at->text, text.data, text.length) == 0 &&
            (at->is_kept || !is_kept))
            return true;
    return false;
}

static struct redact_value *set_own_add(struct redact_set *set, struct kg_str text, bool is_kept)
{
    if (text.length < REDACT_MIN || redact_set_has(set, text, is_kept))
        return NULL;
    struct redact_value *value = kg_alloc(sizeof(*value) + text.length);
    value->length = text.length;
    value->is_kept = is_kept;
    memcpy(value->text, text.data, text.length);
    set->count++;
    set_grow(set);
    link_value(set, value);
    if (text.length > set->longest)
        set->longest = text.length;
    return value;
}

static void set_forget(struct redact_set *set, struct redact_value *old)
{
    KG_UNLINK(set->buckets[redact_bucket(set, old->text)], old);
    set->count--;
    wipe(old);
}

static void set_see(struct redact_set *set, struct kg_str text)
{
    struct redact_value *value = set_own_add(set, text, false);
    if (value == NULL)
        return;
    if (set->seen == NULL)
        set->seen = kg_alloc_array(SEEN_MAX, sizeof(struct redact_value *));
    struct redact_value **place = &set->seen[set->seen_count++ % SEEN_MAX];
    if (*place != NULL)
        set_forget(set, *place);
    *place = value;
}

static void take_form(void *data, struct kg_str form)
{
    if (form.length >= REDACT_WORD_MAX)
        set_own_add(data, form, true);
}

static void set_keep(struct redact_set *set, struct kg_str text)
{
    if (redact_set_has(set, text, true))
        return;
    if (set->kept_count == KEPT_MAX) {
        set->is_full = true;
        return;
    }
    set->kept_count++;
    set_own_add(set, text, true);
    if (text.length >= REDACT_WORD_MAX)
        redact_forms(text, take_form, set);
}

static void add_one(struct redact_set *set, struct kg_str text, enum redact_kind kind)
{
    if (kind == REDACT_KEPT)
        set_keep(set, text);
    else
        set_see(set, text);
}

/* A key of many lines may be printed line by line. */
void redact_set_add(struct redact_set *set, struct kg_str text, enum redact_kind kind)
{
    if (text.length < REDACT_MIN)
        return;
    const char *end = text.data + text.length;
    add_one(set, text, kind);
    for (const char *at = text.data, *newline; at < end; at = newline + 1) {
        newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL && at == text.data)
            return;
        if (newline == NULL)
            newline = end;
        if ((size_t)(newline - at) >= REDACT_WORD_MAX)
            add_one(set, (struct kg_str){at, (size_t)(newline - at)}, kind);
    }
}
