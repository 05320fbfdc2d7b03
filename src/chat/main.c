/*
 * kaged-chat: a conversation on the terminal. It edits lines, and has kaged do all the rest: what
 * is said is a `kaged session send`, a slash command another command about the same session. So a
 * turn looks, asks and ends here as it does everywhere else. Ctrl-C during a turn is that
 * command's, which cancels it; at the prompt it empties the line, and leaves if there is nothing in
 * it.
 *
 * usage: kaged-chat KAGED HISTORY PROJECT SESSION [OPTION OF KAGED]...
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#define HISTORY_LINES 1000
#define WORDS_MAX     16      /* of a command */
#define TEXT_MAX      1048576 /* bytes of what is said at once */
#define INTERRUPT_KEY 0x1D    /* Ctrl-], which stands for a Ctrl-C that came as a signal */

static volatile sig_atomic_t was_interrupted, was_resized;

struct chat {
    const char *kaged, *history_file, *project;
    char *session;        /* owned */
    char *const *globals; /* options for each kaged; NULL-ended */
    EditLine *editor;
    History *history;
    bool within; /* a text of several lines */
    bool leaves;
};

/* -- kaged ------------------------------------------------------------------------------------- */

static void chat_become(const struct chat *chat, const char *const *words, int input, int output)
{
    char *argv[WORDS_MAX * 2 + 2] = {(char *)chat->kaged};
    size_t count = 1;
    for (size_t i = 0; chat->globals[i] != NULL && count < WORDS_MAX; i++)
        argv[count++] = chat->globals[i];
    for (size_t i = 0; words[i] != NULL && count < KG_COUNT(argv) - 1; i++)
        argv[count++] = (char *)words[i];
    signal(SIGPIPE, SIG_DFL);
    if (input >= 0)
        dup2(input, STDIN_FILENO);
    if (output >= 0)
        dup2(output, STDOUT_FILENO);
    execv(chat->kaged, argv);
    fprintf(stderr, "kaged: start %s: %s\n", chat->kaged, strerror(errno));
    _exit(127);
}

static void chat_read_all(int fd, struct kg_buf *out)
{
    char piece[4096];
    ssize_t got;
    while ((got = read(fd, piece, sizeof(piece))) > 0 || (got < 0 && errno == EINTR))
        if (got > 0 && out->length < TEXT_MAX)
            kg_buf_append(out, piece, (size_t)got);
}

/* They come only while a key is waited for, and to the commands that run meanwhile. */
static void hold_signals(int how)
{
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGWINCH);
    sigprocmask(how, &both, NULL);
}

/* Ctrl-C was meant for the command that ran. */
static void forget_interrupt(void)
{
    static const struct timespec at_once;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGINT);
    (void)sigtimedwait(&one, NULL, &at_once);
}

/* What it is given on stdin, and what it prints if somebody wants that; its exit code. */
static int chat_run(const struct chat *chat, const char *const *words, struct kg_str input,
                    struct kg_buf *output_or_null)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, status = 0;
    if (pipe2(in, O_CLOEXEC) < 0 || (output_or_null != NULL && pipe2(out, O_CLOEXEC) < 0)) {
        fprintf(stderr, "kaged: make a pipe: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        hold_signals(SIG_UNBLOCK);
        chat_become(chat, words, in[0], out[1]);
    }
    kg_close(&in[0]);
    kg_close(&out[1]);
    (void)kg_write_all(in[1], input.data, input.length);
    kg_close(&in[1]);
    if (out[0] >= 0)
        chat_read_all(out[0], output_or_null);
    kg_close(&out[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    forget_interrupt();
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

/* -- slash commands ---------------------------------------------------------------------------- */

struct command;
typedef void command_fn(struct chat *chat, const struct command *command, const char *rest);

struct command {
    const char *name, *argument, *meaning;
    command_fn *act;
    const char *words[6]; /* of kaged; "@" is the session, "%" the project, "*" what follows */
};

static command_fn show_help, chat_leave, chat_pass_on, move_to_fork;

static const struct command commands[] = {
    {"help", "", "show this list", show_help, {NULL}},
    {"show", "", "what was said, and what became of it", chat_pass_on, {"session", "show", "@"}},
    {"context", "", "what the model is sent", chat_pass_on, {"session", "context", "@"}},
    {"tools", "", "agents of the project, plugins, tools", chat_pass_on, {"project", "show", "%"}},
    {"undo", "", "go back to before what was said last", chat_pass_on, {"session", "undo", "@"}},
    {"redo", "", "undo that", chat_pass_on, {"session", "redo", "@"}},
    {"compact", "", "make room in the context", chat_pass_on, {"session", "compact", "@"}},
    {"undo-compact", "", "undo that", chat_pass_on, {"session", "undo-compact", "@"}},
    {"fork",
     "[ENTRY]",
     "go on in a copy of the session",
     move_to_fork,
     {"session", "fork", "@", "*"}},
    {"agent",
     "AGENT",
     "speak to another agent",
     chat_pass_on,
     {"session", "resume", "@", "--seat", "*"}},
    {"knobs",
     "PLUGIN",
     "settings of a plugin",
     chat_pass_on,
     {"plugin", "knobs", "*", "--project", "%"}},
    {"why", "PLUGIN", "what a plugin was refused", chat_pass_on, {"plugin", "why", "*"}},
    {"quit", "", "leave; the session stays", chat_leave, {NULL}},
};

static void show_help(struct chat *chat, const struct command *command, const char *rest)
{
    (void)chat;
    (void)command;
    (void)rest;
    for (size_t i = 0; i < KG_COUNT(commands); i++) {
        kg_auto(kg_free) char *usage = kg_format("%s %s", commands[i].name, commands[i].argument);
        printf("  /%-20s %s\n", usage, commands[i].meaning);
    }
    puts(
        "A line that ends in \\ goes on in the next. Ctrl-C ends a turn, and Ctrl-D this program.");
}

static void chat_leave(struct chat *chat, const struct command *command, const char *rest)
{
    (void)command;
    (void)rest;
    chat->leaves = true;
}

/* NULL-ended, in ret_words; false if something is missing. */
static bool chat_put_words(const struct chat *chat, const struct command *command, const char *rest,
                           const char *ret_words[WORDS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < KG_COUNT(command->words) && command->words[i] != NULL; i++) {
        const char *word = command->words[i];
        if (strcmp(word, "*") == 0 && rest[0] == '\0' && command->argument[0] == '[')
            continue;
        if (strcmp(word, "*") == 0 && rest[0] == '\0')
            return false;
        ret_words[count++] = strcmp(word, "@") == 0   ? chat->session
                             : strcmp(word, "%") == 0 ? chat->project
                             : strcmp(word, "*") == 0 ? rest
                                                      : word;
    }
    ret_words[count] = NULL;
    return true;
}

static void chat_pass_on(struct chat *chat, const struct command *command, const char *rest)
{
    const char *words[WORDS_MAX];
    if (chat_put_words(chat, command, rest, words))
        chat_run(chat, words, KG_STR_NULL, NULL);
    else
        fprintf(stderr, "usage: /%s %s\n", command->name, command->argument);
}

/* What it prints is the id of the new one. */
static void move_to_fork(struct chat *chat, const struct command *command, const char *rest)
{
    const char *words[WORDS_MAX];
    kg_auto(kg_buf_free) struct kg_buf id = {0};
    chat_put_words(chat, command, rest, words);
    if (chat_run(chat, words, KG_STR_NULL, &id) != EXIT_SUCCESS)
        return;
    while (id.length > 0 && id.data[id.length - 1] == '\n')
        id.length--;
    free(chat->session);
    chat->session = kg_str_dup(kg_buf_view(&id));
    printf("now in %s\n", chat->session);
}

/* -- what is said ------------------------------------------------------------------------------ */

/* A slash command that is none of ours is one of the session's own, or what it says it is. */
static void chat_say(struct chat *chat, struct kg_str text)
{
    const char *const words[] = {"session", "send", chat->session, "-", NULL};
    chat_run(chat, words, text, NULL);
}

static const struct command *chat_find_command(const char *line, const char **ret_rest)
{
    size_t length = strcspn(line, " \t\n");
    *ret_rest = line + length + strspn(line + length, " \t\n");
    for (size_t i = 0; i < KG_COUNT(commands); i++)
        if (strlen(commands[i].name) == length && strncmp(commands[i].name, line, length) == 0)
            return &commands[i];
    return NULL;
}

static void chat_take(struct chat *chat, struct kg_buf *text)
{
    const char *rest, *line = kg_buf_terminate(text);
    const struct command *command = line[0] == '/' ? chat_find_command(line + 1, &rest) : NULL;
    if (line[strspn(line, " \t\n")] == '\0')
        return;
    if (command != NULL)
        command->act(chat, command, rest);
    else
        chat_say(chat, kg_buf_view(text));
}

/* -- the editor -------------------------------------------------------------------------------- */

static const char *prompt(EditLine *editor)
{
    struct chat *chat = NULL;
    el_get(editor, EL_CLIENTDATA, &chat);
    return chat->within ? ". " : "> ";
}

static void chat_on_signal(int number)
{
    if (number == SIGINT)
        was_interrupted = 1;
    else
        was_resized = 1;
}

/* Without SA_RESTART: what waits for keys comes back. */
static void catch (int number)
{
    struct sigaction action = {.sa_handler = chat_on_signal};
    sigaction(number, &action, NULL);
}

/* The signals come only here, so that none is missed between a look at it and the wait. */
static int wait_for_key(EditLine *editor)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t none;
    sigemptyset(&none);
    while (!was_interrupted) {
        if (ppoll(&keys, 1, NULL, &none) > 0)
            return 1;
        if (errno != EINTR)
            return -1;
        if (was_resized)
            el_resize(editor);
        was_resized = 0;
    }
    return 0;
}

/* One character, which may be several bytes; what is not text ends the input. */
static int chat_read_key(EditLine *editor, wchar_t *ret_key)
{
    mbstate_t state = {0};
    char byte;
    int ready = wait_for_key(editor);
    if (ready < 0)
        return -1;
    if (ready == 0) {
        was_interrupted = 0;
        *ret_key = INTERRUPT_KEY;
        return 1;
    }
    for (size_t length = (size_t)-2; length == (size_t)-2;) {
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got <= 0)
            return (int)got;
        length = mbrtowc(ret_key, &byte, 1, &state);
        if (length == (size_t)-1)
            *ret_key = L'?';
    }
    return 1;
}

static unsigned char chat_on_interrupt(EditLine *editor, int key)
{
    const LineInfo *line = el_line(editor);
    (void)key;
    if (line->lastchar == line->buffer)
        return CC_EOF;
    el_cursor(editor, (int)(line->lastchar - line->cursor));
    el_deletestr(editor, (int)(line->lastchar - line->buffer));
    fputs("^C\n", stdout);
    return CC_REDISPLAY;
}

static void open_editor(struct chat *chat)
{
    HistEvent event;
    chat->history = history_init();
    history(chat->history, &event, H_SETSIZE, HISTORY_LINES);
    history(chat->history, &event, H_SETUNIQUE, 1);
    history(chat->history, &event, H_LOAD, chat->history_file);
    chat->editor = el_init("kaged", stdin, stdout, stderr);
    el_set(chat->editor, EL_CLIENTDATA, chat);
    el_set(chat->editor, EL_PROMPT, prompt);
    el_set(chat->editor, EL_EDITOR, "emacs");
    el_set(chat->editor, EL_HIST, history, chat->history);
    el_set(chat->editor, EL_GETCFN, chat_read_key);
    el_set(chat->editor, EL_ADDFN, "kaged-interrupt", "clear the line, or leave",
           chat_on_interrupt);
    el_set(chat->editor, EL_BIND, "^]", "kaged-interrupt", NULL);
    el_source(chat->editor, NULL);
}

/*
 * It may not be for others to read what was said. The editor itself stays until the process ends:
 * libedit 3.1 forgets to free the name of a function that was added to it.
 */
static void close_editor(struct chat *chat)
{
    HistEvent event;
    umask(077);
    history(chat->history, &event, H_SAVE, chat->history_file);
    history_end(chat->history);
    el_reset(chat->editor);
}

/* Lines up to one that does not end in a backslash; false at the end of the input. */
static bool chat_read_text(struct chat *chat, struct kg_buf *text)
{
    HistEvent event;
    int length = 0;
    text->length = 0;
    do {
        el_set(chat->editor, EL_PREP_TERM, 1); /* who sees the prompt may type any key */
        const char *line = el_gets(chat->editor, &length);
        if (line == NULL || length <= 0 || text->length > TEXT_MAX)
            return false;
        kg_buf_append(text, line, (size_t)length);
        while (text->length > 0 && text->data[text->length - 1] == '\n')
            text->length--;
        chat->within = text->length > 0 && text->data[text->length - 1] == '\\';
        if (chat->within)
            text->data[text->length - 1] = '\n';
    } while (chat->within);
    if (text->length > 0)
        history(chat->history, &event, H_ENTER, kg_buf_terminate(text));
    return true;
}

int main(int argc, char **argv)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (argc < 5) {
        fputs("kaged-chat is started by: kaged chat\n", stderr);
        return 2;
    }
    static struct chat chat;
    chat = (struct chat){.kaged = argv[1],
                         .history_file = argv[2],
                         .project = argv[3],
                         .session = kg_strdup(argv[4]),
                         .globals = argv + 5};
    setlocale(LC_CTYPE, "");
    catch (SIGINT);
    catch (SIGWINCH);
    hold_signals(SIG_BLOCK);
    signal(SIGPIPE, SIG_IGN);
    open_editor(&chat);
    while (!chat.leaves && chat_read_text(&chat, &text))
        chat_take(&chat, &text);
    if (!chat.leaves)
        putchar('\n');
    close_editor(&chat);
    printf("go on later with: kaged chat --resume %s\n", chat.session);
    free(chat.session);
    return EXIT_SUCCESS;
}
