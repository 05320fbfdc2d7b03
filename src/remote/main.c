/*
 * kaged-remote: lines of MCP on stdin go to one server over HTTP, and what it sends comes back as
 * lines on stdout. It can do nothing else: its cage lets it reach that host and port alone.
 *
 *   kaged-remote URL      with headers in KAGED_REMOTE_HEADER_1, _2 and so on: "Name: value"
 *
 * The end of stdin ends the session and the program.
 */
#include "base/confine.h"
#include "remote/internal.h"
#include "wire/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_BYTES 65536 /* of stdin at once: a pipe holds as much */
#define OPEN_FILES 256   /* more than all connections at the same time */

struct bridge {
    struct frame frame;
    struct kg_buf lines; /* to be written */
    struct remote *remote;
    char scratch[READ_BYTES];
};

static int leave(const char *why)
{
    fprintf(stderr, "kaged-remote: %s\n", why);
    return EXIT_FAILURE;
}

/* Owned, NULL-ended. */
static char **headers_of_environment(void)
{
    char **headers = kg_list_new(0);
    for (int i = 1;; i++) {
        kg_auto(kg_free) char *name = kg_format("KAGED_REMOTE_HEADER_%d", i);
        const char *header = getenv(name);
        if (header == NULL)
            return headers;
        kg_list_add(&headers, kg_strdup(header));
        unsetenv(name);
    }
}

static bool on_line(void *data, struct kg_str line)
{
    struct bridge *bridge = data;
    remote_send(bridge->remote, line);
    return true;
}

/* 1: there may be more, 0: the end of stdin, negative: failed. */
static int read_some(struct bridge *bridge)
{
    size_t size;
    char *space = frame_space(&bridge->frame, bridge->scratch, sizeof(bridge->scratch), &size);
    ssize_t got = read(STDIN_FILENO, space, size);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN ? 1 : -errno;
    if (got == 0)
        return 0;
    return frame_advance(&bridge->frame, space, (size_t)got, on_line, bridge) == FRAME_OK
               ? 1
               : -EMSGSIZE;
}

static int serve(struct bridge *bridge)
{
    int result = 1;
    while (result > 0 && remote_problem(bridge->remote) == NULL) {
        if (remote_turn(bridge->remote, STDIN_FILENO))
            result = read_some(bridge);
        int wrote = kg_write_all(STDOUT_FILENO, bridge->lines.data, bridge->lines.length);
        bridge->lines.length = 0;
        result = wrote < 0 ? wrote : result;
    }
    return result;
}

int main(int count, char **words)
{
    struct kg_err err = {0};
    kg_confine(077, 0, OPEN_FILES); /* no core with a key in it, no file */
    if (count != 2)
        return leave("usage: kaged-remote URL");
    char **headers = headers_of_environment();
    struct bridge *bridge = kg_alloc(sizeof(*bridge));
    bridge->frame.line_max = REMOTE_LINE_BYTES;
    bridge->remote = remote_new(words[1], headers, &bridge->lines, &err);
    int result = bridge->remote != NULL ? serve(bridge) : -EINVAL;
    const char *problem = bridge->remote == NULL ? err.message : remote_problem(bridge->remote);
    if (bridge->remote != NULL)
        remote_free(bridge->remote);
    frame_free(&bridge->frame);
    kg_buf_free(&bridge->lines);
    kg_list_free(headers);
    free(bridge);
    if (problem != NULL)
        return leave(problem);
    return result == 0 ? EXIT_SUCCESS : leave(strerror(-result));
}
