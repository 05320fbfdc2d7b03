/* Versions and ranges: the order of the specification, and npm's reading of ranges. */
#include "base/semver.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct kg_semver must_parse(const char *text)
{
    struct kg_semver version = {0};
    if (!kg_semver_parse(kg_str(text), &version))
        fail_msg("%s is no version", text);
    return version;
}

/* -- versions ---------------------------------------------------------------------------------- */

static void a_version_has_three_numbers_and_words(void **state)
{
    (void)state;
    struct kg_semver version = must_parse("1.20.300-rc.1+build.5");
    assert_int_equal(version.number[0], 1);
    assert_int_equal(version.number[1], 20);
    assert_int_equal(version.number[2], 300);
    assert_true(kg_str_is(version.prerelease, "rc.1"));
    assert_true(kg_str_is(version.build, "build.5"));
}

static void what_is_no_version_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "1",
        "1.2",
        "1.2.3.4",
        "v1.2.3",
        "01.2.3",
        "1.02.3",
        "1.2.03",
        "1.2.3-",
        "1.2.3-01",
        "1.2.3-a.",
        "1.2.3+",
        "1.2.3-a..b",
        "1.2.x",
        " 1.2.3",
        "1.2.3 ",
        "-1.2.3",
        "1.2.3-a_b",
        "1.2.3+a+b",
        "1..3",
        "1.2.9007199254740992",
        "1.2.99999999999999999999",
    };
    for (size_t i = 0; i < KG_COUNT(texts); i++) {
        struct kg_semver version;
        if (kg_semver_parse(kg_str(texts[i]), &version))
            fail_msg("\"%s\" was taken", texts[i]);
    }
    assert_int_equal(must_parse("1.2.9007199254740991").number[2], KG_SEMVER_NUMBER_MAX);
}

static void an_endless_version_is_refused(void **state)
{
    (void)state;
    char text[KG_SEMVER_BYTES_MAX + 2];
    snprintf(text, sizeof(text), "1.2.3-%0*d", KG_SEMVER_BYTES_MAX, 1);
    memset(text + 6, 'a', sizeof(text) - 7);
    struct kg_semver version;
    assert_false(kg_semver_parse(kg_str(text), &version));
}

/* The list of semver.org, item 11, and what lies between. */
static void versions_have_one_order(void **state)
{
    (void)state;
    static const char *const ascending[] = {
        "0.0.0-0",
        "0.0.0",
        "0.0.1",
        "0.1.0",
        "1.0.0-0",
        "1.0.0-1",
        "1.0.0-2",
        "1.0.0-10",
        "1.0.0-99999999999999999999999",
        "1.0.0--",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.1",
        "1.9.0",
        "1.10.0",
        "1.11.0",
        "2.0.0",
    };
    for (size_t i = 0; i < KG_COUNT(ascending); i++) {
        for (size_t k = 0; k < KG_COUNT(ascending); k++) {
            struct kg_semver a = must_parse(ascending[i]), b = must_parse(ascending[k]);
            int order = kg_semver_compare(&a, &b);
            if ((order > 0) != (i > k) || (order < 0) != (i < k))
                fail_msg("%s and %s: %d", ascending[i], ascending[k], order);
        }
    }
}

static void build_metadata_counts_for_nothing(void **state)
{
    (void)state;
    struct kg_semver a = must_parse("1.0.0+a"), b = must_parse("1.0.0+b");
    assert_int_equal(kg_semver_compare(&a, &b), 0);
}

/* -- ranges ------------------------------------------------------------------------------------ */

struct row {
    const char *range;
    const char *in, *out; /* versions, with blanks between them */
};

static const struct row rows[] = {
    {"1.2.3", "1.2.3 1.2.3+b", "1.2.4 1.2.2 1.2.3-a"},
    {"=1.2.3", "1.2.3", "1.2.4"},
    {"v1.2.3", "1.2.3", "1.2.4"},
    {"", "0.0.0 9.9.9", "1.0.0-a"},
    {"*", "0.0.0 9.9.9", "1.0.0-a"},
    {"x", "0.0.0 9.9.9", "1.0.0-a"},
    {"1", "1.0.0 1.9.9", "0.9.9 2.0.0 2.0.0-0 1.5.0-a"},
    {"1.x", "1.0.0 1.9.9", "0.9.9 2.0.0"},
    {"1.2", "1.2.0 1.2.9", "1.1.9 1.3.0"},
    {"1.2.X", "1.2.0 1.2.9", "1.1.9 1.3.0"},
    {"1.2.*", "1.2.0 1.2.9", "1.1.9 1.3.0"},
    {"^1.2.3", "1.2.3 1.9.0", "1.2.2 2.0.0 1.2.3-a 1.3.0-a 2.0.0-0"},
    {"^0.2.3", "0.2.3 0.2.9", "0.2.2 0.3.0 1.0.0"},
    {"^0.0.3", "0.0.3", "0.0.2 0.0.4 0.1.0"},
    {"^1.2", "1.2.0 1.9.0", "1.1.9 2.0.0"},
    {"^0.1", "0.1.0 0.1.9", "0.0.9 0.2.0"},
    {"^0.0", "0.0.0 0.0.9", "0.1.0"},
    {"^0", "0.0.0 0.9.9", "1.0.0"},
    {"^1.x", "1.0.0 1.9.9", "2.0.0"},
    {"^1.2.3-beta.2", "1.2.3-beta.2 1.2.3-beta.10 1.2.3 1.3.0", "1.2.3-beta.1 1.2.4-beta.3 2.0.0"},
    {"~1.2.3", "1.2.3 1.2.9", "1.2.2 1.3.0"},
    {"~1.2", "1.2.0 1.2.9", "1.1.9 1.3.0"},
    {"~1", "1.0.0 1.9.9", "0.9.9 2.0.0"},
    {"~>1.2.3", "1.2.3 1.2.9", "1.3.0"},
    {"~0.2.3", "0.2.3 0.2.9", "0.3.0"},
    {"~1.2.3-beta.2", "1.2.3-beta.3 1.2.9", "1.2.4-beta.2 1.3.0"},
    {">1.2.3", "1.2.4 2.0.0", "1.2.3 1.2.4-a"},
    {">=1.2.3", "1.2.3 2.0.0", "1.2.2"},
    {"<1.2.3", "1.2.2 0.0.0", "1.2.3 1.2.3-a"},
    {"<=1.2.3", "1.2.3 0.0.0", "1.2.4"},
    {">1.2", "1.3.0", "1.2.9 1.2.0"},
    {">1", "2.0.0", "1.9.9"},
    {"<1.2", "1.1.9", "1.2.0 1.2.0-a"},
    {"<=1.2", "1.2.9", "1.3.0"},
    {"<=1", "1.9.9", "2.0.0"},
    {">=1", "1.0.0", "0.9.9"},
    {">*", "", "0.0.0 1.0.0"},
    {"<*", "", "0.0.0 1.0.0"},
    {">=*", "0.0.0 1.0.0", ""},
    {">= 1.2", "1.2.0", "1.1.9"},
    {">=1.2 <3", "1.2.0 2.9.9", "1.1.9 3.0.0"},
    {">1.2.3-alpha.3", "1.2.3-alpha.7 3.4.5", "3.4.5-alpha.9 1.2.3-alpha.3"},
    {"1.2.3 - 2.3.4", "1.2.3 2.3.4", "1.2.2 2.3.5"},
    {"1.2 - 2.3.4", "1.2.0 2.3.4", "1.1.9 2.3.5"},
    {"1.2.3 - 2.3", "1.2.3 2.3.9", "2.4.0"},
    {"1.2.3 - 2", "1.2.3 2.9.9", "3.0.0"},
    {"1.2.3 || 2.x", "1.2.3 2.0.0", "1.2.4 3.0.0"},
    {"1.2.3||>=2 <2.5||9", "1.2.3 2.4.9 9.1.1", "2.5.0 8.0.0"},
    {"1 || ", "0.0.0 5.0.0", ""},
    {"  ^1.2.3  ", "1.2.3", "2.0.0"},
    /* A set with a prerelease does not open the other one for prereleases. */
    {"^1.2.3-a || >=2", "1.2.3-b 2.0.0", "2.0.0-b"},
};

static void check_versions(const struct row *row, const char *versions, bool wanted)
{
    struct kg_err err = {0};
    struct kg_semver_range *range = kg_semver_range_parse(kg_str(row->range), &err);
    if (range == NULL)
        fail_msg("%s", err.message);
    kg_auto(kg_free) char *copy = kg_strdup(versions);
    char *rest = copy;
    for (char *text; (text = strsep(&rest, " ")) != NULL;) {
        if (*text == '\0')
            continue;
        struct kg_semver version = must_parse(text);
        if (kg_semver_range_has(range, &version) != wanted)
            fail_msg("%s is %sin \"%s\"", text, wanted ? "not " : "", row->range);
    }
    kg_semver_range_free(range);
}

static void ranges_read_as_npm_reads_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        check_versions(&rows[i], rows[i].in, true);
        check_versions(&rows[i], rows[i].out, false);
    }
}

static void what_is_no_range_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "banana",
        "1.2.3.4",
        ">",
        "^",
        "1..2",
        "01.2.3",
        ">=1.2.3 foo",
        "1.2.3-01",
        "1.2.3-",
        "|",
        "1 | 2",
        "1 |||2",
        "1,2",
        ">>1",
        "=>1",
        "!1",
        "1 - ",
        "- 1",
        "^^1",
        "1.2.3+",
        "1.x-",
        "latest",
        "1.99999999999999999999.0",
    };
    for (size_t i = 0; i < KG_COUNT(texts); i++) {
        struct kg_err err = {0};
        struct kg_semver_range *range = kg_semver_range_parse(kg_str(texts[i]), &err);
        if (range != NULL)
            fail_msg("\"%s\" was taken", texts[i]);
        assert_int_equal(err.code, KG_E_USAGE);
        assert_non_null(strstr(err.message, "is not a range of versions"));
    }
}

static void a_range_of_too_many_parts_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (int i = 0; i <= KG_SEMVER_RANGE_MAX; i++)
        kg_buf_text(&text, "1||");
    assert_true(text.length < KG_SEMVER_BYTES_MAX);
    assert_null(kg_semver_range_parse(kg_buf_view(&text), NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_version_has_three_numbers_and_words),
        cmocka_unit_test(what_is_no_version_is_refused),
        cmocka_unit_test(an_endless_version_is_refused),
        cmocka_unit_test(versions_have_one_order),
        cmocka_unit_test(build_metadata_counts_for_nothing),
        cmocka_unit_test(ranges_read_as_npm_reads_them),
        cmocka_unit_test(what_is_no_range_is_refused),
        cmocka_unit_test(a_range_of_too_many_parts_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
