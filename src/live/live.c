/*
 * The table of sessions in memory. It is bounded: one that nobody holds can be forgotten at any
 * time, since all that has to last is in kaged.db. A session is in the table once, so that its
 * start, its compactions and its turns exclude each other.
 */
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

/* -- waiting ----------------------------------------------------------------------------------- */

void live_wait_add(struct sessions *sessions, struct live_wait *wait,
                   void (*abort)(struct live_wait *wait))
{
    wait->abort = abort;
    wait->next = sessions->waits;
    wait->link = &sessions->waits;
    if (wait->next != NULL)
        wait->next->link = &wait->next;
    sessions->waits = wait;
}

void live_wait_remove(struct live_wait *wait)
{
    if (wait->link == NULL)
        return;
    *wait->link = wait->next;
    if (wait->next != NULL)
        wait->next->link = wait->link;
    wait->next = NULL;
    wait->link = NULL;
}

void live_waiters_add(struct live_session *live, struct live_waiter **list, live_fn *on_done,
                      void *data)
{
    struct live_waiter *waiter = kg_alloc(sizeof(*waiter));
    waiter->on_done = on_done;
    waiter->data = data;
    live_hold(live);
    while (*list != NULL)
        list = &(*list)->next;
    *list = waiter;
}

void live_waiters_tell(struct live_session *live, struct live_waiter **list,
                       const struct kg_err *err_or_null)
{
    struct live_waiter *waiter = kg_steal(list);
    while (waiter != NULL) {
        struct live_waiter *next = waiter->next;
        waiter->on_done(waiter->data, err_or_null ? NULL : live, err_or_null);
        free(waiter);
        if (next == NULL)
            live_release(live);
        else
            live->work--; /* those behind it hold the session too */
        waiter = next;
    }
}

int live_fail_stopping(struct kg_err *err)
{
    return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
}

/* -- the table --------------------------------------------------------------------------------- */

static void live_free(struct live_session *live)
{
    loop_timer_stop(live->sessions->loop, &live->idle_timer);
    free(live->project_id);
    free(live->workdir);
    free(live->seat);
    free(live->operator_id);
    free(live);
}

static void leave_project(struct live_session *live)
{
    if (live->entered)
        host_project_leave(live->sessions->host, kg_str(live->project_id));
    live->entered = false;
}

static void forget(struct live_session *live)
{
    struct sessions *sessions = live->sessions;
    leave_project(live);
    kg_map_remove(sessions->live, kg_str(live->id.text));
    sessions->forgotten++;
    live_free(live);
}

/* What is due to be told idle goes last. */
static bool goes_before(const struct live_session *a, const struct live_session *b)
{
    bool a_waits = loop_timer_running(&a->idle_timer), b_waits = loop_timer_running(&b->idle_timer);
    return a_waits != b_waits ? b_waits : a->used_ms < b->used_ms;
}

static struct live_session *least_wanted(const struct sessions *sessions)
{
    struct live_session *found = NULL;
    struct kg_str id;
    void *value;
    for (size_t at = 0; kg_map_next(sessions->live, &at, &id, &value);) {
        struct live_session *live = value;
        if (live->work == 0 && (found == NULL || goes_before(live, found)))
            found = live;
    }
    return found;
}

static int make_room(struct sessions *sessions, struct kg_err *err)
{
    size_t max = (size_t)host_config(sessions->host)->limits_sessions_live;
    while (kg_map_count(sessions->live) >= max) {
        struct live_session *live = least_wanted(sessions);
        if (live == NULL) {
            kg_fail(err, KG_E_BUSY, "%zu sessions are in use, which is the most", max);
            kg_hint(err, "try again later, or raise limits.sessions_live");
            return -EBUSY;
        }
        forget(live);
    }
    return 0;
}

struct live_session *live_find(const struct sessions *sessions, const char *id)
{
    return kg_map_get(sessions->live, kg_str(id));
}

struct live_session *live_adopt(struct sessions *sessions, const struct session *session,
                                bool started, struct kg_err *err)
{
    struct live_session *live = live_find(sessions, session->id.text);
    if (live != NULL)
        return live;
    if (make_room(sessions, err) < 0)
        return NULL;
    live = kg_alloc(sizeof(*live));
    live->sessions = sessions;
    live->id = session->id;
    live->project_id = kg_strdup(session->project_id);
    live->workdir = kg_strdup(session->workdir);
    live->seat = kg_strdup(session->seat);
    live->operator_id = kg_strdup(session->operator_id);
    live->state = session->state;
    live->start = started ? LIVE_STARTED : LIVE_NOT_STARTED;
    live->used_ms = loop_now_ms(sessions->loop);
    kg_map_set(sessions->live, kg_str(live->id.text), live);
    return live;
}

void live_hold(struct live_session *live)
{
    live->work++;
    live->used_ms = loop_now_ms(live->sessions->loop);
}

void live_release(struct live_session *live)
{
    if (--live->work == 0 && live->leaving)
        forget(live);
}

/* -- finding one ------------------------------------------------------------------------------- */

struct opening {
    struct session_job job;
    struct sessions *sessions;
    char *id; /* owned, as it was given */
    uint64_t forgotten;
    struct session session;
    bool started;
    live_fn *on_open;
    void *data;
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

static int open_found(struct opening *opening, struct live_session **ret_live, struct kg_err *err)
{
    struct sessions *sessions = opening->sessions;
    if (sessions->stopping)
        return live_fail_stopping(err);
    struct live_session *live = live_adopt(sessions, &opening->session, opening->started, err);
    if (live == NULL)
        return -EBUSY;
    if (live->work >= LIVE_WORK_MAX)
        return kg_fail(err, KG_E_BUSY, "session %s: %d operations are under way in it",
                       live->id.text, LIVE_WORK_MAX);
    *ret_live = live;
    return 0;
}

static void on_opened(struct session_job *job, const struct kg_err *err_or_null)
{
    struct opening *opening = KG_CONTAINER(job, struct opening, job);
    struct sessions *sessions = opening->sessions;
    struct live_session *live = NULL;
    struct kg_err err = err_or_null ? *err_or_null : (struct kg_err){0};
    if (err_or_null == NULL && live_find(sessions, opening->session.id.text) == NULL &&
        opening->forgotten != sessions->forgotten) {
        opening->forgotten = sessions->forgotten; /* it may have been this one: look again */
        session_store_read(sessions->store, job);
        return;
    }
    if (err_or_null == NULL)
        open_found(opening, &live, &err);
    if (live != NULL)
        live_hold(live);
    opening->on_open(opening->data, live, live ? NULL : &err);
    session_clear(&opening->session);
    free(opening->id);
    free(opening);
}

void live_open(struct sessions *sessions, struct kg_str id, live_fn *on_open, void *data)
{
    struct opening *opening = kg_alloc(sizeof(*opening));
    opening->sessions = sessions;
    opening->id = kg_str_dup(id);
    opening->forgotten = sessions->forgotten;
    opening->on_open = on_open;
    opening->data = data;
    opening->job.run = run_opening;
    opening->job.done = on_opened;
    session_store_read(sessions->store, &opening->job);
}

/* -- one session ------------------------------------------------------------------------------- */

int live_check_open(const struct live_session *live, struct kg_err *err)
{
    const char *id = live->id.text;
    if (live->state == SESSION_CLOSED) {
        kg_fail(err, KG_E_CONFLICT, "session %s: it is closed", id);
        kg_hint(err, "kaged session resume %s opens it again", id);
        return -EINVAL;
    }
    if (live->state != SESSION_STOPPED)
        return 0;
    kg_fail(err, KG_E_CONFLICT, "session %s: it is stopped at a checkpoint", id);
    kg_hint(err,
            "kaged session resume %s lets it go on; kaged session compact %s --strategy drop makes "
            "room first",
            id, id);
    return -EINVAL;
}

struct host_asker *live_asker_for(const struct live_session *live, const struct host_asker *asker,
                                  const char *agent)
{
    return host_asker_for(asker, live->project_id, agent, live->id.text);
}

int live_enter(struct live_session *live, struct kg_err *err)
{
    struct host *host = live->sessions->host;
    if (live->entered)
        return 0;
    struct live_agent primary;
    int result = live_agent_find(live->sessions, live->project_id, "primary", &primary, err);
    if (result == 0)
        result = host_project_enter(host, kg_str(live->project_id), err);
    if (result < 0)
        return kg_wrap(err, result, "session %s", live->id.text);
    live->entered = true;
    live->leaving = false;
    return 0;
}

void live_activity(struct live_session *live)
{
    struct loop *loop = live->sessions->loop;
    int64_t idle_sec = host_config(live->sessions->host)->sessions_idle_after_sec;
    live->used_ms = loop_now_ms(loop);
    if (!live->sessions->stopping)
        loop_timer_start(loop, &live->idle_timer, (uint64_t)idle_sec * 1000, live_on_idle_timer);
}

void live_set_state(struct live_session *live, enum session_state state)
{
    live->state = state;
    if (state != SESSION_ACTIVE)
        loop_timer_stop(live->sessions->loop, &live->idle_timer);
    live->leaving = state == SESSION_CLOSED;
    if (live->leaving)
        leave_project(live);
}

int live_run_begin(struct live_session *live, struct live_run *run, struct kg_err *err)
{
    if (live->run != NULL) {
        kg_fail(err, KG_E_CONFLICT, "session %s: a turn of %s runs", live->id.text,
                live->run->agent);
        kg_hint(err, "wait for its end, or kaged session cancel %s", live->id.text);
        return -EBUSY;
    }
    live->run = run;
    live_hold(live);
    loop_timer_stop(live->sessions->loop, &live->idle_timer);
    return 0;
}

void live_run_end(struct live_session *live)
{
    live->run = NULL;
    if (live->state == SESSION_ACTIVE && live->entered)
        live_activity(live);
    live_release(live);
}

/* -- all of them ------------------------------------------------------------------------------- */

static void let_go(struct live_session *live, const char *project_id)
{
    struct kg_err why;
    kg_fail(&why, KG_E_CONFLICT, "session %s: project %s was unloaded", live->id.text, project_id);
    live->entered = false;
    live->leaving = true;
    loop_timer_stop(live->sessions->loop, &live->idle_timer);
    if (live->run != NULL)
        live->run->cancel(live->run, &why);
}

/* A project that is gone has no sessions left. */
static void on_project_change(struct host_project_listener *listener, const char *id,
                              struct host_project *project_or_null)
{
    struct sessions *sessions = KG_CONTAINER(listener, struct sessions, listener);
    if (project_or_null != NULL)
        return;
    struct kg_str key;
    void *value;
    for (size_t at = 0; kg_map_next(sessions->live, &at, &key, &value);) {
        struct live_session *live = value;
        if (strcmp(live->project_id, id) != 0)
            continue;
        live_hold(live);
        let_go(live, id);
        live_release(live);
    }
}

struct sessions *sessions_new(const struct sessions_parts *parts, struct kg_err *err)
{
    struct session_store *store = session_store_new(parts->loop, parts->state_db, err);
    if (store == NULL)
        return NULL;
    struct sessions *sessions = kg_alloc(sizeof(*sessions));
    sessions->loop = parts->loop;
    sessions->host = parts->host;
    sessions->store = store;
    sessions->live = kg_map_new();
    sessions->models = models_new(parts->host);
    sessions->summarize = session_summarize;
    sessions->listener.on_change = on_project_change;
    host_projects_listen(sessions->host, &sessions->listener);
    return sessions;
}

static void abort_waits(struct sessions *sessions)
{
    while (sessions->waits != NULL) {
        struct live_wait *wait = sessions->waits;
        live_wait_remove(wait);
        wait->abort(wait);
    }
}

void sessions_stop(struct sessions *sessions)
{
    if (sessions == NULL || sessions->stopping)
        return;
    struct kg_err why;
    struct kg_str id;
    void *value;
    live_fail_stopping(&why);
    sessions->stopping = true;
    for (size_t at = 0; kg_map_next(sessions->live, &at, &id, &value);) {
        struct live_session *live = value;
        loop_timer_stop(sessions->loop, &live->idle_timer);
        live_hold(live);
        if (live->run != NULL)
            live->run->cancel(live->run, &why);
        live_release(live);
    }
    abort_waits(sessions);
    models_close(sessions->models);
}

void sessions_when_stopped(struct sessions *sessions, void (*on_stopped)(void *data), void *data)
{
    models_when_closed(sessions->models, on_stopped, data);
}

void sessions_free(struct sessions *sessions)
{
    if (sessions == NULL)
        return;
    sessions_stop(sessions);
    abort_waits(sessions);
    session_store_free(sessions->store);
    struct kg_str id;
    void *value;
    for (size_t at = 0; kg_map_next(sessions->live, &at, &id, &value);)
        live_free(value);
    kg_map_free(sessions->live);
    models_free(sessions->models);
    host_projects_unlisten(sessions->host, &sessions->listener);
    free(sessions);
}
