/*
 * A package as a plugin. One in Python has no manifest, so one is made of what was found out of it:
 * our runner as its command, the runner's methods, its tools, and nothing else. The others have
 * theirs, in the package or made of their bundle's file, and what the catalog shows is made of
 * that.
 */
#include "package/internal.h"

#include "base/doc.h"
#include "store/complete.h"

#include <errno.h>
#include <fcntl.h>

#define BUNDLE_FILE     "manifest.json"
#define DESCRIPTION_MAX 160

/* -- of one in Python -------------------------------------------------------------------------- */

/* One line, and a short one. */
static void put_package_line(struct kg_json_writer *json, struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    size_t length = text.length < DESCRIPTION_MAX ? text.length : DESCRIPTION_MAX;
    text.length = kg_utf8_valid((struct kg_str){text.data, length});
    for (size_t i = 0; i < text.length; i++)
        kg_buf_char(
            &line, (unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7F ? ' ' : text.data[i]);
    kg_json_named_str(json, "description", kg_buf_view(&line));
}

/* A version of two parts is not one of a manifest. */
static char *full_version(struct kg_str version)
{
    size_t dots = 0;
    for (size_t i = 0; i < version.length; i++)
        dots += version.data[i] == '.';
    return kg_format("%.*s%s", KG_STR_ARG(version), dots < 2 ? ".0" : "");
}

static void put_granted_hosts(struct kg_json_writer *json, const char *const *reaches)
{
    kg_json_named_begin(json, "capabilities", '[');
    for (; reaches != NULL && *reaches != NULL; reaches++) {
        kg_auto(kg_free) char *capability = kg_format("net:%s", *reaches);
        kg_json_text(json, capability);
    }
    kg_json_end(json, ']');
}

/* As a manifest has it; the host sets the rest. */
static void put_runner_environment(struct kg_json_writer *json)
{
    kg_json_named_begin(json, "env", '{');
    for (const char *const *entry = package_environment; *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        kg_auto(kg_free) char *name =
            kg_str_dup((struct kg_str){*entry, (size_t)(equals - *entry)});
        kg_json_named_text(json, name, equals + 1);
    }
    kg_json_end(json, '}');
}

static void package_manifest_put_manifest(const struct kg_node *package, const char *name,
                                          const struct package_runtime *runtime,
                                          const char *const *reaches, struct kg_buf *ret_text)
{
    static const char *const methods[] = {"package.load_anchor", "package.scope_rules",
                                          "package.health", "package.tools", NULL};
    struct kg_json_writer json = kg_json_writer(ret_text);
    kg_auto(kg_free) char *version = full_version(kg_node_text(package, "version"));
    char **command = package_command(runtime, version);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", name);
    kg_json_named_text(&json, "version", version);
    kg_json_named_int(&json, "kaged_api", 1);
    put_package_line(&json, kg_node_text(package, "description"));
    kg_json_named_list(&json, "command", command);
    put_runner_environment(&json);
    put_granted_hosts(&json, reaches);
    kg_json_named_list(&json, "methods", (char *const *)methods);
    kg_json_named_text(&json, "process", "shared");
    kg_json_end(&json, '}');
    kg_list_free(command);
}

/* As MCP servers list theirs, since their names may have capitals, too. */
static void learn_package_tools(struct manifest *manifest, const struct kg_node *tools,
                                struct kg_problems *problems)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    kg_json_begin(&json, '[');
    for (uint32_t i = 0; i < tools->count; i++) {
        kg_json_begin(&json, '{');
        kg_json_named_str(&json, "name", kg_node_text(&tools->items[i], "name"));
        kg_json_named_str(&json, "description", kg_node_text(&tools->items[i], "description"));
        kg_json_named_node(&json, "inputSchema", kg_node_get(&tools->items[i], "parameters"));
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    manifest_learn_tools(manifest, kg_buf_view(&text), problems);
}

static struct manifest *read_manifest_text(struct kg_str text, const char *path, struct kg_err *err)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct manifest *manifest = manifest_read(text, &problems);
    if (manifest == NULL)
        manifest_problems_fail(&problems, path, err);
    return manifest;
}

/* -- of the others ----------------------------------------------------------------------------- */

static int read_package_file(const char *folder, const char *name, struct kg_buf *ret_text,
                             struct kg_err *err)
{
    kg_auto(kg_free) char *path = kg_path_join(folder, name);
    kg_auto(kg_close) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return kg_fail_errno(err, errno, "open %s", name);
    return kg_read_fd(fd, name, KG_DOC_BYTES_MAX, ret_text, err);
}

static struct manifest *read_own_manifest(const char *folder, bool is_bundle,
                                          struct kg_buf *ret_file, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf made = {0};
    char **remarks = NULL;
    if (read_package_file(folder, is_bundle ? BUNDLE_FILE : MANIFEST_FILE, ret_file, err) < 0)
        return NULL;
    if (!is_bundle)
        return read_manifest_text(kg_buf_view(ret_file), MANIFEST_FILE, err);
    int result = bundle_manifest(kg_buf_view(ret_file), &made, &remarks, err);
    kg_list_free(remarks);
    if (result < 0)
        return NULL;
    return read_manifest_text(kg_buf_view(&made), BUNDLE_FILE, err);
}

/* With the name that it has here, and no other rights than those that were granted. */
static struct manifest *remake_manifest(const char *folder, const char *name,
                                        const char *const *reaches, char **ret_own_name,
                                        struct kg_err *err)
{
    static const char *const replaced[] = {"name",    "package", "capabilities", "process", "start",
                                           "catalog", NULL};
    kg_auto(kg_buf_free) struct kg_buf file = {0}, text = {0};
    struct manifest *own = read_own_manifest(folder, false, &file, err);
    if (own == NULL)
        return NULL;
    const struct kg_node *root = own->doc->root;
    struct kg_json_writer json = kg_json_writer(&text);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", name);
    put_granted_hosts(&json, reaches);
    kg_json_named_text(&json, "process", "shared");
    for (uint32_t i = 0; i < root->count; i++) {
        kg_auto(kg_free) char *key = kg_str_dup(root->members[i].key);
        if (!kg_list_has((char *const *)replaced, root->members[i].key))
            kg_json_named_node(&json, key, &root->members[i].value);
    }
    kg_json_end(&json, '}');
    *ret_own_name = kg_strdup(own->name);
    manifest_free(own);
    return read_manifest_text(kg_buf_view(&text), name, err);
}

struct manifest *package_make_manifest(const struct kg_node *package, const char *folder,
                                       const char *name, const struct package_runtime *runtime,
                                       const char *const *reaches, char **ret_own_name,
                                       struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct kg_str kind = kg_node_text(package, "kind");
    if (!kg_str_is(kind, "python"))
        return remake_manifest(folder, name, reaches, ret_own_name, err);
    *ret_own_name = kg_strdup(name);
    package_manifest_put_manifest(package, name, runtime, reaches, &text);
    struct manifest *manifest = read_manifest_text(kg_buf_view(&text), name, err);
    if (manifest != NULL)
        learn_package_tools(manifest, kg_node_list(package, "tools"), &problems);
    return manifest;
}

/* -- what the catalog shows of them ------------------------------------------------------------ */

static void put_package_tools(struct kg_json_writer *json, const struct manifest *manifest)
{
    kg_json_named_begin(json, "tools", '[');
    for (size_t i = 0; i < manifest->tool_count; i++) {
        const struct manifest_tool *tool = &manifest->tools[i];
        kg_json_begin(json, '{');
        kg_json_named_text(json, "name", tool->name);
        kg_json_named_text(json, "description", tool->description);
        kg_json_key(json, "parameters");
        if (tool->parameters_node != NULL)
            kg_json_node(json, tool->parameters_node);
        else
            kg_json_raw(json, KG_STR("{\"type\":\"object\"}"));
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

static void put_catalog_flag(struct kg_json_writer *json, const struct kg_node *catalog,
                             const char *key, bool fallback)
{
    const struct kg_node *said = catalog ? kg_node_typed(catalog, key, KG_BOOL) : NULL;
    kg_json_named_bool(json, key, said ? said->boolean : fallback);
}

static void put_catalog_setting(struct kg_json_writer *json, const struct kg_node *setting)
{
    const struct kg_node *fallback = kg_node_get(setting, "default");
    struct kg_str name = kg_node_text(setting, "name");
    kg_json_begin(json, '{');
    kg_json_named_str(json, "key", kg_node_text(setting, "key"));
    kg_json_named_str(json, "name", name.length > 0 ? name : kg_node_text(setting, "key"));
    kg_json_named_str(json, "type", kg_node_text(setting, "type"));
    kg_json_named_str(json, "description", kg_node_text(setting, "description"));
    kg_json_key(json, "default");
    if (fallback != NULL)
        kg_json_node(json, fallback);
    else
        kg_json_text(json, NULL);
    kg_json_named_bool(json, "required", kg_node_is_true(setting, "required"));
    kg_json_named_bool(json, "sensitive", kg_node_is_true(setting, "sensitive"));
    kg_json_end(json, '}');
}

/* user_config of a bundle has words of its own. */
static void put_bundle_setting(struct kg_json_writer *json, struct kg_str key,
                               const struct kg_node *setting)
{
    static const char *const types[][2] = {{"number", "float"}, {"boolean", "bool"}};
    const struct kg_node *fallback = kg_node_get(setting, "default");
    const char *type = kg_node_is_true(setting, "multiple") ? "list" : "str";
    struct kg_str title = kg_node_text(setting, "title");
    struct kg_str words = kg_node_text(setting, "description");
    for (size_t i = 0; i < KG_COUNT(types); i++)
        if (kg_str_is(kg_node_text(setting, "type"), types[i][0]))
            type = types[i][1];
    kg_json_begin(json, '{');
    kg_json_named_str(json, "key", key);
    kg_json_named_str(json, "name", title.length > 0 ? title : key);
    kg_json_named_text(json, "type", type);
    kg_json_named_str(json, "description", words.length > 0 ? words : key);
    if (fallback != NULL)
        kg_json_named_node(json, "default", fallback);
    kg_json_named_bool(json, "required", kg_node_is_true(setting, "required"));
    kg_json_named_bool(json, "sensitive", kg_node_is_true(setting, "sensitive"));
    kg_json_end(json, '}');
}

static void put_package_settings(struct kg_json_writer *json, const struct kg_node *catalog,
                                 const struct kg_node *bundle)
{
    const struct kg_node *listed = kg_node_list(catalog, "settings_schema");
    const struct kg_node *named = bundle ? kg_node_typed(bundle, "user_config", KG_OBJECT) : NULL;
    kg_json_named_begin(json, "settings_schema", '[');
    for (uint32_t i = 0; i < listed->count; i++)
        put_catalog_setting(json, &listed->items[i]);
    for (uint32_t i = 0; named != NULL && i < named->count; i++)
        put_bundle_setting(json, named->members[i].key, &named->members[i].value);
    kg_json_end(json, ']');
}

static void put_package_identity(struct kg_json_writer *json, const struct manifest *manifest,
                                 const struct kg_node *catalog, bool is_bundle)
{
    struct kg_str name = kg_node_text(catalog, "name"), tag = kg_node_text(catalog, "tag");
    kg_auto(kg_free) char *pid = kg_format("mcpb.%s", manifest->name);
    kg_json_named_text(json, "kind", is_bundle ? "mcpb" : "kaged");
    kg_json_named_str(json, "pid", catalog ? kg_node_text(catalog, "pid") : kg_str(pid));
    kg_json_named_str(json, "name", name.length > 0 ? name : kg_str(manifest->name));
    kg_json_named_text(json, "version", manifest->version);
    kg_json_named_text(json, "description", manifest->description);
    kg_json_named_str(json, "tag", tag.length > 0 ? tag : KG_STR_NULL);
    kg_json_key(json, "capabilities");
    kg_json_node(json, kg_node_list(catalog, "capabilities"));
    kg_json_named_list(json, "declares", manifest->capabilities);
    kg_json_named_raw(json, "dependencies", KG_STR("[]"));
}

static void package_manifest_put_package(const struct manifest *manifest,
                                         const struct kg_node *bundle, struct kg_buf *ret_json)
{
    const struct kg_node *catalog = kg_node_typed(manifest->doc->root, "catalog", KG_OBJECT);
    struct kg_str prompt = kg_node_text(catalog, "system_prompt");
    struct kg_json_writer json = kg_json_writer(ret_json);
    kg_json_begin(&json, '{');
    put_package_identity(&json, manifest, catalog, bundle != NULL);
    put_catalog_flag(&json, catalog, "stateless", true);
    put_catalog_flag(&json, catalog, "is_specialized", false);
    put_catalog_flag(&json, catalog, "is_scoped", false);
    if (prompt.length > 0)
        kg_json_named_str(&json, "system_prompt", prompt);
    put_package_settings(&json, catalog, bundle);
    put_package_tools(&json, manifest);
    kg_json_end(&json, '}');
}

static int check_catalog_block(const struct manifest *manifest, struct kg_err *err)
{
    const struct kg_node *catalog = kg_node_typed(manifest->doc->root, "catalog", KG_OBJECT);
    if (catalog == NULL) {
        kg_fail(err, KG_E_INVALID_SOURCE, "%s has no catalog: block, which says the package's pid",
                MANIFEST_FILE);
        return kg_hint(err, "add catalog: {pid: com.example.%s}", manifest->name);
    }
    if (kg_node_is_true(catalog, "is_specialized") &&
        kg_node_text(catalog, "system_prompt").length == 0)
        return kg_fail(err, KG_E_INVALID_SOURCE,
                       "%s: catalog.is_specialized needs catalog.system_prompt", MANIFEST_FILE);
    return 0;
}

int package_describe(const char *folder, bool is_bundle, struct kg_buf *ret_json,
                     struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf file = {0};
    struct manifest *manifest = read_own_manifest(folder, is_bundle, &file, err);
    kg_auto(kg_doc_cleanup) struct kg_doc *bundle = NULL;
    int result = manifest == NULL ? -EINVAL : 0;
    if (result == 0 && is_bundle)
        bundle = kg_json_read(kg_buf_view(&file), NULL);
    else if (result == 0)
        result = check_catalog_block(manifest, err);
    if (result == 0)
        package_manifest_put_package(manifest, bundle ? bundle->root : NULL, ret_json);
    else
        err->code = KG_E_INVALID_SOURCE;
    manifest_free(manifest);
    return result;
}
