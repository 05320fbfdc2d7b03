/*
 * A home in one file: configuration, plugins and their data, state. It is made while a daemon runs,
 * by whoever may read the home, and restored for whoever runs the command, wherever his home is.
 * Secrets stay sealed in it, and their key is not in it.
 */
#ifndef KAGED_BACKUP_H
#define KAGED_BACKUP_H

#include "config/config.h"

struct backup_made {
    size_t files;
    uint64_t bytes;
};
/* The file must not be there yet, and appears whole; it is for its owner alone to read. */
int backup_make(const struct config_paths *paths, const char *file, struct backup_made *ret_made,
                struct kg_err *err);

struct backup_wish {
    const char *file;
    const char *key_file; /* of the secrets; NULL: they are left out, and named */
    bool force;           /* what is there is moved aside */
    uid_t uid;            /* whose the files are to be, if we may give them away */
    gid_t gid;
};
struct backup_restored {
    size_t files;
    int64_t made_ms;  /* wall clock */
    char **forgotten; /* owned; secrets that have to be set again */
    char **aside;     /* owned; folders that were moved */
};
/*
 * Nothing of the home is touched before the whole file was read and found to be whole. Who asks has
 * the daemon's lock, if there is one.
 */
int backup_restore(const struct config_paths *paths, const struct backup_wish *wish,
                   struct backup_restored *ret_restored, struct kg_err *err);
void backup_restored_free(struct backup_restored *restored);

#endif
