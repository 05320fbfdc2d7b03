/*
 * kaged project validate, init and add: what is wrong with a project's file, for its author, and
 * what he need not write by hand. None of them needs a daemon; one that runs is told.
 */
#include "cli/cli.h"

#include "cli/install.h"
#include "cli/rows.h"
#include "project/project.h"
#include "store/store.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* -- what is installed here -------------------------------------------------------------------- */

struct installed {
    struct manifest **manifests; /* owned, each */
    size_t count;
    struct local *local;
};

static void installed_free(struct installed *installed)
{
    for (size_t i = 0; i < installed->count; i++)
        manifest_free(installed->manifests[i]);
    free(installed->manifests);
    local_free(installed->local);
}

/* A plugin whose manifest is wrong is not there for projects; plugin validate says why. */
static void add_plugin(struct installed *installed, struct store *store, const char *name)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_free) char *dir = store_place(store, name);
    struct manifest *manifest = manifest_load(dir, &problems);
    if (manifest == NULL)
        return;
    installed->manifests =
        kg_realloc(installed->manifests, (installed->count + 1) * sizeof(struct manifest *));
    installed->manifests[installed->count++] = manifest;
}

static int add_plugins(struct installed *installed, const struct cli *cli, const char *folder,
                       struct kg_err *err)
{
    const struct store_parts parts = {.paths = &cli->paths, .plugins_dir = folder};
    if (access(folder, F_OK) < 0 && errno == ENOENT)
        return 0;
    struct store *store = store_new(&parts);
    char **names = store_names(store, err);
    for (char **name = names; name != NULL && *name != NULL; name++)
        add_plugin(installed, store, *name);
    store_free(store);
    kg_list_free(names);
    return names ? 0 : -EIO;
}

static int find_installed(const struct cli *cli, struct installed *ret_installed,
                          struct kg_err *err)
{
    struct config *config = config_load(cli->paths.config_file, err);
    if (config == NULL)
        return -EINVAL;
    const char *folder = config_plugins_dir(config, &cli->paths);
    int result = add_plugins(ret_installed, cli, folder, err);
    config_free(config);
    if (result < 0)
        return result;
    ret_installed->local = local_load(cli->paths.local_file, LOCAL_LEAVE, err);
    return ret_installed->local ? 0 : -EINVAL;
}

static int cli_project_resolve(const struct cli *cli, const struct project *project,
                               struct kg_problems *problems, struct project_resolved **ret_resolved,
                               struct kg_err *err)
{
    kg_auto(installed_free) struct installed installed = {0};
    int result = find_installed(cli, &installed, err);
    if (result < 0)
        return result;
    const struct project_world world = {(const struct manifest *const *)installed.manifests,
                                        installed.count, installed.local};
    *ret_resolved = project_resolve(project, &world, problems);
    return 0;
}

/* -- what is shown ----------------------------------------------------------------------------- */

static void cli_project_put_json(struct kg_buf *out, const char *path,
                                 const struct kg_problems *problems,
                                 const struct project_resolved *resolved)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "path", path);
    kg_json_named_bool(&json, "valid", problems->errors == 0);
    kg_json_key(&json, "problems");
    kg_problems_json(problems, &json);
    if (resolved != NULL) {
        kg_json_key(&json, "project");
        project_view(resolved, NULL, &json);
    }
    kg_json_end(&json, '}');
    kg_buf_char(out, '\n');
}

static void cli_project_put_text(struct kg_buf *out, const char *path,
                                 const struct kg_problems *problems, const struct project *project,
                                 const struct project_resolved *resolved)
{
    bool good = project != NULL && problems->errors == 0;
    print_checked(out, path, problems, good ? project->name : NULL);
    if (resolved == NULL)
        return;
    kg_buf_char(out, '\n');
    project_words(resolved, out);
}

static int cli_project_check(const struct cli *cli, const struct project_location *location,
                             const struct project *project, struct kg_problems *problems)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct project_resolved *resolved = NULL;
    struct kg_err err;
    if (project != NULL && cli_has(cli, "installed") &&
        cli_project_resolve(cli, project, problems, &resolved, &err) < 0)
        return print_error(&err);
    if (cli->json)
        cli_project_put_json(&out, location->path, problems, resolved);
    else
        cli_project_put_text(&out, location->path, problems, project, resolved);
    print_out(&out);
    project_resolved_free(resolved);
    return problems->errors == 0 ? CLI_DONE : kg_error_row(KG_E_INVALID_PROJECT)->exit_code;
}

int cli_project_validate(struct cli *cli)
{
    kg_auto(project_location_free) struct project_location location = {0};
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct kg_err err;
    int result = project_locate(cli_argument(cli, 0), &location, &err);
    if (result < 0) {
        err.code = result == -ENOENT ? KG_E_NOT_FOUND : KG_E_INVALID_PROJECT;
        return print_error(&err);
    }
    struct project *project = project_load(&location, &problems);
    int code = cli_project_check(cli, &location, project, &problems);
    project_free(project);
    return code;
}

/* -- init and add ------------------------------------------------------------------------------ */

/* The id of the project that the daemon has of this root; owned, or NULL. */
static char *loaded_as(const struct cli *cli, const char *root)
{
    const struct client_request request = {.method = "GET", .target = "/api/v1/projects"};
    struct client_reply reply = {0};
    char *id = NULL;
    if (!door_daemon_runs(cli) || client_exchange(cli->paths.socket, &request, &reply, NULL) < 0) {
        kg_buf_free(&reply.body);
        return NULL;
    }
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&reply.body), NULL);
    const struct kg_node *projects = kg_node_list(doc ? doc->root : NULL, "projects");
    for (uint32_t i = 0; i < projects->count && id == NULL; i++)
        if (kg_str_is(kg_node_text(&projects->items[i], "root"), root))
            id = kg_str_dup(kg_node_text(&projects->items[i], "id"));
    kg_buf_free(&reply.body);
    return id;
}

/* Has the daemon read the file again; what it says of that is printed if it is an error. */
static int cli_project_tell_daemon(const struct cli *cli, const char *id, const char *file)
{
    static const struct cli_page page = {"POST", "/api/v1/projects/{0}/reload",
                                         .silence_ms = CLIENT_WAIT_FOREVER};
    return page_tell(cli, &page, &(struct page_given){.name = id, .file = file});
}

/* What was written, and whether a daemon knows. */
static int cli_project_finish(const struct cli *cli, const struct project_location *location,
                              const char *agent_or_null, const char *plugin_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_auto(kg_free) char *id = loaded_as(cli, location->root), *self = cli_self(cli);
    int code = id != NULL ? cli_project_tell_daemon(cli, id, location->path) : CLI_DONE;
    if (cli->json) {
        struct kg_json_writer json = kg_json_writer(&out);
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "file", location->path);
        kg_json_named_text(&json, "agent", agent_or_null);
        kg_json_named_text(&json, "package", plugin_or_null);
        kg_json_named_text(&json, "project_id", id);
        kg_json_end(&json, '}');
        kg_buf_char(&out, '\n');
    } else {
        if (plugin_or_null != NULL)
            kg_buf_printf(&out, "%s has the plugin %s now: %s\n", agent_or_null, plugin_or_null,
                          location->path);
        else
            kg_buf_printf(&out, "made %s\n", location->path);
        if (id != NULL && code == CLI_DONE)
            kg_buf_printf(&out, "the daemon has read it: %s project show %s\n", self, id);
        else if (id == NULL)
            kg_buf_printf(&out, "to use it: %s project load %s\n", self, location->root);
    }
    print_out(&out);
    return code;
}

int cli_project_init(struct cli *cli)
{
    const char *path = cli_argument(cli, 0);
    kg_auto(project_location_free) struct project_location location = {0};
    struct kg_err err = {0};
    if (project_init(path ? path : ".", &location, &err) < 0)
        return print_error(&err);
    return cli_project_finish(cli, &location, NULL, NULL);
}

/* The folder that has the file, or the nearest one above that has. */
static int locate_around(const char *path_or_null, struct project_location *ret_location,
                         struct kg_err *err)
{
    kg_auto(kg_free) char *at = path_or_null ? NULL : getcwd(NULL, 0);
    if (at == NULL)
        return project_locate(path_or_null ? path_or_null : ".", ret_location, err);
    for (;;) {
        int result = project_locate(at, ret_location, err);
        char *slash = strrchr(at, '/');
        if (result != -ENOENT || slash == NULL)
            return result;
        if (slash == at && at[1] == '\0') {
            kg_fail(err, KG_E_NOT_FOUND, "there is no %s/%s here, nor above", PROJECT_DIR,
                    PROJECT_FILE);
            return kg_hint(err, "kaged project init makes one");
        }
        slash[slash == at] = '\0';
    }
}

/* "primary", "primary.subagents.reader", or "reader" for short; owned. */
static char *agent_path(const char *given_or_null)
{
    if (given_or_null == NULL || strcmp(given_or_null, "primary") == 0)
        return kg_strdup("primary");
    return strchr(given_or_null, '.') != NULL ? kg_strdup(given_or_null)
                                              : kg_format("primary.subagents.%s", given_or_null);
}

/* The package of an installed plugin of that name; else what was given; owned. */
static char *cli_project_package_of(const struct cli *cli, const char *plugin, bool *ret_installed,
                                    struct kg_err *err)
{
    kg_auto(installed_free) struct installed installed = {0};
    if (!manifest_package_is_valid(kg_str(plugin))) {
        kg_fail(err, KG_E_USAGE, "\"%" KG_S_NAME "\" is not the name of a plugin, nor a package",
                plugin);
        kg_hint(err, "to install one first: kaged plugin install SOURCE");
        return NULL;
    }
    if (find_installed(cli, &installed, err) < 0)
        return NULL;
    for (size_t i = 0; i < installed.count; i++) {
        const struct manifest *manifest = installed.manifests[i];
        if (strcmp(manifest->name, plugin) == 0 || strcmp(manifest->package, plugin) == 0) {
            *ret_installed = true;
            return kg_strdup(manifest->package);
        }
    }
    return kg_strdup(plugin);
}

int cli_project_add(struct cli *cli)
{
    kg_auto(project_location_free) struct project_location location = {0};
    kg_auto(kg_free) char *agent = agent_path(cli_option_value(cli, "agent"));
    struct kg_err err = {0};
    bool is_installed = false;
    kg_auto(kg_free) char *package =
        cli_project_package_of(cli, cli_argument(cli, 0), &is_installed, &err);
    if (package == NULL || locate_around(cli_option_value(cli, "path"), &location, &err) < 0 ||
        project_add_plugin(&location, agent, package, &err) < 0)
        return print_error(&err);
    if (!is_installed)
        fprintf(stderr, "%s is not installed here: the project waits for it\n", package);
    return cli_project_finish(cli, &location, agent, package);
}
