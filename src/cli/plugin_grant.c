/* What the operator grants a plugin, or takes from it, beside what its manifest declares. */
#include "cli/cli.h"

static void put_lines(struct kg_buf *out, const char *label, const struct kg_node *lines)
{
    for (uint32_t i = 0; i < lines->count; i++)
        print_fact(out, 13, i == 0 ? label : "", lines->items[i].text);
}

static void put_granted(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    const struct kg_node *restarted = kg_node_list(answer, "restarted");
    (void)cli;
    print_words(out, answer, "{name}\n");
    put_lines(out, "may do", kg_node_list(answer, "capabilities"));
    put_lines(out, "you granted", kg_node_list(answer, "granted"));
    put_lines(out, "you closed", kg_node_list(answer, "closed"));
    put_lines(out, "restarted", restarted);
}

static void put_body(struct kg_buf *out, const struct cli *cli)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "capabilities", '[');
    for (size_t i = 1; i < cli->argument_count; i++)
        kg_json_text(&json, cli->arguments[i]);
    kg_json_end(&json, ']');
    if (cli_has(cli, "project"))
        kg_json_named_text(&json, "project", cli_option_value(cli, "project"));
    kg_json_end(&json, '}');
}

static int change(struct cli *cli, const char *act)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0}, body = {0};
    client_put_target(&target, "plugins", cli_argument(cli, 0), act);
    put_body(&body, cli);
    const struct client_request request = {
        .method = "POST",
        .target = kg_buf_terminate(&target),
        .body = kg_buf_view(&body),
        .silence_ms = CLIENT_WAIT_FOREVER,
    };
    return cli_show(cli, &request, put_granted);
}

int cli_plugin_grant(struct cli *cli)
{
    return change(cli, "/grant");
}

int cli_plugin_revoke(struct cli *cli)
{
    return change(cli, "/revoke");
}
