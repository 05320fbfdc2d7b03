/* The peer, on real pipes. The test plays the plugin: polite, slow, hung, flooding or mad. */
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS 60000 /* nobody waits that long: it only ends a test that hangs */
#define V       "\"jsonrpc\":\"2.0\""

/* -- the rig: a loop, a peer, and the plugin's ends of the pipes ------------------------------ */

enum event {
    EVENT_NONE,
    EVENT_REQUEST,
    EVENT_NOTIFICATION,
    EVENT_FLOOD,
    EVENT_NOISE,
    EVENT_VIOLATION,
    EVENT_HUNG,
    EVENT_END,
    EVENT_DONE,
};

struct rig {
    struct loop *loop;
    struct peer *peer;
    int in, out;          /* the plugin's: it reads from in, writes to out */
    struct kg_buf events; /* what the peer told us, "name detail|" each */
    struct kg_buf heard;  /* what the plugin has read */
    size_t lines_heard;
    struct kg_buf to_say;  /* what the plugin still has to write */
    bool deaf;             /* the plugin does not read */
    bool answers_requests; /* each request of the plugin gets an error as its answer */
    bool echoes_noise;     /* each noise makes the plugin write another */
    enum event close_on;   /* peer_close in that callback */
    int64_t request;       /* the last one of the plugin */
    int64_t request_before;
    int64_t *kept; /* room for all of them; NULL: they are not kept */
    size_t kept_count;
};

static void tell(struct rig *rig, enum event event, const char *format, ...) KG_PRINTF(3, 4);
static void tell(struct rig *rig, enum event event, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    kg_buf_printf(&rig->events, "%s|", text);
    if (event == rig->close_on)
        peer_close(rig->peer);
}

static void on_request(void *data, int64_t request, struct kg_str method, struct kg_str params)
{
    struct rig *rig = data;
    rig->request_before = rig->request;
    rig->request = request;
    if (rig->kept != NULL)
        rig->kept[rig->kept_count++] = request;
    else if (rig->answers_requests)
        peer_answer_error(rig->peer, request, -32601, "there is no such method");
    else
        tell(rig, EVENT_REQUEST, "request %.*s %.*s", KG_STR_ARG(method), KG_STR_ARG(params));
}

static void on_notification(void *data, struct kg_str method, struct kg_str params)
{
    tell(data, EVENT_NOTIFICATION, "notification %.*s %.*s", KG_STR_ARG(method),
         KG_STR_ARG(params));
}

static void on_flood(void *data, uint32_t notifications)
{
    tell(data, EVENT_FLOOD, "flood %u", notifications);
}

static void on_noise(void *data, struct kg_str line, const char *problem)
{
    struct rig *rig = data;
    assert_non_null(problem);
    tell(rig, EVENT_NOISE, "noise %.*s", KG_STR_CUT(line, 100));
    if (rig->echoes_noise)
        assert_int_equal(write(rig->out, "more\n", 5), 5);
}

static const struct peer_rules rules = {
    .rate_limited = "system.rate_limited",
    .verdicts = {[PEER_BAD_REQUEST] = PEER_MILD, [PEER_BATCH] = PEER_MILD},
};

static void on_violation(void *data, enum peer_violation violation, const char *detail)
{
    assert_non_null(detail);
    tell(data, EVENT_VIOLATION, "%s %s", rules.verdicts[violation] == PEER_FATAL ? "fatal" : "mild",
         peer_violation_name(violation));
}

static void on_hung(void *data, const char *method, uint64_t timeout_ms)
{
    tell(data, EVENT_HUNG, "hung %s %llu", method, (unsigned long long)timeout_ms);
}

static void on_end(void *data, enum peer_end end)
{
    tell(data, EVENT_END, "end of %s", end == PEER_STDOUT_CLOSED ? "stdout" : "stdin");
}

static const struct peer_ops ops = {
    .on_request = on_request,
    .on_noise = on_noise,
    .on_violation = on_violation,
    .on_notification = on_notification,
    .on_flood = on_flood,
    .on_hung = on_hung,
    .on_end = on_end,
};

static const struct peer_limits limits = {
    .line_max_bytes = 65536,
    .write_queue_max_bytes = 1048576,
    .calls_in_flight_max = 4096,
    .notifications_per_sec = 1000000,
    .call_wait_ms = WAIT_MS,
};

static void rig_start(struct rig *rig, const struct peer_limits *own_limits)
{
    int to_plugin[2], from_plugin[2];
    assert_int_equal(pipe2(to_plugin, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(pipe2(from_plugin, O_CLOEXEC | O_NONBLOCK), 0);
    *rig = (struct rig){.loop = loop_new(), .in = to_plugin[0], .out = from_plugin[1]};
    rig->peer = peer_new(rig->loop, to_plugin[1], from_plugin[0], own_limits, &ops, rig);
    peer_set_rules(rig->peer, &rules);
    peer_set_phase(rig->peer, PEER_OPEN);
}

static int rig_up(void **state)
{
    struct rig *rig = malloc(sizeof(*rig));
    rig_start(rig, &limits);
    *state = rig;
    return 0;
}

static int rig_down(void **state)
{
    struct rig *rig = *state;
    peer_free(rig->peer);
    loop_free(rig->loop);
    kg_close(&rig->in);
    kg_close(&rig->out);
    kg_buf_free(&rig->events);
    kg_buf_free(&rig->heard);
    kg_buf_free(&rig->to_say);
    free(rig);
    return 0;
}

/* The same rig with other limits. */
static struct rig *rig_with(void **state, const struct peer_limits *own_limits)
{
    rig_down(state);
    *state = malloc(sizeof(struct rig));
    rig_start(*state, own_limits);
    return *state;
}

/* The plugin reads and writes what it can without waiting. */
static void plugin_turn(struct rig *rig)
{
    char bytes[16384];
    ssize_t got;
    while (!rig->deaf && rig->in >= 0 && (got = read(rig->in, bytes, sizeof(bytes))) > 0) {
        kg_buf_append(&rig->heard, bytes, (size_t)got);
        for (ssize_t i = 0; i < got; i++)
            rig->lines_heard += bytes[i] == '\n';
    }
    while (rig->out >= 0 && rig->to_say.length > 0 &&
           (got = write(rig->out, rig->to_say.data, rig->to_say.length)) > 0)
        kg_buf_consume(&rig->to_say, (size_t)got);
}

static void turn(struct rig *rig)
{
    plugin_turn(rig);
    uv_run(loop_uv(rig->loop), UV_RUN_NOWAIT);
    plugin_turn(rig);
}

static void turns(struct rig *rig, int count)
{
    while (count-- > 0)
        turn(rig);
}

/* Turns until the condition holds. */
#define WAIT_FOR(rig, condition)                                                                   \
    do {                                                                                           \
        uint64_t limit_ms = kg_monotonic_ms() + WAIT_MS;                                           \
        turn(rig);                                                                                 \
        while (!(condition)) {                                                                     \
            if (kg_monotonic_ms() > limit_ms)                                                      \
                fail_msg("waited in vain for %s; events: %s", #condition,                          \
                         kg_buf_terminate(&(rig)->events));                                        \
            poll(NULL, 0, 1);                                                                      \
            turn(rig);                                                                             \
        }                                                                                          \
    } while (0)

static void plugin_says(struct rig *rig, const char *text)
{
    kg_buf_text(&rig->to_say, text);
    plugin_turn(rig);
}

static const char *events(struct rig *rig)
{
    return kg_buf_terminate(&rig->events);
}

static const char *heard(struct rig *rig)
{
    return kg_buf_terminate(&rig->heard);
}

static bool happened(struct rig *rig, const char *event)
{
    return strstr(events(rig), event) != NULL;
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

/* Says it, and waits until it was understood as that and nothing more. */
static void expect(struct rig *rig, const char *said, const char *wanted)
{
    rig->events.length = 0;
    plugin_says(rig, said);
    WAIT_FOR(rig, rig->to_say.length == 0 && happened(rig, wanted));
    turns(rig, 3);
    assert_string_equal(events(rig), wanted);
}

/* -- calls ------------------------------------------------------------------------------------ */

/* Static in the tests: what is still open is answered when the rig is taken down. */
struct caller {
    struct rig *rig;
    uint64_t id;
    unsigned answers;
    enum peer_outcome outcome;
    char payload[64];
};

static void on_done(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct caller *caller = data;
    caller->answers++;
    caller->outcome = outcome;
    snprintf(caller->payload, sizeof(caller->payload), "%.*s", KG_STR_ARG(payload));
    if (caller->rig->close_on == EVENT_DONE)
        peer_close(caller->rig->peer);
}

static int call_for(struct rig *rig, struct caller *caller, struct kg_str params,
                    uint64_t timeout_ms, uint64_t caller_timeout_ms, struct kg_err *err)
{
    struct peer_call call = {
        .method = KG_STR("a.b"),
        .params = &params,
        .params_count = 1,
        .timeout_ms = timeout_ms,
        .caller_timeout_ms = caller_timeout_ms,
        .on_done = on_done,
        .data = caller,
    };
    *caller = (struct caller){.rig = rig};
    return peer_call(rig->peer, &call, &caller->id, err);
}

static void call(struct rig *rig, struct caller *caller)
{
    struct kg_err err = {0};
    if (call_for(rig, caller, KG_STR("{}"), WAIT_MS, 0, &err) < 0)
        fail_msg("%s", err.message);
}

static void answer(struct rig *rig, uint64_t id, const char *result)
{
    kg_auto(kg_free) char *line =
        kg_format("{" V ",\"id\":%llu,\"result\":%s}\n", (unsigned long long)id, result);
    plugin_says(rig, line);
}

static uint32_t in_flight(struct rig *rig)
{
    return peer_counters(rig->peer).in_flight;
}

static void a_call_is_one_line_of_json_rpc(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    caller = (struct caller){.rig = rig};
    struct kg_str pieces[] = {KG_STR("{\"a\":1,"), KG_STR("\"_context\":{}"), KG_STR("}")};
    struct peer_call call = {.method = KG_STR("presets.list"),
                             .params = pieces,
                             .params_count = 3,
                             .on_done = on_done,
                             .data = &caller};
    assert_int_equal(peer_call(rig->peer, &call, &caller.id, NULL), 0);
    assert_int_equal(caller.id, 1);
    WAIT_FOR(rig, rig->heard.length > 0);
    assert_string_equal(heard(rig), "{" V ",\"id\":1,\"method\":\"presets.list\","
                                    "\"params\":{\"a\":1,\"_context\":{}}}\n");
    answer(rig, 1, "{\"x\": 1.50}");
    WAIT_FOR(rig, caller.answers);
    assert_int_equal(caller.outcome, PEER_RESULT);
    assert_string_equal(caller.payload, "{\"x\": 1.50}");
    assert_int_equal(in_flight(rig), 0);
}

static void a_notification_has_no_id(void **state)
{
    struct rig *rig = *state;
    assert_int_equal(peer_notify(rig->peer, "initialized", KG_STR("{}"), NULL), 0);
    WAIT_FOR(rig, rig->heard.length > 0);
    assert_string_equal(heard(rig), "{" V ",\"method\":\"initialized\",\"params\":{}}\n");
}

static void an_error_reaches_its_caller_as_it_was_written(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    call(rig, &caller);
    plugin_says(rig, "{" V ",\"id\":1,\"error\":{\"code\": -32005,\"message\":\"busy\"}}\r\n");
    WAIT_FOR(rig, caller.answers);
    assert_int_equal(caller.outcome, PEER_ERROR);
    assert_string_equal(caller.payload, "{\"code\": -32005,\"message\":\"busy\"}");
}

static void replies_find_their_callers_in_any_order(void **state)
{
    struct rig *rig = *state;
    static struct caller callers[3];
    for (size_t i = 0; i < 3; i++)
        call(rig, &callers[i]);
    answer(rig, 3, "3");
    answer(rig, 1, "1");
    answer(rig, 2, "2");
    WAIT_FOR(rig, in_flight(rig) == 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(callers[i].answers, 1);
        assert_int_equal(callers[i].payload[0], '1' + (int)i);
    }
}

static void a_thousand_calls_may_be_in_flight(void **state)
{
    struct rig *rig = *state;
    static struct caller callers[1000];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < KG_COUNT(callers); i++)
            call(rig, &callers[i]);
        assert_int_equal(in_flight(rig), KG_COUNT(callers));
        for (size_t i = KG_COUNT(callers); i > 0; i--) {
            char result[24];
            snprintf(result, sizeof(result), "%llu", (unsigned long long)callers[i - 1].id);
            answer(rig, callers[i - 1].id, result);
        }
        WAIT_FOR(rig, in_flight(rig) == 0);
        for (size_t i = 0; i < KG_COUNT(callers); i++) {
            assert_int_equal(callers[i].answers, 1);
            assert_int_equal(strtoull(callers[i].payload, NULL, 10), callers[i].id);
        }
    }
    assert_string_equal(events(rig), "");
}

/* White space in a caller's JSON is free to hold what would end a line. */
static void newlines_in_params_do_not_break_the_framing(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    call_for(rig, &caller, KG_STR("\n{\n\"a\":\r\n[1,\r2]}\n"), WAIT_MS, 0, NULL);
    peer_notify(rig->peer, "x", KG_STR("{\n}"), NULL);
    WAIT_FOR(rig, rig->lines_heard == 2);
    assert_null(strchr(heard(rig), '\r'));
    size_t first = (size_t)(strchr(heard(rig), '\n') - heard(rig));
    assert_int_equal(kg_json_check((struct kg_str){rig->heard.data, first}, NULL), KG_JSON_OK);
}

static void calls_in_flight_are_bounded(void **state)
{
    struct peer_limits few = limits;
    few.calls_in_flight_max = 2;
    struct rig *rig = rig_with(state, &few);
    static struct caller callers[3];
    struct kg_err err;
    call(rig, &callers[0]);
    call(rig, &callers[1]);
    assert_true(call_for(rig, &callers[2], KG_STR("{}"), 0, 0, &err) < 0);
    assert_int_equal(err.code, KG_E_BUSY);
    answer(rig, 1, "1");
    WAIT_FOR(rig, callers[0].answers);
    call(rig, &callers[2]);
    assert_int_equal(callers[2].id, 3);
}

static void a_call_that_fits_no_line_is_refused(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    struct kg_err err;
    kg_auto(kg_free) char *params = kg_format("{\"a\":\"%65500d\"}", 1);
    assert_true(call_for(rig, &caller, kg_str(params), 0, 0, &err) < 0);
    assert_int_equal(err.code, KG_E_TOO_LARGE);
    struct kg_str empty = KG_STR("{}");
    struct peer_call long_name = {.method = kg_str(params), .params = &empty, .params_count = 1};
    assert_true(peer_call(rig->peer, &long_name, NULL, &err) < 0);
    assert_int_equal(err.code, KG_E_INVALID_REQUEST);
    assert_int_equal(in_flight(rig), 0);
    turns(rig, 3);
    assert_int_equal(rig->heard.length, 0);
}

/* -- deadlines -------------------------------------------------------------------------------- */

static void the_reply_to_an_abandoned_call_is_dropped(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    call(rig, &caller);
    peer_abandon(rig->peer, caller.id);
    peer_abandon(rig->peer, 99);
    assert_int_equal(in_flight(rig), 1);
    answer(rig, caller.id, "1");
    WAIT_FOR(rig, in_flight(rig) == 0);
    assert_int_equal(caller.answers, 0);
    assert_string_equal(events(rig), "");
}

static void the_host_deadline_means_that_the_plugin_hangs(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    uint64_t started_ms = kg_monotonic_ms();
    call_for(rig, &caller, KG_STR("{}"), 30, 0, NULL);
    WAIT_FOR(rig, caller.answers);
    assert_true(kg_monotonic_ms() - started_ms >= 29);
    assert_int_equal(caller.outcome, PEER_TIMEOUT);
    assert_string_equal(events(rig), "hung a.b 30|");
    answer(rig, caller.id, "1");
    expect(rig, "hello\n", "noise hello|"); /* the late answer was passed over */
    assert_int_equal(caller.answers, 1);
}

static void on_tapped(void *data, enum peer_way way, struct kg_str line)
{
    kg_buf_printf(data, "%s %.*s|", way == PEER_TO ? "to" : "from", KG_STR_ARG(line));
}

static void a_tap_hears_both_ways_for_as_long_as_it_is_there(void **state)
{
    struct rig *rig = *state;
    kg_auto(kg_buf_free) struct kg_buf tapped = {0};
    rig->answers_requests = true;
    peer_set_tap(rig->peer, on_tapped, &tapped);
    assert_int_equal(peer_notify(rig->peer, "initialized", KG_STR("{}"), NULL), 0);
    expect(rig, "hello\n", "noise hello|");
    expect(rig, "{" V ",\"id\":5,\"method\":\"a.b\"}\nbye\n", "noise bye|");
    peer_set_tap(rig->peer, NULL, NULL);
    expect(rig, "unheard\n", "noise unheard|");
    assert_string_equal(kg_buf_terminate(&tapped),
                        "to {" V ",\"method\":\"initialized\",\"params\":{}}|from hello|"
                        "from {" V ",\"id\":5,\"method\":\"a.b\"}|"
                        "to {" V ",\"id\":5,\"error\":{\"code\":-32601,\"message\":"
                        "\"there is no such method\"}}|from bye|");
}

static void the_callers_own_deadline_only_drops_the_reply(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    call_for(rig, &caller, KG_STR("{}"), WAIT_MS, 20, NULL);
    WAIT_FOR(rig, caller.answers);
    assert_int_equal(caller.outcome, PEER_EXPIRED);
    assert_int_equal(in_flight(rig), 1);
    answer(rig, caller.id, "1");
    WAIT_FOR(rig, in_flight(rig) == 0);
    assert_int_equal(caller.answers, 1);
    assert_string_equal(events(rig), "");
}

static void a_caller_with_the_longer_deadline_has_the_hosts(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    call_for(rig, &caller, KG_STR("{}"), 20, 20, NULL);
    WAIT_FOR(rig, caller.answers);
    assert_int_equal(caller.outcome, PEER_TIMEOUT);
    turns(rig, 3);
    assert_int_equal(caller.answers, 1);
}

static void a_call_with_only_a_callers_deadline_ends_with_it(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    call_for(rig, &caller, KG_STR("{}"), 0, 10, NULL);
    WAIT_FOR(rig, caller.answers);
    assert_int_equal(caller.outcome, PEER_EXPIRED);
    assert_int_equal(in_flight(rig), 0);
    answer(rig, caller.id, "1");
    expect(rig, "hello\n", "noise hello|"); /* the late answer was passed over */
}

static void a_call_that_nobody_waits_for_can_still_show_a_hang(void **state)
{
    struct rig *rig = *state;
    static struct caller expired, abandoned;
    call_for(rig, &expired, KG_STR("{}"), 40, 10, NULL);
    call_for(rig, &abandoned, KG_STR("{}"), 40, 0, NULL);
    peer_abandon(rig->peer, abandoned.id);
    WAIT_FOR(rig, in_flight(rig) == 0);
    assert_string_equal(events(rig), "hung a.b 40|hung a.b 40|");
    assert_int_equal(expired.answers, 1);
    assert_int_equal(abandoned.answers, 0);
}

/* -- deadlines that stand still --------------------------------------------------------------- */

#define ASKS "{" V ",\"id\":7,\"method\":\"x.y\"}\n"

static bool is_past(uint64_t at_ms)
{
    return kg_monotonic_ms() > at_ms;
}

static void while_an_answer_is_owed_no_deadline_passes(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    call_for(rig, &caller, KG_STR("{}"), 40, 0, NULL);
    expect(rig, ASKS, "request x.y |");
    uint64_t later_ms = kg_monotonic_ms() + 200;
    WAIT_FOR(rig, is_past(later_ms));
    assert_true(peer_stood_ms(rig->peer) >= 190);
    peer_answer(rig->peer, rig->request, PEER_ANSWER_RESULT, KG_STR("1"));
    assert_int_equal(caller.answers, 0);
    answer(rig, caller.id, "5");
    WAIT_FOR(rig, caller.answers);
    assert_int_equal(caller.outcome, PEER_RESULT);
}

static void a_deadline_goes_on_once_nothing_is_owed(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    call_for(rig, &caller, KG_STR("{}"), 60, 0, NULL);
    expect(rig, ASKS ASKS, "request x.y |request x.y |");
    uint64_t later_ms = kg_monotonic_ms() + 150;
    WAIT_FOR(rig, is_past(later_ms));
    peer_answer(rig->peer, rig->request, PEER_ANSWER_RESULT, KG_STR("1"));
    later_ms = kg_monotonic_ms() + 100;
    WAIT_FOR(rig, is_past(later_ms)); /* the other one is still owed */
    assert_int_equal(caller.answers, 0);
    peer_close_input(rig->peer); /* even if the plugin cannot hear it any more */
    peer_answer(rig->peer, rig->request, PEER_ANSWER_RESULT, KG_STR("1")); /* was answered */
    turns(rig, 3);
    assert_int_equal(caller.answers, 0);
    peer_answer_error(rig->peer, rig->request_before, -32603, "no");
    WAIT_FOR(rig, caller.answers);
    assert_int_equal(caller.outcome, PEER_TIMEOUT);
    assert_true(happened(rig, "hung a.b 60|"));
}

static void how_long_deadlines_stand_still_is_bounded(void **state)
{
    struct peer_limits impatient = limits;
    impatient.call_wait_ms = 80;
    struct rig *rig = rig_with(state, &impatient);
    static struct caller caller;
    uint64_t started_ms = kg_monotonic_ms();
    call_for(rig, &caller, KG_STR("{}"), 50, 0, NULL);
    expect(rig, ASKS, "request x.y |");
    WAIT_FOR(rig, caller.answers);
    assert_int_equal(caller.outcome, PEER_TIMEOUT);
    assert_true(kg_monotonic_ms() - started_ms >= 120);
    assert_true(kg_monotonic_ms() - started_ms < WAIT_MS / 2);
}

static void what_was_owed_before_a_call_does_not_count_for_it(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    expect(rig, ASKS, "request x.y |");
    uint64_t later_ms = kg_monotonic_ms() + 60;
    WAIT_FOR(rig, is_past(later_ms));
    peer_answer(rig->peer, rig->request, PEER_ANSWER_RESULT, KG_STR("1"));
    uint64_t stood_ms = peer_stood_ms(rig->peer);
    assert_true(stood_ms >= 50);
    call_for(rig, &caller, KG_STR("{}"), 30, 0, NULL);
    WAIT_FOR(rig, caller.answers);
    assert_int_equal(caller.outcome, PEER_TIMEOUT);
    assert_int_equal(peer_stood_ms(rig->peer), stood_ms);
}

/* -- progress --------------------------------------------------------------------------------- */

static void on_progress(void *data, struct kg_str params)
{
    struct caller *caller = data;
    snprintf(caller->payload, sizeof(caller->payload), "progress %.*s", KG_STR_ARG(params));
}

static void progress_reaches_the_call_that_it_is_about(void **state)
{
    struct rig *rig = *state;
    static struct caller caller, other;
    struct kg_str params = KG_STR("{}");
    caller = (struct caller){.rig = rig};
    struct peer_call followed = {.method = KG_STR("a.b"),
                                 .params = &params,
                                 .params_count = 1,
                                 .on_done = on_done,
                                 .on_progress = on_progress,
                                 .data = &caller};
    assert_int_equal(peer_call(rig->peer, &followed, &caller.id, NULL), 0);
    call(rig, &other);
    assert_true(peer_progress(rig->peer, caller.id, 1, KG_STR("{\"at\":1}")));
    assert_string_equal(caller.payload, "progress {\"at\":1}");
    assert_true(
        peer_progress(rig->peer, other.id, 1, KG_STR("{}"))); /* who does not ask is not told */
    assert_false(peer_progress(rig->peer, caller.id, 0.5, KG_STR("{}"))); /* it fell */
    assert_true(peer_progress(rig->peer, caller.id, 1, KG_STR("{\"at\":1}")));
    assert_false(peer_progress(rig->peer, 99, 1, KG_STR("{}")));
    peer_abandon(rig->peer, other.id);
    assert_false(peer_progress(rig->peer, other.id, 1, KG_STR("{}")));
    answer(rig, caller.id, "1");
    WAIT_FOR(rig, caller.answers);
    assert_false(peer_progress(rig->peer, caller.id, 2, KG_STR("{}")));
    assert_string_equal(caller.payload, "1");
}

/* -- replies that nobody asked for ------------------------------------------------------------ */

static void an_answer_to_an_id_never_issued_is_a_violation(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    expect(rig, "{" V ",\"id\":1,\"result\":1}\n", "fatal unknown_id|");
    call(rig, &caller);
    expect(rig, "{" V ",\"id\":2,\"result\":1}\n", "fatal unknown_id|");
    expect(rig, "{" V ",\"id\":9223372036854775807,\"result\":1}\n", "fatal unknown_id|");
    assert_int_equal(caller.answers, 0);
}

static void a_second_answer_is_late(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    call(rig, &caller);
    answer(rig, 1, "1");
    answer(rig, 1, "2");
    expect(rig, "hello\n", "noise hello|");
    assert_int_equal(caller.answers, 1);
    assert_string_equal(caller.payload, "1");
}

static void a_malformed_answer_is_a_violation(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    call(rig, &caller);
    expect(rig, "{" V ",\"id\":1}\n", "fatal malformed_response|");
    expect(rig, "{" V ",\"id\":\"1\",\"result\":1}\n", "fatal malformed_response|");
    expect(rig, "{" V ",\"id\":1,\"result\":1,\"error\":{}}\n", "fatal malformed_response|");
    assert_int_equal(caller.answers, 0);
}

/* -- phases ----------------------------------------------------------------------------------- */

static void before_the_answer_to_initialize_nothing_else_may_come(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    peer_set_phase(rig->peer, PEER_SILENT);
    call(rig, &caller);
    expect(rig, "{" V ",\"id\":1,\"method\":\"a.b\"}\n", "fatal message_before_initialize|");
    expect(rig, "{" V ",\"method\":\"a.b\"}\n", "fatal message_before_initialize|");
    expect(rig, "{" V ",\"method\":1}\n", "fatal message_before_initialize|");
    expect(rig, "[{" V ",\"id\":1,\"result\":1}]\n", "fatal message_before_initialize|");
    expect(rig, "{" V ",\"id\":1,\"result\":\n", "fatal malformed_response|");
    expect(rig, " \t{" V ",\"id\":1,\"result\":\n", "fatal malformed_response|");
    expect(rig, "{" V ",\"id\":1}\n", "fatal malformed_response|");
    expect(rig, "{" V ",\"id\":7,\"result\":1}\n", "fatal unknown_id|");
    expect(rig, "a banner\n", "fatal malformed_response|");
    expect(rig, "{\"level\":30}\n", "noise {\"level\":30}|");
    expect(rig, "\n", "noise |");
    assert_int_equal(caller.answers, 0);
    assert_int_equal(rig->heard.length,
                     strlen("{" V ",\"id\":1,\"method\":\"a.b\",\"params\":{}}\n"));
    answer(rig, 1, "{}");
    WAIT_FOR(rig, caller.answers);
}

static void before_initialized_requests_are_told_so(void **state)
{
    struct rig *rig = *state;
    peer_set_phase(rig->peer, PEER_WAITING);
    plugin_says(rig,
                "{" V ",\"id\":5,\"method\":\"kaged.storage.query\"}\n{" V ",\"method\":\"x\"}\n");
    WAIT_FOR(rig, strchr(heard(rig), '\n') != NULL);
    assert_non_null(strstr(heard(rig), "\"id\":5,\"error\":{\"code\":-32002,"));
    assert_string_equal(events(rig), "");
    peer_set_phase(rig->peer, PEER_OPEN);
    expect(rig, "{" V ",\"id\":6,\"method\":\"x.y\",\"params\":{\"a\":1}}\n",
           "request x.y {\"a\":1}|");
    expect(rig, "{" V ",\"method\":\"x.y\",\"params\":[2]}\n", "notification x.y [2]|");
}

/* -- what other protocols allow ---------------------------------------------------------------- */

static const struct peer_rules lenient = {
    .takes_any_id = true,
    .verdicts = {[PEER_UNKNOWN_ID] = PEER_PASSED_OVER, [PEER_BAD_REQUEST] = PEER_MILD},
};

static void a_request_is_answered_with_the_id_that_it_came_with(void **state)
{
    static const char *const ids[] = {
        "0", "-7", "1.50", "1e2", "12345678901234567890", "\"\"", "\"7\"", "\"a \\u0062\\n\"", "7",
    };
    struct rig *rig = *state;
    peer_set_rules(rig->peer, &lenient);
    peer_set_phase(rig->peer, PEER_OPEN);
    for (size_t i = 0; i < KG_COUNT(ids); i++) {
        kg_auto(kg_free) char *line = kg_format("{" V ",\"method\":\"x\",\"id\":%s}\n", ids[i]);
        kg_auto(kg_free) char *answered = kg_format("{" V ",\"id\":%s,\"result\":{}}\n", ids[i]);
        expect(rig, line, "request x |");
        peer_answer(rig->peer, rig->request, PEER_ANSWER_RESULT, KG_STR("{}"));
        WAIT_FOR(rig, rig->heard.length > 0);
        assert_string_equal(heard(rig), answered);
        rig->heard.length = 0;
    }
}

static void an_id_is_of_json_rpc_and_bounded_all_the_same(void **state)
{
    struct rig *rig = *state;
    kg_auto(kg_free) char *longest = kg_format("%0*d", RPC_ID_MAX - 2, 0);
    kg_auto(kg_free) char *fits = kg_format("{" V ",\"method\":\"x\",\"id\":\"%s\"}\n", longest);
    kg_auto(kg_free) char *longer = kg_format("{" V ",\"method\":\"x\",\"id\":\"%s1\"}\n", longest);
    peer_set_rules(rig->peer, &lenient);
    peer_set_phase(rig->peer, PEER_OPEN);
    expect(rig, fits, "request x |");
    peer_answer_error(rig->peer, rig->request, -32603, "no");
    WAIT_FOR(rig, rig->heard.length > 0);
    assert_non_null(strstr(heard(rig), longest));
    expect(rig, longer, "mild invalid_request|");
    expect(rig, "{" V ",\"method\":\"x\",\"id\":null}\n", "mild invalid_request|");
    expect(rig, "{" V ",\"method\":\"x\",\"id\":[1]}\n", "mild invalid_request|");
    expect(rig, "{" V ",\"method\":\"x\",\"id\":0,\"params\":1}\n", "mild invalid_request|");
}

static void what_a_protocol_passes_over_is_not_told(void **state)
{
    struct rig *rig = *state;
    peer_set_rules(rig->peer, &lenient);
    peer_set_phase(rig->peer, PEER_OPEN);
    plugin_says(rig, "{" V ",\"id\":12,\"result\":1}\n");
    expect(rig, "hello\n", "noise hello|");
}

/* -- what is wrong and not fatal -------------------------------------------------------------- */

static void a_batch_is_answered_with_an_error(void **state)
{
    struct rig *rig = *state;
    expect(rig, "[{" V ",\"id\":1,\"method\":\"a.b\"}]\n", "mild batch|");
    WAIT_FOR(rig, rig->heard.length > 0);
    assert_non_null(strstr(heard(rig), "\"id\":null,\"error\":{\"code\":-32600,"));
    expect(rig, "{" V ",\"id\":1,\"method\":\"x.y\"}\n", "request x.y |");
}

static void an_invalid_request_is_answered_under_its_id(void **state)
{
    struct rig *rig = *state;
    expect(rig, "{" V ",\"id\":12,\"method\":7}\n", "mild invalid_request|");
    WAIT_FOR(rig, rig->heard.length > 0);
    assert_non_null(strstr(heard(rig), "\"id\":12,\"error\":{\"code\":-32600,"));
    rig->heard.length = 0;
    expect(rig, "{" V ",\"id\":\"x\",\"method\":\"a.b\"}\n", "mild invalid_request|");
    WAIT_FOR(rig, rig->heard.length > 0);
    assert_non_null(strstr(heard(rig), "\"id\":null,\"error\":{\"code\":-32600,"));
    assert_int_equal(kg_json_check(kg_buf_view(&rig->heard), NULL), KG_JSON_OK);
}

static void noise_is_reported_and_passed_over(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    call(rig, &caller);
    expect(rig, "starting...\n", "noise starting...|");
    expect(rig, "{\"level\":30}\n", "noise {\"level\":30}|");
    expect(rig, "\xFF\xFE\n\r\n", "noise \xFF\xFE|noise \r|");
    answer(rig, 1, "1");
    WAIT_FOR(rig, caller.answers);
}

static void a_line_is_bounded_to_the_byte(void **state)
{
    struct rig *rig = *state;
    kg_auto(kg_free) char *fits =
        kg_format("{" V ",\"method\":\"x\",\"params\":[%*d]}\n", 65494, 1);
    assert_int_equal(strlen(fits), limits.line_max_bytes + 1);
    plugin_says(rig, fits);
    WAIT_FOR(rig, happened(rig, "notification x"));
    rig->events.length = 0;
    kg_auto(kg_free) char *longer = kg_format("%*d\n", (int)limits.line_max_bytes + 1, 1);
    expect(rig, longer, "fatal oversize_message|");
}

static void a_last_line_without_its_newline_is_no_message(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    call(rig, &caller);
    plugin_says(rig, "{" V ",\"id\":1,\"result\":1}");
    kg_close(&rig->out);
    WAIT_FOR(rig, happened(rig, "end of stdout|"));
    assert_int_equal(caller.answers, 0);
    assert_true(kg_str_is(peer_rest(rig->peer), "{" V ",\"id\":1,\"result\":1}"));
}

static void a_line_as_it_is_has_no_caller(void **state)
{
    struct rig *rig = *state;
    struct kg_str line = KG_STR("{" V ",\"id\":\"x\",\"method\":\"ping\"}");
    assert_int_equal(peer_say(rig->peer, line, NULL), 0);
    WAIT_FOR(rig, rig->lines_heard == 1);
    assert_string_equal(heard(rig), "{" V ",\"id\":\"x\",\"method\":\"ping\"}\n");
    expect(rig, "{" V ",\"id\":\"x\",\"result\":1}\n", "fatal malformed_response|");
    assert_int_equal(peer_counters(rig->peer).in_flight, 0);
}

/* -- notifications ---------------------------------------------------------------------------- */

static void say_notifications(struct rig *rig, int count)
{
    for (int i = 0; i < count; i++)
        kg_buf_text(&rig->to_say, "{" V ",\"method\":\"x.y\"}\n");
}

static void a_flood_of_notifications_is_cut_and_told(void **state)
{
    struct peer_limits few = limits;
    few.notifications_per_sec = 5;
    struct rig *rig = rig_with(state, &few);
    WAIT_FOR(rig, loop_now_ms(rig->loop) % 1000 < 300); /* all of it in one second */
    say_notifications(rig, 20);
    WAIT_FOR(rig, peer_counters(rig->peer).notifications_dropped == 15);
    assert_int_equal(count_of(events(rig), "notification x.y"), 5);
    assert_false(happened(rig, "flood"));
    WAIT_FOR(rig, happened(rig, "flood 20|"));
    assert_string_equal(heard(rig), "{" V ",\"method\":\"system.rate_limited\","
                                    "\"params\":{\"limit_per_sec\":5}}\n");
    say_notifications(rig, 1);
    WAIT_FOR(rig, count_of(events(rig), "notification x.y") == 6);
}

static void requests_are_not_counted_as_notifications(void **state)
{
    struct peer_limits few = limits;
    few.notifications_per_sec = 1;
    struct rig *rig = rig_with(state, &few);
    for (int i = 0; i < 10; i++)
        plugin_says(rig, "{" V ",\"id\":1,\"method\":\"x.y\"}\n");
    WAIT_FOR(rig, count_of(events(rig), "request x.y") == 10);
    assert_int_equal(peer_counters(rig->peer).notifications_dropped, 0);
}

/* -- a plugin that does not read -------------------------------------------------------------- */

/* The sanitizer's own count where there is one. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t allocated_bytes(void)
{
    if (__sanitizer_get_current_allocated_bytes)
        return __sanitizer_get_current_allocated_bytes();
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void calls_to_a_deaf_plugin_are_refused_at_the_bound(void **state)
{
    struct rig *rig = *state;
    static struct caller callers[4096];
    kg_auto(kg_free) char *params = kg_format("{\"a\":\"%10000d\"}", 1);
    struct kg_err err = {0};
    size_t before = allocated_bytes(), taken = 0;
    rig->deaf = true;
    while (taken < KG_COUNT(callers) &&
           call_for(rig, &callers[taken], kg_str(params), WAIT_MS, 0, &err) == 0) {
        taken++;
        turn(rig);
    }
    assert_int_equal(err.code, KG_E_BUSY);
    assert_true(taken * 10000 > limits.write_queue_max_bytes - 20000);
    assert_true(taken * 10000 < limits.write_queue_max_bytes + 65536 + 20000);
    assert_true(allocated_bytes() - before < 2 * limits.write_queue_max_bytes + 500000);
    rig->deaf = false;
    WAIT_FOR(rig, rig->lines_heard == taken);
    call(rig, &callers[taken]);
}

static void say_requests(struct rig *rig, unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        kg_buf_printf(&rig->to_say, "{" V ",\"id\":%u,\"method\":\"x.y\"}\n", first + i);
}

static void a_plugin_that_reads_no_answers_is_not_read(void **state)
{
    struct peer_limits small = limits;
    small.write_queue_max_bytes = 400000;
    struct rig *rig = rig_with(state, &small);
    rig->answers_requests = true;
    rig->deaf = true;
    say_requests(rig, 1, 20000);
    size_t said = rig->to_say.length;
    turns(rig, 100);
    uint64_t taken = peer_counters(rig->peer).bytes_in;
    assert_true(taken < said / 2);
    turns(rig, 100);
    assert_int_equal(peer_counters(rig->peer).bytes_in, taken);
    rig->deaf = false;
    WAIT_FOR(rig, rig->lines_heard == 20000); /* no answer was lost */
    assert_int_equal(rig->to_say.length, 0);
}

/* One read has requests for more answers than the bound: it was read before anything was held. */
static void short_answers_past_the_bound_are_not_lost(void **state)
{
    struct peer_limits small = limits;
    small.write_queue_max_bytes = 4096;
    struct rig *rig = rig_with(state, &small);
    rig->answers_requests = true;
    rig->deaf = true;
    say_requests(rig, 1, 20000);
    turns(rig, 20);
    rig->deaf = false;
    WAIT_FOR(rig, rig->lines_heard == 20000);
    assert_string_equal(events(rig), "");
}

static void a_large_answer_that_does_not_fit_is_an_error(void **state)
{
    struct peer_limits small = limits;
    small.write_queue_max_bytes = 100000;
    struct rig *rig = rig_with(state, &small);
    int64_t kept[3];
    kg_auto(kg_free) char *large = kg_format("\"%60000d\"", 1);
    rig->deaf = true;
    rig->kept = kept;
    say_requests(rig, 1, KG_COUNT(kept));
    WAIT_FOR(rig, rig->kept_count == KG_COUNT(kept));
    for (size_t i = 0; i < KG_COUNT(kept); i++)
        peer_answer(rig->peer, kept[i], PEER_ANSWER_RESULT, kg_str(large));
    rig->deaf = false;
    WAIT_FOR(rig, rig->lines_heard == KG_COUNT(kept));
    const char *heard = kg_buf_terminate(&rig->heard);
    assert_int_equal(count_of(heard, "\"result\""), 1);
    assert_int_equal(count_of(heard, "the plugin does not read"), 2);
}

static void a_plugin_that_leaves_all_its_answers_unread_is_told_of(void **state)
{
    struct peer_limits small = limits;
    small.write_queue_max_bytes = 4096;
    struct rig *rig = rig_with(state, &small);
    static int64_t kept[80000];
    size_t before = allocated_bytes();
    rig->deaf = true;
    rig->kept = kept;
    say_requests(rig, 1, KG_COUNT(kept));
    WAIT_FOR(rig, rig->kept_count == KG_COUNT(kept));
    for (size_t i = 0; i < KG_COUNT(kept); i++)
        peer_answer_error(rig->peer, kept[i], -32601, "there is no such method");
    assert_string_equal(events(rig), ""); /* not in the middle of what the caller does */
    turns(rig, 3);
    assert_string_equal(events(rig), "fatal answers_unread|");
    assert_true(allocated_bytes() - before < 16u << 20);
}

/* Always some answers behind, it must not make the queue grow by what it has long read. */
static void a_plugin_that_stays_behind_costs_no_more_memory(void **state)
{
    struct rig *rig = *state;
    char bytes[8192];
    rig->answers_requests = true;
    rig->deaf = true;
    say_requests(rig, 1, 3000);
    WAIT_FOR(rig, rig->to_say.length == 0);
    turns(rig, 10);
    size_t before = allocated_bytes();
    for (int round = 0; round < 500; round++) {
        say_requests(rig, 1, 100);
        for (size_t left = 8000; left > 0;) {
            ssize_t got = read(rig->in, bytes, left < sizeof(bytes) ? left : sizeof(bytes));
            assert_true(got > 0 || errno == EAGAIN);
            left -= got > 0 ? (size_t)got : 0;
            turn(rig);
        }
    }
    assert_true(peer_counters(rig->peer).bytes_out >= 4000000);
    assert_true(allocated_bytes() < before + 3 * limits.write_queue_max_bytes);
}

/*
 * A plugin that takes one call at a time reads the next only after its reply is out. If full pipes
 * of calls kept us from reading, both sides would wait for each other for ever.
 */
static void a_plugin_that_replies_before_it_reads_on_is_not_starved(void **state)
{
    struct rig *rig = *state;
    static struct caller callers[100];
    kg_auto(kg_free) char *params = kg_format("{\"a\":\"%9000d\"}", 1);
    fcntl(rig->in, F_SETPIPE_SZ, 4096);
    fcntl(rig->out, F_SETPIPE_SZ, 4096);
    for (size_t i = 0; i < KG_COUNT(callers); i++)
        assert_int_equal(call_for(rig, &callers[i], kg_str(params), WAIT_MS, 0, NULL), 0);
    for (size_t i = 0; i < KG_COUNT(callers); i++) {
        rig->deaf = false;
        WAIT_FOR(rig, rig->lines_heard > i);
        rig->deaf = true;
        answer(rig, callers[i].id, params);
        WAIT_FOR(rig, rig->to_say.length == 0);
    }
    WAIT_FOR(rig, in_flight(rig) == 0);
}

/* It may wait for our answer in the middle of its work, behind megabytes of calls. */
static void answers_go_before_calls_that_wait(void **state)
{
    struct rig *rig = *state;
    static struct caller callers[50];
    kg_auto(kg_free) char *params = kg_format("{\"a\":\"%9000d\"}", 1);
    fcntl(rig->in, F_SETPIPE_SZ, 4096);
    rig->answers_requests = true;
    rig->deaf = true;
    for (size_t i = 0; i < KG_COUNT(callers); i++)
        call_for(rig, &callers[i], kg_str(params), WAIT_MS, 0, NULL);
    turns(rig, 3); /* the first call is half out */
    say_requests(rig, 77, 1);
    turns(rig, 3);
    rig->deaf = false;
    WAIT_FOR(rig, rig->lines_heard == KG_COUNT(callers) + 1);
    const char *second = strchr(heard(rig), '\n') + 1;
    assert_true(kg_str_starts(kg_str(second), "{" V ",\"id\":77,\"error\""));
    for (const char *line = heard(rig); *line != '\0'; line = strchr(line, '\n') + 1) {
        struct kg_str text = {line, (size_t)(strchr(line, '\n') - line)};
        assert_int_equal(kg_json_check(text, NULL), KG_JSON_OK);
    }
}

/* -- pausing, closing, ending ----------------------------------------------------------------- */

static void close_answers_every_caller_once(void **state)
{
    struct rig *rig = *state;
    static struct caller callers[100];
    struct kg_err err;
    for (size_t i = 0; i < KG_COUNT(callers); i++)
        call(rig, &callers[i]);
    peer_abandon(rig->peer, callers[7].id);
    peer_close(rig->peer);
    peer_close(rig->peer);
    for (size_t i = 0; i < KG_COUNT(callers); i++) {
        assert_int_equal(callers[i].answers, i == 7 ? 0 : 1);
        assert_true(i == 7 || callers[i].outcome == PEER_GONE);
    }
    assert_true(call_for(rig, &callers[0], KG_STR("{}"), 0, 0, &err) < 0);
    assert_int_equal(err.code, KG_E_PLUGIN_DOWN);
    assert_true(peer_notify(rig->peer, "x", KG_STR("{}"), &err) < 0);
    peer_answer_error(rig->peer, 1, -32601, "nobody hears it");
    peer_close_input(rig->peer);
    peer_drain(rig->peer);
    turns(rig, 5);
    assert_string_equal(events(rig), "");
}

static void nothing_follows_a_close_in_a_callback(void **state)
{
    static const struct {
        enum event event;
        const char *said, *wanted;
    } rows[] = {
        {EVENT_REQUEST, "{" V ",\"id\":1,\"method\":\"x\"}\n", "request x |"},
        {EVENT_NOTIFICATION, "{" V ",\"method\":\"x\"}\n", "notification x |"},
        {EVENT_NOISE, "hm\n", "noise hm|"},
        {EVENT_VIOLATION, "[]\n", "mild batch|"},
        {EVENT_VIOLATION, "{" V ",\"method\":1}\n", "mild invalid_request|"},
        {EVENT_VIOLATION, "{" V ",\"id\":1}\n", "fatal malformed_response|"},
        {EVENT_VIOLATION, "{" V ",\"id\":9,\"result\":1}\n", "fatal unknown_id|"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct rig *rig = rig_with(state, &limits);
        static struct caller caller;
        call(rig, &caller);
        rig->close_on = rows[i].event;
        plugin_says(rig, rows[i].said);
        plugin_says(rig, rows[i].said);
        WAIT_FOR(rig, happened(rig, rows[i].wanted));
        turns(rig, 5);
        assert_string_equal(events(rig), rows[i].wanted);
        assert_int_equal(caller.answers, 1);
        assert_int_equal(caller.outcome, PEER_GONE);
    }
}

static void a_caller_may_close_when_it_is_answered(void **state)
{
    struct rig *rig = *state;
    static struct caller callers[3];
    for (size_t i = 0; i < 3; i++)
        call(rig, &callers[i]);
    rig->close_on = EVENT_DONE;
    answer(rig, 2, "2");
    answer(rig, 1, "1");
    WAIT_FOR(rig, callers[0].answers);
    assert_int_equal(callers[1].outcome, PEER_RESULT);
    assert_int_equal(callers[0].outcome, PEER_GONE);
    assert_int_equal(callers[2].outcome, PEER_GONE);
    turns(rig, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(callers[i].answers, 1);
}

static void a_close_is_allowed_at_a_deadline(void **state)
{
    static const enum event close_on[] = {EVENT_HUNG, EVENT_DONE, EVENT_DONE};
    static const uint64_t caller_timeouts[] = {0, 0, 5};
    for (size_t i = 0; i < KG_COUNT(close_on); i++) {
        struct rig *rig = rig_with(state, &limits);
        static struct caller first, second;
        rig->close_on = close_on[i];
        call_for(rig, &first, KG_STR("{}"), 10, caller_timeouts[i], NULL);
        call(rig, &second);
        WAIT_FOR(rig, second.answers);
        assert_int_equal(second.outcome, PEER_GONE);
        assert_int_equal(first.outcome, caller_timeouts[i] ? PEER_EXPIRED : PEER_TIMEOUT);
        turns(rig, 3);
        assert_int_equal(first.answers, 1);
    }
}

static void a_close_is_allowed_when_a_flood_is_told(void **state)
{
    struct peer_limits few = limits;
    few.notifications_per_sec = 1;
    struct rig *rig = rig_with(state, &few);
    rig->close_on = EVENT_FLOOD;
    say_notifications(rig, 10);
    WAIT_FOR(rig, happened(rig, "flood "));
    rig->events.length = 0;
    say_notifications(rig, 10);
    turns(rig, 5);
    assert_string_equal(events(rig), "");
}

static void a_close_is_allowed_at_either_end(void **state)
{
    for (int which = 0; which < 2; which++) {
        struct rig *rig = rig_with(state, &limits);
        static struct caller caller;
        rig->close_on = EVENT_END;
        call(rig, &caller);
        kg_close(which ? &rig->in : &rig->out);
        WAIT_FOR(rig, caller.answers);
        assert_string_equal(events(rig), which ? "end of stdin|" : "end of stdout|");
        assert_int_equal(caller.outcome, PEER_GONE);
    }
}

static void close_input_writes_the_rest_first(void **state)
{
    struct rig *rig = *state;
    static struct caller callers[50];
    struct kg_err err;
    kg_auto(kg_free) char *params = kg_format("{\"a\":\"%9000d\"}", 1);
    rig->deaf = true;
    for (size_t i = 0; i < KG_COUNT(callers); i++)
        call_for(rig, &callers[i], kg_str(params), WAIT_MS, 0, NULL);
    peer_close_input(rig->peer);
    assert_true(call_for(rig, &callers[0], KG_STR("{}"), 0, 0, &err) < 0);
    assert_int_equal(err.code, KG_E_PLUGIN_DOWN);
    turns(rig, 10);
    rig->deaf = false;
    WAIT_FOR(rig, rig->lines_heard == KG_COUNT(callers));
    char byte;
    WAIT_FOR(rig, read(rig->in, &byte, 1) == 0); /* end of file */
    answer(rig, callers[49].id, "1");
    WAIT_FOR(rig, callers[49].answers); /* its stdout is still read */
    assert_string_equal(events(rig), "");
    peer_close_input(rig->peer);
}

static void a_closed_stdin_is_seen_at_the_next_write(void **state)
{
    struct rig *rig = *state;
    static struct caller caller;
    struct kg_err err;
    kg_close(&rig->in);
    call(rig, &caller);
    WAIT_FOR(rig, happened(rig, "end of stdin|"));
    assert_true(call_for(rig, &caller, KG_STR("{}"), 0, 0, &err) < 0);
    assert_int_equal(err.code, KG_E_PLUGIN_DOWN);
    expect(rig, "last words\n", "noise last words|");
    kg_close(&rig->out);
    WAIT_FOR(rig, happened(rig, "end of stdout|"));
}

/* Reading is held while answers wait; when nobody is left to take them, it must go on. */
static void a_held_plugin_that_closes_stdin_is_read_to_its_end(void **state)
{
    struct peer_limits small = limits;
    small.write_queue_max_bytes = 100000;
    struct rig *rig = rig_with(state, &small);
    rig->answers_requests = true;
    rig->deaf = true;
    say_requests(rig, 1, 5000);
    turns(rig, 50);
    assert_true(rig->to_say.length > 0);
    kg_close(&rig->in);
    WAIT_FOR(rig, happened(rig, "end of stdin|"));
    WAIT_FOR(rig, rig->to_say.length == 0);
    kg_close(&rig->out);
    WAIT_FOR(rig, happened(rig, "end of stdout|"));
}

static void drain_delivers_what_is_left(void **state)
{
    struct rig *rig = *state;
    static struct caller callers[2000];
    for (size_t i = 0; i < KG_COUNT(callers); i++)
        call(rig, &callers[i]);
    for (size_t i = 0; i < 1000; i++)
        answer(rig, callers[i].id, "1");
    assert_int_equal(rig->to_say.length, 0);
    assert_int_equal(callers[0].answers, 0);
    kg_close(&rig->out);
    peer_drain(rig->peer);
    for (size_t i = 0; i < KG_COUNT(callers); i++) {
        assert_int_equal(callers[i].answers, 1);
        assert_int_equal(callers[i].outcome, i < 1000 ? PEER_RESULT : PEER_GONE);
    }
    assert_string_equal(events(rig), "end of stdout|");
}

/* A process that outlived the plugin may hold its stdout and go on writing. */
static void drain_ends_although_somebody_goes_on_writing(void **state)
{
    struct rig *rig = *state;
    rig->echoes_noise = true;
    plugin_says(rig, "first\n");
    alarm(60);
    peer_drain(rig->peer);
    alarm(0);
    assert_true(happened(rig, "noise first|"));
    assert_true(count_of(events(rig), "more") < 5);
}

static void counters_count_bytes_both_ways(void **state)
{
    struct rig *rig = *state;
    peer_notify(rig->peer, "x", KG_STR("{}"), NULL);
    plugin_says(rig, "12345\n");
    WAIT_FOR(rig, rig->heard.length > 0 && happened(rig, "noise"));
    assert_int_equal(peer_counters(rig->peer).bytes_in, 6);
    assert_int_equal(peer_counters(rig->peer).bytes_out, rig->heard.length);
}

static void free_takes_null(void **state)
{
    (void)state;
    peer_free(NULL);
}

#define RIG_TEST(test) cmocka_unit_test_setup_teardown(test, rig_up, rig_down)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_call_is_one_line_of_json_rpc),
        RIG_TEST(a_notification_has_no_id),
        RIG_TEST(an_error_reaches_its_caller_as_it_was_written),
        RIG_TEST(replies_find_their_callers_in_any_order),
        RIG_TEST(a_thousand_calls_may_be_in_flight),
        RIG_TEST(newlines_in_params_do_not_break_the_framing),
        RIG_TEST(calls_in_flight_are_bounded),
        RIG_TEST(a_call_that_fits_no_line_is_refused),
        RIG_TEST(the_reply_to_an_abandoned_call_is_dropped),
        RIG_TEST(the_host_deadline_means_that_the_plugin_hangs),
        RIG_TEST(a_tap_hears_both_ways_for_as_long_as_it_is_there),
        RIG_TEST(the_callers_own_deadline_only_drops_the_reply),
        RIG_TEST(a_caller_with_the_longer_deadline_has_the_hosts),
        RIG_TEST(a_call_with_only_a_callers_deadline_ends_with_it),
        RIG_TEST(a_call_that_nobody_waits_for_can_still_show_a_hang),
        RIG_TEST(while_an_answer_is_owed_no_deadline_passes),
        RIG_TEST(a_deadline_goes_on_once_nothing_is_owed),
        RIG_TEST(how_long_deadlines_stand_still_is_bounded),
        RIG_TEST(what_was_owed_before_a_call_does_not_count_for_it),
        RIG_TEST(progress_reaches_the_call_that_it_is_about),
        RIG_TEST(an_answer_to_an_id_never_issued_is_a_violation),
        RIG_TEST(a_second_answer_is_late),
        RIG_TEST(a_malformed_answer_is_a_violation),
        RIG_TEST(before_the_answer_to_initialize_nothing_else_may_come),
        RIG_TEST(before_initialized_requests_are_told_so),
        RIG_TEST(a_request_is_answered_with_the_id_that_it_came_with),
        RIG_TEST(an_id_is_of_json_rpc_and_bounded_all_the_same),
        RIG_TEST(what_a_protocol_passes_over_is_not_told),
        RIG_TEST(a_batch_is_answered_with_an_error),
        RIG_TEST(an_invalid_request_is_answered_under_its_id),
        RIG_TEST(noise_is_reported_and_passed_over),
        RIG_TEST(a_line_is_bounded_to_the_byte),
        RIG_TEST(a_last_line_without_its_newline_is_no_message),
        RIG_TEST(a_line_as_it_is_has_no_caller),
        RIG_TEST(a_flood_of_notifications_is_cut_and_told),
        RIG_TEST(requests_are_not_counted_as_notifications),
        RIG_TEST(calls_to_a_deaf_plugin_are_refused_at_the_bound),
        RIG_TEST(a_plugin_that_reads_no_answers_is_not_read),
        RIG_TEST(short_answers_past_the_bound_are_not_lost),
        RIG_TEST(a_large_answer_that_does_not_fit_is_an_error),
        RIG_TEST(a_plugin_that_leaves_all_its_answers_unread_is_told_of),
        RIG_TEST(a_plugin_that_stays_behind_costs_no_more_memory),
        RIG_TEST(a_plugin_that_replies_before_it_reads_on_is_not_starved),
        RIG_TEST(answers_go_before_calls_that_wait),
        RIG_TEST(close_answers_every_caller_once),
        RIG_TEST(nothing_follows_a_close_in_a_callback),
        RIG_TEST(a_caller_may_close_when_it_is_answered),
        RIG_TEST(a_close_is_allowed_at_a_deadline),
        RIG_TEST(a_close_is_allowed_when_a_flood_is_told),
        RIG_TEST(a_close_is_allowed_at_either_end),
        RIG_TEST(close_input_writes_the_rest_first),
        RIG_TEST(a_closed_stdin_is_seen_at_the_next_write),
        RIG_TEST(a_held_plugin_that_closes_stdin_is_read_to_its_end),
        RIG_TEST(drain_delivers_what_is_left),
        RIG_TEST(drain_ends_although_somebody_goes_on_writing),
        RIG_TEST(counters_count_bytes_both_ways),
        cmocka_unit_test(free_takes_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
