/*
 * Settings of the type `path` are capabilities: the plugin may read and write where they point. How
 * far that can be is told by what the values must begin with, never by what they are at the moment.
 */
#include "manifest/manifest.h"

#include <stdlib.h>

bool manifest_knob_is_path(const struct manifest_knob *knob)
{
    return strcmp(knob->type, "path") == 0;
}

struct kg_str manifest_knob_default(const struct manifest *manifest,
                                    const struct manifest_knob *knob)
{
    const struct kg_node *properties = kg_node_get(manifest->config_schema_node, "properties");
    const struct kg_node *field = kg_node_get(properties, knob->field);
    const struct kg_node *preset = kg_node_get(field, "default");
    return preset != NULL && preset->type == KG_STRING ? preset->text : KG_STR_NULL;
}

bool manifest_knob_allows(const struct manifest_knob *knob, struct kg_str value)
{
    const struct kg_node *prefixes = kg_node_typed(knob->node, "prefixes", KG_ARRAY);
    for (uint32_t i = 0; prefixes != NULL && i < prefixes->count; i++) {
        const struct kg_node *prefix = &prefixes->items[i];
        if (prefix->type == KG_STRING && value.length >= prefix->text.length &&
            memcmp(value.data, prefix->text.data, prefix->text.length) == 0)
            return true;
    }
    return false;
}

/* -- how far they reach ------------------------------------------------------------------------ */

/* The published schema knows no prefixes but "config:" and "project:". */
static void reach_add(struct manifest_reaches *reaches, const struct manifest_knob *knob,
                      const struct kg_node *prefix)
{
    if (prefix->type != KG_STRING)
        return;
    reaches->items = kg_realloc(reaches->items, (reaches->count + 1) * sizeof(*reaches->items));
    reaches->items[reaches->count++] =
        (struct manifest_reach){knob, kg_format("%.*s/", KG_STR_ARG(prefix->text))};
}

struct manifest_reaches manifest_reaches_of(const struct manifest *manifest)
{
    struct manifest_reaches reaches = {0};
    for (size_t i = 0; i < manifest->knob_count; i++) {
        const struct manifest_knob *knob = &manifest->knobs[i];
        if (!manifest_knob_is_path(knob))
            continue;
        const struct kg_node *prefixes = kg_node_typed(knob->node, "prefixes", KG_ARRAY);
        for (uint32_t k = 0; prefixes != NULL && k < prefixes->count; k++)
            reach_add(&reaches, knob, &prefixes->items[k]);
    }
    return reaches;
}

void manifest_reaches_free(struct manifest_reaches *reaches)
{
    for (size_t i = 0; i < reaches->count; i++)
        free(reaches->items[i].prefix);
    free(reaches->items);
    *reaches = (struct manifest_reaches){0};
}

/* -- as capabilities --------------------------------------------------------------------------- */

static int as_capability(const struct manifest_reach *reach, struct capability *ret_capability)
{
    kg_auto(kg_free) char *text = kg_format("write:fs:%s", reach->prefix);
    return capability_parse(kg_str(text), ret_capability, NULL);
}

bool manifest_reach_is_dangerous(const struct manifest_reach *reach, const char **ret_reason)
{
    kg_auto(capability_free) struct capability capability = {0};
    return as_capability(reach, &capability) == 0 &&
           capability_is_dangerous(&capability, ret_reason);
}

bool manifest_reach_is_covered(const struct manifest_reach *reach, const struct manifest *manifest,
                               const struct manifest_reaches *reaches)
{
    kg_auto(capability_free) struct capability capability = {0};
    for (size_t i = 0; i < reaches->count; i++)
        if (kg_str_starts(kg_str(reach->prefix), reaches->items[i].prefix))
            return true;
    return as_capability(reach, &capability) == 0 &&
           capability_set_covers(&manifest->capability_set, &capability);
}
