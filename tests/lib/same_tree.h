/* Whether two trees hold the same values in the same order, wherever they stood in their texts. */
#ifndef KAGED_TEST_SAME_TREE_H
#define KAGED_TEST_SAME_TREE_H

#include "base/json/json.h"

static inline bool same_tree(const struct kg_node *a, const struct kg_node *b)
{
    if (a->type != b->type || a->boolean != b->boolean || a->count != b->count)
        return false;
    if (a->type == KG_STRING || a->type == KG_NUMBER)
        return kg_str_equal(a->text, b->text);
    for (uint32_t i = 0; a->type == KG_ARRAY && i < a->count; i++)
        if (!same_tree(&a->items[i], &b->items[i]))
            return false;
    for (uint32_t i = 0; a->type == KG_OBJECT && i < a->count; i++)
        if (!kg_str_equal(a->members[i].key, b->members[i].key) ||
            !same_tree(&a->members[i].value, &b->members[i].value))
            return false;
    return true;
}

#endif
