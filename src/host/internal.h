/* What the files of host/ share. */
#ifndef KAGED_HOST_INTERNAL_H
#define KAGED_HOST_INTERNAL_H

#include "config/local.h"
#include "host/host.h"

struct host {
    struct loop *loop; /* borrowed */
    const struct config_paths *paths;
    struct config *config;          /* owned */
    struct local *local;            /* owned */
    struct state *state;            /* owned */
    struct audit *audit;            /* owned */
    struct audit_listener listener; /* counts events */
    uint64_t audit_count;
    struct loop_worker *reader;     /* owned; reads files for questions */
    char *plugins_dir;              /* owned */
    const struct cage_facts *facts; /* borrowed; NULL: see no_cage */
    struct kg_err no_cage;          /* KG_OK: cages can be built */
    const char *cages, *user;       /* borrowed */
    struct gate *gate;              /* owned; NULL without cages */
    struct storage_place storage;
    char *storage_dir; /* owned; borrowed by the place */
    struct supervisor supervisor;
    struct host_plugin **plugins; /* owned, sorted by name */
    size_t plugin_count;
    struct host_call *unused_calls; /* kept for reuse */
    int64_t started_at_ms;

    void (*on_reloaded)(void *data);
    void *on_reloaded_data;

    bool stopping;
    bool closing; /* host_free has begun */
    char *stop_reason;
    void (*on_stopped)(void *data);
    void *on_stopped_data;
    struct loop_task stop_check;
};

void host_calls_free(struct host *host);

/*
 * The whole configuration of a plugin as a JSON object, appended; nothing if it takes none. What
 * does not fit its schema is audited. See plugin_config.c.
 */
int plugin_config_make(struct host *host, const struct manifest *manifest, struct kg_buf *ret_json,
                       struct kg_err *err);

/* What plugins ask of the host, see service.c. False: there is no such method. */
bool host_serve(struct host *host, struct host_plugin *plugin, int64_t id, struct kg_str method,
                struct kg_str params);
bool host_has_storage(const struct host *host, const struct host_plugin *plugin);

/*
 * The cage refuses links in a path; those above kaged's own folders are followed here. Owned; the
 * path itself if nothing is there. See policy.c.
 */
char *host_real_path(const char *path);
/* The limits of one plugin's cage, by the configuration. See policy.c. */
struct instance_limits policy_limits(const struct config *config, const char *plugin);
/* Whether settings of the type `path` point elsewhere in the new configuration. See policy.c. */
bool policy_paths_differ(const struct manifest *manifest, struct kg_str old_settings,
                         struct kg_str new_settings);

#endif
