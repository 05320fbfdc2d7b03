/*
 * The sessions of a daemon, as routes use them: each operation takes what a request said, does it,
 * and answers once with JSON. All that is slow happens off the loop; what plugins and models return
 * was checked before it is here.
 */
#ifndef KAGED_LIVE_H
#define KAGED_LIVE_H

#include "projects/projects.h"
#include "session/session.h"

struct sessions;

struct sessions_parts {
    struct loop *loop;
    struct host *host;    /* borrowed; it outlives the sessions */
    const char *state_db; /* kaged.db */
};
struct sessions *sessions_new(const struct sessions_parts *parts, struct kg_err *err);
/* Takes no new operation and ends what is under way: whoever waits hears KG_E_STOPPING. */
void sessions_stop(struct sessions *sessions);
/* Once, when the processes that ask models are gone, and what was under way is written: maybe
 * before it returns. After the stop. */
void sessions_when_stopped(struct sessions *sessions, void (*on_stopped)(void *data), void *data);
/* Stops, and finishes what was written. Before the host is freed. Takes NULL. */
void sessions_free(struct sessions *sessions);

/* Sessions of the project are forgotten here, and turns of them end: they may go on elsewhere. */
void sessions_let_go(struct sessions *sessions, const char *project,
                     const struct kg_err *why_or_null);

/* A model that is not in local.toml, for who may know the alias; see models_bring. */
void sessions_bring_model(struct sessions *sessions, const char *alias, struct local *own_or_null);

/*
 * Exactly once, never before the operation returns. The JSON dies with the callback. Who asked may
 * have left by then: what was begun is finished.
 */
typedef void sessions_done_fn(void *data, struct kg_str json, const struct kg_err *err_or_null);

/* What is asked by whom, and who is told. Texts are borrowed for the call, as are all that follow.
 */
struct sessions_request {
    struct host_asker *asker;
    struct kg_str
        session; /* an id, a prefix that only one has, or @last; of create and list: empty */
    sessions_done_fn *on_done;
    void *data;
};

/*
 * Session:
 * {"id","branch","left_by","project_id","workdir","title","seat","state","operator_id","created_at","updated_at",
 *           "parent","parent_entry","entries","running",
 *           "agents":[{"path","entries","tokens","window_tokens","threshold"}]}
 * The last two of an agent are null while its project is not loaded.
 * Entry: {"id","seq","agent","kind","role","plugin","parent","superseded","pinned","created_at",
 *         "tokens","content"}
 */

struct sessions_wanted {
    struct kg_str project_id;
    struct kg_str workdir, seat, title; /* data NULL: the root, the primary, its first words */
};
/* -> Session */
void sessions_create(struct sessions *sessions, const struct sessions_request *request,
                     const struct sessions_wanted *wanted);

struct sessions_list_query {
    struct kg_str project_id, state, before; /* data NULL: any */
    struct kg_str operator_id;               /* of a project's: only his; data NULL: anybody's */
    size_t limit;                            /* 0: as many as a page holds */
};
/* The id of its project, as the text of the answer; KG_E_NOT_FOUND: there is no such session. */
void sessions_project(struct sessions *sessions, const struct sessions_request *request);
/* {"sessions":[Session],"more"} */
void sessions_list(struct sessions *sessions, const struct sessions_request *request,
                   const struct sessions_list_query *query);
/* Session */
void sessions_show(struct sessions *sessions, const struct sessions_request *request);
/* Session; a turn that runs is ended */
void sessions_close(struct sessions *sessions, const struct sessions_request *request);

/* {"entries":[Entry],"more"} */
void sessions_entries(struct sessions *sessions, const struct sessions_request *request,
                      struct kg_str agent, uint64_t after, size_t limit);
/*
 * {"agent_path","model","window_tokens","tokens","system","messages":[...],"tools":[...]}; tools
 * only if `dialect`, "openai" or "anthropic", is given. Waits for a compaction under way.
 */
void sessions_context(struct sessions *sessions, const struct sessions_request *request,
                      struct kg_str agent, struct kg_str dialect);
/* {"agent"?,"messages":[{"role","content","kind"?,"parent"?}]}, checked to be of that shape ->
 * {"added":[{"id","seq"}],"context_tokens","compacting"} */
void sessions_append(struct sessions *sessions, const struct sessions_request *request,
                     struct kg_str body);
/* arguments -> {"tool","plugin","call":Entry,"entry":Entry,"blocked","is_error","result"} */
struct sessions_use;
struct sessions_use *sessions_tool(struct sessions *sessions,
                                   const struct sessions_request *request, struct kg_str agent,
                                   struct kg_str tool, struct kg_str arguments);
/* Who asked left, before on_done: the tool's work ends, and that is its result, which is recorded.
 */
void sessions_tool_cancel(struct sessions_use *use);
/* {"hooks":[{"plugin","ok","error"?}]} */
void sessions_idle(struct sessions *sessions, const struct sessions_request *request);
struct sessions_compaction {
    struct kg_str agent;    /* data NULL: the one that is spoken to */
    struct kg_str strategy; /* data NULL: as the project has it */
    int64_t keep_recent;    /* turns; negative: the same */
};
/*
 * {"mark","agent","strategy","fell_back","superseded","kept","added","tokens_before",
 *  "tokens_after","state"}; fell_back is null, or why it was dropped instead
 */
void sessions_compact(struct sessions *sessions, const struct sessions_request *request,
                      const struct sessions_compaction *wanted);
/* Of the agent that is spoken to unless one is named -> {"mark","agent","tokens","state"} */
void sessions_undo(struct sessions *sessions, const struct sessions_request *request,
                   struct kg_str agent);
/* -> Entry */
void sessions_pin(struct sessions *sessions, const struct sessions_request *request,
                  struct kg_str entry, bool pinned);
/* At the last entry unless one is named -> Session, the new one */
void sessions_fork(struct sessions *sessions, const struct sessions_request *request,
                   struct kg_str entry);
struct sessions_movement {
    enum session_act act;
    struct kg_str target;   /* the entry of a rewind; else empty */
    bool dry_run;           /* only tells what it would do */
    bool conversation_only; /* files stay as they are */
};
/*
 * To another branch -> {"session_id","act","applied","from","to","entry","entries_before",
 * "entries_after","said","files"}; files is null, or {"snapshot","changes":[{"path","change"}],
 * "change_count","left_out":[{"path","why"}],"left_out_count"}; KG_E_CONFLICT while a turn runs, or
 * if there is nothing to undo or redo; KG_E_REFUSED if a script forbids it
 */
void sessions_move(struct sessions *sessions, const struct sessions_request *request,
                   const struct sessions_movement *wanted);
/* The files of its folder are kept -> {"id","files","bytes","left_out","left_out_count"} */
void sessions_snapshot(struct sessions *sessions, const struct sessions_request *request);
/*
 * They become those of a snapshot -> {"before","changes","change_count","left_out",
 * "left_out_count"}; before is the snapshot of what they were. KG_E_CONFLICT while a turn runs
 */
void sessions_restore(struct sessions *sessions, const struct sessions_request *request,
                      struct kg_str id, bool dry_run);
/* With the same seat unless one is named -> Session; KG_E_CONFLICT while a turn runs */
void sessions_resume(struct sessions *sessions, const struct sessions_request *request,
                     struct kg_str seat);

/* -- questions of plugins ---------------------------------------------------------------------- */

/*
 * Question: {"id","session_id","agent","plugin","kind","title","schema","url","state",
 *            "answered_by","asked_at","deadline_at","ended_at"}
 */

/* Those that wait for an answer, or also the last of those that do not -> {"questions":[Question]}
 */
void sessions_questions(struct sessions *sessions, const struct sessions_request *request,
                        bool all);
/* Those of all sessions that wait -> the same */
void sessions_open_questions(const struct sessions *sessions, struct kg_buf *out);
/* {"action":"accept|decline|cancel","content"?} -> {"id","state"}; KG_E_INVALID_PARAMS if it does
 * not fit the question's schema */
void sessions_answer(struct sessions *sessions, const struct sessions_request *request,
                     struct kg_str id, struct kg_str answer);

/* -- turns ------------------------------------------------------------------------------------- */

/*
 * A turn: the user says something, and the agent's model answers, calling tools in between, until
 * it has said what it had to say. One at a time in a session.
 */

struct turn_ops {
    /* It did not begin: nothing was told, and nothing follows. */
    void (*on_refused)(void *data, const struct kg_err *err);
    /* The next of its events: a JSON object and a newline, which die with the callback. */
    void (*on_line)(void *data, struct kg_str line);
    void (*on_end)(void *data); /* after the last line; the turn is gone */
};

struct turn;
/*
 * The model is asked at most `steps` times; sessions.steps_max is the most in any case. NULL if it
 * cannot begin; else exactly one of on_refused and on_end comes, and nothing before this returns.
 * Of the request on_done and data are not looked at.
 */
struct turn *turn_start(struct sessions *sessions, const struct sessions_request *request,
                        struct kg_str text, int64_t steps, const struct turn_ops *ops, void *data,
                        struct kg_err *err);
/* It ends soon; with KG_OK in `why` nobody is told a reason. */
void turn_cancel(struct turn *turn, const struct kg_err *why);

/* -- commands of scripts ----------------------------------------------------------------------- */

/* {"commands":[{"name","description","aliases","plugin"}]}; its scripts are started for that */
void sessions_commands(struct sessions *sessions, const struct sessions_request *request);

struct command;
/* As a turn: {"type":"notice","plugin","level","text"} as they come,
 * {"type":"moved","plugin","move"} if it moved the session, as sessions_move tells it, and at last
 * {"type":"result","command","plugin","is_error","text","structured"?} */
struct command *command_start(struct sessions *sessions, const struct sessions_request *request,
                              struct kg_str name, struct kg_str args, const struct turn_ops *ops,
                              void *data, struct kg_err *err);
void command_cancel(struct command *command, const struct kg_err *why);

/* The turn that runs in a session, if any -> {"cancelled"} */
void sessions_cancel(struct sessions *sessions, const struct sessions_request *request);

#endif
