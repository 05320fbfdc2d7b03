/*
 * One process of a plugin, with the daemon's own peer at its pipes. Each line of it is told before
 * the peer takes it; what the peer would have it killed for is left to whoever listens. Its end is
 * told when its whole tree is gone and both outputs have been read to their end.
 */
#include "kit/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#define START_WAIT_MS 30000
#define KILL_WAIT_MS  10000
#define STDERR_BYTES  65536

/* -- what it says ------------------------------------------------------------------------------ */

static void on_tap(void *data, enum peer_way way, struct kg_str line)
{
    struct kit_seat *seat = data;
    if (way == PEER_FROM && seat->ops.on_line != NULL)
        seat->ops.on_line(seat->data, line);
    else if (way == PEER_TO && seat->ops.on_sent != NULL)
        seat->ops.on_sent(seat->data, line);
}

static void seat_on_request(void *data, int64_t request, struct kg_str method, struct kg_str params)
{
    struct kit_seat *seat = data;
    if (seat->ops.on_request != NULL)
        seat->ops.on_request(seat->data, request, method, params);
}

static void seat_on_notification(void *data, struct kg_str method, struct kg_str params)
{
    struct kit_seat *seat = data;
    if (seat->ops.on_notification != NULL)
        seat->ops.on_notification(seat->data, method, params);
}

static void seat_on_noise(void *data, struct kg_str line, const char *problem)
{
    (void)data, (void)line, (void)problem; /* on_line has heard it */
}

static void seat_on_violation(void *data, enum peer_violation violation, const char *detail)
{
    struct kit_seat *seat = data;
    (void)detail;
    if (violation == PEER_OVERSIZE && seat->ops.on_cut != NULL)
        seat->ops.on_cut(seat->data, peer_rest(seat->peer), true);
}

static void seat_on_end(void *data, enum peer_end end)
{
    struct kit_seat *seat = data;
    if (end == PEER_STDIN_CLOSED) {
        seat->in_closed = true;
        return;
    }
    seat->out_closed = true;
    struct kg_str rest = peer_rest(seat->peer);
    if (rest.length > 0 && seat->ops.on_cut != NULL)
        seat->ops.on_cut(seat->data, rest, false);
}

/* -- life -------------------------------------------------------------------------------------- */

static void seat_on_spawned(void *data, int in_fd, int out_fd)
{
    static const struct peer_ops ops = {
        .on_request = seat_on_request,
        .on_notification = seat_on_notification,
        .on_noise = seat_on_noise,
        .on_violation = seat_on_violation,
        .on_end = seat_on_end,
    };
    struct kit_seat *seat = data;
    const struct config *config = seat->room->parts.config;
    const struct peer_limits limits = {
        .line_max_bytes = (size_t)config->limits_line_max_bytes,
        .write_queue_max_bytes = (size_t)config->limits_write_queue_bytes,
        .calls_in_flight_max = UINT32_MAX,
        .notifications_per_sec = (uint32_t)config->limits_notifications_per_sec,
    };
    seat->peer = peer_new(seat->room->loop, in_fd, out_fd, &limits, &ops, seat);
    peer_set_rules(seat->peer, &kit_dialect(seat->room)->rules);
    peer_set_tap(seat->peer, on_tap, seat);
    seat->started_ns = kg_monotonic_ns();
}

static void seat_on_exited(void *data, const struct cage_exit *how, const char *error_or_null)
{
    struct kit_seat *seat = data;
    (void)how;
    if (error_or_null != NULL)
        kg_fail(&seat->error, KG_E_CAGE, "%s", error_or_null);
    if (seat->peer != NULL)
        peer_drain(seat->peer);
    seat->out_closed = true;
}

static void seat_on_network(void *data, const struct gate_event *event)
{
    struct kit_seat *seat = data;
    if (seat->ops.on_network != NULL)
        seat->ops.on_network(seat->data, event);
}

static int seat_spawn(struct kit_seat *seat, struct kg_err *err)
{
    static const struct helper_child_ops ops = {seat_on_spawned, seat_on_exited, seat_on_network};
    static const struct helper_errors errors = {.max_bytes = STDERR_BYTES, .last = true};
    const struct kit_room *room = seat->room;
    const struct helper_place place = {
        .loop = room->loop, .spawner = room->spawner, .gate = room->gate};
    struct cage_plan *plan = kit_room_plan(room, err);
    if (plan == NULL)
        return -EINVAL;
    seat->child = helper_child_new(&place, plan, errors, &ops, seat, err);
    cage_plan_free(plan);
    return seat->child != NULL ? 0 : -EINVAL;
}

static bool seat_has_ended(void *data)
{
    const struct kit_seat *seat = data;
    return helper_child_exit(seat->child) != NULL;
}

static bool has_begun(void *data)
{
    const struct kit_seat *seat = data;
    return seat->peer != NULL || seat_has_ended(data);
}

/* Why there is no process. */
static void seat_explain(const struct kit_seat *seat, struct kg_err *err)
{
    if (seat->error.code != KG_OK)
        *err = seat->error;
    else if (seat->room->interrupted)
        kg_fail(err, KG_E_CAGE, "interrupted");
    else
        kg_fail(err, KG_E_CAGE, "plugin %s: its cage was not built within %d s",
                seat->room->parts.manifest->name, START_WAIT_MS / 1000);
}

struct kit_seat *kit_seat_new(struct kit_room *room, const struct kit_seat_ops *ops, void *data,
                              struct kg_err *err)
{
    struct kit_seat *seat = kg_alloc(sizeof(*seat));
    seat->room = room;
    seat->ops = *ops;
    seat->data = data;
    if (seat_spawn(seat, err) < 0) {
        free(seat);
        return NULL;
    }
    if (kit_room_wait(room, has_begun, seat, START_WAIT_MS) && seat->peer != NULL)
        return seat;
    seat_explain(seat, err);
    kit_seat_free(seat);
    return NULL;
}

void kit_seat_free(struct kit_seat *seat)
{
    if (seat == NULL)
        return;
    seat->ops = (struct kit_seat_ops){0};
    kit_serve_leave(seat->room, seat);
    helper_child_signal(seat->child, SIGKILL);
    loop_run_until(seat->room->loop, seat_has_ended, seat, KILL_WAIT_MS);
    peer_free(seat->peer);
    helper_child_free(seat->child);
    free(seat);
}

uint64_t kit_seat_ns(const struct kit_seat *seat)
{
    return kg_monotonic_ns() - seat->started_ns;
}

bool kit_seat_wait_exit(struct kit_seat *seat, uint64_t timeout_ms)
{
    return kit_room_wait(seat->room, seat_has_ended, seat, timeout_ms);
}
