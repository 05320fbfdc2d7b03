/*
 * Between sessions and the processes that ask models. A provider is asked so many things at the
 * same time, and more wait for their turn, see row.h. Each call is in the audit log twice, when the
 * model is asked and when that ends, however it does; so is each connection to a provider.
 */
#include "audit/audit.h"
#include "host/host.h"
#include "model/model.h"
#include "model/row.h"

#include "redact/shared.h"

#include <errno.h>
#include <stdlib.h>

#define WAITING_BYTES ((size_t)64 << 20) /* of what they will ask, of all providers */
#define IDLE_MS       60000              /* after which the process that asks it ends */

#define WAIT_HINT "try again later; calls_max and waiting_max of the provider are the bounds"

struct models {
    struct host *host;
    struct helper_pool_place place;
    struct helper_pool *pool;
    struct kg_map *brought; /* owned, as its values: struct local, by alias */
    struct kg_map *lines;   /* owned, as its values: struct provider_line, by provider */
    size_t waiting_bytes;
    struct models_call *out; /* owned; those that were put out of a line, and are told soon */
    struct loop_task tell_out;
    bool closed; /* all processes are gone */
    void (*on_closed)(void *data);
    void *closed_data;
};

/* Those that ask one provider. */
struct provider_line {
    struct models *models;
    char *provider; /* owned */
    struct model_row *row;
    struct loop_task turn; /* a place may be free */
};

/* What one that waits will ask. */
struct held_request {
    struct models_call *call;
    struct kg_buf texts;
    struct model_request request; /* its texts are those; which model is looked up again */
    struct loop_timer timer;
    uint64_t most_ms;
};

struct models_call {
    struct models_call *next; /* in models->out */
    struct models *models;
    struct provider_line *line; /* NULL: it was put out of it */
    struct model_seat seat;
    struct held_request *held; /* owned; NULL: it is asked */
    struct model_call *call;   /* NULL: it waits */
    struct model_ops ops;
    void *data;
    char *provider, *model; /* owned */
    const char *word;       /* static */
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

/* -- the ends of calls ------------------------------------------------------------------------- */

static void line_check_over(struct provider_line *line)
{
    if (model_row_served_count(line->row) > 0 || model_row_waiting_count(line->row) > 0)
        return;
    loop_undefer(line->models->place.where.loop, &line->turn);
    kg_map_remove(line->models->lines, kg_str(line->provider));
    model_row_free(line->row);
    free(line->provider);
    free(line);
}

static void held_request_free(struct models_call *call)
{
    struct held_request *held = kg_steal(&call->held);
    if (held == NULL)
        return;
    loop_timer_stop(call->models->place.where.loop, &held->timer);
    call->models->waiting_bytes -= held->texts.length;
    kg_buf_free(&held->texts);
    free(held);
}

static void models_call_free(struct models_call *call)
{
    held_request_free(call);
    free(call->provider);
    free(call->model);
    host_asker_unref(call->asker);
    free(call);
}

static void models_call_leave(struct models_call *call)
{
    struct provider_line *line = kg_steal(&call->line);
    if (line == NULL) {
        KG_UNLINK(call->models->out, call);
        return;
    }
    model_row_leave(line->row, &call->seat);
    loop_defer(call->models->place.where.loop, &line->turn);
    line_check_over(line);
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
    models_call_leave(call);
    models_call_free(call);
    ops.on_done(asker, end);
}

/* No model was asked, so that the audit log says nothing of it. */
static void models_call_fail(struct models_call *call, enum model_failure failure,
                             const struct kg_err *err)
{
    const struct model_end end = {.failure = failure, .err = *err};
    struct model_ops ops = call->ops;
    void *asker = call->data;
    models_call_leave(call);
    models_call_free(call);
    ops.on_done(asker, &end);
}

static int fail_full(const char *provider, struct kg_err *err)
{
    kg_fail(err, KG_E_BUSY, "provider %s: as many questions wait for it as may", provider);
    return kg_hint(err, WAIT_HINT);
}

static void models_on_put_out(struct loop_task *task)
{
    struct models *models = KG_CONTAINER(task, struct models, tell_out);
    while (models->out != NULL) {
        struct models_call *call = models->out;
        struct kg_err err = {0};
        models->out = call->next;
        fail_full(call->provider, &err);
        models_call_fail(call, MODEL_UNAVAILABLE, &err);
    }
}

/* -- asking ------------------------------------------------------------------------------------ */

static int check_audit(const struct models *models, struct kg_err *err)
{
    const char *why;
    if (audit_ready(host_audit(models->host), &why) || audit_is_behind(host_audit(models->host)))
        return 0;
    kg_fail(err, KG_E_AUDIT_UNAVAILABLE,
            "no model is asked while the audit log cannot be written: %s", why);
    return kg_hint(err, "make room on the disk of %s", host_paths(models->host)->audit_dir);
}

/* It has its place. */
static int models_call_send(struct models_call *call, const struct model_request *request,
                            struct kg_err *err)
{
    static const struct model_ops ops = {.on_event = models_on_event, .on_done = models_on_done};
    struct models *models = call->models;
    call->began_ms = loop_now_ms(models->place.where.loop);
    int result = check_audit(models, err);
    if (result == 0)
        result = model_ask(models->pool, request, &ops, call, &call->call, err);
    if (result < 0)
        return result;
    audit_emit(host_audit(models->host), AUDIT_MODEL_ASKED, kg_str(call->asker->request_id),
               AUDIT_V_TEXT(call->provider), AUDIT_V_TEXT(call->model),
               AUDIT_V_TEXT(call->asker->session_id), AUDIT_V_TEXT(call->asker->agent_path),
               AUDIT_V_TEXT(call->word));
    return 0;
}

/* What it waited for may have been configured anew meanwhile, or be gone. */
static int models_call_send_held(struct models_call *call, struct kg_err *err)
{
    struct model_request request = call->held->request;
    kg_auto(kg_free) char *who = kg_format("provider %s", call->provider);
    int result = models_find(call->models, call->model, who, &request.model, err);
    if (result == 0)
        result = models_call_send(call, &request, err);
    if (result == 0)
        held_request_free(call);
    return result;
}

static void models_on_turn(struct loop_task *task)
{
    struct provider_line *line = KG_CONTAINER(task, struct provider_line, turn);
    struct model_seat *seat = model_row_next(line->row);
    if (seat == NULL)
        return;
    struct models_call *call = KG_CONTAINER(seat, struct models_call, seat);
    struct kg_err err = {0};
    loop_defer(line->models->place.where.loop, &line->turn); /* for the next */
    if (models_call_send_held(call, &err) < 0)
        models_call_fail(call, MODEL_UNAVAILABLE, &err);
}

static void on_waited_long(struct loop_timer *timer)
{
    const struct held_request *held = KG_CONTAINER(timer, struct held_request, timer);
    struct models_call *call = held->call;
    struct kg_err err = {0};
    kg_fail(&err, KG_E_BUSY, "provider %s: it had no time for this question within %llu ms",
            call->provider, (unsigned long long)held->most_ms);
    kg_hint(&err, WAIT_HINT);
    models_call_fail(call, MODEL_UNAVAILABLE, &err);
}

static size_t request_bytes(const struct model_request *request)
{
    return request->system.length + request->messages.length + request->tools.length;
}

static void models_call_hold(struct models_call *call, const struct model_request *request)
{
    const struct local_provider *provider = request->model->provider;
    struct held_request *held = kg_alloc(sizeof(*held));
    held->call = call;
    held->request = *request;
    kg_buf_reserve(&held->texts, request_bytes(request));
    held->request.system = kg_buf_keep(&held->texts, request->system);
    held->request.messages = kg_buf_keep(&held->texts, request->messages);
    held->request.tools = kg_buf_keep(&held->texts, request->tools);
    held->most_ms = (uint64_t)provider->idle_timeout_ms;
    call->held = held;
    call->models->waiting_bytes += held->texts.length;
    loop_timer_start(call->models->place.where.loop, &held->timer, held->most_ms, on_waited_long);
}

static struct provider_line *line_new(struct models *models, struct kg_str provider)
{
    struct provider_line *line = kg_alloc(sizeof(*line));
    line->models = models;
    line->provider = kg_str_dup(provider);
    line->row = model_row_new();
    line->turn.run = models_on_turn;
    kg_map_set(models->lines, provider, line);
    return line;
}

static struct provider_line *line_of(struct models *models, const struct local_provider *provider)
{
    struct provider_line *line = kg_map_get(models->lines, provider->name);
    if (line == NULL)
        line = line_new(models, provider->name);
    model_row_bound(line->row, provider->calls_max, provider->waiting_max);
    return line;
}

static void line_put_out(struct provider_line *line, struct model_seat *seat)
{
    struct models_call *call = KG_CONTAINER(seat, struct models_call, seat);
    held_request_free(call);
    call->line = NULL;
    call->next = line->models->out;
    line->models->out = call;
    loop_defer(line->models->place.where.loop, &line->models->tell_out);
}

/* A place at once, or in the row. */
static int models_call_enter(struct models_call *call, const struct models_purpose *purpose,
                             const struct model_request *request, struct kg_err *err)
{
    struct models *models = call->models;
    struct provider_line *line = line_of(models, request->model->provider);
    struct model_seat *out;
    const char *session = purpose->asker->session_id;
    enum model_row_entry entry = model_row_enter(
        line->row, &call->seat, purpose->group ? purpose->group : "", session ? session : "", &out);
    if (out != NULL)
        line_put_out(line, out);
    if (entry == MODEL_ROW_FULL)
        return fail_full(call->provider, err);
    call->line = line;
    if (entry == MODEL_ROW_SERVED)
        return models_call_send(call, request, err);
    if (models->waiting_bytes + request_bytes(request) > WAITING_BYTES)
        return fail_full(call->provider, err);
    models_call_hold(call, request);
    return 0;
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
    call->word = purpose->word;
    call->asker = host_asker_ref(purpose->asker);
    return call;
}

int models_ask(struct models *models, const struct models_purpose *purpose,
               const struct model_request *request, const struct model_ops *ops, void *data,
               struct models_call **ret_call, struct kg_err *err)
{
    int result = model_check_open(models->pool, err);
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
    result = models_call_enter(call, purpose, &shown, err);
    if (result < 0) {
        models_call_leave(call);
        models_call_free(call);
        return result;
    }
    *ret_call = call;
    return 0;
}

void models_cancel(struct models_call *call)
{
    if (call->call != NULL) {
        model_cancel(call->call);
        tell_answered(call, MODEL_CANCELLED);
    }
    models_call_leave(call);
    models_call_free(call);
}

/* -- all of them ------------------------------------------------------------------------------- */

struct models *models_new(struct host *host)
{
    struct models *models = kg_alloc(sizeof(*models));
    models->host = host;
    models->brought = kg_map_new();
    models->lines = kg_map_new();
    models->tell_out.run = models_on_put_out;
    models->place = (struct helper_pool_place){
        .where = {host_loop(host), host_spawner(host), host_gate(host)},
        .facts = host_facts(host),
        .calls_max = LOCAL_CALLS_MAX,
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
    kg_map_free(models->lines);
    helper_pool_free(models->pool);
    free(models);
}

static struct models_call *models_any_waiting(const struct models *models)
{
    void *line;
    for (size_t at = 0; kg_map_next(models->lines, &at, &(struct kg_str){0}, &line);) {
        struct model_seat *seat = model_row_waiting(((struct provider_line *)line)->row);
        if (seat != NULL)
            return KG_CONTAINER(seat, struct models_call, seat);
    }
    return models->out;
}

void models_close(struct models *models)
{
    struct kg_err err = {0};
    struct models_call *call;
    kg_fail(&err, KG_E_STOPPING, "the daemon is stopping");
    helper_pool_close(models->pool, models_on_pool_closed, models);
    while ((call = models_any_waiting(models)) != NULL)
        models_call_fail(call, MODEL_CANCELLED, &err);
    loop_undefer(models->place.where.loop, &models->tell_out);
}

struct models_facts models_facts(const struct models *models)
{
    struct models_facts facts = {0};
    void *value;
    for (size_t at = 0; kg_map_next(models->lines, &at, &(struct kg_str){0}, &value);) {
        const struct provider_line *line = value;
        facts.asked += model_row_served_count(line->row);
        facts.waiting += model_row_waiting_count(line->row);
    }
    return facts;
}
