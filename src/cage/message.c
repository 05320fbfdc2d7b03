/*
 * What passes between processes. One message is one packet: it arrives whole, with its fds, or not
 * at all; what is larger goes as a file in memory.
 */
#include "cage/internal.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(CAGE_MESSAGE_FDS * sizeof(int))];
};

int cage_message_send(int socket, const void *data, size_t size, const int *fds, size_t fd_count)
{
    struct iovec part = {.iov_base = (void *)data, .iov_len = size};
    union control control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

static void take_fds(struct msghdr *message, int ret_fds[CAGE_MESSAGE_FDS])
{
    for (size_t i = 0; i < CAGE_MESSAGE_FDS; i++)
        ret_fds[i] = -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return;
    /* The space for three has room for a fourth; who sends more than we agreed on loses them. */
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        if (i < CAGE_MESSAGE_FDS)
            ret_fds[i] = fd;
        else
            close(fd);
    }
}

int cage_message_receive(int socket, void *ret_data, size_t size, int ret_fds[CAGE_MESSAGE_FDS])
{
    struct iovec part = {.iov_base = ret_data, .iov_len = size};
    union control control = {0};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t got;
    do {
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == ECONNRESET ? 0 : -errno;
    take_fds(&message, ret_fds);
    if (got == 0)
        return 0;
    if ((size_t)got == size && (message.msg_flags & MSG_TRUNC) == 0)
        return 1;
    for (size_t i = 0; i < CAGE_MESSAGE_FDS; i++)
        kg_close(&ret_fds[i]);
    return -EPROTO;
}

int cage_memory_file(const char *name, const void *data, size_t length, struct kg_err *err)
{
    kg_auto(kg_close) int fd = memfd_create(name, MFD_CLOEXEC);
    int result = fd < 0 ? -errno : kg_write_all(fd, data, length);
    if (result == 0 && lseek(fd, 0, SEEK_SET) < 0)
        result = -errno;
    return result < 0 ? kg_fail_errno(err, -result, "write memfd %s", name) : kg_steal_fd(&fd);
}
