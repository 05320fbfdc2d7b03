/*
 * One group of the kernel for each cage. A cage is in its group before any of its code runs, or it
 * is not started; a group goes when its cage is over. Groups of a daemon that is gone are removed
 * by the next one, and only those: a name carries the daemon's pid, when it started, and the
 * namespace that the pid is of.
 */
#include "cage/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_PAUSE_MS    1000 /* between two looks at one group */
#define SWEEP_ROUNDS     100
#define SWEEP_PAUSE_US   10000
#define SHARES_USUAL     1024 /* cpu.shares of v1 that stand for the weight of v2 below */
#define WEIGHT_USUAL     100
#define WEIGHT_MAX       10000
#define SHARES_MIN       2
#define EVENTS_MAX_BYTES 1024
#define STAT_MAX_BYTES   4096
#define PROCS_MAX_BYTES  ((size_t)4 * 1024 * 1024)

/* Counters, in the order of enum cage_limit. */
enum { COUNTERS = 2 };

struct cage_group {
    struct cage_group *next; /* among the dying */
    enum cage_limits_mode mode;
    char *folders[CAGE_CONTROLLERS]; /* owned; NULL where there is no such controller */
    int folder;                      /* v2: the folder itself, until the fork; else -1 */
    int procs[CAGE_CONTROLLERS];     /* where to join, until the fork; else -1 */
    int events[COUNTERS];
    uint32_t counts[COUNTERS]; /* as of the last look */
    uint64_t looked_at_ms;
    uint64_t look_at_ms; /* 0: not before an event */
};

/* -- names ------------------------------------------------------------------------------------- */

/* The time of its start, in ticks since boot, which tells a process from a later one; or 0. */
static unsigned long long start_of(const char *proc, pid_t pid)
{
    kg_auto(kg_free) char *path = kg_format("%s/%d/stat", proc, pid);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (kg_read_file(path, STAT_MAX_BYTES, &text, NULL) < 0)
        return 0;
    const char *after = strrchr(kg_buf_terminate(&text), ')');
    char state;
    unsigned long long start = 0;
    if (after == NULL || sscanf(after + 1,
                                " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                                "%*s %*s %*s %llu",
                                &state, &start) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : start;
}

static unsigned long long namespace_of_pids(const char *proc)
{
    kg_auto(kg_free) char *path = kg_format("%s/self/ns/pid", proc);
    struct stat status;
    return stat(path, &status) == 0 ? status.st_ino : 0;
}

static char *prefix_of(const struct cage_cgroup_asker *asker)
{
    return kg_format("kaged-%llu-%d-%llu-", namespace_of_pids(asker->proc), asker->daemon,
                     start_of(asker->proc, asker->daemon));
}

/* True for a group that a daemon made which cannot be alive any more, as far as we can see it. */
static bool is_left_behind(const struct cage_cgroup_asker *asker, const char *name)
{
    unsigned long long space, start;
    int pid, end = 0;
    unsigned id;
    if (sscanf(name, "kaged-%llu-%d-%llu-%u%n", &space, &pid, &start, &id, &end) != 4 ||
        name[end] != '\0' || space != namespace_of_pids(asker->proc))
        return false;
    return start_of(asker->proc, pid) != start;
}

/* -- removing ---------------------------------------------------------------------------------- */

static int cgroup_write_file(const char *folder, const char *file, const char *text)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", folder, file);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : kg_write_all(fd, text, strlen(text));
}

/* What is still in a group that is to go is killed: at once where the kernel can. */
static void kill_all_in(const char *folder)
{
    kg_auto(kg_free) char *path = kg_format("%s/cgroup.procs", folder);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (cgroup_write_file(folder, "cgroup.kill", "1") == 0 ||
        kg_read_file(path, PROCS_MAX_BYTES, &text, NULL) < 0)
        return;
    char *at = kg_buf_terminate(&text), *end;
    for (long pid = strtol(at, &end, 10); end != at; pid = strtol(at, &end, 10)) {
        at = end;
        if (pid > 0) /* 0 is a process that our namespace does not have */
            kill((pid_t)pid, SIGKILL);
    }
}

/* True once it is gone. */
static bool remove_folder(const char *folder)
{
    if (rmdir(folder) == 0 || errno == ENOENT)
        return true;
    kill_all_in(folder);
    return rmdir(folder) == 0 || errno == ENOENT;
}

static bool remove_group(const struct cage_group *group)
{
    bool gone = true;
    for (enum cage_controller which = 0; which < CAGE_CONTROLLERS; which++)
        if (group->folders[which] != NULL && !remove_folder(group->folders[which]))
            gone = false;
    return gone;
}

static void sweep_folder(const char *folder)
{
    for (unsigned round = 0; !remove_folder(folder); round++) {
        if (round == SWEEP_ROUNDS) {
            kg_log(KG_WARN, "group %s of a daemon that is gone cannot be removed: %s", folder,
                   strerror(errno));
            return;
        }
        usleep(SWEEP_PAUSE_US);
    }
}

static void cgroup_sweep(const struct cage_cgroups *cgroups, const struct cage_cgroup_asker *asker)
{
    for (enum cage_controller which = 0; which < CAGE_CONTROLLERS; which++) {
        DIR *dir = cgroups->bases[which] ? opendir(cgroups->bases[which]) : NULL;
        for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
            kg_auto(kg_free) char *folder =
                kg_format("%s/%s", cgroups->bases[which], entry->d_name);
            if (is_left_behind(asker, entry->d_name))
                sweep_folder(folder);
        }
        if (dir != NULL)
            closedir(dir);
    }
}

/* -- all of them ------------------------------------------------------------------------------- */

struct cage_cgroups *cage_cgroups_new(const struct cage_cgroup_asker *asker,
                                      struct cage_limits *ret_limits)
{
    struct cage_cgroups *cgroups = cage_cgroups_find(asker, true, ret_limits);
    if (cgroups == NULL)
        return NULL;
    cgroups->prefix = prefix_of(asker);
    cgroup_sweep(cgroups, asker);
    return cgroups;
}

static void group_free(struct cage_group *group)
{
    for (enum cage_controller which = 0; which < CAGE_CONTROLLERS; which++) {
        free(group->folders[which]);
        kg_close(&group->procs[which]);
    }
    for (size_t i = 0; i < COUNTERS; i++)
        kg_close(&group->events[i]);
    kg_close(&group->folder);
    free(group);
}

bool cage_cgroups_tidy(struct cage_cgroups *cgroups)
{
    for (struct cage_group **at = &cgroups->dying; *at != NULL;) {
        struct cage_group *group = *at;
        if (!remove_group(group)) {
            at = &group->next;
            continue;
        }
        *at = group->next;
        group_free(group);
    }
    return cgroups->dying != NULL;
}

void cage_cgroups_free(struct cage_cgroups *cgroups)
{
    if (cgroups == NULL)
        return;
    for (unsigned round = 0; cage_cgroups_tidy(cgroups) && round < SWEEP_ROUNDS; round++)
        usleep(SWEEP_PAUSE_US);
    while (cgroups->dying != NULL) { /* the next daemon's sweep finds them */
        struct cage_group *group = cgroups->dying;
        cgroups->dying = group->next;
        group_free(group);
    }
    for (enum cage_controller which = 0; which < CAGE_CONTROLLERS; which++) {
        if (cgroups->own_bases && cgroups->bases[which] != NULL)
            rmdir(cgroups->bases[which]); /* not while another daemon has groups in it */
        free(cgroups->bases[which]);
    }
    free(cgroups->prefix);
    free(cgroups);
}

/* -- a group's settings ------------------------------------------------------------------------ */

static uint64_t memory_of(const struct cage_group_limits *limits)
{
    return limits->memory_bytes;
}

static uint64_t processes_of(const struct cage_group_limits *limits)
{
    return limits->processes;
}

static uint64_t shares_of(const struct cage_group_limits *limits)
{
    return limits->cpu_shares < SHARES_MIN ? SHARES_MIN : limits->cpu_shares;
}

static uint64_t weight_of(const struct cage_group_limits *limits)
{
    uint64_t weight = (uint64_t)limits->cpu_shares * WEIGHT_USUAL / SHARES_USUAL;
    return weight < 1 ? 1 : weight > WEIGHT_MAX ? WEIGHT_MAX : weight;
}

static uint64_t zero(const struct cage_group_limits *limits)
{
    (void)limits;
    return 0;
}

static uint64_t one(const struct cage_group_limits *limits)
{
    (void)limits;
    return 1;
}

/* In this order: swap counts on top of memory, so its limit may not be the lower one. */
static const struct {
    enum cage_limits_mode mode;
    enum cage_controller controller;
    const char *file;
    uint64_t (*value)(const struct cage_group_limits *limits);
    bool optional; /* where the kernel is built without swap accounting, or older */
} settings[] = {
    {CAGE_LIMITS_V2, CAGE_MEMORY, "memory.max", memory_of, false},
    {CAGE_LIMITS_V2, CAGE_MEMORY, "memory.swap.max", zero, true},
    {CAGE_LIMITS_V2, CAGE_MEMORY, "memory.oom.group", one, true},
    {CAGE_LIMITS_V2, CAGE_PIDS, "pids.max", processes_of, false},
    {CAGE_LIMITS_V2, CAGE_CPU, "cpu.weight", weight_of, true},
    {CAGE_LIMITS_V1, CAGE_MEMORY, "memory.limit_in_bytes", memory_of, false},
    {CAGE_LIMITS_V1, CAGE_MEMORY, "memory.memsw.limit_in_bytes", memory_of, true},
    {CAGE_LIMITS_V1, CAGE_PIDS, "pids.max", processes_of, false},
    {CAGE_LIMITS_V1, CAGE_CPU, "cpu.shares", shares_of, true},
};

/* Where each counter is, and the word before it. */
static const struct {
    enum cage_limits_mode mode;
    enum cage_limit limit;
    enum cage_controller controller;
    const char *file, *word;
} counters[] = {
    {CAGE_LIMITS_V2, CAGE_LIMIT_MEMORY, CAGE_MEMORY, "memory.events", "oom_kill"},
    {CAGE_LIMITS_V2, CAGE_LIMIT_PROCESSES, CAGE_PIDS, "pids.events", "max"},
    {CAGE_LIMITS_V1, CAGE_LIMIT_MEMORY, CAGE_MEMORY, "memory.oom_control", "oom_kill"},
    {CAGE_LIMITS_V1, CAGE_LIMIT_PROCESSES, CAGE_PIDS, "pids.events", "max"},
};

static int cgroup_set(const struct cage_group *group, enum cage_controller controller,
                      const struct cage_group_limits *limits, struct kg_err *err)
{
    const char *folder = group->folders[controller];
    for (size_t i = 0; folder != NULL && i < KG_COUNT(settings); i++) {
        if (settings[i].mode != group->mode || settings[i].controller != controller)
            continue;
        char text[24];
        snprintf(text, sizeof(text), "%llu", (unsigned long long)settings[i].value(limits));
        int result = cgroup_write_file(folder, settings[i].file, text);
        if (result < 0 && !settings[i].optional)
            return kg_fail_errno(err, -result, "write %s to %s/%s", text, folder, settings[i].file);
    }
    return 0;
}

int cage_group_limit(const struct cage_group *group, const struct cage_group_limits *limits,
                     struct kg_err *err)
{
    int result = limits->memory_bytes != 0 ? cgroup_set(group, CAGE_MEMORY, limits, err) : 0;
    return result < 0 ? result : cgroup_set(group, CAGE_PIDS, limits, err);
}

void cage_group_share(const struct cage_group *group, unsigned cpu_shares)
{
    const struct cage_group_limits limits = {.cpu_shares = cpu_shares};
    if (cpu_shares != 0)
        (void)cgroup_set(group, CAGE_CPU, &limits, NULL);
}

/* -- making a group ---------------------------------------------------------------------------- */

static int cgroup_make_folders(struct cage_cgroups *cgroups, struct cage_group *group,
                               struct kg_err *err)
{
    uint32_t id = ++cgroups->made;
    for (enum cage_controller which = 0; which < CAGE_CONTROLLERS; which++) {
        if (cgroups->bases[which] == NULL)
            continue;
        char *folder = kg_format("%s/%s%u", cgroups->bases[which], cgroups->prefix, id);
        group->folders[which] = folder;
        if (mkdir(folder, 0755) == 0 || errno == EEXIST)
            continue;
        if (errno != ENOENT || cage_cgroups_prepare(cgroups, err) < 0 || mkdir(folder, 0755) < 0)
            return kg_fail_errno(err, errno, "make group %s", folder);
    }
    return 0;
}

static int cgroup_open_in(const char *folder, const char *file, int flags, struct kg_err *err)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", folder, file);
    int fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? kg_fail_errno(err, errno, "open %s", path) : fd;
}

static int open_files(struct cage_group *group, struct kg_err *err)
{
    bool one_tree = group->mode == CAGE_LIMITS_V2;
    /* A thread that moves itself, as `tasks` does, is the one case the kernel need not wait for. */
    const char *joins = one_tree ? "cgroup.procs" : "tasks";
    for (enum cage_controller which = 0; which < CAGE_CONTROLLERS; which++) {
        if (group->folders[which] == NULL || (one_tree && which != CAGE_MEMORY))
            continue;
        group->procs[which] = cgroup_open_in(group->folders[which], joins, O_WRONLY, err);
        if (group->procs[which] < 0)
            return group->procs[which];
    }
    /* A kernel that does not count leaves us without the count. */
    for (size_t i = 0; i < KG_COUNT(counters); i++)
        if (counters[i].mode == group->mode)
            group->events[counters[i].limit] = cgroup_open_in(
                group->folders[counters[i].controller], counters[i].file, O_RDONLY, NULL);
    if (one_tree)
        group->folder =
            cgroup_open_in(group->folders[CAGE_MEMORY], ".", O_RDONLY | O_DIRECTORY, NULL);
    return 0;
}

/* When v1's files are looked at; all groups at once, so that many do not wake us more often. */
static uint64_t next_look_ms(const struct cage_group *group, uint64_t now_ms)
{
    return group->mode == CAGE_LIMITS_V1 ? (now_ms / LOOK_PAUSE_MS + 1) * LOOK_PAUSE_MS : 0;
}

struct cage_group *cage_group_new(struct cage_cgroups *cgroups, struct kg_err *err)
{
    struct cage_group *group = kg_alloc(sizeof(*group));
    group->mode = cgroups->mode;
    group->folder = -1;
    for (enum cage_controller which = 0; which < CAGE_CONTROLLERS; which++)
        group->procs[which] = -1;
    for (size_t i = 0; i < COUNTERS; i++)
        group->events[i] = -1;
    int result = cgroup_make_folders(cgroups, group, err);
    if (result == 0)
        result = open_files(group, err);
    if (result < 0) {
        cage_group_end(cgroups, group);
        return NULL;
    }
    group->look_at_ms = next_look_ms(group, kg_monotonic_ms());
    return group;
}

void cage_group_end(struct cage_cgroups *cgroups, struct cage_group *group)
{
    if (group == NULL)
        return;
    group->next = cgroups->dying;
    cgroups->dying = group;
    cage_cgroups_tidy(cgroups);
}

/* -- joining ----------------------------------------------------------------------------------- */

/*
 * To be born in a group costs nothing; to join one as a process makes the kernel wait for every
 * processor, some milliseconds when none has joined for a while.
 */
static pid_t clone_into(int folder)
{
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)folder};
    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* In the child, which has one thread. */
static int join(const struct cage_group *group)
{
    for (enum cage_controller which = 0; which < CAGE_CONTROLLERS; which++) {
        int result = group->procs[which] < 0 ? 0 : kg_write_all(group->procs[which], "0", 1);
        if (result < 0)
            return result;
    }
    return 0;
}

pid_t cage_group_fork(struct cage_group *group, int *ret_join)
{
    *ret_join = 0;
    if (group == NULL)
        return fork();
    pid_t pid = group->folder >= 0 ? clone_into(group->folder) : -1;
    if (pid == 0)
        return 0;
    if (pid < 0) {
        pid = fork(); /* an older kernel, or v1 */
        if (pid == 0)
            *ret_join = join(group);
    }
    if (pid != 0) {
        kg_close(&group->folder);
        for (enum cage_controller which = 0; which < CAGE_CONTROLLERS; which++)
            kg_close(&group->procs[which]);
    }
    return pid;
}

/* -- counting ---------------------------------------------------------------------------------- */

static uint32_t read_counter(int fd, const char *word)
{
    char text[EVENTS_MAX_BYTES];
    ssize_t got = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
    size_t length = strlen(word);
    text[got > 0 ? got : 0] = '\0';
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, word, length) == 0 && line[length] == ' ') {
            unsigned long long count = strtoull(line + length + 1, NULL, 10);
            return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return 0;
}

void cage_group_read(const struct cage_group *group, uint32_t ret_counts[2])
{
    for (size_t i = 0; i < KG_COUNT(counters); i++)
        if (counters[i].mode == group->mode)
            ret_counts[counters[i].limit] =
                read_counter(group->events[counters[i].limit], counters[i].word);
}

/* The kernel announces changes of v2's files; those of v1 have to be looked at now and then. */
void cage_group_polls(const struct cage_group *group, struct pollfd ret_polls[CAGE_GROUP_POLLS])
{
    bool waits = group != NULL && group->mode == CAGE_LIMITS_V2 && group->look_at_ms == 0;
    for (size_t i = 0; i < CAGE_GROUP_POLLS; i++)
        ret_polls[i] = (struct pollfd){.fd = waits ? group->events[i] : -1, .events = POLLPRI};
}

int cage_group_wait_ms(const struct cage_group *group, uint64_t now_ms)
{
    if (group == NULL || group->look_at_ms == 0)
        return -1;
    return group->look_at_ms > now_ms ? (int)(group->look_at_ms - now_ms) : 0;
}

unsigned cage_group_look(struct cage_group *group, const struct pollfd polls[CAGE_GROUP_POLLS],
                         uint64_t now_ms, uint32_t ret_counts[2])
{
    if (group == NULL)
        return 0;
    if (group->look_at_ms == 0 && (polls[0].revents | polls[1].revents) != 0)
        group->look_at_ms = group->looked_at_ms + LOOK_PAUSE_MS;
    if (cage_group_wait_ms(group, now_ms) != 0)
        return 0;
    unsigned rose = 0;
    cage_group_read(group, ret_counts);
    for (unsigned i = 0; i < COUNTERS; i++) {
        rose |= ret_counts[i] > group->counts[i] ? 1u << i : 0;
        group->counts[i] = ret_counts[i];
    }
    group->looked_at_ms = now_ms;
    group->look_at_ms = next_look_ms(group, now_ms);
    return rose;
}
