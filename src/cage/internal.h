/*
 * Shared by the files of the cage: the host as the planner sees it, the plan's steps, the bwrap
 * arguments, and the messages between the daemon and kaged-spawner.
 */
#ifndef KAGED_CAGE_INTERNAL_H
#define KAGED_CAGE_INTERNAL_H

#include "cage/cage.h"
#include "cage/message.h"

/* Whom a root daemon's cages run as, but for the uids of uids.c: never the host's root. */
#define CAGE_UID 65534
#define CAGE_GID 65534

#define CAGE_PATH_MAX       4096
#define CAGE_PLAN_MAX_BYTES ((size_t)512 * 1024)
#define CAGE_STEPS_MAX      512
#define CAGE_FILES_MAX      6 /* that hold a text or a copy */
#define CAGE_LISTENERS_MAX  256
#define CAGE_WORDS_MAX      2048         /* of a command, and of an environment */
#define CAGE_NET_GATE       "198.18.0.1" /* names are asked for here; names themselves come after */
#define CAGE_NET_ALL_PORT   61198        /* outside of what the kernel gives to clients */

/* Owned texts, ended by NULL so that they serve as an argv. */
struct cage_words {
    char **items;
    size_t count;
};
void cage_words_add(struct cage_words *words, const char *text);
bool cage_words_have(const struct cage_words *words, const char *text);
void cage_words_free(struct cage_words *words);

/* -- the host's files: answered by the real host, or by a test's table ------------------------- */

enum cage_file {
    CAGE_FILE_NONE,
    CAGE_FILE_PLAIN,
    CAGE_FILE_PROGRAM,
    CAGE_FILE_FOLDER,
    CAGE_FILE_OTHER
};

struct cage_host {
    enum cage_file (*kind)(const char *path); /* links followed */
    char *(*link)(const char *path);          /* what a link says; NULL if it is none; owned */
    char *(*real)(const char *path);          /* links followed; NULL if it is not there; owned */
    size_t (*head)(const char *path, char *ret_text, size_t max); /* the first bytes of a file */
    bool (*is_roots)(const char *path);                           /* its owner is uid 0 */
    /* The names in a folder, sorted; false if it cannot be read or has more than max. */
    bool (*list)(const char *path, size_t max, struct cage_words *ret_names);
    /* See cage_mounted_read. Without this function paths have no other names. */
    struct cage_mounted *(*mounted)(void);
};
extern const struct cage_host cage_real_host;

struct cage_facts {
    char *bwrap;       /* owned */
    bool is_root;      /* the owner is root: the files that cages see are root's */
    unsigned landlock; /* the kernel's version of it; 0: none */
    char *nft;         /* owned; NULL: not on this machine, so no wildcards of the network */
    const struct cage_host *host;
};

/* What is mounted now; NULL: the kernel does not say. */
struct cage_mounted;
struct cage_mounted *cage_mounted_read(void);
void cage_mounted_free(struct cage_mounted *mounted);
/* True if one holds the other, also under another name, or in what is mounted below the path. */
bool cage_mounted_overlap(const struct cage_mounted *mounted, const char *path, const char *folder);

/* A program of the system that builds cages. Owned; NULL if it is not on this machine. */
char *cage_tool_path(const char *name);
bool cage_tool_is(const char *path, const char *name); /* path is where that program is */

/* The one word for a kaged-spawner that is to become a bwrap that tries namespaces, and no more. */
#define CAGE_SPAWNER_TRY "try"

/* What is known of a failed attempt to make user namespaces. A setting that is not there is -1. */
struct cage_userns {
    const char *said;           /* bwrap's first line */
    int unshare_errno;          /* of a plain attempt; 0: that worked */
    bool cannot_drop;           /* root could not become the user of the cages */
    int64_t max;                /* user.max_user_namespaces */
    int64_t unprivileged_clone; /* kernel.unprivileged_userns_clone */
    int64_t apparmor_restricts; /* kernel.apparmor_restrict_unprivileged_userns */
    bool proc_masked;           /* something is mounted over parts of /proc */
};
struct cage_userns_cause {
    const char *detail, *remedy;
};
struct cage_userns cage_userns_look(const char *said);
const struct cage_userns_cause *cage_userns_cause(const struct cage_userns *seen);
int64_t cage_read_number(const char *path); /* the one number in a file; -1: there is none */
/* In a child: gives up root for the user that a cage runs as. Others stay who they are. */
bool cage_become_user(uid_t uid);

/* -- whom the cages of root run as, see uids.c ------------------------------------------------- */

/* The range that a text as /etc/subuid has for a user; false: none that is enough. */
bool cage_uids_read(struct kg_str text, const char *name, uid_t uid, struct cage_uids *ret_uids);

/* Whether a text as /proc/PID/uid_map has all of them. */
bool cage_uids_are_mapped(struct kg_str map, const struct cage_uids *uids);

struct cage_uid_pool;
struct cage_uid_pool *cage_uid_pool_new(struct cage_uids range);
void cage_uid_pool_free(struct cage_uid_pool *pool);
/* One that nobody has until it is given back; without a range CAGE_UID, which all have. */
int cage_uid_take(struct cage_uid_pool *pool, uid_t *ret_uid, struct kg_err *err);
void cage_uid_give(struct cage_uid_pool *pool, uid_t uid); /* also for any other uid */

/* Those of a range that are given for good, and by whom they are had; see uids_fixed.c. */
struct cage_uids cage_uids_fixed(struct cage_uids range);
struct cage_uid_record;
struct cage_uid_record *cage_uid_record_new(struct cage_uids range, const char *file_or_null);
void cage_uid_record_free(struct cage_uid_record *record);
/* The one that a plugin has for good. The file is the owner's. */
int cage_uid_fixed(struct cage_uid_record *record, const struct cage_owner *owner, const char *name,
                   uid_t *ret_uid, struct kg_err *err);

/* The owner as words of kaged-spawner's command line; the text is owned. */
char *cage_owner_groups_text(const struct cage_owner *owner);
bool cage_owner_parse(const char *uid, const char *groups, struct cage_owner *ret_owner);

/* A map that shows the owner's files as those of a cage's user; its fd, or -1. */
int cage_idmap_new(uid_t uid, gid_t gid, uid_t cage_uid);
/* Whether the folder's filesystem takes the map: 0, or a negative errno. */
int cage_idmap_try(int map, const char *folder);

/* -- the plan ---------------------------------------------------------------------------------- */

enum cage_step_kind {
    CAGE_STEP_SYSTEM, /* a file or folder of the system, read-only, by its path */
    CAGE_STEP_BIND,   /* read-only; opened without following links, staged for the cage's user */
    CAGE_STEP_WRITE,  /* the same, to be read and written, not executed */
    CAGE_STEP_TEXT,   /* a file that holds source */
    CAGE_STEP_LINK,   /* a symlink; source is what it says */
    CAGE_STEP_TMPFS,  /* of a size */
    CAGE_STEP_PROC,
    CAGE_STEP_DEVICE,    /* of the host, by its path */
    CAGE_STEP_READ_ONLY, /* no more changes to what is mounted at path */
    CAGE_STEP_COPY,      /* a small file with what source holds when the cage starts */
    CAGE_STEP_KINDS
};
extern const char *const cage_step_names[CAGE_STEP_KINDS];

struct cage_step {
    enum cage_step_kind kind;
    char *path;   /* owned; in the cage */
    char *source; /* owned; on the host, or a link's target; "" where there is none */
    uint64_t bytes;
    bool roots; /* WRITE: it may be root's own */
    bool part;  /* BIND, WRITE: of the WRITE before it that it lies in, with the same rights */
};

struct cage_steps {
    struct cage_step *items; /* owned */
    size_t count;
};
#define CAGE_MASK_BYTES 4096 /* of a tmpfs that only covers something */
void cage_steps_add(struct cage_steps *steps, enum cage_step_kind kind, const char *path,
                    const char *source, uint64_t bytes);
/* True if the steps already make path reachable: a bind of it or above it, or a link above it. */
bool cage_steps_reach(const struct cage_steps *steps, const char *path);
void cage_steps_free(struct cage_steps *steps);
int cage_steps_too_many(const char *name, struct kg_err *err); /* the message */

/* What was granted of files and programs, for people to read. It stays with the planner. */
enum cage_grant_kind { CAGE_GRANT_READ, CAGE_GRANT_WRITE, CAGE_GRANT_NOTHING, CAGE_GRANT_RUN };

struct cage_grant {
    enum cage_grant_kind kind;
    char *path; /* owned */
    char *note; /* owned; where a program works, why a path is granted, or "" */
};

struct cage_grants {
    struct cage_grant *items; /* owned */
    size_t count;
};
void cage_grants_add(struct cage_grants *grants, enum cage_grant_kind kind, const char *path,
                     const char *note);
void cage_grants_free(struct cage_grants *grants);

/*
 * The network of a cage: listeners that stand for what is outside. The first address of a name is
 * 198.18.0.2, and counts up. `*` has no listener of its own: everything is redirected to one.
 */
struct cage_listener {
    char *host;    /* owned; a name, "localhost" or a literal address, as declared */
    char *address; /* owned; where it listens in the cage, numeric */
    uint16_t port; /* 0: every port of the address is redirected */
};

struct cage_network {
    struct cage_listener *items; /* owned */
    size_t count;
    bool any;           /* every host */
    bool answers_names; /* see cage_policy; not encoded */
    bool asks;          /* any, and somebody is asked of each; not encoded */
    char *nft;          /* owned; the program, where something is redirected, else "" */
    /* Hosts and ports that the gate refuses all the same; owned, and not encoded. */
    struct cage_listener *closed;
    size_t closed_count;
};
void cage_network_add(struct cage_network *network, const char *host, const char *address,
                      uint16_t port);
void cage_network_close(struct cage_network *network, const char *host, uint16_t port);
void cage_network_free(struct cage_network *network);
/* True if something arrives at CAGE_SOCKET_ALL. */
bool cage_network_redirects(const struct cage_network *network);
void cage_network_print(const struct cage_network *network, struct kg_buf *out);

struct cage_plan {
    char *name;                    /* for messages */
    char *bwrap;                   /* the program on the host */
    char *folder;                  /* where the command starts */
    bool landlock;                 /* the second layer, with the two lists below */
    bool watched;                  /* the shim has kaged-watch told of what is tried */
    struct cage_words executables; /* what may be run, or holds what may be */
    struct cage_words writables;   /* what may be changed, and all below */
    struct cage_grants grants;     /* not encoded: the spawner has no use for them */
    struct cage_network network;
    unsigned processes_max;
    unsigned cpu_shares;
    uint64_t memory_bytes;
    struct cage_steps steps;
    struct cage_words command; /* command[0] is a path in the cage */
    struct cage_words env;
};

/* True for an absolute path without "//", "." or ".." in it, and no "/" at its end. */
bool cage_path_plain(const char *path);
/* The folder of the host that the plugin's files are in. */
const char *cage_install_source(const struct cage_policy *policy);

/* The tree that is the cage's /usr; NULL: that of the host is. */
const struct cage_tree *cage_system_tree(const struct cage_policy *policy);

/*
 * Finds command[0] of the policy, the programs that it grants and every interpreter they need, and
 * adds to the plan the steps that bring them into the cage, and what may be executed. *ret_path,
 * owned, is what to execute first.
 */
int cage_program_add(const struct cage_policy *policy, const struct cage_facts *facts,
                     struct cage_plan *plan, char **ret_path, struct kg_err *err);
/*
 * Checks the paths of the policy, and the folders of its programs, and adds them, parents first.
 * After the programs, whose files may lie in them.
 */
int cage_files_add(const struct cage_policy *policy, const struct cage_facts *facts,
                   struct cage_plan *plan, struct kg_err *err);

/* The listeners for what the policy may reach, and the files that name them. Pure. */
int cage_network_plan(const struct cage_policy *policy, const struct cage_facts *facts,
                      struct cage_plan *plan, struct kg_err *err);

/* A plan as bytes, to travel to the spawner, and back. Hostile bytes are refused. */
void cage_plan_encode(const struct cage_plan *plan, struct kg_buf *out);
struct cage_plan *cage_plan_decode(struct kg_str bytes, struct kg_err *err);

/* -- bwrap's arguments ------------------------------------------------------------------------- */

/* The fds of bwrap have fixed numbers, so that its arguments depend on the plan alone. */
enum cage_fd {
    CAGE_FD_GATE = 3,  /* bwrap waits here for the end of file, which is all that comes */
    CAGE_FD_ARGS,      /* its options */
    CAGE_FD_STATUS,    /* json-status */
    CAGE_FD_CALLS,     /* the filter of system calls */
    CAGE_FD_ARGUMENTS, /* the filter of their arguments */
    CAGE_FD_RAN,       /* the shim says here that it ran, and whether the command did */
    CAGE_FD_IN,        /* the plugin's stdin and stdout. bwrap's own are /dev/null: its processes */
    CAGE_FD_OUT,       /* keep what they get, and a stream that the plugin closes must end */
    CAGE_FD_ORDERS,    /* for the shim; see cage_argv_orders */
    CAGE_FD_INIT,      /* the shim itself: it is in no folder of the cage */
    CAGE_FD_BLOCK,     /* with a network: bwrap waits here until its sockets are with the daemon */
    CAGE_FD_WATCH,     /* if it is watched, the shim sends kaged-watch here what to listen to */
    CAGE_FD_FILES,     /* what a CAGE_STEP_TEXT or CAGE_STEP_COPY holds, in the order of steps */
    CAGE_FDS = CAGE_FD_FILES + CAGE_FILES_MAX
};

/* What a CAGE_STEP_BIND or CAGE_STEP_WRITE is bound from. */
struct cage_source {
    char *staged;          /* owned; where only we can change it; NULL: the step's own source */
    unsigned major, minor; /* the device, */
    uint64_t inode;        /* and the file on it, that has to be mounted there */
    int fd;                /* open on that, so that no other file gets its number */
};

/*
 * What the shim writes on CAGE_FD_RAN: before it runs the command, and if that failed. Ahead of
 * bwrap: that it made the namespaces, or failed to.
 */
#define CAGE_RAN    'R'
#define CAGE_FAILED 'F'
#define CAGE_AHEAD  'A'

#define CAGE_HOSTNAME "kaged" /* in every cage */

/*
 * bwrap's options, each ended by NUL. sources has one entry a step. ahead: bwrap is started in
 * namespaces that were made for the cage, and makes only the others.
 */
void cage_argv_options(const struct cage_plan *plan, const struct cage_source *sources, bool ahead,
                       struct kg_buf *out);
/*
 * What the shim is to do, in words ended by NUL: the length of all that follows; the number of
 * processes and the bytes of data that it may have; the socket by which it is watched, or 0; a
 * letter and a path for each rule of Landlock;
 * an empty word; a letter and a path for each mount, with the numbers of the device (two) and the
 * file that have to be there; an empty word; the command. What a group limits, the shim need not:
 * grouped is whether there is one.
 */
#define CAGE_RULE_RUN    'x' /* it may be executed */
#define CAGE_RULE_CHANGE 'w' /* it may be changed */
#define CAGE_MOUNT_READ  'r' /* it is mounted read-only */
#define CAGE_MOUNT_WRITE 'w'
void cage_argv_orders(const struct cage_plan *plan, const struct cage_source *sources, bool grouped,
                      struct kg_buf *out);
/* bwrap's own argv, the same for every cage. */
void cage_argv_command(struct cage_words *out);
/* That of the shim which makes namespaces and becomes bwrap. */
void cage_argv_ahead(const char *bwrap, struct cage_words *out);

/* -- messages between daemon and spawner ------------------------------------------------------- */

enum cage_request_kind { CAGE_ASK_SPAWN = 1, CAGE_ASK_SIGNAL };

struct cage_request {
    uint32_t kind;
    uint32_t child; /* chosen by the daemon */
    int32_t signal;
};

enum cage_event_kind {
    /* built: it is; number and error: mode and words of its limits; count: the kernel tells what
       it refuses */
    CAGE_TELL_READY = 1,
    CAGE_TELL_SPAWNED,
    CAGE_TELL_CHILD,
    CAGE_TELL_SOCKET, /* number: see on_socket; with its fd */
    CAGE_TELL_LIMIT,  /* number: enum cage_limit; count */
    CAGE_TELL_DENIED, /* number: enum cage_access; error: the path */
    CAGE_TELL_EXITED
};

struct cage_event {
    uint32_t kind;
    uint32_t child;
    int32_t pid; /* SPAWNED: bwrap; CHILD: pid 1 of the cage */
    int32_t exit_code;
    int32_t signal;
    uint32_t built;
    uint32_t number, count;
    uint32_t memory_kills, fork_refusals;
    /*
     * EXITED: why nothing was spawned, or "". READY: why it is not, and built is 0; or, with the
     * mode as its number, the words of struct cage_limits.
     */
    char error[KG_ERR_MESSAGE_MAX];
};

/*
 * What kaged-watch says: a message for each attempt that is new, with what it is about behind it,
 * and one without that for each whose count has changed.
 */
#define CAGE_ATTEMPTS_MAX   4096
#define CAGE_ATTEMPTS_BYTES ((size_t)1024 * 1024) /* of all that they are about */
#define CAGE_CALL_TEXT      24
#define CAGE_WATCH_UNHEARD  3 /* its exit code if nobody takes what it says */
struct cage_told {
    uint32_t index; /* counts up from 0 */
    uint32_t count;
    uint16_t port;
    uint8_t act, there;
    char call[CAGE_CALL_TEXT];
};

/* What the kernel keeps of files in the memory of the cage that pid is in, by their number. */
uint64_t cage_files_memory(pid_t pid);

/* The first process under pid in /proc, or 0. */
pid_t cage_first_child(pid_t pid);
/* The parent of pid, or 0. */
pid_t cage_parent_of(pid_t pid);
/* The processes right under pid, oldest first. Owned; NULL if there are none. */
pid_t *cage_children_of(pid_t pid, size_t *ret_count);

/* -- what the kernel refused, see kernel_log.c ------------------------------------------------- */

/* One record: a refusal in a Landlock domain, or (with a pid) which process a domain began with. */
struct cage_denial {
    uint64_t domain;
    pid_t pid; /* 0: a refusal */
    enum cage_access access;
    char *path; /* owned */
};
enum cage_kernel_log {
    CAGE_KERNEL_LOG_TELLS,
    CAGE_KERNEL_LOG_OFF,      /* the kernel records no refusals */
    CAGE_KERNEL_LOG_NOT_OURS, /* it does not say, or not to us */
};
/* *ret_fd is set only where the kernel tells. */
enum cage_kernel_log cage_kernel_log_open(int *ret_fd);
/*
 * Takes the next record: 1 if it is about a domain, 0 if it is not, or a negative errno: -EAGAIN if
 * there is none.
 */
int cage_kernel_log_read(int fd, struct cage_denial *ret_denial);

/* -- in kaged-spawner -------------------------------------------------------------------------- */

/* Whom a cage runs as, where we are root, and whether that is its plugin's for good. */
struct cage_user {
    uid_t uid;
    bool fixed;
};

/*
 * A root spawner's own mounts, where the user of the cages can reach what only root could: folders
 * are bound there with the owner's files shown as that user's. In a mount namespace of its own.
 */
struct cage_stage;
struct cage_stage *cage_stage_new(const struct cage_owner *owner, struct kg_err *err);
/*
 * Goes into a new mount namespace with little of the host in it, for a bwrap that is forked there:
 * its fd, the caller's, or -1 where there is none to be had, and we stay.
 */
int cage_stage_enter_room(const struct cage_stage *stage);
void cage_stage_leave_room(const struct cage_stage *stage, int room);
const struct cage_owner *cage_stage_owner(const struct cage_stage *stage);
/*
 * Mounts in that room, or here if it is -1, what source is open on, and nothing that is mounted
 * below it: read-only, or to be written and not executed. The cage's user is shown as its owner:
 * the daemon's, if that is not root, else whoever the thing belongs to; or, if it is a part of what
 * `whole` is open on, which is not -1 then, whoever that belongs to. *ret_path is owned. -ENOTSUP:
 * it cannot be shown as his, so that only one who is the same user always may have it.
 */
int cage_stage_add(struct cage_stage *stage, int room, int source, int whole, bool write,
                   struct cage_user user, char **ret_path, struct kg_err *err);
/* Those that the next cage will probably need; they take their time. */
void cage_stage_make_maps(struct cage_stage *stage, uid_t cage_uid);
void cage_stage_remove(const char *path);
void cage_stage_free(struct cage_stage *stage);

struct cage_launched {
    pid_t pid;                 /* bwrap, our child */
    uid_t uid;                 /* whom the cage runs as, where we are root */
    int in_fd, out_fd, err_fd; /* the daemon's ends of the plugin's stdio */
    int status_fd;             /* json-status, not blocking */
    bool ahead;                /* it was started in the cage's network */
    int ran_fd;                /* the shim's word, not blocking */
    int block_fd;              /* with a network, a byte written here lets bwrap go on */
    int watch_fd;              /* for kaged-watch, if the plan is watched, else to be closed */
    struct cage_words staged;  /* mounts that it needs until the shim runs */
    int *held;                 /* owned; files that have to be open as long */
    size_t held_count;
};

/* A program beside this one: an fd to execute it by. Negative: it is not there; err says so. */
int cage_program_open(const char *name, struct kg_err *err);
/* One that lets in which system calls the plan says; see ready.c. */
struct kg_str cage_calls_filter(const struct cage_plan *plan);

/*
 * A bwrap that waits for its plan, so that half of the time that a start takes is over before one
 * is asked for. See ready.c. The group, which may be NULL, stays the caller's.
 */
struct cage_group; /* see cgroup.h */
struct cage_ready;
struct cage_ready *cage_ready_new(const char *bwrap, int shim, bool ahead,
                                  const struct cage_stage *stage, struct cage_user user,
                                  struct cage_group *group, struct kg_err *err);
struct cage_user cage_ready_user(const struct cage_ready *ready);
/* Where to stage what it binds: the room that it is in, or -1. */
int cage_ready_room(const struct cage_ready *ready);
pid_t cage_ready_pid(const struct cage_ready *ready);
/*
 * Whether it is in namespaces of its own: 1, or 0 if it was not to be; -EPERM if this machine does
 * not let us make them; -EIO if it never said. Waits for its word, which mostly is there already.
 */
int cage_ready_ahead(struct cage_ready *ready);
/* False for another program, and once that one was replaced. */
bool cage_ready_is_of(const struct cage_ready *ready, const char *bwrap);
struct cage_group *cage_ready_group(const struct cage_ready *ready);
/* Writes one of its files: CAGE_FD_ARGS, _CALLS, _ORDERS, or one from CAGE_FD_FILES on. */
int cage_ready_write(struct cage_ready *ready, int file, struct kg_str text, struct kg_err *err);
/* The same with what source is open on. */
int cage_ready_copy(struct cage_ready *ready, int file, int source, struct kg_err *err);
/* Opens the gate, and frees what waited at it. */
struct cage_launched cage_ready_go(struct cage_ready *ready);
/* True if that was its process: it ended by itself, and nobody is left to kill. */
bool cage_ready_reaped(struct cage_ready *ready, pid_t pid);
void cage_ready_free(struct cage_ready *ready); /* and kills it */

/* Gives it the plan. Then it is used up; on failure it is the caller's still, and of no use. */
int cage_launch(const struct cage_plan *plan, struct cage_stage *stage, struct cage_ready *ready,
                struct cage_launched *ret_launched, struct kg_err *err);
/* Lets go of what was needed to build the cage; not before the shim runs. */
void cage_launched_settle(struct cage_launched *launched);

/*
 * The making of a cage's network, in a short-lived child that enters its namespaces. Sockets come
 * out of it one by one; the caller reaps it, and kills it at its deadline.
 */
struct cage_netns {
    pid_t pid;  /* our child, or 0 once it is reaped */
    int socket; /* readable when there is something to receive; -1: nothing is under way */
};
/* pid1 is a process in the cage, pid1_fd its pidfd, and uid whom the cage runs as. */
int cage_netns_start(const struct cage_network *network, pid_t pid1, int pid1_fd, uid_t uid,
                     struct cage_netns *ret_netns, struct kg_err *err);
/*
 * 1 for one more socket, the caller's; 0 when the network is complete; -EAGAIN if there is nothing
 * yet; else it failed, and err says why.
 */
int cage_netns_receive(struct cage_netns *netns, uint32_t *ret_number, int *ret_fd,
                       struct kg_err *err);
/*
 * The redirection of what has no listener of its own to CAGE_NET_ALL_PORT, by nft. Of all that
 * makes a network it takes longest, so it runs beside the rest until it is waited for.
 */
struct cage_redirect {
    pid_t pid;
    int output;
    const char *nft; /* borrowed from the network */
};
int cage_redirect_start(const struct cage_network *network, struct cage_redirect *ret_redirect,
                        struct kg_err *err);
int cage_redirect_wait(const struct cage_redirect *redirect, struct kg_err *err);
/* Lets a packet socket see only what tells of a refused connection. 0 or a negative errno. */
int gate_refused_filter(int fd);

#endif
