/*
 * Files that were being put back when the daemon ended. What they were before was kept first, and
 * that it was begun is in kaged.db: at the next start they become that again, before anything is
 * said in the session, and the log and the audit log say so. What is found there is kept, too, so
 * that nothing of it is lost.
 */
#include "live/internal.h"

#include <stdlib.h>

/* -- what is written down ---------------------------------------------------------------------- */

int live_restore_begun(struct state *state, const char *session, const struct live_snapshot *before,
                       struct kg_err *err)
{
    int result = live_snapshot_keep(state, session, before, err);
    return result < 0 ? result : state_restore_begin(state, session, before->id.text, err);
}

int live_restore_ended(struct session_job *job, struct state *state, struct kg_err *err)
{
    const struct live_work *work = KG_CONTAINER(job, struct live_work, job);
    return state_restore_end(state, work->live->id.text, err);
}

void live_restore_failed(struct live_work *work, const struct live_snapshot *before,
                         const struct kg_err *err_or_null, live_next_fn *next)
{
    if (err_or_null != NULL && work->sessions->stopping) {
        kg_log(KG_WARN, "session %s: its files are put back as they were at the next start",
               work->live->id.text);
        next(work, NULL);
        return;
    }
    if (err_or_null != NULL)
        kg_log(
            KG_ERROR_LEVEL,
            "session %s: its files could not be put back as they were, which snapshot %s has: %s",
            work->live->id.text, before->id.text, err_or_null->message);
    live_write(work, live_restore_ended, next);
}

/* -- one session ------------------------------------------------------------------------------- */

struct recovery {
    struct live_op op;
    struct live_run run;
    bool begun;
    char *snapshot;              /* owned; the id of what the files were, */
    struct live_snapshot before; /* and what is known of it */
    struct live_snapshot found, restore;
};

static struct recovery *recovery_of(struct live_op *op)
{
    return KG_CONTAINER(op, struct recovery, op);
}

static void clear_recovery(struct live_op *op)
{
    struct recovery *recovery = recovery_of(op);
    if (recovery->begun)
        live_run_end(op->work.live, &recovery->run);
    live_snapshot_clear(&recovery->before);
    live_snapshot_clear(&recovery->found);
    live_snapshot_clear(&recovery->restore);
    free(recovery->snapshot);
}

static void recovery_ended(struct live_op *op)
{
    const struct recovery *recovery = recovery_of(op);
    const struct live_session *live = op->work.live;
    kg_log(
        KG_WARN,
        "session %s: kaged ended while files of %s were being put back: they are again what they "
        "were before, %lld of them changed; what was found is snapshot %s",
        live->id.text, live->workdir, (long long)recovery->restore.change_count,
        recovery->found.id.text);
    audit_emit(host_audit(op->work.sessions->host), AUDIT_SESSION_FILES_RECOVERED, KG_STR_NULL,
               AUDIT_V_TEXT(live->id.text), AUDIT_V_TEXT(live->project_id),
               AUDIT_V_TEXT(recovery->before.id.text), AUDIT_V_TEXT(recovery->found.id.text));
    live_op_answer(op);
}

static void recovery_restored(struct live_op *op)
{
    live_op_write(op, live_restore_ended, recovery_ended);
}

static int recovery_keep(struct session_job *job, struct state *state, struct kg_err *err)
{
    const struct recovery *recovery = KG_CONTAINER(job, struct recovery, op.work.job);
    return live_snapshot_keep(state, recovery->op.work.live->id.text, &recovery->found, err);
}

static void recovery_kept(struct live_op *op)
{
    struct recovery *recovery = recovery_of(op);
    live_snapshot_make(&recovery->restore, &op->work, SNAPSHOT_RESTORE, &recovery->before,
                       live_op_then(op, recovery_restored));
}

static void recovery_taken(struct live_op *op)
{
    live_op_write(op, recovery_keep, recovery_kept);
}

static int recovery_find(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct recovery *recovery = KG_CONTAINER(job, struct recovery, op.work.job);
    const struct live_session *live = recovery->op.work.live;
    int result =
        live_snapshot_find(state, live->id.text, NULL, recovery->snapshot, &recovery->before, err);
    if (result == 0 && recovery->before.id.text[0] == '\0')
        return kg_fail(err, KG_E_NOT_FOUND, "snapshot %s no longer exists", recovery->snapshot);
    return result;
}

static void recovery_found(struct live_op *op)
{
    live_snapshot_make(&recovery_of(op)->found, &op->work, SNAPSHOT_TAKE, NULL,
                       live_op_then(op, recovery_taken));
}

/* What was begun is finished. */
static void live_recover_on_run_cancel(struct live_run *run, const struct kg_err *why)
{
    (void)run, (void)why;
}

static void recovery_open(struct live_op *op)
{
    struct recovery *recovery = recovery_of(op);
    struct kg_err err;
    recovery->run =
        (struct live_run){.agent = "primary", .moves = true, .cancel = live_recover_on_run_cancel};
    if (live_run_begin(op->work.live, &recovery->run, NULL, &err) < 0) {
        live_op_fail(op, &err);
        return;
    }
    recovery->begun = true;
    live_op_read(op, recovery_find, recovery_found);
}

/* Where it fails the note stays, and the next start tries again. */
static void on_recovered(void *data, struct kg_str json, const struct kg_err *err_or_null)
{
    (void)data, (void)json;
    if (err_or_null != NULL)
        kg_log(KG_ERROR_LEVEL,
               "files that were being put back when kaged ended may be incomplete: %s",
               err_or_null->message);
}

/* -- all of them ------------------------------------------------------------------------------- */

struct recovering {
    struct session_job job;
    struct sessions *sessions;
    char **found; /* owned list: a session, a snapshot, and so on */
};

static void see_restore(void *data, const char *session, const char *snapshot)
{
    struct recovering *recovering = data;
    kg_list_add(&recovering->found, kg_strdup(session));
    kg_list_add(&recovering->found, kg_strdup(snapshot));
}

static int run_recovering(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct recovering *recovering = KG_CONTAINER(job, struct recovering, job);
    return state_restores(state, see_restore, recovering, err);
}

static void recovery_start(struct sessions *sessions, const char *session, const char *snapshot)
{
    kg_auto(host_asker_cleanup) struct host_asker *asker = host_asker_new(NULL, NULL);
    const struct sessions_request request = {
        .asker = asker, .session = kg_str(session), .on_done = on_recovered};
    struct recovery *recovery = live_op_new(sizeof(*recovery), sessions, &request, clear_recovery);
    recovery->snapshot = kg_strdup(snapshot);
    if (live_op_admit(&recovery->op, true))
        live_op_open(&recovery->op, recovery_open);
}

static void on_recovering(struct session_job *job, const struct kg_err *err_or_null)
{
    struct recovering *recovering = KG_CONTAINER(job, struct recovering, job);
    if (err_or_null != NULL)
        on_recovered(NULL, KG_STR_NULL, err_or_null);
    for (char **at = recovering->found; err_or_null == NULL && *at != NULL; at += 2)
        recovery_start(recovering->sessions, at[0], at[1]);
    kg_list_free(recovering->found);
    free(recovering);
}

void live_recover(struct sessions *sessions)
{
    struct recovering *recovering = kg_alloc(sizeof(*recovering));
    recovering->sessions = sessions;
    recovering->found = kg_list_new(0);
    recovering->job.run = run_recovering;
    recovering->job.done = on_recovering;
    session_store_read(sessions->store, &recovering->job);
}
