/*
 * A watched project is read again soon after one of its files changed. Editors replace files, so
 * the folders are watched that they are in, and the root, in which .kaged itself may come and go.
 */
#include "host/projects_internal.h"

#include <stdlib.h>

#define DEBOUNCE_MS 200 /* of changes that come together */

struct folder {
    struct project_watch *of;
    char *path;   /* owned */
    char **names; /* owned; what counts in it */
    struct loop_watch *watch;
};

struct project_watch {
    struct host_project *project; /* borrowed */
    struct loop_timer timer;
    struct folder **folders; /* owned */
    size_t count;
};

static void folders_free(struct folder **folders, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        loop_watch_free(folders[i]->watch);
        kg_list_free(folders[i]->names);
        free(folders[i]->path);
        free(folders[i]);
    }
    free(folders);
}

void project_watch_free(struct project_watch *watch)
{
    if (watch == NULL)
        return;
    loop_timer_stop(watch->project->host->loop, &watch->timer);
    folders_free(watch->folders, watch->count);
    free(watch);
}

static void on_quiet(struct loop_timer *timer)
{
    project_refresh(KG_CONTAINER(timer, struct project_watch, timer)->project);
}

static void look_soon(struct project_watch *watch)
{
    loop_timer_start(watch->project->host->loop, &watch->timer, DEBOUNCE_MS, on_quiet);
}

static void on_change(void *data, const char *name_or_null)
{
    struct folder *folder = data;
    if (name_or_null == NULL || kg_list_has(folder->names, kg_str(name_or_null)))
        look_soon(folder->of);
}

static struct folder *folder_of(struct project_watch *watch, const char *path)
{
    for (size_t i = 0; i < watch->count; i++)
        if (strcmp(watch->folders[i]->path, path) == 0)
            return watch->folders[i];
    struct folder *folder = kg_alloc(sizeof(*folder));
    folder->of = watch;
    folder->path = kg_strdup(path);
    folder->names = kg_list_new(0);
    watch->folders = kg_realloc(watch->folders, (watch->count + 1) * sizeof(struct folder *));
    watch->folders[watch->count++] = folder;
    return folder;
}

/* A file below the root. */
static void add_file(struct project_watch *watch, const char *file)
{
    const char *root = watch->project->root;
    kg_auto(kg_free) char *path = kg_format("%s/%s", strcmp(root, "/") == 0 ? "" : root, file);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    struct folder *folder = folder_of(watch, path[0] != '\0' ? path : "/");
    if (!kg_list_has(folder->names, kg_str(slash + 1)))
        kg_list_add(&folder->names, kg_strdup(slash + 1));
}

static void add_files(struct project_watch *watch)
{
    const struct host_project *project = watch->project;
    add_file(watch, project->file);
    add_file(watch, PROJECT_DIR);
    for (size_t i = 0; i < project_resolved_count(project->resolved); i++) {
        const char *prompt = project_resolved_at(project->resolved, i)->prompt_file;
        if (prompt != NULL)
            add_file(watch, prompt);
    }
}

static bool has_name(struct folder *const *folders, size_t count, const char *path,
                     const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(folders[i]->path, path) == 0)
            return folders[i]->watch != NULL && kg_list_has(folders[i]->names, kg_str(name));
    return false;
}

/* What was not watched until now may have changed before it was. */
static bool has_news(const struct project_watch *watch, struct folder *const *before, size_t count)
{
    for (size_t i = 0; i < watch->count; i++)
        for (char **name = watch->folders[i]->names; *name != NULL; name++)
            if (watch->folders[i]->watch != NULL &&
                !has_name(before, count, watch->folders[i]->path, *name))
                return true;
    return false;
}

/* Begun anew each time: a folder may have been replaced by another of its name. */
static void begin(struct project_watch *watch)
{
    struct folder **before = watch->folders;
    size_t count = watch->count;
    watch->folders = NULL;
    watch->count = 0;
    add_files(watch);
    for (size_t i = 0; i < watch->count; i++) {
        struct folder *folder = watch->folders[i];
        struct kg_err err;
        folder->watch =
            loop_watch_new(watch->project->host->loop, folder->path, on_change, folder, &err);
        if (folder->watch == NULL)
            kg_log(KG_WARN, "project %s: %s", watch->project->id, err.message);
    }
    if (has_news(watch, before, count))
        look_soon(watch);
    folders_free(before, count);
}

void project_watch_set(struct host_project *project)
{
    if (!project->watched) {
        project_watch_free(kg_steal(&project->watch));
        return;
    }
    if (project->watch == NULL) {
        project->watch = kg_alloc(sizeof(*project->watch));
        project->watch->project = project;
    }
    begin(project->watch);
}
