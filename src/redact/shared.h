/*
 * Secrets that nobody in this program may show: what is hidden wherever it speaks for itself, in
 * its log, its audit events, what it stores of sessions, what it sends to models and its own
 * answers. The loop adds to it; any thread may ask.
 */
#ifndef KAGED_REDACT_SHARED_H
#define KAGED_REDACT_SHARED_H

#include "redact/redact.h"

/* On the loop, or before there is one. Stays until the program ends. */
void redact_share(struct kg_str secret);
/* Whether there is any: what most programs never have costs one load. */
bool redact_shares_any(void);
/* For a set of its own that hides these, too; on the loop. */
const struct redact_set *redact_shared(void);
/* True if one was in it: the text is appended with all of them hidden. Else nothing is. */
bool redact_put_shared(struct kg_str text, struct kg_buf *ret_text);
/* The same of valid JSON, which stays that, whatever is hidden. */
bool redact_put_shared_json(struct kg_str json, struct kg_buf *ret_json);
/* From now on they are hidden in the log of the program. */
void redact_log(void);

#endif
