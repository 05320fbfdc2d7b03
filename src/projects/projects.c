/*
 * The list of projects. One is read off the loop and taken here whole or not at all: what is wrong
 * with a file leaves the project as it was. Its id belongs to one file; a second one that claims it
 * is refused.
 */
#include "projects/internal.h"

#include <errno.h>
#include <stdlib.h>

#define LOADS_MAX 16 /* asked for at the same time */

const char *const projects_state_names[] = {"pending", "active"};

/* -- one of them ------------------------------------------------------------------------------- */

/* Of no agents, for one that was not read yet. */
static struct project_resolved *resolved_empty(const char *id)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    const struct project nothing = {.name = id};
    const struct project_world world = {0};
    return project_resolve(&nothing, &world, &problems);
}

static struct projects_entry *project_new(struct host *host, const char *id,
                                          const struct project_source *source, const char *root,
                                          const char *file)
{
    struct projects_entry *project = kg_alloc(sizeof(*project));
    project->host = host;
    project->id = kg_strdup(id);
    project->root = kg_strdup(root);
    project->file = kg_strdup(file);
    project->source = source;
    project->path = file[0] != '\0' ? kg_path_join(root, file) : kg_strdup(root);
    project->resolved = resolved_empty(id);
    project->reason = kg_strdup("it is being read");
    project->exposed = kg_map_new();
    return project;
}

static void project_destroy(struct projects_entry *project)
{
    host_watch_free(project->watch);
    project_forget_configs(project);
    project_servers_free(project->servers, project->server_count);
    project_resolved_free(project->resolved);
    project_changes_free(project->held);
    project_exposed_free(project);
    kg_problems_free(&project->problems);
    free(project->id);
    free(project->root);
    free(project->file);
    free(project->path);
    free(project->text);
    projects_packages_drop(project->packages);
    free(project->operator_id);
    free(project->reason);
    free(project);
}

struct projects_facts projects_facts(const struct projects_entry *project)
{
    return (struct projects_facts){
        .id = project->id,
        .root = project->source->has_root ? project->root : NULL,
        .source = project->source->name,
        .path = project->source->has_file ? project->path : NULL,
        .group = project_packages_group(project->packages),
        .state = project->state,
        .reason = project->reason,
        .watched = project->watched,
        .loaded_at_ms = project->loaded_ms,
        .sessions = project->sessions,
        .resolved = project->resolved,
        .problems = &project->problems,
        .held = project->held,
        .reload_problem = project->reload_problem.code != KG_OK ? &project->reload_problem : NULL,
    };
}

/* -- the list ---------------------------------------------------------------------------------- */

size_t projects_count(const struct host *host)
{
    return host_projects(host)->count;
}

struct projects_entry *projects_at(const struct host *host, size_t index)
{
    return host_projects(host)->items[index];
}

struct projects_entry *projects_find(const struct host *host, struct kg_str id, struct kg_err *err)
{
    const struct projects *projects = host_projects(host);
    for (size_t i = 0; i < projects->count; i++)
        if (kg_str_is(id, projects->items[i]->id))
            return projects->items[i];
    if (err == NULL)
        return NULL;
    kg_auto(kg_free) const char **ids = kg_alloc_array(projects->count + 1, sizeof(*ids));
    for (size_t i = 0; i < projects->count; i++)
        ids[i] = projects->items[i]->id;
    const char *nearest = kg_str_nearest(id, ids, projects->count);
    kg_fail(err, KG_E_NOT_FOUND, "there is no project \"%.*s\"", KG_STR_CUT(id, KG_CUT_NAME));
    if (nearest != NULL)
        kg_hint(err, "did you mean %s?", nearest);
    else
        kg_hint(err, "load it: kaged project load PATH");
    return NULL;
}

bool projects_are_read(const struct host *host)
{
    const struct projects *projects = host_projects(host);
    for (size_t i = 0; projects != NULL && i < projects->count; i++)
        if (!projects->items[i]->was_read && projects->items[i]->reload_problem.code == KG_OK)
            return false;
    return true;
}

void projects_when_read(struct host *host, struct kg_wait *wait,
                        void (*on_read)(struct kg_wait *wait, const struct kg_err *err))
{
    kg_wait_add(&host_projects(host)->reading, wait, on_read);
}

static void tell_if_read(struct host *host)
{
    if (host_is_stopping(host) || projects_are_read(host))
        kg_waits_tell(&host_projects(host)->reading, NULL);
}

static int projects_compare(const void *a, const void *b)
{
    return strcmp((*(struct projects_entry *const *)a)->id,
                  (*(struct projects_entry *const *)b)->id);
}

static void list_add(struct projects *projects, struct projects_entry *project)
{
    projects->items =
        kg_realloc(projects->items, (projects->count + 1) * sizeof(struct projects_entry *));
    projects->items[projects->count++] = project;
    qsort(projects->items, projects->count, sizeof(struct projects_entry *), projects_compare);
}

static void list_remove(struct projects *projects, const struct projects_entry *project)
{
    size_t index = 0;
    while (projects->items[index] != project)
        index++;
    projects->count--;
    memmove(&projects->items[index], &projects->items[index + 1],
            (projects->count - index) * sizeof(struct projects_entry *));
}

void projects_listen(struct host *host, struct projects_listener *listener)
{
    listener->next = host_projects(host)->listeners;
    host_projects(host)->listeners = listener;
}

void projects_unlisten(struct host *host, struct projects_listener *listener)
{
    KG_UNLINK(host_projects(host)->listeners, listener);
}

static void projects_tell_listeners(struct host *host, const char *id,
                                    struct projects_entry *project_or_null)
{
    for (struct projects_listener *at = host_projects(host)->listeners, *next; at != NULL;
         at = next) {
        next = at->next;
        at->on_change(at, id, project_or_null);
    }
}

/* The next thing that happens to the project waits for it, or for nothing: projects_on_kept may
 * come before this returns. */
static void projects_keep(const struct projects_entry *project, bool is_loaded,
                          state_kept_fn *on_kept, void *data)
{
    const struct state_project kept = {
        .id = project->id,
        .root = project->root,
        .file = project->file,
        .watched = project->watched,
        .operator_id = project->operator_id,
        .loaded_ms = is_loaded ? project->loaded_ms : 0,
    };
    host_projects(project->host)->jobs++;
    if (project->source->has_root)
        state_keep_project(host_keeper(project->host), &kept, on_kept, data);
    else
        on_kept(data, NULL);
}

/* -- taking what was read ---------------------------------------------------------------------- */

/* The id and the file belong together; who has one of them has both. */
static int check_identity(const struct host *host, const struct project_load *load,
                          struct kg_err *err)
{
    const char *id = project_resolved_name(load->resolved);
    for (size_t i = 0; i < host_projects(host)->count; i++) {
        const struct projects_entry *other = host_projects(host)->items[i];
        bool same_id = strcmp(other->id, id) == 0;
        bool same_file = strcmp(other->path, load->location.path) == 0;
        if (same_id == same_file)
            continue;
        if (same_file)
            kg_fail(err, KG_E_CONFLICT, "%s is loaded as %s, and calls itself %s now", other->path,
                    other->id, id);
        else
            kg_fail(err, KG_E_CONFLICT,
                    "project %s is already loaded from %s, and %s has a project of the same name",
                    id, other->root, load->location.root);
        return kg_hint(err, "kaged project unload %s, or give one of them another name", other->id);
    }
    return 0;
}

/* Those that somebody keeps in the state he bounds himself. */
static int projects_check_room(const struct project_load *load, struct kg_err *err)
{
    const struct projects *projects = host_projects(load->host);
    size_t count = 0;
    for (size_t i = 0; i < projects->count; i++)
        count += projects->items[i]->source->has_root;
    if (!load->source->has_root || count < (size_t)host_config(load->host)->limits_projects)
        return 0;
    kg_fail(err, KG_E_BUSY, "%zu projects are already loaded", count);
    return kg_hint(err, "unload one, or raise limits.projects");
}

/* What the worker made is the project's now. */
static void move_into(struct projects_entry *project, struct project_load *load)
{
    project_forget_configs(project); /* they are found by the uses */
    project_resolved_free(project->resolved);
    kg_problems_free(&project->problems);
    project->resolved = kg_steal(&load->resolved);
    project->problems = load->problems;
    load->problems = (struct kg_problems){0};
    project->reload_problem = (struct kg_err){.code = KG_OK};
    project_changes_free(kg_steal(&project->held));
    kg_replace(&project->text, load->text);
    projects_packages_drop(project->packages);
    project->packages = projects_packages_keep(load->packages);
    project->was_read = true;
}

/* It is in the list at once, so that nobody else takes its name. */
static int projects_add_new(struct project_load *load, struct kg_err *err)
{
    struct host *host = load->host;
    int result = projects_check_room(load, err);
    if (result < 0)
        return result;
    struct projects_entry *project =
        project_new(host, project_resolved_name(load->resolved), load->source, load->location.root,
                    load->location.file);
    kg_replace(&project->path, load->location.path);
    project->watched = load->watch;
    project->loaded_ms = kg_wall_ms();
    kg_replace(&project->operator_id, load->operator_id);
    list_add(host_projects(host), project);
    load->is_new = true;
    return 0;
}

/* Only a load by path says whether it is watched. */
static void note_asked(struct projects_entry *project, const struct project_load *load)
{
    if (load->kind == PROJECT_LOAD_ASKED) {
        project->watched = load->watch;
        kg_replace(&project->operator_id, load->operator_id);
    }
    project->loaded_ms = kg_wall_ms();
}

static void audit_taken(const struct projects_entry *project, const struct project_load *load)
{
    struct audit *audit = host_audit(project->host);
    size_t changes = load->changes ? load->changes->count : 0;
    if (load->is_new)
        audit_emit(audit, AUDIT_PROJECT_LOADED, KG_STR_NULL, AUDIT_V_TEXT(project->id),
                   AUDIT_V_TEXT(project->root),
                   AUDIT_V_INT((int64_t)project_resolved_count(project->resolved)),
                   AUDIT_V_INT((int64_t)project_count_uses(project->resolved)),
                   AUDIT_V_TEXT(load->operator_id));
    else if (changes > 0 || load->kind != PROJECT_LOAD_REFRESH)
        audit_emit(audit, AUDIT_PROJECT_RELOADED, KG_STR_NULL, AUDIT_V_TEXT(project->id),
                   AUDIT_V_INT((int64_t)changes), AUDIT_V_TEXT(load->operator_id));
}

/*
 * Its own folder is closed to all cages from now on, also to those that are there already. One that
 * was replaced is not the one that lies read-only in them: there the new one could be written.
 */
static void look_at_folder(struct projects_entry *project, struct project_load *load)
{
    bool is_same = project->folder.inode == load->folder.inode &&
                   project->folder.device == load->folder.device &&
                   project->folder.born_ns == load->folder.born_ns;
    bool is_known = project->folder.inode != 0;
    if (!project->source->has_root)
        return;
    kg_auto(kg_free) char *path = kg_path_join(project->root, PROJECT_DIR);
    project->folder = load->folder;
    if (!is_same || load->is_new)
        host_cover(project->host, path, is_known, &load->restarted);
}

/* Sees to all that follows from what it says now. */
static void projects_follow(struct projects_entry *project, struct project_load *load,
                            struct project_resolved *before)
{
    audit_taken(project, load);
    project_audit_resolved(project, before);
    project_ask_consents(project, load->kind != PROJECT_LOAD_REFRESH, load->operator_id);
    if (load->kind != PROJECT_LOAD_REFRESH)
        project_tell_again(project);
    project_apply(project);
    look_at_folder(project, load);
    project_watch_set(project);
    project_note_exposed(project);
    projects_tell_listeners(project->host, project->id, project);
}

static void projects_take(struct projects_entry *project, struct project_load *load)
{
    struct project_resolved *before = project->was_read ? kg_steal(&project->resolved) : NULL;
    move_into(project, load);
    if (before != NULL)
        load->changes = project_diff(before, project->resolved);
    if (load->changes != NULL && load->changes->count > 0)
        project->loaded_ms = kg_wall_ms(); /* also when nobody asked: it is watched */
    projects_follow(project, load, before);
    project_resolved_free(before);
}

/* -- what could not be taken ------------------------------------------------------------------- */

/* It goes on as it was; one that was never read has nothing to go on with. */
void project_keep_problem(struct projects_entry *project, const struct project_load *load,
                          const struct kg_err *err)
{
    bool is_news = strcmp(project->reload_problem.message, err->message) != 0;
    project->reload_problem = *err;
    if (!project->was_read) {
        project->state = PROJECTS_PENDING;
        kg_replace(&project->reason, err->message);
    }
    project_watch_set(project);
    if (!is_news && load->kind == PROJECT_LOAD_REFRESH)
        return;
    kg_log(KG_ERROR_LEVEL, "project %s stays as it is: %s", project->id, err->message);
    audit_emit(host_audit(project->host), AUDIT_PROJECT_RELOAD_FAILED, KG_STR_NULL,
               AUDIT_V_TEXT(project->id), AUDIT_V_TEXT(err->message),
               AUDIT_V_TEXT(load->operator_id));
    projects_tell_listeners(project->host, project->id, project);
}

/* The one that the load is about; NULL: none that is known. */
static struct projects_entry *projects_project_of(const struct project_load *load)
{
    const struct projects *projects = host_projects(load->host);
    if (load->id != NULL)
        return projects_find(load->host, kg_str(load->id), NULL);
    for (size_t i = 0; load->location.path != NULL && i < projects->count; i++)
        if (strcmp(projects->items[i]->path, load->location.path) == 0)
            return projects->items[i];
    return NULL;
}

/* -- a load from its start to its end ---------------------------------------------------------- */

static int check_loaded(const struct project_load *load, struct kg_err *err)
{
    if (load->err.code != KG_OK) {
        *err = load->err;
        return -EINVAL;
    }
    if (host_is_stopping(load->host))
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (load->id != NULL && projects_find(load->host, kg_str(load->id), NULL) == NULL)
        return kg_fail(err, KG_E_NOT_FOUND, "project %s was unloaded meanwhile", load->id);
    return 0;
}

static void end_refresh(struct host *host, const struct project_load *load)
{
    struct projects_entry *project =
        load->kind == PROJECT_LOAD_REFRESH ? projects_find(host, kg_str(load->id), NULL) : NULL;
    if (project == NULL)
        return;
    project->refreshing = false;
    if (project->refresh_again)
        project_refresh(project);
}

/* Says what came of it, and is done with it. */
static void projects_answer(struct project_load *load, struct projects_entry *project_or_null,
                            const struct kg_err *err_or_null)
{
    if (load->on_done != NULL && err_or_null != NULL)
        load->on_done(load->data, NULL, load->is_files_fault ? &load->problems : NULL, err_or_null);
    else if (load->on_done != NULL)
        load->on_done(load->data,
                      &(struct projects_loaded){
                          .project = project_or_null,
                          .is_new = load->is_new,
                          .changes = load->changes,
                          .restarted = load->restarted,
                      },
                      NULL, NULL);
    project_load_free(load);
}

/* The worker, and kaged.db, are done with it. */
static void projects_end(struct project_load *load, struct projects_entry *project_or_null,
                         const struct kg_err *err_or_null)
{
    struct host *host = load->host;
    struct projects_entry *known =
        err_or_null != NULL && !host_is_stopping(host) ? projects_project_of(load) : NULL;
    host_projects(host)->jobs--;
    host_projects(host)->loads -= load->kind != PROJECT_LOAD_REFRESH;
    if (known != NULL)
        project_keep_problem(known, load, err_or_null);
    if (!host_is_stopping(host))
        end_refresh(host, load);
    host_look_for_stop(host);
    projects_answer(load, project_or_null, err_or_null);
    tell_if_read(host);
}

/* What the operator let a project of that name use was for its folder only. */
static void note_folder(const struct projects_entry *project)
{
    struct host *host = project->host;
    char *before = kg_map_remove(host_projects(host)->roots, kg_str(project->id));
    if (before != NULL && strcmp(before, project->root) != 0 && host_consents(host) != NULL)
        consent_project_moved(host_consents(host), project->id);
    free(before);
    kg_map_set(host_projects(host)->roots, kg_str(project->id), kg_strdup(project->root));
}

/* A new one is taken now; of another only the answer has waited. */
static int take_kept(struct project_load *load, struct projects_entry *project,
                     const struct kg_err *err_or_null, struct kg_err *err)
{
    if (host_is_stopping(load->host))
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (project == NULL)
        return kg_fail(err, KG_E_NOT_FOUND, "project %s was unloaded meanwhile", load->id);
    if (err_or_null != NULL && !load->is_new)
        kg_log(KG_ERROR_LEVEL, "remember project %s: %s", load->id, err_or_null->message);
    if (err_or_null != NULL && load->is_new) {
        *err = *err_or_null;
        list_remove(host_projects(load->host), project);
        project_destroy(project);
        return kg_wrap(err, -EIO, "remember project %s", load->id);
    }
    if (load->is_new) {
        note_folder(project);
        projects_take(project, load);
    }
    return 0;
}

static void on_load_kept(void *data, const struct kg_err *err_or_null)
{
    struct project_load *load = data;
    struct audit *audit = host_audit(load->host);
    struct audit_request before = audit_swap_request(audit, load->request);
    struct kg_err err = {0};
    struct projects_entry *project = projects_find(load->host, kg_str(load->id), NULL);
    host_projects(load->host)->jobs--;
    int result = take_kept(load, project, err_or_null, &err);
    projects_end(load, project, result < 0 ? &err : NULL);
    audit_swap_request(audit, before);
}

static int begin_taking(struct project_load *load, struct projects_entry **ret_project,
                        struct kg_err *err)
{
    int result = check_loaded(load, err);
    if (result == 0)
        result = check_identity(load->host, load, err);
    if (result < 0)
        return result;
    kg_replace(&load->id, project_resolved_name(load->resolved));
    *ret_project = projects_find(load->host, kg_str(load->id), NULL);
    if (*ret_project != NULL)
        return 0;
    result = projects_add_new(load, err);
    *ret_project = projects_find(load->host, kg_str(load->id), NULL);
    return result;
}

static void take_read(struct project_load *load)
{
    struct projects_entry *project = NULL;
    struct kg_err err = {0};
    if (begin_taking(load, &project, &err) < 0) {
        projects_end(load, NULL, &err);
        return;
    }
    if (project_hold(project, load)) {
        projects_end(load, project, NULL);
        return;
    }
    if (load->kind != PROJECT_LOAD_REFRESH && !load->is_new)
        note_asked(project, load);
    if (!load->is_new)
        projects_take(project, load);
    if (load->kind != PROJECT_LOAD_REFRESH)
        projects_keep(project, true, on_load_kept, load);
    else
        projects_end(load, project, NULL);
}

static void projects_on_read(struct loop_job *job)
{
    struct project_load *load = KG_CONTAINER(job, struct project_load, job);
    struct audit *audit = host_audit(load->host);
    struct audit_request before = audit_swap_request(audit, load->request);
    take_read(load);
    audit_swap_request(audit, before);
}

static void projects_begin(struct project_load *load)
{
    struct projects *projects = host_projects(load->host);
    projects->jobs++;
    projects->loads += load->kind != PROJECT_LOAD_REFRESH;
    load->job.run = project_load_run;
    load->job.done = projects_on_read;
    loop_worker_submit(projects->worker, &load->job);
}

static void projects_on_failed(struct loop_task *task)
{
    struct project_load *load = KG_CONTAINER(task, struct project_load, task);
    KG_UNLINK(host_projects(load->host)->failed, load);
    projects_answer(load, NULL, &load->err);
}

/* Never before the caller has returned. */
static void projects_fail_later(struct project_load *load)
{
    load->next = host_projects(load->host)->failed;
    host_projects(load->host)->failed = load;
    load->task.run = projects_on_failed;
    loop_defer(host_loop(load->host), &load->task);
}

static int check_begin(const struct project_load *load, struct kg_err *err)
{
    const struct host *host = load->host;
    const char *path = load->path;
    if (host_is_stopping(host))
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (path[0] != '/' && (load->source == NULL || load->source->has_root)) {
        kg_fail(err, KG_E_USAGE, "project %" KG_S_PATH ": the path does not start with /", path);
        return kg_hint(err, "the daemon runs in another folder than you: write an absolute path");
    }
    if (host_projects(host)->loads < LOADS_MAX)
        return 0;
    kg_fail(err, KG_E_BUSY, "%d projects are already being read", LOADS_MAX);
    return kg_hint(err, "try again when one of them is done");
}

static void projects_ask(struct project_load *load, const char *operator_id, projects_fn *on_done,
                         void *data)
{
    kg_replace(&load->operator_id, operator_id);
    load->on_done = on_done;
    load->data = data;
    if (load->err.code != KG_OK || check_begin(load, &load->err) < 0)
        projects_fail_later(load);
    else
        projects_begin(load);
}

void projects_load(struct host *host, const char *path, bool watch, const char *operator_id,
                   projects_fn *on_done, void *data)
{
    struct project_load *load = project_load_new(host, PROJECT_LOAD_ASKED, path, NULL);
    load->watch = watch;
    projects_ask(load, operator_id, on_done, data);
}

void projects_load_text(struct host *host, const char *id, struct kg_str text,
                        struct projects_packages *packages_or_null, const char *operator_id,
                        projects_fn *on_done, void *data)
{
    kg_auto(kg_free) char *path = kg_format("state:%s", id);
    struct project_load *load = project_load_new(host, PROJECT_LOAD_ASKED, path, packages_or_null);
    load->source = &project_state_source;
    load->text = kg_str_dup(text);
    projects_ask(load, operator_id, on_done, data);
}

void projects_reload(struct host *host, struct kg_str id, const char *operator_id,
                     projects_fn *on_done, void *data)
{
    struct kg_err err = {0};
    const struct projects_entry *project = projects_find(host, id, &err);
    struct project_load *load = project_load_new(
        host, PROJECT_LOAD_AGAIN, project ? project->path : "", project ? project->packages : NULL);
    load->source = project ? project->source : NULL;
    load->text = project ? kg_strdup(project->text) : NULL;
    load->err = err;
    load->id = kg_str_dup(id);
    projects_ask(load, operator_id, on_done, data);
}

void project_refresh(struct projects_entry *project)
{
    if (host_is_stopping(project->host))
        return;
    project->refresh_again = project->refreshing;
    if (project->refreshing)
        return;
    project->refreshing = true;
    struct project_load *load =
        project_load_new(project->host, PROJECT_LOAD_REFRESH, project->path, project->packages);
    load->source = project->source;
    load->text = kg_strdup(project->text);
    load->id = kg_strdup(project->id);
    projects_begin(load);
}

/* Off the loop. */
static void refresh_all(struct projects *projects)
{
    for (size_t i = 0; i < projects->count; i++) {
        project_forget_configs(projects->items[i]); /* secrets may be others now */
        project_refresh(projects->items[i]);
    }
}

/* One that is pending may have waited for just that. */
static void follow_choices(struct projects *projects)
{
    for (size_t i = 0; i < projects->count; i++)
        if (projects->items[i]->source->follows_choices ||
            projects->items[i]->state == PROJECTS_PENDING)
            project_refresh(projects->items[i]);
}

/* -- unloading --------------------------------------------------------------------------------- */

struct unloading {
    struct host *host;
    char *id, *operator_id; /* owned */
    struct audit_request request;
    host_acted_fn *on_done;
    void *data;
};

static void unload(struct projects_entry *project, const char *operator_id)
{
    struct host *host = project->host;
    if (host_consents(host) != NULL)
        consent_forget_project(host_consents(host), project->id);
    list_remove(host_projects(host), project);
    project_withdraw(project);
    audit_emit(host_audit(host), AUDIT_PROJECT_UNLOADED, KG_STR_NULL, AUDIT_V_TEXT(project->id),
               AUDIT_V_INT((int64_t)project->sessions), AUDIT_V_TEXT(operator_id));
    projects_tell_listeners(host, project->id, NULL);
    loop_defer(host_loop(host), &host_projects(host)->settle_check);
    project_destroy(project);
    tell_if_read(host);
}

static void on_unload_kept(void *data, const struct kg_err *err_or_null)
{
    struct unloading *unloading = data;
    struct host *host = unloading->host;
    struct kg_err err = {0};
    struct projects_entry *project = NULL;
    host_projects(host)->jobs--;
    if (err_or_null != NULL) {
        err = *err_or_null;
        kg_wrap(&err, 0, "forget project %s", unloading->id);
    } else {
        project = projects_find(host, kg_str(unloading->id), &err);
    }
    struct audit_request before = audit_swap_request(host_audit(host), unloading->request);
    if (project != NULL)
        unload(project, unloading->operator_id);
    audit_swap_request(host_audit(host), before);
    host_look_for_stop(host);
    unloading->on_done(unloading->data, err.code != KG_OK ? &err : NULL);
    free(unloading->id);
    free(unloading->operator_id);
    free(unloading);
}

static int check_unload(const struct projects_entry *project, bool force, struct kg_err *err)
{
    if (project->sessions == 0 || force)
        return 0;
    kg_fail(err, KG_E_CONFLICT, "project %s has %zu session(s)", project->id, project->sessions);
    return kg_hint(err, "close them first, or use --force");
}

void projects_unload(struct host *host, struct kg_str id, bool force, const char *operator_id,
                     host_acted_fn *on_done, void *data)
{
    struct kg_err err = {0};
    struct projects_entry *project = projects_find(host, id, &err);
    if (project == NULL || check_unload(project, force, &err) < 0) {
        on_done(data, &err);
        return;
    }
    struct unloading *unloading = kg_alloc(sizeof(*unloading));
    *unloading = (struct unloading){host,
                                    kg_strdup(project->id),
                                    kg_strdup(operator_id),
                                    audit_request(host_audit(host)),
                                    on_done,
                                    data};
    projects_keep(project, false, on_unload_kept, unloading);
}

/* -- from the daemon's start to its end -------------------------------------------------------- */

static void projects_on_consent(struct consent_listener *listener, struct consent *consent)
{
    struct projects *projects = KG_CONTAINER(listener, struct projects, consents);
    const char *id = consent_project(consent);
    if (id == NULL || !consent_state_is_settled(consent_state(consent)))
        return;
    for (size_t i = 0; i < projects->count; i++)
        if (strcmp(projects->items[i]->id, id) == 0)
            project_refresh(projects->items[i]);
}

static void projects_on_kept(void *data, const struct state_project *kept)
{
    struct projects *projects = data;
    kg_map_set(projects->roots, kg_str(kept->id), kg_strdup(kept->root));
    if (kept->loaded_ms == 0)
        return; /* it was unloaded */
    struct projects_entry *project = project_new(
        projects->host, kept->id, project_source_kept(kept->file), kept->root, kept->file);
    project->watched = kept->watched;
    project->loaded_ms = kept->loaded_ms;
    kg_replace(&project->operator_id, kept->operator_id);
    list_add(projects, project);
}

/* Reads those that are known. */
static void projects_start(struct projects *projects)
{
    struct kg_err err;
    if (state_projects(state_keeper_state(host_keeper(projects->host)), projects_on_kept, projects,
                       &err) < 0)
        kg_log(KG_ERROR_LEVEL, "projects: %s", err.message);
    project_exposed_read(projects);
    projects->consents.on_change = projects_on_consent;
    consent_listen(host_consents(projects->host), &projects->consents);
    refresh_all(projects);
}

static bool projects_is_busy(const struct projects *projects)
{
    return projects->jobs > 0;
}

static void projects_stop(struct projects *projects)
{
    atomic_store(&projects->closing, true);
    for (size_t i = 0; i < projects->count; i++)
        host_watch_free(kg_steal(&projects->items[i]->watch));
    loop_defer(host_loop(projects->host), &projects->settle_check);
    tell_if_read(projects->host);
}

static void end_work(struct projects *projects)
{
    atomic_store(&projects->closing, true);
    loop_worker_free(kg_steal(&projects->worker));
    while (projects->failed != NULL) {
        loop_undefer(host_loop(projects->host), &projects->failed->task);
        projects_on_failed(&projects->failed->task);
    }
}

static void roots_free(struct kg_map *roots)
{
    struct kg_str id;
    void *root;
    for (size_t at = 0; kg_map_next(roots, &at, &id, &root);)
        free(root);
    kg_map_free(roots);
}

static void projects_free(struct projects *projects)
{
    size_t count = projects->count;
    projects->count = 0; /* callers told now that their plugin is gone find none */
    project_tools_end(projects);
    project_knobs_end(projects);
    project_waiters_close(projects);
    for (size_t i = 0; i < count; i++)
        project_destroy(projects->items[i]);
    roots_free(projects->roots);
    kg_map_free(projects->awake);
    free(projects->items);
    free(projects);
}

static void projects_on_gone(struct projects *projects, struct host_process *process)
{
    project_hooks_end(projects, process);
    project_tools_look(projects, process);
    project_knobs_look(projects);
    if (projects->settling.first != NULL)
        loop_defer(host_loop(projects->host), &projects->settle_check);
}

static void tell_roots(const struct projects *projects,
                       void (*on_root)(void *data, const char *root), void *data)
{
    for (size_t i = 0; i < projects->count; i++)
        if (projects->items[i]->source->has_root)
            on_root(data, projects->items[i]->root);
}

void projects_open(struct host *host)
{
    static const struct host_project_ops ops = {
        .start = projects_start,
        .stop = projects_stop,
        .busy = projects_is_busy,
        .close = end_work,
        .free = projects_free,
        .refresh = refresh_all,
        .chosen = follow_choices,
        .look_again = projects_look_again,
        .put_users = projects_put_users,
        .hold = projects_hold,
        .want = projects_want,
        .config = projects_config,
        .put = projects_put,
        .roots = tell_roots,
        .sessions = projects_sessions,
        .moved = projects_moved,
        .gone = projects_on_gone,
    };
    struct projects *projects = kg_alloc(sizeof(*projects));
    projects->host = host;
    projects->worker = loop_worker_new(host_loop(host), "kaged-projects");
    projects->roots = kg_map_new();
    projects->awake = kg_map_new();
    project_waiters_open(projects);
    host_set_projects(host, &ops, projects);
}
