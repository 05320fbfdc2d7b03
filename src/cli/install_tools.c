/*
 * The second yes of a server's install. Its tools are known only when it runs: so it is enabled,
 * and started once in the cage that the first yes was for; what it lists is shown and asked about.
 * One that does not start now has its first list held until somebody looks at it.
 */
#include "cli/install.h"
#include "cli/rows.h"

#include <stdlib.h>

#define PAUSE_MS  100
#define LOOKS_MAX 600 /* as long as a server may take to start, and to list */
#define CALM_MAX  50  /* looks at one that does not even begin to start */

struct seeing {
    struct dialogue *dialogue;
    const struct cli *cli;
    char *name;                       /* owned, like the next */
    char *problem;                    /* why it cannot be enabled; NULL: it can */
    struct door_answer plugin, tools; /* as they are now */
};

static void seeing_free(struct seeing *seeing)
{
    free(seeing->name);
    free(seeing->problem);
    door_answer_free(&seeing->plugin);
    door_answer_free(&seeing->tools);
}

static const struct cli_page plugin_page = {"GET", "/api/v1/plugins/{0}"};
static const struct cli_page tools_page = {"GET", "/api/v1/plugins/{0}/tools"};
static const struct cli_page approve_page = {"POST", "/api/v1/plugins/{0}/tools"};

static int install_tools_ask(struct seeing *seeing, const struct cli_page *page, struct kg_str body,
                             struct door_answer *ret_answer)
{
    const struct page_given given = {.name = seeing->name, .body = body};
    door_answer_free(ret_answer);
    return page_ask(seeing->cli, page, &given, &ret_answer->body, &ret_answer->doc);
}

static struct kg_str waiting(const struct seeing *seeing)
{
    return cli_text(seeing->tools.doc->root, "waits");
}

static bool install_tools_is_state(const struct seeing *seeing, const char *state)
{
    return kg_str_is(cli_text(seeing->plugin.doc->root, "state"), state);
}

/* Until it has listed what waits for a yes, or will not list anything for now. */
static int wait_for_list(struct seeing *seeing)
{
    for (int look = 0, calm = 0; look < LOOKS_MAX && calm < CALM_MAX; look++) {
        int code = install_tools_ask(seeing, &tools_page, KG_STR_NULL, &seeing->tools);
        if (code == CLI_DONE)
            code = install_tools_ask(seeing, &plugin_page, KG_STR_NULL, &seeing->plugin);
        if (code != CLI_DONE || waiting(seeing).length > 0 ||
            install_tools_is_state(seeing, "failed") || install_tools_is_state(seeing, "crashed") ||
            terminal_was_interrupted())
            return code;
        calm =
            install_tools_is_state(seeing, "running") || install_tools_is_state(seeing, "spawning")
                ? 0
                : calm + 1;
        cli_pause_ms(PAUSE_MS);
    }
    return CLI_DONE;
}

/* Whether it may start; else what says why is kept, since it is installed all the same. */
static bool enable(struct seeing *seeing)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    struct client_reply reply = {0};
    client_put_target(&target, "plugins", seeing->name, "/enable");
    const struct client_request request = {.method = "POST", .target = kg_buf_terminate(&target)};
    bool is_told = client_exchange(seeing->cli->paths.socket, &request, &reply, NULL) == 0;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        is_told ? kg_json_read(kg_buf_view(&reply.body), NULL) : NULL;
    const struct kg_node *error = doc ? kg_node_typed(doc->root, "error", KG_OBJECT) : NULL;
    seeing->problem = error ? kg_str_dup(cli_text(error, "message")) : NULL;
    kg_buf_free(&reply.body);
    return seeing->problem == NULL;
}

/* -- what is said ------------------------------------------------------------------------------ */

static void say_later(struct seeing *seeing)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_free) char *self = cli_self(seeing->cli);
    const struct kg_node *root = seeing->plugin.doc ? seeing->plugin.doc->root : NULL;
    if (seeing->problem != NULL) {
        kg_buf_text(&text, "  it does not start yet: ");
        kg_buf_escaped(&text, kg_str(seeing->problem));
        kg_buf_printf(&text, "\n  → enable with: %s plugin enable %s\n", self, seeing->name);
    } else if (install_tools_is_state(seeing, "failed") ||
               install_tools_is_state(seeing, "crashed")) {
        kg_buf_text(&text, "  it does not start yet: ");
        kg_buf_escaped(&text, cli_text(kg_node_get(root, "last_exit"), "words"));
        kg_buf_printf(&text, "\n  → what it said: %s plugin logs %s\n", self, seeing->name);
    } else {
        kg_buf_text(&text, "  it starts when it is needed\n");
    }
    kg_buf_printf(
        &text,
        "  → its tools are not offered until you approve them: %s plugin tools %s --approve\n",
        self, seeing->name);
    dialogue_say(seeing->dialogue, &text);
}

static void install_tools_say_approved(struct seeing *seeing)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    uint32_t count = kg_node_list(seeing->tools.doc->root, "tools")->count;
    kg_buf_printf(&text, "✓ Approved %u tool%s of %s; it starts when one is used\n", count,
                  count == 1 ? "" : "s", seeing->name);
    dialogue_say(seeing->dialogue, &text);
}

/* Whoever is asked sees every word; for a log the names are enough. */
static void show_list(struct seeing *seeing)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    const struct kg_node *tools = kg_node_list(seeing->tools.doc->root, "tools");
    kg_buf_text(&text, "Its tools:\n");
    if (seeing->dialogue->tty >= 0)
        show_waiting_tools(&text, tools);
    for (uint32_t i = 0; seeing->dialogue->tty < 0 && i < tools->count; i++) {
        kg_buf_text(&text, "  ");
        kg_buf_escaped(&text, cli_text(&tools->items[i], "full_name"));
        kg_buf_char(&text, '\n');
    }
    dialogue_say(seeing->dialogue, &text);
}

/* -- the yes ----------------------------------------------------------------------------------- */

static int install_tools_approve(struct seeing *seeing)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    rows_put_text(&body, "approve", waiting(seeing));
    int code = install_tools_ask(seeing, &approve_page, kg_buf_view(&body), &seeing->tools);
    if (code == CLI_DONE)
        install_tools_say_approved(seeing);
    return code;
}

int dialogue_see_tools(struct dialogue *dialogue)
{
    const struct kg_node *consent = dialogue->consent.doc->root;
    const struct kg_node *offer = kg_node_get(consent, "offer");
    kg_auto(seeing_free) struct seeing seeing = {
        .dialogue = dialogue,
        .cli = dialogue->cli,
        .name = kg_str_dup(cli_text(offer, "name")),
    };
    bool may_start = !kg_str_is(cli_text(offer, "change"), "install") || enable(&seeing);
    int code = may_start ? wait_for_list(&seeing) : CLI_DONE;
    if (code != CLI_DONE)
        return code;
    if (!may_start || waiting(&seeing).length == 0) {
        say_later(&seeing);
        return CLI_DONE;
    }
    show_list(&seeing);
    if (dialogue->tty < 0 || terminal_ask(dialogue->tty, "Approve these tools?"))
        return install_tools_approve(&seeing);
    say_later(&seeing);
    return CLI_DONE;
}
