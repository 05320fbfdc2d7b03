/*
 * kaged-snapshot: the files of a folder, kept as a tree in a git repository, and put back.
 *
 *   list.c      which files there are, and which are left out and why
 *   git.c       git's own program: contents go in and come out as they are, by no filter
 *   restore.c   what differs between two trees, and the writing of it
 *
 * The repository is the folder's own, where it has one, or one that lies in the store.
 */
#ifndef KAGED_SNAPSHOT_WORKER_INTERNAL_H
#define KAGED_SNAPSHOT_WORKER_INTERNAL_H

#include "base/base.h"
#include "base/json/json.h"

#define SNAPSHOT_ID_MAX 65 /* of an object, and its NUL */

struct snapshot_options {
    const char *act;    /* "take", "compare", "restore", "drop" */
    const char *folder; /* whose files they are */
    const char *store;  /* of repositories for folders that have none */
    const char *way;    /* "git", "copy"; NULL: as it fits */
    const char *tree;   /* to compare with, to restore */
    const char *ref;    /* what keeps the tree that is taken; NULL: nothing */
    char **drop;        /* refs that are not wanted any more; owned list */
    int64_t files_max, bytes_max, file_bytes_max;
};

/* A file, or a link, whose content is the path that it leads to. */
struct snapshot_file {
    const char *path; /* below the folder; in the list's arena */
    unsigned mode;    /* as git has it: 0100644, 0100755, 0120000 */
    char id[SNAPSHOT_ID_MAX];
};
struct snapshot_list {
    struct snapshot_file *items; /* owned, by path */
    size_t count, capacity;
    struct kg_arena *arena; /* owned */
};
void snapshot_list_clear(struct snapshot_list *list); /* also for kg_auto */
struct snapshot_file *snapshot_list_add(struct snapshot_list *list, struct kg_str path,
                                        unsigned mode);

/* What is told of at most so many paths. */
struct snapshot_told {
    struct kg_buf json; /* the items of a list */
    size_t count;
};
#define SNAPSHOT_TOLD_MAX 200
void snapshot_tell(struct snapshot_told *told, const char *path, const char *key,
                   const char *value);

struct snapshot {
    const struct snapshot_options *options;
    int folder;         /* fd */
    char *git_dir;      /* owned */
    bool is_own;        /* the folder's own repository */
    char **environment; /* owned list */
    struct snapshot_told left_out, changes;
    int64_t bytes;
};

/* -- list.c ------------------------------------------------------------------------------------ */

/* The folder that a path lies in, without following a link; -1: there is none, or `make` failed. */
int snapshot_open_parent(int folder, const char *path, bool make, const char **ret_name);
/* All files that are kept, with their modes, without ids. */
int snapshot_list_files(struct snapshot *snapshot, struct snapshot_list *ret_list,
                        struct kg_err *err);

/* -- git.c ------------------------------------------------------------------------------------- */

int git_open(struct snapshot *snapshot, struct kg_err *err);
void git_close(struct snapshot *snapshot);
/* Names of tracked and other files, but for ignored ones, each ended by a NUL. */
int git_names(struct snapshot *snapshot, struct kg_buf *ret_names, struct kg_err *err);
/* Gives each file its id: its content is in the repository then. */
int git_keep(struct snapshot *snapshot, struct snapshot_list *list, struct kg_err *err);
int git_write_tree(struct snapshot *snapshot, const struct snapshot_list *list,
                   char ret_tree[SNAPSHOT_ID_MAX], struct kg_err *err);
int git_read_tree(struct snapshot *snapshot, const char *tree, struct snapshot_list *ret_list,
                  struct kg_err *err);
int git_set_ref(struct snapshot *snapshot, const char *ref, const char *tree, struct kg_err *err);
void git_drop_refs(struct snapshot *snapshot, char *const *refs);
/* Contents of files, one after the other, each told once. */
typedef int git_content_fn(void *data, const struct snapshot_file *file, struct kg_str content,
                           struct kg_err *err);
int git_contents(struct snapshot *snapshot, const struct snapshot_file *const *files, size_t count,
                 git_content_fn *take, void *data, struct kg_err *err);

/* -- restore.c --------------------------------------------------------------------------------- */

/* Tells what leads from `now` to `then`, and does it if `apply`. */
int snapshot_change(struct snapshot *snapshot, const struct snapshot_list *now,
                    const struct snapshot_list *then, bool apply, struct kg_err *err);

#endif
