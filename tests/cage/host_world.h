/* A host in a home of its own, with plugins that run in cages and a project that uses them. */
#ifndef KAGED_TEST_HOST_WORLD_H
#define KAGED_TEST_HOST_WORLD_H

#include "projects/projects.h"

#define HOST_WORLD_WAIT_MS 60000

struct host_world {
    char folder[64]; /* has the home and, beside it, the project */
    char *home, *project;
    struct config_paths paths;
    struct loop *loop;
    struct cage_facts *facts;
    struct cage_spawner *spawner;
    struct host *host;
    struct host_listener listener;
    struct kg_buf events; /* lines of the audit log since host_world_forget */
    bool stopped;
};

/* Each fails the test if it does not work, or not in time. */
struct host_world *host_world_new(const char *config);
void host_world_free(struct host_world *world);
/* Puts tests/plugins/agents-as-told into the store, with that name, and approves it. */
void host_world_install(struct host_world *world, const char *name, const char *capability);
void host_world_start(struct host_world *world);
/* Writes and loads the project, lets it use its plugins, enters it and waits for those. */
void host_world_load(struct host_world *world, const char *yaml);
void host_world_load_text(struct host_world *world, const char *id, const char *text);
void host_world_wait(struct host_world *world, bool (*done)(void *data), void *data);
void host_world_wait_state(struct host_world *world, const char *plugin, enum instance_state state);
struct host_status host_world_status(struct host_world *world, const char *name);

/* The audit log. */
void host_world_forget(struct host_world *world);
/* The next line with all of these texts, NULL-ended; NULL: there is none. */
const char *host_world_event(struct host_world *world, const char *const *texts);
#define EVENT(world, ...) host_world_event(world, (const char *const[]){__VA_ARGS__, NULL})

#endif
