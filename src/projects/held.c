/*
 * A change that a plugin may have made waits for the operator. Nobody asked for it to be read: the
 * file is watched, and what it tells agents would count at once. So if a process that runs, or ran,
 * may write the file that a change comes from, the project stays as it is and shows the difference
 * until it is read again by the operator's word. What such prompts were is kept for the next
 * daemon: a change that waits, or that was made when this one ended, waits there, too.
 */
#include "projects/internal.h"

#include <stdlib.h>

/* What no file of the project says: these follow from what is installed. */
static bool is_of_plugins(enum project_change_kind kind)
{
    return kind == PROJECT_CHANGE_VERSION || kind == PROJECT_CHANGE_STATE ||
           kind == PROJECT_CHANGE_TOOL;
}

static bool may_be_theirs(const struct projects_entry *project,
                          const struct project_resolved *resolved,
                          const struct project_change *change, char ***writers)
{
    const struct project_resolved_agent *agent =
        change->kind == PROJECT_CHANGE_PROMPT
            ? project_resolved_find(resolved, kg_str(change->agent))
            : NULL;
    if (agent == NULL || agent->prompt_file == NULL)
        return host_could_write(project->host, project->path, writers);
    kg_auto(kg_free) char *path = kg_path_join(project->root, agent->prompt_file);
    return host_could_write(project->host, path, writers);
}

/* Where a prompt was, and where it is now, may be two files. */
static bool is_held(const struct projects_entry *project, const struct project_load *load,
                    const struct project_changes *changes, char ***writers)
{
    bool held = false;
    for (size_t i = 0; i < changes->count; i++) {
        const struct project_change *change = &changes->items[i];
        if (is_of_plugins(change->kind))
            continue;
        held |= may_be_theirs(project, project->resolved, change, writers);
        held |= may_be_theirs(project, load->resolved, change, writers);
    }
    return held;
}

static void held_say(const struct projects_entry *project, char *const *writers, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf names = {0};
    for (size_t i = 0; writers[i] != NULL; i++)
        kg_buf_printf(&names, "%s%s", i > 0 ? ", " : "", writers[i]);
    kg_fail(err, KG_E_REFUSED, "a change waits for your approval: %" KG_S_PATH " may have made it",
            kg_buf_terminate(&names));
    kg_hint(err, "look at it: kaged project show %s; take it: kaged project reload %s", project->id,
            project->id);
}

/* -- over a restart of the daemon -------------------------------------------------------------- */

static void hash_prompt(const struct project_resolved_agent *agent, char ret_hash[STORE_HASH_TEXT])
{
    store_hash_text(kg_str(agent->prompt ? agent->prompt : ""), ret_hash);
}

static void held_on_kept(void *data, const struct kg_err *err_or_null)
{
    (void)data;
    if (err_or_null != NULL)
        kg_log(KG_ERROR_LEVEL, "remember the prompts of projects: %s", err_or_null->message);
}

static void held_remember(struct projects_entry *project, const char *file, const char *hash)
{
    const struct state_prompt prompt = {project->id, file, hash};
    free(kg_map_remove(project->exposed, kg_str(file)));
    kg_map_set(project->exposed, kg_str(file), kg_strdup(hash));
    state_keep_prompt(host_keeper(project->host), &prompt, held_on_kept, NULL);
}

static bool is_exposed(const struct projects_entry *project, const char *file)
{
    kg_auto(kg_free) char *path = kg_path_join(project->root, file);
    char **writers = kg_list_new(0);
    bool could = host_could_write(project->host, path, &writers);
    kg_list_free(writers);
    return could;
}

void project_note_exposed(struct projects_entry *project)
{
    for (size_t i = 0; project->was_read && i < project_resolved_count(project->resolved); i++) {
        const struct project_resolved_agent *agent = project_resolved_at(project->resolved, i);
        char hash[STORE_HASH_TEXT];
        if (agent->prompt_file == NULL)
            continue;
        const char *known = kg_map_get(project->exposed, kg_str(agent->prompt_file));
        hash_prompt(agent, hash);
        if (known == NULL ? is_exposed(project, agent->prompt_file) : strcmp(known, hash) != 0)
            held_remember(project, agent->prompt_file, hash);
    }
}

static void held_add_kept(void *data, const struct state_prompt *prompt)
{
    struct projects *projects = data;
    for (size_t i = 0; i < projects->count; i++)
        if (strcmp(projects->items[i]->id, prompt->project) == 0)
            kg_map_set(projects->items[i]->exposed, kg_str(prompt->path), kg_strdup(prompt->hash));
}

void project_exposed_read(struct projects *projects)
{
    struct kg_err err = {0};
    struct state *state = state_keeper_state(host_keeper(projects->host));
    if (state_prompts(state, held_add_kept, projects, &err) < 0)
        kg_log(KG_ERROR_LEVEL, "projects: %s", err.message);
}

void project_exposed_free(struct projects_entry *project)
{
    struct kg_str file;
    void *hash;
    for (size_t at = 0; kg_map_next(project->exposed, &at, &file, &hash);)
        free(hash);
    kg_map_free(project->exposed);
}

/*
 * Whether a prompt is another than the daemon before this one took, in a file that a plugin of its
 * could write: the last act of a plugin may have been that.
 */
static bool hold_from_before(struct projects_entry *project, const struct project_load *load)
{
    for (size_t i = 0; i < project_resolved_count(load->resolved); i++) {
        const struct project_resolved_agent *agent = project_resolved_at(load->resolved, i);
        const char *known =
            agent->prompt_file ? kg_map_get(project->exposed, kg_str(agent->prompt_file)) : NULL;
        char hash[STORE_HASH_TEXT];
        struct kg_err err = {0};
        hash_prompt(agent, hash);
        if (known == NULL || strcmp(known, hash) == 0)
            continue;
        kg_fail(&err, KG_E_REFUSED,
                "a change waits for your approval: %" KG_S_PATH
                " is not what it was before the daemon was "
                "started, and a plugin could write it",
                agent->prompt_file);
        kg_hint(&err, "look at the file, then: kaged project reload %s", project->id);
        project_keep_problem(project, load, &err);
        return true;
    }
    return false;
}

bool project_hold(struct projects_entry *project, struct project_load *load)
{
    struct kg_err err = {0};
    if (load->kind != PROJECT_LOAD_REFRESH || !project->source->has_file)
        return false;
    if (!project->was_read)
        return hold_from_before(project, load);
    struct project_changes *changes = project_diff(project->resolved, load->resolved);
    char **writers = kg_list_new(0);
    bool held = is_held(project, load, changes, &writers);
    if (held) {
        held_say(project, writers, &err);
        project_changes_free(project->held);
        project->held = kg_steal(&changes);
        project_keep_problem(project, load, &err);
    }
    kg_list_free(writers);
    project_changes_free(changes);
    return held;
}
