/* One line of the host becomes one message, or the refusal of one: its form is checked here, once.
 */
#include "internal.h"

static bool is_blank(struct kg_str line)
{
    size_t at = 0;
    while (at < line.length && strchr(" \t\r", line.data[at]) != NULL && line.data[at] != '\0')
        at++;
    return at == line.length;
}

static void refuse(struct message *message, int code, const char *problem)
{
    message->kind = MESSAGE_REFUSED;
    message->code = code;
    message->problem = problem;
}

static bool is_text(const struct kg_node *node, const char *text)
{
    return node != NULL && node->type == KG_STRING && kg_str_is(node->text, text);
}

/* An integer of any size: digits, and nothing else. */
static bool is_id(const struct kg_node *node)
{
    if (node->type == KG_STRING)
        return true;
    return node->type == KG_NUMBER && strpbrk(node->text.data, ".eE") == NULL;
}

static void check_request(const struct kg_node *root, struct message *message)
{
    const struct kg_node *id = kg_node_get(root, "id");
    const struct kg_node *method = kg_node_get(root, "method");
    const struct kg_node *params = kg_node_get(root, "params");
    if (id != NULL && message->id == NULL)
        refuse(message, KAGED_INVALID_REQUEST, "id is neither a string nor an integer");
    else if (method == NULL || method->type != KG_STRING)
        refuse(message, KAGED_INVALID_REQUEST, "method is not a string");
    else if (kg_node_get(root, "result") != NULL || kg_node_get(root, "error") != NULL)
        refuse(message, KAGED_INVALID_REQUEST, "a request has a result or an error");
    else if (params != NULL && params->type != KG_OBJECT && params->type != KG_ARRAY)
        refuse(message, KAGED_INVALID_REQUEST, "params is neither an object nor an array");
    else
        message->kind = id ? MESSAGE_REQUEST : MESSAGE_NOTIFICATION;
    if (message->kind == MESSAGE_REFUSED)
        return;
    message->method = strlen(method->text.data) == method->text.length ? method->text.data : "";
    message->params = params;
}

static void classify(struct message *message)
{
    const struct kg_node *root = message->doc->root;
    if (root->type != KG_OBJECT) {
        refuse(message, KAGED_INVALID_REQUEST,
               root->type == KG_ARRAY ? "there are no batches" : "not an object");
        return;
    }
    const struct kg_node *id = kg_node_get(root, "id");
    message->id = id != NULL && is_id(id) ? id : NULL;
    bool answers = kg_node_get(root, "result") != NULL || kg_node_get(root, "error") != NULL;
    if (!is_text(kg_node_get(root, "jsonrpc"), "2.0"))
        refuse(message, KAGED_INVALID_REQUEST, "jsonrpc is not \"2.0\"");
    else if (kg_node_get(root, "method") == NULL && answers)
        message->kind = MESSAGE_RESPONSE;
    else
        check_request(root, message);
}

void message_read(struct kg_str line, struct message *ret_message)
{
    struct message message = {.kind = MESSAGE_BLANK};
    if (!is_blank(line)) {
        message.doc = json_read(line);
        if (message.doc == NULL)
            refuse(&message, KAGED_PARSE_ERROR, "not JSON that the host would take");
        else
            classify(&message);
    }
    *ret_message = message;
}

void message_oversize(struct message *ret_message)
{
    *ret_message = (struct message){0};
    refuse(ret_message, KAGED_PARSE_ERROR, "the line is too long");
}

void message_free(struct message *message)
{
    kg_doc_free(message->doc);
    *message = (struct message){0};
}
