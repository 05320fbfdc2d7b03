/* What the operator's files say of the database that daemons share; see state/cluster.h. */
#ifndef KAGED_HOST_CLUSTER_H
#define KAGED_HOST_CLUSTER_H

#include "config/config.h"
#include "config/local.h"
#include "state/cluster.h"

struct host_cluster {
    struct state_cluster_options options; /* borrowed of config and paths, and of what follows */
    char *node, *password;                /* owned */
};
/* Whether there is one. */
bool host_cluster_is_set(const struct config *config);
/* The name of this node: as configured, or the machine's. Owned. */
char *host_cluster_node(const struct config *config);
void host_cluster_read(const struct config *config, const struct local *local,
                       const struct config_paths *paths, struct host_cluster *ret_cluster);
void host_cluster_clear(struct host_cluster *cluster); /* also for kg_auto */
/*
 * The daemon's part in it, owned; NULL in it where there is none. Fails where the home's state is
 * elsewhere than config.toml says.
 */
int host_cluster_join(const struct config *config, const struct local *local,
                      const struct config_paths *paths, struct state_cluster **ret_cluster,
                      struct kg_err *err);

struct host;
/* What of it the loop knows, once the state is open. */
int host_cluster_open(struct host *host, struct kg_err *err);

#endif
