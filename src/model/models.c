/*
 * Between sessions and the processes that ask models. Each call is in the audit log twice, when it
 * begins and when it ends, however it does; so is each connection to a provider.
 */
#include "audit/audit.h"
#include "host/host.h"
#include "model/model.h"

#include "redact/shared.h"

#include <errno.h>
#include <stdlib.h>

#define CALLS_MAX 64    /* of one provider at the same time */
#define IDLE_MS   60000 /* after which the process that asks it ends */

struct models {
    struct host *host;
    struct helper_pool_place place;
    struct helper_pool *pool;
    struct kg_map *brought; /* owned, as its values: struct local, by alias */
    bool closed;            /* all processes are gone */
    void (*on_closed)(void *data);
    void *closed_data;
};

struct models_call {
    struct models *models;
    struct model_call *call;
    struct model_ops ops;
    void *data;
    char *provider, *model; /* owned */
    struct host_asker *asker;
    int64_t input_tokens, output_tokens;
    uint64_t began_ms;
};

static void models_on_network(void *data, const char *provider, const struct gate_event *event)
{
    const struct models *models = data;
    audit_emit(host_audit(models->host), AUDIT_MODEL_CONNECTION, KG_STR_NULL,
               AUDIT_V_TEXT(provider), AUDIT_V_TEXT(gate_outcomes[event->kind]),
               AUDIT_V_TEXT(event->host), AUDIT_V_INT(event->port), AUDIT_V_TEXT(event->address),
               AUDIT_V_TEXT(event->reason), AUDIT_V_INT((int64_t)event->bytes_out),
               AUDIT_V_INT((int64_t)event->bytes_in));
}

struct models *models_new(struct host *host)
{
    struct models *models = kg_alloc(sizeof(*models));
    models->host = host;
    models->brought = kg_map_new();
    models->place = (struct helper_pool_place){
        .where = {host_loop(host), host_spawner(host), host_gate(host)},
        .facts = host_facts(host),
        .calls_max = CALLS_MAX,
        .idle_ms = IDLE_MS,
        .on_network = models_on_network,
        .data = models,
    };
    models->pool = model_pool_new(&models->place);
    return models;
}

static void models_on_pool_closed(void *data)
{
    struct models *models = data;
    models->closed = true;
    if (models->on_closed != NULL)
        models->on_closed(models->closed_data);
}

void models_close(struct models *models)
{
    helper_pool_close(models->pool, models_on_pool_closed, models);
}

void models_when_closed(struct models *models, void (*on_closed)(void *data), void *data)
{
    models->on_closed = on_closed;
    models->closed_data = data;
    if (models->closed)
        on_closed(data);
}

void models_free(struct models *models)
{
    if (models == NULL)
        return;
    void *own;
    for (size_t at = 0; kg_map_next(models->brought, &at, &(struct kg_str){0}, &own);)
        local_free(own);
    kg_map_free(models->brought);
    helper_pool_free(models->pool);
    free(models);
}

/* -- finding one ------------------------------------------------------------------------------- */

void models_bring(struct models *models, const char *alias, struct local *own_or_null)
{
    local_free(kg_map_remove(models->brought, kg_str(alias)));
    if (own_or_null != NULL)
        kg_map_set(models->brought, kg_str(alias), own_or_null);
}

const struct local_model *models_known(const struct models *models, const char *alias)
{
    const struct local *own = kg_map_get(models->brought, kg_str(alias));
    return own != NULL ? &own->models[0]
                       : local_model_find(host_local(models->host), kg_str(alias));
}

int models_find(const struct models *models, const char *alias, const char *who,
                const struct local_model **ret_model, struct kg_err *err)
{
    if (alias == NULL) {
        kg_fail(err, KG_E_INVALID_CONFIG, "%s: the project names no model for it", who);
        return kg_hint(
            err, "add \"model: ALIAS\" to it in .kaged/project.yaml, and [models.ALIAS] to %s",
            host_paths(models->host)->local_file);
    }
    const struct local_model *model = models_known(models, alias);
    if (model == NULL) {
        kg_fail(err, KG_E_INVALID_CONFIG, "%s: there is no model %.64s", who, alias);
        return kg_hint(err, "add [models.%.64s] with its provider to %s, then: kaged reload", alias,
                       host_paths(models->host)->local_file);
    }
    if (model->provider->problem != NULL) {
        *err = *model->provider->problem;
        err->code = KG_E_INVALID_CONFIG;
        kg_wrap_file(err, host_paths(models->host)->local_file);
        return kg_wrap(err, -EINVAL, "%s", who);
    }
    *ret_model = model;
    return 0;
}

/* -- asking ------------------------------------------------------------------------------------ */

static void models_call_free(struct models_call *call)
{
    free(call->provider);
    free(call->model);
    host_asker_unref(call->asker);
    free(call);
}

static void tell_answered(const struct models_call *call, enum model_failure failure)
{
    const char *why = failure != MODEL_OK ? model_failure_names[failure] : NULL;
    uint64_t took_ms = loop_now_ms(call->models->place.where.loop) - call->began_ms;
    audit_emit(host_audit(call->models->host), AUDIT_MODEL_ANSWERED,
               kg_str(call->asker->request_id), AUDIT_V_TEXT(call->provider),
               AUDIT_V_TEXT(call->model), AUDIT_V_TEXT(call->asker->session_id),
               AUDIT_V_TEXT(call->asker->agent_path), AUDIT_V_INT(call->input_tokens),
               AUDIT_V_INT(call->output_tokens), AUDIT_V_INT((int64_t)took_ms), AUDIT_V_TEXT(why));
}

static void models_on_event(void *data, const struct model_event *event)
{
    struct models_call *call = data;
    if (event->kind == MODEL_USAGE) {
        call->input_tokens = event->usage.input_tokens;
        call->output_tokens = event->usage.output_tokens;
    }
    call->ops.on_event(call->data, event);
}

static void models_on_done(void *data, const struct model_end *end)
{
    struct models_call *call = data;
    struct model_ops ops = call->ops;
    void *asker = call->data;
    tell_answered(call, end->failure);
    models_call_free(call);
    ops.on_done(asker, end);
}

static struct models_call *models_call_new(struct models *models,
                                           const struct models_purpose *purpose,
                                           const struct local_model *model,
                                           const struct model_ops *ops, void *data)
{
    struct models_call *call = kg_alloc(sizeof(*call));
    call->models = models;
    call->ops = *ops;
    call->data = data;
    call->provider = kg_str_dup(model->provider->name);
    call->model = kg_str_dup(model->alias);
    call->asker = host_asker_ref(purpose->asker);
    call->began_ms = loop_now_ms(models->place.where.loop);
    return call;
}

static int check_audit(const struct models *models, struct kg_err *err)
{
    const char *why;
    if (audit_ready(host_audit(models->host), &why) || audit_is_behind(host_audit(models->host)))
        return 0;
    kg_fail(err, KG_E_AUDIT_UNAVAILABLE,
            "no model is asked while the audit log cannot be written: %s", why);
    return kg_hint(err, "make room on the disk of %s", host_paths(models->host)->audit_dir);
}

int models_ask(struct models *models, const struct models_purpose *purpose,
               const struct model_request *request, const struct model_ops *ops, void *data,
               struct models_call **ret_call, struct kg_err *err)
{
    static const struct model_ops own_ops = {.on_event = models_on_event,
                                             .on_done = models_on_done};
    int result = check_audit(models, err);
    if (result < 0)
        return result;
    struct models_call *call = models_call_new(models, purpose, request->model, ops, data);
    kg_auto(kg_buf_free) struct kg_buf system = {0}, messages = {0}, tools = {0};
    struct model_request shown = *request; /* no model is told a secret, whoever said it */
    if (redact_put_shared(request->system, &system))
        shown.system = kg_buf_view(&system);
    if (redact_put_shared_json(request->messages, &messages))
        shown.messages = kg_buf_view(&messages);
    if (redact_put_shared_json(request->tools, &tools))
        shown.tools = kg_buf_view(&tools);
    result = model_ask(models->pool, &shown, &own_ops, call, &call->call, err);
    if (result < 0) {
        models_call_free(call);
        return result;
    }
    audit_emit(host_audit(models->host), AUDIT_MODEL_ASKED, kg_str(call->asker->request_id),
               AUDIT_V_TEXT(call->provider), AUDIT_V_TEXT(call->model),
               AUDIT_V_TEXT(call->asker->session_id), AUDIT_V_TEXT(call->asker->agent_path),
               AUDIT_V_TEXT(purpose->word));
    *ret_call = call;
    return 0;
}

void models_cancel(struct models_call *call)
{
    model_cancel(call->call);
    tell_answered(call, MODEL_CANCELLED);
    models_call_free(call);
}
