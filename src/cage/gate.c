/*
 * The gate's interface and its thread. The relay is a loop of its own: what the daemon's loop wants
 * of it arrives there as a message, and it answers by events or, when a cage is freed, by letting
 * go of a semaphore that the daemon's loop waits on.
 */
#include "cage/gate_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_PER_TURN 256

/* -- the relay's turn -------------------------------------------------------------------------- */

int gate_watch(struct gate *gate, struct gate_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    int operation = source->is_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(gate->epoll_fd, operation, source->fd, &event) < 0)
        return -errno;
    source->is_watched = true;
    return 0;
}

void gate_unwatch(struct gate *gate, struct gate_source *source)
{
    /* Closing alone does not do it: the spawner may hold the same socket for a moment longer. */
    if (source->is_watched)
        epoll_ctl(gate->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    source->is_watched = false;
    kg_close(&source->fd);
}

static void on_again(uv_idle_t *handle);

void gate_wake(struct gate *gate)
{
    uv_idle_start(&gate->again, on_again);
}

static void run_ready(struct gate *gate)
{
    if (!gate_run_ready(gate))
        uv_idle_stop(&gate->again);
    gate_free_dead(gate);
}

static void on_again(uv_idle_t *handle)
{
    run_ready(handle->data);
}

static void look_at_sources(struct gate *gate)
{
    struct epoll_event events[EVENTS_PER_TURN];
    int count = epoll_wait(gate->epoll_fd, events, EVENTS_PER_TURN, 0);
    for (int i = 0; i < count; i++) {
        struct gate_source *source = events[i].data.ptr;
        if (source->fd >= 0) /* else an event before this one ended it */
            source->on_ready(source, events[i].events);
    }
    run_ready(gate);
}

static void gate_on_poll(uv_poll_t *handle, int status, int uv_events)
{
    (void)status;
    (void)uv_events;
    look_at_sources(handle->data);
}

static void run_relay(void *data)
{
    struct gate *gate = data;
    pthread_setname_np(pthread_self(), "kaged-gate");
    loop_run(gate->relay);
}

/* -- a cage's sockets, on the relay ------------------------------------------------------------ */

static void (*ready_function(const struct gate_cage *cage, uint32_t index))(struct gate_source *,
                                                                            uint32_t)
{
    if (index < cage->host_count || index == CAGE_SOCKET_ALL || index == CAGE_SOCKET_ALL_6)
        return gate_listener_ready;
    if (index == CAGE_SOCKET_NAMES)
        return gate_names_ready;
    return index == CAGE_SOCKET_REFUSED ? gate_refused_ready : NULL;
}

/* A raw packet socket shows the link's header, a cooked one does not. */
static size_t link_header_bytes(int fd)
{
    int type = 0;
    socklen_t size = sizeof(type);
    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
    return type == SOCK_RAW ? ETH_HLEN : 0;
}

/* Gives a socket of the cage what its index asks for. Takes the fd. */
static void open_socket(struct gate_cage *cage, uint32_t index, int fd)
{
    struct gate_socket *socket = kg_alloc(sizeof(*socket));
    socket->source.fd = fd;
    socket->source.on_ready = ready_function(cage, index);
    socket->cage = cage;
    socket->index = index;
    socket->head_size = index == CAGE_SOCKET_REFUSED ? link_header_bytes(fd) : 0;
    int flags = fcntl(fd, F_GETFL);
    if (socket->source.on_ready == NULL || flags < 0 ||
        fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        gate_watch(cage->gate, &socket->source, EPOLLIN) < 0) {
        kg_log(KG_WARN, "network gatekeeper: socket %u of a cage cannot be used", index);
        gate_unwatch(cage->gate, &socket->source);
        free(socket);
        return;
    }
    if (socket->source.on_ready == gate_listener_ready)
        gate_set_options(fd);
    socket->next = cage->sockets;
    cage->sockets = socket;
}

/* Ends everything of the cage; on the relay. */
static void close_cage(struct gate_cage *cage)
{
    struct gate *gate = cage->gate;
    for (struct gate_socket *next; cage->sockets != NULL; cage->sockets = next) {
        next = cage->sockets->next;
        gate_unwatch(gate, &cage->sockets->source);
        free(cage->sockets);
    }
    loop_timer_stop(gate->relay, &cage->resume);
    gate_ask_end(cage);
    gate_connections_end(cage, "the plugin ended");
    for (struct gate_lookup *at = cage->lookups; at != NULL; at = at->next_of_cage)
        at->cage = NULL; /* each comes back, to nobody */
    gate_forget_ready(cage);
    gate_tell_last(cage);
}

/* -- commands: from the loop to the relay ------------------------------------------------------ */

struct command {
    struct loop_message message;
    struct gate *gate;
    struct gate_cage *cage;
    uint32_t index;
    int fd;
    struct gate_limits limits;
    char *host; /* owned, with its port: what was decided */
    uint16_t port;
    bool given;
    struct loop_message *told;
    uv_sem_t *done; /* NULL: nobody waits */
};

static void gate_post(struct gate *gate, void (*deliver)(struct loop_message *message),
                      struct command parts)
{
    struct command *command = kg_alloc(sizeof(*command));
    *command = parts;
    command->gate = gate;
    command->message.deliver = deliver;
    loop_post(gate->relay, &command->message);
}

static void post_and_wait(struct gate *gate, void (*deliver)(struct loop_message *message),
                          struct command parts)
{
    uv_sem_t done;
    if (uv_sem_init(&done, 0))
        abort(); /* it only fails without memory */
    parts.done = &done;
    gate_post(gate, deliver, parts);
    uv_sem_wait(&done);
    uv_sem_destroy(&done);
}

static void do_limits(struct loop_message *message)
{
    struct command *command = KG_CONTAINER(message, struct command, message);
    command->gate->limits = command->limits;
    free(command);
}

static void do_take(struct loop_message *message)
{
    struct command *command = KG_CONTAINER(message, struct command, message);
    open_socket(command->cage, command->index, command->fd);
    free(command);
}

static void do_decide(struct loop_message *message)
{
    struct command *command = KG_CONTAINER(message, struct command, message);
    gate_ask_decided(command->cage, command->host, command->port, command->given);
    free(command->host);
    free(command);
}

/* What the kernel has for us by now is seen, and told before the answer. */
static void do_settle(struct loop_message *message)
{
    struct command *command = KG_CONTAINER(message, struct command, message);
    look_at_sources(command->gate);
    gate_tell_now(command->cage);
    loop_post(command->gate->loop, command->told);
    free(command);
}

static void do_close(struct loop_message *message)
{
    struct command *command = KG_CONTAINER(message, struct command, message);
    close_cage(command->cage);
    uv_sem_post(command->done);
    free(command);
}

static void do_stop(struct loop_message *message)
{
    struct command *command = KG_CONTAINER(message, struct command, message);
    loop_stop(command->gate->relay);
    free(command);
}

/* -- the gate ---------------------------------------------------------------------------------- */

/* However many plugins and connections there are, the rest of the daemon has descriptors left. */
static void share_descriptors(struct gate *gate)
{
    struct rlimit limit;
    rlim_t files = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
    if (files > UINT32_MAX)
        files = UINT32_MAX;
    gate->connections_max = (uint32_t)(files / 4); /* of two each */
    gate->pipes_max = (uint32_t)(files / 16);
}

struct gate *gate_new(struct loop *loop, const struct gate_limits *limits, struct kg_err *err)
{
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0) {
        kg_fail_errno(err, errno, "start the network gatekeeper");
        return NULL;
    }
    struct gate *gate = kg_alloc(sizeof(*gate));
    gate->loop = loop;
    gate->relay = loop_new();
    gate->limits = *limits;
    gate->epoll_fd = epoll_fd;
    share_descriptors(gate);
    gate->ready_tail = &gate->ready;
    gate->scratch = kg_alloc(GATE_SCRATCH_BYTES);
    gate->resolver = gate_resolver_new(gate->relay);
    gate->poll.data = gate->again.data = gate;
    if (uv_poll_init(loop_uv(gate->relay), &gate->poll, epoll_fd) ||
        uv_poll_start(&gate->poll, UV_READABLE, gate_on_poll) ||
        uv_idle_init(loop_uv(gate->relay), &gate->again) ||
        uv_thread_create(&gate->thread, run_relay, gate))
        abort(); /* no thread can be had at start-up */
    return gate;
}

void gate_set_limits(struct gate *gate, const struct gate_limits *limits)
{
    gate_post(gate, do_limits, (struct command){.limits = *limits});
}

void gate_ask_first(struct gate *gate, gate_hearing_fn *hearing, void *data)
{
    gate->hearing = hearing;
    gate->hearing_data = data;
}

enum gate_hearing gate_hearing(const struct gate_cage *cage)
{
    const struct gate *gate = cage->gate;
    if (gate->hearing == NULL || cage->tells_later)
        return GATE_HEARS;
    return gate->hearing(gate->hearing_data);
}

void gate_free(struct gate *gate)
{
    if (gate == NULL)
        return;
    gate_post(gate, do_stop, (struct command){0});
    uv_thread_join(&gate->thread);
    gate_resolver_free(gate->resolver);
    loop_deliver_messages(gate->relay); /* look-ups that came back to nobody */
    loop_deliver_messages(gate->loop);  /* and mailboxes of cages that are gone */
    uv_close((uv_handle_t *)&gate->poll, NULL);
    uv_close((uv_handle_t *)&gate->again, NULL);
    loop_free(gate->relay);
    close(gate->epoll_fd);
    gate_free_dead(gate);
    gate_free_pipes(gate);
    free(gate->scratch);
    free(gate);
}

/* -- a cage ------------------------------------------------------------------------------------ */

static void copy_hosts(struct gate_cage *cage, const struct cage_network *network)
{
    cage->hosts = kg_alloc_array(network->count + 1, sizeof(*cage->hosts));
    cage->host_count = network->count;
    for (size_t i = 0; i < network->count; i++) {
        const struct cage_listener *item = &network->items[i];
        cage->hosts[i].host = kg_strdup(item->host);
        cage->hosts[i].port = item->port;
        /* One that cannot be read is not an address, and matches none. */
        gate_address_parse(item->address, item->port, &cage->hosts[i].address);
    }
}

static void copy_closed(struct gate_cage *cage, const struct cage_network *network)
{
    cage->closed = kg_alloc_array(network->closed_count + 1, sizeof(*cage->closed));
    cage->closed_count = network->closed_count;
    for (size_t i = 0; i < network->closed_count; i++) {
        cage->closed[i].host = kg_strdup(network->closed[i].host);
        cage->closed[i].port = network->closed[i].port;
    }
}

struct gate_cage *gate_cage_new(struct gate *gate, const struct cage_plan *plan,
                                gate_event_fn *on_event, void *data)
{
    struct gate_cage *cage = kg_alloc(sizeof(*cage));
    cage->gate = gate;
    cage->mailbox = gate_mailbox_new(cage, gate->loop, on_event, data);
    copy_hosts(cage, &plan->network);
    copy_closed(cage, &plan->network);
    cage->asks = plan->network.asks;
    cage->any = plan->network.any && !cage->asks;
    cage->names = plan->network.any || plan->network.answers_names ? gate_names_new() : NULL;
    cage->ready_tail = &cage->ready;
    return cage;
}

void gate_cage_tell_later(struct gate_cage *cage)
{
    cage->tells_later = true;
}

void gate_cage_is_ours(struct gate_cage *cage)
{
    cage->is_ours = true;
}

void gate_cage_take(struct gate_cage *cage, uint32_t index, int fd)
{
    gate_post(cage->gate, do_take, (struct command){.cage = cage, .index = index, .fd = fd});
}

void gate_cage_decide(struct gate_cage *cage, const char *host, uint16_t port, bool given)
{
    gate_post(
        cage->gate, do_decide,
        (struct command){.cage = cage, .host = kg_strdup(host), .port = port, .given = given});
}

uint32_t gate_cage_connections(const struct gate_cage *cage)
{
    return cage->connection_count;
}

void gate_cage_settle(struct gate_cage *cage, struct loop_message *when_told)
{
    gate_post(cage->gate, do_settle, (struct command){.cage = cage, .told = when_told});
}

void gate_cage_free(struct gate_cage *cage)
{
    if (cage == NULL)
        return;
    post_and_wait(cage->gate, do_close, (struct command){.cage = cage});
    gate_mailbox_close(cage->mailbox);
    for (size_t i = 0; i < cage->host_count; i++)
        free(cage->hosts[i].host);
    free(cage->hosts);
    for (size_t i = 0; i < cage->closed_count; i++)
        free(cage->closed[i].host);
    free(cage->closed);
    gate_names_free(cage->names);
    free(cage);
}

const struct gate_host *gate_cage_host(const struct gate_cage *cage,
                                       const union gate_address *address, uint16_t port)
{
    for (size_t i = 0; i < cage->host_count; i++) {
        const struct gate_host *host = &cage->hosts[i];
        if ((port == 0 || host->port == 0 || host->port == port) &&
            gate_address_same_host(&host->address, address))
            return host;
    }
    return NULL;
}

const char *gate_cage_name_of(const struct gate_cage *cage, const union gate_address *address,
                              const char *numeric)
{
    const struct gate_host *host = gate_cage_host(cage, address, 0);
    if (host != NULL)
        return host->host;
    const struct gate_name *name = cage->names ? gate_names_find(cage->names, address) : NULL;
    return name ? gate_name_text(name) : numeric;
}
