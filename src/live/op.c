/*
 * An operation lives from its request to its one answer, whatever happens between, and frees itself
 * with it. The error of a step is its answer.
 */
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

static void op_free(struct live_op *op)
{
    if (op->clear != NULL)
        op->clear(op);
    live_work_end(&op->work);
    kg_buf_free(&op->json);
    free(op->session);
    free(op);
}

void *live_op_new(size_t size, struct sessions *sessions, const struct sessions_request *request,
                  void (*clear)(struct live_op *op))
{
    struct live_op *op = kg_alloc(size);
    live_work_begin(&op->work, sessions, request->asker);
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

int live_op_check(const struct sessions *sessions, bool writes, struct kg_err *err)
{
    const char *why;
    if (sessions->stopping)
        return live_fail_stopping(err);
    if (session_store_queued(sessions->store) >= SESSION_QUEUE_MAX)
        return kg_fail(err, KG_E_BUSY, "%d operations on sessions wait for the disk",
                       SESSION_QUEUE_MAX);
    if (writes && !audit_ready(host_audit(sessions->host), &why) &&
        !audit_is_behind(host_audit(sessions->host)))
        return kg_fail(err, KG_E_AUDIT_UNAVAILABLE,
                       "sessions are not changed while the audit log cannot be written: %s", why);
    return 0;
}

bool live_op_admit(struct live_op *op, bool writes)
{
    struct kg_err err;
    if (live_op_check(op->work.sessions, writes, &err) == 0)
        return true;
    live_op_fail_later(op, &err);
    return false;
}

/* -- steps ------------------------------------------------------------------------------------- */

static void op_on_step(struct live_work *work, const struct kg_err *err_or_null)
{
    struct live_op *op = KG_CONTAINER(work, struct live_op, work);
    if (err_or_null != NULL)
        live_op_fail(op, err_or_null);
    else
        op->next(op);
}

live_next_fn *live_op_then(struct live_op *op, void (*next)(struct live_op *op))
{
    op->next = next;
    return op_on_step;
}

void live_op_fail_later(struct live_op *op, const struct kg_err *err)
{
    live_later(&op->work, err, op_on_step);
}

void live_op_open(struct live_op *op, void (*next)(struct live_op *op))
{
    live_open(&op->work, kg_str(op->session), live_op_then(op, next));
}

void live_op_read(struct live_op *op, live_run_fn *run, void (*next)(struct live_op *op))
{
    live_read(&op->work, run, live_op_then(op, next));
}

void live_op_write(struct live_op *op, live_run_fn *run, void (*next)(struct live_op *op))
{
    live_write(&op->work, run, live_op_then(op, next));
}
