/*
 * kaged.db by SQLite. Each set is one transaction, so a reader sees a head as a whole or the one
 * before it; a database that a newer kaged made is never touched.
 */
#include "storage/state/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#define BUSY_TIMEOUT_MS 1000 /* the loop waits here too; the writer holds it for milliseconds */

/* Step N brings a database from user_version N to N + 1; steps are only ever added. */
static const char *const migrations[] = {
#include "state-v1.sql.h"
};
#define NEWEST_VERSION ((int)KG_COUNT(migrations))

enum statement { HEAD_GET, HEAD_SET, CHOICE_GET, CHOICE_SET, CHOICE_CLEAR, STATEMENT_COUNT };

static const struct {
    const char *act; /* for messages */
    const char *sql;
} statement_rows[STATEMENT_COUNT] = {
    [HEAD_GET] = {"read the audit head", "SELECT first_block, first_prev, block, events, hash, "
                                         "signature FROM audit_head WHERE id = 1"},
    [HEAD_SET] = {"write the audit head", "INSERT OR REPLACE INTO audit_head (id, first_block, "
                                          "first_prev, block, events, hash, signature) "
                                          "VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)"},
    [CHOICE_GET] = {"read a plugin's choice",
                    "SELECT enabled FROM plugin_choice WHERE plugin = ?1"},
    [CHOICE_SET] = {"write a plugin's choice",
                    "INSERT OR REPLACE INTO plugin_choice (plugin, enabled) VALUES (?1, ?2)"},
    [CHOICE_CLEAR] = {"clear a plugin's choice", "DELETE FROM plugin_choice WHERE plugin = ?1"},
};

struct sqlite_state {
    struct state base;
    sqlite3 *db;
    char *path;
    int version; /* 0: opened read-only before its schema was made; it holds nothing */
    sqlite3_stmt *statements[STATEMENT_COUNT]; /* prepared at first use */
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

static void bind_plugin(sqlite3_stmt *statement, struct kg_str plugin)
{
    sqlite3_bind_text64(statement, 1, plugin.data ? plugin.data : "", plugin.length, SQLITE_STATIC,
                        SQLITE_UTF8);
}

static int sqlite_plugin_choice_get(struct state *base, struct kg_str plugin,
                                    enum state_choice *ret_choice, struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    if (state->version < 1) {
        *ret_choice = STATE_UNSAID;
        return 0;
    }
    sqlite3_stmt *statement = NULL;
    int result = ready(state, CHOICE_GET, &statement, err);
    if (result < 0)
        return result;
    bind_plugin(statement, plugin);
    enum state_choice choice = STATE_UNSAID;
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        choice = sqlite3_column_int(statement, 0) ? STATE_ENABLED : STATE_DISABLED;
    result = finish(state, CHOICE_GET, code, err);
    if (result == 0)
        *ret_choice = choice;
    return result;
}

static int sqlite_plugin_choice_set(struct state *base, struct kg_str plugin,
                                    enum state_choice choice, struct kg_err *err)
{
    struct sqlite_state *state = own(base);
    enum statement which = choice == STATE_UNSAID ? CHOICE_CLEAR : CHOICE_SET;
    sqlite3_stmt *statement = NULL;
    int result = ready(state, which, &statement, err);
    if (result < 0)
        return result;
    bind_plugin(statement, plugin);
    if (which == CHOICE_SET)
        sqlite3_bind_int(statement, 2, choice == STATE_ENABLED);
    return finish(state, which, sqlite3_step(statement), err);
}

/* -- the backend ------------------------------------------------------------------------------- */

const struct state_backend state_sqlite = {
    .open = sqlite_open,
    .open_readonly = sqlite_open_readonly,
    .close = sqlite_close,
    .audit_head_get = sqlite_audit_head_get,
    .audit_head_set = sqlite_audit_head_set,
    .plugin_choice_get = sqlite_plugin_choice_get,
    .plugin_choice_set = sqlite_plugin_choice_set,
};
