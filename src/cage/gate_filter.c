/*
 * Which packets the gate sees on its packet socket: TCP segments with RST and ACK and the sequence
 * number 0. With exactly such a segment the kernel answers a SYN to which nobody listens; it comes
 * from the refused target. The reset of an open connection has another number, so no traffic of
 * the plugin passes but what was refused.
 */
#include "cage/internal.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* The kernel's own answers have headers of one form: no options, no extensions. */
#define NET          SKF_NET_OFF
#define V4_TCP       (NET + 20)
#define V6_TCP       (NET + 40)
#define V4_NO_OPTION 0x45
#define FLAGS        (TH_FIN | TH_SYN | TH_RST | TH_ACK)
#define WHOLE        256 /* bytes to keep: more than such a packet has */

#define LOAD(size, offset) BPF_STMT(BPF_LD | (size) | BPF_ABS, (unsigned)(offset))
#define MASK(bits)         BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits)
/* Goes on to one row or another; `at` is the row that it stands in itself. */
#define EQUALS(at, value, then, other)                                                             \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, (then) - (at)-1, (other) - (at)-1)

enum { V6 = 11, KEEP = 19, DROP = 20 };

static struct sock_filter refused[] = {
    LOAD(BPF_W, SKF_AD_OFF + SKF_AD_PROTOCOL),
    EQUALS(1, ETH_P_IP, 2, V6),
    LOAD(BPF_B, NET),
    EQUALS(3, V4_NO_OPTION, 4, DROP),
    LOAD(BPF_B, NET + 9), /* what it carries */
    EQUALS(5, IPPROTO_TCP, 6, DROP),
    LOAD(BPF_W, V4_TCP + 4), /* the sequence number */
    EQUALS(7, 0, 8, DROP),
    LOAD(BPF_B, V4_TCP + 13), /* the flags */
    MASK(FLAGS),
    EQUALS(10, TH_RST | TH_ACK, KEEP, DROP),

    [V6] = EQUALS(V6, ETH_P_IPV6, 12, DROP),
    LOAD(BPF_B, NET + 6), /* what it carries */
    EQUALS(13, IPPROTO_TCP, 14, DROP),
    LOAD(BPF_W, V6_TCP + 4),
    EQUALS(15, 0, 16, DROP),
    LOAD(BPF_B, V6_TCP + 13),
    MASK(FLAGS),
    EQUALS(18, TH_RST | TH_ACK, KEEP, DROP),

    [KEEP] = BPF_STMT(BPF_RET | BPF_K, WHOLE),
    [DROP] = BPF_STMT(BPF_RET | BPF_K, 0),
};

/* On lo every packet goes out and comes in again: once is enough. */
int gate_refused_filter(int fd)
{
    struct sock_fprog program = {.len = KG_COUNT(refused), .filter = refused};
    int yes = 1;
    if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof(yes)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0)
        return -errno;
    return 0;
}
