/*
 * A call of the host, on its way through a row. It ends once: by on_done, or by dialect_drop. A row
 * that reads its answers may make several exchanges of one call; each takes the place of the one
 * before, so that there is one to wait for and one to cancel.
 */
#include "dialect/internal.h"

#define EXCHANGES_MAX 16 /* of one call, unless its row says otherwise */

static void end_state(struct dialect_call *call)
{
    if (call->state != NULL)
        call->talk->dialect->end(call);
    call->state = NULL;
    call->waits = false;
}

int dialect_call(struct dialect_call *call, const struct dialect_message *message,
                 struct kg_err *err)
{
    const struct dialect *dialect = call->talk->dialect;
    if (!dialect->knows[message->act])
        return kg_fail(err, KG_E_METHOD_NOT_FOUND, "%s has no message for it", dialect->name);
    call->exchanges = 0;
    call->exchanges_max = EXCHANGES_MAX;
    call->state = NULL;
    call->has_failed = false;
    if (call->caller_timeout_ms != 0)
        call->caller_due_ms = loop_due_ms(call->caller_timeout_ms);
    int result = dialect->call(call, message, err);
    if (result < 0)
        end_state(call);
    return result;
}

static void on_exchange(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct dialect_call *call = data;
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    enum dialect_reading reading = call->talk->dialect->read(call, outcome, payload, &json);
    if (reading != DIALECT_AGAIN)
        end_state(call);
    switch (reading) {
    case DIALECT_AS_IT_IS:
        call->on_done(call->data, outcome, payload);
        break;
    case DIALECT_RESULT:
        call->on_done(call->data, PEER_RESULT, kg_buf_view(&json));
        break;
    case DIALECT_ERROR:
        call->on_done(call->data, PEER_ERROR, kg_buf_view(&json));
        break;
    case DIALECT_AGAIN:
        break;
    }
}

static void on_exchange_progress(void *data, struct kg_str params)
{
    struct dialect_call *call = data;
    if (call->on_progress != NULL)
        call->on_progress(call->data, params);
}

/* What is left of the caller's own time; at least a moment, so that it ends by its deadline. */
static uint64_t callers_rest_ms(const struct dialect_call *call)
{
    uint64_t now_ms = loop_now_ms(call->talk->loop);
    return call->caller_due_ms > now_ms ? call->caller_due_ms - now_ms : 1;
}

int dialect_send(struct dialect_call *call, struct kg_str method, const struct kg_str *params,
                 size_t params_count, struct kg_err *err)
{
    bool reads = call->talk->dialect->read != NULL;
    const struct peer_call wire = {
        .method = method,
        .params = params,
        .params_count = params_count,
        .timeout_ms = call->timeout_ms,
        .caller_timeout_ms = call->caller_timeout_ms != 0 ? callers_rest_ms(call) : 0,
        .on_done = reads ? on_exchange : call->on_done,
        .on_progress = reads ? on_exchange_progress : call->on_progress,
        .data = reads ? call : call->data,
    };
    if (call->exchanges++ == call->exchanges_max)
        return kg_fail(err, KG_E_BAD_RESULT, "there is no answer after %u exchanges",
                       call->exchanges_max);
    return peer_call(call->talk->peer, &wire, &call->id, err);
}

void dialect_finish(struct dialect_call *call, enum peer_outcome outcome, struct kg_str json)
{
    call->waits = false;
    end_state(call);
    call->on_done(call->data, outcome, json);
}

void dialect_gone(struct dialect_call *call)
{
    dialect_finish(call, PEER_GONE, KG_STR_NULL);
}

/* What waits for inputs was answered: there is nothing to cancel. */
void dialect_cancel(struct dialect_call *call)
{
    if (!call->waits && call->talk->dialect->cancel != NULL)
        call->talk->dialect->cancel(call);
}

void dialect_drop(struct dialect_call *call)
{
    peer_abandon(call->talk->peer, call->id);
    dialect_cancel(call);
    end_state(call);
}
