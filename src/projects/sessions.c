/*
 * Sessions in a project. One that enters has its plugins started; those that serve the project
 * alone may end when none of its sessions is awake. Who waits for them waits no longer than a
 * handshake may take.
 */
#include "projects/internal.h"

#include <errno.h>

int projects_enter(struct host *host, struct kg_str id, struct kg_err *err)
{
    struct projects_entry *project = projects_find(host, id, err);
    if (project == NULL)
        return -ENOENT;
    if (host_is_stopping(host))
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (project->state != PROJECTS_ACTIVE) {
        kg_fail(err, KG_E_REFUSED, "project %s is pending: %" KG_S_CAUSE, project->id,
                project->reason);
        return kg_hint(err, "see what it waits for: kaged project show %s", project->id);
    }
    project->sessions++;
    project->entered = true;
    project_follow(project);
    return 0;
}

void projects_leave(struct host *host, struct kg_str id, const char *session_id)
{
    struct projects_entry *project = projects_find(host, id, NULL);
    if (project == NULL)
        return;
    if (project->sessions > 0)
        project->sessions--;
    project_leave_session(project, session_id);
}

void projects_rouse(struct host *host, struct kg_str id, const char *session_id, bool is_awake)
{
    struct projects_entry *project = projects_find(host, id, NULL);
    struct kg_map *awake = host_projects(host)->awake;
    if (is_awake && project != NULL && kg_map_get(awake, kg_str(session_id)) == NULL) {
        kg_map_set(awake, kg_str(session_id), project);
        project->awake++;
    } else if (!is_awake && kg_map_remove(awake, kg_str(session_id)) != NULL && project != NULL) {
        project->awake--;
    }
}

/* -- waiting ----------------------------------------------------------------------------------- */

static bool is_starting(const struct projects_entry *project, const struct project_server *server)
{
    struct host_process *process = project_server_process(project, server);
    if (process == NULL || !project_server_is_used(server) || !host_process_is_wanted(process))
        return false;
    const struct host_status status = host_process_status(process);
    return status.is_checked || status.state == INSTANCE_SPAWNING ||
           status.state == INSTANCE_STOPPING;
}

/* One that leaves has to be gone before the same conversation has another. */
static bool has_starting_script(const struct projects_settling *settling)
{
    const struct host *host = settling->host;
    for (struct host_process *at = NULL; (at = host_process_after(host, at)) != NULL;) {
        const struct host_status status = host_process_status(at);
        const struct host_whom *whom = status.whom;
        if (whom->kind != HOST_SESSION || !host_process_is_script(at) ||
            strcmp(whom->project, settling->project_id) != 0)
            continue;
        if (host_process_is_starting(at) ||
            (status.is_leaving && kg_same_text(whom->id, settling->session_id)))
            return true;
    }
    return false;
}

static bool projects_sessions_has_settled(const struct projects_settling *settling)
{
    struct host *host = settling->host;
    const struct projects_entry *project = projects_find(host, kg_str(settling->project_id), NULL);
    if (settling->is_over || project == NULL || host_is_stopping(host))
        return true;
    for (size_t i = 0; i < project->server_count; i++)
        if (is_starting(project, &project->servers[i]))
            return false;
    return !has_starting_script(settling);
}

void projects_settling_withdraw(struct projects_settling *settling)
{
    kg_wait_withdraw(&settling->wait);
    if (settling->host != NULL)
        loop_timer_stop(host_loop(settling->host), &settling->timer);
}

static void projects_sessions_answer(struct projects_settling *settling)
{
    projects_settling_withdraw(settling);
    settling->wait.on_done(&settling->wait, NULL);
}

/* They may ask again while they are answered: the list is looked through from its start each time.
 */
static struct projects_settling *find_settled(struct projects *projects)
{
    for (struct kg_wait *wait = projects->settling.first; wait != NULL; wait = wait->next) {
        struct projects_settling *settling = KG_CONTAINER(wait, struct projects_settling, wait);
        if (projects_sessions_has_settled(settling))
            return settling;
    }
    return NULL;
}

static void check_settled(struct loop_task *task)
{
    struct projects *projects = KG_CONTAINER(task, struct projects, settle_check);
    struct projects_settling *settling;
    while ((settling = find_settled(projects)) != NULL)
        projects_sessions_answer(settling);
}

static void on_waited(struct loop_timer *timer)
{
    struct projects_settling *settling = KG_CONTAINER(timer, struct projects_settling, timer);
    settling->is_over = true;
    loop_defer(host_loop(settling->host), &host_projects(settling->host)->settle_check);
}

void projects_when_settled(struct host *host, const char *id, const char *session_id_or_null,
                           struct projects_settling *settling,
                           void (*on_settled)(struct kg_wait *wait, const struct kg_err *err))
{
    *settling = (struct projects_settling){
        .host = host, .project_id = id, .session_id = session_id_or_null};
    kg_wait_add(&host_projects(host)->settling, &settling->wait, on_settled);
    if (projects_sessions_has_settled(settling))
        projects_sessions_answer(settling);
    else
        loop_timer_start(host_loop(host), &settling->timer,
                         (uint64_t)host_config(host)->limits_initialize_timeout_ms, on_waited);
}

void project_waiters_open(struct projects *projects)
{
    projects->settle_check.run = check_settled;
}

void project_waiters_close(struct projects *projects)
{
    loop_undefer(host_loop(projects->host), &projects->settle_check);
    while (projects->settling.first != NULL)
        projects_sessions_answer(
            KG_CONTAINER(projects->settling.first, struct projects_settling, wait));
}
