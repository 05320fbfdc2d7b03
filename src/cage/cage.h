/*
 * The cage. A policy says what a child may see; a plan, made from it by a pure function, is the
 * list of steps; the spawner, a process of its own, carries the plan out and reports the child's
 * life.
 *
 *   daemon: policy -> cage_plan -> encoded -> | socketpair | -> spawner: open, stage, clone, exec
 *   daemon: on_spawned(pid, pipes), on_exited(how)  <- | socketpair | <-
 */
#ifndef KAGED_CAGE_H
#define KAGED_CAGE_H

#include "base/base.h"
#include "loop/loop.h"

/* -- policy: what a child may have; every text is borrowed ------------------------------------- */

struct cage_policy {
    const char *name;           /* for messages */
    const char *install_dir;    /* absolute, no symlink in it; read-only in the cage, same path */
    const char *const *command; /* argv; a relative command[0] is below install_dir; NULL-ended */
    const char *const *env;     /* "NAME=value", the child's whole environment; NULL-ended */
    unsigned processes_max;     /* processes and threads in the cage */
    size_t tmp_bytes;           /* size of /tmp, and of /dev/shm */
};

/* -- host facts: what this machine offers; probed once, given to the pure planner -------------- */

struct cage_facts;
struct cage_facts *cage_facts_probe(struct kg_err *err); /* NULL: no cage can be built; says why */
void cage_facts_free(struct cage_facts *facts);

/* -- plan -------------------------------------------------------------------------------------- */

struct cage_plan;
struct cage_plan *cage_plan_new(const struct cage_policy *policy, const struct cage_facts *facts,
                                struct kg_err *err);
void cage_plan_free(struct cage_plan *plan);
/* The plan as text, one step a line, for golden files and for people. */
void cage_plan_print(const struct cage_plan *plan, struct kg_buf *out);

/* -- the spawner, seen from the daemon --------------------------------------------------------- */

struct cage_spawner;
struct cage_child;

/* How a child ended. */
struct cage_exit {
    bool built;    /* false: the cage could not be set up or the command not run; stderr says why */
    int exit_code; /* -1 if a signal ended it */
    int signal;    /* 0 if it exited */
};

struct cage_child_ops {
    /*
     * The pipe ends are the receiver's from now on: it reads out and err, writes in. Non-blocking.
     */
    void (*on_spawned)(void *data, pid_t pid, int in_fd, int out_fd, int err_fd);
    /*
     * The child's whole tree is gone. Called once, after on_spawned or instead of it; frees child.
     */
    void (*on_exited)(void *data, const struct cage_exit *how, const char *error_or_null);
};

/*
 * Starts kaged-spawner from the folder of the running program, or from the libexec folder. Must be
 * called before the process has a second thread. The fd is attached to a loop later.
 */
struct cage_spawner *cage_spawner_start(struct kg_err *err);
/* on_lost: the spawner is gone, and with it every child. */
int cage_spawner_attach(struct cage_spawner *spawner, struct loop *loop,
                        void (*on_lost)(void *data), void *data, struct kg_err *err);
/* Ends the spawner and every child of it; closes the handles. */
void cage_spawner_free(struct cage_spawner *spawner);

/* Asks for a child. The answer comes by ops. NULL with err if it cannot even be asked. */
struct cage_child *cage_spawn(struct cage_spawner *spawner, const struct cage_plan *plan,
                              const struct cage_child_ops *ops, void *data, struct kg_err *err);
/* SIGTERM goes to the plugin's own process in the cage; SIGKILL ends the whole cage. */
void cage_signal(struct cage_child *child, int signal);
/* The plugin's own process, as the host sees it, or 0 while unknown. Reads /proc. */
pid_t cage_child_pid(const struct cage_child *child);

#endif
