/* One plain YAML document and nothing more: each refusal with its place, resolution, aliases. */
#include "base/doc.h"
#include "cpu.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- helpers ----------------------------------------------------------------------------------- */

static struct kg_doc *read_text(struct kg_str text)
{
    struct kg_err err = {0};
    struct kg_doc *doc = kg_yaml_read(text, &err);
    if (doc == NULL)
        fail_msg("%s", err.message);
    return doc;
}

static void assert_json_of(struct kg_str yaml, const char *json)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_text(yaml);
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_json_put_node(&out, doc->root);
    assert_string_equal(kg_buf_terminate(&out), json);
}

static void assert_json(const char *yaml, const char *json)
{
    assert_json_of(kg_str(yaml), json);
}

static void assert_refused(struct kg_str text, const char *message)
{
    struct kg_err err = {0};
    assert_null(kg_yaml_read(text, &err));
    assert_int_equal(err.code, KG_E_PARSE);
    assert_string_equal(err.message, message);
}

static char *repeated(const char *head, const char *unit, size_t count, const char *tail)
{
    struct kg_buf buf = {0};
    kg_buf_text(&buf, head);
    for (size_t i = 0; i < count; i++)
        kg_buf_text(&buf, unit);
    kg_buf_text(&buf, tail);
    return kg_buf_terminate(&buf);
}

/* -- what is read ------------------------------------------------------------------------------ */

static void plain_scalars_resolve_by_the_core_rules(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "null"},
        {"~", "null"},
        {"null", "null"},
        {"Null", "null"},
        {"NULL", "null"},
        {"nUll", "\"nUll\""},
        {"true", "true"},
        {"True", "true"},
        {"TRUE", "true"},
        {"false", "false"},
        {"False", "false"},
        {"FALSE", "false"},
        {"yes", "\"yes\""},
        {"no", "\"no\""},
        {"on", "\"on\""},
        {"off", "\"off\""},
        {"y", "\"y\""},
        {"0", "0"},
        {"-0", "0"},
        {"42", "42"},
        {"+42", "42"},
        {"-42", "-42"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"007", "\"007\""},
        {"1_000", "\"1_000\""},
        {"0x1F", "31"},
        {"0xff", "255"},
        {"0o17", "15"},
        {"0o18", "\"0o18\""},
        {"0x", "\"0x\""},
        {"-0x1", "\"-0x1\""},
        {"0b1", "\"0b1\""},
        {"1.5", "1.5"},
        {"-.5", "-0.5"},
        {"+.5", "0.5"},
        {"5.", "5.0"},
        {"1e3", "1e3"},
        {"1.E+3", "1.0E+3"},
        {"1e", "\"1e\""},
        {"01.5", "\"01.5\""},
        {".", "\".\""},
        {"+", "\"+\""},
        {"0.1.0", "\"0.1.0\""},
        {"12:30:45", "\"12:30:45\""},
        {"2001-12-14", "\"2001-12-14\""},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *yaml = kg_format("v: %s\n", rows[i][0]);
        kg_auto(kg_free) char *json = kg_format("{\"v\":%s}", rows[i][1]);
        assert_json(yaml, json);
    }
}

static void infinities_and_nan_keep_their_names(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {".inf", "inf"}, {"+.Inf", "inf"}, {"-.INF", "-inf"}, {".NaN", "nan"}};
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_text(kg_str(rows[i][0]));
        assert_int_equal(doc->root->type, KG_NUMBER);
        assert_true(kg_str_is(doc->root->text, rows[i][1]));
    }
}

static void quoted_and_block_scalars_are_strings(void **state)
{
    (void)state;
    assert_json("['1', \"true\", \"\", '~', \"a\\0b\"]",
                "[\"1\",\"true\",\"\",\"~\",\"a\\u0000b\"]");
    assert_json("a: |\n  1\nb: >-\n  2\n  3\n", "{\"a\":\"1\\n\",\"b\":\"2 3\"}");
}

static void a_scalar_key_becomes_its_text(void **state)
{
    (void)state;
    assert_json("1: a\ntrue: b\n~: c\n? d\n: e\n\"<<\": f\n",
                "{\"1\":\"a\",\"true\":\"b\",\"~\":\"c\",\"d\":\"e\",\"<<\":\"f\"}");
}

static void a_text_without_a_document_is_null(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\n", "# nothing\n", "---\n...\n# end", "\xEF\xBB\xBF"};
    for (size_t i = 0; i < KG_COUNT(texts); i++)
        assert_json(texts[i], "null");
    assert_json_of(KG_STR_NULL, "null");
}

static void keys_and_values_know_their_line_and_column_in_bytes(void **state)
{
    (void)state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_text(
        KG_STR("# \xC3\xA4\r\nb: {\xC3\xA4\xC3\xA4: 1, c: [x]}\r\nd:\r\n  - |\r\n    t\r\n"));
    const struct kg_member *b = kg_node_member(doc->root, kg_str("b"));
    const struct kg_member *c = kg_node_member(&b->value, kg_str("c"));
    const struct kg_node *d = kg_node_get(doc->root, "d");
    assert_int_equal(b->key_line, 2);
    assert_int_equal(b->key_column, 1);
    assert_int_equal(b->value.column, 4);
    assert_int_equal(c->key_line, 2);
    assert_int_equal(c->key_column, 14);
    assert_int_equal(c->value.column, 17);
    assert_int_equal(d->items[0].line, 4);
    assert_int_equal(d->items[0].column, 5);
}

static void the_manifest_of_the_specification_reads_whole(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err;
    if (kg_read_file("tests/fuzz/corpus/yaml/manifest.yaml", KG_DOC_BYTES_MAX, &text, &err) < 0)
        fail_msg("%s", err.message);
    assert_json_of(
        kg_buf_view(&text),
        "{\"name\":\"memory-markdown\",\"version\":\"0.1.0\",\"kaged_api\":1,"
        "\"description\":\"Markdown-file-backed agent memory.\",\"author\":\"kaged\","
        "\"license\":\"MIT\",\"homepage\":\"https://github.com/...\","
        "\"command\":[\"/usr/bin/env\",\"bun\",\"./dist/index.js\"],"
        "\"env\":{\"LOG_LEVEL\":\"info\"},"
        "\"capabilities\":[\"read:fs:config:/memory\",\"write:fs:config:/memory\","
        "\"kaged:storage:read\",{\"net\":[]}],"
        "\"roles\":[\"observer\"],"
        "\"hooks\":[\"on_session_start\",\"on_session_idle\",\"pre_compact\",\"post_compact\"],"
        "\"tools\":[{\"name\":\"retain\","
        "\"description\":\"Store information in long-term memory.\","
        "\"parameters_schema\":{\"type\":\"object\",\"properties\":{"
        "\"content\":{\"type\":\"string\"},\"context\":{\"type\":\"string\"},"
        "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},"
        "\"required\":[\"content\"]}},"
        "{\"name\":\"recall\",\"description\":\"Search long-term memory.\","
        "\"parameters_schema\":{\"type\":\"object\",\"properties\":{"
        "\"query\":{\"type\":\"string\"},"
        "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},"
        "\"required\":[\"query\"]}}],"
        "\"methods\":[\"presets.list\"],\"notifications\":[\"catalog.updated\"],"
        "\"config_schema\":{\"type\":\"object\",\"properties\":{"
        "\"isolation\":{\"type\":\"string\",\"enum\":[\"agent\",\"project\"],"
        "\"default\":\"agent\"},"
        "\"store\":{\"type\":\"string\",\"default\":\"config:/memory\"},"
        "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},"
        "\"additionalProperties\":false},"
        "\"system_config_schema\":{\"type\":\"object\",\"properties\":{},"
        "\"additionalProperties\":false},"
        "\"knobs\":{\"store\":{\"type\":\"path\",\"label\":\"Storage location\","
        "\"description\":\"Where memory files are stored.\","
        "\"prefixes\":[\"config:\",\"project:\"],\"default\":\"config:/memory\","
        "\"binds_to\":\"config.store\"},"
        "\"isolation\":{\"type\":\"enum\",\"label\":\"Isolation scope\","
        "\"description\":\"Per-agent or per-project memory.\","
        "\"values\":[\"agent\",\"project\"],\"default\":\"agent\","
        "\"binds_to\":\"config.isolation\"}},"
        "\"shutdown_timeout_sec\":5,\"health_interval_sec\":30,\"hook_timeout_sec\":10}");
}

/* -- aliases ----------------------------------------------------------------------------------- */

static void an_alias_repeats_what_its_anchor_marks(void **state)
{
    (void)state;
    assert_json("a: &x {k: [1, &y two]}\nb: *x\nc: *y\n",
                "{\"a\":{\"k\":[1,\"two\"]},\"b\":{\"k\":[1,\"two\"]},\"c\":\"two\"}");
}

static void the_newest_anchor_of_a_name_counts(void **state)
{
    (void)state;
    assert_json("- &x 1\n- *x\n- &x [&x 2, *x]\n- *x\n", "[1,1,[2,2],2]");
}

static void an_alias_needs_a_complete_anchor_before_it(void **state)
{
    (void)state;
    assert_refused(KG_STR("a: 1\nb: *x\n"), "2:4: the alias \"x\" has no anchor before it");
    assert_refused(KG_STR("&x [1, *x]"), "1:8: the alias \"x\" is inside its own anchor");
}

static void aliases_and_anchors_past_the_bound_are_refused(void **state)
{
    (void)state;
    kg_auto(kg_free) char *most = repeated("- &x 1\n", "- *x\n", KG_YAML_ALIAS_MAX, "");
    kg_auto(kg_free) char *past = repeated("- &x 1\n", "- *x\n", KG_YAML_ALIAS_MAX + 1, "");
    kg_auto(kg_free) char *anchors = repeated("", "- &x 1\n", KG_YAML_ALIAS_MAX + 1, "");
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_text(kg_str(most));
    assert_int_equal(doc->root->count, KG_YAML_ALIAS_MAX + 1);
    assert_refused(kg_str(past), "66:3: more than 64 aliases");
    assert_refused(kg_str(anchors), "65:3: more than 64 anchors");
}

/* Nine levels of seven aliases each stay within the count of aliases, but not of values. */
static void the_billion_laughs_end_quickly(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, "a0: &a0 [lol, lol, lol, lol, lol, lol, lol]\n");
    for (int i = 1; i <= 9; i++) {
        kg_buf_printf(&text, "a%d: &a%d [", i, i);
        for (int k = 0; k < 7; k++)
            kg_buf_printf(&text, "%s*a%d", k ? ", " : "", i - 1);
        kg_buf_text(&text, "]\n");
    }
    uint64_t start = cpu_ms();
    struct kg_err err = {0};
    assert_null(kg_yaml_read(kg_buf_view(&text), &err));
    assert_non_null(
        strstr(err.message, ": more than 65536 values, those that aliases repeat included"));
    assert_true(cpu_ms() - start < 2000);
}

static void nesting_through_aliases_counts(void **state)
{
    (void)state;
    kg_auto(kg_free) char *anchor = repeated("- &x ", "[", 40, "");
    kg_auto(kg_free) char *closed = repeated(anchor, "]", 40, "\n- ");
    kg_auto(kg_free) char *opened = repeated(closed, "[", 24, "*x");
    kg_auto(kg_free) char *text = repeated(opened, "]", 24, "\n");
    assert_refused(kg_str(text), "2:27: nested deeper than 64 levels");
}

/* -- what is refused --------------------------------------------------------------------------- */

static void each_refusal_names_its_place_and_cause(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"a: 1\nb:\n  c: 1\na: 2\n", "4:1: the key \"a\" is given twice; first on line 1"},
        {"b:\n  - {1: x, \"1\": y}\n", "2:12: the key \"1\" is given twice; first on line 2"},
        {"a: !!str 1\n",
         "1:4: the tag \"tag:yaml.org,2002:str\" is not allowed; tags are not read"},
        {"a: !x {}\n", "1:4: the tag \"!x\" is not allowed; tags are not read"},
        {"a: ! 1\n", "1:4: the tag \"!\" is not allowed; tags are not read"},
        {"a: ! '1'\n", "1:4: the tag \"!\" is not allowed; tags are not read"},
        {"a: &x # why\n  ! 1\n", "1:4: the tag \"!\" is not allowed; tags are not read"},
        {"a: ! []\n", "1:4: the tag \"!\" is not allowed; tags are not read"},
        {"!k a: 1\n", "1:1: the tag \"!k\" is not allowed; tags are not read"},
        {"a: 1\n--- # next\nb: 2\n",
         "2:1: more follows the end of the document; only one document is read"},
        {"a: 1\n... # end\n# then\n%TAG ! x\n",
         "4:1: more follows the end of the document; only one document is read"},
        {"[1] 2\n", "1:5: more follows the end of the document; only one document is read"},
        {"%YAML 1.1\n---\na: 1\n", "1:1: directives such as %YAML and %TAG are not allowed"},
        {"# first\n\xC2\x85%TAG ! tag:x,2000:\n---\na: 1\n",
         "2:3: directives such as %YAML and %TAG are not allowed"},
        {"a: &x {b: 1}\nc:\n  <<: *x\n",
         "3:3: the merge key \"<<\" is not allowed; write its keys out"},
        {"? [a]\n: 1\n", "1:3: a key must be a scalar, not a sequence"},
        {"{a: 1}: 1\n", "1:1: a key must be a scalar, not a mapping"},
        {"a: &x 1\n*x : 2\n", "2:1: a key cannot be an alias"},
        {"&x a: 1\n", "1:1: a key cannot have an anchor"},
        {"a: 9223372036854775808\n",
         "1:4: the integer does not fit in 64 bits; quote it if it is text"},
        {"a: 0xFFFFFFFFFFFFFFFF\n",
         "1:4: the integer does not fit in 64 bits; quote it if it is text"},
        {"a: \"\xC3\x28\"\n", "1:5: the byte 0xC3 is not UTF-8"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_refused(kg_str(rows[i][0]), rows[i][1]);
}

static void complaints_of_libyaml_come_in_our_form(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"a: [1, 2\nb: 3\n", "2:2: did not find expected ',' or ']' while parsing a flow sequence"},
        {"a: \"x\n", "1:4: the quote that opens here is not closed"},
        {"a: 1\nb:\n  - 'x\nc: 2\n", "3:5: the quote that opens here is not closed"},
        {"name: \"echo\nversion: \"1.0\"\nhooks: []\n",
         "1:7: the quote that opens here is closed by the next one, on line 2: one is missing"},
        {"a:\n  - 'x\n  - 'y: z'\n",
         "2:5: the quote that opens here is closed by the next one, on line 3: one is missing"},
        {"a: [\"x\n, \"y\"]\n",
         "1:5: the quote that opens here is closed by the next one, on line 2: one is missing"},
        {"a: \"x\n  y\"\nb: [1, 2\nc: 3\n",
         "4:2: did not find expected ',' or ']' while parsing a flow sequence"},
        {"a:\n\tb: 1\n", "2:1: there is a tab here; YAML allows only spaces"},
        {"a:\n  - x\n\t- y\n", "3:1: there is a tab here; YAML allows only spaces"},
        {"\xC3\xA4: @x\n",
         "1:5: found character that cannot start any token while scanning for the next token"},
        {"a: 1\nb: \x01\n", "2:4: control characters are not allowed"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_refused(kg_str(rows[i][0]), rows[i][1]);
    assert_refused(KG_STR("a: \0"), "1:4: control characters are not allowed");
}

static void nesting_past_the_bound_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_free) char *most = repeated("", "- ", KG_DOC_DEPTH_MAX, "x\n");
    kg_auto(kg_free) char *past = repeated("", "- ", KG_DOC_DEPTH_MAX + 1, "x\n");
    kg_auto(kg_free) char *flood = repeated("", "[", 100000, "");
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_text(kg_str(most));
    assert_non_null(doc);
    assert_refused(kg_str(past), "1:129: nested deeper than 64 levels");
    assert_refused(kg_str(flood), "1:65: nested deeper than 64 levels");
}

static void text_and_values_past_their_bounds_are_refused(void **state)
{
    (void)state;
    kg_auto(kg_free) char *text = repeated("", "\n", KG_DOC_BYTES_MAX + 1, "");
    kg_auto(kg_free) char *values = repeated("[", "1,", 65536, "]");
    assert_refused(kg_str(text), "1:1: the text has 1048577 bytes; at most 1048576 are read");
    assert_refused(kg_str(values),
                   "1:131072: more than 65536 values, those that aliases repeat included");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_scalars_resolve_by_the_core_rules),
        cmocka_unit_test(infinities_and_nan_keep_their_names),
        cmocka_unit_test(quoted_and_block_scalars_are_strings),
        cmocka_unit_test(a_scalar_key_becomes_its_text),
        cmocka_unit_test(a_text_without_a_document_is_null),
        cmocka_unit_test(keys_and_values_know_their_line_and_column_in_bytes),
        cmocka_unit_test(the_manifest_of_the_specification_reads_whole),
        cmocka_unit_test(an_alias_repeats_what_its_anchor_marks),
        cmocka_unit_test(the_newest_anchor_of_a_name_counts),
        cmocka_unit_test(an_alias_needs_a_complete_anchor_before_it),
        cmocka_unit_test(aliases_and_anchors_past_the_bound_are_refused),
        cmocka_unit_test(the_billion_laughs_end_quickly),
        cmocka_unit_test(nesting_through_aliases_counts),
        cmocka_unit_test(each_refusal_names_its_place_and_cause),
        cmocka_unit_test(complaints_of_libyaml_come_in_our_form),
        cmocka_unit_test(nesting_past_the_bound_is_refused),
        cmocka_unit_test(text_and_values_past_their_bounds_are_refused),
    };
    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
