/*
 * Sessions by SQLite. A statement is one row of a table, prepared when it is first used and reset
 * after each use, so that none holds a lock or the caller's bytes.
 */
#include "state/sqlite.h"

#include <assert.h>
#include <stdarg.h>

enum statement {
    STEP_BEGIN_WRITE,
    STEP_BEGIN_READ,
    STEP_COMMIT,
    STEP_ROLLBACK,
    STEP_SAVE,
    STEP_RETURN,
    STEP_FORGET,
    SESSION_ADD,
    SESSION_SET,
    SESSION_GET,
    SESSIONS,
    SESSIONS_OF_PROJECT,
    COPY_ENTRIES,
    COPY_AGENTS,
    CONTENT_ADD,
    CONTENT_GET,
    ENTRY_ADD,
    ENTRIES_UP,
    ENTRIES_DOWN,
    ENTRIES_LIVE,
    ENTRIES_NAMED,
    ENTRIES_MADE,
    ENTRIES_RESULT,
    ENTRIES_MARK,
    ENTRIES_MARKED,
    ENTRY_PIN,
    ENTRIES_SUPERSEDE,
    MARK_REVIVE,
    MARK_FALL,
    MARK_MADE_FALL,
    ENTRIES_SPREAD,
    AGENT_ADD,
    AGENT_SUM,
    AGENTS,
    STATEMENT_COUNT
};
static_assert(STATEMENT_COUNT <= STATE_SQLITE_SESSIONS, "each statement has its place");

#define SESSION_COLUMNS                                                                            \
    "SELECT number, id, project_id, workdir, seat, state, operator_id, parent, parent_entry, "     \
    "created_ms, updated_ms, entries FROM session "

/* The content is looked up only where ?5 asks for it. Without statistics SQLite has to be told. */
#define ENTRIES_BY(index)                                                                          \
    "SELECT seq, id, agent, kind, role, source, parent, rank, superseded, pinned, created_ms, "    \
    "tokens, bytes, content, CASE WHEN ?5 THEN (SELECT bytes FROM session_content "                \
    "WHERE number = content) END FROM session_entry " index " WHERE session = ?1 "
#define ENTRY_COLUMNS ENTRIES_BY("")

static const struct {
    const char *act; /* for messages */
    const char *sql;
} statement_rows[STATEMENT_COUNT] = {
    [STEP_BEGIN_WRITE] = {"begin to write", "BEGIN IMMEDIATE"},
    [STEP_BEGIN_READ] = {"begin to read", "BEGIN"},
    [STEP_COMMIT] = {"commit", "COMMIT"},
    [STEP_ROLLBACK] = {"roll back", "ROLLBACK"},
    [STEP_SAVE] = {"mark a place", "SAVEPOINT place"},
    [STEP_RETURN] = {"return to a place", "ROLLBACK TO place"},
    [STEP_FORGET] = {"forget a place", "RELEASE place"},
    [SESSION_ADD] = {"add a session",
                     "INSERT INTO session (id, project_id, workdir, seat, state, operator_id, "
                     "parent, parent_entry, created_ms, updated_ms, entries) "
                     "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"},
    [SESSION_SET] = {"change a session", "UPDATE session SET seat = ?2, state = ?3, "
                                         "updated_ms = ?4, entries = ?5 WHERE number = ?1"},
    [SESSION_GET] = {"read a session", SESSION_COLUMNS "WHERE id = ?1"},
    [SESSIONS] = {"read sessions",
                  SESSION_COLUMNS "WHERE id >= ?1 AND id < ?2 AND (?3 IS NULL OR state = ?3) "
                                  "ORDER BY id DESC LIMIT ?4"},
    [SESSIONS_OF_PROJECT] = {"read a project's sessions", SESSION_COLUMNS
                             "WHERE project_id = ?5 AND id >= ?1 AND id < ?2 AND "
                             "(?3 IS NULL OR state = ?3) ORDER BY id DESC LIMIT ?4"},
    [COPY_ENTRIES] = {"copy a session's entries",
                      "INSERT INTO session_entry SELECT ?2, seq, id, agent, kind, role, source, "
                      "parent, rank, CASE WHEN superseded <= ?3 THEN superseded END, pinned, "
                      "created_ms, tokens, bytes, content FROM session_entry "
                      "WHERE session = ?1 AND seq <= ?3"},
    [COPY_AGENTS] = {"add up a copied session",
                     "INSERT INTO session_agent SELECT ?1, agent, "
                     "count(*) FILTER (WHERE superseded IS NULL AND tokens > 0), "
                     "coalesce(sum(tokens) FILTER (WHERE superseded IS NULL), 0), 0 "
                     "FROM session_entry WHERE session = ?1 GROUP BY agent"},
    [CONTENT_ADD] = {"add content", "INSERT INTO session_content (bytes) VALUES (?1)"},
    [CONTENT_GET] = {"read content", "SELECT bytes FROM session_content WHERE number = ?1"},
    [ENTRY_ADD] = {"add an entry",
                   "INSERT INTO session_entry (session, seq, id, agent, kind, role, source, "
                   "parent, rank, superseded, pinned, created_ms, tokens, bytes, content) VALUES "
                   "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, NULL, ?10, ?11, ?12, ?13, "
                   "last_insert_rowid())"},
    [ENTRIES_UP] = {"read entries", ENTRY_COLUMNS "AND seq > ?2 AND (?3 IS NULL OR agent = ?3) "
                                                  "ORDER BY seq LIMIT ?4"},
    [ENTRIES_DOWN] = {"read entries", ENTRY_COLUMNS "AND seq < ?2 AND (?3 IS NULL OR agent = ?3) "
                                                    "ORDER BY seq DESC LIMIT ?4"},
    [ENTRIES_LIVE] = {"read a context",
                      ENTRY_COLUMNS "AND agent = ?3 AND superseded IS NULL ORDER BY rank, seq "
                                    "LIMIT ?4"},
    [ENTRIES_NAMED] = {"find an entry",
                       ENTRY_COLUMNS "AND id >= ?6 AND id < ?7 ORDER BY id LIMIT ?4"},
    [ENTRIES_MADE] =
        {"read what a compaction made",
         ENTRIES_BY("INDEXED BY session_entry_made") "AND parent = ?6 AND kind <> 'tool_result' "
                                                     "ORDER BY seq LIMIT ?4"},
    [ENTRIES_RESULT] = {"find a result",
                        ENTRY_COLUMNS "AND parent = ?6 AND kind = 'tool_result' LIMIT ?4"},
    [ENTRIES_MARK] =
        {"read marks of compactions",
         ENTRIES_BY(
             "INDEXED BY session_entry_mark") "AND agent = ?3 AND kind IN ('compaction', "
                                              "'checkpoint') AND "
                                              "superseded IS NULL ORDER BY seq DESC LIMIT ?4"},
    [ENTRIES_MARKED] = {"read marks of compactions",
                        ENTRIES_BY("INDEXED BY session_entry_mark") "AND agent = ?3 AND kind IN "
                                                                    "('compaction', 'checkpoint') "
                                                                    "ORDER BY seq DESC LIMIT ?4"},
    [ENTRY_PIN] = {"pin an entry",
                   "UPDATE session_entry SET pinned = ?3 WHERE session = ?1 AND seq = ?2"},
    [ENTRIES_SUPERSEDE] = {"supersede entries",
                           "UPDATE session_entry SET superseded = ?5 WHERE session = ?1 AND "
                           "seq BETWEEN ?3 AND ?4 AND agent = ?2 AND superseded IS NULL AND "
                           "pinned = 0 AND tokens > 0"},
    [MARK_REVIVE] = {"undo a compaction", "UPDATE session_entry SET superseded = NULL "
                                          "WHERE session = ?1 AND superseded = ?2"},
    [MARK_FALL] = {"undo a compaction",
                   "UPDATE session_entry SET superseded = ?2 WHERE session = ?1 AND seq = ?2"},
    [MARK_MADE_FALL] = {"undo a compaction",
                        "UPDATE session_entry INDEXED BY session_entry_made SET superseded = ?2 "
                        "WHERE session = ?1 AND "
                        "parent = ?3 AND kind <> 'tool_result'"},
    [ENTRIES_SPREAD] = {"spread the ranks of a context",
                        "UPDATE session_entry SET rank = place * ?3 FROM (SELECT seq AS s, "
                        "row_number() OVER (ORDER BY rank, seq) AS place FROM session_entry "
                        "WHERE session = ?1 AND agent = ?2) WHERE session = ?1 AND seq = s"},
    [AGENT_ADD] = {"add to an agent's sums",
                   "INSERT INTO session_agent VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE "
                   "SET entries = entries + ?3, tokens = tokens + ?4, "
                   "generation = generation + ?5 RETURNING tokens"},
    [AGENT_SUM] = {"add up a context",
                   "INSERT INTO session_agent SELECT ?1, ?2, count(*), coalesce(sum(tokens), 0), "
                   "0 FROM session_entry WHERE session = ?1 AND agent = ?2 AND "
                   "superseded IS NULL AND tokens > 0 ON CONFLICT DO UPDATE SET "
                   "entries = excluded.entries, tokens = excluded.tokens"},
    [AGENTS] = {"read a session's agents",
                "SELECT path, entries, tokens, generation FROM session_agent WHERE session = ?1 "
                "AND (?2 IS NULL OR path = ?2) ORDER BY path"},
};

/* -- statements -------------------------------------------------------------------------------- */

static int ready(struct state *state, enum statement which, struct kg_err *err)
{
    sqlite3_stmt **statement = &state_sqlite_sessions(state)[which];
    if (*statement != NULL)
        return 0;
    int code = sqlite3_prepare_v3(state_sqlite_handle(state), statement_rows[which].sql, -1,
                                  SQLITE_PREPARE_PERSISTENT, statement, NULL);
    return code == SQLITE_OK ? 0 : state_sqlite_fail(state, code, statement_rows[which].act, err);
}

/* A word for each parameter, in order: 'i' an int64_t, 't' a text or NULL, 'b' bytes. */
static void bind_all(sqlite3_stmt *statement, const char *types, va_list args)
{
    for (int at = 1; *types != '\0'; at++, types++) {
        if (*types == 'i') {
            sqlite3_bind_int64(statement, at, va_arg(args, int64_t));
        } else if (*types == 't') {
            sqlite3_bind_text(statement, at, va_arg(args, const char *), -1, SQLITE_STATIC);
        } else {
            struct kg_str bytes = va_arg(args, struct kg_str);
            sqlite3_bind_blob64(statement, at, bytes.length ? bytes.data : "", bytes.length,
                                SQLITE_STATIC);
        }
    }
}

static int start(struct state *state, enum statement which, struct kg_err *err, const char *types,
                 ...)
{
    int result = ready(state, which, err);
    if (result < 0)
        return result;
    va_list args;
    va_start(args, types);
    bind_all(state_sqlite_sessions(state)[which], types, args);
    va_end(args);
    return 0;
}

static int finish(struct state *state, enum statement which, int code, struct kg_err *err)
{
    sqlite3_stmt *statement = state_sqlite_sessions(state)[which];
    int result = 0;
    if (code != SQLITE_DONE && code != SQLITE_ROW)
        result = state_sqlite_fail(state, code, statement_rows[which].act, err);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return result;
}

/* One that gives no rows. `started` is what start said. */
static int run(struct state *state, enum statement which, int started, struct kg_err *err)
{
    if (started < 0)
        return started;
    return finish(state, which, sqlite3_step(state_sqlite_sessions(state)[which]), err);
}

static const char *text_at(sqlite3_stmt *row, int column)
{
    return (const char *)sqlite3_column_text(row, column);
}

/* -- transactions ------------------------------------------------------------------------------ */

static int sqlite_step(struct state *state, enum state_step step, struct kg_err *err)
{
    static const enum statement statements[] = {
        [STATE_BEGIN_WRITE] = STEP_BEGIN_WRITE,
        [STATE_BEGIN_READ] = STEP_BEGIN_READ,
        [STATE_COMMIT] = STEP_COMMIT,
        [STATE_ROLLBACK] = STEP_ROLLBACK,
        [STATE_SAVE] = STEP_SAVE,
        [STATE_RETURN] = STEP_RETURN,
        [STATE_FORGET] = STEP_FORGET,
    };
    enum statement which = statements[step];
    int result = run(state, which, start(state, which, err, ""), err);
    if (result == 0 && step == STATE_RETURN) /* the place is still there, as if nothing was done */
        result = run(state, STEP_FORGET, start(state, STEP_FORGET, err, ""), err);
    return result;
}

static bool sqlite_in_transaction(struct state *state)
{
    return !sqlite3_get_autocommit(state_sqlite_handle(state));
}

/* -- sessions ---------------------------------------------------------------------------------- */

static int sqlite_session_add(struct state *state, const struct state_session *session,
                              int64_t *ret_number, struct kg_err *err)
{
    int result = run(state, SESSION_ADD,
                     start(state, SESSION_ADD, err, "ttttttttiii", session->id, session->project_id,
                           session->workdir, session->seat, session->state, session->operator_id,
                           session->parent, session->parent_entry, session->created_ms,
                           session->updated_ms, session->entries),
                     err);
    if (result == 0)
        *ret_number = sqlite3_last_insert_rowid(state_sqlite_handle(state));
    return result;
}

static int sqlite_session_set(struct state *state, const struct state_session *session,
                              struct kg_err *err)
{
    return run(state, SESSION_SET,
               start(state, SESSION_SET, err, "ittii", session->number, session->seat,
                     session->state, session->updated_ms, session->entries),
               err);
}

/* Steps through the rows of a statement that was started. */
static int visit_sessions(struct state *state, enum statement which, state_session_fn *visit,
                          void *data, struct kg_err *err)
{
    sqlite3_stmt *row = state_sqlite_sessions(state)[which];
    int code;
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        const struct state_session session = {
            .number = sqlite3_column_int64(row, 0),
            .id = text_at(row, 1),
            .project_id = text_at(row, 2),
            .workdir = text_at(row, 3),
            .seat = text_at(row, 4),
            .state = text_at(row, 5),
            .operator_id = text_at(row, 6),
            .parent = text_at(row, 7),
            .parent_entry = text_at(row, 8),
            .created_ms = sqlite3_column_int64(row, 9),
            .updated_ms = sqlite3_column_int64(row, 10),
            .entries = sqlite3_column_int64(row, 11),
        };
        visit(data, &session);
    }
    return finish(state, which, code, err);
}

static int sqlite_session_get(struct state *state, const char *id, state_session_fn *visit,
                              void *data, struct kg_err *err)
{
    int result = start(state, SESSION_GET, err, "t", id);
    return result < 0 ? result : visit_sessions(state, SESSION_GET, visit, data, err);
}

static int sqlite_sessions(struct state *state, const struct state_session_query *query,
                           state_session_fn *visit, void *data, struct kg_err *err)
{
    enum statement which = query->project_id ? SESSIONS_OF_PROJECT : SESSIONS;
    int result = start(state, which, err, query->project_id ? "tttit" : "ttti", query->first,
                       query->past, query->state, query->limit, query->project_id);
    return result < 0 ? result : visit_sessions(state, which, visit, data, err);
}

static int sqlite_session_copy(struct state *state, int64_t from, int64_t to, int64_t cut,
                               struct kg_err *err)
{
    int result =
        run(state, COPY_ENTRIES, start(state, COPY_ENTRIES, err, "iii", from, to, cut), err);
    if (result < 0)
        return result;
    return run(state, COPY_AGENTS, start(state, COPY_AGENTS, err, "i", to), err);
}

/* -- entries ----------------------------------------------------------------------------------- */

static int sqlite_entry_add(struct state *state, int64_t session, const struct state_entry *entry,
                            struct kg_err *err)
{
    int result = run(state, CONTENT_ADD, start(state, CONTENT_ADD, err, "b", entry->content), err);
    if (result < 0)
        return result;
    return run(state, ENTRY_ADD,
               start(state, ENTRY_ADD, err,
                     "iitttttt"
                     "iiiii",
                     session, entry->seq, entry->id, entry->agent, entry->kind, entry->role,
                     entry->source, entry->parent, entry->rank, (int64_t)entry->pinned,
                     entry->created_ms, entry->tokens, (int64_t)entry->content.length),
               err);
}

static void take_entry(sqlite3_stmt *row, struct state_entry *ret_entry)
{
    *ret_entry = (struct state_entry){
        .seq = sqlite3_column_int64(row, 0),
        .id = text_at(row, 1),
        .agent = text_at(row, 2),
        .kind = text_at(row, 3),
        .role = text_at(row, 4),
        .source = text_at(row, 5),
        .parent = text_at(row, 6),
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
    int result =
        start(state, which, err, rows[query->order].types, query->session, query->after,
              query->agent, query->limit, (int64_t)query->content, query->first, query->past);
    if (result < 0)
        return result;
    sqlite3_stmt *row = state_sqlite_sessions(state)[which];
    struct state_entry entry;
    int code;
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        take_entry(row, &entry);
        if (!visit(data, &entry))
            break;
    }
    return finish(state, which, code, err);
}

static int sqlite_content_get(struct state *state, int64_t number, struct kg_buf *ret_bytes,
                              struct kg_err *err)
{
    int result = start(state, CONTENT_GET, err, "i", number);
    if (result < 0)
        return result;
    sqlite3_stmt *row = state_sqlite_sessions(state)[CONTENT_GET];
    int code = sqlite3_step(row);
    if (code == SQLITE_ROW)
        kg_buf_append(ret_bytes, sqlite3_column_blob(row, 0), (size_t)sqlite3_column_bytes(row, 0));
    result = finish(state, CONTENT_GET, code, err);
    if (result == 0 && code != SQLITE_ROW)
        return kg_fail(err, KG_E_IO, "state database: content %lld of a session is not there",
                       (long long)number);
    return result;
}

static int sqlite_entry_pin(struct state *state, int64_t session, int64_t seq, bool pinned,
                            struct kg_err *err)
{
    return run(state, ENTRY_PIN, start(state, ENTRY_PIN, err, "iii", session, seq, (int64_t)pinned),
               err);
}

static int sqlite_entries_supersede(struct state *state, const struct state_seq_range *range,
                                    int64_t mark, int64_t *ret_count, struct kg_err *err)
{
    int result = run(state, ENTRIES_SUPERSEDE,
                     start(state, ENTRIES_SUPERSEDE, err, "itiii", range->session, range->agent,
                           range->first, range->last, mark),
                     err);
    if (result == 0)
        *ret_count = sqlite3_changes64(state_sqlite_handle(state));
    return result;
}

static int sqlite_mark_undo(struct state *state, int64_t session, int64_t seq, const char *id,
                            struct kg_err *err)
{
    static const enum statement steps[] = {MARK_REVIVE, MARK_FALL, MARK_MADE_FALL};
    int result = 0;
    for (size_t i = 0; i < KG_COUNT(steps) && result == 0; i++)
        result = run(state, steps[i],
                     start(state, steps[i], err, steps[i] == MARK_MADE_FALL ? "iit" : "ii", session,
                           seq, id),
                     err);
    return result;
}

static int sqlite_entries_spread(struct state *state, int64_t session, const char *agent,
                                 int64_t gap, struct kg_err *err)
{
    return run(state, ENTRIES_SPREAD, start(state, ENTRIES_SPREAD, err, "iti", session, agent, gap),
               err);
}

/* -- agents ------------------------------------------------------------------------------------ */

static int sqlite_agent_add(struct state *state, int64_t session, const struct state_agent *more,
                            int64_t *ret_tokens, struct kg_err *err)
{
    int result = start(state, AGENT_ADD, err, "itiii", session, more->path, more->entries,
                       more->tokens, more->generation);
    if (result < 0)
        return result;
    sqlite3_stmt *row = state_sqlite_sessions(state)[AGENT_ADD];
    int code = sqlite3_step(row);
    if (code == SQLITE_ROW && ret_tokens != NULL)
        *ret_tokens = sqlite3_column_int64(row, 0);
    return finish(state, AGENT_ADD, code, err);
}

static int sqlite_agent_sum(struct state *state, int64_t session, const char *path,
                            struct kg_err *err)
{
    return run(state, AGENT_SUM, start(state, AGENT_SUM, err, "it", session, path), err);
}

static int sqlite_agents(struct state *state, int64_t session, const char *path,
                         state_agent_fn *visit, void *data, struct kg_err *err)
{
    int result = start(state, AGENTS, err, "it", session, path);
    if (result < 0)
        return result;
    sqlite3_stmt *row = state_sqlite_sessions(state)[AGENTS];
    int code;
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        const struct state_agent agent = {.path = text_at(row, 0),
                                          .entries = sqlite3_column_int64(row, 1),
                                          .tokens = sqlite3_column_int64(row, 2),
                                          .generation = sqlite3_column_int64(row, 3)};
        visit(data, &agent);
    }
    return finish(state, AGENTS, code, err);
}

const struct state_sessions_backend state_sessions_sqlite = {
    .step = sqlite_step,
    .in_transaction = sqlite_in_transaction,
    .session_add = sqlite_session_add,
    .session_set = sqlite_session_set,
    .session_get = sqlite_session_get,
    .sessions = sqlite_sessions,
    .session_copy = sqlite_session_copy,
    .entry_add = sqlite_entry_add,
    .entries = sqlite_entries,
    .content_get = sqlite_content_get,
    .entry_pin = sqlite_entry_pin,
    .entries_supersede = sqlite_entries_supersede,
    .mark_undo = sqlite_mark_undo,
    .entries_spread = sqlite_entries_spread,
    .agent_add = sqlite_agent_add,
    .agent_sum = sqlite_agent_sum,
    .agents = sqlite_agents,
};
