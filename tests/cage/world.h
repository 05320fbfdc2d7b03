/* A spawner, a loop and a plugin's folder for the tests, and runs of commands in cages. */
#ifndef KAGED_TEST_CAGE_WORLD_H
#define KAGED_TEST_CAGE_WORLD_H

#include "cage/cage.h"

#define WORLD_WAIT_MS   60000
#define WORLD_PROCESSES 24
#define WORLD_TMP_BYTES ((size_t)4 * 1024 * 1024)
#define ORDINARY_UID    1234

struct world {
    struct loop *loop;
    struct cage_facts *facts;
    struct cage_spawner *spawner; /* NULL once a test has freed it */
    bool lost;                    /* the spawner is gone */
    char folder[64];              /* the plugin's: 0700, with the probes in it */
    /* Takes the sockets of a network; NULL: they are closed. */
    void (*on_socket)(struct world *world, uint32_t index, int fd);
};

/* Fails the test if it cannot be made. */
struct world *world_new(void);
void world_free(struct world *world);
/* Puts a file into the plugin's folder. */
void world_write(struct world *world, const char *name, const char *text, mode_t mode);
/* Puts a program into it that was built beside this test. */
void world_copy(struct world *world, const char *name);

/* A fork that goes with its parent, and in which an assertion that fails ends it: it would go on
 * with the next test, beside its parent. */
pid_t world_fork(void);
/* What such a child tells; fails the test if it is not all there in time. */
void world_read(int fd, void *bytes, size_t size);

/* Says so, and counts it; on a CI machine, which has to have everything, it fails the test. */
void world_skip(const char *test, const char *reason);
/*
 * Started by root: runs this whole program a second time as an ordinary user, and fails the test
 * if that fails. Started by anybody else it does nothing.
 */
void world_again_as_ordinary_user(void);
/*
 * Runs this whole program a second time with cages that are watched, which by the test before it is
 * once more as an ordinary user.
 */
void world_again_watched(void);
#define WORLD_WATCHED "KAGED_TEST_WATCHED" /* in the environment of that run */

/* One command in a cage, from the request to its end. */
struct run {
    struct world *world;
    struct cage_child *child; /* NULL after its end */
    bool spawned, exited;
    struct cage_exit how;
    uint32_t limits[2]; /* by enum cage_limit: how often it was told to be hit */
    char *error;        /* owned, or NULL */
    struct kg_buf out, err;
    bool out_ended, err_ended; /* end of file: nobody holds the other end */
    int in_fd;
    pid_t bwrap;
    uv_poll_t *out_poll, *err_poll;
    struct cage_attempts *attempts; /* owned; NULL unless it is watched */
};

/* A policy for the plugin's folder; command ends in NULL, and must live as long. */
struct cage_policy world_policy(struct world *world, const char *const *command);
/* Each fails the test if the plan cannot be made. */
struct run *run_policy(struct world *world, const struct cage_policy *policy);
struct run *run_start(struct world *world, const char *const *command);
struct run *run_plan(struct world *world, const struct cage_plan *plan);
struct cage_plan *world_plan(struct world *world, const char *const *command);
/* Each fails the test if it does not happen in time. */
void run_wait_exit(struct run *run); /* and the ends of both outputs */
void run_wait_line(struct run *run);
void run_free(struct run **run); /* for kg_auto */
/* Runs to the end; what it printed must be one line, which is returned without its end. */
const char *run_line(struct run *run);

#define COMMAND(...)                                                                               \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

#endif
