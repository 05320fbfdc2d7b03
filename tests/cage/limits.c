/*
 * What a cage may use of the machine, shown by programs that want more. As root the kernel's groups
 * hold them down; all of it runs a second time as an ordinary user, who mostly has none, and then
 * it is the limits of single processes that do. The rest of this file is about the groups
 * themselves.
 */
#include "cage/cgroup.h"
#include "cage/internal.h"
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB    ((uint64_t)1024 * 1024)
#define MEMORY (64 * MIB)
#define SHARES 512

static struct world *world;
static enum cage_limits_mode mode;

static struct run *start(const char *const *command)
{
    struct cage_plan *plan = world_plan(world, command);
    plan->memory_bytes = MEMORY;
    plan->cpu_shares = SHARES;
    struct run *run = run_plan(world, plan);
    cage_plan_free(plan);
    return run;
}

static void end(struct run *run)
{
    if (run->child != NULL)
        cage_signal(run->child, SIGKILL);
    run_wait_exit(run);
    run_free(&run);
}

/* True, with a word about it, if a test is about groups and there are none here. */
static bool has_no_groups(const char *test)
{
    if (mode != CAGE_LIMITS_NONE)
        return false;
    const char *ci = getenv("CI");
    if (geteuid() == 0 && ci != NULL && strcmp(ci, "true") == 0)
        fail_msg("%s", cage_spawner_limits(world->spawner)->words);
    printf("SKIP %s: %s\n", test, cage_spawner_limits(world->spawner)->words);
    return true;
}

/* -- what a plugin meets ----------------------------------------------------------------------- */

static void memory_below_the_limit_is_there(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = start(COMMAND("./probe", "hog", "40"));
    assert_string_equal(run_line(run), "ok");
    assert_int_equal(run->how.memory_kills, 0);
}

/* A group ends what is past its limit; without one the allocation fails, and the program goes on.
 */
static void memory_past_the_limit_is_not(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = start(COMMAND("./probe", "hog", "200"));
    run_wait_exit(run);
    assert_true(run->how.built);
    if (mode == CAGE_LIMITS_NONE) {
        assert_string_equal(kg_buf_terminate(&run->out), "ENOMEM\n");
        assert_int_equal(run->how.exit_code, 0);
    } else {
        assert_int_equal(run->how.signal, SIGKILL);
        assert_true(run->how.memory_kills > 0);
    }
}

static void fork_bomb_gets_its_number_and_no_more(void **state)
{
    (void)state;
    struct run *run = start(COMMAND("./probe", "fork-bomb"));
    assert_string_equal(run_line(run), "23 EAGAIN");
    assert_true(mode == CAGE_LIMITS_NONE || run->how.fork_refusals > 0);
    run_free(&run);
    run = start(COMMAND("./probe", "hello"));
    assert_string_equal(run_line(run), "hello");
    assert_int_equal(run->how.fork_refusals, 0);
    run_free(&run);
}

static void threads_count_as_processes(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = start(COMMAND("./probe", "thread-bomb"));
    assert_string_equal(run_line(run), "23 EAGAIN");
}

static void node_starts_within_the_limit(void **state)
{
    (void)state;
    if (access("/usr/bin/node", X_OK) < 0) {
        printf("SKIP node_starts_within_the_limit: node is not installed\n");
        return;
    }
    struct cage_plan *plan = world_plan(world, COMMAND("node", "-p", "1+1"));
    plan->memory_bytes = 512 * MIB;
    kg_auto(run_free) struct run *run = run_plan(world, plan);
    cage_plan_free(plan);
    assert_string_equal(run_line(run), "2");
}

/* -- what the daemon hears while it runs ------------------------------------------------------- */

static bool is_memory_told(void *data)
{
    return ((struct run *)data)->limits[CAGE_LIMIT_MEMORY] > 0;
}

/* The word of the kernel and that of the plugin come on different ways. */
static bool is_memory_told_by_both(void *data)
{
    return is_memory_told(data) && ((struct run *)data)->out.length > 0;
}

static bool are_processes_told(void *data)
{
    return ((struct run *)data)->limits[CAGE_LIMIT_PROCESSES] > 0;
}

/* v2 ends the whole cage; in v1 the plugin outlives its child. */
static void killed_child_is_told_of_while_the_plugin_lives(void **state)
{
    (void)state;
    if (has_no_groups(__func__))
        return;
    struct run *run = start(COMMAND("./probe", "hog-in-child", "200"));
    if (mode == CAGE_LIMITS_V1) {
        assert_true(loop_run_until(world->loop, is_memory_told_by_both, run, WORLD_WAIT_MS));
        assert_false(run->exited);
        assert_string_equal(kg_buf_terminate(&run->out), "signal 9\n");
    } else {
        run_wait_exit(run);
        assert_true(run->how.memory_kills > 0);
    }
    end(run);
}

static void refused_forks_are_told_of_while_the_plugin_lives(void **state)
{
    (void)state;
    if (has_no_groups(__func__))
        return;
    struct run *run = start(COMMAND("./probe", "bomb-and-live-on"));
    assert_true(loop_run_until(world->loop, are_processes_told, run, WORLD_WAIT_MS));
    assert_false(run->exited);
    end(run);
}

/* A thread's children are not among those of its process: the sum must find them all the same. */
static void memory_of_every_process_of_the_cage_is_summed(void **state)
{
    (void)state;
    struct run *run = start(COMMAND("./probe", "hog-in-child-of-thread", "30"));
    run_wait_line(run);
    uint64_t bytes = cage_child_memory(run->child);
    assert_true(bytes > 30 * MIB && bytes < 200 * MIB);
    end(run);
}

/* -- the groups -------------------------------------------------------------------------------- */

/* The folder of a run's own group, where the kernel's groups usually are. Owned. */
static char *group_of(struct run *run, const char *controller)
{
    kg_auto(kg_free) char *path = kg_format("/proc/%d/cgroup", cage_child_pid(run->child));
    kg_auto(kg_free) char *mark = kg_format(":%s:", mode == CAGE_LIMITS_V1 ? controller : "");
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    assert_int_equal(kg_read_file(path, 65536, &text, NULL), 0);
    char *group = strstr(kg_buf_terminate(&text), mark);
    assert_non_null(group);
    group += strlen(mark);
    group[strcspn(group, "\n")] = '\0';
    if (strstr(group, "/kaged-") == NULL)
        fail_msg("the plugin is in %s", group);
    return kg_format("/sys/fs/cgroup/%s%s", mode == CAGE_LIMITS_V1 ? controller : "", group);
}

/* A delegated group is taken once: in this program, the next spawner finds itself in the leaf. */
static bool is_delegated(const char *test)
{
    if (has_no_groups(test))
        return true;
    if (strstr(cage_spawner_limits(world->spawner)->words, "delegated, in") == NULL)
        return false;
    printf("SKIP %s: the group is delegated, and this test is in its leaf\n", test);
    return true;
}

static void assert_setting(const char *folder, const char *file, const char *expected)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", folder, file);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_err err;
    if (kg_read_file(path, 4096, &text, &err) < 0)
        fail_msg("%s", err.message);
    assert_string_equal(kg_buf_terminate(&text), expected);
}

/* Processor time is shared out once the cage stands, which the spawner hears of a little later. */
static void wait_for_share(const char *folder, const char *file, const char *expected)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", folder, file);
    for (unsigned i = 0; i < WORLD_WAIT_MS; i++) {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        if (kg_read_file(path, 4096, &text, NULL) == 0 && kg_str_is(kg_buf_view(&text), expected))
            return;
        usleep(1000);
    }
    assert_setting(folder, file, expected);
}

static void wait_gone(const char *path)
{
    for (unsigned i = 0; i < WORLD_WAIT_MS && access(path, F_OK) == 0; i++)
        usleep(1000);
    assert_int_equal(access(path, F_OK), -1);
}

static void group_has_its_settings_and_goes_with_the_cage(void **state)
{
    (void)state;
    if (has_no_groups(__func__))
        return;
    struct run *run = start(COMMAND("./probe", "wait-forever"));
    run_wait_line(run);
    kg_auto(kg_free) char *memory = group_of(run, "memory");
    kg_auto(kg_free) char *pids = group_of(run, "pids");
    kg_auto(kg_free) char *cpu = group_of(run, "cpu");
    bool v1 = mode == CAGE_LIMITS_V1;
    assert_setting(memory, v1 ? "memory.limit_in_bytes" : "memory.max", "67108864\n");
    assert_setting(pids, "pids.max", "26\n"); /* 24, the monitor and the reaper */
    if (strstr(cage_spawner_limits(world->spawner)->words, "processor time") != NULL)
        wait_for_share(cpu, v1 ? "cpu.shares" : "cpu.weight", v1 ? "512\n" : "50\n");
    end(run);
    wait_gone(memory);
    wait_gone(pids);
}

/*
 * A process of its own, in a group that a daemon with this pid and start would have made. 0 if
 * another test's spawner swept it already.
 */
static pid_t fill_group(const char *folder)
{
    kg_auto(kg_free) char *procs = kg_format("%s/cgroup.procs", folder);
    assert_int_equal(mkdir(folder, 0755), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(procs, O_WRONLY | O_CLOEXEC);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (kg_write_all(fd, "0", 1) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    bool is_in = false;
    for (unsigned i = 0; i < WORLD_WAIT_MS && !is_in; i++) {
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        usleep(1000);
        int result = kg_read_file(procs, 4096, &text, NULL);
        if (result == -ENOENT || result == -ENODEV) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            return 0;
        }
        assert_int_equal(result, 0);
        is_in = text.length > 0;
    }
    assert_true(is_in);
    return pid;
}

static pid_t fill_group_of_the_dead(const char *folder)
{
    pid_t pid = 0;
    for (unsigned i = 0; i < 100 && pid == 0; i++)
        pid = fill_group(folder);
    assert_int_not_equal(pid, 0);
    return pid;
}

static void sweep_takes_groups_of_the_dead_and_no_others(void **state)
{
    (void)state;
    if (is_delegated(__func__))
        return;
    struct stat space;
    assert_int_equal(stat("/proc/self/ns/pid", &space), 0);
    const struct cage_cgroup_asker asker = {"/proc", getpid(), geteuid() == 0};
    struct cage_limits limits;
    struct cage_cgroups *cgroups = cage_cgroups_new(&asker, &limits);
    const char *base = cgroups->bases[CAGE_PIDS];
    /* Pid 1 lives, but did not start at tick 99; ours did, and is in the prefix. */
    kg_auto(kg_free) char *dead = kg_format("%s/kaged-%lu-1-99-1", base, (long)space.st_ino);
    kg_auto(kg_free) char *alive = kg_format("%s/%s99", base, cgroups->prefix);
    kg_auto(kg_free) char *elsewhere = kg_format("%s/kaged-77-1-99-1", base);
    kg_auto(kg_free) char *other = kg_format("%s/kaged-notes", base);
    pid_t killed = fill_group_of_the_dead(dead), spared = fill_group(alive);
    assert_int_equal(mkdir(elsewhere, 0755) | mkdir(other, 0755), 0);
    struct cage_cgroups *next = cage_cgroups_new(&asker, &limits);
    assert_int_equal(access(dead, F_OK), -1);
    assert_int_equal(waitpid(killed, NULL, 0), killed);
    assert_int_equal(waitpid(spared, NULL, WNOHANG), 0);
    kill(spared, SIGKILL);
    waitpid(spared, NULL, 0);
    assert_int_equal(rmdir(alive) | rmdir(elsewhere) | rmdir(other), 0);
    cage_cgroups_free(next);
    cage_cgroups_free(cgroups);
}

/* The daemon is killed and takes its cages with it; their empty groups wait for the next one. */
static void next_daemon_removes_what_a_killed_one_left(void **state)
{
    (void)state;
    if (is_delegated(__func__))
        return;
    int ends[2];
    char folder[512] = "";
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t daemon = world_fork();
    if (daemon == 0) {
        world = world_new();
        struct run *run = start(COMMAND("./probe", "wait-forever"));
        run_wait_line(run);
        kg_auto(kg_free) char *group = group_of(run, "pids");
        kg_auto(kg_free) char *rm = kg_format("rm -rf %s", world->folder);
        (void)!system(rm);
        snprintf(folder, sizeof(folder), "%s", group);
        (void)!write(ends[1], folder, sizeof(folder));
        for (;;)
            pause();
    }
    close(ends[1]);
    world_read(ends[0], folder, sizeof(folder));
    assert_int_equal(access(folder, F_OK), 0);
    pid_t spawner = cage_first_child(daemon);
    kill(spawner, SIGKILL); /* first, so that it cannot tidy up */
    kill(daemon, SIGKILL);
    waitpid(daemon, NULL, 0);
    struct world *next = world_new();
    assert_int_equal(access(folder, F_OK), -1);
    world_free(next);
    close(ends[0]);
}

/* -- the spawner's own limits ------------------------------------------------------------------ */

#define FEW_FILES 60
#define MANY      20

static bool is_answered(void *data)
{
    const struct run *run = data;
    return run->spawned || run->exited;
}

/* The kernel refuses to poll for more entries than a process may have files: it was deaf then. */
static void spawner_with_few_files_refuses_cages_and_goes_on(void **state)
{
    (void)state;
    struct world *other = world_new();
    size_t children;
    kg_auto(kg_free) pid_t *pids = cage_children_of(getpid(), &children);
    const struct rlimit few = {FEW_FILES, FEW_FILES};
    assert_int_equal(prlimit(pids[children - 1], RLIMIT_NOFILE, &few, NULL), 0);
    struct run *runs[MANY];
    size_t refused = 0;
    for (size_t i = 0; i < MANY; i++) {
        runs[i] = run_start(other, COMMAND("./probe", "wait-forever"));
        assert_true(loop_run_until(other->loop, is_answered, runs[i], WORLD_WAIT_MS));
        refused += runs[i]->exited;
    }
    assert_in_range(refused, 1, MANY - 1);
    for (size_t i = 0; i < MANY; i++)
        end(runs[i]);
    struct run *run = run_start(other, COMMAND("./probe", "hello"));
    assert_string_equal(run_line(run), "hello");
    run_free(&run);
    world_free(other);
}

/* -- all of it again as somebody else ---------------------------------------------------------- */

static void limits_hold_for_an_ordinary_user_too(void **state)
{
    (void)state;
    world_again_as_ordinary_user();
}

static void all_of_it_holds_while_it_is_watched(void **state)
{
    (void)state;
    world_again_watched();
}

/* -- the suite --------------------------------------------------------------------------------- */

static int make_world(void **state)
{
    (void)state;
    world = world_new();
    mode = cage_spawner_limits(world->spawner)->mode;
    printf("# limits: %s\n", cage_spawner_limits(world->spawner)->words);
    return 0;
}

static int free_world(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_below_the_limit_is_there),
        cmocka_unit_test(memory_past_the_limit_is_not),
        cmocka_unit_test(fork_bomb_gets_its_number_and_no_more),
        cmocka_unit_test(threads_count_as_processes),
        cmocka_unit_test(node_starts_within_the_limit),
        cmocka_unit_test(killed_child_is_told_of_while_the_plugin_lives),
        cmocka_unit_test(refused_forks_are_told_of_while_the_plugin_lives),
        cmocka_unit_test(memory_of_every_process_of_the_cage_is_summed),
        cmocka_unit_test(group_has_its_settings_and_goes_with_the_cage),
        cmocka_unit_test(sweep_takes_groups_of_the_dead_and_no_others),
        cmocka_unit_test(next_daemon_removes_what_a_killed_one_left),
        cmocka_unit_test(spawner_with_few_files_refuses_cages_and_goes_on),
        cmocka_unit_test(limits_hold_for_an_ordinary_user_too),
        cmocka_unit_test(all_of_it_holds_while_it_is_watched),
    };
    return cmocka_run_group_tests_name("cage limits", tests, make_world, free_world);
}
