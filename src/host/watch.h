/* Folders that are watched: told once, when it has been quiet for a while after a change. */
#ifndef KAGED_HOST_WATCH_H
#define KAGED_HOST_WATCH_H

#include "loop/loop.h"

struct host_watch;
struct host_watch_ops {
    /* Whether what was changed in a folder matters; NULL of it: nobody can tell. NULL: all does. */
    bool (*counts)(void *data, const char *name_or_null);
    void (*on_quiet)(void *data); /* after one change, or many */
};
struct host_watch *host_watch_new(struct loop *loop, const struct host_watch_ops *ops, void *data);
void host_watch_free(struct host_watch *watch); /* takes NULL */
/*
 * A new list of folders: renew, then add each, then begin. A name: only what is called so counts in
 * that folder. Begin gives how many cannot be watched, and of the first why.
 */
void host_watch_renew(struct host_watch *watch);
void host_watch_add(struct host_watch *watch, const char *folder, const char *name_or_null);
size_t host_watch_begin(struct host_watch *watch, struct kg_err *ret_first);

#endif
