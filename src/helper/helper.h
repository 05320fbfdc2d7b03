/*
 * Programs that work for us in cages.
 *   child   one process: its cage, its network, what it says on stderr, its end
 *   run     one command, from its input to its end, with what it wrote
 *   helper  a program of ours that is asked things: started on first use, spoken to in lines of
 *           JSON-RPC, ended when idle, killed when late or when it says what it should not
 *   pool    such programs that ask the world, one process for each user and address
 */
#ifndef KAGED_HELPER_H
#define KAGED_HELPER_H

#include "cage/gate.h"
#include "wire/wire.h"

/* Where they run. Each part is borrowed and outlives them. */
struct helper_place {
    struct loop *loop;
    struct cage_spawner *spawner;
    struct gate *gate; /* NULL: nothing can be reached from here */
    bool tells_later;  /* connections are made also while they cannot be told */
};

/* Where a program of ours is; owned. NULL: it is not installed, and err says so. */
char *helper_program(const char *name, struct kg_err *err);
/* The environment that programs of ours have in a cage, at the least; NULL-ended. */
extern const char *const helper_environment[];
/*
 * The limit of memory that it has where others have so much: a build with sanitizers has none,
 * since where there are no cgroups it counts addresses, of which a sanitizer takes terabytes.
 */
uint64_t helper_memory(uint64_t bytes);
/* The plan of its cage, of a policy that says what is special about it: its folder, its environment
 * and its limit of memory are added. */
struct cage_plan *helper_plan(const char *program, struct cage_policy policy,
                              const struct cage_facts *facts, struct kg_err *err);

/* -- child ------------------------------------------------------------------------------------- */

struct helper_child;

struct helper_child_ops {
    /* Its stdin and stdout are the receiver's from now on. Non-blocking. */
    void (*on_spawned)(void *data, int in_fd, int out_fd);
    /* Its whole tree is gone, and its stderr read. Once, after on_spawned or instead of it. */
    void (*on_exited)(void *data, const struct cage_exit *how, const char *error_or_null);
    void (*on_network)(void *data, const struct gate_event *event); /* or NULL */
    /* It tried something for the first time, and its plan is watched. Or NULL. */
    void (*on_tried)(void *data, const struct cage_attempt *attempt);
};

/* How much of its stderr is kept, and whether that is the end of it or the beginning. */
struct helper_errors {
    size_t max_bytes;
    bool last;
};
struct helper_child *helper_child_new(const struct helper_place *place,
                                      const struct cage_plan *plan, struct helper_errors errors,
                                      const struct helper_child_ops *ops, void *data,
                                      struct kg_err *err);
/* Kills what lives; nothing more is told. Takes NULL. The loop has to turn until it is gone. */
void helper_child_free(struct helper_child *child);
void helper_child_signal(struct helper_child *child, int signal);
/* How it ended; NULL while it lives. */
const struct cage_exit *helper_child_exit(const struct helper_child *child);
struct kg_str helper_child_errors(const struct helper_child *child);

/* -- run --------------------------------------------------------------------------------------- */

struct helper_run_options {
    struct kg_str input; /* its stdin; copied */
    size_t output_max;   /* bytes kept of stdout, and of stderr; the rest is thrown away */
    uint64_t timeout_ms; /* then the whole cage is killed */
    /* Gets stdout as it comes, and nothing of it is kept. May be NULL, and may kill the run. */
    void (*on_output)(void *data, struct kg_str bytes);
    void (*on_network)(void *data, const struct gate_event *event); /* or NULL */
};

struct helper_run_result {
    struct kg_buf out, err; /* owned */
    struct cage_exit how;
    bool timed_out; /* the deadline killed it */
    bool truncated; /* there was more output than is kept */
};
void helper_run_result_free(struct helper_run_result *result); /* also for kg_auto */

/* Called once, never before helper_run_start returns. Who wants to keep a text takes it out. */
typedef void helper_run_done_fn(void *data, struct helper_run_result *result,
                                const struct kg_err *err_or_null);

struct helper_run;
/* SIGPIPE must be ignored: a command may close its stdin at any time. */
struct helper_run *helper_run_start(const struct helper_place *place, const struct cage_plan *plan,
                                    const struct helper_run_options *options,
                                    helper_run_done_fn *on_done, void *data, struct kg_err *err);
/* Kills the cage; on_done comes as after any other end. */
void helper_run_kill(struct helper_run *run);
/* Kills the cage; on_done is not called. The loop still has to turn until it is gone. */
void helper_run_cancel(struct helper_run *run);
/* The same for programs whose loop does not run: returns when all is over. */
int helper_run(const struct helper_place *place, const struct cage_plan *plan,
               const struct helper_run_options *options, struct helper_run_result *ret_result,
               struct kg_err *err);

/* -- helper ------------------------------------------------------------------------------------ */

struct helper;
struct helper_call;

/* What one process is started with. */
struct helper_start {
    struct cage_plan *plan; /* the helper's from then on */
    struct peer_limits wire;
    uint64_t idle_ms; /* without a call: it ends */
    /*
     * Of one that works on its calls in turn: how long the oldest may take, once the others wait
     * for it alone, and how long the first of all. 0: each call brings its own time.
     */
    uint64_t turn_ms, first_turn_ms;
};

struct helper_ops {
    int (*prepare)(void *data, const char *program, struct helper_start *ret_start,
                   struct kg_err *err);
    void (*on_notification)(void *data, struct kg_str method, struct kg_str params); /* or NULL */
    void (*on_network)(void *data, const struct gate_event *event);                  /* or NULL */
    /* It said what it should not, and is killed for it; for the log. */
    void (*on_misfit)(void *data, const char *what);
    /* Before the calls that it had end; may refuse all. Or NULL. */
    void (*on_exited)(void *data, const struct cage_exit *how);
    /* There is no process, and nothing for one to do, or it is held. May free the helper. */
    void (*on_rest)(void *data);
};

/* The program's name ("kaged-storage") and ops are borrowed for as long as the helper is there. */
struct helper *helper_new(const struct helper_place *place, const char *program,
                          const struct helper_ops *ops, void *data);
/* Kills the process. Takes NULL. */
void helper_free(struct helper *helper);

enum helper_outcome {
    HELPER_RESULT,  /* payload: the result */
    HELPER_ERROR,   /* payload: the error object */
    HELPER_REFUSED, /* words: why it was not even asked */
    HELPER_UNBUILT, /* words: why there is no cage for it; the next would not fare better */
    HELPER_ENDED,   /* before it answered; words: what it said about that */
    HELPER_LATE,    /* and killed for it */
    HELPER_GONE,    /* helper_free was called; the caller only cleans up */
};

/* All of it dies with the callback. */
struct helper_answer {
    enum helper_outcome outcome;
    struct kg_str payload;
    enum kg_code code; /* when it was refused */
    const char *words; /* "" if there are none */
};

struct helper_request {
    const char *method;   /* outlives the call */
    struct kg_str params; /* a valid JSON object; copied */
    uint64_t timeout_ms;  /* from now on; 0: in turn */
    bool only_reads;      /* it is asked once more if its process ends before it answers */
    /* Once, never before helper_ask returns. The call is gone; the helper must stay. */
    void (*on_done)(void *data, const struct helper_answer *answer);
    void *data;
};
/* Fails like peer_call where the process is there already. */
int helper_ask(struct helper *helper, const struct helper_request *request,
               struct helper_call **ret_call_or_null, struct kg_err *err);
/* Every call ends as refused. */
void helper_refuse(struct helper *helper, const struct kg_err *err);
/*
 * Those of one caller do, by their data. If its process had one of them, it may finish what it has
 * within a short time; what is asked from now on waits for the next one.
 */
void helper_refuse_some(struct helper *helper,
                        bool (*is_meant)(const void *data, const void *whose), const void *whose,
                        const struct kg_err *err);
/* At once; calls that it had end with it. */
void helper_kill(struct helper *helper);

/* Whether the process ends as soon as nothing is asked, and not only when idle. */
void helper_retire(struct helper *helper, bool retired);
/* Held, it answers what was sent, then ends; calls wait until it is let go. */
void helper_hold(struct helper *helper, bool held);

uint32_t helper_calls(const struct helper *helper);
bool helper_runs(const struct helper *helper);      /* its process lives */
bool helper_is_closed(const struct helper *helper); /* there is none, and none is being started */

/* -- pool -------------------------------------------------------------------------------------- */

#define HELPER_START_MS 10000 /* for the cage of a process: added to the time of each call */

/* Where its processes run. Each part is borrowed and outlives the pool, like this itself. */
struct helper_pool_place {
    struct helper_place where;
    const struct cage_facts *facts; /* NULL: no cage can be built, so nobody can be asked */
    uint32_t calls_max;             /* of one user at the same time */
    uint64_t idle_ms;               /* without a call: a process ends */
    void (*on_network)(void *data, const char *whose, const struct gate_event *event); /* or NULL */
    void *data;
};

struct helper_user; /* of the pool, with the process that asks for it */

struct helper_pool_kind {
    const char *program; /* "kaged-fetch" */
    const char *label;   /* of cages, which are called "WHOSE (LABEL)" */
    uint64_t memory_bytes;
    size_t line_bytes;
    bool has_one_address; /* a user: a process for another one ends with its calls */
    /* Whether an error says that a connection was lost: the gatekeeper may know why. */
    bool (*is_lost)(struct kg_str error);
    /* NULL: it sends none. */
    void (*on_notification)(struct helper_user *user, struct kg_str method, struct kg_str params);
};

struct helper_pool *helper_pool_new(const struct helper_pool_place *place,
                                    const struct helper_pool_kind *kind);
/*
 * What is under way ends as refused, and nothing is taken any more; on_closed comes once no process
 * is left.
 */
void helper_pool_close(struct helper_pool *pool, void (*on_closed)(void *data), void *data);
/* Kills the processes; the loop still has to turn once. Takes NULL. */
void helper_pool_free(struct helper_pool *pool);
bool helper_pool_is_open(const struct helper_pool *pool); /* somebody can be asked */
uint32_t helper_pool_calls(const struct helper_pool *pool, struct kg_str whose);
bool helper_pool_is_full(const struct helper_pool *pool, struct kg_str whose);
void helper_pool_leave(struct helper_pool *pool, struct kg_str whose); /* its processes end soon */
uint32_t helper_pool_processes(const struct helper_pool *pool);        /* that live */

/* For whom, and the one address that is reached for it. */
struct helper_target {
    struct kg_str whose;
    const char *host; /* as in cage_reach; "": none at all */
    uint16_t port;
};
struct helper_pool_call;
/*
 * As helper_ask, of a pool that is open and not full for that user. The call is there until on_done
 * returns, which must not close or free the pool. The words of an error are why its connection was
 * lost, if that is known.
 */
int helper_pool_ask(struct helper_pool *pool, const struct helper_target *target,
                    const struct helper_request *request, struct helper_pool_call **ret_call,
                    struct kg_err *err);
void helper_pool_withdraw(struct helper_pool_call *call); /* on_done is not called */
struct helper_user *helper_pool_user(const struct helper_pool_call *call);
const char *helper_user_whose(const struct helper_user *user);
/* The data of its call that has this id on the wire, or NULL. */
void *helper_user_find(const struct helper_user *user, int64_t id);
void helper_user_give_up(struct helper_user *user, const char *what); /* see helper_give_up */

#endif
