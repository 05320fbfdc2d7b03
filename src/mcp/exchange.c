/*
 * One request of a client, from the moment that it comes in until it is answered: at once, when its
 * call ends, or by a stream. Whoever carries it is told of the answer once.
 */
#include "mcp/internal.h"

#include <stdlib.h>

#define KEEP_ALIVE_MS 15000 /* between two comments on a stream */

struct mcp_exchange *mcp_exchange_new(struct mcp *mcp, const struct mcp_visit *visit)
{
    struct mcp_exchange *exchange = kg_alloc(sizeof(*exchange));
    exchange->ops = visit->ops;
    exchange->carrier = visit->carrier;
    exchange->owner = kg_strdup(visit->owner);
    exchange->asker = host_asker_ref(visit->asker);
    exchange->era = MCP_ERA_LEGACY;
    exchange->level = -1;
    exchange->is_near = visit->is_near;
    exchange->scope = (struct mcp_scope){
        .mcp = mcp,
        .plugin = visit->plugin,
        .project = visit->project,
        .profile = visit->profile,
        .confines = visit->confines,
        .reads_only = visit->reads_only,
        .searches = visit->searches,
    };
    return exchange;
}

void mcp_exchange_keep(struct mcp_exchange *exchange)
{
    struct mcp *mcp = exchange->scope.mcp;
    exchange->is_kept = true;
    exchange->next = mcp->exchanges;
    if (exchange->next != NULL)
        exchange->next->previous = exchange;
    mcp->exchanges = exchange;
    exchange->ops->keep(exchange->carrier, exchange);
}

static void unlink_kept(struct mcp_exchange *exchange)
{
    if (exchange->previous != NULL)
        exchange->previous->next = exchange->next;
    else
        exchange->scope.mcp->exchanges = exchange->next;
    if (exchange->next != NULL)
        exchange->next->previous = exchange->previous;
}

/* Its call goes on without it. */
static void mcp_exchange_free(struct mcp_exchange *exchange)
{
    struct mcp_client *client = exchange->client;
    if (exchange->is_kept)
        unlink_kept(exchange);
    loop_timer_stop(host_loop(exchange->scope.mcp->host), &exchange->timer);
    mcp_subscriptions_free(&exchange->subscriptions);
    if (exchange->stream != NULL)
        mcp_stream_let_go(exchange->stream);
    if (exchange->call != NULL)
        exchange->call->exchange = NULL;
    if (client != NULL)
        mcp_client_use(client);
    host_asker_unref(exchange->asker);
    free(exchange->owner);
    free(exchange->client_name);
    free(exchange);
}

/* -- answers ----------------------------------------------------------------------------------- */

void mcp_reply(struct mcp_exchange *exchange, int status, struct kg_str json)
{
    exchange->ops->reply(exchange->carrier, status, json);
    mcp_exchange_free(exchange);
}

void mcp_exchange_end(struct mcp_exchange *exchange)
{
    exchange->ops->end(exchange->carrier);
    mcp_exchange_free(exchange);
}

static void mcp_exchange_put_head(struct kg_buf *out, struct kg_str id, const char *key)
{
    kg_buf_text(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    kg_buf_str(out, id.length > 0 ? id : KG_STR("null"));
    kg_buf_printf(out, ",\"%s\":", key);
}

void mcp_put_result(struct kg_buf *out, struct kg_str id, struct kg_str result)
{
    kg_buf_reserve(out, result.length + id.length + 64);
    mcp_exchange_put_head(out, id, "result");
    kg_buf_str(out, result);
    kg_buf_char(out, '}');
}

void mcp_put_error(struct kg_buf *out, struct kg_str id, int code, const char *message,
                   struct kg_str data)
{
    struct kg_json_writer json = kg_json_writer(out);
    mcp_exchange_put_head(out, id, "error");
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "code", code);
    kg_json_named_text(&json, "message", message);
    if (data.length > 0)
        kg_json_named_raw(&json, "data", data);
    kg_json_end(&json, '}');
    kg_buf_char(out, '}');
}

void mcp_reply_result(struct mcp_exchange *exchange, struct kg_str result)
{
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    mcp_put_result(&message, exchange->id, result);
    mcp_reply(exchange, 200, kg_buf_view(&message));
}

void mcp_reply_error_data(struct mcp_exchange *exchange, int status, int code, const char *message,
                          struct kg_str data)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    mcp_put_error(&text, exchange->id, code, message, data);
    mcp_reply(exchange, status, kg_buf_view(&text));
}

void mcp_reply_error(struct mcp_exchange *exchange, int status, int code, const char *message)
{
    mcp_reply_error_data(exchange, status, code, message, KG_STR_NULL);
}

/* -- who answers ------------------------------------------------------------------------------- */

/* Of one plugin's door that plugin, as its manifest has it. */
void mcp_put_server(struct kg_json_writer *json, const struct mcp_scope *scope, const char *key)
{
    struct host_named named;
    const struct manifest *manifest = NULL;
    if (scope->plugin.length > 0 && host_find(scope->mcp->host, scope->plugin, &named, NULL) == 0)
        manifest = host_status(named).manifest;
    kg_json_named_begin(json, key, '{');
    kg_json_named_text(json, "name", manifest ? manifest->name : "kaged");
    kg_json_named_text(json, "version", manifest ? manifest->version : KAGED_VERSION);
    kg_json_end(json, '}');
}

void mcp_put_result_head(struct kg_json_writer *json, const struct mcp_exchange *exchange)
{
    if (exchange->era != MCP_ERA_MODERN)
        return;
    kg_json_named_text(json, "resultType", "complete");
    kg_json_named_begin(json, "_meta", '{');
    mcp_put_server(json, &exchange->scope, "io.modelcontextprotocol/serverInfo");
    kg_json_end(json, '}');
}

/* -- what the carrier tells -------------------------------------------------------------------- */

/* To a legacy client a broken connection is no reason to stop; a modern one says so by it. */
void mcp_gone(struct mcp_exchange *exchange)
{
    struct mcp_call *call = exchange->call;
    exchange->ops->drop(exchange->carrier);
    if (call != NULL && call->era == MCP_ERA_MODERN)
        mcp_call_cancel(call);
    mcp_exchange_free(exchange);
}

static void on_keep_alive(struct loop_timer *timer)
{
    struct mcp_exchange *exchange = KG_CONTAINER(timer, struct mcp_exchange, timer);
    mcp_stream_comment(exchange->stream);
    mcp_keep_alive(exchange);
}

void mcp_keep_alive(struct mcp_exchange *exchange)
{
    loop_timer_start(host_loop(exchange->scope.mcp->host), &exchange->timer, KEEP_ALIVE_MS,
                     on_keep_alive);
}

void mcp_room(struct mcp_exchange *exchange)
{
    exchange->is_full = false;
    if (exchange->stream != NULL)
        mcp_stream_flush(exchange->stream);
}
