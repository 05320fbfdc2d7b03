/* What a model is told, made of entries: pure, and the only place that knows both forms. */
#ifndef KAGED_SESSION_CONVERSATION_H
#define KAGED_SESSION_CONVERSATION_H

#include "session/session.h"

struct session_conversation {
    struct kg_buf system;   /* text */
    struct kg_buf messages; /* a JSON array in the neutral form of model.h */
};
void session_conversation_clear(struct session_conversation *conversation); /* also for kg_auto */

/*
 * Of the entries of a context in its order. The system text is the prompt, what plugins injected
 * at the start, and other system entries that stand before all else; later ones stay in their
 * place. Calls join the assistant's message before them; their results follow at once. A call
 * without result is left out, like a result without call. Ids of calls are those of their entries.
 */
void session_conversation_write(const char *prompt_or_null, const struct session_entries *entries,
                                struct session_conversation *ret_conversation);

/* The system text for a model that is to sum up. */
extern const char session_summary_prompt[];
/*
 * What goes in a compaction, as one message for that model; the oldest that do not fit into
 * max_bytes are left out.
 */
void session_summary_question(const struct session_compaction *compaction, size_t max_bytes,
                              struct kg_buf *ret_messages);

#endif
