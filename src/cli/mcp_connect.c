/*
 * kaged mcp connect and disconnect: the entry that lets a client of MCP start kaged, printed or put
 * into the client's own file. Of that file one entry changes, and those leave that kaged runs in
 * cages now; a copy of it stays beside it until disconnect has put them back.
 */
#include "base/doc.h"
#include "cli/cli.h"
#include "config/edit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY       "kaged"
#define COPY_SUFFIX ".before-kaged"
#define FILE_MAX    ((size_t)16 << 20)
#define WORDS_MAX   12

/* How a client writes down what it starts. */
enum form {
    FORM_PLAIN,    /* {"command": "kaged", "args": ["mcp", "serve"]} */
    FORM_TYPED,    /* the same, with "type": "stdio" */
    FORM_OPENCODE, /* {"type": "local", "command": ["kaged", "mcp", "serve"], "enabled": true} */
};

static const struct client {
    const char *name;
    const char *file; /* below the home folder */
    const char *map;  /* the key that has the entries */
    enum form form;
    bool is_toml;
    const char *after; /* what to do then */
} clients[] = {
    {"claude", ".claude.json", "mcpServers", FORM_TYPED, false, "restart claude"},
    {"cursor", ".cursor/mcp.json", "mcpServers", FORM_PLAIN, false, "restart Cursor"},
    {"vscode", ".config/Code/User/mcp.json", "servers", FORM_TYPED, false,
     "start the server in VS Code: MCP: List Servers"},
    {"opencode", ".config/opencode/opencode.json", "mcp", FORM_OPENCODE, false, "restart opencode"},
    {"gemini", ".gemini/settings.json", "mcpServers", FORM_PLAIN, false, "restart gemini"},
    {"codex", ".codex/config.toml", "mcp_servers", FORM_PLAIN, true, "restart codex"},
};

static const struct client *find_client(const char *name, struct kg_err *err)
{
    const char *names[KG_COUNT(clients)];
    for (size_t i = 0; i < KG_COUNT(clients); i++) {
        if (strcmp(clients[i].name, name) == 0)
            return &clients[i];
        names[i] = clients[i].name;
    }
    const char *nearest = kg_str_nearest(kg_str(name), names, KG_COUNT(names));
    kg_fail(err, KG_E_USAGE, "\"%" KG_S_NAME "\" is not a client that is known here", name);
    kg_hint(err, "%s%s%s", nearest ? "did you mean " : "there are claude, cursor, vscode, ",
            nearest ? nearest : "opencode, gemini and codex; all others: command kaged, arguments ",
            nearest ? "?" : "mcp serve");
    return NULL;
}

static char *file_of(const struct client *client, struct kg_err *err)
{
    const char *home = getenv("HOME");
    if (home == NULL || home[0] != '/') {
        kg_fail(err, KG_E_USAGE, "HOME is not set: where %s keeps its file is not known",
                client->name);
        return NULL;
    }
    return kg_path_join(home, client->file);
}

/* -- the entry --------------------------------------------------------------------------------- */

/* What is started; the texts are owned by the list. */
static char **mcp_connect_make_words(const struct cli *cli)
{
    char **words = kg_list_new(0);
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    const char *host = cli_option_value(cli, "ssh");
    program[length > 0 ? length : 0] = '\0';
    if (host != NULL) {
        kg_list_add(&words, kg_strdup("ssh"));
        kg_list_add(&words, kg_strdup("-T"));
        kg_list_add(&words, kg_strdup(host));
    }
    kg_list_add(&words, kg_strdup(host != NULL || length <= 0 ? "kaged" : program));
    if (cli->home != NULL && host == NULL) {
        kg_list_add(&words, kg_strdup("--home"));
        kg_list_add(&words, kg_strdup(cli->home));
    }
    kg_list_add(&words, kg_strdup("mcp"));
    kg_list_add(&words, kg_strdup("serve"));
    if (cli_option_value(cli, "profile") != NULL) {
        kg_list_add(&words, kg_strdup("--profile"));
        kg_list_add(&words, kg_strdup(cli_option_value(cli, "profile")));
    }
    if (cli_has(cli, "read-only"))
        kg_list_add(&words, kg_strdup("--read-only"));
    if (cli_has(cli, "tools")) {
        kg_list_add(&words, kg_strdup("--tools"));
        kg_list_add(&words, kg_strdup("search"));
    }
    return words;
}

static struct kg_doc *make_entry(const struct client *client, char *const *words)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    kg_json_begin(&json, '{');
    if (client->form == FORM_OPENCODE) {
        kg_json_named_text(&json, "type", "local");
        kg_json_named_list(&json, "command", words);
        kg_json_named_bool(&json, "enabled", true);
    } else {
        if (client->form == FORM_TYPED)
            kg_json_named_text(&json, "type", "stdio");
        kg_json_named_text(&json, "command", words[0]);
        kg_json_named_list(&json, "args", words + 1);
    }
    kg_json_end(&json, '}');
    return kg_json_read(kg_buf_view(&text), NULL);
}

static int set_entry(const struct client *client, struct kg_buf *text, const char *name,
                     const struct kg_node *entry, struct kg_err *err)
{
    const char *const path[] = {client->map, name};
    return client->is_toml ? edit_toml_set(text, path, 2, entry, err)
                           : edit_json_set(text, path, 2, entry, err);
}

static int remove_entry(const struct client *client, struct kg_buf *text, const char *name,
                        struct kg_err *err)
{
    const char *const path[] = {client->map, name};
    return client->is_toml ? edit_toml_remove(text, path, 2, err)
                           : edit_json_remove(text, path, 2, err);
}

/* The entries of a file; NULL: it has none, or cannot be read. */
static struct kg_doc *mcp_connect_read_entries(const struct client *client,
                                               const struct kg_buf *text)
{
    return client->is_toml ? kg_toml_read(kg_buf_view(text), NULL)
                           : kg_json_read(kg_buf_view(text), NULL);
}

/* -- connect ----------------------------------------------------------------------------------- */

struct edit {
    const struct client *client;
    const struct kg_node *entry;   /* NULL: it leaves */
    const struct kg_node *plugins; /* of the daemon; NULL: it is not known which there are */
    struct kg_doc *copy;           /* of disconnect; NULL: there is none */
    struct kg_buf names;           /* of entries that left, or came back */
};

/* Whether kaged runs an MCP server of that name. */
static bool is_caged(const struct kg_node *plugins, struct kg_str name)
{
    for (uint32_t i = 0; plugins != NULL && i < plugins->count; i++)
        if (kg_str_equal(cli_text(&plugins->items[i], "name"), name) &&
            kg_str_is(cli_text(&plugins->items[i], "protocol"), "mcp"))
            return true;
    return false;
}

static void tell_name(struct edit *edit, const char *name)
{
    kg_buf_printf(&edit->names, "%s%s", edit->names.length > 0 ? ", " : "", name);
}

static int mcp_connect_put_in(struct kg_buf *text, void *data, struct kg_err *err)
{
    struct edit *edit = data;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = mcp_connect_read_entries(edit->client, text);
    const struct kg_node *entries =
        doc ? kg_node_typed(doc->root, edit->client->map, KG_OBJECT) : NULL;
    int result = 0;
    for (uint32_t i = 0; result == 0 && entries != NULL && i < entries->count; i++) {
        kg_auto(kg_free) char *name = kg_str_dup(entries->members[i].key);
        if (!is_caged(edit->plugins, entries->members[i].key))
            continue;
        result = remove_entry(edit->client, text, name, err);
        tell_name(edit, name);
    }
    return result < 0 ? result : set_entry(edit->client, text, ENTRY, edit->entry, err);
}

/* What the file was before kaged came into it, unless such a copy is there already. */
static int keep_copy(const char *file, struct kg_err *err)
{
    kg_auto(kg_free) char *copy = kg_format("%s" COPY_SUFFIX, file);
    if (access(file, F_OK) < 0 || access(copy, F_OK) == 0)
        return 0;
    int result = kg_copy_file(file, copy, 0600);
    return result < 0 ? kg_fail_errno(err, -result, "copy %s to %s", file, copy) : 0;
}

/* Which plugins there are; without a daemon nobody can tell, and no entry leaves. */
static struct kg_doc *ask_plugins(const struct cli *cli)
{
    struct client_reply reply = {0};
    struct kg_err err;
    const struct client_request request = {.method = "GET", .target = "/api/v1/plugins"};
    if (client_exchange(cli->paths.socket, &request, &reply, &err) < 0)
        return NULL;
    kg_auto(kg_buf_free) struct kg_buf body = reply.body;
    return reply.status == 200 ? kg_json_read(kg_buf_view(&body), NULL) : NULL;
}

static int mcp_connect_write_entry(const struct cli *cli, const struct client *client,
                                   const struct kg_node *entry)
{
    struct kg_err err = {0};
    kg_auto(kg_free) char *file = file_of(client, &err);
    kg_auto(kg_free) char *folder = file ? kg_path_folder(file) : NULL;
    kg_auto(kg_doc_cleanup) struct kg_doc *plugins = ask_plugins(cli);
    struct edit edit = {.client = client,
                        .entry = entry,
                        .plugins = plugins ? kg_node_get(plugins->root, "plugins") : NULL};
    if (file == NULL || kg_make_dirs(folder, 0700, &err) < 0 || keep_copy(file, &err) < 0 ||
        edit_file(file, mcp_connect_put_in, &edit, &err) < 0) {
        kg_buf_free(&edit.names);
        kg_wrap(&err, 0, "%s", file ? file : client->name);
        return print_error(&err);
    }
    printf("%s has the entry \"%s\" now; %s\n", file, ENTRY, client->after);
    if (edit.names.length > 0)
        printf("removed from it, since kaged runs them in cages: %s\n",
               kg_buf_terminate(&edit.names));
    kg_buf_free(&edit.names);
    return CLI_DONE;
}

/*
 * What clients called is always kept, unless the operator said otherwise; with which arguments, and
 * what they got, only if he says so. Whoever connects one is asked, or told how.
 */
static int offer_activity(const struct cli *cli)
{
    struct kg_err err;
    struct config *config = config_load(cli->paths.config_file, &err);
    bool is_calls = config != NULL && strcmp(config->mcp_activity, "calls") == 0;
    config_free(config);
    if (!is_calls || cli_has(cli, "ssh"))
        return CLI_DONE;
    kg_auto(kg_close) int tty = terminal_open();
    if (tty >= 0 && terminal_ask(tty, "Keep the arguments and results of its calls, too, secrets "
                                      "hidden, for kaged mcp log?"))
        return cli_set_setting(cli, "mcp.activity", "full");
    kg_auto(kg_free) char *self = cli_self(cli);
    fflush(stdout);
    fprintf(stderr,
            "what it calls is kept without arguments and results; with them: %s config set "
            "mcp.activity full\n",
            self);
    return CLI_DONE;
}

/* As it would stand in the file, with what is around it. */
static void show_entry(const struct client *client, const struct kg_node *entry)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err;
    if (set_entry(client, &text, ENTRY, entry, &err) == 0)
        print_out(&text);
    fprintf(stderr, "this goes into ~/%s; --write puts it there\n", client->file);
}

int cli_mcp_connect(struct cli *cli)
{
    struct kg_err err;
    const struct client *client = find_client(cli_argument(cli, 0), &err);
    bool searches;
    if (client == NULL || cli_mcp_searches(cli, &searches, &err) < 0)
        return print_error(&err);
    char **words = mcp_connect_make_words(cli);
    kg_auto(kg_doc_cleanup) struct kg_doc *entry = make_entry(client, words);
    kg_list_free(words);
    if (cli_has(cli, "write")) {
        int code = mcp_connect_write_entry(cli, client, entry->root);
        return code == CLI_DONE ? offer_activity(cli) : code;
    }
    show_entry(client, entry->root);
    return CLI_DONE;
}

/* -- disconnect -------------------------------------------------------------------------------- */

/* What left the file when kaged came, and is not there again. */
static int mcp_connect_put_back(struct edit *edit, struct kg_buf *text, struct kg_err *err)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *now = mcp_connect_read_entries(edit->client, text);
    const struct kg_node *there = now ? kg_node_get(now->root, edit->client->map) : NULL;
    const struct kg_node *before =
        edit->copy ? kg_node_typed(edit->copy->root, edit->client->map, KG_OBJECT) : NULL;
    int result = 0;
    for (uint32_t i = 0; result == 0 && before != NULL && i < before->count; i++) {
        const struct kg_member *member = &before->members[i];
        kg_auto(kg_free) char *name = kg_str_dup(member->key);
        if (strcmp(name, ENTRY) == 0 || (there != NULL && kg_node_get(there, name) != NULL))
            continue;
        result = set_entry(edit->client, text, name, &member->value, err);
        tell_name(edit, name);
    }
    return result;
}

static int mcp_connect_take_out(struct kg_buf *text, void *data, struct kg_err *err)
{
    struct edit *edit = data;
    int result = remove_entry(edit->client, text, ENTRY, err);
    return result < 0 ? result : mcp_connect_put_back(edit, text, err);
}

int cli_mcp_disconnect(struct cli *cli)
{
    struct kg_err err = {0};
    const struct client *client = find_client(cli_argument(cli, 0), &err);
    kg_auto(kg_free) char *file = client ? file_of(client, &err) : NULL;
    if (file == NULL)
        return print_error(&err);
    kg_auto(kg_free) char *copy = kg_format("%s" COPY_SUFFIX, file);
    kg_auto(kg_buf_free) struct kg_buf before = {0};
    struct edit edit = {.client = client};
    if (kg_read_file(copy, FILE_MAX, &before, NULL) == 0)
        edit.copy = mcp_connect_read_entries(client, &before);
    int result = access(file, F_OK) < 0 ? kg_fail(&err, KG_E_NOT_FOUND, "there is no such file")
                                        : edit_file(file, mcp_connect_take_out, &edit, &err);
    if (result < 0) {
        kg_wrap(&err, 0, "%s", file);
    } else {
        unlink(copy);
        printf("%s no longer has the entry \"%s\"; %s\n", file, ENTRY, client->after);
        if (edit.names.length > 0)
            printf("put back: %s\n", kg_buf_terminate(&edit.names));
    }
    kg_doc_free(edit.copy);
    kg_buf_free(&edit.names);
    return result < 0 ? print_error(&err) : CLI_DONE;
}
