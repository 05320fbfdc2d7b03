/*
 * Models, asked by a process in a cage: kaged-model, one for each provider. It is started on first
 * use, sees whom to believe in a network and nothing else of this machine, reaches the provider's
 * host and port through the gatekeeper and nothing else, and ends when idle. What is here is the
 * daemon's side: a call goes in, events come as they happen, and each call ends once.
 */
#ifndef KAGED_MODEL_H
#define KAGED_MODEL_H

#include "base/json/json.h"
#include "config/local.h"
#include "helper/helper.h"
#include "model/worker/limits.h"

/* The processes, a provider's each. When it is closed, every call ends as cancelled. */
struct helper_pool *model_pool_new(const struct helper_pool_place *place);

/* -- what is asked ----------------------------------------------------------------------------- */

/*
 * Messages are a JSON array in the neutral form:
 *   {"role":"system|user|assistant|tool", "content":"text",
 *    "tool_calls":[{"id","name","arguments":{...}}],   of the assistant
 *    "tool_call_id":"...", "is_error":true}            of a tool: which call it answers
 * and tools one of {"name","description","parameters"}. Names of tools and ids of calls are what
 * both APIs take, [A-Za-z0-9_-]{1,64}; a name in an answer is whatever the model made up. Every
 * tool call has to be answered by a message of a tool before the assistant speaks again.
 */
struct model_request {
    const struct local_model *model; /* and its provider; borrowed for the call of model_ask */
    struct kg_str system;            /* empty: none */
    struct kg_str messages;          /* valid JSON */
    struct kg_str tools;             /* valid JSON; empty: none */
    int64_t max_tokens;              /* 0: as the model says */
    int64_t timeout_ms;              /* 0: as the provider says */
};

/* -- what comes back --------------------------------------------------------------------------- */

enum model_event_kind {
    MODEL_TEXT,      /* text: the next piece of the answer */
    MODEL_REASONING, /* text: the next piece of what it thinks, where it is told */
    MODEL_TOOL_CALL, /* call: whole; they come after all text */
    MODEL_USAGE,     /* usage */
    MODEL_RETRY,     /* retry: nothing of an answer came, and it is asked again */
};

/* Texts die with the callback. */
struct model_event {
    enum model_event_kind kind;
    struct kg_str text;
    struct {
        struct kg_str id, name;
        const struct kg_node *arguments; /* an object */
        struct kg_str problem; /* why there are none, if what the model wrote is no object */
    } call;
    struct {
        int64_t input_tokens; /* with those of a cache */
        int64_t cached_tokens;
        int64_t output_tokens;
    } usage;
    struct {
        int64_t after_ms;
        struct kg_str message;
    } retry;
};

enum model_stop {
    MODEL_STOP_END,     /* "stop": it has said what it had to say */
    MODEL_STOP_TOOLS,   /* "tool_calls": it waits for their results */
    MODEL_STOP_LENGTH,  /* "length": max_tokens, or its context is full */
    MODEL_STOP_REFUSED, /* "refused": it, or the provider, does not want to */
    MODEL_STOP_OTHER,   /* "other" */
    MODEL_STOPS
};
extern const char *const model_stop_names[MODEL_STOPS];
extern const char *const model_failure_names[MODEL_FAILURES];

struct model_end {
    enum model_failure failure; /* MODEL_OK: it answered */
    enum model_stop stop;       /* when it answered */
    struct kg_err err;          /* when it failed: KG_E_MODEL, or why it could not be asked */
    int status;                 /* of HTTP, 0 if there was none */
    int64_t retry_after_ms;     /* what the provider asked for; 0: it did not */
};

/* Neither is called before model_ask returns, nor may close or free the pool. */
struct model_ops {
    void (*on_event)(void *data, const struct model_event *event); /* may cancel the call */
    void (*on_done)(void *data, const struct model_end *end);      /* once; the call is gone */
};

struct model_call;
int model_check_open(const struct helper_pool *pool, struct kg_err *err); /* KG_E_STOPPING */
/* KG_E_BUSY past the bound of calls, KG_E_TOO_LARGE, KG_E_STOPPING. */
int model_ask(struct helper_pool *pool, const struct model_request *request,
              const struct model_ops *ops, void *data, struct model_call **ret_call,
              struct kg_err *err);
/* Nothing more is told of it. */
void model_cancel(struct model_call *call);

/* -- the daemon's way to its models ------------------------------------------------------------ */

/* Looks them up, asks them, and tells the audit log; see models.c. */
struct host;
struct host_asker;

struct models;
struct models *models_new(struct host *host); /* which is borrowed */
/* Ends every call as cancelled, and takes no more; the processes end soon. */
void models_close(struct models *models);
/* Once, when they are gone: maybe before it returns. After models_close. */
void models_when_closed(struct models *models, void (*on_closed)(void *data), void *data);
/* After that, or if no model was ever asked. Takes NULL. */
void models_free(struct models *models);

/* One that somebody else has, by a name that nobody can guess; NULL: not any more. Its local is
 * theirs from then on. */
void models_bring(struct models *models, const char *alias, struct local *own_or_null);
/* Those, and those of local.toml; NULL: there is none. Until the next turn of the loop. */
const struct local_model *models_known(const struct models *models, const char *alias);
/*
 * As local.toml has it now; until the next turn of the loop. `who` names it in messages: "agent
 * primary". KG_E_INVALID_CONFIG, with a hint, if there is no such model, or alias is NULL.
 */
int models_find(const struct models *models, const char *alias, const char *who,
                const struct local_model **ret_model, struct kg_err *err);

/* Why a model is asked, and by which agent. */
struct models_purpose {
    const char *word; /* "turn", "summary" or "sample"; static */
    struct host_asker *asker;
    const char *group; /* who shares its places evenly with others, an org or a project; or NULL */
};
struct models_call;
/*
 * As model_ask, but past the bound of calls it waits, for as long as the provider may be silent:
 * KG_E_BUSY, now or as its end, if too many do or that was too long. KG_E_AUDIT_UNAVAILABLE while
 * nobody could say afterwards that it was asked.
 */
int models_ask(struct models *models, const struct models_purpose *purpose,
               const struct model_request *request, const struct model_ops *ops, void *data,
               struct models_call **ret_call, struct kg_err *err);
void models_cancel(struct models_call *call); /* nothing more is told of it */

/* Of all providers. */
struct models_facts {
    uint32_t asked, waiting;
};
struct models_facts models_facts(const struct models *models);

#endif
