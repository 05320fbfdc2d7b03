/* kaged plugin validate: what is wrong with a manifest, for its author. Needs no daemon. */
#include "cli/cli.h"

#include "base/doc.h"
#include "host/host.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

/* -- the cage ---------------------------------------------------------------------------------- */

/* What the plugin would be configured with if nobody had said anything. */
static void put_default_settings(const struct manifest *manifest, struct kg_buf *out)
{
    static const struct kg_node nothing = {.type = KG_OBJECT};
    kg_auto(kg_doc_cleanup) struct kg_doc *settings =
        manifest->config_schema ? schema_with_defaults(manifest->config_schema, &nothing) : NULL;
    if (settings != NULL)
        kg_json_put_node(out, settings->root);
}

static struct cage_plan *plan_cage(const struct cli *cli, const char *path,
                                   const struct manifest *manifest, const struct config *config,
                                   const struct cage_facts *facts, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf settings = {0};
    kg_auto(kg_free) char *real = realpath(path, NULL);
    if (real == NULL) {
        kg_fail_errno(err, errno, "find the folder of %s", path);
        return NULL;
    }
    kg_auto(kg_free) char *dir = kg_path_folder(real);
    put_default_settings(manifest, &settings);
    /* What reaches into a project is shown as if the folder around us were one. */
    bool of_project =
        policy_is_of_project(manifest, &manifest->capability_set, kg_buf_view(&settings));
    kg_auto(kg_free) char *project = of_project ? realpath(".", NULL) : NULL;
    const struct host_cage_parts parts = {
        .manifest = manifest,
        .dir = dir,
        .plugins_dir = config_plugins_dir(config, &cli->paths),
        .config = config,
        .paths = &cli->paths,
        .settings = kg_buf_view(&settings),
        .project_root = project,
        .facts = facts,
    };
    return host_cage_plan(&parts, err);
}

/* What this machine offers to the daemon, whose user may be another than ours. */
static struct cage_facts *find_facts(const struct config *config, struct kg_err *err)
{
    struct cage_owner owner;
    kg_auto(cage_checks_free) struct cage_checks checks = {0};
    if (user_find(config, &owner, err) < 0)
        return NULL;
    return cage_facts_check(&(struct cage_site){.owner = &owner}, &checks, err);
}

/* The words of the cage, or why there is none. */
static int describe_cage(const struct cli *cli, const char *path, const struct manifest *manifest,
                         struct kg_buf *ret_words, struct kg_err *err)
{
    struct config *config = config_load(cli->paths.config_file, err);
    struct cage_facts *facts = config ? find_facts(config, err) : NULL;
    struct cage_plan *plan = facts ? plan_cage(cli, path, manifest, config, facts, err) : NULL;
    if (plan != NULL)
        cage_plan_words(plan, ret_words);
    int result = plan != NULL ? 0 : -EINVAL;
    cage_plan_free(plan);
    cage_facts_free(facts);
    config_free(config);
    return result;
}

/* -- what is shown ----------------------------------------------------------------------------- */

static void put_cage_json(struct kg_json_writer *json, struct kg_buf *words)
{
    char *rest = NULL;
    kg_json_named_begin(json, "cage", '[');
    for (char *line = strtok_r(kg_buf_terminate(words), "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        kg_json_text(json, line);
    kg_json_end(json, ']');
}

static void validate_put_json(struct kg_buf *out, const char *path,
                              const struct kg_problems *problems, struct kg_buf *cage_words)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "path", path);
    kg_json_named_bool(&json, "valid", problems->errors == 0);
    kg_json_key(&json, "problems");
    kg_problems_json(problems, &json);
    if (cage_words->length > 0)
        put_cage_json(&json, cage_words);
    kg_json_end(&json, '}');
    kg_buf_char(out, '\n');
}

static void validate_put_text(struct kg_buf *out, const char *path, const struct manifest *manifest,
                              const struct kg_problems *problems)
{
    kg_auto(kg_free) char *valid =
        manifest ? kg_format("%s %s", manifest->name, manifest->version) : NULL;
    print_checked(out, path, problems, valid);
}

/* The folder of a plugin, or its manifest itself. */
static char *manifest_path(const char *path)
{
    struct stat there;
    if (stat(path, &there) == 0 && S_ISDIR(there.st_mode))
        return kg_format("%s/%s", path, MANIFEST_FILE);
    return kg_strdup(path);
}

static void validate_put_cage(struct kg_buf *out, const struct manifest *manifest,
                              struct kg_buf *words)
{
    char *rest = NULL;
    kg_buf_printf(out, "in its cage %s\n", manifest->name);
    for (char *line = strtok_r(kg_buf_terminate(words), "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        kg_buf_text(out, "  ");
        kg_buf_escaped(out, kg_str(line));
        kg_buf_char(out, '\n');
    }
}

static int validate_show(const struct cli *cli, const char *path, const struct manifest *manifest,
                         const struct kg_problems *problems)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0}, words = {0};
    struct kg_err err = {.code = KG_OK};
    bool caged = manifest != NULL && cli_has(cli, "cage");
    int result = caged ? describe_cage(cli, path, manifest, &words, &err) : 0;
    if (cli->json)
        validate_put_json(&out, path, problems, &words);
    else
        validate_put_text(&out, path, manifest, problems);
    if (!cli->json && words.length > 0)
        validate_put_cage(&out, manifest, &words);
    print_out(&out);
    if (result < 0)
        return print_error(&err);
    return problems->errors == 0 ? CLI_DONE : kg_error_row(KG_E_INVALID_MANIFEST)->exit_code;
}

int cli_plugin_validate(struct cli *cli)
{
    kg_auto(kg_free) char *path = manifest_path(cli_argument(cli, 0));
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err;
    int result = kg_read_file(path, KG_DOC_BYTES_MAX, &text, &err);
    if (result < 0) {
        err.code = result == -ENOENT ? KG_E_NOT_FOUND : KG_E_INVALID_MANIFEST;
        return print_error(&err);
    }
    struct manifest *manifest = manifest_read(kg_buf_view(&text), &problems);
    int code = validate_show(cli, path, manifest, &problems);
    manifest_free(manifest);
    return code;
}
