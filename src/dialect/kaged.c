/*
 * kaged's own protocol: see kaged-wire(7). initialize is sent, its answer is held against the
 * manifest, and only then is the plugin told `initialized` and called. A row of `checks` is one
 * thing that must agree.
 */
#include "dialect/internal.h"
#include "dialect/own.h"

#include <stdio.h>

/* What the plugin said of itself. */
struct answer {
    const struct kg_node *name, *version, *api_version, *methods, *notifications, *capabilities;
};

#define LIST_MAX    1024 /* what a manifest may have, too */
#define TEXT_MAX    256
#define LISTED_MAX  32 /* in one audit event */
#define REFUSAL_MAX 400

/* A list of short strings, or none. */
bool dialect_is_list(const struct kg_node *node)
{
    if (node == NULL)
        return true;
    if (node->type != KG_ARRAY || node->count > LIST_MAX)
        return false;
    for (uint32_t i = 0; i < node->count; i++)
        if (node->items[i].type != KG_STRING || node->items[i].text.length > TEXT_MAX)
            return false;
    return true;
}

static const char *kaged_read_answer(const struct kg_node *root, struct answer *ret_answer)
{
    struct answer answer = {
        .name = kg_node_get(root, "name"),
        .version = kg_node_get(root, "version"),
        .api_version = kg_node_get(root, "api_version"),
        .methods = kg_node_get(root, "methods"),
        .notifications = kg_node_get(root, "notifications"),
        .capabilities = kg_node_get(root, "capabilities_used"),
    };
    if (root->type != KG_OBJECT)
        return "the result of initialize is not an object";
    if (answer.name == NULL || answer.name->type != KG_STRING)
        return "the result of initialize has no string \"name\"";
    if (answer.version == NULL || answer.version->type != KG_STRING)
        return "the result of initialize has no string \"version\"";
    if (answer.api_version == NULL || answer.api_version->type != KG_NUMBER)
        return "the result of initialize has no number \"api_version\"";
    if (!dialect_is_list(answer.methods))
        return "\"methods\" in the result of initialize is not a list of short strings";
    if (!dialect_is_list(answer.notifications))
        return "\"notifications\" in the result of initialize is not a list of short strings";
    if (!dialect_is_list(answer.capabilities))
        return "\"capabilities_used\" in the result of initialize is not a list of short strings";
    *ret_answer = answer;
    return NULL;
}

static bool kaged_check_name(struct dialect_talk *talk, const struct answer *answer)
{
    struct kg_str claimed = answer->name->text;
    if (kg_str_is(claimed, talk->plugin))
        return true;
    audit_emit(talk->audit, AUDIT_PLUGIN_NAME_MISMATCH, KG_STR_NULL, AUDIT_V_TEXT(talk->name),
               AUDIT_V_STR(claimed));
    dialect_reject(talk, "it says that its name is \"%.*s\", the manifest says \"%s\"",
                   KG_STR_CUT(claimed, KG_CUT_NAME), talk->plugin);
    return false;
}

static bool kaged_check_version(struct dialect_talk *talk, const struct answer *answer)
{
    struct kg_str claimed = answer->version->text;
    if (kg_str_is(claimed, talk->version))
        return true;
    audit_emit(talk->audit, AUDIT_PLUGIN_VERSION_MISMATCH, KG_STR_NULL, AUDIT_V_TEXT(talk->name),
               AUDIT_V_STR(claimed), AUDIT_V_TEXT(talk->version));
    dialect_reject(talk, "it says that its version is \"%.*s\", the manifest says \"%s\"",
                   KG_STR_CUT(claimed, KG_CUT_NAME), talk->version);
    return false;
}

static bool check_api(struct dialect_talk *talk, const struct answer *answer)
{
    struct kg_str claimed = answer->api_version->text;
    int64_t api;
    if (kg_str_to_int(claimed, &api) && api == DIALECT_API_VERSION)
        return true;
    audit_emit(talk->audit, AUDIT_PLUGIN_API_MISMATCH, KG_STR_NULL, AUDIT_V_TEXT(talk->name),
               AUDIT_V_STR(claimed), AUDIT_V_INT(DIALECT_API_VERSION));
    dialect_reject(talk, "it speaks API version %.*s, the daemon speaks %d",
                   KG_STR_CUT(claimed, KG_CUT_NAME), DIALECT_API_VERSION);
    return false;
}

static void put_nodes(struct kg_buf *buf, const struct kg_node *list)
{
    struct kg_json_writer json = kg_json_writer(buf);
    kg_json_begin(&json, '[');
    for (uint32_t i = 0; i < list->count && i < LISTED_MAX; i++)
        kg_json_str(&json, list->items[i].text);
    kg_json_end(&json, ']');
}

static bool check_capabilities(struct dialect_talk *talk, const struct answer *answer)
{
    const struct kg_node *used = answer->capabilities;
    for (uint32_t i = 0; used != NULL && i < used->count; i++) {
        struct kg_str claimed = used->items[i].text;
        if (talk->ops->may_claim(talk->data, claimed))
            continue;
        kg_auto(kg_buf_free) struct kg_buf all = {0}, allowed = {0};
        put_nodes(&all, used);
        struct kg_json_writer json = kg_json_writer(&allowed);
        kg_json_list(&json, talk->capabilities);
        audit_emit(talk->audit, AUDIT_PLUGIN_CAPABILITY_OVERREACH, KG_STR_NULL,
                   AUDIT_V_TEXT(talk->name), AUDIT_V_RAW(kg_buf_view(&all)),
                   AUDIT_V_RAW(kg_buf_view(&allowed)));
        dialect_reject(talk,
                       "it claims the capability \"%.*s\", which its manifest does not declare",
                       KG_STR_CUT(claimed, KG_CUT_WORD));
        return false;
    }
    return true;
}

static bool node_has(const struct kg_node *list, const char *text)
{
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (kg_str_is(list->items[i].text, text))
            return true;
    return false;
}

/* Up to LISTED_MAX names, as a JSON list. */
struct names {
    struct kg_buf buf;
    struct kg_json_writer json;
    size_t count;
};

static void names_begin(struct names *names)
{
    names->json = kg_json_writer(&names->buf);
    kg_json_begin(&names->json, '[');
}

static void names_add(struct names *names, struct kg_str name)
{
    if (names->count++ < LISTED_MAX)
        kg_json_str(&names->json, name);
}

static struct kg_str names_end(struct names *names)
{
    kg_json_end(&names->json, ']');
    kg_buf_terminate(&names->buf);
    return kg_buf_view(&names->buf);
}

/* Methods that differ from the manifest are not a failure: missing ones are marked, extra ones
 * ignored. Published plugins list their tools, too. */
static bool check_methods(struct dialect_talk *talk, const struct answer *answer)
{
    struct names missing = {0}, extra = {0};
    names_begin(&missing);
    names_begin(&extra);
    for (size_t i = 0; talk->methods[i] != NULL; i++) {
        talk->method_offered[i] = node_has(answer->methods, talk->methods[i]);
        if (!talk->method_offered[i])
            names_add(&missing, kg_str(talk->methods[i]));
    }
    for (uint32_t i = 0; answer->methods != NULL && i < answer->methods->count; i++)
        if (!kg_list_has(talk->methods, answer->methods->items[i].text) &&
            !talk->ops->is_tool(talk->data, answer->methods->items[i].text))
            names_add(&extra, answer->methods->items[i].text);
    struct kg_str missing_list = names_end(&missing), extra_list = names_end(&extra);
    if (missing.count + extra.count > 0) {
        kg_log_about(KG_WARN, talk->name,
                     "its methods differ from the manifest: missing %" KG_S_CAUSE
                     ", extra %" KG_S_CAUSE,
                     missing_list.data, extra_list.data);
        audit_emit(talk->audit, AUDIT_PLUGIN_METHODS_DIFFER, KG_STR_NULL, AUDIT_V_TEXT(talk->name),
                   AUDIT_V_RAW(missing_list), AUDIT_V_RAW(extra_list));
    }
    kg_buf_free(&missing.buf);
    kg_buf_free(&extra.buf);
    return true;
}

static bool (*const checks[])(struct dialect_talk *talk, const struct answer *answer) = {
    kaged_check_name, kaged_check_version, check_api, check_capabilities, check_methods,
};

enum step { INITIALIZE, CONFIGURE, FINISH };

static int kaged_malformed(struct dialect_talk *talk, const char *problem)
{
    audit_emit(talk->audit, AUDIT_PLUGIN_PROTOCOL_VIOLATION, KG_STR_NULL, AUDIT_V_TEXT(talk->name),
               AUDIT_V_TEXT("malformed_initialize"), AUDIT_V_TEXT(problem));
    return dialect_fail(talk, "%s", problem);
}

static int kaged_finish(struct dialect_talk *talk)
{
    struct kg_err err;
    if (peer_notify(talk->peer, "initialized", KG_STR("{}"), &err) < 0)
        return dialect_fail(talk, "%s", err.message);
    return GREETING_DONE;
}

/* -- configuration ----------------------------------------------------------------------------- */

static void kaged_put_config(struct dialect_talk *talk, struct kg_buf *ret_json)
{
    kg_buf_str(ret_json, KG_STR("{\"config\":"));
    kg_buf_str(ret_json, talk->config.length ? kg_buf_view(&talk->config) : KG_STR("{}"));
    kg_buf_char(ret_json, '}');
}

/* The plugin's words, and what it says of the field. */
static void kaged_put_refusal(struct kg_buf *out, struct kg_str error)
{
    struct kg_str data;
    rpc_error_message(error, out);
    if (kg_json_member(error, "data", &data))
        kg_buf_printf(out, " %.*s", KG_STR_CUT(data, KG_CUT_WORD));
    kg_buf_terminate(out);
}

static int take_refusal(struct dialect_talk *talk, struct kg_str error)
{
    int64_t code = rpc_error_code(error);
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    if (code == kg_error_row(KG_E_METHOD_NOT_FOUND)->rpc_code) /* it takes none */
        return FINISH;
    if (code == kg_error_row(KG_E_NOT_INITIALIZED)->rpc_code) {
        talk->config_again = true;
        return FINISH;
    }
    kaged_put_refusal(&words, error);
    static const char format[] = "it refused its configuration: %" KG_S_PATH;
    return code == kg_error_row(KG_E_CONFIG_INVALID)->rpc_code
               ? dialect_reject(talk, format, words.data)
               : dialect_fail(talk, format, words.data);
}

/* Before `initialized`: an answer that counts for the handshake. */
static int kaged_take_config(struct dialect_talk *talk, enum peer_outcome outcome,
                             struct kg_str payload)
{
    switch (outcome) {
    case PEER_RESULT:
        return FINISH;
    case PEER_ERROR:
        return take_refusal(talk, payload);
    default:
        return dialect_fail(talk, "no answer to config.update in time");
    }
}

static void kaged_copy(struct kg_buf *ret_to, const struct kg_buf *from)
{
    ret_to->length = 0;
    kg_buf_str(ret_to, kg_buf_view(from));
}

/* What it did not take does not hold: it goes on with the last one that it took. */
static void kaged_keep_taken(struct dialect_talk *talk, const char *words)
{
    kg_log_about(KG_ERROR_LEVEL, talk->name, "it refused its new configuration: %" KG_S_PATH,
                 words);
    talk->config_refusals++;
    kg_buf_str(&talk->config_refused, kg_str(words));
    if (talk->config_refused.length > REFUSAL_MAX)
        talk->config_refused.length =
            kg_utf8_valid((struct kg_str){talk->config_refused.data, REFUSAL_MAX});
    if (kg_str_equal(kg_buf_view(&talk->config), kg_buf_view(&talk->config_told)))
        kaged_copy(&talk->config, &talk->config_taken);
}

/* While it runs. False: it counts as told, or the plugin ends for it. */
static bool refuses(struct dialect_talk *talk, bool is_first, struct kg_str error)
{
    int64_t code = rpc_error_code(error);
    bool takes_none = code == kg_error_row(KG_E_METHOD_NOT_FOUND)->rpc_code;
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    kaged_put_refusal(&words, error);
    if (is_first && takes_none)
        return false;
    if (is_first && code == kg_error_row(KG_E_CONFIG_INVALID)->rpc_code) {
        dialect_reject(talk, "it refused its configuration: %" KG_S_PATH, words.data);
        return false;
    }
    kaged_keep_taken(talk, takes_none ? "it takes no configuration while it runs" : words.data);
    return true;
}

static void configure(struct dialect_talk *talk);

/* One at a time, so that it is known which one it has: what came meanwhile is told now. */
static void on_config_told(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct dialect_talk *talk = data;
    bool is_first = talk->config_again;
    talk->config_again = false;
    talk->config_asked = false;
    if (outcome == PEER_GONE)
        return; /* waiting callers hear that its process ended */
    if (outcome != PEER_ERROR || !refuses(talk, is_first, payload))
        kaged_copy(&talk->config_taken, &talk->config_told);
    if (!kg_str_equal(kg_buf_view(&talk->config), kg_buf_view(&talk->config_taken)))
        configure(talk);
    talk->ops->on_configured(talk->data);
}

static void configure(struct dialect_talk *talk)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_err err;
    if (talk->config_asked)
        return;
    kaged_copy(&talk->config_told, &talk->config);
    talk->config_refused.length = 0;
    kaged_put_config(talk, &params);
    struct kg_str view = kg_buf_view(&params);
    const struct peer_call call = {
        .method = KG_STR("config.update"),
        .params = &view,
        .params_count = 1,
        .timeout_ms = talk->timeout_ms,
        .on_done = on_config_told,
        .data = talk,
    };
    talk->config_asked = peer_call(talk->peer, &call, NULL, &err) == 0;
    if (!talk->config_asked)
        kaged_keep_taken(talk, err.message);
}

/* -- initialize -------------------------------------------------------------------------------- */

static int kaged_take_result(struct dialect_talk *talk, struct kg_str result)
{
    struct kg_err err;
    struct answer answer;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(result, &err);
    const char *problem = doc ? kaged_read_answer(doc->root, &answer) : err.message;
    if (problem != NULL)
        return kaged_malformed(talk, problem);
    for (size_t i = 0; i < KG_COUNT(checks); i++)
        if (!checks[i](talk, &answer))
            return GREETING_FAILED;
    talk->config_again = false;
    return talk->config.length > 0 ? CONFIGURE : FINISH;
}

static int kaged_take_initialize(struct dialect_talk *talk, enum peer_outcome outcome,
                                 struct kg_str payload)
{
    if (outcome != PEER_RESULT)
        return dialect_fail_initialize(talk, outcome, payload);
    peer_set_phase(talk->peer, PEER_WAITING);
    return kaged_take_result(talk, payload);
}

static bool kaged_may_request(const struct dialect_talk *talk, const char *method)
{
    return talk->ops->may_request != NULL && talk->ops->may_request(talk->data, kg_str(method));
}

void dialect_put_identity(const struct dialect_talk *talk, struct kg_json_writer *json)
{
    kg_json_named_text(json, "daemon_version", KAGED_VERSION);
    kg_json_named_int(json, "api_version", DIALECT_API_VERSION);
    kg_json_named_text(json, "plugin_name", talk->plugin);
}

static void kaged_put_greeting(struct dialect_talk *talk, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    kg_json_begin(&json, '{');
    dialect_put_identity(talk, &json);
    kg_json_named_bool(&json, "storage_available", talk->ops->has_storage(talk->data));
    kg_json_key(&json, "projects");
    kg_json_begin(&json, '[');
    talk->ops->put_projects(talk->data, &json);
    kg_json_end(&json, ']');
    kg_json_named_begin(&json, "features", '[');
    kg_json_text(&json, "cancel");
    kg_json_text(&json, "progress");
    if (kaged_may_request(talk, "kaged.ask"))
        kg_json_text(&json, "ask");
    if (kaged_may_request(talk, "kaged.sample"))
        kg_json_text(&json, "sample");
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
}

static const struct dialect_step steps[] = {
    [INITIALIZE] = {.method = "initialize",
                    .put_params = kaged_put_greeting,
                    .take = kaged_take_initialize},
    [CONFIGURE] = {.method = "config.update",
                   .put_params = kaged_put_config,
                   .take = kaged_take_config},
    [FINISH] = {.act = kaged_finish},
};

/* -- calls ------------------------------------------------------------------------------------- */

/* What stands between the braces of a valid object. */
static struct kg_str inside_braces(struct kg_str object)
{
    struct kg_json_cursor cursor = {object.data, object.data + object.length};
    kg_json_skip_space(&cursor);
    const char *start = cursor.at + 1;
    const char *end = object.data + object.length;
    while (end[-1] != '}')
        end--;
    end--;
    cursor = (struct kg_json_cursor){start, end};
    kg_json_skip_space(&cursor);
    return (struct kg_str){cursor.at, (size_t)(end - cursor.at)};
}

/*
 * One exchange, whose answer is as it is: so it goes to the wire at once, without dialect_send, and
 * with no more pieces than there are. Every call of our own plugins passes here.
 */
static int kaged_send_call(struct dialect_call *call, struct kg_str method,
                           const struct kg_str *params, size_t params_count, struct kg_err *err)
{
    const struct peer_call wire = {
        .method = method,
        .params = params,
        .params_count = params_count,
        .timeout_ms = call->timeout_ms,
        .caller_timeout_ms = call->caller_timeout_ms,
        .on_done = call->on_done,
        .on_progress = call->on_progress,
        .data = call->data,
    };
    return peer_call(call->talk->peer, &wire, &call->id, err);
}

#define PIECES_MAX 7

/* Who calls, and with which settings, goes before the caller's own parameters. */
static size_t put_pieces(const struct dialect_message *message, struct kg_str params[PIECES_MAX])
{
    size_t count = 0;
    if (message->context.length == 0) {
        params[0] = message->params;
        return 1;
    }
    struct kg_str inner = message->params.length ? inside_braces(message->params) : KG_STR_NULL;
    params[count++] = KG_STR("{\"_context\":");
    params[count++] = message->context;
    if (message->config.length > 0) {
        params[count++] = KG_STR(",\"_config\":");
        params[count++] = message->config;
    }
    if (inner.length > 0) {
        params[count++] = KG_STR(",");
        params[count++] = inner;
    }
    params[count++] = KG_STR("}");
    return count;
}

static int dialect_kaged_call(struct dialect_call *call, const struct dialect_message *message,
                              struct kg_err *err)
{
    struct kg_str params[PIECES_MAX];
    size_t count = put_pieces(message, params);
    return kaged_send_call(call, message->method, params, count, err);
}

static void kaged_cancel(struct dialect_call *call)
{
    char params[32];
    snprintf(params, sizeof(params), "{\"id\":%llu}", (unsigned long long)call->id);
    (void)peer_notify(call->talk->peer, "kaged.cancel", kg_str(params), NULL);
}

const char *dialect_check_pong(struct kg_str result)
{
    struct kg_str status;
    return kg_json_member(result, "status", &status) && kg_str_is(status, "\"ok\"")
               ? NULL
               : "the answer is not {\"status\":\"ok\"}";
}

static enum dialect_hearing kaged_on_notification(struct dialect_talk *talk, struct kg_str method,
                                                  struct kg_str params)
{
    if (kg_str_is(method, "kaged.progress"))
        return dialect_hear_progress(talk, params, "id");
    return talk->ops->may_notify(talk->data, method) ? DIALECT_NEWS : DIALECT_REFUSED;
}

const struct dialect dialect_kaged = {
    .name = "kaged",
    .rules = DIALECT_OWN_RULES,
    .shutdown = "shutdown",
    .ping = "ping",
    .check_pong = dialect_check_pong,
    .steps = steps,
    .put_greeting = kaged_put_greeting,
    .configure = configure,
    .on_notification = kaged_on_notification,
    .knows = {[DIALECT_METHOD] = true,
              [DIALECT_TOOL] = true,
              [DIALECT_HOOK] = true,
              [DIALECT_PROJECT] = true},
    .tells_context = true,
    .call = dialect_kaged_call,
    .cancel = kaged_cancel,
};

/* -- the runner of packages -------------------------------------------------------------------- */

static char is_tools; /* in the state of a call: it is one of a tool */

static int call_package(struct dialect_call *call, const struct dialect_message *message,
                        struct kg_err *err)
{
    struct kg_str params[PIECES_MAX];
    size_t count = put_pieces(message, params);
    call->state = message->act == DIALECT_TOOL ? &is_tools : NULL;
    return dialect_send(call, message->method, params, count, err);
}

static void end_package_call(struct dialect_call *call)
{
    call->state = NULL;
}

/* What a tool shows ahead of the answer comes as progress, the answer as it is. */
static enum dialect_reading read_package(struct dialect_call *call, enum peer_outcome outcome,
                                         struct kg_str payload, struct kg_buf *ret_json)
{
    struct kg_str result, stream;
    if (outcome != PEER_RESULT || call->state == NULL)
        return DIALECT_AS_IT_IS;
    if (!kg_json_member(payload, "result", &result)) {
        kg_buf_text(ret_json, "{\"code\":-32603,\"message\":\"its answer has no result\"}");
        return DIALECT_ERROR;
    }
    if (call->on_progress != NULL && kg_json_member(payload, "stream", &stream)) {
        kg_buf_text(ret_json, "{\"progress\":1,\"stream\":");
        kg_buf_str(ret_json, stream);
        kg_buf_char(ret_json, '}');
        call->on_progress(call->data, kg_buf_view(ret_json));
        ret_json->length = 0;
    }
    kg_buf_str(ret_json, result);
    return DIALECT_RESULT;
}

const struct dialect dialect_package = {
    .name = "package",
    .rules = DIALECT_OWN_RULES,
    .shutdown = "shutdown",
    .ping = "ping",
    .check_pong = dialect_check_pong,
    .steps = steps,
    .put_greeting = kaged_put_greeting,
    .configure = configure,
    .on_notification = kaged_on_notification,
    .knows = {[DIALECT_METHOD] = true, [DIALECT_TOOL] = true},
    .call = call_package,
    .read = read_package,
    .end = end_package_call,
    .cancel = kaged_cancel,
};
