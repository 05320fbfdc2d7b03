/* Greetings, lists and calls of a dialect, with a child that is hostile. The test plays the child.
 */
#include "dialect/dialect.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS 60000 /* nobody waits that long: it only ends a test that hangs */
#define V       "\"jsonrpc\":\"2.0\""

/* -- the rig: a talk on real pipes, and what became of it -------------------------------------- */

struct rig {
    struct loop *loop;
    struct dialect_talk talk;
    int in, out; /* the child's */
    struct kg_buf heard;
    struct kg_buf told; /* "ready|", "failed WORDS|", "list ITEMS|", "done PAYLOAD|" */
    const char *result; /* each request is answered with that; NULL: with nothing */
    unsigned asked;
};

static void on_ready(void *data)
{
    kg_buf_text(&((struct rig *)data)->told, "ready|");
}

static void on_failed(void *data, bool mend, const char *words)
{
    kg_buf_printf(&((struct rig *)data)->told, "%s %s|", mend ? "rejected" : "failed", words);
}

static const struct dialect_ops talk_ops = {.on_ready = on_ready, .on_failed = on_failed};

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
static const struct peer_limits limits = {65536, 1048576, 64, 100, 0};

static struct rig *rig_new(const struct dialect *dialect)
{
    int to[2], from[2];
    struct rig *rig = kg_alloc(sizeof(*rig));
    assert_int_equal(pipe2(to, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC | O_NONBLOCK), 0);
    rig->loop = loop_new();
    rig->in = to[0];
    rig->out = from[1];
    rig->talk = (struct dialect_talk){
        .dialect = dialect,
        .ops = &talk_ops,
        .data = rig,
        .loop = rig->loop,
        .timeout_ms = 50,
        .peer = peer_new(rig->loop, to[1], from[0], &limits, &peer_ops, rig),
    };
    return rig;
}

static void rig_free(struct rig *rig)
{
    struct peer *peer = rig->talk.peer;
    peer_close(peer);
    dialect_end(&rig->talk);
    assert_null(rig->talk.peer);
    peer_free(peer);
    loop_free(rig->loop);
    kg_close(&rig->in);
    kg_close(&rig->out);
    kg_buf_free(&rig->heard);
    kg_buf_free(&rig->told);
    free(rig);
}

/* The child hears what is there, and answers each line. */
static void child_turn(struct rig *rig)
{
    char bytes[4096];
    ssize_t got;
    while ((got = read(rig->in, bytes, sizeof(bytes))) > 0)
        kg_buf_append(&rig->heard, bytes, (size_t)got);
    struct kg_str id;
    char *end;
    while ((end = rig->heard.length ? memchr(rig->heard.data, '\n', rig->heard.length) : NULL)) {
        struct kg_str line = {rig->heard.data, (size_t)(end - rig->heard.data)};
        kg_auto(kg_buf_free) struct kg_buf answer = {0};
        assert_true(kg_json_member(line, "id", &id));
        rig->asked++;
        if (rig->result != NULL)
            kg_buf_printf(&answer, "{" V ",\"id\":%.*s,%s}\n", KG_STR_ARG(id), rig->result);
        assert_int_equal(write(rig->out, kg_buf_terminate(&answer), answer.length), answer.length);
        kg_buf_consume(&rig->heard, line.length + 1);
    }
}

static void wait_until_told(struct rig *rig)
{
    uint64_t limit_ms = kg_monotonic_ms() + WAIT_MS;
    while (rig->told.length == 0) {
        assert_true(kg_monotonic_ms() < limit_ms);
        uv_run(loop_uv(rig->loop), UV_RUN_NOWAIT);
        child_turn(rig);
        poll(NULL, 0, 1);
    }
}

/* -- lists in pages ---------------------------------------------------------------------------- */

static void on_list(struct dialect_talk *talk, struct kg_str items, const struct kg_err *err)
{
    struct rig *rig = talk->data;
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
    peer_set_rules(rig->talk.peer, &nothing.rules);
    rig->result = result;
    dialect_list(&rig->talk, &things);
    wait_until_told(rig);
    assert_string_equal(kg_buf_terminate(&rig->told), told);
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
    peer_set_rules(rig->talk.peer, &nothing.rules);
    char result[64];
    rig->result = result;
    dialect_list(&rig->talk, &things);
    uint64_t limit_ms = kg_monotonic_ms() + WAIT_MS;
    while (rig->told.length == 0 && kg_monotonic_ms() < limit_ms) {
        snprintf(result, sizeof(result), "\"result\":{\"things\":[],\"next\":\"%u\"}", rig->asked);
        uv_run(loop_uv(rig->loop), UV_RUN_NOWAIT);
        child_turn(rig);
    }
    assert_string_equal(kg_buf_terminate(&rig->told),
                        "list things: the list has more than 5 pages|");
    rig_free(rig);
}

static void nobody_is_told_of_a_list_whose_child_is_gone(void **state)
{
    (void)state;
    struct rig *rig = rig_new(&nothing);
    dialect_list(&rig->talk, &things);
    peer_close(rig->talk.peer);
    assert_int_equal(rig->told.length, 0);
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
    dialect_begin(&rig->talk);
    wait_until_told(rig);
    assert_string_equal(kg_buf_terminate(&rig->told),
                        "failed it was not greeted after 32 exchanges|");
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
    dialect_begin(&rig->talk);
    wait_until_told(rig);
    assert_string_equal(kg_buf_terminate(&rig->told), "rejected it is dumb|");
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

static void on_done(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct rig *rig = data;
    kg_buf_printf(&rig->told, "done %d %.*s|", (int)outcome, KG_STR_ARG(payload));
}

static void begin_call(struct rig *rig, struct dialect_call *call)
{
    const struct dialect_message message = {DIALECT_METHOD, .method = KG_STR("once")};
    peer_set_rules(rig->talk.peer, &insatiable.rules);
    *call = (struct dialect_call){.talk = &rig->talk, .on_done = on_done, .data = rig};
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
    assert_string_equal(kg_buf_terminate(&rig->told),
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
    for (int i = 0; i < 20; i++) {
        uv_run(loop_uv(rig->loop), UV_RUN_NOWAIT);
        child_turn(rig);
    }
    assert_int_equal(rig->asked, 1);
    assert_int_equal(rig->told.length, 0);
    rig_free(rig);
}

static void what_a_dialect_has_no_message_for_is_refused(void **state)
{
    (void)state;
    struct rig *rig = rig_new(&insatiable);
    struct dialect_call call = {.talk = &rig->talk, .on_done = on_done, .data = rig};
    const struct dialect_message hook = {DIALECT_HOOK, .method = KG_STR("kaged.hook.x")};
    struct kg_err err;
    assert_true(dialect_call(&call, &hook, &err) < 0);
    assert_int_equal(err.code, KG_E_METHOD_NOT_FOUND);
    assert_int_equal(rig->told.length, 0);
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
