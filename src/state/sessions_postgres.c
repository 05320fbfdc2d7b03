/* Sessions by PostgreSQL. */
#include "base/json/json.h"
#include "state/postgres.h"

#include <stdlib.h>

/* -- transactions ------------------------------------------------------------------------------ */

static int pg_step(struct state *state, enum state_step step, struct kg_err *err)
{
    return postgres_step_later(&postgres_own(state)->postgres, step, err);
}

static void pg_scope(struct state *state, const char *org)
{
    postgres_own(state)->postgres.ahead.org = org;
}

static bool pg_in_transaction(struct state *state)
{
    return postgres_in_transaction(&postgres_own(state)->postgres);
}

/* -- sessions ---------------------------------------------------------------------------------- */

/* The one number that a statement gives back; *ret_number is untouched if it gives none. */
static int sessions_postgres_take_number(struct state *state, PGresult *rows, int64_t *ret_number)
{
    const struct postgres *postgres = &postgres_own(state)->postgres;
    if (postgres->pq->PQntuples(rows) > 0)
        *ret_number = postgres_int_at(postgres, rows, 0, 0);
    postgres->pq->PQclear(rows);
    return 0;
}

static int pg_session_add(struct state *state, const struct state_session *session,
                          int64_t *ret_number, struct kg_err *err)
{
    PGresult *rows;
    int result = postgres_query(
        state, PG_SESSION_ADD, &rows, err, "ttttttttiiittt", session->id, session->project_id,
        session->workdir, session->seat, session->state, session->operator_id, session->parent,
        session->parent_entry, session->created_ms, session->updated_ms, session->entries,
        session->title, session->branch, session->left_by);
    return result < 0 ? result : sessions_postgres_take_number(state, rows, ret_number);
}

static int pg_session_set(struct state *state, const struct state_session *session,
                          struct kg_err *err)
{
    return postgres_run(state, PG_SESSION_SET, err, "ittiit", session->number, session->seat,
                        session->state, session->updated_ms, session->entries, session->title);
}

static int sessions_postgres_visit_sessions(struct postgres_row *row, state_session_fn *visit,
                                            void *data)
{
    while (postgres_next(row)) {
        const struct state_session session = {
            .number = postgres_int(row, 0),
            .id = postgres_text(row, 1),
            .project_id = postgres_text(row, 2),
            .workdir = postgres_text(row, 3),
            .seat = postgres_text(row, 4),
            .state = postgres_text(row, 5),
            .operator_id = postgres_text(row, 6),
            .parent = postgres_text(row, 7),
            .parent_entry = postgres_text(row, 8),
            .created_ms = postgres_int(row, 9),
            .updated_ms = postgres_int(row, 10),
            .entries = postgres_int(row, 11),
            .title = postgres_text(row, 12),
            .branch = postgres_text(row, 13),
            .left_by = postgres_text(row, 14),
        };
        visit(data, &session);
    }
    return 0;
}

static int pg_session_get(struct state *state, const char *id, state_session_fn *visit, void *data,
                          struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_SESSION_GET, &row, err, "t", id);
    return result < 0 ? result : sessions_postgres_visit_sessions(&row, visit, data);
}

static int pg_sessions(struct state *state, const struct state_session_query *query,
                       state_session_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, query->project_id ? PG_SESSIONS_OF_PROJECT : PG_SESSIONS,
                                &row, err, query->project_id ? "tttiitt" : "tttii", query->first,
                                query->past, query->state, query->limit, (int64_t)query->left,
                                query->project_id, query->operator_id);
    return result < 0 ? result : sessions_postgres_visit_sessions(&row, visit, data);
}

static int pg_session_copy(struct state *state, int64_t from, int64_t to, int64_t cut,
                           struct kg_err *err)
{
    int result = postgres_run(state, PG_COPY_ENTRIES, err, "iii", from, to, cut);
    return result < 0 ? result : postgres_run(state, PG_COPY_AGENTS, err, "i", to);
}

static int pg_session_rename(struct state *state, const struct state_session *session,
                             struct kg_err *err)
{
    return postgres_run(state, PG_SESSION_RENAME, err, "ittt", session->number, session->id,
                        session->left_by, session->state);
}

static int pg_session_of_branch(struct state *state, const char *branch, state_session_fn *visit,
                                void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_SESSION_OF_BRANCH, &row, err, "t", branch);
    return result < 0 ? result : sessions_postgres_visit_sessions(&row, visit, data);
}

static int pg_session_rewritten(struct state *state, int64_t from, int64_t to, struct kg_err *err)
{
    return postgres_run(state, PG_AGENTS_REWRITTEN, err, "ii", from, to);
}

/* -- moves and snapshots ----------------------------------------------------------------------- */

static int pg_move_add(struct state *state, const struct state_move *move, struct kg_err *err)
{
    return postgres_run(state, PG_MOVE_ADD, err, "tttttti", move->session, move->act,
                        move->from_branch, move->to_branch, move->entry, move->snapshot,
                        move->at_ms);
}

static int pg_move_redone(struct state *state, int64_t number, struct kg_err *err)
{
    return postgres_run(state, PG_MOVE_REDONE, err, "i", number);
}

static int pg_move_last(struct state *state, const char *session, state_move_fn *visit, void *data,
                        int64_t *ret_count, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_MOVE_LAST, &row, err, "t", session);
    if (result < 0)
        return result;
    *ret_count = 0;
    while (postgres_next(&row)) {
        const struct state_move move = {
            .number = postgres_int(&row, 0),
            .session = session,
            .act = postgres_text(&row, 1),
            .from_branch = postgres_text(&row, 2),
            .to_branch = postgres_text(&row, 3),
            .entry = postgres_text(&row, 4),
            .snapshot = postgres_text(&row, 5),
            .at_ms = postgres_int(&row, 6),
        };
        *ret_count = postgres_int(&row, 7);
        visit(data, &move);
    }
    return 0;
}

static int pg_snapshot_add(struct state *state, const struct state_snapshot *snapshot,
                           struct kg_err *err)
{
    return postgres_run(state, PG_SNAPSHOT_ADD, err, "ttttttiiti", snapshot->id, snapshot->session,
                        snapshot->entry, snapshot->folder, snapshot->way, snapshot->tree,
                        snapshot->files, snapshot->bytes, snapshot->left_out, snapshot->at_ms);
}

static int pg_snapshot_remove(struct state *state, const char *id, struct kg_err *err)
{
    return postgres_run(state, PG_SNAPSHOT_REMOVE, err, "t", id);
}

static int pg_snapshots(struct state *state, const struct state_snapshot_query *query,
                        state_snapshot_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_SNAPSHOTS, &row, err, "ttti", query->session,
                                query->entry, query->id, query->limit);
    if (result < 0)
        return result;
    while (postgres_next(&row)) {
        const struct state_snapshot snapshot = {
            .id = postgres_text(&row, 0),
            .session = postgres_text(&row, 1),
            .entry = postgres_text(&row, 2),
            .folder = postgres_text(&row, 3),
            .way = postgres_text(&row, 4),
            .tree = postgres_text(&row, 5),
            .files = postgres_int(&row, 6),
            .bytes = postgres_int(&row, 7),
            .left_out = postgres_text(&row, 8),
            .at_ms = postgres_int(&row, 9),
        };
        visit(data, &snapshot);
    }
    return 0;
}

/* The files are on this node's disk: no other one puts them back. */
static int pg_restore_begin(struct state *state, const char *session, const char *snapshot,
                            struct kg_err *err)
{
    return postgres_run(state, PG_RESTORE_BEGIN, err, "ttit", session, snapshot, kg_wall_ms(),
                        postgres_node(state));
}

static int pg_restore_end(struct state *state, const char *session, struct kg_err *err)
{
    return postgres_run(state, PG_RESTORE_END, err, "t", session);
}

static int pg_restores(struct state *state, state_restore_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_RESTORES, &row, err, "t", postgres_node(state));
    if (result < 0)
        return result;
    while (postgres_next(&row))
        visit(data, postgres_text(&row, 0), postgres_text(&row, 1));
    return 0;
}

/* -- entries ----------------------------------------------------------------------------------- */

static int pg_entry_add(struct state *state, int64_t session, const struct state_entry *entry,
                        struct kg_err *err)
{
    return postgres_run(state, PG_ENTRY_ADD, err, "iittttttiiiiib", session, entry->seq, entry->id,
                        entry->agent, entry->kind, entry->role, entry->source, entry->parent,
                        entry->rank, (int64_t)entry->pinned, entry->created_ms, entry->tokens,
                        (int64_t)entry->content.length, entry->content);
}

static void sessions_postgres_take_entry(const struct postgres_row *row,
                                         struct state_entry *ret_entry)
{
    *ret_entry = (struct state_entry){
        .seq = postgres_int(row, 0),
        .id = postgres_text(row, 1),
        .agent = postgres_text(row, 2),
        .kind = postgres_text(row, 3),
        .role = postgres_text(row, 4),
        .source = postgres_text(row, 5),
        .parent = postgres_text(row, 6),
        .rank = postgres_int(row, 7),
        .superseded = postgres_int(row, 8),
        .pinned = postgres_int(row, 9) != 0,
        .created_ms = postgres_int(row, 10),
        .tokens = postgres_int(row, 11),
        .bytes = postgres_int(row, 12),
        .content_number = postgres_int(row, 13),
        .content = postgres_bytes(row, 14),
    };
}

static int pg_entries(struct state *state, const struct state_entry_query *query,
                      state_entry_fn *visit, void *data, struct kg_err *err)
{
    static const struct {
        enum postgres_statement statement;
        const char *types;
    } orders[] = {
        [STATE_ENTRIES_UP] = {PG_ENTRIES_UP, "iitii"},
        [STATE_ENTRIES_DOWN] = {PG_ENTRIES_DOWN, "iitii"},
        [STATE_ENTRIES_LIVE] = {PG_ENTRIES_LIVE, "iitii"},
        [STATE_ENTRIES_NAMED] = {PG_ENTRIES_NAMED, "iitiitt"},
        [STATE_ENTRIES_MADE] = {PG_ENTRIES_MADE, "iitiit"},
        [STATE_ENTRIES_RESULT] = {PG_ENTRIES_RESULT, "iitiit"},
        [STATE_ENTRIES_MARK] = {PG_ENTRIES_MARK, "iitii"},
        [STATE_ENTRIES_MARKED] = {PG_ENTRIES_MARKED, "iitii"},
    };
    struct postgres_row row;
    int result =
        postgres_begin(state, orders[query->order].statement, &row, err, orders[query->order].types,
                       query->session, query->after, query->agent, query->limit,
                       (int64_t)query->content, query->first, query->past);
    if (result < 0)
        return result;
    while (postgres_next(&row)) {
        struct state_entry entry;
        sessions_postgres_take_entry(&row, &entry);
        if (!visit(data, &entry)) {
            postgres_end(&row);
            break;
        }
    }
    return 0;
}

static int pg_context(struct state *state, const struct state_context_query *query,
                      state_entry_fn *visit, void *data, bool *ret_found, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_CONTEXT, &row, err, "tti", query->session, query->agent,
                                query->limit);
    *ret_found = false;
    if (result < 0)
        return result;
    while (postgres_next(&row)) {
        struct state_entry entry;
        sessions_postgres_take_entry(&row, &entry);
        *ret_found = true;
        if (entry.id != NULL && !visit(data, &entry)) {
            postgres_end(&row);
            break;
        }
    }
    return 0;
}

/* How entries are told to the statement; contents are one behind the other, counted from 1. */
static void append_write(const struct state_append *append, struct kg_buf *json,
                         struct kg_buf *contents)
{
    struct kg_json_writer writer = kg_json_writer(json);
    kg_json_begin(&writer, '[');
    for (size_t i = 0; i < append->count; i++) {
        const struct state_entry *entry = &append->entries[i];
        kg_json_begin(&writer, '{');
        kg_json_named_text(&writer, "id", entry->id);
        kg_json_named_text(&writer, "agent", entry->agent);
        kg_json_named_text(&writer, "kind", entry->kind);
        kg_json_named_text(&writer, "role", entry->role);
        kg_json_named_text(&writer, "source", entry->source);
        kg_json_named_text(&writer, "parent", entry->parent);
        kg_json_named_int(&writer, "tokens", entry->tokens);
        kg_json_named_int(&writer, "start", (int64_t)contents->length + 1);
        kg_json_named_int(&writer, "bytes", (int64_t)entry->content.length);
        kg_json_end(&writer, '}');
        kg_buf_str(contents, entry->content);
    }
    kg_json_end(&writer, ']');
}

struct append_go {
    const struct postgres *postgres;
    const struct state_append *appends;
    struct kg_buf json, contents; /* of the one that is sent */
    state_appended_fn *visit;
    void *data;
};

static enum postgres_statement append_set_one(const struct state_append *append,
                                              struct postgres_parameters *all)
{
    const struct state_entry *entry = &append->entries[0];
    postgres_set(all, "tititttttttiib", append->session, append->now_ms, append->title,
                 append->most, append->told, entry->id, entry->agent, entry->kind, entry->role,
                 entry->source, entry->parent, entry->tokens, append->gap, entry->content);
    return PG_APPEND_ONE;
}

static enum postgres_statement append_set(void *data, size_t at, struct postgres_parameters *all)
{
    struct append_go *go = data;
    const struct state_append *append = &go->appends[at];
    if (append->count == 1)
        return append_set_one(append, all);
    go->json.length = go->contents.length = 0;
    append_write(append, &go->json, &go->contents);
    postgres_set(all, "ttiitiitb", append->session, kg_buf_terminate(&go->json),
                 (int64_t)append->count, append->now_ms, append->title, append->most, append->gap,
                 append->told, kg_buf_view(&go->contents));
    return PG_APPEND;
}

static void append_take(void *data, size_t at, const PGresult *rows)
{
    struct append_go *go = data;
    for (int row = 0; row < go->postgres->pq->PQntuples(rows); row++)
        go->visit(go->data, at, (size_t)row,
                  &(struct state_appended){postgres_int_at(go->postgres, rows, row, 0),
                                           postgres_text_at(go->postgres, rows, row, 1),
                                           postgres_int_at(go->postgres, rows, row, 2)});
}

static int pg_append(struct state *state, const struct state_append *appends, size_t count,
                     state_appended_fn *visit, void *data, struct kg_err *err)
{
    struct append_go all = {.postgres = &postgres_own(state)->postgres,
                            .appends = appends,
                            .visit = visit,
                            .data = data};
    const struct postgres_go go = {.count = count, .take = append_take, .data = &all};
    int result = postgres_run_all(state, append_set, &go, err);
    kg_buf_free(&all.json);
    kg_buf_free(&all.contents);
    return result;
}

static int pg_content_get(struct state *state, int64_t number, struct kg_buf *ret_bytes,
                          struct kg_err *err)
{
    struct postgres_row row;
    bool found = false;
    int result = postgres_begin(state, PG_CONTENT_GET, &row, err, "i", number);
    if (result < 0)
        return result;
    for (; postgres_next(&row); found = true)
        kg_buf_str(ret_bytes, postgres_bytes(&row, 0));
    return found ? 0
                 : kg_fail(err, KG_E_IO, "state database: content %lld of a session is not there",
                           (long long)number);
}

static int pg_entry_pin(struct state *state, int64_t session, int64_t seq, bool pinned,
                        struct kg_err *err)
{
    return postgres_run(state, PG_ENTRY_PIN, err, "iii", session, seq, (int64_t)pinned);
}

static int pg_entries_supersede(struct state *state, const struct state_seq_range *range,
                                int64_t mark, int64_t *ret_count, struct kg_err *err)
{
    const struct postgres *postgres = &postgres_own(state)->postgres;
    PGresult *rows;
    int result = postgres_query(state, PG_ENTRIES_SUPERSEDE, &rows, err, "itiii", range->session,
                                range->agent, range->first, range->last, mark);
    if (result < 0)
        return result;
    *ret_count = strtoll(postgres->pq->PQcmdTuples(rows), NULL, 10);
    postgres->pq->PQclear(rows);
    return 0;
}

static int pg_mark_undo(struct state *state, int64_t session, int64_t seq, const char *id,
                        struct kg_err *err)
{
    static const enum postgres_statement steps[] = {PG_MARK_REVIVE, PG_MARK_FALL,
                                                    PG_MARK_MADE_FALL};
    int result = 0;
    for (size_t i = 0; i < KG_COUNT(steps) && result == 0; i++)
        result = postgres_run(state, steps[i], err, steps[i] == PG_MARK_MADE_FALL ? "iit" : "ii",
                              session, seq, id);
    return result;
}

static int pg_entries_spread(struct state *state, int64_t session, const char *agent, int64_t gap,
                             struct kg_err *err)
{
    return postgres_run(state, PG_ENTRIES_SPREAD, err, "iti", session, agent, gap);
}

/* -- agents ------------------------------------------------------------------------------------ */

static int pg_agent_add(struct state *state, int64_t session, const struct state_agent *more,
                        int64_t *ret_tokens, struct kg_err *err)
{
    PGresult *rows;
    int64_t tokens = 0;
    int result = postgres_query(state, PG_AGENT_ADD, &rows, err, "itiii", session, more->path,
                                more->entries, more->tokens, more->generation);
    if (result < 0)
        return result;
    return sessions_postgres_take_number(state, rows, ret_tokens != NULL ? ret_tokens : &tokens);
}

static int pg_agent_sum(struct state *state, int64_t session, const char *path, struct kg_err *err)
{
    return postgres_run(state, PG_AGENT_SUM, err, "it", session, path);
}

static int pg_agents(struct state *state, int64_t session, const char *path, state_agent_fn *visit,
                     void *data, struct kg_err *err)
{
    struct postgres_row row;
    int result = postgres_begin(state, PG_AGENTS, &row, err, "it", session, path);
    if (result < 0)
        return result;
    while (postgres_next(&row)) {
        const struct state_agent agent = {.path = postgres_text(&row, 0),
                                          .entries = postgres_int(&row, 1),
                                          .tokens = postgres_int(&row, 2),
                                          .generation = postgres_int(&row, 3)};
        visit(data, &agent);
    }
    return 0;
}

const struct state_sessions_backend state_sessions_postgres = {
    .step = pg_step,
    .scope = pg_scope,
    .in_transaction = pg_in_transaction,
    .session_add = pg_session_add,
    .session_set = pg_session_set,
    .session_get = pg_session_get,
    .sessions = pg_sessions,
    .session_copy = pg_session_copy,
    .session_rename = pg_session_rename,
    .session_of_branch = pg_session_of_branch,
    .session_rewritten = pg_session_rewritten,
    .move_add = pg_move_add,
    .move_redone = pg_move_redone,
    .move_last = pg_move_last,
    .snapshot_add = pg_snapshot_add,
    .snapshot_remove = pg_snapshot_remove,
    .snapshots = pg_snapshots,
    .restore_begin = pg_restore_begin,
    .restore_end = pg_restore_end,
    .restores = pg_restores,
    .entry_add = pg_entry_add,
    .entries = pg_entries,
    .context = pg_context,
    .append = pg_append,
    .content_get = pg_content_get,
    .entry_pin = pg_entry_pin,
    .entries_supersede = pg_entries_supersede,
    .mark_undo = pg_mark_undo,
    .entries_spread = pg_entries_spread,
    .agent_add = pg_agent_add,
    .agent_sum = pg_agent_sum,
    .agents = pg_agents,
};
