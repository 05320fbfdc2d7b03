/* The bounds of knobs: each type takes what is within them, and names the one that is not kept. */
#include "projects/projects.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const char models[] = "[providers.p]\n"
                             "kind = \"openai\"\n"
                             "base_url = \"https://models.example\"\n"
                             "[models.deep]\nprovider = \"p\"\nmodel = \"d\"\nreasoning = true\n"
                             "[models.quick]\nprovider = \"p\"\nmodel = \"q\"\nfast = true\n";

/* What the check says: "" if the value may be had. */
struct said {
    char text[1024];
};

static struct said check(const char *declaration, const char *value, bool hidden)
{
    struct said said = {""};
    struct kg_err err = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *knob_doc = kg_json_read(kg_str(declaration), &err);
    kg_auto(kg_doc_cleanup) struct kg_doc *value_doc = kg_json_read(kg_str(value), &err);
    struct local *local = local_read(kg_str(models), LOCAL_LEAVE, &err);
    assert_string_equal(err.message, "");
    kg_auto(kg_free) char *type = kg_str_dup(kg_node_get(knob_doc->root, "type")->text);
    const struct manifest_knob knob = {"k", type, "field", knob_doc->root};
    const struct projects_knob_check bounds = {&knob, value_doc->root, local, hidden};
    if (projects_knob_check(&bounds, &err) < 0) {
        assert_int_equal(err.code, KG_E_INVALID_PARAMS);
        snprintf(said.text, sizeof(said.text), "%s", err.message);
    }
    local_free(local);
    return said;
}

static void assert_takes(const char *declaration, const char *value)
{
    struct said said = check(declaration, value, false);
    assert_string_equal(said.text, "");
}

static void assert_refuses(const char *declaration, const char *value, const char *why)
{
    kg_auto(kg_free) char *expected = kg_format("knob k: %s", why);
    struct said said = check(declaration, value, false);
    assert_string_equal(said.text, expected);
}

static void a_range_has_ends_and_steps(void **state)
{
    (void)state;
    static const char knob[] = "{\"type\":\"range\",\"min\":0.1,\"max\":2,\"step\":0.1}";
    assert_takes(knob, "0.1");
    assert_takes(knob, "0.7");
    assert_takes(knob, "2");
    assert_takes(knob, "1.0e0");
    assert_refuses(knob, "0.05", "0.05 is less than its min, 0.1");
    assert_refuses(knob, "2.1", "2.1 is more than its max, 2");
    assert_refuses(knob, "1e400", "1e400 is more than its max, 2");
    assert_refuses(knob, "0.75",
                   "0.75 is not one of its steps, which are 0.1 apart, starting at 0.1");
    assert_refuses(knob, "\"1\"", "\"1\" is not a number");
    assert_refuses(knob, "true", "true is not a number");
}

static void a_range_of_integers_takes_whole_numbers(void **state)
{
    (void)state;
    static const char knob[] = "{\"type\":\"int_range\",\"min\":1,\"max\":20,\"step\":3}";
    assert_takes(knob, "1");
    assert_takes(knob, "19");
    assert_refuses(knob, "0", "0 is less than its min, 1");
    assert_refuses(knob, "22", "22 is more than its max, 20");
    assert_refuses(knob, "5", "5 is not one of its steps, which are 3 apart, starting at 1");
    assert_refuses(knob, "4.5", "4.5 is not a whole number");
    assert_refuses(knob, "99999999999999999999", "99999999999999999999 is not a whole number");
}

static void large_integers_are_not_rounded(void **state)
{
    (void)state;
    static const char knob[] =
        "{\"type\":\"int_range\",\"min\":0,\"max\":9223372036854775806,\"step\":2}";
    assert_takes(knob, "9223372036854775806");
    assert_refuses(knob, "9223372036854775807",
                   "9223372036854775807 is more than its max, 9223372036854775806");
    assert_refuses(knob, "9007199254740993",
                   "9007199254740993 is not one of its steps, which are 2 apart, starting at 0");
}

static void an_enum_takes_its_values(void **state)
{
    (void)state;
    static const char knob[] = "{\"type\":\"enum\",\"values\":[\"low\",\"mid\"]}";
    assert_takes(knob, "\"mid\"");
    assert_refuses(knob, "\"high\"", "\"high\" is not one of its values, which are low, mid");
    assert_refuses(knob, "1", "1 is not one of its values, which are low, mid");
}

static void a_boolean_is_true_or_false(void **state)
{
    (void)state;
    assert_takes("{\"type\":\"boolean\"}", "false");
    assert_refuses("{\"type\":\"boolean\"}", "\"true\"", "\"true\" is not true or false");
    assert_refuses("{\"type\":\"boolean\"}", "1", "1 is not true or false");
}

static void a_text_is_one_line_of_its_pattern_and_length(void **state)
{
    (void)state;
    static const char knob[] =
        "{\"type\":\"text\",\"max_length\":3,\"pattern\":\"^[a-z\xc3\xa4]*$\"}";
    assert_takes(knob, "\"\"");
    assert_takes(knob, "\"a\xc3\xa4\xc3\xa4\""); /* characters, not bytes */
    assert_refuses(knob, "\"abcd\"", "\"abcd\" has 4 characters, more than its max_length, 3");
    assert_refuses(knob, "\"A\"", "\"A\" does not match its pattern, ^[a-z\xc3\xa4]*$");
    assert_refuses(knob, "\"a\\nb\"", "\"a\\nb\" is more than one line");
    assert_refuses("{\"type\":\"text\"}", "\"\\u0000\"", "\"\\u0000\" contains a NUL");
    assert_refuses(knob, "7", "7 is not a text");
}

static void a_multiline_text_may_have_lines(void **state)
{
    (void)state;
    static const char knob[] = "{\"type\":\"multiline\",\"max_length\":5}";
    assert_takes(knob, "\"a\\nb\\n\"");
    assert_refuses(knob, "\"a\\nb\\nc\\n\"",
                   "\"a\\nb\\nc\\n\" has 6 characters, more than its max_length, 5");
    assert_refuses(knob, "[]", "[] is not a text");
}

static void a_model_is_the_operators_and_fits_the_filter(void **state)
{
    (void)state;
    assert_takes("{\"type\":\"model_alias\"}", "\"deep\"");
    assert_takes("{\"type\":\"model_alias\",\"filter\":\"any\"}", "\"quick\"");
    assert_takes("{\"type\":\"model_alias\",\"filter\":\"fast\"}", "\"quick\"");
    assert_takes("{\"type\":\"model_alias\",\"filter\":\"reasoning\"}", "\"deep\"");
    assert_refuses("{\"type\":\"model_alias\"}", "\"gone\"",
                   "\"gone\" is not one of the operator's models");
    assert_refuses("{\"type\":\"model_alias\",\"filter\":\"reasoning\"}", "\"quick\"",
                   "\"quick\" is a model that does not fit its filter, reasoning");
    assert_refuses("{\"type\":\"model_alias\",\"filter\":\"fast\"}", "\"deep\"",
                   "\"deep\" is a model that does not fit its filter, fast");
    assert_refuses("{\"type\":\"model_alias\"}", "1", "1 is not an alias of a model");
}

static void a_path_has_a_prefix_and_stays_below_it(void **state)
{
    (void)state;
    static const char knob[] = "{\"type\":\"path\",\"prefixes\":[\"config:\"]}";
    assert_takes(knob, "\"config:/memory\"");
    assert_takes("{\"type\":\"path\",\"prefixes\":[\"config:\",\"project:\"]}", "\"project:/x/y\"");
    assert_refuses(knob, "\"project:/x\"",
                   "\"project:/x\" does not have one of its prefixes, which are config:");
    assert_refuses(knob, "\"/etc\"",
                   "\"/etc\" does not have one of its prefixes, which are config:");
    assert_refuses(knob, "4", "4 is not a path");
    static const char *const bad[] = {"\"config:/../x\"", "\"config:memory\"", "\"config:/a/./b\"",
                                      "\"config:/a\\u0000\""};
    for (size_t i = 0; i < KG_COUNT(bad); i++)
        assert_non_null(
            strstr(check(knob, bad[i], false).text, "not a path that a plugin can have"));
}

static void a_sensitive_value_is_in_no_message(void **state)
{
    (void)state;
    static const struct {
        const char *knob, *value;
    } rows[] = {
        {"{\"type\":\"text\",\"max_length\":3}", "\"hush-hush\""},
        {"{\"type\":\"text\",\"pattern\":\"^x\"}", "\"hush-hush\""},
        {"{\"type\":\"boolean\"}", "\"hush-hush\""},
        {"{\"type\":\"enum\",\"values\":[\"a\"]}", "\"hush-hush\""},
        {"{\"type\":\"model_alias\"}", "\"hush-hush\""},
        {"{\"type\":\"path\",\"prefixes\":[\"config:\"]}", "\"config:/../hush-hush\""},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct said said = check(rows[i].knob, rows[i].value, true);
        assert_non_null(strstr(said.text, "knob k: the value "));
        assert_null(strstr(said.text, "hush"));
    }
}

static void a_long_value_is_cut_in_the_message(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf value = {0};
    kg_buf_char(&value, '"');
    for (size_t i = 0; i < 100000; i++)
        kg_buf_text(&value, "\xc3\xa4");
    kg_buf_char(&value, '"');
    struct said said =
        check("{\"type\":\"text\",\"max_length\":3}", kg_buf_terminate(&value), false);
    assert_non_null(strstr(said.text, "... has 100000 characters"));
    assert_int_equal(kg_utf8_valid(kg_str(said.text)), strlen(said.text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_has_ends_and_steps),
        cmocka_unit_test(a_range_of_integers_takes_whole_numbers),
        cmocka_unit_test(large_integers_are_not_rounded),
        cmocka_unit_test(an_enum_takes_its_values),
        cmocka_unit_test(a_boolean_is_true_or_false),
        cmocka_unit_test(a_text_is_one_line_of_its_pattern_and_length),
        cmocka_unit_test(a_multiline_text_may_have_lines),
        cmocka_unit_test(a_model_is_the_operators_and_fits_the_filter),
        cmocka_unit_test(a_path_has_a_prefix_and_stays_below_it),
        cmocka_unit_test(a_sensitive_value_is_in_no_message),
        cmocka_unit_test(a_long_value_is_cut_in_the_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
