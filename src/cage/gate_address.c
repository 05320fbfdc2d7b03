/*
 * Which addresses a plugin's connection may lead to. Nothing here asks the system: an address and
 * how the plugin came by it go in, a verdict comes out.
 */
#include "cage/gate_internal.h"

#include <arpa/inet.h>

#define V4_BITS(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (d))

/* The first row that fits is the class; what no row fits is global. */
static const struct {
    uint32_t network;
    unsigned bits;
    enum gate_class class;
} v4_classes[] = {
    {V4_BITS(0, 0, 0, 0), 8, GATE_CLASS_NOBODY},
    {V4_BITS(10, 0, 0, 0), 8, GATE_CLASS_PRIVATE},
    {V4_BITS(100, 100, 100, 200), 32, GATE_CLASS_METADATA},
    {V4_BITS(100, 64, 0, 0), 10, GATE_CLASS_PRIVATE},
    {V4_BITS(127, 0, 0, 0), 8, GATE_CLASS_LOOPBACK},
    {V4_BITS(169, 254, 0, 0), 16, GATE_CLASS_LINK},
    {V4_BITS(172, 16, 0, 0), 12, GATE_CLASS_PRIVATE},
    {V4_BITS(192, 0, 0, 0), 24, GATE_CLASS_METADATA}, /* one cloud's service, and translators */
    {V4_BITS(192, 168, 0, 0), 16, GATE_CLASS_PRIVATE},
    {V4_BITS(198, 18, 0, 0), 15, GATE_CLASS_PRIVATE}, /* for benchmarks; a cage's own addresses */
    {V4_BITS(224, 0, 0, 0), 3, GATE_CLASS_NOBODY},    /* multicast, reserved, broadcast */
};

static const struct {
    uint8_t network[16];
    unsigned bits;
    enum gate_class class;
} v6_classes[] = {
    {{0}, 128, GATE_CLASS_NOBODY},
    {{[15] = 1}, 128, GATE_CLASS_LOOPBACK},
    {{0xFD, 0x00, 0x0E, 0xC2}, 32, GATE_CLASS_METADATA},
    {{0xFD, 0x20, 0x00, 0xCE}, 32, GATE_CLASS_METADATA},
    {{0xFC}, 7, GATE_CLASS_PRIVATE},
    {{0xFE, 0x80}, 10, GATE_CLASS_LINK},
    {{0xFE, 0xC0}, 10, GATE_CLASS_PRIVATE},                         /* site-local */
    {{0x00, 0x64, 0xFF, 0x9B, 0x00, 0x01}, 48, GATE_CLASS_PRIVATE}, /* local translators */
    {{0x01, 0x00, 0, 0, 0, 0, 0, 0}, 64, GATE_CLASS_NOBODY},        /* discard */
    {{0xFF}, 8, GATE_CLASS_NOBODY},
};

/* Where an IPv4 address stands in an IPv6 address; `flipped` has every bit inverted. */
static const struct {
    uint8_t network[16];
    unsigned bits;
    unsigned at;
    bool flipped;
} embeddings[] = {
    {{[10] = 0xFF, [11] = 0xFF}, 96, 12, false}, /* mapped */
    {{0x00, 0x64, 0xFF, 0x9B}, 96, 12, false},   /* NAT64 */
    {{0x20, 0x02}, 16, 2, false},                /* 6to4 */
    {{0x20, 0x01, 0x00, 0x00}, 32, 12, true},    /* Teredo */
    {{0}, 96, 12, false},                        /* compatible */
    {{[8] = 0xFF, [9] = 0xFF}, 96, 12, false},   /* translated */
};

static bool gate_address_has_prefix(const uint8_t *address, const uint8_t *network, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(address, network, whole) != 0)
        return false;
    uint8_t mask = (uint8_t)(0xFF00 >> rest);
    return rest == 0 || (address[whole] & mask) == (network[whole] & mask);
}

static void set_v4(union gate_address *address, const uint8_t bytes[4], uint16_t port)
{
    memset(address, 0, sizeof(*address));
    address->v4.sin_family = AF_INET;
    address->v4.sin_port = htons(port);
    memcpy(&address->v4.sin_addr, bytes, 4);
}

/* A mapped address is an IPv4 address to the kernel: it must be one to us too. */
static void unmap(union gate_address *address)
{
    if (address->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr)) {
        uint8_t bytes[4];
        memcpy(bytes, address->v6.sin6_addr.s6_addr + 12, sizeof(bytes));
        set_v4(address, bytes, ntohs(address->v6.sin6_port));
    }
}

bool gate_address_parse(const char *text, uint16_t port, union gate_address *ret_address)
{
    union gate_address address = {0};
    uint8_t bytes[4];
    if (inet_pton(AF_INET, text, bytes) == 1) {
        set_v4(&address, bytes, port);
    } else if (inet_pton(AF_INET6, text, &address.v6.sin6_addr) == 1) {
        address.v6.sin6_family = AF_INET6;
        address.v6.sin6_port = htons(port);
        unmap(&address);
    } else {
        return false;
    }
    *ret_address = address;
    return true;
}

bool gate_address_take(const struct sockaddr *from, size_t size, union gate_address *ret_address)
{
    union gate_address address = {0};
    if (from->sa_family == AF_INET && size >= sizeof(address.v4))
        memcpy(&address.v4, from, sizeof(address.v4));
    else if (from->sa_family == AF_INET6 && size >= sizeof(address.v6))
        memcpy(&address.v6, from, sizeof(address.v6));
    else
        return false;
    unmap(&address);
    *ret_address = address;
    return true;
}

void gate_address_print(const union gate_address *address, char ret_text[GATE_ADDRESS_TEXT])
{
    bool is_v4 = address->any.sa_family == AF_INET;
    const void *bytes =
        is_v4 ? (const void *)&address->v4.sin_addr : (const void *)&address->v6.sin6_addr;
    ret_text[0] = '\0';
    inet_ntop(is_v4 ? AF_INET : AF_INET6, bytes, ret_text, GATE_ADDRESS_TEXT);
}

socklen_t gate_address_size(const union gate_address *address)
{
    return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

uint16_t gate_address_port(const union gate_address *address)
{
    return ntohs(address->any.sa_family == AF_INET ? address->v4.sin_port : address->v6.sin6_port);
}

bool gate_address_same_host(const union gate_address *a, const union gate_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET)
        return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr)) == 0;
}

static enum gate_class v4_class(uint32_t address)
{
    for (size_t i = 0; i < KG_COUNT(v4_classes); i++)
        if ((address ^ v4_classes[i].network) >> (32 - v4_classes[i].bits) == 0)
            return v4_classes[i].class;
    return GATE_CLASS_GLOBAL;
}

enum gate_class gate_address_class(const union gate_address *address)
{
    if (address->any.sa_family == AF_INET)
        return v4_class(ntohl(address->v4.sin_addr.s_addr));
    for (size_t i = 0; i < KG_COUNT(v6_classes); i++)
        if (gate_address_has_prefix(address->v6.sin6_addr.s6_addr, v6_classes[i].network,
                                    v6_classes[i].bits))
            return v6_classes[i].class;
    return GATE_CLASS_GLOBAL;
}

bool gate_address_embedded(const union gate_address *address, union gate_address *ret_inner)
{
    if (address->any.sa_family != AF_INET6 || gate_address_class(address) != GATE_CLASS_GLOBAL)
        return false;
    const uint8_t *bytes = address->v6.sin6_addr.s6_addr;
    for (size_t i = 0; i < KG_COUNT(embeddings); i++) {
        if (!gate_address_has_prefix(bytes, embeddings[i].network, embeddings[i].bits))
            continue;
        uint8_t inner[4];
        for (size_t k = 0; k < sizeof(inner); k++)
            inner[k] = bytes[embeddings[i].at + k] ^ (embeddings[i].flipped ? 0xFF : 0);
        set_v4(ret_inner, inner, ntohs(address->v6.sin6_port));
        return true;
    }
    return false;
}

enum gate_trust gate_trust_of(const char *host)
{
    union gate_address ignored;
    if (strcmp(host, "localhost") == 0)
        return GATE_TRUST_LOCALHOST;
    return gate_address_parse(host, 0, &ignored) ? GATE_TRUST_LITERAL : GATE_TRUST_NAME;
}

const char *gate_verdict(enum gate_trust trust, enum gate_class class, bool is_own,
                         bool private_networks)
{
    static const char *const refused[] = {
        [GATE_CLASS_LOOPBACK] = "it leads to the loopback of this host: declare localhost",
        [GATE_CLASS_LINK] = "it leads to a link-local address",
        [GATE_CLASS_METADATA] = "it leads to an address where clouds keep secrets of a machine",
        [GATE_CLASS_NOBODY] = "it leads to an address that is not a single host's",
    };
    if (class == GATE_CLASS_NOBODY)
        return refused[class];
    if (trust == GATE_TRUST_LITERAL)
        return NULL;
    if (trust == GATE_TRUST_LOCALHOST)
        return class == GATE_CLASS_LOOPBACK ? NULL : "localhost leads elsewhere";
    if (class != GATE_CLASS_GLOBAL && class != GATE_CLASS_PRIVATE)
        return refused[class];
    if (is_own)
        return "it leads to an address of this host, which must be declared as an address";
    if (class == GATE_CLASS_GLOBAL)
        return NULL;
    if (trust == GATE_TRUST_ANY)
        return "it leads into a private network, where net:* does not reach";
    return private_networks ? NULL
                            : "it leads into a private network, which sandbox.private_networks "
                              "forbids";
}

bool gate_remedy(enum gate_class class, bool is_own, bool private_networks,
                 enum gate_trust *ret_trust)
{
    static const enum gate_trust ways[] = {GATE_TRUST_NAME, GATE_TRUST_LOCALHOST,
                                           GATE_TRUST_LITERAL};
    for (size_t i = 0; i < KG_COUNT(ways); i++) {
        if (gate_verdict(ways[i], class, is_own, private_networks) != NULL)
            continue;
        *ret_trust = ways[i];
        return true;
    }
    return false;
}
