/*
 * kaged plugin test: a plugin's folder against the conformance kit. Needs no daemon, and touches
 * nothing of the operator's: what the plugin keeps goes to a temporary folder.
 */
#include "cli/cli.h"

#include "base/doc.h"
#include "kit/kit.h"

#include <errno.h>
#include <stdlib.h>

#define TIMEOUT_SEC_MAX 600
#define NAME_COLUMNS    26

static const struct {
    const char *mark, *color;
} marks[KIT_STATUS_COUNT] = {
    [KIT_PASSED] = {"✓", "\033[32m"},
    [KIT_FAILED] = {"✗", "\033[31m"},
    [KIT_WARNED] = {"!", "\033[33m"},
    [KIT_SKIPPED] = {"–", "\033[2m"},
};

/* -- what is shown ----------------------------------------------------------------------------- */

static void put_mark(struct kg_buf *out, enum kit_status status)
{
    bool colors = print_colors();
    kg_buf_printf(out, "%s%s%s ", colors ? marks[status].color : "", marks[status].mark,
                  colors ? "\033[0m" : "");
}

/* What its manifest declares is all that it gets. */
static void show_begin(const struct manifest *manifest)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_buf_escaped(&out, kg_str(manifest->name));
    kg_buf_char(&out, ' ');
    kg_buf_escaped(&out, kg_str(manifest->version));
    kg_buf_text(&out, " runs in its cage with ");
    for (char **capability = manifest->capabilities; *capability != NULL; capability++) {
        kg_buf_text(&out, capability == manifest->capabilities ? "" : ", ");
        kg_buf_escaped(&out, kg_str(*capability));
    }
    kg_buf_printf(&out, "%s, taken as approved for this run\n",
                  manifest->capabilities[0] == NULL ? "no capabilities" : "");
    print_out(&out);
    fflush(stdout);
}

static void put_rule(struct kg_buf *out, enum kit_rule_id rule, const struct kit_verdict *verdict)
{
    put_mark(out, verdict->status);
    kg_buf_printf(out, "%-*s %s", NAME_COLUMNS, kit_rule_name(rule), kit_rule_title(rule));
    if (verdict->reason != NULL)
        kg_buf_printf(out, " (%s)", verdict->reason);
    kg_buf_char(out, '\n');
}

static void plugin_test_put_detail(struct kg_buf *out, const char *word, const char *text)
{
    if (text[0] != '\0')
        kg_buf_printf(out, "    %s: %s\n", word, text);
}

static void plugin_test_put_words(struct kg_buf *out, const char *words)
{
    kg_buf_text(out, "    its last lines on stderr:\n");
    for (const char *end; (end = strchr(words, '\n')) != NULL; words = end + 1)
        kg_buf_printf(out, "        %.*s\n", (int)(end - words), words);
}

static void put_finding(struct kg_buf *out, const struct kit_report *report,
                        const struct kit_finding *finding)
{
    kg_buf_char(out, '\n');
    put_mark(out, report->verdicts[finding->rule].status);
    kg_buf_printf(out, "%s: %s\n", kit_rule_name(finding->rule), finding->message);
    plugin_test_put_detail(out, "sent", finding->sent);
    plugin_test_put_detail(out, "came", finding->came);
    if (finding->words != NULL)
        plugin_test_put_words(out, finding->words);
    plugin_test_put_detail(out, "fix", kit_rule_mend(finding->rule));
    if (finding->more > 0)
        kg_buf_printf(out, "    and %u more of this rule\n", finding->more);
}

static void plugin_test_put_text(struct kg_buf *out, const struct kit_report *report)
{
    for (enum kit_rule_id rule = 0; rule < KIT_RULE_COUNT; rule++)
        if (!report->verdicts[rule].is_foreign)
            put_rule(out, rule, &report->verdicts[rule]);
    for (size_t i = 0; i < report->finding_count; i++)
        put_finding(out, report, &report->findings[i]);
    kg_buf_printf(out, "\n%zu passed, %zu failed, %zu warned, %zu not applicable, in %.1f s\n",
                  kit_report_count(report, KIT_PASSED), kit_report_count(report, KIT_FAILED),
                  kit_report_count(report, KIT_WARNED), kit_report_count(report, KIT_SKIPPED),
                  (double)report->duration_ms / 1000);
}

static void put_rules_json(struct kg_json_writer *json, const struct kit_report *report)
{
    kg_json_named_begin(json, "rules", '[');
    for (enum kit_rule_id rule = 0; rule < KIT_RULE_COUNT; rule++) {
        if (report->verdicts[rule].is_foreign)
            continue;
        kg_json_begin(json, '{');
        kg_json_named_text(json, "rule", kit_rule_name(rule));
        kg_json_named_text(json, "title", kit_rule_title(rule));
        kg_json_named_text(json, "status", kit_status_names[report->verdicts[rule].status]);
        kg_json_named_text(json, "reason", report->verdicts[rule].reason);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

static void put_findings_json(struct kg_json_writer *json, const struct kit_report *report)
{
    kg_json_named_begin(json, "findings", '[');
    for (size_t i = 0; i < report->finding_count; i++) {
        const struct kit_finding *finding = &report->findings[i];
        kg_json_begin(json, '{');
        kg_json_named_text(json, "rule", kit_rule_name(finding->rule));
        kg_json_named_text(json, "status",
                           kit_status_names[report->verdicts[finding->rule].status]);
        kg_json_named_text(json, "message", finding->message);
        kg_json_named_text(json, "sent", finding->sent);
        kg_json_named_text(json, "came", finding->came);
        kg_json_named_text(json, "stderr", finding->words);
        kg_json_named_text(json, "mend", kit_rule_mend(finding->rule));
        kg_json_named_int(json, "more", finding->more);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

static void plugin_test_put_json(struct kg_buf *out, const struct manifest *manifest,
                                 const struct kit_report *report)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", manifest->name);
    kg_json_named_text(&json, "version", manifest->version);
    kg_json_named_begin(&json, "capabilities", '[');
    for (char **capability = manifest->capabilities; *capability != NULL; capability++)
        kg_json_text(&json, *capability);
    kg_json_end(&json, ']');
    put_rules_json(&json, report);
    put_findings_json(&json, report);
    kg_json_named_begin(&json, "counts", '{');
    for (enum kit_status status = 0; status < KIT_STATUS_COUNT; status++)
        kg_json_named_int(&json, kit_status_names[status],
                          (int64_t)kit_report_count(report, status));
    kg_json_end(&json, '}');
    kg_json_named_int(&json, "duration_ms", (int64_t)report->duration_ms);
    kg_json_named_bool(&json, "interrupted", report->interrupted);
    kg_json_end(&json, '}');
    kg_buf_char(out, '\n');
}

/* -- the run ----------------------------------------------------------------------------------- */

static int test(const struct cli *cli, const char *dir, const struct manifest *manifest,
                const struct kit_options *options)
{
    struct kg_err err = {0};
    struct config *config = config_load(cli->paths.config_file, &err);
    const struct kit_room_parts parts = {
        .manifest = manifest, .dir = dir, .config = config, .paths = &cli->paths};
    struct kit_room *room = config != NULL ? kit_room_new(&parts, &err) : NULL;
    kg_auto(kit_report_free) struct kit_report report = {0};
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    if (room == NULL) {
        config_free(config);
        return print_error(&err);
    }
    if (!cli->json)
        show_begin(manifest);
    kit_run(room, options, &report);
    kit_room_free(room);
    if (cli->json)
        plugin_test_put_json(&out, manifest, &report);
    else
        plugin_test_put_text(&out, &report);
    print_out(&out);
    config_free(config);
    if (report.interrupted)
        return print_problem(CLI_FAILED, KG_STR("interrupted"), KG_STR(""));
    return kit_report_count(&report, KIT_FAILED) == 0 ? CLI_DONE : CLI_FAILED;
}

/* "ping.answer,id.string" */
static int take_rules(const char *list_or_null, struct kit_options *options, struct kg_err *err)
{
    kg_auto(kg_free) char *list = kg_strdup(list_or_null != NULL ? list_or_null : "");
    char *rest = NULL;
    for (char *name = strtok_r(list, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) {
        enum kit_rule_id rule;
        if (!kit_rule_find(kg_str(name), &rule)) {
            kg_fail(err, KG_E_INVALID_PARAMS, "there is no rule %s", name);
            return kg_hint(err, "kaged plugin test without --rule lists all of them");
        }
        options->only[rule] = true;
    }
    return 0;
}

static int plugin_test_take_options(const struct cli *cli, struct kit_options *ret_options,
                                    struct kg_err *err)
{
    int64_t timeout_sec = 5;
    int result = cli_option_number(cli, "timeout", 1, TIMEOUT_SEC_MAX, &timeout_sec, err);
    if (result == 0)
        result = take_rules(cli_option_value(cli, "rule"), ret_options, err);
    ret_options->timeout_ms = (uint64_t)timeout_sec * 1000;
    return result;
}

static int check_rules(const struct manifest *manifest, const struct kit_options *options,
                       struct kg_err *err)
{
    for (enum kit_rule_id rule = 0; rule < KIT_RULE_COUNT; rule++)
        if (options->only[rule] && !kit_rule_binds(rule, manifest)) {
            kg_fail(err, KG_E_INVALID_PARAMS, "%s is not a rule for %s, which speaks %s",
                    kit_rule_name(rule), manifest->name,
                    manifest->is_mcp ? "MCP" : "kaged's own protocol");
            return kg_hint(err, "kaged plugin test without --rule lists those that are");
        }
    return 0;
}

int cli_plugin_test(struct cli *cli)
{
    const char *dir = cli_argument(cli, 0);
    kg_auto(kg_free) char *path = kg_format("%s/%s", dir, MANIFEST_FILE);
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kit_options options = {.problems = &problems};
    struct kg_err err = {0};
    if (plugin_test_take_options(cli, &options, &err) < 0) {
        print_error(&err);
        return CLI_USAGE;
    }
    int result = kg_read_file(path, KG_DOC_BYTES_MAX, &text, &err);
    if (result < 0) {
        err.code = result == -ENOENT || result == -ENOTDIR ? KG_E_NOT_FOUND : KG_E_INVALID_MANIFEST;
        kg_hint(&err, "name the folder of a plugin, with its %s", MANIFEST_FILE);
        return print_error(&err);
    }
    struct manifest *manifest = manifest_read(kg_buf_view(&text), &problems);
    int code = kg_error_row(KG_E_INVALID_MANIFEST)->exit_code;
    if (manifest != NULL && check_rules(manifest, &options, &err) < 0) {
        print_error(&err);
        code = CLI_USAGE;
    } else if (manifest != NULL) {
        code = test(cli, dir, manifest, &options);
    } else {
        manifest_problems_fail(&problems, path, &err);
        print_error(&err);
    }
    manifest_free(manifest);
    return code;
}
