/* What the audit log is told of a resolved project: each tool and each fault once. */
#include "projects/internal.h"

static bool had_tool(const struct project_resolved *before, const char *agent_path,
                     const char *tool)
{
    const struct project_resolved_agent *agent =
        before ? project_resolved_find(before, kg_str(agent_path)) : NULL;
    const struct project_use *use;
    return agent != NULL && project_tool_find(agent, kg_str(tool), &use) != NULL;
}

static void audit_tools(const struct projects_entry *project,
                        const struct project_resolved_agent *agent, const struct project_use *use,
                        const struct project_resolved *before)
{
    for (size_t i = 0; use->state == PROJECT_READY && i < use->plugin->tool_count; i++) {
        const char *tool = use->plugin->tools[i].name;
        if (use->tools[i] && !had_tool(before, agent->path, tool))
            audit_emit(host_audit(project->host), AUDIT_PLUGIN_TOOL_REGISTERED, KG_STR_NULL,
                       AUDIT_V_TEXT(use->plugin->name), AUDIT_V_TEXT(tool),
                       AUDIT_V_TEXT(agent->path));
    }
}

static bool had_finding(const struct project_resolved *before, const struct project_finding *new)
{
    size_t count = 0;
    const struct project_finding *findings =
        before ? project_resolved_findings(before, &count) : NULL;
    for (size_t i = 0; i < count; i++)
        if (findings[i].code == new->code && kg_same_text(findings[i].agent, new->agent) &&
            kg_same_text(findings[i].use, new->use) &&
            kg_same_text(findings[i].other, new->other) &&
            kg_same_text(findings[i].what, new->what))
            return true;
    return false;
}

static void audit_finding(const struct projects_entry *project,
                          const struct project_finding *finding)
{
    struct audit *audit = host_audit(project->host);
    switch ((int)finding->code) {
    case PROJECT_HOOK_ILLEGAL:
        audit_emit(audit, AUDIT_PLUGIN_HOOK_ILLEGAL, KG_STR_NULL, AUDIT_V_TEXT(finding->plugin),
                   AUDIT_V_TEXT(finding->what), AUDIT_V_TEXT(finding->agent));
        break;
    case PROJECT_TOOL_COLLISION:
        audit_emit(audit, AUDIT_PLUGIN_TOOL_NAME_COLLISION, KG_STR_NULL,
                   AUDIT_V_TEXT(finding->other), AUDIT_V_TEXT(finding->use),
                   AUDIT_V_TEXT(finding->what));
        break;
    case PROJECT_ROLE_VIOLATION:
        audit_emit(audit, AUDIT_PLUGIN_ROLE_VIOLATION, KG_STR_NULL,
                   AUDIT_V_TEXT(finding->other_plugin), AUDIT_V_TEXT(finding->plugin),
                   AUDIT_V_TEXT(finding->agent), AUDIT_V_TEXT(project->id));
        break;
    case PROJECT_CONFIG_INVALID:
        audit_emit(audit, AUDIT_PLUGIN_CONFIG_VALIDATION_FAILED, KG_STR_NULL,
                   AUDIT_V_TEXT(finding->plugin), AUDIT_V_TEXT("project"),
                   AUDIT_V_RAW(kg_str(finding->what)));
        break;
    default:
        break;
    }
}

void project_audit_resolved(const struct projects_entry *project,
                            const struct project_resolved *before)
{
    for (size_t i = 0; i < project_resolved_count(project->resolved); i++) {
        const struct project_resolved_agent *agent = project_resolved_at(project->resolved, i);
        for (size_t k = 0; k < agent->use_count; k++)
            audit_tools(project, agent, &agent->uses[k], before);
    }
    size_t count;
    const struct project_finding *findings = project_resolved_findings(project->resolved, &count);
    for (size_t i = 0; i < count; i++)
        if (!had_finding(before, &findings[i]))
            audit_finding(project, &findings[i]);
}
