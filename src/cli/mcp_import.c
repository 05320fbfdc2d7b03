/*
 * kaged mcp import: the servers of other clients become plugins. All are fetched and looked at
 * first, and shown on one screen with what each would be granted; each has a yes of its own, to
 * exactly what was shown. Keys go to the store of secrets, and are never shown.
 */
#include "cli/install.h"
#include "cli/rows.h"

#include "import/import.h"

#include <stdlib.h>
#include <unistd.h>

#define REFUSED       5 /* the exit code of what was not consented to */
#define LABEL_COLUMNS 15
#define USUAL_COLUMNS 80

/* What became of one; a text is for --json, too. */
enum fate { WAITS, IMPORTED, DECLINED, FAILED, SKIPPED, THERE };
static const char *const fate_names[] = {
    [WAITS] = "waits",   [IMPORTED] = "imported", [DECLINED] = "declined",
    [FAILED] = "failed", [SKIPPED] = "skipped",   [THERE] = "installed-before",
};

struct item {
    const struct import_server *server;
    struct door_answer consent; /* empty: there is nothing to consent to */
    enum fate fate;
    bool is_hidden; /* the operator did not ask for it */
    char *why;      /* it is not to be had, in words; owned */
};

struct import {
    struct cli *cli;
    struct door *door;
    int tty;
    struct import_list list;
    struct item *items; /* one for each server */
};

static void import_end(struct import *import)
{
    for (size_t i = 0; import->items != NULL && i < import->list.count; i++) {
        door_answer_free(&import->items[i].consent);
        free(import->items[i].why);
    }
    free(import->items);
    import_list_free(&import->list);
    kg_close(&import->tty);
    if (import->door != NULL)
        import->door->ops->close(import->door);
}

static const struct kg_node *mcp_import_offer_of(const struct item *item)
{
    return item->consent.doc ? kg_node_get(item->consent.doc->root, "offer") : NULL;
}

static void mcp_import_give_up(struct item *item, enum fate fate, struct kg_str why)
{
    free(item->why);
    item->fate = fate;
    item->why = kg_str_dup(why);
}

/* -- finding ----------------------------------------------------------------------------------- */

static int find_servers(struct import *import)
{
    const struct cli *cli = import->cli;
    struct kg_err err = {0};
    const char *home = getenv("HOME");
    kg_auto(kg_free) char *here = getcwd(NULL, 0);
    if (cli->argument_count == 0) {
        import_find(home ? home : "/", here ? here : "/", &import->list);
    } else {
        for (size_t i = 0; i < cli->argument_count; i++)
            if (import_read(cli->arguments[i], &import->list, &err) < 0)
                return print_error(&err);
    }
    for (char **problem = import->list.problems; problem && *problem; problem++)
        print_problem(0, kg_str(*problem), KG_STR(""));
    import->items = kg_alloc_array(import->list.count + 1, sizeof(*import->items));
    for (size_t i = 0; i < import->list.count; i++)
        import->items[i].server = &import->list.items[i];
    return CLI_DONE;
}

/* One that the operator did not ask for, or that its client does not start. */
static void mcp_import_choose(struct import *import)
{
    char **only = cli_option_list(import->cli, "only");
    for (size_t i = 0; i < import->list.count; i++) {
        struct item *item = &import->items[i];
        const struct import_server *server = item->server;
        bool named =
            kg_list_has(only, kg_str(server->name)) || kg_list_has(only, kg_str(server->plugin));
        item->is_hidden = only[0] != NULL && !named;
        if (item->is_hidden)
            mcp_import_give_up(item, SKIPPED, KG_STR("not asked for"));
        else if (server->source == NULL)
            mcp_import_give_up(item, SKIPPED, kg_str(server->why));
        else if (server->disabled && !named)
            mcp_import_give_up(item, SKIPPED,
                               KG_STR("it is switched off there; --only NAME imports it"));
    }
    kg_list_free(only);
}

/* -- fetching ---------------------------------------------------------------------------------- */

static bool mcp_import_is_state(const struct item *item, const char *state)
{
    return item->consent.doc != NULL &&
           kg_str_is(cli_text(item->consent.doc->root, "state"), state);
}

static int mcp_import_wait_while(struct import *import, struct item *item, const char *state)
{
    int code = CLI_DONE;
    while (code == CLI_DONE && mcp_import_is_state(item, state) && !terminal_was_interrupted()) {
        kg_auto(kg_free) char *id = kg_str_dup(cli_text(item->consent.doc->root, "id"));
        code = import->door->ops->look(import->door, id, &item->consent);
    }
    return code;
}

/* The same as it is installed: there is nothing to ask. */
static bool is_there(const struct item *item)
{
    const struct kg_node *offer = mcp_import_offer_of(item);
    return cli_text(offer, "hash").length > 0 &&
           kg_str_equal(cli_text(offer, "hash"), cli_text(offer, "approved_hash"));
}

static void mcp_import_decline(struct import *import, struct item *item)
{
    kg_auto(kg_free) char *id = kg_str_dup(cli_text(item->consent.doc->root, "id"));
    import->door->ops->decline(import->door, id);
}

static void mcp_import_fetch(struct import *import, struct item *item)
{
    kg_auto(kg_buf_free) struct kg_buf server = {0};
    struct store_own own = {kg_list_new(0), import_env(item->server)};
    import_server_json(item->server, &server);
    const struct door_wish wish = {.kind = "install",
                                   .source = item->server->source,
                                   .own = store_own_is_empty(&own) ? NULL : &own,
                                   .server = kg_buf_terminate(&server)};
    int code = import->door->ops->want(import->door, &wish, &item->consent);
    store_own_free(&own);
    if (code == CLI_DONE)
        code = mcp_import_wait_while(import, item, "fetching");
    if (code != CLI_DONE || item->consent.doc == NULL) {
        mcp_import_give_up(item, FAILED, KG_STR("see above"));
        return;
    }
    const struct kg_node *error = kg_node_typed(item->consent.doc->root, "error", KG_OBJECT);
    if (error != NULL || !mcp_import_is_state(item, "offered"))
        mcp_import_give_up(item, FAILED, cli_text(error, "message"));
    else if (is_there(item)) {
        mcp_import_decline(import, item);
        mcp_import_give_up(item, THERE, KG_STR("it is already installed like this"));
    }
}

static void fetch_all(struct import *import)
{
    bool live = print_is_screen() && !import->cli->json;
    for (size_t i = 0; i < import->list.count && !terminal_was_interrupted(); i++) {
        if (import->items[i].fate != WAITS)
            continue;
        if (live) {
            kg_auto(kg_buf_free) struct kg_buf line = {0};
            kg_buf_printf(&line, "fetching %zu of %zu: %s", i + 1, import->list.count,
                          import->items[i].server->plugin);
            print_cut(&line, 0, print_columns() - 1);
            printf("\r\033[K%s", kg_buf_terminate(&line));
            fflush(stdout);
        }
        mcp_import_fetch(import, &import->items[i]);
    }
    if (live)
        fputs("\r\033[K", stdout);
}

/* -- the screen -------------------------------------------------------------------------------- */

static size_t width(void)
{
    size_t columns = print_columns();
    return columns == SIZE_MAX ? USUAL_COLUMNS : columns < 40 ? 40 : columns;
}

/* Words behind a label, the following lines below the first word. */
static void mcp_import_put_fact(struct kg_buf *out, const char *label, struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    kg_buf_escaped(&shown, text);
    struct kg_str rest = kg_buf_view(&shown);
    size_t room = width() - LABEL_COLUMNS, used = 0;
    kg_buf_printf(out, "     %-*s", LABEL_COLUMNS - 5, label);
    while (rest.length > 0) {
        struct kg_str word = kg_str_cut(&rest, ' ');
        if (used > 0 && used + 1 + word.length > room) {
            kg_buf_printf(out, "\n%*s", LABEL_COLUMNS, "");
            used = 0;
        }
        kg_buf_printf(out, "%s%.*s", used > 0 ? " " : "", KG_STR_ARG(word));
        used += word.length + (used > 0);
    }
    kg_buf_char(out, '\n');
}

static void mcp_import_put_files(struct kg_buf *out, const struct import_server *server)
{
    const char *home = getenv("HOME");
    for (char **file = server->files; *file != NULL; file++) {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        bool is_home = home != NULL && kg_path_within(*file, home) && strcmp(home, "/") != 0;
        kg_buf_printf(&text, "%s%s%s%s", server->client, server->client[0] ? ", " : "",
                      is_home ? "~" : "", *file + (is_home ? strlen(home) : 0));
        mcp_import_put_fact(out, file == server->files ? "from" : "", kg_buf_view(&text));
    }
}

/* What it is started with, as a shell would read it; keys are names here. */
static void mcp_import_put_command(struct kg_buf *out, const struct import_server *server)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_text(&line, server->source);
    for (char **arg = server->args; *arg != NULL; arg++) {
        kg_buf_char(&line, ' ');
        kg_buf_shell(&line, kg_str(*arg));
    }
    mcp_import_put_fact(out, "runs", kg_buf_view(&line));
}

static void mcp_import_put_capabilities(struct kg_buf *out, const struct kg_node *offer)
{
    const struct kg_node *list = kg_node_list(offer, "capabilities");
    for (uint32_t i = 0; i < list->count; i++) {
        struct kg_str danger = cli_text(&list->items[i], "danger");
        mcp_import_put_fact(out, i == 0 ? "grants" : "", cli_text(&list->items[i], "words"));
        if (danger.length > 0)
            mcp_import_put_fact(out, "! DANGER", danger);
    }
    if (list->count == 0)
        mcp_import_put_fact(out, "grants", KG_STR("nothing: no file, no program, no network"));
}

static void mcp_import_put_keys(struct kg_buf *out, const struct import_server *server)
{
    for (size_t i = 0; i < server->key_count; i++) {
        kg_auto(kg_free) char *secret = import_secret_name(server, &server->keys[i]);
        kg_auto(kg_free) char *text =
            kg_format("%s%s", secret, server->keys[i].value ? "" : " (must be set)");
        mcp_import_put_fact(out, i == 0 ? "secrets" : "", kg_str(text));
    }
}

static void mcp_import_put_warnings(struct kg_buf *out, const struct item *item)
{
    const struct kg_node *warnings = kg_node_list(mcp_import_offer_of(item), "warnings");
    for (char **danger = item->server->dangers; *danger != NULL; danger++)
        mcp_import_put_fact(out, "! DANGER", kg_str(*danger));
    for (uint32_t i = 0; i < warnings->count; i++)
        mcp_import_put_fact(out, "warning", warnings->items[i].text);
}

static void mcp_import_put_item(struct kg_buf *out, const struct item *item, size_t number)
{
    const struct import_server *server = item->server;
    const struct kg_node *offer = mcp_import_offer_of(item);
    kg_buf_printf(out, "%3zu  ", number);
    kg_buf_text(out, server->plugin);
    if (strcmp(server->name, server->plugin) != 0) {
        kg_buf_text(out, " (");
        kg_buf_escaped(out, kg_str(server->name));
        kg_buf_char(out, ')');
    }
    if (item->fate == WAITS)
        print_words(out, offer, " {version}\n");
    else
        kg_buf_text(out, item->fate == THERE ? "\n" : "  NOT IMPORTED\n");
    if (item->fate != WAITS)
        mcp_import_put_fact(out, "why", kg_str(item->why));
    if (server->instead != NULL) {
        kg_auto(kg_free) char *hint =
            kg_format("the same server from npm: kaged plugin install npm:%s", server->instead);
        mcp_import_put_fact(out, "instead", kg_str(hint));
    }
    mcp_import_put_files(out, server);
    if (item->fate != WAITS)
        return;
    mcp_import_put_command(out, server);
    mcp_import_put_capabilities(out, offer);
    mcp_import_put_keys(out, server);
    mcp_import_put_warnings(out, item);
}

static size_t mcp_import_count_of(const struct import *import, enum fate fate)
{
    size_t count = 0;
    for (size_t i = 0; i < import->list.count; i++)
        count += import->items[i].fate == fate;
    return count;
}

static void show_screen(const struct import *import)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    size_t files = kg_list_count(import->list.files);
    kg_buf_printf(&out, "%zu server%s in %zu file%s\n", import->list.count,
                  import->list.count == 1 ? "" : "s", files, files == 1 ? "" : "s");
    for (size_t i = 0; i < import->list.count; i++) {
        if (import->items[i].is_hidden)
            continue;
        kg_buf_char(&out, '\n');
        mcp_import_put_item(&out, &import->items[i], i + 1);
    }
    kg_buf_char(&out, '\n');
    if (!import->cli->json && (import->tty < 0 || isatty(STDOUT_FILENO)))
        print_out(&out);
    else if (import->tty >= 0)
        (void)kg_write_all(import->tty, out.data, out.length);
}

/* -- the yes ----------------------------------------------------------------------------------- */

static int keep_keys(struct import *import, const struct import_server *server)
{
    static const struct cli_page page = {"PUT", "/api/v1/secrets/{0}"};
    int code = CLI_DONE;
    for (size_t i = 0; i < server->key_count && code == CLI_DONE; i++) {
        kg_auto(kg_buf_free) struct kg_buf body = {0};
        kg_auto(kg_free) char *secret = import_secret_name(server, &server->keys[i]);
        if (server->keys[i].value == NULL)
            continue;
        rows_put_text(&body, "value", kg_str(server->keys[i].value));
        const struct page_given given = {.name = secret, .body = kg_buf_view(&body)};
        code = page_tell(import->cli, &page, &given);
        explicit_bzero(body.data, body.length);
    }
    return code;
}

/* --yes is none to more than an installed version could do. */
static void mcp_import_take(struct import *import, struct item *item)
{
    const struct kg_node *offer = mcp_import_offer_of(item);
    kg_auto(kg_free) char *id = kg_str_dup(cli_text(item->consent.doc->root, "id"));
    kg_auto(kg_free) char *hash = kg_str_dup(cli_text(offer, "hash"));
    const struct door_yes yes = {.hash = hash, .allow_new_capabilities = import->tty >= 0};
    int code = keep_keys(import, item->server);
    if (code == CLI_DONE)
        code = import->door->ops->approve(import->door, id, &yes, &item->consent);
    if (code == CLI_DONE)
        code = mcp_import_wait_while(import, item, "installing");
    const struct kg_node *error =
        item->consent.doc ? kg_node_typed(item->consent.doc->root, "error", KG_OBJECT) : NULL;
    if (code != CLI_DONE || error != NULL) {
        mcp_import_give_up(item, FAILED, error ? cli_text(error, "message") : KG_STR("see above"));
        return;
    }
    item->fate = IMPORTED;
}

static void mcp_import_ask_about(struct import *import, struct item *item)
{
    kg_auto(kg_free) char *question = kg_format("Import %s?", item->server->plugin);
    bool says_yes = cli_has(import->cli, "yes") ||
                    (!terminal_was_interrupted() && terminal_ask(import->tty, question));
    if (says_yes) {
        mcp_import_take(import, item);
        return;
    }
    mcp_import_decline(import, item);
    mcp_import_give_up(item, DECLINED, KG_STR("declined"));
}

/* -- tools, for which a second yes is needed --------------------------------------------------- */

/* It is enabled, and started once: only then they are known. */
static void see_tools(struct import *import, struct item *item)
{
    struct dialogue dialogue = {
        .cli = import->cli, .door = import->door, .tty = import->tty, .consent = item->consent};
    (void)dialogue_see_tools(&dialogue);
    item->consent = dialogue.consent;
}

/* -- the end ----------------------------------------------------------------------------------- */

static void print_fates(const struct import *import)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    kg_json_begin(&json, '{');
    kg_json_named_list(&json, "files", import->list.files);
    kg_json_named_begin(&json, "servers", '[');
    for (size_t i = 0; i < import->list.count; i++) {
        const struct item *item = &import->items[i];
        const struct import_server *server = item->server;
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "name", server->name);
        kg_json_named_text(&json, "plugin", server->plugin);
        kg_json_named_text(&json, "client", server->client);
        kg_json_named_list(&json, "files", server->files);
        kg_json_named_text(&json, "kind", import_kind_names[server->kind]);
        kg_json_named_text(&json, "source", server->source);
        kg_json_named_text(&json, "instead", server->instead);
        kg_json_named_begin(&json, "secrets", '[');
        for (size_t k = 0; k < server->key_count; k++) {
            kg_auto(kg_free) char *secret = import_secret_name(server, &server->keys[k]);
            kg_json_text(&json, secret);
        }
        kg_json_end(&json, ']');
        kg_json_named_list(&json, "dangers", server->dangers);
        kg_json_named_text(&json, "state", fate_names[item->fate]);
        kg_json_named_text(&json, "why", item->why);
        kg_json_key(&json, "offer");
        if (mcp_import_offer_of(item) != NULL)
            kg_json_node(&json, mcp_import_offer_of(item));
        else
            kg_json_null(&json);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    print_json(kg_buf_view(&out));
}

static void say_unset(const struct import *import, const struct import_server *server)
{
    kg_auto(kg_free) char *self = cli_self(import->cli);
    for (size_t i = 0; i < server->key_count; i++) {
        kg_auto(kg_free) char *secret = import_secret_name(server, &server->keys[i]);
        if (server->keys[i].value == NULL)
            fprintf(stderr, "%s needs a secret that the file does not hold: %s secret set %s\n",
                    server->plugin, self, secret);
    }
}

static int mcp_import_end(struct import *import)
{
    if (import->cli->json)
        print_fates(import);
    else
        printf("✓ imported %zu of %zu\n", mcp_import_count_of(import, IMPORTED),
               import->list.count);
    for (size_t i = 0; i < import->list.count; i++) {
        const struct item *item = &import->items[i];
        if (item->fate == IMPORTED)
            say_unset(import, item->server);
        if (item->fate == FAILED && !import->cli->json)
            fprintf(stderr, "%s was not imported: %s\n", item->server->plugin, item->why);
    }
    return mcp_import_count_of(import, FAILED) > 0 ? CLI_FAILED : CLI_DONE;
}

/* Nobody can be asked, and nobody said yes: it was shown, and that is all. */
static int mcp_import_refuse_unasked(struct import *import)
{
    struct kg_err err;
    for (size_t i = 0; i < import->list.count; i++)
        if (import->items[i].fate == WAITS)
            mcp_import_decline(import, &import->items[i]);
    if (import->cli->json)
        print_fates(import);
    kg_fail(&err, KG_E_REFUSED, "there is no terminal to ask on: nothing was imported");
    kg_hint(&err, "look at what they are, then agree with --yes");
    return print_error(&err);
}

static int mcp_import_run(struct import *import)
{
    struct kg_err err;
    int code = find_servers(import);
    if (code != CLI_DONE)
        return code;
    if (import->list.count == 0) {
        kg_fail(&err, KG_E_NOT_FOUND, "there is no MCP server in any file of a client");
        kg_hint(&err, "name the file: kaged mcp import FILE");
        return print_error(&err);
    }
    mcp_import_choose(import);
    terminal_catch_interrupts();
    fetch_all(import);
    show_screen(import);
    if (import->tty < 0 && !cli_has(import->cli, "yes") && mcp_import_count_of(import, WAITS) > 0)
        return mcp_import_refuse_unasked(import);
    for (size_t i = 0; i < import->list.count; i++)
        if (import->items[i].fate == WAITS)
            mcp_import_ask_about(import, &import->items[i]);
    for (size_t i = 0; i < import->list.count; i++)
        if (import->items[i].fate == IMPORTED)
            see_tools(import, &import->items[i]);
    return mcp_import_end(import);
}

int cli_mcp_import(struct cli *cli)
{
    struct kg_err err;
    if (!door_daemon_runs(cli)) {
        kg_fail(&err, KG_E_NO_DAEMON, "the daemon is not running");
        kg_hint(&err, "kaged start");
        return print_error(&err);
    }
    kg_auto(import_end) struct import import = {
        .cli = cli, .tty = cli_has(cli, "yes") ? -1 : terminal_open(), .door = door_to_daemon(cli)};
    return mcp_import_run(&import);
}
