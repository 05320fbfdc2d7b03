/*
 * Knobs of a plugin: shown, read and turned. Whether a value may be had is the daemon's to say;
 * here it is only put into the JSON of the knob's type.
 */
#include "cli/cli.h"

/* "/api/v1/plugins/NAME/knobs", what follows, and for whom. */
static void put_target(struct kg_buf *target, const struct cli *cli, const char *knob_or_null)
{
    client_put_target(target, "plugins", cli_argument(cli, 0), knob_or_null ? "/knobs/" : "/knobs");
    kg_buf_percent(target, kg_str(knob_or_null));
    cli_put_option(target, cli, "project");
    cli_put_option(target, cli, "agent");
}

/* The value as JSON; of one that is not shown, that it is not. */
static void put_value(struct kg_buf *out, const struct kg_node *knob)
{
    const struct kg_node *value = kg_node_get(knob, "value");
    if (kg_node_is_true(knob, "hidden"))
        kg_buf_text(out, "(hidden)");
    else if (value != NULL)
        kg_json_put_node(out, value);
}

static struct kg_str origin_words(const struct kg_node *knob)
{
    static const struct {
        const char *origin;
        struct kg_str words;
    } rows[] = {
        {"schema", KG_STR("the plugin's default")}, {"operator", KG_STR("local.toml")},
        {"primary", KG_STR("the primary")},         {"agent", KG_STR("this agent")},
        {"knob", KG_STR("the knob's default")},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (kg_str_is(cli_text(knob, "origin"), rows[i].origin))
            return rows[i].words;
    return cli_text(knob, "origin");
}

/* -- all of them ------------------------------------------------------------------------------- */

static void put_cells(struct table *table, const struct kg_node *knob, bool of_agent)
{
    kg_auto(kg_buf_free) struct kg_buf value = {0}, preset = {0};
    put_value(&value, knob);
    if (kg_node_get(knob, "default") != NULL)
        kg_json_put_node(&preset, kg_node_get(knob, "default"));
    table_cell(table, cli_text(knob, "name"), NULL);
    table_cell(table, cli_text(knob, "type"), NULL);
    table_cell(table, kg_buf_view(&value), NULL);
    if (of_agent)
        table_cell(table, origin_words(knob), NULL);
    table_cell(table, kg_buf_view(&preset), NULL);
    table_cell(table, cli_text(knob, "label"), NULL);
}

static void put_knobs(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"KNOB", "TYPE", "VALUE", "DEFAULT", "LABEL", NULL};
    static const char *const of_agent[] = {"KNOB",    "TYPE",  "VALUE", "FROM",
                                           "DEFAULT", "LABEL", NULL};
    const struct kg_node *knobs = kg_node_list(answer, "knobs");
    bool has_agent = cli_text(answer, "agent_path").length > 0;
    (void)out;
    if (knobs->count == 0) {
        fprintf(stderr, "plugin %s declares no knobs\n", cli_argument(cli, 0));
        return;
    }
    struct table *table = table_new(has_agent ? of_agent : headings);
    for (uint32_t i = 0; i < knobs->count; i++)
        put_cells(table, &knobs->items[i], has_agent);
    table_print(table);
}

int cli_plugin_knobs(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    put_target(&target, cli, NULL);
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_knobs);
}

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
        kg_fail(err, KG_E_NOT_FOUND, "there is no knob \"%.64s\"", name);
        if (nearest != NULL)
            kg_hint(err, "did you mean %s?", nearest);
        else
            kg_hint(err, "kaged plugin knobs NAME lists those that there are");
    }
    kg_list_free(names);
    return found;
}

/* Asks for all and finds the one of the second argument. */
static int ask_knob(const struct cli *cli, struct kg_doc **ret_doc, const struct kg_node **ret_knob)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    struct kg_err err = {0};
    put_target(&target, cli, NULL);
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    int code = cli_ask_object(cli, &request, &body, ret_doc);
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
        put_value(&text, knob);
    print_line(kg_buf_view(&text));
    return CLI_DONE;
}

/* -- turning ----------------------------------------------------------------------------------- */

/* Numbers and flags are written as in JSON; all other types are texts. */
static int put_typed(struct kg_buf *out, struct kg_str type, const char *value, struct kg_err *err)
{
    bool is_number = kg_str_is(type, "range") || kg_str_is(type, "int_range");
    if (!is_number && !kg_str_is(type, "boolean")) {
        kg_json_put_string(out, kg_str(value));
        return 0;
    }
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_str(value), NULL);
    if (doc == NULL || doc->root->type != (is_number ? KG_NUMBER : KG_BOOL))
        return kg_fail(err, KG_E_INVALID_PARAMS, "\"%.100s\" is not %s", value,
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
                value ? "a VALUE and --unset: only one can be meant" : "VALUE is missing");
        return kg_hint(err, "with --unset the knob goes back to what holds without it");
    }
    kg_buf_text(ret_body, "{\"value\":");
    if (value != NULL)
        result = put_typed(ret_body, cli_text(knob, "type"), value, err);
    else
        kg_buf_text(ret_body, "null");
    kg_buf_char(ret_body, '}');
    return result < 0 ? kg_wrap(err, result, "knob %s", cli_argument(cli, 1)) : 0;
}

/* "turns = 7   [this agent]" */
static void put_turned(struct kg_buf *out, const struct cli *cli, const struct kg_node *knob)
{
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    (void)cli;
    put_value(&json, knob);
    print_words(out, knob, "{name} = ");
    kg_buf_json_escaped(out, kg_buf_view(&json));
    kg_buf_text(out, "   [");
    kg_buf_escaped(out, origin_words(knob));
    kg_buf_text(out, "]\n");
}

int cli_plugin_knobs_set(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    const struct kg_node *knob = NULL;
    struct kg_err err = {0};
    if (!cli_has(cli, "project")) {
        kg_fail(&err, KG_E_USAGE, "a knob is turned for an agent of a project");
        kg_hint(&err, "name it with --project");
        return print_error(&err);
    }
    int code = ask_knob(cli, &doc, &knob);
    if (code != CLI_DONE)
        return code;
    if (make_body(cli, knob, &body, &err) < 0)
        return print_error(&err);
    put_target(&target, cli, cli_argument(cli, 1));
    const struct client_request request = {
        .method = "PUT",
        .target = kg_buf_terminate(&target),
        .body = kg_buf_view(&body),
        .silence_ms = CLIENT_WAIT_FOREVER,
    };
    return cli_show(cli, &request, put_turned);
}
