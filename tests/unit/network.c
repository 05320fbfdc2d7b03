/* The network of a plan: which listeners a policy gives, and the files that name them. */
#include "cage/internal.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

static struct cage_facts with_nft = {.nft = "/usr/sbin/nft"};
static struct cage_facts without_nft = {.nft = NULL};

static struct cage_plan *empty_plan(void)
{
    struct cage_plan *plan = kg_alloc(sizeof(*plan));
    plan->network.nft = kg_strdup("");
    return plan;
}

static void free_plan(struct cage_plan **plan)
{
    cage_plan_free(*plan);
}

static int plan_network(const struct cage_reach *reaches, size_t count,
                        const struct cage_facts *facts, struct cage_plan *plan, struct kg_err *err)
{
    struct cage_policy policy = {.name = "web", .reaches = reaches, .reach_count = count};
    return cage_network_plan(&policy, facts, plan, err);
}

static void expect_listeners(const struct cage_reach *reaches, size_t count, const char *expected)
{
    struct kg_err err = {0};
    kg_auto(free_plan) struct cage_plan *plan = empty_plan();
    if (plan_network(reaches, count, &with_nft, plan, &err) < 0)
        fail_msg("%s", err.message);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    cage_network_print(&plan->network, &text);
    assert_string_equal(kg_buf_terminate(&text), expected);
}

static void expect_refused(const struct cage_reach *reaches, size_t count,
                           const struct cage_facts *facts, const char *message)
{
    struct kg_err err = {0};
    kg_auto(free_plan) struct cage_plan *plan = empty_plan();
    assert_true(plan_network(reaches, count, facts, plan, &err) < 0);
    assert_string_equal(err.message, message);
}

#define REACHES(...)                                                                               \
    (const struct cage_reach[]){__VA_ARGS__},                                                      \
        sizeof((const struct cage_reach[]){__VA_ARGS__}) / sizeof(struct cage_reach)

/* -- listeners --------------------------------------------------------------------------------- */

static void each_name_has_one_address(void **state)
{
    (void)state;
    expect_listeners(REACHES({"api.test", 443}, {"git.test", 22}, {"api.test", 80}),
                     "listen 198.18.0.2:443 for api.test\n"
                     "listen 198.18.0.3:22 for git.test\n"
                     "listen 198.18.0.2:80 for api.test\n");
}

static void duplicates_count_once(void **state)
{
    (void)state;
    expect_listeners(REACHES({"api.test", 443}, {"api.test", 443}, {"localhost", 80},
                             {"127.0.0.1", 80}, {"0.0.0.0", 80}, {"::", 80}),
                     "listen 198.18.0.2:443 for api.test\n"
                     "listen 127.0.0.1:80 for localhost\n"
                     "listen [::1]:80 for localhost\n");
}

static void literal_is_its_own_address(void **state)
{
    (void)state;
    expect_listeners(REACHES({"192.0.2.7", 80}, {"2001:DB8:0::7", 80}, {"::ffff:192.0.2.8", 80}),
                     "listen 192.0.2.7:80 for 192.0.2.7\n"
                     "listen [2001:db8::7]:80 for 2001:DB8:0::7\n"
                     "listen 192.0.2.8:80 for ::ffff:192.0.2.8\n");
}

static void address_that_means_this_machine_is_loopback(void **state)
{
    (void)state;
    expect_listeners(REACHES({"0.0.0.0", 80}, {"::", 80}), "listen 127.0.0.1:80 for 0.0.0.0\n"
                                                           "listen [::1]:80 for ::\n");
}

/* A name that had the address of a literal would lead to two places. */
static void declared_literal_is_no_address_of_a_name(void **state)
{
    (void)state;
    expect_listeners(REACHES({"api.test", 443}, {"git.test", 22}, {"198.18.0.2", 443}),
                     "listen 198.18.0.3:443 for api.test\n"
                     "listen 198.18.0.4:22 for git.test\n"
                     "listen 198.18.0.2:443 for 198.18.0.2\n");
}

static void all_ports_are_redirected(void **state)
{
    (void)state;
    expect_listeners(REACHES({"api.test", 0}, {"api.test", 443}, {"2001:db8::7", 0}),
                     "redirect 198.18.0.2 for api.test\n"
                     "listen 198.18.0.2:443 for api.test\n"
                     "redirect [2001:db8::7] for 2001:db8::7\n");
}

static void every_host_is_redirected(void **state)
{
    (void)state;
    expect_listeners(REACHES({"api.test", 443}, {"*", 0}), "listen 198.18.0.2:443 for api.test\n"
                                                           "redirect all\n");
}

/* -- nft --------------------------------------------------------------------------------------- */

static void nft_is_planned_only_where_something_is_redirected(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(free_plan) struct cage_plan *plain = empty_plan();
    kg_auto(free_plan) struct cage_plan *whole = empty_plan();
    assert_int_equal(plan_network(REACHES({"api.test", 443}), &with_nft, plain, &err), 0);
    assert_int_equal(plan_network(REACHES({"*", 0}), &with_nft, whole, &err), 0);
    assert_string_equal(plain->network.nft, "");
    assert_string_equal(whole->network.nft, "/usr/sbin/nft");
}

static void without_nft_only_wildcards_are_refused(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(free_plan) struct cage_plan *plan = empty_plan();
    assert_int_equal(plan_network(REACHES({"api.test", 443}), &without_nft, plan, &err), 0);
    expect_refused(REACHES({"api.test", 0}), &without_nft,
                   "plugin web: net:api.test:* needs nft, which is not here");
    expect_refused(REACHES({"*", 0}), &without_nft,
                   "plugin web: net:* needs nft, which is not here");
}

static void refusal_without_nft_says_what_to_install(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(free_plan) struct cage_plan *plan = empty_plan();
    assert_true(plan_network(REACHES({"*", 0}), &without_nft, plan, &err) < 0);
    assert_string_equal(err.hint, "install the package nftables, or declare each port that the "
                                  "plugin uses");
}

/* -- what is refused --------------------------------------------------------------------------- */

static void what_is_no_name_is_refused(void **state)
{
    (void)state;
    expect_refused(REACHES({"a b", 80}), &with_nft,
                   "plugin web: network: \"a b\" is not a host name");
    expect_refused(REACHES({"a\n192.0.2.1 b", 80}), &with_nft,
                   "plugin web: network: \"a\n192.0.2.1 b\" is not a host name");
    expect_refused(REACHES({"", 80}), &with_nft, "plugin web: network: \"\" is not a host name");
}

static void addresses_of_many_machines_or_of_a_link_are_refused(void **state)
{
    (void)state;
    expect_refused(REACHES({"224.0.0.1", 80}), &with_nft,
                   "plugin web: network: 224.0.0.1 is not the address of one machine");
    expect_refused(REACHES({"255.255.255.255", 80}), &with_nft,
                   "plugin web: network: 255.255.255.255 is not the address of one machine");
    expect_refused(REACHES({"ff02::1", 80}), &with_nft,
                   "plugin web: network: ff02::1 is not the address of one machine");
    expect_refused(REACHES({"fe80::1", 80}), &with_nft,
                   "plugin web: network: fe80::1 is not the address of one machine");
}

static void one_port_of_every_host_is_not_taken_for_every_port(void **state)
{
    (void)state;
    expect_refused(REACHES({"*", 443}), &with_nft,
                   "plugin web: network: every host, but only its port 443");
}

static void listeners_are_bounded(void **state)
{
    (void)state;
    struct cage_reach reaches[CAGE_LISTENERS_MAX + 1];
    for (uint16_t i = 0; i < KG_COUNT(reaches); i++)
        reaches[i] = (struct cage_reach){"api.test", (uint16_t)(i + 1)};
    struct kg_err err = {0};
    kg_auto(free_plan) struct cage_plan *plan = empty_plan();
    assert_int_equal(plan_network(reaches, CAGE_LISTENERS_MAX, &with_nft, plan, &err), 0);
    expect_refused(reaches, KG_COUNT(reaches), &with_nft,
                   "plugin web: network: more than 256 hosts and ports");
}

/* -- files ------------------------------------------------------------------------------------- */

static const char *text_of(const struct cage_plan *plan, const char *path)
{
    for (size_t i = 0; i < plan->steps.count; i++)
        if (plan->steps.items[i].kind == CAGE_STEP_TEXT &&
            strcmp(plan->steps.items[i].path, path) == 0)
            return plan->steps.items[i].source;
    return NULL;
}

static void files_name_what_was_declared(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(free_plan) struct cage_plan *plan = empty_plan();
    assert_int_equal(plan_network(REACHES({"api.test", 443}, {"192.0.2.7", 80}, {"api.test", 80},
                                          {"git.test", 22}),
                                  &with_nft, plan, &err),
                     0);
    assert_string_equal(text_of(plan, "/etc/hosts"), "127.0.0.1 localhost\n"
                                                     "198.18.0.2 api.test\n"
                                                     "198.18.0.3 git.test\n");
    assert_string_equal(text_of(plan, "/etc/nsswitch.conf"), "hosts: files dns\n");
    assert_string_equal(text_of(plan, "/etc/resolv.conf"),
                        "nameserver 198.18.0.1\noptions timeout:1 attempts:1\n");
}

static void declared_localhost_has_both_addresses(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(free_plan) struct cage_plan *plan = empty_plan();
    assert_int_equal(plan_network(REACHES({"localhost", 80}), &with_nft, plan, &err), 0);
    assert_string_equal(text_of(plan, "/etc/hosts"), "127.0.0.1 localhost\n::1 localhost\n");
}

static void nothing_declared_is_nothing_planned(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(free_plan) struct cage_plan *plan = empty_plan();
    assert_int_equal(plan_network(NULL, 0, &without_nft, plan, &err), 0);
    assert_false(cage_plan_has_network(plan));
    assert_int_equal(plan->steps.count, 0);
}

/* -- bwrap's arguments ------------------------------------------------------------------------- */

static size_t find_word(const struct kg_buf *words, const char *wanted)
{
    size_t index = 0;
    for (size_t at = 0; at < words->length; at += strlen(words->data + at) + 1, index++)
        if (strcmp(words->data + at, wanted) == 0)
            return index;
    return SIZE_MAX;
}

static const char *word_at(const struct kg_buf *words, size_t index)
{
    size_t at = 0;
    while (index-- > 0)
        at += strlen(words->data + at) + 1;
    return words->data + at;
}

static void files_travel_as_fds_in_the_order_of_the_steps(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(free_plan) struct cage_plan *plan = empty_plan();
    plan->folder = kg_strdup("/p");
    cage_steps_add(&plan->steps, CAGE_STEP_BIND, "/p", "/p", 0);
    assert_int_equal(plan_network(REACHES({"api.test", 443}), &with_nft, plan, &err), 0);
    static const struct cage_source sources[4];
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    cage_argv_options(plan, sources, false, &words);
    size_t at = find_word(&words, "/etc/hosts");
    kg_auto(kg_free) char *number = kg_format("%d", CAGE_FD_FILES);
    assert_string_equal(word_at(&words, at - 2), "--ro-bind-data");
    assert_string_equal(word_at(&words, at - 1), number);
    assert_true(find_word(&words, "--block-fd") != SIZE_MAX);
}

static void without_a_network_bwrap_does_not_wait(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = empty_plan();
    plan->folder = kg_strdup("/p");
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    cage_argv_options(plan, NULL, false, &words);
    assert_true(find_word(&words, "--block-fd") == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_name_has_one_address),
        cmocka_unit_test(duplicates_count_once),
        cmocka_unit_test(literal_is_its_own_address),
        cmocka_unit_test(address_that_means_this_machine_is_loopback),
        cmocka_unit_test(declared_literal_is_no_address_of_a_name),
        cmocka_unit_test(all_ports_are_redirected),
        cmocka_unit_test(every_host_is_redirected),
        cmocka_unit_test(nft_is_planned_only_where_something_is_redirected),
        cmocka_unit_test(without_nft_only_wildcards_are_refused),
        cmocka_unit_test(refusal_without_nft_says_what_to_install),
        cmocka_unit_test(what_is_no_name_is_refused),
        cmocka_unit_test(addresses_of_many_machines_or_of_a_link_are_refused),
        cmocka_unit_test(one_port_of_every_host_is_not_taken_for_every_port),
        cmocka_unit_test(listeners_are_bounded),
        cmocka_unit_test(files_name_what_was_declared),
        cmocka_unit_test(declared_localhost_has_both_addresses),
        cmocka_unit_test(nothing_declared_is_nothing_planned),
        cmocka_unit_test(files_travel_as_fds_in_the_order_of_the_steps),
        cmocka_unit_test(without_a_network_bwrap_does_not_wait),
    };
    return cmocka_run_group_tests_name("network", tests, NULL, NULL);
}
