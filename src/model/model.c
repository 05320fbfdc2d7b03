/*
 * The helpers that ask models, one for each provider and address, and the calls that they work on.
 * A call ends exactly once: by its helper, by us if that did not live to, or silently when its
 * caller cancels it. A helper that is late, or says what it should not, is ended, and all its calls
 * are.
 */
#include "helper/helper.h"
#include "model/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define START_GRACE_MS 10000 /* for the cage, before the first byte is sent */
#define REASON_MS      250   /* in which the gatekeeper tells why a connection was lost */
#define ANSWER_BYTES   ((uint64_t)128 << 20) /* of events of one call: more than it may receive */
#define REFUSAL_BYTES  256
#define PROCESSES      8                     /* threads look up names */
#define TMP_BYTES      65536                 /* it writes no files */
#define MEMORY_BYTES   ((uint64_t)512 << 20) /* requests and answers are held in memory */
#define CPU_SHARES     256                   /* it mostly waits */

struct process {
    struct process *next;
    struct model_client *client;
    char *provider, *host; /* owned */
    uint16_t port;
    struct helper *helper;       /* owned */
    struct model_call *lost;     /* owned; those that lost their connection */
    struct loop_timer reason;    /* of these: the gatekeeper may know more */
    char refusal[REFUSAL_BYTES]; /* why the gatekeeper's last connection came to nothing */
};

struct model_call {
    struct model_call *next; /* in process->lost */
    struct process *process;
    struct helper_call *asked; /* NULL: it is answered */
    struct model_end end;      /* of one that is lost */
    uint64_t bytes;            /* of its events */
    int64_t total_ms;
    struct model_ops ops;
    void *data;
};

struct model_client {
    const struct model_place *place;
    struct process *first; /* owned */
    void (*on_closed)(void *data);
    void *closed_data;
    bool closing;
    struct loop_task closed;
};

static struct loop *loop_of(const struct process *process)
{
    return process->client->place->loop;
}

/* -- calls ------------------------------------------------------------------------------------- */

/* The call is gone before its caller hears of it, who may ask again at once. */
static void end_call(struct model_call *call, const struct model_end *end)
{
    struct model_ops ops = call->ops;
    void *data = call->data;
    struct model_end last = *end;
    if (last.failure != MODEL_OK)
        kg_wrap(&last.err, 0, "provider %s", call->process->provider);
    free(call);
    ops.on_done(data, &last);
}

static void fail_call(struct model_call *call, enum model_failure failure, enum kg_code code,
                      const char *message)
{
    struct model_end end = {.failure = failure};
    kg_fail(&end.err, code, "%s", message);
    end_call(call, &end);
}

/* To the process a connection that the gatekeeper refuses, or cannot make, is just lost. */
static void finish_lost(struct process *process)
{
    while (process->lost != NULL) {
        struct model_call *call = process->lost;
        struct model_end end = call->end;
        process->lost = call->next;
        if (process->refusal[0] != '\0')
            kg_fail(&end.err, KG_E_MODEL, "it could not be reached: %s", process->refusal);
        end_call(call, &end);
    }
}

static void on_reason(struct loop_timer *timer)
{
    finish_lost(KG_CONTAINER(timer, struct process, reason));
}

/* -- what a helper says ------------------------------------------------------------------------ */

static void on_misfit(void *data, const char *what)
{
    const struct process *process = data;
    kg_log(KG_ERROR_LEVEL, "the process that asks provider %s is ended: %s", process->provider,
           what);
}

static void on_notification(void *data, struct kg_str method, struct kg_str params)
{
    struct process *process = data;
    struct model_event event;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, NULL);
    if (doc == NULL || !kg_str_is(method, "event") || !model_wire_event(doc->root, &event)) {
        helper_give_up(process->helper, "it sent an event that is none");
        return;
    }
    struct model_call *call = helper_find(process->helper, model_wire_id(doc->root));
    if (call == NULL)
        return; /* it was cancelled, or is over */
    call->bytes += params.length;
    if (call->bytes > ANSWER_BYTES)
        helper_give_up(process->helper, "it sent more than any answer has");
    else
        call->ops.on_event(call->data, &event);
}

/* It did not live to answer; `why` may be empty. */
static void fail_ended(struct model_call *call, enum kg_code code, const char *what,
                       const char *why)
{
    kg_auto(kg_free) char *message =
        kg_format("the process that asks it %s%s%s", what, why[0] != '\0' ? ": " : "", why);
    fail_call(call, MODEL_UNAVAILABLE, code, message);
}

static void fail_late(struct model_call *call)
{
    kg_auto(kg_free) char *message =
        kg_format("the answer took longer than %lld ms", (long long)call->total_ms);
    on_misfit(call->process, "it does not answer");
    fail_call(call, MODEL_TIMEOUT, KG_E_MODEL, message);
}

static void read_answer(struct model_call *call, const struct helper_answer *answer)
{
    struct process *process = call->process;
    struct model_end end;
    bool good = answer->outcome == HELPER_RESULT ? model_wire_result(answer->payload, &end)
                                                 : model_wire_error(answer->payload, &end);
    if (!good) {
        helper_give_up(process->helper, "it sent an answer that is none");
        fail_ended(call, KG_E_MODEL, "ended before the answer did", "");
    } else if (end.failure != MODEL_LOST) {
        end_call(call, &end);
    } else {
        call->end = end;
        call->next = process->lost;
        process->lost = call;
        loop_timer_start(loop_of(process), &process->reason,
                         process->refusal[0] != '\0' ? 0 : REASON_MS, on_reason);
    }
}

static void on_answer(void *data, const struct helper_answer *answer)
{
    struct model_call *call = data;
    bool is_stopping = call->process->client->closing;
    call->asked = NULL;
    switch (answer->outcome) {
    case HELPER_RESULT:
    case HELPER_ERROR:
        read_answer(call, answer);
        break;
    case HELPER_REFUSED:
        fail_call(call, is_stopping ? MODEL_CANCELLED : MODEL_UNAVAILABLE, answer->code,
                  answer->words);
        break;
    case HELPER_UNBUILT:
        fail_ended(call, KG_E_CAGE, "could not be started", answer->words);
        break;
    case HELPER_ENDED:
        fail_ended(call, KG_E_MODEL, "ended before the answer did", answer->words);
        break;
    case HELPER_LATE:
        fail_late(call);
        break;
    case HELPER_GONE:
        free(call);
        break;
    }
}

static void note_refusal(struct process *process, const struct gate_event *event)
{
    snprintf(process->refusal, sizeof(process->refusal), "%s port %u: %s", event->host, event->port,
             event->reason);
    if (process->lost != NULL)
        loop_timer_start(loop_of(process), &process->reason, 0, on_reason);
}

static void on_network(void *data, const struct gate_event *event)
{
    struct process *process = data;
    const struct model_place *place = process->client->place;
    if (event->kind == GATE_CONNECTED)
        process->refusal[0] = '\0';
    else if (event->kind == GATE_DENIED || event->kind == GATE_FAILED)
        note_refusal(process, event);
    if (place->on_network != NULL)
        place->on_network(place->data, process->provider, event);
}

static int prepare(void *data, const char *program, struct helper_start *ret_start,
                   struct kg_err *err)
{
    struct process *process = data;
    const struct model_place *place = process->client->place;
    kg_auto(kg_free) char *name = kg_format("%s (models)", process->provider);
    const struct cage_reach reach = {.host = process->host, .port = process->port};
    const char *const command[] = {program, NULL};
    const struct cage_policy policy = {
        .name = name,
        .command = command,
        .reaches = &reach,
        .reach_count = process->host[0] != '\0' ? 1 : 0,
        .processes_max = PROCESSES,
        .tmp_bytes = TMP_BYTES,
        .memory_bytes = MEMORY_BYTES,
        .cpu_shares = CPU_SHARES,
    };
    process->refusal[0] = '\0';
    *ret_start = (struct helper_start){
        .plan = helper_plan(program, policy, place->facts, err),
        .wire =
            {
                .line_max_bytes = MODEL_LINE_BYTES,
                .write_queue_max_bytes = MODEL_LINE_BYTES * 4,
                .calls_in_flight_max = UINT32_MAX, /* calls_max is kept before */
                .notifications_per_sec = UINT32_MAX,
            },
        .idle_ms = place->idle_ms,
    };
    return ret_start->plan != NULL ? 0 : -EINVAL;
}

/* -- processes, as a list ---------------------------------------------------------------------- */

static void process_free(struct process *process)
{
    KG_UNLINK(process->client->first, process);
    while (process->lost != NULL) {
        struct model_call *call = process->lost;
        process->lost = call->next;
        free(call);
    }
    loop_timer_stop(loop_of(process), &process->reason);
    helper_free(process->helper);
    free(process->provider);
    free(process->host);
    free(process);
}

static void on_closed_task(struct loop_task *task)
{
    struct model_client *client = KG_CONTAINER(task, struct model_client, closed);
    client->on_closed(client->closed_data);
}

static void check_closed(struct model_client *client)
{
    if (client->first == NULL && client->closing)
        loop_defer(client->place->loop, &client->closed);
}

/* What still waits for a reason gets none any more; who hears that may ask again. */
static void on_rest(void *data)
{
    struct process *process = data;
    struct model_client *client = process->client;
    finish_lost(process);
    if (helper_calls(process->helper) > 0)
        return;
    process_free(process);
    check_closed(client);
}

static struct process *process_new(struct model_client *client,
                                   const struct local_provider *provider)
{
    static const struct helper_ops ops = {
        .program = "kaged-model",
        .prepare = prepare,
        .on_notification = on_notification,
        .on_network = on_network,
        .on_misfit = on_misfit,
        .on_rest = on_rest,
    };
    const struct model_place *place = client->place;
    const struct helper_place where = {
        .loop = place->loop, .spawner = place->spawner, .gate = place->gate};
    struct process *process = kg_alloc(sizeof(*process));
    process->client = client;
    process->provider = kg_str_dup(provider->name);
    process->host = kg_strdup(provider->host);
    process->port = provider->port;
    process->helper = helper_new(&where, &ops, process);
    process->next = client->first;
    client->first = process;
    return process;
}

/* -- asking ------------------------------------------------------------------------------------ */

/* Of the provider as it is configured now; one with another address ends with its calls. */
static struct process *process_of(struct model_client *client,
                                  const struct local_provider *provider)
{
    struct process *found = NULL;
    for (struct process *at = client->first; at != NULL; at = at->next) {
        if (!kg_str_is(provider->name, at->provider))
            continue;
        bool same = at->port == provider->port && strcmp(at->host, provider->host) == 0;
        helper_retire(at->helper, !same);
        if (same)
            found = at;
    }
    return found != NULL ? found : process_new(client, provider);
}

static int check_room(const struct model_client *client, const struct local_provider *provider,
                      struct kg_err *err)
{
    uint32_t calls = 0;
    for (const struct process *at = client->first; at != NULL; at = at->next)
        if (kg_str_is(provider->name, at->provider))
            calls += helper_calls(at->helper);
    if (calls < client->place->calls_max)
        return 0;
    return kg_fail(err, KG_E_BUSY, "provider %.*s is asked %u things already",
                   KG_STR_ARG(provider->name), calls);
}

int model_ask(struct model_client *client, const struct model_request *request,
              const struct model_ops *ops, void *data, struct model_call **ret_call,
              struct kg_err *err)
{
    const struct local_provider *provider = request->model->provider;
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    int64_t total_ms = request->timeout_ms > 0 ? request->timeout_ms : provider->timeout_ms;
    if (client->place->facts == NULL || client->place->gate == NULL || client->closing)
        return kg_fail(err, KG_E_STOPPING, "no model can be asked now");
    if (check_room(client, provider, err) < 0)
        return -EINVAL;
    model_wire_request(request, total_ms, &params);
    if (params.length + 256 > MODEL_LINE_BYTES)
        return kg_fail(err, KG_E_TOO_LARGE, "the request has %zu bytes, and may have %zu",
                       params.length, MODEL_LINE_BYTES);
    struct process *process = process_of(client, provider);
    struct model_call *call = kg_alloc(sizeof(*call));
    *call =
        (struct model_call){.process = process, .total_ms = total_ms, .ops = *ops, .data = data};
    const struct helper_request asked = {
        .method = "chat",
        .params = kg_buf_view(&params),
        .timeout_ms = (uint64_t)total_ms + START_GRACE_MS,
        .on_done = on_answer,
        .data = call,
    };
    int result = helper_ask(process->helper, &asked, &call->asked, err);
    if (result < 0)
        free(call);
    else
        *ret_call = call;
    return result;
}

void model_cancel(struct model_call *call)
{
    struct model_call **at = &call->process->lost;
    while (*at != NULL && *at != call)
        at = &(*at)->next;
    if (*at != NULL)
        *at = call->next;
    else
        helper_withdraw(call->asked);
    free(call);
}

/* -- the client -------------------------------------------------------------------------------- */

struct model_client *model_client_new(const struct model_place *place)
{
    struct model_client *client = kg_alloc(sizeof(*client));
    client->place = place;
    client->closed.run = on_closed_task;
    return client;
}

void model_client_close(struct model_client *client, void (*on_closed)(void *data), void *data)
{
    struct kg_err err;
    kg_fail(&err, KG_E_STOPPING, "the daemon is stopping");
    client->closing = true;
    client->on_closed = on_closed;
    client->closed_data = data;
    for (struct process *at = client->first, *next; at != NULL; at = next) {
        next = at->next;
        finish_lost(at); /* what was answered already keeps its answer */
        helper_refuse(at->helper, &err);
        helper_retire(at->helper, true);
        if (helper_is_closed(at->helper))
            process_free(at);
    }
    check_closed(client);
}

void model_client_free(struct model_client *client)
{
    if (client == NULL)
        return;
    for (struct process *at = client->first, *next; at != NULL; at = next) {
        next = at->next;
        process_free(at);
    }
    loop_undefer(client->place->loop, &client->closed);
    free(client);
}

uint32_t model_client_processes(const struct model_client *client)
{
    uint32_t count = 0;
    for (const struct process *at = client->first; at != NULL; at = at->next)
        count += helper_runs(at->helper);
    return count;
}
