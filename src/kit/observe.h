/*
 * A program that is watched in its cage, and what it would have to be given: its stdio is ours, so
 * whoever speaks with it speaks with it as always. The cage holds: what it is not given it does not
 * get, and may do without; to see how it goes on, give it that and look again.
 */
#ifndef KAGED_KIT_OBSERVE_H
#define KAGED_KIT_OBSERVE_H

#include "cage/cage.h"
#include "kit/room.h"

struct kit_host {
    char *host; /* owned; as a capability names it */
    uint16_t port;
    uint32_t count;
    bool refused;
};

struct kit_observed {
    struct cage_attempt *attempts; /* owned, with their texts */
    size_t attempt_count;
    struct kit_host *hosts; /* owned */
    size_t host_count;
    char **refused; /* owned; lines that somebody was asked about, and did not give */
    struct cage_exit how;
    uint64_t duration_ms;
};
void kit_observed_free(struct kit_observed *observed); /* also for kg_auto */

/*
 * What it would be given is told as a line; the answer is the manifest with it, which lives until
 * the next answer and as long as the room. NULL: it is not given.
 */
typedef const struct manifest *kit_ask_fn(void *data, const char *line);

struct kit_observe_options {
    uint64_t for_ms; /* then it is ended; 0: it may go on */
    int output_fd;   /* where what it says goes; its stderr is ours */
    bool has_input;  /* our stdin is its stdin */
    kit_ask_fn *ask; /* NULL: nobody is asked. parts.asks of the room must be set */
    void *data;
};
/*
 * Runs it until it ends, is ended, or a signal comes; again if what was given takes a new cage.
 * parts.observed of the room must be set.
 */
int kit_observe(struct kit_room *room, const struct kit_observe_options *options,
                struct kit_observed *ret_observed, struct kg_err *err);

/* A capability that it has, or would need. */
struct kit_line {
    char *text;     /* owned; as a manifest has it */
    char *calls;    /* owned; by which it was tried, "" if nobody knows */
    uint64_t count; /* how often; 0: never */
    bool is_new;
};

/* What it tried that no line is proposed for. */
struct kit_left {
    char *what, *why, *call; /* owned */
    uint64_t count;
};

struct kit_proposal {
    struct kit_line *lines; /* owned */
    size_t line_count;
    struct kit_left *left; /* owned */
    size_t left_count;
    uint64_t others; /* attempts that were only counted */
};
void kit_proposal_free(struct kit_proposal *proposal); /* also for kg_auto */
/* What the manifest of the room declares, and what more it would take. Looks at the host's files.
 */
void kit_propose(const struct kit_room *room, const struct kit_observed *observed,
                 struct kit_proposal *ret_proposal);

#endif
