/*
 * What the daemon and its service manager tell each other, in the words of systemd: sockets that
 * listen already come in by number, and states go out as datagrams. Without a manager, or with
 * variables that are meant for another process, all of this does nothing. No child inherits the
 * variables, and every socket is closed or handed on.
 */
#include "cli/cli.h"

#include "loop/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_FD    3
#define SOCKETS_MAX 8

struct systemd {
    int notify_fd;        /* connected; -1: nobody listens */
    uint64_t watchdog_ms; /* a sign of life is due this often; 0: nobody waits for one */
    int sockets[SOCKETS_MAX];
    size_t socket_count;
    struct loop *loop; /* borrowed, once attached */
    struct loop_timer watchdog;
};

/* -- the environment --------------------------------------------------------------------------- */

/* A number above 0; 0 if the variable has none. */
static int64_t systemd_number_of(const char *variable)
{
    const char *text = getenv(variable);
    int64_t number = 0;
    return text != NULL && kg_str_to_int(kg_str(text), &number) && number > 0 ? number : 0;
}

/* A path, or with '@' a name that is in no folder. */
static void connect_notify(struct systemd *systemd)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = name != NULL ? strlen(name) : 0;
    if (length < 2 || length >= sizeof(address.sun_path) || strchr("/@", name[0]) == NULL)
        return;
    memcpy(address.sun_path, name, length);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    kg_auto(kg_close) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct timeval patience = {.tv_sec = 1}; /* a manager that hangs must not hang us */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
        connect(fd, (const struct sockaddr *)&address, size) < 0)
        kg_log(KG_WARN, "NOTIFY_SOCKET %s: connect: %s", name, strerror(errno));
    else
        systemd->notify_fd = kg_steal_fd(&fd);
}

static void read_watchdog(struct systemd *systemd)
{
    int64_t pid = systemd_number_of("WATCHDOG_PID");
    if (pid == 0 || pid == getpid())
        systemd->watchdog_ms = (uint64_t)systemd_number_of("WATCHDOG_USEC") / 1000;
}

static int socket_fact(int fd, int option)
{
    int value = -1;
    socklen_t length = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, option, &value, &length) < 0 ? -1 : value;
}

static int keep_socket(struct systemd *systemd, int fd, struct kg_err *err)
{
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || socket_fact(fd, SO_TYPE) != SOCK_STREAM ||
        socket_fact(fd, SO_ACCEPTCONN) != 1) {
        kg_fail(err, KG_E_USAGE,
                "descriptor %d, which LISTEN_FDS counts, is not a listening stream "
                "socket",
                fd);
        return kg_hint(err, "a socket unit for kaged needs ListenStream= and Accept=no");
    }
    systemd->sockets[systemd->socket_count++] = fd;
    return 0;
}

static int read_sockets(struct systemd *systemd, struct kg_err *err)
{
    int64_t count = systemd_number_of("LISTEN_FDS");
    if (count == 0 || systemd_number_of("LISTEN_PID") != getpid())
        return 0;
    if (count > SOCKETS_MAX)
        return kg_fail(err, KG_E_USAGE, "LISTEN_FDS is %lld, more than %d", (long long)count,
                       SOCKETS_MAX);
    int result = 0;
    for (int fd = FIRST_FD; fd < FIRST_FD + count && result == 0; fd++)
        result = keep_socket(systemd, fd, err);
    return result;
}

static void clear_variables(void)
{
    static const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC",
                                        "LISTEN_PID",    "LISTEN_FDS",   "LISTEN_FDNAMES"};
    for (size_t i = 0; i < KG_COUNT(names); i++)
        unsetenv(names[i]);
}

struct systemd *systemd_meet(struct kg_err *err)
{
    struct systemd *systemd = kg_alloc(sizeof(*systemd));
    systemd->notify_fd = -1;
    connect_notify(systemd);
    read_watchdog(systemd);
    int result = read_sockets(systemd, err);
    clear_variables();
    if (result == 0)
        return systemd;
    systemd_free(systemd);
    return NULL;
}

void systemd_free(struct systemd *systemd)
{
    if (systemd == NULL)
        return;
    kg_close(&systemd->notify_fd);
    for (size_t i = 0; i < systemd->socket_count; i++)
        kg_close(&systemd->sockets[i]);
    free(systemd);
}

/* -- sockets ----------------------------------------------------------------------------------- */

int systemd_take_socket(struct systemd *systemd, int domain)
{
    for (size_t i = 0; i < systemd->socket_count; i++)
        if (systemd->sockets[i] >= 0 && socket_fact(systemd->sockets[i], SO_DOMAIN) == domain)
            return kg_steal_fd(&systemd->sockets[i]);
    return -1;
}

void systemd_close_rest(struct systemd *systemd)
{
    for (size_t i = 0; i < systemd->socket_count; i++)
        if (systemd->sockets[i] >= 0) {
            kg_log(KG_WARN, "the service manager passed descriptor %d, which nobody uses: closed",
                   systemd->sockets[i]);
            kg_close(&systemd->sockets[i]);
        }
}

/* -- states ------------------------------------------------------------------------------------ */

static void send_text(const struct systemd *systemd, const char *text)
{
    if (systemd->notify_fd >= 0 && send(systemd->notify_fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        kg_log(KG_WARN, "tell the service manager: %s", strerror(errno));
}

void systemd_tell(const struct systemd *systemd, const char *state, const char *format, ...)
{
    char words[512];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_printf(&text, "%s%sSTATUS=", state, state[0] != '\0' ? "\n" : "");
    kg_buf_escaped(&text, kg_str(words)); /* a line end would begin another variable */
    send_text(systemd, kg_buf_terminate(&text));
}

void systemd_tell_reloading(const struct systemd *systemd)
{
    char state[64];
    snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
             (unsigned long long)kg_monotonic_ns() / 1000);
    systemd_tell(systemd, state, "reading the configuration again");
}

/* The loop turns, or this would not run. */
static void on_watchdog(struct loop_timer *timer)
{
    struct systemd *systemd = KG_CONTAINER(timer, struct systemd, watchdog);
    send_text(systemd, "WATCHDOG=1");
    loop_timer_start(systemd->loop, timer, systemd->watchdog_ms / 2 + 1, on_watchdog);
}

void systemd_attach(struct systemd *systemd, struct loop *loop)
{
    systemd->loop = loop;
    if (systemd->watchdog_ms > 0 && systemd->notify_fd >= 0)
        on_watchdog(&systemd->watchdog);
}

void systemd_detach(struct systemd *systemd)
{
    if (systemd != NULL && systemd->loop != NULL)
        loop_timer_stop(systemd->loop, &systemd->watchdog);
}
