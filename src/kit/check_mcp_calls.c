/*
 * Tools, resources and prompts of an MCP server, and whether what they give can be used. That they
 * answer at all is looked at by the checks of check_calls.c.
 */
#include "kit/run.h"

#include "kit/generate.h"

#define ITEMS_MAX   8 /* of a list that are read */
#define INVALID_MAX 6 /* wrong arguments for each tool */

static void check_mcp_calls_find_in(struct kit_run *run, const struct kit_ask *ask,
                                    const char *words)
{
    kit_find(run, run->rule, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload), "%s", words);
}

static const struct kit_ask *
check_mcp_calls_call(struct kit_run *run, const struct kit_target *target, struct kg_str arguments)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    const char *method = kit_put_call(run, target, KIT_OF_AGENT, arguments, &params);
    const struct kit_question question = {
        .method = method, .params = kg_buf_view(&params), .timeout_ms = target->timeout_ms};
    return kit_question(run, &question);
}

/* Whether the answer says that it did not work. */
static bool is_failure(const struct kit_ask *ask)
{
    struct kg_str is_error;
    return ask->answer == KIT_ERROR ||
           (kg_json_member(kg_buf_view(&ask->payload), "isError", &is_error) &&
            kg_str_is(is_error, "true"));
}

/* Each tool that has answered, in a server that lives. */
static void each_tool(struct kit_run *run,
                      void (*check)(struct kit_run *run, const struct kit_target *target))
{
    bool any = false;
    for (size_t i = 0; i < run->target_count; i++) {
        if (!run->targets[i].works)
            continue;
        any = true;
        if (kit_open(run) == NULL)
            return;
        check(run, &run->targets[i]);
    }
    if (!any)
        kit_be_unclear(run, "nothing in it answers");
}

/* -- content ----------------------------------------------------------------------------------- */

static const struct {
    const char *type, *needs[2];
} blocks[] = {
    {"text", {"text"}},
    {"image", {"data", "mimeType"}},
    {"audio", {"data", "mimeType"}},
    {"resource_link", {"uri", "name"}},
    {"resource", {"resource"}},
};

/* What is wrong with it, or NULL. */
static const char *block_fault(const struct kg_node *block)
{
    struct kg_str type = kg_node_text(block, "type");
    for (size_t i = 0; i < KG_COUNT(blocks); i++) {
        if (!kg_str_is(type, blocks[i].type))
            continue;
        for (size_t k = 0; k < KG_COUNT(blocks[i].needs) && blocks[i].needs[k] != NULL; k++)
            if (kg_node_get(block, blocks[i].needs[k]) == NULL)
                return "a block of content lacks what its type needs";
        return NULL;
    }
    return "a block of content has a type that is not part of MCP";
}

static const char *content_fault(const struct kg_node *list)
{
    const char *fault = NULL;
    if (list == NULL || list->type != KG_ARRAY)
        return "the result has no list content";
    for (uint32_t i = 0; i < list->count && fault == NULL; i++)
        fault = block_fault(&list->items[i]);
    return fault;
}

/* -- results of tools -------------------------------------------------------------------------- */

static void check_structured(struct kit_run *run, const struct kit_target *target,
                             const struct kit_ask *ask, const struct kg_node *result)
{
    const struct kg_node *given = kg_node_get(result, "structuredContent");
    kg_auto(schema_report_free) struct schema_report report = {0};
    if (target->result == NULL || is_failure(ask))
        return;
    if (given == NULL) {
        check_mcp_calls_find_in(
            run, ask, "the tool has an outputSchema, and its result no structuredContent");
        return;
    }
    if (schema_check(target->result, given, &report))
        return;
    kit_find(run, run->rule, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload),
             "structuredContent of %s does not fit outputSchema: %.*s", target->method,
             KG_STR_CUT(report.count > 0 ? report.errors[0].message : KG_STR(""), KG_CUT_PATH));
}

static void check_mcp_calls_check_result(struct kit_run *run, const struct kit_target *target)
{
    kg_auto(kit_instances_free) struct kit_instances valid = {.count = 0};
    if (target->params != NULL)
        kit_generate_valid(target->document, target->params, &valid);
    const struct kit_ask *ask = check_mcp_calls_call(
        run, target, valid.count > 0 ? kg_str(valid.items[0].json) : KG_STR("{}"));
    if (ask == NULL || ask->answer != KIT_RESULT)
        return;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&ask->payload), NULL);
    const struct kg_node *result = doc != NULL ? doc->root : NULL;
    if (kg_str_is(kg_node_text(result, "resultType"), "input_required"))
        return; /* nobody is there who could give it */
    const char *fault = content_fault(kg_node_get(result, "content"));
    if (fault != NULL)
        check_mcp_calls_find_in(run, ask, fault);
    else
        check_structured(run, target, ask, result);
}

void kit_check_mcp_result(struct kit_run *run)
{
    each_tool(run, check_mcp_calls_check_result);
}

static void check_mcp_calls_check_invalid(struct kit_run *run, const struct kit_target *target)
{
    kg_auto(kit_instances_free) struct kit_instances wrong = {.count = 0};
    if (target->params == NULL)
        return;
    kit_generate_invalid(target->document, target->params, &wrong);
    for (size_t i = 0; i < wrong.count && i < INVALID_MAX; i++) {
        if (wrong.items[i].json[0] != '{')
            continue; /* that is another rule */
        const struct kit_ask *ask = check_mcp_calls_call(run, target, kg_str(wrong.items[i].json));
        if (ask == NULL || !kit_lives(run, ask))
            return;
        if (is_failure(ask))
            continue;
        kit_find(run, run->rule, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload),
                 "%s takes arguments that its inputSchema refuses: %s", target->method,
                 wrong.items[i].what);
        return;
    }
}

void kit_check_mcp_invalid(struct kit_run *run)
{
    each_tool(run, check_mcp_calls_check_invalid);
}

static void check_mcp_calls_check_types(struct kit_run *run, const struct kit_target *target)
{
    static const char *const odd[] = {"[1,\"two\",null]", "\"text\""};
    for (size_t i = 0; i < KG_COUNT(odd); i++) {
        const struct kit_ask *ask = check_mcp_calls_call(run, target, kg_str(odd[i]));
        if (ask == NULL || !kit_lives(run, ask))
            return;
    }
}

void kit_check_mcp_types(struct kit_run *run)
{
    each_tool(run, check_mcp_calls_check_types);
}

void kit_check_mcp_unknown_tool(struct kit_run *run)
{
    const struct kit_target nothing = {.method = (char *)"kit_no_such_tool"};
    const struct kit_ask *ask = check_mcp_calls_call(run, &nothing, KG_STR("{}"));
    if (ask != NULL && !is_failure(ask))
        check_mcp_calls_find_in(
            run, ask, "a call of a tool that it does not have is answered as if it had worked");
}

/* -- resources and prompts --------------------------------------------------------------------- */

/* The result of a method whose params have one member; NULL: there is none, which is told. */
static struct kg_doc *ask_for(struct kit_run *run, const char *method, const char *key,
                              struct kg_str value, const struct kit_ask **ret_ask)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    kg_json_begin(&json, '{');
    if (key != NULL)
        kg_json_named_str(&json, key, value);
    mcp_put_meta(&run->talk->greeting->talk, &json, 0, DIALECT_ANSWERS_ALL, NULL);
    kg_json_end(&json, '}');
    const struct kit_question question = {.method = method, .params = kg_buf_view(&params)};
    const struct kit_ask *ask = kit_question(run, &question);
    *ret_ask = ask;
    if (ask == NULL)
        return NULL;
    if (ask->answer == KIT_RESULT)
        return kg_json_read(kg_buf_view(&ask->payload), NULL);
    return NULL;
}

static struct kg_doc *check_mcp_calls_list_all(struct kit_run *run, const char *method,
                                               const char *items, const struct kg_node **ret_list)
{
    const struct kit_ask *ask;
    struct kg_doc *doc = ask_for(run, method, NULL, KG_STR_NULL, &ask);
    *ret_list = doc != NULL ? kg_node_typed(doc->root, items, KG_ARRAY) : NULL;
    if (ask != NULL && *ret_list == NULL)
        check_mcp_calls_find_in(run, ask, "what it declared cannot be listed");
    return doc;
}

static void check_contents(struct kit_run *run, const struct kit_ask *ask,
                           const struct kg_node *result)
{
    const struct kg_node *contents = kg_node_typed(result, "contents", KG_ARRAY);
    if (contents == NULL) {
        check_mcp_calls_find_in(run, ask, "the result has no list contents");
        return;
    }
    for (uint32_t i = 0; i < contents->count; i++)
        if (kg_node_typed(&contents->items[i], "text", KG_STRING) == NULL &&
            kg_node_typed(&contents->items[i], "blob", KG_STRING) == NULL)
            check_mcp_calls_find_in(run, ask, "contents have neither text nor blob");
}

void kit_check_mcp_resources(struct kit_run *run)
{
    const struct kg_node *list;
    kg_auto(kg_doc_cleanup) struct kg_doc *all =
        check_mcp_calls_list_all(run, "resources/list", "resources", &list);
    for (uint32_t i = 0; list != NULL && i < list->count && i < ITEMS_MAX; i++) {
        const struct kit_ask *ask = kit_talk_asked(run->talk, "resources/list");
        struct kg_str uri = kg_node_text(&list->items[i], "uri");
        if (uri.length == 0 || kg_node_text(&list->items[i], "name").length == 0) {
            check_mcp_calls_find_in(run, ask, "a resource has no uri, or no name");
            return;
        }
        if (kit_open(run) == NULL)
            return;
        kg_auto(kg_doc_cleanup) struct kg_doc *read =
            ask_for(run, "resources/read", "uri", uri, &ask);
        if (ask == NULL || !kit_lives(run, ask))
            return;
        if (read != NULL)
            check_contents(run, ask, read->root);
        else
            check_mcp_calls_find_in(run, ask, "a resource that it lists cannot be read");
    }
}

static void check_messages(struct kit_run *run, const struct kit_ask *ask,
                           const struct kg_node *result)
{
    const struct kg_node *messages = kg_node_typed(result, "messages", KG_ARRAY);
    if (messages == NULL)
        check_mcp_calls_find_in(run, ask, "the result has no list messages");
    for (uint32_t i = 0; messages != NULL && i < messages->count; i++) {
        const struct kg_node *content = kg_node_typed(&messages->items[i], "content", KG_OBJECT);
        struct kg_str role = kg_node_text(&messages->items[i], "role");
        if (content == NULL || block_fault(content) != NULL ||
            (!kg_str_is(role, "user") && !kg_str_is(role, "assistant")))
            check_mcp_calls_find_in(run, ask,
                                    "a message has no role of user or assistant, or no content");
    }
}

/* One that must have arguments may refuse to be got without them. */
static bool wants_arguments(const struct kg_node *prompt)
{
    const struct kg_node *list = kg_node_typed(prompt, "arguments", KG_ARRAY);
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (kg_node_is_true(&list->items[i], "required"))
            return true;
    return false;
}

void kit_check_mcp_prompts(struct kit_run *run)
{
    const struct kg_node *list;
    kg_auto(kg_doc_cleanup) struct kg_doc *all =
        check_mcp_calls_list_all(run, "prompts/list", "prompts", &list);
    for (uint32_t i = 0; list != NULL && i < list->count && i < ITEMS_MAX; i++) {
        const struct kit_ask *ask = kit_talk_asked(run->talk, "prompts/list");
        struct kg_str name = kg_node_text(&list->items[i], "name");
        if (name.length == 0) {
            check_mcp_calls_find_in(run, ask, "a prompt has no name");
            return;
        }
        if (kit_open(run) == NULL)
            return;
        kg_auto(kg_doc_cleanup) struct kg_doc *got =
            ask_for(run, "prompts/get", "name", name, &ask);
        if (ask == NULL || !kit_lives(run, ask))
            return;
        if (got != NULL)
            check_messages(run, ask, got->root);
        else if (!wants_arguments(&list->items[i]))
            check_mcp_calls_find_in(run, ask, "a prompt that needs no arguments cannot be got");
    }
}
