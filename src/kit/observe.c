/*
 * One run that is watched. What comes on our stdin goes to the program from a thread of its own,
 * since a file cannot be polled; what it says is passed on as it comes. All that it tried is known
 * once its whole tree is gone.
 */
#include "kit/observe.h"

#include "kit/internal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define BUILD_MS    60000
#define SHUTDOWN_MS 5000
#define KILL_MS     10000
#define HOSTS_MAX   500

struct observing {
    struct kit_room *room;
    struct cage_child *child; /* NULL after its end */
    struct gate_cage *network;
    struct cage_attempts *attempts;
    struct loop_fd out, err;
    int output_fd;
    bool spawned, over;
    struct kg_err error;
    struct kit_observed *result;
};

/* -- stdio ------------------------------------------------------------------------------------- */

/* Ends with stdin, or when nobody reads any more. */
static void *feed_input(void *data)
{
    int fd = (int)(intptr_t)data;
    char bytes[65536];
    ssize_t got;
    while ((got = read(STDIN_FILENO, bytes, sizeof(bytes))) > 0)
        for (ssize_t done = 0; done < got;) {
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            ssize_t put = write(fd, bytes + done, (size_t)(got - done));
            if (put < 0 && errno != EAGAIN && errno != EINTR) {
                close(fd);
                return NULL;
            }
            done += put > 0 ? put : 0;
            if (put < 0)
                poll(&room, 1, -1);
        }
    close(fd);
    return NULL;
}

static bool pass_on(struct observing *observing, struct loop_fd *from, int to)
{
    char *bytes = loop_scratch(observing->room->loop);
    ssize_t got = read(from->fd, bytes, LOOP_SCRATCH_BYTES);
    if (got > 0)
        (void)!kg_write_all(to, bytes, (size_t)got);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        loop_fd_end(from);
    return got > 0;
}

static void on_output(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct observing *observing = KG_CONTAINER(poll->data, struct observing, out);
    pass_on(observing, &observing->out, observing->output_fd);
}

static void on_errors(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct observing *observing = KG_CONTAINER(poll->data, struct observing, err);
    pass_on(observing, &observing->err, STDERR_FILENO);
}

static void begin_output(struct observing *observing, struct loop_fd *end, int fd, uv_poll_cb done)
{
    loop_fd_begin(observing->room->loop, end, fd);
    if (end->poll != NULL)
        uv_poll_start(end->poll, UV_READABLE, done);
}

static void end_output(struct observing *observing, struct loop_fd *end, int to)
{
    while (end->fd >= 0 && pass_on(observing, end, to))
        ;
    loop_fd_end(end);
}

/* -- its life ---------------------------------------------------------------------------------- */

static void on_spawned(void *data, pid_t pid, int in_fd, int out_fd, int err_fd)
{
    struct observing *observing = data;
    pthread_t thread;
    (void)pid;
    observing->spawned = true;
    begin_output(observing, &observing->out, out_fd, on_output);
    begin_output(observing, &observing->err, err_fd, on_errors);
    if (pthread_create(&thread, NULL, feed_input, (void *)(intptr_t)in_fd) == 0)
        pthread_detach(thread); /* it may wait for a terminal for ever */
    else
        close(in_fd);
}

static void on_exited(void *data, const struct cage_exit *how, const char *error_or_null)
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

static void on_socket(void *data, uint32_t index, int fd)
{
    struct observing *observing = data;
    if (index == CAGE_SOCKET_TRIED && observing->attempts == NULL)
        observing->attempts = cage_attempts_new(observing->room->loop, fd, NULL, NULL);
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

static void on_network(void *data, const struct gate_event *event)
{
    struct observing *observing = data;
    if (event->kind == GATE_CONNECTED || event->kind == GATE_FAILED)
        add_host(observing->result, event->host, event->port, false, 1 + event->suppressed);
    else if (event->kind == GATE_DENIED)
        add_host(observing->result,
                 event->declare != NULL && event->declare[0] != '\0' ? event->declare : event->host,
                 event->port, true, 1 + event->suppressed);
}

static bool is_over(void *data)
{
    return ((const struct observing *)data)->over;
}

static bool is_spawned(void *data)
{
    const struct observing *observing = data;
    return observing->spawned || observing->over;
}

static void end_child(struct observing *observing)
{
    struct loop *loop = observing->room->loop;
    if (observing->child != NULL)
        cage_signal(observing->child, SIGTERM);
    if (!loop_run_until(loop, is_over, observing, SHUTDOWN_MS) && observing->child != NULL)
        cage_signal(observing->child, SIGKILL);
    if (!loop_run_until(loop, is_over, observing, KILL_MS))
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

static int begin(struct observing *observing, struct kg_err *err)
{
    static const struct cage_child_ops ops = {
        .on_spawned = on_spawned, .on_exited = on_exited, .on_socket = on_socket};
    struct kit_room *room = observing->room;
    struct cage_plan *plan = kit_room_plan(room, err);
    if (plan == NULL)
        return -EINVAL;
    observing->child = cage_spawn(room->spawner, plan, &ops, observing, err);
    if (observing->child != NULL)
        observing->network = gate_cage_new(room->gate, plan, on_network, observing);
    cage_plan_free(plan);
    return observing->child != NULL ? 0 : -EINVAL;
}

int kit_observe(struct kit_room *room, const struct kit_observe_options *options,
                struct kit_observed *ret_observed, struct kg_err *err)
{
    struct observing observing = {.room = room,
                                  .out.fd = -1,
                                  .err.fd = -1,
                                  .output_fd = options->output_fd,
                                  .result = ret_observed};
    uint64_t start_ms = kg_monotonic_ms();
    if (begin(&observing, err) < 0)
        return -EINVAL;
    kit_room_wait(room, is_spawned, &observing, BUILD_MS);
    kit_room_wait(room, is_over, &observing, options->for_ms != 0 ? options->for_ms : UINT32_MAX);
    end_child(&observing);
    ret_observed->duration_ms = kg_monotonic_ms() - start_ms;
    take_attempts(&observing);
    if (observing.error.code == KG_OK)
        return 0;
    *err = observing.error;
    return -EINVAL;
}

void kit_observed_free(struct kit_observed *observed)
{
    for (size_t i = 0; i < observed->attempt_count; i++) {
        free(observed->attempts[i].what);
        free(observed->attempts[i].call);
    }
    for (size_t i = 0; i < observed->host_count; i++)
        free(observed->hosts[i].host);
    free(observed->attempts);
    free(observed->hosts);
}
