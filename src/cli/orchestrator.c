/* kaged orchestrator: what an org makes of its packages, whether it runs, and a word with it. */
#include "cli/cli.h"

#include "secret/secret.h"

#define VALUES_MAX_BYTES ((size_t)256 * 1024)
#define LOAD_SILENCE_MS  300000

/* "/api/orgs/ORG/orchestrators" and what follows; false: no org was named, which was said. */
static bool put_orchestrator_target(const struct cli *cli, struct kg_buf *target,
                                    const char *name_or_null, const char *rest)
{
    if (!cli_put_org(cli, target))
        return false;
    kg_buf_text(target, "/orchestrators");
    if (name_or_null != NULL) {
        kg_buf_char(target, '/');
        kg_buf_percent(target, kg_str(name_or_null));
    }
    kg_buf_text(target, rest);
    return true;
}

/* A request about the one that the first argument names. */
static int orchestrator_send(const struct cli *cli, const char *method, const char *rest,
                             struct kg_str body, cli_put *put)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    if (!put_orchestrator_target(cli, &target, cli_argument(cli, 0), rest))
        return CLI_USAGE;
    const struct client_request request = {.method = method,
                                           .target = kg_buf_terminate(&target),
                                           .body = body,
                                           .silence_ms = LOAD_SILENCE_MS};
    return cli_show(cli, &request, put);
}

/* -- showing ----------------------------------------------------------------------------------- */

static struct kg_str state_word(const struct kg_node *item)
{
    if (kg_node_is_true(item, "stale"))
        return KG_STR("stale");
    if (kg_node_is_true(item, "is_ready"))
        return KG_STR("ready");
    return kg_node_text(item, "load_error").length > 0 ? KG_STR("failed") : KG_STR("not loaded");
}

static void put_orchestrators(struct kg_buf *out, const struct cli *cli,
                              const struct kg_node *answer)
{
    static const char *const headings[] = {"NAME", "MODE", "TIER", "STATE", "ID", NULL};
    const struct kg_node *items = kg_node_list(answer, "orchestrators");
    (void)cli;
    if (items->count == 0) {
        kg_buf_text(out, "there are no orchestrators\n");
        return;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < items->count; i++) {
        table_texts(table, &items->items[i], (const char *const[]){"name", "mode", "tier", NULL});
        table_cell(table, state_word(&items->items[i]), NULL);
        table_texts(table, &items->items[i], (const char *const[]){"instance_id", NULL});
    }
    table_print(table);
}

int cli_orchestrator_list(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    if (!put_orchestrator_target(cli, &target, NULL, ""))
        return CLI_USAGE;
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_orchestrators);
}

static void put_settings(struct kg_buf *out, const struct kg_node *plugin)
{
    const struct kg_node *settings = kg_node_list(plugin, "settings");
    for (uint32_t i = 0; i < settings->count; i++) {
        const struct kg_node *value = kg_node_get(&settings->items[i], "value");
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        if (value != NULL)
            kg_json_put_node(&text, value);
        print_words(out, &settings->items[i], "    {key} = ");
        kg_buf_escaped(out, kg_buf_view(&text));
        kg_buf_char(out, '\n');
    }
}

static void put_orchestrator(struct kg_buf *out, const struct cli *cli,
                             const struct kg_node *answer)
{
    const struct kg_node *plugins = kg_node_typed(answer, "plugin_settings", KG_OBJECT);
    kg_auto(kg_buf_free) struct kg_buf config = {0};
    (void)cli;
    kg_json_put_node(&config, kg_node_get(answer, "config"));
    print_words(out, answer, "{name} ({instance_id}): {mode}, {tier}, ");
    kg_buf_str(out, state_word(answer));
    kg_buf_char(out, '\n');
    if (kg_node_text(answer, "load_error").length > 0)
        print_words(out, answer, "  it was not loaded: {load_error}\n");
    kg_buf_text(out, "  config ");
    kg_buf_escaped(out, kg_buf_view(&config));
    kg_buf_char(out, '\n');
    for (uint32_t i = 0; plugins != NULL && i < plugins->count; i++) {
        kg_buf_text(out, "  ");
        kg_buf_escaped(out, plugins->members[i].key);
        kg_buf_text(out, kg_node_is_true(&plugins->members[i].value, "active") ? "\n"
                                                                               : " (not active)\n");
        put_settings(out, &plugins->members[i].value);
    }
}

int cli_orchestrator_show(struct cli *cli)
{
    return orchestrator_send(cli, "GET", "", KG_STR(""), put_orchestrator);
}

/* -- changing ---------------------------------------------------------------------------------- */

static void put_option(struct kg_json_writer *json, const struct cli *cli, const char *option,
                       const char *key, const char *fallback)
{
    const char *value = cli_option_value(cli, option);
    if (value != NULL || fallback != NULL)
        kg_json_named_text(json, key, value ? value : fallback);
}

static void put_created(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    print_words(out, answer, "{name} is there, by the id {instance_id}\n");
    print_words(out, answer, "load it: kaged orchestrator load {instance_id} --org ");
    kg_buf_escaped(out, kg_str(cli_option_value(cli, "org")));
    kg_buf_char(out, '\n');
}

int cli_orchestrator_create(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    if (!put_orchestrator_target(cli, &target, NULL, ""))
        return CLI_USAGE;
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", cli_argument(cli, 0));
    put_option(&json, cli, "framework", "framework_type", "langgraph");
    put_option(&json, cli, "mode", "mode", "supervisor");
    put_option(&json, cli, "tier", "tier", "demand");
    put_option(&json, cli, "whoami", "whoami", NULL);
    kg_json_named_begin(&json, "active_plugin_ids", '[');
    for (size_t i = 1; cli_argument(cli, i) != NULL; i++)
        kg_json_text(&json, cli_argument(cli, i));
    kg_json_end(&json, ']');
    kg_json_named_begin(&json, "config", '{');
    put_option(&json, cli, "model", "model", NULL);
    put_option(&json, cli, "llm", "default_llm_config_id", NULL);
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    const struct client_request request = {
        .method = "POST", .target = kg_buf_terminate(&target), .body = kg_buf_view(&body)};
    return cli_show(cli, &request, put_created);
}

static void put_saved(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)cli;
    print_words(out, answer, "{name} is changed");
    kg_buf_text(out, kg_node_is_true(answer, "stale") ? "; what runs of it is what it was until "
                                                        "it is loaded again\n"
                                                      : "\n");
}

/* An object of JSON: an argument, or with "-" what comes on stdin. */
static int read_object(const char *text, struct kg_buf *ret_json, struct kg_err *err)
{
    if (strcmp(text, "-") == 0)
        return cli_read_stdin("the values", VALUES_MAX_BYTES, ret_json, err);
    kg_buf_text(ret_json, text);
    return 0;
}

int cli_orchestrator_config(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf value = {0}, body = {0};
    struct kg_err err = {0};
    if (read_object(cli_argument(cli, 1), &value, &err) < 0)
        return print_error(&err);
    kg_buf_printf(&body, "{\"config\":%.*s}", KG_STR_ARG(kg_buf_view(&value)));
    return orchestrator_send(cli, "PATCH", "/config", kg_buf_view(&body), put_saved);
}

int cli_orchestrator_settings(struct cli *cli)
{
    kg_auto(secret_wipe) struct kg_buf value = {0}, body = {0};
    struct kg_err err = {0};
    if (read_object(cli_argument(cli, 2), &value, &err) < 0)
        return print_error(&err);
    kg_buf_text(&body, "{\"plugin_settings\":{");
    kg_json_put_string(&body, kg_str(cli_argument(cli, 1)));
    kg_buf_text(&body, ":{\"settings\":");
    kg_buf_str(&body, kg_buf_view(&value));
    kg_buf_text(&body, "}}}");
    return orchestrator_send(cli, "PATCH", "/plugin-settings", kg_buf_view(&body), put_saved);
}

static void put_deleted(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)cli;
    print_words(out, answer, "{name} is deleted\n");
}

int cli_orchestrator_delete(struct cli *cli)
{
    return orchestrator_send(cli, "DELETE", "", KG_STR(""), put_deleted);
}

/* -- running ----------------------------------------------------------------------------------- */

static void put_lifecycle(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)cli;
    print_words(out, answer, "{message} ({instance_id}, {tier})\n");
}

int cli_orchestrator_load(struct cli *cli)
{
    return orchestrator_send(cli, "POST", "/load", KG_STR(""), put_lifecycle);
}

int cli_orchestrator_reload(struct cli *cli)
{
    return orchestrator_send(cli, "POST", "/reload", KG_STR(""), put_lifecycle);
}

int cli_orchestrator_unload(struct cli *cli)
{
    return orchestrator_send(cli, "POST", "/unload", KG_STR(""), put_lifecycle);
}

static void put_response(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)cli;
    print_words(out, answer, "{response}\n");
}

/* A header cannot have a line end in it, nor what is no text. */
static bool put_header(struct kg_buf *headers, const char *name, const char *value)
{
    for (const char *at = value; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F)
            return false;
    kg_buf_printf(headers, "%s: %s\r\n", name, value);
    return true;
}

int cli_orchestrator_chat(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf headers = {0}, body = {0}, target = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    if (!put_orchestrator_target(cli, &target, NULL, ""))
        return CLI_USAGE;
    if (!put_header(&headers, "X-ORG-ID", cli_option_value(cli, "org")) ||
        !put_header(&headers, "X-INSTANCE-ID", cli_argument(cli, 0)))
        return print_problem(CLI_USAGE, KG_STR("a name has a line end in it"), KG_STR_NULL);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "message", cli_argument(cli, 1));
    put_option(&json, cli, "conversation", "conversation_id", NULL);
    put_option(&json, cli, "resource", "resource_id", NULL);
    kg_json_named_bool(&json, "stream", false);
    kg_json_end(&json, '}');
    const struct client_request request = {.method = "POST",
                                           .target = "/api/chat/completion",
                                           .body = kg_buf_view(&body),
                                           .headers = kg_buf_terminate(&headers),
                                           .silence_ms = LOAD_SILENCE_MS};
    return cli_show(cli, &request, put_response);
}
