/* What the operator grants a plugin, or takes from it, beside what its manifest declares. */
#include "cli/rows.h"

static const struct member members[] = {
    {"capabilities", "2", MEMBER_REST}, {"project", "--project"}, {0}};
static const struct row rows[] = {
    {.words = "{name}\n"},
    {.label = "may do", .each = "capabilities", .words = "{.:hint}"},
    {.label = "you granted", .each = "granted", .words = "{.:hint}"},
    {.label = "you closed", .each = "closed", .words = "{.:hint}"},
    {.label = "restarted", .each = "restarted", .words = "{.}"},
    {0},
};

#define GRANTS(act)                                                                                \
    {                                                                                              \
        "POST", "/api/v1/plugins/{1}/" act, members, .silence_ms = CLIENT_WAIT_FOREVER,            \
                                                     .rows = rows, .columns = 13                   \
    }
const struct cli_page page_plugin_grant = GRANTS("grant");
const struct cli_page page_plugin_revoke = GRANTS("revoke");
