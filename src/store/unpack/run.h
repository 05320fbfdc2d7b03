/* Programs of the machine as child processes of kaged-unpack. */
#ifndef KAGED_STORE_UNPACK_RUN_H
#define KAGED_STORE_UNPACK_RUN_H

#include "store/unpack/internal.h"

#include <sys/types.h>

/* What one is started with; all borrowed. */
struct run_program {
    const char *const *words; /* NULL-ended; the first is looked for in PATH */
    char *const *environment; /* all that it sees of one */
    const char *folder;       /* it begins in; NULL: where we are */
};

/* Our ends of a child's stdio, and its own; -1 where it keeps ours. */
struct run_pipes {
    int ours[3], its[3];
};
extern const struct run_pipes run_pipes_none;
void run_pipes_free(struct run_pipes *pipes); /* for kg_auto */
int run_pipe(struct run_pipes *pipes, int number, struct kg_err *err);
int run_start(const struct run_program *program, const struct run_pipes *pipes, pid_t *ret_pid,
              struct kg_err *err);
/* Waits for its end. True: it left with code 0. Else the signal that ended it, or 0. */
bool run_left_well(pid_t pid, int *ret_signal_or_null);

/* Where a command's stdout goes; more than max fails. */
struct run_output {
    struct kg_buf *text;
    size_t max;
};
/* Called again and again while a command runs; false ends it: there is too much. */
struct run_watch {
    bool (*on_pause)(void *data);
    void *data;
};
/* How one command ended. */
struct run_end {
    bool well;          /* it left with code 0, and nothing was too much */
    bool too_much;      /* of its output, or by its watch */
    int signal;         /* that ended it; 0: none */
    struct kg_buf said; /* the last of its stderr; owned */
};
/* Runs it to its end; output and watch may be NULL. Fails only if it could not be started. */
int run_to_end(const struct run_program *program, const struct run_output *output,
               const struct run_watch *watch, struct run_end *ret_end, struct kg_err *err);
void run_end_free(struct run_end *end); /* for kg_auto */

#endif
