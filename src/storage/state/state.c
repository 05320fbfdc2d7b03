/* The daemon's state, whatever keeps it: each call goes to the backend that opened it. */
#include "storage/state/internal.h"

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
