/*
 * npm as a source: where its client is, which registries the operator has set it to, and what its
 * packages become.
 */
#ifndef KAGED_STORE_NPM_H
#define KAGED_STORE_NPM_H

#include "cage/cage.h"
#include "store/runtime.h"
#include "store/store.h"

#define NPM_REACHES_MAX 32

struct npm {
    struct runtimes *nodes;     /* owned */
    const struct runtime *node; /* of them: the one that npm runs with */
    char *cli;                  /* npm's own program; owned, like the rest */
    char *node_version;         /* as it says itself; NULL until it was asked */
    char *ca_file;              /* that npm trusts; NULL: none of its own */
    struct cage_reach reaches[NPM_REACHES_MAX];
    size_t reach_count;
    struct kg_buf settings; /* for kaged-unpack: an entry of an environment a line */
};
/* Blocks. NULL with err: node or npm is not on this machine. */
struct npm *npm_find(struct kg_err *err);
void npm_free(struct npm *npm); /* takes NULL */

/*
 * A cage without a network, in which npm tells its settings. Copies of the operator's own files are
 * put into the folder, which has to be there for as long as npm is used.
 */
struct cage_plan *npm_look_plan(const struct npm *npm, const char *folder,
                                const struct cage_facts *facts, struct kg_err *err);
/* What came of it. */
int npm_look_read(struct npm *npm, const char *folder, struct kg_str said, struct kg_err *err);

/*
 * Blocks. What npm left becomes a plugin: it gets a manifest, unless the package has its own. Fails
 * if it cannot run here. Remarks are for the operator, as in complete.h.
 */
int npm_finish(struct npm *npm, const struct store_source *source, char *const *kept_args,
               int tree_fd, char ***ret_remarks, struct kg_err *err);

/*
 * Blocks. The arguments that the installed version of the package was given, if this is to be its
 * next one and nobody gives it others; an owned list.
 */
char **npm_kept_args(struct store *store, const struct store_source *source);

#endif
