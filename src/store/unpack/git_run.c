/*
 * git's own program. It gets the environment that is given here and nothing else, no terminal, no
 * fd but its three; it never outlives us, since the cage does not.
 */
#include "store/unpack/git.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAUSE_MS       200
#define WORDS_MAX      16
#define SAID_BYTES_MAX 4096 /* of stderr: the last of it */

const struct git_child git_child_none = {.pid = 0, .in = -1, .out = {.fd = -1}};

char **git_environment(const char *home, const char *config, const char *protocol)
{
    static const char *const fixed[] = {
        "PATH=/usr/bin:/usr/local/bin", "LC_ALL=C.UTF-8",        "GIT_CONFIG_NOSYSTEM=1",
        "GIT_ATTR_NOSYSTEM=1",          "GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1",
    };
    char **list = kg_list_new(KG_COUNT(fixed) + 3);
    for (size_t i = 0; i < KG_COUNT(fixed); i++)
        kg_list_add(&list, kg_strdup(fixed[i]));
    kg_list_add(&list, kg_format("HOME=%s", home));
    kg_list_add(&list, kg_format("GIT_CONFIG_GLOBAL=%s", config));
    kg_list_add(&list, kg_format("GIT_ALLOW_PROTOCOL=%s", protocol));
    return list;
}

/* -- starting ---------------------------------------------------------------------------------- */

/* Our ends of a child's stdio, and its own; -1 where it keeps ours. */
struct pipes {
    int ours[3], its[3];
};

static void pipes_free(struct pipes *pipes)
{
    for (int i = 0; i < 3; i++) {
        kg_close(&pipes->ours[i]);
        kg_close(&pipes->its[i]);
    }
}

static int make_pipe(struct pipes *pipes, int number, struct kg_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return kg_fail_errno(err, errno, "make a pipe for git");
    bool reads = number == STDIN_FILENO;
    pipes->its[number] = ends[reads ? 0 : 1];
    pipes->ours[number] = ends[reads ? 1 : 0];
    return 0;
}

__attribute__((noreturn)) static void become_git(const struct pipes *pipes, char *const *words,
                                                 char *const *environment)
{
    for (int i = 0; i < 3; i++)
        if (pipes->its[i] >= 0 && dup2(pipes->its[i], i) < 0)
            _exit(127);
    close_range(STDERR_FILENO + 1, ~0u, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    execvpe(words[0], words, environment);
    dprintf(STDERR_FILENO, "fatal: run git: %s\n", strerror(errno));
    _exit(127);
}

static int start(const struct git_place *place, const char *const *words, const struct pipes *pipes,
                 pid_t *ret_pid, struct kg_err *err)
{
    kg_auto(kg_free) char *folder = kg_format("--git-dir=%s", place->repository);
    const char *argv[WORDS_MAX + 3] = {"git", folder};
    size_t count = 2;
    for (; *words != NULL && count < WORDS_MAX + 2; words++)
        argv[count++] = *words;
    pid_t pid = fork();
    if (pid < 0)
        return kg_fail_errno(err, errno, "start git");
    if (pid == 0)
        become_git(pipes, (char *const *)argv, place->environment);
    *ret_pid = pid;
    return 0;
}

static bool left_well(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* -- one command to its end -------------------------------------------------------------------- */

struct command {
    struct pipes pipes;
    const struct git_output *output;
    const struct git_watch *watch;
    struct kg_buf said; /* on stderr */
    bool too_much;
};

static void keep_last(struct kg_buf *text)
{
    if (text->length > SAID_BYTES_MAX)
        kg_buf_consume(text, text->length - SAID_BYTES_MAX);
}

/* Closes it at its end. */
static void read_some(struct command *command, int number)
{
    char bytes[4096];
    ssize_t got = read(command->pipes.ours[number], bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR)
        return;
    if (got <= 0) {
        kg_close(&command->pipes.ours[number]);
        return;
    }
    if (number == STDERR_FILENO) {
        kg_buf_append(&command->said, bytes, (size_t)got);
        keep_last(&command->said);
    } else if (command->output != NULL) {
        kg_buf_append(command->output->text, bytes, (size_t)got);
        command->too_much |= command->output->text->length > command->output->max;
    }
}

static void follow(struct command *command, pid_t pid)
{
    const int *ours = command->pipes.ours;
    while (ours[STDOUT_FILENO] >= 0 || ours[STDERR_FILENO] >= 0) {
        struct pollfd polls[] = {{.fd = ours[STDOUT_FILENO], .events = POLLIN},
                                 {.fd = ours[STDERR_FILENO], .events = POLLIN}};
        if (poll(polls, KG_COUNT(polls), PAUSE_MS) < 0 && errno != EINTR)
            break;
        if (polls[0].revents != 0)
            read_some(command, STDOUT_FILENO);
        if (polls[1].revents != 0)
            read_some(command, STDERR_FILENO);
        if (command->watch != NULL && !command->watch->on_pause(command->watch->data))
            command->too_much = true;
        if (command->too_much)
            kill(pid, SIGKILL);
    }
}

/* The first line that says what was fatal, else the last one. */
static struct kg_str last_words(struct kg_buf *said)
{
    struct kg_str last = KG_STR("");
    char *rest = NULL;
    for (char *line = strtok_r(kg_buf_terminate(said), "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "fatal: ", 7) == 0)
            return kg_str(line + 7);
        last = kg_str(line);
    }
    return last;
}

/* Some failures have a reason that git does not know of. */
static const struct {
    const char *said, *hint;
} hints[] = {
    {"terminal prompts disabled", "it is not there, or not public: kaged gives no passwords"},
    {"not found", "look at the URL; kaged gives no passwords, so it must be public"},
    {"couldn't find remote ref HEAD", "the repository is empty"},
    {"does not appear to be a git repository", "for a plain folder, give its path without file://"},
    {"run git: No such file", "install git"},
};

static int fail(struct command *command, const char *what, struct kg_err *err)
{
    struct kg_str words = last_words(&command->said);
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    kg_buf_escaped(&shown, words);
    const char *text = kg_buf_terminate(&shown);
    if (command->too_much || strstr(text, "File too large") != NULL)
        return kg_fail(err, KG_E_TOO_LARGE, "git %s: there is more to fetch than the bound", what);
    int result = kg_fail(err, KG_E_INVALID_SOURCE, "git %s: %s", what,
                         text[0] != '\0' ? text : "it failed without a word");
    for (size_t i = 0; i < KG_COUNT(hints); i++)
        if (strstr(text, hints[i].said) != NULL) {
            kg_hint(err, "%s", hints[i].hint);
            break;
        }
    return result;
}

static void command_free(struct command *command)
{
    pipes_free(&command->pipes);
    kg_buf_free(&command->said);
}

int git_run(const struct git_place *place, const char *const *words,
            const struct git_output *output, const struct git_watch *watch, struct kg_err *err)
{
    kg_auto(command_free) struct command command = {
        .pipes = {{-1, -1, -1}, {-1, -1, -1}}, .output = output, .watch = watch};
    struct pipes *pipes = &command.pipes;
    pid_t pid;
    int result = 0;
    for (int i = 0; i < 3 && result == 0; i++)
        result = make_pipe(pipes, i, err);
    if (result == 0)
        result = start(place, words, pipes, &pid, err);
    if (result < 0)
        return result;
    kg_close(&pipes->ours[STDIN_FILENO]);
    for (int i = 0; i < 3; i++)
        kg_close(&pipes->its[i]);
    follow(&command, pid);
    return left_well(pid) && !command.too_much ? 0 : fail(&command, words[0], err);
}

/* -- one that is spoken with ------------------------------------------------------------------- */

int git_child_start(const struct git_place *place, const char *const *words,
                    struct git_child *ret_child, struct kg_err *err)
{
    kg_auto(pipes_free) struct pipes pipes = {{-1, -1, -1}, {-1, -1, -1}};
    pid_t pid;
    int result = make_pipe(&pipes, STDIN_FILENO, err);
    if (result == 0)
        result = make_pipe(&pipes, STDOUT_FILENO, err);
    if (result == 0)
        result = start(place, words, &pipes, &pid, err);
    if (result < 0)
        return result;
    ret_child->pid = pid;
    ret_child->in = kg_steal_fd(&pipes.ours[STDIN_FILENO]);
    ret_child->out.fd = kg_steal_fd(&pipes.ours[STDOUT_FILENO]);
    return 0;
}

bool git_child_end(struct git_child *child)
{
    pid_t pid = child->pid;
    child->pid = 0;
    kg_close(&child->in);
    return left_well(pid);
}

void git_child_free(struct git_child *child)
{
    if (child->pid != 0) {
        kill(child->pid, SIGKILL);
        left_well(child->pid);
    }
    kg_close(&child->in);
    kg_close(&child->out.fd);
}

static bool fill(struct git_stream *stream)
{
    ssize_t got;
    do
        got = read(stream->fd, stream->bytes, sizeof(stream->bytes));
    while (got < 0 && errno == EINTR);
    stream->at = 0;
    stream->length = got > 0 ? (size_t)got : 0;
    return got > 0;
}

bool git_stream_read(struct git_stream *stream, void *ret_data, size_t length)
{
    char *to = ret_data;
    while (length > 0) {
        if (stream->at == stream->length && !fill(stream))
            return false;
        size_t part = stream->length - stream->at;
        part = part < length ? part : length;
        memcpy(to, stream->bytes + stream->at, part);
        stream->at += part;
        to += part;
        length -= part;
    }
    return true;
}

bool git_stream_until(struct git_stream *stream, char end, char *ret_text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!git_stream_read(stream, &ret_text[i], 1))
            return false;
        if (ret_text[i] == end) {
            ret_text[i] = '\0';
            return true;
        }
    }
    return false;
}

bool git_stream_at_end(struct git_stream *stream)
{
    return stream->at == stream->length && !fill(stream);
}
