/* MCP clients for the operator, over HTTP: who they are, what they did, and what they may use. */
#include "http/internal.h"
#include "mcp/mcp.h"

#define LOG_MAX 1000 /* calls in one answer */

static struct mcp *mcp_of(const struct http_request *request)
{
    return http_server_of(request)->mcp;
}

void http_handle_mcp_profiles(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    mcp_profiles_json(mcp_of(request), &body);
    http_reply(request, 200, kg_buf_view(&body));
}

/* -- changing ---------------------------------------------------------------------------------- */

/* The client may have left meanwhile, and its server with it. */
static void on_profile_set(void *data, const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    if (err_or_null == NULL && http_server_of(request) != NULL)
        mcp_profile_json(mcp_of(request), http_path_parameter(request, "profile"), &body);
    http_on_answer(request, body.length > 0 ? kg_buf_view(&body) : KG_STR("{}"), err_or_null);
}

static void on_profile_removed(void *data, const struct kg_err *err_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "name", http_path_parameter(data, "profile"));
    kg_json_end(&json, '}');
    http_on_answer(data, kg_buf_view(&body), err_or_null);
}

static void on_marked(void *data, const struct kg_err *err_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "tool", http_path_parameter(data, "tool"));
    kg_json_key(&json, "read_only");
    kg_json_node(&json, kg_node_get(http_body_tree(data), "read_only"));
    kg_json_end(&json, '}');
    http_on_answer(data, kg_buf_view(&body), err_or_null);
}

static void change_profile(struct http_request *request, const struct kg_node *definition,
                           state_kept_fn *on_done)
{
    struct kg_err err;
    if (mcp_profile_change(mcp_of(request), http_path_parameter(request, "profile"), definition,
                           http_operator(request), on_done, request, &err) < 0)
        http_reply_error(request, &err);
}

void http_handle_mcp_profile_set(struct http_request *request)
{
    change_profile(request, http_body_tree(request), on_profile_set);
}

void http_handle_mcp_profile_remove(struct http_request *request)
{
    change_profile(request, NULL, on_profile_removed);
}

void http_handle_mcp_mark(struct http_request *request)
{
    struct kg_err err;
    if (mcp_mark_change(mcp_of(request), http_path_parameter(request, "tool"),
                        kg_node_get(http_body_tree(request), "read_only"), http_operator(request),
                        on_marked, request, &err) < 0)
        http_reply_error(request, &err);
}

/* -- what they did ----------------------------------------------------------------------------- */

void http_handle_mcp_clients(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    mcp_clients_json(mcp_of(request), &body);
    http_reply(request, 200, kg_buf_view(&body));
}

void http_handle_mcp_log(struct http_request *request)
{
    int64_t since_ms = 0, limit = http_query_int(request, "limit", 100);
    struct kg_str since = http_query_parameter(request, "since");
    if (since.data != NULL)
        kg_time_parse(since, &since_ms);
    const struct mcp_log_query query = {
        .client = http_query_parameter(request, "client"),
        .tool = http_query_parameter(request, "tool"),
        .since_ms = since_ms,
        .before = http_query_int(request, "before", 0),
        .limit = limit < LOG_MAX ? limit : LOG_MAX,
    };
    mcp_log(mcp_of(request), &query, http_on_answer, request);
}

static void on_forgotten(void *data, const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        http_reply_error(data, err_or_null);
    else
        http_reply_text(data, 204, NULL, KG_STR_NULL);
}

void http_handle_mcp_log_forget(struct http_request *request)
{
    mcp_log_forget(mcp_of(request), on_forgotten, request);
}
