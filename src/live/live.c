/*
 * The table of sessions in memory. It is bounded: one that nobody holds can be forgotten at any
 * time, since all that has to last is in kaged.db. A session is in the table once, so that its
 * start, its compactions and its turns exclude each other.
 */
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

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
    live_wanted_free(live->wanted);
    live_wishes_free(live);
    free(live->usage.model);
    free(live->model);
    free(live);
}

void live_tell_awake(struct live_session *live)
{
    projects_rouse(live->sessions->host, kg_str(live->project_id), live->id.text,
                   live->entered && live->state == SESSION_ACTIVE);
}

static void leave_project(struct live_session *live)
{
    bool entered = live->entered;
    live->entered = false;
    live_tell_awake(live);
    if (entered)
        projects_leave(live->sessions->host, kg_str(live->project_id), live->id.text);
}

static void live_forget(struct live_session *live)
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

static int live_make_room(struct sessions *sessions, struct kg_err *err)
{
    size_t max = (size_t)host_config(sessions->host)->limits_sessions_live;
    while (kg_map_count(sessions->live) >= max) {
        struct live_session *live = least_wanted(sessions);
        if (live == NULL) {
            kg_fail(err, KG_E_BUSY, "%zu sessions are in use, which is the most", max);
            kg_hint(err, "try again later, or raise limits.sessions_live");
            return -EBUSY;
        }
        live_forget(live);
    }
    return 0;
}

struct live_session *live_adopt(struct sessions *sessions, const struct session *session,
                                bool started, struct kg_err *err)
{
    struct live_session *live = kg_map_get(sessions->live, kg_str(session->id.text));
    if (live != NULL)
        return live;
    if (live_make_room(sessions, err) < 0)
        return NULL;
    live = kg_alloc(sizeof(*live));
    live->sessions = sessions;
    live->id = session->id;
    live->branch = session->branch;
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
        live_forget(live);
}

/* -- one session ------------------------------------------------------------------------------- */

int live_check_open(const struct live_session *live, struct kg_err *err)
{
    const char *id = live->id.text;
    if (live->state == SESSION_CLOSED) {
        kg_fail(err, KG_E_CONFLICT, "session %s: it is closed", id);
        return kg_hint(err, "kaged session resume %s opens it again", id);
    }
    if (live->state != SESSION_STOPPED)
        return 0;
    kg_fail(err, KG_E_CONFLICT, "session %s: it is stopped at a checkpoint", id);
    return kg_hint(
        err,
        "kaged session resume %s lets it go on; kaged session compact %s --strategy drop makes "
        "room first",
        id, id);
}

bool live_has_folder(const struct live_session *live)
{
    const struct projects_entry *project =
        projects_find(live->sessions->host, kg_str(live->project_id), NULL);
    return project == NULL || projects_facts(project).root != NULL;
}

int live_enter(struct live_session *live, struct kg_err *err)
{
    struct host *host = live->sessions->host;
    if (live->entered)
        return 0;
    struct live_agent primary;
    int result = live_agent_find(live->sessions, live->project_id, "primary", &primary, err);
    if (result == 0)
        result = projects_enter(host, kg_str(live->project_id), err);
    if (result < 0)
        return kg_wrap(err, result, "session %s", live->id.text);
    live->entered = true;
    live->leaving = false;
    live_tell_awake(live);
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
    live_tell_awake(live);
    if (live->leaving)
        leave_project(live);
}

/* -- turns ------------------------------------------------------------------------------------- */

int live_check_no_run(const struct live_session *live, struct kg_err *err)
{
    if (live->run == NULL)
        return 0;
    if (live->run->moves)
        kg_fail(err, KG_E_CONFLICT, "session %s: it is being moved to another branch",
                live->id.text);
    else
        kg_fail(err, KG_E_CONFLICT, "session %s: a turn of %s runs", live->id.text,
                live->run->agent);
    kg_hint(err, "wait for its end, or kaged session cancel %s", live->id.text);
    return -EBUSY;
}

int live_run_begin(struct live_session *live, struct live_run *run, struct live_run *outer_or_null,
                   struct kg_err *err)
{
    int result = live->run != outer_or_null ? live_check_no_run(live, err) : 0;
    if (result < 0)
        return result;
    if (live->run != outer_or_null)
        return kg_fail(err, KG_E_CONFLICT, "session %s: the turn around it is over", live->id.text);
    for (const struct live_run *at = live->run; at != NULL; at = at->outer)
        if (strcmp(at->agent, run->agent) == 0)
            return kg_fail(err, KG_E_CONFLICT, "session %s: a turn of %s runs already",
                           live->id.text, run->agent);
    run->outer = live->run;
    live->run = run;
    live_hold(live);
    loop_timer_stop(live->sessions->loop, &live->idle_timer);
    return 0;
}

void live_run_end(struct live_session *live, struct live_run *run)
{
    struct live_run **link = &live->run;
    while (*link != run)
        link = &(*link)->outer;
    *link = run->outer;
    if (live->run == NULL && live->state == SESSION_ACTIVE && live->entered)
        live_activity(live);
    live_serve_wishes(live);
    live_release(live);
}

bool live_run_cancel(struct live_session *live, const struct kg_err *why)
{
    bool any = live->run != NULL;
    live_hold(live);
    for (struct live_run *run = live->run; run != NULL;) {
        if (run->cancelled) {
            run = run->outer;
            continue;
        }
        run->cancelled = true;
        run->cancel(run, why);
        run = live->run; /* it may have ended, and others with it */
    }
    live_release(live);
    return any;
}

/* -- all of them ------------------------------------------------------------------------------- */

static void live_let_go(struct live_session *live, const char *project_id,
                        const struct kg_err *why_or_null)
{
    struct kg_err why = why_or_null != NULL ? *why_or_null : (struct kg_err){0};
    if (why_or_null == NULL)
        kg_fail(&why, KG_E_CONFLICT, "session %s: project %s was unloaded", live->id.text,
                project_id);
    live->entered = false;
    live->leaving = true;
    live_tell_awake(live);
    loop_timer_stop(live->sessions->loop, &live->idle_timer);
    live_run_cancel(live, &why);
}

void sessions_let_go(struct sessions *sessions, const char *project,
                     const struct kg_err *why_or_null)
{
    struct kg_str key;
    void *value;
    for (size_t at = 0; kg_map_next(sessions->live, &at, &key, &value);) {
        struct live_session *live = value;
        if (strcmp(live->project_id, project) != 0)
            continue;
        live_hold(live);
        live_let_go(live, project, why_or_null);
        live_release(live);
    }
}

/* A project that is gone has no sessions left. */
static void live_on_project_change(struct projects_listener *listener, const char *id,
                                   struct projects_entry *project_or_null)
{
    struct sessions *sessions = KG_CONTAINER(listener, struct sessions, listener);
    if (project_or_null == NULL)
        sessions_let_go(sessions, id, NULL);
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
    kg_auto(kg_free) char *folder = kg_path_folder(parts->state_db);
    sessions->snapshots_dir = kg_path_join(folder, "snapshots");
    sessions->listener.on_change = live_on_project_change;
    projects_listen(sessions->host, &sessions->listener);
    live_serve_scripts(sessions, true);
    live_recover(sessions);
    return sessions;
}

/* Who ends may begin to wait anew. */
static void end_waits(struct sessions *sessions)
{
    struct kg_err err;
    live_fail_stopping(&err);
    while (sessions->stop.first != NULL)
        kg_waits_tell(&sessions->stop, &err);
}

void sessions_bring_model(struct sessions *sessions, const char *alias, struct local *own_or_null)
{
    models_bring(sessions->models, alias, own_or_null);
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
        live_run_cancel(live, &why);
    }
    end_waits(sessions);
    models_close(sessions->models);
}

/* What turns and operations end with is written by then, however far the database is. */
static void live_on_models_closed(void *data)
{
    struct sessions *sessions = data;
    session_store_when_idle(sessions->store, sessions->on_stopped, sessions->stopped_data);
}

void sessions_when_stopped(struct sessions *sessions, void (*on_stopped)(void *data), void *data)
{
    sessions->on_stopped = on_stopped;
    sessions->stopped_data = data;
    models_when_closed(sessions->models, live_on_models_closed, sessions);
}

void sessions_free(struct sessions *sessions)
{
    if (sessions == NULL)
        return;
    sessions_stop(sessions);
    end_waits(sessions);
    live_serve_scripts(sessions, false);
    session_store_free(sessions->store);
    struct kg_str id;
    void *value;
    for (size_t at = 0; kg_map_next(sessions->live, &at, &id, &value);)
        live_free(value);
    kg_map_free(sessions->live);
    models_free(sessions->models);
    projects_unlisten(sessions->host, &sessions->listener);
    free(sessions->snapshots_dir);
    free(sessions);
}
