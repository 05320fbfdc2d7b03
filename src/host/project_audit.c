/* What the audit log is told of a resolved project: each tool and each fault once. */
#include "host/projects_internal.h"

static bool had_tool(const struct project_resolved *before, const char *agent_path,
                     const char *tool)
{
    const struct project_resolved_agent *agent =
        before ? project_resolved_find(before, kg_str(agent_path)) : NULL;
    const struct project_use *use;
    return agent != NULL && project_tool_find(agent, kg_str(tool), &use) != NULL;
}

static void audit_tools(const struct host_project *project,
                        const struct project_resolved_agent *agent, const struct project_use *use,
                        const struct project_resolved *before)
{
    for (size_t i = 0; use->state == PROJECT_READY && i < use->plugin->tool_count; i++) {
        const char *tool = use->plugin->tools[i].name;
        if (use->tools[i] && !had_tool(before, agent->path, tool))
            audit_emit(project->host->audit, AUDIT_PLUGIN_TOOL_REGISTERED, KG_STR_NULL,
                       AUDIT_V_TEXT(use->plugin->name), AUDIT_V_TEXT(tool),
                       AUDIT_V_TEXT(agent->path));
    }
}

void project_audit_resolved(const struct host_project *project,
                            const struct project_resolved *before)
{
    for (size_t i = 0; i < project_resolved_count(project->resolved); i++) {
        const struct project_resolved_agent *agent = project_resolved_at(project->resolved, i);
        for (size_t k = 0; k < agent->use_count; k++)
            audit_tools(project, agent, &agent->uses[k], before);
    }
}
