/* The planner, bwrap's arguments and the plan's encoding, on a host that exists only in a table. */
#include "cage/internal.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* -- a host made of rows ----------------------------------------------------------------------- */

struct row {
    const char *path;
    enum cage_file kind;
    const char *link; /* or NULL */
    const char *head; /* or NULL */
};

/* A merged Debian with python3, node, bash and env. */
static const struct row debian[] = {
    {"/usr/lib", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr/lib64", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr/lib64/ld-linux-x86-64.so.2", CAGE_FILE_PROGRAM, "/lib/x86_64-linux-gnu/ld.so", NULL},
    {"/usr/lib/x86_64-linux-gnu/ld.so", CAGE_FILE_PROGRAM, NULL, "\177ELF"},
    {"/lib", CAGE_FILE_FOLDER, "usr/lib", NULL},
    {"/lib64", CAGE_FILE_FOLDER, "usr/lib64", NULL},
    {"/bin", CAGE_FILE_FOLDER, "usr/bin", NULL},
    {"/usr/bin", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr/local/bin", CAGE_FILE_FOLDER, NULL, NULL},
    {"/etc/ld.so.cache", CAGE_FILE_PLAIN, NULL, NULL},
    {"/usr/share/zoneinfo", CAGE_FILE_FOLDER, NULL, NULL},
    {"/etc/ssl/certs", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr/share/zoneinfo/Etc/UTC", CAGE_FILE_PLAIN, NULL, NULL},
    {"/etc/localtime", CAGE_FILE_PLAIN, "/usr/share/zoneinfo/Etc/UTC", NULL},
    {"/usr/bin/python3", CAGE_FILE_PROGRAM, "python3.11", NULL},
    {"/usr/bin/python3.11", CAGE_FILE_PROGRAM, NULL, "\177ELF"},
    {"/usr/bin/bash", CAGE_FILE_PROGRAM, NULL, "\177ELF"},
    {"/usr/bin/env", CAGE_FILE_PROGRAM, NULL, "\177ELF"},
    {"/usr/bin/node", CAGE_FILE_PROGRAM, NULL, "\177ELF"},
    {"/usr/share/nodejs", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr/bin/awk", CAGE_FILE_PROGRAM, "/etc/alternatives/awk", NULL},
    {"/etc/alternatives", CAGE_FILE_FOLDER, NULL, NULL},
    {"/etc/alternatives/awk", CAGE_FILE_PROGRAM, "/usr/bin/mawk", NULL},
    {"/usr/bin/mawk", CAGE_FILE_PROGRAM, NULL, "\177ELF"},
    {"/usr/local/bin/bun", CAGE_FILE_PROGRAM, "/root/.bun/bin/bun", NULL},
    {"/root/.bun/bin", CAGE_FILE_FOLDER, NULL, NULL},
    {"/root/.bun/bin/bun", CAGE_FILE_PROGRAM, NULL, "\177ELF"},
    {"/usr/bin/loop-a", CAGE_FILE_PROGRAM, NULL, "#!/usr/bin/loop-b\n"},
    {"/usr/bin/loop-b", CAGE_FILE_PROGRAM, NULL, "#!/usr/bin/loop-a\n"},
    {"/root/secret", CAGE_FILE_PROGRAM, NULL, "key"},
    {"/root", CAGE_FILE_FOLDER, NULL, NULL},
    {"/p/git", CAGE_FILE_FOLDER, NULL, NULL},
    {"/p/git/dist", CAGE_FILE_FOLDER, NULL, NULL},
    {"/p/git/run", CAGE_FILE_PROGRAM, NULL, "\177ELF"},
    {"/p/git/data", CAGE_FILE_PLAIN, NULL, "text"},
    {"/p/git/main.sh", CAGE_FILE_PROGRAM, NULL, "#!/bin/bash -eu\n"},
    {"/p/git/dist/main.js", CAGE_FILE_PROGRAM, NULL, "#!/usr/bin/env node\n"},
    {"/p/git/split.js", CAGE_FILE_PROGRAM, NULL, "#!/usr/bin/env -S A=1 node --flag\r\n"},
    {"/p/git/none.rb", CAGE_FILE_PROGRAM, NULL, "#!/usr/bin/ruby\n"},
    {"/p/git/python", CAGE_FILE_PROGRAM, "/usr/bin/python3", NULL},
    {"/p/git/leak", CAGE_FILE_PROGRAM, "/root/secret", NULL},
    {"/p/linked", CAGE_FILE_FOLDER, "git", NULL},
    {"/tmp", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr", CAGE_FILE_FOLDER, NULL, NULL},
    {"/srv", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr/lib/x", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr/share", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr/bin/git", CAGE_FILE_PROGRAM, NULL, "\177ELF"},
    {"/usr/share/git-core", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr/lib/git-core", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr/bin/java", CAGE_FILE_PROGRAM, "/usr/lib/jvm/java-17/bin/java", NULL},
    {"/usr/lib/jvm/java-17/bin", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr/lib/jvm/java-17/bin/java", CAGE_FILE_PROGRAM, NULL, "\177ELF"},
    {"/usr/bin/gcc", CAGE_FILE_PROGRAM, "gcc-12", NULL},
    {"/usr/bin/gcc-12", CAGE_FILE_PROGRAM, NULL, "\177ELF"},
    {"/usr/bin/ld", CAGE_FILE_PROGRAM, NULL, "\177ELF"},
    {"/usr/lib/gcc", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr/libexec/gcc", CAGE_FILE_FOLDER, NULL, NULL}, /* since Debian 13 */
    {"/usr/include", CAGE_FILE_FOLDER, NULL, NULL},
    {"/p", CAGE_FILE_FOLDER, NULL, NULL},
    {"/opt", CAGE_FILE_FOLDER, NULL, NULL},
    {"/opt/x", CAGE_FILE_FOLDER, NULL, NULL},
    {"/opt/x/deep", CAGE_FILE_FOLDER, NULL, NULL},
    {"/opt/x/deep/file", CAGE_FILE_PLAIN, NULL, NULL},
    {"/opt/x/pipe", CAGE_FILE_OTHER, NULL, NULL},
    {"/opt/x/link", CAGE_FILE_FOLDER, "deep", NULL},
    {"/opt/python", CAGE_FILE_FOLDER, NULL, NULL},
    {"/home", CAGE_FILE_FOLDER, NULL, NULL},
    {"/home/a", CAGE_FILE_FOLDER, NULL, NULL},
    {"/home/a/bin", CAGE_FILE_FOLDER, NULL, NULL},
    {"/home/a/bin/tool", CAGE_FILE_PROGRAM, NULL, "#!/usr/bin/python3\n"},
    {"/home/a/bin/leak", CAGE_FILE_PROGRAM, "/root/secret", NULL},
    {"/home/a/bin/git", CAGE_FILE_PROGRAM, NULL, "\177ELF"},
    {"/k", CAGE_FILE_FOLDER, NULL, NULL},
    {"/k/state", CAGE_FILE_FOLDER, NULL, NULL},
    {"/k/state/data", CAGE_FILE_FOLDER, NULL, NULL},
    {"/k/linked", CAGE_FILE_FOLDER, "/home/a", NULL},
};

static const struct row *find_row(const char *path)
{
    static const struct row many = {"/opt/many", CAGE_FILE_FOLDER, NULL, NULL};
    if (kg_path_within(path, many.path))
        return &many;
    for (size_t i = 0; i < KG_COUNT(debian); i++)
        if (strcmp(debian[i].path, path) == 0)
            return &debian[i];
    return NULL;
}

/* One link on the way replaced by what it says, or NULL. */
static char *step_through_link(const char *path)
{
    for (size_t i = 0; i < KG_COUNT(debian); i++) {
        if (debian[i].link == NULL || !kg_path_within(path, debian[i].path))
            continue;
        kg_auto(kg_free) char *folder = cage_path_join(debian[i].path, "..");
        kg_auto(kg_free) char *target = cage_path_join(folder, debian[i].link);
        const char *rest = path + strlen(debian[i].path);
        return rest[0] == '/' ? cage_path_join(target, rest + 1) : kg_steal(&target);
    }
    return NULL;
}

static char *table_real(const char *path)
{
    char *real = kg_strdup(path);
    for (char *next; (next = step_through_link(real)) != NULL; real = next)
        free(real);
    if (find_row(real) != NULL)
        return real;
    free(real);
    return NULL;
}

static enum cage_file table_kind(const char *path)
{
    kg_auto(kg_free) char *real = table_real(path);
    return real == NULL ? CAGE_FILE_NONE : find_row(real)->kind;
}

static char *table_link(const char *path)
{
    const struct row *row = find_row(path);
    return row == NULL || row->link == NULL ? NULL : kg_strdup(row->link);
}

static size_t table_head(const char *path, char *ret_text, size_t max)
{
    const struct row *row = find_row(path);
    const char *head = row == NULL || row->head == NULL ? "" : row->head;
    size_t length = strlen(head) < max ? strlen(head) : max;
    memcpy(ret_text, head, length);
    return length;
}

static bool table_is_roots(const char *path)
{
    return !kg_path_within(path, "/home");
}

static bool table_list(const char *path, size_t max, struct cage_words *ret_names)
{
    struct cage_words names = {0};
    size_t length = strlen(path);
    for (size_t i = 0; i < KG_COUNT(debian); i++) {
        const char *name = debian[i].path + length + 1;
        if (kg_path_within(debian[i].path, path) && debian[i].path[length] == '/' &&
            strchr(name, '/') == NULL)
            cage_words_add(&names, name);
    }
    bool fits = names.count <= max;
    if (fits)
        *ret_names = names;
    else
        cage_words_free(&names);
    return fits;
}

static const struct cage_host table_host = {table_kind,     table_link, table_real, table_head,
                                            table_is_roots, table_list, NULL};

static struct cage_facts facts = {.bwrap = "/usr/bin/bwrap", .landlock = 7, .host = &table_host};

/* -- helpers ----------------------------------------------------------------------------------- */

#define COMMAND(...)                                                                               \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static struct cage_policy policy_of(const char *const *command)
{
    static const char *const env[] = {"PATH=/usr/bin", "SECRET=a=b", NULL};
    return (struct cage_policy){.name = "git",
                                .install_dir = "/p/git",
                                .command = command,
                                .env = env,
                                .processes_max = 64,
                                .tmp_bytes = 1048576};
}

static struct cage_plan *plan_for(const struct cage_policy *policy)
{
    struct kg_err err = {0};
    struct cage_plan *plan = cage_plan_new(policy, &facts, &err);
    if (plan == NULL)
        fail_msg("%s", err.message);
    return plan;
}

static struct cage_plan *plan_of(const char *const *command)
{
    struct cage_policy policy = policy_of(command);
    return plan_for(&policy);
}

/* The lines of the printed plan that begin with one of the words, in their order. */
static char *lines_of(const struct cage_plan *plan, const char *words)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_buf found = {0};
    cage_plan_print(plan, &text);
    char *rest = NULL;
    for (char *line = strtok_r(kg_buf_terminate(&text), "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        kg_auto(kg_free) char *word = kg_format(" %.*s ", (int)strcspn(line, " "), line);
        if (strstr(words, word) != NULL)
            kg_buf_printf(&found, "%s\n", line);
    }
    return kg_buf_terminate(&found);
}

static void expect_lines(const struct cage_plan *plan, const char *words, const char *expected)
{
    kg_auto(kg_free) char *lines = lines_of(plan, words);
    assert_string_equal(lines, expected);
}

static void free_plan(struct cage_plan **plan)
{
    cage_plan_free(*plan);
}

static void expect_refused(struct cage_policy policy, const char *message)
{
    struct kg_err err = {0};
    assert_null(cage_plan_new(&policy, &facts, &err));
    assert_string_equal(err.message, message);
}

static bool has_step(const struct cage_plan *plan, enum cage_step_kind kind, const char *path,
                     const char *source)
{
    for (size_t i = 0; i < plan->steps.count; i++) {
        const struct cage_step *step = &plan->steps.items[i];
        if (step->kind == kind && strcmp(step->path, path) == 0 &&
            strcmp(step->source, source) == 0)
            return true;
    }
    return false;
}

/* -- the plan ---------------------------------------------------------------------------------- */

static void plan_of_a_python_plugin_is_this(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("python3", "main.py"));
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    cage_plan_print(plan, &text);
    assert_string_equal(kg_buf_terminate(&text),
                        "system /usr/lib\n"
                        "link /usr/lib64/ld-linux-x86-64.so.2 -> "
                        "/usr/lib/x86_64-linux-gnu/ld.so\n"
                        "link /lib -> usr/lib\n"
                        "link /lib64 -> usr/lib64\n"
                        "copy /etc/ld.so.cache\n"
                        "system /usr/share/zoneinfo\n"
                        "link /etc/localtime -> /usr/share/zoneinfo/Etc/UTC\n"
                        "link /bin -> usr/bin\n"
                        "link /usr/bin/python3 -> python3.11\n"
                        "system /usr/bin/python3.11\n"
                        "proc /proc\n"
                        "tmpfs /proc/1 4096 bytes\n"
                        "read-only /proc/1\n"
                        "read-only /proc\n"
                        "device /dev/null\n"
                        "device /dev/zero\n"
                        "device /dev/urandom\n"
                        "link /dev/random -> urandom\n"
                        "link /dev/fd -> /proc/self/fd\n"
                        "link /dev/stdin -> /proc/self/fd/0\n"
                        "link /dev/stdout -> /proc/self/fd/1\n"
                        "link /dev/stderr -> /proc/self/fd/2\n"
                        "tmpfs /dev/shm 1048576 bytes\n"
                        "tmpfs /tmp 1048576 bytes\n"
                        "bind /p/git\n"
                        "read-only /\n"
                        "folder /p/git\n"
                        "processes 64\n"
                        "landlock on\n"
                        "execute /usr/bin/python3.11\n"
                        "execute /usr/lib/x86_64-linux-gnu/ld.so\n"
                        "execute /p/git\n"
                        "change /tmp\n"
                        "change /dev\n"
                        "env PATH\n"
                        "env SECRET\n"
                        "command /usr/bin/python3 main.py\n");
}

static bool list_nothing(const char *path, size_t max, struct cage_words *ret_names)
{
    (void)path;
    (void)max;
    (void)ret_names;
    return false;
}

static void folder_of_more_than_a_few_links_is_bound(void **state)
{
    (void)state;
    struct cage_host other = table_host;
    other.list = list_nothing;
    struct cage_facts others = facts;
    others.host = &other;
    struct cage_policy policy = policy_of(COMMAND("./run"));
    kg_auto(free_plan) struct cage_plan *plan = cage_plan_new(&policy, &others, NULL);
    assert_true(has_step(plan, CAGE_STEP_SYSTEM, "/usr/lib64", "/usr/lib64"));
    assert_true(has_step(plan, CAGE_STEP_LINK, "/lib64", "usr/lib64"));
}

static void certificates_come_with_a_network(void **state)
{
    (void)state;
    struct cage_policy policy = policy_of(COMMAND("./run"));
    static const struct cage_reach reach = {.host = "example.org", .port = 443};
    kg_auto(free_plan) struct cage_plan *without = plan_for(&policy);
    policy.reaches = &reach;
    policy.reach_count = 1;
    kg_auto(free_plan) struct cage_plan *with = plan_for(&policy);
    assert_false(has_step(without, CAGE_STEP_SYSTEM, "/etc/ssl/certs", "/etc/ssl/certs"));
    assert_true(has_step(with, CAGE_STEP_SYSTEM, "/etc/ssl/certs", "/etc/ssl/certs"));
}

static void relative_command_is_below_the_install_folder(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("./run", "x"));
    assert_string_equal(plan->command.items[0], "/p/git/run");
    kg_auto(free_plan) struct cage_plan *bare = plan_of(COMMAND("run"));
    assert_string_equal(bare->command.items[0], "/p/git/run");
}

static void command_may_not_climb_out_of_the_install_folder(void **state)
{
    (void)state;
    expect_refused(policy_of(COMMAND("../../root/secret")),
                   "plugin git: program /root/secret is neither the plugin's nor the system's");
    expect_refused(policy_of(COMMAND("/root/secret")),
                   "plugin git: program /root/secret is neither the plugin's nor the system's");
}

static void link_of_the_plugin_may_lead_to_a_system_program_only(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("./python"));
    assert_true(has_step(plan, CAGE_STEP_LINK, "/usr/bin/python3", "python3.11"));
    expect_refused(policy_of(COMMAND("./leak")),
                   "plugin git: program /root/secret is neither the plugin's nor the system's");
}

static void missing_program_is_named(void **state)
{
    (void)state;
    struct kg_err err = {0};
    struct cage_policy policy = policy_of(COMMAND("deno"));
    assert_null(cage_plan_new(&policy, &facts, &err));
    assert_string_equal(err.message, "plugin git: program deno is not installed");
    assert_non_null(strstr(err.hint, "/usr/local/bin"));
    expect_refused(policy_of(COMMAND("./none.rb")),
                   "plugin git: program /usr/bin/ruby is not installed");
    expect_refused(policy_of(COMMAND("env", "deno", "x")),
                   "plugin git: program deno is not installed");
}

static void program_that_is_not_built_is_no_matter_of_the_machine(void **state)
{
    (void)state;
    struct kg_err err = {0};
    struct cage_policy policy = policy_of(COMMAND("./unbuilt"));
    assert_null(cage_plan_new(&policy, &facts, &err));
    assert_string_equal(err.message, "plugin git: program /p/git/unbuilt does not exist");
    assert_non_null(strstr(err.hint, "build it"));
}

static void program_must_be_executable(void **state)
{
    (void)state;
    expect_refused(policy_of(COMMAND("./data")),
                   "plugin git: program /p/git/data is not executable");
    expect_refused(policy_of(COMMAND("./dist")), "plugin git: program /p/git/dist is not a file");
}

static void script_brings_its_interpreter(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("./main.sh"));
    assert_true(has_step(plan, CAGE_STEP_SYSTEM, "/usr/bin/bash", "/usr/bin/bash"));
    /* /bin is a link in the cage, so the file is not there twice. */
    assert_false(has_step(plan, CAGE_STEP_LINK, "/bin/bash", "/usr/bin/bash"));
}

static void env_brings_the_program_that_it_runs(void **state)
{
    (void)state;
    const char *const *commands[] = {COMMAND("./dist/main.js"), COMMAND("./split.js"),
                                     COMMAND("/usr/bin/env", "A=1", "node", "x"),
                                     COMMAND("env", "-S", "node --flag")};
    for (size_t i = 0; i < KG_COUNT(commands); i++) {
        kg_auto(free_plan) struct cage_plan *plan = plan_of(commands[i]);
        assert_true(has_step(plan, CAGE_STEP_SYSTEM, "/usr/bin/env", "/usr/bin/env"));
        assert_true(has_step(plan, CAGE_STEP_SYSTEM, "/usr/bin/node", "/usr/bin/node"));
        assert_true(has_step(plan, CAGE_STEP_SYSTEM, "/usr/share/nodejs", "/usr/share/nodejs"));
    }
}

static void links_to_a_program_are_recreated(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("awk"));
    assert_true(has_step(plan, CAGE_STEP_LINK, "/usr/bin/awk", "/etc/alternatives/awk"));
    assert_true(has_step(plan, CAGE_STEP_LINK, "/etc/alternatives/awk", "/usr/bin/mawk"));
    assert_true(has_step(plan, CAGE_STEP_SYSTEM, "/usr/bin/mawk", "/usr/bin/mawk"));
}

static void program_outside_of_the_system_folders_is_staged(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("bun"));
    assert_true(has_step(plan, CAGE_STEP_LINK, "/usr/local/bin/bun", "/root/.bun/bin/bun"));
    assert_true(has_step(plan, CAGE_STEP_BIND, "/root/.bun/bin/bun", "/root/.bun/bin/bun"));
}

static void scripts_that_name_each_other_end(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("loop-a"));
    assert_true(has_step(plan, CAGE_STEP_SYSTEM, "/usr/bin/loop-b", "/usr/bin/loop-b"));
}

static void install_folder_may_not_hold_the_system(void **state)
{
    (void)state;
    const char *const folders[] = {"/tmp", "/usr", "/srv", "/root"};
    for (size_t i = 0; i < KG_COUNT(folders); i++) {
        struct cage_policy policy = policy_of(COMMAND("bash"));
        policy.install_dir = folders[i];
        kg_auto(kg_free) char *message =
            kg_format("plugin git: install folder %s is a folder of the system", folders[i]);
        expect_refused(policy, message);
    }
}

static void memory_may_hold_an_install_folder_and_nothing_else_of_dev(void **state)
{
    (void)state;
    assert_true(cage_place_may_be_installed("/dev/shm/home/plugins/git"));
    assert_false(cage_place_may_be_installed("/dev"));
    assert_false(cage_place_may_be_installed("/proc/1"));
    assert_false(cage_place_may_be_given("/dev/shm/home"));
}

static void install_folder_is_a_plain_path_without_links(void **state)
{
    (void)state;
    struct cage_policy policy = policy_of(COMMAND("bash"));
    policy.install_dir = "/p/git/../git";
    expect_refused(policy, "plugin git: install folder /p/git/../git is not a plain absolute path");
    policy.install_dir = "/p/linked";
    expect_refused(policy, "plugin git: install folder /p/linked has a symbolic link in its path");
    policy.install_dir = "/p/none";
    expect_refused(policy, "plugin git: install folder /p/none does not exist");
}

/* The folder that a plugin sees as its own need not be where its files are. */
static void an_install_folder_is_filled_from_another(void **state)
{
    (void)state;
    struct cage_policy policy = policy_of(COMMAND("./dist/main.js"));
    policy.install_dir = "/p/none";
    policy.install_source = "/p/git";
    struct cage_plan *plan = plan_for(&policy);
    assert_string_equal(plan->command.items[0], "/p/none/dist/main.js");
    assert_string_equal(plan->folder, "/p/none");
    assert_true(cage_words_have(&plan->executables, "/p/none"));
    assert_true(cage_steps_reach(&plan->steps, "/usr/bin/node"));
    const struct cage_step *own = NULL;
    for (size_t i = 0; i < plan->steps.count; i++)
        if (strcmp(plan->steps.items[i].path, "/p/none") == 0)
            own = &plan->steps.items[i];
        else
            assert_false(kg_path_within(plan->steps.items[i].source, "/p/git"));
    assert_non_null(own);
    assert_string_equal(own->source, "/p/git");
    cage_plan_free(plan);
    policy.install_source = "/p/linked";
    expect_refused(policy, "plugin git: install folder /p/linked has a symbolic link in its path");
}

static void environment_is_made_of_names_and_values(void **state)
{
    (void)state;
    static const char *const wrong[] = {"=x", NULL};
    struct cage_policy policy = policy_of(COMMAND("bash"));
    policy.env = wrong;
    expect_refused(policy, "plugin git: environment: \"=x\" is not NAME=value");
}

static void oversized_command_is_refused(void **state)
{
    (void)state;
    kg_auto(kg_free) char *huge = kg_alloc(CAGE_PLAN_MAX_BYTES + 1);
    memset(huge, 'x', CAGE_PLAN_MAX_BYTES);
    expect_refused(policy_of(COMMAND("bash", huge)),
                   "plugin git: its command and environment are larger than 524288 bytes");
}

/* -- granted files ----------------------------------------------------------------------------- */

static const char *const just_run[] = {"./run", NULL};

static struct cage_policy with_paths(const struct cage_path *paths, size_t count)
{
    struct cage_policy policy = policy_of(just_run);
    policy.paths = paths;
    policy.path_count = count;
    return policy;
}

static void expect_path_refused(const char *path, bool write, const char *message)
{
    const struct cage_path paths[] = {{path, write, false}};
    expect_refused(with_paths(paths, 1), message);
}

#define FILE_STEPS " bind write "
#define INSTALLED  "bind /p/git\n"

static void granted_files_come_parents_first_and_before_the_install_folder(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {
        {"/p", true, false},      {"/opt/x/deep/file", false, false}, {"/opt/x/deep", true, false},
        {"/opt/x", false, false}, {"/home/a", true, false},
    };
    struct cage_policy policy = with_paths(paths, KG_COUNT(paths));
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    expect_lines(plan, FILE_STEPS,
                 "write /home/a\n"
                 "bind /opt/x\n"
                 "write /opt/x/deep\n"
                 "bind /opt/x/deep/file\n"
                 "write /p\n" INSTALLED);
    expect_lines(plan, " change ",
                 "change /tmp\nchange /dev\n"
                 "change /home/a\nchange /opt/x/deep\nchange /p\n");
}

static void path_that_is_granted_twice_may_be_written_if_one_says_so(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {
        {"/opt/x", false, false}, {"/opt/x", true, false}, {"/opt/x", false, false}};
    struct cage_policy policy = with_paths(paths, KG_COUNT(paths));
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    expect_lines(plan, FILE_STEPS, "write /opt/x\n" INSTALLED);
}

static void what_can_be_read_anyway_adds_nothing(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {
        {"/usr/lib/x", false, false}, {"/p/git/dist", false, false}, {"/p/git", false, false}};
    struct cage_policy policy = with_paths(paths, KG_COUNT(paths));
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    expect_lines(plan, FILE_STEPS, INSTALLED);
}

/* The kernel lets nobody move a mount, so what is read-only stays under its name. */
static void folders_between_writable_and_read_only_are_mounts(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {{"/opt", true, false},
                                             {"/opt/x/deep/file", false, false},
                                             {"/k/state", false, false},
                                             {"/k", true, false}};
    struct cage_policy policy = with_paths(paths, KG_COUNT(paths));
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    expect_lines(plan, FILE_STEPS,
                 "write /k\n"
                 "bind /k/state\n"
                 "write /opt\n"
                 "write /opt/x as a part\n"
                 "write /opt/x/deep as a part\n"
                 "bind /opt/x/deep/file\n" INSTALLED);
    expect_lines(plan, " change ", "change /tmp\nchange /dev\nchange /k\nchange /opt\n");
}

/* The nearest name decides, as with paths; what is not there, or not writable, needs no cover. */
static void covers_lie_over_what_may_be_written_and_nothing_else(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {
        {"/opt", true, false}, {"/opt/x/deep", true, false}, {"/k", false, false}};
    static const struct cage_cover covers[] = {
        {"/opt/x", false, .note = "a test's"}, {"/opt/x/deep", false, .note = NULL},
        {"/opt/x/none", false, .note = NULL},  {"/k/state", false, .note = NULL},
        {"/opt/python", true, .note = NULL},   {"/opt/x/deep/file", true, .note = NULL},
    };
    struct cage_policy policy = with_paths(paths, KG_COUNT(paths));
    policy.covers = covers;
    policy.cover_count = KG_COUNT(covers);
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    expect_lines(plan, FILE_STEPS,
                 "bind /k\n"
                 "write /opt\n"
                 "write /opt/python as a part\n"
                 "bind /opt/x as a part\n"
                 "write /opt/x/deep\n"
                 "write /opt/x/deep/file as a part\n" INSTALLED);
}

static void cover_with_a_link_in_its_path_is_refused(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {{"/opt", true, false}};
    static const struct cage_cover cover = {"/opt/x/link", false, .note = NULL};
    struct cage_policy policy = with_paths(paths, KG_COUNT(paths));
    policy.covers = &cover;
    policy.cover_count = 1;
    expect_refused(policy, "plugin git: read /opt/x/link: this path contains a symbolic link");
}

static void more_folders_between_than_a_plan_holds_are_refused(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf deep = {0};
    kg_buf_text(&deep, "/opt/many");
    for (size_t i = 0; i <= CAGE_STEPS_MAX; i++)
        kg_buf_text(&deep, "/d");
    const struct cage_path paths[] = {{"/opt/many", true, false},
                                      {kg_buf_terminate(&deep), false, false}};
    expect_refused(with_paths(paths, KG_COUNT(paths)),
                   "plugin git: its cage would have more than 512 mounts");
}

static void part_of_the_system_is_read_only_again_below_a_writable_folder(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {{"/usr/share", true, false},
                                             {"/usr/share/zoneinfo", false, false}};
    struct cage_policy policy = with_paths(paths, KG_COUNT(paths));
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    expect_lines(plan, FILE_STEPS, "write /usr/share\nbind /usr/share/zoneinfo\n" INSTALLED);
}

static void places_of_the_system_are_refused(void **state)
{
    (void)state;
    static const char *const wholes[] = {"/",    "/boot", "/etc", "/home", "/root",
                                         "/run", "/tmp",  "/usr", "/var"};
    static const char *const trees[][2] = {
        {"/proc", "/proc"}, {"/proc/self", "/proc"}, {"/sys/fs", "/sys"}, {"/dev/shm", "/dev"}};
    for (size_t i = 0; i < KG_COUNT(wholes); i++) {
        kg_auto(kg_free) char *message =
            kg_format("plugin git: read %s: %s cannot be given as a whole: it is the system's own",
                      wholes[i], wholes[i]);
        expect_path_refused(wholes[i], false, message);
    }
    for (size_t i = 0; i < KG_COUNT(trees); i++) {
        kg_auto(kg_free) char *message = kg_format(
            "plugin git: read %s: %s and what is in it cannot be given to a plugin: it is the "
            "system's own",
            trees[i][0], trees[i][1]);
        expect_path_refused(trees[i][0], false, message);
    }
    static const struct cage_path srv[] = {{"/srv", false, false}};
    struct cage_policy policy = with_paths(srv, 1);
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    assert_true(has_step(plan, CAGE_STEP_BIND, "/srv", "/srv"));
}

static void path_that_is_not_what_it_says_is_refused(void **state)
{
    (void)state;
    expect_path_refused("opt/x", false, "plugin git: read opt/x: it is not a plain absolute path");
    expect_path_refused("/opt/../root", false,
                        "plugin git: read /opt/../root: it is not a plain absolute path");
    expect_path_refused("/opt/x/link", true,
                        "plugin git: write /opt/x/link: this path contains a symbolic link");
    expect_path_refused("/opt/x/pipe", false,
                        "plugin git: read /opt/x/pipe: neither a folder nor a file");
    struct kg_err err = {0};
    static const struct cage_path missing[] = {{"/opt/y", false, false}};
    struct cage_policy policy = with_paths(missing, 1);
    assert_null(cage_plan_new(&policy, &facts, &err));
    assert_string_equal(err.message, "plugin git: read /opt/y: it does not exist");
    assert_string_equal(err.hint, "create it, or remove this capability from the plugin");
}

static void install_folder_cannot_be_written(void **state)
{
    (void)state;
    expect_path_refused("/p/git", true,
                        "plugin git: write /p/git: the plugin's own folder is always read-only");
    expect_path_refused("/p/git/dist", true,
                        "plugin git: write /p/git/dist: the plugin's own folder is always "
                        "read-only");
}

static void folders_of_kaged_are_refused_unless_kept_for_the_plugin(void **state)
{
    (void)state;
    static const char *const kept[] = {"/k/state", "/k/linked", NULL};
    static const char *const refused[] = {"/k", "/k/state", "/k/state/data", "/home/a"};
    for (size_t i = 0; i < KG_COUNT(refused); i++) {
        const struct cage_path paths[] = {{refused[i], false, false}};
        struct cage_policy policy = with_paths(paths, 1);
        policy.kept = kept;
        kg_auto(kg_free) char *message =
            kg_format("plugin git: read %s: it belongs to kaged itself", refused[i]);
        expect_refused(policy, message);
    }
    static const struct cage_path own[] = {{"/k/state/data", true, true}};
    struct cage_policy policy = with_paths(own, 1);
    policy.kept = kept;
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    assert_true(has_step(plan, CAGE_STEP_WRITE, "/k/state/data", "/k/state/data"));
}

static void folders_of_root_are_not_written_for_a_root_daemon_unless_listed(void **state)
{
    (void)state;
    static const char *const listed[] = {"/opt", NULL};
    static const struct cage_path paths[] = {
        {"/home/a", true, false}, {"/opt/x", true, false}, {"/k/state/data", true, true}};
    struct kg_err err = {0};
    struct cage_policy policy = with_paths(paths, KG_COUNT(paths));
    facts.is_root = true;
    struct cage_plan *refused = cage_plan_new(&policy, &facts, &err);
    policy.root_writable = listed;
    kg_auto(free_plan) struct cage_plan *plan = cage_plan_new(&policy, &facts, NULL);
    facts.is_root = false;
    assert_null(refused);
    assert_string_equal(err.message, "plugin git: write /opt/x: it belongs to root");
    assert_non_null(strstr(err.hint, "sandbox.root_writable"));
    assert_non_null(plan);
    expect_lines(plan, " write ",
                 "write /home/a\nwrite /k/state/data also of root\nwrite /opt/x also of root\n");
}

static void more_files_than_a_plan_holds_are_refused(void **state)
{
    (void)state;
    char *folders[CAGE_STEPS_MAX];
    struct cage_path paths[CAGE_STEPS_MAX];
    for (size_t i = 0; i < KG_COUNT(folders); i++) {
        folders[i] = kg_format("/opt/many/%zu", i);
        paths[i] = (struct cage_path){folders[i], false, false};
    }
    expect_refused(with_paths(paths, KG_COUNT(paths)),
                   "plugin git: its cage would have more than 512 mounts");
    for (size_t i = 0; i < KG_COUNT(folders); i++)
        free(folders[i]);
}

/* -- granted programs -------------------------------------------------------------------------- */

static struct cage_policy with_program(const struct cage_program *program)
{
    struct cage_policy policy = policy_of(just_run);
    policy.programs = program;
    policy.program_count = 1;
    return policy;
}

static void granted_program_comes_with_its_folder_and_what_it_runs(void **state)
{
    (void)state;
    static const struct cage_program git = {"git", "/opt/x"};
    struct cage_policy policy = with_program(&git);
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    assert_true(has_step(plan, CAGE_STEP_SYSTEM, "/usr/bin/git", "/usr/bin/git"));
    assert_true(has_step(plan, CAGE_STEP_SYSTEM, "/usr/share/git-core", "/usr/share/git-core"));
    expect_lines(plan, FILE_STEPS, "bind /opt/x\n" INSTALLED);
    expect_lines(plan, " execute ",
                 "execute /usr/bin/git\nexecute /usr/lib/git-core\n"
                 "execute /usr/lib/x86_64-linux-gnu/ld.so\nexecute /p/git\n");
}

static void program_with_a_home_in_usr_lib_may_run_what_is_there(void **state)
{
    (void)state;
    static const struct cage_program java = {"java", "/opt/x"};
    struct cage_policy policy = with_program(&java);
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    assert_true(cage_words_have(&plan->executables, "/usr/lib/jvm/java-17/bin/java"));
    assert_true(cage_words_have(&plan->executables, "/usr/lib/jvm/java-17"));
}

static void compiler_comes_with_its_helpers_that_are_there(void **state)
{
    (void)state;
    static const struct cage_program gcc = {"gcc", "/opt/x"};
    struct cage_policy policy = with_program(&gcc);
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    assert_true(has_step(plan, CAGE_STEP_SYSTEM, "/usr/bin/ld", "/usr/bin/ld"));
    assert_true(has_step(plan, CAGE_STEP_SYSTEM, "/usr/include", "/usr/include"));
    assert_true(cage_words_have(&plan->executables, "/usr/lib/gcc"));
    assert_true(has_step(plan, CAGE_STEP_SYSTEM, "/usr/libexec/gcc", "/usr/libexec/gcc"));
    assert_true(cage_words_have(&plan->executables, "/usr/libexec/gcc"));
}

static void operator_adds_folders_for_a_program(void **state)
{
    (void)state;
    static const char *const folders[] = {"/opt/python", "/opt/none", NULL};
    static const char *const whole[] = {"/etc", NULL};
    struct cage_support support = {"python3", folders};
    struct cage_policy policy = policy_of(COMMAND("python3", "main.py"));
    policy.supports = &support;
    policy.support_count = 1;
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    assert_true(has_step(plan, CAGE_STEP_SYSTEM, "/opt/python", "/opt/python"));
    assert_true(cage_words_have(&plan->executables, "/opt/python"));
    assert_false(cage_words_have(&plan->executables, "/opt/none"));
    support.folders = whole;
    expect_refused(policy, "plugin git: program python3: /etc cannot be a folder for it");
}

static void program_of_the_plugin_gets_no_support_by_its_name(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {{"/home/a", true, false}};
    static const struct cage_program own = {"/home/a/bin/git", "/opt/x"};
    struct cage_policy policy = with_program(&own);
    policy.paths = paths;
    policy.path_count = 1;
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    assert_false(has_step(plan, CAGE_STEP_SYSTEM, "/usr/share/git-core", "/usr/share/git-core"));
}

static void program_may_lie_below_a_granted_path_and_is_not_written_there(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {{"/home/a", true, false}};
    static const struct cage_program tool = {"/home/a/bin/tool", "/opt/x"};
    struct cage_policy policy = with_program(&tool);
    expect_refused(policy, "plugin git: program /home/a/bin/tool is neither the plugin's nor the "
                           "system's");
    policy.paths = paths;
    policy.path_count = 1;
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    expect_lines(plan, FILE_STEPS,
                 "write /home/a\nwrite /home/a/bin as a part\nbind /opt/x\n"
                 "bind /home/a/bin/tool\n" INSTALLED);
    assert_true(cage_words_have(&plan->executables, "/home/a/bin/tool"));
    assert_true(cage_words_have(&plan->executables, "/usr/bin/python3.11"));
}

/* The plugin itself may have put it there in its last life. */
static void link_below_a_granted_path_does_not_lead_out_of_it(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {{"/home/a", true, false}};
    static const struct cage_program leak = {"/home/a/bin/leak", "/opt/x"};
    struct cage_policy policy = with_program(&leak);
    policy.paths = paths;
    policy.path_count = 1;
    expect_refused(policy,
                   "plugin git: program /root/secret is neither the plugin's nor the system's");
}

static void program_that_is_run_cannot_be_written(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {{"/home/a/bin/tool", true, false}};
    static const struct cage_program tool = {"/home/a/bin/tool", "/opt/x"};
    struct cage_policy policy = with_program(&tool);
    policy.paths = paths;
    policy.path_count = 1;
    expect_refused(policy, "plugin git: write /home/a/bin/tool: it cannot write a program that it "
                           "runs");
}

static void folder_of_a_program_follows_the_rules_of_paths(void **state)
{
    (void)state;
    static const struct {
        struct cage_program program;
        const char *message;
    } rows[] = {
        {{"git", "/opt/x/deep/file"},
         "plugin git: run git in /opt/x/deep/file: it is not a folder"},
        {{"git", "/opt/x/link"},
         "plugin git: run git in /opt/x/link: this path contains a symbolic link"},
        {{"git", "/etc"},
         "plugin git: run git in /etc: /etc cannot be given as a whole: it is the system's own"},
        {{"git", "/opt/y"}, "plugin git: run git in /opt/y: it does not exist"},
        {{"hg", "/opt/x"}, "plugin git: program hg is not installed"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        expect_refused(with_program(&rows[i].program), rows[i].message);
}

static void program_may_work_in_a_folder_that_is_kept_for_the_plugin(void **state)
{
    (void)state;
    static const char *const kept[] = {"/k/state", NULL};
    static const struct cage_path own[] = {{"/k/state/data", true, true}};
    static const struct cage_program git = {"git", "/k/state/data"};
    struct cage_policy policy = with_program(&git);
    policy.kept = kept;
    expect_refused(policy, "plugin git: run git in /k/state/data: it belongs to kaged itself");
    policy.paths = own;
    policy.path_count = 1;
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    assert_true(has_step(plan, CAGE_STEP_WRITE, "/k/state/data", "/k/state/data"));
}

/* -- the plan in words ------------------------------------------------------------------------- */

static void expect_words(const struct cage_plan *plan, const char *expected)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    cage_plan_words(plan, &words);
    assert_string_equal(kg_buf_terminate(&words), expected);
}

static void words_say_what_was_granted_and_no_more(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {{"/home/a", true, false},
                                             {"/usr/lib/x", false, false}};
    static const struct cage_program git = {"git", "/opt/x"};
    struct cage_policy policy = with_program(&git);
    policy.paths = paths;
    policy.path_count = KG_COUNT(paths);
    policy.memory_bytes = (uint64_t)512 * 1024 * 1024;
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    expect_words(plan, "may read and write /home/a\n"
                       "may read /opt/x\n"
                       "may read /usr/lib/x\n"
                       "may run /usr/bin/git, in any folder that it sees, and read /opt/x\n"
                       "may not use the network\n"
                       "at most 64 processes, 512 MiB of memory, 1 MiB in /tmp\n"
                       "nothing else\n");
}

static void words_tell_the_network_and_a_missing_layer(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("./run"));
    plan->landlock = false;
    cage_network_add(&plan->network, "api.example.com", "198.18.0.2", 443);
    cage_network_add(&plan->network, "localhost", "127.0.0.1", 0);
    cage_network_add(&plan->network, "localhost", "::1", 0);
    plan->network.any = true;
    expect_words(plan, "may connect to api.example.com, port 443\n"
                       "may connect to localhost, every port\n"
                       "may connect to every host, every port\n"
                       "at most 64 processes, 1 MiB in /tmp\n"
                       "the kernel has no Landlock: a file that the plugin writes, or finds in "
                       "/usr/lib, it may also run\n"
                       "nothing else\n");
    expect_lines(plan, " landlock ", "landlock off\n");
}

/* -- paths ------------------------------------------------------------------------------------- */

static void joined_paths_have_no_dots(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"/a/b", "c", "/a/b/c"},
        {"/a/b", "./c/../d", "/a/b/d"},
        {"/a/b", "../../../x", "/x"},
        {"/a/b", "/c//d/", "/c/d"},
        {"/", "x", "/x"},
        {"/a", "..", "/"},
        {"/a/b", "../b2/", "/a/b2"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *path = cage_path_join(rows[i][0], rows[i][1]);
        assert_string_equal(path, rows[i][2]);
    }
}

static void plain_paths_are_told_from_others(void **state)
{
    (void)state;
    static const char *const others[] = {"", "a", "/", "/a/", "//a", "/a/./b", "/a/..", "/.."};
    assert_true(cage_path_plain("/a"));
    assert_true(cage_path_plain("/a/..b/.c"));
    for (size_t i = 0; i < KG_COUNT(others); i++)
        assert_false(cage_path_plain(others[i]));
}

/* -- bwrap's arguments ------------------------------------------------------------------------- */

static void join_words(struct kg_buf *options)
{
    for (size_t i = 0; i < options->length; i++)
        if (options->data[i] == '\0')
            options->data[i] = ' ';
    kg_buf_terminate(options);
}

static void options_of_a_static_plugin_are_these(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("./run", "--flag"));
    static const struct cage_source sources[64];
    kg_auto(kg_buf_free) struct kg_buf options = {0};
    cage_argv_options(plan, sources, true, &options);
    join_words(&options);
    assert_string_equal(
        options.data,
        "--unshare-user --unshare-pid --disable-userns --new-session --die-with-parent "
        "--cap-drop ALL --clearenv --add-seccomp-fd 6 --add-seccomp-fd 7 "
        "--ro-bind /usr/lib /usr/lib "
        "--symlink /usr/lib/x86_64-linux-gnu/ld.so /usr/lib64/ld-linux-x86-64.so.2 "
        "--symlink usr/lib /lib --symlink usr/lib64 /lib64 --file 15 /etc/ld.so.cache "
        "--ro-bind /usr/share/zoneinfo /usr/share/zoneinfo "
        "--symlink /usr/share/zoneinfo/Etc/UTC /etc/localtime --symlink usr/bin /bin "
        "--proc /proc "
        "--size 4096 --tmpfs /proc/1 --remount-ro /proc/1 --remount-ro /proc "
        "--dev-bind /dev/null /dev/null --dev-bind /dev/zero /dev/zero "
        "--dev-bind /dev/urandom /dev/urandom --symlink urandom /dev/random "
        "--symlink /proc/self/fd /dev/fd --symlink /proc/self/fd/0 /dev/stdin "
        "--symlink /proc/self/fd/1 /dev/stdout --symlink /proc/self/fd/2 /dev/stderr "
        "--size 1048576 --tmpfs /dev/shm --size 1048576 --tmpfs /tmp "
        "--ro-bind /p/git /p/git --remount-ro / --chdir /p/git "
        "--setenv PATH /usr/bin --setenv SECRET a=b ");
}

static void bwrap_makes_the_namespaces_that_were_not_made_ahead(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("./run"));
    static const struct cage_source sources[64];
    kg_auto(kg_buf_free) struct kg_buf options = {0};
    cage_argv_options(plan, sources, false, &options);
    join_words(&options);
    assert_non_null(strstr(options.data,
                           "--unshare-user --unshare-pid --disable-userns --new-session "
                           "--die-with-parent --cap-drop ALL --clearenv --unshare-ipc "
                           "--unshare-net --unshare-uts --unshare-cgroup-try --hostname kaged "
                           "--json-status-fd 5 --add-seccomp-fd 6 "));
}

static void staged_sources_are_bound_from_the_stage(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {{"/opt/x/deep", true, false},
                                             {"/opt/x", false, false}};
    struct cage_policy policy = policy_of(COMMAND("./run"));
    policy.paths = paths;
    policy.path_count = KG_COUNT(paths);
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    cage_steps_add(&plan->steps, CAGE_STEP_TEXT, "/etc/hosts", "127.0.0.1 localhost\n", 0);
    struct cage_source sources[64] = {0};
    for (size_t i = 0; i < plan->steps.count; i++)
        if (plan->steps.items[i].kind == CAGE_STEP_BIND ||
            plan->steps.items[i].kind == CAGE_STEP_WRITE)
            sources[i].staged = (char *)"/stage/1";
    kg_auto(kg_buf_free) struct kg_buf options = {0};
    cage_argv_options(plan, sources, false, &options);
    join_words(&options);
    assert_non_null(strstr(options.data, "--ro-bind /stage/1 /opt/x --bind /stage/1 /opt/x/deep "
                                         "--ro-bind /stage/1 /p/git "));
    assert_non_null(strstr(options.data, "--ro-bind-data 16 /etc/hosts "));
}

static void orders_of_a_static_plugin_are_these(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("./run", "", "--flag"));
    static const struct cage_source sources[64];
    kg_auto(kg_buf_free) struct kg_buf orders = {0}, fewer = {0};
    cage_argv_orders(plan, sources, false, &orders);
    join_words(&orders);
    assert_string_equal(orders.data,
                        "95 65 0 0 x/usr/lib/x86_64-linux-gnu/ld.so x/p/git w/tmp w/dev  "
                        "r/p/git 0 0 0  /p/git/run  --flag ");
    plan->landlock = false;
    cage_argv_orders(plan, sources, false, &fewer);
    join_words(&fewer);
    assert_string_equal(fewer.data, "42 65 0 0  r/p/git 0 0 0  /p/git/run  --flag ");
}

/* What lies below something that is mounted later cannot be looked at, nor can the plugin. */
static void orders_say_which_file_has_to_be_where(void **state)
{
    (void)state;
    static const struct cage_path paths[] = {{"/opt/x/deep", true, false},
                                             {"/opt/x", false, false}};
    struct cage_policy policy = policy_of(COMMAND("./run"));
    policy.paths = paths;
    policy.path_count = KG_COUNT(paths);
    kg_auto(free_plan) struct cage_plan *plan = plan_for(&policy);
    struct cage_source sources[64] = {0};
    for (size_t i = 0; i < plan->steps.count; i++)
        sources[i] = (struct cage_source){.major = 7, .minor = 8, .inode = 1000 + i};
    kg_auto(kg_buf_free) struct kg_buf orders = {0}, covered = {0};
    cage_argv_orders(plan, sources, false, &orders);
    join_words(&orders);
    size_t last = plan->steps.count - 2;
    kg_auto(kg_free) char *expected =
        kg_format("  r/opt/x 7 8 %zu w/opt/x/deep 7 8 %zu r/p/git 7 8 %zu  /p/git/run ",
                  1000 + last - 2, 1000 + last - 1, 1000 + last);
    assert_non_null(strstr(orders.data, expected));
    cage_steps_add(&plan->steps, CAGE_STEP_TMPFS, "/opt", "", 4096);
    cage_argv_orders(plan, sources, false, &covered);
    join_words(&covered);
    assert_null(strstr(covered.data, "r/opt/x"));
}

static void command_line_of_bwrap_is_the_same_for_all(void **state)
{
    (void)state;
    struct cage_words words = {0};
    cage_argv_command(&words);
    static const char *const expected[] = {
        "bwrap", "--args", "3", "--args", "4", "--", "/proc/self/fd/12", "8", "9", "10", "11"};
    assert_int_equal(words.count, KG_COUNT(expected));
    for (size_t i = 0; i < words.count; i++)
        assert_string_equal(words.items[i], expected[i]);
    cage_words_free(&words);
}

static void shim_that_goes_ahead_becomes_that_bwrap(void **state)
{
    (void)state;
    kg_auto(cage_words_free) struct cage_words words = {0}, bwrap = {0};
    static const char *const expected[] = {"kaged-cage-init", "ahead", "8", "kaged",
                                           "/opt/bin/bwrap"};
    cage_argv_ahead("/opt/bin/bwrap", &words);
    cage_argv_command(&bwrap);
    assert_int_equal(words.count, KG_COUNT(expected) + bwrap.count);
    for (size_t i = 0; i < KG_COUNT(expected); i++)
        assert_string_equal(words.items[i], expected[i]);
    for (size_t i = 0; i < bwrap.count; i++)
        assert_string_equal(words.items[KG_COUNT(expected) + i], bwrap.items[i]);
}

static void expect_limits(const struct cage_plan *plan, bool grouped, const char *words)
{
    static const struct cage_source sources[64];
    kg_auto(kg_buf_free) struct kg_buf orders = {0};
    cage_argv_orders(plan, sources, grouped, &orders);
    join_words(&orders);
    assert_int_equal(strncmp(strchr(orders.data, ' '), words, strlen(words)), 0);
}

static void limits_of_a_group_come_before_those_of_the_shim(void **state)
{
    (void)state;
    struct cage_policy policy = policy_of(COMMAND("./run"));
    policy.memory_bytes = 1048576;
    policy.cpu_shares = 256;
    kg_auto(free_plan) struct cage_plan *plan = cage_plan_new(&policy, &facts, NULL);
    expect_limits(plan, false, " 65 1048576 0 x/");
    expect_limits(plan, true, " 81 0 0 x/");
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    cage_plan_print(plan, &text);
    assert_non_null(strstr(kg_buf_terminate(&text), "\nmemory 1048576 bytes\ncpu 256 shares\n"));
}

/* -- the encoding ------------------------------------------------------------------------------ */

static void encoded_plan_comes_back_the_same(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("python3", "", "a b"));
    kg_auto(kg_buf_free) struct kg_buf bytes = {0}, again = {0};
    cage_plan_encode(plan, &bytes);
    kg_auto(free_plan) struct cage_plan *decoded = cage_plan_decode(kg_buf_view(&bytes), NULL);
    assert_non_null(decoded);
    cage_plan_encode(decoded, &again);
    assert_true(kg_str_equal(kg_buf_view(&bytes), kg_buf_view(&again)));
}

/* Decodes a copy of its exact size, so that a read past its end is found. */
static bool decodes(const char *data, size_t length)
{
    kg_auto(kg_free) char *exact = kg_alloc(length);
    memcpy(exact, data, length);
    struct kg_err err;
    kg_auto(free_plan) struct cage_plan *plan =
        cage_plan_decode((struct kg_str){exact, length}, &err);
    return plan != NULL;
}

static void cut_plan_is_refused(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("python3", "x"));
    kg_auto(kg_buf_free) struct kg_buf bytes = {0};
    cage_plan_encode(plan, &bytes);
    for (size_t length = 0; length < bytes.length; length++)
        assert_false(decodes(bytes.data, length));
    kg_buf_char(&bytes, '\0');
    assert_false(decodes(bytes.data, bytes.length));
}

static void changed_plan_is_refused_or_read_within_bounds(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("python3", "x"));
    kg_auto(kg_buf_free) struct kg_buf bytes = {0};
    cage_plan_encode(plan, &bytes);
    static const char changes[] = {'\0', '9', '-', '/', '.', (char)0xff};
    for (size_t at = 0; at < bytes.length; at++) {
        char kept = bytes.data[at];
        for (size_t i = 0; i < sizeof(changes); i++) {
            bytes.data[at] = changes[i];
            (void)decodes(bytes.data, bytes.length);
        }
        bytes.data[at] = kept;
    }
}

/* Name, bwrap, folder, processes, shares, memory, landlock, watched, executables, writables. */
#define START                                                                                      \
    "kaged-plan-4\0git\0/usr/bin/bwrap\0/p/git\0"                                                  \
    "64\0"                                                                                         \
    "0\0"                                                                                          \
    "0\0"                                                                                          \
    "1\0"                                                                                          \
    "0\0"
#define LISTS                                                                                      \
    "1\0/x\0"                                                                                      \
    "1\0/w\0"
#define NETWORK                                                                                    \
    "\0"                                                                                           \
    "0\0"                                                                                          \
    "0\0"
#define HEAD START LISTS NETWORK
#define TAIL                                                                                       \
    "1\0/run\0"                                                                                    \
    "0\0"
#define LITERAL(text) text, sizeof(text) - 1

/* clang-format off */
static void hostile_fields_are_refused(void **state)
{
    (void)state;
    assert_true(decodes(LITERAL(HEAD "1\0" "4\0/a\0b\0" "0\0" "0\0" "0\0" TAIL)));
    assert_true(decodes(LITERAL(HEAD "1\0" "2\0/a\0/b\0" "0\0" "1\0" "0\0" TAIL)));
    assert_true(decodes(LITERAL(START LISTS "\0" "0\0" "1\0h\0" "127.0.0.1\0" "80\0" "0\0" TAIL)));
    static const struct {
        const char *data;
        size_t length;
    } rows[] = {
        {LITERAL(HEAD "1\0" "10\0/a\0/b\0" "0\0" "0\0" "0\0" TAIL)}, /* no such step */
        {LITERAL(HEAD "1\0" "7\0/a\0\0" "0\0" "0\0" "0\0" TAIL)}, /* a device of nothing */
        {LITERAL(HEAD "1\0" "9\0/a\0b\0" "0\0" "0\0" "0\0" TAIL)}, /* a copy of something */
        {LITERAL(HEAD "1\0" "-1\0/a\0b\0" "0\0" "0\0" "0\0" TAIL)}, /* a negative kind */
        {LITERAL(HEAD "1\0" "4\0a\0b\0" "0\0" "0\0" "0\0" TAIL)}, /* a relative path */
        {LITERAL(HEAD "1\0" "4\0/a/../b\0b\0" "0\0" "0\0" "0\0" TAIL)}, /* a path that climbs */
        {LITERAL(HEAD "1\0" "0\0/a\0--bind\0" "0\0" "0\0" "0\0" TAIL)}, /* an option as a source */
        {LITERAL(HEAD "1\0" "2\0/a\0b\0" "0\0" "0\0" "0\0" TAIL)}, /* a relative source */
        {LITERAL(HEAD "1\0" "2\0/a\0/b\0" "0\0" "2\0" "0\0" TAIL)}, /* neither yes nor no */
        {LITERAL(HEAD "1\0" "1\0/a\0/b\0" "0\0" "1\0" "0\0" TAIL)}, /* root's, but not written */
        {LITERAL(HEAD "1\0" "2\0/a\0/b\0" "0\0" "1\0" "1\0" TAIL)}, /* a part, and root's own */
        {LITERAL(HEAD "1\0" "0\0/a\0/b\0" "0\0" "0\0" "1\0" TAIL)}, /* a part of the system */
        {LITERAL(HEAD "1\0" "5\0/a\0\0" "0\0" "0\0" "0\0" TAIL)}, /* a tmpfs without a size */
        {LITERAL(HEAD "1\0" "5\0/a\0b\0" "1\0" "0\0" "0\0" TAIL)}, /* a tmpfs with a source */
        {LITERAL(HEAD "1\0" "4\0/a\0\0" "0\0" "0\0" "0\0" TAIL)}, /* a link to nowhere */
        {LITERAL(HEAD "1\0" "3\0/a\0\0" "0\0" "0\0" "0\0" TAIL)}, /* a text without one */
        {LITERAL(HEAD "99999999999999999999\0" TAIL)},              /* past int64 */
        {LITERAL(HEAD "513\0" TAIL)},                               /* too many steps */
        {LITERAL(HEAD "0\0" "0\0" "0\0")},                          /* no command */
        {LITERAL(HEAD "0\0" "1\0/run\0" "1\0NAME\0")},              /* not NAME=value */
        {LITERAL(START "1\0x\0" "0\0" NETWORK "0\0" TAIL)},         /* a relative executable */
        {LITERAL(START "0\0" "1\0/w/..\0" NETWORK "0\0" TAIL)},     /* a writable that climbs */
        {LITERAL(START LISTS "\0" "2\0" "0\0" "0\0" TAIL)},         /* any, or not */
        {LITERAL(START LISTS "\0" "0\0" "1\0h\0x\0" "80\0" "0\0" TAIL)},     /* no address */
        {LITERAL(START LISTS "\0" "0\0" "1\0h\0::1\0" "65536\0" "0\0" TAIL)}, /* no port */
        {LITERAL("kaged-plan-2\0git\0/usr/bin/bwrap\0/p/git\0" "64\0" "0\0" "0\0" "1\0"
                 LISTS NETWORK "0\0" TAIL)},                        /* another version */
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (decodes(rows[i].data, rows[i].length))
            fail_msg("row %zu was taken", i);
}
/* clang-format on */

/* -- the real host ----------------------------------------------------------------------------- */

static void write_file(const char *folder, const char *name, const char *text, mode_t mode)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

static void remove_file(const char *folder, const char *name)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", folder, name);
    unlink(path);
}

static void real_files_are_seen_as_they_are(void **state)
{
    (void)state;
    char folder[] = "/tmp/kaged-cage-plan-XXXXXX";
    assert_non_null(mkdtemp(folder));
    write_file(folder, "main", "#!/bin/sh\n", 0755);
    write_file(folder, "text", "x", 0644);
    kg_auto(kg_free) char *link = kg_format("%s/link", folder);
    kg_auto(kg_free) char *main_path = kg_format("%s/main", folder);
    kg_auto(kg_free) char *text_path = kg_format("%s/text", folder);
    assert_int_equal(symlink("main", link), 0);

    char head[4] = "";
    kg_auto(kg_free) char *target = cage_real_host.link(link);
    kg_auto(kg_free) char *real = cage_real_host.real(link);
    assert_string_equal(target, "main");
    assert_string_equal(real, main_path);
    assert_null(cage_real_host.link(main_path));
    assert_int_equal(cage_real_host.kind(link), CAGE_FILE_PROGRAM);
    assert_int_equal(cage_real_host.kind(text_path), CAGE_FILE_PLAIN);
    assert_int_equal(cage_real_host.kind(folder), CAGE_FILE_FOLDER);
    assert_int_equal(cage_real_host.kind("/dev/null"), CAGE_FILE_OTHER);
    assert_int_equal(cage_real_host.head(link, head, 3), 3);
    assert_string_equal(head, "#!/");

    remove_file(folder, "link");
    remove_file(folder, "main");
    remove_file(folder, "text");
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_of_a_python_plugin_is_this),
        cmocka_unit_test(folder_of_more_than_a_few_links_is_bound),
        cmocka_unit_test(certificates_come_with_a_network),
        cmocka_unit_test(relative_command_is_below_the_install_folder),
        cmocka_unit_test(command_may_not_climb_out_of_the_install_folder),
        cmocka_unit_test(link_of_the_plugin_may_lead_to_a_system_program_only),
        cmocka_unit_test(missing_program_is_named),
        cmocka_unit_test(program_that_is_not_built_is_no_matter_of_the_machine),
        cmocka_unit_test(program_must_be_executable),
        cmocka_unit_test(script_brings_its_interpreter),
        cmocka_unit_test(env_brings_the_program_that_it_runs),
        cmocka_unit_test(links_to_a_program_are_recreated),
        cmocka_unit_test(program_outside_of_the_system_folders_is_staged),
        cmocka_unit_test(scripts_that_name_each_other_end),
        cmocka_unit_test(install_folder_may_not_hold_the_system),
        cmocka_unit_test(memory_may_hold_an_install_folder_and_nothing_else_of_dev),
        cmocka_unit_test(install_folder_is_a_plain_path_without_links),
        cmocka_unit_test(an_install_folder_is_filled_from_another),
        cmocka_unit_test(environment_is_made_of_names_and_values),
        cmocka_unit_test(oversized_command_is_refused),
        cmocka_unit_test(granted_files_come_parents_first_and_before_the_install_folder),
        cmocka_unit_test(path_that_is_granted_twice_may_be_written_if_one_says_so),
        cmocka_unit_test(what_can_be_read_anyway_adds_nothing),
        cmocka_unit_test(folders_between_writable_and_read_only_are_mounts),
        cmocka_unit_test(covers_lie_over_what_may_be_written_and_nothing_else),
        cmocka_unit_test(cover_with_a_link_in_its_path_is_refused),
        cmocka_unit_test(more_folders_between_than_a_plan_holds_are_refused),
        cmocka_unit_test(part_of_the_system_is_read_only_again_below_a_writable_folder),
        cmocka_unit_test(places_of_the_system_are_refused),
        cmocka_unit_test(path_that_is_not_what_it_says_is_refused),
        cmocka_unit_test(install_folder_cannot_be_written),
        cmocka_unit_test(folders_of_kaged_are_refused_unless_kept_for_the_plugin),
        cmocka_unit_test(folders_of_root_are_not_written_for_a_root_daemon_unless_listed),
        cmocka_unit_test(more_files_than_a_plan_holds_are_refused),
        cmocka_unit_test(granted_program_comes_with_its_folder_and_what_it_runs),
        cmocka_unit_test(program_with_a_home_in_usr_lib_may_run_what_is_there),
        cmocka_unit_test(compiler_comes_with_its_helpers_that_are_there),
        cmocka_unit_test(operator_adds_folders_for_a_program),
        cmocka_unit_test(program_of_the_plugin_gets_no_support_by_its_name),
        cmocka_unit_test(program_may_lie_below_a_granted_path_and_is_not_written_there),
        cmocka_unit_test(link_below_a_granted_path_does_not_lead_out_of_it),
        cmocka_unit_test(program_that_is_run_cannot_be_written),
        cmocka_unit_test(folder_of_a_program_follows_the_rules_of_paths),
        cmocka_unit_test(program_may_work_in_a_folder_that_is_kept_for_the_plugin),
        cmocka_unit_test(words_say_what_was_granted_and_no_more),
        cmocka_unit_test(words_tell_the_network_and_a_missing_layer),
        cmocka_unit_test(joined_paths_have_no_dots),
        cmocka_unit_test(plain_paths_are_told_from_others),
        cmocka_unit_test(options_of_a_static_plugin_are_these),
        cmocka_unit_test(bwrap_makes_the_namespaces_that_were_not_made_ahead),
        cmocka_unit_test(staged_sources_are_bound_from_the_stage),
        cmocka_unit_test(orders_say_which_file_has_to_be_where),
        cmocka_unit_test(orders_of_a_static_plugin_are_these),
        cmocka_unit_test(command_line_of_bwrap_is_the_same_for_all),
        cmocka_unit_test(shim_that_goes_ahead_becomes_that_bwrap),
        cmocka_unit_test(limits_of_a_group_come_before_those_of_the_shim),
        cmocka_unit_test(encoded_plan_comes_back_the_same),
        cmocka_unit_test(cut_plan_is_refused),
        cmocka_unit_test(changed_plan_is_refused_or_read_within_bounds),
        cmocka_unit_test(hostile_fields_are_refused),
        cmocka_unit_test(real_files_are_seen_as_they_are),
    };
    return cmocka_run_group_tests_name("cage plan", tests, NULL, NULL);
}
