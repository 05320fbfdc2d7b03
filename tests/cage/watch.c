/*
 * A cage that is watched: what is tried in it is told, bounded whatever it does, and nothing of it
 * changes; without its watcher it ends. That the walls do not move is shown by the other tests of
 * cages, each of which runs a second time while it is watched.
 */
#include "world.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct world *world;

static struct run *watch_start(const char *const *command)
{
    struct cage_policy policy = world_policy(world, command);
    policy.watched = true;
    return run_policy(world, &policy);
}

static const struct cage_attempt *find(const struct run *run, enum cage_act act, const char *what)
{
    for (size_t i = 0; i < cage_attempts_count(run->attempts); i++) {
        const struct cage_attempt *attempt = cage_attempts_at(run->attempts, i);
        if (attempt->act == act && strcmp(attempt->what, what) == 0)
            return attempt;
    }
    return NULL;
}

static void assert_tried(const struct run *run, enum cage_act act, const char *what,
                         enum cage_there there)
{
    const struct cage_attempt *attempt = find(run, act, what);
    if (attempt == NULL)
        fail_msg("it was not told that it tried to %s %s; out \"%.*s\"", cage_act_names[act], what,
                 (int)run->out.length, run->out.data ? run->out.data : "");
    assert_int_equal(attempt->there, there);
    assert_true(attempt->count > 0);
}

static struct run *watch_shell(const char *script)
{
    struct run *run = watch_start(COMMAND("sh", "-c", script));
    run_wait_exit(run);
    if (run->error != NULL)
        fail_msg("%s", run->error);
    assert_true(run->how.built);
    assert_non_null(run->attempts);
    return run;
}

static void files_that_are_opened_listed_and_written_are_told(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run =
        watch_shell("read x < /etc/shadow; read x < /proc/self/stat; echo > /tmp/mine;"
                    "echo > /etc/yours; for i in /usr/lib/*; do :; done; cd /nowhere;"
                    "cd /tmp && echo > below; : > ./../tmp/below; [ -e /var/seen ]; true");
    assert_tried(run, CAGE_ACT_READ, "/etc/shadow", CAGE_THERE_NOTHING);
    assert_tried(run, CAGE_ACT_READ, "/proc/self/stat", CAGE_THERE_TO_READ);
    assert_tried(run, CAGE_ACT_WRITE, "/tmp/mine", CAGE_THERE_TO_WRITE);
    assert_tried(run, CAGE_ACT_WRITE, "/etc/yours", CAGE_THERE_NOTHING);
    assert_tried(run, CAGE_ACT_LIST, "/usr/lib", CAGE_THERE_TO_READ);
    assert_tried(run, CAGE_ACT_LOOK, "/var/seen", CAGE_THERE_NOTHING);
    assert_tried(run, CAGE_ACT_WRITE, "/tmp/below", CAGE_THERE_TO_WRITE);
    assert_int_equal(find(run, CAGE_ACT_WRITE, "/tmp/below")->count, 2);
    assert_string_equal(find(run, CAGE_ACT_READ, "/etc/shadow")->call, "openat");
}

static void programs_that_are_started_are_told_also_of_forks(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run =
        watch_shell("(/usr/bin/id; (/nowhere/tool; true) & wait) 2> /dev/null; true");
    assert_tried(run, CAGE_ACT_RUN, "/usr/bin/id", CAGE_THERE_NOTHING);
    assert_tried(run, CAGE_ACT_RUN, "/nowhere/tool", CAGE_THERE_NOTHING);
}

static void addresses_that_are_connected_to_are_told(void **state)
{
    (void)state;
    static const char script[] =
        "import socket\n"
        "for a in ('192.0.2.7', 81), ('2001:db8::1', 82):\n"
        "  try: socket.socket(socket.AF_INET6 if ':' in a[0] else socket.AF_INET).connect(a)\n"
        "  except OSError as e: pass\n";
    kg_auto(run_free) struct run *run = watch_start(COMMAND("python3", "-c", script));
    run_wait_exit(run);
    assert_int_equal(run->how.exit_code, 0);
    assert_non_null(find(run, CAGE_ACT_CONNECT, "192.0.2.7"));
    assert_int_equal(find(run, CAGE_ACT_CONNECT, "192.0.2.7")->port, 81);
    assert_int_equal(find(run, CAGE_ACT_CONNECT, "2001:db8::1")->port, 82);
}

static void paths_of_any_bytes_are_told_as_they_are(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run =
        watch_shell("read x < \"$(printf '/\\377\\n\\001')\"; true");
    assert_non_null(find(run, CAGE_ACT_READ, "/\377\n\001"));
}

/* 60000 paths, of which no more are kept than there is room for; and a million calls in all would
 * only be more of the same. */
static void many_paths_are_counted_and_cost_no_more_memory(void **state)
{
    (void)state;
    static const char script[] = "import os\n"
                                 "for i in range(20000):\n"
                                 "  os.path.exists('/no/%d' % i)\n"
                                 "for i in range(20000):\n"
                                 "  os.path.exists('/no/7')\n"
                                 "print('done')\n";
    kg_auto(run_free) struct run *run = watch_start(COMMAND("python3", "-c", script));
    assert_string_equal(run_line(run), "done");
    size_t count = cage_attempts_count(run->attempts);
    assert_true(count <= 4096);
    const struct cage_attempt *others = find(run, CAGE_ACT_OTHERS, "");
    assert_non_null(others);
    assert_true(others->count > 10000);
    assert_true(find(run, CAGE_ACT_LOOK, "/no/7")->count >= 20000);
}

static void program_that_forks_and_spins_while_it_is_looked_at_ends_when_told(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run =
        watch_start(COMMAND("sh", "-c",
                            "echo on; for i in 1 2 3 4; do (while :; do [ -e /x ]; done) & done;"
                            "while :; do (:); [ -e /y ]; done"));
    run_wait_line(run);
    cage_signal(run->child, SIGKILL);
    run_wait_exit(run);
    assert_int_equal(run->how.signal, SIGKILL);
    assert_null(run->error);
}

/* The call that makes such a filter was allowed once, and not to the plugin. */
static void plugin_cannot_listen_to_calls_itself(void **state)
{
    (void)state;
    static const char script[] =
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "class Filter(ctypes.Structure):\n"
        "  _fields_ = [('c', ctypes.c_ushort), ('t', ctypes.c_ubyte), ('f', ctypes.c_ubyte), "
        "('k', ctypes.c_uint)]\n"
        "class Program(ctypes.Structure):\n"
        "  _fields_ = [('n', ctypes.c_ushort), ('p', ctypes.POINTER(Filter))]\n"
        "f = Filter(6, 0, 0, 0x7fff0000)\n"
        "p = Program(1, ctypes.pointer(f))\n"
        "print([libc.syscall(317, 1, flags, ctypes.byref(p)) for flags in (0, 8, 40)], "
        "ctypes.get_errno())\n";
#ifdef __x86_64__
    kg_auto(kg_free) char *expected = kg_format("[-1, -1, -1] %d", ENOSYS);
    kg_auto(run_free) struct run *run = watch_start(COMMAND("python3", "-c", script));
    assert_string_equal(run_line(run), expected);
#else
    (void)script;
#endif
}

/* The process of that name that is a child of our spawner; 0: there is none. */
static pid_t find_watcher(void)
{
    FILE *out = popen("pgrep -x kaged-watch", "r");
    int pid, found = 0;
    while (out != NULL && fscanf(out, "%d", &pid) == 1) {
        kg_auto(kg_free) char *command =
            kg_format("test $(ps -o ppid= -p $(ps -o ppid= -p %d)) = %d", pid, getpid());
        if (system(command) == 0) /* NOLINT(cert-env33-c) */
            found = pid;
    }
    if (out != NULL)
        pclose(out);
    return found;
}

static void cage_ends_with_its_watcher_and_says_why(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = watch_start(COMMAND("sh", "-c", "echo on; read x"));
    run_wait_line(run);
    pid_t watcher = find_watcher();
    assert_true(watcher > 0);
    assert_int_equal(kill(watcher, SIGKILL), 0);
    run_wait_exit(run);
    assert_non_null(run->error);
    assert_string_equal(run->error,
                        "plugin probe: kaged-watch: it was killed, so its cage was ended");
}

static void watcher_goes_with_its_cage(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = watch_shell("exit 3");
    assert_int_equal(run->how.exit_code, 3);
    assert_int_equal(find_watcher(), 0);
}

static void program_that_cannot_run_is_not_built(void **state)
{
    (void)state;
    world_write(world, "bad", "no program", 0755);
    kg_auto(run_free) struct run *run = watch_start(COMMAND("./bad"));
    run_wait_exit(run);
    assert_false(run->how.built);
    assert_null(run->error);
}

static void all_of_it_holds_for_an_ordinary_user_too(void **state)
{
    (void)state;
    world_again_as_ordinary_user();
}

static int make_world(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    world = world_new();
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
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_are_opened_listed_and_written_are_told),
        cmocka_unit_test(programs_that_are_started_are_told_also_of_forks),
        cmocka_unit_test(addresses_that_are_connected_to_are_told),
        cmocka_unit_test(paths_of_any_bytes_are_told_as_they_are),
        cmocka_unit_test(many_paths_are_counted_and_cost_no_more_memory),
        cmocka_unit_test(program_that_forks_and_spins_while_it_is_looked_at_ends_when_told),
        cmocka_unit_test(plugin_cannot_listen_to_calls_itself),
        cmocka_unit_test(cage_ends_with_its_watcher_and_says_why),
        cmocka_unit_test(watcher_goes_with_its_cage),
        cmocka_unit_test(program_that_cannot_run_is_not_built),
        cmocka_unit_test(all_of_it_holds_for_an_ordinary_user_too),
    };
    return cmocka_run_group_tests_name("cage watch", tests, make_world, free_world);
}
