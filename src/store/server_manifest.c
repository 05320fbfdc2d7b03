/*
 * A manifest is made here for a server that has none. It is text like any other manifest: it is
 * hashed with the files, read by the same rules, and shown to the operator, who approves it.
 */
#include "store/server.h"

#include "base/semver.h"
#include "manifest/manifest.h"

#include <stdlib.h>
#include <unistd.h>

#define NAME_BYTES_MAX 64
#define LINE_BYTES_MAX 200 /* as the schema of manifests has it */
#define URL_BYTES_MAX  300

/* -- names ------------------------------------------------------------------------------------- */

/* What is made of a text; "" if nothing of it can stay. */
static void server_manifest_put_name(struct kg_buf *out, struct kg_str text)
{
    for (size_t i = 0; i < text.length && out->length < NAME_BYTES_MAX; i++) {
        char c = kg_is_letter(text.data[i]) ? (char)(text.data[i] | 0x20) : text.data[i];
        if (kg_is_lower(c) || (kg_is_digit(c) && out->length > 0))
            kg_buf_char(out, c);
        else if (out->length > 0 && out->data[out->length - 1] != '-')
            kg_buf_char(out, '-');
    }
    while (out->length > 0 && out->data[out->length - 1] == '-')
        out->length--;
}

static bool says_nothing(struct kg_str name)
{
    static const char *const names[] = {"mcp", "server", "mcp-server", "server-mcp", "cli"};
    for (size_t i = 0; i < KG_COUNT(names); i++)
        if (kg_str_is(name, names[i]))
            return true;
    return false;
}

char *store_server_name(const char *package_or_name)
{
    kg_auto(kg_buf_free) struct kg_buf name = {0};
    const char *slash = strrchr(package_or_name, '/');
    struct kg_str last = kg_str(slash ? slash + 1 : package_or_name);
    bool with_scope = package_or_name[0] == '@' && slash != NULL && says_nothing(last);
    server_manifest_put_name(&name, with_scope ? kg_str(package_or_name + 1) : last);
    return name.length > 0 ? kg_str_dup(kg_buf_view(&name)) : NULL;
}

/* -- the text ---------------------------------------------------------------------------------- */

/* A value of JSON is one of YAML, too. */
static struct kg_json_writer begin_value(struct kg_buf *out, const char *key)
{
    kg_buf_printf(out, "%s: ", key);
    return kg_json_writer(out);
}

static void server_manifest_put_text(struct kg_buf *out, const char *key, const char *text)
{
    struct kg_json_writer json = begin_value(out, key);
    kg_json_text(&json, text);
    kg_buf_char(out, '\n');
}

/* The first line of a stranger's words. */
static void server_manifest_put_line(struct kg_buf *out, const char *key, const char *text,
                                     const char *otherwise)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_escaped(&line, (struct kg_str){text, text ? strcspn(text, "\r\n") : 0});
    if (line.length > LINE_BYTES_MAX)
        line.length = kg_utf8_valid((struct kg_str){line.data, LINE_BYTES_MAX});
    const char *shown = line.length > 0 ? kg_buf_terminate(&line) : otherwise;
    if (shown != NULL)
        server_manifest_put_text(out, key, shown);
}

static void server_manifest_put_list(struct kg_buf *out, const char *key, char *const *list)
{
    struct kg_json_writer json = begin_value(out, key);
    kg_json_begin(&json, '[');
    for (; list != NULL && *list != NULL; list++)
        kg_json_text(&json, *list);
    kg_json_end(&json, ']');
    kg_buf_char(out, '\n');
}

/* "NAME=value" each. */
static void server_manifest_put_pairs(struct kg_buf *out, const char *key, char *const *env)
{
    if (env == NULL || *env == NULL)
        return;
    struct kg_json_writer json = begin_value(out, key);
    kg_json_begin(&json, '{');
    for (; *env != NULL; env++) {
        const char *equals = strchr(*env, '=');
        kg_auto(kg_free) char *name =
            equals ? kg_str_dup((struct kg_str){*env, (size_t)(equals - *env)}) : NULL;
        if (name != NULL)
            kg_json_named_text(&json, name, equals + 1);
    }
    kg_json_end(&json, '}');
    kg_buf_char(out, '\n');
}

static void put_node(struct kg_buf *out, const char *key, const struct kg_node *node)
{
    if (node == NULL)
        return;
    struct kg_json_writer json = begin_value(out, key);
    kg_json_node(&json, node);
    kg_buf_char(out, '\n');
}

/* What would be refused as a URL is left out. */
static void put_homepage(struct kg_buf *out, const char *url)
{
    if (url == NULL || (strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0))
        return;
    for (const char *at = url; *at != '\0'; at++)
        if (!kg_is_letter_or_digit(*at) && strchr("-._~:/?#@!$&'()*+,;=", *at) == NULL)
            return;
    if (strlen(url) <= URL_BYTES_MAX)
        server_manifest_put_text(out, "homepage", url);
}

static bool server_manifest_is_package(const struct store_server *server)
{
    return server->package != NULL && manifest_package_is_valid(kg_str(server->package)) &&
           kg_str_is(manifest_package_name(kg_str(server->package)), server->name);
}

void store_server_manifest(const struct store_server *server, struct kg_buf *ret_text)
{
    struct kg_semver version;
    bool is_version = server->version != NULL && kg_semver_parse(kg_str(server->version), &version);
    kg_buf_text(ret_text, "# Made when this server was fetched: it has no manifest of its own.\n");
    server_manifest_put_text(ret_text, "name", server->name);
    if (server_manifest_is_package(server))
        server_manifest_put_text(ret_text, "package", server->package);
    server_manifest_put_text(ret_text, "version", is_version ? server->version : "0.0.0");
    kg_buf_text(ret_text, "kaged_api: 1\nprotocol: mcp\n");
    server_manifest_put_line(ret_text, "description", server->description, "An MCP server.");
    server_manifest_put_line(ret_text, "author", server->author, NULL);
    server_manifest_put_line(ret_text, "license", server->license, NULL);
    put_homepage(ret_text, server->homepage);
    if (server->url != NULL)
        server_manifest_put_text(ret_text, "url", server->url);
    else
        server_manifest_put_list(ret_text, "command", server->command);
    server_manifest_put_pairs(ret_text, "headers", server->headers);
    server_manifest_put_pairs(ret_text, "env", server->env);
    server_manifest_put_list(ret_text, "capabilities", server->capabilities);
    put_node(ret_text, "config_schema", server->config_schema);
    put_node(ret_text, "system_config_schema", server->system_config_schema);
}

/* -- paths among the arguments ----------------------------------------------------------------- */

/* Where a path begins in an argument; NULL: there is none. */
static const char *server_manifest_path_in(const char *arg)
{
    if (arg[0] == '/')
        return arg;
    const char *equals = arg[0] == '-' ? strchr(arg, '=') : NULL;
    return equals != NULL && equals[1] == '/' ? equals + 1 : NULL;
}

void store_server_paths(char **args, bool write, char ***capabilities)
{
    for (char **arg = args; *arg != NULL; arg++) {
        const char *path = server_manifest_path_in(*arg);
        char *real = path ? realpath(path, NULL) : NULL;
        if (real == NULL)
            continue;
        kg_auto(kg_free) char *line = kg_format("%s:fs:%s", write ? "write" : "read", real);
        if (!kg_list_has(*capabilities, kg_str(line)))
            kg_list_add(capabilities, kg_steal(&line));
        char *filled = kg_format("%.*s%s", (int)(path - *arg), *arg, real);
        free(*arg);
        free(real);
        *arg = filled;
    }
}
