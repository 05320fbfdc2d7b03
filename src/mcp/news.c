/*
 * Tells clients that listen when their tools are others. What may change a list only has the lists
 * of those who listen looked at, a moment later and all at once: a client hears of a change if what
 * it would be given differs from what it was told last, and of nothing else.
 */
#include "mcp/internal.h"

#define LOOK_MS 100 /* changes come in bursts */

static void put_notification(struct kg_buf *out, const char *method, struct kg_str subscription)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "jsonrpc", "2.0");
    kg_json_named_text(&json, "method", method);
    if (subscription.length > 0) {
        kg_json_named_begin(&json, "params", '{');
        kg_json_named_begin(&json, "_meta", '{');
        kg_json_named_raw(&json, "io.modelcontextprotocol/subscriptionId", subscription);
        kg_json_end(&json, '}');
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, '}');
}

static void news_tell(struct mcp_stream *stream, struct kg_str subscription)
{
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    put_notification(&message, "notifications/tools/list_changed", subscription);
    mcp_stream_put(stream, kg_buf_view(&message));
}

static void look_at_client(struct mcp_client *client)
{
    struct mcp_stream *stream = mcp_client_stream(client);
    const struct mcp_scope scope = mcp_client_scope(client);
    if (stream == NULL || client->tools_told == 0)
        return;
    uint64_t digest = mcp_tools_digest(&scope);
    if (digest == client->tools_told)
        return;
    client->tools_told = digest;
    news_tell(stream, KG_STR_NULL);
}

static void look_at_subscription(struct mcp_exchange *exchange)
{
    uint64_t digest = mcp_tools_digest(&exchange->scope);
    if (digest == exchange->told)
        return;
    exchange->told = digest;
    news_tell(exchange->stream, exchange->id);
}

static void news_on_look(struct loop_timer *timer)
{
    struct mcp *mcp = KG_CONTAINER(timer, struct mcp, look);
    for (struct mcp_client *at = mcp->clients; at != NULL; at = at->next)
        look_at_client(at);
    for (struct mcp_exchange *at = mcp->exchanges; at != NULL; at = at->next)
        if (at->wants_tools)
            look_at_subscription(at);
}

static void news_look_soon(struct mcp *mcp)
{
    if (mcp->stream_count > 0 && !loop_timer_running(&mcp->look) && !mcp->is_stopping)
        loop_timer_start(host_loop(mcp->host), &mcp->look, LOOK_MS, news_on_look);
}

/* -- what servers say -------------------------------------------------------------------------- */

/* The plugin whose process has that name: what is before the @. */
static struct kg_str news_plugin_of(struct kg_str process)
{
    return kg_str_cut(&process, '@');
}

/* Whether the process of that name is the one that serves the client. */
static bool news_serves(const struct mcp_scope *scope, struct kg_str process)
{
    struct kg_str plugin = news_plugin_of(process);
    kg_auto(kg_free) char *name = mcp_server_name(scope, plugin);
    return (scope->plugin.length == 0 || kg_str_equal(scope->plugin, plugin)) &&
           kg_str_is(process, name) && mcp_may_use(scope, plugin);
}

/* Lists of resources or of prompts of a server are others. */
static void news_pass_on(struct mcp *mcp, const struct host_event *event)
{
    kg_auto(kg_free) char *method = kg_str_dup(event->name);
    bool of_prompts = strstr(method, "prompts/") != NULL;
    kg_auto(kg_buf_free) struct kg_buf plain = {0};
    put_notification(&plain, method, KG_STR_NULL);
    for (struct mcp_client *at = mcp->clients; at != NULL; at = at->next) {
        const struct mcp_scope scope = mcp_client_scope(at);
        struct mcp_stream *stream = mcp_client_stream(at);
        if (stream != NULL && news_serves(&scope, event->plugin))
            mcp_stream_put(stream, kg_buf_view(&plain));
    }
    for (struct mcp_exchange *at = mcp->exchanges; at != NULL; at = at->next) {
        kg_auto(kg_buf_free) struct kg_buf tagged = {0};
        if (!(of_prompts ? at->wants_prompts : at->wants_resources) ||
            !news_serves(&at->scope, event->plugin))
            continue;
        put_notification(&tagged, method, at->id);
        mcp_stream_put(at->stream, kg_buf_view(&tagged));
    }
}

/* Whether the call is under way in that process. */
static bool is_in(const struct mcp_call *call, struct kg_str process)
{
    const struct host_asker *asker = call->asker;
    struct kg_str whom = process, plugin = kg_str_cut(&whom, '@');
    return call->plugin != NULL && kg_str_is(plugin, call->plugin) &&
           (whom.length == 0 || (asker->project_id != NULL && kg_str_is(whom, asker->project_id)) ||
            (asker->session_id != NULL && kg_str_is(whom, asker->session_id)));
}

/* It is the one's whose calls the server works at; with several nobody can tell whose it is. */
static void pass_on_log(struct mcp *mcp, const struct host_event *event)
{
    struct mcp_call *found = NULL;
    for (struct mcp_call *at = mcp->calls; at != NULL; at = at->next) {
        if (!is_in(at, event->plugin))
            continue;
        if (found != NULL && (found->client != at->client || at->client == NULL))
            return;
        found = at;
    }
    if (found != NULL)
        mcp_call_log(found, event->name, event->params);
}

/* Calls come by the thousand, and change no list. */
static void news_on_event(struct host_listener *listener, struct host_event *event)
{
    struct mcp *mcp = KG_CONTAINER(listener, struct mcp, listener);
    if (event->type == HOST_EVENT_AUDIT && !kg_str_starts(event->name, "plugin.method."))
        news_look_soon(mcp);
    else if (event->type == HOST_EVENT_NOTIFICATION && kg_str_ends(event->name, "/list_changed"))
        news_pass_on(mcp, event);
    else if (event->type == HOST_EVENT_LOG)
        pass_on_log(mcp, event);
}

static void on_project(struct projects_listener *listener, const char *id,
                       struct projects_entry *project_or_null)
{
    (void)id, (void)project_or_null;
    news_look_soon(KG_CONTAINER(listener, struct mcp, project_listener));
}

void mcp_news_open(struct mcp *mcp)
{
    mcp->listener.on_event = news_on_event;
    mcp->project_listener.on_change = on_project;
    host_events_listen(host_events(mcp->host), &mcp->listener);
    projects_listen(mcp->host, &mcp->project_listener);
}

void mcp_news_close(struct mcp *mcp)
{
    loop_timer_stop(host_loop(mcp->host), &mcp->look);
    host_events_unlisten(host_events(mcp->host), &mcp->listener);
    projects_unlisten(mcp->host, &mcp->project_listener);
}
