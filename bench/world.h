/* A host in this process, on a home that was prepared for it, for what measures it; see world.c. */
#ifndef KAGED_BENCH_WORLD_H
#define KAGED_BENCH_WORLD_H

#include "contender.h"
#include "host/host.h"

#define DEADLINE_MS 60000

struct world {
    struct config_paths paths;
    struct loop *loop;
    struct cage_facts *facts;
    struct cage_spawner *spawner;
    struct host *host;
    uv_poll_t commands; /* stdin; its data is NULL until somebody waits for one */
    bool has_command, stopped;
};

void world_open(struct world *world, const char *home);
void world_close(struct world *world);
/* Runs the loop until the next command can be read: plugins live on meanwhile. */
void world_wait_command(void *world);
/* Runs the loop until done(data); ends the program, naming `what`, if that takes too long. */
void world_run_until(struct world *world, bool (*done)(void *data), void *data, const char *what);

/* Enables a plugin of the home and waits until it runs. */
struct host_status world_status(const struct world *world, const char *name);
void world_start_plugin(struct world *world, const char *name);
void world_stop_plugin(struct world *world, const char *name);

/* Calls of plugin `fast` for so long, with so many in flight: how many, and samples of latency. */
enum load_of { LOAD_METHOD, LOAD_TOOL, LOAD_MCP_TOOL }; /* the last of `fast-mcp` */
struct load {
    long ms, in_flight, bytes; /* bytes: of a text among the parameters */
    bool back;                 /* they come back as the result */
    enum load_of of;
};
size_t world_call(struct world *world, const struct load *load, double *ret_seconds);

/* Commands of storage.c: COUNT IN_FLIGHT, and latencies without and with others at their limit. */
void run_storage_read(void *world, const long numbers[]);
void run_storage_write(void *world, const long numbers[]);
void run_storage_quiet(void *world, const long numbers[]);
void run_storage_busy(void *world, const long numbers[]);

#endif
