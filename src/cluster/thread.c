/*
 * The thread that asks the database for the loop: takes leases and gives them back, renews those
 * that it has, and looks at what there is. It is woken by the loop, by NOTIFY, and by the time,
 * whichever comes first; a NOTIFY that is lost costs that time.
 *
 * Which changes are new is told by snapshots: those whose transaction the look before could not
 * see. So one that began early and was committed late is neither missed nor waited for.
 */
#include "cluster/thread.h"
#include "state/postgres.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LOOKS       5 /* in the time of a lease */
#define AWAY_MS     100
#define ANSWER_MIN  1000
#define CHANGES_MAX 1000 /* that are told one by one */
#define FORGET_MS   600000
#define FORGET_AGE  "1 hour"
#define LATE_MS     1800000 /* after which changes may be forgotten that were not seen here */

struct cluster_thread {
    struct cluster_thread_parts parts;
    pthread_t thread;
    int wake;             /* an eventfd */
    pthread_mutex_t lock; /* for the next three */
    struct loop_message *wishes, **wishes_tail;
    char *address; /* to be told; NULL: it is */
    bool stops;
    /* the thread's own */
    struct postgres postgres;
    bool listens;                          /* on this connection */
    char **mine;                           /* projects whose leases it has; owned */
    char *seen;                            /* a snapshot; owned; NULL: nothing was seen yet */
    char *holders;                         /* as they were seen last, in one text; owned */
    uint64_t renew_ms, look_ms, forget_ms; /* when it is next to be done */
    uint64_t looked_ms;                    /* when it last was */
};

static const char *const kind_names[CLUSTER_KIND_COUNT] = {
    [CLUSTER_CREDENTIAL] = "credential", [CLUSTER_MCP_SETTING] = "mcp_setting",
    [CLUSTER_PROJECT] = "project",       [CLUSTER_ORG] = "org",
    [CLUSTER_PRINCIPAL] = "principal",   [CLUSTER_MEMBER] = "member",
    [CLUSTER_PACKAGE] = "package",       [CLUSTER_ORCHESTRATOR] = "orchestrator",
    [CLUSTER_LEASE] = "lease",
};

void cluster_view_free(struct cluster_view *view)
{
    struct kg_str key;
    void *node;
    if (view == NULL)
        return;
    for (size_t i = 0; i < view->node_count; i++) {
        free((char *)view->nodes[i].name);
        free((char *)view->nodes[i].address);
        free((char *)view->nodes[i].program);
    }
    for (size_t at = 0; kg_map_next(view->holders, &at, &key, &node);)
        free(node);
    for (size_t i = 0; i < view->change_count; i++)
        free(view->changes[i].ref);
    kg_map_free(view->holders);
    free(view->nodes);
    free(view->changes);
    free(view);
}

/* -- what is asked ----------------------------------------------------------------------------- */

/* The first of the texts is $1. */
static PGresult *thread_ask(struct cluster_thread *thread, const char *sql, const char *act,
                            const char *const *texts, int count, struct kg_err *err)
{
    struct postgres *postgres = &thread->postgres;
    PGresult *rows =
        postgres_answer(postgres, postgres->pq->PQsendQueryParams(postgres->connection, sql, count,
                                                                  NULL, texts, NULL, NULL, 1));
    ExecStatusType status = postgres->pq->PQresultStatus(rows);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
        return rows;
    postgres_fail(postgres, rows, act, err);
    postgres->pq->PQclear(rows);
    return NULL;
}

static const char *thread_life(const struct cluster_thread *thread)
{
    return state_cluster_life(thread->parts.state);
}

/* Those of the node's lives before are nobody's: their connections are gone. */
static int lease_take(struct cluster_thread *thread, struct cluster_wish *wish)
{
    static const char sql[] =
        "INSERT INTO kaged.lease AS known (name, epoch, node, life, until) "
        "VALUES ($1::text, 1, $2::text, $3::text, now() + $4::text::interval) "
        "ON CONFLICT (name) DO UPDATE SET epoch = known.epoch + 1, node = excluded.node, "
        "life = excluded.life, until = excluded.until WHERE known.life IS NULL "
        "OR known.node = excluded.node OR known.until < now() RETURNING epoch";
    const struct postgres_library *pq = thread->postgres.pq;
    kg_auto(kg_free) char *time = kg_format("%llu ms", (unsigned long long)thread->parts.lease_ms);
    const char *const texts[] = {wish->project, thread->parts.node, thread_life(thread), time};
    wish->asked_ms = kg_monotonic_ms();
    PGresult *rows = thread_ask(thread, sql, "take a lease", texts, KG_COUNT(texts), &wish->err);
    if (rows == NULL)
        return -EAGAIN;
    bool got = pq->PQntuples(rows) > 0;
    if (got)
        wish->epoch = postgres_int_at(&thread->postgres, rows, 0, 0);
    pq->PQclear(rows);
    if (got)
        return 0;
    rows = thread_ask(thread, "SELECT node FROM kaged.lease WHERE name = $1::text", "read a lease",
                      texts, 1, &wish->err);
    if (rows == NULL)
        return -EAGAIN;
    const char *node =
        pq->PQntuples(rows) > 0 ? postgres_text_at(&thread->postgres, rows, 0, 0) : NULL;
    kg_fail(&wish->err, KG_E_ELSEWHERE, "%s is on node %s", wish->project, node ? node : "?");
    kg_hint(&wish->err, "try again in some seconds, or ask that node");
    pq->PQclear(rows);
    return -EBUSY;
}

/* False: it is another one by now. */
static bool lease_give(struct cluster_thread *thread, const struct cluster_wish *wish)
{
    static const char give[] = "UPDATE kaged.lease SET node = NULL, life = NULL, until = now() "
                               "WHERE name = $1::text AND life = $2::text AND "
                               "epoch = $3::text::bigint RETURNING epoch";
    static const char leave[] = "UPDATE kaged.lease SET until = now() "
                                "WHERE name = $1::text AND life = $2::text AND "
                                "epoch = $3::text::bigint RETURNING epoch";
    kg_auto(kg_free) char *epoch = kg_format("%lld", (long long)wish->epoch);
    const char *const texts[] = {wish->project, thread_life(thread), epoch};
    struct kg_err err = {0};
    PGresult *rows = thread_ask(thread, wish->is_left ? leave : give, "give a lease back", texts,
                                KG_COUNT(texts), &err);
    if (rows == NULL) {
        kg_log(KG_INFO, "cluster: %s; it ends by itself", err.message);
        return true;
    }
    bool was_it = thread->postgres.pq->PQntuples(rows) > 0;
    thread->postgres.pq->PQclear(rows);
    return was_it;
}

static void mine_remove(struct cluster_thread *thread, const char *project)
{
    char **kept = kg_list_new(0);
    for (char **each = thread->mine; *each != NULL; each++)
        if (strcmp(*each, project) != 0)
            kg_list_add(&kept, kg_strdup(*each));
    kg_list_free(thread->mine);
    thread->mine = kept;
}

static void wish_do(struct cluster_thread *thread, struct cluster_wish *wish, bool is_here,
                    const struct kg_err *away)
{
    if (!wish->is_take) {
        if (!is_here || lease_give(thread, wish))
            mine_remove(thread, wish->project);
    } else if (!is_here) {
        wish->err = *away;
    } else if (lease_take(thread, wish) == 0) {
        mine_remove(thread, wish->project);
        kg_list_add(&thread->mine, kg_strdup(wish->project));
    }
    loop_post(thread->parts.loop, &wish->message);
}

/* -- renewing ---------------------------------------------------------------------------------- */

/* As an array of PostgreSQL; ids of projects have no quotes in them. */
static char *mine_array(const struct cluster_thread *thread)
{
    struct kg_buf text = {0};
    kg_buf_char(&text, '{');
    for (char **each = thread->mine; *each != NULL; each++)
        kg_buf_printf(&text, "%s\"%s\"", each > thread->mine ? "," : "", *each);
    kg_buf_char(&text, '}');
    return kg_buf_terminate(&text);
}

static char **mine_lost(struct cluster_thread *thread, const PGresult *rows)
{
    char **lost = kg_list_new(0), **kept = kg_list_new(0);
    for (int i = 0; i < thread->postgres.pq->PQntuples(rows); i++)
        kg_list_add(&kept, kg_strdup(postgres_text_at(&thread->postgres, rows, i, 0)));
    for (char **each = thread->mine; *each != NULL; each++)
        if (!kg_list_has(kept, kg_str(*each)))
            kg_list_add(&lost, kg_strdup(*each));
    kg_list_free(thread->mine);
    thread->mine = kept;
    return lost;
}

static int thread_renew(struct cluster_thread *thread, struct kg_err *err)
{
    static const char sql[] = "UPDATE kaged.lease SET until = now() + $3::text::interval "
                              "WHERE name = ANY($1::text::text[]) AND life = $2::text "
                              "RETURNING name";
    kg_auto(kg_free) char *names = mine_array(thread);
    kg_auto(kg_free) char *time = kg_format("%llu ms", (unsigned long long)thread->parts.lease_ms);
    const char *const texts[] = {names, thread_life(thread), time};
    uint64_t asked_ms = kg_monotonic_ms();
    if (thread->mine[0] == NULL)
        return 0;
    PGresult *rows = thread_ask(thread, sql, "renew leases", texts, KG_COUNT(texts), err);
    if (rows == NULL)
        return -EAGAIN;
    struct cluster_renewed *renewed = kg_alloc(sizeof(*renewed));
    renewed->message.deliver = thread->parts.on_renewed;
    renewed->cluster = thread->parts.cluster;
    renewed->asked_ms = asked_ms;
    renewed->lost = mine_lost(thread, rows);
    thread->postgres.pq->PQclear(rows);
    loop_post(thread->parts.loop, &renewed->message);
    return 0;
}

/* -- looking ----------------------------------------------------------------------------------- */

static void view_add_change(struct cluster_view *view, const char *kind, const char *ref)
{
    for (int i = 0; i < CLUSTER_KIND_COUNT; i++) {
        if (strcmp(kind_names[i], kind) != 0)
            continue;
        view->changes =
            kg_realloc(view->changes, (view->change_count + 1) * sizeof(*view->changes));
        view->changes[view->change_count++] =
            (struct cluster_change){(enum cluster_kind)i, kg_strdup(ref)};
    }
}

/* What was seen before is NULL at first: then there is no row but the one with the snapshot. */
static int look_at_changes(struct cluster_thread *thread, struct cluster_view *view,
                           struct kg_err *err)
{
    static const char sql[] =
        "SELECT look.seen::text, event.kind, event.ref FROM (SELECT pg_current_snapshot() AS seen) "
        "AS look LEFT JOIN kaged.event ON event.xid >= pg_snapshot_xmin($1::text::pg_snapshot) "
        "AND NOT pg_visible_in_snapshot(event.xid, $1::text::pg_snapshot) "
        "AND event.life IS DISTINCT FROM $2::text ORDER BY event.seq LIMIT $3::text::bigint";
    struct postgres *postgres = &thread->postgres;
    kg_auto(kg_free) char *most = kg_format("%d", CHANGES_MAX + 1);
    const char *const texts[] = {thread->seen, thread_life(thread), most};
    PGresult *rows = thread_ask(thread, sql, "read what was changed", texts, KG_COUNT(texts), err);
    if (rows == NULL)
        return -EAGAIN;
    int count = postgres->pq->PQntuples(rows);
    uint64_t now_ms = kg_monotonic_ms();
    view->all_changed = view->all_changed || thread->seen == NULL || count > CHANGES_MAX ||
                        now_ms - thread->looked_ms > LATE_MS;
    for (int i = 0; !view->all_changed && i < count; i++)
        if (postgres_text_at(postgres, rows, i, 1) != NULL)
            view_add_change(view, postgres_text_at(postgres, rows, i, 1),
                            postgres_text_at(postgres, rows, i, 2));
    kg_replace(&thread->seen, postgres_text_at(postgres, rows, 0, 0));
    thread->looked_ms = now_ms;
    postgres->pq->PQclear(rows);
    return 0;
}

/* What moves, and what is pinned. */
static int look_at_holders(struct cluster_thread *thread, struct cluster_view *view,
                           struct kg_err *err)
{
    struct postgres *postgres = &thread->postgres;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    PGresult *rows =
        thread_ask(thread,
                   "SELECT name, CASE WHEN until > now() THEN node ELSE '' END FROM kaged.lease "
                   "WHERE life IS NOT NULL "
                   "UNION ALL SELECT id, node FROM kaged.project "
                   "WHERE loaded_ms IS NOT NULL AND node <> '' ORDER BY 1",
                   "read who has what", NULL, 0, err);
    if (rows == NULL)
        return -EAGAIN;
    for (int i = 0; i < postgres->pq->PQntuples(rows); i++) {
        const char *project = postgres_text_at(postgres, rows, i, 0);
        const char *node = postgres_text_at(postgres, rows, i, 1);
        kg_buf_printf(&text, "%s %s\n", project, node);
        free(kg_map_remove(view->holders, kg_str(project)));
        kg_map_set(view->holders, kg_str(project), kg_strdup(node));
    }
    postgres->pq->PQclear(rows);
    const char *now = kg_buf_terminate(&text);
    view->holders_changed = thread->holders == NULL || strcmp(now, thread->holders) != 0;
    kg_replace(&thread->holders, now);
    return 0;
}

static int look_at_nodes(struct cluster_thread *thread, struct cluster_view *view,
                         struct kg_err *err)
{
    struct postgres *postgres = &thread->postgres;
    const char *const texts[] = {thread->parts.node};
    PGresult *rows = thread_ask(
        thread,
        "SELECT name, address, program, (name = $1::text)::int, "
        "(stopped = 0 AND now() - seen < lives_ms * interval '1 ms')::int, "
        "(extract(epoch FROM now() - seen) * 1000)::bigint, (SELECT count(*) FROM kaged.lease "
        "WHERE lease.node = node.name AND until > now()) FROM kaged.node ORDER BY name",
        "read who is there", texts, KG_COUNT(texts), err);
    if (rows == NULL)
        return -EAGAIN;
    int count = postgres->pq->PQntuples(rows);
    view->nodes = kg_alloc_array((size_t)count + 1, sizeof(*view->nodes));
    for (int i = 0; i < count; i++)
        view->nodes[view->node_count++] = (struct cluster_node){
            .name = kg_strdup(postgres_text_at(postgres, rows, i, 0)),
            .address = kg_strdup(postgres_text_at(postgres, rows, i, 1)),
            .program = kg_strdup(postgres_text_at(postgres, rows, i, 2)),
            .is_self = postgres_int_at(postgres, rows, i, 3) != 0,
            .is_alive = postgres_int_at(postgres, rows, i, 4) != 0,
            .seen_ms = postgres_int_at(postgres, rows, i, 5),
            .leases = (size_t)postgres_int_at(postgres, rows, i, 6),
        };
    postgres->pq->PQclear(rows);
    return 0;
}

static int thread_look(struct cluster_thread *thread, bool all_changed, struct kg_err *err)
{
    struct cluster_view *view = kg_alloc(sizeof(*view));
    view->cluster = thread->parts.cluster;
    view->message.deliver = thread->parts.on_view;
    view->holders = kg_map_new();
    view->all_changed = all_changed;
    int result = look_at_changes(thread, view, err);
    if (result == 0)
        result = look_at_holders(thread, view, err);
    if (result == 0)
        result = look_at_nodes(thread, view, err);
    if (result == 0)
        loop_post(thread->parts.loop, &view->message);
    else
        cluster_view_free(view);
    return result;
}

/* -- from time to time ------------------------------------------------------------------------- */

static int thread_tell_address(struct cluster_thread *thread, struct kg_err *err)
{
    pthread_mutex_lock(&thread->lock);
    kg_auto(kg_free) char *address = kg_strdup(thread->address);
    pthread_mutex_unlock(&thread->lock);
    if (address == NULL)
        return 0;
    const char *const texts[] = {thread->parts.node, thread_life(thread), address};
    PGresult *rows = thread_ask(thread,
                                "UPDATE kaged.node SET address = $3::text "
                                "WHERE name = $1::text AND incarnation = $2::text",
                                "tell where this node is", texts, KG_COUNT(texts), err);
    if (rows == NULL)
        return -EAGAIN;
    thread->postgres.pq->PQclear(rows);
    pthread_mutex_lock(&thread->lock);
    if (thread->address != NULL && strcmp(thread->address, address) == 0)
        free(kg_steal(&thread->address));
    pthread_mutex_unlock(&thread->lock);
    return 0;
}

static bool thread_was_notified(struct cluster_thread *thread)
{
    const struct postgres_library *pq = thread->postgres.pq;
    PGconn *connection = thread->postgres.connection;
    bool any = false;
    if (connection == NULL || !pq->PQconsumeInput(connection))
        return true; /* the next look finds out */
    for (PGnotify *notify; (notify = pq->PQnotifies(connection)) != NULL; any = true)
        pq->PQfreemem(notify);
    return any;
}

/* Connected, and listening. What was not heard meanwhile is all that may have been changed. */
static int thread_ready(struct cluster_thread *thread, struct kg_err *err)
{
    if (thread->postgres.connection == NULL)
        thread->listens = false;
    int result = postgres_ready(&thread->postgres, err);
    if (result < 0 || thread->listens)
        return result;
    result = postgres_script(&thread->postgres, "LISTEN kaged; SET lock_timeout = 1000",
                             "listen for changes", err);
    if (result < 0)
        return result;
    thread->listens = true;
    free(kg_steal(&thread->seen));
    thread->look_ms = thread->renew_ms = 0;
    return 0;
}

static void thread_do_due(struct cluster_thread *thread, struct kg_err *err)
{
    uint64_t now_ms = kg_monotonic_ms(), lease_ms = thread->parts.lease_ms;
    int result = 0;
    if (now_ms >= thread->renew_ms) {
        result = thread_renew(thread, err);
        thread->renew_ms = now_ms + lease_ms * 3 / 10;
    }
    if (result == 0)
        result = thread_tell_address(thread, err);
    if (result == 0 && (thread_was_notified(thread) || now_ms >= thread->look_ms)) {
        result = thread_look(thread, thread->seen == NULL, err);
        thread->look_ms = now_ms + lease_ms / LOOKS;
    }
    if (result == 0 && now_ms >= thread->forget_ms) {
        (void)postgres_script(&thread->postgres,
                              "DELETE FROM kaged.event WHERE at < now() - interval '" FORGET_AGE
                              "'",
                              "forget old changes", NULL);
        thread->forget_ms = now_ms + FORGET_MS;
    }
}

static struct loop_message *thread_take_wishes(struct cluster_thread *thread, bool *ret_stops)
{
    pthread_mutex_lock(&thread->lock);
    struct loop_message *wishes = thread->wishes;
    thread->wishes = NULL;
    thread->wishes_tail = &thread->wishes;
    *ret_stops = thread->stops;
    pthread_mutex_unlock(&thread->lock);
    return wishes;
}

/* Until there is something to do. */
static void thread_rest(struct cluster_thread *thread)
{
    uint64_t now_ms = kg_monotonic_ms(), until_ms = now_ms + AWAY_MS, count;
    bool is_here = thread->postgres.connection != NULL;
    if (is_here)
        until_ms = thread->renew_ms < thread->look_ms ? thread->renew_ms : thread->look_ms;
    struct pollfd fds[] = {
        {.fd = thread->wake, .events = POLLIN},
        {.fd = is_here ? thread->postgres.pq->PQsocket(thread->postgres.connection) : -1,
         .events = POLLIN},
    };
    (void)poll(fds, KG_COUNT(fds), until_ms > now_ms ? (int)(until_ms - now_ms) : 0);
    if ((fds[0].revents & POLLIN) != 0)
        (void)!read(thread->wake, &count, sizeof(count));
}

/* So that others need not wait until they end to go on with what they are for. */
static void thread_leave_all(struct cluster_thread *thread)
{
    const char *const texts[] = {thread_life(thread)};
    if (thread->postgres.connection == NULL || thread->mine[0] == NULL)
        return;
    PGresult *rows =
        thread_ask(thread, "UPDATE kaged.lease SET until = now() WHERE life = $1::text",
                   "leave leases", texts, KG_COUNT(texts), NULL);
    if (rows != NULL)
        thread->postgres.pq->PQclear(rows);
}

static void *thread_run(void *data)
{
    struct cluster_thread *thread = data;
    pthread_setname_np(pthread_self(), "kaged-cluster");
    for (bool stops = false; !stops;) {
        struct kg_err err = {0};
        bool is_here = thread_ready(thread, &err) == 0;
        struct loop_message *wish = thread_take_wishes(thread, &stops);
        for (struct loop_message *next; wish != NULL; wish = next) {
            next = wish->next;
            wish_do(thread, KG_CONTAINER(wish, struct cluster_wish, message),
                    is_here && thread->postgres.connection != NULL, &err);
        }
        if (is_here && thread->postgres.connection != NULL && !stops)
            thread_do_due(thread, &err);
        if (!stops)
            thread_rest(thread);
    }
    thread_leave_all(thread);
    return NULL;
}

/* -- its life ---------------------------------------------------------------------------------- */

static void thread_wake(struct cluster_thread *thread)
{
    uint64_t one = 1;
    (void)!write(thread->wake, &one, sizeof(one));
}

void cluster_thread_ask(struct cluster_thread *thread, struct cluster_wish *wish)
{
    wish->message.next = NULL;
    wish->message.deliver = thread->parts.on_wish;
    pthread_mutex_lock(&thread->lock);
    *thread->wishes_tail = &wish->message;
    thread->wishes_tail = &wish->message.next;
    pthread_mutex_unlock(&thread->lock);
    thread_wake(thread);
}

void cluster_thread_set_address(struct cluster_thread *thread, const char *address)
{
    pthread_mutex_lock(&thread->lock);
    kg_replace(&thread->address, address);
    pthread_mutex_unlock(&thread->lock);
    thread_wake(thread);
}

static void thread_clear(struct cluster_thread *thread)
{
    postgres_disconnect(&thread->postgres);
    pthread_mutex_destroy(&thread->lock);
    kg_close(&thread->wake);
    kg_list_free(thread->mine);
    free(thread->seen);
    free(thread->holders);
    free(thread->address);
    free(thread);
}

struct cluster_thread *cluster_thread_new(const struct cluster_thread_parts *parts,
                                          struct kg_err *err)
{
    struct cluster_thread *thread = kg_alloc(sizeof(*thread));
    uint64_t answer_ms = parts->lease_ms * 3 / 10;
    thread->parts = *parts;
    thread->wishes_tail = &thread->wishes;
    thread->mine = kg_list_new(0);
    pthread_mutex_init(&thread->lock, NULL);
    thread->postgres.target = state_cluster_lanes(parts->state);
    thread->postgres.purpose = "cluster";
    thread->postgres.answer_ms = answer_ms > ANSWER_MIN ? answer_ms : ANSWER_MIN;
    thread->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int result = thread->wake < 0 ? errno : 0;
    if (result == 0)
        result = pthread_create(&thread->thread, NULL, thread_run, thread);
    if (result == 0)
        return thread;
    kg_fail_errno(err, result, "start a thread for the cluster");
    thread_clear(thread);
    return NULL;
}

void cluster_thread_free(struct cluster_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    thread->stops = true;
    pthread_mutex_unlock(&thread->lock);
    thread_wake(thread);
    pthread_join(thread->thread, NULL);
    loop_deliver_messages(thread->parts.loop);
    thread_clear(thread);
}
