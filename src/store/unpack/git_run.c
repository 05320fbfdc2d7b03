/* git's own program, with the environment that is made here and nothing else. */
#include "store/unpack/git.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define WORDS_MAX 16

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

/* git with the place that it works in; `argv` has room for all words. */
static struct run_program git_run_program_of(const struct git_place *place, const char *folder,
                                             const char *const *words,
                                             const char *argv[WORDS_MAX + 3])
{
    size_t count = 0;
    argv[count++] = "git";
    argv[count++] = folder;
    for (; *words != NULL && count < WORDS_MAX + 2; words++)
        argv[count++] = *words;
    argv[count] = NULL;
    return (struct run_program){.words = argv, .environment = place->environment};
}

static char *folder_option(const struct git_place *place)
{
    return kg_format("--git-dir=%s", place->repository);
}

/* -- one command to its end -------------------------------------------------------------------- */

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
    {"terminal prompts disabled", "it does not exist, or is not public: kaged gives no passwords"},
    {"not found", "look at the URL; kaged gives no passwords, so it must be public"},
    {"couldn't find remote ref HEAD", "the repository is empty"},
    {"does not appear to be a git repository", "for a plain folder, give its path without file://"},
    {"run git: No such file", "install git"},
};

static int git_run_fail(struct run_end *end, const char *what, struct kg_err *err)
{
    struct kg_str words = last_words(&end->said);
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    kg_buf_escaped(&shown, words);
    const char *text = kg_buf_terminate(&shown);
    if (end->too_much || strstr(text, "File too large") != NULL)
        return kg_fail(err, KG_E_TOO_LARGE, "git %s: there is more to fetch than the bound", what);
    int result = kg_fail(err, KG_E_INVALID_SOURCE, "git %s: %s", what,
                         text[0] != '\0' ? text : "it failed without a message");
    for (size_t i = 0; i < KG_COUNT(hints); i++)
        if (strstr(text, hints[i].said) != NULL) {
            kg_hint(err, "%s", hints[i].hint);
            break;
        }
    return result;
}

int git_run(const struct git_place *place, const char *const *words,
            const struct run_output *output, const struct run_watch *watch, struct kg_err *err)
{
    kg_auto(run_end_free) struct run_end end = {0};
    kg_auto(kg_free) char *folder = folder_option(place);
    const char *argv[WORDS_MAX + 3];
    const struct run_program program = git_run_program_of(place, folder, words, argv);
    int result = run_to_end(&program, output, watch, &end, err);
    if (result < 0)
        return result;
    return end.well ? 0 : git_run_fail(&end, words[0], err);
}

/* -- one that is spoken with ------------------------------------------------------------------- */

int git_child_start(const struct git_place *place, const char *const *words,
                    struct git_child *ret_child, struct kg_err *err)
{
    kg_auto(run_pipes_free) struct run_pipes pipes = run_pipes_none;
    kg_auto(kg_free) char *folder = folder_option(place);
    const char *argv[WORDS_MAX + 3];
    const struct run_program program = git_run_program_of(place, folder, words, argv);
    pid_t pid;
    int result = run_pipe(&pipes, STDIN_FILENO, err);
    if (result == 0)
        result = run_pipe(&pipes, STDOUT_FILENO, err);
    if (result == 0)
        result = run_start(&program, &pipes, &pid, err);
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
    return run_left_well(pid, NULL);
}

void git_child_free(struct git_child *child)
{
    if (child->pid != 0) {
        kill(child->pid, SIGKILL);
        run_left_well(child->pid, NULL);
    }
    kg_close(&child->in);
    kg_close(&child->out.fd);
}

static bool git_run_fill(struct git_stream *stream)
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
        if (stream->at == stream->length && !git_run_fill(stream))
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
    return stream->at == stream->length && !git_run_fill(stream);
}
