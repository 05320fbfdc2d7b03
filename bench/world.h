/* A host with plugins in a home of its own, for what measures it; see bench.c. */
#ifndef KAGED_BENCH_WORLD_H
#define KAGED_BENCH_WORLD_H

#include "host/host.h"

#define DEADLINE_MS 60000

/* One plugin under three names, each with storage of its own. */
#define BENCH_STORING 3
extern const char *const bench_storing[BENCH_STORING];

struct world {
    char home[64];
    const char *plugin_source; /* the folder of manifests */
    const char *plugin_build;  /* the folder of programs */
    struct config_paths paths;
    struct loop *loop;
    struct cage_facts *facts;
    struct cage_spawner *spawner;
    struct host *host;
    bool stopped;
};

__attribute__((noreturn)) void die(const char *what, const char *why);
double quantile(double *values, size_t count, double at);
void print_row(const char *name, double value, const char *unit, const char *peer,
               double peer_value);
struct host_plugin *start_plugin(struct world *world, const char *name);

void bench_storage(struct world *world);

#endif
