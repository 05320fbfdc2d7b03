/*
 * The projects that this daemon knows. A project's file is a stranger's: it is read and resolved
 * off the loop, and taken whole or not at all. A project is pending, and takes no sessions, until
 * the operator has let it use every plugin that it declares.
 */
#ifndef KAGED_HOST_PROJECTS_H
#define KAGED_HOST_PROJECTS_H

#include "base/wait.h"
#include "host/host.h"
#include "project/project.h"

enum host_project_state { HOST_PROJECT_PENDING, HOST_PROJECT_ACTIVE };
extern const char *const host_project_state_names[]; /* "pending", "active" */

struct host_project;

size_t host_project_count(const struct host *host);
struct host_project *host_project_at(const struct host *host, size_t index); /* by id, ascending */
/* NULL with KG_E_NOT_FOUND. */
struct host_project *host_project_find(const struct host *host, struct kg_str id,
                                       struct kg_err *err);

struct host_project_facts {
    const char *id;     /* its name */
    const char *root;   /* absolute */
    const char *source; /* "file" or "folder" */
    const char *path;   /* of the file; NULL: it has none */
    enum host_project_state state;
    const char *reason; /* why it is pending; NULL: it is active */
    bool watched;
    int64_t loaded_at_ms;
    size_t sessions;                         /* that are in it now */
    const struct project_resolved *resolved; /* until the next reload; no agents if never read */
    const struct kg_problems *problems;      /* warnings, and what is wrong with its plugins */
    const struct kg_err *reload_problem;     /* why the file could not be taken since; or NULL */
};
struct host_project_facts host_project_facts(const struct host_project *project);

/* -- loading ----------------------------------------------------------------------------------- */

struct host_project_loaded {
    struct host_project *project;
    bool is_new;
    const struct project_changes *changes; /* since it was read last; NULL of a new one */
};
/*
 * Exactly once, never before the call returns: what was loaded, or an error and, if the file is at
 * fault, all that is wrong with it. Everything dies with the callback but the project.
 */
typedef void host_project_fn(void *data, const struct host_project_loaded *loaded_or_null,
                             const struct kg_problems *problems_or_null,
                             const struct kg_err *err_or_null);
/*
 * path is absolute: the root, its .kaged, or the file; or a folder without a .kaged, which is a
 * project by itself. One that is loaded already is read again.
 */
void host_project_load(struct host *host, const char *path, bool watch, const char *operator_id,
                       host_project_fn *on_done, void *data);
void host_project_reload(struct host *host, struct kg_str id, const char *operator_id,
                         host_project_fn *on_done, void *data);
/* KG_E_CONFLICT while sessions are in it, unless forced. Its plugins are told, and end if nobody
 * else wants them. */
void host_project_unload(struct host *host, struct kg_str id, bool force, const char *operator_id,
                         host_acted_fn *on_done, void *data);

/* -- sessions in it ---------------------------------------------------------------------------- */

/*
 * A session begins to be used: the project's plugins are started if they are not. KG_E_REFUSED
 * while it is pending. Each that entered leaves once; a project that was unloaded has no sessions
 * left.
 */
int host_project_enter(struct host *host, struct kg_str id, struct kg_err *err);
void host_project_leave(struct host *host, struct kg_str id);
/*
 * Once, maybe before it returns: when each plugin that is ready for use runs, or has failed to, or
 * limits.initialize_timeout_ms are over. The id and the struct, which is the host's until then,
 * have to last as long, or be withdrawn.
 */
struct host_settling {
    struct kg_wait wait;
    struct host *host;
    const char *project_id;
    struct loop_timer timer;
    bool is_over; /* it waited for long enough */
};
void host_project_when_settled(struct host *host, const char *id, struct host_settling *settling,
                               void (*on_settled)(struct kg_wait *wait, const struct kg_err *err));
void host_settling_withdraw(struct host_settling *settling); /* also of one that does not wait */

/*
 * The process that serves this use of a plugin: the plugin's own, or plugin@project. NULL while
 * there is none.
 */
struct host_process *host_project_process(const struct host_project *project,
                                          const struct project_use *use);
/*
 * What calls for this agent have to carry as _config, since it is not what config.update told last:
 * a JSON object, secrets included. Empty: nothing. Until the next turn of the loop.
 */
struct kg_str host_project_config_for(const struct host_project *project,
                                      const struct project_use *use);

/* Told after each load, reload and unload; NULL project: it is gone. */
struct host_project_listener {
    struct host_project_listener *next;
    void (*on_change)(struct host_project_listener *listener, const char *id,
                      struct host_project *project_or_null);
};
void host_projects_listen(struct host *host, struct host_project_listener *listener);
void host_projects_unlisten(struct host *host, struct host_project_listener *listener);

#endif
