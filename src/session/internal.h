/* What the files of this folder share. */
#ifndef KAGED_SESSION_INTERNAL_H
#define KAGED_SESSION_INTERNAL_H

#include "session/session.h"

#define NONE SIZE_MAX

/*
 * Ranks order a context. Entries that are appended are a gap apart; a compaction puts what is new
 * into gaps, and keeps room behind it for what hooks inject after it.
 */
#define RANK_GAP  ((int64_t)1 << 32)
#define RANK_ROOM 1024

/* -- entries ----------------------------------------------------------------------------------- */

/* Adds a copy of a row. */
void session_entries_take(struct session_entries *entries, const struct state_entry *row);
/* For each entry the index of the call of a result, or the result of a call, or NONE. Owned. */
size_t *session_partners(const struct session_entries *entries);
/* Content as it stands in a context: JSON without raw newlines. */
void session_content_write(const struct session_entry *entry, struct kg_buf *buf);
/* The message up to its end, without the closing brace, so that more members can follow. */
void session_message_begin(const struct session_entry *entry, struct kg_json_writer *writer);

/* -- titles ------------------------------------------------------------------------------------ */

/* As it is kept, of a valid text; of a message its first words. Owned; NULL: nothing is left. */
char *session_title_given(const char *title_or_null);
char *session_title_of(struct kg_str content);

/* -- on kaged.db ------------------------------------------------------------------------------- */

/* The session with exactly this id. */
int session_load(struct state *state, const char *id, struct session *ret_session,
                 struct kg_err *err);
/* The same, and it takes entries. */
int session_load_open(struct state *state, const char *id, struct session *ret_session,
                      struct kg_err *err);
/* A stopped session is active again; to be saved. */
void session_go_on(struct session *session);
/* Writes what a row of entries and a session have in common after entries were added. */
int session_save(struct state *state, const struct session *session, struct kg_err *err);
/* Adds one entry as it is, with the session's next seq; counts it in the session. */
int session_entry_write(struct state *state, struct session *session, struct session_entry *entry,
                        struct kg_err *err);
/* An append in one statement; not done: it has to go step by step. `added` has room for count. */
int session_append_at_once(struct state *state, const char *id, const struct session_draft *drafts,
                           size_t count, struct session_added *added, bool *ret_done,
                           struct kg_err *err);
/* The one entry that a whole id, or the prefix of one, names. */
int session_entry_named(struct state *state, const struct session *session, struct kg_str id,
                        bool content, struct session_entries *ret_entries, struct kg_err *err);
/* Up to which seq a fork at an entry goes; at "": with all that there is. */
int session_fork_cut(struct state *state, const struct session *parent, struct kg_str entry,
                     struct session_entries *ret_place, uint64_t *ret_cut, struct kg_err *err);
/* The one of a branch. */
int session_load_branch(struct state *state, const char *branch, struct session *ret_session,
                        struct kg_err *err);
/* The name of the branch that a session begins on. */
struct kg_id session_first_branch(struct kg_id id);
/* A visitor of rows that adds each to a struct session_entries. */
bool session_entries_visit(void *entries, const struct state_entry *row);

/* -- what may be written, see check.c ---------------------------------------------------------- */

int session_check_agent(const char *agent, struct kg_err *err);
int session_check_new(const struct session_new *new, struct kg_err *err);

/* -- compaction -------------------------------------------------------------------------------- */

/* A message that a compaction adds behind the entry `after`, or before all: NONE. */
struct addition {
    size_t after;
    enum session_role role;
    char *text; /* owned */
    size_t length;
    struct kg_id id; /* once it is applied */
};
struct additions {
    struct addition *items; /* owned, in order */
    size_t count, capacity;
};
void additions_add(struct additions *additions, size_t after, enum session_role role,
                   struct kg_str text);
void additions_clear(struct additions *additions);

struct session_compaction {
    struct session_entries entries; /* those that a model sees, in the order of the context */
    size_t *partners;               /* owned, like the next two */
    bool *stays;                    /* has to */
    bool *goes;                     /* is planned to */
    struct additions additions;
    struct session_compaction_options options;
    char *trigger;                  /* owned, like the texts that follow; options' points here */
    enum session_strategy strategy; /* that is carried out: drop after a fall-back */
    char *plugin;                   /* whose result it is, or NULL */
    char *summary;                  /* for people, or NULL */
    char *fallback;                 /* why, or NULL */
    uint64_t tokens_before;
    size_t readable_from; /* content of entries before was not read */
    /* where it came from; session is "" if it is of entries at hand */
    char *session, *agent;
    uint64_t generation;
    bool applied;
};
/* Which entries have to stay. `stays` has room for all of them. */
void session_must_stay(const struct session_entries *entries, const size_t *partners,
                       uint32_t keep_recent, bool *stays);
uint64_t session_planned_tokens(const struct session_compaction *compaction, const bool *goes,
                                const struct additions *additions, const char *source);
/* The addition as an entry, for writing. */
struct session_entry session_addition_entry(const struct session_compaction *compaction,
                                            const struct addition *addition,
                                            struct kg_buf *ret_content);

/* Whether two valid JSON texts mean the same: members in any order, numbers by value. */
bool session_same_json(struct kg_str a, struct kg_str b);

#endif
