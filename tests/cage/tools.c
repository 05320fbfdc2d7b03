/*
 * Tools of an agent, answered by plugins in their cages: which are there, what reaches the plugin,
 * and what a model is told when something is in the way.
 */
#include "host_world.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define CONFIG                                                                                     \
    "[limits]\ntool_result_bytes = 2000\nrestart_delay_ms = 10\nrestart_failures = 1000\n"         \
    "initialize_timeout_ms = 15000\n"
#define PROJECT                                                                                    \
    "version: 1\nname: music\nprimary:\n"                                                          \
    "  plugins:\n"                                                                                 \
    "    first: { package: alpha }\n"                                                              \
    "    second: { package: beta, config: { tag: red } }\n"                                        \
    "    third: { package: gamma }\n"                                                              \
    "  tools: { alpha.hidden: false }\n"                                                           \
    "  subagents:\n"                                                                               \
    "    sub: { plugins: { second: { package: beta, config: { tag: blue } } } }\n"

static struct host_world *world;

static int setup(void **state)
{
    (void)state;
    world = host_world_new(CONFIG);
    host_world_install(world, "alpha", "");
    host_world_install(world, "beta", "");
    host_world_install(world, "gamma", "\"read:fs:project:/\"");
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

/* -- asking ------------------------------------------------------------------------------------ */

/* One call, with a copy of its answer. */
struct asked {
    struct projects_tool_call *call;
    bool done, returned, blocked;
    struct kg_err error;
    struct kg_buf result;
    char *plugin;
};

static void on_done(void *data, const struct projects_tool_reply *reply)
{
    struct asked *asked = data;
    assert_true(asked->returned);
    assert_false(asked->done);
    asked->done = true;
    asked->blocked = reply->blocked;
    asked->error = reply->error;
    asked->plugin = reply->plugin ? kg_strdup(reply->plugin) : NULL;
    kg_buf_str(&asked->result, reply->result);
}

static const char *project_id = "music"; /* whose agents ask */

static void ask(struct asked *asked, const char *agent, const char *tool, const char *arguments)
{
    kg_auto(host_asker_cleanup) struct host_asker *ann = host_asker_new("ann", "req_1");
    kg_auto(host_asker_cleanup) struct host_asker *asker = host_asker_for(
        ann,
        &(struct host_asker){.project_id = project_id, .agent_path = agent, .session_id = "ses_1"});
    const struct projects_tool_request request = {
        .asker = asker,
        .tool = kg_str(tool),
        .arguments = kg_str(arguments),
        .on_done = on_done,
        .data = asked,
    };
    asked->call = projects_tool_call(world->host, &request);
    asked->returned = true;
}

static void forget(struct asked *asked)
{
    kg_buf_free(&asked->result);
    free(asked->plugin);
    *asked = (struct asked){0};
}

static bool is_done(void *data)
{
    return ((struct asked *)data)->done;
}

/* The answer of a plugin that runs. */
static struct asked answer_of(const char *agent, const char *tool, const char *arguments)
{
    struct asked asked = {0};
    host_world_wait_state(world, "alpha", INSTANCE_RUNNING);
    host_world_wait_state(world, "beta", INSTANCE_RUNNING);
    ask(&asked, agent, tool, arguments);
    host_world_wait(world, is_done, &asked);
    return asked;
}

static void assert_result_has(struct asked *asked, const char *text)
{
    if (asked->error.code != KG_OK)
        fail_msg("%s", asked->error.message);
    if (strstr(kg_buf_terminate(&asked->result), text) == NULL)
        fail_msg("%s is not in %s", text, asked->result.data);
}

static void assert_refused(struct asked *asked, enum kg_code code, const char *words)
{
    kg_auto(kg_free) char *all = kg_format("%s; %s", asked->error.message, asked->error.hint);
    assert_int_equal(asked->error.code, code);
    assert_int_equal(asked->result.length, 0);
    if (strstr(all, words) == NULL)
        fail_msg("%s does not say \"%s\"", all, words);
}

/* -- what is sent ------------------------------------------------------------------------------ */

static void the_plugin_gets_the_arguments_and_who_asks(void **state)
{
    (void)state;
    host_world_forget(world);
    struct asked asked = answer_of("primary", "alpha.act", "{\"acts\":{\"echo\":true},\"n\":7}");
    assert_result_has(&asked, "\\\"n\\\": 7");
    assert_result_has(&asked, "\\\"agent_path\\\": \\\"primary\\\"");
    assert_result_has(&asked, "\\\"operator_id\\\": \\\"ann\\\"");
    assert_result_has(&asked, "\\\"project_id\\\": \\\"music\\\"");
    assert_result_has(&asked, "\\\"session_id\\\": \\\"ses_1\\\"");
    assert_null(strstr(asked.result.data, "project_root"));
    assert_string_equal(asked.plugin, "alpha");
    assert_false(asked.blocked);
    assert_non_null(EVENT(world, "\"plugin.method_called\"", "\"alpha.act\"", "\"ann\"", "music"));
    assert_non_null(EVENT(world, "\"plugin.method_returned\"", "\"alpha.act\"", "true"));
    forget(&asked);
}

static void a_tool_is_called_by_the_name_that_models_have(void **state)
{
    (void)state;
    struct asked asked =
        answer_of("primary", "alpha__act", "{\"acts\":{\"alpha\":{\"result\":1}}}");
    assert_result_has(&asked, "1");
    forget(&asked);
}

static void no_arguments_are_arguments_too(void **state)
{
    (void)state;
    struct asked asked = answer_of("primary", "alpha.act", "");
    assert_result_has(&asked, "null");
    forget(&asked);
}

static void config_comes_along_only_where_it_is_another(void **state)
{
    (void)state;
    static const char echo[] = "{\"acts\":{\"echo\":true}}";
    struct asked told = answer_of("primary", "beta.act", echo);
    struct asked other = answer_of("primary.subagents.sub", "beta.act", echo);
    bool first = strstr(kg_buf_terminate(&told.result), "_config") != NULL;
    bool second = strstr(kg_buf_terminate(&other.result), "_config") != NULL;
    assert_int_not_equal(first, second);
    assert_result_has(first ? &told : &other, first ? "red" : "blue");
    forget(&told);
    forget(&other);
}

static void a_process_of_one_project_is_told_where_that_is(void **state)
{
    (void)state;
    kg_auto(kg_free) char *root = kg_format("\\\"project_root\\\": \\\"%s\\\"", world->project);
    host_world_forget(world);
    struct asked asked = answer_of("primary", "gamma.act", "{\"acts\":{\"echo\":true}}");
    assert_result_has(&asked, root);
    assert_string_equal(asked.plugin, "gamma");
    assert_non_null(EVENT(world, "\"plugin.method_called\"", "\"gamma@music\"", "\"gamma.act\""));
    forget(&asked);
}

/* -- what is refused --------------------------------------------------------------------------- */

static void arguments_have_to_fit_before_the_plugin_sees_them(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        enum kg_code code;
    } rows[] = {
        {"{\"number\":0}", KG_E_INVALID_PARAMS},
        {"{}", KG_E_INVALID_PARAMS},
        {"", KG_E_INVALID_PARAMS},
        {"[1]", KG_E_INVALID_PARAMS},
        {"{\"number\":1,\"x\":2}", KG_E_INVALID_PARAMS},
        {"{\"number\":", KG_E_PARSE},
        {"{\"number\":1,\"_context\":{}}", KG_E_INVALID_PARAMS},
        {"{\"number\":1,\"_conf\\u0069g\":{}}", KG_E_INVALID_PARAMS},
    };
    host_world_forget(world);
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct asked asked = answer_of("primary", "alpha.strict", rows[i].arguments);
        assert_refused(&asked, rows[i].code, "params");
        assert_false(asked.blocked);
        forget(&asked);
    }
    assert_null(EVENT(world, "\"plugin.method_called\"", "\"alpha.strict\""));
    struct asked fits = answer_of("primary", "alpha.strict", "{\"number\":3}");
    assert_result_has(&fits, "null");
    forget(&fits);
}

static void a_tool_that_is_not_there_is_explained(void **state)
{
    (void)state;
    static const struct {
        const char *agent, *tool;
        enum kg_code code;
        const char *words;
    } rows[] = {
        {"primary", "alpha.nothing", KG_E_METHOD_NOT_FOUND, "its tools are alpha.act"},
        {"primary", "", KG_E_METHOD_NOT_FOUND, "has no tool"},
        {"primary", "alpha.hidden", KG_E_REFUSED, "`tools:`"},
        {"primary", "alpha__hidden", KG_E_REFUSED, "disabled"},
        {"primary.subagents.sub", "alpha.act", KG_E_METHOD_NOT_FOUND, "beta.act"},
        {"primary.subagents.no", "alpha.act", KG_E_NOT_FOUND, "no agent"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct asked asked = answer_of(rows[i].agent, rows[i].tool, "{}");
        assert_refused(&asked, rows[i].code, rows[i].words);
        assert_false(asked.blocked);
        forget(&asked);
    }
}

static void a_result_past_the_bound_is_an_error(void **state)
{
    (void)state;
    struct asked fits = answer_of("primary", "alpha.act", "{\"acts\":{\"fill\":1998}}");
    assert_result_has(&fits, "xxx");
    struct asked large = answer_of("primary", "alpha.act", "{\"acts\":{\"fill\":1999}}");
    assert_refused(&large, KG_E_TOO_LARGE, "2001 bytes; the limit for a tool is 2000");
    assert_false(large.blocked);
    forget(&fits);
    forget(&large);
}

/* A code of the plugin's own says nothing about whether it could be reached. */
static void an_error_of_the_plugin_is_its_answer(void **state)
{
    (void)state;
    struct asked asked = answer_of("primary", "alpha.act",
                                   "{\"acts\":{\"error\":{\"code\":-32005,\"message\":\"oh\"}}}");
    assert_refused(&asked, KG_E_BUSY, "oh");
    assert_false(asked.blocked);
    forget(&asked);
}

/* -- what blocks ------------------------------------------------------------------------------- */

static void a_tool_that_takes_too_long_is_blocked(void **state)
{
    (void)state;
    uint32_t starts = instance_start_count(host_world_status(world, "alpha").instance);
    struct asked asked = answer_of("primary", "alpha.brief", "{\"acts\":{\"hang\":true}}");
    assert_refused(&asked, KG_E_PLUGIN_TIMEOUT, "within 1000 ms");
    assert_true(asked.blocked);
    assert_string_equal(asked.plugin, "alpha");
    host_world_wait_state(world, "alpha", INSTANCE_RUNNING);
    forget(&asked);
    asked = answer_of("primary", "alpha.act", "");
    assert_result_has(&asked, "null");
    assert_int_not_equal(instance_start_count(host_world_status(world, "alpha").instance), starts);
    forget(&asked);
}

static void a_plugin_that_ends_meanwhile_blocks(void **state)
{
    (void)state;
    struct asked asked = answer_of("primary", "alpha.act", "{\"acts\":{\"crash\":3}}");
    assert_refused(&asked, KG_E_PLUGIN_DOWN, "went away");
    assert_true(asked.blocked);
    forget(&asked);
}

static void on_acted(void *data, const struct kg_err *err_or_null)
{
    (void)data;
    assert_null(err_or_null);
}

static void a_plugin_that_is_down_blocks_and_one_that_starts_is_waited_for(void **state)
{
    (void)state;
    struct asked down = {0}, starting = {0};
    host_world_wait_state(world, "alpha", INSTANCE_RUNNING);
    host_disable(world->host, KG_STR("alpha"), "ann", on_acted, NULL);
    host_world_wait_state(world, "alpha", INSTANCE_DISABLED);
    ask(&down, "primary", "alpha.act", "{}");
    host_world_wait(world, is_done, &down);
    assert_refused(&down, KG_E_PLUGIN_DOWN, "kaged plugin enable alpha");
    assert_true(down.blocked);
    host_enable(world->host, KG_STR("alpha"), "ann", on_acted, NULL);
    ask(&starting, "primary", "alpha.act", "{\"acts\":{\"result\":\"here\"}}");
    host_world_wait(world, is_done, &starting);
    assert_result_has(&starting, "here");
    forget(&down);
    forget(&starting);
}

static bool has_returned(void *data)
{
    (void)data;
    return EVENT(world, "\"plugin.method_returned\"", "\"alpha.act\"") != NULL;
}

static void who_leaves_is_not_answered(void **state)
{
    (void)state;
    struct asked asked = {0}, waiting = {0};
    host_world_forget(world);
    host_world_wait_state(world, "alpha", INSTANCE_RUNNING);
    ask(&waiting, "primary", "alpha.act", "");
    projects_tool_cancel(waiting.call);
    ask(&asked, "primary", "alpha.act", "{\"acts\":{\"hang\":true}}");
    struct asked other = answer_of("primary", "alpha.strict", "{\"number\":1}");
    projects_tool_cancel(asked.call);
    host_world_wait(world, has_returned, NULL);
    assert_non_null(EVENT(world, "\"plugin.method_returned\"", "\"alpha.act\"", "cancelled"));
    assert_false(asked.done);
    assert_false(waiting.done);
    forget(&other);
}

static bool is_unloaded(void *data)
{
    (void)data;
    return projects_find(world->host, KG_STR("music"), NULL) == NULL;
}

/* Last: the project is gone afterwards. */
static void without_its_project_a_tool_is_blocked(void **state)
{
    (void)state;
    struct asked asked = {0};
    projects_unload(world->host, KG_STR("music"), true, "ann", on_acted, NULL);
    host_world_wait(world, is_unloaded, NULL);
    ask(&asked, "primary", "alpha.act", "");
    host_world_wait(world, is_done, &asked);
    assert_refused(&asked, KG_E_PLUGIN_DOWN, "no longer loaded");
    assert_true(asked.blocked);
    forget(&asked);
}

/* -- a project from the state ------------------------------------------------------------------ */

#define STATE_PROJECT(tools)                                                                       \
    "{\"version\":1,\"name\":\"o-1\",\"primary\":{\"tools\":{" tools "},\"plugins\":{"             \
    "\"first\":{\"package\":\"alpha\"},\"third\":{\"package\":\"gamma\"}}}}"

static void on_unloaded(void *data, const struct kg_err *err_or_null)
{
    assert_null(err_or_null);
    *(bool *)data = true;
}

static bool is_true(void *data)
{
    return *(bool *)data;
}

static void on_refused_load(void *data, const struct projects_loaded *loaded,
                            const struct kg_problems *problems, const struct kg_err *err)
{
    assert_null(loaded);
    assert_non_null(err);
    assert_true(problems == NULL || problems->count > 0);
    *(enum kg_code *)data = err->code;
}

static bool is_a_code(void *data)
{
    return *(enum kg_code *)data != KG_OK;
}

static enum kg_code refusal_of(const char *id, const char *text)
{
    enum kg_code code = KG_OK;
    projects_load_text(world->host, id, kg_str(text), NULL, "tester", on_refused_load, &code);
    host_world_wait(world, is_a_code, &code);
    return code;
}

static void see_alpha(void)
{
    struct asked asked = answer_of("primary", "alpha.act", "{\"acts\":{\"echo\":true}}");
    assert_result_has(&asked, "\\\"project_id\\\": \\\"o-1\\\"");
    assert_null(strstr(asked.result.data, "project_root"));
    forget(&asked);
}

/* What a text says counts at once, and one that cannot be used leaves all as it was. */
static void see_exchange(void)
{
    assert_int_equal(refusal_of("o-1", "{\"version\":1,\"name\":\"o-1\"}"), KG_E_INVALID_PROJECT);
    assert_int_equal(refusal_of("o-2", STATE_PROJECT("")), KG_E_CONFLICT);
    see_alpha();
    host_world_load_text(world, "o-1", STATE_PROJECT("\"alpha.act\":false"));
    struct asked off = answer_of("primary", "alpha.act", "");
    assert_refused(&off, KG_E_REFUSED, "disabled");
    forget(&off);
}

static void a_project_from_the_state_has_no_folder(void **state)
{
    (void)state;
    bool unloaded = false;
    host_world_load_text(world, "o-1", STATE_PROJECT(""));
    struct projects_facts facts = projects_facts(projects_find(world->host, KG_STR("o-1"), NULL));
    assert_null(facts.root);
    assert_null(facts.path);
    assert_string_equal(facts.source, "state");
    project_id = "o-1";
    see_alpha();
    struct asked homeless = answer_of("primary", "gamma.act", "");
    assert_true(homeless.blocked);
    forget(&homeless);
    see_exchange();
    projects_unload(world->host, KG_STR("o-1"), true, "tester", on_unloaded, &unloaded);
    host_world_wait(world, is_true, &unloaded);
    assert_null(projects_find(world->host, KG_STR("o-1"), NULL));
    project_id = "music";
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plugin_gets_the_arguments_and_who_asks),
        cmocka_unit_test(a_tool_is_called_by_the_name_that_models_have),
        cmocka_unit_test(no_arguments_are_arguments_too),
        cmocka_unit_test(config_comes_along_only_where_it_is_another),
        cmocka_unit_test(a_process_of_one_project_is_told_where_that_is),
        cmocka_unit_test(arguments_have_to_fit_before_the_plugin_sees_them),
        cmocka_unit_test(a_tool_that_is_not_there_is_explained),
        cmocka_unit_test(a_result_past_the_bound_is_an_error),
        cmocka_unit_test(an_error_of_the_plugin_is_its_answer),
        cmocka_unit_test(a_tool_that_takes_too_long_is_blocked),
        cmocka_unit_test(a_plugin_that_ends_meanwhile_blocks),
        cmocka_unit_test(a_plugin_that_is_down_blocks_and_one_that_starts_is_waited_for),
        cmocka_unit_test(who_leaves_is_not_answered),
        cmocka_unit_test(a_project_from_the_state_has_no_folder),
        cmocka_unit_test(without_its_project_a_tool_is_blocked),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
