/*
 * What projects want, in kaged.db. A row is what the consent would be if the daemon ended now:
 * what was fetched does not outlive it, so that a consent on its way is kept as wanted.
 */
#include "store/consent_internal.h"

#include <stdio.h>

static enum consent_state kept_state(enum consent_state state)
{
    return consent_state_is_settled(state) ? state : CONSENT_WANTED;
}

int consent_keep(const struct consent *consent, struct kg_err *err)
{
    struct state *state = consent->queue->parts.state;
    if (state == NULL || consent->project == NULL)
        return 0;
    const struct state_consent kept = {
        .id = consent->id.text,
        .kind = consent_kind_names[consent->kind],
        .state = consent_state_name(kept_state(consent->state)),
        .project = consent->project,
        .plugin = consent->plugin,
        .source = consent->source,
        .base = consent->base,
        .version = consent->version,
        .reason = consent->reason.code != KG_OK ? consent->reason.message : NULL,
        .answered_by = consent->answered_by,
        .raised_ms = consent->raised_ms,
        .changed_ms = consent->changed_ms,
    };
    return state_consent_set(state, &kept, err);
}

void consent_unkeep(const struct consent *consent)
{
    struct state *state = consent->queue->parts.state;
    struct kg_err err;
    if (state != NULL && consent->project != NULL &&
        state_consent_remove(state, consent->id.text, &err) < 0)
        kg_log(KG_ERROR_LEVEL, "consent %s: forget it: %s", consent->id.text, err.message);
}

/* The index of the name, or count if it is none of them. */
static int find_kind(const char *name)
{
    int kind = 0;
    while (kind < CONSENT_KIND_COUNT && strcmp(consent_kind_names[kind], name) != 0)
        kind++;
    return kind;
}

static int find_state(const char *name)
{
    int state = 0;
    while (state < CONSENT_STATE_COUNT && strcmp(consent_state_name(state), name) != 0)
        state++;
    return state;
}

static void on_kept(void *data, const struct state_consent *kept)
{
    int kind = find_kind(kept->kind), state = find_state(kept->state);
    if (kind == CONSENT_KIND_COUNT || state == CONSENT_STATE_COUNT) {
        kg_log(KG_WARN, "consent %s in kaged.db is %s, %s: left alone", kept->id, kept->kind,
               kept->state);
        return;
    }
    struct consent *consent = consent_add(data, (enum consent_kind)kind);
    snprintf(consent->id.text, sizeof(consent->id.text), "%s", kept->id);
    consent->state = kept_state((enum consent_state)state);
    consent->project = kg_strdup(kept->project);
    consent->plugin = kg_strdup(kept->plugin);
    consent->source = kg_strdup(kept->source);
    consent->base = kg_strdup(kept->base);
    consent->version = kg_strdup(kept->version);
    consent->answered_by = kg_strdup(kept->answered_by);
    consent->raised_ms = kept->raised_ms;
    consent->changed_ms = kept->changed_ms;
    if (kept->reason != NULL)
        kg_fail(&consent->reason, KG_E_INTERNAL, "%s", kept->reason);
}

int consent_load_kept(struct consent_queue *queue, struct kg_err *err)
{
    return queue->parts.state ? state_consents(queue->parts.state, on_kept, queue, err) : 0;
}

int consent_activate(const struct consent *consent, const char *plugin, struct kg_err *err)
{
    struct state *state = consent->queue->parts.state;
    const struct state_activation activation = {
        .project = consent->project,
        .plugin = plugin,
        .consent = consent->id.text,
        .operator_id = consent->answered_by ? consent->answered_by : "",
        .at_ms = kg_wall_ms(),
    };
    return state != NULL ? state_activation_set(state, &activation, err) : 0;
}

int consent_is_active(const struct consent_queue *queue, const char *project, const char *plugin,
                      bool *ret_active, struct kg_err *err)
{
    struct state *state = queue->parts.state;
    if (state == NULL) {
        *ret_active = false;
        return 0;
    }
    return state_activation_get(state, project, plugin, ret_active, err);
}
