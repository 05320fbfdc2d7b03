/*
 * Storage through the whole path (plugin in its cage, daemon, storage process in its cage) against
 * the same statements on SQLite in this process; and how a plugin fares while two others run
 * statements up to their time limit.
 */
#include "world.h"

#include <sqlite3.h>
#include <stdlib.h>

#define ROWS     10000
#define REQUESTS 30000
#define ROUNDS   5
#define FLIGHT   64
#define LATENCY  500 /* requests, one at a time */

const char *const bench_storing[BENCH_STORING] = {"storing", "storing-a", "storing-b"};

/* -- through the daemon ------------------------------------------------------------------------ */

struct answer {
    bool done;
    int64_t ns, p99_ns;
};

static void on_done(void *data, const struct host_reply *reply)
{
    struct answer *answer = data;
    if (reply->error.code != KG_OK)
        die("storage", reply->error.message);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(reply->result, NULL);
    kg_node_int(kg_node_get(doc->root, "ns"), &answer->ns);
    kg_node_int(kg_node_get(doc->root, "p99_ns"), &answer->p99_ns);
    answer->done = true;
}

static void begin(struct world *world, const char *plugin, const char *kind, unsigned count,
                  unsigned flight, struct answer *ret_answer)
{
    struct kg_err err;
    kg_auto(kg_free) char *params =
        kg_format("{\"kind\":\"%s\",\"count\":%u,\"flight\":%u}", kind, count, flight);
    const struct host_call_request request = {
        .plugin = kg_str(plugin),
        .method = KG_STR("storing.run"),
        .params = kg_str(params),
        .context = {.operator_id = "bench", .request_id = "req_bench"},
        .on_done = on_done,
        .data = ret_answer,
    };
    *ret_answer = (struct answer){0};
    if (host_call(world->host, &request, &err) == NULL)
        die("storage", err.message);
}

static bool is_done(void *data)
{
    return ((struct answer *)data)->done;
}

static struct answer run(struct world *world, const char *kind, unsigned count, unsigned flight)
{
    struct answer answer;
    begin(world, bench_storing[0], kind, count, flight, &answer);
    if (!loop_run_until(world->loop, is_done, &answer, DEADLINE_MS))
        die("storage", "no answer");
    return answer;
}

/* -- in this process --------------------------------------------------------------------------- */

static void sql(sqlite3 *handle, const char *text)
{
    if (sqlite3_exec(handle, text, NULL, NULL, NULL) != SQLITE_OK)
        die(text, sqlite3_errmsg(handle));
}

static sqlite3 *open_own(const struct world *world)
{
    sqlite3 *handle;
    kg_auto(kg_free) char *path = kg_format("%s/own.db", world->home);
    if (sqlite3_open(path, &handle) != SQLITE_OK)
        die(path, sqlite3_errmsg(handle));
    sql(handle, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
                "CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT); BEGIN;"
                "WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < 9999)"
                "INSERT INTO t SELECT n, 'a value of some length' FROM c; COMMIT");
    return handle;
}

/* One statement after the other, each its own transaction; requests a second. */
static double own_rate(sqlite3 *handle, const char *text)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(handle, text, -1, &statement, NULL) != SQLITE_OK)
        die(text, sqlite3_errmsg(handle));
    uint64_t start_ns = kg_monotonic_ns();
    for (int i = 0; i < REQUESTS; i++) {
        sqlite3_bind_int(statement, 1, i % ROWS);
        while (sqlite3_step(statement) == SQLITE_ROW)
            continue;
        sqlite3_reset(statement);
    }
    double seconds = (double)(kg_monotonic_ns() - start_ns) / 1e9;
    sqlite3_finalize(statement);
    return REQUESTS / seconds;
}

/* -- the rows ---------------------------------------------------------------------------------- */

static void compare_rates(struct world *world, sqlite3 *own, const char *name, const char *kind,
                          const char *text)
{
    double ours[ROUNDS], peers[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        peers[round] = own_rate(own, text);
        ours[round] = REQUESTS / ((double)run(world, kind, REQUESTS, FLIGHT).ns / 1e9);
    }
    print_row(name, quantile(ours, ROUNDS, 0.5), "req/s", "SQLite in process",
              quantile(peers, ROUNDS, 0.5));
}

static double p99_us(struct world *world)
{
    return (double)run(world, "read", LATENCY, 1).p99_ns / 1e3;
}

static void compare_with_busy_others(struct world *world)
{
    double quiet[ROUNDS], busy[ROUNDS];
    struct answer others[BENCH_STORING - 1];
    for (int round = 0; round < ROUNDS; round++) {
        quiet[round] = p99_us(world);
        for (size_t i = 0; i < KG_COUNT(others); i++)
            begin(world, bench_storing[i + 1], "slow", 1, 1, &others[i]);
        busy[round] = p99_us(world);
        for (size_t i = 0; i < KG_COUNT(others); i++)
            if (!loop_run_until(world->loop, is_done, &others[i], DEADLINE_MS))
                die("storage", "a slow statement was not ended");
    }
    print_row("storage p99, two others at their limit", quantile(busy, ROUNDS, 0.5), "us",
              "p99 in quiet", quantile(quiet, ROUNDS, 0.5));
}

void bench_storage(struct world *world)
{
    for (size_t i = 0; i < BENCH_STORING; i++)
        start_plugin(world, bench_storing[i]);
    sqlite3 *own = open_own(world);
    run(world, "setup", 1, 1);
    run(world, "fill", ROWS, FLIGHT);
    compare_rates(world, own, "storage, point reads, 64 in flight", "read",
                  "SELECT v FROM t WHERE k = ?");
    compare_rates(world, own, "storage, single-row writes, 64 in flight", "write",
                  "UPDATE t SET v = 'another value' WHERE k = ?");
    compare_with_busy_others(world);
    sqlite3_close(own);
}
