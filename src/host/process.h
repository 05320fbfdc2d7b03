/*
 * Processes for those whom they serve, and the door for their calls. Projects lie above the host:
 * they ask here, and the host asks them by a table that they hand down.
 */
#ifndef KAGED_HOST_PROCESS_H
#define KAGED_HOST_PROCESS_H

#include "host/host.h"

/* -- whom they serve --------------------------------------------------------------------------- */

/* Whom a process serves. */
enum host_whom_kind { HOST_NOBODY, HOST_PROJECT, HOST_SESSION, HOST_ORG };
struct host_whom {
    enum host_whom_kind kind;
    const char *id;      /* of the project, the session or the org's settings; NULL of nobody, like
                            all that follows */
    const char *project; /* the same, or the one that the session is in */
    const char *root;    /* of the project */
    const char *file;    /* of the project; absolute */
    const char *org;     /* whose settings they are; NULL of all others */
};
extern const struct host_whom host_nobody;

/* The projects of the host, which only hands them on. */
struct projects;
struct host_project_ops {
    /* From the daemon's start to its end. */
    void (*start)(struct projects *projects); /* the plugins are there */
    void (*stop)(struct projects *projects);  /* nothing new begins */
    bool (*busy)(const struct projects *projects);
    void (*close)(struct projects *projects); /* ends its workers; waiting callers are answered */
    void (*free)(struct projects *projects);  /* no plugin is left */
    /* Plugins or local.toml are others now. */
    void (*refresh)(struct projects *projects);
    void (*chosen)(struct projects *projects);     /* a plugin was enabled or disabled */
    void (*look_again)(struct projects *projects); /* a process is gone that one may want again */
    /* Whether something of theirs needs the process at this moment, in which it has no call. */
    bool (*hold)(const struct projects *projects, const struct host_process *process);
    /* Whether one that is in use needs the plugin's process for these. */
    bool (*want)(const struct projects *projects, const char *plugin, const struct host_whom *whom);
    /* What the one project gives it that such a process serves; NULL: none, or several do. */
    const struct kg_node *(*config)(const struct projects *projects, const char *plugin,
                                    const struct host_whom *whom);
    /* The ids of those that such a process serves, as strings of an open list. */
    void (*put)(const struct projects *projects, const char *plugin, const struct host_whom *whom,
                struct kg_json_writer *json);
    /* Tells the root of each, also of those that could not be read yet. */
    void (*roots)(const struct projects *projects, void (*on_root)(void *data, const char *root),
                  void *data);
    /* The same of all that use the plugin, by whichever process. */
    void (*put_users)(const struct projects *projects, const char *plugin,
                      struct kg_json_writer *json);
    /* How many sessions use the plugin now. */
    size_t (*sessions)(const struct projects *projects, const char *plugin);
    /* Something happened to the process that somebody may wait for. */
    void (*moved)(struct projects *projects, struct host_process *process);
    void (*gone)(struct projects *projects, struct host_process *process);
};
/* Once, before the host is started; it frees them. */
void host_set_projects(struct host *host, const struct host_project_ops *ops,
                       struct projects *projects);
struct projects *host_projects(const struct host *host);
/* Something ended that a host which stops may have waited for. */
void host_look_for_stop(struct host *host);

/* -- processes --------------------------------------------------------------------------------- */

struct host_plugin *host_plugin_find(const struct host *host, struct kg_str name);
/* Reads what may be another now, and tells its configuration to the processes that run. */
void host_plugin_refresh(struct host_plugin *plugin);
/* What the operator said of a plugin, or of its process in a project. */
enum state_choice host_choice(const struct host *host, const char *name);
/* Whether he enabled it, there or in config.toml. */
bool host_is_enabled(const struct host *host, const char *name);

/* Whether it may read or write in the folders of projects that say nothing else of it. */
bool host_plugin_reaches_projects(const struct host_plugin *plugin);
/* Whether its server was never seen to list any, and none were approved. */
bool host_tools_are_unknown(const struct host_plugin *plugin);
/* Whom its processes serve, in that project, when configured so; the plugin has a manifest. */
enum manifest_process host_plugin_serves(const struct host_plugin *plugin,
                                         const char *project_or_null, struct kg_str settings);

/* Whether each of its processes has a config:/ of its own. */
bool host_plugin_parts_homes(const struct host_plugin *plugin);

struct host_process *host_process_find(const struct host_plugin *plugin,
                                       const struct host_whom *whom);
/* Each of all plugins in turn: NULL asks for the first, and is after the last. */
struct host_process *host_process_after(const struct host *host,
                                        const struct host_process *process_or_null);
/* The plugin has a manifest, and no process that serves the same. */
struct host_process *host_process_add(struct host_plugin *plugin, const struct host_whom *whom);
struct host_status host_process_status(struct host_process *process);
/* Whether it may run: the operator's word, or else that of the projects in use. */
bool host_process_is_allowed(const struct host_process *process);
/* The same, and it should: one that runs only while it is used is in use. */
bool host_process_is_wanted(const struct host_process *process);
/* Somebody needs it: it is started if it does not run and may. See use.c. */
void host_process_use(struct host_process *process);
/* It does not run yet, and that it will is decided. */
bool host_process_is_starting(const struct host_process *process);
/* Starts or ends it as host_process_is_wanted says. */
void host_process_follow(struct host_process *process);
void host_process_leave(struct host_process *process); /* it ends, and is gone then */

/*
 * The path is closed to every cage from now on: processes that could write there are restarted, and
 * their names added to the list, which may be NULL. replaced: another folder has its name now, and
 * those that see the old one are restarted, too. See covers.c.
 */
void host_cover(struct host *host, const char *path, bool replaced, char ***names);
/* Whether a process that runs, or ran, may write there; their names are added, each once. */
bool host_could_write(const struct host *host, const char *path, char ***names);

/* False: what the operator configured for it names something that is not known. */
bool plugin_config_is_known(const struct host *host, const struct manifest *manifest);
/* What a project gives a plugin, which was checked, and the operator's secrets; appended. */
void plugin_config_merge(const struct host *host, const struct manifest *manifest,
                         const struct kg_node *project, struct kg_buf *ret_json);

/* A host that stops waits for the job, which says on the loop that it is done. */
void host_store_job(struct host *host, struct loop_job *job);
void host_store_job_done(struct host *host);

/* What a call brings, or its answer has, as it may be shown; see trace.c. */
void host_trace_put_payload(struct host_process *process, const char *method, bool is_params,
                            struct kg_str json, struct kg_buf *ret_json);

/* -- scripts, see script.c --------------------------------------------------------------------- */

bool host_plugin_is_script(const struct host_plugin *plugin);
bool host_process_is_script(const struct host_process *process);
/* The next by name: NULL asks for the first, and is after the last. */
struct host_plugin *host_script_after(const struct host *host,
                                      const struct host_plugin *script_or_null);
bool host_script_is_enabled(const struct host_plugin *script); /* and can be used */
/* What a process of a script registered: commands, tools, events; NULL: nothing. */
const struct kg_node *host_script_offers(const struct host_process *process);
/* Whether it runs, and asked for that event. */
bool host_script_hears(const struct host_process *process, const char *event);
/* Whether it is granted to: some events have words of the conversation. */
bool host_script_may_hear(const struct host_process *process, const char *event);
/* The process of that conversation, if it runs, and the name, whose script offers such a tool. */
struct host_process *host_script_with_tool(const struct host *host, const char *session_id,
                                           struct kg_str tool);
/* Into a JSON list of an agent's tools: those of scripts, and what they want to be otherwise. */
void host_script_put_tools(const struct host *host, const char *session_id, struct kg_buf *tools);
/* By which name a tool is called that a model calls so; is_known: a plugin has one of that name. */
void host_script_put_called(const struct host *host, const char *session_id, struct kg_str called,
                            bool is_known, struct kg_buf *ret_name);
/* What a script asks of the daemon, see script_service.c; HACKING.md tells how to add to it. */
struct host_script_request;
#define SCRIPT_POWER(power) (1U << (power))
struct host_script_service {
    const char *method; /* "script.exec", on the wire */
    const char *call;   /* "kage.exec", in messages */
    unsigned powers;    /* SCRIPT_POWER of each that it takes; 0: every script may ask it */
    /* Answers once, then or later. The params, an object of a stranger's, die when it returns. */
    void (*serve)(struct host_script_request *request, const struct kg_node *params, void *data);
};
/* Rows that are served by those who lie above; borrowed. NULL: they leave. */
void host_set_script_services(struct host *host, const struct host_script_service *services_or_null,
                              size_t count, void *data);
/* Both end the request: it is gone. */
void host_script_reply(struct host_script_request *request, struct kg_str json);
void host_script_fail(struct host_script_request *request, const struct kg_err *err);
/* The process may be gone when it is looked at later; whom it serves stays. */
struct host_process *host_script_asker(const struct host_script_request *request);
const struct host_whom *host_script_whom(const struct host_script_request *request);
/* Which start of the process this is; 0: it does not run, or is about to be exchanged. */
uint32_t host_script_start(const struct host_process *process);

/* What changed of its file counts between the turns of its conversation. */
void host_process_in_turn(struct host_process *process, bool in_turn);

/* -- the one door, see call.c ------------------------------------------------------------------ */

/* What sort of call it is: how its result is read, and which events tell of it. */
struct host_call_kind {
    enum dialect_act act;
    /* What it refuses is the call's error. NULL: any result will do. */
    int (*take)(const struct host_call *call, struct kg_str result, struct kg_err *err);
    void (*audit_sent)(const struct host_call *call);
    void (*audit_ended)(const struct host_call *call, const struct host_reply *reply,
                        int64_t duration_ms);
};
extern const struct host_call_kind host_method_kind;
extern const struct host_call_kind host_tool_kind; /* its result_schema is of structuredContent */
void host_audit_called(const struct host_call *call);
void host_audit_returned(const struct host_call *call, const struct host_reply *reply,
                         int64_t duration_ms);
void *host_call_data(const struct host_call *call); /* of whoever made it */

/* One request to a plugin's process. Schemas live in its manifest; the kind is static. */
struct host_passage {
    struct host_process *process;
    struct kg_str method;
    struct kg_str params;    /* a JSON object, or empty */
    bool params_are_checked; /* by host_check_params: once is enough for several plugins */
    struct kg_str config;    /* a JSON object for _config; empty: none */
    struct host_asker *asker;
    const struct schema *params_schema, *result_schema; /* NULL: anything goes */
    uint64_t timeout_ms;                                /* past it the plugin hangs; 0: never */
    uint64_t caller_timeout_ms;                         /* 0: none */
    const struct host_call_kind *kind;
    host_done_fn *on_done;              /* called once, never before host_pass returns */
    peer_progress_fn *on_progress;      /* or NULL */
    const struct host_asked_ops *asked; /* or NULL; see asks.h */
    void *data;
};
/* NULL with err when it is refused at once. */
struct host_call *host_pass(struct host *host, const struct host_passage *passage,
                            struct kg_err *err);
int host_check_params(struct kg_str params, struct kg_err *err);
/* What the manifest says (0: nothing), or else the configuration. */
uint64_t host_call_timeout_ms(const struct host *host, uint64_t manifest_ms);

#endif
