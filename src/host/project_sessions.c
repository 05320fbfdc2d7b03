/*
 * Sessions in a project. The first that enters has its plugins started; they run until the project
 * is unloaded. Who waits for them waits no longer than a handshake may take.
 */
#include "host/projects_internal.h"

#include <errno.h>
#include <stdlib.h>

struct project_waiter {
    struct project_waiter *next;
    struct host *host;
    char *id; /* owned; of the project */
    struct loop_timer timer;
    bool is_over; /* it waited for long enough */
    void (*on_settled)(void *data);
    void *data;
};

int host_project_enter(struct host *host, struct kg_str id, struct kg_err *err)
{
    struct host_project *project = host_project_find(host, id, err);
    if (project == NULL)
        return -ENOENT;
    if (host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (project->state != HOST_PROJECT_ACTIVE) {
        kg_fail(err, KG_E_REFUSED, "project %s is pending: %.400s", project->id, project->reason);
        kg_hint(err, "see what it waits for: kaged project show %s", project->id);
        return -EPERM;
    }
    project->sessions++;
    if (project->entered)
        return 0;
    project->entered = true;
    project_follow(project);
    return 0;
}

void host_project_leave(struct host *host, struct kg_str id)
{
    struct host_project *project = project_find(host, id);
    if (project != NULL && project->sessions > 0)
        project->sessions--;
}

/* -- waiting ----------------------------------------------------------------------------------- */

static bool is_starting(struct host *host, const struct project_server *server)
{
    const struct host_plugin *plugin = host_plugin_find(host, kg_str(server->process), NULL);
    if (plugin == NULL || plugin->instance == NULL || !project_server_is_used(server) ||
        !host_is_enabled(host, plugin))
        return false;
    enum instance_state state = instance_state(plugin->instance);
    return plugin->checks > 0 || state == INSTANCE_SPAWNING || state == INSTANCE_STOPPING;
}

static bool has_settled(const struct project_waiter *waiter)
{
    const struct host_project *project = project_find(waiter->host, kg_str(waiter->id));
    if (waiter->is_over || project == NULL || waiter->host->stopping)
        return true;
    for (size_t i = 0; i < project->server_count; i++)
        if (is_starting(waiter->host, &project->servers[i]))
            return false;
    return true;
}

static void answer(struct project_waiter *waiter)
{
    loop_timer_stop(waiter->host->loop, &waiter->timer);
    waiter->on_settled(waiter->data);
    free(waiter->id);
    free(waiter);
}

/* They may ask anew while they are answered: the list is looked through from its start each time.
 */
static struct project_waiter *take_settled(struct host_projects *projects)
{
    for (struct project_waiter **at = &projects->waiters; *at != NULL; at = &(*at)->next) {
        struct project_waiter *waiter = *at;
        if (!has_settled(waiter))
            continue;
        *at = waiter->next;
        return waiter;
    }
    return NULL;
}

static void check_settled(struct loop_task *task)
{
    struct host_projects *projects = KG_CONTAINER(task, struct host_projects, settle_check);
    struct project_waiter *waiter;
    while ((waiter = take_settled(projects)) != NULL)
        answer(waiter);
}

static void on_waited(struct loop_timer *timer)
{
    struct project_waiter *waiter = KG_CONTAINER(timer, struct project_waiter, timer);
    waiter->is_over = true;
    loop_defer(waiter->host->loop, &waiter->host->projects->settle_check);
}

void host_project_when_settled(struct host *host, struct kg_str id, void (*on_settled)(void *data),
                               void *data)
{
    struct project_waiter *waiter = kg_alloc(sizeof(*waiter));
    *waiter = (struct project_waiter){
        .next = host->projects->waiters,
        .host = host,
        .id = kg_str_dup(id),
        .on_settled = on_settled,
        .data = data,
    };
    if (has_settled(waiter)) {
        answer(waiter);
        return;
    }
    host->projects->waiters = waiter;
    loop_timer_start(host->loop, &waiter->timer,
                     (uint64_t)host->config->limits_initialize_timeout_ms, on_waited);
}

void project_waiters_open(struct host *host)
{
    host->projects->settle_check.run = check_settled;
}

void project_waiters_close(struct host *host)
{
    struct host_projects *projects = host->projects;
    loop_undefer(host->loop, &projects->settle_check);
    while (projects->waiters != NULL) {
        struct project_waiter *waiter = projects->waiters;
        projects->waiters = waiter->next;
        answer(waiter);
    }
}
