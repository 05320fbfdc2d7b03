/*
 * Who hears that a resource changed: a session of a legacy client, or the stream of a modern one.
 * The host counts them, so that a server is asked once; here each is remembered with its client,
 * and gone with it.
 */
#include "mcp/internal.h"

#include <errno.h>
#include <stdlib.h>

#define SUBSCRIPTIONS_MAX 256 /* of one client */

struct mcp_subscription {
    struct host_subscriber subscriber;
    struct mcp_subscription *next;
    struct mcp_subscription **list; /* that it is in */
    struct mcp_client *client;      /* one of the two */
    struct mcp_exchange *exchange;
    char *uri; /* owned; as the client knows it */
};

static void subscription_free(struct mcp_subscription *subscription)
{
    host_unsubscribe(&subscription->subscriber);
    KG_UNLINK(*subscription->list, subscription);
    free(subscription->uri);
    free(subscription);
}

void mcp_subscriptions_free(struct mcp_subscription **list)
{
    while (*list != NULL)
        subscription_free(*list);
}

/* One below it may have changed: that is told by the URI that was asked for, with the rest. */
static void on_updated(struct host_subscriber *subscriber, struct kg_str uri)
{
    struct mcp_subscription *own = KG_CONTAINER(subscriber, struct mcp_subscription, subscriber);
    struct mcp_stream *stream =
        own->client != NULL ? mcp_client_stream(own->client) : own->exchange->stream;
    kg_auto(kg_buf_free) struct kg_buf message = {0}, full = {0};
    if (stream == NULL)
        return;
    kg_buf_text(&full, own->uri);
    kg_buf_str(&full, kg_str_from(uri, strlen(subscriber->uri)));
    struct kg_json_writer json = kg_json_writer(&message);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "jsonrpc", "2.0");
    kg_json_named_text(&json, "method", "notifications/resources/updated");
    kg_json_named_begin(&json, "params", '{');
    if (own->exchange != NULL) {
        kg_json_named_begin(&json, "_meta", '{');
        kg_json_named_raw(&json, "io.modelcontextprotocol/subscriptionId", own->exchange->id);
        kg_json_end(&json, '}');
    }
    kg_json_named_str(&json, "uri", kg_buf_view(&full));
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    mcp_stream_put(stream, kg_buf_view(&message));
}

static void subscriptions_on_ended(struct host_subscriber *subscriber)
{
    subscription_free(KG_CONTAINER(subscriber, struct mcp_subscription, subscriber));
}

static struct mcp_subscription *subscriptions_find(struct mcp_subscription *list, struct kg_str uri)
{
    while (list != NULL && !kg_str_is(uri, list->uri))
        list = list->next;
    return list;
}

static size_t subscriptions_count(const struct mcp_subscription *list)
{
    size_t count = 0;
    for (; list != NULL; list = list->next)
        count++;
    return count;
}

int mcp_subscribe(struct mcp_exchange *exchange, bool for_client, struct kg_str uri,
                  struct kg_err *err)
{
    struct mcp_scope *scope = &exchange->scope;
    struct mcp_subscription **list =
        for_client ? &exchange->client->subscriptions : &exchange->subscriptions;
    struct kg_str plugin = scope->plugin, inner = uri;
    if (subscriptions_find(*list, uri) != NULL)
        return 0;
    if (subscriptions_count(*list) >= SUBSCRIPTIONS_MAX)
        return kg_fail(err, KG_E_BUSY, "a client has at most %d subscriptions", SUBSCRIPTIONS_MAX);
    if ((plugin.length == 0 && !mcp_resource_split(uri, &plugin, &inner)) ||
        !mcp_may_use(scope, plugin))
        return kg_fail(err, KG_E_INVALID_PARAMS, "there is no resource \"%.*s\"",
                       KG_STR_CUT(uri, KG_CUT_PATH));
    kg_auto(kg_free) char *server = mcp_server_name(scope, plugin);
    struct mcp_subscription *made = kg_alloc(sizeof(*made));
    made->subscriber.on_updated = on_updated;
    made->subscriber.on_ended = subscriptions_on_ended;
    if (host_subscribe(scope->mcp->host, kg_str(server), inner, &made->subscriber, err) < 0) {
        free(made);
        return -EINVAL;
    }
    made->client = for_client ? exchange->client : NULL;
    made->exchange = for_client ? NULL : exchange;
    made->uri = kg_str_dup(uri);
    made->list = list;
    made->next = *list;
    *list = made;
    return 0;
}

void mcp_unsubscribe(struct mcp_client *client, struct kg_str uri)
{
    struct mcp_subscription *found = subscriptions_find(client->subscriptions, uri);
    if (found != NULL)
        subscription_free(found);
}
