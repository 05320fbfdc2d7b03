/*
 * Sessions in kaged.db: rows, their order, and transactions around several of them. What the rows
 * mean is known to src/session alone. Texts that a visitor sees die with the callback.
 */
#ifndef KAGED_STATE_SESSIONS_H
#define KAGED_STATE_SESSIONS_H

#include "state/state.h"

/* -- transactions ------------------------------------------------------------------------------ */

enum state_step {
    STATE_BEGIN_WRITE, /* waits for other writers */
    STATE_BEGIN_ALONE, /* the same, and for those of other nodes that begin so */
    STATE_BEGIN_READ,  /* all that follows sees one moment */
    STATE_COMMIT,
    STATE_ROLLBACK,
    STATE_SAVE,   /* marks a place inside a transaction, */
    STATE_RETURN, /* takes back what was done since, */
    STATE_FORGET,
    /* or keeps it; both forget the place */
    STATE_SYNC_EACH,  /* what is committed from now on is on the disk by then, */
    STATE_SYNC_LATER, /* or as before; both outside of transactions */
};
int state_step(struct state *state, enum state_step step, struct kg_err *err);
/*
 * All that follows in the transaction is done for that org: what is another's is not there,
 * whatever is asked for, and what is no org's is refused. kaged.db does not tell them apart. The
 * text is borrowed until the transaction ends.
 */
void state_scope(struct state *state, const char *org);
/* An error may have ended a transaction on its own. */
bool state_in_transaction(struct state *state);

/* -- sessions ---------------------------------------------------------------------------------- */

struct state_session {
    int64_t number; /* the database's own name for it */
    const char *id, *project_id, *workdir, *seat, *state, *operator_id;
    const char *title;                 /* NULL: none yet */
    const char *parent, *parent_entry; /* NULL: no fork */
    const char *branch;                /* names the row for good */
    const char *left_by;               /* the conversation that left it; NULL: none */
    int64_t created_ms, updated_ms;
    int64_t entries;
};
typedef void state_session_fn(void *data, const struct state_session *session);

int state_session_add(struct state *state, const struct state_session *session, int64_t *ret_number,
                      struct kg_err *err);
/* Writes seat, title, state, updated_ms and entries of the session with that number. */
int state_session_set(struct state *state, const struct state_session *session, struct kg_err *err);
/* Visits the one with that id, or none. */
int state_session_get(struct state *state, const char *id, state_session_fn *visit, void *data,
                      struct kg_err *err);

/* Writes id, left_by and state of the session with that number. */
int state_session_rename(struct state *state, const struct state_session *session,
                         struct kg_err *err);
/* Visits the one of that branch, or none. */
int state_session_of_branch(struct state *state, const char *branch, state_session_fn *visit,
                            void *data, struct kg_err *err);

struct state_session_query {
    const char *project_id;   /* NULL: of any */
    const char *operator_id;  /* of a project's: only his; NULL: anybody's */
    const char *state;        /* NULL: in any */
    bool left;                /* those that a conversation left, too */
    const char *first, *past; /* ids from `first` up to, not with, `past` */
    int64_t limit;
};
/* The newest first. */
int state_sessions(struct state *state, const struct state_session_query *query,
                   state_session_fn *visit, void *data, struct kg_err *err);
/* Copies entries up to the seq `cut` and the agents' sums; what came later supersedes nothing. */
int state_session_copy(struct state *state, int64_t from, int64_t to, int64_t cut,
                       struct kg_err *err);

/* The contexts of `to` are others than any that was read of `from`. */
int state_session_rewritten(struct state *state, int64_t from, int64_t to, struct kg_err *err);

/* -- moves of conversations from branch to branch ---------------------------------------------- */

struct state_move {
    int64_t number;
    const char *session, *act, *from_branch, *to_branch;
    const char *entry, *snapshot; /* NULL: none */
    int64_t at_ms;
};
typedef void state_move_fn(void *data, const struct state_move *move);

int state_move_add(struct state *state, const struct state_move *move, struct kg_err *err);
int state_move_redone(struct state *state, int64_t number, struct kg_err *err);
/* Visits the latest that can be redone, or none; *ret_count: how many can. */
int state_move_last(struct state *state, const char *session, state_move_fn *visit, void *data,
                    int64_t *ret_count, struct kg_err *err);

/* -- snapshots of their files ------------------------------------------------------------------ */

struct state_snapshot {
    const char *id, *session, *entry, *folder, *way, *tree, *left_out;
    int64_t files, bytes, at_ms;
};
typedef void state_snapshot_fn(void *data, const struct state_snapshot *snapshot);

int state_snapshot_add(struct state *state, const struct state_snapshot *snapshot,
                       struct kg_err *err);
int state_snapshot_remove(struct state *state, const char *id, struct kg_err *err);
struct state_snapshot_query {
    const char *session;
    const char *entry, *id; /* NULL: any */
    int64_t limit;
};
/* The newest first. */
int state_snapshots(struct state *state, const struct state_snapshot_query *query,
                    state_snapshot_fn *visit, void *data, struct kg_err *err);

/* That files of a session are being put back; the snapshot has what they were before. */
int state_restore_begin(struct state *state, const char *session, const char *snapshot,
                        struct kg_err *err);
int state_restore_end(struct state *state, const char *session, struct kg_err *err);
/* Those that were begun and not ended. */
typedef void state_restore_fn(void *data, const char *session, const char *snapshot);
int state_restores(struct state *state, state_restore_fn *visit, void *data, struct kg_err *err);

/* -- entries ----------------------------------------------------------------------------------- */

struct state_entry {
    int64_t seq;
    const char *id, *agent, *kind, *role;
    const char *source, *parent; /* NULL: none */
    int64_t rank;
    int64_t superseded; /* 0: it is not */
    bool pinned;
    int64_t created_ms, tokens, bytes;
    int64_t content_number;
    struct kg_str content; /* data NULL when it was not asked for */
};
/* False ends the visits. */
typedef bool state_entry_fn(void *data, const struct state_entry *entry);

/* Its content, too; content_number is not looked at. */
int state_entry_add(struct state *state, int64_t session, const struct state_entry *entry,
                    struct kg_err *err);

enum state_entry_order {
    STATE_ENTRIES_UP,     /* seq past `after`, of `agent` or of all */
    STATE_ENTRIES_DOWN,   /* seq before `after`, the newest first */
    STATE_ENTRIES_LIVE,   /* of `agent`, those that are not superseded, by rank */
    STATE_ENTRIES_NAMED,  /* ids from `first` up to, not with, `past` */
    STATE_ENTRIES_MADE,   /* whose parent is `first`, results of tools aside */
    STATE_ENTRIES_RESULT, /* the result of the call `first` */
    STATE_ENTRIES_MARK,   /* the marks of `agent` that stand, the newest first */
    STATE_ENTRIES_MARKED, /* those that were undone, too */
};
struct state_entry_query {
    enum state_entry_order order;
    int64_t session;
    const char *agent; /* NULL: of any, where that is allowed */
    const char *first, *past;
    int64_t after;
    int64_t limit;
    bool content; /* whether to read it, too */
};
int state_entries(struct state *state, const struct state_entry_query *query, state_entry_fn *visit,
                  void *data, struct kg_err *err);
int state_content_get(struct state *state, int64_t number, struct kg_buf *ret_bytes,
                      struct kg_err *err);

struct state_seq_range {
    int64_t session;
    const char *agent;
    int64_t first, last;
};
int state_entry_pin(struct state *state, int64_t session, int64_t seq, bool pinned,
                    struct kg_err *err);
/*
 * All of the agent's context whose seq is in that range, the ends included, but for what is pinned;
 * *ret_count: how many stood until now.
 */
int state_entries_supersede(struct state *state, const struct state_seq_range *range, int64_t mark,
                            int64_t *ret_count, struct kg_err *err);
/* What the mark superseded stands again; then the mark and all that has it as parent fall. */
int state_mark_undo(struct state *state, int64_t session, int64_t seq, const char *id,
                    struct kg_err *err);
/* Spreads the ranks of an agent's entries anew, `gap` apart, in the same order. */
int state_entries_spread(struct state *state, int64_t session, const char *agent, int64_t gap,
                         struct kg_err *err);

/*
 * The context of an agent of the session with that id, in its order, with content: one statement.
 * *ret_found: whether there is such a session.
 */
struct state_context_query {
    const char *session, *agent;
    int64_t limit;
};
int state_context(struct state *state, const struct state_context_query *query,
                  state_entry_fn *visit, void *data, bool *ret_found, struct kg_err *err);

/* -- a whole append ---------------------------------------------------------------------------- */

/* Its entries have no seq and no rank yet: they get the next ones. */
struct state_append {
    const char *session; /* its id */
    const struct state_entry *entries;
    size_t count;
    const char *told;  /* the id of the first, unless a later one was given meanwhile; or NULL */
    const char *title; /* of a session that has none; or NULL */
    int64_t gap;       /* between ranks */
    int64_t most;      /* entries that a session can have */
    int64_t now_ms;
};
struct state_appended {
    int64_t seq;
    const char *id;
    int64_t tokens;
};
/* For each entry of each append, in order, maybe once more; tokens: of the agent's context, now. */
typedef void state_appended_fn(void *data, size_t append, size_t entry,
                               const struct state_appended *appended);
/*
 * Entries, sums and the session in one statement each, all in one go, where the database is worth
 * it; none of an append is visited where it is not, or the session is not active or idle, or a
 * parent is not a call of the same agent that waits for its result. Then nothing of it was done:
 * step by step it can be, or is refused. After an error nothing that was visited is there.
 */
int state_append(struct state *state, const struct state_append *appends, size_t count,
                 state_appended_fn *visit, void *data, struct kg_err *err);
/* Whether who writes keeps all others from writing, who then have to find a moment between. */
bool state_has_one_writer(const struct state *state);

/* -- agents: sums over what stands ------------------------------------------------------------- */

struct state_agent {
    const char *path;
    int64_t entries, tokens, generation;
};
typedef void state_agent_fn(void *data, const struct state_agent *agent);

/* Adds to the sums; an agent that was not known starts with zeros. ret_tokens may be NULL. */
int state_agent_add(struct state *state, int64_t session, const struct state_agent *more,
                    int64_t *ret_tokens, struct kg_err *err);
/* Adds the entries up anew. */
int state_agent_sum(struct state *state, int64_t session, const char *path, struct kg_err *err);
/* Visits the one with that path, or all of the session with path NULL. */
int state_agents(struct state *state, int64_t session, const char *path, state_agent_fn *visit,
                 void *data, struct kg_err *err);

#endif
