/*
 * Knobs of a plugin: shown, read and turned. Whether a value may be had is the daemon's to say;
 * here it is only put into the JSON of the knob's type.
 */
#include "cli/rows.h"

/* The value as JSON; of one that is not shown, that it is not. */
static void plugin_knobs_put_value(struct kg_buf *out, const struct kg_node *knob)
{
    const struct kg_node *value = kg_node_get(knob, "value");
    if (kg_node_is_true(knob, "hidden"))
        kg_buf_text(out, "(hidden)");
    else if (value != NULL)
        kg_json_put_node(out, value);
}

static const struct cell origin_cells[] = {{"FROM", "origin=schema", "the plugin's default", NULL},
                                           {"FROM", "origin=operator", "local.toml", NULL},
                                           {"FROM", "origin=primary", "the primary", NULL},
                                           {"FROM", "origin=agent", "this agent", NULL},
                                           {"FROM", "origin=knob", "the knob's default", NULL},
                                           {"FROM", NULL, "{origin}", NULL},
                                           {"VALUE", "hidden", "(hidden)", NULL},
                                           {"VALUE", NULL, "{value:json}", NULL},
                                           {0}};

/* -- all of them ------------------------------------------------------------------------------- */

static const struct row list_rows[] = {
    {"!knobs", .words = "plugin {@1} declares no knobs\n", .aside = true},
    {"!agent_path", .each = "knobs",
     .table = "KNOB={name}; TYPE={type}; VALUE; DEFAULT={default:json}; LABEL={label}",
     .cells = origin_cells},
    {"agent_path", .each = "knobs",
     .table = "KNOB={name}; TYPE={type}; VALUE; FROM; DEFAULT={default:json}; LABEL={label}",
     .cells = origin_cells},
    {0},
};
const struct cli_page page_plugin_knobs = {"GET", "/api/v1/plugins/{1}/knobs?project&agent",
                                           .rows = list_rows};

/* -- one of them ------------------------------------------------------------------------------- */

static const struct kg_node *find_knob(const struct kg_doc *doc, const char *name,
                                       struct kg_err *err)
{
    const struct kg_node *knobs = kg_node_list(doc->root, "knobs");
    char **names = kg_list_new(knobs->count);
    const struct kg_node *found = NULL;
    for (uint32_t i = 0; i < knobs->count; i++) {
        names[i] = kg_str_dup(cli_text(&knobs->items[i], "name"));
        if (strcmp(names[i], name) == 0)
            found = &knobs->items[i];
    }
    if (found == NULL) {
        const char *nearest =
            kg_str_nearest(kg_str(name), (const char *const *)names, knobs->count);
        kg_fail(err, KG_E_NOT_FOUND, "there is no knob \"%" KG_S_NAME "\"", name);
        if (nearest != NULL)
            kg_hint(err, "did you mean %s?", nearest);
        else
            kg_hint(err, "kaged plugin knobs NAME lists all knobs");
    }
    kg_list_free(names);
    return found;
}

/* Asks for all and finds the one of the second argument. */
static int ask_knob(const struct cli *cli, struct kg_doc **ret_doc, const struct kg_node **ret_knob)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_err err = {0};
    int code = page_ask(cli, &page_plugin_knobs, NULL, &body, ret_doc);
    if (code != CLI_DONE)
        return code;
    *ret_knob = find_knob(*ret_doc, cli_argument(cli, 1), &err);
    return *ret_knob != NULL ? CLI_DONE : print_error(&err);
}

int cli_plugin_knobs_get(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    const struct kg_node *knob = NULL;
    int code = ask_knob(cli, &doc, &knob);
    if (code != CLI_DONE)
        return code;
    const struct kg_node *value = kg_node_get(knob, "value");
    if (cli->json) {
        kg_json_put_node(&text, knob);
        print_json(kg_buf_view(&text));
        return CLI_DONE;
    }
    if (value != NULL && value->type == KG_STRING)
        kg_buf_escaped(&text, value->text);
    else
        plugin_knobs_put_value(&text, knob);
    print_line(kg_buf_view(&text));
    return CLI_DONE;
}

/* -- turning ----------------------------------------------------------------------------------- */

/* Numbers and flags are written as in JSON; all other types are texts. */
static int plugin_knobs_put_typed(struct kg_buf *out, struct kg_str type, const char *value,
                                  struct kg_err *err)
{
    bool is_number = kg_str_is(type, "range") || kg_str_is(type, "int_range");
    if (!is_number && !kg_str_is(type, "boolean")) {
        kg_json_put_string(out, kg_str(value));
        return 0;
    }
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_str(value), NULL);
    if (doc == NULL || doc->root->type != (is_number ? KG_NUMBER : KG_BOOL))
        return kg_fail(err, KG_E_INVALID_PARAMS, "\"%" KG_S_WORD "\" is not %s", value,
                       is_number ? "a number" : "true or false");
    kg_buf_text(out, value);
    return 0;
}

static int make_body(const struct cli *cli, const struct kg_node *knob, struct kg_buf *ret_body,
                     struct kg_err *err)
{
    const char *value = cli_argument(cli, 2);
    int result = 0;
    if ((value == NULL) != cli_has(cli, "unset")) {
        kg_fail(err, KG_E_USAGE,
                value ? "VALUE and --unset cannot be used together" : "VALUE is missing");
        return kg_hint(err, "--unset removes the knob's setting");
    }
    kg_buf_text(ret_body, "{\"value\":");
    if (value != NULL)
        result = plugin_knobs_put_typed(ret_body, cli_text(knob, "type"), value, err);
    else
        kg_buf_text(ret_body, "null");
    kg_buf_char(ret_body, '}');
    return result < 0 ? kg_wrap(err, result, "knob %s", cli_argument(cli, 1)) : 0;
}

/* "turns = 7   [this agent]" */
static const struct row turned_rows[] = {
    {.words = "{name} = "},
    {"hidden", .words = "(hidden)"},
    {"!hidden", .words = "{value:json}"},
    {"origin=schema", .words = "   [the plugin's default]\n"},
    {"origin=operator", .words = "   [local.toml]\n"},
    {"origin=primary", .words = "   [the primary]\n"},
    {"origin=agent", .words = "   [this agent]\n"},
    {"origin=knob", .words = "   [the knob's default]\n"},
    {"!origin=schema|operator|primary|agent|knob", .words = "   [{origin}]\n"},
    {0},
};

int cli_plugin_knobs_set(struct cli *cli)
{
    static const struct cli_page page = {"PUT", "/api/v1/plugins/{1}/knobs/{2}?project&agent",
                                         .silence_ms = CLIENT_WAIT_FOREVER, .rows = turned_rows};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    const struct kg_node *knob = NULL;
    struct kg_err err = {0};
    if (!cli_has(cli, "project")) {
        kg_fail(&err, KG_E_USAGE, "a knob is set for an agent of a project");
        kg_hint(&err, "name it with --project");
        return print_error(&err);
    }
    int code = ask_knob(cli, &doc, &knob);
    if (code != CLI_DONE)
        return code;
    if (make_body(cli, knob, &body, &err) < 0)
        return print_error(&err);
    return page_show_with(cli, &page, &(struct page_given){.body = kg_buf_view(&body)});
}
