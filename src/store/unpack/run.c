/*
 * A program of the machine's own, such as git or npm. It gets the environment that is given here
 * and nothing else, no terminal, no fd but its three; it never outlives us, since the cage does
 * not.
 */
#include "store/unpack/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAUSE_MS       200
#define SAID_BYTES_MAX 16384 /* of stderr: the last of it */

const struct run_pipes run_pipes_none = {{-1, -1, -1}, {-1, -1, -1}};

/* -- starting ---------------------------------------------------------------------------------- */

void run_pipes_free(struct run_pipes *pipes)
{
    for (int i = 0; i < 3; i++) {
        kg_close(&pipes->ours[i]);
        kg_close(&pipes->its[i]);
    }
}

int run_pipe(struct run_pipes *pipes, int number, struct kg_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return kg_fail_errno(err, errno, "make a pipe");
    bool reads = number == STDIN_FILENO;
    pipes->its[number] = ends[reads ? 0 : 1];
    pipes->ours[number] = ends[reads ? 1 : 0];
    return 0;
}

__attribute__((noreturn)) static void store_unpack_run_become(const struct run_program *program,
                                                              const struct run_pipes *pipes)
{
    for (int i = 0; i < 3; i++)
        if (pipes->its[i] >= 0 && dup2(pipes->its[i], i) < 0)
            _exit(127);
    close_range(STDERR_FILENO + 1, ~0u, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    if (program->folder == NULL || chdir(program->folder) == 0)
        execvpe(program->words[0], (char *const *)program->words, program->environment);
    dprintf(STDERR_FILENO, "fatal: run %s: %s\n", program->words[0], strerror(errno));
    _exit(127);
}

int run_start(const struct run_program *program, const struct run_pipes *pipes, pid_t *ret_pid,
              struct kg_err *err)
{
    pid_t pid = fork();
    if (pid < 0)
        return kg_fail_errno(err, errno, "start %s", program->words[0]);
    if (pid == 0)
        store_unpack_run_become(program, pipes);
    *ret_pid = pid;
    return 0;
}

bool run_left_well(pid_t pid, int *ret_signal_or_null)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    if (ret_signal_or_null != NULL)
        *ret_signal_or_null = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* -- one command to its end -------------------------------------------------------------------- */

struct command {
    struct run_pipes pipes;
    const struct run_output *output;
    const struct run_watch *watch;
    struct run_end *end;
};

static void keep_last(struct kg_buf *text)
{
    if (text->length > SAID_BYTES_MAX)
        kg_buf_consume(text, text->length - SAID_BYTES_MAX);
}

/* Closes it at its end. */
static void store_unpack_run_read_some(struct command *command, int number)
{
    char bytes[4096];
    struct run_end *end = command->end;
    ssize_t got = read(command->pipes.ours[number], bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR)
        return;
    if (got <= 0) {
        kg_close(&command->pipes.ours[number]);
        return;
    }
    if (number == STDERR_FILENO) {
        kg_buf_append(&end->said, bytes, (size_t)got);
        keep_last(&end->said);
    } else if (command->output != NULL) {
        kg_buf_append(command->output->text, bytes, (size_t)got);
        end->too_much |= command->output->text->length > command->output->max;
    }
}

static void store_unpack_run_follow(struct command *command, pid_t pid)
{
    const int *ours = command->pipes.ours;
    while (ours[STDOUT_FILENO] >= 0 || ours[STDERR_FILENO] >= 0) {
        struct pollfd polls[] = {{.fd = ours[STDOUT_FILENO], .events = POLLIN},
                                 {.fd = ours[STDERR_FILENO], .events = POLLIN}};
        if (poll(polls, KG_COUNT(polls), PAUSE_MS) < 0 && errno != EINTR)
            break;
        if (polls[0].revents != 0)
            store_unpack_run_read_some(command, STDOUT_FILENO);
        if (polls[1].revents != 0)
            store_unpack_run_read_some(command, STDERR_FILENO);
        if (command->watch != NULL && !command->watch->on_pause(command->watch->data))
            command->end->too_much = true;
        if (command->end->too_much)
            kill(pid, SIGKILL);
    }
}

static void store_unpack_run_command_free(struct command *command)
{
    run_pipes_free(&command->pipes);
}

int run_to_end(const struct run_program *program, const struct run_output *output,
               const struct run_watch *watch, struct run_end *ret_end, struct kg_err *err)
{
    kg_auto(store_unpack_run_command_free) struct command command = {
        .pipes = run_pipes_none, .output = output, .watch = watch, .end = ret_end};
    struct run_pipes *pipes = &command.pipes;
    pid_t pid = -1;
    int result = 0;
    for (int i = 0; i < 3 && result == 0; i++)
        result = run_pipe(pipes, i, err);
    if (result == 0)
        result = run_start(program, pipes, &pid, err);
    if (result < 0)
        return result;
    kg_close(&pipes->ours[STDIN_FILENO]);
    for (int i = 0; i < 3; i++)
        kg_close(&pipes->its[i]);
    store_unpack_run_follow(&command, pid);
    ret_end->well = run_left_well(pid, &ret_end->signal) && !ret_end->too_much;
    return 0;
}

void run_end_free(struct run_end *end)
{
    kg_buf_free(&end->said);
}
