/* Cuts a buffer of lines at their newlines and has each parsed; see scan.h. */
#include "scan.h"

#include "../contender.h"

#include <stdio.h>
#include <string.h>

#define LINES   64
#define LINE    4096
#define ID      123456789 /* of the line in bench/data */
#define PADDING 64

struct scan {
    long (*parse)(const char *line, unsigned long length);
    char lines[LINES * LINE + PADDING];
    size_t length;
};

static void scan_once(struct scan *scan)
{
    const char *line = scan->lines, *end = scan->lines + scan->length, *newline;
    size_t seen = 0;
    for (; (newline = memchr(line, '\n', (size_t)(end - line))) != NULL; line = newline + 1) {
        if (scan->parse(line, (unsigned long)(newline - line)) != ID)
            contender_die("scan", "a wrong envelope");
        seen++;
    }
    if (seen != LINES)
        contender_die("scan", "not every line was seen");
}

static void run_scan(void *data, const long numbers[])
{
    struct scan *scan = data;
    uint64_t bytes = 0, start_ns = contender_now_ns(), elapsed_ns;
    do {
        scan_once(scan);
        bytes += scan->length;
        elapsed_ns = contender_now_ns() - start_ns;
    } while (elapsed_ns < (uint64_t)numbers[0] * 1000000);
    contender_figure("rate", (double)bytes * 1e3 / (double)elapsed_ns);
}

int scan_serve(const char *path, long (*parse)(const char *line, unsigned long length))
{
    static const struct contender_command commands[] = {{"scan", run_scan}, {NULL, NULL}};
    static struct scan scan;
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[LINE];
    if (file == NULL || fgets(line, sizeof(line), file) == NULL)
        contender_die("scan", "cannot read the line");
    fclose(file);
    for (int i = 0; i < LINES; i++) {
        memcpy(scan.lines + scan.length, line, strlen(line));
        scan.length += strlen(line);
    }
    scan.parse = parse;
    contender_serve(commands, NULL, &scan);
    return 0;
}
