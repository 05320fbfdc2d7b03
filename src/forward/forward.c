/*
 * One batch after the other, each from where the one before ended:
 *
 *   an event -> a moment -> audit_flush -> read (worker) -> send -> keep the position (worker)
 *                               ^                            |
 *                               +---- a pause that grows ----+ it failed
 *
 * Datagrams are sent by the worker that reads; an address is asked by kaged-fetch, in its cage.
 * There is one thing under way at a time. A batch counts as sent once its receiver took it, so that
 * after a crash or a lost answer it comes again: its events have ids.
 */
#include "forward/internal.h"

#include <errno.h>
#include <stdlib.h>

#define GATHER_MS    200 /* that an event waits for others */
#define PAUSE_MS     1000
#define PAUSE_MAX_MS 300000
#define BATCH_BYTES  ((size_t)512 * 1024)
#define BATCH_EVENTS 5000
#define ANSWER_BYTES 1024 /* kept of what an address answers */
#define TIMEOUT_MS   30000
#define IDLE_MS      30000
#define SAY_EACH     50 /* failures in a row, after the first, before the log says it again */
#define TOO_LARGE    413
#define WHOSE        "audit"

enum step { RESTING, GATHERING, FLUSHING, WORKING, ASKING, PAUSING };

/* What the audit log posts may come when nobody waits for it any more. */
struct flush {
    struct loop_message message;
    struct forward *forward; /* NULL: it is gone */
};

struct forward {
    struct forward_parts parts;
    char *target, *audit_dir, *position_file; /* owned */
    struct forward_socket socket;             /* path NULL: it is an address */
    struct helper_pool_place pool_place;
    struct helper_pool *pool; /* owned; NULL: it is not an address */
    struct fetch_call *call;
    struct loop_worker *worker;
    struct audit_listener listener;
    struct loop_timer timer;
    struct flush *flush; /* under way, and its own owner; NULL: none is */
    struct loop_job job;
    enum step step;
    bool stopping, freeing, pool_closed;
    bool more; /* events came since the batch was begun */
    struct forward_record record;
    uint64_t waiting_bytes, failures;
    int64_t failing_since_ms;
    char problem[300];
    /* Of the batch under way; the worker's while it works. */
    struct forward_record skipped; /* where it begins: behind what is lost */
    struct forward_record next;    /* what is kept once it is sent */
    struct kg_buf batch;
    uint64_t batch_events;
    size_t batch_max; /* bytes: less for a receiver that takes less */
    bool is_full, to_keep, only_keeps;
    unsigned keep;
    uint64_t work_waiting;
    int result;
    struct kg_err err;
};

static void forward_go_on(struct forward *forward);

/* -- on the worker ----------------------------------------------------------------------------- */

static int forward_take_line(void *data, struct kg_str line, struct kg_err *err)
{
    struct forward *forward = data;
    if (forward->batch_events >= BATCH_EVENTS) {
        forward->is_full = true;
        return 1;
    }
    if (forward->socket.path != NULL) {
        int result = forward_socket_send(&forward->socket, line, err);
        forward->next.sent += result == 0;
        forward->batch_events += result == 0;
        return result;
    }
    if (line.length + 1 > BATCH_BYTES) {
        kg_log(KG_WARN, "audit.forward: an event of %zu bytes is too long to be sent", line.length);
        forward->next.position.lost++;
        return 0;
    }
    if (forward->batch_events > 0 && forward->batch.length + line.length + 1 > forward->batch_max) {
        forward->is_full = true;
        return 1;
    }
    kg_buf_str(&forward->batch, line);
    kg_buf_char(&forward->batch, '\n');
    forward->batch_events++;
    return 0;
}

static void forward_run_batch(struct loop_job *job)
{
    struct forward *forward = KG_CONTAINER(job, struct forward, job);
    struct kg_err unkept;
    if (forward->to_keep &&
        forward_record_write(forward->position_file, &forward->record, &unkept) < 0)
        kg_log(KG_WARN, "audit.forward: %s; after a restart events are sent again", unkept.message);
    forward->result = 0;
    forward->skipped = forward->next = forward->record;
    if (!forward->only_keeps)
        forward->result = audit_skip_rotated(forward->audit_dir, forward->keep,
                                             &forward->skipped.position, &forward->err);
    forward->next = forward->skipped;
    if (!forward->only_keeps && forward->result == 0)
        forward->result = audit_read_on(forward->audit_dir, &forward->next.position,
                                        forward_take_line, forward, &forward->err);
    forward->work_waiting = audit_bytes_after(forward->audit_dir, &forward->next.position);
}

/* -- how it went ------------------------------------------------------------------------------- */

static void forward_rest(struct forward *forward)
{
    forward->step = RESTING;
    if (forward->stopping && !forward->freeing)
        forward->parts.on_idle(forward->parts.data);
}

static void on_pause_over(struct loop_timer *timer)
{
    forward_go_on(KG_CONTAINER(timer, struct forward, timer));
}

static void forward_fail(struct forward *forward, const char *why)
{
    uint64_t pause_ms = PAUSE_MS;
    kg_str_copy(kg_str_first(kg_str(why), strnlen(why, sizeof(forward->problem) - 1)),
                forward->problem, sizeof(forward->problem));
    if (forward->failures == 0)
        forward->failing_since_ms = kg_wall_ms();
    for (uint64_t i = 0; i < forward->failures && pause_ms < PAUSE_MAX_MS; i++)
        pause_ms *= 2;
    if (forward->failures % SAY_EACH == 0)
        kg_log(KG_WARN,
               "audit.forward: %s: %s; it is tried again, and meanwhile the log keeps the events",
               forward->target, forward->problem);
    forward->failures++;
    if (forward->stopping) {
        forward_rest(forward);
        return;
    }
    forward->step = PAUSING;
    loop_timer_start(forward->parts.loop, &forward->timer,
                     pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS, on_pause_over);
}

/* Moves on to where the record says; what was passed over on the way is told. */
static void forward_advance(struct forward *forward, const struct forward_record *to)
{
    const struct audit_position *before = &forward->record.position, *after = &to->position;
    if (after->lost != before->lost || after->lost_files != before->lost_files)
        kg_log(
            KG_ERROR_LEVEL,
            "audit.forward: %llu events and %llu whole files more could not be sent to %s, since "
            "the log was rotated before, or they are too long",
            (unsigned long long)(after->lost - before->lost),
            (unsigned long long)(after->lost_files - before->lost_files), forward->target);
    if (after->file != before->file || after->offset != before->offset)
        forward->to_keep = true;
    forward->record = *to;
}

static void forward_succeed(struct forward *forward)
{
    if (forward->failures > 0)
        kg_log(KG_INFO, "audit.forward: %s accepts events again", forward->target);
    forward->failures = 0;
    forward->failing_since_ms = 0;
    forward->problem[0] = '\0';
}

/* -- an address -------------------------------------------------------------------------------- */

/* A receiver that wants less gets less; one line that is too much for it is passed over. */
static void forward_shrink(struct forward *forward)
{
    if (forward->batch_events > 1) {
        forward->batch_max = forward->batch.length / 2;
        forward_go_on(forward);
        return;
    }
    kg_log(KG_WARN, "audit.forward: %s does not accept an event of %zu bytes", forward->target,
           forward->batch.length);
    forward->next.position.lost++;
    forward->batch_max = BATCH_BYTES;
    forward_advance(forward, &forward->next);
    forward_go_on(forward);
}

static void forward_on_answered(void *data, const struct fetch_answer *answer)
{
    struct forward *forward = data;
    forward->call = NULL;
    if (answer->status >= 200 && answer->status < 300) {
        forward->next.sent += forward->batch_events;
        forward_succeed(forward);
        forward_advance(forward, &forward->next);
        forward_go_on(forward);
        return;
    }
    if (answer->status == TOO_LARGE && !forward->stopping) {
        forward_shrink(forward);
        return;
    }
    kg_auto(kg_free) char *status = kg_format("it answered with status %d", answer->status);
    forward_fail(forward, answer->status == 0 ? answer->error : status);
}

static void forward_ask(struct forward *forward)
{
    struct kg_err err = {0};
    char **headers = forward->parts.headers(forward->parts.data, &err);
    const struct fetch_request request = {
        .whose = WHOSE,
        .method = "POST",
        .url = forward->target,
        .headers = headers,
        .body = kg_buf_view(&forward->batch),
        .timeout_ms = TIMEOUT_MS,
        .answer_max = ANSWER_BYTES,
    };
    forward->step = ASKING;
    if (headers == NULL ||
        fetch_ask(forward->pool, &request, forward_on_answered, forward, &forward->call, &err) < 0)
        forward_fail(forward, err.message);
    kg_list_free(headers);
}

/* -- one batch --------------------------------------------------------------------------------- */

static void on_batch(struct loop_job *job)
{
    struct forward *forward = KG_CONTAINER(job, struct forward, job);
    bool is_address = forward->socket.path == NULL;
    forward->to_keep = false;
    forward->waiting_bytes = forward->work_waiting + forward->batch.length;
    forward_advance(forward, &forward->skipped);
    if (is_address && forward->batch_events > 0 && forward->result == 0 && !forward->stopping) {
        forward_ask(forward);
        return;
    }
    if (!is_address || forward->batch_events == 0)
        forward_advance(forward, &forward->next);
    if (forward->result < 0) {
        forward_fail(forward, forward->err.message);
        return;
    }
    if (!is_address && forward->batch_events > 0)
        forward_succeed(forward);
    if (forward->is_full || forward->more || forward->to_keep)
        forward_go_on(forward);
    else
        forward_rest(forward);
}

static void forward_begin_batch(struct forward *forward)
{
    forward->step = WORKING;
    forward->batch.length = 0;
    forward->batch_events = 0;
    forward->is_full = false;
    forward->only_keeps = forward->stopping;
    forward->keep = forward->parts.keep(forward->parts.data);
    forward->job = (struct loop_job){.run = forward_run_batch, .done = on_batch};
    loop_worker_submit(forward->worker, &forward->job);
}

static void forward_on_flushed(struct loop_message *message)
{
    struct flush *flush = KG_CONTAINER(message, struct flush, message);
    struct forward *forward = flush->forward;
    free(flush);
    if (forward == NULL)
        return;
    forward->flush = NULL;
    forward_begin_batch(forward);
}

/* At a stop what was sent is still kept; what is left waits for the next start. */
static void forward_go_on(struct forward *forward)
{
    if (forward->stopping && !forward->to_keep) {
        forward_rest(forward);
        return;
    }
    forward->step = FLUSHING;
    forward->more = false;
    forward->flush = kg_alloc(sizeof(*forward->flush));
    *forward->flush = (struct flush){.message.deliver = forward_on_flushed, .forward = forward};
    audit_flush(forward->parts.audit, &forward->flush->message);
}

static void forward_on_event(struct audit_listener *listener, struct kg_str line,
                             enum audit_event event)
{
    struct forward *forward = KG_CONTAINER(listener, struct forward, listener);
    (void)line, (void)event;
    forward->more = true;
    if (forward->step != RESTING || forward->stopping)
        return;
    forward->step = GATHERING;
    loop_timer_start(forward->parts.loop, &forward->timer, GATHER_MS, on_pause_over);
}

/* -- life -------------------------------------------------------------------------------------- */

/* After a crash the log may end before the position: what was behind it is gone, and was sent. */
static int forward_find_start(struct forward *forward, struct kg_err *err)
{
    struct audit_position end, *at = &forward->record.position;
    int result = audit_end(forward->audit_dir, &end, err);
    if (result < 0)
        return result;
    result = forward_record_read(forward->position_file, &forward->record, err);
    if (result == -ENOENT) {
        forward->record.position = end; /* from now on */
        return forward_record_write(forward->position_file, &forward->record, err);
    }
    if (result == 0 && (at->file > end.file || (at->file == end.file && at->offset > end.offset))) {
        at->file = end.file;
        at->offset = end.offset;
    }
    return result;
}

static void open_pool(struct forward *forward)
{
    forward->pool_place = (struct helper_pool_place){
        .where = forward->parts.place,
        .facts = forward->parts.facts,
        .calls_max = 1,
        .idle_ms = IDLE_MS,
    };
    forward->pool = fetch_pool_new(&forward->pool_place);
}

struct forward *forward_open(const struct forward_parts *parts, struct kg_err *err)
{
    struct forward *forward = kg_alloc(sizeof(*forward));
    forward->parts = *parts;
    forward->target = kg_strdup(parts->target);
    forward->audit_dir = kg_strdup(parts->audit_dir);
    forward->position_file = kg_strdup(parts->position_file);
    forward->batch_max = BATCH_BYTES;
    forward->worker = loop_worker_new(parts->loop, "kaged-forward");
    if (!forward_socket_read(parts->target, &forward->socket))
        open_pool(forward);
    forward->listener.on_event = forward_on_event;
    audit_listen(parts->audit, &forward->listener);
    if (forward_find_start(forward, err) < 0) {
        kg_wrap(err, -EINVAL, "audit.forward");
        forward_free(forward);
        return NULL;
    }
    kg_log(KG_INFO, "audit log: each event is sent on to %s", forward->target);
    return forward;
}

static void forward_on_pool_closed(void *data)
{
    struct forward *forward = data;
    forward->pool_closed = true;
    if (forward->step == RESTING)
        forward->parts.on_idle(forward->parts.data);
}

void forward_stop(struct forward *forward)
{
    if (forward == NULL || forward->stopping)
        return;
    forward->stopping = true;
    if (forward->step == GATHERING || forward->step == PAUSING) {
        loop_timer_stop(forward->parts.loop, &forward->timer);
        forward->step = RESTING;
    }
    if (forward->pool != NULL)
        helper_pool_close(forward->pool, forward_on_pool_closed, forward);
}

bool forward_is_idle(const struct forward *forward)
{
    return forward == NULL ||
           (forward->step == RESTING && (forward->pool == NULL || forward->pool_closed));
}

void forward_free(struct forward *forward)
{
    if (forward == NULL)
        return;
    forward->stopping = forward->freeing = true;
    if (forward->flush != NULL)
        forward->flush->forward = NULL;
    audit_unlisten(forward->parts.audit, &forward->listener);
    loop_worker_free(forward->worker);
    helper_pool_free(forward->pool);
    loop_timer_stop(forward->parts.loop, &forward->timer);
    forward_socket_free(&forward->socket);
    kg_buf_free(&forward->batch);
    free(forward->target);
    free(forward->audit_dir);
    free(forward->position_file);
    free(forward);
}

/* -- figures ----------------------------------------------------------------------------------- */

struct forward_facts forward_facts(const struct forward *forward)
{
    return (struct forward_facts){
        .target = forward->target,
        .sent = forward->record.sent,
        .lost = forward->record.position.lost,
        .lost_files = forward->record.position.lost_files,
        .failures = forward->failures,
        .waiting_bytes = forward->waiting_bytes,
        .failing_since_ms = forward->failing_since_ms,
        .problem = forward->problem,
    };
}

void forward_facts_json(const struct forward_facts *facts, struct kg_json_writer *json)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "target", facts->target);
    kg_json_named_int(json, "sent", (int64_t)facts->sent);
    kg_json_named_int(json, "lost", (int64_t)facts->lost);
    kg_json_named_int(json, "lost_files", (int64_t)facts->lost_files);
    kg_json_named_int(json, "failures", (int64_t)facts->failures);
    kg_json_named_int(json, "waiting_bytes", (int64_t)facts->waiting_bytes);
    kg_json_named_text(json, "problem", facts->problem);
    kg_json_end(json, '}');
}
