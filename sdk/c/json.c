/*
 * JSON as plugins see it. The scanner of the daemon judges a text first, so that both sides take
 * the same; what is built after that is valid, and nested no deeper than the scanner allows.
 */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

#define FEW_MEMBERS 16 /* up to here each is compared with each */

struct reader {
    struct kg_json_cursor cursor;
    struct kg_arena *arena;    /* owned by the document to come */
    struct kg_member *scratch; /* children of all open containers, those of the innermost last */
    size_t count;
    size_t capacity;
};

static void read_value(struct reader *reader, struct kg_node *node);

static struct kg_str copy_text(struct kg_arena *arena, struct kg_str raw, bool escaped)
{
    char *text = kg_arena_alloc(arena, raw.length + 1);
    size_t length = raw.length;
    if (escaped)
        length = kg_json_unescape(raw, text);
    else if (length > 0)
        memcpy(text, raw.data, length);
    text[length] = '\0';
    return (struct kg_str){text, length};
}

static struct kg_str read_text(struct reader *reader)
{
    struct kg_str raw = KG_STR_NULL;
    bool escaped = false;
    kg_json_skip_string(&reader->cursor, &raw, &escaped);
    return copy_text(reader->arena, raw, escaped);
}

static struct kg_member *add_child(struct reader *reader)
{
    if (reader->count == reader->capacity) {
        reader->capacity = reader->capacity ? reader->capacity * 2 : 16;
        reader->scratch = kg_realloc(reader->scratch, reader->capacity * sizeof(*reader->scratch));
    }
    reader->scratch[reader->count] = (struct kg_member){0};
    return &reader->scratch[reader->count++];
}

/* Children up to the closing bracket; the cursor stands at the opening one. */
static void read_children(struct reader *reader, bool object)
{
    struct kg_json_cursor *cursor = &reader->cursor;
    cursor->at++;
    for (kg_json_skip_space(cursor); *cursor->at != ']' && *cursor->at != '}';
         kg_json_skip_space(cursor)) {
        struct kg_node value;
        struct kg_str key = KG_STR_NULL;
        if (*cursor->at == ',') {
            cursor->at++;
            continue;
        }
        if (object) {
            key = read_text(reader);
            kg_json_skip_space(cursor);
            cursor->at++;
            kg_json_skip_space(cursor);
        }
        read_value(reader, &value);
        struct kg_member *child = add_child(reader);
        child->key = key;
        child->value = value;
    }
    cursor->at++;
}

/* -- a key that comes twice: the last value stays, at the place of the first ------------------- */

static size_t drop_twice_few(struct kg_member *members, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t j = 0;
        while (j < kept && !kg_str_equal(members[j].key, members[i].key))
            j++;
        members[j] = members[i];
        kept += j == kept;
    }
    return kept;
}

static size_t drop_twice_many(struct kg_member *members, size_t count)
{
    struct kg_map *places = kg_map_new();
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct kg_member *place = kg_map_get(places, members[i].key);
        if (place == NULL) {
            place = &members[kept++];
            kg_map_set(places, members[i].key, place);
        }
        *place = members[i];
    }
    kg_map_free(places);
    return kept;
}

static void take_members(struct reader *reader, struct kg_node *node, size_t first)
{
    size_t count = reader->count - first;
    node->members = kg_arena_alloc(reader->arena, (count + 1) * sizeof(*node->members));
    node->count = (uint32_t)count;
    if (count == 0)
        return; /* there may be no scratch yet */
    struct kg_member *members = reader->scratch + first;
    count = count <= FEW_MEMBERS ? drop_twice_few(members, count) : drop_twice_many(members, count);
    node->count = (uint32_t)count;
    memcpy(node->members, members, count * sizeof(*members));
}

static void take_items(struct reader *reader, struct kg_node *node, size_t first)
{
    size_t count = reader->count - first;
    node->count = (uint32_t)count;
    node->items = kg_arena_alloc(reader->arena, (count + 1) * sizeof(*node->items));
    for (size_t i = 0; i < count; i++)
        node->items[i] = reader->scratch[first + i].value;
}

static void read_container(struct reader *reader, struct kg_node *node)
{
    size_t first = reader->count;
    read_children(reader, node->type == KG_OBJECT);
    if (node->type == KG_OBJECT)
        take_members(reader, node, first);
    else
        take_items(reader, node, first);
    reader->count = first;
}

static void read_word_or_number(struct reader *reader, struct kg_node *node)
{
    struct kg_str span = KG_STR_NULL;
    kg_json_skip_value(&reader->cursor, &span);
    node->type = span.data[0] == 'n'                          ? KG_NULL
                 : span.data[0] == 't' || span.data[0] == 'f' ? KG_BOOL
                                                              : KG_NUMBER;
    node->boolean = span.data[0] == 't';
    if (node->type == KG_NUMBER)
        node->text = copy_text(reader->arena, span, false);
}

static void read_value(struct reader *reader, struct kg_node *node)
{
    *node = (struct kg_node){0};
    switch (*reader->cursor.at) {
    case '"':
        node->type = KG_STRING;
        node->text = read_text(reader);
        break;
    case '{':
    case '[':
        node->type = *reader->cursor.at == '{' ? KG_OBJECT : KG_ARRAY;
        read_container(reader, node);
        break;
    default:
        read_word_or_number(reader, node);
    }
}

struct kg_doc *json_read(struct kg_str text)
{
    if (text.length == 0 || kg_json_check(text, NULL) != KG_JSON_OK)
        return NULL;
    struct reader reader = {.cursor = {text.data, text.data + text.length},
                            .arena = kg_arena_new()};
    struct kg_doc *doc = kg_arena_alloc(reader.arena, sizeof(*doc));
    doc->arena = reader.arena;
    doc->root = kg_arena_alloc(reader.arena, sizeof(*doc->root));
    kg_json_skip_space(&reader.cursor);
    read_value(&reader, doc->root);
    free(reader.scratch);
    return doc;
}

struct kg_doc *json_copy(const struct kg_node *node)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    kg_json_node(&json, node);
    return json_read(kg_buf_view(&text));
}

/* -- for plugins ------------------------------------------------------------------------------- */

enum kaged_type kaged_json_type(const struct kaged_json *value)
{
    return value ? (enum kaged_type)node_of(value)->type : KAGED_NULL;
}

const struct kaged_json *kaged_json_get(const struct kaged_json *object, const char *key)
{
    return json_of(kg_node_get(node_of(object), key));
}

size_t kaged_json_count(const struct kaged_json *value)
{
    enum kaged_type type = kaged_json_type(value);
    return type == KAGED_ARRAY || type == KAGED_OBJECT ? node_of(value)->count : 0;
}

const struct kaged_json *kaged_json_at(const struct kaged_json *value, size_t index)
{
    if (index >= kaged_json_count(value))
        return NULL;
    const struct kg_node *node = node_of(value);
    return json_of(node->type == KG_ARRAY ? &node->items[index] : &node->members[index].value);
}

const char *kaged_json_key_at(const struct kaged_json *object, size_t index)
{
    if (kaged_json_type(object) != KAGED_OBJECT || index >= kaged_json_count(object))
        return NULL;
    return node_of(object)->members[index].key.data;
}

const char *kaged_json_text(const struct kaged_json *value)
{
    return kaged_json_type(value) == KAGED_STRING ? node_of(value)->text.data : NULL;
}

size_t kaged_json_length(const struct kaged_json *value)
{
    return kaged_json_type(value) == KAGED_STRING ? node_of(value)->text.length : 0;
}

bool kaged_json_int(const struct kaged_json *value, int64_t *ret_value)
{
    return value != NULL && kg_node_int(node_of(value), ret_value);
}

bool kaged_json_double(const struct kaged_json *value, double *ret_value)
{
    if (kaged_json_type(value) != KAGED_NUMBER)
        return false;
    double number = number_read(node_of(value)->text.data);
    if (!isfinite(number))
        return false;
    *ret_value = number;
    return true;
}

bool kaged_json_is_true(const struct kaged_json *value)
{
    return kaged_json_type(value) == KAGED_BOOL && node_of(value)->boolean;
}
