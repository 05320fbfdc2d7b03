/* The catalog's parts, from start to stop, and who is what in which org. */
#include "catalog/orchestrators.h"
#include "store/store.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

/* Version 7: they grow with time, so that rows lie in the order in which they came. */
void catalog_uuid(char ret_text[CATALOG_ID_TEXT])
{
    unsigned char bytes[16];
    char hex[33];
    uint64_t now = (uint64_t)kg_wall_ms();
    randombytes_buf(bytes, sizeof(bytes));
    for (size_t i = 0; i < 6; i++)
        bytes[i] = (unsigned char)(now >> 8 * (5 - i));
    bytes[6] = (unsigned char)(0x70 | (bytes[6] & 0x0F));
    bytes[8] = (unsigned char)(0x80 | (bytes[8] & 0x3F));
    sodium_bin2hex(hex, sizeof(hex), bytes, sizeof(bytes));
    snprintf(ret_text, CATALOG_ID_TEXT, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
             hex + 16, hex + 20);
}

struct state_keeper *catalog_keeper(const struct catalog *catalog)
{
    return host_keeper(catalog->host);
}

struct loop_worker *catalog_worker(struct catalog *catalog)
{
    if (catalog->worker == NULL)
        catalog->worker = loop_worker_new(catalog->loop, "kaged-catalog");
    return catalog->worker;
}

static const struct config *catalog_config_of(void *data)
{
    const struct catalog *catalog = data;
    return host_config(catalog->host);
}

static const struct local *catalog_local_of(void *data)
{
    const struct catalog *catalog = data;
    return host_local(catalog->host);
}

static struct objects *open_objects(struct catalog *catalog, struct kg_err *err)
{
    kg_auto(kg_free) char *state_dir = cage_real_path(host_paths(catalog->host)->state_dir);
    kg_auto(kg_free) char *folder =
        kg_format("%s/catalog", state_dir ? state_dir : host_paths(catalog->host)->state_dir);
    const struct objects_parts parts = {
        .place = {.loop = catalog->loop,
                  .spawner = catalog->spawner,
                  .gate = host_gate(catalog->host)},
        .facts = catalog->facts,
        .folder = folder,
        .config = catalog_config_of,
        .local = catalog_local_of,
        .data = catalog,
    };
    return objects_new(&parts, err);
}

struct objects *catalog_objects(const struct catalog *catalog)
{
    return catalog->objects;
}

struct catalog *catalog_new(const struct catalog_parts *parts, struct kg_err *err)
{
    struct catalog *catalog = kg_alloc(sizeof(*catalog));
    catalog->loop = parts->loop;
    catalog->host = parts->host;
    catalog->spawner = parts->spawner;
    catalog->facts = parts->facts;
    const char *state_dir = host_paths(parts->host)->state_dir;
    catalog->trees = kg_format("%s/catalog/trees", state_dir);
    catalog->incoming = kg_format("%s/catalog/incoming", state_dir);
    catalog->seal.store = kg_strdup("the catalog");
    catalog->seal.key = kg_strdup(host_paths(parts->host)->catalog_key);
    catalog->seal.next_key = kg_format("%s.next", catalog->seal.key);
    catalog_tables_new(catalog);
    catalog->sessions = parts->sessions;
    catalog->pool = pool_new(catalog);
    struct state *state = state_keeper_state(catalog_keeper(catalog));
    catalog->objects = open_objects(catalog, err);
    if (catalog->objects != NULL && catalog_tables_load(catalog, state, err) == 0) {
        catalog_serve_store(catalog);
        catalog_follow_begin(catalog);
        return catalog;
    }
    catalog_free(catalog);
    return NULL;
}

void catalog_start(struct catalog *catalog)
{
    pool_start(catalog->pool);
}

void catalog_free(struct catalog *catalog)
{
    if (catalog == NULL)
        return;
    store_set_catalog(host_store(catalog->host), NULL, NULL);
    state_keeper_drain(catalog_keeper(catalog)); /* which still speaks of them */
    objects_free(catalog->objects);
    loop_worker_free(catalog->worker);
    catalog_follow_end(catalog);
    pool_free(catalog->pool);
    catalog_tables_free(catalog);
    free(catalog->trees);
    free(catalog->incoming);
    secret_places_free(&catalog->seal);
    free(catalog);
}

void catalog_on_changed(struct catalog *catalog, catalog_changed_fn *on_changed, void *data)
{
    catalog->on_changed = on_changed;
    catalog->changed_data = data;
}

void catalog_tell_changed(const struct catalog *catalog, const char *org, const char *pid)
{
    if (catalog->on_changed != NULL)
        catalog->on_changed(catalog->changed_data, org, pid);
}

enum catalog_role catalog_role_of(const struct catalog *catalog, const char *principal,
                                  struct kg_str org)
{
    const struct catalog_principal *known = kg_map_get(catalog->principals, kg_str(principal));
    if (known == NULL)
        return CATALOG_NOBODY;
    if (known->sys_admin)
        return CATALOG_SYS_ADMIN;
    const struct catalog_member *member =
        org.data ? catalog_member_find(catalog, org, kg_str(principal)) : NULL;
    if (member == NULL || member->org->deleted)
        return CATALOG_NOBODY;
    return member->is_admin ? CATALOG_ORG_ADMIN : CATALOG_MEMBER;
}
