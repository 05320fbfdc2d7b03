/*
 * The namespaces that are the same for every cage, made before there is a plan for one: a network
 * takes the kernel longest of all that a cage is built of. They belong to a user namespace of their
 * own, around the one that bwrap makes, so nothing in a cage has any right over them. This is a
 * program of its own for a moment, and not the spawner's child: the kernel lets only a process
 * without secrets say who is who in its user namespace.
 */
#include "namespaces.h"
#include "bare.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

#define NUMBER_MAX 20 /* digits, and the end */

static long namespaces_write_file(const char *path, const char *text)
{
    long fd = BARE_CALL(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0, 0);
    if (fd < 0)
        return fd;
    long result = BARE_CALL(SYS_write, fd, text, bare_length(text), 0, 0);
    BARE_CALL(SYS_close, fd, 0, 0, 0, 0);
    return result < 0 ? result : 0;
}

static char *namespaces_put(char *at, const char *text)
{
    while (*text != '\0')
        *at++ = *text++;
    *at = '\0';
    return at;
}

static char *namespaces_put_number(char *at, unsigned long number)
{
    char digits[NUMBER_MAX];
    char *first = digits + sizeof(digits) - 1;
    *first = '\0';
    do {
        *--first = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return namespaces_put(at, first);
}

/* Whoever we are outside, we are inside; nobody else is there. */
static long map_self(const char *path, long id)
{
    char line[2 * NUMBER_MAX + 4];
    char *at = namespaces_put_number(line, (unsigned long)id);
    at = namespaces_put(at, " ");
    at = namespaces_put_number(at, (unsigned long)id);
    namespaces_put(at, " 1\n");
    return namespaces_write_file(path, line);
}

static long map_ids(long uid, long gid)
{
    long result = namespaces_write_file("/proc/self/setgroups", "deny");
    if (result == 0)
        result = map_self("/proc/self/uid_map", uid);
    return result < 0 ? result : map_self("/proc/self/gid_map", gid);
}

/* The kernel gives it its addresses then. */
static long raise_lo(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    long fd = BARE_CALL(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0, 0, 0);
    if (fd < 0)
        return fd;
    long result = BARE_CALL(SYS_ioctl, fd, SIOCSIFFLAGS, &request, 0, 0);
    BARE_CALL(SYS_close, fd, 0, 0, 0, 0);
    return result;
}

long namespaces_make(const char *hostname)
{
    long uid = BARE_CALL(SYS_getuid, 0, 0, 0, 0, 0), gid = BARE_CALL(SYS_getgid, 0, 0, 0, 0, 0);
    long result = BARE_CALL(SYS_unshare, NAMESPACES, 0, 0, 0, 0);
    if (result == 0)
        result = map_ids(uid, gid);
    if (result == 0)
        result = raise_lo();
    if (result == 0)
        result = BARE_CALL(SYS_sethostname, hostname, bare_length(hostname), 0, 0, 0);
    return result;
}
