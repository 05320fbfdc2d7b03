/*
 * The plugin store: what the operator approved, and the ways by which something new gets there.
 *
 *   plugins/.store/versions/NAME-HASH/ what was approved; never changed, and all that is started
 *   plugins/NAME/                      a folder that somebody put there by hand; copied by a yes
 *   plugins/.store/quarantine/ID/tree  what was fetched and waits for a yes; nobody starts it
 *   plugins/.store/approved/NAME/      what the approved files were, to say later what changed
 *   plugins/.store/journal             the change that is being made; absent when there is none
 *   plugins/.store/lock                one writer at a time
 *   local.toml [plugins."PACKAGE"]     installed, local, hash: the operator's yes
 *
 * The way of a plugin: store_source_parse, store_fetch, store_offer_fetched, a person's yes,
 * store_take. A process that is killed anywhere on it leaves the store and local.toml as they were
 * before or as they are after; store_recover tidies up. Nothing of a plugin is run here.
 *
 * Functions that say "blocks" read, write and sync files, and may wait for the lock: a program with
 * a loop calls them on a worker, one at a time. All others belong to the loop's thread.
 */
#ifndef KAGED_STORE_H
#define KAGED_STORE_H

#include "base/json/json.h"
#include "cage/gate.h"
#include "config/config.h"
#include "loop/loop.h"
#include "manifest/grants.h"
#include "manifest/manifest.h"

/* -- the store --------------------------------------------------------------------------------- */

/* Bounds of what is fetched, and of a tree that is looked at. See fetch.c. */
struct store_limits {
    uint64_t bytes_max;      /* of all files together, unpacked */
    uint64_t file_bytes_max; /* of one */
    uint32_t files_max;      /* files, folders and links */
    uint32_t depth_max;      /* folders in each other */
    uint64_t source_bytes;   /* of an archive as it comes */
    uint64_t timeout_ms;     /* of one fetch */
};
struct store_limits store_limits_of(const struct config *config);

struct store_source;

/* Borrowed; all but the limits and those that may be NULL outlive the store. */
struct store_parts {
    struct loop *loop;              /* NULL: nothing can be fetched */
    struct cage_spawner *spawner;   /* attached to the loop; NULL: nothing can be fetched */
    const struct cage_facts *facts; /* NULL: nothing can be fetched */
    struct gate *gate;              /* NULL: nothing can be fetched from the network */
    /* Each connection of a fetch, for the audit log; may be NULL. */
    void (*on_network)(void *data, const struct store_source *source,
                       const struct gate_event *event);
    void *network_data;
    const struct config_paths *paths;
    const char *plugins_dir; /* absolute; NULL: that of paths */
    struct store_limits limits;
};

struct store;
struct store *store_new(const struct store_parts *parts);
void store_free(struct store *store); /* every fetch must be over */
void store_set_limits(struct store *store, const struct store_limits *limits);
const char *store_dir(const struct store *store); /* plugins/ */

/*
 * Whoever knows the packages of the catalog, and where the archive of one is. Called on the loop;
 * it answers once, never before it returns. NULL: there is no catalog here.
 */
typedef void store_catalog_found_fn(void *data, const char *path_or_null,
                                    const struct kg_err *err_or_null);
typedef void store_catalog_fn(void *data, const char *place, const char *version_or_null,
                              store_catalog_found_fn *on_found, void *found_data);
void store_set_catalog(struct store *store, store_catalog_fn *find, void *data);

/*
 * Blocks. Finishes or undoes the change that a killed process left, and removes from the quarantine
 * what nobody holds any more. At the daemon's start; every change begins with it, too.
 */
int store_recover(struct store *store, struct kg_err *err);
/*
 * Path settings of plugins that were installed before anybody was asked about such, a line each.
 * Once: later it is false.
 */
bool store_settings_before(struct store *store, struct kg_buf *ret_text);
/* Called by a change that has to wait for another writer, once, before it waits (at most 30 s). */
void store_on_wait(struct store *store, void (*on_wait)(void *data), void *data);

/* Blocks. The names of plugins that have files in the store, owned. NULL: it cannot be read. */
char **store_names(struct store *store, struct kg_err *err);

/* -- installed versions ------------------------------------------------------------------------ */

/* A hold on one: it is not removed as long as somebody has it, whatever is installed meanwhile. */
struct store_version {
    char *path; /* owned */
    int fd;     /* owned; carries a lock */
};
/* The version that was approved. KG_E_NOT_APPROVED: it is not there. */
int store_version_current(struct store *store, const char *name, struct store_version **ret_version,
                          struct kg_err *err);
int store_version_hold(struct store *store, const char *name, const char *hash,
                       struct store_version **ret_version, struct kg_err *err);
void store_version_free(struct store_version *version); /* takes NULL */
/* Where its files are: the version that was approved, or a folder that never was; owned. */
char *store_place(struct store *store, const char *name);
/* Blocks. Removes the versions that nobody needs any more. */
void store_tidy(struct store *store);

/* -- sources: what the operator named ---------------------------------------------------------- */

enum store_source_kind {
    STORE_FOLDER,
    STORE_ARCHIVE,
    STORE_GIT,
    STORE_NPM,
    STORE_PROGRAM,
    STORE_REMOTE,
    STORE_CATALOG
};

struct store_source {
    enum store_source_kind kind;
    char *text;    /* as it was given; owned, like the rest */
    char *place;   /* an absolute path, a URL that git or a server takes, or the name of a package;
                      of the catalog PID or ORG/PID */
    char *version; /* NULL: none was asked for */
    char *server;  /* of an MCP server without a manifest: {"name", "args", "headers"}; or NULL */
    bool is_package; /* of the catalog, which knows what it is: no manifest is made for it */
    bool packages;   /* what package-lock.json names is fetched, too, and becomes node_modules */
};
/* base: the folder that a relative path starts from, absolute. version may be NULL. */
int store_source_parse(const char *text, const char *version, const char *base,
                       struct store_source **ret_source, struct kg_err *err);
void store_source_free(struct store_source *source);
/* Whether the text means a path, which may be relative to somewhere. */
bool store_source_is_path(const char *text);
extern const char *const store_source_kind_names[]; /* "folder", "archive", "git", "npm", "program",
                                                       "remote", "catalog" */

/* -- trees: the files of a plugin -------------------------------------------------------------- */

#define STORE_HASH_TEXT 72 /* "sha256:" and 64 hex digits, and NUL */

void store_hash_text(struct kg_str text, char ret_hash[STORE_HASH_TEXT]);

enum store_entry_type { STORE_ENTRY_FILE, STORE_ENTRY_FOLDER, STORE_ENTRY_LINK };

struct store_entry {
    char *path; /* below the top, with slashes; owned */
    enum store_entry_type type;
    bool executable;
    uint64_t bytes;           /* of a file */
    unsigned char sha256[32]; /* of a file's content, or of a link's target */
};

/* Entries by path, as bytes compare. The hash is over all of them: path, type, executable, sha256.
 */
struct store_tree {
    struct store_entry *entries; /* owned */
    size_t count;
    uint64_t bytes;
    char hash[STORE_HASH_TEXT];
};

/*
 * Blocks. Reads a whole tree below an open folder, follows no link, and refuses what may not be in
 * a plugin's folder: devices, pipes, set-id bits, links that lead out, more than the limits. An fd
 * is not consumed.
 */
int store_tree_read(int dirfd, const struct store_limits *limits, struct store_tree *ret_tree,
                    struct kg_err *err);
void store_tree_free(struct store_tree *tree); /* also for kg_auto; leaves an empty one */
/* The entries as text, a line each, and back; for what was approved. The hash is computed again. */
void store_tree_print(const struct store_tree *tree, struct kg_buf *out);
int store_tree_parse(struct kg_str text, struct store_tree *ret_tree, struct kg_err *err);

/*
 * The quick facts of a tree: a digest of path, type, mode, inode, size, mtime and ctime of each
 * entry below the top. Reads no file. Equal digests: nobody wrote to the tree meanwhile.
 */
int store_tree_quick(int dirfd, const struct store_limits *limits, char ret_digest[STORE_HASH_TEXT],
                     struct kg_err *err);

/* Paths, NULL-ended and owned, at most STORE_DIFF_MAX each; the counts are of all. */
#define STORE_DIFF_MAX 100
struct store_tree_diff {
    char **added, **removed, **changed;
    size_t added_count, removed_count, changed_count;
};
void store_tree_compare(const struct store_tree *before, const struct store_tree *after,
                        struct store_tree_diff *ret_diff);
void store_tree_diff_free(struct store_tree_diff *diff); /* also for kg_auto */

/* -- quarantine and fetch ---------------------------------------------------------------------- */

/* A folder of one's own in the quarantine. It is locked as long as its owner lives. */
struct store_quarantine {
    char *id;   /* owned, like path */
    char *path; /* plugins/.store/quarantine/ID, mode 0700; what was fetched goes into tree/ */
    int fd;     /* of path; owned; carries the lock */
};
int store_quarantine_new(struct store *store, struct store_quarantine **ret_quarantine,
                         struct kg_err *err);
/* Blocks. Removes the folder with all that is in it. Takes NULL. */
void store_quarantine_free(struct store_quarantine *quarantine);

/* What a fetch brought: a whole plugin folder in tree/ of its quarantine. */
struct store_fetched {
    struct store_quarantine *quarantine; /* owned */
    struct store_tree tree;              /* owned */
    char **remarks;                      /* on a manifest that was made for it; owned; NULL: none */
};
void store_fetched_free(struct store_fetched *fetched); /* blocks; takes NULL */

struct store_progress {
    const char *phase;       /* "fetching", "unpacking", "copying", "checking" */
    uint64_t bytes, files;   /* done so far */
    uint64_t bytes_expected; /* 0: unknown */
};
typedef void store_progress_fn(void *data, const struct store_progress *progress);
/* Exactly once, unless cancelled; never before store_fetch returns. fetched is the callee's. */
typedef void store_fetched_fn(void *data, struct store_fetched *fetched,
                              const struct kg_err *err_or_null);

struct store_fetch;
/* source is copied; on_progress may be NULL. */
int store_fetch(struct store *store, const struct store_source *source,
                store_progress_fn *on_progress, store_fetched_fn *on_done, void *data,
                struct store_fetch **ret_fetch, struct kg_err *err);
/* on_done is not called. The loop still has to turn until its cage is gone: store_is_fetching. */
void store_fetch_cancel(struct store_fetch *fetch);
/* Whether a fetch is not over, be it that it was cancelled. on_idle is called when the last one is.
 */
bool store_is_fetching(const struct store *store);
void store_on_idle(struct store *store, void (*on_idle)(void *data), void *data);

/* -- offers: fetched, checked, and waiting for a yes ------------------------------------------- */

enum store_change_kind {
    STORE_INSTALL,
    STORE_UPGRADE,
    STORE_DOWNGRADE,
    STORE_REINSTALL, /* the same version */
    STORE_APPROVE,   /* the folder in the store itself, as it stands there now */
    STORE_DEV        /* a folder of its author's, which is run as it is and gets nowhere */
};
extern const char *const store_change_names[]; /* "install", "upgrade", ... */

enum store_difference { STORE_SAME, STORE_NEW, STORE_REMOVED };
extern const char *const store_difference_names[]; /* "same", "new", "removed" */

struct store_capability {
    char *text;         /* canonical; owned, like words */
    char *words;        /* "may read /opt/x and below" */
    const char *danger; /* why to look twice, in words that live for ever; NULL: no need */
    enum store_difference difference; /* STORE_SAME in an install */
    const char *operator_says; /* "granted" or "closed" by a line of his own; NULL: neither */
};

/* What the operator adds to what a plugin asks for: capabilities, and NAME=VALUE. See own.c. */
struct store_own {
    char **grants, **env; /* NULL-ended */
};
struct store_own store_own_copy(const struct store_own *own); /* NULL lists become empty ones */
void store_own_free(struct store_own *own);
bool store_own_is_empty(const struct store_own *own);
/* Whether they can be lines at all; both lists are there. */
int store_own_check(const struct store_own *own, struct kg_err *err);

enum store_own_kind { STORE_OWN_GRANTED, STORE_OWN_CLOSED, STORE_OWN_ENV };
extern const char *const store_own_names[]; /* "granted", "closed", "environment" */

/* One line of his, that stands in local.toml (same) or comes there with the yes (new). */
struct store_own_line {
    enum store_own_kind kind;
    char *text;         /* a capability, or "env:NAME"; owned, like words */
    char *words;        /* "may read /opt/x and below" */
    const char *danger; /* as above */
    enum store_difference difference;
};

/* What else differs between the installed manifest and the offered one. */
struct store_changed {
    const char *what; /* "command", "env", "hooks", "roles", "paths", "tools", "methods", ... */
    char **before;    /* NULL-ended and owned, like after; command: its words */
    char **after;
};

struct store_offer {
    struct kg_id id;    /* "off_..." */
    char *source;       /* as it was given; NULL of an approval; owned */
    const char *origin; /* "folder", "archive", "git", "npm", "store" */
    enum store_change_kind kind;
    struct manifest *manifest; /* owned */
    char *installed_version;   /* by the installed manifest or local.toml; NULL: none; owned */
    char *from;                /* the key of its source; NULL of what is not fetched; owned */
    char *installed_from;      /* of what is installed; NULL: none, or it is not known; owned */
    char hash[STORE_HASH_TEXT];
    char approved_hash[STORE_HASH_TEXT]; /* of what is installed; "": was never approved */
    uint64_t files, bytes;
    bool local;                            /* what local.toml says now; of an install: true */
    bool compared;                         /* there is something that differences are to */
    struct store_capability *capabilities; /* those of the offer in its order, then removed ones */
    size_t capability_count;
    size_t capabilities_new; /* of them; 0 in an install */
    struct store_changed *changes;
    size_t change_count;
    struct store_tree_diff diff; /* of files, to what was approved; all empty if not compared */
    char **warnings;             /* of the manifest, in words; NULL-ended, owned */
    uint32_t packages_missing;   /* that a package-lock.json would bring from npm */
    struct store_own_line *own;  /* the operator's lines, for all projects; owned */
    size_t own_count;
    struct store_own added; /* what of them is written with the yes; owned */

    struct store_tree tree;              /* owned */
    struct store_quarantine *quarantine; /* owned; NULL of an approval */
};

/*
 * Block. The first takes over fetched, also on failure; expect may be NULL: another plugin than
 * that, by its package or name, is refused. The second is about the folder plugins/NAME, for
 * `approve`.
 */
int store_offer_fetched(struct store *store, const struct store_source *source,
                        struct store_fetched *fetched, const char *expect,
                        struct store_offer **ret_offer, struct kg_err *err);
int store_offer_installed(struct store *store, const char *name, struct store_offer **ret_offer,
                          struct kg_err *err);
/*
 * Pure. The folder is run as it is, and its code may change; so the hash is that of the manifest
 * alone. before: the manifest of the last yes, which this one is compared with; NULL: there was
 * none. What is wrong with the manifest is in problems, too.
 */
int store_offer_dev(const char *folder, struct kg_str manifest, const struct manifest *before,
                    struct store_offer **ret_offer, struct kg_problems *ret_problems,
                    struct kg_err *err);
/*
 * Blocks. Adds lines of the operator's to the offer. KG_E_USAGE: one is none; KG_E_CONFLICT: it
 * lies in what he closed.
 */
int store_offer_add_own(struct store *store, struct store_offer *offer, const struct store_own *own,
                        struct kg_err *err);
/* Where the files of one that was fetched are; NULL of an approval; owned. */
char *store_offer_tree(const struct store_offer *offer);
/* Whether the yes to the manifest that this was compared with is none to this one. */
bool store_offer_asks(const struct store_offer *offer);
void store_offer_free(struct store_offer *offer); /* blocks: empties its quarantine; takes NULL */
/* Whether a plain yes is not enough: capabilities that the installed one does not have. */
bool store_offer_widens(const struct store_offer *offer);
/* Whether it is another plugin of that name: what is installed came from elsewhere. */
bool store_offer_is_of_other_source(const struct store_offer *offer);
/* The one JSON form of an offer, for the API and for --json. An object. */
void store_offer_json(const struct store_offer *offer, struct kg_json_writer *writer);

/* -- changes ----------------------------------------------------------------------------------- */

struct store_consent {
    const char *hash;            /* of what was shown; another one is KG_E_CONFLICT */
    bool allow_new_capabilities; /* without it an offer that widens is KG_E_REFUSED */
    bool replace_source;         /* and one of another source, too */
    bool local;                  /* for every project; an upgrade keeps what local.toml says */
};

/* Whether the yes is one for this offer. store_take asks this, too. */
int store_consent_check(const struct store_offer *offer, const struct store_consent *consent,
                        struct kg_err *err);

/* An upgrade that was made, with the version before it still there. */
struct store_trial;

/*
 * Blocks. Puts the offer into the store, with its entry in local.toml; the offer is used up on
 * success, and as it was on failure. If it replaced a version and ret_trial is not NULL, that
 * version is kept until the trial ends; NULL in *ret_trial: nothing was replaced.
 */
int store_take(struct store *store, struct store_offer *offer, const struct store_consent *consent,
               struct store_trial **ret_trial, struct kg_err *err);
void store_trial_keep(struct store_trial *trial); /* blocks; the version before is removed */
/* Blocks. Puts back files and entry of the version before; frees the trial in any case. */
int store_trial_revert(struct store_trial *trial, struct kg_err *err);

struct store_removal {
    bool keep_storage; /* its database is moved aside first */
};
struct store_removed {
    char *version;        /* owned, like the rest; NULL: unknown */
    char *storage;        /* where its database was moved to; NULL: there was none, or it is gone */
    char *plugin_data;    /* the folder of its own files, which stays; NULL: there is none */
    bool storage_dropped; /* it had a database, which is gone */
};
/*
 * Blocks. Removes files, entry, what the operator decided about it in kaged.db, and its database.
 * Nothing of it may run any more, and its storage must be closed.
 */
int store_remove(struct store *store, const char *name, const struct store_removal *removal,
                 struct store_removed *ret_removed, struct kg_err *err);
void store_removed_free(struct store_removed *removed); /* also for kg_auto */
/* Blocks. local = true in its entry. KG_E_CONFLICT if it is already. */
int store_promote(struct store *store, const char *name, struct kg_err *err);

/* The operator's own lines over a plugin's manifest; everything is borrowed. See grants.h. */
struct store_grant {
    const char *plugin;
    const char *project; /* NULL: wherever it runs */
    const struct capability_set *declared, *lines;
    bool revokes;
    bool only_missing; /* of a grant: what it may do already is left out, and no error */
};
/* Blocks. All lines or none are written. */
int store_grant(struct store *store, const struct store_grant *grant, struct kg_err *err);

/* -- drift: whether the files are still those that were approved ------------------------------- */

/*
 * All fail with KG_E_NOT_APPROVED, a reason in words and a hint, when they are not. The first
 * blocks and reads every file; the second only looks at them, and is for each start. -EAGAIN from
 * the second: they were touched, and only a full look can tell. The third only asks whether
 * anything of that name was ever approved.
 */
int store_check_full(struct store *store, const char *name, struct kg_err *err);
int store_check_quick(struct store *store, const char *name, struct kg_err *err);
int store_check_known(struct store *store, const char *name, struct kg_err *err);

/* -- tools that a server told of, see tools.c -------------------------------------------------- */

struct store_tools {
    struct kg_buf tools; /* those that were approved, a JSON list, as the server listed them */
    int64_t variant;     /* enum dialect_variant: how the server is spoken to */
    char **off;          /* names of those that are offered to nobody; NULL-ended; NULL: none */
};
/* False: none were approved for files with that hash. */
bool store_tools_read(const struct store *store, const char *name, const char *hash,
                      struct store_tools *ret_tools);
int store_tools_write(struct store *store, const char *name, const char *hash,
                      const struct store_tools *tools, struct kg_err *err); /* blocks */
void store_tools_free(struct store_tools *tools);                           /* also for kg_auto */

#endif
