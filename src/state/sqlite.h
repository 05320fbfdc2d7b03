/* What the files of the SQLite backend share: one connection, its statements, and its failures. */
#ifndef KAGED_STATE_SQLITE_H
#define KAGED_STATE_SQLITE_H

#include "state/internal.h"

#include <sqlite3.h>

/* See statements.c. */
enum statement {
    HEAD_GET,
    HEAD_SET,
    CHOICE_SET,
    CHOICE_CLEAR,
    CHOICES,
    FAILURE_SET,
    FAILURE_CLEAR,
    FAILURES,
    SCRIPT_GRANT_SET,
    SCRIPT_GRANT_CLEAR,
    SCRIPT_GRANTS,
    PROMPT_SET,
    PROMPTS,
    QUESTION_SET,
    QUESTIONS_CUT,
    QUESTIONS,
    CREDENTIAL_ADD,
    CREDENTIAL_REMOVE,
    CREDENTIALS,
    MCP_SETTING_SET,
    MCP_SETTING_REMOVE,
    MCP_SETTINGS,
    MCP_CALLS_ADD,
    MCP_CALLS_EXPIRE,
    MCP_CALLS_BOUND,
    MCP_CALLS,
    CONSENT_SET,
    CONSENT_REMOVE,
    CONSENTS,
    ACTIVATION_SET,
    ACTIVATION_REMOVE,
    ACTIVATIONS,
    ACTIVATION_MOVED,
    PROJECT_SET,
    PROJECTS,
    PROJECTS_MOVE,
    CONSENTS_MOVE,
    SESSIONS_MOVE,
    STEP_BEGIN_WRITE,
    STEP_BEGIN_READ,
    STEP_COMMIT,
    STEP_ROLLBACK,
    STEP_SAVE,
    STEP_RETURN,
    STEP_FORGET,
    STEP_SYNC_EACH,
    STEP_SYNC_LATER,
    SESSION_ADD,
    SESSION_SET,
    SESSION_SET_STATE,
    SESSION_GET,
    SESSIONS,
    SESSIONS_OF_PROJECT,
    COPY_ENTRIES,
    COPY_AGENTS,
    AGENTS_REWRITTEN,
    SESSION_RENAME,
    SESSION_OF_BRANCH,
    MOVE_ADD,
    MOVE_REDONE,
    MOVE_LAST,
    MOVES_COUNT,
    SNAPSHOT_ADD,
    SNAPSHOT_REMOVE,
    SNAPSHOTS,
    RESTORE_BEGIN,
    RESTORE_END,
    RESTORES,
    CONTENT_ADD,
    CONTENT_GET,
    ENTRY_ADD,
    ENTRIES_UP,
    ENTRIES_DOWN,
    ENTRIES_LIVE,
    CONTEXT,
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
    AGENT_MORE,
    AGENT_TOKENS,
    AGENT_SUM,
    AGENTS,
    ORG_SET,
    ORGS,
    PRINCIPAL_SET,
    PRINCIPALS,
    MEMBER_SET,
    MEMBER_REMOVE,
    MEMBERS,
    ORCHESTRATOR_SET,
    ORCHESTRATORS,
    PACKAGE_ADD,
    PACKAGE_SET_ENABLED,
    PACKAGE_NO_LATEST,
    PACKAGE_SET_LATEST,
    PACKAGES,
    PACKAGE_SETTING_SET,
    PACKAGE_SETTING_REMOVE,
    PACKAGE_SETTINGS,
    PACKAGE_GRANT_SET,
    PACKAGE_GRANT_REMOVE,
    PACKAGE_GRANTS,
    LLM_CONFIG_SET,
    LLM_CONFIG_REMOVE,
    LLM_CONFIGS,
    STATEMENT_COUNT
};

struct sqlite_state {
    struct state base;
    sqlite3 *db;
    char *path;
    int version; /* 0: opened read-only before its schema was made; it holds nothing */
    sqlite3_stmt *statements[STATEMENT_COUNT]; /* prepared at first use */
    char *copy; /* owned; the folder of a copy that is read instead, or NULL */
};

static inline struct sqlite_state *sqlite_own(struct state *base)
{
    return KG_CONTAINER(base, struct sqlite_state, base);
}

/* Sets err of what SQLite says, and returns the negative errno. */
int sqlite_fail(struct sqlite_state *state, int code, const char *act, struct kg_err *err);
int sqlite_execute(struct sqlite_state *state, const char *sql, const char *act,
                   struct kg_err *err);

/*
 * Binds the parameters of a statement, a letter each, in order: 'i' an int64_t, 't' a text or NULL,
 * 'b' bytes as a struct kg_str. Unless it fails, sqlite_finish follows.
 */
int sqlite_start(struct state *state, enum statement which, sqlite3_stmt **ret_statement,
                 struct kg_err *err, const char *types, ...);
/* Ends a statement so that it holds no lock and no borrowed bytes; code is of its last step. */
int sqlite_finish(struct state *state, enum statement which, int code, struct kg_err *err);
/* All of it, for one that gives no rows. */
int sqlite_run(struct state *state, enum statement which, struct kg_err *err, const char *types,
               ...);
/* The same; on the disk when it returns: a power cut must not bring back what was revoked. */
int sqlite_run_synced(struct state *state, enum statement which, struct kg_err *err,
                      const char *types, ...);

#endif
