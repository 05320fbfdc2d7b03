/*
 * kaged catalog settings, set, unset, grants, grant, revoke: what an org sets of a package, and
 * lets it reach. A sensitive value comes from a terminal that does not show it or from stdin, and
 * is never an argument, which everybody on the machine could read.
 */
#include "cli/rows.h"

#include "secret/secret.h"

#define OF_PACKAGE(method, rest) (method), "/api/orgs/{--org}/plugins/{1}" rest

/* -- settings ---------------------------------------------------------------------------------- */

static const struct cell required_cells[] = {
    {"REQUIRED", "required", "yes", NULL}, {"REQUIRED", NULL, "no", NULL}, {0}};
static const struct row settings_rows[] = {
    {"!settings", .words = "{pid} {version} has no settings\n"},
    {.each = "settings",
     .table = "KEY={key}; TYPE={type}; VALUE={value:set}; DEFAULT={default:set}; REQUIRED; "
              "DESCRIPTION={description}",
     .cells = required_cells},
    {"settings missing", .words = "missing: {missing:list}\n"},
    {"settings dropped",
     .words = "set for another version, and not used in this one: {dropped:list}\n"},
    {0},
};
const struct cli_page page_catalog_settings = {OF_PACKAGE("GET", "/settings?version"),
                                               .rows = settings_rows};

static const struct row set_rows[] = {
    {.words = "{@2} of {pid} is changed\n"},
    {"missing", .words = "still missing: {missing:list}\n"},
    {0},
};

static int setting_send(const struct cli *cli, struct kg_str json_value)
{
    static const struct cli_page page = {OF_PACKAGE("PATCH", "/settings"), .rows = set_rows};
    kg_auto(secret_wipe) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "settings", '{');
    kg_json_named_raw(&json, cli_argument(cli, 1), json_value);
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    return page_show_with(cli, &page, &(struct page_given){.body = kg_buf_view(&body)});
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
static void catalog_settings_put_value(const struct kg_node *setting, struct kg_str text,
                                       struct kg_buf *out)
{
    if (!kg_str_is(kg_node_text(setting, "type"), "str") && kg_json_check(text, NULL) == KG_JSON_OK)
        kg_buf_str(out, text);
    else
        kg_json_put_string(out, text);
}

int cli_catalog_set(struct cli *cli)
{
    const char *key = cli_argument(cli, 1), *given = cli_argument(cli, 2);
    static const struct cli_page all = {OF_PACKAGE("GET", "/settings")};
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    kg_auto(secret_wipe) struct kg_buf text = {0}, value = {0};
    struct kg_err err = {0};
    int code = page_ask(cli, &all, NULL, &body, &doc);
    if (code != CLI_DONE)
        return code;
    const struct kg_node *setting = setting_find(doc->root, key);
    if (setting == NULL) {
        kg_fail(&err, KG_E_NOT_FOUND, "package %s has no setting \"%" KG_S_WORD "\"",
                cli_argument(cli, 0), key);
        return print_error(&err);
    }
    if (given != NULL && kg_node_is_true(setting, "sensitive")) {
        kg_fail(&err, KG_E_USAGE,
                "setting %" KG_S_WORD " is sensitive: its value cannot be an argument", key);
        kg_hint(&err, "leave it out: it is asked for, or read from stdin");
        return print_error(&err);
    }
    if (given != NULL)
        kg_buf_text(&text, given);
    else if (cli_ask_value(key, &text, &err) < 0)
        return print_error(&err);
    catalog_settings_put_value(setting, kg_buf_view(&text), &value);
    return setting_send(cli, kg_buf_view(&value));
}

int cli_catalog_unset(struct cli *cli)
{
    return setting_send(cli, KG_STR("null"));
}

const struct cli_page page_catalog_rotate = {"POST", "/api/admin/catalog/rotate",
                                             .words =
                                                 "all settings are sealed with a new key; rows: "
                                                 "{sealed}\n"};

/* -- grants ------------------------------------------------------------------------------------ */

static const struct row grant_rows[] = {
    {"declares", .words = "it asks for: {declares:list}\n"},
    {"org_may", .words = "this org may grant: {org_may:list}\n"},
    {"!grants", .words = "{pid} may reach nothing outside its cage\n"},
    {.each = "grants",
     .table = "CAPABILITY={capability}; GRANTED BY={granted_by}; AT={granted_at}"},
    {0},
};
static const struct member grant_members[] = {{"capability", "2"}, {0}};

const struct cli_page page_catalog_grants = {OF_PACKAGE("GET", "/grants"), .rows = grant_rows};
const struct cli_page page_catalog_grant = {OF_PACKAGE("POST", "/grants"), grant_members,
                                            .rows = grant_rows};
const struct cli_page page_catalog_revoke = {OF_PACKAGE("DELETE", "/grants?capability=2"),
                                             .rows = grant_rows};
