/*
 * Carries messages between clients of MCP and the gateway in mcp/: a request with its headers goes
 * in, and its answer, or its stream of events, comes back. A connection that carries a stream is
 * counted apart from the others: it lasts for as long as its client listens.
 */
#include "mcp/mcp.h"
#include "http/internal.h"

#include <stdio.h>

static void http_mcp_on_gone(void *data)
{
    mcp_gone(data);
}

static void http_mcp_on_room(void *data)
{
    mcp_room(data);
}

static void http_mcp_keep(void *carrier, struct mcp_exchange *exchange)
{
    http_on_gone(carrier, http_mcp_on_gone, exchange);
    http_on_room(carrier, http_mcp_on_room, exchange);
}

static void http_mcp_add_header(void *carrier, const char *name, const char *value)
{
    http_add_header(carrier, name, value);
}

static struct kg_str header(void *carrier, const char *name)
{
    return http_header(carrier, name);
}

static void reply(void *carrier, int status, struct kg_str json)
{
    if (json.length > 0)
        http_reply(carrier, status, json);
    else
        http_reply_text(carrier, status, NULL, KG_STR_NULL);
}

static void http_mcp_begin(void *carrier)
{
    http_add_header(carrier, "X-Accel-Buffering", "no");
    http_stream_apart(carrier);
    http_reply_begin(carrier, 200, "text/event-stream");
}

static bool piece(void *carrier, struct kg_str text)
{
    return http_reply_piece(carrier, text);
}

static void http_mcp_end(void *carrier)
{
    http_reply_end(carrier);
}

/* It is answered, if to nobody. */
static void http_mcp_drop(void *carrier)
{
    struct http_request *request = carrier;
    if (request->answering)
        http_reply_end(request);
    else
        http_reply(request, kg_error_row(KG_E_CANCELLED)->http_status, KG_STR("{}"));
}

static const struct mcp_carrier_ops carrier_ops = {
    .keep = http_mcp_keep,
    .add_header = http_mcp_add_header,
    .header = header,
    .reply = reply,
    .begin = http_mcp_begin,
    .piece = piece,
    .end = http_mcp_end,
    .drop = http_mcp_drop,
};

typedef void visit_fn(struct mcp *mcp, const struct mcp_visit *visit);

static void visit(struct http_request *request, visit_fn *enter)
{
    char owner[HTTP_OPERATOR_MAX + KG_ID_MAX + 16];
    struct mcp *mcp = http_server_of(request)->mcp;
    bool has_credential = request->credential_id.text[0] != '\0';
    snprintf(owner, sizeof(owner), "%s:%s", http_via_names[request->via],
             has_credential ? request->credential_id.text : request->operator_id);
    const struct mcp_visit visit = {
        .ops = &carrier_ops,
        .carrier = request,
        .plugin = http_path_parameter(request, "name"),
        .project = http_query_parameter(request, "project"),
        .profile = http_query_parameter(request, "profile"),
        .confines = kg_str(request->profile),
        .reads_only = http_query_flag(request, "read_only"),
        .searches = http_query_flag(request, "search"),
        .is_near = request->via == HTTP_VIA_UNIX,
        .owner = owner,
        .asker = http_asker(request),
        .body = http_body(request),
        .accept = http_header(request, "accept"),
        .session = http_header(request, "mcp-session-id"),
        .version = http_header(request, "mcp-protocol-version"),
        .method = http_header(request, "mcp-method"),
        .name = http_header(request, "mcp-name"),
        .last_event = http_header(request, "last-event-id"),
    };
    enter(mcp, &visit);
}

/* A plugin or project that is named has to be there. */
static bool http_mcp_check_named(struct http_request *request)
{
    struct kg_err err;
    struct host_named named;
    struct kg_str plugin = http_path_parameter(request, "name");
    struct kg_str project = http_query_parameter(request, "project");
    if ((plugin.length > 0 && host_find(http_host(request), plugin, &named, &err) < 0) ||
        (project.length > 0 && projects_find(http_host(request), project, &err) == NULL)) {
        http_reply_error(request, &err);
        return false;
    }
    return true;
}

void http_handle_mcp(struct http_request *request)
{
    if (http_mcp_check_named(request))
        visit(request, mcp_post);
}

void http_handle_mcp_listen(struct http_request *request)
{
    if (request->method == HTTP_HEAD)
        http_reply_text(request, 405, NULL, KG_STR_NULL); /* nobody would ever see its end */
    else if (http_mcp_check_named(request))
        visit(request, mcp_listen);
}

void http_handle_mcp_leave(struct http_request *request)
{
    if (http_mcp_check_named(request))
        visit(request, mcp_leave);
}
