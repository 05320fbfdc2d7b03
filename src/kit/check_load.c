/* Much at once: one line that is as long as a line may be, and many requests on their way. */
#include "kit/run.h"

#include "kit/generate.h"

#include <stdio.h>

#define BELOW_LIMIT  4096 /* so that one that only gives it back stays below it, too */
#define BIG_PATIENCE 4    /* a shell needs a while for so much */
#define REQUESTS     32
#define PING_EVERY   4
#define CALLED_MAX   4

/* One that takes anything; NULL: there is none. */
static const struct kit_target *any_target(const struct kit_run *run)
{
    for (size_t i = 0; i < run->target_count; i++)
        if (run->targets[i].works && run->targets[i].params == NULL)
            return &run->targets[i];
    return NULL;
}

void kit_check_big_line(struct kit_run *run)
{
    const struct kit_target *target = any_target(run);
    kg_auto(kg_buf_free) struct kg_buf object = {0}, params = {0};
    size_t bytes = (size_t)run->room->parts.config->limits_line_max_bytes - BELOW_LIMIT;
    if (target == NULL && !run->answers_ping) {
        kit_be_unclear(run, "it answers nothing that could be so long");
        return;
    }
    kg_buf_text(&object, "{\"padding\":\"");
    kg_buf_reserve(&object, bytes + 2);
    memset(object.data + object.length, 'x', bytes);
    object.length += bytes;
    kg_buf_text(&object, "\"}");
    kit_put_params(run, target && target->is_tool ? KIT_OF_AGENT : KIT_OF_CALLER,
                   kg_buf_view(&object), &params);
    const struct kit_question question = {.method = target ? target->method : "ping",
                                          .params = kg_buf_view(&params),
                                          .patience = BIG_PATIENCE};
    const struct kit_ask *ask = kit_question(run, &question);
    if (ask != NULL)
        kit_lives(run, ask);
}

/* -- many requests ----------------------------------------------------------------------------- */

struct call {
    const char *method; /* borrowed from the run */
    struct kg_buf params;
};

/* What is called, each with its smallest params. */
static size_t find_calls(const struct kit_run *run, struct call ret_calls[CALLED_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < run->target_count && count < CALLED_MAX; i++) {
        const struct kit_target *target = &run->targets[i];
        kg_auto(kit_instances_free) struct kit_instances valid = {.count = 0};
        if (!target->works)
            continue;
        if (target->params != NULL)
            kit_generate_valid(target->document, target->params, &valid);
        ret_calls[count].method = target->method;
        kit_put_params(run, target->is_tool ? KIT_OF_AGENT : KIT_OF_CALLER,
                       valid.count > 0 ? kg_str(valid.items[0].json) : KG_STR_NULL,
                       &ret_calls[count++].params);
    }
    return count;
}

/* Of the calls or of the pings, as the rule says. */
static void check_asks(struct kit_run *run, struct kit_ask *const *asks, const bool *is_ping)
{
    bool of_pings = run->rule == KIT_RULE_CONCURRENT_PING;
    const struct kit_ask *first = NULL;
    size_t count = 0, unanswered = 0;
    for (size_t i = 0; i < REQUESTS; i++) {
        if (is_ping[i] != of_pings)
            continue;
        count++;
        if (asks[i]->answer != KIT_NO_ANSWER)
            continue;
        unanswered++;
        if (first == NULL)
            first = asks[i];
    }
    char what[64];
    snprintf(what, sizeof(what), "of %zu %s at the same time %zu, one", count,
             of_pings ? "pings" : "calls", unanswered);
    if (unanswered > 0)
        kit_find_no_answer(run, run->rule, first, what);
}

void kit_check_concurrent_answers(struct kit_run *run)
{
    struct call calls[CALLED_MAX] = {0};
    struct kit_ask *asks[REQUESTS];
    bool is_ping[REQUESTS];
    size_t count = find_calls(run, calls);
    if (count == 0 && !run->answers_ping) {
        kit_be_unclear(run, "nothing of it answers");
        return;
    }
    for (size_t i = 0; i < REQUESTS; i++) {
        is_ping[i] = count == 0 || (run->answers_ping && i % PING_EVERY == PING_EVERY - 1);
        const struct call *call = is_ping[i] ? NULL : &calls[i % count];
        asks[i] = kit_talk_ask(run->talk, NULL, call ? call->method : "ping",
                               call ? kg_buf_view(&call->params) : KG_STR("{}"));
    }
    kit_talk_wait(run->talk, asks, REQUESTS, run->timeout_ms);
    check_asks(run, asks, is_ping);
    for (size_t i = 0; i < count; i++)
        kg_buf_free(&calls[i].params);
}

void kit_check_concurrent_ping(struct kit_run *run)
{
    if (kit_has_found(run, KIT_RULE_CONCURRENT_ANSWERS))
        kit_be_unclear(run, "not every call between them is answered");
    else
        kit_check_concurrent_answers(run);
}
