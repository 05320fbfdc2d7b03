/* A plugin's state in words: what it is, what it does, how it ended last and what follows. */
#include "cli/rows.h"

#define LABEL_COLUMNS 13

/* Only a plugin that runs has said which of its methods it offers. */
static void plugin_status_put_methods(struct kg_buf *out, const struct cli *cli,
                                      const struct kg_node *plugin)
{
    const struct kg_node *methods = kg_node_list(plugin, "methods");
    bool has_said = kg_str_is(cli_text(plugin, "state"), "running");
    (void)cli;
    for (uint32_t i = 0; i < methods->count; i++) {
        const struct kg_node *available = kg_node_get(&methods->items[i], "available");
        bool missing = has_said && available != NULL && !available->boolean;
        kg_buf_printf(out, "  %-*s", LABEL_COLUMNS, i == 0 ? "methods" : "");
        print_words(out, &methods->items[i], missing ? "{name} (missing)\n" : "{name}\n");
    }
}

/* A label is written out where a line has several rows. */
static const struct row figure_rows[] = {
    {.label = "calls",
     .words = "{calls:count}, {errors:count} with an error, {in_flight:count} in flight"},
    {"calls", "", "median {p50_us:latency}, p99 {p99_us:latency}"},
    {"memory_bytes", "memory", "{memory_bytes:bytes}"},
    {.words = "  traffic      {bytes_in:count} bytes in, {bytes_out:count} bytes out"},
    {"notifications_dropped", .words = ", {notifications_dropped} notifications dropped"},
    {.words = "\n"},
    {.label = "starts",
     .words = "{starts:count}, failures in a row {failures:count}, failed "
              "health checks {health_failures:count}"},
    {0},
};

static const struct row limit_rows[] = {
    {.words = "  limits       "},
    {"limits.memory_bytes", .words = "{limits.memory_bytes:mib} MiB of memory, "},
    {.words = "{limits.processes_max:count} processes\n"},
    {"limits.mode=none", "", "enforced without cgroups: see {@self} status"},
    {"memory_kills", "", "{memory_kills} of its processes were killed at the memory limit"},
    {"fork_refusals", "", "{fork_refusals} new processes were refused at the limit"},
    {0},
};

/* What follows an exit depends on the state that the plugin is in now. */
static const struct row exit_rows[] = {
    {.label = "last exit", .words = "{last_exit.words:hint}"},
    {"last_exit.at", .words = "               {last_exit.at:when}"},
    {"last_exit.at last_exit.failures>1", .words = ", failure {last_exit.failures} in a row"},
    {"last_exit.at", .words = "\n"},
    {"state=crashed last_exit.restart_at", "", "restart in {last_exit.restart_at:until}"},
    {"state=failed|disabled", "", "no restart: enable it with: {@self} plugin enable {name}"},
    {"last_exit.trace", "",
     "{last_exit.trace.records:count} records of what was said: {@self} plugin trace {name} "
     "--crash -o FILE"},
    {"last_exit.last_stderr", .words = "  last stderr\n"},
    {.each = "last_exit.last_stderr", .words = "    {.}\n"},
    {0},
};

static const struct row status_rows[] = {
    {"version", .words = "{name} {version} is {state}"},
    {"!version", .words = "{name} is {state}"},
    {"state_meaning", .words = ": {state_meaning}"},
    {"idle_since", .words = ", idle since {idle_since:when}"},
    {.words = "\n"},
    {.label = "problem", .words = "{problem:hint}"},
    {.label = "what to do", .words = "{problem_hint:hint}"},
    {"config_refused", "config", "the one before the last, which it refused: {config_refused}"},
    {.label = "description", .words = "{description:hint}"},
    {"dev", "dev", "run by kaged plugin dev, from {dir}"},
    {"pid", .words = "  pid          {pid}"},
    {"pid started_at", .words = ", since {started_at:when}"},
    {"pid", .words = "\n"},
    {"pid", "cage", "{cage_id}"},
    {"pid !cages=full", "", "{cages:hint}"}, /* a full one is what everybody expects */
    {"quarantined", .words = "  quarantined\n"},
    {.each = "quarantined", .words = "    {.}\n"},
    {.rows = figure_rows},
    {"limits", .rows = limit_rows},
    {.label = "may do", .each = "capabilities", .words = "{.:hint}"},
    {.label = "you granted", .each = "granted", .words = "{.:hint}"},
    {.label = "you closed", .each = "closed", .words = "{.:hint}"},
    {.put = plugin_status_put_methods},
    {"last_exit", .rows = exit_rows},
    {"cage.words", .words = "  in its cage it\n"},
    {.each = "cage.words", .words = "    {.}\n"},
    {.label = "no cage", .words = "{cage.problem:hint}"},
    {.label = "what to do", .words = "{cage.hint:hint}"},
    {0},
};

const struct cli_page page_plugin_status = {"GET", "/api/v1/plugins/{1}?cage", .rows = status_rows,
                                            .columns = LABEL_COLUMNS};
