/* Sessions are made, forked, closed and resumed; entries are pinned; compactions are undone. */
#include "live/internal.h"

#include "redact/shared.h"

#include <errno.h>
#include <stdlib.h>

#define UNKNOWN_OPERATOR "unknown"

struct change {
    struct live_op op;
    char *project_id, *workdir, *seat, *title, *entry,
        *agent; /* owned: what the request said, or NULL */
    bool pinned;
    struct session session; /* as it is afterwards */
    struct session_agents agents;
    enum session_state state_before;
    char *seat_before;           /* owned */
    struct kg_id mark;           /* of what was undone */
    uint64_t tokens;             /* and what the context has now */
    struct live_scripts scripts; /* that may forbid a fork */
    struct kg_buf told;          /* to them */
};

static void clear_change(struct live_op *op)
{
    struct change *change = KG_CONTAINER(op, struct change, op);
    session_clear(&change->session);
    session_agents_clear(&change->agents);
    live_scripts_clear(&change->scripts);
    kg_buf_free(&change->told);
    free(change->project_id);
    free(change->workdir);
    free(change->seat);
    free(change->title);
    free(change->entry);
    free(change->agent);
    free(change->seat_before);
}

static struct change *live_change_new(struct sessions *sessions,
                                      const struct sessions_request *request)
{
    return live_op_new(sizeof(struct change), sessions, request, clear_change);
}

static struct audit *live_change_audit_of(const struct live_op *op)
{
    return host_audit(op->work.sessions->host);
}

static const char *operator_of(const struct live_op *op)
{
    return op->work.asker->operator_id ? op->work.asker->operator_id : UNKNOWN_OPERATOR;
}

static void answer_session(struct live_op *op)
{
    struct change *change = KG_CONTAINER(op, struct change, op);
    struct kg_json_writer json = kg_json_writer(&op->json);
    live_session_write(op->work.sessions, &change->session, &change->agents, &json);
    live_op_answer(op);
}

/* What the answer shows. */
static int read_back(struct change *change, struct state *state, const char *id, struct kg_err *err)
{
    session_clear(&change->session);
    int result = session_find(state, kg_str(id), &change->session, err);
    return result < 0 ? result : session_agents_read(state, id, &change->agents, err);
}

static char *live_change_copy(struct kg_str text)
{
    return text.data ? kg_str_dup(text) : NULL;
}

/* -- new ones ---------------------------------------------------------------------------------- */

static int run_create(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct change *change = KG_CONTAINER(job, struct change, op.work.job);
    const struct session_new new = {.project_id = change->project_id,
                                    .workdir = change->workdir,
                                    .operator_id = operator_of(&change->op),
                                    .seat = change->seat,
                                    .title = change->title};
    return session_create(state, &new, &change->session, err);
}

/* It is in its project from now on, so that plugins run by the time something is said. */
static void on_created(struct live_op *op)
{
    struct change *change = KG_CONTAINER(op, struct change, op);
    const struct session *session = &change->session;
    audit_emit(live_change_audit_of(op), AUDIT_SESSION_CREATED, kg_str(op->work.asker->request_id),
               AUDIT_V_TEXT(session->id.text), AUDIT_V_TEXT(session->project_id),
               AUDIT_V_TEXT(session->seat), AUDIT_V_TEXT(session->workdir),
               AUDIT_V_TEXT(op->work.asker->operator_id));
    struct kg_err err;
    struct live_session *live =
        op->work.sessions->stopping ? NULL : live_adopt(op->work.sessions, session, false, &err);
    if (live != NULL && live_enter(live, &err) < 0)
        kg_log(KG_DEBUG, "%s", err.message);
    answer_session(op);
}

static int check_project(struct change *change, struct kg_err *err)
{
    const struct sessions *sessions = change->op.work.sessions;
    struct projects_entry *project = projects_find(sessions->host, kg_str(change->project_id), err);
    if (project == NULL)
        return -ENOENT;
    struct projects_facts facts = projects_facts(project);
    if (facts.state != PROJECTS_ACTIVE) {
        kg_fail(err, KG_E_REFUSED, "project %s is %s: %s", facts.id,
                projects_state_names[facts.state], facts.reason ? facts.reason : "");
        kg_hint(err, "kaged project consent list");
        return -EPERM;
    }
    struct live_agent agent;
    if (change->workdir == NULL)
        change->workdir = kg_strdup(facts.root ? facts.root : "/"); /* where there is no folder */
    if (change->seat == NULL)
        change->seat = kg_strdup("primary");
    return live_agent_find(sessions, change->project_id, change->seat, &agent, err);
}

/* What is kept of a session has no secret in it. */
static char *shown_copy(struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    return live_change_copy(redact_put_shared(text, &shown) ? kg_buf_view(&shown) : text);
}

void sessions_create(struct sessions *sessions, const struct sessions_request *request,
                     const struct sessions_wanted *wanted)
{
    struct change *change = live_change_new(sessions, request);
    struct kg_err err;
    change->project_id = kg_str_dup(wanted->project_id);
    change->workdir = live_change_copy(wanted->workdir);
    change->seat = live_change_copy(wanted->seat);
    change->title = shown_copy(wanted->title);
    if (!live_op_admit(&change->op, true))
        return;
    if (check_project(change, &err) < 0)
        live_op_fail_later(&change->op, &err);
    else
        live_op_write(&change->op, run_create, on_created);
}

static int run_fork(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct change *change = KG_CONTAINER(job, struct change, op.work.job);
    kg_auto(session_clear) struct session parent = {0};
    int result = session_find(state, kg_str(change->op.session), &parent, err);
    if (result == 0)
        result = session_fork(state, parent.id.text, kg_str(change->entry ? change->entry : ""),
                              operator_of(&change->op), &change->session, err);
    return result < 0 ? result
                      : session_agents_read(state, change->session.id.text, &change->agents, err);
}

static void on_forked(struct live_op *op)
{
    struct change *change = KG_CONTAINER(op, struct change, op);
    const struct session *session = &change->session;
    const char *entry = session->parent_entry.text;
    audit_emit(live_change_audit_of(op), AUDIT_SESSION_FORKED, kg_str(op->work.asker->request_id),
               AUDIT_V_TEXT(session->id.text), AUDIT_V_TEXT(session->project_id),
               AUDIT_V_TEXT(session->parent.text), AUDIT_V_TEXT(entry[0] ? entry : NULL),
               AUDIT_V_TEXT(op->work.asker->operator_id));
    answer_session(op);
}

static void fork_heard(struct live_op *op)
{
    struct change *change = KG_CONTAINER(op, struct change, op);
    const struct live_scripts *heard = &change->scripts;
    struct kg_err err;
    if (heard->cancelled != NULL) {
        kg_fail(&err, KG_E_REFUSED, "session %s: script %s forbids the fork: %" KG_S_CAUSE,
                op->work.live->id.text, heard->last ? heard->last : "", heard->cancelled);
        live_op_fail(op, &err);
        return;
    }
    if (heard->patched != NULL)
        kg_replace(&change->entry, heard->patched);
    live_op_write(op, run_fork, on_forked);
}

/* Scripts that listen hear at which entry, and none is started for that. */
static void fork_open(struct live_op *op)
{
    struct change *change = KG_CONTAINER(op, struct change, op);
    live_work_for(&op->work, "primary");
    change->scripts.work = &op->work;
    kg_json_put_string(&change->told, kg_str(change->entry ? change->entry : ""));
    live_scripts_tell(&change->scripts, "session_before_fork", kg_buf_view(&change->told),
                      live_op_then(op, fork_heard));
}

void sessions_fork(struct sessions *sessions, const struct sessions_request *request,
                   struct kg_str entry)
{
    struct change *change = live_change_new(sessions, request);
    change->entry = live_change_copy(entry);
    if (live_op_admit(&change->op, true))
        live_op_open(&change->op, fork_open);
}

/* -- closed, and open again -------------------------------------------------------------------- */

static int run_close(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct change *change = KG_CONTAINER(job, struct change, op.work.job);
    const char *id = change->op.work.live->id.text;
    int result = session_set_state(state, id, SESSION_CLOSED, err);
    return result < 0 ? result : read_back(change, state, id, err);
}

static void live_change_on_closed(struct live_op *op)
{
    const struct live_session *live = op->work.live;
    bool was_closed = live->state == SESSION_CLOSED;
    live_set_state(op->work.live, SESSION_CLOSED);
    live_scripts_end(op->work.live);
    if (!was_closed)
        audit_emit(live_change_audit_of(op), AUDIT_SESSION_CLOSED,
                   kg_str(op->work.asker->request_id), AUDIT_V_TEXT(live->id.text),
                   AUDIT_V_TEXT(live->project_id), AUDIT_V_TEXT(op->work.asker->operator_id));
    answer_session(op);
}

static void close_open(struct live_op *op)
{
    struct kg_err why;
    kg_fail(&why, KG_E_CONFLICT, "session %s: it is being closed", op->work.live->id.text);
    live_run_cancel(op->work.live, &why);
    live_op_write(op, run_close, live_change_on_closed);
}

void sessions_close(struct sessions *sessions, const struct sessions_request *request)
{
    struct change *change = live_change_new(sessions, request);
    if (live_op_admit(&change->op, true))
        live_op_open(&change->op, close_open);
}

static int run_resume(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct change *change = KG_CONTAINER(job, struct change, op.work.job);
    const char *id = change->op.work.live->id.text;
    int result = session_set_state(state, id, SESSION_ACTIVE, err);
    if (result == 0 && change->seat != NULL)
        result = session_move_seat(state, id, change->seat, err);
    return result < 0 ? result : read_back(change, state, id, err);
}

static void audit_resumed(const struct change *change)
{
    const struct live_op *op = &change->op;
    const struct session *session = &change->session;
    if (change->state_before != SESSION_ACTIVE)
        audit_emit(live_change_audit_of(op), AUDIT_SESSION_RESUMED,
                   kg_str(op->work.asker->request_id), AUDIT_V_TEXT(session->id.text),
                   AUDIT_V_TEXT(session->project_id),
                   AUDIT_V_TEXT(session_state_names[change->state_before]),
                   AUDIT_V_TEXT(op->work.asker->operator_id));
    if (strcmp(change->seat_before, session->seat) != 0)
        audit_emit(live_change_audit_of(op), AUDIT_SESSION_SEAT_MOVED,
                   kg_str(op->work.asker->request_id), AUDIT_V_TEXT(session->id.text),
                   AUDIT_V_TEXT(session->project_id), AUDIT_V_TEXT(change->seat_before),
                   AUDIT_V_TEXT(session->seat), AUDIT_V_TEXT(op->work.asker->operator_id));
}

static void on_resumed(struct live_op *op)
{
    struct change *change = KG_CONTAINER(op, struct change, op);
    struct live_session *live = op->work.live;
    struct kg_err err;
    live_set_state(live, SESSION_ACTIVE);
    free(live->seat);
    live->seat = kg_strdup(change->session.seat);
    audit_resumed(change);
    if (!op->work.sessions->stopping && live_enter(live, &err) < 0)
        kg_log(KG_DEBUG, "%s", err.message);
    answer_session(op);
}

static int check_resume(struct change *change, struct kg_err *err)
{
    const struct live_session *live = change->op.work.live;
    struct live_agent agent;
    int result = live_check_no_run(live, err);
    if (result < 0)
        return result;
    return live_agent_find(live->sessions, live->project_id,
                           change->seat ? change->seat : live->seat, &agent, err);
}

static void resume_open(struct live_op *op)
{
    struct change *change = KG_CONTAINER(op, struct change, op);
    struct kg_err err;
    if (check_resume(change, &err) < 0) {
        live_op_fail(op, &err);
        return;
    }
    change->state_before = op->work.live->state;
    change->seat_before = kg_strdup(op->work.live->seat);
    live_op_write(op, run_resume, on_resumed);
}

void sessions_resume(struct sessions *sessions, const struct sessions_request *request,
                     struct kg_str seat)
{
    struct change *change = live_change_new(sessions, request);
    change->seat = live_change_copy(seat);
    if (live_op_admit(&change->op, true))
        live_op_open(&change->op, resume_open);
}

/* -- entries ----------------------------------------------------------------------------------- */

static int run_pin(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct change *change = KG_CONTAINER(job, struct change, op.work.job);
    kg_auto(session_clear) struct session session = {0};
    kg_auto(session_entries_clear) struct session_entries found = {0};
    int result = session_find(state, kg_str(change->op.session), &session, err);
    if (result == 0)
        result = session_pin(state, session.id.text, kg_str(change->entry), change->pinned, err);
    if (result == 0)
        result = session_entry_find(state, session.id.text, kg_str(change->entry), &found, err);
    if (result < 0)
        return result;
    struct kg_json_writer json = kg_json_writer(&change->op.json);
    live_entry_write(&found.items[0], &json);
    return 0;
}

void sessions_pin(struct sessions *sessions, const struct sessions_request *request,
                  struct kg_str entry, bool pinned)
{
    struct change *change = live_change_new(sessions, request);
    change->entry = kg_str_dup(entry);
    change->pinned = pinned;
    if (live_op_admit(&change->op, true))
        live_op_write(&change->op, run_pin, live_op_answer);
}

/* -- a compaction is taken back ---------------------------------------------------------------- */

static int run_undo(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct change *change = KG_CONTAINER(job, struct change, op.work.job);
    const char *id = change->op.work.live->id.text;
    int result = session_compaction_undo(state, id, change->agent, &change->mark, err);
    if (result == 0)
        result = read_back(change, state, id, err);
    return result < 0 ? result
                      : session_agent_tokens(state, &change->session, change->agent,
                                             &change->tokens, NULL, err);
}

static void on_undone(struct live_op *op)
{
    struct change *change = KG_CONTAINER(op, struct change, op);
    struct kg_json_writer json = kg_json_writer(&op->json);
    if (op->work.live->state == SESSION_STOPPED)
        live_set_state(op->work.live, change->session.state);
    audit_emit(live_change_audit_of(op), AUDIT_COMPACTION_UNDONE,
               kg_str(op->work.asker->request_id), AUDIT_V_TEXT(op->work.live->id.text),
               AUDIT_V_TEXT(change->agent), AUDIT_V_TEXT(change->mark.text),
               AUDIT_V_TEXT(op->work.asker->operator_id));
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "mark", change->mark.text);
    kg_json_named_text(&json, "agent", change->agent);
    kg_json_named_int(&json, "tokens", (int64_t)change->tokens);
    kg_json_named_text(&json, "state", session_state_names[change->session.state]);
    kg_json_end(&json, '}');
    live_op_answer(op);
}

static void undo_free(struct live_op *op)
{
    live_op_write(op, run_undo, on_undone);
}

static void undo_open(struct live_op *op)
{
    struct change *change = KG_CONTAINER(op, struct change, op);
    if (change->agent == NULL)
        change->agent = kg_strdup(op->work.live->seat);
    live_when_compacted(&op->work, change->agent, live_op_then(op, undo_free));
}

void sessions_undo(struct sessions *sessions, const struct sessions_request *request,
                   struct kg_str agent)
{
    struct change *change = live_change_new(sessions, request);
    change->agent = live_change_copy(agent);
    if (live_op_admit(&change->op, true))
        live_op_open(&change->op, undo_open);
}
