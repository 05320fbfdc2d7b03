/*
 * Questions of the checks. A question has an answer, or the check has nothing more to do: what went
 * wrong is told here, as a finding of the rule that is being checked, or makes it unclear where
 * another rule tells of it. A talk in which something went unanswered is spent.
 */
#include "kit/run.h"

#include <stdio.h>

#define SIMPLE_GRACE_MS 500  /* after a later ping was answered */
#define SETTLE_MS       1000 /* for a ping after the handshake, which may go unanswered */
#define DEATH_GRACE_MS  200  /* for one that answers no ping, and may be about to leave */
#define TIMEOUTS_FULL   3    /* then a plugin that hangs gets a quarter of the time */

/* It has ended: how, and what it said last. `before` leads up to that. */
static void ask_find_end(struct kit_run *run, enum kit_rule_id rule, struct kg_str sent,
                         struct kg_str came, const char *before)
{
    struct kit_seat *seat = run->talk->seat;
    const struct cage_exit *how = helper_child_exit(seat->child);
    struct kit_finding *finding =
        kit_find(run, rule, sent, came, "%sit %s %d", before,
                 how->signal != 0 ? "was ended by signal" : "ended with exit code",
                 how->signal != 0 ? how->signal : how->exit_code);
    kit_finding_quote(finding, helper_child_errors(seat->child));
}

void kit_find_end(struct kit_run *run, enum kit_rule_id rule)
{
    ask_find_end(run, rule,
                 KG_STR("{\"jsonrpc\":\"2.0\",\"method\":\"initialized\",\"params\":{}}"),
                 KG_STR(""), "");
}

static void count_timeout(struct kit_run *run)
{
    if (++run->timeouts == TIMEOUTS_FULL)
        run->timeout_ms /= 4;
}

void kit_find_no_answer(struct kit_run *run, enum kit_rule_id rule, const struct kit_ask *ask,
                        const char *method)
{
    if (run->room->interrupted) {
        kit_be_unclear(run, "interrupted");
    } else if (helper_child_exit(run->talk->seat->child) != NULL) {
        kg_auto(kg_free) char *before = kg_format("%s is not answered: ", method);
        ask_find_end(run, rule, kg_buf_view(&ask->sent), KG_STR(""), before);
    } else if (kit_talk_is_spent(run->talk)) {
        kit_be_unclear(run, "it no longer takes messages");
    } else {
        count_timeout(run);
        kit_find(run, rule, kg_buf_view(&ask->sent), KG_STR(""), "%s is not answered in time",
                 method);
    }
    run->talk->spent = true;
}

/* A plugin that answers a later ping, and is then silent for a moment, will not answer. */
static bool wait_simple(struct kit_run *run, struct kit_ask *ask, uint64_t timeout_ms)
{
    struct kit_ask *both[2] = {ask, kit_talk_ask(run->talk, NULL, "ping", KG_STR("{}"))};
    if (!kit_talk_wait(run->talk, &both[1], 1, timeout_ms))
        return ask->answer != KIT_NO_ANSWER;
    uint64_t grace_ms = timeout_ms < SIMPLE_GRACE_MS ? timeout_ms : SIMPLE_GRACE_MS;
    return kit_talk_wait(run->talk, &both[0], 1, grace_ms);
}

const struct kit_ask *kit_question(struct kit_run *run, const struct kit_question *question)
{
    uint64_t timeout_ms = run->timeout_ms * (question->patience > 0 ? question->patience : 1);
    if (question->timeout_ms > 0 && question->timeout_ms < timeout_ms)
        timeout_ms = question->timeout_ms;
    struct kit_ask *ask = kit_talk_ask(run->talk, question->id, question->method, question->params);
    bool answered = question->is_simple && run->answers_ping
                        ? wait_simple(run, ask, timeout_ms)
                        : kit_talk_wait(run->talk, &ask, 1, timeout_ms);
    if (!answered)
        kit_find_no_answer(run, run->rule, ask, question->method);
    else if (ask->answer == KIT_BROKEN)
        kit_be_unclear(run, "its answer to %s cannot be read", question->method);
    return answered && ask->answer != KIT_BROKEN ? ask : NULL;
}

bool kit_is_error(const struct kit_ask *ask, enum kg_code code)
{
    return ask->answer == KIT_ERROR &&
           rpc_error_code(kg_buf_view(&ask->payload)) == kg_error_row(code)->rpc_code;
}

bool kit_lives(struct kit_run *run, const struct kit_ask *asked)
{
    struct kit_seat *seat = run->talk->seat;
    if (run->answers_ping) {
        struct kit_ask *ping = kit_talk_ask(run->talk, NULL, "ping", KG_STR("{}"));
        if (kit_talk_wait(run->talk, &ping, 1, run->timeout_ms))
            return true;
    } else if (!kit_seat_wait_exit(seat, DEATH_GRACE_MS)) {
        return !kit_talk_is_spent(run->talk);
    }
    if (helper_child_exit(seat->child) != NULL) {
        ask_find_end(run, run->rule, kg_buf_view(&asked->sent), kg_buf_view(&asked->payload),
                     "it answered, and then ");
    } else if (!kit_talk_is_spent(run->talk)) {
        count_timeout(run);
        kit_find(run, run->rule, kg_buf_view(&asked->sent), kg_buf_view(&asked->payload),
                 "it answered, and then no longer answered a ping");
    }
    run->talk->spent = true;
    return false;
}

/* False: it is still there, which is told. */
static bool wait_end(struct kit_run *run, const char *sent)
{
    int64_t declared_sec = kit_manifest(run)->shutdown_timeout_sec;
    uint64_t wait_ms = run->timeout_ms;
    if (declared_sec > 0 && (uint64_t)declared_sec * 1000 < wait_ms)
        wait_ms = (uint64_t)declared_sec * 1000;
    bool ended = kit_seat_wait_exit(run->talk->seat, wait_ms);
    run->talk->spent = true; /* not before: what it says last is judged, too */
    if (ended)
        return true;
    if (run->room->interrupted)
        kit_be_unclear(run, "interrupted");
    else
        kit_find(run, run->rule, kg_str(sent), KG_STR(""), "it is still there after %llu s",
                 (unsigned long long)(wait_ms + 500) / 1000);
    return false;
}

void kit_expect_end(struct kit_run *run, const char *sent)
{
    (void)wait_end(run, sent);
}

void kit_expect_exit(struct kit_run *run, const char *sent)
{
    if (wait_end(run, sent) && helper_child_exit(run->talk->seat->child)->exit_code != 0)
        ask_find_end(run, run->rule, kg_str(sent), KG_STR(""), "");
}

/* -- the handshake ----------------------------------------------------------------------------- */

static bool ask_has_storage(void *data)
{
    const struct kit_run *run = data;
    const struct capability storage = {
        .kind = CAPABILITY_STORAGE_READ, .path = "", .program = "", .host = ""};
    return capability_set_covers(&kit_manifest(run)->capability_set, &storage);
}

static void ask_put_projects(void *data, struct kg_json_writer *json)
{
    const struct kit_run *run = data;
    if (kit_room_project_root(run->room) != NULL)
        kg_json_text(json, KIT_PROJECT);
}

/* As the daemon says it; the rest of its greeting is rules here, one for each thing it looks at. */
const struct kit_ask *kit_send_initialize(struct kit_run *run)
{
    static const struct dialect_ops ops = {.has_storage = ask_has_storage,
                                           .put_projects = ask_put_projects};
    struct dialect_talk talk = {.ops = &ops, .data = run, .plugin = kit_manifest(run)->name};
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    dialect_kaged.put_greeting(&talk, &params);
    struct kit_ask *ask = kit_talk_ask(run->talk, NULL, "initialize", kg_buf_view(&params));
    kit_talk_wait(run->talk, &ask, 1, run->options->timeout_ms * 2);
    return ask;
}

static void ask_put_config(struct kg_str config, struct kg_buf *out)
{
    kg_buf_text(out, "{\"config\":");
    kg_buf_str(out, config);
    kg_buf_char(out, '}');
}

const struct kit_ask *kit_send_config(struct kit_run *run, struct kg_str config)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    ask_put_config(config, &params);
    const struct kit_question question = {.method = "config.update",
                                          .params = kg_buf_view(&params)};
    return kit_question(run, &question);
}

void kit_send_initialized(struct kit_run *run)
{
    kit_talk_notify(run->talk, "initialized", KG_STR("{}"));
    kit_talk_set_phase(run->talk, PEER_OPEN);
    run->shook_hands = true;
}

/* Until it is known that it does not answer. */
static bool may_ping(const struct kit_run *run)
{
    bool has_none = run->variant == DIALECT_MCP_MODERN;
    return run->answers_ping || !(has_none || kit_has_found(run, KIT_RULE_PING_ANSWER) ||
                                  kit_has_found(run, KIT_RULE_MCP_PING));
}

void kit_settle(struct kit_run *run)
{
    if (may_ping(run)) {
        struct kit_ask *ping = kit_talk_ask(run->talk, NULL, "ping", KG_STR("{}"));
        kit_talk_wait(run->talk, &ping, 1, SETTLE_MS);
    }
    kit_talk_wait_served(run->talk, run->timeout_ms);
}

/* What it lists now is what it listed first. */
static bool greet_mcp(struct kit_run *run)
{
    struct kit_talk *talk = run->talk;
    if (!kit_talk_greet(talk, run->variant, run->options->timeout_ms * 2))
        return false;
    struct kg_str now = kg_buf_view(&talk->greeting->talk.tools);
    if (!kg_str_equal(now, kg_buf_view(&run->tools)))
        kit_find(run, KIT_RULE_MCP_TOOLS_SAME, KG_STR("tools/list"), now,
                 "a later start listed other tools than the first");
    kit_settle(run);
    return !kit_talk_is_spent(talk);
}

/* Without findings: the rules of the handshake have looked at all of it. */
static bool shake_hands(struct kit_run *run)
{
    if (kit_manifest(run)->is_mcp)
        return greet_mcp(run);
    const struct kit_ask *hello = kit_send_initialize(run);
    if (hello->answer != KIT_RESULT)
        return false;
    struct kg_str config = kg_buf_view(&run->room->settings);
    if (config.length > 0) {
        kg_auto(kg_buf_free) struct kg_buf params = {0};
        ask_put_config(config, &params);
        struct kit_ask *told = kit_talk_ask(run->talk, NULL, "config.update", kg_buf_view(&params));
        kit_talk_wait(run->talk, &told, 1, run->timeout_ms);
    }
    kit_send_initialized(run);
    kit_settle(run);
    return !kit_talk_is_spent(run->talk);
}

struct kit_talk *kit_open(struct kit_run *run)
{
    struct kg_err err = {0};
    if (run->talk != NULL && !kit_talk_is_spent(run->talk))
        return run->talk;
    kit_talk_free(kg_steal(&run->talk));
    if (!run->shook_hands) {
        kit_be_unclear(run, "its handshake did not succeed");
        return NULL;
    }
    run->talk = kit_talk_new(run, &err);
    if (run->talk != NULL && shake_hands(run))
        return run->talk;
    if (run->report->finding_count == 0 && !run->room->interrupted)
        kit_find(run,
                 kit_manifest(run)->is_mcp ? KIT_RULE_MCP_GREETING : KIT_RULE_INITIALIZED_LIVES,
                 KG_STR("a second handshake"), KG_STR(""), "it worked once, and not again%s%s",
                 err.message[0] ? ": " : "", err.message);
    kit_be_unclear(run, "it could not be started again%s%s", err.message[0] ? ": " : "",
                   err.message);
    kit_talk_free(kg_steal(&run->talk));
    return NULL;
}
