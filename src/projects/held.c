/*
 * A change that a plugin may have made waits for the operator. Nobody asked for it to be read: the
 * file is watched, and what it tells agents would count at once. So if a process that runs, or ran,
 * may write the file that a change comes from, the project stays as it is and shows the difference
 * until it is read again by the operator's word.
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

static void say(const struct projects_entry *project, char *const *writers, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf names = {0};
    for (size_t i = 0; writers[i] != NULL; i++)
        kg_buf_printf(&names, "%s%s", i > 0 ? ", " : "", writers[i]);
    kg_fail(err, KG_E_REFUSED, "a change waits for your yes: %.200s may have made it",
            kg_buf_terminate(&names));
    kg_hint(err, "look at it: kaged project show %s; take it: kaged project reload %s", project->id,
            project->id);
}

bool project_hold(struct projects_entry *project, struct project_load *load)
{
    struct kg_err err = {0};
    if (load->kind != PROJECT_LOAD_REFRESH || !project->was_read || !project->source->has_file)
        return false;
    struct project_changes *changes = project_diff(project->resolved, load->resolved);
    char **writers = kg_list_new(0);
    bool held = is_held(project, load, changes, &writers);
    if (held) {
        say(project, writers, &err);
        project_changes_free(project->held);
        project->held = kg_steal(&changes);
        project_keep_problem(project, load, &err);
    }
    kg_list_free(writers);
    project_changes_free(changes);
    return held;
}
