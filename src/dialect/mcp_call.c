/*
 * Calls of an MCP server, of either era, and what their answers mean. What a server answers wrongly
 * is one error in words, whichever way it chose; a list is asked for until its last page.
 */
#include "dialect/mcp.h"

#include <stdlib.h>

#define INPUTS_MAX 8 /* of one answer */

/* Something that the server wants to know before it goes on. */
struct mcp_input {
    struct dialect_input base;
    struct kg_buf key; /* the server's name for it, a JSON string */
    struct kg_buf answer;
};

/* What a call is asked again with. */
struct mcp_request {
    const struct dialect_list *list; /* NULL: it is not one */
    struct dialect_pages pages;
    struct kg_buf method, members;
    struct kg_buf server_state; /* what the server gave us to give back, a JSON string */
    struct mcp_input inputs[INPUTS_MAX];
    size_t input_count, open;
    bool is_asking;       /* not all of them are asked yet */
    struct kg_buf failed; /* an error object, of one that cannot be answered */
};

/* -- calls ------------------------------------------------------------------------------------- */

#define LIST(method_name, key)                                                                     \
    {                                                                                              \
        .method = (method_name), .items = (key), .next = "nextCursor", .pages_max = MCP_PAGES_MAX, \
        .bytes_max = MCP_LIST_MAX_BYTES                                                            \
    }
static const struct dialect_list lists[] = {
    LIST("resources/list", "resources"),
    LIST("resources/templates/list", "resourceTemplates"),
    LIST("prompts/list", "prompts"),
};

static const struct dialect_list *find_list(struct kg_str method)
{
    for (size_t i = 0; i < KG_COUNT(lists); i++)
        if (kg_str_is(method, lists[i].method))
            return &lists[i];
    return NULL;
}

/* The members of a caller's object but for its _meta, which is ours to write. */
static void mcp_call_put_members(struct kg_buf *out, struct kg_str object)
{
    struct kg_json_cursor cursor = kg_json_inside(object);
    struct kg_str key, value;
    bool escaped;
    while (kg_json_next_member(&cursor, &key, &escaped, &value)) {
        if (kg_json_raw_is(key, escaped, "_meta"))
            continue;
        kg_buf_char(out, '"');
        kg_buf_str(out, key);
        kg_buf_str(out, KG_STR("\":"));
        kg_buf_str(out, value);
        kg_buf_char(out, ',');
    }
}

static struct kg_str tool_of(struct kg_str method)
{
    const char *dot = memchr(method.data, '.', method.length);
    return kg_str_from(method, (size_t)(dot + 1 - method.data));
}

static void mcp_call_put_tool(struct kg_buf *out, const struct dialect_message *message)
{
    kg_buf_str(out, KG_STR("\"name\":"));
    kg_json_put_string(out, tool_of(message->method));
    kg_buf_str(out, KG_STR(",\"arguments\":"));
    kg_buf_str(out, message->params.length ? message->params : KG_STR("{}"));
    kg_buf_char(out, ',');
}

/* Members end with a comma each, since ours come behind them. */
static int send_exchange(struct dialect_call *call, struct kg_str method, struct kg_str members,
                         struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf meta = {0};
    struct kg_json_writer json = kg_json_writer(&meta);
    mcp_put_meta(call->talk, &json, peer_next_id(call->talk->peer), call->answers,
                 call->traceparent);
    const struct kg_str params[] = {KG_STR("{"), members, kg_buf_view(&meta), KG_STR("}")};
    return dialect_send(call, method, params, KG_COUNT(params), err);
}

/*
 * What most calls are: a tool of a legacy server. Nothing is kept of it, and its parts go from
 * where they are into the line. The name was approved, so that nothing in it has to be escaped.
 */
static int send_tool(struct dialect_call *call, const struct dialect_message *message,
                     struct kg_err *err)
{
    struct kg_buf *token = &((struct mcp *)call->talk->state)->token;
    bool traced = call->traceparent != NULL;
    token->length = 0;
    kg_buf_int(token, (int64_t)peer_next_id(call->talk->peer));
    const struct kg_str params[] = {
        KG_STR("{\"name\":\""),
        tool_of(message->method),
        KG_STR("\",\"arguments\":"),
        message->params.length ? message->params : KG_STR("{}"),
        KG_STR(",\"_meta\":{\"progressToken\":"),
        kg_buf_view(token),
        traced ? KG_STR(",\"traceparent\":\"") : KG_STR("}}"),
        kg_str(call->traceparent), /* digits, as it was checked */
        KG_STR("\"}}"),
    };
    return dialect_send(call, KG_STR("tools/call"), params, KG_COUNT(params) - (traced ? 0 : 2),
                        err);
}

/* A modern server may answer that it has to be asked again, with more. */
static void keep_request(struct dialect_call *call, const struct dialect_message *message,
                         struct kg_str method, struct kg_str members)
{
    struct mcp_request *request = kg_alloc(sizeof(*request));
    call->state = request;
    if (message->act == DIALECT_LIST) {
        request->list = find_list(message->method);
        call->exchanges_max = MCP_PAGES_MAX;
    }
    kg_buf_str(&request->method, method);
    kg_buf_str(&request->members, members);
}

int mcp_call(struct dialect_call *call, const struct dialect_message *message, struct kg_err *err)
{
    if (message->act == DIALECT_TOOL && !mcp_is_modern(call->talk))
        return send_tool(call, message, err);
    kg_auto(kg_buf_free) struct kg_buf members = {0};
    struct kg_str method = message->act == DIALECT_TOOL ? KG_STR("tools/call") : message->method;
    if (message->act == DIALECT_TOOL)
        mcp_call_put_tool(&members, message);
    else if (message->params.length > 0 && message->act != DIALECT_LIST)
        mcp_call_put_members(&members, message->params);
    if (message->act == DIALECT_LIST || mcp_is_modern(call->talk))
        keep_request(call, message, method, kg_buf_view(&members));
    return send_exchange(call, method, kg_buf_view(&members), err);
}

static void drop_inputs(struct dialect_call *call)
{
    struct mcp_request *request = call->state;
    const struct dialect_talk *talk = call->talk;
    for (size_t i = 0; i < request->input_count; i++) {
        struct mcp_input *input = &request->inputs[i];
        if (input->base.host != NULL)
            talk->ops->drop_input(talk->data, &input->base);
        kg_buf_free(&input->key);
        kg_buf_free(&input->answer);
    }
    request->input_count = request->open = 0;
}

void mcp_end(struct dialect_call *call)
{
    struct mcp_request *request = call->state;
    drop_inputs(call);
    dialect_pages_free(&request->pages);
    kg_buf_free(&request->method);
    kg_buf_free(&request->members);
    kg_buf_free(&request->server_state);
    kg_buf_free(&request->failed);
    free(request);
}

/* -- answers ----------------------------------------------------------------------------------- */

static enum dialect_reading unknown_tool(struct kg_buf *ret_json)
{
    rpc_put_error(ret_json, KG_E_METHOD_NOT_FOUND, "the server no longer knows this tool");
    return DIALECT_ERROR;
}

static enum dialect_reading mcp_call_read_error(struct kg_str error, struct kg_buf *ret_json)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    rpc_error_message(error, &words);
    return mcp_says_unknown_tool(kg_buf_view(&words)) ? unknown_tool(ret_json) : DIALECT_AS_IT_IS;
}

static enum dialect_reading bad_result(struct kg_buf *ret_json, const char *words)
{
    rpc_put_error(ret_json, KG_E_BAD_RESULT, words);
    return DIALECT_ERROR;
}

/* -- what a server wants to know first --------------------------------------------------------- */

static enum dialect_reading send_again(struct dialect_call *call, struct kg_buf *ret_json)
{
    struct mcp_request *request = call->state;
    kg_auto(kg_buf_free) struct kg_buf members = {0};
    struct kg_err err;
    kg_buf_str(&members, kg_buf_view(&request->members));
    kg_buf_text(&members, "\"inputResponses\":{");
    for (size_t i = 0; i < request->input_count; i++) {
        kg_buf_text(&members, i > 0 ? "," : "");
        kg_buf_str(&members, kg_buf_view(&request->inputs[i].key));
        kg_buf_char(&members, ':');
        kg_buf_str(&members, kg_buf_view(&request->inputs[i].answer));
    }
    kg_buf_text(&members, "},");
    if (request->server_state.length > 0) {
        kg_buf_text(&members, "\"requestState\":");
        kg_buf_str(&members, kg_buf_view(&request->server_state));
        kg_buf_char(&members, ',');
    }
    drop_inputs(call);
    call->waits = false;
    if (request->failed.length > 0) {
        kg_buf_str(ret_json, kg_buf_view(&request->failed));
        return DIALECT_ERROR;
    }
    if (send_exchange(call, kg_buf_view(&request->method), kg_buf_view(&members), &err) < 0)
        return bad_result(ret_json, err.message);
    return DIALECT_AGAIN;
}

static void on_input_answer(struct dialect_input *base, enum peer_answer kind, struct kg_str json)
{
    struct mcp_input *input = KG_CONTAINER(base, struct mcp_input, base);
    struct dialect_call *call = base->call;
    struct mcp_request *request = call->state;
    kg_auto(kg_buf_free) struct kg_buf error = {0};
    kg_buf_str(kind == PEER_ANSWER_RESULT ? &input->answer : &request->failed, json);
    request->open--;
    if (request->is_asking || request->open > 0)
        return;
    if (send_again(call, &error) == DIALECT_ERROR)
        dialect_finish(call, PEER_ERROR, kg_buf_view(&error));
}

/* Whether it is asked, or answered at once. */
static bool ask_input(struct dialect_call *call, struct kg_str key, struct kg_str asked)
{
    struct mcp_request *request = call->state;
    struct mcp_input *input = &request->inputs[request->input_count];
    struct dialect_talk *talk = call->talk;
    kg_auto(kg_buf_free) struct kg_buf name = {0}, params = {0};
    struct kg_str method, own = KG_STR("{}");
    if (!kg_json_member(asked, "method", &method) || method.length < 2 || method.data[0] != '"')
        return false;
    kg_buf_append(&name, method.data + 1, method.length - 2);
    (void)kg_json_member(asked, "params", &own);
    *input = (struct mcp_input){.base = {.call = call, .on_answer = on_input_answer}};
    kg_buf_printf(&input->key, "\"%.*s\"", KG_STR_ARG(key));
    request->input_count++;
    if (kg_str_is(kg_buf_view(&name), "roots/list") && mcp_has_roots(talk)) {
        mcp_put_roots(talk, &input->answer);
        return true;
    }
    const char *host_method = mcp_translate(kg_buf_view(&name), own, &params);
    if (host_method == NULL || talk->ops->on_input == NULL)
        return false;
    input->base.method = kg_str(host_method);
    input->base.params = kg_buf_view(&params);
    input->base.key = kg_buf_view(&input->key);
    request->open++;
    if (talk->ops->on_input(talk->data, &input->base))
        return true;
    request->open--;
    kg_buf_text(&input->answer, strcmp(host_method, "kaged.roots") == 0
                                    ? "{\"roots\":[]}"
                                    : "{\"action\":\"cancel\"}");
    return strcmp(host_method, "kaged.sample") != 0; /* a model's words cannot be made up */
}

static enum dialect_reading ask_inputs(struct dialect_call *call, struct kg_str result,
                                       struct kg_buf *ret_json)
{
    struct mcp_request *request = call->state;
    struct kg_str wanted = KG_STR("{}"), kept, key, asked;
    bool escaped, all = true;
    if (request == NULL || request->list != NULL)
        return bad_result(ret_json, "it asks for input that it was not offered");
    request->server_state.length = 0;
    if (kg_json_member(result, "requestState", &kept) && kept.data[0] == '"')
        kg_buf_str(&request->server_state, kept);
    (void)kg_json_member(result, "inputRequests", &wanted);
    if (wanted.data[0] != '{')
        return bad_result(ret_json, "inputRequests is not an object");
    struct kg_json_cursor cursor = kg_json_inside(wanted);
    request->is_asking = true;
    while (all && kg_json_next_member(&cursor, &key, &escaped, &asked))
        all = request->input_count < INPUTS_MAX && ask_input(call, key, asked);
    request->is_asking = false;
    if (!all)
        return bad_result(ret_json, "it asks for input that it was not offered");
    call->waits = request->open > 0;
    return call->waits ? DIALECT_AGAIN : send_again(call, ret_json);
}

static enum dialect_reading mcp_call_read_result(struct dialect_call *call, struct kg_str result,
                                                 struct kg_buf *ret_json)
{
    switch (mcp_judge(result)) {
    case MCP_COMPLETE:
        break;
    case MCP_FAILED:
        call->has_failed = true;
        break;
    case MCP_ASKS:
        return ask_inputs(call, result, ret_json);
    case MCP_NO_SUCH_TOOL:
        return unknown_tool(ret_json);
    case MCP_BAD_BYTES:
        return bad_result(ret_json, "the result has bytes that are not base64");
    case MCP_NO_OBJECT:
        return bad_result(ret_json, "the result is not an object");
    }
    return DIALECT_AS_IT_IS;
}

/* -- pages ------------------------------------------------------------------------------------- */

static enum dialect_reading read_page(struct dialect_call *call, struct kg_str result,
                                      struct kg_buf *ret_json)
{
    struct mcp_request *request = call->state;
    const struct dialect_list *list = request->list;
    struct kg_err err;
    bool last;
    if (dialect_pages_take(&request->pages, list, result, &last, &err) < 0)
        return bad_result(ret_json, err.message);
    if (last) {
        kg_buf_printf(ret_json, "{\"%s\":[", list->items);
        kg_buf_str(ret_json, kg_buf_view(&request->pages.items));
        kg_buf_text(ret_json, "]}");
        return DIALECT_RESULT;
    }
    kg_auto(kg_buf_free) struct kg_buf members = {0};
    kg_buf_text(&members, "\"cursor\":");
    kg_buf_str(&members, kg_buf_view(&request->pages.cursor));
    kg_buf_char(&members, ',');
    if (send_exchange(call, kg_str(list->method), kg_buf_view(&members), &err) < 0)
        return bad_result(ret_json, err.message);
    return DIALECT_AGAIN;
}

enum dialect_reading mcp_read(struct dialect_call *call, enum peer_outcome outcome,
                              struct kg_str payload, struct kg_buf *ret_json)
{
    const struct mcp_request *request = call->state;
    switch (outcome) {
    case PEER_RESULT:
        return request != NULL && request->list != NULL
                   ? read_page(call, payload, ret_json)
                   : mcp_call_read_result(call, payload, ret_json);
    case PEER_ERROR:
        return mcp_call_read_error(payload, ret_json);
    default:
        return DIALECT_AS_IT_IS;
    }
}
