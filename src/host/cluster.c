/*
 * A home's state is in one place, which config.toml and the home's own note agree on: whoever takes
 * [cluster] out of config.toml, or puts it there, is not given an older state without a word.
 */
#include "host/cluster.h"

#include "cluster/cluster.h"
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define NODE_BYTES 65

bool host_cluster_is_set(const struct config *config)
{
    return config->cluster_database[0] != '\0';
}

char *host_cluster_node(const struct config *config)
{
    char name[NODE_BYTES] = {0};
    if (config->cluster_node[0] != '\0')
        return kg_strdup(config->cluster_node);
    return kg_strdup(gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "kaged");
}

void host_cluster_read(const struct config *config, const struct local *local,
                       const struct config_paths *paths, struct host_cluster *ret_cluster)
{
    struct kg_str password = local->cluster_password;
    ret_cluster->node = host_cluster_node(config);
    ret_cluster->password = password.length > 0 ? kg_str_dup(password) : NULL;
    ret_cluster->options = (struct state_cluster_options){
        .database = config->cluster_database,
        .password_or_null = ret_cluster->password,
        .node = ret_cluster->node,
        .program = KAGED_VERSION,
        .place = paths->state_db,
        .wait_ms = (uint64_t)config->cluster_wait_ms,
        .lives_ms = (uint64_t)config->cluster_lease_ms,
    };
}

void host_cluster_clear(struct host_cluster *cluster)
{
    if (cluster->password != NULL)
        explicit_bzero(cluster->password, strlen(cluster->password));
    free(cluster->password);
    free(cluster->node);
    *cluster = (struct host_cluster){0};
}

static int host_cluster_check_alone(const struct config_paths *paths, struct kg_err *err)
{
    kg_auto(kg_free) char *noted = NULL;
    int result = state_cluster_noted(paths->state_db, &noted, err);
    if (result < 0 || noted == NULL)
        return result;
    kg_fail(err, KG_E_CONFLICT,
            "the state of this home is in a database since kaged cluster init, but config.toml "
            "has no cluster.database");
    kg_hint(err, "put cluster.database back; kaged cluster leave --to-local brings the state home");
    return -EBUSY;
}

int host_cluster_join(const struct config *config, const struct local *local,
                      const struct config_paths *paths, struct state_cluster **ret_cluster,
                      struct kg_err *err)
{
    *ret_cluster = NULL;
    if (!host_cluster_is_set(config))
        return host_cluster_check_alone(paths, err);
    kg_auto(host_cluster_clear) struct host_cluster cluster = {0};
    host_cluster_read(config, local, paths, &cluster);
    *ret_cluster = state_cluster_join(&cluster.options, err);
    return *ret_cluster != NULL ? 0 : -EINVAL;
}

int host_cluster_open(struct host *host, struct kg_err *err)
{
    if (host->shared == NULL)
        return 0;
    kg_auto(kg_free) char *node = host_cluster_node(host->config);
    const struct cluster_options options = {
        .loop = host->loop,
        .state = host->shared,
        .node = node,
        .lease_ms = (uint64_t)host->config->cluster_lease_ms,
    };
    host->nodes = cluster_new(&options, err);
    return host->nodes != NULL ? 0 : -EINVAL;
}
