/*
 * The life of plugins. An instance is one plugin that may run: its state, its process in a cage,
 * its peer, its health, its restarts, and the report of its last exit. What moves it from state to
 * state is one table, in states.c.
 */
#ifndef KAGED_SUPERVISOR_H
#define KAGED_SUPERVISOR_H

#include "audit/audit.h"
#include "cage/gate.h"
#include "dialect/dialect.h"
#include "redact/redact.h"

/* -- what all instances share ------------------------------------------------------------------ */

struct supervisor_limits {
    struct peer_limits wire;
    uint64_t initialize_timeout_ms;
    uint64_t ping_timeout_ms;
    uint32_t health_failures;
    uint64_t restart_delay_ms;
    uint64_t restart_delay_max_ms;
    uint32_t restart_failures;
    uint64_t restart_window_ms;
    uint64_t restart_reset_ms;
    uint64_t term_timeout_ms;
    uint32_t noise_events_per_sec;
    size_t stderr_line_max_bytes;
    uint32_t stderr_lines_per_sec;
    bool audit_stderr; /* its lines go to the audit log, too */
    size_t log_rotate_bytes;
    uint64_t watchdog_interval_ms; /* where the kernel has no groups for us */
};

/* Each part is borrowed and outlives every instance. */
struct supervisor {
    struct loop *loop;
    struct audit *audit;
    struct cage_spawner *spawner;
    struct gate *gate; /* NULL: no cage can be built here */
    const char *log_dir;
    struct supervisor_limits limits; /* read at use, so that a change applies at once */
    uint32_t health_turn;            /* counts whose pings have begun; see health.c */
};

/* -- instances --------------------------------------------------------------------------------- */

/* What one cage may use of the machine. */
struct instance_limits {
    uint64_t memory_bytes; /* 0: no limit */
    unsigned cpu_shares;
    unsigned processes_max;
    size_t tmp_bytes;
};

struct instance_times {
    uint64_t shutdown_timeout_ms;
    uint64_t health_interval_ms;
};

/* What is to run. The instance takes a copy. */
struct instance_spec {
    const char *name;   /* plugin or plugin@project */
    const char *plugin; /* its own name, as its manifest has it; NULL: the one above */
    const char *version;
    const char *const *methods; /* NULL-ended, like the list that follows */
    const char *const *capabilities;
    struct instance_times times;
    struct instance_limits limits;
    struct kg_str config;          /* a JSON object that it is told; empty: the plugin takes none */
    const struct dialect *dialect; /* which it speaks */
    enum dialect_variant variant;  /* in which way, if that is known */
    const struct redact_set *secrets; /* borrowed, not copied: hidden in what it writes; or NULL */
};

enum instance_state {
    INSTANCE_DISABLED,
    INSTANCE_IDLE,
    INSTANCE_SPAWNING,
    INSTANCE_RUNNING,
    INSTANCE_STOPPING,
    INSTANCE_CRASHED,
    INSTANCE_FAILED,
    INSTANCE_STOPPED,
    INSTANCE_STATE_COUNT
};
const char *instance_state_name(enum instance_state state);
const char *instance_state_meaning(enum instance_state state);

/* The table of states.c, for the manual: the index-th event that moves `state`; event NULL at the
 * end. */
struct instance_transition {
    const char *event;
    enum instance_state next;
};
struct instance_transition instance_transition(enum instance_state state, size_t index);

/* Why a process ended. */
enum exit_cause {
    EXIT_NONE,    /* it has not ended yet */
    EXIT_LEFT,    /* it ended by itself */
    EXIT_REFUSED, /* it was not started */
    EXIT_CAGE,
    EXIT_HANDSHAKE,
    EXIT_VIOLATION,
    EXIT_HUNG,
    EXIT_HEALTH,
    EXIT_STREAM,
    EXIT_MEMORY,
    EXIT_SECCOMP,
    EXIT_OPERATOR,
    EXIT_DAEMON,
    EXIT_IDLE,
    EXIT_EARLIER,
    EXIT_CAUSE_COUNT
};
const char *exit_cause_name(enum exit_cause cause);

struct exit_report {
    enum exit_cause cause;
    int64_t at_ms;    /* wall clock */
    int exit_code;    /* -1 when a signal ended it, or nothing ran */
    int signal;       /* 0 when it exited */
    char detail[320]; /* what the cause saw, in words; may be empty */
    struct instance_limits limits;
    uint32_t hits[2]; /* by enum cage_limit: how often a limit was hit */
    struct kg_buf last_stderr;
    int64_t restart_at_ms; /* wall clock; 0: no restart follows */
    uint32_t failures;     /* in a row, this one counted */
};
/* One sentence: "killed by signal 9 (SIGKILL)". */
void exit_report_words(const struct exit_report *report, struct kg_buf *ret_text);

struct instance;

/* What the one above is told. */
struct instance_ops {
    void (*on_state)(void *data); /* after each change of state */
    /* Once for each change, in order; reason says what brought it about. */
    void (*on_move)(void *data, enum instance_state from, enum instance_state to,
                    const char *reason);
    /* A notification of the running plugin that is in the audit log by now, or counted there. */
    void (*on_notification)(void *data, struct kg_str method, struct kg_str params);
    /* While it runs it took its configuration, or did not. */
    void (*on_configured)(void *data);
    /* Before a start that the operator asked for: the time for instance_set_spec. */
    void (*on_fresh_start)(void *data);
    /* Before each plan: whether all that it takes is known. If not, instance_prepared follows. */
    bool (*prepare)(void *data);
    /*
     * Before each start: the plan of the cage, which is the supervisor's; NULL with err. With
     * KG_E_NOT_APPROVED it is not tried again.
     */
    struct cage_plan *(*make_plan)(void *data, struct kg_err *err);
    /* A request of the running plugin; answered by instance_answer, or false: no such method. */
    bool (*on_request)(void *data, int64_t request, struct kg_str method, struct kg_str params);
    /* The projects that use it, which it is told in the handshake: strings. */
    void (*put_projects)(void *data, struct kg_json_writer *json);
    /* Whether the plugin is told that it has storage. */
    bool (*has_storage)(void *data);
    /* Whether the plugin may claim this capability. */
    bool (*may_claim)(void *data, struct kg_str capability);
    bool (*is_tool)(void *data, struct kg_str method);
    bool (*may_notify)(void *data, struct kg_str type);
    /* The folders that it may take for its project's; see struct dialect_ops. */
    bool (*put_roots)(void *data, struct kg_json_writer *json_or_null);
    void (*on_tools)(void *data); /* instance_tools are others now */
    /* As of struct dialect_ops. */
    void (*on_log)(void *data, struct kg_str message);
    bool (*may_request)(void *data, struct kg_str method);
    bool (*on_input)(void *data, struct dialect_input *input);
    void (*drop_input)(void *data, struct dialect_input *input);
};
struct instance *instance_new(struct supervisor *supervisor, const struct instance_spec *spec,
                              const struct instance_ops *ops, void *data);
/* Replaces what is to run; only without a process. */
void instance_set_spec(struct instance *instance, const struct instance_spec *spec);
/* Only in a state without a process. */
void instance_free(struct instance *instance);

/* The configuration from now on; a plugin that runs is told at once. */
void instance_set_config(struct instance *instance, struct kg_str config);
struct kg_str instance_config(const struct instance *instance); /* until the next change */
/* It was told one while it runs, and has not answered. */
bool instance_is_configuring(const struct instance *instance);
/* Why it goes on with the one before, in words; empty: it took the last. */
struct kg_str instance_config_refused(const struct instance *instance);
uint32_t instance_config_refusals(const struct instance *instance); /* so often it did not */
/* The limits from the next start on. */
void instance_set_limits(struct instance *instance, const struct instance_limits *limits);
/* Only without a process. */
void instance_set_times(struct instance *instance, const struct instance_times *times);

/* A new one: it failed under a daemon before this one, for that reason. */
void instance_set_failed(struct instance *instance, const char *reason);
void instance_enable(struct instance *instance);  /* forgets failures, starts */
void instance_disable(struct instance *instance); /* ends the process if there is one */
/* Nobody needs a process of it for now: one that runs ends, and the next use enables it. */
void instance_rest(struct instance *instance);
void instance_restart(struct instance *instance);
void instance_stop(struct instance *instance); /* the daemon stops */
void instance_kill(struct instance *instance); /* the daemon stops, and waits no longer */
bool instance_has_process(const struct instance *instance); /* or is about to have one */
void instance_prepared(struct instance *instance); /* what was asked for by prepare; or nothing */

enum instance_state instance_state(const struct instance *instance);
/* A process is being started, or will be when the one before is gone. */
bool instance_is_starting(const struct instance *instance);
/* To call it by, while the instance runs and takes calls; else NULL. */
struct dialect_talk *instance_talk(struct instance *instance);
/* The tools that it told of at run time, a JSON list; empty: none. Until the next turn. */
struct kg_str instance_tools(const struct instance *instance);
/* What it shall tell of, and how much it shall log; see struct dialect_talk. */
void instance_subscribe(struct instance *instance, char *const *uris);
void instance_set_log_level(struct instance *instance, const char *level);
/* In which way it is spoken to, as far as that was found out. */
enum dialect_variant instance_variant(const struct instance *instance);
enum instance_method { METHOD_UNKNOWN, METHOD_MISSING, METHOD_OFFERED };
enum instance_method instance_method(const struct instance *instance, struct kg_str method);

/*
 * A request is answered to the process that asked: `start` is what instance_start_count told then.
 * The answer to one that is gone by now is dropped.
 */
uint32_t instance_start_count(const struct instance *instance);
void instance_answer(struct instance *instance, uint32_t start, int64_t request,
                     enum peer_answer kind, struct kg_str json);

/* True if one more event about what the plugin does wrong may be written in this second. */
/* What was reached on its behalf is told and counted as its own. */
void instance_heard_network(struct instance *instance, const struct gate_event *event);
bool instance_may_complain(struct instance *instance, uint32_t *ret_suppressed);
/* The capability that would have let it connect, if it was refused to since then; NULL: it was not.
 */
const char *instance_denied_since(const struct instance *instance, uint64_t since_ns);
/* The reason, in the audit log, of what was seen in a cage that is watched. */
extern const char instance_seen_reason[];

struct instance_facts {
    pid_t pid;             /* of the plugin itself, 0 without one */
    const char *cage_id;   /* "" without one */
    int64_t started_at_ms; /* wall clock, 0 without a process */
    uint32_t starts;       /* since the daemon started */
    uint32_t failures;     /* in a row */
    uint32_t health_failures;
    uint32_t in_flight;
    uint32_t debts; /* requests of the plugin that are not answered */
    uint64_t bytes_in, bytes_out, notifications_dropped; /* since the daemon started */
    uint32_t net_connections;                            /* that are open, or being opened */
    struct instance_limits limits;       /* of the process; without one, of the next */
    enum cage_limits_mode limits_mode;   /* who keeps them */
    uint32_t hits[2];                    /* by enum cage_limit, of this run */
    const struct exit_report *last_exit; /* NULL: none yet */
};
struct instance_facts instance_facts(const struct instance *instance);
/* The first process of its cage, or 0. */
pid_t instance_cage_process(const struct instance *instance);
/* Calls visit for each method of the manifest. */
void instance_methods(const struct instance *instance,
                      void (*visit)(void *data, const char *method, bool offered), void *data);

/* Posts the message once all that the gatekeeper has seen of the plugin is in the audit log. */
void instance_settle_network(struct instance *instance, struct loop_message *when_told);

/* -- the tap: all that is said, as it is said -------------------------------------------------- */

enum instance_way { INSTANCE_TO, INSTANCE_FROM, INSTANCE_STDERR };
typedef void instance_tap_fn(void *data, enum instance_way way, struct kg_str line);
/* Who hears every line of this process and of those that follow; NULL: nobody. */
void instance_set_tap(struct instance *instance, instance_tap_fn *tap_or_null, void *data);
/* What its greeting tells the plugin: a JSON object, appended. */
void instance_put_greeting(struct instance *instance, struct kg_buf *ret_json);

/* -- the plugin's log: what it wrote on stderr ------------------------------------------------- */

/*
 * The last `lines` lines; or, with after >= 0, what came after that cursor. *ret_cursor is where
 * the next read goes on.
 */
int instance_log_read(struct instance *instance, int64_t after, size_t lines,
                      struct kg_buf *ret_text, int64_t *ret_cursor, struct kg_err *err);

#endif
