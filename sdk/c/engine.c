/*
 * A plugin between its handlers and the host: one message after the other, each request answered
 * once. While a handler waits for the host, what else comes is held back, except pings.
 */
#include "internal.h"

#include <stdlib.h>

#define METHOD_NOT_FOUND (-32601)
#define INVALID_REQUEST  (-32600)
#define HELD_MAX         1024 /* messages; the host is told to come again later */

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
    const char *name = message->code == INVALID_REQUEST ? "invalid request" : "parse error";
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

/* -- the initialize answer --------------------------------------------------------------------- */

static void put_list(struct kaged_writer *writer, const char *key, const char *const *list)
{
    kaged_key(writer, key);
    kaged_begin_array(writer);
    for (; list != NULL && *list != NULL; list++)
        kaged_put(writer, kaged_text(*list));
    kaged_end_array(writer);
}

static void put_introduction(struct kaged_writer *writer, const struct kaged_plugin *plugin)
{
    kaged_begin_object(writer);
    kaged_put_field(writer, "name", kaged_text(plugin->name));
    kaged_put_field(writer, "version", kaged_text(plugin->version));
    kaged_put_field(writer, "api_version", kaged_int(KAGED_API_VERSION));
    kaged_key(writer, "methods");
    kaged_begin_array(writer);
    for (const struct kaged_entry *row = plugin->methods; row != NULL && row->name != NULL; row++)
        kaged_put(writer, kaged_text(row->name));
    kaged_end_array(writer);
    put_list(writer, "notifications", plugin->notifications);
    put_list(writer, "capabilities_used", plugin->capabilities);
    kaged_end_object(writer);
}

/* -- projects: a sorted list ------------------------------------------------------------------- */

static void add_project(struct engine *engine, struct kg_str project)
{
    if (kg_list_has(engine->projects, project))
        return;
    kg_list_add(&engine->projects, kg_str_dup(project));
    size_t at = kg_list_count(engine->projects) - 1;
    for (; at > 0 && strcmp(engine->projects[at - 1], engine->projects[at]) > 0; at--) {
        char *other = engine->projects[at - 1];
        engine->projects[at - 1] = engine->projects[at];
        engine->projects[at] = other;
    }
}

static void remove_project(struct engine *engine, struct kg_str project)
{
    char **at = engine->projects;
    while (*at != NULL && !kg_str_is(project, *at))
        at++;
    free(*at);
    for (; *at != NULL; at++)
        *at = at[1];
}

/* -- system methods ---------------------------------------------------------------------------- */

static int run_initialize(struct kaged_call *call)
{
    struct engine *engine = call->engine;
    const struct kg_node *params = call->params;
    const struct kg_node *name = kg_node_get(params, "plugin_name");
    const struct kg_node *projects = kg_node_get(params, "projects");
    int64_t api_version;
    if (engine->state != ENGINE_NEW)
        return kaged_fail(call, INVALID_REQUEST, "invalid request: initialize came before");
    if (!kg_node_int(kg_node_get(params, "api_version"), &api_version) ||
        api_version != KAGED_API_VERSION)
        return kaged_invalid_params(call, "this plugin speaks api_version %d", KAGED_API_VERSION);
    if (name != NULL && (name->type != KG_STRING || !kg_str_is(name->text, engine->plugin->name)))
        return kaged_invalid_params(call, "plugin_name is not %s", engine->plugin->name);
    for (size_t i = 0; i < kaged_json_count(json_of(projects)); i++)
        if (kaged_json_text(kaged_json_at(json_of(projects), i)) != NULL)
            add_project(engine, node_of(kaged_json_at(json_of(projects), i))->text);
    engine->has_storage = kaged_json_is_true(json_of(kg_node_get(params, "storage_available")));
    engine->state = ENGINE_GREETED;
    put_introduction(kaged_result(call), engine->plugin);
    return 0;
}

static int run_initialized(struct kaged_call *call)
{
    struct engine *engine = call->engine;
    if (engine->state != ENGINE_GREETED)
        return 0;
    engine->state = ENGINE_OPEN;
    if (engine->plugin->on_ready != NULL && engine->plugin->on_ready(call) != 0)
        kaged_log(KAGED_ERROR, "on_ready failed",
                  KAGED_FIELDS({"error", kaged_text(call->failure.message)}));
    failure_clear(&call->failure);
    return 0;
}

static int run_ping(struct kaged_call *call)
{
    return kaged_reply(call, KAGED_FIELDS({"status", kaged_text("ok")}));
}

/* The author's handler of a system method: what it writes is nobody's business. */
static int run_quietly(struct kaged_call *call, kaged_handler *handler)
{
    int result = handler != NULL ? handler(call) : 0;
    if (call->result != NULL)
        call->result->buf.length = 0;
    return result;
}

static struct kg_doc *copy_document(const struct kg_node *node)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    kg_json_node(&json, node);
    return json_read(kg_buf_view(&text));
}

static int run_config_update(struct kaged_call *call)
{
    struct engine *engine = call->engine;
    const struct kg_node *config = kg_node_get(call->params, "config");
    if (config == NULL || config->type != KG_OBJECT)
        return kaged_invalid_params(call, "config is no object");
    call->params = call->config = config;
    int result = run_quietly(call, engine->plugin->on_config);
    if (result != 0) {
        if (call->failure.code == KAGED_PLUGIN_ERROR)
            call->failure.code = KAGED_CONFIG_INVALID;
        return result;
    }
    kg_doc_free(engine->config);
    engine->config = copy_document(config);
    return 0;
}

/* NULL if there is none; then the call has failed. */
static const struct kg_node *read_project(struct kaged_call *call)
{
    const struct kg_node *project = kg_node_get(call->params, "project");
    if (project != NULL && project->type == KG_STRING)
        return project;
    kaged_invalid_params(call, "project is no string");
    return NULL;
}

static int run_activated(struct kaged_call *call)
{
    const struct kg_node *project = read_project(call);
    if (project == NULL)
        return -1;
    add_project(call->engine, project->text);
    return run_quietly(call, call->engine->plugin->on_project_activated);
}

static int run_deactivated(struct kaged_call *call)
{
    const struct kg_node *project = read_project(call);
    if (project == NULL)
        return -1;
    remove_project(call->engine, project->text);
    return run_quietly(call, call->engine->plugin->on_project_deactivated);
}

static int run_shutdown(struct kaged_call *call)
{
    call->engine->ending = true;
    return 0;
}

/* From which state on a request of that name is taken, and a notification. */
static const struct system_row {
    const char *name;
    kaged_handler *run;
    enum engine_state request_from;
    enum engine_state notification_from;
    bool mute; /* as a notification it says nothing to anybody */
} system_rows[] = {
    {"initialize", run_initialize, ENGINE_NEW, ENGINE_NEW, true},
    {"initialized", run_initialized, ENGINE_GREETED, ENGINE_GREETED, false},
    {"ping", run_ping, ENGINE_GREETED, ENGINE_GREETED, true},
    {"config.update", run_config_update, ENGINE_GREETED, ENGINE_GREETED, false},
    {"projects.activated", run_activated, ENGINE_GREETED, ENGINE_GREETED, false},
    {"projects.deactivated", run_deactivated, ENGINE_GREETED, ENGINE_GREETED, false},
    {"shutdown", run_shutdown, ENGINE_GREETED, ENGINE_NEW, false},
};

static const struct system_row *find_system(const char *method)
{
    for (size_t i = 0; i < KG_COUNT(system_rows); i++)
        if (strcmp(system_rows[i].name, method) == 0)
            return &system_rows[i];
    return NULL;
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
        return kaged_invalid_params(call, "they are no object");
    const struct kg_node *context = kg_node_get(message->params, "_context");
    const struct kg_node *config = kg_node_get(message->params, "_config");
    if (context != NULL && context->type != KG_OBJECT)
        return kaged_invalid_params(call, "_context is no object");
    if (config != NULL && config->type != KG_OBJECT)
        return kaged_invalid_params(call, "_config is no object");
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
    const struct system_row *row = find_system(message->method);
    bool request = message->kind == MESSAGE_REQUEST;
    enum engine_state from = !row      ? ENGINE_OPEN
                             : request ? row->request_from
                                       : row->notification_from;
    kaged_handler *run = row ? row->run : find_handler(engine->plugin, message->method);
    if (engine->state < from)
        return kaged_fail(call, KAGED_NOT_INITIALIZED, "not initialized");
    if (run == NULL)
        return kaged_fail(call, METHOD_NOT_FOUND, "method not found");
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
    struct kaged_call call = {.engine = engine};
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

void engine_loop(struct engine *engine)
{
    while (!engine->ending) {
        struct kg_str line;
        struct message message;
        enum link_read got = engine->link.read(engine->link.data, &line);
        if (got == LINK_END)
            return;
        if (got == LINK_LINE) {
            engine_take(engine, line);
            continue;
        }
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

/* False: the end came first. */
static bool wait_for(struct engine *engine, int64_t id, struct message *ret_message)
{
    while (!engine->ending) {
        struct kg_str line;
        struct message message;
        enum link_read got = engine->link.read(engine->link.data, &line);
        if (got == LINK_END)
            engine->ending = true;
        else if (got == LINK_LINE)
            message_read(line, &message);
        else
            message_oversize(&message);
        if (got == LINK_END)
            break;
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
    failure->data = data ? copy_document(data) : NULL;
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
