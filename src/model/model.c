/*
 * The processes that ask models, one for each provider and address, and the calls that they work
 * on. A call ends exactly once: by the process, by us if that did not live to, or silently when its
 * caller cancels it. A process that is late, or says what it should not, is killed, and all its
 * calls end.
 *
 *   closed -> starting -> open -> closing -> closed
 */
#include "model/internal.h"
#include "wire/wire.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define START_GRACE_MS   10000 /* for the cage, before the first byte is sent */
#define REASON_MS        250   /* in which the gatekeeper tells why a connection was lost */
#define CLOSE_MS         5000  /* for a process that has nothing to do any more */
#define ANSWER_BYTES     ((uint64_t)128 << 20) /* of events of one call: more than it may receive */
#define LAST_WORDS_BYTES 512                   /* of what a process said before it left */
#define REFUSAL_BYTES    256
#define PROCESSES        8                     /* threads look up names */
#define TMP_BYTES        65536                 /* it writes no files */
#define MEMORY_BYTES     ((uint64_t)512 << 20) /* requests and answers are held in memory */
#define CPU_SHARES       256                   /* it mostly waits */

enum state { CLOSED, STARTING, OPEN, CLOSING };

struct process {
    struct process *next;
    struct model_client *client;
    char *provider, *host; /* owned */
    uint16_t port;
    enum state state;
    struct cage_child *child; /* NULL without a process; freed by the cage */
    struct peer *peer;        /* NULL before the pipes are there */
    struct gate_cage *network;
    int err_fd;
    struct model_call *first, **last; /* owned, oldest first */
    uint32_t calls;
    char refusal[REFUSAL_BYTES]; /* why the gatekeeper's last connection came to nothing */
    struct loop_timer idle, late;
    struct loop_task start;
    bool retired; /* the provider has another address now: ends with its last call */
};

struct model_call {
    struct model_call *next;
    struct process *process;
    struct kg_buf params; /* until it is sent */
    uint64_t id;          /* of the peer, once it is sent; 0: not yet */
    uint64_t bytes;       /* of its events */
    int64_t total_ms;
    struct loop_timer deadline;
    struct loop_timer finish; /* of one that lost its connection: the gatekeeper may know more */
    struct model_end end;     /* then */
    struct model_ops ops;
    void *data;
};

struct model_client {
    const struct model_place *place;
    struct process *first; /* owned */
    void (*on_closed)(void *data);
    void *closed_data;
    bool closing, gone;
    struct loop_task closed;
};

static struct loop *loop_of(const struct process *process)
{
    return process->client->place->loop;
}

/* -- processes, as a list ---------------------------------------------------------------------- */

static void process_free(struct process *process)
{
    struct loop *loop = loop_of(process);
    struct process **at = &process->client->first;
    while (*at != process)
        at = &(*at)->next;
    *at = process->next;
    loop_timer_stop(loop, &process->idle);
    loop_timer_stop(loop, &process->late);
    loop_undefer(loop, &process->start);
    free(process->provider);
    free(process->host);
    free(process);
}

static void on_start(struct loop_task *task);

static struct process *process_new(struct model_client *client,
                                   const struct local_provider *provider)
{
    struct process *process = kg_alloc(sizeof(*process));
    process->client = client;
    process->provider = kg_str_dup(provider->name);
    process->host = kg_strdup(provider->host);
    process->port = provider->port;
    process->err_fd = -1;
    process->last = &process->first;
    process->start.run = on_start;
    process->next = client->first;
    client->first = process;
    return process;
}

/* -- calls ------------------------------------------------------------------------------------- */

static void unlink_call(struct process *process, struct model_call *call)
{
    struct model_call **at = &process->first;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    if (process->last == &call->next)
        process->last = at;
    process->calls--;
}

/* The peer must not answer to what is not there any more. */
static void call_free(struct model_call *call)
{
    struct loop *loop = loop_of(call->process);
    if (call->id != 0 && call->process->peer != NULL)
        peer_abandon(call->process->peer, call->id);
    loop_timer_stop(loop, &call->deadline);
    loop_timer_stop(loop, &call->finish);
    kg_buf_free(&call->params);
    free(call);
}

static void set_idle(struct process *process);

/* The call is gone before its caller hears of it, who may ask again at once. */
static void end_call(struct process *process, struct model_call *call, const struct model_end *end)
{
    struct model_ops ops = call->ops;
    void *data = call->data;
    struct model_end last = *end;
    if (last.failure != MODEL_OK)
        kg_wrap(&last.err, 0, "provider %s", process->provider);
    unlink_call(process, call);
    call_free(call);
    set_idle(process);
    ops.on_done(data, &last);
}

static void fail_call(struct process *process, struct model_call *call, enum model_failure failure,
                      enum kg_code code, const char *message)
{
    struct model_end end = {.failure = failure};
    kg_fail(&end.err, code, "%s", message);
    end_call(process, call, &end);
}

/* To the process a connection that the gatekeeper refuses, or cannot make, is just lost. */
static void finish_call(struct process *process, struct model_call *call)
{
    struct model_end end = call->end;
    if (process->refusal[0] != '\0')
        kg_fail(&end.err, KG_E_MODEL, "it could not be reached: %s", process->refusal);
    end_call(process, call, &end);
}

/*
 * Those that are in the list now; what was answered already keeps its answer. Each callback may add
 * calls, which stay, or cancel others: so they are looked for anew each time.
 */
static void fail_calls(struct process *process, bool only_sent, enum model_failure failure,
                       enum kg_code code, const char *message)
{
    for (uint32_t count = process->calls; count > 0; count--) {
        struct model_call *call = process->first;
        while (call != NULL && only_sent && call->id == 0)
            call = call->next;
        if (call == NULL)
            return;
        if (loop_timer_running(&call->finish))
            finish_call(process, call);
        else
            fail_call(process, call, failure, code, message);
    }
}

/* -- the end of a process ---------------------------------------------------------------------- */

static void on_late(struct loop_timer *timer)
{
    struct process *process = KG_CONTAINER(timer, struct process, late);
    if (process->child != NULL)
        cage_signal(process->child, SIGKILL);
}

static void close_process(struct process *process)
{
    process->state = CLOSING;
    loop_timer_stop(loop_of(process), &process->idle);
    loop_timer_start(loop_of(process), &process->late, CLOSE_MS, on_late);
    peer_close_input(process->peer);
}

static void on_idle(struct loop_timer *timer)
{
    close_process(KG_CONTAINER(timer, struct process, idle));
}

/* After each change of the list of calls. */
static void set_idle(struct process *process)
{
    const struct model_place *place = process->client->place;
    if (process->state != OPEN)
        return;
    if (process->calls > 0)
        loop_timer_stop(place->loop, &process->idle);
    else if (process->retired || process->client->closing)
        close_process(process);
    else
        loop_timer_start(place->loop, &process->idle, place->idle_ms, on_idle);
}

/* What the process said on stderr before it left; it says nothing else there. */
static void read_last_words(struct process *process, char *ret_text, size_t size)
{
    ssize_t got = process->err_fd >= 0 ? read(process->err_fd, ret_text, size - 1) : 0;
    ret_text[got > 0 ? got : 0] = '\0';
    ret_text[strcspn(ret_text, "\n")] = '\0';
    kg_close(&process->err_fd);
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
    if (client->first == NULL && client->gone) {
        loop_undefer(client->place->loop, &client->closed);
        free(client);
    }
}

/* What comes after a process is gone: the next, or nothing. */
static void go_on(struct process *process)
{
    struct model_client *client = process->client;
    if (process->first != NULL)
        loop_defer(loop_of(process), &process->start);
    else
        process_free(process);
    check_closed(client);
}

static void release(struct process *process)
{
    loop_timer_stop(loop_of(process), &process->idle);
    loop_timer_stop(loop_of(process), &process->late);
    if (process->network != NULL)
        gate_cage_free(process->network);
    if (process->peer != NULL) {
        peer_drain(process->peer); /* an answer that was given just before still counts */
        peer_free(process->peer);
    }
    process->network = NULL;
    process->peer = NULL;
    process->child = NULL;
    process->state = CLOSED;
}

static void on_exited(void *data, const struct cage_exit *how, const char *error_or_null)
{
    struct process *process = data;
    char words[LAST_WORDS_BYTES], message[LAST_WORDS_BYTES + 128];
    release(process);
    read_last_words(process, words, sizeof(words));
    const char *why = error_or_null ? error_or_null : words;
    snprintf(message, sizeof(message), "the process that asks it %s%s%s",
             how->built ? "ended before the answer did" : "could not be started",
             why[0] != '\0' ? ": " : "", why);
    /* Where it could not even be built, the next would not fare better. */
    fail_calls(process, how->built, MODEL_UNAVAILABLE, how->built ? KG_E_MODEL : KG_E_CAGE,
               message);
    go_on(process);
}

/* -- what the process says --------------------------------------------------------------------- */

static void give_up(struct process *process, const char *what)
{
    kg_log(KG_ERROR_LEVEL, "the process that asks provider %s is ended: %s", process->provider,
           what);
    if (process->child != NULL)
        cage_signal(process->child, SIGKILL);
}

static struct model_call *find_call(struct process *process, int64_t id)
{
    struct model_call *call = process->first;
    while (call != NULL && (id <= 0 || call->id != (uint64_t)id))
        call = call->next;
    return call;
}

static void on_notification(void *data, struct kg_str method, struct kg_str params)
{
    struct process *process = data;
    struct model_event event;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, NULL);
    if (doc == NULL || !kg_str_is(method, "event") || !model_wire_event(doc->root, &event)) {
        give_up(process, "it sent an event that is none");
        return;
    }
    struct model_call *call = find_call(process, model_wire_id(doc->root));
    if (call == NULL || loop_timer_running(&call->finish))
        return; /* it was cancelled, or is over */
    call->bytes += params.length;
    if (call->bytes > ANSWER_BYTES)
        give_up(process, "it sent more than any answer has");
    else
        call->ops.on_event(call->data, &event);
}

static void on_request(void *data, int64_t id, struct kg_str method, struct kg_str params)
{
    (void)id, (void)method, (void)params;
    give_up(data, "it asked for something");
}

static void on_noise(void *data, struct kg_str line, const char *problem)
{
    (void)line;
    give_up(data, problem);
}

static void on_violation(void *data, enum peer_violation violation, const char *detail)
{
    (void)violation;
    give_up(data, detail);
}

/* Calls have a deadline of ours, and after its end its exit follows. */
static const struct peer_ops peer_ops = {
    .on_request = on_request,
    .on_noise = on_noise,
    .on_violation = on_violation,
    .on_notification = on_notification,
};

static void on_finish(struct loop_timer *timer)
{
    struct model_call *call = KG_CONTAINER(timer, struct model_call, finish);
    finish_call(call->process, call);
}

static void on_answer(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct model_call *call = data;
    struct model_end end;
    if (outcome != PEER_RESULT && outcome != PEER_ERROR)
        return; /* the process is gone: on_exited answers */
    bool good =
        outcome == PEER_RESULT ? model_wire_result(payload, &end) : model_wire_error(payload, &end);
    if (!good) {
        give_up(call->process, "it sent an answer that is none");
        return;
    }
    if (end.failure != MODEL_LOST) {
        end_call(call->process, call, &end);
        return;
    }
    call->end = end;
    uint64_t wait_ms = call->process->refusal[0] != '\0' ? 0 : REASON_MS;
    loop_timer_start(loop_of(call->process), &call->finish, wait_ms, on_finish);
}

/* -- starting ---------------------------------------------------------------------------------- */

static int send_call(struct model_call *call, struct kg_err *err)
{
    struct kg_str params = kg_buf_view(&call->params);
    const struct peer_call request = {
        .method = KG_STR("chat"),
        .params = &params,
        .params_count = 1,
        .on_done = on_answer,
        .data = call,
    };
    int result = peer_call(call->process->peer, &request, &call->id, err);
    if (result == 0)
        kg_buf_free(&call->params);
    return result;
}

static void send_waiting(struct process *process)
{
    for (struct model_call *call = process->first; call != NULL;) {
        struct kg_err err = {0};
        if (call->id != 0 || send_call(call, &err) == 0) {
            call = call->next;
            continue;
        }
        fail_call(process, call, MODEL_UNAVAILABLE, err.code, err.message);
        call = process->first; /* the caller may have changed the list */
    }
    set_idle(process);
}

static void on_spawned(void *data, pid_t pid, int in_fd, int out_fd, int err_fd)
{
    struct process *process = data;
    const struct peer_limits wire = {
        .line_max_bytes = MODEL_LINE_BYTES,
        .write_queue_max_bytes = MODEL_LINE_BYTES * 4,
        .calls_in_flight_max = UINT32_MAX, /* calls_max is kept before */
        .notifications_per_sec = UINT32_MAX,
    };
    (void)pid;
    process->peer = peer_new(loop_of(process), in_fd, out_fd, &wire, &peer_ops, process);
    peer_set_phase(process->peer, PEER_OPEN);
    process->err_fd = err_fd;
    process->state = OPEN;
    send_waiting(process);
}

static void on_socket(void *data, uint32_t index, int fd)
{
    struct process *process = data;
    if (process->network != NULL)
        gate_cage_take(process->network, index, fd);
    else
        kg_close(&fd);
}

static const struct cage_child_ops child_ops = {
    .on_spawned = on_spawned,
    .on_exited = on_exited,
    .on_socket = on_socket,
};

static void note_refusal(struct process *process, const struct gate_event *event)
{
    snprintf(process->refusal, sizeof(process->refusal), "%s port %u: %s", event->host, event->port,
             event->reason);
    for (struct model_call *call = process->first; call != NULL; call = call->next)
        if (loop_timer_running(&call->finish))
            loop_timer_start(loop_of(process), &call->finish, 0, on_finish);
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

static struct cage_plan *make_plan(const struct process *process, const char *program,
                                   struct kg_err *err)
{
    static const char *const env[] = {
        "LANG=C.UTF-8",
#ifdef __SANITIZE_ADDRESS__
        "ASAN_OPTIONS=detect_leaks=0", /* it would trace the process, which no cage allows */
#endif
        NULL,
    };
    kg_auto(kg_free) char *folder = kg_strdup(program);
    *strrchr(folder, '/') = '\0';
    kg_auto(kg_free) char *name = kg_format("%s (models)", process->provider);
    const struct cage_reach reach = {.host = process->host, .port = process->port};
    const char *const command[] = {program, NULL};
    const struct cage_policy policy = {
        .name = name,
        .install_dir = folder,
        .command = command,
        .env = env,
        .reaches = &reach,
        .reach_count = 1,
        .processes_max = PROCESSES,
        .tmp_bytes = TMP_BYTES,
#ifndef __SANITIZE_ADDRESS__
        .memory_bytes = MEMORY_BYTES,
#endif
        .cpu_shares = CPU_SHARES,
    };
    return cage_plan_new(&policy, process->client->place->facts, err);
}

static int spawn(struct process *process, struct kg_err *err)
{
    const struct model_place *place = process->client->place;
    kg_auto(kg_free) char *program = cage_helper_path("kaged-model");
    if (program == NULL) {
        kg_fail(err, KG_E_INTERNAL, "kaged-model is not installed");
        kg_hint(err, "install kaged whole: make install");
        return -ENOENT;
    }
    struct cage_plan *plan = make_plan(process, program, err);
    if (plan == NULL)
        return -EINVAL;
    process->network = gate_cage_new(place->gate, plan, on_network, process);
    process->child = cage_spawn(place->spawner, plan, &child_ops, process, err);
    cage_plan_free(plan);
    if (process->child != NULL)
        return 0;
    gate_cage_free(process->network);
    process->network = NULL;
    return -EINVAL;
}

static void on_start(struct loop_task *task)
{
    struct process *process = KG_CONTAINER(task, struct process, start);
    struct kg_err err = {0};
    if (process->state != CLOSED)
        return;
    process->refusal[0] = '\0';
    if (process->first != NULL && spawn(process, &err) == 0) {
        process->state = STARTING;
        return;
    }
    fail_calls(process, false, MODEL_UNAVAILABLE, err.code, err.message);
    go_on(process);
}

/* -- asking ------------------------------------------------------------------------------------ */

/* The process did not keep the time that it was given: it hangs. */
static void on_deadline(struct loop_timer *timer)
{
    struct model_call *call = KG_CONTAINER(timer, struct model_call, deadline);
    struct process *process = call->process;
    char message[96];
    snprintf(message, sizeof(message), "the answer took longer than %lld ms",
             (long long)call->total_ms);
    give_up(process, "it does not answer");
    fail_call(process, call, MODEL_TIMEOUT, KG_E_MODEL, message);
}

/* Of the provider as it is configured now; one with another address ends with its calls. */
static struct process *process_of(struct model_client *client,
                                  const struct local_provider *provider)
{
    struct process *found = NULL;
    for (struct process *at = client->first, *next; at != NULL; at = next) {
        next = at->next;
        if (!kg_str_is(provider->name, at->provider))
            continue;
        bool same = at->port == provider->port && strcmp(at->host, provider->host) == 0;
        at->retired = !same;
        if (same)
            found = at;
        else
            set_idle(at);
    }
    return found != NULL ? found : process_new(client, provider);
}

static struct model_call *call_new(struct process *process, const struct model_ops *ops, void *data)
{
    struct model_call *call = kg_alloc(sizeof(*call));
    call->process = process;
    call->ops = *ops;
    call->data = data;
    *process->last = call;
    process->last = &call->next;
    process->calls++;
    return call;
}

static int check_room(const struct model_client *client, const struct local_provider *provider,
                      struct kg_err *err)
{
    uint32_t calls = 0;
    for (const struct process *at = client->first; at != NULL; at = at->next)
        if (kg_str_is(provider->name, at->provider))
            calls += at->calls;
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
    struct model_call *call = call_new(process, ops, data);
    call->total_ms = total_ms;
    call->params = params;
    params = (struct kg_buf){0};
    loop_timer_start(client->place->loop, &call->deadline, (uint64_t)total_ms + START_GRACE_MS,
                     on_deadline);
    if (process->state == CLOSED)
        loop_defer(client->place->loop, &process->start);
    else if (process->state == OPEN && send_call(call, err) < 0) {
        unlink_call(process, call);
        call_free(call);
        return -EINVAL;
    }
    set_idle(process);
    *ret_call = call;
    return 0;
}

static void cancel_call(struct process *process, struct model_call *call)
{
    if (call->id != 0 && process->peer != NULL && !loop_timer_running(&call->finish)) {
        char params[48];
        snprintf(params, sizeof(params), "{\"id\":%llu}", (unsigned long long)call->id);
        (void)peer_notify(process->peer, "cancel", kg_str(params), NULL);
    }
    unlink_call(process, call);
    call_free(call);
    set_idle(process);
}

void model_cancel(struct model_call *call)
{
    cancel_call(call->process, call);
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
    client->closing = true;
    client->on_closed = on_closed;
    client->closed_data = data;
    for (struct process *at = client->first, *next; at != NULL; at = next) {
        next = at->next;
        fail_calls(at, false, MODEL_CANCELLED, KG_E_STOPPING, "the daemon is stopping");
        set_idle(at);
        if (at->state == STARTING)
            cage_signal(at->child, SIGKILL);
        else if (at->state == CLOSED)
            process_free(at);
    }
    check_closed(client);
}

void model_client_free(struct model_client *client)
{
    if (client == NULL)
        return;
    client->closing = false;
    client->gone = true;
    for (struct process *at = client->first, *next; at != NULL; at = next) {
        next = at->next;
        while (at->first != NULL)
            cancel_call(at, at->first);
        if (at->child != NULL)
            cage_signal(at->child, SIGKILL);
        else
            process_free(at);
    }
    check_closed(client);
}

uint32_t model_client_processes(const struct model_client *client)
{
    uint32_t count = 0;
    for (const struct process *at = client->first; at != NULL; at = at->next)
        count += at->child != NULL;
    return count;
}
