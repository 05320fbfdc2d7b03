/*
 * The third filter, which notifies of calls and refuses none but the one that made it. Whoever
 * holds its fd could answer in the kernel's place, so it goes to kaged-watch and to nobody else:
 * the kernel closes our copy of it, and the socket, when we become the command.
 */
#include "watch.h"
#include "bare.h"
#include "seccomp-watch.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* So that a signal, once the call was seen, does not make it be seen again. */
#define WHOLE (SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)

static long listen_to_calls(void)
{
    const struct sock_fprog program = {
        .len = sizeof(cage_filter_watch) / sizeof(struct sock_filter),
        .filter = (struct sock_filter *)cage_filter_watch,
    };
    long fd = BARE_CALL(SYS_seccomp, SECCOMP_SET_MODE_FILTER, WHOLE, &program, 0, 0);
    if (fd != -EINVAL)
        return fd;
    return BARE_CALL(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                     &program, 0, 0);
}

static long send_fd(unsigned long socket, long fd)
{
    char byte = 'W';
    struct iovec text = {.iov_base = &byte, .iov_len = sizeof(byte)};
    _Alignas(struct cmsghdr) unsigned char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr message = {.msg_iov = &text,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    *(int *)(void *)CMSG_DATA(head) = (int)fd;
    return BARE_CALL(SYS_sendmsg, socket, &message, MSG_NOSIGNAL, 0, 0);
}

long watch_begin(unsigned long socket)
{
    long fd = listen_to_calls();
    if (fd < 0)
        return fd;
    long result = send_fd(socket, fd);
    BARE_CALL(SYS_close, fd, 0, 0, 0, 0);
    return result < 0 ? result : 0;
}
