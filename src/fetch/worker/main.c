/*
 * kaged-fetch: makes HTTP requests to one host and port, and can do nothing else. Lines of JSON-RPC
 * come on stdin:
 *
 *   {"id":7,"method":"fetch","params":{"method","url","headers","body","timeout_ms",
 *    "answer_bytes"}}
 *   {"method":"cancel","params":{"id":7}}
 *
 * and each request is answered on stdout by {"status","content_type","body","truncated"}, or by an
 * error in words. Bytes that are not text are in "body_base64". Any number of requests may be on
 * their way. The end of stdin ends all of them. `kaged-fetch object` is another thing: object.c.
 */
#include "base/confine.h"
#include "fetch/worker/internal.h"
#include "wire/wire.h"

#define NAME       "kaged-fetch"
#define LINE_BYTES ((size_t)8 << 20)

struct worker {
    struct kg_buf lines;
    struct exchanges *exchanges;
};

/* The daemon writes nothing else; what does not fit is passed over. */
static void fetch_on_line(void *data, struct kg_str line)
{
    struct worker *worker = data;
    struct rpc_message message;
    rpc_parse(line, &message);
    struct kg_str params = message.params.data ? message.params : KG_STR("null");
    if (message.kind == RPC_NOTIFICATION && strcmp(message.method, "cancel") == 0)
        exchanges_cancel(worker->exchanges, params);
    if (message.kind != RPC_REQUEST)
        return;
    if (strcmp(message.method, "fetch") == 0)
        exchanges_start(worker->exchanges, message.id, params);
    else
        exchange_put_error(&worker->lines, message.id, "there is no such method");
}

static bool fetch_on_turn(void *data, int fd)
{
    const struct worker *worker = data;
    return exchanges_turn(worker->exchanges, fd);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "object") == 0)
        return object_main();
    struct kg_err err;
    struct worker worker = {0};
    kg_confine(077, 0, FETCH_OPEN_FILES); /* no core with a key in it, no file */
    worker.exchanges = exchanges_new(&worker.lines, &err);
    if (worker.exchanges == NULL)
        return fetch_leave(NAME, err.message);
    const struct fetch_program program = {
        .name = NAME,
        .line_max = LINE_BYTES,
        .lines = &worker.lines,
        .on_line = fetch_on_line,
        .turn = fetch_on_turn,
        .data = &worker,
    };
    int exit_code = fetch_serve(&program);
    exchanges_free(worker.exchanges);
    kg_buf_free(&worker.lines);
    return exit_code;
}
