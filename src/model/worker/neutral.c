/*
 * What is asked of a model, in the form that no provider owns. Whoever writes a body from it may
 * rely on what is checked here: roles, texts, calls with an object of arguments.
 *
 *   {"role":"system|user|assistant|tool", "content":"text",
 *    "tool_calls":[{"id","name","arguments":{...}}],      assistant
 *    "tool_call_id":"...", "is_error":true}               tool
 *
 * Names of tools and ids of calls are what both APIs take: letters, digits, "_" and "-".
 */
#include "model/worker/internal.h"

#include <errno.h>

#define WORD_MAX 64

static bool neutral_is_word(const struct kg_node *object, const char *key)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    struct kg_str text = kg_node_text(object, key);
    for (size_t i = 0; i < text.length; i++)
        if (memchr(letters, text.data[i], sizeof(letters) - 1) == NULL)
            return false;
    return text.length > 0 && text.length <= WORD_MAX;
}

/* Absent, or of that type. */
static bool is_or_absent(const struct kg_node *object, const char *key, enum kg_type type)
{
    const struct kg_node *node = kg_node_get(object, key);
    return node == NULL || node->type == type;
}

static int wrong(struct failure *failure, const char *what)
{
    return failure_set(failure, MODEL_INVALID, "the request: %s", what);
}

static int check_calls(const struct kg_node *message, struct failure *failure)
{
    const struct kg_node *calls = kg_node_get(message, "tool_calls");
    if (calls == NULL)
        return 0;
    if (calls->type != KG_ARRAY || !kg_str_is(kg_node_text(message, "role"), "assistant"))
        return wrong(failure, "tool_calls is a list in a message of the assistant");
    for (uint32_t i = 0; i < calls->count; i++) {
        const struct kg_node *call = &calls->items[i];
        const struct kg_node *arguments = kg_node_get(call, "arguments");
        if (!neutral_is_word(call, "id") || !neutral_is_word(call, "name") || arguments == NULL ||
            arguments->type != KG_OBJECT)
            return wrong(failure, "a tool call has an id, a name and an object of arguments");
    }
    return 0;
}

static int check_message(const struct kg_node *message, struct failure *failure)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    struct kg_str role = kg_node_text(message, "role");
    bool known = false;
    for (size_t i = 0; i < KG_COUNT(roles); i++)
        known |= kg_str_is(role, roles[i]);
    if (!known)
        return wrong(failure, "the role of a message is system, user, assistant or tool");
    if (!is_or_absent(message, "content", KG_STRING) || !is_or_absent(message, "is_error", KG_BOOL))
        return wrong(failure, "the content of a message is a string");
    if (kg_str_is(role, "tool") && !neutral_is_word(message, "tool_call_id"))
        return wrong(failure, "a message of a tool has a tool_call_id");
    return check_calls(message, failure);
}

static int neutral_check_tools(const struct kg_node *tools, struct failure *failure)
{
    if (tools == NULL)
        return 0;
    if (tools->type != KG_ARRAY)
        return wrong(failure, "tools is a list");
    for (uint32_t i = 0; i < tools->count; i++)
        if (!neutral_is_word(&tools->items[i], "name") ||
            !is_or_absent(&tools->items[i], "description", KG_STRING) ||
            !is_or_absent(&tools->items[i], "parameters", KG_OBJECT))
            return wrong(failure, "a tool has a name, a description and an object of parameters");
    return 0;
}

int neutral_read(const struct kg_node *params, struct neutral *ret_neutral, struct failure *failure)
{
    const struct kg_node *temperature = kg_node_get(params, "temperature");
    const struct kg_node *reasoning = kg_node_get(params, "reasoning");
    const struct kg_node *max_tokens = kg_node_get(params, "max_tokens");
    struct neutral neutral = {
        .model = kg_node_text(params, "model"),
        .system = kg_node_text(params, "system"),
        .messages = kg_node_get(params, "messages"),
        .tools = kg_node_get(params, "tools"),
        .reasoning = reasoning != NULL && reasoning->type == KG_BOOL && reasoning->boolean,
    };
    if (neutral.model.length == 0 || !is_or_absent(params, "system", KG_STRING))
        return wrong(failure, "model and system are strings");
    if (neutral.messages == NULL || neutral.messages->type != KG_ARRAY)
        return wrong(failure, "messages is a list");
    if (max_tokens != NULL &&
        (!kg_node_int(max_tokens, &neutral.max_tokens) || neutral.max_tokens < 0))
        return wrong(failure, "max_tokens is a number");
    if (!is_or_absent(params, "temperature", KG_NUMBER))
        return wrong(failure, "temperature is a number");
    if (temperature != NULL)
        neutral.temperature = temperature->text;
    for (uint32_t i = 0; i < neutral.messages->count; i++)
        if (check_message(&neutral.messages->items[i], failure) < 0)
            return -EINVAL;
    if (neutral_check_tools(neutral.tools, failure) < 0)
        return -EINVAL;
    *ret_neutral = neutral;
    return 0;
}

void neutral_put_tool(struct kg_json_writer *json, const struct kg_node *tool,
                      const char *schema_key)
{
    const struct kg_node *parameters = kg_node_get(tool, "parameters");
    struct kg_str description = kg_node_text(tool, "description");
    kg_json_named_str(json, "name", kg_node_text(tool, "name"));
    if (description.length > 0)
        kg_json_named_str(json, "description", description);
    kg_json_key(json, schema_key);
    if (parameters != NULL)
        kg_json_node(json, parameters);
    else
        kg_json_raw(json, KG_STR("{\"type\":\"object\",\"properties\":{}}"));
}
