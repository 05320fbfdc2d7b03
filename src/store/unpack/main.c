/*
 * kaged-unpack, the process in the cage: it turns one source, which may be hostile in every byte,
 * into a plain tree of files. It sees the source, read-only, and one folder of its own; nobody
 * believes what it says, and the tree is checked again by whoever started it.
 *
 * usage: kaged-unpack zip|tar|folder|git SOURCE FOLDER NAME=VALUE...
 */
#include "store/unpack/internal.h"

#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_FILES 1024

static void limit(int resource, int64_t value)
{
    struct rlimit both = {(rlim_t)value, (rlim_t)value};
    setrlimit(resource, &both);
}

/* No core, no file past its bound, modes as they are given. */
static void confine(const struct options *options)
{
    int64_t largest = options->source_bytes > options->file_bytes_max ? options->source_bytes
                                                                      : options->file_bytes_max;
    umask(022);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, largest);
    limit(RLIMIT_NOFILE, OPEN_FILES);
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
