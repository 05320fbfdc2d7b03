/*
 * Sessions in use. A live session is what memory has of one that something is done with: whether it
 * was started, its idle timer, compactions under way, the turn that runs. All else is in kaged.db,
 * so one that nobody uses can be forgotten at any time.
 *
 * Everything here runs on the loop. Callbacks named on_* come once; where it says so, maybe before
 * the call returns. Each gets an error or what it was asked for.
 */
#ifndef KAGED_LIVE_INTERNAL_H
#define KAGED_LIVE_INTERNAL_H

#include "live/live.h"
#include "model/model.h"

#define LIVE_WORK_MAX 256 /* that holds one session at the same time */

struct live_session;
struct live_compaction;
struct live_compacted;
struct live_summary;
struct models;

/* The turn that runs in a session. Embed one; see live_run_begin. */
struct live_run {
    const char *agent;
    /*
     * End soon, for this reason: the session is closed, its project unloaded, the daemon stops, or
     * the operator wants it. live_run_end follows, now or later; it may be called more than once.
     */
    void (*cancel)(struct live_run *run, const struct kg_err *why);
    /* A compaction of its agent is over, before whoever waits for that hears of it; or NULL. */
    void (*on_compacted)(struct live_run *run, const struct live_compacted *compacted);
};

/*
 * Something outside of kaged.db that is waited for: a hook, a tool, a model. When the sessions
 * stop, each is told to end at once. Embed one; adding it twice is wrong, removing it twice is not.
 */
struct live_wait {
    struct live_wait *next, **link;        /* the sessions' */
    void (*abort)(struct live_wait *wait); /* it is removed already */
};

struct sessions {
    struct loop *loop;
    struct host *host;
    struct session_store *store; /* owned */
    struct models *models;       /* owned; what turns and summaries ask */
    struct kg_map *live;         /* by id; owned, and so are the sessions in it */
    struct host_project_listener listener;
    struct live_wait *waits;
    uint64_t forgotten; /* live sessions, so far: what was read before that may be stale */
    /*
     * How a summary is made of what goes; NULL: nobody can. on_done once, maybe before it returns.
     */
    void (*summarize)(struct live_session *live, const struct live_summary *summary);
    bool stopping;
};

enum live_start { LIVE_NOT_STARTED, LIVE_STARTING, LIVE_STARTED };

struct live_session {
    struct sessions *sessions;
    struct kg_id id;
    char *project_id, *workdir;
    char *seat;               /* as it was written last */
    enum session_state state; /* the same */
    enum live_start start;
    bool entered;      /* its project */
    bool leaving;      /* it is forgotten as soon as nobody holds it */
    uint32_t work;     /* who holds it */
    uint64_t used_ms;  /* when it was held last */
    char *operator_id; /* who used it last, for what timers do; NULL: unknown */
    struct loop_timer idle_timer;
    struct live_waiter *starting;        /* who waits for the start */
    struct live_compaction *compactions; /* under way, one for each agent at most */
    struct live_run *run;                /* NULL: no turn runs */
};

/* Whether the session can be used now; err says why not. */
int live_check_open(const struct live_session *live, struct kg_err *err);

/* Who asks, as an agent of this session. */
struct host_asker *live_asker_for(const struct live_session *live, const struct host_asker *asker,
                                  const char *agent);

/* -- finding and holding one, see live.c ------------------------------------------------------- */

typedef void live_fn(void *data, struct live_session *live_or_null,
                     const struct kg_err *err_or_null);
/*
 * By its id, or a prefix that only one has. It is held for the callback's owner, who releases it.
 * Never before this returns. KG_E_BUSY if too much is under way.
 */
void live_open(struct sessions *sessions, struct kg_str id, live_fn *on_open, void *data);
void live_hold(struct live_session *live);
void live_release(struct live_session *live); /* it may be freed by this */
/* The one with exactly this id, if it is in memory; not held. */
struct live_session *live_find(const struct sessions *sessions, const char *id);
/* Something happened in it: the idle timer starts anew. */
void live_activity(struct live_session *live);
/* What was just written. */
void live_set_state(struct live_session *live, enum session_state state);
/* A session that was just made, or read; in the table, not held. NULL if there is no room. */
struct live_session *live_adopt(struct sessions *sessions, const struct session *session,
                                bool started, struct kg_err *err);
/* Into its project, if it is not; KG_E_CONFLICT if that is not loaded, KG_E_REFUSED if pending. */
int live_enter(struct live_session *live, struct kg_err *err);
void live_wait_add(struct sessions *sessions, struct live_wait *wait,
                   void (*abort)(struct live_wait *wait));
void live_wait_remove(struct live_wait *wait);

/* Who waits for something of a session; the list owns them, and it holds the session for each. */
struct live_waiter {
    struct live_waiter *next;
    live_fn *on_done;
    void *data;
};
void live_waiters_add(struct live_session *live, struct live_waiter **list, live_fn *on_done,
                      void *data);
/* Tells all of them, and forgets them. */
void live_waiters_tell(struct live_session *live, struct live_waiter **list,
                       const struct kg_err *err_or_null);
/* What an operation that cannot go on answers. */
int live_fail_stopping(struct kg_err *err);

/* The same session is idle, by its timer or by request; see idle.c. */
void live_on_idle_timer(struct loop_timer *timer);

/* -- its agents, see agent.c ------------------------------------------------------------------- */

/* Until the next turn of the loop. */
struct live_agent {
    struct host_project *project;
    const struct project_resolved_agent *resolved;
    const struct local_model *model; /* NULL: the agent names none, or local.toml knows none */
    uint64_t window_tokens;
    double threshold;
    enum session_strategy strategy;
    const char *compactor; /* the agent's word for the plugin that can; NULL: none is ready */
    uint32_t keep_recent;
    const char *summary_model; /* an alias; NULL: the agent's own model */
};
/* KG_E_CONFLICT: the project is not loaded; KG_E_NOT_FOUND: it has no such agent. */
int live_agent_find(const struct sessions *sessions, const char *project_id, const char *agent_path,
                    struct live_agent *ret_agent, struct kg_err *err);

/* Bytes that the payload of a hook may have. */
size_t live_payload_max(const struct sessions *sessions);

/* -- before the first message, see start.c ----------------------------------------------------- */

/*
 * Enters the project; if nothing was said yet, waits for the plugins, fires on_session_start and
 * adds what it injects. Maybe before it returns. The session is held until then.
 */
void live_ensure_started(struct live_session *live, const struct host_asker *asker,
                         live_fn *on_started, void *data);

/* -- entries, see append.c --------------------------------------------------------------------- */

struct live_appended {
    const struct session_added *added; /* one for each draft; dies with the callback */
    size_t count;
    bool compacting; /* one of the contexts is too full, and a compaction is under way */
};
/*
 * Copies the drafts, writes them, and looks whether a context is too full by now. The session must
 * be started. Never before it returns.
 */
void live_append(struct live_session *live, struct host_asker *asker,
                 const struct session_draft *drafts, size_t count,
                 void (*on_done)(void *data, const struct live_appended *appended_or_null,
                                 const struct kg_err *err_or_null),
                 void *data);

/* -- tools, see tool.c ------------------------------------------------------------------------- */

struct live_tool_result {
    const char *plugin;           /* whose tool it is; NULL: nobody's */
    struct kg_id call, entry;     /* their entries */
    uint64_t call_seq, entry_seq; /* the same */
    bool blocked;                 /* the plugin could not be reached */
    bool is_error;        /* and also: unknown tool, bad arguments, the plugin's own error */
    struct kg_str result; /* JSON: the tool's, or of an error a string with words for the model */
    bool compacting;
};
struct live_tool {
    struct host_asker *asker;
    const char *agent;
    struct kg_str tool;      /* "plugin.tool", or as models write it */
    struct kg_str arguments; /* JSON, maybe none that fits; empty: {} */
    struct kg_str call_id;   /* the model's name for the call, kept in the entry; empty: none */
    const char *recorded;    /* the id of the tool_call's entry if it is there already; or NULL */
    /* Once, never before live_tool_call returns. Everything dies with the callback. */
    void (*on_done)(void *data, const struct live_tool_result *result_or_null,
                    const struct kg_err *err_or_null);
    void *data;
};
/*
 * Records the call, calls the tool, records its result, whatever it is: one belongs to each call.
 * The session must be started; it is held. What is returned is valid until on_done.
 */
struct live_calling;
struct live_calling *live_tool_call(struct live_session *live, const struct live_tool *tool);
/* If the plugin still works on it, its result is that it was cancelled. on_done comes as always. */
void live_tool_cancel(struct live_calling *calling);

/* -- compaction, see compact.c ----------------------------------------------------------------- */

struct live_compact {
    struct host_asker *asker;
    const char *agent;
    const char *trigger;                   /* "manual", "threshold_crossed", ... */
    const enum session_strategy *strategy; /* NULL: the agent's */
    const uint32_t *keep_recent;           /* NULL: the agent's */
};
/* What came of one. Dies with the callback. */
struct live_compacted {
    const char *agent;
    struct kg_id mark;
    enum session_strategy strategy; /* that was carried out */
    const char *fell_back;          /* why; NULL: it did not */
    struct session_compaction_sums sums;
    enum session_state state; /* of the session, by now */
};
typedef void live_compacted_fn(void *data, const struct live_compacted *compacted_or_null,
                               const struct kg_err *err_or_null);
/*
 * Compacts the context of an agent, after one that is under way. The session has to be started. It
 * is held. Never before it returns. on_done may be NULL.
 */
void live_compact(struct live_session *live, const struct live_compact *compact,
                  live_compacted_fn *on_done, void *data);
/* Whether one of that agent is under way. */
bool live_is_compacting(const struct live_session *live, const char *agent);
/* When none of that agent is under way: maybe before it returns. The session is held until then. */
void live_when_compacted(struct live_session *live, const char *agent, live_fn *on_free,
                         void *data);
/* As a JSON object: what the route answers, and what a turn tells. */
void live_compacted_write(const struct live_compacted *compacted, struct kg_json_writer *json);

/* What goes, to be summarized by a model. Valid until on_done. */
struct live_summary {
    const struct session_compaction *compaction;
    struct host_asker *asker; /* the agent's */
    void (*on_done)(void *data, struct kg_str text, const struct kg_err *err_or_null);
    void *data;
};

/* -- the turn that runs, see live.c ------------------------------------------------------------ */

/* KG_E_CONFLICT while another runs. Held until live_run_end. No idle timer goes meanwhile. */
int live_run_begin(struct live_session *live, struct live_run *run, struct kg_err *err);
void live_run_end(struct live_session *live);

/* -- JSON, see json.c -------------------------------------------------------------------------- */

void live_entry_write(const struct session_entry *entry, struct kg_json_writer *json);
void live_session_write(const struct sessions *sessions, const struct session *session,
                        const struct session_agents *agents, struct kg_json_writer *json);

/* -- what plugins add to a context, see notes.c ------------------------------------------------ */

/* One text for each of them. */
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
                       struct host_asker *asker, const char *agent, const char *mark,
                       void (*on_done)(void *data, const struct live_appended *appended_or_null,
                                       const struct kg_err *err_or_null),
                       void *data);
void live_notes_clear(struct live_notes *notes);

/* -- idle, see idle.c -------------------------------------------------------------------------- */

/* Everything dies with the callback. */
typedef void live_idle_fn(void *data, const struct host_hook_answer *answers, size_t count,
                          const struct kg_err *err_or_null);
/* An error, and on_done is not called; else once, never before this returns. It may be NULL. */
int live_idle(struct live_session *live, const char *reason, struct host_asker *asker,
              live_idle_fn *on_done, void *data, struct kg_err *err);

/* -- summaries that models write, see summary.c ------------------------------------------------ */

/* `summarize` of struct sessions. */
void session_summarize(struct live_session *live, const struct live_summary *summary);

/* -- what all operations have in common, see op.c ---------------------------------------------- */

/* Embed it first: the whole is freed with it. */
struct live_op {
    struct session_job job;
    struct loop_task task; /* of a failure that is told later, */
    struct live_wait wait; /* or at the latest when the sessions are freed */
    struct sessions *sessions;
    struct host_asker *asker;
    char *session; /* owned */
    sessions_done_fn *on_done;
    void *data;
    struct live_session *live; /* held once it is open */
    struct kg_err err;         /* of a failure that is told later */
    struct kg_buf json;        /* the answer */
    void (*next)(struct live_op *op);
    void (*clear)(struct live_op *op); /* frees what is behind it; NULL: nothing */
};

void *live_op_new(size_t size, struct sessions *sessions, const struct sessions_request *request,
                  void (*clear)(struct live_op *op));
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
    struct host_asker *asker; /* the agent's once the session is found */
    char *agent;              /* owned */
    struct kg_buf said;       /* by the user, as content */
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
