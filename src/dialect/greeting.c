/*
 * The greeting: steps of a row, one after the other. A step ends once, with what follows it; a
 * greeting ends once, by on_ready or on_failed, or not at all for a child that went away.
 */
#include "dialect/internal.h"

#include <stdio.h>

#define EXCHANGES_MAX 32 /* steps may lead back: a child must not keep us at it for ever */

static int greeting_fail(struct dialect_talk *talk, bool mend, const char *format, va_list args)
{
    char words[320];
    vsnprintf(words, sizeof(words), format, args);
    talk->ops->on_failed(talk->data, mend, words);
    return GREETING_FAILED;
}

int dialect_reject(struct dialect_talk *talk, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int next = greeting_fail(talk, true, format, args);
    va_end(args);
    return next;
}

int dialect_fail(struct dialect_talk *talk, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int next = greeting_fail(talk, false, format, args);
    va_end(args);
    return next;
}

int dialect_fail_initialize(struct dialect_talk *talk, enum peer_outcome outcome,
                            struct kg_str payload)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    if (outcome == PEER_ERROR) {
        rpc_error_message(payload, &words);
        return dialect_fail(talk, "it refused initialize: %" KG_S_PATH, kg_buf_terminate(&words));
    }
    if (talk->audit != NULL)
        audit_emit(talk->audit, AUDIT_PLUGIN_INITIALIZE_TIMEOUT, KG_STR_NULL,
                   AUDIT_V_TEXT(talk->name), AUDIT_V_INT((int64_t)talk->timeout_ms));
    return dialect_fail(talk, "no answer to initialize within %llu ms",
                        (unsigned long long)talk->timeout_ms);
}

static void greeting_on_answer(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct dialect_talk *talk = data;
    if (outcome != PEER_GONE)
        dialect_go_on(talk, talk->dialect->steps[talk->step].take(talk, outcome, payload));
}

static int greeting_ask(struct dialect_talk *talk, const struct dialect_step *step)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_err err;
    if (step->put_params != NULL)
        step->put_params(talk, &params);
    struct kg_str view = step->put_params ? kg_buf_view(&params) : KG_STR("{}");
    const struct peer_call call = {
        .method = kg_str(step->method),
        .params = &view,
        .params_count = 1,
        .timeout_ms = step->patience_ms == 0 ? talk->timeout_ms : 0,
        .caller_timeout_ms = step->patience_ms,
        .on_done = greeting_on_answer,
        .data = talk,
    };
    if (talk->exchanges++ == EXCHANGES_MAX)
        return dialect_fail(talk, "its handshake was not complete after %d exchanges",
                            EXCHANGES_MAX);
    if (peer_call(talk->peer, &call, NULL, &err) < 0)
        return dialect_fail(talk, "%s: %s", step->method, err.message);
    return GREETING_LATER;
}

void dialect_go_on(struct dialect_talk *talk, int next)
{
    const struct dialect *dialect = talk->dialect;
    while (next >= 0) {
        const struct dialect_step *step = &dialect->steps[next];
        talk->step = (size_t)next;
        next = step->act != NULL ? step->act(talk) : greeting_ask(talk, step);
    }
    if (next != GREETING_DONE)
        return;
    peer_set_phase(talk->peer, PEER_OPEN);
    talk->ops->on_ready(talk->data);
}

void dialect_begin(struct dialect_talk *talk)
{
    const struct dialect *dialect = talk->dialect;
    peer_set_rules(talk->peer, &dialect->rules);
    talk->exchanges = 0;
    talk->pings = dialect->ping != NULL;
    talk->tools.length = 0;
    if (dialect->open != NULL)
        dialect->open(talk);
    dialect_go_on(talk, dialect->first_step != NULL ? dialect->first_step(talk) : 0);
}

const char *const dialect_log_levels[] = {"debug",    "info",  "notice",    "warning", "error",
                                          "critical", "alert", "emergency", NULL};

void dialect_subscribe(struct dialect_talk *talk, char *const *uris)
{
    kg_list_free(talk->subscriptions);
    talk->subscriptions = kg_list_copy((const char *const *)uris);
    if (talk->state != NULL && talk->dialect->subscribe != NULL)
        talk->dialect->subscribe(talk);
}

void dialect_set_log_level(struct dialect_talk *talk, const char *level)
{
    kg_replace(&talk->log_level, level);
    if (talk->state != NULL && talk->dialect->set_log_level != NULL)
        talk->dialect->set_log_level(talk);
}

void dialect_end(struct dialect_talk *talk)
{
    if (talk->peer == NULL)
        return;
    if (talk->dialect->close != NULL)
        talk->dialect->close(talk);
    talk->state = NULL;
    talk->peer = NULL;
}
