/* A plugin's state in words: what it is, what it does, how it ended last and what follows. */
#include "cli/cli.h"

#include <inttypes.h>

static void put_label(struct kg_buf *out, const char *label)
{
    kg_buf_printf(out, "  %-12s ", label);
}

static void put_text(struct kg_buf *out, const char *label, struct kg_str text)
{
    print_fact(out, 13, label, text);
}

static void put_heading(struct kg_buf *out, const struct kg_node *plugin)
{
    bool has_version = cli_text(plugin, "version").length > 0;
    bool has_meaning = cli_text(plugin, "state_meaning").length > 0;
    print_words(out, plugin, has_version ? "{name} {version} is {state}" : "{name} is {state}");
    int64_t idle_ms;
    print_words(out, plugin, has_meaning ? ": {state_meaning}" : "");
    if (cli_time(plugin, "idle_since", &idle_ms)) {
        kg_buf_text(out, ", idle since ");
        print_when(out, idle_ms);
    }
    kg_buf_char(out, '\n');
}

static void put_process(struct kg_buf *out, const struct kg_node *plugin)
{
    int64_t started_ms;
    if (kg_node_number(plugin, "pid") <= 0)
        return;
    put_label(out, "pid");
    kg_buf_printf(out, "%" PRId64, kg_node_number(plugin, "pid"));
    if (cli_time(plugin, "started_at", &started_ms)) {
        kg_buf_text(out, ", since ");
        print_when(out, started_ms);
    }
    kg_buf_char(out, '\n');
    put_text(out, "cage", cli_text(plugin, "cage_id"));
    /* A full one is what everybody expects. */
    if (!kg_str_is(cli_text(plugin, "cages"), "full"))
        put_text(out, "", cli_text(plugin, "cages"));
}

static void put_figures(struct kg_buf *out, const struct kg_node *plugin)
{
    put_label(out, "calls");
    kg_buf_printf(out, "%" PRId64 ", of them %" PRId64 " with an error, %" PRId64 " in flight\n",
                  kg_node_number(plugin, "calls"), kg_node_number(plugin, "errors"),
                  kg_node_number(plugin, "in_flight"));
    if (kg_node_number(plugin, "calls") > 0) {
        put_label(out, "");
        kg_buf_text(out, "half took at most ");
        print_latency(out, kg_node_number(plugin, "p50_us"));
        kg_buf_text(out, ", all but one in a hundred ");
        print_latency(out, kg_node_number(plugin, "p99_us"));
        kg_buf_char(out, '\n');
    }
    if (kg_node_number(plugin, "memory_bytes") > 0) {
        put_label(out, "memory");
        print_bytes(out, kg_node_number(plugin, "memory_bytes"));
        kg_buf_char(out, '\n');
    }
    put_label(out, "traffic");
    kg_buf_printf(out, "%" PRId64 " bytes in, %" PRId64 " bytes out",
                  kg_node_number(plugin, "bytes_in"), kg_node_number(plugin, "bytes_out"));
    if (kg_node_number(plugin, "notifications_dropped") > 0)
        kg_buf_printf(out, ", %" PRId64 " notifications dropped",
                      kg_node_number(plugin, "notifications_dropped"));
    kg_buf_char(out, '\n');
    put_label(out, "starts");
    kg_buf_printf(out,
                  "%" PRId64 ", failures in a row %" PRId64 ", failed health checks %" PRId64 "\n",
                  kg_node_number(plugin, "starts"), kg_node_number(plugin, "failures"),
                  kg_node_number(plugin, "health_failures"));
}

static void put_lines(struct kg_buf *out, const char *label, const struct kg_node *lines)
{
    for (uint32_t i = 0; i < lines->count; i++)
        put_text(out, i == 0 ? label : "", lines->items[i].text);
}

static void put_limits(struct kg_buf *out, const struct kg_node *plugin)
{
    const struct kg_node *limits = kg_node_get(plugin, "limits");
    if (limits == NULL || limits->type != KG_OBJECT)
        return;
    put_label(out, "limits");
    if (kg_node_number(limits, "memory_bytes") > 0)
        kg_buf_printf(out, "%" PRId64 " MiB of memory, ",
                      kg_node_number(limits, "memory_bytes") >> 20);
    kg_buf_printf(out, "%" PRId64 " processes\n", kg_node_number(limits, "processes_max"));
    if (kg_str_is(cli_text(limits, "mode"), "none"))
        put_text(out, "", KG_STR("kept without cgroups: see kaged status"));
    if (kg_node_number(plugin, "memory_kills") > 0) {
        put_label(out, "");
        kg_buf_printf(out, "%" PRId64 " of its processes were killed at the limit of memory\n",
                      kg_node_number(plugin, "memory_kills"));
    }
    if (kg_node_number(plugin, "fork_refusals") > 0) {
        put_label(out, "");
        kg_buf_printf(out, "%" PRId64 " new processes were refused at the limit\n",
                      kg_node_number(plugin, "fork_refusals"));
    }
}

/* Only a plugin that runs has said which of its methods it offers. */
static void put_methods(struct kg_buf *out, const struct kg_node *plugin)
{
    const char *label = "methods";
    const struct kg_node *methods = kg_node_list(plugin, "methods");
    bool has_said = kg_str_is(cli_text(plugin, "state"), "running");
    for (uint32_t i = 0; i < methods->count; i++) {
        const struct kg_node *available = kg_node_get(&methods->items[i], "available");
        put_label(out, label);
        kg_buf_escaped(out, cli_text(&methods->items[i], "name"));
        if (has_said && available != NULL && !available->boolean)
            kg_buf_text(out, " (missing)");
        kg_buf_char(out, '\n');
        label = "";
    }
}

/* What follows an exit depends on the state that the plugin is in now. */
static void put_what_follows(struct kg_buf *out, const struct cli *cli,
                             const struct kg_node *plugin, const struct kg_node *last_exit)
{
    int64_t restart_ms;
    struct kg_str state = cli_text(plugin, "state");
    if (kg_str_is(state, "crashed") && cli_time(last_exit, "restart_at", &restart_ms)) {
        put_label(out, "");
        kg_buf_text(out, "restart in ");
        /* Rounded up: "in 0 s" reads as if it were stuck. */
        print_duration(out, restart_ms - kg_wall_ms() + 999);
        kg_buf_char(out, '\n');
    } else if (kg_str_is(state, "failed") || kg_str_is(state, "disabled")) {
        kg_auto(kg_free) char *self = cli_self(cli);
        put_label(out, "");
        kg_buf_printf(out, "no restart: enable it with: %s plugin enable ", self);
        print_words(out, plugin, "{name}\n");
    }
}

static void put_trace(struct kg_buf *out, const struct cli *cli, const struct kg_node *plugin,
                      const struct kg_node *trace)
{
    if (trace == NULL || trace->type != KG_OBJECT)
        return;
    kg_auto(kg_free) char *self = cli_self(cli);
    put_label(out, "");
    kg_buf_printf(out, "%" PRId64 " records of what was said: %s plugin trace ",
                  kg_node_number(trace, "records"), self);
    print_words(out, plugin, "{name} --crash -o FILE\n");
}

static void put_last_exit(struct kg_buf *out, const struct cli *cli, const struct kg_node *plugin)
{
    int64_t at_ms;
    const struct kg_node *last_exit = kg_node_get(plugin, "last_exit");
    if (last_exit == NULL || last_exit->type != KG_OBJECT)
        return;
    put_text(out, "last exit", cli_text(last_exit, "words"));
    if (cli_time(last_exit, "at", &at_ms)) {
        put_label(out, "");
        print_when(out, at_ms);
        if (kg_node_number(last_exit, "failures") > 1)
            kg_buf_printf(out, ", failure %" PRId64 " in a row",
                          kg_node_number(last_exit, "failures"));
        kg_buf_char(out, '\n');
    }
    put_what_follows(out, cli, plugin, last_exit);
    put_trace(out, cli, plugin, kg_node_get(last_exit, "trace"));
    const struct kg_node *lines = kg_node_list(last_exit, "last_stderr");
    kg_buf_text(out, lines->count > 0 ? "  last stderr\n" : "");
    print_put_lines(out, "    ", lines);
}

static void put_cage(struct kg_buf *out, const struct kg_node *cage)
{
    if (cage == NULL)
        return;
    const struct kg_node *words = kg_node_list(cage, "words");
    kg_buf_text(out, words->count > 0 ? "  in its cage it\n" : "");
    print_put_lines(out, "    ", words);
    put_text(out, "no cage", cli_text(cage, "problem"));
    put_text(out, "what to do", cli_text(cage, "hint"));
}

void plugin_status_put(struct kg_buf *out, const struct cli *cli, const struct kg_node *plugin)
{
    put_heading(out, plugin);
    put_text(out, "problem", cli_text(plugin, "problem"));
    put_text(out, "what to do", cli_text(plugin, "problem_hint"));
    if (cli_text(plugin, "config_refused").length > 0) {
        put_label(out, "config");
        print_words(out, plugin, "the one before the last, which it refused: {config_refused}\n");
    }
    put_text(out, "description", cli_text(plugin, "description"));
    if (kg_node_is_true(plugin, "dev")) {
        put_label(out, "dev");
        print_words(out, plugin, "run by kaged plugin dev, from {dir}\n");
    }
    put_process(out, plugin);
    const struct kg_node *quarantined = kg_node_list(plugin, "quarantined");
    kg_buf_text(out, quarantined->count > 0 ? "  quarantined\n" : "");
    print_put_lines(out, "    ", quarantined);
    put_figures(out, plugin);
    put_limits(out, plugin);
    put_lines(out, "may do", kg_node_list(plugin, "capabilities"));
    put_lines(out, "you granted", kg_node_list(plugin, "granted"));
    put_lines(out, "you closed", kg_node_list(plugin, "closed"));
    put_methods(out, plugin);
    put_last_exit(out, cli, plugin);
    put_cage(out, kg_node_get(plugin, "cage"));
}

int cli_plugin_status(struct cli *cli)
{
    return cli_show_plugin(cli, "GET", cli_has(cli, "cage") ? "?cage=true" : "", plugin_status_put);
}
