/*
 * A program that is watched. What comes on our stdin goes to it, see feed.c; what it says is passed
 * on as it comes. All that it tried is known once its whole tree is gone. Where somebody is asked,
 * it may take several runs, each with a cage that has more: what counts is what the last one tried.
 */
#include "kit/observe.h"

#include "kit/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define BUILD_MS    60000
#define QUIET_MS    1000 /* after which what was only looked at is asked about */
#define SHUTDOWN_MS 5000
#define KILL_MS     10000
#define HOSTS_MAX   500

struct observing {
    struct kit_room *room;
    struct cage_child *child; /* NULL after its end */
    struct gate_cage *network;
    struct cage_attempts *attempts;
    struct kit_feed *feed;
    struct kit_asking *asking; /* NULL: nobody is asked */
    struct loop_fd out, err;
    int output_fd;
    bool spawned, over;
    struct kg_err error;
    struct kit_observed *result;
};

/* -- stdio ------------------------------------------------------------------------------------- */

static bool observe_pass_on(struct observing *observing, struct loop_fd *from, int to)
{
    char *bytes = loop_scratch(observing->room->loop);
    ssize_t got = read(from->fd, bytes, LOOP_SCRATCH_BYTES);
    if (got > 0)
        (void)!kg_write_all(to, bytes, (size_t)got);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        loop_fd_end(from);
    return got > 0;
}

static void observe_on_output(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct observing *observing = KG_CONTAINER(poll->data, struct observing, out);
    observe_pass_on(observing, &observing->out, observing->output_fd);
}

static void on_errors(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct observing *observing = KG_CONTAINER(poll->data, struct observing, err);
    observe_pass_on(observing, &observing->err, STDERR_FILENO);
}

static void begin_output(struct observing *observing, struct loop_fd *end, int fd, uv_poll_cb done)
{
    loop_fd_begin(observing->room->loop, end, fd);
    if (end->poll != NULL)
        uv_poll_start(end->poll, UV_READABLE, done);
}

static void end_output(struct observing *observing, struct loop_fd *end, int to)
{
    while (end->fd >= 0 && observe_pass_on(observing, end, to))
        ;
    loop_fd_end(end);
}

/* -- its life ---------------------------------------------------------------------------------- */

static void observe_on_spawned(void *data, pid_t pid, int in_fd, int out_fd, int err_fd)
{
    struct observing *observing = data;
    (void)pid;
    observing->spawned = true;
    begin_output(observing, &observing->out, out_fd, observe_on_output);
    begin_output(observing, &observing->err, err_fd, on_errors);
    kit_feed_to(observing->feed, in_fd);
}

static void observe_on_exited(void *data, const struct cage_exit *how, const char *error_or_null)
{
    struct observing *observing = data;
    observing->child = NULL;
    observing->over = true;
    observing->result->how = *how;
    if (error_or_null != NULL)
        kg_fail(&observing->error, KG_E_CAGE, "%s", error_or_null);
    end_output(observing, &observing->out, observing->output_fd);
    end_output(observing, &observing->err, STDERR_FILENO);
    if (observing->attempts != NULL)
        cage_attempts_finish(observing->attempts);
    if (observing->network != NULL)
        gate_cage_free(kg_steal(&observing->network));
}

static void observe_on_socket(void *data, uint32_t index, int fd)
{
    struct observing *observing = data;
    if (index == CAGE_SOCKET_TRIED && observing->attempts == NULL)
        observing->attempts =
            cage_attempts_new(observing->room->loop, fd, kit_asking_attempt, observing->asking);
    else if (observing->network != NULL)
        gate_cage_take(observing->network, index, fd);
    else
        kg_close(&fd);
}

static void add_host(struct kit_observed *observed, const char *host, uint16_t port, bool refused,
                     uint32_t count)
{
    for (size_t i = 0; i < observed->host_count; i++) {
        struct kit_host *known = &observed->hosts[i];
        if (strcmp(known->host, host) == 0 && known->port == port && known->refused == refused) {
            known->count += count;
            return;
        }
    }
    if (observed->host_count == HOSTS_MAX)
        return;
    observed->hosts =
        kg_realloc(observed->hosts, (observed->host_count + 1) * sizeof(*observed->hosts));
    observed->hosts[observed->host_count++] =
        (struct kit_host){kg_strdup(host), port, count, refused};
}

static void observe_on_network(void *data, const struct gate_event *event)
{
    struct observing *observing = data;
    bool can_declare = event->declare != NULL && event->declare[0] != '\0';
    const char *host = can_declare ? event->declare : event->host;
    if (event->kind == GATE_CONNECTED || event->kind == GATE_FAILED) {
        add_host(observing->result, event->host, event->port, false, 1 + event->suppressed);
    } else if (event->kind == GATE_DENIED) {
        add_host(observing->result, host, event->port, true, 1 + event->suppressed);
        kit_asking_host(observing->asking, host, event->port, false);
    } else if (event->kind == GATE_ASKED) {
        kit_asking_host(observing->asking, event->host, event->port, true);
    }
}

static bool observe_is_over(void *data)
{
    return ((const struct observing *)data)->over;
}

static bool is_over_or_asks(void *data)
{
    const struct observing *observing = data;
    return observing->over || kit_asking_waits(observing->asking);
}

static bool is_spawned(void *data)
{
    const struct observing *observing = data;
    return observing->spawned || observing->over;
}

static void observe_end_child(struct observing *observing)
{
    struct loop *loop = observing->room->loop;
    if (observing->child != NULL)
        cage_signal(observing->child, SIGTERM);
    if (!loop_run_until(loop, observe_is_over, observing, SHUTDOWN_MS) && observing->child != NULL)
        cage_signal(observing->child, SIGKILL);
    if (!loop_run_until(loop, observe_is_over, observing, KILL_MS))
        kg_fail(&observing->error, KG_E_CAGE, "the killed cage did not end");
}

static void take_attempts(struct observing *observing)
{
    struct kit_observed *result = observing->result;
    size_t count = observing->attempts ? cage_attempts_count(observing->attempts) : 0;
    result->attempts = kg_alloc_array(count + 1, sizeof(*result->attempts));
    for (size_t i = 0; i < count; i++) {
        result->attempts[i] = *cage_attempts_at(observing->attempts, i);
        result->attempts[i].what = kg_strdup(result->attempts[i].what);
        result->attempts[i].call = kg_strdup(result->attempts[i].call);
    }
    result->attempt_count = count;
    cage_attempts_free(kg_steal(&observing->attempts));
}

static int observe_begin(struct observing *observing, struct kg_err *err)
{
    static const struct cage_child_ops ops = {.on_spawned = observe_on_spawned,
                                              .on_exited = observe_on_exited,
                                              .on_socket = observe_on_socket};
    struct kit_room *room = observing->room;
    struct cage_plan *plan = kit_room_plan(room, err);
    if (plan == NULL)
        return -EINVAL;
    observing->child = cage_spawn(room->spawner, plan, &ops, observing, err);
    if (observing->child != NULL)
        observing->network = gate_cage_new(room->gate, plan, observe_on_network, observing);
    cage_plan_free(plan);
    return observing->child != NULL ? 0 : -EINVAL;
}

/* Until it is over, its time is, or it takes a new cage: true. The time a person takes to answer is
 * not its own.
 */
static bool watch_child(struct observing *observing, uint64_t for_ms)
{
    struct kit_room *room = observing->room;
    uint64_t deadline_ms = kg_monotonic_ms() + (for_ms != 0 ? for_ms : UINT32_MAX);
    bool anew = false;
    kit_room_wait(room, is_spawned, observing, BUILD_MS);
    while (!anew && !room->interrupted && !room->lost) {
        uint64_t now_ms = kg_monotonic_ms();
        uint64_t left_ms = deadline_ms > now_ms ? deadline_ms - now_ms : 0;
        bool in_parts = observing->asking != NULL && left_ms > QUIET_MS;
        kit_room_wait(room, is_over_or_asks, observing, in_parts ? QUIET_MS : left_ms);
        if (!kit_asking_waits(observing->asking)) {
            if (observing->over || !in_parts)
                return false;
            kit_asking_settle(observing->asking);
            continue;
        }
        now_ms = kg_monotonic_ms();
        anew =
            kit_asking_ask_all(observing->asking, observing->network, &observing->result->refused);
        deadline_ms += kg_monotonic_ms() - now_ms;
    }
    return anew && !room->interrupted && !room->lost;
}

/* One cage, from its beginning to its end; 1: another is to follow. */
static int run_once(struct observing *observing, uint64_t for_ms, struct kg_err *err)
{
    observing->spawned = observing->over = false;
    observing->out.fd = observing->err.fd = -1;
    if (observe_begin(observing, err) < 0)
        return -EINVAL;
    bool anew = watch_child(observing, for_ms);
    observe_end_child(observing);
    /* What was tried last may be told at the end. */
    kit_asking_settle(observing->asking);
    if (!anew && kit_asking_waits(observing->asking) && !observing->room->lost)
        anew = kit_asking_ask_all(observing->asking, NULL, &observing->result->refused);
    if (anew && observing->error.code == KG_OK)
        cage_attempts_free(kg_steal(&observing->attempts));
    else
        take_attempts(observing);
    if (observing->error.code == KG_OK)
        return anew;
    *err = observing->error;
    return -EINVAL;
}

int kit_observe(struct kit_room *room, const struct kit_observe_options *options,
                struct kit_observed *ret_observed, struct kg_err *err)
{
    struct observing observing = {
        .room = room, .output_fd = options->output_fd, .result = ret_observed};
    uint64_t start_ms = kg_monotonic_ms();
    int result;
    ret_observed->refused = kg_list_new(0);
    observing.feed = kit_feed_new(options->has_input, options->ask != NULL);
    if (options->ask != NULL)
        observing.asking = kit_asking_new(room, options->ask, options->data);
    do
        result = run_once(&observing, options->for_ms, err);
    while (result > 0);
    kit_asking_free(observing.asking);
    kit_feed_free(observing.feed);
    ret_observed->duration_ms = kg_monotonic_ms() - start_ms;
    return result;
}

void kit_observed_free(struct kit_observed *observed)
{
    for (size_t i = 0; i < observed->attempt_count; i++) {
        free(observed->attempts[i].what);
        free(observed->attempts[i].call);
    }
    for (size_t i = 0; i < observed->host_count; i++)
        free(observed->hosts[i].host);
    kg_list_free(observed->refused);
    free(observed->attempts);
    free(observed->hosts);
}
