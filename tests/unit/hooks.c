/* The table of hooks agrees with the manifest's names, and results are read within their bounds. */
#include "host/hooks.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static void each_hook_of_a_manifest_has_its_row(void **data)
{
    (void)data;
    for (int i = 0; i < MANIFEST_HOOK_COUNT; i++) {
        const struct host_hook_row *row = host_hook_row((enum manifest_hook)i);
        kg_auto(kg_free) char *method = kg_format("kaged.hook.%s", manifest_hook_names[i]);
        assert_string_equal(row->name, manifest_hook_names[i]);
        assert_string_equal(row->method, method);
    }
}

static void hooks_of_sessions_are_the_primarys(void **data)
{
    (void)data;
    assert_true(host_hook_fires_for(MANIFEST_ON_SESSION_START, "primary"));
    assert_false(host_hook_fires_for(MANIFEST_ON_SESSION_IDLE, "primary.subagents.a"));
    assert_true(host_hook_fires_for(MANIFEST_PRE_COMPACT, "primary.subagents.a"));
}

static void the_manifest_may_say_how_long_a_hook_takes(void **data)
{
    (void)data;
    const struct config config = {.limits_hook_timeout_ms = 1500};
    assert_int_equal(host_hook_timeout_ms(0, &config), 1500);
    assert_int_equal(host_hook_timeout_ms(60, &config), 60000);
}

/* What a result says, as text; "!" if it is refused. */
static char *text_of(enum manifest_hook hook, struct kg_str json)
{
    kg_auto(host_hook_result_free) struct host_hook_result result = {0};
    struct kg_err err;
    struct kg_buf text = {0};
    if (host_hook_result_read(hook, json, &result, &err) < 0)
        kg_buf_char(&text, '!');
    else
        host_hook_result_text(&result, &text);
    return kg_buf_terminate(&text);
}

static void results_are_read_in_each_form(void **data)
{
    (void)data;
    static const struct {
        enum manifest_hook hook;
        const char *json, *text;
    } rows[] = {
        {MANIFEST_ON_SESSION_START, "null", ""},
        {MANIFEST_ON_SESSION_START, " \"hi \\u00e9\" ", "hi \xC3\xA9"},
        {MANIFEST_ON_SESSION_START, "{\"inject\":\"hi\"}", "hi"},
        {MANIFEST_ON_SESSION_START, "{\"inject\":null}", ""},
        {MANIFEST_ON_SESSION_START, "{\"inject\":\"hi\",\"retain\":7}", "hi"},
        {MANIFEST_ON_SESSION_START, "{}", ""},
        {MANIFEST_ON_SESSION_START, "7", "!"},
        {MANIFEST_ON_SESSION_START, "[\"hi\"]", "!"},
        {MANIFEST_ON_SESSION_START, "{\"inject\":7}", "!"},
        {MANIFEST_ON_SESSION_START, "{\"inject\"", "!"},
        {MANIFEST_ON_SESSION_START, "", "!"},
        {MANIFEST_ON_SESSION_IDLE, "{\"inject\":\"hi\"}", ""},
        {MANIFEST_ON_SESSION_IDLE, "7", ""},
        {MANIFEST_POST_COMPACT, "{\"retain\":[]}", ""},
        {MANIFEST_POST_COMPACT, "{\"retain\":[\"a\",\"b\\nc\"]}", "- a\n- b\n  c"},
        {MANIFEST_POST_COMPACT, "{\"retain\":[\"a\"],\"inject\":\"hi\"}", "hi\n- a"},
        {MANIFEST_PRE_COMPACT, "{\"retain\":[\"a\"]}", "- a"},
        {MANIFEST_POST_COMPACT, "{\"retain\":\"a\"}", "!"},
        {MANIFEST_POST_COMPACT, "{\"retain\":[1]}", "!"},
        {MANIFEST_POST_COMPACT, "{\"retain\":[\"a\\u0000b\"]}", "!"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *text = text_of(rows[i].hook, kg_str(rows[i].json));
        assert_string_equal(text, rows[i].text);
    }
}

static void results_have_a_largest_size(void **data)
{
    (void)data;
    kg_auto(kg_buf_free) struct kg_buf inject = {0}, retain = {0};
    kg_buf_char(&inject, '"');
    for (int i = 0; i <= HOST_HOOK_TEXT_MAX; i++)
        kg_buf_char(&inject, 'x');
    kg_buf_char(&inject, '"');
    kg_buf_text(&retain, "{\"retain\":[\"\"");
    for (int i = 0; i < HOST_HOOK_RETAIN_MAX; i++)
        kg_buf_text(&retain, ",\"\"");
    kg_buf_text(&retain, "]}");
    kg_auto(kg_free) char *injected = text_of(MANIFEST_ON_SESSION_START, kg_buf_view(&inject));
    kg_auto(kg_free) char *retained = text_of(MANIFEST_POST_COMPACT, kg_buf_view(&retain));
    assert_string_equal(injected, "!");
    assert_string_equal(retained, "!");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_hook_of_a_manifest_has_its_row),
        cmocka_unit_test(hooks_of_sessions_are_the_primarys),
        cmocka_unit_test(the_manifest_may_say_how_long_a_hook_takes),
        cmocka_unit_test(results_are_read_in_each_form),
        cmocka_unit_test(results_have_a_largest_size),
    };
    return cmocka_run_group_tests_name("hooks", tests, NULL, NULL);
}
