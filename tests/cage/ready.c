/*
 * The bwrap that waits for the next cage: it is used once, it is not needed, and nothing is left of
 * it. Started by root, all of it runs a second time as an ordinary user.
 */
#include "world.h"

#include "cage/internal.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PAUSE_US       5000
#define PROC_MAX_BYTES 65536

static struct world *world;

static int make_world(void **state)
{
    (void)state;
    world = world_new();
    return 0;
}

static int free_world(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

static pid_t find_spawner(void)
{
    pid_t spawner = cage_first_child(getpid());
    assert_true(spawner > 0);
    return spawner;
}

static void say_hello(void)
{
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "hello"));
    assert_string_equal(run_line(run), "hello");
}

/* No cage is running, so that the only child of the spawner is the one that waits. */
static pid_t wait_for_child(void)
{
    uint64_t deadline_ms = kg_monotonic_ms() + WORLD_WAIT_MS;
    pid_t ready = 0;
    while ((ready = cage_first_child(find_spawner())) == 0 && kg_monotonic_ms() < deadline_ms)
        usleep(PAUSE_US);
    assert_true(ready > 0);
    return ready;
}

static pid_t wait_for_ready(void)
{
    say_hello();
    return wait_for_child();
}

static void wait_until_gone(pid_t pid)
{
    uint64_t deadline_ms = kg_monotonic_ms() + WORLD_WAIT_MS;
    while (kill(pid, 0) == 0 && kg_monotonic_ms() < deadline_ms)
        usleep(PAUSE_US);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void next_cage_is_built_by_the_one_that_waits(void **state)
{
    (void)state;
    pid_t ready = wait_for_ready();
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "hello"));
    assert_string_equal(run_line(run), "hello");
    assert_int_equal(run->bwrap, ready);
}

static void read_proc(pid_t pid, const char *name, struct kg_buf *text)
{
    kg_auto(kg_free) char *path = kg_format("/proc/%d/%s", (int)pid, name);
    struct kg_err err = {0};
    if (kg_read_file(path, PROC_MAX_BYTES, text, &err) < 0)
        fail_msg("%s", err.message);
}

static void assert_says(const struct kg_buf *status, const char *line)
{
    if (memmem(status->data, status->length, line, strlen(line)) == NULL)
        fail_msg("no \"%s\" in: %.*s", line, (int)status->length, status->data);
}

/* But for the two that are the C library's own, 32 and 33, which it lets nobody change. */
static void assert_no_signal_is_ignored(const struct kg_buf *status)
{
    static const char key[] = "\nSigIgn:\t";
    const char *found = memmem(status->data, status->length, key, sizeof(key) - 1);
    assert_non_null(found);
    assert_int_equal(strtoull(found + sizeof(key) - 1, NULL, 16) & ~0x180000000ull, 0);
}

/* Until its exec it is us, or what goes ahead. */
static bool is_bwrap(pid_t pid)
{
    static const char line[] = "bwrap\0--args";
    kg_auto(kg_free) char *path = kg_format("/proc/%d/cmdline", (int)pid);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    return kg_read_file(path, PROC_MAX_BYTES, &text, NULL) == 0 && text.length >= sizeof(line) &&
           memcmp(text.data, line, sizeof(line)) == 0;
}

static pid_t wait_for_bwrap(void)
{
    uint64_t deadline_ms = kg_monotonic_ms() + WORLD_WAIT_MS;
    pid_t ready = wait_for_ready();
    for (; !is_bwrap(ready); ready = wait_for_child()) {
        assert_true(kg_monotonic_ms() < deadline_ms);
        usleep(PAUSE_US);
    }
    return ready;
}

static ino_t namespace_of(pid_t pid, const char *kind)
{
    kg_auto(kg_free) char *path = kg_format("/proc/%d/ns/%s", (int)pid, kind);
    struct stat status;
    if (stat(path, &status) < 0)
        fail_msg("%s: %s", path, strerror(errno));
    return status.st_ino;
}

static void one_that_waits_is_in_namespaces_of_its_own(void **state)
{
    (void)state;
    static const char *const kinds[] = {"user", "net", "ipc", "uts", "cgroup"};
    ino_t made[KG_COUNT(kinds)];
    pid_t ready = wait_for_bwrap();
    for (size_t i = 0; i < KG_COUNT(kinds); i++) {
        made[i] = namespace_of(ready, kinds[i]);
        assert_int_not_equal(made[i], namespace_of(getpid(), kinds[i]));
    }
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "wait-forever"));
    run_wait_line(run);
    pid_t plugin = cage_child_pid(run->child);
    for (size_t i = 0; i < KG_COUNT(kinds); i++) {
        bool is_bwraps = strcmp(kinds[i], "user") == 0;
        assert_int_equal(namespace_of(plugin, kinds[i]) == made[i], !is_bwraps);
    }
    cage_signal(run->child, SIGKILL);
    run_wait_exit(run);
}

/* An ordinary user may take nothing away of what he was given to see. */
static void one_of_roots_has_only_the_mounts_that_it_needs(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf mounts = {0};
    if (geteuid() != 0)
        return;
    read_proc(wait_for_ready(), "mountinfo", &mounts);
    assert_says(&mounts, " /proc ");
    assert_null(memmem(mounts.data, mounts.length, " /sys ", 6));
}

/* From now on only bwrap, which clones, can make a network. */
static void refuse_to_unshare_networks(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWNET, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = KG_COUNT(filter), .filter = filter};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* After the first try another one waits, and leaves them to bwrap. */
static void where_only_bwrap_may_make_namespaces_it_does(void **state)
{
    (void)state;
    int status = 0;
    pid_t pid = world_fork();
    if (pid == 0) {
        refuse_to_unshare_networks();
        world = world_new();
        pid_t ready = wait_for_bwrap();
        assert_int_equal(namespace_of(ready, "net"), namespace_of(getpid(), "net"));
        struct run *run = run_start(world, COMMAND("./probe", "interfaces"));
        assert_string_equal(run_line(run), "lo ");
        assert_int_equal(run->bwrap, ready);
        run_free(&run);
        world_free(world);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static unsigned count_fds(pid_t pid)
{
    kg_auto(kg_free) char *path = kg_format("/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    unsigned count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* While it is loaded, its libraries are open: one right count is enough, and the next may be
 * another. */
static void wait_for_fds(pid_t pid, unsigned wanted)
{
    uint64_t deadline_ms = kg_monotonic_ms() + WORLD_WAIT_MS;
    unsigned count;
    while ((count = count_fds(pid)) != wanted && kg_monotonic_ms() < deadline_ms)
        usleep(PAUSE_US);
    assert_int_equal(count, wanted);
}

static void one_that_waits_has_nothing_of_ours(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf environment = {0}, status = {0}, score = {0};
    pid_t ready = wait_for_bwrap();
    wait_for_fds(ready, CAGE_FDS);
    read_proc(ready, "environ", &environment);
    assert_int_equal(environment.length, 0);
    read_proc(ready, "status", &status);
    assert_says(&status, "\nNoNewPrivs:\t1\n");
    assert_says(&status, "\nCapEff:\t0000000000000000\n");
    assert_no_signal_is_ignored(&status);
    if (geteuid() == 0)
        assert_says(&status, "\nUid:\t65534\t65534\t65534\t65534\n");
    read_proc(ready, "oom_score_adj", &score);
    assert_string_equal(kg_buf_terminate(&score), "500\n");
}

static void cages_that_start_at_once_are_all_built(void **state)
{
    (void)state;
    struct run *runs[8];
    wait_for_ready();
    for (size_t i = 0; i < KG_COUNT(runs); i++)
        runs[i] = run_start(world, COMMAND("./probe", "hello"));
    for (size_t i = 0; i < KG_COUNT(runs); i++) {
        assert_string_equal(run_line(runs[i]), "hello");
        run_free(&runs[i]);
    }
}

static void killed_one_is_not_missed(void **state)
{
    (void)state;
    pid_t ready = wait_for_ready();
    if (kill(ready, SIGKILL) < 0)
        fail_msg("kill: %s", strerror(errno));
    wait_until_gone(ready);
    say_hello();
}

/* A copy of bwrap where every user may run it, in place of the one that was there. */
static void put_bwrap(const char *path)
{
    kg_auto(kg_free) char *command = kg_format("cp %s %s.new && chmod 755 %s.new && mv %s.new %s",
                                               world->facts->bwrap, path, path, path, path);
    assert_int_equal(system(command), 0);
}

static pid_t hello_by(const char *bwrap)
{
    struct cage_plan *plan = world_plan(world, COMMAND("./probe", "hello"));
    free(plan->bwrap);
    plan->bwrap = kg_strdup(bwrap);
    struct run *run = run_plan(world, plan);
    assert_string_equal(run_line(run), "hello");
    pid_t pid = run->bwrap;
    run_free(&run);
    cage_plan_free(plan);
    return pid;
}

/* An upgrade mends something, or the old program would still be there. */
static void one_whose_program_was_replaced_is_not_used(void **state)
{
    (void)state;
    kg_auto(kg_free) char *bwrap = kg_format("%s/bwrap", world->folder);
    assert_int_equal(chmod(world->folder, 0755), 0);
    put_bwrap(bwrap);
    hello_by(bwrap);
    pid_t ready = wait_for_child();
    assert_int_equal(hello_by(bwrap), ready);
    ready = wait_for_child();
    put_bwrap(bwrap);
    assert_int_not_equal(hello_by(bwrap), ready);
    wait_until_gone(ready);
}

static void plan_that_cannot_be_followed_harms_no_later_one(void **state)
{
    (void)state;
    wait_for_ready();
    struct cage_plan *plan = world_plan(world, COMMAND("./probe", "hello"));
    cage_steps_add(&plan->steps, CAGE_STEP_BIND, "/nowhere", "/nowhere", 0);
    struct run *run = run_plan(world, plan);
    run_wait_exit(run);
    assert_false(run->spawned);
    assert_non_null(strstr(run->error, "open /nowhere: No such file or directory"));
    run_free(&run);
    cage_plan_free(plan);
    say_hello();
}

/* Its gate opens when the spawner is gone: it must be gone by then, or run nothing. */
static void one_that_waits_dies_with_the_spawner(void **state)
{
    (void)state;
    pid_t ready = wait_for_ready();
    kill(find_spawner(), SIGKILL);
    wait_until_gone(ready);
}

static void one_that_waits_goes_when_the_spawner_is_freed(void **state)
{
    (void)state;
    pid_t ready = wait_for_ready();
    cage_spawner_free(world->spawner);
    world->spawner = NULL;
    wait_until_gone(ready);
}

static void all_of_it_holds_for_an_ordinary_user_too(void **state)
{
    (void)state;
    world_again_as_ordinary_user();
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, make_world, free_world)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        IN_A_WORLD(next_cage_is_built_by_the_one_that_waits),
        IN_A_WORLD(one_that_waits_has_nothing_of_ours),
        IN_A_WORLD(one_that_waits_is_in_namespaces_of_its_own),
        IN_A_WORLD(one_of_roots_has_only_the_mounts_that_it_needs),
        cmocka_unit_test(where_only_bwrap_may_make_namespaces_it_does),
        IN_A_WORLD(cages_that_start_at_once_are_all_built),
        IN_A_WORLD(killed_one_is_not_missed),
        IN_A_WORLD(one_whose_program_was_replaced_is_not_used),
        IN_A_WORLD(plan_that_cannot_be_followed_harms_no_later_one),
        IN_A_WORLD(one_that_waits_dies_with_the_spawner),
        IN_A_WORLD(one_that_waits_goes_when_the_spawner_is_freed),
        cmocka_unit_test(all_of_it_holds_for_an_ordinary_user_too),
    };
    return cmocka_run_group_tests_name("cage ready", tests, NULL, NULL);
}
