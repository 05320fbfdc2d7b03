/* JSON Schema: the public suite of both drafts, then messages, bounds, defaults, and speed's
 * promises. */
#include "schema/schema.h"
#include "cpu.h"
#include "suite.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- the suite --------------------------------------------------------------------------------- */

struct tally {
    const struct schema_registry *registry;
    enum schema_draft draft;
    bool formats;
    size_t passed, count;
};

static struct kg_str text_of(const struct kg_node *node, const char *key)
{
    return kg_node_get(node, key)->text;
}

static void run_group(struct tally *tally, const char *path, const struct kg_node *group)
{
    struct schema_options options = {tally->draft, tally->formats, tally->registry};
    struct kg_err err = {0};
    struct schema *schema = schema_compile(kg_node_get(group, "schema"), &options, &err);
    const struct kg_node *tests = kg_node_get(group, "tests");
    for (uint32_t i = 0; i < tests->count; i++) {
        const struct kg_node *test = &tests->items[i];
        const struct kg_node *data = kg_node_get(test, "data");
        bool valid = kg_node_get(test, "valid")->boolean;
        kg_auto(schema_report_free) struct schema_report report = {0};
        bool right = schema != NULL && schema_check(schema, data, &report) == valid &&
                     (report.count == 0) == valid && !report.gave_up;
        tally->count++;
        tally->passed += right;
        if (!right)
            printf("FAILED %s: %.*s: %.*s: %s\n", path, KG_STR_ARG(text_of(group, "description")),
                   KG_STR_ARG(text_of(test, "description")),
                   schema ? valid ? "must fit" : "must not fit" : err.message);
    }
    schema_free(schema);
}

static void run_file(const char *path, struct kg_str text, void *data)
{
    struct kg_err err;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(text, &err);
    if (doc == NULL) {
        fail_msg("%s: %s", path, err.message);
        return;
    }
    for (uint32_t i = 0; i < doc->root->count; i++)
        run_group(data, path, &doc->root->items[i]);
}

static void run_required_file(const char *path, struct kg_str text, void *data)
{
    if (strstr(path, "/optional/") == NULL)
        run_file(path, text, data);
}

struct remotes {
    struct schema_registry *registry;
    size_t root_length;
};

static void add_remote(const char *path, struct kg_str text, void *data)
{
    const struct remotes *remotes = data;
    struct kg_err err;
    kg_auto(kg_free) char *uri =
        kg_format("http://localhost:1234/%s", path + remotes->root_length + 1);
    if (schema_registry_add(remotes->registry, kg_str(uri), text, &err) < 0)
        fail_msg("%s", err.message);
}

static struct schema_registry *suite_registry(const char *suite)
{
    kg_auto(kg_free) char *folder = kg_format("%s/remotes", suite);
    struct remotes remotes = {schema_registry_new(), strlen(folder)};
    suite_each_file(folder, ".json", add_remote, &remotes);
    return remotes.registry;
}

static void run_formats(struct tally *tally, const char *suite, const char *draft)
{
    static const char *const names[] = {"date-time",
                                        "date",
                                        "time",
                                        "duration",
                                        "email",
                                        "hostname",
                                        "ipv4",
                                        "ipv6",
                                        "uri",
                                        "uri-reference",
                                        "uuid",
                                        "regex",
                                        "json-pointer",
                                        "relative-json-pointer",
                                        "ecmascript-regex"};
    for (size_t i = 0; i < KG_COUNT(names); i++) {
        kg_auto(kg_free) char *path =
            kg_format("%s/tests/%s/optional/format/%s.json", suite, draft, names[i]);
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        if (kg_read_file(path, 1 << 20, &text, NULL) == 0) /* draft-07 has no uuid, no duration */
            run_file(path, kg_buf_view(&text), tally);
    }
}

static void run_suite(const char *test, const char *draft_name, enum schema_draft draft)
{
    kg_auto(kg_free) char *suite = suite_path("json-schema-test-suite");
    if (suite == NULL) {
        suite_skip(test, "json-schema-test-suite");
        return;
    }
    struct schema_registry *registry = suite_registry(suite);
    kg_auto(kg_free) char *folder = kg_format("%s/tests/%s", suite, draft_name);
    struct tally required = {registry, draft, false, 0, 0};
    struct tally formats = {registry, draft, true, 0, 0};
    suite_each_file(folder, ".json", run_required_file, &required);
    run_formats(&formats, suite, draft_name);
    schema_registry_free(registry);
    printf("# json-schema-test-suite %s: %zu of %zu required, %zu of %zu formats\n", draft_name,
           required.passed, required.count, formats.passed, formats.count);
    assert_true(required.count > 900 && formats.count > 300);
    assert_int_equal(required.passed, required.count);
    assert_int_equal(formats.passed, formats.count);
}

static void every_required_case_of_draft_2020_12_is_judged_as_it_says(void **state)
{
    (void)state;
    run_suite(__func__, "draft2020-12", SCHEMA_DRAFT_2020_12);
}

static void every_required_case_of_draft_07_is_judged_as_it_says(void **state)
{
    (void)state;
    run_suite(__func__, "draft7", SCHEMA_DRAFT_7);
}

/* -- helpers ----------------------------------------------------------------------------------- */

/* JSON with ' in place of ", so that it can be read here. */
static struct kg_doc *doc_of(const char *text)
{
    kg_auto(kg_free) char *json = kg_strdup(text);
    for (char *at = json; *at != '\0'; at++)
        if (*at == '\'')
            *at = '"';
    struct kg_err err;
    struct kg_doc *doc = kg_json_read(kg_str(json), &err);
    if (doc == NULL)
        fail_msg("%s: %s", json, err.message);
    return doc;
}

static struct schema *compile_text(const char *text, struct kg_err *err)
{
    static const struct schema_options options = {.formats = true};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = doc_of(text);
    return schema_compile(doc->root, &options, err);
}

static struct schema *compiled(const char *text)
{
    struct kg_err err;
    struct schema *schema = compile_text(text, &err);
    if (schema == NULL)
        fail_msg("%s: %s", text, err.message);
    return schema;
}

static bool fits(const char *schema_text, const char *instance_text)
{
    struct schema *schema = compiled(schema_text);
    kg_auto(kg_doc_cleanup) struct kg_doc *instance = doc_of(instance_text);
    bool result = schema_check(schema, instance->root, NULL);
    schema_free(schema);
    return result;
}

static void assert_refused(const char *schema_text, const char *message)
{
    struct kg_err err = {0};
    struct schema *schema = compile_text(schema_text, &err);
    if (schema != NULL)
        fail_msg("%s was taken", schema_text);
    assert_int_equal(err.code, KG_E_INVALID_PARAMS);
    assert_string_equal(err.message, message);
}

/* The same text so many times between two others. */
static char *repeated(const char *before, const char *text, size_t times, const char *after)
{
    struct kg_buf buf = {0};
    kg_buf_text(&buf, before);
    for (size_t i = 0; i < times; i++)
        kg_buf_text(&buf, text);
    kg_buf_text(&buf, after);
    return kg_buf_terminate(&buf);
}

/* -- what errors say --------------------------------------------------------------------------- */

static char *all_errors(const char *schema_text, const char *instance_text)
{
    struct schema *schema = compiled(schema_text);
    kg_auto(kg_doc_cleanup) struct kg_doc *instance = doc_of(instance_text);
    kg_auto(schema_report_free) struct schema_report report = {0};
    struct kg_buf text = {0};
    assert_false(schema_check(schema, instance->root, &report));
    for (size_t i = 0; i < report.count; i++) {
        const struct schema_error *error = &report.errors[i];
        kg_buf_printf(&text, "%s%u:%u %.*s %.*s %.*s", i > 0 ? "\n" : "", error->line,
                      error->column, KG_STR_ARG(error->instance_path),
                      KG_STR_ARG(error->schema_path), KG_STR_ARG(error->message));
    }
    schema_free(schema);
    return kg_buf_terminate(&text);
}

static void assert_errors(const char *schema, const char *instance, const char *expected)
{
    kg_auto(kg_free) char *found = all_errors(schema, instance);
    assert_string_equal(found, expected);
}

static void errors_name_the_place_in_instance_and_schema(void **state)
{
    (void)state;
    assert_errors("{'properties': {'methods': {'items': {'pattern': '^[a-z]+$'}}}}",
                  "{'methods': [\n 'a',\n 'B']}",
                  "3:2 /methods/1 #/properties/methods/items/pattern "
                  "must match the pattern ^[a-z]+$");
    assert_errors("{'$defs': {'n/a': {'type': 'null'}}, 'items': {'$ref': '#/$defs/n~1a'}}", "[1]",
                  "1:2 /0 #/$defs/n~1a/type must be null, not number");
    assert_errors("{'properties': {'a/b~c': false}}", "{'a/b~c': 1}",
                  "1:11 /a~1b~0c #/properties/a~1b~0c is not allowed");
}

static void errors_are_short_sentences(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"{'type': 'string'}", "1", "#/type must be a string, not number"},
        {"{'type': ['integer', 'null']}", "1.5", "#/type must be an integer or null, not 1.5"},
        {"{'required': ['name']}", "{}", "#/required is missing the property \"name\""},
        {"{'enum': ['a', 'b', 3]}", "'c'", "#/enum must be one of \"a\", \"b\", 3"},
        {"{'const': {'a': 1}}", "2", "#/const must be {\"a\":1}"},
        {"{'minimum': 5}", "4", "#/minimum must be at least 5"},
        {"{'exclusiveMaximum': 5}", "5.0", "#/exclusiveMaximum must be below 5"},
        {"{'multipleOf': 0.01}", "0.015", "#/multipleOf must be a multiple of 0.01"},
        {"{'minLength': 2}", "'ü'", "#/minLength must be at least 2 characters long"},
        {"{'maxItems': 1}", "[1, 2]", "#/maxItems must have at most 1 item, not 2"},
        {"{'minProperties': 1}", "{}", "#/minProperties must have at least 1 property, not 0"},
        {"{'uniqueItems': true}", "[1, 2, 1.0]",
         "#/uniqueItems must not have equal items; 0 and 2 are"},
        {"{'prefixItems': [true], 'items': false}", "[1, 2]",
         "#/items must have at most 1 item, not 2"},
        {"{'contains': {'type': 'null'}}", "[1]",
         "#/contains must have at least 1 item that fits \"contains\", not 0"},
        {"{'format': 'ipv4'}", "'1.2.3'", "#/format must be a valid ipv4"},
        {"{'not': {'type': 'null'}}", "null", "#/not must not fit the schema of \"not\""},
        {"{'anyOf': [{'minimum': 5}, {'multipleOf': 2}]}", "3",
         "#/anyOf fits none of the 2 alternatives"},
        {"{'anyOf': [{'type': 'null'}, {'type': 'number', 'minimum': 5}]}", "3",
         "#/anyOf/1/minimum must be at least 5"},
        {"{'oneOf': [true, true]}", "3", "#/oneOf fits more than one of the 2 alternatives"},
        {"{'dependentRequired': {'a': ['b']}}", "{'a': 1}",
         "#/dependentRequired has the property \"a\" and so must have \"b\""},
        {"{'propertyNames': {'maxLength': 2}}", "{'abc': 1}",
         "#/propertyNames/maxLength the property name \"abc\" must be at most 2 characters long"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *found = all_errors(rows[i][0], rows[i][1]);
        assert_string_equal(strchr(found, '#'), rows[i][2]);
    }
}

static void an_unknown_property_is_named_with_the_nearest_known_one(void **state)
{
    (void)state;
    const char *schema = "{'properties': {'name': {}, 'size': {}}, 'additionalProperties': false}";
    assert_errors(schema, "{'name': 1, 'nmae': 2}",
                  "1:13  #/additionalProperties has the unknown property \"nmae\"; "
                  "did you mean \"name\"?");
    assert_errors(schema, "{'qqqqqqqq': 2}",
                  "1:2  #/additionalProperties has the unknown property \"qqqqqqqq\"");
    assert_errors("{'allOf': [{'properties': {'a': {}}}], 'unevaluatedProperties': false}",
                  "{'a': 1, 'b': 2}",
                  "1:10  #/unevaluatedProperties has the unknown property \"b\"");
}

static void all_errors_are_collected(void **state)
{
    (void)state;
    assert_errors("{'properties': {'a': {'type': 'string', 'minLength': 3}, 'b': {'minimum': 2}},"
                  " 'required': ['c']}",
                  "{'a': 'x', 'b': 1}",
                  "1:7 /a #/properties/a/minLength must be at least 3 characters long\n"
                  "1:17 /b #/properties/b/minimum must be at least 2\n"
                  "1:1  #/required is missing the property \"c\"");
}

static void each_limit_has_an_error_of_its_own(void **state)
{
    (void)state;
    assert_errors("{'minimum': 3, 'maximum': 1}", "2",
                  "1:1  #/minimum must be at least 3\n1:1  #/maximum must be at most 1");
    assert_errors("{'minLength': 3, 'maxLength': 1}", "'ab'",
                  "1:1  #/minLength must be at least 3 characters long\n"
                  "1:1  #/maxLength must be at most 1 character long");
    assert_errors("{'minItems': 3, 'maxItems': 1}", "[1, 2]",
                  "1:1  #/minItems must have at least 3 items, not 2\n"
                  "1:1  #/maxItems must have at most 1 item, not 2");
}

static void the_number_of_errors_is_bounded(void **state)
{
    (void)state;
    struct schema *schema = compiled("{'items': {'type': 'string'}}");
    kg_auto(kg_free) char *text = repeated("[0", ",1", 100, "]");
    kg_auto(kg_doc_cleanup) struct kg_doc *instance = doc_of(text);
    kg_auto(schema_report_free) struct schema_report report = {0};
    assert_false(schema_check(schema, instance->root, &report));
    assert_int_equal(report.count, SCHEMA_ERRORS_MAX);
    assert_true(report.truncated && !report.gave_up);
    schema_free(schema);
}

static void hostile_texts_are_cut_and_escaped_in_messages(void **state)
{
    (void)state;
    struct schema *schema = compiled("{'additionalProperties': false}");
    kg_auto(kg_free) char *text = repeated("{'\\u001b[2J", "x", 500, "': 1}");
    kg_auto(kg_doc_cleanup) struct kg_doc *instance = doc_of(text);
    kg_auto(schema_report_free) struct schema_report report = {0};
    assert_false(schema_check(schema, instance->root, &report));
    assert_true(report.errors[0].message.length < 200);
    assert_null(memchr(report.errors[0].message.data, 0x1b, report.errors[0].message.length));
    schema_free(schema);
}

/* -- schemas that are refused ------------------------------------------------------------------ */

static void a_schema_that_is_not_valid_is_refused_with_its_place(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"1", "1:1: #: must be a schema: an object, true or false"},
        {"{'properties': {'x': {'pattern': 1}}}", "1:34: #/properties/x/pattern: must be a string"},
        {"{'type': 'strnig'}", "1:10: #/type: must be one of array, boolean, integer, null, "
                               "number, object, string"},
        {"{'required': ['a', 'a']}", "1:20: #/required: is in the list twice"},
        {"{'minLength': -1}", "1:15: #/minLength: must be an integer of at least 0"},
        {"{'multipleOf': 0}", "1:16: #/multipleOf: must be a number above 0"},
        {"{'items': [true]}",
         "1:11: #/items: must be a schema; a list of them is called prefixItems"},
        {"{'allOf': []}", "1:11: #/allOf: must be an array of at least one schema"},
        {"{'not': 3}", "1:9: #/not: must be a schema: an object, true or false"},
        {"{'$defs': {'a': {'minimum': '1'}}}", "1:29: #/$defs/a/minimum: must be a number"},
        {"{'$ref': '#/x'}", "1:10: #/$ref: \"#/x\" leads nowhere"},
        {"{'enum': [1], '$ref': '#/enum/0'}",
         "1:23: #/$ref: \"#/enum/0\" leads to something that is not a schema"},
        {"{'$ref': 'http://example.com/x.json'}",
         "1:10: #/$ref: \"http://example.com/x.json\" is not known here, and nothing is fetched"},
        {"{'$schema': 'http://json-schema.org/draft-04/schema#'}",
         "1:13: #/$schema: the $schema \"http://json-schema.org/draft-04/schema#\" is not known "
         "here; draft 2020-12 and draft-07 are"},
        {"{'pattern': '(a'}",
         "1:13: #/pattern: is not a usable pattern: missing closing parenthesis"},
        {"{'patternProperties': {'\\\\Z': {}}}", "1:31: #/patternProperties/\\Z: is not a usable "
                                                 "pattern: \\Z is not an escape of ECMA-262"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_refused(rows[i][0], rows[i][1]);
}

static void references_that_only_lead_to_themselves_are_refused(void **state)
{
    (void)state;
    assert_refused("{'$ref': '#'}", "1:1: #: leads back to itself without going into the value");
    assert_refused("{'$defs': {'a': {'anyOf': [{'$ref': '#/$defs/b'}]},"
                   " 'b': {'not': {'$ref': '#/$defs/a'}}}}",
                   "1:66: #/$defs/b/not: leads back to itself without going into the value");
    assert_true(fits("{'properties': {'a': {'$ref': '#'}}}", "{'a': {'a': {}}}"));
}

static void unknown_keywords_are_ignored(void **state)
{
    (void)state;
    assert_true(fits("{'x-note': {'type': 5}, 'sensitive': true}", "1"));
    assert_true(
        fits("{'contentEncoding': 'base64', 'contentMediaType': 'application/json'}", "'%%'"));
}

static void the_draft_is_that_of_the_document_or_of_the_options(void **state)
{
    (void)state;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = doc_of("{'items': [{'type': 'null'}]}");
    struct schema_options options = {.draft = SCHEMA_DRAFT_7};
    struct kg_err err;
    struct schema *schema = schema_compile(doc->root, &options, &err);
    assert_non_null(schema);
    schema_free(schema);
    assert_null(schema_compile(doc->root, NULL, &err));
    assert_true(fits("{'$schema': 'http://json-schema.org/draft-07/schema#',"
                     " '$ref': '#/definitions/a', 'type': 'null', 'definitions': {'a': true}}",
                     "1"));
}

static void registered_documents_can_be_referred_to(void **state)
{
    (void)state;
    struct schema_registry *registry = schema_registry_new();
    struct kg_str uri = KG_STR("http://example.com/size.json");
    struct kg_err err;
    assert_int_equal(schema_registry_add(registry, uri,
                                         KG_STR("{\"$defs\":{\"n\":{\"minimum\":\"1\"},"
                                                "\"m\":{\"maximum\":1}}}"),
                                         &err),
                     0);
    assert_true(schema_registry_add(registry, uri, KG_STR("true"), &err) < 0);
    assert_true(schema_registry_add(registry, KG_STR("x:y"), KG_STR("{"), &err) < 0);
    struct schema_options options = {.registry = registry};
    kg_auto(kg_doc_cleanup) struct kg_doc *good =
        doc_of("{'$ref': 'http://example.com/size.json#/$defs/m'}");
    kg_auto(kg_doc_cleanup) struct kg_doc *bad =
        doc_of("{'$ref': 'http://example.com/size.json#/$defs/n'}");
    struct schema *schema = schema_compile(good->root, &options, &err);
    assert_non_null(schema);
    assert_null(schema_compile(bad->root, &options, &err));
    assert_string_equal(err.message, "1:26: http://example.com/size.json#/$defs/n/minimum: "
                                     "must be a number");
    schema_registry_free(registry);
    schema_free(schema);
}

/* -- numbers, patterns ------------------------------------------------------------------------- */

static void numbers_are_compared_and_divided_as_they_are_written(void **state)
{
    (void)state;
    static const struct {
        const char *schema;
        const char *instance;
        bool fits;
    } rows[] = {
        {"{'maximum': 9007199254740992}", "9007199254740993", false},
        {"{'minimum': -1, 'maximum': 1}", "1", true},
        {"{'minimum': -1, 'maximum': 1}", "-2", false},
        {"{'minimum': 1, 'maximum': 1e0}", "1", true},
        {"{'exclusiveMinimum': 0, 'exclusiveMaximum': 2}", "1", true},
        {"{'exclusiveMinimum': 0, 'exclusiveMaximum': 2}", "2", false},
        {"{'exclusiveMinimum': 9223372036854775807}", "9223372036854775808", true},
        {"{'exclusiveMinimum': 9223372036854775807}", "0", false},
        {"{'exclusiveMaximum': -9223372036854775808}", "0", false},
        {"{'minimum': 2, 'maximum': 0.5}", "1", false},
        {"{'minimum': 999999999999999999}", "999999999999999999", true},
        {"{'minimum': 999999999999999999}", "1000000000000000000", true},
        {"{'maximum': 999999999999999999}", "1000000000000000000", false},
        {"{'const': -0}", "0", true},
        {"{'minimum': 0.1}", "0.1000000000000000000000000001", true},
        {"{'maximum': 0.1}", "0.1000000000000000000000000001", false},
        {"{'minimum': -1e400}", "-1e399", true},
        {"{'minimum': -1e400}", "-1e401", false},
        {"{'const': 1}", "10e-1", true},
        {"{'const': 1e2}", "100.00", true},
        {"{'enum': [0]}", "-0.0", true},
        {"{'type': 'integer'}", "1e308", true},
        {"{'type': 'integer'}", "1e-1", false},
        {"{'type': 'integer'}", "123.000", true},
        {"{'multipleOf': 0.0001}", "0.0075", true},
        {"{'multipleOf': 0.1}", "1.1", true},
        {"{'multipleOf': 0.01}", "4.35", true},
        {"{'multipleOf': 3}", "1e100", false},
        {"{'multipleOf': 7}", "700000000000000000000000000007", true},
        {"{'multipleOf': 1e-300}", "1e300", true},
        {"{'multipleOf': 1e300}", "1e299", false},
        {"{'uniqueItems': true}", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 1.0]", false},
        {"{'uniqueItems': true}", "[{'a': 1, 'b': 2}, {'b': 2, 'a': 1}]", false},
        {"{'minLength': 2.0}", "'ab'", true},
        {"{'minLength': 2}", "'\U0001F600'", false},
        {"{'maxLength': 9}", "'aüüüüüüüü'", true},
        {"{'maxLength': 8}", "'aüüüüüüüü'", false},
        {"{'maximum': 1e99999999999999999999}", "1e999999999999999999999", true},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (fits(rows[i].schema, rows[i].instance) != rows[i].fits)
            fail_msg("%s, %s", rows[i].schema, rows[i].instance);
}

static void patterns_mean_what_ecma_262_says(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *text;
        bool fits;
    } rows[] = {
        {"^\\\\d$", "٣", false},
        {"^[\\\\d-x]$", "-", true},
        {"^[\\\\w.-]+$", "a.b-c", true},
        {"^[^\\\\S]$", "\\u00a0", true},
        {"^\\\\s\\\\S$", "\\ufeffx", true},
        {"^.$", "\\n", false},
        {"^.$", "\\u2028", false},
        {"^.$", "🐲", true},
        {"^\\\\uD83D\\\\uDC32$", "🐲", true},
        {"^\\\\u{1F432}$", "🐲", true},
        {"^\\\\x41\\\\cJ$", "A\\n", true},
        {"a$", "a\\n", false},
        {"^[[:alpha:]\\\\]$", "a]", true},
        {"^[]", "a", false},
        {"^[^]$", "\\n", true},
        {"^(?:(a)|b)\\\\1$", "b", true},
        {"^a\\\\{,2\\\\}$", "a{,2}", true},
        {"^\\\\p{Script=Greek}+$", "αβ", true},
        {"^\\\\p{Lu}\\\\P{Lu}$", "Ab", true},
        {"^\\\\/\\\\-\\\\_$", "/-_", true},
        {"^(?<year>\\\\d{4})-\\\\k<year>$", "2024-2024", true},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *schema = kg_format("{'pattern': '%s'}", rows[i].pattern);
        kg_auto(kg_free) char *text = kg_format("'%s'", rows[i].text);
        if (fits(schema, text) != rows[i].fits)
            fail_msg("%s, %s", schema, text);
    }
}

static void patterns_that_only_pcre2_knows_are_refused(void **state)
{
    (void)state;
    static const char *const patterns[] = {"(*LIMIT_MATCH=1)a",
                                           "(?i)a",
                                           "(?#x)a",
                                           "a++",
                                           "a{2}+",
                                           "\\\\Qa\\\\E",
                                           "a\\\\K",
                                           "\\\\R",
                                           "(?R)",
                                           "(?>a)",
                                           "\\\\p{^Lu}",
                                           "(?P<n>a)",
                                           "\\\\1",
                                           "\\\\N{U+41}",
                                           "[\\\\z]",
                                           "a**"};
    for (size_t i = 0; i < KG_COUNT(patterns); i++) {
        kg_auto(kg_free) char *text = kg_format("{'pattern': '%s'}", patterns[i]);
        struct schema *schema = compile_text(text, NULL);
        if (schema != NULL)
            fail_msg("%s was taken", text);
    }
}

/* Without its u flag ECMA-262 takes some of them, and each engine in a way of its own. */
static void patterns_that_unicode_mode_refuses_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "(?<=a)+b", "(?<!a)*b", "(?=a)?", "(?!a){2}", "((?=a)b(?=c)*)",
        "a{,2}",    "a{",       "a}",     "a]",       "{",
        "^*",       "a|*",      "(+a)",   "$?",       "\\\\b+",
        "a{1,2}{3}"};
    static const char *const good[] = {"(?=a)a?",  "((?=a)a)+",     "(a(?=b))?b", "a{0,2}",
                                       "a{2}?",    "a\\\\{,2\\\\}", "[{}\\\\]]+", "(?:a|b)*",
                                       "(?<n>a)+", "\\\\d{2,}",     "\\\\u{61}+", "^(a)$"};
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        kg_auto(kg_free) char *text = kg_format("{'pattern': '%s'}", bad[i]);
        struct schema *schema = compile_text(text, NULL);
        if (schema != NULL)
            fail_msg("%s was taken", text);
    }
    for (size_t i = 0; i < KG_COUNT(good); i++) {
        kg_auto(kg_free) char *text = kg_format("{'pattern': '%s'}", good[i]);
        schema_free(compiled(text));
    }
}

/* -- defaults ---------------------------------------------------------------------------------- */

static void assert_defaults(const char *schema_text, const char *instance_text,
                            const char *expected_text)
{
    struct schema *schema = compiled(schema_text);
    kg_auto(kg_doc_cleanup) struct kg_doc *instance = doc_of(instance_text);
    kg_auto(kg_doc_cleanup) struct kg_doc *expected = doc_of(expected_text);
    kg_auto(kg_doc_cleanup) struct kg_doc *filled = schema_with_defaults(schema, instance->root);
    kg_auto(kg_buf_free) struct kg_buf found = {0};
    kg_auto(kg_buf_free) struct kg_buf wanted = {0};
    struct kg_json_writer writer = kg_json_writer(&found);
    kg_json_node(&writer, filled->root);
    writer = kg_json_writer(&wanted);
    kg_json_node(&writer, expected->root);
    assert_string_equal(kg_buf_terminate(&found), kg_buf_terminate(&wanted));
    schema_free(schema);
}

static void defaults_are_put_in_where_properties_are_absent(void **state)
{
    (void)state;
    assert_defaults("{'properties': {'a': {'default': 1}, 'b': {'default': [2]}}}", "{'b': 0}",
                    "{'b': 0, 'a': 1}");
    assert_defaults("{'properties': {'a': {'properties': {'b': {'default': 1}}}}}",
                    "{'a': {}, 'c': [{}]}", "{'a': {'b': 1}, 'c': [{}]}");
    assert_defaults("{'default': {}}", "5", "5");
}

static void defaults_are_reached_through_references_and_all_of(void **state)
{
    (void)state;
    assert_defaults("{'$ref': '#/$defs/base', 'allOf': [{'properties': {'b': {'default': 2}}}],"
                    " '$defs': {'base': {'properties': {'a': {'$ref': '#/$defs/one'}}},"
                    " 'one': {'default': 1}}}",
                    "{}", "{'a': 1, 'b': 2}");
    assert_defaults("{'anyOf': [{'properties': {'a': {'default': 1}}}]}", "{}", "{}");
}

static void a_default_is_filled_itself_but_never_within_itself(void **state)
{
    (void)state;
    assert_defaults("{'properties': {'a': {'default': {}, 'properties': {'b': {'default': 1}}}}}",
                    "{}", "{'a': {'b': 1}}");
    assert_defaults("{'properties': {'a': {'$ref': '#', 'default': {}}}}", "{}", "{'a': {}}");
}

/* -- schemas and instances that are made to hurt ----------------------------------------------- */

#define PATIENCE_MS 60000 /* on a busy machine under sanitizers; for ever would be longer */

static void assert_gives_up(const char *schema_text, const char *instance_text)
{
    uint64_t start = cpu_ms();
    struct schema *schema = compiled(schema_text);
    kg_auto(kg_doc_cleanup) struct kg_doc *instance = doc_of(instance_text);
    kg_auto(schema_report_free) struct schema_report report = {0};
    assert_false(schema_check(schema, instance->root, NULL));
    assert_false(schema_check(schema, instance->root, &report));
    assert_true(report.gave_up);
    assert_int_equal(report.count, 1);
    schema_free(schema);
    assert_in_range(cpu_ms() - start, 0, PATIENCE_MS);
}

static void doubling_references_make_the_check_give_up(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, "{'$ref': '#/$defs/a0', '$defs': {");
    for (int i = 0; i < 60; i++)
        kg_buf_printf(&text,
                      "'a%d': {'allOf': [{'$ref': '#/$defs/a%d'}, {'$ref': '#/$defs/a%d'}]},", i,
                      i + 1, i + 1);
    kg_buf_text(&text, "'a60': {'type': 'null'}}}");
    assert_gives_up(kg_buf_terminate(&text), "null");
}

static void a_pattern_that_backtracks_for_ever_makes_the_check_give_up(void **state)
{
    (void)state;
    assert_gives_up("{'pattern': '^(?=a)(a+)+$'}",
                    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'");
    kg_auto(kg_free) char *many =
        repeated("['aaaaaaaaaaaaaaaaaaaaaaaa!'", ",'aaaaaaaaaaaaaaaaaaaaaaaa!'", 2000, "]");
    assert_gives_up("{'items': {'not': {'pattern': '^(?=a)(a+)+$'}}}", many);
}

/* One long default that many properties refer to would be copied for each of them. */
static void defaults_of_a_large_schema_stay_bounded(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, "{'properties': {");
    for (int i = 0; i < 2000; i++)
        kg_buf_printf(&text, "%s'p%d': {'$ref': '#/$defs/long'}", i ? ", " : "", i);
    kg_buf_text(&text, "}, '$defs': {'long': {'default': '");
    for (int i = 0; i < 10000; i++)
        kg_buf_text(&text, "0123456789");
    kg_buf_text(&text, "'}}}");
    struct schema *schema = compiled(kg_buf_terminate(&text));
    kg_auto(kg_doc_cleanup) struct kg_doc *instance = doc_of("{}");
    kg_auto(kg_doc_cleanup) struct kg_doc *filled = schema_with_defaults(schema, instance->root);
    assert_in_range(kg_arena_bytes(filled->arena), 100000, 8 << 20);
    schema_free(schema);
}

static void a_plain_pattern_never_backtracks(void **state)
{
    (void)state;
    struct schema *schema = compiled("{'pattern': '^(a|a+)+$'}");
    kg_auto(kg_free) char *text = repeated("'", "a", 100000, "!'");
    kg_auto(kg_doc_cleanup) struct kg_doc *instance = doc_of(text);
    kg_auto(schema_report_free) struct schema_report report = {0};
    assert_false(schema_check(schema, instance->root, &report));
    assert_false(report.gave_up);
    schema_free(schema);
}

static void a_dynamic_reference_that_goes_round_makes_the_check_give_up(void **state)
{
    (void)state;
    assert_gives_up("{'$dynamicAnchor': 'a', '$dynamicRef': '#a'}", "1");
}

static void many_equal_looking_items_are_compared_in_time(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (int i = 0; i < 100000; i++)
        kg_buf_printf(&text, "%c{'a': %d}", i ? ',' : '[', i);
    kg_buf_text(&text, "]");
    uint64_t start = cpu_ms();
    assert_true(fits("{'uniqueItems': true}", kg_buf_terminate(&text)));
    assert_in_range(cpu_ms() - start, 0, PATIENCE_MS);
}

static void schemas_past_a_bound_are_refused(void **state)
{
    (void)state;
    kg_auto(kg_free) char *values = repeated("{'enum': [0", ",1", 100000, "]}");
    assert_refused(values, "1:10: #/enum: is too long: at most 10000 values");
    kg_auto(kg_free) char *parts = repeated("{'allOf': [true", ",true", 60000, "]}");
    assert_refused(parts,
                   "1:1: #: is too large: at most 50000 subschemas, nested at most 256 deep");
    kg_auto(kg_free) char *pattern = repeated("{'pattern': '", "a", 5000, "'}");
    assert_refused(pattern,
                   "1:13: #/pattern: is not a usable pattern: it is longer than 4096 bytes");
    assert_refused("{'pattern': '(((a{1000}){1000}){1000}){1000}'}",
                   "1:13: #/pattern: is not a usable pattern: regular expression is too large");
}

static void deep_nesting_is_checked_or_refused_without_harm(void **state)
{
    (void)state;
    kg_auto(kg_free) char *open = repeated("", "[", 250, "");
    kg_auto(kg_free) char *deep = repeated(open, "]", 250, "");
    assert_true(fits("{'items': {'$ref': '#'}}", deep));
    assert_true(fits("{'$dynamicAnchor': 'n', 'items': {'$dynamicRef': '#n'},"
                     " 'unevaluatedItems': false}",
                     deep));
    kg_auto(kg_free) char *nots = repeated("", "{'not':", 200, "true");
    kg_auto(kg_free) char *schema = repeated(nots, "}", 200, "");
    assert_true(fits(schema, "1"));
}

static void defaults_that_double_are_bounded(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, "{'$ref': '#/$defs/a0', '$defs': {");
    for (int i = 0; i < 40; i++)
        kg_buf_printf(&text,
                      "'a%d': {'default': {}, 'properties': {'x': {'$ref': '#/$defs/a%d'},"
                      " 'y': {'$ref': '#/$defs/a%d'}}},",
                      i, i + 1, i + 1);
    kg_buf_text(&text, "'a40': {}}}");
    struct schema *schema = compiled(kg_buf_terminate(&text));
    kg_auto(kg_doc_cleanup) struct kg_doc *instance = doc_of("{}");
    kg_auto(kg_doc_cleanup) struct kg_doc *filled = schema_with_defaults(schema, instance->root);
    assert_true(kg_arena_bytes(filled->arena) < (size_t)16 * 1024 * 1024);
    schema_free(schema);
}

/* -- what the passing path promises ------------------------------------------------------------ */

static size_t allocations;

static void count_allocation(const volatile void *pointer, size_t size)
{
    (void)pointer, (void)size;
    allocations++;
}

static void ignore_free(const volatile void *pointer)
{
    (void)pointer;
}

int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *))
    __attribute__((weak));

/* Without a sanitizer only what stays allocated is seen. */
static size_t allocated_so_far(void)
{
    return __sanitizer_install_malloc_and_free_hooks ? allocations : mallinfo2().uordblks;
}

#define RICH_SCHEMA                                                                                \
    "{'type': 'object', 'required': ['name'], 'properties': {'name': {'type': 'string',"           \
    " 'pattern': '^[a-z]+$', 'minLength': 1, 'format': 'hostname'}, 'size': {'type': 'integer',"   \
    " 'minimum': 0, 'multipleOf': 0.5}, 'tags': {'items': {'enum': ['a', 'b', 1]},"                \
    " 'uniqueItems': true, 'contains': {'const': 'a'}}, 'next': {'$ref': '#'}},"                   \
    " 'patternProperties': {'^x-': true}, 'anyOf': [{'properties': {'mode': {'const': 'on'}},"     \
    " 'required': ['mode']}, {'properties': {'size': {}}}], 'if': {'required': ['mode']},"         \
    " 'then': {'properties': {'level': {'type': 'number'}}}, 'unevaluatedProperties': false}"
#define RICH_INSTANCE                                                                              \
    "{'name': 'abc', 'size': 12, 'tags': ['a', 'b', 1.0], 'next': {'name': 'd'}, 'x-y': 1,"        \
    " 'mode': 'on', 'level': 1.5}"

static void a_check_that_passes_allocates_nothing(void **state)
{
    (void)state;
    static bool hooked;
    if (__sanitizer_install_malloc_and_free_hooks && !hooked)
        hooked = __sanitizer_install_malloc_and_free_hooks(count_allocation, ignore_free) > 0;
    struct schema *schema = compiled(RICH_SCHEMA);
    kg_auto(kg_doc_cleanup) struct kg_doc *instance = doc_of(RICH_INSTANCE);
    assert_true(schema_check(schema, instance->root, NULL)); /* the thread's memory for patterns */
    struct schema_report report = {0};
    size_t before = allocated_so_far();
    bool passed = schema_check(schema, instance->root, &report);
    size_t after = allocated_so_far();
    assert_true(before > 0); /* the counter counts */
    assert_true(passed);
    assert_null(report.arena);
    assert_int_equal(after, before);
    schema_free(schema);
}

struct shared {
    const struct schema *schema;
    const struct kg_node *good;
    const struct kg_node *bad;
    size_t right;
};

static void *check_often(void *data)
{
    struct shared *shared = data;
    for (int i = 0; i < 500; i++) {
        kg_auto(schema_report_free) struct schema_report report = {0};
        shared->right += schema_check(shared->schema, shared->good, NULL);
        shared->right += !schema_check(shared->schema, shared->bad, &report) && report.count == 2;
    }
    return NULL;
}

static void threads_share_one_schema(void **state)
{
    (void)state;
    struct schema *schema = compiled(RICH_SCHEMA);
    kg_auto(kg_doc_cleanup) struct kg_doc *good = doc_of(RICH_INSTANCE);
    kg_auto(kg_doc_cleanup) struct kg_doc *bad = doc_of("{'name': 'A', 'size': 0.2}");
    pthread_t threads[4];
    struct shared shared[4];
    for (size_t i = 0; i < KG_COUNT(threads); i++) {
        shared[i] = (struct shared){schema, good->root, bad->root, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, check_often, &shared[i]), 0);
    }
    for (size_t i = 0; i < KG_COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(shared[i].right, 1000);
    }
    schema_free(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_required_case_of_draft_2020_12_is_judged_as_it_says),
        cmocka_unit_test(every_required_case_of_draft_07_is_judged_as_it_says),
        cmocka_unit_test(errors_name_the_place_in_instance_and_schema),
        cmocka_unit_test(errors_are_short_sentences),
        cmocka_unit_test(an_unknown_property_is_named_with_the_nearest_known_one),
        cmocka_unit_test(all_errors_are_collected),
        cmocka_unit_test(each_limit_has_an_error_of_its_own),
        cmocka_unit_test(the_number_of_errors_is_bounded),
        cmocka_unit_test(hostile_texts_are_cut_and_escaped_in_messages),
        cmocka_unit_test(a_schema_that_is_not_valid_is_refused_with_its_place),
        cmocka_unit_test(references_that_only_lead_to_themselves_are_refused),
        cmocka_unit_test(unknown_keywords_are_ignored),
        cmocka_unit_test(the_draft_is_that_of_the_document_or_of_the_options),
        cmocka_unit_test(registered_documents_can_be_referred_to),
        cmocka_unit_test(numbers_are_compared_and_divided_as_they_are_written),
        cmocka_unit_test(patterns_mean_what_ecma_262_says),
        cmocka_unit_test(patterns_that_only_pcre2_knows_are_refused),
        cmocka_unit_test(patterns_that_unicode_mode_refuses_are_refused),
        cmocka_unit_test(defaults_are_put_in_where_properties_are_absent),
        cmocka_unit_test(defaults_are_reached_through_references_and_all_of),
        cmocka_unit_test(a_default_is_filled_itself_but_never_within_itself),
        cmocka_unit_test(doubling_references_make_the_check_give_up),
        cmocka_unit_test(a_pattern_that_backtracks_for_ever_makes_the_check_give_up),
        cmocka_unit_test(defaults_of_a_large_schema_stay_bounded),
        cmocka_unit_test(a_plain_pattern_never_backtracks),
        cmocka_unit_test(a_dynamic_reference_that_goes_round_makes_the_check_give_up),
        cmocka_unit_test(many_equal_looking_items_are_compared_in_time),
        cmocka_unit_test(schemas_past_a_bound_are_refused),
        cmocka_unit_test(deep_nesting_is_checked_or_refused_without_harm),
        cmocka_unit_test(defaults_that_double_are_bounded),
        cmocka_unit_test(a_check_that_passes_allocates_nothing),
        cmocka_unit_test(threads_share_one_schema),
    };
    return cmocka_run_group_tests_name("schema", tests, NULL, NULL);
}
