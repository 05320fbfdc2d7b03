/*
 * Changes one setting in a project's file. The file stays what its author wrote, but for that one
 * value; it has to be a project without errors before and after, so nothing else can be made of it,
 * nor of a file that somebody puts in its place.
 */
#include "project/internal.h"

#include "config/edit.h"

#include <errno.h>

#define PATH_MAX_KEYS 48

struct change {
    const char *agent_path, *plugin;
    const char *const *keys;
    size_t key_count;
    const struct kg_node *value;
};

static const struct project_agent *agent_find(const struct project *project, const char *path)
{
    for (size_t i = 0; i < project->agent_count; i++)
        if (strcmp(project->agents[i].path, path) == 0)
            return &project->agents[i];
    return NULL;
}

static struct project *read_text(const struct kg_buf *text, const char *when, struct kg_err *err)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct project *project = project_read(kg_buf_view(text), &problems);
    if (project == NULL)
        project_problems_fail(&problems, when, err);
    return project;
}

static int check_declared(const struct kg_buf *text, const struct change *change,
                          struct kg_err *err)
{
    int result = 0;
    struct project *project = read_text(text, "as it is", err);
    if (project == NULL)
        return -EINVAL;
    const struct project_agent *agent = agent_find(project, change->agent_path);
    if (agent == NULL) {
        result =
            kg_fail(err, KG_E_NOT_FOUND, "the project has no agent %.200s", change->agent_path);
    } else if (project_declaration_find(agent, kg_str(change->plugin)) == NULL) {
        result = kg_fail(err, KG_E_NOT_FOUND, "%.200s declares no plugin \"%.64s\"",
                         change->agent_path, change->plugin);
        kg_hint(err, "a setting is changed where the plugin is declared");
    }
    project_free(project);
    return result;
}

/* The keys from the root to the setting; borrowed from `parts` and the change. */
static int path_of(const struct change *change, char *parts, const char *path[PATH_MAX_KEYS],
                   size_t *ret_count, struct kg_err *err)
{
    size_t count = 0;
    char *rest = NULL;
    bool isolation = change->key_count == 1 && strcmp(change->keys[0], "isolation") == 0;
    for (char *part = strtok_r(parts, ".", &rest); part != NULL && count < PATH_MAX_KEYS;
         part = strtok_r(NULL, ".", &rest))
        path[count++] = part;
    if (change->key_count == 0 || count + 3 + change->key_count > PATH_MAX_KEYS)
        return kg_fail(err, KG_E_USAGE, "a setting has 1 to %zu keys", PATH_MAX_KEYS - count - 3);
    path[count++] = "plugins";
    path[count++] = change->plugin;
    if (!isolation) /* the declaration's own, which counts more than what its configuration says */
        path[count++] = "config";
    for (size_t i = 0; i < change->key_count; i++)
        path[count++] = change->keys[i];
    *ret_count = count;
    return 0;
}

static int apply(struct kg_buf *text, void *data, struct kg_err *err)
{
    const struct change *change = data;
    const char *path[PATH_MAX_KEYS];
    size_t count = 0;
    kg_auto(kg_free) char *parts = kg_strdup(change->agent_path);
    kg_auto(kg_buf_free) struct kg_buf edited = {0};
    int result = check_declared(text, change, err);
    if (result == 0)
        result = path_of(change, parts, path, &count, err);
    if (result < 0)
        return result;
    kg_buf_str(&edited, kg_buf_view(text));
    result = change->value ? edit_yaml_set(&edited, path, count, change->value, err)
                           : edit_yaml_remove(&edited, path, count, err);
    if (result < 0)
        return result;
    struct project *project = read_text(&edited, "after the change", err);
    if (project == NULL)
        return -EINVAL;
    project_free(project);
    struct kg_buf old = *text;
    *text = edited;
    edited = old;
    return 0;
}

int project_edit_config(struct kg_buf *text, const char *agent_path, const char *plugin,
                        const char *const *keys, size_t key_count, const struct kg_node *value,
                        struct kg_err *err)
{
    struct change change = {agent_path, plugin, keys, key_count, value};
    return apply(text, &change, err);
}

int project_set_config(const struct project_location *location, const char *agent_path,
                       const char *plugin, const char *const *keys, size_t key_count,
                       const struct kg_node *value, struct kg_err *err)
{
    struct change change = {agent_path, plugin, keys, key_count, value};
    kg_auto(kg_close) int root = project_root_open(location->root, err);
    int result = root < 0 ? root : project_check_plain(root, location->file, err);
    if (result == 0)
        result = edit_file(location->path, apply, &change, err);
    return result < 0 ? kg_wrap(err, result, "%s", location->path) : 0;
}
