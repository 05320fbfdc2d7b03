/*
 * Lines of JSON-RPC in, one answer each out, in order. Requests that change rows and came in one
 * read share a commit. No answer of such a group leaves before that commit; if it fails, or is lost
 * to one request's failure, the others are done again, each with a commit of its own, as if they
 * had come alone.
 */
#include "storage/worker/internal.h"

#include <errno.h>
#include <unistd.h>

#define HELD_MAX_NS    UINT64_C(10000000) /* how long an answer waits for others to share with */
#define HELD_MAX_BYTES ((size_t)256 * 1024)

/* -- one line ---------------------------------------------------------------------------------- */

struct request {
    struct kg_str id; /* a span: a number or a string; data NULL: none that can be answered */
    struct kg_str method;
    struct kg_str params;
};

static int fail_request(struct failure *failure, enum kg_code code, const char *why)
{
    return failure_set(failure, code, NULL, "%s", why);
}

/* What the line asks for; request->id is set as soon as it is known. */
static int storage_worker_parse(struct kg_str line, struct request *request,
                                struct failure *failure)
{
    enum kg_json_fault fault = kg_json_check(line, NULL);
    if (fault != KG_JSON_OK)
        return fail_request(failure, KG_E_PARSE, kg_json_fault_text(fault));
    struct kg_json_cursor start = {line.data, line.data + line.length};
    kg_json_skip_space(&start);
    if (*start.at != '{')
        return fail_request(failure, KG_E_INVALID_REQUEST, "a request must be an object");
    struct kg_str key, value;
    bool escaped;
    start.at++;
    while (kg_json_next_member(&start, &key, &escaped, &value)) {
        if (kg_json_raw_is(key, escaped, "id"))
            request->id = value;
        else if (kg_json_raw_is(key, escaped, "method"))
            request->method = value;
        else if (kg_json_raw_is(key, escaped, "params"))
            request->params = value;
    }
    if (request->id.data == NULL || strchr("\"-0123456789", request->id.data[0]) == NULL) {
        request->id = KG_STR_NULL;
        return fail_request(failure, KG_E_INVALID_REQUEST, "id is neither a number nor a string");
    }
    if (request->method.length < 2 || request->method.data[0] != '"')
        return fail_request(failure, KG_E_INVALID_REQUEST, "method is not a string");
    request->method.data++;
    request->method.length -= 2;
    return 0;
}

static void storage_worker_put_head(struct kg_buf *out, struct kg_str id, const char *member)
{
    kg_buf_text(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    kg_buf_str(out, id.data ? id : KG_STR("null"));
    kg_buf_text(out, ",\"");
    kg_buf_text(out, member);
    kg_buf_text(out, "\":");
}

static void storage_worker_put_failure(struct kg_buf *out, struct kg_str id,
                                       const struct failure *failure)
{
    struct kg_json_writer writer = kg_json_writer(out);
    storage_worker_put_head(out, id, "error");
    failure_write(&writer, failure);
    kg_buf_text(out, "}\n");
}

/* Appends the answer to out. */
static void storage_worker_answer(struct worker *worker, struct kg_str line)
{
    struct request request = {0};
    struct failure failure;
    size_t mark = worker->out.length;
    worker->loss = GROUP_KEPT;
    worker->scratch.length = 0;
    kg_buf_reserve(&worker->scratch, 2 * line.length + 1); /* see span_text */
    int result = storage_worker_parse(line, &request, &failure);
    if (result == 0) {
        storage_worker_put_head(&worker->out, request.id, "result");
        result = method_call(worker, request.method, request.params, &failure);
    }
    if (result == 0) {
        kg_buf_text(&worker->out, "}\n");
        return;
    }
    worker->out.length = mark;
    storage_worker_put_failure(&worker->out, request.id, &failure);
}

/* -- groups ------------------------------------------------------------------------------------ */

/* Where the open group began: in the lines, and in the answers. */
struct held {
    const char *lines;
    size_t answers;
};

static bool storage_worker_next_line(const char **at, const char *end, struct kg_str *ret_line)
{
    if (*at == end)
        return false;
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    *ret_line = (struct kg_str){*at, (size_t)(newline - *at)};
    *at = newline + 1;
    return true;
}

/* All lines from the start of the lost group up to `end`, each on its own. */
static void answer_again(struct worker *worker, const struct held *held, const char *end)
{
    struct kg_str line;
    worker->out.length = held->answers;
    worker->share = false;
    for (const char *at = held->lines; storage_worker_next_line(&at, end, &line);)
        if (line.length > 0)
            storage_worker_answer(worker, line);
}

static void close_group(struct worker *worker, const struct held *held, const char *end)
{
    if (!method_commit_group(worker))
        answer_again(worker, held, end);
}

static void answer_line(struct worker *worker, struct kg_str line, bool more, struct held *held)
{
    bool was_open = worker->group_open;
    size_t mark = worker->out.length;
    worker->share = more || was_open;
    storage_worker_answer(worker, line);
    if (worker->loss == GROUP_LOST_BEFORE) {
        answer_again(worker, held, line.data);
        storage_worker_answer(worker, line);
    } else if (worker->loss == GROUP_LOST_WITH && was_open) {
        kg_auto(kg_buf_free) struct kg_buf own = {0};
        kg_buf_append(&own, worker->out.data + mark, worker->out.length - mark);
        answer_again(worker, held, line.data);
        kg_buf_str(&worker->out, kg_buf_view(&own));
    }
    if (!was_open && worker->group_open)
        *held = (struct held){line.data, mark};
}

static int storage_worker_flush(struct worker *worker, int fd)
{
    int result = kg_write_all(fd, worker->out.data, worker->out.length);
    worker->out.length = 0;
    return result;
}

static bool is_due(const struct worker *worker, uint64_t start_ns)
{
    return worker->out.length > HELD_MAX_BYTES || kg_monotonic_ns() - start_ns > HELD_MAX_NS;
}

int serve_lines(struct worker *worker, struct kg_str lines, int fd)
{
    const char *at = lines.data, *end = lines.data + lines.length;
    struct held held = {.lines = lines.data};
    struct kg_str line;
    int result = 0;
    uint64_t start_ns = kg_monotonic_ns();
    while (result == 0 && storage_worker_next_line(&at, end, &line)) {
        if (line.length > 0)
            answer_line(worker, line, at != end, &held);
        if (at != end && !is_due(worker, start_ns))
            continue;
        close_group(worker, &held, at);
        result = storage_worker_flush(worker, fd);
        start_ns = kg_monotonic_ns();
    }
    return result;
}

int serve_failure(struct kg_str lines, const struct failure *failure, int fd)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    const char *at = lines.data, *end = lines.data + lines.length;
    struct kg_str line;
    while (storage_worker_next_line(&at, end, &line)) {
        struct request request = {0};
        struct failure ignored;
        storage_worker_parse(line, &request, &ignored);
        storage_worker_put_failure(&out, request.id, failure);
    }
    return kg_write_all(fd, out.data, out.length);
}
