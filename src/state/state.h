/*
 * kaged.db, the daemon's own database: the audit log's signed head, what the operator decided at
 * run time, and sessions (sessions.h). WAL, synchronous=NORMAL. A handle belongs to one thread,
 * which runs no loop meanwhile: a loop has a keeper, and what it must know it has in memory. A
 * place is the path of a file.
 */
#ifndef KAGED_STATE_H
#define KAGED_STATE_H

#include "base/base.h"

struct state;
/* Makes the file and brings its schema up to date. */
struct state *state_open(const char *place, struct kg_err *err);
struct state *state_open_readonly(const char *place, struct kg_err *err);
void state_close(struct state *state);

/* The last word on the audit log: what `audit verify` compares the files with. */
struct state_audit_head {
    uint64_t first_block;         /* the oldest block that is still kept */
    unsigned char first_prev[32]; /* the hash before it */
    uint64_t block;               /* the newest sealed block */
    uint64_t events;              /* events in all sealed blocks, deleted files included */
    unsigned char hash[32];       /* of that block */
    unsigned char signature[64];
};
int state_audit_head_get(struct state *state, struct state_audit_head *ret_head, bool *ret_found,
                         struct kg_err *err);
int state_audit_head_set(struct state *state, const struct state_audit_head *head,
                         struct kg_err *err);
/* The same, and it survives a power failure from the moment this returns. */
int state_audit_head_set_synced(struct state *state, const struct state_audit_head *head,
                                struct kg_err *err);

/* What the operator said about a plugin with enable and disable; wins over config.toml. */
enum state_choice { STATE_UNSAID, STATE_ENABLED, STATE_DISABLED };
struct state_plugin_choice {
    const char *plugin;
    enum state_choice choice;
};
int state_plugin_choice_set(struct state *state, const struct state_plugin_choice *choice,
                            struct kg_err *err);
/* Visits those that were said; texts die with the callback. */
typedef void state_plugin_choice_fn(void *data, const struct state_plugin_choice *choice);
int state_plugin_choices(struct state *state, state_plugin_choice_fn *visit, void *data,
                         struct kg_err *err);

/* A process of a plugin that is not started any more until the operator enables it. */
struct state_failure {
    const char *process;
    const char *reason; /* in words; NULL: it is forgotten, for a plugin in projects, too */
};
int state_failure_set(struct state *state, const struct state_failure *failure, struct kg_err *err);
typedef void state_failure_fn(void *data, const struct state_failure *failure);
int state_failures(struct state *state, state_failure_fn *visit, void *data, struct kg_err *err);

/* The file of a script that what config.toml grants it is for. */
struct state_script_grant {
    const char *script;
    const char *hash; /* NULL: it is forgotten */
};
int state_script_grant_set(struct state *state, const struct state_script_grant *grant,
                           struct kg_err *err);
typedef void state_script_grant_fn(void *data, const struct state_script_grant *grant);
int state_script_grants(struct state *state, state_script_grant_fn *visit, void *data,
                        struct kg_err *err);

/* A prompt of a project, in a file that a plugin could write, as it was taken. */
struct state_prompt {
    const char *project;
    const char *path; /* below the project's root */
    const char *hash;
};
int state_prompt_set(struct state *state, const struct state_prompt *prompt, struct kg_err *err);
typedef void state_prompt_fn(void *data, const struct state_prompt *prompt);
int state_prompts(struct state *state, state_prompt_fn *visit, void *data, struct kg_err *err);
/* What a plugin asked of people in a session; the last of each session are kept. */
#define STATE_QUESTIONS_KEPT 200
struct state_question {
    const char *id, *session;
    const char *agent; /* or NULL */
    const char *plugin, *kind, *title;
    const char *schema, *url; /* or NULL */
    int64_t asked_ms, deadline_ms;
    const char *state;       /* open, accept, decline, cancel */
    const char *answered_by; /* or NULL */
    int64_t ended_ms;        /* 0: it is open */
};
int state_question_set(struct state *state, const struct state_question *question,
                       struct kg_err *err);
/* Of a session, the oldest first; texts die with the callback. */
typedef void state_question_fn(void *data, const struct state_question *question);
int state_questions(struct state *state, const char *session, state_question_fn *visit, void *data,
                    struct kg_err *err);

/* A secret that lets somebody in, known by its hash only. */
enum state_credential_kind { STATE_TOKEN, STATE_SESSION };
#define STATE_HASH_BYTES 32
struct state_credential {
    const char *id;
    enum state_credential_kind kind;
    unsigned char hash[STATE_HASH_BYTES];
    const char *name;        /* the operator's word for a token; of a session "" */
    const char *scopes;      /* separated by commas */
    const char *operator_id; /* for whom it speaks */
    int64_t created_ms;      /* wall clock */
    int64_t expires_ms;      /* the same; 0: never */
    const char *profile;     /* of MCP clients, that a token is confined to; NULL: it is not */
    const char *principal;   /* whose it is; NULL: the operator's own */
};
/* Both survive a power failure from the moment they return. */
int state_credential_add(struct state *state, const struct state_credential *credential,
                         struct kg_err *err);
int state_credential_remove(struct state *state, const char *id, struct kg_err *err);
/* Visits all, the oldest first; texts die with the callback. */
typedef void state_credential_fn(void *data, const struct state_credential *credential);
int state_credentials(struct state *state, state_credential_fn *visit, void *data,
                      struct kg_err *err);

/* What MCP clients may use: profiles, and marks of tools; see mcp/profiles.c. */
struct state_mcp_setting {
    const char *kind, *name;
    const char *value; /* JSON; NULL: it is removed */
};
/* Survives a power failure from the moment it returns. */
int state_mcp_setting_set(struct state *state, const struct state_mcp_setting *setting,
                          struct kg_err *err);
/* Visits all; texts die with the callback. */
typedef void state_mcp_setting_fn(void *data, const struct state_mcp_setting *setting);
int state_mcp_settings(struct state *state, state_mcp_setting_fn *visit, void *data,
                       struct kg_err *err);

/* What MCP clients called; see mcp/activity.c. */
struct state_mcp_call {
    int64_t id, at_ms;
    const char *client, *owner;
    const char *operator_id, *project; /* or NULL */
    const char *plugin, *tool, *outcome;
    int64_t bytes_in, bytes_out, duration_ms;
    const char *arguments, *result; /* NULL: they are not kept */
};
/* A bunch of them, and how much of all is kept from then on. */
struct state_mcp_calls {
    const char *json;  /* a list of objects with the names of the columns; "operator" */
    int64_t since_ms;  /* what is older is forgotten */
    int64_t bytes_max; /* of all of it, the oldest go first; 0: it is not looked at */
};
int state_mcp_calls_add(struct state *state, const struct state_mcp_calls *calls,
                        struct kg_err *err);
struct state_mcp_query {
    const char *client; /* how it begins; NULL: any */
    const char *tool;   /* a pattern over PLUGIN.TOOL, or a plugin; NULL: any */
    int64_t since_ms, before /* this id; 0: none */, limit;
};
/* Visits the newest first; texts die with the callback. */
typedef void state_mcp_call_fn(void *data, const struct state_mcp_call *call);
int state_mcp_calls(struct state *state, const struct state_mcp_query *query,
                    state_mcp_call_fn *visit, void *data, struct kg_err *err);

/* What a project waits for, and how it was answered. Texts are borrowed; NULL where it says so. */
struct state_consent {
    const char *id;
    const char *kind, *state; /* names of the queue */
    const char *project, *plugin;
    const char *source;            /* NULL: not specified */
    const char *base;              /* the folder that a relative source starts from, or NULL */
    const char *version;           /* NULL: any */
    const char *reason;            /* of a failure, or NULL */
    const char *answered_by;       /* NULL: nobody yet */
    int64_t raised_ms, changed_ms; /* wall clock */
};
/* Each survives a power failure from the moment it returns. One that is there is replaced. */
int state_consent_set(struct state *state, const struct state_consent *consent, struct kg_err *err);
int state_consent_remove(struct state *state, const char *id, struct kg_err *err);
/* Visits all, the oldest first; texts die with the callback. */
typedef void state_consent_fn(void *data, const struct state_consent *consent);
int state_consents(struct state *state, state_consent_fn *visit, void *data, struct kg_err *err);

/* Which plugin the operator let which project use. */
struct state_activation {
    const char *project, *plugin;
    const char *consent; /* the id of the one that was answered */
    const char *operator_id;
    int64_t at_ms; /* wall clock */
};
int state_activation_set(struct state *state, const struct state_activation *activation,
                         struct kg_err *err);
/* project NULL: in every project. */
int state_activation_remove(struct state *state, const char *project_or_null, const char *plugin,
                            struct kg_err *err);
/* Visits all; texts die with the callback. */
typedef void state_activation_fn(void *data, const struct state_activation *activation);
int state_activations(struct state *state, state_activation_fn *visit, void *data,
                      struct kg_err *err);

/* A project that the daemon knows, or knew. */
struct state_project {
    const char *id;
    const char *root; /* absolute */
    const char *file; /* below it */
    bool watched;
    const char *operator_id; /* who loaded it; NULL: unknown */
    int64_t loaded_ms;       /* wall clock; 0: it was unloaded */
};
/*
 * One that is there is replaced; if it was in another folder, the activations of that name are
 * gone. Survives a power failure from the moment it returns.
 */
int state_project_set(struct state *state, const struct state_project *project, struct kg_err *err);
/* Visits all, by id; texts die with the callback. */
typedef void state_project_fn(void *data, const struct state_project *project);
int state_projects(struct state *state, state_project_fn *visit, void *data, struct kg_err *err);

/* -- for backups ------------------------------------------------------------------------------- */

/* All that lies in the one folder lies in the other from now on: projects, consents, sessions. */
int state_move_folder(struct state *state, struct kg_str from, struct kg_str to,
                      struct kg_err *err);
/* Copies a database, any of SQLite, as it is at one moment; its writers may go on. See copy.c. */
int state_copy_file(const char *from, const char *to, struct kg_err *err);

/* -- for who runs a loop: a thread that writes, see keeper.c ----------------------------------- */

struct loop;
struct state_keeper;
struct state_keeper *state_keeper_new(struct loop *loop, const char *place, struct kg_err *err);
/* Finishes what was asked for, and tells who asked. Takes NULL. */
void state_keeper_free(struct state_keeper *keeper);
/* Waits until all that was asked for is written and told; not while the loop runs. */
void state_keeper_drain(struct state_keeper *keeper);
/* To read with at the start, before the loop runs and before anything is written. */
struct state *state_keeper_state(struct state_keeper *keeper);

/* On the loop, once it is written to stay; with an error nothing has changed. */
typedef void state_kept_fn(void *data, const struct kg_err *err_or_null);
/* Rows are copied. They are written in the order of these calls. NULL: nobody wants to know. */
void state_keep_prompt(struct state_keeper *keeper, const struct state_prompt *prompt,
                       state_kept_fn *on_kept, void *data);
void state_keep_failure(struct state_keeper *keeper, const struct state_failure *failure,
                        state_kept_fn *on_kept, void *data);
void state_keep_script_grant(struct state_keeper *keeper, const struct state_script_grant *grant,
                             state_kept_fn *on_kept, void *data);
void state_keep_question(struct state_keeper *keeper, const struct state_question *question,
                         state_kept_fn *on_kept, void *data);
void state_keep_choice(struct state_keeper *keeper, const struct state_plugin_choice *choice,
                       state_kept_fn *on_kept, void *data);
void state_keep_credential(struct state_keeper *keeper, const struct state_credential *credential,
                           state_kept_fn *on_kept, void *data);
void state_forget_credential(struct state_keeper *keeper, const char *id, state_kept_fn *on_kept,
                             void *data);
void state_keep_mcp_setting(struct state_keeper *keeper, const struct state_mcp_setting *setting,
                            state_kept_fn *on_kept, void *data);
void state_keep_mcp_calls(struct state_keeper *keeper, const struct state_mcp_calls *calls,
                          state_kept_fn *on_kept, void *data);
void state_keep_consent(struct state_keeper *keeper, const struct state_consent *consent,
                        state_kept_fn *on_kept, void *data);
void state_forget_consent(struct state_keeper *keeper, const char *id, state_kept_fn *on_kept,
                          void *data);
void state_keep_activation(struct state_keeper *keeper, const struct state_activation *activation,
                           state_kept_fn *on_kept, void *data);
void state_keep_project(struct state_keeper *keeper, const struct state_project *project,
                        state_kept_fn *on_kept, void *data);
/* What else is to be done with the handle, on the keeper's thread, after all that came before. */
struct state_task {
    int (*run)(struct state_task *task, struct state *state, struct kg_err *err);
    /* On the loop, once; the task is its owner's again. */
    void (*done)(struct state_task *task, const struct kg_err *err_or_null);
    const char *org; /* for which it is, see state_scope; NULL: for the daemon itself */
    /* the keeper's */
    struct state_keeper *keeper;
    bool writes;
    int result;
    struct kg_err err;
};
/* Reads, in one transaction. */
void state_keeper_read(struct state_keeper *keeper, struct state_task *task);
/* The same, and writes: all of it or nothing, which is there to stay when done is called. */
void state_keeper_write(struct state_keeper *keeper, struct state_task *task);
/* After all that was asked for until now. */
void state_when_kept(struct state_keeper *keeper, state_kept_fn *on_kept, void *data);

#endif
