/*
 * The loop's side: an event is one line in a buffer, which goes to the writer at the end of the
 * turn. Taking an event costs no system call, no lock and, once the buffers have grown, no
 * allocation.
 */
#include "audit/internal.h"

#include "base/json/short.h"
#include "redact/shared.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define HAND_OVER_BYTES ((size_t)64 * 1024) /* a turn that emits more hands over in between */

/* -- texts made once --------------------------------------------------------------------------- */

static struct audit_piece make_piece(const char *before, const char *name, const char *after)
{
    struct audit_piece piece = {0};
    int length = snprintf(piece.text, sizeof(piece.text), "%s\"%s\"%s", before, name, after);
    assert(length > 0 && (size_t)length < sizeof(piece.text));
    piece.length = (size_t)length;
    return piece;
}

static struct audit_text_row *make_texts(void)
{
    struct audit_text_row *texts = kg_alloc_array(AUDIT_EVENT_COUNT, sizeof(*texts));
    for (int event = 0; event < AUDIT_EVENT_COUNT; event++) {
        const struct audit_event_row *row = audit_event_row((enum audit_event)event);
        struct audit_text_row *text = &texts[event];
        text->event = make_piece(",\"event\":", row->name, "");
        for (; row->fields[text->count] != NULL; text->count++)
            text->fields[text->count] = make_piece(",", row->fields[text->count], ":");
    }
    return texts;
}

/* -- the beginning of a line ------------------------------------------------------------------- */

/*
 * The head holds the newest event's time and id. The clock is read once a turn. Ids grow over the
 * whole log, also when the clock was set back: readers ask for what came after an id.
 */
static void stamp(struct audit *audit)
{
    char *id = audit->head + AUDIT_ID_AT;
    int64_t now_ms = audit->head_is_now ? audit->head_ms : kg_wall_ms();
    audit->head_is_now = true;
    if (now_ms == audit->head_ms) {
        kg_ulid_count_up(id + AUDIT_ID_LENGTH - KG_ULID_LENGTH);
        return;
    }
    audit->head_ms = now_ms;
    char text[KG_TIME_TEXT];
    kg_time_format(now_ms, text);
    memcpy(audit->head + AUDIT_TS_AT, text, AUDIT_TS_LENGTH);
    struct kg_id fresh = kg_id_new("evt_");
    if (memcmp(fresh.text, id, AUDIT_ID_LENGTH) > 0)
        memcpy(id, fresh.text, AUDIT_ID_LENGTH);
    else
        kg_ulid_count_up(id + AUDIT_ID_LENGTH - KG_ULID_LENGTH);
}

static void make_head(struct audit *audit)
{
    static const char blank[] = "{\"ts\":\"0000-00-00T00:00:00.000Z\",\"id\":\""
                                "evt_00000000000000000000000000\"";
    static_assert(sizeof(blank) - 1 == AUDIT_HEAD_LENGTH, "the places in internal.h");
    memcpy(audit->head, blank, AUDIT_HEAD_LENGTH);
    audit->head_ms = -1;
    const char *last_id = audit->chain.last_id;
    if (strspn(last_id + 4, kg_ulid_digits) == KG_ULID_LENGTH)
        memcpy(audit->head + AUDIT_ID_AT, last_id, AUDIT_ID_LENGTH);
}

/* -- handing over ------------------------------------------------------------------------------ */

static void hand_over_locked(struct audit *audit)
{
    audit->head_is_now = false;
    if (audit->queue.length == 0) {
        struct kg_buf empty = audit->queue;
        audit->queue = audit->fill;
        audit->fill = empty;
    } else {
        kg_buf_str(&audit->queue, kg_buf_view(&audit->fill));
        audit->fill.length = 0;
    }
}

static void audit_hand_over(struct audit *audit)
{
    if (audit->fill.length == 0)
        return;
    uv_mutex_lock(&audit->lock);
    hand_over_locked(audit);
    bool wake = audit->idle || audit->queue.length > audit->urgent_bytes;
    uv_mutex_unlock(&audit->lock);
    if (wake)
        uv_cond_signal(&audit->wake);
}

static void audit_on_turn_end(struct loop_task *task)
{
    audit_hand_over(KG_CONTAINER(task, struct audit, hand_over));
}

void audit_flush(struct audit *audit, struct loop_message *when_written)
{
    when_written->next = NULL;
    uv_mutex_lock(&audit->lock);
    hand_over_locked(audit);
    *audit->flushes_tail = when_written;
    audit->flushes_tail = &when_written->next;
    uv_cond_signal(&audit->wake);
    uv_mutex_unlock(&audit->lock);
}

/* -- events ------------------------------------------------------------------------------------ */

/* For the head and all pieces of a line, and for values that are short. */
#define LINE_ROOM                                                                                  \
    (AUDIT_HEAD_LENGTH + (2 * AUDIT_FIELDS_MAX + 5) * AUDIT_PIECE_BYTES +                          \
     (AUDIT_FIELDS_MAX + 2) * (KG_JSON_SHORT_MAX + 2))

static inline char *audit_put_piece(char *at, const struct audit_piece *piece)
{
    memcpy(at, piece->text, sizeof(piece->text));
    return at + piece->length;
}

/* Valid JSON may have newlines between its tokens; a line of the log must not. */
static void audit_put_raw(struct kg_buf *buf, struct kg_str json)
{
    size_t start = buf->length;
    kg_buf_str(buf, json);
    char *at = buf->data + start, *end = buf->data + buf->length;
    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL)
        *at++ = ' ';
}

static void audit_put_value(struct kg_buf *buf, const struct audit_value *value)
{
    if (value->type == AUDIT_STR && value->text.data != NULL)
        kg_json_put_string(buf, value->text);
    else if (value->type == AUDIT_INT)
        kg_buf_int(buf, value->number);
    else if (value->type == AUDIT_BOOL)
        kg_buf_str(buf, value->number ? KG_STR("true") : KG_STR("false"));
    else if (value->type == AUDIT_RAW && value->text.length > 0)
        audit_put_raw(buf, value->text);
    else
        kg_buf_str(buf, KG_STR("null"));
}

/* What a plugin or a stranger wrote may have a secret in it. */
static void put_without_secrets(struct kg_buf *buf, const struct audit_value *given)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    struct audit_value value = *given;
    if ((given->type == AUDIT_STR && redact_put_shared(given->text, &shown)) ||
        (given->type == AUDIT_RAW && redact_put_shared_json(given->text, &shown)))
        value.text = kg_buf_view(&shown);
    audit_put_value(buf, &value);
}

/* What is long, strange or secret; then there is room again for all that may follow. */
static __attribute__((noinline)) char *
audit_put_any(struct kg_buf *buf, char *at, const struct audit_value *value, bool has_secrets)
{
    buf->length = (size_t)(at - buf->data);
    if (has_secrets)
        put_without_secrets(buf, value);
    else
        audit_put_value(buf, value);
    kg_buf_reserve(buf, LINE_ROOM);
    return buf->data + buf->length;
}

/* Most are durations and numbers of things. */
static inline char *audit_put_count(char *at, int64_t number)
{
    if (number < 0 || number > 9999)
        return NULL;
    if (number <= 9) {
        *at = (char)('0' + number);
        return at + 1;
    }
    size_t length = 2 + (size_t)(number > 99) + (size_t)(number > 999);
    char *end = at + length;
    for (char *digit = end; digit > at; number /= 10)
        *--digit = (char)('0' + number % 10);
    return end;
}

/* Where there is room for it. NULL: it is not that simple. */
static inline char *audit_put_short(char *at, const struct audit_value *value)
{
    static const struct audit_piece words[] = {{"null", 4}, {"true", 4}, {"false", 5}};
    if (value->type == AUDIT_STR && value->text.data != NULL)
        return kg_json_put_short(at, value->text);
    if (value->type == AUDIT_NULL)
        return audit_put_piece(at, &words[0]);
    if (value->type == AUDIT_BOOL)
        return audit_put_piece(at, &words[value->number ? 1 : 2]);
    return value->type == AUDIT_INT ? audit_put_count(at, value->number) : NULL;
}

static void audit_tell_listeners(struct audit *audit, enum audit_event event, size_t start)
{
    struct kg_str line = {audit->fill.data + start, audit->fill.length - start - 1};
    for (struct audit_listener *at = audit->listeners; at != NULL; at = audit->next_listener) {
        audit->next_listener = at->next;
        at->on_event(at, line, event);
    }
}

static const struct audit_piece request_id_piece = {",\"request_id\":", 14};
static const struct audit_piece traceparent_piece = {",\"traceparent\":", 15};
static const struct audit_piece end_piece = {"}\n", 2};

struct audit_request audit_request(const struct audit *audit)
{
    return audit->request;
}

struct audit_request audit_swap_request(struct audit *audit, struct audit_request request)
{
    struct audit_request before = audit->request;
    audit->request = request;
    return before;
}

/* Few requests come with one. */
static __attribute__((noinline)) char *audit_put_trace(struct audit *audit, char *at)
{
    struct kg_str trace = kg_str(audit->request.traceparent);
    at = audit_put_piece(at, &traceparent_piece);
    char *end = kg_json_put_short(at, trace);
    return end ? end : audit_put_any(&audit->fill, at, &AUDIT_V_STR(trace), false);
}

/* What comes with a request, where the event belongs to one. */
static inline char *audit_put_request(struct audit *audit, char *at, struct kg_str request_id)
{
    const struct audit_request *own = &audit->request;
    if (request_id.length == 0)
        request_id = kg_str(own->id);
    if (request_id.length == 0)
        return at;
    at = audit_put_piece(at, &request_id_piece);
    char *end = kg_json_put_short(at, request_id);
    at = end ? end : audit_put_any(&audit->fill, at, &AUDIT_V_STR(request_id), false);
    bool is_traced = own->traceparent[0] != '\0' && kg_str_is(request_id, own->id);
    return is_traced ? audit_put_trace(audit, at) : at;
}

void audit_emit_values(struct audit *audit, enum audit_event event, struct kg_str request_id,
                       const struct audit_value *values, size_t count)
{
    assert((unsigned)event < AUDIT_EVENT_COUNT);
    const struct audit_text_row *text = &audit->texts[event];
    assert(count == text->count);
    struct kg_buf *buf = &audit->fill;
    size_t start = buf->length;
    bool has_secrets = redact_shares_any();
    stamp(audit);
    kg_buf_reserve(buf, LINE_ROOM);
    char *at = buf->data + start, *end;
    memcpy(at, audit->head, AUDIT_HEAD_LENGTH);
    at = audit_put_piece(at + AUDIT_HEAD_LENGTH, &text->event);
    at = audit_put_request(audit, at, request_id);
    for (size_t i = 0; i < count; i++) {
        at = audit_put_piece(at, &text->fields[i]);
        end = has_secrets ? NULL : audit_put_short(at, &values[i]);
        at = end ? end : audit_put_any(buf, at, &values[i], has_secrets);
    }
    buf->length = (size_t)(audit_put_piece(at, &end_piece) - buf->data);
    uint64_t before = atomic_load_explicit(&audit->emitted, memory_order_relaxed);
    atomic_store_explicit(&audit->emitted, before + buf->length - start, memory_order_relaxed);
    audit_tell_listeners(audit, event, start);
    if (buf->length >= HAND_OVER_BYTES)
        audit_hand_over(audit);
    else
        loop_defer(audit->loop, &audit->hand_over);
}

void audit_listen(struct audit *audit, struct audit_listener *listener)
{
    listener->next = audit->listeners;
    audit->listeners = listener;
}

void audit_unlisten(struct audit *audit, struct audit_listener *listener)
{
    KG_UNLINK(audit->listeners, listener);
    if (audit->next_listener == listener)
        audit->next_listener = listener->next;
}

/* -- readiness --------------------------------------------------------------------------------- */

bool audit_ready(const struct audit *audit, const char **ret_why)
{
    int refused = atomic_load_explicit(&audit->refused, memory_order_relaxed);
    /* In this order, so that no thread sees more written than emitted. */
    uint64_t written = atomic_load_explicit(&audit->written, memory_order_acquire);
    uint64_t emitted = atomic_load_explicit(&audit->emitted, memory_order_relaxed);
    if (refused == 0 && emitted - written <= audit->queue_bytes)
        return true;
    const char *why = "the disk is slower than the events that come";
    if (refused == ENOSPC)
        why = "the disk is full";
    else if (refused != 0)
        why = strerrordesc_np(refused) ? strerrordesc_np(refused) : "the disk refuses it";
    if (ret_why != NULL)
        *ret_why = why;
    return false;
}

uint64_t audit_waiting_bytes(const struct audit *audit)
{
    return audit->emitted - atomic_load_explicit(&audit->written, memory_order_relaxed);
}

bool audit_is_behind(const struct audit *audit)
{
    return !audit_ready(audit, NULL) &&
           atomic_load_explicit(&audit->refused, memory_order_relaxed) == 0;
}

static void ask_for_progress(struct audit *audit)
{
    uv_mutex_lock(&audit->lock);
    audit->waited = true;
    uv_mutex_unlock(&audit->lock);
}

/* Asks first and looks then, so that the writer's last word cannot fall in between. */
static void call_waiters(struct audit *audit)
{
    const char *why;
    if (audit->waiters == NULL || audit->closing)
        return;
    ask_for_progress(audit);
    while (audit_ready(audit, &why) && audit->waiters != NULL) {
        struct audit_waiter *waiter = audit->waiters;
        audit_unwait(audit, waiter);
        waiter->on_ready(waiter); /* may emit, wait again, or end other waits */
    }
}

static void audit_on_progress(struct loop_message *message)
{
    struct audit *audit = KG_CONTAINER(message, struct audit, progress);
    uv_mutex_lock(&audit->lock);
    audit->posted = false;
    uv_mutex_unlock(&audit->lock);
    call_waiters(audit);
}

static void on_call_waiters(struct loop_task *task)
{
    call_waiters(KG_CONTAINER(task, struct audit, call_waiters));
}

void audit_wait_ready(struct audit *audit, struct audit_waiter *waiter)
{
    if (waiter->waiting)
        return;
    waiter->waiting = true;
    struct audit_waiter **link = &audit->waiters;
    while (*link != NULL)
        link = &(*link)->next;
    *link = waiter;
    waiter->next = NULL;
    loop_defer(audit->loop, &audit->call_waiters);
}

void audit_unwait(struct audit *audit, struct audit_waiter *waiter)
{
    KG_UNLINK(audit->waiters, waiter);
    waiter->waiting = false;
}

/* -- life -------------------------------------------------------------------------------------- */

static uint64_t rotation_or_never(uint64_t rotate_bytes)
{
    return rotate_bytes ? rotate_bytes : UINT64_MAX;
}

static void on_writer_done(struct loop_job *job)
{
    (void)job;
}

static void start_writer(struct audit *audit)
{
    if (uv_mutex_init(&audit->lock) || uv_cond_init(&audit->wake))
        abort(); /* fails only without memory */
    audit->flushes_tail = &audit->flushes;
    audit->progress.deliver = audit_on_progress;
    audit->hand_over.run = audit_on_turn_end;
    audit->call_waiters.run = on_call_waiters;
    audit->job.run = audit_writer_run;
    audit->job.done = on_writer_done;
    audit->worker = loop_worker_new(audit->loop, "audit");
    loop_worker_submit(audit->worker, &audit->job);
}

struct audit *audit_open(struct loop *loop, const struct audit_options *options, struct kg_err *err)
{
    struct audit_options fixed = *options;
    fixed.rotate_bytes = rotation_or_never(options->rotate_bytes);
    struct audit *audit = kg_alloc(sizeof(*audit));
    if (audit_chain_open(&audit->chain, &fixed, err) < 0) {
        free(audit);
        return NULL;
    }
    audit->loop = loop;
    audit->dir = kg_strdup(options->dir);
    audit->queue_bytes = options->queue_bytes;
    audit->urgent_bytes = options->queue_bytes / 2;
    if (audit->urgent_bytes > AUDIT_URGENT_BYTES)
        audit->urgent_bytes = AUDIT_URGENT_BYTES;
    audit->seal_interval_ms = options->seal_interval_ms;
    audit->rotate_bytes = fixed.rotate_bytes;
    audit->keep = options->keep;
    audit->texts = make_texts();
    make_head(audit);
    start_writer(audit);
    return audit;
}

void audit_set_rotation(struct audit *audit, uint64_t rotate_bytes, unsigned keep)
{
    uv_mutex_lock(&audit->lock);
    audit->rotate_bytes = rotation_or_never(rotate_bytes);
    audit->keep = keep;
    uv_mutex_unlock(&audit->lock);
}

/* Freeing the worker waits for its one job, and delivers what the writer posted. */
static void stop_writer(struct audit *audit)
{
    loop_undefer(audit->loop, &audit->hand_over);
    loop_undefer(audit->loop, &audit->call_waiters);
    uv_mutex_lock(&audit->lock);
    hand_over_locked(audit);
    audit->closing = true;
    uv_cond_signal(&audit->wake);
    uv_mutex_unlock(&audit->lock);
    loop_worker_free(audit->worker);
}

void audit_close(struct audit *audit)
{
    if (audit == NULL)
        return;
    stop_writer(audit);
    audit_chain_close(&audit->chain);
    uv_cond_destroy(&audit->wake);
    uv_mutex_destroy(&audit->lock);
    kg_buf_free(&audit->fill);
    kg_buf_free(&audit->queue);
    kg_buf_free(&audit->batch);
    free(audit->texts);
    free(audit->dir);
    free(audit);
}
