/* Why there are no user namespaces is told apart, and the verdict follows from the rows. */
#include "cage/internal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- user namespaces --------------------------------------------------------------------------- */

/* What a machine without any of the switches shows. */
#define NOTHING_KNOWN .said = "", .max = -1, .unprivileged_clone = -1, .apparmor_restricts = -1

static const struct {
    struct cage_userns seen;
    const char *detail, *remedy; /* parts of them */
} causes[] = {
    {{NOTHING_KNOWN, .cannot_drop = true}, "65534", "ordinary user"},
    {{.said = "", .max = 0, .unprivileged_clone = 0, .unshare_errno = ENOSPC},
     "max_user_namespaces is 0",
     "sysctl -w user.max_user_namespaces="},
    {{.said = "", .max = 100, .unprivileged_clone = 0, .unshare_errno = EPERM},
     "unprivileged_userns_clone is 0",
     "sysctl -w kernel.unprivileged_userns_clone=1"},
    {{.said = "", .max = 100, .unprivileged_clone = 1, .unshare_errno = ENOSPC},
     "no more",
     "raise user.max_user_namespaces"},
    {{NOTHING_KNOWN, .unshare_errno = EINVAL}, "has no user namespaces", "CONFIG_USER_NS"},
    /* Ubuntu lets one be made, and takes every right away in it. */
    {{.said = "setting up uid map: Permission denied",
      .max = 100,
      .unprivileged_clone = 1,
      .apparmor_restricts = 1},
     "AppArmor",
     "/etc/apparmor.d/kaged-spawner"},
    {{NOTHING_KNOWN, .unshare_errno = EPERM}, "forbidden", "seccomp=unconfined"},
    {{.said = "Can't mount proc on /newroot/proc: Operation not permitted",
      .max = 100,
      .unprivileged_clone = 1,
      .apparmor_restricts = -1,
      .proc_masked = true},
     "/proc",
     "systempaths=unconfined"},
    {{NOTHING_KNOWN}, "could not build", "user.max_user_namespaces"},
};

static void cause_of_missing_user_namespaces_is_told_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < KG_COUNT(causes); i++) {
        const struct cage_userns_cause *cause = cage_userns_cause(&causes[i].seen);
        if (strstr(cause->detail, causes[i].detail) == NULL ||
            strstr(cause->remedy, causes[i].remedy) == NULL)
            fail_msg("row %zu: %s; %s", i, cause->detail, cause->remedy);
    }
}

/* It would free every program that uses bwrap. */
static void no_remedy_gives_bwrap_a_profile(void **state)
{
    (void)state;
    for (size_t i = 0; i < KG_COUNT(causes); i++)
        assert_null(strstr(cage_userns_cause(&causes[i].seen)->remedy, "bwrap"));
}

static void every_remedy_fits_a_hint(void **state)
{
    (void)state;
    for (size_t i = 0; i < KG_COUNT(causes); i++)
        assert_true(strlen(cage_userns_cause(&causes[i].seen)->remedy) <
                    sizeof(((struct kg_err *)0)->hint));
}

/* -- the verdict ------------------------------------------------------------------------------- */

static void add(struct cage_checks *checks, const char *name, enum cage_status status)
{
    kg_auto(kg_free) char *detail = kg_format("detail of %s", name);
    cage_checks_add(checks, name, status, detail, NULL, NULL);
}

static void assert_words(const struct cage_checks *checks, const char *expected)
{
    kg_auto(kg_free) char *words = cage_checks_words(checks);
    assert_string_equal(words, expected);
}

static void words_name_what_is_lacking(void **state)
{
    (void)state;
    kg_auto(cage_checks_free) struct cage_checks checks = {0};
    add(&checks, "one", CAGE_STATUS_OK);
    assert_words(&checks, "full");
    add(&checks, "two", CAGE_STATUS_DEGRADED);
    add(&checks, "three", CAGE_STATUS_DEGRADED);
    assert_words(&checks, "degraded: two, three");
    add(&checks, "four", CAGE_STATUS_MISSING);
    add(&checks, "five", CAGE_STATUS_MISSING);
    assert_words(&checks, "none: detail of four");
}

static void facts_and_rows_agree(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(cage_checks_free) struct cage_checks checks = {0};
    struct cage_facts *facts = cage_facts_check(&(struct cage_site){0}, &checks, &err);
    assert_int_equal(facts == NULL, cage_checks_worst(&checks) == CAGE_STATUS_MISSING);
    for (size_t i = 0; i < checks.count; i++) {
        bool is_ok = checks.items[i].status == CAGE_STATUS_OK;
        assert_true(checks.items[i].detail[0] != '\0');
        assert_int_equal(is_ok, checks.items[i].means[0] == '\0');
        assert_true(is_ok || checks.items[i].remedy[0] != '\0');
    }
    cage_facts_free(facts);
}

static void folder_that_cannot_be_made_is_missing(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(cage_checks_free) struct cage_checks checks = {0};
    const char *const folders[] = {"/tmp", "/proc/1/no-such-folder/below", NULL};
    struct cage_site site = {.folders = folders};
    struct cage_facts *facts = cage_facts_check(&site, &checks, &err);
    assert_null(facts);
    assert_non_null(strstr(err.message, "/proc/1/no-such-folder/below"));
}

/* -- the owner --------------------------------------------------------------------------------- */

static void owner_travels_as_words(void **state)
{
    (void)state;
    struct cage_owner owner = {.uid = 12, .gid = 34, .groups = {34, 56}, .group_count = 2}, back;
    kg_auto(kg_free) char *groups = cage_owner_groups_text(&owner);
    assert_string_equal(groups, "34,34,56");
    assert_true(cage_owner_parse("12", groups, &back));
    assert_int_equal(back.uid, 12);
    assert_int_equal(back.gid, 34);
    assert_int_equal(back.group_count, 2);
    assert_int_equal(back.groups[1], 56);
}

static void owner_that_is_not_whole_is_refused(void **state)
{
    (void)state;
    struct cage_owner owner;
    static const char *const wrong[][2] = {{"", "1"},           {"1", ""},    {"-1", "1"},
                                           {"1", "4294967295"}, {"1", "1,"},  {"1,2", "1"},
                                           {"x", "1"},          {"1", "1,,2"}};
    for (size_t i = 0; i < KG_COUNT(wrong); i++)
        assert_false(cage_owner_parse(wrong[i][0], wrong[i][1], &owner));
    kg_auto(kg_buf_free) struct kg_buf many = {0};
    kg_buf_text(&many, "1");
    for (size_t i = 0; i <= CAGE_GROUPS_MAX; i++)
        kg_buf_text(&many, ",2");
    assert_false(cage_owner_parse("1", kg_buf_terminate(&many), &owner));
}

static void unknown_user_is_no_owner(void **state)
{
    (void)state;
    struct cage_owner owner;
    struct kg_err err = {0};
    assert_true(cage_owner_find("no-such-user", &owner, &err) < 0);
    assert_non_null(strstr(err.message, "no-such-user"));
    assert_int_equal(cage_owner_find("root", &owner, &err), 0);
    assert_int_equal(owner.uid, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(cause_of_missing_user_namespaces_is_told_apart),
        cmocka_unit_test(no_remedy_gives_bwrap_a_profile),
        cmocka_unit_test(every_remedy_fits_a_hint),
        cmocka_unit_test(words_name_what_is_lacking),
        cmocka_unit_test(facts_and_rows_agree),
        cmocka_unit_test(folder_that_cannot_be_made_is_missing),
        cmocka_unit_test(owner_travels_as_words),
        cmocka_unit_test(owner_that_is_not_whole_is_refused),
        cmocka_unit_test(unknown_user_is_no_owner),
    };
    return cmocka_run_group_tests_name("cage checks", tests, NULL, NULL);
}
