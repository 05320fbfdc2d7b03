/* Every wait is for a condition, and has a deadline that fails the test. */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SHOWN_LINES_MAX 100 /* of a second run that failed */
#define PROBE_MAX_BYTES ((size_t)64 * 1024 * 1024)

static void on_lost(void *data)
{
    struct world *world = data;
    world->lost = true;
}

void world_write(struct world *world, const char *name, const char *text, mode_t mode)
{
    kg_auto(kg_free) char *path = kg_format("%s/%s", world->folder, name);
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(kg_write_all(fd, text, strlen(text)), 0);
}

void world_copy(struct world *world, const char *name)
{
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(length > 0);
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    kg_auto(kg_free) char *from = kg_format("%s/%s", self, name);
    kg_auto(kg_free) char *to = kg_format("%s/%s", world->folder, name);
    kg_auto(kg_buf_free) struct kg_buf bytes = {0};
    struct kg_err err;
    if (kg_read_file(from, PROBE_MAX_BYTES, &bytes, &err) < 0)
        fail_msg("%s", err.message);
    kg_auto(kg_close) int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    assert_int_equal(kg_write_all(fd, bytes.data, bytes.length), 0);
}

struct world *world_new(void)
{
    struct kg_err err = {0};
    struct world *world = kg_alloc(sizeof(*world));
    world->facts = cage_facts_probe(&err);
    if (world->facts == NULL)
        fail_msg("%s (%s)", err.message, err.hint);
    world->spawner = cage_spawner_start(&err);
    if (world->spawner == NULL)
        fail_msg("%s (%s)", err.message, err.hint);
    world->loop = loop_new();
    assert_int_equal(cage_spawner_attach(world->spawner, world->loop, on_lost, world, &err), 0);
    strcpy(world->folder, "/tmp/kaged-holes-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    world_copy(world, "probe");
    world_copy(world, "probe-dynamic");
    return world;
}

void world_free(struct world *world)
{
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", world->folder);
    cage_spawner_free(world->spawner);
    loop_free(world->loop);
    cage_facts_free(world->facts);
    assert_int_equal(system(command), 0);
    free(world);
}

/* -- runs -------------------------------------------------------------------------------------- */

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static void stop_reading(uv_poll_t **poll)
{
    if (*poll == NULL)
        return;
    uv_os_fd_t fd;
    uv_fileno((uv_handle_t *)*poll, &fd);
    uv_close((uv_handle_t *)*poll, on_poll_closed);
    close(fd);
    *poll = NULL;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct run *run = poll->data;
    bool is_out = poll == run->out_poll;
    struct kg_buf *text = is_out ? &run->out : &run->err;
    uv_os_fd_t fd;
    uv_fileno((uv_handle_t *)poll, &fd);
    kg_buf_reserve(text, 4096);
    ssize_t got = read(fd, text->data + text->length, 4096);
    if (got > 0)
        text->length += (size_t)got;
    if (got > 0 || (got < 0 && errno == EAGAIN))
        return;
    *(is_out ? &run->out_ended : &run->err_ended) = true;
    stop_reading(is_out ? &run->out_poll : &run->err_poll);
}

static uv_poll_t *start_reading(struct run *run, int fd)
{
    uv_poll_t *poll = kg_alloc(sizeof(*poll));
    uv_poll_init(loop_uv(run->world->loop), poll, fd);
    poll->data = run;
    uv_poll_start(poll, UV_READABLE, on_readable);
    return poll;
}

static void on_spawned(void *data, pid_t pid, int in_fd, int out_fd, int err_fd)
{
    struct run *run = data;
    run->spawned = true;
    run->bwrap = pid;
    run->in_fd = in_fd;
    run->out_poll = start_reading(run, out_fd);
    run->err_poll = start_reading(run, err_fd);
}

static void on_exited(void *data, const struct cage_exit *how, const char *error)
{
    struct run *run = data;
    assert_false(run->exited);
    run->exited = true;
    run->how = *how;
    run->error = error ? kg_strdup(error) : NULL;
    run->child = NULL;
    if (run->attempts != NULL)
        cage_attempts_finish(run->attempts);
}

static void on_socket(void *data, uint32_t index, int fd)
{
    struct run *run = data;
    if (index == CAGE_SOCKET_TRIED)
        run->attempts = cage_attempts_new(run->world->loop, fd, NULL, NULL);
    else if (run->world->on_socket != NULL)
        run->world->on_socket(run->world, index, fd);
    else
        close(fd);
}

static void on_limit(void *data, enum cage_limit limit, uint32_t count)
{
    ((struct run *)data)->limits[limit] = count;
}

static const struct cage_child_ops run_ops = {
    .on_spawned = on_spawned, .on_exited = on_exited, .on_socket = on_socket, .on_limit = on_limit};

struct cage_policy world_policy(struct world *world, const char *const *command)
{
    static const char *const env[] = {"PATH=/usr/bin:/usr/local/bin", "LANG=C.UTF-8", "HOME=/tmp",
                                      NULL};
    return (struct cage_policy){.name = "probe",
                                .install_dir = world->folder,
                                .command = command,
                                .env = env,
                                .processes_max = WORLD_PROCESSES,
                                .tmp_bytes = WORLD_TMP_BYTES,
                                .watched = getenv(WORLD_WATCHED) != NULL};
}

static struct cage_plan *make_plan(struct world *world, const struct cage_policy *policy)
{
    struct kg_err err = {0};
    struct cage_plan *plan = cage_plan_new(policy, world->facts, &err);
    if (plan == NULL)
        fail_msg("%s (%s)", err.message, err.hint);
    return plan;
}

struct cage_plan *world_plan(struct world *world, const char *const *command)
{
    struct cage_policy policy = world_policy(world, command);
    return make_plan(world, &policy);
}

struct run *run_plan(struct world *world, const struct cage_plan *plan)
{
    struct kg_err err = {0};
    struct run *run = kg_alloc(sizeof(*run));
    run->world = world;
    run->in_fd = -1;
    run->child = cage_spawn(world->spawner, plan, &run_ops, run, &err);
    if (run->child == NULL)
        fail_msg("%s", err.message);
    return run;
}

struct run *run_policy(struct world *world, const struct cage_policy *policy)
{
    struct cage_plan *plan = make_plan(world, policy);
    struct run *run = run_plan(world, plan);
    cage_plan_free(plan);
    return run;
}

struct run *run_start(struct world *world, const char *const *command)
{
    struct cage_policy policy = world_policy(world, command);
    return run_policy(world, &policy);
}

static bool is_over(void *data)
{
    struct run *run = data;
    return run->exited && (!run->spawned || (run->out_ended && run->err_ended));
}

static bool has_line(const struct run *run)
{
    return memchr(run->out.data ? run->out.data : "", '\n', run->out.length) != NULL;
}

/* Who the plugin is may be told later than what it says, or not at all if it ends at once. */
static bool has_line_or_is_over(void *data)
{
    struct run *run = data;
    return is_over(run) || (has_line(run) && (run->exited || cage_child_root(run->child) > 0));
}

void run_wait_exit(struct run *run)
{
    if (!loop_run_until(run->world->loop, is_over, run, WORLD_WAIT_MS))
        fail_msg("it did not end: exited %d, out ended %d, err ended %d, out \"%s\", err \"%s\"",
                 run->exited, run->out_ended, run->err_ended, kg_buf_terminate(&run->out),
                 kg_buf_terminate(&run->err));
}

void run_wait_line(struct run *run)
{
    if (!loop_run_until(run->world->loop, has_line_or_is_over, run, WORLD_WAIT_MS) ||
        !has_line(run))
        fail_msg("no line: out \"%s\", err \"%s\", error \"%s\"", kg_buf_terminate(&run->out),
                 kg_buf_terminate(&run->err), run->error ? run->error : "");
}

const char *run_line(struct run *run)
{
    run_wait_exit(run);
    char *text = kg_buf_terminate(&run->out);
    if (run->error != NULL || run->err.length > 0 || strchr(text, '\n') == NULL)
        fail_msg("out \"%s\", err \"%s\", error \"%s\", built %d, exit code %d, signal %d", text,
                 kg_buf_terminate(&run->err), run->error ? run->error : "", run->how.built,
                 run->how.exit_code, run->how.signal);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

void run_free(struct run **at)
{
    struct run *run = *at;
    stop_reading(&run->out_poll);
    stop_reading(&run->err_poll);
    kg_close(&run->in_fd);
    kg_buf_free(&run->out);
    kg_buf_free(&run->err);
    cage_attempts_free(run->attempts);
    free(run->error);
    free(run);
}

/* -- as somebody else -------------------------------------------------------------------------- */

void world_skip(const char *test, const char *reason)
{
    const char *ci = getenv("CI");
    if (ci != NULL && strcmp(ci, "true") == 0)
        fail_msg("%s", reason);
    printf("SKIP %s: %s\n", test, reason);
}

pid_t world_fork(void)
{
    pid_t parent = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    if (getppid() != parent)
        _exit(1);
    return 0;
}

void world_read(int fd, void *bytes, size_t size)
{
    for (size_t length = 0; length < size;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&wait, 1, 2 * WORLD_WAIT_MS), 1);
        ssize_t got = read(fd, (char *)bytes + length, size - length);
        assert_true(got > 0);
        length += (size_t)got;
    }
}

static int run_again(int output, bool as_ordinary_user)
{
    char *const argv[] = {program_invocation_short_name, NULL};
    if (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)
        return 126;
    setenv("CMOCKA_MESSAGE_OUTPUT", "STDOUT", 1);
    if (as_ordinary_user && (setgid(ORDINARY_UID) < 0 || setuid(ORDINARY_UID) < 0))
        return 126;
    if (chdir("/") < 0)
        return 126;
    char self[4096];
    prctl(PR_SET_DUMPABLE, 1);
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length <= 0)
        return 126;
    self[length] = '\0';
    /* A test may keep fds open for its plugins to find. */
    close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
    execv(self, argv);
    return 126;
}

/* What was skipped over there is a note here; what failed is shown whole, but for what did not. */
static void pass_on(char *text, const char *how, bool failed)
{
    unsigned shown = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        if (strncmp(line, "SKIP ", 5) == 0)
            printf("# %s: %s\n", how, line);
        else if (failed && strstr(line, " OK ] ") == NULL && strstr(line, "[ RUN ") == NULL &&
                 shown++ < SHOWN_LINES_MAX)
            printf("%s\n", line);
}

static void do_again(bool as_ordinary_user, const char *how)
{
    /* A file, not a pipe: whoever outlives that run, and holds its output, must not hold this one.
     */
    kg_auto(kg_close) int output = memfd_create("second run", MFD_CLOEXEC);
    assert_true(output >= 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_again(output, as_ordinary_user));
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    kg_auto(kg_buf_free) struct kg_buf said = {0};
    off_t size = lseek(output, 0, SEEK_END);
    kg_buf_reserve(&said, (size_t)size + 1);
    assert_int_equal(pread(output, said.data, (size_t)size, 0), size);
    said.length = (size_t)size;
    pass_on(kg_buf_terminate(&said), how, status != 0);
    if (status != 0)
        fail_msg("%s: status %d", how, status);
}

#define WORLD_AGAIN "KAGED_TEST_AGAIN" /* this is not the first run */

void world_again_as_ordinary_user(void)
{
    if (geteuid() != 0)
        return;
    setenv(WORLD_AGAIN, "1", 1);
    do_again(true, "as an ordinary user");
    unsetenv(WORLD_AGAIN);
}

void world_again_watched(void)
{
    if (getenv(WORLD_AGAIN) != NULL || getenv(WORLD_WATCHED) != NULL)
        return;
    setenv(WORLD_WATCHED, "1", 1);
    do_again(false, "while it is watched");
    unsetenv(WORLD_WATCHED);
}
