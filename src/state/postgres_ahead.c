/*
 * Steps of a transaction cost no round trip of their own: begin, the mark of a place and its end
 * wait for the next statement and go with it, in one go. What was marked and not used is never
 * sent, and a transaction in which nothing was asked was never begun.
 */
#include "state/postgres.h"

#include <errno.h>

#define AHEAD_MAX 5
#define ASK_XID   "SELECT pg_current_xact_id()::text"
#define SET_ORG   "SELECT set_config('role', 'kaged_org', true), set_config('kaged.org', $1, true)"

static size_t ahead_scripts(const struct postgres_ahead *ahead, const char *scripts[AHEAD_MAX])
{
    size_t count = 0;
    if (ahead->begins)
        scripts[count++] =
            ahead->writes ? "BEGIN" : "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    if (ahead->begins && ahead->writes)
        scripts[count++] = ASK_XID;
    if (ahead->org != NULL)
        scripts[count++] = SET_ORG;
    if (ahead->forgets)
        scripts[count++] = "RELEASE place";
    if (ahead->saves)
        scripts[count++] = "SAVEPOINT place";
    return count;
}

/* -- with a statement -------------------------------------------------------------------------- */

int postgres_ahead_send(struct postgres *postgres)
{
    const char *scripts[AHEAD_MAX];
    size_t count = ahead_scripts(&postgres->ahead, scripts);
    int sent = postgres->pq->PQenterPipelineMode(postgres->connection);
    for (size_t i = 0; sent && i < count; i++)
        sent = postgres->pq->PQsendQueryParams(postgres->connection, scripts[i],
                                               strcmp(scripts[i], SET_ORG) == 0, NULL,
                                               &postgres->ahead.org, NULL, NULL, 0);
    return sent;
}

static bool ahead_is_lost(const struct postgres *postgres)
{
    return postgres->silent || postgres->pq->PQstatus(postgres->connection) != CONNECTION_OK;
}

/* What came of a go so far: the first that failed, else the last. */
struct ahead_answers {
    PGresult *kept;
    size_t count;
};

/* False: it failed, or one before it did. */
static bool ahead_take(struct postgres *postgres, struct ahead_answers *answers)
{
    bool failed = answers->count++ > 0 && !postgres_is_good(postgres, answers->kept);
    PGresult *next = ahead_is_lost(postgres) ? NULL : postgres_answer(postgres, 1);
    postgres->pq->PQclear(failed ? next : answers->kept);
    if (!failed)
        answers->kept = next;
    return !failed && postgres_is_good(postgres, next);
}

PGresult *postgres_ahead_answer(struct postgres *postgres, int sent, const struct postgres_go *go)
{
    const struct postgres_library *pq = postgres->pq;
    const char *scripts[AHEAD_MAX];
    size_t count = ahead_scripts(&postgres->ahead, scripts);
    struct ahead_answers answers = {0};
    if (!sent || !pq->PQpipelineSync(postgres->connection))
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (ahead_take(postgres, &answers) && strcmp(scripts[i], ASK_XID) == 0)
            postgres_take_xid(postgres, answers.kept);
    for (size_t i = 0; i < go->count; i++)
        if (ahead_take(postgres, &answers) && go->take != NULL)
            go->take(go->data, i, answers.kept);
    if (!ahead_is_lost(postgres))
        pq->PQclear(postgres_answer(postgres, 1)); /* the end of the go */
    if (ahead_is_lost(postgres)) {
        /* Without the end of the go nothing counts: a good answer would be taken for all of it. */
        if (!postgres_is_good(postgres, answers.kept))
            return answers.kept;
        pq->PQclear(answers.kept);
        return NULL;
    }
    pq->PQexitPipelineMode(postgres->connection);
    postgres->ahead = (struct postgres_ahead){0};
    return answers.kept;
}

/* -- steps ------------------------------------------------------------------------------------- */

/* True if the step is done with, as nothing was sent that it would end. */
static bool ahead_end(struct postgres_ahead *ahead, enum state_step step)
{
    bool ends_all = step == STATE_COMMIT || step == STATE_ROLLBACK;
    bool was_sent = ends_all ? !ahead->begins : !ahead->saves;
    if (ends_all)
        *ahead = (struct postgres_ahead){0};
    else
        ahead->saves = false;
    return !was_sent;
}

int postgres_step_later(struct postgres *postgres, enum state_step step, struct kg_err *err)
{
    struct postgres_ahead *ahead = &postgres->ahead;
    bool begins = step == STATE_BEGIN_WRITE || step == STATE_BEGIN_READ;
    if (begins) {
        int result = postgres_ready(postgres, err);
        if (result == 0)
            *ahead = (struct postgres_ahead){.begins = true, .writes = step == STATE_BEGIN_WRITE};
        return result;
    }
    if (postgres->broken || step == STATE_BEGIN_ALONE || step == STATE_SYNC_EACH ||
        step == STATE_SYNC_LATER)
        return postgres_step(postgres, step, err);
    if (step == STATE_SAVE) {
        ahead->saves = true;
        return 0;
    }
    if (ahead_end(ahead, step))
        return 0;
    if (step == STATE_FORGET) {
        ahead->forgets = true;
        return 0;
    }
    return postgres_step(postgres, step, err);
}
