/*
 * Changes of the store. Each has one step that decides: the rename of a folder. A process that ends
 * before it has changed nothing; one that ends after it is finished by whoever comes next, by what
 * the journal says.
 *
 *   journal written -> folders exchanged -> local.toml -> what was approved -> journal removed
 */
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct store_trial {
    struct store *store;                 /* borrowed */
    char *name;                          /* owned, like the next two */
    char *tree;                          /* the hash of the new files */
    struct store_quarantine *quarantine; /* has the version before */
    struct store_record before;          /* owned */
};

/* -- the rename -------------------------------------------------------------------------------- */

static int exchange(const struct store_hold *hold, int quarantine_fd, const char *name,
                    bool replaces, struct kg_err *err)
{
    int result = store_step("exchange");
    if (result == 0 && renameat2(quarantine_fd, STORE_TREE_NAME, hold->plugins_fd, name,
                                 replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE) < 0)
        result = -errno;
    if (result < 0) {
        result = kg_fail_errno(err, -result, "plugin %s: put its files in their place", name);
        if (replaces && result == -EINVAL)
            kg_hint(err, "this file system cannot exchange folders: uninstall %s first", name);
        else if (result == -EACCES)
            kg_hint(err, "the folder that is there belongs to another user, who can remove it");
        return result;
    }
    result = store_sync_folder(hold->plugins_fd, err);
    return result < 0 ? result : store_sync_folder(quarantine_fd, err);
}

static void exchange_back(const struct store_hold *hold, int quarantine_fd, const char *name,
                          bool replaces)
{
    int result = renameat2(hold->plugins_fd, name, quarantine_fd, STORE_TREE_NAME,
                           replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE);
    struct kg_err err;
    if (result < 0)
        kg_log_about(KG_ERROR_LEVEL, name, "put back the files that were there: %m");
    else if (store_journal_remove(hold, &err) < 0)
        kg_log_about(KG_ERROR_LEVEL, name, "%s", err.message);
}

/* -- local.toml -------------------------------------------------------------------------------- */

/* An edit that failed only in its last sync has been made. */
static int write_record(struct store *store, const char *name, const struct store_record *record,
                        struct kg_err *err)
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

/* The tree that is in its place now is remembered, if it is the one that was approved. */
static void remember_tree(struct store *store, const struct store_hold *hold,
                          const struct store_journal *journal, const struct store_look *look)
{
    if (journal->record.hash != NULL && strcmp(look->tree.hash, journal->record.hash) == 0)
        store_approved_write(store, hold, journal->name, look);
    else
        store_approved_remove(hold, journal->name);
}

/* The steps after the rename, which whoever comes next repeats if they were cut short. */
static int finish_put(struct store *store, const struct store_hold *hold,
                      const struct store_journal *journal, const struct store_look *look,
                      struct kg_err *err)
{
    int result = write_record(store, journal->name, &journal->record, err);
    if (result < 0)
        return result;
    (void)store_step("approved");
    remember_tree(store, hold, journal, look);
    (void)store_step("end");
    if (store_journal_remove(hold, err) < 0)
        kg_log_about(KG_WARN, journal->name, "%s", err->message); /* done again by the next one */
    (void)store_step("after");
    return 0;
}

/* look: at what is going to be in its place. */
static int put(struct store *store, const struct store_hold *hold, int quarantine_fd,
               const struct store_journal *journal, const struct store_look *look, bool replaces,
               struct kg_err *err)
{
    int result = store_step("journal");
    result = result < 0 ? kg_fail_errno(err, -result, "write the journal of the plugin store")
                        : store_journal_write(hold, journal, err);
    if (result < 0)
        return result;
    result = exchange(hold, quarantine_fd, journal->name, replaces, err);
    if (result < 0) {
        (void)store_journal_remove(hold, NULL);
        return result;
    }
    result = finish_put(store, hold, journal, look, err);
    if (result < 0)
        exchange_back(hold, quarantine_fd, journal->name, replaces);
    return result;
}

/* -- consent ----------------------------------------------------------------------------------- */

int store_consent_check(const struct store_offer *offer, const struct store_consent *consent,
                        struct kg_err *err)
{
    if (consent->hash == NULL || strcmp(consent->hash, offer->hash) != 0)
        return kg_fail(err, KG_E_CONFLICT, "plugin %s: the yes is for other files than these (%s)",
                       offer->manifest->name, offer->hash);
    if (!store_offer_widens(offer) || consent->allow_new_capabilities)
        return 0;
    int result =
        kg_fail(err, KG_E_REFUSED, "plugin %s asks for %zu new capabilit%s", offer->manifest->name,
                offer->capabilities_new, offer->capabilities_new == 1 ? "y" : "ies");
    kg_hint(err, "new capabilities need a yes of their own: --allow-new-capabilities");
    return result;
}

static int fail_changed(const char *name, struct kg_err *err)
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
    if (exists != wants_old || strcmp(now->hash ? now->hash : "", offer->approved_hash) != 0)
        return fail_changed(offer->manifest->name, err);
    return 0;
}

/* -- taking an offer --------------------------------------------------------------------------- */

/* A yes to other files of what is installed changes nothing for what it stored: an upgrade does. */
static char *process_of(const struct store_offer *offer, const struct store_record *before)
{
    bool stays = offer->kind == STORE_APPROVE && before->hash != NULL && before->process == NULL;
    return stays ? NULL : kg_strdup(manifest_process_names[offer->manifest->process]);
}

static struct store_record record_of(const struct store_offer *offer,
                                     const struct store_consent *consent,
                                     const struct store_record *before)
{
    return (struct store_record){
        .package = kg_strdup(offer->manifest->package),
        .installed = kg_strdup(offer->manifest->version),
        .hash = kg_strdup(offer->hash),
        .process = process_of(offer, before),
        .has_local = true,
        .local = before->installed != NULL ? before->local : consent->local,
    };
}

/* The files as they are at this moment are what the yes was for. */
static int check_tree(struct store *store, int parent_fd, const char *folder,
                      const struct store_offer *offer, struct store_look *ret_look,
                      struct kg_err *err)
{
    kg_auto(store_look_free) struct store_look look = {0};
    int result = store_look_read(store, parent_fd, folder, &look, err);
    if (result < 0)
        return kg_wrap(err, result, "plugin %s", offer->manifest->name);
    if (strcmp(look.tree.hash, offer->hash) != 0)
        return fail_changed(offer->manifest->name, err);
    *ret_look = look;
    look = (struct store_look){0};
    return 0;
}

static struct store_trial *trial_new(struct store *store, struct store_offer *offer,
                                     struct store_record *before)
{
    struct store_trial *trial = kg_alloc(sizeof(*trial));
    trial->store = store;
    trial->name = kg_strdup(offer->manifest->name);
    trial->tree = kg_strdup(offer->hash);
    trial->quarantine = kg_steal(&offer->quarantine);
    trial->before = *before;
    *before = (struct store_record){0};
    if (trial->before.package == NULL)
        trial->before.package = kg_strdup(offer->manifest->package);
    return trial;
}

static int take_fetched(struct store *store, const struct store_hold *hold,
                        struct store_offer *offer, const struct store_consent *consent,
                        struct store_record *before, struct kg_err *err)
{
    kg_auto(store_look_free) struct store_look look = {0};
    int quarantine_fd = offer->quarantine->fd;
    int result = check_tree(store, quarantine_fd, STORE_TREE_NAME, offer, &look, err);
    if (result == 0 && syncfs(quarantine_fd) < 0)
        result = kg_fail_errno(err, errno, "write the plugin's files");
    if (result < 0)
        return result;
    /* A new plugin is disabled, whatever was said of another that had its name. */
    if (offer->kind == STORE_INSTALL)
        result = store_forget_choice(store, offer->manifest->name, err);
    if (result < 0)
        return result;
    kg_auto(store_journal_free) struct store_journal journal = {
        .act = STORE_ACT_PUT,
        .name = kg_strdup(offer->manifest->name),
        .quarantine = kg_strdup(offer->quarantine->id),
        .tree = kg_strdup(offer->hash),
        .record = record_of(offer, consent, before),
    };
    return put(store, hold, quarantine_fd, &journal, &look, offer->kind != STORE_INSTALL, err);
}

/* Nothing moves: the entry alone is the change, and it is written whole or not at all. */
static int take_installed(struct store *store, const struct store_hold *hold,
                          const struct store_offer *offer, const struct store_consent *consent,
                          const struct store_record *before, struct kg_err *err)
{
    const char *name = offer->manifest->name;
    kg_auto(store_look_free) struct store_look look = {0};
    kg_auto(store_record_free) struct store_record record = record_of(offer, consent, before);
    int result = check_tree(store, hold->plugins_fd, name, offer, &look, err);
    if (result == 0)
        result = write_record(store, name, &record, err);
    if (result == 0)
        store_approved_write(store, hold, name, &look);
    return result;
}

/* Whether there is a folder of that name. */
static int look_at_place(const struct store_hold *hold, const char *name, bool *ret_exists,
                         struct kg_err *err)
{
    struct stat there;
    bool exists = fstatat(hold->plugins_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0;
    if (exists && !S_ISDIR(there.st_mode))
        return kg_fail(err, KG_E_CONFLICT, "plugin %s: in the plugins folder %s is no folder", name,
                       name);
    *ret_exists = exists;
    return 0;
}

int store_take(struct store *store, struct store_offer *offer, const struct store_consent *consent,
               struct store_trial **ret_trial, struct kg_err *err)
{
    kg_auto(store_hold_end) struct store_hold hold = {-1, -1, -1};
    kg_auto(store_record_free) struct store_record before = {0};
    const char *name = offer->manifest->name;
    bool exists = false;
    int result = store_consent_check(offer, consent, err);
    if (result == 0)
        result = store_hold_begin(store, &hold, err);
    if (result == 0)
        result = store_record_read(store, name, &before, err);
    if (result == 0)
        result = look_at_place(&hold, name, &exists, err);
    if (result == 0)
        result = check_base(offer, &before, exists, err);
    if (result < 0)
        return result;
    bool approves = offer->kind == STORE_APPROVE;
    result = approves ? take_installed(store, &hold, offer, consent, &before, err)
                      : take_fetched(store, &hold, offer, consent, &before, err);
    if (result < 0)
        return result;
    if (ret_trial != NULL)
        *ret_trial = !approves && exists ? trial_new(store, offer, &before) : NULL;
    store_offer_free(offer);
    return 0;
}

/* -- trials ------------------------------------------------------------------------------------ */

static void trial_free(struct store_trial *trial)
{
    store_quarantine_free(trial->quarantine);
    store_record_free(&trial->before);
    free(trial->name);
    free(trial->tree);
    free(trial);
}

void store_trial_keep(struct store_trial *trial)
{
    if (trial != NULL)
        trial_free(trial);
}

static int revert(struct store_trial *trial, const struct store_hold *hold, struct kg_err *err)
{
    kg_auto(store_record_free) struct store_record now = {0};
    kg_auto(store_look_free) struct store_look look = {0};
    int result = store_record_read(trial->store, trial->name, &now, err);
    if (result < 0)
        return result;
    if (now.hash == NULL || strcmp(now.hash, trial->tree) != 0)
        return fail_changed(trial->name, err);
    /* What was there before may be no tree that we would take: then nothing is remembered of it. */
    (void)store_look_read(trial->store, trial->quarantine->fd, STORE_TREE_NAME, &look, NULL);
    struct store_journal journal = {
        .act = STORE_ACT_REVERT,
        .name = trial->name,
        .quarantine = trial->quarantine->id,
        .tree = trial->tree,
        .record = trial->before,
    };
    return put(trial->store, hold, trial->quarantine->fd, &journal, &look, true, err);
}

int store_trial_revert(struct store_trial *trial, struct kg_err *err)
{
    kg_auto(store_hold_end) struct store_hold hold = {-1, -1, -1};
    int result = store_hold_begin(trial->store, &hold, err);
    if (result == 0)
        result = revert(trial, &hold, err);
    trial_free(trial);
    return result;
}

/* -- what a killed process left ---------------------------------------------------------------- */

/* Whether the rename was done, as far as the folders tell. */
static bool was_decided(const struct store_hold *hold, const struct store_journal *journal,
                        const struct store_look *look)
{
    struct stat there;
    bool same = journal->tree != NULL && strcmp(look->tree.hash, journal->tree) == 0;
    switch (journal->act) {
    case STORE_ACT_PUT:
        return same;
    case STORE_ACT_REVERT:
        return !same;
    case STORE_ACT_REMOVE:
        break;
    }
    return fstatat(hold->plugins_fd, journal->name, &there, AT_SYMLINK_NOFOLLOW) < 0;
}

static int finish(struct store *store, const struct store_hold *hold,
                  const struct store_journal *journal, struct kg_err *err)
{
    kg_auto(store_look_free) struct store_look look = {0};
    if (journal->act != STORE_ACT_REMOVE)
        (void)store_look_read(store, hold->plugins_fd, journal->name, &look, NULL);
    if (!was_decided(hold, journal, &look)) {
        kg_log_about(KG_WARN, journal->name,
                     "a change of the plugin store was cut short; nothing "
                     "was changed");
        return store_journal_remove(hold, err);
    }
    kg_log_about(KG_WARN, journal->name,
                 "a change of the plugin store was cut short; it is "
                 "finished now");
    return journal->act == STORE_ACT_REMOVE ? store_finish_removal(store, hold, journal, err)
                                            : finish_put(store, hold, journal, &look, err);
}

int store_finish(struct store *store, const struct store_hold *hold, struct kg_err *err)
{
    kg_auto(store_journal_free) struct store_journal journal = {0};
    int result = store_journal_read(hold, &journal, err);
    if (result == -ENOENT)
        return 0;
    if (result == 0)
        result = finish(store, hold, &journal, err);
    return result < 0 ? kg_wrap(err, result, "finish a change of the plugin store") : 0;
}
