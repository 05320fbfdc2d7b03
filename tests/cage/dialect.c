/*
 * A child in its cage that speaks a dialect of its own, called through the host: what a row of
 * src/dialect can say. The dialect is parrot.c, its row is here, and the child is parrot/plugin.py.
 */
#include "host_world.h"

#include "dialect/dialect.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define STATEMENT_MS                                                                               \
    10000 /* what the child asks for takes so long: more than a call or two pings */
#define CONFIG                                                                                     \
    "[limits]\ncall_timeout_ms = 4000\nstorage_statement_ms = 10000\ninitialize_timeout_ms = "     \
    "15000\n"                                                                                      \
    "health_interval_ms = 100\nping_timeout_ms = 3000\nhealth_failures = 2\n"                      \
    "restart_delay_ms = 10\nrestart_failures = 1000\n"
#define STORAGE "\"kaged:storage:read\""

extern const struct dialect dialect_parrot;
static const struct dialect *const rows[] = {&dialect_parrot};

const struct dialect *dialect_find(struct kg_str name)
{
    return kg_str_is(name, rows[0]->name) ? rows[0] : NULL;
}

static struct host_world *world;

static void on_enabled(void *data, const struct kg_err *err_or_null)
{
    (void)data;
    assert_null(err_or_null);
}

static int setup(void **state)
{
    (void)state;
    static const char *const names[] = {"mute", "rude", "liar"};
    world = host_world_new(CONFIG);
    for (size_t i = 0; i < KG_COUNT(names); i++)
        host_world_install(world, names[i], STORAGE);
    host_world_start(world);
    for (size_t i = 0; i < KG_COUNT(names); i++)
        host_enable(world->host, kg_str(names[i]), "ann", on_enabled, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    host_world_free(world);
    return 0;
}

static struct instance *instance_of(const char *plugin)
{
    return host_world_status(world, plugin).instance;
}

/* -- asking ------------------------------------------------------------------------------------ */

struct asked {
    struct host_call *call; /* NULL: refused at once */
    bool done;
    struct kg_err error;
    struct kg_buf result, progress;
};

static void on_done(void *data, const struct host_reply *reply)
{
    struct asked *asked = data;
    assert_false(asked->done);
    asked->done = true;
    asked->error = reply->error;
    kg_buf_str(&asked->result, reply->result);
}

static void on_progress(void *data, struct kg_str params)
{
    struct asked *asked = data;
    struct kg_str part = KG_STR("?");
    assert_false(asked->done);
    (void)kg_json_member(params, "part", &part);
    kg_buf_str(&asked->progress, part);
}

static void ask_for(struct asked *asked, const char *plugin, const char *method, const char *params,
                    uint64_t caller_timeout_ms)
{
    kg_auto(host_asker_cleanup) struct host_asker *ann = host_asker_new("ann", "req_1");
    const struct host_call_request request = {
        .plugin = kg_str(plugin),
        .method = kg_str(method),
        .params = kg_str(params),
        .asker = ann,
        .caller_timeout_ms = caller_timeout_ms,
        .on_done = on_done,
        .on_progress = on_progress,
        .data = asked,
    };
    host_world_wait_state(world, plugin, INSTANCE_RUNNING);
    asked->call = host_call(world->host, &request, &asked->error);
    if (asked->call == NULL)
        asked->done = true;
}

static bool is_done(void *data)
{
    return ((struct asked *)data)->done;
}

static void ask(struct asked *asked, const char *method, const char *params)
{
    ask_for(asked, "rude", method, params, 0);
    host_world_wait(world, is_done, asked);
}

static void assert_result(struct asked *asked, const char *result)
{
    if (asked->error.code != KG_OK)
        fail_msg("%s", asked->error.message);
    assert_string_equal(kg_buf_terminate(&asked->result), result);
}

static void forget(struct asked *asked)
{
    kg_buf_free(&asked->result);
    kg_buf_free(&asked->progress);
}

static bool is_written(void *data)
{
    return host_world_event(world, data) != NULL;
}

#define WAIT_FOR_EVENT(...)                                                                        \
    host_world_wait(world, is_written, (void *)(const char *const[]){__VA_ARGS__, NULL})

/* -- the greeting ------------------------------------------------------------------------------ */

#define WORDS                                                                                      \
    "[{\"word\": \"say.again\"},{\"word\": \"say.who\"},{\"word\": \"say.ids\"},"                  \
    "{\"word\": \"say.slowly\"},{\"word\": \"say.nothing\"},{\"word\": \"say.pieces\"},"           \
    "{\"word\": \"say.steps\"},{\"word\": \"say.stray\"},{\"word\": \"say.error\"}]"

static void a_child_that_does_not_answer_is_greeted_another_way(void **state)
{
    (void)state;
    struct asked asked = {0};
    ask_for(&asked, "mute", "say.again", "{\"x\":1}", 0);
    host_world_wait(world, is_done, &asked);
    assert_result(&asked, "{\"x\": 1}");
    forget(&asked);
}

static void a_list_in_pages_is_handed_over_as_a_whole(void **state)
{
    (void)state;
    struct asked asked = {0};
    host_world_wait_state(world, "rude", INSTANCE_RUNNING);
    kg_auto(kg_free) char *tools = kg_str_dup(instance_tools(instance_of("rude")));
    assert_string_equal(tools, WORDS);
    ask(&asked, "say.unheard", "{}"); /* in the manifest, but not in the list */
    assert_null(asked.call);
    assert_int_equal(asked.error.code, KG_E_METHOD_NOT_FOUND);
    assert_non_null(strstr(asked.error.message, "does not offer it"));
}

static void what_an_author_must_mend_is_not_tried_again(void **state)
{
    (void)state;
    host_world_wait_state(world, "liar", INSTANCE_FAILED);
    assert_int_equal(instance_start_count(instance_of("liar")), 1);
    WAIT_FOR_EVENT("plugin.failed", "liar", "somebody");
}

/* -- calls ------------------------------------------------------------------------------------- */

static void who_calls_goes_where_the_dialect_wants_it(void **state)
{
    (void)state;
    struct asked asked = {0};
    ask(&asked, "say.who", "{}");
    assert_int_equal(asked.error.code, KG_OK);
    assert_non_null(strstr(kg_buf_terminate(&asked.result), "\"operator_id\": \"ann\""));
    forget(&asked);
}

static void an_answer_is_read_as_the_dialect_means_it(void **state)
{
    (void)state;
    struct asked asked = {0};
    ask(&asked, "say.error", "{}");
    assert_int_equal(asked.error.code, KG_E_INVALID_PARAMS);
    assert_non_null(strstr(asked.error.message, "it is broken"));
    forget(&asked);
}

static void one_call_may_be_several_exchanges(void **state)
{
    (void)state;
    struct asked asked = {0};
    ask(&asked, "say.steps", "{}");
    assert_result(&asked, "\"one+++\"");
    forget(&asked);
}

static void progress_reaches_its_call_and_no_other(void **state)
{
    (void)state;
    struct asked asked = {0}, stray = {0};
    ask(&asked, "say.pieces", "{}");
    assert_result(&asked, "\"done\"");
    assert_string_equal(kg_buf_terminate(&asked.progress), "012");
    ask(&stray, "say.stray", "{}");
    assert_result(&stray, "\"strayed\"");
    assert_int_equal(stray.progress.length, 0);
    WAIT_FOR_EVENT("plugin.stdout_noise", "rude", "bird/progress");
    forget(&asked);
    forget(&stray);
}

/* -- requests of the child --------------------------------------------------------------------- */

static void a_request_may_have_any_id(void **state)
{
    (void)state;
    struct asked asked = {0};
    ask(&asked, "say.ids", "{\"ids\":[\"0\",\"-4\",\"\\\"b\\\\u0061t\\\"\",\"1.0\"]}");
    assert_int_equal(asked.error.code, KG_OK);
    const char *said = kg_buf_terminate(&asked.result);
    static const char *const ids[] = {"\\\"id\\\":0,", "\\\"id\\\":-4,",
                                      "\\\"id\\\":\\\"b\\\\u0061t\\\",", "\\\"id\\\":1.0,"};
    for (size_t i = 0; i < KG_COUNT(ids); i++)
        if (strstr(said, ids[i]) == NULL)
            fail_msg("no %s in %s", ids[i], said);
    forget(&asked);
}

/* Nor do the pings count that it misses meanwhile. */
static void a_call_stands_still_while_its_child_waits_for_us(void **state)
{
    (void)state;
    struct asked asked = {0};
    uint64_t started_ms = kg_monotonic_ms();
    host_world_wait_state(world, "rude", INSTANCE_RUNNING);
    uint32_t start = instance_start_count(instance_of("rude"));
    host_world_forget(world);
    ask(&asked, "say.slowly", "{}");
    assert_int_equal(asked.error.code, KG_OK);
    assert_true(kg_monotonic_ms() - started_ms >= STATEMENT_MS);
    assert_int_equal(instance_start_count(instance_of("rude")), start);
    assert_null(EVENT(world, "plugin.health_fail", "rude"));
    forget(&asked);
}

/* -- the end of a call, and of a child --------------------------------------------------------- */

static void a_call_that_nobody_waits_for_is_cancelled(void **state)
{
    (void)state;
    struct asked left = {0}, late = {0};
    ask_for(&left, "mute", "say.nothing", "{}", 0);
    assert_non_null(left.call);
    host_world_forget(world);
    host_call_cancel(left.call);
    WAIT_FOR_EVENT("plugin.notification", "mute", "bird/stopped");
    assert_false(left.done);
    host_world_forget(world);
    ask_for(&late, "mute", "say.nothing", "{}", 50);
    host_world_wait(world, is_done, &late);
    assert_int_equal(late.error.code, KG_E_PLUGIN_TIMEOUT);
    WAIT_FOR_EVENT("plugin.notification", "mute", "bird/stopped");
    assert_int_equal(instance_start_count(instance_of("mute")), 1);
    forget(&late);
}

static void a_child_that_owes_us_the_answer_still_hangs(void **state)
{
    (void)state;
    struct asked asked = {0};
    host_world_wait_state(world, "rude", INSTANCE_RUNNING);
    uint32_t start = instance_start_count(instance_of("rude"));
    ask(&asked, "say.nothing", "{}");
    assert_int_equal(asked.error.code, KG_E_PLUGIN_TIMEOUT);
    assert_non_null(strstr(asked.error.message, "within 4000 ms"));
    host_world_wait_state(world, "rude", INSTANCE_RUNNING);
    assert_int_equal(instance_start_count(instance_of("rude")), start + 1);
}

static void on_disabled(void *data, const struct kg_err *err_or_null)
{
    (void)data;
    assert_null(err_or_null);
}

static void a_child_without_a_word_for_it_ends_with_its_stdin(void **state)
{
    (void)state;
    host_world_wait_state(world, "mute", INSTANCE_RUNNING);
    host_world_forget(world);
    host_disable(world->host, KG_STR("mute"), "ann", on_disabled, NULL);
    host_world_wait_state(world, "mute", INSTANCE_DISABLED);
    WAIT_FOR_EVENT("plugin.stopped", "mute", "\"exit_code\":0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_that_does_not_answer_is_greeted_another_way),
        cmocka_unit_test(a_list_in_pages_is_handed_over_as_a_whole),
        cmocka_unit_test(what_an_author_must_mend_is_not_tried_again),
        cmocka_unit_test(who_calls_goes_where_the_dialect_wants_it),
        cmocka_unit_test(an_answer_is_read_as_the_dialect_means_it),
        cmocka_unit_test(one_call_may_be_several_exchanges),
        cmocka_unit_test(progress_reaches_its_call_and_no_other),
        cmocka_unit_test(a_request_may_have_any_id),
        cmocka_unit_test(a_call_stands_still_while_its_child_waits_for_us),
        cmocka_unit_test(a_call_that_nobody_waits_for_is_cancelled),
        cmocka_unit_test(a_child_that_owes_us_the_answer_still_hangs),
        cmocka_unit_test(a_child_without_a_word_for_it_ends_with_its_stdin),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
