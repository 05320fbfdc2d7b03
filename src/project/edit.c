/*
 * Changes one setting in a project's file, declares a plugin in it, or begins one. The file stays
 * what its author wrote, but for that one value; it has to be a project without errors before and
 * after, so nothing else can be made of it, nor of a file that somebody puts in its place.
 */
#include "project/internal.h"

#include "config/edit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

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

static struct project *edit_read_text(const struct kg_buf *text, const char *when,
                                      struct kg_err *err)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct project *project = project_read(kg_buf_view(text), &problems);
    if (project == NULL)
        project_problems_fail(&problems, when, err);
    return project;
}

static int edit_check_declared(const struct kg_buf *text, const struct change *change,
                               struct kg_err *err)
{
    int result = 0;
    struct project *project = edit_read_text(text, "as it is", err);
    if (project == NULL)
        return -EINVAL;
    const struct project_agent *agent = agent_find(project, change->agent_path);
    if (agent == NULL) {
        result = kg_fail(err, KG_E_NOT_FOUND, "the project has no agent %" KG_S_PATH,
                         change->agent_path);
    } else if (project_declaration_find(agent, kg_str(change->plugin)) == NULL) {
        result =
            kg_fail(err, KG_E_NOT_FOUND, "%" KG_S_PATH " declares no plugin \"%" KG_S_NAME "\"",
                    change->agent_path, change->plugin);
        kg_hint(err, "a setting is changed where the plugin is declared");
    }
    project_free(project);
    return result;
}

/* The keys from the root to the agent; borrowed from `parts`. */
static size_t agent_keys(char *parts, const char *path[PATH_MAX_KEYS])
{
    size_t count = 0;
    char *rest = NULL;
    for (char *part = strtok_r(parts, ".", &rest); part != NULL && count < PATH_MAX_KEYS;
         part = strtok_r(NULL, ".", &rest))
        path[count++] = part;
    return count;
}

/* The keys from the root to the setting; borrowed from `parts` and the change. */
static int edit_path_of(const struct change *change, char *parts, const char *path[PATH_MAX_KEYS],
                        size_t *ret_count, struct kg_err *err)
{
    size_t count = agent_keys(parts, path);
    bool isolation = change->key_count == 1 && strcmp(change->keys[0], "isolation") == 0;
    if (change->key_count == 0 || count + 3 + change->key_count > PATH_MAX_KEYS)
        return kg_fail(err, KG_E_USAGE, "a setting must have 1 to %zu keys",
                       PATH_MAX_KEYS - count - 3);
    path[count++] = "plugins";
    path[count++] = change->plugin;
    if (!isolation) /* the declaration's own, which counts more than what its configuration says */
        path[count++] = "config";
    for (size_t i = 0; i < change->key_count; i++)
        path[count++] = change->keys[i];
    *ret_count = count;
    return 0;
}

/* The edited text takes the place of the other, if it is a project's. */
static int take_edited(struct kg_buf *text, struct kg_buf *edited, struct kg_err *err)
{
    struct project *project = edit_read_text(edited, "after the change", err);
    if (project == NULL)
        return -EINVAL;
    project_free(project);
    struct kg_buf old = *text;
    *text = *edited;
    *edited = old;
    return 0;
}

static int edit_apply(struct kg_buf *text, void *data, struct kg_err *err)
{
    const struct change *change = data;
    const char *path[PATH_MAX_KEYS];
    size_t count = 0;
    kg_auto(kg_free) char *parts = kg_strdup(change->agent_path);
    kg_auto(kg_buf_free) struct kg_buf edited = {0};
    int result = edit_check_declared(text, change, err);
    if (result == 0)
        result = edit_path_of(change, parts, path, &count, err);
    if (result < 0)
        return result;
    kg_buf_str(&edited, kg_buf_view(text));
    result = change->value ? edit_yaml_set(&edited, path, count, change->value, err)
                           : edit_yaml_remove(&edited, path, count, err);
    return result < 0 ? result : take_edited(text, &edited, err);
}

int project_edit_config(struct kg_buf *text, const char *agent_path, const char *plugin,
                        const char *const *keys, size_t key_count, const struct kg_node *value,
                        struct kg_err *err)
{
    struct change change = {agent_path, plugin, keys, key_count, value};
    return edit_apply(text, &change, err);
}

int project_set_config(const struct project_location *location, const char *agent_path,
                       const char *plugin, const char *const *keys, size_t key_count,
                       const struct kg_node *value, struct kg_err *err)
{
    struct change change = {agent_path, plugin, keys, key_count, value};
    kg_auto(kg_close) int root = project_root_open(location->root, err);
    int result = root < 0 ? root : project_check_plain(root, location->file, err);
    if (result == 0)
        result = edit_file(location->path, edit_apply, &change, err);
    return result < 0 ? kg_wrap(err, result, "%s", location->path) : 0;
}

/* -- adding a plugin --------------------------------------------------------------------------- */

struct addition {
    const char *agent_path, *package;
};

static int check_addition(const struct kg_buf *text, const struct addition *addition,
                          struct kg_str name, struct kg_err *err)
{
    int result = 0;
    struct project *project = edit_read_text(text, "as it is", err);
    if (project == NULL)
        return -EINVAL;
    const struct project_agent *agent = agent_find(project, addition->agent_path);
    if (agent == NULL)
        result = kg_fail(err, KG_E_NOT_FOUND, "the project has no agent %" KG_S_PATH,
                         addition->agent_path);
    for (size_t i = 0; agent != NULL && result == 0 && i < agent->declaration_count; i++)
        if (kg_str_is(name, agent->declarations[i].name) ||
            kg_same_text(agent->declarations[i].package, addition->package))
            result = kg_fail(err, KG_E_CONFLICT, "%" KG_S_PATH " already has the plugin %.*s",
                             addition->agent_path, KG_STR_ARG(name));
    project_free(project);
    return result;
}

static int edit_add(struct kg_buf *text, void *data, struct kg_err *err)
{
    const struct addition *addition = data;
    struct kg_str name = manifest_package_name(kg_str(addition->package));
    kg_auto(kg_free) char *parts = kg_strdup(addition->agent_path), *key = kg_str_dup(name);
    kg_auto(kg_buf_free) struct kg_buf edited = {0}, json = {0};
    const char *path[PATH_MAX_KEYS];
    struct kg_json_writer writer = kg_json_writer(&json);
    int result = check_addition(text, addition, name, err);
    if (result < 0)
        return result;
    kg_json_begin(&writer, '{');
    kg_json_named_text(&writer, "package", addition->package);
    kg_json_end(&writer, '}');
    kg_auto(kg_doc_cleanup) struct kg_doc *value = kg_json_read(kg_buf_view(&json), err);
    size_t count = agent_keys(parts, path);
    if (value == NULL || count + 2 > PATH_MAX_KEYS)
        return -EINVAL;
    path[count++] = "plugins";
    path[count++] = key;
    kg_buf_str(&edited, kg_buf_view(text));
    result = edit_yaml_set(&edited, path, count, value->root, err);
    return result < 0 ? result : take_edited(text, &edited, err);
}

/* Another file could be put in its place, also by root; but who took his right away meant it. */
static int edit_check_writable(const char *path, struct kg_err *err)
{
    struct stat there;
    if (stat(path, &there) < 0)
        return kg_fail_errno(err, errno, "stat it");
    if ((there.st_mode & 0200) != 0 && access(path, W_OK) == 0)
        return 0;
    kg_fail(err, KG_E_REFUSED, "the file is read-only");
    return kg_hint(err, "chmod u+w %" KG_S_PATH, path);
}

int project_add_plugin(const struct project_location *location, const char *agent_path,
                       const char *package, struct kg_err *err)
{
    struct addition addition = {agent_path, package};
    kg_auto(kg_close) int root = project_root_open(location->root, err);
    int result = root < 0 ? root : project_check_plain(root, location->file, err);
    if (result == 0)
        result = edit_check_writable(location->path, err);
    if (result == 0)
        result = edit_file(location->path, edit_add, &addition, err);
    return result < 0 ? kg_wrap(err, result, "%s", location->path) : 0;
}

/* -- naming a model ---------------------------------------------------------------------------- */

struct naming {
    const char *agent_path, *alias;
};

static int name_model(struct kg_buf *text, void *data, struct kg_err *err)
{
    const struct naming *naming = data;
    const struct kg_node value = {.type = KG_STRING, .text = kg_str(naming->alias)};
    kg_auto(kg_free) char *parts = kg_strdup(naming->agent_path);
    kg_auto(kg_buf_free) struct kg_buf edited = {0};
    const char *path[PATH_MAX_KEYS];
    size_t count = agent_keys(parts, path);
    if (count + 1 > PATH_MAX_KEYS)
        return kg_fail(err, KG_E_NOT_FOUND, "the project has no agent %" KG_S_PATH,
                       naming->agent_path);
    path[count++] = "model";
    kg_buf_str(&edited, kg_buf_view(text));
    int result = edit_yaml_set(&edited, path, count, &value, err);
    return result < 0 ? result : take_edited(text, &edited, err);
}

int project_set_model(const struct project_location *location, const char *agent_path,
                      const char *alias, struct kg_err *err)
{
    struct naming naming = {agent_path, alias};
    kg_auto(kg_close) int root = project_root_open(location->root, err);
    int result = root < 0 ? root : project_check_plain(root, location->file, err);
    if (result == 0)
        result = edit_check_writable(location->path, err);
    if (result == 0)
        result = edit_file(location->path, name_model, &naming, err);
    return result < 0 ? kg_wrap(err, result, "%s", location->path) : 0;
}

/* -- beginning a file -------------------------------------------------------------------------- */

#define NAME_MAX_BYTES 48

/* The folder's, as far as a project can be called by it. */
static char *name_after(const char *folder)
{
    kg_auto(kg_buf_free) struct kg_buf name = {0};
    for (const char *at = kg_path_name(folder); *at != '\0' && name.length < NAME_MAX_BYTES; at++) {
        bool letter = kg_is_letter(*at);
        if (letter || (kg_is_digit(*at) && name.length > 0))
            kg_buf_char(&name, letter ? (char)(*at | 0x20) : *at);
        else if (name.length > 0 && name.data[name.length - 1] != '-')
            kg_buf_char(&name, '-');
    }
    while (name.length > 0 && name.data[name.length - 1] == '-')
        name.length--;
    return name.length > 0 ? kg_str_dup(kg_buf_view(&name)) : kg_strdup("project");
}

static char *edit_first_text(const char *root)
{
    kg_auto(kg_free) char *name = name_after(root);
    return kg_format(
        "# The agents of this project; kaged-project.yaml(5) describes everything it can contain.\n"
        "# It is meant to be committed. Secrets are not in it, but in local.toml.\n"
        "version: 1\n"
        "name: %s\n"
        "primary:\n"
        "  # model: ALIAS   # one of [models] in local.toml\n"
        "  prompt: You are the assistant of this project.\n",
        name);
}

/* Made where nothing is, and not by a link: whoever made that wants the file elsewhere. */
static int write_new(int root, const char *text, struct kg_err *err)
{
    if (mkdirat(root, PROJECT_DIR, 0755) < 0 && errno != EEXIST)
        return kg_fail_errno(err, errno, "make the folder %s", PROJECT_DIR);
    kg_auto(kg_close) int folder =
        openat(root, PROJECT_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 && (errno == ELOOP || errno == ENOTDIR))
        return kg_fail(err, KG_E_REFUSED, "%s is a symbolic link, or not a folder", PROJECT_DIR);
    if (folder < 0)
        return kg_fail_errno(err, errno, "open the folder %s", PROJECT_DIR);
    kg_auto(kg_close) int file =
        openat(folder, PROJECT_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file < 0 && errno == EEXIST) {
        kg_fail(err, KG_E_CONFLICT, "there is already a %s/%s", PROJECT_DIR, PROJECT_FILE);
        return kg_hint(err, "kaged project add adds a plugin to it");
    }
    if (file < 0)
        return kg_fail_errno(err, errno, "make %s/%s", PROJECT_DIR, PROJECT_FILE);
    int result = kg_write_all(file, text, strlen(text));
    if (result == 0)
        return 0;
    unlinkat(folder, PROJECT_FILE, 0); /* half of it is worse than none */
    return kg_fail_errno(err, -result, "write %s/%s", PROJECT_DIR, PROJECT_FILE);
}

int project_init(const char *folder, struct project_location *ret_location, struct kg_err *err)
{
    kg_auto(project_location_free) struct project_location place = {0};
    int result = project_locate_folder(folder, &place, err);
    if (result < 0)
        return result;
    kg_auto(kg_close) int root = project_root_open(place.root, err);
    kg_auto(kg_free) char *text = edit_first_text(place.root);
    result = root < 0 ? root : write_new(root, text, err);
    if (result < 0)
        return kg_wrap(err, result, "%s", place.root);
    return project_locate(place.root, ret_location, err);
}
