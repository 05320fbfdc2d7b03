/*
 * Snapshots: the files of a folder at some moment, kept as a tree of git's, in the repository of
 * the folder itself or, where it has none, in one of kaged's own. kaged-snapshot does the work, in
 * a cage that has the folder and no network.
 */
#ifndef KAGED_SNAPSHOT_H
#define KAGED_SNAPSHOT_H

#include "helper/helper.h"

struct snapshot_place {
    struct helper_place helper;
    const struct cage_facts *facts; /* NULL: no cage can be built here */
    const char *store;              /* the folder for repositories of kaged's own */
    int64_t files_max, bytes_max, file_bytes_max;
};

enum snapshot_act {
    SNAPSHOT_TAKE,
    SNAPSHOT_COMPARE, /* takes one that nothing keeps, and tells what differs */
    SNAPSHOT_RESTORE, /* takes one, then makes the files those of another */
};

/* Texts are borrowed for the call. */
struct snapshot_wanted {
    enum snapshot_act act;
    const char *session; /* whose it is: its store, and a part of refs */
    const char *folder;
    const char *id;       /* of the one that is taken; NULL: nothing keeps it */
    const char *way;      /* of the tree that is compared with or restored; else NULL */
    const char *tree;     /* the same */
    char *const *dropped; /* ids that nobody wants any more; NULL-ended, or NULL */
};

/* What came of it. Dies with the callback. */
struct snapshot_result {
    const char *way, *tree;
    int64_t files, bytes;
    struct kg_str left_out, changes; /* JSON: [{"path","why"}], [{"path","change"}] */
    int64_t left_out_count, change_count;
};
/* Once, never before snapshot_start returns. */
typedef void snapshot_done_fn(void *data, const struct snapshot_result *result_or_null,
                              const struct kg_err *err_or_null);

struct snapshot_run;
struct snapshot_run *snapshot_start(const struct snapshot_place *place,
                                    const struct snapshot_wanted *wanted, snapshot_done_fn *on_done,
                                    void *data, struct kg_err *err);
/* on_done is not called. A restore may be left half done: whoever asked for it noted that before.
 */
void snapshot_cancel(struct snapshot_run *run);

#endif
