/*
 * Connections: accepted in the cage, looked up, made in the host's network, and then bytes are
 * moved both ways until both sides are done. Nothing here waits. One cage's traffic gets no more of
 * a turn than another's. How a side ends is passed on: an end of file as one, a reset as a reset.
 */
#include "cage/gate_internal.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define CONNECTIONS_PER_TURN 16     /* of one cage */
#define HALF_OPEN_IDLE_MS    600000 /* one side is done, and the other says nothing any more */

enum stage { STAGE_LOOKING, STAGE_CONNECTING, STAGE_OPEN, STAGE_OVER };

struct gate_connection {
    struct gate_cage *cage;
    struct gate_connection *next, **link; /* of its cage */
    enum stage stage;
    struct gate_side inner, outer; /* the plugin's, the host's */
    char host[GATE_HOST_TEXT];
    uint16_t port;
    enum gate_trust trust;
    struct gate_name *name; /* held; NULL unless `*` gave it */
    struct gate_lookup *lookup;
    struct gate_connection *next_waiting; /* of the lookup */
    union gate_address addresses[GATE_ADDRESSES_MAX];
    size_t address_count, tried;
    int last_error; /* of the addresses tried */
    struct loop_timer timer;
    uint64_t deadline_ms; /* to be open */
    uint64_t opened_ms, moved_ms;
    struct gate_connection *next_ready;
    bool is_ready;
};

static void connect_next(struct gate_connection *connection);

/* -- the end ----------------------------------------------------------------------------------- */

void gate_reset_on_close(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static void forget_lookup(struct gate_lookup *lookup)
{
    struct gate_lookup **link = &lookup->cage->lookups;
    while (*link != lookup)
        link = &(*link)->next_of_cage;
    *link = lookup->next_of_cage;
}

/* What nobody waits for any more is not looked up, unless that has begun. */
static void leave_lookup(struct gate_connection *connection)
{
    struct gate_lookup *lookup = connection->lookup;
    if (lookup == NULL)
        return;
    struct gate_connection **link = &lookup->waiting;
    while (*link != connection)
        link = &(*link)->next_waiting;
    *link = connection->next_waiting;
    connection->lookup = NULL;
    if (lookup->waiting != NULL ||
        !gate_resolver_withdraw(connection->cage->gate->resolver, lookup))
        return;
    forget_lookup(lookup);
    free(lookup);
}

static void bury(struct gate_connection *connection)
{
    connection->next = connection->cage->gate->dead;
    connection->cage->gate->dead = connection;
}

/* Frees all that the connection has but its memory, which events of this turn may still name. */
static void close_connection(struct gate_connection *connection, bool reset)
{
    struct gate_cage *cage = connection->cage;
    connection->stage = STAGE_OVER;
    gate_side_close(cage->gate, &connection->inner, reset);
    gate_side_close(cage->gate, &connection->outer, reset);
    loop_timer_stop(cage->gate->relay, &connection->timer);
    leave_lookup(connection);
    if (connection->name != NULL)
        gate_name_release(connection->name);
    *connection->link = connection->next;
    if (connection->next != NULL)
        connection->next->link = connection->link;
    cage->connection_count--;
    cage->gate->connection_count--;
    if (connection->is_ready)
        return; /* the list of ready ones has it yet, and hands it on */
    bury(connection);
}

void gate_free_dead(struct gate *gate)
{
    for (struct gate_connection *next; gate->dead != NULL; gate->dead = next) {
        next = gate->dead->next;
        free(gate->dead);
    }
}

/* The address that is or was connected to, or the last that was tried; "" if there is none. */
static const char *current_address(const struct gate_connection *connection,
                                   char text[GATE_ADDRESS_TEXT])
{
    text[0] = '\0';
    if (connection->tried > 0)
        gate_address_print(&connection->addresses[connection->tried - 1], text);
    return text;
}

static void gate_relay_refuse(struct gate_connection *connection, const struct gate_lookup *lookup)
{
    struct gate_event event = {.kind = GATE_DENIED,
                               .host = connection->host,
                               .port = connection->port,
                               .address = lookup->address,
                               .reason = lookup->reason,
                               .declare = lookup->declare};
    gate_tell_refusal(connection->cage, &event);
    close_connection(connection, true);
}

static void gate_relay_fail(struct gate_connection *connection, const char *reason)
{
    char address[GATE_ADDRESS_TEXT];
    struct gate_event event = {.kind = GATE_FAILED,
                               .host = connection->host,
                               .port = connection->port,
                               .address = current_address(connection, address),
                               .reason = reason};
    gate_tell_refusal(connection->cage, &event);
    close_connection(connection, true);
}

/* An open connection is over; reason is "" where the two sides ended it. */
static void gate_relay_end(struct gate_connection *connection, bool reset, const char *reason)
{
    char address[GATE_ADDRESS_TEXT];
    struct gate_event event = {
        .kind = GATE_ENDED,
        .host = connection->host,
        .port = connection->port,
        .address = current_address(connection, address),
        .reason = reason,
        .bytes_out = connection->outer.bytes,
        .bytes_in = connection->inner.bytes,
        .duration_ms = kg_monotonic_ms() - connection->opened_ms,
    };
    gate_tell(connection->cage, &event);
    close_connection(connection, reset);
}

void gate_connections_end(struct gate_cage *cage, const char *reason)
{
    while (cage->connections != NULL) {
        if (cage->connections->stage == STAGE_OPEN)
            gate_relay_end(cage->connections, true, reason);
        else
            gate_relay_fail(cage->connections, reason);
    }
}

/* -- taking turns -------------------------------------------------------------------------------
 */

static void gate_relay_make_ready(struct gate_connection *connection)
{
    struct gate_cage *cage = connection->cage;
    struct gate *gate = cage->gate;
    if (!connection->is_ready) {
        connection->is_ready = true;
        connection->next_ready = NULL;
        *cage->ready_tail = connection;
        cage->ready_tail = &connection->next_ready;
    }
    if (!cage->is_ready) {
        cage->is_ready = true;
        cage->next_ready = NULL;
        *gate->ready_tail = cage;
        gate->ready_tail = &cage->next_ready;
        gate_wake(gate);
    }
}

static void move_both(struct gate_connection *connection)
{
    struct gate *gate = connection->cage->gate;
    uint64_t before = connection->inner.bytes + connection->outer.bytes;
    enum gate_moved out = gate_move(gate, &connection->inner, &connection->outer);
    enum gate_moved in = gate_move(gate, &connection->outer, &connection->inner);
    if (connection->inner.bytes + connection->outer.bytes != before)
        connection->moved_ms = loop_now_ms(gate->relay);
    if (out == GATE_MOVED_BROKEN || in == GATE_MOVED_BROKEN)
        gate_relay_end(connection, true, "");
    else if (connection->inner.is_finished && connection->outer.is_finished)
        gate_relay_end(connection, false, "");
    else if (out == GATE_MOVED_SHARE || in == GATE_MOVED_SHARE)
        gate_relay_make_ready(connection);
}

static struct gate_connection *gate_relay_take_ready(struct gate_cage *cage)
{
    struct gate_connection *connection = cage->ready;
    cage->ready = connection->next_ready;
    if (cage->ready == NULL)
        cage->ready_tail = &cage->ready;
    connection->is_ready = false;
    return connection;
}

static void run_cage(struct gate_cage *cage)
{
    for (int i = 0; i < CONNECTIONS_PER_TURN && cage->ready != NULL; i++) {
        struct gate_connection *connection = gate_relay_take_ready(cage);
        if (connection->stage == STAGE_OVER)
            bury(connection);
        else
            move_both(connection);
    }
}

bool gate_run_ready(struct gate *gate)
{
    struct gate_cage *cage = gate->ready;
    gate->ready = NULL;
    gate->ready_tail = &gate->ready;
    for (struct gate_cage *next; cage != NULL; cage = next) {
        next = cage->next_ready;
        cage->is_ready = false;
        run_cage(cage);
        if (cage->ready != NULL)
            gate_relay_make_ready(cage->ready);
    }
    return gate->ready != NULL;
}

void gate_forget_ready(struct gate_cage *cage)
{
    struct gate *gate = cage->gate;
    while (cage->ready != NULL)
        bury(gate_relay_take_ready(cage)); /* all are over */
    if (!cage->is_ready)
        return;
    struct gate_cage **link = &gate->ready;
    while (*link != cage)
        link = &(*link)->next_ready;
    *link = cage->next_ready;
    if (*link == NULL)
        gate->ready_tail = link;
}

/* -- time -------------------------------------------------------------------------------------- */

static void on_timer(struct loop_timer *timer);

static uint64_t idle_limit(const struct gate_connection *connection)
{
    uint64_t limit = connection->cage->gate->limits.idle_timeout_ms;
    bool half_open = connection->inner.is_read || connection->outer.is_read;
    if (half_open && (limit == 0 || limit > HALF_OPEN_IDLE_MS))
        return HALF_OPEN_IDLE_MS;
    return limit;
}

/* The timer is not moved with each byte: when it is due, it looks at the last one. */
static void watch_idle(struct gate_connection *connection)
{
    struct loop *relay = connection->cage->gate->relay;
    uint64_t limit = idle_limit(connection), now = loop_now_ms(relay);
    uint64_t idle = now - connection->moved_ms;
    if (limit != 0 && idle >= limit) {
        gate_relay_end(connection, true, "it was idle for too long");
        return;
    }
    uint64_t wait = limit != 0 ? limit - idle : HALF_OPEN_IDLE_MS;
    if (wait > HALF_OPEN_IDLE_MS)
        wait = HALF_OPEN_IDLE_MS; /* it may be half open by then */
    loop_timer_start(relay, &connection->timer, wait, on_timer);
}

static void on_timer(struct loop_timer *timer)
{
    struct gate_connection *connection = KG_CONTAINER(timer, struct gate_connection, timer);
    struct gate *gate = connection->cage->gate;
    if (connection->stage == STAGE_OPEN) {
        watch_idle(connection);
    } else if (connection->stage == STAGE_CONNECTING &&
               loop_now_ms(gate->relay) < connection->deadline_ms) {
        connection->last_error = ETIMEDOUT;
        connect_next(connection);
    } else {
        gate_relay_fail(connection, connection->stage == STAGE_LOOKING
                                        ? "looking up the name took too long"
                                        : "no answer within the time");
    }
}

/* -- connecting -------------------------------------------------------------------------------- */

void gate_set_options(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* what came is passed on at once */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static void open_connection(struct gate_connection *connection)
{
    char address[GATE_ADDRESS_TEXT];
    connection->stage = STAGE_OPEN;
    connection->opened_ms = kg_monotonic_ms();
    connection->moved_ms = loop_now_ms(connection->cage->gate->relay);
    struct gate_event event = {
        .kind = GATE_CONNECTED,
        .host = connection->host,
        .port = connection->port,
        .address = current_address(connection, address),
        .reason = "",
    };
    gate_tell(connection->cage, &event);
    watch_idle(connection);
    gate_relay_make_ready(connection);
}

static void gate_relay_take_events(struct gate_side *side, uint32_t events)
{
    side->hung_up |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    side->may_read |= (events & EPOLLIN) != 0 || side->hung_up;
}

static void on_inner(struct gate_source *source, uint32_t events)
{
    struct gate_side *side = KG_CONTAINER(source, struct gate_side, source);
    struct gate_connection *connection = side->connection;
    gate_relay_take_events(side, events);
    if (connection->stage == STAGE_OPEN)
        gate_relay_make_ready(connection);
    else if (events & (EPOLLHUP | EPOLLERR))
        gate_relay_fail(connection, "the plugin gave up before there was a connection");
}

static void on_outer(struct gate_source *source, uint32_t events)
{
    struct gate_side *side = KG_CONTAINER(source, struct gate_side, source);
    struct gate_connection *connection = side->connection;
    gate_relay_take_events(side, events);
    if (connection->stage == STAGE_OPEN) {
        gate_relay_make_ready(connection);
        return;
    }
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        connection->last_error = error;
        connect_next(connection);
    } else if (events & EPOLLOUT) {
        open_connection(connection);
    }
}

/* Begins to connect to an address. 0, or why that cannot even be begun. */
static int begin_connect(struct gate_connection *connection, const union gate_address *address)
{
    struct gate *gate = connection->cage->gate;
    kg_auto(kg_close) int fd =
        socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    gate_set_options(fd);
    bool is_open = connect(fd, &address->any, gate_address_size(address)) == 0;
    if (!is_open && errno != EINPROGRESS)
        return errno;
    connection->outer.hung_up = connection->outer.may_read = false;
    connection->outer.source = (struct gate_source){.fd = kg_steal_fd(&fd), .on_ready = on_outer};
    int result =
        gate_watch(gate, &connection->outer.source, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    if (result < 0)
        gate_unwatch(gate, &connection->outer.source);
    else if (is_open)
        open_connection(connection);
    return -result;
}

/* Each address gets its share of the time that is left, so that a dead one is not the last. */
static void connect_next(struct gate_connection *connection)
{
    struct loop *relay = connection->cage->gate->relay;
    connection->stage = STAGE_CONNECTING;
    gate_unwatch(connection->cage->gate, &connection->outer.source);
    while (connection->tried < connection->address_count) {
        size_t left = connection->address_count - connection->tried;
        int error = begin_connect(connection, &connection->addresses[connection->tried++]);
        if (error != 0) {
            connection->last_error = error;
            continue;
        }
        if (connection->stage == STAGE_OPEN)
            return;
        uint64_t now = loop_now_ms(relay);
        uint64_t time = connection->deadline_ms > now ? connection->deadline_ms - now : 0;
        loop_timer_start(relay, &connection->timer, time / left, on_timer);
        return;
    }
    gate_relay_fail(connection, strerror(connection->last_error));
}

static void gate_relay_on_found(struct gate_lookup *lookup)
{
    if (lookup->cage != NULL)
        forget_lookup(lookup);
    while (lookup->waiting != NULL) {
        struct gate_connection *connection = lookup->waiting;
        lookup->waiting = connection->next_waiting;
        connection->lookup = NULL;
        connection->address_count = lookup->count;
        memcpy(connection->addresses, lookup->addresses, sizeof(lookup->addresses));
        if (lookup->found == GATE_FOUND)
            connect_next(connection);
        else if (lookup->found == GATE_FOUND_DENIED)
            gate_relay_refuse(connection, lookup);
        else
            gate_relay_fail(connection, lookup->reason);
    }
    free(lookup);
}

static struct gate_lookup *find_lookup(const struct gate_connection *connection)
{
    struct gate_lookup *lookup = connection->cage->lookups;
    for (; lookup != NULL; lookup = lookup->next_of_cage)
        if (lookup->port == connection->port && lookup->trust == connection->trust &&
            strcmp(lookup->host, connection->host) == 0)
            return lookup;
    return NULL;
}

static struct gate_lookup *new_lookup(const struct gate_connection *connection)
{
    struct gate_cage *cage = connection->cage;
    struct gate_lookup *lookup = kg_alloc(sizeof(*lookup));
    lookup->done = gate_relay_on_found;
    lookup->owner = lookup->cage = cage;
    memcpy(lookup->host, connection->host, sizeof(lookup->host));
    lookup->port = connection->port;
    lookup->trust = connection->trust;
    lookup->private_networks = cage->gate->limits.private_networks;
    lookup->next_of_cage = cage->lookups;
    cage->lookups = lookup;
    return lookup;
}

/* Connections that wait for the same host share one look-up. */
static void gate_relay_look_up(struct gate_connection *connection)
{
    struct gate_lookup *known = find_lookup(connection);
    struct gate_lookup *lookup = known ? known : new_lookup(connection);
    connection->lookup = lookup;
    connection->next_waiting = lookup->waiting;
    lookup->waiting = connection;
    if (known == NULL)
        gate_resolver_ask(connection->cage->gate->resolver, lookup);
}

void gate_connection_begin(struct gate_cage *cage, int fd, const struct gate_target *target)
{
    struct gate *gate = cage->gate;
    struct gate_connection *connection = kg_alloc(sizeof(*connection));
    connection->cage = cage;
    connection->inner.connection = connection->outer.connection = connection;
    connection->inner.source = (struct gate_source){.fd = fd, .on_ready = on_inner};
    connection->outer.source.fd = -1;
    snprintf(connection->host, sizeof(connection->host), "%s", target->host);
    connection->port = target->port;
    connection->trust = target->trust;
    connection->name = target->name;
    if (connection->name != NULL)
        gate_name_hold(connection->name);
    connection->next = cage->connections;
    connection->link = &cage->connections;
    if (connection->next != NULL)
        connection->next->link = &connection->next;
    cage->connections = connection;
    cage->connection_count++;
    gate->connection_count++;
    loop_timer_start(gate->relay, &connection->timer, gate->limits.connect_timeout_ms, on_timer);
    connection->deadline_ms = connection->timer.due_ms;
    int result =
        gate_watch(gate, &connection->inner.source, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    if (result < 0)
        gate_relay_fail(connection, strerror(-result));
    else
        gate_relay_look_up(connection);
}
