/*
 * kaged org models, add-model, change-model, remove-model: models that an org has configured. A key
 * comes from a terminal that does not show it or from stdin, and is never an argument.
 */
#include "cli/cli.h"

#include "secret/secret.h"

/* "/api/orgs/ORG/llm-configs", and the id if there is one. */
static void put_models_target(const struct cli *cli, struct kg_buf *target, const char *id_or_null)
{
    kg_buf_text(target, "/api/orgs/");
    kg_buf_percent(target, kg_str(cli_argument(cli, 0)));
    kg_buf_text(target, id_or_null ? "/llm-configs/" : "/llm-configs");
    kg_buf_percent(target, kg_str(id_or_null));
}

static void put_models(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"NAME", "PROVIDER", "MODEL", "ADDRESS",
                                           "KEY",  "ID",       NULL};
    const struct kg_node *models = kg_node_list(answer, "llm_configs");
    (void)cli;
    if (models->count == 0) {
        kg_buf_text(out, "there are none\n");
        return;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < models->count; i++)
        table_texts(
            table, &models->items[i],
            (const char *const[]){"name", "provider", "model", "base_url", "api_key", "id", NULL});
    table_print(table);
}

int cli_org_models(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    put_models_target(cli, &target, NULL);
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_models);
}

static void put_model(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)cli;
    print_words(out, answer, "model {name} is there, by the id {id}\n");
}

static void put_model_gone(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)cli;
    print_words(out, answer, "model {name} is removed\n");
}

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

static int model_send(const struct cli *cli, const char *method, const char *id_or_null,
                      const char *name, const char *model)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    kg_auto(secret_wipe) struct kg_buf body = {0};
    struct kg_err err = {0};
    if (put_model_body(cli, name, model, &body, &err) < 0)
        return print_error(&err);
    put_models_target(cli, &target, id_or_null);
    const struct client_request request = {
        .method = method, .target = kg_buf_terminate(&target), .body = kg_buf_view(&body)};
    return cli_show(cli, &request, put_model);
}

int cli_org_add_model(struct cli *cli)
{
    return model_send(cli, "POST", NULL, cli_argument(cli, 1), cli_argument(cli, 2));
}

int cli_org_change_model(struct cli *cli)
{
    return model_send(cli, "PATCH", cli_argument(cli, 1), cli_option_value(cli, "name"),
                      cli_option_value(cli, "model"));
}

int cli_org_remove_model(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    put_models_target(cli, &target, cli_argument(cli, 1));
    const struct client_request request = {.method = "DELETE", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_model_gone);
}
