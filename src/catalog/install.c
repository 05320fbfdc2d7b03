/*
 * Packages as plugins: what catalog:PID means to the store of plugins, which then asks the operator
 * as it does for any other source. It is the system's package, or with catalog:ORG/PID what that
 * org sees. Of a range of versions the highest that is enabled is taken, and its bytes are seen to
 * be what was uploaded before anybody opens them.
 */
#include "base/semver.h"
#include "catalog/packages.h"
#include "catalog/version.h"
#include "store/store.h"

#include <errno.h>
#include <stdlib.h>

struct installing {
    struct state_task task;
    struct catalog *catalog;
    char *org, *pid, *version; /* owned; org "": the system's; no version: the latest */
    struct kg_semver_range *range;
    struct package_row row;
    store_catalog_found_fn *on_found;
    void *data;
    struct loop_task early; /* to say at once, but not yet, that it cannot be */
    struct kg_err err;
};

static void installing_free(struct installing *installing)
{
    package_row_free(&installing->row);
    kg_semver_range_free(installing->range);
    free(installing->org);
    free(installing->pid);
    free(installing->version);
    free(installing);
}

static bool catalog_install_is_wanted(const struct installing *installing, const char *version)
{
    struct kg_semver parsed;
    if (installing->version == NULL || strcmp(installing->version, version) == 0)
        return true;
    return installing->range != NULL && kg_semver_parse(kg_str(version), &parsed) &&
           kg_semver_range_has(installing->range, &parsed);
}

/* The org's own goes before the system's, and then the higher one. */
static void take_better(void *data, const struct state_package *row)
{
    struct installing *installing = data;
    const struct state_package *best = &installing->row.row;
    bool has_one = installing->row.text != NULL;
    if (!catalog_install_is_wanted(installing, row->version))
        return;
    bool own = row->org[0] != '\0', best_is_own = has_one && best->org[0] != '\0';
    if (!has_one || own > best_is_own ||
        (own == best_is_own &&
         catalog_version_compare(kg_str(row->version), kg_str(best->version)) > 0))
        package_row_keep(&installing->row, row);
}

static int installing_check(const struct installing *installing, struct kg_err *err)
{
    struct kg_str kind = KG_STR_NULL;
    if (installing->row.text == NULL) {
        kg_fail(err, KG_E_NO_PACKAGE, "there is no package %s%s%s in the catalog of %s",
                installing->pid, installing->version ? " " : "",
                installing->version ? installing->version : "",
                installing->org[0] != '\0' ? "this org" : "the system");
        return kg_hint(err, "kaged catalog versions %s%s", installing->pid,
                       installing->org[0] != '\0' ? " --org ORG" : "");
    }
    (void)kg_json_member(kg_str(installing->row.row.card), "kind", &kind);
    if (kg_str_is(kind, "\"python\""))
        return kg_fail(err, KG_E_NOT_APPLICABLE,
                       "package %s is written for orchestrators, and cannot be a plugin",
                       installing->pid);
    return 0;
}

static int run_install(struct state_task *task, struct state *state, struct kg_err *err)
{
    struct installing *installing = KG_CONTAINER(task, struct installing, task);
    const struct state_package_query query = {
        .org = installing->org,
        .with_system = true,
        .pid = installing->pid,
        .enabled_only = true,
    };
    int result = state_packages(state, &query, take_better, installing, err);
    if (result == 0)
        result = installing_check(installing, err);
    return result;
}

static void on_installable(void *data, int fd, const char *path_or_null,
                           const struct kg_err *err_or_null)
{
    struct installing *installing = data;
    struct kg_err err = {0};
    kg_close(&fd);
    if (err_or_null != NULL)
        err = *err_or_null;
    else if (path_or_null == NULL)
        kg_fail(&err, KG_E_IO, "the object %s cannot be kept here", installing->row.row.object);
    installing->on_found(installing->data, path_or_null, err.code != KG_OK ? &err : NULL);
    installing_free(installing);
}

static void on_package_chosen(struct state_task *task, const struct kg_err *err_or_null)
{
    struct installing *installing = KG_CONTAINER(task, struct installing, task);
    const struct state_package *row = &installing->row.row;
    if (err_or_null == NULL) {
        objects_open(installing->catalog->objects, row->object, (uint64_t)row->bytes,
                     on_installable, installing);
        return;
    }
    installing->on_found(installing->data, NULL, err_or_null);
    installing_free(installing);
}

static void on_no_org(struct loop_task *task)
{
    struct installing *installing = KG_CONTAINER(task, struct installing, early);
    installing->on_found(installing->data, NULL, &installing->err);
    installing_free(installing);
}

static void catalog_find_plugin(void *data, const char *place, const char *version_or_null,
                                store_catalog_found_fn *on_found, void *found_data)
{
    struct catalog *catalog = data;
    struct kg_str pid = kg_str(place), org = KG_STR_NULL;
    struct installing *installing = kg_alloc(sizeof(*installing));
    if (strchr(place, '/') != NULL)
        org = kg_str_cut(&pid, '/');
    const struct catalog_org *found = org.data ? catalog_org_find(catalog, org) : NULL;
    *installing = (struct installing){
        .task = {.run = run_install, .done = on_package_chosen},
        .catalog = catalog,
        .org = kg_strdup(found ? found->id : ""),
        .pid = kg_str_dup(pid),
        .version = kg_strdup(version_or_null),
        .range = version_or_null ? kg_semver_range_parse(kg_str(version_or_null), NULL) : NULL,
        .on_found = on_found,
        .data = found_data,
        .early = {.run = on_no_org},
    };
    installing->task.org = catalog_scope(installing->org);
    if (org.data == NULL || found != NULL) {
        state_keeper_read(catalog_keeper(catalog), &installing->task);
        return;
    }
    kg_fail(&installing->err, KG_E_NOT_FOUND, "there is no org \"%.*s\"", KG_STR_CUT(org, 64));
    loop_defer(catalog->loop, &installing->early);
}

void catalog_serve_store(struct catalog *catalog)
{
    store_set_catalog(host_store(catalog->host), catalog_find_plugin, catalog);
}
