/*
 * What is said to a model, in the shape that scripts know it in, and back. The way back believes
 * nothing: each call of a tool is followed by its result, names and ids are such as models take,
 * and what does not fit is refused as a whole.
 *
 *   {"role":"user|assistant|tool_result","id","parent","content":[
 *      {"type":"text","text"}, {"type":"tool_call","id","name","input"},
 *      {"type":"tool_result_block","call_id","output","is_error"}]}
 */
#include "live/internal.h"

#include <errno.h>

#define NAME_MAX_BYTES 64

/* -- there ------------------------------------------------------------------------------------- */

static void put_text_block(struct kg_json_writer *json, struct kg_str text)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "type", "text");
    kg_json_named_str(json, "text", text.data ? text : KG_STR(""));
    kg_json_end(json, '}');
}

static void put_call_block(struct kg_json_writer *json, const struct kg_node *call)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "type", "tool_call");
    kg_json_named_str(json, "id", kg_node_text(call, "id"));
    kg_json_named_str(json, "name", kg_node_text(call, "name"));
    kg_json_named_node(json, "input", kg_node_get(call, "arguments"));
    kg_json_end(json, '}');
}

static void put_result_block(struct kg_json_writer *json, const struct kg_node *message)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "type", "tool_result_block");
    kg_json_named_str(json, "call_id", kg_node_text(message, "tool_call_id"));
    kg_json_named_str(json, "output", kg_node_text(message, "content"));
    kg_json_named_bool(json, "is_error", kg_node_is_true(message, "is_error"));
    kg_json_end(json, '}');
}

static void turn_shapes_put_content(struct kg_json_writer *json, const struct kg_node *message,
                                    bool is_result)
{
    const struct kg_node *calls = kg_node_list(message, "tool_calls");
    struct kg_str text = kg_node_text(message, "content");
    kg_json_named_begin(json, "content", '[');
    if (is_result)
        put_result_block(json, message);
    else if (text.length > 0 || calls->count == 0)
        put_text_block(json, text);
    for (uint32_t i = 0; i < calls->count; i++)
        put_call_block(json, &calls->items[i]);
    kg_json_end(json, ']');
}

static void turn_shapes_put_message(struct kg_json_writer *json, const struct kg_node *message,
                                    uint32_t index)
{
    struct kg_str role = kg_node_text(message, "role");
    bool is_result = kg_str_is(role, "tool");
    kg_auto(kg_free) char *id = kg_format("m%u", index + 1), *parent = kg_format("m%u", index);
    kg_json_begin(json, '{');
    kg_json_named_str(json, "role", is_result ? KG_STR("tool_result") : role);
    kg_json_named_text(json, "id", id);
    kg_json_named_text(json, "parent", index > 0 ? parent : NULL);
    turn_shapes_put_content(json, message, is_result);
    kg_json_end(json, '}');
}

void turn_shape(struct kg_str neutral, struct kg_json_writer *json)
{
    struct kg_err err;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(neutral, &err);
    kg_json_begin(json, '[');
    for (uint32_t i = 0; doc != NULL && i < doc->root->count; i++)
        turn_shapes_put_message(json, &doc->root->items[i], i);
    kg_json_end(json, ']');
}

/* -- and back ---------------------------------------------------------------------------------- */

struct walk {
    struct kg_json_writer json;
    const struct kg_node
        *calls; /* of the assistant's last message, not all of them answered; NULL */
    uint32_t answered;
    struct kg_err *err;
};

static int turn_shapes_refuse(struct walk *walk, const char *what)
{
    return kg_fail(walk->err, KG_E_BAD_RESULT, "%s", what);
}

static bool turn_shapes_is_word(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if (!kg_is_letter_or_digit(text.data[i]) && text.data[i] != '-' && text.data[i] != '_')
            return false;
    return text.length > 0 && text.length <= NAME_MAX_BYTES;
}

static bool is_block(const struct kg_node *block, const char *type)
{
    return block->type == KG_OBJECT && kg_str_is(kg_node_text(block, "type"), type);
}

static uint32_t count_blocks(const struct kg_node *content, const char *type)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < content->count; i++)
        count += is_block(&content->items[i], type);
    return count;
}

static void put_texts(struct walk *walk, const struct kg_node *content)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (uint32_t i = 0; i < content->count; i++) {
        if (!is_block(&content->items[i], "text"))
            continue;
        kg_buf_text(&text, text.length > 0 ? "\n" : "");
        kg_buf_str(&text, kg_node_text(&content->items[i], "text"));
    }
    kg_json_named_str(&walk->json, "content", text.length > 0 ? kg_buf_view(&text) : KG_STR(""));
}

static int turn_shapes_put_calls(struct walk *walk, const struct kg_node *content)
{
    if (count_blocks(content, "tool_call") == 0)
        return 0;
    kg_json_named_begin(&walk->json, "tool_calls", '[');
    for (uint32_t i = 0; i < content->count; i++) {
        const struct kg_node *block = &content->items[i];
        if (!is_block(block, "tool_call"))
            continue;
        struct kg_str id = kg_node_text(block, "id"), name = kg_node_text(block, "name");
        const struct kg_node *input = kg_node_typed(block, "input", KG_OBJECT);
        if (!turn_shapes_is_word(id) || !turn_shapes_is_word(name) || input == NULL)
            return turn_shapes_refuse(walk, "a tool_call has no id, name or input");
        kg_json_begin(&walk->json, '{');
        kg_json_named_str(&walk->json, "id", id);
        kg_json_named_str(&walk->json, "name", name);
        kg_json_named_node(&walk->json, "arguments", input);
        kg_json_end(&walk->json, '}');
    }
    kg_json_end(&walk->json, ']');
    walk->calls = content;
    walk->answered = 0;
    return 0;
}

static int turn_shapes_put_said(struct walk *walk, struct kg_str role,
                                const struct kg_node *content)
{
    if (walk->calls != NULL)
        return turn_shapes_refuse(walk, "a tool_call has no tool_result after it");
    kg_json_begin(&walk->json, '{');
    kg_json_named_str(&walk->json, "role", role);
    put_texts(walk, content);
    int result = kg_str_is(role, "assistant") ? turn_shapes_put_calls(walk, content) : 0;
    kg_json_end(&walk->json, '}');
    return result;
}

/* Results stand in the order of their calls. */
static bool is_next(const struct walk *walk, struct kg_str id)
{
    uint32_t left = walk->answered;
    for (uint32_t i = 0; walk->calls != NULL && i < walk->calls->count; i++)
        if (is_block(&walk->calls->items[i], "tool_call") && left-- == 0)
            return kg_str_equal(kg_node_text(&walk->calls->items[i], "id"), id);
    return false;
}

static int turn_shapes_put_result(struct walk *walk, const struct kg_node *block)
{
    struct kg_str id = kg_node_text(block, "call_id");
    struct kg_str output = kg_node_text(block, "output");
    if (!is_block(block, "tool_result_block") || !is_next(walk, id))
        return turn_shapes_refuse(
            walk, "a tool_result answers no tool_call before it, or not in its turn");
    kg_json_begin(&walk->json, '{');
    kg_json_named_text(&walk->json, "role", "tool");
    kg_json_named_str(&walk->json, "tool_call_id", id);
    kg_json_named_str(&walk->json, "content", output.data ? output : KG_STR(""));
    if (kg_node_is_true(block, "is_error"))
        kg_json_named_bool(&walk->json, "is_error", true);
    kg_json_end(&walk->json, '}');
    if (++walk->answered == count_blocks(walk->calls, "tool_call"))
        walk->calls = NULL;
    return 0;
}

static int turn_shapes_take_message(struct walk *walk, const struct kg_node *message)
{
    struct kg_str role = message->type == KG_OBJECT ? kg_node_text(message, "role") : KG_STR_NULL;
    const struct kg_node *content =
        message->type == KG_OBJECT ? kg_node_get(message, "content") : NULL;
    int result = 0;
    if (content == NULL || content->type != KG_ARRAY)
        return turn_shapes_refuse(walk, "a message has no list \"content\"");
    if (kg_str_is(role, "user") || kg_str_is(role, "assistant") || kg_str_is(role, "system"))
        return turn_shapes_put_said(walk, role, content);
    if (!kg_str_is(role, "tool_result"))
        return turn_shapes_refuse(walk, "a role must be user, assistant, tool_result or system");
    for (uint32_t i = 0; i < content->count && result == 0; i++)
        result = turn_shapes_put_result(walk, &content->items[i]);
    return result;
}

int turn_unshape(const struct kg_node *shaped, struct kg_buf *ret_neutral, struct kg_err *err)
{
    struct walk walk = {.json = kg_json_writer(ret_neutral), .err = err};
    int result = 0;
    if (shaped == NULL || shaped->type != KG_ARRAY || shaped->count == 0)
        return turn_shapes_refuse(&walk, "it is not a list of messages");
    kg_json_begin(&walk.json, '[');
    for (uint32_t i = 0; i < shaped->count && result == 0; i++)
        result = turn_shapes_take_message(&walk, &shaped->items[i]);
    kg_json_end(&walk.json, ']');
    if (result == 0 && walk.calls != NULL)
        result = turn_shapes_refuse(&walk, "a tool_call has no tool_result after it");
    return result < 0 ? -EINVAL : 0;
}
