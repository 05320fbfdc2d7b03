/*
 * A home's shared state on its way from kaged.db into PostgreSQL, or back. Every table is written
 * within one transaction of the side that gets it, read back there, and compared by count and hash
 * with what was read on the other; unless all of them agree, nothing has changed.
 */
#include "state/postgres.h"

#include <errno.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#define COLUMNS_MAX  16
#define FETCH_ROWS   "100"
#define LOCK_WAIT_MS 5000

/* A row of this table is the whole truth about one of theirs. types: 'i' a number, 't' a text, 'b'
 * bytes. */
static const struct carry_table {
    const char *name, *columns, *types, *order;
    const char *counter; /* a column that counts up by itself, or NULL */
} tables[] = {
    {"credential",
     "id, kind, hash, name, scopes, operator_id, created_ms, expires_ms, profile, principal",
     "ttbtttiitt", "id", NULL},
    {"consent",
     "id, kind, state, project, plugin, source, base, version, reason, answered_by, raised_ms, "
     "changed_ms",
     "ttttttttttii", "id", NULL},
    {"activation", "project, plugin, consent, operator_id, at_ms", "tttti", "project, plugin",
     NULL},
    {"project", "id, root, file, watched, operator_id, loaded_ms", "tttiti", "id", NULL},
    {"project_prompt", "project, path, hash", "ttt", "project, path", NULL},
    {"question",
     "id, session, agent, plugin, kind, title, schema, url, asked_ms, deadline_ms, state, "
     "answered_by, ended_ms",
     "ttttttttiitti", "id", NULL},
    {"mcp_setting", "kind, name, value", "ttt", "kind, name", NULL},
    {"mcp_call",
     "id, at_ms, client, owner, operator_id, project, plugin, tool, bytes_in, bytes_out, "
     "duration_ms, outcome, arguments, result, size",
     "iittttttiiittti", "id", "id"},
    {"session",
     "number, id, project_id, workdir, seat, state, operator_id, created_ms, updated_ms, parent, "
     "parent_entry, entries, title, branch, left_by",
     "ittttttiittittt", "number", "number"},
    {"session_content", "number, bytes", "ib", "number", "number"},
    {"session_entry",
     "session, seq, id, agent, kind, role, source, parent, rank, superseded, pinned, created_ms, "
     "tokens, bytes, content",
     "iittttttiiiiiii", "session, seq", NULL},
    {"session_agent", "session, path, entries, tokens, generation", "itiii", "session, path", NULL},
    {"session_move", "number, session, act, from_branch, to_branch, entry, snapshot, redone, at_ms",
     "ittttttii", "number", "number"},
    {"session_snapshot", "id, session, entry, folder, way, tree, files, bytes, left_out, at_ms",
     "ttttttiiti", "id", NULL},
    {"session_restore", "session, snapshot, at_ms", "tti", "session", NULL},
    {"org", "id, name, domain, active, deleted, profile, settings, quota, created_ms", "tttiittti",
     "id", NULL},
    {"principal", "id, name, email, sys_admin, created_ms", "tttii", "id", NULL},
    {"org_member", "org, principal, is_admin, created_ms", "ttii", "org, principal", NULL},
    {"package",
     "id, org, pid, version, object, bytes, enabled, is_latest, card, document, uploaded_by, "
     "created_ms",
     "tttttiiittti", "id", NULL},
    {"package_setting", "org, pid, value", "ttt", "org, pid", NULL},
    {"package_grant", "org, pid, capability, granted_by, at_ms", "tttti", "org, pid, capability",
     NULL},
    {"llm_config", "id, org, name, value, box, created_ms, changed_ms", "tttttii", "id", NULL},
    {"orchestrator",
     "id, org, name, framework, mode, tier, whoami, config, plugins, deleted, created_by, "
     "created_ms, changed_ms",
     "tttttttttitii", "id", NULL},
};

/* One value of a row; it is borrowed. */
struct cell {
    bool is_null;
    int64_t number;
    struct kg_str bytes; /* with a NUL behind them */
};

struct carry {
    sqlite3 *db; /* kaged.db */
    struct postgres *postgres;
    int64_t rows[KG_COUNT(tables)];
};

/* What a table amounts to. */
struct sum {
    int64_t rows;
    crypto_generichash_state hash;
};

/* What is done with each row; *insert is the statement of the side that writes. */
typedef int carry_row_fn(struct carry *carry, const struct carry_table *table,
                         const struct cell *cells, void *insert, struct kg_err *err);

static void sum_add(struct sum *sum, const char *types, const struct cell *cells)
{
    for (size_t i = 0; types[i] != '\0'; i++) {
        uint64_t head[2] = {cells[i].is_null,
                            types[i] == 'i' ? (uint64_t)cells[i].number : cells[i].bytes.length};
        crypto_generichash_update(&sum->hash, (const unsigned char *)head, sizeof(head));
        if (types[i] != 'i' && !cells[i].is_null)
            crypto_generichash_update(&sum->hash, (const unsigned char *)cells[i].bytes.data,
                                      cells[i].bytes.length);
    }
    sum->rows++;
}

/* -- kaged.db ---------------------------------------------------------------------------------- */

static int fail_sqlite(struct carry *carry, const struct carry_table *table, const char *act,
                       struct kg_err *err)
{
    return kg_fail(err, KG_E_IO, "%s the table %s of kaged.db: %s", act, table->name,
                   sqlite3_errmsg(carry->db));
}

static int sqlite_script(struct carry *carry, const char *sql, struct kg_err *err)
{
    return sqlite3_exec(carry->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : kg_fail(err, KG_E_IO, "kaged.db: %s: %s", sql, sqlite3_errmsg(carry->db));
}

static void sqlite_cells(sqlite3_stmt *row, const char *types, struct cell *ret_cells)
{
    for (int i = 0; types[i] != '\0'; i++) {
        const void *bytes = types[i] == 'b' ? sqlite3_column_blob(row, i)
                                            : (const void *)sqlite3_column_text(row, i);
        ret_cells[i] = (struct cell){.is_null = sqlite3_column_type(row, i) == SQLITE_NULL};
        if (types[i] == 'i')
            ret_cells[i].number = sqlite3_column_int64(row, i);
        else if (types[i] == 'b')
            ret_cells[i].bytes =
                (struct kg_str){bytes ? bytes : "", (size_t)sqlite3_column_bytes(row, i)};
        else
            ret_cells[i].bytes = kg_str(bytes ? bytes : "");
    }
}

static int sqlite_walk(struct carry *carry, const struct carry_table *table, struct sum *sum,
                       carry_row_fn *each_or_null, void *insert, struct kg_err *err)
{
    kg_auto(kg_free) char *sql =
        kg_format("SELECT %s FROM %s ORDER BY %s", table->columns, table->name, table->order);
    struct cell cells[COLUMNS_MAX];
    sqlite3_stmt *row = NULL;
    int result = 0, code = sqlite3_prepare_v2(carry->db, sql, -1, &row, NULL);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(row);
        if (code != SQLITE_ROW)
            break;
        sqlite_cells(row, table->types, cells);
        sum_add(sum, table->types, cells);
        result = each_or_null ? each_or_null(carry, table, cells, insert, err) : 0;
        if (result < 0)
            break;
    }
    if (result == 0 && code != SQLITE_DONE)
        result = fail_sqlite(carry, table, "read", err);
    sqlite3_finalize(row);
    return result;
}

static int sqlite_put(struct carry *carry, const struct carry_table *table,
                      const struct cell *cells, void *insert, struct kg_err *err)
{
    for (int i = 0; table->types[i] != '\0'; i++) {
        if (cells[i].is_null)
            sqlite3_bind_null(insert, i + 1);
        else if (table->types[i] == 'i')
            sqlite3_bind_int64(insert, i + 1, cells[i].number);
        else if (table->types[i] == 't')
            sqlite3_bind_text(insert, i + 1, cells[i].bytes.data, -1, SQLITE_STATIC);
        else
            sqlite3_bind_blob64(insert, i + 1, cells[i].bytes.data, cells[i].bytes.length,
                                SQLITE_STATIC);
    }
    int code = sqlite3_step(insert);
    sqlite3_reset(insert);
    return code == SQLITE_DONE ? 0 : fail_sqlite(carry, table, "write", err);
}

/* -- PostgreSQL -------------------------------------------------------------------------------- */

/* Columns of the statement: "$1, $2" or "?, ?". */
static char *insert_sql(const struct carry_table *table, const char *schema, bool numbered)
{
    struct kg_buf sql = {0};
    kg_buf_printf(&sql, "INSERT INTO %s%s (%s) VALUES (", schema, table->name, table->columns);
    for (int i = 0; table->types[i] != '\0'; i++) {
        kg_buf_text(&sql, i > 0 ? ", " : "");
        if (numbered)
            kg_buf_printf(&sql, "$%d", i + 1);
        else
            kg_buf_char(&sql, '?');
    }
    kg_buf_char(&sql, ')');
    return kg_buf_terminate(&sql);
}

static void postgres_cells(const struct postgres *postgres, const PGresult *rows, int row,
                           const char *types, struct cell *ret_cells)
{
    for (int i = 0; types[i] != '\0'; i++) {
        ret_cells[i] = (struct cell){.is_null = postgres->pq->PQgetisnull(rows, row, i)};
        if (types[i] == 'i')
            ret_cells[i].number = postgres_int_at(postgres, rows, row, i);
        else
            ret_cells[i].bytes = (struct kg_str){postgres->pq->PQgetvalue(rows, row, i),
                                                 (size_t)postgres->pq->PQgetlength(rows, row, i)};
    }
}

static int postgres_walk(struct carry *carry, const struct carry_table *table, struct sum *sum,
                         carry_row_fn *each_or_null, void *insert, struct kg_err *err)
{
    struct postgres *postgres = carry->postgres;
    kg_auto(kg_free) char *sql =
        kg_format("DECLARE walk NO SCROLL CURSOR FOR SELECT %s FROM kaged.%s ORDER BY %s",
                  table->columns, table->name, table->order);
    struct cell cells[COLUMNS_MAX];
    int result = postgres_script(postgres, sql, "read a table", err), count = 1;
    while (result == 0 && count > 0) {
        PGresult *rows = postgres_ask(postgres, "FETCH " FETCH_ROWS " FROM walk", "read a table",
                                      NULL, NULL, err);
        if (rows == NULL)
            return -EIO;
        count = postgres->pq->PQntuples(rows);
        for (int i = 0; i < count && result == 0; i++) {
            postgres_cells(postgres, rows, i, table->types, cells);
            sum_add(sum, table->types, cells);
            result = each_or_null ? each_or_null(carry, table, cells, insert, err) : 0;
        }
        postgres->pq->PQclear(rows);
    }
    return result < 0 ? result : postgres_script(postgres, "CLOSE walk", "read a table", err);
}

static int postgres_put(struct carry *carry, const struct carry_table *table,
                        const struct cell *cells, void *insert, struct kg_err *err)
{
    struct postgres *postgres = carry->postgres;
    const char *values[COLUMNS_MAX];
    int lengths[COLUMNS_MAX], formats[COLUMNS_MAX], count = (int)strlen(table->types);
    char numbers[COLUMNS_MAX][24];
    for (int i = 0; i < count; i++) {
        formats[i] = table->types[i] == 'b';
        lengths[i] = (int)cells[i].bytes.length;
        snprintf(numbers[i], sizeof(numbers[i]), "%lld", (long long)cells[i].number);
        values[i] = cells[i].is_null         ? NULL
                    : table->types[i] == 'i' ? numbers[i]
                                             : cells[i].bytes.data;
    }
    PGresult *result = postgres_answer(
        postgres, postgres->pq->PQsendQueryPrepared(postgres->connection, insert, count, values,
                                                    lengths, formats, 1));
    int failed = postgres->pq->PQresultStatus(result) == PGRES_COMMAND_OK
                     ? 0
                     : postgres_fail(postgres, result, table->name, err);
    postgres->pq->PQclear(result);
    return failed;
}

/* What is added from now on goes on behind what was carried over. */
static int postgres_count_on(struct carry *carry, const struct carry_table *table,
                             struct kg_err *err)
{
    if (table->counter == NULL)
        return 0;
    kg_auto(kg_free) char *sql =
        kg_format("SELECT setval(pg_get_serial_sequence('kaged.%s', '%s'), coalesce(max(%s), 1), "
                  "max(%s) IS NOT NULL) FROM kaged.%s",
                  table->name, table->counter, table->counter, table->counter, table->name);
    return postgres_script(carry->postgres, sql, "count on", err);
}

/* -- a table ----------------------------------------------------------------------------------- */

static int carry_check_same(const struct carry_table *table, struct sum *sent, struct sum *there,
                            struct kg_err *err)
{
    unsigned char first[crypto_generichash_BYTES], second[crypto_generichash_BYTES];
    crypto_generichash_final(&sent->hash, first, sizeof(first));
    crypto_generichash_final(&there->hash, second, sizeof(second));
    if (sent->rows == there->rows && memcmp(first, second, sizeof(first)) == 0)
        return 0;
    return kg_fail(err, KG_E_IO,
                   "the table %s is not the same on both sides: of %lld rows %lld arrived, and "
                   "their hashes differ; nothing was changed",
                   table->name, (long long)sent->rows, (long long)there->rows);
}

static struct sum sum_new(void)
{
    struct sum sum = {0};
    crypto_generichash_init(&sum.hash, NULL, 0, crypto_generichash_BYTES);
    return sum;
}

static int table_to_postgres(struct carry *carry, const struct carry_table *table,
                             int64_t *ret_rows, struct kg_err *err)
{
    const struct postgres_library *pq = carry->postgres->pq;
    struct sum sent = sum_new(), there = sum_new();
    kg_auto(kg_free) char *sql = insert_sql(table, "kaged.", true);
    PGresult *prepared = postgres_answer(
        carry->postgres, pq->PQsendPrepare(carry->postgres->connection, table->name, sql, 0, NULL));
    int result = pq->PQresultStatus(prepared) == PGRES_COMMAND_OK
                     ? 0
                     : postgres_fail(carry->postgres, prepared, "write a table", err);
    pq->PQclear(prepared);
    if (result == 0)
        result =
            sqlite_walk(carry, table, &sent, postgres_put, (void *)(uintptr_t)table->name, err);
    if (result == 0)
        result = postgres_walk(carry, table, &there, NULL, NULL, err);
    if (result == 0)
        result = carry_check_same(table, &sent, &there, err);
    if (result == 0)
        result = postgres_count_on(carry, table, err);
    *ret_rows = sent.rows;
    return result;
}

static int table_to_sqlite(struct carry *carry, const struct carry_table *table, int64_t *ret_rows,
                           struct kg_err *err)
{
    struct sum sent = sum_new(), there = sum_new();
    kg_auto(kg_free) char *sql = insert_sql(table, "", false);
    kg_auto(kg_free) char *empty = kg_format("DELETE FROM %s", table->name);
    sqlite3_stmt *insert = NULL;
    int result = sqlite_script(carry, empty, err);
    if (result == 0 && sqlite3_prepare_v2(carry->db, sql, -1, &insert, NULL) != SQLITE_OK)
        result = fail_sqlite(carry, table, "write", err);
    if (result == 0)
        result = postgres_walk(carry, table, &sent, sqlite_put, insert, err);
    sqlite3_finalize(insert);
    if (result == 0)
        result = sqlite_walk(carry, table, &there, NULL, NULL, err);
    if (result == 0)
        result = carry_check_same(table, &sent, &there, err);
    *ret_rows = sent.rows;
    return result;
}

static int carry_all(struct carry *carry, bool to_postgres, struct kg_err *err)
{
    int result = 0;
    for (size_t i = 0; i < KG_COUNT(tables) && result == 0; i++)
        result = to_postgres ? table_to_postgres(carry, &tables[i], &carry->rows[i], err)
                             : table_to_sqlite(carry, &tables[i], &carry->rows[i], err);
    return result;
}

static void carry_tell(const struct carry *carry, state_carried_fn *visit, void *data)
{
    for (size_t i = 0; i < KG_COUNT(tables); i++)
        visit(data, &(struct state_carried){tables[i].name, carry->rows[i]});
}

/* -- both sides, opened ------------------------------------------------------------------------ */

/* Its schema is brought up to date first. */
static int open_local(struct carry *carry, const char *place, struct kg_err *err)
{
    struct state *state = state_open(place, err);
    if (state == NULL)
        return -EIO;
    state_close(state);
    if (sqlite3_open_v2(place, &carry->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return kg_fail(err, KG_E_IO, "open %s: %s", place, sqlite3_errmsg(carry->db));
    return sqlite_script(carry, "PRAGMA synchronous = FULL", err);
}

static int open_both(struct carry *carry, const struct state_cluster_options *options,
                     struct kg_err *err)
{
    int result = postgres_target_set(carry->postgres->target, options, err);
    if (result == 0)
        result = open_local(carry, options->place, err);
    if (result == 0)
        result = postgres_ready(carry->postgres, err);
    return result < 0 ? result : postgres_check_server(carry->postgres, err);
}

static void close_both(struct carry *carry)
{
    sqlite3_close(carry->db);
    postgres_disconnect(carry->postgres);
    postgres_target_clear(carry->postgres->target);
}

/* -- init -------------------------------------------------------------------------------------- */

static int carry_name_of(struct postgres *postgres, char **ret_name, struct kg_err *err)
{
    PGresult *rows =
        postgres_ask(postgres, "SELECT name FROM kaged.cluster", "read its name", NULL, NULL, err);
    if (rows == NULL)
        return -EIO;
    *ret_name =
        kg_strdup(postgres->pq->PQntuples(rows) > 0 ? postgres_text_at(postgres, rows, 0, 0) : "");
    postgres->pq->PQclear(rows);
    return 0;
}

/* Whether there is what the start expects. */
static int carry_check_start(struct carry *carry, enum state_cluster_start start,
                             struct kg_err *err)
{
    int64_t version;
    int result = postgres_version(carry->postgres, &version, err);
    if (result < 0 || (version > 0) == (start == STATE_CLUSTER_EXISTING))
        return result;
    kg_fail(err, KG_E_CONFLICT, "state database %s: there is %s state of kaged in it",
            carry->postgres->target->shown, version > 0 ? "already a" : "no");
    return kg_hint(err, version > 0 ? "kaged cluster init --existing lets this home use it"
                                    : "without --existing one is made");
}

/* What is on a disk is on this node's. */
static int carry_pin(struct postgres *postgres, struct kg_err *err)
{
    static const char *const pinned[] = {"project", "consent", "session_restore"};
    for (size_t i = 0; i < KG_COUNT(pinned); i++) {
        kg_auto(kg_free) char *sql =
            kg_format("UPDATE kaged.%s SET node = $1::text WHERE node = ''", pinned[i]);
        PGresult *rows =
            postgres_ask(postgres, sql, "write whose it is", postgres->target->node, NULL, err);
        if (rows == NULL)
            return -EIO;
        postgres->pq->PQclear(rows);
    }
    return 0;
}

/* The note is there before the commit: a home that is cut off in between is told to begin anew. */
static int init_within(struct carry *carry, const char *place, enum state_cluster_start start,
                       struct kg_err *err)
{
    struct kg_id fresh = kg_id_new("clu_");
    kg_auto(kg_free) char *name = NULL;
    int result = postgres_migrate(carry->postgres, fresh.text, err);
    if (result == 0)
        result = carry_name_of(carry->postgres, &name, err);
    if (result == 0 && start == STATE_CLUSTER_FROM_LOCAL)
        result = sqlite_script(carry, "BEGIN", err);
    if (result == 0 && start == STATE_CLUSTER_FROM_LOCAL)
        result = carry_all(carry, true, err);
    if (result == 0 && start == STATE_CLUSTER_FROM_LOCAL)
        result = carry_pin(carry->postgres, err);
    if (result == 0)
        result = state_cluster_note(place, name, err);
    if (result == 0)
        result = postgres_step(carry->postgres, STATE_COMMIT, err);
    return result;
}

int state_cluster_init(const struct state_cluster_options *options, enum state_cluster_start start,
                       state_carried_fn *visit, void *data, struct kg_err *err)
{
    struct postgres_target target = {0};
    struct postgres postgres = {.target = &target, .purpose = "init"};
    struct carry carry = {.postgres = &postgres};
    int result = open_both(&carry, options, err);
    if (result == 0 && start != STATE_CLUSTER_EXISTING)
        result = state_cluster_lock(&postgres, LOCK_WAIT_MS, err);
    if (result == 0)
        result = carry_check_start(&carry, start, err);
    if (result == 0)
        result = postgres_step(&postgres, STATE_BEGIN_WRITE, err);
    if (result == 0) {
        result = init_within(&carry, options->place, start, err);
        if (result < 0)
            (void)state_cluster_note(options->place, NULL, NULL);
    }
    close_both(&carry);
    if (result == 0 && start == STATE_CLUSTER_FROM_LOCAL)
        carry_tell(&carry, visit, data);
    return result;
}

/* -- and back ---------------------------------------------------------------------------------- */

static int leave_within(struct carry *carry, struct kg_err *err)
{
    int result = sqlite_script(carry, "BEGIN IMMEDIATE", err);
    if (result == 0)
        result = carry_all(carry, false, err);
    return result < 0 ? result : sqlite_script(carry, "COMMIT", err);
}

int state_cluster_to_local(const struct state_cluster_options *options, state_carried_fn *visit,
                           void *data, struct kg_err *err)
{
    struct postgres_target target = {0};
    struct postgres postgres = {.target = &target, .purpose = "leave"};
    struct carry carry = {.postgres = &postgres};
    kg_auto(kg_free) char *noted = NULL, *name = NULL;
    int64_t version;
    int result = open_both(&carry, options, err);
    if (result == 0)
        result = state_cluster_lock(&postgres, LOCK_WAIT_MS, err);
    if (result == 0)
        result = postgres_version(&postgres, &version, err);
    if (result == 0)
        result = postgres_step(&postgres, STATE_BEGIN_READ, err);
    if (result == 0)
        result = carry_name_of(&postgres, &name, err);
    if (result == 0)
        result = state_cluster_noted(options->place, &noted, err);
    if (result == 0 && (noted == NULL || strcmp(noted, name) != 0))
        result = kg_fail(err, KG_E_CONFLICT,
                         "state database %s: it is not the one that this home uses", target.shown);
    if (result == 0)
        result = leave_within(&carry, err);
    if (result == 0)
        result = state_cluster_note(options->place, NULL, err);
    close_both(&carry);
    if (result == 0)
        carry_tell(&carry, visit, data);
    return result;
}
