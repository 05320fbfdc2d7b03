/*
 * Changes of the store. Each has one step that decides: the entry in local.toml, which says what
 * version of a plugin is started. A process that ends before it has changed nothing; one that ends
 * after it is finished by whoever comes next, by what the journal says.
 *
 *   journal written -> version in its place -> local.toml -> a folder put there by hand moved away
 *                   -> what was approved -> journal removed -> versions that nobody needs removed
 */
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FOLDER_NAME "folder" /* in the quarantine: plugins/NAME, as somebody had put it there */

struct store_trial {
    struct store *store;                 /* borrowed */
    char *name;                          /* owned, like the rest */
    struct store_quarantine *quarantine; /* has the folder from before, if there was one */
    struct store_record before, after;
    struct store_version *version; /* the one from before; NULL: there was none */
};

/* -- a folder that was put there by hand ------------------------------------------------------- */

/* One that is not there is fine. */
static int move_folder(const struct store_hold *hold, int from_fd, const char *from, int to_fd,
                       const char *to, const char *name, struct kg_err *err)
{
    int result = store_step("folder");
    if (result == 0 && renameat2(from_fd, from, to_fd, to, RENAME_NOREPLACE) < 0 && errno != ENOENT)
        result = -errno;
    if (result < 0) {
        result = kg_fail_errno(err, -result, "plugin %s: move its folder", name);
        if (result == -EACCES)
            kg_hint(err, "the folder that is there belongs to another user, who can remove it");
        return result;
    }
    return store_sync_folder(hold->plugins_fd, err);
}

int store_folder_away(const struct store_hold *hold, int quarantine_fd, const char *name,
                      struct kg_err *err)
{
    return move_folder(hold, hold->plugins_fd, name, quarantine_fd, FOLDER_NAME, name, err);
}

/* -- local.toml -------------------------------------------------------------------------------- */

/* An edit that failed only in its last sync has been made. */
static int store_change_write_record(struct store *store, const char *name,
                                     const struct store_record *record, struct kg_err *err)
{
    kg_auto(store_record_free) struct store_record now = {0};
    int result = store_step("record");
    if (result < 0)
        return kg_fail_errno(err, -result, "write local.toml");
    result = store_record_write(store, record, err);
    if (result < 0 && store_record_read(store, name, &now, NULL) == 0 &&
        store_record_equal(&now, record))
        return 0;
    return result;
}

/* -- putting ----------------------------------------------------------------------------------- */

/* The version that local.toml names now is remembered, if it is whole. */
static void remember_tree(struct store *store, const struct store_hold *hold,
                          const struct store_journal *journal)
{
    kg_auto(store_look_free) struct store_look look = {0}, folder = {0};
    const char *hash = journal->record.hash;
    kg_auto(kg_free) char *path = store_version_path(store, journal->name, hash);
    kg_auto(kg_free) char *put_by_hand = store_folder_path(store, journal->name);
    if (put_by_hand != NULL)
        (void)store_look_read(store, AT_FDCWD, put_by_hand, &folder, NULL);
    if (path != NULL && store_look_read(store, AT_FDCWD, path, &look, NULL) == 0 &&
        strcmp(look.tree.hash, hash) == 0 &&
        (put_by_hand == NULL || strcmp(folder.tree.hash, hash) == 0))
        store_approved_write(store, hold, journal->name, &look, folder.quick);
    else
        store_approved_remove(hold, journal->name);
}

static int settle_folder(const struct store_hold *hold, int quarantine_fd,
                         const struct store_journal *journal, struct kg_err *err)
{
    if (journal->act == STORE_ACT_PUT)
        return store_folder_away(hold, quarantine_fd, journal->name, err);
    return move_folder(hold, quarantine_fd, FOLDER_NAME, hold->plugins_fd, journal->name,
                       journal->name, err);
}

/* The steps after the entry, which whoever comes next repeats if they were cut short. */
static void finish_put(struct store *store, const struct store_hold *hold, int quarantine_fd,
                       const struct store_journal *journal)
{
    struct kg_err err;
    if (settle_folder(hold, quarantine_fd, journal, &err) < 0) {
        kg_log(KG_ERROR_LEVEL, "%s", err.message);
        return; /* done again by the next one, like all that follows */
    }
    (void)store_step("approved");
    remember_tree(store, hold, journal);
    (void)store_step("end");
    if (store_journal_remove(hold, &err) < 0)
        kg_log_about(KG_WARN, journal->name, "%s", err.message);
    (void)store_step("after");
}

/* tree: what is in the quarantine becomes the version; NULL: that is there already. */
static int store_change_put(struct store *store, const struct store_hold *hold, int quarantine_fd,
                            const struct store_journal *journal, const char *tree,
                            struct kg_err *err)
{
    int result = store_step("journal");
    result = result < 0 ? kg_fail_errno(err, -result, "write the journal of the plugin store")
                        : store_journal_write(hold, journal, err);
    if (result < 0)
        return result;
    if (tree != NULL)
        result = store_version_put(store, hold, quarantine_fd, STORE_TREE_NAME, journal->name, tree,
                                   err);
    if (result == 0)
        result = store_change_write_record(store, journal->name, &journal->record, err);
    if (result < 0)
        (void)store_journal_remove(hold, NULL);
    else
        finish_put(store, hold, quarantine_fd, journal);
    return result;
}

/* -- consent ----------------------------------------------------------------------------------- */

int store_consent_check(const struct store_offer *offer, const struct store_consent *consent,
                        struct kg_err *err)
{
    if (consent->hash == NULL || strcmp(consent->hash, offer->hash) != 0)
        return kg_fail(err, KG_E_CONFLICT,
                       "plugin %s: the approval is for other files than these (%s)",
                       offer->manifest->name, offer->hash);
    int result = store_check_source(offer, consent->replace_source, err);
    if (result < 0 || !store_offer_widens(offer) || consent->allow_new_capabilities)
        return result;
    result =
        kg_fail(err, KG_E_REFUSED, "plugin %s asks for %zu new capabilit%s", offer->manifest->name,
                offer->capabilities_new, offer->capabilities_new == 1 ? "y" : "ies");
    kg_hint(err, "new capabilities need an approval of their own: --allow-new-capabilities");
    return result;
}

static int store_change_fail_changed(const char *name, struct kg_err *err)
{
    int result = kg_fail(err, KG_E_CONFLICT, "plugin %s was changed since this was shown", name);
    kg_hint(err, "look at it again, then decide");
    return result;
}

/* What was shown is compared with what is installed now: another change may have come between. */
static int check_base(const struct store_offer *offer, const struct store_record *now, bool exists,
                      struct kg_err *err)
{
    bool wants_old = offer->kind != STORE_INSTALL;
    if (exists != wants_old || strcmp(now->hash ? now->hash : "", offer->approved_hash) != 0 ||
        !kg_same_text(now->from, offer->installed_from))
        return store_change_fail_changed(offer->manifest->name, err);
    return 0;
}

/* -- taking an offer --------------------------------------------------------------------------- */

/* A yes to other files of what is installed changes nothing for what it stored: an upgrade does. */
static char *store_change_process_of(const struct store_offer *offer,
                                     const struct store_record *before)
{
    bool stays = offer->kind == STORE_APPROVE && before->hash != NULL && before->process == NULL;
    return stays ? NULL : kg_strdup(manifest_process_names[offer->manifest->process]);
}

static struct store_record store_change_record_of(const struct store_offer *offer,
                                                  const struct store_consent *consent,
                                                  const struct store_record *before)
{
    return (struct store_record){
        .package = kg_strdup(offer->manifest->package),
        .installed = kg_strdup(offer->manifest->version),
        .hash = kg_strdup(offer->hash),
        .process = store_change_process_of(offer, before),
        .from = kg_strdup(offer->from ? offer->from : before->from),
        .has_local = true,
        .local = before->installed != NULL ? before->local : consent->local,
        .offer = offer,
    };
}

/* The files as they are at this moment are what the yes was for. */
static int store_change_check_tree(struct store *store, int parent_fd, const char *folder,
                                   const struct store_offer *offer, struct store_look *ret_look,
                                   struct kg_err *err)
{
    kg_auto(store_look_free) struct store_look look = {0};
    int result = store_look_read(store, parent_fd, folder, &look, err);
    if (result < 0)
        return kg_wrap(err, result, "plugin %s", offer->manifest->name);
    if (strcmp(look.tree.hash, offer->hash) != 0)
        return store_change_fail_changed(offer->manifest->name, err);
    *ret_look = look;
    look = (struct store_look){0};
    return 0;
}

static struct store_trial *trial_new(struct store *store, struct store_offer *offer,
                                     struct store_record *before, struct store_record *after,
                                     struct store_version *version)
{
    struct store_trial *trial = kg_alloc(sizeof(*trial));
    trial->store = store;
    trial->name = kg_strdup(offer->manifest->name);
    trial->quarantine = kg_steal(&offer->quarantine);
    trial->version = version;
    trial->before = *before;
    trial->after = *after;
    trial->after.offer = NULL; /* it is used up by then */
    *before = *after = (struct store_record){0};
    if (trial->before.package == NULL)
        trial->before.package = kg_strdup(offer->manifest->package);
    return trial;
}

static int store_change_take_fetched(struct store *store, const struct store_hold *hold,
                                     struct store_offer *offer, const struct store_record *after,
                                     struct kg_err *err)
{
    kg_auto(store_look_free) struct store_look look = {0};
    int quarantine_fd = offer->quarantine->fd;
    int result = store_change_check_tree(store, quarantine_fd, STORE_TREE_NAME, offer, &look, err);
    if (result == 0 && syncfs(quarantine_fd) < 0)
        result = kg_fail_errno(err, errno, "write the plugin's files");
    if (result < 0)
        return result;
    /* A new plugin is disabled, whatever was said of another that had its name. */
    if (offer->kind == STORE_INSTALL)
        result = store_forget_choice(store, offer->manifest->name, err);
    if (result < 0)
        return result;
    const struct store_journal journal = {
        .act = STORE_ACT_PUT,
        .name = (char *)offer->manifest->name, /* borrowed, like the rest */
        .quarantine = offer->quarantine->id,
        .record = *after,
    };
    return store_change_put(store, hold, quarantine_fd, &journal, offer->hash, err);
}

/* A copy becomes the version, and the entry alone decides: it is written whole or not at all. */
static int store_change_take_installed(struct store *store, const struct store_hold *hold,
                                       const struct store_offer *offer,
                                       const struct store_record *before,
                                       const struct store_record *after, struct kg_err *err)
{
    const char *name = offer->manifest->name;
    kg_auto(store_look_free) struct store_look look = {0}, version = {0};
    kg_auto(kg_free) char *folder = store_folder_path(store, name);
    kg_auto(kg_free) char *path = store_files_path(store, name, before->hash);
    if (path == NULL)
        return store_change_fail_changed(name, err);
    int result = store_change_check_tree(store, AT_FDCWD, path, offer, &look, err);
    if (result == 0)
        result = store_version_copy(store, hold, name, path, &look.tree, &version, err);
    if (result == 0)
        result = store_change_write_record(store, name, after, err);
    if (result == 0)
        store_approved_write(store, hold, name, &version, folder ? look.quick : "");
    return result;
}

/* Whether something of that name is installed, or was put there by hand. */
static int look_at_place(const struct store *store, const struct store_hold *hold, const char *name,
                         const struct store_record *now, bool *ret_exists, struct kg_err *err)
{
    struct stat there;
    bool exists = fstatat(hold->plugins_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0;
    if (exists && !S_ISDIR(there.st_mode))
        return kg_fail(err, KG_E_CONFLICT, "plugin %s: in the plugins folder %s is not a folder",
                       name, name);
    *ret_exists = exists || store_version_is_there(store, name, now->hash);
    return 0;
}

static int store_change_take(struct store *store, const struct store_hold *hold,
                             struct store_offer *offer, const struct store_consent *consent,
                             struct store_trial **ret_trial, struct kg_err *err)
{
    kg_auto(store_record_free) struct store_record before = {0}, after = {0};
    const char *name = offer->manifest->name;
    bool exists = false, approves = offer->kind == STORE_APPROVE;
    int result = store_record_read(store, name, &before, err);
    if (result == 0)
        result = look_at_place(store, hold, name, &before, &exists, err);
    if (result == 0)
        result = check_base(offer, &before, exists, err);
    if (result < 0)
        return result;
    after = store_change_record_of(offer, consent, &before);
    struct store_version *version = NULL; /* held before another takes its place */
    if (!approves && exists && ret_trial != NULL)
        (void)store_version_hold(store, name, before.hash, &version, NULL);
    result = approves ? store_change_take_installed(store, hold, offer, &before, &after, err)
                      : store_change_take_fetched(store, hold, offer, &after, err);
    if (result == 0 && ret_trial != NULL)
        *ret_trial = !approves && exists
                         ? trial_new(store, offer, &before, &after, kg_steal(&version))
                         : NULL;
    store_version_free(version);
    return result;
}

int store_take(struct store *store, struct store_offer *offer, const struct store_consent *consent,
               struct store_trial **ret_trial, struct kg_err *err)
{
    kg_auto(store_hold_end) struct store_hold hold = {-1, -1, -1};
    int result = store_consent_check(offer, consent, err);
    if (result == 0)
        result = store_hold_begin(store, &hold, err);
    if (result < 0)
        return result;
    result = store_change_take(store, &hold, offer, consent, ret_trial, err);
    if (result == 0)
        store_offer_free(offer);
    store_sweep_versions(store, &hold);
    return result;
}

/* -- trials ------------------------------------------------------------------------------------ */

static void trial_free(struct store_trial *trial)
{
    store_quarantine_free(trial->quarantine);
    store_version_free(trial->version);
    store_record_free(&trial->before);
    store_record_free(&trial->after);
    free(trial->name);
    free(trial);
}

void store_trial_keep(struct store_trial *trial)
{
    if (trial == NULL)
        return;
    struct store *store = trial->store;
    trial_free(trial);
    store_tidy(store);
}

static int revert(struct store_trial *trial, const struct store_hold *hold, struct kg_err *err)
{
    kg_auto(store_record_free) struct store_record now = {0};
    int result = store_record_read(trial->store, trial->name, &now, err);
    if (result < 0)
        return result;
    if (!kg_same_text(now.hash, trial->after.hash))
        return store_change_fail_changed(trial->name, err);
    const struct store_journal journal = {
        .act = STORE_ACT_REVERT,
        .name = trial->name,
        .quarantine = trial->quarantine->id,
        .record = trial->before,
    };
    return store_change_put(trial->store, hold, trial->quarantine->fd, &journal, NULL, err);
}

int store_trial_revert(struct store_trial *trial, struct kg_err *err)
{
    struct store *store = trial->store;
    kg_auto(store_hold_end) struct store_hold hold = {-1, -1, -1};
    int result = store_hold_begin(store, &hold, err);
    if (result == 0)
        result = revert(trial, &hold, err);
    trial_free(trial);
    if (hold.lock_fd >= 0)
        store_sweep_versions(store, &hold);
    return result;
}

/* -- what a killed process left ---------------------------------------------------------------- */

/* Whether local.toml says already what it was to say. */
static bool was_decided(struct store *store, const struct store_journal *journal)
{
    kg_auto(store_record_free) struct store_record now = {0};
    if (store_record_read(store, journal->name, &now, NULL) < 0)
        return false;
    if (journal->act == STORE_ACT_REMOVE)
        return now.installed == NULL && now.hash == NULL;
    return kg_same_text(now.hash, journal->record.hash) &&
           kg_same_text(now.installed, journal->record.installed);
}

static int store_change_finish(struct store *store, const struct store_hold *hold,
                               const struct store_journal *journal, struct kg_err *err)
{
    if (!was_decided(store, journal)) {
        kg_log_about(KG_WARN, journal->name,
                     "a change of the plugin store was cut short; nothing was changed");
        return store_journal_remove(hold, err);
    }
    kg_log_about(KG_WARN, journal->name,
                 "a change of the plugin store was cut short; it is finished now");
    kg_auto(kg_close) int quarantine = store_quarantine_open(hold, journal->quarantine, err);
    if (quarantine < 0)
        return quarantine;
    if (journal->act == STORE_ACT_REMOVE)
        return store_finish_removal(store, hold, quarantine, journal, err);
    finish_put(store, hold, quarantine, journal);
    return 0;
}

int store_finish(struct store *store, const struct store_hold *hold, struct kg_err *err)
{
    kg_auto(store_journal_free) struct store_journal journal = {0};
    int result = store_journal_read(hold, &journal, err);
    if (result == -ENOENT)
        return 0;
    if (result == 0)
        result = store_change_finish(store, hold, &journal, err);
    return result < 0 ? kg_wrap(err, result, "finish a change of the plugin store") : 0;
}
