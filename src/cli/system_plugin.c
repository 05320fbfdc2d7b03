/* kaged system-plugin: what the operator loaded into the daemon, and how that does. */
#include "cli/rows.h"

static const struct cell cells[] = {{"STATE", "state=running", "{state}", "green"},
                                    {"STATE", "state=failed", "{state}", "red"},
                                    {"STATE", NULL, "{state}", NULL},
                                    {0}};
static const struct row problem_rows[] = {
    {"problem", .words = "{name} is left out: {problem}\n"},
    {0},
};

static void put_none(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    (void)answer;
    kg_buf_printf(out, "no system plugins; [system_plugins.NAME] in %s loads one\n",
                  cli->paths.local_file);
}

static const struct row list_rows[] = {
    {"!system_plugins", .put = put_none, .aside = true},
    {.each = "system_plugins",
     .table = "NAME={name}; VERSION={version}; STATE; CALLS={calls}; SLOW={slow}; "
              "DROPPED={dropped}; PATH={path}",
     .cells = cells},
    {.each = "system_plugins", .rows = problem_rows},
    {0},
};
const struct cli_page page_system_plugin_list = {"GET", "/api/v1/system-plugins",
                                                 .rows = list_rows};

static const struct row status_rows[] = {
    {.words = "{name} is {state}\n"},
    {.label = "problem", .words = "{problem:hint}"},
    {.label = "hint", .words = "{hint:hint}"},
    {.label = "version", .words = "{version}"},
    {.label = "path", .words = "{path}"},
    {.label = "hash", .words = "{hash}"},
    {"required", "required", "yes"},
    {.label = "may have", .each = "allowed", .words = "{.}"},
    {.label = "has", .each = "hooks", .words = "{.}"},
    {.label = "calls", .words = "{calls}; {waiting} events wait, {dropped} were dropped"},
    {"slow", "slow", "{slow} calls took over 50 ms; {slowest} took {slowest_ms} ms"},
    {"busy", "busy", "in {busy} for {busy_ms} ms"},
    {"left_in", "before", "the daemon ended while it was in: {left_in}"},
    {0},
};
const struct cli_page page_system_plugin_status = {"GET", "/api/v1/system-plugins/{1}",
                                                   .rows = status_rows, .columns = 10};
