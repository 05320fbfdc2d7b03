/*
 * kaged config: looks at and changes config.toml and local.toml, with comments and order kept.
 * Needs no daemon. Values of secrets are never printed.
 */
#include "cli/cli.h"

#include "base/doc.h"
#include "config/edit.h"
#include "config/local.h"
#include "manifest/manifest.h"
#include "secret/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PATH_MAX_KEYS 8

/* -- path and check ---------------------------------------------------------------------------- */

int cli_config_path(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    if (cli->json) {
        struct kg_json_writer json = kg_json_writer(&out);
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "config", cli->paths.config_file);
        kg_json_named_text(&json, "local", cli->paths.local_file);
        kg_json_end(&json, '}');
        kg_buf_char(&out, '\n');
    } else {
        kg_buf_printf(&out, "%s\n%s\n", cli->paths.config_file, cli->paths.local_file);
    }
    print_out(&out);
    return CLI_DONE;
}

/* Tables that configure nothing: kaged has no record of such a plugin, and nobody put one there. */
static void put_unknown_tables(struct kg_buf *out, const struct cli *cli,
                               const struct config *config, const struct local *local)
{
    for (size_t i = 0; i < local->plugin_count; i++) {
        const struct local_plugin *plugin = &local->plugins[i];
        struct kg_str name = manifest_package_name(plugin->package);
        kg_auto(kg_free) char *folder = kg_format(
            "%s/%.*s", config_plugins_dir(config, &cli->paths), KG_STR_CUT(name, KG_CUT_NAME));
        if (plugin->installed.length > 0 || plugin->hash.length > 0 || access(folder, F_OK) == 0)
            continue;
        kg_buf_printf(out, "%s: [plugins.\"", cli->paths.local_file);
        kg_buf_escaped(out, plugin->package);
        kg_buf_text(out, "\"]: there is no such plugin\n");
    }
}

/* What a plugin or a provider names, and is not there, lets nobody else down; here it is told. */
static int check_problems(const struct cli *cli, const struct local *local, struct kg_err *err)
{
    const struct kg_err *problem = NULL;
    for (size_t i = 0; i < local->plugin_count && problem == NULL; i++)
        problem = local->plugins[i].problem;
    for (size_t i = 0; i < local->provider_count && problem == NULL; i++)
        problem = local->providers[i].problem;
    if (problem == NULL)
        return 0;
    *err = *problem;
    err->code = KG_E_INVALID_CONFIG;
    kg_wrap_file(err, cli->paths.local_file);
    return -EINVAL;
}

/* As the daemon reads it. */
static struct local *load_local(const struct cli *cli, struct kg_err *err)
{
    struct local *local = cli_local_read(cli, err);
    if (local != NULL && check_problems(cli, local, err) < 0)
        local_free(kg_steal(&local));
    return local;
}

int cli_config_check(struct cli *cli)
{
    struct kg_err err = {0};
    struct config *config = config_load(cli->paths.config_file, &err);
    bool fits = config != NULL && settings_check(config, cli->paths.config_file, &err) == 0;
    struct local *local = fits ? load_local(cli, &err) : NULL;
    int code = local != NULL ? CLI_DONE : print_error(&err);
    if (local != NULL) {
        kg_auto(kg_buf_free) struct kg_buf out = {0};
        put_unknown_tables(&out, cli, config, local);
        kg_buf_printf(&out, "%s and %s are valid\n", cli->paths.config_file, cli->paths.local_file);
        print_out(&out);
    }
    config_free(config);
    local_free(local);
    return code;
}

/* -- keys -------------------------------------------------------------------------------------- */

/* A dotted key, cut at its dots; a part in double quotes may have dots itself. */
struct key_path {
    char *text; /* owned; the parts point into it */
    const char *parts[PATH_MAX_KEYS];
    size_t count;
};

static void key_path_free(struct key_path *path)
{
    free(path->text);
}

static int key_path_parse(const char *key, struct key_path *ret_path, struct kg_err *err)
{
    struct key_path path = {.text = kg_strdup(key)};
    char *at = path.text;
    while (path.count < PATH_MAX_KEYS) {
        char *end;
        if (*at == '"') {
            path.parts[path.count++] = ++at;
            end = strchr(at, '"');
            if (end != NULL)
                *end++ = '\0';
        } else {
            path.parts[path.count++] = at;
            end = at + strcspn(at, ".");
        }
        if (end == NULL || end == at || *at == '\0' || (*end != '\0' && *end != '.'))
            break;
        if (*end == '\0') {
            *ret_path = path;
            return 0;
        }
        *end = '\0';
        at = end + 1;
    }
    key_path_free(&path);
    return kg_fail(err, KG_E_USAGE, "\"%s\" is not a key; write SECTION.KEY", key);
}

static const struct config_key *known_key(const struct key_path *path, struct kg_str *ret_name)
{
    struct kg_str parts[PATH_MAX_KEYS];
    for (size_t i = 0; i < path->count; i++)
        parts[i] = kg_str(path->parts[i]);
    return config_key_find(parts, path->count, ret_name);
}

/* Whether the key belongs in local.toml: [plugins.NAME], [models], [providers] and the like. */
static bool cli_config_is_local(const struct key_path *path)
{
    static const char *const sections[] = {"models", "providers", "system_plugins", "projects",
                                           "secrets"};
    if (strcmp(path->parts[0], "plugins") == 0)
        return path->count >= 3;
    for (size_t i = 0; i < KG_COUNT(sections); i++)
        if (strcmp(path->parts[0], sections[i]) == 0)
            return true;
    return false;
}

/* Everything in local.toml that kaged does not need itself may be a secret. */
static bool cli_config_is_secret(const struct key_path *path)
{
    if (strcmp(path->parts[0], "providers") == 0)
        return true;
    if (strcmp(path->parts[0], "system_plugins") == 0)
        return path->count < 3 || strcmp(path->parts[2], "config") == 0;
    return strcmp(path->parts[0], "plugins") == 0 && path->count >= 3 &&
           (!local_key_is_reserved(kg_str(path->parts[2])) ||
            strcmp(path->parts[2], LOCAL_SYSTEM) == 0);
}

/* A key that is one for each name is compared with the name that was given. */
static int cli_config_unknown_key(const struct key_path *path, const char *key, struct kg_err *err)
{
    const char *names[256];
    char *made[256];
    size_t count = 0;
    struct kg_str name = path->count > 2 ? kg_str(path->parts[2]) : KG_STR("NAME");
    for (; count < config_key_count && count < KG_COUNT(names); count++) {
        struct kg_buf text = {0};
        config_key_print(&config_keys[count], name, &text);
        names[count] = made[count] = kg_buf_terminate(&text);
    }
    const char *nearest = kg_str_nearest(kg_str(key), names, count);
    kg_fail(err, KG_E_NOT_FOUND, "there is no key %s", key);
    if (nearest != NULL)
        kg_hint(err, "did you mean %s?", nearest);
    else
        kg_hint(err, "kaged.toml(5) lists every key");
    while (count > 0)
        free(made[--count]);
    return -ENOENT;
}

/* -- get --------------------------------------------------------------------------------------- */

static void cli_config_put_list(struct kg_json_writer *json, char *const *list)
{
    kg_json_begin(json, '[');
    for (; *list != NULL; list++)
        kg_json_text(json, *list);
    kg_json_end(json, ']');
}

static const struct config_names *names_of(const struct config *config,
                                           const struct config_key *key)
{
    return config_key_is_named(key) ? (const void *)((const char *)config + key->offset) : NULL;
}

/* The value of the key; of a key that is one for each name, that for this name. */
static void cli_config_put_value(struct kg_buf *out, const struct config *config,
                                 const struct config_key *key, struct kg_str name, bool json_form)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    const void *field = (const char *)config + key->offset;
    switch (key->type) {
    case CONFIG_TYPE_INT:
        kg_json_int(&json, *(const int64_t *)field);
        break;
    case CONFIG_TYPE_BOOL:
        kg_json_bool(&json, *(const bool *)field);
        break;
    case CONFIG_TYPE_TEXT:
        if (json_form)
            kg_json_text(&json, *(char *const *)field);
        else
            kg_buf_escaped(out, kg_str(*(char *const *)field));
        break;
    case CONFIG_TYPE_LIST:
        cli_config_put_list(&json, *(char **const *)field);
        break;
    case CONFIG_TYPE_INTS:
        kg_json_int(&json, config_named_get(field, name)->number);
        break;
    case CONFIG_TYPE_LISTS:
        cli_config_put_list(&json, config_named_get(field, name)->list);
        break;
    case CONFIG_TYPE_TABLES:
        kg_json_raw(&json, kg_str(config_named_get(field, name)->list[0]));
        break;
    }
    kg_buf_json_escaped(out, kg_buf_view(&text));
}

/* One entry of the list of all keys. */
static void cli_config_put_key(struct kg_buf *out, const struct cli *cli,
                               const struct config *config, const struct config_key *key,
                               struct kg_str name)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    config_key_print(key, name, &text);
    if (cli->json) {
        struct kg_json_writer json = kg_json_writer(out);
        kg_buf_text(out, out->length > 1 ? "," : "");
        kg_json_str(&json, kg_buf_view(&text));
        kg_buf_char(out, ':');
    } else {
        kg_buf_str(out, kg_buf_view(&text));
        kg_buf_text(out, " = ");
    }
    cli_config_put_value(out, config, key, name, true);
    kg_buf_text(out, cli->json ? "" : "\n");
}

static int get_all(struct cli *cli, const struct config *config)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_buf_text(&out, cli->json ? "{" : "");
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        const struct config_names *names = names_of(config, key);
        if (names == NULL)
            cli_config_put_key(&out, cli, config, key, KG_STR_NULL);
        for (size_t k = 0; names != NULL && k < names->count; k++)
            cli_config_put_key(&out, cli, config, key, kg_str(names->items[k].name));
    }
    kg_buf_text(&out, cli->json ? "}\n" : "");
    print_out(&out);
    return CLI_DONE;
}

static int get_local(struct cli *cli, const struct key_path *path, const char *name,
                     struct kg_err *err)
{
    struct local *local = local_load(cli->paths.local_file, LOCAL_LEAVE, err);
    if (local == NULL)
        return print_error(err);
    const struct kg_node *node = local->doc->root;
    for (size_t i = 0; i < path->count && node != NULL; i++)
        node = kg_node_get(node, path->parts[i]);
    kg_auto(kg_buf_free) struct kg_buf out = {0}, text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    if (node != NULL && cli_config_is_secret(path))
        kg_buf_text(&out, cli->json ? "\"[secret]\"" : "[secret]");
    else if (node != NULL && node->type == KG_STRING && !cli->json)
        kg_buf_escaped(&out, node->text);
    else if (node != NULL)
        kg_json_node(&json, node);
    kg_buf_json_escaped(&out, kg_buf_view(&text));
    bool found = node != NULL;
    local_free(local);
    if (!found) {
        kg_fail(err, KG_E_NOT_FOUND, "%s does not have the key %s", cli->paths.local_file, name);
        return print_error(err);
    }
    kg_buf_char(&out, '\n');
    print_out(&out);
    return CLI_DONE;
}

/* What is not said for a name has no value of its own. */
static int check_is_said(const struct cli *cli, const struct config *config,
                         const struct config_key *key, struct kg_str name, struct kg_err *err)
{
    const struct config_names *names = names_of(config, key);
    if (names == NULL || config_named_get(names, name) != NULL)
        return 0;
    return kg_fail(err, KG_E_NOT_FOUND, "%s has no entry for %.*s", cli->paths.config_file,
                   KG_STR_CUT(name, KG_CUT_NAME));
}

int cli_config_get(struct cli *cli)
{
    struct kg_err err = {0};
    const char *name = cli_argument(cli, 0);
    kg_auto(key_path_free) struct key_path path = {0};
    if (name != NULL && key_path_parse(name, &path, &err) < 0)
        return print_error(&err);
    if (name != NULL && cli_config_is_local(&path))
        return get_local(cli, &path, name, &err);
    struct config *config = config_load(cli->paths.config_file, &err);
    if (config == NULL)
        return print_error(&err);
    struct kg_str named = KG_STR_NULL;
    const struct config_key *key = name ? known_key(&path, &named) : NULL;
    int code = CLI_DONE;
    if (name == NULL) {
        code = get_all(cli, config);
    } else if (key == NULL) {
        cli_config_unknown_key(&path, name, &err);
        code = print_error(&err);
    } else if (check_is_said(cli, config, key, named, &err) < 0) {
        code = print_error(&err);
    } else {
        kg_auto(kg_buf_free) struct kg_buf out = {0};
        cli_config_put_value(&out, config, key, named, cli->json);
        kg_buf_char(&out, '\n');
        print_out(&out);
    }
    config_free(config);
    return code;
}

/* -- set --------------------------------------------------------------------------------------- */

struct setting {
    const struct key_path *path;
    const struct kg_node *value;
    bool local;
    const char *file;
};

/* The text as it would be must be one that the daemon takes. */
static int cli_config_check_text(struct kg_str text, const struct setting *setting,
                                 struct kg_err *err)
{
    int result = 0;
    if (setting->local) {
        struct local *read = local_read(text, LOCAL_LEAVE, err);
        local_free(read);
        result = read ? 0 : -EINVAL;
        if (read == NULL)
            kg_wrap_file(err, setting->file);
        return result;
    }
    struct config *read = config_read(text, err);
    if (read == NULL)
        kg_wrap_file(err, setting->file);
    result = read ? settings_check(read, setting->file, err) : -EINVAL;
    config_free(read);
    return result;
}

static int cli_config_change(struct kg_buf *text, void *data, struct kg_err *err)
{
    const struct setting *setting = data;
    int result =
        edit_toml_set(text, setting->path->parts, setting->path->count, setting->value, err);
    return result < 0 ? result : cli_config_check_text(kg_buf_view(text), setting, err);
}

/* What was written on the command line: TOML if it is, else a text. */
static struct kg_doc *cli_config_read_value(const char *text, bool wants_text)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    if (!wants_text) {
        kg_buf_printf(&line, "value = %s\n", text);
        struct kg_doc *doc = kg_toml_read(kg_buf_view(&line), NULL);
        if (doc != NULL && doc->root->count == 1)
            return doc;
        kg_doc_free(doc);
    }
    struct kg_builder *builder = kg_builder_new();
    struct kg_arena *arena = kg_builder_arena(builder);
    kg_builder_open(builder, KG_OBJECT, 1, 1);
    kg_builder_key(builder, KG_STR("value"), 1, 1);
    kg_builder_value(
        builder, (struct kg_node){.type = KG_STRING, .text = kg_arena_str(arena, kg_str(text))});
    kg_builder_close(builder);
    struct kg_doc *doc = kg_builder_finish(builder);
    kg_builder_free(builder);
    return doc;
}

int cli_config_set(struct cli *cli)
{
    return cli_set_setting(cli, cli_argument(cli, 0), cli_argument(cli, 1));
}

int cli_set_setting(const struct cli *cli, const char *name, const char *value)
{
    struct kg_err err = {0};
    kg_auto(key_path_free) struct key_path path = {0};
    if (key_path_parse(name, &path, &err) < 0)
        return print_error(&err);
    struct kg_str named;
    const struct config_key *key = known_key(&path, &named);
    bool local = cli_config_is_local(&path);
    if (key == NULL && !local) {
        cli_config_unknown_key(&path, name, &err);
        return print_error(&err);
    }
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        cli_config_read_value(value, key != NULL && key->type == CONFIG_TYPE_TEXT);
    const char *file = local ? cli->paths.local_file : cli->paths.config_file;
    struct setting setting = {&path, kg_node_get(doc->root, "value"), local, file};
    if (config_paths_make_config(&cli->paths, &err) < 0 ||
        edit_file(file, cli_config_change, &setting, &err) < 0) {
        kg_wrap(&err, 0, "set %s", name);
        if (err.code != KG_E_INVALID_CONFIG && err.errnum == EINVAL)
            err.code = KG_E_INVALID_CONFIG;
        return print_error(&err);
    }
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    kg_buf_printf(&out, "%s is set in %s", name, file);
    if (key != NULL)
        kg_buf_printf(&out, "; it applies %s", config_applies_words(key->applies));
    kg_buf_char(&out, '\n');
    print_out(&out);
    return CLI_DONE;
}
