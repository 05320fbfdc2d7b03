/* The daemon's state, whatever keeps it: each call goes to the backend that opened it. */
#include "state/internal.h"

static struct state *opened(const struct state_backend *backend, struct state *state)
{
    if (state != NULL)
        state->backend = backend;
    return state;
}

struct state *state_open(const char *place, struct kg_err *err)
{
    return opened(&state_sqlite, state_sqlite.open(place, err));
}

struct state *state_open_readonly(const char *place, struct kg_err *err)
{
    return opened(&state_sqlite, state_sqlite.open_readonly(place, err));
}

void state_close(struct state *state)
{
    if (state != NULL)
        state->backend->close(state);
}

int state_audit_head_get(struct state *state, struct state_audit_head *ret_head, bool *ret_found,
                         struct kg_err *err)
{
    return state->backend->audit_head_get(state, ret_head, ret_found, err);
}

int state_audit_head_set(struct state *state, const struct state_audit_head *head,
                         struct kg_err *err)
{
    return state->backend->audit_head_set(state, head, false, err);
}

int state_audit_head_set_synced(struct state *state, const struct state_audit_head *head,
                                struct kg_err *err)
{
    return state->backend->audit_head_set(state, head, true, err);
}

int state_plugin_choice_get(struct state *state, struct kg_str plugin,
                            enum state_choice *ret_choice, struct kg_err *err)
{
    return state->backend->plugin_choice_get(state, plugin, ret_choice, err);
}

int state_plugin_choice_set(struct state *state, struct kg_str plugin, enum state_choice choice,
                            struct kg_err *err)
{
    return state->backend->plugin_choice_set(state, plugin, choice, err);
}

int state_credential_add(struct state *state, const struct state_credential *credential,
                         struct kg_err *err)
{
    return state->backend->credential_add(state, credential, err);
}

int state_credential_remove(struct state *state, const char *id, struct kg_err *err)
{
    return state->backend->credential_remove(state, id, err);
}

int state_credentials(struct state *state, state_credential_fn *visit, void *data,
                      struct kg_err *err)
{
    return state->backend->credentials(state, visit, data, err);
}

int state_consent_set(struct state *state, const struct state_consent *consent, struct kg_err *err)
{
    return state->backend->consent_set(state, consent, err);
}

int state_consent_remove(struct state *state, const char *id, struct kg_err *err)
{
    return state->backend->consent_remove(state, id, err);
}

int state_consents(struct state *state, state_consent_fn *visit, void *data, struct kg_err *err)
{
    return state->backend->consents(state, visit, data, err);
}

int state_activation_set(struct state *state, const struct state_activation *activation,
                         struct kg_err *err)
{
    return state->backend->activation_set(state, activation, err);
}

int state_activation_remove(struct state *state, const char *project_or_null, const char *plugin,
                            struct kg_err *err)
{
    return state->backend->activation_remove(state, project_or_null, plugin, err);
}

int state_activation_get(struct state *state, const char *project, const char *plugin,
                         bool *ret_active, struct kg_err *err)
{
    return state->backend->activation_get(state, project, plugin, ret_active, err);
}

int state_project_set(struct state *state, const struct state_project *project, struct kg_err *err)
{
    return state->backend->project_set(state, project, err);
}

int state_projects(struct state *state, state_project_fn *visit, void *data, struct kg_err *err)
{
    return state->backend->projects(state, visit, data, err);
}
