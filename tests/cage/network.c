/*
 * What a cage with a network can reach, and what not, by programs in real cages. The test itself
 * stands in for the gate: it takes the sockets, and answers on each with where the connection
 * arrived. Started by root, all of it runs a second time as an ordinary user.
 */
#include "cage/internal.h"
#include "world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define REACHES_MAX     4
#define WORDS_MAX       6
#define ORIGINAL_TARGET 80 /* SO_ORIGINAL_DST, and the same of IPv6 */

static struct world *world;

/* -- a stand-in for the gate ------------------------------------------------------------------- */

struct taken {
    struct taken *next;
    uint32_t index;
    int fd;
    uv_poll_t *poll;
};

static struct {
    struct taken *sockets;
    size_t count;
    char refused[64]; /* the last connection that was refused */
} gate;

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static char *address_text(const union address *address)
{
    char text[INET6_ADDRSTRLEN];
    if (address->any.sa_family == AF_INET)
        return kg_format("%s:%u", inet_ntop(AF_INET, &address->v4.sin_addr, text, sizeof(text)),
                         ntohs(address->v4.sin_port));
    return kg_format("[%s]:%u", inet_ntop(AF_INET6, &address->v6.sin6_addr, text, sizeof(text)),
                     ntohs(address->v6.sin6_port));
}

/* Where the client wanted to go. */
static char *target_of(uint32_t index, int fd)
{
    union address address = {0};
    socklen_t length = sizeof(address);
    int result = -1;
    if (index == CAGE_SOCKET_ALL)
        result = getsockopt(fd, IPPROTO_IP, ORIGINAL_TARGET, &address, &length);
    else if (index == CAGE_SOCKET_ALL_6)
        result = getsockopt(fd, IPPROTO_IPV6, ORIGINAL_TARGET, &address, &length);
    else
        result = getsockname(fd, &address.any, &length);
    assert_int_equal(result, 0);
    return address_text(&address);
}

/* The clients of these tests send their whole question at once. */
static void answer_connection(const struct taken *taken)
{
    kg_auto(kg_close) int fd = accept4(taken->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    char question[4096];
    kg_auto(kg_free) char *target = target_of(taken->index, fd);
    kg_auto(kg_free) char *who = taken->index < CAGE_SOCKET_NAMES
                                     ? kg_format("listener %u", taken->index)
                                     : kg_strdup("all");
    kg_auto(kg_free) char *answer =
        kg_format("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n%s %s\n", who, target);
    assert_true(recv(fd, question, sizeof(question), 0) > 0);
    kg_write_all(fd, answer, strlen(answer));
}

/* Knows one name, asked.test, for which it has no address of its own. */
static void answer_question(const struct taken *taken)
{
    static const unsigned char name[] = "\5asked\4test\0\0\1\0\1";
    static const unsigned char answer[] = "\xc0\x0c\0\1\0\1\0\0\0\1\0\4\306\22\0\2";
    unsigned char packet[512];
    union address from;
    socklen_t length = sizeof(from);
    ssize_t got = recvfrom(taken->fd, packet, sizeof(packet) / 2, 0, &from.any, &length);
    if (got < 12)
        return;
    size_t size = (size_t)got;
    bool known = size >= 12 + sizeof(name) - 1 && memcmp(packet + 12, name, 11) == 0;
    bool is_a = known && memcmp(packet + 12, name, sizeof(name) - 1) == 0;
    packet[2] |= 0x80;
    packet[3] = (unsigned char)(0x80 | (known ? 0 : 3));
    if (is_a) {
        size = 12 + sizeof(name) - 1;
        packet[7] = 1;  /* one answer */
        packet[11] = 0; /* nothing more */
        memcpy(packet + size, answer, sizeof(answer) - 1);
        size += sizeof(answer) - 1;
    }
    sendto(taken->fd, packet, size, 0, &from.any, length);
}

static void take_refused(const struct taken *taken)
{
    unsigned char packet[256];
    union address from = {0};
    ssize_t got = recv(taken->fd, packet, sizeof(packet), 0);
    if (got < (ssize_t)sizeof(struct iphdr))
        return;
    size_t head = (packet[0] >> 4) == 4 ? sizeof(struct iphdr) : sizeof(struct ip6_hdr);
    struct tcphdr tcp;
    memcpy(&tcp, packet + head, sizeof(tcp));
    if (head == sizeof(struct iphdr)) {
        from.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = tcp.source};
        memcpy(&from.v4.sin_addr, packet + 12, 4);
    } else {
        from.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = tcp.source};
        memcpy(&from.v6.sin6_addr, packet + 8, 16);
    }
    kg_auto(kg_free) char *text = address_text(&from);
    snprintf(gate.refused, sizeof(gate.refused), "%s", text);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    const struct taken *taken = poll->data;
    if (taken->index == CAGE_SOCKET_NAMES)
        answer_question(taken);
    else if (taken->index == CAGE_SOCKET_REFUSED)
        take_refused(taken);
    else
        answer_connection(taken);
}

static void take_socket(struct world *of, uint32_t index, int fd)
{
    struct taken *taken = kg_alloc(sizeof(*taken));
    taken->index = index;
    taken->fd = fd;
    taken->poll = kg_alloc(sizeof(*taken->poll));
    uv_poll_init(loop_uv(of->loop), taken->poll, fd);
    taken->poll->data = taken;
    uv_poll_start(taken->poll, UV_READABLE, on_ready);
    taken->next = gate.sockets;
    gate.sockets = taken;
    gate.count++;
}

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static void close_gate(void)
{
    while (gate.sockets != NULL) {
        struct taken *taken = gate.sockets;
        gate.sockets = taken->next;
        uv_close((uv_handle_t *)taken->poll, on_poll_closed);
        close(taken->fd);
        free(taken);
    }
    gate.count = 0;
    gate.refused[0] = '\0';
}

/* -- cages with a network ---------------------------------------------------------------------- */

static size_t count_reaches(const struct cage_reach *reaches)
{
    size_t count = 0;
    while (count < REACHES_MAX && reaches[count].host != NULL)
        count++;
    return count;
}

static struct cage_plan *plan_with(const struct cage_reach *reaches, const char *const *command,
                                   struct kg_err *err)
{
    static const char *const env[] = {"PATH=/usr/bin", "LANG=C.UTF-8", "HOME=/tmp", NULL};
    struct cage_policy policy = {.name = "probe",
                                 .install_dir = world->folder,
                                 .command = command,
                                 .env = env,
                                 .reaches = reaches,
                                 .reach_count = count_reaches(reaches),
                                 .processes_max = WORLD_PROCESSES,
                                 .tmp_bytes = WORLD_TMP_BYTES};
    return cage_plan_new(&policy, world->facts, err);
}

static struct run *run_with(const struct cage_reach *reaches, const char *const *command)
{
    struct kg_err err = {0};
    struct cage_plan *plan = plan_with(reaches, command, &err);
    if (plan == NULL)
        fail_msg("%s (%s)", err.message, err.hint);
    struct run *run = run_plan(world, plan);
    cage_plan_free(plan);
    return run;
}

static void expect_line(const struct cage_reach *reaches, const char *const *command,
                        const char *answer)
{
    struct run *run = run_with(reaches, command);
    assert_string_equal(run_line(run), answer);
    run_free(&run);
    close_gate();
}

/* -- one attempt, one answer ------------------------------------------------------------------- */

struct attempt {
    const char *name;
    struct cage_reach reaches[REACHES_MAX];
    const char *words[WORDS_MAX];
    const char *answer;
};

#define NAMES                                                                                      \
    {                                                                                              \
        {"api.test", 443}, {"api.test", 80},                                                       \
        {                                                                                          \
            "git.test", 22                                                                         \
        }                                                                                          \
    }
#define CLIENT "./client"

static const struct attempt attempts[] = {
    /* names and ports that were declared */
    {"declared_name_and_port_are_reached",
     NAMES,
     {CLIENT, "get", "api.test", "443"},
     "listener 0 198.18.0.2:443"},
    {"second_port_has_a_listener_of_its_own",
     NAMES,
     {CLIENT, "get", "api.test", "80"},
     "listener 1 198.18.0.2:80"},
    {"second_name_has_an_address_of_its_own",
     NAMES,
     {CLIENT, "get", "git.test", "22"},
     "listener 2 198.18.0.3:22"},
    {"names_are_found_in_the_hosts_file",
     NAMES,
     {CLIENT, "resolve", "git.test", "1"},
     "198.18.0.3"},
    {"other_names_are_asked_for",
     NAMES,
     {CLIENT, "get", "asked.test", "443"},
     "listener 0 198.18.0.2:443"},
    {"unknown_names_are_not_found",
     NAMES,
     {CLIENT, "get", "other.test", "443"},
     "Name or service not known"},
    {"literal_v4_is_reached",
     {{"192.0.2.7", 8080}},
     {CLIENT, "get", "192.0.2.7", "8080"},
     "listener 0 192.0.2.7:8080"},
    {"literal_v6_is_reached",
     {{"2001:db8::7", 443}},
     {CLIENT, "get", "2001:db8::7", "443"},
     "listener 0 [2001:db8::7]:443"},
    {"localhost_is_reached_by_v4",
     {{"localhost", 5432}},
     {CLIENT, "get", "127.0.0.1", "5432"},
     "listener 0 127.0.0.1:5432"},
    {"localhost_is_reached_by_v6",
     {{"localhost", 5432}},
     {CLIENT, "get", "::1", "5432"},
     "listener 1 [::1]:5432"},
    {"localhost_is_reached_by_name",
     {{"localhost", 5432}},
     {CLIENT, "get", "localhost", "5432"},
     "listener 0 127.0.0.1:5432"},
    {"address_that_means_this_machine_is_loopback",
     {{"0.0.0.0", 80}},
     {CLIENT, "get", "0.0.0.0", "80"},
     "listener 0 127.0.0.1:80"},

    /* what was not */
    {"undeclared_port_is_refused", NAMES, {CLIENT, "get", "api.test", "81"}, "ECONNREFUSED"},
    {"undeclared_v4_is_refused", NAMES, {CLIENT, "get", "192.0.2.1", "443"}, "ECONNREFUSED"},
    {"undeclared_v6_is_refused", NAMES, {CLIENT, "get", "2001:db8::1", "443"}, "ECONNREFUSED"},
    {"localhost_without_being_declared_is_refused",
     NAMES,
     {CLIENT, "get", "localhost", "443"},
     "ECONNREFUSED"},
    {"metadata_service_is_refused",
     NAMES,
     {CLIENT, "get", "169.254.169.254", "80"},
     "ECONNREFUSED"},
    {"udp_to_a_declared_name_fails", NAMES, {CLIENT, "udp", "api.test", "443"}, "ECONNREFUSED"},
    {"udp_to_elsewhere_fails", NAMES, {CLIENT, "udp", "192.0.2.1", "53"}, "ECONNREFUSED"},
    {"no_interface_but_lo", NAMES, {"./probe", "interfaces"}, "lo "},
    {"packet_sockets_are_refused", NAMES, {"./probe", "socket", "17", "3", "0"}, "EAFNOSUPPORT"},
    {"raw_sockets_are_refused", NAMES, {"./probe", "socket", "2", "3", "6"}, "EPERM"},
    {"netfilter_sockets_are_refused",
     NAMES,
     {"./probe", "socket", "16", "3", "12"},
     "EPROTONOSUPPORT"},
    {"plugin_has_no_rights_in_its_network",
     NAMES,
     {"./probe", "status", "CapEff"},
     "0000000000000000"},
    {"sockets_of_the_gate_do_not_reach_the_plugin", NAMES, {"./probe", "list-fds"}, "0 1 2 "},
    {"files_of_the_network_cannot_be_changed", NAMES, {"./probe", "write", "/etc/hosts"}, "EROFS"},
    {"own_server_is_reached", NAMES, {CLIENT, "serve", "localhost", "8000"}, "hello"},

    /* every port of a host */
    {"every_port_of_a_name_arrives",
     {{"api.test", 0}},
     {CLIENT, "get", "api.test", "12345"},
     "all 198.18.0.2:12345"},
    {"every_port_of_a_v4_arrives",
     {{"192.0.2.7", 0}},
     {CLIENT, "get", "192.0.2.7", "1"},
     "all 192.0.2.7:1"},
    {"every_port_of_a_v6_arrives",
     {{"2001:db8::7", 0}},
     {CLIENT, "get", "2001:db8::7", "65535"},
     "all [2001:db8::7]:65535"},
    {"every_port_of_localhost_arrives",
     {{"localhost", 0}},
     {CLIENT, "get", "127.0.0.1", "11434"},
     "all 127.0.0.1:11434"},
    {"every_port_of_localhost_arrives_by_v6",
     {{"localhost", 0}},
     {CLIENT, "get", "::1", "11434"},
     "all [::1]:11434"},
    {"ports_of_other_hosts_do_not",
     {{"api.test", 0}, {"git.test", 22}},
     {CLIENT, "get", "git.test", "23"},
     "ECONNREFUSED"},
    /* The gate has to refuse it: the plugin found the port by itself. */
    {"place_of_what_is_redirected_shows_itself_as_the_target",
     {{"api.test", 0}},
     {CLIENT, "get", "127.0.0.1", "61198"},
     "all 127.0.0.1:61198"},
    {"own_listener_beside_all_ports_is_kept",
     {{"api.test", 443}, {"api.test", 0}},
     {CLIENT, "get", "api.test", "443"},
     "listener 0 198.18.0.2:443"},

    /* every host */
    {"every_v4_arrives", {{"*", 0}}, {CLIENT, "get", "192.0.2.9", "81"}, "all 192.0.2.9:81"},
    {"every_v6_arrives", {{"*", 0}}, {CLIENT, "get", "2001:db8::9", "81"}, "all [2001:db8::9]:81"},
    {"every_name_is_asked_for",
     {{"*", 0}},
     {CLIENT, "get", "asked.test", "81"},
     "all 198.18.0.2:81"},
    {"own_listener_among_every_host_is_kept",
     {{"*", 0}, {"api.test", 443}},
     {CLIENT, "get", "api.test", "443"},
     "listener 0 198.18.0.2:443"},
    {"own_server_among_every_host_is_reached",
     {{"*", 0}},
     {CLIENT, "serve", "127.0.0.1", "8000"},
     "hello"},
    {"own_server_among_every_host_is_reached_by_v6",
     {{"*", 0}},
     {CLIENT, "serve", "::1", "8000"},
     "hello"},
    {"localhost_is_not_among_every_host",
     {{"*", 0}},
     {CLIENT, "get", "127.0.0.1", "5432"},
     "ECONNREFUSED"},
    {"udp_is_not_among_every_host", {{"*", 0}}, {CLIENT, "udp", "192.0.2.1", "53"}, "ECONNREFUSED"},

    /* none */
    {"without_a_network_nothing_is_reachable",
     {{NULL, 0}},
     {CLIENT, "get", "192.0.2.1", "443"},
     "ENETUNREACH"},
    {"without_a_network_there_is_no_hosts_file",
     {{NULL, 0}},
     {"./probe", "read", "/etc/hosts"},
     "ENOENT"},

    /* programs that know nothing of cages */
    {"curl_gets_an_answer", NAMES, {"curl", "-sS", "http://api.test/"}, "listener 1 198.18.0.2:80"},
    {"curl_gets_an_answer_from_every_host",
     {{"*", 0}},
     {"curl", "-sS", "http://asked.test:8080/"},
     "all 198.18.0.2:8080"},
    {"python_gets_an_answer", NAMES, {"python3", "get.py"}, "listener 1 198.18.0.2:80"},
    {"node_gets_an_answer", NAMES, {"node", "get.js"}, "listener 1 198.18.0.2:80"},
};

static void attempt_gets_its_answer(void **state)
{
    const struct attempt *attempt = *state;
    kg_auto(kg_free) char *program = kg_format("/usr/bin/%s", attempt->words[0]);
    if (attempt->words[0][0] != '.' && access(program, X_OK) < 0) {
        kg_auto(kg_free) char *reason = kg_format("%s is not installed", program);
        world_skip(attempt->name, reason);
        return;
    }
    const char *command[WORDS_MAX + 1] = {NULL};
    memcpy(command, attempt->words, sizeof(attempt->words));
    expect_line(attempt->reaches, command, attempt->answer);
}

/* -- sockets ----------------------------------------------------------------------------------- */

static const struct cage_reach two_ports[REACHES_MAX] = {{"api.test", 443}, {"git.test", 22}};
static const struct cage_reach every_host[REACHES_MAX] = {{"*", 0}};
static const struct cage_reach no_host[REACHES_MAX] = {{NULL, 0}};

static bool has_socket(uint32_t index)
{
    for (const struct taken *taken = gate.sockets; taken != NULL; taken = taken->next)
        if (taken->index == index)
            return true;
    return false;
}

static void sockets_are_there_before_the_plugin_runs(void **state)
{
    (void)state;
    struct run *run = run_with(two_ports, COMMAND("./probe", "hello"));
    run_wait_line(run);
    assert_int_equal(gate.count, 4);
    assert_true(has_socket(0) && has_socket(1) && has_socket(CAGE_SOCKET_NAMES) &&
                has_socket(CAGE_SOCKET_REFUSED));
    run_wait_exit(run);
    run_free(&run);
    close_gate();
}

static void what_is_redirected_has_a_socket_of_each_family(void **state)
{
    (void)state;
    struct run *run = run_with(every_host, COMMAND("./probe", "hello"));
    run_wait_line(run);
    assert_int_equal(gate.count, 4);
    assert_true(has_socket(CAGE_SOCKET_ALL) && has_socket(CAGE_SOCKET_ALL_6));
    run_wait_exit(run);
    run_free(&run);
    close_gate();
}

static void cage_without_a_network_has_no_socket(void **state)
{
    (void)state;
    kg_auto(run_free) struct run *run = run_with(no_host, COMMAND("./probe", "hello"));
    assert_string_equal(run_line(run), "hello");
    assert_int_equal(gate.count, 0);
}

/* They are closed, before or just after the plugin knocks. */
static void sockets_that_nobody_takes_leave_the_cage_running(void **state)
{
    (void)state;
    world->on_socket = NULL;
    struct run *run = run_with(two_ports, COMMAND(CLIENT, "get", "api.test", "443"));
    const char *answer = run_line(run);
    world->on_socket = take_socket;
    if (strcmp(answer, "ECONNRESET") != 0)
        assert_string_equal(answer, "ECONNREFUSED");
    run_free(&run);
    close_gate();
}

static bool something_was_refused(void *data)
{
    (void)data;
    return gate.refused[0] != '\0';
}

static void expect_refused(const char *host, const char *port, const char *seen)
{
    struct run *run = run_with(two_ports, COMMAND(CLIENT, "get", host, port));
    assert_string_equal(run_line(run), "ECONNREFUSED");
    assert_true(loop_run_until(world->loop, something_was_refused, NULL, WORLD_WAIT_MS));
    assert_string_equal(gate.refused, seen);
    run_free(&run);
    close_gate();
}

static void refused_connections_are_seen(void **state)
{
    (void)state;
    expect_refused("api.test", "81", "198.18.0.2:81");
    expect_refused("192.0.2.1", "443", "192.0.2.1:443");
    expect_refused("2001:db8::1", "443", "[2001:db8::1]:443");
}

static void accepted_connections_are_not_seen_as_refused(void **state)
{
    (void)state;
    struct run *run = run_with(two_ports, COMMAND(CLIENT, "get", "api.test", "443"));
    assert_string_equal(run_line(run), "listener 0 198.18.0.2:443");
    assert_string_equal(gate.refused, "");
    run_free(&run);
    close_gate();
}

static void many_at_once_all_have_their_network(void **state)
{
    (void)state;
    struct run *runs[16];
    for (size_t i = 0; i < KG_COUNT(runs); i++)
        runs[i] = run_with(i % 4 == 0 ? every_host : two_ports,
                           COMMAND(CLIENT, "get", "asked.test", "443"));
    for (size_t i = 0; i < KG_COUNT(runs); i++) {
        assert_string_equal(run_line(runs[i]),
                            i % 4 == 0 ? "all 198.18.0.2:443" : "listener 0 198.18.0.2:443");
        run_free(&runs[i]);
    }
    assert_int_equal(gate.count, KG_COUNT(runs) * 4);
    close_gate();
}

static void as_many_listeners_as_a_plan_may_have_are_opened(void **state)
{
    (void)state;
    struct kg_err err = {0};
    struct cage_plan *plan = plan_with(two_ports, COMMAND(CLIENT, "get", "api.test", "443"), &err);
    for (uint16_t port = 1000; plan->network.count < CAGE_LISTENERS_MAX; port++)
        cage_network_add(&plan->network, "api.test", "198.18.0.2", port);
    struct run *run = run_plan(world, plan);
    assert_string_equal(run_line(run), "listener 0 198.18.0.2:443");
    assert_int_equal(gate.count, CAGE_LISTENERS_MAX + 2);
    run_free(&run);
    cage_plan_free(plan);
    close_gate();
}

/* -- what can go wrong ------------------------------------------------------------------------- */

static void expect_failed(struct cage_plan *plan, const char *error)
{
    struct run *run = run_plan(world, plan);
    run_wait_exit(run);
    assert_false(run->how.built);
    assert_int_equal(run->out.length, 0);
    assert_string_equal(run->error, error);
    run_free(&run);
    cage_plan_free(plan);
    close_gate();
}

static struct cage_plan *some_plan(const struct cage_reach *reaches)
{
    struct kg_err err = {0};
    struct cage_plan *plan = plan_with(reaches, COMMAND("./probe", "hello"), &err);
    assert_non_null(plan);
    return plan;
}

static void listener_that_cannot_be_opened_ends_the_cage(void **state)
{
    (void)state;
    struct cage_plan *plan = some_plan(two_ports);
    cage_network_add(&plan->network, "api.test", "198.18.0.2", 443);
    expect_failed(plan, "plugin probe: network: listen on 198.18.0.2 port 443: Address already in "
                        "use");
}

/* The folder to start in is not there: bwrap ends by itself, and its stderr is the reason. */
static void cage_that_ends_while_its_network_is_made_has_its_own_reason(void **state)
{
    (void)state;
    struct cage_plan *plan = some_plan(every_host);
    kg_free(&plan->folder);
    plan->folder = kg_strdup("/none");
    struct run *run = run_plan(world, plan);
    run_wait_exit(run);
    assert_false(run->how.built);
    assert_null(run->error);
    assert_non_null(strstr(kg_buf_terminate(&run->err), "chdir"));
    run_free(&run);
    cage_plan_free(plan);
    close_gate();
}

static void set_nft(struct cage_plan *plan, const char *nft)
{
    kg_free(&plan->network.nft);
    plan->network.nft = kg_strdup(nft);
}

static void nft_that_fails_ends_the_cage(void **state)
{
    (void)state;
    struct cage_plan *plan = some_plan(every_host);
    set_nft(plan, "/none/nft");
    expect_failed(plan, "plugin probe: network: run /none/nft: No such file or directory");
    plan = some_plan(every_host);
    set_nft(plan, "/usr/bin/false");
    expect_failed(plan, "plugin probe: network: run /usr/bin/false: it failed without a message");
}

/* As `tail -f -` it waits for more rules for ever. */
static void nft_that_hangs_ends_the_cage(void **state)
{
    (void)state;
    struct cage_plan *plan = some_plan(every_host);
    set_nft(plan, "/usr/bin/tail");
    expect_failed(plan, "plugin probe: network: it was not made in time");
}

static void missing_nft_refuses_only_what_needs_it(void **state)
{
    (void)state;
    struct kg_err err = {0};
    char *nft = kg_steal(&world->facts->nft);
    struct cage_plan *plan = plan_with(every_host, COMMAND("./probe", "hello"), &err);
    assert_null(plan);
    assert_non_null(strstr(err.hint, "nftables"));
    expect_line(two_ports, COMMAND(CLIENT, "get", "api.test", "443"), "listener 0 198.18.0.2:443");
    world->facts->nft = nft;
}

static void signals_while_the_network_is_made_end_the_cage(void **state)
{
    (void)state;
    const int signals[] = {SIGTERM, SIGKILL};
    for (size_t i = 0; i < KG_COUNT(signals); i++) {
        struct run *run = run_with(every_host, COMMAND("./probe", "wait-forever"));
        cage_signal(run->child, signals[i]);
        run_wait_exit(run);
        assert_int_equal(run->how.signal, SIGKILL);
        assert_null(run->error);
        run_free(&run);
        close_gate();
    }
}

static void freeing_the_spawner_while_networks_are_made_leaves_nothing(void **state)
{
    (void)state;
    struct world *own = world_new();
    struct world *kept = world;
    world = own;
    world_copy(own, "client");
    struct run *runs[4];
    for (size_t i = 0; i < KG_COUNT(runs); i++)
        runs[i] = run_with(every_host, COMMAND("./probe", "wait-forever"));
    cage_spawner_free(own->spawner);
    own->spawner = NULL;
    for (size_t i = 0; i < KG_COUNT(runs); i++)
        run_free(&runs[i]);
    world_free(own);
    world = kept;
}

static void all_of_it_works_for_an_ordinary_user_too(void **state)
{
    (void)state;
    world_again_as_ordinary_user();
}

static void all_of_it_holds_while_it_is_watched(void **state)
{
    (void)state;
    world_again_watched();
}

/* -- the suite --------------------------------------------------------------------------------- */

static int make_world(void **state)
{
    (void)state;
    world = world_new();
    world->on_socket = take_socket;
    world_copy(world, "client");
    world_write(world, "get.py",
                "import urllib.request\n"
                "print(urllib.request.urlopen('http://api.test/').read().decode(), end='')\n",
                0644);
    world_write(world, "get.js",
                "fetch('http://api.test/').then(async (reply) =>\n"
                "  process.stdout.write(await reply.text()))\n",
                0644);
    return 0;
}

static int free_world(void **state)
{
    (void)state;
    close_gate();
    world_free(world);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest plain[] = {
        cmocka_unit_test(sockets_are_there_before_the_plugin_runs),
        cmocka_unit_test(what_is_redirected_has_a_socket_of_each_family),
        cmocka_unit_test(cage_without_a_network_has_no_socket),
        cmocka_unit_test(sockets_that_nobody_takes_leave_the_cage_running),
        cmocka_unit_test(refused_connections_are_seen),
        cmocka_unit_test(accepted_connections_are_not_seen_as_refused),
        cmocka_unit_test(many_at_once_all_have_their_network),
        cmocka_unit_test(as_many_listeners_as_a_plan_may_have_are_opened),
        cmocka_unit_test(listener_that_cannot_be_opened_ends_the_cage),
        cmocka_unit_test(cage_that_ends_while_its_network_is_made_has_its_own_reason),
        cmocka_unit_test(nft_that_fails_ends_the_cage),
        cmocka_unit_test(nft_that_hangs_ends_the_cage),
        cmocka_unit_test(missing_nft_refuses_only_what_needs_it),
        cmocka_unit_test(signals_while_the_network_is_made_end_the_cage),
        cmocka_unit_test(freeing_the_spawner_while_networks_are_made_leaves_nothing),
        cmocka_unit_test(all_of_it_works_for_an_ordinary_user_too),
        cmocka_unit_test(all_of_it_holds_while_it_is_watched),
    };
    static struct CMUnitTest tests[KG_COUNT(attempts) + KG_COUNT(plain)];
    size_t count = 0;
    for (size_t i = 0; i < KG_COUNT(attempts); i++)
        tests[count++] = (struct CMUnitTest){.name = attempts[i].name,
                                             .test_func = attempt_gets_its_answer,
                                             .initial_state = (void *)&attempts[i]};
    for (size_t i = 0; i < KG_COUNT(plain); i++)
        tests[count++] = plain[i];
    return cmocka_run_group_tests_name("cage network", tests, make_world, free_world);
}
