/* What dev.c and dev_folder.c share. */
#ifndef KAGED_HOST_DEV_INTERNAL_H
#define KAGED_HOST_DEV_INTERNAL_H

#include "host/internal.h"

/* Where to look, and what may not be shown. Copies: a worker looks. */
struct dev_place {
    char *path;  /* owned, like the rest */
    char *user;  /* whom the daemon runs as */
    char **kept; /* kaged's own folders */
};
void dev_place_free(struct dev_place *place);

/* A folder as it was at one moment. */
struct dev_folder {
    uint64_t device, inode;
    char **folders;  /* owned; it, and those below it that matter */
    bool cut;        /* there is more below it than is watched */
    uint64_t digest; /* of names, sizes and times; equal ones: nothing was changed */
};
void dev_folder_free(struct dev_folder *folder); /* also for kg_auto */

/* Blocks. Whether a cage may be made of it, and what is in it; KG_E_REFUSED, KG_E_NOT_FOUND. */
int dev_folder_look(const struct dev_place *place, struct dev_folder *ret_folder,
                    struct kg_err *err);
/* Blocks. The text of its manifest, which must be a file of its own. */
int dev_folder_manifest(const struct dev_place *place, struct kg_buf *ret_text, struct kg_err *err);
/* Whether a change of what is called so matters to a plugin. */
bool dev_folder_counts(const char *name);

#endif
