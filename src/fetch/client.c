/*
 * The processes that ask the world, one for each user, host and port, and the calls that they work
 * on. A call ends exactly once: by its process, or by us if that did not live to. What a process
 * says is believed only as far as it fits.
 */
#include "fetch/fetch.h"

#include "base/json/json.h"
#include "base/url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define START_GRACE_MS 10000             /* for the cage, before the first byte is sent */
#define LINE_BYTES     ((size_t)8 << 20) /* a body whose every byte is escaped, and all around it */
#define REASON_BYTES   256
#define PROCESSES      8     /* threads look up names */
#define TMP_BYTES      65536 /* it writes no files */
#define MEMORY_BYTES   ((uint64_t)256 << 20)
#define CPU_SHARES     256 /* it mostly waits */

struct process {
    struct process *next;
    struct fetch_client *client;
    char *whose, *host; /* owned */
    uint16_t port;
    struct helper *helper;     /* owned */
    char reason[REASON_BYTES]; /* why the gatekeeper's last connection came to nothing */
};

struct call {
    struct process *process;
    fetch_done_fn *on_done;
    void *data;
};

struct fetch_client {
    const struct fetch_place *place;
    struct process *first; /* owned */
    bool closing;
    void (*on_closed)(void *data);
    void *closed_data;
    struct loop_task closed;
};

/* -- requests ---------------------------------------------------------------------------------- */

/* Nothing in it can begin a line of its own. */
static bool is_one_line(const char *text, size_t max)
{
    size_t length = strnlen(text, max + 1);
    if (length == 0 || length > max)
        return false;
    for (size_t i = 0; i < length; i++)
        if (((unsigned char)text[i] < 0x20 && text[i] != '\t') || text[i] == 0x7F)
            return false;
    return true;
}

static bool is_method(const char *method)
{
    size_t length = strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return length > 0 && length <= 16 && method[length] == '\0';
}

int fetch_check(const struct fetch_request *request, struct kg_err *err)
{
    kg_auto(kg_free) char *host = NULL;
    uint16_t port;
    if (!is_method(request->method))
        return kg_fail(err, KG_E_USAGE, "its method is no word of capital letters");
    if (!is_one_line(request->url, FETCH_URL_BYTES) || strpbrk(request->url, " \t") != NULL ||
        !kg_url_host(request->url, &host, &port))
        return kg_fail(err, KG_E_USAGE, "its url does not lead to a host by http:// or https://");
    if (kg_list_count(request->headers) > FETCH_HEADERS_MAX)
        return kg_fail(err, KG_E_USAGE, "it has more than %d headers", FETCH_HEADERS_MAX);
    for (char *const *header = request->headers; *header != NULL; header++)
        if (!is_one_line(*header, FETCH_HEADER_BYTES) || strchr(*header, ':') == NULL)
            return kg_fail(err, KG_E_USAGE, "one of its headers is no line \"Name: value\"");
    if (request->body.length > FETCH_BODY_BYTES)
        return kg_fail(err, KG_E_TOO_LARGE, "its body has %zu bytes, and may have %zu",
                       request->body.length, FETCH_BODY_BYTES);
    if (kg_utf8_valid(request->body) != request->body.length)
        return kg_fail(err, KG_E_USAGE, "its body is not UTF-8");
    return 0;
}

static void write_params(const struct fetch_request *request, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    size_t most =
        request->answer_max < FETCH_ANSWER_BYTES ? request->answer_max : FETCH_ANSWER_BYTES;
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "method", request->method);
    kg_json_named_text(&json, "url", request->url);
    kg_json_named_list(&json, "headers", request->headers);
    kg_json_named_str(&json, "body", request->body.data ? request->body : KG_STR(""));
    kg_json_named_int(&json, "timeout_ms", (int64_t)request->timeout_ms);
    kg_json_named_int(&json, "answer_bytes", (int64_t)most);
    kg_json_end(&json, '}');
}

/* -- answers ----------------------------------------------------------------------------------- */

static void end_call(struct call *call, const struct fetch_answer *answer)
{
    fetch_done_fn *on_done = call->on_done;
    void *data = call->data;
    free(call);
    on_done(data, answer);
}

static void fail_call(struct call *call, const char *what, const char *why)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    kg_buf_text(&words, what);
    if (why[0] != '\0') {
        kg_buf_text(&words, ": ");
        kg_buf_escaped(&words, kg_str(why));
    }
    end_call(call, &(struct fetch_answer){.error = kg_buf_terminate(&words)});
}

static void read_result(struct call *call, struct kg_str payload)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(payload, NULL);
    const struct kg_node *body = doc ? kg_node_typed(doc->root, "body", KG_STRING) : NULL;
    int64_t status = doc ? kg_node_number(doc->root, "status") : 0;
    if (body == NULL || status < 100 || status > 999 ||
        body->text.length > FETCH_ANSWER_BYTES * 3) { /* replaced */
        helper_give_up(call->process->helper, "it sent an answer that is none");
        fail_call(call, "the process that asks sent an answer that is none", "");
        return;
    }
    const struct fetch_answer answer = {
        .status = (int)status,
        .body = body->text,
        .truncated = kg_node_is_true(doc->root, "truncated"),
        .error = "",
    };
    end_call(call, &answer);
}

/* To the process a connection that the gatekeeper refuses, or cannot make, is just lost. */
static void read_error(struct call *call, struct kg_str payload)
{
    kg_auto(kg_buf_free) struct kg_buf said = {0};
    rpc_error_message(payload, &said);
    bool is_known = call->process->reason[0] != '\0';
    kg_auto(kg_free) char *reason = kg_strdup(call->process->reason);
    fail_call(call, "it could not be asked", is_known ? reason : kg_buf_terminate(&said));
}

static void on_answer(void *data, const struct helper_answer *answer)
{
    struct call *call = data;
    switch (answer->outcome) {
    case HELPER_RESULT:
        read_result(call, answer->payload);
        break;
    case HELPER_ERROR:
        read_error(call, answer->payload);
        break;
    case HELPER_REFUSED:
        fail_call(call, answer->words, "");
        break;
    case HELPER_UNBUILT:
        fail_call(call, "the process that asks could not be started", answer->words);
        break;
    case HELPER_ENDED:
        fail_call(call, "the process that asks ended before the answer came", answer->words);
        break;
    case HELPER_LATE:
        fail_call(call, "no answer came in time", "");
        break;
    case HELPER_GONE:
        fail_call(call, "the daemon is stopping", "");
        break;
    }
}

/* -- processes --------------------------------------------------------------------------------- */

static void on_misfit(void *data, const char *what)
{
    const struct process *process = data;
    kg_log(KG_ERROR_LEVEL, "the process that asks %s for %s is ended: %s", process->host,
           process->whose, what);
}

static void on_network(void *data, const struct gate_event *event)
{
    struct process *process = data;
    const struct fetch_place *place = process->client->place;
    if (event->kind == GATE_CONNECTED)
        process->reason[0] = '\0';
    else if (event->kind == GATE_DENIED || event->kind == GATE_FAILED)
        snprintf(process->reason, sizeof(process->reason), "%s port %u: %s", event->host,
                 event->port, event->reason);
    if (place->on_network != NULL)
        place->on_network(place->data, process->whose, event);
}

static int prepare(void *data, const char *program, struct helper_start *ret_start,
                   struct kg_err *err)
{
    struct process *process = data;
    const struct fetch_place *place = process->client->place;
    kg_auto(kg_free) char *name = kg_format("%s (http)", process->whose);
    const struct cage_reach reach = {.host = process->host, .port = process->port};
    const char *const command[] = {program, NULL};
    const struct cage_policy policy = {
        .name = name,
        .command = command,
        .reaches = &reach,
        .reach_count = 1,
        .processes_max = PROCESSES,
        .tmp_bytes = TMP_BYTES,
        .memory_bytes = MEMORY_BYTES,
        .cpu_shares = CPU_SHARES,
    };
    process->reason[0] = '\0';
    *ret_start = (struct helper_start){
        .plan = helper_plan(program, policy, place->facts, err),
        .wire =
            {
                .line_max_bytes = LINE_BYTES,
                .write_queue_max_bytes = LINE_BYTES * 4,
                .calls_in_flight_max = UINT32_MAX, /* calls_max is kept before */
                .notifications_per_sec = 1,        /* it sends none */
            },
        .idle_ms = place->idle_ms,
    };
    return ret_start->plan != NULL ? 0 : -EINVAL;
}

static void process_free(struct process *process)
{
    KG_UNLINK(process->client->first, process);
    helper_free(process->helper);
    free(process->whose);
    free(process->host);
    free(process);
}

static void on_closed_task(struct loop_task *task)
{
    struct fetch_client *client = KG_CONTAINER(task, struct fetch_client, closed);
    client->on_closed(client->closed_data);
}

static void check_closed(struct fetch_client *client)
{
    if (client->first == NULL && client->closing)
        loop_defer(client->place->where.loop, &client->closed);
}

static void on_rest(void *data)
{
    struct process *process = data;
    struct fetch_client *client = process->client;
    process_free(process);
    check_closed(client);
}

/* Takes the host over. */
static struct process *process_of(struct fetch_client *client, const char *whose, char *host,
                                  uint16_t port)
{
    static const struct helper_ops ops = {
        .program = "kaged-fetch",
        .prepare = prepare,
        .on_network = on_network,
        .on_misfit = on_misfit,
        .on_rest = on_rest,
    };
    for (struct process *at = client->first; at != NULL; at = at->next) {
        if (at->port == port && strcmp(at->host, host) == 0 && strcmp(at->whose, whose) == 0) {
            free(host);
            return at;
        }
    }
    struct process *process = kg_alloc(sizeof(*process));
    *process =
        (struct process){.client = client, .whose = kg_strdup(whose), .host = host, .port = port};
    process->helper = helper_new(&client->place->where, &ops, process);
    process->next = client->first;
    client->first = process;
    return process;
}

/* -- asking ------------------------------------------------------------------------------------ */

static uint32_t calls_of(const struct fetch_client *client, const char *whose)
{
    uint32_t calls = 0;
    for (const struct process *at = client->first; at != NULL; at = at->next)
        if (strcmp(at->whose, whose) == 0)
            calls += helper_calls(at->helper);
    return calls;
}

int fetch_ask(struct fetch_client *client, const struct fetch_request *request,
              fetch_done_fn *on_done, void *data, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    char *host = NULL;
    uint16_t port = 0;
    if (client->closing || client->place->facts == NULL || client->place->where.gate == NULL)
        return kg_fail(err, KG_E_STOPPING, "nobody outside can be asked now");
    if (fetch_check(request, err) < 0)
        return -EINVAL;
    if (calls_of(client, request->whose) >= client->place->calls_max)
        return kg_fail(err, KG_E_BUSY, "%u requests are on their way already",
                       client->place->calls_max);
    write_params(request, &params);
    (void)kg_url_host(request->url, &host, &port); /* as it was checked */
    struct process *process = process_of(client, request->whose, host, port);
    struct call *call = kg_alloc(sizeof(*call));
    *call = (struct call){process, on_done, data};
    const struct helper_request asked = {
        .method = "fetch",
        .params = kg_buf_view(&params),
        .timeout_ms = request->timeout_ms + START_GRACE_MS,
        .on_done = on_answer,
        .data = call,
    };
    int result = helper_ask(process->helper, &asked, NULL, err);
    if (result < 0)
        free(call);
    return result;
}

/* -- the client -------------------------------------------------------------------------------- */

struct fetch_client *fetch_client_new(const struct fetch_place *place)
{
    struct fetch_client *client = kg_alloc(sizeof(*client));
    client->place = place;
    client->closed.run = on_closed_task;
    return client;
}

void fetch_client_close(struct fetch_client *client, void (*on_closed)(void *data), void *data)
{
    struct kg_err err;
    kg_fail(&err, KG_E_STOPPING, "the daemon is stopping");
    client->closing = true;
    client->on_closed = on_closed;
    client->closed_data = data;
    for (struct process *at = client->first, *next; at != NULL; at = next) {
        next = at->next;
        helper_refuse(at->helper, &err);
        helper_retire(at->helper, true);
        if (helper_is_closed(at->helper))
            process_free(at);
    }
    check_closed(client);
}

void fetch_client_free(struct fetch_client *client)
{
    if (client == NULL)
        return;
    while (client->first != NULL)
        process_free(client->first);
    loop_undefer(client->place->where.loop, &client->closed);
    free(client);
}
