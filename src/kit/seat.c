/*
 * One process of a plugin, and its three pipes. Whatever it writes is told line by line with its
 * time; a plugin that does not read is not read either, so that neither side's memory grows. Its
 * end is told when its whole tree is gone and both outputs have been read to their end.
 */
#include "kit/internal.h"

#include "wire/wire.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define START_WAIT_MS 30000
#define KILL_WAIT_MS  10000
#define STDERR_BYTES  65536
#define UNSENT_BYTES  16777216 /* past it the plugin is not read any more */
#define LOOK_AGAIN_MS 20       /* at one that was not read */
#define READS_AT_END  1024     /* of one pipe, after its process is gone */

struct kit_seat {
    struct kit_room *room; /* borrowed */
    struct kit_seat_ops ops;
    void *data;
    struct cage_child *child; /* NULL before and after its life */
    struct gate_cage *network;
    struct loop_fd in, out, err;
    struct kg_buf queue; /* for stdin */
    size_t sent;         /* of it */
    bool closing_input;
    struct frame frame;
    struct kg_buf errors; /* the end of stderr */
    struct loop_timer again;
    uint64_t started_ns;
    bool spawned, ended;
    struct cage_exit how;
    struct kg_err error; /* of the cage */
};

/* -- streams ----------------------------------------------------------------------------------- */

static bool is_only_late(ssize_t got)
{
    return got < 0 && (errno == EAGAIN || errno == EINTR);
}

/* -- stdout ------------------------------------------------------------------------------------ */

static void tell(struct kit_seat *seat, struct kg_str text, bool unfinished)
{
    struct kit_line line = {
        .text = text,
        .at_ns = kit_seat_ns(seat),
        .too_long = text.length == seat->frame.line_max,
        .unfinished = unfinished,
    };
    if (line.too_long)
        line.text.length--;
    if (seat->ops.on_line != NULL)
        seat->ops.on_line(seat->data, &line);
}

static bool on_whole_line(void *data, struct kg_str text)
{
    tell(data, text, false);
    return true;
}

static bool on_last_line(void *data, struct kg_str text)
{
    tell(data, text, true);
    return true;
}

/* False at the end of the stream. */
static bool read_out(struct kit_seat *seat)
{
    size_t size;
    char *space =
        frame_space(&seat->frame, loop_scratch(seat->room->loop), LOOP_SCRATCH_BYTES, &size);
    ssize_t got = read(seat->out.fd, space, size);
    if (got > 0)
        frame_advance(&seat->frame, space, (size_t)got, on_whole_line, seat);
    return got > 0 || is_only_late(got);
}

static void end_out(struct kit_seat *seat)
{
    loop_fd_end(&seat->out);
    frame_finish(&seat->frame, on_last_line, seat);
}

static void on_out_ready(uv_poll_t *poll, int status, int events);

static void on_again(struct loop_timer *timer)
{
    struct kit_seat *seat = KG_CONTAINER(timer, struct kit_seat, again);
    if (seat->out.poll == NULL)
        return;
    if (kit_seat_unsent(seat) > UNSENT_BYTES)
        loop_timer_start(seat->room->loop, timer, LOOK_AGAIN_MS, on_again);
    else
        uv_poll_start(seat->out.poll, UV_READABLE, on_out_ready);
}

static void on_out_ready(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct kit_seat *seat = KG_CONTAINER(poll->data, struct kit_seat, out);
    if (!read_out(seat)) {
        end_out(seat);
    } else if (kit_seat_unsent(seat) > UNSENT_BYTES) {
        uv_poll_stop(poll);
        loop_timer_start(seat->room->loop, &seat->again, LOOK_AGAIN_MS, on_again);
    }
}

/* -- stderr ------------------------------------------------------------------------------------ */

static bool read_err(struct kit_seat *seat)
{
    char *bytes = loop_scratch(seat->room->loop);
    ssize_t got = read(seat->err.fd, bytes, LOOP_SCRATCH_BYTES);
    if (got > 0)
        kg_buf_append(&seat->errors, bytes, (size_t)got);
    if (seat->errors.length > STDERR_BYTES)
        kg_buf_consume(&seat->errors, seat->errors.length - STDERR_BYTES);
    return got > 0 || is_only_late(got);
}

static void on_err_ready(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct kit_seat *seat = KG_CONTAINER(poll->data, struct kit_seat, err);
    if (!read_err(seat))
        loop_fd_end(&seat->err);
}

/* -- stdin ------------------------------------------------------------------------------------- */

static void on_in_ready(uv_poll_t *poll, int status, int events);

/* What stdin waits for: to be written to, or only to be closed by the other side. */
static void watch_in(struct kit_seat *seat)
{
    if (seat->in.poll == NULL)
        return;
    if (kit_seat_unsent(seat) == 0 && seat->closing_input)
        loop_fd_end(&seat->in);
    else
        uv_poll_start(seat->in.poll,
                      kit_seat_unsent(seat) > 0 ? UV_WRITABLE | UV_DISCONNECT : UV_DISCONNECT,
                      on_in_ready);
}

static void on_in_ready(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct kit_seat *seat = KG_CONTAINER(poll->data, struct kit_seat, in);
    size_t unsent = kit_seat_unsent(seat);
    ssize_t put = -1;
    if (status == 0 && unsent > 0)
        put = write(seat->in.fd, seat->queue.data + seat->sent, unsent);
    if (put > 0)
        seat->sent += (size_t)put;
    else if (unsent == 0 || status != 0 || !is_only_late(put))
        loop_fd_end(&seat->in);
    if (seat->in.poll == NULL || seat->sent == seat->queue.length)
        seat->sent = seat->queue.length = 0;
    watch_in(seat);
}

void kit_seat_send(struct kit_seat *seat, struct kg_str line)
{
    if (seat->in.poll == NULL || seat->closing_input)
        return;
    kg_buf_str(&seat->queue, line);
    kg_buf_char(&seat->queue, '\n');
    watch_in(seat);
}

void kit_seat_close_input(struct kit_seat *seat)
{
    seat->closing_input = true;
    watch_in(seat);
}

/* -- life -------------------------------------------------------------------------------------- */

static void on_spawned(void *data, pid_t pid, int in_fd, int out_fd, int err_fd)
{
    (void)pid;
    struct kit_seat *seat = data;
    loop_fd_begin(seat->room->loop, &seat->in, in_fd);
    loop_fd_begin(seat->room->loop, &seat->out, out_fd);
    loop_fd_begin(seat->room->loop, &seat->err, err_fd);
    seat->spawned = true;
    seat->started_ns = kg_monotonic_ns();
    watch_in(seat);
    if (seat->out.poll != NULL)
        uv_poll_start(seat->out.poll, UV_READABLE, on_out_ready);
    if (seat->err.poll != NULL)
        uv_poll_start(seat->err.poll, UV_READABLE, on_err_ready);
}

static bool is_at_rest(int fd)
{
    int left = 0;
    return fd < 0 || ioctl(fd, FIONREAD, &left) < 0 || left == 0;
}

static void on_exited(void *data, const struct cage_exit *how, const char *error_or_null)
{
    struct kit_seat *seat = data;
    seat->child = NULL;
    seat->how = *how;
    if (error_or_null != NULL)
        kg_fail(&seat->error, KG_E_CAGE, "%s", error_or_null);
    for (int i = 0; i < READS_AT_END && !is_at_rest(seat->out.fd) && read_out(seat); i++)
        ;
    for (int i = 0; i < READS_AT_END && !is_at_rest(seat->err.fd) && read_err(seat); i++)
        ;
    loop_fd_end(&seat->in);
    if (seat->out.fd >= 0)
        end_out(seat);
    loop_fd_end(&seat->err);
    gate_cage_free(kg_steal(&seat->network));
    seat->ended = true;
}

static void on_socket(void *data, uint32_t index, int fd)
{
    struct kit_seat *seat = data;
    if (seat->network != NULL)
        gate_cage_take(seat->network, index, fd);
    else
        kg_close(&fd);
}

static void on_network(void *data, const struct gate_event *event)
{
    struct kit_seat *seat = data;
    if (seat->ops.on_network != NULL)
        seat->ops.on_network(seat->data, event);
}

static const struct cage_child_ops child_ops = {
    .on_spawned = on_spawned,
    .on_exited = on_exited,
    .on_socket = on_socket,
};

static int spawn(struct kit_seat *seat, struct kg_err *err)
{
    struct cage_plan *plan = kit_room_plan(seat->room, err);
    if (plan == NULL)
        return -EINVAL;
    seat->child = cage_spawn(seat->room->spawner, plan, &child_ops, seat, err);
    if (seat->child != NULL && cage_plan_has_network(plan))
        seat->network = gate_cage_new(seat->room->gate, plan, on_network, seat);
    cage_plan_free(plan);
    return seat->child != NULL ? 0 : -EINVAL;
}

static bool has_begun(void *data)
{
    const struct kit_seat *seat = data;
    return seat->spawned || seat->ended;
}

static bool has_ended(void *data)
{
    const struct kit_seat *seat = data;
    return seat->ended;
}

/* Why there is no process. */
static void explain(const struct kit_seat *seat, struct kg_err *err)
{
    if (seat->ended && seat->error.code != KG_OK)
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
    seat->in.fd = seat->out.fd = seat->err.fd = -1;
    seat->started_ns = kg_monotonic_ns();
    /* One more than is allowed: who reaches it was too long. */
    seat->frame.line_max = (size_t)room->parts.config->limits_line_max_bytes + 1;
    seat->frame.truncates = true;
    if (spawn(seat, err) < 0) {
        kit_seat_free(seat);
        return NULL;
    }
    if (kit_room_wait(room, has_begun, seat, START_WAIT_MS) && seat->spawned)
        return seat;
    explain(seat, err);
    kit_seat_free(seat);
    return NULL;
}

void kit_seat_free(struct kit_seat *seat)
{
    if (seat == NULL)
        return;
    seat->ops = (struct kit_seat_ops){0};
    kit_serve_leave(seat->room, seat);
    kit_seat_signal(seat, SIGKILL);
    if (seat->child != NULL)
        loop_run_until(seat->room->loop, has_ended, seat, KILL_WAIT_MS);
    if (seat->child != NULL)
        return; /* the spawner still points at it */
    loop_timer_stop(seat->room->loop, &seat->again);
    frame_free(&seat->frame);
    kg_buf_free(&seat->queue);
    kg_buf_free(&seat->errors);
    free(seat);
}

void kit_seat_signal(struct kit_seat *seat, int signal)
{
    if (seat->child != NULL)
        cage_signal(seat->child, signal);
}

uint64_t kit_seat_ns(const struct kit_seat *seat)
{
    return kg_monotonic_ns() - seat->started_ns;
}

const struct cage_exit *kit_seat_exit(const struct kit_seat *seat)
{
    return seat->ended ? &seat->how : NULL;
}

bool kit_seat_wait_exit(struct kit_seat *seat, uint64_t timeout_ms)
{
    return kit_room_wait(seat->room, has_ended, seat, timeout_ms);
}

bool kit_seat_stdin_is_closed(const struct kit_seat *seat)
{
    return seat->in.fd < 0 && !seat->closing_input;
}

bool kit_seat_stdout_is_closed(const struct kit_seat *seat)
{
    return seat->out.fd < 0;
}

size_t kit_seat_unsent(const struct kit_seat *seat)
{
    return seat->queue.length - seat->sent;
}

struct kg_str kit_seat_stderr(const struct kit_seat *seat)
{
    return kg_buf_view(&seat->errors);
}
