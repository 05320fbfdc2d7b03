/*
 * Cages as the spawner builds them, but with defences taken away one by one: a test that sees an
 * attack succeed here, and fail in the real cage, has seen the defence work. For tests alone: the
 * programs of kaged cannot build such a cage.
 */
#ifndef KAGED_TEST_CAGE_WEAK_H
#define KAGED_TEST_CAGE_WEAK_H

#include "cage/internal.h"

#include <sys/types.h>

enum weak_without {
    /* of the launch */
    WITHOUT_DROP_ROOT = 1 << 0, /* bwrap runs as the host's root; --cap-drop stays */
    WITHOUT_EMPTY_ENVIRONMENT = 1 << 1,
    WITHOUT_ARGS_FD = 1 << 2,     /* the options are in bwrap's command line */
    WITHOUT_CLOSE_RANGE = 1 << 3, /* fds that the test left inheritable stay */
    WITHOUT_LIMITS = 1 << 4,      /* on core dumps and files */
    WITHOUT_PIPES = 1 << 5,       /* stderr is a file */
    WITHOUT_OPEN_SOURCE = 1 << 6, /* binds by their paths, links followed */
    WITHOUT_OWN_SESSION = 1 << 7, /* the spawner's setsid */
    /* of bwrap's options */
    WITHOUT_CALL_FILTER = 1 << 8,
    WITHOUT_ARGUMENT_FILTER = 1 << 9,
    WITHOUT_PID_NAMESPACE = 1 << 10,
    WITHOUT_NET_NAMESPACE = 1 << 11,
    WITHOUT_IPC_NAMESPACE = 1 << 12,
    WITHOUT_UTS_NAMESPACE = 1 << 13, /* and the name given there */
    WITHOUT_CGROUP_NAMESPACE = 1 << 14,
    WITHOUT_USERNS_DISABLED = 1 << 15,
    WITHOUT_NEW_SESSION = 1 << 16,
    WITHOUT_DIE_WITH_PARENT = 1 << 17,
    WITHOUT_CAP_DROP = 1 << 18,
    WITHOUT_SIZES = 1 << 19, /* of each tmpfs */
    /* of the plan */
    WITHOUT_FEW_DEVICES = 1 << 20, /* bwrap's own /dev, with terminals */
    WITHOUT_PROC_1_MASK = 1 << 21,
    WITHOUT_ROOT_READ_ONLY = 1 << 22,
    WITHOUT_READ_ONLY_BINDS = 1 << 23,
    WITHOUT_LANDLOCK = 1 << 24,
    WITHOUT_PROCESS_LIMIT = 1 << 25,
    WITHOUT_SHIM = 1 << 26, /* the command right away: no limits, no closing of fds, no Landlock */
    WITHOUT_PROC_MASKS = 1 << 27, /* of single files */
    WITHOUT_PROC_READ_ONLY = 1 << 28,
    WITHOUT_PARTS = 1 << 29, /* folders above something read-only are no mounts */
};

struct weak_cage {
    unsigned without;
    const char *shown;     /* a path of the host, bound read-only though nobody declared it */
    const char *log;       /* WITHOUT_PIPES: the file to append stderr to */
    const char *terminal;  /* WITHOUT_OWN_SESSION: the terminal that the daemon was started from */
    void (*between)(void); /* done after what is bound was opened, and before it is bound */
    void (*bound)(void);   /* done after that, and before the shim runs */
    const char *address;   /* WITHOUT_NET_NAMESPACE: the host's network is one that has this address
                              alone, with a listener on port 80, so that nobody else is asked */
};

struct weak_run {
    pid_t bwrap;
    int out_fd, err_fd;
    struct kg_buf out, err;
    int status; /* of bwrap, after weak_wait */
};

/* Each fails the test if it does not work, or does not end in time. */
struct weak_run *weak_start(const struct cage_plan *plan, const struct weak_cage *weak);
void weak_wait(struct weak_run *run);
/* Waits; what it printed must be one line, which is returned without its end. */
const char *weak_line(struct weak_run *run);
void weak_free(struct weak_run *run);

#endif
