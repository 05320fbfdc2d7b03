/*
 * What agents ask of their plugins: tools and hooks, by the way of the one door. Who asks names
 * project, agent and session; which plugin that means is looked up here, at each call.
 */
#ifndef KAGED_HOST_AGENTS_H
#define KAGED_HOST_AGENTS_H

#include "host/hooks.h"
#include "host/projects.h"

/* -- tools, see tool.c ------------------------------------------------------------------------- */

/*
 * error.code is KG_OK if the plugin answered with a result. `blocked`: the plugin could not be
 * reached (down, starting for too long, timed out, unloaded), and error says why; other errors are
 * the caller's (no such tool for this agent, arguments that do not fit the schema) or the plugin's
 * own answer. Spans die with the callback.
 */
struct host_tool_reply {
    struct kg_err error;
    bool blocked;
    struct kg_str result;       /* JSON, at most limits.tool_result_bytes */
    struct kg_str plugin_error; /* its own error object */
    const char *plugin;         /* whose tool it is; NULL: nobody's */
};
struct host_tool_request {
    struct host_asker *asker; /* an agent's; referred to for as long as it takes */
    /* Both last until on_done or the cancel. */
    struct kg_str tool; /* "memory-markdown.recall", or "memory-markdown__recall" as models do */
    struct kg_str arguments; /* a JSON object, or empty */
    void (*on_done)(void *data,
                    const struct host_tool_reply *reply); /* once, never before return */
    void *data;
};
struct host_tool_call;
struct host_tool_call *host_tool_call(struct host *host, const struct host_tool_request *request);
void host_tool_cancel(struct host_tool_call *call); /* on_done is not called */

/* -- hooks, see hook.c ------------------------------------------------------------------------- */

/* What one plugin made of a hook. Everything dies with the callback. */
struct host_hook_answer {
    const char *plugin;                    /* its own name, as delimiters have it */
    const char *use;                       /* the agent's word for it */
    struct kg_err error;                   /* KG_OK: it answered; else why that counts as null */
    const struct host_hook_result *result; /* an observer's, read and checked; empty if null */
    struct kg_str raw; /* the designated plugin's, as it came; empty: it has not answered */
};
struct host_hook_fire {
    enum manifest_hook hook;
    struct host_asker *asker; /* as that of a tool */
    struct kg_str params;     /* a JSON object for each plugin; empty: none */
    const char *designated;   /* the agent's word for the one that gets the next; NULL: none */
    struct kg_str designated_params;
    /* Once, never before host_hook_fire returns, with one answer for each plugin that was asked. */
    void (*on_done)(void *data, const struct host_hook_answer *answers, size_t count);
    void *data;
};
/*
 * Asks every plugin of the agent that subscribes to the hook, in the order of the project's file,
 * without waiting for one before the next is asked. Each plugin answers one hook at a time; the
 * deadline counts from here. A plugin that is starting is waited for that long.
 */
struct host_hook_round;
struct host_hook_round *host_hook_fire(struct host *host, const struct host_hook_fire *fire);
void host_hook_cancel(struct host_hook_round *round); /* on_done is not called */

#endif
