/*
 * The helpers that ask models, one for each provider and address, and the calls that they work on.
 * A call ends exactly once: by its helper, by us if that did not live to, or silently when its
 * caller cancels it. A helper that is late, or says what it should not, is ended, and all its calls
 * are.
 */
#include "model/internal.h"

#include <errno.h>
#include <stdlib.h>

#define ANSWER_BYTES ((uint64_t)128 << 20) /* of events of one call: more than it may receive */
#define MEMORY_BYTES ((uint64_t)512 << 20) /* requests and answers are held in memory */

struct model_call {
    struct helper_pool_call *asked;
    uint64_t bytes; /* of its events */
    int64_t total_ms;
    struct model_ops ops;
    void *data;
};

/* -- the ends of calls ------------------------------------------------------------------------- */

/* The call is gone before its caller hears of it, who may ask again at once. */
static void model_end_call(struct model_call *call, const struct model_end *end)
{
    struct model_ops ops = call->ops;
    void *data = call->data;
    struct model_end last = *end;
    if (last.failure != MODEL_OK)
        kg_wrap(&last.err, 0, "provider %s", helper_user_whose(helper_pool_user(call->asked)));
    free(call);
    ops.on_done(data, &last);
}

static void model_fail_call(struct model_call *call, enum model_failure failure, enum kg_code code,
                            const char *message)
{
    struct model_end end = {.failure = failure};
    kg_fail(&end.err, code, "%s", message);
    model_end_call(call, &end);
}

/* It did not live to answer; `why` may be empty. */
static void fail_ended(struct model_call *call, enum kg_code code, const char *what,
                       const char *why)
{
    kg_auto(kg_free) char *message =
        kg_format("the process that asks it %s%s%s", what, why[0] != '\0' ? ": " : "", why);
    model_fail_call(call, MODEL_UNAVAILABLE, code, message);
}

static void fail_late(struct model_call *call)
{
    kg_auto(kg_free) char *message =
        kg_format("the answer took longer than %lld ms", (long long)call->total_ms);
    model_fail_call(call, MODEL_TIMEOUT, KG_E_MODEL, message);
}

static void model_read_answer(struct model_call *call, const struct helper_answer *answer)
{
    struct model_end end;
    bool good = answer->outcome == HELPER_RESULT ? model_wire_result(answer->payload, &end)
                                                 : model_wire_error(answer->payload, &end);
    if (!good) {
        helper_user_give_up(helper_pool_user(call->asked), "it sent an answer that is none");
        fail_ended(call, KG_E_MODEL, "ended before the answer did", "");
        return;
    }
    if (end.failure == MODEL_LOST && answer->words[0] != '\0')
        kg_fail(&end.err, KG_E_MODEL, "it could not be reached: %s", answer->words);
    model_end_call(call, &end);
}

static void model_on_answer(void *data, const struct helper_answer *answer)
{
    struct model_call *call = data;
    switch (answer->outcome) {
    case HELPER_RESULT:
    case HELPER_ERROR:
        model_read_answer(call, answer);
        break;
    case HELPER_REFUSED:
        model_fail_call(call, answer->code == KG_E_STOPPING ? MODEL_CANCELLED : MODEL_UNAVAILABLE,
                        answer->code, answer->words);
        break;
    case HELPER_UNBUILT:
        fail_ended(call, KG_E_CAGE, "could not be started", answer->words);
        break;
    case HELPER_ENDED:
        fail_ended(call, KG_E_MODEL, "ended before the answer did", answer->words);
        break;
    case HELPER_LATE:
        fail_late(call);
        break;
    case HELPER_GONE:
        free(call);
        break;
    }
}

/* -- what a helper says ------------------------------------------------------------------------ */

static void model_on_notification(struct helper_user *user, struct kg_str method,
                                  struct kg_str params)
{
    struct model_event event;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, NULL);
    if (doc == NULL || !kg_str_is(method, "event") || !model_wire_event(doc->root, &event)) {
        helper_user_give_up(user, "it sent an event that is none");
        return;
    }
    struct model_call *call = helper_user_find(user, model_wire_id(doc->root));
    if (call == NULL)
        return; /* it was cancelled, or is over */
    call->bytes += params.length;
    if (call->bytes > ANSWER_BYTES)
        helper_user_give_up(user, "it sent more than any answer has");
    else
        call->ops.on_event(call->data, &event);
}

static bool model_is_lost(struct kg_str error)
{
    struct model_end end;
    return model_wire_error(error, &end) && end.failure == MODEL_LOST;
}

struct helper_pool *model_pool_new(const struct helper_pool_place *place)
{
    static const struct helper_pool_kind kind = {
        .program = "kaged-model",
        .label = "models",
        .memory_bytes = MEMORY_BYTES,
        .line_bytes = MODEL_LINE_BYTES,
        .has_one_address = true, /* the one that the provider is configured with now */
        .is_lost = model_is_lost,
        .on_notification = model_on_notification,
    };
    return helper_pool_new(place, &kind);
}

/* -- asking ------------------------------------------------------------------------------------ */

int model_check_open(const struct helper_pool *pool, struct kg_err *err)
{
    return helper_pool_is_open(pool) ? 0 : kg_fail(err, KG_E_STOPPING, "no model can be asked now");
}

static int model_check_room(const struct helper_pool *pool, struct kg_str provider,
                            struct kg_err *err)
{
    if (!helper_pool_is_full(pool, provider))
        return 0;
    return kg_fail(err, KG_E_BUSY, "provider %.*s is asked %u things already", KG_STR_ARG(provider),
                   helper_pool_calls(pool, provider));
}

int model_ask(struct helper_pool *pool, const struct model_request *request,
              const struct model_ops *ops, void *data, struct model_call **ret_call,
              struct kg_err *err)
{
    const struct local_provider *provider = request->model->provider;
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    int64_t total_ms = request->timeout_ms > 0 ? request->timeout_ms : provider->timeout_ms;
    if (model_check_open(pool, err) < 0 || model_check_room(pool, provider->name, err) < 0)
        return -EINVAL;
    model_wire_request(request, total_ms, &params);
    if (params.length + 256 > MODEL_LINE_BYTES)
        return kg_fail(err, KG_E_TOO_LARGE, "the request has %zu bytes, and may have %zu",
                       params.length, MODEL_LINE_BYTES);
    struct model_call *call = kg_alloc(sizeof(*call));
    *call = (struct model_call){.total_ms = total_ms, .ops = *ops, .data = data};
    const struct helper_target target = {provider->name, provider->host, provider->port};
    const struct helper_request asked = {
        .method = "chat",
        .params = kg_buf_view(&params),
        .timeout_ms = (uint64_t)total_ms,
        .on_done = model_on_answer,
        .data = call,
    };
    int result = helper_pool_ask(pool, &target, &asked, &call->asked, err);
    if (result < 0)
        free(call);
    else
        *ret_call = call;
    return result;
}

void model_cancel(struct model_call *call)
{
    helper_pool_withdraw(call->asked);
    free(call);
}
