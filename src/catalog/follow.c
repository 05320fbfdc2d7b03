/*
 * What the catalog has in memory, as other nodes change it: its tables are read again, beside those
 * that are in use, and what is new in them is taken over. A row that is known stays where it is, as
 * many point to it.
 */
#include "catalog/orchestrators.h"

#include <stdlib.h>

void catalog_tables_new(struct catalog *catalog)
{
    catalog->orgs = kg_map_new();
    catalog->principals = kg_map_new();
    catalog->members = kg_map_new();
    catalog->orchestrators = kg_map_new();
}

int catalog_tables_load(struct catalog *catalog, struct state *state, struct kg_err *err)
{
    int result = catalog_orgs_load(catalog, state, err);
    if (result == 0)
        result = catalog_members_load(catalog, state, err);
    return result < 0 ? result : catalog_orchestrators_load(catalog, state, err);
}

void catalog_tables_free(struct catalog *catalog)
{
    catalog_orchestrators_free(catalog);
    catalog_members_free(catalog);
    catalog_orgs_free(catalog);
}

static int catalog_follow_read(struct cluster_follow *follow, struct state *state,
                               struct kg_err *err)
{
    struct catalog *catalog = KG_CONTAINER(follow, struct catalog, follow);
    catalog->fresh = kg_alloc(sizeof(*catalog->fresh));
    catalog_tables_new(catalog->fresh);
    return catalog_tables_load(catalog->fresh, state, err);
}

static void catalog_follow_take(struct cluster_follow *follow, bool take)
{
    struct catalog *catalog = KG_CONTAINER(follow, struct catalog, follow);
    struct catalog *fresh = kg_steal(&catalog->fresh);
    if (fresh == NULL)
        return;
    if (take) {
        catalog_orgs_take(catalog, fresh);
        catalog_members_take(catalog, fresh);
        catalog_orchestrators_take(catalog, fresh);
    }
    catalog_tables_free(fresh);
    free(fresh);
}

/* "ORG PID"; where nobody can tell which it was, what runs is not called stale. */
static void catalog_on_package_change(struct cluster_listener *listener, enum cluster_kind kind,
                                      const char *ref_or_null)
{
    (void)kind;
    const struct catalog *catalog = KG_CONTAINER(listener, struct catalog, listener);
    struct kg_str rest = kg_str(ref_or_null);
    if (ref_or_null == NULL)
        return;
    kg_auto(kg_free) char *org = kg_str_dup(kg_str_cut(&rest, ' '));
    kg_auto(kg_free) char *pid = kg_str_dup(rest);
    catalog_tell_changed(catalog, org, pid);
}

void catalog_follow_begin(struct catalog *catalog)
{
    struct cluster *nodes = host_nodes(catalog->host);
    catalog->follow.read = catalog_follow_read;
    catalog->follow.take = catalog_follow_take;
    cluster_follow_begin(&catalog->follow, nodes, catalog_keeper(catalog),
                         1 << CLUSTER_ORG | 1 << CLUSTER_PRINCIPAL | 1 << CLUSTER_MEMBER |
                             1 << CLUSTER_ORCHESTRATOR);
    catalog->listener.kinds = 1 << CLUSTER_PACKAGE;
    catalog->listener.on_change = catalog_on_package_change;
    cluster_listen(nodes, &catalog->listener);
}

void catalog_follow_end(struct catalog *catalog)
{
    cluster_follow_end(&catalog->follow);
    if (catalog->listener.on_change != NULL)
        cluster_unlisten(host_nodes(catalog->host), &catalog->listener);
}
