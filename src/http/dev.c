/*
 * A run of a plugin for its author, as the answer of a request: one JSON object a line, as it
 * happens. The run lives as long as the client reads. Only over the unix socket, since the folder
 * is one of this machine, and who names it must be somebody who could run kaged himself.
 */
#include "http/internal.h"

#include <errno.h>
#include <stdlib.h>

#define QUEUE_BYTES ((size_t)8 << 20) /* that wait for a client */

struct run {
    struct http_request *request;
    struct host_dev *dev;
    struct loop *loop;
    struct loop_task task; /* writes, once a turn */
    struct kg_buf queue;
    bool begun;
    bool full;          /* the client does not read fast enough */
    size_t records_max; /* bytes of the queue that may be records */
    uint64_t missed;    /* of them, since the last in the queue */
    int64_t last_us;    /* when the last came */
};

/* -- to the client ----------------------------------------------------------------------------- */

static void http_dev_flush(struct run *run)
{
    if (run->full || run->queue.length == 0)
        return;
    if (!run->begun)
        http_reply_begin(run->request, 200, "application/x-ndjson");
    run->begun = true;
    run->full = !http_reply_piece(run->request, kg_buf_view(&run->queue));
    kg_buf_free(&run->queue);
}

static void http_dev_on_flush(struct loop_task *task)
{
    http_dev_flush(KG_CONTAINER(task, struct run, task));
}

static void http_dev_put_line(struct run *run, struct kg_str line)
{
    kg_buf_str(&run->queue, line);
    loop_defer(run->loop, &run->task);
}

static void http_dev_put_missed(struct run *run)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0}, line = {0};
    if (run->missed == 0)
        return;
    trace_put_missed(&body, run->missed);
    trace_put_record(&line, run->last_us, kg_buf_view(&body));
    run->missed = 0;
    http_dev_put_line(run, kg_buf_view(&line));
}

static void http_dev_on_room(void *data)
{
    struct run *run = data;
    run->full = false;
    http_dev_flush(run);
    http_dev_put_missed(run);
}

/* -- the run ----------------------------------------------------------------------------------- */

static void http_dev_run_free(struct run *run)
{
    loop_undefer(run->loop, &run->task);
    kg_buf_free(&run->queue);
    free(run);
}

static void http_dev_finish(struct run *run)
{
    run->full = false; /* the rest is taken, however slow the client is */
    http_dev_flush(run);
    http_reply_end(run->request);
    http_dev_run_free(run);
}

static void put_end(struct run *run, const struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = kg_json_writer(&line);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "type", "end");
    kg_json_named_text(&json, "code", kg_error_row(err->code)->name);
    kg_json_named_text(&json, "message", err->message);
    kg_json_named_text(&json, "hint", err->hint[0] != '\0' ? err->hint : NULL);
    kg_json_end(&json, '}');
    kg_buf_char(&line, '\n');
    http_dev_put_line(run, kg_buf_view(&line));
}

static void http_dev_on_end(void *data, const struct kg_err *err,
                            const struct kg_problems *problems)
{
    struct run *run = data;
    if (run->begun || run->queue.length > 0) {
        put_end(run, err);
        http_dev_finish(run);
        return;
    }
    http_reply_problems(run->request, err, problems);
    http_dev_run_free(run);
}

static void http_dev_on_gone(void *data)
{
    struct run *run = data;
    host_dev_leave(run->dev);
    if (run->begun)
        http_reply_end(run->request);
    else
        http_reply(run->request, kg_error_row(KG_E_CANCELLED)->http_status, KG_STR("{}"));
    http_dev_run_free(run);
}

static void http_dev_on_line(void *data, struct kg_str line)
{
    struct run *run = data;
    struct kg_err err;
    http_dev_put_line(run, line);
    if (run->queue.length <= QUEUE_BYTES)
        return;
    kg_fail(&err, KG_E_CANCELLED, "the client does not read: %zu bytes wait for it",
            run->queue.length);
    host_dev_leave(run->dev);
    put_end(run, &err);
    http_dev_finish(run);
}

/* A client that is slow loses some, is told how many, and holds up nobody. */
static void http_dev_on_record(void *data, int64_t t_us, struct kg_str line)
{
    struct run *run = data;
    run->last_us = t_us;
    if (run->queue.length + line.length > run->records_max) {
        run->missed++;
        return;
    }
    http_dev_put_missed(run);
    http_dev_put_line(run, line);
}

static int check_here(const struct http_request *request, struct kg_err *err)
{
    if (request->via == HTTP_VIA_UNIX)
        return 0;
    kg_fail(err, KG_E_REFUSED, "a plugin is run for its author over the unix socket only");
    kg_hint(err, "use kaged plugin dev on the machine of the daemon");
    return -EACCES;
}

void http_handle_dev(struct http_request *request)
{
    static const struct host_dev_ops ops = {
        .on_line = http_dev_on_line, .on_record = http_dev_on_record, .on_end = http_dev_on_end};
    kg_auto(kg_free) char *path = http_body_text(request, "path");
    struct kg_err err = {0};
    struct run *run = kg_alloc(sizeof(*run));
    run->request = request;
    run->loop = host_loop(http_host(request));
    run->task.run = http_dev_on_flush;
    run->records_max = (size_t)host_config(http_host(request))->limits_trace_queue_bytes;
    if (check_here(request, &err) == 0)
        run->dev =
            host_dev_start(http_host(request), path, http_operator(request), &ops, run, &err);
    if (run->dev == NULL) {
        http_reply_error(request, &err);
        free(run);
        return;
    }
    http_on_gone(request, http_dev_on_gone, run);
    http_on_room(request, http_dev_on_room, run);
}
