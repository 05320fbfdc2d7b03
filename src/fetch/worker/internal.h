/* kaged-fetch: one request in, one answer out. See main.c. */
#ifndef KAGED_FETCH_WORKER_INTERNAL_H
#define KAGED_FETCH_WORKER_INTERNAL_H

#include "fetch/worker/worker.h"

struct exchanges;
struct exchanges *exchanges_new(struct kg_buf *lines, struct kg_err *err);
void exchanges_free(struct exchanges *exchanges); /* nothing is answered any more */
/* A request of the daemon, by its params; answered by a line, at once if it does not fit. */
void exchanges_start(struct exchanges *exchanges, int64_t id, struct kg_str params);
void exchanges_cancel(struct exchanges *exchanges,
                      struct kg_str params); /* by its id; not answered */
bool exchanges_turn(struct exchanges *exchanges, int fd);

/* kaged-fetch object: one errand to a bucket, see object.c; the exit code. */
int object_main(void);

void exchange_put_error(struct kg_buf *lines, int64_t id, const char *words);

#endif
