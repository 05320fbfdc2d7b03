/*
 * A watched project is read again soon after one of its files changed. The folders are watched that
 * these are in, and the root, in which .kaged itself may come and go.
 */
#include "host/projects_internal.h"

static void on_quiet(void *data)
{
    project_refresh(data);
}

/* A file below the root. */
static void add_file(struct host_project *project, const char *file)
{
    kg_auto(kg_free) char *path = kg_path_join(project->root, file);
    kg_auto(kg_free) char *folder = kg_path_folder(path);
    host_watch_add(project->watch, folder, kg_path_name(path));
}

static void add_files(struct host_project *project)
{
    add_file(project, project->file);
    add_file(project, PROJECT_DIR);
    for (size_t i = 0; i < project_resolved_count(project->resolved); i++) {
        const char *prompt = project_resolved_at(project->resolved, i)->prompt_file;
        if (prompt != NULL)
            add_file(project, prompt);
    }
}

/* Begun anew each time: a folder may have been replaced by another of its name. */
void project_watch_set(struct host_project *project)
{
    static const struct host_watch_ops ops = {.on_quiet = on_quiet};
    struct kg_err err;
    if (!project->watched) {
        host_watch_free(kg_steal(&project->watch));
        return;
    }
    if (project->watch == NULL)
        project->watch = host_watch_new(project->host->loop, &ops, project);
    host_watch_renew(project->watch);
    add_files(project);
    if (host_watch_begin(project->watch, &err) > 0)
        kg_log(KG_WARN, "project %s: %s", project->id, err.message);
}
