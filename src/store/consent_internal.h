/* What the files of the consent queue share. */
#ifndef KAGED_CONSENT_INTERNAL_H
#define KAGED_CONSENT_INTERNAL_H

#include "store/consent.h"

#define CONSENT_PHASE_MAX 24

enum consent_event {
    ON_AGAIN,  /* it is asked for once more, after an answer */
    ON_FETCH,  /* the operator lets it be fetched */
    ON_OFFER,  /* it is there, checked, and can be shown */
    ON_YES,    /* the operator takes what was shown */
    ON_TAKEN,  /* it is in the store */
    ON_NO,     /* the operator does not want it */
    ON_LATE,   /* nobody answered in time */
    ON_FAILED, /* it could not be fetched, or not be taken */
    CONSENT_EVENT_COUNT
};

/* A plugin that a project may use. Both are owned. */
struct consent_active {
    char *project, *plugin;
};

/* What was taken, while kaged.db learns that the project may use it. Texts are owned. */
struct consent_activation {
    struct consent *consent; /* borrowed; NULL: it is gone */
    char *project, *plugin, *version;
    bool was_running;
};

struct consent_queue {
    struct consent_parts parts;
    struct consent_active *active; /* owned */
    size_t active_count;
    struct consent **items; /* owned, oldest first */
    size_t count;
    struct consent_listener *listeners;
};

/* Texts are owned; NULL where there is none. */
struct consent {
    struct consent_queue *queue; /* borrowed */
    struct kg_id id;
    enum consent_kind kind;
    enum consent_state state;
    char *project, *plugin, *source, *base, *version, *server;
    bool packages;
    char *raised_by, *answered_by;
    struct store_own own;         /* owned; what the operator adds to what it asks for */
    struct audit_request request; /* that asked or answered last */
    int64_t raised_ms, changed_ms, expires_ms; /* wall clock; 0: does not apply */
    struct kg_err reason;                      /* of a failure; KG_OK: none */

    bool has_progress; /* while it is fetched */
    char phase[CONSENT_PHASE_MAX];
    struct store_progress progress; /* its phase is the one above */

    struct store_offer *offer; /* owned; NULL unless offered */
    struct kg_buf offer_json;  /* stays when the offer was taken */
    struct loop_timer expiry;

    struct consent_activation *activation; /* under way; borrowed, or NULL */
    char *taken_version;                   /* once it is done */
    bool was_running;
};

/*
 * Moves along the table; false: the event does nothing in this state. The state is kept, and
 * listeners are told.
 */
bool consent_raise_event(struct consent *consent, enum consent_event event);
bool consent_takes_event(const struct consent *consent, enum consent_event event);

/* -- actions of the table, see consent.c ------------------------------------------------------- */

void consent_begin_offer(struct consent *consent);
void consent_end_offer(struct consent *consent);
void consent_stop_fetching(struct consent *consent);
void consent_forget_answer(struct consent *consent);
void consent_forget_offer(struct consent *consent); /* and not why it failed */

/* -- kaged.db, see consent_keep.c -------------------------------------------------------------- */

/* Writes it as it would be after a restart; only what a project wants is kept. */
void consent_keep(const struct consent *consent);
void consent_unkeep(const struct consent *consent);
int consent_load_kept(struct consent_queue *queue, struct kg_err *err);
void consent_free_active(struct consent_queue *queue);
/* The project may use the plugin from now on: ends in consent_activated, unless it is freed. */
void consent_activate(struct consent *consent, const struct consent_outcome *outcome);
void consent_activated(struct consent *consent, const struct consent_activation *activation,
                       const struct kg_err *err_or_null);

/* Adds an empty one to the queue. */
struct consent *consent_add(struct consent_queue *queue, enum consent_kind kind);

#endif
