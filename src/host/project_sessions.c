/*
 * Sessions in a project. The first that enters has its plugins started; they run until the project
 * is unloaded. Who waits for them waits no longer than a handshake may take.
 */
#include "host/projects_internal.h"

#include <errno.h>

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

static bool is_starting(const struct host_project *project, const struct project_server *server)
{
    const struct host_process *process = project_server_process(project, server);
    if (process == NULL || !project_server_is_used(server) || !host_process_is_wanted(process))
        return false;
    enum instance_state state = instance_state(process->instance);
    return process->standing == HOST_CHECKED || state == INSTANCE_SPAWNING ||
           state == INSTANCE_STOPPING;
}

static bool has_settled(const struct host_settling *settling)
{
    const struct host *host = settling->host;
    const struct host_project *project = project_find(host, kg_str(settling->project_id));
    if (settling->is_over || project == NULL || host->stopping)
        return true;
    for (size_t i = 0; i < project->server_count; i++)
        if (is_starting(project, &project->servers[i]))
            return false;
    return true;
}

void host_settling_withdraw(struct host_settling *settling)
{
    kg_wait_withdraw(&settling->wait);
    if (settling->host != NULL)
        loop_timer_stop(settling->host->loop, &settling->timer);
}

static void answer(struct host_settling *settling)
{
    host_settling_withdraw(settling);
    settling->wait.on_done(&settling->wait, NULL);
}

/* They may ask anew while they are answered: the list is looked through from its start each time.
 */
static struct host_settling *find_settled(struct host_projects *projects)
{
    for (struct kg_wait *wait = projects->settling.first; wait != NULL; wait = wait->next) {
        struct host_settling *settling = KG_CONTAINER(wait, struct host_settling, wait);
        if (has_settled(settling))
            return settling;
    }
    return NULL;
}

static void check_settled(struct loop_task *task)
{
    struct host_projects *projects = KG_CONTAINER(task, struct host_projects, settle_check);
    struct host_settling *settling;
    while ((settling = find_settled(projects)) != NULL)
        answer(settling);
}

static void on_waited(struct loop_timer *timer)
{
    struct host_settling *settling = KG_CONTAINER(timer, struct host_settling, timer);
    settling->is_over = true;
    loop_defer(settling->host->loop, &settling->host->projects->settle_check);
}

void host_project_when_settled(struct host *host, const char *id, struct host_settling *settling,
                               void (*on_settled)(struct kg_wait *wait, const struct kg_err *err))
{
    *settling = (struct host_settling){.host = host, .project_id = id};
    kg_wait_add(&host->projects->settling, &settling->wait, on_settled);
    if (has_settled(settling))
        answer(settling);
    else
        loop_timer_start(host->loop, &settling->timer,
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
    while (projects->settling.first != NULL)
        answer(KG_CONTAINER(projects->settling.first, struct host_settling, wait));
}
