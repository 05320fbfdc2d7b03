/*
 * The gate on real sockets. The test plays the plugin: its listeners stand on loopback ports of the
 * test's own, and lead to a server in another process. Where the kernel allows it, all of it runs
 * in a network of its own, in which names and redirects can be tried too.
 */
#include "cage/gate_internal.h"
#include "gate_world.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS   60000 /* nobody waits that long: it only ends a test that hangs */
#define BIG_BYTES ((size_t)64 << 20)

static struct gate_world world;

/* -- the rig: a gate, a cage with listeners, and what was told of it --------------------------- */

struct rig {
    struct loop *loop;
    struct gate *gate;
    struct gate_cage *cage;
    struct cage_plan plan;
    struct gate_limits limits;
    atomic_int hearing;   /* enum gate_hearing */
    uint16_t ports[8];    /* where the listeners are */
    struct kg_buf events; /* each as a line */
    size_t told[4];       /* by kind */
    uint32_t suppressed;
    uint64_t bytes_out, bytes_in;
};

static void on_event(void *data, const struct gate_event *event)
{
    static const char *const kinds[] = {"connected", "ended", "denied", "failed"};
    struct rig *rig = data;
    rig->told[event->kind]++;
    rig->suppressed += event->suppressed;
    rig->bytes_out += event->bytes_out;
    rig->bytes_in += event->bytes_in;
    kg_buf_printf(&rig->events, "%s %s [%s] %s\n", kinds[event->kind], event->host, event->address,
                  event->reason);
}

static struct rig *rig_new(void)
{
    struct rig *rig = kg_alloc(sizeof(*rig));
    rig->loop = loop_new();
    rig->limits = (struct gate_limits){
        .connections_max = 4096,
        .connections_per_sec = 100000,
        .events_per_sec = 1000,
        .connect_timeout_ms = WAIT_MS,
        .private_networks = true,
    };
    return rig;
}

static void declare(struct rig *rig, const char *host, uint16_t port)
{
    kg_auto(kg_free) char *address = kg_format("198.18.0.%zu", rig->plan.network.count + 2);
    cage_network_add(&rig->plan.network, host, address, port);
}

static int listen_for(uint16_t *ret_port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(*ret_port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 4096), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static enum gate_hearing hearing_of(void *rig)
{
    return (enum gate_hearing)atomic_load(&((struct rig *)rig)->hearing);
}

static void start(struct rig *rig)
{
    struct kg_err err = {0};
    rig->gate = gate_new(rig->loop, &rig->limits, &err);
    assert_non_null(rig->gate);
    gate_ask_first(rig->gate, hearing_of, rig);
    rig->cage = gate_cage_new(rig->gate, &rig->plan, on_event, rig);
    for (uint32_t i = 0; i < rig->plan.network.count; i++)
        if (rig->plan.network.items[i].port != 0)
            gate_cage_take(rig->cage, i, listen_for(&rig->ports[i]));
}

/* The usual: one declared host. */
static struct rig *rig_for(const char *host, uint16_t port)
{
    struct rig *rig = rig_new();
    declare(rig, host, port);
    start(rig);
    return rig;
}

static void free_cage(struct rig *rig)
{
    gate_cage_free(rig->cage);
    rig->cage = NULL;
}

static void rig_free(struct rig **at)
{
    struct rig *rig = *at;
    free_cage(rig);
    gate_free(rig->gate);
    loop_free(rig->loop);
    cage_network_free(&rig->plan.network);
    kg_buf_free(&rig->events);
    free(rig);
}

struct wanted {
    struct rig *rig;
    enum gate_event_kind kind;
    size_t count;
};

static bool is_told(void *data)
{
    const struct wanted *wanted = data;
    return wanted->rig->told[wanted->kind] >= wanted->count;
}

static void wait_for(struct rig *rig, enum gate_event_kind kind, size_t count)
{
    struct wanted wanted = {rig, kind, count};
    if (!loop_run_until(rig->loop, is_told, &wanted, WAIT_MS))
        fail_msg("waited for %zu events of kind %d, heard:\n%s", count, kind,
                 kg_buf_terminate(&rig->events));
}

static void assert_heard(struct rig *rig, const char *text)
{
    if (strstr(kg_buf_terminate(&rig->events), text) == NULL)
        fail_msg("nothing of \"%s\", heard:\n%s", text, rig->events.data);
}

/* -- the plugin's sockets ---------------------------------------------------------------------- */

static int dial_to(const char *address, uint16_t port)
{
    union gate_address target;
    assert_true(gate_address_parse(address, port, &target));
    int fd = socket(target.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval wait = {.tv_sec = WAIT_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    int error = connect(fd, &target.any, gate_address_size(&target)) < 0 ? errno : 0;
    if (error == EINTR) { /* see receive */
        struct pollfd connected = {.fd = fd, .events = POLLOUT};
        while (poll(&connected, 1, WAIT_MS) < 0 && errno == EINTR)
            continue;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof(error)});
    }
    if (error == 0)
        return fd;
    close(fd);
    return -error;
}

static int dial(const struct rig *rig, size_t index)
{
    int fd = dial_to("127.0.0.1", rig->ports[index]);
    assert_true(fd >= 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Newer versions of libuv hand fds to the kernel by io_uring, which interrupts their thread's
 * calls. */
static ssize_t receive(int fd, void *bytes, size_t size, int flags)
{
    size_t length = 0;
    while (length < size) {
        ssize_t got = recv(fd, (char *)bytes + length, size - length, flags);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 && length == 0)
            return got;
        length += got > 0 ? (size_t)got : 0;
        if (got <= 0 || (flags & MSG_WAITALL) == 0)
            break;
    }
    return (ssize_t)length;
}

static void hear(int fd, const char *text)
{
    char heard[64] = {0};
    assert_true(strlen(text) < sizeof(heard));
    assert_int_equal(receive(fd, heard, strlen(text), MSG_WAITALL), strlen(text));
    assert_string_equal(heard, text);
}

static void hear_end(int fd)
{
    char byte;
    assert_int_equal(receive(fd, &byte, 1, 0), 0);
}

static void hear_reset(int fd)
{
    char byte;
    assert_int_equal(receive(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
}

/* Connects and is reset, which may be so quick that connecting itself fails. */
static void meet_reset(const char *address, uint16_t port)
{
    int fd = dial_to(address, port);
    if (fd < 0) {
        assert_int_equal(fd, -ECONNRESET);
        return;
    }
    hear_reset(fd);
    close(fd);
}

static void reset(int fd)
{
    struct linger linger = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(fd);
}

/* A connection that echoes, to show that all is well. */
static int dial_echo(const struct rig *rig, size_t index)
{
    int fd = dial(rig, index);
    say(fd, "echo\nhello");
    hear(fd, "hello");
    return fd;
}

/* True, and said so, if the network of our own is not to be had. */
static bool skipped(const char *test)
{
    if (world.missing == NULL)
        return false;
    const char *ci = getenv("CI");
    if (ci != NULL && strcmp(ci, "true") == 0)
        fail_msg("%s", world.missing);
    printf("SKIP %s: %s\n", test, world.missing);
    return true;
}
#define SKIP_WITHOUT_NETWORK()                                                                     \
    if (skipped(__func__))                                                                         \
        return;

/* -- bytes ------------------------------------------------------------------------------------- */

static void bytes_pass_both_ways_and_are_counted(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    int fd = dial_echo(rig, 0);
    wait_for(rig, GATE_CONNECTED, 1);
    assert_heard(rig, "connected localhost [127.0.0.1]");
    close(fd);
    wait_for(rig, GATE_ENDED, 1);
    assert_int_equal(rig->bytes_out, strlen("echo\nhello"));
    assert_int_equal(rig->bytes_in, strlen("hello"));
}

static void an_end_of_file_from_the_plugin_reaches_the_host(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    int fd = dial(rig, 0);
    say(fd, "sink\n12345");
    shutdown(fd, SHUT_WR);
    hear(fd, "5\n");
    hear_end(fd);
    close(fd);
    wait_for(rig, GATE_ENDED, 1);
}

static void an_end_of_file_from_the_host_leaves_the_other_way_open(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    char report[64];
    int fd = dial(rig, 0);
    say(fd, "farewell\n");
    hear(fd, "bye");
    hear_end(fd);
    say(fd, "still here");
    close(fd);
    gate_world_report(&world, report);
    assert_string_equal(report, "eof 10");
    wait_for(rig, GATE_ENDED, 1);
}

static void an_end_of_file_before_the_connection_is_open_is_not_lost(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    for (int i = 0; i < 20; i++) {
        int fd = dial(rig, 0);
        say(fd, "sink\nabc");
        shutdown(fd, SHUT_WR);
        hear(fd, "3\n");
        close(fd);
    }
    wait_for(rig, GATE_ENDED, 20);
}

static void *send_big(void *data)
{
    int fd = *(int *)data;
    char *chunk = malloc(1 << 20);
    for (size_t sent = 0; sent < BIG_BYTES; sent += 1 << 20) {
        for (size_t i = 0; i < 1 << 20; i++)
            chunk[i] = (char)gate_world_pattern(sent + i);
        if (kg_write_all(fd, chunk, 1 << 20) < 0)
            break;
    }
    free(chunk);
    shutdown(fd, SHUT_WR);
    return NULL;
}

static void big_transfers_arrive_whole_in_both_directions_at_once(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    int fd = dial(rig, 0);
    say(fd, "echo\n");
    pthread_t sender;
    assert_int_equal(pthread_create(&sender, NULL, send_big, &fd), 0);
    char *chunk = malloc(1 << 20);
    size_t heard = 0, wrong = 0;
    for (ssize_t size; (size = receive(fd, chunk, 1 << 20, 0)) > 0; heard += (size_t)size)
        for (size_t i = 0; i < (size_t)size; i++)
            wrong += (uint8_t)chunk[i] != gate_world_pattern(heard + i);
    free(chunk);
    pthread_join(sender, NULL);
    close(fd);
    assert_int_equal(heard, BIG_BYTES);
    assert_int_equal(wrong, 0);
    wait_for(rig, GATE_ENDED, 1);
    assert_int_equal(rig->bytes_in, BIG_BYTES);
}

static void a_plugin_that_does_not_read_holds_up_only_its_own_connection(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    int deaf = dial(rig, 0);
    say(deaf, "source 1000000000\n");
    int fd = dial_echo(rig, 0);
    char byte;
    assert_int_equal(receive(deaf, &byte, 1, 0), 1);
    close(fd);
    wait_for(rig, GATE_ENDED, 1);
    close(deaf); /* with bytes unread: a reset for the relay */
    wait_for(rig, GATE_ENDED, 2);
    assert_true(rig->bytes_in < 100000000);
}

static size_t open_files(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void cut_a_stream(void)
{
    struct rig *rig = rig_for("localhost", world.port);
    int fd = dial(rig, 0);
    char chunk[100000];
    say(fd, "source 1000000000\n");
    assert_true(receive(fd, chunk, sizeof(chunk), MSG_WAITALL) > 0);
    rig_free(&rig);
    close(fd);
}

static void a_stream_that_is_cut_leaves_no_file_descriptors(void **state)
{
    (void)state;
    cut_a_stream(); /* some are opened once and kept */
    size_t before = open_files();
    cut_a_stream();
    assert_int_equal(open_files(), before);
}

/* -- ends -------------------------------------------------------------------------------------- */

static void a_reset_by_the_host_is_a_reset_for_the_plugin(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    int fd = dial(rig, 0);
    say(fd, "reset\n");
    hear_reset(fd);
    close(fd);
    wait_for(rig, GATE_ENDED, 1);
}

static void a_reset_by_the_plugin_is_a_reset_for_the_host(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    char report[64];
    int fd = dial(rig, 0);
    say(fd, "watch\n");
    hear(fd, "ok");
    reset(fd);
    gate_world_report(&world, report);
    assert_string_equal(report, "reset 0");
    wait_for(rig, GATE_ENDED, 1);
}

static void a_port_where_nobody_listens_is_a_failure_and_a_reset(void **state)
{
    (void)state;
    uint16_t port = 0;
    close(listen_for(&port));
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", port);
    meet_reset("127.0.0.1", rig->ports[0]);
    wait_for(rig, GATE_FAILED, 1);
    assert_heard(rig, "failed localhost [::1] Connection refused");
    assert_int_equal(rig->told[GATE_CONNECTED] + rig->told[GATE_ENDED], 0);
}

static void a_host_that_does_not_answer_is_given_up(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_new();
    rig->limits.connect_timeout_ms = 200;
    declare(rig, "127.0.0.1", world.port_stuck);
    start(rig);
    meet_reset("127.0.0.1", rig->ports[0]);
    wait_for(rig, GATE_FAILED, 1);
    assert_heard(rig, "failed 127.0.0.1 [127.0.0.1]");
}

static void a_plugin_that_gives_up_first_is_let_go(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("127.0.0.1", world.port_stuck);
    reset(dial(rig, 0));
    wait_for(rig, GATE_FAILED, 1);
    assert_heard(rig, "the plugin gave up");
}

static void an_idle_connection_is_closed_and_a_busy_one_is_not(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_new();
    rig->limits.idle_timeout_ms = 300;
    declare(rig, "localhost", world.port);
    start(rig);
    int idle = dial_echo(rig, 0), busy = dial_echo(rig, 0);
    while (poll(&(struct pollfd){.fd = idle, .events = POLLIN}, 1, 20) == 0) {
        say(busy, "x");
        hear(busy, "x");
    }
    hear_reset(idle);
    say(busy, "y");
    hear(busy, "y");
    wait_for(rig, GATE_ENDED, 1);
    assert_heard(rig, "it was idle for too long");
    close(idle);
    close(busy);
}

static void freeing_a_cage_ends_its_connections_and_tells_of_each(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    int busy = dial(rig, 0), quiet = dial_echo(rig, 0);
    say(busy, "source 1000000000\n");
    char byte;
    assert_int_equal(receive(busy, &byte, 1, 0), 1);
    free_cage(rig); /* the loop did not run: all is told here */
    assert_int_equal(rig->told[GATE_CONNECTED], 2);
    assert_int_equal(rig->told[GATE_ENDED], 2);
    assert_heard(rig, "ended localhost [127.0.0.1] the plugin ended");
    hear_reset(quiet);
    close(quiet);
    close(busy);
    assert_true(dial_to("127.0.0.1", rig->ports[0]) < 0);
}

static void freeing_a_cage_while_it_connects_is_told_too(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("127.0.0.1", world.port_stuck);
    for (int i = 0; i < 5; i++)
        close(dial(rig, 0));
    int fd = dial(rig, 0);
    free_cage(rig);
    assert_int_equal(rig->told[GATE_CONNECTED], 0);
    close(fd);
}

/* -- where it leads ---------------------------------------------------------------------------- */

static void localhost_is_reached_over_ipv6_where_only_that_listens(void **state)
{
    (void)state;
    if (world.port_6 == 0) {
        printf("SKIP %s: no IPv6\n", __func__);
        return;
    }
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port_6);
    close(dial_echo(rig, 0));
    wait_for(rig, GATE_CONNECTED, 1);
    assert_heard(rig, "connected localhost [::1]");
}

static void a_literal_leads_to_just_that_address(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_new();
    declare(rig, "127.0.0.1", world.port);
    declare(rig, "127.0.0.2", world.port);
    start(rig);
    close(dial_echo(rig, 0));
    meet_reset("127.0.0.1", rig->ports[1]); /* the server does not listen there */
    wait_for(rig, GATE_FAILED, 1);
    assert_heard(rig, "failed 127.0.0.2 [127.0.0.2] Connection refused");
}

static void a_listener_of_kaged_itself_is_never_reached(void **state)
{
    (void)state;
    uint16_t port = 0;
    kg_auto(kg_close) int own = listen_for(&port);
    kg_auto(rig_free) struct rig *rig = rig_new();
    declare(rig, "localhost", port);
    declare(rig, "127.0.0.1", port);
    start(rig);
    for (size_t i = 0; i < 2; i++) {
        meet_reset("127.0.0.1", rig->ports[i]);
    }
    wait_for(rig, GATE_DENIED, 2);
    assert_heard(rig, "denied localhost [127.0.0.1] kaged itself listens there");
    assert_heard(rig, "denied 127.0.0.1 [127.0.0.1] kaged itself listens there");
    assert_int_equal(poll(&(struct pollfd){.fd = own, .events = POLLIN}, 1, 0), 0);
}

static void a_name_leads_into_the_world_but_not_to_this_host(void **state)
{
    (void)state;
    SKIP_WITHOUT_NETWORK();
    static const struct {
        const char *host, *heard;
    } rows[] = {
        {"global.test", "connected global.test [203.0.113.5]"},
        {"six.test", "connected six.test [2001:db8::5]"},
        {"private.test", "connected private.test [10.99.0.5]"},
        {"mixed.test", "connected mixed.test [203.0.113.5]"},
        {"loop.test", "denied loop.test [127.0.0.1] it leads to the loopback of this host"},
        {"loop6.test", "denied loop6.test [::1] it leads to the loopback of this host"},
        {"mapped.test", "denied mapped.test [127.0.0.1] it leads to the loopback of this host"},
        {"link.test", "denied link.test [169.254.169.254] it leads to a link-local address"},
        {"own.test", "denied own.test [198.51.100.7] it leads to an address of this host"},
        {"127.1", "denied 127.1 [127.0.0.1] it leads to the loopback of this host"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(rig_free) struct rig *rig = rig_for(rows[i].host, world.port);
        bool opens = kg_str_starts(kg_str(rows[i].heard), "connected");
        if (opens)
            close(dial_echo(rig, 0));
        else
            meet_reset("127.0.0.1", rig->ports[0]);
        wait_for(rig, opens ? GATE_CONNECTED : GATE_DENIED, 1);
        assert_heard(rig, rows[i].heard);
    }
}

static void private_networks_can_be_forbidden_while_it_runs(void **state)
{
    (void)state;
    SKIP_WITHOUT_NETWORK();
    kg_auto(rig_free) struct rig *rig = rig_for("private.test", world.port);
    close(dial_echo(rig, 0));
    rig->limits.private_networks = false;
    gate_set_limits(rig->gate, &rig->limits);
    for (ssize_t heard = 0; heard == 0;) { /* the relay hears of it soon */
        char byte;
        int fd = dial_to("127.0.0.1", rig->ports[0]);
        bool refused = fd < 0 || send(fd, "close\n", 6, MSG_NOSIGNAL) < 0;
        heard = refused ? -1 : receive(fd, &byte, 1, 0);
        kg_close(&fd);
    }
    wait_for(rig, GATE_DENIED, 1);
    assert_heard(rig, "denied private.test [10.99.0.5] it leads into a private network");
}

static void a_literal_of_this_host_can_be_declared(void **state)
{
    (void)state;
    SKIP_WITHOUT_NETWORK();
    kg_auto(rig_free) struct rig *rig = rig_for("198.51.100.7", world.port);
    meet_reset("127.0.0.1", rig->ports[0]); /* nobody listens there, but it was tried */
    wait_for(rig, GATE_FAILED, 1);
    assert_heard(rig, "failed 198.51.100.7 [198.51.100.7] Connection refused");
}

static void a_silent_address_leaves_time_for_the_next(void **state)
{
    (void)state;
    SKIP_WITHOUT_NETWORK();
    kg_auto(rig_free) struct rig *rig = rig_new();
    rig->limits.connect_timeout_ms = 2000;
    declare(rig, "patient.test", world.port);
    start(rig);
    close(dial_echo(rig, 0));
    wait_for(rig, GATE_CONNECTED, 1);
    assert_heard(rig, "connected patient.test [203.0.113.5]");
}

static void a_name_that_is_not_found_is_a_failure(void **state)
{
    (void)state;
    SKIP_WITHOUT_NETWORK();
    kg_auto(rig_free) struct rig *rig = rig_for("nowhere.test", world.port);
    meet_reset("127.0.0.1", rig->ports[0]);
    wait_for(rig, GATE_FAILED, 1);
    assert_heard(rig, "failed nowhere.test [] the name was not found");
}

/* A name server that never answers. */
static int silent_name_server(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(53)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void a_slow_name_server_holds_up_nobody_else(void **state)
{
    (void)state;
    SKIP_WITHOUT_NETWORK();
    kg_auto(kg_close) int server = silent_name_server();
    kg_auto(rig_free) struct rig *rig = rig_new();
    rig->limits.connect_timeout_ms = 700;
    for (int i = 0; i < 5; i++) {
        kg_auto(kg_free) char *name = kg_format("slow%d.test", i);
        declare(rig, name, world.port);
    }
    declare(rig, "localhost", world.port);
    start(rig);
    struct gate_cage *slow = rig->cage;
    struct cage_plan plan = {0};
    cage_network_add(&plan.network, "global.test", "198.18.0.2", world.port);
    uint16_t port = 0;
    struct gate_cage *other = gate_cage_new(rig->gate, &plan, on_event, rig);
    gate_cage_take(other, 0, listen_for(&port));
    int fds[5];
    for (size_t i = 0; i < KG_COUNT(fds); i++)
        fds[i] = dial(rig, i);
    close(dial_echo(rig, 5));
    int fd = dial_to("127.0.0.1", port);
    say(fd, "echo\nhello");
    hear(fd, "hello");
    close(fd);
    assert_int_equal(rig->told[GATE_FAILED], 0);
    for (size_t i = 0; i < KG_COUNT(fds); i++) {
        hear_reset(fds[i]);
        close(fds[i]);
    }
    wait_for(rig, GATE_FAILED, 5);
    assert_heard(rig, "looking up the name took too long");
    assert_ptr_equal(rig->cage, slow);
    gate_cage_free(other);
    cage_network_free(&plan.network);
}

/* How many of the names "slow0.test" to "slow9.test" the server was asked for. */
static size_t names_asked_for(int server)
{
    bool asked[10] = {0};
    char packet[512];
    size_t count = 0;
    for (ssize_t size; (size = receive(server, packet, sizeof(packet), MSG_DONTWAIT)) > 0;) {
        const char *name = memmem(packet, (size_t)size, "slow", 4);
        if (name != NULL)
            asked[name[4] - '0'] = true;
    }
    for (size_t i = 0; i < KG_COUNT(asked); i++)
        count += asked[i];
    return count;
}

/* They were all looked up, one after the other: under `*` more and more of them would gather. */
static void names_that_nobody_waits_for_any_more_are_not_looked_up(void **state)
{
    (void)state;
    SKIP_WITHOUT_NETWORK();
    kg_auto(kg_close) int server = silent_name_server();
    kg_auto(rig_free) struct rig *rig = rig_new();
    rig->limits.connect_timeout_ms = 100;
    for (int i = 0; i < 7; i++) {
        kg_auto(kg_free) char *name = kg_format("slow%d.test", i);
        declare(rig, name, world.port);
    }
    declare(rig, "global.test", world.port);
    start(rig);
    for (size_t i = 0; i < 7; i++)
        meet_reset("127.0.0.1", rig->ports[i]);
    wait_for(rig, GATE_FAILED, 7);
    rig->limits.connect_timeout_ms = WAIT_MS;
    gate_set_limits(rig->gate, &rig->limits);
    close(dial_echo(rig, 7)); /* comes after all that was to be looked up before */
    assert_in_range(names_asked_for(server), 1, 4);
}

/* -- bounds ------------------------------------------------------------------------------------ */

static void connections_past_the_most_are_refused(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_new();
    rig->limits.connections_max = 2;
    declare(rig, "localhost", world.port);
    start(rig);
    int first = dial_echo(rig, 0), second = dial_echo(rig, 0);
    meet_reset("127.0.0.1", rig->ports[0]);
    wait_for(rig, GATE_DENIED, 1);
    assert_heard(rig, "denied localhost [] the plugin has too many connections");
    close(first);
    wait_for(rig, GATE_ENDED, 1);
    close(dial_echo(rig, 0));
    close(second);
}

static void connections_past_the_rate_are_refused(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_new();
    rig->limits.connections_per_sec = 3;
    declare(rig, "localhost", world.port);
    start(rig);
    int fds[40];
    for (size_t i = 0; i < KG_COUNT(fds); i++)
        fds[i] = dial_to("127.0.0.1", rig->ports[0]);
    wait_for(rig, GATE_DENIED, 10);
    assert_heard(rig, "the plugin makes too many connections a second");
    for (size_t i = 0; i < KG_COUNT(fds); i++)
        kg_close(&fds[i]);
}

static void refusals_past_the_rate_are_counted_only(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_new();
    rig->limits.connections_max = 0;
    rig->limits.events_per_sec = 2;
    declare(rig, "localhost", world.port);
    start(rig);
    for (int i = 0; i < 50; i++) {
        meet_reset("127.0.0.1", rig->ports[0]);
    }
    free_cage(rig);
    assert_true(rig->told[GATE_DENIED] < 50);
    assert_int_equal(rig->told[GATE_DENIED] + rig->suppressed, 50);
}

static void a_counted_refusal_is_told_when_the_flood_is_over(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_new();
    rig->limits.connections_max = 0;
    rig->limits.events_per_sec = 1;
    declare(rig, "localhost", world.port);
    start(rig);
    for (int i = 0; i < 10; i++)
        meet_reset("127.0.0.1", rig->ports[0]);
    while (rig->told[GATE_DENIED] + rig->suppressed < 10)
        wait_for(rig, GATE_DENIED, rig->told[GATE_DENIED] + 1);
}

static void a_loop_that_is_far_behind_gets_no_new_connections(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    size_t refused = 0;
    for (int i = 0; i < 700; i++) { /* two events each, and the loop does not run */
        char byte;
        int fd = dial_to("127.0.0.1", rig->ports[0]);
        refused +=
            fd < 0 || send(fd, "close\n", 6, MSG_NOSIGNAL) < 0 || receive(fd, &byte, 1, 0) < 0;
        kg_close(&fd);
    }
    assert_true(refused > 100 && refused < 300);
    free_cage(rig);
    assert_int_equal(rig->told[GATE_CONNECTED], 700 - refused);
    assert_int_equal(rig->told[GATE_ENDED], 700 - refused);
    assert_int_equal(rig->told[GATE_DENIED] + rig->suppressed, refused);
}

static void what_cannot_be_told_is_refused_and_told_later(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    atomic_store(&rig->hearing, GATE_HEARS_NOTHING);
    for (int i = 0; i < 5; i++)
        meet_reset("127.0.0.1", rig->ports[0]);
    atomic_store(&rig->hearing, GATE_HEARS);
    close(dial_echo(rig, 0));
    wait_for(rig, GATE_CONNECTED, 1);
    wait_for(rig, GATE_DENIED, 1);
    assert_heard(rig, "denied localhost [] the audit log cannot be written");
    assert_int_equal(rig->told[GATE_DENIED] + rig->suppressed, 5);
}

static void what_is_heard_later_waits(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    atomic_store(&rig->hearing, GATE_HEARS_LATER);
    int fd = dial(rig, 0);
    say(fd, "echo\nhello");
    atomic_store(&rig->hearing, GATE_HEARS);
    hear(fd, "hello");
    close(fd);
    wait_for(rig, GATE_ENDED, 1);
    assert_int_equal(rig->told[GATE_DENIED], 0);
}

static void file_descriptors_that_run_out_only_delay(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    close(dial_echo(rig, 0));
    wait_for(rig, GATE_ENDED, 1);
    struct rlimit before, none;
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 3;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(rig->ports[0])};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int connected = connect(fd, (struct sockaddr *)&address, sizeof(address));
    say(fd, "echo\nhello");
    int answered = poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 300);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(connected, 0);
    assert_int_equal(answered, 0);
    hear(fd, "hello");
    close(fd);
}

#define MANY 1000

static void a_thousand_connections_work_at_once(void **state)
{
    (void)state;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max < 8192 ? files.rlim_max : 8192;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 3 * MANY + 100) {
        printf("SKIP %s: only %llu file descriptors\n", __func__,
               (unsigned long long)files.rlim_cur);
        return;
    }
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    int fds[MANY];
    for (size_t i = 0; i < MANY; i++)
        fds[i] = dial(rig, 0);
    for (size_t i = 0; i < MANY; i++)
        say(fds[i], "echo\nhello");
    for (size_t i = 0; i < MANY; i++)
        hear(fds[i], "hello");
    for (size_t i = 0; i < MANY; i++)
        close(fds[i]);
    wait_for(rig, GATE_ENDED, MANY);
    assert_int_equal(rig->told[GATE_CONNECTED], MANY);
}

static void one_cage_does_not_starve_another(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    uint16_t port = 0;
    struct gate_cage *other = gate_cage_new(rig->gate, &rig->plan, on_event, rig);
    gate_cage_take(other, 0, listen_for(&port));
    int busy[40];
    for (size_t i = 0; i < KG_COUNT(busy); i++) {
        busy[i] = dial(rig, 0);
        say(busy[i], "echo\n");
        fcntl(busy[i], F_SETFL, O_NONBLOCK);
    }
    int fd = dial_to("127.0.0.1", port);
    say(fd, "echo\n");
    char *chunk = kg_alloc(1 << 18);
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < KG_COUNT(busy); i++) {
            (void)!send(busy[i], chunk, 1 << 18, MSG_NOSIGNAL);
            (void)!receive(busy[i], chunk, 1 << 18, 0);
        }
        say(fd, "hello");
        hear(fd, "hello");
    }
    free(chunk);
    for (size_t i = 0; i < KG_COUNT(busy); i++)
        close(busy[i]);
    close(fd);
    gate_cage_free(other);
}

static void a_socket_of_no_use_is_closed(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    kg_log_set(KG_ERROR_LEVEL, KG_LOG_TEXT);
    gate_cage_take(rig->cage, 7, ends[0]);
    hear_end(ends[1]);
    close(ends[1]);
    gate_cage_take(rig->cage, 0, -1);
    close(dial_echo(rig, 0));
}

/* -- names ------------------------------------------------------------------------------------- */

struct responder {
    struct rig *rig;
    int fd; /* the plugin's, connected to the responder */
};

static struct responder ask_rig(struct rig *rig)
{
    struct responder responder = {rig, socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(connect(responder.fd, (struct sockaddr *)&address, size), 0);
    gate_cage_take(rig->cage, CAGE_SOCKET_NAMES, fd);
    return responder;
}

/* "NXDOMAIN"-like answers as numbers: "3"; else "0" and the addresses. */
static void ask(const struct responder *responder, const char *name, uint8_t type,
                char ret_answer[128])
{
    uint8_t packet[600] = {0, 7, 1, 0, 0, 1};
    size_t size = 12;
    while (*name != '\0') {
        size_t label = strcspn(name, ".");
        packet[size++] = (uint8_t)label;
        memcpy(packet + size, name, label);
        size += label;
        name += label + (name[label] == '.');
    }
    packet[size + 2] = type;
    packet[size + 4] = 1;
    size += 5;
    assert_int_equal(send(responder->fd, packet, size, 0), size);
    assert_int_equal(poll(&(struct pollfd){.fd = responder->fd, .events = POLLIN}, 1, WAIT_MS), 1);
    ssize_t heard = receive(responder->fd, packet, sizeof(packet), 0);
    assert_true(heard >= (ssize_t)size);
    int length = snprintf(ret_answer, 128, "%d", packet[3] & 0xF);
    for (size_t at = size; at + 12 <= (size_t)heard; at += 12u + packet[at + 11]) {
        char text[64];
        inet_ntop(packet[at + 11] == 4 ? AF_INET : AF_INET6, packet + at + 12, text, sizeof(text));
        length += snprintf(ret_answer + length, 128 - (size_t)length, " %s", text);
    }
}

static void only_declared_names_have_an_address(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_new();
    declare(rig, "api.example.com", 443);
    declare(rig, "other.example.com", 80);
    cage_network_add(&rig->plan.network, "api.example.com", "198.18.0.2", 80);
    start(rig);
    struct responder responder = ask_rig(rig);
    static const struct {
        const char *name;
        uint8_t type;
        const char *answer;
    } rows[] = {
        {"api.example.com", GATE_QUERY_A, "0 198.18.0.2"},
        {"API.example.COM.", GATE_QUERY_A, "0 198.18.0.2"},
        {"other.example.com", GATE_QUERY_ALL, "0 198.18.0.3"},
        {"api.example.com", GATE_QUERY_AAAA, "0"},
        {"api.example.com", 16, "0"},
        {"localhost", GATE_QUERY_A, "0 127.0.0.1"},
        {"localhost", GATE_QUERY_AAAA, "0 ::1"},
        {"example.com", GATE_QUERY_A, "3"},
        {"x.api.example.com", GATE_QUERY_A, "3"},
        {"1.0.18.198.in-addr.arpa", 12, "3"},
        {"", GATE_QUERY_A, "3"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        char answer[128];
        ask(&responder, rows[i].name, rows[i].type, answer);
        if (strcmp(answer, rows[i].answer) != 0)
            fail_msg("%s: %s", rows[i].name, answer);
    }
    wait_for(rig, GATE_DENIED, 3);
    assert_heard(rig, "denied x.api.example.com [] the name is not declared");
    close(responder.fd);
    free_cage(rig);
    assert_int_equal(rig->told[GATE_DENIED], 3); /* a question for a name is none of them */
}

static void under_the_wildcard_every_name_has_an_address_of_its_own(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_new();
    rig->plan.network.any = true;
    start(rig);
    struct responder responder = ask_rig(rig);
    char answer[128];
    ask(&responder, "a.example", GATE_QUERY_AAAA, answer);
    assert_string_equal(answer, "0");
    ask(&responder, "a.example", GATE_QUERY_A, answer);
    assert_string_equal(answer, "0 198.18.128.1");
    ask(&responder, "b.example", GATE_QUERY_A, answer);
    assert_string_equal(answer, "0 198.18.128.2");
    ask(&responder, "A.example", GATE_QUERY_A, answer);
    assert_string_equal(answer, "0 198.18.128.1");
    ask(&responder, "10.0.0.1", GATE_QUERY_A, answer);
    assert_string_equal(answer, "3");
    close(responder.fd);
}

static void a_flood_of_queries_and_noise_is_survived(void **state)
{
    (void)state;
    kg_auto(rig_free) struct rig *rig = rig_for("localhost", world.port);
    struct responder responder = ask_rig(rig);
    char noise[700];
    for (int i = 0; i < 3000; i++) {
        memset(noise, i, sizeof(noise));
        send(responder.fd, noise, (size_t)i % sizeof(noise), MSG_DONTWAIT);
    }
    close(dial_echo(rig, 0));
    while (receive(responder.fd, noise, sizeof(noise), MSG_DONTWAIT) >= 0)
        ;
    close(responder.fd);
}

/* -- what was redirected, and what was refused ------------------------------------------------- */

static int redirect_listener(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(world.port_redirect)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(world.port_redirect)};
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    assert_int_equal(family == AF_INET ? bind(fd, (struct sockaddr *)&v4, sizeof(v4))
                                       : bind(fd, (struct sockaddr *)&v6, sizeof(v6)),
                     0);
    assert_int_equal(listen(fd, 64), 0);
    return fd;
}

static void assert_echoes(int fd)
{
    assert_true(fd >= 0);
    say(fd, "echo\nhello");
    hear(fd, "hello");
    close(fd);
}

static void every_port_of_a_declared_host_is_redirected(void **state)
{
    (void)state;
    SKIP_WITHOUT_NETWORK();
    kg_auto(rig_free) struct rig *rig = rig_new();
    declare(rig, "global.test", 0); /* 198.18.0.2 */
    start(rig);
    gate_cage_take(rig->cage, CAGE_SOCKET_ALL, redirect_listener(AF_INET));
    assert_echoes(dial_to("198.18.0.2", world.port));
    wait_for(rig, GATE_CONNECTED, 1);
    assert_heard(rig, "connected global.test [203.0.113.5]");
    meet_reset("198.18.0.99", world.port);
    wait_for(rig, GATE_DENIED, 1);
    assert_heard(rig, "denied 198.18.0.99 [] it is not declared");
    meet_reset("127.0.0.1", world.port_redirect); /* past the redirect */
    wait_for(rig, GATE_DENIED, 2);
}

static void under_the_wildcard_names_come_back_and_inside_addresses_do_not(void **state)
{
    (void)state;
    SKIP_WITHOUT_NETWORK();
    kg_auto(rig_free) struct rig *rig = rig_new();
    rig->plan.network.any = true;
    start(rig);
    gate_cage_take(rig->cage, CAGE_SOCKET_ALL, redirect_listener(AF_INET));
    gate_cage_take(rig->cage, CAGE_SOCKET_ALL_6, redirect_listener(AF_INET6));
    struct responder responder = ask_rig(rig);
    char answer[128];
    ask(&responder, "global.test", GATE_QUERY_A, answer);
    assert_string_equal(answer, "0 198.18.128.1");
    ask(&responder, "private.test", GATE_QUERY_A, answer);
    assert_echoes(dial_to("198.18.128.1", world.port));
    wait_for(rig, GATE_CONNECTED, 1);
    assert_heard(rig, "connected global.test [203.0.113.5]");
    meet_reset("198.18.128.2", world.port);
    wait_for(rig, GATE_DENIED, 1);
    assert_heard(rig, "denied private.test [10.99.0.5] it leads into a private network, where");
    meet_reset("198.18.5.5", world.port); /* nobody's */
    wait_for(rig, GATE_DENIED, 2);
    close(responder.fd);
}

static void a_redirected_ipv6_literal_keeps_its_target(void **state)
{
    (void)state;
    SKIP_WITHOUT_NETWORK();
    kg_auto(rig_free) struct rig *rig = rig_new();
    cage_network_add(&rig->plan.network, "2001:db8:2::9", "2001:db8:1::9", 0);
    start(rig);
    gate_cage_take(rig->cage, CAGE_SOCKET_ALL_6, redirect_listener(AF_INET6));
    assert_echoes(dial_to("2001:db8:1::9", world.port));
    wait_for(rig, GATE_CONNECTED, 1);
    assert_heard(rig, "connected 2001:db8:2::9 [2001:db8:2::9]");
}

static int packet_socket(int type)
{
    int fd = socket(AF_PACKET, type | SOCK_CLOEXEC, 0);
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = (int)if_nametoindex("lo")};
    assert_true(fd >= 0);
    assert_int_equal(gate_refused_filter(fd), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void attempts_where_nothing_is_declared_are_told(void **state)
{
    (void)state;
    SKIP_WITHOUT_NETWORK();
    static const int types[] = {SOCK_DGRAM, SOCK_RAW};
    for (size_t i = 0; i < KG_COUNT(types); i++) {
        kg_auto(rig_free) struct rig *rig = rig_new();
        cage_network_add(&rig->plan.network, "api.example.com", "198.51.100.7", 443);
        start(rig);
        gate_cage_take(rig->cage, CAGE_SOCKET_REFUSED, packet_socket(types[i]));
        close(dial_to("127.0.0.1", world.port));                       /* answered: not told */
        assert_int_equal(dial_to("198.51.100.7", 443), -ECONNREFUSED); /* declared: not told */
        assert_int_equal(dial_to("198.51.100.7", 80), -ECONNREFUSED);
        assert_int_equal(dial_to("127.0.0.9", 81), -ECONNREFUSED);
        assert_int_equal(dial_to("::1", 82), -ECONNREFUSED);
        wait_for(rig, GATE_DENIED, 3);
        assert_heard(rig, "denied api.example.com [] the port is not declared");
        assert_heard(rig, "denied 127.0.0.9 [] the address is not declared");
        assert_heard(rig, "denied ::1 [] the address is not declared");
        free_cage(rig);
        assert_int_equal(rig->told[GATE_DENIED], 3);
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    gate_world_open(&world);
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_pass_both_ways_and_are_counted),
        cmocka_unit_test(an_end_of_file_from_the_plugin_reaches_the_host),
        cmocka_unit_test(an_end_of_file_from_the_host_leaves_the_other_way_open),
        cmocka_unit_test(an_end_of_file_before_the_connection_is_open_is_not_lost),
        cmocka_unit_test(big_transfers_arrive_whole_in_both_directions_at_once),
        cmocka_unit_test(a_plugin_that_does_not_read_holds_up_only_its_own_connection),
        cmocka_unit_test(a_stream_that_is_cut_leaves_no_file_descriptors),
        cmocka_unit_test(a_reset_by_the_host_is_a_reset_for_the_plugin),
        cmocka_unit_test(a_reset_by_the_plugin_is_a_reset_for_the_host),
        cmocka_unit_test(a_port_where_nobody_listens_is_a_failure_and_a_reset),
        cmocka_unit_test(a_host_that_does_not_answer_is_given_up),
        cmocka_unit_test(a_plugin_that_gives_up_first_is_let_go),
        cmocka_unit_test(an_idle_connection_is_closed_and_a_busy_one_is_not),
        cmocka_unit_test(freeing_a_cage_ends_its_connections_and_tells_of_each),
        cmocka_unit_test(freeing_a_cage_while_it_connects_is_told_too),
        cmocka_unit_test(localhost_is_reached_over_ipv6_where_only_that_listens),
        cmocka_unit_test(a_literal_leads_to_just_that_address),
        cmocka_unit_test(a_listener_of_kaged_itself_is_never_reached),
        cmocka_unit_test(a_name_leads_into_the_world_but_not_to_this_host),
        cmocka_unit_test(private_networks_can_be_forbidden_while_it_runs),
        cmocka_unit_test(a_literal_of_this_host_can_be_declared),
        cmocka_unit_test(a_silent_address_leaves_time_for_the_next),
        cmocka_unit_test(a_name_that_is_not_found_is_a_failure),
        cmocka_unit_test(a_slow_name_server_holds_up_nobody_else),
        cmocka_unit_test(names_that_nobody_waits_for_any_more_are_not_looked_up),
        cmocka_unit_test(connections_past_the_most_are_refused),
        cmocka_unit_test(connections_past_the_rate_are_refused),
        cmocka_unit_test(refusals_past_the_rate_are_counted_only),
        cmocka_unit_test(a_counted_refusal_is_told_when_the_flood_is_over),
        cmocka_unit_test(a_loop_that_is_far_behind_gets_no_new_connections),
        cmocka_unit_test(what_cannot_be_told_is_refused_and_told_later),
        cmocka_unit_test(what_is_heard_later_waits),
        cmocka_unit_test(file_descriptors_that_run_out_only_delay),
        cmocka_unit_test(a_thousand_connections_work_at_once),
        cmocka_unit_test(one_cage_does_not_starve_another),
        cmocka_unit_test(a_socket_of_no_use_is_closed),
        cmocka_unit_test(only_declared_names_have_an_address),
        cmocka_unit_test(under_the_wildcard_every_name_has_an_address_of_its_own),
        cmocka_unit_test(a_flood_of_queries_and_noise_is_survived),
        cmocka_unit_test(every_port_of_a_declared_host_is_redirected),
        cmocka_unit_test(under_the_wildcard_names_come_back_and_inside_addresses_do_not),
        cmocka_unit_test(a_redirected_ipv6_literal_keeps_its_target),
        cmocka_unit_test(attempts_where_nothing_is_declared_are_told),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    gate_world_close(&world);
    return failed;
}
