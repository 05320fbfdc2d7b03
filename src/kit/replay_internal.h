/* What the files of a replay share. */
#ifndef KAGED_KIT_REPLAY_INTERNAL_H
#define KAGED_KIT_REPLAY_INTERNAL_H

#include "kit/replay.h"

/* -- a trace as what happened, see replay_events.c --------------------------------------------- */

enum kit_event_type {
    KIT_HOST_ASKS,
    KIT_HOST_TELLS,
    KIT_HOST_ANSWERS,
    KIT_PLUGIN_ASKS,
    KIT_PLUGIN_ANSWERS,
    KIT_ENDED, /* the process did */
    KIT_CUT,   /* a line that the trace does not have whole */
    KIT_GAP,   /* records are missing here */
};

struct kit_event {
    enum kit_event_type type;
    const struct trace_record *record;
    const char *method;     /* of what asks or tells */
    struct kg_str body;     /* the params; or {"result":...} or {"error":...} */
    struct kg_str id;       /* as it came; data NULL: it has none */
    bool starts;            /* a process starts here */
    struct kit_event *pair; /* the answer, or what it answers; NULL: there is none */

    /* while it is played */
    bool sent, judged;
    bool used;                   /* a request of the plugin's that came again */
    const struct kit_seat *seat; /* that it was sent to */
    uint64_t sent_ns, answered_ns;
    uint64_t sent_id;     /* that a request of ours had now */
    struct kg_buf answer; /* {"result":...} or {"error":...}; empty: none yet */
};

struct kit_events {
    struct kit_event *items; /* owned */
    size_t count;
    struct kg_arena *arena; /* owned; what items point to lives here, or in the trace */
};
void kit_events_read(const struct trace *trace, struct kit_events *ret_events);
void kit_events_free(struct kit_events *events); /* also for kg_auto */
/* {"result":...} or {"error":...} of an answer. */
void kit_put_outcome(struct kg_buf *out, bool is_result, struct kg_str payload);

#endif
