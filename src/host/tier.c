/*
 * The tiers of plugins: one row for each way to make a child. What differs between them is a field
 * of the row; nobody else asks what a plugin is.
 */
#include "host/internal.h"

static void tier_settings(struct host_process *process, const struct manifest *manifest,
                          struct kg_buf *ret_json)
{
    plugin_config_make(process->plugin, &process->whom, manifest, ret_json);
}

static const struct host_tier tiers[MANIFEST_TIER_COUNT] = {
    [MANIFEST_CAGED] =
        {
            .name = "caged",
            .dialect = "kaged",
            .plan = host_cage_plan,
            .settings = tier_settings,
            .on_tools = host_tools_seen,
            .is_stored = true,
        },
    [MANIFEST_MCP] =
        {
            .name = "mcp",
            .dialect = "mcp",
            .plan = host_cage_plan,
            .settings = tier_settings,
            .on_tools = host_tools_seen,
            .words_have_settings = true,
            .lists_tools = true,
            .is_stored = true,
        },
    [MANIFEST_SCRIPT] =
        {
            .name = "script",
            .dialect = "script",
            .plan = host_script_plan,
            .settings = host_script_settings,
            .on_tools = host_script_registered,
            .serve = host_script_serve,
            .words_have_settings = true,
            .has_one_storage = true,
            .joins_sessions = true,
        },
    [MANIFEST_PACKAGE] =
        {
            .name = "package",
            .dialect = "package",
            .plan = host_package_plan,
            .settings = host_package_settings,
            .on_tools = host_tools_seen,
        },
    [MANIFEST_PACKAGED] =
        {
            .name = "package",
            .dialect = "kaged",
            .plan = host_cage_plan,
            .settings = host_package_settings,
            .on_tools = host_tools_seen,
        },
};

const struct host_tier *host_tier_of(const struct manifest *manifest)
{
    return &tiers[manifest->tier];
}

bool host_lists_tools(const struct manifest *manifest)
{
    return host_tier_of(manifest)->lists_tools;
}

const struct host_tier *host_plugin_tier(const struct host_plugin *plugin)
{
    return plugin->manifest != NULL ? host_tier_of(plugin->manifest)
                                    : &tiers[plugin->script ? MANIFEST_SCRIPT : MANIFEST_CAGED];
}
