/*
 * The table of keywords, and what may stand under each. Whatever passes here has the shape that the
 * metaschema asks for, so the compiler takes it without looking twice.
 */
#include "schema/internal.h"

#include <stdlib.h>

#define BOTH                                                                                       \
    {                                                                                              \
        true, true                                                                                 \
    }
#define NEW                                                                                        \
    {                                                                                              \
        true, false                                                                                \
    }
#define OLD                                                                                        \
    {                                                                                              \
        false, true                                                                                \
    }

const struct schema_keyword_row schema_keywords[SCHEMA_KEYWORD_COUNT] = {
#define SCHEMA_KEYWORD(symbol, name, drafts, vocabulary, shape)                                    \
    [SCHEMA_K_##symbol] = {name, drafts, SCHEMA_V_##vocabulary, SCHEMA_IS_##shape},
#include "schema/keywords.def"
#undef SCHEMA_KEYWORD
};

enum schema_keyword schema_keyword_find(struct kg_str name, enum schema_draft draft)
{
    for (unsigned i = 0; i < SCHEMA_KEYWORD_COUNT; i++)
        if (name.length > 0 && schema_keywords[i].name[0] == name.data[0] &&
            kg_str_is(name, schema_keywords[i].name))
            return schema_keywords[i].drafts[draft] ? (enum schema_keyword)i : SCHEMA_KEYWORD_COUNT;
    return SCHEMA_KEYWORD_COUNT;
}

/* -- subschemas below a subschema -------------------------------------------------------------- */

static bool is_schema(const struct kg_node *node)
{
    return node->type == KG_OBJECT || node->type == KG_BOOL;
}

static int each_in_list(const struct kg_node *list, enum schema_keyword keyword,
                        schema_on_child *on_child, void *data)
{
    int result = 0;
    for (uint32_t i = 0; i < list->count && result == 0; i++) {
        struct schema_step step = {.keyword = keyword, .position = i};
        if (is_schema(&list->items[i]))
            result = on_child(data, &list->items[i], step);
    }
    return result;
}

static int each_in_map(const struct kg_node *map, enum schema_keyword keyword,
                       schema_on_child *on_child, void *data)
{
    int result = 0;
    for (uint32_t i = 0; i < map->count && result == 0; i++) {
        struct kg_member *member = &map->members[i];
        struct schema_step step = {keyword, member->key, SCHEMA_NONE};
        if (is_schema(&member->value))
            result = on_child(data, &member->value, step);
    }
    return result;
}

static int each_in_member(const struct kg_node *value, enum schema_keyword keyword,
                          schema_on_child *on_child, void *data)
{
    uint8_t shape = schema_keywords[keyword].shape;
    bool map = shape == SCHEMA_IS_SCHEMA_MAP || shape == SCHEMA_IS_DEPENDENCIES;
    bool list = shape == SCHEMA_IS_SCHEMA_LIST || shape == SCHEMA_IS_ITEMS;
    bool one = shape == SCHEMA_IS_SCHEMA || shape == SCHEMA_IS_ITEMS;
    if (map && value->type == KG_OBJECT)
        return each_in_map(value, keyword, on_child, data);
    if (list && value->type == KG_ARRAY)
        return each_in_list(value, keyword, on_child, data);
    struct schema_step step = {.keyword = keyword, .position = SCHEMA_NONE};
    return one && is_schema(value) ? on_child(data, value, step) : 0;
}

int schema_each_child(const struct kg_node *node, enum schema_draft draft,
                      schema_on_child *on_child, void *data)
{
    int result = 0;
    if (node->type != KG_OBJECT)
        return 0;
    for (uint32_t i = 0; i < node->count && result == 0; i++) {
        enum schema_keyword keyword = schema_keyword_find(node->members[i].key, draft);
        if (keyword != SCHEMA_KEYWORD_COUNT)
            result = each_in_member(&node->members[i].value, keyword, on_child, data);
    }
    return result;
}

/* -- types ------------------------------------------------------------------------------------- */

static uint8_t type_bit(const struct kg_node *node)
{
    if (node->type != KG_STRING)
        return 0;
    if (kg_str_is(node->text, "integer"))
        return SCHEMA_INTEGERS;
    for (unsigned i = 0; i <= KG_OBJECT; i++)
        if (kg_str_is(node->text, kg_type_names[i]))
            return (uint8_t)(1 << i);
    return 0;
}

uint8_t schema_type_bits(const struct kg_node *value)
{
    uint8_t bits = 0;
    if (value->type == KG_STRING)
        bits = type_bit(value);
    for (uint32_t i = 0; value->type == KG_ARRAY && i < value->count; i++)
        bits |= type_bit(&value->items[i]);
    if (bits & 1 << KG_NUMBER)
        return bits & (uint8_t)~SCHEMA_INTEGERS; /* any number takes in the integers */
    return bits & SCHEMA_INTEGERS ? bits | 1 << KG_NUMBER : bits;
}

/* -- shapes ------------------------------------------------------------------------------------ */

typedef const char *shape_check(const struct kg_node *value, enum schema_draft draft,
                                const struct kg_node **ret_at);

static const char *any(const struct kg_node *value, enum schema_draft draft,
                       const struct kg_node **ret_at)
{
    (void)value, (void)draft, (void)ret_at;
    return NULL;
}

static const char *boolean(const struct kg_node *value, enum schema_draft draft,
                           const struct kg_node **ret_at)
{
    (void)draft, (void)ret_at;
    return value->type == KG_BOOL ? NULL : "must be true or false";
}

static const char *string(const struct kg_node *value, enum schema_draft draft,
                          const struct kg_node **ret_at)
{
    (void)draft, (void)ret_at;
    return value->type == KG_STRING ? NULL : "must be a string";
}

static const char *number(const struct kg_node *value, enum schema_draft draft,
                          const struct kg_node **ret_at)
{
    (void)draft, (void)ret_at;
    return value->type == KG_NUMBER ? NULL : "must be a number";
}

static const char *divisor(const struct kg_node *value, enum schema_draft draft,
                           const struct kg_node **ret_at)
{
    (void)draft, (void)ret_at;
    if (value->type != KG_NUMBER || !schema_number_is_positive(value->text))
        return "must be a number above 0";
    return schema_number_digits(value->text) <= SCHEMA_DIGITS_MAX ? NULL
                                                                  : "must have at most 18 digits";
}

static const char *keywords_count(const struct kg_node *value, enum schema_draft draft,
                                  const struct kg_node **ret_at)
{
    (void)draft, (void)ret_at;
    uint64_t ignored;
    if (value->type != KG_NUMBER || !schema_number_count(value->text, &ignored))
        return "must be an integer of at least 0";
    return NULL;
}

static const char *array(const struct kg_node *value, enum schema_draft draft,
                         const struct kg_node **ret_at)
{
    (void)draft, (void)ret_at;
    return value->type == KG_ARRAY ? NULL : "must be an array";
}

static const char *object(const struct kg_node *value, enum schema_draft draft,
                          const struct kg_node **ret_at)
{
    (void)draft, (void)ret_at;
    return value->type == KG_OBJECT ? NULL : "must be an object";
}

static const char *strings(const struct kg_node *value, enum schema_draft draft,
                           const struct kg_node **ret_at)
{
    (void)draft;
    if (value->type != KG_ARRAY)
        return "must be an array of strings";
    struct kg_map *seen = kg_map_new();
    const char *problem = NULL;
    for (uint32_t i = 0; i < value->count && problem == NULL; i++) {
        *ret_at = &value->items[i];
        if (value->items[i].type != KG_STRING)
            problem = "must be a string";
        else if (kg_map_get(seen, value->items[i].text) != NULL)
            problem = "is in the list twice";
        else
            kg_map_set(seen, value->items[i].text, &value->items[i]);
    }
    kg_map_free(seen);
    return problem;
}

static const char *strings_map(const struct kg_node *value, enum schema_draft draft,
                               const struct kg_node **ret_at)
{
    if (value->type != KG_OBJECT)
        return "must be an object of arrays of strings";
    const char *problem = NULL;
    for (uint32_t i = 0; i < value->count && problem == NULL; i++) {
        *ret_at = &value->members[i].value;
        problem = strings(*ret_at, draft, ret_at);
    }
    return problem;
}

#define TYPES "array, boolean, integer, null, number, object, string"

static const char *type(const struct kg_node *value, enum schema_draft draft,
                        const struct kg_node **ret_at)
{
    if (value->type == KG_STRING)
        return type_bit(value) ? NULL : "must be one of " TYPES;
    if (value->type != KG_ARRAY || value->count == 0)
        return "must be the name of a type or an array of names";
    const char *problem = strings(value, draft, ret_at);
    for (uint32_t i = 0; i < value->count && problem == NULL; i++) {
        *ret_at = &value->items[i];
        if (!type_bit(&value->items[i]))
            problem = "must be one of " TYPES;
    }
    return problem;
}

static const char *id(const struct kg_node *value, enum schema_draft draft,
                      const struct kg_node **ret_at)
{
    (void)ret_at;
    if (value->type != KG_STRING)
        return "must be a string";
    if (value->text.length > SCHEMA_URI_MAX)
        return "must be at most 1024 bytes long";
    const char *fragment =
        value->text.length ? memchr(value->text.data, '#', value->text.length) : NULL;
    bool empty = fragment == NULL || fragment + 1 == value->text.data + value->text.length;
    return empty || draft == SCHEMA_DRAFT_7 ? NULL : "must not have a fragment; use $anchor";
}

static bool is_anchor(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++) {
        char c = text.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        bool later = kg_is_digit(c) || c == '-' || c == '.';
        if (!letter && !(later && i > 0))
            return false;
    }
    return text.length > 0 && text.length <= SCHEMA_URI_MAX;
}

static const char *anchor(const struct kg_node *value, enum schema_draft draft,
                          const struct kg_node **ret_at)
{
    (void)draft, (void)ret_at;
    return value->type == KG_STRING && is_anchor(value->text)
               ? NULL
               : "must be a name of letters, digits, '-', '_' and '.'";
}

static const char *schema(const struct kg_node *value, enum schema_draft draft,
                          const struct kg_node **ret_at)
{
    (void)draft, (void)ret_at;
    return is_schema(value) ? NULL : "must be a schema: an object, true or false";
}

static const char *schema_list(const struct kg_node *value, enum schema_draft draft,
                               const struct kg_node **ret_at)
{
    if (value->type != KG_ARRAY || value->count == 0)
        return "must be an array of at least one schema";
    const char *problem = NULL;
    for (uint32_t i = 0; i < value->count && problem == NULL; i++) {
        *ret_at = &value->items[i];
        problem = schema(*ret_at, draft, ret_at);
    }
    return problem;
}

static const char *schema_map(const struct kg_node *value, enum schema_draft draft,
                              const struct kg_node **ret_at)
{
    if (value->type != KG_OBJECT)
        return "must be an object of schemas";
    const char *problem = NULL;
    for (uint32_t i = 0; i < value->count && problem == NULL; i++) {
        *ret_at = &value->members[i].value;
        problem = schema(*ret_at, draft, ret_at);
    }
    return problem;
}

static const char *items(const struct kg_node *value, enum schema_draft draft,
                         const struct kg_node **ret_at)
{
    if (value->type == KG_ARRAY && draft == SCHEMA_DRAFT_7)
        return schema_list(value, draft, ret_at);
    if (value->type == KG_ARRAY)
        return "must be a schema; a list of them is called prefixItems";
    return schema(value, draft, ret_at);
}

static const char *dependencies(const struct kg_node *value, enum schema_draft draft,
                                const struct kg_node **ret_at)
{
    if (value->type != KG_OBJECT)
        return "must be an object";
    const char *problem = NULL;
    for (uint32_t i = 0; i < value->count && problem == NULL; i++) {
        *ret_at = &value->members[i].value;
        if (!is_schema(*ret_at))
            problem = strings(*ret_at, draft, ret_at);
    }
    return problem;
}

static shape_check *const shape_checks[SCHEMA_SHAPE_COUNT] = {
    [SCHEMA_IS_ANY] = any,
    [SCHEMA_IS_BOOLEAN] = boolean,
    [SCHEMA_IS_STRING] = string,
    [SCHEMA_IS_NUMBER] = number,
    [SCHEMA_IS_DIVISOR] = divisor,
    [SCHEMA_IS_COUNT] = keywords_count,
    [SCHEMA_IS_ARRAY] = array,
    [SCHEMA_IS_OBJECT] = object,
    [SCHEMA_IS_STRINGS] = strings,
    [SCHEMA_IS_STRINGS_MAP] = strings_map,
    [SCHEMA_IS_TYPE] = type,
    [SCHEMA_IS_ID] = id,
    [SCHEMA_IS_ANCHOR] = anchor,
    [SCHEMA_IS_SCHEMA] = schema,
    [SCHEMA_IS_SCHEMA_LIST] = schema_list,
    [SCHEMA_IS_SCHEMA_MAP] = schema_map,
    [SCHEMA_IS_ITEMS] = items,
    [SCHEMA_IS_DEPENDENCIES] = dependencies,
};

const char *schema_shape_problem(enum schema_keyword keyword, enum schema_draft draft,
                                 const struct kg_node *value, const struct kg_node **ret_at)
{
    const struct kg_node *at = value;
    const char *problem = shape_checks[schema_keywords[keyword].shape](value, draft, &at);
    if (problem != NULL)
        *ret_at = at;
    return problem;
}
