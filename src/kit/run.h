/* One run of the kit, as its checks see it. */
#ifndef KAGED_KIT_RUN_H
#define KAGED_KIT_RUN_H

#include "kit/internal.h"
#include "kit/kit.h"
#include "wire/wire.h"

struct kit_run;
struct kit_talk;

enum kit_group {
    KIT_GROUP_HANDSHAKE,
    KIT_GROUP_REQUESTS,
    KIT_GROUP_CALLS,
    KIT_GROUP_TOOLS,
    KIT_GROUP_HOOKS,
    KIT_GROUP_CONFIG,
    KIT_GROUP_LOAD,
    KIT_GROUP_WATCHED,
    KIT_GROUP_ADVICE,
    KIT_GROUP_COUNT
};

/* Whose rule it is. */
enum kit_protocol { KIT_OWN = 1, KIT_MCP = 2, KIT_BOTH = KIT_OWN | KIT_MCP };

struct kit_rule {
    const char *name;
    enum kit_protocol protocol;
    enum kit_group group;
    const char *(*applies)(const struct kit_run *run); /* why it does not; NULL: it does */
    void (*check)(struct kit_run *run);
    const char *title, *mend;
};
extern const struct kit_rule kit_rules[KIT_RULE_COUNT];

/* A method or a tool that can be called. */
struct kit_target {
    char *method; /* owned; as it is called; of an MCP server the name of the tool */
    bool is_tool;
    const struct schema *params, *result; /* as declared; NULL: anything goes */
    const struct kg_node *document;       /* what params was compiled of */
    uint64_t timeout_ms;                  /* of the manifest; 0: none */
    bool offered;                         /* a method that initialize named, or a tool */
    bool works;                           /* it has answered, and the plugin lived */
    bool has_result;                      /* and what it answered was one */
};

/* What the plugin was seen to use. */
struct kit_seen {
    bool storage_read, storage_write, asked, sampled;
    char **notifications; /* owned, NULL-ended, like the next */
    char **hosts;         /* "host:port" */
};

struct kit_run {
    struct kit_room *room;
    const struct kit_options *options;
    struct kit_report *report;
    enum kit_rule_id rule;        /* that is being checked */
    struct kg_buf unclear;        /* why it cannot be told; empty: it can */
    struct kit_talk *talk;        /* the process; NULL: none */
    struct kg_doc *hello;         /* the result of initialize; NULL: there is none */
    bool shook_hands;             /* the handshake succeeded once */
    struct manifest *learned;     /* owned; of an MCP server, with the tools that it listed */
    struct kg_buf tools;          /* these, as they came */
    enum dialect_variant variant; /* and its era */
    bool answers_ping;
    uint64_t timeout_ms; /* grows shorter with a plugin that hangs again and again */
    unsigned timeouts;
    struct kit_target *targets; /* owned */
    size_t target_count;
    struct kit_seen seen;
    struct kit_story *story; /* NULL until a hook needs it */
};

static inline const struct manifest *kit_manifest(const struct kit_run *run)
{
    return run->room->parts.manifest;
}

/* -- findings, see report.c -------------------------------------------------------------------- */

/*
 * Past a few of one rule they are counted only; one that is there already is not told again.
 * Borrowed from the report until the next one; NULL if it was only counted.
 */
struct kit_finding *kit_find(struct kit_run *run, enum kit_rule_id rule, struct kg_str sent,
                             struct kg_str came, const char *format, ...) KG_PRINTF(5, 6);
/* Adds the last lines of the text to a finding, which may be NULL. */
void kit_finding_quote(struct kit_finding *finding, struct kg_str text);
void kit_finding_clear(struct kit_finding *finding);
bool kit_has_found(const struct kit_run *run, enum kit_rule_id rule);
/* The rule that is being checked cannot be judged, for that reason. */
void kit_be_unclear(struct kit_run *run, const char *format, ...) KG_PRINTF(2, 3);

/* -- talking, see talk.c ----------------------------------------------------------------------- */

enum kit_answer {
    KIT_NO_ANSWER,
    KIT_RESULT,
    KIT_ERROR,
    KIT_BROKEN, /* something came that could not be read; another rule tells of it */
};

/* A request of ours. */
struct kit_ask {
    char *id;           /* owned; as JSON */
    char *method;       /* owned */
    struct kg_buf sent; /* the start of the line */
    enum kit_answer answer;
    uint32_t answers;
    struct kg_buf payload; /* the result, or the error object */
};

struct kit_talk {
    struct kit_run *run;           /* borrowed */
    struct kit_seat *seat;         /* owned */
    struct kit_greeting *greeting; /* owned; of an MCP server, once it was begun; or NULL */
    enum peer_phase phase;
    struct kit_ask **asks; /* owned */
    size_t ask_count;
    struct kg_buf last_sent; /* of us, its start; for findings */
    bool sending;            /* it is being sent */
    struct kg_str line;      /* the one that the peer takes now */
    struct kg_rate notifications;
    bool spent; /* it did what ends a plugin, or is past hope */
};

/* A process that has not been spoken to. NULL with err if there is no cage for it. */
struct kit_talk *kit_talk_new(struct kit_run *run, struct kg_err *err);
void kit_talk_free(struct kit_talk *talk); /* takes NULL */
void kit_talk_set_phase(struct kit_talk *talk, enum peer_phase phase);
/* That, or it has ended, or is about to: the next rule takes another process. */
bool kit_talk_is_spent(const struct kit_talk *talk);

/* id is JSON; NULL: the next number. Lives as long as the talk. */
struct kit_ask *kit_talk_ask(struct kit_talk *talk, const char *id, const char *method,
                             struct kg_str params);
void kit_talk_notify(struct kit_talk *talk, const char *method, struct kg_str params);
/* Greets an MCP server; false: it did not become ready, which greeting->failed may explain. */
bool kit_talk_greet(struct kit_talk *talk, enum dialect_variant variant, uint64_t timeout_ms);
/* The last request of that method, or NULL. */
const struct kit_ask *kit_talk_asked(const struct kit_talk *talk, const char *method);
/* Until all are answered or there is no hope; a plugin that still reads its stdin has more time. */
bool kit_talk_wait(struct kit_talk *talk, struct kit_ask *const *asks, size_t count,
                   uint64_t timeout_ms);

/* Until no request of the plugin's own waits for its answer. */
void kit_talk_wait_served(struct kit_talk *talk, uint64_t timeout_ms);

/* -- asking, see run.c: what goes wrong is a finding of the rule that is being checked --------- */

struct kit_question {
    const char *id; /* NULL: the next number */
    const char *method;
    struct kg_str params;
    uint64_t timeout_ms; /* 0: the run's */
    unsigned patience;   /* so many times the run's; 0: once */
    bool is_simple;      /* it cannot take longer than a ping */
};
/* The answer, or NULL: there was none, and that is a finding or makes the rule unclear. */
const struct kit_ask *kit_question(struct kit_run *run, const struct kit_question *question);
/* Whether it was answered with an error of that code. */
bool kit_is_error(const struct kit_ask *ask, enum kg_code code);
/* Whether it still lives after an answer; else that is a finding, of what was sent. */
bool kit_lives(struct kit_run *run, const struct kit_ask *asked);
/* It ended by itself, and should not have: a finding of the rule. */
void kit_find_end(struct kit_run *run, enum kit_rule_id rule);
/* Tells of an end or a silence in words; for checks that wait on their own. */
void kit_find_no_answer(struct kit_run *run, enum kit_rule_id rule, const struct kit_ask *ask,
                        const char *method);
/* Waits for its exit with code 0. `sent` is what should have ended it. */
void kit_expect_exit(struct kit_run *run, const char *sent);
void kit_expect_end(struct kit_run *run, const char *sent); /* whatever its code is */
/* What the plugin begins when it is told initialized is done, as far as that can be seen. */
void kit_settle(struct kit_run *run);
/* A process after the handshake: the one that there is, or a fresh one; NULL: unclear. */
struct kit_talk *kit_open(struct kit_run *run);
/* Its steps, for the rules that look at each. */
const struct kit_ask *kit_send_initialize(struct kit_run *run);
const struct kit_ask *kit_send_config(struct kit_run *run, struct kg_str config);
void kit_send_initialized(struct kit_run *run);

/* -- params, see params.c ---------------------------------------------------------------------- */

enum kit_context {
    KIT_OF_CALLER, /* an operator, no agent */
    KIT_OF_AGENT,  /* all fields */
    KIT_BARE,      /* hardly any */
    KIT_WITH_MORE, /* all, and some that nobody knows */
};
/* As the daemon sends them: `_context`, then the members of the object. */
void kit_put_params(const struct kit_run *run, enum kit_context context, struct kg_str object,
                    struct kg_buf *out);
/* What a method that takes nothing is asked with. */
void kit_put_nothing(const struct kit_run *run, struct kg_buf *out);
/* A call of the target, as the daemon makes it: its method on the wire and its params. */
const char *kit_put_call(const struct kit_run *run, const struct kit_target *target,
                         enum kit_context context, struct kg_str object, struct kg_buf *out);
/* The context in which it is mostly called. */
enum kit_context kit_usual_context(const struct kit_target *target);
/* A configuration that fits both schemas: as small as may be, or full. Empty: none can be made. */
void kit_make_config(const struct manifest *manifest, bool full, struct kg_buf *out);

/* -- a session to tell hooks about, see story.c ------------------------------------------------ */

struct kit_story;
struct kit_story *kit_story_new(const struct kit_room *room, struct kg_err *err);
void kit_story_free(struct kit_story *story); /* takes NULL */
/* What the daemon sends with a hook, without `_context`; empty for none. */
struct kg_str kit_story_params(const struct kit_story *story, enum manifest_hook hook);
/* The same for the designated compactor; and whether its answer could be used. */
struct kg_str kit_story_compactor_params(const struct kit_story *story);
int kit_story_check_compactor(struct kit_story *story, const char *plugin, struct kg_str result,
                              struct kg_err *err);

/* -- the rules' functions ---------------------------------------------------------------------- */

const char *kit_applies_config(const struct kit_run *run);
const char *kit_applies_ping(const struct kit_run *run);
const char *kit_applies_calls(const struct kit_run *run);
const char *kit_applies_methods(const struct kit_run *run);
const char *kit_applies_result_schemas(const struct kit_run *run);
const char *kit_applies_method_schemas(const struct kit_run *run);
const char *kit_applies_tools(const struct kit_run *run);
const char *kit_applies_tool_schemas(const struct kit_run *run);
const char *kit_applies_hooks(const struct kit_run *run);
const char *kit_applies_compactor(const struct kit_run *run);
const char *kit_applies_visible_capabilities(const struct kit_run *run);
const char *kit_applies_notifications(const struct kit_run *run);
const char *kit_applies_legacy(const struct kit_run *run);
const char *kit_applies_resources(const struct kit_run *run);
const char *kit_applies_prompts(const struct kit_run *run);

void kit_check_cage_start(struct kit_run *run);
void kit_check_initialize_answer(struct kit_run *run);
void kit_check_initialize_name(struct kit_run *run);
void kit_check_initialize_version(struct kit_run *run);
void kit_check_initialize_api(struct kit_run *run);
void kit_check_initialize_methods(struct kit_run *run);
void kit_check_initialize_notifications(struct kit_run *run);
void kit_check_initialize_capabilities(struct kit_run *run);
void kit_check_config_start(struct kit_run *run);
void kit_check_initialized_lives(struct kit_run *run);
void kit_check_shutdown_notification(struct kit_run *run);
void kit_check_ping(struct kit_run *run);
void kit_check_id_number(struct kit_run *run);
void kit_check_id_string(struct kit_run *run);
void kit_check_method_unknown(struct kit_run *run);
void kit_check_notification_unknown(struct kit_run *run);
void kit_check_projects(struct kit_run *run);
void kit_check_shutdown_eof(struct kit_run *run);
void kit_check_call_answer(struct kit_run *run);
void kit_check_call_result(struct kit_run *run);
void kit_check_call_context(struct kit_run *run);
void kit_check_call_invalid(struct kit_run *run);
void kit_check_call_types(struct kit_run *run);
void kit_check_hook_answer(struct kit_run *run);
void kit_check_hook_result(struct kit_run *run);
void kit_check_hook_compactor(struct kit_run *run);
void kit_check_config_valid(struct kit_run *run);
void kit_check_config_garbage(struct kit_run *run);
void kit_check_big_line(struct kit_run *run);
void kit_check_concurrent_answers(struct kit_run *run);
void kit_check_concurrent_ping(struct kit_run *run);
void kit_check_cancel_unknown(struct kit_run *run);
void kit_check_cancel_call(struct kit_run *run);
void kit_check_mcp_greeting(struct kit_run *run);
void kit_check_mcp_info(struct kit_run *run);
void kit_check_mcp_tools(struct kit_run *run);
void kit_check_mcp_ping(struct kit_run *run);
void kit_check_mcp_resources(struct kit_run *run);
void kit_check_mcp_prompts(struct kit_run *run);
void kit_check_mcp_result(struct kit_run *run);
void kit_check_mcp_invalid(struct kit_run *run);
void kit_check_mcp_types(struct kit_run *run);
void kit_check_mcp_unknown_tool(struct kit_run *run);
void kit_check_mcp_described(struct kit_run *run);
void kit_check_mcp_eof(struct kit_run *run);
void kit_check_capability_used(struct kit_run *run);
void kit_check_notification_used(struct kit_run *run);

#endif
