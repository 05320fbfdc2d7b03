/*
 * Calls of plugins' methods, the hot path: the parameters are passed on as the bytes that came in,
 * and the result as the bytes that came back. A caller that leaves takes its call with it.
 */
#include "host/offers.h"
#include "http/internal.h"

#include <stdlib.h>

static int64_t deadline_of(const struct http_request *request)
{
    int64_t deadline_ms = 0;
    struct kg_str text = http_header(request, "kaged-timeout-ms");
    if (text.data != NULL)
        kg_str_to_int(text, &deadline_ms); /* the router has checked that it is a number */
    return deadline_ms;
}

struct waiting_call {
    struct http_request *request;
    struct host_call *call;
};

/* A plugin's own error keeps its code and data. */
static void reply_plugin_error(struct http_request *request, const struct host_reply *reply)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    struct kg_str data;
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "error", '{');
    kg_json_named_text(&json, "code", kg_error_row(reply->error.code)->name);
    kg_json_named_text(&json, "message", reply->error.message);
    if (reply->error.hint[0] != '\0')
        kg_json_named_text(&json, "hint", reply->error.hint);
    kg_json_named_text(&json, "request_id", http_request_id(request));
    kg_json_named_int(&json, "rpc_code", rpc_error_code(reply->plugin_error));
    if (kg_json_member(reply->plugin_error, "data", &data)) {
        kg_json_key(&json, "data");
        kg_json_raw(&json, data);
    }
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    http_reply(request, kg_error_row(reply->error.code)->http_status, kg_buf_view(&body));
}

static void on_call_done(void *data, const struct host_reply *reply)
{
    struct waiting_call *waiting = data;
    struct http_request *request = waiting->request;
    free(waiting);
    if (reply->error.code == KG_OK)
        http_reply(request, 200, reply->result);
    else if (reply->plugin_error.length > 0)
        reply_plugin_error(request, reply);
    else
        http_reply_error(request, &reply->error);
}

static void on_caller_gone(void *data)
{
    struct waiting_call *waiting = data;
    host_call_cancel(waiting->call);
    http_reply(waiting->request, kg_error_row(KG_E_CANCELLED)->http_status, KG_STR("{}"));
    free(waiting);
}

static struct waiting_call *http_calls_begin(struct http_request *request)
{
    struct waiting_call *waiting = kg_alloc(sizeof(*waiting));
    waiting->request = request;
    return waiting;
}

/* NULL: it was refused at once. */
static void http_calls_wait_for(struct waiting_call *waiting, struct host_call *call_or_null,
                                const struct kg_err *err)
{
    struct http_request *request = waiting->request;
    waiting->call = call_or_null;
    if (call_or_null == NULL) {
        free(waiting);
        http_reply_error(request, err);
        return;
    }
    http_on_gone(request, on_caller_gone, waiting);
}

static void http_calls_make_call(struct http_request *request, struct kg_str params)
{
    struct kg_err err = {0};
    struct waiting_call *waiting = http_calls_begin(request);
    struct host_call_request call = {
        .plugin = http_path_parameter(request, "name"),
        .method = http_path_parameter(request, "method"),
        .params = params,
        .asker = http_asker(request),
        .caller_timeout_ms = (uint64_t)deadline_of(request),
        .on_done = on_call_done,
        .data = waiting,
    };
    http_calls_wait_for(waiting, host_call(http_host(request), &call, &err), &err);
}

void http_handle_call(struct http_request *request)
{
    http_calls_make_call(request, http_body(request));
}

/* Query parameters become string params. */
void http_handle_call_by_query(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_str name, value;
    size_t position = 0;
    kg_buf_char(&params, '{');
    while (http_query_next(request, &position, &name, &value)) {
        if (params.length > 1)
            kg_buf_char(&params, ',');
        kg_json_put_string(&params, name);
        kg_buf_char(&params, ':');
        kg_json_put_string(&params, value);
    }
    kg_buf_char(&params, '}');
    http_calls_make_call(request, kg_buf_view(&params));
}

/* -- what MCP servers offer beside tools ------------------------------------------------------- */

static void ask_offer(struct http_request *request, enum host_offer what, struct kg_str params)
{
    struct kg_err err = {0};
    struct waiting_call *waiting = http_calls_begin(request);
    const struct host_call_request offer = {
        .plugin = http_path_parameter(request, "name"),
        .params = params,
        .asker = http_asker(request),
        .caller_timeout_ms = (uint64_t)deadline_of(request),
        .on_done = on_call_done,
        .data = waiting,
    };
    http_calls_wait_for(waiting, host_offer_ask(http_host(request), what, &offer, &err), &err);
}

void http_handle_resources(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_str uri = http_query_parameter(request, "uri");
    if (uri.data == NULL) {
        bool templates = kg_str_is(http_query_parameter(request, "templates"), "true");
        ask_offer(request, templates ? HOST_TEMPLATES : HOST_RESOURCES, KG_STR_NULL);
        return;
    }
    struct kg_json_writer json = kg_json_writer(&params);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "uri", uri);
    kg_json_end(&json, '}');
    ask_offer(request, HOST_RESOURCE, kg_buf_view(&params));
}

void http_handle_prompts(struct http_request *request)
{
    ask_offer(request, HOST_PROMPTS, KG_STR_NULL);
}

void http_handle_prompt(struct http_request *request)
{
    ask_offer(request, HOST_PROMPT, http_body(request));
}

void http_handle_completion(struct http_request *request)
{
    ask_offer(request, HOST_COMPLETION, http_body(request));
}
