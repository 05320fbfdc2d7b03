/*
 * Sessions of legacy clients. A session belongs to whoever began it and to the door at which it was
 * begun: to everybody else it is not there. It ends when its client says so, or was not heard of
 * for long; all that is under way for it ends then.
 */
#include "mcp/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define KEPT_STREAMS_MAX 8 /* that have ended, of one session */
#define SECRET_BYTES     16
#define TAG_BYTES        4

const char *const mcp_levels[] = {"debug",    "info",  "notice",    "warning", "error",
                                  "critical", "alert", "emergency", NULL};

void mcp_make_chance(char *text, size_t bytes)
{
    unsigned char chance[SECRET_BYTES];
    if (getrandom(chance, bytes, 0) != (ssize_t)bytes)
        abort(); /* as for every id: without chance there is nothing to begin with */
    for (size_t i = 0; i < bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", chance[i]);
}

/* -- finding ----------------------------------------------------------------------------------- */

static bool is_his(const struct mcp_client *client, const struct mcp_exchange *exchange)
{
    const struct mcp_scope *scope = &exchange->scope;
    return strcmp(client->owner, exchange->owner) == 0 &&
           kg_str_is(scope->plugin, client->plugin) && kg_str_is(scope->project, client->project) &&
           kg_str_is(scope->profile, client->profile) &&
           kg_str_is(scope->confines, client->confines) &&
           scope->reads_only == client->reads_only && scope->searches == client->searches;
}

struct mcp_scope mcp_client_scope(const struct mcp_client *client)
{
    return (struct mcp_scope){
        .mcp = client->mcp,
        .plugin = kg_str(client->plugin),
        .project = kg_str(client->project),
        .profile = kg_str(client->profile),
        .confines = kg_str(client->confines),
        .reads_only = client->reads_only,
        .searches = client->searches,
    };
}

struct mcp_client *mcp_client_of(struct mcp_exchange *exchange, struct kg_str session)
{
    if (session.length == 0) {
        mcp_reply_error(exchange, 400, MCP_INVALID_REQUEST,
                        "the header Mcp-Session-Id is missing: begin with initialize");
        return NULL;
    }
    struct mcp_client *client = kg_map_get(exchange->scope.mcp->by_id, session);
    if (client == NULL || !is_his(client, exchange)) {
        mcp_reply_error(exchange, 404, MCP_NO_SESSION,
                        "there is no such session, or it has ended: begin with initialize");
        return NULL;
    }
    exchange->client = client;
    exchange->scope = mcp_client_scope(client);
    mcp_client_use(client);
    return client;
}

/* -- its life ---------------------------------------------------------------------------------- */

static bool mcp_client_is_busy(const struct mcp_client *client)
{
    const struct mcp_stream *stream = client->streams;
    while (stream != NULL && stream->exchange == NULL)
        stream = stream->next;
    return stream != NULL || client->call_count > 0;
}

static void mcp_client_on_idle(struct loop_timer *timer)
{
    struct mcp_client *client = KG_CONTAINER(timer, struct mcp_client, idle);
    if (mcp_client_is_busy(client))
        mcp_client_use(client);
    else
        mcp_client_end(client);
}

void mcp_client_use(struct mcp_client *client)
{
    struct host *host = client->mcp->host;
    client->used_ms = loop_now_ms(host_loop(host));
    loop_timer_start(host_loop(host), &client->idle,
                     (uint64_t)host_config(host)->limits_mcp_idle_ms, mcp_client_on_idle);
}

/* Room for one more: the one that nobody used for longest goes, unless all are busy. */
static int mcp_client_make_room(struct mcp *mcp, struct kg_err *err)
{
    int64_t most = host_config(mcp->host)->limits_mcp_sessions;
    struct mcp_client *oldest = NULL;
    if (kg_map_count(mcp->by_id) < (size_t)most)
        return 0;
    for (struct mcp_client *at = mcp->clients; at != NULL; at = at->next)
        if (!mcp_client_is_busy(at) && (oldest == NULL || at->used_ms <= oldest->used_ms))
            oldest = at;
    if (oldest == NULL)
        return kg_fail(err, KG_E_BUSY, "there are already %lld sessions, all in use",
                       (long long)most);
    mcp_client_end(oldest);
    return 0;
}

static void link_client(struct mcp_client *client)
{
    struct mcp *mcp = client->mcp;
    client->next = mcp->clients;
    if (client->next != NULL)
        client->next->previous = client;
    mcp->clients = client;
    kg_map_set(mcp->by_id, kg_str(client->id), client);
}

struct mcp_client *mcp_client_new(struct mcp_exchange *exchange, struct kg_err *err)
{
    struct mcp *mcp = exchange->scope.mcp;
    if (mcp_client_make_room(mcp, err) < 0)
        return NULL;
    struct mcp_client *client = kg_alloc(sizeof(*client));
    client->mcp = mcp;
    mcp_make_chance(client->id, SECRET_BYTES);
    mcp_make_chance(client->tag, TAG_BYTES);
    client->owner = kg_strdup(exchange->owner);
    client->plugin = kg_str_dup(exchange->scope.plugin);
    client->project = kg_str_dup(exchange->scope.project);
    client->profile = kg_str_dup(exchange->scope.profile);
    client->confines = kg_str_dup(exchange->scope.confines);
    client->reads_only = exchange->scope.reads_only;
    client->searches = exchange->scope.searches;
    client->level = 1;
    link_client(client);
    exchange->client = client;
    mcp_client_use(client);
    return client;
}

static void unlink_client(struct mcp_client *client)
{
    if (client->previous != NULL)
        client->previous->next = client->next;
    else
        client->mcp->clients = client->next;
    if (client->next != NULL)
        client->next->previous = client->previous;
    kg_map_remove(client->mcp->by_id, kg_str(client->id));
}

/* Whoever still waits on one of its requests is told that nothing comes. */
static void end_exchanges(struct mcp_client *client)
{
    for (struct mcp_exchange *at = client->mcp->exchanges, *next; at != NULL; at = next) {
        next = at->next;
        if (at->client != client)
            continue;
        at->client = NULL;
        if (at->stream != NULL)
            mcp_exchange_end(at);
        else
            mcp_reply_error(at, 404, MCP_NO_SESSION, "the session has ended");
    }
}

void mcp_client_end(struct mcp_client *client)
{
    for (struct mcp_call *at = client->mcp->calls, *next; at != NULL; at = next) {
        next = at->next;
        if (at->client == client)
            mcp_call_cancel(at);
    }
    end_exchanges(client);
    mcp_subscriptions_free(&client->subscriptions);
    while (client->streams != NULL)
        mcp_stream_free(client->streams);
    loop_timer_stop(host_loop(client->mcp->host), &client->idle);
    unlink_client(client);
    free(client->owner);
    free(client->plugin);
    free(client->project);
    free(client->profile);
    free(client->confines);
    free(client->name);
    free(client->version);
    free(client->last.tool);
    free(client);
}

/* -- streams ----------------------------------------------------------------------------------- */

struct mcp_stream *mcp_client_stream(const struct mcp_client *client)
{
    struct mcp_stream *stream = client->streams;
    while (stream != NULL && stream->number != 0)
        stream = stream->next;
    return stream;
}

/* The newest come first. */
void mcp_client_tidy(struct mcp_client *client)
{
    size_t kept = 0, bytes = 0;
    size_t most = (size_t)host_config(client->mcp->host)->limits_mcp_queue_bytes;
    for (struct mcp_stream *at = client->streams, *next; at != NULL; at = next) {
        next = at->next;
        if (!at->has_ended || at->exchange != NULL)
            continue;
        bytes += at->bytes;
        if (kept == KEPT_STREAMS_MAX || bytes > most)
            mcp_stream_free(at);
        else
            kept++;
    }
}
