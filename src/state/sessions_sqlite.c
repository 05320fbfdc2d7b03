/* Sessions by SQLite. */
#include "state/sqlite.h"

static const char *sessions_sqlite_text_at(sqlite3_stmt *row, int column)
{
    return (const char *)sqlite3_column_text(row, column);
}

/* -- transactions ------------------------------------------------------------------------------ */

static int sqlite_step(struct state *state, enum state_step step, struct kg_err *err)
{
    static const enum statement statements[] = {
        [STATE_BEGIN_WRITE] = STEP_BEGIN_WRITE, [STATE_BEGIN_ALONE] = STEP_BEGIN_WRITE,
        [STATE_BEGIN_READ] = STEP_BEGIN_READ,   [STATE_COMMIT] = STEP_COMMIT,
        [STATE_ROLLBACK] = STEP_ROLLBACK,       [STATE_SAVE] = STEP_SAVE,
        [STATE_RETURN] = STEP_RETURN,           [STATE_FORGET] = STEP_FORGET,
        [STATE_SYNC_EACH] = STEP_SYNC_EACH,     [STATE_SYNC_LATER] = STEP_SYNC_LATER,
    };
    enum statement which = statements[step];
    int result = sqlite_run(state, which, err, "");
    if (result == 0 && step == STATE_RETURN) /* the place is still there, as if nothing was done */
        result = sqlite_run(state, STEP_FORGET, err, "");
    return result;
}

static bool sqlite_in_transaction(struct state *state)
{
    return !sqlite3_get_autocommit(sqlite_own(state)->db);
}

/* Whether the last statement changed a row. */
static bool changed_any(struct state *state)
{
    return sqlite3_changes64(sqlite_own(state)->db) > 0;
}

/* -- sessions ---------------------------------------------------------------------------------- */

static int sqlite_session_add(struct state *state, const struct state_session *session,
                              int64_t *ret_number, struct kg_err *err)
{
    int result =
        sqlite_run(state, SESSION_ADD, err, "ttttttttiiittt", session->id, session->project_id,
                   session->workdir, session->seat, session->state, session->operator_id,
                   session->parent, session->parent_entry, session->created_ms, session->updated_ms,
                   session->entries, session->title, session->branch, session->left_by);
    if (result == 0)
        *ret_number = sqlite3_last_insert_rowid(sqlite_own(state)->db);
    return result;
}

/* Of a session whose state is that already; *ret_found tells whether it was. */
static int set_within_state(struct state *state, const struct state_session *session,
                            bool *ret_found, struct kg_err *err)
{
    int result = sqlite_run(state, SESSION_SET, err, "ittiit", session->number, session->seat,
                            session->state, session->updated_ms, session->entries, session->title);
    *ret_found = result == 0 && changed_any(state);
    return result;
}

/*
 * Every entry changes its session, and few change its state: where that is written, SQLite makes a
 * table of its own for the check of it, which takes longer than all the rest.
 */
static int sqlite_session_set(struct state *state, const struct state_session *session,
                              struct kg_err *err)
{
    bool found;
    int result = set_within_state(state, session, &found, err);
    if (result < 0 || found)
        return result;
    result = sqlite_run(state, SESSION_SET_STATE, err, "it", session->number, session->state);
    return result < 0 ? result : set_within_state(state, session, &found, err);
}

/* Steps through the rows of a statement that was started. */
static int sessions_sqlite_visit_sessions(struct state *state, enum statement which,
                                          sqlite3_stmt *row, state_session_fn *visit, void *data,
                                          struct kg_err *err)
{
    int code;
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        const struct state_session session = {
            .number = sqlite3_column_int64(row, 0),
            .id = sessions_sqlite_text_at(row, 1),
            .project_id = sessions_sqlite_text_at(row, 2),
            .workdir = sessions_sqlite_text_at(row, 3),
            .seat = sessions_sqlite_text_at(row, 4),
            .state = sessions_sqlite_text_at(row, 5),
            .operator_id = sessions_sqlite_text_at(row, 6),
            .parent = sessions_sqlite_text_at(row, 7),
            .parent_entry = sessions_sqlite_text_at(row, 8),
            .created_ms = sqlite3_column_int64(row, 9),
            .updated_ms = sqlite3_column_int64(row, 10),
            .entries = sqlite3_column_int64(row, 11),
            .title = sessions_sqlite_text_at(row, 12),
            .branch = sessions_sqlite_text_at(row, 13),
            .left_by = sessions_sqlite_text_at(row, 14),
        };
        visit(data, &session);
    }
    return sqlite_finish(state, which, code, err);
}

static int sqlite_session_get(struct state *state, const char *id, state_session_fn *visit,
                              void *data, struct kg_err *err)
{
    sqlite3_stmt *row;
    int result = sqlite_start(state, SESSION_GET, &row, err, "t", id);
    return result < 0 ? result
                      : sessions_sqlite_visit_sessions(state, SESSION_GET, row, visit, data, err);
}

static int sqlite_sessions(struct state *state, const struct state_session_query *query,
                           state_session_fn *visit, void *data, struct kg_err *err)
{
    enum statement which = query->project_id ? SESSIONS_OF_PROJECT : SESSIONS;
    sqlite3_stmt *row;
    int result = sqlite_start(state, which, &row, err, query->project_id ? "tttiitt" : "tttii",
                              query->first, query->past, query->state, query->limit,
                              (int64_t)query->left, query->project_id, query->operator_id);
    return result < 0 ? result
                      : sessions_sqlite_visit_sessions(state, which, row, visit, data, err);
}

static int sqlite_session_copy(struct state *state, int64_t from, int64_t to, int64_t cut,
                               struct kg_err *err)
{
    int result = sqlite_run(state, COPY_ENTRIES, err, "iii", from, to, cut);
    if (result < 0)
        return result;
    return sqlite_run(state, COPY_AGENTS, err, "i", to);
}

static int sqlite_session_rename(struct state *state, const struct state_session *session,
                                 struct kg_err *err)
{
    return sqlite_run(state, SESSION_RENAME, err, "ittt", session->number, session->id,
                      session->left_by, session->state);
}

static int sqlite_session_of_branch(struct state *state, const char *branch,
                                    state_session_fn *visit, void *data, struct kg_err *err)
{
    sqlite3_stmt *row;
    int result = sqlite_start(state, SESSION_OF_BRANCH, &row, err, "t", branch);
    return result < 0
               ? result
               : sessions_sqlite_visit_sessions(state, SESSION_OF_BRANCH, row, visit, data, err);
}

static int sqlite_session_rewritten(struct state *state, int64_t from, int64_t to,
                                    struct kg_err *err)
{
    return sqlite_run(state, AGENTS_REWRITTEN, err, "ii", from, to);
}

/* -- moves and snapshots ----------------------------------------------------------------------- */

static int sqlite_move_add(struct state *state, const struct state_move *move, struct kg_err *err)
{
    return sqlite_run(state, MOVE_ADD, err, "tttttti", move->session, move->act, move->from_branch,
                      move->to_branch, move->entry, move->snapshot, move->at_ms);
}

static int sqlite_move_redone(struct state *state, int64_t number, struct kg_err *err)
{
    return sqlite_run(state, MOVE_REDONE, err, "i", number);
}

static int sqlite_move_last(struct state *state, const char *session, state_move_fn *visit,
                            void *data, int64_t *ret_count, struct kg_err *err)
{
    sqlite3_stmt *row;
    int code = SQLITE_DONE, result = sqlite_start(state, MOVE_LAST, &row, err, "t", session);
    while (result == 0 && (code = sqlite3_step(row)) == SQLITE_ROW) {
        const struct state_move move = {
            .number = sqlite3_column_int64(row, 0),
            .session = session,
            .act = sessions_sqlite_text_at(row, 1),
            .from_branch = sessions_sqlite_text_at(row, 2),
            .to_branch = sessions_sqlite_text_at(row, 3),
            .entry = sessions_sqlite_text_at(row, 4),
            .snapshot = sessions_sqlite_text_at(row, 5),
            .at_ms = sqlite3_column_int64(row, 6),
        };
        visit(data, &move);
    }
    if (result == 0)
        result = sqlite_finish(state, MOVE_LAST, code, err);
    if (result == 0)
        result = sqlite_start(state, MOVES_COUNT, &row, err, "t", session);
    if (result < 0)
        return result;
    code = sqlite3_step(row);
    *ret_count = code == SQLITE_ROW ? sqlite3_column_int64(row, 0) : 0;
    return sqlite_finish(state, MOVES_COUNT, code, err);
}

static int sqlite_snapshot_add(struct state *state, const struct state_snapshot *snapshot,
                               struct kg_err *err)
{
    return sqlite_run(state, SNAPSHOT_ADD, err, "ttttttiiti", snapshot->id, snapshot->session,
                      snapshot->entry, snapshot->folder, snapshot->way, snapshot->tree,
                      snapshot->files, snapshot->bytes, snapshot->left_out, snapshot->at_ms);
}

static int sqlite_snapshot_remove(struct state *state, const char *id, struct kg_err *err)
{
    return sqlite_run(state, SNAPSHOT_REMOVE, err, "t", id);
}

static int sqlite_snapshots(struct state *state, const struct state_snapshot_query *query,
                            state_snapshot_fn *visit, void *data, struct kg_err *err)
{
    sqlite3_stmt *row;
    int code, result = sqlite_start(state, SNAPSHOTS, &row, err, "ttti", query->session,
                                    query->entry, query->id, query->limit);
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        const struct state_snapshot snapshot = {
            .id = sessions_sqlite_text_at(row, 0),
            .session = sessions_sqlite_text_at(row, 1),
            .entry = sessions_sqlite_text_at(row, 2),
            .folder = sessions_sqlite_text_at(row, 3),
            .way = sessions_sqlite_text_at(row, 4),
            .tree = sessions_sqlite_text_at(row, 5),
            .files = sqlite3_column_int64(row, 6),
            .bytes = sqlite3_column_int64(row, 7),
            .left_out = sessions_sqlite_text_at(row, 8),
            .at_ms = sqlite3_column_int64(row, 9),
        };
        visit(data, &snapshot);
    }
    return sqlite_finish(state, SNAPSHOTS, code, err);
}

static int sqlite_restore_begin(struct state *state, const char *session, const char *snapshot,
                                struct kg_err *err)
{
    return sqlite_run(state, RESTORE_BEGIN, err, "tti", session, snapshot, kg_wall_ms());
}

static int sqlite_restore_end(struct state *state, const char *session, struct kg_err *err)
{
    return sqlite_run(state, RESTORE_END, err, "t", session);
}

static int sqlite_restores(struct state *state, state_restore_fn *visit, void *data,
                           struct kg_err *err)
{
    sqlite3_stmt *row;
    int code, result = sqlite_start(state, RESTORES, &row, err, "");
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, sessions_sqlite_text_at(row, 0), sessions_sqlite_text_at(row, 1));
    return sqlite_finish(state, RESTORES, code, err);
}

/* -- entries ----------------------------------------------------------------------------------- */

static int sqlite_entry_add(struct state *state, int64_t session, const struct state_entry *entry,
                            struct kg_err *err)
{
    int result = sqlite_run(state, CONTENT_ADD, err, "b", entry->content);
    if (result < 0)
        return result;
    return sqlite_run(state, ENTRY_ADD, err, "iittttttiiiii", session, entry->seq, entry->id,
                      entry->agent, entry->kind, entry->role, entry->source, entry->parent,
                      entry->rank, (int64_t)entry->pinned, entry->created_ms, entry->tokens,
                      (int64_t)entry->content.length);
}

static void sessions_sqlite_take_entry(sqlite3_stmt *row, struct state_entry *ret_entry)
{
    *ret_entry = (struct state_entry){
        .seq = sqlite3_column_int64(row, 0),
        .id = sessions_sqlite_text_at(row, 1),
        .agent = sessions_sqlite_text_at(row, 2),
        .kind = sessions_sqlite_text_at(row, 3),
        .role = sessions_sqlite_text_at(row, 4),
        .source = sessions_sqlite_text_at(row, 5),
        .parent = sessions_sqlite_text_at(row, 6),
        .rank = sqlite3_column_int64(row, 7),
        .superseded = sqlite3_column_int64(row, 8),
        .pinned = sqlite3_column_int(row, 9),
        .created_ms = sqlite3_column_int64(row, 10),
        .tokens = sqlite3_column_int64(row, 11),
        .bytes = sqlite3_column_int64(row, 12),
        .content_number = sqlite3_column_int64(row, 13),
        .content.data = sqlite3_column_blob(row, 14),
    };
    ret_entry->content.length = (size_t)sqlite3_column_bytes(row, 14);
}

static int sqlite_entries(struct state *state, const struct state_entry_query *query,
                          state_entry_fn *visit, void *data, struct kg_err *err)
{
    static const struct {
        enum statement statement;
        const char *types;
    } rows[] = {
        [STATE_ENTRIES_UP] = {ENTRIES_UP, "iitii"},
        [STATE_ENTRIES_DOWN] = {ENTRIES_DOWN, "iitii"},
        [STATE_ENTRIES_LIVE] = {ENTRIES_LIVE, "iitii"},
        [STATE_ENTRIES_NAMED] = {ENTRIES_NAMED, "iitiitt"},
        [STATE_ENTRIES_MADE] = {ENTRIES_MADE, "iitiit"},
        [STATE_ENTRIES_RESULT] = {ENTRIES_RESULT, "iitiit"},
        [STATE_ENTRIES_MARK] = {ENTRIES_MARK, "iitii"},
        [STATE_ENTRIES_MARKED] = {ENTRIES_MARKED, "iitii"},
    };
    enum statement which = rows[query->order].statement;
    sqlite3_stmt *row;
    int result = sqlite_start(state, which, &row, err, rows[query->order].types, query->session,
                              query->after, query->agent, query->limit, (int64_t)query->content,
                              query->first, query->past);
    if (result < 0)
        return result;
    struct state_entry entry;
    int code;
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        sessions_sqlite_take_entry(row, &entry);
        if (!visit(data, &entry))
            break;
    }
    return sqlite_finish(state, which, code, err);
}

static int sqlite_context(struct state *state, const struct state_context_query *query,
                          state_entry_fn *visit, void *data, bool *ret_found, struct kg_err *err)
{
    sqlite3_stmt *row;
    *ret_found = false;
    int result =
        sqlite_start(state, CONTEXT, &row, err, "tti", query->session, query->agent, query->limit);
    if (result < 0)
        return result;
    int code;
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        struct state_entry entry;
        sessions_sqlite_take_entry(row, &entry);
        *ret_found = true;
        if (entry.id != NULL && !visit(data, &entry))
            break;
    }
    return sqlite_finish(state, CONTEXT, code, err);
}

static int sqlite_content_get(struct state *state, int64_t number, struct kg_buf *ret_bytes,
                              struct kg_err *err)
{
    sqlite3_stmt *row;
    int result = sqlite_start(state, CONTENT_GET, &row, err, "i", number);
    if (result < 0)
        return result;
    int code = sqlite3_step(row);
    if (code == SQLITE_ROW)
        kg_buf_append(ret_bytes, sqlite3_column_blob(row, 0), (size_t)sqlite3_column_bytes(row, 0));
    result = sqlite_finish(state, CONTENT_GET, code, err);
    if (result == 0 && code != SQLITE_ROW)
        return kg_fail(err, KG_E_IO, "state database: content %lld of a session is not there",
                       (long long)number);
    return result;
}

static int sqlite_entry_pin(struct state *state, int64_t session, int64_t seq, bool pinned,
                            struct kg_err *err)
{
    return sqlite_run(state, ENTRY_PIN, err, "iii", session, seq, (int64_t)pinned);
}

static int sqlite_entries_supersede(struct state *state, const struct state_seq_range *range,
                                    int64_t mark, int64_t *ret_count, struct kg_err *err)
{
    int result = sqlite_run(state, ENTRIES_SUPERSEDE, err, "itiii", range->session, range->agent,
                            range->first, range->last, mark);
    if (result == 0)
        *ret_count = sqlite3_changes64(sqlite_own(state)->db);
    return result;
}

static int sqlite_mark_undo(struct state *state, int64_t session, int64_t seq, const char *id,
                            struct kg_err *err)
{
    static const enum statement steps[] = {MARK_REVIVE, MARK_FALL, MARK_MADE_FALL};
    int result = 0;
    for (size_t i = 0; i < KG_COUNT(steps) && result == 0; i++)
        result = sqlite_run(state, steps[i], err, steps[i] == MARK_MADE_FALL ? "iit" : "ii",
                            session, seq, id);
    return result;
}

static int sqlite_entries_spread(struct state *state, int64_t session, const char *agent,
                                 int64_t gap, struct kg_err *err)
{
    return sqlite_run(state, ENTRIES_SPREAD, err, "iti", session, agent, gap);
}

/* -- agents ------------------------------------------------------------------------------------ */

static int read_tokens(struct state *state, int64_t session, const char *path, int64_t *ret_tokens,
                       struct kg_err *err)
{
    sqlite3_stmt *row;
    int result = sqlite_start(state, AGENT_TOKENS, &row, err, "it", session, path);
    if (result < 0)
        return result;
    int code = sqlite3_step(row);
    if (code == SQLITE_ROW)
        *ret_tokens = sqlite3_column_int64(row, 0);
    return sqlite_finish(state, AGENT_TOKENS, code, err);
}

/* Three short statements: one that does it all needs a journal and a table of its own. */
static int sqlite_agent_add(struct state *state, int64_t session, const struct state_agent *more,
                            int64_t *ret_tokens, struct kg_err *err)
{
    int result = sqlite_run(state, AGENT_MORE, err, "itiii", session, more->path, more->entries,
                            more->tokens, more->generation);
    if (result == 0 && !changed_any(state))
        result = sqlite_run(state, AGENT_ADD, err, "itiii", session, more->path, more->entries,
                            more->tokens, more->generation);
    if (result < 0 || ret_tokens == NULL)
        return result;
    return read_tokens(state, session, more->path, ret_tokens, err);
}

static int sqlite_agent_sum(struct state *state, int64_t session, const char *path,
                            struct kg_err *err)
{
    return sqlite_run(state, AGENT_SUM, err, "it", session, path);
}

static int sqlite_agents(struct state *state, int64_t session, const char *path,
                         state_agent_fn *visit, void *data, struct kg_err *err)
{
    sqlite3_stmt *row;
    int result = sqlite_start(state, AGENTS, &row, err, "it", session, path);
    if (result < 0)
        return result;
    int code;
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        const struct state_agent agent = {.path = sessions_sqlite_text_at(row, 0),
                                          .entries = sqlite3_column_int64(row, 1),
                                          .tokens = sqlite3_column_int64(row, 2),
                                          .generation = sqlite3_column_int64(row, 3)};
        visit(data, &agent);
    }
    return sqlite_finish(state, AGENTS, code, err);
}

const struct state_sessions_backend state_sessions_sqlite = {
    .step = sqlite_step,
    .in_transaction = sqlite_in_transaction,
    .session_add = sqlite_session_add,
    .session_set = sqlite_session_set,
    .session_get = sqlite_session_get,
    .sessions = sqlite_sessions,
    .session_copy = sqlite_session_copy,
    .session_rename = sqlite_session_rename,
    .session_of_branch = sqlite_session_of_branch,
    .session_rewritten = sqlite_session_rewritten,
    .move_add = sqlite_move_add,
    .move_redone = sqlite_move_redone,
    .move_last = sqlite_move_last,
    .snapshot_add = sqlite_snapshot_add,
    .snapshot_remove = sqlite_snapshot_remove,
    .snapshots = sqlite_snapshots,
    .restore_begin = sqlite_restore_begin,
    .restore_end = sqlite_restore_end,
    .restores = sqlite_restores,
    .entry_add = sqlite_entry_add,
    .entries = sqlite_entries,
    .context = sqlite_context,
    .one_writer = true,
    .content_get = sqlite_content_get,
    .entry_pin = sqlite_entry_pin,
    .entries_supersede = sqlite_entries_supersede,
    .mark_undo = sqlite_mark_undo,
    .entries_spread = sqlite_entries_spread,
    .agent_add = sqlite_agent_add,
    .agent_sum = sqlite_agent_sum,
    .agents = sqlite_agents,
};
