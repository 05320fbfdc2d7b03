/* What a handler does with its call. Everything that it is given lives until the call is freed. */
#include "internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void call_free(struct kaged_call *call)
{
    while (call->writers != NULL) {
        struct kaged_writer *next = call->writers->next;
        writer_free(call->writers);
        call->writers = next;
    }
    for (size_t i = 0; i < call->doc_count; i++)
        kg_doc_free(call->docs[i]);
    free(call->docs);
    kg_arena_free(call->arena);
    failure_clear(&call->failure);
}

static struct kg_arena *call_arena(struct kaged_call *call)
{
    if (call->arena == NULL)
        call->arena = kg_arena_new();
    return call->arena;
}

static void keep_doc(struct kaged_call *call, struct kg_doc *doc)
{
    call->docs = kg_realloc(call->docs, (call->doc_count + 1) * sizeof(struct kg_doc *));
    call->docs[call->doc_count++] = doc;
}

static bool is_own(const struct kg_member *member)
{
    return !kg_str_is(member->key, "_context") && !kg_str_is(member->key, "_config");
}

const struct kg_node *call_own_params(struct kaged_call *call, const struct kg_node *params)
{
    struct kg_arena *arena = call_arena(call);
    struct kg_node *own = kg_arena_alloc(arena, sizeof(*own));
    own->type = KG_OBJECT;
    own->members = kg_arena_alloc(arena, (params->count + 1) * sizeof(*own->members));
    for (uint32_t i = 0; i < params->count; i++)
        if (is_own(&params->members[i]))
            own->members[own->count++] = params->members[i];
    return own;
}

/* -- what came --------------------------------------------------------------------------------- */

const struct kaged_json *kaged_params(struct kaged_call *call)
{
    return json_of(call->params);
}

const struct kaged_context *kaged_context(struct kaged_call *call)
{
    return &call->context;
}

const struct kaged_json *kaged_config(struct kaged_call *call)
{
    return json_of(call->config);
}

const char *const *kaged_projects(struct kaged_call *call)
{
    return (const char *const *)call->engine->projects;
}

bool kaged_has_storage(struct kaged_call *call)
{
    return call->engine->has_storage;
}

void *kaged_data(struct kaged_call *call)
{
    return call->engine->plugin->data;
}

/* -- results ----------------------------------------------------------------------------------- */

struct kaged_writer *kaged_writer(struct kaged_call *call)
{
    struct kaged_writer *writer = writer_new();
    writer->next = call->writers;
    call->writers = writer;
    return writer;
}

struct kaged_writer *kaged_result(struct kaged_call *call)
{
    if (call->result == NULL)
        call->result = kaged_writer(call);
    return call->result;
}

int kaged_reply(struct kaged_call *call, const struct kaged_field *fields)
{
    kaged_put_fields(kaged_result(call), fields);
    return 0;
}

int kaged_reply_compacted(struct kaged_call *call, const struct kaged_json *messages,
                          const struct kaged_json *superseded, const char *summary)
{
    struct kaged_writer *result = kaged_result(call);
    kaged_begin_object(result);
    kaged_put_field(result, "role", kaged_text("compactor"));
    kaged_put_field(result, "messages", kaged_json(messages));
    kaged_key(result, "superseded");
    kaged_begin_array(result);
    for (size_t i = 0; i < kaged_json_count(superseded); i++)
        kaged_put(result, kaged_json(kaged_json_get(kaged_json_at(superseded, i), "id")));
    kaged_end_array(result);
    if (summary != NULL)
        kaged_put_field(result, "summary", kaged_text(summary));
    kaged_end_object(result);
    return 0;
}

/* -- errors ------------------------------------------------------------------------------------ */

static int set_failure(struct kaged_call *call, int code, const char *prefix, const char *format,
                       va_list args)
{
    struct kg_buf message = {0};
    char *words;
    failure_clear(&call->failure);
    call->failure.code = code != 0 ? code : KAGED_PLUGIN_ERROR;
    kg_buf_text(&message, prefix);
    if (vasprintf(&words, format, args) >= 0) {
        kg_buf_text(&message, words);
        free(words);
    }
    kg_buf_terminate(&message);
    call->failure.message = message.data;
    return -1;
}

int kaged_fail(struct kaged_call *call, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int result = set_failure(call, code, "", format, args);
    va_end(args);
    return result;
}

int kaged_fail_with(struct kaged_call *call, int code, const struct kaged_field *data,
                    const char *format, ...)
{
    struct kaged_writer *writer = kaged_writer(call);
    kaged_put_fields(writer, data);
    va_list args;
    va_start(args, format);
    int result = set_failure(call, code, "", format, args);
    va_end(args);
    call->failure.data = json_read(kg_buf_view(&writer->buf));
    return result;
}

int kaged_invalid_params(struct kaged_call *call, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int result = set_failure(call, KAGED_INVALID_PARAMS, "invalid params: ", format, args);
    va_end(args);
    return result;
}

int kaged_error_code(struct kaged_call *call)
{
    return call->failure.code;
}

const char *kaged_error_message(struct kaged_call *call)
{
    return call->failure.message;
}

const struct kaged_json *kaged_error_data(struct kaged_call *call)
{
    return call->failure.data ? json_of(call->failure.data->root) : NULL;
}

void kaged_error_forget(struct kaged_call *call)
{
    failure_clear(&call->failure);
}

/* -- storage ----------------------------------------------------------------------------------- */

static int request(struct kaged_call *call, const char *method, struct kaged_writer *params,
                   const struct kaged_json **ret_result)
{
    struct kg_doc *doc;
    const struct kg_node *result;
    if (engine_request(call->engine, method, kg_buf_view(&params->buf), &doc, &result,
                       &call->failure) < 0)
        return -1;
    keep_doc(call, doc);
    if (ret_result != NULL)
        *ret_result = json_of(result);
    return 0;
}

static void put_statement(struct kaged_writer *writer, const struct kaged_statement *statement)
{
    kaged_begin_object(writer);
    kaged_put_field(writer, "sql", kaged_text(statement->sql));
    kaged_key(writer, "params");
    kaged_begin_array(writer);
    for (size_t i = 0; i < statement->count; i++)
        kaged_put(writer, statement->params[i]);
    kaged_end_array(writer);
    kaged_end_object(writer);
}

static int request_one(struct kaged_call *call, const char *method,
                       const struct kaged_statement *statement,
                       const struct kaged_json **ret_result)
{
    struct kaged_writer *writer = kaged_writer(call);
    put_statement(writer, statement);
    return request(call, method, writer, ret_result);
}

int kaged_query(struct kaged_call *call, const char *sql, const struct kaged_value *params,
                size_t count, const struct kaged_json **ret_result)
{
    return request_one(call, "kaged.storage.query", &(struct kaged_statement){sql, params, count},
                       ret_result);
}

int kaged_exec(struct kaged_call *call, const char *sql, const struct kaged_value *params,
               size_t count, const struct kaged_json **ret_result)
{
    return request_one(call, "kaged.storage.exec", &(struct kaged_statement){sql, params, count},
                       ret_result);
}

int kaged_batch(struct kaged_call *call, const struct kaged_statement *statements, size_t count,
                const struct kaged_json **ret_result)
{
    struct kaged_writer *writer = kaged_writer(call);
    kaged_begin_object(writer);
    kaged_key(writer, "statements");
    kaged_begin_array(writer);
    for (size_t i = 0; i < count; i++)
        put_statement(writer, &statements[i]);
    kaged_end_array(writer);
    kaged_end_object(writer);
    return request(call, "kaged.storage.batch", writer, ret_result);
}

int kaged_schema(struct kaged_call *call, const struct kaged_json **ret_result)
{
    struct kaged_writer *writer = kaged_writer(call);
    kaged_put_fields(writer, NULL);
    return request(call, "kaged.storage.schema", writer, ret_result);
}

int kaged_ask(struct kaged_call *call, struct kaged_writer *params,
              const struct kaged_json **ret_answer)
{
    return request(call, "kaged.ask", params, ret_answer);
}

int kaged_sample(struct kaged_call *call, struct kaged_writer *params,
                 const struct kaged_json **ret_result)
{
    return request(call, "kaged.sample", params, ret_result);
}

bool kaged_cancelled(struct kaged_call *call)
{
    return call->id != NULL && engine_is_cancelled(call->engine, call->id);
}

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

const void *kaged_json_blob(struct kaged_call *call, const struct kaged_json *value,
                            size_t *ret_length)
{
    const struct kaged_json *blob = kaged_json_get(value, "$blob");
    const char *text = kaged_json_text(blob);
    if (text == NULL)
        return NULL;
    unsigned char *data = kg_arena_alloc(call_arena(call), kaged_json_length(blob) + 1);
    size_t length = 0;
    uint32_t bits = 0;
    unsigned held = 0;
    for (; base64_digit(*text) >= 0; text++) {
        bits = bits << 6 | (uint32_t)base64_digit(*text);
        held += 6;
        if (held < 8)
            continue;
        held -= 8;
        data[length++] = (unsigned char)(bits >> held);
    }
    *ret_length = length;
    return data;
}

/* -- time -------------------------------------------------------------------------------------- */

void kaged_every(struct kaged_call *call, unsigned milliseconds, kaged_handler *run)
{
    struct engine *engine = call->engine;
    engine->timed = milliseconds > 0 ? run : NULL;
    engine->interval_ms = milliseconds;
    engine->due_ms = kg_monotonic_ms() + milliseconds;
}

/* -- notifications ----------------------------------------------------------------------------- */

int kaged_notify(struct kaged_call *call, const char *type, struct kaged_writer *params)
{
    struct kg_str text = params ? kg_buf_view(&params->buf) : KG_STR_NULL;
    return engine_notify(call->engine, type, text) ? 0 : -1;
}

int kaged_progress(struct kaged_call *call, double progress, double total, const char *message)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    char number[NUMBER_TEXT];
    if (call->id == NULL || !isfinite(progress) || !isfinite(total))
        return -1;
    kg_json_begin(&json, '{');
    kg_json_key(&json, "id");
    kg_json_node(&json, call->id);
    number_write(progress, number);
    kg_json_named_raw(&json, "progress", kg_str(number));
    if (total > 0) {
        number_write(total, number);
        kg_json_named_raw(&json, "total", kg_str(number));
    }
    if (message != NULL)
        kg_json_named_text(&json, "message", message);
    kg_json_end(&json, '}');
    return engine_notify(call->engine, "kaged.progress", kg_buf_view(&params)) ? 0 : -1;
}
