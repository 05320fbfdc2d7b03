/*
 * Processes of packages in a host: shared and apart, called, let go of, exchanged.
 * tests/flow/test_package_tier.py runs it, with the Python that it needs.
 *
 * usage: package-host CONFIG-TEXT EXAMPLE SLOW STATEFUL SHOUT    the last four: folders of packages
 */
#include "host_world.h"

#include "host/asker.h"
#include "host/package.h"

#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define KEY      "{\"api_key\":\"secret-of-42\"}"
#define OTHER    "{\"api_key\":\"secret-of-43\"}"
#define ORG      "org-one"
#define OTHERS   "org-two"
#define PLUGIN_1 "{\"query\":\"lisbon\"}"

static const char *config_text;
static char **folders;
enum { EXAMPLE, SLOW, STATEFUL, SHOUT };

/* -- discovery --------------------------------------------------------------------------------- */

struct found {
    struct kg_doc *doc; /* owned */
    bool done;
};

static void on_found(void *data, const struct kg_node *package, char *const *missing,
                     const struct kg_err *err)
{
    struct found *found = data;
    (void)missing;
    if (package == NULL)
        fail_msg("%s", err->message);
    found->doc = kg_doc_copy(package);
    found->done = true;
}

static bool is_found(void *data)
{
    return ((struct found *)data)->done;
}

static struct kg_doc *discover(struct host_world *world, int which)
{
    struct found found = {0};
    const struct package_place place = {
        .helper = {.loop = world->loop, .spawner = host_spawner(world->host)},
        .facts = host_facts(world->host),
        .config = host_config(world->host),
        .worker = loop_worker_new(world->loop, "discover"),
    };
    package_discover(&place, folders[which], on_found, &found);
    host_world_wait(world, is_found, &found);
    loop_worker_free(place.worker);
    return found.doc;
}

/* -- uses -------------------------------------------------------------------------------------- */

static struct host_package_use *use(struct host_world *world, const struct kg_doc *doc, int which,
                                    const char *org, const char *settings)
{
    struct kg_err err;
    const struct host_package_want want = {
        .org = org,
        .folder = folders[which],
        .package = doc->root,
        .settings = kg_str(settings),
    };
    struct host_package_use *made = host_package_use(world->host, &want, &err);
    if (made == NULL)
        fail_msg("%s", err.message);
    return made;
}

static bool is_settled(void *data)
{
    return host_package_state(data, NULL) != HOST_PACKAGE_STARTING;
}

static struct host_package_use *ready(struct host_world *world, const struct kg_doc *doc, int which,
                                      const char *org, const char *settings)
{
    struct kg_err err = {0};
    struct host_package_use *made = use(world, doc, which, org, settings);
    host_world_wait(world, is_settled, made);
    if (host_package_state(made, &err) != HOST_PACKAGE_READY)
        fail_msg("%s", err.message);
    return made;
}

static pid_t pid_of(const struct host_package_use *used)
{
    struct host_process *process = host_package_process(used);
    const struct instance *instance = host_process_status(process).instance;
    return instance_facts(instance).pid;
}

/* -- calls ------------------------------------------------------------------------------------- */

struct called {
    struct kg_buf result, stream;
    struct kg_err err;
    bool done;
};

static void on_done(void *data, const struct host_reply *reply)
{
    struct called *called = data;
    called->err = reply->error;
    if (reply->error.code == KG_OK)
        kg_buf_str(&called->result, reply->result);
    called->done = true;
}

static void on_progress(void *data, struct kg_str params)
{
    struct called *called = data;
    assert_int_equal(called->done, false);
    kg_buf_str(&called->stream, params);
}

static bool is_called(void *data)
{
    return ((struct called *)data)->done;
}

static void begin(struct host_world *world, struct host_package_use *used, const char *tool,
                  const char *method, const char *params, struct called *called)
{
    struct host_asker *asker = host_asker_new("tester", "req_1");
    const struct host_package_call call = {
        .use = used,
        .tool = tool ? kg_str(tool) : KG_STR_NULL,
        .method = method ? kg_str(method) : KG_STR_NULL,
        .params = kg_str(params),
        .asker = asker,
        .on_done = on_done,
        .on_progress = on_progress,
        .data = called,
    };
    if (host_package_call(world->host, &call, &called->err) == NULL)
        called->done = true;
    host_asker_unref(asker);
}

static struct called finish(struct host_world *world, struct host_package_use *used,
                            const char *tool, const char *method, const char *params)
{
    struct called called = {0};
    begin(world, used, tool, method, params, &called);
    host_world_wait(world, is_called, &called);
    return called;
}

static void forget(struct called *called)
{
    kg_buf_free(&called->result);
    kg_buf_free(&called->stream);
}

static void expect(struct called called, const char *text, const char *stream)
{
    if (called.err.code != KG_OK)
        fail_msg("%s", called.err.message);
    assert_non_null(strstr(kg_buf_terminate(&called.result), text));
    assert_string_equal(kg_buf_terminate(&called.stream), stream);
    forget(&called);
}

static void expect_error(struct called called, enum kg_code code, const char *text)
{
    assert_int_equal(called.err.code, code);
    if (strstr(called.err.message, text) == NULL)
        fail_msg("%s", called.err.message);
    forget(&called);
}

struct gone {
    struct host_world *world;
    char *name;
};

static bool is_gone(void *data)
{
    const struct gone *gone = data;
    struct host_named named;
    return host_find(gone->world->host, kg_str(gone->name), &named, NULL) < 0;
}

static struct gone watch(struct host_world *world, const struct host_package_use *used)
{
    return (struct gone){world, kg_strdup(host_process_status(host_package_process(used)).name)};
}

static void wait_gone(struct gone *gone)
{
    host_world_wait(gone->world, is_gone, gone);
    kg_free(&gone->name);
}

/* -- tests ------------------------------------------------------------------------------------- */

static void test_a_package_is_called_from_its_settings_to_its_end(void **state)
{
    struct host_world *world = *state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = discover(world, EXAMPLE);
    struct host_package_use *used = ready(world, doc, EXAMPLE, ORG, KEY);
    expect(finish(world, used, "find_parcels", NULL, PLUGIN_1), "KX-1001", "");
    expect(finish(world, used, "estimate_delivery", NULL, "{\"parcel_id\":\"KX-1001\"}"),
           "\"asked_with\":\"42\"",
           "{\"progress\":1,\"stream\":{\"parcel\":\"KX-1001\",\"days_left\":2}}");
    expect(finish(world, used, NULL, HOST_PACKAGE_ANCHOR, "{\"resource_id\":\"KX-1001\"}"),
           "\"found\":true", "");
    expect(finish(world, used, NULL, HOST_PACKAGE_RULES,
                  "{\"context\":{\"id\":\"KX-1001\",\"to\":\"Oslo\"}}"),
           "Talk about parcel KX-1001 only", "");
    expect(finish(world, used, NULL, HOST_PACKAGE_HEALTH, "{}"), "\"parcels\":3", "");
    expect_error(finish(world, used, "find_parcels", NULL, "{}"), KG_E_INVALID_PARAMS, "query");
    expect_error(finish(world, used, "estimate_delivery", NULL, "{\"parcel_id\":\"none\"}"),
                 KG_E_PLUGIN, "there is no parcel none");
    expect_error(finish(world, used, "nothing", NULL, "{}"), KG_E_METHOD_NOT_FOUND, "nothing");
    assert_non_null(EVENT(world, "plugin.method_called", "find_parcels"));
    struct gone gone = watch(world, used);
    host_package_drop(used);
    wait_gone(&gone);
}

static void test_one_without_a_state_is_shared_within_its_org_by_settings(void **state)
{
    struct host_world *world = *state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = discover(world, EXAMPLE);
    struct host_package_use *first = ready(world, doc, EXAMPLE, ORG, KEY);
    struct host_package_use *same = ready(world, doc, EXAMPLE, ORG, KEY);
    struct host_package_use *set_otherwise = ready(world, doc, EXAMPLE, ORG, OTHER);
    struct host_package_use *others = ready(world, doc, EXAMPLE, OTHERS, KEY);
    assert_int_equal(pid_of(first), pid_of(same));
    assert_int_not_equal(pid_of(first), pid_of(set_otherwise));
    assert_int_not_equal(pid_of(first), pid_of(others));
    host_package_drop(first);
    expect(finish(world, same, "find_parcels", NULL, PLUGIN_1), "KX-1001", "");
    struct gone gone[] = {watch(world, same), watch(world, set_otherwise), watch(world, others)};
    host_package_drop(same);
    host_package_drop(set_otherwise);
    host_package_drop(others);
    for (size_t i = 0; i < KG_COUNT(gone); i++)
        wait_gone(&gone[i]);
}

static void test_one_with_a_state_is_shared_by_nobody(void **state)
{
    struct host_world *world = *state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = discover(world, STATEFUL);
    struct host_package_use *first = ready(world, doc, STATEFUL, ORG, "{}");
    struct host_package_use *second = ready(world, doc, STATEFUL, ORG, "{}");
    assert_int_not_equal(pid_of(first), pid_of(second));
    host_package_drop(first);
    host_package_drop(second);
}

static void test_a_swap_lets_calls_finish_on_the_old_one(void **state)
{
    struct host_world *world = *state;
    struct called slow = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = discover(world, SLOW);
    struct host_package_use *old = ready(world, doc, SLOW, ORG, "{\"greeting\":\"old\"}");
    struct gone gone = watch(world, old);
    struct host_package_use *new = ready(world, doc, SLOW, ORG, "{\"greeting\":\"new\"}");
    begin(world, old, "wait", NULL, "{\"seconds\":5}", &slow);
    host_package_drop(old);
    expect(finish(world, new, "wait", NULL, "{\"seconds\":0}"), "new", "");
    assert_false(slow.done);
    host_world_wait(world, is_called, &slow);
    expect(slow, "old", "");
    wait_gone(&gone);
    host_package_drop(new);
}

static void test_one_that_dies_in_a_tool_is_started_again(void **state)
{
    struct host_world *world = *state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = discover(world, SLOW);
    struct host_package_use *used = ready(world, doc, SLOW, ORG, "{\"greeting\":\"hi\"}");
    expect_error(finish(world, used, "die", NULL, "{}"), KG_E_PLUGIN_DOWN, "went away");
    host_world_wait(world, is_settled, used);
    expect(finish(world, used, "wait", NULL, "{\"seconds\":0}"), "hi", "");
    host_package_drop(used);
}

static void test_settings_that_it_refuses_are_told_in_its_words(void **state)
{
    struct host_world *world = *state;
    struct kg_err err = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = discover(world, EXAMPLE);
    struct host_package_use *used = use(world, doc, EXAMPLE, ORG, "{}");
    host_world_wait(world, is_settled, used);
    assert_int_equal(host_package_state(used, &err), HOST_PACKAGE_FAILED);
    if (strstr(err.message, "initialize() raised KeyError") == NULL)
        fail_msg("%s", err.message);
    host_package_drop(used);
}

/* It declares a host that nobody granted: it runs without. */
static void test_a_plugin_with_a_manifest_is_a_package_too(void **state)
{
    struct host_world *world = *state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = discover(world, SHOUT);
    struct host_package_use *used = ready(world, doc, SHOUT, ORG, "{\"volume\":2}");
    struct host_status status = host_process_status(host_package_process(used));
    expect(finish(world, used, "shout", NULL, "{\"text\":\"hi\"}"), "HIHI", "");
    expect_error(finish(world, used, "shout", NULL, "{}"), KG_E_INVALID_PARAMS, "text");
    assert_null(status.manifest->capabilities[0]);
    kg_auto(kg_free) char *words = kg_str_dup(status.cage_words);
    assert_non_null(strstr(words, "may not use the network"));
    host_package_drop(used);
}

/* -- the whole --------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    struct host_world *world = host_world_new(config_text);
    host_world_start(world);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    host_world_free(*state);
    return 0;
}

int main(int count, char **words)
{
    if (count != 6)
        return 2;
    config_text = words[1];
    folders = words + 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_package_is_called_from_its_settings_to_its_end),
        cmocka_unit_test(test_one_without_a_state_is_shared_within_its_org_by_settings),
        cmocka_unit_test(test_one_with_a_state_is_shared_by_nobody),
        cmocka_unit_test(test_a_swap_lets_calls_finish_on_the_old_one),
        cmocka_unit_test(test_one_that_dies_in_a_tool_is_started_again),
        cmocka_unit_test(test_settings_that_it_refuses_are_told_in_its_words),
        cmocka_unit_test(test_a_plugin_with_a_manifest_is_a_package_too),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
