/* Instances of schemas: what is said to fit fits, what is said to be wrong is wrong. */
#include "kit/generate.h"

#include <setjmp.h>

#include <cmocka.h>

struct made {
    struct kg_doc *document;
    struct schema *schema;
    struct kit_instances valid, invalid;
};

static void make(const char *json, struct made *ret_made)
{
    static const struct schema_options options = {.draft = SCHEMA_DRAFT_2020_12, .formats = true};
    struct kg_err err = {0};
    ret_made->document = kg_json_read(kg_str(json), &err);
    assert_non_null(ret_made->document);
    ret_made->schema = schema_compile(ret_made->document->root, &options, &err);
    if (ret_made->schema == NULL)
        fail_msg("%s", err.message);
    kit_generate_valid(ret_made->document->root, ret_made->schema, &ret_made->valid);
    kit_generate_invalid(ret_made->document->root, ret_made->schema, &ret_made->invalid);
}

static void made_free(struct made *made)
{
    kit_instances_free(&made->valid);
    kit_instances_free(&made->invalid);
    schema_free(made->schema);
    kg_doc_free(made->document);
}

static bool fits(const struct made *made, const char *json)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_str(json), NULL);
    assert_non_null(doc);
    return schema_check(made->schema, doc->root, NULL);
}

static const struct kit_instance *find(const struct kit_instances *instances, const char *what)
{
    for (size_t i = 0; i < instances->count; i++)
        if (strcmp(instances->items[i].what, what) == 0)
            return &instances->items[i];
    return NULL;
}

static void smallest_and_fullest_are_made(void **state)
{
    (void)state;
    struct made made = {0};
    make("{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"integer\","
         "\"minimum\":3},\"b\":{\"enum\":[\"x\",\"y\"]},\"c\":{\"type\":\"array\",\"items\":"
         "{\"type\":\"boolean\"}}}}",
         &made);
    assert_string_equal(made.valid.items[0].json, "{\"a\":3}");
    assert_string_equal(made.valid.items[1].json, "{\"a\":3,\"b\":\"y\",\"c\":[true]}");
    made_free(&made);
}

static void defaults_and_examples_are_used(void **state)
{
    (void)state;
    struct made made = {0};
    make("{\"required\":[\"a\",\"b\"],\"properties\":{\"a\":{\"type\":\"string\",\"default\":"
         "\"usual\"},\"b\":{\"examples\":[\"one\"]}},\"examples\":[{\"a\":\"s\",\"b\":1}]}",
         &made);
    assert_string_equal(made.valid.items[0].json, "{\"a\":\"usual\",\"b\":\"one\"}");
    assert_non_null(find(&made.valid, "an example"));
    made_free(&made);
}

static void references_choices_and_patterns_are_followed(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "{\"required\":[\"a\"],\"properties\":{\"a\":{\"$ref\":\"#/$defs/id\"}},"
        "\"$defs\":{\"id\":{\"type\":\"string\",\"pattern\":\"^tok-[a-f0-9]{4,8}$\"}}}",
        "{\"allOf\":[{\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"number\","
        "\"exclusiveMinimum\":0,\"multipleOf\":0.5}}}]}",
        "{\"required\":[\"a\"],\"properties\":{\"a\":{\"oneOf\":[{\"type\":\"null\"},"
        "{\"type\":\"string\",\"format\":\"uuid\"}]}}}",
        "{\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"string\",\"minLength\":8,"
        "\"pattern\":\"^(GET|POST) \\\\/[a-z]+(?:\\\\?q=\\\\d+)?$\"}}}",
        "{\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"array\",\"minItems\":2,"
        "\"prefixItems\":[{\"const\":1},{\"type\":\"object\",\"required\":[\"x\"]}]}}}",
    };
    for (size_t i = 0; i < KG_COUNT(schemas); i++) {
        struct made made = {0};
        make(schemas[i], &made);
        if (made.valid.count == 0)
            fail_msg("nothing fits %s", schemas[i]);
        made_free(&made);
    }
}

static void wrong_ones_are_wrong_in_one_way_each(void **state)
{
    (void)state;
    struct made made = {0};
    make("{\"type\":\"object\",\"required\":[\"n\"],\"additionalProperties\":false,"
         "\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9},"
         "\"s\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":4}}}",
         &made);
    static const char *const ways[] = {"without \"n\"",     "the wrong type of \"n\"",
                                       "too small a \"n\"", "too large a \"n\"",
                                       "too short a \"s\"", "too long a \"s\""};
    for (size_t i = 0; i < KG_COUNT(ways); i++)
        if (find(&made.invalid, ways[i]) == NULL)
            fail_msg("there is none with %s", ways[i]);
    for (size_t i = 0; i < made.invalid.count; i++)
        assert_false(fits(&made, made.invalid.items[i].json));
    assert_string_equal(find(&made.invalid, "too large a \"n\"")->json,
                        "{\"n\":10,\"s\":\"some\"}");
    made_free(&made);
}

static void schema_that_is_not_understood_gives_nothing_false(void **state)
{
    (void)state;
    struct made made = {0};
    make("{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^(?=.*\\\\d)(?=.*z).{20,}$\"}},"
         "\"required\":[\"a\"],\"not\":{\"required\":[\"b\"]}}",
         &made);
    assert_int_equal(made.valid.count, 0);
    assert_int_equal(made.invalid.count, 0);
    made_free(&made);
    make("true", &made);
    assert_string_equal(made.valid.items[0].json, "{}");
    assert_int_equal(made.invalid.count, 0);
    made_free(&made);
}

static void deep_and_hostile_schemas_end(void **state)
{
    (void)state;
    struct made made = {0};
    make("{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"properties\":{\"a\":{\"$ref\":\"#/$defs/a\"},"
         "\"s\":{\"type\":\"string\",\"minLength\":999999999}}}}}",
         &made);
    assert_true(made.valid.count > 0);
    made_free(&made);
    kg_auto(kg_buf_free) struct kg_buf nested = {0}, sample = {0};
    for (int i = 0; i < 10000; i++)
        kg_buf_text(&nested, "(a{9999}|[b");
    kit_sample_pattern(kg_buf_view(&nested), &sample);
    assert_true(sample.length <= 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smallest_and_fullest_are_made),
        cmocka_unit_test(defaults_and_examples_are_used),
        cmocka_unit_test(references_choices_and_patterns_are_followed),
        cmocka_unit_test(wrong_ones_are_wrong_in_one_way_each),
        cmocka_unit_test(schema_that_is_not_understood_gives_nothing_false),
        cmocka_unit_test(deep_and_hostile_schemas_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
