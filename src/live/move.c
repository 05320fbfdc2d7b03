/*
 * A session moves to another branch: what was said last is undone, or redone, or it goes back to an
 * entry. That happens between turns, and none begins meanwhile. Scripts that listen may forbid it,
 * before anything is done. Files go with it where there is a snapshot of them; those of before are
 * kept first, and are put back if the move fails.
 */
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

struct move {
    struct live_op op;
    struct live_run run;
    bool begun;                   /* no turn can begin */
    bool cancelled;               /* while the store was at work */
    bool restoring;               /* files are being written */
    bool patched;                 /* a script said where it goes: it is not asked again */
    bool dry_run;                 /* nothing is done but told */
    bool files;                   /* they go with it, if there is a snapshot of them */
    struct live_wisher wisher;    /* the script that asked for it; no plugin: the operator did */
    char *target;                 /* owned; "": none */
    struct live_snapshot then;    /* how they are to be; without an id: they stay as they are */
    struct live_snapshot before;  /* how they were, */
    struct live_snapshot restore; /* and what was done to them, or would be */
    struct kg_err failure;        /* why all is put back */
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
    live_snapshot_clear(&move->then);
    live_snapshot_clear(&move->before);
    live_snapshot_clear(&move->restore);
    kg_buf_free(&move->told);
    live_wisher_clear(&move->wisher);
    free(move->target);
}

/* -- the answer -------------------------------------------------------------------------------- */

static void move_put_id(struct kg_json_writer *json, const char *key, const struct kg_id *id)
{
    kg_json_named_text(json, key, id->text[0] != '\0' ? id->text : NULL);
}

/* What is done to files, or would be; null: they stay as they are. */
static void move_put_files(struct kg_json_writer *json, const struct move *move)
{
    kg_json_key(json, "files");
    if (move->then.id.text[0] == '\0') {
        kg_json_null(json);
        return;
    }
    kg_json_begin(json, '{');
    kg_json_named_text(json, "snapshot", move->then.id.text);
    live_snapshot_put_changes(&move->restore, json);
    kg_json_end(json, '}');
}

static void move_answer(struct live_op *op)
{
    const struct move *move = move_of(op);
    struct kg_json_writer json = kg_json_writer(&op->json);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "session_id", op->work.live->id.text);
    kg_json_named_text(&json, "act", session_act_names[move->move.act]);
    kg_json_named_bool(&json, "applied", !move->dry_run);
    move_put_id(&json, "from", &move->move.from);
    move_put_id(&json, "to", &move->move.to);
    move_put_id(&json, "entry", &move->move.entry);
    kg_json_named_int(&json, "entries_before", (int64_t)move->move.entries);
    kg_json_named_int(&json, "entries_after", (int64_t)move->move.cut);
    kg_json_named_text(&json, "said", move->move.said);
    move_put_files(&json, move);
    kg_json_end(&json, '}');
    live_op_answer(op);
}

/* -- it is done -------------------------------------------------------------------------------- */

static int move_run_apply(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct move *move = KG_CONTAINER(job, struct move, op.work.job);
    const char *id = move->op.work.live->id.text;
    int result =
        session_move_apply(state, id, &move->move, move->before.tree ? move->before.id.text : NULL,
                           &move->session, err);
    return result == 0 && move->before.tree != NULL ? state_restore_end(state, id, err) : result;
}

static void fail_moved(struct live_work *work, const struct kg_err *err_or_null)
{
    struct move *move = KG_CONTAINER(work, struct move, op.work);
    struct kg_err err = move->failure;
    (void)err_or_null;
    live_op_fail(&move->op, &err);
}

static void move_on_put_back(struct live_work *work, const struct kg_err *err_or_null)
{
    struct move *move = KG_CONTAINER(work, struct move, op.work);
    live_restore_failed(work, &move->before, err_or_null, fail_moved);
}

/* Files that were touched are as they were before, then it fails. */
static void move_put_back(struct move *move, const struct kg_err *why)
{
    move->failure = *why;
    if (move->before.tree != NULL)
        live_snapshot_make(&move->restore, &move->op.work, SNAPSHOT_RESTORE, &move->before,
                           move_on_put_back);
    else
        fail_moved(&move->op.work, NULL);
}

static void move_on_applied(struct live_op *op)
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
    move_answer(op);
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

static void move_on_written(struct live_work *work, const struct kg_err *err_or_null)
{
    struct move *move = KG_CONTAINER(work, struct move, op.work);
    if (err_or_null != NULL)
        move_put_back(move, err_or_null);
    else
        move_on_applied(&move->op);
}

static void move_on_restored(struct live_work *work, const struct kg_err *err_or_null)
{
    struct move *move = KG_CONTAINER(work, struct move, op.work);
    if (err_or_null != NULL)
        move_put_back(move, err_or_null);
    else
        live_write(work, move_run_apply, move_on_written);
}

static int move_run_keep(struct session_job *job, struct state *state, struct kg_err *err)
{
    const struct move *move = KG_CONTAINER(job, struct move, op.work.job);
    return live_restore_begun(state, move->op.work.live->id.text, &move->before, err);
}

static void fail_cancelled(struct live_op *op)
{
    is_cancelled(op);
}

static void move_on_kept(struct live_op *op)
{
    struct move *move = move_of(op);
    if (move->cancelled) {
        live_op_write(op, live_restore_ended, fail_cancelled); /* no file was touched */
        return;
    }
    move->restoring = true;
    live_snapshot_make(&move->restore, &op->work, SNAPSHOT_RESTORE, &move->then, move_on_restored);
}

static void move_on_taken(struct live_op *op)
{
    live_op_write(op, move_run_keep, move_on_kept);
}

static void move_apply(struct live_op *op)
{
    struct move *move = move_of(op);
    if (is_cancelled(op))
        return;
    if (move->then.id.text[0] == '\0')
        live_write(&op->work, move_run_apply, move_on_written);
    else
        live_snapshot_make(&move->before, &op->work, SNAPSHOT_TAKE, NULL,
                           live_op_then(op, move_on_taken));
}

/* -- scripts may forbid it --------------------------------------------------------------------- */

static void when_compacted(struct live_op *op);

/* It goes elsewhere, as a script wants it: that is planned again. */
static void patch(struct live_op *op)
{
    struct move *move = move_of(op);
    enum session_act act = move->move.act;
    kg_replace(&move->target, move->scripts.patched);
    move->patched = true;
    session_move_clear(&move->move);
    live_snapshot_clear(&move->then);
    move->move.act = act;
    when_compacted(op);
}

static void on_heard(struct live_op *op)
{
    struct move *move = move_of(op);
    struct kg_err err;
    bool has_target = move->move.act != SESSION_MOVE_UNDO && move->move.act != SESSION_MOVE_REDO;
    if (move->scripts.cancelled == NULL) {
        if (move->scripts.patched != NULL && has_target)
            patch(op);
        else
            move_apply(op);
        return;
    }
    kg_fail(&err, KG_E_REFUSED, "session %s: script %s forbids the move: %" KG_S_CAUSE,
            op->work.live->id.text, move->scripts.last ? move->scripts.last : "",
            move->scripts.cancelled);
    live_op_fail(op, &err);
}

/* They hear where it goes: an entry, or the branch that it returns to. */
static void move_on_scripts(struct live_op *op)
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

static void move_on_started(struct live_op *op)
{
    if (!is_cancelled(op))
        live_scripts_start(&move_of(op)->scripts, &op->work, live_op_then(op, move_on_scripts));
}

/* -- it is planned ----------------------------------------------------------------------------- */

/* Whether the entry is a message of the user; then also the one before it, or "". */
static int move_look_at(struct state *state, const char *id, const char *entry, bool *ret_said,
                        struct kg_id *ret_before, struct kg_err *err)
{
    kg_auto(session_entries_clear) struct session_entries found = {0}, before = {0};
    int result = session_entry_find(state, id, kg_str(entry), &found, err);
    if (result < 0)
        return result;
    const struct session_entry *at = &found.items[0];
    *ret_said =
        at->kind == SESSION_MESSAGE && at->role == SESSION_USER && at->parent.text[0] == '\0';
    if (!*ret_said || at->seq < 2)
        return 0;
    const struct session_page_query query = {.after = at->seq - 2, .limit = 1};
    result = session_page(state, id, &query, &before, err);
    if (result == 0 && before.count > 0)
        *ret_before = before.items[0].id;
    return result;
}

/*
 * As they were when the entry was the last. What a turn found was kept before its message was
 * written, or, by a script, right behind it.
 */
static int find_files(struct move *move, struct state *state, struct kg_err *err)
{
    const char *id = move->op.work.live->id.text;
    const struct session_move *plan = &move->move;
    struct kg_id before = {{0}}, unused = {{0}};
    bool said = false, next_said = false;
    if (plan->act == SESSION_MOVE_REDO || plan->act == SESSION_MOVE_SWITCH)
        return plan->snapshot.text[0] == '\0'
                   ? 0
                   : live_snapshot_find(state, id, NULL, plan->snapshot.text, &move->then, err);
    int result = 0;
    if (plan->entry.text[0] != '\0')
        result = move_look_at(state, id, plan->entry.text, &said, &before, err);
    if (result == 0 && plan->next.text[0] != '\0')
        result = move_look_at(state, id, plan->next.text, &next_said, &unused, err);
    const char *const places[] = {next_said ? plan->next.text : "", plan->entry.text,
                                  said ? before.text : ""};
    for (size_t i = 0; i < KG_COUNT(places) && result == 0; i++)
        if (places[i][0] != '\0' && move->then.id.text[0] == '\0')
            result = live_snapshot_find(state, id, places[i], NULL, &move->then, err);
    return result;
}

static int move_run_plan(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct move *move = KG_CONTAINER(job, struct move, op.work.job);
    int result = session_move_plan(state, move->op.work.live->id.text, move->move.act,
                                   kg_str(move->target), &move->move, err);
    return result < 0 || !move->files ? result : find_files(move, state, err);
}

static void on_compared(struct live_op *op)
{
    move_answer(op);
}

static void move_on_planned(struct live_op *op)
{
    if (is_cancelled(op))
        return;
    struct move *move = move_of(op);
    if (move->then.folder != NULL && strcmp(move->then.folder, op->work.live->workdir) != 0)
        live_snapshot_clear(&move->then); /* it is of another folder */
    if (move->dry_run && move->then.id.text[0] != '\0')
        live_snapshot_make(&move->restore, &op->work, SNAPSHOT_COMPARE, &move->then,
                           live_op_then(op, on_compared));
    else if (move->dry_run)
        move_answer(op);
    else if (move->patched)
        move_apply(op);
    else
        live_start(&op->work, live_op_then(op, move_on_started));
}

static void when_compacted(struct live_op *op)
{
    const char *agent = live_compacting(op->work.live);
    if (is_cancelled(op))
        return;
    if (agent != NULL)
        live_when_compacted(&op->work, agent, live_op_then(op, when_compacted));
    else
        live_op_read(op, move_run_plan, move_on_planned);
}

/* The session is closed, or the daemon stops. */
static void move_on_run_cancel(struct live_run *run, const struct kg_err *why)
{
    struct move *move = KG_CONTAINER(run, struct move, run);
    struct kg_err err = *why;
    if (err.code == KG_OK)
        kg_fail(&err, KG_E_CANCELLED, "session %s: the move was cancelled",
                move->op.work.live->id.text);
    if (move->restoring)
        return; /* it is finished, or put back: half of it would be worse */
    move->cancelled = true;
    if (live_withdraw(&move->op.work))
        live_op_fail(&move->op, &err);
}

/* One that a script asked for waits for the next occasion. */
static void want_again(struct move *move)
{
    struct live_session *live = move->op.work.live;
    if (move->wisher.plugin == NULL || live->wanted != NULL || live->state == SESSION_CLOSED)
        return;
    live->wanted = kg_alloc(sizeof(*live->wanted));
    *live->wanted = (struct live_wanted){.act = move->move.act,
                                         .files = move->files,
                                         .target = kg_strdup(move->target),
                                         .wisher = move->wisher};
    move->wisher = (struct live_wisher){0};
}

static int move_begin(struct move *move, struct kg_err *err)
{
    struct live_session *live = move->op.work.live;
    int result = live->state == SESSION_CLOSED ? live_check_open(live, err) : 0;
    if (result < 0 || move->dry_run)
        return result;
    move->run = (struct live_run){.agent = "primary", .moves = true, .cancel = move_on_run_cancel};
    result = live_run_begin(live, &move->run, NULL, err);
    move->begun = result == 0;
    if (result < 0)
        want_again(move);
    return result;
}

static void move_open(struct live_op *op)
{
    struct kg_err err;
    if (move_begin(move_of(op), &err) < 0) {
        live_op_fail(op, &err);
        return;
    }
    live_work_for(&op->work, "primary");
    when_compacted(op);
}

static void move_start(struct sessions *sessions, const struct sessions_request *request,
                       const struct sessions_movement *wanted, struct live_wisher wisher)
{
    struct move *move = live_op_new(sizeof(*move), sessions, request, clear_move);
    move->move.act = wanted->act;
    move->target = kg_str_dup(wanted->target.data ? wanted->target : KG_STR(""));
    move->dry_run = wanted->dry_run;
    move->files = !wanted->conversation_only;
    move->wisher = wisher;
    if (live_op_admit(&move->op, !move->dry_run))
        live_op_open(&move->op, move_open);
}

void sessions_move(struct sessions *sessions, const struct sessions_request *request,
                   const struct sessions_movement *wanted)
{
    move_start(sessions, request, wanted, (struct live_wisher){0});
}

/* -- as scripts ask for it --------------------------------------------------------------------- */

bool live_move_wanted(struct live_session *live, struct host_asker *asker,
                      sessions_done_fn *on_done, void *data)
{
    struct live_wanted *wanted = live->wanted;
    if (wanted == NULL || live->run != NULL || live->sessions->stopping)
        return false;
    live->wanted = NULL;
    if (!live_wisher_stands(live, &wanted->wisher, "the move")) {
        live_wanted_free(wanted);
        return false;
    }
    const struct sessions_request request = {
        .asker = asker, .session = kg_str(live->id.text), .on_done = on_done, .data = data};
    const struct sessions_movement movement = {
        .act = wanted->act, .target = kg_str(wanted->target), .conversation_only = !wanted->files};
    move_start(live->sessions, &request, &movement, wanted->wisher);
    wanted->wisher = (struct live_wisher){0};
    live_wanted_free(wanted);
    return true;
}

static void move_on_moved(void *data, struct kg_str json, const struct kg_err *err_or_null)
{
    (void)data, (void)json;
    if (err_or_null != NULL)
        kg_log(KG_WARN, "a move that a script asked for was not made: %s", err_or_null->message);
}

void live_move_if_wanted(struct live_session *live)
{
    kg_auto(host_asker_cleanup) struct host_asker *asker = host_asker_new(live->operator_id, NULL);
    live_move_wanted(live, asker, move_on_moved, NULL);
}
