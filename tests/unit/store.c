/* The plugin store: what an offer says, what a yes changes, and what is noticed afterwards. */
#include "store_world.h"

#include "config/local.h"
#include "state/state.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct world_plugin notes = {.name = "notes", .version = "1.2.0"};

static const struct store_capability *find_capability(const struct store_offer *offer,
                                                      const char *text)
{
    for (size_t i = 0; i < offer->capability_count; i++)
        if (strcmp(offer->capabilities[i].text, text) == 0)
            return &offer->capabilities[i];
    fail_msg("%s is not in the offer", text);
    return NULL;
}

static const struct store_changed *find_change(const struct store_offer *offer, const char *what)
{
    for (size_t i = 0; i < offer->change_count; i++)
        if (strcmp(offer->changes[i].what, what) == 0)
            return &offer->changes[i];
    return NULL;
}

static char *read_local(struct world *world)
{
    return world_read_file(world->paths.local_file);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, text);
}

/* -- installing -------------------------------------------------------------------------------- */

static void an_installed_plugin_is_in_the_store_and_in_local_toml(void **state)
{
    struct world *world = *state;
    world_install(world, &notes);
    kg_auto(kg_free) char *text = read_local(world);
    assert_int_equal(access(world_file(world, "notes", "run.sh"), X_OK), 0);
    assert_has(text, "[plugins.notes]\ninstalled = \"1.2.0\"\nlocal = true\nhash = \"sha256:");
    world_assert_whole(world, "notes");
}

static void no_choice(void *data, const struct state_plugin_choice *choice)
{
    (void)data;
    fail_msg("%s is still chosen", choice->plugin);
}

static void a_new_plugin_is_disabled_whatever_had_its_name_before(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct state *db = state_open(world->paths.state_db, &err);
    const struct state_plugin_choice enabled = {"notes", STATE_ENABLED};
    assert_int_equal(state_plugin_choice_set(db, &enabled, &err), 0);
    world_install(world, &notes);
    assert_int_equal(state_plugin_choices(db, no_choice, NULL, &err), 0);
    state_close(db);
}

static void nothing_is_changed_before_the_yes(void **state)
{
    struct world *world = *state;
    store_offer_free(world_offer(world, &notes));
    assert_false(world_exists(world, "plugins/notes"));
    assert_false(world_exists(world, "local.toml"));
    world_assert_whole(world, "notes");
}

static void comments_and_secrets_in_local_toml_stay(void **state)
{
    struct world *world = *state;
    world_write_file(world->paths.local_file, "# mine\n[plugins.notes] # its token\n"
                                              "token = \"${NOT_SET}\"\n\n[models]\n");
    world_install(world, &notes);
    kg_auto(kg_free) char *text = read_local(world);
    assert_has(text, "# mine\n[plugins.notes] # its token\ntoken = \"${NOT_SET}\"\ninstalled = ");
    assert_has(text, "\n[models]\n");
}

static void a_yes_for_other_files_is_no_yes(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_offer *offer = world_offer(world, &notes);
    const struct store_consent consent = {.hash = "sha256:00"};
    assert_true(store_take(world->store, offer, &consent, NULL, &err) < 0);
    assert_int_equal(err.code, KG_E_CONFLICT);
    store_offer_free(offer);
    world_assert_whole(world, "notes");
}

static void files_that_changed_after_they_were_shown_are_refused(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_offer *offer = world_offer(world, &notes);
    kg_auto(kg_free) char *program = kg_format("%s/tree/run.sh", offer->quarantine->path);
    world_write_file(program, "#!/bin/sh\nrm -rf /\n");
    assert_true(world_try_take(world, offer, &err) < 0);
    assert_int_equal(err.code, KG_E_CONFLICT);
    store_offer_free(offer);
    world_assert_whole(world, "notes");
}

static void an_offer_that_another_change_overtook_is_refused(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_offer *offer = world_offer(world, &notes);
    world_install(world, &(struct world_plugin){.name = "notes", .version = "1.3.0"});
    assert_true(world_try_take(world, offer, &err) < 0);
    assert_int_equal(err.code, KG_E_CONFLICT);
    assert_has(err.message, "was changed since this was shown");
    store_offer_free(offer);
    world_assert_whole(world, "notes");
}

static void a_bad_manifest_is_no_offer(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_offer *offer = NULL;
    const struct world_plugin bad = {.name = "notes", .version = "one"};
    assert_true(world_try_offer(world, &bad, NULL, &offer, &err) < 0);
    assert_int_equal(err.code, KG_E_INVALID_MANIFEST);
    assert_null(offer);
    world_assert_whole(world, "notes");
}

static void another_plugin_than_the_one_that_was_asked_for_is_refused(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_offer *offer = NULL;
    assert_true(world_try_offer(world, &notes, "diary", &offer, &err) < 0);
    assert_has(err.message, "is plugin notes, not diary");
}

static void a_name_that_another_package_has_is_refused(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_offer *offer = NULL;
    world_install(world, &(struct world_plugin){.name = "notes",
                                                .more = "package: \"@a/notes\"\nmethods: [a.b]\n"});
    assert_true(world_try_offer(world, &notes, NULL, &offer, &err) < 0);
    assert_int_equal(err.code, KG_E_CONFLICT);
    assert_has(err.message, "@a/notes");
}

/* -- upgrades ---------------------------------------------------------------------------------- */

static enum store_change_kind kind_after(struct world *world, const char *installed,
                                         const char *offered)
{
    world_install(world, &(struct world_plugin){.name = "notes", .version = installed});
    struct store_offer *offer =
        world_offer(world, &(struct world_plugin){.name = "notes", .version = offered});
    enum store_change_kind kind = offer->kind;
    assert_string_equal(offer->installed_version, installed);
    store_offer_free(offer);
    return kind;
}

static void versions_tell_upgrades_from_downgrades(void **state)
{
    struct world *world = *state;
    assert_int_equal(kind_after(world, "1.9.0", "1.10.0"), STORE_UPGRADE);
    assert_int_equal(kind_after(world, "2.0.0-rc.1", "2.0.0"), STORE_UPGRADE);
    assert_int_equal(kind_after(world, "2.0.0", "2.0.0-rc.1"), STORE_DOWNGRADE);
    assert_int_equal(kind_after(world, "2.0.0", "2.0.0"), STORE_REINSTALL);
}

static void an_upgrade_shows_new_and_removed_capabilities(void **state)
{
    struct world *world = *state;
    world_install(
        world, &(struct world_plugin){.name = "notes",
                                      .capabilities = "[\"read:fs:/opt\", \"exec:bash:/opt/x\"]"});
    const struct world_plugin wider = {
        .name = "notes",
        .version = "2.0.0",
        .capabilities = "[\"read:fs:/opt/x\", \"net:api.example.com:443\", \"net:*\"]"};
    struct store_offer *offer = world_offer(world, &wider);
    assert_true(offer->compared);
    assert_int_equal(find_capability(offer, "read:fs:/opt/x")->difference, STORE_SAME);
    assert_int_equal(find_capability(offer, "net:*")->difference, STORE_NEW);
    assert_non_null(find_capability(offer, "net:*")->danger);
    assert_int_equal(find_capability(offer, "net:api.example.com:443")->difference, STORE_NEW);
    assert_null(find_capability(offer, "net:api.example.com:443")->danger);
    assert_int_equal(find_capability(offer, "exec:bash:/opt/x")->difference, STORE_REMOVED);
    assert_int_equal(find_capability(offer, "read:fs:/opt")->difference, STORE_REMOVED);
    assert_true(store_offer_widens(offer));
    store_offer_free(offer);
}

static void new_capabilities_need_a_yes_of_their_own(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    world_install(world, &notes);
    const struct world_plugin wider = {
        .name = "notes", .version = "2.0.0", .capabilities = "[\"net:*\"]"};
    struct store_offer *offer = world_offer(world, &wider);
    kg_auto(kg_free) char *hash = kg_strdup(offer->hash);
    struct store_consent consent = {.hash = hash};
    assert_true(store_take(world->store, offer, &consent, NULL, &err) < 0);
    assert_int_equal(err.code, KG_E_REFUSED);
    consent.allow_new_capabilities = true;
    assert_int_equal(store_take(world->store, offer, &consent, NULL, &err), 0);
    world_assert_whole(world, "notes");
}

static void a_plugin_from_another_source_needs_a_yes_of_its_own(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    world_install(world, &notes);
    kg_auto(kg_free) char *before = read_local(world);
    assert_has(before, "installed_from = \"folder:/home/ann/somewhere\"\n");
    const struct world_plugin other = {.name = "notes", .version = "2.0.0", .from = "/tmp/notes"};
    struct store_offer *offer = world_offer(world, &other);
    assert_true(store_offer_is_of_other_source(offer));
    kg_auto(kg_free) char *hash = kg_strdup(offer->hash);
    struct store_consent consent = {.hash = hash, .allow_new_capabilities = true};
    assert_true(store_take(world->store, offer, &consent, NULL, &err) < 0);
    assert_int_equal(err.code, KG_E_REFUSED);
    assert_has(err.message, "folder:/home/ann/somewhere, and this is folder:/tmp/notes");
    kg_auto(kg_free) char *after = read_local(world);
    assert_string_equal(before, after);
    consent.replace_source = true;
    assert_int_equal(store_take(world->store, offer, &consent, NULL, &err), 0);
    kg_auto(kg_free) char *replaced = read_local(world);
    assert_has(replaced, "installed_from = \"folder:/tmp/notes\"\n");
    world_assert_whole(world, "notes");
}

/* A yes to one of them is none after another change has put a plugin of elsewhere there. */
static void what_took_the_place_from_another_source_meanwhile_is_not_replaced(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    world_install(world, &notes);
    struct store_offer *offer =
        world_offer(world, &(struct world_plugin){.name = "notes", .version = "2.0.0"});
    struct store_offer *same =
        world_offer(world, &(struct world_plugin){.name = "notes", .from = "/tmp/notes"});
    kg_auto(kg_free) char *hash = kg_strdup(same->hash);
    const struct store_consent yes = {.hash = hash, .replace_source = true};
    assert_int_equal(store_take(world->store, same, &yes, NULL, &err), 0);
    assert_true(world_try_take(world, offer, &err) < 0);
    assert_has(err.message, "was changed since this was shown");
    store_offer_free(offer);
}

/* It was installed before its source was written down. */
static void an_entry_without_a_source_is_of_any(void **state)
{
    struct world *world = *state;
    world_install(world, &notes);
    kg_auto(kg_free) char *text = read_local(world);
    char *line = strstr(text, "installed_from");
    memmove(line, strchr(line, '\n') + 1, strlen(strchr(line, '\n') + 1) + 1);
    world_write_file(world->paths.local_file, text);
    const struct world_plugin other = {.name = "notes", .version = "2.0.0", .from = "/tmp/notes"};
    struct store_offer *offer = world_offer(world, &other);
    assert_false(store_offer_is_of_other_source(offer));
    store_offer_free(offer);
    world_install(world, &other);
    kg_auto(kg_free) char *after = read_local(world);
    assert_has(after, "installed_from = \"folder:/tmp/notes\"\n");
}

/* A manifest that was edited in the store grants nothing: the next version must not get it free. */
static void capabilities_that_were_never_approved_are_new(void **state)
{
    struct world *world = *state;
    world_install(world, &notes);
    const struct world_plugin wider = {
        .name = "notes", .version = "1.2.0", .capabilities = "[\"net:*\"]"};
    world_copy_in(world, &wider);
    struct store_offer *offer = world_offer(
        world,
        &(struct world_plugin){.name = "notes", .version = "1.3.0", .capabilities = "[\"net:*\"]"});
    assert_int_equal(find_capability(offer, "net:*")->difference, STORE_NEW);
    store_offer_free(offer);
}

static void without_a_memory_of_what_was_approved_all_is_new(void **state)
{
    struct world *world = *state;
    world_install(world, &(struct world_plugin){.name = "notes", .capabilities = "[\"net:*\"]"});
    world_write_file(world_file(world, "notes", "run.sh"), "#!/bin/sh\n# other\n");
    kg_auto(kg_free) char *command =
        kg_format("rm -r %s", world_path(world, "plugins/.store/approved"));
    assert_int_equal(system(command), 0);
    struct store_offer *offer = world_offer(
        world,
        &(struct world_plugin){.name = "notes", .version = "2.0.0", .capabilities = "[\"net:*\"]"});
    assert_false(offer->compared);
    assert_int_equal(find_capability(offer, "net:*")->difference, STORE_NEW);
    store_offer_free(offer);
}

static void an_upgrade_shows_what_else_changed(void **state)
{
    struct world *world = *state;
    world_install(world, &(struct world_plugin){.name = "notes",
                                                .more = "methods: [a.b, a.c]\nhooks: "
                                                        "[pre_compact]\nroles: [observer]\n"});
    const struct world_plugin next = {
        .name = "notes",
        .version = "2.0.0",
        .program = "#!/bin/sh\n# new\n",
        .more = "methods: [a.b]\nhooks: [pre_compact]\nroles: [compactor, observer]\n"
                "tools:\n  - {name: search, description: finds}\n",
    };
    struct store_offer *offer = world_offer(world, &next);
    assert_string_equal(find_change(offer, "methods")->before[1], "a.c");
    assert_string_equal(find_change(offer, "roles")->after[1], "compactor");
    assert_string_equal(find_change(offer, "tools")->after[0], "search: finds");
    assert_null(find_change(offer, "hooks"));
    assert_null(find_change(offer, "command"));
    assert_int_equal(offer->diff.changed_count, 2);
    store_offer_free(offer);
}

static void a_trial_can_be_undone(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_trial *trial = NULL;
    world_install(world, &notes);
    kg_auto(kg_free) char *before = read_local(world);
    struct store_offer *offer =
        world_offer(world, &(struct world_plugin){.name = "notes", .version = "2.0.0"});
    kg_auto(kg_free) char *hash = kg_strdup(offer->hash);
    const struct store_consent consent = {.hash = hash};
    assert_int_equal(store_take(world->store, offer, &consent, &trial, &err), 0);
    assert_non_null(trial);
    assert_int_equal(store_recover(world->store, &err), 0); /* does not touch what is on trial */
    assert_int_equal(store_trial_revert(trial, &err), 0);
    kg_auto(kg_free) char *after = read_local(world);
    assert_string_equal(before, after);
    world_assert_whole(world, "notes");
}

/* An upgrade over a folder that was copied in by hand, taken back: no entry is left behind. */
static void a_trial_over_what_was_never_approved_leaves_no_entry(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_trial *trial = NULL;
    world_copy_in(world, &notes);
    world_write_file(world->paths.local_file, "# mine\n");
    struct store_offer *offer =
        world_offer(world, &(struct world_plugin){.name = "notes", .version = "2.0.0"});
    kg_auto(kg_free) char *hash = kg_strdup(offer->hash);
    const struct store_consent consent = {.hash = hash, .allow_new_capabilities = true};
    assert_int_equal(store_take(world->store, offer, &consent, &trial, &err), 0);
    assert_int_equal(store_trial_revert(trial, &err), 0);
    kg_auto(kg_free) char *after = read_local(world);
    assert_null(strstr(after, "plugins"));
    assert_true(store_check_full(world->store, "notes", &err) < 0);
    assert_int_equal(err.code, KG_E_NOT_APPROVED);
}

static void an_upgrade_keeps_what_local_says(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_offer *offer = world_offer(world, &notes);
    kg_auto(kg_free) char *hash = kg_strdup(offer->hash);
    const struct store_consent consent = {.hash = hash, .local = false};
    assert_int_equal(store_take(world->store, offer, &consent, NULL, &err), 0);
    world_install(world, &(struct world_plugin){.name = "notes", .version = "2.0.0"});
    kg_auto(kg_free) char *text = read_local(world);
    assert_has(text, "installed = \"2.0.0\"\nlocal = false\n");
}

static void a_promoted_plugin_is_for_every_project(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_offer *offer = world_offer(world, &notes);
    kg_auto(kg_free) char *hash = kg_strdup(offer->hash);
    const struct store_consent consent = {.hash = hash, .local = false};
    assert_int_equal(store_take(world->store, offer, &consent, NULL, &err), 0);
    assert_int_equal(store_promote(world->store, "notes", &err), 0);
    kg_auto(kg_free) char *text = read_local(world);
    assert_has(text, "local = true\n");
    assert_true(store_promote(world->store, "notes", &err) < 0);
    assert_int_equal(err.code, KG_E_CONFLICT);
    assert_true(store_promote(world->store, "other", &err) < 0);
    assert_int_equal(err.code, KG_E_NOT_FOUND);
}

static void an_offer_has_one_json_form(void **state)
{
    struct world *world = *state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    struct store_offer *offer =
        world_offer(world, &(struct world_plugin){.name = "notes", .capabilities = "[\"net:*\"]"});
    store_offer_json(offer, &json);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), NULL);
    assert_non_null(doc);
    assert_true(kg_str_is(kg_node_get(doc->root, "change")->text, "install"));
    assert_true(kg_str_is(kg_node_get(doc->root, "source")->text, "./somewhere"));
    assert_int_equal(kg_node_get(doc->root, "capabilities")->count, 1);
    store_offer_free(offer);
}

/* -- drift ------------------------------------------------------------------------------------- */

static void changed_files_are_noticed_quickly_and_named(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    world_install(world, &notes);
    assert_int_equal(store_check_quick(world->store, "notes", &err), 0);
    world_write_file(world_file(world, "notes", "run.sh"), "#!/bin/sh\nevil\n");
    world_write_file(world_file(world, "notes", "more.txt"), "");
    assert_int_equal(store_check_quick(world->store, "notes", &err), -EAGAIN);
    assert_true(store_check_full(world->store, "notes", &err) < 0);
    assert_int_equal(err.code, KG_E_NOT_APPROVED);
    assert_has(err.message, "1 changed (run.sh), 1 added (more.txt)");
    assert_string_equal(err.hint, "kaged plugin approve notes");
}

static void a_mode_that_changed_is_noticed(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    world_install(world, &notes);
    assert_int_equal(chmod(world_file(world, "notes", "run.sh"), 0644), 0);
    assert_int_equal(store_check_quick(world->store, "notes", &err), -EAGAIN);
    assert_true(store_check_full(world->store, "notes", &err) < 0);
}

/* As a backup does that was played back: other inodes and times, the same bytes. */
static void files_that_were_only_touched_are_known_again(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    world_install(world, &notes);
    kg_auto(kg_free) char *command =
        kg_format("cd %s && cp -r . ../copy && rm -r * && cp -r ../copy/* . && rm -r ../copy",
                  world_file(world, "notes", ""));
    assert_int_equal(system(command), 0);
    assert_int_equal(store_check_quick(world->store, "notes", &err), -EAGAIN);
    assert_int_equal(store_check_full(world->store, "notes", &err), 0);
    assert_int_equal(store_check_quick(world->store, "notes", &err), 0);
}

static void a_folder_that_was_copied_in_needs_approval(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_offer *offer = NULL;
    world_copy_in(world, &notes);
    assert_true(store_check_quick(world->store, "notes", &err) < 0);
    assert_int_equal(err.code, KG_E_NOT_APPROVED);
    assert_true(store_check_full(world->store, "notes", &err) < 0);
    assert_int_equal(store_offer_installed(world->store, "notes", &offer, &err), 0);
    assert_int_equal(offer->kind, STORE_APPROVE);
    assert_false(store_offer_widens(offer));
    assert_int_equal(world_try_take(world, offer, &err), 0);
    world_assert_whole(world, "notes");
}

static void an_approval_shows_files_and_capabilities_since_the_last(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_offer *offer = NULL;
    world_install(world, &notes);
    world_copy_in(world, &(struct world_plugin){
                             .name = "notes", .version = "1.2.0", .capabilities = "[\"net:*\"]"});
    assert_int_equal(store_offer_installed(world->store, "notes", &offer, &err), 0);
    assert_true(offer->compared);
    assert_int_equal(offer->diff.changed_count, 1);
    assert_string_equal(offer->diff.changed[0], MANIFEST_FILE);
    assert_int_equal(find_capability(offer, "net:*")->difference, STORE_NEW);
    const struct store_consent consent = {.hash = offer->hash};
    assert_true(store_take(world->store, offer, &consent, NULL, &err) < 0);
    assert_int_equal(err.code, KG_E_REFUSED);
    store_offer_free(offer);
}

static void another_hash_in_local_toml_is_noticed_at_once(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    world_install(world, &notes);
    assert_int_equal(store_check_quick(world->store, "notes", &err), 0);
    world_write_file(world->paths.local_file,
                     "[plugins.notes]\nhash = \"sha256:"
                     "0000000000000000000000000000000000000000000000000000000000000000\"\n");
    assert_int_equal(store_check_quick(world->store, "notes", &err), -EAGAIN);
    world_write_file(world->paths.local_file, "");
    assert_true(store_check_quick(world->store, "notes", &err) < 0);
    assert_int_equal(err.code, KG_E_NOT_APPROVED);
}

/* -- versions ---------------------------------------------------------------------------------- */

/* Somebody who writes to the folder that he put there writes to no file that is started. */
static void a_version_is_not_changed_with_the_folder_it_was_copied_from(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_offer *offer = NULL;
    struct store_version *version = NULL;
    world_copy_in(world, &notes);
    assert_int_equal(store_offer_installed(world->store, "notes", &offer, &err), 0);
    assert_int_equal(world_try_take(world, offer, &err), 0);
    assert_int_equal(store_version_current(world->store, "notes", &version, &err), 0);
    world_write_file(world_path(world, "plugins/notes/run.sh"), "#!/bin/sh\n# other\n");
    kg_auto(kg_free) char *path = kg_format("%s/run.sh", version->path);
    kg_auto(kg_free) char *text = world_read_file(path);
    assert_string_equal(text, "#!/bin/sh\n");
    assert_true(store_check_full(world->store, "notes", &err) < 0);
    assert_has(err.message, "1 changed (run.sh)");
    store_version_free(version);
}

static void a_version_goes_when_nobody_uses_it_and_not_before(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_version *version = NULL;
    world_install(world, &notes);
    assert_int_equal(store_version_current(world->store, "notes", &version, &err), 0);
    world_install(world, &(struct world_plugin){.name = "notes", .version = "3.0.0"});
    assert_int_equal(access(version->path, F_OK), 0);
    assert_int_equal(store_recover(world->store, &err), 0);
    assert_int_equal(access(version->path, F_OK), 0);
    store_version_free(version);
    store_tidy(world->store);
    world_assert_whole(world, "notes");
}

static void a_hash_that_is_none_names_no_version(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_version *version = NULL;
    static const char *const hashes[] = {"", "sha256:", "sha256:../../..", "md5:0", NULL};
    world_install(world, &notes);
    for (size_t i = 0; hashes[i] != NULL; i++)
        assert_true(store_version_hold(world->store, "notes", hashes[i], &version, &err) < 0);
}

static void a_link_in_the_plugins_folder_is_not_a_plugin(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    world_install(world, &notes);
    assert_int_equal(symlink("/etc", world_path(world, "plugins/linked")), 0);
    assert_int_equal(symlink(".store", world_path(world, "plugins/notes")), 0);
    char **names = store_names(world->store, &err);
    assert_true(kg_list_has(names, KG_STR("notes")));
    assert_false(kg_list_has(names, KG_STR("linked")));
    kg_list_free(names);
    struct store_offer *offer = NULL;
    assert_true(world_try_offer(world, &notes, NULL, &offer, &err) < 0);
    assert_has(err.message, "is not a folder");
}

/* Before there were versions, plugins/NAME itself was what was approved. */
static void make_older(struct world *world)
{
    kg_auto(kg_free) char *command = kg_format(
        "cd %s/plugins && mv .store/versions/notes-* notes && rmdir .store/versions", world->root);
    world_install(world, &notes);
    assert_int_equal(system(command), 0);
}

static void an_older_store_is_taken_over_once_and_without_loss(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    make_older(world);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(store_recover(world->store, &err), 0);
        world_assert_whole(world, "notes");
        assert_false(world_exists(world, "plugins/notes"));
    }
}

static void what_was_changed_in_an_older_store_waits_where_it_is(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    make_older(world);
    world_write_file(world_path(world, "plugins/notes/run.sh"), "#!/bin/sh\n# other\n");
    assert_int_equal(store_recover(world->store, &err), 0);
    assert_true(world_exists(world, "plugins/notes/run.sh"));
    assert_true(store_check_full(world->store, "notes", &err) < 0);
    assert_int_equal(err.code, KG_E_NOT_APPROVED);
}

/* -- uninstalling ------------------------------------------------------------------------------ */

static void write_database(struct world *world)
{
    world_write_file(world_path(world, "state/storage/notes.db"), "data");
    world_write_file(world_path(world, "state/storage/notes.db-wal"), "more");
    world_write_file(world_path(world, "state/storage/notes.db-shm"), "shared");
    world_write_file(world_path(world, "state/storage/notes-2.db"), "of another");
}

static void uninstalling_removes_all_that_belongs_to_it(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    const struct store_removal removal = {0};
    kg_auto(store_removed_free) struct store_removed removed = {0};
    world_write_file(world->paths.local_file, "# mine\n[models]\n");
    world_install(world, &notes);
    write_database(world);
    struct state *db = state_open(world->paths.state_db, &err);
    const struct state_plugin_choice enabled = {"notes", STATE_ENABLED};
    assert_int_equal(state_plugin_choice_set(db, &enabled, &err), 0);
    assert_int_equal(store_remove(world->store, "notes", &removal, &removed, &err), 0);
    assert_string_equal(removed.version, "1.2.0");
    assert_null(removed.storage);
    assert_int_equal(state_plugin_choices(db, no_choice, NULL, &err), 0);
    state_close(db);
    assert_false(world_exists(world, "plugins/notes"));
    assert_int_equal(world_count_names(world, "state/storage"), 1);
    kg_auto(kg_free) char *text = read_local(world);
    assert_has(text, "# mine\n[models]\n");
    assert_null(strstr(text, "notes"));
    world_assert_whole(world, "notes");
}

static void storage_can_be_kept(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    const struct store_removal removal = {.keep_storage = true};
    kg_auto(store_removed_free) struct store_removed removed = {0};
    world_install(world, &notes);
    write_database(world);
    assert_int_equal(store_remove(world->store, "notes", &removal, &removed, &err), 0);
    kg_auto(kg_free) char *text = world_read_file(removed.storage);
    kg_auto(kg_free) char *wal = kg_format("%s-wal", removed.storage);
    assert_string_equal(text, "data");
    assert_int_equal(access(wal, F_OK), 0);
    assert_false(world_exists(world, "state/storage/notes.db"));
    assert_false(world_exists(world, "state/storage/notes.db-shm"));
}

static void what_is_not_there_cannot_be_uninstalled(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    const struct store_removal removal = {0};
    kg_auto(store_removed_free) struct store_removed removed = {0};
    static const char *const names[] = {"notes", "..", ".store", "a/b", ""};
    for (size_t i = 0; i < KG_COUNT(names); i++) {
        assert_true(store_remove(world->store, names[i], &removal, &removed, &err) < 0);
        assert_int_equal(err.code, KG_E_NOT_FOUND);
    }
}

static void a_plugin_that_was_copied_in_can_be_uninstalled(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    const struct store_removal removal = {0};
    kg_auto(store_removed_free) struct store_removed removed = {0};
    world_copy_in(world, &notes);
    assert_int_equal(store_remove(world->store, "notes", &removal, &removed, &err), 0);
    assert_string_equal(removed.version, "1.2.0");
    world_assert_whole(world, "notes");
}

/* -- others at the same time ------------------------------------------------------------------- */

struct waits {
    int count;
    int holder; /* which lets go when it hears of one */
};

static void told(void *data)
{
    struct waits *waits = data;
    waits->count++;
    assert_int_equal(write(waits->holder, "", 1), 1);
}

static void a_writer_waits_for_another_and_says_so(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    struct waits waits = {.holder = ends[0]};
    char byte;
    store_on_wait(world->store, told, &waits);
    assert_int_equal(store_recover(world->store, &err), 0);
    assert_int_equal(waits.count, 0);
    pid_t holder = fork();
    if (holder == 0) {
        int fd = open(world_path(world, "plugins/.store/lock"), O_RDWR | O_CLOEXEC);
        close(ends[0]);
        if (fd >= 0 && flock(fd, LOCK_EX) == 0 && write(ends[1], "", 1) == 1)
            (void)!read(ends[1], &byte, 1);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(store_recover(world->store, &err), 0);
    assert_int_equal(waits.count, 1);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
    close(ends[0]);
}

static void a_folder_of_the_quarantine_in_use_is_not_swept_away(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    struct store_quarantine *ours = NULL;
    assert_int_equal(store_quarantine_new(world->store, &ours, &err), 0);
    assert_int_equal(mkdir(world_path(world, "plugins/.store/quarantine/OLD"), 0700), 0);
    assert_int_equal(store_recover(world->store, &err), 0);
    assert_int_equal(world_count_names(world, "plugins/.store/quarantine"), 1);
    assert_int_equal(access(ours->path, F_OK), 0);
    store_quarantine_free(ours);
}

static void a_journal_that_nobody_wrote_stops_every_change(void **state)
{
    struct world *world = *state;
    struct kg_err err = {0};
    assert_int_equal(store_recover(world->store, &err), 0);
    world_write_file(world_path(world, "plugins/.store/journal"),
                     "{\"act\":\"put\",\"name\":\"../x\",\"quarantine\":\"A\"}");
    assert_true(store_recover(world->store, &err) < 0);
    assert_has(err.message, "is not one that kaged wrote");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_installed_plugin_is_in_the_store_and_in_local_toml),
        TEST(a_new_plugin_is_disabled_whatever_had_its_name_before),
        TEST(nothing_is_changed_before_the_yes),
        TEST(comments_and_secrets_in_local_toml_stay),
        TEST(a_yes_for_other_files_is_no_yes),
        TEST(files_that_changed_after_they_were_shown_are_refused),
        TEST(an_offer_that_another_change_overtook_is_refused),
        TEST(a_bad_manifest_is_no_offer),
        TEST(another_plugin_than_the_one_that_was_asked_for_is_refused),
        TEST(a_name_that_another_package_has_is_refused),
        TEST(versions_tell_upgrades_from_downgrades),
        TEST(an_upgrade_shows_new_and_removed_capabilities),
        TEST(new_capabilities_need_a_yes_of_their_own),
        TEST(a_plugin_from_another_source_needs_a_yes_of_its_own),
        TEST(what_took_the_place_from_another_source_meanwhile_is_not_replaced),
        TEST(an_entry_without_a_source_is_of_any),
        TEST(capabilities_that_were_never_approved_are_new),
        TEST(without_a_memory_of_what_was_approved_all_is_new),
        TEST(an_upgrade_shows_what_else_changed),
        TEST(a_trial_can_be_undone),
        TEST(a_trial_over_what_was_never_approved_leaves_no_entry),
        TEST(an_upgrade_keeps_what_local_says),
        TEST(a_promoted_plugin_is_for_every_project),
        TEST(an_offer_has_one_json_form),
        TEST(changed_files_are_noticed_quickly_and_named),
        TEST(a_mode_that_changed_is_noticed),
        TEST(files_that_were_only_touched_are_known_again),
        TEST(a_folder_that_was_copied_in_needs_approval),
        TEST(an_approval_shows_files_and_capabilities_since_the_last),
        TEST(another_hash_in_local_toml_is_noticed_at_once),
        TEST(a_version_is_not_changed_with_the_folder_it_was_copied_from),
        TEST(a_version_goes_when_nobody_uses_it_and_not_before),
        TEST(a_hash_that_is_none_names_no_version),
        TEST(a_link_in_the_plugins_folder_is_not_a_plugin),
        TEST(an_older_store_is_taken_over_once_and_without_loss),
        TEST(what_was_changed_in_an_older_store_waits_where_it_is),
        TEST(uninstalling_removes_all_that_belongs_to_it),
        TEST(storage_can_be_kept),
        TEST(what_is_not_there_cannot_be_uninstalled),
        TEST(a_plugin_that_was_copied_in_can_be_uninstalled),
        TEST(a_writer_waits_for_another_and_says_so),
        TEST(a_folder_of_the_quarantine_in_use_is_not_swept_away),
        TEST(a_journal_that_nobody_wrote_stops_every_change),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
