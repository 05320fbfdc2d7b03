/* TOML 1.0 to the letter: the public suite, then places, bounds and what the messages say. */
#include "base/doc.h"
#include "cpu.h"
#include "suite.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- the suite --------------------------------------------------------------------------------- */

static bool is_float(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if (strchr(".ein", text.data[i]) != NULL)
            return true;
    return false;
}

static const char *tag_of(const struct kg_node *node)
{
    static const char *const flavors[] = {"string", "datetime", "datetime-local", "date-local",
                                          "time-local"};
    if (node->type == KG_BOOL)
        return "bool";
    if (node->type == KG_NUMBER)
        return is_float(node->text) ? "float" : "integer";
    return node->type == KG_STRING ? flavors[node->flavor] : kg_type_names[node->type];
}

static bool same_float(struct kg_str a, struct kg_str b)
{
    kg_auto(kg_free) char *text_a = kg_str_dup(a);
    kg_auto(kg_free) char *text_b = kg_str_dup(b);
    double value_a = strtod(text_a, NULL);
    double value_b = strtod(text_b, NULL);
    return isnan(value_a) ? isnan(value_b) : value_a == value_b;
}

/* The suite writes fractions of a second with three digits; ours are as they were in the text. */
static char *without_fraction_zeros(struct kg_str text)
{
    struct kg_buf out = {0};
    bool fraction = false;
    for (size_t i = 0; i < text.length; i++) {
        bool digit = text.data[i] >= '0' && text.data[i] <= '9';
        if (fraction && !digit)
            while (out.data[out.length - 1] == '0')
                out.length--;
        fraction = text.data[i] == '.' || (fraction && digit);
        kg_buf_char(&out, text.data[i]);
    }
    while (fraction && out.data[out.length - 1] == '0')
        out.length--;
    return kg_buf_terminate(&out);
}

static bool same_time(struct kg_str a, struct kg_str b)
{
    kg_auto(kg_free) char *text_a = without_fraction_zeros(a);
    kg_auto(kg_free) char *text_b = without_fraction_zeros(b);
    return strcmp(text_a, text_b) == 0;
}

static bool same_scalar(struct kg_str tag, struct kg_str expected, const struct kg_node *node)
{
    if (!kg_str_is(tag, tag_of(node)))
        return false;
    if (node->type == KG_BOOL)
        return kg_str_is(expected, node->boolean ? "true" : "false");
    if (kg_str_is(tag, "float"))
        return same_float(expected, node->text);
    if (node->flavor != KG_PLAIN)
        return same_time(expected, node->text);
    return kg_str_equal(expected, node->text);
}

static bool same_tree(const struct kg_node *expected, const struct kg_node *node)
{
    const struct kg_node *tag = kg_node_get(expected, "type");
    const struct kg_node *value = kg_node_get(expected, "value");
    if (tag && value && tag->type == KG_STRING && value->type == KG_STRING)
        return same_scalar(tag->text, value->text, node);
    if (expected->type != node->type || expected->count != node->count)
        return false;
    for (uint32_t i = 0; i < expected->count; i++) {
        const struct kg_node *one =
            expected->type == KG_ARRAY ? &expected->items[i] : &expected->members[i].value;
        const struct kg_member *member =
            expected->type == KG_ARRAY ? NULL : kg_node_member(node, expected->members[i].key);
        if (expected->type == KG_OBJECT && member == NULL)
            return false;
        if (!same_tree(one, member ? &member->value : &node->items[i]))
            return false;
    }
    return true;
}

/* In a block of its exact size, so that a read past its end is found. */
static struct kg_str load(const char *path)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err;
    if (kg_read_file(path, KG_DOC_BYTES_MAX, &text, &err) < 0)
        fail_msg("%s", err.message);
    char *exact = kg_alloc(text.length);
    if (text.length)
        memcpy(exact, text.data, text.length);
    return (struct kg_str){exact, text.length};
}

static struct kg_doc *read_file(const char *path,
                                struct kg_doc *(*read)(struct kg_str, struct kg_err *),
                                struct kg_err *err)
{
    struct kg_str text = load(path);
    struct kg_doc *doc = read(text, err);
    free((char *)text.data);
    return doc;
}

static bool valid_case_passes(const char *path)
{
    struct kg_err err = {0};
    kg_auto(kg_free) char *json_path = kg_format("%.*s.json", (int)(strlen(path) - 5), path);
    kg_auto(kg_doc_cleanup) struct kg_doc *expected = read_file(json_path, kg_json_read, &err);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_file(path, kg_toml_read, &err);
    bool same = expected && doc && same_tree(expected->root, doc->root);
    if (!same)
        printf("# toml-test: %s does not read as expected %s\n", path, err.message);
    return same;
}

static bool invalid_case_passes(const char *path)
{
    struct kg_err err = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_file(path, kg_toml_read, &err);
    unsigned line, column;
    bool refused = doc == NULL && err.code == KG_E_PARSE &&
                   sscanf(err.message, "%u:%u: ", &line, &column) == 2;
    if (!refused)
        printf("# toml-test: %s is not refused %s\n", path, err.message);
    return refused;
}

struct tally {
    unsigned valid, valid_passed, invalid, invalid_passed;
};

static void run_case(const char *folder, const char *name, struct tally *tally)
{
    size_t length = strlen(name);
    if (length < 5 || strcmp(name + length - 5, ".toml") != 0)
        return;
    kg_auto(kg_free) char *path = kg_format("%s/%s", folder, name);
    if (strncmp(name, "valid/", 6) == 0) {
        tally->valid++;
        tally->valid_passed += valid_case_passes(path);
    } else {
        tally->invalid++;
        tally->invalid_passed += invalid_case_passes(path);
    }
}

static void every_case_of_toml_test_is_read_or_refused_as_it_says(void **state)
{
    (void)state;
    kg_auto(kg_free) char *folder = suite_path("toml-test/tests");
    if (folder == NULL)
        return suite_skip(__func__, "toml-test");
    kg_auto(kg_free) char *list_path = kg_format("%s/files-toml-1.0.0", folder);
    kg_auto(kg_buf_free) struct kg_buf list = {0};
    assert_int_equal(kg_read_file(list_path, KG_DOC_BYTES_MAX, &list, NULL), 0);
    struct tally tally = {0};
    char *rest = kg_buf_terminate(&list);
    for (char *name = strsep(&rest, "\n"); name != NULL; name = strsep(&rest, "\n"))
        run_case(folder, name, &tally);
    printf("# toml-test 1.0.0: %u of %u valid, %u of %u invalid\n", tally.valid_passed, tally.valid,
           tally.invalid_passed, tally.invalid);
    assert_true(tally.valid > 0 && tally.invalid > 0);
    assert_int_equal(tally.valid_passed, tally.valid);
    assert_int_equal(tally.invalid_passed, tally.invalid);
}

/* -- single behaviours ------------------------------------------------------------------------- */

static struct kg_doc *read_text(const char *text)
{
    struct kg_err err = {0};
    struct kg_doc *doc = kg_toml_read(kg_str(text), &err);
    if (doc == NULL)
        fail_msg("%s", err.message);
    return doc;
}

static void assert_refused(struct kg_str text, const char *message)
{
    struct kg_err err = {0};
    assert_null(kg_toml_read(text, &err));
    assert_int_equal(err.code, KG_E_PARSE);
    assert_string_equal(err.message, message);
}

static void assert_json(const char *toml, const char *json)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_text(toml);
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_json_put_node(&out, doc->root);
    assert_string_equal(kg_buf_terminate(&out), json);
}

static void numbers_are_written_as_json_writes_them(void **state)
{
    (void)state;
    assert_json("a = +1_000\nb = 0xFF\nc = 0o17\nd = 0b101\ne = -0",
                "{\"a\":1000,\"b\":255,\"c\":15,\"d\":5,\"e\":0}");
    assert_json("a = +1_0.2_5e+0_3\nb = -1E-2", "{\"a\":10.25e03,\"b\":-1e-2}");
}

static void infinities_and_nan_keep_their_names(void **state)
{
    (void)state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_text("a = +inf\nb = -inf\nc = -nan");
    assert_true(kg_str_is(kg_node_get(doc->root, "a")->text, "inf"));
    assert_true(kg_str_is(kg_node_get(doc->root, "b")->text, "-inf"));
    assert_true(kg_str_is(kg_node_get(doc->root, "c")->text, "nan"));
}

static void dates_and_times_keep_their_flavor(void **state)
{
    (void)state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        read_text("a = 1979-05-27 07:32:00z\nb = 1979-05-27t07:32:00.5\nc = 1979-05-27 # day\n"
                  "d = 07:32:00");
    const struct kg_node *a = kg_node_get(doc->root, "a");
    const struct kg_node *b = kg_node_get(doc->root, "b");
    assert_int_equal(a->flavor, KG_DATETIME);
    assert_true(kg_str_is(a->text, "1979-05-27T07:32:00Z"));
    assert_int_equal(b->flavor, KG_DATETIME_LOCAL);
    assert_true(kg_str_is(b->text, "1979-05-27T07:32:00.5"));
    assert_int_equal(kg_node_get(doc->root, "c")->flavor, KG_DATE_LOCAL);
    assert_int_equal(kg_node_get(doc->root, "d")->flavor, KG_TIME_LOCAL);
}

static void tables_that_are_opened_late_land_where_they_belong(void **state)
{
    (void)state;
    assert_json("[a]\nx = 1\n[b]\ny = 2\n[a.c]\nz = 3\n[[d]]\n[d.e]\n[[d]]\nf.g = 4",
                "{\"a\":{\"x\":1,\"c\":{\"z\":3}},\"b\":{\"y\":2},"
                "\"d\":[{\"e\":{}},{\"f\":{\"g\":4}}]}");
}

static void line_breaks_within_strings_become_newlines(void **state)
{
    (void)state;
    assert_json("a = \"\"\"\r\none\r\ntwo \\\r\n   three\"\"\"\"\"",
                "{\"a\":\"one\\ntwo three\\\"\\\"\"}");
}

static void assert_place(const struct kg_node *root, const char *key, uint32_t key_line,
                         uint32_t key_column, uint32_t line, uint32_t column)
{
    const struct kg_member *member = kg_node_member(root, kg_str(key));
    assert_non_null(member);
    assert_int_equal(member->key_line, key_line);
    assert_int_equal(member->key_column, key_column);
    assert_int_equal(member->value.line, line);
    assert_int_equal(member->value.column, column);
}

static void keys_and_values_know_their_line_and_column(void **state)
{
    (void)state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        read_text("\xEF\xBB\xBF"
                  "name = \"\"\"\nx\"\"\"\n  port  =  [ 1,\n  2 ]\n[ log.file ]\nsize = 1\n");
    assert_place(doc->root, "name", 1, 1, 1, 8);
    assert_place(doc->root, "port", 3, 3, 3, 12);
    assert_place(doc->root, "log", 5, 3, 5, 3);
    assert_place(kg_node_get(doc->root, "log"), "file", 5, 7, 5, 7);
    const struct kg_node *port = kg_node_get(doc->root, "port");
    assert_int_equal(port->items[1].line, 4);
    assert_int_equal(port->items[1].column, 3);
}

static void a_key_given_twice_is_refused_with_both_lines(void **state)
{
    (void)state;
    assert_refused(KG_STR("[a]\nport = 1\n\n  \"port\" = 2\n"),
                   "4:3: the key \"port\" is given twice; first on line 2");
    assert_refused(KG_STR("[a.b]\n[a]\n[a]\n"),
                   "3:2: the table \"a\" is given twice; first on line 2");
    assert_refused(KG_STR("a = {}\n[a.b]\n"), "2:2: the key \"a\" is an inline table, on line 1; "
                                              "a header cannot add to it");
    assert_refused(KG_STR("[a]\n[b]\n[[a]]\n"), "3:3: the key \"a\" is a table with a header, on "
                                                "line 1; [[...]] cannot add a table to it");
    assert_refused(KG_STR("[[a.b]]\n[a]\nb.c = 1\n"),
                   "3:1: the key \"b\" is an array of tables, on line 1; a dotted key cannot add "
                   "to it");
}

static void messages_say_what_was_found_and_expected(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"a = ", "1:5: the text ends where a value was expected"},
        {"a = \nb = 1", "1:5: the line ends where a value was expected"},
        {"a 1", "1:3: found \"1\" where \"=\" after the key was expected"},
        {"a = 1 b", "1:7: found \"b\" where the end of the line was expected"},
        {"a = [1 2]", "1:8: found \"2\" where \",\" or \"]\" after an item of the array was "
                      "expected"},
        {"a = yes", "1:5: \"yes\" is not a value; text must be quoted"},
        {"a = 012", "1:5: \"012\" is not a value: a number, date or time is written wrongly"},
        {"a = 9223372036854775808", "1:5: the integer does not fit in 64 bits"},
        {"a = 0x8000000000000000", "1:5: the integer does not fit in 64 bits"},
        {"a = 2021-02-29", "1:5: \"2021-02-29\" is not a date or time; expected something like "
                           "1979-05-27T07:32:00Z, 1979-05-27 or 07:32:00"},
        {"a = \"x\ny\"", "1:5: the string that starts here is not closed on its line"},
        {"a = '''x", "1:5: the string that starts here is not closed"},
        {"a = \"\\x41\"", "1:7: found \"x\" where one of the escapes \\b \\t \\n \\f \\r \\\" "
                          "\\\\ \\u \\U was expected"},
        {"a = \"\\uD800\"", "1:6: U+D800 is not a Unicode character"},
        {"\xC3\xA4 = 1", "1:1: found \"\xC3\xA4\" where a key was expected"},
        {"a = 1\n# \x01", "2:3: the control character 0x01 is not allowed in a comment"},
        {"a = 1\nb = \"\xFF\"", "2:6: the byte 0xFF is not UTF-8"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_refused(kg_str(rows[i][0]), rows[i][1]);
}

/* -- bounds ------------------------------------------------------------------------------------ */

static char *repeated(const char *head, const char *unit, size_t count, const char *tail)
{
    struct kg_buf buf = {0};
    kg_buf_text(&buf, head);
    for (size_t i = 0; i < count; i++)
        kg_buf_text(&buf, unit);
    kg_buf_text(&buf, tail);
    return kg_buf_terminate(&buf);
}

/* The root is one level of the 64. */
static void nesting_past_the_bound_is_refused_in_every_form(void **state)
{
    (void)state;
    static const struct {
        const char *head, *unit, *tail;
        size_t most; /* units that may be */
    } rows[] = {
        {"a=", "[", "", 63},     {"a", ".a", "=1", 63}, {"[a", ".a", "]", 62},
        {"[[a", ".a", "]]", 61}, {"a=", "{a=", "", 63},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *within =
            repeated(rows[i].head, rows[i].unit, rows[i].most, rows[i].tail);
        kg_auto(kg_free) char *past =
            repeated(rows[i].head, rows[i].unit, rows[i].most + 1, rows[i].tail);
        struct kg_err err = {0};
        kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_toml_read(kg_str(within), &err);
        assert_null(strstr(err.message, "nested deeper"));
        assert_null(kg_toml_read(kg_str(past), &err));
        assert_non_null(strstr(err.message, "nested deeper than 64 levels"));
    }
}

static void text_past_the_bound_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_free) char *text = repeated("", "\n", KG_DOC_BYTES_MAX + 1, "");
    assert_refused(kg_str(text), "1:1: the text has 1048577 bytes; at most 1048576 are read");
}

/* A search through all keys or all tables for each line would take minutes here. */
static void many_keys_and_many_headers_take_no_square_of_time(void **state)
{
    (void)state;
    static const char *const formats[] = {"k%u=1\n", "[a.%u]\n", "[%u.b]\n", "a.k%u=1\n"};
    for (size_t i = 0; i < KG_COUNT(formats); i++) {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        unsigned count = 0;
        while (text.length < KG_DOC_BYTES_MAX - 16)
            kg_buf_printf(&text, formats[i], count++);
        uint64_t start = cpu_ms();
        kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_toml_read(kg_buf_view(&text), NULL);
        assert_non_null(doc);
        assert_true(cpu_ms() - start < 5000);
    }
}

static void array_tables_by_the_hundred_thousand_are_read(void **state)
{
    (void)state;
    kg_auto(kg_free) char *text = repeated("", "[[a.b]]\n", 100000, "");
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = read_text(text);
    assert_int_equal(kg_node_get(kg_node_get(doc->root, "a"), "b")->count, 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_of_toml_test_is_read_or_refused_as_it_says),
        cmocka_unit_test(numbers_are_written_as_json_writes_them),
        cmocka_unit_test(infinities_and_nan_keep_their_names),
        cmocka_unit_test(dates_and_times_keep_their_flavor),
        cmocka_unit_test(tables_that_are_opened_late_land_where_they_belong),
        cmocka_unit_test(line_breaks_within_strings_become_newlines),
        cmocka_unit_test(keys_and_values_know_their_line_and_column),
        cmocka_unit_test(a_key_given_twice_is_refused_with_both_lines),
        cmocka_unit_test(messages_say_what_was_found_and_expected),
        cmocka_unit_test(nesting_past_the_bound_is_refused_in_every_form),
        cmocka_unit_test(text_past_the_bound_is_refused),
        cmocka_unit_test(many_keys_and_many_headers_take_no_square_of_time),
        cmocka_unit_test(array_tables_by_the_hundred_thousand_are_read),
    };
    return cmocka_run_group_tests_name("toml", tests, NULL, NULL);
}
