/*
 * The tools of an agent for a model, from one source for both dialects. Names on that side are
 * narrower than ours, so each tool has a second one; where two would be the same, the second plugin
 * was refused when the project was resolved.
 */
#include "project/internal.h"

#include <stdio.h>

#define DESCRIPTION_MAX 1024 /* characters of a description that OpenAI takes */
#define DESCRIPTION_CUT "..."
#define ANY_OBJECT      "{\"type\":\"object\",\"properties\":{}}"
#define NO_OBJECT       "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}"
#define TYPED_OBJECT    "{\"type\":\"object\","

/* -- names ------------------------------------------------------------------------------------- */

const char *project_wire_name(struct kg_arena *arena, const char *name)
{
    kg_auto(kg_buf_free) struct kg_buf wire = {0};
    manifest_model_name_put(kg_str(name), &wire);
    return project_keep(arena, kg_buf_view(&wire));
}

static const struct project_tool *project_tools_find(const struct project_resolved_agent *agent,
                                                     struct kg_str name, bool by_wire_name,
                                                     const struct project_use **ret_use)
{
    for (size_t i = 0; i < agent->use_count; i++) {
        const struct project_use *use = &agent->uses[i];
        for (size_t k = 0; use->state == PROJECT_READY && k < use->plugin->tool_count; k++) {
            const struct project_tool *tool = &use->plugin->tools[k];
            if (!use->tools[k] || !kg_str_is(name, by_wire_name ? tool->wire_name : tool->name))
                continue;
            *ret_use = use;
            return tool;
        }
    }
    return NULL;
}

const struct project_tool *project_tool_find(const struct project_resolved_agent *agent,
                                             struct kg_str name, const struct project_use **ret_use)
{
    return project_tools_find(agent, name, false, ret_use);
}

const struct project_tool *project_tool_called(const struct project_resolved_agent *agent,
                                               struct kg_str wire_name,
                                               const struct project_use **ret_use)
{
    return project_tools_find(agent, wire_name, true, ret_use);
}

const struct project_handoff *project_handoff_find(const struct project_resolved_agent *agent,
                                                   struct kg_str name)
{
    for (size_t i = 0; i < agent->handoff_count; i++) {
        const struct project_handoff *handoff = &agent->handoffs[i];
        if (handoff->enabled &&
            (kg_str_is(name, handoff->tool.name) || kg_str_is(name, handoff->tool.wire_name)))
            return handoff;
    }
    return NULL;
}

/* -- definitions ------------------------------------------------------------------------------- */

/* Arguments are an object, and both APIs want the schema to say so. */
static void project_tools_put_parameters(struct kg_json_writer *json, const char *parameters)
{
    struct kg_str schema = kg_str(parameters);
    struct kg_str type;
    if (parameters == NULL || kg_str_is(schema, "true") || kg_str_is(schema, "{}")) {
        kg_json_raw(json, KG_STR(ANY_OBJECT));
    } else if (kg_str_is(schema, "false")) {
        kg_json_raw(json, KG_STR(NO_OBJECT));
    } else if (kg_json_member(schema, "type", &type)) {
        kg_json_raw(json, schema);
    } else {
        kg_auto(kg_buf_free) struct kg_buf typed = {0};
        kg_buf_text(&typed, TYPED_OBJECT);
        kg_buf_append(&typed, schema.data + 1, schema.length - 1);
        kg_json_raw(json, kg_buf_view(&typed));
    }
}

/* Of so many characters at most. */
static void put_description(struct kg_json_writer *json, const char *text, size_t max)
{
    kg_auto(kg_buf_free) struct kg_buf cut = {0};
    size_t characters = 0, keep = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        characters += ((unsigned char)text[i] & 0xC0) != 0x80;
        if (characters <= max - strlen(DESCRIPTION_CUT))
            keep = i + 1;
    }
    if (characters <= max) {
        kg_json_text(json, text);
        return;
    }
    kg_buf_append(&cut, text, keep);
    kg_buf_text(&cut, DESCRIPTION_CUT);
    kg_json_str(json, kg_buf_view(&cut));
}

static void put_neutral(struct kg_json_writer *json, const struct project_tool *tool)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", tool->wire_name);
    kg_json_key(json, "description");
    put_description(json, tool->description, DESCRIPTION_MAX);
    kg_json_key(json, "parameters");
    project_tools_put_parameters(json, tool->parameters);
    kg_json_end(json, '}');
}

static void put_openai(struct kg_json_writer *json, const struct project_tool *tool)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "type", "function");
    kg_json_key(json, "function");
    put_neutral(json, tool);
    kg_json_end(json, '}');
}

static void put_anthropic(struct kg_json_writer *json, const struct project_tool *tool)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", tool->wire_name);
    kg_json_named_text(json, "description", tool->description);
    kg_json_key(json, "input_schema");
    project_tools_put_parameters(json, tool->parameters);
    kg_json_end(json, '}');
}

void project_tools_json(const struct project_resolved_agent *agent, enum project_dialect dialect,
                        struct kg_json_writer *json)
{
    static void (*const put[])(struct kg_json_writer *, const struct project_tool *) = {
        [PROJECT_OPENAI] = put_openai,
        [PROJECT_ANTHROPIC] = put_anthropic,
        [PROJECT_NEUTRAL] = put_neutral,
    };
    kg_json_begin(json, '[');
    for (size_t i = 0; i < agent->use_count; i++)
        for (size_t k = 0; agent->uses[i].plugin && k < agent->uses[i].plugin->tool_count; k++)
            if (agent->uses[i].tools[k])
                put[dialect](json, &agent->uses[i].plugin->tools[k]);
    for (size_t i = 0; i < agent->handoff_count; i++)
        if (agent->handoffs[i].enabled)
            put[dialect](json, &agent->handoffs[i].tool);
    kg_json_end(json, ']');
}
