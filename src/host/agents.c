/*
 * What tools and hooks have in common: who asks is copied, and which agent that means is looked up
 * anew whenever something is sent, since a project may be reloaded or unloaded at any time.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

static char *copy_text(const char *text)
{
    return kg_strdup(text);
}

void host_asker_copy(const struct host_asker *asker, struct host_asker_copy *ret_copy)
{
    const struct host_agent *agent = &asker->agent;
    *ret_copy = (struct host_asker_copy){
        .project_id = copy_text(agent->project_id),
        .path = copy_text(agent->path),
        .session_id = copy_text(agent->session_id),
        .operator_id = copy_text(asker->operator_id),
        .request_id = copy_text(asker->request_id),
    };
    ret_copy->agent =
        (struct host_agent){ret_copy->project_id, ret_copy->path, ret_copy->session_id};
}

void host_asker_free(struct host_asker_copy *copy)
{
    free(copy->project_id);
    free(copy->path);
    free(copy->session_id);
    free(copy->operator_id);
    free(copy->request_id);
}

struct host_context host_asker_context(const struct host_asker_copy *copy)
{
    return (struct host_context){copy->operator_id, &copy->agent, copy->request_id};
}

/* A project that waits for the operator's word may not use its plugins. */
int host_place_find(const struct host *host, const struct host_agent *agent,
                    struct host_place *ret_place, struct kg_err *err)
{
    struct host_project *project = host_project_find(host, kg_str(agent->project_id), err);
    if (project == NULL) {
        kg_fail(err, KG_E_PLUGIN_DOWN, "the project %s is not loaded any more", agent->project_id);
        kg_hint(err, "kaged project load PATH loads it again");
        return -EINVAL;
    }
    struct host_project_facts facts = host_project_facts(project);
    if (facts.state != HOST_PROJECT_ACTIVE) {
        kg_fail(err, KG_E_CONFLICT, "the project %s is pending: %s", facts.id, facts.reason);
        kg_hint(err, "kaged project show %s says what it waits for", facts.id);
        return -EINVAL;
    }
    const struct project_resolved_agent *found =
        project_resolved_find(facts.resolved, kg_str(agent->path));
    if (found == NULL)
        return kg_fail(err, KG_E_NOT_FOUND, "the project %s has no agent %s", facts.id,
                       agent->path);
    *ret_place = (struct host_place){project, found};
    return 0;
}

bool host_plugin_is_starting(const struct host_plugin *plugin)
{
    if (plugin->instance == NULL || plugin->host->stopping)
        return false;
    return instance_state(plugin->instance) == INSTANCE_SPAWNING ||
           (plugin->checks > 0 && !instance_has_process(plugin->instance));
}

void host_agents_look(struct host_plugin *plugin)
{
    host_tools_look(plugin);
    host_hooks_look(plugin);
}
