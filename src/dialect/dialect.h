/*
 * What is spoken with a child: one row for each dialect. The supervisor, the host and the wire know
 * only the row, so a child that speaks another one is a file here, and a row in table.c.
 *
 *   greeting   steps, each an exchange with what follows it, silence and errors included
 *   calls      what a call of the host becomes on the wire, and how its answer is read back
 *   the child  what its requests and notifications mean, what of it is noise, what a violation
 */
#ifndef KAGED_DIALECT_H
#define KAGED_DIALECT_H

#include "audit/audit.h"
#include "wire/wire.h"

struct dialect;
struct dialect_talk;
struct dialect_call;
struct dialect_input;

/* The row of that name, or NULL; "kaged" is always there. See table.c. */
const struct dialect *dialect_find(struct kg_str name);

/* -- one talk: a process that is spoken to ----------------------------------------------------- */

/* What who keeps the process, the supervisor, does for a dialect. */
struct dialect_ops {
    void (*on_ready)(void *data); /* the greeting is over: it takes calls */
    /* It must be ended. mend: only its author can help; else it is tried again. */
    void (*on_failed)(void *data, bool mend, const char *words);
    /* A request that the host may serve; answered by peer_answer. False: no such method. */
    bool (*on_request)(void *data, int64_t request, struct kg_str method, struct kg_str params);
    void (*on_configured)(void *data); /* while it runs it took its configuration, or did not */
    bool (*has_storage)(void *data);
    bool (*may_claim)(void *data, struct kg_str capability);
    bool (*is_tool)(void *data, struct kg_str method);             /* of the manifest's */
    bool (*may_notify)(void *data, struct kg_str type);            /* the same */
    void (*put_projects)(void *data, struct kg_json_writer *json); /* their ids */
    /* The next three may be NULL. Folders that it may take for its project's, {uri, name} each;
     * whether there are any, without a writer. */
    bool (*put_roots)(void *data, struct kg_json_writer *json_or_null);
    void (*on_tools)(void *data); /* talk->tools are others now */
    /* A line for its log, and what it was made of: {"level","logger"?,"data"}. */
    void (*on_log)(void *data, struct kg_str line, struct kg_str message);
    /* Whether it may send that request, by the host's name of it; NULL: it may not. */
    bool (*may_request)(void *data, struct kg_str method);
    /* See struct dialect_input. False: it cannot be asked. The second: it is not any more. */
    bool (*on_input)(void *data, struct dialect_input *input);
    void (*drop_input)(void *data, struct dialect_input *input);
};

/*
 * A child may ask in its answer to a call what others ask by a request: the call waits for that,
 * and is then sent again.
 */
struct dialect_input {
    struct dialect_call *call;
    struct kg_str method; /* the host's name of the request, like */
    struct kg_str params; /* its params, and */
    struct kg_str
        key; /* what the child calls it, a JSON string; they last until on_input returns */
    /* Once, maybe before on_input returns. */
    void (*on_answer)(struct dialect_input *input, enum peer_answer kind, struct kg_str json);
    void *host; /* its own; NULL: nobody is asked any more */
};

/* In which way it is spoken to, where a dialect has several; unknown until a greeting found out. */
enum dialect_variant { DIALECT_UNKNOWN, DIALECT_MCP_LEGACY, DIALECT_MCP_MODERN };

/* The supervisor fills in the first part, and the peer at each start. */
struct dialect_talk {
    const struct dialect *dialect;
    const struct dialect_ops *ops;
    void *data;
    struct loop *loop;
    struct audit *audit;            /* NULL: an MCP server, and nobody writes anything down */
    const char *name;               /* in logs and audit events; borrowed, like the next two */
    const char *plugin, *version;   /* as its manifest has them */
    char **methods, **capabilities; /* of the manifest; NULL-ended; borrowed */
    bool *method_offered;           /* one for each of methods; set by the greeting */
    struct kg_buf config;           /* what it is told, a JSON object; empty: nothing */
    struct kg_buf config_told;      /* the one that it has not answered to, while it runs */
    struct kg_buf config_taken;     /* the last one that it did not refuse */
    struct kg_buf config_refused;   /* why it did not take the last one, in words; empty: it did */
    uint32_t config_refusals;       /* so often it did not */
    bool config_asked;              /* it was told one while it runs, and has not answered */
    bool config_again;              /* is told once it runs, and has not been answered since */
    uint64_t timeout_ms;            /* for each exchange of the greeting */
    enum dialect_variant variant;   /* from one process to the next, like the two below */
    char **subscriptions; /* owned: URIs of which it shall tell when they change; or NULL */
    char *log_level;      /* owned: how much it shall log, of dialect_log_levels; or NULL */

    struct peer *peer; /* NULL without a process; borrowed */
    unsigned exchanges;
    size_t step;         /* of the greeting */
    bool pings;          /* as its row says, unless the greeting found otherwise */
    struct kg_buf tools; /* that it told of at run time, a JSON list; empty: none */
    void *state;         /* the dialect's own, between open and close */
};

/* A process is there, and its peer: greets it. */
void dialect_begin(struct dialect_talk *talk);
/* The process is gone; the next one may speak another dialect. */
void dialect_end(struct dialect_talk *talk);

/* What it shall tell of from now on, in the next processes, too; copied. See struct dialect. */
void dialect_subscribe(struct dialect_talk *talk, char *const *uris);
extern const char *const dialect_log_levels[]; /* the least urgent first; ended by NULL */
void dialect_set_log_level(struct dialect_talk *talk, const char *level);

/* -- the greeting ------------------------------------------------------------------------------ */

/* What follows a step: one of its table, or one of these. */
enum { GREETING_DONE = -1, GREETING_FAILED = -2, GREETING_LATER = -3 };

struct dialect_step {
    /* An exchange: */
    const char *method;
    void (*put_params)(struct dialect_talk *talk, struct kg_buf *ret_json); /* NULL: {} */
    /* Silence for so long is an answer too, PEER_EXPIRED; 0: for as long as it may take, and then
     * the child hangs. */
    uint64_t patience_ms;
    int (*take)(struct dialect_talk *talk, enum peer_outcome outcome, struct kg_str payload);
    /* Or anything else, which may go on later with dialect_go_on: */
    int (*act)(struct dialect_talk *talk);
};

/* The step that an act was waiting for is over. */
void dialect_go_on(struct dialect_talk *talk, int next);
/* Both give GREETING_FAILED: what its author must fix, and what is tried again. */
int dialect_reject(struct dialect_talk *talk, const char *format, ...) KG_PRINTF(2, 3);
int dialect_fail(struct dialect_talk *talk, const char *format, ...) KG_PRINTF(2, 3);

/* -- lists in pages ---------------------------------------------------------------------------- */

struct dialect_list {
    const char *method;
    const char *items;  /* the key of the items in each result */
    const char *next;   /* the key of the next cursor there, a string; none: the last page */
    const char *cursor; /* the key of the cursor in the params */
    unsigned pages_max;
    size_t bytes_max; /* of all items */
    /* What else the params have; NULL: nothing. */
    void (*put_more)(struct dialect_talk *talk, struct kg_json_writer *json);
    /* The whole as a JSON list, or the error; not called for a child that went away. */
    void (*on_list)(struct dialect_talk *talk, struct kg_str items,
                    const struct kg_err *err_or_null);
};
/* Asks page after page. The row must stay, and is mostly static. */
void dialect_list(struct dialect_talk *talk, const struct dialect_list *list);

/* -- calls ------------------------------------------------------------------------------------- */

enum dialect_act {
    DIALECT_METHOD,
    DIALECT_TOOL,
    DIALECT_HOOK,
    DIALECT_PROJECT,
    DIALECT_LIST, /* a method of MCP that lists something: the result has all of its pages */
    DIALECT_ACT_COUNT
};

struct dialect_message {
    enum dialect_act act;
    struct kg_str method;  /* as the host names it: plugin.tool, kaged.hook.x */
    struct kg_str params;  /* a JSON object that was checked, or empty */
    struct kg_str context; /* who calls, a JSON object; empty: the host itself, or not told */
    struct kg_str config;  /* what the caller's agent has set, a JSON object; empty: nothing else */
};

/* A call under way. Part of its caller's record; it stays until on_done or dialect_drop. */
/* What who makes a call can be asked during it. */
enum {
    DIALECT_FORMS = 1,
    DIALECT_URLS = 2,
    DIALECT_SAMPLES = 4,
    DIALECT_ROOTS = 8,
    DIALECT_ANSWERS_ALL = 15,
};

struct dialect_call {
    struct dialect_talk *talk;
    unsigned answers; /* those of the above; a child that is told so may ask for the rest in vain */
    const char *traceparent; /* the trace that it is part of; stays as long; NULL: none is known */
    uint64_t timeout_ms;     /* of each exchange: past it the child hangs; 0: never */
    uint64_t caller_timeout_ms;    /* of all of them; 0: none */
    peer_done_fn *on_done;         /* once; results and errors as kaged's own plugins give them */
    peer_progress_fn *on_progress; /* or NULL */
    void *data;
    /* Of dialect_call and dialect_send: */
    uint64_t id; /* of the exchange under way */
    uint64_t caller_due_ms;
    unsigned exchanges, exchanges_max;
    void *state;     /* the row's own; see its `end` */
    bool waits;      /* for inputs, and not for the child */
    bool has_failed; /* its result says so: MCP's isError */
};
/* Fails as peer_call does, and for what the dialect has no message for. */
int dialect_call(struct dialect_call *call, const struct dialect_message *message,
                 struct kg_err *err);
/* The caller left: on_done is not called any more, and the child is told if it understands that. */
void dialect_drop(struct dialect_call *call);
/* The caller's own deadline came: the same, for a call that has ended for it already. */
void dialect_cancel(struct dialect_call *call);

/* It waits for inputs, and its child is gone: it ends as PEER_GONE. */
void dialect_gone(struct dialect_call *call);

/* For rows: one exchange of a call. */
int dialect_send(struct dialect_call *call, struct kg_str method, const struct kg_str *params,
                 size_t params_count, struct kg_err *err);

/* -- a row ------------------------------------------------------------------------------------- */

/* What an answer means. */
enum dialect_reading {
    DIALECT_AS_IT_IS,
    DIALECT_RESULT, /* *ret_json is the result */
    DIALECT_ERROR,  /* *ret_json is an error object of JSON-RPC, with the codes of errors.def */
    DIALECT_AGAIN,  /* dialect_send was called for one more exchange, or call->waits */
};
/* What a notification is. */
enum dialect_hearing {
    DIALECT_NEWS,    /* its own: written down, and passed on */
    DIALECT_TAKEN,   /* it was meant for us, or for a call */
    DIALECT_NOISE,   /* it means nothing */
    DIALECT_REFUSED, /* its manifest does not declare it: written down, and nobody is told */
};

struct dialect {
    const char *name;
    struct peer_rules rules;
    const char *shutdown; /* the notification before its stdin is closed; NULL: there is none */
    const char *ping;     /* the request that shows its health; NULL: there is none */
    const char *(*check_pong)(struct kg_str result); /* what is wrong with it, or NULL */

    const struct dialect_step *steps;                   /* of the greeting */
    int (*first_step)(const struct dialect_talk *talk); /* which begins it; NULL: the first */
    void (*open)(struct dialect_talk *talk);            /* makes talk->state; or NULL */
    void (*close)(struct dialect_talk *talk);           /* frees it; or NULL */
    /* What the first step says, for a record; NULL: nothing that is worth it. */
    void (*put_greeting)(struct dialect_talk *talk, struct kg_buf *ret_json);
    /* Tells a child that runs its configuration; NULL: it cannot be told. */
    void (*configure)(struct dialect_talk *talk);

    bool knows[DIALECT_ACT_COUNT]; /* what there is a message for */
    bool tells_context;            /* its calls say who calls */
    /* Makes the first exchange of a call, by dialect_send; or by peer_call, with what the call has,
     * where there is nothing to read. */
    int (*call)(struct dialect_call *call, const struct dialect_message *message,
                struct kg_err *err);
    /* NULL: every answer is as it is. */
    enum dialect_reading (*read)(struct dialect_call *call, enum peer_outcome outcome,
                                 struct kg_str payload, struct kg_buf *ret_json);
    void (*end)(struct dialect_call *call);    /* frees call->state; NULL: there is none */
    void (*cancel)(struct dialect_call *call); /* NULL: there is no such message */
    /* Tells a child that runs of talk->subscriptions and talk->log_level; NULL: it cannot be told.
     */
    void (*subscribe)(struct dialect_talk *talk);
    void (*set_log_level)(struct dialect_talk *talk);

    /* A request of the child; it may be answered here, or asked of the host under another name.
     * NULL: the host knows it by its own. False: there is no such method. */
    bool (*on_request)(struct dialect_talk *talk, int64_t request, struct kg_str method,
                       struct kg_str params);
    /* NULL: all of them are its own news. */
    enum dialect_hearing (*on_notification)(struct dialect_talk *talk, struct kg_str method,
                                            struct kg_str params);
};

/* -- kaged's own, see kaged.c ------------------------------------------------------------------ */

extern const struct dialect dialect_kaged;
extern const struct dialect dialect_package; /* the runner of packages, the same but for tools */
extern const struct dialect dialect_mcp;     /* MCP servers, see mcp.c */
/* The member _meta of a request to an MCP server; progress is told under the token, the id of the
 * request; 0: it is not. answers: what may be asked for in the request. */
void mcp_put_meta(const struct dialect_talk *talk, struct kg_json_writer *json, uint64_t token,
                  unsigned answers, const char *traceparent_or_null);
extern const struct dialect dialect_script; /* kaged-lua, see script.c */
#define DIALECT_API_VERSION 1
/* Whether the answer to initialize may list that: short strings, not too many; or NULL, none. */
bool dialect_is_list(const struct kg_node *node_or_null);

#endif
