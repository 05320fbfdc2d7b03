/*
 * The host decides: which plugins there are, which may run, and what reaches them. Calls go through
 * one door, call.c, whoever makes them.
 */
#ifndef KAGED_HOST_H
#define KAGED_HOST_H

#include "config/config.h"
#include "forward/forward.h"
#include "host/asker.h"
#include "host/asks.h"
#include "manifest/manifest.h"
#include "secret/secret.h"
#include "state/state.h"
#include "storage/storage.h"
#include "store/consent.h"
#include "store/store.h"
#include "supervisor/supervisor.h"
#include "trace/trace.h"

struct cluster;
struct host;

struct host_parts {
    struct loop *loop;
    struct cage_spawner *spawner;
    const struct cage_facts *facts;   /* NULL: no cage can be built here; no plugin starts */
    const struct kg_err *no_cage;     /* why, then */
    const char *cages;                /* how good cages are here, in words */
    const struct cage_checks *checks; /* that say so */
    const char *user;                 /* whom the daemon runs as */
    const struct config_paths *paths;
    struct config *config;           /* taken over */
    void (*on_reloaded)(void *data); /* after the host took a new configuration */
    /* True before each reload, false after it, however it went; or NULL. */
    void (*on_reloading)(void *data, bool begins);
    void *data;
};
struct host *host_new(const struct host_parts *parts, struct kg_err *err);
/* Finds the plugins and starts those that are enabled. */
void host_start(struct host *host);
/* Stops every plugin gracefully, then calls on_stopped once. A second call kills what is left. */
void host_stop(struct host *host, const char *reason, void (*on_stopped)(void *data), void *data);
void host_free(struct host *host); /* after on_stopped */

/* Who else shares the state; NULL: nobody does, it is all in kaged.db. */
struct cluster *host_nodes(const struct host *host);
struct loop *host_loop(struct host *host);
struct audit *host_audit(struct host *host);
struct state_keeper *host_keeper(struct host *host);
const struct config *host_config(const struct host *host);
const struct config_paths *host_paths(const struct host *host);
/* local.toml, as it was read last; until the next turn of the loop. */
const struct local *host_local(const struct host *host);
int64_t host_started_at_ms(const struct host *host);
bool host_is_stopping(const struct host *host);
/* "full", "degraded: ..." or "none: ..." */
const char *host_cages(const struct host *host);
const struct cage_checks *host_checks(const struct host *host);
const char *host_user(const struct host *host); /* whom the daemon runs as */
/* What a cage of somebody else needs: who builds it, of what, and its network. */
struct cage_spawner *host_spawner(struct host *host);
const struct cage_facts *host_facts(const struct host *host); /* NULL: none can be built */
struct gate *host_gate(struct host *host);                    /* the same */
const struct forward *host_forward(const struct host *host);  /* NULL: nothing is sent on */
/* How the cages of this daemon are limited. */
const struct cage_limits *host_limits(const struct host *host);
/* Reads config.toml again, takes it whole or not at all, looks for new plugins. */
typedef void host_reloaded_fn(void *data, struct kg_str changed_json,
                              const struct kg_err *err_or_null);
void host_reload(struct host *host, const char *operator_id, host_reloaded_fn *on_done, void *data);

/* Durations; the last count is of what took longer than every bound. See meter.c. */
#define HOST_BUCKETS 17
extern const uint64_t host_bucket_us[HOST_BUCKETS];
struct host_histogram {
    uint64_t counts[HOST_BUCKETS + 1];
    uint64_t sum_ns;
};
void host_histogram_add(struct host_histogram *histogram, uint64_t duration_ns);
uint64_t host_histogram_count(const struct host_histogram *histogram);
/* The duration that so many per cent stayed below, as far as the buckets tell; 0 without any. */
uint64_t host_histogram_quantile_us(const struct host_histogram *histogram, unsigned per_cent);

/* The last minutes, in slots that are over; the oldest first. See course.c. */
#define HOST_COURSE_SLOTS   120
#define HOST_COURSE_STEP_MS 5000
struct host_course;
struct host_course_slot {
    uint32_t calls, errors;
    uint32_t p50_us, p99_us; /* of the calls that ended in it; 0 without any */
};
void host_course_add(struct host_course **course_or_null, uint64_t now_ns, uint64_t duration_ns,
                     bool failed);
/* Adds to slots; of durations, the longer ones stay. NULL: nothing was called. */
void host_course_sum(struct host_course *course_or_null, uint64_t now_ns,
                     struct host_course_slot slots[HOST_COURSE_SLOTS]);
/* How long ago the last of these slots ended. */
uint64_t host_course_age_ms(uint64_t now_ns);

/* Figures of the daemon itself. */
#define HOST_REFUSAL_MINUTES 60
struct host_figures {
    uint32_t refusals[HOST_REFUSAL_MINUTES]; /* by the minute in which they were */
    uint64_t refusal_minute;                 /* of the last */
    struct host_histogram lag;               /* how late a timer of the loop was */
    uint64_t lag_last_us, lag_max_us;
    uint64_t memory_bytes; /* resident, when host_measure looked last; the same for the next */
    uint32_t open_fds;
};
const struct host_figures *host_figures(const struct host *host);
/* What plugins were refused in the last hour, since the daemon started. */
uint64_t host_refusals(struct host *host);

/* Grows with each audit event: who follows the log need not read it while this stands still. */
uint64_t host_audit_count(const struct host *host);
/* Asks the audit log, off the loop; on_done gets NDJSON lines, or the error. */
typedef void host_audit_done_fn(void *data, struct kg_str lines, const struct kg_err *err_or_null);
void host_audit_query(struct host *host, const struct audit_filter *filter,
                      host_audit_done_fn *on_done, void *data);
/* Whether the log is whole, as a report in JSON; refused while another one is made. */
int host_audit_verify(struct host *host, host_audit_done_fn *on_done, void *data,
                      struct kg_err *err);

/* -- events, as they happen; see events.c ------------------------------------------------------ */

enum host_event_type {
    HOST_EVENT_NOTIFICATION,
    HOST_EVENT_STATE,
    HOST_EVENT_AUDIT,
    HOST_EVENT_PROGRESS, /* of a call */
    HOST_EVENT_LOG,      /* what an MCP server logs */
    HOST_EVENT_QUESTION, /* a plugin asks one in a session, or it is over */
    HOST_EVENT_BRANCH,   /* a session moved to another branch */
    HOST_EVENT_TYPE_COUNT
};
extern const char *const host_event_type_names[HOST_EVENT_TYPE_COUNT];

/* The text of an event, shared by all who keep it. */
struct host_message {
    uint32_t references;
    size_t length;
    char text[];
};
struct host_message *host_message_new(struct kg_str text);
void host_message_free(struct host_message *message); /* gives one reference back; takes NULL */

/* Everything in it dies with the callback, but for messages that were asked for. */
struct host_event {
    enum host_event_type type;
    struct kg_str plugin; /* empty: it is about none */
    struct kg_str name;   /* the notification's method, the new state, the audit event; the call's
                             method, the level, the state of a question, the new branch */
    struct kg_str params; /* of a notification; empty: none; how far a call is; what is logged */
    const char *from, *reason;
    const char *request_id, *session_id; /* of a call; NULL: none */
    struct kg_str line;                  /* of an audit event */
    int64_t at_ms;
    struct host_message *message; /* NULL: nobody has asked for it yet */
};
/* As a JSON object; the caller owns a reference. */
struct host_message *host_event_message(struct host_event *event);

struct host_events;
struct host_events *host_events_new(void);
void host_events_free(struct host_events *events); /* when nobody listens any more */
struct host_listener {
    struct host_listener *next;
    /* On the loop; must not bring about another event. */
    void (*on_event)(struct host_listener *listener, struct host_event *event);
};
void host_events_listen(struct host_events *events, struct host_listener *listener);
void host_events_unlisten(struct host_events *events, struct host_listener *listener);
void host_events_notification(struct host_events *events, const char *plugin, struct kg_str method,
                              struct kg_str params);
void host_events_state(struct host_events *events, const char *plugin, const char *from,
                       const char *to, const char *reason);
struct host_asker;
void host_events_progress(struct host_events *events, const char *plugin, const char *method,
                          const struct host_asker *asker, struct kg_str params);
void host_events_log(struct host_events *events, const char *plugin, struct kg_str level,
                     struct kg_str message);
void host_events_question(struct host_events *events, const char *plugin, const char *session_id,
                          const char *state, struct kg_str question);
void host_events_branch(struct host_events *events, const char *session_id, const char *from,
                        const char *to);
void host_events_audit(struct host_events *events, struct kg_str line, enum audit_event audited);
struct host_events *host_events(struct host *host);

/* -- plugins ----------------------------------------------------------------------------------- */

/*
 * A plugin is what is installed, approved, configured and wanted. What runs is a process of it, for
 * whom it serves: `p` is the one for nobody in particular, `p@project` that of a project.
 */
struct host_plugin;
struct host_process;
struct host_whom;

/* What a name finds, until the next turn of the loop. */
struct host_named {
    struct host_plugin *plugin;
    struct host_process *process; /* NULL: it works in projects only, or cannot be used */
};
/* KG_E_NOT_FOUND, and the nearest name. */
int host_find(const struct host *host, struct kg_str name, struct host_named *ret_named,
              struct kg_err *err);
const char *host_name(struct host_named named);
/* All that can be found, by name, ascending; the array is owned. */
struct host_named *host_names(const struct host *host, size_t *ret_count);
/* Fails if it has no process, with the reason and where to look instead. */
int host_check_process(struct host_named named, struct kg_err *err);

/* How much a process was used since it came to be. */
struct host_usage {
    uint64_t calls, errors;
    uint64_t errors_by_code[KG_CODE_COUNT];
    struct host_histogram latency; /* of calls that ended, whatever way */
    struct host_course *course;    /* owned; NULL until a call ended */
    uint64_t memory_bytes;         /* of its cage, when host_measure_plugins looked last */
};

/* Borrowed, until the next turn of the loop. */
struct host_status {
    const char *name;   /* as it is found by */
    const char *plugin; /* its own, as its manifest has it */
    const char *dir;
    const struct host_whom *whom; /* whom it serves */
    const char *tier;             /* how its child is made; "caged" while nobody could tell */
    bool is_stored;               /* in versions that are approved; not so the file of a script */
    bool is_dev;                  /* it is run from its author's folder */
    bool tools_wait;              /* it lists tools that wait for the operator's yes */
    struct kg_str dev_text;       /* the manifest that it is run by there; else empty */
    bool is_leaving;              /* for good: the plugin, or whom the process serves, is gone */
    bool is_checked;              /* its files are being compared with what was approved */
    const struct manifest *manifest; /* that it runs by, or would; NULL: it is invalid */
    const struct grants *grants;     /* what it may do, by its manifest and the operator */
    const struct kg_err *problem;    /* with its manifest or configuration; KG_OK: none */
    const struct kg_err *drift;      /* why its files may not be started; KG_OK: none is known */
    enum instance_state state;       /* disabled without a process */
    struct instance *instance;       /* NULL without a process */
    const struct host_usage *usage;  /* of nothing without one */
    int64_t idle_since_ms;           /* wall clock, of one that ended so; 0: none did */
    struct kg_str cage_words;        /* of the cage of its last start; empty: there was none */
    char *const *quarantined;        /* the last that were moved away, where they are; NULL: none */
};
struct host_status host_status(struct host_named named);
/* The ids of the projects that use it, as strings of an open list. */
void host_put_users(struct host_named named, struct kg_json_writer *json);
/* What runs of it, how, and what it was limited to; without a process, what it would be. */
struct instance_facts host_run_facts(struct host_named named);

/* Looks at the memory of the daemon off the loop; and at that of all cages too, or of one. */
typedef void host_measured_fn(void *data);
void host_measure(struct host *host, host_measured_fn *on_done, void *data);
void host_measure_plugins(struct host *host, const struct host_named *only_or_null,
                          host_measured_fn *on_done, void *data);

/*
 * Exactly once, maybe before the call returns; NULL: it was done. Who enables a plugin has its
 * files compared with what was approved first, off the loop; see drift.c.
 */
typedef void host_acted_fn(void *data, const struct kg_err *err_or_null);
void host_enable(struct host *host, struct kg_str name, const char *operator_id,
                 host_acted_fn *on_done, void *data);
void host_restart(struct host *host, struct kg_str name, const char *operator_id,
                  host_acted_fn *on_done, void *data);
void host_disable(struct host *host, struct kg_str name, const char *operator_id,
                  host_acted_fn *on_done, void *data);

/*
 * The operator's own lines over what its manifest declares, for all it serves or for one project;
 * processes that may do something else then are restarted. See grants.c.
 */
struct host_grant {
    struct kg_str name;
    struct kg_str project; /* empty: wherever it runs */
    char *const *lines;    /* capabilities; NULL-ended */
    bool revokes;
    const char *operator_id;
};
/* Once, maybe before the call returns; the names of what was restarted, NULL-ended. */
typedef void host_granted_fn(void *data, const char *plugin, char *const *restarted,
                             const struct kg_err *err_or_null);
void host_grant(struct host *host, const struct host_grant *grant, host_granted_fn *on_done,
                void *data);

/*
 * Tools that a server tells of when it runs, see tools.c. Puts all that were approved, and those
 * that wait for a yes, as objects; false: its manifest declares them.
 */
bool host_tools_put(struct host_named named, struct kg_json_writer *json);
/* Those that agents are offered, a JSON list; owned; NULL: its manifest declares them. */
char *host_tools_offered(struct host_named named);
bool host_lists_tools(const struct manifest *manifest); /* rather than declare them */
/* Of what waits for a yes; "": nothing does. */
void host_tools_digest(struct host_named named, char ret_digest[STORE_HASH_TEXT]);
/* The yes to all that waits, if it is what was shown; and one tool for nobody, or for all again. */
void host_tools_approve(struct host_named named, struct kg_str digest, struct host_asker *asker,
                        host_acted_fn *on_done, void *data);
void host_tools_switch(struct host_named named, struct kg_str tool, bool off,
                       struct host_asker *asker, host_acted_fn *on_done, void *data);

/* What a reload of one plugin did, and the reasons for a restart. */
enum host_reload_act {
    HOST_RELOAD_NOTHING,
    HOST_RELOAD_READ,
    HOST_RELOAD_TOLD,
    HOST_RELOAD_RESTART
};
extern const char *const host_reload_names[];
struct host_reloaded {
    enum host_reload_act act;
    const char *reasons[5]; /* NULL-ended */
};
/*
 * Reads its manifest and local.toml again, takes both or neither, and restarts the plugin if it
 * needs that; if only its configuration changed, it is told. Who names a plugin, and not one
 * process of it, means all that run: what became of the others goes to *ret_others, members of a
 * JSON object by name.
 */
int host_plugin_reload(struct host *host, struct host_named named, const char *operator_id,
                       struct host_reloaded *ret_reloaded, struct kg_json_writer *others,
                       struct kg_err *err);
/* What the operator set of config_schema, with its defaults; no secret is in it. Owned, or NULL. */
struct kg_doc *host_plugin_settings(const struct host *host, const struct manifest *manifest);

/* -- secrets, see secrets.c -------------------------------------------------------------------- */

/* A script of a name that is free, which is there from then on. Its path, owned; NULL with err. */
char *host_script_add(struct host *host, struct kg_str name, struct kg_str source,
                      struct kg_err *err);

/* What local.toml names, as it was looked up last; until the next turn of the loop, unless kept. */
struct secret_values *host_secrets(const struct host *host);
/* Looks up anew: what is read of local.toml from then on has it. */
void host_look_up(struct host *host, host_acted_fn *on_done, void *data);
/* Each is done once the plugins that use it were told. */
void host_secret_set(struct host *host, struct kg_str name, struct kg_str value,
                     const char *operator_id, host_acted_fn *on_done, void *data);
/* One that is used stays, unless it is forced. */
void host_secret_remove(struct host *host, struct kg_str name, bool force, const char *operator_id,
                        host_acted_fn *on_done, void *data);
void host_secret_rotate(struct host *host, const char *operator_id, host_acted_fn *on_done,
                        void *data);

/* -- changes of the store in a running daemon, see install.c ----------------------------------- */

struct store *host_store(struct host *host);
struct gate_limits host_gate_limits(const struct config *config);

/* An offer that nobody wants any more: its files are removed off the loop. Takes NULL. */
void host_offer_drop(struct host *host, struct store_offer *offer);

struct host_changed {
    /* Its version is what is in the store now, or was removed; until the callback returns. */
    struct consent_outcome outcome;
    const struct store_removed *removed; /* of host_uninstall, else NULL */
};
/* Exactly once, never before the call returns. The error says why nothing was changed. */
typedef void host_changed_fn(void *data, const struct host_changed *changed,
                             const struct kg_err *err_or_null);
/*
 * Takes the offer over, whatever comes. A new plugin appears disabled; a running one is stopped,
 * replaced and started, and the answer waits for its handshake.
 */
void host_take(struct host *host, struct store_offer *offer, const struct store_consent *consent,
               const char *operator_id, host_changed_fn *on_done, void *data);
/* KG_E_REFUSED while sessions use it, unless forced. */
void host_uninstall(struct host *host, struct kg_str name, const struct store_removal *removal,
                    bool force, const char *operator_id, host_changed_fn *on_done, void *data);
void host_promote(struct host *host, struct kg_str name, const char *operator_id,
                  host_changed_fn *on_done, void *data);
/* What waits for the operator's word. See consents.c. */
struct consent_queue *host_consents(struct host *host);

/* -- a plugin that is run from its author's folder while he changes it, see dev.c ---------------
 */

struct host_dev;
struct host_dev_ops {
    void (*on_line)(void *data, struct kg_str line); /* a JSON object and its line end */
    /* The same of what is said with the plugin, of which there may be more than can be taken. */
    void (*on_record)(void *data, int64_t t_us, struct kg_str line);
    /* Once, and never before host_dev_start returns; problems: all that is wrong, or NULL. */
    void (*on_end)(void *data, const struct kg_err *err, const struct kg_problems *problems);
};
/*
 * The run ends when its folder is gone, the operator says no, or the one who listens leaves; until
 * on_end or host_dev_leave it may be used. NULL with err: it cannot be begun.
 */
struct host_dev *host_dev_start(struct host *host, const char *path, const char *operator_id,
                                const struct host_dev_ops *ops, void *data, struct kg_err *err);
void host_dev_leave(struct host_dev *dev); /* on_end is not called */

/* -- the cage of a plugin, see policy.c -------------------------------------------------------- */

/* What lies over whatever a plugin may write. See struct cage_cover, and covers.c. */
struct host_cover {
    char *path; /* owned */
    bool write; /* it only must stay where it is */
    bool ahead; /* a missing one is made, empty, where the folder that it lies in is there */
    bool link;  /* it cannot be covered; where it leads is another cover */
    bool empty; /* nothing that is in it is seen */
    const char *closed; /* why a plugin that would write in it is not started; NULL: it may */
    const char *note;   /* for words; static, like the one above, or NULL */
};
struct host_covers {
    struct host_cover *items; /* owned */
    size_t count;
};
#define HOST_PROJECTS_OWN  "a project's own, and never written"
#define HOST_PROJECTS_FILE "the project's own file is in it"
void host_covers_add(struct host_covers *covers, const struct host_cover *cover);
void host_covers_free(struct host_covers *covers);

/* Borrowed. Needs no host, so that a plugin can be looked at before it is installed. */
struct host_cage_parts {
    const struct manifest *manifest;
    const struct grants *grants; /* NULL: what the manifest declares, and nothing else */
    const char *dir;             /* of the plugin, as it sees it */
    const char *source;          /* where those files are, without a link in it; NULL: in dir */
    const char *plugins_dir;     /* where plugins are installed */
    const struct config *config;
    const struct config_paths *paths;
    const struct config_paths *also_kept; /* more that no plugin may see; NULL: none */
    struct kg_str settings;               /* the plugin's configuration, a JSON object, or empty */
    const char *home;         /* the name of its config:/ below plugin-data; NULL: the plugin's */
    const char *project_root; /* NULL: it belongs to no project */
    const char *project_id;   /* of the same, like the next */
    const char *project_file; /* absolute */
    const struct host_covers *covers; /* besides those of its project; NULL: none */
    struct host_covers *ret_guards;   /* what is guarded goes there; NULL: nobody asks */
    const struct host_search *search; /* what was found to be guarded; NULL: it is looked for now */
    bool unguarded;                   /* nobody looks: the plan is not for a cage */
    const struct cage_facts *facts;
    const char *runs_all;          /* a program that may run all of the system; NULL: none */
    const struct cage_tree *trees; /* that its cage has besides; see cage.h */
    size_t tree_count;
    /* Those below config:/ that it may write to, and those that are to be closed to it. */
    bool make_folders;
    bool observed; /* what it tries is told, and which port of which name it wants; see cage.h */
    bool asks;     /* the same, and somebody is asked about each host */
};
struct cage_plan *host_cage_plan(const struct host_cage_parts *parts, struct kg_err *err);
/* Whether what the operator adds to an offer can be given: by the rules of a manifest's own lines.
 * Of the parts manifest, dir and source are those of the offer. */
int host_check_added(struct host_cage_parts parts, const struct store_offer *offer,
                     struct kg_err *err);
/* Whether it reaches into a project, by a capability or where a setting points. */
bool policy_is_of_project(const struct manifest *manifest, const struct capability_set *set,
                          struct kg_str settings);
/* The plan for the next start of what has a manifest; NULL with err. */
struct cage_plan *host_plan(struct host_named named, struct host_covers *ret_guards_or_null,
                            struct kg_err *err);

/* What plugins may ask of the host: one row for each method. See service.c. */
struct host_service {
    const char *method;
    enum capability_kind needs;
    const char *asks;        /* of kaged-storage; NULL: of who made the call, see asks.h: */
    enum host_ask_kind kind; /* of what it is asked then */
};
const struct host_service *host_service_find(struct kg_str method); /* NULL: there is none */
/* Whether a plugin that may do that may ask for it. */
int host_service_check(const struct host_service *service, const struct capability_set *set,
                       struct kg_err *err);
/* What the configuration allows a plugin's database. */
struct storage_limits host_storage_limits(const struct config *config);
/* Whether it may have storage. */
bool host_stores(const struct host_process *process);
/* Its storage; made when it is first asked for. */
struct storage *host_storage(struct host_process *process);
/* Copies its database into the state folder; *ret_path, owned, is where to. */
int host_storage_export(struct host_process *process, storage_done_fn *on_done, void *data,
                        char **ret_path, struct kg_err *err);
/* After damage: lets it start with an empty one. */
int host_storage_reset(struct host_process *process, const char *operator_id, struct kg_err *err);

/* What config.toml grants it, and for which file, a JSON object; fails for what is no script. */
int host_script_write_grants(struct host_named named, struct kg_buf *ret_json, struct kg_err *err);
/* Its grants are for the file of that hash, which must be the one that is there. */
int host_script_approve(struct host_named named, struct kg_str hash, const char *operator_id,
                        struct kg_err *err);

/* What the plugin was refused, as a JSON object, newest first. See why.c. */
void host_why(struct host *host, struct host_named named, host_audit_done_fn *on_done, void *data);

/* -- what is said with a plugin, see trace.c ----------------------------------------------------
 */

struct host_trace_listener {
    struct host_trace_listener *next;
    struct host_process *process;
    /* A record without its time, which is monotonic; dies with the callback. */
    void (*on_record)(struct host_trace_listener *listener, uint64_t at_ns, struct kg_str body);
    /* Nothing more comes: the process is gone for good, or the daemon stops. It listens no more by
     * then. */
    void (*on_end)(struct host_trace_listener *listener);
};
/* KG_E_BUSY: too many do. */
int host_trace_listen(struct host_process *process, struct host_trace_listener *listener,
                      struct kg_err *err);
void host_trace_unlisten(struct host_trace_listener *listener);
/* The first line of a trace; at_ms is the wall clock when its time is 0. */
void host_trace_put_header(struct host_process *process, int64_t at_ms, struct kg_buf *out);
/* Switches the recorder; off forgets what it has. */
void host_trace_record(struct host_process *process, bool on);
const struct trace_ring *host_trace_recorded(const struct host_process *process); /* NULL: off */
/* What was recorded when the plugin last died, and the wall clock of that exit; or NULL. */
const struct trace_ring *host_trace_crash(const struct host_process *process, int64_t *ret_at_ms);

/* -- the one door ------------------------------------------------------------------------------ */

/* error.code is KG_OK on success. Spans die with the callback. */
struct host_reply {
    struct kg_err error;
    struct kg_str result;       /* on success: the bytes that the plugin wrote */
    struct kg_str plugin_error; /* the plugin's own error object, when it answered with one */
    bool names_grant;           /* the error's hint is the command that would allow it */
};
typedef void host_done_fn(void *data, const struct host_reply *reply);
struct host_asked_ops;

struct host_call;
struct host_call_request {
    struct kg_str plugin;
    struct kg_str method;          /* of a tool its name on the wire: PLUGIN.TOOL */
    bool is_tool;                  /* which the plugin offers, and its process for nobody serves */
    bool all_pages;                /* it is a list of MCP's: the result has all of it */
    struct kg_str params;          /* a JSON object, or empty */
    struct host_asker *asker;      /* referred to for as long as it takes */
    uint64_t caller_timeout_ms;    /* 0: none */
    host_done_fn *on_done;         /* called once, never before host_call returns */
    peer_progress_fn *on_progress; /* what the plugin says of it until then; NULL: nobody asks */
    const struct host_asked_ops *asked; /* the caller can be asked; NULL: it cannot. See asks.h */
    void *data;
};
/* NULL with err when the call is refused at once. The handle is valid until on_done or cancel. */
struct host_call *host_call(struct host *host, const struct host_call_request *request,
                            struct kg_err *err);
/* The caller left; on_done is not called. */
void host_call_cancel(struct host_call *call);

#endif
