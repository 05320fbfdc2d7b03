/*
 * Each row is an attack from inside a cage that is carried out twice: first in a cage from which
 * the defences against it are taken away, where it has to succeed, then in the real one, where it
 * has to fail. So each of these tests can fail: a defence that does nothing shows. Started by root,
 * all of it runs a second time as an ordinary user.
 */
#include "weak.h"
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET            "kaged-attack-secret"
#define HIGH_FD           300 /* of what is inherited: above all that a launch places */
#define JOIN_KEYRING      1   /* keyctl */
#define SESSION_KEYRING   (-3)
#define CORE_PATTERN_FILE "/proc/sys/kernel/core_pattern"

static struct world *world;

/* -- what there is to attack ------------------------------------------------------------------- */

/* Made before the spawner starts, and found by the words @victim, @port, ... of a row. */
static struct {
    pid_t victim_pid; /* of the user whom the cages run as */
    int listeners[3];
    int shared_memory_id;
    char victim[16], port[8], abstract[64], socket[96], shared_memory[16], queue[64];
    char folder[64]; /* another plugin's, with a file for everybody */
    char secret[96]; /* that file */
    char host[256];
} target;

static const struct {
    const char *word;
    const char *text;
} names[] = {
    {"@victim", target.victim},
    {"@port", target.port},
    {"@abstract", target.abstract},
    {"@socket", target.socket},
    {"@memory", target.shared_memory},
    {"@queue", target.queue},
    {"@folder", target.folder},
    {"@secret", target.secret},
    {"@host", target.host},
};

static const char *meaning(const char *word)
{
    for (size_t i = 0; word != NULL && i < KG_COUNT(names); i++)
        if (strcmp(word, names[i].word) == 0)
            return names[i].text;
    return word;
}

static void start_victim(void)
{
    target.victim_pid = fork();
    if (target.victim_pid == 0) {
        if (geteuid() == 0 && (setgid(CAGE_GID) < 0 || setuid(CAGE_UID) < 0))
            _exit(1);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    snprintf(target.victim, sizeof(target.victim), "%d", target.victim_pid);
}

static void listen_on_localhost(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, length), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
    snprintf(target.port, sizeof(target.port), "%d", ntohs(at.sin_port));
    target.listeners[0] = fd;
}

/* As the daemon's own socket is, or D-Bus: a name in the file system, or one without. */
static int listen_on(const char *name, size_t at)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path + at, sizeof(address.sun_path) - at, "%s", name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + at + strlen(name));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static void make_folder(void)
{
    strcpy(target.folder, "/tmp/kaged-attack-XXXXXX");
    assert_non_null(mkdtemp(target.folder));
    assert_int_equal(chmod(target.folder, 0755), 0);
    snprintf(target.secret, sizeof(target.secret), "%s/secret", target.folder);
    kg_auto(kg_close) int fd = open(target.secret, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(kg_write_all(fd, SECRET, strlen(SECRET)), 0);
    snprintf(target.socket, sizeof(target.socket), "%s/kaged.sock", target.folder);
    target.listeners[1] = listen_on(target.socket, 0);
    assert_int_equal(chmod(target.socket, 0777), 0);
    snprintf(target.abstract, sizeof(target.abstract), "kaged-attack-%d", getpid());
    target.listeners[2] = listen_on(target.abstract, 1);
}

static void make_ipc(void)
{
    int key = 0x6b000000 + getpid();
    target.shared_memory_id = shmget(key, 4096, IPC_CREAT | 0666);
    assert_true(target.shared_memory_id >= 0);
    snprintf(target.shared_memory, sizeof(target.shared_memory), "%d", key);
    char name[sizeof(target.queue) + 1];
    snprintf(target.queue, sizeof(target.queue), "kaged-attack-%d", getpid());
    snprintf(name, sizeof(name), "/%s", target.queue);
    mode_t mask = umask(0);
    mqd_t queue = mq_open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0666, NULL);
    umask(mask);
    assert_true(queue >= 0);
    mq_close(queue);
}

/* In a keyring of this process and its children alone. */
static void make_key(void)
{
    syscall(SYS_keyctl, JOIN_KEYRING, NULL);
    syscall(SYS_add_key, "user", SECRET, "x", 1, SESSION_KEYRING);
}

static int make_targets(void **state)
{
    (void)state;
    start_victim();
    listen_on_localhost();
    make_folder();
    make_ipc();
    make_key();
    gethostname(target.host, sizeof(target.host) - 1);
    setenv("KAGED_ATTACK", SECRET, 1);
    /* Inheritable on purpose, and open before the spawner starts. */
    kg_auto(kg_close) int fd = open(target.secret, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fcntl(fd, F_DUPFD, HIGH_FD), HIGH_FD);
    world = world_new();
    /* A weak cage of root's has nothing staged. */
    assert_int_equal(chmod(world->folder, 0755), 0);
    return 0;
}

static int free_targets(void **state)
{
    (void)state;
    world_free(world);
    close(HIGH_FD);
    kill(target.victim_pid, SIGKILL);
    waitpid(target.victim_pid, NULL, 0);
    for (size_t i = 0; i < KG_COUNT(target.listeners); i++)
        close(target.listeners[i]);
    shmctl(target.shared_memory_id, IPC_RMID, NULL);
    kg_auto(kg_free) char *queue = kg_format("/%s", target.queue);
    mq_unlink(queue);
    unlink(target.socket);
    unlink(target.secret);
    return rmdir(target.folder);
}

/* -- what this machine cannot show ------------------------------------------------------------- */

static const char *no_family(int family, int type)
{
    kg_auto(kg_close) int fd = socket(family, type | SOCK_CLOEXEC, 0);
    return fd < 0 && errno == EAFNOSUPPORT ? "the kernel does not have this family" : NULL;
}

static const char *no_vsock(void)
{
    return no_family(AF_VSOCK, SOCK_STREAM);
}

static const char *no_alg(void)
{
    return no_family(AF_ALG, SOCK_SEQPACKET);
}

static const char *no_packet(void)
{
    return no_family(AF_PACKET, SOCK_RAW);
}

static const char *no_key_family(void)
{
    return no_family(AF_KEY, SOCK_RAW);
}

static const char *no_modules(void)
{
    return access("/proc/modules", F_OK) < 0 ? "the kernel knows no modules" : NULL;
}

static const char *no_kexec(void)
{
    return access("/sys/kernel/kexec_loaded", F_OK) < 0 ? "the kernel knows no kexec" : NULL;
}

static const char *no_tiocsti(void)
{
    char setting = '1';
    kg_auto(kg_close) int fd = open("/proc/sys/dev/tty/legacy_tiocsti", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, &setting, 1) != 1)
        return "dev.tty.legacy_tiocsti cannot be read";
    return setting == '1' ? NULL : "dev.tty.legacy_tiocsti is off";
}

static const char *no_core_files(void)
{
    char first = '\0';
    kg_auto(kg_close) int fd = open(CORE_PATTERN_FILE, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, &first, 1) != 1 || first == '|' || first == '@' || first == '/')
        return "kernel.core_pattern does not put core files where the process is";
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    return limit.rlim_max >= 1024 * 1024 ? NULL : "core files are limited for this user already";
}

static const char *no_cgroup(void)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (kg_read_file("/proc/self/cgroup", 65536, &text, NULL) < 0)
        return "the kernel has no cgroups";
    for (const char *at = strchr(kg_buf_terminate(&text), '/'); at != NULL;
         at = strchr(at + 1, '/'))
        if (at[1] != '\n')
            return NULL;
    return "this test runs in the topmost cgroups, which have no name to hide";
}

/* -- the rows ---------------------------------------------------------------------------------- */

enum who { ANYBODY, ROOT, USER };

/*
 * Landlock, where the kernel has it, stands behind many of these: it keeps a cage from changing
 * files, from looking into other processes, from signals and abstract sockets. There it goes too.
 */

struct row {
    const char *name;
    unsigned without;
    const char *words[4];
    const char *succeeds; /* NULL: the kernel's own refusal, which is any other than the next */
    const char *fails;
    const char *shown; /* see struct weak_cage */
    const char *address;
    enum who who;
    const char *(*missing)(void); /* why it cannot be shown here, or NULL */
};

static const struct row rows[] = {
    /*
     * root. All of /proc is read-only besides, so that a slip in the drop alone does not give the
     * host away: both are taken away here.
     */
    {"root_that_was_dropped_cannot_write_core_pattern",
     WITHOUT_DROP_ROOT | WITHOUT_PROC_READ_ONLY | WITHOUT_LANDLOCK,
     {"write", CORE_PATTERN_FILE},
     "ok",
     "EACCES",
     .who = ROOT},
    {"proc_sys_cannot_be_written",
     WITHOUT_PROC_READ_ONLY | WITHOUT_LANDLOCK,
     {"mount-is-read-only", "/proc/sys"},
     "no",
     "yes"},
    {"place_in_the_kernels_list_of_victims_is_not_changed",
     WITHOUT_PROC_READ_ONLY | WITHOUT_LANDLOCK,
     {"oom-score", "1000"},
     "ok",
     "EROFS"},
    {"root_that_was_dropped_cannot_read_shadow",
     WITHOUT_DROP_ROOT,
     {"read", "/etc/shadow"},
     "ok",
     "ENOENT",
     .shown = "/etc/shadow",
     .who = ROOT},
    /* The kernel does not hold root to this limit. */
    {"root_that_was_dropped_cannot_fork_on",
     WITHOUT_DROP_ROOT,
     {"fork-bomb"},
     "200 ok",
     "23 EAGAIN",
     .who = ROOT},
    /* For anybody but root bwrap drops them by itself. */
    {"root_has_no_capabilities",
     WITHOUT_DROP_ROOT | WITHOUT_CAP_DROP,
     {"status", "CapEff"},
     NULL,
     "0000000000000000",
     .who = ROOT},

    /* files */
    {"root_folder_cannot_be_written",
     WITHOUT_ROOT_READ_ONLY | WITHOUT_LANDLOCK,
     {"create", "/x"},
     "ok",
     "EROFS"},
    {"root_folder_cannot_be_filled",
     WITHOUT_ROOT_READ_ONLY | WITHOUT_LANDLOCK,
     {"fill", "/x"},
     "64 MiB ok",
     "0 MiB EBADF"},
    {"etc_cannot_be_written",
     WITHOUT_ROOT_READ_ONLY | WITHOUT_LANDLOCK,
     {"create", "/etc/x"},
     "ok",
     "EROFS"},
    {"dev_cannot_be_written", WITHOUT_ROOT_READ_ONLY, {"create", "/dev/x"}, "ok", "EROFS"},
    {"tmp_cannot_be_filled_without_end",
     WITHOUT_SIZES,
     {"fill", "/tmp/x"},
     "64 MiB ok",
     "4 MiB ENOSPC"},
    {"sparse_file_holds_no_more_than_tmp",
     WITHOUT_SIZES,
     {"sparse", "/tmp/x"},
     "64 ok",
     "4 ENOSPC"},
    {"shared_memory_cannot_be_filled_without_end",
     WITHOUT_SIZES,
     {"fill", "/dev/shm/x"},
     "64 MiB ok",
     "4 MiB ENOSPC"},
    {"files_outside_are_not_there",
     0,
     {"read", "/etc/passwd"},
     "ok",
     "ENOENT",
     .shown = "/etc/passwd"},
    {"var_is_not_there", 0, {"read", "/var"}, "ok", "ENOENT", .shown = "/var"},
    {"run_is_not_there", 0, {"read", "/run"}, "ok", "ENOENT", .shown = "/run"},
    {"home_folders_are_not_there", 0, {"read", "/home"}, "ok", "ENOENT", .shown = "/home"},
    {"sys_is_not_there", 0, {"read", "/sys"}, "ok", "ENOENT", .shown = "/sys"},
    {"folders_of_other_plugins_are_not_there",
     0,
     {"find", "@secret", SECRET},
     "found",
     "ENOENT",
     .shown = target.folder},
    {"undeclared_programs_do_not_run",
     WITHOUT_LANDLOCK,
     {"run", "/usr/bin/true"},
     "ok",
     "ENOENT",
     .shown = "/usr/bin"},
    {"undeclared_programs_do_not_run_by_the_loader",
     0,
     {"run-by-loader", "/usr/bin/true"},
     "ok",
     "failed",
     .shown = "/usr/bin"},

    /* what the daemon has: /proc/1 is covered besides each of the first two */
    {"environment_of_the_daemon_is_not_seen",
     WITHOUT_EMPTY_ENVIRONMENT | WITHOUT_PROC_1_MASK | WITHOUT_LANDLOCK,
     {"find", "/proc/1/environ", SECRET},
     "found",
     "ENOENT"},
    {"paths_of_the_host_are_not_in_the_command_line",
     WITHOUT_ARGS_FD | WITHOUT_PROC_1_MASK,
     {"find", "/proc/1/cmdline", "--ro-bind"},
     "found",
     "ENOENT"},
    {"pid_1_is_not_seen",
     WITHOUT_PROC_1_MASK | WITHOUT_LANDLOCK,
     {"read", "/proc/1/environ"},
     "ok",
     "ENOENT"},
    {"memory_of_pid_1_is_not_written",
     WITHOUT_PROC_1_MASK | WITHOUT_PROC_READ_ONLY | WITHOUT_LANDLOCK,
     {"write", "/proc/1/mem"},
     "ok",
     "ENOENT"},
    /* The shim closes what would have come this far. */
    {"inherited_files_are_closed",
     WITHOUT_CLOSE_RANGE | WITHOUT_SHIM,
     {"read-inherited"},
     "found",
     "not found"},
    {"stderr_cannot_be_read_back", WITHOUT_PIPES, {"reopen-stderr"}, "found", "not found"},
    /* Those of root have no name in the cage. */
    {"keys_of_the_daemon_are_not_listed",
     WITHOUT_PROC_MASKS,
     {"find", "/proc/keys", SECRET},
     "found",
     "EACCES",
     .who = USER},
    {"command_line_of_the_kernel_is_not_seen",
     WITHOUT_PROC_MASKS,
     {"read", "/proc/cmdline"},
     "ok",
     "EACCES"},
    {"keys_of_the_daemon_are_not_used", WITHOUT_CALL_FILTER, {"key", SECRET}, "ok", "ENOSYS"},

    /* other processes */
    {"processes_of_the_host_get_no_signal",
     WITHOUT_PID_NAMESPACE | WITHOUT_LANDLOCK,
     {"kill", "@victim", "0"},
     "ok",
     "ESRCH"},
    /* Nobody gets signal 0; that it can be sent says that there are others. */
    {"signal_to_everybody_reaches_nobody",
     WITHOUT_PID_NAMESPACE,
     {"kill", "-1", "0"},
     "ok",
     "ESRCH"},
    {"pid_1_is_not_traced", WITHOUT_CALL_FILTER | WITHOUT_LANDLOCK, {"trace-1"}, "ok", "ENOSYS"},
    {"memory_of_pid_1_is_not_read",
     WITHOUT_CALL_FILTER | WITHOUT_PROC_1_MASK | WITHOUT_LANDLOCK,
     {"memory-of-1"},
     "ok",
     "ENOSYS"},
    {"fds_of_pid_1_are_not_taken",
     WITHOUT_CALL_FILTER | WITHOUT_LANDLOCK,
     {"fd-of-1"},
     "ok",
     "ENOSYS"},
    {"processes_are_not_compared",
     WITHOUT_CALL_FILTER | WITHOUT_LANDLOCK,
     {"call", "kcmp"},
     "ok",
     "ENOSYS"},
    {"shared_memory_of_the_host_is_not_there",
     WITHOUT_IPC_NAMESPACE | WITHOUT_CALL_FILTER,
     {"shared-memory", "@memory"},
     "ok",
     "ENOSYS"},
    {"message_queues_of_the_host_are_not_there",
     WITHOUT_IPC_NAMESPACE | WITHOUT_CALL_FILTER,
     {"message-queue", "@queue"},
     "ok",
     "ENOSYS"},
    {"name_of_the_host_is_not_seen", WITHOUT_UTS_NAMESPACE, {"hostname"}, "@host", "kaged"},
    {"cgroup_of_the_host_is_not_seen",
     WITHOUT_CGROUP_NAMESPACE,
     {"own-cgroup"},
     "shown",
     "hidden",
     .missing = no_cgroup},

    /* sockets; a name that is bound is reached through a read-only mount too */
    {"socket_of_the_daemon_is_not_connected",
     WITHOUT_ARGUMENT_FILTER,
     {"connect-unix", "@socket"},
     "ok",
     "EAFNOSUPPORT",
     .shown = target.folder},
    {"abstract_sockets_of_the_host_are_not_connected",
     WITHOUT_ARGUMENT_FILTER | WITHOUT_NET_NAMESPACE | WITHOUT_LANDLOCK,
     {"connect-abstract", "@abstract"},
     "ok",
     "EAFNOSUPPORT"},
    {"unix_sockets_are_not_made",
     WITHOUT_ARGUMENT_FILTER,
     {"socket", "1", "1", "0"},
     "ok",
     "EAFNOSUPPORT"},
    {"datagram_pairs_are_not_made",
     WITHOUT_ARGUMENT_FILTER,
     {"socketpair", "1", "2"},
     "ok",
     "ESOCKTNOSUPPORT"},
    {"localhost_of_the_host_is_not_reached",
     WITHOUT_NET_NAMESPACE,
     {"connect-port", "127.0.0.1", "@port"},
     "ok",
     "ECONNREFUSED"},
    {"metadata_service_is_not_reached",
     WITHOUT_NET_NAMESPACE,
     {"connect-port", "169.254.169.254", "80"},
     "ok",
     "ENETUNREACH",
     .address = "169.254.169.254"},
    {"vsock_is_not_made",
     WITHOUT_ARGUMENT_FILTER,
     {"socket", "40", "1", "0"},
     "ok",
     "EAFNOSUPPORT",
     .missing = no_vsock},
    {"kernel_crypto_is_not_reached",
     WITHOUT_ARGUMENT_FILTER,
     {"socket", "38", "5", "0"},
     "ok",
     "ESOCKTNOSUPPORT",
     .missing = no_alg},
    {"packet_sockets_are_not_tried",
     WITHOUT_ARGUMENT_FILTER,
     {"socket", "17", "3", "0"},
     NULL,
     "EAFNOSUPPORT",
     .missing = no_packet},
    {"key_sockets_are_not_tried",
     WITHOUT_ARGUMENT_FILTER,
     {"socket", "15", "3", "0"},
     NULL,
     "EAFNOSUPPORT",
     .missing = no_key_family},
    {"netfilter_is_not_reached",
     WITHOUT_ARGUMENT_FILTER,
     {"socket", "16", "3", "12"},
     NULL,
     "EPROTONOSUPPORT"},

    /* the kernel. --disable-userns is a second layer of what needs a namespace */
    {"user_namespace_is_not_cloned",
     WITHOUT_ARGUMENT_FILTER | WITHOUT_USERNS_DISABLED,
     {"call", "clone-newuser"},
     "ok",
     "EPERM"},
    {"user_namespace_is_not_unshared",
     WITHOUT_CALL_FILTER | WITHOUT_USERNS_DISABLED,
     {"userns"},
     "ok",
     "ENOSYS"},
    {"nothing_is_mounted",
     WITHOUT_CALL_FILTER | WITHOUT_USERNS_DISABLED | WITHOUT_LANDLOCK,
     {"nested-mount"},
     "ok",
     "ENOSYS"},
    {"root_is_not_changed",
     WITHOUT_CALL_FILTER | WITHOUT_USERNS_DISABLED,
     {"nested-chroot"},
     "ok",
     "ENOSYS"},
    {"io_uring_is_not_there", WITHOUT_CALL_FILTER, {"io-uring"}, "ok", "ENOSYS"},
    {"userfaultfd_is_not_there", WITHOUT_CALL_FILTER, {"userfaultfd"}, "ok", "ENOSYS"},
    {"perf_is_not_there", WITHOUT_CALL_FILTER, {"perf"}, NULL, "ENOSYS"},
    {"bpf_is_not_there", WITHOUT_CALL_FILTER, {"bpf"}, NULL, "ENOSYS"},
    {"file_handles_are_not_made", WITHOUT_CALL_FILTER, {"file-handle"}, "ok", "ENOSYS"},
    {"file_handles_are_not_opened",
     WITHOUT_CALL_FILTER,
     {"call", "open_by_handle_at"},
     NULL,
     "ENOSYS"},
    {"keyrings_are_not_there", WITHOUT_CALL_FILTER, {"call", "keyctl"}, NULL, "ENOSYS"},
    {"personality_is_not_changed",
     WITHOUT_CALL_FILTER,
     {"call", "personality-other"},
     "ok",
     "ENOSYS"},
    {"namespaces_are_not_entered", WITHOUT_CALL_FILTER, {"call", "setns"}, NULL, "ENOSYS"},
    {"mount_trees_are_not_opened", WITHOUT_CALL_FILTER, {"call", "open_tree"}, NULL, "ENOSYS"},
    {"modules_are_not_tried",
     WITHOUT_CALL_FILTER,
     {"call", "init_module"},
     NULL,
     "ENOSYS",
     .missing = no_modules},
    {"nothing_is_unmounted", WITHOUT_CALL_FILTER, {"call", "umount2"}, NULL, "ENOSYS"},
    {"root_is_not_exchanged", WITHOUT_CALL_FILTER, {"call", "pivot_root"}, NULL, "ENOSYS"},
    {"mounts_are_not_moved", WITHOUT_CALL_FILTER, {"call", "move_mount"}, NULL, "ENOSYS"},
    {"file_systems_are_not_opened", WITHOUT_CALL_FILTER, {"call", "fsopen"}, NULL, "ENOSYS"},
    {"keys_are_not_added", WITHOUT_CALL_FILTER, {"call", "add_key"}, NULL, "ENOSYS"},
    {"memory_of_others_is_not_written",
     WITHOUT_CALL_FILTER,
     {"call", "process_vm_writev"},
     NULL,
     "ENOSYS"},
    {"kexec_is_not_tried",
     WITHOUT_CALL_FILTER,
     {"call", "kexec_load"},
     NULL,
     "ENOSYS",
     .missing = no_kexec},
    {"console_is_not_asked", WITHOUT_ARGUMENT_FILTER, {"call", "tioclinux"}, NULL, "EPERM"},
    {"line_disciplines_are_not_loaded",
     WITHOUT_ARGUMENT_FILTER,
     {"call", "tiocsetd"},
     NULL,
     "EPERM"},
    {"setuid_bits_are_not_set", WITHOUT_ARGUMENT_FILTER, {"setuid-bits"}, NULL, "none"},
    {"clone3_is_not_there", WITHOUT_CALL_FILTER, {"call", "clone3"}, NULL, "ENOSYS"},
    {"openat2_is_not_there", WITHOUT_CALL_FILTER, {"call", "openat2"}, NULL, "ENOSYS"},

    /* terminals */
    {"nothing_is_typed_into_a_terminal_of_the_cage",
     WITHOUT_ARGUMENT_FILTER | WITHOUT_FEW_DEVICES,
     {"type-into-own-terminal", "0"},
     "ok",
     "ENOENT",
     .missing = no_tiocsti},
    {"nothing_is_typed_into_a_terminal_with_high_bits",
     WITHOUT_ARGUMENT_FILTER | WITHOUT_FEW_DEVICES,
     {"type-into-own-terminal", "0x100000000"},
     "ok",
     "ENOENT",
     .missing = no_tiocsti},

    /* using things up */
    {"fork_bomb_is_bounded", WITHOUT_PROCESS_LIMIT, {"fork-bomb"}, "200 ok", "23 EAGAIN"},
    {"thread_bomb_is_bounded", WITHOUT_PROCESS_LIMIT, {"thread-bomb"}, "200 ok", "23 EAGAIN"},
    /* Held by whoever may read it, it makes the host's programs wait that want to write. */
    {"leases_are_not_taken", WITHOUT_ARGUMENT_FILTER, {"lease", "/tmp/x"}, "ok", "EINVAL"},
    {"file_system_of_the_host_is_not_flushed",
     WITHOUT_CALL_FILTER,
     {"flush-filesystem", "/usr/lib"},
     "ok",
     "ENOSYS"},
    {"open_files_are_bounded", WITHOUT_LIMITS, {"files"}, "10000 ok", "4093 EMFILE"},
    {"queued_signals_are_bounded", WITHOUT_SHIM, {"signals"}, "10000 ok", "1024 EAGAIN"},
    {"handler_of_core_dumps_is_not_called", WITHOUT_ARGUMENT_FILTER, {"core-limit", "0"}, "0", "1"},
    {"core_is_not_dumped",
     WITHOUT_LIMITS | WITHOUT_SHIM,
     {"core"},
     "dumped",
     "not dumped",
     .missing = no_core_files},
};

static struct cage_plan *plan_of(const struct row *row)
{
    const char *command[KG_COUNT(row->words) + 2] = {"./probe"};
    for (size_t i = 0; i < KG_COUNT(row->words); i++)
        command[i + 1] = meaning(row->words[i]);
    return world_plan(world, command);
}

static void assert_succeeds(const struct row *row, const char *line)
{
    const char *wanted = meaning(row->succeeds);
    if (wanted == NULL && strcmp(line, row->fails) == 0)
        fail_msg("even without its defence it says \"%s\"", line);
    if (wanted != NULL && strcmp(line, wanted) != 0)
        fail_msg("without its defence it says \"%s\" in place of \"%s\"", line, wanted);
}

/* The real cage was tried all the same; and a CI machine cannot help what its kernel lacks. */
static void say_skipped(const char *test, const char *missing)
{
    if (missing != NULL)
        printf("SKIP %s: %s\n", test, missing);
}

static void attack_succeeds_only_without_the_defence(void **state)
{
    const struct row *row = *state;
    const char *missing = row->missing != NULL ? row->missing() : NULL;
    struct cage_plan *plan = plan_of(row);
    if (missing == NULL) {
        struct weak_cage weak = {.without = row->without,
                                 .shown = row->shown,
                                 .address = row->address,
                                 .log = target.secret};
        struct weak_run *weakly = weak_start(plan, &weak);
        assert_succeeds(row, weak_line(weakly));
        weak_free(weakly);
    }
    /* A cage that is watched has a network of its own, in which nobody listens. */
    bool has_network = plan->watched && strcmp(row->fails, "ENETUNREACH") == 0;
    struct run *run = run_plan(world, plan);
    assert_string_equal(run_line(run), has_network ? "ECONNREFUSED" : row->fails);
    run_free(&run);
    cage_plan_free(plan);
    say_skipped(row->name, missing);
}

/* -- what takes more than a line --------------------------------------------------------------- */

static struct weak_run *start_weakly(unsigned without, const char *const *command)
{
    struct cage_plan *plan = world_plan(world, command);
    struct weak_cage weak = {.without = without};
    struct weak_run *run = weak_start(plan, &weak);
    cage_plan_free(plan);
    return run;
}

/* A process group reaches over namespaces: bwrap, outside, is in that of a cage without its own. */
static void signals_to_the_own_group_stay_inside(void **state)
{
    (void)state;
    const char *const *command = COMMAND("./probe", "signal-group", "10");
    struct weak_run *weakly = start_weakly(WITHOUT_NEW_SESSION | WITHOUT_LANDLOCK, command);
    weak_wait(weakly);
    assert_true(WIFSIGNALED(weakly->status));
    assert_int_equal(WTERMSIG(weakly->status), SIGUSR1);
    weak_free(weakly);

    kg_auto(run_free) struct run *run = run_start(world, command);
    assert_string_equal(run_line(run), "ok");
    assert_int_equal(run->how.exit_code, 0);
}

/* The letter of /proc/PID/stat: R, S, T, Z; 0 if there is no such process. */
static char state_of(pid_t pid)
{
    kg_auto(kg_free) char *path = kg_format("/proc/%d/stat", pid);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (kg_read_file(path, 4096, &text, NULL) < 0)
        return '\0';
    const char *after = strrchr(kg_buf_terminate(&text), ')');
    return after != NULL ? after[2] : '\0';
}

static bool plugin_is_stopped(void *data)
{
    const struct run *run = data;
    return run->exited || state_of(cage_child_pid(run->child)) == 'T';
}

static void wait_until_stopped(pid_t pid)
{
    int status = 0;
    uint64_t deadline = kg_monotonic_ms() + WORLD_WAIT_MS;
    pid_t got;
    while ((got = waitpid(pid, &status, WUNTRACED | WNOHANG)) == 0 && kg_monotonic_ms() < deadline)
        usleep(1000);
    if (got != pid || !WIFSTOPPED(status))
        fail_msg("it is not stopped: status %#x, state %c", (unsigned)status, state_of(pid));
}

static void stopping_the_own_group_stops_only_the_plugin(void **state)
{
    (void)state;
    const char *const *command = COMMAND("./probe", "signal-group", "19");
    struct weak_run *weakly = start_weakly(WITHOUT_NEW_SESSION | WITHOUT_LANDLOCK, command);
    wait_until_stopped(weakly->bwrap);
    kill(weakly->bwrap, SIGKILL);
    weak_wait(weakly);
    weak_free(weakly);

    kg_auto(run_free) struct run *run = run_start(world, command);
    /* That it stops is no event of the loop: it has to be looked at again and again. */
    uint64_t deadline = kg_monotonic_ms() + WORLD_WAIT_MS;
    while (!loop_run_until(world->loop, plugin_is_stopped, run, 10) && kg_monotonic_ms() < deadline)
        continue;
    assert_true(plugin_is_stopped(run));
    assert_false(run->exited);
    assert_int_not_equal(state_of(run->bwrap), 'T');
    cage_signal(run->child, SIGKILL);
    run_wait_exit(run);
    assert_int_equal(run->how.signal, SIGKILL);
}

/* The numbers of calls mean others there, so no filter could tell them apart. */
static void calls_of_32_bit_programs_end_the_plugin(void **state)
{
    (void)state;
    const char *const *command = COMMAND("./probe", "int80");
    struct weak_run *weakly = start_weakly(WITHOUT_CALL_FILTER | WITHOUT_ARGUMENT_FILTER, command);
    weak_wait(weakly);
    bool are_there = strcmp(kg_buf_terminate(&weakly->out), "ok\n") == 0;
    weak_free(weakly);
    struct run *run = run_start(world, command);
    run_wait_exit(run);
    assert_int_equal(run->out.length, 0);
    assert_int_equal(run->how.signal, are_there ? SIGSYS : SIGSEGV);
    run_free(&run);
    say_skipped(__func__, are_there ? NULL : "the kernel runs no 32-bit programs");
}

/* A terminal in raw mode: what is typed can be counted at once. */
static int open_terminal(char *ret_path, size_t size)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    assert_int_equal(ptsname_r(master, ret_path, size), 0);
    kg_auto(kg_close) int slave = open(ret_path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios settings;
    assert_int_equal(tcgetattr(slave, &settings), 0);
    cfmakeraw(&settings);
    assert_int_equal(tcsetattr(slave, TCSANOW, &settings), 0);
    /* Whoever is in its session may open /dev/tty, but not this file. */
    return master;
}

static int typed_into(const char *path)
{
    kg_auto(kg_close) int slave = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    int count = -1;
    assert_int_equal(ioctl(slave, FIONREAD, &count), 0);
    return count;
}

/* There is no terminal in a cage. If there were one, the filter would be enough. */
static void nothing_is_typed_where_there_is_a_terminal(void **state)
{
    (void)state;
    static const char *const high_bits[] = {"0", "0x100000000"};
    for (size_t i = 0; i < KG_COUNT(high_bits); i++) {
        const char *const *command = COMMAND("./probe", "type-into-own-terminal", high_bits[i]);
        struct cage_plan *plan = world_plan(world, command);
        struct weak_cage weak = {.without = WITHOUT_FEW_DEVICES};
        struct weak_run *weakly = weak_start(plan, &weak);
        assert_string_equal(weak_line(weakly), "EPERM");
        weak_free(weakly);
        cage_plan_free(plan);
    }
}

/* The shell that started the daemon would run what is typed. Sessions, the filter and the lack of
 * any terminal in a cage all stop it.
 */
static void nothing_is_typed_into_the_terminal_of_the_daemon(void **state)
{
    (void)state;
    const char *const *command = COMMAND("./probe", "type-into-terminal");
    const char *missing = no_tiocsti();
    if (missing == NULL) {
        char path[64];
        kg_auto(kg_close) int master = open_terminal(path, sizeof(path));
        struct cage_plan *plan = world_plan(world, command);
        struct weak_cage weak = {.without = WITHOUT_OWN_SESSION | WITHOUT_NEW_SESSION |
                                            WITHOUT_ARGUMENT_FILTER | WITHOUT_FEW_DEVICES,
                                 .terminal = path};
        kg_auto(kg_close) int slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
        struct weak_run *weakly = weak_start(plan, &weak);
        assert_string_equal(weak_line(weakly), "ok");
        assert_int_equal(typed_into(path), 1);
        weak_free(weakly);
        cage_plan_free(plan);
    }
    struct run *run = run_start(world, command);
    assert_string_equal(run_line(run), "ENOENT");
    run_free(&run);
    say_skipped("nothing_is_typed_into_the_terminal_of_the_daemon", missing);
}

static void terminal_of_the_daemon_is_not_opened(void **state)
{
    (void)state;
    const char *const *command = COMMAND("./probe", "open-terminal");
    char path[64];
    kg_auto(kg_close) int master = open_terminal(path, sizeof(path));
    struct cage_plan *plan = world_plan(world, command);
    struct weak_cage weak = {.without =
                                 WITHOUT_OWN_SESSION | WITHOUT_NEW_SESSION | WITHOUT_FEW_DEVICES,
                             .terminal = path};
    struct weak_run *weakly = weak_start(plan, &weak);
    assert_string_equal(weak_line(weakly), "ok");
    weak_free(weakly);
    struct run *run = run_plan(world, plan);
    assert_string_equal(run_line(run), "ENOENT");
    run_free(&run);
    cage_plan_free(plan);
}

/* The plugin's own process of a weak cage, once it has said a line. */
static pid_t plugin_of(struct weak_run *run)
{
    char byte = '\0';
    while (byte != '\n')
        assert_int_equal(read(run->out_fd, &byte, 1), 1);
    return cage_first_child(cage_first_child(run->bwrap));
}

static bool is_running(pid_t pid)
{
    char letter = state_of(pid);
    return letter != '\0' && letter != 'Z' && letter != 'X';
}

/* That the real cage goes with its bwrap, and with its spawner, is among the other tests. */
static void cage_would_outlive_its_bwrap(void **state)
{
    (void)state;
    struct weak_run *weakly =
        start_weakly(WITHOUT_DIE_WITH_PARENT, COMMAND("./probe", "wait-forever"));
    pid_t plugin = plugin_of(weakly), pid1 = cage_parent_of(plugin);
    assert_true(plugin > 0 && pid1 > 0);
    kill(weakly->bwrap, SIGKILL);
    assert_int_equal(waitpid(weakly->bwrap, NULL, 0), weakly->bwrap);
    assert_true(is_running(plugin));
    kill(pid1, SIGKILL);
    weak_free(weakly);
}

/* A file that only root may read, in a folder of the system that is bound whole. */
static void files_of_root_are_not_read_by_the_user_of_the_cage(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return;
    struct cage_plan *plan = world_plan(world, COMMAND("./probe", "read", "/only-roots"));
    struct cage_steps old = plan->steps;
    plan->steps = (struct cage_steps){0};
    cage_steps_add(&plan->steps, CAGE_STEP_SYSTEM, "/only-roots", target.secret, 0);
    for (size_t i = 0; i < old.count; i++)
        cage_steps_add(&plan->steps, old.items[i].kind, old.items[i].path, old.items[i].source,
                       old.items[i].bytes);
    cage_steps_free(&old);
    assert_int_equal(chmod(target.secret, 0600), 0);
    struct weak_cage weak = {.without = WITHOUT_DROP_ROOT};
    struct weak_run *weakly = weak_start(plan, &weak);
    assert_string_equal(weak_line(weakly), "ok");
    weak_free(weakly);
    struct run *run = run_plan(world, plan);
    assert_string_equal(run_line(run), "EACCES");
    run_free(&run);
    assert_int_equal(chmod(target.secret, 0644), 0);
    cage_plan_free(plan);
}

/* Empty files take memory of the kernel's, which no process has: who sums up processes misses it.
 */
static void files_in_memory_do_not_escape_the_watchdog(void **state)
{
    (void)state;
    const struct {
        const char *folder;
        unsigned kibibytes;
    } places[] = {{"/tmp", 10000}, {"/dev/shm", 10000}};
    for (size_t i = 0; i < KG_COUNT(places); i++) {
        struct run *run = run_start(world, COMMAND("./probe", "keep-inodes", places[i].folder));
        run_wait_line(run);
        uint64_t of_processes = cage_memory_of(cage_child_root(run->child));
        assert_true(of_processes < (uint64_t)places[i].kibibytes * 1024);
        assert_true(cage_child_memory(run->child) >= (uint64_t)places[i].kibibytes * 1024);
        cage_signal(run->child, SIGKILL);
        run_wait_exit(run);
        run_free(&run);
    }
}

static void every_attack_fails_for_an_ordinary_user_too(void **state)
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

static bool concerns_us(const struct row *row)
{
    return row->who == ANYBODY || (row->who == ROOT) == (geteuid() == 0);
}

int main(void)
{
    static const struct CMUnitTest plain[] = {
        cmocka_unit_test(signals_to_the_own_group_stay_inside),
        cmocka_unit_test(stopping_the_own_group_stops_only_the_plugin),
        cmocka_unit_test(calls_of_32_bit_programs_end_the_plugin),
        cmocka_unit_test(nothing_is_typed_where_there_is_a_terminal),
        cmocka_unit_test(nothing_is_typed_into_the_terminal_of_the_daemon),
        cmocka_unit_test(terminal_of_the_daemon_is_not_opened),
        cmocka_unit_test(cage_would_outlive_its_bwrap),
        cmocka_unit_test(files_of_root_are_not_read_by_the_user_of_the_cage),
        cmocka_unit_test(files_in_memory_do_not_escape_the_watchdog),
        cmocka_unit_test(every_attack_fails_for_an_ordinary_user_too),
        cmocka_unit_test(all_of_it_holds_while_it_is_watched),
    };
    static struct CMUnitTest tests[KG_COUNT(rows) + KG_COUNT(plain)];
    size_t count = 0;
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        if (concerns_us(&rows[i]))
            tests[count++] =
                (struct CMUnitTest){.name = rows[i].name,
                                    .test_func = attack_succeeds_only_without_the_defence,
                                    .initial_state = (void *)&rows[i]};
    for (size_t i = 0; i < KG_COUNT(plain); i++)
        tests[count++] = plain[i];
    return _cmocka_run_group_tests("cage attack", tests, count, make_targets, free_targets);
}
