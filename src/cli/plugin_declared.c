/* What a plugin declares, for people: its tools. */
#include "cli/cli.h"

static bool is_required(const struct kg_node *schema, struct kg_str name)
{
    const struct kg_node *required = kg_node_list(schema, "required");
    for (uint32_t i = 0; i < required->count; i++)
        if (required->items[i].type == KG_STRING && kg_str_equal(required->items[i].text, name))
            return true;
    return false;
}

/* "query [limit]" */
static void put_parameters(struct kg_buf *out, const struct kg_node *schema)
{
    const struct kg_node *properties =
        schema && schema->type == KG_OBJECT ? kg_node_get(schema, "properties") : NULL;
    for (uint32_t i = 0; properties && properties->type == KG_OBJECT && i < properties->count;
         i++) {
        struct kg_str name = properties->members[i].key;
        bool required = is_required(schema, name);
        kg_buf_text(out, i > 0 ? " " : "");
        kg_buf_text(out, required ? "" : "[");
        kg_buf_str(out, name);
        kg_buf_text(out, required ? "" : "]");
    }
}

static void put_tools(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"TOOL", "PARAMETERS", "DESCRIPTION", NULL};
    const struct kg_node *tools = kg_node_list(answer, "tools");
    (void)out;
    if (tools->count == 0) {
        fprintf(stderr, "plugin %s declares no tools\n", cli_argument(cli, 0));
        return;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < tools->count; i++) {
        kg_auto(kg_buf_free) struct kg_buf parameters = {0};
        put_parameters(&parameters, kg_node_get(&tools->items[i], "parameters_schema"));
        table_cell(table, cli_text(&tools->items[i], "full_name"), NULL);
        table_cell(table, kg_buf_view(&parameters), NULL);
        table_cell(table, cli_text(&tools->items[i], "description"), NULL);
    }
    table_print(table);
}

int cli_plugin_tools(struct cli *cli)
{
    return cli_show_plugin(cli, "GET", "/tools", put_tools);
}
