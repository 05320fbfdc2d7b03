/*
 * A session in which nothing happens becomes idle, and the primary's plugins are told what was said
 * so far with the agent that is spoken to. It is idle before they are told, so that what happens
 * meanwhile makes it active again.
 */
#include "live/internal.h"

#include <stdlib.h>

struct idling {
    struct live_work work; /* as the primary */
    const char *reason;
    char *seat; /* owned: whom the operator spoke to */
    size_t payload_max;
    struct kg_buf params;
    live_idle_fn *on_done;
    void *data;
};

static struct idling *idling_of(struct live_work *work)
{
    return KG_CONTAINER(work, struct idling, work);
}

/* With what the hooks said, if they were asked. */
static void idle_end(struct live_work *work, const struct kg_err *err_or_null)
{
    struct idling *idling = idling_of(work);
    if (idling->on_done != NULL)
        idling->on_done(idling->data, work->answers, work->answer_count, err_or_null);
    kg_buf_free(&idling->params);
    free(idling->seat);
    live_work_end(work);
    free(idling);
}

/* -- on kaged.db ------------------------------------------------------------------------------- */

static int run_idle(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct live_work *work = KG_CONTAINER(job, struct live_work, job);
    return session_set_state(state, work->live->id.text, SESSION_IDLE, err);
}

static void idle_on_idle(struct live_work *work, const struct kg_err *err_or_null)
{
    struct idling *idling = idling_of(work);
    struct live_session *live = work->live;
    const struct projects_hook_fire fire = {.hook = MANIFEST_ON_SESSION_IDLE,
                                            .params = kg_buf_view(&idling->params)};
    struct kg_err err;
    if (err_or_null != NULL) {
        idle_end(work, err_or_null);
        return;
    }
    live_set_state(live, SESSION_IDLE);
    audit_emit(host_audit(work->sessions->host), AUDIT_SESSION_IDLE,
               kg_str(work->asker->request_id), AUDIT_V_TEXT(live->id.text),
               AUDIT_V_TEXT(live->project_id), AUDIT_V_TEXT(idling->reason),
               AUDIT_V_TEXT(work->asker->operator_id));
    if (work->sessions->stopping) {
        live_fail_stopping(&err);
        idle_end(work, &err);
    } else if (live->start != LIVE_STARTED) {
        idle_end(work, NULL); /* nobody was told of a start */
    } else {
        live_fire(work, &fire, idle_end);
    }
}

static int run_transcript(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct idling *idling = KG_CONTAINER(job, struct idling, work.job);
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    uint64_t left = 0;
    int result = session_transcript_read(state, idling->work.live->id.text, idling->seat, 0,
                                         idling->payload_max, &entries, &left, err);
    if (result == 0)
        session_transcript_write(&entries, left, idling->payload_max, &idling->params);
    return result;
}

static void on_transcript(struct live_work *work, const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        idle_end(work, err_or_null);
    else
        live_write(work, run_idle, idle_on_idle);
}

/* -- why it begins ----------------------------------------------------------------------------- */

static int idle_check(struct live_session *live, struct kg_err *err)
{
    int result = live_check_open(live, err);
    if (result == 0)
        result = live_check_no_run(live, err);
    return result < 0 ? result : live_enter(live, err);
}

int live_idle(struct live_session *live, const char *reason, struct host_asker *asker,
              live_idle_fn *on_done, void *data, struct kg_err *err)
{
    int result = idle_check(live, err);
    if (result < 0)
        return result;
    struct idling *idling = kg_alloc(sizeof(*idling));
    live_work_begin(&idling->work, live->sessions, asker);
    live_hold(live);
    idling->work.live = live;
    live_work_for(&idling->work, "primary");
    loop_timer_stop(live->sessions->loop, &live->idle_timer);
    idling->reason = reason;
    idling->seat = kg_strdup(live->seat ? live->seat : "primary");
    idling->payload_max = live_payload_max(live->sessions);
    idling->on_done = on_done;
    idling->data = data;
    live_read(&idling->work, run_transcript, on_transcript);
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
