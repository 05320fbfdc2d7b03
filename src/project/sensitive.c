/*
 * Which settings must not be shown: those whose schema says "sensitive": true, itself or anywhere
 * in it. When in doubt, a value is hidden.
 */
#include "project/internal.h"

#define TARGETS_MAX 32 /* of references, for one key */

/* What references lead to is looked at once: they may go round. */
struct targets {
    const struct kg_node *items[TARGETS_MAX];
    size_t count;
};

struct search {
    const struct kg_node *root;
    size_t *work;
    struct targets wholes, parts; /* looked at by hides, and by sensitive_is_within */
};

enum target { TARGET_NONE, TARGET_KNOWN, TARGET_NEW, TARGET_UNCLEAR };

/* What "#/$defs/secret" leads to; NULL if it is not that plain. */
static const struct kg_node *target_of(const struct kg_node *root, struct kg_str reference)
{
    const struct kg_node *node = root;
    if (reference.length == 0 || reference.data[0] != '#')
        return NULL;
    size_t at = 1;
    while (at < reference.length && node != NULL) {
        const char *start = reference.data + at + 1;
        size_t rest = reference.length - at - 1;
        const char *slash = reference.data[at] == '/' ? memchr(start, '/', rest) : NULL;
        struct kg_str key = {start, slash ? (size_t)(slash - start) : rest};
        const struct kg_member *member =
            reference.data[at] == '/' ? kg_node_member(node, key) : NULL;
        node = member ? &member->value : NULL;
        at += 1 + key.length;
    }
    return node;
}

static const struct kg_node *reference_of(const struct kg_node *schema)
{
    const struct kg_node *reference = kg_node_typed(schema, "$ref", KG_STRING);
    return reference ? reference : kg_node_typed(schema, "$dynamicRef", KG_STRING);
}

/* What a schema refers to, if it has not been looked at. */
static enum target sensitive_follow(const struct search *search, struct targets *seen,
                                    const struct kg_node *schema, const struct kg_node **ret_target)
{
    const struct kg_node *reference = reference_of(schema);
    const struct kg_node *target = reference ? target_of(search->root, reference->text) : NULL;
    if (target == NULL)
        return reference ? TARGET_UNCLEAR : TARGET_NONE;
    for (size_t i = 0; i < seen->count; i++)
        if (seen->items[i] == target)
            return TARGET_KNOWN;
    if (seen->count == TARGETS_MAX)
        return TARGET_UNCLEAR;
    seen->items[seen->count++] = *ret_target = target;
    return TARGET_NEW;
}

/* Whether anything within a schema, or in what it refers to, is sensitive. */
static bool sensitive_is_within(struct search *search, const struct kg_node *node)
{
    if (*search->work == 0)
        return true;
    (*search->work)--;
    const struct kg_node *mark = kg_node_get(node, "sensitive"), *target = NULL;
    if (mark != NULL && mark->type == KG_BOOL && mark->boolean)
        return true;
    enum target found = sensitive_follow(search, &search->parts, node, &target);
    if (found == TARGET_UNCLEAR || (found == TARGET_NEW && sensitive_is_within(search, target)))
        return true;
    bool is_list = node->type == KG_ARRAY;
    for (uint32_t i = 0; (is_list || node->type == KG_OBJECT) && i < node->count; i++)
        if (sensitive_is_within(search, is_list ? &node->items[i] : &node->members[i].value))
            return true;
    return false;
}

static bool hides(struct search *search, const struct kg_node *schema, struct kg_str key);

static bool any_hides(struct search *search, const struct kg_node *schemas, struct kg_str key)
{
    for (uint32_t i = 0; schemas != NULL && schemas->type == KG_ARRAY && i < schemas->count; i++)
        if (hides(search, &schemas->items[i], key))
            return true;
    return false;
}

/* Whether a schema of an object makes the property of that name sensitive. */
static bool hides(struct search *search, const struct kg_node *schema, struct kg_str key)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    static const char *const schemas[] = {"if", "then", "else"};
    static const char *const others[] = {"patternProperties", "additionalProperties",
                                         "unevaluatedProperties", "dependentSchemas"};
    if (*search->work == 0)
        return true;
    (*search->work)--;
    const struct kg_node *target = NULL;
    const struct kg_member *property = kg_node_member(kg_node_get(schema, "properties"), key);
    enum target found = sensitive_follow(search, &search->wholes, schema, &target);
    if (found == TARGET_UNCLEAR || (found == TARGET_NEW && hides(search, target, key)) ||
        (property != NULL && sensitive_is_within(search, &property->value)))
        return true;
    for (size_t i = 0; i < KG_COUNT(lists); i++)
        if (any_hides(search, kg_node_get(schema, lists[i]), key))
            return true;
    for (size_t i = 0; i < KG_COUNT(schemas); i++)
        if (kg_node_get(schema, schemas[i]) && hides(search, kg_node_get(schema, schemas[i]), key))
            return true;
    for (size_t i = 0; i < KG_COUNT(others); i++)
        if (kg_node_get(schema, others[i]) &&
            sensitive_is_within(search, kg_node_get(schema, others[i])))
            return true;
    return false;
}

bool project_is_sensitive(const struct kg_node *schema, struct kg_str key, size_t *work)
{
    struct search search = {.root = schema, .work = work};
    return schema != NULL && key.length > 0 && hides(&search, schema, key);
}

bool project_schema_is_sensitive(const struct kg_node *schema)
{
    size_t work = SENSITIVE_WORK_MAX;
    struct search search = {.root = schema, .work = &work};
    return sensitive_is_within(&search, schema);
}

bool project_hides(const struct manifest *manifest, const char *key)
{
    size_t work = SENSITIVE_WORK_MAX;
    return project_is_sensitive(manifest->config_schema_node, kg_str(key), &work);
}
