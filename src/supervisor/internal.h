/* What the files of supervisor/ share. */
#ifndef KAGED_SUPERVISOR_INTERNAL_H
#define KAGED_SUPERVISOR_INTERNAL_H

#include "base/burst.h"
#include "supervisor/supervisor.h"

#define STDERR_TAIL_LINES      50
#define STDERR_TAIL_BYTES      16384
#define STDERR_TAIL_LINE_BYTES 1024

/* -- plugin log, see plugin_log.c -------------------------------------------------------------- */

struct plugin_log;
struct plugin_log *plugin_log_new(struct supervisor *supervisor, const char *name,
                                  const struct redact_set *secrets);
void plugin_log_free(struct plugin_log *log);
/* Takes the fd of a plugin's stderr and reads it until its end. */
void plugin_log_attach(struct plugin_log *log, int fd);
/* What the plugin said otherwise, as if it had written it on stderr; newlines are cut at. */
void plugin_log_say(struct plugin_log *log, struct kg_str text);
/* Reads what is left, then lets go of the fd. */
void plugin_log_detach(struct plugin_log *log);
/* The last lines of the run, newest last; empty after plugin_log_forget. */
void plugin_log_tail(const struct plugin_log *log, struct kg_buf *ret_text);
void plugin_log_forget(struct plugin_log *log);
/* Who hears each line, those included that are too many for the file; NULL: nobody. */
typedef void plugin_log_tap_fn(void *data, struct kg_str line);
void plugin_log_set_tap(struct plugin_log *log, plugin_log_tap_fn *tap_or_null, void *data);
int plugin_log_read(struct plugin_log *log, int64_t after, size_t lines, struct kg_buf *ret_text,
                    int64_t *ret_cursor, struct kg_err *err);

/* -- states, see states.c ---------------------------------------------------------------------- */

enum instance_event {
    ON_ENABLE,  /* the operator, or the start of the daemon */
    ON_DISABLE, /* the operator */
    ON_REST,    /* nobody uses it for now */
    ON_RESTART, /* the operator */
    ON_STOP,    /* the daemon stops */
    ON_READY,   /* the handshake is done */
    ON_END,     /* we end the process: a violation, a hang, bad health */
    ON_EXIT,    /* the process is gone */
    ON_CRASH,   /* it went, and should not have */
    ON_REJECT,  /* its author must fix it: no restart */
    ON_REFUSE,  /* the host does not let it start: no restart */
    ON_EXHAUST, /* too many failures in a row */
    ON_DUE,     /* the delay before a restart is over */
    ON_NOTHING, /* no event: what follows an exit that was asked for */
    INSTANCE_EVENT_COUNT = ON_NOTHING
};

/* How far the ending of a process has gone. */
enum ending { ENDING_NOT, ENDING_SHUTDOWN, ENDING_TERM, ENDING_KILL };

struct instance {
    struct supervisor *supervisor; /* borrowed */
    char *name, *plugin, *version;
    char **methods, **capabilities; /* owned, NULL-ended */
    bool *method_offered;           /* one for each of methods */
    struct instance_times times;
    struct instance_limits limits; /* for the next start; those of this run are in its report */
    struct dialect_talk talk;      /* with its process; it has the configuration, too */

    enum instance_state state;
    enum instance_event follow; /* raised after the exit of a process that we end */
    struct instance_ops ops;
    void *data;

    struct cage_child *child;  /* NULL without a process; freed by the cage */
    struct gate_cage *network; /* NULL without one */
    struct peer *peer;         /* NULL before the pipes are there */
    struct peer_counters past; /* of the peers before */
    struct kg_id cage_id;
    int64_t started_at_ms;
    uint32_t starts;
    struct plugin_log *log;
    const struct redact_set *secrets; /* borrowed; or NULL */
    instance_tap_fn *tap;             /* or NULL */
    void *tap_data;

    enum ending ending;
    struct loop_timer ending_timer; /* to the next step of the ending */
    struct loop_timer stream_timer; /* how long a process may live on with a closed stream */
    struct loop_timer health_timer;
    struct loop_timer restart_timer;
    struct loop_timer watchdog_timer;
    struct loop_timer reset_timer; /* forgets failures once it ran for long enough */
    bool ping_in_flight;
    uint64_t ping_stood_ms; /* peer_stood_ms when the last ping was sent; */
    uint64_t pong_stood_ms; /* when the last one counted, whatever way */
    uint32_t health_failures;

    uint32_t failures;         /* in a row */
    uint64_t first_failure_ms; /* of that row, monotonic */
    struct kg_rate noise;
    struct kg_burst complaints; /* of all of them, over a longer time */
    uint32_t uncomplained;      /* that were only counted */
    struct kg_burst news;       /* notifications that are told one by one */
    struct kg_buf unheard_type; /* of the newest that was only counted */
    uint32_t unheard;
    struct walls_tally *tallies;    /* owned; see walls.c */
    struct cage_attempts *attempts; /* owned; of this run; NULL: it is not watched */
    struct loop_worker *looker;     /* owned; see explain.c; NULL until one is needed */
    bool preparing;                 /* it is started once what its plan takes is known */
    char *denied;                   /* owned; the last line that the gate missed; NULL: none */
    uint64_t denied_ns;             /* when */
    struct loop_timer count_timer;  /* tells what was only counted */
    uint32_t unaudited; /* notifications that came while the audit log could not be written */
    struct exit_report report, last_report; /* of this run; of the one before */
};

void instance_raise(struct instance *instance, enum instance_event event);

/* Actions of the table, see instance.c. */
void instance_start(struct instance *instance, enum instance_event event);
void instance_begin_ending(struct instance *instance, enum instance_event event);
void instance_announce(struct instance *instance, enum instance_event event);
void instance_settle(struct instance *instance, enum instance_event event);
void instance_count_crash(struct instance *instance, enum instance_event event);
void instance_give_up(struct instance *instance, enum instance_event event);
void instance_forget_failures(struct instance *instance);

/* Ends the process for a cause, from the given step on; `follow` is raised when it is gone. */
void instance_end(struct instance *instance, enum exit_cause cause, enum ending from,
                  enum instance_event follow, const char *format, ...) KG_PRINTF(5, 6);

/* See talk.c. */
extern const struct peer_ops talk_peer_ops;
void talk_set_spec(struct instance *instance, const struct instance_spec *spec);
void talk_begin(struct instance *instance); /* greets it */
/* Tells a running plugin its configuration. */
void talk_configure(struct instance *instance);
/* False: what a plugin says unasked is passed over for now, and counted. */
bool talk_audit_takes_more(struct instance *instance);
/* See health.c. */
void health_begin(struct instance *instance);
void health_end(struct instance *instance);

/* See walls.c. */
void walls_begin(struct instance *instance, const struct cage_plan *plan);
void walls_take(void *instance, uint32_t index, int fd);
void walls_end(struct instance *instance);
void walls_forget(struct instance *instance); /* what it counted */
void walls_denied(void *instance, enum cage_access access, const char *path);
/* What it tries, if its cage is watched: the socket that tells it; the end of a run; and of all. */
void explain_take(struct instance *instance, int fd);
void explain_end(struct instance *instance);
void explain_forget(struct instance *instance);
/* What was only counted until now, as one event each; see walls.c and talk.c. */
void walls_tell_counts(struct instance *instance);
void talk_tell_counts(struct instance *instance);
/* Something was only counted: it is told soon. */
void instance_counted(struct instance *instance);
/* See watchdog.c. */
void watchdog_begin(struct instance *instance);
void watchdog_end(struct instance *instance);
/* So many hits of a limit in this run: what is new of them is logged and audited. */
void limits_report(struct instance *instance, enum cage_limit limit, uint32_t hits);

/* See exit.c. */
void exit_report_clear(struct exit_report *report);

#endif
