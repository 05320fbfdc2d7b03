/* A server that does as it is told, and a network of its own for it; see gate_world.h. */
#include "gate_world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define CHUNK_BYTES 65536
#define WAIT_MS     60000

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "gate_world: %s: %s\n", what, strerror(errno));
    abort();
}

uint8_t gate_world_pattern(uint64_t at)
{
    return (uint8_t)(at ^ at >> 8 ^ at >> 16);
}

/* -- the server -------------------------------------------------------------------------------- */

struct client {
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    char line[64];
    size_t length;
    bool told;
    void (*on_data)(struct client *client, const char *data, size_t size);
    void (*on_end)(struct client *client);
    bool watched;
    uint64_t count, left;
    char chunk[CHUNK_BYTES];
};

static int report_fd;

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer);

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void hang_up(struct client *client)
{
    if (!uv_is_closing((uv_handle_t *)&client->tcp))
        uv_close((uv_handle_t *)&client->tcp, on_closed);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *ret_buffer)
{
    (void)size;
    struct client *client = handle->data;
    *ret_buffer = uv_buf_init(client->chunk, sizeof(client->chunk));
}

static void on_written_then_close(uv_write_t *request, int status)
{
    (void)status;
    hang_up(request->handle->data);
}

static void on_written_then_read(uv_write_t *request, int status)
{
    if (status < 0)
        hang_up(request->handle->data);
    else
        uv_read_start(request->handle, on_alloc, on_read);
}

static void say(struct client *client, size_t size, uv_write_cb then)
{
    uv_buf_t buffer = uv_buf_init(client->chunk, (unsigned)size);
    if (uv_write(&client->write, (uv_stream_t *)&client->tcp, &buffer, 1, then) != 0)
        hang_up(client);
}

static void echo(struct client *client, const char *data, size_t size)
{
    uv_read_stop((uv_stream_t *)&client->tcp);
    memmove(client->chunk, data, size);
    say(client, size, on_written_then_read);
}

static void count(struct client *client, const char *data, size_t size)
{
    (void)data;
    client->count += size;
}

static void tell_count(struct client *client)
{
    int size = snprintf(client->chunk, CHUNK_BYTES, "%llu\n", (unsigned long long)client->count);
    say(client, (size_t)size, on_written_then_close);
}

static void report(struct client *client, const char *text)
{
    char line[64];
    int size = snprintf(line, sizeof(line), "%s %llu\n", text, (unsigned long long)client->count);
    must(write(report_fd, line, (size_t)size) == size, "report");
}

static void report_and_close(struct client *client)
{
    report(client, "eof");
    hang_up(client);
}

static void on_source_written(uv_write_t *request, int status)
{
    struct client *client = request->handle->data;
    if (status < 0 || client->left == 0) {
        hang_up(client);
        return;
    }
    size_t size = client->left < CHUNK_BYTES ? client->left : CHUNK_BYTES;
    for (size_t i = 0; i < size; i++)
        client->chunk[i] = (char)gate_world_pattern(client->count + i);
    client->count += size;
    client->left -= size;
    say(client, size, on_source_written);
}

static void obey(struct client *client)
{
    uv_stream_t *stream = (uv_stream_t *)&client->tcp;
    client->on_data = count;
    client->on_end = hang_up;
    if (strcmp(client->line, "echo") == 0) {
        client->on_data = echo;
    } else if (sscanf(client->line, "source %lu", &client->left) == 1) {
        uv_read_stop(stream);
        on_source_written(&(uv_write_t){.handle = stream}, 0);
    } else if (strcmp(client->line, "sink") == 0) {
        client->on_end = tell_count;
    } else if (strcmp(client->line, "farewell") == 0) {
        client->on_end = report_and_close;
        must(uv_try_write(stream, &(uv_buf_t){.base = "bye", .len = 3}, 1) == 3, "say bye");
        uv_shutdown(&client->shutdown, stream, NULL);
    } else if (strcmp(client->line, "watch") == 0) {
        client->watched = true;
        client->on_end = report_and_close;
        must(uv_try_write(stream, &(uv_buf_t){.base = "ok", .len = 2}, 1) == 2, "say ok");
    } else if (strcmp(client->line, "reset") == 0) {
        uv_tcp_close_reset(&client->tcp, on_closed);
    } else if (strcmp(client->line, "close") == 0) {
        hang_up(client);
    } else {
        uv_read_stop(stream); /* hold */
    }
}

static void on_bytes(struct client *client, const char *data, size_t size)
{
    while (!client->told && size > 0) {
        char c = *data++;
        size--;
        if (c != '\n') {
            client->line[client->length++] = c;
            must(client->length < sizeof(client->line), "a line that long");
            continue;
        }
        client->told = true;
        obey(client);
    }
    if (size > 0 && !uv_is_closing((uv_handle_t *)&client->tcp))
        client->on_data(client, data, size);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct client *client = stream->data;
    if (size > 0) {
        on_bytes(client, buffer->base, (size_t)size);
    } else if (size == UV_EOF && client->told) {
        uv_read_stop(stream);
        client->on_end(client);
    } else if (size < 0) {
        if (client->watched)
            report(client, "reset");
        hang_up(client);
    }
}

static void on_connection(uv_stream_t *server, int status)
{
    must(status == 0, "accept");
    struct client *client = calloc(1, sizeof(*client));
    client->tcp.data = client;
    uv_tcp_init(server->loop, &client->tcp);
    client->tcp.data = client;
    uv_accept(server, (uv_stream_t *)&client->tcp);
    uv_tcp_nodelay(&client->tcp, 1);
    uv_read_start((uv_stream_t *)&client->tcp, on_alloc, on_read);
}

/* A socket that listens, on a port of its choosing if *port is 0. */
static int listen_on(int family, uint16_t *port, int backlog)
{
    int on = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(*port)};
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(*port)};
    v6.sin6_addr = in6addr_loopback;
    struct sockaddr *address = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t size = family == AF_INET ? sizeof(v4) : sizeof(v6);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd < 0 || bind(fd, address, size) < 0 || listen(fd, backlog) < 0 ||
        getsockname(fd, address, &size) < 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
    return fd;
}

static void serve(const int *fds, size_t fd_count)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    uv_loop_t loop;
    uv_tcp_t servers[4];
    uv_loop_init(&loop);
    for (size_t i = 0; i < fd_count; i++) {
        if (fds[i] < 0)
            continue;
        uv_tcp_init(&loop, &servers[i]);
        uv_tcp_open(&servers[i], fds[i]);
        must(uv_listen((uv_stream_t *)&servers[i], 4096, on_connection) == 0, "listen");
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    _exit(0);
}

/* Fills the backlog of a port that nobody accepts at; the fds live as long as the server. */
static void fill_backlog(uint16_t port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 3; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        must(fd >= 0, "socket");
        (void)!connect(fd, (struct sockaddr *)&v4, sizeof(v4));
        poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, i < 2 ? 100 : 0);
    }
}

static void start_server(struct gate_world *world)
{
    int pipe_fds[2], fds[4] = {-1, -1, -1, -1};
    must(pipe2(pipe_fds, O_CLOEXEC) == 0, "pipe");
    fds[0] = listen_on(AF_INET, &world->port, 4096);
    fds[1] = listen_on(AF_INET6, &world->port, 4096);
    fds[2] = listen_on(AF_INET6, &world->port_6, 4096);
    must(fds[0] >= 0, "listen");
    int stuck = listen_on(AF_INET, &world->port_stuck, 0);
    must(stuck >= 0, "listen");
    world->server = fork();
    must(world->server >= 0, "fork");
    if (world->server == 0) {
        close(pipe_fds[0]);
        report_fd = pipe_fds[1];
        fill_backlog(world->port_stuck);
        serve(fds, KG_COUNT(fds));
    }
    close(pipe_fds[1]);
    world->reports = pipe_fds[0];
    close(stuck);
    for (size_t i = 0; i < KG_COUNT(fds); i++)
        kg_close(&fds[i]);
}

/* -- the network ------------------------------------------------------------------------------- */

static bool put_file(const char *path, const char *text)
{
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd >= 0 && kg_write_all(fd, text, strlen(text)) == 0;
}

static bool map_user(uid_t uid, gid_t gid)
{
    kg_auto(kg_free) char *users = kg_format("0 %u 1\n", uid);
    kg_auto(kg_free) char *groups = kg_format("0 %u 1\n", gid);
    return put_file("/proc/self/setgroups", "deny") && put_file("/proc/self/uid_map", users) &&
           put_file("/proc/self/gid_map", groups);
}

/* Puts a text in place of a file of the system. */
static bool replace_file(struct gate_world *world, const char *name, const char *text)
{
    kg_auto(kg_free) char *source = kg_format("%s/%s", world->folder, name);
    kg_auto(kg_free) char *target = kg_format("/etc/%s", name);
    return put_file(source, text) && mount(source, target, NULL, MS_BIND, NULL) == 0;
}

static bool name_hosts(struct gate_world *world)
{
    static const char hosts[] = "203.0.113.5 global.test mixed.test patient.test\n"
                                "2001:db8::5 six.test\n"
                                "10.99.0.5 private.test\n"
                                "169.254.169.254 link.test\n"
                                "127.0.0.1 loop.test\n"
                                "::1 loop6.test\n"
                                "::ffff:127.0.0.1 mapped.test\n"
                                "198.51.100.7 own.test\n"
                                "127.0.0.1 mixed.test\n"
                                "192.0.2.1 patient.test\n";
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           replace_file(world, "hosts", hosts) &&
           replace_file(world, "nsswitch.conf", "hosts: files dns\n") &&
           replace_file(world, "host.conf", "multi on\n") &&
           replace_file(world, "resolv.conf",
                        "nameserver 127.0.0.1\noptions timeout:2 attempts:1\n");
}

/* `lo` is up, has an address that is ours, and everything else goes out by it, to nowhere. */
static bool set_up_lo(void)
{
    kg_auto(kg_close) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    kg_auto(kg_close) int fd_6 = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    struct ifreq own = {.ifr_name = "lo:1"};
    struct sockaddr_in own_address = {.sin_family = AF_INET};
    inet_pton(AF_INET, "198.51.100.7", &own_address.sin_addr);
    memcpy(&own.ifr_addr, &own_address, sizeof(own_address));
    struct rtentry route = {.rt_flags = RTF_UP, .rt_dev = "lo"};
    route.rt_dst.sa_family = route.rt_genmask.sa_family = route.rt_gateway.sa_family = AF_INET;
    struct in6_rtmsg route_6 = {.rtmsg_flags = RTF_UP, .rtmsg_metric = 1};
    route_6.rtmsg_ifindex = (int)if_nametoindex("lo");
    return fd >= 0 && fd_6 >= 0 && ioctl(fd, SIOCSIFFLAGS, &up) == 0 &&
           ioctl(fd, SIOCSIFADDR, &own) == 0 && ioctl(fd, SIOCADDRT, &route) == 0 &&
           ioctl(fd_6, SIOCADDRT, &route_6) == 0;
}

static bool set_up_redirects(struct gate_world *world)
{
    kg_auto(kg_free) char *rules =
        kg_format("table ip w {\n chain out {\n  type nat hook output priority -100;\n"
                  "  ip daddr { 203.0.113.0/24, 10.99.0.0/16 } meta l4proto tcp dnat to 127.0.0.1\n"
                  "  ip daddr 198.18.0.0/15 meta l4proto tcp redirect to :%u\n }\n}\n"
                  "table ip6 w {\n chain out {\n  type nat hook output priority -100;\n"
                  "  ip6 daddr 2001:db8:1::/48 meta l4proto tcp redirect to :%u\n"
                  "  ip6 daddr 2001:db8::/32 meta l4proto tcp dnat to ::1\n }\n}\n",
                  world->port_redirect, world->port_redirect);
    kg_auto(kg_free) char *path = kg_format("%s/rules", world->folder);
    kg_auto(kg_free) char *command = kg_format("PATH=$PATH:/usr/sbin nft -f %s 2>/dev/null", path);
    return put_file(path, rules) && system(command) == 0;
}

static const char *enter_network(struct gate_world *world)
{
    uid_t uid = getuid();
    gid_t gid = getgid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS) < 0)
        return "no user namespaces";
    if (!map_user(uid, gid))
        return "the user namespace takes no map of users";
    if (!set_up_lo())
        return "the network namespace cannot be set up";
    if (!name_hosts(world))
        return "files of /etc cannot be replaced";
    if (!set_up_redirects(world))
        return "nft is missing, or cannot redirect";
    return NULL;
}

/* Tried by a child first: half a network would be worse than none. */
static bool can_enter(struct gate_world *world)
{
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        const char *missing = enter_network(world);
        if (missing != NULL)
            printf("# %s: %s\n", missing, strerror(errno));
        fflush(stdout);
        _exit(missing != NULL);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0;
}

void gate_world_open(struct gate_world *world)
{
    *world = (struct gate_world){.port_redirect = 15001};
    strcpy(world->folder, "/tmp/kaged-unit-gate.XXXXXX");
    must(mkdtemp(world->folder) != NULL, "mkdtemp");
    if (can_enter(world))
        must(enter_network(world) == NULL, "enter a network");
    else
        world->missing = "no network namespace with nft";
    start_server(world);
}

void gate_world_close(struct gate_world *world)
{
    kill(world->server, SIGKILL);
    waitpid(world->server, NULL, 0);
    kg_close(&world->reports);
    kg_auto(kg_free) char *command = kg_format("rm -rf %s", world->folder);
    (void)!system(command);
}

void gate_world_report(struct gate_world *world, char ret_line[64])
{
    size_t length = 0;
    while (length < 63 &&
           poll(&(struct pollfd){.fd = world->reports, .events = POLLIN}, 1, WAIT_MS) == 1 &&
           read(world->reports, ret_line + length, 1) == 1 && ret_line[length] != '\n')
        length++;
    ret_line[length] = '\0';
}
