/*
 * What is this host itself: the kernel is asked how it would send to an address, and which sockets
 * of this process listen. When the answer is not to be had, the address counts as forbidden.
 */
#include "cage/gate_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
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

#define INODES_MAX 64 /* sockets that listen on one port: addresses, families, shared ports */

struct inodes {
    uint64_t items[INODES_MAX];
    size_t count;
    bool unknown; /* more than fit, or a file that cannot be read */
};

/* Adds the sockets that listen on the port, as a table of the kernel's has them. */
static void find_listeners(const char *table, bool optional, uint16_t port, struct inodes *inodes)
{
    FILE *file = fopen(table, "re");
    if (file == NULL) {
        inodes->unknown |= !(optional && errno == ENOENT);
        return;
    }
    char line[512];
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned local_port, state;
        uint64_t inode;
        if (sscanf(line, " %*u: %*x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %" SCNu64,
                   &local_port, &state, &inode) != 3)
            continue;
        if (state != 0x0A || local_port != port)
            continue;
        if (inodes->count < INODES_MAX)
            inodes->items[inodes->count++] = inode;
        else
            inodes->unknown = true;
    }
    inodes->unknown |= ferror(file) != 0;
    fclose(file);
}

static bool is_one_of(const struct inodes *inodes, const char *link)
{
    uint64_t inode;
    if (sscanf(link, "socket:[%" SCNu64 "]", &inode) != 1)
        return false;
    for (size_t i = 0; i < inodes->count; i++)
        if (inodes->items[i] == inode)
            return true;
    return false;
}

static bool we_hold_one(const struct inodes *inodes)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return true;
    bool held = false;
    const struct dirent *entry;
    while (!held && (entry = readdir(folder)) != NULL) {
        char link[64];
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1);
        if (length <= 0)
            continue;
        link[length] = '\0';
        held = is_one_of(inodes, link);
    }
    closedir(folder);
    return held;
}

bool gate_port_is_ours(uint16_t port)
{
    struct inodes inodes = {0};
    find_listeners("/proc/thread-self/net/tcp", false, port, &inodes);
    find_listeners("/proc/thread-self/net/tcp6", true, port, &inodes); /* no IPv6: no table */
    return inodes.unknown || (inodes.count > 0 && we_hold_one(&inodes));
}
