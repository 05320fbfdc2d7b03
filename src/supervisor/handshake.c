/*
 * The first exchange: initialize is sent, its answer is held against the manifest, and only then is
 * the plugin told `initialized` and called. A row of `checks` is one thing that must agree.
 */
#include "supervisor/internal.h"

#include <stdio.h>

/* What the plugin said of itself. */
struct answer {
    const struct kg_node *name, *version, *api_version, *methods, *notifications, *capabilities;
};

#define LIST_MAX   1024 /* what a manifest may have, too */
#define TEXT_MAX   256
#define LISTED_MAX 32 /* in one audit event */

/* A list of short strings, or none. */
static bool is_string_list(const struct kg_node *node)
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

static const char *read_answer(const struct kg_node *root, struct answer *ret_answer)
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
    if (!is_string_list(answer.methods))
        return "\"methods\" in the result of initialize is not a list of short strings";
    if (!is_string_list(answer.notifications))
        return "\"notifications\" in the result of initialize is not a list of short strings";
    if (!is_string_list(answer.capabilities))
        return "\"capabilities_used\" in the result of initialize is not a list of short strings";
    *ret_answer = answer;
    return NULL;
}

/* A failure that the author must mend: no restart. */
#define reject(instance, ...)                                                                      \
    instance_end(instance, EXIT_HANDSHAKE, ENDING_KILL, ON_REJECT, __VA_ARGS__)

static bool check_name(struct instance *instance, const struct answer *answer)
{
    struct kg_str claimed = answer->name->text;
    if (kg_str_is(claimed, instance->plugin))
        return true;
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_NAME_MISMATCH, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_STR(claimed));
    reject(instance, "it says that its name is \"%.*s\", the manifest says \"%s\"",
           KG_STR_CUT(claimed, 64), instance->plugin);
    return false;
}

static bool check_version(struct instance *instance, const struct answer *answer)
{
    struct kg_str claimed = answer->version->text;
    if (kg_str_is(claimed, instance->version))
        return true;
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_VERSION_MISMATCH, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_STR(claimed), AUDIT_V_TEXT(instance->version));
    reject(instance, "it says that its version is \"%.*s\", the manifest says \"%s\"",
           KG_STR_CUT(claimed, 64), instance->version);
    return false;
}

static bool check_api(struct instance *instance, const struct answer *answer)
{
    struct kg_str claimed = answer->api_version->text;
    int64_t api;
    if (kg_str_to_int(claimed, &api) && api == SUPERVISOR_API_VERSION)
        return true;
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_API_MISMATCH, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_STR(claimed),
               AUDIT_V_INT(SUPERVISOR_API_VERSION));
    reject(instance, "it speaks API version %.*s, the daemon speaks %d", KG_STR_CUT(claimed, 32),
           SUPERVISOR_API_VERSION);
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

static void put_list(struct kg_buf *buf, char *const *list)
{
    struct kg_json_writer json = kg_json_writer(buf);
    kg_json_begin(&json, '[');
    for (; *list != NULL; list++)
        kg_json_text(&json, *list);
    kg_json_end(&json, ']');
}

static bool check_capabilities(struct instance *instance, const struct answer *answer)
{
    const struct kg_node *used = answer->capabilities;
    for (uint32_t i = 0; used != NULL && i < used->count; i++) {
        struct kg_str claimed = used->items[i].text;
        if (instance->ops.may_claim(instance->data, instance, claimed))
            continue;
        kg_auto(kg_buf_free) struct kg_buf all = {0}, allowed = {0};
        put_nodes(&all, used);
        put_list(&allowed, instance->capabilities);
        audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_CAPABILITY_OVERREACH, KG_STR_NULL,
                   AUDIT_V_TEXT(instance->name), AUDIT_V_RAW(kg_buf_view(&all)),
                   AUDIT_V_RAW(kg_buf_view(&allowed)));
        reject(instance, "it claims the capability \"%.*s\", which its manifest does not declare",
               KG_STR_CUT(claimed, 128));
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

/* Methods that differ from the manifest are no failure: missing ones are marked, extra ones
 * ignored. */
static bool check_methods(struct instance *instance, const struct answer *answer)
{
    struct names missing = {0}, extra = {0};
    names_begin(&missing);
    names_begin(&extra);
    for (size_t i = 0; instance->methods[i] != NULL; i++) {
        instance->method_offered[i] = node_has(answer->methods, instance->methods[i]);
        if (!instance->method_offered[i])
            names_add(&missing, kg_str(instance->methods[i]));
    }
    for (uint32_t i = 0; answer->methods != NULL && i < answer->methods->count; i++)
        if (!kg_list_has(instance->methods, answer->methods->items[i].text))
            names_add(&extra, answer->methods->items[i].text);
    struct kg_str missing_list = names_end(&missing), extra_list = names_end(&extra);
    if (missing.count + extra.count > 0) {
        kg_log_about(KG_WARN, instance->name,
                     "its methods differ from the manifest: missing %.300s, extra %.300s",
                     missing_list.data, extra_list.data);
        audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_METHODS_DIFFER, KG_STR_NULL,
                   AUDIT_V_TEXT(instance->name), AUDIT_V_RAW(missing_list),
                   AUDIT_V_RAW(extra_list));
    }
    kg_buf_free(&missing.buf);
    kg_buf_free(&extra.buf);
    return true;
}

static bool (*const checks[])(struct instance *instance, const struct answer *answer) = {
    check_name, check_version, check_api, check_capabilities, check_methods,
};

static void malformed(struct instance *instance, const char *problem)
{
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_PROTOCOL_VIOLATION, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_TEXT("malformed_initialize"),
               AUDIT_V_TEXT(problem));
    instance_end(instance, EXIT_HANDSHAKE, ENDING_KILL, ON_CRASH, "%s", problem);
}

static void finish(struct instance *instance)
{
    struct kg_err err;
    if (peer_notify(instance->peer, "initialized", KG_STR("{}"), &err) < 0) {
        instance_end(instance, EXIT_HANDSHAKE, ENDING_KILL, ON_CRASH, "%s", err.message);
        return;
    }
    peer_set_phase(instance->peer, PEER_OPEN);
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_INITIALIZED, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_INT((int64_t)kg_list_count(instance->methods)),
               AUDIT_V_INT((int64_t)kg_list_count(instance->capabilities)));
    instance_raise(instance, ON_READY);
    if (instance->config_again && instance->state == INSTANCE_RUNNING)
        config_send(instance);
}

/* -- configuration ----------------------------------------------------------------------------- */

static int call_config_update(struct instance *instance, peer_done_fn *on_done, struct kg_err *err)
{
    struct kg_str config = instance->config.length ? kg_buf_view(&instance->config) : KG_STR("{}");
    const struct kg_str params[] = {KG_STR("{\"config\":"), config, KG_STR("}")};
    struct peer_call call = {
        .method = KG_STR("config.update"),
        .params = params,
        .params_count = KG_COUNT(params),
        .timeout_ms = instance->supervisor->limits.initialize_timeout_ms,
        .on_done = on_done,
        .data = instance,
    };
    return peer_call(instance->peer, &call, NULL, err);
}

/* The plugin's words, and what it says of the field. */
static void put_refusal(struct kg_buf *out, struct kg_str error)
{
    struct kg_str data;
    rpc_error_message(error, out);
    if (kg_json_member(error, "data", &data))
        kg_buf_printf(out, " %.*s", KG_STR_CUT(data, 160));
    kg_buf_terminate(out);
}

static void on_config_refused(struct instance *instance, struct kg_str error)
{
    int64_t code = rpc_error_code(error);
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    if (code == kg_error_row(KG_E_METHOD_NOT_FOUND)->rpc_code) { /* it takes none */
        finish(instance);
        return;
    }
    if (code == kg_error_row(KG_E_NOT_INITIALIZED)->rpc_code) {
        instance->config_again = true;
        finish(instance);
        return;
    }
    put_refusal(&words, error);
    instance_end(instance, EXIT_HANDSHAKE, ENDING_KILL,
                 code == kg_error_row(KG_E_CONFIG_INVALID)->rpc_code ? ON_REJECT : ON_CRASH,
                 "it refused its configuration: %.250s", words.data);
}

/* Before `initialized`: an answer that counts for the handshake. */
static void on_config_answer(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct instance *instance = data;
    switch (outcome) {
    case PEER_RESULT:
        finish(instance);
        break;
    case PEER_ERROR:
        on_config_refused(instance, payload);
        break;
    case PEER_TIMEOUT:
    case PEER_EXPIRED:
        instance_end(instance, EXIT_HANDSHAKE, ENDING_KILL, ON_CRASH,
                     "no answer to config.update in time");
        break;
    case PEER_GONE:
        break;
    }
}

static void config_offer(struct instance *instance)
{
    struct kg_err err;
    if (call_config_update(instance, on_config_answer, &err) < 0)
        instance_end(instance, EXIT_HANDSHAKE, ENDING_KILL, ON_CRASH, "config.update: %s",
                     err.message);
}

/* While it runs: a refusal is told, and the plugin goes on with what it had, if it had any. */
static void on_config_told(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct instance *instance = data;
    bool is_first = instance->config_again;
    instance->config_again = false;
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    if (outcome != PEER_ERROR)
        return;
    int64_t code = rpc_error_code(payload);
    if (code == kg_error_row(KG_E_METHOD_NOT_FOUND)->rpc_code)
        return;
    put_refusal(&words, payload);
    if (is_first && code == kg_error_row(KG_E_CONFIG_INVALID)->rpc_code)
        reject(instance, "it refused its configuration: %.250s", words.data);
    else
        kg_log_about(KG_ERROR_LEVEL, instance->name, "it refused its new configuration: %.250s",
                     words.data);
}

void config_send(struct instance *instance)
{
    struct kg_err err;
    if (call_config_update(instance, on_config_told, &err) < 0)
        kg_log_about(KG_ERROR_LEVEL, instance->name, "config.update: %s", err.message);
}

static void on_result(struct instance *instance, struct kg_str result)
{
    struct kg_err err;
    struct answer answer;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(result, &err);
    const char *problem = doc ? read_answer(doc->root, &answer) : err.message;
    if (problem != NULL) {
        malformed(instance, problem);
        return;
    }
    for (size_t i = 0; i < KG_COUNT(checks); i++)
        if (!checks[i](instance, &answer))
            return;
    instance->config_again = false;
    if (instance->config.length > 0)
        config_offer(instance);
    else
        finish(instance);
}

static void on_refusal(struct instance *instance, struct kg_str error)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    rpc_error_message(error, &words);
    instance_end(instance, EXIT_HANDSHAKE, ENDING_KILL, ON_CRASH, "it refused initialize: %.200s",
                 kg_buf_terminate(&words));
}

static void on_answer(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct instance *instance = data;
    uint64_t timeout_ms = instance->supervisor->limits.initialize_timeout_ms;
    switch (outcome) {
    case PEER_RESULT:
        peer_set_phase(instance->peer, PEER_WAITING);
        on_result(instance, payload);
        break;
    case PEER_ERROR:
        on_refusal(instance, payload);
        break;
    case PEER_TIMEOUT:
    case PEER_EXPIRED:
        audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_INITIALIZE_TIMEOUT, KG_STR_NULL,
                   AUDIT_V_TEXT(instance->name), AUDIT_V_INT((int64_t)timeout_ms));
        instance_end(instance, EXIT_HANDSHAKE, ENDING_KILL, ON_CRASH,
                     "no answer to initialize within %llu ms", (unsigned long long)timeout_ms);
        break;
    case PEER_GONE:
        break;
    }
}

void handshake_begin(struct instance *instance)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    kg_json_begin(&json, '{');
    kg_json_key(&json, "daemon_version");
    kg_json_text(&json, KAGED_VERSION);
    kg_json_key(&json, "api_version");
    kg_json_int(&json, SUPERVISOR_API_VERSION);
    kg_json_key(&json, "plugin_name");
    kg_json_text(&json, instance->plugin);
    kg_json_key(&json, "storage_available");
    kg_json_bool(&json, instance->ops.has_storage(instance->data, instance));
    kg_json_key(&json, "projects");
    kg_json_begin(&json, '[');
    if (instance->ops.put_projects != NULL)
        instance->ops.put_projects(instance->data, instance, &json);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    struct kg_str view = kg_buf_view(&params);
    struct peer_call call = {
        .method = KG_STR("initialize"),
        .params = &view,
        .params_count = 1,
        .timeout_ms = instance->supervisor->limits.initialize_timeout_ms,
        .on_done = on_answer,
        .data = instance,
    };
    struct kg_err err;
    if (peer_call(instance->peer, &call, NULL, &err) < 0)
        instance_end(instance, EXIT_HANDSHAKE, ENDING_KILL, ON_CRASH, "%s", err.message);
}
