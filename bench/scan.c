/*
 * Lines and envelopes, as the wire has them: a buffer of lines is cut, each is validated whole, and
 * its id and result are found.
 *
 * usage: scan-bench FILE   (one line)
 * commands: scan MS        MB of lines a second
 */
#include "contender.h"
#include "wire/wire.h"

#define LINES 64 /* in a buffer, as of one read */

struct scan {
    struct kg_buf lines;
    struct frame frame;
    size_t seen;
    struct kg_str result; /* of the first line; all are alike */
};

static bool on_line(void *data, struct kg_str line)
{
    struct scan *scan = data;
    struct rpc_message message;
    rpc_parse(line, &message);
    if (message.kind != RPC_RESULT || message.result.length != scan->result.length)
        contender_die("scan", "a wrong envelope");
    scan->seen++;
    return true;
}

static void run_scan(void *data, const long numbers[])
{
    struct scan *scan = data;
    uint64_t bytes = 0, start_ns = kg_monotonic_ns(), elapsed_ns;
    do {
        scan->seen = 0;
        frame_advance(&scan->frame, scan->lines.data, scan->lines.length, on_line, scan);
        if (scan->seen != LINES)
            contender_die("scan", "not every line was seen");
        bytes += scan->lines.length;
        elapsed_ns = kg_monotonic_ns() - start_ns;
    } while (elapsed_ns < (uint64_t)numbers[0] * 1000000);
    contender_figure("rate", (double)bytes * 1e3 / (double)elapsed_ns);
}

int main(int argc, char **argv)
{
    static const struct contender_command commands[] = {{"scan", run_scan}, {NULL, NULL}};
    struct scan scan = {.frame = {.line_max = 1 << 20}};
    struct kg_buf line = {0};
    if (argc != 2 || kg_read_file(argv[1], 1 << 20, &line, NULL) < 0)
        contender_die("usage", "scan-bench FILE");
    for (int i = 0; i < LINES; i++)
        kg_buf_str(&scan.lines, kg_buf_view(&line));
    struct rpc_message message;
    rpc_parse((struct kg_str){line.data, line.length - 1}, &message);
    scan.result = message.result;
    contender_serve(commands, NULL, &scan);
    kg_buf_free(&line);
    kg_buf_free(&scan.lines);
    frame_free(&scan.frame);
    return 0;
}
