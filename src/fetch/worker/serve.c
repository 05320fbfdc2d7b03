/* The loop of a program that is asked things in lines, and answers in lines when it can. */
#include "fetch/worker/worker.h"

#include "wire/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_BYTES 65536 /* of stdin at once: a pipe holds as much */

struct reader {
    const struct fetch_program *program;
    struct frame frame;
    char scratch[READ_BYTES];
};

int fetch_leave(const char *name, const char *why)
{
    fprintf(stderr, "%s: %s\n", name, why);
    return EXIT_FAILURE;
}

static bool fetch_worker_on_line(void *data, struct kg_str line)
{
    const struct reader *reader = data;
    reader->program->on_line(reader->program->data, line);
    return true;
}

/* 1: there may be more, 0: the end of stdin, negative: failed. */
static int fetch_worker_read_some(struct reader *reader)
{
    size_t size;
    char *space = frame_space(&reader->frame, reader->scratch, sizeof(reader->scratch), &size);
    ssize_t got = read(STDIN_FILENO, space, size);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN ? 1 : -errno;
    if (got == 0)
        return 0;
    return frame_advance(&reader->frame, space, (size_t)got, fetch_worker_on_line, reader) ==
                   FRAME_OK
               ? 1
               : -EMSGSIZE;
}

static const char *problem_of(const struct fetch_program *program)
{
    return program->problem != NULL ? program->problem(program->data) : NULL;
}

int fetch_serve(const struct fetch_program *program)
{
    struct reader *reader = kg_alloc(sizeof(*reader));
    struct kg_buf *lines = program->lines;
    int result = 1;
    reader->program = program;
    reader->frame.line_max = program->line_max;
    while (result > 0 && problem_of(program) == NULL) {
        if (program->turn(program->data, STDIN_FILENO))
            result = fetch_worker_read_some(reader);
        int wrote = kg_write_all(STDOUT_FILENO, lines->data, lines->length);
        lines->length = 0;
        result = wrote < 0 ? wrote : result;
    }
    frame_free(&reader->frame);
    free(reader);
    if (problem_of(program) != NULL)
        return fetch_leave(program->name, problem_of(program));
    return result == 0 ? EXIT_SUCCESS : fetch_leave(program->name, strerror(-result));
}
