/*
 * A recorded conversation once more, with another build of the plugin. What the host said is sent
 * again, requests of the plugin get the answers that they got then, and its answers are compared.
 */
#ifndef KAGED_KIT_REPLAY_H
#define KAGED_KIT_REPLAY_H

#include "kit/room.h"
#include "trace/trace.h"

/* -- comparing, see compare.c ------------------------------------------------------------------ */

#define KIT_DIFFERENCES_MAX 20 /* of one answer; more are counted */

/* Texts are JSON, cut where they are long; "": there is nothing at that path. */
struct kit_difference {
    char *path, *was, *is; /* owned; path is a JSON pointer */
};

/* A folder that has another name here. */
struct kit_place {
    struct kg_str then, now; /* neither is empty */
};

struct kit_comparison {
    const char *const *ignored;     /* JSON pointers, "*" for any one part; ended by NULL */
    const struct kit_place *places; /* ended by an empty one */
    struct kit_difference differences[KIT_DIFFERENCES_MAX];
    size_t count, left_out;
};
/* Two JSON texts. Where one was redacted, anything is the same. */
void kit_compare(struct kit_comparison *comparison, struct kg_str was, struct kg_str is);
void kit_comparison_clear(struct kit_comparison *comparison); /* also for kg_auto */

/* -- playing, see replay.c --------------------------------------------------------------------- */

enum kit_outcome {
    KIT_SAME,
    KIT_DIFFERS,
    KIT_UNANSWERED,   /* there was an answer then */
    KIT_ANSWERED,     /* there was none then: the plugin had ended */
    KIT_ASKS_OTHER,   /* a request of the plugin's, with other params than then */
    KIT_ASKS_NEW,     /* a request of the plugin's that it did not make then */
    KIT_NOT_COMPARED, /* the note says why */
    KIT_OUTCOME_COUNT
};
extern const char *const kit_outcome_names[KIT_OUTCOME_COUNT];

struct kit_step {
    size_t number; /* of the line in the file; 0: it is in none */
    const char *method;
    enum kit_outcome outcome;
    int64_t was_us, is_us;                   /* from question to answer; -1: there was none */
    const char *note;                        /* "": none */
    bool redacted;                           /* a value that was sent or compared is not known */
    const struct kit_comparison *comparison; /* NULL: none was made */
};

struct kit_replay_parts {
    struct kit_room_parts room;
    const struct trace *trace;
    const char *const *ignored; /* ended by NULL */
    bool timed;                 /* as far apart as then, not as fast as it goes */
    void (*on_step)(void *data, const struct kit_step *step);
    void *data;
};
struct kit_replay_counts {
    uint64_t outcomes[KIT_OUTCOME_COUNT];
    uint64_t redacted; /* messages to the plugin in which something was hidden */
    int64_t missed;    /* records that the trace lacks */
};
/* Fails if it cannot be played; whether anything differs is in the counts. */
int kit_replay(const struct kit_replay_parts *parts, struct kit_replay_counts *ret_counts,
               struct kg_err *err);

#endif
