/*
 * Attempts to connect where nothing is declared. Nobody listens there, so the cage's own kernel
 * refuses, and the plugin knows at once; here the refusal is seen and becomes an event.
 */
#include "cage/gate_internal.h"

#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#define PACKETS_PER_TURN 64

/* Where the packet comes from, and where its TCP header is; 0 if it has none that is whole. */
static size_t read_ip(const uint8_t *packet, size_t size, union gate_address *ret_source)
{
    union gate_address source = {0};
    size_t header = 0;
    if (size >= sizeof(struct iphdr) && packet[0] >> 4 == 4 && packet[9] == IPPROTO_TCP) {
        source.v4.sin_family = AF_INET;
        memcpy(&source.v4.sin_addr, packet + offsetof(struct iphdr, saddr), 4);
        header = (size_t)(packet[0] & 0xF) * 4;
    } else if (size >= sizeof(struct ip6_hdr) && packet[0] >> 4 == 6 && packet[6] == IPPROTO_TCP) {
        source.v6.sin6_family = AF_INET6;
        memcpy(&source.v6.sin6_addr, packet + offsetof(struct ip6_hdr, ip6_src), 16);
        header = sizeof(struct ip6_hdr);
    }
    if (header == 0 || header + sizeof(struct tcphdr) > size)
        return 0;
    *ret_source = source;
    return header;
}

/* True for the answer to an attempt to connect to `ret_target`. */
static bool gate_refused_read_refusal(const uint8_t *packet, size_t size,
                                      union gate_address *ret_target)
{
    size_t at = read_ip(packet, size, ret_target);
    if (at == 0)
        return false;
    struct tcphdr tcp;
    memcpy(&tcp, packet + at, sizeof(tcp));
    if (ret_target->any.sa_family == AF_INET)
        ret_target->v4.sin_port = tcp.source;
    else
        ret_target->v6.sin6_port = tcp.source;
    return tcp.rst && tcp.ack && !tcp.syn && tcp.seq == 0;
}

static void gate_refused_tell(struct gate_cage *cage, const union gate_address *target)
{
    uint16_t port = gate_address_port(target);
    if (gate_cage_host(cage, target, port) != NULL)
        return; /* declared: its listener is not there yet, or not any more */
    char numeric[GATE_ADDRESS_TEXT];
    gate_address_print(target, numeric);
    struct gate_event event = {.kind = GATE_DENIED, .port = port};
    event.host = event.declare = gate_cage_name_of(cage, target, numeric);
    event.reason = gate_cage_host(cage, target, 0) ? "the port is not declared"
                                                   : "the address is not declared";
    gate_tell_refusal(cage, &event);
}

void gate_refused_ready(struct gate_source *source, uint32_t events)
{
    (void)events;
    struct gate_socket *socket = KG_CONTAINER(source, struct gate_socket, source);
    for (int i = 0; i < PACKETS_PER_TURN; i++) {
        uint8_t packet[256];
        ssize_t size = recv(source->fd, packet, sizeof(packet), MSG_DONTWAIT);
        if (size < 0 && errno == EAGAIN)
            return;
        union gate_address target;
        if (size >= 0 && (size_t)size >= socket->head_size &&
            gate_refused_read_refusal(packet + socket->head_size, (size_t)size - socket->head_size,
                                      &target))
            gate_refused_tell(socket->cage, &target);
    }
}
