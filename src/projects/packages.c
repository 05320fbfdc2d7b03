/*
 * Packages of the catalog as plugins of a project that is kept in the state. Only who loads such a
 * project can name some, and has them at hand: a project's file that says the name of one means a
 * plugin, and finds none.
 */
#include "host/package.h"
#include "projects/internal.h"

#include <stdlib.h>

struct package_of_project {
    char *shown;                  /* owned */
    struct host_package_use *use; /* owned */
};

struct projects_packages {
    unsigned references;
    char *group;                      /* owned */
    struct package_of_project *items; /* owned */
    size_t count;
};

struct projects_packages *projects_packages_new(const char *group)
{
    struct projects_packages *packages = kg_alloc(sizeof(*packages));
    packages->references = 1;
    packages->group = kg_strdup(group);
    return packages;
}

void projects_packages_add(struct projects_packages *packages, const char *shown,
                           struct host_package_use *use)
{
    packages->items = kg_realloc(packages->items, (packages->count + 1) * sizeof(*packages->items));
    packages->items[packages->count++] = (struct package_of_project){kg_strdup(shown), use};
}

struct projects_packages *projects_packages_keep(struct projects_packages *packages_or_null)
{
    if (packages_or_null != NULL)
        packages_or_null->references++;
    return packages_or_null;
}

void projects_packages_drop(struct projects_packages *packages)
{
    if (packages == NULL || --packages->references > 0)
        return;
    for (size_t i = 0; i < packages->count; i++) {
        host_package_drop(packages->items[i].use);
        free(packages->items[i].shown);
    }
    free(packages->items);
    free(packages->group);
    free(packages);
}

const char *project_packages_group(const struct projects_packages *packages_or_null)
{
    return packages_or_null != NULL ? packages_or_null->group : NULL;
}

size_t project_packages_count(const struct projects_packages *packages_or_null)
{
    return packages_or_null != NULL ? packages_or_null->count : 0;
}

struct host_package_use *project_package_find(const struct projects_packages *packages_or_null,
                                              const char *plugin)
{
    for (size_t i = 0; i < project_packages_count(packages_or_null); i++)
        if (kg_same_text(host_package_name(packages_or_null->items[i].use), plugin))
            return packages_or_null->items[i].use;
    return NULL;
}

void project_packages_list(const struct projects_packages *packages_or_null,
                           struct project_load *load, size_t at)
{
    for (size_t i = 0; i < project_packages_count(packages_or_null); i++) {
        const struct package_of_project *package = &packages_or_null->items[i];
        if (host_package_name(package->use) == NULL)
            continue; /* the host ends */
        load->plugins[at] = kg_strdup(host_package_name(package->use));
        load->dirs[at] = kg_strdup("");
        load->texts[at] = host_package_text(package->use, &load->tools[at]);
        load->shown[at++] = kg_strdup(package->shown);
    }
}
