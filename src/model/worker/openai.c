/*
 * The API of chat completions, which many providers speak, each a little differently: a field that
 * is absent or null is never an error, and one that means nothing to us is passed over.
 */
#include "model/worker/internal.h"

#include <errno.h>

/* -- bodies ------------------------------------------------------------------------------------ */

/* Arguments are a text of JSON in the JSON. */
static void openai_put_call(struct kg_json_writer *json, const struct kg_node *call)
{
    kg_auto(kg_buf_free) struct kg_buf arguments = {0};
    struct kg_json_writer inner = kg_json_writer(&arguments);
    kg_json_node(&inner, kg_node_get(call, "arguments"));
    kg_json_begin(json, '{');
    kg_json_named_str(json, "id", kg_node_text(call, "id"));
    kg_json_named_text(json, "type", "function");
    kg_json_named_begin(json, "function", '{');
    kg_json_named_str(json, "name", kg_node_text(call, "name"));
    kg_json_named_str(json, "arguments", kg_buf_view(&arguments));
    kg_json_end(json, '}');
    kg_json_end(json, '}');
}

static void openai_put_message(struct kg_json_writer *json, const struct kg_node *message)
{
    const struct kg_node *calls = kg_node_get(message, "tool_calls");
    struct kg_str content = kg_node_text(message, "content");
    bool has_calls = calls != NULL && calls->count > 0;
    kg_json_begin(json, '{');
    kg_json_named_str(json, "role", kg_node_text(message, "role"));
    if (kg_str_is(kg_node_text(message, "role"), "tool"))
        kg_json_named_str(json, "tool_call_id", kg_node_text(message, "tool_call_id"));
    kg_json_key(json, "content");
    if (content.length == 0 && has_calls)
        kg_json_null(json);
    else
        kg_json_str(json, content.data ? content : KG_STR(""));
    if (has_calls) {
        kg_json_named_begin(json, "tool_calls", '[');
        for (uint32_t i = 0; i < calls->count; i++)
            openai_put_call(json, &calls->items[i]);
        kg_json_end(json, ']');
    }
    kg_json_end(json, '}');
}

static void openai_put_tool(struct kg_json_writer *json, const struct kg_node *tool)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "type", "function");
    kg_json_named_begin(json, "function", '{');
    neutral_put_tool(json, tool, "parameters");
    kg_json_end(json, '}');
    kg_json_end(json, '}');
}

static void openai_put_messages(struct kg_json_writer *json, const struct neutral *neutral)
{
    kg_json_named_begin(json, "messages", '[');
    if (neutral->system.length > 0) {
        kg_json_raw(json, KG_STR("{\"role\":\"system\""));
        kg_json_named_str(json, "content", neutral->system);
        kg_json_end(json, '}');
    }
    for (uint32_t i = 0; i < neutral->messages->count; i++)
        openai_put_message(json, &neutral->messages->items[i]);
    kg_json_end(json, ']');
}

/* Models that reason know neither max_tokens nor temperature. */
static void openai_put_settings(struct kg_json_writer *json, const struct neutral *neutral)
{
    if (neutral->max_tokens > 0)
        kg_json_named_int(json, neutral->reasoning ? "max_completion_tokens" : "max_tokens",
                          neutral->max_tokens);
    if (neutral->temperature.length > 0 && !neutral->reasoning)
        kg_json_named_raw(json, "temperature", neutral->temperature);
    kg_json_named_bool(json, "stream", true);
    kg_json_named_raw(json, "stream_options", KG_STR("{\"include_usage\":true}"));
}

static void openai_write_body(const struct neutral *neutral, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "model", neutral->model);
    openai_put_messages(&json, neutral);
    if (neutral->tools != NULL && neutral->tools->count > 0) {
        kg_json_named_begin(&json, "tools", '[');
        for (uint32_t i = 0; i < neutral->tools->count; i++)
            openai_put_tool(&json, &neutral->tools->items[i]);
        kg_json_end(&json, ']');
    }
    openai_put_settings(&json, neutral);
    kg_json_end(&json, '}');
}

/* -- events ------------------------------------------------------------------------------------ */

static const struct {
    const char *theirs, *ours;
} reasons[] = {
    {"stop", "stop"},
    {"length", "length"},
    {"tool_calls", "tool_calls"},
    {"function_call", "tool_calls"},
    {"content_filter", "refused"},
};

static const char *openai_stop_reason(struct kg_str theirs)
{
    for (size_t i = 0; i < KG_COUNT(reasons); i++)
        if (kg_str_is(theirs, reasons[i].theirs))
            return reasons[i].ours;
    return "other";
}

static int openai_take_call(struct answer *answer, const struct kg_node *call, uint32_t place)
{
    const struct kg_node *function = kg_node_get(call, "function");
    int64_t index = place;
    const struct kg_node *said = kg_node_get(call, "index");
    if (said != NULL)
        (void)kg_node_int(said, &index);
    struct tool_part *part = answer_part(answer, index, kg_node_text(call, "id"));
    if (part == NULL || answer_add_name(answer, part, kg_node_text(function, "name")) < 0)
        return -EINVAL;
    return answer_add_arguments(answer, part, kg_node_text(function, "arguments"));
}

static int openai_take_delta(struct answer *answer, const struct kg_node *delta)
{
    const struct kg_node *calls = kg_node_get(delta, "tool_calls");
    struct kg_str thoughts = kg_node_text(delta, "reasoning_content");
    answer_add_text(answer, "reasoning",
                    thoughts.data ? thoughts : kg_node_text(delta, "reasoning"));
    answer_add_text(answer, "delta", kg_node_text(delta, "content"));
    answer_add_text(answer, "delta", kg_node_text(delta, "refusal"));
    for (uint32_t i = 0; calls != NULL && calls->type == KG_ARRAY && i < calls->count; i++)
        if (openai_take_call(answer, &calls->items[i], i) < 0)
            return -EINVAL;
    return 0;
}

static void openai_take_usage(struct answer *answer, const struct kg_node *usage)
{
    const struct kg_node *details = kg_node_get(usage, "prompt_tokens_details");
    static const char *const keys[] = {"prompt_tokens", "completion_tokens", "cached_tokens"};
    int64_t *const places[] = {&answer->input_tokens, &answer->output_tokens,
                               &answer->cached_tokens};
    for (size_t i = 0; i < KG_COUNT(keys); i++) {
        const struct kg_node *node = kg_node_get(i == 2 ? details : usage, keys[i]);
        int64_t count;
        if (node != NULL && kg_node_int(node, &count) && count >= 0)
            *places[i] = count;
    }
}

int openai_take_event(struct answer *answer, const struct kg_node *event)
{
    const struct kg_node *error = kg_node_get(event, "error");
    const struct kg_node *choices = kg_node_get(event, "choices");
    if (error != NULL && error->type != KG_NULL) {
        failure_from_event(&answer->failure, error, answer->request->secrets);
        return -EINVAL;
    }
    openai_take_usage(answer, kg_node_get(event, "usage"));
    if (choices == NULL || choices->type != KG_ARRAY || choices->count == 0)
        return 0;
    const struct kg_node *choice = &choices->items[0];
    struct kg_str reason = kg_node_text(choice, "finish_reason");
    if (openai_take_delta(answer, kg_node_get(choice, "delta")) < 0)
        return -EINVAL;
    if (reason.length > 0)
        answer->stop_reason = openai_stop_reason(reason);
    return 0;
}

const struct dialect dialect_openai = {
    .name = "openai",
    .path = "/chat/completions",
    .key_header = "Authorization: Bearer ",
    .write_body = openai_write_body,
    .take_event = openai_take_event,
};
