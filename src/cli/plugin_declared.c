/* What a plugin declares, for people: its tools, its knobs and what they are set to. */
#include "cli/cli.h"

static void print_none(const struct cli *cli, const char *what)
{
    fprintf(stderr, "plugin %s declares no %s\n", cli_argument(cli, 0), what);
}

/* Asks; prints the answer itself for --json, and then *ret_list is NULL. */
static int ask_list(const struct cli *cli, const char *rest, const char *key,
                    struct kg_doc **ret_doc, const struct kg_node **ret_list)
{
    int code = cli_ask_plugin_to_show(cli, "GET", rest, ret_doc);
    if (*ret_doc == NULL)
        return code;
    const struct kg_node *list = kg_node_get((*ret_doc)->root, key);
    *ret_list = list && list->type == KG_ARRAY ? list : NULL;
    if (*ret_list != NULL && list->count == 0)
        print_none(cli, key);
    return CLI_DONE;
}

/* -- tools ------------------------------------------------------------------------------------- */

static bool is_required(const struct kg_node *schema, struct kg_str name)
{
    const struct kg_node *required = kg_node_get(schema, "required");
    for (uint32_t i = 0; required && required->type == KG_ARRAY && i < required->count; i++)
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

int cli_plugin_tools(struct cli *cli)
{
    static const char *const headings[] = {"TOOL", "PARAMETERS", "DESCRIPTION", NULL};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    const struct kg_node *tools = NULL;
    int code = ask_list(cli, "/tools", "tools", &doc, &tools);
    if (code != CLI_DONE || tools == NULL || tools->count == 0)
        return code;
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < tools->count; i++) {
        kg_auto(kg_buf_free) struct kg_buf parameters = {0};
        put_parameters(&parameters, kg_node_get(&tools->items[i], "parameters_schema"));
        table_cell(table, cli_text(&tools->items[i], "full_name"), NULL);
        table_cell(table, kg_buf_view(&parameters), NULL);
        table_cell(table, cli_text(&tools->items[i], "description"), NULL);
    }
    table_print(table);
    return CLI_DONE;
}

/* -- knobs ------------------------------------------------------------------------------------- */

static void put_value(struct table *table, const struct kg_node *value)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    if (value != NULL)
        kg_json_node(&json, value);
    table_cell(table, kg_buf_view(&text), NULL);
}

int cli_plugin_knobs(struct cli *cli)
{
    static const char *const headings[] = {"KNOB", "TYPE", "VALUE", "DEFAULT", "LABEL", NULL};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    const struct kg_node *knobs = NULL;
    int code = ask_list(cli, "/knobs", "knobs", &doc, &knobs);
    if (code != CLI_DONE || knobs == NULL || knobs->count == 0)
        return code;
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < knobs->count; i++) {
        const struct kg_node *knob = &knobs->items[i];
        table_cell(table, cli_text(knob, "name"), NULL);
        table_cell(table, cli_text(knob, "type"), NULL);
        put_value(table, kg_node_get(knob, "value"));
        put_value(table, kg_node_get(knob, "default"));
        table_cell(table, cli_text(knob, "label"), NULL);
    }
    table_print(table);
    return CLI_DONE;
}
