/*
 * Sources that hold nothing to fetch: a program of this machine, and a server somewhere else. What
 * is installed of them is a manifest alone, so that they are offered, approved and caged like the
 * rest. A program is read where it lies, and nothing else there but what it is a part of.
 */
#include "store/server_source.h"

#include "base/url.h"
#include "store/complete.h"
#include "store/server.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PARENTS_MAX 8 /* how far above a file its project is looked for */

/* What the operator said of it. */
struct wish {
    struct kg_doc *doc; /* owned; or NULL */
    char *name;         /* owned, like the rest */
    char **args, **headers, **capabilities;
};

static void server_source_wish_free(struct wish *wish)
{
    kg_doc_free(wish->doc);
    free(wish->name);
    kg_list_free(wish->args);
    kg_list_free(wish->headers);
    kg_list_free(wish->capabilities);
}

/* otherwise: what it is called if nobody says. */
static int server_source_read_wish(const struct store_source *source, const char *otherwise,
                                   struct wish *ret_wish, struct kg_err *err)
{
    struct kg_doc *doc = source->server ? kg_json_read(kg_str(source->server), NULL) : NULL;
    const struct kg_node *root = doc ? doc->root : NULL;
    const struct kg_node *args = kg_node_list(root, "args");
    const struct kg_node *headers = kg_node_typed(root, "headers", KG_OBJECT);
    struct kg_str given = kg_node_text(root, "name");
    *ret_wish = (struct wish){.doc = doc,
                              .args = kg_list_new(0),
                              .headers = kg_list_new(0),
                              .capabilities = kg_list_new(0)};
    for (uint32_t i = 0; i < args->count; i++)
        if (args->items[i].type == KG_STRING)
            kg_list_add(&ret_wish->args, kg_str_dup(args->items[i].text));
    for (uint32_t i = 0; headers != NULL && i < headers->count; i++)
        kg_list_add(&ret_wish->headers, kg_format("%.*s=%.*s", KG_STR_ARG(headers->members[i].key),
                                                  KG_STR_ARG(headers->members[i].value.text)));
    kg_auto(kg_free) char *text = given.length > 0 ? kg_str_dup(given) : kg_strdup(otherwise);
    ret_wish->name = store_server_name(text);
    if (ret_wish->name != NULL && (given.length == 0 || strcmp(ret_wish->name, text) == 0))
        return 0;
    return kg_fail(err, KG_E_USAGE, "\"%" KG_S_NAME "\" cannot be the name of a plugin", text);
}

/* -- a program --------------------------------------------------------------------------------- */

static bool has_file(const char *folder, const char *name)
{
    kg_auto(kg_free) char *path = kg_path_join(folder, name);
    return access(path, F_OK) == 0;
}

/* What marks the top of a project: with it lies what its programs import. */
static bool server_source_is_project(const char *folder)
{
    static const char *const marks[] = {"package.json", "pyproject.toml", "setup.py", "pyvenv.cfg",
                                        "node_modules"};
    for (size_t i = 0; i < KG_COUNT(marks); i++)
        if (has_file(folder, marks[i]))
            return true;
    return false;
}

/* Of the system's own programs a cage has what they need. */
static bool server_source_is_of_system(const char *path)
{
    static const char *const roots[] = {"/usr", "/bin", "/sbin", "/lib", "/opt"};
    for (size_t i = 0; i < KG_COUNT(roots); i++)
        if (kg_path_within(path, roots[i]))
            return true;
    return false;
}

/* The project that a file is in, or the file alone; never a whole home. Owned. */
static char *server_source_project_of(const char *path)
{
    const char *home = getenv("HOME");
    kg_auto(kg_free) char *folder = kg_path_folder(path);
    for (int i = 0; i < PARENTS_MAX && folder[0] != '\0'; i++) {
        if (home != NULL && kg_path_within(home, folder))
            break;
        if (server_source_is_project(folder))
            return kg_steal(&folder);
        char *above = kg_path_folder(folder);
        free(folder);
        folder = above;
    }
    return kg_strdup(path);
}

static void add_reading(char ***capabilities, const char *path)
{
    kg_auto(kg_free) char *line = kg_format("read:fs:%s", path);
    if (!kg_list_has(*capabilities, kg_str(line)))
        kg_list_add(capabilities, kg_steal(&line));
}

/* A script among the arguments is a program, too: it needs what lies around it. */
static void add_scripts(struct wish *wish)
{
    static const char *const endings[] = {".js", ".mjs", ".cjs", ".ts", ".py", ".sh"};
    for (char **arg = wish->args; *arg != NULL; arg++)
        for (size_t i = 0; i < KG_COUNT(endings); i++) {
            char *real = (*arg)[0] == '/' && kg_str_ends(kg_str(*arg), endings[i])
                             ? realpath(*arg, NULL)
                             : NULL;
            if (real == NULL)
                continue;
            kg_auto(kg_free) char *project = server_source_project_of(real);
            add_reading(&wish->capabilities, project);
            free(*arg);
            *arg = real;
        }
}

/* A link to an interpreter is what makes a virtual environment: it stays. Owned. */
static char *command_path(const char *place)
{
    kg_auto(kg_free) char *bin = kg_path_folder(place);
    kg_auto(kg_free) char *above = kg_path_folder(bin);
    char *real = has_file(above, "pyvenv.cfg") ? NULL : realpath(place, NULL);
    return real != NULL ? real : kg_strdup(place);
}

static bool server_source_is_covered(char *const *capabilities, const char *path)
{
    static const char reading[] = "read:fs:";
    for (; *capabilities != NULL; capabilities++)
        if (kg_path_within(path, *capabilities + strlen(reading)))
            return true;
    return false;
}

/* Folders and files among the arguments, where nothing above brings them. */
static void add_paths(struct wish *wish)
{
    char **proposed = kg_list_new(0);
    store_server_paths(wish->args, false, &proposed);
    for (char **line = proposed; *line != NULL; line++)
        if (!server_source_is_covered(wish->capabilities, *line + strlen("read:fs:")))
            kg_list_add(&wish->capabilities, kg_strdup(*line));
    kg_list_free(proposed);
}

static int make_program(const struct store_source *source, struct kg_buf *ret_manifest,
                        char ***ret_remarks, struct kg_err *err)
{
    kg_auto(server_source_wish_free) struct wish wish = {0};
    if (server_source_read_wish(source, kg_path_name(source->place), &wish, err) < 0)
        return -EINVAL;
    kg_auto(kg_free) char *program = command_path(source->place);
    kg_auto(kg_free) char *project = server_source_project_of(program);
    kg_auto(kg_free) char *description = kg_format("The MCP server %s of this machine.", program);
    if (!server_source_is_of_system(program))
        add_reading(&wish.capabilities, project);
    add_scripts(&wish);
    add_paths(&wish);
    char **command = kg_list_new(0);
    kg_list_add(&command, kg_strdup(program));
    for (char **arg = wish.args; *arg != NULL; arg++)
        kg_list_add(&command, kg_strdup(*arg));
    store_server_manifest(&(struct store_server){.name = wish.name,
                                                 .description = description,
                                                 .command = command,
                                                 .capabilities = wish.capabilities},
                          ret_manifest);
    kg_list_free(command);
    *ret_remarks = kg_list_new(0);
    kg_list_add(
        ret_remarks,
        kg_format(
            "%s is run in place: whoever changes it changes what runs, and you are not asked again",
            program));
    return 0;
}

/* -- somewhere else ---------------------------------------------------------------------------- */

static int make_remote(const struct store_source *source, struct kg_buf *ret_manifest,
                       char ***ret_remarks, struct kg_err *err)
{
    kg_auto(server_source_wish_free) struct wish wish = {0};
    kg_auto(kg_free) char *host = NULL;
    uint16_t port;
    (void)ret_remarks;
    if (!kg_url_host(source->place, &host, &port))
        return kg_fail(err, KG_E_USAGE, "its host or port cannot be read");
    if (server_source_read_wish(source, host, &wish, err) < 0)
        return -EINVAL;
    bool is_v6 = strchr(host, ':') != NULL;
    kg_auto(kg_free) char *description = kg_format("The MCP server at %s.", host);
    kg_list_add(&wish.capabilities,
                kg_format(is_v6 ? "net:[%s]:%u" : "net:%s:%u", host, (unsigned)port));
    store_server_manifest(&(struct store_server){.name = wish.name,
                                                 .description = description,
                                                 .url = source->place,
                                                 .headers = wish.headers,
                                                 .capabilities = wish.capabilities},
                          ret_manifest);
    return 0;
}

/* -- both -------------------------------------------------------------------------------------- */

int server_source_make(const struct store_source *source, int tree_fd, char ***ret_remarks,
                       struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf manifest = {0};
    int result = source->kind == STORE_PROGRAM ? make_program(source, &manifest, ret_remarks, err)
                                               : make_remote(source, &manifest, ret_remarks, err);
    return result < 0 ? result : complete_write(tree_fd, kg_buf_view(&manifest), err);
}
