/*
 * Packages of the catalog: what an unpacked one is, found out in a cage without a network, and what
 * the cage of a process of one is made of. Nothing that a package says is believed: what it is told
 * to be is checked against schema/package-v1.json, whoever wrote it.
 */
#ifndef KAGED_PACKAGE_H
#define KAGED_PACKAGE_H

#include "helper/helper.h"
#include "manifest/manifest.h"

struct config;

#define PACKAGE_DIR "/package" /* where a package in Python sees its own files */

/* -- the Python runtime, see runtime.c --------------------------------------------------------- */

#define PACKAGE_TREES_MAX 3

/* What a cage has of it. Texts are owned. */
struct package_runtime {
    struct cage_tree trees[PACKAGE_TREES_MAX];
    size_t tree_count;
    bool has_wheels;
};
/* As the configuration says; fails where a folder of it is not there. */
int package_runtime_find(const struct config *config, struct package_runtime *ret_runtime,
                         struct kg_err *err);
void package_runtime_free(struct package_runtime *runtime); /* also for kg_auto */
extern const char *const package_environment[];             /* NULL-ended */

/* -- discovery, see discover.c ----------------------------------------------------------------- */

struct package_place {
    struct helper_place helper;
    const struct cage_facts *facts; /* borrowed until it is over, like the worker */
    const struct config *config;    /* looked at now alone */
    struct loop_worker *worker;     /* reads files */
};
/*
 * Once, never before package_discover returns. The package has the form of package-v1.json, and
 * dies with the callback. KG_E_INVALID_SOURCE: it is the package's fault, in a sentence for its
 * author.
 */
typedef void package_discovered_fn(void *data, const struct kg_node *package_or_null,
                                   const struct kg_err *err_or_null);
struct package_discovery;
/* Of the unpacked tree in the folder, which stays as it is until then. */
struct package_discovery *package_discover(const struct package_place *place, const char *folder,
                                           package_discovered_fn *on_done, void *data);
/* on_done is not called. The loop still has to turn. */
void package_discovery_cancel(struct package_discovery *discovery);

/* -- its manifest, see manifest.c -------------------------------------------------------------- */

/*
 * The manifest of a package's processes: of one in Python made here, else its own, of which the
 * name is ours and the capabilities are what was granted. Blocks for the latter: it reads a file.
 * ret_own_name: what it calls itself, owned. reaches: "HOST:PORT" each, that it was granted;
 * NULL-ended, or NULL.
 */
struct manifest *package_make_manifest(const struct kg_node *package, const char *folder,
                                       const char *name, const struct package_runtime *runtime,
                                       const char *const *reaches, char **ret_own_name,
                                       struct kg_err *err);

#endif
