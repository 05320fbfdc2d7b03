/*
 * What is spoken with kaged-lua. It is our own program, but what it runs is not: it is held to the
 * rules of every plugin. A script is loaded as the last step of the greeting, and may ask for
 * things from then on; that it could not be loaded is in its log, and it goes on with what it
 * registered.
 */
#include "dialect/internal.h"
#include "dialect/own.h"

#define REGISTERED_MAX ((size_t)1 << 20)

enum step { INITIALIZE, LOAD };

static void dialect_script_put_greeting(struct dialect_talk *talk, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    kg_json_begin(&json, '{');
    dialect_put_identity(talk, &json);
    kg_json_named_text(&json, "plugin_version", talk->version);
    kg_json_end(&json, '}');
}

static int dialect_script_take_initialize(struct dialect_talk *talk, enum peer_outcome outcome,
                                          struct kg_str payload)
{
    if (outcome != PEER_RESULT)
        return dialect_fail_initialize(talk, outcome, payload);
    peer_set_phase(talk->peer, PEER_OPEN);
    return LOAD;
}

/* What the host made of the file, the conversation and the configuration is what it is told. */
static void put_load(struct dialect_talk *talk, struct kg_buf *ret_json)
{
    kg_buf_str(ret_json, talk->config.length > 0 ? kg_buf_view(&talk->config) : KG_STR("{}"));
}

static int take_load(struct dialect_talk *talk, enum peer_outcome outcome, struct kg_str payload)
{
    struct kg_str problem;
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    if (outcome == PEER_ERROR)
        rpc_error_message(payload, &words);
    else if (outcome != PEER_RESULT)
        return dialect_fail(talk, "it was not loaded within %llu ms",
                            (unsigned long long)talk->timeout_ms);
    else if (kg_json_member(payload, "error", &problem))
        kg_buf_str(&words, problem);
    if (words.length > 0)
        kg_log_about(KG_ERROR_LEVEL, talk->name, "plugin '%s': %" KG_S_CAUSE, talk->plugin,
                     kg_buf_terminate(&words));
    return GREETING_DONE;
}

static const struct dialect_step steps[] = {
    [INITIALIZE] = {.method = "initialize",
                    .put_params = dialect_script_put_greeting,
                    .take = dialect_script_take_initialize},
    [LOAD] = {.method = "script.load", .put_params = put_load, .take = take_load},
};

/* Its tools are called STEM.TOOL, or STEM__TOOL as models write it. */
static int call_tool(struct dialect_call *call, const struct dialect_message *message,
                     struct kg_err *err)
{
    struct kg_str name = kg_str_from(message->method, strlen(call->talk->plugin));
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "name", kg_str_from(name, kg_str_starts(name, "__") ? 2 : 1));
    kg_json_named_raw(&json, "input", message->params.length > 0 ? message->params : KG_STR("{}"));
    kg_json_end(&json, '}');
    struct kg_str view = kg_buf_view(&params);
    return dialect_send(call, KG_STR("script.tool"), &view, 1, err);
}

static int dialect_script_call(struct dialect_call *call, const struct dialect_message *message,
                               struct kg_err *err)
{
    struct kg_str params = message->params.length > 0 ? message->params : KG_STR("{}");
    if (message->act == DIALECT_TOOL)
        return call_tool(call, message, err);
    return dialect_send(call, message->method, &params, 1, err);
}

static enum dialect_hearing dialect_script_on_notification(struct dialect_talk *talk,
                                                           struct kg_str method,
                                                           struct kg_str params)
{
    if (!kg_str_is(method, "script.registered"))
        return talk->ops->may_notify(talk->data, method) ? DIALECT_NEWS : DIALECT_REFUSED;
    if (params.length > REGISTERED_MAX)
        return DIALECT_REFUSED;
    talk->tools.length = 0;
    kg_buf_str(&talk->tools, params);
    if (talk->ops->on_tools != NULL)
        talk->ops->on_tools(talk->data);
    return DIALECT_TAKEN;
}

const struct dialect dialect_script = {
    .name = "script",
    .rules = DIALECT_OWN_RULES,
    .shutdown = "shutdown",
    .ping = "ping",
    .check_pong = dialect_check_pong,
    .steps = steps,
    .put_greeting = dialect_script_put_greeting,
    .on_notification = dialect_script_on_notification,
    .knows = {[DIALECT_METHOD] = true, [DIALECT_TOOL] = true},
    .call = dialect_script_call,
};
