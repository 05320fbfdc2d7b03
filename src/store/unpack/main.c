/*
 * kaged-unpack, the process in the cage: it turns one source, which may be hostile in every byte,
 * into a plain tree of files. It sees the source, read-only, and one folder of its own; nobody
 * believes what it says, and the tree is checked again by whoever started it.
 *
 * usage: kaged-unpack zip|tar|folder|git|npm SOURCE FOLDER NAME=VALUE...
 */
#include "store/unpack/internal.h"

#include "base/confine.h"

#include <locale.h>
#include <stdio.h>
#include <unistd.h>

#define OPEN_FILES 1024

/* Modes are as they are given. */
static void confine(const struct options *options)
{
    int64_t largest = options->source_bytes > options->file_bytes_max ? options->source_bytes
                                                                      : options->file_bytes_max;
    kg_confine(022, largest, OPEN_FILES);
}

int main(int count, char **words)
{
    struct options options;
    struct report report = {.fd = STDOUT_FILENO};
    struct kg_err err = {0};
    if (options_parse(count, words, &options, &err) < 0) {
        fprintf(stderr, "kaged-unpack: %s\n", err.message);
        return UNPACK_USAGE;
    }
    confine(&options);
    setlocale(LC_CTYPE, "C.UTF-8"); /* libarchive reads names by it */
    if (unpack(&options, &report, &err) < 0) {
        report_failure(&report, &err);
        return UNPACK_FAILED;
    }
    report_done(&report);
    return UNPACK_DONE;
}
