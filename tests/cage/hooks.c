/*
 * Hooks that are fired at plugins in their cages: in order, one at a time for each plugin, within
 * their deadline, and whatever a plugin does with one, the round ends and the plugin's next hook is
 * its own.
 */
#include "host_world.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define TIMEOUT_MS 4000 /* of those that are to wait for it */
#define CONFIG                                                                                     \
    "[limits]\nhook_timeout_ms = 60000\nrestart_delay_ms = 10\nrestart_failures = 1000\n"          \
    "initialize_timeout_ms = 15000\n"
#define PROJECT                                                                                    \
    "version: 1\nname: music\nprimary:\n"                                                          \
    "  plugins:\n"                                                                                 \
    "    second: { package: beta, config: { tag: red } }\n"                                        \
    "    first: { package: alpha }\n"                                                              \
    "  subagents:\n"                                                                               \
    "    sub: { plugins: { second: { package: beta, config: { tag: blue } } } }\n"
#define LARGE_BYTES 4000000

static struct host_world *world;

static int setup(void **state)
{
    (void)state;
    world = host_world_new(CONFIG);
    host_world_install(world, "alpha", "");
    host_world_install(world, "beta", "");
    host_world_start(world);
    host_world_load(world, PROJECT);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    host_world_free(world);
    return 0;
}

/* -- firing ------------------------------------------------------------------------------------ */

#define ANSWERS_MAX 2

/* One round, with a copy of its answers. */
struct fired {
    struct projects_hook_round *round;
    bool done, returned;
    size_t count;
    struct {
        char *plugin, *use, *text, *raw;
        struct kg_err error;
    } answers[ANSWERS_MAX];
};

static void on_done(void *data, const struct projects_hook_answer *answers, size_t count)
{
    struct fired *fired = data;
    assert_true(fired->returned);
    assert_false(fired->done);
    assert_in_range(count, 0, ANSWERS_MAX);
    fired->done = true;
    fired->count = count;
    for (size_t i = 0; i < count; i++) {
        struct kg_buf text = {0};
        host_hook_result_text(answers[i].result, &text);
        fired->answers[i].text = kg_buf_terminate(&text);
        fired->answers[i].raw = kg_str_dup(answers[i].raw);
        fired->answers[i].plugin = kg_strdup(answers[i].plugin);
        fired->answers[i].use = kg_strdup(answers[i].use);
        fired->answers[i].error = answers[i].error;
    }
}

static void fire_for(struct fired *fired, const char *agent, enum manifest_hook hook,
                     struct kg_str params, const char *designated)
{
    kg_auto(host_asker_cleanup) struct host_asker *ann = host_asker_new("ann", "req_1");
    kg_auto(host_asker_cleanup) struct host_asker *asker = host_asker_for(
        ann,
        &(struct host_asker){.project_id = "music", .agent_path = agent, .session_id = "ses_1"});
    const struct projects_hook_fire fire = {
        .hook = hook,
        .asker = asker,
        .params = params,
        .designated = designated,
        .designated_params =
            designated ? KG_STR("{\"acts\":{\"echo\":true},\"mine\":1}") : KG_STR_NULL,
        .on_done = on_done,
        .data = fired,
    };
    *fired = (struct fired){0};
    fired->round = projects_hook_fire(world->host, &fire);
    fired->returned = true;
}

static void fire(struct fired *fired, const char *params)
{
    fire_for(fired, "primary", MANIFEST_PRE_COMPACT, kg_str(params), NULL);
}

static bool is_done(void *data)
{
    return ((struct fired *)data)->done;
}

static void wait_for(struct fired *fired)
{
    host_world_wait(world, is_done, fired);
}

static void forget(struct fired *fired)
{
    for (size_t i = 0; i < fired->count; i++) {
        free(fired->answers[i].plugin);
        free(fired->answers[i].use);
        free(fired->answers[i].text);
        free(fired->answers[i].raw);
    }
    *fired = (struct fired){0};
}

/* The key is a live one; set back by the next test. */
static void set_timeout_ms(int64_t timeout_ms)
{
    ((struct config *)host_config(world->host))->limits_hook_timeout_ms = timeout_ms;
}

/* All plugins run, and have no hook of before. */
static void begin(void)
{
    set_timeout_ms(HOST_WORLD_WAIT_MS);
    host_world_wait_state(world, "alpha", INSTANCE_RUNNING);
    host_world_wait_state(world, "beta", INSTANCE_RUNNING);
    host_world_forget(world);
}

static void assert_text(const struct fired *fired, size_t index, const char *text)
{
    if (fired->answers[index].error.code != KG_OK)
        fail_msg("%s", fired->answers[index].error.message);
    assert_string_equal(fired->answers[index].text, text);
}

static void assert_failed(const struct fired *fired, size_t index, enum kg_code code)
{
    if (fired->answers[index].error.code != code)
        fail_msg("%zu: %s", index, fired->answers[index].error.message);
    assert_string_equal(fired->answers[index].text, "");
    assert_string_equal(fired->answers[index].raw, "");
}

/* What a plugin saw: the result of told.seen, as text. */
struct seen {
    bool done;
    struct kg_buf text;
};

static void on_seen(void *data, const struct host_reply *reply)
{
    struct seen *seen = data;
    assert_int_equal(reply->error.code, KG_OK);
    kg_buf_str(&seen->text, reply->result);
    seen->done = true;
}

static bool has_seen(void *data)
{
    return ((struct seen *)data)->done;
}

static char *seen_with(const char *plugin, struct kg_str params)
{
    struct seen seen = {0};
    struct kg_err err;
    kg_auto(host_asker_cleanup) struct host_asker *asker = host_asker_new(NULL, "req_2");
    const struct host_call_request request = {
        .plugin = kg_str(plugin),
        .method = KG_STR("told.seen"),
        .params = params,
        .asker = asker,
        .on_done = on_seen,
        .data = &seen,
    };
    if (host_call(world->host, &request, &err) == NULL)
        fail_msg("%s", err.message);
    host_world_wait(world, has_seen, &seen);
    return kg_buf_terminate(&seen.text);
}

static char *seen_by(const char *plugin)
{
    return seen_with(plugin, KG_STR("{}"));
}

/* What is held is answered. */
static void release(const char *plugin)
{
    free(seen_with(plugin, KG_STR("{\"release\":true}")));
}

static void wait_until_seen(const char *plugin, const char *text)
{
    uint64_t deadline_ms = kg_monotonic_ms() + HOST_WORLD_WAIT_MS;
    for (bool is_seen = false; !is_seen; assert_true(kg_monotonic_ms() < deadline_ms)) {
        kg_auto(kg_free) char *seen = seen_by(plugin);
        is_seen = strstr(seen, text) != NULL;
    }
}

/* -- who is asked ------------------------------------------------------------------------------ */

static void plugins_answer_in_the_order_of_the_file(void **state)
{
    (void)state;
    struct fired fired;
    begin();
    fire(&fired, "{\"acts\":{\"alpha\":{\"result\":\"a\"},\"beta\":{\"after\":0.2,\"result\":"
                 "{\"inject\":\"b\",\"retain\":[\"c\"]}}}}");
    wait_for(&fired);
    assert_int_equal(fired.count, 2);
    assert_string_equal(fired.answers[0].plugin, "beta");
    assert_string_equal(fired.answers[0].use, "second");
    assert_string_equal(fired.answers[1].use, "first");
    assert_text(&fired, 0, "b\n- c");
    assert_text(&fired, 1, "a");
    assert_non_null(EVENT(world, "\"plugin.hook.fired\"", "beta", "pre_compact", "\"primary\"",
                          "ses_1", "req_1"));
    assert_non_null(EVENT(world, "\"plugin.hook.returned\"", "alpha", "pre_compact", "true"));
    forget(&fired);
}

static void null_is_no_result(void **state)
{
    (void)state;
    struct fired fired;
    begin();
    fire(&fired, "");
    wait_for(&fired);
    assert_text(&fired, 0, "");
    assert_text(&fired, 1, "");
    assert_non_null(EVENT(world, "\"plugin.hook.returned\"", "alpha", "\"has_result\":false"));
    forget(&fired);
}

static void hooks_of_sessions_are_not_fired_for_subagents(void **state)
{
    (void)state;
    struct fired fired;
    begin();
    fire_for(&fired, "primary.subagents.sub", MANIFEST_ON_SESSION_IDLE, KG_STR_NULL, NULL);
    wait_for(&fired);
    assert_int_equal(fired.count, 0);
    fire_for(&fired, "primary", MANIFEST_ON_SESSION_IDLE, KG_STR_NULL, NULL);
    wait_for(&fired);
    assert_int_equal(fired.count, 2);
    forget(&fired);
}

static void a_project_or_agent_that_is_not_there_has_nobody_to_ask(void **state)
{
    (void)state;
    struct fired fired;
    fire_for(&fired, "primary.subagents.no", MANIFEST_PRE_COMPACT, KG_STR_NULL, NULL);
    wait_for(&fired);
    assert_int_equal(fired.count, 0);
}

/* -- what is sent ------------------------------------------------------------------------------ */

static void the_designated_plugin_gets_its_own_params_and_answers_raw(void **state)
{
    (void)state;
    struct fired fired;
    begin();
    fire_for(&fired, "primary", MANIFEST_PRE_COMPACT, KG_STR("{\"acts\":{\"echo\":true}}"),
             "first");
    wait_for(&fired);
    assert_non_null(strstr(fired.answers[1].raw, "\\\"mine\\\": 1"));
    assert_string_equal(fired.answers[1].text, "");
    assert_null(strstr(fired.answers[0].text, "mine"));
    assert_string_equal(fired.answers[0].raw, "");
    forget(&fired);
}

static struct kg_buf large_params(void)
{
    struct kg_buf params = {0};
    kg_buf_text(&params, "{\"acts\":{\"size\":true},\"fill\":\"");
    kg_buf_reserve(&params, LARGE_BYTES);
    memset(params.data + params.length, 'x', LARGE_BYTES);
    params.length += LARGE_BYTES;
    kg_buf_text(&params, "\"}");
    return params;
}

static void params_of_four_megabytes_arrive(void **state)
{
    (void)state;
    struct fired fired;
    kg_auto(kg_buf_free) struct kg_buf params = large_params();
    begin();
    fire_for(&fired, "primary", MANIFEST_PRE_COMPACT, kg_buf_view(&params), NULL);
    params.length = 0; /* they were borrowed for the call alone */
    wait_for(&fired);
    for (size_t i = 0; i < fired.count; i++)
        assert_true(atol(fired.answers[i].text) > LARGE_BYTES);
    forget(&fired);
}

static void config_comes_along_only_where_it_is_another(void **state)
{
    (void)state;
    struct fired told, other;
    static const struct kg_str echo = {"{\"acts\":{\"echo\":true}}", 22};
    begin();
    fire_for(&told, "primary", MANIFEST_POST_COMPACT, echo, NULL);
    fire_for(&other, "primary.subagents.sub", MANIFEST_POST_COMPACT, echo, NULL);
    wait_for(&told);
    wait_for(&other);
    bool first = strstr(told.answers[0].text, "_config") != NULL;
    bool second = strstr(other.answers[0].text, "_config") != NULL;
    assert_int_not_equal(first, second);
    assert_non_null(first ? strstr(told.answers[0].text, "red")
                          : strstr(other.answers[0].text, "blue"));
    assert_non_null(strstr(other.answers[0].text, "\"agent_path\": \"primary.subagents.sub\""));
    forget(&told);
    forget(&other);
}

static void params_that_speak_for_the_host_are_not_sent(void **state)
{
    (void)state;
    struct fired fired;
    begin();
    fire(&fired, "{\"_context\":{}}");
    wait_for(&fired);
    assert_failed(&fired, 0, KG_E_INVALID_PARAMS);
    assert_failed(&fired, 1, KG_E_INVALID_PARAMS);
    assert_null(EVENT(world, "\"plugin.hook.fired\""));
    forget(&fired);
}

/* -- one at a time ----------------------------------------------------------------------------- */

static void a_plugin_has_one_hook_at_a_time(void **state)
{
    (void)state;
    struct fired fired[3];
    begin();
    for (int i = 0; i < 3; i++) {
        kg_auto(kg_free) char *params =
            kg_format("{\"mark\":\"turn %d\",\"acts\":{\"after\":0.05}}", i);
        fire(&fired[i], params);
    }
    for (int i = 0; i < 3; i++) {
        wait_for(&fired[i]);
        assert_text(&fired[i], 1, "");
        forget(&fired[i]);
    }
    kg_auto(kg_free) char *seen = seen_by("alpha");
    const char *at = seen;
    for (int i = 0; i < 3; i++) {
        kg_auto(kg_free) char *entry = kg_format("\"turn %d\", \"beside\": 0", i);
        at = strstr(at, entry);
        assert_non_null(at);
    }
}

/* They hang, one behind the other: had each its time from when it is sent, that were a minute. */
static void a_hung_hook_costs_its_time_and_nobody_elses(void **state)
{
    (void)state;
    struct fired hung[15], after;
    begin();
    set_timeout_ms(TIMEOUT_MS);
    uint32_t starts = instance_start_count(host_world_status(world, "alpha").instance);
    uint64_t began_ms = kg_monotonic_ms();
    for (size_t i = 0; i < KG_COUNT(hung); i++)
        fire(&hung[i], "{\"acts\":{\"alpha\":{\"hang\":true},\"beta\":{\"result\":\"b\"}}}");
    for (size_t i = 0; i < KG_COUNT(hung); i++) {
        wait_for(&hung[i]);
        assert_text(&hung[i], 0, "b");
        assert_failed(&hung[i], 1, KG_E_PLUGIN_TIMEOUT);
        forget(&hung[i]);
    }
    assert_in_range(kg_monotonic_ms() - began_ms, TIMEOUT_MS,
                    (long)KG_COUNT(hung) * TIMEOUT_MS - 1);
    set_timeout_ms(HOST_WORLD_WAIT_MS);
    fire(&after, "{\"acts\":{\"result\":\"y\"}}");
    wait_for(&after);
    assert_text(&after, 1, "y");
    assert_int_equal(instance_start_count(host_world_status(world, "alpha").instance), starts);
    assert_non_null(EVENT(world, "\"plugin.hook.timeout\"", "alpha", "pre_compact", "\"primary\"",
                          "\"timeout_sec\":4"));
    forget(&after);
}

static void a_late_answer_is_dropped(void **state)
{
    (void)state;
    struct fired late, next;
    begin();
    set_timeout_ms(500);
    fire(&late, "{\"acts\":{\"alpha\":{\"held\":true,\"result\":\"late\"}}}");
    wait_for(&late);
    assert_failed(&late, 1, KG_E_PLUGIN_TIMEOUT);
    set_timeout_ms(HOST_WORLD_WAIT_MS);
    fire(&next, "{\"mark\":\"next\",\"acts\":{\"alpha\":{\"held\":true,\"result\":\"mine\"}}}");
    wait_until_seen("alpha", "\"next\", \"beside\": 1");
    release("alpha");
    wait_for(&next);
    assert_text(&next, 1, "mine");
    assert_null(EVENT(world, "\"plugin.protocol_violation\""));
    forget(&late);
    forget(&next);
}

/* Once more than eight of the largest wait for a plugin, the next is not taken. */
static void what_waits_for_a_plugin_is_bounded(void **state)
{
    (void)state;
    struct fired hung, fired[10];
    kg_auto(kg_buf_free) struct kg_buf params = large_params();
    begin();
    set_timeout_ms(TIMEOUT_MS);
    fire(&hung, "{\"mark\":\"hung\",\"acts\":{\"hang\":true}}");
    wait_until_seen("alpha", "\"hung\"");
    set_timeout_ms(HOST_WORLD_WAIT_MS);
    for (size_t i = 0; i < KG_COUNT(fired); i++)
        fire_for(&fired[i], "primary", MANIFEST_PRE_COMPACT, kg_buf_view(&params), NULL);
    wait_for(&fired[9]);
    assert_false(fired[0].done);
    assert_failed(&fired[9], 0, KG_E_BUSY);
    assert_failed(&fired[9], 1, KG_E_BUSY);
    forget(&fired[9]);
    for (size_t i = 0; i < 9; i++) {
        if (fired[i].done)
            forget(&fired[i]);
        else
            projects_hook_cancel(fired[i].round);
    }
    wait_for(&hung);
    forget(&hung);
}

/* Its hook is not over yet, so the next one waits all the same. */
static void who_leaves_is_not_answered(void **state)
{
    (void)state;
    struct fired left, waiting, next;
    begin();
    fire(&left, "{\"mark\":\"left\",\"acts\":{\"held\":true}}");
    fire(&waiting, "{\"mark\":\"never\"}");
    fire(&next, "{\"mark\":\"next\"}");
    kg_auto(kg_free) char *first = seen_by("alpha"); /* by then the first was sent */
    projects_hook_cancel(left.round);
    projects_hook_cancel(waiting.round);
    release("alpha");
    release("beta");
    wait_for(&next);
    kg_auto(kg_free) char *seen = seen_by("alpha");
    assert_non_null(strstr(seen, "\"next\", \"beside\": 0"));
    assert_null(strstr(seen, "\"never\""));
    assert_false(left.done);
    assert_false(waiting.done);
    forget(&next);
}

/* -- what goes wrong --------------------------------------------------------------------------- */

static void what_is_no_result_counts_as_none(void **state)
{
    (void)state;
    static const struct {
        const char *act;
        enum kg_code code;
    } rows[] = {
        {"{\"raw\":\"5\"}", KG_E_BAD_RESULT},
        {"{\"raw\":\"[]\"}", KG_E_BAD_RESULT},
        {"{\"raw\":\"true\"}", KG_E_BAD_RESULT},
        {"{\"result\":{\"inject\":1}}", KG_E_BAD_RESULT},
        {"{\"result\":{\"retain\":\"x\"}}", KG_E_BAD_RESULT},
        {"{\"result\":{\"retain\":[1]}}", KG_E_BAD_RESULT},
        {"{\"result\":{\"inject\":\"x\",\"retain\":[null]}}", KG_E_BAD_RESULT},
        {"{\"fill\":70000}", KG_E_TOO_LARGE},
        {"{\"error\":{\"code\":-32000,\"message\":\"no\"}}", KG_E_PLUGIN},
        {"{\"error\":{\"code\":-32601,\"message\":\"what?\"}}", KG_E_METHOD_NOT_FOUND},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct fired fired;
        kg_auto(kg_free) char *params =
            kg_format("{\"acts\":{\"alpha\":%s,\"beta\":{\"result\":\"fine\"}}}", rows[i].act);
        begin();
        fire(&fired, params);
        wait_for(&fired);
        assert_text(&fired, 0, "fine");
        assert_failed(&fired, 1, rows[i].code);
        kg_auto(kg_free) char *code =
            kg_format("\"error_code\":%d,", kg_error_row(rows[i].code)->rpc_code);
        assert_non_null(EVENT(world, "\"plugin.hook.failed\"", "alpha", code));
        forget(&fired);
    }
}

static void a_plugin_that_ends_in_a_hook_fails_it(void **state)
{
    (void)state;
    struct fired crashed, behind;
    begin();
    fire(&crashed, "{\"acts\":{\"alpha\":{\"crash\":3},\"beta\":{\"result\":\"b\"}}}");
    fire(&behind, "{\"acts\":{\"result\":\"x\"}}");
    wait_for(&crashed);
    wait_for(&behind);
    assert_text(&crashed, 0, "b");
    assert_failed(&crashed, 1, KG_E_PLUGIN_DOWN);
    assert_text(&behind, 0, "x");
    assert_non_null(EVENT(world, "\"plugin.hook.failed\"", "alpha", "\"error_code\":-32603,"));
    forget(&crashed);
    forget(&behind);
}

/* A line that is no message: the plugin is ended for it, and the hook fails at once. */
static void broken_json_is_the_plugins_end(void **state)
{
    (void)state;
    struct fired fired;
    begin();
    fire(&fired, "{\"acts\":{\"alpha\":{\"raw\":\"1,\\\"error\\\":{}\"}}}");
    wait_for(&fired);
    assert_failed(&fired, 1, KG_E_PLUGIN_DOWN);
    forget(&fired);
}

static void on_acted(void *data, const struct kg_err *err_or_null)
{
    assert_null(err_or_null);
    if (data != NULL)
        *(bool *)data = true;
}

static bool has_acted(void *data)
{
    return *(bool *)data;
}

static void a_plugin_that_is_down_fails_and_one_that_starts_is_waited_for(void **state)
{
    (void)state;
    struct fired down, starting;
    begin();
    host_disable(world->host, KG_STR("alpha"), "ann", on_acted, NULL);
    host_world_wait_state(world, "alpha", INSTANCE_DISABLED);
    fire(&down, "{\"acts\":{\"result\":\"x\"}}");
    wait_for(&down);
    assert_text(&down, 0, "x");
    assert_failed(&down, 1, KG_E_PLUGIN_DOWN);
    host_enable(world->host, KG_STR("alpha"), "ann", on_acted, NULL);
    fire(&starting, "{\"acts\":{\"result\":\"here\"}}");
    wait_for(&starting);
    assert_text(&starting, 1, "here");
    forget(&down);
    forget(&starting);
}

/* The last but one. */
static void a_round_ends_when_its_project_is_unloaded(void **state)
{
    (void)state;
    struct fired sent, waiting;
    bool unloaded = false;
    begin();
    fire(&sent, "{\"acts\":{\"held\":true}}");
    fire(&waiting, "{\"mark\":\"unloaded\"}");
    kg_auto(kg_free) char *first = seen_by("alpha");
    projects_unload(world->host, KG_STR("music"), true, "ann", on_acted, &unloaded);
    host_world_wait(world, has_acted, &unloaded);
    release("alpha"); /* which lives on; beta ends with the project */
    wait_for(&sent);
    wait_for(&waiting);
    assert_int_equal(waiting.count, 2);
    assert_failed(&waiting, 1, KG_E_PLUGIN_DOWN);
    forget(&sent);
    forget(&waiting);
}

static void on_stopped(void *data)
{
    *(bool *)data = true;
}

/* The last. */
static void a_round_ends_when_the_host_stops(void **state)
{
    (void)state;
    struct fired sent, waiting;
    host_world_load(world, PROJECT);
    begin();
    fire(&sent, "{\"acts\":{\"hang\":true}}");
    fire(&waiting, "");
    kg_auto(kg_free) char *first = seen_by("alpha");
    host_stop(world->host, "the test is done", on_stopped, &world->stopped);
    wait_for(&sent);
    wait_for(&waiting);
    assert_int_not_equal(sent.answers[1].error.code, KG_OK);
    assert_failed(&waiting, 1, KG_E_STOPPING);
    forget(&sent);
    forget(&waiting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plugins_answer_in_the_order_of_the_file),
        cmocka_unit_test(null_is_no_result),
        cmocka_unit_test(hooks_of_sessions_are_not_fired_for_subagents),
        cmocka_unit_test(a_project_or_agent_that_is_not_there_has_nobody_to_ask),
        cmocka_unit_test(the_designated_plugin_gets_its_own_params_and_answers_raw),
        cmocka_unit_test(params_of_four_megabytes_arrive),
        cmocka_unit_test(config_comes_along_only_where_it_is_another),
        cmocka_unit_test(params_that_speak_for_the_host_are_not_sent),
        cmocka_unit_test(a_plugin_has_one_hook_at_a_time),
        cmocka_unit_test(a_hung_hook_costs_its_time_and_nobody_elses),
        cmocka_unit_test(a_late_answer_is_dropped),
        cmocka_unit_test(what_waits_for_a_plugin_is_bounded),
        cmocka_unit_test(who_leaves_is_not_answered),
        cmocka_unit_test(what_is_no_result_counts_as_none),
        cmocka_unit_test(a_plugin_that_ends_in_a_hook_fails_it),
        cmocka_unit_test(broken_json_is_the_plugins_end),
        cmocka_unit_test(a_plugin_that_is_down_fails_and_one_that_starts_is_waited_for),
        cmocka_unit_test(a_round_ends_when_its_project_is_unloaded),
        cmocka_unit_test(a_round_ends_when_the_host_stops),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
