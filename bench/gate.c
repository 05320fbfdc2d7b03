/*
 * What the gatekeeper costs, beside the same without it, over loopback. The server is a process of
 * its own, since the gate refuses to lead to sockets of the daemon.
 *
 * commands: reply GATED   us to the first reply of a new connection, through the gate or (0) not
 *           bulk GATED    MB a second through one connection
 */
#include "cage/gate.h"
#include "cage/internal.h"
#include "contender.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS 200 /* of one command */
#define BULK_BYTES  ((size_t)256 << 20)
#define CHUNK_BYTES ((size_t)256 << 10)

static void must(bool holds, const char *what)
{
    if (!holds)
        contender_die(what, strerror(errno));
}

static int listen_anywhere(uint16_t *ret_port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    must(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 4096) == 0 &&
             getsockname(fd, (struct sockaddr *)&address, &size) == 0,
         "listen");
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* One connection at a time: 'r' is answered with a byte, 'b' with all the bulk. */
static void serve(int listener)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char *chunk = kg_alloc(CHUNK_BYTES);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        char wanted;
        if (fd >= 0 && read(fd, &wanted, 1) == 1) {
            size_t bytes = wanted == 'b' ? BULK_BYTES : 1;
            for (size_t sent = 0; sent < bytes; sent += CHUNK_BYTES)
                must(kg_write_all(fd, chunk, bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES) == 0,
                     "send");
        }
        if (fd >= 0)
            close(fd);
    }
}

/* Asks a port and reads to the end; the time to the first byte, and to the last, in ns. */
static void ask(uint16_t port, char wanted, uint64_t *ret_first_ns, uint64_t *ret_all_ns)
{
    static char chunk[CHUNK_BYTES];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    uint64_t start_ns = kg_monotonic_ns();
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
             write(fd, &wanted, 1) == 1 && read(fd, chunk, 1) == 1,
         "ask");
    *ret_first_ns = kg_monotonic_ns() - start_ns;
    size_t bytes = 1;
    for (ssize_t size; (size = read(fd, chunk, sizeof(chunk))) > 0;)
        bytes += (size_t)size;
    *ret_all_ns = kg_monotonic_ns() - start_ns;
    must(bytes == (wanted == 'b' ? BULK_BYTES : 1), "read all");
    close(fd);
}

/* data: the server's port, then the gate's. */
static void run_reply(void *data, const long numbers[])
{
    const uint16_t *ports = data;
    static double us[CONNECTIONS];
    uint64_t first_ns, all_ns;
    for (size_t i = 0; i < CONNECTIONS; i++) {
        ask(ports[numbers[0] != 0], 'r', &first_ns, &all_ns);
        us[i] = (double)first_ns / 1e3;
    }
    contender_figure("us", contender_quantile(us, CONNECTIONS, 0.5));
}

static void run_bulk(void *data, const long numbers[])
{
    const uint16_t *ports = data;
    uint64_t first_ns, all_ns;
    ask(ports[numbers[0] != 0], 'b', &first_ns, &all_ns);
    contender_figure("rate", (double)BULK_BYTES * 1e3 / (double)all_ns);
}

static void on_event(void *data, const struct gate_event *event)
{
    (void)data;
    must(event->kind == GATE_CONNECTED || event->kind == GATE_ENDED, event->reason);
}

static void run_loop(void *data)
{
    loop_run(data);
}

struct stop {
    struct loop_message message;
    struct loop *loop;
};

static void on_stop(struct loop_message *message)
{
    loop_stop(KG_CONTAINER(message, struct stop, message)->loop);
}

int main(void)
{
    static const struct contender_command commands[] = {
        {"reply", run_reply}, {"bulk", run_bulk}, {NULL, NULL}};
    uint16_t ports[2]; /* the server's, the gate's */
    int server = listen_anywhere(&ports[0]);
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0)
        serve(server);
    close(server);
    signal(SIGPIPE, SIG_IGN);

    struct loop *loop = loop_new();
    struct gate_limits limits = {4096, UINT32_MAX, 1000, 10000, 0, true};
    struct gate *gate = gate_new(loop, &limits, NULL);
    must(gate != NULL, "start the gate");
    struct cage_plan plan = {0};
    cage_network_add(&plan.network, "localhost", "127.0.0.1", ports[0]);
    struct gate_cage *cage = gate_cage_new(gate, &plan, on_event, NULL);
    gate_cage_take(cage, 0, listen_anywhere(&ports[1]));
    uv_thread_t thread; /* the daemon's loop, which hears the events */
    must(uv_thread_create(&thread, run_loop, loop) == 0, "start a thread");

    contender_serve(commands, NULL, ports);

    struct stop stop = {{.deliver = on_stop}, loop};
    loop_post(loop, &stop.message);
    uv_thread_join(&thread);
    gate_cage_free(cage);
    gate_free(gate);
    loop_free(loop);
    cage_network_free(&plan.network);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
