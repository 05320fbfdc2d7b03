/* What every plugin answers alike: the handshake, pings, configuration, projects, the end. */
#include "internal.h"

#include <stdlib.h>

/* -- the initialize answer --------------------------------------------------------------------- */

static void put_list(struct kaged_writer *writer, const char *key, const char *const *list)
{
    kaged_key(writer, key);
    kaged_begin_array(writer);
    for (; list != NULL && *list != NULL; list++)
        kaged_put(writer, kaged_text(*list));
    kaged_end_array(writer);
}

static void put_introduction(struct kaged_writer *writer, const struct kaged_plugin *plugin)
{
    kaged_begin_object(writer);
    kaged_put_field(writer, "name", kaged_text(plugin->name));
    kaged_put_field(writer, "version", kaged_text(plugin->version));
    kaged_put_field(writer, "api_version", kaged_int(KAGED_API_VERSION));
    kaged_key(writer, "methods");
    kaged_begin_array(writer);
    for (const struct kaged_entry *row = plugin->methods; row != NULL && row->name != NULL; row++)
        kaged_put(writer, kaged_text(row->name));
    kaged_end_array(writer);
    put_list(writer, "notifications", plugin->notifications);
    put_list(writer, "capabilities_used", plugin->capabilities);
    kaged_end_object(writer);
}

/* -- projects: a sorted list ------------------------------------------------------------------- */

static void add_project(struct engine *engine, struct kg_str project)
{
    if (kg_list_has(engine->projects, project))
        return;
    kg_list_add(&engine->projects, kg_str_dup(project));
    size_t at = kg_list_count(engine->projects) - 1;
    for (; at > 0 && strcmp(engine->projects[at - 1], engine->projects[at]) > 0; at--) {
        char *other = engine->projects[at - 1];
        engine->projects[at - 1] = engine->projects[at];
        engine->projects[at] = other;
    }
}

static void remove_project(struct engine *engine, struct kg_str project)
{
    char **at = engine->projects;
    while (*at != NULL && !kg_str_is(project, *at))
        at++;
    free(*at);
    for (; *at != NULL; at++)
        *at = at[1];
}

/* -- system methods ---------------------------------------------------------------------------- */

static int run_initialize(struct kaged_call *call)
{
    struct engine *engine = call->engine;
    const struct kg_node *params = call->params;
    const struct kg_node *name = kg_node_get(params, "plugin_name");
    const struct kg_node *projects = kg_node_get(params, "projects");
    int64_t api_version;
    if (engine->state != ENGINE_NEW)
        return kaged_fail(call, KAGED_INVALID_REQUEST, "invalid request: initialize came before");
    if (!kg_node_int(kg_node_get(params, "api_version"), &api_version) ||
        api_version != KAGED_API_VERSION)
        return kaged_invalid_params(call, "this plugin speaks api_version %d", KAGED_API_VERSION);
    if (name != NULL && (name->type != KG_STRING || !kg_str_is(name->text, engine->plugin->name)))
        return kaged_invalid_params(call, "plugin_name is not %s", engine->plugin->name);
    for (size_t i = 0; i < kaged_json_count(json_of(projects)); i++)
        if (kaged_json_text(kaged_json_at(json_of(projects), i)) != NULL)
            add_project(engine, node_of(kaged_json_at(json_of(projects), i))->text);
    engine->has_storage = kaged_json_is_true(json_of(kg_node_get(params, "storage_available")));
    engine->state = ENGINE_GREETED;
    put_introduction(kaged_result(call), engine->plugin);
    return 0;
}

static int run_initialized(struct kaged_call *call)
{
    struct engine *engine = call->engine;
    if (engine->state != ENGINE_GREETED)
        return 0;
    engine->state = ENGINE_OPEN;
    if (engine->plugin->on_ready != NULL && engine->plugin->on_ready(call) != 0)
        kaged_log(KAGED_ERROR, "on_ready failed",
                  KAGED_FIELDS({"error", kaged_text(call->failure.message)}));
    failure_clear(&call->failure);
    return 0;
}

static int run_ping(struct kaged_call *call)
{
    return kaged_reply(call, KAGED_FIELDS({"status", kaged_text("ok")}));
}

/* The author's handler of a system method: what it writes is nobody's business. */
static int run_quietly(struct kaged_call *call, kaged_handler *handler)
{
    int result = handler != NULL ? handler(call) : 0;
    if (call->result != NULL)
        call->result->buf.length = 0;
    return result;
}

static int run_config_update(struct kaged_call *call)
{
    struct engine *engine = call->engine;
    const struct kg_node *config = kg_node_get(call->params, "config");
    if (config == NULL || config->type != KG_OBJECT)
        return kaged_invalid_params(call, "config is not an object");
    call->params = call->config = config;
    int result = run_quietly(call, engine->plugin->on_config);
    if (result != 0) {
        if (call->failure.code == KAGED_PLUGIN_ERROR)
            call->failure.code = KAGED_CONFIG_INVALID;
        return result;
    }
    kg_doc_free(engine->config);
    engine->config = json_copy(config);
    return 0;
}

/* NULL if there is none; then the call has failed. */
static const struct kg_node *read_project(struct kaged_call *call)
{
    const struct kg_node *project = kg_node_get(call->params, "project");
    if (project != NULL && project->type == KG_STRING)
        return project;
    kaged_invalid_params(call, "project is not a string");
    return NULL;
}

static int run_activated(struct kaged_call *call)
{
    const struct kg_node *project = read_project(call);
    if (project == NULL)
        return -1;
    add_project(call->engine, project->text);
    return run_quietly(call, call->engine->plugin->on_project_activated);
}

static int run_deactivated(struct kaged_call *call)
{
    const struct kg_node *project = read_project(call);
    if (project == NULL)
        return -1;
    remove_project(call->engine, project->text);
    return run_quietly(call, call->engine->plugin->on_project_deactivated);
}

static int run_shutdown(struct kaged_call *call)
{
    call->engine->ending = true;
    return 0;
}

static const struct system_row system_rows[] = {
    {"initialize", run_initialize, ENGINE_NEW, ENGINE_NEW, true},
    {"initialized", run_initialized, ENGINE_GREETED, ENGINE_GREETED, false},
    {"ping", run_ping, ENGINE_GREETED, ENGINE_GREETED, true},
    {"config.update", run_config_update, ENGINE_GREETED, ENGINE_GREETED, false},
    {"projects.activated", run_activated, ENGINE_GREETED, ENGINE_GREETED, false},
    {"projects.deactivated", run_deactivated, ENGINE_GREETED, ENGINE_GREETED, false},
    {"shutdown", run_shutdown, ENGINE_GREETED, ENGINE_NEW, false},
};

const struct system_row *system_find(const char *method)
{
    for (size_t i = 0; i < KG_COUNT(system_rows); i++)
        if (strcmp(system_rows[i].name, method) == 0)
            return &system_rows[i];
    return NULL;
}
