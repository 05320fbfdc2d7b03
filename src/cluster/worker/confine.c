/*
 * What kaged-link gives up before it reads a stranger's byte. It works on sockets that it is given,
 * and needs nothing else: no file, no address, no program. It cannot be in a cage like other
 * helpers, since those are given pipes, and no pipe carries a socket.
 */
#include "base/confine.h"
#include "cluster/worker/internal.h"

#include <errno.h>
#include <seccomp.h>

#define OPEN_FILES 8192

static const char *const link_calls[] = {
    "read",          "write",        "readv",
    "writev",        "recvfrom",     "sendto",
    "recvmsg",       "sendmsg",      "shutdown",
    "close",         "epoll_wait",   "epoll_ctl",
    "epoll_pwait",   "fcntl",        "fstat",
    "newfstatat",    "brk",          "mmap",
    "munmap",        "mremap",       "mprotect",
    "madvise",       "futex",        "getrandom",
    "clock_gettime", "gettimeofday", "getpid",
    "gettid",        "rt_sigaction", "rt_sigprocmask",
    "rt_sigreturn",  "sigaltstack",  "restart_syscall",
    "sched_yield",   "exit",         "exit_group",
    "tgkill",
};

/* What is not in the list fails, as if it were forbidden by the rights of files. */
int link_confine(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int result = filter != NULL ? 0 : -ENOMEM;
    kg_confine(077, 0, OPEN_FILES);
    for (size_t i = 0; i < KG_COUNT(link_calls) && result == 0; i++) {
        int call = seccomp_syscall_resolve_name(link_calls[i]);
        if (call >= 0)
            result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0);
    }
    if (result == 0)
        result = seccomp_load(filter);
    if (filter != NULL)
        seccomp_release(filter);
    return result;
}
