/*
 * All that is asked of kaged.db by SQLite: a statement is one row of a table, prepared when it is
 * first used and reset after each use, so that none holds a lock or the caller's bytes.
 */
#include "base/disk.h"
#include "state/sqlite.h"

#include <errno.h>
#include <stdarg.h>

#define SESSION_COLUMNS                                                                            \
    "SELECT number, id, project_id, workdir, seat, state, operator_id, parent, parent_entry, "     \
    "created_ms, updated_ms, entries, title, branch, left_by FROM session "

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
    [HEAD_GET] = {"read the audit head", "SELECT first_block, first_prev, block, events, hash, "
                                         "signature FROM audit_head WHERE id = 1"},
    [HEAD_SET] = {"write the audit head", "INSERT OR REPLACE INTO audit_head (id, first_block, "
                                          "first_prev, block, events, hash, signature) "
                                          "VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)"},
    [CHOICE_SET] = {"write a plugin's choice",
                    "INSERT OR REPLACE INTO plugin_choice (plugin, enabled) VALUES (?1, ?2)"},
    [CHOICE_CLEAR] = {"clear a plugin's choice", "DELETE FROM plugin_choice WHERE plugin = ?1"},
    [CHOICES] = {"read the plugins' choices", "SELECT plugin, enabled FROM plugin_choice"},
    [FAILURE_SET] = {"write that a plugin failed",
                     "INSERT OR REPLACE INTO plugin_failure (process, reason) VALUES (?1, ?2)"},
    [FAILURE_CLEAR] = {"forget that a plugin failed",
                       "DELETE FROM plugin_failure WHERE process = ?1 "
                       "OR substr(process, 1, length(?1) + 1) = ?1 || '@'"},
    [FAILURES] = {"read which plugins failed", "SELECT process, reason FROM plugin_failure"},
    [SCRIPT_GRANT_SET] = {"write which file a script's grants are for",
                          "INSERT OR REPLACE INTO script_grant (script, hash) VALUES (?1, ?2)"},
    [SCRIPT_GRANT_CLEAR] = {"forget which file a script's grants are for",
                            "DELETE FROM script_grant WHERE script = ?1"},
    [SCRIPT_GRANTS] = {"read which files grants are for", "SELECT script, hash FROM script_grant"},
    [PROMPT_SET] = {"write what a project's prompt is",
                    "INSERT OR REPLACE INTO project_prompt (project, path, hash) "
                    "VALUES (?1, ?2, ?3)"},
    [PROMPTS] = {"read what projects' prompts are",
                 "SELECT project, path, hash FROM project_prompt"},
    [QUESTION_SET] = {"write a question",
                      "INSERT OR REPLACE INTO question (id, session, agent, plugin, kind, title, "
                      "schema, url, asked_ms, deadline_ms, state, answered_by, ended_ms) "
                      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"},
    [QUESTIONS_CUT] = {"forget the oldest questions",
                       "DELETE FROM question WHERE session = ?1 AND id <= (SELECT id FROM question "
                       "WHERE session = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)"},
    [QUESTIONS] = {"read the questions",
                   "SELECT id, session, agent, plugin, kind, title, schema, url, asked_ms, "
                   "deadline_ms, state, answered_by, ended_ms FROM question WHERE session = ?1 "
                   "ORDER BY id"},
    [CREDENTIAL_ADD] = {"add a credential",
                        "INSERT INTO credential (id, kind, hash, name, scopes, operator_id, "
                        "created_ms, expires_ms, profile, principal) "
                        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"},
    [CREDENTIAL_REMOVE] = {"remove a credential", "DELETE FROM credential WHERE id = ?1"},
    [CREDENTIALS] = {"read the credentials",
                     "SELECT id, kind, hash, name, scopes, operator_id, created_ms, expires_ms, "
                     "profile, principal FROM credential ORDER BY id"},
    [MCP_SETTING_SET] = {"write what MCP clients may use",
                         "INSERT OR REPLACE INTO mcp_setting (kind, name, value) "
                         "VALUES (?1, ?2, ?3)"},
    [MCP_SETTING_REMOVE] = {"remove what MCP clients may use",
                            "DELETE FROM mcp_setting WHERE kind = ?1 AND name = ?2"},
    [MCP_SETTINGS] = {"read what MCP clients may use",
                      "SELECT kind, name, value FROM mcp_setting ORDER BY kind, name"},
    [MCP_CALLS_ADD] = {"write what MCP clients called",
                       "INSERT INTO mcp_call (at_ms, client, owner, operator_id, project, plugin, "
                       "tool, bytes_in, bytes_out, duration_ms, outcome, arguments, result, size) "
                       "SELECT value ->> 'at_ms', value ->> 'client', value ->> 'owner', "
                       "value ->> 'operator', value ->> 'project', value ->> 'plugin', "
                       "value ->> 'tool', value ->> 'bytes_in', value ->> 'bytes_out', "
                       "value ->> 'duration_ms', value ->> 'outcome', value ->> 'arguments', "
                       "value ->> 'result', length(value) FROM json_each(?1)"},
    [MCP_CALLS_EXPIRE] = {"forget what MCP clients called long ago",
                          "DELETE FROM mcp_call WHERE at_ms < ?1"},
    [MCP_CALLS_BOUND] = {"bound what MCP clients called",
                         "DELETE FROM mcp_call WHERE id <= (SELECT max(id) FROM (SELECT id, "
                         "sum(size) OVER (ORDER BY id DESC) AS above FROM mcp_call) "
                         "WHERE above > ?1)"},
    [MCP_CALLS] = {"read what MCP clients called",
                   "SELECT id, at_ms, client, owner, operator_id, project, plugin, tool, "
                   "bytes_in, bytes_out, duration_ms, outcome, arguments, result FROM mcp_call "
                   "WHERE (?1 IS NULL OR substr(client, 1, length(?1)) = ?1) "
                   "AND (?2 IS NULL OR plugin || '.' || tool GLOB ?2 OR plugin = ?2) "
                   "AND at_ms >= ?3 AND id < ?4 ORDER BY id DESC LIMIT ?5"},
    [CONSENT_SET] = {"write a consent",
                     "INSERT OR REPLACE INTO consent (id, kind, state, project, plugin, source, "
                     "base, version, reason, answered_by, raised_ms, changed_ms) "
                     "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"},
    [CONSENT_REMOVE] = {"remove a consent", "DELETE FROM consent WHERE id = ?1"},
    [CONSENTS] = {"read the consents",
                  "SELECT id, kind, state, project, plugin, source, base, version, reason, "
                  "answered_by, raised_ms, changed_ms FROM consent ORDER BY id"},
    [ACTIVATION_SET] = {"write an activation",
                        "INSERT OR REPLACE INTO activation (project, plugin, consent, "
                        "operator_id, at_ms) VALUES (?1, ?2, ?3, ?4, ?5)"},
    [ACTIVATION_REMOVE] = {"remove an activation", "DELETE FROM activation WHERE plugin = ?2 AND "
                                                   "(?1 IS NULL OR project = ?1)"},
    [ACTIVATIONS] = {"read the activations",
                     "SELECT project, plugin, consent, operator_id, at_ms FROM activation"},
    [ACTIVATION_MOVED] = {"remove the activations of another folder",
                          "DELETE FROM activation WHERE project = ?1 AND EXISTS (SELECT 1 FROM "
                          "project WHERE id = ?1 AND root <> ?2)"},
    [PROJECT_SET] = {"write a project",
                     "INSERT OR REPLACE INTO project (id, root, file, operator_id, watched, "
                     "loaded_ms) VALUES (?1, ?2, ?3, ?4, ?5, nullif(?6, 0))"},
    [PROJECTS] = {"read the projects",
                  "SELECT id, root, file, operator_id, watched, loaded_ms FROM project "
                  "ORDER BY id"},
    [PROJECTS_MOVE] = {"move the projects",
                       "UPDATE project SET root = ?2 || substr(root, length(?1) + 1) "
                       "WHERE root = ?1 OR substr(root, 1, length(?1) + 1) = ?1 || '/'"},
    [CONSENTS_MOVE] = {"move the consents",
                       "UPDATE consent SET base = ?2 || substr(base, length(?1) + 1) "
                       "WHERE base = ?1 OR substr(base, 1, length(?1) + 1) = ?1 || '/'"},
    [SESSIONS_MOVE] = {"move the sessions",
                       "UPDATE session SET workdir = ?2 || substr(workdir, length(?1) + 1) "
                       "WHERE workdir = ?1 OR substr(workdir, 1, length(?1) + 1) = ?1 || '/'"},
    [STEP_BEGIN_WRITE] = {"begin to write", "BEGIN IMMEDIATE"},
    [STEP_BEGIN_READ] = {"begin to read", "BEGIN"},
    [STEP_COMMIT] = {"commit", "COMMIT"},
    [STEP_ROLLBACK] = {"roll back", "ROLLBACK"},
    [STEP_SAVE] = {"mark a place", "SAVEPOINT place"},
    [STEP_RETURN] = {"return to a place", "ROLLBACK TO place"},
    [STEP_SYNC_EACH] = {"sync each commit", "PRAGMA synchronous = FULL"},
    [STEP_SYNC_LATER] = {"sync commits later", "PRAGMA synchronous = NORMAL"},
    [STEP_FORGET] = {"forget a place", "RELEASE place"},
    [SESSION_ADD] = {"add a session",
                     "INSERT INTO session (id, project_id, workdir, seat, state, operator_id, "
                     "parent, parent_entry, created_ms, updated_ms, entries, title, "
                     "branch, left_by) "
                     "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"},
    [SESSION_SET] = {"change a session", "UPDATE session SET seat = ?2, updated_ms = ?4, "
                                         "entries = ?5, title = ?6 WHERE number = ?1 AND "
                                         "state = ?3"},
    [SESSION_SET_STATE] = {"change a session", "UPDATE session SET state = ?2 WHERE number = ?1"},
    [SESSION_RENAME] = {"name a branch", "UPDATE session SET id = ?2, left_by = ?3, state = ?4 "
                                         "WHERE number = ?1"},
    [SESSION_GET] = {"read a session", SESSION_COLUMNS "WHERE id = ?1"},
    [SESSION_OF_BRANCH] = {"read a branch", SESSION_COLUMNS "WHERE branch = ?1"},
    [SESSIONS] = {"read sessions",
                  SESSION_COLUMNS "WHERE id >= ?1 AND id < ?2 AND (?3 IS NULL OR state = ?3) "
                                  "AND (?5 OR left_by IS NULL) ORDER BY id DESC LIMIT ?4"},
    [SESSIONS_OF_PROJECT] = {"read a project's sessions", SESSION_COLUMNS
                             "WHERE project_id = ?6 AND id >= ?1 AND id < ?2 AND "
                             "(?3 IS NULL OR state = ?3) AND (?5 OR left_by IS NULL) "
                             "AND (?7 IS NULL OR operator_id = ?7) ORDER BY id DESC LIMIT ?4"},
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
    [AGENTS_REWRITTEN] = {"tell a branch's contexts from another's",
                          "UPDATE session_agent SET generation = 1 + max(generation, coalesce("
                          "(SELECT max(generation) FROM session_agent WHERE session = ?1), 0)) "
                          "WHERE session = ?2"},
    [MOVE_ADD] = {"write a move",
                  "INSERT INTO session_move (session, act, from_branch, to_branch, entry, "
                  "snapshot, redone, at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7)"},
    [MOVE_REDONE] = {"write that a move was taken back",
                     "UPDATE session_move SET redone = 1 WHERE number = ?1"},
    [MOVE_LAST] = {"read the last move",
                   "SELECT number, act, from_branch, to_branch, entry, snapshot, at_ms "
                   "FROM session_move WHERE session = ?1 AND redone = 0 AND "
                   "act IN ('undo', 'rewind', 'fork') ORDER BY number DESC LIMIT 1"},
    [MOVES_COUNT] = {"count the moves",
                     "SELECT count(*) FROM session_move WHERE session = ?1 AND redone = 0 AND "
                     "act IN ('undo', 'rewind', 'fork')"},
    [SNAPSHOT_ADD] = {"write a snapshot",
                      "INSERT INTO session_snapshot (id, session, entry, folder, way, tree, files, "
                      "bytes, left_out, at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"},
    [SNAPSHOT_REMOVE] = {"forget a snapshot", "DELETE FROM session_snapshot WHERE id = ?1"},
    [SNAPSHOTS] = {"read the snapshots",
                   "SELECT id, session, entry, folder, way, tree, files, bytes, left_out, at_ms "
                   "FROM session_snapshot WHERE session = ?1 AND (?2 IS NULL OR entry = ?2) "
                   "AND (?3 IS NULL OR id = ?3) ORDER BY id DESC LIMIT ?4"},
    [RESTORE_BEGIN] = {"note that files are put back",
                       "INSERT OR REPLACE INTO session_restore (session, snapshot, at_ms) "
                       "VALUES (?1, ?2, ?3)"},
    [RESTORE_END] = {"note that files were put back",
                     "DELETE FROM session_restore WHERE session = ?1"},
    [RESTORES] = {"read which files are put back", "SELECT session, snapshot FROM session_restore"},
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
    [CONTEXT] = {"read a context",
                 "SELECT seq, e.id, agent, kind, role, source, e.parent, rank, superseded, pinned, "
                 "e.created_ms, tokens, e.bytes, content, (SELECT bytes FROM session_content "
                 "WHERE number = content) FROM session s LEFT JOIN session_entry e "
                 "ON e.session = s.number AND e.agent = ?2 AND e.superseded IS NULL "
                 "WHERE s.id = ?1 ORDER BY rank, seq LIMIT ?3"},
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
    [AGENT_ADD] = {"add an agent's sums", "INSERT INTO session_agent VALUES (?1, ?2, ?3, ?4, ?5)"},
    [AGENT_MORE] = {"add to an agent's sums",
                    "UPDATE session_agent SET entries = entries + ?3, tokens = tokens + ?4, "
                    "generation = generation + ?5 WHERE session = ?1 AND path = ?2"},
    [AGENT_TOKENS] = {"read an agent's sums",
                      "SELECT tokens FROM session_agent WHERE session = ?1 AND path = ?2"},
    [AGENT_SUM] = {"add up a context",
                   "INSERT INTO session_agent SELECT ?1, ?2, count(*), coalesce(sum(tokens), 0), "
                   "0 FROM session_entry WHERE session = ?1 AND agent = ?2 AND "
                   "superseded IS NULL AND tokens > 0 ON CONFLICT DO UPDATE SET "
                   "entries = excluded.entries, tokens = excluded.tokens"},
    [AGENTS] = {"read a session's agents",
                "SELECT path, entries, tokens, generation FROM session_agent WHERE session = ?1 "
                "AND (?2 IS NULL OR path = ?2) ORDER BY path"},
    [ORG_SET] = {"write an org",
                 "INSERT INTO org (id, name, domain, active, deleted, profile, settings, quota, "
                 "created_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO "
                 "UPDATE SET name = ?2, domain = ?3, active = ?4, deleted = ?5, profile = ?6, "
                 "settings = ?7, quota = ?8"},
    [ORGS] = {"read the orgs", "SELECT id, name, domain, active, deleted, profile, settings, "
                               "quota, created_ms FROM org ORDER BY id"},
    [PRINCIPAL_SET] = {"write a principal",
                       "INSERT INTO principal (id, name, email, sys_admin, created_ms) "
                       "VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (id) DO "
                       "UPDATE SET name = ?2, email = ?3, sys_admin = ?4"},
    [PRINCIPALS] = {"read the principals",
                    "SELECT id, name, email, sys_admin, created_ms FROM principal ORDER BY id"},
    [MEMBER_SET] = {"write a member",
                    "INSERT INTO org_member (org, principal, is_admin, created_ms) "
                    "VALUES (?1, ?2, ?3, ?4) ON CONFLICT (org, principal) DO "
                    "UPDATE SET is_admin = ?3"},
    [MEMBER_REMOVE] = {"remove a member",
                       "DELETE FROM org_member WHERE org = ?1 AND principal = ?2"},
    [PACKAGE_ADD] = {"add a package",
                     "INSERT INTO package (id, org, pid, version, object, bytes, enabled, "
                     "is_latest, card, document, uploaded_by, created_ms) "
                     "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?10, ?11)"},
    [PACKAGE_SET_ENABLED] = {"change a package",
                             "UPDATE package SET enabled = ?3 WHERE org = ?1 AND id = ?2"},
    [PACKAGE_NO_LATEST] = {"change a package", "UPDATE package SET is_latest = 0 "
                                               "WHERE org = ?1 AND pid = ?2 AND is_latest = 1"},
    [PACKAGE_SET_LATEST] = {"change a package",
                            "UPDATE package SET is_latest = 1 WHERE org = ?1 AND id = ?2"},
    [PACKAGES] = {"read the packages",
                  "SELECT id, org, pid, version, object, bytes, enabled, is_latest, card, "
                  "CASE WHEN ?10 THEN document END, uploaded_by, created_ms FROM package "
                  "WHERE org IN (CASE WHEN ?3 THEN NULL ELSE ?1 END, CASE WHEN ?2 THEN '' END) "
                  "AND (?4 IS NULL OR pid = ?4) AND (?5 IS NULL OR id = ?5) "
                  "AND (?6 IS NULL OR version = ?6) AND (NOT ?7 OR is_latest = 1) "
                  "AND (enabled = 1 OR NOT (?8 OR (?9 AND org = ''))) "
                  "ORDER BY pid, org, created_ms, id"},
    [PACKAGE_SETTING_SET] = {"write settings of a package",
                             "INSERT INTO package_setting (org, pid, value) VALUES (?1, ?2, ?3) "
                             "ON CONFLICT (org, pid) DO UPDATE SET value = ?3"},
    [PACKAGE_SETTING_REMOVE] = {"remove settings of a package",
                                "DELETE FROM package_setting WHERE org = ?1 AND pid = ?2"},
    [PACKAGE_SETTINGS] = {"read settings of packages",
                          "SELECT org, pid, value FROM package_setting "
                          "WHERE (?1 IS NULL OR org = ?1) AND (?2 IS NULL OR pid = ?2) "
                          "ORDER BY org, pid"},
    [PACKAGE_GRANT_SET] = {"write a grant of a package",
                           "INSERT INTO package_grant (org, pid, capability, granted_by, at_ms) "
                           "VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (org, pid, capability) DO "
                           "NOTHING"},
    [PACKAGE_GRANT_REMOVE] = {"remove a grant of a package",
                              "DELETE FROM package_grant WHERE org = ?1 AND pid = ?2 AND "
                              "capability = ?3"},
    [PACKAGE_GRANTS] = {"read the grants of packages",
                        "SELECT org, pid, capability, granted_by, at_ms FROM package_grant "
                        "WHERE org = ?1 AND (?2 IS NULL OR pid = ?2) ORDER BY pid, capability"},
    [LLM_CONFIG_SET] = {"write a model's configuration",
                        "INSERT INTO llm_config (id, org, name, value, box, created_ms, "
                        "changed_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO "
                        "UPDATE SET name = ?3, value = ?4, box = ?5, changed_ms = ?7 "
                        "WHERE org = ?2"},
    [LLM_CONFIG_REMOVE] = {"remove a model's configuration",
                           "DELETE FROM llm_config WHERE org = ?1 AND id = ?2"},
    [LLM_CONFIGS] = {"read configurations of models",
                     "SELECT id, org, name, value, box, created_ms, changed_ms FROM llm_config "
                     "WHERE (?1 IS NULL OR org = ?1) AND (?2 IS NULL OR id = ?2) "
                     "ORDER BY org, name"},
    [ORCHESTRATOR_SET] =
        {"write an orchestrator",
         "INSERT INTO orchestrator (id, org, name, framework, mode, tier, whoami, config, plugins, "
         "deleted, created_by, created_ms, changed_ms) "
         "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT (id) DO "
         "UPDATE SET name = ?3, tier = ?6, whoami = ?7, config = ?8, plugins = ?9, deleted = ?10, "
         "changed_ms = ?13"},
    [ORCHESTRATORS] = {"read the orchestrators",
                       "SELECT id, org, name, framework, mode, tier, whoami, config, plugins, "
                       "deleted, created_by, created_ms, changed_ms FROM orchestrator "
                       "WHERE (?1 IS NULL OR org = ?1) AND (?2 IS NULL OR id = ?2) ORDER BY id"},
    [MEMBERS] = {"read the members", "SELECT org, principal, is_admin, created_ms FROM org_member "
                                     "ORDER BY org, principal"},
};

/* -- failures ---------------------------------------------------------------------------------- */

static int errno_of(sqlite3 *db, int code)
{
    switch (code & 0xFF) {
    case SQLITE_FULL:
        return ENOSPC;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return EBUSY;
    case SQLITE_READONLY:
        return EROFS;
    case SQLITE_CONSTRAINT:
        return EEXIST;
    default: {
        int behind = sqlite3_system_errno(db);
        return behind ? behind : EIO;
    }
    }
}

int sqlite_fail(struct sqlite_state *state, int code, const char *act, struct kg_err *err)
{
    int errnum = errno_of(state->db, code);
    bool is_io = (code & 0xFF) == SQLITE_IOERR || (code & 0xFF) == SQLITE_CANTOPEN;
    if (is_io && errnum != ENOSPC && kg_disk_is_full(state->path))
        errnum = ENOSPC;
    const char *words = state->db ? sqlite3_errmsg(state->db) : sqlite3_errstr(code);
    kg_fail(err, KG_E_IO, "state database %s: %s: %s", state->path, act,
            errnum == ENOSPC ? "the disk is full" : words);
    if (errnum == ENOSPC)
        kg_hint(err, "make room on the disk of %s", state->path);
    if (err)
        err->errnum = errnum;
    return -errnum;
}

int sqlite_execute(struct sqlite_state *state, const char *sql, const char *act, struct kg_err *err)
{
    int code = sqlite3_exec(state->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : sqlite_fail(state, code, act, err);
}

/* -- statements -------------------------------------------------------------------------------- */

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

static int statements_start(struct sqlite_state *state, enum statement which, struct kg_err *err,
                            const char *types, va_list args)
{
    sqlite3_stmt **statement = &state->statements[which];
    int code = SQLITE_OK;
    if (*statement == NULL)
        code = sqlite3_prepare_v3(state->db, statement_rows[which].sql, -1,
                                  SQLITE_PREPARE_PERSISTENT, statement, NULL);
    if (code != SQLITE_OK)
        return sqlite_fail(state, code, statement_rows[which].act, err);
    bind_all(*statement, types, args);
    return 0;
}

int sqlite_start(struct state *state, enum statement which, sqlite3_stmt **ret_statement,
                 struct kg_err *err, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    int result = statements_start(sqlite_own(state), which, err, types, args);
    va_end(args);
    *ret_statement = sqlite_own(state)->statements[which];
    return result;
}

int sqlite_finish(struct state *state, enum statement which, int code, struct kg_err *err)
{
    sqlite3_stmt *statement = sqlite_own(state)->statements[which];
    int result = 0;
    if (code != SQLITE_DONE && code != SQLITE_ROW)
        result = sqlite_fail(sqlite_own(state), code, statement_rows[which].act, err);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return result;
}

static int step_once(struct state *state, enum statement which, struct kg_err *err)
{
    int code = sqlite3_step(sqlite_own(state)->statements[which]);
    return sqlite_finish(state, which, code, err);
}

int sqlite_run(struct state *state, enum statement which, struct kg_err *err, const char *types,
               ...)
{
    va_list args;
    va_start(args, types);
    int result = statements_start(sqlite_own(state), which, err, types, args);
    va_end(args);
    return result < 0 ? result : step_once(state, which, err);
}

int sqlite_run_synced(struct state *state, enum statement which, struct kg_err *err,
                      const char *types, ...)
{
    struct sqlite_state *own = sqlite_own(state);
    int result = sqlite_execute(own, "PRAGMA synchronous = FULL", "set synchronous", err);
    if (result < 0)
        return result;
    va_list args;
    va_start(args, types);
    result = statements_start(own, which, err, types, args);
    va_end(args);
    if (result == 0)
        result = step_once(state, which, err);
    sqlite_execute(own, "PRAGMA synchronous = NORMAL", "set synchronous", NULL);
    return result;
}
