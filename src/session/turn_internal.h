/* What the files of turns share. */
#ifndef KAGED_SESSION_TURN_INTERNAL_H
#define KAGED_SESSION_TURN_INTERNAL_H

#include "session/conversation.h"
#include "session/live.h"
#include "session/models.h"
#include "session/turn.h"

/* -- what a model says in one step, see turn_answer.c ------------------------------------------ */

struct turn_call {
    char *name; /* as the model says it; owned, like the next three */
    struct kg_buf arguments;
    struct kg_buf content; /* of the entry */
    char *problem;         /* why it is not made; NULL: it is */
    struct kg_id id;       /* of its entry; "" before there is one */
};
struct turn_answer {
    struct kg_buf text;
    size_t told_bytes; /* of text and thoughts */
    struct turn_call *calls;
    size_t call_count, call_bytes;
};
void turn_answer_clear(struct turn_answer *answer);
void turn_answer_cut(struct turn_answer *answer, size_t count); /* to so many calls */
/* KG_E_TOO_LARGE: it says more than a model may. */
int turn_answer_add_text(struct turn_answer *answer, struct kg_str text, struct kg_err *err);
int turn_answer_add_thought(struct turn_answer *answer, struct kg_str text, struct kg_err *err);
int turn_answer_add_call(struct turn_answer *answer, const struct model_event *event,
                         struct kg_err *err);
/* What was said, as drafts whose texts live in the answer and in `content`; how many they are. */
size_t turn_answer_message(const struct turn_answer *answer, const char *agent,
                           struct kg_buf *content, struct session_draft *ret_draft);
size_t turn_answer_drafts(const struct turn_answer *answer, const char *agent,
                          struct kg_buf *content, struct session_draft *ret_drafts);
#define TURN_CALLS_MAX 128 /* that are heard of one answer; not all of them are made */

/* -- the turn ---------------------------------------------------------------------------------- */

enum turn_stop {
    TURN_STOP,
    TURN_LENGTH,
    TURN_REFUSED,
    TURN_STEPS,
    TURN_CANCELLED,
    TURN_FAILED,
    TURN_CHECKPOINT,
    TURN_OTHER,
};
extern const char *const turn_stop_names[];

/* Who waits for a compaction cannot take it back. */
struct turn_wait {
    struct turn *turn; /* NULL: it does not */
};

struct turn {
    struct live_run run;
    struct sessions *sessions;
    struct live_session *live; /* held; NULL before it is found */
    const struct turn_ops *ops;
    void *data;
    char *agent, *operator_id, *request_id; /* owned */
    struct kg_buf said;                     /* by the user, as content */
    int64_t steps, steps_max;
    bool begun;     /* it is the session's turn */
    bool started;   /* the reader was told so */
    bool cancelled; /* and has not ended yet */
    bool ending;
    struct kg_err why; /* it was cancelled, or failed */
    struct loop_task cancel_task;
    enum turn_stop stop;
    uint64_t began_ms;
    int64_t input_tokens, output_tokens;

    struct session_job job; /* reads the context */
    char *prompt;           /* owned; NULL: none */
    struct session_conversation conversation;
    struct models_call *asking; /* NULL: no model is asked */
    enum model_stop model_stop;
    struct turn_answer answer;
    size_t next_call;          /* the first of the answer's that has no result */
    struct live_calling *tool; /* NULL: none is called */
    struct turn_wait *waiting; /* for a compaction */
};

/* -- what the reader is told, see turn_lines.c ------------------------------------------------- */

void turn_tell_start(struct turn *turn);
void turn_tell_text(struct turn *turn, const char *type, struct kg_str text);
void turn_tell_usage(struct turn *turn, const struct model_event *event);
void turn_tell_retry(struct turn *turn, const struct model_event *event);
void turn_tell_call(struct turn *turn, const struct turn_call *call);
void turn_tell_result(struct turn *turn, const struct turn_call *call, bool blocked, bool is_error,
                      struct kg_str result);
void turn_tell_compaction(struct turn *turn, const struct live_compacted *compacted);
void turn_tell_end(struct turn *turn);

#endif
