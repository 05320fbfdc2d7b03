/*
 * A root spawner that serves a daemon of another user. The tests are that daemon, taken over: the
 * plans that they send are not all what a planner would make. Nothing of root's gets into a cage.
 */
#include "cage/internal.h"
#include "world.h"

#include "helper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define OWNER_UID 1234
#define GROUP     4321 /* that the owner is in, too */

static const struct cage_owner owner = {
    .uid = OWNER_UID, .gid = OWNER_UID, .groups = {OWNER_UID, GROUP}, .group_count = 2};
static const struct helper_run_options usual = {.output_max = 65536, .timeout_ms = WORLD_WAIT_MS};

static struct world *world;

static void ignore_loss(void *data)
{
    (void)data;
}

/* A folder below the world's, with a file in it. */
static char *make_folder(const char *name, uid_t uid, gid_t gid, mode_t mode)
{
    char *folder = kg_format("%s/%s", world->folder, name);
    kg_auto(kg_free) char *file = kg_format("%s/file", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    kg_auto(kg_close) int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(kg_write_all(fd, "inside\n", 7), 0);
    assert_int_equal(fchown(fd, uid, gid), 0);
    assert_int_equal(chown(folder, uid, gid), 0);
    assert_int_equal(chmod(folder, mode), 0);
    return folder;
}

static struct cage_plan *plan_for(const char *folder, const char *const *command)
{
    struct kg_err err = {0};
    struct cage_policy policy = {.name = "owner",
                                 .install_dir = folder,
                                 .command = command,
                                 .processes_max = WORLD_PROCESSES,
                                 .tmp_bytes = WORLD_TMP_BYTES};
    struct cage_plan *plan = cage_plan_new(&policy, world->facts, &err);
    if (plan == NULL)
        fail_msg("%s", err.message);
    return plan;
}

/* Runs the plan and frees it; what it printed, or the error. Owned. */
static char *run_to_words(struct cage_plan *plan)
{
    struct kg_err err = {0};
    const struct helper_place place = {.loop = world->loop, .spawner = world->spawner};
    struct helper_run_result result = {0};
    int failed = helper_run(&place, plan, &usual, &result, &err);
    cage_plan_free(plan);
    char *words = failed < 0 ? kg_format("error: %s", err.message)
                             : kg_format("%.*s%.*s", KG_STR_ARG(kg_buf_view(&result.out)),
                                         KG_STR_ARG(kg_buf_view(&result.err)));
    helper_run_result_free(&result);
    return words;
}

static void assert_says(struct cage_plan *plan, const char *part)
{
    kg_auto(kg_free) char *words = run_to_words(plan);
    if (strstr(words, part) == NULL)
        fail_msg("\"%s\" has no \"%s\"", words, part);
}

/* -- what is his --------------------------------------------------------------------------------
 */

static void private_folder_of_the_owner_is_read_in_his_cage(void **state)
{
    (void)state;
    kg_auto(kg_free) char *folder = make_folder("his", OWNER_UID, OWNER_UID, 0700);
    assert_says(plan_for(folder, COMMAND("cat", "file")), "inside\n");
}

static void helper_runs_as_its_own_user_and_not_as_the_owner(void **state)
{
    (void)state;
    kg_auto(kg_free) char *folder = make_folder("whose", OWNER_UID, OWNER_UID, 0700);
    kg_auto(kg_free) char *line = kg_format("Uid:\t%d\t", CAGE_UID);
    assert_says(plan_for(folder, COMMAND("cat", "/proc/self/status")), line);
}

static void folder_of_one_of_his_groups_may_be_opened(void **state)
{
    (void)state;
    kg_auto(kg_free) char *folder = make_folder("group", 0, GROUP, 0755);
    assert_says(plan_for(folder, COMMAND("sh", "-c", "echo started")), "started");
}

/* -- what is root's -----------------------------------------------------------------------------
 */

static void folder_that_only_root_may_read_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_free) char *folder = make_folder("roots", 0, 0, 0700);
    assert_says(plan_for(folder, COMMAND("cat", "file")), "Permission denied");
}

static void folder_below_one_that_only_root_may_enter_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_free) char *above = make_folder("above", 0, 0, 0700);
    kg_auto(kg_free) char *folder = make_folder("above/below", OWNER_UID, OWNER_UID, 0755);
    assert_says(plan_for(folder, COMMAND("cat", "file")), "Permission denied");
}

static void file_that_only_root_may_read_stays_unread_in_a_folder_for_all(void **state)
{
    (void)state;
    kg_auto(kg_free) char *folder = make_folder("for-all", 0, 0, 0755);
    assert_says(plan_for(folder, COMMAND("cat", "file")), "Permission denied");
}

static void step_by_path_brings_in_only_what_anybody_may_read(void **state)
{
    (void)state;
    kg_auto(kg_free) char *folder = make_folder("his-too", OWNER_UID, OWNER_UID, 0700);
    kg_auto(kg_free) char *secret = make_folder("secret", 0, 0, 0700);
    struct cage_plan *plan = plan_for(folder, COMMAND("cat", "/usr/lib/file"));
    struct cage_step *step = &plan->steps.items[0];
    assert_int_equal(step->kind, CAGE_STEP_SYSTEM);
    free(step->source);
    step->source = kg_strdup(secret);
    kg_auto(kg_free) char *words = run_to_words(plan);
    assert_null(strstr(words, "inside"));
}

static void another_program_than_bwrap_is_not_run(void **state)
{
    (void)state;
    kg_auto(kg_free) char *folder = make_folder("tool", OWNER_UID, OWNER_UID, 0700);
    struct cage_plan *plan = plan_for(folder, COMMAND("cat", "file"));
    free(plan->bwrap);
    plan->bwrap = kg_strdup("/usr/bin/env");
    assert_says(plan, "not the system's bwrap");
}

static void spawner_has_its_own_rights_again_after_a_refusal(void **state)
{
    (void)state;
    kg_auto(kg_free) char *refused = make_folder("refused", 0, 0, 0700);
    kg_auto(kg_free) char *folder = make_folder("after", OWNER_UID, OWNER_UID, 0700);
    assert_says(plan_for(refused, COMMAND("cat", "file")), "Permission denied");
    assert_says(plan_for(folder, COMMAND("cat", "file")), "inside\n");
}

/* -- the suite --------------------------------------------------------------------------------- */

static int make_world(void **state)
{
    (void)state;
    struct kg_err err = {0};
    signal(SIGPIPE, SIG_IGN);
    world = world_new();
    assert_int_equal(chmod(world->folder, 0755), 0);
    cage_spawner_free(world->spawner);
    world->spawner = cage_spawner_start_for(&owner, &err);
    if (world->spawner == NULL)
        fail_msg("%s", err.message);
    return cage_spawner_attach(world->spawner, world->loop, ignore_loss, NULL, &err);
}

static int free_world(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

/* Only root's spawner can serve somebody else. */
static void only_root_serves_others(void **state)
{
    (void)state;
    const char *ci = getenv("CI");
    if (ci != NULL && strcmp(ci, "true") == 0)
        fail_msg("only root's spawner serves another user");
    printf("SKIP %s: only root's spawner serves another user\n", __func__);
}

int main(void)
{
    static const struct CMUnitTest nothing[] = {cmocka_unit_test(only_root_serves_others)};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(private_folder_of_the_owner_is_read_in_his_cage),
        cmocka_unit_test(helper_runs_as_its_own_user_and_not_as_the_owner),
        cmocka_unit_test(folder_of_one_of_his_groups_may_be_opened),
        cmocka_unit_test(folder_that_only_root_may_read_is_refused),
        cmocka_unit_test(folder_below_one_that_only_root_may_enter_is_refused),
        cmocka_unit_test(file_that_only_root_may_read_stays_unread_in_a_folder_for_all),
        cmocka_unit_test(step_by_path_brings_in_only_what_anybody_may_read),
        cmocka_unit_test(another_program_than_bwrap_is_not_run),
        cmocka_unit_test(spawner_has_its_own_rights_again_after_a_refusal),
    };
    if (geteuid() != 0)
        return cmocka_run_group_tests_name("cage owner", nothing, NULL, NULL);
    return cmocka_run_group_tests_name("cage owner", tests, make_world, free_world);
}
