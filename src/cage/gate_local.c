/*
 * What is this host itself: the kernel is asked how it would send to an address, and which sockets
 * of this process listen. When the answer is not to be had, the address counts as forbidden.
 */
#include "cage/gate_internal.h"

#include <dirent.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* -- own addresses ----------------------------------------------------------------------------- */

struct route_question {
    struct nlmsghdr head;
    struct rtmsg route;
    struct rtattr attribute;
    uint8_t address[16];
};

static void ask_route(const union gate_address *address, struct route_question *ret_question)
{
    bool is_v4 = address->any.sa_family == AF_INET;
    size_t bytes = is_v4 ? 4 : 16;
    *ret_question = (struct route_question){
        .head = {.nlmsg_len = (uint32_t)(offsetof(struct route_question, address) + bytes),
                 .nlmsg_type = RTM_GETROUTE,
                 .nlmsg_flags = NLM_F_REQUEST},
        .route = {.rtm_family = (unsigned char)address->any.sa_family,
                  .rtm_dst_len = (unsigned char)(bytes * 8)},
        .attribute = {.rta_len = (unsigned short)RTA_LENGTH(bytes), .rta_type = RTA_DST},
    };
    memcpy(ret_question->address,
           is_v4 ? (const void *)&address->v4.sin_addr : (const void *)&address->v6.sin6_addr,
           bytes);
}

/* The type of the route in the kernel's answer, or the negative errno that it says. */
static int read_route(const char *answer, size_t size)
{
    const struct nlmsghdr *head = (const struct nlmsghdr *)answer;
    if (!NLMSG_OK(head, size))
        return -EPROTO;
    if (head->nlmsg_type == NLMSG_ERROR && head->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr)))
        return ((const struct nlmsgerr *)NLMSG_DATA(head))->error;
    if (head->nlmsg_type != RTM_NEWROUTE || head->nlmsg_len < NLMSG_LENGTH(sizeof(struct rtmsg)))
        return -EPROTO;
    return ((const struct rtmsg *)NLMSG_DATA(head))->rtm_type;
}

int gate_address_is_own(const union gate_address *address)
{
    struct route_question question;
    ask_route(address, &question);
    kg_auto(kg_close) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    if (send(fd, &question, question.head.nlmsg_len, 0) < 0)
        return -errno;
    /* The kernel answers while it is asked: there is nothing to wait for. */
    _Alignas(struct nlmsghdr) char answer[4096];
    ssize_t size = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
    if (size < 0)
        return -errno;
    int type = read_route(answer, (size_t)size);
    if (type == -ENETUNREACH || type == -EHOSTUNREACH || type == -EACCES)
        return 0; /* no way there, so not here either; connecting says so */
    return type < 0 ? type : type == RTN_LOCAL;
}

/* -- own listeners ----------------------------------------------------------------------------- */

/*
 * The network namespace of a socket, 0 if a kernel before 5.14 cannot tell. The listeners of cages
 * are sockets of this process too, but of other networks.
 */
static uint64_t network_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t size = sizeof(cookie);
    getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size);
    return cookie;
}

static bool listens_on(int fd, uint16_t port, uint64_t network)
{
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0 || !listens)
        return false;
    struct sockaddr_storage raw = {0};
    union gate_address address;
    size = sizeof(raw);
    return getsockname(fd, (struct sockaddr *)&raw, &size) == 0 &&
           gate_address_take((struct sockaddr *)&raw, size, &address) &&
           gate_address_port(&address) == port && network_of(fd) == network;
}

bool gate_port_is_ours(uint16_t port)
{
    kg_auto(kg_close) int here = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    DIR *folder = opendir("/proc/self/fd");
    if (here < 0 || folder == NULL) {
        if (folder != NULL)
            closedir(folder);
        return true;
    }
    bool ours = false;
    uint64_t network = network_of(here);
    const struct dirent *entry;
    /* A number may be closed and used anew meanwhile: it is only asked what it is. */
    while (!ours && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            ours = listens_on(atoi(entry->d_name), port, network);
    closedir(folder);
    return ours;
}
