/*
 * What tools and hooks have in common: which agent it is that asks is looked up
 * again whenever something is sent, since a project may be reloaded or unloaded at any time.
 */
#include "projects/internal.h"

#include <errno.h>

/* A project that waits for the operator's word may not use its plugins. */
int project_place_find(const struct host *host, const struct host_asker *asker,
                       struct project_place *ret_place, struct kg_err *err)
{
    struct projects_entry *project = projects_find(host, kg_str(asker->project_id), NULL);
    if (project == NULL) {
        kg_fail(err, KG_E_PLUGIN_DOWN, "the project %s is no longer loaded", asker->project_id);
        return kg_hint(err, "kaged project load PATH loads it again");
    }
    if (project->state != PROJECTS_ACTIVE) {
        kg_fail(err, KG_E_CONFLICT, "the project %s is pending: %s", project->id, project->reason);
        return kg_hint(err, "kaged project show %s says what it waits for", project->id);
    }
    const struct project_resolved_agent *found =
        project_resolved_find(project->resolved, kg_str(asker->agent_path));
    if (found == NULL)
        return kg_fail(err, KG_E_NOT_FOUND, "the project %s has no agent %s", project->id,
                       asker->agent_path);
    *ret_place = (struct project_place){project, found};
    return 0;
}
