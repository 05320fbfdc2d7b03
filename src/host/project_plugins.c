/*
 * The processes that serve a project. A plugin that reaches into the project's folder has one for
 * this project alone, plugin@project, since its cage may see no other; all others are shared. A
 * process runs while the operator or a project that is in use wants it.
 */
#include "host/projects_internal.h"

#include <stdlib.h>

/* -- servers ----------------------------------------------------------------------------------- */

void project_servers_free(struct project_server *servers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(servers[i].plugin);
        free(servers[i].process);
        kg_buf_free(&servers[i].told);
    }
    free(servers);
}

bool project_serves(const struct host_project *project)
{
    return project->state == HOST_PROJECT_ACTIVE || project->entered;
}

bool project_server_is_used(const struct project_server *server)
{
    return server->allowed && server->use->state == PROJECT_READY;
}

static struct project_server *find_in(struct project_server *servers, size_t count,
                                      const char *plugin)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(servers[i].plugin, plugin) == 0)
            return &servers[i];
    return NULL;
}

struct project_server *project_server_find(const struct host_project *project, const char *plugin)
{
    return find_in(project->servers, project->server_count, plugin);
}

static bool reaches_project(const struct host *host, const struct project_use *use)
{
    const struct host_plugin *base = host_plugin_find(host, kg_str(use->plugin->name), NULL);
    kg_auto(kg_buf_free) struct kg_buf settings = {0};
    struct kg_json_writer json = kg_json_writer(&settings);
    if (base == NULL || base->manifest == NULL || use->state != PROJECT_READY)
        return false;
    if (use->config != NULL)
        kg_json_node(&json, use->config);
    return policy_is_of_project(base->manifest, kg_buf_view(&settings));
}

static void add_use(struct host_project *project, const struct project_use *use)
{
    struct project_server *server = project_server_find(project, use->plugin->name);
    if (server == NULL) {
        project->servers =
            kg_realloc(project->servers, (project->server_count + 1) * sizeof(*project->servers));
        server = &project->servers[project->server_count++];
        *server = (struct project_server){
            .plugin = kg_strdup(use->plugin->name),
            .use = use,
            .allowed = project_may_use(project, use),
        };
    }
    if (server->use->state != PROJECT_READY)
        server->use = use;
    server->own = server->own || reaches_project(project->host, use);
}

/* What a process was told it still knows, if it is the same one. */
static void remember(struct project_server *server, struct project_server *before)
{
    if (before == NULL || strcmp(before->process, server->process) != 0)
        return;
    server->told = before->told;
    server->told_start = before->told_start;
    before->told = (struct kg_buf){0};
    before->told_start = 0;
}

static void make_servers(struct host_project *project, struct project_server *before,
                         size_t before_count)
{
    project->servers = NULL;
    project->server_count = 0;
    for (size_t i = 0; i < project_resolved_count(project->resolved); i++) {
        const struct project_resolved_agent *agent = project_resolved_at(project->resolved, i);
        for (size_t k = 0; k < agent->use_count; k++)
            if (agent->uses[k].plugin != NULL)
                add_use(project, &agent->uses[k]);
    }
    for (size_t i = 0; i < project->server_count; i++) {
        struct project_server *server = &project->servers[i];
        server->process = server->own ? kg_format("%s@%s", server->plugin, project->id)
                                      : kg_strdup(server->plugin);
        if (project_server_is_used(server))
            remember(server, find_in(before, before_count, server->plugin));
    }
}

/* -- processes of this project alone ----------------------------------------------------------- */

static bool wants_own(const struct host_project *project, const struct host_plugin *plugin)
{
    const struct project_server *server = project_server_find(project, plugin->base);
    return server != NULL && server->own && project_serves(project) &&
           project_server_is_used(server);
}

static void leave_unwanted(struct host_project *project, bool all)
{
    struct host *host = project->host;
    for (size_t i = 0; i < host->plugin_count; i++) {
        struct host_plugin *plugin = host->plugins[i];
        if (plugin->project_id != NULL && !plugin->leaving &&
            strcmp(plugin->project_id, project->id) == 0 && (all || !wants_own(project, plugin)))
            host_leave_plugin(plugin);
    }
}

/* One that still leaves is followed by another when it is gone. */
static void add_wanted(struct host_project *project)
{
    struct host *host = project->host;
    const struct host_project_facts facts = host_project_facts(project);
    for (size_t i = 0; i < project->server_count; i++) {
        const struct project_server *server = &project->servers[i];
        const struct host_plugin *base = host_plugin_find(host, kg_str(server->plugin), NULL);
        if (base != NULL && wants_own(project, base) &&
            host_plugin_find(host, kg_str(server->process), NULL) == NULL)
            host_add_instance(host, base, &facts);
    }
}

/* -- applying ---------------------------------------------------------------------------------- */

/* The plugin itself too: it may have served the project until now. */
static void see_to(struct host *host, const struct project_server *server)
{
    const char *const names[] = {server->plugin, server->process};
    for (size_t i = 0; i < (server->own ? 2 : 1); i++) {
        struct host_plugin *plugin = host_plugin_find(host, kg_str(names[i]), NULL);
        if (plugin == NULL || plugin->leaving)
            continue;
        host_refresh_plugin(host, plugin);
        host_follow_choice(host, plugin);
    }
}

void project_apply(struct host_project *project)
{
    struct host *host = project->host;
    struct project_server *before = project->servers;
    size_t before_count = project->server_count;
    make_servers(project, before, before_count);
    for (size_t i = 0; i < before_count; i++)
        project_tell_gone(project, &before[i]);
    leave_unwanted(project, false);
    add_wanted(project);
    for (size_t i = 0; i < before_count; i++)
        if (project_server_find(project, before[i].plugin) == NULL)
            see_to(host, &before[i]);
    for (size_t i = 0; i < project->server_count; i++)
        see_to(host, &project->servers[i]);
    for (size_t i = 0; i < project->server_count; i++)
        project_tell(project, &project->servers[i]);
    project_servers_free(before, before_count);
}

void project_follow(struct host_project *project)
{
    struct host *host = project->host;
    for (size_t i = 0; i < project->server_count; i++) {
        struct host_plugin *plugin =
            host_plugin_find(host, kg_str(project->servers[i].process), NULL);
        if (plugin != NULL && project_server_is_used(&project->servers[i]))
            host_follow_choice(host, plugin);
    }
}

void project_restart_own(struct host_project *project)
{
    struct host *host = project->host;
    for (size_t i = 0; i < host->plugin_count; i++) {
        struct host_plugin *plugin = host->plugins[i];
        if (plugin->project_id != NULL && strcmp(plugin->project_id, project->id) == 0 &&
            !plugin->leaving && plugin->change == NULL && plugin->instance != NULL &&
            instance_has_process(plugin->instance))
            instance_restart(plugin->instance);
    }
}

void project_withdraw(struct host_project *project)
{
    for (size_t i = 0; i < project->server_count; i++)
        project_tell_gone(project, &project->servers[i]);
    leave_unwanted(project, true);
    for (size_t i = 0; i < project->server_count; i++)
        see_to(project->host, &project->servers[i]);
}

/* -- what others ask --------------------------------------------------------------------------- */

void host_projects_look_again(struct host *host)
{
    for (size_t i = 0; i < host->projects->count && !host->stopping; i++)
        project_apply(host->projects->items[i]);
}

void host_projects_follow(struct host *host, const struct host_plugin *base)
{
    for (size_t i = 0; i < host->plugin_count; i++) {
        struct host_plugin *plugin = host->plugins[i];
        if (plugin != base && strcmp(plugin->base, base->name) == 0)
            host_follow_choice(host, plugin);
    }
}

/* The server of the project if this is its process, and in use; else NULL. */
static struct project_server *served_by(const struct host_project *project,
                                        const struct host_plugin *plugin)
{
    struct project_server *server = project_server_find(project, plugin->base);
    return server != NULL && strcmp(server->process, plugin->name) == 0 &&
                   project_serves(project) && project_server_is_used(server)
               ? server
               : NULL;
}

bool host_projects_want(const struct host *host, const struct host_plugin *plugin)
{
    for (size_t i = 0; i < host->projects->count; i++)
        if (host->projects->items[i]->entered && served_by(host->projects->items[i], plugin))
            return true;
    return false;
}

const struct kg_node *host_projects_config(const struct host *host,
                                           const struct host_plugin *plugin)
{
    const struct project_server *found = NULL;
    for (size_t i = 0; host->projects != NULL && i < host->projects->count; i++) {
        const struct project_server *server = served_by(host->projects->items[i], plugin);
        if (server != NULL && found != NULL)
            return NULL;
        found = server != NULL ? server : found;
    }
    return found != NULL ? found->use->config : NULL;
}

void host_projects_put(const struct host *host, const struct host_plugin *plugin,
                       struct kg_json_writer *json)
{
    for (size_t i = 0; i < host->projects->count; i++)
        if (served_by(host->projects->items[i], plugin) != NULL)
            kg_json_text(json, host->projects->items[i]->id);
}

void host_projects_on_state(struct host *host, struct host_plugin *plugin)
{
    struct host_projects *projects = host->projects;
    for (size_t i = 0; i < projects->count; i++) {
        struct project_server *server = served_by(projects->items[i], plugin);
        if (server != NULL)
            project_tell(projects->items[i], server);
    }
    if (projects->settling.first != NULL)
        loop_defer(host->loop, &projects->settle_check);
}

size_t host_plugin_sessions(const struct host *host, const struct host_plugin *plugin)
{
    size_t sessions = 0;
    for (size_t i = 0; i < host->projects->count; i++) {
        const struct host_project *project = host->projects->items[i];
        bool is_meant = plugin->project_id == NULL || strcmp(plugin->project_id, project->id) == 0;
        const struct project_server *server = project_server_find(project, plugin->base);
        if (is_meant && server != NULL && project_server_is_used(server))
            sessions += project->sessions;
    }
    return sessions;
}

struct host_plugin *host_project_plugin(const struct host_project *project,
                                        const struct project_use *use)
{
    const struct project_server *server =
        use->plugin ? project_server_find(project, use->plugin->name) : NULL;
    if (server == NULL || use->state != PROJECT_READY || !project_serves(project) ||
        !project_server_is_used(server))
        return NULL;
    struct host_plugin *plugin = host_plugin_find(project->host, kg_str(server->process), NULL);
    return plugin != NULL && !plugin->leaving ? plugin : NULL;
}
