/*
 * A peer owns both pipe ends of one plugin. A reply reaches its caller once or not at all; the
 * bytes that a plugin can make us hold are bounded in both directions; nothing a plugin writes is
 * trusted.
 *
 *   peer_call -> outbox -> (end of turn) one write -> plugin
 *   plugin -> read -> frame -> rpc -> pending call's on_done, or ops
 */
#include "wire/internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FLOOD_READ_BYTES      8192
#define ANSWER_SHORT_BYTES    4096
#define ANSWERS_RESERVE_BYTES (4u << 20)
#define OUT_KEPT_BYTES        16384 /* an empty outbox of this size is never given back; */
#define OUT_SHORT_PART        8     /* a larger one is once so small a part of it was enough */

/* Lines that wait for the plugin's pipe. */
struct outbox {
    struct kg_buf lines;
    size_t sent;   /* bytes of `lines` that the pipe has taken */
    size_t start;  /* where the last line begins, while it is being written */
    bool mid_line; /* the pipe has taken a part of a line */
};

/* A request that was sent and not answered yet. */
struct pending {
    struct pending *next; /* in its bucket, or in the free list */
    struct peer *peer;
    uint64_t id;
    uint64_t timeout_ms;
    struct loop_timer host_timer;
    struct loop_timer caller_timer;
    uint64_t stood_before_ms; /* peer_stood_ms when it was sent */
    uint64_t given_back_ms;   /* of what its deadline stood still */
    bool held;                /* its deadline came while an answer was owed, and waits for that */
    peer_done_fn *on_done;    /* NULL: the caller left */
    peer_progress_fn *on_progress;
    double progress; /* the last that was told of it */
    void *data;
    char method[RPC_METHOD_MAX + 1];
};

struct peer {
    struct loop *loop;
    const struct peer_ops *ops;
    void *data;
    struct peer_limits limits;
    const struct peer_rules *rules;
    enum peer_phase phase;
    int in_fd, out_fd; /* owned; -1 when closed */
    uv_poll_t in_poll, out_poll;
    unsigned open_handles; /* of the two; libuv holds on to them for a while */
    bool writable_armed, held, closing_input, closed, freed;
    bool overfull; /* an answer did not fit any more */

    struct frame frame;
    struct outbox answers; /* to its own requests; they go first */
    struct outbox calls;   /* and notifications */
    struct loop_task flush_task;

    uint64_t next_id;
    struct pending **buckets;
    size_t bucket_mask;
    struct pending *unused;
    struct peer_counters counters;
    struct debts debts;
    uint32_t held_count; /* of pending calls */

    peer_tap_fn *tap; /* or NULL */
    void *tap_data;

    struct kg_rate notifications;
    uint32_t notifications_seen; /* in the second that flood_timer ends */
    struct loop_timer flood_timer;
};

const char *peer_violation_name(enum peer_violation violation)
{
    static const char *const names[] = {
        [PEER_OVERSIZE] = "oversize_message",       [PEER_UNKNOWN_ID] = "unknown_id",
        [PEER_BAD_RESPONSE] = "malformed_response", [PEER_TOO_EARLY] = "message_before_initialize",
        [PEER_BAD_REQUEST] = "invalid_request",     [PEER_BATCH] = "batch",
        [PEER_UNREAD] = "answers_unread",
    };
    return names[violation];
}

static void peer_update_reading(struct peer *peer);

/* -- pending calls ----------------------------------------------------------------------------- */

static struct pending **bucket_of(struct peer *peer, uint64_t id)
{
    return &peer->buckets[id & peer->bucket_mask];
}

static void grow_buckets(struct peer *peer)
{
    size_t old_count = peer->buckets ? peer->bucket_mask + 1 : 0;
    struct pending **old = peer->buckets;
    size_t count = old_count ? old_count * 4 : 16;
    peer->buckets = kg_alloc_array(count, sizeof(*peer->buckets));
    peer->bucket_mask = count - 1;
    for (size_t i = 0; i < old_count; i++) {
        for (struct pending *pending = old[i], *next; pending != NULL; pending = next) {
            next = pending->next;
            struct pending **bucket = bucket_of(peer, pending->id);
            pending->next = *bucket;
            *bucket = pending;
        }
    }
    free(old);
}

static struct pending *pending_new(struct peer *peer)
{
    if (peer->buckets == NULL || peer->counters.in_flight > peer->bucket_mask)
        grow_buckets(peer);
    struct pending *pending = peer->unused;
    if (pending != NULL)
        peer->unused = pending->next;
    else
        pending = kg_alloc(sizeof(*pending));
    pending->peer = peer;
    pending->id = peer->next_id++;
    struct pending **bucket = bucket_of(peer, pending->id);
    pending->next = *bucket;
    *bucket = pending;
    peer->counters.in_flight++;
    return pending;
}

static struct pending **pending_find(struct peer *peer, uint64_t id)
{
    if (peer->buckets == NULL)
        return NULL;
    for (struct pending **link = bucket_of(peer, id); *link != NULL; link = &(*link)->next)
        if ((*link)->id == id)
            return link;
    return NULL;
}

/* Takes the call out of the table, then answers its caller if there still is one. */
static void pending_end(struct peer *peer, struct pending **link, enum peer_outcome outcome,
                        struct kg_str payload)
{
    struct pending *pending = *link;
    *link = pending->next;
    loop_timer_stop(peer->loop, &pending->host_timer);
    loop_timer_stop(peer->loop, &pending->caller_timer);
    peer->counters.in_flight--;
    if (pending->held)
        peer->held_count--;
    peer_done_fn *on_done = pending->on_done;
    void *data = pending->data;
    pending->next = peer->unused;
    peer->unused = pending;
    if (on_done != NULL)
        on_done(data, outcome, payload);
}

static void on_host_deadline(struct loop_timer *timer);

/* How long its deadline stood still, as far as that counts. */
static uint64_t stood_still_ms(const struct pending *pending)
{
    const struct peer *peer = pending->peer;
    uint64_t stood_ms = debts_stood_ms(&peer->debts, peer->loop) - pending->stood_before_ms;
    return stood_ms < peer->limits.call_wait_ms ? stood_ms : peer->limits.call_wait_ms;
}

/* The deadline goes on by what it stood still and did not get back yet. False: by nothing. */
static bool peer_give_back(struct pending *pending)
{
    uint64_t stood_ms = stood_still_ms(pending);
    if (stood_ms <= pending->given_back_ms)
        return false;
    loop_timer_start(pending->peer->loop, &pending->host_timer, stood_ms - pending->given_back_ms,
                     on_host_deadline);
    pending->given_back_ms = stood_ms;
    return true;
}

static void set_held(struct pending *pending, bool held)
{
    if (pending->held == held)
        return;
    pending->held = held;
    if (held)
        pending->peer->held_count++;
    else
        pending->peer->held_count--;
}

/*
 * Whether it is not due yet, because the child waited for us. While it still does, the deadline
 * waits for the answer, or for the end of the bound, whichever comes first.
 */
static bool is_put_off(struct pending *pending)
{
    struct peer *peer = pending->peer;
    uint64_t stood_ms = stood_still_ms(pending);
    if (peer->debts.count > 0 && stood_ms < peer->limits.call_wait_ms) {
        loop_timer_start(peer->loop, &pending->host_timer, peer->limits.call_wait_ms - stood_ms,
                         on_host_deadline);
        set_held(pending, true);
        return true;
    }
    set_held(pending, false);
    return peer_give_back(pending);
}

/* Nothing is owed any more: deadlines that waited for that go on. */
static void release_held(struct peer *peer)
{
    for (size_t i = 0; peer->held_count > 0 && i <= peer->bucket_mask; i++)
        for (struct pending *pending = peer->buckets[i]; pending != NULL; pending = pending->next)
            if (pending->held) {
                set_held(pending, false);
                if (!peer_give_back(pending))
                    loop_timer_start(peer->loop, &pending->host_timer, 1, on_host_deadline);
            }
}

static void on_host_deadline(struct loop_timer *timer)
{
    struct pending *pending = KG_CONTAINER(timer, struct pending, host_timer);
    struct peer *peer = pending->peer;
    if (is_put_off(pending))
        return;
    char method[RPC_METHOD_MAX + 1];
    memcpy(method, pending->method, sizeof(method));
    uint64_t timeout_ms = pending->timeout_ms;
    pending_end(peer, pending_find(peer, pending->id), PEER_TIMEOUT, KG_STR_NULL);
    if (peer->ops->on_hung != NULL)
        peer->ops->on_hung(peer->data, method, timeout_ms);
}

static void on_caller_deadline(struct loop_timer *timer)
{
    struct pending *pending = KG_CONTAINER(timer, struct pending, caller_timer);
    struct peer *peer = pending->peer;
    if (pending->timeout_ms == 0) { /* nothing else would ever end it */
        pending_end(peer, pending_find(peer, pending->id), PEER_EXPIRED, KG_STR_NULL);
        return;
    }
    peer_done_fn *on_done = pending->on_done;
    pending->on_done = NULL;
    if (on_done != NULL)
        on_done(pending->data, PEER_EXPIRED, KG_STR_NULL);
}

static void end_all_pending(struct peer *peer)
{
    if (peer->buckets == NULL)
        return;
    for (size_t i = 0; i <= peer->bucket_mask; i++)
        while (peer->buckets[i] != NULL)
            pending_end(peer, &peer->buckets[i], PEER_GONE, KG_STR_NULL);
}

/* -- writing ----------------------------------------------------------------------------------- */

static size_t waiting_bytes(const struct outbox *box)
{
    return box->lines.length - box->sent;
}

static void outbox_clear(struct outbox *box)
{
    kg_buf_free(&box->lines);
    box->sent = 0;
    box->mid_line = false;
}

static void outbox_advance(struct outbox *box, size_t wrote)
{
    box->sent += wrote;
    box->mid_line = box->lines.data[box->sent - 1] != '\n';
    if (waiting_bytes(box) > 0)
        return;
    size_t capacity = box->lines.capacity;
    bool was_needed = box->lines.length >= capacity / OUT_SHORT_PART;
    box->lines.length = box->sent = 0;
    if (capacity > OUT_KEPT_BYTES && !was_needed)
        outbox_clear(box);
}

/* What the plugin has read is dropped before the box is made larger. */
static void outbox_make_room(struct outbox *box, size_t length)
{
    if (box->sent > 0 && box->lines.capacity - box->lines.length < length) {
        kg_buf_consume(&box->lines, box->sent);
        box->sent = 0;
    }
    kg_buf_reserve(&box->lines, length);
}

/* What to write next: a call that is half out to its end, then answers, then calls. */
static struct outbox *next_outbox(struct peer *peer, size_t *ret_length)
{
    struct outbox *calls = &peer->calls;
    size_t answers = waiting_bytes(&peer->answers);
    *ret_length = waiting_bytes(calls);
    if (answers == 0)
        return *ret_length > 0 ? calls : NULL;
    if (!calls->mid_line) {
        *ret_length = answers;
        return &peer->answers;
    }
    const char *from = calls->lines.data + calls->sent;
    const char *newline = memchr(from, '\n', *ret_length);
    *ret_length = (size_t)(newline - from) + 1;
    return calls;
}

static void peer_on_writable(uv_poll_t *handle, int status, int events);

/* Without UV_WRITABLE it still watches: a plugin that closes its stdin is noticed at once. */
static void watch_input(struct peer *peer, bool writable)
{
    peer->writable_armed = writable;
    uv_poll_start(&peer->in_poll, UV_DISCONNECT | (writable ? UV_WRITABLE : 0), peer_on_writable);
}

static void arm_writable(struct peer *peer, bool armed)
{
    if (peer->writable_armed != armed)
        watch_input(peer, armed);
}

static void on_handle_closed(uv_handle_t *handle);

/*
 * The handle goes before its fd: libuv takes the number out of epoll once more when a handle is
 * stopped, and by then the number could belong to somebody else.
 */
static void close_in_fd(struct peer *peer)
{
    if (peer->in_fd < 0)
        return;
    uv_close((uv_handle_t *)&peer->in_poll, on_handle_closed);
    kg_close(&peer->in_fd);
    outbox_clear(&peer->answers);
    outbox_clear(&peer->calls);
}

static void close_out_fd(struct peer *peer)
{
    if (peer->out_fd < 0)
        return;
    uv_close((uv_handle_t *)&peer->out_poll, on_handle_closed);
    kg_close(&peer->out_fd);
}

static void peer_tell_end(struct peer *peer, enum peer_end end)
{
    if (peer->ops->on_end != NULL)
        peer->ops->on_end(peer->data, end);
}

static void lose_input(struct peer *peer)
{
    close_in_fd(peer);
    peer_update_reading(peer);
    peer_tell_end(peer, PEER_STDIN_CLOSED);
}

static void peer_flush(struct peer *peer)
{
    struct outbox *box = NULL;
    size_t length;
    while (peer->in_fd >= 0 && (box = next_outbox(peer, &length)) != NULL) {
        ssize_t wrote = write(peer->in_fd, box->lines.data + box->sent, length);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0 && errno == EAGAIN)
            break;
        if (wrote < 0) {
            lose_input(peer);
            return;
        }
        outbox_advance(box, (size_t)wrote);
        peer->counters.bytes_out += (uint64_t)wrote;
    }
    if (peer->in_fd < 0)
        return;
    if (box == NULL && peer->closing_input)
        close_in_fd(peer);
    else
        arm_writable(peer, box != NULL);
    peer_update_reading(peer);
}

static void violate(struct peer *peer, enum peer_violation violation, const char *detail)
{
    if (peer->rules->verdicts[violation] != PEER_PASSED_OVER)
        peer->ops->on_violation(peer->data, violation, detail);
}

static void tell_overfull(struct peer *peer)
{
    char detail[96];
    snprintf(detail, sizeof(detail), "it leaves the answers to its requests unread: %zu bytes",
             waiting_bytes(&peer->answers));
    peer->overfull = false;
    violate(peer, PEER_UNREAD, detail);
}

static void on_flush_task(struct loop_task *task)
{
    struct peer *peer = KG_CONTAINER(task, struct peer, flush_task);
    if (!peer->closed && peer->overfull)
        tell_overfull(peer);
    if (!peer->closed)
        peer_flush(peer);
}

static void peer_on_writable(uv_poll_t *handle, int status, int events)
{
    (void)events;
    if (status < 0)
        lose_input(handle->data); /* the other end of the pipe is closed */
    else
        peer_flush(handle->data);
}

bool peer_takes_calls(const struct peer *peer)
{
    return !peer->closed && peer->in_fd >= 0 && !peer->closing_input;
}

/*
 * Short answers have room past the bound, for what one read can ask for: it is seen only after it
 * that nothing more may be read.
 */
static size_t most_bytes(const struct peer *peer, const struct outbox *box, size_t length)
{
    bool is_short = box == &peer->answers && length <= ANSWER_SHORT_BYTES;
    return peer->limits.write_queue_max_bytes + (is_short ? ANSWERS_RESERVE_BYTES : 0);
}

/* Room for one line, if the plugin still takes lines and has not left too many unread. */
static int peer_begin_line(struct peer *peer, struct outbox *box, size_t length, struct kg_err *err)
{
    if (!peer_takes_calls(peer))
        return kg_fail(err, KG_E_PLUGIN_DOWN, "the plugin no longer takes messages");
    if (length > peer->limits.line_max_bytes)
        return kg_fail(err, KG_E_TOO_LARGE, "the message has %zu bytes; the limit of a line is %zu",
                       length, peer->limits.line_max_bytes);
    if (waiting_bytes(box) + length > most_bytes(peer, box, length))
        return kg_fail(err, KG_E_BUSY, "the plugin does not read: %zu bytes wait for it",
                       waiting_bytes(box));
    outbox_make_room(box, length + 1);
    box->start = box->lines.length;
    return 0;
}

static void peer_end_line(struct peer *peer, struct outbox *box)
{
    const struct kg_buf *lines = &box->lines;
    if (peer->tap != NULL)
        peer->tap(peer->tap_data, PEER_TO,
                  (struct kg_str){lines->data + box->start, lines->length - box->start});
    kg_buf_char(&box->lines, '\n');
    loop_defer(peer->loop, &peer->flush_task);
}

static void peer_replace(char *at, const char *end, char old)
{
    while (at < end && (at = memchr(at, old, (size_t)(end - at))) != NULL)
        *at++ = ' ';
}

/*
 * White space may hold newlines in a caller's JSON; on the wire one ends the message. Many readers
 * of lines take a lone carriage return for one too.
 */
static void keep_on_one_line(struct kg_buf *lines, size_t start)
{
    peer_replace(lines->data + start, lines->data + lines->length, '\n');
    peer_replace(lines->data + start, lines->data + lines->length, '\r');
}

static void put_on_one_line(struct kg_buf *lines, struct kg_str json)
{
    size_t start = lines->length;
    kg_buf_str(lines, json);
    keep_on_one_line(lines, start);
}

/* `length` is at least that of all params. */
static void peer_put_call(struct peer *peer, const struct peer_call *call, uint64_t id,
                          size_t length)
{
    struct kg_buf *lines = &peer->calls.lines;
    kg_buf_str(lines, KG_STR("{\"jsonrpc\":\"2.0\",\"id\":"));
    kg_buf_int(lines, (int64_t)id);
    kg_buf_str(lines, KG_STR(",\"method\":"));
    kg_json_put_string(lines, call->method);
    kg_buf_str(lines, KG_STR(",\"params\":"));
    size_t start = lines->length;
    kg_buf_reserve(lines, length);
    char *at = lines->data + start;
    for (size_t i = 0; i < call->params_count; i++) {
        if (call->params[i].length > 0)
            memcpy(at, call->params[i].data, call->params[i].length);
        at += call->params[i].length;
    }
    lines->length = (size_t)(at - lines->data);
    keep_on_one_line(lines, start);
    kg_buf_char(lines, '}');
    peer_end_line(peer, &peer->calls);
}

int peer_call(struct peer *peer, const struct peer_call *call, uint64_t *ret_id, struct kg_err *err)
{
    size_t length = call->method.length + 64;
    for (size_t i = 0; i < call->params_count; i++)
        length += call->params[i].length;
    if (call->method.length > RPC_METHOD_MAX)
        return kg_fail(err, KG_E_INVALID_REQUEST, "the method name is longer than %d bytes",
                       RPC_METHOD_MAX);
    if (peer->counters.in_flight >= peer->limits.calls_in_flight_max)
        return kg_fail(err, KG_E_BUSY, "%u calls are already in flight", peer->counters.in_flight);
    int result = peer_begin_line(peer, &peer->calls, length, err);
    if (result < 0)
        return result;

    struct pending *pending = pending_new(peer);
    pending->on_done = call->on_done;
    pending->on_progress = call->on_progress;
    pending->progress = -INFINITY;
    pending->stood_before_ms = debts_stood_ms(&peer->debts, peer->loop);
    pending->given_back_ms = 0;
    pending->held = false;
    pending->data = call->data;
    pending->timeout_ms = call->timeout_ms;
    memcpy(pending->method, call->method.data, call->method.length);
    pending->method[call->method.length] = '\0';
    if (call->timeout_ms != 0)
        loop_timer_start(peer->loop, &pending->host_timer, call->timeout_ms, on_host_deadline);
    if (call->caller_timeout_ms != 0 &&
        (call->timeout_ms == 0 || call->caller_timeout_ms < call->timeout_ms))
        loop_timer_start(peer->loop, &pending->caller_timer, call->caller_timeout_ms,
                         on_caller_deadline);
    peer_put_call(peer, call, pending->id, length);
    if (ret_id)
        *ret_id = pending->id;
    return 0;
}

uint64_t peer_next_id(const struct peer *peer)
{
    return peer->next_id;
}

void peer_abandon(struct peer *peer, uint64_t id)
{
    struct pending **link = pending_find(peer, id);
    if (link == NULL)
        return;
    (*link)->on_done = NULL;
    loop_timer_stop(peer->loop, &(*link)->caller_timer);
}

void peer_forget(struct peer *peer, uint64_t id)
{
    struct pending **link = pending_find(peer, id);
    if (link == NULL)
        return;
    (*link)->on_done = NULL;
    pending_end(peer, link, PEER_GONE, KG_STR_NULL);
}

bool peer_progress(struct peer *peer, uint64_t id, double progress, struct kg_str params)
{
    struct pending **link = pending_find(peer, id);
    if (link == NULL || (*link)->on_done == NULL || progress < (*link)->progress)
        return false;
    (*link)->progress = progress;
    if ((*link)->on_progress != NULL)
        (*link)->on_progress((*link)->data, params);
    return true;
}

int peer_notify(struct peer *peer, const char *method, struct kg_str params, struct kg_err *err)
{
    struct kg_buf *lines = &peer->calls.lines;
    int result = peer_begin_line(peer, &peer->calls, strlen(method) + params.length + 64, err);
    if (result < 0)
        return result;
    kg_buf_printf(lines, "{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":", method);
    put_on_one_line(lines, params);
    kg_buf_char(lines, '}');
    peer_end_line(peer, &peer->calls);
    return 0;
}

int peer_say(struct peer *peer, struct kg_str line, struct kg_err *err)
{
    int result = peer_begin_line(peer, &peer->calls, line.length, err);
    if (result < 0)
        return result;
    put_on_one_line(&peer->calls.lines, line);
    peer_end_line(peer, &peer->calls);
    return 0;
}

static void put_answer_id(struct kg_buf *lines, struct kg_str id)
{
    kg_buf_str(lines, KG_STR("{\"jsonrpc\":\"2.0\",\"id\":"));
    kg_buf_str(lines, id);
}

static void peer_put_error(struct peer *peer, struct kg_str id, int rpc_code, const char *message)
{
    struct kg_buf *lines = &peer->answers.lines;
    if (peer_begin_line(peer, &peer->answers, strlen(message) + id.length + 128, NULL) < 0) {
        peer->overfull = peer_takes_calls(peer);
        if (peer->overfull) /* told at the end of the turn, and not in the middle of the caller's */
            loop_defer(peer->loop, &peer->flush_task);
        return;
    }
    put_answer_id(lines, id);
    kg_buf_printf(lines, ",\"error\":{\"code\":%d,\"message\":", rpc_code);
    kg_json_put_string(lines, kg_str(message));
    kg_buf_str(lines, KG_STR("}}"));
    peer_end_line(peer, &peer->answers);
}

/* The child's own id of a request that is answered now; false: it was, or never came. */
static bool peer_settle(struct peer *peer, int64_t request, struct debt *ret_debt)
{
    if (!debts_settle(&peer->debts, request, loop_now_ms(peer->loop), ret_debt))
        return false;
    if (peer->debts.count == 0)
        release_held(peer);
    return true;
}

void peer_answer_error(struct peer *peer, int64_t request, int rpc_code, const char *message)
{
    struct debt debt;
    if (peer_settle(peer, request, &debt))
        peer_put_error(peer, (struct kg_str){debt.id, debt.id_length}, rpc_code, message);
}

void peer_answer(struct peer *peer, int64_t request, enum peer_answer kind, struct kg_str json)
{
    struct kg_buf *lines = &peer->answers.lines;
    struct kg_err err = {0};
    struct debt debt;
    if (!peer_settle(peer, request, &debt))
        return;
    struct kg_str id = {debt.id, debt.id_length};
    if (peer_begin_line(peer, &peer->answers, json.length + id.length + 64, &err) < 0) {
        peer_put_error(peer, id, kg_error_row(err.code)->rpc_code, err.message);
        return;
    }
    put_answer_id(lines, id);
    kg_buf_str(lines, kind == PEER_ANSWER_RESULT ? KG_STR(",\"result\":") : KG_STR(",\"error\":"));
    put_on_one_line(lines, json);
    kg_buf_char(lines, '}');
    peer_end_line(peer, &peer->answers);
}

uint64_t peer_stood_ms(const struct peer *peer)
{
    return debts_stood_ms(&peer->debts, peer->loop);
}

/* -- reading ----------------------------------------------------------------------------------- */

static void peer_on_response(struct peer *peer, const struct rpc_message *message)
{
    uint64_t id = (uint64_t)message->id;
    if (id >= peer->next_id) {
        char detail[64];
        snprintf(detail, sizeof(detail), "an answer to id %lld, which was never asked",
                 (long long)message->id);
        violate(peer, PEER_UNKNOWN_ID, detail);
        return;
    }
    struct pending **link = pending_find(peer, id);
    if (link == NULL)
        return; /* late: nobody waits for it any more */
    bool ok = message->kind == RPC_RESULT;
    pending_end(peer, link, ok ? PEER_RESULT : PEER_ERROR, ok ? message->result : message->error);
}

static void on_flood_over(struct loop_timer *timer)
{
    struct peer *peer = KG_CONTAINER(timer, struct peer, flood_timer);
    uint32_t seen = peer->notifications_seen;
    peer->notifications_seen = 0;
    if (peer->ops->on_flood != NULL)
        peer->ops->on_flood(peer->data, seen);
}

static void peer_on_notification(struct peer *peer, const struct rpc_message *message)
{
    if (peer->phase != PEER_OPEN)
        return;
    uint64_t now_ms = loop_now_ms(peer->loop);
    if (kg_rate_pass(&peer->notifications, peer->limits.notifications_per_sec, now_ms, NULL)) {
        if (peer->ops->on_notification != NULL)
            peer->ops->on_notification(peer->data, kg_str(message->method), message->params);
        return;
    }
    peer->counters.notifications_dropped++;
    uint32_t seen = peer->notifications.passed + peer->notifications.dropped;
    if (seen > peer->notifications_seen) /* the next second may begin before the timer is run */
        peer->notifications_seen = seen;
    if (loop_timer_running(&peer->flood_timer))
        return;
    loop_timer_start(peer->loop, &peer->flood_timer, 1000 - now_ms % 1000, on_flood_over);
    if (peer->rules->rate_limited == NULL)
        return;
    char params[64];
    snprintf(params, sizeof(params), "{\"limit_per_sec\":%u}", peer->limits.notifications_per_sec);
    (void)peer_notify(peer, peer->rules->rate_limited, kg_str(params), NULL);
}

static void peer_on_request(struct peer *peer, const struct rpc_message *message)
{
    if (peer->phase != PEER_OPEN) {
        peer_put_error(peer, message->id_text, kg_error_row(KG_E_NOT_INITIALIZED)->rpc_code,
                       "the handshake is not done yet");
        return;
    }
    int64_t number = debts_add(&peer->debts, message->id_text, loop_now_ms(peer->loop));
    peer->ops->on_request(peer->data, number, kg_str(message->method), message->params);
}

static void peer_reject(struct peer *peer, enum peer_violation violation, struct kg_str id,
                        const char *problem)
{
    peer_put_error(peer, id, kg_error_row(KG_E_INVALID_REQUEST)->rpc_code, problem);
    violate(peer, violation, problem);
}

static void on_invalid_request(struct peer *peer, const struct rpc_message *message)
{
    if (message->has_foreign_id && peer->rules->takes_any_id)
        peer_on_request(peer, message);
    else
        peer_reject(peer, PEER_BAD_REQUEST, message->has_id ? message->id_text : KG_STR("null"),
                    message->problem);
}

/* Before the answer to initialize, what is not JSON stands in its place. Empty lines do not. */
static bool is_broken_answer(const struct peer *peer, struct kg_str line,
                             const struct rpc_message *message)
{
    struct kg_json_cursor cursor = {line.data, line.data + line.length};
    if (peer->phase != PEER_SILENT || message->kind != RPC_NOISE || message->fault == KG_JSON_OK)
        return false;
    kg_json_skip_space(&cursor);
    return cursor.at < cursor.end;
}

static void peer_dispatch(struct peer *peer, struct kg_str line, const struct rpc_message *message)
{
    switch (message->kind) {
    case RPC_NOISE:
        peer->ops->on_noise(peer->data, line, message->problem);
        break;
    case RPC_BATCH:
        peer_reject(peer, PEER_BATCH, KG_STR("null"), "batches are not supported");
        break;
    case RPC_INVALID_REQUEST:
        on_invalid_request(peer, message);
        break;
    case RPC_INVALID_RESPONSE:
        violate(peer, PEER_BAD_RESPONSE, message->problem);
        break;
    case RPC_REQUEST:
        peer_on_request(peer, message);
        break;
    case RPC_NOTIFICATION:
        peer_on_notification(peer, message);
        break;
    case RPC_RESULT:
    case RPC_ERROR:
        peer_on_response(peer, message);
        break;
    }
}

static void violate_hello(struct peer *peer, struct kg_str line, const char *problem)
{
    char detail[256];
    snprintf(detail, sizeof(detail), "the answer to initialize: %s: %.*s", problem,
             KG_STR_CUT(line, KG_CUT_WORD));
    violate(peer, PEER_BAD_RESPONSE, detail);
}

static bool peer_on_line(void *data, struct kg_str line)
{
    struct peer *peer = data;
    struct rpc_message message;
    if (peer->tap != NULL)
        peer->tap(peer->tap_data, PEER_FROM, line);
    rpc_parse(line, &message);
    if (is_broken_answer(peer, line, &message))
        violate_hello(peer, line, message.problem);
    else if (peer->phase == PEER_SILENT && message.kind != RPC_NOISE &&
             message.kind != RPC_RESULT && message.kind != RPC_ERROR &&
             message.kind != RPC_INVALID_RESPONSE)
        violate(peer, PEER_TOO_EARLY, "a message before the answer to initialize");
    else
        peer_dispatch(peer, line, &message);
    return !peer->closed;
}

/* Reads once. False when there is nothing more to read for now, or ever. */
static bool peer_read_some(struct peer *peer)
{
    size_t size;
    char *space = frame_space(&peer->frame, loop_scratch(peer->loop), LOOP_SCRATCH_BYTES, &size);
    /* What a flood says is mostly dropped; the less of it a turn reads, the less others wait. */
    if (loop_timer_running(&peer->flood_timer) && size > FLOOD_READ_BYTES)
        size = FLOOD_READ_BYTES;
    ssize_t got = read(peer->out_fd, space, size);
    if (got < 0)
        return errno == EINTR;
    if (got == 0) {
        close_out_fd(peer);
        peer_tell_end(peer, PEER_STDOUT_CLOSED);
        return false;
    }
    peer->counters.bytes_in += (uint64_t)got;
    switch (frame_advance(&peer->frame, space, (size_t)got, peer_on_line, peer)) {
    case FRAME_OVERSIZE: {
        char detail[64];
        snprintf(detail, sizeof(detail), "a line of more than %zu bytes",
                 peer->limits.line_max_bytes);
        violate(peer, PEER_OVERSIZE, detail);
        peer->frame.over = KG_STR_NULL;
        return false;
    }
    case FRAME_STOPPED:
        return false;
    case FRAME_OK:
        break;
    }
    return !peer->closed && peer->out_fd >= 0;
}

/* One read a turn, so that a plugin that floods us cannot keep the others waiting. */
static void peer_on_readable(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    struct peer *peer = handle->data;
    if (peer_read_some(peer))
        peer_update_reading(peer);
}

/*
 * A plugin that does not read our answers is not read either. Calls do not count: one that handles
 * them in turn reads the next only after we took its last reply.
 */
static void peer_update_reading(struct peer *peer)
{
    if (peer->closed || peer->out_fd < 0)
        return;
    bool held = waiting_bytes(&peer->answers) > peer->limits.write_queue_max_bytes / 2;
    if (held == peer->held)
        return;
    peer->held = held;
    if (held)
        uv_poll_stop(&peer->out_poll);
    else
        uv_poll_start(&peer->out_poll, UV_READABLE, peer_on_readable);
}

/* -- life -------------------------------------------------------------------------------------- */

static const struct peer_rules strictest;

struct peer *peer_new(struct loop *loop, int in_fd, int out_fd, const struct peer_limits *limits,
                      const struct peer_ops *ops, void *data)
{
    struct peer *peer = kg_alloc(sizeof(*peer));
    peer->loop = loop;
    peer->ops = ops;
    peer->data = data;
    peer->in_fd = in_fd;
    peer->out_fd = out_fd;
    peer->next_id = 1;
    peer->rules = &strictest;
    peer->flush_task.run = on_flush_task;
    peer->limits = *limits;
    peer->frame.line_max = limits->line_max_bytes;
    uv_poll_init(loop_uv(loop), &peer->in_poll, in_fd);
    uv_poll_init(loop_uv(loop), &peer->out_poll, out_fd);
    peer->in_poll.data = peer->out_poll.data = peer;
    peer->open_handles = 2;
    uv_poll_start(&peer->out_poll, UV_READABLE, peer_on_readable);
    watch_input(peer, false);
    return peer;
}

void peer_set_rules(struct peer *peer, const struct peer_rules *rules)
{
    peer->rules = rules;
    peer->phase = rules->begins;
}

void peer_set_phase(struct peer *peer, enum peer_phase phase)
{
    peer->phase = phase;
}

void peer_set_tap(struct peer *peer, peer_tap_fn *tap_or_null, void *data)
{
    peer->tap = tap_or_null;
    peer->tap_data = data;
}

void peer_close_input(struct peer *peer)
{
    if (peer->in_fd < 0)
        return;
    peer->closing_input = true;
    peer_flush(peer);
}

/* Not more than is there now: whoever still holds the other end could write for ever. */
void peer_drain(struct peer *peer)
{
    int left = 0;
    if (peer->out_fd >= 0)
        (void)ioctl(peer->out_fd, FIONREAD, &left);
    uint64_t last = peer->counters.bytes_in + (uint64_t)left;
    while (!peer->closed && peer->out_fd >= 0 && peer->counters.bytes_in <= last &&
           peer_read_some(peer))
        ;
    peer_close(peer);
}

void peer_close(struct peer *peer)
{
    if (peer->closed)
        return;
    peer->closed = true;
    close_out_fd(peer);
    close_in_fd(peer);
    loop_undefer(peer->loop, &peer->flush_task);
    loop_timer_stop(peer->loop, &peer->flood_timer);
    end_all_pending(peer);
}

static void release_if_done(struct peer *peer)
{
    if (!peer->freed || peer->open_handles > 0)
        return;
    for (struct pending *pending = peer->unused, *next; pending != NULL; pending = next) {
        next = pending->next;
        free(pending);
    }
    free(peer->buckets);
    debts_free(&peer->debts);
    frame_free(&peer->frame);
    free(peer);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct peer *peer = handle->data;
    peer->open_handles--;
    release_if_done(peer);
}

void peer_free(struct peer *peer)
{
    if (peer == NULL)
        return;
    peer_close(peer);
    peer->freed = true;
    release_if_done(peer);
}

struct kg_str peer_rest(const struct peer *peer)
{
    const struct frame *frame = &peer->frame;
    return frame->partial.length > 0 ? kg_buf_view(&frame->partial) : frame->over;
}

struct peer_counters peer_counters(const struct peer *peer)
{
    struct peer_counters counters = peer->counters;
    counters.debts = peer->debts.count;
    return counters;
}
