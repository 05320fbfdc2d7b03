/* What a plugin declares, for people: its tools. */
#include "cli/install.h"

/* "query [limit]" */
static void put_parameters(struct kg_buf *out, const struct kg_node *schema)
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

static bool waits(const struct kg_node *tool)
{
    struct kg_str state = cli_text(tool, "state");
    return kg_str_is(state, "new") || kg_str_is(state, "changed");
}

/* The state only where it says something: tools of a manifest were approved with it. */
static void put_cells(struct table *table, const struct kg_node *tool, bool with_states)
{
    kg_auto(kg_buf_free) struct kg_buf parameters = {0};
    put_parameters(&parameters, kg_node_get(tool, "parameters_schema"));
    table_cell(table, cli_text(tool, "full_name"), NULL);
    if (with_states)
        table_cell(table, cli_text(tool, "state"), waits(tool) ? "yellow" : NULL);
    table_cell(table, kg_buf_view(&parameters), NULL);
    table_cell(table, cli_text(tool, "description"), NULL);
}

static void put_dangers(struct kg_buf *out, const struct kg_node *tools)
{
    for (uint32_t i = 0; i < tools->count; i++) {
        const struct kg_node *tool = &tools->items[i];
        if (cli_text(tool, "danger").length == 0)
            continue;
        kg_buf_text(out, "! ");
        kg_buf_escaped(out, cli_text(tool, "full_name"));
        kg_buf_printf(out, "\n    DANGER: %.*s\n", KG_STR_ARG(cli_text(tool, "danger")));
    }
}

static void put_tools(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"TOOL", "PARAMETERS", "DESCRIPTION", NULL};
    static const char *const of_server[] = {"TOOL", "STATE", "PARAMETERS", "DESCRIPTION", NULL};
    const struct kg_node *tools = kg_node_list(answer, "tools");
    bool with_states = false;
    if (tools->count == 0) {
        fprintf(stderr, "plugin %s has no tools\n", cli_argument(cli, 0));
        return;
    }
    for (uint32_t i = 0; i < tools->count; i++)
        with_states |= !kg_str_is(cli_text(&tools->items[i], "state"), "approved");
    struct table *table = table_new(with_states ? of_server : headings);
    for (uint32_t i = 0; i < tools->count; i++)
        put_cells(table, &tools->items[i], with_states);
    table_print(table);
    put_dangers(out, tools);
    if (cli_text(answer, "waits").length > 0) {
        kg_auto(kg_free) char *self = cli_self(cli);
        fprintf(stderr, "some wait for your yes: %s plugin tools %s --approve\n", self,
                cli_argument(cli, 0));
    }
}

/* -- the yes ----------------------------------------------------------------------------------- */

static void put_fact(struct kg_buf *out, struct kg_str name, const struct kg_node *value_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (value_or_null == NULL || value_or_null->type == KG_NULL)
        return;
    kg_json_put_node(&text, value_or_null);
    kg_buf_text(out, "    ");
    kg_buf_escaped(out, name);
    kg_buf_text(out, ": ");
    kg_buf_escaped(out, kg_buf_view(&text));
    kg_buf_char(out, '\n');
}

static void put_words(struct kg_buf *out, const char *what, const struct kg_node *tool)
{
    struct kg_str description = cli_text(tool, "description");
    const struct kg_node *more = kg_node_typed(tool, "more", KG_OBJECT);
    if (what[0] != '\0' || description.length > 0) {
        kg_buf_printf(out, "    %s", what);
        kg_buf_escaped(out, description);
        kg_buf_char(out, '\n');
    }
    put_fact(out, KG_STR("parameters"), kg_node_get(tool, "parameters_schema"));
    put_fact(out, KG_STR("annotations"), kg_node_get(tool, "annotations"));
    for (uint32_t i = 0; more != NULL && i < more->count; i++)
        put_fact(out, more->members[i].key, &more->members[i].value);
    if (cli_text(tool, "danger").length > 0)
        kg_buf_printf(out, "    DANGER: %.*s\n", KG_STR_ARG(cli_text(tool, "danger")));
}

void show_waiting_tools(struct kg_buf *out, const struct kg_node *tools)
{
    for (uint32_t i = 0; i < tools->count; i++) {
        const struct kg_node *tool = &tools->items[i], *now = kg_node_get(tool, "now");
        if (!waits(tool))
            continue;
        kg_buf_printf(out, "  %s ", now != NULL ? "changed" : "new");
        kg_buf_escaped(out, cli_text(tool, "full_name"));
        kg_buf_char(out, '\n');
        put_words(out, now != NULL ? "was: " : "", tool);
        if (now != NULL)
            put_words(out, "now: ", now);
    }
}

static int send_decision(const struct cli *cli, const char *key, struct kg_str value)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, key, value);
    kg_json_end(&json, '}');
    client_put_target(&target, "plugins", cli_argument(cli, 0), "/tools");
    const struct client_request request = {
        .method = "POST", .target = kg_buf_terminate(&target), .body = kg_buf_view(&body)};
    return cli_show(cli, &request, put_tools);
}

static bool says_yes(const struct cli *cli)
{
    kg_auto(kg_close) int tty = terminal_open();
    if (cli_has(cli, "yes"))
        return true;
    return tty >= 0 && terminal_ask(tty, "Approve these tools?");
}

static int approve(const struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0}, shown = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    struct kg_err err = {0};
    int code = cli_ask_plugin(cli, "GET", "/tools", &body, &doc);
    if (code != CLI_DONE)
        return code;
    struct kg_str digest = cli_text(doc->root, "waits");
    if (digest.length == 0) {
        fprintf(stderr, "plugin %s: no tools wait for a yes\n", cli_argument(cli, 0));
        return CLI_DONE;
    }
    show_waiting_tools(&shown, kg_node_list(doc->root, "tools"));
    fwrite(shown.data, 1, shown.length, stderr);
    if (says_yes(cli))
        return send_decision(cli, "approve", digest);
    kg_fail(&err, KG_E_REFUSED, "plugin %s: its tools were not approved", cli_argument(cli, 0));
    kg_hint(&err, "without a terminal: --approve --yes");
    return print_error(&err);
}

int cli_plugin_tools(struct cli *cli)
{
    const char *off = cli_option_value(cli, "off"), *on = cli_option_value(cli, "on");
    if (cli_has(cli, "approve"))
        return approve(cli);
    if (off != NULL || on != NULL)
        return send_decision(cli, off ? "off" : "on", kg_str(off ? off : on));
    return cli_show_plugin(cli, "GET", "/tools", put_tools);
}
