/* What all operations on sessions have in common; see live_op.c. */
#ifndef KAGED_SESSION_LIVE_OP_H
#define KAGED_SESSION_LIVE_OP_H

#include "session/live.h"

/* Embed it first: the whole is freed with it. */
struct live_op {
    struct session_job job;
    struct loop_task task; /* of a failure that is told later, */
    struct live_wait wait; /* or at the latest when the sessions are freed */
    struct sessions *sessions;
    char *session, *operator_id, *request_id; /* owned; the last two may be NULL */
    sessions_done_fn *on_done;
    void *data;
    struct live_session *live; /* held once it is open */
    struct kg_err err;         /* of a failure that is told later */
    struct kg_buf json;        /* the answer */
    void (*next)(struct live_op *op);
    void (*clear)(struct live_op *op); /* frees what is behind it; NULL: nothing */
};

void *live_op_new(size_t size, struct sessions *sessions, const struct sessions_asker *asker,
                  void (*clear)(struct live_op *op));
struct live_asker live_op_asker(const struct live_op *op);
/* Tells what is in json. The operation is gone. */
void live_op_answer(struct live_op *op);
/* Tells the error; never before an operation returned that has not begun anything. */
void live_op_fail(struct live_op *op, const struct kg_err *err);
void live_op_fail_later(struct live_op *op, const struct kg_err *err);
/* Whether anything may begin now; `writes`: it changes something. */
int live_op_check(const struct sessions *sessions, bool writes, struct kg_err *err);
/* Whether it may begin; if not, it is as good as answered. `writes`: it changes something. */
bool live_op_admit(struct live_op *op, bool writes);
/* Opens the session, then `next`. Fails by itself. */
void live_op_open(struct live_op *op, void (*next)(struct live_op *op));
/* Runs on the store, then `next`. Fails by itself. */
typedef int live_op_run_fn(struct session_job *job, struct state *state, struct kg_err *err);
void live_op_read(struct live_op *op, live_op_run_fn *run, void (*next)(struct live_op *op));
void live_op_write(struct live_op *op, live_op_run_fn *run, void (*next)(struct live_op *op));

/* -- bodies ------------------------------------------------------------------------------------ */

struct live_field {
    const char *key;
    enum { LIVE_TEXT, LIVE_BOOL, LIVE_COUNT } type;
    void *value; /* char **, owned and NULL if absent; bool *; int64_t *. Untouched if absent. */
};
/* An object of such members and no others; or nothing. */
int live_body_read(struct kg_str body, const struct live_field *fields, size_t count,
                   struct kg_err *err);

#endif
