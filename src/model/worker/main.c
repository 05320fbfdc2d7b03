/*
 * kaged-model: asks the models of one provider, and can do nothing else: its cage lets it reach one
 * host and port, and see whom to believe in a network. Lines of JSON-RPC come on stdin:
 *
 *   {"id":7,"method":"chat","params":{"kind","url","key","headers","model","system","messages",
 *    "tools","max_tokens","temperature","reasoning","limits"}}
 *   {"method":"cancel","params":{"id":7}}
 *
 * and on stdout go events {"method":"event","params":{"id":7,"delta":"..."}} (or "reasoning",
 * "tool_call", "usage", "retry"), then one answer: {"stop_reason"}, or an error whose data has the
 * code. Any number of requests may be on their way. The end of stdin ends all of them.
 */
#include "base/confine.h"
#include "model/worker/internal.h"
#include "wire/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_BYTES 65536 /* of stdin at once: a pipe holds as much */
#define OPEN_FILES 256   /* more than all connections at the same time */

struct worker {
    struct frame frame;
    struct kg_buf lines; /* to be written */
    struct transfers *transfers;
    char scratch[READ_BYTES];
};

static int leave(const char *why)
{
    fprintf(stderr, "kaged-model: %s\n", why);
    return EXIT_FAILURE;
}

/* -- what is asked ----------------------------------------------------------------------------- */

static void start(struct worker *worker, const struct rpc_message *message)
{
    struct failure failure = {0};
    struct request *request = NULL;
    if (strcmp(message->method, "chat") != 0)
        failure_set(&failure, MODEL_INVALID, "there is no method %s", message->method);
    else
        request = request_new(message->id, message->params.data ? message->params : KG_STR("null"),
                              &failure);
    if (request == NULL) {
        answer_put_failure(&worker->lines, message->id, &failure);
    } else if (request->dialect->is_local) {
        answer_locally(request, &worker->lines);
        request_free(request);
    } else {
        transfers_start(worker->transfers, request);
    }
}

static void cancel(struct worker *worker, const struct rpc_message *message)
{
    struct kg_str value;
    int64_t id;
    if (strcmp(message->method, "cancel") == 0 && kg_json_member(message->params, "id", &value) &&
        kg_str_to_int(value, &id))
        transfers_cancel(worker->transfers, id);
}

/* The daemon writes nothing else; what does not fit is passed over. */
static bool on_line(void *data, struct kg_str line)
{
    struct rpc_message message;
    rpc_parse(line, &message);
    if (message.kind == RPC_REQUEST)
        start(data, &message);
    else if (message.kind == RPC_NOTIFICATION)
        cancel(data, &message);
    return true;
}

/* 1: there may be more, 0: the end of stdin, negative: failed. */
static int read_some(struct worker *worker)
{
    size_t size;
    char *space = frame_space(&worker->frame, worker->scratch, sizeof(worker->scratch), &size);
    ssize_t got = read(STDIN_FILENO, space, size);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN ? 1 : -errno;
    if (got == 0)
        return 0;
    return frame_advance(&worker->frame, space, (size_t)got, on_line, worker) == FRAME_OK
               ? 1
               : -EMSGSIZE;
}

static int serve(struct worker *worker)
{
    int result = 1;
    while (result > 0) {
        if (transfers_turn(worker->transfers, STDIN_FILENO))
            result = read_some(worker);
        int wrote = kg_write_all(STDOUT_FILENO, worker->lines.data, worker->lines.length);
        worker->lines.length = 0;
        result = wrote < 0 ? wrote : result;
    }
    return result;
}

int main(void)
{
    struct kg_err err;
    kg_confine(077, 0, OPEN_FILES); /* no core with a key in it, no file */
    struct worker *worker = kg_alloc(sizeof(*worker));
    worker->frame.line_max = MODEL_LINE_BYTES;
    worker->transfers = transfers_new(&worker->lines, &err);
    if (worker->transfers == NULL) {
        free(worker);
        return leave(err.message);
    }
    int result = serve(worker);
    transfers_free(worker->transfers);
    frame_free(&worker->frame);
    kg_buf_free(&worker->lines);
    free(worker);
    return result == 0 ? EXIT_SUCCESS : leave(strerror(-result));
}
