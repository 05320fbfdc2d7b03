/* Much at once: one line that is as long as a line may be, and many requests on their way. */
#include "kit/run.h"

#include "kit/generate.h"

#include <stdio.h>
#include <stdlib.h>

#define BELOW_LIMIT  4096 /* so that one that only gives it back stays below it, too */
#define BIG_PATIENCE 4    /* a shell needs a while for so much */
#define REQUESTS     32
#define PING_EVERY   4
#define CALLED_MAX   4
#define NEVER_ASKED  "4000000000"

/* One that takes anything; NULL: there is none. */
static const struct kit_target *any_target(const struct kit_run *run)
{
    for (size_t i = 0; i < run->target_count; i++)
        if (run->targets[i].works && run->targets[i].params == NULL)
            return &run->targets[i];
    return NULL;
}

static void put_padding(const struct kit_run *run, struct kg_buf *out)
{
    size_t bytes = (size_t)run->room->parts.config->limits_line_max_bytes - BELOW_LIMIT;
    kg_buf_char(out, '"');
    kg_buf_reserve(out, bytes + 2);
    memset(out->data + out->length, 'x', bytes);
    out->length += bytes;
    kg_buf_char(out, '"');
}

/* The tools of an MCP server may refuse what they do not know; its list must not. */
static void check_big_list(struct kit_run *run)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    kg_json_begin(&json, '{');
    mcp_put_meta(&run->talk->greeting->talk, &json, 0, DIALECT_ANSWERS_ALL, NULL);
    kg_json_key(&json, "padding");
    put_padding(run, &params);
    kg_buf_char(&params, '}');
    const struct kit_question question = {
        .method = run->target_count > 0 ? "tools/list" : "ping",
        .params = kg_buf_view(&params),
        .patience = BIG_PATIENCE,
    };
    const struct kit_ask *ask = kit_question(run, &question);
    if (ask != NULL)
        kit_lives(run, ask);
}

void kit_check_big_line(struct kit_run *run)
{
    const struct kit_target *target = any_target(run);
    kg_auto(kg_buf_free) struct kg_buf object = {0}, params = {0};
    if (kit_manifest(run)->is_mcp) {
        check_big_list(run);
        return;
    }
    if (target == NULL && !run->answers_ping) {
        kit_be_unclear(run, "none of its answers could be that long");
        return;
    }
    kg_buf_text(&object, "{\"padding\":");
    put_padding(run, &object);
    kg_buf_char(&object, '}');
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
    const struct kit_target *target; /* borrowed from the run */
    char *object;                    /* owned; what it is called with */
};

static struct kit_ask *check_load_begin(const struct kit_run *run, const struct call *call)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    const char *method = kit_put_call(run, call->target, kit_usual_context(call->target),
                                      kg_str(call->object), &params);
    return kit_talk_ask(run->talk, NULL, method, kg_buf_view(&params));
}

static void free_calls(struct call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(calls[i].object);
}

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
        ret_calls[count++] = (struct call){
            .target = target,
            .object = kg_strdup(valid.count > 0 ? valid.items[0].json : "{}"),
        };
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
        kit_be_unclear(run, "nothing in it answers");
        return;
    }
    for (size_t i = 0; i < REQUESTS; i++) {
        is_ping[i] = count == 0 || (run->answers_ping && i % PING_EVERY == PING_EVERY - 1);
        asks[i] = is_ping[i] ? kit_talk_ask(run->talk, NULL, "ping", KG_STR("{}"))
                             : check_load_begin(run, &calls[i % count]);
    }
    kit_talk_wait(run->talk, asks, REQUESTS, run->timeout_ms);
    check_asks(run, asks, is_ping);
    free_calls(calls, count);
}

void kit_check_concurrent_ping(struct kit_run *run)
{
    if (kit_has_found(run, KIT_RULE_CONCURRENT_ANSWERS))
        kit_be_unclear(run, "not every call between them is answered");
    else
        kit_check_concurrent_answers(run);
}

/* -- cancelling -------------------------------------------------------------------------------- */

static void check_load_cancel(struct kit_run *run, const char *id)
{
    bool is_mcp = kit_manifest(run)->is_mcp;
    kg_auto(kg_free) char *params =
        kg_format(is_mcp ? "{\"requestId\":%s,\"reason\":\"the caller left\"}" : "{\"id\":%s}", id);
    kit_talk_notify(run->talk, is_mcp ? "notifications/cancelled" : "kaged.cancel", kg_str(params));
}

void kit_check_cancel_unknown(struct kit_run *run)
{
    const struct kit_ask nothing = {
        .sent = {.data = (char *)NEVER_ASKED, .length = sizeof(NEVER_ASKED) - 1}};
    check_load_cancel(run, NEVER_ASKED);
    kit_lives(run, &nothing);
}

/* One is cancelled while it is worked at, as far as that can be had, and once more after that. */
void kit_check_cancel_call(struct kit_run *run)
{
    struct call calls[CALLED_MAX] = {0};
    size_t count = find_calls(run, calls);
    if (count == 0) {
        kit_be_unclear(run, "nothing in it answers");
        return;
    }
    struct kit_ask *cancelled = check_load_begin(run, &calls[0]),
                   *other = check_load_begin(run, &calls[0]);
    check_load_cancel(run, cancelled->id);
    bool answered = kit_talk_wait(run->talk, &other, 1, run->timeout_ms);
    if (!answered) {
        kit_find_no_answer(run, run->rule, other, "the call after one that was cancelled");
    } else if (!kit_manifest(run)->is_mcp &&
               !kit_talk_wait(run->talk, &cancelled, 1, run->timeout_ms)) {
        kit_find_no_answer(run, run->rule, cancelled, "the call that was cancelled");
    } else {
        check_load_cancel(run, cancelled->id);
        kit_lives(run, other);
    }
    free_calls(calls, count);
}
