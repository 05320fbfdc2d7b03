/*
 * The host over stdin and stdout. Both are moved to fds that only we know: what the plugin prints
 * goes to stderr, and a child of it cannot read the host's messages. SIGTERM is an end like the end
 * of the input; it comes through a pipe, so that it is never missed between two reads.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_BYTES 65536

struct stdio_link {
    int in, out;
    struct kg_buf buf; /* what was read and not given out yet */
    size_t given;      /* of buf: given out */
    size_t searched;   /* of buf: holds no newline up to here */
    bool skipping;     /* the line that goes on is too long */
    bool ended;
};

static int signal_pipe[2] = {-1, -1};

static void on_sigterm(int number)
{
    (void)number;
    int before = errno;
    (void)!write(signal_pipe[1], "", 1);
    errno = before;
}

static void watch_signals(void)
{
    if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return;
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_sigterm}, NULL);
    signal(SIGPIPE, SIG_IGN); /* a host that is gone is told by EPIPE */
}

/* The fd under another number; the old number gets what `instead` is, and belongs to nobody. */
static int move_fd(int fd, int instead)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (moved < 0)
        return fd;
    if (instead >= 0)
        dup2(instead, fd);
    return moved;
}

struct stdio_link *stdio_link_new(void)
{
    struct stdio_link *stdio = kg_alloc(sizeof(*stdio));
    kg_auto(kg_close) int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    stdio->out = move_fd(STDOUT_FILENO, STDERR_FILENO);
    stdio->in = move_fd(STDIN_FILENO, nothing);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    watch_signals();
    return stdio;
}

void stdio_link_free(struct stdio_link *stdio)
{
    if (stdio == NULL)
        return;
    kg_close(&stdio->in);
    kg_close(&stdio->out);
    kg_close(&signal_pipe[0]);
    kg_close(&signal_pipe[1]);
    kg_buf_free(&stdio->buf);
    free(stdio);
}

/* -- reading ----------------------------------------------------------------------------------- */

/* False at the end of the input, however it came. */
static bool read_more(struct stdio_link *stdio)
{
    struct pollfd fds[] = {{.fd = stdio->in, .events = POLLIN},
                           {.fd = signal_pipe[0], .events = POLLIN}};
    while (poll(fds, KG_COUNT(fds), -1) < 0)
        if (errno != EINTR && errno != EAGAIN)
            return false;
    if (fds[1].revents != 0)
        return false;
    kg_buf_reserve(&stdio->buf, READ_BYTES);
    ssize_t length = read(stdio->in, stdio->buf.data + stdio->buf.length, READ_BYTES);
    if (length < 0)
        return errno == EINTR || errno == EAGAIN;
    stdio->buf.length += (size_t)length;
    return length > 0;
}

/* What was given out goes; the caller is done with it. */
static void drop_given(struct stdio_link *stdio)
{
    if (stdio->given == stdio->buf.length)
        stdio->buf.length = 0;
    else if (stdio->given >= READ_BYTES)
        kg_buf_consume(&stdio->buf, stdio->given);
    else
        return;
    stdio->searched -= stdio->given;
    stdio->given = 0;
}

/* A whole line is in the buffer: it ends at `end`. */
static enum link_read give_line(struct stdio_link *stdio, size_t end, struct kg_str *ret_line)
{
    struct kg_str line = {stdio->buf.data + stdio->given, end - stdio->given};
    bool skipped = stdio->skipping;
    stdio->skipping = false;
    stdio->given = stdio->searched = end + 1;
    if (skipped || line.length > LINE_BYTES_MAX)
        return LINK_OVERSIZE;
    *ret_line = line;
    return LINK_LINE;
}

/* No newline yet: of a line that is too long already nothing is kept. */
static void bound_partial(struct stdio_link *stdio)
{
    stdio->searched = stdio->buf.length;
    if (!stdio->skipping && stdio->buf.length - stdio->given <= LINE_BYTES_MAX)
        return;
    stdio->skipping = true;
    stdio->buf.length = stdio->given = stdio->searched = 0;
}

static enum link_read stdio_read(void *data, struct kg_str *ret_line)
{
    struct stdio_link *stdio = data;
    drop_given(stdio);
    while (!stdio->ended) {
        size_t left = stdio->buf.length - stdio->searched;
        const char *from = stdio->buf.data + stdio->searched;
        const char *newline = left > 0 ? memchr(from, '\n', left) : NULL;
        if (newline != NULL)
            return give_line(stdio, (size_t)(newline - stdio->buf.data), ret_line);
        bound_partial(stdio);
        stdio->ended = !read_more(stdio);
    }
    return LINK_END;
}

/* -- writing ----------------------------------------------------------------------------------- */

/* Waits as long as the pipe is full: a plugin writes no faster than the host reads. */
static bool stdio_write(void *data, struct kg_str line)
{
    struct stdio_link *stdio = data;
    while (line.length > 0) {
        ssize_t length = write(stdio->out, line.data, line.length);
        if (length < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = stdio->out, .events = POLLOUT}, 1, -1);
        else if (length < 0 && errno != EINTR)
            return false;
        if (length > 0) {
            line.data += length;
            line.length -= (size_t)length;
        }
    }
    return true;
}

struct link stdio_link_of(struct stdio_link *stdio)
{
    return (struct link){.read = stdio_read, .write = stdio_write, .data = stdio};
}
