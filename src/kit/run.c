/*
 * Goes through the table: each group with a process of its own, each rule in it with the process as
 * the one before left it, or with a fresh one if that is spent. A rule is judged by its findings.
 */
#include "kit/run.h"

#include <stdlib.h>

/* -- what is called ---------------------------------------------------------------------------- */

static const struct kg_node *params_document(const struct manifest *manifest, const char *method)
{
    const struct kg_node *schemas = kg_node_get(manifest->doc->root, "schemas");
    return schemas != NULL ? kg_node_get(kg_node_get(schemas, method), "params") : NULL;
}

static void find_targets(struct kit_run *run)
{
    const struct manifest *manifest = kit_manifest(run);
    size_t count = manifest->method_count + manifest->tool_count;
    if (manifest->is_mcp)
        return; /* it tells of them when it is greeted */
    run->targets = kg_alloc_array(count + 1, sizeof(*run->targets));
    run->target_count = count;
    for (size_t i = 0; i < manifest->method_count; i++) {
        const struct manifest_method *method = &manifest->methods[i];
        run->targets[i] = (struct kit_target){
            .method = kg_strdup(method->name),
            .params = method->params,
            .result = method->result,
            .document = method->params ? params_document(manifest, method->name) : NULL,
            .timeout_ms = method->timeout_ms,
        };
    }
    for (size_t i = 0; i < manifest->tool_count; i++) {
        const struct manifest_tool *tool = &manifest->tools[i];
        run->targets[manifest->method_count + i] = (struct kit_target){
            .method = kg_format("%s.%s", manifest->name, tool->name),
            .is_tool = true,
            .offered = true,
            .params = tool->parameters,
            .document = tool->parameters_node,
            .timeout_ms = tool->timeout_ms,
        };
    }
}

static void free_targets(struct kit_run *run)
{
    for (size_t i = 0; i < run->target_count; i++)
        free(run->targets[i].method);
    free(run->targets);
}

/* -- which rules ------------------------------------------------------------------------------- */

static bool is_asked(const struct kit_options *options, enum kit_rule_id rule)
{
    bool all = true;
    for (enum kit_rule_id other = 0; other < KIT_RULE_COUNT; other++)
        all = all && !options->only[other];
    return all || options->only[rule];
}

static bool asks_for_group(const struct kit_options *options, enum kit_group group)
{
    for (enum kit_rule_id rule = 0; rule < KIT_RULE_COUNT; rule++)
        if (kit_rules[rule].group == group && is_asked(options, rule))
            return true;
    return false;
}

static bool has_check_asked(const struct kit_options *options)
{
    for (enum kit_group group = 0; group < KIT_GROUP_WATCHED; group++)
        if (asks_for_group(options, group))
            return true;
    return false;
}

/* What others build on is done although nobody asked; so is all, if only something is watched for.
 */
static bool is_needed(const struct kit_options *options, enum kit_rule_id rule)
{
    const struct kit_rule *row = &kit_rules[rule];
    bool is_basis = row->group == KIT_GROUP_HANDSHAKE || rule == KIT_RULE_PING_ANSWER ||
                    rule == KIT_RULE_MCP_PING;
    bool is_call = rule == KIT_RULE_CALL_ANSWER || rule == KIT_RULE_TOOL_ANSWER ||
                   rule == KIT_RULE_MCP_TOOL_ANSWER;
    return is_asked(options, rule) || is_basis ||
           (is_call &&
            (asks_for_group(options, row->group) || asks_for_group(options, KIT_GROUP_LOAD))) ||
           !has_check_asked(options);
}

/* -- checking ---------------------------------------------------------------------------------- */

static void skip(struct kit_run *run, enum kit_rule_id rule, const char *reason)
{
    struct kit_verdict *verdict = &run->report->verdicts[rule];
    verdict->status = KIT_SKIPPED;
    free(verdict->reason);
    verdict->reason = kg_strdup(reason);
}

static bool needs_handshake(const struct kit_rule *row)
{
    return row->group > KIT_GROUP_HANDSHAKE && row->group < KIT_GROUP_WATCHED;
}

static void check_rule(struct kit_run *run, enum kit_rule_id rule)
{
    const struct kit_rule *row = &kit_rules[rule];
    const char *reason = row->applies != NULL ? row->applies(run) : NULL;
    run->rule = rule;
    run->unclear.length = 0;
    if (run->room->interrupted)
        reason = "interrupted";
    if (reason != NULL) {
        skip(run, rule, reason);
        return;
    }
    if (row->check != NULL && (!needs_handshake(row) || kit_open(run) != NULL))
        row->check(run);
    if (run->unclear.length > 0)
        skip(run, rule, kg_buf_terminate(&run->unclear));
}

bool kit_rule_binds(enum kit_rule_id rule, const struct manifest *manifest)
{
    return (kit_rules[rule].protocol & (manifest->is_mcp ? KIT_MCP : KIT_OWN)) != 0;
}

static void check_group(struct kit_run *run, enum kit_group group)
{
    for (enum kit_rule_id rule = 0; rule < KIT_RULE_COUNT; rule++)
        if (kit_rules[rule].group == group && !run->report->verdicts[rule].is_foreign &&
            is_needed(run->options, rule))
            check_rule(run, rule);
    kit_talk_free(kg_steal(&run->talk));
}

/* What is only watched for was not seen if nothing could be. */
static void kit_run_judge(struct kit_run *run)
{
    for (enum kit_rule_id rule = 0; rule < KIT_RULE_COUNT; rule++) {
        struct kit_verdict *verdict = &run->report->verdicts[rule];
        bool is_advice = kit_rules[rule].group == KIT_GROUP_ADVICE;
        if (kit_has_found(run, rule)) {
            verdict->status = is_advice ? KIT_WARNED : KIT_FAILED;
            free(kg_steal(&verdict->reason));
        } else if (kit_rules[rule].group == KIT_GROUP_WATCHED && !run->shook_hands) {
            skip(run, rule, "its handshake did not succeed");
        }
        if (!is_asked(run->options, rule))
            skip(run, rule, "it was not asked for");
    }
}

static void drop_unasked(struct kit_report *report, const struct kit_options *options)
{
    size_t kept = 0;
    for (size_t i = 0; i < report->finding_count; i++) {
        struct kit_finding finding = report->findings[i];
        if (is_asked(options, finding.rule))
            report->findings[kept++] = finding;
        else
            kit_finding_clear(&finding);
    }
    report->finding_count = kept;
}

static void tell_problems(struct kit_run *run)
{
    const struct kg_problems *problems = run->options->problems;
    for (size_t i = 0; problems != NULL && i < problems->count; i++)
        kit_find(run, KIT_RULE_MANIFEST_ADVICE, KG_STR(""), KG_STR(""), "line %u: %s [%s]",
                 problems->items[i].line, problems->items[i].message, problems->items[i].row->code);
}

void kit_run(struct kit_room *room, const struct kit_options *options,
             struct kit_report *ret_report)
{
    uint64_t started_ms = kg_monotonic_ms();
    struct kit_run run = {
        .room = room,
        .options = options,
        .report = ret_report,
        .timeout_ms = options->timeout_ms,
        .seen = {.notifications = kg_list_new(0), .hosts = kg_list_new(0)},
    };
    for (enum kit_rule_id rule = 0; rule < KIT_RULE_COUNT; rule++)
        ret_report->verdicts[rule].is_foreign = !kit_rule_binds(rule, room->parts.manifest);
    find_targets(&run);
    tell_problems(&run);
    for (enum kit_group group = 0; group < KIT_GROUP_COUNT; group++)
        check_group(&run, group);
    kit_run_judge(&run);
    drop_unasked(ret_report, options);
    ret_report->interrupted = room->interrupted;
    ret_report->duration_ms = kg_monotonic_ms() - started_ms;
    kit_story_free(run.story);
    kg_doc_free(run.hello);
    kg_list_free(run.seen.notifications);
    kg_list_free(run.seen.hosts);
    kg_buf_free(&run.unclear);
    kg_buf_free(&run.tools);
    manifest_free(run.learned);
    free_targets(&run);
}
