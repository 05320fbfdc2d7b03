/*
 * kaged as a contender: the host in this process, its plugins in their cages.
 *
 * usage: kaged-bench HOME
 * commands: calls MS IN_FLIGHT BYTES BACK   the rate and latencies of calls of plugin fast
 *           flood MS IN_FLIGHT BYTES CORE   the same while plugin flood floods from that core
 *           tools MS IN_FLIGHT BYTES MCP    the same of calls of its tool, or of that of fast-mcp
 *           start                           ms until plugin fast is up and has answered once
 *           and those of storage.c
 */
#include "world.h"

#include <sched.h>

static bool is_running(const struct world *world, const char *name)
{
    return world_status(world, name).state == INSTANCE_RUNNING;
}

static void run_load(struct world *world, const char *plugin, const struct load *load)
{
    if (!is_running(world, plugin))
        world_start_plugin(world, plugin);
    double seconds;
    double calls = (double)world_call(world, load, &seconds);
    contender_figure("rate", calls / seconds);
    contender_figure("calls", calls);
}

static void run_calls(void *data, const long numbers[])
{
    run_load(data, "fast",
             &(struct load){numbers[0], numbers[1], numbers[2], numbers[3] != 0, LOAD_METHOD});
}

static void run_tools(void *data, const long numbers[])
{
    bool is_mcp = numbers[3] != 0;
    run_load(data, is_mcp ? "fast-mcp" : "fast",
             &(struct load){numbers[0], numbers[1], numbers[2], false,
                            is_mcp ? LOAD_MCP_TOOL : LOAD_TOOL});
}

static void run_flood(void *data, const long numbers[])
{
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET((size_t)numbers[3], &core);
    world_start_plugin(data, "flood");
    pid_t flood = instance_facts(world_status(data, "flood").instance).pid;
    sched_setaffinity(flood, sizeof(core), &core);
    run_calls(data, (long[CONTENDER_NUMBERS]){numbers[0], numbers[1], numbers[2], 0});
    world_stop_plugin(data, "flood");
}

static void run_start(void *data, const long numbers[])
{
    static const struct load once = {0, 1, 5, false, LOAD_METHOD};
    struct world *world = data;
    double seconds;
    (void)numbers;
    if (is_running(world, "fast"))
        world_stop_plugin(world, "fast");
    uint64_t start_ns = kg_monotonic_ns();
    world_start_plugin(world, "fast");
    world_call(world, &once, &seconds);
    contender_figure("ms", (double)(kg_monotonic_ns() - start_ns) / 1e6);
    world_stop_plugin(world, "fast");
}

int main(int argc, char **argv)
{
    static const struct contender_command commands[] = {
        {"calls", run_calls},
        {"flood", run_flood},
        {"tools", run_tools},
        {"start", run_start},
        {"storage-read", run_storage_read},
        {"storage-write", run_storage_write},
        {"storage-quiet", run_storage_quiet},
        {"storage-busy", run_storage_busy},
        {NULL, NULL},
    };
    struct world world = {0};
    if (argc != 2)
        contender_die("usage", "kaged-bench HOME");
    world_open(&world, argv[1]);
    contender_serve(commands, world_wait_command, &world);
    world_close(&world);
    return 0;
}
