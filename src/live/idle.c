/*
 * A session in which nothing happens becomes idle, and the primary's plugins are told what was said
 * so far. It is idle before they are told, so that what happens meanwhile makes it active again.
 */
#include "live/internal.h"

#include <stdlib.h>

struct idling {
    struct session_job job;
    struct live_wait wait;
    struct live_session *live; /* held */
    struct host_asker *asker;  /* the primary's */
    const char *reason;
    size_t payload_max;
    struct kg_buf params;
    struct host_hook_round *round;
    live_idle_fn *on_done;
    void *data;
};

static void end(struct idling *idling, const struct host_hook_answer *answers, size_t count,
                const struct kg_err *err_or_null)
{
    struct live_session *live = idling->live;
    live_wait_remove(&idling->wait);
    if (idling->on_done != NULL)
        idling->on_done(idling->data, answers, count, err_or_null);
    kg_buf_free(&idling->params);
    host_asker_unref(idling->asker);
    free(idling);
    live_release(live);
}

static void on_hooks(void *data, const struct host_hook_answer *answers, size_t count)
{
    end(data, answers, count, NULL);
}

static void on_abort(struct live_wait *wait)
{
    struct idling *idling = KG_CONTAINER(wait, struct idling, wait);
    struct kg_err err;
    host_hook_cancel(idling->round);
    live_fail_stopping(&err);
    end(idling, NULL, 0, &err);
}

static void fire(struct idling *idling)
{
    struct live_session *live = idling->live;
    const struct host_hook_fire fire = {
        .hook = MANIFEST_ON_SESSION_IDLE,
        .asker = idling->asker,
        .params = kg_buf_view(&idling->params),
        .on_done = on_hooks,
        .data = idling,
    };
    live_wait_add(live->sessions, &idling->wait, on_abort);
    idling->round = host_hook_fire(live->sessions->host, &fire);
}

/* -- on kaged.db ------------------------------------------------------------------------------- */

static int run_idle(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct idling *idling = KG_CONTAINER(job, struct idling, job);
    return session_set_state(state, idling->live->id.text, SESSION_IDLE, err);
}

static void on_idle(struct session_job *job, const struct kg_err *err_or_null)
{
    struct idling *idling = KG_CONTAINER(job, struct idling, job);
    struct live_session *live = idling->live;
    struct kg_err err = err_or_null ? *err_or_null : (struct kg_err){0};
    if (err_or_null == NULL) {
        live_set_state(live, SESSION_IDLE);
        audit_emit(host_audit(live->sessions->host), AUDIT_SESSION_IDLE,
                   kg_str(idling->asker->request_id), AUDIT_V_TEXT(live->id.text),
                   AUDIT_V_TEXT(live->project_id), AUDIT_V_TEXT(idling->reason),
                   AUDIT_V_TEXT(idling->asker->operator_id));
    }
    if (err_or_null == NULL && live->sessions->stopping)
        live_fail_stopping(&err);
    if (err.code != KG_OK)
        end(idling, NULL, 0, &err);
    else if (live->start != LIVE_STARTED)
        end(idling, NULL, 0, NULL); /* nobody was told of a start */
    else
        fire(idling);
}

static int run_transcript(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct idling *idling = KG_CONTAINER(job, struct idling, job);
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    uint64_t left = 0;
    int result = session_transcript_read(state, idling->live->id.text, "primary", 0,
                                         idling->payload_max, &entries, &left, err);
    if (result == 0)
        session_transcript_write(&entries, left, idling->payload_max, &idling->params);
    return result;
}

static void on_transcript(struct session_job *job, const struct kg_err *err_or_null)
{
    struct idling *idling = KG_CONTAINER(job, struct idling, job);
    if (err_or_null != NULL) {
        end(idling, NULL, 0, err_or_null);
        return;
    }
    job->run = run_idle;
    job->done = on_idle;
    session_store_write(idling->live->sessions->store, job);
}

/* -- why it begins ----------------------------------------------------------------------------- */

static int check(struct live_session *live, struct kg_err *err)
{
    int result = live_check_open(live, err);
    if (result == 0 && live->run != NULL)
        result = kg_fail(err, KG_E_CONFLICT, "session %s: a turn of %s runs", live->id.text,
                         live->run->agent);
    return result < 0 ? result : live_enter(live, err);
}

int live_idle(struct live_session *live, const char *reason, struct host_asker *asker,
              live_idle_fn *on_done, void *data, struct kg_err *err)
{
    int result = check(live, err);
    if (result < 0)
        return result;
    struct idling *idling = kg_alloc(sizeof(*idling));
    live_hold(live);
    loop_timer_stop(live->sessions->loop, &live->idle_timer);
    idling->live = live;
    idling->reason = reason;
    idling->payload_max = live_payload_max(live->sessions);
    idling->asker = live_asker_for(live, asker, "primary");
    idling->on_done = on_done;
    idling->data = data;
    idling->job.run = run_transcript;
    idling->job.done = on_transcript;
    session_store_read(live->sessions->store, &idling->job);
    return 0;
}

void live_on_idle_timer(struct loop_timer *timer)
{
    struct live_session *live = KG_CONTAINER(timer, struct live_session, idle_timer);
    struct kg_id request = kg_id_new("req_");
    kg_auto(host_asker_cleanup) struct host_asker *asker =
        host_asker_new(live->operator_id, request.text);
    struct kg_err err = {0};
    /* One that is held is not idle, whatever it waits for: a tool, a compaction. */
    if (live->work > 0)
        live_activity(live);
    else if (live_idle(live, "timer", asker, NULL, NULL, &err) < 0)
        kg_log(KG_DEBUG, "%s", err.message);
}
