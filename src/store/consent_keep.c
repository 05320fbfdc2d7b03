/*
 * What projects want, in kaged.db. A row is what the consent would be if the daemon ended now:
 * what was fetched does not outlive it, so that a consent on its way is kept as wanted. What is in
 * memory is ahead of it: a row that cannot be written is asked for again after the next start. Only
 * that a project may use a plugin counts no sooner than it is there.
 */
#include "store/consent_internal.h"

#include <stdio.h>
#include <stdlib.h>

static enum consent_state kept_state(enum consent_state state)
{
    return consent_state_is_settled(state) ? state : CONSENT_WANTED;
}

static void on_row_kept(void *data, const struct kg_err *err_or_null)
{
    struct kg_id *id = data;
    if (err_or_null != NULL)
        kg_log(KG_ERROR_LEVEL, "consent %s: keep its state: %s", id->text, err_or_null->message);
    free(id);
}

static void on_row_forgotten(void *data, const struct kg_err *err_or_null)
{
    struct kg_id *id = data;
    if (err_or_null != NULL)
        kg_log(KG_ERROR_LEVEL, "consent %s: forget it: %s", id->text, err_or_null->message);
    free(id);
}

static struct kg_id *copy_id(const struct consent *consent)
{
    struct kg_id *id = kg_alloc(sizeof(*id));
    *id = consent->id;
    return id;
}

void consent_keep(const struct consent *consent)
{
    struct state_keeper *keeper = consent->queue->parts.keeper;
    if (keeper == NULL || consent->project == NULL)
        return;
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
    state_keep_consent(keeper, &kept, on_row_kept, copy_id(consent));
}

void consent_unkeep(const struct consent *consent)
{
    struct state_keeper *keeper = consent->queue->parts.keeper;
    if (keeper != NULL && consent->project != NULL)
        state_forget_consent(keeper, consent->id.text, on_row_forgotten, copy_id(consent));
}

void consent_when_kept(const struct consent_queue *queue, state_kept_fn *on_kept, void *data)
{
    if (queue->parts.keeper != NULL)
        state_when_kept(queue->parts.keeper, on_kept, data);
    else
        on_kept(data, NULL);
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

static void consent_keep_on_kept(void *data, const struct state_consent *kept)
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

/* -- which project may use which plugin -------------------------------------------------------- */

static void add_active(struct consent_queue *queue, const char *project, const char *plugin)
{
    if (consent_is_active(queue, project, plugin))
        return;
    queue->active = kg_realloc(queue->active, (queue->active_count + 1) * sizeof(*queue->active));
    queue->active[queue->active_count++] =
        (struct consent_active){kg_strdup(project), kg_strdup(plugin)};
}

static void remove_active(struct consent_queue *queue, const char *project_or_null,
                          const char *plugin_or_null)
{
    size_t left = 0;
    for (size_t i = 0; i < queue->active_count; i++) {
        struct consent_active *active = &queue->active[i];
        if ((project_or_null == NULL || strcmp(active->project, project_or_null) == 0) &&
            (plugin_or_null == NULL || strcmp(active->plugin, plugin_or_null) == 0)) {
            free(active->project);
            free(active->plugin);
        } else {
            queue->active[left++] = *active;
        }
    }
    queue->active_count = left;
}

static void on_active(void *data, const struct state_activation *activation)
{
    add_active(data, activation->project, activation->plugin);
}

int consent_load_kept(struct consent_queue *queue, struct kg_err *err)
{
    if (queue->parts.keeper == NULL)
        return 0;
    struct state *state = state_keeper_state(queue->parts.keeper);
    int result = state_consents(state, consent_keep_on_kept, queue, err);
    return result < 0 ? result : state_activations(state, on_active, queue, err);
}

void consent_free_active(struct consent_queue *queue)
{
    remove_active(queue, NULL, NULL);
    free(queue->active);
}

bool consent_is_active(const struct consent_queue *queue, const char *project, const char *plugin)
{
    for (size_t i = 0; i < queue->active_count; i++)
        if (strcmp(queue->active[i].project, project) == 0 &&
            strcmp(queue->active[i].plugin, plugin) == 0)
            return true;
    return false;
}

void consent_plugin_removed(struct consent_queue *queue, const char *plugin)
{
    remove_active(queue, NULL, plugin);
}

void consent_project_moved(struct consent_queue *queue, const char *project)
{
    remove_active(queue, project, NULL);
}

static void on_activated(void *data, const struct kg_err *err_or_null)
{
    struct consent_activation *activation = data;
    struct consent *consent = activation->consent;
    if (consent != NULL) {
        consent->activation = NULL;
        if (err_or_null == NULL)
            add_active(consent->queue, activation->project, activation->plugin);
        consent_activated(consent, activation, err_or_null);
    }
    free(activation->project);
    free(activation->plugin);
    free(activation->version);
    free(activation);
}

void consent_activate(struct consent *consent, const struct consent_outcome *outcome)
{
    const struct state_activation row = {
        .project = consent->project,
        .plugin = outcome->name,
        .consent = consent->id.text,
        .operator_id = consent->answered_by ? consent->answered_by : "",
        .at_ms = kg_wall_ms(),
    };
    struct consent_activation *activation = kg_alloc(sizeof(*activation));
    *activation = (struct consent_activation){
        .consent = consent,
        .project = kg_strdup(consent->project),
        .plugin = kg_strdup(outcome->name),
        .version = kg_strdup(outcome->version),
        .was_running = outcome->was_running,
    };
    consent->activation = activation;
    if (consent->queue->parts.keeper != NULL)
        state_keep_activation(consent->queue->parts.keeper, &row, on_activated, activation);
    else
        on_activated(activation, NULL);
}
