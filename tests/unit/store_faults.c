/*
 * A process that is killed, or whose disk is full, at each step of each change: what it leaves is
 * the store as it was or as it was to be, and the next change works.
 */
#include "store_world.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define STEPS_MAX 40 /* more than any change has */

static const struct world_plugin old = {.name = "notes", .version = "1.0.0"};
static const struct world_plugin new = {
    .name = "notes", .version = "2.0.0", .program = "#!/bin/sh\n# new\n"};

static const struct world_plugin mine = {.name = "notes", .program = "#!/bin/sh\n# mine\n"};

/* -- changes: 0 if done, and what must be there before ----------------------------------------- */

static int install(struct world *world, struct kg_err *err)
{
    struct store_offer *offer = world_offer(world, &old);
    int result = world_try_take(world, offer, err);
    if (result < 0)
        store_offer_free(offer);
    return result;
}

static int upgrade(struct world *world, struct kg_err *err)
{
    struct store_offer *offer = world_offer(world, &new);
    int result = world_try_take(world, offer, err);
    if (result < 0)
        store_offer_free(offer);
    return result;
}

static int upgrade_and_revert(struct world *world, struct kg_err *err)
{
    struct store_offer *offer = world_offer(world, &new);
    struct store_trial *trial = NULL;
    const struct store_consent consent = {.hash = offer->hash, .allow_new_capabilities = true};
    int result = store_take(world->store, offer, &consent, &trial, err);
    if (result < 0)
        store_offer_free(offer);
    return result < 0 ? result : store_trial_revert(trial, err);
}

static int uninstall(struct world *world, struct kg_err *err)
{
    const struct store_removal removal = {.keep_storage = true};
    kg_auto(store_removed_free) struct store_removed removed = {0};
    return store_remove(world->store, "notes", &removal, &removed, err);
}

static int approve(struct world *world, struct kg_err *err)
{
    struct store_offer *offer = NULL;
    if (store_offer_installed(world->store, "notes", &offer, err) < 0)
        return -1;
    int result = world_try_take(world, offer, err);
    if (result < 0)
        store_offer_free(offer);
    return result;
}

/* Over a folder that somebody put there by hand, which comes back with the version. */
static int upgrade_folder_and_revert(struct world *world, struct kg_err *err)
{
    if (approve(world, err) < 0)
        return -1;
    int result = upgrade_and_revert(world, err);
    assert_true(result < 0 || world_exists(world, "plugins/notes/run.sh"));
    return result;
}

static int recover(struct world *world, struct kg_err *err)
{
    return store_recover(world->store, err);
}

typedef int change_fn(struct world *world, struct kg_err *err);

static void prepare(struct world *world, bool installed)
{
    struct kg_err err = {0};
    const struct store_removal removal = {0};
    kg_auto(store_removed_free) struct store_removed removed = {0};
    if (store_check_known(world->store, "notes", &err) == 0 || world_exists(world, "plugins/notes"))
        assert_int_equal(store_remove(world->store, "notes", &removal, &removed, &err), 0);
    if (installed)
        world_install(world, &old);
    world_write_file(world_path(world, "state/storage/notes.db"), "data");
}

/* -- killed ------------------------------------------------------------------------------------ */

/* Whether the process lived to its end. */
static bool run_until_killed(struct world *world, change_fn *change, unsigned step)
{
    pid_t child = fork();
    if (child == 0) {
        struct kg_err err = {0};
        char fault[32];
        snprintf(fault, sizeof(fault), "kill:%u", step);
        setenv("KAGED_STORE_FAULT", fault, 1);
        _exit(change(world, &err) == 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
    else
        assert_int_equal(WTERMSIG(status), SIGKILL);
    return WIFEXITED(status);
}

/* Storage that was to be kept is there under one name or the other. */
static void assert_data_is_somewhere(struct world *world)
{
    assert_true(world_count_names(world, "state/storage") >= 1);
}

static void kill_at_each_step(struct world *world, change_fn *change, bool installed,
                              unsigned steps_at_least)
{
    struct kg_err err = {0};
    bool lived = false;
    unsigned step = 0;
    while (!lived) {
        assert_true(++step < STEPS_MAX);
        prepare(world, installed);
        lived = run_until_killed(world, change, step);
        if (store_recover(world->store, &err) < 0)
            fail_msg("step %u: %s", step, err.message);
        world_assert_whole(world, "notes");
        assert_data_is_somewhere(world);
        world_install(world, &new); /* the next change works */
        world_assert_whole(world, "notes");
    }
    assert_true(step > steps_at_least);
}

static void an_install_that_is_killed_leaves_the_store_whole(void **state)
{
    kill_at_each_step(*state, install, false, 5);
}

static void an_upgrade_that_is_killed_leaves_the_store_whole(void **state)
{
    kill_at_each_step(*state, upgrade, true, 5);
}

static void a_revert_that_is_killed_leaves_the_store_whole(void **state)
{
    kill_at_each_step(*state, upgrade_and_revert, true, 10);
}

static void a_revert_of_a_folder_that_is_killed_leaves_the_store_whole(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    bool lived = false;
    for (unsigned step = 1; !lived; step++) {
        assert_true(step < STEPS_MAX);
        prepare(world, false);
        world_copy_in(world, &mine);
        lived = run_until_killed(world, upgrade_folder_and_revert, step);
        assert_int_equal(store_recover(world->store, &err), 0);
        if (store_check_known(world->store, "notes", &err) == 0)
            world_assert_whole(world, "notes");
        world_install(world, &new);
        world_assert_whole(world, "notes");
        assert_false(world_exists(world, "plugins/notes"));
    }
}

/* A store from before there were versions, taken over by somebody who is killed. */
static void a_take_over_that_is_killed_is_finished_by_the_next(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    kg_auto(kg_free) char *command = kg_format(
        "cd %s/plugins && for p in notes other; do mv .store/versions/$p-* $p; done", world->root);
    const struct world_plugin other = {.name = "other"};
    const struct store_removal removal = {0};
    bool lived = false;
    for (unsigned step = 1; !lived; step++) {
        kg_auto(store_removed_free) struct store_removed removed = {0};
        prepare(world, true);
        world_install(world, &other);
        assert_int_equal(system(command), 0);
        lived = run_until_killed(world, recover, step);
        assert_int_equal(store_recover(world->store, &err), 0);
        assert_int_equal(store_check_full(world->store, "other", &err), 0);
        assert_int_equal(store_check_full(world->store, "notes", &err), 0);
        assert_false(world_exists(world, "plugins/notes"));
        assert_int_equal(world_count_names(world, "plugins/.store/versions"), 2);
        assert_int_equal(store_remove(world->store, "other", &removal, &removed, &err), 0);
    }
}

static void an_uninstall_that_is_killed_leaves_the_store_whole(void **state)
{
    kill_at_each_step(*state, uninstall, true, 7);
}

/* -- a recovery that is killed itself ---------------------------------------------------------- */

static void a_recovery_that_is_killed_is_done_again(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    static change_fn *const changes[] = {upgrade, uninstall};
    for (size_t i = 0; i < KG_COUNT(changes); i++) {
        prepare(world, true);
        assert_false(run_until_killed(world, changes[i], 4)); /* after its entry */
        for (unsigned step = 1; !run_until_killed(world, recover, step); step++)
            assert_true(step < STEPS_MAX);
        assert_int_equal(store_recover(world->store, &err), 0);
        world_assert_whole(world, "notes");
    }
}

/* -- a full disk ------------------------------------------------------------------------------- */

/* A change whose disk is full fails and changes nothing, or is done in full later. */
static void fill_at_each_step(struct world *world, change_fn *change, bool installed)
{
    struct kg_err err = {0};
    unsigned failures = 0;
    for (unsigned step = 1; step < 12; step++) {
        prepare(world, installed);
        pid_t child = fork();
        if (child == 0) {
            char fault[32];
            snprintf(fault, sizeof(fault), "full:%u", step);
            setenv("KAGED_STORE_FAULT", fault, 1);
            int result = change(world, &err);
            _exit(result == 0 ? 0 : err.errnum == ENOSPC ? 1 : 2);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
        failures += WEXITSTATUS(status);
        assert_int_equal(store_recover(world->store, &err), 0);
        world_assert_whole(world, "notes");
        assert_data_is_somewhere(world);
    }
    assert_true(failures >= 2);
}

static void a_full_disk_leaves_the_store_whole(void **state)
{
    fill_at_each_step(*state, install, false);
    fill_at_each_step(*state, upgrade, true);
    fill_at_each_step(*state, uninstall, true);
}

static void an_approval_that_is_killed_is_made_or_not(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    bool lived = false;
    for (unsigned step = 1; !lived; step++) {
        prepare(world, true);
        world_copy_in(world, &mine);
        lived = run_until_killed(world, approve, step);
        assert_int_equal(store_recover(world->store, &err), 0);
        int result = store_check_full(world->store, "notes", &err);
        assert_true(lived ? result == 0 : result == 0 || err.code == KG_E_NOT_APPROVED);
        assert_int_equal(approve(world, &err), 0);
        world_assert_whole(world, "notes");
    }
}

/* -- at the same time -------------------------------------------------------------------------- */

static void two_installs_at_once_are_one_after_the_other(void **state)
{
    struct world *world = *state;
    pid_t children[8];
    for (size_t i = 0; i < KG_COUNT(children); i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct kg_err err = {0};
            int result = i % 2 == 0 ? install(world, &err) : upgrade(world, &err);
            _exit(result == 0 ? 0 : err.code == KG_E_CONFLICT ? 1 : 2);
        }
    }
    unsigned done = 0;
    for (size_t i = 0; i < KG_COUNT(children); i++) {
        int status = 0;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
        done += WEXITSTATUS(status) == 0;
    }
    assert_true(done >= 1);
    struct kg_err err = {0};
    assert_int_equal(store_recover(world->store, &err), 0);
    world_assert_whole(world, "notes");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_install_that_is_killed_leaves_the_store_whole),
        TEST(an_upgrade_that_is_killed_leaves_the_store_whole),
        TEST(a_revert_that_is_killed_leaves_the_store_whole),
        TEST(a_revert_of_a_folder_that_is_killed_leaves_the_store_whole),
        TEST(a_take_over_that_is_killed_is_finished_by_the_next),
        TEST(an_uninstall_that_is_killed_leaves_the_store_whole),
        TEST(a_recovery_that_is_killed_is_done_again),
        TEST(a_full_disk_leaves_the_store_whole),
        TEST(an_approval_that_is_killed_is_made_or_not),
        TEST(two_installs_at_once_are_one_after_the_other),
    };
    return cmocka_run_group_tests_name("store_faults", tests, NULL, NULL);
}
