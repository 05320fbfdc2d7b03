/*
 * Entries are added, and then it is looked at what they made of the contexts: one that is too full
 * is compacted behind the back of whoever added them.
 */
#include "live/internal.h"

#include <stdlib.h>

struct appending {
    struct session_job job;
    struct live_session *live; /* held */
    struct kg_arena *arena;    /* owned: all texts of the drafts */
    struct session_draft *drafts;
    struct session_added *added; /* owned, both */
    size_t count;
    struct host_asker *asker;
    void (*on_done)(void *data, const struct live_appended *appended_or_null,
                    const struct kg_err *err_or_null);
    void *data;
};

static const char *keep(struct kg_arena *arena, const char *text)
{
    return text ? kg_arena_str(arena, (struct kg_str){text, strlen(text) + 1}).data : NULL;
}

static void keep_drafts(struct appending *appending, const struct session_draft *drafts)
{
    struct kg_arena *arena = appending->arena = kg_arena_new();
    for (size_t i = 0; i < appending->count; i++) {
        struct session_draft *copy = &appending->drafts[i];
        *copy = drafts[i];
        copy->agent = keep(arena, copy->agent);
        copy->source = keep(arena, copy->source);
        copy->parent = keep(arena, copy->parent);
        copy->content = kg_arena_str(arena, copy->content);
    }
}

static int run_append(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct appending *appending = KG_CONTAINER(job, struct appending, job);
    return session_append(state, appending->live->id.text, appending->drafts, appending->count,
                          appending->added, err);
}

/* Whether the context is, or is about to be, compacted. */
static bool compact_if_full(struct appending *appending, size_t at)
{
    struct live_session *live = appending->live;
    const char *agent = appending->drafts[at].agent;
    struct live_agent facts;
    if (live_is_compacting(live, agent))
        return true;
    if (live->sessions->stopping || live->state == SESSION_STOPPED ||
        live_agent_find(live->sessions, live->project_id, agent, &facts, NULL) < 0 ||
        !session_over_threshold(appending->added[at].context_tokens, facts.window_tokens,
                                facts.threshold))
        return false;
    const struct live_compact compact = {
        .asker = appending->asker,
        .agent = agent,
        .trigger = "threshold_crossed",
    };
    live_compact(live, &compact, NULL, NULL);
    return true;
}

static void tell(struct appending *appending)
{
    struct live_appended appended = {.added = appending->added, .count = appending->count};
    if (appending->live->state == SESSION_IDLE)
        appending->live->state = SESSION_ACTIVE;
    if (appending->live->state == SESSION_ACTIVE && appending->live->run == NULL)
        live_activity(appending->live);
    for (size_t i = 0; i < appending->count; i++)
        appended.compacting |= compact_if_full(appending, i);
    appending->on_done(appending->data, &appended, NULL);
}

static void on_appended(struct session_job *job, const struct kg_err *err_or_null)
{
    struct appending *appending = KG_CONTAINER(job, struct appending, job);
    if (err_or_null != NULL)
        appending->on_done(appending->data, NULL, err_or_null);
    else
        tell(appending);
    live_release(appending->live);
    kg_arena_free(appending->arena);
    free(appending->drafts);
    free(appending->added);
    host_asker_unref(appending->asker);
    free(appending);
}

void live_append(struct live_session *live, struct host_asker *asker,
                 const struct session_draft *drafts, size_t count,
                 void (*on_done)(void *data, const struct live_appended *appended_or_null,
                                 const struct kg_err *err_or_null),
                 void *data)
{
    struct appending *appending = kg_alloc(sizeof(*appending));
    appending->live = live;
    appending->count = count;
    appending->drafts = kg_alloc_array(count, sizeof(appending->drafts[0]));
    appending->added = kg_alloc_array(count, sizeof(appending->added[0]));
    appending->asker = host_asker_ref(asker);
    appending->on_done = on_done;
    appending->data = data;
    keep_drafts(appending, drafts);
    live_hold(live);
    appending->job.run = run_append;
    appending->job.done = on_appended;
    session_store_write(live->sessions->store, &appending->job);
}
