/*
 * The writer thread. It alone touches the files. An event leaves memory only when it is in the
 * file; while the disk refuses, everything is kept and tried again each second.
 */
#include "audit/internal.h"

#include <errno.h>

#define NAP_NS        (5ull * 1000 * 1000) /* bursts gather meanwhile */
#define RETRY_NS      (1000ull * 1000 * 1000)
#define NS_PER_MS     1000000ull
#define KEEP_CAPACITY ((size_t)256 * 1024) /* a larger buffer is given back when all is quiet */

static bool has_work(const struct audit *audit)
{
    return audit->queue.length > 0 || audit->flushes != NULL || audit->closing;
}

static bool is_urgent(const struct audit *audit)
{
    return audit->queue.length > audit->urgent_bytes || audit->flushes != NULL || audit->closing;
}

static uint64_t seal_due_ns(const struct audit *audit)
{
    if (audit->chain.block_bytes == 0)
        return UINT64_MAX;
    return audit->chain.block_since_ns + audit->seal_interval_ms * NS_PER_MS;
}

/* -- waiting: the lock is held ----------------------------------------------------------------- */

static void nap(struct audit *audit)
{
    uint64_t end_ns = uv_hrtime() + NAP_NS;
    for (uint64_t now_ns = uv_hrtime(); now_ns < end_ns && !is_urgent(audit); now_ns = uv_hrtime())
        uv_cond_timedwait(&audit->wake, &audit->lock, end_ns - now_ns);
}

static void shrink(struct kg_buf *buf)
{
    if (buf->length == 0 && buf->capacity > KEEP_CAPACITY)
        kg_buf_free(buf);
}

/* Until there is work or a seal is due. */
static void sleep_idle(struct audit *audit)
{
    if (!has_work(audit)) {
        shrink(&audit->batch);
        shrink(&audit->queue);
    }
    audit->idle = true;
    while (!has_work(audit)) {
        uint64_t due_ns = seal_due_ns(audit), now_ns = uv_hrtime();
        if (due_ns <= now_ns)
            break;
        if (due_ns == UINT64_MAX)
            uv_cond_wait(&audit->wake, &audit->lock);
        else
            uv_cond_timedwait(&audit->wake, &audit->lock, due_ns - now_ns);
    }
    audit->idle = false;
}

static void sleep_refused(struct audit *audit)
{
    uint64_t end_ns = uv_hrtime() + RETRY_NS;
    for (uint64_t now_ns = uv_hrtime(); now_ns < end_ns && !audit->closing; now_ns = uv_hrtime())
        uv_cond_timedwait(&audit->wake, &audit->lock, end_ns - now_ns);
}

/* -- a turn ------------------------------------------------------------------------------------ */

/* Behind what the disk refused, if anything; else the two buffers change places. */
static void take_queue(struct audit *audit)
{
    if (audit->batch_at < audit->batch.length) {
        kg_buf_str(&audit->batch, kg_buf_view(&audit->queue));
        audit->queue.length = 0;
    } else {
        struct kg_buf empty = audit->batch;
        empty.length = 0;
        audit->batch = audit->queue;
        audit->batch_at = 0;
        audit->queue = empty;
    }
    audit->batch_flushes = audit->flushes;
    audit->flushes = NULL;
    audit->flushes_tail = &audit->flushes;
}

/* Waits, then takes all that was handed over. True if nothing can come after it. */
static bool take_work(struct audit *audit)
{
    uv_mutex_lock(&audit->lock);
    if (atomic_load(&audit->refused) != 0) {
        sleep_refused(audit);
    } else {
        if (audit->busy)
            nap(audit);
        sleep_idle(audit);
    }
    take_queue(audit);
    audit->chain.rotate_bytes = audit->rotate_bytes;
    audit->chain.keep = audit->keep;
    bool closing = audit->closing;
    uv_mutex_unlock(&audit->lock);
    return closing;
}

static int write_work(struct audit *audit, bool closing, struct kg_err *err)
{
    struct audit_chain *chain = &audit->chain;
    size_t before = audit->batch_at;
    int result = audit_chain_append(chain, kg_buf_view(&audit->batch), &audit->batch_at, err);
    atomic_fetch_add(&audit->written, audit->batch_at - before);
    bool due = closing || seal_due_ns(audit) <= uv_hrtime();
    if (result == 0 && due && chain->block_bytes > 0)
        result = audit_chain_seal(chain, AUDIT_SEAL_PLAIN, err);
    return result < 0 ? result : audit_chain_commit(chain, err);
}

static void post_flushes(struct audit *audit)
{
    while (audit->batch_flushes != NULL) {
        struct loop_message *message = audit->batch_flushes;
        audit->batch_flushes = message->next;
        loop_post(audit->loop, message);
    }
}

static void tell_waiters(struct audit *audit)
{
    uv_mutex_lock(&audit->lock);
    if (audit->waited && !audit->posted) {
        audit->waited = false;
        audit->posted = true;
        loop_post(audit->loop, &audit->progress);
    }
    uv_mutex_unlock(&audit->lock);
}

static void writer_end_batch(struct audit *audit)
{
    audit->busy = audit->batch.length > 0;
    audit->batch.length = audit->batch_at = 0;
    if (atomic_exchange(&audit->refused, 0) != 0)
        kg_log(KG_INFO, "audit log %s: it is written again", audit->dir);
    tell_waiters(audit);
}

static void note_refusal(struct audit *audit, int errnum, const struct kg_err *err)
{
    if (atomic_exchange(&audit->refused, errnum) == 0)
        kg_log(KG_ERROR_LEVEL, "audit log %s: %s; calls wait until it can be written", audit->dir,
               err->message);
}

void audit_writer_run(struct loop_job *job)
{
    struct audit *audit = KG_CONTAINER(job, struct audit, job);
    bool closing = false;
    while (!closing) {
        struct kg_err err;
        closing = take_work(audit);
        int result = write_work(audit, closing, &err);
        if (result == 0)
            writer_end_batch(audit);
        else
            note_refusal(audit, -result, &err);
        if (result < 0 && closing)
            kg_log(KG_ERROR_LEVEL, "audit log %s: it stops with %zu bytes not written: %s",
                   audit->dir, audit->batch.length - audit->batch_at, err.message);
        post_flushes(audit);
    }
}
