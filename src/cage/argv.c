/*
 * A plan as bwrap's arguments. Paths and the environment travel in a memfd, so that neither shows
 * in the command line of the cage's pid 1; only the shim and the command stand there.
 */
#include "cage/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define SPARE_PROCESSES 16

/* Each makes one way out of a plain bwrap impossible; the tests name them. */
static const char *const fixed_options[] = {
    "--unshare-all", "--unshare-user",    "--disable-userns",
    "--new-session", "--die-with-parent", "--cap-drop",
    "ALL",           "--hostname",        "kaged",
    "--clearenv",
};

static void add(struct kg_buf *out, const char *text)
{
    kg_buf_append(out, text, strlen(text) + 1);
}

static void add_number(struct kg_buf *out, uint64_t number)
{
    kg_buf_printf(out, "%llu", (unsigned long long)number);
    kg_buf_char(out, '\0');
}

static void add_fd(struct kg_buf *out, const char *option, int fd)
{
    add(out, option);
    add_number(out, (uint64_t)fd);
}

static const char *const step_options[CAGE_STEP_KINDS] = {
    [CAGE_STEP_SYSTEM] = "--ro-bind",  [CAGE_STEP_BIND] = "--ro-bind",
    [CAGE_STEP_WRITE] = "--bind",      [CAGE_STEP_LINK] = "--symlink",
    [CAGE_STEP_TMPFS] = "--tmpfs",     [CAGE_STEP_PROC] = "--proc",
    [CAGE_STEP_DEVICE] = "--dev-bind", [CAGE_STEP_READ_ONLY] = "--remount-ro",
};

/* What comes from an open fd. A copy is a file of the cage's own root, which is closed at the end.
 */
static const char *const step_fd_options[CAGE_STEP_KINDS] = {
    [CAGE_STEP_BIND] = "--ro-bind-fd",
    [CAGE_STEP_WRITE] = "--bind-fd",
    [CAGE_STEP_TEXT] = "--ro-bind-data",
    [CAGE_STEP_COPY] = "--file",
};

static void add_step(struct kg_buf *out, const struct cage_step *step, const char *staged,
                     int *next_fd)
{
    bool from_path = step->kind == CAGE_STEP_BIND || step->kind == CAGE_STEP_WRITE;
    from_path = from_path && staged != NULL;
    if (step_fd_options[step->kind] != NULL && !from_path) {
        add_fd(out, step_fd_options[step->kind], (*next_fd)++);
        add(out, step->path);
        return;
    }
    if (step->kind == CAGE_STEP_TMPFS) {
        add(out, "--size");
        add_number(out, step->bytes);
    }
    add(out, step_options[step->kind]);
    if (from_path)
        add(out, staged);
    else if (step->source[0] != '\0')
        add(out, step->source);
    add(out, step->path);
}

static void add_environment(struct kg_buf *out, const struct cage_words *env)
{
    for (size_t i = 0; i < env->count; i++) {
        const char *equals = strchr(env->items[i], '=');
        add(out, "--setenv");
        kg_buf_append(out, env->items[i], (size_t)(equals - env->items[i]));
        kg_buf_char(out, '\0');
        add(out, equals + 1);
    }
}

void cage_argv_options(const struct cage_plan *plan, const char *const *staged, struct kg_buf *out)
{
    for (size_t i = 0; i < KG_COUNT(fixed_options); i++)
        add(out, fixed_options[i]);
    add_fd(out, "--json-status-fd", CAGE_FD_STATUS);
    add_fd(out, "--add-seccomp-fd", CAGE_FD_CALLS);
    add_fd(out, "--add-seccomp-fd", CAGE_FD_ARGUMENTS);
    if (cage_plan_has_network(plan))
        add_fd(out, "--block-fd", CAGE_FD_BLOCK);
    int next_fd = CAGE_FD_SOURCES;
    for (size_t i = 0; i < plan->steps.count; i++)
        add_step(out, &plan->steps.items[i], staged[i], &next_fd);
    add(out, "--chdir");
    add(out, plan->folder);
    add_environment(out, &plan->env);
}

static void add_rules(char letter, const struct cage_words *paths, struct kg_buf *out)
{
    for (size_t i = 0; i < paths->count; i++) {
        kg_buf_char(out, letter);
        add(out, paths->items[i]);
    }
}

void cage_argv_rules(const struct cage_plan *plan, struct kg_buf *out)
{
    if (!plan->landlock)
        return;
    add_rules(CAGE_RULE_RUN, &plan->executables, out);
    add_rules(CAGE_RULE_CHANGE, &plan->writables, out);
}

static void add_word_number(struct cage_words *out, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    cage_words_add(out, text);
}

void cage_argv_command(const struct cage_plan *plan, bool grouped, struct cage_words *out)
{
    cage_words_add(out, "bwrap");
    cage_words_add(out, "--args");
    add_word_number(out, CAGE_FD_ARGS);
    cage_words_add(out, "--");
    kg_auto(kg_free) char *init = kg_format("/proc/self/fd/%d", CAGE_FD_INIT);
    cage_words_add(out, init);
    /* bwrap's reaper counts too. A group has the exact limit, and counts how often it is hit. */
    add_word_number(out, (uint64_t)plan->processes_max + 1 + (grouped ? SPARE_PROCESSES : 0));
    add_word_number(out, grouped ? 0 : plan->memory_bytes);
    add_word_number(out, CAGE_FD_RAN);
    add_word_number(out, CAGE_FD_IN);
    add_word_number(out, CAGE_FD_OUT);
    add_word_number(out, CAGE_FD_RULES);
    cage_words_add(out, "--");
    for (size_t i = 0; i < plan->command.count; i++)
        cage_words_add(out, plan->command.items[i]);
}
