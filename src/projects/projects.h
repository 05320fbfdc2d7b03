/*
 * The projects that this daemon knows. A project's file is a stranger's: it is read and resolved
 * off the loop, and taken whole or not at all. A project is pending, and takes no sessions, until
 * the operator has let it use every plugin that it declares.
 */
#ifndef KAGED_PROJECTS_H
#define KAGED_PROJECTS_H

#include "base/wait.h"
#include "config/local.h"
#include "host/hooks.h"
#include "host/host.h"
#include "project/project.h"

/* The host has its projects from then on, and frees them. Before it is started. */
void projects_open(struct host *host);

enum projects_state { PROJECTS_PENDING, PROJECTS_ACTIVE };
extern const char *const projects_state_names[]; /* "pending", "active" */

struct projects_entry; /* one of them */
struct projects_packages;

size_t projects_count(const struct host *host);
struct projects_entry *projects_at(const struct host *host, size_t index); /* by id, ascending */
/* NULL with KG_E_NOT_FOUND; err may be NULL. */
struct projects_entry *projects_find(const struct host *host, struct kg_str id, struct kg_err *err);

struct projects_facts {
    const char *id;     /* its name */
    const char *root;   /* absolute; NULL: it has none */
    const char *source; /* "file", "folder" or "state" */
    const char *path;   /* of the file; NULL: it has none */
    const char *group;  /* of its packages, see projects_packages_new; NULL: it has none */
    enum projects_state state;
    const char *reason; /* why it is pending; NULL: it is active */
    bool watched;
    int64_t loaded_at_ms;
    size_t sessions;                         /* that are in it now */
    const struct project_resolved *resolved; /* until the next reload; no agents if never read */
    const struct kg_problems *problems;      /* warnings, and what is wrong with its plugins */
    const struct kg_err *reload_problem;     /* why the file could not be taken since; or NULL */
    const struct project_changes *held;      /* what waits for the operator's yes; or NULL */
};
struct projects_facts projects_facts(const struct projects_entry *project);

/* -- loading ----------------------------------------------------------------------------------- */

struct projects_loaded {
    struct projects_entry *project;
    bool is_new;
    const struct project_changes *changes; /* since it was read last; NULL of a new one */
    char *const *restarted; /* processes that could write what is the project's own */
};
/*
 * Exactly once, never before the call returns: what was loaded, or an error and, if the file is at
 * fault, all that is wrong with it. Everything dies with the callback but the project.
 */
typedef void projects_fn(void *data, const struct projects_loaded *loaded_or_null,
                         const struct kg_problems *problems_or_null,
                         const struct kg_err *err_or_null);
/*
 * path is absolute: the root, its .kaged, or the file; or a folder without a .kaged, which is a
 * project by itself. One that is loaded already is read again.
 */
void projects_load(struct host *host, const char *path, bool watch, const char *operator_id,
                   projects_fn *on_done, void *data);
/*
 * Of a text as its file would have it, whose name is the id, kept by the caller, who loads it again
 * at each start: there is no folder of it, so no plugin gets a project:/ there, and nothing to
 * watch. One that is loaded is exchanged in one step; calls that are under way end as they began.
 * packages_or_null: those of the catalog that it may use, beside plugins; it has them from then on.
 */
void projects_load_text(struct host *host, const char *id, struct kg_str text,
                        struct projects_packages *packages_or_null, const char *operator_id,
                        projects_fn *on_done, void *data);
void projects_reload(struct host *host, struct kg_str id, const char *operator_id,
                     projects_fn *on_done, void *data);
/* KG_E_CONFLICT while sessions are in it, unless forced. Its plugins are told, and end if nobody
 * else wants them. */
void projects_unload(struct host *host, struct kg_str id, bool force, const char *operator_id,
                     host_acted_fn *on_done, void *data);

/* -- packages of the catalog, see packages.c --------------------------------------------------- */

/*
 * Packages that a project of a text may use, and nobody else: its text names them as the host does.
 * Who has them keeps them; without the last of those their processes end, once their calls are
 * over.
 */
struct host_package_use;
/* group: whose they are. Projects with packages of one group count as one where all share. */
struct projects_packages *projects_packages_new(const char *group);
/* The use is theirs from then on. shown: what agents know it by. */
void projects_packages_add(struct projects_packages *packages, const char *shown,
                           struct host_package_use *use);
struct projects_packages *projects_packages_keep(struct projects_packages *packages_or_null);
void projects_packages_drop(struct projects_packages *packages); /* takes NULL */

/* -- adding a plugin, see add.c ---------------------------------------------------------------- */

struct projects_addition {
    struct kg_str project, agent, plugin; /* the last by its name, or by its package */
    const char *operator_id;
};
/* Its file is changed, and it is read again. on_done comes only if this returns 0. */
int projects_add_plugin(struct host *host, const struct projects_addition *wanted,
                        projects_fn *on_done, void *data, struct kg_err *err);

/* -- sessions in it ---------------------------------------------------------------------------- */

/*
 * A session begins to be used: the project's plugins are started if they are not. KG_E_REFUSED
 * while it is pending. Each that entered leaves once; a project that was unloaded has no sessions
 * left.
 */
int projects_enter(struct host *host, struct kg_str id, struct kg_err *err);
void projects_leave(struct host *host, struct kg_str id, const char *session_id);
/* A session that entered is in use from now on, or rests: plugins need not run for it. */
void projects_rouse(struct host *host, struct kg_str id, const char *session_id, bool is_awake);
/*
 * Once, maybe before it returns: when each plugin that is ready for use runs, or has failed to, or
 * limits.initialize_timeout_ms are over. The id and the struct, which is the host's until then,
 * have to last as long, or be withdrawn.
 */
struct projects_settling {
    struct kg_wait wait;
    struct host *host;
    const char *project_id;
    const char *session_id; /* whose scripts that leave are waited for, too; or NULL */
    struct loop_timer timer;
    bool is_over; /* it waited for long enough */
};
void projects_when_settled(struct host *host, const char *id, const char *session_id_or_null,
                           struct projects_settling *settling,
                           void (*on_settled)(struct kg_wait *wait, const struct kg_err *err));
void projects_settling_withdraw(
    struct projects_settling *settling); /* also of one that does not wait */

/*
 * Whether each of them was read, or could not be: until then one that is known from the last run of
 * the daemon has no agents. Who waits is told when the daemon stops, too.
 */
bool projects_are_read(const struct host *host);
void projects_when_read(struct host *host, struct kg_wait *wait,
                        void (*on_read)(struct kg_wait *wait, const struct kg_err *err));

/* Told after each load, reload and unload; NULL project: it is gone. */
struct projects_listener {
    struct projects_listener *next;
    void (*on_change)(struct projects_listener *listener, const char *id,
                      struct projects_entry *project_or_null);
};
void projects_listen(struct host *host, struct projects_listener *listener);
void projects_unlisten(struct host *host, struct projects_listener *listener);

/*
 * What agents ask of their plugins: tools and hooks, by the way of the one door. Who asks names
 * project, agent and session; which plugin that means is looked up at each call.
 */

/* -- tools, see tool.c ------------------------------------------------------------------------- */

/*
 * error.code is KG_OK if the plugin answered with a result. `blocked`: the plugin could not be
 * reached (down, starting for too long, timed out, unloaded), and error says why; other errors are
 * the caller's (no such tool for this agent, arguments that do not fit the schema) or the plugin's
 * own answer. Spans die with the callback.
 */
struct projects_tool_reply {
    struct kg_err error;
    bool blocked;
    struct kg_str result;       /* JSON, at most limits.tool_result_bytes */
    struct kg_str plugin_error; /* its own error object */
    bool names_grant;           /* as of a call */
    const char *plugin;         /* whose tool it is; NULL: nobody's */
};
struct projects_tool_request {
    struct host_asker *asker; /* an agent's; referred to for as long as it takes */
    /* Both last until on_done or the cancel. */
    struct kg_str tool; /* "memory-markdown.recall", or "memory-markdown__recall" as models do */
    struct kg_str arguments; /* a JSON object, or empty */
    void (*on_done)(void *data,
                    const struct projects_tool_reply *reply); /* once, never before return */
    peer_progress_fn *on_progress; /* what the plugin says of it until then; NULL: nobody asks */
    const struct host_asked_ops *asked; /* see host/asks.h; NULL: the caller cannot be asked */
    void *data;
};
struct projects_tool_call;
struct projects_tool_call *projects_tool_call(struct host *host,
                                              const struct projects_tool_request *request);
void projects_tool_cancel(struct projects_tool_call *call); /* on_done is not called */

/* -- hooks, see hook.c ------------------------------------------------------------------------- */

/* What one plugin made of a hook. Everything dies with the callback. */
struct projects_hook_answer {
    const char *plugin;                    /* its own name, as delimiters have it */
    const char *use;                       /* the agent's word for it */
    struct kg_err error;                   /* KG_OK: it answered; else why that counts as null */
    const struct host_hook_result *result; /* an observer's, read and checked; empty if null */
    struct kg_str raw; /* the designated plugin's, as it came; empty: it has not answered */
};
struct projects_hook_fire {
    enum manifest_hook hook;
    struct host_asker *asker; /* as that of a tool */
    struct kg_str params;     /* a JSON object for each plugin; empty: none */
    const char *designated;   /* the agent's word for the one that gets the next; NULL: none */
    struct kg_str designated_params;
    /* Once, never before projects_hook_fire returns, with one answer for each plugin that was
     * asked. */
    void (*on_done)(void *data, const struct projects_hook_answer *answers, size_t count);
    void *data;
};
/*
 * Asks every plugin of the agent that subscribes to the hook, in the order of the project's file,
 * without waiting for one before the next is asked. Each plugin answers one hook at a time; the
 * deadline counts from here. A plugin that is starting is waited for that long.
 */
struct projects_hook_round;
struct projects_hook_round *projects_hook_fire(struct host *host,
                                               const struct projects_hook_fire *fire);
void projects_hook_cancel(struct projects_hook_round *round); /* on_done is not called */

/* -- knobs, see knob.c ------------------------------------------------------------------------- */

/*
 * Settings of a plugin that its manifest lets the operator turn. A value is written into the
 * project's file, for one agent, if it is within the knob's own bounds and fits the plugin's
 * config_schema; then the project is read again, and the plugin is told.
 */

/* Whose knobs: a plugin's, by itself or as an agent of a project has it. */
struct projects_knobs {
    const char *name, *plugin;       /* as it is found by, and the plugin's own; like the next */
    const struct manifest *manifest; /* that declares them; until the next turn of the loop */
    struct projects_entry *project;  /* NULL, like the next two: by itself */
    const struct project_resolved_agent *agent; /* until the next reload of the project */
    const struct project_use *use;
    struct kg_doc *settings; /* owned; of a plugin by itself, or NULL */
};
/* KG_E_NOT_FOUND: no such plugin, project or agent, or the agent does not declare the plugin. */
int projects_knobs_find(struct host *host, struct kg_str plugin, struct kg_str project_or_none,
                        struct kg_str agent_path, struct projects_knobs *ret_knobs,
                        struct kg_err *err);
void projects_knobs_free(struct projects_knobs *knobs); /* also for kg_auto */
/* NULL with KG_E_NOT_FOUND, and the nearest name. */
const struct manifest_knob *projects_knob_find(const struct projects_knobs *knobs,
                                               struct kg_str name, struct kg_err *err);

struct projects_knob_value {
    const struct kg_node *node; /* NULL: hidden */
    const char *origin;         /* of project_origin_names; "knob": what it declares itself */
    bool hidden;                /* its schema calls it sensitive */
};
struct projects_knob_value projects_knob_value(struct host *host,
                                               const struct projects_knobs *knobs,
                                               const struct manifest_knob *knob);

/* Once, never before the call returns. Everything dies with the callback. */
typedef void projects_knob_fn(void *data, struct kg_str changes_json,
                              const struct kg_err *err_or_null);
struct projects_knob_write {
    const struct kg_node *value; /* null: back to what it is without the agent's word */
    const char *operator_id, *request_id;
    projects_knob_fn *on_done; /* not called if the write is refused at once */
    void *data;
};
int projects_knob_write(struct host *host, const struct projects_knobs *knobs,
                        const struct manifest_knob *knob, const struct projects_knob_write *write,
                        struct kg_err *err);

/* -- a value by itself, see knob_check.c ------------------------------------------------------- */

struct projects_knob_check {
    const struct manifest_knob *knob;
    const struct kg_node *value;
    const struct local *local; /* where aliases of models are; NULL: there are none */
    bool hidden;               /* errors must not show it */
};
/* Whether it is within the knob's own bounds; KG_E_INVALID_PARAMS names the one that it is not. */
int projects_knob_check(const struct projects_knob_check *check, struct kg_err *err);

#endif
