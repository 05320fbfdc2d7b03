/*
 * A plan as bwrap's options and the shim's orders. Both travel in files of memory: the command line
 * of the cage's pid 1 is the same for all.
 */
#include "cage/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define SPARE_PROCESSES 16

/* Each makes one way out of a plain bwrap impossible; the tests name them. */
static const char *const fixed_options[] = {
    "--unshare-user", "--unshare-pid", "--disable-userns", "--new-session", "--die-with-parent",
    "--cap-drop",     "ALL",           "--clearenv",
};

/* What is made ahead, if it can be. */
static const char *const namespace_options[] = {
    "--unshare-ipc",        "--unshare-net", "--unshare-uts",
    "--unshare-cgroup-try", "--hostname",    CAGE_HOSTNAME,
};

static void argv_add(struct kg_buf *out, const char *text)
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
    argv_add(out, option);
    add_number(out, (uint64_t)fd);
}

static const char *const step_options[CAGE_STEP_KINDS] = {
    [CAGE_STEP_SYSTEM] = "--ro-bind",  [CAGE_STEP_BIND] = "--ro-bind",
    [CAGE_STEP_WRITE] = "--bind",      [CAGE_STEP_LINK] = "--symlink",
    [CAGE_STEP_TMPFS] = "--tmpfs",     [CAGE_STEP_PROC] = "--proc",
    [CAGE_STEP_DEVICE] = "--dev-bind", [CAGE_STEP_READ_ONLY] = "--remount-ro",
};

/* What is made of a file of memory. A copy lies in the cage's own root, which is closed at the end.
 */
static const char *const file_options[CAGE_STEP_KINDS] = {
    [CAGE_STEP_TEXT] = "--ro-bind-data",
    [CAGE_STEP_COPY] = "--file",
};

static void add_step(struct kg_buf *out, const struct cage_step *step, const char *staged,
                     int *next_file)
{
    if (file_options[step->kind] != NULL) {
        add_fd(out, file_options[step->kind], (*next_file)++);
        argv_add(out, step->path);
        return;
    }
    if (step->kind == CAGE_STEP_TMPFS) {
        argv_add(out, "--size");
        add_number(out, step->bytes);
    }
    argv_add(out, step_options[step->kind]);
    if (staged != NULL)
        argv_add(out, staged);
    else if (step->source[0] != '\0')
        argv_add(out, step->source);
    argv_add(out, step->path);
}

static void add_environment(struct kg_buf *out, const struct cage_words *env)
{
    for (size_t i = 0; i < env->count; i++) {
        const char *equals = strchr(env->items[i], '=');
        argv_add(out, "--setenv");
        kg_buf_append(out, env->items[i], (size_t)(equals - env->items[i]));
        kg_buf_char(out, '\0');
        argv_add(out, equals + 1);
    }
}

/* bwrap tells who is in the cage's network only where that has to be known before it has one. */
static void add_namespaces(struct kg_buf *out)
{
    for (size_t i = 0; i < KG_COUNT(namespace_options); i++)
        argv_add(out, namespace_options[i]);
    add_fd(out, "--json-status-fd", CAGE_FD_STATUS);
}

void cage_argv_options(const struct cage_plan *plan, const struct cage_source *sources, bool ahead,
                       struct kg_buf *out)
{
    for (size_t i = 0; i < KG_COUNT(fixed_options); i++)
        argv_add(out, fixed_options[i]);
    if (!ahead)
        add_namespaces(out);
    add_fd(out, "--add-seccomp-fd", CAGE_FD_CALLS);
    add_fd(out, "--add-seccomp-fd", CAGE_FD_ARGUMENTS);
    if (cage_plan_has_network(plan))
        add_fd(out, "--block-fd", CAGE_FD_BLOCK);
    int next_file = CAGE_FD_FILES;
    for (size_t i = 0; i < plan->steps.count; i++)
        add_step(out, &plan->steps.items[i], sources[i].staged, &next_file);
    argv_add(out, "--chdir");
    argv_add(out, plan->folder);
    add_environment(out, &plan->env);
}

static void argv_add_rule(struct kg_buf *out, char letter, const char *path)
{
    kg_buf_char(out, letter);
    argv_add(out, path);
}

static void argv_add_rules(struct kg_buf *out, char letter, const struct cage_words *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        argv_add_rule(out, letter, paths->items[i]);
}

/* True if a later step hides what this one brings: then it is not there to be looked at. */
static bool argv_is_covered(const struct cage_steps *steps, size_t at)
{
    for (size_t i = at + 1; i < steps->count; i++) {
        const struct cage_step *later = &steps->items[i];
        if (later->kind != CAGE_STEP_READ_ONLY && later->kind != CAGE_STEP_LINK &&
            kg_path_within(steps->items[at].path, later->path))
            return true;
    }
    return false;
}

static void add_mounts(struct kg_buf *out, const struct cage_steps *steps,
                       const struct cage_source *sources)
{
    for (size_t i = 0; i < steps->count; i++) {
        enum cage_step_kind kind = steps->items[i].kind;
        if ((kind != CAGE_STEP_BIND && kind != CAGE_STEP_WRITE) || argv_is_covered(steps, i))
            continue;
        argv_add_rule(out, kind == CAGE_STEP_BIND ? CAGE_MOUNT_READ : CAGE_MOUNT_WRITE,
                      steps->items[i].path);
        add_number(out, sources[i].major);
        add_number(out, sources[i].minor);
        add_number(out, sources[i].inode);
    }
}

void cage_argv_orders(const struct cage_plan *plan, const struct cage_source *sources, bool grouped,
                      struct kg_buf *out)
{
    kg_auto(kg_buf_free) struct kg_buf orders = {0};
    /* bwrap's reaper counts too. A group has the exact limit, and counts how often it is hit. */
    add_number(&orders, (uint64_t)plan->processes_max + 1 + (grouped ? SPARE_PROCESSES : 0));
    add_number(&orders, grouped ? 0 : plan->memory_bytes);
    add_number(&orders, plan->watched ? CAGE_FD_WATCH : 0);
    if (plan->landlock) {
        argv_add_rules(&orders, CAGE_RULE_RUN, &plan->executables);
        argv_add_rules(&orders, CAGE_RULE_CHANGE, &plan->writables);
    }
    argv_add(&orders, "");
    add_mounts(&orders, &plan->steps, sources);
    argv_add(&orders, "");
    for (size_t i = 0; i < plan->command.count; i++)
        argv_add(&orders, plan->command.items[i]);
    add_number(out, orders.length);
    kg_buf_append(out, orders.data, orders.length);
}

static void add_word_number(struct cage_words *out, int number)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    cage_words_add(out, text);
}

void cage_argv_ahead(const char *bwrap, struct cage_words *out)
{
    cage_words_add(out, "kaged-cage-init");
    cage_words_add(out, "ahead");
    add_word_number(out, CAGE_FD_RAN);
    cage_words_add(out, CAGE_HOSTNAME);
    cage_words_add(out, bwrap);
    cage_argv_command(out);
}

void cage_argv_command(struct cage_words *out)
{
    static const int for_shim[] = {CAGE_FD_RAN, CAGE_FD_IN, CAGE_FD_OUT, CAGE_FD_ORDERS};
    cage_words_add(out, "bwrap");
    cage_words_add(out, "--args");
    add_word_number(out, CAGE_FD_GATE);
    cage_words_add(out, "--args");
    add_word_number(out, CAGE_FD_ARGS);
    cage_words_add(out, "--");
    kg_auto(kg_free) char *init = kg_format("/proc/self/fd/%d", CAGE_FD_INIT);
    cage_words_add(out, init);
    for (size_t i = 0; i < KG_COUNT(for_shim); i++)
        add_word_number(out, for_shim[i]);
}
