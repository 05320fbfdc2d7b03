/* A talk on real pipes: the test plays the child, line by line, and sees what became of it. */
#ifndef TESTS_TALK_H
#define TESTS_TALK_H

#include "dialect/dialect.h"

#define V "\"jsonrpc\":\"2.0\""

struct talk_rig {
    struct loop *loop;
    struct dialect_talk talk;
    int in, out;         /* the child's */
    struct kg_buf heard; /* what the child has not taken yet */
    struct kg_buf told;  /* "ready|", "failed WORDS|", "done OUTCOME PAYLOAD|" and the test's own */
    /* The child was told that; a line without its end. */
    void (*on_line)(struct talk_rig *rig, struct kg_str line);
};

/* For the ops of a test; their data is the rig. */
void talk_rig_on_ready(void *data);
void talk_rig_on_failed(void *data, bool mend, const char *words);
void talk_rig_on_done(void *data, enum peer_outcome outcome, struct kg_str payload);

/* The rig may be a part of something larger; what else the talk has is the test's to fill in. */
void talk_rig_open(struct talk_rig *rig, const struct dialect *dialect,
                   const struct dialect_ops *ops, const struct peer_ops *peer_ops);
void talk_rig_close(struct talk_rig *rig);
void talk_rig_say(struct talk_rig *rig, const char *line);
/* One turn of the loop, then the child takes what is there. */
void talk_rig_turn(struct talk_rig *rig);
/* Until that was said; "" waits for anything. */
void talk_rig_wait(struct talk_rig *rig, struct kg_buf *where, const char *words);

#endif
