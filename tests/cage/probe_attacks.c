/*
 * Attacks that are carried through: each does what an attacker would, far enough that "ok" means
 * that he had it, and no further, so that nothing is harmed where it succeeds.
 */
#include "probe.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST_OTHER_FD 3
#define FILES_TRIED    10000
#define SIGNALS_TRIED  10000
#define INODES_TRIED   10000
#define TERABYTE       ((off_t)1 << 40)
#define MEBIBYTE       ((size_t)1024 * 1024)
#define SECRET         "kaged-attack-secret"

/* -- what can be read -------------------------------------------------------------------------- */

/* Says whether the text is in the first bytes of the file. */
static int attack_find(char **words)
{
    static char bytes[65536];
    int fd = open(words[0], O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return say(-1);
    size_t length = 0;
    for (ssize_t got = 1; got > 0 && length<sizeof(bytes); length += got> 0 ? (size_t)got : 0)
        got = read(fd, bytes + length, sizeof(bytes) - length);
    puts(memmem(bytes, length, words[1], strlen(words[1])) != NULL ? "found" : "not found");
    return 0;
}

/* The same, once it is told to look. */
static int attack_find_when_told(char **words)
{
    char byte;
    puts("ready");
    fflush(stdout);
    return read(STDIN_FILENO, &byte, 1) == 1 ? attack_find(words) : say(-1);
}

/* A file of the daemon's that is still open has the secret in it. */
static int attack_read_inherited(char **words)
{
    (void)words;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char text[sizeof(SECRET)] = "";
        int fd = atoi(entry->d_name);
        if (fd >= FIRST_OTHER_FD && pread(fd, text, sizeof(text) - 1, 0) > 0 &&
            strcmp(text, SECRET) == 0) {
            puts("found");
            return 0;
        }
    }
    puts("not found");
    return 0;
}

/* Stderr, which is only open for writing, opened for reading. */
static int attack_reopen_stderr(char **words)
{
    (void)words;
    char text[sizeof(SECRET)] = "";
    int fd = open("/proc/self/fd/2", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool is_read = read(fd, text, sizeof(text) - 1) > 0;
    puts(is_read && strcmp(text, SECRET) == 0 ? "found" : "not found");
    return 0;
}

static int attack_key(char **words)
{
    return say(syscall(SYS_request_key, "user", words[0], NULL, 0));
}

/* True if no line of /proc/self/cgroup names a group of the host. */
static int attack_own_cgroup(char **words)
{
    (void)words;
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[4096];
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strcmp(strrchr(line, ':'), ":/\n") == 0)
            continue;
        puts("shown");
        return 0;
    }
    puts("hidden");
    return 0;
}

/* -- who can be reached ------------------------------------------------------------------------ */

static int attack_connect_port(char **words)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[1]))};
    inet_pton(AF_INET, words[0], &to.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return say(connect(fd, (struct sockaddr *)&to, sizeof(to)));
}

static int connect_unix(const char *name, size_t at)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path + at, sizeof(to.sun_path) - at, "%s", name);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + at + strlen(name));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return say(fd < 0 ? fd : connect(fd, (struct sockaddr *)&to, length));
}

static int attack_connect_unix(char **words)
{
    return connect_unix(words[0], 0);
}

static int attack_connect_abstract(char **words)
{
    return connect_unix(words[0], 1);
}

static int attack_kill(char **words)
{
    return say(kill(atoi(words[0]), atoi(words[1])));
}

/* To everybody in the process group, whatever namespace he is in. */
static int attack_signal_group(char **words)
{
    signal(atoi(words[0]), SIG_IGN);
    return say(kill(0, atoi(words[0])));
}

static int attack_shared_memory(char **words)
{
    return say(syscall(SYS_shmget, strtol(words[0], NULL, 0), 0, 0));
}

static int attack_message_queue(char **words)
{
    return say(syscall(SYS_mq_open, words[0], O_RDONLY, 0, NULL));
}

/* -- pid 1, bwrap's reaper, of the same user --------------------------------------------------- */

static int attack_trace_1(char **words)
{
    (void)words;
    long result = ptrace(PTRACE_ATTACH, 1, NULL, NULL);
    int errnum = errno;
    if (result == 0) {
        waitpid(1, NULL, __WALL);
        ptrace(PTRACE_DETACH, 1, NULL, NULL);
    }
    errno = errnum;
    return say(result);
}

static int attack_memory_of_1(char **words)
{
    (void)words;
    unsigned long address = 4096;
    FILE *maps = fopen("/proc/1/maps", "re");
    if (maps != NULL && fscanf(maps, "%lx", &address) != 1)
        puts("no maps");
    if (maps != NULL)
        fclose(maps);
    char bytes[16];
    struct iovec to = {bytes, sizeof(bytes)}, from = {(void *)address, sizeof(bytes)};
    return say(syscall(SYS_process_vm_readv, 1, &to, 1, &from, 1, 0));
}

static int attack_fd_of_1(char **words)
{
    (void)words;
    int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
    return say(syscall(SYS_pidfd_getfd, pidfd, STDERR_FILENO, 0));
}

/* -- the kernel -------------------------------------------------------------------------------- */

static int attack_userns(char **words)
{
    (void)words;
    return say(syscall(SYS_unshare, CLONE_NEWUSER));
}

/* Full rights in a namespace of his own, and with them mounts over what the cage shows. */
static int attack_nested_mount(char **words)
{
    (void)words;
    if (syscall(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return say(-1);
    return say(mount("tmpfs", "/tmp", "tmpfs", 0, NULL));
}

static int attack_nested_chroot(char **words)
{
    (void)words;
    if (syscall(SYS_unshare, CLONE_NEWUSER) < 0)
        return say(-1);
    return say(chroot("/tmp"));
}

static int attack_io_uring(char **words)
{
    (void)words;
    struct io_uring_params parameters = {0};
    return say(syscall(SYS_io_uring_setup, 4, &parameters));
}

static int attack_userfaultfd(char **words)
{
    (void)words;
    return say(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
}

static int attack_bpf(char **words)
{
    (void)words;
    union bpf_attr map = {
        .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return say(syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof(map)));
}

static int attack_perf(char **words)
{
    (void)words;
    struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE,
                                    .size = sizeof(event),
                                    .config = PERF_COUNT_SW_TASK_CLOCK,
                                    .exclude_kernel = 1,
                                    .exclude_hv = 1};
    return say(syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
}

static int attack_file_handle(char **words)
{
    (void)words;
    struct {
        unsigned bytes;
        int type;
        unsigned char handle[128];
    } handle = {.bytes = 128};
    int mount;
    return say(syscall(SYS_name_to_handle_at, AT_FDCWD, ".", &handle, &mount, 0));
}

static int attack_flush_filesystem(char **words)
{
    return say(syscall(SYS_syncfs, open(words[0], O_RDONLY | O_CLOEXEC)));
}

/* While it is held, whoever opens the file for writing waits, up to 45 seconds. */
static int attack_lease(char **words)
{
    int fd = open(words[0], O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
    return say(fcntl(fd, F_SETLEASE, F_RDLCK));
}

/* A program that runs as its owner, made where the host can run it. */
static int attack_setuid(char **words)
{
    int fd = open(words[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    return say(fd < 0 ? fd : fchmod(fd, 04755));
}

/* A rename that leaves a device node behind, and one that is made as such. */
static int attack_whiteout(char **words)
{
    char to[4096];
    snprintf(to, sizeof(to), "%s.moved", words[0]);
    close(open(words[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    return say(renameat2(AT_FDCWD, words[0], AT_FDCWD, to, RENAME_WHITEOUT));
}

static int attack_whiteout_node(char **words)
{
    return say(mknod(words[0], S_IFCHR | 0644, 0));
}

/* A folder is moved away, and a new one takes its place: what was in it has another name now. */
static int attack_displace(char **words)
{
    return say(rename(words[0], words[1]) < 0 ? -1 : mkdir(words[0], 0777));
}

static void print_word(int result)
{
    printf("%s ", result < 0 ? strerrorname_np(errno) : "ok");
}

/* What is guarded gets a file, is written by another name, and is moved with the folder above. */
static int attack_guarded(char **words)
{
    char made[4096], kept[4096], other[4096];
    snprintf(made, sizeof(made), "%s/made", words[0]);
    snprintf(kept, sizeof(kept), "%s/kept", words[0]);
    snprintf(other, sizeof(other), "%s/other", words[1]);
    print_word(open(made, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    print_word(link(kept, other) < 0 ? -1 : open(other, O_WRONLY | O_CLOEXEC));
    return say(rename(words[1], words[2]) < 0 ? -1 : mkdir(words[1], 0777));
}

/* -- terminals --------------------------------------------------------------------------------- */

/* The request may have bits set above those that the kernel looks at. */
static int type_into(int terminal, unsigned long high_bits)
{
    return say(syscall(SYS_ioctl, terminal, TIOCSTI | high_bits, "x"));
}

static int attack_open_terminal(char **words)
{
    (void)words;
    return say(open("/dev/tty", O_RDWR | O_CLOEXEC));
}

static int attack_type_into_terminal(char **words)
{
    (void)words;
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
    return terminal < 0 ? say(-1) : type_into(terminal, 0);
}

/* A terminal of the cage's own: without a filter it is as good as any. */
static int attack_type_into_own_terminal(char **words)
{
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    pid_t pid = fork();
    if (pid != 0) {
        waitpid(pid, NULL, 0);
        return 0;
    }
    int slave = -1;
    if (master < 0 || unlockpt(master) < 0 || setsid() < 0 ||
        (slave = open(ptsname(master), O_RDWR | O_CLOEXEC)) < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
        return say(-1);
    return type_into(slave, strtoul(words[0], NULL, 0));
}

/* -- using things up --------------------------------------------------------------------------- */

/* Each says how many it got, and what stopped it. */
static int say_count(unsigned count, unsigned tried)
{
    printf("%u %s\n", count, count < tried ? strerrorname_np(errno) : "ok");
    return 0;
}

static int attack_files(char **words)
{
    (void)words;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    unsigned count = 0;
    while (count < FILES_TRIED && open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        count++;
    return say_count(count, FILES_TRIED);
}

/* The kernel counts what is queued for all processes of a user together. */
static int attack_signals(char **words)
{
    (void)words;
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    unsigned count = 0;
    while (count < SIGNALS_TRIED && sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0)
        count++;
    return say_count(count, SIGNALS_TRIED);
}

static int attack_inodes(char **words)
{
    unsigned count = 0;
    char path[4096];
    for (int fd = 0; count < INODES_TRIED && fd >= 0; count += fd >= 0) {
        snprintf(path, sizeof(path), "%s/%u", words[0], count);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd >= 0)
            close(fd);
    }
    return say_count(count, INODES_TRIED);
}

/* The same, and keeps them. */
static int attack_keep_inodes(char **words)
{
    attack_inodes(words);
    fflush(stdout);
    return pause();
}

/* A file that claims a terabyte; says how many MiB of it can be had. */
static int attack_sparse(char **words)
{
    static char block[MEBIBYTE];
    int fd = open(words[0], O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (ftruncate(fd, TERABYTE) < 0)
        return say(-1);
    unsigned count = 0;
    while (count < 64 && write(fd, block, sizeof(block)) == (ssize_t)sizeof(block))
        count++;
    return say_count(count, 64);
}

/* -- core dumps -------------------------------------------------------------------------------- */

static int attack_core(char **words)
{
    (void)words;
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
    if (chdir("/tmp") < 0)
        return say(-1);
    pid_t pid = fork();
    if (pid == 0)
        abort();
    int status = 0;
    waitpid(pid, &status, 0);
    puts(WCOREDUMP(status) ? "dumped" : "not dumped");
    return 0;
}

/* Prints what the limit is after an attempt to set it. */
static int attack_core_limit(char **words)
{
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = strtoul(words[0], NULL, 0);
    syscall(SYS_setrlimit, RLIMIT_CORE, &limit);
    syscall(SYS_prlimit64, 0, RLIMIT_CORE, &limit, NULL);
    getrlimit(RLIMIT_CORE, &limit);
    printf("%lu\n", (unsigned long)limit.rlim_cur);
    return 0;
}

static int attack_oom_score(char **words)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    return say(fd < 0 ? fd : write(fd, words[0], strlen(words[0])));
}

/* -- other programs ---------------------------------------------------------------------------- */

static int run(char *const *argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        close(STDERR_FILENO);
        execv(argv[0], argv);
        _exit(errno == ENOENT || errno == EACCES ? errno : 255);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 255;
    if (code == ENOENT || code == EACCES)
        puts(strerrorname_np(code));
    else
        puts(code == 0 ? "ok" : "failed");
    return 0;
}

static int attack_run(char **words)
{
    char *const argv[] = {words[0], NULL};
    return run(argv);
}

/* The loader is a library that may be executed, and executes what it is given. */
static int attack_run_by_loader(char **words)
{
    char *const argv[] = {"/lib64/ld-linux-x86-64.so.2", words[0], NULL};
    return run(argv);
}

/* A program that he brought himself, in a place that he may write to. */
static int attack_run_copy(char **words)
{
    struct stat status;
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = open(words[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    if (from < 0 || to < 0 || fstat(from, &status) < 0 ||
        sendfile(to, from, NULL, (size_t)status.st_size) != status.st_size)
        return say(-1);
    close(to);
    char *const argv[] = {words[0], "exit", "0", NULL};
    return run(argv);
}

/* -- the table --------------------------------------------------------------------------------- */

const struct attempt probe_attacks[] = {
    {"find", 2, attack_find},
    {"find-when-told", 2, attack_find_when_told},
    {"read-inherited", 0, attack_read_inherited},
    {"reopen-stderr", 0, attack_reopen_stderr},
    {"key", 1, attack_key},
    {"own-cgroup", 0, attack_own_cgroup},
    {"connect-port", 2, attack_connect_port},
    {"connect-unix", 1, attack_connect_unix},
    {"connect-abstract", 1, attack_connect_abstract},
    {"kill", 2, attack_kill},
    {"signal-group", 1, attack_signal_group},
    {"shared-memory", 1, attack_shared_memory},
    {"message-queue", 1, attack_message_queue},
    {"trace-1", 0, attack_trace_1},
    {"memory-of-1", 0, attack_memory_of_1},
    {"fd-of-1", 0, attack_fd_of_1},
    {"userns", 0, attack_userns},
    {"nested-mount", 0, attack_nested_mount},
    {"nested-chroot", 0, attack_nested_chroot},
    {"io-uring", 0, attack_io_uring},
    {"userfaultfd", 0, attack_userfaultfd},
    {"bpf", 0, attack_bpf},
    {"perf", 0, attack_perf},
    {"file-handle", 0, attack_file_handle},
    {"flush-filesystem", 1, attack_flush_filesystem},
    {"lease", 1, attack_lease},
    {"setuid", 1, attack_setuid},
    {"whiteout", 1, attack_whiteout},
    {"whiteout-node", 1, attack_whiteout_node},
    {"displace", 2, attack_displace},
    {"guarded", 3, attack_guarded},
    {"open-terminal", 0, attack_open_terminal},
    {"type-into-terminal", 0, attack_type_into_terminal},
    {"type-into-own-terminal", 1, attack_type_into_own_terminal},
    {"files", 0, attack_files},
    {"signals", 0, attack_signals},
    {"inodes", 1, attack_inodes},
    {"keep-inodes", 1, attack_keep_inodes},
    {"sparse", 1, attack_sparse},
    {"core", 0, attack_core},
    {"core-limit", 1, attack_core_limit},
    {"oom-score", 1, attack_oom_score},
    {"run", 1, attack_run},
    {"run-by-loader", 1, attack_run_by_loader},
    {"run-copy", 1, attack_run_copy},
};
const size_t probe_attack_count = sizeof(probe_attacks) / sizeof(probe_attacks[0]);
