/*
 * Bytes from one side of a connection to the other. Little ones are copied; a stream goes through
 * a pipe, where the kernel moves whole pages and copies none. What the receiver does not take yet
 * is kept, in memory or in the pipe, and nothing more is read until it has gone: so a connection
 * holds a bounded amount in each direction. Nothing here waits. SIGPIPE must be ignored.
 */
#include "cage/gate_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES_PER_TURN (4 * GATE_SCRATCH_BYTES) /* of one direction; also what a pipe holds */
#define STREAM_BYTES                                                                               \
    (GATE_SCRATCH_BYTES / 4) /* a side that sends less at a time is not a stream                   \
                              */
#define PIPES_SPARE 8        /* empty ones that are kept for the next stream */

/* -- pipes ------------------------------------------------------------------------------------- */

struct gate_pipe {
    struct gate_pipe *next; /* of the spare ones */
    int in, out;
    size_t held; /* bytes */
};

/* NULL if there is none to be had: copying works, too. */
static struct gate_pipe *take_pipe(struct gate *gate)
{
    int ends[2];
    struct gate_pipe *pipe = gate->pipes;
    if (pipe != NULL) {
        gate->pipes = pipe->next;
        gate->spare_count--;
        return pipe;
    }
    if (gate->pipe_count == gate->pipes_max || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return NULL;
    (void)fcntl(ends[1], F_SETPIPE_SZ, (int)BYTES_PER_TURN); /* a smaller one does, too */
    gate->pipe_count++;
    pipe = kg_alloc(sizeof(*pipe));
    pipe->out = ends[0];
    pipe->in = ends[1];
    return pipe;
}

static void free_pipe(struct gate *gate, struct gate_pipe *pipe)
{
    gate->pipe_count--;
    close(pipe->in);
    close(pipe->out);
    free(pipe);
}

static void give_pipe_back(struct gate *gate, struct gate_pipe *pipe)
{
    if (pipe->held > 0 || gate->spare_count == PIPES_SPARE) {
        free_pipe(gate, pipe);
        return;
    }
    pipe->next = gate->pipes;
    gate->pipes = pipe;
    gate->spare_count++;
}

void gate_free_pipes(struct gate *gate)
{
    for (struct gate_pipe *next; gate->pipes != NULL; gate->pipes = next) {
        next = gate->pipes->next;
        free_pipe(gate, gate->pipes);
    }
}

/* -- sending ----------------------------------------------------------------------------------- */

/* Sends; returns how much the socket took, or -1 if it is broken. */
static ssize_t send_some(struct gate_side *to, const char *data, size_t size)
{
    size_t sent = 0;
    while (sent < size) {
        ssize_t result = send(to->source.fd, data + sent, size - sent, MSG_NOSIGNAL);
        if (result < 0 && errno == EINTR)
            continue;
        if (result < 0 && errno == EAGAIN)
            break;
        if (result < 0)
            return -1;
        sent += (size_t)result;
    }
    to->bytes += sent;
    return (ssize_t)sent;
}

/* The same of what its pipe holds. */
static int send_pipe(struct gate_side *to)
{
    while (to->pipe->held > 0) {
        ssize_t result = splice(to->pipe->out, NULL, to->source.fd, NULL, to->pipe->held,
                                SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        if (result < 0 && errno == EINTR)
            continue;
        if (result < 0 && errno == EAGAIN)
            break;
        if (result <= 0)
            return -1;
        to->pipe->held -= (size_t)result;
        to->bytes += (uint64_t)result;
    }
    return 0;
}

static int send_kept(struct gate_side *to)
{
    ssize_t sent = send_some(to, to->kept + to->kept_at, to->kept_size - to->kept_at);
    if (sent < 0)
        return -1;
    to->kept_at += (size_t)sent;
    if (to->kept_at == to->kept_size)
        kg_free(&to->kept);
    return 0;
}

/* 1: nothing is kept any more, 0: not all has gone yet, -1: it never will. */
static int gate_move_flush(struct gate *gate, struct gate_side *to)
{
    if (to->kept != NULL && send_kept(to) < 0)
        return -1;
    if (to->pipe != NULL) {
        if (send_pipe(to) < 0)
            return -1;
        if (to->pipe->held == 0)
            give_pipe_back(gate, kg_steal(&to->pipe));
    }
    return to->kept == NULL && to->pipe == NULL;
}

static void gate_move_keep(struct gate_side *to, const char *data, size_t size)
{
    to->kept = kg_alloc(size);
    memcpy(to->kept, data, size);
    to->kept_at = 0;
    to->kept_size = size;
}

static void gate_move_finish(struct gate_side *to)
{
    if (to->is_finished)
        return;
    to->is_finished = true;
    shutdown(to->source.fd, SHUT_WR);
}

/* -- both -------------------------------------------------------------------------------------- */

/* What was read, 0 if there is nothing now or never will be; -1 if a side is broken. */
static ssize_t gate_move_copy(struct gate *gate, struct gate_side *from, struct gate_side *to)
{
    ssize_t size = recv(from->source.fd, gate->scratch, GATE_SCRATCH_BYTES, 0);
    if (size < 0 && errno != EAGAIN && errno != EINTR)
        return -1;
    if (size < 0) {
        from->may_read = errno == EINTR;
        return 0;
    }
    from->is_read = size == 0;
    from->is_stream = size == (ssize_t)GATE_SCRATCH_BYTES;
    /* A short read means that there is no more, unless the end was told already. */
    from->may_read = from->is_stream || from->hung_up;
    ssize_t sent = send_some(to, gate->scratch, (size_t)size);
    if (sent < 0)
        return -1;
    if (sent < size)
        gate_move_keep(to, gate->scratch + sent, (size_t)(size - sent));
    return size;
}

/* The same by way of a pipe. It is sent with the next flush. */
static ssize_t stream(struct gate *gate, struct gate_side *from, struct gate_side *to)
{
    to->pipe = take_pipe(gate);
    if (to->pipe == NULL)
        return gate_move_copy(gate, from, to);
    ssize_t size = splice(from->source.fd, NULL, to->pipe->in, NULL, BYTES_PER_TURN,
                          SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (size < 0 && errno != EAGAIN && errno != EINTR)
        return -1;
    /* The pipe was empty: so it is the socket that has no more. */
    from->may_read = size > 0 || (size < 0 && errno == EINTR);
    if (size > 0)
        from->is_stream = (size_t)size >= STREAM_BYTES;
    from->is_read = size == 0;
    to->pipe->held = size > 0 ? (size_t)size : 0;
    return size > 0 ? size : 0;
}

enum gate_moved gate_move(struct gate *gate, struct gate_side *from, struct gate_side *to)
{
    size_t moved = 0;
    for (;;) {
        int flushed = gate_move_flush(gate, to);
        if (flushed <= 0)
            return flushed < 0 ? GATE_MOVED_BROKEN : GATE_MOVED_ALL;
        if (from->is_read)
            gate_move_finish(to);
        if (from->is_read || !from->may_read)
            return GATE_MOVED_ALL;
        if (moved >= BYTES_PER_TURN)
            return GATE_MOVED_SHARE;
        ssize_t size = from->is_stream ? stream(gate, from, to) : gate_move_copy(gate, from, to);
        if (size < 0)
            return GATE_MOVED_BROKEN;
        moved += (size_t)size;
    }
}

void gate_side_close(struct gate *gate, struct gate_side *side, bool reset)
{
    if (side->source.fd >= 0 && reset)
        gate_reset_on_close(side->source.fd);
    gate_unwatch(gate, &side->source);
    kg_free(&side->kept);
    if (side->pipe != NULL)
        give_pipe_back(gate, kg_steal(&side->pipe));
}
