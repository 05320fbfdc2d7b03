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
#include "fetch/worker/worker.h"
#include "model/worker/internal.h"
#include "wire/wire.h"

#include <stdlib.h>

#define NAME "kaged-model"

struct worker {
    struct kg_buf lines; /* to be written */
    struct transfers *transfers;
};

/* -- what is asked ----------------------------------------------------------------------------- */

static void model_main_start(struct worker *worker, const struct rpc_message *message)
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

static void model_main_cancel(struct worker *worker, const struct rpc_message *message)
{
    struct kg_str value;
    int64_t id;
    if (strcmp(message->method, "cancel") == 0 && kg_json_member(message->params, "id", &value) &&
        kg_str_to_int(value, &id))
        transfers_cancel(worker->transfers, id);
}

/* The daemon writes nothing else; what does not fit is passed over. */
static void model_on_line(void *data, struct kg_str line)
{
    struct rpc_message message;
    rpc_parse(line, &message);
    if (message.kind == RPC_REQUEST)
        model_main_start(data, &message);
    else if (message.kind == RPC_NOTIFICATION)
        model_main_cancel(data, &message);
}

static bool model_on_turn(void *data, int fd)
{
    const struct worker *worker = data;
    return transfers_turn(worker->transfers, fd);
}

int main(void)
{
    struct kg_err err;
    struct worker worker = {0};
    kg_confine(077, 0, FETCH_OPEN_FILES); /* no core with a key in it, no file */
    worker.transfers = transfers_new(&worker.lines, &err);
    if (worker.transfers == NULL)
        return fetch_leave(NAME, err.message);
    const struct fetch_program program = {
        .name = NAME,
        .line_max = MODEL_LINE_BYTES,
        .lines = &worker.lines,
        .on_line = model_on_line,
        .turn = model_on_turn,
        .data = &worker,
    };
    int exit_code = fetch_serve(&program);
    transfers_free(worker.transfers);
    kg_buf_free(&worker.lines);
    return exit_code;
}
