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
    {"/lib", CAGE_FILE_FOLDER, "usr/lib", NULL},
    {"/lib64", CAGE_FILE_FOLDER, "usr/lib64", NULL},
    {"/bin", CAGE_FILE_FOLDER, "usr/bin", NULL},
    {"/usr/bin", CAGE_FILE_FOLDER, NULL, NULL},
    {"/usr/local/bin", CAGE_FILE_FOLDER, NULL, NULL},
    {"/etc/ld.so.cache", CAGE_FILE_PLAIN, NULL, NULL},
    {"/usr/share/zoneinfo", CAGE_FILE_FOLDER, NULL, NULL},
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
};

static const struct row *find_row(const char *path)
{
    for (size_t i = 0; i < KG_COUNT(debian); i++)
        if (strcmp(debian[i].path, path) == 0)
            return &debian[i];
    return NULL;
}

/* One link on the way replaced by what it says, or NULL. */
static char *step_through_link(const char *path)
{
    for (size_t i = 0; i < KG_COUNT(debian); i++) {
        if (debian[i].link == NULL || !cage_path_within(path, debian[i].path))
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
    return !cage_path_within(path, "/home");
}

static const struct cage_host table_host = {table_kind, table_link, table_real, table_head,
                                            table_is_roots};

static struct cage_facts facts = {
    .bwrap = "/usr/bin/bwrap", .shim = "/k/init", .bind_fd = true, .host = &table_host};

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

static struct cage_plan *plan_of(const char *const *command)
{
    struct cage_policy policy = policy_of(command);
    struct kg_err err = {0};
    struct cage_plan *plan = cage_plan_new(&policy, &facts, &err);
    if (plan == NULL)
        fail_msg("%s", err.message);
    return plan;
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
                        "system /usr/lib64\n"
                        "link /lib -> usr/lib\n"
                        "link /lib64 -> usr/lib64\n"
                        "system /etc/ld.so.cache\n"
                        "system /usr/share/zoneinfo\n"
                        "link /etc/localtime -> /usr/share/zoneinfo/Etc/UTC\n"
                        "link /bin -> usr/bin\n"
                        "link /usr/bin/python3 -> python3.11\n"
                        "system /usr/bin/python3.11\n"
                        "proc /proc\n"
                        "system /proc/sys\n"
                        "tmpfs /proc/1 4096 bytes\n"
                        "read-only /proc/1\n"
                        "dev /dev\n"
                        "tmpfs /dev/shm 1048576 bytes\n"
                        "tmpfs /tmp 1048576 bytes\n"
                        "bind /.kaged/init from /k/init\n"
                        "bind /p/git\n"
                        "read-only /dev\n"
                        "read-only /\n"
                        "folder /p/git\n"
                        "processes 64\n"
                        "env PATH\n"
                        "env SECRET\n"
                        "command /usr/bin/python3 main.py\n");
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
    assert_string_equal(err.message, "plugin git: program deno is not on this machine");
    assert_non_null(strstr(err.hint, "/usr/local/bin"));
    expect_refused(policy_of(COMMAND("./none.rb")),
                   "plugin git: program /usr/bin/ruby is not on this machine");
    expect_refused(policy_of(COMMAND("env", "deno", "x")),
                   "plugin git: program deno is not on this machine");
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

static void install_folder_is_a_plain_path_without_links(void **state)
{
    (void)state;
    struct cage_policy policy = policy_of(COMMAND("bash"));
    policy.install_dir = "/p/git/../git";
    expect_refused(policy, "plugin git: install folder /p/git/../git is not a plain absolute path");
    policy.install_dir = "/p/linked";
    expect_refused(policy, "plugin git: install folder /p/linked has a link in its path");
    policy.install_dir = "/p/none";
    expect_refused(policy, "plugin git: install folder /p/none is not there");
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
    const char *staged[64] = {NULL};
    kg_auto(kg_buf_free) struct kg_buf options = {0};
    cage_argv_options(plan, staged, &options);
    join_words(&options);
    assert_string_equal(
        options.data,
        "--unshare-all --unshare-user --disable-userns --new-session --die-with-parent "
        "--cap-drop ALL --hostname kaged --clearenv "
        "--json-status-fd 4 --add-seccomp-fd 5 --add-seccomp-fd 6 "
        "--ro-bind /usr/lib /usr/lib --ro-bind /usr/lib64 /usr/lib64 --symlink usr/lib /lib "
        "--symlink usr/lib64 /lib64 --ro-bind /etc/ld.so.cache /etc/ld.so.cache "
        "--ro-bind /usr/share/zoneinfo /usr/share/zoneinfo "
        "--symlink /usr/share/zoneinfo/Etc/UTC /etc/localtime --symlink usr/bin /bin "
        "--proc /proc --ro-bind /proc/sys /proc/sys "
        "--size 4096 --tmpfs /proc/1 --remount-ro /proc/1 "
        "--dev /dev --size 1048576 --tmpfs /dev/shm --size 1048576 --tmpfs /tmp "
        "--ro-bind-fd 10 /.kaged/init --ro-bind-fd 11 /p/git "
        "--remount-ro /dev --remount-ro / --chdir /p/git "
        "--setenv PATH /usr/bin --setenv SECRET a=b ");
}

static void staged_sources_are_bound_by_path(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("./run"));
    const char *staged[64];
    for (size_t i = 0; i < KG_COUNT(staged); i++)
        staged[i] = "/stage/1";
    kg_auto(kg_buf_free) struct kg_buf options = {0};
    cage_argv_options(plan, staged, &options);
    join_words(&options);
    assert_non_null(strstr(options.data, "--ro-bind /stage/1 /p/git "));
    assert_null(strstr(options.data, "-fd 8"));
}

static void command_line_shows_nothing_of_the_host(void **state)
{
    (void)state;
    kg_auto(free_plan) struct cage_plan *plan = plan_of(COMMAND("./run", "--flag"));
    struct cage_words words = {0};
    cage_argv_command(plan, &words);
    static const char *const expected[] = {"bwrap", "--args", "3", "--", CAGE_INIT_PATH, "65",
                                           "7",     "8",      "9", "--", "/p/git/run",   "--flag"};
    assert_int_equal(words.count, KG_COUNT(expected));
    for (size_t i = 0; i < words.count; i++)
        assert_string_equal(words.items[i], expected[i]);
    cage_words_free(&words);
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
    kg_auto(kg_free) char *exact = malloc(length + (length == 0));
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

#define HEAD          "kaged-plan-1\0git\0/usr/bin/bwrap\0/p/git\0001\00064\0"
#define TAIL          "1\0/run\0000\0"
#define LITERAL(text) text, sizeof(text) - 1

static void hostile_fields_are_refused(void **state)
{
    (void)state;
    assert_true(decodes(LITERAL(HEAD "1\0002\0/a\0b\0000\0" TAIL)));
    static const struct {
        const char *data;
        size_t length;
    } rows[] = {
        {LITERAL(HEAD "1\0007\0/a\0b\0000\0" TAIL)},                  /* no such step */
        {LITERAL(HEAD "1\0-1\0/a\0b\0000\0" TAIL)},                   /* a negative kind */
        {LITERAL(HEAD "1\0002\0a\0b\0000\0" TAIL)},                   /* a relative path */
        {LITERAL(HEAD "1\0002\0/a/../b\0b\0000\0" TAIL)},             /* a path that climbs */
        {LITERAL(HEAD "1\0000\0/a\0--bind\0000\0" TAIL)},             /* an option as a source */
        {LITERAL(HEAD "1\0003\0/a\0\0000\0" TAIL)},                   /* a tmpfs without a size */
        {LITERAL(HEAD "1\0003\0/a\0b\0001\0" TAIL)},                  /* a tmpfs with a source */
        {LITERAL(HEAD "1\0002\0/a\0\0000\0" TAIL)},                   /* a link to nowhere */
        {LITERAL(HEAD "99999999999999999999\0" TAIL)},                /* past int64 */
        {LITERAL(HEAD "513\0" TAIL)},                                 /* too many steps */
        {LITERAL(HEAD "0\0000\0000\0")},                              /* no command */
        {LITERAL(HEAD "0\0001\0/run\0001\0NAME\0")},                  /* not NAME=value */
        {LITERAL("kaged-plan-2\0git\0/b\0/p\0001\0001\0000\0" TAIL)}, /* another version */
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_false(decodes(rows[i].data, rows[i].length));
}

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
        cmocka_unit_test(relative_command_is_below_the_install_folder),
        cmocka_unit_test(command_may_not_climb_out_of_the_install_folder),
        cmocka_unit_test(link_of_the_plugin_may_lead_to_a_system_program_only),
        cmocka_unit_test(missing_program_is_named),
        cmocka_unit_test(program_must_be_executable),
        cmocka_unit_test(script_brings_its_interpreter),
        cmocka_unit_test(env_brings_the_program_that_it_runs),
        cmocka_unit_test(links_to_a_program_are_recreated),
        cmocka_unit_test(program_outside_of_the_system_folders_is_staged),
        cmocka_unit_test(scripts_that_name_each_other_end),
        cmocka_unit_test(install_folder_may_not_hold_the_system),
        cmocka_unit_test(install_folder_is_a_plain_path_without_links),
        cmocka_unit_test(environment_is_made_of_names_and_values),
        cmocka_unit_test(oversized_command_is_refused),
        cmocka_unit_test(joined_paths_have_no_dots),
        cmocka_unit_test(plain_paths_are_told_from_others),
        cmocka_unit_test(options_of_a_static_plugin_are_these),
        cmocka_unit_test(staged_sources_are_bound_by_path),
        cmocka_unit_test(command_line_shows_nothing_of_the_host),
        cmocka_unit_test(encoded_plan_comes_back_the_same),
        cmocka_unit_test(cut_plan_is_refused),
        cmocka_unit_test(changed_plan_is_refused_or_read_within_bounds),
        cmocka_unit_test(hostile_fields_are_refused),
        cmocka_unit_test(real_files_are_seen_as_they_are),
    };
    return cmocka_run_group_tests_name("cage plan", tests, NULL, NULL);
}
