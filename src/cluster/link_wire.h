/* What the daemon and kaged-link say to each other: one packet each, see cage/message.h. */
#ifndef KAGED_CLUSTER_LINK_WIRE_H
#define KAGED_CLUSTER_LINK_WIRE_H

#include "cage/message.h"
#include "cluster/link.h"

#define LINK_WORDS 200

enum link_kind {
    /* To kaged-link. */
    LINK_KEYS,    /* fd: PEM of certificate, authority and key, one after the other; the first */
    LINK_ACCEPT,  /* fds: a connection that came, and where its bytes go */
    LINK_CONNECT, /* the same of one that we made; node: who has to be there */
    /* From it. */
    LINK_READY,  /* it has its keys, and gave all else up; or words say why not */
    LINK_OPEN,   /* node: who is there; "": nobody with a certificate */
    LINK_FAILED, /* words: why; the fds are closed */
};

struct link_message {
    uint32_t kind;
    uint32_t id;
    char node[LINK_NODE_MAX + 1];
    char words[LINK_WORDS];
};

#endif
