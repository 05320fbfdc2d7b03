/* What the files of projects/ share. */
#ifndef KAGED_PROJECTS_INTERNAL_H
#define KAGED_PROJECTS_INTERNAL_H

#include "host/process.h"
#include "host/watch.h"
#include "projects/projects.h"

#include <stdatomic.h>

/* A plugin that agents of a project use, and the process that serves them. */
struct project_server {
    char *plugin;                  /* owned: its name */
    const struct project_use *use; /* of the first agent that has it */
    bool allowed;                  /* the operator let the project use it */
    enum manifest_process serves;  /* whom a process of it serves here */

    struct kg_buf told;  /* the configuration of the last projects.activated */
    uint32_t told_start; /* which start of the process it went to; 0: none */
};

/* Which folder it is, whatever its name; zeroed: there is none. */
struct project_folder {
    uint64_t device, inode;
    int64_t born_ns; /* since numbers of inodes are used again; 0: the file system does not say */
};

struct project_load;
/* What load, reload, watch and show ask, a row for each kind of project: see source.c. */
struct project_source {
    const char *name;     /* as it is shown */
    bool has_file;        /* that can be edited */
    bool has_root;        /* and is known to kaged.db; one without is loaded again by its owner */
    bool follows_choices; /* it is another one when the operator enables or disables a plugin */
    bool asks_for_reach;  /* nobody declared a plugin for it: who reaches into it needs a yes */
    int (*locate)(const char *path, struct project_location *ret_location, struct kg_err *err);
    struct project *(*read)(struct project_load *load); /* on the worker; NULL: see its problems */
    void (*watch)(
        struct projects_entry *project); /* adds what is watched; NULL: there is nothing */
};
extern const struct project_source project_file_source, project_folder_source, project_state_source;
/* Of one that kaged.db knows. */
const struct project_source *project_source_kept(const char *file);
/* On the worker: where it is and, if nobody knows yet, what it is. */
int project_source_find(struct project_load *load, struct kg_err *err);

struct projects_entry {
    struct host *host;                   /* borrowed */
    const struct project_source *source; /* for as long as it is loaded */
    char *id, *root, *file;              /* owned; file is below the root; "": it has none */
    char *path;                          /* owned; of the file, or the root */
    char *text; /* owned; that it was made of; NULL: of its file or folder */
    struct projects_packages *packages; /* kept; NULL: it has none */
    char *operator_id;                  /* owned; who loaded it; NULL: unknown */
    bool watched;
    bool was_read;      /* since the daemon started */
    bool entered;       /* a session was in it: its plugins run */
    bool refreshing;    /* it is being read again, unasked */
    bool refresh_again; /* and must be once more */
    int64_t loaded_ms;
    struct project_folder folder; /* its .kaged, when it was read last */
    enum projects_state state;
    char *reason; /* owned; NULL: it is active */
    size_t sessions;
    size_t awake;                      /* of them */
    struct project_resolved *resolved; /* owned; of no agents until it was read */
    struct kg_problems problems;       /* owned */
    struct kg_err reload_problem;      /* KG_OK: none */
    struct project_changes *held;      /* owned; what waits for the operator; NULL: nothing */
    struct kg_map
        *exposed; /* owned; hashes, owned, of prompts that a plugin could write, by file */
    struct project_server *servers; /* owned */
    size_t server_count;
    struct kg_buf *configs; /* owned; of each use in order, made when they are asked for */
    size_t config_count;
    struct host_watch *watch; /* owned; NULL: it is not watched */
};

struct project_hook_queue;
struct turning;
struct projects {
    struct host *host;             /* borrowed */
    struct projects_entry **items; /* owned, by id */
    size_t count;
    struct loop_worker *worker;  /* owned; reads them */
    atomic_bool closing;         /* what it has not begun it need not begin */
    size_t loads;                /* asked for and under way */
    size_t jobs;                 /* all that the worker has, and rows that are being kept */
    struct kg_map *awake;        /* owned; sessions that are in use, by id */
    struct kg_map *roots;        /* owned, as its values; where those that are known are, or were */
    struct project_load *failed; /* answered at the end of the turn */
    struct projects_listener *listeners;
    struct consent_listener consents;
    struct projects_tool_call *tool_calls;  /* that are not done; see tool.c */
    struct project_hook_queue *hook_queues; /* owned; of processes that were asked; see hook.c */
    struct turning *turnings; /* of knobs, that wait for the plugin's word; owned; see knob.c */
    struct kg_waits settling; /* who waits for plugins of a project */
    struct kg_waits reading;  /* who waits until each was read once */
    struct loop_task settle_check;
};

/* -- reading, see load.c ----------------------------------------------------------------------- */

enum project_load_kind {
    PROJECT_LOAD_ASKED,   /* by a path */
    PROJECT_LOAD_AGAIN,   /* the operator asked for it to be read again */
    PROJECT_LOAD_REFRESH, /* something that it depends on changed */
};
struct project_load {
    struct loop_job job;
    struct loop_task task;     /* of one that failed at once */
    struct project_load *next; /* of those */
    struct host *host;
    enum project_load_kind kind;
    char *id;   /* owned; of the one that is read again; NULL: whichever it is, until it is taken */
    char *path; /* owned */
    char *text; /* owned; what it is made of, if that is in no file; or NULL */
    struct projects_packages *packages;  /* kept, for that; or NULL */
    const struct project_source *source; /* NULL: whichever it is, until it is read */
    bool watch;
    char *operator_id; /* owned; NULL: nobody asked */
    struct audit_request request;
    projects_fn *on_done;
    void *data;

    char *local_file; /* owned, like the next: the worker touches nothing of the host */
    struct secret_values *secrets; /* one reference; what that file names */
    char **plugins, **dirs;        /* those that the host knows, and their folders */
    char **enabled;                /* owned; packages that are for all projects, and enabled */
    char **texts; /* owned, of each; its manifest, if it is not run from the store, or NULL */
    char **tools; /* beside them: what an MCP server may offer; NULL: its manifest says */
    char **shown; /* beside them: what a package's tools are called by; NULL: it is none */
    struct project_location location;
    struct project_folder folder;
    struct project_resolved *resolved; /* owned until it is taken */
    struct kg_problems problems;       /* the same */
    bool is_new;                       /* no project of that name was there */
    struct project_changes *changes;   /* owned; NULL of a new one */
    char **restarted;                  /* owned; names of processes */
    bool is_files_fault;               /* the problems are what failed */
    struct kg_err err;                 /* KG_OK: it was read */
};
struct project_load *project_load_new(struct host *host, enum project_load_kind kind,
                                      const char *path, struct projects_packages *packages_or_null);
void project_load_free(struct project_load *load);
void project_load_run(struct loop_job *job); /* on the worker */

/* -- one project, see projects.c --------------------------------------------------------------- */

/* Reads it again unasked. */
void project_refresh(struct projects_entry *project);
/* It stays as it was, and says why. */
void project_keep_problem(struct projects_entry *project, const struct project_load *load,
                          const struct kg_err *err);

/* Remembers what its prompts are that a process could write, also for the next daemon. */
void project_note_exposed(struct projects_entry *project);
void project_exposed_read(struct projects *projects); /* before the first is read */
void project_exposed_free(struct projects_entry *project);
/* True if what was read waits for the operator: a plugin may have made it so. See held.c. */
bool project_hold(struct projects_entry *project, struct project_load *load);

/* -- sessions, see sessions.c ------------------------------------------------------------------ */

void project_waiters_open(struct projects *projects);
void project_waiters_close(struct projects *projects); /* they are answered */

/* -- consents, see consents.c ------------------------------------------------------------------ */

/*
 * Makes it active, or pending with what it waits for. The operator is asked for each plugin that it
 * may not use yet; `again`: also if he has answered before.
 */
void project_ask_consents(struct projects_entry *project, bool again, const char *operator_id);
/* Whether the operator lets the project use what is installed. */
bool project_may_use(const struct projects_entry *project, const struct project_use *use);

/* -- plugins, see plugins.c -------------------------------------------------------------------- */

/* It was read again: whoever serves it is told so, even if nothing changed for him. */
void project_tell_again(struct projects_entry *project);
/* Servers, processes, configurations: all as the resolved project wants them. */
void project_apply(struct projects_entry *project);
/* Starts and ends them as the operator and the sessions want it. */
void project_follow(struct projects_entry *project);
/* It is gone, or about to be: its processes are told, and end if nobody else wants them. */
void project_withdraw(struct projects_entry *project);
/* Whether sessions can be served: it is active, or was when they entered it. */
bool project_serves(const struct projects_entry *project);
struct project_server *project_server_find(const struct projects_entry *project,
                                           const char *plugin);
/* The process that serves it, of one that all its sessions share; NULL while there is none. */
struct host_process *project_server_process(const struct projects_entry *project,
                                            const struct project_server *server);
bool project_server_is_used(const struct project_server *server);
void project_servers_free(struct project_server *servers, size_t count);
/* Of the plugin, whatever its processes run by; NULL: it cannot be used. */
const struct manifest *project_manifest(const struct projects_entry *project, const char *name);
/*
 * The process that serves this use of a plugin in a session: the plugin's own, plugin@project, or
 * plugin@session, which is made when it is first asked for. NULL while there is none.
 */
struct host_process *project_process(const struct projects_entry *project,
                                     const struct project_use *use, const char *session_id);
/* The name of the folder below plugin-data that the project's config:/ of the plugin is; owned. */
char *project_home(const struct projects_entry *project, const char *plugin);
/* The session is over, or forgotten: so are the processes that served it alone. */
void project_leave_session(struct projects_entry *project, const char *session_id);

/* What the host asks and tells, see its table of them. */
void projects_look_again(struct projects *projects);
void projects_put_users(const struct projects *projects, const char *plugin,
                        struct kg_json_writer *json);
bool projects_hold(const struct projects *projects, const struct host_process *process);
bool projects_want(const struct projects *projects, const char *plugin,
                   const struct host_whom *whom);
const struct kg_node *projects_config(const struct projects *projects, const char *plugin,
                                      const struct host_whom *whom);
void projects_put(const struct projects *projects, const char *plugin, const struct host_whom *whom,
                  struct kg_json_writer *json);
size_t projects_sessions(const struct projects *projects, const char *plugin);
void projects_moved(struct projects *projects, struct host_process *process);

/* -- packages, see packages.c ------------------------------------------------------------------ */

/* NULL: none. */
const char *project_packages_group(const struct projects_packages *packages_or_null);
size_t project_packages_count(const struct projects_packages *packages_or_null);
/* NULL: it is none of them. */
struct host_package_use *project_package_find(const struct projects_packages *packages_or_null,
                                              const char *plugin);
/* What a load has to know of them; behind the plugins, from that index on. */
void project_packages_list(const struct projects_packages *packages_or_null,
                           struct project_load *load, size_t at);

/* -- configurations, see config.c -------------------------------------------------------------- */

size_t project_count_uses(const struct project_resolved *resolved); /* by all agents together */
void project_forget_configs(struct projects_entry *project);
/*
 * What calls for this agent have to carry as _config, since it is not what config.update told last:
 * a JSON object, secrets included. Empty: nothing. Until the next turn of the loop.
 */
struct kg_str project_config_for(struct projects_entry *project, const struct project_use *use,
                                 struct host_process *process);
/* projects.activated, unless this process was told the same before. */
void project_tell(struct projects_entry *project, struct project_server *server);
void project_tell_gone(struct projects_entry *project, struct project_server *server);

/* -- knobs, see knob.c ------------------------------------------------------------------------- */

void project_knobs_look(struct projects *projects); /* a plugin said something, or is gone */
void project_knobs_end(struct projects *projects);
/* Of one that has a file. Owned. */
struct project_location project_file_location(const struct projects_facts *facts);
/* KG_E_CONFLICT if it has none. */
int project_check_file(const struct projects_facts *facts, struct kg_err *err);
/* A daemon that runs as another user than the project's cannot write everywhere. */
void project_explain_refusal(const struct host *host, struct kg_err *err);

/* -- what changes of files say, see watch.c ---------------------------------------------------- */

/* Watches what the resolved project is made of; ends if it is not watched any more. */
void project_watch_set(struct projects_entry *project);

/* -- the audit log, see audit.c ---------------------------------------------------------------- */

/* Tools and faults that `before` (NULL: nothing) did not have. */
void project_audit_resolved(const struct projects_entry *project,
                            const struct project_resolved *before);

/* -- tools and hooks of agents, see agents.c, tool.c, hook.c ----------------------------------- */

/* Where an agent is now; until the next turn of the loop. */
struct project_place {
    struct projects_entry *project; /* active */
    const struct project_resolved_agent *agent;
};
int project_place_find(const struct host *host, const struct host_asker *asker,
                       struct project_place *ret_place, struct kg_err *err);

/* Something happened to the process that they may wait for. */
void project_tools_look(struct projects *projects, const struct host_process *process);
void project_hooks_look(struct projects *projects, const struct host_process *process);
/* Whether some of them wait for it, or for its answer. */
bool project_tools_hold(const struct projects *projects, const struct host_process *process);
bool project_hooks_hold(const struct projects *projects, const struct host_process *process);
/* The projects, or the process, go away: what is left is answered. */
void project_tools_end(struct projects *projects);
void project_hooks_end(struct projects *projects, const struct host_process *process);

/* A value for a message: JSON, cut; owned. */
char *projects_knob_shown(const struct kg_node *value, bool hidden);

#endif
