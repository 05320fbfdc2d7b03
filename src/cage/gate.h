/*
 * The gatekeeper. A cage has a network of its own, with nothing in it but listeners that stand for
 * the hosts it may reach. The daemon holds these listeners: for each connection it looks up the
 * declared name in the host's own network, connects there, and passes the bytes on. All of it
 * happens in a thread of its own, so that no plugin's traffic can hold up the control plane.
 *
 *   plugin -> connect 198.18.0.2:443 -> listener -> gate: api.example.com -> host's network
 */
#ifndef KAGED_GATE_H
#define KAGED_GATE_H

#include "cage/cage.h"

struct gate;
struct gate_cage;

struct gate_limits {
    uint32_t connections_max;     /* of one cage, at the same time */
    uint32_t connections_per_sec; /* of one cage; more are refused */
    uint32_t events_per_sec;      /* about one cage; more refusals are counted only */
    uint64_t connect_timeout_ms;  /* to look up the name and connect */
    uint64_t idle_timeout_ms;     /* a connection without a byte for so long is closed; 0: never */
    bool private_networks;        /* whether a name may lead into a private network */
};

enum gate_event_kind {
    GATE_CONNECTED, /* allowed, and open */
    GATE_ENDED,     /* a connection that was open is over */
    GATE_DENIED,    /* not declared, or not allowed */
    GATE_FAILED,    /* allowed, but the other side could not be reached */
    GATE_ASKED,     /* it waits for gate_cage_decide */
};
extern const char *const gate_outcomes[]; /* "connected", of each kind */

/* Texts die with the callback. */
struct gate_event {
    enum gate_event_kind kind;
    const char *host;             /* the name that was asked for, or a numeric address */
    uint16_t port;                /* 0: only the name was asked for */
    const char *address;          /* where it led, numeric; "" if nowhere */
    const char *reason;           /* why, in words; "" where the two sides just did so */
    const char *declare;          /* denied: the host that the plugin could declare; "" if none */
    uint64_t bytes_out, bytes_in; /* ended: from the plugin, and to it */
    uint64_t duration_ms;
    uint32_t suppressed; /* denied, failed: how many more there were that got no event */
};
/* Must not free the cage. */
typedef void gate_event_fn(void *data, const struct gate_event *event);

/* Starts the thread. Events come on the loop. */
struct gate *gate_new(struct loop *loop, const struct gate_limits *limits, struct kg_err *err);
void gate_set_limits(struct gate *gate, const struct gate_limits *limits);
/*
 * What cannot be told must not happen: this is asked, on the gate's thread, before a connection
 * begins. To be set before the first cage; without it all can be told.
 */
enum gate_hearing {
    GATE_HEARS,
    GATE_HEARS_LATER,   /* new connections wait */
    GATE_HEARS_NOTHING, /* they are refused; refusals are counted, and told later */
};
typedef enum gate_hearing gate_hearing_fn(void *data);
void gate_ask_first(struct gate *gate, gate_hearing_fn *hearing, void *data);
void gate_free(struct gate *gate); /* after its cages */

/* The network of one child. The plan may go after the call. */
struct gate_cage *gate_cage_new(struct gate *gate, const struct cage_plan *plan,
                                gate_event_fn *on_event, void *data);
/*
 * Its connections are made whether or not they can be told now, and are told later: for a caller
 * that has to say that nothing can be told. Before the first socket.
 */
void gate_cage_tell_later(struct gate_cage *cage);
/*
 * It is a program of ours: how often it connects is for who asks it to bound, and not for
 * connections_per_sec. There is a bound all the same. Before the first socket.
 */
void gate_cage_is_ours(struct gate_cage *cage);
/* What on_socket of the child brought; taken over. */
void gate_cage_take(struct gate_cage *cage, uint32_t index, int fd);
/* Whether a host and port that was asked about is given; what waits for it goes on. */
void gate_cage_decide(struct gate_cage *cage, const char *host, uint16_t port, bool given);
/* Connections that are open or being opened, at this moment. */
uint32_t gate_cage_connections(const struct gate_cage *cage);
/* Posts the message once all that the gate could have seen until now was told. */
void gate_cage_settle(struct gate_cage *cage, struct loop_message *when_told);
/* Closes every connection; the events of their ends come before it returns, and none after. */
void gate_cage_free(struct gate_cage *cage);

#endif
