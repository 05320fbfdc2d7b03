/* What the rows of dialect/ share. */
#ifndef KAGED_DIALECT_INTERNAL_H
#define KAGED_DIALECT_INTERNAL_H

#include "dialect/dialect.h"

/* -- calls, see call.c ------------------------------------------------------------------------- */

/* A call that waited ends with that. */
void dialect_finish(struct dialect_call *call, enum peer_outcome outcome, struct kg_str json);

/* -- pages of a list, see pages.c -------------------------------------------------------------- */

struct dialect_pages {
    struct kg_buf items;  /* all so far, without brackets around them */
    struct kg_buf cursor; /* of the next page, a JSON string; empty: the first */
    unsigned count;
};
/* Takes one page more, and whether it was the last; fails for what is none, and past the bounds. */
int dialect_pages_take(struct dialect_pages *pages, const struct dialect_list *list,
                       struct kg_str result, bool *ret_last, struct kg_err *err);
void dialect_pages_free(struct dialect_pages *pages);

/* -- how far a call is, see progress.c --------------------------------------------------------- */

/*
 * Of a notification whose member `key` is the id of the call: tells the one waiting for it
 * {"progress", "total"?, "message"?}. What is about no call, falls or is too long is noise.
 */
enum dialect_hearing dialect_hear_progress(struct dialect_talk *talk, struct kg_str params,
                                           const char *key);

/* The same, of an initialize that had no result: it was refused, or not answered in time. */
int dialect_fail_initialize(struct dialect_talk *talk, enum peer_outcome outcome,
                            struct kg_str payload);

#endif
