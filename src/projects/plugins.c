/*
 * The processes that serve a project. As a plugin wants it that is one for this project alone,
 * plugin@project, or one for each of its sessions, plugin@session; all others are shared. A process
 * may run while the operator or a project that is in use wants it.
 */
#include "host/package.h"
#include "projects/internal.h"

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

bool project_serves(const struct projects_entry *project)
{
    return project->state == PROJECTS_ACTIVE || project->entered;
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

struct project_server *project_server_find(const struct projects_entry *project, const char *plugin)
{
    return find_in(project->servers, project->server_count, plugin);
}

/* Whom the process of a server serves, for all sessions or for one. */
static struct host_whom whom_of(const struct projects_entry *project,
                                const struct project_server *server, const char *session_id)
{
    static const enum host_whom_kind kinds[] = {
        [MANIFEST_SHARED] = HOST_NOBODY,
        [MANIFEST_PROJECT] = HOST_PROJECT,
        [MANIFEST_SESSION] = HOST_SESSION,
    };
    enum host_whom_kind kind = kinds[server->serves];
    if (kind == HOST_NOBODY)
        return host_nobody;
    return (struct host_whom){kind, kind == HOST_SESSION ? session_id : project->id, project->id,
                              project->source->has_root ? project->root : NULL,
                              project->source->has_file ? project->path : NULL};
}

struct host_process *project_server_process(const struct projects_entry *project,
                                            const struct project_server *server)
{
    const struct host_plugin *plugin = host_plugin_find(project->host, kg_str(server->plugin));
    const struct host_package_use *package =
        project_package_find(project->packages, server->plugin);
    const struct host_whom whom = whom_of(project, server, NULL);
    if (package != NULL)
        return host_package_process(package);
    return plugin && server->serves != MANIFEST_SESSION ? host_process_find(plugin, &whom) : NULL;
}

const struct manifest *project_manifest(const struct projects_entry *project, const char *name)
{
    struct host_named named = {.plugin = host_plugin_find(project->host, kg_str(name))};
    return named.plugin != NULL ? host_status(named).manifest : NULL;
}

/* What a setting of the project says may count, too. */
static enum manifest_process serves(const struct projects_entry *project,
                                    const struct project_use *use)
{
    const struct host_plugin *plugin = host_plugin_find(project->host, kg_str(use->plugin->name));
    kg_auto(kg_buf_free) struct kg_buf settings = {0};
    struct kg_json_writer json = kg_json_writer(&settings);
    if (project_manifest(project, use->plugin->name) == NULL || use->state != PROJECT_READY)
        return MANIFEST_SHARED;
    if (use->config != NULL)
        kg_json_node(&json, use->config);
    return host_plugin_serves(plugin, project->id, kg_buf_view(&settings));
}

static void add_use(struct projects_entry *project, const struct project_use *use)
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
    if (server->serves == MANIFEST_SHARED)
        server->serves = serves(project, use);
}

/* What a process was told it still knows, if it is the same one. */
static void remember(struct project_server *server, struct project_server *before)
{
    if (before == NULL || before->serves != server->serves)
        return;
    server->told = before->told;
    server->told_start = before->told_start;
    before->told = (struct kg_buf){0};
    before->told_start = 0;
}

static void make_servers(struct projects_entry *project, struct project_server *before,
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

static bool wants_own(const struct projects_entry *project, const char *plugin)
{
    const struct project_server *server = project_server_find(project, plugin);
    return server != NULL && server->serves != MANIFEST_SHARED && project_serves(project) &&
           project_server_is_used(server);
}

/* Whether it is a process of this project alone, and stays. */
static bool is_own(const struct projects_entry *project, const struct host_status *process)
{
    return process->whom->project != NULL && !process->is_leaving &&
           strcmp(process->whom->project, project->id) == 0;
}

/* Whether that is as the plugin wants it now. */
static bool fits(const struct project_server *server, const struct host_whom *whom)
{
    return server != NULL && (server->serves == MANIFEST_SESSION) == (whom->kind == HOST_SESSION);
}

static void leave_unwanted(struct projects_entry *project, bool all)
{
    for (struct host_process *at = NULL; (at = host_process_after(project->host, at)) != NULL;) {
        const struct host_status status = host_process_status(at);
        const struct project_server *server = project_server_find(project, status.plugin);
        bool fits_well = host_process_is_script(at) ||
                         (wants_own(project, status.plugin) && fits(server, status.whom));
        if (is_own(project, &status) && (all || !fits_well))
            host_process_leave(at);
    }
}

void project_leave_session(struct projects_entry *project, const char *session_id)
{
    for (struct host_process *at = NULL; (at = host_process_after(project->host, at)) != NULL;) {
        const struct host_whom *whom = host_process_status(at).whom;
        if (whom->kind == HOST_SESSION && strcmp(whom->id, session_id) == 0)
            host_process_leave(at);
    }
}

/* One that serves these; it is made if there is none, and one that leaves is waited for. */
static struct host_process *see_to_own(const struct projects_entry *project,
                                       const struct project_server *server, const char *session_id)
{
    struct host_plugin *plugin = host_plugin_find(project->host, kg_str(server->plugin));
    const struct host_whom whom = whom_of(project, server, session_id);
    if (plugin == NULL || !wants_own(project, server->plugin) ||
        host_status((struct host_named){.plugin = plugin}).is_leaving)
        return NULL;
    struct host_process *process = host_process_find(plugin, &whom);
    return process != NULL ? process : host_process_add(plugin, &whom);
}

/* One that still leaves is followed by another when it is gone. */
static void add_wanted(struct projects_entry *project)
{
    for (size_t i = 0; i < project->server_count; i++)
        if (project->servers[i].serves == MANIFEST_PROJECT)
            (void)see_to_own(project, &project->servers[i], NULL);
}

/* -- applying ---------------------------------------------------------------------------------- */

/* What serves the project alone runs for sessions, unless it is left to its first use. */
static void follow(struct host_process *process, bool is_awake)
{
    const struct host_status status = host_process_status(process);
    if (status.whom->kind != HOST_NOBODY && is_awake && !status.manifest->first_use)
        host_process_use(process);
    else
        host_process_follow(process);
}

/* Also its process for nobody: that may have served the project until now. */
static void see_to(const struct projects_entry *project, const struct project_server *server)
{
    struct host_plugin *plugin = host_plugin_find(project->host, kg_str(server->plugin));
    if (plugin == NULL || host_plugin_is_package(plugin))
        return; /* that runs as long as it is used */
    host_plugin_refresh(plugin);
    struct host_process *const processes[] = {
        host_process_find(plugin, &host_nobody),
        server->serves == MANIFEST_PROJECT ? project_server_process(project, server) : NULL,
    };
    for (size_t i = 0; i < KG_COUNT(processes); i++)
        if (processes[i] != NULL)
            follow(processes[i], project->awake > 0);
}

void project_apply(struct projects_entry *project)
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

void project_follow(struct projects_entry *project)
{
    for (size_t i = 0; i < project->server_count; i++) {
        struct host_process *process = project_server_process(project, &project->servers[i]);
        if (process != NULL && project_server_is_used(&project->servers[i]))
            follow(process, true);
    }
}

void project_withdraw(struct projects_entry *project)
{
    for (size_t i = 0; i < project->server_count; i++)
        project_tell_gone(project, &project->servers[i]);
    leave_unwanted(project, true);
    for (size_t i = 0; i < project->server_count; i++)
        see_to(project, &project->servers[i]);
}

/* -- what others ask --------------------------------------------------------------------------- */

void projects_look_again(struct projects *projects)
{
    for (size_t i = 0; i < projects->count && !host_is_stopping(projects->host); i++)
        project_apply(projects->items[i]);
}

/* The server of the project if such a process of the plugin is its, and in use; else NULL. */
static struct project_server *served_by(const struct projects_entry *project, const char *plugin,
                                        const struct host_whom *whom)
{
    struct project_server *server = project_server_find(project, plugin);
    return server != NULL && (server->serves == MANIFEST_SHARED) == (whom->kind == HOST_NOBODY) &&
                   (whom->kind == HOST_NOBODY ||
                    (fits(server, whom) && strcmp(whom->project, project->id) == 0)) &&
                   project_serves(project) && project_server_is_used(server)
               ? server
               : NULL;
}

/* A plugin that hears of sessions, or was started for one, stays while one of them is awake. */
bool projects_hold(const struct projects *projects, const struct host_process *process)
{
    const struct host_status status =
        host_process_status((struct host_process *)process); /* which only looks */
    if (project_tools_hold(projects, process) || project_hooks_hold(projects, process))
        return true;
    if (status.whom->kind == HOST_SESSION)
        return kg_map_get(projects->awake, kg_str(status.whom->id)) != NULL;
    for (size_t i = 0; i < projects->count && status.whom->kind == HOST_PROJECT; i++)
        if (strcmp(projects->items[i]->id, status.whom->id) == 0)
            return projects->items[i]->awake > 0 && !status.manifest->first_use;
    return false;
}

/* A script joins each conversation of a project that has a folder. */
static bool wants_script(const struct projects *projects, const char *plugin,
                         const struct host_whom *whom)
{
    const struct host_plugin *known = host_plugin_find(projects->host, kg_str(plugin));
    if (known == NULL || !host_plugin_is_script(known) || whom->kind != HOST_SESSION)
        return false;
    for (size_t i = 0; i < projects->count; i++)
        if (projects->items[i]->entered && strcmp(projects->items[i]->id, whom->project) == 0)
            return true;
    return false;
}

/* Nobody enters a project for tools that nobody knows: where it may run, their server lists them.
 */
bool projects_want(const struct projects *projects, const char *plugin,
                   const struct host_whom *whom)
{
    const struct host_plugin *known = host_plugin_find(projects->host, kg_str(plugin));
    bool lists = known != NULL && host_tools_are_unknown(known);
    if (wants_script(projects, plugin, whom))
        return true;
    for (size_t i = 0; i < projects->count; i++)
        if ((lists || projects->items[i]->entered) && served_by(projects->items[i], plugin, whom))
            return true;
    return false;
}

const struct kg_node *projects_config(const struct projects *projects, const char *plugin,
                                      const struct host_whom *whom)
{
    const struct project_server *found = NULL;
    for (size_t i = 0; i < projects->count; i++) {
        const struct project_server *server = served_by(projects->items[i], plugin, whom);
        if (server != NULL && found != NULL)
            return NULL;
        found = server != NULL ? server : found;
    }
    return found != NULL ? found->use->config : NULL;
}

void projects_put(const struct projects *projects, const char *plugin, const struct host_whom *whom,
                  struct kg_json_writer *json)
{
    for (size_t i = 0; i < projects->count; i++)
        if (served_by(projects->items[i], plugin, whom) != NULL)
            kg_json_text(json, projects->items[i]->id);
}

void projects_put_users(const struct projects *projects, const char *plugin,
                        struct kg_json_writer *json)
{
    for (size_t i = 0; i < projects->count; i++) {
        const struct project_server *server = project_server_find(projects->items[i], plugin);
        if (server != NULL && project_serves(projects->items[i]) && project_server_is_used(server))
            kg_json_text(json, projects->items[i]->id);
    }
}

void projects_moved(struct projects *projects, struct host_process *process)
{
    const struct host_status status = host_process_status(process);
    for (size_t i = 0; i < projects->count; i++) {
        struct project_server *server = served_by(projects->items[i], status.plugin, status.whom);
        if (server != NULL)
            project_tell(projects->items[i], server);
        if (status.state == INSTANCE_RUNNING)
            project_note_exposed(projects->items[i]);
    }
    if (projects->settling.first != NULL)
        loop_defer(host_loop(projects->host), &projects->settle_check);
    project_tools_look(projects, process);
    project_hooks_look(projects, process);
    project_knobs_look(projects);
}

size_t projects_sessions(const struct projects *projects, const char *plugin)
{
    size_t sessions = 0;
    for (size_t i = 0; i < projects->count; i++) {
        const struct project_server *server = project_server_find(projects->items[i], plugin);
        if (server != NULL && project_server_is_used(server))
            sessions += projects->items[i]->sessions;
    }
    return sessions;
}

struct host_process *project_process(const struct projects_entry *project,
                                     const struct project_use *use, const char *session_id)
{
    const struct project_server *server =
        use->plugin ? project_server_find(project, use->plugin->name) : NULL;
    if (server == NULL || use->state != PROJECT_READY || !project_serves(project) ||
        !project_server_is_used(server))
        return NULL;
    struct host_process *process = server->serves != MANIFEST_SESSION
                                       ? project_server_process(project, server)
                                   : session_id ? see_to_own(project, server, session_id)
                                                : NULL;
    return process != NULL && !host_process_status(process).is_leaving ? process : NULL;
}

char *project_home(const struct projects_entry *project, const char *plugin)
{
    const struct host_plugin *known = host_plugin_find(project->host, kg_str(plugin));
    const struct project_server *server = project_server_find(project, plugin);
    bool is_own = known != NULL && server != NULL && server->serves == MANIFEST_PROJECT &&
                  host_plugin_parts_homes(known);
    return is_own ? kg_format("%s@%s", plugin, project->id) : kg_strdup(plugin);
}
