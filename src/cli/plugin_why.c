/* What a plugin was refused, in words: what, how often, when, what would allow it, who says so. */
#include "cli/cli.h"

#include <inttypes.h>

static void put_refusal(struct kg_buf *out, const struct kg_node *refusal)
{
    int64_t last_ms;
    struct kg_str capability = cli_text(refusal, "capability");
    kg_buf_text(out, "  ");
    kg_buf_escaped(out, cli_text(refusal, "what"));
    kg_buf_text(out, "\n      refused ");
    if (kg_node_number(refusal, "count") > 1)
        kg_buf_printf(out, "%" PRId64 " times, last ", kg_node_number(refusal, "count"));
    if (cli_time(refusal, "last", &last_ms))
        print_when(out, last_ms);
    kg_buf_text(out, ": ");
    kg_buf_escaped(out, cli_text(refusal, "reason"));
    kg_buf_text(out, "\n      ");
    kg_buf_text(out,
                capability.length > 0 ? "would be allowed by: " : "no capability would allow it");
    kg_buf_escaped(out, capability);
    kg_buf_text(out, "\n      known from ");
    kg_buf_escaped(out, cli_text(refusal, "source"));
    kg_buf_char(out, '\n');
}

void plugin_why_put(struct kg_buf *out, const struct kg_node *answer)
{
    const struct kg_node *refusals = kg_node_get(answer, "refusals");
    bool any = refusals != NULL && refusals->type == KG_ARRAY && refusals->count > 0;
    kg_buf_escaped(out, cli_text(answer, "name"));
    kg_buf_text(out, any ? " was refused\n" : ": no refusal is on record\n");
    for (uint32_t i = 0; any && i < refusals->count; i++)
        put_refusal(out, &refusals->items[i]);
    kg_buf_text(out, "  ");
    kg_buf_escaped(out, cli_text(answer, "knowledge"));
    kg_buf_char(out, '\n');
}
