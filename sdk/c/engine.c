/*
 * A plugin between its handlers and the host: one message after the other, each request answered
 * once. While a handler waits for the host, what else comes is held back, except pings.
 */
#include "internal.h"

#include <limits.h>
#include <stdlib.h>

#define HELD_MAX 1024 /* messages; the host is told to come again later */

void engine_init(struct engine *engine, const struct kaged_plugin *plugin, struct link link)
{
    *engine = (struct engine){.plugin = plugin, .link = link, .projects = kg_list_new(0)};
}

void engine_free(struct engine *engine)
{
    for (size_t i = 0; i < engine->held_count; i++)
        message_free(&engine->held[i]);
    free(engine->held);
    kg_doc_free(engine->config);
    kg_list_free(engine->projects);
    kg_buf_free(&engine->out);
}

void failure_clear(struct failure *failure)
{
    free(failure->message);
    kg_doc_free(failure->data);
    *failure = (struct failure){0};
}

static int fail(struct failure *failure, int code, const char *message)
{
    failure_clear(failure);
    failure->code = code;
    failure->message = kg_strdup(message);
    return -1;
}

/* -- out --------------------------------------------------------------------------------------- */

/* Whether the host would take what stands in `out`. */
static bool is_fit(const struct engine *engine)
{
    return engine->out.length <= LINE_BYTES_MAX &&
           kg_json_check(kg_buf_view(&engine->out), NULL) == KG_JSON_OK;
}

static bool send_out(struct engine *engine)
{
    kg_buf_char(&engine->out, '\n');
    bool sent = engine->link.write(engine->link.data, kg_buf_view(&engine->out));
    if (!sent)
        engine->ending = true;
    engine->out.length = 0;
    return sent;
}

static struct kg_json_writer begin_message(struct engine *engine)
{
    engine->out.length = 0;
    struct kg_json_writer json = kg_json_writer(&engine->out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "jsonrpc", "2.0");
    return json;
}

static struct kg_json_writer begin_answer(struct engine *engine, const struct kg_node *id)
{
    struct kg_json_writer json = begin_message(engine);
    kg_json_key(&json, "id");
    if (id != NULL)
        kg_json_node(&json, id);
    else
        kg_json_null(&json);
    return json;
}

static void write_error(struct engine *engine, const struct kg_node *id,
                        const struct failure *failure)
{
    struct kg_json_writer json = begin_answer(engine, id);
    kg_json_key(&json, "error");
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "code", failure->code);
    kg_json_named_text(&json, "message", failure->message);
    if (failure->data != NULL) {
        kg_json_key(&json, "data");
        kg_json_node(&json, failure->data->root);
    }
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
}

static void answer_internal(struct engine *engine, const struct kg_node *id, const char *words)
{
    kg_auto(kg_free) char *message = kg_format("internal error: %s", words);
    write_error(engine, id, &(struct failure){.code = KAGED_INTERNAL, .message = message});
    send_out(engine);
}

static void answer_error(struct engine *engine, const struct kg_node *id,
                         const struct failure *failure)
{
    write_error(engine, id, failure);
    if (is_fit(engine))
        send_out(engine);
    else
        answer_internal(engine, id, "the error cannot be sent");
}

static void answer_result(struct engine *engine, const struct kg_node *id, struct kg_str result)
{
    struct kg_json_writer json = begin_answer(engine, id);
    kg_json_key(&json, "result");
    kg_json_raw(&json, result.length > 0 ? result : KG_STR("null"));
    kg_json_end(&json, '}');
    if (is_fit(engine))
        send_out(engine);
    else
        answer_internal(engine, id, "the result is too large, too deep, or not JSON");
}

static void answer_refusal(struct engine *engine, const struct message *message)
{
    const char *name = message->code == KAGED_INVALID_REQUEST ? "invalid request" : "parse error";
    kg_auto(kg_free) char *words = kg_format("%s: %s", name, message->problem);
    answer_error(engine, message->id, &(struct failure){.code = message->code, .message = words});
}

bool engine_notify(struct engine *engine, const char *type, struct kg_str params)
{
    if (engine->state != ENGINE_OPEN)
        return false;
    struct kg_json_writer json = begin_message(engine);
    kg_json_named_text(&json, "method", type);
    kg_json_key(&json, "params");
    kg_json_raw(&json, params.length > 0 ? params : KG_STR("{}"));
    kg_json_end(&json, '}');
    return is_fit(engine) && send_out(engine);
}

/* -- calls ------------------------------------------------------------------------------------- */

static kaged_handler *find_in(const struct kaged_entry *table, const char *name)
{
    for (; table != NULL && table->name != NULL; table++)
        if (strcmp(table->name, name) == 0)
            return table->run;
    return NULL;
}

/* What follows the prefix, or NULL. */
static const char *after(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

static kaged_handler *find_handler(const struct kaged_plugin *plugin, const char *method)
{
    kaged_handler *found = find_in(plugin->methods, method);
    const char *rest = after(method, plugin->name);
    if (found == NULL && rest != NULL && rest[0] == '.')
        found = find_in(plugin->tools, rest + 1);
    rest = after(method, "kaged.hook.");
    return found == NULL && rest != NULL ? find_in(plugin->hooks, rest) : found;
}

static int read_context(struct kaged_call *call, const struct kg_node *context)
{
    struct {
        const char *key;
        const char **text;
    } rows[] = {
        {"operator_id", &call->context.operator_id}, {"project_id", &call->context.project_id},
        {"agent_path", &call->context.agent_path},   {"session_id", &call->context.session_id},
        {"request_id", &call->context.request_id},   {"project_root", &call->context.project_root},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        const struct kg_node *value = kg_node_get(context, rows[i].key);
        if (value != NULL && value->type != KG_NULL && value->type != KG_STRING)
            return kaged_invalid_params(call, "_context.%s is neither a string nor null",
                                        rows[i].key);
        *rows[i].text = kaged_json_text(json_of(value));
    }
    return 0;
}

static const struct kg_node nothing = {.type = KG_OBJECT};

/* The params lose what is not the caller's own. */
static int read_params(struct kaged_call *call, const struct message *message)
{
    struct engine *engine = call->engine;
    call->params = &nothing;
    call->config = engine->config ? engine->config->root : &nothing;
    if (message->params == NULL)
        return 0;
    if (message->params->type != KG_OBJECT)
        return kaged_invalid_params(call, "they are not an object");
    const struct kg_node *context = kg_node_get(message->params, "_context");
    const struct kg_node *config = kg_node_get(message->params, "_config");
    if (context != NULL && context->type != KG_OBJECT)
        return kaged_invalid_params(call, "_context is not an object");
    if (config != NULL && config->type != KG_OBJECT)
        return kaged_invalid_params(call, "_config is not an object");
    if (read_context(call, context) < 0)
        return -1;
    call->params = call_own_params(call, message->params);
    if (config != NULL)
        call->config = config;
    return 0;
}

static int run_message(struct kaged_call *call, const struct message *message)
{
    struct engine *engine = call->engine;
    const struct system_row *row = system_find(message->method);
    bool request = message->kind == MESSAGE_REQUEST;
    enum engine_state from = !row      ? ENGINE_OPEN
                             : request ? row->request_from
                                       : row->notification_from;
    kaged_handler *run = row ? row->run : find_handler(engine->plugin, message->method);
    if (engine->state < from)
        return kaged_fail(call, KAGED_NOT_INITIALIZED, "not initialized");
    if (run == NULL)
        return kaged_fail(call, KAGED_METHOD_NOT_FOUND, "method not found");
    if (row != NULL && row->mute && !request)
        return 0;
    return read_params(call, message) < 0 ? -1 : run(call);
}

static void finish_call(struct kaged_call *call, const struct message *message, int result)
{
    bool request = message->kind == MESSAGE_REQUEST;
    if (result != 0 && call->failure.code == 0) {
        kaged_log(KAGED_ERROR, "a handler failed",
                  KAGED_FIELDS({"method", kaged_text(message->method)}));
        fail(&call->failure, KAGED_INTERNAL, "internal error");
    }
    if (!request)
        return;
    if (result != 0)
        answer_error(call->engine, message->id, &call->failure);
    else
        answer_result(call->engine, message->id,
                      call->result ? kg_buf_view(&call->result->buf) : KG_STR_NULL);
}

static void run_call(struct engine *engine, const struct message *message)
{
    struct kaged_call call = {.engine = engine, .id = message->id};
    int result = run_message(&call, message);
    finish_call(&call, message, result);
    call_free(&call);
}

/* -- in ---------------------------------------------------------------------------------------- */

static void take(struct engine *engine, struct message *message)
{
    if (message->kind == MESSAGE_REFUSED)
        answer_refusal(engine, message);
    else if (message->kind == MESSAGE_REQUEST || message->kind == MESSAGE_NOTIFICATION)
        run_call(engine, message);
    message_free(message);
}

static void take_held(struct engine *engine)
{
    while (engine->held_count > 0) {
        struct message first = engine->held[0];
        memmove(engine->held, engine->held + 1, --engine->held_count * sizeof(first));
        take(engine, &first);
    }
}

void engine_take(struct engine *engine, struct kg_str line)
{
    struct message message;
    message_read(line, &message);
    take(engine, &message);
    take_held(engine);
}

/* -- time -------------------------------------------------------------------------------------- */

void engine_tick(struct engine *engine)
{
    struct kaged_call call = {.engine = engine};
    if (engine->timed == NULL)
        return;
    read_params(&call, &(struct message){.params = NULL});
    if (engine->timed(&call) != 0)
        kaged_log(KAGED_ERROR, "the timed handler failed",
                  KAGED_FIELDS({"error", kaged_text(call.failure.message)}));
    call_free(&call);
    take_held(engine);
}

/* How long to wait for a line; what is due runs first. */
static int wait_ms(struct engine *engine)
{
    if (engine->state != ENGINE_OPEN || engine->timed == NULL)
        return -1;
    uint64_t now = kg_monotonic_ms();
    if (now >= engine->due_ms) {
        engine->due_ms = now + engine->interval_ms;
        engine_tick(engine);
    }
    uint64_t left = engine->due_ms > now ? engine->due_ms - now : 0;
    return (int)(left < INT_MAX ? left : INT_MAX);
}

void engine_loop(struct engine *engine)
{
    while (!engine->ending) {
        struct kg_str line;
        struct message message;
        int timeout_ms = wait_ms(engine);
        if (engine->ending)
            return;
        enum link_read got = engine->link.read(engine->link.data, timeout_ms, &line);
        if (got == LINK_END)
            return;
        if (got == LINK_LINE)
            engine_take(engine, line);
        if (got != LINK_OVERSIZE)
            continue;
        message_oversize(&message);
        take(engine, &message);
    }
}

void engine_shut_down(struct engine *engine)
{
    engine->ending = true;
    if (engine->plugin->on_shutdown != NULL)
        engine->plugin->on_shutdown(engine->plugin->data);
}

/* -- requests to the host ---------------------------------------------------------------------- */

static bool answers(const struct message *message, int64_t id)
{
    int64_t number;
    return message->kind == MESSAGE_RESPONSE &&
           kg_node_int(kg_node_get(message->doc->root, "id"), &number) && number == id;
}

static bool is_end(const struct message *message)
{
    return message->kind == MESSAGE_NOTIFICATION && strcmp(message->method, "shutdown") == 0;
}

static void hold(struct engine *engine, struct message *message)
{
    if (engine->held_count >= HELD_MAX) {
        if (message->kind == MESSAGE_REQUEST)
            answer_error(engine, message->id,
                         &(struct failure){.code = KAGED_BUSY, .message = "resource busy"});
        message_free(message);
        return;
    }
    engine->held = kg_realloc(engine->held, (engine->held_count + 1) * sizeof(*engine->held));
    engine->held[engine->held_count++] = *message;
}

/* Another message than the one that is waited for. */
static void take_meanwhile(struct engine *engine, struct message *message)
{
    bool runs = message->kind == MESSAGE_REQUEST || message->kind == MESSAGE_NOTIFICATION;
    if (is_end(message))
        engine->ending = true;
    if (runs && strcmp(message->method, "ping") != 0)
        hold(engine, message);
    else
        take(engine, message);
}

/* -1: waits. False: nothing came, or the end did. */
static bool read_next(struct engine *engine, int timeout_ms, struct message *ret_message)
{
    struct kg_str line;
    enum link_read got = engine->link.read(engine->link.data, timeout_ms, &line);
    if (got == LINK_LINE)
        message_read(line, ret_message);
    else if (got == LINK_OVERSIZE)
        message_oversize(ret_message);
    else if (got == LINK_END)
        engine->ending = true;
    return got == LINK_LINE || got == LINK_OVERSIZE;
}

/* A cancel is held like the rest: later it is passed over. */
static bool cancels(const struct message *message, const struct kg_node *id)
{
    const struct kg_node *wanted = message->kind == MESSAGE_NOTIFICATION && message->params != NULL
                                       ? kg_node_get(message->params, "id")
                                       : NULL;
    return wanted != NULL && strcmp(message->method, "kaged.cancel") == 0 &&
           wanted->type == id->type && kg_str_equal(wanted->text, id->text);
}

bool engine_is_cancelled(struct engine *engine, const struct kg_node *id)
{
    struct message message;
    while (!engine->ending && read_next(engine, 0, &message))
        take_meanwhile(engine, &message);
    for (size_t i = 0; i < engine->held_count; i++)
        if (cancels(&engine->held[i], id))
            return true;
    return false;
}

/* False: the end came first. */
static bool wait_for(struct engine *engine, int64_t id, struct message *ret_message)
{
    struct message message;
    while (!engine->ending && read_next(engine, -1, &message)) {
        if (answers(&message, id)) {
            *ret_message = message;
            return true;
        }
        take_meanwhile(engine, &message);
    }
    return false;
}

static int take_host_error(const struct kg_node *error, struct failure *failure)
{
    const struct kg_node *message = kg_node_get(error, "message");
    const struct kg_node *data = kg_node_get(error, "data");
    int64_t code;
    if (!kg_node_int(kg_node_get(error, "code"), &code) || code != (int)code || code == 0 ||
        message == NULL || message->type != KG_STRING)
        return fail(failure, KAGED_INTERNAL, "internal error: the host's answer is malformed");
    fail(failure, (int)code, message->text.data);
    failure->data = data ? json_copy(data) : NULL;
    return -1;
}

static int take_response(struct message *message, struct kg_doc **ret_doc,
                         const struct kg_node **ret_result, struct failure *failure)
{
    const struct kg_node *result = kg_node_get(message->doc->root, "result");
    const struct kg_node *error = kg_node_get(message->doc->root, "error");
    if (error != NULL) {
        take_host_error(result == NULL ? error : NULL, failure);
        message_free(message);
        return -1;
    }
    *ret_result = result;
    *ret_doc = kg_steal(&message->doc);
    return 0;
}

static bool send_request(struct engine *engine, const char *method, struct kg_str params)
{
    struct kg_json_writer json = begin_message(engine);
    kg_json_named_int(&json, "id", engine->last_id + 1);
    kg_json_named_text(&json, "method", method);
    kg_json_key(&json, "params");
    kg_json_raw(&json, params);
    kg_json_end(&json, '}');
    if (!is_fit(engine) || !send_out(engine))
        return false;
    engine->last_id++;
    return true;
}

int engine_request(struct engine *engine, const char *method, struct kg_str params,
                   struct kg_doc **ret_doc, const struct kg_node **ret_result,
                   struct failure *failure)
{
    struct message answer;
    if (engine->state != ENGINE_OPEN)
        return fail(failure, KAGED_NOT_INITIALIZED, "not initialized");
    if (engine->ending)
        return fail(failure, KAGED_INTERNAL, "internal error: the plugin is ending");
    if (!send_request(engine, method, params))
        return fail(failure, KAGED_INTERNAL, "internal error: the request cannot be sent");
    if (!wait_for(engine, engine->last_id, &answer))
        return fail(failure, KAGED_INTERNAL, "internal error: the plugin is ending");
    return take_response(&answer, ret_doc, ret_result, failure);
}
