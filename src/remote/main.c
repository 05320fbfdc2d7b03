/*
 * kaged-remote: lines of MCP on stdin go to one server over HTTP, and what it sends comes back as
 * lines on stdout. It can do nothing else: its cage lets it reach that host and port alone.
 *
 *   kaged-remote URL      with headers in KAGED_REMOTE_HEADER_1, _2 and so on: "Name: value"
 *
 * The end of stdin ends the session and the program.
 */
#include "base/confine.h"
#include "fetch/worker/worker.h"
#include "remote/internal.h"

#include <stdlib.h>

#define NAME "kaged-remote"

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

static void remote_on_line(void *data, struct kg_str line)
{
    remote_send(data, line);
}

static bool remote_on_turn(void *data, int fd)
{
    return remote_turn(data, fd);
}

static const char *remote_find_problem(void *data)
{
    return remote_problem(data);
}

static int remote_serve(const char *url, char *const *headers)
{
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf lines = {0};
    struct remote *remote = remote_new(url, headers, &lines, &err);
    if (remote == NULL)
        return fetch_leave(NAME, err.message);
    const struct fetch_program program = {
        .name = NAME,
        .line_max = REMOTE_LINE_BYTES,
        .lines = &lines,
        .on_line = remote_on_line,
        .turn = remote_on_turn,
        .problem = remote_find_problem,
        .data = remote,
    };
    int exit_code = fetch_serve(&program);
    remote_free(remote);
    return exit_code;
}

int main(int count, char **words)
{
    kg_confine(077, 0, FETCH_OPEN_FILES); /* no core with a key in it, no file */
    if (count != 2)
        return fetch_leave(NAME, "usage: " NAME " URL");
    char **headers = headers_of_environment();
    int exit_code = remote_serve(words[1], headers);
    kg_list_free(headers);
    return exit_code;
}
