/*
 * What a plugin wants to know while it works on a call: a question for a person, or words of a
 * model. It is asked of whoever made the call, if that can be asked; else the answer is "cancel".
 *
 * Whose question is it? That of the only conversation which has a call under way with the process.
 * There is only one: calls of a process that may ask go one conversation at a time (call.c); should
 * there be several, since it was granted that meanwhile, it is refused. While it waits, the call's
 * deadline stands still.
 */
#ifndef KAGED_HOST_ASKS_H
#define KAGED_HOST_ASKS_H

#include "base/json/json.h"

#define HOST_ASKS_OPEN_MAX 8  /* of one call at the same time */
#define HOST_ASKS_MAX      64 /* of one call in all */

enum host_ask_kind {
    HOST_ASK_FORM,   /* a person fills in what `schema` describes */
    HOST_ASK_URL,    /* a person opens `url`, and says when that is done */
    HOST_ASK_SAMPLE, /* a model is asked what `params` say */
    HOST_ASK_ROOTS,  /* an MCP client is asked for its folders */
    HOST_ASK_KIND_COUNT
};
#define HOST_ASK_ANY ((1u << HOST_ASK_KIND_COUNT) - 1)
extern const char *const host_ask_kind_names[HOST_ASK_KIND_COUNT]; /* "form", "url", ... */

/* A question under way, to be read only. Texts live as long as it does. */
struct host_ask {
    enum host_ask_kind kind;
    struct kg_id id;      /* qst_... */
    const char *plugin;   /* the name of the process that asks */
    struct kg_str title;  /* what it says that it wants, a stranger's words, secrets hidden */
    struct kg_str schema; /* of a form: JSON Schema of an object */
    struct kg_str url;    /* of a URL */
    struct kg_str params; /* as MCP's sampling/createMessage has them */
    struct kg_str key;    /* the plugin's own name for it, a JSON string; empty: it has none */
    int64_t asked_at_ms;  /* wall clock, like the next */
    int64_t deadline_at_ms;
};

/* Handed in by whoever makes a call and can be asked while it lasts; data is that of the call. */
struct host_asked_ops {
    /* A bit for each kind that it can be asked; NULL: any. */
    unsigned (*can)(void *data);
    /*
     * True: host_ask_answer or host_ask_fail follows, not before this returns. False: it cannot be
     * asked that now, which counts as cancelled.
     */
    bool (*ask)(void *data, struct host_ask *ask);
    /* It is over without an answer of yours: its deadline came, or its call ended. Forget it. */
    void (*withdraw)(void *data, struct host_ask *ask, const char *why);
};

/*
 * {"action":"accept","content":{...}} (of a URL without content), {"action":"decline"} or
 * {"action":"cancel"}; of a sample the result of MCP's sampling/createMessage, of roots that of
 * roots/list. Fails with
 * KG_E_INVALID_PARAMS for what does not fit, and then the question goes on; else it is gone.
 */
int host_ask_answer(struct host_ask *ask, struct kg_str json, struct kg_err *err);
/* The plugin gets that error. The question is gone. */
void host_ask_fail(struct host_ask *ask, const struct kg_err *err);

#endif
