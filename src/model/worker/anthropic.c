/*
 * The API of messages. Its turns alternate: everything between two answers of the assistant is one
 * message of the user, results of tools first. System messages before the first turn belong to the
 * system prompt; later ones stay in their place, as text of the user's that is marked.
 */
#include "model/worker/internal.h"

#include <errno.h>

#define MAX_TOKENS 4096 /* the API wants to be told */

/* -- bodies ------------------------------------------------------------------------------------ */

static bool has_role(const struct kg_node *message, const char *role)
{
    return kg_str_is(kg_node_text(message, "role"), role);
}

/* An empty text is refused. */
static void anthropic_put_text(struct kg_json_writer *json, struct kg_str text)
{
    if (text.length == 0)
        return;
    kg_json_begin(json, '{');
    kg_json_named_text(json, "type", "text");
    kg_json_named_str(json, "text", text);
    kg_json_end(json, '}');
}

static void put_system_text(struct kg_json_writer *json, struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf marked = {0};
    if (text.length == 0)
        return;
    kg_buf_text(&marked, "<system>\n");
    kg_buf_str(&marked, text);
    kg_buf_text(&marked, "\n</system>");
    anthropic_put_text(json, kg_buf_view(&marked));
}

static void anthropic_put_result(struct kg_json_writer *json, const struct kg_node *message)
{
    const struct kg_node *is_error = kg_node_get(message, "is_error");
    struct kg_str content = kg_node_text(message, "content");
    kg_json_begin(json, '{');
    kg_json_named_text(json, "type", "tool_result");
    kg_json_named_str(json, "tool_use_id", kg_node_text(message, "tool_call_id"));
    if (content.length > 0)
        kg_json_named_str(json, "content", content);
    if (is_error != NULL && is_error->boolean)
        kg_json_named_bool(json, "is_error", true);
    kg_json_end(json, '}');
}

static void anthropic_put_call(struct kg_json_writer *json, const struct kg_node *call)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "type", "tool_use");
    kg_json_named_str(json, "id", kg_node_text(call, "id"));
    kg_json_named_str(json, "name", kg_node_text(call, "name"));
    kg_json_key(json, "input");
    kg_json_node(json, kg_node_get(call, "arguments"));
    kg_json_end(json, '}');
}

static void put_assistant(struct kg_json_writer *json, const struct kg_node *message)
{
    const struct kg_node *calls = kg_node_get(message, "tool_calls");
    anthropic_put_text(json, kg_node_text(message, "content"));
    for (uint32_t i = 0; calls != NULL && i < calls->count; i++)
        anthropic_put_call(json, &calls->items[i]);
}

static void anthropic_put_user(struct kg_json_writer *json, const struct kg_node *items,
                               uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (has_role(&items[i], "tool"))
            anthropic_put_result(json, &items[i]);
    for (uint32_t i = 0; i < count; i++) {
        if (has_role(&items[i], "user"))
            anthropic_put_text(json, kg_node_text(&items[i], "content"));
        else if (has_role(&items[i], "system"))
            put_system_text(json, kg_node_text(&items[i], "content"));
    }
}

/* Some messages of one side as one; nothing if there is nothing in them. */
static void put_turn(struct kg_json_writer *json, const struct kg_node *items, uint32_t count)
{
    kg_auto(kg_buf_free) struct kg_buf blocks = {0};
    struct kg_json_writer inner = kg_json_writer(&blocks);
    bool is_assistant = has_role(&items[0], "assistant");
    kg_json_begin(&inner, '[');
    for (uint32_t i = 0; is_assistant && i < count; i++)
        put_assistant(&inner, &items[i]);
    if (!is_assistant)
        anthropic_put_user(&inner, items, count);
    kg_json_end(&inner, ']');
    if (kg_str_is(kg_buf_view(&blocks), "[]"))
        return;
    kg_json_begin(json, '{');
    kg_json_named_text(json, "role", is_assistant ? "assistant" : "user");
    kg_json_named_raw(json, "content", kg_buf_view(&blocks));
    kg_json_end(json, '}');
}

static void put_turns(struct kg_json_writer *json, const struct kg_node *messages, uint32_t from)
{
    kg_json_named_begin(json, "messages", '[');
    for (uint32_t i = from, end; i < messages->count; i = end) {
        bool is_assistant = has_role(&messages->items[i], "assistant");
        for (end = i + 1; end < messages->count; end++)
            if (has_role(&messages->items[end], "assistant") != is_assistant)
                break;
        put_turn(json, &messages->items[i], end - i);
    }
    kg_json_end(json, ']');
}

/* The prompt, and the system messages at the start; how many those are. */
static uint32_t put_system(struct kg_json_writer *json, const struct neutral *neutral)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    const struct kg_node *messages = neutral->messages;
    uint32_t count = 0;
    kg_buf_str(&text, neutral->system);
    for (; count < messages->count && has_role(&messages->items[count], "system"); count++) {
        struct kg_str content = kg_node_text(&messages->items[count], "content");
        if (text.length > 0 && content.length > 0)
            kg_buf_text(&text, "\n\n");
        kg_buf_str(&text, content);
    }
    if (text.length > 0)
        kg_json_named_str(json, "system", kg_buf_view(&text));
    return count;
}

static void anthropic_put_tool(struct kg_json_writer *json, const struct kg_node *tool)
{
    kg_json_begin(json, '{');
    neutral_put_tool(json, tool, "input_schema");
    kg_json_end(json, '}');
}

static void anthropic_write_body(const struct neutral *neutral, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "model", neutral->model);
    kg_json_named_int(&json, "max_tokens",
                      neutral->max_tokens > 0 ? neutral->max_tokens : MAX_TOKENS);
    uint32_t used = put_system(&json, neutral);
    put_turns(&json, neutral->messages, used);
    if (neutral->tools != NULL && neutral->tools->count > 0) {
        kg_json_named_begin(&json, "tools", '[');
        for (uint32_t i = 0; i < neutral->tools->count; i++)
            anthropic_put_tool(&json, &neutral->tools->items[i]);
        kg_json_end(&json, ']');
    }
    if (neutral->temperature.length > 0)
        kg_json_named_raw(&json, "temperature", neutral->temperature);
    kg_json_named_bool(&json, "stream", true);
    kg_json_end(&json, '}');
}

/* -- events ------------------------------------------------------------------------------------ */

static const struct {
    const char *theirs, *ours;
} reasons[] = {
    {"end_turn", "stop"},       {"stop_sequence", "stop"},
    {"max_tokens", "length"},   {"model_context_window_exceeded", "length"},
    {"tool_use", "tool_calls"}, {"refusal", "refused"},
};

static const char *anthropic_stop_reason(struct kg_str theirs)
{
    for (size_t i = 0; i < KG_COUNT(reasons); i++)
        if (kg_str_is(theirs, reasons[i].theirs))
            return reasons[i].ours;
    return "other";
}

static int64_t anthropic_count_of(const struct kg_node *usage, const char *key)
{
    const struct kg_node *node = kg_node_get(usage, key);
    int64_t count;
    bool good = node != NULL && kg_node_int(node, &count) && count >= 0 && count < INT32_MAX;
    return good ? count : -1;
}

/* What was read from a cache, or written to one, is not in input_tokens. */
static void anthropic_take_usage(struct answer *answer, const struct kg_node *usage)
{
    int64_t input = anthropic_count_of(usage, "input_tokens");
    int64_t read = anthropic_count_of(usage, "cache_read_input_tokens");
    int64_t written = anthropic_count_of(usage, "cache_creation_input_tokens");
    int64_t output = anthropic_count_of(usage, "output_tokens");
    if (input >= 0)
        answer->input_tokens = input + (read > 0 ? read : 0) + (written > 0 ? written : 0);
    if (read >= 0)
        answer->cached_tokens = read;
    if (output >= 0)
        answer->output_tokens = output;
}

static int64_t anthropic_index_of(const struct kg_node *event)
{
    const struct kg_node *node = kg_node_get(event, "index");
    int64_t index = 0;
    if (node != NULL)
        (void)kg_node_int(node, &index);
    return index;
}

static int on_message_start(struct answer *answer, const struct kg_node *event)
{
    anthropic_take_usage(answer, kg_node_get(kg_node_get(event, "message"), "usage"));
    return 0;
}

/* A block may come with all that is in it, or with an empty `input` that deltas fill. */
static int on_block_start(struct answer *answer, const struct kg_node *event)
{
    const struct kg_node *block = kg_node_get(event, "content_block");
    const struct kg_node *input = kg_node_get(block, "input");
    struct kg_str type = kg_node_text(block, "type");
    if (kg_str_is(type, "text"))
        answer_add_text(answer, "delta", kg_node_text(block, "text"));
    if (!kg_str_is(type, "tool_use"))
        return 0;
    struct tool_part *part =
        answer_part(answer, anthropic_index_of(event), kg_node_text(block, "id"));
    if (part == NULL || answer_add_name(answer, part, kg_node_text(block, "name")) < 0)
        return -EINVAL;
    if (input == NULL || input->type != KG_OBJECT || input->count == 0)
        return 0;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    kg_json_node(&json, input);
    return answer_add_arguments(answer, part, kg_buf_view(&text));
}

static int on_block_delta(struct answer *answer, const struct kg_node *event)
{
    const struct kg_node *delta = kg_node_get(event, "delta");
    struct kg_str type = kg_node_text(delta, "type");
    if (kg_str_is(type, "text_delta"))
        answer_add_text(answer, "delta", kg_node_text(delta, "text"));
    else if (kg_str_is(type, "thinking_delta"))
        answer_add_text(answer, "reasoning", kg_node_text(delta, "thinking"));
    if (!kg_str_is(type, "input_json_delta"))
        return 0;
    struct tool_part *part = answer_part(answer, anthropic_index_of(event), KG_STR_NULL);
    return part == NULL ? -EINVAL
                        : answer_add_arguments(answer, part, kg_node_text(delta, "partial_json"));
}

static int on_message_delta(struct answer *answer, const struct kg_node *event)
{
    struct kg_str reason = kg_node_text(kg_node_get(event, "delta"), "stop_reason");
    anthropic_take_usage(answer, kg_node_get(event, "usage"));
    if (reason.length > 0)
        answer->stop_reason = anthropic_stop_reason(reason);
    return 0;
}

static int on_message_stop(struct answer *answer, const struct kg_node *event)
{
    (void)event;
    answer->ended = true;
    return 0;
}

static int on_error(struct answer *answer, const struct kg_node *event)
{
    const struct kg_node *error = kg_node_get(event, "error");
    failure_from_event(&answer->failure, error ? error : event, answer->request->secrets);
    return -EINVAL;
}

/* What is not in here, as `ping` and the ends of blocks, tells nothing. */
static const struct {
    const char *type;
    int (*take)(struct answer *answer, const struct kg_node *event);
} events[] = {
    {"message_start", on_message_start},     {"content_block_start", on_block_start},
    {"content_block_delta", on_block_delta}, {"message_delta", on_message_delta},
    {"message_stop", on_message_stop},       {"error", on_error},
};

static int anthropic_take_event(struct answer *answer, const struct kg_node *event)
{
    struct kg_str type = kg_node_text(event, "type");
    for (size_t i = 0; i < KG_COUNT(events); i++)
        if (kg_str_is(type, events[i].type))
            return events[i].take(answer, event);
    return 0;
}

const struct dialect dialect_anthropic = {
    .name = "anthropic",
    .path = "/v1/messages",
    .key_header = "x-api-key: ",
    .own_header = "anthropic-version: 2023-06-01",
    .write_body = anthropic_write_body,
    .take_event = anthropic_take_event,
};
