/*
 * Processes of the catalog's packages in a running host. Above this the catalog knows orgs,
 * versions and settings; here is a folder, what was found out of it, and the values that a process
 * is told.
 *
 * A process is that of an org, a version of a package and its settings. One without a state is
 * shared by all that want the same within the org, one with a state by nobody; no process is shared
 * between orgs. It runs as long as somebody uses it. Who lets go of it while it has calls lets them
 * finish: so a swap is a new use, then the end of the old one.
 */
#ifndef KAGED_HOST_PACKAGE_H
#define KAGED_HOST_PACKAGE_H

#include "host/process.h"
#include "package/package.h"

/* What is wanted; all of it is copied. */
struct host_package_want {
    const char *org;               /* its id */
    const char *folder;            /* the unpacked tree, which never changes; absolute, no links */
    const struct kg_node *package; /* as discovery told it, which was checked */
    struct kg_str settings;        /* the values, merged and unsealed: a JSON object, keys sorted */
    const char *const *reaches;    /* "HOST:PORT", that were granted; NULL-ended; NULL: none */
    /* Something happened to its process, or to why there is none: look. Never before
     * host_package_use returns. NULL: nobody is told. */
    void (*on_moved)(void *data);
    void *data;
};
struct host_package_use;
/* The process is started, if it does not run. NULL with err: it cannot be. */
struct host_package_use *host_package_use(struct host *host, const struct host_package_want *want,
                                          struct kg_err *err);
/* Without the last use its process ends, once its calls are over. Takes NULL. */
void host_package_drop(struct host_package_use *use);

enum host_package_state {
    HOST_PACKAGE_STARTING, /* or it crashed, and is started again */
    HOST_PACKAGE_READY,
    HOST_PACKAGE_FAILED, /* and is not tried again: err says why */
};
enum host_package_state host_package_state(const struct host_package_use *use,
                                           struct kg_err *err_or_null);
/* Its manifest as a text, without the settings, and its tools as servers list them, if the text
 * does not have them (else NULL); owned. For who resolves a project on another thread. */
char *host_package_text(const struct host_package_use *use, char **ret_tools);
/* The host's name for it; NULL: see below. */
const char *host_package_name(const struct host_package_use *use);
/* Whether a plugin is a package of the catalog, and what its process calls one of its tools. */
bool host_plugin_is_package(const struct host_plugin *plugin);
void host_package_put_method(const struct host_process *process, const char *tool,
                             struct kg_buf *out);
/* NULL: the host is ending, and it is gone. */
struct host_process *host_package_process(const struct host_package_use *use);

/* What a process can be asked beside its tools; see kaged-package(7). */
#define HOST_PACKAGE_ANCHOR "package.load_anchor" /* {"resource_id"}: {"context","found"} */
#define HOST_PACKAGE_RULES  "package.scope_rules" /* {"context"}: {"rules"} */
#define HOST_PACKAGE_HEALTH "package.health"      /* {"health","took_ms"} */

struct host_package_call {
    struct host_package_use *use;
    struct kg_str tool;   /* by its own name; empty: a method */
    struct kg_str method; /* one of the above */
    struct kg_str params; /* a JSON object */
    struct host_asker *asker;
    uint64_t caller_timeout_ms; /* 0: none */
    host_done_fn *on_done;      /* called once, never before host_package_call returns */
    /* What a tool streams comes as {"progress":1,"stream":...}, before on_done; or NULL. */
    peer_progress_fn *on_progress;
    void *data;
};
/* Through the one door. NULL with err when it is refused at once; cancelled as every call is. */
struct host_call *host_package_call(struct host *host, const struct host_package_call *call,
                                    struct kg_err *err);

#endif
