/*
 * Any line as JSON-RPC: what rpc_parse takes it for agrees with a slow look at its tree, and the
 * parts that it names are in the line and say the same as the tree's.
 */
#include "same_tree.h"
#include "wire/wire.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* -- the slow look ---------------------------------------------------------------------------- */

static bool is_id(const struct kg_node *node)
{
    int64_t id;
    return node != NULL && node->type == KG_NUMBER && kg_node_int(node, &id) && id >= 1;
}

static bool is_error(const struct kg_node *node)
{
    int64_t number;
    const struct kg_node *code = kg_node_get(node, "code");
    const struct kg_node *message = kg_node_get(node, "message");
    return code != NULL && code->type == KG_NUMBER && kg_node_int(code, &number) &&
           message != NULL && message->type == KG_STRING;
}

static bool is_method(const struct kg_node *node)
{
    return node->type == KG_STRING && node->text.length <= RPC_METHOD_MAX &&
           (node->text.length == 0 || memchr(node->text.data, '\0', node->text.length) == NULL);
}

static bool is_container(const struct kg_node *node)
{
    return node->type == KG_ARRAY || node->type == KG_OBJECT;
}

static enum rpc_kind kind_of_request(const struct kg_node *root)
{
    const struct kg_node *id = kg_node_get(root, "id");
    const struct kg_node *params = kg_node_get(root, "params");
    if (!is_method(kg_node_get(root, "method")) || kg_node_get(root, "result") != NULL ||
        kg_node_get(root, "error") != NULL || (id != NULL && !is_id(id)) ||
        (params != NULL && !is_container(params)))
        return RPC_INVALID_REQUEST;
    return id != NULL ? RPC_REQUEST : RPC_NOTIFICATION;
}

static enum rpc_kind kind_of_response(const struct kg_node *root)
{
    const struct kg_node *result = kg_node_get(root, "result");
    const struct kg_node *error = kg_node_get(root, "error");
    if (!is_id(kg_node_get(root, "id")) || (result != NULL) == (error != NULL) ||
        (error != NULL && !is_error(error)))
        return RPC_INVALID_RESPONSE;
    return result != NULL ? RPC_RESULT : RPC_ERROR;
}

static enum rpc_kind kind_of(const struct kg_node *root)
{
    if (root->type == KG_ARRAY)
        return RPC_BATCH;
    const struct kg_node *version = kg_node_get(root, "jsonrpc");
    bool request = kg_node_get(root, "method") != NULL;
    bool response = kg_node_get(root, "id") != NULL &&
                    (kg_node_get(root, "result") != NULL || kg_node_get(root, "error") != NULL);
    if (version == NULL && !request && !response)
        return RPC_NOISE;
    if (version == NULL || version->type != KG_STRING || !kg_str_is(version->text, "2.0"))
        return request ? RPC_INVALID_REQUEST : RPC_INVALID_RESPONSE;
    return request ? kind_of_request(root) : kind_of_response(root);
}

/* -- comparing -------------------------------------------------------------------------------- */

static void part_agrees(struct kg_str line, struct kg_str span, const struct kg_node *node)
{
    must((span.data != NULL) == (node != NULL));
    if (node == NULL)
        return;
    must(span.data >= line.data && span.data + span.length <= line.data + line.length);
    kg_auto(kg_doc_cleanup) struct kg_doc *part = kg_json_read(span, NULL);
    must(part != NULL && same_tree(part->root, node));
}

static void error_agrees(struct kg_str error, const struct kg_node *node)
{
    int64_t code = 0;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    must(kg_node_int(kg_node_get(node, "code"), &code) && rpc_error_code(error) == code);
    rpc_error_message(error, &text);
    must(kg_str_equal(kg_buf_view(&text), kg_node_get(node, "message")->text));
}

static void parts_agree(struct kg_str line, const struct rpc_message *message,
                        const struct kg_node *root)
{
    int64_t id = 0;
    part_agrees(line, message->params, kg_node_get(root, "params"));
    part_agrees(line, message->result, kg_node_get(root, "result"));
    part_agrees(line, message->error, kg_node_get(root, "error"));
    part_agrees(line, message->id_text, kg_node_get(root, "id"));
    must(message->has_id == is_id(kg_node_get(root, "id")));
    if (message->has_id)
        must(kg_node_int(kg_node_get(root, "id"), &id) && message->id == id);
    if (message->kind == RPC_REQUEST || message->kind == RPC_NOTIFICATION)
        must(kg_str_is(kg_node_get(root, "method")->text, message->method));
    if (message->has_foreign_id)
        must(message->kind == RPC_INVALID_REQUEST && message->id_text.length <= RPC_ID_MAX);
    if (message->kind == RPC_ERROR)
        error_agrees(message->error, kg_node_get(root, "error"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kg_str line = {(const char *)data, size};
    struct rpc_message message;
    struct kg_err err = {0};
    rpc_parse(line, &message);
    bool bad = message.kind == RPC_NOISE || message.kind == RPC_INVALID_REQUEST ||
               message.kind == RPC_INVALID_RESPONSE;
    must(bad == (message.problem != NULL));
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(line, &err);
    if (doc == NULL) {
        /* The tree refuses keys given twice at any depth, and counts the envelope as a level. */
        must((message.kind == RPC_NOISE && message.fault != KG_JSON_OK) ||
             strstr(err.message, "is given twice") != NULL ||
             kg_json_check(line, NULL) == KG_JSON_DEPTH);
        return 0;
    }
    must(message.fault == KG_JSON_OK && message.kind == kind_of(doc->root));
    if (message.kind != RPC_NOISE && message.kind != RPC_BATCH)
        parts_agree(line, &message, doc->root);
    return 0;
}
