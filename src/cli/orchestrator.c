/* kaged orchestrator: what an org makes of its packages, whether it runs, and a word with it. */
#include "cli/rows.h"

#include "secret/secret.h"

#define VALUES_MAX_BYTES ((size_t)256 * 1024)
#define LOAD_SILENCE_MS  300000

#define OF_ORG(method, rest)                                                                       \
    (method), "/api/orgs/{--org}/orchestrators" rest, .silence_ms = LOAD_SILENCE_MS

/* -- showing ----------------------------------------------------------------------------------- */

static const struct cell state_cells[] = {{"STATE", "stale", "stale", NULL},
                                          {"STATE", "is_ready", "ready", NULL},
                                          {"STATE", "load_error", "failed", NULL},
                                          {"STATE", NULL, "not loaded", NULL},
                                          {0}};
static const struct row list_rows[] = {
    {"!orchestrators", .words = "there are no orchestrators\n"},
    {.each = "orchestrators",
     .table = "NAME={name}; MODE={mode}; TIER={tier}; STATE; ID={instance_id}",
     .cells = state_cells},
    {0},
};
const struct cli_page page_orchestrator_list = {OF_ORG("GET", ""), .rows = list_rows};

static const struct row plugin_rows[] = {
    {.words = "  {@key}"},
    {"!active", .words = " (not active)"},
    {.words = "\n"},
    {.each = "settings", .words = "    {key} = {value:json}\n"},
    {0},
};
static const struct row shown_rows[] = {
    {.words = "{name} ({instance_id}): {mode}, {tier}, "},
    {"stale", .words = "stale\n"},
    {"!stale is_ready", .words = "ready\n"},
    {"!stale !is_ready load_error", .words = "failed\n"},
    {"!stale !is_ready !load_error", .words = "not loaded\n"},
    {"load_error", .words = "  it was not loaded: {load_error}\n"},
    {.words = "  config {config:json}\n"},
    {.each = "plugin_settings", .rows = plugin_rows},
    {0},
};
const struct cli_page page_orchestrator_show = {OF_ORG("GET", "/{1}"), .rows = shown_rows};

/* -- changing ---------------------------------------------------------------------------------- */

static const struct member create_members[] = {
    {"name", "1"},
    {"framework_type", "--framework", .otherwise = "langgraph"},
    {"mode", "--mode", .otherwise = "supervisor"},
    {"tier", "--tier", .otherwise = "demand"},
    {"whoami", "--whoami"},
    {"active_plugin_ids", "2", MEMBER_REST},
    {"config", NULL, MEMBER_BEGIN},
    {"model", "--model"},
    {"default_llm_config_id", "--llm"},
    {"config", NULL, MEMBER_END},
    {0},
};
const struct cli_page page_orchestrator_create = {
    OF_ORG("POST", ""), .members = create_members,
    .words = "created {name}, with the id {instance_id}\n"
             "load it with: {@self} orchestrator load {instance_id} --org {--org}\n"};

static const struct row saved_rows[] = {
    {.words = "{name} is changed"},
    {"stale", .words = "; it runs as it was until it is loaded again"},
    {.words = "\n"},
    {0},
};

/* A JSON object: an argument, or with "-" what comes on stdin. */
static int orchestrator_read_object(const char *text, struct kg_buf *ret_json, struct kg_err *err)
{
    if (strcmp(text, "-") == 0)
        return cli_read_stdin("the values", VALUES_MAX_BYTES, ret_json, err);
    kg_buf_text(ret_json, text);
    return 0;
}

int cli_orchestrator_config(struct cli *cli)
{
    static const struct cli_page page = {OF_ORG("PATCH", "/{1}/config"), .rows = saved_rows};
    kg_auto(kg_buf_free) struct kg_buf value = {0}, body = {0};
    struct kg_err err = {0};
    if (orchestrator_read_object(cli_argument(cli, 1), &value, &err) < 0)
        return print_error(&err);
    kg_buf_printf(&body, "{\"config\":%.*s}", KG_STR_ARG(kg_buf_view(&value)));
    return page_show_with(cli, &page, &(struct page_given){.body = kg_buf_view(&body)});
}

int cli_orchestrator_settings(struct cli *cli)
{
    static const struct cli_page page = {OF_ORG("PATCH", "/{1}/plugin-settings"),
                                         .rows = saved_rows};
    kg_auto(secret_wipe) struct kg_buf value = {0}, body = {0};
    struct kg_err err = {0};
    if (orchestrator_read_object(cli_argument(cli, 2), &value, &err) < 0)
        return print_error(&err);
    kg_buf_text(&body, "{\"plugin_settings\":{");
    kg_json_put_string(&body, kg_str(cli_argument(cli, 1)));
    kg_buf_text(&body, ":{\"settings\":");
    kg_buf_str(&body, kg_buf_view(&value));
    kg_buf_text(&body, "}}}");
    return page_show_with(cli, &page, &(struct page_given){.body = kg_buf_view(&body)});
}

const struct cli_page page_orchestrator_delete = {OF_ORG("DELETE", "/{1}"),
                                                  .words = "{name} is deleted\n"};

/* -- running ----------------------------------------------------------------------------------- */

#define LIFECYCLE_WORDS "{message} ({instance_id}, {tier})\n"

const struct cli_page page_orchestrator_load = {OF_ORG("POST", "/{1}/load"),
                                                .words = LIFECYCLE_WORDS};
const struct cli_page page_orchestrator_reload = {OF_ORG("POST", "/{1}/reload"),
                                                  .words = LIFECYCLE_WORDS};
const struct cli_page page_orchestrator_unload = {OF_ORG("POST", "/{1}/unload"),
                                                  .words = LIFECYCLE_WORDS};

/* A header is one line of text. */
static bool orchestrator_put_header(struct kg_buf *headers, const char *name, const char *value)
{
    for (const char *at = value; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F)
            return false;
    kg_buf_printf(headers, "%s: %s\r\n", name, value);
    return true;
}

static const struct member chat_members[] = {{"message", "2"},
                                             {"conversation_id", "--conversation"},
                                             {"resource_id", "--resource"},
                                             {"stream", "--stream", MEMBER_FLAG}, /* never */
                                             {0}};

int cli_orchestrator_chat(struct cli *cli)
{
    static const struct cli_page page = {"POST", "/api/chat/completion", chat_members,
                                         .silence_ms = LOAD_SILENCE_MS, .words = "{response}\n"};
    kg_auto(kg_buf_free) struct kg_buf headers = {0};
    const char *org = cli_option_value(cli, "org");
    if (org == NULL)
        return page_lacks("--org");
    if (!orchestrator_put_header(&headers, "X-ORG-ID", org) ||
        !orchestrator_put_header(&headers, "X-INSTANCE-ID", cli_argument(cli, 0)))
        return print_problem(CLI_USAGE, KG_STR("a name cannot contain a line end"), KG_STR_NULL);
    return page_show_with(cli, &page, &(struct page_given){.headers = kg_buf_terminate(&headers)});
}
