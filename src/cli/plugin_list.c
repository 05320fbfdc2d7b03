/*
 * The list of plugins: what an operator looks at every day, on a screen of 80 columns and more.
 * Long names are cut to what there is room for, and descriptions are shown where there is some
 * left; in a pipe, with --verbose and with --json nothing is cut. What is wrong with a plugin
 * stands below.
 */
#include "cli/cli.h"

#include <inttypes.h>

#define LIST_COLUMNS        80 /* of the table with names and versions of these widths */
#define NAME_COLUMNS        18
#define VERSION_COLUMNS     9
#define DESCRIPTION_COLUMNS 20 /* fewer tell nothing */

static const char *state_color(struct kg_str state)
{
    if (kg_str_is(state, "running"))
        return "green";
    if (kg_str_is(state, "failed") || kg_str_is(state, "crashed"))
        return "red";
    return NULL;
}

static bool is_invalid(const struct kg_node *plugin)
{
    return cli_text(plugin, "problem").length > 0 &&
           kg_str_is(cli_text(plugin, "state"), "disabled");
}

/* Why one that is invalid cannot start: a word for the table, and more of them for the line. */
static const struct {
    const char *code, *word, *words;
} reasons[] = {
    {"invalid_manifest", "invalid", "invalid manifest"},
    {"not_approved", "unapproved", "not approved"},
    {NULL, "invalid", "invalid config"},
};

static size_t plugin_list_reason_of(const struct kg_node *plugin)
{
    size_t i = 0;
    while (reasons[i].code != NULL && !kg_str_is(cli_text(plugin, "problem_code"), reasons[i].code))
        i++;
    return i;
}

static void plugin_list_put_cut(struct table *table, struct kg_str text, size_t columns)
{
    kg_auto(kg_buf_free) struct kg_buf cut = {0};
    kg_buf_str(&cut, text);
    print_cut(&cut, 0, columns);
    table_cell(table, kg_buf_view(&cut), NULL);
}

static void plugin_list_put_figure(struct table *table,
                                   void (*print)(struct kg_buf *out, int64_t number),
                                   int64_t number, bool shown)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (shown)
        print(&text, number);
    table_cell(table, kg_buf_view(&text), NULL);
}

/* How the width of the screen is spent. */
struct widths {
    size_t name, version;
    bool description;
};

static struct widths widths_here(void)
{
    size_t columns = print_columns();
    if (columns == SIZE_MAX)
        return (struct widths){SIZE_MAX, SIZE_MAX, true};
    size_t spare = columns > LIST_COLUMNS ? columns - LIST_COLUMNS : 0;
    bool description = spare > DESCRIPTION_COLUMNS;
    size_t name = NAME_COLUMNS + spare - (description ? DESCRIPTION_COLUMNS : 0);
    return (struct widths){name, VERSION_COLUMNS, description};
}

static void put_brief_row(struct table *table, const struct kg_node *plugin,
                          const struct widths *widths)
{
    struct kg_str state = cli_text(plugin, "state");
    int64_t started_ms = 0, calls = kg_node_number(plugin, "calls");
    int64_t starts = kg_node_number(plugin, "starts"),
            memory = kg_node_number(plugin, "memory_bytes");
    bool runs = cli_time(plugin, "started_at", &started_ms);
    plugin_list_put_cut(table, cli_text(plugin, "name"), widths->name);
    plugin_list_put_cut(table, cli_text(plugin, "version"), widths->version);
    table_cell(table,
               is_invalid(plugin) ? kg_str(reasons[plugin_list_reason_of(plugin)].word) : state,
               is_invalid(plugin) ? "red" : state_color(state));
    plugin_list_put_figure(table, print_age, kg_wall_ms() - started_ms, runs);
    plugin_list_put_figure(table, print_short, calls, true);
    plugin_list_put_figure(table, print_latency, kg_node_number(plugin, "p50_us"), calls > 0);
    plugin_list_put_figure(table, print_latency, kg_node_number(plugin, "p99_us"), calls > 0);
    plugin_list_put_figure(table, print_short, starts > 0 ? starts - 1 : 0, true);
    plugin_list_put_figure(table, print_bytes, memory, memory > 0);
    if (widths->description)
        table_cell(table, cli_text(plugin, "description"), NULL);
}

/* Those that are run from somewhere else than the store. */
static void put_devs(struct kg_buf *out, const struct kg_node *plugins)
{
    for (uint32_t i = 0; i < plugins->count; i++) {
        if (kg_node_is_true(&plugins->items[i], "dev"))
            print_words(out, &plugins->items[i], "{name} is dev: run from {dir}\n");
    }
}

/* Why a plugin cannot be used, or has stopped being what its manifest says. */
static void plugin_list_put_problems(struct kg_buf *out, const struct kg_node *plugins)
{
    for (uint32_t i = 0; i < plugins->count; i++) {
        const struct kg_node *plugin = &plugins->items[i];
        if (cli_text(plugin, "problem").length == 0)
            continue;
        print_words(out, plugin, "{name} is {state}");
        if (is_invalid(plugin))
            kg_buf_printf(out, " (%s)", reasons[plugin_list_reason_of(plugin)].words);
        print_words(out, plugin, ": {problem}\n");
    }
}

static void join_texts(struct kg_buf *out, const struct kg_node *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (i > 0)
            kg_buf_char(out, ',');
        if (list->items[i].type == KG_STRING)
            kg_buf_str(out, list->items[i].text);
    }
}

static void put_verbose_row(struct table *table, const struct kg_node *plugin)
{
    kg_auto(kg_buf_free) struct kg_buf capabilities = {0};
    struct kg_str state = cli_text(plugin, "state");
    join_texts(&capabilities, kg_node_list(plugin, "capabilities"));
    table_texts(table, plugin, (const char *const[]){"name", "version", NULL});
    table_cell(table, is_invalid(plugin) ? KG_STR("invalid") : state, state_color(state));
    table_cell(table, kg_node_number(plugin, "pid") > 0 ? cli_text(plugin, "pid") : KG_STR(""),
               NULL);
    table_cell(table, kg_buf_view(&capabilities), NULL);
    table_texts(table, plugin, (const char *const[]){"homepage", "dir", "description", NULL});
}

static void plugin_list_put_plugins(struct kg_buf *out, const struct cli *cli,
                                    const struct kg_node *answer)
{
    const struct widths widths = widths_here();
    const char *const brief[] = {
        "NAME", "VERSION", "STATE",    "UPTIME", "CALLS",
        "P50",  "P99",     "RESTARTS", "MEMORY", widths.description ? "DESCRIPTION" : NULL,
        NULL};
    static const char *const all[] = {"NAME",     "VERSION", "STATE",       "PID", "CAPABILITIES",
                                      "HOMEPAGE", "FOLDER",  "DESCRIPTION", NULL};
    const struct kg_node *plugins = kg_node_list(answer, "plugins");
    bool verbose = cli_has(cli, "verbose");
    if (plugins->count == 0) {
        fprintf(stderr, "no plugins; kaged looks for them in %s\n", cli->paths.plugins_dir);
        return;
    }
    struct table *table = table_new(verbose ? all : brief);
    for (uint32_t i = 0; i < plugins->count; i++) {
        if (verbose)
            put_verbose_row(table, &plugins->items[i]);
        else
            put_brief_row(table, &plugins->items[i], &widths);
    }
    table_print(table);
    put_devs(out, plugins);
    plugin_list_put_problems(out, plugins);
}

int cli_plugin_list(struct cli *cli)
{
    const struct client_request request = {.method = "GET", .target = "/api/v1/plugins"};
    return cli_show(cli, &request, plugin_list_put_plugins);
}
