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

/* Whom the process of a server serves. */
static struct host_whom whom_of(const struct host_project *project,
                                const struct project_server *server)
{
    return server->own ? (struct host_whom){HOST_PROJECT, project->id, project->root,
                                            project->source->has_file ? project->path : NULL}
                       : host_nobody;
}

struct host_process *project_server_process(const struct host_project *project,
                                            const struct project_server *server)
{
    const struct host_plugin *plugin = host_plugin_find(project->host, kg_str(server->plugin));
    const struct host_whom whom = whom_of(project, server);
    return plugin ? host_process_find(plugin, &whom) : NULL;
}

static bool reaches_project(const struct host *host, const struct project_use *use)
{
    const struct host_plugin *plugin = host_plugin_find(host, kg_str(use->plugin->name));
    kg_auto(kg_buf_free) struct kg_buf settings = {0};
    struct kg_json_writer json = kg_json_writer(&settings);
    if (plugin == NULL || plugin->manifest == NULL || use->state != PROJECT_READY)
        return false;
    if (use->config != NULL)
        kg_json_node(&json, use->config);
    return policy_is_of_project(plugin->manifest, kg_buf_view(&settings));
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
    if (before == NULL || before->own != server->own)
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
        if (project_server_is_used(server))
            remember(server, find_in(before, before_count, server->plugin));
    }
}

/* -- processes of this project alone ----------------------------------------------------------- */

static bool wants_own(const struct host_project *project, const struct host_plugin *plugin)
{
    const struct project_server *server = project_server_find(project, plugin->name);
    return server != NULL && server->own && project_serves(project) &&
           project_server_is_used(server);
}

/* Whether it is the process of this project alone, and stays. */
static bool is_own(const struct host_project *project, const struct host_process *process)
{
    return process->whom.kind == HOST_PROJECT && process->standing != HOST_LEAVES &&
           strcmp(process->whom.id, project->id) == 0;
}

static void leave_unwanted(struct host_project *project, bool all)
{
    for (struct host_process *at = NULL; (at = host_process_after(project->host, at)) != NULL;)
        if (is_own(project, at) && (all || !wants_own(project, at->plugin)))
            host_process_raise(at, HOST_ON_LEFT);
}

/* One that still leaves is followed by another when it is gone. */
static void add_wanted(struct host_project *project)
{
    for (size_t i = 0; i < project->server_count; i++) {
        const struct project_server *server = &project->servers[i];
        struct host_plugin *plugin = host_plugin_find(project->host, kg_str(server->plugin));
        const struct host_whom whom = whom_of(project, server);
        if (plugin != NULL && wants_own(project, plugin) && !plugin->leaving &&
            host_process_find(plugin, &whom) == NULL)
            host_process_add(plugin, &whom);
    }
}

/* -- applying ---------------------------------------------------------------------------------- */

/* Also its process for nobody: that may have served the project until now. */
static void see_to(const struct host_project *project, const struct project_server *server)
{
    struct host_plugin *plugin = host_plugin_find(project->host, kg_str(server->plugin));
    if (plugin == NULL)
        return;
    host_plugin_refresh(plugin);
    struct host_process *const processes[] = {
        host_process_find(plugin, &host_nobody),
        server->own ? project_server_process(project, server) : NULL,
    };
    for (size_t i = 0; i < KG_COUNT(processes); i++)
        if (processes[i] != NULL)
            host_process_follow(processes[i]);
}

void project_apply(struct host_project *project)
{
    struct project_server *before = project->servers;
    size_t before_count = project->server_count;
    make_servers(project, before, before_count);
    for (size_t i = 0; i < before_count; i++)
        project_tell_gone(project, &before[i]);
    leave_unwanted(project, false);
    add_wanted(project);
    for (size_t i = 0; i < before_count; i++)
        if (project_server_find(project, before[i].plugin) == NULL)
            see_to(project, &before[i]);
    for (size_t i = 0; i < project->server_count; i++)
        see_to(project, &project->servers[i]);
    for (size_t i = 0; i < project->server_count; i++)
        project_tell(project, &project->servers[i]);
    project_servers_free(before, before_count);
}

void project_follow(struct host_project *project)
{
    for (size_t i = 0; i < project->server_count; i++) {
        struct host_process *process = project_server_process(project, &project->servers[i]);
        if (process != NULL && project_server_is_used(&project->servers[i]))
            host_process_follow(process);
    }
}

void project_restart_own(struct host_project *project)
{
    for (struct host_process *at = NULL; (at = host_process_after(project->host, at)) != NULL;)
        if (is_own(project, at) && host_process_runs(at))
            host_process_raise(at, HOST_ON_RESTART);
}

void project_withdraw(struct host_project *project)
{
    for (size_t i = 0; i < project->server_count; i++)
        project_tell_gone(project, &project->servers[i]);
    leave_unwanted(project, true);
    for (size_t i = 0; i < project->server_count; i++)
        see_to(project, &project->servers[i]);
}

/* -- what others ask --------------------------------------------------------------------------- */

void host_projects_look_again(struct host *host)
{
    for (size_t i = 0; i < host->projects->count && !host->stopping; i++)
        project_apply(host->projects->items[i]);
}

/* The server of the project if such a process of the plugin is its, and in use; else NULL. */
static struct project_server *served_by(const struct host_project *project,
                                        const struct host_plugin *plugin,
                                        const struct host_whom *whom)
{
    struct project_server *server = project_server_find(project, plugin->name);
    return server != NULL && server->own == (whom->kind == HOST_PROJECT) &&
                   (!server->own || strcmp(whom->id, project->id) == 0) &&
                   project_serves(project) && project_server_is_used(server)
               ? server
               : NULL;
}

bool host_projects_want(const struct host_process *process)
{
    const struct host_projects *projects = process->plugin->host->projects;
    for (size_t i = 0; i < projects->count; i++)
        if (projects->items[i]->entered &&
            served_by(projects->items[i], process->plugin, &process->whom))
            return true;
    return false;
}

const struct kg_node *host_projects_config(const struct host_plugin *plugin,
                                           const struct host_whom *whom)
{
    const struct host_projects *projects = plugin->host->projects;
    const struct project_server *found = NULL;
    for (size_t i = 0; projects != NULL && i < projects->count; i++) {
        const struct project_server *server = served_by(projects->items[i], plugin, whom);
        if (server != NULL && found != NULL)
            return NULL;
        found = server != NULL ? server : found;
    }
    return found != NULL ? found->use->config : NULL;
}

void host_projects_put(const struct host_process *process, struct kg_json_writer *json)
{
    const struct host_projects *projects = process->plugin->host->projects;
    for (size_t i = 0; i < projects->count; i++)
        if (served_by(projects->items[i], process->plugin, &process->whom) != NULL)
            kg_json_text(json, projects->items[i]->id);
}

void host_projects_on_state(struct host *host, struct host_process *process)
{
    struct host_projects *projects = host->projects;
    for (size_t i = 0; i < projects->count; i++) {
        struct project_server *server =
            served_by(projects->items[i], process->plugin, &process->whom);
        if (server != NULL)
            project_tell(projects->items[i], server);
    }
    if (projects->settling.first != NULL)
        loop_defer(host->loop, &projects->settle_check);
}

size_t host_plugin_sessions(const struct host_plugin *plugin)
{
    const struct host_projects *projects = plugin->host->projects;
    size_t sessions = 0;
    for (size_t i = 0; i < projects->count; i++) {
        const struct project_server *server = project_server_find(projects->items[i], plugin->name);
        if (server != NULL && project_server_is_used(server))
            sessions += projects->items[i]->sessions;
    }
    return sessions;
}

struct host_process *host_project_process(const struct host_project *project,
                                          const struct project_use *use)
{
    const struct project_server *server =
        use->plugin ? project_server_find(project, use->plugin->name) : NULL;
    if (server == NULL || use->state != PROJECT_READY || !project_serves(project) ||
        !project_server_is_used(server))
        return NULL;
    struct host_process *process = project_server_process(project, server);
    return process != NULL && process->standing != HOST_LEAVES ? process : NULL;
}
