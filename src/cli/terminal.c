/*
 * A person at a terminal: a question is shown on it, the answer is read from there, and Ctrl-C is
 * noticed. What was typed before the question is not an answer to it.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#define ANSWER_MAX     64
#define LINE_MAX_BYTES 4096

static volatile sig_atomic_t interrupted;

static void terminal_on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

void terminal_catch_interrupts(void)
{
    /* What is being written is written whole; waits end all the same: they are polls. */
    const struct sigaction action = {.sa_handler = terminal_on_interrupt, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < KG_COUNT(signals); i++)
        sigaction(signals[i], &action, NULL);
}

bool terminal_was_interrupted(void)
{
    return interrupted != 0;
}

int terminal_poll(struct pollfd *fd)
{
    sigset_t ours, before;
    sigemptyset(&ours);
    for (size_t i = 0; i < KG_COUNT(signals); i++)
        sigaddset(&ours, signals[i]);
    /* One that comes between the look and the wait must not be slept over. */
    sigprocmask(SIG_BLOCK, &ours, &before);
    errno = EINTR;
    int ready = interrupted ? -1 : ppoll(fd, 1, NULL, &before);
    int errnum = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = errnum;
    return ready;
}

int terminal_open(void)
{
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 && isatty(STDIN_FILENO))
        fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    return fd;
}

/* One line without its end; false: there is none, or Ctrl-C came. */
static bool terminal_read_line(int fd, char *line, size_t size)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    size_t length = 0;
    char c = '\0';
    while (!interrupted && terminal_poll(&readable) > 0 && read(fd, &c, 1) == 1 && c != '\n')
        if (length < size - 1)
            line[length++] = c;
    line[length] = '\0';
    return c == '\n' && !interrupted;
}

int terminal_ask_secret(int fd, const char *question, struct kg_buf *ret_text, size_t max)
{
    struct termios before, silent;
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    char c = '\0';
    if (tcgetattr(fd, &before) < 0)
        return -errno;
    silent = before;
    silent.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    if (tcsetattr(fd, TCSAFLUSH, &silent) < 0)
        return -errno;
    (void)kg_write_all(fd, question, strlen(question));
    while (!interrupted && ret_text->length <= max && poll(&readable, 1, -1) > 0 &&
           read(fd, &c, 1) == 1 && c != '\n')
        kg_buf_char(ret_text, c);
    tcsetattr(fd, TCSAFLUSH, &before);
    (void)kg_write_all(fd, "\n", 1);
    return interrupted ? -EINTR : 0;
}

bool terminal_read(int fd, struct kg_str prompt, struct kg_buf *ret_line)
{
    char line[LINE_MAX_BYTES];
    fflush(stdout);
    fflush(stderr);
    if (interrupted || kg_write_all(fd, prompt.data, prompt.length) < 0)
        return false;
    if (!terminal_read_line(fd, line, sizeof(line))) {
        (void)kg_write_all(fd, "\n", 1);
        return false;
    }
    kg_buf_text(ret_line, line);
    return true;
}

bool terminal_ask(int fd, const char *question)
{
    char line[ANSWER_MAX];
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_escaped(&text, kg_str(question));
    kg_buf_text(&text, " [y/N] ");
    fflush(stdout);
    fflush(stderr);
    tcflush(fd, TCIFLUSH);
    if (interrupted || kg_write_all(fd, text.data, text.length) < 0)
        return false;
    if (!terminal_read_line(fd, line, sizeof(line))) {
        (void)kg_write_all(fd, "\n", 1); /* his cursor stands behind the question */
        return false;
    }
    return strcmp(line, "y") == 0 || strcmp(line, "Y") == 0 || strcmp(line, "yes") == 0;
}
