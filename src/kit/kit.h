/*
 * The conformance kit: a plugin in its real cage, without a daemon, against every rule that binds a
 * plugin. A rule is a row of rules.def. Rules that belong together share a process; when one rule
 * has broken it, the next gets a fresh one, so that a fault shows under its own name and does not
 * hide others.
 */
#ifndef KAGED_KIT_H
#define KAGED_KIT_H

#include "kit/room.h"

/* -- rules ------------------------------------------------------------------------------------- */

enum kit_rule_id {
#define KIT_RULE(symbol, name, protocol, group, applies, check, title, mend) KIT_RULE_##symbol,
#include "kit/rules.def"
#undef KIT_RULE
    KIT_RULE_COUNT
};

enum kit_status {
    KIT_PASSED,
    KIT_FAILED,
    KIT_WARNED,
    KIT_SKIPPED, /* it does not apply, or could not be seen: the reason says why */
    KIT_STATUS_COUNT
};
extern const char *const kit_status_names[KIT_STATUS_COUNT];

const char *kit_rule_name(enum kit_rule_id rule);
const char *kit_rule_title(enum kit_rule_id rule);
const char *kit_rule_mend(enum kit_rule_id rule);
/* Whether it is one of the protocol that the plugin speaks. */
bool kit_rule_binds(enum kit_rule_id rule, const struct manifest *manifest);
/* False: there is no rule of that name. */
bool kit_rule_find(struct kg_str name, enum kit_rule_id *ret_rule);

/* -- the report -------------------------------------------------------------------------------- */

/* Texts are owned, and shortened; "" where there is nothing to show. */
struct kit_finding {
    enum kit_rule_id rule;
    char *message;
    char *sent, *came;
    char *words;   /* owned; the last lines that it wrote on stderr before it ended, or NULL */
    uint32_t more; /* how many more there were of the same rule that are not shown */
};

struct kit_verdict {
    bool is_foreign; /* it is not a rule of the protocol that the plugin speaks, and not told of */
    enum kit_status status;
    char *reason; /* owned; why it was skipped, else NULL */
};

struct kit_report {
    struct kit_verdict verdicts[KIT_RULE_COUNT];
    struct kit_finding *findings; /* owned */
    size_t finding_count;
    uint64_t duration_ms;
    bool interrupted; /* what was not checked by then is skipped */
};
void kit_report_free(struct kit_report *report); /* also for kg_auto */
size_t kit_report_count(const struct kit_report *report, enum kit_status status);

/* -- the run ----------------------------------------------------------------------------------- */

struct kit_options {
    uint64_t timeout_ms;                /* for one answer; initialize has twice that */
    const struct kg_problems *problems; /* warnings about the manifest; NULL: none */
    bool only[KIT_RULE_COUNT];          /* the rules that are asked for; none: all */
};
void kit_run(struct kit_room *room, const struct kit_options *options,
             struct kit_report *ret_report);

#endif
