/* What plugins have to add to a context, one text for each of them; see live_notes.c. */
#ifndef KAGED_SESSION_LIVE_NOTES_H
#define KAGED_SESSION_LIVE_NOTES_H

#include "session/live.h"

struct live_note {
    char *plugin; /* owned */
    struct kg_buf text;
};
struct live_notes {
    struct live_note *items; /* owned */
    size_t count;
};
/* Adds what the observers among them say: a second text of a plugin stands behind its first. */
void live_notes_take(struct live_notes *notes, const struct host_hook_answer *answer);
/* As injections that belong to a mark; not before live_notes_append returns. */
void live_notes_append(const struct live_notes *notes, struct live_session *live,
                       const struct live_asker *asker, const char *agent, const char *mark,
                       void (*on_done)(void *data, const struct live_appended *appended_or_null,
                                       const struct kg_err *err_or_null),
                       void *data);
void live_notes_clear(struct live_notes *notes);

#endif
