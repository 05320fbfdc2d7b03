/*
 * The audit log, sent on: to the journal, to syslog or to an address. The log on the disk is the
 * queue, so nothing here slows or loses an event of the chain; a position is kept beside it, and
 * what could not be sent before its file was rotated away is counted.
 */
#ifndef KAGED_FORWARD_H
#define KAGED_FORWARD_H

#include "audit/audit.h"
#include "fetch/fetch.h"

struct forward_parts {
    struct loop *loop; /* borrowed, like all but the texts */
    struct audit *audit;
    struct helper_place place;
    const struct cage_facts *facts; /* NULL: no address can be asked */
    const char *audit_dir;
    const char *position_file;
    const char *target; /* as audit.forward has it */
    /* How many files are kept; and "Name: value" for an address, NULL-ended and owned by the
     * caller, or NULL with err. Both are asked again for each batch. */
    unsigned (*keep)(void *data);
    char **(*headers)(void *data, struct kg_err *err);
    void (*on_idle)(void *data); /* after forward_stop: nothing is under way any more */
    void *data;
};

struct forward;
/* Before the loop runs, and before the first event of this start. */
struct forward *forward_open(const struct forward_parts *parts, struct kg_err *err);
void forward_stop(struct forward *forward);          /* takes NULL; what is not sent waits */
bool forward_is_idle(const struct forward *forward); /* the same */
void forward_free(struct forward *forward);          /* the same; before the audit log is closed */

struct forward_facts {
    const char *target;
    uint64_t sent, lost;      /* events, also those of earlier starts */
    uint64_t lost_files;      /* whose events nobody could count */
    uint64_t failures;        /* in a row */
    uint64_t waiting_bytes;   /* of the log, at the last look */
    int64_t failing_since_ms; /* wall clock; 0: it works */
    const char *problem;      /* of the last failure; "" if there is none */
};
struct forward_facts forward_facts(const struct forward *forward);
void forward_facts_json(const struct forward_facts *facts, struct kg_json_writer *json);

#endif
