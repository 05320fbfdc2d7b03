/*
 * What a backend of kaged.db does: one row of functions each, chosen when the database is opened.
 * A backend's handle has a struct state in it, and its schema comes from numbered .sql files.
 */
#ifndef KAGED_STATE_INTERNAL_H
#define KAGED_STATE_INTERNAL_H

#include "state/catalog.h"
#include "state/sessions.h"

/* Of sessions.h; see there. */
struct state_sessions_backend {
    int (*step)(struct state *state, enum state_step step, struct kg_err *err);
    void (*scope)(struct state *state, const char *org); /* NULL: it has none */
    bool (*in_transaction)(struct state *state);
    int (*session_add)(struct state *state, const struct state_session *session,
                       int64_t *ret_number, struct kg_err *err);
    int (*session_set)(struct state *state, const struct state_session *session,
                       struct kg_err *err);
    int (*session_get)(struct state *state, const char *id, state_session_fn *visit, void *data,
                       struct kg_err *err);
    int (*sessions)(struct state *state, const struct state_session_query *query,
                    state_session_fn *visit, void *data, struct kg_err *err);
    int (*session_copy)(struct state *state, int64_t from, int64_t to, int64_t cut,
                        struct kg_err *err);
    int (*session_rename)(struct state *state, const struct state_session *session,
                          struct kg_err *err);
    int (*session_of_branch)(struct state *state, const char *branch, state_session_fn *visit,
                             void *data, struct kg_err *err);
    int (*session_rewritten)(struct state *state, int64_t from, int64_t to, struct kg_err *err);
    int (*move_add)(struct state *state, const struct state_move *move, struct kg_err *err);
    int (*move_redone)(struct state *state, int64_t number, struct kg_err *err);
    int (*move_last)(struct state *state, const char *session, state_move_fn *visit, void *data,
                     int64_t *ret_count, struct kg_err *err);
    int (*snapshot_add)(struct state *state, const struct state_snapshot *snapshot,
                        struct kg_err *err);
    int (*snapshot_remove)(struct state *state, const char *id, struct kg_err *err);
    int (*snapshots)(struct state *state, const struct state_snapshot_query *query,
                     state_snapshot_fn *visit, void *data, struct kg_err *err);
    int (*restore_begin)(struct state *state, const char *session, const char *snapshot,
                         struct kg_err *err);
    int (*restore_end)(struct state *state, const char *session, struct kg_err *err);
    int (*restores)(struct state *state, state_restore_fn *visit, void *data, struct kg_err *err);
    int (*entry_add)(struct state *state, int64_t session, const struct state_entry *entry,
                     struct kg_err *err);
    int (*entries)(struct state *state, const struct state_entry_query *query,
                   state_entry_fn *visit, void *data, struct kg_err *err);
    int (*context)(struct state *state, const struct state_context_query *query,
                   state_entry_fn *visit, void *data, bool *ret_found, struct kg_err *err);
    /* NULL: a statement more costs nothing, so all goes step by step. */
    int (*append)(struct state *state, const struct state_append *append, state_appended_fn *visit,
                  void *data, struct kg_err *err);
    bool one_writer;
    int (*content_get)(struct state *state, int64_t number, struct kg_buf *ret_bytes,
                       struct kg_err *err);
    int (*entry_pin)(struct state *state, int64_t session, int64_t seq, bool pinned,
                     struct kg_err *err);
    int (*entries_supersede)(struct state *state, const struct state_seq_range *range, int64_t mark,
                             int64_t *ret_count, struct kg_err *err);
    int (*mark_undo)(struct state *state, int64_t session, int64_t seq, const char *id,
                     struct kg_err *err);
    int (*entries_spread)(struct state *state, int64_t session, const char *agent, int64_t gap,
                          struct kg_err *err);
    int (*agent_add)(struct state *state, int64_t session, const struct state_agent *more,
                     int64_t *ret_tokens, struct kg_err *err);
    int (*agent_sum)(struct state *state, int64_t session, const char *path, struct kg_err *err);
    int (*agents)(struct state *state, int64_t session, const char *path, state_agent_fn *visit,
                  void *data, struct kg_err *err);
};

/* Of catalog.h; see there. */
struct state_catalog_backend {
    int (*org_set)(struct state *state, const struct state_org *org, struct kg_err *err);
    int (*orgs)(struct state *state, state_org_fn *visit, void *data, struct kg_err *err);
    int (*principal_set)(struct state *state, const struct state_principal *principal,
                         struct kg_err *err);
    int (*principals)(struct state *state, state_principal_fn *visit, void *data,
                      struct kg_err *err);
    int (*member_set)(struct state *state, const struct state_member *member, struct kg_err *err);
    int (*member_remove)(struct state *state, const char *org, const char *principal,
                         struct kg_err *err);
    int (*members)(struct state *state, state_member_fn *visit, void *data, struct kg_err *err);
    int (*orchestrator_set)(struct state *state, const struct state_orchestrator *orchestrator,
                            struct kg_err *err);
    int (*orchestrators)(struct state *state, const char *org_or_null, const char *id_or_null,
                         state_orchestrator_fn *visit, void *data, struct kg_err *err);
    int (*package_add)(struct state *state, const struct state_package *package,
                       struct kg_err *err);
    int (*package_set_enabled)(struct state *state, const char *org, const char *id, bool enabled,
                               struct kg_err *err);
    int (*package_set_latest)(struct state *state, const char *org, const char *pid, const char *id,
                              struct kg_err *err);
    int (*packages)(struct state *state, const struct state_package_query *query,
                    state_package_fn *visit, void *data, struct kg_err *err);
    int (*package_setting_set)(struct state *state, const struct state_package_setting *setting,
                               struct kg_err *err);
    int (*package_settings)(struct state *state, const char *org, const char *pid,
                            state_package_setting_fn *visit, void *data, struct kg_err *err);
    int (*package_grant_set)(struct state *state, const struct state_package_grant *grant,
                             struct kg_err *err);
    int (*package_grant_remove)(struct state *state, const struct state_package_grant *grant,
                                struct kg_err *err);
    int (*package_grants)(struct state *state, const char *org, const char *pid,
                          state_package_grant_fn *visit, void *data, struct kg_err *err);
    int (*llm_config_set)(struct state *state, const struct state_llm_config *config,
                          struct kg_err *err);
    int (*llm_config_remove)(struct state *state, const char *org, const char *id,
                             struct kg_err *err);
    int (*llm_configs)(struct state *state, const char *org, const char *id,
                       state_llm_config_fn *visit, void *data, struct kg_err *err);
};

struct state_backend {
    const struct state_catalog_backend *catalog;
    const struct state_sessions_backend *sessions;
    struct state *(*open)(const char *place, struct kg_err *err);
    struct state *(*open_readonly)(const char *place, struct kg_err *err);
    void (*close)(struct state *state); /* never NULL */
    int (*audit_head_get)(struct state *state, struct state_audit_head *ret_head, bool *ret_found,
                          struct kg_err *err);
    int (*audit_head_set)(struct state *state, const struct state_audit_head *head, bool synced,
                          struct kg_err *err);
    int (*plugin_choice_set)(struct state *state, const struct state_plugin_choice *choice,
                             struct kg_err *err);
    int (*plugin_choices)(struct state *state, state_plugin_choice_fn *visit, void *data,
                          struct kg_err *err);
    int (*failure_set)(struct state *state, const struct state_failure *failure,
                       struct kg_err *err);
    int (*failures)(struct state *state, state_failure_fn *visit, void *data, struct kg_err *err);
    int (*script_grant_set)(struct state *state, const struct state_script_grant *grant,
                            struct kg_err *err);
    int (*script_grants)(struct state *state, state_script_grant_fn *visit, void *data,
                         struct kg_err *err);
    int (*prompt_set)(struct state *state, const struct state_prompt *prompt, struct kg_err *err);
    int (*prompts)(struct state *state, state_prompt_fn *visit, void *data, struct kg_err *err);
    int (*question_set)(struct state *state, const struct state_question *question,
                        struct kg_err *err);
    int (*questions)(struct state *state, const char *session, state_question_fn *visit, void *data,
                     struct kg_err *err);
    int (*credential_add)(struct state *state, const struct state_credential *credential,
                          struct kg_err *err);
    int (*credential_remove)(struct state *state, const char *id, struct kg_err *err);
    int (*credentials)(struct state *state, state_credential_fn *visit, void *data,
                       struct kg_err *err);
    int (*mcp_setting_set)(struct state *state, const struct state_mcp_setting *setting,
                           struct kg_err *err);
    int (*mcp_settings)(struct state *state, state_mcp_setting_fn *visit, void *data,
                        struct kg_err *err);
    int (*mcp_calls_add)(struct state *state, const struct state_mcp_calls *calls,
                         struct kg_err *err);
    int (*mcp_calls)(struct state *state, const struct state_mcp_query *query,
                     state_mcp_call_fn *visit, void *data, struct kg_err *err);
    int (*consent_set)(struct state *state, const struct state_consent *consent,
                       struct kg_err *err);
    int (*consent_remove)(struct state *state, const char *id, struct kg_err *err);
    int (*consents)(struct state *state, state_consent_fn *visit, void *data, struct kg_err *err);
    int (*activation_set)(struct state *state, const struct state_activation *activation,
                          struct kg_err *err);
    int (*activation_remove)(struct state *state, const char *project_or_null, const char *plugin,
                             struct kg_err *err);
    int (*activations)(struct state *state, state_activation_fn *visit, void *data,
                       struct kg_err *err);
    int (*project_set)(struct state *state, const struct state_project *project,
                       struct kg_err *err);
    int (*projects)(struct state *state, state_project_fn *visit, void *data, struct kg_err *err);
    int (*move_folder)(struct state *state, const char *from, const char *to, struct kg_err *err);
};

#ifdef KAGED_TEST_THREADS
void state_check_thread(void);
#else
static inline void state_check_thread(void)
{
}
#endif

struct state {
    const struct state_backend *backend;
};

/* The way to every function of a backend. A build with tests ends where a loop would wait here. */
static inline const struct state_backend *state_backend(const struct state *state)
{
    state_check_thread();
    return state->backend;
}

extern const struct state_backend state_sqlite; /* the place is the path of a file */
extern const struct state_sessions_backend state_sessions_sqlite;
extern const struct state_catalog_backend state_catalog_sqlite;

#endif
