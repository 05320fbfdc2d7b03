/*
 * All that is asked of PostgreSQL by a handle: a statement is one row of a table, prepared when a
 * connection first uses it. Outside of a transaction, one that may be run again is, once, where the
 * connection turns out to be lost; within one only the first is, with which the transaction begins.
 */
#include "state/postgres.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define PARAMETERS_MAX 16
#define NAME_BYTES     8
#define OID_BYTEA      17
#define OID_INT8       20
#define OID_TEXT       25

enum statement_again { ONCE, AGAIN };
static const struct {
    enum statement_again again;
    const char *act;
    const char *sql;
} statement_rows[PG_STATEMENT_COUNT] = {
#define POSTGRES_STATEMENT(name, again, act, sql) [PG_##name] = {again, act, sql},
#include "state/postgres_statements.def"
#undef POSTGRES_STATEMENT
};

/* What a statement is run with. Texts and bytes are borrowed. */
struct parameters {
    int count;
    const char *values[PARAMETERS_MAX];
    int lengths[PARAMETERS_MAX], formats[PARAMETERS_MAX];
    Oid types[PARAMETERS_MAX];
    char numbers[PARAMETERS_MAX][24];
};

static void parameters_take(struct parameters *all, const char *types, va_list args)
{
    all->count = 0;
    for (; *types != '\0'; types++) {
        int at = all->count++;
        all->formats[at] = *types == 'b';
        all->lengths[at] = 0;
        if (*types == 'i') {
            snprintf(all->numbers[at], sizeof(all->numbers[at]), "%lld",
                     (long long)va_arg(args, int64_t));
            all->values[at] = all->numbers[at];
            all->types[at] = OID_INT8;
        } else if (*types == 't') {
            all->values[at] = va_arg(args, const char *);
            all->types[at] = OID_TEXT;
        } else {
            struct kg_str bytes = va_arg(args, struct kg_str);
            all->values[at] = bytes.length > 0 ? bytes.data : "";
            all->lengths[at] = (int)bytes.length;
            all->types[at] = OID_BYTEA;
        }
    }
}

static PGresult *statement_execute(struct postgres *postgres, enum postgres_statement which,
                                   const struct parameters *all)
{
    const struct postgres_library *pq = postgres->pq;
    char name[NAME_BYTES];
    snprintf(name, sizeof(name), "k%d", (int)which);
    if (!postgres->prepared[which]) {
        PGresult *result = postgres_answer(postgres, pq->PQsendPrepare(postgres->connection, name,
                                                                       statement_rows[which].sql,
                                                                       all->count, all->types));
        if (pq->PQresultStatus(result) != PGRES_COMMAND_OK)
            return result;
        pq->PQclear(result);
        postgres->prepared[which] = true;
    }
    bool has_ahead = postgres_has_ahead(postgres);
    int sent = !has_ahead || postgres_ahead_send(postgres);
    sent = sent && pq->PQsendQueryPrepared(postgres->connection, name, all->count, all->values,
                                           all->lengths, all->formats, 1);
    return has_ahead ? postgres_ahead_answer(postgres, sent) : postgres_answer(postgres, sent);
}

static int statement_try(struct postgres *postgres, enum postgres_statement which,
                         const struct parameters *all, PGresult **ret_rows, struct kg_err *err)
{
    const struct postgres_library *pq = postgres->pq;
    PGresult *rows = statement_execute(postgres, which, all);
    ExecStatusType status = pq->PQresultStatus(rows);
    int result = 0;
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        result = postgres_fail(postgres, rows, statement_rows[which].act, err);
    if (result == 0 && ret_rows != NULL)
        *ret_rows = rows;
    else
        pq->PQclear(rows);
    return result;
}

static int fail_unknown(struct postgres *postgres, enum postgres_statement which,
                        struct kg_err *err)
{
    kg_fail(err, KG_E_DATABASE_AWAY,
            "state database %s: %s: the connection was lost, and whether it was done is not known",
            postgres->target->shown, statement_rows[which].act);
    return -ECONNRESET;
}

/* Who began a transaction hears that nothing of it can be. */
static int fail_broken(struct postgres *postgres, int result)
{
    postgres->ahead = (struct postgres_ahead){0};
    postgres->broken = true;
    return result;
}

static int statement_run(struct postgres *postgres, enum postgres_statement which,
                         const struct parameters *all, PGresult **ret_rows, struct kg_err *err)
{
    bool begins = postgres->ahead.begins, within = postgres_in_transaction(postgres);
    if (postgres->broken)
        return kg_fail(
            err, KG_E_DATABASE_AWAY,
            "state database %s: %s: the connection was lost, and the transaction with it",
            postgres->target->shown, statement_rows[which].act);
    int result = postgres_ready(postgres, err);
    if (result == 0)
        result = statement_try(postgres, which, all, ret_rows, err);
    if (result == 0 || postgres->connection != NULL)
        return result;
    if (within && !begins)
        return fail_broken(postgres, result);
    if (!within && statement_rows[which].again == ONCE)
        return fail_unknown(postgres, which, err);
    result = postgres_ready(postgres, err) < 0 ? -EAGAIN
                                               : statement_try(postgres, which, all, ret_rows, err);
    return result < 0 && within && postgres->connection == NULL ? fail_broken(postgres, result)
                                                                : result;
}

int postgres_query(struct state *state, enum postgres_statement which, PGresult **ret_rows,
                   struct kg_err *err, const char *types, ...)
{
    struct parameters all;
    va_list args;
    va_start(args, types);
    parameters_take(&all, types, args);
    va_end(args);
    return statement_run(&postgres_own(state)->postgres, which, &all, ret_rows, err);
}

/* -- rows -------------------------------------------------------------------------------------- */

int postgres_begin(struct state *state, enum postgres_statement which, struct postgres_row *ret_row,
                   struct kg_err *err, const char *types, ...)
{
    struct postgres *postgres = &postgres_own(state)->postgres;
    struct parameters all;
    PGresult *rows = NULL;
    va_list args;
    va_start(args, types);
    parameters_take(&all, types, args);
    va_end(args);
    int result = statement_run(postgres, which, &all, &rows, err);
    if (result == 0)
        *ret_row = (struct postgres_row){postgres, rows, -1, postgres->pq->PQntuples(rows)};
    return result;
}

bool postgres_next(struct postgres_row *row)
{
    if (++row->at < row->count)
        return true;
    postgres_end(row);
    return false;
}

void postgres_end(struct postgres_row *row)
{
    row->postgres->pq->PQclear(row->rows);
    row->rows = NULL;
}

int64_t postgres_int(const struct postgres_row *row, int column)
{
    return postgres_int_at(row->postgres, row->rows, row->at, column);
}

const char *postgres_text(const struct postgres_row *row, int column)
{
    return postgres_text_at(row->postgres, row->rows, row->at, column);
}

struct kg_str postgres_bytes(const struct postgres_row *row, int column)
{
    const struct postgres_library *pq = row->postgres->pq;
    if (pq->PQgetisnull(row->rows, row->at, column))
        return KG_STR_NULL;
    return (struct kg_str){pq->PQgetvalue(row->rows, row->at, column),
                           (size_t)pq->PQgetlength(row->rows, row->at, column)};
}
