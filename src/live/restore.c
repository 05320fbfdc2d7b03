/*
 * Snapshots by request: one is taken, or files become those of one, between turns. What they were
 * before is kept first, so that this can be taken back like anything else.
 */
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

struct restore {
    struct live_op op;
    struct live_run run;
    bool begun;                   /* no turn can begin */
    bool dry_run;                 /* nothing is done but told */
    char *id;                     /* owned; of the snapshot; NULL: one is taken */
    struct live_snapshot then;    /* that one */
    struct live_snapshot before;  /* what is taken */
    struct live_snapshot restore; /* what is done to files */
    struct kg_err failure;        /* why all is put back */
};

static struct restore *restore_of(struct live_op *op)
{
    return KG_CONTAINER(op, struct restore, op);
}

static void clear_restore(struct live_op *op)
{
    struct restore *restore = restore_of(op);
    if (restore->begun)
        live_run_end(op->work.live, &restore->run);
    live_snapshot_clear(&restore->then);
    live_snapshot_clear(&restore->before);
    live_snapshot_clear(&restore->restore);
    free(restore->id);
}

/* -- one is taken ------------------------------------------------------------------------------ */

static int live_restore_run_keep(struct session_job *job, struct state *state, struct kg_err *err)
{
    const struct restore *restore = KG_CONTAINER(job, struct restore, op.work.job);
    return live_snapshot_keep(state, restore->op.work.live->id.text, &restore->before, err);
}

static void answer_taken(struct live_op *op)
{
    const struct live_snapshot *taken = &restore_of(op)->before;
    struct kg_json_writer json = kg_json_writer(&op->json);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "id", taken->id.text);
    kg_json_named_int(&json, "files", taken->files);
    kg_json_named_int(&json, "bytes", taken->bytes);
    kg_json_named_raw(&json, "left_out", kg_buf_view(&taken->left_out));
    kg_json_named_int(&json, "left_out_count", taken->left_out_count);
    kg_json_end(&json, '}');
    live_op_answer(op);
}

static void live_restore_keep_taken(struct live_op *op)
{
    live_op_write(op, live_restore_run_keep, answer_taken);
}

static void take_open(struct live_op *op)
{
    live_snapshot_make(&restore_of(op)->before, &op->work, SNAPSHOT_TAKE, NULL,
                       live_op_then(op, live_restore_keep_taken));
}

void sessions_snapshot(struct sessions *sessions, const struct sessions_request *request)
{
    struct restore *restore = live_op_new(sizeof(*restore), sessions, request, clear_restore);
    if (live_op_admit(&restore->op, true))
        live_op_open(&restore->op, take_open);
}

/* -- files become those of one ----------------------------------------------------------------- */

static void answer_restored(struct live_op *op)
{
    const struct restore *restore = restore_of(op);
    struct kg_json_writer json = kg_json_writer(&op->json);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "before", restore->dry_run ? NULL : restore->before.id.text);
    live_snapshot_put_changes(&restore->restore, &json);
    kg_json_end(&json, '}');
    live_op_answer(op);
}

static void fail_restored(struct live_work *work, const struct kg_err *err_or_null)
{
    struct restore *restore = KG_CONTAINER(work, struct restore, op.work);
    struct kg_err err = restore->failure;
    (void)err_or_null;
    live_op_fail(&restore->op, &err);
}

static void live_restore_on_put_back(struct live_work *work, const struct kg_err *err_or_null)
{
    struct restore *restore = KG_CONTAINER(work, struct restore, op.work);
    live_restore_failed(work, &restore->before, err_or_null, fail_restored);
}

static void live_restore_on_restored(struct live_work *work, const struct kg_err *err_or_null)
{
    struct restore *restore = KG_CONTAINER(work, struct restore, op.work);
    if (err_or_null == NULL) {
        live_op_write(&restore->op, live_restore_ended, answer_restored);
        return;
    }
    restore->failure = *err_or_null;
    live_snapshot_make(&restore->restore, work, SNAPSHOT_RESTORE, &restore->before,
                       live_restore_on_put_back);
}

static void live_restore_on_kept(struct live_op *op)
{
    struct restore *restore = restore_of(op);
    live_snapshot_make(&restore->restore, &op->work, SNAPSHOT_RESTORE, &restore->then,
                       live_restore_on_restored);
}

static int run_begun(struct session_job *job, struct state *state, struct kg_err *err)
{
    const struct restore *restore = KG_CONTAINER(job, struct restore, op.work.job);
    return live_restore_begun(state, restore->op.work.live->id.text, &restore->before, err);
}

static void live_restore_on_taken(struct live_op *op)
{
    live_op_write(op, run_begun, live_restore_on_kept);
}

static int live_restore_run_find(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct restore *restore = KG_CONTAINER(job, struct restore, op.work.job);
    const struct live_session *live = restore->op.work.live;
    int result = live_snapshot_find(state, live->id.text, NULL, restore->id, &restore->then, err);
    if (result < 0)
        return result;
    if (restore->then.id.text[0] == '\0' || strcmp(restore->then.folder, live->workdir) != 0)
        return kg_fail(err, KG_E_NOT_FOUND, "session %s: snapshot %" KG_S_NAME " does not exist",
                       live->id.text, restore->id);
    return 0;
}

static void live_restore_on_found(struct live_op *op)
{
    struct restore *restore = restore_of(op);
    if (restore->dry_run)
        live_snapshot_make(&restore->restore, &op->work, SNAPSHOT_COMPARE, &restore->then,
                           live_op_then(op, answer_restored));
    else
        live_snapshot_make(&restore->before, &op->work, SNAPSHOT_TAKE, NULL,
                           live_op_then(op, live_restore_on_taken));
}

/* What was begun is finished: half of it would be worse. */
static void live_restore_on_run_cancel(struct live_run *run, const struct kg_err *why)
{
    (void)run, (void)why;
}

static void restore_open(struct live_op *op)
{
    struct restore *restore = restore_of(op);
    struct live_session *live = op->work.live;
    struct kg_err err;
    restore->run =
        (struct live_run){.agent = "primary", .moves = true, .cancel = live_restore_on_run_cancel};
    if (!restore->dry_run && live_run_begin(live, &restore->run, NULL, &err) < 0) {
        live_op_fail(op, &err);
        return;
    }
    restore->begun = !restore->dry_run;
    live_op_read(op, live_restore_run_find, live_restore_on_found);
}

void sessions_restore(struct sessions *sessions, const struct sessions_request *request,
                      struct kg_str id, bool dry_run)
{
    struct restore *restore = live_op_new(sizeof(*restore), sessions, request, clear_restore);
    restore->id = kg_str_dup(id);
    restore->dry_run = dry_run;
    if (live_op_admit(&restore->op, !dry_run))
        live_op_open(&restore->op, restore_open);
}
