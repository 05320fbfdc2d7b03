/*
 * The tools that a client is offered: those of plugins that are enabled, or in a project those that
 * are on for its primary agent, as they were approved, whether the plugin runs or not. At the door
 * of all plugins a tool is called PLUGIN__TOOL, by the one function for names; at that of one
 * plugin it has its own name.
 */
#include "mcp/internal.h"

#include <errno.h>

/* -- which there are --------------------------------------------------------------------------- */

/* All that the client may use of one. */
static bool walk_manifest(const struct mcp_scope *scope, const struct manifest *manifest,
                          mcp_tool_fn *on_tool, void *data)
{
    for (size_t i = 0; i < manifest->tool_count; i++) {
        const struct mcp_tool tool = {manifest, &manifest->tools[i]};
        if (mcp_allows(scope, &tool) && !on_tool(data, &tool))
            return false;
    }
    return true;
}

static const struct manifest *manifest_of(const struct mcp_scope *scope, struct host_named named)
{
    const struct host_status status = host_status(named);
    bool is_offered = named.process != NULL && status.whom->kind == HOST_NOBODY &&
                      !status.is_leaving && status.manifest != NULL &&
                      (status.is_dev || host_is_enabled(scope->mcp->host, status.plugin));
    /* What was approved last, even if what runs was started before that. */
    return is_offered ? host_status((struct host_named){.plugin = named.plugin}).manifest : NULL;
}

static void walk_plugins(const struct mcp_scope *scope, mcp_tool_fn *on_tool, void *data)
{
    size_t count;
    kg_auto(kg_free) struct host_named *names = host_names(scope->mcp->host, &count);
    for (size_t i = 0; i < count; i++) {
        const struct manifest *manifest = manifest_of(scope, names[i]);
        if (manifest != NULL && !walk_manifest(scope, manifest, on_tool, data))
            return;
    }
}

static bool walk_plugin(const struct mcp_scope *scope, struct kg_str plugin, mcp_tool_fn *on_tool,
                        void *data)
{
    struct host_named named;
    if (host_find(scope->mcp->host, plugin, &named, NULL) < 0)
        return true;
    const struct manifest *manifest = manifest_of(scope, named);
    return manifest == NULL || walk_manifest(scope, manifest, on_tool, data);
}

/* What its agent has switched on, with the words that the plugin has for it. */
static bool walk_use(const struct mcp_scope *scope, const struct project_use *use,
                     mcp_tool_fn *on_tool, void *data)
{
    struct host_named named;
    if (use->state != PROJECT_READY ||
        host_find(scope->mcp->host, kg_str(use->plugin->name), &named, NULL) < 0)
        return true;
    const struct manifest *manifest = host_status(named).manifest;
    for (size_t i = 0; manifest != NULL && i < use->plugin->tool_count; i++) {
        const struct manifest_tool *declared =
            manifest_tool_called(manifest, kg_str(use->plugin->tools[i].name));
        const struct mcp_tool tool = {manifest, declared};
        if (use->tools[i] && declared != NULL && mcp_allows(scope, &tool) && !on_tool(data, &tool))
            return false;
    }
    return true;
}

static void walk_project(const struct mcp_scope *scope, struct kg_str plugin, mcp_tool_fn *on_tool,
                         void *data)
{
    const struct projects_entry *project = projects_find(scope->mcp->host, scope->project, NULL);
    const struct project_resolved *resolved = project ? projects_facts(project).resolved : NULL;
    if (resolved == NULL || project_resolved_count(resolved) == 0)
        return;
    const struct project_resolved_agent *agent = project_resolved_at(resolved, 0);
    for (size_t i = 0; i < agent->use_count; i++) {
        const struct project_use *use = &agent->uses[i];
        bool is_meant =
            use->plugin != NULL && (plugin.length == 0 || kg_str_is(plugin, use->plugin->name));
        if (is_meant && !walk_use(scope, use, on_tool, data))
            return;
    }
}

/* plugin empty: those of all. */
static void mcp_tools_own_walk(const struct mcp_scope *scope, struct kg_str plugin,
                               mcp_tool_fn *on_tool, void *data)
{
    if (scope->project.length > 0)
        walk_project(scope, plugin, on_tool, data);
    else if (plugin.length > 0)
        walk_plugin(scope, plugin, on_tool, data);
    else
        walk_plugins(scope, on_tool, data);
}

static bool project_has(const struct mcp_scope *scope, const char *plugin)
{
    const struct projects_entry *project = projects_find(scope->mcp->host, scope->project, NULL);
    const struct project_resolved *resolved = project ? projects_facts(project).resolved : NULL;
    const struct project_resolved_agent *agent =
        resolved != NULL && project_resolved_count(resolved) > 0 ? project_resolved_at(resolved, 0)
                                                                 : NULL;
    for (size_t i = 0; agent != NULL && i < agent->use_count; i++)
        if (agent->uses[i].state == PROJECT_READY &&
            strcmp(agent->uses[i].plugin->name, plugin) == 0)
            return true;
    return false;
}

bool mcp_has_plugin(const struct mcp_scope *scope, struct host_named named)
{
    return scope->project.length > 0 ? project_has(scope, host_status(named).plugin)
                                     : manifest_of(scope, named) != NULL;
}

/* -- names ------------------------------------------------------------------------------------- */

void mcp_tool_put_name(const struct mcp_scope *scope, const struct mcp_tool *tool,
                       struct kg_buf *out)
{
    if (scope->plugin.length > 0) {
        kg_buf_text(out, tool->declared->name);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf full = {0};
    kg_buf_printf(&full, "%s.%s", tool->manifest->name, tool->declared->name);
    manifest_model_name_put(kg_buf_view(&full), out);
}

struct search {
    const struct mcp_scope *scope;
    struct kg_str name;
    struct mcp_tool found; /* declared NULL: not yet */
};

static bool compare_name(void *data, const struct mcp_tool *tool)
{
    struct search *search = data;
    kg_auto(kg_buf_free) struct kg_buf name = {0};
    mcp_tool_put_name(search->scope, tool, &name);
    if (kg_str_equal(kg_buf_view(&name), search->name))
        search->found = *tool;
    return search->found.declared == NULL;
}

/* No name of a plugin has "__" in it: what is before it is one, unless the whole was cut. */
struct kg_str mcp_plugin_in(struct kg_str name)
{
    for (size_t i = 0; i + 1 < name.length; i++)
        if (name.data[i] == '_' && name.data[i + 1] == '_')
            return kg_str_first(name, i);
    return KG_STR_NULL;
}

int mcp_tool_find(const struct mcp_scope *scope, struct kg_str name, struct mcp_tool *ret_tool,
                  struct kg_err *err)
{
    struct search search = {.scope = scope, .name = name};
    struct kg_str plugin = scope->plugin.length > 0 ? scope->plugin : mcp_plugin_in(name);
    if (plugin.length > 0)
        mcp_tools_own_walk(scope, plugin, compare_name, &search);
    if (search.found.declared == NULL && scope->plugin.length == 0)
        mcp_tools_own_walk(scope, KG_STR_NULL, compare_name, &search);
    if (search.found.declared == NULL)
        return kg_fail(err, KG_E_NOT_FOUND, "there is no tool \"%.*s\"",
                       KG_STR_CUT(name, KG_CUT_WORD));
    *ret_tool = search.found;
    return 0;
}

/* -- lists ------------------------------------------------------------------------------------- */

/* Arguments are an object, and the schema of an MCP tool has to say so. */
static void put_schema(struct kg_json_writer *json, const struct kg_node *schema)
{
    if (schema != NULL && schema->type == KG_OBJECT && kg_node_get(schema, "type") != NULL) {
        kg_json_node(json, schema);
        return;
    }
    kg_json_begin(json, '{');
    kg_json_named_text(json, "type", "object");
    for (uint32_t i = 0; schema != NULL && schema->type == KG_OBJECT && i < schema->count; i++) {
        kg_auto(kg_free) char *key = kg_str_dup(schema->members[i].key);
        kg_json_key(json, key);
        kg_json_node(json, &schema->members[i].value);
    }
    kg_json_end(json, '}');
}

/* What a server said of its tool is passed on, and what it cannot have said is not. */
void mcp_tool_put(const struct mcp_scope *scope, const struct mcp_tool *tool,
                  struct kg_json_writer *json)
{
    static const char *const passed_on[] = {"title", "outputSchema", "annotations", "icons",
                                            "_meta"};
    kg_auto(kg_buf_free) struct kg_buf name = {0};
    const struct manifest_tool *declared = tool->declared;
    mcp_tool_put_name(scope, tool, &name);
    kg_json_begin(json, '{');
    kg_json_named_str(json, "name", kg_buf_view(&name));
    if (declared->description != NULL)
        kg_json_named_text(json, "description", declared->description);
    kg_json_key(json, "inputSchema");
    put_schema(json, declared->parameters_node);
    for (size_t i = 0; tool->manifest->is_mcp && i < KG_COUNT(passed_on); i++) {
        const struct kg_node *said = kg_node_get(declared->node, passed_on[i]);
        if (said == NULL)
            continue;
        kg_json_key(json, passed_on[i]);
        kg_json_node(json, said);
    }
    kg_json_end(json, '}');
}

struct listing {
    const struct mcp_scope *scope;
    struct kg_json_writer *json;
};

static bool list_tool(void *data, const struct mcp_tool *tool)
{
    const struct listing *listing = data;
    mcp_tool_put(listing->scope, tool, listing->json);
    return true;
}

void mcp_tools_walk(const struct mcp_scope *scope, mcp_tool_fn *on_tool, void *data)
{
    mcp_tools_own_walk(scope, scope->plugin, on_tool, data);
}

void mcp_tools_put_all(const struct mcp_scope *scope, struct kg_json_writer *json)
{
    struct listing listing = {scope, json};
    kg_json_begin(json, '[');
    mcp_tools_walk(scope, list_tool, &listing);
    kg_json_end(json, ']');
}

void mcp_tools_put(const struct mcp_scope *scope, struct kg_json_writer *json)
{
    if (mcp_searches(scope))
        mcp_search_put(json);
    else
        mcp_tools_put_all(scope, json);
}

static uint64_t digest(const struct mcp_scope *scope,
                       void (*put)(const struct mcp_scope *, struct kg_json_writer *))
{
    kg_auto(kg_buf_free) struct kg_buf list = {0};
    struct kg_json_writer json = kg_json_writer(&list);
    put(scope, &json);
    return kg_hash(kg_buf_view(&list));
}

uint64_t mcp_tools_all_digest(const struct mcp_scope *scope)
{
    return digest(scope, mcp_tools_put_all);
}

uint64_t mcp_tools_digest(const struct mcp_scope *scope)
{
    return digest(scope, mcp_tools_put);
}
