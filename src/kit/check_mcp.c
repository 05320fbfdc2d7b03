/*
 * What an MCP server says of itself: its greeting, which the daemon's own row does, its tools as
 * the daemon would learn them, and how it answers and leaves.
 */
#include "kit/run.h"

#include <stdlib.h>

/* -- when a rule applies ----------------------------------------------------------------------- */

const char *kit_applies_legacy(const struct kit_run *run)
{
    return run->variant == DIALECT_MCP_MODERN ? "its era has no ping" : NULL;
}

static const char *applies_if(const struct kit_run *run, const char *method, const char *reason)
{
    const struct kg_node *capabilities =
        run->hello != NULL ? kg_node_typed(run->hello->root, "capabilities", KG_OBJECT) : NULL;
    return kg_node_typed(capabilities, method, KG_OBJECT) != NULL ? NULL : reason;
}

const char *kit_applies_resources(const struct kit_run *run)
{
    return applies_if(run, "resources", "it has no resources");
}

const char *kit_applies_prompts(const struct kit_run *run)
{
    return applies_if(run, "prompts", "it has no prompts");
}

/* -- the greeting ------------------------------------------------------------------------------ */

static void find_ungreeted(struct kit_run *run)
{
    struct kit_talk *talk = run->talk;
    struct kit_seat *seat = talk->seat;
    const struct cage_exit *how = helper_child_exit(seat->child);
    if (how != NULL && !how->built) {
        kit_find(run, KIT_RULE_CAGE_START, KG_STR(""), helper_child_errors(seat->child),
                 "its command could not be run in its cage");
        kit_be_unclear(run, "it does not start");
    } else if (talk->greeting->failed != NULL) {
        kit_finding_quote(kit_find(run, run->rule, kg_buf_view(&talk->last_sent), KG_STR(""), "%s",
                                   talk->greeting->failed),
                          helper_child_errors(seat->child));
    } else {
        const struct kit_ask *asked = talk->asks[talk->ask_count - 1];
        kit_find_no_answer(run, run->rule, asked, asked->method);
    }
    talk->spent = true;
}

void kit_check_mcp_greeting(struct kit_run *run)
{
    if (run->talk == NULL) {
        kit_be_unclear(run, "it does not start");
        return;
    }
    if (!kit_talk_greet(run->talk, DIALECT_UNKNOWN, run->options->timeout_ms * 2)) {
        find_ungreeted(run);
        return;
    }
    run->variant = run->talk->greeting->talk.variant;
    run->shook_hands = true;
    const struct kit_ask *hello = kit_talk_asked(
        run->talk, run->variant == DIALECT_MCP_MODERN ? "server/discover" : "initialize");
    run->hello = kg_json_read(kg_buf_view(&hello->payload), NULL);
    kg_buf_str(&run->tools, kg_buf_view(&run->talk->greeting->talk.tools));
}

static bool was_greeted(struct kit_run *run)
{
    if (run->hello == NULL)
        kit_be_unclear(run, "its handshake did not succeed");
    return run->hello != NULL;
}

static void find_lacking(struct kit_run *run, const char *words)
{
    const struct kit_ask *hello = kit_talk_asked(
        run->talk, run->variant == DIALECT_MCP_MODERN ? "server/discover" : "initialize");
    kit_find(run, run->rule, kg_buf_view(&hello->sent), kg_buf_view(&hello->payload), "%s", words);
}

/* A modern one names itself elsewhere, if at all. */
void kit_check_mcp_info(struct kit_run *run)
{
    if (!was_greeted(run))
        return;
    const struct kg_node *root = run->hello->root;
    const struct kg_node *info = kg_node_typed(root, "serverInfo", KG_OBJECT);
    bool is_named = kg_node_typed(info, "name", KG_STRING) != NULL &&
                    kg_node_typed(info, "version", KG_STRING) != NULL;
    if (kg_node_typed(root, "capabilities", KG_OBJECT) == NULL)
        find_lacking(run, "its answer has no object capabilities: nothing of it is used");
    else if (run->variant != DIALECT_MCP_MODERN && !is_named)
        find_lacking(run, "its answer has no serverInfo with a name and a version");
}

/* -- its tools --------------------------------------------------------------------------------- */

static void add_targets(struct kit_run *run)
{
    const struct manifest *manifest = run->learned;
    run->targets = kg_alloc_array(manifest->tool_count + 1, sizeof(*run->targets));
    run->target_count = manifest->tool_count;
    for (size_t i = 0; i < manifest->tool_count; i++) {
        const struct manifest_tool *tool = &manifest->tools[i];
        run->targets[i] = (struct kit_target){
            .method = kg_strdup(tool->name),
            .is_tool = true,
            .offered = true,
            .params = tool->parameters,
            .result = tool->output,
            .document = tool->parameters_node,
            .timeout_ms = tool->timeout_ms,
        };
    }
}

static void check_input_schema(struct kit_run *run, const struct manifest_tool *tool)
{
    const struct kg_node *schema = kg_node_typed(tool->node, "inputSchema", KG_OBJECT);
    kg_auto(kg_buf_free) struct kg_buf came = {0};
    if (schema != NULL && kg_str_is(kg_node_text(schema, "type"), "object"))
        return;
    kg_json_put_node(&came, tool->node);
    kit_find(run, run->rule, KG_STR("tools/list"), kg_buf_view(&came),
             "the tool %s has no inputSchema of type object", tool->name);
}

/* As the daemon learns them: what it leaves out can be offered to nobody. */
void kit_check_mcp_tools(struct kit_run *run)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0}, found = {0};
    if (!was_greeted(run))
        return;
    run->learned = manifest_load(run->room->dir, &problems);
    if (run->learned == NULL) {
        kit_be_unclear(run, "its manifest changed meanwhile");
        return;
    }
    manifest_learn_tools(run->learned, kg_buf_view(&run->tools), &found);
    add_targets(run);
    for (size_t i = 0; i < found.count; i++)
        kit_find(run, run->rule, KG_STR("tools/list"), KG_STR(""), "%s", found.items[i].message);
    for (size_t i = 0; i < run->learned->tool_count; i++)
        check_input_schema(run, &run->learned->tools[i]);
}

void kit_check_mcp_described(struct kit_run *run)
{
    if (run->learned == NULL) {
        kit_be_unclear(run, "its handshake did not succeed");
        return;
    }
    for (size_t i = 0; i < run->learned->tool_count; i++) {
        const struct manifest_tool *tool = &run->learned->tools[i];
        kg_auto(kg_buf_free) struct kg_buf words = {0};
        kg_json_put_node(&words, tool->node);
        if (tool->description[0] == '\0')
            kit_find(run, run->rule, KG_STR("tools/list"), KG_STR(""),
                     "the tool %s has no description", tool->name);
        if (!kg_str_is_plain(kg_buf_view(&words)))
            kit_find(run, run->rule, KG_STR("tools/list"), kg_buf_view(&words),
                     "the tool %s has invisible characters", tool->name);
    }
}

/* -- requests, and its end --------------------------------------------------------------------- */

void kit_check_mcp_ping(struct kit_run *run)
{
    const struct kit_question question = {.method = "ping", .params = KG_STR("{}")};
    const struct kit_ask *ask = kit_question(run, &question);
    if (ask == NULL)
        return;
    run->answers_ping = true;
    if (ask->answer != KIT_RESULT)
        kit_find(run, run->rule, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload),
                 "ping is answered with an error");
}

void kit_check_mcp_eof(struct kit_run *run)
{
    if (kit_open(run) == NULL)
        return;
    peer_close_input(run->talk->seat->peer);
    kit_expect_end(run, "the end of stdin");
}
