/*
 * What this machine offers, found out once, before the daemon has a thread. Without bwrap, user
 * namespaces or seccomp there is no cage, and no plugin starts: the error says why and what to do.
 */
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRY_TIMEOUT_MS   10000
#define TRY_OUTPUT_BYTES 65536

/* -- the real host ----------------------------------------------------------------------------- */

static enum cage_file real_kind(const char *path)
{
    struct stat status;
    if (stat(path, &status) < 0)
        return CAGE_FILE_NONE;
    if (S_ISDIR(status.st_mode))
        return CAGE_FILE_FOLDER;
    if (!S_ISREG(status.st_mode))
        return CAGE_FILE_OTHER;
    return (status.st_mode & 0111) != 0 ? CAGE_FILE_PROGRAM : CAGE_FILE_PLAIN;
}

static char *real_link(const char *path)
{
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof(target));
    if (length < 0 || (size_t)length == sizeof(target))
        return NULL;
    return kg_str_dup((struct kg_str){target, (size_t)length});
}

static char *real_real(const char *path)
{
    return realpath(path, NULL);
}

static size_t real_head(const char *path, char *ret_text, size_t max)
{
    kg_auto(kg_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t got = fd < 0 ? -1 : read(fd, ret_text, max);
    return got < 0 ? 0 : (size_t)got;
}

static bool real_is_roots(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && status.st_uid == 0;
}

const struct cage_host cage_real_host = {real_kind, real_link, real_real, real_head, real_is_roots};

/* -- our own programs -------------------------------------------------------------------------- */

char *cage_helper_path(const char *name)
{
    static const char *const beside[] = {
        ".",
#ifdef KAGED_TEST_LAYOUT
        "../../src", /* the tests have folders of their own */
#endif
    };
    kg_auto(kg_free) char *self = real_link("/proc/self/exe");
    for (size_t i = 0; self != NULL && i < KG_COUNT(beside); i++) {
        kg_auto(kg_free) char *folder = cage_path_join(self, "..");
        kg_auto(kg_free) char *wanted = cage_path_join(folder, beside[i]);
        kg_auto(kg_free) char *path = cage_path_join(wanted, name);
        if (real_kind(path) == CAGE_FILE_PROGRAM)
            return kg_steal(&path);
    }
    kg_auto(kg_free) char *path = cage_path_join(KAGED_LIBEXEC, name);
    return real_kind(path) == CAGE_FILE_PROGRAM ? kg_steal(&path) : NULL;
}

/* -- trying bwrap ------------------------------------------------------------------------------ */

static char *find_bwrap(void)
{
    static const char *const places[] = {"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"};
    for (size_t i = 0; i < KG_COUNT(places); i++)
        if (real_kind(places[i]) == CAGE_FILE_PROGRAM)
            return kg_strdup(places[i]);
    return NULL;
}

/* In the child. A root daemon's cages run as another user, so that is whom to try as. */
static void run_as_the_cage_would(const char *const *argv, int output)
{
    static char *const no_environment[] = {NULL};
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0)
        _exit(126);
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(CAGE_GID, CAGE_GID, CAGE_GID) < 0 ||
                           setresuid(CAGE_UID, CAGE_UID, CAGE_UID) < 0))
        _exit(126);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    execve(argv[0], (char *const *)argv, no_environment);
    _exit(127);
}

static void read_output(int fd, struct kg_buf *output)
{
    uint64_t deadline = kg_monotonic_ms() + TRY_TIMEOUT_MS;
    for (;;) {
        uint64_t now = kg_monotonic_ms();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (now >= deadline || output->length >= TRY_OUTPUT_BYTES ||
            poll(&wait, 1, (int)(deadline - now)) <= 0)
            return;
        kg_buf_reserve(output, 4096);
        ssize_t got = read(fd, output->data + output->length, 4096);
        if (got <= 0)
            return;
        output->length += (size_t)got;
    }
}

/* Runs a program to its end and gives what it said; its exit code, or -1. */
static int try_run(const char *const *argv, struct kg_buf *output)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        run_as_the_cage_would(argv, ends[1]);
    close(ends[1]);
    if (pid > 0)
        read_output(ends[0], output);
    close(ends[0]);
    kg_buf_terminate(output);
    if (pid < 0)
        return -1;
    /* It has closed its output: it is done, or it is stuck. */
    int status = 0;
    for (unsigned tries = 0; waitpid(pid, &status, WNOHANG) == 0; tries++) {
        if (tries == 1000)
            kill(pid, SIGKILL);
        usleep(200);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int check_options(struct cage_facts *facts, struct kg_err *err)
{
    static const char *const needed[] = {"--json-status-fd", "--add-seccomp-fd", "--disable-userns",
                                         "--size", "--args"};
    kg_auto(kg_buf_free) struct kg_buf help = {0};
    const char *const argv[] = {facts->bwrap, "--help", NULL};
    if (try_run(argv, &help) != 0)
        return kg_fail(err, KG_E_CAGE, "cage: run %s --help: it failed", facts->bwrap);
    for (size_t i = 0; i < KG_COUNT(needed); i++) {
        if (strstr(help.data, needed[i]) != NULL)
            continue;
        kg_fail(err, KG_E_CAGE, "cage: %s does not know %s", facts->bwrap, needed[i]);
        kg_hint(err, "install bubblewrap 0.8 or newer");
        return -EINVAL;
    }
    facts->bind_fd = strstr(help.data, "--ro-bind-fd") != NULL;
    return 0;
}

static int check_namespaces(const struct cage_facts *facts, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf said = {0};
    const char *const argv[] = {facts->bwrap,
                                "--unshare-all",
                                "--unshare-user",
                                "--disable-userns",
                                "--ro-bind",
                                "/",
                                "/",
                                "--proc",
                                "/proc",
                                "--dev",
                                "/dev",
                                "--",
                                facts->bwrap,
                                "--version",
                                NULL};
    if (try_run(argv, &said) == 0)
        return 0;
    kg_buf_terminate(&said); /* it may not even have been started */
    said.data[strcspn(said.data, "\n")] = '\0';
    int result = kg_fail(err, KG_E_CAGE, "cage: try bwrap with user namespaces: %s",
                         said.data[0] != '\0' ? said.data : "it failed without a word");
    kg_hint(err, "allow user namespaces: sysctl user.max_user_namespaces, "
                 "kernel.unprivileged_userns_clone, or an AppArmor profile for bwrap; in a "
                 "container, /proc must not be masked");
    return result;
}

static int check_kernel(struct kg_err *err)
{
    /*
     * A filter at address 0 cannot be read: that the kernel tries to shows that it takes filters.
     */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) == 0 || errno != EFAULT) {
        kg_fail(err, KG_E_CAGE, "cage: the kernel has no seccomp filters");
        kg_hint(err, "use a kernel with CONFIG_SECCOMP_FILTER");
        return -EINVAL;
    }
    kg_auto(kg_free) char *children = kg_format("/proc/self/task/%d/children", getpid());
    if (access(children, R_OK) < 0) {
        kg_fail_errno(err, errno, "cage: read %s", children);
        kg_hint(err, "mount /proc, and use a kernel with CONFIG_PROC_CHILDREN");
        return -EINVAL;
    }
    return 0;
}

static char *find_nft(void)
{
    static const char *const places[] = {"/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"};
    for (size_t i = 0; i < KG_COUNT(places); i++)
        if (real_kind(places[i]) == CAGE_FILE_PROGRAM)
            return kg_strdup(places[i]);
    return NULL;
}

static unsigned landlock_version(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return version > 0 ? (unsigned)version : 0;
}

static int probe(struct cage_facts *facts, struct kg_err *err)
{
    facts->host = &cage_real_host;
    facts->is_root = geteuid() == 0;
    facts->landlock = landlock_version();
    facts->nft = find_nft();
    facts->bwrap = find_bwrap();
    if (facts->bwrap == NULL) {
        kg_fail(err, KG_E_CAGE, "cage: bwrap is not on this machine");
        kg_hint(err, "install the package bubblewrap");
        return -ENOENT;
    }
    facts->shim = cage_helper_path("kaged-cage-init");
    if (facts->shim == NULL) {
        kg_fail(err, KG_E_CAGE, "cage: kaged-cage-init is neither beside this program nor in %s",
                KAGED_LIBEXEC);
        kg_hint(err, "install kaged whole: make install");
        return -ENOENT;
    }
    int result = check_kernel(err);
    if (result == 0)
        result = check_options(facts, err);
    return result < 0 ? result : check_namespaces(facts, err);
}

struct cage_facts *cage_facts_probe(struct kg_err *err)
{
    struct cage_facts *facts = kg_alloc(sizeof(*facts));
    if (probe(facts, err) == 0)
        return facts;
    cage_facts_free(facts);
    return NULL;
}

void cage_facts_free(struct cage_facts *facts)
{
    if (facts == NULL)
        return;
    free(facts->bwrap);
    free(facts->shim);
    free(facts->nft);
    free(facts);
}
