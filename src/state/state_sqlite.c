/*
 * kaged.db by SQLite. Each set is one transaction, so a reader sees a head as a whole or the one
 * before it; a database that a newer kaged made is never touched.
 */
#include "base/json/json.h"
#include "state/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define BUSY_TIMEOUT_MS 1000 /* a writer holds it for milliseconds */

/* clang-format off */
static const char version_1[] = ""
#include "state-v1.sql.h"
;
static const char version_2[] = ""
#include "state-v2.sql.h"
;
static const char version_3[] = ""
#include "state-v3.sql.h"
;
static const char version_4[] = ""
#include "state-v4.sql.h"
;
static const char version_5[] = ""
#include "state-v5.sql.h"
;
static const char version_6[] = ""
#include "state-v6.sql.h"
;
static const char version_7[] = ""
#include "state-v7.sql.h"
;
static const char version_8[] = ""
#include "state-v8.sql.h"
;
static const char version_9[] = ""
#include "state-v9.sql.h"
;
static const char version_10[] = ""
#include "state-v10.sql.h"
;
static const char version_11[] = ""
#include "state-v11.sql.h"
;
static const char version_12[] = ""
#include "state-v12.sql.h"
;
static const char version_13[] = ""
#include "state-v13.sql.h"
;
static const char version_14[] = ""
#include "state-v14.sql.h"
;
static const char version_15[] = ""
#include "state-v15.sql.h"
;
static const char version_16[] = ""
#include "state-v16.sql.h"
;
static const char version_17[] = ""
#include "state-v17.sql.h"
;
static const char version_18[] = ""
#include "state-v18.sql.h"
;
/* clang-format on */

/* Step N brings a database from user_version N to N + 1; steps are only ever added. */
static const char *const migrations[] = {version_1,  version_2,  version_3,  version_4,  version_5,
                                         version_6,  version_7,  version_8,  version_9,  version_10,
                                         version_11, version_12, version_13, version_14, version_15,
                                         version_16, version_17, version_18};
#define NEWEST_VERSION ((int)KG_COUNT(migrations))

static int read_version(struct sqlite_state *state, struct kg_err *err)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(state->db, "PRAGMA user_version", -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        state->version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    if (code != SQLITE_ROW)
        return sqlite_fail(state, code, "read its version", err);
    if (state->version >= 0 && state->version <= NEWEST_VERSION)
        return 0;
    kg_fail(err, KG_E_CONFLICT,
            "state database %s: its schema has version %d, but this kaged knows versions up to %d",
            state->path, state->version, NEWEST_VERSION);
    return kg_hint(err, "a newer kaged has used it: start that one, or restore an older copy");
}

static int run_migrations(struct sqlite_state *state, struct kg_err *err)
{
    int result = read_version(state, err); /* again, now that nobody else can change it */
    while (result == 0 && state->version < NEWEST_VERSION) {
        result =
            sqlite_execute(state, migrations[state->version], "bring its schema up to date", err);
        state->version++;
    }
    if (result < 0)
        return result;
    char pragma[64];
    sqlite3_snprintf(sizeof(pragma), pragma, "PRAGMA user_version = %d", NEWEST_VERSION);
    return sqlite_execute(state, pragma, "write its version", err);
}

static int migrate(struct sqlite_state *state, struct kg_err *err)
{
    int result = sqlite_execute(state, "BEGIN IMMEDIATE", "lock", err);
    if (result < 0)
        return result;
    result = run_migrations(state, err);
    if (result == 0)
        result = sqlite_execute(state, "COMMIT", "commit its schema", err);
    if (result < 0)
        sqlite_execute(state, "ROLLBACK", "roll back", NULL);
    return result;
}

/*
 * SQLite would make the file readable for everyone. Only a file that did not exist may be opened
 * here: closing any descriptor of an open database drops all of the process's locks on it.
 */
static int state_sqlite_make_file(const char *path, struct kg_err *err)
{
    kg_auto(kg_close) int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST)
        return kg_fail_errno(err, errno, "state database %s: open", path);
    return 0;
}

static const char *const database_files[] = {"", "-wal", "-shm"};

static void remove_copy(struct sqlite_state *state)
{
    for (size_t i = 0; state->copy != NULL && i < KG_COUNT(database_files); i++) {
        kg_auto(kg_free) char *file = kg_format("%s/kaged.db%s", state->copy, database_files[i]);
        unlink(file);
    }
    if (state->copy != NULL)
        rmdir(state->copy);
    free(state->copy);
}

static void close_state(struct sqlite_state *state)
{
    for (size_t i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(state->statements[i]);
    sqlite3_close(state->db);
    remove_copy(state);
    free(state->path);
    free(state);
}

static void state_sqlite_cleanup(struct sqlite_state **state)
{
    if (*state != NULL)
        close_state(*state);
}

static int open_database(struct sqlite_state *state, int flags, struct kg_err *err)
{
    int code = sqlite3_open_v2(state->path, &state->db,
                               flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (code != SQLITE_OK)
        return sqlite_fail(state, code, "open", err);
    sqlite3_busy_timeout(state->db, BUSY_TIMEOUT_MS);
    return read_version(state, err);
}

static struct state *sqlite_open(const char *path, struct kg_err *err)
{
    if (state_sqlite_make_file(path, err) < 0)
        return NULL;
    kg_auto(state_sqlite_cleanup) struct sqlite_state *state = kg_alloc(sizeof(*state));
    state->path = kg_strdup(path);
    if (open_database(state, SQLITE_OPEN_READWRITE, err) < 0 ||
        sqlite_execute(state, "PRAGMA journal_mode = WAL", "switch to WAL", err) < 0 ||
        sqlite_execute(state, "PRAGMA synchronous = NORMAL", "set synchronous", err) < 0)
        return NULL;
    if (state->version < NEWEST_VERSION && migrate(state, err) < 0)
        return NULL;
    return &kg_steal(&state)->base;
}

/*
 * SQLite cannot read a database in WAL mode where it can write nothing at all. A copy can be read,
 * with what its log holds.
 */
static int copy_database(struct sqlite_state *state, struct kg_err *err)
{
    const char *folder = getenv("TMPDIR");
    kg_auto(kg_free) char *copy = kg_format("%s/kaged-XXXXXX", folder ? folder : "/tmp");
    kg_auto(kg_free) char *from = kg_steal(&state->path);
    if (mkdtemp(copy) == NULL)
        return kg_fail_errno(err, errno, "copy %s, which is on a read-only disk, to %s", from,
                             copy);
    state->copy = kg_steal(&copy);
    state->path = kg_format("%s/kaged.db", state->copy);
    for (size_t i = 0; i < 2; i++) { /* the third is made anew of the second */
        kg_auto(kg_free) char *source = kg_format("%s%s", from, database_files[i]);
        kg_auto(kg_free) char *target = kg_format("%s%s", state->path, database_files[i]);
        int result = kg_copy_file(source, target, 0600);
        if (result < 0 && (i == 0 || result != -ENOENT))
            return kg_fail_errno(err, -result, "copy %s to %s", source, target);
    }
    return 0;
}

static struct state *sqlite_open_readonly(const char *path, struct kg_err *err)
{
    kg_auto(state_sqlite_cleanup) struct sqlite_state *state = kg_alloc(sizeof(*state));
    state->path = kg_strdup(path);
    if (access(path, W_OK) < 0 && errno == EROFS && copy_database(state, err) < 0)
        return NULL;
    /*
     * A crash may have left a journal, which SQLite must play back before anybody can read; so it
     * is opened for writing where we may write, and then told not to.
     */
    int flags = access(state->path, W_OK) == 0 ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    if (open_database(state, flags, err) < 0 ||
        sqlite_execute(state, "PRAGMA query_only = 1", "make it read-only", err) < 0)
        return NULL;
    return &kg_steal(&state)->base;
}

static void sqlite_close(struct state *base)
{
    close_state(sqlite_own(base));
}

/* -- the audit log's head ---------------------------------------------------------------------- */

static bool take_blob(sqlite3_stmt *row, int column, unsigned char *ret_bytes, int length)
{
    const void *bytes = sqlite3_column_blob(row, column);
    if (bytes == NULL || sqlite3_column_bytes(row, column) != length)
        return false;
    memcpy(ret_bytes, bytes, (size_t)length);
    return true;
}

static bool state_sqlite_take_head(sqlite3_stmt *row, struct state_audit_head *ret_head)
{
    ret_head->first_block = (uint64_t)sqlite3_column_int64(row, 0);
    ret_head->block = (uint64_t)sqlite3_column_int64(row, 2);
    ret_head->events = (uint64_t)sqlite3_column_int64(row, 3);
    return take_blob(row, 1, ret_head->first_prev, sizeof(ret_head->first_prev)) &&
           take_blob(row, 4, ret_head->hash, sizeof(ret_head->hash)) &&
           take_blob(row, 5, ret_head->signature, sizeof(ret_head->signature));
}

static int sqlite_audit_head_get(struct state *base, struct state_audit_head *ret_head,
                                 bool *ret_found, struct kg_err *err)
{
    struct sqlite_state *state = sqlite_own(base);
    if (state->version < 1) {
        *ret_found = false;
        return 0;
    }
    sqlite3_stmt *statement;
    int result = sqlite_start(base, HEAD_GET, &statement, err, "");
    if (result < 0)
        return result;
    struct state_audit_head head = {0};
    int code = sqlite3_step(statement);
    bool found = code == SQLITE_ROW;
    bool whole = found && state_sqlite_take_head(statement, &head);
    result = sqlite_finish(base, HEAD_GET, code, err);
    if (result < 0)
        return result;
    if (found && !whole)
        return kg_fail(err, KG_E_IO, "state database %s: the audit head in it is damaged",
                       state->path);
    if (found)
        *ret_head = head;
    *ret_found = found;
    return 0;
}

static struct kg_str bytes(const unsigned char *data, size_t length)
{
    return (struct kg_str){(const char *)data, length};
}

static int sqlite_audit_head_set(struct state *state, const struct state_audit_head *head,
                                 bool synced, struct kg_err *err)
{
    return (synced ? sqlite_run_synced : sqlite_run)(
        state, HEAD_SET, err, "ibiibb", (int64_t)head->first_block,
        bytes(head->first_prev, sizeof(head->first_prev)), (int64_t)head->block,
        (int64_t)head->events, bytes(head->hash, sizeof(head->hash)),
        bytes(head->signature, sizeof(head->signature)));
}

/* -- the operator's choices -------------------------------------------------------------------- */

static int sqlite_plugin_choice_set(struct state *state, const struct state_plugin_choice *choice,
                                    struct kg_err *err)
{
    if (choice->choice == STATE_UNSAID)
        return sqlite_run(state, CHOICE_CLEAR, err, "t", choice->plugin);
    return sqlite_run(state, CHOICE_SET, err, "ti", choice->plugin,
                      (int64_t)(choice->choice == STATE_ENABLED));
}

static const char *state_sqlite_text_at(sqlite3_stmt *row, int column)
{
    const unsigned char *text = sqlite3_column_text(row, column);
    return text ? (const char *)text : "";
}

static int sqlite_plugin_choices(struct state *state, state_plugin_choice_fn *visit, void *data,
                                 struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, CHOICES, &row, err, "");
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_plugin_choice){
                        .plugin = state_sqlite_text_at(row, 0),
                        .choice = sqlite3_column_int(row, 1) ? STATE_ENABLED : STATE_DISABLED,
                    });
    return sqlite_finish(state, CHOICES, code, err);
}

/* -- what failed ------------------------------------------------------------------------------- */

static int sqlite_failure_set(struct state *state, const struct state_failure *failure,
                              struct kg_err *err)
{
    return failure->reason != NULL
               ? sqlite_run(state, FAILURE_SET, err, "tt", failure->process, failure->reason)
               : sqlite_run(state, FAILURE_CLEAR, err, "t", failure->process);
}

static int sqlite_failures(struct state *state, state_failure_fn *visit, void *data,
                           struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, FAILURES, &row, err, "");
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data,
              &(struct state_failure){state_sqlite_text_at(row, 0), state_sqlite_text_at(row, 1)});
    return sqlite_finish(state, FAILURES, code, err);
}

/* -- grants of scripts ------------------------------------------------------------------------- */

static int sqlite_script_grant_set(struct state *state, const struct state_script_grant *grant,
                                   struct kg_err *err)
{
    return grant->hash != NULL
               ? sqlite_run(state, SCRIPT_GRANT_SET, err, "tt", grant->script, grant->hash)
               : sqlite_run(state, SCRIPT_GRANT_CLEAR, err, "t", grant->script);
}

static int sqlite_script_grants(struct state *state, state_script_grant_fn *visit, void *data,
                                struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, SCRIPT_GRANTS, &row, err, "");
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_script_grant){state_sqlite_text_at(row, 0),
                                                 state_sqlite_text_at(row, 1)});
    return sqlite_finish(state, SCRIPT_GRANTS, code, err);
}

/* -- prompts that a plugin could write --------------------------------------------------------- */

static int sqlite_prompt_set(struct state *state, const struct state_prompt *prompt,
                             struct kg_err *err)
{
    return sqlite_run(state, PROMPT_SET, err, "ttt", prompt->project, prompt->path, prompt->hash);
}

static int sqlite_prompts(struct state *state, state_prompt_fn *visit, void *data,
                          struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, PROMPTS, &row, err, "");
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data,
              &(struct state_prompt){state_sqlite_text_at(row, 0), state_sqlite_text_at(row, 1),
                                     state_sqlite_text_at(row, 2)});
    return sqlite_finish(state, PROMPTS, code, err);
}

/* -- questions --------------------------------------------------------------------------------- */

static int sqlite_question_set(struct state *state, const struct state_question *question,
                               struct kg_err *err)
{
    int result =
        sqlite_run(state, QUESTION_SET, err, "ttttttttiitti", question->id, question->session,
                   question->agent, question->plugin, question->kind, question->title,
                   question->schema, question->url, question->asked_ms, question->deadline_ms,
                   question->state, question->answered_by, question->ended_ms);
    return result < 0 ? result
                      : sqlite_run(state, QUESTIONS_CUT, err, "ti", question->session,
                                   (int64_t)STATE_QUESTIONS_KEPT);
}

static int sqlite_questions(struct state *state, const char *session, state_question_fn *visit,
                            void *data, struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, QUESTIONS, &row, err, "t", session);
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_question){
                        .id = state_sqlite_text_at(row, 0),
                        .session = state_sqlite_text_at(row, 1),
                        .agent = state_sqlite_text_at(row, 2),
                        .plugin = state_sqlite_text_at(row, 3),
                        .kind = state_sqlite_text_at(row, 4),
                        .title = state_sqlite_text_at(row, 5),
                        .schema = state_sqlite_text_at(row, 6),
                        .url = state_sqlite_text_at(row, 7),
                        .asked_ms = sqlite3_column_int64(row, 8),
                        .deadline_ms = sqlite3_column_int64(row, 9),
                        .state = state_sqlite_text_at(row, 10),
                        .answered_by = state_sqlite_text_at(row, 11),
                        .ended_ms = sqlite3_column_int64(row, 12),
                    });
    return sqlite_finish(state, QUESTIONS, code, err);
}

/* -- credentials ------------------------------------------------------------------------------- */

static const char *const kind_names[] = {[STATE_TOKEN] = "token", [STATE_SESSION] = "session"};

static int sqlite_credential_add(struct state *state, const struct state_credential *credential,
                                 struct kg_err *err)
{
    return sqlite_run_synced(state, CREDENTIAL_ADD, err, "ttbtttiitt", credential->id,
                             kind_names[credential->kind],
                             bytes(credential->hash, STATE_HASH_BYTES), credential->name,
                             credential->scopes, credential->operator_id, credential->created_ms,
                             credential->expires_ms, credential->profile, credential->principal);
}

static int sqlite_credential_remove(struct state *state, const char *id, struct kg_err *err)
{
    return sqlite_run_synced(state, CREDENTIAL_REMOVE, err, "t", id);
}

static bool state_sqlite_take_credential(sqlite3_stmt *row, struct state_credential *ret_credential)
{
    *ret_credential = (struct state_credential){
        .id = state_sqlite_text_at(row, 0),
        .kind = strcmp(state_sqlite_text_at(row, 1), kind_names[STATE_TOKEN]) == 0 ? STATE_TOKEN
                                                                                   : STATE_SESSION,
        .name = state_sqlite_text_at(row, 3),
        .scopes = state_sqlite_text_at(row, 4),
        .operator_id = state_sqlite_text_at(row, 5),
        .created_ms = sqlite3_column_int64(row, 6),
        .expires_ms = sqlite3_column_int64(row, 7),
        .profile = (const char *)sqlite3_column_text(row, 8),
        .principal = (const char *)sqlite3_column_text(row, 9),
    };
    return take_blob(row, 2, ret_credential->hash, STATE_HASH_BYTES);
}

static int sqlite_credentials(struct state *state, state_credential_fn *visit, void *data,
                              struct kg_err *err)
{
    sqlite3_stmt *row;
    struct state_credential credential;
    int code;
    int result = sqlite_start(state, CREDENTIALS, &row, err, "");
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        if (state_sqlite_take_credential(row, &credential))
            visit(data, &credential);
    return sqlite_finish(state, CREDENTIALS, code, err);
}

/* -- what MCP clients may use ------------------------------------------------------------------ */

static int sqlite_mcp_setting_set(struct state *state, const struct state_mcp_setting *setting,
                                  struct kg_err *err)
{
    if (setting->value == NULL)
        return sqlite_run_synced(state, MCP_SETTING_REMOVE, err, "tt", setting->kind,
                                 setting->name);
    return sqlite_run_synced(state, MCP_SETTING_SET, err, "ttt", setting->kind, setting->name,
                             setting->value);
}

static int sqlite_mcp_settings(struct state *state, state_mcp_setting_fn *visit, void *data,
                               struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, MCP_SETTINGS, &row, err, "");
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_mcp_setting){.kind = state_sqlite_text_at(row, 0),
                                                .name = state_sqlite_text_at(row, 1),
                                                .value = state_sqlite_text_at(row, 2)});
    return sqlite_finish(state, MCP_SETTINGS, code, err);
}

/* SQLite's own functions of JSON would take twice the time, and there can be very many. */
static int mcp_call_insert(struct state *state, struct kg_str json, struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(json, err);
    if (doc == NULL)
        return -EINVAL;
    const struct kg_node *call = doc->root;
    return sqlite_run(
        state, MCP_CALL_ADD, err, "issssssiiisssi", kg_node_number(call, "at_ms"),
        kg_node_text(call, "client"), kg_node_text(call, "owner"), kg_node_text(call, "operator"),
        kg_node_text(call, "project"), kg_node_text(call, "plugin"), kg_node_text(call, "tool"),
        kg_node_number(call, "bytes_in"), kg_node_number(call, "bytes_out"),
        kg_node_number(call, "duration_ms"), kg_node_text(call, "outcome"),
        kg_node_text(call, "arguments"), kg_node_text(call, "result"), (int64_t)json.length);
}

/* In one transaction. */
static int mcp_calls_insert(struct state *state, struct kg_str list, struct kg_err *err)
{
    struct kg_json_cursor cursor = kg_json_inside(list);
    struct kg_str call;
    int result = state_step(state, STATE_BEGIN_WRITE, err);
    if (result < 0)
        return result;
    while (result == 0 && kg_json_next_item(&cursor, &call))
        result = mcp_call_insert(state, call, err);
    if (result == 0)
        result = state_step(state, STATE_COMMIT, err);
    if (result < 0)
        (void)state_step(state, STATE_ROLLBACK, NULL);
    return result;
}

static int sqlite_mcp_calls_add(struct state *state, const struct state_mcp_calls *calls,
                                struct kg_err *err)
{
    int result = mcp_calls_insert(state, kg_str(calls->json), err);
    if (result == 0)
        result = sqlite_run(state, MCP_CALLS_EXPIRE, err, "i", calls->since_ms);
    if (result == 0 && calls->bytes_max > 0)
        result = sqlite_run(state, MCP_CALLS_BOUND, err, "i", calls->bytes_max);
    return result;
}

static struct state_mcp_call state_sqlite_take_mcp_call(sqlite3_stmt *row)
{
    return (struct state_mcp_call){
        .id = sqlite3_column_int64(row, 0),
        .at_ms = sqlite3_column_int64(row, 1),
        .client = state_sqlite_text_at(row, 2),
        .owner = state_sqlite_text_at(row, 3),
        .operator_id = (const char *)sqlite3_column_text(row, 4),
        .project = (const char *)sqlite3_column_text(row, 5),
        .plugin = state_sqlite_text_at(row, 6),
        .tool = state_sqlite_text_at(row, 7),
        .bytes_in = sqlite3_column_int64(row, 8),
        .bytes_out = sqlite3_column_int64(row, 9),
        .duration_ms = sqlite3_column_int64(row, 10),
        .outcome = state_sqlite_text_at(row, 11),
        .arguments = (const char *)sqlite3_column_text(row, 12),
        .result = (const char *)sqlite3_column_text(row, 13),
    };
}

static int sqlite_mcp_calls(struct state *state, const struct state_mcp_query *query,
                            state_mcp_call_fn *visit, void *data, struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result =
        sqlite_start(state, MCP_CALLS, &row, err, "ttiii", query->client, query->tool,
                     query->since_ms, query->before > 0 ? query->before : INT64_MAX, query->limit);
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        const struct state_mcp_call call = state_sqlite_take_mcp_call(row);
        visit(data, &call);
    }
    return sqlite_finish(state, MCP_CALLS, code, err);
}

/* -- consents and activations ------------------------------------------------------------------ */

static int sqlite_consent_set(struct state *state, const struct state_consent *consent,
                              struct kg_err *err)
{
    return sqlite_run_synced(state, CONSENT_SET, err, "ttttttttttii", consent->id, consent->kind,
                             consent->state, consent->project, consent->plugin, consent->source,
                             consent->base, consent->version, consent->reason, consent->answered_by,
                             consent->raised_ms, consent->changed_ms);
}

static int sqlite_consent_remove(struct state *state, const char *id, struct kg_err *err)
{
    return sqlite_run_synced(state, CONSENT_REMOVE, err, "t", id);
}

static int sqlite_consents(struct state *state, state_consent_fn *visit, void *data,
                           struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, CONSENTS, &row, err, "");
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        const char *texts[10];
        for (int i = 0; i < (int)KG_COUNT(texts); i++)
            texts[i] = (const char *)sqlite3_column_text(row, i);
        visit(data, &(struct state_consent){
                        .id = texts[0],
                        .kind = texts[1],
                        .state = texts[2],
                        .project = texts[3],
                        .plugin = texts[4],
                        .source = texts[5],
                        .base = texts[6],
                        .version = texts[7],
                        .reason = texts[8],
                        .answered_by = texts[9],
                        .raised_ms = sqlite3_column_int64(row, 10),
                        .changed_ms = sqlite3_column_int64(row, 11),
                    });
    }
    return sqlite_finish(state, CONSENTS, code, err);
}

static int sqlite_activation_set(struct state *state, const struct state_activation *activation,
                                 struct kg_err *err)
{
    return sqlite_run_synced(state, ACTIVATION_SET, err, "tttti", activation->project,
                             activation->plugin, activation->consent, activation->operator_id,
                             activation->at_ms);
}

static int sqlite_activation_remove(struct state *state, const char *project_or_null,
                                    const char *plugin, struct kg_err *err)
{
    return sqlite_run_synced(state, ACTIVATION_REMOVE, err, "tt", project_or_null, plugin);
}

static int sqlite_activations(struct state *state, state_activation_fn *visit, void *data,
                              struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, ACTIVATIONS, &row, err, "");
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_activation){
                        .project = state_sqlite_text_at(row, 0),
                        .plugin = state_sqlite_text_at(row, 1),
                        .consent = state_sqlite_text_at(row, 2),
                        .operator_id = state_sqlite_text_at(row, 3),
                        .at_ms = sqlite3_column_int64(row, 4),
                    });
    return sqlite_finish(state, ACTIVATIONS, code, err);
}

/* -- projects ---------------------------------------------------------------------------------- */

/* First the activations: should the second write fail, the operator is only asked once more. */
static int sqlite_project_set(struct state *state, const struct state_project *project,
                              struct kg_err *err)
{
    int result = sqlite_run(state, ACTIVATION_MOVED, err, "tt", project->id, project->root);
    if (result < 0)
        return result;
    return sqlite_run_synced(state, PROJECT_SET, err, "ttttii", project->id, project->root,
                             project->file, project->operator_id, (int64_t)project->watched,
                             project->loaded_ms);
}

static int sqlite_move_folder(struct state *state, const char *from, const char *to,
                              struct kg_err *err)
{
    static const enum statement moves[] = {PROJECTS_MOVE, CONSENTS_MOVE, SESSIONS_MOVE};
    int result = 0;
    for (size_t i = 0; i < KG_COUNT(moves) && result == 0; i++)
        result = sqlite_run_synced(state, moves[i], err, "tt", from, to);
    return result;
}

static int sqlite_projects(struct state *state, state_project_fn *visit, void *data,
                           struct kg_err *err)
{
    sqlite3_stmt *row;
    int code;
    int result = sqlite_start(state, PROJECTS, &row, err, "");
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_project){
                        .id = state_sqlite_text_at(row, 0),
                        .root = state_sqlite_text_at(row, 1),
                        .file = state_sqlite_text_at(row, 2),
                        .operator_id = (const char *)sqlite3_column_text(row, 3),
                        .watched = sqlite3_column_int(row, 4) != 0,
                        .loaded_ms = sqlite3_column_int64(row, 5),
                    });
    return sqlite_finish(state, PROJECTS, code, err);
}

/* -- the backend ------------------------------------------------------------------------------- */

const struct state_backend state_sqlite = {
    .catalog = &state_catalog_sqlite,
    .sessions = &state_sessions_sqlite,
    .open = sqlite_open,
    .open_readonly = sqlite_open_readonly,
    .close = sqlite_close,
    .audit_head_get = sqlite_audit_head_get,
    .audit_head_set = sqlite_audit_head_set,
    .plugin_choice_set = sqlite_plugin_choice_set,
    .plugin_choices = sqlite_plugin_choices,
    .failure_set = sqlite_failure_set,
    .failures = sqlite_failures,
    .script_grant_set = sqlite_script_grant_set,
    .script_grants = sqlite_script_grants,
    .prompt_set = sqlite_prompt_set,
    .prompts = sqlite_prompts,
    .question_set = sqlite_question_set,
    .questions = sqlite_questions,
    .credential_add = sqlite_credential_add,
    .credential_remove = sqlite_credential_remove,
    .credentials = sqlite_credentials,
    .mcp_setting_set = sqlite_mcp_setting_set,
    .mcp_settings = sqlite_mcp_settings,
    .mcp_calls_add = sqlite_mcp_calls_add,
    .mcp_calls = sqlite_mcp_calls,
    .consent_set = sqlite_consent_set,
    .consent_remove = sqlite_consent_remove,
    .consents = sqlite_consents,
    .activation_set = sqlite_activation_set,
    .activation_remove = sqlite_activation_remove,
    .activations = sqlite_activations,
    .project_set = sqlite_project_set,
    .projects = sqlite_projects,
    .move_folder = sqlite_move_folder,
};
