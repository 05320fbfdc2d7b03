/* Runtimes of servers on this machine: node, python3. */
#ifndef KAGED_STORE_RUNTIME_H
#define KAGED_STORE_RUNTIME_H

#include "base/base.h"
#include "base/semver.h"

#define RUNTIME_VERSION_TEXT 64

struct runtime {
    char *word;    /* what a command calls it: a bare name, or its path; owned, like the next two */
    char *program; /* its real path */
    char *folder;  /* the one that its bin/ is in */
    bool is_own;   /* a cage finds it by itself; else it must be given the folder to read */
    char version[RUNTIME_VERSION_TEXT]; /* by its path; "": not known */
};
struct runtimes {
    struct runtime *items; /* owned; the first is the one to take */
    size_t count;
};
/* Blocks. By the daemon's PATH and HOME. */
struct runtimes *runtimes_find(const char *name);
void runtimes_free(struct runtimes *runtimes); /* takes NULL */
/* The first whose version is in the range, or is not known; NULL: none. */
const struct runtime *runtimes_fitting(const struct runtimes *runtimes,
                                       const struct kg_semver_range *range_or_null);

#endif
