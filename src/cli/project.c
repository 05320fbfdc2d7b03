/* kaged project validate: what is wrong with a project's file, for its author. Needs no daemon. */
#include "cli/cli.h"

#include "project/project.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

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
static void add_plugin(struct installed *installed, const char *folder, const char *name)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_free) char *dir = kg_format("%s/%s", folder, name);
    struct manifest *manifest = manifest_load(dir, &problems);
    if (manifest == NULL)
        return;
    installed->manifests =
        kg_realloc(installed->manifests, (installed->count + 1) * sizeof(struct manifest *));
    installed->manifests[installed->count++] = manifest;
}

static int add_plugins(struct installed *installed, const char *folder, struct kg_err *err)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return errno == ENOENT ? 0 : kg_fail_errno(err, errno, "open %s", folder);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (manifest_name_is_valid(kg_str(entry->d_name)))
            add_plugin(installed, folder, entry->d_name);
    closedir(dir);
    return 0;
}

static int find_installed(const struct cli *cli, struct installed *ret_installed,
                          struct kg_err *err)
{
    struct config *config = config_load(cli->paths.config_file, err);
    if (config == NULL)
        return -EINVAL;
    const char *folder = config_plugins_dir(config, &cli->paths);
    int result = add_plugins(ret_installed, folder, err);
    config_free(config);
    if (result < 0)
        return result;
    ret_installed->local = local_load(cli->paths.local_file, LOCAL_LEAVE, err);
    return ret_installed->local ? 0 : -EINVAL;
}

static int resolve(const struct cli *cli, const struct project *project,
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

static void put_json(struct kg_buf *out, const char *path, const struct kg_problems *problems,
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

static void put_text(struct kg_buf *out, const char *path, const struct kg_problems *problems,
                     const struct project *project, const struct project_resolved *resolved)
{
    bool good = project != NULL && problems->errors == 0;
    print_checked(out, path, problems, good ? project->name : NULL);
    if (resolved == NULL)
        return;
    kg_buf_char(out, '\n');
    project_words(resolved, out);
}

static int check(const struct cli *cli, const struct project_location *location,
                 const struct project *project, struct kg_problems *problems)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct project_resolved *resolved = NULL;
    struct kg_err err;
    if (project != NULL && cli_has(cli, "installed") &&
        resolve(cli, project, problems, &resolved, &err) < 0)
        return print_error(&err);
    if (cli->json)
        put_json(&out, location->path, problems, resolved);
    else
        put_text(&out, location->path, problems, project, resolved);
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
    int code = check(cli, &location, project, &problems);
    project_free(project);
    return code;
}
