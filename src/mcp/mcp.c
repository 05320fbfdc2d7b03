/* The gateway's life: it is there as long as the daemon, and stops before the plugins do. */
#include "mcp/internal.h"

#include <stdlib.h>

struct mcp *mcp_new(struct host *host, struct kg_err *err)
{
    struct mcp *mcp = kg_alloc(sizeof(*mcp));
    mcp->host = host;
    mcp->by_id = kg_map_new();
    mcp->prompts = kg_map_new();
    mcp_news_open(mcp);
    if (mcp_profiles_open(mcp, err) == 0)
        return mcp;
    mcp_free(mcp);
    return NULL;
}

/* A client that listens by a request of its own is told the end of it, as the protocol has it. */
static void end_subscription(struct mcp_exchange *exchange)
{
    kg_auto(kg_buf_free) struct kg_buf result = {0}, message = {0};
    struct kg_json_writer json = kg_json_writer(&result);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "resultType", "complete");
    kg_json_named_begin(&json, "_meta", '{');
    kg_json_named_raw(&json, "io.modelcontextprotocol/subscriptionId", exchange->id);
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    mcp_put_result(&message, exchange->id, kg_buf_view(&result));
    mcp_stream_put(exchange->stream, kg_buf_view(&message));
    mcp_stream_end(exchange->stream);
}

/* Calls are ended by the host, which stops too. */
void mcp_stop(struct mcp *mcp)
{
    mcp->is_stopping = true;
    for (struct mcp_exchange *at = mcp->exchanges, *next; at != NULL; at = next) {
        next = at->next;
        if (at->is_subscription)
            end_subscription(at);
        else if (at->call == NULL && at->stream != NULL)
            mcp_exchange_end(at);
    }
}

void mcp_free(struct mcp *mcp)
{
    if (mcp == NULL)
        return;
    while (mcp->clients != NULL)
        mcp_client_end(mcp->clients);
    while (mcp->calls != NULL)
        mcp_call_cancel(mcp->calls);
    mcp_activity_close(mcp);
    for (size_t i = 0; i < MCP_VISITORS_MAX; i++)
        mcp_visitor_free(&mcp->visitors[i]);
    mcp_news_close(mcp);
    mcp_profiles_close(mcp);
    mcp_offers_close(mcp);
    mcp_search_close(mcp);
    kg_map_free(mcp->by_id);
    free(mcp);
}
