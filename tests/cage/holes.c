/*
 * Every way out of the cage that was ever found open is a test here, run by a program in a real
 * cage. Rows of the table are attempts of the probe with the answer that each must get; what takes
 * more than one line has a test of its own. Started by root, all of it runs a second time as an
 * ordinary user.
 */
#include "cage/internal.h"
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct world *world;

/* -- one attempt, one answer ------------------------------------------------------------------- */

struct attempt {
    const char *name;
    const char *words[5];
    const char *answer;
    const char *watched; /* the answer in a cage that is watched; NULL: the same */
};

static const struct attempt attempts[] = {
    /* files */
    {"plugin_cannot_write_core_pattern", {"write", "/proc/sys/kernel/core_pattern"}, "EACCES"},
    {"proc_sys_is_read_only", {"mount-is-read-only", "/proc/sys"}, "yes"},
    {"root_is_read_only", {"create", "/x"}, "EROFS"},
    {"etc_is_read_only", {"create", "/etc/x"}, "EROFS"},
    {"dev_is_read_only", {"create", "/dev/x"}, "EROFS"},
    {"libraries_are_read_only", {"create", "/usr/lib/x"}, "EROFS"},
    {"install_dir_is_read_only", {"create", "./x"}, "EROFS"},
    {"folder_above_install_dir_is_writable_but_not_the_hosts", {"create", "/tmp/x"}, "ok"},
    {"tmp_is_bounded", {"fill", "/tmp/x"}, "4 MiB ENOSPC"},
    {"shared_memory_is_bounded", {"fill", "/dev/shm/x"}, "4 MiB ENOSPC"},
    {"environment_of_the_daemon_is_not_in_proc_1_environ", {"read", "/proc/1/environ"}, "ENOENT"},
    {"paths_of_the_host_are_not_in_proc_1_cmdline", {"read", "/proc/1/cmdline"}, "ENOENT"},
    {"memory_of_pid_1_is_out_of_reach", {"write", "/proc/1/mem"}, "ENOENT"},
    {"memory_of_the_thread_of_pid_1_is_out_of_reach", {"write", "/proc/1/task/1/mem"}, "ENOENT"},
    {"passwd_is_not_there", {"read", "/etc/passwd"}, "ENOENT"},
    {"shadow_is_not_there", {"read", "/etc/shadow"}, "ENOENT"},
    {"home_folders_are_not_there", {"read", "/home"}, "ENOENT"},
    {"home_of_root_is_not_there", {"read", "/root"}, "ENOENT"},
    {"var_is_not_there", {"read", "/var"}, "ENOENT"},
    {"run_is_not_there", {"read", "/run"}, "ENOENT"},
    {"sys_is_not_there", {"read", "/sys"}, "ENOENT"},
    {"local_programs_are_not_there", {"read", "/usr/local"}, "ENOENT"},
    {"undeclared_programs_are_not_there", {"exec", "/usr/bin/id"}, "ENOENT"},
    {"disks_are_not_there", {"read", "/dev/vda"}, "ENOENT"},
    {"private_file_in_the_install_dir_can_be_read", {"read", "./private"}, "ok"},
    {"inherited_fds_do_not_reach_the_plugin", {"list-fds"}, "0 1 2 "},
    {"stdio_is_pipes", {"stdio-kinds"}, "pipe pipe pipe "},
    {"setuid_bits_cannot_be_made", {"setuid-bits"}, "none"},

    /* sockets */
    {"unix_sockets_cannot_be_made", {"socket", "1", "1", "0"}, "EAFNOSUPPORT"},
    {"unix_sockets_cannot_be_made_with_high_bits",
     {"socket", "0x100000001", "1", "0"},
     "EAFNOSUPPORT"},
    {"stream_pairs_can_be_made", {"socketpair", "1", "1"}, "ok"},
    {"packet_pairs_can_be_made", {"socketpair", "1", "5"}, "ok"},
    {"datagram_pairs_that_could_connect_elsewhere_are_refused",
     {"socketpair", "1", "2"},
     "ESOCKTNOSUPPORT"},
    {"raw_pairs_are_refused", {"socketpair", "1", "0x80003"}, "ESOCKTNOSUPPORT"},
    {"tipc_pairs_are_refused", {"socketpair", "30", "1"}, "EAFNOSUPPORT"},
    {"af_vsock_is_refused", {"socket", "40", "1", "0"}, "EAFNOSUPPORT"},
    {"af_packet_is_refused", {"socket", "17", "3", "0"}, "EAFNOSUPPORT"},
    {"af_alg_is_refused", {"socket", "38", "1", "0"}, "EAFNOSUPPORT"},
    {"af_key_is_refused", {"socket", "15", "3", "0"}, "EAFNOSUPPORT"},
    {"tcp_is_there", {"socket", "2", "1", "0"}, "ok"},
    {"udp_over_ipv6_is_there", {"socket", "10", "0x80002", "17"}, "ok"},
    {"sctp_is_refused", {"socket", "2", "1", "132"}, "EPROTONOSUPPORT"},
    {"sctp_by_its_type_is_refused", {"socket", "2", "5", "0"}, "ESOCKTNOSUPPORT"},
    {"route_netlink_is_there", {"socket", "16", "3", "0"}, "ok"},
    {"netfilter_netlink_is_refused", {"socket", "16", "3", "12"}, "EPROTONOSUPPORT"},
    {"no_network_interface_but_lo", {"interfaces"}, "lo "},
    {"no_address_outside_is_reachable", {"connect", "192.0.2.1"}, "ENETUNREACH", "ECONNREFUSED"},
    {"metadata_service_is_not_reachable",
     {"connect", "169.254.169.254"},
     "ENETUNREACH",
     "ECONNREFUSED"},
    {"localhost_is_not_the_hosts", {"connect", "127.0.0.1"}, "ECONNREFUSED"},

    /* system calls */
    {"ptrace_of_pid_1_is_refused", {"call", "ptrace"}, "ENOSYS"},
    {"memory_of_others_is_not_read", {"call", "process_vm_readv"}, "ENOSYS"},
    {"memory_of_others_is_not_written", {"call", "process_vm_writev"}, "ENOSYS"},
    {"fds_of_others_are_not_taken", {"call", "pidfd_getfd"}, "ENOSYS"},
    {"kcmp_is_refused", {"call", "kcmp"}, "ENOSYS"},
    {"keyctl_is_refused", {"call", "keyctl"}, "ENOSYS"},
    {"add_key_is_refused", {"call", "add_key"}, "ENOSYS"},
    {"request_key_is_refused", {"call", "request_key"}, "ENOSYS"},
    {"bpf_is_refused", {"call", "bpf"}, "ENOSYS"},
    {"perf_is_refused", {"call", "perf_event_open"}, "ENOSYS"},
    {"userfaultfd_is_refused", {"call", "userfaultfd"}, "ENOSYS"},
    {"io_uring_is_refused", {"call", "io_uring_setup"}, "ENOSYS"},
    {"kexec_is_refused", {"call", "kexec_load"}, "ENOSYS"},
    {"modules_are_refused", {"call", "init_module"}, "ENOSYS"},
    {"mount_is_refused", {"call", "mount"}, "ENOSYS"},
    {"umount_is_refused", {"call", "umount2"}, "ENOSYS"},
    {"pivot_root_is_refused", {"call", "pivot_root"}, "ENOSYS"},
    {"open_tree_is_refused", {"call", "open_tree"}, "ENOSYS"},
    {"move_mount_is_refused", {"call", "move_mount"}, "ENOSYS"},
    {"fsopen_is_refused", {"call", "fsopen"}, "ENOSYS"},
    {"nested_user_namespace_is_refused", {"call", "clone-newuser"}, "EPERM"},
    {"nested_network_namespace_is_refused", {"call", "clone-newnet"}, "EPERM"},
    {"unshare_is_refused", {"call", "unshare"}, "ENOSYS"},
    {"setns_is_refused", {"call", "setns"}, "ENOSYS"},
    {"clone3_answers_as_on_an_old_kernel", {"call", "clone3"}, "ENOSYS"},
    {"openat2_answers_as_on_an_old_kernel", {"call", "openat2"}, "ENOSYS"},
    {"chroot_is_refused", {"call", "chroot"}, "ENOSYS"},
    {"file_handles_are_not_opened", {"call", "open_by_handle_at"}, "ENOSYS"},
    {"file_handles_are_not_made", {"call", "name_to_handle_at"}, "ENOSYS"},
    {"personality_can_be_asked_for", {"call", "personality-query"}, "ok"},
    {"personality_cannot_be_changed", {"call", "personality-other"}, "ENOSYS"},
    {"tiocsti_is_refused", {"call", "tiocsti"}, "EPERM"},
    {"tiocsti_with_high_bits_is_refused", {"call", "tiocsti-high"}, "EPERM"},
    {"tioclinux_is_refused", {"call", "tioclinux"}, "EPERM"},
    {"line_disciplines_are_refused", {"call", "tiocsetd"}, "EPERM"},
    {"other_ioctls_come_through", {"call", "other-ioctl"}, "ENOTTY"},

    /* rights and limits */
    {"plugin_has_no_capabilities", {"status", "CapEff"}, "0000000000000000"},
    {"plugin_can_gain_no_capabilities", {"status", "CapBnd"}, "0000000000000000"},
    {"plugin_can_gain_no_privileges", {"status", "NoNewPrivs"}, "1"},
    {"both_filters_are_loaded", {"status", "Seccomp_filters"}, "2", "3"},
    {"core_dumps_are_off", {"limit", "core"}, "1"},
    {"file_limit_is_the_usual_one", {"limit", "files"}, "1024"},
    {"name_of_the_host_is_hidden", {"hostname"}, "kaged"},
    {"fork_bomb_is_bounded", {"fork-bomb"}, "23 EAGAIN"},
    {"thread_bomb_is_bounded", {"thread-bomb"}, "23 EAGAIN"},
    {"killing_everyone_kills_only_the_plugin", {"kill-everyone"}, "ok"},
    {"static_program_starts_and_answers", {"hello"}, "hello"},
};

static void probe_gets_its_answer(void **state)
{
    const struct attempt *attempt = *state;
    const char *command[7] = {"./probe"};
    for (size_t i = 0; i < KG_COUNT(attempt->words); i++)
        command[i + 1] = attempt->words[i];
    kg_auto(run_free) struct run *run = run_start(world, command);
    const char *line = run_line(run);
    bool is_other = attempt->watched != NULL && getenv(WORLD_WATCHED) != NULL;
    assert_string_equal(line, is_other ? attempt->watched : attempt->answer);
    assert_true(run->how.built);
}

/*
 * Root drops its groups; a user cannot, but in the cage they have no number except the user's own.
 */
static void plugin_is_in_no_group_of_the_host(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "status", "Groups"));
    for (const char *at = run_line(run); *at != '\0';) {
        at += strspn(at, " \t");
        size_t length = strspn(at, "0123456789");
        int64_t group = CAGE_GID;
        if (length > 0)
            assert_true(kg_str_to_int((struct kg_str){at, length}, &group));
        assert_true(group == CAGE_GID || group == (int64_t)getegid());
        at += length ? length : strlen(at);
    }
}

/* -- what a plugin is given -------------------------------------------------------------------- */

static void environment_is_what_was_given(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "environment"));
    assert_string_equal(run_line(run), "PATH=/usr/bin:/usr/local/bin LANG=C.UTF-8 HOME=/tmp ");
}

static bool is_spawned(void *data)
{
    return ((struct run *)data)->spawned;
}

static void lines_go_in_and_come_out(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "echo"));
    assert_true(loop_run_until(world->loop, is_spawned, run, WORLD_WAIT_MS));
    assert_int_equal(kg_write_all(run->in_fd, "{}\n", 3), 0);
    run_wait_line(run);
    kg_close(&run->in_fd);
    run_wait_exit(run);
    assert_string_equal(kg_buf_terminate(&run->out), "{}\n");
    assert_int_equal(run->how.exit_code, 0);
}

static void uid_0_is_never_the_host_root(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "wait-forever"));
    run_wait_line(run);
    pid_t pid = cage_child_pid(run->child);
    assert_true(pid > 0);
    kg_auto(kg_free) char *path = kg_format("/proc/%d/status", pid);
    kg_auto(kg_buf_free) struct kg_buf status = {0};
    assert_int_equal(kg_read_file(path, 65536, &status, NULL), 0);
    unsigned ids[4], expected = geteuid() == 0 ? CAGE_UID : geteuid();
    const char *line = strstr(kg_buf_terminate(&status), "\nUid:");
    assert_int_equal(sscanf(line, "\nUid: %u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(ids[i], expected);
    cage_signal(run->child, SIGKILL);
    run_wait_exit(run);
}

/* A socket that anybody may connect to, in the plugin's own folder. */
static int listen_in_install_dir(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/sock", world->folder);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(chmod(address.sun_path, 0777), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static void unix_sockets_in_the_install_dir_cannot_be_connected(void **state)
{
    (void)state;
    kg_auto(kg_close) int listener = listen_in_install_dir();
    world_write(world, "unix.py",
                "import socket\n"
                "def attempt(make):\n"
                "    try:\n"
                "        make()\n"
                "        return 'connected'\n"
                "    except OSError as error:\n"
                "        return error.errno\n"
                "def plain():\n"
                "    socket.socket(socket.AF_UNIX).connect('./sock')\n"
                "def pair():\n"
                "    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                "    a.connect('./sock')\n"
                "def stream():\n"
                "    a, b = socket.socketpair()\n"
                "    b.close()\n"
                "    a.connect('./sock')\n"
                "print(attempt(plain), attempt(pair), attempt(stream))\n",
                0644);
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("python3", "unix.py"));
    kg_auto(kg_free) char *expected = kg_format("%d %d %d", EAFNOSUPPORT, ESOCKTNOSUPPORT, EISCONN);
    assert_string_equal(run_line(run), expected);
}

/* -- other ABIs -------------------------------------------------------------------------------- */

static void calls_of_32_bit_programs_end_the_plugin(void **state)
{
    (void)state;
#if defined(__x86_64__)
    const char *const names[] = {"int80", "x32"};
    for (size_t i = 0; i < 2; i++) {
        kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", names[i]));
        run_wait_exit(run);
        assert_int_equal(run->out.length, 0);
        assert_true(run->how.signal == SIGSYS || run->how.signal == SIGSEGV);
    }
#endif
}

/* -- how it ends ------------------------------------------------------------------------------- */

static bool is_gone(pid_t pid)
{
    /* A zombie is gone too: its reaper is just not there yet. */
    kg_auto(kg_free) char *path = kg_format("/proc/%d/stat", pid);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (kg_read_file(path, 4096, &text, NULL) < 0)
        return true;
    const char *after = strrchr(kg_buf_terminate(&text), ')');
    return after != NULL && after[2] == 'Z';
}

static void exit_code_is_passed_on(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "exit", "7"));
    run_wait_exit(run);
    assert_true(run->how.built);
    assert_int_equal(run->how.exit_code, 7);
    assert_int_equal(run->how.signal, 0);
}

static void exit_code_127_of_the_plugin_is_its_own(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "exit", "127"));
    run_wait_exit(run);
    assert_true(run->how.built);
    assert_int_equal(run->how.exit_code, 127);
}

static void signal_that_ends_it_is_passed_on(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "raise", "11"));
    run_wait_exit(run);
    assert_true(run->how.built);
    assert_int_equal(run->how.exit_code, -1);
    assert_int_equal(run->how.signal, SIGSEGV);
}

static void sigterm_reaches_the_plugin(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "wait-for-term"));
    run_wait_line(run);
    cage_signal(run->child, SIGTERM);
    run_wait_exit(run);
    assert_int_equal(run->how.exit_code, 3);
}

static void sigkill_ends_the_whole_cage(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "wait-forever"));
    run_wait_line(run);
    cage_signal(run->child, SIGKILL);
    run_wait_exit(run);
    assert_true(run->how.built);
    assert_int_equal(run->how.signal, SIGKILL);
}

static void signals_right_after_the_start_end_it(void **state)
{
    (void)state;
    const int signals[] = {SIGKILL, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "wait-for-term"));
        cage_signal(run->child, signals[i]);
        run_wait_exit(run);
        assert_true(run->how.signal != 0 || run->how.exit_code == 3);
    }
}

/* The end of both outputs shows it: the grandchild would hold them open. */
static void a_grandchild_does_not_survive(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "leave-grandchild"));
    run_wait_exit(run);
    assert_string_equal(kg_buf_terminate(&run->out), "grandchild\n");
    assert_int_equal(run->how.exit_code, 0);
}

/* What a dead bwrap leaves behind falls to the spawner. */
static void killing_bwrap_alone_leaves_no_process(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "wait-forever"));
    run_wait_line(run);
    pid_t plugin = cage_child_pid(run->child);
    kill(run->bwrap, SIGKILL);
    run_wait_exit(run);
    assert_int_equal(run->how.signal, SIGKILL);
    assert_true(is_gone(plugin));
}

static void stopped_plugin_can_be_killed(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "wait-forever"));
    run_wait_line(run);
    kill(cage_child_pid(run->child), SIGSTOP);
    cage_signal(run->child, SIGKILL);
    run_wait_exit(run);
    assert_int_equal(run->how.signal, SIGKILL);
}

static void program_that_cannot_run_is_not_built(void **state)
{
    (void)state;
    world_write(world, "garbage", "\x01\x02", 0755);
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./garbage"));
    run_wait_exit(run);
    assert_false(run->how.built);
    assert_int_equal(run->how.exit_code, 127);
    kg_auto(kg_free) char *expected =
        kg_format("kaged: cannot run %s/garbage: Exec format error\n", world->folder);
    assert_string_equal(kg_buf_terminate(&run->err), expected);
}

static void link_that_took_the_place_of_the_install_dir_is_refused(void **state)
{
    (void)state;
    struct cage_plan *plan = world_plan(world, COMMAND("./probe", "hello"));
    kg_auto(kg_free) char *moved = kg_format("%s-moved", world->folder);
    assert_int_equal(rename(world->folder, moved), 0);
    assert_int_equal(symlink(moved, world->folder), 0);
    struct run *run = run_plan(world, plan);
    run_wait_exit(run);
    assert_int_equal(unlink(world->folder), 0);
    assert_int_equal(rename(moved, world->folder), 0);
    assert_false(run->spawned);
    assert_false(run->how.built);
    kg_auto(kg_free) char *expected =
        kg_format("plugin probe: open %s: this path contains a symbolic link", world->folder);
    assert_string_equal(run->error, expected);
    run_free(&run);
    cage_plan_free(plan);
}

static void many_at_once_all_answer(void **state)
{
    (void)state;
    struct run *runs[24];
    for (size_t i = 0; i < KG_COUNT(runs); i++)
        runs[i] = run_start(world, COMMAND("./probe", "hello"));
    for (size_t i = 0; i < KG_COUNT(runs); i++) {
        assert_string_equal(run_line(runs[i]), "hello");
        run_free(&runs[i]);
    }
}

/* -- the end of the spawner and of the daemon -------------------------------------------------- */

static bool world_is_lost(void *data)
{
    return ((struct world *)data)->lost;
}

/* No interface tells the spawner's pid; it is the parent of bwrap. */
static pid_t spawner_of(const struct run *run)
{
    return cage_parent_of(run->bwrap);
}

static void wait_until_gone(pid_t pid)
{
    for (unsigned waited_ms = 0; !is_gone(pid); waited_ms += 10) {
        if (waited_ms > WORLD_WAIT_MS)
            fail_msg("process %d is still there", pid);
        usleep(10000);
    }
}

static void killing_the_spawner_leaves_no_process(void **state)
{
    (void)state;
    struct world *own = world_new();
    struct run *run = run_start(own, COMMAND("./probe", "wait-forever"));
    run_wait_line(run);
    pid_t plugin = cage_child_pid(run->child);
    kill(spawner_of(run), SIGKILL);
    assert_true(loop_run_until(own->loop, world_is_lost, own, WORLD_WAIT_MS));
    run_wait_exit(run);
    assert_int_equal(run->how.signal, SIGKILL);
    assert_non_null(run->error);
    wait_until_gone(plugin);
    wait_until_gone(run->bwrap);
    struct kg_err err;
    struct cage_plan *plan = world_plan(own, COMMAND("./probe", "hello"));
    assert_null(cage_spawn(own->spawner, plan, NULL, NULL, &err));
    cage_plan_free(plan);
    run_free(&run);
    world_free(own);
}

static void freeing_the_spawner_ends_every_cage(void **state)
{
    (void)state;
    struct world *own = world_new();
    struct run *run = run_start(own, COMMAND("./probe", "wait-forever"));
    run_wait_line(run);
    pid_t plugin = cage_child_pid(run->child);
    cage_spawner_free(own->spawner);
    own->spawner = NULL;
    assert_true(is_gone(plugin));
    assert_true(is_gone(run->bwrap));
    run_free(&run);
    world_free(own);
}

/* In the child: a daemon with a plugin, that tells their pids and waits to be killed. */
__attribute__((noreturn)) static void be_a_daemon(int to)
{
    struct world *own = world_new();
    struct run *run = run_start(own, COMMAND("./probe", "wait-forever"));
    run_wait_line(run);
    pid_t pids[] = {spawner_of(run), run->bwrap, cage_child_pid(run->child)};
    kg_write_all(to, pids, sizeof(pids));
    kg_write_all(to, own->folder, sizeof(own->folder));
    for (;;)
        pause();
}

static void sigkill_of_the_daemon_leaves_no_process(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t daemon = world_fork();
    if (daemon == 0)
        be_a_daemon(ends[1]);
    close(ends[1]);
    pid_t pids[3];
    char folder[64];
    world_read(ends[0], pids, sizeof(pids));
    world_read(ends[0], folder, sizeof(folder));
    close(ends[0]);
    kill(daemon, SIGKILL);
    assert_int_equal(waitpid(daemon, NULL, 0), daemon);
    for (size_t i = 0; i < 3; i++)
        wait_until_gone(pids[i]);
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* The terminal signals its whole group, and the daemon wants to stop the plugins itself. */
static void spawner_outlives_the_signals_of_a_terminal(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_start(world, COMMAND("./probe", "wait-for-term"));
    run_wait_line(run);
    const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < KG_COUNT(signals); i++)
        kill(spawner_of(run), signals[i]);
    cage_signal(run->child, SIGTERM);
    run_wait_exit(run);
    assert_int_equal(run->how.exit_code, 3);
}

/* -- languages --------------------------------------------------------------------------------- */

struct language {
    const char *name;
    const char *program; /* skipped without it */
    const char *file;    /* written to the install dir, or NULL */
    const char *text;
    const char *command[5];
    const char *answer;
};

static const struct language languages[] = {
    {"dynamic_program_starts_and_answers",
     "/usr/bin/env",
     NULL,
     NULL,
     {"./probe-dynamic", "hello"},
     "hello"},
    {"bash_runs_pipelines",
     "/usr/bin/bash",
     "main.sh",
     "#!/bin/bash\nset -eu\nfor i in 1 2 3; do echo $i; done | while read -r x; do last=$x; "
     "echo \"$last\" >/tmp/last; done\nread -r y < <(cat_it() { while read -r l; do echo $l; done; "
     "}; "
     "cat_it </tmp/last)\n(exec 3<>/dev/null; echo ok $y)\n",
     {"./main.sh"},
     "ok 3"},
    {"script_with_env_starts",
     "/usr/bin/node",
     "env.js",
     "#!/usr/bin/env node\nconsole.log('ok')\n",
     {"./env.js"},
     "ok"},
    {"python_runs_threads_processes_asyncio_and_sqlite",
     "/usr/bin/python3",
     "main.py",
     "import asyncio, multiprocessing, queue, sqlite3, ssl, subprocess, sys, tempfile, threading\n"
     "from concurrent.futures import ThreadPoolExecutor\n"
     "def square(x): return x * x\n"
     "async def wait():\n"
     "    server = await asyncio.start_server(lambda r, w: w.close(), '127.0.0.1', 0)\n"
     "    port = server.sockets[0].getsockname()[1]\n"
     "    reader, writer = await asyncio.open_connection('127.0.0.1', port)\n"
     "    assert await reader.read() == b''\n"
     "    p = await asyncio.create_subprocess_exec(sys.executable, '-c', 'print(1)', stdout=-1)\n"
     "    assert (await p.communicate())[0] == b'1\\n'\n"
     "if __name__ == '__main__':\n"
     "    with ThreadPoolExecutor(4) as pool: assert list(pool.map(square, range(4))) == [0, 1, 4, "
     "9]\n"
     "    with multiprocessing.Pool(2) as pool: assert pool.map(square, range(4)) == [0, 1, 4, 9]\n"
     "    q = multiprocessing.Queue(); q.put(1); assert q.get() == 1\n"
     "    asyncio.run(wait())\n"
     "    db = sqlite3.connect('/tmp/x.db'); db.execute('pragma journal_mode=wal')\n"
     "    db.execute('create table t(x)'); db.commit()\n"
     "    assert subprocess.run([sys.executable, '-c', 'exit(5)']).returncode == 5\n"
     "    assert len(ssl.create_default_context().get_ca_certs()) >= 0\n"
     "    with tempfile.TemporaryDirectory() as d: open(d + '/x', 'w').close()\n"
     "    print('ok')\n",
     {"python3", "main.py"},
     "ok"},
    {"node_runs_workers_children_watchers_and_fetch",
     "/usr/bin/node",
     "main.js",
     "const {Worker, isMainThread, parentPort} = require('worker_threads')\n"
     "const fs = require('fs'), os = require('os'), http = require('http')\n"
     "const {execFileSync, spawn} = require('child_process')\n"
     "if (!isMainThread) { parentPort.postMessage('w'); return }\n"
     "async function main() {\n"
     "  await new Promise((done, fail) => new Worker(__filename).on('message', done).on('error', "
     "fail))\n"
     "  if (execFileSync(process.execPath, ['-p', '1+1']).toString() !== '2\\n') throw 1\n"
     "  await new Promise((done) => spawn(process.execPath, ['-e', '']).on('exit', done))\n"
     "  await new Promise((done) => { const w = fs.watch('/tmp', () => { w.close(); done() })\n"
     "    fs.writeFileSync('/tmp/f', 'x') })\n"
     "  if (Object.keys(os.networkInterfaces()).join() !== 'lo') throw 2\n"
     "  const server = http.createServer((q, r) => r.end('pong'))\n"
     "  await new Promise((done) => server.listen(0, '127.0.0.1', done))\n"
     "  const reply = await fetch('http://127.0.0.1:' + server.address().port)\n"
     "  if (await reply.text() !== 'pong') throw 3\n"
     "  await fs.promises.readFile(__filename)\n"
     "  console.log('ok'); process.exit(0)\n"
     "}\nmain()\n",
     {"node", "main.js"},
     "ok"},
    {"perl_forks_and_finds_its_modules",
     "/usr/bin/perl",
     "main.pl",
     "use strict; use POSIX; use File::Temp; use Time::HiRes; use JSON::PP;\n"
     "pipe(my $r, my $w); my $p = fork; if (!$p) { print $w \"ok\\n\"; exit 0 } close $w;\n"
     "waitpid($p, 0); print <$r>;\n",
     {"perl", "main.pl"},
     "ok"},
    {"git_makes_a_repository",
     "/usr/bin/git",
     NULL,
     NULL,
     {"git", "-c", "init.defaultBranch=main", "init", "/tmp/r"},
     "Initialized empty Git repository in /tmp/r/.git/"},
    {"jq_computes", "/usr/bin/jq", NULL, NULL, {"jq", "-n", "1+1"}, "2"},
};

static void language_works(void **state)
{
    const struct language *language = *state;
    if (access(language->program, X_OK) < 0) {
        kg_auto(kg_free) char *reason = kg_format("%s is not installed", language->program);
        world_skip(language->name, reason);
        return;
    }
    if (language->file != NULL)
        world_write(world, language->file, language->text, 0755);
    const char *command[6] = {NULL};
    for (size_t i = 0; i < KG_COUNT(language->command); i++)
        command[i] = language->command[i];
    kg_auto(run_free) struct run *run = run_start(world, command);
    assert_string_equal(run_line(run), language->answer);
}

/* -- all of it again as somebody else ---------------------------------------------------------- */

static void every_hole_is_closed_for_an_ordinary_user_too(void **state)
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
    /* Inheritable on purpose, before the spawner starts: it must not get into a cage. */
    int inherited = open("/etc/hostname", O_RDONLY);
    world = world_new();
    close(inherited);
    world_write(world, "private", "x", 0600);
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
    static const struct CMUnitTest plain[] = {
        cmocka_unit_test(plugin_is_in_no_group_of_the_host),
        cmocka_unit_test(environment_is_what_was_given),
        cmocka_unit_test(lines_go_in_and_come_out),
        cmocka_unit_test(uid_0_is_never_the_host_root),
        cmocka_unit_test(unix_sockets_in_the_install_dir_cannot_be_connected),
        cmocka_unit_test(calls_of_32_bit_programs_end_the_plugin),
        cmocka_unit_test(exit_code_is_passed_on),
        cmocka_unit_test(exit_code_127_of_the_plugin_is_its_own),
        cmocka_unit_test(signal_that_ends_it_is_passed_on),
        cmocka_unit_test(sigterm_reaches_the_plugin),
        cmocka_unit_test(sigkill_ends_the_whole_cage),
        cmocka_unit_test(signals_right_after_the_start_end_it),
        cmocka_unit_test(a_grandchild_does_not_survive),
        cmocka_unit_test(killing_bwrap_alone_leaves_no_process),
        cmocka_unit_test(stopped_plugin_can_be_killed),
        cmocka_unit_test(program_that_cannot_run_is_not_built),
        cmocka_unit_test(link_that_took_the_place_of_the_install_dir_is_refused),
        cmocka_unit_test(many_at_once_all_answer),
        cmocka_unit_test(killing_the_spawner_leaves_no_process),
        cmocka_unit_test(freeing_the_spawner_ends_every_cage),
        cmocka_unit_test(sigkill_of_the_daemon_leaves_no_process),
        cmocka_unit_test(spawner_outlives_the_signals_of_a_terminal),
        cmocka_unit_test(every_hole_is_closed_for_an_ordinary_user_too),
        cmocka_unit_test(all_of_it_holds_while_it_is_watched),
    };
    enum { COUNT = KG_COUNT(attempts) + KG_COUNT(languages) + KG_COUNT(plain) };
    static struct CMUnitTest tests[COUNT];
    size_t count = 0;
    for (size_t i = 0; i < KG_COUNT(attempts); i++)
        tests[count++] = (struct CMUnitTest){.name = attempts[i].name,
                                             .test_func = probe_gets_its_answer,
                                             .initial_state = (void *)&attempts[i]};
    for (size_t i = 0; i < KG_COUNT(languages); i++)
        tests[count++] = (struct CMUnitTest){.name = languages[i].name,
                                             .test_func = language_works,
                                             .initial_state = (void *)&languages[i]};
    for (size_t i = 0; i < KG_COUNT(plain); i++)
        tests[count++] = plain[i];
    return cmocka_run_group_tests_name("cage holes", tests, make_world, free_world);
}
