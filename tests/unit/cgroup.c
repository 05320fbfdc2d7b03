/*
 * Which groups are chosen, and what is written to them, on a host that is a folder: files stand for
 * those of the kernel, so a test makes beforehand what the kernel would make by itself. Real groups
 * are in tests/cage.
 */
#include "cage/cgroup.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define DAEMON_PID 4000 /* started at tick 77 */
#define GROUP_NAME "kaged-0-4000-77-1"

static char folder[64];

static char *at(const char *path)
{
    return kg_format("%s/%s", folder, path);
}

/* Writes a file of the host, and the folders above it. */
static void put(const char *path, const char *text)
{
    kg_auto(kg_free) char *full = at(path);
    kg_auto(kg_free) char *above = kg_str_dup((struct kg_str){full, strrchr(full, '/') - full});
    assert_int_equal(kg_make_dirs(above, 0755, NULL), 0);
    kg_auto(kg_close) int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_int_equal(kg_write_all(fd, text, strlen(text)), 0);
}

static void assert_holds(const char *path, const char *expected)
{
    kg_auto(kg_free) char *full = at(path);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err;
    if (kg_read_file(full, 65536, &text, &err) < 0)
        fail_msg("%s", err.message);
    assert_string_equal(kg_buf_terminate(&text), expected);
}

static bool is_there(const char *path)
{
    kg_auto(kg_free) char *full = at(path);
    return access(full, F_OK) == 0;
}

static void put_mounts(const char *format)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (const char *c = format; *c != '\0'; c++) {
        if (*c == '@')
            kg_buf_text(&text, folder);
        else
            kg_buf_char(&text, *c);
    }
    put("proc/self/mountinfo", kg_buf_terminate(&text));
}

/* A group of v2 as the kernel would show it. */
static void put_group(const char *group, const char *controllers, const char *procs)
{
    const char *const files[][2] = {{"cgroup.controllers", controllers},
                                    {"cgroup.procs", procs},
                                    {"cgroup.subtree_control", ""}};
    for (size_t i = 0; i < KG_COUNT(files); i++) {
        kg_auto(kg_free) char *path = kg_format("%s/%s", group, files[i][0]);
        put(path, files[i][1]);
    }
}

/* A host with nothing but v2, and us in /user/kaged.service. */
static void put_v2_host(const char *controllers, const char *procs)
{
    kg_auto(kg_free) char *stat = kg_format(
        "%d (ka) ged) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 77 20\n", DAEMON_PID);
    put("proc/4000/stat", stat);
    put("proc/self/cgroup", "0::/user/kaged.service\n");
    put_mounts("25 1 0:20 / /proc rw - proc proc rw\n"
               "31 23 0:28 / @/fs rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    put_group("fs", "memory pids cpu io\n", "");
    put_group("fs/user/kaged.service", controllers, procs);
}

static struct cage_cgroup_asker asker_of(bool is_root)
{
    static char proc[80];
    snprintf(proc, sizeof(proc), "%s/proc", folder);
    return (struct cage_cgroup_asker){proc, DAEMON_PID, is_root};
}

static struct cage_cgroups *find(bool is_root, bool take, struct cage_limits *ret_limits)
{
    const struct cage_cgroup_asker asker = asker_of(is_root);
    return cage_cgroups_find(&asker, take, ret_limits);
}

static void expect_none(bool is_root, const char *why)
{
    struct cage_limits limits;
    assert_null(find(is_root, true, &limits));
    assert_int_equal(limits.mode, CAGE_LIMITS_NONE);
    if (strstr(limits.words, why) == NULL)
        fail_msg("%s", limits.words);
}

/* -- which way --------------------------------------------------------------------------------- */

static void delegated_group_is_taken_and_left_for_a_leaf(void **state)
{
    (void)state;
    struct cage_limits limits;
    put_v2_host("cpu memory pids\n", "4000\n");
    put("fs/user/kaged.service/daemon/cgroup.procs", "");
    struct cage_cgroups *cgroups = find(false, true, &limits);
    assert_non_null(cgroups);
    assert_int_equal(limits.mode, CAGE_LIMITS_V2);
    kg_auto(kg_free) char *base = at("fs/user/kaged.service");
    assert_string_equal(cgroups->bases[CAGE_MEMORY], base);
    assert_string_equal(cgroups->bases[CAGE_CPU], base);
    assert_int_equal(strstr(limits.words, "cgroup v2, delegated") - limits.words, 0);
    /* A plain file keeps what it has and takes each write: the last one, in full. */
    assert_holds("fs/user/kaged.service/daemon/cgroup.procs", "4000");
    assert_holds("fs/user/kaged.service/cgroup.subtree_control", "+cpuory +pids");
    cage_cgroups_free(cgroups);
    assert_true(is_there("fs/user/kaged.service"));
}

static void looking_changes_nothing(void **state)
{
    (void)state;
    struct cage_limits limits;
    put_v2_host("cpu memory pids\n", "4000\n");
    cage_cgroups_free(find(false, false, &limits));
    assert_int_equal(limits.mode, CAGE_LIMITS_V2);
    assert_holds("fs/user/kaged.service/cgroup.subtree_control", "");
    assert_false(is_there("fs/user/kaged.service/daemon"));
}

static void group_without_a_controller_is_not_taken(void **state)
{
    (void)state;
    put_v2_host("cpu memory\n", "4000\n");
    expect_none(false, "fs/user/kaged.service has no pids controller; ");
    put_v2_host("cpu pids memory_x\n", "4000\n");
    expect_none(false, "fs/user/kaged.service has no memory controller; ");
}

static void group_that_others_are_in_is_not_taken(void **state)
{
    (void)state;
    put_v2_host("memory pids\n", "4000\n4711\n");
    expect_none(false, "is not ours alone: process 4711 is in it");
}

/* `kaged start` waits for its daemon, in the same group. */
static void another_kaged_in_the_group_is_ours(void **state)
{
    (void)state;
    struct cage_limits limits;
    put_v2_host("memory pids\n", "4000\n4711\n");
    put("proc/4711/stat", "");
    kg_auto(kg_free) char *daemon = at("proc/4000/exe");
    kg_auto(kg_free) char *waiting = at("proc/4711/exe");
    assert_int_equal(symlink("/usr/bin/kaged", daemon) | symlink("/usr/bin/kaged", waiting), 0);
    cage_cgroups_free(find(false, false, &limits));
    assert_int_equal(limits.mode, CAGE_LIMITS_V2);
}

static void group_that_is_not_ours_to_write_is_not_taken(void **state)
{
    (void)state;
    if (getuid() == 0)
        assert_int_equal(seteuid(1234), 0); /* root may write everything */
    char *const mine = folder;
    strcpy(mine, "/tmp/kaged-cgroup-XXXXXX");
    assert_non_null(mkdtemp(mine));
    put_v2_host("memory pids\n", "4000\n");
    kg_auto(kg_free) char *group = at("fs/user/kaged.service");
    assert_int_equal(chmod(group, 0555), 0);
    expect_none(false, "fs/user/kaged.service is not ours to write; ");
    assert_int_equal(chmod(group, 0755), 0);
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", mine);
    assert_int_equal(system(command), 0);
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
    prctl(PR_SET_DUMPABLE, 1); /* the change of user forbids what the leak check needs */
}

static void root_that_is_not_alone_takes_the_top(void **state)
{
    (void)state;
    struct cage_limits limits;
    put_v2_host("memory pids cpu\n", "4000\n1\n");
    put_group("fs/kaged", "memory pids cpu\n", "");
    struct cage_cgroups *cgroups = find(true, true, &limits);
    assert_non_null(cgroups);
    kg_auto(kg_free) char *base = at("fs/kaged");
    assert_string_equal(cgroups->bases[CAGE_PIDS], base);
    assert_non_null(strstr(limits.words, "process 1 is in it"));
    assert_holds("fs/cgroup.subtree_control", "+cpuory +pids");
    assert_holds("fs/kaged/cgroup.subtree_control", "+cpuory +pids");
    cage_cgroups_free(cgroups);
}

/* As on hosts where some controllers are still in hierarchies of their own. */
static void root_takes_v1_where_v2_has_no_memory(void **state)
{
    (void)state;
    struct cage_limits limits;
    put("proc/self/cgroup", "9:name=systemd:/\n8:pids:/\n4:memory:/api/x\n2:cpu,cpuacct:/\n0::/\n");
    put_mounts("41 31 0:38 / @/unified rw - cgroup2 cgroup2 rw\n"
               "35 31 0:32 /api @/mem\\040ory rw - cgroup cgroup rw,memory\n"
               "36 31 0:33 / @/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
               "39 31 0:36 / @/pids rw,relatime - cgroup cgroup rw,pids\n");
    put("unified/cgroup.controllers", "hugetlb\n");
    put("mem ory/x/cgroup.procs", "");
    put("pids/cgroup.procs", "");
    put("cpu/cgroup.procs", "");
    struct cage_cgroups *cgroups = find(true, true, &limits);
    if (cgroups == NULL)
        fail_msg("%s", limits.words);
    assert_int_equal(limits.mode, CAGE_LIMITS_V1);
    assert_true(is_there("mem ory/x/kaged") && is_there("pids/kaged") && is_there("cpu/kaged"));
    cage_cgroups_free(cgroups);
    assert_false(is_there("mem ory/x/kaged") || is_there("pids/kaged") || is_there("cpu/kaged"));
    expect_none(false, "v1 is for root only");
}

static void host_without_groups_has_none(void **state)
{
    (void)state;
    expect_none(true, "self/cgroup");
    put("proc/self/cgroup", "0::/../..\n");
    put_mounts("31 23 0:28 / @/fs rw - cgroup2 cgroup2 rw\n");
    expect_none(true, "our group /../.. is not mounted");
    put("proc/self/cgroup", "0::/x\n");
    put_mounts("31 23 0:28 /y @/fs rw - cgroup2 cgroup2 rw\n");
    expect_none(true, "our group /x is not mounted");
    put_mounts("");
    expect_none(true, "our group /x is not mounted");
    put("proc/self/cgroup", "");
    expect_none(true, "the kernel does not have it");
    put("proc/self/cgroup", "::\n0\n:");
    put_mounts("x\n - \n1 2 3 4 5 - cgroup2\n1 2 3 4 5 6 - cgroup2 x y");
    expect_none(true, "the kernel does not have it");
}

/* -- a group of v2 ----------------------------------------------------------------------------- */

static const char *const group_files[] = {"memory.max",    "memory.swap.max", "memory.oom.group",
                                          "pids.max",      "cpu.weight",      "cgroup.procs",
                                          "memory.events", "pids.events"};

static void put_group_files(const char *group)
{
    for (size_t i = 0; i < KG_COUNT(group_files); i++) {
        kg_auto(kg_free) char *path = kg_format("%s/%s", group, group_files[i]);
        put(path, "");
    }
}

static void remove_group_files(const char *group)
{
    for (size_t i = 0; i < KG_COUNT(group_files); i++) {
        kg_auto(kg_free) char *name = kg_format("%s/%s", group, group_files[i]);
        kg_auto(kg_free) char *path = at(name);
        unlink(path);
    }
}

#define SERVICE "fs/user/kaged.service"
#define GROUP   SERVICE "/" GROUP_NAME

static struct cage_cgroups *take_v2(void)
{
    struct cage_limits limits;
    const struct cage_cgroup_asker asker = asker_of(false);
    put_v2_host("cpu memory pids\n", "");
    struct cage_cgroups *cgroups = cage_cgroups_new(&asker, &limits);
    assert_non_null(cgroups);
    return cgroups;
}

static struct cage_group *make_group(struct cage_cgroups *cgroups,
                                     const struct cage_group_limits *limits)
{
    struct kg_err err = {0};
    put_group_files(GROUP);
    cgroups->made = 0;
    struct cage_group *group = cage_group_new(cgroups, &err);
    if (group == NULL || cage_group_limit(group, limits, &err) < 0)
        fail_msg("%s", err.message);
    cage_group_share(group, limits->cpu_shares);
    return group;
}

static void end_group(struct cage_cgroups *cgroups, struct cage_group *group)
{
    remove_group_files(GROUP);
    cage_group_end(cgroups, group);
    assert_false(is_there(GROUP));
}

static void group_gets_its_settings(void **state)
{
    (void)state;
    struct cage_cgroups *cgroups = take_v2();
    const struct cage_group_limits limits = {536870912, 102, 256};
    struct cage_group *group = make_group(cgroups, &limits);
    assert_holds(GROUP "/memory.max", "536870912");
    assert_holds(GROUP "/memory.swap.max", "0");
    assert_holds(GROUP "/memory.oom.group", "1");
    assert_holds(GROUP "/pids.max", "102");
    assert_holds(GROUP "/cpu.weight", "25");
    end_group(cgroups, group);
    cage_cgroups_free(cgroups);
}

static void weight_stays_in_the_kernels_bounds(void **state)
{
    (void)state;
    static const struct {
        unsigned shares;
        const char *weight;
    } rows[] = {{2, "1"}, {1024, "100"}, {262144, "10000"}, {0, ""}};
    struct cage_cgroups *cgroups = take_v2();
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        const struct cage_group_limits limits = {0, 10, rows[i].shares};
        struct cage_group *group = make_group(cgroups, &limits);
        assert_holds(GROUP "/cpu.weight", rows[i].weight);
        assert_holds(GROUP "/memory.max", "");
        end_group(cgroups, group);
    }
    cage_cgroups_free(cgroups);
}

static void group_without_its_limit_is_refused(void **state)
{
    (void)state;
    struct cage_cgroups *cgroups = take_v2();
    const struct cage_group_limits limits = {1048576, 10, 256};
    struct kg_err err = {0};
    put(GROUP "/cgroup.procs", "");
    struct cage_group *group = cage_group_new(cgroups, &err);
    assert_non_null(group);
    assert_true(cage_group_limit(group, &limits, &err) < 0);
    assert_non_null(strstr(err.message, GROUP_NAME "/memory.max: No such file"));
    remove_group_files(GROUP);
    cage_group_end(cgroups, group);
    assert_false(is_there(GROUP));
    cage_cgroups_free(cgroups);
}

static void counts_are_read_and_told_once(void **state)
{
    (void)state;
    struct cage_cgroups *cgroups = take_v2();
    const struct cage_group_limits limits = {1048576, 10, 256};
    struct cage_group *group = make_group(cgroups, &limits);
    struct pollfd polls[CAGE_GROUP_POLLS];
    uint32_t counts[2] = {9, 9};
    cage_group_polls(group, polls);
    assert_true(polls[0].fd >= 0 && polls[1].fd >= 0 && polls[0].events == POLLPRI);
    assert_int_equal(cage_group_wait_ms(group, 5000), -1);
    put(GROUP "/memory.events", "low 0\nhigh 0\nmax 31\noom 2\noom_kill 3\noom_group_kill 1\n");
    put(GROUP "/pids.events", "max 5\n");
    assert_int_equal(cage_group_look(group, polls, 5000, counts), 0); /* nothing was announced */
    polls[0].revents = POLLPRI;
    assert_int_equal(cage_group_look(group, polls, 5000, counts), 3);
    assert_int_equal(counts[CAGE_LIMIT_MEMORY], 3);
    assert_int_equal(counts[CAGE_LIMIT_PROCESSES], 5);
    /* The next news waits until a second has passed, and nobody is woken before. */
    put(GROUP "/pids.events", "max 5000000000\n");
    assert_int_equal(cage_group_look(group, polls, 5100, counts), 0);
    assert_int_equal(cage_group_wait_ms(group, 5100), 900);
    cage_group_polls(group, polls);
    assert_int_equal(polls[0].fd, -1);
    assert_int_equal(cage_group_look(group, polls, 6000, counts), 1 << CAGE_LIMIT_PROCESSES);
    assert_int_equal(counts[CAGE_LIMIT_PROCESSES], UINT32_MAX);
    assert_int_equal(cage_group_wait_ms(group, 6000), -1);
    end_group(cgroups, group);
    cage_cgroups_free(cgroups);
}

static void start_sweeps_what_a_dead_daemon_left(void **state)
{
    (void)state;
    struct cage_limits limits;
    const struct cage_cgroup_asker asker = asker_of(false);
    put_v2_host("memory pids\n", "");
    static const struct {
        const char *name;
        bool stays;
    } rows[] = {
        {"kaged-0-4000-77-5", true},  /* the daemon lives: ours */
        {"kaged-0-4000-76-5", false}, /* an older one with its pid */
        {"kaged-0-4001-77-5", false}, /* nobody */
        {"kaged-8-4001-77-5", true},  /* a pid of another namespace */
        {"kaged-0-4001-77-5x", true}, {"kaged-0-4001-77", true}, {"other", true},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *name = kg_format(SERVICE "/%s", rows[i].name);
        kg_auto(kg_free) char *path = at(name);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    cage_cgroups_free(cage_cgroups_new(&asker, &limits));
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(kg_free) char *name = kg_format(SERVICE "/%s", rows[i].name);
        if (is_there(name) != rows[i].stays)
            fail_msg("%s", name);
    }
}

/* -- the suite --------------------------------------------------------------------------------- */

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/kaged-cgroup-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", folder);
    return system(command);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(delegated_group_is_taken_and_left_for_a_leaf),
        TEST(looking_changes_nothing),
        TEST(group_without_a_controller_is_not_taken),
        TEST(group_that_others_are_in_is_not_taken),
        TEST(another_kaged_in_the_group_is_ours),
        TEST(group_that_is_not_ours_to_write_is_not_taken),
        TEST(root_that_is_not_alone_takes_the_top),
        TEST(root_takes_v1_where_v2_has_no_memory),
        TEST(host_without_groups_has_none),
        TEST(group_gets_its_settings),
        TEST(weight_stays_in_the_kernels_bounds),
        TEST(group_without_its_limit_is_refused),
        TEST(counts_are_read_and_told_once),
        TEST(start_sweeps_what_a_dead_daemon_left),
    };
    return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
