/*
 * Runs in a cage and tries one thing: `probe ATTEMPT ARGUMENT...` prints one line with what
 * came of it, "ok" or the name of the error, or what the attempt's row says.
 */
#include "probe.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

#define BIT_32 (1ul << 32)
#define MIB    ((size_t)1024 * 1024)
/* Where nothing stops an attempt, it stops itself here. */
#define BLOCKS_TRIED    64
#define PROCESSES_TRIED 200

int say(long result)
{
    puts(result < 0 ? strerrorname_np(errno) : "ok");
    return 0;
}

/* -- files ------------------------------------------------------------------------------------- */

static int try_read(char **words)
{
    return say(open(words[0], O_RDONLY | O_CLOEXEC));
}

static int try_write(char **words)
{
    return say(open(words[0], O_WRONLY | O_CLOEXEC));
}

static int try_create(char **words)
{
    return say(open(words[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
}

/* Writes three letters in the place of what was there. */
static int try_put(char **words)
{
    int fd = open(words[0], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return say(fd < 0 ? -1 : write(fd, "new", 3));
}

/* Prints the first line of a file. */
static int try_show(char **words)
{
    FILE *file = fopen(words[0], "re");
    char line[256] = "";
    if (file == NULL)
        return say(-1);
    if (fgets(line, sizeof(line), file) == NULL)
        line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    puts(line);
    return 0;
}

static int try_remove(char **words)
{
    return say(unlink(words[0]));
}

static int try_make_folder(char **words)
{
    return say(mkdir(words[0], 0700));
}

static int try_exec(char **words)
{
    char *const argv[] = {words[0], NULL};
    return say(execv(words[0], argv));
}

/* A program of its own, copied to where the plugin may write. */
static int try_copy_and_exec(char **words)
{
    static char bytes[65536];
    char path[4096];
    snprintf(path, sizeof(path), "%s/copy", words[0]);
    char *const argv[] = {path, "hello", NULL};
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    ssize_t got;
    while ((got = read(from, bytes, sizeof(bytes))) > 0)
        if (write(to, bytes, (size_t)got) != got)
            return say(-1);
    close(to);
    return say(got < 0 ? -1 : execv(path, argv));
}

static int try_mount_is_read_only(char **words)
{
    struct statvfs status;
    if (statvfs(words[0], &status) < 0)
        return say(-1);
    puts((status.f_flag & ST_RDONLY) != 0 ? "yes" : "no");
    return 0;
}

/* Says how many whole MiB fit, and what stopped it. */
static int try_fill(char **words)
{
    static char block[1024 * 1024];
    int fd = open(words[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    unsigned blocks = 0;
    while (blocks < BLOCKS_TRIED && write(fd, block, sizeof(block)) == (ssize_t)sizeof(block))
        blocks++;
    ssize_t last = write(fd, block, sizeof(block));
    printf("%u MiB %s\n", blocks, last < 0 ? strerrorname_np(errno) : "ok");
    return 0;
}

static int try_list_fds(char **words)
{
    (void)words;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(folder))
            printf("%s ", entry->d_name);
    puts("");
    return 0;
}

static int try_stdio_kinds(char **words)
{
    (void)words;
    for (int fd = 0; fd < 3; fd++) {
        struct stat status;
        printf("%s ", fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode) ? "pipe" : "other");
    }
    puts("");
    return 0;
}

/* Says which calls made a file with such a bit. */
static void make_with(mode_t bit, int *made)
{
    const char *path = "/tmp/bits";
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0755);
    const struct {
        const char *name;
        long result;
    } tries[] = {
        {"chmod", syscall(SYS_chmod, path, 0755 | bit)},
        {"fchmod", syscall(SYS_fchmod, fd, 0755 | bit)},
        {"fchmodat", syscall(SYS_fchmodat, AT_FDCWD, path, 0755 | bit)},
        {"fchmodat2", syscall(SYS_fchmodat2, AT_FDCWD, path, 0755 | bit, 0)},
        {"chmod-high", syscall(SYS_chmod, path, (0755 | bit) | BIT_32)},
        {"open", syscall(SYS_open, "/tmp/b1", O_CREAT | O_RDWR, 0755 | bit)},
        {"openat", syscall(SYS_openat, AT_FDCWD, "/tmp/b2", O_CREAT | O_RDWR, 0755 | bit)},
        {"tmpfile", syscall(SYS_openat, AT_FDCWD, "/tmp", O_TMPFILE | O_RDWR, 0755 | bit)},
        {"creat", syscall(SYS_creat, "/tmp/b3", 0755 | bit)},
        {"mkdir", syscall(SYS_mkdir, "/tmp/b4", 0755 | bit)},
        {"mkdirat", syscall(SYS_mkdirat, AT_FDCWD, "/tmp/b5", 0755 | bit)},
        {"mknod", syscall(SYS_mknod, "/tmp/b6", S_IFREG | 0755 | bit, 0)},
        {"mknodat", syscall(SYS_mknodat, AT_FDCWD, "/tmp/b7", S_IFREG | 0755 | bit, 0)},
    };
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
        if (tries[i].result >= 0 && ++*made)
            printf("%s ", tries[i].name);
}

static int try_setuid_bits(char **words)
{
    (void)words;
    int made = 0;
    umask(0);
    make_with(S_ISUID, &made);
    make_with(S_ISGID, &made);
    puts(made == 0 ? "none" : "");
    return 0;
}

/* -- sockets ----------------------------------------------------------------------------------- */

static int try_socket(char **words)
{
    return say(syscall(SYS_socket, strtoul(words[0], NULL, 0), strtoul(words[1], NULL, 0),
                       strtoul(words[2], NULL, 0)));
}

static int try_socketpair(char **words)
{
    int ends[2];
    return say(
        syscall(SYS_socketpair, strtoul(words[0], NULL, 0), strtoul(words[1], NULL, 0), 0, ends));
}

static int try_interfaces(char **words)
{
    (void)words;
    struct if_nameindex *all = if_nameindex();
    if (all == NULL)
        return say(-1);
    for (struct if_nameindex *one = all; one->if_index != 0; one++)
        printf("%s ", one->if_name);
    puts("");
    return 0;
}

static int try_connect(char **words)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(80)};
    inet_pton(AF_INET, words[0], &to.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return say(connect(fd, (struct sockaddr *)&to, sizeof(to)));
}

/* -- system calls ------------------------------------------------------------------------------ */

/* Arguments that would do nothing if the call came through. */
static const struct {
    const char *name;
    long number;
    long arguments[5];
} calls[] = {
    {"ptrace", SYS_ptrace, {PTRACE_ATTACH, 1}},
    {"process_vm_readv", SYS_process_vm_readv, {1}},
    {"process_vm_writev", SYS_process_vm_writev, {1}},
    {"pidfd_getfd", SYS_pidfd_getfd, {-1}},
    {"kcmp", SYS_kcmp, {1, 1}},
    {"keyctl", SYS_keyctl, {0, -3}},
    {"add_key", SYS_add_key, {0}},
    {"request_key", SYS_request_key, {0}},
    {"bpf", SYS_bpf, {0}},
    {"perf_event_open", SYS_perf_event_open, {0}},
    {"userfaultfd", SYS_userfaultfd, {0}},
    {"io_uring_setup", SYS_io_uring_setup, {1}},
    {"kexec_load", SYS_kexec_load, {0}},
    {"init_module", SYS_init_module, {0}},
    {"mount", SYS_mount, {0}},
    {"umount2", SYS_umount2, {0}},
    {"pivot_root", SYS_pivot_root, {0}},
    {"open_tree", SYS_open_tree, {AT_FDCWD}},
    {"move_mount", SYS_move_mount, {-1}},
    {"fsopen", SYS_fsopen, {0}},
    {"unshare", SYS_unshare, {CLONE_NEWUSER}},
    {"setns", SYS_setns, {-1}},
    {"chroot", SYS_chroot, {(long)"/"}},
    {"open_by_handle_at", SYS_open_by_handle_at, {AT_FDCWD}},
    {"name_to_handle_at", SYS_name_to_handle_at, {AT_FDCWD}},
    {"openat2", SYS_openat2, {AT_FDCWD}},
    {"clone3", SYS_clone3, {0}},
    {"clone-newuser", SYS_clone, {CLONE_NEWUSER | SIGCHLD}},
    {"clone-newnet", SYS_clone, {CLONE_NEWNET | SIGCHLD}},
    {"personality-query", SYS_personality, {0xffffffff}},
    {"personality-other", SYS_personality, {0x0040000}},
    {"tiocsti", SYS_ioctl, {0, 0x5412, (long)"x"}},
    {"tiocsti-high", SYS_ioctl, {0, (long)(0x5412 | BIT_32), (long)"x"}},
    {"tioclinux", SYS_ioctl, {0, 0x541c, (long)"x"}},
    {"tiocsetd", SYS_ioctl, {0, 0x5423, (long)"x"}},
    {"other-ioctl", SYS_ioctl, {0, 0x5413, 0}},
};

static int try_call(char **words)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const long *a = calls[i].arguments;
        if (strcmp(calls[i].name, words[0]) != 0)
            continue;
        long result = syscall(calls[i].number, a[0], a[1], a[2], a[3], a[4]);
        if (calls[i].number == SYS_clone && result == 0)
            _exit(0);
        return say(result);
    }
    puts("no such call");
    return 1;
}

/* The ABIs of 32-bit programs, where the same numbers mean other calls. */
static int try_int80(char **words)
{
    (void)words;
#if defined(__x86_64__)
    long result = 20; /* getpid there */
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
    puts("ok");
#endif
    return 0;
}

static int try_x32(char **words)
{
    (void)words;
    return say(syscall(0x40000000 | SYS_getpid));
}

/* -- rights and limits ------------------------------------------------------------------------- */

static int try_status(char **words)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    size_t length = strlen(words[0]);
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, words[0], length) == 0 && line[length] == ':')
            fputs(line + length + 2, stdout);
    return 0;
}

static int try_limit(char **words)
{
    struct rlimit limit;
    int which = strcmp(words[0], "core") == 0 ? RLIMIT_CORE : RLIMIT_NOFILE;
    getrlimit(which, &limit);
    printf("%lu\n", (unsigned long)limit.rlim_cur);
    return 0;
}

static int try_hostname(char **words)
{
    (void)words;
    char name[256] = "";
    gethostname(name, sizeof(name) - 1);
    puts(name);
    return 0;
}

static int try_environment(char **words)
{
    (void)words;
    for (char **entry = environ; *entry != NULL; entry++)
        printf("%s ", *entry);
    puts("");
    return 0;
}

static int try_fork_bomb(char **words)
{
    (void)words;
    unsigned forks = 0;
    pid_t pid = 0;
    while (forks < PROCESSES_TRIED && (pid = fork()) > 0)
        forks++;
    if (pid == 0) {
        pause();
        _exit(0);
    }
    printf("%u %s\n", forks, pid < 0 ? strerrorname_np(errno) : "ok");
    return 0;
}

static void *wait_in_thread(void *data)
{
    pause();
    return data;
}

static int try_thread_bomb(char **words)
{
    (void)words;
    unsigned threads = 0;
    pthread_t thread;
    int result = 0;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    while (threads < PROCESSES_TRIED &&
           (result = pthread_create(&thread, &small, wait_in_thread, NULL)) == 0)
        threads++;
    printf("%u %s\n", threads, result != 0 ? strerrorname_np(result) : "ok");
    return 0;
}

/* -- life and death ---------------------------------------------------------------------------- */

static int try_exit(char **words)
{
    return atoi(words[0]);
}

static int try_raise(char **words)
{
    return raise(atoi(words[0]));
}

static int try_signal(char **words)
{
    return say(kill(atoi(words[0]), 0));
}

static void on_term(int number)
{
    (void)number;
    _exit(3);
}

static int wait_until_killed(const char *line)
{
    puts(line);
    fflush(stdout);
    while (pause() < 0)
        continue;
    return 0;
}

static int try_wait_for_term(char **words)
{
    (void)words;
    signal(SIGTERM, on_term);
    return wait_until_killed("ready");
}

static int try_wait_forever(char **words)
{
    (void)words;
    signal(SIGTERM, SIG_IGN);
    return wait_until_killed("ready");
}

/* Leaves a grandchild behind that has its own session and ignores every signal that it can. */
static int try_leave_grandchild(char **words)
{
    (void)words;
    int ends[2];
    char told;
    if (pipe(ends) < 0)
        return 1;
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            for (int number = 1; number < NSIG; number++)
                signal(number, SIG_IGN);
            puts("grandchild");
            fflush(stdout);
            (void)!write(ends[1], "", 1);
            for (;;)
                pause();
        }
        _exit(0);
    }
    wait(NULL);
    return read(ends[0], &told, 1) == 1 ? 0 : 1;
}

static int try_kill_everyone(char **words)
{
    (void)words;
    kill(1, SIGSTOP);
    kill(1, SIGKILL);
    return say(kill(-1, SIGKILL) < 0 && errno == ESRCH ? 0 : -1);
}

/* One line for each line of the input, until its end. */
static int try_echo(char **words)
{
    (void)words;
    char line[4096];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        fputs(line, stdout);
        fflush(stdout);
    }
    return 0;
}

static int try_hello(char **words)
{
    (void)words;
    puts("hello");
    return 0;
}

/* -- memory ------------------------------------------------------------------------------------ */

/* Uses so many MiB, or as many as it gets. */
static unsigned hog(unsigned wanted)
{
    unsigned got = 0;
    for (; got < wanted; got++) {
        char *block = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED)
            break;
        memset(block, (int)got + 1, MIB);
    }
    return got;
}

static int try_hog(char **words)
{
    unsigned wanted = (unsigned)atoi(words[0]);
    puts(hog(wanted) < wanted ? strerrorname_np(errno) : "ok");
    return 0;
}

/* Says how the child ended, and lives on. */
static int try_hog_in_child(char **words)
{
    char line[64];
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(hog((unsigned)atoi(words[0])) > 0 ? 0 : 1);
    waitpid(child, &status, 0);
    snprintf(line, sizeof(line), "signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return wait_until_killed(line);
}

static void *hog_in_child_of_thread(void *data)
{
    if (fork() == 0) {
        hog((unsigned)atoi(data));
        wait_until_killed("ready");
    }
    pause();
    return NULL;
}

static int try_hog_in_child_of_thread(char **words)
{
    pthread_t thread;
    pthread_create(&thread, NULL, hog_in_child_of_thread, words[0]);
    pthread_join(thread, NULL);
    return 0;
}

static int try_bomb_and_live_on(char **words)
{
    (void)words;
    pid_t pid = 0;
    for (unsigned forks = 0; forks < 1000 && (pid = fork()) > 0; forks++)
        continue;
    if (pid == 0)
        _exit(wait_until_killed("child"));
    return wait_until_killed("bombed");
}

/* -- the table --------------------------------------------------------------------------------- */

static const struct attempt attempts[] = {
    {"read", 1, try_read},
    {"write", 1, try_write},
    {"create", 1, try_create},
    {"put", 1, try_put},
    {"show", 1, try_show},
    {"remove", 1, try_remove},
    {"make-folder", 1, try_make_folder},
    {"exec", 1, try_exec},
    {"copy-and-exec", 1, try_copy_and_exec},
    {"mount-is-read-only", 1, try_mount_is_read_only},
    {"fill", 1, try_fill},
    {"list-fds", 0, try_list_fds},
    {"stdio-kinds", 0, try_stdio_kinds},
    {"setuid-bits", 0, try_setuid_bits},
    {"socket", 3, try_socket},
    {"socketpair", 2, try_socketpair},
    {"interfaces", 0, try_interfaces},
    {"connect", 1, try_connect},
    {"call", 1, try_call},
    {"int80", 0, try_int80},
    {"x32", 0, try_x32},
    {"status", 1, try_status},
    {"limit", 1, try_limit},
    {"hostname", 0, try_hostname},
    {"environment", 0, try_environment},
    {"fork-bomb", 0, try_fork_bomb},
    {"thread-bomb", 0, try_thread_bomb},
    {"exit", 1, try_exit},
    {"raise", 1, try_raise},
    {"signal", 1, try_signal},
    {"wait-for-term", 0, try_wait_for_term},
    {"wait-forever", 0, try_wait_forever},
    {"leave-grandchild", 0, try_leave_grandchild},
    {"kill-everyone", 0, try_kill_everyone},
    {"echo", 0, try_echo},
    {"hello", 0, try_hello},
    {"hog", 1, try_hog},
    {"hog-in-child", 1, try_hog_in_child},
    {"hog-in-child-of-thread", 1, try_hog_in_child_of_thread},
    {"bomb-and-live-on", 0, try_bomb_and_live_on},
};

static const struct attempt *find(const struct attempt *table, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    /* Outside of a cage pid 1 is the host's. */
    if (access("/usr/sbin", F_OK) == 0) {
        fprintf(stderr, "probe: this is no cage\n");
        return 2;
    }
    const struct attempt *attempt = find(attempts, sizeof(attempts) / sizeof(attempts[0]), name);
    if (attempt == NULL)
        attempt = find(probe_attacks, probe_attack_count, name);
    if (attempt != NULL && argc == attempt->arguments + 2)
        return attempt->run(argv + 2);
    fprintf(stderr, "usage: probe ATTEMPT ARGUMENT...\n");
    return 2;
}
