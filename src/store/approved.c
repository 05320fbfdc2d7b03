/*
 * Whether the files of a plugin are those that the operator approved. The hash in local.toml is the
 * only thing that counts. Beside it the store keeps, in .store/approved/NAME, what makes the answer
 * quick and what makes a no readable; both may be lost, and are believed only if they fit the hash:
 *
 *   quick     the hash, and the quick facts of the version when it had that hash; and of the folder
 *             that somebody put there by hand, if there is one
 *   files     the listing that the hash is of
 *   manifest  kaged-plugin.yaml as it was then
 */
#include "store/internal.h"
#include "store/tree.h"

#include "base/doc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define APPROVED_NAME     "approved"
#define LISTING_BYTES_MAX ((size_t)64 << 20)
#define NAMED_MAX         3 /* files that a reason names */

/* -- keeping ----------------------------------------------------------------------------------- */

int store_approved_open(const struct store_hold *hold, const char *name, struct kg_err *err)
{
    kg_auto(kg_close) int all = store_open_sub(hold->folder_fd, APPROVED_NAME, 0755, err);
    return all < 0 ? all : store_open_sub(all, name, 0755, err);
}

void store_look_free(struct store_look *look)
{
    store_tree_free(&look->tree);
    look->quick[0] = '\0';
}

int store_look_read(struct store *store, int parent_fd, const char *name,
                    struct store_look *ret_look, struct kg_err *err)
{
    struct store_limits limits = store_limits_now(store);
    struct store_look look = {0};
    kg_auto(kg_close) int fd = store_open_dir(parent_fd, name);
    if (fd < 0)
        return kg_fail_errno(err, -fd, "open the plugin's folder");
    int result = store_tree_quick(fd, &limits, look.quick, err);
    if (result == 0)
        result = store_tree_read(fd, &limits, &look.tree, err);
    if (result == 0)
        *ret_look = look;
    return result;
}

static void put_quick(struct kg_buf *out, struct kg_str hash, const char *version,
                      const char *folder)
{
    kg_buf_printf(out, "%.*s\n%s\n%s\n", KG_STR_ARG(hash), version, folder);
}

static int write_kept(struct store *store, int kept_fd, const char *name,
                      const struct store_look *look, const char *folder_quick, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf files = {0}, manifest = {0}, quick = {0};
    kg_auto(kg_free) char *version = store_version_path(store, name, look->tree.hash);
    kg_auto(kg_free) char *path = kg_format("%s/" MANIFEST_FILE, version);
    store_tree_print(&look->tree, &files);
    put_quick(&quick, kg_str(look->tree.hash), look->quick, folder_quick);
    int result = store_write_public(kept_fd, "files", kg_buf_view(&files), err);
    if (result == 0)
        result = kg_read_file(path, KG_DOC_BYTES_MAX, &manifest, err);
    if (result == 0)
        result = store_write_public(kept_fd, "manifest", kg_buf_view(&manifest), err);
    return result < 0 ? result : store_write_public(kept_fd, "quick", kg_buf_view(&quick), err);
}

void store_approved_write(struct store *store, const struct store_hold *hold, const char *name,
                          const struct store_look *look, const char *folder_quick)
{
    struct kg_err err = {0};
    kg_auto(kg_close) int kept = store_approved_open(hold, name, &err);
    if (kept < 0 || write_kept(store, kept, name, look, folder_quick, &err) < 0)
        kg_log_about(KG_WARN, name, "remember what was approved: %s", err.message);
}

void store_approved_remove(const struct store_hold *hold, const char *name)
{
    kg_auto(kg_close) int all = store_open_dir(hold->folder_fd, APPROVED_NAME);
    if (all >= 0)
        (void)store_remove_all(all, name);
}

/* -- looking up -------------------------------------------------------------------------------- */

static int read_kept(const struct store *store, const char *name, const char *file, size_t max,
                     struct kg_buf *ret_text)
{
    kg_auto(kg_free) char *path =
        kg_format("%s/" APPROVED_NAME "/%s/%s", store->folder, name, file);
    return kg_read_file(path, max, ret_text, NULL);
}

bool store_approved_tree(struct store *store, const char *name, const char *hash,
                         struct store_tree *ret_tree)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct store_tree tree = {0};
    if (read_kept(store, name, "files", LISTING_BYTES_MAX, &text) < 0 ||
        store_tree_parse(kg_buf_view(&text), &tree, NULL) < 0)
        return false;
    if (strcmp(tree.hash, hash) == 0) {
        *ret_tree = tree;
        return true;
    }
    store_tree_free(&tree);
    return false;
}

static const struct store_entry *approved_find_entry(const struct store_tree *tree,
                                                     const char *path)
{
    for (size_t i = 0; i < tree->count; i++)
        if (strcmp(tree->entries[i].path, path) == 0)
            return &tree->entries[i];
    return NULL;
}

struct manifest *store_approved_manifest(struct store *store, const char *name,
                                         const struct store_tree *tree)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    const struct store_entry *entry = approved_find_entry(tree, MANIFEST_FILE);
    unsigned char sha256[sizeof(entry->sha256)];
    if (entry == NULL || read_kept(store, name, "manifest", KG_DOC_BYTES_MAX, &text) < 0)
        return NULL;
    tree_digest(kg_buf_view(&text), sha256);
    if (memcmp(sha256, entry->sha256, sizeof(sha256)) != 0)
        return NULL;
    return manifest_read(kg_buf_view(&text), &problems);
}

/* -- local.toml, read again when it is another ------------------------------------------------- */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* A file that cannot be read now leaves what was read before. */
static const struct local *local_now(struct store *store, struct kg_err *err)
{
    const char *path = store->parts.paths->local_file;
    struct stat now = {0};
    (void)stat(path, &now);
    if (store->local != NULL && same_file(&now, &store->local_seen))
        return store->local;
    struct local *local = local_load(path, LOCAL_LEAVE, err);
    if (local != NULL) {
        local_free(store->local);
        store->local = local;
        store->local_seen = now;
    }
    return store->local;
}

/* -- the checks -------------------------------------------------------------------------------- */

static int fail_never(const char *name, struct kg_err *err)
{
    kg_fail(err, KG_E_NOT_APPROVED,
            "plugin %s: its folder was put there by hand and never approved", name);
    return kg_hint(err, "kaged plugin approve %s", name);
}

static void name_files(struct kg_buf *out, const char *what, char *const *paths, size_t count)
{
    if (count == 0)
        return;
    kg_buf_printf(out, "%s%zu %s (", out->length > 0 ? ", " : "", count, what);
    for (size_t i = 0; i < NAMED_MAX && paths[i] != NULL; i++) {
        kg_buf_text(out, i > 0 ? ", " : "");
        kg_buf_escaped(out, kg_str(paths[i]));
    }
    kg_buf_text(out, count > NAMED_MAX ? ", ...)" : ")");
}

static int approved_fail_changed(struct store *store, const char *name, const char *hash,
                                 const struct store_tree *now, struct kg_err *err)
{
    kg_auto(store_tree_free) struct store_tree before = {0};
    kg_auto(store_tree_diff_free) struct store_tree_diff diff = {0};
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    if (store_approved_tree(store, name, hash, &before)) {
        store_tree_compare(&before, now, &diff);
        name_files(&words, "changed", diff.changed, diff.changed_count);
        name_files(&words, "added", diff.added, diff.added_count);
        name_files(&words, "removed", diff.removed, diff.removed_count);
    }
    kg_fail(err, KG_E_NOT_APPROVED, "plugin %s: its files are not those that were approved%s%s",
            name, words.length > 0 ? ": " : "", kg_buf_terminate(&words));
    return kg_hint(err, "kaged plugin approve %s", name);
}

/* Files that no tree may have were not approved either. */
static int fail_unreadable(const char *name, int result, struct kg_err *err)
{
    kg_wrap(err, result, "plugin %s: its files are not those that were approved", name);
    if (err != NULL)
        err->code = KG_E_NOT_APPROVED;
    kg_hint(err, "kaged plugin approve %s", name);
    return result;
}

/* The quick facts at this moment; "" of a folder that is not there. */
struct facts {
    char version[STORE_HASH_TEXT], folder[STORE_HASH_TEXT];
};

int store_quick_read(struct store *store, const char *path_or_null,
                     char ret_digest[STORE_HASH_TEXT], struct kg_err *err)
{
    struct store_limits limits = store_limits_now(store);
    if (path_or_null == NULL)
        return 0;
    kg_auto(kg_close) int fd = store_open_dir(AT_FDCWD, path_or_null);
    if (fd < 0)
        return kg_fail_errno(err, -fd, "open %s", path_or_null);
    return store_tree_quick(fd, &limits, ret_digest, err);
}

static int facts_now(struct store *store, const char *name, const char *hash,
                     struct facts *ret_facts, struct kg_err *err)
{
    kg_auto(kg_free) char *version = store_version_path(store, name, hash);
    kg_auto(kg_free) char *folder = store_folder_path(store, name);
    *ret_facts = (struct facts){0};
    if (version == NULL)
        return -ENOENT;
    int result = store_quick_read(store, version, ret_facts->version, err);
    return result < 0 ? result : store_quick_read(store, folder, ret_facts->folder, err);
}

/* Whether version and folder had that hash when their quick facts were these. */
static bool approved_is_known(const struct store *store, const char *name, const char *hash,
                              const struct facts *facts)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, wanted = {0};
    put_quick(&wanted, kg_str(hash), facts->version, facts->folder);
    return read_kept(store, name, "quick", (size_t)4 * STORE_HASH_TEXT, &text) == 0 &&
           kg_str_equal(kg_buf_view(&text), kg_buf_view(&wanted));
}

/* One tree, in full. path is owned by the caller. */
static int compare_tree(struct store *store, const char *path, const char *name, const char *hash,
                        struct store_look *ret_look, struct kg_err *err)
{
    int result = store_look_read(store, AT_FDCWD, path, ret_look, err);
    if (result < 0)
        return fail_unreadable(name, result, err);
    return strcmp(ret_look->tree.hash, hash) == 0
               ? 0
               : approved_fail_changed(store, name, hash, &ret_look->tree, err);
}

/*
 * The folder that was put there by hand is looked at first: who changed it has to approve it again,
 * and who lost the version may have it copied from there.
 */
static int compare_full(struct store *store, const struct store_hold *hold, const char *name,
                        const char *hash, struct kg_err *err)
{
    kg_auto(store_look_free) struct store_look folder = {0}, version = {0};
    kg_auto(kg_free) char *folder_path = store_folder_path(store, name);
    kg_auto(kg_free) char *version_path = store_version_path(store, name, hash);
    bool holds = hold->lock_fd >= 0, is_there = store_version_is_there(store, name, hash);
    int result = folder_path ? compare_tree(store, folder_path, name, hash, &folder, err) : 0;
    if (result == 0 && !is_there && holds && folder_path != NULL)
        result = store_version_copy(store, hold, name, folder_path, &folder.tree, &version, err);
    else if (result == 0 && version_path != NULL)
        result = compare_tree(store, version_path, name, hash, &version, err);
    else if (result == 0)
        result = fail_never(name, err);
    if (result < 0 || !holds)
        return result;
    struct facts facts = {0};
    memcpy(facts.version, version.quick, sizeof(facts.version));
    memcpy(facts.folder, folder.quick, sizeof(facts.folder));
    if (!approved_is_known(store, name, hash, &facts))
        store_approved_write(store, hold, name, &version, folder.quick);
    return 0;
}

/* Whether a tree is that one, and was when its quick facts were these. */
static bool approved_is_unchanged(struct store *store, const char *path_or_null, const char *hash,
                                  const char *quick)
{
    kg_auto(store_look_free) struct store_look look = {0};
    return path_or_null == NULL ||
           (store_look_read(store, AT_FDCWD, path_or_null, &look, NULL) == 0 &&
            strcmp(look.tree.hash, hash) == 0 && strcmp(look.quick, quick) == 0);
}

/* Files and entry agree, and that is known: nobody has to wait for the lock. */
static bool all_is_well(struct store *store, const char *name)
{
    struct facts facts;
    kg_auto(store_record_free) struct store_record record = {0};
    if (store_record_read(store, name, &record, NULL) < 0 || record.hash == NULL ||
        facts_now(store, name, record.hash, &facts, NULL) < 0 ||
        !approved_is_known(store, name, record.hash, &facts))
        return false;
    kg_auto(kg_free) char *version = store_version_path(store, name, record.hash);
    kg_auto(kg_free) char *folder = store_folder_path(store, name);
    return approved_is_unchanged(store, version, record.hash, facts.version) &&
           approved_is_unchanged(store, folder, record.hash, facts.folder);
}

/* Under the lock, since somebody may be in the middle of a change. */
static int approved_check_alone(struct store *store, const char *name, struct kg_err *err)
{
    kg_auto(store_hold_end) struct store_hold hold = {-1, -1, -1};
    kg_auto(store_record_free) struct store_record record = {0};
    int result = store_hold_begin(store, &hold, err);
    if (result == 0 || result == -EACCES || result == -EROFS) /* to look is enough */
        result = store_record_read(store, name, &record, err);
    if (result < 0)
        return result;
    return record.hash == NULL ? fail_never(name, err)
                               : compare_full(store, &hold, name, record.hash, err);
}

int store_check_full(struct store *store, const char *name, struct kg_err *err)
{
    return all_is_well(store, name) ? 0 : approved_check_alone(store, name, err);
}

/* The hash that was approved, owned; NULL with err: nothing of that name ever was. */
static char *find_approval(struct store *store, const char *name, struct kg_err *err)
{
    const struct local *local = local_now(store, err);
    if (local == NULL)
        return NULL;
    const struct local_plugin *record = store_record_find(local, name);
    if (record != NULL && record->hash.length > 0)
        return kg_str_dup(record->hash);
    fail_never(name, err);
    return NULL;
}

int store_check_known(struct store *store, const char *name, struct kg_err *err)
{
    kg_auto(kg_free) char *hash = find_approval(store, name, err);
    return hash != NULL ? 0 : -EINVAL;
}

int store_check_quick(struct store *store, const char *name, struct kg_err *err)
{
    struct facts facts;
    kg_auto(kg_free) char *hash = find_approval(store, name, err);
    if (hash == NULL)
        return -EINVAL;
    if (facts_now(store, name, hash, &facts, err) == 0 &&
        approved_is_known(store, name, hash, &facts))
        return 0;
    kg_fail(err, KG_E_NOT_APPROVED, "plugin %s: its files were touched since they were approved",
            name);
    kg_hint(err, "kaged plugin enable %s compares them; kaged plugin approve %s takes them", name,
            name);
    return -EAGAIN;
}

int store_version_current(struct store *store, const char *name, struct store_version **ret_version,
                          struct kg_err *err)
{
    kg_auto(kg_free) char *hash = find_approval(store, name, err);
    return hash ? store_version_hold(store, name, hash, ret_version, err) : -EINVAL;
}

char *store_place(struct store *store, const char *name)
{
    kg_auto(kg_free) char *hash = find_approval(store, name, NULL);
    kg_auto(kg_free) char *version = store_version_path(store, name, hash);
    if (store_version_is_there(store, name, hash))
        return kg_steal(&version);
    return kg_format("%s/%s", store->dir, name);
}
