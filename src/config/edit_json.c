/*
 * JSON that somebody else's program reads, too: one key is set or removed, and every other byte
 * stays. The text is walked as spans; what is not plain JSON, as with comments in it, is refused.
 */
#include "config/edit.h"

#include <errno.h>

#define INDENT 2

/* Where in the text something is. */
struct place {
    size_t object;     /* the brace of the object that the walk came to */
    size_t object_end; /* behind its closing brace */
    size_t depth;      /* how many keys of the path led there */
    bool found;        /* the next key is in it, at: */
    size_t key, value, end;
};

static int edit_json_check(const struct kg_buf *text, struct kg_err *err)
{
    size_t offset = 0;
    enum kg_json_fault fault = kg_json_check(kg_buf_view(text), &offset);
    struct kg_json_cursor cursor = {text->data, text->data + text->length};
    if (fault != KG_JSON_OK)
        return kg_fail(err, KG_E_INVALID_CONFIG,
                       "byte %zu: %s, so that it cannot be edited as JSON", offset + 1,
                       kg_json_fault_text(fault));
    kg_json_skip_space(&cursor);
    if (*cursor.at != '{')
        return kg_fail(err, KG_E_INVALID_CONFIG, "it is not a JSON object");
    return 0;
}

/* The member of that name, in the object that begins at place->object. */
static void find_member(const struct kg_buf *text, const char *name, struct place *place)
{
    struct kg_str object = {text->data + place->object, place->object_end - place->object};
    struct kg_json_cursor cursor = kg_json_inside(object);
    struct kg_str key, value;
    bool escaped;
    place->found = false;
    while (!place->found && kg_json_next_member(&cursor, &key, &escaped, &value)) {
        place->found = kg_json_raw_is(key, escaped, name);
        place->key = (size_t)(key.data - 1 - text->data);
        place->value = (size_t)(value.data - text->data);
        place->end = place->value + value.length;
    }
}

/* As far along the path as there are objects. */
static struct place edit_json_walk(const struct kg_buf *text, const char *const *path, size_t count)
{
    struct kg_json_cursor cursor = {text->data, text->data + text->length};
    kg_json_skip_space(&cursor);
    struct place place = {.object = (size_t)(cursor.at - text->data), .object_end = text->length};
    while (place.object_end > 0 && text->data[place.object_end - 1] != '}')
        place.object_end--;
    for (;;) {
        find_member(text, path[place.depth], &place);
        if (!place.found || place.depth + 1 == count || text->data[place.value] != '{')
            return place;
        place.object = place.value;
        place.object_end = place.end;
        place.depth++;
    }
}

/* -- writing ----------------------------------------------------------------------------------- */

static void edit_json_put_line(struct kg_buf *out, size_t depth)
{
    kg_buf_char(out, '\n');
    for (size_t i = 0; i < depth * INDENT; i++)
        kg_buf_char(out, ' ');
}

static void put_pretty(struct kg_buf *out, const struct kg_node *node, size_t depth)
{
    if (node->type != KG_OBJECT || node->count == 0) {
        kg_json_put_node(out, node);
        return;
    }
    kg_buf_char(out, '{');
    for (uint32_t i = 0; i < node->count; i++) {
        edit_json_put_line(out, depth + 1);
        kg_json_put_string(out, node->members[i].key);
        kg_buf_text(out, ": ");
        put_pretty(out, &node->members[i].value, depth + 1);
        if (i + 1 < node->count)
            kg_buf_char(out, ',');
    }
    edit_json_put_line(out, depth);
    kg_buf_char(out, '}');
}

/* The rest of the path, with the value at its end. */
static void edit_json_put_member(struct kg_buf *out, const char *const *path, size_t count,
                                 size_t depth, const struct kg_node *value)
{
    kg_json_put_string(out, kg_str(path[0]));
    kg_buf_text(out, ": ");
    if (count == 1) {
        put_pretty(out, value, depth);
        return;
    }
    kg_buf_char(out, '{');
    edit_json_put_line(out, depth + 1);
    edit_json_put_member(out, path + 1, count - 1, depth + 1, value);
    edit_json_put_line(out, depth);
    kg_buf_char(out, '}');
}

static void edit_json_replace(struct kg_buf *text, size_t from, size_t to, struct kg_str by)
{
    kg_auto(kg_buf_free) struct kg_buf made = {0};
    kg_buf_append(&made, text->data, from);
    kg_buf_str(&made, by);
    kg_buf_append(&made, text->data + to, text->length - to);
    text->length = 0;
    kg_buf_str(text, kg_buf_view(&made));
}

/* -- the interface ----------------------------------------------------------------------------- */

int edit_json_set(struct kg_buf *text, const char *const *path, size_t path_count,
                  const struct kg_node *value, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf member = {0};
    if (text->length == 0)
        kg_buf_text(text, "{}\n");
    int result = edit_json_check(text, err);
    if (result < 0)
        return result;
    struct place place = edit_json_walk(text, path, path_count);
    if (place.found && place.depth + 1 < path_count)
        return kg_fail(err, KG_E_INVALID_CONFIG, "%s is not an object", path[place.depth]);
    if (place.found) {
        put_pretty(&member, value, path_count);
        edit_json_replace(text, place.value, place.end, kg_buf_view(&member));
        return 0;
    }
    size_t last = place.object_end - 1; /* the brace; what is before it is the last member */
    while (strchr(" \t\r\n", text->data[last - 1]) != NULL)
        last--;
    if (text->data[last - 1] != '{')
        kg_buf_char(&member, ',');
    edit_json_put_line(&member, place.depth + 1);
    edit_json_put_member(&member, path + place.depth, path_count - place.depth, place.depth + 1,
                         value);
    edit_json_put_line(&member, place.depth);
    edit_json_replace(text, last, place.object_end - 1, kg_buf_view(&member));
    return 0;
}

int edit_json_remove(struct kg_buf *text, const char *const *path, size_t path_count,
                     struct kg_err *err)
{
    int result = edit_json_check(text, err);
    if (result < 0)
        return result;
    struct place place = edit_json_walk(text, path, path_count);
    if (!place.found || place.depth + 1 < path_count)
        return kg_fail(err, KG_E_NOT_FOUND, "it has no %s", path[path_count - 1]);
    size_t from = place.key, to = place.end;
    size_t after = to;
    while (strchr(" \t\r\n", text->data[from - 1]) != NULL)
        from--;
    while (strchr(" \t\r\n", text->data[after]) != NULL)
        after++;
    if (text->data[after] == ',')
        to = after + 1;
    else if (text->data[from - 1] == ',')
        from--;
    edit_json_replace(text, from, to, KG_STR(""));
    return 0;
}
