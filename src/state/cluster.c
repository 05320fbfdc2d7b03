/*
 * A daemon's part in a cluster's database. Locks of the database, which end with the connection
 * that holds them, and the node's row decide it:
 *
 *   1     shared by the guards, a thread with a connection of its own in each daemon, for as long
 * as that lives 2     shared by every other connection of daemons; who carries the state has both
 * alone 3     had by who brings the schema up to date (postgres_schema.c) node  had by the guard,
 * under the node's name: there is one daemon of that name lane  shared by its other connections; a
 * daemon that starts has it alone for a moment, so that by then no connection of the life before is
 * left
 *
 * The row says whose life the node's name had last. A connection is used only if that is ours, and
 * tells the database so: kaged.life is what sessions are fenced by (pg/v3.sql).
 */
#include "state/postgres.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOCK_KEY       "1801545573"
#define BEATS          5 /* in the time that a node lives without one */
#define NODES_VERSION  3 /* of the schema, with all that is shown of a node */
#define TRY_MS         100
#define LOG_EVERY_MS   5000
#define TAKE_MS        10000 /* for what a daemon that was killed has left open */
#define NOTE_BYTES_MAX 128

/* $1: the node, $2: the life. */
#define NAMED(what) "hashtextextended('kaged " what " ' || $1::text, 0)"
static const char guard_lock[] =
    "pg_try_advisory_lock_shared(" LOCK_KEY ", 1) AND pg_try_advisory_lock(" NAMED("node") ")";
static const char lane_lock[] =
    "pg_try_advisory_lock_shared(" LOCK_KEY ", 2) AND "
    "pg_try_advisory_lock_shared(" NAMED("lane") "), set_config('kaged.node', $1::text, false), "
                                                 "set_config('kaged.life', $2::text, false)";
static const char lanes_gone[] = "pg_try_advisory_lock(" NAMED("lane") ")";
static const char carry_locks[] =
    "pg_try_advisory_lock(" LOCK_KEY ", 1) AND pg_try_advisory_lock(" LOCK_KEY ", 2)";

struct state_cluster {
    char *place; /* kaged.db */
    char *program;
    struct kg_id incarnation;
    uint64_t lives_ms; /* for which this node is taken as alive after each sign of it */
    struct postgres_target lanes, own;
    struct postgres guard; /* the thread's, once it runs */
    pthread_t thread;
    pthread_mutex_t lock; /* for all that follows */
    pthread_cond_t wake;
    bool runs, stops;
    bool lost;           /* for good: somebody else has had the database */
    struct kg_err cause; /* of that */
};

static _Atomic(struct state_cluster *) joined;

const char *state_cluster_life(const struct state_cluster *cluster)
{
    return cluster->incarnation.text;
}

struct postgres_target *state_cluster_lanes(struct state_cluster *cluster)
{
    return &cluster->lanes;
}

struct postgres_target *state_cluster_target(const char *place)
{
    struct state_cluster *cluster = atomic_load(&joined);
    return cluster != NULL && strcmp(cluster->place, place) == 0 ? &cluster->lanes : NULL;
}

/* -- the home's note --------------------------------------------------------------------------- */

static char *note_path(const char *place)
{
    kg_auto(kg_free) char *folder = kg_path_folder(place);
    return kg_path_join(folder, "cluster");
}

int state_cluster_noted(const char *place, char **ret_name, struct kg_err *err)
{
    kg_auto(kg_free) char *path = note_path(place);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    *ret_name = NULL;
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return 0;
    int result = kg_read_file(path, NOTE_BYTES_MAX, &text, err);
    if (result < 0)
        return result;
    const char *line = kg_buf_terminate(&text);
    *ret_name = kg_str_dup(kg_str_first(kg_str(line), strcspn(line, "\n")));
    return 0;
}

int state_cluster_check(const char *place, struct kg_err *err)
{
    kg_auto(kg_free) char *noted = NULL;
    int result = state_cluster_noted(place, &noted, err);
    if (result < 0 || noted == NULL || state_cluster_target(place) != NULL)
        return result;
    kg_fail(err, KG_E_CONFLICT, "the state of this home is in a database");
    kg_hint(err, "start the daemon, and run the command again");
    return -EBUSY;
}

static int note_write(const char *path, const char *name, struct kg_err *err)
{
    kg_auto(kg_free) char *fresh = kg_format("%s.new", path), *line = kg_format("%s\n", name);
    kg_auto(kg_close) int fd =
        open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || kg_write_all(fd, line, strlen(line)) < 0 || fsync(fd) < 0 ||
        rename(fresh, path) < 0)
        return kg_fail_errno(err, errno, "write %s", path);
    return 0;
}

int state_cluster_note(const char *place, const char *name_or_null, struct kg_err *err)
{
    kg_auto(kg_free) char *path = note_path(place), *folder = kg_path_folder(place);
    int result = 0;
    if (name_or_null != NULL)
        result = note_write(path, name_or_null, err);
    else if (unlink(path) < 0 && errno != ENOENT)
        result = kg_fail_errno(err, errno, "remove %s", path);
    if (result < 0)
        return result;
    kg_auto(kg_close) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return kg_fail_errno(err, errno, "sync %s", folder);
    return 0;
}

/* -- locks ------------------------------------------------------------------------------------- */

/* The texts are the parameters of what is asked for. */
static int lock_try(struct postgres *postgres, const char *function, const char *life_or_null,
                    bool *ret_got, struct kg_err *err)
{
    bool is_named = strchr(function, '$') != NULL;
    kg_auto(kg_free) char *sql = kg_format("SELECT %s", function);
    PGresult *rows = postgres_ask(postgres, sql, "lock", is_named ? postgres->target->node : NULL,
                                  strstr(function, "$2") != NULL ? life_or_null : NULL, err);
    if (rows == NULL)
        return -EAGAIN;
    *ret_got = postgres_int_at(postgres, rows, 0, 0) != 0;
    postgres->pq->PQclear(rows);
    return 0;
}

/* Whose the node's name is, as the row says; *ret_ours tells whether that is this life of ours. */
static int life_read(struct postgres *postgres, const char *incarnation, bool *ret_ours,
                     struct kg_err *err)
{
    PGresult *rows =
        postgres_ask(postgres, "SELECT incarnation FROM kaged.node WHERE name = $1::text",
                     "read who is there", postgres->target->node, NULL, err);
    if (rows == NULL)
        return -EAGAIN;
    bool any = postgres->pq->PQntuples(rows) > 0;
    const char *now = any ? postgres_text_at(postgres, rows, 0, 0) : NULL;
    *ret_ours = now != NULL && strcmp(now, incarnation) == 0;
    postgres->pq->PQclear(rows);
    return 0;
}

/* The node that was seen last, our own name's first; the connection is of who was refused. */
static int state_cluster_refuse(struct postgres *postgres, struct kg_err *err)
{
    PGresult *rows =
        postgres_ask(postgres,
                     "SELECT name, to_char(seen AT TIME ZONE 'UTC', "
                     "'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM kaged.node WHERE stopped = 0 "
                     "ORDER BY name <> $1::text, seen DESC LIMIT 1",
                     "read who is there", postgres->target->node, NULL, err);
    if (rows == NULL)
        return -EAGAIN;
    bool any = postgres->pq->PQntuples(rows) > 0;
    kg_fail(err, KG_E_CONFLICT,
            "state database %s: the daemon of node %s has it, which was seen at %s",
            postgres->target->shown, any ? postgres_text_at(postgres, rows, 0, 0) : "?",
            any ? postgres_text_at(postgres, rows, 0, 1) : "?");
    postgres->pq->PQclear(rows);
    kg_hint(err, "stop that one, or give this one another name: cluster.node");
    return -EBUSY;
}

static int lock_wait(struct postgres *postgres, const char *function, uint64_t wait_ms,
                     struct kg_err *err)
{
    const struct timespec pause = {.tv_nsec = TRY_MS * 1000000L};
    uint64_t until_ms = kg_monotonic_ms() + wait_ms;
    bool got = false;
    int result;
    while ((result = lock_try(postgres, function, NULL, &got, err)) == 0 && !got) {
        if (kg_monotonic_ms() >= until_ms)
            return state_cluster_refuse(postgres, err);
        nanosleep(&pause, NULL);
    }
    return result;
}

int state_cluster_lock(struct postgres *postgres, uint64_t wait_ms, struct kg_err *err)
{
    int result = lock_wait(postgres, carry_locks, wait_ms, err);
    if (result == -EBUSY)
        kg_hint(err, "stop that one, and all others: the state is carried while nobody uses it");
    return result;
}

/* -- what connections are asked ---------------------------------------------------------------- */

static void cluster_lose(struct state_cluster *cluster, struct postgres *postgres)
{
    struct kg_err why = {0};
    (void)state_cluster_refuse(postgres, &why);
    pthread_mutex_lock(&cluster->lock);
    if (!cluster->lost) {
        cluster->lost = true;
        kg_fail(&cluster->cause, KG_E_DATABASE_AWAY,
                "another daemon has had this node's name since the database was lost, and this one "
                "takes no work that needs it: %s",
                why.message);
        kg_hint(&cluster->cause, "stop this daemon, or stop the other one and start this one anew");
        kg_log(KG_ERROR_LEVEL, "cluster: %s", cluster->cause.message);
    }
    pthread_mutex_unlock(&cluster->lock);
}

static int cluster_allow(void *data, struct kg_err *err)
{
    struct state_cluster *cluster = data;
    pthread_mutex_lock(&cluster->lock);
    bool lost = cluster->lost;
    if (lost && err != NULL)
        *err = cluster->cause;
    pthread_mutex_unlock(&cluster->lock);
    return lost ? -EBUSY : 0;
}

/* Of a connection that was just made: it has its lock, and the node's name is ours. */
static int cluster_check(struct state_cluster *cluster, struct postgres *postgres,
                         const char *function, struct kg_err *err)
{
    bool got = false, ours = false;
    int result = lock_try(postgres, function, cluster->incarnation.text, &got, err);
    if (result == 0)
        result = life_read(postgres, cluster->incarnation.text, &ours, err);
    if (result < 0 || (got && ours))
        return result;
    if (!ours) {
        cluster_lose(cluster, postgres);
        return cluster_allow(cluster, err);
    }
    kg_fail(err, KG_E_DATABASE_AWAY,
            "state database %s: connect: the server has not closed the connection before yet",
            postgres->target->shown);
    return -EAGAIN;
}

static int lane_check(struct postgres *postgres, void *data, struct kg_err *err)
{
    return cluster_check(data, postgres, lane_lock, err);
}

static int guard_check(struct postgres *postgres, void *data, struct kg_err *err)
{
    return cluster_check(data, postgres, guard_lock, err);
}

/* -- the guard --------------------------------------------------------------------------------- */

static int guard_tell(struct state_cluster *cluster, const char *sql, struct kg_err *err)
{
    PGresult *rows = postgres_ask(&cluster->guard, sql, "tell that this node is there",
                                  cluster->own.node, cluster->incarnation.text, err);
    if (rows == NULL)
        return -EAGAIN;
    cluster->guard.pq->PQclear(rows);
    return 0;
}

static int guard_beat(struct state_cluster *cluster, struct kg_err *err)
{
    int result = postgres_ready(&cluster->guard, err);
    return result < 0 ? result
                      : guard_tell(cluster,
                                   "UPDATE kaged.node SET seen = now() "
                                   "WHERE name = $1::text AND incarnation = $2::text",
                                   err);
}

static bool guard_rest(struct state_cluster *cluster, uint64_t rest_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(rest_ms / 1000);
    until.tv_nsec += (long)(rest_ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_mutex_lock(&cluster->lock);
    while (!cluster->stops && pthread_cond_timedwait(&cluster->wake, &cluster->lock, &until) == 0)
        ;
    bool goes_on = !cluster->stops && !cluster->lost;
    pthread_mutex_unlock(&cluster->lock);
    return goes_on;
}

static void *guard_run(void *data)
{
    struct state_cluster *cluster = data;
    uint64_t away_ms = 0; /* since when; 0: it is there */
    uint64_t beat_ms = cluster->lives_ms / BEATS, rest_ms = beat_ms;
    while (guard_rest(cluster, rest_ms)) {
        struct kg_err err = {0};
        bool is_here = guard_beat(cluster, &err) == 0;
        if (!is_here && away_ms == 0) {
            away_ms = kg_monotonic_ms();
            kg_log(KG_WARN, "cluster: %s; what needs it is answered with 503 until it is back",
                   err.message);
        } else if (is_here && away_ms != 0) {
            kg_log(KG_INFO, "cluster: state database %s is back after %llu ms", cluster->own.shown,
                   (unsigned long long)(kg_monotonic_ms() - away_ms));
            away_ms = 0;
        }
        rest_ms = is_here ? beat_ms : TRY_MS;
    }
    return NULL;
}

/* -- joining ----------------------------------------------------------------------------------- */

/* An operator may start the database and the daemon in any order. */
static int wait_for_database(struct postgres *postgres, uint64_t wait_ms, struct kg_err *err)
{
    const struct timespec pause = {.tv_nsec = TRY_MS * 1000000L};
    uint64_t start_ms = kg_monotonic_ms(), log_ms = start_ms;
    int result;
    while ((result = postgres_ready(postgres, err)) < 0) {
        uint64_t now_ms = kg_monotonic_ms();
        if (err->code != KG_E_DATABASE_AWAY || now_ms - start_ms >= wait_ms)
            break;
        if (now_ms >= log_ms) {
            kg_log(KG_WARN, "cluster: %s; waiting for it for %llu s more", err->message,
                   (unsigned long long)((wait_ms - (now_ms - start_ms)) / 1000));
            log_ms = now_ms + LOG_EVERY_MS;
        }
        nanosleep(&pause, NULL);
    }
    if (result < 0 && err->code == KG_E_DATABASE_AWAY)
        kg_hint(err,
                "cluster.wait_ms is how long the daemon waits for it; kaged doctor looks at it");
    return result;
}

static int state_cluster_check_name(struct postgres *postgres, const char *place,
                                    struct kg_err *err)
{
    kg_auto(kg_free) char *noted = NULL;
    int result = state_cluster_noted(place, &noted, err);
    if (result < 0)
        return result;
    PGresult *rows =
        postgres_ask(postgres, "SELECT name FROM kaged.cluster", "read its name", NULL, NULL, err);
    if (rows == NULL)
        return -EAGAIN;
    const char *name =
        postgres->pq->PQntuples(rows) > 0 ? postgres_text_at(postgres, rows, 0, 0) : NULL;
    bool same = name != NULL && noted != NULL && strcmp(name, noted) == 0;
    postgres->pq->PQclear(rows);
    if (same)
        return 0;
    kg_fail(err, KG_E_CONFLICT, "state database %s: it is not the one that this home %s",
            postgres->target->shown, noted ? "was made to use" : "uses: its state is in kaged.db");
    return kg_hint(err, noted ? "put the old cluster.database back, or take the state to this one "
                                "with: kaged cluster leave, kaged cluster init"
                              : "kaged cluster init --from-local takes it there");
}

static int migrate_if_older(struct postgres *postgres, struct kg_err *err)
{
    int64_t version;
    int result = postgres_version(postgres, &version, err);
    if (result < 0)
        return result;
    if (version == 0) {
        kg_fail(err, KG_E_CONFLICT, "state database %s: there is no state of kaged in it",
                postgres->target->shown);
        return kg_hint(err, "kaged cluster init makes one; with --from-local of this home's");
    }
    if (version == postgres_newest_version())
        return 0;
    result = postgres_step(postgres, STATE_BEGIN_WRITE, err);
    if (result == 0)
        result = postgres_migrate(postgres, "", err);
    if (result == 0)
        result = postgres_step(postgres, STATE_COMMIT, err);
    return result;
}

static int cluster_take(struct state_cluster *cluster, uint64_t wait_ms, struct kg_err *err)
{
    struct postgres *guard = &cluster->guard;
    int result = postgres_check_server(guard, err);
    wait_ms = wait_ms < TAKE_MS ? wait_ms : TAKE_MS;
    if (result == 0)
        result = lock_wait(guard, guard_lock, wait_ms, err);
    if (result == 0)
        result = lock_wait(guard, lanes_gone, wait_ms, err);
    if (result == 0)
        result = migrate_if_older(guard, err);
    if (result == 0)
        result = state_cluster_check_name(guard, cluster->place, err);
    kg_auto(kg_free) char *sql = kg_format(
        "WITH joined AS (INSERT INTO kaged.node (name, incarnation, program, started, seen, "
        "stopped, lives_ms) VALUES ($1::text, $2::text, '%s', now(), now(), 0, %llu) "
        "ON CONFLICT (name) DO UPDATE SET incarnation = $2::text, program = excluded.program, "
        "started = now(), seen = now(), stopped = 0, lives_ms = excluded.lives_ms, address = '') "
        "SELECT pg_advisory_unlock(" NAMED("lane") ")",
        cluster->program, (unsigned long long)cluster->lives_ms);
    return result < 0 ? result : guard_tell(cluster, sql, err);
}

static int cluster_start(struct state_cluster *cluster, struct kg_err *err)
{
    cluster->own.check = guard_check;
    cluster->own.data = cluster;
    cluster->lanes.check = lane_check;
    cluster->lanes.allow = cluster_allow;
    cluster->lanes.data = cluster;
    int result = pthread_create(&cluster->thread, NULL, guard_run, cluster);
    if (result != 0)
        return kg_fail_errno(err, result, "start a thread for the cluster");
    cluster->runs = true;
    return 0;
}

struct state_cluster *state_cluster_join(const struct state_cluster_options *options,
                                         struct kg_err *err)
{
    pthread_condattr_t clock;
    struct state_cluster *cluster = kg_alloc(sizeof(*cluster));
    cluster->place = kg_strdup(options->place);
    cluster->program = kg_strdup(options->program);
    cluster->incarnation = kg_id_new("life_");
    cluster->lives_ms = options->lives_ms > 0 ? options->lives_ms : STATE_CLUSTER_LIVES_MS;
    pthread_mutex_init(&cluster->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&cluster->wake, &clock);
    pthread_condattr_destroy(&clock);
    cluster->guard.target = &cluster->own;
    cluster->guard.purpose = "guard";
    if (postgres_target_set(&cluster->lanes, options, err) < 0 ||
        postgres_target_set(&cluster->own, options, err) < 0 ||
        wait_for_database(&cluster->guard, options->wait_ms, err) < 0 ||
        cluster_take(cluster, options->wait_ms, err) < 0 || cluster_start(cluster, err) < 0) {
        state_cluster_leave(cluster);
        return NULL;
    }
    atomic_store(&joined, cluster);
    kg_log(KG_INFO, "cluster: node %s has the state database %s", cluster->own.node,
           cluster->own.shown);
    return cluster;
}

static void guard_end(struct state_cluster *cluster)
{
    pthread_mutex_lock(&cluster->lock);
    cluster->stops = true;
    pthread_cond_signal(&cluster->wake);
    pthread_mutex_unlock(&cluster->lock);
    pthread_join(cluster->thread, NULL);
    if (cluster->guard.connection != NULL)
        (void)guard_tell(cluster,
                         "UPDATE kaged.node SET stopped = 1, seen = now() "
                         "WHERE name = $1::text AND incarnation = $2::text",
                         NULL);
}

void state_cluster_leave(struct state_cluster *cluster)
{
    if (cluster == NULL)
        return;
    if (cluster->runs)
        guard_end(cluster);
    struct state_cluster *self = cluster;
    atomic_compare_exchange_strong(&joined, &self, NULL);
    postgres_disconnect(&cluster->guard);
    postgres_target_clear(&cluster->lanes);
    postgres_target_clear(&cluster->own);
    pthread_cond_destroy(&cluster->wake);
    pthread_mutex_destroy(&cluster->lock);
    free(cluster->place);
    free(cluster->program);
    free(cluster);
}

/* -- looking ----------------------------------------------------------------------------------- */

static void facts_of_server(struct postgres *postgres, const PGresult *rows,
                            struct state_cluster_facts *facts)
{
    facts->is_utf8 = postgres_int_at(postgres, rows, 0, 0) != 0;
    facts->may_create = postgres_int_at(postgres, rows, 0, 1) != 0;
    facts->connections = postgres_int_at(postgres, rows, 0, 3);
    facts->connections_max = postgres_int_at(postgres, rows, 0, 4);
    facts->held = postgres_int_at(postgres, rows, 0, 5) != 0;
}

static int look_at_server(struct postgres *postgres, struct state_cluster_facts *facts,
                          struct kg_err *err)
{
    int64_t before_ms = kg_wall_ms();
    PGresult *rows = postgres_ask(
        postgres,
        "SELECT current_setting('server_encoding') = 'UTF8', "
        "has_database_privilege(current_database(), 'CREATE') OR "
        "coalesce(has_schema_privilege(to_regnamespace('kaged'), 'CREATE'), false), "
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint, "
        "(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), "
        "current_setting('max_connections')::bigint, "
        "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = " LOCK_KEY
        " AND objid = 1 AND granted AND database = (SELECT oid FROM pg_database "
        "WHERE datname = current_database()))",
        "look at the server", NULL, NULL, err);
    if (rows == NULL)
        return -EAGAIN;
    facts->clock_ms =
        postgres_int_at(postgres, rows, 0, 2) - (before_ms + (kg_wall_ms() - before_ms) / 2);
    facts_of_server(postgres, rows, facts);
    postgres->pq->PQclear(rows);
    return 0;
}

static int look_at_rows(struct postgres *postgres, struct state_cluster_facts *facts,
                        struct kg_err *err)
{
    PGresult *rows = postgres_ask(
        postgres,
        "SELECT cluster.name, node.name, "
        "coalesce((extract(epoch FROM now() - seen) * 1000)::bigint, -1), "
        "(SELECT count(*) FROM kaged.session), (SELECT count(*) FROM kaged.session_entry) "
        "FROM kaged.cluster LEFT JOIN kaged.node ON true ORDER BY stopped, seen DESC LIMIT 1",
        "look at the state", NULL, NULL, err);
    if (rows == NULL)
        return -EAGAIN;
    if (postgres->pq->PQntuples(rows) > 0) {
        facts->name = kg_strdup(postgres_text_at(postgres, rows, 0, 0));
        facts->holder = kg_strdup(postgres_text_at(postgres, rows, 0, 1));
        facts->seen_ms = postgres_int_at(postgres, rows, 0, 2);
        facts->sessions = postgres_int_at(postgres, rows, 0, 3);
        facts->entries = postgres_int_at(postgres, rows, 0, 4);
    }
    postgres->pq->PQclear(rows);
    return 0;
}

static int facts_of_nodes(struct postgres *postgres, struct state_cluster_facts *facts,
                          struct kg_err *err)
{
    kg_auto(kg_free) char *most = kg_format("%d", STATE_CLUSTER_NODES_MAX);
    PGresult *rows = postgres_ask(
        postgres,
        "SELECT name, program, address, stopped, stopped = 0 AND seen + lives_ms * "
        "interval '1 ms' > now(), (extract(epoch FROM now() - seen) * 1000)::bigint, "
        "(SELECT count(*) FROM kaged.lease WHERE lease.node = node.name AND until > now()) "
        "FROM kaged.node ORDER BY name LIMIT $1::text::bigint",
        "look at the nodes", most, NULL, err);
    if (rows == NULL)
        return -EAGAIN;
    facts->node_count = (size_t)postgres->pq->PQntuples(rows);
    facts->nodes = kg_alloc_array(facts->node_count + 1, sizeof(facts->nodes[0]));
    for (size_t i = 0; i < facts->node_count; i++)
        facts->nodes[i] = (struct state_cluster_node){
            .name = kg_strdup(postgres_text_at(postgres, rows, (int)i, 0)),
            .program = kg_strdup(postgres_text_at(postgres, rows, (int)i, 1)),
            .address = kg_strdup(postgres_text_at(postgres, rows, (int)i, 2)),
            .stopped = postgres_int_at(postgres, rows, (int)i, 3) != 0,
            .alive = postgres_int_at(postgres, rows, (int)i, 4) != 0,
            .seen_ms = postgres_int_at(postgres, rows, (int)i, 5),
            .leases = postgres_int_at(postgres, rows, (int)i, 6),
        };
    postgres->pq->PQclear(rows);
    return 0;
}

int state_cluster_look(const struct state_cluster_options *options,
                       struct state_cluster_facts *ret_facts, struct kg_err *err)
{
    struct postgres_target target = {0};
    struct postgres postgres = {.target = &target, .purpose = "status", .readonly = true};
    *ret_facts =
        (struct state_cluster_facts){.seen_ms = -1, .newest_version = postgres_newest_version()};
    int result = postgres_target_set(&target, options, err);
    if (result == 0)
        result = postgres_ready(&postgres, err);
    if (result == 0) {
        ret_facts->shown = kg_strdup(target.shown);
        ret_facts->server = postgres.pq->PQserverVersion(postgres.connection);
        result = look_at_server(&postgres, ret_facts, err);
    }
    if (result == 0)
        result = postgres_version(&postgres, &ret_facts->version, err);
    if (result == 0 && ret_facts->version > 0)
        result = look_at_rows(&postgres, ret_facts, err);
    if (result == 0 && ret_facts->version >= NODES_VERSION)
        result = facts_of_nodes(&postgres, ret_facts, err);
    postgres_disconnect(&postgres);
    postgres_target_clear(&target);
    if (result < 0)
        state_cluster_facts_free(ret_facts);
    return result;
}

void state_cluster_facts_free(struct state_cluster_facts *facts)
{
    free(facts->shown);
    free(facts->name);
    free(facts->holder);
    for (size_t i = 0; i < facts->node_count; i++) {
        free(facts->nodes[i].name);
        free(facts->nodes[i].program);
        free(facts->nodes[i].address);
    }
    free(facts->nodes);
    *facts = (struct state_cluster_facts){0};
}
