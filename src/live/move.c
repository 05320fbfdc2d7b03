/*
 * A session moves to another branch: what was said last is undone, or redone, or it goes back to an
 * entry. That happens between turns, and none begins meanwhile. Scripts that listen may forbid it,
 * before anything is done.
 */
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

struct move {
    struct live_op op;
    struct live_run run;
    bool begun;     /* no turn can begin */
    bool cancelled; /* while the store was at work */
    bool dry_run;   /* nothing is done but told */
    char *target;   /* owned; "": none */
    struct live_scripts scripts;
    struct session_move move;
    struct session session; /* as it is afterwards */
    struct kg_buf told;     /* to scripts */
};

static struct move *move_of(struct live_op *op)
{
    return KG_CONTAINER(op, struct move, op);
}

static void clear_move(struct live_op *op)
{
    struct move *move = move_of(op);
    if (move->begun)
        live_run_end(op->work.live, &move->run);
    live_scripts_clear(&move->scripts);
    session_move_clear(&move->move);
    session_clear(&move->session);
    kg_buf_free(&move->told);
    free(move->target);
}

/* -- the answer -------------------------------------------------------------------------------- */

static void put_id(struct kg_json_writer *json, const char *key, const struct kg_id *id)
{
    kg_json_named_text(json, key, id->text[0] != '\0' ? id->text : NULL);
}

static void answer(struct live_op *op)
{
    const struct move *move = move_of(op);
    struct kg_json_writer json = kg_json_writer(&op->json);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "session_id", op->work.live->id.text);
    kg_json_named_text(&json, "act", session_act_names[move->move.act]);
    kg_json_named_bool(&json, "applied", !move->dry_run);
    put_id(&json, "from", &move->move.from);
    put_id(&json, "to", &move->move.to);
    put_id(&json, "entry", &move->move.entry);
    kg_json_named_int(&json, "entries_before", (int64_t)move->move.entries);
    kg_json_named_int(&json, "entries_after", (int64_t)move->move.cut);
    kg_json_named_text(&json, "said", move->move.said);
    kg_json_end(&json, '}');
    live_op_answer(op);
}

/* -- it is done -------------------------------------------------------------------------------- */

static int run_apply(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct move *move = KG_CONTAINER(job, struct move, op.work.job);
    return session_move_apply(state, move->op.work.live->id.text, &move->move, NULL, &move->session,
                              err);
}

static void on_applied(struct live_op *op)
{
    struct move *move = move_of(op);
    struct live_session *live = op->work.live;
    const struct session_move *done = &move->move;
    struct host *host = op->work.sessions->host;
    live->branch = done->to;
    kg_replace(&live->seat, move->session.seat);
    if (live->state != SESSION_CLOSED)
        live_set_state(live, move->session.state);
    audit_emit(host_audit(host), AUDIT_SESSION_BRANCH_MOVED, kg_str(op->work.asker->request_id),
               AUDIT_V_TEXT(live->id.text), AUDIT_V_TEXT(live->project_id),
               AUDIT_V_TEXT(session_act_names[done->act]), AUDIT_V_TEXT(done->from.text),
               AUDIT_V_TEXT(done->to.text),
               AUDIT_V_TEXT(done->entry.text[0] ? done->entry.text : NULL),
               AUDIT_V_TEXT(op->work.asker->operator_id));
    host_events_branch(host_events(host), live->id.text, done->from.text, done->to.text);
    answer(op);
}

static bool is_cancelled(struct live_op *op)
{
    struct kg_err err;
    if (!move_of(op)->cancelled)
        return false;
    kg_fail(&err, KG_E_CANCELLED, "session %s: the move was cancelled", op->work.live->id.text);
    live_op_fail(op, &err);
    return true;
}

static void apply(struct live_op *op)
{
    if (!is_cancelled(op))
        live_op_write(op, run_apply, on_applied);
}

/* -- scripts may forbid it --------------------------------------------------------------------- */

static void on_heard(struct live_op *op)
{
    struct move *move = move_of(op);
    struct kg_err err;
    if (move->scripts.cancelled == NULL) {
        apply(op);
        return;
    }
    kg_fail(&err, KG_E_REFUSED, "session %s: script %s forbids the move: %.400s",
            op->work.live->id.text, move->scripts.last ? move->scripts.last : "",
            move->scripts.cancelled);
    live_op_fail(op, &err);
}

/* They hear where it goes: an entry, or the branch that it returns to. */
static void on_scripts(struct live_op *op)
{
    struct move *move = move_of(op);
    const struct session_move *plan = &move->move;
    const char *where = plan->to.text[0] != '\0'       ? plan->to.text
                        : plan->source.text[0] != '\0' ? plan->source.text
                                                       : plan->entry.text;
    if (is_cancelled(op))
        return;
    kg_json_put_string(&move->told, kg_str(where));
    live_scripts_tell(&move->scripts, "session_before_switch", kg_buf_view(&move->told),
                      live_op_then(op, on_heard));
}

static void on_started(struct live_op *op)
{
    if (!is_cancelled(op))
        live_scripts_start(&move_of(op)->scripts, &op->work, live_op_then(op, on_scripts));
}

/* -- it is planned ----------------------------------------------------------------------------- */

static int run_plan(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct move *move = KG_CONTAINER(job, struct move, op.work.job);
    return session_move_plan(state, move->op.work.live->id.text, move->move.act,
                             kg_str(move->target), &move->move, err);
}

static void on_planned(struct live_op *op)
{
    if (is_cancelled(op))
        return;
    if (move_of(op)->dry_run)
        answer(op);
    else
        live_start(&op->work, live_op_then(op, on_started));
}

static void when_compacted(struct live_op *op)
{
    const char *agent = live_compacting(op->work.live);
    if (is_cancelled(op))
        return;
    if (agent != NULL)
        live_when_compacted(&op->work, agent, live_op_then(op, when_compacted));
    else
        live_op_read(op, run_plan, on_planned);
}

/* The session is closed, or the daemon stops. */
static void on_run_cancel(struct live_run *run, const struct kg_err *why)
{
    struct move *move = KG_CONTAINER(run, struct move, run);
    struct kg_err err = *why;
    if (err.code == KG_OK)
        kg_fail(&err, KG_E_CANCELLED, "session %s: the move was cancelled",
                move->op.work.live->id.text);
    move->cancelled = true;
    if (live_withdraw(&move->op.work))
        live_op_fail(&move->op, &err);
}

static int begin(struct move *move, struct kg_err *err)
{
    struct live_session *live = move->op.work.live;
    int result = live->state == SESSION_CLOSED ? live_check_open(live, err) : 0;
    if (result < 0 || move->dry_run)
        return result;
    move->run = (struct live_run){.agent = "primary", .moves = true, .cancel = on_run_cancel};
    result = live_run_begin(live, &move->run, NULL, err);
    move->begun = result == 0;
    return result;
}

static void move_open(struct live_op *op)
{
    struct kg_err err;
    if (begin(move_of(op), &err) < 0) {
        live_op_fail(op, &err);
        return;
    }
    live_work_for(&op->work, "primary");
    when_compacted(op);
}

void sessions_move(struct sessions *sessions, const struct sessions_request *request,
                   const struct sessions_movement *wanted)
{
    struct move *move = live_op_new(sizeof(*move), sessions, request, clear_move);
    move->move.act = wanted->act;
    move->target = kg_str_dup(wanted->target.data ? wanted->target : KG_STR(""));
    move->dry_run = wanted->dry_run;
    if (live_op_admit(&move->op, !move->dry_run))
        live_op_open(&move->op, move_open);
}
