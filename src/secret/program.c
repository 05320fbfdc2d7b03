/*
 * A password manager's program. It needs the operator's own sockets, so it has no cage: it is run
 * as written in a file that only the operator can write, and what it may take is bounded. Nothing
 * that it prints is logged.
 */
#include "secret/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME_MARK "{name}"

/* -- what it is given -------------------------------------------------------------------------- */

static char *word_for(struct kg_str word, struct kg_str name, bool *named)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (size_t i = 0; i < word.length;) {
        struct kg_str rest = kg_str_from(word, i);
        bool is_mark = kg_str_starts(rest, NAME_MARK);
        kg_buf_str(&text, is_mark ? name : kg_str_first(rest, 1));
        i += is_mark ? sizeof(NAME_MARK) - 1 : 1;
        *named |= is_mark;
    }
    return kg_str_dup(kg_buf_view(&text));
}

static char **words_for(const struct kg_node *command, struct kg_str name)
{
    char **words = kg_list_new(command->count);
    bool named = false;
    for (uint32_t i = 0; i < command->count; i++)
        words[i] = word_for(command->items[i].text, name, &named);
    if (!named)
        kg_list_add(&words, kg_str_dup(name));
    return words;
}

static char **variables_for(const struct kg_node *environment_or_null)
{
    char **variables = kg_list_new(0);
    for (uint32_t i = 0; environment_or_null != NULL && i < environment_or_null->count; i++) {
        kg_auto(kg_free) char *name = kg_str_dup(environment_or_null->items[i].text);
        const char *value = getenv(name);
        if (value != NULL)
            kg_list_add(&variables, kg_format("%s=%s", name, value));
    }
    return variables;
}

/* -- its run ----------------------------------------------------------------------------------- */

static int secret_program_start(char **words, char **variables, int output, pid_t *ret_child,
                                struct kg_err *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    int errnum = posix_spawnp(ret_child, words[0], &files, &attributes, words, variables);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return errnum == 0 ? 0 : kg_fail_errno(err, errnum, "run %s", words[0]);
}

/* All that it prints, until it closes its output. */
static int secret_program_read_output(int fd, const char *program, int64_t timeout_ms,
                                      struct kg_buf *value, struct kg_err *err)
{
    uint64_t until_ms = kg_monotonic_ms() + (uint64_t)timeout_ms;
    for (;;) {
        uint64_t now_ms = kg_monotonic_ms();
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        if (now_ms >= until_ms)
            return kg_fail(err, KG_E_IO, "%s did not answer in %lld ms", program,
                           (long long)timeout_ms);
        int ready = poll(&readable, 1, (int)(until_ms - now_ms));
        if (ready <= 0)
            continue;
        kg_buf_reserve(value, SECRET_BYTES_MAX + 2);
        ssize_t got = read(fd, value->data + value->length, SECRET_BYTES_MAX + 2 - value->length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kg_fail_errno(err, errno, "read what %s prints", program);
        if (got == 0)
            return 0;
        value->length += (size_t)got;
        if (value->length > SECRET_BYTES_MAX + 1)
            return kg_fail(err, KG_E_TOO_LARGE, "%s printed more than %d bytes", program,
                           SECRET_BYTES_MAX);
    }
}

/* It may have closed its output and gone on. It is left to be reaped. */
static int secret_program_wait_for_end(pid_t child, const char *program, int64_t timeout_ms,
                                       struct kg_err *err)
{
    uint64_t until_ms = kg_monotonic_ms() + (uint64_t)timeout_ms;
    siginfo_t ended = {0};
    while (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0) {
        if (kg_monotonic_ms() >= until_ms)
            return kg_fail(err, KG_E_IO, "%s did not end in %lld ms", program,
                           (long long)timeout_ms);
        poll(NULL, 0, 2);
    }
    if (ended.si_code == CLD_EXITED && ended.si_status == 0)
        return 0;
    return kg_fail(err, KG_E_IO, "%s ended with %s %d", program,
                   ended.si_code == CLD_EXITED ? "exit code" : "signal", ended.si_status);
}

static int secret_program_run(const struct local_secrets *program, char **words, char **variables,
                              struct kg_buf *value, struct kg_err *err)
{
    int ends[2];
    pid_t child = -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return kg_fail_errno(err, errno, "make a pipe");
    kg_auto(kg_close) int output = ends[0];
    int result = secret_program_start(words, variables, ends[1], &child, err);
    kg_close(&ends[1]);
    if (result < 0)
        return result;
    result = secret_program_read_output(output, words[0], program->timeout_ms, value, err);
    if (result == 0)
        result = secret_program_wait_for_end(child, words[0], program->timeout_ms, err);
    kill(-child, SIGKILL); /* and what it started, before its number is free */
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    return result;
}

int secret_ask_program(const struct local_secrets *program, struct kg_str name,
                       struct kg_buf *ret_value, struct kg_err *err)
{
    kg_auto(secret_wipe) struct kg_buf value = {0};
    char **words = words_for(program->command, name);
    char **variables = variables_for(program->environment);
    int result = secret_program_run(program, words, variables, &value, err);
    kg_list_free(words);
    kg_list_free(variables);
    if (result < 0)
        return result;
    value.length -= value.length > 0 && value.data[value.length - 1] == '\n';
    result = secret_check(name, kg_buf_view(&value), err);
    if (result == 0)
        kg_buf_str(ret_value, kg_buf_view(&value));
    return result;
}
