/*
 * The one door: every call of every plugin, whoever makes it, passes here. It is checked, given its
 * context, written to the audit log, sent, timed, and its end is written to the audit log too.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct host_call {
    struct host *host;
    struct host_plugin *plugin;
    struct peer *peer;                      /* the one that the request went to */
    const struct manifest_method *declared; /* in the plugin's manifest */
    uint64_t id;
    uint64_t started_ns;
    host_done_fn *on_done; /* NULL: the caller left */
    void *data;
    struct host_call *next_unused;
    char method[RPC_METHOD_MAX + 1];
    char request_id[KG_ID_MAX * 3];
};

static struct host_call *new_call(struct host *host)
{
    struct host_call *call = host->unused_calls;
    if (call == NULL)
        return kg_alloc(sizeof(*call));
    host->unused_calls = call->next_unused;
    return call;
}

static void release_call(struct host_call *call)
{
    call->next_unused = call->host->unused_calls;
    call->host->unused_calls = call;
}

void host_calls_free(struct host *host)
{
    while (host->unused_calls != NULL) {
        struct host_call *call = host->unused_calls;
        host->unused_calls = call->next_unused;
        free(call);
    }
}

/* -- before ------------------------------------------------------------------------------------ */

static int check_plugin(struct host *host, struct host_plugin *plugin, struct kg_err *err)
{
    const char *why;
    if (host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (!audit_ready(host->audit, &why)) {
        kg_fail(err, KG_E_AUDIT_UNAVAILABLE,
                "no call is taken while the audit log cannot be "
                "written: %s",
                why);
        kg_hint(err, "make room on the disk of %s", host->paths->audit_dir);
        return -EINVAL;
    }
    if (plugin->instance == NULL)
        return kg_fail(err, KG_E_PLUGIN_DOWN, "plugin %s: %s", plugin->name,
                       plugin->problem.message);
    if (instance_peer(plugin->instance) != NULL)
        return 0;
    if (host_check_no_template(plugin, err) < 0)
        return -EINVAL;
    enum instance_state state = instance_state(plugin->instance);
    if (plugin->drift.code != KG_OK) {
        kg_fail(err, KG_E_PLUGIN_DOWN, "%s", plugin->drift.message);
        kg_hint(err, "%s", plugin->drift.hint);
        return -EINVAL;
    }
    kg_fail(err, KG_E_PLUGIN_DOWN, "plugin %s is %s", plugin->name, instance_state_name(state));
    if (state == INSTANCE_DISABLED || state == INSTANCE_FAILED)
        kg_hint(err, "kaged plugin enable %s", plugin->name);
    else
        kg_hint(err, "kaged plugin status %s says more", plugin->name);
    return -EINVAL;
}

static int check_method(const struct host_plugin *plugin, struct kg_str method, struct kg_err *err)
{
    switch (instance_method(plugin->instance, method)) {
    case METHOD_OFFERED:
        return 0;
    case METHOD_MISSING:
        return kg_fail(err, KG_E_METHOD_NOT_FOUND,
                       "plugin %s: its manifest declares the method %.*s, but the running plugin "
                       "does not offer it",
                       plugin->name, KG_STR_CUT(method, RPC_METHOD_MAX));
    case METHOD_UNKNOWN:
        break;
    }
    kg_fail(err, KG_E_METHOD_NOT_FOUND, "plugin %s has no method %.*s", plugin->name,
            KG_STR_CUT(method, RPC_METHOD_MAX));
    kg_hint(err, "kaged plugin status %s lists its methods", plugin->name);
    return -EINVAL;
}

/* Only the host speaks for who calls and with which config. */
static int check_params(struct kg_str params, struct kg_err *err)
{
    static const char *const reserved[] = {"_context", "_config"};
    size_t offset = 0;
    struct kg_str value;
    enum kg_json_fault fault = kg_json_check(params, &offset);
    if (fault != KG_JSON_OK)
        return kg_fail(err, KG_E_PARSE, "the params are not JSON: byte %zu: %s", offset + 1,
                       kg_json_fault_text(fault));
    struct kg_json_cursor cursor = {params.data, params.data + params.length};
    kg_json_skip_space(&cursor);
    if (*cursor.at != '{')
        return kg_fail(err, KG_E_INVALID_PARAMS, "the params are not a JSON object");
    for (size_t i = 0; i < KG_COUNT(reserved); i++)
        if (kg_json_member(params, reserved[i], &value))
            return kg_fail(err, KG_E_INVALID_PARAMS,
                           "the params must not have a \"%s\" of their "
                           "own",
                           reserved[i]);
    return 0;
}

/* What a schema of the manifest finds wrong, if it has one for this. */
static int check_schema(const struct schema *schema, struct kg_str json, enum kg_code code,
                        const char *what, struct kg_err *err)
{
    if (schema == NULL)
        return 0;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(json, err);
    kg_auto(schema_report_free) struct schema_report report = {0};
    if (doc == NULL) {
        err->code = code;
        return kg_wrap(err, -EINVAL, "%s", what);
    }
    if (schema_check(schema, doc->root, &report))
        return 0;
    if (report.count == 0)
        return kg_fail(err, code, "%s: checking it against its schema took too long", what);
    const struct schema_error *first = &report.errors[0];
    return kg_fail(err, code, "%s: %.*s%s%.*s", what, KG_STR_CUT(first->instance_path, 100),
                   first->instance_path.length ? " " : "", KG_STR_CUT(first->message, 300));
}

static void put_context(struct kg_buf *buf, const struct host_context *context)
{
    static const struct host_agent nobody = {0};
    const struct host_agent *agent = context->agent ? context->agent : &nobody;
    struct kg_json_writer json = kg_json_writer(buf);
    kg_json_begin(&json, '{');
    kg_json_key(&json, "operator_id");
    kg_json_text(&json, context->operator_id);
    kg_json_key(&json, "project_id");
    kg_json_text(&json, agent->project_id);
    kg_json_key(&json, "agent_path");
    kg_json_text(&json, agent->path);
    kg_json_key(&json, "session_id");
    kg_json_text(&json, agent->session_id);
    kg_json_key(&json, "request_id");
    kg_json_text(&json, context->request_id);
    kg_json_end(&json, '}');
}

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

/* -- after ------------------------------------------------------------------------------------- */

static void fill_plugin_error(struct host_reply *reply, const struct host_call *call,
                              struct kg_str error)
{
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    rpc_error_message(error, &message);
    kg_fail(&reply->error, kg_code_from_rpc(rpc_error_code(error)), "plugin %s: %s: %.400s",
            call->plugin->name, call->method, kg_buf_terminate(&message));
    reply->plugin_error = error;
}

static uint64_t timeout_ms(const struct host_call *call)
{
    return call->declared->timeout_ms ? call->declared->timeout_ms
                                      : (uint64_t)call->host->config->limits_call_timeout_ms;
}

static void fill_reply(struct host_reply *reply, const struct host_call *call,
                       enum peer_outcome outcome, struct kg_str payload)
{
    const char *plugin = call->plugin->name;
    switch (outcome) {
    case PEER_RESULT:
        reply->result = payload;
        if (check_schema(call->declared->result, payload, KG_E_BAD_RESULT, "the result",
                         &reply->error) < 0)
            kg_wrap(&reply->error, 0, "plugin %s: %s", plugin, call->method);
        break;
    case PEER_ERROR:
        fill_plugin_error(reply, call, payload);
        break;
    case PEER_TIMEOUT:
        kg_fail(&reply->error, KG_E_PLUGIN_TIMEOUT,
                "plugin %s: %s: no answer within %llu ms; the plugin is restarted", plugin,
                call->method, (unsigned long long)timeout_ms(call));
        break;
    case PEER_EXPIRED:
        kg_fail(&reply->error, KG_E_PLUGIN_TIMEOUT,
                "plugin %s: %s: no answer within the caller's own deadline", plugin, call->method);
        break;
    case PEER_GONE:
        kg_fail(&reply->error, KG_E_PLUGIN_DOWN,
                "plugin %s: %s: the plugin went away before it "
                "answered",
                plugin, call->method);
        kg_hint(&reply->error, "kaged plugin status %s says why", plugin);
        break;
    }
}

static void count_error(struct host_plugin *plugin, enum kg_code code)
{
    plugin->errors++;
    plugin->errors_by_code[code]++;
}

/* Counts it and writes it to the audit log. */
static void end_call(const struct host_call *call, enum kg_code code)
{
    uint64_t duration_ns = kg_monotonic_ns() - call->started_ns;
    host_histogram_add(&call->plugin->latency, duration_ns);
    if (code != KG_OK)
        count_error(call->plugin, code);
    audit_emit(call->host->audit, AUDIT_PLUGIN_METHOD_RETURNED, kg_str(call->request_id),
               AUDIT_V_TEXT(call->plugin->name), AUDIT_V_TEXT(call->method),
               AUDIT_V_INT((int64_t)(duration_ns / 1000000)), AUDIT_V_BOOL(code == KG_OK),
               code == KG_OK ? AUDIT_V_NULL : AUDIT_V_TEXT(kg_error_row(code)->name));
}

static void on_done(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct host_call *call = data;
    struct host_reply reply = {.error.code = KG_OK};
    fill_reply(&reply, call, outcome, payload);
    end_call(call, reply.error.code);
    host_done_fn *done = call->on_done;
    void *done_data = call->data;
    release_call(call);
    done(done_data, &reply);
}

/* -- the call ---------------------------------------------------------------------------------- */

static int send_request(struct host_call *call, const struct host_call_request *request,
                        struct kg_err *err)
{
    struct kg_str inner = request->params.length ? inside_braces(request->params) : KG_STR_NULL;
    kg_auto(kg_buf_free) struct kg_buf context = {0};
    kg_buf_str(&context, KG_STR("{\"_context\":"));
    put_context(&context, &request->context);
    if (inner.length > 0)
        kg_buf_char(&context, ',');
    const struct kg_str params[] = {kg_buf_view(&context), inner, KG_STR("}")};
    struct peer_call wire = {
        .method = request->method,
        .params = params,
        .params_count = KG_COUNT(params),
        .timeout_ms = timeout_ms(call),
        .caller_timeout_ms = request->caller_timeout_ms,
        .on_done = on_done,
        .data = call,
    };
    return peer_call(call->peer, &wire, &call->id, err);
}

struct host_call *host_call(struct host *host, const struct host_call_request *request,
                            struct kg_err *err)
{
    struct host_plugin *plugin = host_plugin_find(host, request->plugin, err);
    if (plugin == NULL || check_plugin(host, plugin, err) < 0 ||
        check_method(plugin, request->method, err) < 0 ||
        (request->params.length > 0 && check_params(request->params, err) < 0))
        return NULL;
    const struct manifest_method *declared =
        manifest_method_find(plugin->manifest, request->method);
    if (check_schema(declared->params, request->params.length ? request->params : KG_STR("{}"),
                     KG_E_INVALID_PARAMS, "the params", err) < 0) {
        kg_wrap(err, 0, "plugin %s: %s", plugin->name, declared->name);
        return NULL;
    }
    struct host_call *call = new_call(host);
    call->host = host;
    call->plugin = plugin;
    call->peer = instance_peer(plugin->instance);
    call->declared = declared;
    call->started_ns = kg_monotonic_ns();
    call->on_done = request->on_done;
    call->data = request->data;
    memcpy(call->method, request->method.data, request->method.length);
    call->method[request->method.length] = '\0';
    snprintf(call->request_id, sizeof(call->request_id), "%s", request->context.request_id);
    if (send_request(call, request, err) < 0) {
        count_error(plugin, err->code);
        kg_wrap(err, 0, "plugin %s: %s", plugin->name, call->method);
        release_call(call);
        return NULL;
    }
    plugin->calls++;
    audit_emit(host->audit, AUDIT_PLUGIN_METHOD_CALLED, kg_str(call->request_id),
               AUDIT_V_TEXT(plugin->name), AUDIT_V_TEXT(call->method),
               AUDIT_V_TEXT(request->context.operator_id),
               AUDIT_V_TEXT(request->context.agent ? request->context.agent->project_id : NULL));
    return call;
}

void host_call_cancel(struct host_call *call)
{
    peer_abandon(call->peer, call->id);
    end_call(call, KG_E_CANCELLED);
    release_call(call);
}
