/*
 * The first exchange, rule by rule, in one process: what the daemon asks of the answer to
 * initialize, and a little more. The last rule ends the process by shutdown alone.
 */
#include "kit/run.h"

#include "supervisor/supervisor.h"

void kit_check_cage_start(struct kit_run *run)
{
    struct kg_err err = {0};
    run->talk = kit_talk_new(run, &err);
    if (run->talk != NULL)
        return;
    if (run->room->interrupted)
        kit_be_unclear(run, "interrupted");
    else
        kit_find(run, run->rule, KG_STR(""), KG_STR(""), "%s%s%s", err.message,
                 err.hint[0] ? "; " : "", err.hint);
}

/* -- initialize -------------------------------------------------------------------------------- */

static const struct kit_ask *no_result(struct kit_run *run, const struct kit_ask *hello)
{
    struct kit_seat *seat = run->talk->seat;
    const struct cage_exit *how = helper_child_exit(seat->child);
    if (how != NULL && !how->built) {
        kit_find(run, KIT_RULE_CAGE_START, KG_STR(""), helper_child_errors(seat->child),
                 "its command could not be run in its cage");
        kit_be_unclear(run, "it does not start");
    } else if (hello->answer == KIT_NO_ANSWER && !kit_has_found(run, KIT_RULE_INITIALIZE_SILENCE)) {
        kit_find_no_answer(run, run->rule, hello, "initialize");
    } else if (hello->answer == KIT_ERROR) {
        kit_find(run, run->rule, kg_buf_view(&hello->sent), kg_buf_view(&hello->payload),
                 "initialize is answered with an error");
    } else {
        kit_be_unclear(run, "what came cannot be read as an answer");
    }
    run->talk->spent = true;
    return NULL;
}

void kit_check_initialize_answer(struct kit_run *run)
{
    struct kg_err err = {0};
    if (run->talk == NULL) {
        kit_be_unclear(run, "it does not start");
        return;
    }
    const struct kit_ask *hello = kit_send_initialize(run);
    if (hello->answer != KIT_RESULT) {
        no_result(run, hello);
        return;
    }
    run->hello = kg_json_read(kg_buf_view(&hello->payload), &err);
    if (run->hello != NULL && run->hello->root->type == KG_OBJECT)
        return;
    kit_find(run, run->rule, kg_buf_view(&hello->sent), kg_buf_view(&hello->payload), "%s",
             run->hello != NULL ? "the result of initialize is not an object" : err.message);
    kg_doc_free(kg_steal(&run->hello));
    run->talk->spent = true;
}

/* The answer, or NULL, and the rule is unclear. */
static const struct kg_node *hello_of(struct kit_run *run)
{
    if (run->hello == NULL)
        kit_be_unclear(run, "initialize was not answered");
    return run->hello != NULL ? run->hello->root : NULL;
}

/* What the daemon kills for ends the handshake. */
static void check_handshake_reject(struct kit_run *run, const struct kg_node *node,
                                   const char *sentence)
{
    kg_auto(kg_buf_free) struct kg_buf came = {0};
    struct kg_json_writer json = kg_json_writer(&came);
    if (node != NULL)
        kg_json_node(&json, node);
    kit_find(run, run->rule, KG_STR("initialize"), kg_buf_view(&came), "%s", sentence);
    run->talk->spent = true;
}

static void check_handshake_check_text(struct kit_run *run, const char *key, const char *expected)
{
    const struct kg_node *hello = hello_of(run);
    const struct kg_node *claimed = hello ? kg_node_get(hello, key) : NULL;
    if (hello == NULL)
        return;
    if (claimed != NULL && claimed->type == KG_STRING && kg_str_is(claimed->text, expected))
        return;
    kg_auto(kg_free) char *sentence =
        kg_format("\"%s\" is %s; the manifest says \"%s\"", key,
                  claimed == NULL ? "not there" : "another", expected);
    check_handshake_reject(run, claimed, sentence);
}

void kit_check_initialize_name(struct kit_run *run)
{
    check_handshake_check_text(run, "name", kit_manifest(run)->name);
}

void kit_check_initialize_version(struct kit_run *run)
{
    check_handshake_check_text(run, "version", kit_manifest(run)->version);
}

void kit_check_initialize_api(struct kit_run *run)
{
    const struct kg_node *hello = hello_of(run);
    const struct kg_node *claimed = hello ? kg_node_get(hello, "api_version") : NULL;
    int64_t version;
    if (hello == NULL ||
        (claimed != NULL && kg_node_int(claimed, &version) && version == DIALECT_API_VERSION))
        return;
    check_handshake_reject(run, claimed, "\"api_version\" is not the number 1");
}

/* -- lists ------------------------------------------------------------------------------------- */

/* The list, or NULL: there is none, or it cannot be used, which is told. */
static const struct kg_node *check_handshake_list_of(struct kit_run *run, const char *key)
{
    const struct kg_node *hello = hello_of(run);
    const struct kg_node *list = hello ? kg_node_get(hello, key) : NULL;
    if (dialect_is_list(list))
        return list;
    kg_auto(kg_free) char *sentence =
        kg_format("\"%s\" is not a list of short strings, or too long", key);
    check_handshake_reject(run, list, sentence);
    return NULL;
}

static bool list_has(const struct kg_node *list, const char *text)
{
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (kg_str_is(list->items[i].text, text))
            return true;
    return false;
}

/* A tool among the methods is harmless. */
void kit_check_initialize_methods(struct kit_run *run)
{
    const struct manifest *manifest = kit_manifest(run);
    const struct kg_node *list = check_handshake_list_of(run, "methods");
    for (size_t i = 0; run->hello != NULL && i < run->target_count; i++) {
        struct kit_target *target = &run->targets[i];
        if (target->is_tool)
            continue;
        target->offered = list_has(list, target->method);
        if (!target->offered && !kit_talk_is_spent(run->talk))
            kit_find(run, run->rule, KG_STR("initialize"), KG_STR(""),
                     "\"methods\" lacks %s, which the manifest has: it cannot be called",
                     target->method);
    }
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        struct kg_str name = list->items[i].text;
        if (!kg_list_has(manifest->method_names, name) &&
            manifest_tool_called(manifest, name) == NULL)
            kit_find(run, run->rule, KG_STR("initialize"), name,
                     "\"methods\" has %.*s, which the manifest does not",
                     KG_STR_CUT(name, KG_CUT_NAME));
    }
}

void kit_check_initialize_notifications(struct kit_run *run)
{
    const struct kg_node *list = check_handshake_list_of(run, "notifications");
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        struct kg_str name = list->items[i].text;
        if (!kg_list_has(kit_manifest(run)->notifications, name))
            kit_find(run, run->rule, KG_STR("initialize"), name,
                     "\"notifications\" has %.*s, which the manifest does not",
                     KG_STR_CUT(name, KG_CUT_NAME));
    }
}

void kit_check_initialize_capabilities(struct kit_run *run)
{
    const struct kg_node *list = check_handshake_list_of(run, "capabilities_used");
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        kg_auto(capability_free) struct capability claimed = {0};
        if (capability_parse(list->items[i].text, &claimed, NULL) == 0 &&
            capability_set_covers(&kit_manifest(run)->capability_set, &claimed))
            continue;
        check_handshake_reject(run, &list->items[i],
                               "it claims a capability that its manifest does not declare");
    }
}

/* -- after the answer -------------------------------------------------------------------------- */

/* Whether the handshake went well so far; else the rule is unclear. */
static bool goes_on(struct kit_run *run)
{
    if (run->hello != NULL && !kit_talk_is_spent(run->talk))
        return true;
    kit_be_unclear(run, "its handshake did not succeed");
    return false;
}

void kit_check_config_start(struct kit_run *run)
{
    if (!goes_on(run))
        return;
    const struct kit_ask *told = kit_send_config(run, kg_buf_view(&run->room->settings));
    if (told == NULL || told->answer == KIT_RESULT || kit_is_error(told, KG_E_METHOD_NOT_FOUND) ||
        kit_is_error(told, KG_E_NOT_INITIALIZED))
        return;
    kit_find(run, run->rule, kg_buf_view(&told->sent), kg_buf_view(&told->payload),
             "it refuses its first configuration, so it is not started");
    run->talk->spent = true;
}

void kit_check_initialized_lives(struct kit_run *run)
{
    if (!goes_on(run))
        return;
    kit_send_initialized(run);
    kit_settle(run);
    if (helper_child_exit(run->talk->seat->child) != NULL)
        kit_find_end(run, run->rule);
}

void kit_check_shutdown_notification(struct kit_run *run)
{
    if (!goes_on(run))
        return;
    kit_talk_notify(run->talk, "shutdown", KG_STR("{}"));
    kit_expect_exit(run, "{\"jsonrpc\":\"2.0\",\"method\":\"shutdown\",\"params\":{}}");
}
