/*
 * The manifest of an MCP server in the words of other clients: manifest.json of an .mcpb file. What
 * bundle.c reads is written here, the other way round. kaged itself reads kaged-plugin.yaml, which
 * is in the file, too.
 */
#include "store/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MANIFEST_VERSION "0.3"

struct making {
    const struct manifest *manifest;
    struct kg_json_writer json;
    char ***remarks;
};

static void pack_json_remark(const struct making *making, const char *format, ...) KG_PRINTF(2, 3);
static void pack_json_remark(const struct making *making, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (!kg_list_has(*making->remarks, kg_str(line)))
        kg_list_add(making->remarks, kg_strdup(line));
}

/* -- words ------------------------------------------------------------------------------------- */

/* What stands between the braces. */
static void pack_json_put_place(const struct making *making, struct kg_str inside,
                                struct kg_buf *out)
{
    static const char setting[] = "config.";
    if (kg_str_is(inside, "plugin_dir"))
        kg_buf_text(out, "${__dirname}");
    else if (kg_str_is(inside, "data_dir"))
        kg_buf_printf(out, "${HOME}/.%s", making->manifest->name);
    else if (kg_str_starts(inside, setting))
        kg_buf_printf(out, "${user_config.%.*s}",
                      KG_STR_ARG(kg_str_from(inside, sizeof(setting) - 1)));
    else {
        pack_json_remark(making, "${%.*s} means nothing to other clients",
                         KG_STR_CUT(inside, KG_CUT_NAME));
        kg_buf_printf(out, "${%.*s}", KG_STR_ARG(inside));
    }
}

/* Paths in the plugin's folder are relative here, and not there. */
static void pack_json_put_word(const struct making *making, struct kg_str rest, struct kg_buf *out)
{
    if (kg_str_starts(rest, "./")) {
        kg_buf_text(out, "${__dirname}/");
        rest = kg_str_from(rest, 2);
    }
    while (rest.length > 0) {
        const char *begin = memmem(rest.data, rest.length, "${", 2);
        const char *end =
            begin ? memchr(begin, '}', (size_t)(rest.data + rest.length - begin)) : NULL;
        if (end == NULL)
            break;
        kg_buf_append(out, rest.data, (size_t)(begin - rest.data));
        pack_json_put_place(making, (struct kg_str){begin + 2, (size_t)(end - begin - 2)}, out);
        rest = kg_str_from(rest, (size_t)(end + 1 - rest.data));
    }
    kg_buf_str(out, rest);
}

static void pack_json_put_named(struct making *making, const char *key, struct kg_str word)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    pack_json_put_word(making, word, &text);
    kg_json_named_str(&making->json, key, kg_buf_view(&text));
}

/* -- the program ------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* "/usr/bin/env node x" is started by node; a script that names its own program stays one. */
struct program {
    const char *type;
    const char *command; /* NULL: the first argument is it */
    char *const *args;
};

static struct program pack_json_find_program(const struct manifest *manifest)
{
    char *const *words = manifest->command;
    const char *name = kg_path_name(words[0]);
    if (strcmp(name, "env") == 0 && words[1] != NULL)
        name = kg_path_name(*++words);
    if (strncmp(name, "node", 4) == 0)
        return (struct program){"node", "node", words + 1};
    if (strncmp(name, "python", 6) == 0)
        return (struct program){"python", "python3", words + 1};
    if (ends_with(name, ".py"))
        return (struct program){"python", "python3", words};
    if (ends_with(name, ".js") || ends_with(name, ".mjs") || ends_with(name, ".cjs"))
        return (struct program){"node", "node", words};
    return (struct program){"binary", NULL, words};
}

/* The first word that is a file of the plugin. */
static const char *entry_point(char *const *words)
{
    while (*words != NULL && strncmp(*words, "./", 2) != 0)
        words++;
    return *words != NULL ? *words + 2 : "";
}

static void put_env(struct making *making)
{
    kg_json_named_begin(&making->json, "env", '{');
    for (char **entry = making->manifest->env; *entry != NULL; entry++) {
        const char *value = strchr(*entry, '=');
        kg_auto(kg_free) char *name = kg_str_dup((struct kg_str){*entry, (size_t)(value - *entry)});
        pack_json_put_named(making, name, kg_str(value + 1));
    }
    kg_json_end(&making->json, '}');
}

static void pack_json_put_server(struct making *making)
{
    struct program program = pack_json_find_program(making->manifest);
    char *const *args = program.args;
    kg_json_named_begin(&making->json, "server", '{');
    kg_json_named_text(&making->json, "type", program.type);
    kg_json_named_text(&making->json, "entry_point", entry_point(args));
    kg_json_named_begin(&making->json, "mcp_config", '{');
    pack_json_put_named(making, "command", kg_str(program.command ? program.command : *args++));
    kg_json_named_begin(&making->json, "args", '[');
    for (; *args != NULL; args++) {
        kg_auto(kg_buf_free) struct kg_buf word = {0};
        pack_json_put_word(making, kg_str(*args), &word);
        kg_json_str(&making->json, kg_buf_view(&word));
    }
    kg_json_end(&making->json, ']');
    put_env(making);
    kg_json_end(&making->json, '}');
    kg_json_end(&making->json, '}');
}

/* -- settings ---------------------------------------------------------------------------------- */

/* The format's word for a type of a schema; NULL: it has none. *ret_many: a list of texts. */
static const char *pack_json_type_of(const struct kg_node *setting, bool *ret_many)
{
    struct kg_str type = kg_node_text(setting, "type");
    const struct kg_node *items = kg_node_typed(setting, "items", KG_OBJECT);
    *ret_many = kg_str_is(type, "array") && kg_str_is(kg_node_text(items, "type"), "string");
    if (kg_str_is(type, "string") || *ret_many)
        return "string";
    if (kg_str_is(type, "number") || kg_str_is(type, "integer"))
        return "number";
    return kg_str_is(type, "boolean") ? "boolean" : NULL;
}

static void pack_json_copy_member(struct making *making, const struct kg_node *setting,
                                  const char *from, const char *to)
{
    const struct kg_node *value = kg_node_get(setting, from);
    if (value != NULL)
        kg_json_named_node(&making->json, to, value);
}

static void pack_json_put_setting(struct making *making, const struct kg_node *schema,
                                  const struct kg_member *member, bool is_secret)
{
    static const char *const kept[][2] = {{"description", "description"},
                                          {"default", "default"},
                                          {"minimum", "min"},
                                          {"maximum", "max"}};
    const struct kg_node *setting = &member->value;
    kg_auto(kg_free) char *key = kg_str_dup(member->key);
    struct kg_str title = kg_node_text(setting, "title");
    bool many;
    const char *type = pack_json_type_of(setting, &many);
    if (type == NULL) {
        pack_json_remark(
            making, "the setting %" KG_S_NAME " has a type that manifest.json does not have", key);
        return;
    }
    kg_json_named_begin(&making->json, key, '{');
    kg_json_named_text(&making->json, "type", type);
    kg_json_named_str(&making->json, "title", title.length > 0 ? title : member->key);
    for (size_t i = 0; i < KG_COUNT(kept); i++)
        pack_json_copy_member(making, setting, kept[i][0], kept[i][1]);
    if (kg_node_get(setting, "description") == NULL)
        kg_json_named_str(&making->json, "description", title.length > 0 ? title : member->key);
    kg_json_named_bool(&making->json, "required",
                       kg_node_has_text(kg_node_get(schema, "required"), member->key));
    if (many)
        kg_json_named_bool(&making->json, "multiple", true);
    if (is_secret || kg_node_is_true(setting, "sensitive"))
        kg_json_named_bool(&making->json, "sensitive", true);
    kg_json_end(&making->json, '}');
}

static void pack_json_put_settings(struct making *making, const struct kg_node *schema,
                                   bool is_secret)
{
    const struct kg_node *properties = kg_node_typed(schema, "properties", KG_OBJECT);
    for (uint32_t i = 0; properties != NULL && i < properties->count; i++)
        pack_json_put_setting(making, schema, &properties->members[i], is_secret);
}

/* -- the whole --------------------------------------------------------------------------------- */

static void pack_json_put_text(struct making *making, const char *key, const char *text_or_null)
{
    if (text_or_null != NULL)
        kg_json_named_text(&making->json, key, text_or_null);
}

int pack_put_json(const struct manifest *manifest, struct kg_buf *out, char ***ret_remarks,
                  struct kg_err *err)
{
    struct making making = {manifest, kg_json_writer(out), ret_remarks};
    struct kg_json_writer *json = &making.json;
    if (manifest->url != NULL)
        return kg_fail(err, KG_E_NOT_APPLICABLE,
                       "it is a server somewhere else: there is nothing to pack");
    kg_json_begin(json, '{');
    kg_json_named_text(json, "manifest_version", MANIFEST_VERSION);
    kg_json_named_text(json, "name", manifest->name);
    kg_json_named_text(json, "version", manifest->version);
    kg_json_named_text(json, "description", manifest->description);
    kg_json_named_begin(json, "author", '{');
    kg_json_named_text(json, "name", manifest->author ? manifest->author : manifest->name);
    kg_json_end(json, '}');
    pack_json_put_text(&making, "license", manifest->license);
    pack_json_put_text(&making, "homepage", manifest->homepage);
    pack_json_put_server(&making);
    kg_json_named_begin(json, "user_config", '{');
    pack_json_put_settings(&making, manifest->config_schema_node, false);
    pack_json_put_settings(&making, manifest->system_config_schema_node, true);
    kg_json_end(json, '}');
    kg_json_named_raw(json, "compatibility", KG_STR("{\"platforms\":[\"linux\"]}"));
    kg_json_named_bool(json, "tools_generated", true);
    kg_json_end(json, '}');
    kg_buf_char(out, '\n');
    return 0;
}
