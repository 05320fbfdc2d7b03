/* What the operator's lines make of a manifest's: what is open, what is closed, and what changes.
 */
#include "manifest/grants.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define DECLARED(...) ((char *[]){__VA_ARGS__, NULL})

/* What it may do with these declared lines under such a [grants.p]; project: NULL or its name. */
static struct grants make(char *const *declared, const char *toml, const char *project)
{
    struct kg_err err = {0};
    kg_auto(capability_set_free) struct capability_set set = {0};
    kg_auto(capability_remarks_free) struct capability_remarks remarks = {0};
    struct grants grants = {0};
    if (capability_set_parse(declared, &set, &remarks, &err) < 0)
        fail_msg("%s", err.message);
    struct local *local = local_read(kg_str(toml), LOCAL_LEAVE, &err);
    if (local == NULL || grants_make(&set, local, "p", project, &grants, &err) < 0)
        fail_msg("%s", err.message);
    local_free(local);
    return grants;
}

static struct capability parse(const char *text)
{
    struct kg_err err = {0};
    struct capability line = {0};
    if (capability_parse(kg_str(text), &line, &err) < 0)
        fail_msg("%s", err.message);
    return line;
}

static bool may(const struct grants *grants, const char *text)
{
    kg_auto(capability_free) struct capability line = parse(text);
    return grants_cover(grants, &line);
}

/* "a b" */
static void assert_lines(char *const *lines, const char *wanted)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (; *lines != NULL; lines++)
        kg_buf_printf(&text, "%s%s", text.length > 0 ? " " : "", *lines);
    assert_string_equal(kg_buf_terminate(&text), wanted);
}

/* -- what it may do ---------------------------------------------------------------------------- */

static void line_of_the_operator_stands_behind_the_declared_ones(void **state)
{
    (void)state;
    kg_auto(grants_free) struct grants grants =
        make(DECLARED("read:fs:/srv/a"),
             "[grants.p]\nallow = [\"read:fs:/srv/b\", \"read:fs:/srv/a\"]\n"
             "[grants.q]\nallow = [\"read:fs:/srv/c\"]\n",
             NULL);
    assert_int_equal(grants.declared, 1);
    assert_lines(grants.texts, "read:fs:/srv/a read:fs:/srv/b");
    assert_true(may(&grants, "read:fs:/srv/b/deep"));
    assert_false(may(&grants, "write:fs:/srv/b"));
    assert_false(may(&grants, "read:fs:/srv/c"));
}

/* A row: what is declared, what is closed, something that is asked, and whether it may. */
static void what_is_closed_is_taken_with_all_below_and_nothing_beside(void **state)
{
    (void)state;
    static const struct {
        const char *declared, *closed, *asked;
        bool may;
    } rows[] = {
        {"read:fs:/srv", "read:fs:/srv", "read:fs:/srv/x", false},
        {"read:fs:/srv/a", "read:fs:/srv", "read:fs:/srv/a", false},
        {"read:fs:/srv", "read:fs:/srv/a", "read:fs:/srv/a", false},
        {"read:fs:/srv", "read:fs:/srv/a", "read:fs:/srv/a/b", false},
        {"read:fs:/srv", "read:fs:/srv/a", "read:fs:/srv/ab", true},
        {"read:fs:/srv", "read:fs:/srv/a", "read:fs:/srv", true},
        {"write:fs:/srv", "write:fs:/srv/a", "write:fs:/srv/a", false},
        {"write:fs:/srv", "write:fs:/srv/a", "write:fs:/srv/b", true},
        {"write:fs:/srv", "read:fs:/srv/a", "write:fs:/srv/a/b", false},
        {"read:fs:/srv", "write:fs:/srv", "read:fs:/srv", true},
        {"net:*", "net:a.example:443", "net:a.example:443", false},
        {"net:*", "net:a.example:443", "net:a.example:80", true},
        {"net:a.example:*", "net:a.example:443", "net:a.example:443", false},
        {"net:a.example:443", "net:*", "net:a.example:443", false},
        {"net:a.example:443", "net:b.example:443", "net:a.example:443", true},
        {"kaged:storage:write", "kaged:storage:read", "kaged:storage:write", false},
        {"kaged:storage:write", "kaged:storage:write", "kaged:storage:write", false},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *toml = kg_format("[grants.p]\ndeny = [\"%s\"]\n", rows[i].closed);
        char *declared[] = {(char *)rows[i].declared, NULL};
        kg_auto(grants_free) struct grants grants = make(declared, toml, NULL);
        if (may(&grants, rows[i].asked) != rows[i].may)
            fail_msg("%s without %s: %s", rows[i].declared, rows[i].closed, rows[i].asked);
    }
}

static void line_for_a_project_counts_in_that_project_alone(void **state)
{
    (void)state;
    static const char toml[] = "[grants.p]\nallow = [\"read:fs:/srv/all\"]\n"
                               "[grants.p.projects.site]\nallow = [\"read:fs:/srv/site\"]\n"
                               "deny = [\"read:fs:/srv/all\"]\n";
    kg_auto(grants_free) struct grants nobody = make(DECLARED("net:[]"), toml, NULL);
    kg_auto(grants_free) struct grants site = make(DECLARED("net:[]"), toml, "site");
    kg_auto(grants_free) struct grants other = make(DECLARED("net:[]"), toml, "other");
    assert_true(may(&nobody, "read:fs:/srv/all") && !may(&nobody, "read:fs:/srv/site"));
    assert_true(!may(&site, "read:fs:/srv/all") && may(&site, "read:fs:/srv/site"));
    assert_true(may(&other, "read:fs:/srv/all") && !may(&other, "read:fs:/srv/site"));
    assert_true(grants_equal(&nobody, &other));
    assert_false(grants_equal(&nobody, &site));
}

static void line_that_is_none_is_named_with_its_table(void **state)
{
    (void)state;
    static const char *const bad[] = {"read:fs:relative", "fly:high", "net:[]", ""};
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        kg_auto(kg_free) char *toml = kg_format("[grants.p]\ndeny = [\"%s\"]\n", bad[i]);
        struct kg_err err = {0};
        struct local *local = local_read(kg_str(toml), LOCAL_LEAVE, &err);
        assert_non_null(local);
        assert_true(grants_check(local, "p", &err) < 0);
        assert_int_equal(err.code, KG_E_INVALID_CONFIG);
        assert_non_null(strstr(err.message, "[grants.p] in local.toml"));
        assert_int_equal(grants_check(local, "q", &err), 0);
        local_free(local);
    }
}

/* -- what changes ------------------------------------------------------------------------------ */

/* One grant or revocation over the lines that are there; "" for a refusal: its reason. */
static void assert_change(char *const *declared, const char *toml, const char *act,
                          const char *line, const char *allow, const char *deny, const char *reason)
{
    struct kg_err err = {0};
    kg_auto(grants_free) struct grants before = make(declared, toml, NULL);
    kg_auto(capability_free) struct capability wanted = parse(line);
    struct local *local = local_read(kg_str(toml), LOCAL_LEAVE, &err);
    const struct local_grant *grant = local->grant_count > 0 ? &local->grants[0] : NULL;
    kg_auto(grants_lines_free) struct grants_lines lines = {
        grant ? kg_list_copy((const char *const *)grant->allow) : kg_list_new(0),
        grant ? kg_list_copy((const char *const *)grant->deny) : kg_list_new(0)};
    local_free(local);
    bool grants = strcmp(act, "grant") == 0;
    int result = (grants ? grants_allow : grants_deny)(&before, "p", &wanted, &lines, &err);
    assert_int_equal(result < 0, reason != NULL);
    if (reason != NULL) {
        assert_int_equal(err.code, KG_E_CONFLICT);
        assert_non_null(strstr(err.message, reason));
        return;
    }
    assert_lines(lines.allow, allow);
    assert_lines(lines.deny, deny);
}

static void grant_adds_what_is_missing_and_takes_back_what_was_closed(void **state)
{
    (void)state;
    char **none = DECLARED("net:[]"), **all = DECLARED("read:fs:/srv");
    assert_change(none, "", "grant", "read:fs:/a", "read:fs:/a", "", NULL);
    assert_change(all, "", "grant", "read:fs:/srv/x", NULL, NULL, "it may already do that");
    assert_change(none, "[grants.p]\nallow = [\"read:fs:/a\"]\n", "grant", "read:fs:/a/b", NULL,
                  NULL, "it may already do that");
    assert_change(all, "[grants.p]\ndeny = [\"read:fs:/srv\"]\n", "grant", "read:fs:/srv", "", "",
                  NULL);
    assert_change(all, "[grants.p]\ndeny = [\"read:fs:/srv/x\"]\n", "grant", "read:fs:/srv/x", "",
                  "", NULL);
    assert_change(all, "[grants.p]\ndeny = [\"read:fs:/srv/x\"]\n", "grant", "read:fs:/srv/x/y",
                  NULL, NULL, "it is inside what you closed");
}

/* A line that was closed by a wider one stays closed when only a part is opened. */
static void grant_opens_no_more_than_it_names(void **state)
{
    (void)state;
    char **declared = DECLARED("net:a.example:443", "net:b.example:443");
    assert_change(declared, "[grants.p]\ndeny = [\"net:*\"]\n", "grant", "net:a.example:443", NULL,
                  NULL, "it is inside what you closed");
    assert_change(declared, "[grants.p]\ndeny = [\"net:a.example:443\", \"net:b.example:443\"]\n",
                  "grant", "net:a.example:443", "", "net:b.example:443", NULL);
}

static void revocation_takes_the_operators_line_out_and_closes_a_declared_one(void **state)
{
    (void)state;
    char **none = DECLARED("net:[]"), **all = DECLARED("read:fs:/srv");
    assert_change(none, "[grants.p]\nallow = [\"read:fs:/a\"]\n", "revoke", "read:fs:/a", "", "",
                  NULL);
    assert_change(none, "[grants.p]\nallow = [\"read:fs:/a\"]\n", "revoke", "read:fs:/a/b",
                  "read:fs:/a", "read:fs:/a/b", NULL);
    assert_change(all, "", "revoke", "read:fs:/srv", "", "read:fs:/srv", NULL);
    assert_change(all, "[grants.p]\ndeny = [\"read:fs:/srv/x\"]\n", "revoke", "read:fs:/srv", "",
                  "read:fs:/srv", NULL);
    assert_change(all, "[grants.p]\ndeny = [\"read:fs:/srv\"]\n", "revoke", "read:fs:/srv/x", NULL,
                  NULL, "it is already closed");
    assert_change(all, "", "revoke", "read:fs:/etc/x", NULL, NULL, "it may not do that");
    assert_change(none, "", "revoke", "kaged:storage:read", NULL, NULL, "it may not do that");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_of_the_operator_stands_behind_the_declared_ones),
        cmocka_unit_test(what_is_closed_is_taken_with_all_below_and_nothing_beside),
        cmocka_unit_test(line_for_a_project_counts_in_that_project_alone),
        cmocka_unit_test(line_that_is_none_is_named_with_its_table),
        cmocka_unit_test(grant_adds_what_is_missing_and_takes_back_what_was_closed),
        cmocka_unit_test(grant_opens_no_more_than_it_names),
        cmocka_unit_test(revocation_takes_the_operators_line_out_and_closes_a_declared_one),
    };
    return cmocka_run_group_tests_name("grants", tests, NULL, NULL);
}
