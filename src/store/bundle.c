/*
 * manifest.json of an .mcpb or .dxt file: what an MCP server is started with, in the words of its
 * own format. Its places (${__dirname}, ${user_config.KEY}, ${HOME}) become ours, its settings a
 * schema, the sensitive ones the operator's own. What would start something else than what is in
 * the bundle is refused; what is not taken over is named.
 */
#include "store/complete.h"

#include "base/semver.h"
#include "store/server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define WORD_MAX     4096
#define TEXT_MAX     500 /* of a setting's title and description */
#define SETTINGS_MAX 128

struct bundle {
    const struct kg_node *root;
    const struct kg_node *settings;                    /* user_config; NULL: none */
    char **command, **env, **capabilities, **remarks;  /* owned, like the next two */
    struct kg_buf config_schema, system_config_schema; /* JSON; empty: none */
    struct kg_err *err;
};

static void bundle_free(struct bundle *bundle)
{
    kg_list_free(bundle->command);
    kg_list_free(bundle->env);
    kg_list_free(bundle->capabilities);
    kg_list_free(bundle->remarks);
    kg_buf_free(&bundle->config_schema);
    kg_buf_free(&bundle->system_config_schema);
}

/* Once each. */
static void bundle_remark(struct bundle *bundle, const char *format, ...) KG_PRINTF(2, 3);
static void bundle_remark(struct bundle *bundle, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (!kg_list_has(bundle->remarks, kg_str(line)))
        kg_list_add(&bundle->remarks, kg_strdup(line));
}

static int bundle_refuse(const struct bundle *bundle, const char *what, const char *why)
{
    return kg_fail(bundle->err, KG_E_INVALID_SOURCE, "%s: %s", what, why);
}

/* -- settings ---------------------------------------------------------------------------------- */

static bool is_sensitive(const struct kg_node *setting)
{
    return kg_node_is_true(setting, "sensitive");
}

/* What it is called here: local.toml has keys of its own beside those of the operator's settings.
 */
static void bundle_put_key(struct kg_buf *out, struct kg_str key, const struct kg_node *setting)
{
    static const char *const taken[] = {"installed", "local",   "config",
                                        "hash",      "process", "system_config"};
    for (size_t i = 0; i < KG_COUNT(taken); i++)
        if (is_sensitive(setting) && kg_str_is(key, taken[i]))
            kg_buf_text(out, "user_");
    kg_buf_str(out, key);
}

static bool key_is_plain(struct kg_str key)
{
    for (size_t i = 0; i < key.length; i++)
        if (!kg_is_letter_or_digit(key.data[i]) && strchr("_.-", key.data[i]) == NULL)
            return false;
    return key.length > 0 && key.length <= 64;
}

static void bundle_put_text(struct kg_json_writer *json, const char *name, struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    if (text.length == 0)
        return;
    kg_buf_escaped(&shown, text);
    if (shown.length > TEXT_MAX)
        shown.length = kg_utf8_valid((struct kg_str){shown.data, TEXT_MAX});
    kg_json_named_str(json, name, kg_buf_view(&shown));
}

/* The types of the format, and what a setting of them is if nobody sets it and nobody has to. */
static const struct type {
    const char *name, *schema;
    enum kg_type value;
    const char *unset;
} types[] = {
    {"string", "\"string\"", KG_STRING, "\"\""},  {"directory", "\"string\"", KG_STRING, "\"\""},
    {"file", "\"string\"", KG_STRING, "\"\""},    {"number", "\"number\"", KG_NUMBER, NULL},
    {"boolean", "\"boolean\"", KG_BOOL, "false"},
};

static bool names_a_place(const struct kg_node *value)
{
    return value->type == KG_STRING && memmem(value->text.data, value->text.length, "${", 2);
}

/* Whether all of it has the type, and is a plain value. */
static bool default_fits(const struct kg_node *value, const struct type *type, bool multiple)
{
    if (!multiple)
        return value->type == type->value && !names_a_place(value);
    for (uint32_t i = 0; value->type == KG_ARRAY && i < value->count; i++)
        if (value->items[i].type != KG_STRING || names_a_place(&value->items[i]))
            return false;
    return value->type == KG_ARRAY;
}

static void bundle_put_default(struct bundle *bundle, struct kg_json_writer *json,
                               const struct kg_member *member, const struct type *type,
                               bool multiple)
{
    const struct kg_node *value = kg_node_get(&member->value, "default");
    if (value != NULL && default_fits(value, type, multiple)) {
        kg_json_key(json, "default");
        kg_json_node(json, value);
        return;
    }
    if (value != NULL)
        bundle_remark(
            bundle,
            "its setting %.*s has no default here: what the bundle has is a place in your "
            "home, or of another type",
            KG_STR_CUT(member->key, KG_CUT_NAME));
    if (kg_node_is_true(&member->value, "required"))
        return;
    kg_json_key(json, "default");
    kg_json_raw(json, kg_str(multiple ? "[]" : type->unset ? type->unset : "\"\""));
}

static void put_bound(struct kg_json_writer *json, const char *name, const struct kg_node *bound)
{
    if (bound == NULL || bound->type != KG_NUMBER)
        return;
    kg_json_key(json, name);
    kg_json_node(json, bound);
}

static void bundle_put_type(struct kg_json_writer *json, const struct type *type, bool multiple,
                            bool may_be_unset)
{
    kg_json_key(json, "type");
    if (multiple) {
        kg_json_raw(json, KG_STR("\"array\""));
        kg_json_named_raw(json, "items", KG_STR("{\"type\":\"string\"}"));
    } else if (type->unset == NULL && may_be_unset) {
        kg_json_raw(json, KG_STR("[\"number\",\"string\"]"));
        kg_json_named_int(json, "maxLength", 0);
    } else {
        kg_json_raw(json, kg_str(type->schema));
    }
}

static int bundle_put_setting(struct bundle *bundle, struct kg_json_writer *json,
                              const struct kg_member *member)
{
    const struct kg_node *setting = &member->value;
    struct kg_str name = kg_node_text(setting, "type");
    const struct type *type = NULL;
    for (size_t i = 0; i < KG_COUNT(types); i++)
        if (kg_str_is(name, types[i].name))
            type = &types[i];
    if (!key_is_plain(member->key))
        return bundle_refuse(bundle, "user_config", "the name of a setting is not plain text");
    if (type == NULL)
        return kg_fail(bundle->err, KG_E_INVALID_SOURCE,
                       "user_config: the setting %.*s has a type that kaged does not know",
                       KG_STR_ARG(member->key));
    bool multiple = kg_node_is_true(setting, "multiple") && type->value == KG_STRING;
    kg_auto(kg_buf_free) struct kg_buf key = {0};
    bundle_put_key(&key, member->key, setting);
    kg_json_named_begin(json, kg_buf_terminate(&key), '{');
    bundle_put_type(json, type, multiple, !kg_node_is_true(setting, "required"));
    bundle_put_text(json, "title", kg_node_text(setting, "title"));
    bundle_put_text(json, "description", kg_node_text(setting, "description"));
    put_bound(json, "minimum", type->value == KG_NUMBER ? kg_node_get(setting, "min") : NULL);
    put_bound(json, "maximum", type->value == KG_NUMBER ? kg_node_get(setting, "max") : NULL);
    if (is_sensitive(setting))
        kg_json_named_bool(json, "sensitive", true);
    bundle_put_default(bundle, json, member, type, multiple);
    kg_json_end(json, '}');
    return 0;
}

/* The settings of one side: those that are the operator's alone, or the others. */
static int bundle_put_side(struct bundle *bundle, bool sensitive, struct kg_buf *out)
{
    kg_auto(kg_buf_free) struct kg_buf fields = {0}, required = {0};
    struct kg_json_writer json = kg_json_writer(&fields), must = kg_json_writer(&required);
    size_t count = 0;
    kg_json_begin(&json, '{');
    kg_json_begin(&must, '[');
    for (uint32_t i = 0; i < bundle->settings->count; i++) {
        const struct kg_member *member = &bundle->settings->members[i];
        if (is_sensitive(&member->value) != sensitive)
            continue;
        int result = bundle_put_setting(bundle, &json, member);
        if (result < 0)
            return result;
        kg_auto(kg_buf_free) struct kg_buf key = {0};
        bundle_put_key(&key, member->key, &member->value);
        if (kg_node_is_true(&member->value, "required"))
            kg_json_str(&must, kg_buf_view(&key));
        count++;
    }
    kg_json_end(&json, '}');
    kg_json_end(&must, ']');
    if (count > 0)
        kg_buf_printf(out, "{\"type\":\"object\",\"required\":%.*s,\"properties\":%.*s}",
                      KG_STR_ARG(kg_buf_view(&required)), KG_STR_ARG(kg_buf_view(&fields)));
    return 0;
}

static int bundle_take_settings(struct bundle *bundle)
{
    bundle->settings = kg_node_typed(bundle->root, "user_config", KG_OBJECT);
    if (bundle->settings == NULL)
        return 0;
    if (bundle->settings->count > SETTINGS_MAX)
        return bundle_refuse(bundle, "user_config", "there are more than 128 settings");
    int result = bundle_put_side(bundle, false, &bundle->config_schema);
    return result < 0 ? result : bundle_put_side(bundle, true, &bundle->system_config_schema);
}

/* -- words ------------------------------------------------------------------------------------- */

/* Places of the person whose desktop it was made for: what it has instead is its own. */
static const struct {
    const char *name, *place;
} places[] = {
    {"__dirname", "${plugin_dir}"},
    {"/", "/"},
    {"pathSeparator", "/"},
    {"HOME", "${data_dir}"},
    {"DESKTOP", "${data_dir}/Desktop"},
    {"DOCUMENTS", "${data_dir}/Documents"},
    {"DOWNLOADS", "${data_dir}/Downloads"},
};
static const char data_dir[] = "${data_dir}";

static void use_data_dir(struct bundle *bundle, const char *name)
{
    bundle_remark(bundle, "${%s} is a folder of its own, config:/, and not your home", name);
    if (bundle->capabilities[0] == NULL)
        kg_list_add(&bundle->capabilities, kg_strdup("write:fs:config:/"));
}

/* inside: what stands between the braces. */
static int bundle_put_place(struct bundle *bundle, struct kg_str inside, struct kg_buf *out)
{
    static const char prefix[] = "user_config.";
    for (size_t i = 0; i < KG_COUNT(places); i++) {
        if (!kg_str_is(inside, places[i].name))
            continue;
        kg_buf_text(out, places[i].place);
        if (kg_str_starts(kg_str(places[i].place), data_dir))
            use_data_dir(bundle, places[i].name);
        return 0;
    }
    if (!kg_str_starts(inside, prefix)) {
        bundle_remark(bundle, "${%.*s} means nothing here, and stays as it is",
                      KG_STR_CUT(inside, KG_CUT_NAME));
        kg_buf_printf(out, "${%.*s}", KG_STR_ARG(inside));
        return 0;
    }
    struct kg_str key = kg_str_from(inside, strlen(prefix));
    const struct kg_member *setting =
        bundle->settings ? kg_node_member(bundle->settings, key) : NULL;
    if (setting == NULL)
        return kg_fail(bundle->err, KG_E_INVALID_SOURCE,
                       "it is started with ${user_config.%.*s}, and has no such setting",
                       KG_STR_CUT(key, KG_CUT_NAME));
    kg_buf_text(out, "${config.");
    bundle_put_key(out, key, &setting->value);
    kg_buf_char(out, '}');
    return 0;
}

/* One word of the bundle in our own. */
static int translate(struct bundle *bundle, const char *what, const struct kg_node *node,
                     struct kg_buf *out)
{
    if (node->type != KG_STRING || node->text.length > WORD_MAX)
        return bundle_refuse(bundle, what, "it is not a text, or too long");
    if (!kg_str_is_plain(node->text))
        return bundle_refuse(bundle, what, "it contains an invisible character");
    struct kg_str rest = node->text;
    while (rest.length > 0) {
        const char *begin = memmem(rest.data, rest.length, "${", 2);
        const char *end =
            begin ? memchr(begin, '}', (size_t)(rest.data + rest.length - begin)) : NULL;
        if (end == NULL) {
            kg_buf_str(out, rest);
            return 0;
        }
        kg_buf_append(out, rest.data, (size_t)(begin - rest.data));
        int result =
            bundle_put_place(bundle, (struct kg_str){begin + 2, (size_t)(end - begin - 2)}, out);
        if (result < 0)
            return result;
        rest = kg_str_from(rest, (size_t)(end + 1 - rest.data));
    }
    return 0;
}

static int bundle_add_word(struct bundle *bundle, const char *what, const struct kg_node *node,
                           char ***list)
{
    kg_auto(kg_buf_free) struct kg_buf word = {0};
    int result = translate(bundle, what, node, &word);
    if (result == 0)
        kg_list_add(list, kg_str_dup(kg_buf_view(&word)));
    return result;
}

/* -- the program ------------------------------------------------------------------------------- */

static bool fetches_code(struct kg_str program)
{
    static const char *const names[] = {"npx", "npm",  "bunx", "bun",  "pnpm",   "yarn",  "uv",
                                        "uvx", "pipx", "pip",  "deno", "docker", "podman"};
    for (size_t i = 0; i < KG_COUNT(names); i++)
        if (kg_str_is(program, names[i]))
            return true;
    return false;
}

/* In the bundle's folder it is relative, which the manifest takes for just that. */
static int bundle_take_program(struct bundle *bundle, const struct kg_node *node)
{
    static const char folder[] = "${__dirname}/";
    struct kg_str text = node->type == KG_STRING ? node->text : KG_STR("");
    if (fetches_code(text)) {
        kg_fail(bundle->err, KG_E_INVALID_SOURCE,
                "it is started by %.*s, which fetches code that nobody approved", KG_STR_ARG(text));
        return kg_hint(bundle->err, "ask its author for a bundle that carries what it needs");
    }
    bool is_inside = kg_str_starts(text, folder);
    struct kg_str rest = is_inside ? kg_str_from(text, strlen(folder)) : text;
    if (rest.length == 0 || rest.length > WORD_MAX || !kg_str_is_plain(rest) ||
        memmem(rest.data, rest.length, "${", 2) != NULL)
        return bundle_refuse(bundle, "command", "it is not the name of a program");
    if (kg_str_is(rest, "python"))
        rest = KG_STR("python3");
    kg_list_add(&bundle->command, kg_format("%s%.*s", is_inside ? "./" : "", KG_STR_ARG(rest)));
    return 0;
}

static int take_args(struct bundle *bundle, const struct kg_node *args)
{
    int result = 0;
    for (uint32_t i = 0; args != NULL && i < args->count && result == 0; i++)
        result = bundle_add_word(bundle, "args", &args->items[i], &bundle->command);
    return result;
}

static int bundle_take_env(struct bundle *bundle, const struct kg_node *env)
{
    for (uint32_t i = 0; env != NULL && i < env->count; i++) {
        const struct kg_member *member = &env->members[i];
        kg_auto(kg_buf_free) struct kg_buf entry = {0};
        if (!kg_str_is_plain(member->key) || member->key.length == 0 ||
            memchr(member->key.data, '=', member->key.length) != NULL)
            return bundle_refuse(bundle, "env", "the name of a variable is not plain text");
        kg_buf_printf(&entry, "%.*s=", KG_STR_ARG(member->key));
        int result = translate(bundle, "env", &member->value, &entry);
        if (result < 0)
            return result;
        kg_list_add(&bundle->env, kg_str_dup(kg_buf_view(&entry)));
    }
    return 0;
}

/* A bundle that does not say how it is started says what it is. */
static int take_entry_point(struct bundle *bundle, const struct kg_node *server)
{
    const struct kg_node *entry = kg_node_typed(server, "entry_point", KG_STRING);
    struct kg_str type = kg_node_text(server, "type");
    if (entry == NULL || !kg_str_is_plain(entry->text))
        return bundle_refuse(bundle, "server", "it has neither mcp_config nor entry_point");
    if (!kg_str_is(type, "binary"))
        kg_list_add(&bundle->command, kg_strdup(kg_str_is(type, "python") ? "python3" : "node"));
    kg_list_add(&bundle->command, kg_format("./%.*s", KG_STR_CUT(entry->text, WORD_MAX)));
    return 0;
}

/* The one of this system, or else that for all. */
static const struct kg_node *of_linux(const struct kg_node *config, const char *key,
                                      enum kg_type type)
{
    const struct kg_node *overrides = kg_node_typed(config, "platform_overrides", KG_OBJECT);
    const struct kg_node *ours = kg_node_typed(overrides, "linux", KG_OBJECT);
    const struct kg_node *value = kg_node_typed(ours, key, type);
    return value ? value : kg_node_typed(config, key, type);
}

static int bundle_take_command(struct bundle *bundle, const struct kg_node *server)
{
    const struct kg_node *config = kg_node_typed(server, "mcp_config", KG_OBJECT);
    const struct kg_node *program = of_linux(config, "command", KG_STRING);
    int result =
        program != NULL ? bundle_take_program(bundle, program) : take_entry_point(bundle, server);
    if (result == 0)
        result = take_args(bundle, of_linux(config, "args", KG_ARRAY));
    return result < 0 ? result : bundle_take_env(bundle, of_linux(config, "env", KG_OBJECT));
}

/* -- the whole --------------------------------------------------------------------------------- */

static int bundle_check_type(const struct bundle *bundle, const struct kg_node *server)
{
    struct kg_str type = kg_node_text(server, "type");
    if (kg_str_is(type, "node") || kg_str_is(type, "python") || kg_str_is(type, "binary"))
        return 0;
    if (kg_str_is(type, "uv"))
        return bundle_refuse(bundle, "server",
                             "its type is uv, which fetches what it needs when it is started");
    return bundle_refuse(bundle, "server", "its type is not one of node, python and binary");
}

static int check_platform(struct bundle *bundle, const struct kg_node *server)
{
    const struct kg_node *compatibility = kg_node_typed(bundle->root, "compatibility", KG_OBJECT);
    const struct kg_node *platforms = kg_node_list(compatibility, "platforms");
    if (platforms->count == 0 || kg_node_has_text(platforms, KG_STR("linux")))
        return 0;
    if (kg_str_is(kg_node_text(server, "type"), "binary"))
        return bundle_refuse(bundle, "compatibility",
                             "it is a program for other systems than Linux");
    bundle_remark(bundle, "its author does not say that it runs on Linux");
    return 0;
}

/* "v1.2" is 1.2.0. Owned; NULL: it is not a version at all. */
static char *bundle_version_of(struct kg_str text)
{
    static const char *const ends[] = {"", ".0", ".0.0"};
    struct kg_semver parsed;
    if (text.length > 1 && text.data[0] == 'v')
        text = kg_str_from(text, 1);
    for (size_t i = 0; i < KG_COUNT(ends) && text.length < KG_SEMVER_BYTES_MAX / 2; i++) {
        kg_auto(kg_free) char *version = kg_format("%.*s%s", KG_STR_ARG(text), ends[i]);
        if (kg_semver_parse(kg_str(version), &parsed))
            return kg_steal(&version);
    }
    return NULL;
}

static char *bundle_text_of(const struct kg_node *node, const char *key)
{
    struct kg_str text = kg_node_text(node, key);
    return text.length > 0 ? kg_str_dup(text) : NULL;
}

static struct kg_doc *schema_of(const struct kg_buf *json)
{
    return json->length > 0 ? kg_json_read(kg_buf_view(json), NULL) : NULL;
}

static void bundle_put_manifest(struct bundle *bundle, struct kg_buf *out)
{
    const struct kg_node *root = bundle->root;
    kg_auto(kg_free) char *name = bundle_text_of(root, "name");
    kg_auto(kg_free) char *slug = store_server_name(name);
    kg_auto(kg_free) char *version = bundle_version_of(kg_node_text(root, "version"));
    kg_auto(kg_free) char *description = bundle_text_of(root, "description");
    kg_auto(kg_free) char *author = bundle_text_of(kg_node_get(root, "author"), "name");
    kg_auto(kg_free) char *license = bundle_text_of(root, "license");
    kg_auto(kg_free) char *homepage = bundle_text_of(root, "homepage");
    kg_auto(kg_doc_cleanup) struct kg_doc *config = schema_of(&bundle->config_schema);
    kg_auto(kg_doc_cleanup) struct kg_doc *system = schema_of(&bundle->system_config_schema);
    if (version == NULL)
        bundle_remark(bundle, "its version is not of the form 1.2.3: 0.0.0 is used");
    store_server_manifest(
        &(struct store_server){
            .name = slug ? slug : "server",
            .version = version,
            .description = description,
            .author = author,
            .license = license,
            .homepage = homepage,
            .command = bundle->command,
            .env = bundle->env,
            .capabilities = bundle->capabilities,
            .config_schema = config ? config->root : NULL,
            .system_config_schema = system ? system->root : NULL,
        },
        out);
}

int bundle_manifest(struct kg_str text, struct kg_buf *ret_manifest, char ***ret_remarks,
                    struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(text, err);
    if (doc == NULL) {
        err->code = KG_E_INVALID_SOURCE;
        return -EINVAL;
    }
    kg_auto(bundle_free) struct bundle bundle = {.root = doc->root,
                                                 .command = kg_list_new(0),
                                                 .env = kg_list_new(0),
                                                 .capabilities = kg_list_new(0),
                                                 .remarks = kg_list_new(0),
                                                 .err = err};
    const struct kg_node *server = kg_node_typed(doc->root, "server", KG_OBJECT);
    if (server == NULL || kg_node_text(doc->root, "name").length == 0)
        return kg_fail(err, KG_E_INVALID_SOURCE, "it does not say what server the bundle holds");
    int result = bundle_check_type(&bundle, server);
    if (result == 0)
        result = check_platform(&bundle, server);
    if (result == 0)
        result = bundle_take_settings(&bundle);
    if (result == 0)
        result = bundle_take_command(&bundle, server);
    if (result < 0)
        return result;
    bundle_put_manifest(&bundle, ret_manifest);
    *ret_remarks = kg_steal(&bundle.remarks);
    return 0;
}
