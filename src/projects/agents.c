/*
 * What tools and hooks have in common: which agent it is that asks is looked up
 * anew whenever something is sent, since a project may be reloaded or unloaded at any time.
 */
#include "projects/internal.h"

#include <errno.h>

/* A project that waits for the operator's word may not use its plugins. */
int project_place_find(const struct host *host, const struct host_asker *asker,
                       struct project_place *ret_place, struct kg_err *err)
{
    struct projects_entry *project = projects_find(host, kg_str(asker->project_id), err);
    if (project == NULL) {
        kg_fail(err, KG_E_PLUGIN_DOWN, "the project %s is not loaded any more", asker->project_id);
        kg_hint(err, "kaged project load PATH loads it again");
        return -EINVAL;
    }
    struct projects_facts facts = projects_facts(project);
    if (facts.state != PROJECTS_ACTIVE) {
        kg_fail(err, KG_E_CONFLICT, "the project %s is pending: %s", facts.id, facts.reason);
        kg_hint(err, "kaged project show %s says what it waits for", facts.id);
        return -EINVAL;
    }
    const struct project_resolved_agent *found =
        project_resolved_find(facts.resolved, kg_str(asker->agent_path));
    if (found == NULL)
        return kg_fail(err, KG_E_NOT_FOUND, "the project %s has no agent %s", facts.id,
                       asker->agent_path);
    *ret_place = (struct project_place){project, found};
    return 0;
}
