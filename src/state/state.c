/* The daemon's state, whatever keeps it: each call goes to the backend that opened it. */
#include "state/postgres.h"

#ifdef KAGED_TEST_THREADS
#include "loop/loop.h"

#include <stdlib.h>

void state_check_thread(void)
{
    if (!loop_runs_here())
        return;
    kg_log(KG_ERROR_LEVEL, "kaged.db is asked by the thread of a loop, which runs");
    abort();
}
#endif

static const struct state_backend *backend_of(const char *place)
{
    state_check_thread();
    return state_cluster_target(place) != NULL ? &state_postgres : &state_sqlite;
}

static struct state *opened(const struct state_backend *backend, struct state *state)
{
    if (state != NULL)
        state->backend = backend;
    return state;
}

struct state *state_open(const char *place, struct kg_err *err)
{
    const struct state_backend *backend = backend_of(place);
    return opened(backend, backend->open(place, err));
}

struct state *state_open_readonly(const char *place, struct kg_err *err)
{
    const struct state_backend *backend = backend_of(place);
    return opened(backend, backend->open_readonly(place, err));
}

void state_close(struct state *state)
{
    if (state != NULL)
        state_backend(state)->close(state);
}

int state_audit_head_get(struct state *state, struct state_audit_head *ret_head, bool *ret_found,
                         struct kg_err *err)
{
    return state_backend(state)->audit_head_get(state, ret_head, ret_found, err);
}

int state_audit_head_set(struct state *state, const struct state_audit_head *head,
                         struct kg_err *err)
{
    return state_backend(state)->audit_head_set(state, head, false, err);
}

int state_audit_head_set_synced(struct state *state, const struct state_audit_head *head,
                                struct kg_err *err)
{
    return state_backend(state)->audit_head_set(state, head, true, err);
}

int state_plugin_choice_set(struct state *state, const struct state_plugin_choice *choice,
                            struct kg_err *err)
{
    return state_backend(state)->plugin_choice_set(state, choice, err);
}

int state_plugin_choices(struct state *state, state_plugin_choice_fn *visit, void *data,
                         struct kg_err *err)
{
    return state_backend(state)->plugin_choices(state, visit, data, err);
}

int state_failure_set(struct state *state, const struct state_failure *failure, struct kg_err *err)
{
    return state_backend(state)->failure_set(state, failure, err);
}

int state_script_grant_set(struct state *state, const struct state_script_grant *grant,
                           struct kg_err *err)
{
    return state_backend(state)->script_grant_set(state, grant, err);
}

int state_script_grants(struct state *state, state_script_grant_fn *visit, void *data,
                        struct kg_err *err)
{
    return state_backend(state)->script_grants(state, visit, data, err);
}

int state_prompt_set(struct state *state, const struct state_prompt *prompt, struct kg_err *err)
{
    return state_backend(state)->prompt_set(state, prompt, err);
}

int state_prompts(struct state *state, state_prompt_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->prompts(state, visit, data, err);
}

int state_question_set(struct state *state, const struct state_question *question,
                       struct kg_err *err)
{
    return state_backend(state)->question_set(state, question, err);
}

int state_questions(struct state *state, const char *session, state_question_fn *visit, void *data,
                    struct kg_err *err)
{
    return state_backend(state)->questions(state, session, visit, data, err);
}

int state_failures(struct state *state, state_failure_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->failures(state, visit, data, err);
}

int state_credential_add(struct state *state, const struct state_credential *credential,
                         struct kg_err *err)
{
    return state_backend(state)->credential_add(state, credential, err);
}

int state_credential_remove(struct state *state, const char *id, struct kg_err *err)
{
    return state_backend(state)->credential_remove(state, id, err);
}

int state_credentials(struct state *state, state_credential_fn *visit, void *data,
                      struct kg_err *err)
{
    return state_backend(state)->credentials(state, visit, data, err);
}

int state_mcp_setting_set(struct state *state, const struct state_mcp_setting *setting,
                          struct kg_err *err)
{
    return state_backend(state)->mcp_setting_set(state, setting, err);
}

int state_mcp_settings(struct state *state, state_mcp_setting_fn *visit, void *data,
                       struct kg_err *err)
{
    return state_backend(state)->mcp_settings(state, visit, data, err);
}

int state_mcp_calls_add(struct state *state, const struct state_mcp_calls *calls,
                        struct kg_err *err)
{
    return state_backend(state)->mcp_calls_add(state, calls, err);
}

int state_mcp_calls(struct state *state, const struct state_mcp_query *query,
                    state_mcp_call_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->mcp_calls(state, query, visit, data, err);
}

int state_consent_set(struct state *state, const struct state_consent *consent, struct kg_err *err)
{
    return state_backend(state)->consent_set(state, consent, err);
}

int state_consent_remove(struct state *state, const char *id, struct kg_err *err)
{
    return state_backend(state)->consent_remove(state, id, err);
}

int state_consents(struct state *state, state_consent_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->consents(state, visit, data, err);
}

int state_activation_set(struct state *state, const struct state_activation *activation,
                         struct kg_err *err)
{
    return state_backend(state)->activation_set(state, activation, err);
}

int state_activation_remove(struct state *state, const char *project_or_null, const char *plugin,
                            struct kg_err *err)
{
    return state_backend(state)->activation_remove(state, project_or_null, plugin, err);
}

int state_activations(struct state *state, state_activation_fn *visit, void *data,
                      struct kg_err *err)
{
    return state_backend(state)->activations(state, visit, data, err);
}

int state_project_set(struct state *state, const struct state_project *project, struct kg_err *err)
{
    return state_backend(state)->project_set(state, project, err);
}

int state_move_folder(struct state *state, struct kg_str from, struct kg_str to, struct kg_err *err)
{
    kg_auto(kg_free) char *old = kg_str_dup(from), *new = kg_str_dup(to);
    return state_backend(state)->move_folder(state, old, new, err);
}

int state_projects(struct state *state, state_project_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->projects(state, visit, data, err);
}
