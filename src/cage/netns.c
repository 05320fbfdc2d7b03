/*
 * The network of a cage is made by a child of ours that lives for a few milliseconds: it enters the
 * cage's user and network namespaces, where alone it has rights, opens the sockets that the plan
 * names, hands them out and ends. The plugin does not run yet, and the child never executes
 * anything of it. Nothing in this file acts on the host's own network: all that does so comes after
 * netns_enter().
 *
 * lo is the only interface. Every address there is, v4 and v6, is made local to it, so a listener
 * can have any, and a connection to where nobody listens is refused at once.
 */
#include "cage/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG    128
#define NAMES_PORT 53
#define RANGE_BITS 15 /* of the network that names get their addresses from */

/* One packet from the child: a socket, or its last word. */
enum { SAYS_SOCKET = 1, SAYS_DONE, SAYS_FAILED };
struct word {
    uint32_t kind;
    uint32_t number;
    char error[KG_ERR_MESSAGE_MAX];
};

/* What the child works with. */
struct making {
    const struct cage_network *network;
    pid_t spawner;
    int socket; /* to the spawner */
    int route;  /* rtnetlink */
    int lo;     /* its index */
    bool has_v6;
    struct cage_redirect redirect;
    uid_t uid; /* of the cage */
};

/* -- entering ---------------------------------------------------------------------------------- */

/* The cage may nest a user namespace in another: wanted is the one that the network belongs to. */
static int netns_enter(pid_t pid1, int pid1_fd, uid_t uid, struct kg_err *err)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/net", pid1);
    kg_auto(kg_close) int net = open(path, O_RDONLY | O_CLOEXEC);
    if (net < 0)
        return kg_fail_errno(err, errno, "open %s", path);
    /* It still lives, so the number was its own when we opened it. */
    if (pidfd_send_signal(pid1_fd, 0, NULL, 0) < 0)
        return kg_fail_errno(err, errno, "find the cage");
    kg_auto(kg_close) int user = ioctl(net, NS_GET_USERNS);
    if (user < 0)
        return kg_fail_errno(err, errno, "find the owner of %s", path);
    /* What comes after needs no right over the host. */
    if (!cage_become_user(uid))
        return kg_fail_errno(err, errno, "drop root");
    /* Of our own namespace the kernel refuses this: a cage without one is never worked on. */
    if (setns(user, CLONE_NEWUSER) < 0 || setns(net, CLONE_NEWNET) < 0)
        return kg_fail_errno(err, errno, "enter the namespaces of the cage");
    return 0;
}

/* -- addresses and routes ---------------------------------------------------------------------- */

struct request {
    struct nlmsghdr header;
    union {
        struct ifinfomsg link;
        struct ifaddrmsg address;
        struct rtmsg route;
    };
    char attributes[64];
};

static void add_attribute(struct request *request, unsigned short type, const void *data,
                          size_t length)
{
    struct rtattr *attribute = (struct rtattr *)((char *)request + request->header.nlmsg_len);
    attribute->rta_type = type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(length);
    memcpy(RTA_DATA(attribute), data, length);
    request->header.nlmsg_len += (unsigned)RTA_SPACE(length);
}

/* The kernel's answer: 0 or a negative errno; words about links that come between are skipped. */
static int netns_read_answer(int route)
{
    for (;;) {
        union {
            struct nlmsghdr header;
            char bytes[4096];
        } answer;
        ssize_t got = recv(route, &answer, sizeof(answer), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)))
            return got < 0 ? -errno : -EPROTO;
        if (answer.header.nlmsg_type == NLMSG_ERROR)
            return ((struct nlmsgerr *)NLMSG_DATA(&answer.header))->error;
    }
}

static int netns_ask(const struct making *making, struct request *request)
{
    request->header.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
    if (send(making->route, request, request->header.nlmsg_len, 0) < 0)
        return -errno;
    return netns_read_answer(making->route);
}

static int netns_add_address(const struct making *making)
{
    struct request request = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)),
                                         .nlmsg_type = RTM_NEWADDR,
                                         .nlmsg_flags = NLM_F_CREATE},
                              .address = {.ifa_family = AF_INET,
                                          .ifa_prefixlen = RANGE_BITS,
                                          .ifa_scope = RT_SCOPE_HOST,
                                          .ifa_index = (unsigned)making->lo}};
    struct in_addr gate;
    inet_pton(AF_INET, CAGE_NET_GATE, &gate);
    add_attribute(&request, IFA_LOCAL, &gate, sizeof(gate));
    add_attribute(&request, IFA_ADDRESS, &gate, sizeof(gate));
    return netns_ask(making, &request);
}

/*
 * Every address is ours. With a source of its own, so that a client which happens to get the port
 * that it connects to does not connect to itself.
 */
static int add_route(const struct making *making, unsigned char family, const void *source,
                     size_t length)
{
    struct request request = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                                         .nlmsg_type = RTM_NEWROUTE,
                                         .nlmsg_flags = NLM_F_CREATE},
                              .route = {.rtm_family = family,
                                        .rtm_table = RT_TABLE_LOCAL,
                                        .rtm_protocol = RTPROT_STATIC,
                                        .rtm_scope = RT_SCOPE_HOST,
                                        .rtm_type = RTN_LOCAL}};
    add_attribute(&request, RTA_OIF, &making->lo, sizeof(making->lo));
    add_attribute(&request, RTA_PREFSRC, source, length);
    return netns_ask(making, &request);
}

/* bwrap brings lo up while it builds the cage, and gives up if somebody was faster. */
static int wait_for_lo(const struct making *making, struct kg_err *err)
{
    struct request request = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
                                         .nlmsg_type = RTM_GETLINK,
                                         .nlmsg_flags = NLM_F_REQUEST},
                              .link = {.ifi_family = AF_UNSPEC, .ifi_index = making->lo}};
    if (send(making->route, &request, request.header.nlmsg_len, 0) < 0)
        return kg_fail_errno(err, errno, "look at lo");
    for (;;) {
        union {
            struct nlmsghdr header;
            char bytes[8192];
        } answer;
        ssize_t got = recv(making->route, &answer, sizeof(answer), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < (ssize_t)NLMSG_LENGTH(sizeof(struct ifinfomsg)))
            return kg_fail_errno(err, got < 0 ? errno : EPROTO, "wait for lo");
        const struct ifinfomsg *link = NLMSG_DATA(&answer.header);
        if (answer.header.nlmsg_type == RTM_NEWLINK && link->ifi_index == making->lo &&
            (link->ifi_flags & IFF_UP) != 0)
            return 0;
    }
}

/* Watches links from before the first look on, so that no change is missed. */
static int open_route(struct making *making, struct kg_err *err)
{
    struct sockaddr_nl watch = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    making->route = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    making->lo = (int)if_nametoindex("lo");
    if (making->route < 0 || making->lo == 0 ||
        bind(making->route, (struct sockaddr *)&watch, sizeof(watch)) < 0)
        return kg_fail_errno(err, errno, "open rtnetlink");
    return 0;
}

static bool is_without_v6(int result)
{
    return result == -EAFNOSUPPORT || result == -EOPNOTSUPP || result == -EACCES ||
           result == -ENODEV;
}

static int make_everything_local(struct making *making, struct kg_err *err)
{
    struct in_addr gate;
    inet_pton(AF_INET, CAGE_NET_GATE, &gate);
    int result = open_route(making, err);
    if (result == 0)
        result = wait_for_lo(making, err);
    if (result < 0)
        return result;
    result = netns_add_address(making);
    if (result < 0)
        return kg_fail_errno(err, -result, "add %s to lo", CAGE_NET_GATE);
    result = add_route(making, AF_INET, &gate, sizeof(gate));
    if (result < 0)
        return kg_fail_errno(err, -result, "add the route of IPv4");
    result = add_route(making, AF_INET6, &in6addr_loopback, sizeof(in6addr_loopback));
    if (result < 0 && !is_without_v6(result))
        return kg_fail_errno(err, -result, "add the route of IPv6");
    making->has_v6 = result == 0;
    return 0;
}

/* -- sockets ----------------------------------------------------------------------------------- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t netns_read_address(const char *text, uint16_t port, union address *ret_address)
{
    *ret_address = (union address){.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
    if (inet_pton(AF_INET, text, &ret_address->v4.sin_addr) == 1)
        return sizeof(ret_address->v4);
    *ret_address = (union address){.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
    if (inet_pton(AF_INET6, text, &ret_address->v6.sin6_addr) == 1)
        return sizeof(ret_address->v6);
    return 0;
}

/* An address that is local by its route alone takes a bind to it as one from elsewhere. */
static int set_options(int fd, int family)
{
    int yes = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
        setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &yes, sizeof(yes)) < 0)
        return -errno;
    if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes)) < 0)
        return -errno;
    return 0;
}

static int open_bound(const char *text, uint16_t port, int type, struct kg_err *err)
{
    union address address;
    socklen_t length = netns_read_address(text, port, &address);
    if (length == 0)
        return kg_fail(err, KG_E_CAGE, "%s is not an address", text);
    kg_auto(kg_close) int fd =
        socket(address.any.sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return kg_fail_errno(err, errno, "socket for %s", text);
    int result = set_options(fd, address.any.sa_family);
    if (result == 0 && bind(fd, &address.any, length) < 0)
        result = -errno;
    if (result == 0 && type == SOCK_STREAM && listen(fd, BACKLOG) < 0)
        result = -errno;
    if (result < 0)
        return kg_fail_errno(err, -result, "listen on %s port %u", text, port);
    return kg_steal_fd(&fd);
}

static int say_socket(const struct making *making, uint32_t number, int fd, struct kg_err *err)
{
    struct word word = {.kind = SAYS_SOCKET, .number = number};
    int result = cage_message_send(making->socket, &word, sizeof(word), &fd, 1);
    return result < 0 ? kg_fail_errno(err, -result, "hand over a socket") : 0;
}

static int give_bound(const struct making *making, uint32_t number, const char *address,
                      uint16_t port, int type, struct kg_err *err)
{
    if (!making->has_v6 && strchr(address, ':') != NULL)
        return 0;
    kg_auto(kg_close) int fd = open_bound(address, port, type, err);
    return fd < 0 ? fd : say_socket(making, number, fd, err);
}

static int give_listeners(const struct making *making, struct kg_err *err)
{
    for (size_t i = 0; i < making->network->count; i++) {
        const struct cage_listener *item = &making->network->items[i];
        int result = 0;
        if (item->port != 0)
            result = give_bound(making, (uint32_t)i, item->address, item->port, SOCK_STREAM, err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* It has its filter before it is bound, so that nothing else ever gets into it. */
static int give_refused(const struct making *making, struct kg_err *err)
{
    struct sockaddr_ll lo = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = making->lo};
    kg_auto(kg_close) int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int result = fd < 0 ? -errno : gate_refused_filter(fd);
    if (result == 0 && bind(fd, (struct sockaddr *)&lo, sizeof(lo)) < 0)
        result = -errno;
    if (result < 0)
        return kg_fail_errno(err, -result, "open the packet socket");
    return say_socket(making, CAGE_SOCKET_REFUSED, fd, err);
}

static int give_all(const struct making *making, struct kg_err *err)
{
    int result =
        give_bound(making, CAGE_SOCKET_ALL, "127.0.0.1", CAGE_NET_ALL_PORT, SOCK_STREAM, err);
    return result < 0
               ? result
               : give_bound(making, CAGE_SOCKET_ALL_6, "::1", CAGE_NET_ALL_PORT, SOCK_STREAM, err);
}

static int give_sockets(const struct making *making, struct kg_err *err)
{
    int result = give_listeners(making, err);
    if (result == 0)
        result = give_bound(making, CAGE_SOCKET_NAMES, CAGE_NET_GATE, NAMES_PORT, SOCK_DGRAM, err);
    if (result == 0)
        result = give_refused(making, err);
    return result;
}

/* -- the child --------------------------------------------------------------------------------- */

static int netns_make(struct making *making, pid_t pid1, int pid1_fd, struct kg_err *err)
{
    int result = netns_enter(pid1, pid1_fd, making->uid, err);
    if (result < 0)
        return result;
    /* Only now: a change of user clears it. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != making->spawner)
        return kg_fail(err, KG_E_CAGE, "the spawner is gone");
    bool redirects = cage_network_redirects(making->network);
    if (redirects)
        result = cage_redirect_start(making->network, &making->redirect, err);
    if (result == 0)
        result = make_everything_local(making, err);
    if (result == 0)
        result = give_sockets(making, err);
    if (result == 0 && redirects)
        result = give_all(making, err);
    return result < 0 || !redirects ? result : cage_redirect_wait(&making->redirect, err);
}

/* Signals as a program expects them: those of the spawner's loop are blocked. */
static void netns_reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* All that we have of the spawner, but for stdio and these two. */
static void close_others(int a, int b)
{
    unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);
    if (low > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, low - 1, 0);
    if (high > low + 1)
        close_range(low + 1, high - 1, 0);
    close_range(high + 1, ~0u, 0);
}

__attribute__((noreturn)) static void be_the_maker(struct making *making, pid_t pid1, int pid1_fd)
{
    struct kg_err err = {0};
    struct word word = {.kind = SAYS_DONE};
    netns_reset_signals();
    close_others(making->socket, pid1_fd);
    int result = netns_make(making, pid1, pid1_fd, &err);
    if (result < 0) {
        word.kind = SAYS_FAILED;
        snprintf(word.error, sizeof(word.error), "%s", err.message);
    }
    cage_message_send(making->socket, &word, sizeof(word), NULL, 0);
    _exit(result < 0 ? 1 : 0);
}

/* -- seen from the spawner --------------------------------------------------------------------- */

int cage_netns_start(const struct cage_network *network, pid_t pid1, int pid1_fd, uid_t uid,
                     struct cage_netns *ret_netns, struct kg_err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return kg_fail_errno(err, errno, "network: socketpair");
    struct making making = {.network = network, .spawner = getpid(), .uid = uid, .socket = ends[1]};
    pid_t pid = fork();
    if (pid == 0)
        be_the_maker(&making, pid1, pid1_fd);
    int errnum = errno;
    close(ends[1]);
    if (pid < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0) {
        close(ends[0]);
        return kg_fail_errno(err, pid < 0 ? errnum : errno, "network: fork");
    }
    *ret_netns = (struct cage_netns){pid, ends[0]};
    return 0;
}

int cage_netns_receive(struct cage_netns *netns, uint32_t *ret_number, int *ret_fd,
                       struct kg_err *err)
{
    struct word word;
    int fds[CAGE_MESSAGE_FDS];
    int result = cage_message_receive(netns->socket, &word, sizeof(word), fds);
    if (result == -EAGAIN)
        return result;
    if (result <= 0)
        return kg_fail(err, KG_E_CAGE, "network: its maker ended too soon");
    for (size_t i = 1; i < CAGE_MESSAGE_FDS; i++)
        kg_close(&fds[i]);
    if (word.kind == SAYS_SOCKET && fds[0] >= 0) {
        *ret_number = word.number;
        *ret_fd = fds[0];
        return 1;
    }
    kg_close(&fds[0]);
    if (word.kind == SAYS_DONE)
        return 0;
    word.error[sizeof(word.error) - 1] = '\0';
    return kg_fail(err, KG_E_CAGE, "network: %s", word.error);
}
