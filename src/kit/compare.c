/*
 * Where two JSON values differ: the path, what was there, what is. The order of members does not
 * count, nor how a number or a text is written. Places of files are compared by what they are for.
 */
#include "kit/internal.h"
#include "schema/schema.h"

#include <ctype.h>
#include <stdlib.h>

#define SHOWN_BYTES 200 /* of a value that differs */

struct walk {
    struct kit_comparison *comparison;
    struct kg_buf path;
};

/* -- texts ------------------------------------------------------------------------------------- */

static bool ends_here(struct kg_str text, size_t at)
{
    return at == text.length ||
           (!isalnum((unsigned char)text.data[at]) && strchr("_-.", text.data[at]) == NULL);
}

void kit_put_moved(struct kg_buf *out, struct kg_str text, struct kg_str from, struct kg_str to)
{
    const char *at = text.data, *end = text.data + text.length;
    while (at < end) {
        const char *found = memmem(at, (size_t)(end - at), from.data, from.length);
        if (found == NULL)
            break;
        struct kg_str rest = {found, (size_t)(end - found)};
        kg_buf_append(out, at, (size_t)(found - at));
        kg_buf_str(out, ends_here(rest, from.length) ? to : from);
        at = found + from.length;
    }
    kg_buf_append(out, at, (size_t)(end - at));
}

static bool is_redacted(struct kg_str text)
{
    return text.length > 0 &&
           memmem(text.data, text.length, TRACE_REDACTED, sizeof(TRACE_REDACTED) - 1) != NULL;
}

/* A plugin that was sent what was redacted may send it back. */
static bool compare_same_text(const struct walk *walk, struct kg_str was, struct kg_str is)
{
    if (kg_str_equal(was, is) || is_redacted(was) || is_redacted(is))
        return true;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_str(&text, is);
    for (const struct kit_place *place = walk->comparison->places; place->then.length > 0;
         place++) {
        kg_auto(kg_buf_free) struct kg_buf before = text;
        text = (struct kg_buf){0};
        kit_put_moved(&text, kg_buf_view(&before), place->now, place->then);
    }
    return kg_str_equal(was, kg_buf_view(&text));
}

/* -- paths ------------------------------------------------------------------------------------- */

static size_t push_key(struct walk *walk, struct kg_str key)
{
    size_t before = walk->path.length;
    kg_buf_char(&walk->path, '/');
    for (size_t i = 0; i < key.length; i++)
        if (key.data[i] == '~' || key.data[i] == '/')
            kg_buf_text(&walk->path, key.data[i] == '~' ? "~0" : "~1");
        else
            kg_buf_char(&walk->path, key.data[i]);
    return before;
}

static size_t push_index(struct walk *walk, uint32_t index)
{
    size_t before = walk->path.length;
    kg_buf_printf(&walk->path, "/%u", index);
    return before;
}

/* Whether the pattern names the path, or what it is in. */
static bool compare_fits(const char *pattern, struct kg_str path)
{
    size_t at = 0;
    while (*pattern != '\0') {
        size_t part = 1 + strcspn(pattern + 1, "/"), length = 1;
        if (at == path.length)
            return false;
        while (at + length < path.length && path.data[at + length] != '/')
            length++;
        bool is_any = part == 2 && pattern[1] == '*';
        if (!is_any && (part != length || memcmp(pattern, path.data + at, part) != 0))
            return false;
        pattern += part;
        at += length;
    }
    return true;
}

static bool is_ignored(const struct walk *walk)
{
    for (const char *const *pattern = walk->comparison->ignored; *pattern != NULL; pattern++)
        if (compare_fits(*pattern, kg_buf_view(&walk->path)))
            return true;
    return false;
}

/* -- differences ------------------------------------------------------------------------------- */

static char *shown(const struct kg_node *node_or_null)
{
    struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    if (node_or_null != NULL)
        kg_json_node(&json, node_or_null);
    if (text.length > SHOWN_BYTES) {
        text.length = kg_utf8_valid((struct kg_str){text.data, SHOWN_BYTES});
        kg_buf_text(&text, "...");
    }
    return kg_buf_terminate(&text);
}

static void compare_add(struct walk *walk, const struct kg_node *was, const struct kg_node *is)
{
    struct kit_comparison *comparison = walk->comparison;
    if (is_ignored(walk))
        return;
    if (comparison->count == KIT_DIFFERENCES_MAX) {
        comparison->left_out++;
        return;
    }
    comparison->differences[comparison->count++] =
        (struct kit_difference){kg_str_dup(kg_buf_view(&walk->path)), shown(was), shown(is)};
}

static void compare_compare(struct walk *walk, const struct kg_node *was, const struct kg_node *is);

static void compare_objects(struct walk *walk, const struct kg_node *was, const struct kg_node *is)
{
    for (uint32_t i = 0; i < was->count; i++) {
        const struct kg_member *member = kg_node_member(is, was->members[i].key);
        size_t before = push_key(walk, was->members[i].key);
        if (member != NULL)
            compare_compare(walk, &was->members[i].value, &member->value);
        else
            compare_add(walk, &was->members[i].value, NULL);
        walk->path.length = before;
    }
    for (uint32_t i = 0; i < is->count; i++) {
        if (kg_node_member(was, is->members[i].key) != NULL)
            continue;
        size_t before = push_key(walk, is->members[i].key);
        compare_add(walk, NULL, &is->members[i].value);
        walk->path.length = before;
    }
}

static void compare_arrays(struct walk *walk, const struct kg_node *was, const struct kg_node *is)
{
    for (uint32_t i = 0; i < was->count || i < is->count; i++) {
        size_t before = push_index(walk, i);
        if (i < was->count && i < is->count)
            compare_compare(walk, &was->items[i], &is->items[i]);
        else
            compare_add(walk, i < was->count ? &was->items[i] : NULL,
                        i < is->count ? &is->items[i] : NULL);
        walk->path.length = before;
    }
}

static void compare_compare(struct walk *walk, const struct kg_node *was, const struct kg_node *is)
{
    if ((was->type == KG_STRING && kg_str_is(was->text, TRACE_REDACTED)) ||
        (is->type == KG_STRING && kg_str_is(is->text, TRACE_REDACTED)))
        return; /* of whatever type it was */
    if (was->type != is->type) {
        compare_add(walk, was, is);
        return;
    }
    bool same = true;
    switch ((enum kg_type)was->type) {
    case KG_NULL:
        break;
    case KG_BOOL:
        same = was->boolean == is->boolean;
        break;
    case KG_NUMBER:
        same = schema_number_equal(was->text, is->text);
        break;
    case KG_STRING:
        same = compare_same_text(walk, was->text, is->text);
        break;
    case KG_ARRAY:
        compare_arrays(walk, was, is);
        break;
    case KG_OBJECT:
        compare_objects(walk, was, is);
        break;
    }
    if (!same)
        compare_add(walk, was, is);
}

/* What is not a tree, since it has a member twice, is compared as it is written. */
void kit_compare(struct kit_comparison *comparison, struct kg_str was, struct kg_str is)
{
    struct walk walk = {.comparison = comparison};
    kg_auto(kg_doc_cleanup) struct kg_doc *then = kg_json_read(was, NULL);
    kg_auto(kg_doc_cleanup) struct kg_doc *now = kg_json_read(is, NULL);
    const struct kg_node text_then = {.type = KG_STRING, .text = was};
    const struct kg_node text_now = {.type = KG_STRING, .text = is};
    bool are_trees = then != NULL && now != NULL;
    compare_compare(&walk, are_trees ? then->root : &text_then, are_trees ? now->root : &text_now);
    kg_buf_free(&walk.path);
}

void kit_comparison_clear(struct kit_comparison *comparison)
{
    for (size_t i = 0; i < comparison->count; i++) {
        free(comparison->differences[i].path);
        free(comparison->differences[i].was);
        free(comparison->differences[i].is);
    }
    comparison->count = comparison->left_out = 0;
}
