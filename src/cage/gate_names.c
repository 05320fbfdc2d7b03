/*
 * Who is where, told to the cage. Declared names have the addresses of the plan; under `*` each
 * other name gets one of its own while it is in use. Nothing is looked up for it: no query of a
 * plugin leaves the host, so none can carry anything out.
 */
#include "cage/gate_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#define FIRST_ADDRESS    0xC6128001 /* 198.18.128.1 */
#define NAMES_MAX        4096
#define QUERIES_PER_TURN 32
#define QUERIES_PER_SEC  500 /* past this a cage gets no answer */
#define ANSWERS_MAX      8

/* -- names that got an address ----------------------------------------------------------------- */

struct gate_name {
    struct gate_name *older, *newer; /* by when it was last asked for */
    char *text;                      /* owned */
    uint32_t slot;                   /* its address, counted from the first */
    uint32_t held;
};

struct gate_names {
    struct kg_map *by_text;
    struct gate_name *slots[NAMES_MAX]; /* owned */
    uint32_t count;
    struct gate_name *oldest, *newest;
};

struct gate_names *gate_names_new(void)
{
    struct gate_names *names = kg_alloc(sizeof(*names));
    names->by_text = kg_map_new();
    return names;
}

void gate_names_free(struct gate_names *names)
{
    if (names == NULL)
        return;
    for (uint32_t i = 0; i < names->count; i++) {
        free(names->slots[i]->text);
        free(names->slots[i]);
    }
    kg_map_free(names->by_text);
    free(names);
}

static void unlink_name(struct gate_names *names, struct gate_name *name)
{
    *(name->older ? &name->older->newer : &names->oldest) = name->newer;
    *(name->newer ? &name->newer->older : &names->newest) = name->older;
    name->older = name->newer = NULL;
}

static void gate_names_link_newest(struct gate_names *names, struct gate_name *name)
{
    name->older = names->newest;
    *(names->newest ? &names->newest->newer : &names->oldest) = name;
    names->newest = name;
}

/* A place in the table: a new one, or that of the oldest name that nobody is connected to. */
static struct gate_name *free_place(struct gate_names *names)
{
    if (names->count < NAMES_MAX) {
        struct gate_name *name = kg_alloc(sizeof(*name));
        name->slot = names->count;
        names->slots[names->count++] = name;
        return name;
    }
    struct gate_name *name = names->oldest;
    while (name != NULL && name->held > 0)
        name = name->newer;
    if (name == NULL)
        return NULL;
    unlink_name(names, name);
    kg_map_remove(names->by_text, kg_str(name->text));
    kg_free(&name->text);
    return name;
}

const struct gate_name *gate_names_give(struct gate_names *names, const char *text)
{
    struct gate_name *name = kg_map_get(names->by_text, kg_str(text));
    if (name != NULL) {
        unlink_name(names, name);
    } else {
        name = free_place(names);
        if (name == NULL)
            return NULL;
        name->text = kg_strdup(text);
        kg_map_set(names->by_text, kg_str(text), name);
    }
    gate_names_link_newest(names, name);
    return name;
}

void gate_name_address(const struct gate_name *name, union gate_address *ret_address)
{
    *ret_address = (union gate_address){
        .v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(FIRST_ADDRESS + name->slot)}};
}

struct gate_name *gate_names_find(const struct gate_names *names, const union gate_address *address)
{
    if (address->any.sa_family != AF_INET)
        return NULL;
    uint32_t slot = ntohl(address->v4.sin_addr.s_addr) - FIRST_ADDRESS;
    return slot < names->count ? names->slots[slot] : NULL;
}

const char *gate_name_text(const struct gate_name *name)
{
    return name->text;
}

void gate_name_hold(struct gate_name *name)
{
    name->held++;
}

void gate_name_release(struct gate_name *name)
{
    name->held--;
}

/* -- the responder ----------------------------------------------------------------------------- */

struct answer {
    enum gate_rcode rcode;
    union gate_address addresses[ANSWERS_MAX];
    size_t count;
};

static void gate_names_add_address(struct answer *answer, const union gate_address *address)
{
    for (size_t i = 0; i < answer->count; i++)
        if (gate_address_same_host(&answer->addresses[i], address))
            return;
    if (answer->count < ANSWERS_MAX)
        answer->addresses[answer->count++] = *address;
}

static void gate_names_add_numeric(struct answer *answer, const char *text)
{
    union gate_address address;
    if (gate_address_parse(text, 0, &address))
        gate_names_add_address(answer, &address);
}

static bool is_localhost(const char *name)
{
    return strcmp(name, "localhost") == 0 || kg_str_ends(kg_str(name), ".localhost");
}

/* A name that a host can have; one that ends in a number would be an address. */
static bool is_host_name(const struct gate_query *query)
{
    const char *dot = strrchr(query->name, '.');
    const char *last = dot ? dot + 1 : query->name;
    return query->is_plain && last[strspn(last, "0123456789")] != '\0';
}

static void answer_any(struct gate_cage *cage, const struct gate_query *query,
                       struct answer *answer)
{
    if (query->type != GATE_QUERY_A && query->type != GATE_QUERY_ALL)
        return; /* it exists, and has nothing of that type */
    const struct gate_name *name = gate_names_give(cage->names, query->name);
    if (name == NULL) {
        answer->rcode = GATE_RCODE_FAILED;
        return;
    }
    union gate_address address;
    gate_name_address(name, &address);
    gate_names_add_address(answer, &address);
}

static void tell_unknown(struct gate_cage *cage, const char *name)
{
    struct gate_event event = {
        .kind = GATE_DENIED, .host = name, .reason = "the name is not declared", .declare = name};
    gate_tell_refusal(cage, &event);
}

static void answer_query(struct gate_cage *cage, const struct gate_query *query,
                         struct answer *answer)
{
    for (size_t i = 0; i < cage->host_count && query->is_plain; i++)
        if (strcmp(cage->hosts[i].host, query->name) == 0)
            gate_names_add_address(answer, &cage->hosts[i].address);
    if (answer->count > 0)
        return;
    if (is_localhost(query->name)) { /* the cage's own, unless declared */
        gate_names_add_numeric(answer, "127.0.0.1");
        gate_names_add_numeric(answer, "::1");
    } else if (cage->names != NULL && is_host_name(query)) {
        answer_any(cage, query, answer);
    } else {
        answer->rcode = GATE_RCODE_NO_NAME;
        if (!kg_str_ends(kg_str(query->name), ".arpa")) /* asks for a name, not for a host */
            tell_unknown(cage, query->name);
    }
}

static void answer_packet(struct gate_socket *socket, const uint8_t *packet, size_t size,
                          const struct sockaddr_storage *from, socklen_t from_size)
{
    struct gate_query query;
    struct answer answer = {0};
    if (!kg_rate_pass(&socket->cage->asked, QUERIES_PER_SEC, kg_monotonic_ms(), NULL) ||
        !gate_query_read(packet, size, &query, &answer.rcode))
        return;
    if (answer.rcode == GATE_RCODE_OK)
        answer_query(socket->cage, &query, &answer);
    uint8_t reply[GATE_PACKET_MAX];
    size_t reply_size =
        gate_answer_write(packet, &query, answer.rcode, answer.addresses, answer.count, reply);
    /* A reply that does not go out is one that was lost. */
    (void)!sendto(socket->source.fd, reply, reply_size, MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)from, from_size);
}

void gate_names_ready(struct gate_source *source, uint32_t events)
{
    (void)events;
    struct gate_socket *socket = KG_CONTAINER(source, struct gate_socket, source);
    for (int i = 0; i < QUERIES_PER_TURN; i++) {
        uint8_t packet[GATE_PACKET_MAX + 1]; /* one more, so that a longer one shows */
        struct sockaddr_storage from;
        socklen_t from_size = sizeof(from);
        ssize_t size = recvfrom(source->fd, packet, sizeof(packet), MSG_DONTWAIT,
                                (struct sockaddr *)&from, &from_size);
        if (size < 0 && errno == EAGAIN)
            return;
        if (size >= 0)
            answer_packet(socket, packet, (size_t)size, &from, from_size);
    }
}
