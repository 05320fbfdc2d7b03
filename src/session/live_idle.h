/* A session becomes idle, and plugins are told; see live_idle.c. */
#ifndef KAGED_SESSION_LIVE_IDLE_H
#define KAGED_SESSION_LIVE_IDLE_H

#include "session/live.h"

/* Everything dies with the callback. */
typedef void live_idle_fn(void *data, const struct host_hook_answer *answers, size_t count,
                          const struct kg_err *err_or_null);
/* An error, and on_done is not called; else once, never before this returns. It may be NULL. */
int live_idle(struct live_session *live, const char *reason, const char *request_id,
              live_idle_fn *on_done, void *data, struct kg_err *err);

#endif
