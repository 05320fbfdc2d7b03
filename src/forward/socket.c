/*
 * Events as datagrams: to the journal in its own protocol, whole, whatever their length; to syslog
 * as a local program writes to it, cut where most of its servers would cut.
 */
#include "forward/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define SYSLOG_SOCKET  "/dev/log"
#define SEND_SEC       2    /* that a full socket is waited for */
#define SYSLOG_BYTES   8000 /* of an event */
#define SYSLOG_CUT     "..."
#define PRIORITY       (10 * 8 + 6) /* authpriv.info */

/* Where "journal" and "journal:/a/socket" lead to; NULL: it is neither. */
static char *socket_path_of(const char *target, const char *name, const char *preset)
{
    size_t length = strlen(name);
    if (strncmp(target, name, length) != 0 || (target[length] != '\0' && target[length] != ':'))
        return NULL;
    return kg_strdup(target[length] == ':' ? target + length + 1 : preset);
}

bool forward_socket_read(const char *target, struct forward_socket *ret_socket)
{
    char *journal = socket_path_of(target, "journal", JOURNAL_SOCKET);
    char *syslog = journal ? NULL : socket_path_of(target, "syslog", SYSLOG_SOCKET);
    *ret_socket = (struct forward_socket){
        .path = journal ? journal : syslog, .is_journal = journal != NULL, .fd = -1};
    return ret_socket->path != NULL;
}

/* What failed is connected again. */
static void forward_socket_close(struct forward_socket *where)
{
    kg_close(&where->fd);
}

void forward_socket_free(struct forward_socket *where)
{
    kg_close(&where->fd);
    free(kg_steal(&where->path));
}

static int socket_connect(struct forward_socket *where, struct kg_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = SEND_SEC};
    if (strlen(where->path) >= sizeof(address.sun_path))
        return kg_fail(err, KG_E_INVALID_CONFIG, "the path %s is too long for a socket",
                       where->path);
    memcpy(address.sun_path, where->path, strlen(where->path));
    kg_auto(kg_close) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return kg_fail_errno(err, errno, "connect to %s", where->path);
    where->fd = kg_steal_fd(&fd);
    return 0;
}

/* What is too long for a datagram goes as a file that nobody can change any more. */
static int send_as_file(const struct forward_socket *where, struct kg_str bytes)
{
    kg_auto(kg_close) int file = memfd_create("kaged-audit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_control = &control, .msg_controllen = sizeof(control)};
    if (file < 0)
        return -errno;
    int result = kg_write_all(file, bytes.data, bytes.length);
    if (result == 0 &&
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        result = -errno;
    if (result < 0)
        return result;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &file, sizeof(int));
    return sendmsg(where->fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int send_bytes(const struct forward_socket *where, struct kg_str bytes)
{
    ssize_t sent;
    do
        sent = send(where->fd, bytes.data, bytes.length, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return 0;
    return (errno == EMSGSIZE || errno == ENOBUFS) && where->is_journal ? send_as_file(where, bytes)
                                                                        : -errno;
}

static void socket_put_field(struct kg_buf *out, const char *name, struct kg_str text)
{
    kg_buf_printf(out, "%s=", name);
    kg_buf_str(out, text);
    kg_buf_char(out, '\n');
}

/* A line has no newline in it, so that each field can be written as one. */
static void put_journal(struct kg_buf *out, struct kg_str line)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(line, NULL);
    socket_put_field(out, "MESSAGE", line);
    socket_put_field(out, "PRIORITY", KG_STR("6"));
    socket_put_field(out, "SYSLOG_IDENTIFIER", KG_STR("kaged"));
    if (doc == NULL)
        return;
    socket_put_field(out, "KAGED_EVENT", kg_node_text(doc->root, "event"));
    socket_put_field(out, "KAGED_EVENT_ID", kg_node_text(doc->root, "id"));
}

static void put_syslog(struct kg_buf *out, struct kg_str line)
{
    char when[32];
    struct tm parts;
    time_t now = time(NULL);
    localtime_r(&now, &parts);
    strftime(when, sizeof(when), "%b %e %H:%M:%S", &parts);
    kg_buf_printf(out, "<%d>%s kaged[%d]: ", PRIORITY, when, (int)getpid());
    bool cut = line.length > SYSLOG_BYTES;
    kg_buf_str(out, cut ? kg_str_first(line, SYSLOG_BYTES) : line);
    if (cut)
        kg_buf_text(out, SYSLOG_CUT);
}

int forward_socket_send(struct forward_socket *where, struct kg_str line, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf bytes = {0};
    int result = where->fd < 0 ? socket_connect(where, err) : 0;
    if (result < 0)
        return result;
    if (where->is_journal)
        put_journal(&bytes, line);
    else
        put_syslog(&bytes, line);
    result = send_bytes(where, kg_buf_view(&bytes));
    if (result == 0)
        return 0;
    forward_socket_close(where);
    return kg_fail_errno(err, -result, "send to %s", where->path);
}
