/*
 * What a run found. Texts of the plugin are cut and escaped here, once: they may hold anything, and
 * will be shown on terminals.
 */
#include "kit/run.h"

#include <stdio.h>
#include <stdlib.h>

#define FINDINGS_OF_RULE 3
#define EXCERPT_BYTES    240
#define QUOTED_LINES     20 /* Node writes a dozen below the error that ended it */

const char *const kit_status_names[KIT_STATUS_COUNT] = {
    [KIT_PASSED] = "passed",
    [KIT_FAILED] = "failed",
    [KIT_WARNED] = "warned",
    [KIT_SKIPPED] = "skipped",
};

const struct kit_rule kit_rules[KIT_RULE_COUNT] = {
#define KIT_RULE(symbol, name, protocol, group, applies, check, title, mend)                       \
    [KIT_RULE_##symbol] = {name, KIT_##protocol, KIT_GROUP_##group, applies, check, title, mend},
#include "kit/rules.def"
#undef KIT_RULE
};

const char *kit_rule_name(enum kit_rule_id rule)
{
    return kit_rules[rule].name;
}

const char *kit_rule_title(enum kit_rule_id rule)
{
    return kit_rules[rule].title;
}

const char *kit_rule_mend(enum kit_rule_id rule)
{
    return kit_rules[rule].mend;
}

bool kit_rule_find(struct kg_str name, enum kit_rule_id *ret_rule)
{
    for (enum kit_rule_id rule = 0; rule < KIT_RULE_COUNT; rule++) {
        if (!kg_str_is(name, kit_rules[rule].name))
            continue;
        *ret_rule = rule;
        return true;
    }
    return false;
}

/* Its start, and its length where there is more. */
static char *excerpt(struct kg_str text)
{
    struct kg_buf out = {0};
    size_t shown = text.length < EXCERPT_BYTES ? text.length : EXCERPT_BYTES;
    kg_buf_escaped(&out, (struct kg_str){text.data, shown});
    if (shown < text.length)
        kg_buf_printf(&out, "... (%zu bytes)", text.length);
    kg_buf_terminate(&out);
    return out.data;
}

/* True: it is counted, and need not be told. */
static bool is_told(struct kit_report *report, enum kit_rule_id rule, const char *message)
{
    struct kit_finding *last = NULL;
    size_t told = 0;
    for (size_t i = 0; i < report->finding_count; i++) {
        struct kit_finding *finding = &report->findings[i];
        if (finding->rule != rule)
            continue;
        if (strcmp(finding->message, message) == 0)
            return true;
        told++;
        last = finding;
    }
    if (told < FINDINGS_OF_RULE)
        return false;
    last->more++;
    return true;
}

struct kit_finding *kit_find(struct kit_run *run, enum kit_rule_id rule, struct kg_str sent,
                             struct kg_str came, const char *format, ...)
{
    struct kit_report *report = run->report;
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    kg_buf_escaped(&message, kg_str(text));
    if (is_told(report, rule, kg_buf_terminate(&message)))
        return NULL;
    report->findings =
        kg_realloc(report->findings, (report->finding_count + 1) * sizeof(*report->findings));
    struct kit_finding *finding = &report->findings[report->finding_count++];
    *finding = (struct kit_finding){
        .rule = rule,
        .message = kg_strdup(message.data),
        .sent = excerpt(sent),
        .came = excerpt(came),
    };
    return finding;
}

/* Where its last lines begin; a newline at its end begins none. */
static size_t tail_of(struct kg_str text)
{
    size_t at = text.length;
    for (unsigned lines = 0; at > 0; at--)
        if (text.data[at - 1] == '\n' && at < text.length && ++lines == QUOTED_LINES)
            break;
    return at;
}

void kit_finding_quote(struct kit_finding *finding, struct kg_str text)
{
    struct kg_buf out = {0};
    if (finding == NULL || text.length == 0)
        return;
    for (size_t at = tail_of(text), end; at < text.length; at = end + 1) {
        for (end = at; end < text.length && text.data[end] != '\n';)
            end++;
        kg_buf_escaped(&out, (struct kg_str){text.data + at, end - at});
        kg_buf_char(&out, '\n');
    }
    kg_buf_terminate(&out);
    finding->words = out.data;
}

void kit_finding_clear(struct kit_finding *finding)
{
    free(finding->message);
    free(finding->sent);
    free(finding->came);
    free(finding->words);
}

bool kit_has_found(const struct kit_run *run, enum kit_rule_id rule)
{
    for (size_t i = 0; i < run->report->finding_count; i++)
        if (run->report->findings[i].rule == rule)
            return true;
    return false;
}

void kit_be_unclear(struct kit_run *run, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    run->unclear.length = 0;
    kg_buf_escaped(&run->unclear, kg_str(text));
}

size_t kit_report_count(const struct kit_report *report, enum kit_status status)
{
    size_t count = 0;
    for (size_t i = 0; i < KIT_RULE_COUNT; i++)
        count += !report->verdicts[i].is_foreign && report->verdicts[i].status == status;
    return count;
}

void kit_report_free(struct kit_report *report)
{
    for (size_t i = 0; i < report->finding_count; i++)
        kit_finding_clear(&report->findings[i]);
    free(report->findings);
    for (size_t i = 0; i < KIT_RULE_COUNT; i++)
        free(report->verdicts[i].reason);
}
