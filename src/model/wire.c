/*
 * What goes to kaged-model and what comes back. The process speaks with strangers, and may have
 * been taken over by one: what it sends is taken only if it is exactly what it should be.
 */
#include "model/internal.h"

#define TOKENS_MAX 1000000000 /* of one answer: more than any model takes or gives */

const char *const model_stop_names[MODEL_STOPS] = {
    [MODEL_STOP_END] = "stop",      [MODEL_STOP_TOOLS] = "tool_calls",
    [MODEL_STOP_LENGTH] = "length", [MODEL_STOP_REFUSED] = "refused",
    [MODEL_STOP_OTHER] = "other",
};

const char *const model_failure_names[MODEL_FAILURES] = {
    [MODEL_OK] = "ok",
#define MODEL_FAILURE(symbol, name, again) [MODEL_##symbol] = (name),
#include "model/worker/failures.def"
#undef MODEL_FAILURE
};

/* -- requests ---------------------------------------------------------------------------------- */

static void wire_put_text(struct kg_json_writer *json, const char *key, struct kg_str text)
{
    if (text.length == 0)
        return;
    kg_json_named_str(json, key, text);
}

static void wire_put_raw(struct kg_json_writer *json, const char *key, struct kg_str text)
{
    if (text.length == 0)
        return;
    kg_json_named_raw(json, key, text);
}

static void wire_put_limits(struct kg_json_writer *json, const struct local_provider *provider,
                            int64_t total_ms)
{
    const struct {
        const char *key;
        int64_t value;
    } rows[] = {
        {"connect_ms", provider->connect_timeout_ms},
        {"idle_ms", provider->idle_timeout_ms},
        {"total_ms", total_ms},
        {"retries", provider->retries},
    };
    kg_json_named_begin(json, "limits", '{');
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        kg_json_named_int(json, rows[i].key, rows[i].value);
    kg_json_end(json, '}');
}

void model_wire_request(const struct model_request *request, int64_t total_ms, struct kg_buf *out)
{
    const struct local_model *model = request->model;
    const struct local_provider *provider = model->provider;
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    wire_put_text(&json, "kind", kg_str(local_kind_names[provider->kind]));
    wire_put_text(&json, "url", provider->base_url);
    wire_put_text(&json, "key", provider->api_key);
    if (provider->headers != NULL) {
        kg_json_key(&json, "headers");
        kg_json_node(&json, provider->headers);
    }
    wire_put_text(&json, "model", model->model);
    wire_put_text(&json, "system", request->system);
    wire_put_raw(&json, "messages", request->messages);
    wire_put_raw(&json, "tools", request->tools);
    kg_json_named_int(&json, "max_tokens",
                      request->max_tokens > 0 ? request->max_tokens : model->max_tokens);
    wire_put_raw(&json, "temperature", model->temperature);
    kg_json_named_bool(&json, "reasoning", model->reasoning);
    wire_put_limits(&json, provider, total_ms);
    kg_json_end(&json, '}');
}

/* -- events ------------------------------------------------------------------------------------ */

static bool wire_take_text(const struct kg_node *object, const char *key, struct kg_str *ret_text)
{
    const struct kg_node *node = kg_node_get(object, key);
    if (node == NULL || node->type != KG_STRING)
        return false;
    *ret_text = node->text;
    return true;
}

static bool wire_take_count(const struct kg_node *object, const char *key, int64_t *ret_count)
{
    const struct kg_node *node = kg_node_get(object, key);
    return node != NULL && kg_node_int(node, ret_count) && *ret_count >= 0;
}

int64_t model_wire_id(const struct kg_node *params)
{
    int64_t id = 0;
    return wire_take_count(params, "id", &id) ? id : 0;
}

static bool wire_take_delta(const struct kg_node *node, struct model_event *event)
{
    event->text = node->text;
    return node->type == KG_STRING;
}

static bool take_tool_call(const struct kg_node *node, struct model_event *event)
{
    event->call.arguments = kg_node_get(node, "arguments");
    (void)wire_take_text(node, "problem", &event->call.problem);
    return wire_take_text(node, "id", &event->call.id) &&
           wire_take_text(node, "name", &event->call.name) && event->call.arguments != NULL &&
           event->call.arguments->type == KG_OBJECT;
}

/* A provider may claim any number: what is added up for a whole turn must not run over. */
static bool take_tokens(const struct kg_node *node, const char *key, int64_t *ret_tokens)
{
    if (!wire_take_count(node, key, ret_tokens))
        return false;
    if (*ret_tokens > TOKENS_MAX)
        *ret_tokens = TOKENS_MAX;
    return true;
}

static bool wire_take_usage(const struct kg_node *node, struct model_event *event)
{
    return take_tokens(node, "input_tokens", &event->usage.input_tokens) &&
           take_tokens(node, "cached_tokens", &event->usage.cached_tokens) &&
           take_tokens(node, "output_tokens", &event->usage.output_tokens);
}

static bool wire_take_retry(const struct kg_node *node, struct model_event *event)
{
    return wire_take_count(node, "after_ms", &event->retry.after_ms) &&
           wire_take_text(node, "message", &event->retry.message);
}

static const struct {
    const char *key;
    enum model_event_kind kind;
    bool (*take)(const struct kg_node *node, struct model_event *event);
} events[] = {
    {"delta", MODEL_TEXT, wire_take_delta},         {"reasoning", MODEL_REASONING, wire_take_delta},
    {"tool_call", MODEL_TOOL_CALL, take_tool_call}, {"usage", MODEL_USAGE, wire_take_usage},
    {"retry", MODEL_RETRY, wire_take_retry},
};

bool model_wire_event(const struct kg_node *params, struct model_event *ret_event)
{
    for (size_t i = 0; i < KG_COUNT(events); i++) {
        const struct kg_node *node = kg_node_get(params, events[i].key);
        if (node == NULL)
            continue;
        *ret_event = (struct model_event){.kind = events[i].kind};
        return events[i].take(node, ret_event);
    }
    return false;
}

/* -- ends -------------------------------------------------------------------------------------- */

/* The place of a name in a list, or `count`. */
static size_t wire_place_of(struct kg_str name, const char *const *names, size_t count)
{
    size_t i = 0;
    while (i < count && !kg_str_is(name, names[i]))
        i++;
    return i;
}

bool model_wire_result(struct kg_str result, struct model_end *ret_end)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(result, NULL);
    struct kg_str reason;
    if (doc == NULL || !wire_take_text(doc->root, "stop_reason", &reason))
        return false;
    size_t stop = wire_place_of(reason, model_stop_names, MODEL_STOPS);
    *ret_end = (struct model_end){.stop = (enum model_stop)stop};
    return stop < MODEL_STOPS;
}

bool model_wire_error(struct kg_str error, struct model_end *ret_end)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(error, NULL);
    const struct kg_node *data = doc ? kg_node_get(doc->root, "data") : NULL;
    struct kg_str message, code;
    int64_t status, after_ms;
    if (data == NULL || !wire_take_text(doc->root, "message", &message) ||
        !wire_take_text(data, "code", &code) || !wire_take_count(data, "status", &status) ||
        !wire_take_count(data, "retry_after_ms", &after_ms) || status > 999)
        return false;
    size_t failure = wire_place_of(code, model_failure_names, MODEL_FAILURES);
    if (failure == MODEL_OK || failure == MODEL_FAILURES)
        return false;
    *ret_end = (struct model_end){
        .failure = (enum model_failure)failure, .status = (int)status, .retry_after_ms = after_ms};
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    kg_buf_escaped(&words, message);
    kg_fail(&ret_end->err, KG_E_MODEL, "%.*s", KG_STR_CUT(kg_buf_view(&words), 500));
    return true;
}
