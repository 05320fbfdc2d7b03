/*
 * A connection to PostgreSQL that may be lost at any moment: it is made again when it is next
 * needed, with growing pauses between tries that fail. A transaction ends with its connection, and
 * until who began it has heard so nothing else is done in its place. Of a commit whose answer was
 * lost the server is asked; what it cannot tell is never reported as done.
 */
#include "state/postgres.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CONNECT_SEC        "5"
#define PAUSE_FIRST_MS     100
#define PAUSE_MOST_MS      UINT64_C(5000)
#define OUTCOME_WAIT_MS    8000 /* for a server that restarts */
#define OUTCOME_PAUSE_MS   100
#define ANSWER_MS          35000 /* past what the server allows a statement */
#define MESSAGE_COLUMNS    300
#define PASSWORD_PARAMETER "password="

/*
 * Nothing that a daemon asks takes as long as these allow. All that is asked often is prepared, and
 * has one good plan whatever its parameters are: making a plan anew takes longer than an append.
 */
static const char connection_set_up[] =
    "SET client_min_messages = error; SET search_path = kaged; SET statement_timeout = 30000; SET "
    "lock_timeout = 10000; "
    "SET idle_in_transaction_session_timeout = 10000; SET standard_conforming_strings = on; "
    "SET plan_cache_mode = force_generic_plan; "
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'";

/* -- where it leads to ------------------------------------------------------------------------- */

static bool url_has_password(const char *url)
{
    const char *host = strstr(url, "://") + 3;
    size_t authority = strcspn(host, "/?");
    const char *at = memchr(host, '@', authority);
    return (at != NULL && memchr(host, ':', (size_t)(at - host)) != NULL) ||
           strstr(host + authority, PASSWORD_PARAMETER) != NULL;
}

int state_cluster_check_url(const char *database, struct kg_err *err)
{
    if (!kg_str_starts(kg_str(database), "postgres://") &&
        !kg_str_starts(kg_str(database), "postgresql://")) {
        kg_fail(err, KG_E_INVALID_CONFIG, "cluster.database is not a URL of PostgreSQL");
        return kg_hint(err, "write it as postgres://USER@HOST:PORT/DATABASE");
    }
    if (!url_has_password(database))
        return 0;
    kg_fail(err, KG_E_INVALID_CONFIG,
            "cluster.database has a password in it, which everybody who sees config.toml would "
            "see");
    return kg_hint(err,
                   "in local.toml: [cluster] password = \"${secret:NAME}\"; or use PGPASSFILE");
}

int postgres_target_set(struct postgres_target *target, const struct state_cluster_options *options,
                        struct kg_err *err)
{
    int result = state_cluster_check_url(options->database, err);
    if (result < 0)
        return result;
    target->url = kg_strdup(options->database);
    target->shown =
        kg_str_dup(kg_str_first(kg_str(options->database), strcspn(options->database, "?")));
    target->password_or_null = kg_strdup(options->password_or_null);
    target->node = kg_strdup(options->node);
    return 0;
}

void postgres_target_clear(struct postgres_target *target)
{
    free(target->url);
    free(target->shown);
    if (target->password_or_null != NULL)
        explicit_bzero(target->password_or_null, strlen(target->password_or_null));
    free(target->password_or_null);
    free(target->node);
    *target = (struct postgres_target){0};
}

/* -- failures ---------------------------------------------------------------------------------- */

/* By the classes of SQLSTATE. What is away comes back: who asked can try again. */
static const struct {
    const char *state; /* how it begins */
    int errnum;
    bool away;
} failure_rows[] = {
    {"KG001", EXDEV, false},    /* the fence of pg/v3.sql */
    {"23", EEXIST, false},      /* a constraint */
    {"25006", EROFS, false},    /* this connection only reads */
    {"53100", ENOSPC, false},   /* the server's disk is full */
    {"53", EAGAIN, true},       /* too many connections, out of memory */
    {"57014", ETIMEDOUT, true}, /* a statement took too long */
    {"55P03", EBUSY, true},     /* somebody has had a lock for too long */
    {"40", EBUSY, true},        /* a deadlock */
    {"57P", EAGAIN, true},      /* the server stops, or starts */
    {"25P03", EAGAIN, true},    /* we were idle within a transaction */
    {"08", EAGAIN, true},       /* the connection */
};

static int fail_away(struct postgres *postgres, int errnum, const char *act, const char *words,
                     struct kg_err *err)
{
    kg_fail(err, KG_E_DATABASE_AWAY, "state database %s: %s: %.*s", postgres->target->shown, act,
            KG_STR_CUT(kg_str_first(kg_str(words), strcspn(words, "\n")), MESSAGE_COLUMNS));
    if (err != NULL)
        err->errnum = errnum;
    return -errnum;
}

void postgres_disconnect(struct postgres *postgres)
{
    if (postgres->connection != NULL) {
        postgres->before = postgres->pq->PQbackendPID(postgres->connection);
        postgres->pq->PQfinish(postgres->connection);
    }
    postgres->connection = NULL;
    postgres->silent = false;
    memset(postgres->prepared, 0, sizeof(postgres->prepared));
}

int postgres_fail(struct postgres *postgres, const PGresult *result_or_null, const char *act,
                  struct kg_err *err)
{
    const struct postgres_library *pq = postgres->pq;
    const char *state =
        result_or_null ? pq->PQresultErrorField(result_or_null, PG_DIAG_SQLSTATE) : NULL;
    const char *words =
        result_or_null ? pq->PQresultErrorField(result_or_null, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    if (words == NULL)
        words = postgres->silent ? "it has not answered in time"
                                 : pq->PQerrorMessage(postgres->connection);
    bool lost = postgres->silent || pq->PQstatus(postgres->connection) != CONNECTION_OK;
    for (size_t i = 0; state != NULL && !lost && i < KG_COUNT(failure_rows); i++) {
        if (!kg_str_starts(kg_str(state), failure_rows[i].state))
            continue;
        if (failure_rows[i].away)
            return fail_away(postgres, failure_rows[i].errnum, act, words, err);
        if (failure_rows[i].errnum == EXDEV)
            kg_fail(err, KG_E_ELSEWHERE, "%s", words);
        else
            kg_fail(err, KG_E_IO, "state database %s: %s: %s", postgres->target->shown, act, words);
        if (err != NULL)
            err->errnum = failure_rows[i].errnum;
        return -failure_rows[i].errnum;
    }
    if (!lost) {
        kg_fail(err, KG_E_IO, "state database %s: %s: %s", postgres->target->shown, act, words);
        return -EIO;
    }
    int result = fail_away(postgres, ECONNRESET, act, words, err);
    postgres_disconnect(postgres);
    return result;
}

/* -- connecting -------------------------------------------------------------------------------- */

static int connection_open(struct postgres *postgres, struct kg_err *err)
{
    const struct postgres_target *target = postgres->target;
    kg_auto(kg_free) char *name = kg_format("kaged %s %s", target->node, postgres->purpose);
    const char *const keywords[] = {"connect_timeout",
                                    "keepalives_idle",
                                    "keepalives_interval",
                                    "keepalives_count",
                                    "tcp_user_timeout",
                                    "application_name",
                                    "client_encoding",
                                    "dbname",
                                    target->password_or_null ? "password" : NULL,
                                    NULL};
    const char *const values[] = {
        CONNECT_SEC, "10", "5", "3", "15000", name, "UTF8", target->url, target->password_or_null,
        NULL};
    postgres->pq = postgres_library(err);
    if (postgres->pq == NULL)
        return -ENOENT;
    postgres->connection = postgres->pq->PQconnectdbParams(keywords, values, 1);
    if (postgres->pq->PQstatus(postgres->connection) == CONNECTION_OK &&
        postgres->pq->PQsetnonblocking(postgres->connection, 1) == 0)
        return 0;
    int result = fail_away(postgres, EAGAIN, "connect",
                           postgres->pq->PQerrorMessage(postgres->connection), err);
    postgres_disconnect(postgres);
    return result;
}

/* What the connection before was asked for last is not done later, when nobody thinks of it. */
static int connection_end_before(struct postgres *postgres, struct kg_err *err)
{
    if (postgres->before == 0)
        return 0;
    kg_auto(kg_free) char *pid = kg_format("%d", postgres->before);
    PGresult *rows = postgres_ask(postgres,
                                  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                  "WHERE pid = $1::text::int AND usename = current_user AND "
                                  "application_name = current_setting('application_name')",
                                  "end the connection before", pid, NULL, err);
    if (rows == NULL)
        return -EAGAIN;
    postgres->pq->PQclear(rows);
    postgres->before = 0;
    return 0;
}

/* Figures about WAL begin again when a server recovers, also if only one of its processes died. */
static int connection_take_life(struct postgres *postgres, struct kg_err *err)
{
    PGresult *rows = postgres_ask(postgres,
                                  "SELECT concat_ws(' ', pg_postmaster_start_time(), "
                                  "(SELECT stats_reset FROM pg_stat_wal))",
                                  "set up a connection", NULL, NULL, err);
    if (rows == NULL)
        return -EAGAIN;
    snprintf(postgres->server_life, sizeof(postgres->server_life), "%s",
             postgres->pq->PQgetvalue(rows, 0, 0));
    postgres->pq->PQclear(rows);
    return 0;
}

static int connection_begin(struct postgres *postgres, struct kg_err *err)
{
    int before = postgres->before;
    int result = connection_open(postgres, err);
    if (result == 0)
        result = connection_end_before(postgres, err);
    if (result == 0)
        result = postgres_script(postgres, connection_set_up, "set up a connection", err);
    if (result == 0)
        result = connection_take_life(postgres, err);
    if (result == 0 && postgres->readonly)
        result = postgres_script(postgres, "SET default_transaction_read_only = on",
                                 "set up a connection", err);
    if (result == 0 && postgres->target->check != NULL)
        result = postgres->target->check(postgres, postgres->target->data, err);
    if (result < 0) {
        postgres_disconnect(postgres);
        postgres->before = before;
    }
    return result;
}

/* 0.1, 0.2, 0.4 s and so on. */
static void connection_pause(struct postgres *postgres)
{
    uint64_t pause = PAUSE_FIRST_MS << (postgres->tries < 10 ? postgres->tries : 10);
    postgres->tries++;
    postgres->next_ms = kg_monotonic_ms() + (pause < PAUSE_MOST_MS ? pause : PAUSE_MOST_MS);
}

int postgres_ready(struct postgres *postgres, struct kg_err *err)
{
    int result =
        postgres->target->allow != NULL ? postgres->target->allow(postgres->target->data, err) : 0;
    if (result < 0 || postgres->connection != NULL)
        return result;
    if (kg_monotonic_ms() < postgres->next_ms) {
        if (err != NULL)
            *err = postgres->cause;
        return -EAGAIN;
    }
    result = connection_begin(postgres, &postgres->cause);
    if (result == 0) {
        postgres->tries = 0;
        return 0;
    }
    connection_pause(postgres);
    if (err != NULL)
        *err = postgres->cause;
    return result;
}

/* -- asking ------------------------------------------------------------------------------------ */

/* False: the socket was not ready for as long as a server may be silent. */
static bool socket_wait(struct postgres *postgres, short events, uint64_t until_ms)
{
    struct pollfd socket = {.fd = postgres->pq->PQsocket(postgres->connection), .events = events};
    uint64_t now_ms = kg_monotonic_ms();
    int ready = 0;
    if (now_ms < until_ms)
        ready = poll(&socket, 1, (int)(until_ms - now_ms));
    return ready > 0 || (ready < 0 && errno == EINTR);
}

/* False: it was silent. Whatever else goes wrong is in the result. */
static bool answer_wait(struct postgres *postgres, uint64_t until_ms)
{
    const struct postgres_library *pq = postgres->pq;
    int left;
    while ((left = pq->PQflush(postgres->connection)) > 0) {
        if (!socket_wait(postgres, POLLIN | POLLOUT, until_ms))
            return false;
        if (!pq->PQconsumeInput(postgres->connection))
            return true;
    }
    while (left == 0 && pq->PQisBusy(postgres->connection)) {
        if (!socket_wait(postgres, POLLIN, until_ms))
            return false;
        if (!pq->PQconsumeInput(postgres->connection))
            return true;
    }
    return true;
}

PGresult *postgres_answer(struct postgres *postgres, int sent)
{
    const struct postgres_library *pq = postgres->pq;
    uint64_t until_ms =
        kg_monotonic_ms() + (postgres->answer_ms > 0 ? postgres->answer_ms : ANSWER_MS);
    PGresult *last = NULL;
    while (sent) {
        postgres->silent = !answer_wait(postgres, until_ms);
        PGresult *next = postgres->silent ? NULL : pq->PQgetResult(postgres->connection);
        if (next != NULL || postgres->silent)
            pq->PQclear(last);
        if (next == NULL)
            return postgres->silent ? NULL : last;
        last = next;
    }
    return last;
}

/* A script, and the last that it gives. */
static PGresult *script_run(struct postgres *postgres, const char *sql)
{
    return postgres_answer(postgres, postgres->pq->PQsendQuery(postgres->connection, sql));
}

bool postgres_is_good(const struct postgres *postgres, const PGresult *result)
{
    ExecStatusType status = postgres->pq->PQresultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

int postgres_script(struct postgres *postgres, const char *sql, const char *act, struct kg_err *err)
{
    PGresult *result = script_run(postgres, sql);
    int failed = postgres_is_good(postgres, result) ? 0 : postgres_fail(postgres, result, act, err);
    postgres->pq->PQclear(result);
    return failed;
}

PGresult *postgres_ask(struct postgres *postgres, const char *sql, const char *act,
                       const char *first_or_null, const char *second_or_null, struct kg_err *err)
{
    const char *const values[] = {first_or_null, second_or_null};
    int count = second_or_null != NULL ? 2 : first_or_null != NULL ? 1 : 0;
    PGresult *result =
        postgres_answer(postgres, postgres->pq->PQsendQueryParams(postgres->connection, sql, count,
                                                                  NULL, values, NULL, NULL, 1));
    if (postgres_is_good(postgres, result))
        return result;
    postgres_fail(postgres, result, act, err);
    postgres->pq->PQclear(result);
    return NULL;
}

int64_t postgres_int_at(const struct postgres *postgres, const PGresult *rows, int row, int column)
{
    const char *bytes = postgres->pq->PQgetvalue(rows, row, column);
    uint64_t value = 0;
    int length = postgres->pq->PQgetlength(rows, row, column); /* 0 for NULL; 1 for a boolean */
    for (int i = 0; i < length && i < 8; i++)
        value = value << 8 | (unsigned char)bytes[i];
    return length == 4 ? (int32_t)value : (int64_t)value;
}

const char *postgres_text_at(const struct postgres *postgres, const PGresult *rows, int row,
                             int column)
{
    return postgres->pq->PQgetisnull(rows, row, column)
               ? NULL
               : postgres->pq->PQgetvalue(rows, row, column);
}

/* -- transactions ------------------------------------------------------------------------------ */

bool postgres_in_transaction(struct postgres *postgres)
{
    return postgres->broken || postgres->ahead.begins ||
           (postgres->connection != NULL &&
            postgres->pq->PQtransactionStatus(postgres->connection) != PQTRANS_IDLE);
}

void postgres_take_xid(struct postgres *postgres, const PGresult *rows)
{
    snprintf(postgres->xid, sizeof(postgres->xid), "%s", postgres->pq->PQgetvalue(rows, 0, 0));
}

/*
 * The number of the transaction is asked for along with it: a commit may have to be looked up. What
 * reads first and writes then is alone with it: each of its statements sees all that was committed
 * before it had the lock.
 */
static int transaction_begin(struct postgres *postgres, enum state_step step, struct kg_err *err)
{
    static const char *const scripts[] = {
        [STATE_BEGIN_READ] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        [STATE_BEGIN_WRITE] = "BEGIN; SELECT pg_current_xact_id()::text",
        [STATE_BEGIN_ALONE] = "BEGIN; SELECT pg_advisory_xact_lock(1801545573, 4); "
                              "SELECT pg_current_xact_id()::text",
    };
    const char *sql = scripts[step];
    bool writes = step != STATE_BEGIN_READ;
    int result = -EAGAIN;
    for (int tries = 0; tries < 2; tries++) { /* nothing was done yet */
        bool was_connected = postgres->connection != NULL;
        result = postgres_ready(postgres, err);
        if (result < 0)
            return result;
        PGresult *answer = script_run(postgres, sql);
        bool good = postgres_is_good(postgres, answer);
        if (good && writes)
            postgres_take_xid(postgres, answer);
        result = good ? 0 : postgres_fail(postgres, answer, "begin", err);
        postgres->pq->PQclear(answer);
        if (result == 0 || postgres->connection != NULL || !was_connected)
            break;
    }
    return result;
}

/*
 * True if the server knows what became of a transaction whose end nobody heard. A server that
 * crashed may have given its number to another one meanwhile, and cannot be asked.
 */
static bool outcome_ask(struct postgres *postgres, const char *xid, const char *server_life,
                        bool *ret_committed)
{
    if (postgres_ready(postgres, NULL) < 0 || strcmp(postgres->server_life, server_life) != 0)
        return false;
    PGresult *rows = postgres_ask(postgres, "SELECT pg_xact_status($1::text::xid8)",
                                  "ask for a transaction", xid, NULL, NULL);
    if (rows == NULL)
        return false;
    const char *status = postgres_text_at(postgres, rows, 0, 0);
    bool known = status != NULL && strcmp(status, "in progress") != 0;
    *ret_committed = known && strcmp(status, "committed") == 0;
    postgres->pq->PQclear(rows);
    return known;
}

static int outcome_find(struct postgres *postgres, struct kg_err *err)
{
    const struct timespec pause = {.tv_nsec = OUTCOME_PAUSE_MS * 1000000L};
    uint64_t until_ms = kg_monotonic_ms() + OUTCOME_WAIT_MS;
    bool committed = false;
    char server_life[POSTGRES_LIFE_BYTES];
    memcpy(server_life, postgres->server_life, sizeof(server_life));
    while (!outcome_ask(postgres, postgres->xid, server_life, &committed)) {
        bool is_another = strcmp(postgres->server_life, server_life) != 0;
        if (is_another || kg_monotonic_ms() >= until_ms) {
            kg_fail(err, KG_E_DATABASE_AWAY,
                    "state database %s: commit: the connection was lost, and whether it was "
                    "written is not known",
                    postgres->target->shown);
            return -ECONNRESET;
        }
        nanosleep(&pause, NULL);
    }
    if (committed)
        return 0;
    kg_fail(err, KG_E_DATABASE_AWAY,
            "state database %s: commit: the connection was lost, and nothing was written",
            postgres->target->shown);
    return -ECONNRESET;
}

static int transaction_commit(struct postgres *postgres, struct kg_err *err)
{
    PGresult *answer = script_run(postgres, "COMMIT");
    bool good = postgres_is_good(postgres, answer);
    /* After a statement that failed this rolls back, and says so in passing. */
    bool committed = good && strcmp(postgres->pq->PQcmdStatus(answer), "COMMIT") == 0;
    int result =
        committed ? 0
        : good    ? kg_fail(err, KG_E_IO, "state database %s: commit: a statement in it had failed",
                            postgres->target->shown)
                  : postgres_fail(postgres, answer, "commit", err);
    postgres->pq->PQclear(answer);
    if (result < 0 && postgres->connection == NULL && postgres->xid[0] != '\0')
        result = outcome_find(postgres, err);
    postgres->xid[0] = '\0';
    return result;
}

static int transaction_rollback(struct postgres *postgres, struct kg_err *err)
{
    bool was_broken = postgres->broken;
    postgres->broken = false;
    postgres->xid[0] = '\0';
    if (was_broken || postgres->connection == NULL)
        return 0; /* the server has done it */
    return postgres_script(postgres, "ROLLBACK", "roll back", err);
}

int postgres_step(struct postgres *postgres, enum state_step step, struct kg_err *err)
{
    static const char *const scripts[] = {
        [STATE_SAVE] = "SAVEPOINT place",
        [STATE_RETURN] = "ROLLBACK TO place; RELEASE place",
        [STATE_FORGET] = "RELEASE place",
    };
    if (step == STATE_SYNC_EACH || step == STATE_SYNC_LATER)
        return 0; /* every commit is on the server's disk */
    if (step == STATE_ROLLBACK)
        return transaction_rollback(postgres, err);
    if (step == STATE_BEGIN_WRITE || step == STATE_BEGIN_ALONE || step == STATE_BEGIN_READ)
        return transaction_begin(postgres, step, err);
    if (postgres->broken || postgres->connection == NULL)
        return fail_away(postgres, ECONNRESET, "commit", "the connection was lost", err);
    int result = step == STATE_COMMIT
                     ? transaction_commit(postgres, err)
                     : postgres_script(postgres, scripts[step], "mark a place", err);
    if (result < 0 && step != STATE_COMMIT)
        postgres->broken |= postgres->connection == NULL;
    return result;
}
