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

#include "base/wait.h"
#include "live/live.h"
#include "model/model.h"
#include "snapshot/snapshot.h"

#define LIVE_WORK_MAX 256 /* that holds one session at the same time */

struct live_compaction;
struct live_question;
struct live_sample;
struct live_snapshot;
struct live_summary;
struct host_script_request;
struct host_ask;
struct host_asked_ops;
struct live_compacted;

/* A turn that runs in a session. Embed one; see live_run_begin. */
struct live_run {
    struct live_run *outer; /* the turn that it runs inside of; NULL: of none */
    const char *agent;
    bool moves;     /* it is no turn: the session moves to another branch */
    bool cancelled; /* it was told to */
    /*
     * End soon, for this reason: the session is closed, its project unloaded, the daemon stops, or
     * the operator wants it. live_run_end follows, now or later.
     */
    void (*cancel)(struct live_run *run, const struct kg_err *why);
    /* A compaction of its agent is over, before whoever waits for that hears of it; or NULL. */
    void (*on_compacted)(struct live_run *run, const struct live_compacted *compacted);
};

struct sessions {
    struct loop *loop;
    struct host *host;
    struct session_store *store; /* owned */
    struct models *models;       /* owned; what turns and summaries ask */
    struct kg_map *live;         /* by id; owned, and so are the sessions in it */
    struct projects_listener listener;
    char *snapshots_dir;  /* owned */
    struct kg_waits stop; /* work that waits for something outside of kaged.db */
    uint64_t forgotten;   /* live sessions, so far: what was read before that may be stale */
    bool stopping;
};

/* What an answer of a model took, as it was reported; `model` is NULL before there is one. */
struct live_usage {
    char *model; /* owned */
    int64_t input_tokens, output_tokens, cached_tokens;
    int64_t context_tokens; /* of what it was asked with, and said */
};

enum live_start { LIVE_NOT_STARTED, LIVE_STARTING, LIVE_STARTED };

struct live_session {
    struct sessions *sessions;
    struct kg_id id;
    struct kg_id branch; /* that it stands on */
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
    struct kg_waits starting;            /* who waits for the start */
    struct live_compaction *compactions; /* under way, one for each agent at most */
    struct live_run *run;                /* the innermost turn; NULL: none runs */
    struct live_question *questions;     /* that wait for an answer; see questions.c */
    struct live_wanted *wanted;          /* owned; a move that a script asked for; or NULL */
    struct live_wish *wishes;            /* owned; what else they asked for; see script_wishes.c */
    uint32_t wishes_made;                /* in this minute, */
    uint64_t wishes_since_ms;            /* which began then */
    uint32_t script_turns;               /* that scripts began since somebody said something */
    uint32_t commands;                   /* of scripts that run */
    struct live_usage usage;             /* of the primary's last answer */
    char *model;                         /* owned; that it was asked of; NULL: none yet */
};

/* Whether the session can be used now; err says why not. */
int live_check_open(const struct live_session *live, struct kg_err *err);

/* What an operation that cannot go on answers. */
int live_fail_stopping(struct kg_err *err);

/* -- the table, see live.c --------------------------------------------------------------------- */

void live_hold(struct live_session *live);
void live_release(struct live_session *live); /* it may be freed by this */
/* Something happened in it: the idle timer starts anew. */
void live_activity(struct live_session *live);
/* What was just written. */
void live_set_state(struct live_session *live, enum session_state state);
/* Whether plugins have to be there for it may be otherwise now. */
void live_tell_awake(struct live_session *live);
/* A session that was just made, or read; in the table, not held. NULL if there is no room. */
struct live_session *live_adopt(struct sessions *sessions, const struct session *session,
                                bool started, struct kg_err *err);
/* Whether there are files of it: a project from the state has none, and no scripts. */
bool live_has_folder(const struct live_session *live);
/* Into its project, if it is not; KG_E_CONFLICT if that is not loaded, KG_E_REFUSED if pending. */
int live_enter(struct live_session *live, struct kg_err *err);

/* -- steps, see work.c ------------------------------------------------------------------------- */

struct live_work;
typedef void live_next_fn(struct live_work *work, const struct kg_err *err_or_null);
typedef int live_run_fn(struct session_job *job, struct state *state, struct kg_err *err);

/*
 * Something that is done with a session, step by step, up to its one end. It waits for one thing at
 * a time, and `next` says how it goes on then. Embed one, zeroed; see live_work_begin.
 */
struct live_work {
    struct sessions *sessions;
    struct host_asker *asker;  /* a reference */
    struct live_session *live; /* held, once it is open */
    live_next_fn *next;
    void *awaited;
    void (*withdraw)(void *awaited); /* NULL: it waits for nothing, or for the store */
    struct kg_wait wait;             /* for something of the session */
    struct kg_wait stop;             /* the sessions' */
    struct loop_task task;
    struct session_job job;
    const struct projects_hook_answer *answers; /* of hooks that were fired, while `next` runs */
    size_t answer_count;
    struct live_tool *tool;             /* that is called */
    struct live_snapshot *snapshot;     /* that is made */
    struct live_summary *summary;       /* that is written */
    const struct session_draft *drafts; /* of live_append */
    size_t draft_count;
    struct session_draft
        *shown_drafts; /* owned, like the next: the same without secrets, or NULL */
    struct kg_buf shown;
    struct session_added one, *added; /* one for each draft; owned where it is not `one` */
    void (*on_added)(struct live_work *work);
    bool compacting; /* one of the contexts is too full, and a compaction is under way */
};
void live_work_begin(struct live_work *work, struct sessions *sessions, struct host_asker *asker);
void live_work_end(struct live_work *work); /* lets go of all; the session may be gone then */
/* It goes on for an agent of its session: who asks is that agent from now on. */
void live_work_for(struct live_work *work, const char *agent);

/*
 * Each of these is one step. Where it does not say otherwise, `next` comes never before it returns.
 * When the sessions stop, what is waited for outside of kaged.db ends with KG_E_STOPPING.
 */

/* With a session by its id, or a prefix that only one has. KG_E_BUSY if too much is under way. */
void live_open(struct live_work *work, struct kg_str id, live_next_fn *next);
/* At the end of this turn of the loop, with that error. */
void live_later(struct live_work *work, const struct kg_err *err_or_null, live_next_fn *next);
/* On the store's threads: `run` gets the job of the work. */
void live_read(struct live_work *work, live_run_fn *run, live_next_fn *next);
/* `run` asks the database for one thing. */
void live_read_once(struct live_work *work, live_run_fn *run, live_next_fn *next);
void live_write(struct live_work *work, live_run_fn *run, live_next_fn *next);
/*
 * Writes the drafts, which are the caller's until then, and looks whether a context is too full by
 * now. The session must be started. `added` and `compacting` are there for `next`; on_added_or_null
 * comes on the store's thread, before the commit.
 */
void live_append(struct live_work *work, const struct session_draft *drafts, size_t count,
                 void (*on_added_or_null)(struct live_work *work), live_next_fn *next);
/* Hooks are fired as the work's asker; on_done and data of `fire` are not looked at. */
void live_fire(struct live_work *work, const struct projects_hook_fire *fire, live_next_fn *next);
/* Something else, which `withdraw` takes back, is waited for until live_arrived. */
void live_await(struct live_work *work, void *awaited, void (*withdraw)(void *awaited),
                live_next_fn *next);
void live_arrived(struct live_work *work, const struct kg_err *err_or_null);
/* For something of the session that is told of to that list: `next` comes then. */
void live_wait(struct live_work *work, struct kg_waits *list, live_next_fn *next);
/* Takes back what it waits for: `next` does not come. False if that is the store. */
bool live_withdraw(struct live_work *work);

/* The same session is idle, by its timer or by request; see idle.c. */
void live_on_idle_timer(struct loop_timer *timer);

/* -- its agents, see agent.c ------------------------------------------------------------------- */

/* Until the next turn of the loop. */
struct live_agent {
    struct projects_entry *project;
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
 * A step: enters the project; if nothing was said yet, waits for the plugins, fires
 * on_session_start and adds what it injects. Maybe before it returns.
 */
void live_start(struct live_work *work, live_next_fn *next);

/* -- scripts, see script.c --------------------------------------------------------------------- */

/* What a work asks the scripts of its session, one event at a time. Embed it, zeroed. */
struct live_scripts {
    struct live_work *work; /* of the start */
    struct projects_settling settling;
    bool leaving;      /* one of them has to be gone first */
    const char *event; /* static */
    struct kg_buf data;
    char *last; /* owned; the script that was asked last; NULL: none yet */
    struct host_call *call;
    /* What came of the event: */
    char *blocked;       /* owned; why the call must not be made; NULL: it may */
    char *cancelled;     /* owned; why the move must not be made; NULL: it may */
    char *patched;       /* owned; where it is to go instead; NULL: where it was to */
    struct kg_buf input; /* other arguments for it; empty: as they were */
    bool stop;           /* the turn ends here */
    bool changed;        /* of a value that they may change: `data` is another */
    /* Of such a one: whether what a script made of it can be used. NULL: it is none. */
    int (*check)(struct live_scripts *scripts, const struct kg_node *value, struct kg_err *err);
    void (*on_told)(struct live_scripts *scripts); /* NULL: the work goes on */
    /* A script asks a question meanwhile; NULL: nobody is told. */
    void (*on_question)(struct live_scripts *scripts, const struct state_question *question);
};
/* Its process for this session; NULL: there is none. */
struct host_process *live_script_process(const struct live_session *live,
                                         const struct host_plugin *script);
/* A step: their processes run, or have failed to. Maybe before it returns. */
void live_scripts_start(struct live_scripts *scripts, struct live_work *work, live_next_fn *next);
/* A step: those that listen hear of it, in turn. Maybe before it returns. */
void live_scripts_tell(struct live_scripts *scripts, const char *event, struct kg_str data,
                       live_next_fn *next);
/* The same with a value that each may change for the next; what `check` refuses is left out. */
void live_scripts_transform(struct live_scripts *scripts, const char *event, struct kg_str data,
                            int (*check)(struct live_scripts *scripts, const struct kg_node *value,
                                         struct kg_err *err),
                            live_next_fn *next);
/*
 * The same beside what the work waits for: on_told comes when all have heard it, never before this
 * returns. False: nobody listens, and it does not come.
 */
bool live_scripts_tell_aside(struct live_scripts *scripts, const char *event, struct kg_str data);
void live_scripts_withdraw(struct live_scripts *scripts); /* on_told does not come */
/* Whether any of them listens. */
bool live_scripts_hear(const struct live_scripts *scripts, const char *event);
/* From then on no process is exchanged for what its file has become, or may be again. */
void live_scripts_in_turn(struct live_session *live, bool in_turn);
void live_scripts_end(struct live_session *live); /* it is closed, and they leave */
void live_scripts_clear(struct live_scripts *scripts);

/* -- what scripts ask for, see script_session.c, script_wishes.c and move.c ---------------------
 */

/* The process that asked, at one of its starts. */
struct live_wisher {
    char *plugin; /* owned */
    uint32_t start;
};
struct live_wisher live_wisher_of(const struct host_script_request *request);
void live_wisher_clear(struct live_wisher *wisher);
/* Whether it is still there, with the file that it had; if not, that is told, of `what`. */
bool live_wisher_stands(const struct live_session *live, const struct live_wisher *wisher,
                        const char *what);

struct live_wanted {
    enum session_act act;
    bool files;
    char *target; /* owned */
    struct live_wisher wisher;
};
void live_wanted_free(struct live_wanted *wanted); /* takes NULL */
/* What scripts may ask of their sessions is served, or is no more. */
void live_serve_scripts(struct sessions *sessions, bool serve);
/*
 * Begins the move that a script asked for, if there is one and no turn runs; else false, and
 * on_done does not come.
 */
bool live_move_wanted(struct live_session *live, struct host_asker *asker,
                      sessions_done_fn *on_done, void *data);
/* The same, where nobody waits for it. */
void live_move_if_wanted(struct live_session *live);

enum live_wish_kind {
    LIVE_WISH_ENTRY,
    LIVE_WISH_LABEL,
    LIVE_WISH_FORK,
    LIVE_WISH_COMPACT,
    LIVE_WISH_MESSAGE,
};
struct live_wish {
    struct live_wish *next;
    enum live_wish_kind kind;
    struct live_wisher wisher;
    char *target;       /* owned; the entry of a label, or of a fork; or NULL */
    struct kg_buf text; /* JSON of an entry and a label; else words */
    bool triggers;      /* a message that begins a turn if none runs */
};
/* Takes the wish, whose wisher is filled in here, and answers the request. */
void live_wish_add(struct host_script_request *request, struct live_session *live,
                   struct live_wish *wish);
void live_wishes_free(struct live_session *live);
/* What waits is done, if no turn runs. */
void live_serve_wishes(struct live_session *live);
/* Whether a message waits that a turn would be begun for. */
bool live_message_waits(const struct live_session *live);
/* The next one, to be said in the turn that runs; both are owned. False: there is none. */
bool live_message_take(struct live_session *live, char **ret_plugin, struct kg_buf *ret_text);
/* After a turn that did not end well they begin no other. */
void live_script_turn_ended(struct live_session *live, bool well);
extern const struct turn_ops live_script_turn_ops; /* of turns that scripts begin */

/* -- tools, see tool.c ------------------------------------------------------------------------- */

/* A call of a tool, embedded in what makes it; it takes the steps of that. */
struct live_tool {
    struct live_work *work; /* the asker is the agent's */
    struct kg_str name; /* "plugin.tool", or as models write it; the caller's until it is done */
    struct kg_str arguments; /* JSON, the same */
    struct kg_id call;       /* its entry */
    /* What came of it. */
    char *plugin;               /* owned: whose tool it is; NULL: nobody's */
    bool calling;               /* the plugin has it */
    bool blocked;               /* the plugin could not be reached */
    bool is_error;              /* and also: unknown tool, bad arguments, the plugin's own error */
    bool names_grant;           /* and the command that would allow it is known */
    struct kg_buf content;      /* of the result's entry, */
    size_t from, length;        /* and where in it the result stands */
    struct session_draft draft; /* the result's */
    void (*on_added)(struct live_work *work);
    /* What the plugin says of it until it answers; NULL: nobody is told. */
    void (*on_progress)(struct live_tool *tool, struct kg_str params);
    /* The plugin asks a question; NULL: nobody is told. */
    void (*on_question)(struct live_tool *tool, const struct state_question *question);
    struct live_sample *samples; /* that the model answers; see sample.c */
    int64_t sample_count;        /* so far */
    live_next_fn *next;
};
void live_tool_clear(struct live_tool *tool);
/* JSON: what the tool said, or of an error a string with words for the model. */
struct kg_str live_tool_result(const struct live_tool *tool);
/*
 * A step, after its call was recorded: calls the tool, and records its result, whatever it is: one
 * belongs to each call. problem_or_null is why it is not called. on_added_or_null as of
 * live_append.
 */
void live_tool_call(struct live_tool *tool, const struct kg_err *problem_or_null,
                    void (*on_added_or_null)(struct live_work *work), live_next_fn *next);

/* A step, in place of that: the call is answered with a JSON value that no plugin gave. */
void live_tool_answer(struct live_tool *tool, struct kg_str json, live_next_fn *next);

/* Who made the call left: the plugin is told, and that is the result. Nothing if it has one. */
void live_tool_cancel(struct live_tool *tool, const struct kg_err *why);

/* -- what plugins want to know, see questions.c and sample.c ------------------------------------
 */

extern const struct host_asked_ops live_asked_ops; /* data is the tool */
/* A question to a person, in the name of a work; told at once, if there is whom to tell. */
typedef void live_question_fn(void *data, const struct state_question *question);
bool live_question_begin(struct live_work *work, struct host_ask *ask,
                         live_question_fn *on_question_or_null, void *data);
void live_question_end(struct live_work *work, const struct host_ask *ask); /* it is withdrawn */
void live_question_write(const struct state_question *row, struct kg_json_writer *json);
bool live_sample_begin(struct live_tool *tool, struct host_ask *ask);
void live_sample_end(struct live_tool *tool, const struct host_ask *ask); /* nobody waits for it */

/* -- files of its folder, see snapshot.c ------------------------------------------------------- */

/* One that is made, or was. Embed it, zeroed. */
struct live_snapshot {
    struct live_work *work;
    enum snapshot_act act;
    const struct live_snapshot *target; /* to compare with, or to restore */
    struct snapshot_run *run;
    live_next_fn *next, *after;
    char **dropped; /* owned list: of which there are too many */
    int64_t most;
    struct kg_id id;
    char *entry, *folder, *way, *tree; /* owned; tree NULL: it was not made */
    int64_t files, bytes;
    struct kg_buf left_out, changes; /* JSON */
    int64_t left_out_count, change_count;
};
void live_snapshot_clear(struct live_snapshot *snapshot);
/* Whether one is to be made before each turn. */
bool live_snapshots_wanted(const struct live_session *live);
/* A step: makes one, or compares, or restores; it is not kept yet. */
void live_snapshot_make(struct live_snapshot *snapshot, struct live_work *work,
                        enum snapshot_act act, const struct live_snapshot *target_or_null,
                        live_next_fn *next);
/* A step: makes one and keeps it; that it cannot be is no error, but told in the log. */
void live_snapshot_take(struct live_snapshot *snapshot, struct live_work *work, live_next_fn *next);
/* On the store's thread: writes it down; finds the newest of an entry, or one by its id. */
int live_snapshot_keep(struct state *state, const char *session,
                       const struct live_snapshot *snapshot, struct kg_err *err);
int live_snapshot_find(struct state *state, const char *session, const char *entry_or_null,
                       const char *id_or_null, struct live_snapshot *ret_found, struct kg_err *err);
/*
 * On the store's thread, before files are written over: the snapshot of what they are is kept, and
 * that this was begun; then that it is over. What was not over when the daemon ended is put back at
 * its next start, see recover.c.
 */
int live_restore_begun(struct state *state, const char *session, const struct live_snapshot *before,
                       struct kg_err *err);
live_run_fn live_restore_ended;
/*
 * A step: after one that failed, and what was done to put files back as they were. It is over,
 * unless the daemon stops: then the next one does it.
 */
void live_restore_failed(struct live_work *work, const struct live_snapshot *before,
                         const struct kg_err *err_or_null, live_next_fn *next);
void live_recover(struct sessions *sessions);
/* Members of an object: what was changed, and what is left out. */
void live_snapshot_put_changes(const struct live_snapshot *snapshot, struct kg_json_writer *json);

/* -- compaction, see compact.c ----------------------------------------------------------------- */

struct live_compact {
    struct host_asker *asker;
    const char *agent;
    const char *trigger;                   /* "manual", "threshold_crossed", ...; static */
    const enum session_strategy *strategy; /* NULL: the agent's */
    const uint32_t *keep_recent;           /* NULL: the agent's */
    const char *prompt;                    /* words for who sums up; NULL: none */
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
/*
 * After a work added to a context, which has so many tokens now: whether it is, or is about to be,
 * compacted, behind the back of who added to it.
 */
bool live_compact_if_full(struct live_work *work, const char *agent, uint64_t tokens);
/* A step: when none of that agent is under way. Maybe before it returns. */
void live_when_compacted(struct live_work *work, const char *agent, live_next_fn *next);
/* An agent whose context is being compacted; NULL: there is none. */
const char *live_compacting(const struct live_session *live);
/* As a JSON object: what the route answers, and what a turn tells. */
void live_compacted_write(const struct live_compacted *compacted, struct kg_json_writer *json);

/* -- the turns that run, see live.c ------------------------------------------------------------ */

/*
 * KG_E_CONFLICT while another runs, unless it is the innermost and this one runs inside of it, for
 * an agent that has no turn. Held until live_run_end. No idle timer goes meanwhile.
 */
int live_run_begin(struct live_session *live, struct live_run *run, struct live_run *outer_or_null,
                   struct kg_err *err);
void live_run_end(struct live_session *live, struct live_run *run);
/* All of them, the innermost first. False: none runs. */
bool live_run_cancel(struct live_session *live, const struct kg_err *why);
/* KG_E_CONFLICT while one runs. */
int live_check_no_run(const struct live_session *live, struct kg_err *err);

/* -- JSON, see json.c -------------------------------------------------------------------------- */

void live_entry_write(const struct session_entry *entry, struct kg_json_writer *json);
/* The entry that a draft became. */
void live_added_write(const struct session_draft *draft, const struct session_added *added,
                      struct kg_json_writer *json);
void live_session_write(const struct sessions *sessions, const struct session *session,
                        const struct session_agents *agents, struct kg_json_writer *json);

/* -- what plugins add to a context, see notes.c ------------------------------------------------ */

/* One text for each of them. */
struct live_note {
    char *plugin;                /* owned */
    struct kg_buf text, content; /* which is JSON */
};
struct live_notes {
    struct live_note *items;      /* owned */
    struct session_draft *drafts; /* owned */
    size_t count;
};
/* Adds what the observers among them say: a second text of a plugin stands behind its first. */
void live_notes_take(struct live_notes *notes, const struct projects_hook_answer *answer);
/* A step: they are appended, as injections that belong to a mark. */
void live_notes_append(struct live_notes *notes, struct live_work *work, const char *mark,
                       live_next_fn *next);
void live_notes_clear(struct live_notes *notes);

/* -- idle, see idle.c -------------------------------------------------------------------------- */

/* Everything dies with the callback. */
typedef void live_idle_fn(void *data, const struct projects_hook_answer *answers, size_t count,
                          const struct kg_err *err_or_null);
/* An error, and on_done is not called; else once, never before this returns. It may be NULL. */
int live_idle(struct live_session *live, const char *reason, struct host_asker *asker,
              live_idle_fn *on_done, void *data, struct kg_err *err);

/* -- summaries that models write, see summary.c ------------------------------------------------ */

struct live_summary {
    struct live_work *work;
    struct kg_buf text;
    /* What the model is asked with, which scripts may change. */
    struct kg_buf messages; /* JSON */
    char *instruction;      /* owned; the system text */
    char *prompt;           /* owned; words of who wanted the compaction; NULL: none */
    struct live_scripts scripts;
    struct kg_buf told; /* to them */
    live_next_fn *next;
};
void live_summary_clear(struct live_summary *summary);
/* A step: what goes is summarized, in `text`. Maybe before it returns. */
void live_summarize(struct live_summary *summary, struct live_work *work,
                    const struct session_compaction *compaction, const char *prompt_or_null,
                    live_next_fn *next);

/* -- operations: what a request asks for, see op.c --------------------------------------------- */

/* Embed it first: the whole is freed with it. */
struct live_op {
    struct live_work work;
    char *session; /* owned: as the request names it */
    sessions_done_fn *on_done;
    void *data;
    struct kg_buf json; /* the answer */
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
/* For a step that has no function of its own here: what to pass as its `next`. */
live_next_fn *live_op_then(struct live_op *op, void (*next)(struct live_op *op));
void live_op_open(struct live_op *op, void (*next)(struct live_op *op));
void live_op_read(struct live_op *op, live_run_fn *run, void (*next)(struct live_op *op));
void live_op_write(struct live_op *op, live_run_fn *run, void (*next)(struct live_op *op));

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

/* What scripts hear of while a model or a tool is at work; see turn_stream.c. */
struct turn_stream {
    struct live_scripts scripts;
    struct kg_id id;                  /* that the entry of the message will have; "": none */
    bool starts, updates, progresses; /* somebody listens */
    bool untold;                      /* that the message began */
    struct kg_buf text, progress;     /* that are to be told, */
    struct kg_id call;                /* the second of that call */
    struct kg_buf told;
    bool busy, awaited;
};

struct turn {
    struct live_work work; /* the asker is the agent's once the session is found */
    struct live_run run;
    const struct turn_ops *ops;
    void *data;
    struct kg_buf said; /* by the user, as content */
    int64_t steps, steps_max;
    struct turn *outer, *inner; /* whose task it is; who works on a task of it; or NULL */
    char *agent;                /* owned, of one inside of another: whose turn; NULL: the seat's */
    struct kg_id call;          /* of the same: by which its task was given */
    int64_t depth;              /* turns around it */
    int64_t spent;              /* steps of those that were inside of it */
    struct kg_buf words;        /* of one inside: what its model said last */
    struct kg_buf answer_json;  /* what the one inside said, for the tool's result, */
    struct kg_err answer_err;   /* or why it said nothing */
    live_next_fn *delegated;
    bool begun;     /* it is a turn of the session */
    bool started;   /* the reader was told so */
    bool cancelled; /* and has not ended yet */
    bool ending;
    struct kg_err why; /* it was cancelled, or failed */
    struct loop_task cancel_task;
    enum turn_stop stop;
    uint64_t began_ms;
    int64_t input_tokens, output_tokens;

    char *prompt; /* owned; NULL: none */
    struct session_conversation conversation;
    struct kg_buf tools;  /* that the model is offered, a JSON list */
    struct kg_buf called; /* one that it called, by its own name */
    enum model_failure failure;
    enum model_stop model_stop;
    struct turn_answer answer;
    size_t next_call; /* the first of the answer's that has no result */
    bool calling;     /* that one */
    struct live_tool tool;
    struct live_scripts scripts;
    struct turn_stream stream;
    struct live_snapshot snapshot; /* of the files before it */
    bool scripted;                 /* scripts hear of it */
    struct kg_buf told;            /* to them */
    struct kg_id message;          /* the last entry of the model's; "": none yet */
    struct {
        int64_t input_tokens, cached_tokens, output_tokens;
    } usage;                 /* of its last answer */
    uint64_t context_tokens; /* of the conversation, as it is sent; estimated */
    struct kg_buf content;   /* of what is appended */
    struct kg_buf mark;      /* that it failed, the same */
    struct session_draft drafts[2 + TURN_CALLS_MAX];
};

/* -- tasks for subagents, see turn_delegate.c -------------------------------------------------- */

/* Whether its model is offered tools that hand work on. */
bool turn_may_delegate(const struct turn *turn);
/* A step, if the call is such a tool's: a turn of the subagent, and the tool's result. Else false.
 */
bool turn_delegate(struct turn *turn, const struct turn_call *call, live_next_fn *next);
/* The one inside ends: what it said is kept for the other. */
void turn_take_answer(struct turn *outer, const struct turn *inner);
/* A turn of that agent inside of another, with turn->data the one around it. */
struct turn *turn_start_inside(struct turn *outer, const char *agent, struct kg_id call,
                               struct kg_str task, int64_t steps, const struct turn_ops *ops);

/* -- what scripts hear of it, see turn_scripts.c: each is a step, maybe before it returns ------ */

void turn_hear_before(struct turn *turn, live_next_fn *next);
void turn_hear_start(struct turn *turn, live_next_fn *next);
void turn_hear_model(struct turn *turn, const char *before, const char *now, live_next_fn *next);
void turn_hear_step(struct turn *turn, live_next_fn *next);
void turn_hear_message(struct turn *turn, const char *event, live_next_fn *next);
void turn_hear_answer(struct turn *turn, const char *event, live_next_fn *next);
void turn_hear_call(struct turn *turn, const struct turn_call *call, live_next_fn *next);
void turn_hear_result(struct turn *turn, const struct turn_call *call, live_next_fn *next);
void turn_hear_end(struct turn *turn, live_next_fn *next);
/* What the model is asked with may be another afterwards; the second is the whole request. */
void turn_hear_context(struct turn *turn, live_next_fn *next);
void turn_take_context(struct turn *turn);
void turn_hear_request(struct turn *turn, const char *model, live_next_fn *next);
void turn_take_request(struct turn *turn);

/* -- and while it is made, see turn_stream.c ----------------------------------------------------
 */

void turn_stream_begin(struct turn *turn); /* the model is asked */
void turn_stream_text(struct turn *turn, struct kg_str text);
void turn_stream_progress(struct turn *turn, struct kg_str params); /* of the tool that is called */
/* A step: all of it was heard. Maybe before it returns. */
void turn_stream_end(struct turn *turn, live_next_fn *next);
void turn_stream_clear(struct turn *turn);

/* -- in the shape that scripts know, see turn_shapes.c ----------------------------------------- */

void turn_shape(struct kg_str neutral, struct kg_json_writer *json);
/* Fails for what no model could be asked with. */
int turn_unshape(const struct kg_node *shaped, struct kg_buf *ret_neutral, struct kg_err *err);

/* -- what the reader is told, see turn_lines.c ------------------------------------------------- */

void turn_tell_start(struct turn *turn);
void turn_tell_text(struct turn *turn, const char *type, struct kg_str text);
void turn_tell_usage(struct turn *turn, const struct model_event *event);
void turn_tell_retry(struct turn *turn, const struct model_event *event);
void turn_tell_call(struct turn *turn, const struct turn_call *call);
void turn_tell_result(struct turn *turn, const struct turn_call *call, bool blocked, bool is_error,
                      struct kg_str result);
void turn_tell_progress(struct turn *turn, const struct turn_call *call, struct kg_str progress);
/* The call is NULL where a script asks before or after all of them. */
void turn_tell_question(struct turn *turn, const struct turn_call *call_or_null,
                        const struct state_question *question);
/* A script says something, as the user. */
void turn_tell_said(struct turn *turn, const char *plugin, struct kg_str text);
void turn_tell_compaction(struct turn *turn, const struct live_compacted *compacted);
/* It has more tokens than the model takes. */
void turn_tell_window(struct turn *turn, uint64_t window_tokens);
void turn_tell_end(struct turn *turn);

#endif
