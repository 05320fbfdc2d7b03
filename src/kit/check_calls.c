/*
 * Methods and tools, called with what their schemas allow and with what they refuse. The same
 * checks serve both; which are meant, the group of the rule says. One that does not answer once is
 * left out of what follows: that it does not is told already.
 */
#include "kit/run.h"

#include "kit/generate.h"

#define TARGETS_MAX 24 /* that are looked at in every way */
#define INVALID_MAX 6  /* wrong params for each */

typedef void target_fn(struct kit_run *run, struct kit_target *target);

static bool is_meant(const struct kit_run *run, const struct kit_target *target)
{
    return target->offered && target->is_tool == (kit_rules[run->rule].group == KIT_GROUP_TOOLS);
}

static void each_target(struct kit_run *run, bool only_working, target_fn *check)
{
    size_t done = 0;
    for (size_t i = 0; i < run->target_count && done < TARGETS_MAX; i++) {
        struct kit_target *target = &run->targets[i];
        if (!is_meant(run, target) || (only_working && !target->works))
            continue;
        done++;
        if (kit_open(run) == NULL)
            return;
        check(run, target);
    }
    if (done == 0)
        kit_be_unclear(run, "nothing in it answers");
}

static const struct kit_ask *call_raw(struct kit_run *run, const struct kit_target *target,
                                      const char *method, struct kg_str params)
{
    const struct kit_question question = {
        .method = method, .params = params, .timeout_ms = target->timeout_ms};
    return kit_question(run, &question);
}

static const struct kit_ask *check_calls_call(struct kit_run *run, const struct kit_target *target,
                                              enum kit_context context, struct kg_str object)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    const char *method = kit_put_call(run, target, context, object, &params);
    return call_raw(run, target, method, kg_buf_view(&params));
}

/* What it may be called with; nothing for a schema that is not understood. */
static void make_valid(const struct kit_target *target, struct kit_instances *ret_instances)
{
    if (target->params != NULL)
        kit_generate_valid(target->document, target->params, ret_instances);
    else
        ret_instances->items[ret_instances->count++] =
            (struct kit_instance){kg_strdup("{}"), kg_strdup("no params")};
}

/* What a handler throws, a call that no schema refuses does not show in any other way. */
static void find_internal(struct kit_run *run, const struct kit_target *target,
                          const struct kit_ask *ask)
{
    if (!kit_is_error(ask, KG_E_INTERNAL))
        return;
    struct kit_finding *finding =
        kit_find(run, KIT_RULE_ANSWER_INTERNAL, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload),
                 "%s answers an internal error", target->method);
    kit_finding_quote(finding, helper_child_errors(run->talk->seat->child));
}

static void check_calls_check_answer(struct kit_run *run, struct kit_target *target)
{
    kg_auto(kit_instances_free) struct kit_instances valid = {.count = 0};
    make_valid(target, &valid);
    for (size_t i = 0; i < valid.count; i++) {
        const struct kit_ask *ask =
            check_calls_call(run, target, kit_usual_context(target), kg_str(valid.items[i].json));
        if (ask == NULL || !kit_lives(run, ask))
            return;
        find_internal(run, target, ask);
        if (i == 0)
            target->has_result = ask->answer == KIT_RESULT;
    }
    target->works = valid.count > 0;
}

void kit_check_call_answer(struct kit_run *run)
{
    each_target(run, false, check_calls_check_answer);
}

static void find_misfit(struct kit_run *run, const struct kit_target *target,
                        const struct kit_ask *ask)
{
    struct kg_err err = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&ask->payload), &err);
    kg_auto(schema_report_free) struct schema_report report = {0};
    if (doc != NULL && schema_check(target->result, doc->root, &report))
        return;
    struct kg_str path = KG_STR(""), words = kg_str(err.message);
    if (report.count > 0) {
        path = report.errors[0].instance_path;
        words = report.errors[0].message;
    }
    kit_find(run, run->rule, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload),
             "the result of %s does not fit its schema: %.*s%s%.*s", target->method,
             KG_STR_CUT(path, KG_CUT_WORD), path.length ? " " : "", KG_STR_CUT(words, KG_CUT_PATH));
}

static void check_calls_check_result(struct kit_run *run, struct kit_target *target)
{
    kg_auto(kit_instances_free) struct kit_instances valid = {.count = 0};
    if (target->result == NULL)
        return;
    make_valid(target, &valid);
    for (size_t i = 0; i < valid.count; i++) {
        const struct kit_ask *ask =
            check_calls_call(run, target, kit_usual_context(target), kg_str(valid.items[i].json));
        if (ask == NULL)
            return;
        if (ask->answer == KIT_RESULT)
            find_misfit(run, target, ask);
    }
}

void kit_check_call_result(struct kit_run *run)
{
    each_target(run, true, check_calls_check_result);
}

/* Fields that it does not know must not make it refuse what it did before. */
static void check_calls_check_context(struct kit_run *run, struct kit_target *target)
{
    kg_auto(kit_instances_free) struct kit_instances valid = {.count = 0};
    make_valid(target, &valid);
    struct kg_str object = kg_str(valid.items[0].json);
    const struct kit_ask *bare = check_calls_call(run, target, KIT_BARE, object);
    if (bare == NULL || !kit_lives(run, bare))
        return;
    const struct kit_ask *more = check_calls_call(run, target, KIT_WITH_MORE, object);
    if (more == NULL || !kit_lives(run, more))
        return;
    if (target->has_result &&
        (kit_is_error(more, KG_E_INVALID_PARAMS) || kit_is_error(more, KG_E_INVALID_REQUEST)))
        kit_find(run, run->rule, kg_buf_view(&more->sent), kg_buf_view(&more->payload),
                 "%s refuses a _context with fields that it does not know", target->method);
}

void kit_check_call_context(struct kit_run *run)
{
    each_target(run, true, check_calls_check_context);
}

static void check_calls_check_invalid(struct kit_run *run, struct kit_target *target)
{
    kg_auto(kit_instances_free) struct kit_instances wrong = {.count = 0};
    if (target->params == NULL)
        return;
    kit_generate_invalid(target->document, target->params, &wrong);
    for (size_t i = 0; i < wrong.count && i < INVALID_MAX; i++) {
        const struct kit_ask *ask =
            check_calls_call(run, target, kit_usual_context(target), kg_str(wrong.items[i].json));
        if (ask == NULL || !kit_lives(run, ask))
            return;
        if (kit_is_error(ask, KG_E_INVALID_PARAMS))
            continue;
        kit_find(run, run->rule, kg_buf_view(&ask->sent), kg_buf_view(&ask->payload),
                 "%s takes params that its schema refuses: %s", target->method,
                 wrong.items[i].what);
        return;
    }
}

void kit_check_call_invalid(struct kit_run *run)
{
    each_target(run, true, check_calls_check_invalid);
}

static void check_calls_check_types(struct kit_run *run, struct kit_target *target)
{
    static const char *const odd[] = {"[1,\"two\",null]", "[]"};
    for (size_t i = 0; i < KG_COUNT(odd); i++) {
        const struct kit_ask *ask = call_raw(run, target, target->method, kg_str(odd[i]));
        if (ask == NULL || !kit_lives(run, ask))
            return;
    }
}

void kit_check_call_types(struct kit_run *run)
{
    each_target(run, true, check_calls_check_types);
}
