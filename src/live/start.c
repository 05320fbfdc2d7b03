/*
 * A session starts once: before its first message or tool call is recorded, the primary's plugins
 * are told, and what they inject stands before all else. That it was started is an entry of its
 * own, so that no restart of the daemon tells them twice.
 */
#include "live/internal.h"

#include <stdlib.h>

struct starting {
    struct live_wait wait;
    struct live_session *live;     /* held */
    struct host_asker *asker;      /* the primary's */
    struct settling *settling;     /* while plugins are waited for */
    struct host_hook_round *round; /* while hooks are */
};

/* Nobody can take that wait back, so it outlives who waits. */
struct settling {
    struct starting *starting; /* NULL: nobody waits any more */
};

static void end(struct starting *starting, const struct kg_err *err_or_null)
{
    struct live_session *live = starting->live;
    live_wait_remove(&starting->wait);
    live->start = err_or_null ? LIVE_NOT_STARTED : LIVE_STARTED;
    live_waiters_tell(live, &live->starting, err_or_null);
    host_asker_unref(starting->asker);
    free(starting);
    live_release(live);
}

static void on_abort(struct live_wait *wait)
{
    struct starting *starting = KG_CONTAINER(wait, struct starting, wait);
    struct kg_err err;
    if (starting->settling != NULL)
        starting->settling->starting = NULL;
    if (starting->round != NULL)
        host_hook_cancel(starting->round);
    live_fail_stopping(&err);
    end(starting, &err);
}

/* -- what plugins inject ----------------------------------------------------------------------- */

static void on_recorded(void *data, const struct live_appended *appended_or_null,
                        const struct kg_err *err_or_null)
{
    struct starting *starting = data;
    struct live_session *live = starting->live;
    if (appended_or_null != NULL)
        audit_emit(host_audit(live->sessions->host), AUDIT_SESSION_STARTED,
                   kg_str(starting->asker->request_id), AUDIT_V_TEXT(live->id.text),
                   AUDIT_V_TEXT(live->project_id),
                   AUDIT_V_INT((int64_t)appended_or_null->count - 1),
                   AUDIT_V_TEXT(starting->asker->operator_id));
    end(starting, err_or_null);
}

static void record(struct starting *starting, const struct session_draft *drafts, size_t count)
{
    live_append(starting->live, starting->asker, drafts, count, on_recorded, starting);
}

static void on_hooks(void *data, const struct host_hook_answer *answers, size_t count)
{
    struct starting *starting = data;
    kg_auto(kg_free) struct session_draft *drafts = kg_alloc_array(count + 1, sizeof(drafts[0]));
    kg_auto(kg_free) struct kg_buf *texts = kg_alloc_array(count + 1, sizeof(texts[0]));
    size_t used = 0;
    starting->round = NULL;
    live_wait_remove(&starting->wait);
    for (size_t i = 0; i < count && used < SESSION_APPEND_MAX - 1; i++) {
        const struct host_hook_answer *answer = &answers[i];
        if (answer->error.code != KG_OK || answer->result == NULL ||
            answer->result->inject.length == 0)
            continue;
        kg_json_put_string(&texts[used], kg_buf_view(&answer->result->inject));
        drafts[used] = (struct session_draft){.agent = "primary",
                                              .kind = SESSION_INJECTION,
                                              .role = SESSION_SYSTEM,
                                              .source = answer->plugin,
                                              .content = kg_buf_view(&texts[used]),
                                              .first = true};
        used++;
    }
    drafts[used] = (struct session_draft){.agent = "primary",
                                          .kind = SESSION_EVENT,
                                          .role = SESSION_SYSTEM,
                                          .content = KG_STR("{\"event\":\"started\"}")};
    record(starting, drafts, used + 1);
    for (size_t i = 0; i < used; i++)
        kg_buf_free(&texts[i]);
}

static void fire(struct starting *starting)
{
    struct live_session *live = starting->live;
    const struct host_hook_fire fire = {
        .hook = MANIFEST_ON_SESSION_START,
        .asker = starting->asker,
        .on_done = on_hooks,
        .data = starting,
    };
    starting->round = host_hook_fire(live->sessions->host, &fire);
}

static void on_settled(void *data)
{
    struct settling *settling = data;
    struct starting *starting = settling->starting;
    free(settling);
    if (starting == NULL)
        return;
    starting->settling = NULL;
    fire(starting);
}

/* -- asking for it ----------------------------------------------------------------------------- */

static void begin(struct live_session *live, const struct host_asker *asker)
{
    struct starting *starting = kg_alloc(sizeof(*starting));
    struct settling *settling = kg_alloc(sizeof(*settling));
    live->start = LIVE_STARTING;
    live_hold(live);
    starting->live = live;
    starting->asker = live_asker_for(live, asker, "primary");
    starting->settling = settling;
    settling->starting = starting;
    live_wait_add(live->sessions, &starting->wait, on_abort);
    host_project_when_settled(live->sessions->host, kg_str(live->project_id), on_settled, settling);
}

static int check(struct live_session *live, struct kg_err *err)
{
    if (live->sessions->stopping)
        return live_fail_stopping(err);
    if (live->state == SESSION_CLOSED)
        return live_check_open(live, err);
    return live_enter(live, err);
}

void live_ensure_started(struct live_session *live, const struct host_asker *asker,
                         live_fn *on_started, void *data)
{
    struct kg_err err = {0};
    if (check(live, &err) < 0) {
        on_started(data, NULL, &err);
        return;
    }
    if (asker->operator_id != NULL) {
        free(live->operator_id);
        live->operator_id = kg_strdup(asker->operator_id);
    }
    if (live->start == LIVE_STARTED) {
        on_started(data, live, NULL);
        return;
    }
    live_waiters_add(live, &live->starting, on_started, data);
    if (live->start == LIVE_NOT_STARTED)
        begin(live, asker);
}
