/* kaged mcp: who the clients of the Model Context Protocol are, what they did, what they may use.
 */
#include "cli/rows.h"

int cli_mcp_searches(const struct cli *cli, bool *ret_searches, struct kg_err *err)
{
    const char *tools = cli_option_value(cli, "tools");
    *ret_searches = tools != NULL;
    return tools == NULL || strcmp(tools, "search") == 0
               ? 0
               : kg_fail(err, KG_E_USAGE,
                         "--tools: %" KG_S_NAME " is unknown; the only value is search", tools);
}

/* -- profiles ---------------------------------------------------------------------------------- */

static const struct cell mode_cells[] = {{"MODE", "read_only search", "read-only, search", NULL},
                                         {"MODE", "read_only", "read-only", NULL},
                                         {"MODE", "search", "all, search", NULL},
                                         {"MODE", NULL, "all", NULL},
                                         {0}};
static const struct row mark_rows[] = {
    {"read_only", .words = "{tool} is marked as read-only\n"},
    {"!read_only", .words = "{tool} is marked as writing\n"},
    {0},
};
static const struct row profile_rows[] = {
    {"!profiles", .words = "there are no profiles: every client may use every tool\n"},
    {.each = "profiles", .table = "NAME={name}; MODE; TOOLS={tools:spaces}", .cells = mode_cells},
    {.each = "marks", .rows = mark_rows},
    {0},
};
const struct cli_page page_mcp_profile_list = {"GET", "/api/v1/mcp/profiles", .rows = profile_rows};
const struct cli_page page_mcp_profile_rm = {
    "DELETE", "/api/v1/mcp/profiles/{1}",
    .words = "profile {name} is removed: its clients may use nothing\n"};

static const struct member profile_members[] = {{"tools", "2", MEMBER_REST},
                                                {"read_only", "--read-only", MEMBER_FLAG},
                                                {"search", "--tools", MEMBER_FLAG},
                                                {0}};
static const struct cli_page profile_set = {"PUT", "/api/v1/mcp/profiles/{1}", profile_members,
                                            .words = "profile {name} is kept\n"};

int cli_mcp_profile_set(struct cli *cli)
{
    bool searches;
    struct kg_err err;
    if (cli_mcp_searches(cli, &searches, &err) < 0)
        return print_error(&err);
    return page_show(cli, &profile_set);
}

/* -- marks ------------------------------------------------------------------------------------- */

static const struct row marked_rows[] = {
    {"read_only=true", .words = "{tool} counts as read-only\n"},
    {"read_only=false", .words = "{tool} counts as writing\n"},
    {"!read_only=true|false", .words = "{tool} counts as its server says\n"},
    {0},
};
static const struct cli_page mark = {"PUT", "/api/v1/mcp/marks/{1}", .rows = marked_rows};

int cli_mcp_mark(struct cli *cli)
{
    static const struct {
        const char *word, *body;
    } words[] = {{"reads", "{\"read_only\":true}"},
                 {"writes", "{\"read_only\":false}"},
                 {"unmarked", "{\"read_only\":null}"}};
    struct kg_err err;
    size_t which = 0;
    while (which < KG_COUNT(words) && strcmp(words[which].word, cli_argument(cli, 1)) != 0)
        which++;
    if (which == KG_COUNT(words)) {
        kg_fail(&err, KG_E_USAGE, "a tool reads, writes, or is unmarked");
        return print_error(&err);
    }
    return page_show_with(cli, &mark, &(struct page_given){.body = kg_str(words[which].body)});
}

/* -- who is there, and what was done ----------------------------------------------------------- */

static const struct row client_rows[] = {
    {"!clients", .words = "no MCP client is connected; kaged mcp connect CLIENT says how\n"},
    {.each = "clients",
     .table = "CLIENT={client}; REVISION={revision}; BY={owner}; PROJECT={project}; "
              "PROFILE={profile}; LIST={characters}; SAVED={saved}; CALLS={calls}; "
              "LAST={last_tool}; WHEN={last_at}"},
    {0},
};
const struct cli_page page_mcp_status = {"GET", "/api/v1/mcp/clients", .rows = client_rows};

static const struct row call_rows[] = {
    {.words = "{at} {plugin}.{tool} {outcome} {duration_ms} ms, {bytes_in} bytes in, "
              "{bytes_out} out, by {client} ({owner})\n"},
    {"arguments", .words = "    arguments {arguments}\n"},
    {"result", .words = "    result {result}\n"},
    {0},
};

/* The oldest first, as they happened. */
static void cli_mcp_put_log(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    const struct kg_node *calls = kg_node_list(answer, "calls");
    for (uint32_t i = calls->count; i > 0; i--)
        rows_put(out, cli, &calls->items[i - 1], call_rows, 0);
}

static const struct row log_rows[] = {
    {"!calls", .words = "no MCP client has called anything\n"},
    {.put = cli_mcp_put_log},
    {0},
};

int cli_mcp_log(struct cli *cli)
{
    static const struct cli_page page = {
        "GET", "/api/v1/mcp/log?limit=--lines:50&client&tool&since", .rows = log_rows};
    struct kg_err err;
    int64_t lines = 0;
    if (cli_option_number(cli, "lines", 1, 1000, &lines, &err) < 0)
        return print_error(&err);
    return page_show(cli, &page);
}

int cli_mcp_forget(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    const struct client_request request = {.method = "DELETE", .target = "/api/v1/mcp/log"};
    int code = cli_ask(cli, &request, &body);
    if (code == CLI_DONE && !cli->json)
        puts("the log of MCP clients is empty now");
    return code;
}
