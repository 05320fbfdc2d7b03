/*
 * A turn, or a command of a script, as the answer of a request: one JSON object a line, as it
 * happens. A client that leaves cancels the turn; one that does not read is waited for up to a
 * bound of bytes, and then cancels it too.
 */
#include "http/internal.h"
#include "live/live.h"

#include <stdlib.h>

#define QUEUE_BYTES ((size_t)8 << 20) /* that wait for a client; a tool's result may have 4 MiB */

struct run {
    struct http_request *request;
    struct turn *turn;       /* one of the two */
    struct command *command; /* NULL: the other */
    bool begun, full;
    struct kg_buf queue; /* while the client does not read */
};

/* -- to the client ----------------------------------------------------------------------------- */

static void runs_cancel(struct run *run, const struct kg_err *why)
{
    if (run->command != NULL)
        command_cancel(run->command, why);
    else
        turn_cancel(run->turn, why);
}

static void runs_give_up(struct run *run)
{
    struct kg_err why;
    kg_fail(&why, KG_E_CANCELLED, "the client does not read: %zu bytes wait for it",
            run->queue.length);
    runs_cancel(run, &why);
}

static void runs_on_line(void *data, struct kg_str line)
{
    struct run *run = data;
    if (!run->begun)
        http_reply_begin(run->request, 200, "application/x-ndjson");
    run->begun = true;
    if (!run->full) {
        run->full = !http_reply_piece(run->request, line);
        return;
    }
    kg_buf_str(&run->queue, line);
    if (run->queue.length > QUEUE_BYTES)
        runs_give_up(run);
}

static void runs_on_room(void *data)
{
    struct run *run = data;
    run->full = !http_reply_piece(run->request, kg_buf_view(&run->queue));
    kg_buf_free(&run->queue);
}

static void runs_on_gone(void *data)
{
    struct run *run = data;
    struct kg_err why;
    kg_fail(&why, KG_E_CANCELLED, "the client left");
    runs_cancel(run, &why);
}

/* -- the turn ---------------------------------------------------------------------------------- */

static void runs_run_free(struct run *run)
{
    kg_buf_free(&run->queue);
    free(run);
}

static void runs_on_refused(void *data, const struct kg_err *err)
{
    struct run *run = data;
    http_reply_error(run->request, err);
    runs_run_free(run);
}

static void runs_on_end(void *data)
{
    struct run *run = data;
    if (run->queue.length > 0)
        (void)http_reply_piece(run->request, kg_buf_view(&run->queue));
    http_reply_end(run->request);
    runs_run_free(run);
}

static const struct turn_ops ops = {
    .on_refused = runs_on_refused, .on_line = runs_on_line, .on_end = runs_on_end};

static struct run *run_new(struct http_request *request)
{
    struct run *run = kg_alloc(sizeof(*run));
    run->request = request;
    return run;
}

/* It was begun, or why it was not. */
static void runs_follow(struct run *run, bool was_begun, const struct kg_err *err)
{
    if (!was_begun) {
        runs_on_refused(run, err);
        return;
    }
    http_on_gone(run->request, runs_on_gone, run);
    http_on_room(run->request, runs_on_room, run);
}

static struct sessions_request runs_request_of(struct http_request *request)
{
    return (struct sessions_request){
        .session = http_path_parameter(request, "id"),
        .asker = http_asker(request),
    };
}

void http_handle_session_command(struct http_request *request)
{
    const struct sessions_request asked = runs_request_of(request);
    struct run *run = run_new(request);
    struct kg_err err = {0};
    run->command =
        command_start(http_sessions(request), &asked, http_path_parameter(request, "name"),
                      kg_node_text(http_body_tree(request), "args"), &ops, run, &err);
    runs_follow(run, run->command != NULL, &err);
}

void http_handle_run(struct http_request *request)
{
    const struct sessions_request asked = runs_request_of(request);
    struct run *run = run_new(request);
    struct kg_err err = {0};
    run->turn =
        turn_start(http_sessions(request), &asked, kg_node_text(http_body_tree(request), "text"),
                   http_body_int(request, "steps", INT64_MAX), &ops, run, &err);
    runs_follow(run, run->turn != NULL, &err);
}
