/*
 * Reads a project on a worker: what its source has, the manifests of the plugins that it declares,
 * local.toml. The worker has copies of all that it needs to know of the host, and touches nothing
 * else of it.
 */
#include "projects/internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

static char **list_enabled(const struct host *host)
{
    char **enabled = kg_list_new(host_local(host)->plugin_count);
    size_t count = 0;
    for (size_t i = 0; i < host_local(host)->plugin_count; i++) {
        const struct local_plugin *local = &host_local(host)->plugins[i];
        kg_auto(kg_free) char *package = kg_str_dup(local->package);
        const char *name = manifest_name_in(package);
        if (local->local && host_plugin_find(host, kg_str(name)) && host_is_enabled(host, name))
            enabled[count++] = kg_steal(&package);
    }
    return enabled;
}

/* Each has one name that is not a project's. */
static void list_plugins(const struct host *host, struct project_load *load)
{
    size_t names_count, count = 0;
    kg_auto(kg_free) struct host_named *names = host_names(host, &names_count);
    size_t most = names_count + project_packages_count(load->packages);
    load->plugins = kg_list_new(most);
    load->dirs = kg_list_new(most);
    load->texts = kg_alloc_array(most + 1, sizeof(char *));
    load->tools = kg_alloc_array(most + 1, sizeof(char *));
    load->shown = kg_alloc_array(most + 1, sizeof(char *));
    for (size_t i = 0; i < names_count; i++) {
        const struct host_status status = host_status(names[i]);
        if (status.whom->kind != HOST_NOBODY)
            continue;
        load->plugins[count] = kg_strdup(status.plugin);
        load->dirs[count] = kg_strdup(status.dir);
        load->tools[count] = host_tools_offered(names[i]);
        load->texts[count++] = status.is_dev ? kg_str_dup(status.dev_text) : NULL;
    }
    project_packages_list(load->packages, load, count);
}

struct project_load *project_load_new(struct host *host, enum project_load_kind kind,
                                      const char *path, struct projects_packages *packages_or_null)
{
    struct project_load *load = kg_alloc(sizeof(*load));
    load->host = host;
    load->kind = kind;
    load->request = audit_request(host_audit(host));
    load->path = kg_strdup(path);
    load->restarted = kg_list_new(0);
    load->local_file = kg_strdup(host_paths(host)->local_file);
    load->secrets = secret_values_keep(host_secrets(host));
    load->enabled = list_enabled(host);
    load->packages = projects_packages_keep(packages_or_null);
    list_plugins(host, load);
    return load;
}

void project_load_free(struct project_load *load)
{
    free(load->id);
    free(load->path);
    free(load->text);
    free(load->operator_id);
    free(load->local_file);
    secret_values_drop(load->secrets);
    for (size_t i = 0; load->plugins[i] != NULL; i++) {
        free(load->texts[i]);
        free(load->tools[i]);
        free(load->shown[i]);
    }
    free(load->texts);
    free(load->tools);
    free(load->shown);
    projects_packages_drop(load->packages);
    kg_list_free(load->plugins);
    kg_list_free(load->dirs);
    kg_list_free(load->enabled);
    kg_list_free(load->restarted);
    project_location_free(&load->location);
    project_resolved_free(load->resolved);
    project_changes_free(load->changes);
    kg_problems_free(&load->problems);
    free(load);
}

/* -- on the worker ----------------------------------------------------------------------------- */

struct manifests {
    struct manifest **items; /* owned */
    size_t count;
};

static void manifests_free(struct manifests *manifests)
{
    for (size_t i = 0; i < manifests->count; i++)
        manifest_free(manifests->items[i]);
    free(manifests->items);
}

static bool has_manifest(const struct manifests *manifests, struct kg_str name)
{
    for (size_t i = 0; i < manifests->count; i++)
        if (kg_str_is(name, manifests->items[i]->name))
            return true;
    return false;
}

/* The index of the plugin, or that of the list's end. */
static size_t projects_load_index_of(const struct project_load *load, struct kg_str name)
{
    size_t i = 0;
    while (load->plugins[i] != NULL && !kg_str_is(name, load->plugins[i]))
        i++;
    return i;
}

/* A plugin that cannot be used is as good as not installed; the host has said why. */
static void projects_load_add_manifest(const struct project_load *load, const char *package,
                                       struct manifests *manifests)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct kg_str name = manifest_package_name(kg_str(package));
    size_t at = projects_load_index_of(load, name);
    if (load->plugins[at] == NULL || has_manifest(manifests, name))
        return;
    struct manifest *manifest = load->texts[at] ? manifest_read(kg_str(load->texts[at]), &problems)
                                                : manifest_load(load->dirs[at], &problems);
    if (manifest == NULL || !kg_str_is(name, manifest->name)) {
        manifest_free(manifest);
        return;
    }
    manifest->shown = kg_strdup(load->shown[at]);
    if ((host_lists_tools(manifest) || manifest->shown != NULL) && load->tools[at] != NULL)
        manifest_learn_tools(manifest, kg_str(load->tools[at]), &problems);
    manifests->items =
        kg_realloc(manifests->items, (manifests->count + 1) * sizeof(*manifests->items));
    manifests->items[manifests->count++] = manifest;
}

static void projects_load_add_declared(const struct project_load *load,
                                       const struct project *project, struct manifests *manifests)
{
    for (size_t i = 0; i < project->agent_count; i++)
        for (size_t k = 0; k < project->agents[i].declaration_count; k++) {
            const struct project_declaration *declaration = &project->agents[i].declarations[k];
            const char *package = declaration->package;
            if (package == NULL && declaration->base != NULL)
                package = declaration->base->package;
            if (package != NULL)
                projects_load_add_manifest(load, package, manifests);
        }
}

static void projects_load_resolve(struct project_load *load, const struct project *project)
{
    kg_auto(manifests_free) struct manifests manifests = {0};
    struct kg_err err;
    const struct local_lookup lookup = secret_values_lookup(load->secrets);
    struct local *local = local_load(load->local_file, &lookup, &err);
    if (local == NULL) {
        load->err = err;
        return;
    }
    projects_load_add_declared(load, project, &manifests);
    const struct project_world world = {
        .manifests = (const struct manifest *const *)manifests.items,
        .manifest_count = manifests.count,
        .local = local,
    };
    load->resolved = project_resolve(project, &world, &load->problems);
    local_free(local);
}

static struct project_folder projects_load_folder_of(const char *root)
{
    struct statx there;
    kg_auto(kg_free) char *path = kg_format("%s/%s", root, PROJECT_DIR);
    if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME, &there) < 0)
        return (struct project_folder){0};
    return (struct project_folder){
        .device = (uint64_t)there.stx_dev_major << 32 | there.stx_dev_minor,
        .inode = there.stx_ino,
        .born_ns = (there.stx_mask & STATX_BTIME) != 0
                       ? there.stx_btime.tv_sec * 1000000000 + there.stx_btime.tv_nsec
                       : 0,
    };
}

void project_load_run(struct loop_job *job)
{
    struct project_load *load = KG_CONTAINER(job, struct project_load, job);
    if (atomic_load(&host_projects(load->host)->closing)) {
        kg_fail(&load->err, KG_E_STOPPING, "the daemon is stopping");
        return;
    }
    if (project_source_find(load, &load->err) < 0)
        return;
    if (load->source->has_root)
        load->folder = projects_load_folder_of(load->location.root);
    struct project *project = load->source->read(load);
    if (project == NULL) {
        load->is_files_fault = true;
        project_problems_fail(&load->problems, load->location.path, &load->err);
        return;
    }
    projects_load_resolve(load, project);
    project_free(project);
}
