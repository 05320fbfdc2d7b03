/*
 * The schema of a cluster's database, forward only: each step is a file, all steps that are missing
 * are one transaction, and one that a newer kaged made is never touched.
 */
#include "state/postgres.h"

#include <errno.h>

/* clang-format off */
static const char version_1[] = ""
#include "state-pg-v1.sql.h"
;
static const char version_2[] = ""
#include "state-pg-v2.sql.h"
;
static const char version_3[] = ""
#include "state-pg-v3.sql.h"
;
/* clang-format on */

/* Step N brings a database from version N to N + 1; steps are only ever added. */
static const char *const migrations[] = {version_1, version_2, version_3};

int64_t postgres_newest_version(void)
{
    return (int64_t)KG_COUNT(migrations);
}

int postgres_version(struct postgres *postgres, int64_t *ret_version, struct kg_err *err)
{
    static const char act[] = "read its version";
    PGresult *rows = postgres_ask(postgres, "SELECT to_regclass('kaged.cluster') IS NOT NULL", act,
                                  NULL, NULL, err);
    if (rows == NULL)
        return -EIO;
    bool exists = postgres_int_at(postgres, rows, 0, 0) != 0;
    postgres->pq->PQclear(rows);
    *ret_version = 0;
    if (!exists)
        return 0;
    rows = postgres_ask(postgres, "SELECT version FROM kaged.cluster", act, NULL, NULL, err);
    if (rows == NULL)
        return -EIO;
    if (postgres->pq->PQntuples(rows) == 1)
        *ret_version = postgres_int_at(postgres, rows, 0, 0);
    postgres->pq->PQclear(rows);
    if (*ret_version <= postgres_newest_version())
        return 0;
    kg_fail(err, KG_E_CONFLICT,
            "state database %s: its schema has version %lld, but this kaged knows versions up to "
            "%lld",
            postgres->target->shown, (long long)*ret_version, (long long)postgres_newest_version());
    return kg_hint(err, "a newer kaged has used it: start that one");
}

/* Work for an org is done as a role of its own, which is made where there is none. */
static int schema_check_role(struct postgres *postgres, struct kg_err *err)
{
    PGresult *rows = postgres_ask(
        postgres,
        "SELECT rolsuper OR rolcreaterole OR (to_regrole('kaged_org') IS NOT NULL AND "
        "pg_has_role(current_user, to_regrole('kaged_org'), 'MEMBER')), current_user::text "
        "FROM pg_roles WHERE rolname = current_user",
        "read what its user may do", NULL, NULL, err);
    if (rows == NULL)
        return -EIO;
    int result = 0;
    if (postgres_int_at(postgres, rows, 0, 0) == 0) {
        kg_fail(err, KG_E_CONFLICT,
                "state database %s: the role kaged_org, as which work for orgs is done, cannot be "
                "used by the user %s",
                postgres->target->shown, postgres_text_at(postgres, rows, 0, 1));
        result = kg_hint(err,
                         "as the server's administrator: CREATE ROLE kaged_org NOLOGIN; GRANT "
                         "kaged_org TO %s",
                         postgres_text_at(postgres, rows, 0, 1));
    }
    postgres->pq->PQclear(rows);
    return result;
}

int postgres_migrate(struct postgres *postgres, const char *name, struct kg_err *err)
{
    static const char act[] = "bring its schema up to date";
    int64_t version;
    /* One at a time, until the transaction ends. */
    int result = postgres_script(postgres, "SELECT pg_advisory_xact_lock(1801545573, 3)", act, err);
    if (result == 0)
        result = postgres_version(postgres, &version, err);
    if (result == 0 && version < postgres_newest_version())
        result = schema_check_role(postgres, err);
    if (result == 0 && version == 0)
        result = postgres_script(postgres, "CREATE SCHEMA IF NOT EXISTS kaged", act, err);
    if (result < 0)
        return result;
    for (int64_t at = version; at < postgres_newest_version() && result == 0; at++)
        result = postgres_script(postgres, migrations[at], act, err);
    if (result < 0 || version == postgres_newest_version())
        return result;
    kg_auto(kg_free) char *newest = kg_format("%lld", (long long)postgres_newest_version());
    PGresult *rows = postgres_ask(postgres,
                                  "INSERT INTO kaged.cluster (id, version, name) "
                                  "VALUES (1, $1::text::bigint, $2::text) "
                                  "ON CONFLICT (id) DO UPDATE SET version = excluded.version",
                                  act, newest, name, err);
    if (rows == NULL)
        return -EIO;
    postgres->pq->PQclear(rows);
    return 0;
}

int postgres_check_server(struct postgres *postgres, struct kg_err *err)
{
    int server = postgres->pq->PQserverVersion(postgres->connection);
    if (server < STATE_CLUSTER_SERVER_MIN) {
        kg_fail(err, KG_E_INVALID_CONFIG, "state database %s: it is PostgreSQL %d.%d",
                postgres->target->shown, server / 10000, server % 10000);
        return kg_hint(err, "kaged needs PostgreSQL 15 or newer");
    }
    PGresult *rows = postgres_ask(postgres, "SELECT current_setting('server_encoding') = 'UTF8'",
                                  "read its encoding", NULL, NULL, err);
    if (rows == NULL)
        return -EIO;
    bool is_utf8 = postgres_int_at(postgres, rows, 0, 0) != 0;
    postgres->pq->PQclear(rows);
    if (is_utf8)
        return 0;
    kg_fail(err, KG_E_INVALID_CONFIG, "state database %s: it does not keep texts as UTF-8",
            postgres->target->shown);
    return kg_hint(err, "make another one: createdb --encoding=UTF8 --template=template0 NAME");
}
