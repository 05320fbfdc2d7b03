/*
 * kaged-storage: runs the SQL of one plugin on one file, and can do nothing else. It takes
 * everything it needs while it starts: two files that are there already, stdin, stdout. The SQL,
 * the values and the file may all be hostile; the cage around the process is what finally holds,
 * and the daemon kills a worker that does not answer in time.
 *
 * usage: kaged-storage FILE NAME=VALUE...
 */
#include "storage/worker/internal.h"

#include "base/confine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_BYTES ((size_t)256 * 1024)
#define OPEN_FILES 16
#define WAL_SLACK  (INT64_C(64) << 20) /* a WAL holds at most every page once, and a little */

static int storage_leave(enum worker_exit code, const char *why)
{
    fprintf(stderr, "kaged-storage: %s\n", why);
    return (int)code;
}

/* -- stdin ------------------------------------------------------------------------------------- */

struct input {
    struct kg_buf bytes;
    size_t served; /* at the front: lines that are answered */
};

static void input_free(struct input *input)
{
    kg_buf_free(&input->bytes);
}

/*
 * Reads until there is a whole line; *ret_lines is all whole lines. 0 at the end of stdin, negative
 * errno on failure.
 */
static int storage_read_lines(struct input *input, size_t line_max, struct kg_str *ret_lines)
{
    struct kg_buf *bytes = &input->bytes;
    kg_buf_consume(bytes, input->served);
    input->served = 0;
    for (;;) {
        if (bytes->length > line_max)
            return -EMSGSIZE;
        kg_buf_reserve(bytes, bytes->length + READ_BYTES);
        ssize_t got = read(STDIN_FILENO, bytes->data + bytes->length, READ_BYTES);
        if (got == 0 || (got < 0 && errno != EINTR))
            return got == 0 ? 0 : -errno;
        if (got < 0)
            continue;
        const char *last = memrchr(bytes->data + bytes->length, '\n', (size_t)got);
        bytes->length += (size_t)got;
        if (last == NULL)
            continue;
        input->served = (size_t)(last + 1 - bytes->data);
        *ret_lines = (struct kg_str){bytes->data, input->served};
        return 1;
    }
}

static int storage_serve(struct worker *worker)
{
    kg_auto(input_free) struct input input = {0};
    struct kg_str lines = KG_STR_NULL;
    int result;
    while ((result = storage_read_lines(&input, (size_t)worker->options->line_bytes, &lines)) > 0) {
        result = serve_lines(worker, lines, STDOUT_FILENO);
        if (result < 0)
            break;
        if (worker->database->corrupt)
            return storage_leave(WORKER_CORRUPT, "the database is damaged");
    }
    return result < 0 ? storage_leave(WORKER_IO, strerror(-result)) : WORKER_DONE;
}

/* -- life -------------------------------------------------------------------------------------- */

/* Whoever asked is told why there is no database. */
static int serve_without(const struct options *options, const struct failure *failure)
{
    kg_auto(input_free) struct input input = {0};
    struct kg_str lines = KG_STR_NULL;
    if (storage_read_lines(&input, (size_t)options->line_bytes, &lines) > 0)
        serve_failure(lines, failure, STDOUT_FILENO);
    return storage_leave(database_is_damage(failure->sqlite_code) ? WORKER_CORRUPT
                                                                  : WORKER_CANNOT_OPEN,
                         failure->message);
}

int main(int count, char **words)
{
    struct options options;
    struct kg_err err;
    struct failure failure;
    if (options_parse(count, words, &options, &err) < 0)
        return storage_leave(WORKER_USAGE, err.message);
    /* No core with the plugin's rows in it. */
    kg_confine(077, 2 * options.size_bytes + WAL_SLACK, OPEN_FILES);
    struct worker worker = {.options = &options, .database = database_open(&options, &failure)};
    if (worker.database == NULL)
        return serve_without(&options, &failure);
    int code = storage_serve(&worker);
    database_close(worker.database);
    kg_buf_free(&worker.out);
    kg_buf_free(&worker.scratch);
    return code;
}
