/* webhook-notify with a daemon that is only told of: what it sends, when again, and how much waits.
 */
#include "base/base.h"

#include <dlfcn.h>
#include <kaged/system-plugin.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- the daemon -------------------------------------------------------------------------------- */

#define URL    "https://example.org/hook"
#define LAUNCH "http://127.0.0.1:7777/?token=t"

static const char *settings[5][2]; /* name and text; NULL at the end */
static const char *config;
static const char *fields[4][2];
static char sent_body[70000], sent_headers[256], last_log[512];
static unsigned sent, logged;
static void (*on_answer)(void *data, const struct kaged_http_answer *answer);
static void (*on_due)(void *data);
static uint64_t pause_ms;

static const char *find(const char *const (*rows)[2], const char *name)
{
    for (; (*rows)[0] != NULL; rows++)
        if (strcmp((*rows)[0], name) == 0)
            return (*rows)[1];
    return NULL;
}

static void do_log(const struct kaged *kaged, enum kaged_level level, const char *text)
{
    (void)kaged, (void)level;
    logged++;
    snprintf(last_log, sizeof(last_log), "%s", text);
}

static const char *do_config(const struct kaged *kaged)
{
    (void)kaged;
    return config;
}

static const char *do_setting(const struct kaged *kaged, const char *name)
{
    (void)kaged;
    return find((const char *const(*)[2])settings, name);
}

static const char *do_field(const struct kaged_event *event, const char *name)
{
    (void)event;
    return find((const char *const(*)[2])fields, name);
}

static int do_timer(const struct kaged *kaged, uint64_t delay_ms, void (*due)(void *data),
                    void *data)
{
    (void)kaged, (void)data;
    pause_ms = delay_ms;
    on_due = due;
    return 0;
}

static int do_http(const struct kaged *kaged, const struct kaged_http_request *request,
                   void (*answer)(void *data, const struct kaged_http_answer *answer), void *data)
{
    (void)kaged, (void)data;
    assert_string_equal(request->url, URL);
    snprintf(sent_body, sizeof(sent_body), "%s", request->body);
    sent_headers[0] = '\0';
    for (const char *const *at = request->headers; *at != NULL; at++) {
        size_t length = strlen(sent_headers);
        snprintf(sent_headers + length, sizeof(sent_headers) - length, "%s\n", *at);
    }
    sent++;
    on_answer = answer;
    return 0;
}

static const struct kaged daemon_of_tests = {
    .size = sizeof(daemon_of_tests),
    .version = "0",
    .log = do_log,
    .config = do_config,
    .setting = do_setting,
    .field = do_field,
    .timer = do_timer,
    .http = do_http,
};

/* -- the plugin -------------------------------------------------------------------------------- */

static struct kaged_system_plugin *plugin;

static int load(void **state)
{
    kg_auto(kg_free) char *self = realpath("/proc/self/exe", NULL);
    kg_auto(kg_free) char *folder = kg_path_folder(self);
    kg_auto(kg_free) char *path = kg_format("%s/../../system-plugins/webhook-notify.so", folder);
    (void)state;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    plugin = library != NULL ? dlsym(library, "kaged_system_plugin") : NULL;
    if (plugin == NULL)
        print_error("%s\n", dlerror());
    return plugin != NULL ? 0 : -1;
}

static int clear(void **state)
{
    (void)state;
    plugin->auth_launch_url_ready = plugin->plugin_state = NULL;
    plugin->consent_raised = plugin->audit_unavailable = NULL;
    memset(settings, 0, sizeof(settings));
    memset(fields, 0, sizeof(fields));
    settings[0][0] = "url";
    settings[0][1] = URL;
    fields[0][0] = "url";
    fields[0][1] = LAUNCH;
    config = "{\"url\":\"" URL "\"}";
    sent = logged = 0;
    on_answer = NULL;
    on_due = NULL;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    plugin->stop(NULL);
    return 0;
}

static void set(const char *name, const char *text)
{
    size_t at = 1;
    while (settings[at][0] != NULL)
        at++;
    settings[at][0] = name;
    settings[at][1] = text;
}

static const char *begin(void)
{
    void *own = NULL;
    return plugin->start(&daemon_of_tests, &own);
}

static void happen(kaged_hook *hook)
{
    const struct kaged_event event = {
        .size = sizeof(event), .hook = "x", .json = "{\"event\":\"x\"}"};
    assert_non_null(hook);
    hook(NULL, &event);
}

static void answer_with(int status)
{
    const struct kaged_http_answer answer = {
        .size = sizeof(answer), .status = status, .body = "", .error = status ? "" : "away"};
    assert_non_null(on_answer);
    on_answer(NULL, &answer);
}

/* -- tests ------------------------------------------------------------------------------------- */

static void test_by_default_it_sends_the_launch_url_as_json_and_nothing_else(void **state)
{
    (void)state;
    assert_null(begin());
    assert_null(plugin->plugin_state);
    happen(plugin->auth_launch_url_ready);
    assert_string_equal(sent_body, "{\"event\":\"x\"}");
    assert_string_equal(sent_headers, "Content-Type: application/json\n");
    answer_with(204);
    assert_int_equal(logged, 0);
}

static void test_values_cannot_break_a_body_of_json(void **state)
{
    (void)state;
    set("events", "[\"plugin.failed\",\"consent.raised\"]");
    set("body", "{\"text\": \"{name}: {reason}\"}");
    set("header", "X-Key: sesame");
    fields[1][0] = "name", fields[1][1] = "a\"b\\c";
    fields[2][0] = "reason", fields[2][1] = "one\ntwo \xc3\xa4";
    fields[0][0] = "to", fields[0][1] = "failed";
    assert_null(begin());
    assert_null(plugin->auth_launch_url_ready);
    assert_non_null(plugin->consent_raised);
    happen(plugin->plugin_state);
    assert_string_equal(sent_body, "{\"text\": \"a\\u0022b\\u005cc: one\\u000atwo \xc3\xa4\"}");
    assert_string_equal(sent_headers, "Content-Type: application/json\nX-Key: sesame\n");
}

static void test_a_text_is_sent_as_it_is_and_other_states_are_not(void **state)
{
    (void)state;
    set("events", "[\"plugin.failed\"]");
    set("body", "{message}");
    set("content_type", "text/plain");
    fields[0][0] = "to", fields[0][1] = "running";
    fields[1][0] = "name", fields[1][1] = "a\"b";
    assert_null(begin());
    happen(plugin->plugin_state);
    assert_int_equal(sent, 0);
    fields[0][1] = "failed";
    happen(plugin->plugin_state);
    assert_string_equal(sent_body, "plugin a\"b has failed: ");
}

static void test_what_is_not_taken_is_sent_again_after_growing_pauses(void **state)
{
    (void)state;
    assert_null(begin());
    happen(plugin->auth_launch_url_ready);
    for (uint64_t expected_ms = 1000; expected_ms <= 64000; expected_ms *= 2) {
        answer_with(expected_ms % 3 == 0 ? 503 : 0);
        assert_int_equal(pause_ms, expected_ms);
        on_due(NULL);
    }
    assert_int_equal(sent, 8);
    pause_ms = 0;
    answer_with(0);
    assert_int_equal(pause_ms, 0);
    assert_int_equal(sent, 8);
    happen(plugin->auth_launch_url_ready);
    assert_int_equal(sent, 9);
}

static void test_what_is_refused_for_good_makes_room_for_the_next(void **state)
{
    (void)state;
    assert_null(begin());
    happen(plugin->auth_launch_url_ready);
    happen(plugin->auth_launch_url_ready);
    assert_int_equal(sent, 1);
    pause_ms = 0;
    answer_with(404);
    assert_int_equal(pause_ms, 0);
    assert_int_equal(sent, 2);
}

static void test_no_more_waits_than_its_bound(void **state)
{
    (void)state;
    assert_null(begin());
    for (int i = 0; i < 70; i++)
        happen(plugin->auth_launch_url_ready);
    assert_int_equal(logged, 6);
    assert_non_null(strstr(last_log, "64 wait already; 6 were lost"));
    for (int i = 0; i < 64; i++)
        answer_with(200);
    assert_int_equal(sent, 64);
}

static void test_settings_that_cannot_be_meant_are_told(void **state)
{
    static const struct {
        const char *name, *text, *words;
    } bad[] = {
        {"body", "{nobody}", "body has a {word}"},
        {"header", "sesame", "header takes a line"},
        {"header", "A: b\r\nC: d", "header takes a line"},
        {"content_type", "a\nb", "content_type one line"},
        {"events", "[\"auth.launch\"]", "events takes a list"},
        {"events", "\"plugin.failed\"", "events takes a list"},
    };
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        clear(state);
        set(bad[i].name, bad[i].text);
        const char *problem = begin();
        assert_non_null(problem);
        assert_non_null(strstr(problem, bad[i].words));
        plugin->stop(NULL);
    }
    clear(state);
    config = "{\"url\":\"\\\"evnts\\\":\",\"evnts\":[]}";
    assert_non_null(strstr(begin(), "another key"));
    settings[0][1] = "ftp://x/";
    assert_non_null(strstr(begin(), "needs a url"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_by_default_it_sends_the_launch_url_as_json_and_nothing_else, clear, stop),
        cmocka_unit_test_setup_teardown(test_values_cannot_break_a_body_of_json, clear, stop),
        cmocka_unit_test_setup_teardown(test_a_text_is_sent_as_it_is_and_other_states_are_not,
                                        clear, stop),
        cmocka_unit_test_setup_teardown(test_what_is_not_taken_is_sent_again_after_growing_pauses,
                                        clear, stop),
        cmocka_unit_test_setup_teardown(test_what_is_refused_for_good_makes_room_for_the_next,
                                        clear, stop),
        cmocka_unit_test_setup_teardown(test_no_more_waits_than_its_bound, clear, stop),
        cmocka_unit_test_setup_teardown(test_settings_that_cannot_be_meant_are_told, clear, stop),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
