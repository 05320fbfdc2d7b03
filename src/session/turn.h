/*
 * A turn: the user says something, and the agent's model answers, calling tools in between, until
 * it has said what it had to say. One at a time in a session.
 */
#ifndef KAGED_SESSION_TURN_H
#define KAGED_SESSION_TURN_H

#include "session/sessions.h"

struct turn_ops {
    /* It did not begin: nothing was told, and nothing follows. */
    void (*on_refused)(void *data, const struct kg_err *err);
    /* The next of its events: a JSON object and a newline, which die with the callback. */
    void (*on_line)(void *data, struct kg_str line);
    void (*on_end)(void *data); /* after the last line; the turn is gone */
};

struct turn;
/*
 * body: {"text", "steps"?}. NULL if it does not fit; else exactly one of on_refused and on_end
 * comes, and nothing before this returns. Of the asker on_done and data are not looked at.
 */
struct turn *turn_start(struct sessions *sessions, const struct sessions_asker *asker,
                        struct kg_str body, const struct turn_ops *ops, void *data,
                        struct kg_err *err);
/* It ends soon; with KG_OK in `why` nobody is told a reason. */
void turn_cancel(struct turn *turn, const struct kg_err *why);

/* The turn that runs in a session, if any -> {"cancelled"} */
void sessions_cancel(struct sessions *sessions, const struct sessions_asker *asker);

#endif
