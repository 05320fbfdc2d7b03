/*
 * Lifecycle hooks: one row is the whole truth about one of them. What a hook returned is hostile;
 * what does not fit its row counts as nothing, and the error says why.
 */
#ifndef KAGED_HOST_HOOKS_H
#define KAGED_HOST_HOOKS_H

#include "base/json/json.h"
#include "config/config.h"
#include "manifest/manifest.h"

#define HOST_HOOK_TEXT_MAX   65536 /* bytes of what one call may inject, and of what it retains */
#define HOST_HOOK_RETAIN_MAX 100   /* lines */

enum host_hook_scope {
    HOST_HOOK_OF_SESSION, /* fires for the primary alone, which owns sessions */
    HOST_HOOK_OF_AGENT,   /* fires for each agent on its own */
};
/* What a result may do; bits. */
enum host_hook_power {
    HOST_HOOK_INJECT = 1,
    HOST_HOOK_RETAIN = 2,
    HOST_HOOK_COMPACT = 4, /* the designated compactor's replaces the context */
};
struct host_hook_row {
    const char *name;
    const char *method; /* "kaged.hook.NAME" */
    const char *when;
    enum host_hook_scope scope;
    unsigned powers;
};
const struct host_hook_row *host_hook_row(enum manifest_hook hook);
/* Whether it fires for that agent. */
bool host_hook_fires_for(enum manifest_hook hook, const char *agent_path);
/* What the manifest says (0: nothing), or else the configuration. */
uint64_t host_hook_timeout_ms(int64_t manifest_sec, const struct config *config);

/* Decoded; empty if there is none. */
struct host_hook_result {
    struct kg_buf inject;
    char **retain; /* owned, NULL-ended; NULL if there is none */
};
void host_hook_result_free(struct host_hook_result *result); /* also for kg_auto */
/*
 * An observer's result: null, a string to inject, or {"inject": string, "retain": [string]}. What
 * the hook has no power for is left aside.
 */
int host_hook_result_read(enum manifest_hook hook, struct kg_str json,
                          struct host_hook_result *ret_result, struct kg_err *err);
/* What it says, as one text: the injected one, then the retained lines as a list. */
void host_hook_result_text(const struct host_hook_result *result, struct kg_buf *buf);

#endif
