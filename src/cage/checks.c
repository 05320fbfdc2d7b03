/*
 * Every layer that a cage is made of, one row each: whether it is there, what its lack means and
 * how to fix it. The daemon starts no plugin while a row is missing, and the doctor shows the same
 * rows, so what one says the other does. Looking changes nothing on this machine.
 */
#include "base/json/json.h"
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRY_TIMEOUT_MS      10000
#define TRY_OUTPUT_BYTES    65536
#define FILE_MAX            ((size_t)1024 * 1024)
#define NAMESPACES_ENOUGH   512  /* three for each cage */
#define OPEN_FILES_ENOUGH   4096 /* a plugin takes a handful, each of its connections six */
#define LANDLOCK_TRUNCATION 3    /* the version that has it */

#define NO_PLUGIN "no plugin can start"

const char *const cage_status_names[] = {"ok", "degraded", "missing"};

/* What one look at the machine knows so far. */
struct look {
    const struct cage_site *site;
    struct cage_owner owner;
    struct cage_facts *facts; /* filled as the rows go by */
    struct kg_buf help;       /* of bwrap */
};

/* -- saying it --------------------------------------------------------------------------------- */

/* A row that is all right, until one of the next two says otherwise. */
#define found(check, ...) ((check)->detail = kg_format(__VA_ARGS__))

static void lacks(struct cage_check *check, enum cage_status status, const char *means,
                  const char *remedy)
{
    check->status = status;
    check->means = kg_strdup(means);
    check->remedy = kg_strdup(remedy);
}

static void degrade(struct cage_check *check, const char *means, const char *remedy)
{
    lacks(check, CAGE_STATUS_DEGRADED, means, remedy);
}

static void miss(struct cage_check *check, const char *remedy)
{
    lacks(check, CAGE_STATUS_MISSING, NO_PLUGIN, remedy);
}

/* -- trying bwrap ------------------------------------------------------------------------------ */

/* In the child. */
static void become_program(const char *const *argv, int output)
{
    static char *const no_environment[] = {NULL};
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0)
        _exit(126);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    execve(argv[0], (char *const *)argv, no_environment);
    dprintf(STDERR_FILENO, "%s", strerror(errno));
    _exit(127);
}

static void checks_read_output(int fd, struct kg_buf *output)
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
    kg_buf_terminate(output);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        become_program(argv, ends[1]);
    close(ends[1]);
    if (pid > 0)
        checks_read_output(ends[0], output);
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

static const char *first_line(struct kg_buf *text)
{
    char *line = kg_buf_terminate(text);
    line[strcspn(line, "\n")] = '\0';
    return line[0] != '\0' ? line : "it failed without a message";
}

static void check_bwrap(struct look *look, struct cage_check *check)
{
    kg_auto(kg_free) char *path = cage_tool_path("bwrap");
    if (path == NULL) {
        found(check, "bwrap is not installed");
        miss(check, "install the package bubblewrap");
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf version = {0};
    const char *const argv[] = {path, "--version", NULL};
    int code = try_run(argv, &version);
    if (code == 0) {
        found(check, "%s, %s", path, first_line(&version));
        look->facts->bwrap = kg_steal(&path);
        return;
    }
    found(check, "%s cannot be run: %s", path, first_line(&version));
    miss(check, "reinstall the package bubblewrap");
}

static void checks_check_options(struct look *look, struct cage_check *check)
{
    static const char *const needed[] = {"--json-status-fd", "--add-seccomp-fd", "--disable-userns",
                                         "--size", "--args"};
    const char *const argv[] = {look->facts->bwrap, "--help", NULL};
    if (look->facts->bwrap == NULL)
        return;
    try_run(argv, &look->help);
    for (size_t i = 0; i < KG_COUNT(needed); i++) {
        if (strstr(look->help.data, needed[i]) != NULL)
            continue;
        found(check, "%s does not support %s", look->facts->bwrap, needed[i]);
        miss(check, "install bubblewrap 0.8 or newer");
        return;
    }
    found(check, "bwrap has every option that a cage needs");
}

/* By kaged-spawner, as for every cage: where AppArmor forbids them, its profile lets it alone. */
static void check_namespaces(struct look *look, struct cage_check *check)
{
    kg_auto(kg_free) char *spawner = cage_helper_path("kaged-spawner");
    const char *const argv[] = {spawner, CAGE_SPAWNER_TRY, NULL};
    if (spawner == NULL || look->facts->bwrap == NULL)
        return;
    kg_auto(kg_buf_free) struct kg_buf said = {0};
    if (try_run(argv, &said) == 0) {
        found(check, "bwrap makes them%s", geteuid() == 0 ? ", as uid 65534" : "");
        return;
    }
    const char *line = first_line(&said);
    struct cage_userns seen = cage_userns_look(line);
    const struct cage_userns_cause *cause = cage_userns_cause(&seen);
    found(check, "try bwrap with user namespaces: %s: %s", cause->detail, line);
    miss(check, cause->remedy);
}

static void check_namespaces_max(struct look *look, struct cage_check *check)
{
    (void)look;
    int64_t max = cage_read_number("/proc/sys/user/max_user_namespaces");
    if (max < 0)
        return;
    found(check, "user.max_user_namespaces is %lld", (long long)max);
    if (max < NAMESPACES_ENOUGH)
        degrade(check, "each plugin takes three: only some can run at the same time",
                "sysctl -w user.max_user_namespaces=10000, and the same line in "
                "/etc/sysctl.d/kaged.conf");
}

/* -- the kernel -------------------------------------------------------------------------------- */

/* A filter at address 0 cannot be read: that the kernel tries to shows that it takes filters. */
static void check_seccomp(struct look *look, struct cage_check *check)
{
    (void)look;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) < 0 && errno == EFAULT) {
        found(check, "the kernel supports seccomp filters");
        return;
    }
    found(check, "the kernel has no seccomp filters");
    miss(check, "use a kernel with CONFIG_SECCOMP_FILTER");
}

static void check_proc(struct look *look, struct cage_check *check)
{
    (void)look;
    kg_auto(kg_free) char *children = kg_format("/proc/self/task/%d/children", getpid());
    if (access(children, R_OK) == 0) {
        found(check, "/proc lists the children of processes");
        return;
    }
    found(check, "read %s: %s", children, strerror(errno));
    miss(check, "mount /proc, and use a kernel with CONFIG_PROC_CHILDREN");
}

static void check_landlock(struct look *look, struct cage_check *check)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    bool switched_off = version < 0 && errno == EOPNOTSUPP;
    if (version > 0) {
        look->facts->landlock = (unsigned)version;
        found(check, "Landlock, version %ld%s", version,
              version < LANDLOCK_TRUNCATION ? ": it cannot prevent files from being truncated"
                                            : "");
        return;
    }
    found(check, "%s",
          switched_off ? "Landlock is switched off in this kernel" : "the kernel has no Landlock");
    degrade(check, "the mounts of a cage are its only wall around files and programs",
            switched_off ? "add landlock to the lsm= line of the boot parameters"
                         : "use a kernel of version 5.13 or newer with CONFIG_SECURITY_LANDLOCK");
}

/* The folder, or the one that it would be made in. */
static char *existing_folder(const char *folder)
{
    char *path = kg_strdup(folder);
    while (access(path, F_OK) < 0 && errno == ENOENT && strcmp(path, "/") != 0 &&
           strcmp(path, ".") != 0) {
        char *above = kg_path_folder(path);
        free(path);
        path = above;
    }
    return path;
}

static void check_idmap(struct look *look, struct cage_check *check)
{
    if (geteuid() != 0 || look->site->plugins_dir == NULL)
        return;
    kg_auto(kg_free) char *folder = existing_folder(look->site->plugins_dir);
    kg_auto(kg_close) int map = cage_idmap_new(look->owner.uid, look->owner.gid, CAGE_UID);
    int result = map < 0 ? -EPERM : cage_idmap_try(map, folder);
    if (result == 0) {
        found(check, "%s can be shown to a cage as its own", folder);
        return;
    }
    found(check, "%s cannot be shown to a cage as its own: %s", folder, strerror(-result));
    degrade(check, "plugins see only files that every user may read",
            "keep plugins on a filesystem that can be mapped, such as ext4, xfs or btrfs, or give "
            "others read permission");
}

/* For information: cages are as strong without it. */
static void check_kernel_log(struct look *look, struct cage_check *check)
{
    static const char *const words[] = {
        [CAGE_KERNEL_LOG_TELLS] = "the kernel's audit log reports refused files and programs",
        [CAGE_KERNEL_LOG_OFF] = "the kernel's audit log is off, or too old to report Landlock: "
                                "refused files and programs are not reported",
        [CAGE_KERNEL_LOG_NOT_OURS] = "the kernel's audit log is not readable for us: refused files "
                                     "and programs are not reported",
    };
    (void)look;
    kg_auto(kg_close) int fd = -1;
    found(check, "%s", words[cage_kernel_log_open(&fd)]);
}

/* -- cgroups ----------------------------------------------------------------------------------- */

static void check_cgroups(struct look *look, struct cage_check *check)
{
    (void)look;
    struct cage_limits limits;
    cage_limits_probe(&limits);
    found(check, "%s", limits.words);
    if (limits.mode == CAGE_LIMITS_NONE)
        degrade(check,
                "memory is bounded for each process, and by a watchdog for all of a plugin; "
                "processor time is not shared out",
                "start kaged from a systemd unit with Delegate=yes, or as root");
}

/* -- programs, limits, people and folders ------------------------------------------------------ */

static void check_helper(struct cage_check *check, const char *path, const char *name)
{
    if (path != NULL) {
        found(check, "%s", path);
        return;
    }
    found(check, "%s is neither beside this program nor in %s", name, KAGED_LIBEXEC);
    miss(check, "install all of kaged: make install");
}

static void check_shim(struct look *look, struct cage_check *check)
{
    (void)look;
    kg_auto(kg_free) char *path = cage_helper_path("kaged-cage-init");
    check_helper(check, path, "kaged-cage-init");
}

static void check_spawner(struct look *look, struct cage_check *check)
{
    (void)look;
    kg_auto(kg_free) char *path = cage_helper_path("kaged-spawner");
    check_helper(check, path, "kaged-spawner");
}

static void check_nft(struct look *look, struct cage_check *check)
{
    look->facts->nft = cage_tool_path("nft");
    if (look->facts->nft != NULL) {
        found(check, "%s", look->facts->nft);
        return;
    }
    found(check, "nft is not installed");
    degrade(check, "plugins that declare all hosts or all ports of one are refused",
            "install the package nftables");
}

static void check_open_files(struct look *look, struct cage_check *check)
{
    (void)look;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    if (limit.rlim_max == RLIM_INFINITY)
        found(check, "as many as the kernel has");
    else
        found(check, "%llu", (unsigned long long)limit.rlim_max);
    if (limit.rlim_max < OPEN_FILES_ENOUGH)
        degrade(check, "only some plugins and connections can be open at the same time",
                "raise the hard limit: LimitNOFILE= of the service, or ulimit -Hn");
}

static void checks_check_user(struct look *look, struct cage_check *check)
{
    const struct passwd *entry = getpwuid(look->owner.uid);
    kg_auto(kg_free) char *name =
        entry ? kg_strdup(entry->pw_name) : kg_format("uid %u", (unsigned)look->owner.uid);
    kg_auto(kg_free) char *plugins = look->owner.uids.count > 0
                                         ? kg_strdup("uids of their own")
                                         : kg_format("uid %u", (unsigned)CAGE_UID);
    if (geteuid() != 0) {
        found(check, "the daemon and its plugins run as %s", name);
    } else if (look->owner.uid != 0) {
        found(check, "the daemon runs as %s, kaged-spawner as root, plugins as %s", name, plugins);
    } else {
        found(check, "the daemon runs as root, plugins as %s", plugins);
        check->remedy = kg_strdup("set daemon.user in config.toml: then only kaged-spawner stays "
                                  "root");
    }
}

static void check_uids(struct look *look, struct cage_check *check)
{
    const struct cage_uids *uids = &look->owner.uids;
    if (geteuid() != 0) {
        found(check, "every plugin runs as the daemon's own user");
    } else if (uids->count > 0) {
        found(check, "each running plugin has a uid of its own, of %u to %u", (unsigned)uids->base,
              (unsigned)(uids->base + uids->count - 1));
    } else {
        found(check, "all plugins run as uid %u, as other processes of this machine may",
              (unsigned)CAGE_UID);
        check->remedy =
            kg_strdup("give root a range in /etc/subuid, as root:1000000:65536, or set "
                      "sandbox.uid_base in config.toml: then each has a uid of its own");
    }
}

/* 0, or why the folder, or the one that it would be made in, is not for the daemon. */
static int folder_problem(const struct look *look, const char *folder)
{
    kg_auto(kg_free) char *path = existing_folder(folder);
    if (access(path, W_OK | X_OK) < 0)
        return -errno;
    if (geteuid() != 0 || look->owner.uid == 0 || cage_owner_enter(&look->owner, NULL) < 0)
        return 0;
    /* The folder itself is given to the daemon's user at the start; those above it are not. */
    int result = faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) < 0 ? -errno : 0;
    cage_owner_leave();
    return result;
}

static void check_folders(struct look *look, struct cage_check *check)
{
    const char *const *folder = look->site->folders;
    if (folder == NULL)
        return;
    for (; *folder != NULL; folder++) {
        int problem = folder_problem(look, *folder);
        if (problem == 0)
            continue;
        found(check, "folder %s: %s", *folder, strerror(-problem));
        lacks(check, CAGE_STATUS_MISSING, "the daemon cannot start",
              "choose a folder that the daemon may write to with --home, or fix its permissions");
        return;
    }
    found(check, "the daemon may write to all its folders");
}

/* -- the table --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*look)(struct look *look, struct cage_check *check);
} rows[] = {
    {"bwrap", check_bwrap},
    {"kaged-cage-init", check_shim},
    {"kaged-spawner", check_spawner},
    {"seccomp", check_seccomp},
    {"proc", check_proc},
    {"bwrap-options", checks_check_options},
    {"user-namespaces", check_namespaces},
    {"namespaces-max", check_namespaces_max},
    {"landlock", check_landlock},
    {"idmapped-mounts", check_idmap},
    {"cgroups", check_cgroups},
    {"nft", check_nft},
    {"open-files", check_open_files},
    {"kernel-log", check_kernel_log},
    {"user", checks_check_user},
    {"uids", check_uids},
    {"folders", check_folders},
};

void cage_checks_add(struct cage_checks *checks, const char *name, enum cage_status status,
                     const char *detail, const char *means, const char *remedy)
{
    checks->items = kg_realloc(checks->items, (checks->count + 1) * sizeof(*checks->items));
    checks->items[checks->count++] = (struct cage_check){
        .name = name,
        .status = status,
        .detail = kg_strdup(detail),
        .means = kg_strdup(means ? means : ""),
        .remedy = kg_strdup(remedy ? remedy : ""),
    };
}

void cage_checks_free(struct cage_checks *checks)
{
    for (size_t i = 0; i < checks->count; i++) {
        free(checks->items[i].detail);
        free(checks->items[i].means);
        free(checks->items[i].remedy);
    }
    free(checks->items);
    *checks = (struct cage_checks){0};
}

enum cage_status cage_checks_worst(const struct cage_checks *checks)
{
    enum cage_status worst = CAGE_STATUS_OK;
    for (size_t i = 0; i < checks->count; i++)
        if (checks->items[i].status > worst)
            worst = checks->items[i].status;
    return worst;
}

/* Of the missing ones the first says it all: the rest often follow from it. */
char *cage_checks_words(const struct cage_checks *checks)
{
    enum cage_status worst = cage_checks_worst(checks);
    struct kg_buf words = {0};
    if (worst == CAGE_STATUS_OK)
        return kg_strdup("full");
    kg_buf_text(&words, worst == CAGE_STATUS_MISSING ? "none" : "degraded");
    for (size_t i = 0, listed = 0; i < checks->count; i++) {
        const struct cage_check *check = &checks->items[i];
        if (check->status != worst || (worst == CAGE_STATUS_MISSING && listed > 0))
            continue;
        kg_buf_text(&words, listed++ == 0 ? ": " : ", ");
        kg_buf_text(&words, worst == CAGE_STATUS_MISSING ? check->detail : check->name);
    }
    return kg_buf_terminate(&words);
}

void cage_checks_json(const struct cage_checks *checks, enum cage_status worst,
                      struct kg_json_writer *json)
{
    static const char *const verdicts[] = {[CAGE_STATUS_OK] = "full",
                                           [CAGE_STATUS_DEGRADED] = "degraded",
                                           [CAGE_STATUS_MISSING] = "none"};
    kg_json_begin(json, '{');
    kg_json_named_begin(json, "checks", '[');
    for (size_t i = 0; i < checks->count; i++) {
        const struct cage_check *check = &checks->items[i];
        const char *const members[][2] = {{"name", check->name},
                                          {"status", cage_status_names[check->status]},
                                          {"detail", check->detail},
                                          {"means", check->means},
                                          {"remedy", check->remedy}};
        kg_json_begin(json, '{');
        for (size_t k = 0; k < KG_COUNT(members); k++)
            kg_json_named_text(json, members[k][0], members[k][1]);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
    kg_json_named_text(json, "verdict", verdicts[worst]);
    kg_json_end(json, '}');
}

static void look_at_all(struct look *look, struct cage_checks *checks)
{
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct cage_check check = {.name = rows[i].name};
        rows[i].look(look, &check);
        if (check.detail != NULL)
            cage_checks_add(checks, check.name, check.status, check.detail, check.means,
                            check.remedy);
        free(check.detail);
        free(check.means);
        free(check.remedy);
    }
}

static int first_missing(const struct cage_checks *checks, struct kg_err *err)
{
    for (size_t i = 0; i < checks->count; i++) {
        const struct cage_check *check = &checks->items[i];
        if (check->status != CAGE_STATUS_MISSING)
            continue;
        kg_fail(err, KG_E_CAGE, "cage: %s", check->detail);
        kg_hint(err, "%s", check->remedy);
        return -ENOENT;
    }
    return 0;
}

struct cage_facts *cage_facts_check(const struct cage_site *site, struct cage_checks *ret_checks,
                                    struct kg_err *err)
{
    struct cage_facts *facts = kg_alloc(sizeof(*facts));
    struct look look = {.site = site, .facts = facts};
    look.owner = site->owner ? *site->owner : cage_owner_self();
    facts->host = &cage_real_host;
    facts->is_root = look.owner.uid == 0;
    *ret_checks = (struct cage_checks){0};
    look_at_all(&look, ret_checks);
    kg_buf_free(&look.help);
    if (first_missing(ret_checks, err) == 0)
        return facts;
    cage_facts_free(facts);
    return NULL;
}
