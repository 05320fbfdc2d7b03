/* A watched project is read again soon after something changed that its source watches. */
#include "projects/internal.h"

static void projects_watch_on_quiet(void *data)
{
    project_refresh(data);
}

/* Begun again each time: a folder may have been replaced by another of its name. */
void project_watch_set(struct projects_entry *project)
{
    static const struct host_watch_ops ops = {.on_quiet = projects_watch_on_quiet};
    struct kg_err err;
    if (!project->watched) {
        host_watch_free(kg_steal(&project->watch));
        return;
    }
    if (project->watch == NULL)
        project->watch = host_watch_new(host_loop(project->host), &ops, project);
    host_watch_renew(project->watch);
    project->source->watch(project);
    if (host_watch_begin(project->watch, &err) > 0)
        kg_log(KG_WARN, "project %s: %s", project->id, err.message);
}
