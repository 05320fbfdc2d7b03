/*
 * An operation lives from its request to its one answer, whatever happens between, and frees itself
 * with it. Each step is told here where it ends: on the store, or with a session at hand.
 */
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

static void op_free(struct live_op *op)
{
    if (op->clear != NULL)
        op->clear(op);
    if (op->live != NULL)
        live_release(op->live);
    kg_buf_free(&op->json);
    free(op->session);
    host_asker_unref(op->asker);
    free(op);
}

void *live_op_new(size_t size, struct sessions *sessions, const struct sessions_request *request,
                  void (*clear)(struct live_op *op))
{
    struct live_op *op = kg_alloc(size);
    op->sessions = sessions;
    op->asker = host_asker_ref(request->asker);
    op->session = kg_str_dup(request->session);
    op->on_done = request->on_done;
    op->data = request->data;
    op->clear = clear;
    return op;
}

void live_op_answer(struct live_op *op)
{
    op->on_done(op->data, kg_buf_view(&op->json), NULL);
    op_free(op);
}

void live_op_fail(struct live_op *op, const struct kg_err *err)
{
    op->on_done(op->data, KG_STR_NULL, err);
    op_free(op);
}

static void on_fail_task(struct loop_task *task)
{
    struct live_op *op = KG_CONTAINER(task, struct live_op, task);
    live_wait_remove(&op->wait);
    live_op_fail(op, &op->err);
}

static void on_abort(struct live_wait *wait)
{
    struct live_op *op = KG_CONTAINER(wait, struct live_op, wait);
    loop_undefer(op->sessions->loop, &op->task);
    live_op_fail(op, &op->err);
}

void live_op_fail_later(struct live_op *op, const struct kg_err *err)
{
    op->err = *err;
    op->task.run = on_fail_task;
    live_wait_add(op->sessions, &op->wait, on_abort);
    loop_defer(op->sessions->loop, &op->task);
}

int live_op_check(const struct sessions *sessions, bool writes, struct kg_err *err)
{
    const char *why;
    if (sessions->stopping)
        return live_fail_stopping(err);
    if (session_store_queued(sessions->store) >= SESSION_QUEUE_MAX)
        return kg_fail(err, KG_E_BUSY, "%d operations on sessions wait for the disk",
                       SESSION_QUEUE_MAX);
    if (writes && !audit_ready(host_audit(sessions->host), &why))
        return kg_fail(err, KG_E_AUDIT_UNAVAILABLE,
                       "sessions are not changed while the audit log cannot be written: %s", why);
    return 0;
}

bool live_op_admit(struct live_op *op, bool writes)
{
    struct kg_err err;
    if (live_op_check(op->sessions, writes, &err) == 0)
        return true;
    live_op_fail_later(op, &err);
    return false;
}

/* -- steps ------------------------------------------------------------------------------------- */

static void on_open(void *data, struct live_session *live_or_null, const struct kg_err *err_or_null)
{
    struct live_op *op = data;
    if (err_or_null != NULL) {
        live_op_fail(op, err_or_null);
        return;
    }
    op->live = live_or_null;
    op->next(op);
}

void live_op_open(struct live_op *op, void (*next)(struct live_op *op))
{
    op->next = next;
    live_open(op->sessions, kg_str(op->session), on_open, op);
}

static void on_job(struct session_job *job, const struct kg_err *err_or_null)
{
    struct live_op *op = KG_CONTAINER(job, struct live_op, job);
    if (err_or_null != NULL)
        live_op_fail(op, err_or_null);
    else
        op->next(op);
}

void live_op_read(struct live_op *op, live_op_run_fn *run, void (*next)(struct live_op *op))
{
    op->next = next;
    op->job.run = run;
    op->job.done = on_job;
    session_store_read(op->sessions->store, &op->job);
}

void live_op_write(struct live_op *op, live_op_run_fn *run, void (*next)(struct live_op *op))
{
    op->next = next;
    op->job.run = run;
    op->job.done = on_job;
    session_store_write(op->sessions->store, &op->job);
}
