/* Sessions, whatever keeps them: each call goes to the backend that opened the database. */
#include "state/internal.h"

int state_step(struct state *state, enum state_step step, struct kg_err *err)
{
    return state_backend(state)->sessions->step(state, step, err);
}

void state_scope(struct state *state, const char *org)
{
    const struct state_sessions_backend *sessions = state_backend(state)->sessions;
    if (sessions->scope != NULL)
        sessions->scope(state, org);
}

bool state_in_transaction(struct state *state)
{
    return state_backend(state)->sessions->in_transaction(state);
}

int state_session_add(struct state *state, const struct state_session *session, int64_t *ret_number,
                      struct kg_err *err)
{
    return state_backend(state)->sessions->session_add(state, session, ret_number, err);
}

int state_session_set(struct state *state, const struct state_session *session, struct kg_err *err)
{
    return state_backend(state)->sessions->session_set(state, session, err);
}

int state_session_get(struct state *state, const char *id, state_session_fn *visit, void *data,
                      struct kg_err *err)
{
    return state_backend(state)->sessions->session_get(state, id, visit, data, err);
}

int state_sessions(struct state *state, const struct state_session_query *query,
                   state_session_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->sessions->sessions(state, query, visit, data, err);
}

int state_session_copy(struct state *state, int64_t from, int64_t to, int64_t cut,
                       struct kg_err *err)
{
    return state_backend(state)->sessions->session_copy(state, from, to, cut, err);
}

int state_session_rename(struct state *state, const struct state_session *session,
                         struct kg_err *err)
{
    return state_backend(state)->sessions->session_rename(state, session, err);
}

int state_session_of_branch(struct state *state, const char *branch, state_session_fn *visit,
                            void *data, struct kg_err *err)
{
    return state_backend(state)->sessions->session_of_branch(state, branch, visit, data, err);
}

int state_session_rewritten(struct state *state, int64_t from, int64_t to, struct kg_err *err)
{
    return state_backend(state)->sessions->session_rewritten(state, from, to, err);
}

int state_move_add(struct state *state, const struct state_move *move, struct kg_err *err)
{
    return state_backend(state)->sessions->move_add(state, move, err);
}

int state_move_redone(struct state *state, int64_t number, struct kg_err *err)
{
    return state_backend(state)->sessions->move_redone(state, number, err);
}

int state_move_last(struct state *state, const char *session, state_move_fn *visit, void *data,
                    int64_t *ret_count, struct kg_err *err)
{
    return state_backend(state)->sessions->move_last(state, session, visit, data, ret_count, err);
}

int state_snapshot_add(struct state *state, const struct state_snapshot *snapshot,
                       struct kg_err *err)
{
    return state_backend(state)->sessions->snapshot_add(state, snapshot, err);
}

int state_snapshot_remove(struct state *state, const char *id, struct kg_err *err)
{
    return state_backend(state)->sessions->snapshot_remove(state, id, err);
}

int state_snapshots(struct state *state, const struct state_snapshot_query *query,
                    state_snapshot_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->sessions->snapshots(state, query, visit, data, err);
}

int state_restore_begin(struct state *state, const char *session, const char *snapshot,
                        struct kg_err *err)
{
    return state_backend(state)->sessions->restore_begin(state, session, snapshot, err);
}

int state_restore_end(struct state *state, const char *session, struct kg_err *err)
{
    return state_backend(state)->sessions->restore_end(state, session, err);
}

int state_restores(struct state *state, state_restore_fn *visit, void *data, struct kg_err *err)
{
    return state_backend(state)->sessions->restores(state, visit, data, err);
}

int state_entry_add(struct state *state, int64_t session, const struct state_entry *entry,
                    struct kg_err *err)
{
    return state_backend(state)->sessions->entry_add(state, session, entry, err);
}

int state_entries(struct state *state, const struct state_entry_query *query, state_entry_fn *visit,
                  void *data, struct kg_err *err)
{
    return state_backend(state)->sessions->entries(state, query, visit, data, err);
}

int state_context(struct state *state, const struct state_context_query *query,
                  state_entry_fn *visit, void *data, bool *ret_found, struct kg_err *err)
{
    return state_backend(state)->sessions->context(state, query, visit, data, ret_found, err);
}

int state_append(struct state *state, const struct state_append *append, state_appended_fn *visit,
                 void *data, struct kg_err *err)
{
    const struct state_sessions_backend *sessions = state_backend(state)->sessions;
    return sessions->append != NULL ? sessions->append(state, append, visit, data, err) : 0;
}

bool state_has_one_writer(const struct state *state)
{
    return state_backend(state)->sessions->one_writer;
}

int state_content_get(struct state *state, int64_t number, struct kg_buf *ret_bytes,
                      struct kg_err *err)
{
    return state_backend(state)->sessions->content_get(state, number, ret_bytes, err);
}

int state_entry_pin(struct state *state, int64_t session, int64_t seq, bool pinned,
                    struct kg_err *err)
{
    return state_backend(state)->sessions->entry_pin(state, session, seq, pinned, err);
}

int state_entries_supersede(struct state *state, const struct state_seq_range *range, int64_t mark,
                            int64_t *ret_count, struct kg_err *err)
{
    return state_backend(state)->sessions->entries_supersede(state, range, mark, ret_count, err);
}

int state_mark_undo(struct state *state, int64_t session, int64_t seq, const char *id,
                    struct kg_err *err)
{
    return state_backend(state)->sessions->mark_undo(state, session, seq, id, err);
}

int state_entries_spread(struct state *state, int64_t session, const char *agent, int64_t gap,
                         struct kg_err *err)
{
    return state_backend(state)->sessions->entries_spread(state, session, agent, gap, err);
}

int state_agent_add(struct state *state, int64_t session, const struct state_agent *more,
                    int64_t *ret_tokens, struct kg_err *err)
{
    return state_backend(state)->sessions->agent_add(state, session, more, ret_tokens, err);
}

int state_agent_sum(struct state *state, int64_t session, const char *path, struct kg_err *err)
{
    return state_backend(state)->sessions->agent_sum(state, session, path, err);
}

int state_agents(struct state *state, int64_t session, const char *path, state_agent_fn *visit,
                 void *data, struct kg_err *err)
{
    return state_backend(state)->sessions->agents(state, session, path, visit, data, err);
}
