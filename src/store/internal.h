/* What the files of store/ share. */
#ifndef KAGED_STORE_INTERNAL_H
#define KAGED_STORE_INTERNAL_H

#include "config/edit.h"
#include "config/local.h"
#include "store/pack.h"
#include "store/store.h"

#include <pthread.h>
#include <sys/stat.h>

#define STORE_FOLDER_NAME ".store"
#define STORE_TREE_NAME   "tree"

struct store {
    struct store_parts parts; /* its limits by store_limits_now */
    char *dir;                /* owned, like the next two */
    char *folder;             /* plugins/.store */
    char *quarantine_dir;     /* plugins/.store/quarantine */
    pthread_mutex_t limits_lock;
    size_t fetches; /* that are not over */
    void (*on_idle)(void *data);
    void *on_idle_data;
    store_catalog_fn *catalog_find; /* or NULL */
    void *catalog_data;
    void (*on_wait)(void *data);
    void *on_wait_data;
    struct local *local; /* owned; what local.toml said when it was as in local_seen */
    struct stat local_seen;
};

/* The limits at this moment; from any thread. */
struct store_limits store_limits_now(struct store *store);

/* -- the store's own folder, see store.c ------------------------------------------------------- */

/* An fd, or a negative errno. */
int store_open_plugins(const struct store *store, struct kg_err *err);
int store_open_folder(const struct store *store, int plugins_fd, struct kg_err *err);
/* A folder below another, made with that mode if it is not there. */
int store_open_sub(int parent_fd, const char *name, mode_t mode, struct kg_err *err);
/* Opens a folder that must be there, and must not be a link. An fd, or a negative errno. */
int store_open_dir(int parent_fd, const char *name);
/* Writes a file beside, then renames it. The second is for all to read; the first is not, and what
 * it wrote survives a power cut. */
int store_write_synced(int folder_fd, const char *name, struct kg_str text, struct kg_err *err);
int store_write_public(int folder_fd, const char *name, struct kg_str text, struct kg_err *err);
int store_sync_folder(int fd, struct kg_err *err);
/* Blocks. Removes what is at name in the folder, whatever it is; what is not there is fine. */
int store_remove_all(int folder_fd, const char *name);

/* The lock of one change; with it, the folders that a change works in. */
struct store_hold {
    int plugins_fd, folder_fd, lock_fd; /* owned */
};
/* Waits for other writers, then finishes what a killed one has left. */
int store_hold_begin(struct store *store, struct store_hold *ret_hold, struct kg_err *err);
void store_hold_end(struct store_hold *hold); /* also for kg_auto */

/* Removes from the quarantine what nobody holds. See quarantine.c. */
void store_sweep(const struct store_hold *hold);
/* The folder of a change that was cut short, made again if it is gone. An fd, or negative. */
int store_quarantine_open(const struct store_hold *hold, const char *id, struct kg_err *err);

/* -- entries of local.toml, see record.c --------------------------------------------------------
 */

/* What [plugins."PACKAGE"] says of the store's own keys. Owned; NULL where it says nothing. */
struct store_record {
    char *package; /* NULL: there is no entry */
    char *installed, *hash;
    char *from;    /* the key of its source; NULL: it was installed before that was written */
    char *process; /* whom its processes serve; NULL: it was installed before that was said */
    bool has_local, local;
    const struct store_offer *offer; /* borrowed; its added lines are written, too; or NULL */
};
void store_record_free(struct store_record *entry); /* also for kg_auto */
/*
 * The entry of the plugin with that name: one whose package ends in it, rather one with a hash. The
 * second says the same of a file that was read before.
 */
int store_record_read(struct store *store, const char *name, struct store_record *ret_record,
                      struct kg_err *err);
const struct local_plugin *store_record_find(const struct local *local, const char *name);
/* Sets the keys that the entry has, and removes those that it has not. */
int store_record_write(struct store *store, const struct store_record *record, struct kg_err *err);
/* Removes the whole table of that package; none is fine. */
int store_record_remove(struct store *store, const char *package, struct kg_err *err);
/* Changes local.toml; takes a key out of it, if it is there. */
int store_record_edit(const struct store *store, edit_change *change, const void *data,
                      struct kg_err *err);
int store_record_cut(struct kg_buf *text, const char *const *path, size_t count,
                     struct kg_err *err);
bool store_record_equal(const struct store_record *a, const struct store_record *b);

/* -- where it comes from, see source_key.c ------------------------------------------------------
 */

/* "git:https://example.org/notes", "folder:/home/ann/notes", "kaged:notes"; owned. */
char *store_source_key(const struct store_source *source, const struct manifest *manifest);

/* -- the journal, see journal.c ---------------------------------------------------------------- */

enum store_act { STORE_ACT_PUT, STORE_ACT_REVERT, STORE_ACT_REMOVE };

/* One change, as much as it takes to finish it. Texts are owned; NULL where there is none. */
struct store_journal {
    enum store_act act;
    char *name;
    char *quarantine;           /* the id of the folder that the change works with */
    struct store_record record; /* put, revert: as it is to be. remove: of that package */
    char *export_to;            /* remove: the database is called so afterwards */
};
void store_journal_free(struct store_journal *journal); /* also for kg_auto */
int store_journal_write(const struct store_hold *hold, const struct store_journal *journal,
                        struct kg_err *err);
/* -ENOENT: there is none. */
int store_journal_read(const struct store_hold *hold, struct store_journal *ret_journal,
                       struct kg_err *err);
int store_journal_remove(const struct store_hold *hold, struct kg_err *err);

/* -- the operator's own lines, see grants.c and own.c -------------------------------------------
 */

/* An edit of local.toml, by a struct store_grant. */
int store_grant_change(struct kg_buf *text, void *data, struct kg_err *err);
/* Shows those that local.toml has of the offer's plugin. */
void store_offer_show_own(struct store *store, struct store_offer *offer);
/* Those that were added to an offer become lines of local.toml. */
int store_own_write(struct kg_buf *text, const struct store_offer *offer, struct kg_err *err);

/* Finishes or undoes what the journal says; 0 if there is none. See change.c. */
int store_finish(struct store *store, const struct store_hold *hold, struct kg_err *err);
/* Forgets what the operator said with enable and disable. See remove.c. */
int store_forget_choice(struct store *store, const char *name, struct kg_err *err);
/* The steps of a removal after its commit; each may have been done before. See remove.c. */
int store_finish_removal(struct store *store, const struct store_hold *hold, int quarantine_fd,
                         const struct store_journal *journal, struct kg_err *err);
/* Moves plugins/NAME into that folder of the quarantine; none is fine. See change.c. */
int store_folder_away(const struct store_hold *hold, int quarantine_fd, const char *name,
                      struct kg_err *err);

/* -- installed versions, see version.c --------------------------------------------------------- */

struct store_look;
/* Where the version is, or would be; owned. NULL: the hash is none. */
char *store_version_path(const struct store *store, const char *name, const char *hash);
bool store_version_is_there(const struct store *store, const char *name, const char *hash);
/* The folder plugins/NAME, which somebody put there by hand; owned. NULL: there is none. */
char *store_folder_path(const struct store *store, const char *name);
/* That folder, or else the version; owned. NULL: there is neither. */
char *store_files_path(const struct store *store, const char *name, const char *hash);
/* Moves a folder to where the version with that hash is. Whole files that are there stay. */
int store_version_put(struct store *store, const struct store_hold *hold, int from_fd,
                      const char *from, const char *name, const char *hash, struct kg_err *err);
/* Makes the version of a copy of the folder, whose tree that is; the look is at the version. */
int store_version_copy(struct store *store, const struct store_hold *hold, const char *name,
                       const char *folder, const struct store_tree *tree,
                       struct store_look *ret_look, struct kg_err *err);
/* Removes versions that local.toml does not name and nobody holds. */
void store_sweep_versions(struct store *store, const struct store_hold *hold);
/* What was approved before there were versions, in plugins/NAME itself, becomes one: takeover.c. */
int store_take_over(struct store *store, const struct store_hold *hold, struct kg_err *err);

/* -- what was approved, see approved.c --------------------------------------------------------- */

/* A tree, and its quick facts from before it was read: who changes it later changes those. */
struct store_look {
    struct store_tree tree;      /* owned */
    char quick[STORE_HASH_TEXT]; /* "": they are not known */
};
int store_look_read(struct store *store, int parent_fd, const char *name,
                    struct store_look *ret_look, struct kg_err *err);
void store_look_free(struct store_look *look); /* also for kg_auto */
/* The quick facts alone; NULL: none. */
int store_quick_read(struct store *store, const char *path_or_null,
                     char ret_digest[STORE_HASH_TEXT], struct kg_err *err);
/*
 * Remembers the files of the version that was approved, which are these, and the quick facts of the
 * folder plugins/NAME when it had the same; "": there is none.
 */
void store_approved_write(struct store *store, const struct store_hold *hold, const char *name,
                          const struct store_look *look, const char *folder_quick);
/* The folder for what is known of a plugin that was approved; it is made if need be. */
int store_approved_open(const struct store_hold *hold, const char *name, struct kg_err *err);
void store_approved_remove(const struct store_hold *hold, const char *name);
/* The listing that belongs to the hash, or false. */
bool store_approved_tree(struct store *store, const char *name, const char *hash,
                         struct store_tree *ret_tree);
/* The manifest of that listing, or NULL. */
struct manifest *store_approved_manifest(struct store *store, const char *name,
                                         const struct store_tree *tree);

/* -- faults for tests, see fault.c ------------------------------------------------------------- */

/* A place where a process may be killed, or a disk be full: -errno of the fault, mostly 0. */
#ifdef KAGED_TEST_FAULTS
int store_step(const char *step);
#else
static inline int store_step(const char *step)
{
    (void)step;
    return 0;
}
#endif

/* Whether a name in plugins/ is that of a plugin's folder, and not the store's own or a file's. */
bool store_name_is_plugin(const char *name);
/* Whether it means an MCP server, for which a manifest is made if it has none. */
bool store_source_makes_manifest(const char *text);
/* Those that were added, a list of texts. */
void store_offer_added_json(const struct store_offer *offer, struct kg_json_writer *json);
/* KG_E_REFUSED: it would take the place of a plugin from another source, and nobody said yes. */
int store_check_source(const struct store_offer *offer, bool replace_source, struct kg_err *err);

/* -- a package of a folder: manifest.json, see pack_json.c, and the ZIP, see pack_zip.c -------- */

/* Fails for a server that is somewhere else. */
int pack_put_json(const struct manifest *manifest, struct kg_buf *out, char ***ret_remarks,
                  struct kg_err *err);
struct pack_zip;
struct pack_zip *pack_zip_new(int fd); /* borrowed */
int pack_zip_add(struct pack_zip *zip, const char *path, bool is_program, struct kg_str bytes,
                 struct kg_err *err);
/* Writes its directory. */
int pack_zip_end(struct pack_zip *zip, uint64_t *ret_bytes, char ret_hash[65], struct kg_err *err);
void pack_zip_free(struct pack_zip *zip); /* takes NULL */

#endif
