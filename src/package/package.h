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
 * author; missing: dependencies that would help, NULL-ended, maybe none.
 */
typedef void package_discovered_fn(void *data, const struct kg_node *package_or_null,
                                   char *const *missing, const struct kg_err *err_or_null);
struct package_discovery;
/* Of the unpacked tree in the folder, which stays as it is until then. */
struct package_discovery *package_discover(const struct package_place *place, const char *folder,
                                           package_discovered_fn *on_done, void *data);
/* on_done is not called. The loop still has to turn. */
void package_discovery_cancel(struct package_discovery *discovery);

/* -- wheels, see wheels.c ---------------------------------------------------------------------- */

struct package_wheels_want {
    const char *file;     /* the package as it was uploaded; whole paths, no link in them */
    const char *folder;   /* an empty one, for package.zip: the same with wheels in it */
    uint64_t bytes_max;   /* of that */
    char *const *missing; /* what discovery said is */
};
struct package_wheels_ops {
    /* Once, never before package_wheels_fetch returns. added: "NAME VERSION" each, NULL-ended. */
    void (*on_done)(void *data, char *const *added, const struct kg_err *err_or_null);
    void (*on_network)(void *data, const struct gate_event *event);
};
struct package_wheels;
bool package_has_index(const struct config *config);
/* Texts are borrowed for the call; the place has a gate. */
struct package_wheels *package_wheels_fetch(const struct package_place *place,
                                            const struct package_wheels_want *want,
                                            const struct package_wheels_ops *ops, void *data,
                                            struct kg_err *err);
/* Nothing more is told of it. The loop still has to turn. */
void package_wheels_cancel(struct package_wheels *wheels);

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
