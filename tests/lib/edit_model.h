/* What an edit of one key shall do, said once more and plainly: a copy of the tree with that
 * change. */
#ifndef KAGED_TEST_EDIT_MODEL_H
#define KAGED_TEST_EDIT_MODEL_H

#include "base/json/json.h"

#include <stdlib.h>

static inline bool edit_model_container(const struct kg_node *node)
{
    return node->type == KG_ARRAY || node->type == KG_OBJECT;
}

/* 1.50 may stay where 1.5 was asked for; an integer is no float. */
static inline bool edit_model_same_number(struct kg_str a, struct kg_str b)
{
    int64_t integer;
    if (kg_str_equal(a, b))
        return true;
    if (kg_str_to_int(a, &integer) || kg_str_to_int(b, &integer))
        return false;
    kg_auto(kg_free) char *text_a = kg_str_dup(a);
    kg_auto(kg_free) char *text_b = kg_str_dup(b);
    return strtod(text_a, NULL) == strtod(text_b, NULL);
}

/* Maps in any order. */
static inline bool edit_model_same(const struct kg_node *a, const struct kg_node *b)
{
    if (a->type != b->type || a->flavor != b->flavor || a->boolean != b->boolean)
        return false;
    if (a->type == KG_NUMBER)
        return edit_model_same_number(a->text, b->text);
    if (!edit_model_container(a))
        return a->type != KG_STRING || kg_str_equal(a->text, b->text);
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct kg_member *member =
            a->type == KG_OBJECT ? kg_node_member(b, a->members[i].key) : NULL;
        if (a->type == KG_OBJECT &&
            (member == NULL || !edit_model_same(&a->members[i].value, &member->value)))
            return false;
        if (a->type == KG_ARRAY && !edit_model_same(&a->items[i], &b->items[i]))
            return false;
    }
    return true;
}

/* A shallow copy of a map without one key, with room for one more; anything else is an empty map.
 */
static inline struct kg_node edit_model_without(struct kg_arena *arena, const struct kg_node *map,
                                                struct kg_str key)
{
    uint32_t count = map && map->type == KG_OBJECT ? map->count : 0;
    struct kg_node copy = {.type = KG_OBJECT};
    copy.members = kg_arena_alloc(arena, (count + 1) * sizeof(*copy.members));
    for (uint32_t i = 0; i < count; i++)
        if (!kg_str_equal(map->members[i].key, key))
            copy.members[copy.count++] = map->members[i];
    return copy;
}

/*
 * The tree with the key at path set, or removed if value is NULL. Up to `drop` maps around a
 * removed key go too if nothing else is in them, as TOML tables without a header do.
 */
static inline struct kg_node edit_model(struct kg_arena *arena, const struct kg_node *before,
                                        const char *const *path, size_t count,
                                        const struct kg_node *value, size_t drop)
{
    if (count == 0)
        return *value;
    struct kg_str key = kg_str(path[0]);
    const struct kg_member *old = before ? kg_node_member(before, key) : NULL;
    struct kg_node copy = edit_model_without(arena, before, key);
    struct kg_node below = {.type = KG_NULL};
    if (count > 1 || value != NULL)
        below = edit_model(arena, old ? &old->value : NULL, path + 1, count - 1, value, drop);
    bool goes = value == NULL && (count == 1 || (count - 1 <= drop && below.count == 0));
    if (!goes)
        copy.members[copy.count++] = (struct kg_member){.key = key, .value = below};
    return copy;
}

#endif
