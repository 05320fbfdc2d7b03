/*
 * Who called what: each call of a tool, with the client, its outcome, how long it took and how much
 * went in and out; with mcp.activity = "full" also its arguments and the beginning of its result,
 * secrets hidden. It is kept in kaged.db, in bunches and off the loop, and bounded in size and age.
 * A keeper that falls behind costs lines of this, which are counted, and no call.
 */
#include "mcp/internal.h"

#include <stdlib.h>

#define FLUSH_MS        1000
#define BUNCH_BYTES     ((size_t)16 << 10) /* is written at once: more would hold a core for long */
#define BUNCH_MAX_BYTES ((size_t)8 << 20)  /* gather while one is written */
#define SHOWN_MAX_BYTES 65536              /* of a result */
#define TIDY_MS         60000
#define DAY_MS          ((int64_t)24 * 3600 * 1000)

static bool activity_is_off(const struct mcp *mcp)
{
    return strcmp(host_config(mcp->host)->mcp_activity, "off") == 0;
}

static bool activity_is_full(const struct mcp *mcp)
{
    return strcmp(host_config(mcp->host)->mcp_activity, "full") == 0;
}

/* -- keeping ----------------------------------------------------------------------------------- */

static void activity_flush(struct mcp *mcp);

static void activity_on_kept(void *data, const struct kg_err *err_or_null)
{
    struct mcp *mcp = data;
    mcp->activity.is_writing = false;
    if (err_or_null != NULL)
        kg_log(KG_WARN, "activity of MCP clients: %s", err_or_null->message);
    if (mcp->activity.lost > 0)
        kg_log(KG_WARN, "activity of MCP clients: %llu calls are not in it: too much at once",
               (unsigned long long)mcp->activity.lost);
    mcp->activity.lost = 0;
    if (mcp->activity.bunch.length >= BUNCH_BYTES)
        activity_flush(mcp);
}

/* By size not with each bunch: all that is kept is looked at. */
static bool activity_is_tidied_now(struct mcp *mcp)
{
    uint64_t now_ms = loop_now_ms(host_loop(mcp->host));
    if (now_ms < mcp->activity.tidied_ms + TIDY_MS && mcp->activity.tidied_ms != 0)
        return false;
    mcp->activity.tidied_ms = now_ms;
    return true;
}

static void activity_flush(struct mcp *mcp)
{
    struct mcp_activity *activity = &mcp->activity;
    const struct config *config = host_config(mcp->host);
    loop_timer_stop(host_loop(mcp->host), &activity->timer);
    if (activity->bunch.length == 0)
        return;
    kg_buf_char(&activity->bunch, ']');
    const struct state_mcp_calls calls = {
        .json = kg_buf_terminate(&activity->bunch),
        .since_ms = kg_wall_ms() - config->mcp_activity_days * DAY_MS,
        .bytes_max = activity_is_tidied_now(mcp) ? config->mcp_activity_mb << 20 : 0,
    };
    activity->is_writing = true;
    state_keep_mcp_calls(host_keeper(mcp->host), &calls, activity_on_kept, mcp);
    activity->bunch.length = 0;
    if (activity->bunch.capacity > 4 * BUNCH_BYTES)
        kg_buf_free(&activity->bunch);
}

static void activity_on_due(struct loop_timer *timer)
{
    struct mcp *mcp = KG_CONTAINER(timer, struct mcp, activity.timer);
    if (mcp->activity.is_writing)
        loop_timer_start(host_loop(mcp->host), timer, FLUSH_MS, activity_on_due);
    else
        activity_flush(mcp);
}

void mcp_activity_close(struct mcp *mcp)
{
    if (mcp->activity.bunch.length > 0)
        activity_flush(mcp);
    state_keeper_drain(host_keeper(mcp->host)); /* the listener is freed next */
    kg_buf_free(&mcp->activity.bunch);
}

/* -- one call ---------------------------------------------------------------------------------- */

/* As it may be shown; of a long one the beginning, as text. */
static void put_payload(struct kg_json_writer *json, const char *key, const struct mcp_call *call,
                        bool is_params, struct kg_str payload)
{
    struct host_named named;
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    kg_auto(kg_free) char *method = kg_str_dup(call->method);
    if (payload.length == 0 || host_find(call->mcp->host, kg_str(call->plugin), &named, NULL) < 0 ||
        named.process == NULL)
        return;
    host_trace_put_payload(named.process, method, is_params, payload, &shown);
    struct kg_str text = kg_buf_view(&shown);
    if (text.length > SHOWN_MAX_BYTES)
        text.length = SHOWN_MAX_BYTES;
    text.length = kg_utf8_valid(text);
    kg_json_named_str(json, key, text);
}

static void activity_put_text(struct kg_json_writer *json, const char *key,
                              const char *text_or_null)
{
    if (text_or_null != NULL && text_or_null[0] != '\0')
        kg_json_named_text(json, key, text_or_null);
}

void mcp_activity_add(const struct mcp_call *call, const char *outcome, struct kg_str result)
{
    struct mcp *mcp = call->mcp;
    struct kg_buf *bunch = &mcp->activity.bunch;
    struct kg_json_writer json = {.buf = bunch, .comma = bunch->length > 0};
    struct kg_str tool = kg_str_from(call->method, strlen(call->plugin) + 1);
    if (activity_is_off(mcp))
        return;
    if (bunch->length > BUNCH_MAX_BYTES) {
        mcp->activity.lost++;
        return;
    }
    if (bunch->length == 0)
        kg_buf_char(bunch, '[');
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "at_ms", kg_wall_ms());
    kg_json_named_text(&json, "client", call->client_name);
    kg_json_named_text(&json, "owner", call->owner);
    activity_put_text(&json, "operator", call->asker->operator_id);
    activity_put_text(&json, "project", call->asker->project_id);
    kg_json_named_text(&json, "plugin", call->plugin);
    kg_json_named_str(&json, "tool", tool);
    kg_json_named_int(&json, "bytes_in", (int64_t)call->arguments.length);
    kg_json_named_int(&json, "bytes_out", (int64_t)result.length);
    kg_json_named_int(&json, "duration_ms",
                      (int64_t)(loop_now_ms(host_loop(mcp->host)) - call->began_ms));
    kg_json_named_text(&json, "outcome", outcome);
    if (activity_is_full(mcp)) {
        put_payload(&json, "arguments", call, true, call->arguments);
        put_payload(&json, "result", call, false, result);
    }
    kg_json_end(&json, '}');
    if (bunch->length >= BUNCH_BYTES && !mcp->activity.is_writing)
        activity_flush(mcp);
    else if (!loop_timer_running(&mcp->activity.timer))
        loop_timer_start(host_loop(mcp->host), &mcp->activity.timer, FLUSH_MS, activity_on_due);
}

/* -- reading, off the loop --------------------------------------------------------------------- */

struct reading {
    struct loop_job job;
    struct mcp *mcp;
    char *place, *client, *tool; /* owned */
    int64_t since_ms, before, limit;
    struct kg_buf json;
    int result;
    struct kg_err err;
    mcp_log_fn *on_done;
    void *data;
};

static void activity_put_named(struct kg_json_writer *json, const char *key,
                               const char *text_or_null)
{
    kg_json_named_text(json, key, text_or_null);
}

static void activity_put_row(void *data, const struct state_mcp_call *row)
{
    struct kg_json_writer *json = data;
    kg_json_begin(json, '{');
    kg_json_named_int(json, "id", row->id);
    kg_json_named_time(json, "at", row->at_ms);
    activity_put_named(json, "client", row->client);
    activity_put_named(json, "owner", row->owner);
    activity_put_named(json, "operator", row->operator_id);
    activity_put_named(json, "project", row->project);
    activity_put_named(json, "plugin", row->plugin);
    activity_put_named(json, "tool", row->tool);
    kg_json_named_int(json, "bytes_in", row->bytes_in);
    kg_json_named_int(json, "bytes_out", row->bytes_out);
    kg_json_named_int(json, "duration_ms", row->duration_ms);
    activity_put_named(json, "outcome", row->outcome);
    activity_put_named(json, "arguments", row->arguments);
    activity_put_named(json, "result", row->result);
    kg_json_end(json, '}');
}

static void run_reading(struct loop_job *job)
{
    struct reading *reading = KG_CONTAINER(job, struct reading, job);
    struct kg_json_writer json = kg_json_writer(&reading->json);
    struct state *state = state_open_readonly(reading->place, &reading->err);
    const struct state_mcp_query query = {.client = reading->client,
                                          .tool = reading->tool,
                                          .since_ms = reading->since_ms,
                                          .before = reading->before,
                                          .limit = reading->limit};
    reading->result = -1;
    if (state == NULL)
        return;
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "calls", '[');
    reading->result = state_mcp_calls(state, &query, activity_put_row, &json, &reading->err);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    state_close(state);
}

static void activity_on_read(struct loop_job *job)
{
    struct reading *reading = KG_CONTAINER(job, struct reading, job);
    reading->on_done(reading->data, kg_buf_view(&reading->json),
                     reading->result < 0 ? &reading->err : NULL);
    host_store_job_done(reading->mcp->host);
    kg_buf_free(&reading->json);
    free(reading->place);
    free(reading->client);
    free(reading->tool);
    free(reading);
}

/* What is not kept yet comes first. */
static void activity_on_flushed(void *data, const struct kg_err *err_or_null)
{
    struct reading *reading = data;
    (void)err_or_null;
    reading->job.run = run_reading;
    reading->job.done = activity_on_read;
    host_store_job(reading->mcp->host, &reading->job);
}

void mcp_log(struct mcp *mcp, const struct mcp_log_query *query, mcp_log_fn *on_done, void *data)
{
    struct reading *reading = kg_alloc(sizeof(*reading));
    reading->mcp = mcp;
    reading->place = kg_strdup(host_paths(mcp->host)->state_db);
    reading->client = query->client.length > 0 ? kg_str_dup(query->client) : NULL;
    reading->tool = query->tool.length > 0 ? kg_str_dup(query->tool) : NULL;
    reading->since_ms = query->since_ms;
    reading->before = query->before;
    reading->limit = query->limit;
    reading->on_done = on_done;
    reading->data = data;
    activity_flush(mcp);
    state_when_kept(host_keeper(mcp->host), activity_on_flushed, reading);
}

void mcp_log_forget(struct mcp *mcp, state_kept_fn *on_done, void *data)
{
    mcp->activity.bunch.length = 0;
    state_keep_mcp_calls(host_keeper(mcp->host),
                         &(struct state_mcp_calls){.json = "[]", .since_ms = INT64_MAX}, on_done,
                         data);
}

/* -- who is connected -------------------------------------------------------------------------- */

static void activity_put_last(struct kg_json_writer *json, const struct mcp_last *last)
{
    kg_json_named_int(json, "calls", (int64_t)last->calls);
    kg_json_named_text(json, "last_tool", last->tool);
    kg_json_named_text(json, "last_outcome", last->outcome);
    kg_json_named_time(json, "last_at", last->at_ms);
    kg_json_named_int(json, "characters", last->characters);
    kg_json_named_int(json, "saved", last->saved);
}

void mcp_last_note(struct mcp_last *last, const struct mcp_call *call, const char *outcome)
{
    last->calls++;
    free(last->tool);
    last->tool = kg_str_dup(call->method);
    last->outcome = outcome;
    last->at_ms = kg_wall_ms();
}

static void activity_put_client(struct kg_json_writer *json, const struct mcp_client *client)
{
    kg_auto(kg_free) char *name = kg_format("%s %s", client->name, client->version);
    kg_json_begin(json, '{');
    kg_json_named_text(json, "client", name);
    kg_json_named_text(json, "era", "legacy");
    kg_json_named_text(json, "revision", client->revision);
    kg_json_named_text(json, "owner", client->owner);
    kg_json_named_text(json, "plugin", client->plugin[0] != '\0' ? client->plugin : NULL);
    kg_json_named_text(json, "project", client->project[0] != '\0' ? client->project : NULL);
    kg_json_named_text(json, "profile",
                       client->confines[0] != '\0'  ? client->confines
                       : client->profile[0] != '\0' ? client->profile
                                                    : NULL);
    kg_json_named_int(json, "in_flight", client->call_count);
    activity_put_last(json, &client->last);
    kg_json_end(json, '}');
}

/* A modern client is there while it asks: what is known is the last that was heard of each. */
static void put_visitor(struct kg_json_writer *json, const struct mcp_visitor *visitor)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "client", visitor->name);
    kg_json_named_text(json, "era", "modern");
    kg_json_named_text(json, "revision", MCP_MODERN);
    kg_json_named_text(json, "owner", visitor->owner);
    kg_json_named_text(json, "plugin", NULL);
    kg_json_named_text(json, "project", NULL);
    kg_json_named_text(json, "profile", NULL);
    kg_json_named_int(json, "in_flight", 0);
    activity_put_last(json, &visitor->last);
    kg_json_end(json, '}');
}

void mcp_clients_json(const struct mcp *mcp, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "activity", host_config(mcp->host)->mcp_activity);
    kg_json_named_begin(&json, "clients", '[');
    for (const struct mcp_client *at = mcp->clients; at != NULL; at = at->next)
        activity_put_client(&json, at);
    for (size_t i = 0; i < MCP_VISITORS_MAX; i++)
        if (mcp->visitors[i].owner != NULL)
            put_visitor(&json, &mcp->visitors[i]);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
}

/* The one that was not heard of for longest makes room. */
struct mcp_last *mcp_visitor_last(struct mcp *mcp, const char *owner, const char *name)
{
    struct mcp_visitor *oldest = &mcp->visitors[0];
    for (size_t i = 0; i < MCP_VISITORS_MAX; i++) {
        struct mcp_visitor *at = &mcp->visitors[i];
        if (at->owner != NULL && strcmp(at->owner, owner) == 0 && strcmp(at->name, name) == 0)
            return &at->last;
        if (at->last.at_ms < oldest->last.at_ms)
            oldest = at;
    }
    mcp_visitor_free(oldest);
    oldest->owner = kg_strdup(owner);
    oldest->name = kg_strdup(name);
    return &oldest->last;
}

void mcp_visitor_free(struct mcp_visitor *visitor)
{
    free(visitor->owner);
    free(visitor->name);
    free(visitor->last.tool);
    *visitor = (struct mcp_visitor){0};
}
