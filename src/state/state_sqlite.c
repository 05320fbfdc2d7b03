/*
 * kaged.db by SQLite. Each set is one transaction, so a reader sees a head as a whole or the one
 * before it; a database that a newer kaged made is never touched.
 */
#include "state/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
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
/* clang-format on */

/* Step N brings a database from user_version N to N + 1; steps are only ever added. */
static const char *const migrations[] = {version_1, version_2, version_3, version_4, version_5};
#define NEWEST_VERSION ((int)KG_COUNT(migrations))

enum statement {
    HEAD_GET,
    HEAD_SET,
    CHOICE_SET,
    CHOICE_CLEAR,
    CHOICES,
    CREDENTIAL_ADD,
    CREDENTIAL_REMOVE,
    CREDENTIALS,
    CONSENT_SET,
    CONSENT_REMOVE,
    CONSENTS,
    ACTIVATION_SET,
    ACTIVATION_REMOVE,
    ACTIVATIONS,
    ACTIVATION_MOVED,
    PROJECT_SET,
    PROJECTS,
    STATEMENT_COUNT
};

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
    [CREDENTIAL_ADD] = {"add a credential",
                        "INSERT INTO credential (id, kind, hash, name, scopes, operator_id, "
                        "created_ms, expires_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"},
    [CREDENTIAL_REMOVE] = {"remove a credential", "DELETE FROM credential WHERE id = ?1"},
    [CREDENTIALS] = {"read the credentials",
                     "SELECT id, kind, hash, name, scopes, operator_id, created_ms, expires_ms "
                     "FROM credential ORDER BY id"},
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
};

struct sqlite_state {
    struct state base;
    sqlite3 *db;
    char *path;
    int version; /* 0: opened read-only before its schema was made; it holds nothing */
    sqlite3_stmt *statements[STATEMENT_COUNT]; /* prepared at first use; the next, too */
    sqlite3_stmt *sessions[STATE_SQLITE_SESSIONS];
};

static struct sqlite_state *own(struct state *base)
{
    return KG_CONTAINER(base, struct sqlite_state, base);
}

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
    default: {
        int behind = sqlite3_system_errno(db);
        return behind ? behind : EIO;
    }
    }
}

static int fail(struct sqlite_state *state, int code, const char *act, struct kg_err *err)
{
    int errnum = errno_of(state->db, code);
    kg_fail(err, KG_E_IO, "state database %s: %s: %s", state->path, act,
            state->db ? sqlite3_errmsg(state->db) : sqlite3_errstr(code));
    if (err)
        err->errnum = errnum;
    return -errnum;
}

static int execute(struct sqlite_state *state, const char *sql, const char *act, struct kg_err *err)
{
    int code = sqlite3_exec(state->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : fail(state, code, act, err);
}

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
        return fail(state, code, "read its version", err);
    if (state->version >= 0 && state->version <= NEWEST_VERSION)
        return 0;
    kg_fail(err, KG_E_CONFLICT,
            "state database %s: its schema has version %d, but this kaged knows versions up to %d",
            state->path, state->version, NEWEST_VERSION);
    kg_hint(err, "a newer kaged has used it: start that one, or restore an older copy");
    return -EINVAL;
}

static int run_migrations(struct sqlite_state *state, struct kg_err *err)
{
    int result = read_version(state, err); /* again, now that nobody else can change it */
    while (result == 0 && state->version < NEWEST_VERSION) {
        result = execute(state, migrations[state->version], "bring its schema up to date", err);
        state->version++;
    }
    if (result < 0)
        return result;
    char pragma[64];
    sqlite3_snprintf(sizeof(pragma), pragma, "PRAGMA user_version = %d", NEWEST_VERSION);
    return execute(state, pragma, "write its version", err);
}

static int migrate(struct sqlite_state *state, struct kg_err *err)
{
    int result = execute(state, "BEGIN IMMEDIATE", "lock", err);
    if (result < 0)
        return result;
    result = run_migrations(state, err);
    if (result == 0)
        result = execute(state, "COMMIT", "commit its schema", err);
    if (result < 0)
        execute(state, "ROLLBACK", "roll back", NULL);
    return result;
}

/*
 * SQLite would make the file readable for everyone. Only a file that did not exist may be opened
 * here: closing any descriptor of an open database drops all of the process's locks on it.
 */
static int make_file(const char *path, struct kg_err *err)
{
    kg_auto(kg_close) int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST)
        return kg_fail_errno(err, errno, "state database %s: open", path);
    return 0;
}

static void close_state(struct sqlite_state *state)
{
    for (size_t i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(state->statements[i]);
    for (size_t i = 0; i < STATE_SQLITE_SESSIONS; i++)
        sqlite3_finalize(state->sessions[i]);
    sqlite3_close(state->db);
    free(state->path);
    free(state);
}

static void cleanup(struct sqlite_state **state)
{
    if (*state != NULL)
        close_state(*state);
}

static int open_database(struct sqlite_state *state, int flags, struct kg_err *err)
{
    int code = sqlite3_open_v2(state->path, &state->db,
                               flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (code != SQLITE_OK)
        return fail(state, code, "open", err);
    sqlite3_busy_timeout(state->db, BUSY_TIMEOUT_MS);
    return read_version(state, err);
}

static struct state *sqlite_open(const char *path, struct kg_err *err)
{
    if (make_file(path, err) < 0)
        return NULL;
    kg_auto(cleanup) struct sqlite_state *state = kg_alloc(sizeof(*state));
    state->path = kg_strdup(path);
    if (open_database(state, SQLITE_OPEN_READWRITE, err) < 0 ||
        execute(state, "PRAGMA journal_mode = WAL", "switch to WAL", err) < 0 ||
        execute(state, "PRAGMA synchronous = NORMAL", "set synchronous", err) < 0)
        return NULL;
    if (state->version < NEWEST_VERSION && migrate(state, err) < 0)
        return NULL;
    return &kg_steal(&state)->base;
}

static struct state *sqlite_open_readonly(const char *path, struct kg_err *err)
{
    kg_auto(cleanup) struct sqlite_state *state = kg_alloc(sizeof(*state));
    state->path = kg_strdup(path);
    /*
     * A crash may have left a journal, which SQLite must play back before anybody can read; so it
     * is opened for writing where we may write, and then told not to.
     */
    int flags = access(path, W_OK) == 0 ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
    if (open_database(state, flags, err) < 0 ||
        execute(state, "PRAGMA query_only = 1", "make it read-only", err) < 0)
        return NULL;
    return &kg_steal(&state)->base;
}

static void sqlite_close(struct state *base)
{
    close_state(own(base));
}

/* Gives the prepared statement, ready to bind. */
static int ready(struct sqlite_state *state, enum statement which, sqlite3_stmt **ret_statement,
                 struct kg_err *err)
{
    sqlite3_stmt **statement = &state->statements[which];
    if (*statement == NULL) {
        int code = sqlite3_prepare_v3(state->db, statement_rows[which].sql, -1,
                                      SQLITE_PREPARE_PERSISTENT, statement, NULL);
        if (code != SQLITE_OK)
            return fail(state, code, statement_rows[which].act, err);
    }
    *ret_statement = *statement;
    return 0;
}

/* Ends a statement so that it holds no lock and no borrowed bytes. */
static int finish(struct sqlite_state *state, enum statement which, int code, struct kg_err *err)
{
    int result = 0;
    if (code != SQLITE_DONE && code != SQLITE_ROW)
        result = fail(state, code, statement_rows[which].act, err);
    sqlite3_reset(state->statements[which]);
    sqlite3_clear_bindings(state->statements[which]);
    return result;
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

static bool take_head(sqlite3_stmt *row, struct state_audit_head *ret_head)
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
    struct sqlite_state *state = own(base);
    if (state->version < 1) {
        *ret_found = false;
        return 0;
    }
    sqlite3_stmt *statement = NULL;
    int result = ready(state, HEAD_GET, &statement, err);
    if (result < 0)
        return result;
    struct state_audit_head head = {0};
    int code = sqlite3_step(statement);
    bool found = code == SQLITE_ROW;
    bool whole = found && take_head(statement, &head);
    result = finish(state, HEAD_GET, code, err);
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

static int set_head(struct sqlite_state *state, const struct state_audit_head *head,
                    struct kg_err *err)
{
    sqlite3_stmt *statement = NULL;
    int result = ready(state, HEAD_SET, &statement, err);
    if (result < 0)
        return result;
    sqlite3_bind_int64(statement, 1, (int64_t)head->first_block);
    sqlite3_bind_blob(statement, 2, head->first_prev, sizeof(head->first_prev), SQLITE_STATIC);
    sqlite3_bind_int64(statement, 3, (int64_t)head->block);
    sqlite3_bind_int64(statement, 4, (int64_t)head->events);
    sqlite3_bind_blob(statement, 5, head->hash, sizeof(head->hash), SQLITE_STATIC);
    sqlite3_bind_blob(statement, 6, head->signature, sizeof(head->signature), SQLITE_STATIC);
    return finish(state, HEAD_SET, sqlite3_step(statement), err);
}

static int sqlite_audit_head_set(struct state *base, const struct state_audit_head *head,
                                 bool synced, struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    if (!synced)
        return set_head(state, head, err);
    int result = execute(state, "PRAGMA synchronous = FULL", "set synchronous", err);
    if (result < 0)
        return result;
    result = set_head(state, head, err);
    execute(state, "PRAGMA synchronous = NORMAL", "set synchronous", NULL);
    return result;
}

/* -- the operator's choices -------------------------------------------------------------------- */

static int sqlite_plugin_choice_set(struct state *base, const struct state_plugin_choice *choice,
                                    struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    enum statement which = choice->choice == STATE_UNSAID ? CHOICE_CLEAR : CHOICE_SET;
    sqlite3_stmt *statement = NULL;
    int result = ready(state, which, &statement, err);
    if (result < 0)
        return result;
    sqlite3_bind_text(statement, 1, choice->plugin, -1, SQLITE_STATIC);
    if (which == CHOICE_SET)
        sqlite3_bind_int(statement, 2, choice->choice == STATE_ENABLED);
    return finish(state, which, sqlite3_step(statement), err);
}

static const char *text_at(sqlite3_stmt *row, int column)
{
    const unsigned char *text = sqlite3_column_text(row, column);
    return text ? (const char *)text : "";
}

static int sqlite_plugin_choices(struct state *base, state_plugin_choice_fn *visit, void *data,
                                 struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    sqlite3_stmt *row = NULL;
    int code;
    int result = ready(state, CHOICES, &row, err);
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_plugin_choice){
                        .plugin = text_at(row, 0),
                        .choice = sqlite3_column_int(row, 1) ? STATE_ENABLED : STATE_DISABLED,
                    });
    return finish(state, CHOICES, code, err);
}

/* -- credentials ------------------------------------------------------------------------------- */

static const char *const kind_names[] = {[STATE_TOKEN] = "token", [STATE_SESSION] = "session"};

/* On the disk when this returns: a power cut must not bring back what was revoked. */
static int step_synced(struct sqlite_state *state, enum statement which, struct kg_err *err)
{
    int result = execute(state, "PRAGMA synchronous = FULL", "set synchronous", err);
    int code = result < 0 ? SQLITE_DONE : sqlite3_step(state->statements[which]);
    int finished = finish(state, which, code, err);
    execute(state, "PRAGMA synchronous = NORMAL", "set synchronous", NULL);
    return result < 0 ? result : finished;
}

static int sqlite_credential_add(struct state *base, const struct state_credential *credential,
                                 struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    sqlite3_stmt *statement = NULL;
    int result = ready(state, CREDENTIAL_ADD, &statement, err);
    if (result < 0)
        return result;
    sqlite3_bind_text(statement, 1, credential->id, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, kind_names[credential->kind], -1, SQLITE_STATIC);
    sqlite3_bind_blob(statement, 3, credential->hash, STATE_HASH_BYTES, SQLITE_STATIC);
    sqlite3_bind_text(statement, 4, credential->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 5, credential->scopes, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 6, credential->operator_id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 7, credential->created_ms);
    sqlite3_bind_int64(statement, 8, credential->expires_ms);
    return step_synced(state, CREDENTIAL_ADD, err);
}

static int sqlite_credential_remove(struct state *base, const char *id, struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    sqlite3_stmt *statement = NULL;
    int result = ready(state, CREDENTIAL_REMOVE, &statement, err);
    if (result < 0)
        return result;
    sqlite3_bind_text(statement, 1, id, -1, SQLITE_STATIC);
    return step_synced(state, CREDENTIAL_REMOVE, err);
}

static bool take_credential(sqlite3_stmt *row, struct state_credential *ret_credential)
{
    *ret_credential = (struct state_credential){
        .id = text_at(row, 0),
        .kind = strcmp(text_at(row, 1), kind_names[STATE_TOKEN]) == 0 ? STATE_TOKEN : STATE_SESSION,
        .name = text_at(row, 3),
        .scopes = text_at(row, 4),
        .operator_id = text_at(row, 5),
        .created_ms = sqlite3_column_int64(row, 6),
        .expires_ms = sqlite3_column_int64(row, 7),
    };
    return take_blob(row, 2, ret_credential->hash, STATE_HASH_BYTES);
}

static int sqlite_credentials(struct state *base, state_credential_fn *visit, void *data,
                              struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    sqlite3_stmt *statement = NULL;
    struct state_credential credential;
    int code;
    int result = ready(state, CREDENTIALS, &statement, err);
    if (result < 0)
        return result;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW)
        if (take_credential(statement, &credential))
            visit(data, &credential);
    return finish(state, CREDENTIALS, code, err);
}

/* -- consents and activations ------------------------------------------------------------------ */

static void bind_texts(sqlite3_stmt *statement, const char *const *texts, int count)
{
    for (int i = 0; i < count; i++)
        sqlite3_bind_text(statement, i + 1, texts[i], -1, SQLITE_STATIC);
}

static int sqlite_consent_set(struct state *base, const struct state_consent *consent,
                              struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    sqlite3_stmt *statement = NULL;
    const char *const texts[] = {
        consent->id,     consent->kind, consent->state,   consent->project, consent->plugin,
        consent->source, consent->base, consent->version, consent->reason,  consent->answered_by};
    int result = ready(state, CONSENT_SET, &statement, err);
    if (result < 0)
        return result;
    bind_texts(statement, texts, KG_COUNT(texts));
    sqlite3_bind_int64(statement, KG_COUNT(texts) + 1, consent->raised_ms);
    sqlite3_bind_int64(statement, KG_COUNT(texts) + 2, consent->changed_ms);
    return step_synced(state, CONSENT_SET, err);
}

static int sqlite_consent_remove(struct state *base, const char *id, struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    sqlite3_stmt *statement = NULL;
    int result = ready(state, CONSENT_REMOVE, &statement, err);
    if (result < 0)
        return result;
    bind_texts(statement, &id, 1);
    return step_synced(state, CONSENT_REMOVE, err);
}

static int sqlite_consents(struct state *base, state_consent_fn *visit, void *data,
                           struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    sqlite3_stmt *row = NULL;
    int code;
    int result = ready(state, CONSENTS, &row, err);
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
    return finish(state, CONSENTS, code, err);
}

static int sqlite_activation_set(struct state *base, const struct state_activation *activation,
                                 struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    sqlite3_stmt *statement = NULL;
    const char *const texts[] = {activation->project, activation->plugin, activation->consent,
                                 activation->operator_id};
    int result = ready(state, ACTIVATION_SET, &statement, err);
    if (result < 0)
        return result;
    bind_texts(statement, texts, KG_COUNT(texts));
    sqlite3_bind_int64(statement, KG_COUNT(texts) + 1, activation->at_ms);
    return step_synced(state, ACTIVATION_SET, err);
}

static int sqlite_activation_remove(struct state *base, const char *project_or_null,
                                    const char *plugin, struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    sqlite3_stmt *statement = NULL;
    const char *const texts[] = {project_or_null, plugin};
    int result = ready(state, ACTIVATION_REMOVE, &statement, err);
    if (result < 0)
        return result;
    bind_texts(statement, texts, KG_COUNT(texts));
    return step_synced(state, ACTIVATION_REMOVE, err);
}

static int sqlite_activations(struct state *base, state_activation_fn *visit, void *data,
                              struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    sqlite3_stmt *row = NULL;
    int code;
    int result = ready(state, ACTIVATIONS, &row, err);
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_activation){
                        .project = text_at(row, 0),
                        .plugin = text_at(row, 1),
                        .consent = text_at(row, 2),
                        .operator_id = text_at(row, 3),
                        .at_ms = sqlite3_column_int64(row, 4),
                    });
    return finish(state, ACTIVATIONS, code, err);
}

/* -- projects ---------------------------------------------------------------------------------- */

static int remove_moved(struct sqlite_state *state, const struct state_project *project,
                        struct kg_err *err)
{
    sqlite3_stmt *statement = NULL;
    const char *const texts[] = {project->id, project->root};
    int result = ready(state, ACTIVATION_MOVED, &statement, err);
    if (result < 0)
        return result;
    bind_texts(statement, texts, KG_COUNT(texts));
    return finish(state, ACTIVATION_MOVED, sqlite3_step(statement), err);
}

/* First the activations: should the second write fail, the operator is only asked once more. */
static int sqlite_project_set(struct state *base, const struct state_project *project,
                              struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    sqlite3_stmt *statement = NULL;
    const char *const texts[] = {project->id, project->root, project->file, project->operator_id};
    int result = remove_moved(state, project, err);
    if (result == 0)
        result = ready(state, PROJECT_SET, &statement, err);
    if (result < 0)
        return result;
    bind_texts(statement, texts, KG_COUNT(texts));
    sqlite3_bind_int(statement, KG_COUNT(texts) + 1, project->watched);
    sqlite3_bind_int64(statement, KG_COUNT(texts) + 2, project->loaded_ms);
    return step_synced(state, PROJECT_SET, err);
}

static int sqlite_projects(struct state *base, state_project_fn *visit, void *data,
                           struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    sqlite3_stmt *row = NULL;
    int code;
    int result = ready(state, PROJECTS, &row, err);
    if (result < 0)
        return result;
    while ((code = sqlite3_step(row)) == SQLITE_ROW)
        visit(data, &(struct state_project){
                        .id = text_at(row, 0),
                        .root = text_at(row, 1),
                        .file = text_at(row, 2),
                        .operator_id = (const char *)sqlite3_column_text(row, 3),
                        .watched = sqlite3_column_int(row, 4) != 0,
                        .loaded_ms = sqlite3_column_int64(row, 5),
                    });
    return finish(state, PROJECTS, code, err);
}

/* -- for the other files of the backend -------------------------------------------------------- */

sqlite3 *state_sqlite_handle(struct state *base)
{
    return own(base)->db;
}

sqlite3_stmt **state_sqlite_sessions(struct state *base)
{
    return own(base)->sessions;
}

int state_sqlite_fail(struct state *base, int code, const char *act, struct kg_err *err)
{
    return fail(own(base), code, act, err);
}

/* -- the backend ------------------------------------------------------------------------------- */

const struct state_backend state_sqlite = {
    .sessions = &state_sessions_sqlite,
    .open = sqlite_open,
    .open_readonly = sqlite_open_readonly,
    .close = sqlite_close,
    .audit_head_get = sqlite_audit_head_get,
    .audit_head_set = sqlite_audit_head_set,
    .plugin_choice_set = sqlite_plugin_choice_set,
    .plugin_choices = sqlite_plugin_choices,
    .credential_add = sqlite_credential_add,
    .credential_remove = sqlite_credential_remove,
    .credentials = sqlite_credentials,
    .consent_set = sqlite_consent_set,
    .consent_remove = sqlite_consent_remove,
    .consents = sqlite_consents,
    .activation_set = sqlite_activation_set,
    .activation_remove = sqlite_activation_remove,
    .activations = sqlite_activations,
    .project_set = sqlite_project_set,
    .projects = sqlite_projects,
};
