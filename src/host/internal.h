/* What the files of host/ share. */
#ifndef KAGED_HOST_INTERNAL_H
#define KAGED_HOST_INTERNAL_H

#include "config/local.h"
#include "helper/helper.h"
#include "host/asks.h"
#include "host/process.h"
#include "host/watch.h"

/* A file of Lua that is a plugin; see script.c, and script_grants.c for what it may do. */
struct host_script {
    char *path; /* owned */
    struct kg_buf source;
    char hash[STORE_HASH_TEXT];         /* of the source; "": it was never read */
    char refused_hash[STORE_HASH_TEXT]; /* that was told to be without grants last */
    struct kg_err notice;               /* why it runs without its grants; KG_OK: it does not */
};

struct host {
    struct loop *loop; /* borrowed */
    const struct config_paths *paths;
    struct config *config;          /* owned */
    struct local *local;            /* owned */
    struct state_cluster *shared;   /* owned; NULL: all of the state is in kaged.db */
    struct cluster *nodes;          /* owned; the same */
    struct state_keeper *keeper;    /* owned; all that outlives the daemon goes there */
    struct kg_map *choices;         /* owned; see choices.c */
    struct kg_map *failures;        /* owned, like its texts: why processes failed; the same */
    struct audit *audit;            /* owned */
    struct audit_listener listener; /* counts events and passes them on */
    struct host_events *events;     /* owned */
    uint64_t audit_count;
    struct loop_worker *reader;       /* owned; reads files for questions */
    bool verifies;                    /* it checks the whole audit log */
    char *plugins_dir;                /* owned */
    const struct cage_facts *facts;   /* borrowed; NULL: see no_cage */
    struct kg_err no_cage;            /* KG_OK: cages can be built */
    const struct cage_checks *checks; /* borrowed */
    const char *cages, *user;         /* borrowed */
    struct gate *gate;                /* owned; NULL without cages */
    struct storage_place storage;
    char *storage_dir; /* owned; borrowed by the place */
    struct supervisor supervisor;
    const struct host_project_ops *project_ops; /* of those who lie above, like the next */
    struct projects *projects;                  /* owned; NULL until they are set */
    struct consent_queue *consents;             /* owned */
    struct work *fetches;                       /* of consents.c; owned by what is under way */
    struct host_dev *devs;        /* owned; runs of plugins that their authors change */
    struct host_scripts *scripts; /* owned; see script.c */
    struct kg_map *script_hashes; /* owned, like its texts: the files that grants are for */
    const struct host_script_service *script_services; /* of those who lie above */
    size_t script_service_count;
    void *script_service_data;
    struct host_script_run *script_runs; /* owned; see script_run.c */
    struct forward *forward; /* owned; see forward.c; NULL: the audit log is not sent on */
    struct host_script_net *script_net; /* owned; see script_http.c; NULL: nobody asked yet */
    struct host_plugin **plugins;       /* one reference each, sorted by name */
    size_t plugin_count;
    struct store *store;              /* owned */
    struct loop_worker *store_worker; /* owned; does what blocks */
    struct secret_places secret_places;
    struct secret_values *secrets;     /* one reference */
    struct loop_worker *secret_worker; /* owned; NULL until it is needed */
    size_t secret_jobs;                /* that it has */
    struct loop_worker *search_worker; /* owned; NULL until it is needed */
    size_t search_jobs;                /* that it has */
    size_t store_jobs;                 /* that it has, or will have */
    size_t change_count;               /* of the store, that are not done */
    struct host_call *unused_calls;    /* kept for reuse */
    struct host_door *door;            /* owned; see call.c */
    struct kg_buf context;             /* of the call that is being sent; kept for its memory */
    int64_t started_at_ms;
    uint32_t start_settings; /* grows when a setting changes that applies at a plugin's start */
    struct host_figures figures;
    struct loop_timer lag_timer; /* asks how late it is */
    uint64_t lag_due_ns;         /* 0: it does not run */
    struct audit_listener meter_listener;

    void (*on_reloaded)(void *data);
    void (*on_reloading)(void *data, bool begins);
    void *on_reloaded_data;

    struct loop_task leave_check; /* removes what has left */
    bool stopping;
    bool closing; /* host_free has begun */
    char *stop_reason;
    void (*on_stopped)(void *data);
    void *on_stopped_data;
    struct loop_task stop_check;
};

/* -- what the operator said, see choices.c ----------------------------------------------------- */

int host_choices_open(struct host *host, struct kg_err *err);
/* Counts once it is kept, before on_done. NULL: a failure is logged. */
void host_choose(struct host *host, const char *name, enum state_choice choice,
                 host_acted_fn *on_done, void *data);
/* Why it failed, so that the next daemon does not start it either; NULL: that is forgotten. */
void host_set_failure(struct host *host, const char *process, const char *reason_or_null);
const char *host_failure(const struct host *host, const char *process); /* NULL: it did not fail */
void host_choices_free(struct host *host);
/* The store has made kaged.db forget what was said of it, and where it may be used. */
void host_choices_removed(struct host *host, const char *name);

/* -- plugins, see plugin.c --------------------------------------------------------------------- */

struct host_plugin {
    struct host *host;         /* borrowed */
    uint32_t references;       /* of the host's list, of its processes, of checks */
    char *name;                /* its folder's, which equals the manifest's */
    char *dir;                 /* absolute; where its files are, see store_place */
    char *seen_dir;            /* plugins/NAME: where it sees them, if they are the store's */
    struct manifest *manifest; /* owned; as it was read last; NULL: it never could be */
    struct grants grants;      /* what it may do for nobody in particular */
    struct kg_err problem;     /* why it could not be used when it was read last; KG_OK: it can */
    struct kg_err drift;  /* why its files may not be started; KG_OK: nobody knows of a reason */
    struct host_dev *dev; /* whose folder it is run from; NULL: from the store */
    struct host_script *script;     /* owned; the file that it is; NULL: it is no script */
    struct host_package *package;   /* owned; see package.c; NULL: it is none of the catalog */
    struct host_tools *tools;       /* owned; those that it tells of; NULL: its manifest has them */
    struct loop_task tools_task;    /* has its author's processes start with what they listed */
    struct host_change *change;     /* that owns it now, or NULL */
    bool leaving;                   /* it is not in the store, and nobody runs it from elsewhere */
    bool gone;                      /* it is in no list: what is left are references */
    struct host_process *processes; /* one reference each; nobody's first, then by whom */
};
/* Lists what is not known yet: folders in the store; a plugin that is not in the store. */
void host_find_plugins(struct host *host);
struct host_plugin *host_plugin_add(struct host *host, const char *name);
/* It is gone from the store, and its processes have neither a process nor storage. */
void host_plugin_remove(struct host_plugin *plugin);
void host_plugins_free(struct host *host);
struct host_plugin *host_plugin_keep(struct host_plugin *plugin);
void host_plugin_drop(struct host_plugin *plugin);
/* The same of both; who keeps them asks whether they are gone when he comes back. */
struct host_named host_keep(struct host_named named);
void host_drop(struct host_named named);
bool host_is_gone(struct host_named named);
/* Whose folder it is run from; NULL: the store's. */
void host_plugin_move(struct host_plugin *plugin, struct host_dev *dev_or_null);

struct manifest *host_read_manifest(struct host_plugin *plugin, struct kg_err *err);
/* Reads its manifest again, and whether its configuration fits; on failure it keeps the reason. */
int host_plugin_read(struct host_plugin *plugin);
/*
 * The same, and sees to its processes: those that do not run are started with it next. One that
 * runs goes on with what it was started with, since its calls point into that.
 */
int host_plugin_load(struct host_plugin *plugin);
/* Fails if nothing of it can be started, whoever wants it. */
int host_check_startable(const struct host_plugin *plugin, struct kg_err *err);

/* -- processes, see process.c ------------------------------------------------------------------ */

/* How a process is made, and what is spoken with it: a row of tier.c. */
struct host_tier {
    const char *name;
    const char *dialect;
    struct cage_plan *(*plan)(const struct host_cage_parts *parts, struct kg_err *err);
    /* What it is configured with, as it is told in the greeting. */
    void (*settings)(struct host_process *process, const struct manifest *manifest,
                     struct kg_buf *ret_json);
    void (*on_tools)(struct host_process *process); /* it told of them, or of something new */
    /* A request that is none of the host's services; false: there is no such. NULL: never. */
    bool (*serve)(struct host_process *process, int64_t id, struct kg_str method,
                  struct kg_str params);
    /* Its configuration is filled into its command and environment: a change needs a new start. */
    bool words_have_settings;
    bool lists_tools;     /* when it runs, for the operator to approve; its manifest has none */
    bool is_stored;       /* the store has its files, in the version that was approved */
    bool has_one_storage; /* for all its processes */
    /*
     * It runs in conversations alone, in each as long as that is open, since its variables are in
     * memory; scripts.processes_max bounds them.
     */
    bool joins_sessions;
};
const struct host_tier *host_tier_of(const struct manifest *manifest);
const struct host_tier *host_plugin_tier(const struct host_plugin *plugin); /* read or not */

/* What a process is to the host, and what moves it from one to the other: see standing.c. */
enum host_standing {
    HOST_RESTS,   /* nobody wants it to start, or it may not */
    HOST_CHECKED, /* its files are being compared in full with what was approved */
    HOST_STARTS,  /* they are what was approved, and the start follows at once */
    HOST_ENABLED, /* it is the supervisor's: it runs, or failed to */
    HOST_HELD,    /* a change of the store has its plugin; who starts and ends it is the change */
    HOST_TRIED,   /* the same, and it has to run before the change counts as done */
    HOST_LEAVES,  /* whom it serves is gone, and so is it once nothing of it is left */
    HOST_GONE,
    HOST_STANDING_COUNT
};
enum host_standing_event {
    HOST_ON_WANTED,   /* the operator or a project in use wants it to run */
    HOST_ON_UNWANTED, /* nobody does */
    HOST_ON_UNUSED,   /* it may run, and nobody needs it for now */
    HOST_ON_CHECK,    /* a check in full has begun */
    HOST_ON_CHECKED,  /* it is over, and nothing came of it */
    HOST_ON_APPROVED, /* its files are what was approved, and it shall start */
    HOST_ON_RESTART,  /* the same, and what runs shall end first */
    HOST_ON_STARTED,  /* the supervisor has it */
    HOST_ON_HELD,     /* a change has its plugin */
    HOST_ON_TRIED,    /* and will have to see it run */
    HOST_ON_FREED,    /* the change is done */
    HOST_ON_LEFT,     /* whom it serves, or its plugin, is gone */
    HOST_ON_ENDED,    /* nothing of it runs, and its storage is closed */
    HOST_STANDING_EVENT_COUNT
};
void host_process_raise(struct host_process *process, enum host_standing_event event);

struct host_process {
    struct host_plugin *plugin; /* one reference */
    struct host_process *next;  /* of the plugin */
    uint32_t references;        /* of the plugin's list, of checks, of those who measure */
    const struct host_tier *tier;
    char *name; /* in status, logs, metrics, events and routes */
    size_t name_length;
    struct host_whom whom;         /* its texts are owned */
    struct manifest *manifest;     /* one reference; of the version that it was started with */
    char *dir;                     /* owned; of the plugin when that was read */
    struct store_version *version; /* owned; what it was started from last; NULL: not the store's */
    struct grants grants;          /* what it may do */
    enum host_standing standing;
    struct instance *instance; /* NULL: it is gone */
    struct host_usage usage;
    struct storage *storage;            /* NULL until it is asked for */
    uint32_t start_settings;            /* of the host, when it was started last */
    struct kg_buf cage_words;           /* of the cage of its last start; empty: never started */
    char **sees;                        /* owned; the same: see cage_plan_sees */
    struct host_guarded *guarded;       /* owned; NULL: nothing of it is watched */
    char **quarantined;                 /* owned; NULL until something was */
    struct host_search *search;         /* owned, once it is over; NULL: none */
    unsigned quarantine_count;          /* of what was moved away since it was enabled */
    struct host_trace *trace;           /* owned; NULL until somebody asks for it; see trace.c */
    struct redact_set *secrets;         /* owned; what of it must not be shown */
    struct kg_doc *registered;          /* owned; what a script told of itself; NULL: nothing */
    char set_hash[STORE_HASH_TEXT];     /* of the script that it is set to run; "": none */
    char started_hash[STORE_HASH_TEXT]; /* of the one that was meant at its last start */
    struct kg_err load_problem; /* of a script that raised while it was loaded; KG_OK: none */
    bool in_turn;               /* of its conversation: it is not exchanged until that is over */

    bool in_use;                         /* of one that runs only while it is used: see use.c */
    uint64_t used_ns;                    /* when its last call began or ended */
    int64_t idle_since_ms;               /* wall clock; 0: it never ended because nobody used it */
    struct loop_timer idle_timer;        /* looks whether it is used while it runs */
    struct host_waiting *waiting;        /* calls that came before it ran; owned */
    struct host_subscriber *subscribers; /* to its resources; see offers.c */
    struct host_call *sent;              /* calls that it has not answered, the newest first */
    struct loop_task wait_check;         /* looks whether they can be sent */
};
/* What may have ended, of those that leave, is removed at the end of the turn. */
void host_look_for_left(struct host *host);
/* Something happened to it that projects, or their agents, may wait for. */
void host_tell_projects(struct host_process *process);
/* It, or its storage, is in another state: whoever waits for its end looks. */
void host_process_moved(struct host_process *process);
/* Takes it out of its plugin's list. Nothing of it runs, and its storage is closed. */
void host_process_remove(struct host_process *process);
struct host_process *host_process_keep(struct host_process *process);
void host_process_drop(struct host_process *process);
/* It will be started with the plugin's manifest, which fits, and the settings of whom it serves. */
void host_process_load(struct host_process *process);
void host_process_configure(struct host_process *process, struct kg_str settings);
/* Tells it its configuration anew, if it runs. */
void host_process_refresh(struct host_process *process);
/* Something of it runs, or its storage is open, which is closed then. */
bool host_process_is_busy(struct host_process *process);
void host_process_kill(struct host_process *process); /* with its storage */
void host_plugin_follow(struct host_plugin *plugin);  /* all of its processes */

/* -- scripts, see script.c --------------------------------------------------------------------- */

/* Finds new files, reads those again that are there, and lets go of the others; watches from then
 * on. */
void host_find_scripts(struct host *host);
void host_scripts_free(struct host *host);
void host_script_free(struct host_script *script); /* takes NULL */
const char *host_scripts_dir(const struct host_scripts *scripts);
/* Reads its file; NULL with the reason. */
struct manifest *host_script_manifest(struct host_plugin *plugin, struct kg_err *err);
/* What a process of it is loaded with, a JSON object. */
void host_script_settings(struct host_process *process, const struct manifest *manifest,
                          struct kg_buf *ret_json);
struct cage_plan *host_script_plan(const struct host_cage_parts *parts, struct kg_err *err);
void host_script_registered(struct host_process *process); /* it told of something new */

/* -- packages of the catalog, see package.c ---------------------------------------------------- */

void host_package_free(struct host_package *package); /* takes NULL */
struct manifest *host_package_manifest(struct host_plugin *plugin);
/* What it calls itself; a package does not know its name here. */
const char *host_package_own_name(const struct host_plugin *plugin);
void host_package_settings(struct host_process *process, const struct manifest *manifest,
                           struct kg_buf *ret_json);
struct cage_plan *host_package_plan(const struct host_cage_parts *parts, struct kg_err *err);
bool host_package_is_used(const struct host_process *process);
/* Of a process of one: it is in another state, has no call under way any more, is gone for good. */
void host_package_moved(struct host_process *process);
void host_package_idle(struct host_process *process);
void host_package_gone(struct host_process *process);

/* -- what scripts may do, see script_grants.c -------------------------------------------------- */

int host_script_grants_open(struct host *host, struct kg_err *err); /* before the loop runs */
void host_script_grants_free(struct host *host);
/* After its file was read: records it, or notes that it is another. */
void host_script_grants_look(struct host_plugin *plugin);
/* Forgets the files of those that are granted nothing any more; warns of grants for nobody. */
void host_script_grants_tidy(struct host *host);
void host_script_note_settings(
    struct host_process *process);                         /* it is set to run the file as it is */
void host_script_note_start(struct host_process *process); /* and is started with that */
/* The operator's list, as far as it is for what that process runs; NULL: nothing. */
char *const *host_script_grants(const struct host_process *process);
/* "grants": {"exec": true}, what the file as it is now may do. */
void host_script_put_powers(const struct host_plugin *plugin, struct kg_json_writer *json);
/* What is wrong with it though it runs: its file, or that it raised; KG_OK: nothing. */
const struct kg_err *host_script_notice(struct host_named named);
/* A request of a script, see script_service.c. False: there is no such method. */
bool host_script_serve(struct host_process *process, int64_t id, struct kg_str method,
                       struct kg_str params);

/* -- programs that run for scripts, see script_run.c and script_files.c ------------------------ */

/* How the request is answered once its program ended; the result dies with it. */
typedef void host_script_ran_fn(struct host_script_request *request,
                                struct helper_run_result *result);
struct host_script_wish {
    const char *call;       /* "kage.exec", for messages; static */
    char **command;         /* taken over, like the input */
    const char *capability; /* of a manifest: what its cage reaches; copied */
    bool runs_all;          /* the program, behind env, may run every other one of the system */
    struct kg_buf input;
    size_t output_max;
    uint64_t timeout_ms;
    host_script_ran_fn *on_ran;
};
#define HOST_ENV_WORDS 3 /* "env -C FOLDER", before the program */
void host_script_run(struct host_script_request *request, const struct host_script_wish *wish);
void host_script_runs_end(const struct host_process *process); /* it is gone, and so are they */
void host_script_serve_exec(struct host_script_request *request, const struct kg_node *params,
                            void *data);
void host_script_serve_read(struct host_script_request *request, const struct kg_node *params,
                            void *data);
void host_script_serve_write(struct host_script_request *request, const struct kg_node *params,
                             void *data);
/* Answers with the error, which happened in that call; and a parameter from 1 to max. */
void host_script_refuse(struct host_script_request *request, const char *call, struct kg_err *err);
int host_script_number(const struct kg_node *params, const char *key, int64_t fallback, int64_t max,
                       int64_t *ret_number, struct kg_err *err);

/* -- what scripts ask the world, see script_http.c --------------------------------------------- */

void host_script_serve_http(struct host_script_request *request, const struct kg_node *params,
                            void *data);
int host_forward_open(struct host *host, struct kg_err *err);
void host_script_net_end(const struct host_process *process); /* it is gone */
void host_script_net_close(struct host *host); /* for good; host_look_for_stop follows */
bool host_script_net_is_closed(const struct host *host);
void host_script_net_free(struct host *host);

/* What its cage is planned of. */
struct host_cage_parts host_cage_parts_of(struct host_named named,
                                          const struct host_covers *covers_or_null);

/* -- what it may do, see grants.c -------------------------------------------------------------- */

/* What local.toml says of a plugin with that manifest; what cannot be used gives nothing at all. */
void host_grants_make(const struct host *host, const struct manifest *manifest,
                      const struct host_whom *whom, struct grants *ret_grants);
const struct grants *host_grants_of(struct host_named named);
/*
 * A plugin's error may name a path that its cage does not show, or not to be written: that is told
 * to the audit log as the plugin's own word, and err is hinted at the grant. See why.c.
 */
bool host_note_unseen(struct host_process *process, uint64_t since_ns, struct kg_str message,
                      struct kg_err *err);
/* Whether it reaches into a project, also by a grant, or has grants of its own in that one. */
bool host_is_of_project(const struct host *host, const struct manifest *manifest,
                        const char *project_or_null, struct kg_str settings);
/* Takes what holds now. Whether it is something else. */
bool host_grants_renew(struct host_process *process);

/* -- what lies over every cage, see covers.c --------------------------------------------------- */

void host_covers_collect(const struct host *host, struct host_covers *ret_covers);
/* Adds what these parts let be read only, below what they let be written. See policy.c. */
void policy_held(const struct host_cage_parts *parts, struct host_covers *covers);

/* -- processes that need not run, see use.c ---------------------------------------------------- */

/* Whether it runs only while it is used. */
bool host_process_is_lazy(const struct host_process *process);
void host_use_moved(struct host_process *process); /* it is in another state */
void host_use_look(struct host_process *process);  /* how long it may be idle may have changed */
/* It goes away: its timers end, and who waits for it is answered. */
void host_use_end(struct host_process *process);

/* Keeps the call, and a copy of what was asked for, until its process runs or does not come. */
void host_wait(struct host_call *call, const struct host_call_request *request);
void host_wait_cancel(struct host_call *call);

/* -- what it wants to know, see asks.c --------------------------------------------------------- */

/* A request of the process, that may make it; fails for one that cannot be asked. */
int host_ask_serve(struct host_process *process, const struct host_service *service,
                   int64_t request, struct kg_str params, struct kg_err *err);
bool host_on_input(void *data, struct dialect_input *input);
void host_drop_input(void *data, struct dialect_input *input);
bool host_may_request(void *data, struct kg_str method);
unsigned host_asks_answers(const struct host_call *call); /* what its caller can be asked */
void host_asks_end(struct host_call *call);               /* those of the call: it is over */
/* The process is gone: calls that wait for an answer of somebody else end. */
void host_calls_gone(struct host_process *process);

/* -- what it offers beside tools, see offers.c ------------------------------------------------- */

/* A notification of it came, or a line for its log. */
void host_offers_heard(struct host_process *process, struct kg_str method, struct kg_str params);
void host_offers_logged(struct host_process *process, struct kg_str message);
void host_offers_end(struct host_process *process); /* it is gone for good */

/* -- what others would run, see guards.c ------------------------------------------------------- */

/* Adds what is guarded in folders that may be written, whether it is there or not. */
int guards_find(char *const *grants, struct host_covers *ret_covers, struct kg_err *err);
/* The same on a worker, before a start; see search.c. */
struct host_search;
/* Whether what its next plan takes is known; if not, its instance is told when it is. */
bool host_search_ready(struct host_process *process);
/* What was found for exactly these folders; NULL: nothing was looked for, or others were. */
const struct host_covers *host_search_covers(const struct host_search *search, char *const *grants,
                                             int *ret_result, struct kg_err *err);
void host_search_forget(struct host_process *process);
/* The same for anything else that will be planned; takes the folders over. on_over comes later, */
struct host_search *host_search_begin(struct host *host, char **grants, void (*on_over)(void *data),
                                      void *data);
void host_search_drop(struct host_search *search); /* if it was not dropped before. Takes NULL */
/* The folders that a plan of these parts lets be written, but for those that kaged keeps; owned. */
char **policy_writable(const struct host_cage_parts *parts);
/* The path that a file holds behind its head, from the base on; owned. NULL: it holds none. */
char *guards_git_named(const char *file, const char *head, const char *base);
/* Adds core.hooksPath and the paths of includes, as a config has them; one too large is refused. */
int guards_git_read(const char *file, char ***hooks, char ***includes, struct kg_err *err);
/*
 * Watches what is guarded while the process runs, see guarded.c. Takes the covers over; NULL: there
 * is nothing to watch. Its end looks once more.
 */
struct host_guarded *host_guarded_new(struct host_process *process, struct host_covers *covers);
void host_guarded_end(struct host_guarded *guarded); /* takes NULL */
/* Makes an empty folder, its parent's owner's; where we may not, nobody in a cage may. */
int host_make_ahead(const char *path, struct kg_err *err);
void guards_git_config(struct kg_str text, char ***hooks, char ***includes);

/* -- the one door, see call.c ------------------------------------------------------------------ */

struct host_call {
    struct host *host;
    struct host_process *process;
    struct dialect_call wire;
    const struct host_call_kind *kind;
    const struct schema *result_schema; /* in the plugin's manifest, or NULL */
    uint64_t started_ns;
    host_done_fn *on_done;
    peer_progress_fn *on_progress;
    const struct host_asked_ops *asked; /* NULL: who made it cannot be asked */
    void *data;
    struct host_question *questions;          /* owned; see asks.c */
    unsigned question_count;                  /* so far */
    struct host_call *next_sent, **sent_from; /* in the process; NULL: it was not sent */
    struct host_call *next_unused;
    struct host_asker *asker;     /* a reference */
    struct host_held *held;       /* owned; NULL: it does not wait for the audit log */
    struct host_waiting *waiting; /* for its process; NULL: it does not wait for that */
    char method[RPC_METHOD_MAX + 1];
    size_t method_length;
};

/* Calls that wait at the door for the audit log, oldest first. */
struct host_door {
    struct host *host;
    struct audit_waiter waiter;
    bool is_behind;        /* some wait for the audit log: whoever comes goes behind them */
    struct loop_task turn; /* a process has nothing under way any more */
    struct host_held *first, **last;
    size_t count, bytes;
};
/* Whether it may ask who made a call, by its capabilities. See service.c. */
bool host_process_may_ask(const struct host_process *process);
/* Whether two calls are of one session, or one request without a session. See asks.c. */
bool host_is_same_conversation(const struct host_asker *a, const struct host_asker *b);
void host_door_open(struct host *host);
/* Those of the process, or of all, end: nothing can be sent to it any more. */
void host_door_end(struct host *host, const struct host_process *process_or_null);

void host_calls_free(struct host *host);
/* A call that waited is sent, or refused; then it is still who waited that releases it. */
int host_call_send(struct host_call *call, const struct host_call_request *request,
                   struct kg_err *err);
void host_call_release(struct host_call *call);

/* See consents.c. */
int host_consents_open(struct host *host, struct kg_err *err);
void host_fetch_network(void *data, const struct store_source *source,
                        const struct gate_event *event);
void host_consents_set_limits(struct host *host);
void host_consents_close(struct host *host);

/* -- secrets, see secrets.c -------------------------------------------------------------------- */

int host_secrets_open(struct host *host, struct kg_err *err); /* before the loop runs */
void host_secrets_close(struct host *host);
void host_log_secrets(const struct host *host); /* who uses which */
/* local.toml, with what was looked up last. */
struct local *host_load_local(const struct host *host, struct kg_err *err);
/* Plugins and projects look at the configuration again, new ones are found, all follow it. */
void host_refresh_all(struct host *host);

/* Reads local.toml again: the operator, or we ourselves, may have edited it. */
int host_read_local_again(struct host *host, struct kg_err *err);

/* -- only what was approved starts, see drift.c ------------------------------------------------ */

typedef void host_checked_fn(struct host_named named, void *data, const struct kg_err *err_or_null);
/* On a worker. Who is told has references until the callback returns; they may be gone. */
void host_check_in_full(struct host_named named, host_checked_fn *on_done, void *data);
/* -EAGAIN: only a check in full can tell. */
int host_check_quick(const struct host_process *process, struct kg_err *err);
/* That it could not be told is a reason not to start it, too, but no drift. */
void host_note_drift(struct host_named named, const struct kg_err *err);
/* Looks, and has it start if it may; after a check in full, if only that can tell. */
void host_start_if_approved(struct host_process *process);
/* Before each start of a process; KG_E_NOT_APPROVED. */
int host_check_start(struct host_process *process, struct kg_err *err);

/* -- tools that servers tell of, see tools.c --------------------------------------------------- */

/* Gives a manifest that was just read the tools that were approved. */
void host_tools_load(struct host_plugin *plugin, struct manifest *manifest,
                     struct kg_problems *problems);
void host_tools_free(struct host_tools *tools); /* takes NULL */
void host_tools_seen(struct host_process *process);
/* Whether what its server lists waits for a yes. */
bool host_tools_wait(const struct host_plugin *plugin);
enum dialect_variant host_tools_variant(const struct host_plugin *plugin);

/* -- runs for development, see dev.c ----------------------------------------------------------- */

/* The yes to what such a run asked for. Takes the offer over. */
void host_dev_take(struct host *host, struct consent *consent, struct store_offer *offer);
void host_devs_stop(struct host *host); /* each is told; the plugins are ended with all others */
void host_devs_free(struct host *host);
/* Not while it waits for a yes. */
bool host_dev_may_run(const struct host_dev *dev);
/* Its folder, and the manifest that it runs by, whatever is in that folder. */
const char *host_dev_path(const struct host_dev *dev);
struct kg_str host_dev_text(const struct host_dev *dev);
/* Fails for a plugin that is run so: the store has no say in it then. */
int host_check_not_dev(const struct host_plugin *plugin, struct kg_err *err);
/* One of its processes came, or goes. */
void host_dev_joined(struct host_dev *dev, struct host_process *process);
void host_dev_left(struct host_dev *dev, const struct host_process *process);

/* Changes of the store, see install.c. */
/*
 * Stops the plugin of that name with its processes in projects, calls exchange, reads them again,
 * and starts what should run. on_done comes once, never before the call returns.
 */
void host_exchange(struct host *host, const char *name, void (*exchange)(void *data),
                   host_changed_fn *on_done, void *data);
int host_check_unchanging(const struct host_plugin *plugin, struct kg_err *err);
void host_tidy_store(struct host *host); /* versions that nobody uses are removed */
/* Something happened to the plugin that the change has. */
void host_change_look(struct host_change *change);

/* See trace.c. */
void host_trace_loaded(struct host_process *process);     /* its manifest may be another */
void host_trace_configured(struct host_process *process); /* with other values */
void host_trace_moved(struct host_process *process, enum instance_state from,
                      enum instance_state to, const char *reason);
void host_trace_end(struct host_process *process); /* nobody listens any more */
void host_trace_free(struct host_process *process);
void host_traces_set_limits(struct host *host);

/* See meter.c. */
void meter_start(struct host *host);
void meter_stop(struct host *host);

/*
 * Whether what local.toml says fits the schemas of a manifest; what does not is audited. Asked once
 * where either of them is read. See plugin_config.c.
 */
int plugin_config_check(struct host *host, const struct manifest *manifest, struct kg_err *err);
/* The whole of it, which fits, as a JSON object, appended; nothing if the plugin takes none. */
void plugin_config_make(const struct host_plugin *plugin, const struct host_whom *whom,
                        const struct manifest *manifest, struct kg_buf *ret_json);

/* Whose storage it uses: mostly its own. See service.c. */
struct host_process *host_storage_owner(struct host_process *process);
/* What a process asks of the host, see service.c. False: there is no such method. */
bool host_serve(void *process, int64_t id, struct kg_str method, struct kg_str params);

/*
 * The cage refuses links in a path; those above kaged's own folders are followed here. Owned; the
 * path itself if nothing is there. See policy.c.
 */
char *host_real_path(const char *path);
/* kaged's own folders: what no plugin may see, whatever it declares. Owned. See policy.c. */
char **policy_kept(const struct config_paths *paths, const char *plugins_dir);
/* What stands for ${config.KEY}, ${env.NAME}, ${plugin_dir} and ${data_dir}; see fill_in.c. */
struct host_filling {
    struct kg_str settings; /* JSON */
    const char *plugin_dir, *data_dir;
    char *const *env; /* "NAME=value", of which the last counts; NULL: none */
};
/* Of a command the program stays, and an argument that is a list becomes several. Owned. */
enum host_words { HOST_COMMAND, HOST_ENVIRONMENT };
int host_fill_in(const char *const *words, enum host_words kind, const struct host_filling *by,
                 char ***ret_words, struct kg_err *err);
/* The limits of one plugin's cage, by the configuration. See policy.c. */
/* Whether its cages are watched, for why.c. */
bool policy_is_explained(const struct config *config, const char *plugin);
struct instance_limits policy_limits(const struct config *config, const char *plugin);
/* Whether settings of the type `path` point elsewhere in the new configuration. See policy.c. */
bool policy_paths_differ(const struct manifest *manifest, struct kg_str old_settings,
                         struct kg_str new_settings);

#endif
