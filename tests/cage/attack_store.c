/*
 * Attacks on what the operator said yes to: a plugin that gets more than that, or is another than
 * that, when it runs. Each is seen to succeed where the defence is left out, in a real cage, and
 * then to fail with it. Started by root, all of it runs a second time as an ordinary user.
 */
#include "world.h"

#include "../lib/folder.h"
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "kaged-attack-secret"

static struct world *world;
static char top[64];                  /* holds all of it */
static char *home, *project, *hidden; /* owned; the last has the secret */
static char *hidden_secret, *by_hand; /* owned; by_hand: plugins/probe */
static struct config_paths paths;
static struct config *config;
static struct store *store;

/* -- a home, and a plugin in it ---------------------------------------------------------------- */

static void write_in(const char *folder, const char *name, const char *text)
{
    kg_auto(kg_free) char *path = kg_path_join(folder, name);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(kg_write_all(fd, text, strlen(text)), 0);
}

/* What it asks for, what it does, and more lines of its manifest. */
static void write_manifest(const char *folder, const char *capabilities, const char *command,
                           const char *more)
{
    kg_auto(kg_free) char *text =
        kg_format("name: probe\nversion: 1.0.0\nkaged_api: 1\ndescription: of a test\n"
                  "command: [\"./probe\", %s]\ncapabilities: [%s]\nmethods: [a.b]\n%s",
                  command, capabilities, more);
    write_in(folder, MANIFEST_FILE, text);
}

static char *finding(const char *verb, const char *path)
{
    return kg_format("\"%s\", \"%s\", \"%s\"", verb, path, SECRET);
}

static int make_home(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(kg_free) char *settings = NULL;
    strcpy(top, "/tmp/kaged-attack-XXXXXX");
    assert_non_null(mkdtemp(top));
    assert_int_equal(chmod(top, 0755), 0);
    home = kg_path_join(top, "home");
    project = kg_path_join(top, "project");
    hidden = kg_path_join(top, "hidden");
    hidden_secret = kg_path_join(hidden, "secret");
    assert_int_equal(mkdir(project, 0755), 0);
    assert_int_equal(mkdir(hidden, 0755), 0);
    write_in(hidden, "secret", SECRET);
    settings = kg_format("[sandbox]\nroot_writable = [\"%s\"]\n", top);
    if (config_paths_find(home, &paths, &err) < 0 || config_paths_make(&paths, geteuid(), &err) < 0)
        fail_msg("%s", err.message);
    write_in(home, "config.toml", settings);
    config = config_load(paths.config_file, &err);
    if (config == NULL)
        fail_msg("%s", err.message);
    by_hand = kg_path_join(paths.plugins_dir, "probe");
    const struct store_parts parts = {.paths = &paths, .limits = store_limits_of(config)};
    store = store_new(&parts);
    world = world_new();
    return 0;
}

static int free_home(void **state)
{
    (void)state;
    world_free(world);
    store_free(store);
    config_free(config);
    config_paths_free(&paths);
    char **texts[] = {&home, &project, &hidden, &hidden_secret, &by_hand};
    for (size_t i = 0; i < KG_COUNT(texts); i++)
        kg_free(texts[i]);
    return folder_remove(top);
}

static void copy_by_hand(void)
{
    kg_auto(kg_free) char *command =
        kg_format("mkdir -p %s && cp %s/probe %s", by_hand, world->folder, by_hand);
    assert_int_equal(system(command), 0);
}

static void approve(void)
{
    struct kg_err err = {0};
    struct store_offer *offer = NULL;
    if (store_offer_installed(store, "probe", &offer, &err) < 0)
        fail_msg("%s", err.message);
    char hash[STORE_HASH_TEXT];
    memcpy(hash, offer->hash, sizeof(hash));
    const struct store_consent yes = {.hash = hash, .allow_new_capabilities = true, .local = true};
    if (store_take(store, offer, &yes, NULL, &err) < 0)
        fail_msg("%s", err.message);
}

static int forget(void **state)
{
    (void)state;
    kg_auto(kg_free) char *command =
        kg_format("rm -rf %s %s/.store %s", by_hand, paths.plugins_dir, paths.local_file);
    return system(command);
}

/* -- what runs of it --------------------------------------------------------------------------- */

/* The cage of what lies in a folder, by the manifest that is there; NULL with err. */
static struct cage_plan *plan_of(const char *folder, const char *settings, struct kg_err *err)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct manifest *manifest = manifest_load(folder, &problems);
    if (manifest == NULL)
        fail_msg("%s", problems.items[0].message);
    const struct host_cage_parts parts = {
        .manifest = manifest,
        .dir = by_hand,
        .source = folder,
        .plugins_dir = paths.plugins_dir,
        .config = config,
        .paths = &paths,
        .settings = kg_str(settings),
        .project_root = project,
        .project_id = "project",
        .facts = world->facts,
        .make_folders = true,
    };
    struct cage_plan *plan = host_cage_plan(&parts, err);
    manifest_free(manifest);
    return plan;
}

static struct run *run_in(const char *folder, const char *settings)
{
    struct kg_err err = {0};
    struct cage_plan *plan = plan_of(folder, settings, &err);
    if (plan == NULL)
        fail_msg("%s (%s)", err.message, err.hint);
    struct run *run = run_plan(world, plan);
    cage_plan_free(plan);
    return run;
}

static void assert_says(const char *folder, const char *settings, const char *answer)
{
    kg_auto(run_free) struct run *run = run_in(folder, settings);
    assert_string_equal(run_line(run), answer);
}

/* -- settings ---------------------------------------------------------------------------------- */

static void write_with_setting(const char *prefixes)
{
    kg_auto(kg_free) char *file = kg_path_join(project, "taken");
    kg_auto(kg_free) char *command = kg_format("\"create\", \"%s\"", file);
    kg_auto(kg_free) char *more =
        kg_format("config_schema:\n  type: object\n  properties:\n"
                  "    store: {type: string, default: \"config:/kept\"}\n"
                  "knobs:\n  store: {type: path, label: Store, binds_to: config.store,\n"
                  "          default: \"config:/kept\", prefixes: [%s]}\n",
                  prefixes);
    write_manifest(by_hand, "", command, more);
}

/* The operator was shown config:/, and a project's file says project:/. */
static void setting_gives_no_folder_that_its_prefixes_do_not_show(void **state)
{
    (void)state;
    static const char widened[] = "{\"store\":\"project:/\"}";
    struct kg_err err = {0};
    kg_auto(kg_free) char *taken = kg_path_join(project, "taken");
    copy_by_hand();
    write_with_setting("\"config:\", \"project:\"");
    assert_says(by_hand, widened, "ok");
    assert_int_equal(unlink(taken), 0);
    write_with_setting("\"config:\"");
    assert_null(plan_of(by_hand, widened, &err));
    assert_string_equal(err.message,
                        "plugin probe: its setting store points outside of its prefixes");
    assert_int_equal(access(taken, F_OK), -1);
}

/* An upgrade that asks for it by a setting alone; a yes that is for no new capability. */
static void setting_that_is_new_is_not_taken_by_a_plain_yes(void **state)
{
    (void)state;
    struct kg_err err = {0};
    struct store_offer *offer = NULL;
    kg_auto(kg_free) char *taken = kg_path_join(project, "taken");
    copy_by_hand();
    write_manifest(by_hand, "", "\"exit\", \"0\"", "");
    approve();
    copy_by_hand();
    write_with_setting("\"project:\", \"config:\"");
    assert_int_equal(store_offer_installed(store, "probe", &offer, &err), 0);
    char hash[STORE_HASH_TEXT];
    memcpy(hash, offer->hash, sizeof(hash));
    const struct store_consent plain = {.hash = hash, .local = true};
    assert_true(store_take(store, offer, &plain, NULL, &err) < 0);
    store_offer_free(offer);
    assert_true(store_check_full(store, "probe", &err) < 0);
    /* With the yes that it takes, that is what it would have had. */
    approve();
    kg_auto(kg_free) char *place = store_place(store, "probe");
    assert_says(place, "{\"store\":\"project:/\"}", "ok");
    assert_int_equal(unlink(taken), 0);
}

/* -- files that change ------------------------------------------------------------------------- */

static char *capability_for_hidden(void)
{
    return kg_format("\"read:fs:%s\"", hidden);
}

/* Who looks first and reads then runs what nobody has looked at. */
static void manifest_that_changes_between_check_and_start_is_noticed(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(kg_free) char *command = finding("find", hidden_secret);
    kg_auto(kg_free) char *wider = capability_for_hidden();
    copy_by_hand();
    write_manifest(by_hand, "", command, "");
    approve();
    kg_auto(kg_free) char *place = store_place(store, "probe");
    assert_says(place, "", "ENOENT");
    assert_int_equal(store_check_quick(store, "probe", &err), 0);
    kg_auto(kg_free) char *make_writable = kg_format("chmod -R u+w %s", place);
    assert_int_equal(system(make_writable), 0);
    write_manifest(place, wider, command, "");
    assert_says(place, "", "found"); /* by a check that came before the reading */
    assert_int_not_equal(store_check_quick(store, "probe", &err), 0);
    assert_true(store_check_full(store, "probe", &err) < 0);
    assert_int_equal(err.code, KG_E_NOT_APPROVED);
}

static const char *told(struct run *run)
{
    run_wait_line(run);
    assert_int_equal(kg_write_all(run->in_fd, "\n", 1), 0);
    run_wait_exit(run);
    return strchr(kg_buf_terminate(&run->out), '\n') + 1;
}

/* What was approved has no secret in it; what takes its place while it runs has. */
static void running_plugin_does_not_see_files_that_took_the_place_of_its_own(void **state)
{
    (void)state;
    kg_auto(kg_free) char *command = finding("find-when-told", "./data");
    copy_by_hand();
    write_manifest(by_hand, "", command, "");
    write_in(by_hand, "data", "nothing to see");
    struct run *weakly = run_in(by_hand, "");
    run_wait_line(weakly);
    write_in(by_hand, "data", SECRET);
    assert_string_equal(told(weakly), "found\n");
    run_free(&weakly);

    write_in(by_hand, "data", "nothing to see");
    approve();
    struct store_version *held = NULL; /* as every process holds its own */
    assert_int_equal(store_version_current(store, "probe", &held, NULL), 0);
    struct run *really = run_in(held->path, "");
    run_wait_line(really);
    copy_by_hand();
    write_manifest(by_hand, "", command, "");
    write_in(by_hand, "data", SECRET);
    approve();
    assert_string_equal(told(really), "not found\n");
    run_free(&really);
    store_version_free(held);
}

/* -- what git is led to by what lies in a work tree ----------------------------------------------
 */

/* What is made of a work tree, and the file in it that git, run outside of every cage, believes. */
static const struct {
    const char *make, *file;
} led[] = {
    {"mkdir .git tools && mkdir tools/hooks && printf '[core]\\nhooksPath = tools/hooks\\n' "
     ">.git/config",
     "tools/hooks/pre-commit"},
    {"mkdir .git more && touch more/config && printf '[include]\\npath = ../more/config\\n' "
     ">.git/config",
     "more/config"},
    {"mkdir -p real/hooks && echo 'gitdir: real' >.git", "real/hooks/post-checkout"},
    {"mkdir -p real/hooks && echo 'gitdir: real' >.git", ".git"},
    {"mkdir -p .git shared/hooks && echo ../shared >.git/commondir", "shared/hooks/pre-push"},
    {"mkdir -p sub/.git/hooks", "sub/.git/hooks/pre-commit"},
};

static void assert_led(const char *tree, const char *file)
{
    kg_auto(kg_free) char *path = kg_path_join(tree, file);
    kg_auto(kg_free) char *command = kg_format("\"put\", \"%s\"", path);
    kg_auto(kg_free) char *capability = kg_format("\"write:fs:%s\"", tree);
    const struct cage_path writable = {.path = tree, .write = true};
    const char *const listed[] = {top, NULL};
    struct cage_policy policy = world_policy(world, COMMAND("./probe", "put", path));
    policy.paths = &writable;
    policy.path_count = 1;
    policy.root_writable = listed;
    struct run *weakly = run_policy(world, &policy); /* a cage in which nobody looked */
    assert_string_equal(run_line(weakly), "ok");
    run_free(&weakly);
    copy_by_hand();
    write_manifest(by_hand, capability, command, "");
    assert_says(by_hand, "", "EROFS");
}

static void what_git_is_led_to_is_not_written(void **state)
{
    (void)state;
    kg_auto(kg_free) char *tree = kg_path_join(top, "tree");
    for (size_t i = 0; i < KG_COUNT(led); i++) {
        kg_auto(kg_free) char *make =
            kg_format("rm -rf %s && mkdir %s && cd %s && %s", tree, tree, tree, led[i].make);
        assert_int_equal(system(make), 0);
        assert_led(tree, led[i].file);
    }
    assert_int_equal(folder_remove(tree), 0);
}

/* -- a home of an older kaged ------------------------------------------------------------------ */

/* Back to where the files of a plugin were before there were versions; owned is where they go. */
static char *make_older(void)
{
    kg_auto(kg_free) char *place = store_place(store, "probe");
    kg_auto(kg_free) char *command =
        kg_format("chmod -R u+w %s && rm -rf %s && mv %s %s", place, by_hand, place, by_hand);
    assert_int_equal(system(command), 0);
    return kg_steal(&place);
}

static void assert_not_taken_over(const char *version)
{
    struct kg_err err = {0};
    struct store_version *held = NULL;
    assert_int_equal(store_recover(store, &err), 0);
    assert_int_equal(access(version, F_OK), -1);
    assert_true(store_version_current(store, "probe", &held, &err) < 0);
    assert_int_equal(err.code, KG_E_NOT_APPROVED);
}

/* A takeover that goes by the name would say yes to whatever lies there by now. */
static void what_was_changed_before_the_takeover_is_not_taken_over(void **state)
{
    (void)state;
    struct kg_err err = {0};
    kg_auto(kg_free) char *command = finding("find", hidden_secret);
    kg_auto(kg_free) char *wider = capability_for_hidden();
    copy_by_hand();
    write_manifest(by_hand, "", command, "");
    approve();
    kg_auto(kg_free) char *version = make_older();
    write_manifest(by_hand, wider, command, "");
    assert_int_equal(rename(by_hand, version), 0);
    assert_says(version, "", "found");
    assert_int_equal(rename(version, by_hand), 0);
    assert_not_taken_over(version);
    write_manifest(by_hand, "", command, "");
    assert_int_equal(store_recover(store, &err), 0);
    assert_says(version, "", "ENOENT");
}

/* The same by a link, to a folder that somebody else may write. */
static void link_is_not_taken_over(void **state)
{
    (void)state;
    kg_auto(kg_free) char *command = finding("find", hidden_secret);
    kg_auto(kg_free) char *wider = capability_for_hidden();
    kg_auto(kg_free) char *elsewhere = kg_path_join(top, "elsewhere");
    copy_by_hand();
    write_manifest(by_hand, "", command, "");
    approve();
    kg_auto(kg_free) char *version = make_older();
    assert_int_equal(rename(by_hand, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, by_hand), 0);
    assert_not_taken_over(version); /* also while its files are those that were approved */
    write_manifest(elsewhere, wider, command, "");
    assert_says(elsewhere, "", "found");
    assert_not_taken_over(version);
    assert_int_equal(unlink(by_hand), 0);
    assert_int_equal(folder_remove(elsewhere), 0);
}

static void every_attack_on_a_yes_fails_for_an_ordinary_user_too(void **state)
{
    (void)state;
    world_again_as_ordinary_user();
}

#define ATTACK(test) cmocka_unit_test_setup_teardown(test, NULL, forget)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        ATTACK(setting_gives_no_folder_that_its_prefixes_do_not_show),
        ATTACK(setting_that_is_new_is_not_taken_by_a_plain_yes),
        ATTACK(manifest_that_changes_between_check_and_start_is_noticed),
        ATTACK(running_plugin_does_not_see_files_that_took_the_place_of_its_own),
        ATTACK(what_git_is_led_to_is_not_written),
        ATTACK(what_was_changed_before_the_takeover_is_not_taken_over),
        ATTACK(link_is_not_taken_over),
        cmocka_unit_test(every_attack_on_a_yes_fails_for_an_ordinary_user_too),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("cage attack store", tests, make_home, free_home);
}
