/*
 * The tiers of plugins: one row for each way to make a child. What differs between them is a field
 * of the row; nobody else asks what a plugin is.
 */
#include "host/internal.h"

static const struct host_tier caged = {
    .name = "caged",
    .plan = host_cage_plan,
    .dialect = "kaged",
};
static const struct host_tier mcp = {
    .name = "mcp",
    .plan = host_cage_plan,
    .dialect = "mcp",
    .words_have_settings = true,
    .lists_tools = true,
};

static const struct host_tier script = {
    .name = "script",
    .plan = host_script_plan,
    .dialect = "script",
    .words_have_settings = true,
    .is_script = true,
};

const struct host_tier *host_tier_of(const struct manifest *manifest)
{
    return manifest->is_script ? &script : manifest->is_mcp ? &mcp : &caged;
}
