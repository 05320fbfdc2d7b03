/*
 * The list of plugins: what an operator looks at every day, on a screen of 80 columns and more.
 * Long names are cut to what there is room for, and descriptions are shown where there is some
 * left; in a pipe, with --verbose and with --json nothing is cut. What is wrong with a plugin
 * stands below.
 */
#include "cli/rows.h"

/* One that cannot start is disabled, and has a problem. */
#define INVALID "state=disabled problem"

static const struct cell list_cells[] = {
    {"STATE", INVALID " problem_code=not_approved !--verbose", "unapproved", "red"},
    {"STATE", INVALID, "invalid", "red"},
    {"STATE", "state=running", "{state}", "green"},
    {"STATE", "state=failed|crashed", "{state}", "red"},
    {"STATE", NULL, "{state}", NULL},
    {"P50", "calls", "{p50_us:latency}", NULL},
    {"P99", "calls", "{p99_us:latency}", NULL},
    {"RESTARTS", "starts", "{starts:more}", NULL},
    {"RESTARTS", NULL, "0", NULL},
    {"MEMORY", "memory_bytes", "{memory_bytes:bytes}", NULL},
    {"PID", "pid", "{pid}", NULL},
    {0},
};
static const struct row problem_rows[] = {
    {.words = "{name} is {state}"},
    {INVALID " problem_code=invalid_manifest", .words = " (invalid manifest)"},
    {INVALID " problem_code=not_approved", .words = " (not approved)"},
    {INVALID " !problem_code=invalid_manifest|not_approved", .words = " (invalid config)"},
    {.words = ": {problem}\n"},
    {0},
};
static const struct row dev_rows[] = {
    {"dev", .words = "{name} is dev: it runs from {dir}\n"},
    {0},
};
static const struct row with_problem_rows[] = {{"problem", .rows = problem_rows}, {0}};
static const struct row list_rows[] = {
    {"!plugins", .words = "no plugins; kaged looks for them in {@plugins}\n", .aside = true},
    {"!--verbose", .each = "plugins",
     .table = "NAME~18={name}; VERSION~9={version}; STATE; UPTIME={started_at:age}; "
              "CALLS={calls:short}; P50; P99; RESTARTS; MEMORY; DESCRIPTION?20={description}",
     .cells = list_cells},
    {"--verbose", .each = "plugins",
     .table = "NAME={name}; VERSION={version}; STATE; PID; CAPABILITIES={capabilities:commas}; "
              "HOMEPAGE={homepage}; FOLDER={dir}; DESCRIPTION={description}",
     .cells = list_cells},
    {.each = "plugins", .rows = dev_rows},
    {.each = "plugins", .rows = with_problem_rows},
    {0},
};
const struct cli_page page_plugin_list = {"GET", "/api/v1/plugins", .rows = list_rows};
