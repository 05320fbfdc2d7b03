/*
 * Uninstalling. The plugin is gone when its entry is; what belongs to it goes after that, and a
 * process that ends in between leaves the rest to the next one.
 *
 *   journal written -> local.toml -> a folder put there by hand -> kaged.db -> database
 *                   -> journal removed -> its versions
 */
#include "store/internal.h"

#include "state/cluster.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void store_removed_free(struct store_removed *removed)
{
    free(removed->version);
    free(removed->storage);
    free(removed->plugin_data);
    *removed = (struct store_removed){0};
}

/* -- its database ------------------------------------------------------------------------------ */

/*
 * What follows ".db" in "NAME.db" and "NAME@PROJECT.db" and the files beside them: "", "-wal",
 * "-shm", ".damaged...". NULL: no such file, or one that was kept when NAME was uninstalled before.
 */
static const char *database_suffix(const char *file, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(file, name, length) != 0 || (file[length] != '.' && file[length] != '@') ||
        strstr(file + length, ".export-") != NULL)
        return NULL;
    const char *suffix = strstr(file + length, ".db");
    return suffix != NULL && (file[length] == '@' || suffix == file + length) ? suffix + 3 : NULL;
}

/* One file that holds data is kept under another name; one beside it goes, or stays as it is. */
static int clear_file(int folder_fd, const char *file, const char *suffix,
                      const struct store_journal *journal)
{
    struct stat there;
    bool holds = suffix[0] == '\0' || strcmp(suffix, "-wal") == 0;
    bool marks = strcmp(suffix, "-shm") == 0 || strcmp(suffix, ".damaged") == 0;
    bool empty = fstatat(folder_fd, file, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_size == 0;
    if (journal->export_to == NULL || marks || (holds && empty))
        return unlinkat(folder_fd, file, 0) < 0 && errno != ENOENT ? -errno : 0;
    if (!holds)
        return 0; /* set aside when it was damaged */
    kg_auto(kg_free) char *kept = kg_format("%.*s%s%s", (int)(suffix - 3 - file), file,
                                            journal->export_to + strlen(journal->name), suffix);
    return renameat(folder_fd, file, folder_fd, kept) < 0 && errno != ENOENT ? -errno : 0;
}

static int clear_databases(struct store *store, const struct store_journal *journal,
                           struct kg_err *err)
{
    const char *dir = store->parts.paths->storage_dir;
    DIR *files = opendir(dir);
    int result = 0;
    if (files == NULL)
        return errno == ENOENT ? 0 : kg_fail_errno(err, errno, "open %s", dir);
    for (const struct dirent *file; result == 0 && (file = readdir(files)) != NULL;) {
        const char *suffix = database_suffix(file->d_name, journal->name);
        if (suffix != NULL)
            result = clear_file(dirfd(files), file->d_name, suffix, journal);
    }
    if (result < 0)
        result = kg_fail_errno(err, -result, "remove the database of plugin %s", journal->name);
    else
        result = store_sync_folder(dirfd(files), err);
    closedir(files);
    return result;
}

static bool has_database(const struct store *store, const char *name)
{
    DIR *files = opendir(store->parts.paths->storage_dir);
    bool found = false;
    for (const struct dirent *file; files != NULL && (file = readdir(files)) != NULL;) {
        const char *suffix = database_suffix(file->d_name, name);
        found = found || (suffix != NULL && suffix[0] == '\0');
    }
    if (files != NULL)
        closedir(files);
    return found;
}

static char *database_kept(const struct store *store, const struct store_journal *journal)
{
    if (journal->export_to == NULL)
        return NULL;
    kg_auto(kg_free) char *path =
        kg_format("%s/%s", store->parts.paths->storage_dir, journal->export_to);
    return access(path, F_OK) == 0 ? kg_steal(&path) : NULL;
}

/* -- what else belongs to it ------------------------------------------------------------------- */

int store_forget_choice(struct store *store, const char *name, struct kg_err *err)
{
    const char *place = store->parts.paths->state_db;
    if (access(place, F_OK) < 0)
        return 0; /* no daemon ever ran here */
    if (state_cluster_check(place, err) < 0)
        return -EBUSY;
    struct state *state = state_open(place, err);
    if (state == NULL)
        return -EIO;
    const struct state_plugin_choice unsaid = {name, STATE_UNSAID};
    int result = state_plugin_choice_set(state, &unsaid, err);
    const struct state_failure forgotten = {.process = name};
    if (result == 0)
        result = state_failure_set(state, &forgotten, err);
    if (result == 0)
        result = state_activation_remove(state, NULL, name, err);
    state_close(state);
    return result;
}

static int remove_record(struct store *store, const struct store_journal *journal,
                         struct kg_err *err)
{
    int result = store_step("record");
    if (result < 0)
        return kg_fail_errno(err, -result, "write local.toml");
    return journal->record.package != NULL
               ? store_record_remove(store, journal->record.package, err)
               : 0;
}

static int clear_rest(struct store *store, const struct store_hold *hold, int quarantine_fd,
                      const struct store_journal *journal, struct kg_err *err)
{
    int result = store_folder_away(hold, quarantine_fd, journal->name, err);
    if (result == 0)
        result = store_step("choice") < 0 ? kg_fail_errno(err, ENOSPC, "write kaged.db")
                                          : store_forget_choice(store, journal->name, err);
    if (result == 0)
        result = store_step("databases") < 0 ? kg_fail_errno(err, ENOSPC, "remove its database")
                                             : clear_databases(store, journal, err);
    if (result < 0)
        return result;
    (void)store_step("approved");
    store_approved_remove(hold, journal->name);
    (void)store_step("end");
    return store_journal_remove(hold, err);
}

int store_finish_removal(struct store *store, const struct store_hold *hold, int quarantine_fd,
                         const struct store_journal *journal, struct kg_err *err)
{
    int result = remove_record(store, journal, err);
    return result < 0 ? result : clear_rest(store, hold, quarantine_fd, journal, err);
}

/* -- the removal ------------------------------------------------------------------------------- */

static char *version_there(const struct store *store, const char *name)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_free) char *dir = kg_format("%s/%s", store->dir, name);
    struct manifest *manifest = manifest_load(dir, &problems);
    char *version = manifest ? kg_strdup(manifest->version) : NULL;
    manifest_free(manifest);
    return version;
}

static int remove_all(struct store *store, const struct store_hold *hold,
                      const struct store_journal *journal, int quarantine_fd, struct kg_err *err)
{
    int result = store_step("journal");
    result = result < 0 ? kg_fail_errno(err, -result, "write the journal of the plugin store")
                        : store_journal_write(hold, journal, err);
    if (result < 0)
        return result;
    result = remove_record(store, journal, err);
    if (result < 0) {
        (void)store_journal_remove(hold, NULL);
        return result;
    }
    result = clear_rest(store, hold, quarantine_fd, journal, err);
    if (result < 0)
        kg_hint(err, "the plugin is uninstalled; the rest follows with the next change or start");
    return result;
}

static int check_there(const struct store_hold *hold, const char *name,
                       const struct store_record *record, struct kg_err *err)
{
    struct stat there;
    if (!store_name_is_plugin(name) ||
        (record->installed == NULL && record->hash == NULL &&
         fstatat(hold->plugins_fd, name, &there, AT_SYMLINK_NOFOLLOW) < 0))
        return kg_fail(err, KG_E_NOT_FOUND, "there is no plugin \"%" KG_S_NAME "\"", name);
    return 0;
}

static char *remove_data_of(const struct store *store, const char *name)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", store->parts.paths->plugin_data_dir, name);
    return access(path, F_OK) == 0 ? kg_steal(&path) : NULL;
}

static int remove_held(struct store *store, const struct store_hold *hold, const char *name,
                       const struct store_removal *removal, struct store_record *record,
                       struct store_removed *ret_removed, struct kg_err *err)
{
    struct store_quarantine *quarantine = NULL;
    int result = store_quarantine_new(store, &quarantine, err);
    if (result < 0)
        return result;
    struct store_removed removed = {
        .plugin_data = remove_data_of(store, name),
        .storage_dropped = !removal->keep_storage && has_database(store, name),
    };
    removed.version = record->installed ? kg_strdup(record->installed) : version_there(store, name);
    kg_auto(store_journal_free) struct store_journal journal = {
        .act = STORE_ACT_REMOVE,
        .name = kg_strdup(name),
        .quarantine = kg_strdup(quarantine->id),
        .record = *record,
    };
    *record = (struct store_record){0};
    if (removal->keep_storage)
        journal.export_to = kg_format("%s.export-%s.db", name, quarantine->id);
    result = remove_all(store, hold, &journal, quarantine->fd, err);
    store_sweep_versions(store, hold);
    (void)store_step("sweep");
    store_quarantine_free(quarantine);
    removed.storage = database_kept(store, &journal);
    if (result == 0)
        *ret_removed = removed;
    else
        store_removed_free(&removed);
    return result;
}

int store_remove(struct store *store, const char *name, const struct store_removal *removal,
                 struct store_removed *ret_removed, struct kg_err *err)
{
    kg_auto(store_hold_end) struct store_hold hold = {-1, -1, -1};
    kg_auto(store_record_free) struct store_record record = {0};
    int result = store_hold_begin(store, &hold, err);
    if (result == 0)
        result = store_record_read(store, name, &record, err);
    if (result == 0)
        result = check_there(&hold, name, &record, err);
    return result < 0 ? result
                      : remove_held(store, &hold, name, removal, &record, ret_removed, err);
}
