/*
 * kaged catalog settings, set, unset, grants, grant, revoke: what an org sets of a package, and
 * lets it reach. A sensitive value comes from a terminal that does not show it or from stdin, and
 * is never an argument, which everybody on the machine could read.
 */
#include "cli/cli.h"

#include "secret/secret.h"

/* "/api/orgs/ORG/plugins/PID/" and what follows; false: no org was named, which was said. */
static bool put_package_target(const struct cli *cli, struct kg_buf *target, const char *rest)
{
    if (!cli_put_org(cli, target))
        return false;
    kg_buf_text(target, "/plugins/");
    kg_buf_percent(target, kg_str(cli_argument(cli, 0)));
    kg_buf_text(target, rest);
    return true;
}

/* -- settings ---------------------------------------------------------------------------------- */

static void put_names(struct kg_buf *out, const char *words, const struct kg_node *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        kg_buf_text(out, i == 0 ? words : ", ");
        kg_buf_escaped(out, names->items[i].text);
    }
    if (names->count > 0)
        kg_buf_char(out, '\n');
}

static void put_cell(struct table *table, const struct kg_node *setting, const char *key)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    const struct kg_node *value = kg_node_get(setting, key);
    if (value != NULL && value->type != KG_NULL)
        kg_json_put_node(&text, value);
    table_cell(table, kg_buf_view(&text), NULL);
}

static void put_settings(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"KEY",      "TYPE",        "VALUE", "DEFAULT",
                                           "REQUIRED", "DESCRIPTION", NULL};
    const struct kg_node *settings = kg_node_list(answer, "settings");
    (void)cli;
    if (settings->count == 0) {
        print_words(out, answer, "{pid} {version} has no settings\n");
        return;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < settings->count; i++) {
        const struct kg_node *setting = &settings->items[i];
        table_texts(table, setting, (const char *const[]){"key", "type", NULL});
        put_cell(table, setting, "value");
        put_cell(table, setting, "default");
        table_cell(table, kg_node_is_true(setting, "required") ? KG_STR("yes") : KG_STR("no"),
                   NULL);
        table_texts(table, setting, (const char *const[]){"description", NULL});
    }
    table_print(table);
    put_names(out, "missing: ", kg_node_list(answer, "missing"));
    put_names(out, "set for another version, and not used in this one: ",
              kg_node_list(answer, "dropped"));
}

int cli_catalog_settings(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    if (!put_package_target(cli, &target, "/settings"))
        return CLI_USAGE;
    cli_put_option(&target, cli, "version");
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_settings);
}

static void put_setting_set(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    kg_buf_escaped(out, kg_str(cli_argument(cli, 1)));
    print_words(out, answer, " of {pid} is changed\n");
    put_names(out, "still missing: ", kg_node_list(answer, "missing"));
}

/* value NULL: it is removed. */
static int setting_send(const struct cli *cli, struct kg_str json_value)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    kg_auto(secret_wipe) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    if (!put_package_target(cli, &target, "/settings"))
        return CLI_USAGE;
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "settings", '{');
    kg_json_named_raw(&json, cli_argument(cli, 1), json_value);
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    const struct client_request request = {
        .method = "PATCH", .target = kg_buf_terminate(&target), .body = kg_buf_view(&body)};
    return cli_show(cli, &request, put_setting_set);
}

static const struct kg_node *setting_find(const struct kg_node *answer, const char *key)
{
    const struct kg_node *settings = kg_node_list(answer, "settings");
    for (uint32_t i = 0; i < settings->count; i++)
        if (kg_str_is(kg_node_text(&settings->items[i], "key"), key))
            return &settings->items[i];
    return NULL;
}

/* The value in the JSON of its type; whether it may be had is the daemon's to say. */
static void put_value(const struct kg_node *setting, struct kg_str text, struct kg_buf *out)
{
    if (!kg_str_is(kg_node_text(setting, "type"), "str") && kg_json_check(text, NULL) == KG_JSON_OK)
        kg_buf_str(out, text);
    else
        kg_json_put_string(out, text);
}

static int setting_ask(const struct cli *cli, struct kg_doc **ret_doc)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    if (!put_package_target(cli, &target, "/settings"))
        return CLI_USAGE;
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    return cli_ask_object(cli, &request, &body, ret_doc);
}

int cli_catalog_set(struct cli *cli)
{
    const char *key = cli_argument(cli, 1), *given = cli_argument(cli, 2);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    kg_auto(secret_wipe) struct kg_buf text = {0}, value = {0};
    struct kg_err err = {0};
    int code = setting_ask(cli, &doc);
    if (code != CLI_DONE)
        return code;
    const struct kg_node *setting = setting_find(doc->root, key);
    if (setting == NULL) {
        kg_fail(&err, KG_E_NOT_FOUND, "package %s has no setting \"%.128s\"", cli_argument(cli, 0),
                key);
        return print_error(&err);
    }
    if (given != NULL && kg_node_is_true(setting, "sensitive")) {
        kg_fail(&err, KG_E_USAGE, "setting %.128s is sensitive: its value cannot be an argument",
                key);
        kg_hint(&err, "leave it out: it is asked for, or read from stdin");
        return print_error(&err);
    }
    if (given != NULL)
        kg_buf_text(&text, given);
    else if (cli_ask_value(key, &text, &err) < 0)
        return print_error(&err);
    put_value(setting, kg_buf_view(&text), &value);
    return setting_send(cli, kg_buf_view(&value));
}

int cli_catalog_unset(struct cli *cli)
{
    return setting_send(cli, KG_STR("null"));
}

static void put_rotated(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)cli;
    print_words(out, answer, "all is sealed with a new key; rows: {sealed}\n");
}

int cli_catalog_rotate(struct cli *cli)
{
    const struct client_request request = {.method = "POST", .target = "/api/admin/catalog/rotate"};
    return cli_show(cli, &request, put_rotated);
}

/* -- grants ------------------------------------------------------------------------------------ */

static void put_grants(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"CAPABILITY", "GRANTED BY", "AT", NULL};
    static const char *const keys[] = {"capability", "granted_by", "granted_at", NULL};
    const struct kg_node *grants = kg_node_list(answer, "grants");
    (void)cli;
    put_names(out, "it wants: ", kg_node_list(answer, "declares"));
    put_names(out, "this org may grant: ", kg_node_list(answer, "org_may"));
    if (grants->count == 0) {
        print_words(out, answer, "{pid} may reach nothing outside of its cage\n");
        return;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < grants->count; i++)
        table_texts(table, &grants->items[i], keys);
    table_print(table);
}

int cli_catalog_grants(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    if (!put_package_target(cli, &target, "/grants"))
        return CLI_USAGE;
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_grants);
}

int cli_catalog_grant(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    if (!put_package_target(cli, &target, "/grants"))
        return CLI_USAGE;
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "capability", cli_argument(cli, 1));
    kg_json_end(&json, '}');
    const struct client_request request = {
        .method = "POST", .target = kg_buf_terminate(&target), .body = kg_buf_view(&body)};
    return cli_show(cli, &request, put_grants);
}

int cli_catalog_revoke(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    if (!put_package_target(cli, &target, "/grants"))
        return CLI_USAGE;
    client_put_query(&target, "capability", kg_str(cli_argument(cli, 1)));
    const struct client_request request = {.method = "DELETE", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_grants);
}
