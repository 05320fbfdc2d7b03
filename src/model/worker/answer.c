/*
 * One answer, from the bytes of its stream to neutral events, one line each. Text goes out as it
 * comes; tool calls come in pieces and go out whole, when the answer is over. Whatever a provider
 * sends is held within the request's bounds.
 */
#include "model/worker/internal.h"

#include <errno.h>
#include <stdlib.h>

#define ID_MAX_BYTES   128 /* of a tool call: the provider makes it up */
#define NAME_MAX_BYTES 256 /* of a tool that it calls */

struct answer *answer_new(const struct request *request, struct kg_buf *lines)
{
    struct answer *answer = kg_alloc(sizeof(*answer));
    answer->request = request;
    answer->lines = lines;
    answer->sse = kg_sse_new((size_t)request->bounds.event_bytes);
    answer->parts = kg_alloc_array((size_t)request->bounds.tool_calls, sizeof(*answer->parts));
    answer->input_tokens = answer->cached_tokens = answer->output_tokens = -1;
    return answer;
}

void answer_free(struct answer *answer)
{
    if (answer == NULL)
        return;
    for (size_t i = 0; i < answer->part_count; i++) {
        free(answer->parts[i].id);
        kg_buf_free(&answer->parts[i].name);
        kg_buf_free(&answer->parts[i].arguments);
    }
    free(answer->parts);
    kg_sse_free(answer->sse);
    kg_buf_free(&answer->text);
    free(answer);
}

/* -- lines ------------------------------------------------------------------------------------- */

/* {"jsonrpc":"2.0","method":"event","params":{"id":7, and what the caller adds. */
static struct kg_json_writer model_answer_begin_event(struct kg_buf *lines, int64_t id)
{
    struct kg_json_writer json = kg_json_writer(lines);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "jsonrpc", "2.0");
    kg_json_named_text(&json, "method", "event");
    kg_json_named_begin(&json, "params", '{');
    kg_json_named_int(&json, "id", id);
    return json;
}

static void model_answer_end_event(struct kg_json_writer *json)
{
    kg_json_end(json, '}');
    kg_json_end(json, '}');
    kg_buf_char(json->buf, '\n');
}

static void flush_text(struct answer *answer)
{
    if (answer->text.length == 0)
        return;
    struct kg_json_writer json = model_answer_begin_event(answer->lines, answer->request->id);
    kg_json_named_str(&json, answer->text_kind, kg_buf_view(&answer->text));
    model_answer_end_event(&json);
    answer->text.length = 0;
    answer->told = true;
}

static void model_answer_put_count(struct kg_json_writer *json, const char *key, int64_t count)
{
    kg_json_named_int(json, key, count > 0 ? count : 0);
}

static void model_answer_put_usage(struct answer *answer)
{
    if (answer->input_tokens < 0 && answer->output_tokens < 0)
        return;
    struct kg_json_writer json = model_answer_begin_event(answer->lines, answer->request->id);
    kg_json_named_begin(&json, "usage", '{');
    model_answer_put_count(&json, "input_tokens", answer->input_tokens);
    model_answer_put_count(&json, "cached_tokens", answer->cached_tokens);
    model_answer_put_count(&json, "output_tokens", answer->output_tokens);
    kg_json_end(&json, '}');
    model_answer_end_event(&json);
}

static void begin_answer(struct kg_buf *lines, int64_t id, const char *member)
{
    kg_buf_text(lines, "{\"jsonrpc\":\"2.0\",\"id\":");
    kg_buf_int(lines, id);
    kg_buf_printf(lines, ",\"%s\":", member);
}

void answer_put_result(struct kg_buf *lines, int64_t id, const char *stop_reason)
{
    begin_answer(lines, id, "result");
    kg_buf_printf(lines, "{\"stop_reason\":\"%s\"}}\n", stop_reason);
}

void answer_put_failure(struct kg_buf *lines, int64_t id, const struct failure *failure)
{
    begin_answer(lines, id, "error");
    struct kg_json_writer json = kg_json_writer(lines);
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "code", kg_error_row(KG_E_PLUGIN)->rpc_code);
    kg_json_named_text(&json, "message", failure->message);
    kg_json_named_begin(&json, "data", '{');
    kg_json_named_text(&json, "code", failure_name(failure->code));
    kg_json_named_int(&json, "status", failure->status);
    kg_json_named_int(&json, "retry_after_ms", failure->retry_after_ms);
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    kg_buf_text(lines, "}\n");
}

void answer_put_retry(struct kg_buf *lines, int64_t id, const struct failure *failure,
                      uint64_t after_ms)
{
    struct kg_json_writer json = model_answer_begin_event(lines, id);
    kg_json_named_begin(&json, "retry", '{');
    kg_json_named_int(&json, "after_ms", (int64_t)after_ms);
    kg_json_named_text(&json, "message", failure->message);
    kg_json_end(&json, '}');
    model_answer_end_event(&json);
}

/* -- pieces ------------------------------------------------------------------------------------ */

void answer_add_text(struct answer *answer, const char *kind, struct kg_str text)
{
    if (text.length == 0)
        return;
    if (answer->text_kind != kind)
        flush_text(answer);
    answer->text_kind = kind;
    kg_buf_str(&answer->text, text);
}

static struct tool_part *new_part(struct answer *answer, int64_t index, struct kg_str id)
{
    if ((int64_t)answer->part_count == answer->request->bounds.tool_calls) {
        failure_set(&answer->failure, MODEL_TOO_LARGE, "the model made more than %lld tool calls",
                    (long long)answer->request->bounds.tool_calls);
        return NULL;
    }
    struct tool_part *part = &answer->parts[answer->part_count++];
    part->index = index;
    part->id = id.length > 0 ? kg_str_dup(id) : NULL;
    return part;
}

/* Some give each call the same index: a new id begins a new call, too. */
struct tool_part *answer_part(struct answer *answer, int64_t index, struct kg_str id)
{
    if (id.length > ID_MAX_BYTES)
        id.length = 0;
    for (size_t i = answer->part_count; i > 0; i--) {
        struct tool_part *part = &answer->parts[i - 1];
        if (part->index != index)
            continue;
        if (id.length == 0 || (part->id != NULL && kg_str_is(id, part->id)))
            return part;
        break;
    }
    return new_part(answer, index, id);
}

/* Some say it with every piece: the first counts. */
int answer_add_name(struct answer *answer, struct tool_part *part, struct kg_str name)
{
    if (name.length > NAME_MAX_BYTES)
        return failure_set(&answer->failure, MODEL_BAD_ANSWER,
                           "the model called a tool by a name of %zu bytes", name.length);
    if (part->name.length == 0)
        kg_buf_str(&part->name, name);
    return 0;
}

int answer_add_arguments(struct answer *answer, struct tool_part *part, struct kg_str piece)
{
    int64_t max = answer->request->bounds.argument_bytes;
    if ((int64_t)(part->arguments.length + piece.length) > max)
        return failure_set(&answer->failure, MODEL_TOO_LARGE,
                           "the arguments of a tool call have more than %lld bytes",
                           (long long)max);
    kg_buf_str(&part->arguments, piece);
    return 0;
}

/* -- tool calls -------------------------------------------------------------------------------- */

/* Printed anew: it is one line, and has no key twice. */
static int model_answer_put_arguments(struct kg_json_writer *json, const struct tool_part *part,
                                      struct kg_err *err)
{
    struct kg_str text = part->arguments.length > 0 ? kg_buf_view(&part->arguments) : KG_STR("{}");
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(text, err);
    bool good = doc != NULL && doc->root->type == KG_OBJECT;
    if (doc != NULL && !good)
        kg_fail(err, KG_E_INVALID_PARAMS, "they are not an object");
    kg_json_key(json, "arguments");
    if (good)
        kg_json_node(json, doc->root);
    else
        kg_json_raw(json, KG_STR("{}"));
    return good ? 0 : -EINVAL;
}

static bool model_answer_is_taken(const struct answer *answer, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(answer->parts[i].id, answer->parts[at].id) == 0)
            return true;
    return false;
}

/* Each call has an id of its own, whatever the provider says. */
static void settle_id(struct answer *answer, size_t at)
{
    struct tool_part *part = &answer->parts[at];
    if (part->id != NULL && !model_answer_is_taken(answer, at))
        return;
    free(part->id);
    part->id = kg_strdup(kg_id_new("call_").text);
}

static int put_tool_call(struct answer *answer, size_t at)
{
    const struct tool_part *part = &answer->parts[at];
    struct kg_err err;
    if (part->name.length == 0)
        return failure_set(&answer->failure, MODEL_BAD_ANSWER,
                           "the provider sent a tool call without a name");
    settle_id(answer, at);
    struct kg_json_writer json = model_answer_begin_event(answer->lines, answer->request->id);
    kg_json_named_begin(&json, "tool_call", '{');
    kg_json_named_text(&json, "id", part->id);
    kg_json_named_str(&json, "name", kg_buf_view(&part->name));
    if (model_answer_put_arguments(&json, part, &err) < 0)
        kg_json_named_text(&json, "problem", err.message);
    kg_json_end(&json, '}');
    model_answer_end_event(&json);
    answer->told = true;
    return 0;
}

/* -- the stream -------------------------------------------------------------------------------- */

/* What stands at that place of a text: an escaped half of a surrogate pair, the first or second? */
static bool is_half(struct kg_str text, size_t at, const char *digits)
{
    return at + 6 <= text.length && text.data[at] == '\\' && text.data[at + 1] == 'u' &&
           (text.data[at + 2] | 0x20) == 'd' && memchr(digits, text.data[at + 3] | 0x20, 4) != NULL;
}

/*
 * Who cuts text by UTF-16 sends halves of pairs, escaped. Each becomes U+FFFD, and the rest of the
 * text is saved.
 */
static void mend_surrogates(struct kg_str text, struct kg_buf *out)
{
    for (size_t i = 0; i < text.length;) {
        bool first = is_half(text, i, "89ab"), second = is_half(text, i, "cdef");
        size_t length = text.data[i] == '\\' && i + 1 < text.length ? 2 : 1;
        if (first && is_half(text, i + 6, "cdef"))
            length = 12;
        else if (first || second)
            length = 6;
        if (length == 6)
            kg_buf_text(out, "\\ufffd");
        else
            kg_buf_append(out, text.data + i, length);
        i += length;
    }
}

static struct kg_doc *read_event(struct kg_str data)
{
    kg_auto(kg_buf_free) struct kg_buf mended = {0};
    if (kg_json_check(data, NULL) != KG_JSON_SURROGATE)
        return kg_json_read(data, NULL);
    mend_surrogates(data, &mended);
    return kg_json_read(kg_buf_view(&mended), NULL);
}

static int model_answer_on_event(void *user, struct kg_str data)
{
    struct answer *answer = user;
    if (answer->ended)
        return 0;
    if (kg_str_is(data, "[DONE]")) {
        answer->ended = true;
        return 0;
    }
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_event(data);
    if (doc == NULL || doc->root->type != KG_OBJECT)
        return failure_set(&answer->failure, MODEL_BAD_ANSWER,
                           "the provider sent an event that is no JSON object");
    return answer->request->dialect->take_event(answer, doc->root);
}

static int stopped(struct answer *answer, int result)
{
    if (result == -EMSGSIZE)
        failure_set(&answer->failure, MODEL_TOO_LARGE,
                    "the provider sent an event of more than %lld bytes",
                    (long long)answer->request->bounds.event_bytes);
    return result;
}

int answer_feed(struct answer *answer, struct kg_str bytes)
{
    answer->bytes += (int64_t)bytes.length;
    if (answer->bytes > answer->request->bounds.answer_bytes)
        return failure_set(&answer->failure, MODEL_TOO_LARGE, "the answer has more than %lld bytes",
                           (long long)answer->request->bounds.answer_bytes);
    int result = kg_sse_feed(answer->sse, bytes, model_answer_on_event, answer);
    flush_text(answer);
    return stopped(answer, result);
}

int answer_finish(struct answer *answer)
{
    int result = stopped(answer, kg_sse_finish(answer->sse, model_answer_on_event, answer));
    flush_text(answer);
    if (result < 0)
        return result;
    if (!answer->ended && answer->stop_reason == NULL)
        return failure_set(&answer->failure, MODEL_LOST,
                           "the provider broke the answer off before its end");
    for (size_t i = 0; i < answer->part_count; i++)
        if (put_tool_call(answer, i) < 0)
            return -EINVAL;
    model_answer_put_usage(answer);
    if (answer->part_count > 0 &&
        (answer->stop_reason == NULL || strcmp(answer->stop_reason, "stop") == 0))
        answer->stop_reason = "tool_calls";
    if (answer->stop_reason == NULL)
        answer->stop_reason = "other";
    return 0;
}

void answer_locally(const struct request *request, struct kg_buf *lines)
{
    struct answer *answer = answer_new(request, lines);
    if (answer_feed(answer, kg_buf_view(&request->body)) == 0 && answer_finish(answer) == 0)
        answer_put_result(lines, request->id, answer->stop_reason);
    else
        answer_put_failure(lines, request->id, &answer->failure);
    answer_free(answer);
}
