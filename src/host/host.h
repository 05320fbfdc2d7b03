/*
 * The host decides: which plugins there are, which may run, and what reaches them. Calls go through
 * one door, call.c, whoever makes them.
 */
#ifndef KAGED_HOST_H
#define KAGED_HOST_H

#include "config/config.h"
#include "manifest/manifest.h"
#include "storage/state/state.h"
#include "storage/storage.h"
#include "supervisor/supervisor.h"

struct host;

struct host_parts {
    struct loop *loop;
    struct cage_spawner *spawner;
    const struct cage_facts *facts; /* NULL: no cage can be built here; no plugin starts */
    const struct kg_err *no_cage;   /* why, then */
    const char *cages;              /* how good cages are here, in words */
    const char *user;               /* whom the daemon runs as */
    const struct config_paths *paths;
    struct config *config;           /* taken over */
    void (*on_reloaded)(void *data); /* after the host took a new configuration */
    void *data;
};
struct host *host_new(const struct host_parts *parts, struct kg_err *err);
/* Finds the plugins and starts those that are enabled. */
void host_start(struct host *host);
/* Stops every plugin gracefully, then calls on_stopped once. A second call kills what is left. */
void host_stop(struct host *host, const char *reason, void (*on_stopped)(void *data), void *data);
void host_free(struct host *host); /* after on_stopped */

struct loop *host_loop(struct host *host);
struct audit *host_audit(struct host *host);
const struct config *host_config(const struct host *host);
const struct config_paths *host_paths(const struct host *host);
int64_t host_started_at_ms(const struct host *host);
bool host_is_stopping(const struct host *host);
/* "full", "degraded: ..." or "none: ..." */
const char *host_cages(const struct host *host);
const char *host_user(const struct host *host); /* whom the daemon runs as */
/* How the cages of this daemon are limited. */
const struct cage_limits *host_limits(const struct host *host);
/* Reads config.toml again, takes it whole or not at all, looks for new plugins. */
int host_reload(struct host *host, const char *operator_id, struct kg_buf *ret_changed_json,
                struct kg_err *err);

/* Grows with each audit event: who follows the log need not read it while this stands still. */
uint64_t host_audit_count(const struct host *host);
/* Asks the audit log, off the loop; on_done gets NDJSON lines, or the error. */
typedef void host_audit_done_fn(void *data, struct kg_str lines, const struct kg_err *err_or_null);
void host_audit_query(struct host *host, const struct audit_filter *filter,
                      host_audit_done_fn *on_done, void *data);

/* -- plugins ----------------------------------------------------------------------------------- */

struct host_plugin {
    struct host *host;         /* borrowed */
    char *name;                /* the folder's; equals the manifest's */
    char *dir;                 /* absolute */
    struct manifest *manifest; /* NULL: invalid */
    struct kg_err problem;     /* why, then */
    struct instance *instance; /* NULL while invalid and never started */
    uint64_t calls, errors;    /* since the daemon started */
    struct storage *storage;   /* NULL until it is asked for */
    struct kg_buf cage_words;  /* of the cage of its last process; empty: never started */
};
size_t host_plugin_count(const struct host *host);
struct host_plugin *host_plugin_at(const struct host *host, size_t index); /* by name, ascending */
struct host_plugin *host_plugin_find(const struct host *host, struct kg_str name,
                                     struct kg_err *err);
/* The word for status: the instance's state, or "disabled" for an invalid manifest. */
const char *host_plugin_state(const struct host_plugin *plugin);

int host_enable(struct host *host, struct kg_str name, const char *operator_id, struct kg_err *err);
int host_disable(struct host *host, struct kg_str name, const char *operator_id,
                 struct kg_err *err);
int host_restart(struct host *host, struct kg_str name, const char *operator_id,
                 struct kg_err *err);

/* -- the cage of a plugin, see policy.c -------------------------------------------------------- */

/* Borrowed. Needs no host, so that a plugin can be looked at before it is installed. */
struct host_cage_parts {
    const struct manifest *manifest;
    const char *dir;         /* of the plugin, without a link in it */
    const char *plugins_dir; /* where plugins are installed */
    const struct config *config;
    const struct config_paths *paths;
    struct kg_str settings;   /* the plugin's configuration, a JSON object, or empty */
    const char *project_root; /* NULL: it belongs to no project */
    const struct cage_facts *facts;
    bool make_folders; /* those below config:/ that it may write to, if they are not there */
};
struct cage_plan *host_cage_plan(const struct host_cage_parts *parts, struct kg_err *err);
/* The plan for the next start of a plugin that has an instance. */
struct cage_plan *host_plugin_plan(struct host *host, const struct host_plugin *plugin,
                                   bool make_folders, struct kg_err *err);

/* The plugin's storage; made when it is first asked for. */
struct storage *host_plugin_storage(struct host_plugin *plugin);
/* Copies its database into the state folder; *ret_path, owned, is where to. */
int host_storage_export(struct host *host, struct host_plugin *plugin, storage_done_fn *on_done,
                        void *data, char **ret_path, struct kg_err *err);
/* After damage: lets it start with an empty one. */
int host_storage_reset(struct host *host, struct host_plugin *plugin, const char *operator_id,
                       struct kg_err *err);

/* What the plugin was refused, as a JSON object, newest first. See why.c. */
void host_why(struct host *host, const struct host_plugin *plugin, host_audit_done_fn *on_done,
              void *data);

/* -- the one door ------------------------------------------------------------------------------ */

/* project_id, agent_path and session_id are all set or all NULL. */
struct host_context {
    const char *operator_id; /* NULL: unknown */
    const char *project_id, *agent_path, *session_id;
    const char *request_id;
};

/* error.code is KG_OK on success. Spans die with the callback. */
struct host_reply {
    struct kg_err error;
    struct kg_str result;       /* on success: the bytes that the plugin wrote */
    struct kg_str plugin_error; /* the plugin's own error object, when it answered with one */
};
typedef void host_done_fn(void *data, const struct host_reply *reply);

struct host_call;
struct host_call_request {
    struct kg_str plugin;
    struct kg_str method;
    struct kg_str params; /* a JSON object, or empty */
    struct host_context context;
    uint64_t caller_timeout_ms; /* 0: none */
    host_done_fn *on_done;      /* called once, never before host_call returns */
    void *data;
};
/* NULL with err when the call is refused at once. The handle is valid until on_done or cancel. */
struct host_call *host_call(struct host *host, const struct host_call_request *request,
                            struct kg_err *err);
/* The caller left; on_done is not called. */
void host_call_cancel(struct host_call *call);

#endif
