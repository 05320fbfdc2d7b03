/*
 * Tools that a server told of, and that the operator approved. They were read by a person, but
 * written by a stranger: a tool whose name or schema cannot be used is left out, and the others
 * stay.
 */
#include "manifest/internal.h"

#include <stdio.h>

#define TOOL_NAME_MAX 128

static const struct kg_problem_row unusable = {"tool_unusable", KG_SEVERITY_WARNING,
                                               "A tool that a server told of cannot be offered."};

bool manifest_mcp_tool_name_is_valid(struct kg_str name)
{
    for (size_t i = 0; i < name.length; i++) {
        char c = name.data[i];
        if (!kg_is_letter_or_digit(c) && c != '_' && c != '.' && c != '-')
            return false;
    }
    return name.length > 0 && name.length <= TOOL_NAME_MAX;
}

/* False: there is one, and it cannot be used. */
static bool learned_compile(const struct kg_node *node, struct schema **ret_schema,
                            struct kg_err *err)
{
    const struct schema_options options = {.draft = SCHEMA_DRAFT_2020_12, .formats = true};
    if (node == NULL)
        return true;
    if (node->type != KG_OBJECT && node->type != KG_BOOL)
        return kg_fail(err, KG_E_INVALID_MANIFEST, "it is not a schema") == 0;
    *ret_schema = schema_compile(node, &options, err);
    return *ret_schema != NULL;
}

/* The timeout that the manifest has for it by name. */
static uint64_t learned_timeout_of(const struct manifest *manifest, struct kg_str name)
{
    const struct kg_node *timeouts = kg_node_typed(manifest->doc->root, "timeouts", KG_OBJECT);
    const struct kg_member *member = timeouts ? kg_node_member(timeouts, name) : NULL;
    int64_t seconds;
    return member != NULL && kg_node_int(&member->value, &seconds) ? (uint64_t)seconds * 1000 : 0;
}

static const char *learned_take_tool(struct manifest *manifest, const struct kg_node *node,
                                     struct manifest_tool *ret_tool, struct kg_err *err)
{
    struct kg_str name = kg_node_text(node, "name");
    if (!manifest_mcp_tool_name_is_valid(name))
        return "its name is not 1 to 128 characters of A-Z a-z 0-9 _ . -";
    *ret_tool = (struct manifest_tool){
        .name = kg_arena_text(manifest->tools_doc->arena, name),
        .description = kg_arena_text(manifest->tools_doc->arena, kg_node_text(node, "description")),
        .timeout_ms = learned_timeout_of(manifest, name),
        .parameters_node = kg_node_get(node, "inputSchema"),
        .node = node,
    };
    if (manifest_tool_find(manifest, name) != NULL)
        return "another tool has that name";
    if (learned_compile(ret_tool->parameters_node, &ret_tool->parameters, err) &&
        learned_compile(kg_node_get(node, "outputSchema"), &ret_tool->output, err))
        return NULL;
    schema_free(kg_steal(&ret_tool->parameters));
    return err->message;
}

void manifest_learn_tools(struct manifest *manifest, struct kg_str tools,
                          struct kg_problems *problems)
{
    struct kg_err err = {0};
    manifest->tools_doc = kg_json_read(tools, &err);
    if (manifest->tools_doc == NULL || manifest->tools_doc->root->type != KG_ARRAY)
        return;
    const struct kg_node *list = manifest->tools_doc->root;
    size_t count = list->count < MANIFEST_LEARNED_MAX ? list->count : MANIFEST_LEARNED_MAX;
    manifest->tools =
        kg_realloc(manifest->tools, (count + 1) * sizeof(*manifest->tools)); /* it had none */
    if (count < list->count)
        kg_problems_add(problems, &unusable, 0, 0, NULL,
                        "%u tools are left out: only the first %d of a server are offered",
                        list->count - MANIFEST_LEARNED_MAX, MANIFEST_LEARNED_MAX);
    for (size_t i = 0; i < count; i++) {
        struct manifest_tool *tool = &manifest->tools[manifest->tool_count];
        const char *wrong = learned_take_tool(manifest, &list->items[i], tool, &err);
        if (wrong == NULL)
            manifest->tool_count++;
        else
            kg_problems_add(problems, &unusable, list->items[i].line, list->items[i].column, NULL,
                            "the tool \"%.*s\" is left out: %" KG_S_PATH,
                            KG_STR_CUT(kg_node_text(&list->items[i], "name"), KG_CUT_WORD), wrong);
    }
}
