/*
 * What is said with a plugin, one record a line: as it happens, or what its recorder kept. What
 * waits for a reader is bounded; one that is too slow loses records, is told how many, and holds up
 * neither the plugin nor the daemon. Records are written once a turn of the loop.
 */
#include "http/internal.h"

#include <stdlib.h>

#define KEPT_BYTES ((size_t)65536) /* an empty queue larger than this is given back */

static const char ndjson[] = "application/x-ndjson";

struct reader {
    struct host_trace_listener listener;
    struct http_request *request;
    struct loop *loop;
    struct loop_task task; /* writes */
    uint64_t start_ns;
    struct kg_buf queue;
    size_t queue_max;
    uint64_t missed; /* since the last record in the queue */
    bool full;       /* the client does not read fast enough */
};

/* -- to the client ----------------------------------------------------------------------------- */

static void http_trace_put_missed(struct reader *reader, int64_t t_us)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    if (reader->missed == 0)
        return;
    trace_put_missed(&body, reader->missed);
    reader->missed = 0;
    trace_put_record(&reader->queue, t_us, kg_buf_view(&body));
}

static void http_trace_flush(struct reader *reader)
{
    if (reader->full || reader->queue.length == 0)
        return;
    reader->full = !http_reply_piece(reader->request, kg_buf_view(&reader->queue));
    reader->queue.length = 0;
    if (reader->queue.capacity > KEPT_BYTES)
        kg_buf_free(&reader->queue);
}

static void http_trace_on_flush(struct loop_task *task)
{
    http_trace_flush(KG_CONTAINER(task, struct reader, task));
}

static int64_t http_trace_since_start_us(const struct reader *reader, uint64_t at_ns)
{
    return ((int64_t)at_ns - (int64_t)reader->start_ns) / 1000;
}

static void http_trace_on_room(void *data)
{
    struct reader *reader = data;
    reader->full = false;
    http_trace_put_missed(reader, http_trace_since_start_us(reader, kg_monotonic_ns()));
    http_trace_flush(reader);
}

/* One that is alone fits always: its length is bounded. */
static void http_trace_on_record(struct host_trace_listener *listener, uint64_t at_ns,
                                 struct kg_str body)
{
    struct reader *reader = KG_CONTAINER(listener, struct reader, listener);
    int64_t t_us = http_trace_since_start_us(reader, at_ns);
    if (reader->queue.length > 0 && reader->queue.length + body.length > reader->queue_max) {
        reader->missed++;
        return;
    }
    http_trace_put_missed(reader, t_us);
    trace_put_record(&reader->queue, t_us, body);
    loop_defer(reader->loop, &reader->task);
}

/* -- life -------------------------------------------------------------------------------------- */

static void http_trace_on_end(struct host_trace_listener *listener)
{
    struct reader *reader = KG_CONTAINER(listener, struct reader, listener);
    loop_undefer(reader->loop, &reader->task);
    if (reader->queue.length > 0)
        (void)http_reply_piece(reader->request, kg_buf_view(&reader->queue));
    http_reply_end(reader->request);
    kg_buf_free(&reader->queue);
    free(reader);
}

static void http_trace_on_gone(void *data)
{
    struct reader *reader = data;
    host_trace_unlisten(&reader->listener);
    reader->queue.length = 0;
    http_trace_on_end(&reader->listener);
}

static void audit_traced(const struct http_request *request, struct host_named named,
                         const char *act)
{
    audit_emit(host_audit(http_host(request)), AUDIT_PLUGIN_TRACED, kg_str(request->request_id),
               AUDIT_V_TEXT(host_name(named)), AUDIT_V_TEXT(act),
               AUDIT_V_TEXT(http_operator(request)));
}

static void http_trace_follow(struct http_request *request, struct host_named named)
{
    struct kg_err err;
    struct host *host = http_host(request);
    struct reader *reader = kg_alloc(sizeof(*reader));
    reader->listener.on_record = http_trace_on_record;
    reader->listener.on_end = http_trace_on_end;
    if (host_trace_listen(named.process, &reader->listener, &err) < 0) {
        free(reader);
        http_reply_error(request, &err);
        return;
    }
    reader->request = request;
    reader->loop = host_loop(host);
    reader->task.run = http_trace_on_flush;
    reader->start_ns = kg_monotonic_ns();
    reader->queue_max = (size_t)host_config(host)->limits_trace_queue_bytes;
    host_trace_put_header(named.process, kg_wall_ms(), &reader->queue);
    audit_traced(request, named, "followed");
    http_on_gone(request, http_trace_on_gone, reader);
    http_on_room(request, http_trace_on_room, reader);
    http_reply_begin(request, 200, ndjson);
    if (request->method == HTTP_HEAD)
        http_trace_on_gone(reader);
    else
        http_trace_flush(reader);
}

/* -- what was kept ----------------------------------------------------------------------------- */

static void reply_ring(struct http_request *request, struct host_named named,
                       const struct trace_ring *ring)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, missed = {0};
    uint64_t start_ns = kg_monotonic_ns(), at_ns = start_ns;
    audit_traced(request, named, "read");
    if (trace_ring_count(ring) > 0)
        (void)trace_ring_at(ring, 0, &start_ns);
    host_trace_put_header(named.process, kg_wall_ms() - (int64_t)((at_ns - start_ns) / 1000000),
                          &text);
    if (trace_ring_dropped(ring) > 0) {
        trace_put_missed(&missed, trace_ring_dropped(ring));
        trace_put_record(&text, 0, kg_buf_view(&missed));
    }
    for (size_t i = 0; i < trace_ring_count(ring); i++) {
        struct kg_str body = trace_ring_at(ring, i, &at_ns);
        trace_put_record(&text, (int64_t)(at_ns - start_ns) / 1000, body);
    }
    http_reply_text(request, 200, ndjson, kg_buf_view(&text));
}

static void reply_recorded(struct http_request *request, struct host_named named)
{
    struct kg_err err;
    const struct trace_ring *ring = host_trace_recorded(named.process);
    if (ring != NULL) {
        reply_ring(request, named, ring);
        return;
    }
    kg_fail(&err, KG_E_NOT_FOUND, "plugin %s: its recorder is off", host_name(named));
    kg_hint(&err, "kaged plugin trace %s --on", host_name(named));
    http_reply_error(request, &err);
}

static void reply_crash(struct http_request *request, struct host_named named)
{
    struct kg_err err;
    int64_t at_ms;
    const struct trace_ring *ring = host_trace_crash(named.process, &at_ms);
    if (ring != NULL) {
        reply_ring(request, named, ring);
        return;
    }
    kg_fail(&err, KG_E_NOT_FOUND, "plugin %s: none of its exits was recorded", host_name(named));
    if (host_trace_recorded(named.process) == NULL)
        kg_hint(&err, "to record the next one: kaged plugin trace %s --on", host_name(named));
    http_reply_error(request, &err);
}

/* -- routes ------------------------------------------------------------------------------------ */

void http_handle_trace(struct http_request *request)
{
    struct kg_str of = http_query_parameter(request, "of");
    struct host_named named;
    if (!http_find_process(request, &named))
        return;
    if (kg_str_is(of, "recorded"))
        reply_recorded(request, named);
    else if (kg_str_is(of, "crash"))
        reply_crash(request, named);
    else
        http_trace_follow(request, named);
}

static void put_ring(struct kg_json_writer *json, const char *key, const struct trace_ring *ring)
{
    kg_json_key(json, key);
    if (ring == NULL) {
        kg_json_null(json);
        return;
    }
    kg_json_begin(json, '{');
    kg_json_named_int(json, "records", (int64_t)trace_ring_count(ring));
    kg_json_named_int(json, "bytes", (int64_t)trace_ring_bytes(ring));
    kg_json_named_int(json, "dropped", (int64_t)trace_ring_dropped(ring));
    kg_json_end(json, '}');
}

void http_put_exit_trace(struct kg_json_writer *json, struct host_named named, int64_t exit_at_ms)
{
    int64_t at_ms = 0;
    const struct trace_ring *ring = named.process ? host_trace_crash(named.process, &at_ms) : NULL;
    put_ring(json, "trace", at_ms == exit_at_ms ? ring : NULL);
}

void http_handle_trace_switch(struct http_request *request)
{
    bool record = http_body_flag(request, "record", true);
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct host_named named;
    if (!http_find_process(request, &named))
        return;
    host_trace_record(named.process, record);
    audit_traced(request, named, record ? "recorder_on" : "recorder_off");
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    put_ring(&json, "recorded", host_trace_recorded(named.process));
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}
