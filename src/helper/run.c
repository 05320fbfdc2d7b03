/*
 * One command in a cage, from its input to its end, with what it wrote. Both outputs are read while
 * the input is fed, so neither side can block the other; past the bound the rest is thrown away. At
 * the deadline the whole cage is killed. The answer comes once, when the cage is gone: nobody is
 * left then who could write more.
 */
#include "helper/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define KILL_MS 10000 /* from the kill to the end of a cage */

struct helper_run {
    struct loop *loop; /* borrowed */
    struct helper_child *child;
    struct loop_fd in;
    struct kg_buf input; /* what is still to be fed */
    size_t fed;
    struct helper_output out;
    struct loop_timer deadline;
    struct loop_task finish;
    struct helper_run_result result;
    struct kg_err error; /* code KG_OK: it was spawned */
    void (*on_output)(void *data, struct kg_str bytes);
    void (*on_network)(void *data, const struct gate_event *event);
    helper_run_done_fn *on_done; /* NULL: it was cancelled */
    void *data;
};

/* A program that closes stdin has read enough: that is not an error. */
static void helper_run_on_writable(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct helper_run *run = KG_CONTAINER(poll->data, struct helper_run, in);
    ssize_t put = 0;
    if (status == 0)
        put = write(run->in.fd, run->input.data + run->fed, run->input.length - run->fed);
    if (put < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    run->fed += put > 0 ? (size_t)put : 0;
    if (put <= 0 || run->fed == run->input.length)
        loop_fd_end(&run->in);
}

static void helper_run_on_output(void *data, struct kg_str bytes)
{
    struct helper_run *run = data;
    if (run->on_done != NULL)
        run->on_output(run->data, bytes);
}

static void helper_run_on_network(void *data, const struct gate_event *event)
{
    struct helper_run *run = data;
    if (run->on_network != NULL && run->on_done != NULL)
        run->on_network(run->data, event);
}

/* -- life -------------------------------------------------------------------------------------- */

static void helper_run_free(struct helper_run *run)
{
    helper_child_free(run->child);
    loop_fd_end(&run->in);
    loop_fd_end(&run->out.end);
    loop_timer_stop(run->loop, &run->deadline);
    loop_undefer(run->loop, &run->finish);
    kg_buf_free(&run->input);
    kg_buf_free(&run->out.text);
    helper_run_result_free(&run->result);
    free(run);
}

void helper_run_result_free(struct helper_run_result *result)
{
    kg_buf_free(&result->out);
    kg_buf_free(&result->err);
}

static void on_finish(struct loop_task *task)
{
    struct helper_run *run = KG_CONTAINER(task, struct helper_run, finish);
    if (run->on_done != NULL)
        run->on_done(run->data, &run->result, run->error.code != KG_OK ? &run->error : NULL);
    helper_run_free(run);
}

static void helper_run_on_spawned(void *data, int in_fd, int out_fd)
{
    struct helper_run *run = data;
    loop_fd_begin(run->loop, &run->in, in_fd);
    if (run->in.poll != NULL)
        uv_poll_start(run->in.poll, UV_WRITABLE, helper_run_on_writable);
    helper_output_begin(&run->out, run->loop, out_fd);
}

static void helper_run_on_exited(void *data, const struct cage_exit *how, const char *error_or_null)
{
    struct helper_run *run = data;
    if (error_or_null != NULL)
        kg_fail(&run->error, KG_E_CAGE, "%s", error_or_null);
    helper_output_finish(&run->out);
    run->result.how = *how;
    run->result.truncated = run->out.truncated || helper_child_said_more(run->child);
    run->result.out = run->out.text;
    run->out.text = (struct kg_buf){0};
    kg_buf_str(&run->result.err, helper_child_errors(run->child));
    loop_defer(run->loop, &run->finish);
}

static void helper_run_on_deadline(struct loop_timer *timer)
{
    struct helper_run *run = KG_CONTAINER(timer, struct helper_run, deadline);
    run->result.timed_out = helper_child_exit(run->child) == NULL;
    helper_run_kill(run);
}

struct helper_run *helper_run_start(const struct helper_place *place, const struct cage_plan *plan,
                                    const struct helper_run_options *options,
                                    helper_run_done_fn *on_done, void *data, struct kg_err *err)
{
    static const struct helper_child_ops ops = {helper_run_on_spawned, helper_run_on_exited,
                                                helper_run_on_network};
    const struct helper_errors kept = {.max_bytes = options->output_max};
    struct helper_run *run = kg_alloc(sizeof(*run));
    *run = (struct helper_run){
        .loop = place->loop,
        .in = {.fd = -1},
        .out = {.end.fd = -1,
                .kept = kept,
                .on_bytes = options->on_output != NULL ? helper_run_on_output : NULL,
                .data = run},
        .finish = {.run = on_finish},
        .on_output = options->on_output,
        .on_network = options->on_network,
        .on_done = on_done,
        .data = data,
    };
    kg_buf_str(&run->input, options->input);
    run->child = helper_child_new(place, plan, kept, &ops, run, err);
    if (run->child == NULL) {
        helper_run_free(run);
        return NULL;
    }
    loop_timer_start(run->loop, &run->deadline, options->timeout_ms, helper_run_on_deadline);
    return run;
}

void helper_run_kill(struct helper_run *run)
{
    helper_child_signal(run->child, SIGKILL);
}

/* It ends by itself when the cage is gone, and tells nobody. */
void helper_run_cancel(struct helper_run *run)
{
    run->on_done = NULL;
    helper_run_kill(run);
}

/* -- without a running loop -------------------------------------------------------------------- */

struct blocking {
    struct helper_run_result result;
    struct kg_err error;
    bool done;
};

static void on_blocking_done(void *data, struct helper_run_result *result,
                             const struct kg_err *err_or_null)
{
    struct blocking *blocking = data;
    blocking->result = *result;
    *result = (struct helper_run_result){0};
    if (err_or_null != NULL)
        blocking->error = *err_or_null;
    blocking->done = true;
}

static bool helper_run_is_done(void *data)
{
    return ((struct blocking *)data)->done;
}

int helper_run(const struct helper_place *place, const struct cage_plan *plan,
               const struct helper_run_options *options, struct helper_run_result *ret_result,
               struct kg_err *err)
{
    struct blocking blocking = {0};
    struct helper_run *run =
        helper_run_start(place, plan, options, on_blocking_done, &blocking, err);
    if (run == NULL)
        return -EINVAL;
    if (!loop_run_until(place->loop, helper_run_is_done, &blocking,
                        options->timeout_ms + KILL_MS)) {
        helper_run_cancel(run);
        return kg_fail(err, KG_E_CAGE, "the killed cage of a command did not end");
    }
    if (blocking.error.code == KG_OK) {
        *ret_result = blocking.result;
        return 0;
    }
    helper_run_result_free(&blocking.result);
    if (err != NULL)
        *err = blocking.error;
    return -EINVAL;
}
