/*
 * What is this host itself: the kernel is asked how it would send to an address, and which sockets
 * of this process listen. When the answer is not to be had, the address counts as forbidden.
 */
#include "cage/gate_internal.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* -- asking the kernel ------------------------------------------------------------------------- */

/*
 * A netlink socket for all threads, opened with the first question and then kept: to open and close
 * one costs more than to ask. The network namespace of the daemon never changes.
 */
struct line {
    int family;
    pthread_mutex_t lock; /* around what follows, and from a question to its answer */
    int fd;
    uint32_t number; /* of the last question */
};
static struct line routes = {NETLINK_ROUTE, PTHREAD_MUTEX_INITIALIZER, -1, 0};
static struct line listeners = {NETLINK_SOCK_DIAG, PTHREAD_MUTEX_INITIALIZER, -1, 0};

static ssize_t gate_local_ask_on(struct line *line, struct nlmsghdr *question, char *ret_answer,
                                 size_t max)
{
    if (line->fd < 0)
        line->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, line->family);
    question->nlmsg_seq = ++line->number;
    if (line->fd < 0 || send(line->fd, question, question->nlmsg_len, 0) < 0)
        return -errno;
    /* The kernel answers while it is asked: there is nothing to wait for. */
    ssize_t size = recv(line->fd, ret_answer, max, MSG_DONTWAIT);
    if (size < 0)
        return -errno;
    const struct nlmsghdr *head = (const struct nlmsghdr *)ret_answer;
    return (size_t)size >= sizeof(*head) && head->nlmsg_seq == line->number ? size : -EPROTO;
}

/* The size of the answer, or a negative errno. */
static ssize_t ask_kernel(struct line *line, struct nlmsghdr *question, char *ret_answer,
                          size_t max)
{
    pthread_mutex_lock(&line->lock);
    ssize_t size = gate_local_ask_on(line, question, ret_answer, max);
    if (size < 0)
        kg_close(&line->fd); /* whatever may still come there answers nobody */
    pthread_mutex_unlock(&line->lock);
    return size;
}

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
    _Alignas(struct nlmsghdr) char answer[1024] = {0};
    ask_route(address, &question);
    ssize_t size = ask_kernel(&routes, &question.head, answer, sizeof(answer));
    if (size < 0)
        return (int)size;
    int type = read_route(answer, (size_t)size);
    if (type == -ENETUNREACH || type == -EHOSTUNREACH || type == -EACCES)
        return 0; /* no way there, so not here either; connecting says so */
    return type < 0 ? type : type == RTN_LOCAL;
}

/* -- own listeners: the slow and sure way ------------------------------------------------------ */

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

/* Looks at every file descriptor of this process; true if that cannot be done. */
static bool we_listen_on(uint16_t port)
{
    kg_auto(kg_close) int here = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return true;
    bool ours = here < 0;
    uint64_t network = network_of(here);
    const struct dirent *entry;
    /* A number may be closed and used again meanwhile: it is only asked what it is. */
    while (!ours && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            ours = listens_on(atoi(entry->d_name), port, network);
    closedir(folder);
    return ours;
}

/* -- own listeners: the quick way -------------------------------------------------------------- */

#define STRANGERS_MAX 64

/*
 * Listeners that were looked for among ours once and are not. A cookie names one socket and never
 * another, so with many connections open the slow way is gone once for each.
 */
static struct {
    pthread_mutex_t lock; /* around what follows */
    uint64_t cookies[STRANGERS_MAX];
    size_t next;
    bool kernel_answers; /* it told of a listener: when it knows of none there is none */
} strangers = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct listener_question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 request;
};

static void ask_listener(const union gate_address *address, struct listener_question *ret_question)
{
    *ret_question = (struct listener_question){
        .head = {.nlmsg_len = sizeof(*ret_question),
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .request = {.sdiag_family = (uint8_t)address->any.sa_family,
                    .sdiag_protocol = IPPROTO_TCP,
                    .idiag_states = UINT32_MAX,
                    .id = {.idiag_sport = htons(gate_address_port(address)),
                           .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
    };
    if (address->any.sa_family == AF_INET)
        memcpy(ret_question->request.id.idiag_src, &address->v4.sin_addr, 4);
    else
        memcpy(ret_question->request.id.idiag_src, &address->v6.sin6_addr, 16);
}

/* The socket that would take a connection to the address; 0 if the kernel tells of none. */
static uint64_t gate_local_find_listener(const union gate_address *address)
{
    struct listener_question question;
    _Alignas(struct nlmsghdr) char answer[1024] = {0};
    ask_listener(address, &question);
    ssize_t size = ask_kernel(&listeners, &question.head, answer, sizeof(answer));
    const struct nlmsghdr *head = (const struct nlmsghdr *)answer;
    if (size < 0 || !NLMSG_OK(head, (size_t)size) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        head->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
        return 0;
    const struct inet_diag_msg *found = NLMSG_DATA(head);
    return (uint64_t)found->id.idiag_cookie[1] << 32 | found->id.idiag_cookie[0];
}

static bool is_stranger(uint64_t cookie)
{
    bool known = false;
    pthread_mutex_lock(&strangers.lock);
    strangers.kernel_answers |= cookie != 0;
    if (cookie == 0)
        known = strangers.kernel_answers;
    for (size_t i = 0; i < STRANGERS_MAX && !known; i++)
        known = strangers.cookies[i] == cookie && cookie != 0;
    pthread_mutex_unlock(&strangers.lock);
    return known;
}

static void remember_stranger(uint64_t cookie)
{
    pthread_mutex_lock(&strangers.lock);
    strangers.cookies[strangers.next++ % STRANGERS_MAX] = cookie;
    pthread_mutex_unlock(&strangers.lock);
}

bool gate_listener_is_ours(const union gate_address *address)
{
    uint64_t cookie = gate_local_find_listener(address);
    if (is_stranger(cookie))
        return false;
    bool ours = we_listen_on(gate_address_port(address));
    if (!ours && cookie != 0)
        remember_stranger(cookie);
    return ours;
}
