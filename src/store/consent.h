/*
 * Consents: what somebody wants to have installed, upgraded or approved, and what the operator says
 * to it. Nothing is fetched and nothing gets into the store but by an answer to one of these, and
 * an answer names the hash of what was shown: what an operator did not see is never taken.
 *
 *   wanted -> fetching -> offered -> installing -> done
 *                                 -> declined, expired     failed: from where something is done
 *
 * What the operator asks for himself is fetched at once. What a project asks for stays wanted until
 * the operator lets it be fetched; it is kept in kaged.db, and so is the answer. What was fetched
 * is not: after a restart it is wanted again.
 */
#ifndef KAGED_CONSENT_H
#define KAGED_CONSENT_H

#include "audit/audit.h"
#include "state/state.h"
#include "store/store.h"

enum consent_kind {
    CONSENT_INSTALL,
    CONSENT_UPGRADE,
    CONSENT_APPROVE,  /* the files that are in the store, as they are */
    CONSENT_ACTIVATE, /* what is installed, for one more project */
    CONSENT_DEV,      /* a folder that is run while its author changes it */
    CONSENT_KIND_COUNT
};
extern const char *const consent_kind_names[CONSENT_KIND_COUNT];

enum consent_state {
    CONSENT_WANTED,
    CONSENT_FETCHING,
    CONSENT_OFFERED,
    CONSENT_INSTALLING,
    CONSENT_DONE,
    CONSENT_DECLINED,
    CONSENT_FAILED,
    CONSENT_EXPIRED,
    CONSENT_STATE_COUNT
};
const char *consent_state_name(enum consent_state state);
const char *consent_state_meaning(enum consent_state state);
/* Whether nothing more happens unless somebody asks for it again. */
bool consent_state_is_settled(enum consent_state state);
/* The table for the manual: the index-th event that does something there; NULL event at the end. */
struct consent_transition {
    const char *event;
    enum consent_state next;
};
struct consent_transition consent_transition(enum consent_state state, size_t index);

/* -- the queue --------------------------------------------------------------------------------- */

struct consent;
struct consent_queue;

/* What an offer has to be made of. Borrowed. */
struct consent_wish {
    enum consent_kind kind;
    const char *plugin;          /* the only name that fits; NULL: whatever the source has */
    const char *source;          /* NULL: what is in the store */
    const char *base;            /* where a relative source starts; NULL: it must not be relative */
    const char *version;         /* NULL: any */
    const struct store_own *own; /* what the operator adds to it; NULL: nothing */
    bool packages;               /* see store_source */
    const char *server; /* of an MCP server without a manifest, see store_source; or NULL */
};

/* What the queue cannot do itself: slow work, and work that others have a part in. */
struct consent_ops {
    /*
     * Begins to make an offer. Ends with consent_offered or consent_failed, never before it
     * returns; after `cancel` with neither.
     */
    int (*prepare)(void *data, struct consent *consent, const struct consent_wish *wish,
                   struct kg_err *err);
    void (*cancel)(void *data, struct consent *consent);
    void (*drop)(void *data, struct store_offer *offer); /* takes it over */
    /* Takes the offer over. Ends with consent_taken or consent_failed, never before it returns. */
    void (*take)(void *data, struct consent *consent, struct store_offer *offer,
                 const struct store_consent *yes, const char *operator_id);
};

struct consent_limits {
    size_t open_max;   /* consents without an answer; as many answered ones are remembered */
    uint64_t offer_ms; /* an offer without an answer for this long expires */
};

/* Borrowed; all but the limits outlive the queue. */
struct consent_parts {
    struct loop *loop;
    struct state_keeper *keeper; /* NULL: nothing is kept */
    struct audit *audit;         /* NULL: nobody is told */
    const struct consent_ops *ops;
    void *data; /* for ops */
    struct consent_limits limits;
};
/* With what projects still want, and may use, from kaged.db: before the loop runs. */
struct consent_queue *consent_queue_new(const struct consent_parts *parts, struct kg_err *err);
/* Cancels what is being fetched, drops what is offered; nobody is told. Takes NULL. */
void consent_queue_free(struct consent_queue *queue);
void consent_queue_set_limits(struct consent_queue *queue, const struct consent_limits *limits);
size_t consent_count(const struct consent_queue *queue);
struct consent *consent_at(const struct consent_queue *queue, size_t index); /* oldest first */
/* NULL with KG_E_NOT_FOUND. */
struct consent *consent_find(const struct consent_queue *queue, struct kg_str id,
                             struct kg_err *err);

/* -- asking ------------------------------------------------------------------------------------ */

struct consent_request {
    struct consent_wish wish;
    const char *project;     /* NULL: the operator asks for himself */
    const char *operator_id; /* who asks; NULL: nobody did, a project was loaded */
    bool again;              /* also if the project's wish was answered before */
};
/*
 * A project has one consent for a plugin: while that is open it is given again, and once it is
 * settled, too, unless `again` is set. NULL with err: it cannot be asked for.
 */
struct consent *consent_raise(struct consent_queue *queue, const struct consent_request *request,
                              struct kg_err *err);
/* What a project wants of a plugin, or NULL. */
struct consent *consent_of_project(const struct consent_queue *queue, const char *project,
                                   const char *plugin);
/* The project is gone: what it wants, and what was answered, is forgotten. */
void consent_forget_project(struct consent_queue *queue, const char *project);
/* It waits for these plugins only, by name and NULL-ended: what else it wanted is forgotten. */
void consent_keep_wanted(struct consent_queue *queue, const char *project, char *const *plugins);
/* Whether the operator let the project use the plugin. */
bool consent_is_active(const struct consent_queue *queue, const char *project, const char *plugin);
/* No project may use it any more: the store, and kaged.db, forgot it. */
void consent_plugin_removed(struct consent_queue *queue, const char *plugin);
/* The name stands for another folder, which may use nothing yet; kaged.db knows it. */
void consent_project_moved(struct consent_queue *queue, const char *project);
/* Tells when all that happened until now is in kaged.db; without one at once. */
void consent_when_kept(const struct consent_queue *queue, state_kept_fn *on_kept, void *data);

const char *consent_id(const struct consent *consent);
struct kg_id consent_key(const struct consent *consent);    /* the same, to be kept */
const char *consent_project(const struct consent *consent); /* NULL: the operator's own */
enum consent_state consent_state(const struct consent *consent);
/* Appends a JSON object; with_offer: and what is offered. */
void consent_json(const struct consent *consent, bool with_offer, struct kg_json_writer *writer);

/* Called after each change of a consent; it must not free the queue. */
struct consent_listener {
    struct consent_listener *next;
    void (*on_change)(struct consent_listener *listener, struct consent *consent);
};
void consent_listen(struct consent_queue *queue, struct consent_listener *listener);
void consent_unlisten(struct consent_queue *queue, struct consent_listener *listener);

/* -- answering --------------------------------------------------------------------------------- */

struct consent_answer {
    const char *operator_id;
    const char *hash; /* of what was shown; NULL: nothing was yet, it may be fetched */
    const char *path; /* with a NULL hash: fetch it from here instead; or NULL */
    bool packages; /* the same: with what its package-lock.json names, also after it was offered */
    bool allow_new_capabilities, replace_source;
};
/* KG_E_CONFLICT: not in this state, or not this hash. KG_E_REFUSED: it widens what is installed, or
 * comes from another source. */
int consent_approve(struct consent *consent, const struct consent_answer *answer,
                    struct kg_err *err);
int consent_decline(struct consent *consent, const char *operator_id, struct kg_err *err);

/* -- for the ops ------------------------------------------------------------------------------- */

void consent_progress(struct consent *consent, const struct store_progress *progress);
void consent_offered(struct consent *consent, struct store_offer *offer); /* takes it over */
void consent_failed(struct consent *consent, const struct kg_err *err);

struct consent_outcome {
    const char *name, *version;
    bool was_running;
    bool reverted;        /* the new version did not start, and the one before is back */
    struct kg_err reason; /* why, then */
};
void consent_taken(struct consent *consent, const struct consent_outcome *outcome);

#endif
