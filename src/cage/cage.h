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

/* A file or folder of the host, at the same path in the cage. */
struct cage_path {
    const char *path; /* absolute */
    bool write;
    bool own; /* below a folder that kaged itself keeps for this child: exempt from `kept` */
    const char *note; /* why it is granted, for words; may be NULL */
};

/*
 * A path that nobody in the cage may move or replace, wherever the paths let what is above it be
 * written. Where they do not, or where it is not there, it does not count; a cage_path of the same
 * name, or below it, says more and wins.
 */
struct cage_cover {
    const char *path; /* absolute */
    bool write;       /* what is in it may still be written */
    bool empty;       /* nothing that is in it is seen, also where it could only be read */
    const char *note; /* why it is covered, for words; may be NULL */
};

/* A program that the child may run besides its own command, and the folder it works in. */
struct cage_program {
    const char *program; /* a bare name, or an absolute path */
    const char *folder;  /* absolute; read-only unless a cage_path says more */
};

/* A host and a port that the child may connect to by TCP. */
struct cage_reach {
    const char *host; /* a name, "localhost", a literal address; "*" is every host */
    uint16_t port;    /* 0 is every port */
};

/* Folders that a program of this name reads, or runs programs of, besides those we know of. */
struct cage_support {
    const char *program;
    const char *const *folders; /* NULL-ended */
};

/*
 * A folder of the host that kaged itself shows at another place of the cage, read-only, no link in
 * either path. One at /usr is the cage's system in place of the host's, and its command a program
 * of that.
 */
struct cage_tree {
    const char *path;   /* in the cage */
    const char *source; /* on the host */
};

struct cage_policy {
    const char *name;           /* for messages */
    const char *install_dir;    /* absolute; read-only in the cage */
    const char *install_source; /* whose files those are, no symlink in it; NULL: install_dir */
    const char *const *command; /* argv; a relative command[0] is below install_dir; NULL-ended */
    const char *const *env;     /* "NAME=value", the child's whole environment; NULL-ended */
    const struct cage_path *paths;
    size_t path_count;
    const struct cage_cover *covers;
    size_t cover_count;
    const struct cage_tree *trees;
    size_t tree_count;
    const struct cage_program *programs;
    size_t program_count;
    const struct cage_reach *reaches;
    size_t reach_count;
    const struct cage_reach *closed; /* refused, though a reach lies above: net:*, every port */
    size_t closed_count;
    const struct cage_support *supports;
    size_t support_count;
    const char *const *kept;          /* kaged's own folders, refused as paths; NULL-ended */
    const char *const *root_writable; /* folders of root that a root daemon may let be written */
    unsigned processes_max;           /* processes and threads in the cage */
    size_t tmp_bytes;                 /* size of /tmp, and of /dev/shm */
    uint64_t memory_bytes;            /* of the whole cage; 0: no limit */
    unsigned cpu_shares;              /* relative to other cages, 1024 is usual; 0: no say */
    bool watched;                     /* what is tried in it is told, see cage_attempts_new */
    /* A name that is not declared has an address, where nobody listens: so it is known by the gate
       which port is wanted. */
    bool answers_names;
    /* The same, and a connection there waits until gate_cage_decide; not where there is no nft. */
    bool asks_hosts;
};

/* What realpath says, but sooner where there is no link in the path. Owned, or NULL. */
char *cage_real_path(const char *path);
/* base and relative joined, "." and ".." taken out by the text alone. Owned. */
char *cage_path_join(const char *base, const char *relative);

/* -- places of the system, as places.def has them ---------------------------------------------- */

bool cage_place_may_be_given(const char *path);     /* by a capability */
bool cage_place_may_be_installed(const char *path); /* as a plugin's own folder */
/* Says why it may not be given, as an error with that code. */
int cage_place_check(const char *path, enum kg_code code, struct kg_err *err);

/* -- what is run or believed outside of cages, as guards.def has it ---------------------------- */

struct cage_guard {
    const char *path; /* below a folder that people work in */
    const char *why;
    bool ahead; /* a missing one is made */
    bool never; /* no capability gives it */
};
extern const struct cage_guard cage_guards[];
extern const size_t cage_guard_count;
/* What is behind .git/ in its path; NULL: it does not lie in a repository. */
const char *cage_guard_in_git(const struct cage_guard *guard);
/* The one that a path, of the host or of a project, names or lies in; NULL: none. */
const struct cage_guard *cage_guard_of(const char *path);

/* -- host facts: what this machine offers; probed once, given to the pure planner -------------- */

struct cage_facts;
struct cage_facts *cage_facts_probe(struct kg_err *err); /* NULL: no cage can be built; says why */
void cage_facts_free(struct cage_facts *facts);
/* A program of ours, beside the running one or in the libexec folder. Owned; NULL if in neither. */
char *cage_helper_path(const char *name);

/* The uids that root's cages have, one each; a count of 0: all have the same. */
struct cage_uids {
    uid_t base;
    uint32_t count;
    const char *file; /* where it is written down who has one for good; borrowed; NULL: nowhere */
};

/* Whose files cages may see: the daemon's user. A root spawner may serve another than root. */
#define CAGE_GROUPS_MAX 64
struct cage_owner {
    uid_t uid;
    gid_t gid;
    gid_t groups[CAGE_GROUPS_MAX]; /* the others that he is in */
    size_t group_count;
    struct cage_uids uids; /* for whoever starts his cages as root */
};
struct cage_owner cage_owner_self(void);
/* From base on, if that is not 0, or as /etc/subuid has them for root or the owner. */
struct cage_uids cage_uids_find(int64_t base, const struct cage_owner *owner);
int cage_owner_find(const char *user, struct cage_owner *ret_owner, struct kg_err *err);
/* For root with one thread: gives its rights over files up for the owner's, for a moment. */
int cage_owner_enter(const struct cage_owner *owner, struct kg_err *err);
void cage_owner_leave(void);

/* -- checks: each layer of the cage, one row; what the daemon counts on and the doctor shows --- */

enum cage_status {
    CAGE_STATUS_OK,
    CAGE_STATUS_DEGRADED, /* plugins run, some layers are missing */
    CAGE_STATUS_MISSING,  /* plugins refuse to start */
};
extern const char *const cage_status_names[];

struct cage_check {
    const char *name;
    enum cage_status status;
    char *detail; /* what is there; owned, as the next two */
    char *means;  /* what that means; "" if all is well */
    char *remedy; /* how to fix it, or advice; "" if there is nothing to do */
};

struct kg_json_writer;

struct cage_checks {
    struct cage_check *items; /* owned */
    size_t count;
};
/* Copies the texts. */
void cage_checks_add(struct cage_checks *checks, const char *name, enum cage_status status,
                     const char *detail, const char *means, const char *remedy);
void cage_checks_free(struct cage_checks *checks); /* also for kg_auto */
enum cage_status cage_checks_worst(const struct cage_checks *checks);
/* "full", "degraded: landlock, nft" or "none: bwrap is not on this machine". Owned. */
char *cage_checks_words(const struct cage_checks *checks);
/* {"checks":[{"name","status","detail","means","remedy"}],"verdict"} */
void cage_checks_json(const struct cage_checks *checks, enum cage_status worst,
                      struct kg_json_writer *json);

/* Where to look; what is NULL is not looked at. */
struct cage_site {
    const struct cage_owner *owner; /* NULL: whoever runs this */
    const char *const *folders;     /* where the daemon writes; NULL-ended */
    const char *plugins_dir;        /* whose filesystem a root spawner maps */
};
/*
 * Every row, also after one that is missing; that one is the error. Forks, so it must be called
 * before the process has a second thread.
 */
struct cage_facts *cage_facts_check(const struct cage_site *site, struct cage_checks *ret_checks,
                                    struct kg_err *err);

/* -- limits: who holds down a cage's memory, processes and processor time ---------------------- */

enum cage_limits_mode {
    CAGE_LIMITS_NONE, /* no groups of the kernel: a limit for each process, and a watchdog */
    CAGE_LIMITS_V1,
    CAGE_LIMITS_V2,
    CAGE_LIMITS_MODES
};
extern const char *const cage_limits_names[CAGE_LIMITS_MODES];

struct cage_limits {
    enum cage_limits_mode mode;
    char words[KG_ERR_MESSAGE_MAX]; /* how, and why not better */
};

/* -- plan -------------------------------------------------------------------------------------- */

struct cage_plan;
struct cage_plan *cage_plan_new(const struct cage_policy *policy, const struct cage_facts *facts,
                                struct kg_err *err);
void cage_plan_free(struct cage_plan *plan);
/*
 * True if the child has a network, which needs a gate: see gate.h. One that is watched always has,
 * so that it is known which names it asks for.
 */
bool cage_plan_has_network(const struct cage_plan *plan);
/*
 * The declared paths of the plan, for the two questions below, which may be asked when the plan is
 * gone. A list that is the caller's; NULL: there are none.
 */
char **cage_plan_sees(const struct cage_plan *plan);
bool cage_sees(char *const *sees, const char *path); /* it, or a part of it */
/* Whether it, or a part of it, may be written by a child with that plan. */
bool cage_could_write(char *const *sees, const char *path);
/* The plan as text, one step a line, for golden files and for people. */
void cage_plan_print(const struct cage_plan *plan, struct kg_buf *out);
/* What the plan lets a child do, in words for the operator, one statement a line. */
void cage_plan_words(const struct cage_plan *plan, struct kg_buf *out);

/* -- what a child tries, if its plan is watched ------------------------------------------------ */

/*
 * kaged-watch sees these, and lets each go on: the cage decides what comes of it. LOOK asks whether
 * something is there, and what it is.
 */
enum cage_act {
    CAGE_ACT_LOOK,
    CAGE_ACT_READ,
    CAGE_ACT_LIST,
    CAGE_ACT_WRITE,
    CAGE_ACT_RUN,
    CAGE_ACT_CONNECT,
    CAGE_ACT_OTHERS, /* of all kinds: more than are told apart */
    CAGE_ACTS
};
extern const char *const cage_act_names[CAGE_ACTS];

/* What was in the cage at that path when it was first tried. */
enum cage_there { CAGE_THERE_NOTHING, CAGE_THERE_TO_READ, CAGE_THERE_TO_WRITE, CAGE_THERES };

struct cage_attempt {
    enum cage_act act;
    enum cage_there there;
    char *what; /* owned; an absolute path, of any bytes, or a numeric address; "" of OTHERS */
    char *call; /* owned; the first that tried it */
    uint16_t port;
    uint32_t count;
};

/* What is told of one child. Bounded, whatever it does. */
struct cage_attempts;
/* Takes the socket. on_new, which may be NULL, hears of each when it is first tried. */
struct cage_attempts *
cage_attempts_new(struct loop *loop, int fd,
                  void (*on_new)(void *data, const struct cage_attempt *attempt), void *data);
/* Reads what is left; for when the child is gone. */
void cage_attempts_finish(struct cage_attempts *attempts);
size_t cage_attempts_count(const struct cage_attempts *attempts);
const struct cage_attempt *cage_attempts_at(const struct cage_attempts *attempts, size_t index);
void cage_attempts_free(struct cage_attempts *attempts); /* takes NULL */

/* What of the host was wanted and not had. */
struct cage_need {
    enum cage_act act;    /* READ, WRITE or RUN */
    char *path;           /* owned; as it is on the host, without a link in it */
    bool is_folder;       /* also of something that is not there, and would be made in it */
    const char *left_out; /* why nobody need be asked for it; NULL: it is a need */
};
/* False: the cage had it, or it is nowhere. Looks at the host's files, so it may take its time. */
bool cage_need_of(const struct cage_attempt *attempt, struct cage_need *ret_need);
void cage_need_free(struct cage_need *need); /* also for kg_auto */
extern const char
    cage_on_the_way[]; /* why a folder is left out in which something else was tried */
/* Why a path of the system is tried by all and needed by none; NULL: it is not. */
const char *cage_noise_of(const char *path);

/* -- the spawner, seen from the daemon --------------------------------------------------------- */

struct cage_spawner;
struct cage_child;

/* How a child ended. */
struct cage_exit {
    bool built;    /* false: the cage could not be set up or the command not run; stderr says why */
    int exit_code; /* -1 if a signal ended it */
    int signal;    /* 0 if it exited */
    uint32_t memory_kills;  /* processes of the cage that the kernel killed at its memory limit */
    uint32_t fork_refusals; /* how often the limit of processes refused a new one */
};

/* Sockets of a child's network that are not listeners of its plan. */
enum cage_socket {
    CAGE_SOCKET_NAMES = 1 << 16, /* UDP port 53: answers who is where */
    CAGE_SOCKET_ALL,             /* what was redirected arrives here; the kernel knows its target */
    CAGE_SOCKET_ALL_6,           /* the same for IPv6 */
    CAGE_SOCKET_REFUSED,         /* a packet socket that sees each attempt to connect */
    CAGE_SOCKET_TRIED,           /* of a plan that is watched: for cage_attempts_new */
};

/* A limit of the cage that was hit while the child goes on. */
enum cage_limit { CAGE_LIMIT_MEMORY, CAGE_LIMIT_PROCESSES };

/* What the kernel refused to a child, where it tells. */
enum cage_access { CAGE_ACCESS_EXECUTE, CAGE_ACCESS_WRITE, CAGE_ACCESS_PROCESS };

struct cage_child_ops {
    /*
     * The pipe ends are the receiver's from now on: it reads out and err, writes in. Non-blocking.
     */
    void (*on_spawned)(void *data, pid_t pid, int in_fd, int out_fd, int err_fd);
    /*
     * The child's whole tree is gone. Called once, after on_spawned or instead of it; frees child.
     */
    void (*on_exited)(void *data, const struct cage_exit *how, const char *error_or_null);
    /*
     * A socket in the child's network, the receiver's from now on: `index` is that of a listener of
     * the plan's network, or one of enum cage_socket. May be NULL where the plan has no network.
     */
    void (*on_socket)(void *data, uint32_t index, int fd);
    /* A limit was hit, `count` times in all. May be NULL. */
    void (*on_limit)(void *data, enum cage_limit limit, uint32_t count);
    /* The kernel refused something, and said so. May be NULL. */
    void (*on_denied)(void *data, enum cage_access access, const char *path);
};

/*
 * Starts kaged-spawner from the folder of the running program, or from the libexec folder. Must be
 * called before the process has a second thread. The fd is attached to a loop later.
 */
struct cage_spawner *cage_spawner_start(struct kg_err *err);
/* The same for a daemon that is about to become that user, while the spawner stays root. */
struct cage_spawner *cage_spawner_start_for(const struct cage_owner *owner, struct kg_err *err);
/* on_lost: the spawner is gone, and with it every child. */
int cage_spawner_attach(struct cage_spawner *spawner, struct loop *loop,
                        void (*on_lost)(void *data), void *data, struct kg_err *err);
/* How much of what is refused in cages can be known here, in words. */
const char *cage_spawner_knowledge(const struct cage_spawner *spawner);
/* How the spawner limits its cages. */
const struct cage_limits *cage_spawner_limits(const struct cage_spawner *spawner);
/* Whether no child of it is left whose end was not told. */
bool cage_spawner_is_idle(const struct cage_spawner *spawner);
/* Ends the spawner and every child of it; closes the handles. */
void cage_spawner_free(struct cage_spawner *spawner);

/* Asks for a child. The answer comes by ops. NULL with err if it cannot even be asked. */
struct cage_child *cage_spawn(struct cage_spawner *spawner, const struct cage_plan *plan,
                              const struct cage_child_ops *ops, void *data, struct kg_err *err);
/* SIGTERM goes to the plugin's own process in the cage; SIGKILL ends the whole cage. */
void cage_signal(struct cage_child *child, int signal);
/* The plugin's own process, as the host sees it, or 0 while unknown. Reads /proc. */
pid_t cage_child_pid(const struct cage_child *child);
/*
 * The resident memory of every process of the cage, and what the files of its /tmp and /dev/shm
 * take, however empty, but for what is in them, which has a limit of its own. Reads /proc.
 */
uint64_t cage_child_memory(const struct cage_child *child);
/* The first process of the cage, which all others descend from, or 0 while unknown. */
pid_t cage_child_root(const struct cage_child *child);
/* The resident memory of a process with all its descendants, and of one alone; any thread. */
uint64_t cage_memory_of(pid_t root);
uint64_t cage_process_memory(pid_t pid);

#endif
