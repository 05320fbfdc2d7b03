/*
 * Sessions: what was said between an operator, agents, their models and plugins. A session is an
 * append-only list of entries; each agent in it has a context, which is what its model would be
 * sent. Compaction rewrites a context and deletes nothing, so it can be undone.
 *
 * Three parts, from the bottom:
 *   functions on a handle of kaged.db, for the thread that owns it      (log.c, read.c, fork.c,
 * ...) a store that runs such functions on threads of its own              (store.c) pure functions
 * over entries: contexts, compaction, hooks' payloads  (the rest)
 */
#ifndef KAGED_SESSION_H
#define KAGED_SESSION_H

#include "base/json/json.h"
#include "loop/loop.h"
#include "state/sessions.h"

#define SESSION_CONTENT_MAX   4194304  /* bytes of one entry: what fits into a line of the wire */
#define SESSION_DEPTH_MAX     128      /* of content: it is sent inside other JSON */
#define SESSION_AGENT_MAX     512      /* bytes of an agent's path */
#define SESSION_SOURCE_MAX    64       /* of a plugin's name */
#define SESSION_WORKDIR_MAX   4096     /* bytes */
#define SESSION_WORD_MAX      128      /* bytes of a project's or an operator's id */
#define SESSION_TITLE_MAX     1024     /* bytes that a title is given with */
#define SESSION_ENTRIES_MAX   16777216 /* in one session */
#define SESSION_APPEND_MAX    256      /* entries at once */
#define SESSION_PAGE_ENTRIES  200      /* entries in one page, at most */
#define SESSION_PAGE_BYTES    4194304  /* of their content, but for a first one that is larger */
#define SESSION_PAGE_SESSIONS 100      /* sessions in one page, at most */
#define SESSION_CONTEXT_MAX   67108864 /* bytes of content in a context that can be read whole */
#define SESSION_NEW_MAX       256      /* messages that a compactor may add */
#define SESSION_SUMMARY_MAX   65536    /* bytes of a compaction's summary */
#define SESSION_PAYLOAD_MAX   4128768  /* bytes of a hook's: a line of 4 MiB less 64 KiB */

/* -- kinds and roles --------------------------------------------------------------------------- */

enum session_role {
    SESSION_SYSTEM,
    SESSION_USER,
    SESSION_ASSISTANT,
    SESSION_TOOL,
    SESSION_ROLE_COUNT
};
extern const char *const session_role_names[SESSION_ROLE_COUNT];

enum session_kind {
    SESSION_MESSAGE,
    SESSION_TOOL_CALL,
    SESSION_TOOL_RESULT,
    SESSION_INJECTION,
    SESSION_SUMMARY,
    SESSION_COMPACTION,
    SESSION_CHECKPOINT,
    SESSION_UNDO,
    SESSION_EVENT,
    SESSION_KIND_COUNT
};
/* One row is the whole truth about a kind. */
struct session_kind_row {
    const char *name;
    const char *meaning;
    unsigned roles;  /* bits 1 << enum session_role */
    bool in_context; /* whether a model sees it */
    bool is_mark;    /* of a compaction: others have it as parent and fall with it */
    bool appendable; /* by session_append; the others are made by compactions */
};
const struct session_kind_row *session_kind_row(enum session_kind kind);
/* False: no such name. */
bool session_kind_find(struct kg_str name, enum session_kind *ret_kind);
bool session_role_find(struct kg_str name, enum session_role *ret_role);
/* "primary", "primary.subagents.NAME", ... */
bool session_agent_is_valid(struct kg_str path);

/* -- sessions ---------------------------------------------------------------------------------- */

enum session_state {
    SESSION_ACTIVE,
    SESSION_IDLE,
    SESSION_STOPPED, /* a checkpoint waits for the operator: nothing new is said meanwhile */
    SESSION_CLOSED,
    SESSION_STATE_COUNT
};
extern const char *const session_state_names[SESSION_STATE_COUNT];
bool session_state_find(struct kg_str name, enum session_state *ret_state);

/* Texts are owned. */
struct session {
    int64_t number;  /* kaged.db's name for it */
    struct kg_id id; /* "ses_..." */
    char *project_id, *workdir, *operator_id;
    char *seat;  /* the agent that is spoken to */
    char *title; /* as it was given, or the first words of a user; NULL: neither */
    enum session_state state;
    int64_t created_ms, updated_ms;
    struct kg_id parent, parent_entry; /* of a fork; else "" */
    struct kg_id branch;               /* "br_...": what it stands on */
    struct kg_id left_by;              /* the session that stood on it before; "": it is in use */
    uint64_t entries;
};
void session_clear(struct session *session); /* also for kg_auto; frees texts, leaves zeros */

struct session_list {
    struct session *items; /* owned, the newest first */
    size_t count;
    bool more; /* there are older ones */
};
void session_list_clear(struct session_list *list); /* also for kg_auto */

/* -- entries ----------------------------------------------------------------------------------- */

/* Texts live in the arena of the list that it is in. */
struct session_entry {
    struct kg_id id;
    uint64_t seq; /* 1, 2, 3, ... within the session */
    enum session_kind kind;
    enum session_role role;
    const char *agent;
    const char *source; /* the plugin whose text it is; NULL: none */
    /* Of a result its call, of a task the call that gave it, of what a compaction made its mark;
     * else "". */
    struct kg_id parent;
    uint64_t superseded; /* the seq of the mark that left it out; 0: it stands */
    bool pinned;
    int64_t created_ms;
    int64_t rank;    /* the order in a context */
    uint64_t tokens; /* estimated; 0: never in a context */
    size_t bytes;    /* of its content */
    int64_t content_number;
    struct kg_str content; /* JSON as it was received; data NULL: not read */
};
struct session_entries {
    struct session_entry *items; /* owned */
    size_t count, capacity;
    struct kg_arena *arena; /* owned; NULL while empty */
    bool more;              /* the page was full */
};
void session_entries_clear(struct session_entries *entries); /* also for kg_auto */
/* Adds a copy. */
void session_entries_add(struct session_entries *entries, const struct session_entry *entry);

/* -- tokens ------------------------------------------------------------------------------------ */

/*
 * An estimate without a tokenizer that errs upward; tokens.c says how. `source` as in an entry.
 */
uint64_t session_tokens(struct kg_str content, const char *source);

/* -- on a handle of kaged.db ------------------------------------------------------------------- */

/*
 * Each belongs inside a transaction: those of the store are. They check all that they are given;
 * after an error the transaction, or the part of it since the last STATE_SAVE, is to be taken back.
 */

struct session_new {
    const char *project_id, *workdir, *operator_id;
    const char *seat;  /* NULL: the primary */
    const char *title; /* NULL: its first words, once they are said */
};
int session_create(struct state *state, const struct session_new *new, struct session *ret_session,
                   struct kg_err *err);
/*
 * By its id or a prefix that only one has; "ses_" may be left out, letters may be small. "@last" is
 * the newest.
 */
int session_find(struct state *state, struct kg_str id, struct session *ret_session,
                 struct kg_err *err);

struct session_list_query {
    const char *project_id;          /* NULL: of all */
    const char *operator_id;         /* of a project's: only his; NULL: anybody's */
    const enum session_state *state; /* NULL: in any */
    const char *before;              /* an id: only older ones; NULL: from the newest */
    size_t limit;                    /* 0 or too large: SESSION_PAGE_SESSIONS */
};
int session_list(struct state *state, const struct session_list_query *query,
                 struct session_list *ret_list, struct kg_err *err);

/* Not while closed. The entry of kind event says who it was before. */
int session_move_seat(struct state *state, const char *id, const char *seat, struct kg_err *err);
/* A closed session takes nothing new until it is active again. */
int session_set_state(struct state *state, const char *id, enum session_state new_state,
                      struct kg_err *err);

struct session_draft {
    const char *agent;
    enum session_kind kind;
    enum session_role role;
    const char *source; /* the plugin whose text it is; NULL: none */
    /* Of a tool_result: the call; of an injection: a mark, or NULL; of a user's message that is a
     * task for a subagent: the call that gave it, or NULL. */
    const char *parent;
    struct kg_str content; /* JSON */
    bool first;            /* before all that the agent's context has, not behind it */
    const char *id;        /* that it gets, unless a later one was given meanwhile; NULL: any */
};
/* Whether it may be written: of its kind and role, and not too large. */
int session_check_draft(const struct session_draft *draft, struct kg_err *err);
struct session_added {
    struct kg_id id;
    uint64_t seq, tokens;
    int64_t created_ms;
    uint64_t context_tokens; /* of the agent, now */
};
/*
 * All or none. An idle session is active afterwards; a stopped one takes only what belongs to
 * something begun before, a closed one only results of calls. ret_added has room for count.
 */
int session_append(struct state *state, const char *id, const struct session_draft *drafts,
                   size_t count, struct session_added *ret_added, struct kg_err *err);
int session_pin(struct state *state, const char *id, struct kg_str entry, bool pinned,
                struct kg_err *err);

struct session_page_query {
    const char *agent; /* NULL: of all */
    uint64_t after;    /* only entries with a larger seq */
    size_t limit;      /* 0 or too large: SESSION_PAGE_ENTRIES */
};
/* In the order they came, superseded ones too. */
int session_page(struct state *state, const char *id, const struct session_page_query *query,
                 struct session_entries *ret_entries, struct kg_err *err);
/* One entry, by its id or a prefix that only one has. */
int session_entry_find(struct state *state, const char *id, struct kg_str entry,
                       struct session_entries *ret_entries, struct kg_err *err);

/* What stands of an agent, in the order of its context. A context past SESSION_CONTEXT_MAX fails.
 */
int session_context_read(struct state *state, const char *id, const char *agent,
                         struct session_entries *ret_entries, struct kg_err *err);

struct session_agent {
    char *path; /* owned */
    uint64_t entries, tokens;
};
struct session_agents {
    struct session_agent *items; /* owned */
    size_t count;
};
void session_agents_clear(struct session_agents *agents); /* also for kg_auto */
int session_agents_read(struct state *state, const char *id, struct session_agents *ret_agents,
                        struct kg_err *err);
/* What stands in the context of one, and how often it was rewritten; the last may be NULL. */
int session_agent_tokens(struct state *state, const struct session *session, const char *agent,
                         uint64_t *ret_tokens, uint64_t *ret_generation, struct kg_err *err);

/*
 * The newest messages, calls and results of an agent with a seq past `after`, as many as a payload
 * of max_bytes can hold; *ret_left: how many older ones there are.
 */
int session_transcript_read(struct state *state, const char *id, const char *agent, uint64_t after,
                            size_t max_bytes, struct session_entries *ret_entries,
                            uint64_t *ret_left, struct kg_err *err);

/*
 * A new session with all up to and with an entry, in the state that it was in then; an undone
 * compaction stays undone. At a mark: all before that compaction. What a compaction made is no
 * place to fork at. Without an entry (empty): with all that there is.
 */
int session_fork(struct state *state, const char *id, struct kg_str entry, const char *operator_id,
                 struct session *ret_session, struct kg_err *err);

/* -- branches ---------------------------------------------------------------------------------- */

/*
 * A session stands on a branch, and can move to another: its id stays, what was said is that of the
 * branch. The branch that it leaves is a closed session with an id of its own, from which nothing
 * is lost; who resumes that makes it a session like any other.
 */
enum session_act {
    SESSION_MOVE_UNDO,   /* to before the user's last message */
    SESSION_MOVE_REDO,   /* to the branch that the last undo or rewind left */
    SESSION_MOVE_REWIND, /* to an entry */
    SESSION_MOVE_FORK,   /* the same, by a script */
    SESSION_MOVE_SWITCH, /* to a branch that it left, or to a copy of another session */
    SESSION_ACT_COUNT
};
extern const char *const session_act_names[SESSION_ACT_COUNT];

/* What a move would do; texts are owned. */
struct session_move {
    enum session_act act;
    struct kg_id from, to; /* branches; `to` of one that is to be made: "" before it is */
    uint64_t cut, entries; /* how many the new branch has of those that are there */
    struct kg_id entry;    /* the last one of those */
    struct kg_id next;     /* the one behind it; "": there is none */
    char *said;            /* the first words of the user that go; NULL: none do */
    int64_t takes_back;    /* the move that a redo takes back, */
    struct kg_id snapshot; /* and the files before that; "": it left them alone */
    struct kg_id source;   /* of a switch: the session that is copied; "": none is */
    int64_t redoable;      /* moves that can be taken back, before this one */
};
void session_move_clear(struct session_move *move); /* also for kg_auto */
/*
 * target: an entry, or "" for the last one, of rewind and fork; a branch or a session of the same
 * project, of switch. KG_E_CONFLICT: there is nothing to undo, to redo, or it stands there already.
 */
int session_move_plan(struct state *state, const char *id, enum session_act act,
                      struct kg_str target, struct session_move *ret_move, struct kg_err *err);
/*
 * KG_E_CONFLICT if something was said since it was planned. `to` is there afterwards. `snapshot`
 * has the files as they were before, or is NULL.
 */
int session_move_apply(struct state *state, const char *id, struct session_move *move,
                       const char *snapshot_or_null, struct session *ret_session,
                       struct kg_err *err);

/* -- the store: the above on threads of its own ------------------------------------------------ */

/*
 * Writers run one after the other on one thread, many in one transaction; who fails takes back only
 * what it did itself. `done` comes after the commit: what it was told survives a crash. Readers run
 * on another thread, each on the state of one moment; they see what was told to be done before.
 */
struct session_store;
struct session_store *session_store_new(struct loop *loop, const char *place, struct kg_err *err);
/* Finishes what was submitted; `done` of the last jobs runs before it returns. */
void session_store_free(struct session_store *store);

/* Embed one in what a job needs; it is the store's until `done`. */
struct session_job {
    int (*run)(struct session_job *job, struct state *state, struct kg_err *err);
    /* On the loop. err_or_null says why run or the commit failed. */
    void (*done)(struct session_job *job, const struct kg_err *err_or_null);
    bool once; /* it reads, and asks the database for one thing, which sees one moment anyway */
    /* the store's */
    struct session_job *next;
    int result;
    struct kg_err err;
};
void session_store_write(struct session_store *store, struct session_job *job);
void session_store_read(struct session_store *store, struct session_job *job);
/* Jobs that are not done: who takes requests from outside refuses them past SESSION_QUEUE_MAX. */
#define SESSION_QUEUE_MAX 1024
size_t session_store_queued(const struct session_store *store);

/* -- plugins' text in a context ---------------------------------------------------------------- */

/*
 * <plugin:NAME>, a newline, the text, a newline, </plugin:NAME>. Nothing in the text can be read as
 * such a delimiter, but pairs of the plugin's own: wrap.c says how.
 */
void session_wrap(const char *plugin, struct kg_str text, struct kg_buf *buf);
/* Text that must not look like it came with a delimiter. */
void session_defuse(struct kg_str text, struct kg_buf *buf);
/* The same for each string of valid JSON; all else stays as it is. */
void session_defuse_json(struct kg_str json, struct kg_buf *buf);

/* -- contexts ---------------------------------------------------------------------------------- */

/*
 * A message, as models' adapters and plugins get it:
 *   {"id", "role", "kind", "parent", "plugin", "pinned", "content"}
 * kind is left out for a message, parent and plugin where there is none, pinned unless it is true.
 */
void session_message_write(const struct session_entry *entry, struct kg_json_writer *writer);
/* What follows `from` is JSON, which has no newline in it afterwards. */
void session_join_lines(struct kg_buf *buf, size_t from);

struct session_context_sums {
    size_t messages;
    uint64_t tokens;
    size_t
        unanswered; /* calls without a result, which are left out, as a model would refuse them */
};
/*
 * {"agent_path", "tokens", "messages": [...]} of entries in the order of a context. Left out:
 * superseded ones, marks, calls without result, results without call.
 */
void session_context_write(const char *agent, const struct session_entries *entries,
                           struct kg_buf *buf, struct session_context_sums *ret_sums);
/*
 * {"transcript": [...], "truncated": N}, the parameters of on_session_idle. The oldest that do not
 * fit into max_bytes are left out; truncated counts them and `left`, and is there if it is not 0.
 */
void session_transcript_write(const struct session_entries *entries, uint64_t left,
                              size_t max_bytes, struct kg_buf *buf);

/* -- compaction -------------------------------------------------------------------------------- */

enum session_strategy {
    SESSION_BY_DROP,       /* the oldest go until the target is reached */
    SESSION_BY_SUMMARY,    /* the same, and a summary takes their place */
    SESSION_BY_DELEGATE,   /* a plugin says what stays */
    SESSION_BY_CHECKPOINT, /* nothing goes; the operator has to say how it goes on */
    SESSION_STRATEGY_COUNT
};
extern const char *const session_strategy_names[SESSION_STRATEGY_COUNT];
bool session_strategy_find(struct kg_str name, enum session_strategy *ret_strategy);

/* Whether a context fills so much of the window that it is to be compacted. */
bool session_over_threshold(uint64_t tokens, uint64_t window_tokens, double threshold);
/* Down to where: half of the threshold, so that the next one is not due at once. */
uint64_t session_target_tokens(uint64_t window_tokens, double threshold);

struct session_compaction_options {
    enum session_strategy strategy;
    const char *trigger;    /* "threshold_crossed", "manual", ... */
    uint32_t keep_recent;   /* turns: a user's message and what follows it */
    uint64_t target_tokens; /* 0: all that may go goes */
};

/* What stands before, what is planned, and what came of it. */
struct session_compaction;
/*
 * Reads what a compaction needs: all entries of the context, and the content of the newest, as much
 * as one payload can hold. Then plans. KG_E_CONFLICT if there is nothing that may go.
 */
int session_compaction_read(struct state *state, const char *id, const char *agent,
                            const struct session_compaction_options *options,
                            struct session_compaction **ret_compaction, struct kg_err *err);
/* The same of entries that are at hand; takes them over. */
int session_compaction_new(struct session_entries *entries,
                           const struct session_compaction_options *options,
                           struct session_compaction **ret_compaction, struct kg_err *err);
void session_compaction_free(struct session_compaction *compaction);
void session_compaction_cleanup(struct session_compaction **compaction); /* for kg_auto */

struct session_compaction_sums {
    size_t superseded, kept, added;       /* messages */
    uint64_t tokens_before, tokens_after; /* estimated */
    uint64_t target_tokens;
};
struct session_compaction_sums session_compaction_sums(const struct session_compaction *compaction);
/* The i-th entry of the context, whether it must stay, and whether it is to go. */
size_t session_compaction_count(const struct session_compaction *compaction);
const struct session_entry *session_compaction_entry(const struct session_compaction *compaction,
                                                     size_t at, bool *ret_must_stay,
                                                     bool *ret_goes);

/*
 * Parameters of kaged.hook.pre_compact before, of post_compact after session_compaction_apply:
 *   {"role", "messages_being_compacted", "messages_remaining", "strategy", "trigger", "truncated"}
 * Each message also has its "position" in the context. The oldest that do not fit into max_bytes
 * are left out and counted in truncated, which is there only then: a compactor is not asked then,
 * since it would have to answer for what it was not told. `role` is the plugin's.
 */
void session_compaction_payload(const struct session_compaction *compaction, const char *role,
                                size_t max_bytes, struct kg_buf *buf, size_t *ret_truncated);

/* What a model wrote, in place of what goes. Only before apply. */
void session_compaction_set_summary(struct session_compaction *compaction, struct kg_str text);
/* What a compactor said of what it did; NULL: nothing. */
const char *session_compaction_summary(const struct session_compaction *compaction);

enum session_fault {
    SESSION_FAULT_NONE,
    SESSION_FAULT_INVALID, /* it is no CompactorResult, or one that contradicts itself */
    SESSION_FAULT_DROPPED_ALWAYS_KEEP, /* it leaves out what has to stay */
};
extern const char *const session_fault_names[]; /* for the audit log */
/*
 * Checks what the designated compactor returned, and plans that instead. On failure the plan is as
 * it was, err tells the plugin's author what is wrong, and the caller falls back.
 */
int session_compaction_take_result(struct session_compaction *compaction, const char *plugin,
                                   struct kg_str result, enum session_fault *ret_fault,
                                   struct kg_err *err);
/* Plans to drop instead; `reason` is kept in the mark. */
void session_compaction_fall_back(struct session_compaction *compaction, const char *reason);

/*
 * Writes the plan: a mark, what is new, and what it supersedes. KG_E_CONFLICT if the context was
 * rewritten, or something that goes was pinned, since the plan was made: plan again.
 */
int session_compaction_apply(struct state *state, struct session_compaction *compaction,
                             struct session_added *ret_mark, struct kg_err *err);
/*
 * The strategy checkpoint, which is no plan: a mark, and the session is stopped until it is resumed
 * or compacted. With `once`: not if there was one since the last compaction; *ret_marked tells.
 */
int session_checkpoint(struct state *state, const char *id, const char *agent, const char *trigger,
                       bool once, struct session_added *ret_mark, bool *ret_marked,
                       struct kg_err *err);
/*
 * The agent's latest compaction is taken back; KG_E_CONFLICT if there is none. After a checkpoint
 * the session goes on.
 */
int session_compaction_undo(struct state *state, const char *id, const char *agent,
                            struct kg_id *ret_mark, struct kg_err *err);

/* -- what a model is told ---------------------------------------------------------------------- */

/* Made of entries: pure, and the only place that knows both forms. */

struct session_conversation {
    struct kg_buf system;   /* text */
    struct kg_buf messages; /* a JSON array in the neutral form of model.h */
};
void session_conversation_clear(struct session_conversation *conversation); /* also for kg_auto */

/*
 * Of the entries of a context in its order. The system text is what plugins injected at the
 * start, the prompt, and other system entries that stand before all else; later ones stay in their
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
