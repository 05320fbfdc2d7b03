/* kaged system-plugin: what the operator loaded into the daemon, and how that does. */
#include "cli/cli.h"

#include <stdio.h>

static const char *color_of(struct kg_str state)
{
    return kg_str_is(state, "running") ? "green" : kg_str_is(state, "failed") ? "red" : NULL;
}

static void put_row(struct table *table, const struct kg_node *plugin)
{
    struct kg_str state = cli_text(plugin, "state");
    table_texts(table, plugin, (const char *const[]){"name", "version", NULL});
    table_cell(table, state, color_of(state));
    table_texts(table, plugin, (const char *const[]){"calls", "slow", "dropped", "path", NULL});
}

static void put_list(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    static const char *const headings[] = {"NAME", "VERSION", "STATE", "CALLS",
                                           "SLOW", "DROPPED", "PATH",  NULL};
    const struct kg_node *plugins = kg_node_list(answer, "system_plugins");
    if (plugins->count == 0) {
        fprintf(stderr, "no system plugins; [system_plugins.NAME] in %s loads one\n",
                cli->paths.local_file);
        return;
    }
    struct table *table = table_new(headings);
    for (uint32_t i = 0; i < plugins->count; i++)
        put_row(table, &plugins->items[i]);
    table_print(table);
    for (uint32_t i = 0; i < plugins->count; i++)
        if (cli_text(&plugins->items[i], "problem").length > 0)
            print_words(out, &plugins->items[i], "{name} is left out: {problem}\n");
}

int cli_system_plugin_list(struct cli *cli)
{
    const struct client_request request = {.method = "GET", .target = "/api/v1/system-plugins"};
    return cli_show(cli, &request, put_list);
}

static void put_fact(struct kg_buf *out, const char *label, struct kg_str text)
{
    print_fact(out, 10, label, text);
}

static void put_hooks(struct kg_buf *out, const char *label, const struct kg_node *hooks)
{
    for (uint32_t i = 0; i < hooks->count; i++)
        put_fact(out, i == 0 ? label : "", hooks->items[i].text);
}

static void put_status(struct kg_buf *out, const struct cli *cli, const struct kg_node *plugin)
{
    (void)cli;
    print_words(out, plugin, "{name} is {state}\n");
    put_fact(out, "problem", cli_text(plugin, "problem"));
    put_fact(out, "hint", cli_text(plugin, "hint"));
    put_fact(out, "version", cli_text(plugin, "version"));
    put_fact(out, "path", cli_text(plugin, "path"));
    put_fact(out, "hash", cli_text(plugin, "hash"));
    put_fact(out, "required", kg_node_is_true(plugin, "required") ? KG_STR("yes") : KG_STR(""));
    put_hooks(out, "may have", kg_node_list(plugin, "allowed"));
    put_hooks(out, "has", kg_node_list(plugin, "hooks"));
    print_words(out, plugin,
                "  calls     {calls}; {waiting} events wait, {dropped} were dropped\n");
    if (kg_node_number(plugin, "slow") > 0)
        print_words(out, plugin,
                    "  slow      {slow} calls took over 50 ms; {slowest} took {slowest_ms} ms\n");
    if (cli_text(plugin, "busy").length > 0)
        print_words(out, plugin, "  busy      in {busy} for {busy_ms} ms\n");
    if (cli_text(plugin, "left_in").length > 0)
        print_words(out, plugin, "  before    the daemon ended while it was in: {left_in}\n");
}

int cli_system_plugin_status(struct cli *cli)
{
    kg_auto(kg_buf_free) struct kg_buf target = {0};
    client_put_target(&target, "system-plugins", cli_argument(cli, 0), "");
    const struct client_request request = {.method = "GET", .target = kg_buf_terminate(&target)};
    return cli_show(cli, &request, put_status);
}
