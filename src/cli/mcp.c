/* kaged mcp: who the clients of the Model Context Protocol are, what they did, what they may use.
 */
#include "cli/cli.h"

int cli_mcp_searches(const struct cli *cli, bool *ret_searches, struct kg_err *err)
{
    const char *tools = cli_option_value(cli, "tools");
    *ret_searches = tools != NULL;
    return tools == NULL || strcmp(tools, "search") == 0
               ? 0
               : kg_fail(err, KG_E_USAGE, "--tools: %.64s is not known; there is: search", tools);
}

/* -- profiles ---------------------------------------------------------------------------------- */

static void put_patterns(struct table *table, const struct kg_node *tools)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (uint32_t i = 0; i < tools->count; i++)
        kg_buf_printf(&text, "%s%.*s", i > 0 ? " " : "", KG_STR_ARG(tools->items[i].text));
    table_cell(table, kg_buf_view(&text), NULL);
}

static void put_marks(struct kg_buf *out, const struct kg_node *marks)
{
    for (uint32_t i = 0; i < marks->count; i++) {
        kg_buf_escaped(out, cli_text(&marks->items[i], "tool"));
        kg_buf_text(out, kg_node_is_true(&marks->items[i], "read_only")
                             ? " is marked as one that reads\n"
                             : " is marked as one that writes\n");
    }
}

static void put_profiles(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"NAME", "MODE", "TOOLS", NULL};
    const struct kg_node *profiles = kg_node_list(answer, "profiles");
    (void)cli;
    if (profiles->count == 0)
        kg_buf_text(out, "there are no profiles: every client may use every tool\n");
    struct table *table = profiles->count > 0 ? table_new(headings) : NULL;
    for (uint32_t i = 0; i < profiles->count; i++) {
        const struct kg_node *profile = &profiles->items[i];
        table_cell(table, cli_text(profile, "name"), NULL);
        kg_auto(kg_free) char *mode =
            kg_format("%s%s", kg_node_is_true(profile, "read_only") ? "read-only" : "all",
                      kg_node_is_true(profile, "search") ? ", search" : "");
        table_cell(table, kg_str(mode), NULL);
        put_patterns(table, kg_node_list(profile, "tools"));
    }
    if (table != NULL)
        table_print(table);
    put_marks(out, kg_node_list(answer, "marks"));
}

int cli_mcp_profile_list(struct cli *cli)
{
    const struct client_request request = {.method = "GET", .target = "/api/v1/mcp/profiles"};
    return cli_show(cli, &request, put_profiles);
}

static void put_set(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)cli;
    print_words(out, answer, "profile {name} is kept\n");
}

int cli_mcp_profile_set(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    bool searches;
    struct kg_err err;
    if (cli_mcp_searches(cli, &searches, &err) < 0)
        return print_error(&err);
    client_put_target(&target, "mcp/profiles", cli_argument(cli, 0), "");
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "tools", '[');
    for (size_t i = 1; i < cli->argument_count; i++)
        kg_json_text(&json, cli->arguments[i]);
    kg_json_end(&json, ']');
    kg_json_named_bool(&json, "read_only", cli_has(cli, "read-only"));
    kg_json_named_bool(&json, "search", searches);
    kg_json_end(&json, '}');
    const struct client_request request = {
        .method = "PUT", .target = kg_buf_terminate(&target), .body = kg_buf_view(&body)};
    return cli_show(cli, &request, put_set);
}

static void put_removed(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)cli;
    print_words(out, answer, "profile {name} is removed: its clients may use nothing\n");
}

int cli_mcp_profile_rm(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    client_put_target(&target, "mcp/profiles", cli_argument(cli, 0), "");
    const struct client_request request = {.method = "DELETE", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_removed);
}

/* -- marks ------------------------------------------------------------------------------------- */

static void put_marked(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    const struct kg_node *reads = kg_node_get(answer, "read_only");
    (void)cli;
    kg_buf_escaped(out, cli_text(answer, "tool"));
    kg_buf_text(out, reads == NULL || reads->type != KG_BOOL
                         ? " counts as its server says\n"
                         : (reads->boolean ? " counts as one that reads\n"
                                           : " counts as one that writes\n"));
}

int cli_mcp_mark(struct cli *cli)
{
    static const struct {
        const char *word, *body;
    } words[] = {{"reads", "{\"read_only\":true}"},
                 {"writes", "{\"read_only\":false}"},
                 {"unmarked", "{\"read_only\":null}"}};
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    struct kg_err err;
    size_t which = 0;
    while (which < KG_COUNT(words) && strcmp(words[which].word, cli_argument(cli, 1)) != 0)
        which++;
    if (which == KG_COUNT(words)) {
        kg_fail(&err, KG_E_USAGE, "a tool reads, writes, or is unmarked");
        return print_error(&err);
    }
    client_put_target(&target, "mcp/marks", cli_argument(cli, 0), "");
    const struct client_request request = {
        .method = "PUT", .target = kg_buf_terminate(&target), .body = kg_str(words[which].body)};
    return cli_show(cli, &request, put_marked);
}

/* -- who is there, and what was done ----------------------------------------------------------- */

static void put_clients(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"CLIENT",  "REVISION", "BY",    "PROJECT",
                                           "PROFILE", "LIST",     "SAVED", "CALLS",
                                           "LAST",    "WHEN",     NULL};
    const struct kg_node *clients = kg_node_list(answer, "clients");
    (void)cli;
    if (clients->count == 0) {
        kg_buf_text(out, "no MCP client is connected; kaged mcp connect CLIENT says how\n");
        return;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < clients->count; i++)
        table_texts(table, &clients->items[i],
                    (const char *const[]){"client", "revision", "owner", "project", "profile",
                                          "characters", "saved", "calls", "last_tool", "last_at",
                                          NULL});
    table_print(table);
}

int cli_mcp_status(struct cli *cli)
{
    const struct client_request request = {.method = "GET", .target = "/api/v1/mcp/clients"};
    return cli_show(cli, &request, put_clients);
}

static void put_payloads(struct kg_buf *out, const struct kg_node *call)
{
    static const char *const keys[] = {"arguments", "result"};
    for (size_t i = 0; i < KG_COUNT(keys); i++) {
        struct kg_str text = cli_text(call, keys[i]);
        if (text.length == 0)
            continue;
        kg_buf_printf(out, "    %s ", keys[i]);
        kg_buf_escaped(out, text);
        kg_buf_char(out, '\n');
    }
}

/* The oldest first, as they happened. */
static void put_log(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    const struct kg_node *calls = kg_node_list(answer, "calls");
    (void)cli;
    if (calls->count == 0)
        kg_buf_text(out, "no MCP client called anything\n");
    for (uint32_t i = calls->count; i > 0; i--) {
        const struct kg_node *call = &calls->items[i - 1];
        print_words(out, call,
                    "{at} {plugin}.{tool} {outcome} {duration_ms} ms, {bytes_in} bytes in, "
                    "{bytes_out} out, by {client} ({owner})\n");
        put_payloads(out, call);
    }
}

int cli_mcp_log(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    struct kg_err err;
    int64_t lines = 50;
    if (cli_option_number(cli, "lines", 1, 1000, &lines, &err) < 0)
        return print_error(&err);
    kg_buf_text(&target, "/api/v1/mcp/log");
    client_put_number(&target, "limit", lines);
    cli_put_option(&target, cli, "client");
    cli_put_option(&target, cli, "tool");
    cli_put_option(&target, cli, "since");
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_log);
}

int cli_mcp_forget(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    const struct client_request request = {.method = "DELETE", .target = "/api/v1/mcp/log"};
    int code = cli_ask(cli, &request, &body);
    if (code == CLI_DONE && !cli->json)
        puts("what MCP clients called is forgotten");
    return code;
}
