/*
 * The one door: every call of every plugin, whoever makes it, passes here. It is checked, given its
 * context, written to the audit log, sent, timed, and its end is written to the audit log too.
 * While the log is only slow, calls wait here; while it cannot be written at all, they are refused.
 * So do calls of a plugin that may ask while another conversation has one under way with it: whose
 * question it is must be known.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PAYLOAD_MAX    65536 /* bytes of one in the audit log */
#define HELD_MAX       4096
#define HELD_MAX_BYTES ((size_t)64 << 20)

/* What a call is sent with, once the audit log has caught up. */
struct host_held {
    struct host_held *next;
    struct host_call *call;
    struct host_passage passage; /* its texts are in `texts` */
    struct kg_buf texts;
    struct loop_timer timer;
    uint64_t since_ms, most_ms;
};

static struct host_call *new_call(struct host *host, struct host_asker *asker)
{
    struct host_call *call = host->unused_calls;
    if (call == NULL)
        call = kg_alloc(sizeof(*call));
    else
        host->unused_calls = call->next_unused;
    call->host = host;
    call->asker = host_asker_ref(asker);
    call->held = NULL;
    call->waiting = NULL;
    call->questions = NULL;
    call->question_count = 0;
    call->sent_from = NULL;
    return call;
}

void host_call_release(struct host_call *call)
{
    host_asker_unref(call->asker);
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
    kg_buf_free(&host->context);
    loop_undefer(host->loop, &host->door->turn);
    free(kg_steal(&host->door));
}

uint64_t host_call_timeout_ms(const struct host *host, uint64_t manifest_ms)
{
    return manifest_ms ? manifest_ms : (uint64_t)host->config->limits_call_timeout_ms;
}

/* -- before ------------------------------------------------------------------------------------ */

/* With the reason, where the end of its last process is one. */
static void say_state(const struct host_process *process, enum instance_state state,
                      struct kg_err *err)
{
    const struct exit_report *last = instance_facts(process->instance).last_exit;
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    if (last != NULL && (state == INSTANCE_CRASHED || state == INSTANCE_FAILED))
        exit_report_words(last, &words);
    kg_fail(err, KG_E_PLUGIN_DOWN, "plugin %s is %s%s%" KG_S_CAUSE, process->name,
            instance_state_name(state), words.length ? ": " : "", kg_buf_terminate(&words));
}

static int check_door(struct host *host, struct kg_err *err)
{
    const char *why;
    if (host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (audit_ready(host->audit, &why) || audit_is_behind(host->audit))
        return 0;
    kg_fail(err, KG_E_AUDIT_UNAVAILABLE,
            "no calls are accepted while the audit log cannot be written: %s", why);
    return kg_hint(err, "make room on the disk of %s", host->paths->audit_dir);
}

static int check_process(const struct host_process *process, struct kg_err *err)
{
    const struct kg_err *drift = &process->plugin->drift;
    if (instance_talk(process->instance) != NULL)
        return 0;
    enum instance_state state = instance_state(process->instance);
    if (drift->code != KG_OK) {
        kg_fail(err, KG_E_PLUGIN_DOWN, "%s", drift->message);
        return kg_hint(err, "%s", drift->hint);
    }
    say_state(process, state, err);
    if (state == INSTANCE_DISABLED || state == INSTANCE_FAILED)
        kg_hint(err, "kaged plugin enable %s", process->name);
    else
        kg_hint(err, "kaged plugin status %s says more", process->name);
    return -EINVAL;
}

/* Agents call tools, in their sessions: who tries it here is told how. */
static int say_no_method(const struct host_process *process, struct kg_str method,
                         struct kg_err *err)
{
    const struct manifest *manifest = process->manifest;
    const struct manifest_tool *tool = manifest_tool_called(manifest, method);
    if (tool == NULL) {
        kg_fail(err, KG_E_METHOD_NOT_FOUND, "plugin %s has no method %.*s", process->name,
                KG_STR_CUT(method, RPC_METHOD_MAX));
        return kg_hint(err, "kaged plugin status %s lists its methods", process->name);
    }
    kg_fail(err, KG_E_METHOD_NOT_FOUND,
            "%s.%s is a tool of plugin %s, which agents call, and not a method", manifest->name,
            tool->name, process->name);
    return kg_hint(err,
                   "in a session of a project that has the plugin: kaged session tool SESSION "
                   "%s.%s '{}'",
                   manifest->name, tool->name);
}

static int check_method(const struct host_process *process, struct kg_str method,
                        struct kg_err *err)
{
    switch (instance_method(process->instance, method)) {
    case METHOD_OFFERED:
        return 0;
    case METHOD_MISSING:
        if (process->tier->lists_tools)
            return kg_fail(err, KG_E_METHOD_NOT_FOUND, "plugin %s: the server does not offer %.*s",
                           process->name, KG_STR_CUT(method, RPC_METHOD_MAX));
        return kg_fail(err, KG_E_METHOD_NOT_FOUND,
                       "plugin %s: its manifest declares the method %.*s, but the running plugin "
                       "does not offer it",
                       process->name, KG_STR_CUT(method, RPC_METHOD_MAX));
    case METHOD_UNKNOWN:
        break;
    }
    return say_no_method(process, method, err);
}

/* Only the host speaks for who calls and with which config. Few texts need a closer look. */
static const char *reserved_key(struct kg_str object)
{
    static const char *const reserved[] = {"_context", "_config"};
    if (memchr(object.data, '_', object.length) == NULL &&
        memchr(object.data, '\\', object.length) == NULL)
        return NULL;
    struct kg_json_cursor cursor = kg_json_inside(object);
    struct kg_str key, value;
    bool escaped;
    while (kg_json_next_member(&cursor, &key, &escaped, &value))
        for (size_t i = 0; i < KG_COUNT(reserved); i++)
            if ((escaped || (key.length > 0 && key.data[0] == '_')) &&
                kg_json_raw_is(key, escaped, reserved[i]))
                return reserved[i];
    return NULL;
}

int host_check_params(struct kg_str params, struct kg_err *err)
{
    size_t offset = 0;
    enum kg_json_fault fault = kg_json_check(params, &offset);
    if (fault != KG_JSON_OK)
        return kg_fail(err, KG_E_PARSE, "the params are not JSON: byte %zu: %s", offset + 1,
                       kg_json_fault_text(fault));
    struct kg_json_cursor cursor = {params.data, params.data + params.length};
    kg_json_skip_space(&cursor);
    if (*cursor.at != '{')
        return kg_fail(err, KG_E_INVALID_PARAMS, "the params are not a JSON object");
    const char *reserved =
        reserved_key((struct kg_str){cursor.at, (size_t)(cursor.end - cursor.at)});
    if (reserved != NULL)
        return kg_fail(err, KG_E_INVALID_PARAMS, "the params must not have a \"%s\" of their own",
                       reserved);
    return 0;
}

/* What a schema of the manifest finds wrong. */
int host_check_schema(const struct schema *schema, struct kg_str json, enum kg_code code,
                      const char *what, struct kg_err *err)
{
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
    return kg_fail(err, code, "%s: %.*s%s%.*s", what, KG_STR_CUT(first->instance_path, KG_CUT_WORD),
                   first->instance_path.length ? " " : "",
                   KG_STR_CUT(first->message, KG_CUT_CAUSE));
}

/* The key comes as it stands in the text, with what is before it. */
static inline void host_call_put_field(struct kg_buf *buf, struct kg_str key, struct kg_str text)
{
    kg_buf_str(buf, key);
    if (text.data != NULL)
        kg_json_put_string(buf, text);
    else
        kg_buf_str(buf, KG_STR("null"));
}

/* Only a process of one project alone is told where that is. */
static void host_call_put_context(struct kg_buf *buf, const struct host_asker *asker,
                                  const char *project_root_or_null)
{
    host_call_put_field(buf, KG_STR("{\"operator_id\":"), host_asker_operator(asker));
    if (asker->session_id == NULL && asker->project_id == NULL && asker->agent_path == NULL) {
        kg_buf_str(buf, KG_STR(",\"project_id\":null,\"agent_path\":null,\"session_id\":null"));
    } else {
        host_call_put_field(buf, KG_STR(",\"project_id\":"), kg_str(asker->project_id));
        host_call_put_field(buf, KG_STR(",\"agent_path\":"), kg_str(asker->agent_path));
        host_call_put_field(buf, KG_STR(",\"session_id\":"), kg_str(asker->session_id));
    }
    host_call_put_field(buf, KG_STR(",\"request_id\":"), host_asker_request(asker));
    if (asker->branch != NULL)
        host_call_put_field(buf, KG_STR(",\"branch\":"), kg_str(asker->branch));
    if (asker->traceparent != NULL)
        host_call_put_field(buf, KG_STR(",\"traceparent\":"), kg_str(asker->traceparent));
    if (project_root_or_null != NULL)
        host_call_put_field(buf, KG_STR(",\"project_root\":"), kg_str(project_root_or_null));
    kg_buf_char(buf, '}');
}

/* -- after ------------------------------------------------------------------------------------- */

static void fill_plugin_error(struct host_reply *reply, const struct host_call *call,
                              struct kg_str error)
{
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    rpc_error_message(error, &message);
    kg_fail(&reply->error, kg_code_from_rpc(rpc_error_code(error)), "plugin %s: %s: %" KG_S_CAUSE,
            call->process->name, call->method, kg_buf_terminate(&message));
    if (rpc_error_code(error) == kg_error_row(KG_E_INTERNAL)->rpc_code)
        kg_hint(&reply->error, "kaged plugin logs %s may say more", call->process->name);
    reply->names_grant =
        host_note_unseen(call->process, call->started_ns, kg_buf_view(&message), &reply->error);
    reply->plugin_error = error;
}

static int take_method_result(const struct host_call *call, struct kg_str result,
                              struct kg_err *err)
{
    return call->result_schema == NULL
               ? 0
               : host_check_schema(call->result_schema, result, KG_E_BAD_RESULT, "the result", err);
}

/* A server that promised a shape keeps it, unless it says that it failed. */
static int check_output(const struct host_call *call, struct kg_str result, struct kg_err *err)
{
    struct kg_str is_error, content;
    if (call->result_schema == NULL ||
        (kg_json_member(result, "isError", &is_error) && kg_str_is(is_error, "true")))
        return 0;
    if (!kg_json_member(result, "structuredContent", &content))
        return kg_fail(err, KG_E_BAD_RESULT, "the result has no structuredContent");
    return host_check_schema(call->result_schema, content, KG_E_BAD_RESULT, "structuredContent",
                             err);
}

static int take_tool_result(const struct host_call *call, struct kg_str result, struct kg_err *err)
{
    int64_t most = call->host->config->limits_tool_result_bytes;
    if (result.length <= (size_t)most)
        return check_output(call, result, err);
    kg_fail(err, KG_E_TOO_LARGE, "the result has %zu bytes; the limit for a tool is %lld",
            result.length, (long long)most);
    return kg_hint(err, "ask the tool for less, or raise limits.tool_result_bytes");
}

/* A server says in its result that it failed; a path in its words may be one that is not there. */
static void note_failed(const struct host_call *call, struct kg_str result)
{
    struct kg_err hint;
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct kg_str content, block, text;
    if (!kg_json_member(result, "content", &content) || content.data[0] != '[')
        return;
    struct kg_json_cursor cursor = kg_json_inside(content);
    if (!kg_json_next_item(&cursor, &block) || !kg_json_member(block, "text", &text) ||
        text.data[0] != '"')
        return;
    struct kg_str raw = {text.data + 1, text.length - 2};
    kg_buf_reserve(&words, raw.length);
    words.length = kg_json_unescape(raw, words.data);
    (void)host_note_unseen(call->process, call->started_ns, kg_buf_view(&words), &hint);
}

static void fill_reply(struct host_reply *reply, const struct host_call *call,
                       enum peer_outcome outcome, struct kg_str payload)
{
    const char *plugin = call->process->name;
    switch (outcome) {
    case PEER_RESULT:
        reply->result = payload;
        if (call->kind->take != NULL && call->kind->take(call, payload, &reply->error) < 0)
            kg_wrap(&reply->error, 0, "plugin %s: %s", plugin, call->method);
        if (call->wire.has_failed)
            note_failed(call, payload);
        break;
    case PEER_ERROR:
        fill_plugin_error(reply, call, payload);
        break;
    case PEER_TIMEOUT:
        kg_fail(&reply->error, KG_E_PLUGIN_TIMEOUT,
                "plugin %s: %s: no answer within %llu ms; the plugin is restarted", plugin,
                call->method, (unsigned long long)call->wire.timeout_ms);
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

static void count_error(struct host_process *process, enum kg_code code)
{
    process->usage.errors++;
    process->usage.errors_by_code[code]++;
}

/* Counts it and writes it to the audit log. */
static void host_call_end_call(const struct host_call *call, const struct host_reply *reply)
{
    uint64_t now_ns = loop_now_ns(call->host->loop), duration_ns = now_ns - call->started_ns;
    call->process->used_ns = now_ns;
    host_histogram_add(&call->process->usage.latency, duration_ns);
    host_course_add(&call->process->usage.course, now_ns, duration_ns, reply->error.code != KG_OK);
    if (reply->error.code != KG_OK)
        count_error(call->process, reply->error.code);
    call->kind->audit_ended(call, reply, (int64_t)(duration_ns / 1000000));
}

/* One that is long is cut, and then is a string. */
static void tell_payload(const struct host_call *call, const char *part, struct kg_str json)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    host_trace_put_payload(call->process, call->method, strcmp(part, "params") == 0, json, &shown);
    struct kg_str text = kg_buf_view(&shown);
    size_t offset;
    bool is_whole = text.length <= PAYLOAD_MAX && kg_json_check(text, &offset) == KG_JSON_OK;
    if (text.length > PAYLOAD_MAX)
        text.length = PAYLOAD_MAX;
    host_asker_emit(call->asker, call->host->audit, AUDIT_PLUGIN_PAYLOAD,
                    AUDIT_V_TEXT(call->process->name), AUDIT_V_TEXT(call->method),
                    AUDIT_V_TEXT(part), is_whole ? AUDIT_V_RAW(text) : AUDIT_V_STR(text),
                    AUDIT_V_INT((int64_t)json.length));
}

static inline void audit_payload(const struct host_call *call, const char *part, struct kg_str json)
{
    if (call->host->config->audit_payloads && json.length > 0)
        tell_payload(call, part, json);
}

static void link_sent(struct host_call *call)
{
    call->next_sent = call->process->sent;
    call->sent_from = &call->process->sent;
    if (call->next_sent != NULL)
        call->next_sent->sent_from = &call->next_sent;
    call->process->sent = call;
}

/* It is over for whoever made it: nobody can be asked for it any more. */
static void unlink_sent(struct host_call *call)
{
    if (call->questions != NULL)
        host_asks_end(call);
    if (call->sent_from == NULL)
        return;
    *call->sent_from = call->next_sent;
    if (call->next_sent != NULL)
        call->next_sent->sent_from = call->sent_from;
    call->sent_from = NULL;
    if (call->process->sent == NULL && call->process->plugin->package != NULL)
        host_package_idle(call->process);
    if (call->process->sent == NULL && call->host->door->first != NULL)
        loop_defer(call->host->loop, &call->host->door->turn);
}

void host_calls_gone(struct host_process *process)
{
    for (struct host_call *at = process->sent, *next; at != NULL; at = next) {
        next = at->next_sent;
        if (at->wire.waits)
            dialect_gone(&at->wire);
    }
}

static void host_call_on_done(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct host_call *call = data;
    unlink_sent(call);
    struct host_reply reply; /* the texts of its error are large: not all of it is cleared */
    reply.error.code = KG_OK;
    reply.error.message[0] = reply.error.hint[0] = '\0';
    reply.result = reply.plugin_error = KG_STR_NULL;
    reply.names_grant = false;
    fill_reply(&reply, call, outcome, payload);
    if (outcome == PEER_EXPIRED)
        dialect_cancel(&call->wire);
    host_call_end_call(call, &reply);
    if (outcome == PEER_RESULT || outcome == PEER_ERROR)
        audit_payload(call, outcome == PEER_RESULT ? "result" : "error", payload);
    host_done_fn *done = call->on_done;
    void *done_data = call->data;
    host_call_release(call);
    done(done_data, &reply);
}

void *host_call_data(const struct host_call *call)
{
    return call->data;
}

static struct audit_value host_call_name_of(const struct host_call *call)
{
    return AUDIT_V_STR(((struct kg_str){call->process->name, call->process->name_length}));
}

static struct audit_value method_of(const struct host_call *call)
{
    return AUDIT_V_STR(((struct kg_str){call->method, call->method_length}));
}

void host_audit_called(const struct host_call *call)
{
    const struct host_asker *asker = call->asker;
    host_asker_emit(asker, call->host->audit, AUDIT_PLUGIN_METHOD_CALLED, host_call_name_of(call),
                    method_of(call), AUDIT_V_STR(host_asker_operator(asker)),
                    AUDIT_V_TEXT(asker->project_id));
}

void host_audit_returned(const struct host_call *call, const struct host_reply *reply,
                         int64_t duration_ms)
{
    enum kg_code code = reply->error.code;
    bool success = code == KG_OK;
    host_asker_emit(call->asker, call->host->audit, AUDIT_PLUGIN_METHOD_RETURNED,
                    host_call_name_of(call), method_of(call), AUDIT_V_INT(duration_ms),
                    AUDIT_V_BOOL(success),
                    success ? AUDIT_V_NULL : AUDIT_V_TEXT(kg_error_row(code)->name));
}

/* -- the call ---------------------------------------------------------------------------------- */

static void host_call_on_progress(void *data, struct kg_str params)
{
    struct host_call *call = data;
    host_events_progress(call->host->events, call->process->name, call->method, call->asker,
                         params);
    if (call->on_progress != NULL)
        call->on_progress(call->data, params);
}

static int host_call_send_request(struct host_call *call, const struct host_passage *passage,
                                  struct kg_err *err)
{
    struct dialect_talk *talk = instance_talk(call->process->instance);
    struct kg_buf *context = &call->host->context; /* the same memory for each call */
    context->length = 0;
    if (talk->dialect->tells_context)
        host_call_put_context(context, passage->asker, call->process->whom.root);
    const struct dialect_message message = {
        .act = passage->kind->act,
        .method = passage->method,
        .params = passage->params,
        .context = kg_buf_view(context),
        .config = passage->config,
    };
    struct dialect_call *wire = &call->wire;
    wire->talk = talk;
    wire->answers = host_asks_answers(call);
    wire->traceparent = passage->asker->traceparent;
    wire->timeout_ms = passage->timeout_ms;
    wire->caller_timeout_ms = passage->caller_timeout_ms;
    wire->on_done = host_call_on_done;
    wire->on_progress = host_call_on_progress;
    wire->data = call;
    return dialect_call(wire, &message, err);
}

static int check_passage(const struct host_passage *passage, struct kg_err *err)
{
    struct kg_str params = passage->params;
    if (params.length > 0 && !passage->params_are_checked) {
        int checked = host_check_params(params, err);
        if (checked < 0)
            return checked;
    }
    if (passage->params_schema == NULL)
        return 0;
    int checked = host_check_schema(passage->params_schema, params.length ? params : KG_STR("{}"),
                                    KG_E_INVALID_PARAMS, "the params", err);
    return checked == 0 ? 0
                        : kg_wrap(err, checked, "plugin %s: %.*s", passage->process->name,
                                  KG_STR_CUT(passage->method, RPC_METHOD_MAX));
}

static int host_call_send_call(struct host_call *call, const struct host_passage *passage,
                               struct kg_err *err)
{
    struct host_process *process = call->process;
    call->started_ns = process->used_ns = loop_now_ns(call->host->loop);
    if (host_call_send_request(call, passage, err) < 0) {
        count_error(process, err->code);
        return kg_wrap(err, -EINVAL, "plugin %s: %s", process->name, call->method);
    }
    link_sent(call);
    process->usage.calls++;
    call->kind->audit_sent(call);
    audit_payload(call, "params", passage->params);
    return 0;
}

static int host_call_hold(struct host_call *call, const struct host_passage *passage,
                          struct kg_err *err);

/*
 * A process that may ask works for one conversation at a time, unless it says by which call it
 * asks. Calls of the conversation that has its turn go at once: one may be made while another
 * waits. So do those of MCP clients, which hold nobody up: with calls of several, nobody is asked.
 */
static bool has_turn(const struct host_process *process, const struct host_asker *asker)
{
    return process->sent == NULL || asker->caller_id != NULL || !host_process_may_ask(process) ||
           instance_variant(process->instance) == DIALECT_MCP_MODERN ||
           host_is_same_conversation(process->sent->asker, asker);
}

/* What was asked for is right, and so is its process. The call keeps nothing of a failure. */
static int host_call_enter(struct host_call *call, const struct host_passage *passage,
                           struct kg_err *err)
{
    struct host *host = call->host;
    call->process = passage->process;
    call->kind = passage->kind;
    call->result_schema = passage->result_schema;
    call->on_done = passage->on_done;
    call->on_progress = passage->on_progress;
    call->asked = passage->asked;
    call->data = passage->data;
    call->waiting = NULL;
    kg_str_copy(passage->method, call->method, sizeof(call->method));
    call->method_length =
        passage->method.length < RPC_METHOD_MAX ? passage->method.length : RPC_METHOD_MAX;
    bool waits = host->door->is_behind || !has_turn(call->process, call->asker) ||
                 !audit_ready(host->audit, NULL);
    return (waits ? host_call_hold : host_call_send_call)(call, passage, err);
}

/* The process was checked. */
static struct host_call *pass(struct host *host, const struct host_passage *passage,
                              struct kg_err *err)
{
    if (check_passage(passage, err) < 0)
        return NULL;
    struct host_call *call = new_call(host, passage->asker);
    if (host_call_enter(call, passage, err) == 0)
        return call;
    host_call_release(call);
    return NULL;
}

/* -- waiting at the door ----------------------------------------------------------------------- */

/* Takes it out of the row; the caller frees it. */
static struct host_held *leave_row(struct host_call *call)
{
    struct host_door *door = call->host->door;
    struct host_held *held = kg_steal(&call->held);
    loop_timer_stop(call->host->loop, &held->timer);
    KG_UNLINK(door->first, held);
    door->last = &door->first;
    while (*door->last != NULL)
        door->last = &(*door->last)->next;
    door->count--;
    door->bytes -= held->texts.length;
    if (door->first == NULL && door->is_behind) {
        audit_unwait(call->host->audit, &door->waiter);
        door->is_behind = false;
    }
    return held;
}

static void held_free(struct host_held *held)
{
    kg_buf_free(&held->texts);
    free(held);
}

/* It was never sent, so that the audit log says nothing of it. */
static void fail_held(struct host_call *call, const struct kg_err *err)
{
    struct host_reply reply = {.error = *err};
    host_done_fn *done = call->on_done;
    void *data = call->data;
    if (call->held != NULL)
        held_free(leave_row(call));
    host_call_release(call);
    done(data, &reply);
}

static void on_held_long(struct loop_timer *timer)
{
    struct host_held *held = KG_CONTAINER(timer, struct host_held, timer);
    const struct host_call *call = held->call;
    struct kg_err err = {0};
    if (!has_turn(call->process, call->asker)) {
        kg_fail(&err, KG_E_BUSY,
                "plugin %s: %s: it worked for another conversation for %llu ms, and it may ask, "
                "so that it works for one at a time",
                call->process->name, call->method, (unsigned long long)held->most_ms);
        kg_hint(&err, "with `process: session` in its manifest each has a process of its own");
    } else {
        kg_fail(&err, KG_E_AUDIT_UNAVAILABLE,
                "plugin %s: %s: the audit log has not caught up within %llu ms",
                call->process->name, call->method, (unsigned long long)held->most_ms);
        kg_hint(&err, "the disk of %s is too slow for what is called",
                call->host->paths->audit_dir);
    }
    fail_held(held->call, &err);
}

static int host_call_hold(struct host_call *call, const struct host_passage *passage,
                          struct kg_err *err)
{
    struct host *host = call->host;
    struct host_door *door = host->door;
    size_t bytes = passage->method.length + passage->params.length + passage->config.length;
    if (door->count >= HELD_MAX || door->bytes + bytes > HELD_MAX_BYTES)
        return kg_fail(err, KG_E_BUSY, "%zu calls are already waiting", door->count);
    struct host_held *held = kg_alloc(sizeof(*held));
    kg_buf_reserve(&held->texts, bytes);
    held->call = call;
    held->passage = *passage;
    held->passage.method = kg_buf_keep(&held->texts, passage->method);
    held->passage.params = kg_buf_keep(&held->texts, passage->params);
    held->passage.config = kg_buf_keep(&held->texts, passage->config);
    held->passage.asker = call->asker;
    held->since_ms = kg_monotonic_ms();
    held->most_ms = passage->caller_timeout_ms != 0
                        ? passage->caller_timeout_ms
                        : host_call_timeout_ms(host, passage->timeout_ms);
    call->held = held;
    *door->last = held;
    door->last = &held->next;
    door->count++;
    door->bytes += held->texts.length;
    loop_timer_start(host->loop, &held->timer, held->most_ms, on_held_long);
    if (door->is_behind || !audit_ready(host->audit, NULL)) {
        door->is_behind = true;
        audit_wait_ready(host->audit, &door->waiter);
    }
    return 0;
}

static void send_held(struct host_call *call)
{
    struct host_held *held = leave_row(call);
    struct kg_err err = {0};
    uint64_t waited_ms = kg_monotonic_ms() - held->since_ms;
    uint64_t *timeout_ms = &held->passage.caller_timeout_ms;
    if (*timeout_ms != 0)
        *timeout_ms = *timeout_ms > waited_ms ? *timeout_ms - waited_ms : 1;
    if (check_process(call->process, &err) < 0 ||
        host_call_send_call(call, &held->passage, &err) < 0)
        fail_held(call, &err);
    held_free(held);
}

/* The first that may go; sending or refusing may change the row. */
static struct host_held *next_held(const struct host_door *door)
{
    struct host_held *held = door->first;
    while (held != NULL && !has_turn(held->call->process, held->call->asker))
        held = held->next;
    return held;
}

static void walk_row(struct host_door *door)
{
    struct audit *audit = door->host->audit;
    struct host_held *held;
    while ((held = next_held(door)) != NULL && audit_ready(audit, NULL))
        send_held(held->call);
    door->is_behind = held != NULL;
    if (door->is_behind)
        audit_wait_ready(audit, &door->waiter);
}

static void host_call_on_audit_ready(struct audit_waiter *waiter)
{
    walk_row(KG_CONTAINER(waiter, struct host_door, waiter));
}

static void host_call_on_turn(struct loop_task *task)
{
    walk_row(KG_CONTAINER(task, struct host_door, turn));
}

void host_door_open(struct host *host)
{
    host->door = kg_alloc(sizeof(*host->door));
    host->door->last = &host->door->first;
    host->door->host = host;
    host->door->waiter.on_ready = host_call_on_audit_ready;
    host->door->turn.run = host_call_on_turn;
}

void host_door_end(struct host *host, const struct host_process *process_or_null)
{
    struct kg_err err = {0};
    kg_fail(&err, process_or_null ? KG_E_PLUGIN_DOWN : KG_E_STOPPING, "%s%s",
            process_or_null ? "the plugin went away before it could be called: "
                            : "the daemon is stopping",
            process_or_null ? process_or_null->name : "");
    for (struct host_held *held = host->door->first; held != NULL;) {
        bool meant = process_or_null == NULL || held->call->process == process_or_null;
        if (meant)
            fail_held(held->call, &err);
        held = meant ? host->door->first : held->next; /* an answered caller may have changed it */
    }
}

/* -- the interface ----------------------------------------------------------------------------- */

struct host_call *host_pass(struct host *host, const struct host_passage *passage,
                            struct kg_err *err)
{
    if (check_door(host, err) < 0 || check_process(passage->process, err) < 0)
        return NULL;
    return pass(host, passage, err);
}

const struct host_call_kind host_method_kind = {
    .act = DIALECT_METHOD,
    .take = take_method_result,
    .audit_sent = host_audit_called,
    .audit_ended = host_audit_returned,
};
static const struct host_call_kind list_kind = {
    .act = DIALECT_LIST,
    .audit_sent = host_audit_called,
    .audit_ended = host_audit_returned,
};

const struct host_call_kind host_tool_kind = {
    .act = DIALECT_TOOL,
    .take = take_tool_result,
    .audit_sent = host_audit_called,
    .audit_ended = host_audit_returned,
};

/* False: nothing of that name is declared. */
static bool fill_in_method(struct host_passage *passage)
{
    const struct manifest_method *declared =
        manifest_method_find(passage->process->manifest, passage->method);
    if (declared == NULL)
        return false;
    passage->kind = &host_method_kind;
    passage->params_schema = declared->params;
    passage->result_schema = declared->result;
    passage->timeout_ms = declared->timeout_ms;
    return true;
}

static bool fill_in_tool(struct host_passage *passage)
{
    const struct manifest_tool *declared =
        manifest_tool_called(passage->process->manifest, passage->method);
    if (declared == NULL)
        return false;
    passage->kind = &host_tool_kind;
    passage->params_schema = declared->parameters;
    passage->result_schema = declared->output;
    passage->timeout_ms = declared->timeout_ms;
    return true;
}

static bool passage_fill(struct host_passage *passage, struct host_process *process,
                         const struct host_call_request *request)
{
    *passage = (struct host_passage){
        .process = process,
        .method = request->method,
        .params = request->params,
        .asker = request->asker,
        .caller_timeout_ms = request->caller_timeout_ms,
        .on_done = request->on_done,
        .on_progress = request->on_progress,
        .asked = request->asked,
        .data = request->data,
    };
    if (!(request->is_tool ? fill_in_tool : fill_in_method)(passage))
        return false;
    if (request->all_pages)
        passage->kind = &list_kind;
    passage->timeout_ms = host_call_timeout_ms(process->plugin->host, passage->timeout_ms);
    return true;
}

/* Of a process that runs: a method may be declared and not offered. */
static int passage_make(struct host_passage *passage, struct host_process *process,
                        const struct host_call_request *request, struct kg_err *err)
{
    if (!request->is_tool && check_method(process, request->method, err) < 0)
        return -EINVAL;
    if (passage_fill(passage, process, request))
        return 0;
    if (!request->is_tool)
        return say_no_method(process, request->method, err);
    kg_fail(err, KG_E_METHOD_NOT_FOUND, "plugin %s has no tool %.*s", process->name,
            KG_STR_CUT(request->method, RPC_METHOD_MAX));
    return kg_hint(err, "kaged plugin tools %s lists them", process->name);
}

int host_call_send(struct host_call *call, const struct host_call_request *request,
                   struct kg_err *err)
{
    struct host_process *process = call->process;
    struct host_passage passage;
    if (check_door(call->host, err) < 0 || check_process(process, err) < 0 ||
        passage_make(&passage, process, request, err) < 0)
        return -EINVAL;
    int checked = check_passage(&passage, err);
    return checked < 0 ? checked : host_call_enter(call, &passage, err);
}

/* It came before its process: what can be said against it is said before that is started. */
static struct host_call *host_call_wait_for_start(struct host *host, struct host_process *process,
                                                  const struct host_call_request *request,
                                                  struct kg_err *err)
{
    struct host_passage passage;
    if (passage_fill(&passage, process, request) && check_passage(&passage, err) < 0)
        return NULL;
    host_process_use(process);
    if (!host_process_is_starting(process)) {
        check_process(process, err);
        return NULL;
    }
    struct host_call *call = new_call(host, request->asker);
    call->process = process;
    host_wait(call, request);
    return call;
}

struct host_call *host_call(struct host *host, const struct host_call_request *request,
                            struct kg_err *err)
{
    struct host_named named;
    if (host_find(host, request->plugin, &named, err) < 0 || check_door(host, err) < 0 ||
        host_check_process(named, err) < 0)
        return NULL;
    struct host_process *process = named.process;
    bool runs = instance_talk(process->instance) != NULL; /* which check_process would ask for */
    bool starts = !runs && ((host_process_is_lazy(process) && host_process_is_allowed(process)) ||
                            (request->is_tool && host_process_is_starting(process)));
    /* It may be started with tools that were approved just now. */
    if (starts &&
        (request->is_tool || manifest_method_find(process->manifest, request->method) != NULL))
        return host_call_wait_for_start(host, process, request, err);
    struct host_passage passage;
    if ((!runs && !starts && check_process(process, err) < 0) ||
        passage_make(&passage, process, request, err) < 0)
        return NULL;
    return pass(host, &passage, err);
}

void host_call_cancel(struct host_call *call)
{
    const struct host_reply cancelled = {.error = {.code = KG_E_CANCELLED}};
    if (call->waiting != NULL) {
        host_wait_cancel(call);
        return;
    }
    if (call->held != NULL) {
        held_free(leave_row(call));
        host_call_release(call);
        return;
    }
    unlink_sent(call);
    dialect_drop(&call->wire);
    host_call_end_call(call, &cancelled);
    host_call_release(call);
}
