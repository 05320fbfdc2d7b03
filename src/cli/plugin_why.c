/* What a plugin was refused, in words: what, how often, when, what would allow it, who says so. */
#include "cli/rows.h"

/* To be pasted: the words of the capability may be anything that a plugin asked for. */
static void plugin_why_put_command(struct kg_buf *out, const struct cli *cli,
                                   const struct kg_node *refusal)
{
    kg_auto(kg_free) char *self = cli_self(cli);
    kg_auto(kg_buf_free) struct kg_buf command = {0};
    struct kg_str name = kg_str(cli_argument(cli, 0));
    kg_buf_printf(&command, "%s plugin grant ", self);
    kg_buf_str(&command, kg_str_cut(&name, '@'));
    kg_buf_char(&command, ' ');
    kg_buf_shell(&command, cli_text(refusal, "capability"));
    kg_buf_text(out, "      to allow it: ");
    kg_buf_escaped(out, kg_buf_view(&command));
    kg_buf_char(out, '\n');
}

static const struct row refusal_rows[] = {
    {.words = "  {what}\n      refused "},
    {"count>1", .words = "{count} times, last "},
    {.words = "{last:when}: {reason}\n      "},
    {"closed_by", .words = "you closed it: {closed_by}"},
    {"!closed_by capability", .words = "would be allowed by: {capability}"},
    {"!closed_by !capability", .words = "no capability would allow it"},
    {.words = "\n      known from {source}\n"},
    {"capability", .put = plugin_why_put_command},
    {0},
};
static const struct row why_rows[] = {
    {"refusals", .words = "{name} was refused\n"},
    {"!refusals", .words = "{name}: no refusal is on record\n"},
    {.each = "refusals", .rows = refusal_rows},
    {.words = "  {knowledge}\n"},
    {0},
};
const struct cli_page page_plugin_why = {"GET", "/api/v1/plugins/{1}/why", .rows = why_rows};
