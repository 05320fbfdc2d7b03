/*
 * What processes are told of a project's configuration, and what calls have to carry since
 * config.update told something else. projects.activated does not count there: a plugin that keeps
 * one configuration would take that of another project for the caller's.
 */
#include "projects/internal.h"

#include <stdlib.h>

/* -- the configuration of a use ---------------------------------------------------------------- */

void project_forget_configs(struct projects_entry *project)
{
    for (size_t i = 0; i < project->config_count; i++)
        kg_buf_free(&project->configs[i]);
    free(kg_steal(&project->configs));
    project->config_count = 0;
}

size_t project_count_uses(const struct project_resolved *resolved)
{
    size_t count = 0;
    for (size_t i = 0; i < project_resolved_count(resolved); i++)
        count += project_resolved_at(resolved, i)->use_count;
    return count;
}

/* The place of a use among those of all agents; their count, if it is none of them. */
static size_t projects_config_index_of(const struct project_resolved *resolved,
                                       const struct project_use *use)
{
    size_t index = 0;
    for (size_t i = 0; i < project_resolved_count(resolved); i++) {
        const struct project_resolved_agent *agent = project_resolved_at(resolved, i);
        for (size_t k = 0; k < agent->use_count; k++, index++)
            if (&agent->uses[k] == use)
                return index;
    }
    return index;
}

/* With the operator's secrets; made once, and kept until the project is read again. */
static struct kg_str projects_config_of(struct projects_entry *project,
                                        const struct project_use *use)
{
    const struct manifest *manifest = project_manifest(project, use->plugin->name);
    size_t index = projects_config_index_of(project->resolved, use);
    if (project->configs == NULL) {
        project->config_count = project_count_uses(project->resolved);
        project->configs = kg_alloc_array(project->config_count + 1, sizeof(*project->configs));
    }
    if (manifest == NULL || index >= project->config_count)
        return KG_STR("{}");
    struct kg_buf *config = &project->configs[index];
    if (config->length == 0)
        plugin_config_merge(project->host, manifest, use->config, config);
    return kg_buf_view(config);
}

struct kg_str project_config_for(struct projects_entry *project, const struct project_use *use,
                                 struct host_process *process)
{
    const struct manifest *manifest = project_manifest(project, use->plugin->name);
    if (project_package_find(project->packages, use->plugin->name) != NULL)
        return KG_STR_NULL; /* its settings are its process's */
    if (manifest != NULL && !plugin_config_is_known(project->host, manifest))
        return KG_STR_NULL; /* what it was told stays */
    struct kg_str told = instance_config(host_process_status(process).instance);
    struct kg_str config = projects_config_of(project, use);
    return kg_str_equal(config, told.length > 0 ? told : KG_STR("{}")) ? KG_STR_NULL : config;
}

/* -- telling ----------------------------------------------------------------------------------- */

static const char activated[] = "projects.activated";
static const char deactivated[] = "projects.deactivated";

/* A request that is under way. Everything that it was about may be gone when it is answered. */
struct telling {
    struct host *host;
    char *project, *process; /* owned */
    const char *method;
    struct dialect_call wire;
};

static void telling_free(struct telling *telling)
{
    free(telling->project);
    free(telling->process);
    free(telling);
}

static void projects_config_report(const struct telling *telling, struct kg_str error)
{
    int64_t code = rpc_error_code(error);
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    if (code == kg_error_row(KG_E_METHOD_NOT_FOUND)->rpc_code)
        return; /* it does not want to know */
    rpc_error_message(error, &words);
    struct kg_str text = kg_buf_view(&words);
    text.length = text.length < 400 ? text.length : kg_utf8_valid((struct kg_str){text.data, 400});
    kg_log_about(KG_ERROR_LEVEL, telling->process, "%s of %s: %.*s", telling->method,
                 telling->project, KG_STR_ARG(text));
    audit_emit(host_audit(telling->host), AUDIT_PLUGIN_PROJECT_REFUSED, KG_STR_NULL,
               AUDIT_V_TEXT(telling->process), AUDIT_V_TEXT(telling->project),
               AUDIT_V_TEXT(telling->method), AUDIT_V_INT(code), AUDIT_V_STR(text));
}

static void projects_config_on_told(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct telling *telling = data;
    if (outcome == PEER_ERROR)
        projects_config_report(telling, payload);
    else if (outcome == PEER_EXPIRED)
        kg_log_about(KG_WARN, telling->process, "%s of %s: no answer", telling->method,
                     telling->project);
    telling_free(telling);
}

/* The host's deadline does not count: a plugin that does not answer this may still answer others.
 */
static bool projects_config_send_request(const struct projects_entry *project,
                                         const struct host_status *process, const char *method,
                                         struct kg_str params)
{
    struct telling *telling = kg_alloc(sizeof(*telling));
    struct kg_err err;
    *telling = (struct telling){
        .host = project->host,
        .project = kg_strdup(project->id),
        .process = kg_strdup(process->name),
        .method = method,
        .wire =
            {
                .talk = instance_talk(process->instance),
                .caller_timeout_ms = (uint64_t)host_config(project->host)->limits_call_timeout_ms,
                .on_done = projects_config_on_told,
                .data = telling,
            },
    };
    const struct dialect_message message = {DIALECT_PROJECT, .method = kg_str(method),
                                            .params = params};
    if (dialect_call(&telling->wire, &message, &err) == 0)
        return true;
    kg_log_about(KG_ERROR_LEVEL, process->name, "%s of %s: %s", method, project->id, err.message);
    telling_free(telling);
    return false;
}

static void projects_config_put_params(struct kg_buf *params, const char *project,
                                       struct kg_str config)
{
    struct kg_json_writer json = kg_json_writer(params);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "project", project);
    if (config.length > 0) {
        kg_json_key(&json, "config");
        kg_json_raw(&json, config);
    }
    kg_json_end(&json, '}');
}

/* Whether its process can be told of projects, and now. */
static bool projects_config_find_listener(const struct projects_entry *project,
                                          const struct project_server *server,
                                          struct host_status *ret_process)
{
    struct host_process *process = project_server_process(project, server);
    if (process == NULL || project_package_find(project->packages, server->plugin) != NULL)
        return false;
    *ret_process = host_process_status(process);
    const struct dialect_talk *talk = instance_talk(ret_process->instance);
    return talk != NULL && talk->dialect->knows[DIALECT_PROJECT];
}

void project_tell(struct projects_entry *project, struct project_server *server)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct host_status process;
    if (!project_serves(project) || !project_server_is_used(server) ||
        !projects_config_find_listener(project, server, &process) || process.is_leaving)
        return;
    struct kg_str config = projects_config_of(project, server->use);
    uint32_t start = instance_start_count(process.instance);
    if (server->told_start == start && kg_str_equal(kg_buf_view(&server->told), config))
        return;
    projects_config_put_params(&params, project->id, config);
    server->told_start = 0;
    if (!projects_config_send_request(project, &process, activated, kg_buf_view(&params)))
        return;
    server->told_start = start;
    server->told.length = 0;
    kg_buf_str(&server->told, config);
}

void project_tell_again(struct projects_entry *project)
{
    for (size_t i = 0; i < project->server_count; i++)
        project->servers[i].told.length = 0; /* no configuration is empty */
}

void project_tell_gone(struct projects_entry *project, struct project_server *server)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct host_status process;
    if (server->told_start == 0 || !projects_config_find_listener(project, server, &process) ||
        server->told_start != instance_start_count(process.instance))
        return;
    projects_config_put_params(&params, project->id, KG_STR_NULL);
    (void)projects_config_send_request(project, &process, deactivated, kg_buf_view(&params));
    server->told_start = 0;
}
