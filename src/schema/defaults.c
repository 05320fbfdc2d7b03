/*
 * Copies an instance and puts in the defaults of absent properties on the way. A set of subschemas
 * applies to each object: its own, and what $ref and allOf add. Defaults within defaults are put in
 * too, but never one within itself, and only so many in all.
 */
#include "schema/internal.h"

#include <stdlib.h>

#define SET_MAX            64      /* subschemas for one object */
#define DEFAULTS_MAX       10000   /* nodes that are put in */
#define DEFAULTS_BYTES_MAX 4194304 /* of their texts; no plugin could be told more */
#define CHAIN_MAX          16      /* defaults within defaults */

struct set {
    uint32_t *numbers; /* owned */
    uint32_t count;
};

struct filling {
    const struct schema *schema;
    struct kg_builder *builder;
    size_t left;               /* nodes that may still be put in */
    size_t bytes_left;         /* of their texts */
    uint32_t chain[CHAIN_MAX]; /* subschemas whose defaults are being filled */
    uint32_t chain_count;
};

static void defaults_fill(struct filling *filling, const struct kg_node *node,
                          const struct set *set);

static void set_free(struct set *set)
{
    free(set->numbers);
}

static bool set_has(const struct set *set, uint32_t number)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (set->numbers[i] == number)
            return true;
    return false;
}

static void defaults_set_add(struct set *set, uint32_t number)
{
    if (number == SCHEMA_NONE || set->count == SET_MAX || set_has(set, number))
        return;
    if ((set->count & (set->count - 1)) == 0)
        set->numbers =
            kg_realloc(set->numbers, (set->count ? set->count * 2 : 1) * sizeof(*set->numbers));
    set->numbers[set->count++] = number;
}

/* Adds what $ref and allOf lead to; the set grows while it is walked. */
static void set_close(struct set *set, const struct schema *schema)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct schema_subschema *subschema = &schema->subschemas[set->numbers[i]];
        for (uint32_t t = 0; t < subschema->test_count; t++) {
            const struct schema_test *test = &subschema->tests[t];
            bool follows = test->keyword == SCHEMA_K_REF || test->keyword == SCHEMA_K_ALL_OF;
            for (uint32_t j = 0; follows && j < test->target_count; j++)
                defaults_set_add(set, test->targets[j]);
        }
    }
}

static const struct schema_object *object_of(const struct schema *schema, uint32_t number)
{
    const struct schema_subschema *subschema = &schema->subschemas[number];
    for (uint32_t i = 0; i < subschema->test_count; i++)
        if (subschema->tests[i].keyword == SCHEMA_K_PROPERTIES)
            return subschema->tests[i].object;
    return NULL;
}

/* The subschemas that apply to a property of an object that the set applies to. */
static struct set property_set(const struct schema *schema, const struct set *set,
                               struct kg_str name)
{
    struct set found = {0};
    for (uint32_t i = 0; i < set->count; i++) {
        const struct schema_object *object = object_of(schema, set->numbers[i]);
        const struct schema_key *key = object ? schema_keys_find(&object->keys, name) : NULL;
        if (key != NULL)
            defaults_set_add(&found, key->target);
    }
    set_close(&found, schema);
    return found;
}

/* The first of the set that has a default, or SCHEMA_NONE. */
static uint32_t with_default(const struct schema *schema, const struct set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (schema->subschemas[set->numbers[i]].initial != SCHEMA_NONE)
            return set->numbers[i];
    return SCHEMA_NONE;
}

static bool may_put_in(struct filling *filling, uint32_t number, const struct kg_node *value)
{
    size_t nodes = schema_value_nodes(value), bytes = schema_value_bytes(value);
    if (nodes > filling->left || bytes > filling->bytes_left || filling->chain_count == CHAIN_MAX)
        return false;
    for (uint32_t i = 0; i < filling->chain_count; i++)
        if (filling->chain[i] == number)
            return false;
    filling->left -= nodes;
    filling->bytes_left -= bytes;
    return true;
}

static void defaults_put_key(struct filling *filling, struct kg_str name, uint32_t line,
                             uint32_t column)
{
    kg_builder_key(filling->builder, kg_arena_str(kg_builder_arena(filling->builder), name), line,
                   column);
}

static void defaults_put_default(struct filling *filling, const struct kg_node *object,
                                 const struct set *set, struct kg_str name)
{
    const struct schema *schema = filling->schema;
    kg_auto(set_free) struct set property = property_set(schema, set, name);
    uint32_t number = with_default(schema, &property);
    if (number == SCHEMA_NONE)
        return;
    const struct kg_node *value = schema_value(schema, schema->subschemas[number].initial);
    if (!may_put_in(filling, number, value))
        return;
    defaults_put_key(filling, name, object->line, object->column);
    filling->chain[filling->chain_count++] = number;
    defaults_fill(filling, value, &property);
    filling->chain_count--;
}

/* Each absent property once, whichever subschemas name it. */
static void defaults_put_defaults(struct filling *filling, const struct kg_node *object,
                                  const struct set *set)
{
    struct kg_map *done = kg_map_new();
    for (uint32_t i = 0; i < set->count; i++) {
        const struct schema_object *rules = object_of(filling->schema, set->numbers[i]);
        for (uint32_t k = 0; rules != NULL && k < rules->keys.count; k++) {
            struct kg_str name = rules->keys.keys[k].name;
            if (rules->keys.keys[k].target == SCHEMA_NONE || kg_map_get(done, name) != NULL ||
                kg_node_member(object, name) != NULL)
                continue;
            kg_map_set(done, name, done);
            defaults_put_default(filling, object, set, name);
        }
    }
    kg_map_free(done);
}

static void defaults_fill(struct filling *filling, const struct kg_node *node,
                          const struct set *set)
{
    if (node->type != KG_OBJECT || set->count == 0) {
        schema_value_copy(filling->builder, node);
        return;
    }
    kg_builder_open(filling->builder, KG_OBJECT, node->line, node->column);
    for (uint32_t i = 0; i < node->count; i++) {
        const struct kg_member *member = &node->members[i];
        kg_auto(set_free) struct set property = property_set(filling->schema, set, member->key);
        defaults_put_key(filling, member->key, member->key_line, member->key_column);
        defaults_fill(filling, &member->value, &property);
    }
    defaults_put_defaults(filling, node, set);
    kg_builder_close(filling->builder);
}

struct kg_doc *schema_with_defaults(const struct schema *schema, const struct kg_node *instance)
{
    struct filling filling = {.schema = schema,
                              .builder = kg_builder_new(),
                              .left = DEFAULTS_MAX,
                              .bytes_left = DEFAULTS_BYTES_MAX};
    kg_auto(set_free) struct set set = {0};
    defaults_set_add(&set, 0);
    set_close(&set, schema);
    defaults_fill(&filling, instance, &set);
    struct kg_doc *doc = kg_builder_finish(filling.builder);
    kg_builder_free(filling.builder);
    return doc;
}
