/*
 * A plan in words, for whoever has to trust it: what was granted and the limits, one statement a
 * line. What is not said, the cage does not have, but for the plugin's own folder and the parts of
 * the system that every program needs.
 */
#include "cage/internal.h"

#define KIB UINT64_C(1024)
#define MIB UINT64_C(1048576)

static void cage_words_add_path(struct kg_buf *out, const char *path)
{
    kg_buf_escaped(out, kg_str(path));
}

static const char *const file_words[] = {
    [CAGE_GRANT_READ] = "may read ",
    [CAGE_GRANT_WRITE] = "may read and write ",
    [CAGE_GRANT_NOTHING] = "may not see ",
};

static void cage_words_add_files(const struct cage_grants *grants, struct kg_buf *out)
{
    for (size_t i = 0; i < grants->count; i++) {
        const struct cage_grant *grant = &grants->items[i];
        if (grant->kind == CAGE_GRANT_RUN)
            continue;
        kg_buf_text(out, file_words[grant->kind]);
        cage_words_add_path(out, grant->path);
        if (grant->note[0] != '\0') {
            kg_buf_text(out, " (");
            cage_words_add_path(out, grant->note);
            kg_buf_char(out, ')');
        }
        kg_buf_char(out, '\n');
    }
}

static void add_programs(const struct cage_grants *grants, struct kg_buf *out)
{
    for (size_t i = 0; i < grants->count; i++) {
        const struct cage_grant *grant = &grants->items[i];
        if (grant->kind != CAGE_GRANT_RUN)
            continue;
        kg_buf_text(out, "may run ");
        cage_words_add_path(out, grant->path);
        kg_buf_text(out, ", in any folder that it sees, and read ");
        cage_words_add_path(out, grant->note);
        kg_buf_char(out, '\n');
    }
}

/* One host may have several listeners: localhost has two addresses. */
static bool cage_words_is_said(const struct cage_network *network, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (network->items[i].port == network->items[at].port &&
            strcmp(network->items[i].host, network->items[at].host) == 0)
            return true;
    return false;
}

static void cage_words_add_closed(const struct cage_network *network, struct kg_buf *out)
{
    for (size_t i = 0; i < network->closed_count; i++) {
        kg_buf_text(out, "may not connect to ");
        kg_buf_escaped(out, kg_str(network->closed[i].host));
        if (network->closed[i].port != 0)
            kg_buf_printf(out, ", port %u", network->closed[i].port);
        kg_buf_text(out, " (closed by the operator)\n");
    }
}

static void add_network(const struct cage_network *network, struct kg_buf *out)
{
    for (size_t i = 0; i < network->count; i++) {
        const struct cage_listener *listener = &network->items[i];
        if (cage_words_is_said(network, i))
            continue;
        kg_buf_text(out, "may connect to ");
        kg_buf_escaped(out, kg_str(listener->host));
        if (listener->port != 0)
            kg_buf_printf(out, ", port %u\n", listener->port);
        else
            kg_buf_text(out, ", every port\n");
    }
    cage_words_add_closed(network, out);
    if (network->any)
        kg_buf_text(out, "may connect to every host, every port\n");
    else if (network->count == 0)
        kg_buf_text(out, "may not use the network\n");
}

static void add_size(struct kg_buf *out, uint64_t bytes)
{
    const char *unit = bytes % MIB == 0 ? "MiB" : bytes % KIB == 0 ? "KiB" : "bytes";
    uint64_t count = bytes % MIB == 0 ? bytes / MIB : bytes % KIB == 0 ? bytes / KIB : bytes;
    kg_buf_printf(out, "%llu %s", (unsigned long long)count, unit);
}

static void add_limits(const struct cage_plan *plan, struct kg_buf *out)
{
    kg_buf_printf(out, "at most %u processes", plan->processes_max);
    if (plan->memory_bytes != 0) {
        kg_buf_text(out, ", ");
        add_size(out, plan->memory_bytes);
        kg_buf_text(out, " of memory");
    }
    for (size_t i = 0; i < plan->steps.count; i++) {
        const struct cage_step *step = &plan->steps.items[i];
        if (step->kind != CAGE_STEP_TMPFS || strcmp(step->path, "/tmp") != 0)
            continue;
        kg_buf_text(out, ", ");
        add_size(out, step->bytes);
        kg_buf_text(out, " in /tmp");
    }
    kg_buf_char(out, '\n');
}

void cage_plan_words(const struct cage_plan *plan, struct kg_buf *out)
{
    cage_words_add_files(&plan->grants, out);
    add_programs(&plan->grants, out);
    add_network(&plan->network, out);
    add_limits(plan, out);
    if (!plan->landlock)
        kg_buf_text(out, "the kernel has no Landlock: a file that the plugin writes, or finds in "
                         "/usr/lib, it may also run\n");
    kg_buf_text(out, "nothing else\n");
}
