/* Server-sent events: bytes in, the data of each event out. See sse.c. */
#ifndef KAGED_SSE_H
#define KAGED_SSE_H

#include "base/base.h"

#define KG_SSE_ID_MAX 1024 /* a longer id is none */

/* Negative ends the reading, and is what feed and finish return then. */
typedef int kg_sse_event_fn(void *user, struct kg_str data);

struct kg_sse;
struct kg_sse *kg_sse_new(size_t event_max_bytes);
void kg_sse_free(struct kg_sse *sse); /* takes NULL */
/* -EMSGSIZE: a line or an event is too long. */
int kg_sse_feed(struct kg_sse *sse, struct kg_str bytes, kg_sse_event_fn *on_event, void *user);
/* The end of the stream; an event without its empty line counts. */
int kg_sse_finish(struct kg_sse *sse, kg_sse_event_fn *on_event, void *user);
/* Where to go on from after a break; empty: nowhere. And when to: negative: it was not said. */
struct kg_str kg_sse_id(const struct kg_sse *sse);
int64_t kg_sse_retry_ms(const struct kg_sse *sse);

#endif
