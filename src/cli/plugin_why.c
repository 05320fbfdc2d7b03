/* What a plugin was refused, in words: what, how often, when, what would allow it, who says so. */
#include "cli/cli.h"

#include <inttypes.h>

/* To be pasted: the words of the capability may be anything that a plugin asked for. */
static void put_command(struct kg_buf *out, const struct cli *cli, const struct kg_node *refusal)
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

static void put_refusal(struct kg_buf *out, const struct cli *cli, const struct kg_node *refusal)
{
    int64_t last_ms;
    bool would_help = cli_text(refusal, "capability").length > 0;
    print_words(out, refusal, "  {what}\n      refused ");
    if (kg_node_number(refusal, "count") > 1)
        kg_buf_printf(out, "%" PRId64 " times, last ", kg_node_number(refusal, "count"));
    if (cli_time(refusal, "last", &last_ms))
        print_when(out, last_ms);
    print_words(out, refusal, ": {reason}\n      ");
    if (cli_text(refusal, "closed_by").length > 0)
        print_words(out, refusal, "you closed it: {closed_by}");
    else
        print_words(out, refusal,
                    would_help ? "would be allowed by: {capability}"
                               : "no capability would allow it");
    print_words(out, refusal, "\n      known from {source}\n");
    if (would_help)
        put_command(out, cli, refusal);
}

static void put_why(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    const struct kg_node *refusals = kg_node_list(answer, "refusals");
    print_words(out, answer,
                refusals->count > 0 ? "{name} was refused\n" : "{name}: no refusal is on record\n");
    for (uint32_t i = 0; i < refusals->count; i++)
        put_refusal(out, cli, &refusals->items[i]);
    print_words(out, answer, "  {knowledge}\n");
}

int cli_plugin_why(struct cli *cli)
{
    return cli_show_plugin(cli, "GET", "/why", put_why);
}
