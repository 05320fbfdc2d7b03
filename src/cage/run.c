/*
 * One command in a cage, from its input to its end, with what it wrote. Both outputs are read while
 * the input is fed, so neither side can block the other; past the bound the rest is thrown away. At
 * the deadline the whole cage is killed. The answer comes once, when the cage is gone and both
 * outputs are at their end.
 */
#include "cage/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define LAST_BYTES_MS 5000 /* from the kill to the end of a cage, and of its outputs */

/* One of the three streams, our end. */
struct stream {
    struct loop_fd end;
    struct cage_run *run;
    struct kg_buf *text; /* where an output goes */
};

struct cage_run {
    struct loop *loop; /* borrowed */
    struct cage_child *child;
    struct stream in, out, err;
    struct kg_buf input; /* what is still to be fed */
    size_t input_at;
    size_t output_max;
    struct loop_timer timer;
    struct loop_task finish;
    struct cage_run_result result;
    struct kg_err error;                                /* code KG_OK: it was spawned */
    void (*on_output)(void *data, struct kg_str bytes); /* or NULL */
    void (*on_socket)(void *data, uint32_t index, int fd);
    cage_run_done_fn *on_done;
    void *data;
};

/* -- streams ----------------------------------------------------------------------------------- */

static void check_finished(struct cage_run *run)
{
    if (run->child == NULL && run->in.end.fd < 0 && run->out.end.fd < 0 && run->err.end.fd < 0)
        loop_defer(run->loop, &run->finish);
}

static void stream_begin(struct stream *stream, int fd, int events, uv_poll_cb on_ready)
{
    loop_fd_begin(stream->run->loop, &stream->end, fd);
    if (stream->end.poll != NULL)
        uv_poll_start(stream->end.poll, events, on_ready);
}

static void keep(struct cage_run *run, struct kg_buf *text, const char *bytes, size_t length)
{
    size_t room = run->output_max - text->length;
    if (length > room) {
        run->result.truncated = true;
        length = room;
    }
    kg_buf_append(text, bytes, length);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct stream *stream = KG_CONTAINER(poll->data, struct stream, end);
    struct cage_run *run = stream->run;
    char *bytes = loop_scratch(run->loop);
    ssize_t got = read(stream->end.fd, bytes, LOOP_SCRATCH_BYTES);
    if (got > 0 && stream == &run->out && run->on_output != NULL)
        run->on_output(run->data, (struct kg_str){bytes, (size_t)got});
    else if (got > 0)
        keep(run, stream->text, bytes, (size_t)got);
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    loop_fd_end(&stream->end);
    check_finished(run);
}

/* Who closes stdin has read enough: that is no error. */
static void on_writable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct stream *stream = KG_CONTAINER(poll->data, struct stream, end);
    struct cage_run *run = stream->run;
    ssize_t put = 0;
    if (status == 0)
        put = write(stream->end.fd, run->input.data + run->input_at,
                    run->input.length - run->input_at);
    if (put < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    run->input_at += put > 0 ? (size_t)put : 0;
    if (put > 0 && run->input_at < run->input.length)
        return;
    loop_fd_end(&stream->end);
    check_finished(run);
}

/* -- life -------------------------------------------------------------------------------------- */

static void run_free(struct cage_run *run)
{
    loop_fd_end(&run->in.end);
    loop_fd_end(&run->out.end);
    loop_fd_end(&run->err.end);
    loop_timer_stop(run->loop, &run->timer);
    loop_undefer(run->loop, &run->finish);
    kg_buf_free(&run->input);
    cage_run_result_free(&run->result);
    free(run);
}

void cage_run_result_free(struct cage_run_result *result)
{
    kg_buf_free(&result->out);
    kg_buf_free(&result->err);
}

static void on_finish(struct loop_task *task)
{
    struct cage_run *run = KG_CONTAINER(task, struct cage_run, finish);
    if (run->on_done != NULL)
        run->on_done(run->data, &run->result, run->error.code != KG_OK ? &run->error : NULL);
    run_free(run);
}

static void on_spawned(void *data, pid_t pid, int in_fd, int out_fd, int err_fd)
{
    (void)pid;
    struct cage_run *run = data;
    stream_begin(&run->in, in_fd, UV_WRITABLE, on_writable);
    stream_begin(&run->out, out_fd, UV_READABLE, on_readable);
    stream_begin(&run->err, err_fd, UV_READABLE, on_readable);
}

static void on_exited(void *data, const struct cage_exit *how, const char *error)
{
    struct cage_run *run = data;
    run->child = NULL;
    run->result.how = *how;
    if (error != NULL)
        kg_fail(&run->error, KG_E_CAGE, "%s", error);
    loop_fd_end(&run->in.end);
    check_finished(run);
}

/* Who is cancelled has nobody left to take it. */
static void on_socket(void *data, uint32_t index, int fd)
{
    struct cage_run *run = data;
    if (run->on_socket != NULL && run->on_done != NULL)
        run->on_socket(run->data, index, fd);
    else
        kg_close(&fd);
}

static const struct cage_child_ops child_ops = {
    .on_spawned = on_spawned, .on_exited = on_exited, .on_socket = on_socket};

/* Nobody is left who could write: whatever holds an output open is none of ours. */
static void on_outputs_late(struct loop_timer *timer)
{
    struct cage_run *run = KG_CONTAINER(timer, struct cage_run, timer);
    loop_fd_end(&run->out.end);
    loop_fd_end(&run->err.end);
    check_finished(run);
}

static void on_deadline(struct loop_timer *timer)
{
    struct cage_run *run = KG_CONTAINER(timer, struct cage_run, timer);
    run->result.timed_out = run->child != NULL;
    if (run->child != NULL)
        cage_signal(run->child, SIGKILL);
    loop_timer_start(run->loop, timer, LAST_BYTES_MS, on_outputs_late);
}

struct cage_run *cage_run_start(struct cage_spawner *spawner, struct loop *loop,
                                const struct cage_plan *plan,
                                const struct cage_run_options *options, cage_run_done_fn *on_done,
                                void *data, struct kg_err *err)
{
    struct cage_run *run = kg_alloc(sizeof(*run));
    *run = (struct cage_run){
        .loop = loop,
        .in = {.run = run, .end.fd = -1},
        .out = {.run = run, .end.fd = -1, .text = &run->result.out},
        .err = {.run = run, .end.fd = -1, .text = &run->result.err},
        .output_max = options->output_max,
        .finish = {.run = on_finish},
        .on_output = options->on_output,
        .on_socket = options->on_socket,
        .on_done = on_done,
        .data = data,
    };
    kg_buf_str(&run->input, options->input);
    run->child = cage_spawn(spawner, plan, &child_ops, run, err);
    if (run->child == NULL) {
        run_free(run);
        return NULL;
    }
    loop_timer_start(loop, &run->timer, options->timeout_ms, on_deadline);
    return run;
}

void cage_run_kill(struct cage_run *run)
{
    if (run->child != NULL)
        cage_signal(run->child, SIGKILL);
}

/* It ends by itself when the cage is gone, and tells nobody. */
void cage_run_cancel(struct cage_run *run)
{
    run->on_done = NULL;
    run->on_output = NULL;
    cage_run_kill(run);
}

/* -- without a running loop -------------------------------------------------------------------- */

struct blocking {
    struct cage_run_result result;
    struct kg_err error;
    bool done;
};

static void on_blocking_done(void *data, struct cage_run_result *result,
                             const struct kg_err *err_or_null)
{
    struct blocking *blocking = data;
    blocking->result = *result;
    *result = (struct cage_run_result){0};
    if (err_or_null != NULL)
        blocking->error = *err_or_null;
    blocking->done = true;
}

static bool is_done(void *data)
{
    return ((struct blocking *)data)->done;
}

int cage_run(struct cage_spawner *spawner, struct loop *loop, const struct cage_plan *plan,
             const struct cage_run_options *options, struct cage_run_result *ret_result,
             struct kg_err *err)
{
    struct blocking blocking = {0};
    struct cage_run *run =
        cage_run_start(spawner, loop, plan, options, on_blocking_done, &blocking, err);
    if (run == NULL)
        return -EINVAL;
    uint64_t longest_ms = options->timeout_ms + (uint64_t)2 * LAST_BYTES_MS;
    if (!loop_run_until(loop, is_done, &blocking, longest_ms)) {
        cage_run_cancel(run);
        return kg_fail(err, KG_E_CAGE, "plugin %s: the killed cage did not end", plan->name);
    }
    if (blocking.error.code == KG_OK) {
        *ret_result = blocking.result;
        return 0;
    }
    cage_run_result_free(&blocking.result);
    if (err != NULL)
        *err = blocking.error;
    return -EINVAL;
}
