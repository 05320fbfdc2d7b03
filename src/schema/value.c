/*
 * JSON values by their meaning: members in any order, numbers by size. Every walk pays from a
 * budget of work, so that values chosen to be slow only end the check.
 */
#include "schema/internal.h"

static bool containers_equal(const struct kg_node *a, const struct kg_node *b, uint64_t *work)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i<a->count && * work> 0; i++) {
        const struct kg_member *other = NULL;
        if (a->type == KG_OBJECT) {
            other = kg_node_member(b, a->members[i].key);
            if (other == NULL)
                return false;
        }
        const struct kg_node *item_a = other ? &a->members[i].value : &a->items[i];
        const struct kg_node *item_b = other ? &other->value : &b->items[i];
        if (!schema_value_equal(item_a, item_b, work))
            return false;
    }
    return true;
}

bool schema_value_equal(const struct kg_node *a, const struct kg_node *b, uint64_t *work)
{
    schema_work(work, 1);
    if (a->type != b->type)
        return false;
    switch ((enum kg_type)a->type) {
    case KG_NULL:
        return true;
    case KG_BOOL:
        return a->boolean == b->boolean;
    case KG_NUMBER:
        if (a->is_small && b->is_small)
            return a->small == b->small;
        schema_work(work, (a->text.length + b->text.length) / 32);
        return schema_number_equal(a->text, b->text);
    case KG_STRING:
        schema_work(work, a->text.length / 64);
        return kg_str_equal(a->text, b->text);
    case KG_ARRAY:
    case KG_OBJECT:
        return containers_equal(a, b, work);
    }
    return false;
}

static uint64_t mix(uint64_t hash)
{
    hash = (hash ^ hash >> 32) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

/* Items by their order; members by their sum, since their order means nothing. */
static uint64_t container_hash(const struct kg_node *node, uint64_t *work)
{
    uint64_t hash = node->count;
    for (uint32_t i = 0; i<node->count && * work> 0; i++) {
        if (node->type == KG_ARRAY)
            hash = mix(hash) + schema_value_hash(&node->items[i], work);
        else
            hash += mix(kg_hash(node->members[i].key) ^
                        mix(schema_value_hash(&node->members[i].value, work)));
    }
    return mix(hash ^ node->type);
}

uint64_t schema_value_hash(const struct kg_node *node, uint64_t *work)
{
    schema_work(work, 1);
    switch ((enum kg_type)node->type) {
    case KG_NULL:
        return 1;
    case KG_BOOL:
        return 2 + node->boolean;
    case KG_NUMBER:
        schema_work(work, node->text.length / 32);
        return mix(schema_number_hash(node->text));
    case KG_STRING:
        schema_work(work, node->text.length / 64);
        return kg_hash(node->text);
    case KG_ARRAY:
    case KG_OBJECT:
        return container_hash(node, work);
    }
    return 0;
}

void schema_value_copy(struct kg_builder *builder, const struct kg_node *node)
{
    struct kg_arena *arena = kg_builder_arena(builder);
    if (node->type != KG_ARRAY && node->type != KG_OBJECT) {
        struct kg_node copy = *node;
        if (node->type == KG_STRING || node->type == KG_NUMBER)
            copy.text = kg_arena_str(arena, node->text);
        kg_builder_value(builder, copy);
        return;
    }
    kg_builder_open(builder, node->type, node->line, node->column);
    for (uint32_t i = 0; i < node->count; i++) {
        if (node->type == KG_OBJECT) {
            const struct kg_member *member = &node->members[i];
            kg_builder_key(builder, kg_arena_str(arena, member->key), member->key_line,
                           member->key_column);
            schema_value_copy(builder, &member->value);
        } else {
            schema_value_copy(builder, &node->items[i]);
        }
    }
    kg_builder_close(builder);
}

size_t schema_value_nodes(const struct kg_node *node)
{
    size_t nodes = 1;
    bool container = node->type == KG_ARRAY || node->type == KG_OBJECT;
    for (uint32_t i = 0; container && i < node->count; i++)
        nodes +=
            schema_value_nodes(node->type == KG_ARRAY ? &node->items[i] : &node->members[i].value);
    return nodes;
}

size_t schema_value_bytes(const struct kg_node *node)
{
    if (node->type == KG_STRING || node->type == KG_NUMBER)
        return node->text.length;
    size_t bytes = 0;
    bool container = node->type == KG_ARRAY || node->type == KG_OBJECT;
    for (uint32_t i = 0; container && i < node->count; i++)
        bytes += node->type == KG_ARRAY
                     ? schema_value_bytes(&node->items[i])
                     : node->members[i].key.length + schema_value_bytes(&node->members[i].value);
    return bytes;
}
