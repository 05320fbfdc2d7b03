/* What a plugin was refused, in words: what, how often, when, what would allow it, who says so. */
#include "cli/cli.h"

#include <inttypes.h>

static void put_refusal(struct kg_buf *out, const struct kg_node *refusal)
{
    int64_t last_ms;
    bool would_help = cli_text(refusal, "capability").length > 0;
    print_words(out, refusal, "  {what}\n      refused ");
    if (kg_node_number(refusal, "count") > 1)
        kg_buf_printf(out, "%" PRId64 " times, last ", kg_node_number(refusal, "count"));
    if (cli_time(refusal, "last", &last_ms))
        print_when(out, last_ms);
    print_words(out, refusal, ": {reason}\n      ");
    print_words(out, refusal,
                would_help ? "would be allowed by: {capability}" : "no capability would allow it");
    print_words(out, refusal, "\n      known from {source}\n");
}

static void put_why(struct kg_buf *out, const struct cli *cli, const struct kg_node *answer)
{
    const struct kg_node *refusals = kg_node_list(answer, "refusals");
    (void)cli;
    print_words(out, answer,
                refusals->count > 0 ? "{name} was refused\n" : "{name}: no refusal is on record\n");
    for (uint32_t i = 0; i < refusals->count; i++)
        put_refusal(out, &refusals->items[i]);
    print_words(out, answer, "  {knowledge}\n");
}

int cli_plugin_why(struct cli *cli)
{
    return cli_show_plugin(cli, "GET", "/why", put_why);
}
