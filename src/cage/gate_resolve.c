/*
 * Where a host is. A name server may take as long as it likes, so a name is looked up in a thread
 * of a small pool, of which one cage never has more than a share; what needs no name server is
 * answered at once. The answer holds only addresses that may be connected to. A look-up that runs
 * cannot be called off: at the end the threads are left alone, and the last one frees the pool.
 */
#include "cage/gate_internal.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS_MAX   8
#define OWNER_MAX     2 /* threads of the pool that work for one cage */
#define STACK_BYTES   ((size_t)512 * 1024)
#define ADDRESSES_ALL 64 /* looked at; a longer answer is cut */

struct gate_resolver {
    struct loop *relay;   /* borrowed; not touched once closed */
    pthread_mutex_t lock; /* around all that follows */
    pthread_cond_t wake;
    struct gate_lookup *queue, **queue_tail;
    unsigned queued;
    struct gate_lookup *running;
    unsigned threads;
    unsigned idle; /* threads that wait; one that was woken counts until it runs */
    bool closed;
};

/* -- one look-up ------------------------------------------------------------------------------- */

/* Which declaration would let the address through. */
static void find_remedy(struct gate_lookup *lookup, enum gate_class class, bool is_own,
                        const union gate_address *address)
{
    enum gate_trust trust;
    char numeric[GATE_ADDRESS_TEXT];
    gate_address_print(address, numeric);
    if (!gate_remedy(class, is_own, lookup->private_networks, &trust))
        return;
    const char *host = trust == GATE_TRUST_NAME        ? lookup->host
                       : trust == GATE_TRUST_LOCALHOST ? "localhost"
                                                       : numeric;
    snprintf(lookup->declare, sizeof(lookup->declare), "%s", host);
}

/* Why the address itself may not be connected to, or NULL; whole is what it was found in. */
static const char *judge_one(struct gate_lookup *lookup, const union gate_address *address,
                             const union gate_address *whole)
{
    enum gate_class class = gate_address_class(address);
    bool is_own = class == GATE_CLASS_LOOPBACK;
    if (!is_own) {
        int own = gate_address_is_own(address);
        if (own < 0)
            return "it is not known whether it is an address of this host";
        is_own = own > 0;
    }
    const char *reason = gate_verdict(lookup->trust, class, is_own, lookup->private_networks);
    if (reason == NULL && is_own && gate_listener_is_ours(address))
        return "kaged itself listens there";
    if (reason != NULL && lookup->reason[0] == '\0')
        find_remedy(lookup, class, is_own, whole);
    return reason;
}

static const char *gate_resolve_judge(struct gate_lookup *lookup, const union gate_address *address)
{
    union gate_address inner;
    const char *reason = judge_one(lookup, address, address);
    if (reason == NULL && gate_address_embedded(address, &inner))
        reason = judge_one(lookup, &inner, address);
    return reason;
}

static void gate_resolve_add_address(struct gate_lookup *lookup, const union gate_address *address)
{
    for (size_t i = 0; i < lookup->count; i++)
        if (gate_address_same_host(&lookup->addresses[i], address))
            return;
    const char *reason = gate_resolve_judge(lookup, address);
    if (reason == NULL && lookup->count < GATE_ADDRESSES_MAX)
        lookup->addresses[lookup->count++] = *address;
    if (reason != NULL && lookup->reason[0] == '\0') {
        snprintf(lookup->reason, sizeof(lookup->reason), "%s", reason);
        gate_address_print(address, lookup->address);
    }
}

static void gate_resolve_add_numeric(struct gate_lookup *lookup, const char *text)
{
    union gate_address address;
    if (gate_address_parse(text, lookup->port, &address))
        gate_resolve_add_address(lookup, &address);
}

static void ask_name_server(struct gate_lookup *lookup)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char port[8];
    snprintf(port, sizeof(port), "%u", lookup->port);
    int failed = getaddrinfo(lookup->host, port, &hints, &list);
    if (failed != 0) {
        snprintf(lookup->reason, sizeof(lookup->reason), "the name was not found: %s",
                 gai_strerror(failed));
        return;
    }
    size_t seen = 0;
    for (const struct addrinfo *at = list; at != NULL && seen < ADDRESSES_ALL; at = at->ai_next) {
        union gate_address address;
        if (gate_address_take(at->ai_addr, at->ai_addrlen, &address))
            gate_resolve_add_address(lookup, &address);
        seen++;
    }
    freeaddrinfo(list);
}

static bool gate_resolve_is_numeric(const struct gate_lookup *lookup)
{
    return gate_trust_of(lookup->host) != GATE_TRUST_NAME;
}

static void gate_resolve_run(struct gate_lookup *lookup)
{
    if (lookup->trust == GATE_TRUST_LOCALHOST) {
        gate_resolve_add_numeric(lookup, "127.0.0.1");
        gate_resolve_add_numeric(lookup, "::1");
        if (lookup->reason[0] != '\0')
            lookup->count = 0; /* a listener of ours: its other address is no way around */
    } else if (gate_resolve_is_numeric(lookup)) {
        gate_resolve_add_numeric(lookup, lookup->host);
    } else {
        ask_name_server(lookup);
    }
    if (lookup->count > 0)
        lookup->found = GATE_FOUND;
    else
        lookup->found = lookup->address[0] != '\0' ? GATE_FOUND_DENIED : GATE_FOUND_NOTHING;
    if (lookup->count == 0 && lookup->reason[0] == '\0')
        snprintf(lookup->reason, sizeof(lookup->reason), "the name has no address");
}

/* -- the pool ---------------------------------------------------------------------------------- */

static void gate_resolve_on_message(struct loop_message *message)
{
    struct gate_lookup *lookup = KG_CONTAINER(message, struct gate_lookup, message);
    lookup->done(lookup);
}

static unsigned running_for(const struct gate_resolver *resolver, const void *owner)
{
    unsigned count = 0;
    for (const struct gate_lookup *at = resolver->running; at != NULL; at = at->next)
        count += at->owner == owner;
    return count;
}

static void unqueue(struct gate_resolver *resolver, struct gate_lookup **link)
{
    *link = (*link)->next;
    if (*link == NULL)
        resolver->queue_tail = link;
    resolver->queued--;
}

/* Moves the first look-up whose owner has its share left to those that run. */
static struct gate_lookup *gate_resolve_take(struct gate_resolver *resolver)
{
    for (struct gate_lookup **link = &resolver->queue; *link != NULL; link = &(*link)->next) {
        struct gate_lookup *lookup = *link;
        if (running_for(resolver, lookup->owner) >= OWNER_MAX)
            continue;
        unqueue(resolver, link);
        lookup->next = resolver->running;
        resolver->running = lookup;
        return lookup;
    }
    return NULL;
}

static void gate_resolve_give_back(struct gate_resolver *resolver, struct gate_lookup *lookup)
{
    struct gate_lookup **link = &resolver->running;
    while (*link != lookup)
        link = &(*link)->next;
    *link = lookup->next;
    if (resolver->closed)
        free(lookup);
    else
        loop_post(resolver->relay, &lookup->message);
}

static void gate_resolve_destroy(struct gate_resolver *resolver)
{
    pthread_cond_destroy(&resolver->wake);
    pthread_mutex_destroy(&resolver->lock);
    free(resolver);
}

static void *gate_resolve_work(void *data)
{
    struct gate_resolver *resolver = data;
    pthread_setname_np(pthread_self(), "kaged-names");
    pthread_mutex_lock(&resolver->lock);
    while (!resolver->closed) {
        struct gate_lookup *lookup = gate_resolve_take(resolver);
        if (lookup == NULL) {
            resolver->idle++;
            pthread_cond_wait(&resolver->wake, &resolver->lock);
            resolver->idle--;
            continue;
        }
        pthread_mutex_unlock(&resolver->lock);
        gate_resolve_run(lookup);
        pthread_mutex_lock(&resolver->lock);
        gate_resolve_give_back(resolver, lookup);
    }
    bool last = --resolver->threads == 0;
    pthread_mutex_unlock(&resolver->lock);
    if (last)
        gate_resolve_destroy(resolver);
    return NULL;
}

/* With the lock held. */
static void add_thread(struct gate_resolver *resolver)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (pthread_create(&thread, &attributes, gate_resolve_work, resolver) == 0)
        resolver->threads++;
    pthread_attr_destroy(&attributes);
}

struct gate_resolver *gate_resolver_new(struct loop *relay)
{
    struct gate_resolver *resolver = kg_alloc(sizeof(*resolver));
    resolver->relay = relay;
    resolver->queue_tail = &resolver->queue;
    pthread_mutex_init(&resolver->lock, NULL);
    pthread_cond_init(&resolver->wake, NULL);
    return resolver;
}

/* False: there is not one thread, and none can be had. */
static bool enqueue(struct gate_resolver *resolver, struct gate_lookup *lookup)
{
    pthread_mutex_lock(&resolver->lock);
    if (resolver->idle <= resolver->queued && resolver->threads < THREADS_MAX)
        add_thread(resolver);
    bool possible = resolver->threads > 0;
    if (possible) {
        *resolver->queue_tail = lookup;
        resolver->queue_tail = &lookup->next;
        resolver->queued++;
        pthread_cond_signal(&resolver->wake);
    }
    pthread_mutex_unlock(&resolver->lock);
    return possible;
}

void gate_resolver_ask(struct gate_resolver *resolver, struct gate_lookup *lookup)
{
    lookup->message.deliver = gate_resolve_on_message;
    lookup->next = NULL;
    if (gate_resolve_is_numeric(lookup)) {
        gate_resolve_run(lookup);
        lookup->done(lookup);
    } else if (!enqueue(resolver, lookup)) {
        lookup->found = GATE_FOUND_NOTHING;
        snprintf(lookup->reason, sizeof(lookup->reason), "there is no thread to look up the name");
        lookup->done(lookup);
    }
}

bool gate_resolver_withdraw(struct gate_resolver *resolver, struct gate_lookup *lookup)
{
    pthread_mutex_lock(&resolver->lock);
    struct gate_lookup **link = &resolver->queue;
    while (*link != NULL && *link != lookup)
        link = &(*link)->next;
    bool queued = *link != NULL;
    if (queued)
        unqueue(resolver, link);
    pthread_mutex_unlock(&resolver->lock);
    return queued;
}

void gate_resolver_free(struct gate_resolver *resolver)
{
    if (resolver == NULL)
        return;
    pthread_mutex_lock(&resolver->lock);
    resolver->closed = true;
    for (struct gate_lookup *next; resolver->queue != NULL; resolver->queue = next) {
        next = resolver->queue->next;
        free(resolver->queue);
    }
    bool last = resolver->threads == 0;
    pthread_cond_broadcast(&resolver->wake);
    pthread_mutex_unlock(&resolver->lock);
    if (last)
        gate_resolve_destroy(resolver);
}
