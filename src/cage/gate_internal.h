/*
 * Shared by the files of the gate. Two threads: the loop's, where the interface is called and
 * events are heard, and the relay's, which has a loop of its own and owns every socket. They talk
 * by posted messages alone; what a struct says of "the relay's" the other thread never touches.
 *
 *   loop: gate_cage_take --loop_post--> relay: accept, look up, connect, move bytes
 *   loop: on_event <--mailbox, loop_post-- relay: gate_tell
 */
#ifndef KAGED_GATE_INTERNAL_H
#define KAGED_GATE_INTERNAL_H

#include "cage/gate.h"
#include "cage/internal.h"

#include <netinet/in.h>

#define GATE_HOST_TEXT    256 /* a name or a numeric address, with its NUL */
#define GATE_ADDRESS_TEXT 64
#define GATE_REASON_TEXT  192

#define GATE_SCRATCH_BYTES ((size_t)64 * 1024)

/* -- addresses: pure --------------------------------------------------------------------------- */

union gate_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* A numeric address; no name is looked up. An IPv4 address in IPv6 clothes becomes IPv4. */
bool gate_address_parse(const char *text, uint16_t port, union gate_address *ret_address);
/* What the kernel gave; false unless it is an IP address of the right size. */
bool gate_address_take(const struct sockaddr *from, size_t size, union gate_address *ret_address);
void gate_address_print(const union gate_address *address, char ret_text[GATE_ADDRESS_TEXT]);
socklen_t gate_address_size(const union gate_address *address);
uint16_t gate_address_port(const union gate_address *address);
bool gate_address_same_host(const union gate_address *a, const union gate_address *b);
/* The IPv4 address that an IPv6 address of a translator or tunnel leads to. */
bool gate_address_embedded(const union gate_address *address, union gate_address *ret_inner);

enum gate_class {
    GATE_CLASS_GLOBAL,
    GATE_CLASS_PRIVATE,
    GATE_CLASS_LOOPBACK,
    GATE_CLASS_LINK,     /* of one link only */
    GATE_CLASS_METADATA, /* where a cloud keeps the secrets of its machines */
    GATE_CLASS_NOBODY,   /* no single host: unspecified, multicast, broadcast, reserved */
};
enum gate_class gate_address_class(const union gate_address *address);

/* How the plugin came to its target. */
enum gate_trust {
    GATE_TRUST_LITERAL, /* this very address was declared */
    GATE_TRUST_LOCALHOST,
    GATE_TRUST_NAME, /* this name was declared */
    GATE_TRUST_ANY,  /* nothing but `*` */
};
enum gate_trust gate_trust_of(const char *host);
/* Why this address may not be connected to, or NULL. is_own: it is one of this host's. */
const char *gate_verdict(enum gate_trust trust, enum gate_class class, bool is_own,
                         bool private_networks);
/* True if an address that is refused would be allowed to one who declared it in another way. */
bool gate_remedy(enum gate_class class, bool is_own, bool private_networks,
                 enum gate_trust *ret_trust);

/* -- this host itself -------------------------------------------------------------------------- */

/* Whether what is sent there stays on this machine; the kernel's routes say. -errno if unknown. */
int gate_address_is_own(const union gate_address *address);
/* Whether a socket of this process would take a connection to this address of the host. */
bool gate_listener_is_ours(const union gate_address *address);

/* -- looking up: in threads of their own, so that nobody waits for a slow name server -----------
 */

#define GATE_ADDRESSES_MAX 16

enum gate_found { GATE_FOUND, GATE_FOUND_DENIED, GATE_FOUND_NOTHING };

struct gate_lookup {
    struct loop_message message; /* how it comes back to the relay */
    void (*done)(struct gate_lookup *lookup);
    struct gate_lookup *next; /* in the queue, then in the list of those that run */
    const void *owner;        /* so that one cage cannot take every thread; not looked into */
    char host[GATE_HOST_TEXT];
    uint16_t port;
    enum gate_trust trust;
    bool private_networks;

    enum gate_found found;
    union gate_address addresses[GATE_ADDRESSES_MAX]; /* that may be connected to */
    size_t count;
    char address[GATE_ADDRESS_TEXT]; /* denied: the first that may not, numeric */
    char reason[GATE_REASON_TEXT];   /* denied, nothing: why */
    char declare[GATE_HOST_TEXT];    /* denied: see gate_event */

    struct gate_cage *cage; /* the relay's; NULL: nobody waits any more */
    struct gate_lookup *next_of_cage;
    struct gate_connection *waiting; /* by next_waiting */
};

struct gate_resolver;
struct gate_resolver *gate_resolver_new(struct loop *relay);
/* `done` comes at once for what is not a name; it owns the look-up. */
void gate_resolver_ask(struct gate_resolver *resolver, struct gate_lookup *lookup);
/* True if it had not begun: then it is the caller's again. */
bool gate_resolver_withdraw(struct gate_resolver *resolver, struct gate_lookup *lookup);
/* Does not wait for look-ups that run: they end by themselves, and nobody hears of it. */
void gate_resolver_free(struct gate_resolver *resolver);

/* -- names: what the responder reads and writes; pure -------------------------------------------
 */

#define GATE_PACKET_MAX 512

enum gate_rcode {
    GATE_RCODE_OK = 0,
    GATE_RCODE_FORMAT = 1,
    GATE_RCODE_FAILED = 2,
    GATE_RCODE_NO_NAME = 3,
    GATE_RCODE_NOT_DONE = 4,
    GATE_RCODE_REFUSED = 5,
};
enum gate_query_type { GATE_QUERY_A = 1, GATE_QUERY_AAAA = 28, GATE_QUERY_ALL = 255 };

struct gate_query {
    uint16_t id, type;
    bool recursion_wanted;
    char name[GATE_HOST_TEXT]; /* lower case, without the dot at its end; "" is the root */
    bool is_plain;             /* of letters, digits, '-' and '_' only */
    size_t question_size;      /* bytes of the question in the packet; 0: none to repeat */
};
/* False: no answer at all. Else *ret_rcode is what to answer unless the name says otherwise. */
bool gate_query_read(const uint8_t *packet, size_t size, struct gate_query *ret_query,
                     enum gate_rcode *ret_rcode);
/* The answer to a query, with those addresses whose family was asked for; returns its size. */
size_t gate_answer_write(const uint8_t *packet, const struct gate_query *query,
                         enum gate_rcode rcode, const union gate_address *addresses, size_t count,
                         uint8_t ret_answer[GATE_PACKET_MAX]);

/* Under `*` each name gets an address of its own, so that a connection to it has a name again. */
struct gate_names;
struct gate_name;
struct gate_names *gate_names_new(void);
void gate_names_free(struct gate_names *names);
/* The address of a name, new if need be. NULL: every address has open connections. */
const struct gate_name *gate_names_give(struct gate_names *names, const char *name);
void gate_name_address(const struct gate_name *name, union gate_address *ret_address);
/* The name that an address was given to, or NULL. */
struct gate_name *gate_names_find(const struct gate_names *names,
                                  const union gate_address *address);
const char *gate_name_text(const struct gate_name *name);
/* While held, the address stays that name's. */
void gate_name_hold(struct gate_name *name);
void gate_name_release(struct gate_name *name);

/* -- the relay ----------------------------------------------------------------------------------
 */

/* Something that epoll watches. */
struct gate_source {
    int fd; /* -1: none */
    void (*on_ready)(struct gate_source *source, uint32_t events);
    bool is_watched;
};
/* Watches for these events from now on, and no others. */
int gate_watch(struct gate *gate, struct gate_source *source, uint32_t events);
/* Stops watching and closes; what epoll told already is not delivered any more. */
void gate_unwatch(struct gate *gate, struct gate_source *source);
/* Whether what happens now in a cage can be told. */
enum gate_hearing gate_hearing(const struct gate_cage *cage);
/* Makes the relay's next turn come at once. */
void gate_wake(struct gate *gate);

/* One end of a connection. */
struct gate_side {
    struct gate_source source;
    struct gate_connection *connection;
    char *kept; /* owned; what this side could not take yet, or NULL */
    size_t kept_at, kept_size;
    struct gate_pipe *pipe; /* owned; the same, of a stream */
    bool may_read;          /* epoll told of something, and not all of it is read yet */
    bool is_stream;         /* it sends faster than one read takes */
    bool hung_up;           /* epoll told of an end: only reading shows which */
    bool is_read;           /* to its end */
    bool is_finished;       /* it was told that nothing more comes */
    uint64_t bytes;         /* that it took */
};

enum gate_moved { GATE_MOVED_ALL, GATE_MOVED_SHARE, GATE_MOVED_BROKEN };
/* Moves what `from` has to `to`: all of it, or a share, or until `to` takes no more. */
enum gate_moved gate_move(struct gate *gate, struct gate_side *from, struct gate_side *to);
void gate_side_close(struct gate *gate, struct gate_side *side, bool reset);
void gate_free_pipes(struct gate *gate);

struct gate {
    struct loop *loop; /* borrowed; where events are heard */
    struct loop *relay;
    uv_thread_t thread;
    gate_hearing_fn *hearing; /* or NULL; set before the first cage */
    void *hearing_data;
    /* The relay's from here on. */
    struct gate_limits limits;
    uint32_t connection_count, connections_max; /* of all cages */
    struct gate_resolver *resolver;
    int epoll_fd;
    uv_poll_t poll;  /* of epoll_fd */
    uv_idle_t again; /* runs while a cage has connections that are not done */
    struct gate_cage *ready, **ready_tail;
    struct gate_connection *dead; /* freed once no event of this turn can name them */
    char *scratch;                /* what is copied passes through here */
    struct gate_pipe *pipes;      /* empty ones, to be used again */
    uint32_t spare_count, pipe_count, pipes_max;
};

/* A socket of a cage. */
struct gate_socket {
    struct gate_source source;
    struct gate_cage *cage;
    struct gate_socket *next;
    uint32_t index;   /* see cage_child_ops.on_socket */
    size_t head_size; /* REFUSED: bytes before the IP header */
};

/* A declared host, as the plan has it. */
struct gate_host {
    char *host; /* owned */
    union gate_address address;
    uint16_t port; /* 0: every port */
};

struct gate_cage {
    struct gate *gate; /* borrowed */
    struct gate_mailbox *mailbox;
    struct gate_host *hosts; /* owned; never changes */
    size_t host_count;
    struct gate_host *closed; /* owned; hosts and ports that are refused all the same */
    size_t closed_count;
    bool any;
    bool asks;        /* about what is not declared, see gate_ask.c */
    bool tells_later; /* it is not asked whether somebody hears */
    bool is_ours;     /* connections_per_sec is for others */
    /* The relay's from here on. */
    struct gate_socket *sockets;
    bool paused;              /* no accepting for a moment */
    struct loop_timer resume; /* ends the pause */
    struct gate_question *questions;
    struct gate_connection *connections;
    _Atomic uint32_t connection_count; /* also read by the loop */
    struct gate_lookup *lookups;       /* by next_of_cage */
    struct gate_names *names;          /* where unknown names have addresses, else NULL */
    struct kg_rate accepted, asked;
    struct gate_connection *ready, **ready_tail; /* connections with something to do */
    struct gate_cage *next_ready;
    bool is_ready;
};

/* The declared host of that address; with its port, or with any if port is 0. NULL if none. */
const struct gate_host *gate_cage_host(const struct gate_cage *cage,
                                       const union gate_address *address, uint16_t port);
/* What people know an address by: a name, or `numeric`. */
const char *gate_cage_name_of(const struct gate_cage *cage, const union gate_address *address,
                              const char *numeric);

/* Where an accepted connection wants to go. */
struct gate_target {
    const char *host; /* borrowed from the cage, or is numeric */
    char numeric[GATE_ADDRESS_TEXT];
    uint16_t port;
    enum gate_trust trust;
    struct gate_name *name;      /* NULL unless `*` gave it */
    const char *denied;          /* why it may not, or NULL */
    const char *declare;         /* and what would help, or NULL */
    struct gate_question *asked; /* not NULL: it waits for the answer */
};
/* Looks up, connects and moves bytes from now on. Takes the fd. */
void gate_connection_begin(struct gate_cage *cage, int fd, const struct gate_target *target);
/* Of a connection; one that a listener accepts has those of the listener. */
void gate_set_options(int fd);
/* The other side will see a reset and no end of file. */
void gate_reset_on_close(int fd);

/* Begins what may be, refuses what may not; or it waits. Takes the fd. */
void gate_admit(struct gate_socket *socket, int fd);
/* Of a host that is not declared: fills in whether it may be had, or whose answer it waits for. */
void gate_ask_about(struct gate_cage *cage, struct gate_target *target);
void gate_ask_wait(struct gate_question *question, struct gate_socket *socket, int fd);
void gate_ask_decided(struct gate_cage *cage, const char *host, uint16_t port, bool given);
void gate_ask_end(struct gate_cage *cage);

void gate_listener_ready(struct gate_source *source, uint32_t events);
void gate_names_ready(struct gate_source *source, uint32_t events);
void gate_refused_ready(struct gate_source *source, uint32_t events);
/* Ends every connection of the cage. */
void gate_connections_end(struct gate_cage *cage, const char *reason);
/* Lets each ready cage do its share; true if something is left to do. */
bool gate_run_ready(struct gate *gate);
/* Takes a cage that ended off the list of ready ones. */
void gate_forget_ready(struct gate_cage *cage);
void gate_free_dead(struct gate *gate);

/* -- events: from the relay to the loop ----------------------------------------------------------
 */

struct gate_mailbox;
struct gate_mailbox *gate_mailbox_new(struct gate_cage *cage, struct loop *loop,
                                      gate_event_fn *on_event, void *data);
/* Delivers what is left, and nothing more from then on; on the loop. */
void gate_mailbox_close(struct gate_mailbox *mailbox);
/* True while the loop is so far behind that nothing new may begin. */
bool gate_mailbox_is_full(struct gate_mailbox *mailbox);
/* A text that is NULL becomes "". Connected, ended: each is told. */
void gate_tell(struct gate_cage *cage, const struct gate_event *event);
/* Denied, failed: so many a second, the rest are counted. */
void gate_tell_refusal(struct gate_cage *cage, const struct gate_event *event);
/* Tells what was only counted yet; on the relay, at the end: nothing may be told after it. */
void gate_tell_last(struct gate_cage *cage);
/* Sends all that waits on its way. */
void gate_tell_now(struct gate_cage *cage);

#endif
