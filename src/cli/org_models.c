/*
 * kaged org models, add-model, change-model, remove-model: models that an org has configured. A key
 * comes from a terminal that does not show it or from stdin, and is never an argument.
 */
#include "cli/rows.h"

#include "secret/secret.h"

static const struct row list_rows[] = {
    {"!llm_configs", .words = "there are none\n"},
    {.each = "llm_configs",
     .table = "NAME={name}; PROVIDER={provider}; MODEL={model}; ADDRESS={base_url}; KEY={api_key}; "
              "ID={id}"},
    {0},
};
const struct cli_page page_org_models = {"GET", "/api/orgs/{1}/llm-configs", .rows = list_rows};
const struct cli_page page_org_remove_model = {"DELETE", "/api/orgs/{1}/llm-configs/{2}",
                                               .words = "model {name} is removed\n"};

/* The options that both take, and the key, if it is wanted. */
static int put_model_body(const struct cli *cli, const char *name, const char *model,
                          struct kg_buf *body, struct kg_err *err)
{
    kg_auto(secret_wipe) struct kg_buf key = {0};
    struct kg_json_writer json = kg_json_writer(body);
    const char *provider = cli_option_value(cli, "provider");
    if (cli_has(cli, "key") && cli_ask_value("the key", &key, err) < 0)
        return -1;
    kg_json_begin(&json, '{');
    if (name != NULL)
        kg_json_named_text(&json, "name", name);
    if (model != NULL) {
        kg_json_named_text(&json, "model", model);
        kg_json_named_text(&json, "provider", provider ? provider : "local");
    }
    if (cli_option_value(cli, "base-url") != NULL)
        kg_json_named_text(&json, "base_url", cli_option_value(cli, "base-url"));
    if (cli_has(cli, "key"))
        kg_json_named_str(&json, "api_key", kg_buf_view(&key));
    kg_json_end(&json, '}');
    return 0;
}

static int model_send(const struct cli *cli, const struct cli_page *page, const char *name,
                      const char *model)
{
    kg_auto(secret_wipe) struct kg_buf body = {0};
    struct kg_err err = {0};
    if (put_model_body(cli, name, model, &body, &err) < 0)
        return print_error(&err);
    return page_show_with(cli, page, &(struct page_given){.body = kg_buf_view(&body)});
}

int cli_org_add_model(struct cli *cli)
{
    static const struct cli_page page = {"POST", "/api/orgs/{1}/llm-configs",
                                         .words = "added model {name}, with the id {id}\n"};
    return model_send(cli, &page, cli_argument(cli, 1), cli_argument(cli, 2));
}

int cli_org_change_model(struct cli *cli)
{
    static const struct cli_page page = {"PATCH", "/api/orgs/{1}/llm-configs/{2}",
                                         .words = "model {name} is changed; its id is {id}\n"};
    return model_send(cli, &page, cli_option_value(cli, "name"), cli_option_value(cli, "model"));
}
