/*
 * What must not be in a trace: values of the operator's own keys in local.toml, and fields that a
 * schema of the plugin calls sensitive. Both are hidden where they stand, leaf by leaf, so that the
 * structure stays; and their texts are remembered and hidden wherever else they appear, since a
 * plugin may store, log or return them. When in doubt, a value is hidden.
 */
#include "project/project.h"
#include "trace/trace.h"
#include "wire/wire.h"

#include <stdlib.h>

#define ANSWERS_MAX   1024  /* that are waited for, of methods whose result is sensitive */
#define SEEN_PER_LINE 64    /* values of one line that are remembered */
#define WORK_PER_LINE 20000 /* nodes of schemas that are looked at for one line */

/* A method or tool of which something is sensitive. */
struct guarded {
    char *method;                   /* owned */
    struct kg_doc *params, *result; /* owned schemas; NULL: nothing in it is */
};

struct answer {
    int64_t id;
    const struct guarded *method;
};

struct trace_redactor {
    struct redact_set *secrets; /* borrowed */
    struct guarded *methods;    /* owned */
    size_t method_count;
    bool guards_results;
    struct kg_doc *config_schema; /* owned; NULL: nothing in it is sensitive */
    struct kg_doc *known_config;  /* owned: all of config_schema, for its names; or NULL */
    char **system_keys;           /* owned */
    bool has_system;              /* the plugin takes keys of the operator's */

    int64_t first_id; /* of the requests that were seen; 0: none was */
    struct answer answers[ANSWERS_MAX];
    size_t answer_count;
    bool lost_answers; /* there were more: all results are hidden */
    size_t seen;       /* values of this line that were remembered */
    bool hid;          /* something of this line was hidden where it stands */
    bool keeps;        /* what is hidden is of the configuration */
    size_t work;
};

/* -- what is secret ---------------------------------------------------------------------------- */

static struct kg_doc *trace_redact_copy_of(const struct kg_node *node)
{
    return node != NULL ? kg_doc_copy(node) : NULL;
}

/* A copy of the schema if something in it is sensitive. */
static struct kg_doc *guarding(const struct kg_node *schema)
{
    return schema != NULL && project_schema_is_sensitive(schema) ? trace_redact_copy_of(schema)
                                                                 : NULL;
}

static void trace_redact_guard(struct trace_redactor *redactor, char *method,
                               const struct kg_node *params, const struct kg_node *result)
{
    struct guarded guarded = {method, guarding(params), guarding(result)};
    if (guarded.params == NULL && guarded.result == NULL) {
        free(method);
        return;
    }
    redactor->guards_results |= guarded.result != NULL;
    redactor->methods =
        kg_realloc(redactor->methods, (redactor->method_count + 1) * sizeof(*redactor->methods));
    redactor->methods[redactor->method_count++] = guarded;
}

static void guard_methods(struct trace_redactor *redactor, const struct manifest *manifest)
{
    const struct kg_node *schemas = kg_node_get(manifest->doc->root, "schemas");
    for (uint32_t i = 0; schemas != NULL && schemas->type == KG_OBJECT && i < schemas->count; i++) {
        const struct kg_member *member = &schemas->members[i];
        trace_redact_guard(redactor, kg_str_dup(member->key), kg_node_get(&member->value, "params"),
                           kg_node_get(&member->value, "result"));
    }
    for (size_t i = 0; i < manifest->tool_count; i++)
        trace_redact_guard(redactor, kg_format("%s.%s", manifest->name, manifest->tools[i].name),
                           manifest->tools[i].parameters_node, NULL);
}

/* Every text and number in it. */
static void keep_values(struct trace_redactor *redactor, const struct kg_node *node)
{
    if (node->type == KG_STRING || node->type == KG_NUMBER)
        redact_set_add(redactor->secrets, node->text, REDACT_KEPT);
    bool is_list = node->type == KG_ARRAY;
    for (uint32_t i = 0; (is_list || node->type == KG_OBJECT) && i < node->count; i++)
        keep_values(redactor, is_list ? &node->items[i] : &node->members[i].value);
}

static bool hides_setting(struct trace_redactor *redactor, struct kg_str key)
{
    const struct kg_node *known =
        redactor->known_config ? kg_node_get(redactor->known_config->root, "properties") : NULL;
    if (kg_list_has(redactor->system_keys, key))
        return true;
    if (redactor->has_system && kg_node_member(known, key) == NULL)
        return true; /* it is not the project's */
    return redactor->config_schema != NULL &&
           project_is_sensitive(redactor->config_schema->root, key, &redactor->work);
}

static void keep_config(struct trace_redactor *redactor, struct kg_str config)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        config.length > 0 ? kg_json_read(config, NULL) : NULL;
    redactor->work = WORK_PER_LINE;
    for (uint32_t i = 0; doc != NULL && doc->root->type == KG_OBJECT && i < doc->root->count; i++)
        if (hides_setting(redactor, doc->root->members[i].key))
            keep_values(redactor, &doc->root->members[i].value);
}

static void add_keys(struct trace_redactor *redactor, const struct kg_node *object)
{
    for (uint32_t i = 0; object != NULL && object->type == KG_OBJECT && i < object->count; i++)
        kg_list_add(&redactor->system_keys, kg_str_dup(object->members[i].key));
}

struct trace_redactor *trace_redactor_new(const struct trace_secret_parts *parts,
                                          struct redact_set *secrets)
{
    const struct manifest *manifest = parts->manifest;
    struct trace_redactor *redactor = kg_alloc(sizeof(*redactor));
    redactor->secrets = secrets;
    redactor->system_keys = kg_list_new(0);
    guard_methods(redactor, manifest);
    redactor->config_schema = guarding(manifest->config_schema_node);
    redactor->known_config = trace_redact_copy_of(manifest->config_schema_node);
    redactor->has_system = manifest->system_config_schema_node != NULL;
    add_keys(redactor, kg_node_get(manifest->system_config_schema_node, "properties"));
    add_keys(redactor, parts->system);
    if (parts->system != NULL)
        keep_values(redactor, parts->system);
    keep_config(redactor, parts->config);
    return redactor;
}

void trace_redactor_free(struct trace_redactor *redactor)
{
    if (redactor == NULL)
        return;
    for (size_t i = 0; i < redactor->method_count; i++) {
        free(redactor->methods[i].method);
        kg_doc_free(redactor->methods[i].params);
        kg_doc_free(redactor->methods[i].result);
    }
    free(redactor->methods);
    kg_doc_free(redactor->config_schema);
    kg_doc_free(redactor->known_config);
    kg_list_free(redactor->system_keys);
    free(redactor);
}

bool trace_redactor_learns(const struct trace_redactor *redactor)
{
    return redactor->method_count > 0 || redactor->config_schema != NULL;
}

/* -- hiding ------------------------------------------------------------------------------------ */

static void trace_redact_remember(struct trace_redactor *redactor, struct kg_str leaf)
{
    kg_auto(kg_buf_free) struct kg_buf plain = {0};
    enum redact_kind kind = redactor->keeps ? REDACT_KEPT : REDACT_SEEN;
    if ((redactor->seen++ >= SEEN_PER_LINE && !redactor->keeps) ||
        strchr("tfn", leaf.data[0]) != NULL)
        return;
    if (leaf.data[0] != '"') {
        redact_set_add(redactor->secrets, leaf, kind);
        return;
    }
    struct kg_str raw = {leaf.data + 1, leaf.length - 2};
    kg_buf_reserve(&plain, raw.length);
    plain.length = kg_json_unescape(raw, plain.data);
    redact_set_add(redactor->secrets, kg_buf_view(&plain), kind);
}

typedef void put_value_fn(struct trace_redactor *redactor, struct kg_str key, struct kg_str value,
                          const void *data, struct kg_buf *out);

/* The members of a valid object, each value by `put`. */
static void trace_redact_put_members(struct trace_redactor *redactor, struct kg_str object,
                                     put_value_fn *put, const void *data, struct kg_buf *out)
{
    struct kg_json_cursor cursor = kg_json_inside(object);
    struct kg_str raw, value;
    bool escaped;
    char before = '{';
    while (kg_json_next_member(&cursor, &raw, &escaped, &value)) {
        kg_auto(kg_buf_free) struct kg_buf key = {0};
        kg_buf_reserve(&key, raw.length);
        key.length = kg_json_unescape(raw, key.data);
        kg_buf_char(out, before);
        kg_buf_char(out, '"');
        kg_buf_str(out, raw);
        kg_buf_str(out, KG_STR("\":"));
        put(redactor, kg_buf_view(&key), value, data, out);
        before = ',';
    }
    kg_buf_text(out, before == '{' ? "{}" : "}");
}

static void put_hidden(struct trace_redactor *redactor, struct kg_str key, struct kg_str value,
                       const void *data, struct kg_buf *out)
{
    (void)key;
    if (value.data[0] == '{') {
        trace_redact_put_members(redactor, value, put_hidden, data, out);
        return;
    }
    if (value.data[0] != '[') {
        trace_redact_remember(redactor, value);
        redactor->hid = true;
        kg_buf_str(out, KG_STR("\"" TRACE_REDACTED "\""));
        return;
    }
    struct kg_json_cursor cursor = kg_json_inside(value);
    struct kg_str item;
    char before = '[';
    while (kg_json_next_item(&cursor, &item)) {
        kg_buf_char(out, before);
        put_hidden(redactor, KG_STR_NULL, item, data, out);
        before = ',';
    }
    kg_buf_text(out, before == '[' ? "[]" : "]");
}

static void trace_redact_put_setting(struct trace_redactor *redactor, struct kg_str key,
                                     struct kg_str value, const void *data, struct kg_buf *out)
{
    if (hides_setting(redactor, key))
        put_hidden(redactor, key, value, data, out);
    else
        kg_buf_str(out, value);
}

static void trace_redact_put_config(struct trace_redactor *redactor, struct kg_str config,
                                    struct kg_buf *out)
{
    redactor->keeps = true;
    if (config.data[0] == '{')
        trace_redact_put_members(redactor, config, trace_redact_put_setting, NULL, out);
    else
        put_hidden(redactor, KG_STR_NULL, config, NULL, out);
    redactor->keeps = false;
}

static void trace_redact_put_field(struct trace_redactor *redactor, struct kg_str key,
                                   struct kg_str value, const void *schema, struct kg_buf *out)
{
    if (project_is_sensitive(schema, key, &redactor->work))
        put_hidden(redactor, key, value, NULL, out);
    else
        kg_buf_str(out, value);
}

/* A value of which the schema calls something sensitive: a field of it, or all. */
static void put_guarded(struct trace_redactor *redactor, struct kg_str value,
                        const struct kg_node *schema, struct kg_buf *out)
{
    if (value.data[0] == '{' && !kg_node_is_true(schema, "sensitive"))
        trace_redact_put_members(redactor, value, trace_redact_put_field, schema, out);
    else
        put_hidden(redactor, KG_STR_NULL, value, NULL, out);
}

/* -- requests ---------------------------------------------------------------------------------- */

struct request {
    bool tells_config;            /* its member "config" is a configuration */
    const struct kg_node *schema; /* or NULL */
};

static void put_param(struct trace_redactor *redactor, struct kg_str key, struct kg_str value,
                      const void *data, struct kg_buf *out)
{
    const struct request *request = data;
    if (kg_str_is(key, "_config") || (request->tells_config && kg_str_is(key, "config")))
        trace_redact_put_config(redactor, value, out);
    else if (request->schema != NULL && !kg_str_is(key, "_context"))
        trace_redact_put_field(redactor, key, value, request->schema, out);
    else
        kg_buf_str(out, value);
}

static const struct guarded *find_guarded(const struct trace_redactor *redactor, const char *method)
{
    for (size_t i = 0; i < redactor->method_count; i++)
        if (strcmp(redactor->methods[i].method, method) == 0)
            return &redactor->methods[i];
    return NULL;
}

/* So that the answer is known for what it is; ids begin again with each process. */
static void await_answer(struct trace_redactor *redactor, const struct rpc_message *message,
                         const struct guarded *method)
{
    if (strcmp(message->method, "initialize") == 0) {
        redactor->first_id = 0;
        redactor->answer_count = 0;
        redactor->lost_answers = false;
    }
    if (redactor->first_id == 0)
        redactor->first_id = message->id;
    if (method == NULL || method->result == NULL)
        return;
    if (redactor->answer_count == ANSWERS_MAX)
        redactor->lost_answers = true;
    else
        redactor->answers[redactor->answer_count++] = (struct answer){message->id, method};
}

static void trace_redact_put_params(struct trace_redactor *redactor,
                                    const struct rpc_message *message, const struct guarded *method,
                                    struct kg_buf *out)
{
    const struct request request = {
        .tells_config = strcmp(message->method, "config.update") == 0 ||
                        strcmp(message->method, "projects.activated") == 0,
        .schema = method != NULL && method->params != NULL ? method->params->root : NULL,
    };
    if (message->params.data[0] == '{')
        trace_redact_put_members(redactor, message->params, put_param, &request, out);
    else if (request.schema != NULL)
        put_guarded(redactor, message->params, request.schema, out);
    else
        kg_buf_str(out, message->params);
}

static void trace_redact_put_result(struct trace_redactor *redactor,
                                    const struct rpc_message *message, struct kg_buf *out)
{
    bool is_unknown = message->id < redactor->first_id || redactor->first_id == 0;
    if (redactor->guards_results && (is_unknown || redactor->lost_answers)) {
        put_hidden(redactor, KG_STR_NULL, message->result, NULL, out);
        return;
    }
    for (size_t i = 0; i < redactor->answer_count; i++) {
        if (redactor->answers[i].id != message->id)
            continue;
        const struct guarded *method = redactor->answers[i].method;
        redactor->answers[i] = redactor->answers[--redactor->answer_count];
        put_guarded(redactor, message->result, method->result->root, out);
        return;
    }
    kg_buf_str(out, message->result);
}

static void trace_redact_begin_line(struct trace_redactor *redactor)
{
    redactor->seen = 0;
    redactor->work = WORK_PER_LINE;
    redactor->hid = false;
}

/* The line with what stands in a field that is secret hidden. */
static void trace_redact_put_message(struct trace_redactor *redactor, enum trace_kind kind,
                                     struct kg_str line, struct kg_buf *out)
{
    struct rpc_message message;
    struct kg_str span = KG_STR_NULL;
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    rpc_parse(line, &message);
    bool is_call = message.kind == RPC_REQUEST || message.kind == RPC_NOTIFICATION;
    if (kind == TRACE_TO && is_call) {
        const struct guarded *method = find_guarded(redactor, message.method);
        if (message.kind == RPC_REQUEST)
            await_answer(redactor, &message, method);
        span = message.params;
        if (span.length > 0)
            trace_redact_put_params(redactor, &message, method, &shown);
    } else if (kind == TRACE_FROM && message.kind == RPC_RESULT) {
        span = message.result;
        trace_redact_put_result(redactor, &message, &shown);
    }
    if (span.length == 0)
        span = (struct kg_str){line.data, 0};
    kg_buf_append(out, line.data, (size_t)(span.data - line.data));
    kg_buf_str(out, kg_buf_view(&shown));
    const char *rest = span.data + span.length;
    kg_buf_append(out, rest, (size_t)(line.data + line.length - rest));
}

bool trace_redact(struct trace_redactor *redactor, enum trace_kind kind, struct kg_str line,
                  struct kg_buf *ret_line)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    trace_redact_begin_line(redactor);
    if (kind == TRACE_TO || kind == TRACE_FROM)
        trace_redact_put_message(redactor, kind, line, &shown);
    struct kg_str rest = redactor->hid ? kg_buf_view(&shown) : line;
    bool may_be_cut = kind == TRACE_STDERR;
    return redact_put(redactor->secrets, rest, may_be_cut, ret_line) || redactor->hid;
}

void trace_redact_config(struct trace_redactor *redactor, struct kg_str config,
                         struct kg_buf *ret_json)
{
    trace_redact_begin_line(redactor);
    trace_redact_put_config(redactor, config, ret_json);
}

void trace_redact_params(struct trace_redactor *redactor, const char *method, struct kg_str params,
                         struct kg_buf *ret_json)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    struct kg_json_cursor start = {params.data, params.data + params.length};
    kg_json_skip_space(&start);
    struct rpc_message message = {.params = {start.at, (size_t)(start.end - start.at)}};
    kg_str_copy(kg_str(method), message.method, sizeof(message.method));
    trace_redact_begin_line(redactor);
    trace_redact_put_params(redactor, &message, find_guarded(redactor, method), &shown);
    redact_put(redactor->secrets, kg_buf_view(&shown), false, ret_json);
}

void trace_redact_result(struct trace_redactor *redactor, const char *method, struct kg_str result,
                         struct kg_buf *ret_json)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    const struct guarded *guarded = find_guarded(redactor, method);
    trace_redact_begin_line(redactor);
    if (guarded != NULL && guarded->result != NULL)
        put_guarded(redactor, result, guarded->result->root, &shown);
    else
        kg_buf_str(&shown, result);
    redact_put(redactor->secrets, kg_buf_view(&shown), false, ret_json);
}
