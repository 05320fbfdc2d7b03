/*
 * Loaded into a client that speaks only TCP (LD_PRELOAD): its connections go to the unix socket
 * BENCH_SOCKET instead, whatever address it asks for.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

int socket(int domain, int type, int protocol)
{
    static int (*real)(int domain, int type, int protocol);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "socket");
    return domain == AF_INET ? real(AF_UNIX, type, 0) : real(domain, type, protocol);
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    static int (*real)(int fd, const struct sockaddr *address, socklen_t length);
    struct sockaddr_un there = {.sun_family = AF_UNIX};
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "connect");
    if (address->sa_family != AF_INET)
        return real(fd, address, length);
    snprintf(there.sun_path, sizeof(there.sun_path), "%s", getenv("BENCH_SOCKET"));
    return real(fd, (const struct sockaddr *)&there, sizeof(there));
}
