/*
 * Folders of servers as their authors keep them: package.json or pyproject.toml says which program
 * it is, and that becomes a manifest. Nothing is built, and nothing of it is run to find out.
 */
#include "store/complete.h"

#include "base/doc.h"
#include "store/server.h"

#include <errno.h>
#include <stdlib.h>

#define NAME_MAX_BYTES 200

static char *folder_server_text_of(const struct kg_node *node, const char *key)
{
    struct kg_str text = kg_node_text(node, key);
    return text.length > 0 ? kg_str_dup(text) : NULL;
}

static int fail_program(struct kg_err *err, const char *file, const char *key)
{
    kg_fail(err, KG_E_INVALID_SOURCE, "%s names no program that can be started (%s)", file, key);
    return kg_hint(err, "put a kaged-plugin.yaml beside it, see kaged-mcp(7)");
}

/* What is known of it goes into a manifest; command and env are given up. */
static int folder_server_put_server(const struct kg_node *node, char **command, char **env,
                                    struct kg_buf *ret_manifest, struct kg_err *err)
{
    kg_auto(kg_free) char *package = folder_server_text_of(node, "name");
    kg_auto(kg_free) char *name = package ? store_server_name(package) : NULL;
    kg_auto(kg_free) char *version = folder_server_text_of(node, "version");
    kg_auto(kg_free) char *description = folder_server_text_of(node, "description");
    kg_auto(kg_free) char *license = folder_server_text_of(node, "license");
    if (name != NULL)
        store_server_manifest(&(struct store_server){.name = name,
                                                     .package = package,
                                                     .version = version,
                                                     .description = description,
                                                     .license = license,
                                                     .command = command,
                                                     .env = env},
                              ret_manifest);
    kg_list_free(command);
    kg_list_free(env);
    return name != NULL ? 0 : kg_fail(err, KG_E_INVALID_SOURCE, "it has no name");
}

/* -- node -------------------------------------------------------------------------------------- */

int package_manifest(struct kg_str text, struct kg_buf *ret_manifest, char ***ret_remarks,
                     struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(text, err);
    (void)ret_remarks;
    if (doc == NULL) {
        err->code = KG_E_INVALID_SOURCE;
        return -EINVAL;
    }
    const struct kg_node *bin = kg_node_get(doc->root, "bin");
    if (bin != NULL && bin->type == KG_OBJECT && bin->count > 0)
        bin = &bin->members[0].value;
    if (bin == NULL || bin->type != KG_STRING || !kg_str_is_plain(bin->text) ||
        bin->text.length > NAME_MAX_BYTES || bin->text.length == 0 || bin->text.data[0] == '/')
        return fail_program(err, "package.json", "bin");
    struct kg_str path = kg_str_starts(bin->text, "./") ? kg_str_from(bin->text, 2) : bin->text;
    char **command = kg_list_new(0);
    kg_list_add(&command, kg_strdup("node"));
    kg_list_add(&command, kg_format("./%.*s", KG_STR_ARG(path)));
    return folder_server_put_server(doc->root, command, kg_list_new(0), ret_manifest, err);
}

/* -- python ------------------------------------------------------------------------------------ */

static bool is_dotted(struct kg_str name)
{
    for (size_t i = 0; i < name.length; i++)
        if (!kg_is_letter_or_digit(name.data[i]) && name.data[i] != '_' && name.data[i] != '.')
            return false;
    return name.length > 0 && name.length <= NAME_MAX_BYTES && !kg_is_digit(name.data[0]);
}

int pyproject_manifest(struct kg_str text, struct kg_buf *ret_manifest, char ***ret_remarks,
                       struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_toml_read(text, err);
    if (doc == NULL) {
        err->code = KG_E_INVALID_SOURCE;
        return -EINVAL;
    }
    const struct kg_node *project = kg_node_typed(doc->root, "project", KG_OBJECT);
    const struct kg_node *scripts = kg_node_typed(project, "scripts", KG_OBJECT);
    const struct kg_node *script =
        scripts && scripts->count > 0 ? &scripts->members[0].value : NULL;
    struct kg_str function = script && script->type == KG_STRING ? script->text : KG_STR("");
    struct kg_str module = kg_str_cut(&function, ':');
    if (!is_dotted(module) || !is_dotted(function))
        return fail_program(err, "pyproject.toml", "project.scripts, as module:function");
    char **command = kg_list_new(0), **env = kg_list_new(0);
    kg_list_add(&command, kg_strdup("python3"));
    kg_list_add(&command, kg_strdup("-c"));
    kg_list_add(&command, kg_format("import sys, %.*s; sys.exit(%.*s.%.*s())", KG_STR_ARG(module),
                                    KG_STR_ARG(module), KG_STR_ARG(function)));
    kg_list_add(&env, kg_strdup("PYTHONPATH=${plugin_dir}/src:${plugin_dir}"));
    const struct kg_node *needs = kg_node_list(project, "dependencies");
    if (needs->count > 0) {
        *ret_remarks = kg_list_new(0);
        kg_list_add(ret_remarks, kg_format("pyproject.toml has %u dependencies, which are not "
                                           "fetched: those of this machine's python count",
                                           needs->count));
    }
    return folder_server_put_server(project, command, env, ret_manifest, err);
}
