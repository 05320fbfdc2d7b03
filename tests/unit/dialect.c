/* Greetings, lists and calls of a dialect, with a child that is hostile. The test plays the child.
 */
#include "talk.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ANSWER_MS  60000 /* for an answer that comes: whatever a busy machine takes */
#define SILENCE_MS 50    /* for one that does not */

/* -- the rig: a child that answers everything alike -------------------------------------------- */

struct rig {
    struct talk_rig base;
    const char *result; /* each request is answered with that; NULL: with nothing */
    unsigned asked;
};

static const struct dialect_ops talk_ops = {.on_ready = talk_rig_on_ready,
                                            .on_failed = talk_rig_on_failed};

static void on_request(void *data, int64_t request, struct kg_str method, struct kg_str params)
{
    (void)data, (void)request, (void)method, (void)params;
}

static void on_noise(void *data, struct kg_str line, const char *problem)
{
    (void)data;
    fail_msg("%s: %.*s", problem, KG_STR_ARG(line));
}

static void on_violation(void *data, enum peer_violation violation, const char *detail)
{
    (void)data;
    fail_msg("%s: %s", peer_violation_name(violation), detail);
}

static const struct peer_ops peer_ops = {on_request, on_noise, on_violation, NULL,
                                         NULL,       NULL,     NULL};

static void answer(struct talk_rig *base, struct kg_str line)
{
    struct rig *rig = KG_CONTAINER(base, struct rig, base);
    struct kg_str id;
    assert_true(kg_json_member(line, "id", &id));
    rig->asked++;
    if (rig->result == NULL)
        return;
    kg_auto(kg_free) char *whole = kg_format("{" V ",\"id\":%.*s,%s}", KG_STR_ARG(id), rig->result);
    talk_rig_say(base, whole);
}

static struct rig *rig_new(const struct dialect *dialect)
{
    struct rig *rig = kg_alloc(sizeof(*rig));
    talk_rig_open(&rig->base, dialect, &talk_ops, &peer_ops);
    rig->base.talk.timeout_ms = ANSWER_MS;
    rig->base.on_line = answer;
    return rig;
}

static void rig_free(struct rig *rig)
{
    talk_rig_close(&rig->base);
    free(rig);
}

static void wait_until_told(struct rig *rig)
{
    talk_rig_wait(&rig->base, &rig->base.told, "");
}

/* -- lists in pages ---------------------------------------------------------------------------- */

static void on_list(struct dialect_talk *talk, struct kg_str items, const struct kg_err *err)
{
    struct talk_rig *rig = talk->data;
    kg_buf_printf(&rig->told, "list %.*s|", KG_STR_ARG(err ? kg_str(err->message) : items));
}

static const struct dialect_list things = {
    .method = "things",
    .items = "things",
    .next = "next",
    .cursor = "cursor",
    .pages_max = 5,
    .bytes_max = 100,
    .on_list = on_list,
};
static const struct dialect nothing = {.name = "nothing", .rules = {.begins = PEER_OPEN}};

static void check_list(const char *result, const char *told, unsigned asked)
{
    struct rig *rig = rig_new(&nothing);
    peer_set_rules(rig->base.talk.peer, &nothing.rules);
    rig->result = result;
    if (result == NULL)
        rig->base.talk.timeout_ms = SILENCE_MS;
    dialect_list(&rig->base.talk, &things);
    wait_until_told(rig);
    assert_string_equal(kg_buf_terminate(&rig->base.told), told);
    assert_int_equal(rig->asked, asked);
    rig_free(rig);
}

static void a_list_is_bounded_whatever_the_child_says(void **state)
{
    (void)state;
    check_list("\"result\":{\"things\":[ 1 , {\"a\":2} ],\"next\":null}", "list [1,{\"a\":2}]|", 1);
    check_list("\"result\":{\"things\":[]}", "list []|", 1);
    check_list("\"result\":{\"things\":[1],\"next\":\"b\"}",
               "list things: a page names itself as the next|", 2);
    check_list("\"result\":{\"things\":{},\"next\":\"b\"}",
               "list things: a page has no list \"things\"|", 1);
    check_list("\"result\":[]", "list things: a page has no list \"things\"|", 1);
    check_list("\"result\":{\"things\":[],\"next\":7}",
               "list things: \"next\" is not a short string|", 1);
    check_list("\"error\":{\"code\":-32602,\"message\":\"no such page\"}",
               "list things: no such page|", 1);
    check_list(NULL, "list things: no answer in time|", 1);
    kg_auto(kg_free) char *large = kg_format("\"result\":{\"things\":[\"%0*d\"]}", 100, 0);
    check_list(large, "list things: the list has more than 100 bytes|", 1);
}

static void a_list_that_never_ends_is_given_up(void **state)
{
    (void)state;
    struct rig *rig = rig_new(&nothing);
    peer_set_rules(rig->base.talk.peer, &nothing.rules);
    char result[64];
    rig->result = result;
    dialect_list(&rig->base.talk, &things);
    while (rig->base.told.length == 0) {
        snprintf(result, sizeof(result), "\"result\":{\"things\":[],\"next\":\"%u\"}", rig->asked);
        talk_rig_turn(&rig->base);
    }
    assert_string_equal(kg_buf_terminate(&rig->base.told),
                        "list things: the list has more than 5 pages|");
    rig_free(rig);
}

static void nobody_is_told_of_a_list_whose_child_is_gone(void **state)
{
    (void)state;
    struct rig *rig = rig_new(&nothing);
    dialect_list(&rig->base.talk, &things);
    peer_close(rig->base.talk.peer);
    assert_int_equal(rig->base.told.length, 0);
    rig_free(rig);
}

/* -- greetings --------------------------------------------------------------------------------- */

static int take_again(struct dialect_talk *talk, enum peer_outcome outcome, struct kg_str payload)
{
    (void)talk, (void)payload;
    assert_int_equal(outcome, PEER_RESULT);
    return 0;
}

static void a_greeting_that_leads_nowhere_is_given_up(void **state)
{
    (void)state;
    static const struct dialect_step steps[] = {{.method = "again", .take = take_again}};
    static const struct dialect circular = {.name = "circular", .steps = steps};
    struct rig *rig = rig_new(&circular);
    rig->result = "\"result\":1";
    dialect_begin(&rig->base.talk);
    wait_until_told(rig);
    assert_string_equal(kg_buf_terminate(&rig->base.told),
                        "failed its handshake was not complete after 32 exchanges|");
    assert_int_equal(rig->asked, 32);
    rig_free(rig);
}

static int take_silence(struct dialect_talk *talk, enum peer_outcome outcome, struct kg_str payload)
{
    (void)payload;
    return outcome == PEER_EXPIRED ? 1 : dialect_fail(talk, "it spoke");
}

static int take_timeout(struct dialect_talk *talk, enum peer_outcome outcome, struct kg_str payload)
{
    (void)payload;
    return outcome == PEER_TIMEOUT ? dialect_reject(talk, "it is dumb") : GREETING_DONE;
}

static void silence_is_an_answer_where_the_step_says_so(void **state)
{
    (void)state;
    static const struct dialect_step steps[] = {
        {.method = "first", .patience_ms = 20, .take = take_silence},
        {.method = "second", .take = take_timeout},
    };
    static const struct dialect patient = {.name = "patient", .steps = steps};
    struct rig *rig = rig_new(&patient);
    rig->base.talk.timeout_ms = SILENCE_MS;
    dialect_begin(&rig->base.talk);
    wait_until_told(rig);
    assert_string_equal(kg_buf_terminate(&rig->base.told), "rejected it is dumb|");
    assert_int_equal(rig->asked, 2);
    rig_free(rig);
}

/* -- calls ------------------------------------------------------------------------------------- */

static const struct kg_str no_params = {"{}", 2};

static int send_once(struct dialect_call *call, const struct dialect_message *message,
                     struct kg_err *err)
{
    return dialect_send(call, message->method, &no_params, 1, err);
}

static enum dialect_reading read_again(struct dialect_call *call, enum peer_outcome outcome,
                                       struct kg_str payload, struct kg_buf *ret_json)
{
    (void)payload;
    struct kg_err err;
    if (outcome != PEER_RESULT)
        return DIALECT_AS_IT_IS;
    if (dialect_send(call, KG_STR("again"), &no_params, 1, &err) == 0)
        return DIALECT_AGAIN;
    kg_buf_text(ret_json, err.message);
    return DIALECT_ERROR;
}

static const struct dialect insatiable = {
    .name = "insatiable",
    .rules = {.begins = PEER_OPEN},
    .knows = {[DIALECT_METHOD] = true},
    .call = send_once,
    .read = read_again,
};

static void begin_call(struct rig *rig, struct dialect_call *call)
{
    const struct dialect_message message = {DIALECT_METHOD, .method = KG_STR("once")};
    peer_set_rules(rig->base.talk.peer, &insatiable.rules);
    *call =
        (struct dialect_call){.talk = &rig->base.talk, .on_done = talk_rig_on_done, .data = rig};
    assert_int_equal(dialect_call(call, &message, NULL), 0);
}

static void a_call_of_too_many_exchanges_is_given_up(void **state)
{
    (void)state;
    struct rig *rig = rig_new(&insatiable);
    struct dialect_call call;
    rig->result = "\"result\":1";
    begin_call(rig, &call);
    wait_until_told(rig);
    assert_string_equal(kg_buf_terminate(&rig->base.told),
                        "done 1 there is no answer after 16 exchanges|");
    assert_int_equal(rig->asked, 16);
    rig_free(rig);
}

static void a_dropped_call_is_not_answered_and_asks_no_more(void **state)
{
    (void)state;
    struct rig *rig = rig_new(&insatiable);
    struct dialect_call call;
    begin_call(rig, &call);
    dialect_drop(&call);
    call = (struct dialect_call){0}; /* it belongs to who dropped it */
    rig->result = "\"result\":1";
    for (int i = 0; i < 20; i++)
        talk_rig_turn(&rig->base);
    assert_int_equal(rig->asked, 1);
    assert_int_equal(rig->base.told.length, 0);
    rig_free(rig);
}

static void what_a_dialect_has_no_message_for_is_refused(void **state)
{
    (void)state;
    struct rig *rig = rig_new(&insatiable);
    struct dialect_call call = {.talk = &rig->base.talk, .on_done = talk_rig_on_done, .data = rig};
    const struct dialect_message hook = {DIALECT_HOOK, .method = KG_STR("kaged.hook.x")};
    struct kg_err err;
    assert_true(dialect_call(&call, &hook, &err) < 0);
    assert_int_equal(err.code, KG_E_METHOD_NOT_FOUND);
    assert_int_equal(rig->base.told.length, 0);
    rig_free(rig);
}

static void a_dialect_is_found_by_its_name(void **state)
{
    (void)state;
    assert_ptr_equal(dialect_find(KG_STR("kaged")), &dialect_kaged);
    assert_null(dialect_find(KG_STR("kage")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_bounded_whatever_the_child_says),
        cmocka_unit_test(a_list_that_never_ends_is_given_up),
        cmocka_unit_test(nobody_is_told_of_a_list_whose_child_is_gone),
        cmocka_unit_test(a_greeting_that_leads_nowhere_is_given_up),
        cmocka_unit_test(silence_is_an_answer_where_the_step_says_so),
        cmocka_unit_test(a_call_of_too_many_exchanges_is_given_up),
        cmocka_unit_test(a_dropped_call_is_not_answered_and_asks_no_more),
        cmocka_unit_test(what_a_dialect_has_no_message_for_is_refused),
        cmocka_unit_test(a_dialect_is_found_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
