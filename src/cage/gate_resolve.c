/*
 * Where a host is. A name server may take as long as it likes, so each look-up runs in a thread of
 * a small pool; the answer holds only addresses that may be connected to. One cage never has more
 * than a share of the threads, and what needs no name server has a thread that no name can hold up.
 * A look-up cannot be called off: at the end the threads are left alone and free the pool.
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

struct pool {
    struct gate_lookup *queue, **queue_tail;
    unsigned queued;
    unsigned threads, threads_max;
    unsigned idle; /* threads that wait; one that was woken counts until it runs */
    unsigned owner_max;
    pthread_cond_t wake;
};

struct gate_resolver {
    struct loop *relay;   /* borrowed; not touched once closed */
    pthread_mutex_t lock; /* around all that follows */
    struct pool names;    /* asks name servers */
    struct pool numbers;  /* asks nobody */
    struct gate_lookup *running;
    unsigned threads;
    bool closed;
};

/* -- one look-up, in a thread of the pool ------------------------------------------------------ */

/* Why the address itself may not be connected to, or NULL. */
static const char *judge_one(const struct gate_lookup *lookup, const union gate_address *address)
{
    enum gate_class class = gate_address_class(address);
    bool is_own = class == GATE_CLASS_LOOPBACK;
    if (!is_own) {
        int own = gate_address_is_own(address);
        if (own < 0)
            return "it cannot be told whether it is an address of this host";
        is_own = own > 0;
    }
    const char *reason = gate_verdict(lookup->trust, class, is_own, lookup->private_networks);
    if (reason == NULL && is_own && gate_port_is_ours(lookup->port))
        return "kaged itself listens there";
    return reason;
}

static const char *judge(const struct gate_lookup *lookup, const union gate_address *address)
{
    union gate_address inner;
    const char *reason = judge_one(lookup, address);
    if (reason == NULL && gate_address_embedded(address, &inner))
        reason = judge_one(lookup, &inner);
    return reason;
}

static void add_address(struct gate_lookup *lookup, const union gate_address *address)
{
    for (size_t i = 0; i < lookup->count; i++)
        if (gate_address_same_host(&lookup->addresses[i], address))
            return;
    const char *reason = judge(lookup, address);
    if (reason == NULL && lookup->count < GATE_ADDRESSES_MAX)
        lookup->addresses[lookup->count++] = *address;
    if (reason != NULL && lookup->reason[0] == '\0') {
        snprintf(lookup->reason, sizeof(lookup->reason), "%s", reason);
        gate_address_print(address, lookup->address);
    }
}

static void add_numeric(struct gate_lookup *lookup, const char *text)
{
    union gate_address address;
    if (gate_address_parse(text, lookup->port, &address))
        add_address(lookup, &address);
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
            add_address(lookup, &address);
        seen++;
    }
    freeaddrinfo(list);
}

static bool is_numeric(const struct gate_lookup *lookup)
{
    return gate_trust_of(lookup->host) != GATE_TRUST_NAME;
}

static void run(struct gate_lookup *lookup)
{
    if (lookup->trust == GATE_TRUST_LOCALHOST) {
        add_numeric(lookup, "127.0.0.1");
        add_numeric(lookup, "::1");
    } else if (is_numeric(lookup)) {
        add_numeric(lookup, lookup->host);
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

static void on_message(struct loop_message *message)
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

/* Moves the first look-up whose owner has its share left to those that run. */
static struct gate_lookup *take(struct gate_resolver *resolver, struct pool *pool)
{
    for (struct gate_lookup **link = &pool->queue; *link != NULL; link = &(*link)->next) {
        struct gate_lookup *lookup = *link;
        if (running_for(resolver, lookup->owner) >= pool->owner_max)
            continue;
        *link = lookup->next;
        if (*link == NULL)
            pool->queue_tail = link;
        pool->queued--;
        lookup->next = resolver->running;
        resolver->running = lookup;
        return lookup;
    }
    return NULL;
}

static void give_back(struct gate_resolver *resolver, struct gate_lookup *lookup)
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

static void destroy(struct gate_resolver *resolver)
{
    pthread_cond_destroy(&resolver->names.wake);
    pthread_cond_destroy(&resolver->numbers.wake);
    pthread_mutex_destroy(&resolver->lock);
    free(resolver);
}

static void work(struct gate_resolver *resolver, struct pool *pool)
{
    pthread_setname_np(pthread_self(), "kaged-names");
    pthread_mutex_lock(&resolver->lock);
    while (!resolver->closed) {
        struct gate_lookup *lookup = take(resolver, pool);
        if (lookup == NULL) {
            pool->idle++;
            pthread_cond_wait(&pool->wake, &resolver->lock);
            pool->idle--;
            continue;
        }
        pthread_mutex_unlock(&resolver->lock);
        run(lookup);
        pthread_mutex_lock(&resolver->lock);
        give_back(resolver, lookup);
        pthread_cond_signal(&pool->wake); /* the owner has one more of its share */
    }
    bool last = --resolver->threads == 0;
    pthread_mutex_unlock(&resolver->lock);
    if (last)
        destroy(resolver);
}

static void *work_on_names(void *data)
{
    struct gate_resolver *resolver = data;
    work(resolver, &resolver->names);
    return NULL;
}

static void *work_on_numbers(void *data)
{
    struct gate_resolver *resolver = data;
    work(resolver, &resolver->numbers);
    return NULL;
}

/* With the lock held. */
static void add_thread(struct gate_resolver *resolver, struct pool *pool)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (pthread_create(&thread, &attributes,
                       pool == &resolver->names ? work_on_names : work_on_numbers, resolver) == 0) {
        pool->threads++;
        resolver->threads++;
    }
    pthread_attr_destroy(&attributes);
}

static void pool_init(struct pool *pool, unsigned threads_max, unsigned owner_max)
{
    pool->queue_tail = &pool->queue;
    pool->threads_max = threads_max;
    pool->owner_max = owner_max;
    pthread_cond_init(&pool->wake, NULL);
}

struct gate_resolver *gate_resolver_new(struct loop *relay)
{
    struct gate_resolver *resolver = kg_alloc(sizeof(*resolver));
    resolver->relay = relay;
    pthread_mutex_init(&resolver->lock, NULL);
    pool_init(&resolver->names, THREADS_MAX, OWNER_MAX);
    pool_init(&resolver->numbers, 1, UINT32_MAX);
    return resolver;
}

void gate_resolver_ask(struct gate_resolver *resolver, struct gate_lookup *lookup)
{
    struct pool *pool = is_numeric(lookup) ? &resolver->numbers : &resolver->names;
    lookup->message.deliver = on_message;
    lookup->next = NULL;
    pthread_mutex_lock(&resolver->lock);
    if (pool->idle <= pool->queued && pool->threads < pool->threads_max)
        add_thread(resolver, pool);
    if (pool->threads == 0) { /* not one thread can be had */
        pthread_mutex_unlock(&resolver->lock);
        lookup->found = GATE_FOUND_NOTHING;
        snprintf(lookup->reason, sizeof(lookup->reason), "no thread to look it up");
        loop_post(resolver->relay, &lookup->message);
        return;
    }
    *pool->queue_tail = lookup;
    pool->queue_tail = &lookup->next;
    pool->queued++;
    pthread_cond_signal(&pool->wake);
    pthread_mutex_unlock(&resolver->lock);
}

static void free_queue(struct pool *pool)
{
    for (struct gate_lookup *next; pool->queue != NULL; pool->queue = next) {
        next = pool->queue->next;
        free(pool->queue);
    }
}

void gate_resolver_free(struct gate_resolver *resolver)
{
    if (resolver == NULL)
        return;
    pthread_mutex_lock(&resolver->lock);
    resolver->closed = true;
    free_queue(&resolver->names);
    free_queue(&resolver->numbers);
    bool last = resolver->threads == 0;
    pthread_cond_broadcast(&resolver->names.wake);
    pthread_cond_broadcast(&resolver->numbers.wake);
    pthread_mutex_unlock(&resolver->lock);
    if (last)
        destroy(resolver);
}
