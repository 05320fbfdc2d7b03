/* What a plugin declares, for people: its tools. */
#include "cli/install.h"
#include "cli/rows.h"

/* "query [limit]" */
static void plugin_declared_put_parameters(struct kg_buf *out, const struct kg_node *schema)
{
    const struct kg_node *properties =
        schema && schema->type == KG_OBJECT ? kg_node_get(schema, "properties") : NULL;
    for (uint32_t i = 0; properties && properties->type == KG_OBJECT && i < properties->count;
         i++) {
        struct kg_str name = properties->members[i].key;
        bool required = kg_node_has_text(kg_node_get(schema, "required"), name);
        kg_buf_text(out, i > 0 ? " " : "");
        kg_buf_text(out, required ? "" : "[");
        kg_buf_str(out, name);
        kg_buf_text(out, required ? "" : "]");
    }
}

static void put_tool_parameters(struct kg_buf *out, const struct kg_node *tool)
{
    plugin_declared_put_parameters(out, kg_node_get(tool, "parameters_schema"));
}

static const struct cell tool_cells[] = {{"STATE", "state=new|changed", "{state}", "yellow"},
                                         {"STATE", NULL, "{state}", NULL},
                                         {"PARAMETERS", .put = put_tool_parameters},
                                         {0}};
static const struct row plain_rows[] = {
    {.each = "tools",
     .table = "TOOL={full_name}; PARAMETERS; DESCRIPTION={description}",
     .cells = tool_cells},
    {0},
};
static const struct row state_rows[] = {
    {.each = "tools",
     .table = "TOOL={full_name}; STATE; PARAMETERS; DESCRIPTION={description}",
     .cells = tool_cells},
    {0},
};

/* The state only where it says something: tools of a manifest were approved with it. */
static void put_tool_table(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    const struct kg_node *tools = kg_node_list(answer, "tools");
    bool with_states = false;
    for (uint32_t i = 0; i < tools->count; i++)
        with_states |= !kg_str_is(cli_text(&tools->items[i], "state"), "approved");
    rows_put(out, cli, answer, with_states ? state_rows : plain_rows, 0);
}

static const struct row danger_rows[] = {
    {"danger", .words = "! {full_name}\n    DANGER: {danger}\n"},
    {0},
};
static const struct row tools_rows[] = {
    {"!tools", .words = "plugin {@1} has no tools\n", .aside = true},
    {.put = put_tool_table},
    {.each = "tools", .rows = danger_rows},
    {"tools waits", .words = "some wait for your approval: {@self} plugin tools {@1} --approve\n",
     .aside = true},
    {0},
};
static const struct cli_page tools_page = {"GET", "/api/v1/plugins/{1}/tools", .rows = tools_rows};

/* -- the yes ----------------------------------------------------------------------------------- */

/* Every word that a model would be told. */
static const struct row word_rows[] = {
    {"parameters_schema", .words = "    parameters: {parameters_schema:json}\n"},
    {"annotations", .words = "    annotations: {annotations:json}\n"},
    {.each = "more", .words = "    {@key}: {.:json}\n"},
    {"danger", .words = "    DANGER: {danger}\n"},
    {0},
};
static const struct row now_rows[] = {
    {.words = "    now: {description}\n"},
    {.rows = word_rows},
    {0},
};
static const struct row new_rows[] = {
    {.words = "  new {full_name}\n"},
    {"description", .words = "    {description}\n"},
    {.rows = word_rows},
    {0},
};
static const struct row changed_rows[] = {
    {.words = "  changed {full_name}\n    was: {description}\n"},
    {.rows = word_rows},
    {0},
};

void show_waiting_tools(struct kg_buf *out, const struct kg_node *tools)
{
    for (uint32_t i = 0; i < tools->count; i++) {
        const struct kg_node *tool = &tools->items[i], *now = kg_node_get(tool, "now");
        struct kg_str state = cli_text(tool, "state");
        if (!kg_str_is(state, "new") && !kg_str_is(state, "changed"))
            continue;
        rows_put(out, NULL, tool, now != NULL ? changed_rows : new_rows, 0);
        if (now != NULL)
            rows_put(out, NULL, now, now_rows, 0);
    }
}

static int send_decision(const struct cli *cli, const char *key, struct kg_str value)
{
    static const struct cli_page page = {"POST", "/api/v1/plugins/{1}/tools", .rows = tools_rows};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    rows_put_text(&body, key, value);
    return page_show_with(cli, &page, &(struct page_given){.body = kg_buf_view(&body)});
}

static bool plugin_declared_says_yes(const struct cli *cli)
{
    kg_auto(kg_close) int tty = terminal_open();
    if (cli_has(cli, "yes"))
        return true;
    return tty >= 0 && terminal_ask(tty, "Approve these tools?");
}

static int plugin_declared_approve(const struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0}, shown = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    struct kg_err err = {0};
    int code = page_ask(cli, &tools_page, NULL, &body, &doc);
    if (code != CLI_DONE)
        return code;
    struct kg_str digest = cli_text(doc->root, "waits");
    if (digest.length == 0) {
        fprintf(stderr, "plugin %s: no tools wait for approval\n", cli_argument(cli, 0));
        return CLI_DONE;
    }
    show_waiting_tools(&shown, kg_node_list(doc->root, "tools"));
    fwrite(shown.data, 1, shown.length, stderr);
    if (plugin_declared_says_yes(cli))
        return send_decision(cli, "approve", digest);
    kg_fail(&err, KG_E_REFUSED, "plugin %s: its tools were not approved", cli_argument(cli, 0));
    kg_hint(&err, "without a terminal: --approve --yes");
    return print_error(&err);
}

int cli_plugin_tools(struct cli *cli)
{
    const char *off = cli_option_value(cli, "off"), *on = cli_option_value(cli, "on");
    if (cli_has(cli, "approve"))
        return plugin_declared_approve(cli);
    if (off != NULL || on != NULL)
        return send_decision(cli, off ? "off" : "on", kg_str(off ? off : on));
    return page_show(cli, &tools_page);
}
