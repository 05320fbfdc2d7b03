/*
 * Storage through the whole path: plugin in its cage, daemon, storage process in its cage; and how
 * a plugin fares while two others run statements up to their time limit. The plugin measures.
 */
#include "world.h"

#define ROWS    10000
#define LATENCY 500 /* requests, one at a time */

/* One plugin under three names, each with storage of its own. */
static const char *const names[] = {"storing", "storing-a", "storing-b"};

struct answer {
    bool done;
    int64_t ns, p99_ns;
};

static void on_done(void *data, const struct host_reply *reply)
{
    struct answer *answer = data;
    if (reply->error.code != KG_OK)
        contender_die("storage", reply->error.message);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(reply->result, NULL);
    kg_node_int(kg_node_get(doc->root, "ns"), &answer->ns);
    kg_node_int(kg_node_get(doc->root, "p99_ns"), &answer->p99_ns);
    answer->done = true;
}

static void begin(struct world *world, const char *plugin, const char *kind, long count,
                  long flight, struct answer *ret_answer)
{
    struct kg_err err;
    kg_auto(kg_free) char *params =
        kg_format("{\"kind\":\"%s\",\"count\":%ld,\"flight\":%ld}", kind, count, flight);
    kg_auto(host_asker_cleanup) struct host_asker *asker = host_asker_new("bench", "req_bench");
    const struct host_call_request request = {
        .plugin = kg_str(plugin),
        .method = KG_STR("storing.run"),
        .params = kg_str(params),
        .asker = asker,
        .on_done = on_done,
        .data = ret_answer,
    };
    *ret_answer = (struct answer){0};
    if (host_call(world->host, &request, &err) == NULL)
        contender_die("storage", err.message);
}

static bool is_done(void *data)
{
    return ((struct answer *)data)->done;
}

static struct answer run(struct world *world, const char *kind, long count, long flight)
{
    struct answer answer;
    begin(world, names[0], kind, count, flight, &answer);
    world_run_until(world, is_done, &answer, "a plugin's storage does not answer");
    return answer;
}

/* Once for all commands. */
static void prepare(struct world *world)
{
    static bool prepared;
    if (prepared)
        return;
    prepared = true;
    for (size_t i = 0; i < KG_COUNT(names); i++)
        world_start_plugin(world, names[i]);
    run(world, "setup", 1, 1);
    run(world, "fill", ROWS, 64);
}

static void report_rate(struct world *world, const char *kind, const long numbers[])
{
    prepare(world);
    int64_t ns = run(world, kind, numbers[0], numbers[1]).ns;
    contender_figure("rate", (double)numbers[0] * 1e9 / (double)ns);
}

void run_storage_read(void *world, const long numbers[])
{
    report_rate(world, "read", numbers);
}

void run_storage_write(void *world, const long numbers[])
{
    report_rate(world, "write", numbers);
}

void run_storage_quiet(void *world, const long numbers[])
{
    (void)numbers;
    prepare(world);
    contender_figure("p99_us", (double)run(world, "read", LATENCY, 1).p99_ns / 1e3);
}

void run_storage_busy(void *data, const long numbers[])
{
    struct world *world = data;
    struct answer others[KG_COUNT(names) - 1];
    prepare(world);
    for (size_t i = 0; i < KG_COUNT(others); i++)
        begin(world, names[i + 1], "slow", 1, 1, &others[i]);
    run_storage_quiet(world, numbers);
    for (size_t i = 0; i < KG_COUNT(others); i++)
        world_run_until(world, is_done, &others[i], "a slow statement was not ended");
}
