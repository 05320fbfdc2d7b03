/*
 * The files in which clients keep their MCP servers. What a file is, is seen by what is in it, so
 * that one that the operator names needs no option.
 */
#include "import/internal.h"

#include "base/doc.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((size_t)8 << 20) /* ~/.claude.json keeps histories, too */
#define SERVERS_MAX    256

/* -- what clients there are -------------------------------------------------------------------- */

enum place { AT_HOME, HERE };

static const struct {
    const char *client;
    enum place place;
    const char *path;
} places[] = {
    {"Claude Desktop", AT_HOME, ".config/Claude/claude_desktop_config.json"},
    {"Claude Code", AT_HOME, ".claude.json"},
    {"Claude Code", HERE, ".mcp.json"},
    {"Cursor", AT_HOME, ".cursor/mcp.json"},
    {"Cursor", HERE, ".cursor/mcp.json"},
    {"VS Code", AT_HOME, ".config/Code/User/mcp.json"},
    {"VS Code", HERE, ".vscode/mcp.json"},
    {"Windsurf", AT_HOME, ".codeium/windsurf/mcp_config.json"},
    {"opencode", AT_HOME, ".config/opencode/opencode.json"},
    {"opencode", AT_HOME, ".config/opencode/opencode.jsonc"},
    {"opencode", HERE, "opencode.json"},
    {"opencode", HERE, "opencode.jsonc"},
    {"Codex", AT_HOME, ".codex/config.toml"},
    {"Gemini CLI", AT_HOME, ".gemini/settings.json"},
    {"Gemini CLI", HERE, ".gemini/settings.json"},
};

/* -- what is in them --------------------------------------------------------------------------- */

/* Under which key of a file its servers are. */
static const char *const keys[] = {"mcpServers", "servers", "mcp", "mcp_servers"};

static size_t add_servers(const struct kg_node *object, const char *client, const char *path,
                          const char *folder, struct import_list *list)
{
    size_t found = 0;
    for (size_t i = 0; i < KG_COUNT(keys); i++) {
        const struct kg_node *servers = kg_node_typed(object, keys[i], KG_OBJECT);
        for (uint32_t k = 0; servers && k < servers->count && list->count < SERVERS_MAX; k++) {
            const struct import_entry entry = {servers->members[k].key, &servers->members[k].value,
                                               folder};
            import_add(list, &entry, client, path);
            found++;
        }
    }
    return found;
}

/* Claude Code's own file has those of each project, too. */
static void add_projects(const struct kg_node *root, const char *client, const char *path,
                         struct import_list *list)
{
    const struct kg_node *projects = kg_node_typed(root, "projects", KG_OBJECT);
    for (uint32_t i = 0; projects && i < projects->count; i++) {
        kg_auto(kg_free) char *folder = kg_str_dup(projects->members[i].key);
        add_servers(&projects->members[i].value, client, path, folder, list);
    }
}

static struct kg_doc *clients_read_text(struct kg_str text, const char *path, struct kg_err *err)
{
    if (kg_str_ends(kg_str(path), ".toml"))
        return kg_toml_read(text, err);
    kg_auto(kg_buf_free) struct kg_buf plain = {0};
    kg_buf_str(&plain, text);
    jsonc_plain(&plain);
    return kg_json_read(kg_buf_view(&plain), err);
}

int import_parse(struct kg_str text, const char *path, const char *client, const char *folder,
                 struct import_list *list, struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = clients_read_text(text, path, err);
    if (doc == NULL) {
        err->code = KG_E_INVALID_CONFIG;
        kg_wrap_file(err, path);
        return -EINVAL;
    }
    add_servers(doc->root, client, path, folder, list);
    add_projects(doc->root, client, path, list);
    return 0;
}

/* -- finding them ------------------------------------------------------------------------------ */

/* A folder of a client's own (.vscode) is in the project's. */
static char *clients_project_of(const char *path)
{
    kg_auto(kg_free) char *folder = kg_path_folder(path);
    return kg_path_name(folder)[0] == '.' ? kg_path_folder(folder) : kg_steal(&folder);
}

static int clients_read_file(const char *path, const char *client, struct import_list *list,
                             struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_free) char *folder = clients_project_of(path);
    int result = kg_read_file(path, FILE_BYTES_MAX, &text, err);
    if (result == 0)
        result = import_parse(kg_buf_view(&text), path, client, folder, list, err);
    if (result == 0)
        kg_list_add(&list->files, kg_strdup(path));
    return result;
}

static void make_lists(struct import_list *list)
{
    if (list->files == NULL)
        list->files = kg_list_new(0);
    if (list->problems == NULL)
        list->problems = kg_list_new(0);
}

void import_find(const char *home, const char *here, struct import_list *list)
{
    make_lists(list);
    for (size_t i = 0; i < KG_COUNT(places); i++) {
        const char *folder = places[i].place == HERE ? here : home;
        struct kg_err err = {0};
        kg_auto(kg_free) char *path = kg_path_join(folder, places[i].path);
        if (kg_list_has(list->files, kg_str(path)) || access(path, F_OK) < 0)
            continue;
        if (clients_read_file(path, places[i].client, list, &err) < 0)
            kg_list_add(&list->problems, kg_strdup(err.message));
    }
}

/* Whose it is, as far as its name tells. */
static const char *client_of(const char *path)
{
    for (size_t i = 0; i < KG_COUNT(places); i++)
        if (kg_str_ends(kg_str(path), places[i].path))
            return places[i].client;
    return "";
}

int import_read(const char *path, struct import_list *list, struct kg_err *err)
{
    make_lists(list);
    kg_auto(kg_free) char *real = realpath(path, NULL);
    if (real == NULL) {
        kg_fail_errno(err, errno, "%s", path);
        err->code = errno == ENOENT ? KG_E_NOT_FOUND : err->code;
        return -EINVAL;
    }
    return clients_read_file(real, client_of(real), list, err);
}

/* -- the list ---------------------------------------------------------------------------------- */

void import_server_free(struct import_server *server)
{
    char *const texts[] = {server->name,   server->plugin, server->client,
                           server->source, server->why,    server->instead};
    char **const lists[] = {server->files, server->args, server->env, server->headers,
                            server->dangers};
    for (size_t i = 0; i < KG_COUNT(texts); i++)
        free(texts[i]);
    for (size_t i = 0; i < KG_COUNT(lists); i++)
        kg_list_free(lists[i]);
    for (size_t i = 0; i < server->key_count; i++) {
        if (server->keys[i].value != NULL)
            explicit_bzero(server->keys[i].value, strlen(server->keys[i].value));
        free(server->keys[i].name);
        free(server->keys[i].value);
    }
    free(server->keys);
}

void import_list_free(struct import_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        import_server_free(&list->items[i]);
    free(list->items);
    kg_list_free(list->files);
    kg_list_free(list->problems);
    *list = (struct import_list){0};
}
