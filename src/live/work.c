/*
 * One machine of steps for all that is done with sessions: operations, starts, compactions, turns.
 * At each moment a work waits for one thing: the store, the end of the loop's turn, something of
 * its session, or something outside, which is hooks, tools and models. What is not the store can be
 * withdrawn, and what is outside ends when the sessions stop.
 */
#include "live/internal.h"

#include "redact/shared.h"

#include <errno.h>
#include <stdlib.h>

/* -- its life ---------------------------------------------------------------------------------- */

static void free_added(struct live_work *work)
{
    if (work->added != &work->one)
        free(work->added);
    work->added = NULL;
}

void live_work_begin(struct live_work *work, struct sessions *sessions, struct host_asker *asker)
{
    work->sessions = sessions;
    work->asker = host_asker_ref(asker);
}

void live_work_end(struct live_work *work)
{
    free_added(work);
    free(kg_steal(&work->shown_drafts));
    kg_buf_free(&work->shown);
    host_asker_unref(kg_steal(&work->asker));
    if (work->live != NULL)
        live_release(kg_steal(&work->live));
}

void live_work_for(struct live_work *work, const char *agent)
{
    struct host_asker *before = work->asker;
    work->asker = host_asker_for(before, &(struct host_asker){.project_id = work->live->project_id,
                                                              .agent_path = agent,
                                                              .session_id = work->live->id.text,
                                                              .branch = work->live->branch.text});
    host_asker_unref(before);
}

/* -- waiting ----------------------------------------------------------------------------------- */

static void work_go_on(struct live_work *work, const struct kg_err *err_or_null)
{
    live_next_fn *next = work->next;
    work->withdraw = NULL;
    next(work, err_or_null);
}

static void work_on_stop(struct kg_wait *wait, const struct kg_err *err_or_null)
{
    struct live_work *work = KG_CONTAINER(wait, struct live_work, stop);
    work->withdraw(work->awaited);
    work_go_on(work, err_or_null);
}

void live_await(struct live_work *work, void *awaited, void (*withdraw)(void *awaited),
                live_next_fn *next)
{
    work->next = next;
    work->awaited = awaited;
    work->withdraw = withdraw;
    kg_wait_add(&work->sessions->stop, &work->stop, work_on_stop);
}

void live_arrived(struct live_work *work, const struct kg_err *err_or_null)
{
    kg_wait_withdraw(&work->stop);
    work_go_on(work, err_or_null);
}

bool live_withdraw(struct live_work *work)
{
    if (work->withdraw == NULL)
        return false;
    kg_wait_withdraw(&work->stop);
    work->withdraw(work->awaited);
    work->withdraw = NULL;
    return true;
}

static void withdraw_task(void *awaited)
{
    struct live_work *work = awaited;
    loop_undefer(work->sessions->loop, &work->task);
}

static void work_on_task(struct loop_task *task)
{
    struct live_work *work = KG_CONTAINER(task, struct live_work, task);
    live_arrived(work, work->job.err.code != KG_OK ? &work->job.err : NULL);
}

void live_later(struct live_work *work, const struct kg_err *err_or_null, live_next_fn *next)
{
    if (err_or_null != NULL)
        work->job.err = *err_or_null;
    else
        work->job.err.code = KG_OK;
    work->task.run = work_on_task;
    live_await(work, work, withdraw_task, next);
    loop_defer(work->sessions->loop, &work->task);
}

static void withdraw_wait(void *awaited)
{
    kg_wait_withdraw(awaited);
}

static void work_on_told(struct kg_wait *wait, const struct kg_err *err_or_null)
{
    work_go_on(KG_CONTAINER(wait, struct live_work, wait), err_or_null);
}

void live_wait(struct live_work *work, struct kg_waits *list, live_next_fn *next)
{
    work->next = next;
    work->awaited = &work->wait;
    work->withdraw = withdraw_wait;
    kg_wait_add(list, &work->wait, work_on_told);
}

/* -- hooks ------------------------------------------------------------------------------------- */

static void withdraw_hooks(void *awaited)
{
    projects_hook_cancel(awaited);
}

static void work_on_hooks(void *data, const struct projects_hook_answer *answers, size_t count)
{
    struct live_work *work = data;
    work->answers = answers;
    work->answer_count = count;
    live_arrived(work, NULL);
}

void live_fire(struct live_work *work, const struct projects_hook_fire *fire, live_next_fn *next)
{
    struct projects_hook_fire own = *fire;
    own.asker = work->asker;
    own.on_done = work_on_hooks;
    own.data = work;
    work->answer_count = 0;
    live_await(work, projects_hook_fire(work->sessions->host, &own), withdraw_hooks, next);
}

/* -- the store --------------------------------------------------------------------------------- */

static void work_on_stored(struct session_job *job, const struct kg_err *err_or_null)
{
    work_go_on(KG_CONTAINER(job, struct live_work, job), err_or_null);
}

static struct session_job *job_of(struct live_work *work, live_run_fn *run, live_next_fn *next)
{
    work->next = next;
    work->job.run = run;
    work->job.done = work_on_stored;
    work->job.once = false;
    return &work->job;
}

void live_read(struct live_work *work, live_run_fn *run, live_next_fn *next)
{
    session_store_read(work->sessions->store, job_of(work, run, next));
}

void live_read_once(struct live_work *work, live_run_fn *run, live_next_fn *next)
{
    struct session_job *job = job_of(work, run, next);
    job->once = true;
    session_store_read(work->sessions->store, job);
}

void live_write(struct live_work *work, live_run_fn *run, live_next_fn *next)
{
    session_store_write(work->sessions->store, job_of(work, run, next));
}

/* -- entries ----------------------------------------------------------------------------------- */

static int run_append(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct live_work *work = KG_CONTAINER(job, struct live_work, job);
    int result = session_append(state, work->live->id.text, work->drafts, work->draft_count,
                                work->added, err);
    if (result == 0 && work->on_added != NULL)
        work->on_added(work);
    return result;
}

static void on_appended(struct session_job *job, const struct kg_err *err_or_null)
{
    struct live_work *work = KG_CONTAINER(job, struct live_work, job);
    struct live_session *live = work->live;
    if (err_or_null == NULL && live->state == SESSION_IDLE) {
        live->state = SESSION_ACTIVE;
        live_tell_awake(live);
    }
    if (err_or_null == NULL && live->state == SESSION_ACTIVE && live->run == NULL)
        live_activity(live);
    for (size_t i = 0; err_or_null == NULL && i < work->draft_count; i++)
        work->compacting |=
            live_compact_if_full(work, work->drafts[i].agent, work->added[i].context_tokens);
    work_go_on(work, err_or_null);
}

/* What is kept of a session has no secret in it, whoever said it; *drafts are other ones then. */
static void hide_secrets(struct live_work *work, const struct session_draft **drafts, size_t count)
{
    struct kg_buf shown = {0};
    kg_auto(kg_free) size_t *ends = kg_alloc_array(count + 1, sizeof(*ends));
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        if (redact_put_shared_json((*drafts)[i].content, &shown))
            any = true;
        else
            kg_buf_str(&shown, (*drafts)[i].content);
        ends[i] = shown.length;
    }
    if (!any) {
        kg_buf_free(&shown);
        return;
    }
    work->shown = shown;
    work->shown_drafts = kg_alloc_array(count, sizeof(struct session_draft));
    for (size_t i = 0; i < count; i++) {
        size_t start = i > 0 ? ends[i - 1] : 0;
        work->shown_drafts[i] = (*drafts)[i];
        work->shown_drafts[i].content = (struct kg_str){shown.data + start, ends[i] - start};
    }
    *drafts = work->shown_drafts;
}

static void free_shown(struct live_work *work)
{
    free(kg_steal(&work->shown_drafts));
    kg_buf_free(&work->shown);
}

void live_append(struct live_work *work, const struct session_draft *drafts, size_t count,
                 void (*on_added_or_null)(struct live_work *work), live_next_fn *next)
{
    free_added(work);
    free_shown(work);
    hide_secrets(work, &drafts, count);
    work->added = count == 1 ? &work->one : kg_alloc_array(count, sizeof(work->added[0]));
    work->drafts = drafts;
    work->draft_count = count;
    work->on_added = on_added_or_null;
    work->compacting = false;
    job_of(work, run_append, next)->done = on_appended;
    session_store_write(work->sessions->store, &work->job);
}

/* -- finding a session ------------------------------------------------------------------------- */

/* What a session that is not in memory, or that is named by a prefix, is looked up with. */
struct opening {
    struct session_job job;
    struct live_work *work;
    char *id; /* owned, as it was given */
    uint64_t forgotten;
    struct session session;
    bool started;
};

static int run_opening(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct opening *opening = KG_CONTAINER(job, struct opening, job);
    kg_auto(session_agents_clear) struct session_agents agents = {0};
    session_clear(&opening->session);
    int result = session_find(state, kg_str(opening->id), &opening->session, err);
    if (result == 0)
        result = session_agents_read(state, opening->session.id.text, &agents, err);
    opening->started = agents.count > 0;
    return result;
}

static int work_take(struct live_work *work, struct live_session *live, struct kg_err *err)
{
    if (work->sessions->stopping)
        return live_fail_stopping(err);
    if (live->work >= LIVE_WORK_MAX)
        return kg_fail(err, KG_E_BUSY, "session %s: %d operations are under way in it",
                       live->id.text, LIVE_WORK_MAX);
    live_hold(live);
    work->live = live;
    return 0;
}

static void on_opened(struct session_job *job, const struct kg_err *err_or_null)
{
    struct opening *opening = KG_CONTAINER(job, struct opening, job);
    struct live_work *work = opening->work;
    struct sessions *sessions = work->sessions;
    struct kg_err err = err_or_null ? *err_or_null : (struct kg_err){0};
    if (err_or_null == NULL && opening->forgotten != sessions->forgotten &&
        kg_map_get(sessions->live, kg_str(opening->session.id.text)) == NULL) {
        opening->forgotten = sessions->forgotten; /* it may have been this one: look again */
        session_store_read(sessions->store, job);
        return;
    }
    struct live_session *live = NULL;
    if (err_or_null == NULL)
        live = live_adopt(sessions, &opening->session, opening->started, &err);
    if (live != NULL)
        work_take(work, live, &err);
    session_clear(&opening->session);
    free(opening->id);
    free(opening);
    work_go_on(work, work->live != NULL ? NULL : &err);
}

static void work_look_up(struct live_work *work, struct kg_str id, live_next_fn *next)
{
    struct opening *opening = kg_alloc(sizeof(*opening));
    opening->work = work;
    opening->id = kg_str_dup(id);
    opening->forgotten = work->sessions->forgotten;
    opening->job.run = run_opening;
    opening->job.done = on_opened;
    work->next = next;
    session_store_read(work->sessions->store, &opening->job);
}

void live_open(struct live_work *work, struct kg_str id, live_next_fn *next)
{
    struct live_session *live = kg_map_get(work->sessions->live, id);
    struct kg_err err;
    if (live == NULL)
        work_look_up(work, id, next);
    else if (work_take(work, live, &err) < 0)
        live_later(work, &err, next);
    else
        live_later(work, NULL, next);
}
