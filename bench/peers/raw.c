/*
 * The limit: the same plugin on two pipes, and nothing between. It prepares its requests beforehand
 * and compares the answers as one piece of memory.
 *
 * usage: raw gathered|single [WRAPPER...] PROGRAM
 *   gathered: the requests of a batch in one write; single: a write for each
 * commands: calls MS IN_FLIGHT BYTES BACK   the rate and latencies of calls, in batches
 *           start                           ms until a new process has answered once
 */
#include "../contender.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUEST_HEAD                                                                               \
    "{\"jsonrpc\":\"2.0\",\"id\":12345,\"method\":\"fast.%s\",\"params\":{\"_context\":{"          \
    "\"operator_id\":\"bench\",\"project_id\":null,\"agent_path\":null,\"session_id\":null,"       \
    "\"request_id\":\"req_01ARZ3NDEKTSV4RRFFQ69G5FAV\"},\"text\":\""
#define REQUEST_TAIL "\",\"count\":42}}\n"
#define ANSWER_HEAD  "{\"jsonrpc\":\"2.0\",\"id\":12345,\"result\":"

struct process {
    pid_t pid;
    int in, out;
};

struct peer {
    char **words; /* what is executed */
    bool gathered;
    struct process process; /* the one that calls are made to; pid 0: not started yet */
};

struct bytes {
    char *data;
    size_t length;
};

static struct process start(char **words)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        contender_die("pipe", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execvp(words[0], words);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    return (struct process){pid, in[1], out[0]};
}

static void stop(struct process *process)
{
    close(process->in);
    close(process->out);
    waitpid(process->pid, NULL, 0);
}

/* -- requests and what must come back ---------------------------------------------------------- */

static struct bytes make_request(size_t bytes, bool back)
{
    char head[512];
    int length = snprintf(head, sizeof(head), REQUEST_HEAD, back ? "back" : "echo");
    struct bytes request = {malloc((size_t)length + bytes + sizeof(REQUEST_TAIL)), 0};
    memcpy(request.data, head, (size_t)length);
    memset(request.data + length, 'x', bytes);
    memcpy(request.data + length + bytes, REQUEST_TAIL, sizeof(REQUEST_TAIL));
    request.length = (size_t)length + bytes + sizeof(REQUEST_TAIL) - 1;
    return request;
}

static struct bytes make_answer(struct bytes request, bool back)
{
    struct bytes answer = {malloc(request.length + 128), 0};
    const char *params = strstr(request.data, "\"params\":") + strlen("\"params\":");
    const char *result = back ? params : "{\"ok\":true}}\n";
    answer.length = (size_t)sprintf(answer.data, "%s%s", ANSWER_HEAD, result);
    return answer;
}

static struct bytes repeat(struct bytes one, size_t times)
{
    struct bytes all = {malloc(one.length * times), one.length * times};
    for (size_t i = 0; i < times; i++)
        memcpy(all.data + i * one.length, one.data, one.length);
    return all;
}

/* -- one batch --------------------------------------------------------------------------------- */

struct batch {
    struct bytes out, expected, in; /* in: as long as expected */
    size_t write_bytes;             /* at once, at most */
    size_t answer_bytes;
    size_t sent, came;
};

static void send_some(struct process *process, struct batch *batch)
{
    size_t left = batch->write_bytes - batch->sent % batch->write_bytes;
    ssize_t sent = write(process->in, batch->out.data + batch->sent, left);
    if (sent < 0 && errno != EAGAIN)
        contender_die("raw", "write");
    batch->sent += sent > 0 ? (size_t)sent : 0;
}

/* Each answer that it completes took as long as the batch is under way. */
static void read_some(struct process *process, struct batch *batch, uint64_t start_ns)
{
    size_t before = batch->came / batch->answer_bytes;
    ssize_t got =
        read(process->out, batch->in.data + batch->came, batch->expected.length - batch->came);
    if (got <= 0)
        contender_die("raw", "read");
    batch->came += (size_t)got;
    double us = (double)(contender_now_ns() - start_ns) / 1e3;
    for (size_t i = before; i < batch->came / batch->answer_bytes; i++)
        contender_sample(us);
}

/* Reads while it writes only where the pipe takes no more: both may be full of large messages. */
static void exchange(struct process *process, struct batch *batch)
{
    uint64_t start_ns = contender_now_ns();
    batch->sent = batch->came = 0;
    while (batch->came < batch->expected.length) {
        size_t before = batch->sent;
        if (batch->sent < batch->out.length)
            send_some(process, batch);
        if (batch->sent < batch->out.length && batch->sent > before)
            continue;
        if (batch->sent < batch->out.length) {
            struct pollfd fds[] = {{process->in, POLLOUT, 0}, {process->out, POLLIN, 0}};
            poll(fds, 2, -1);
            if (!(fds[1].revents & POLLIN))
                continue;
        }
        read_some(process, batch, start_ns);
    }
    if (memcmp(batch->in.data, batch->expected.data, batch->expected.length) != 0)
        contender_die("raw", "a wrong answer");
}

static void call_for(struct process *process, bool gathered, const long numbers[])
{
    size_t flight = (size_t)numbers[1], calls = 0;
    struct bytes request = make_request((size_t)numbers[2], numbers[3] != 0);
    struct bytes answer = make_answer(request, numbers[3] != 0);
    struct batch batch = {.out = repeat(request, flight),
                          .expected = repeat(answer, flight),
                          .in = repeat(answer, flight),
                          .answer_bytes = answer.length};
    batch.write_bytes = gathered ? batch.out.length : request.length;
    uint64_t start_ns = contender_now_ns(), elapsed_ns;
    do {
        exchange(process, &batch);
        calls += flight;
        elapsed_ns = contender_now_ns() - start_ns;
    } while (elapsed_ns < (uint64_t)numbers[0] * 1000000);
    free(request.data);
    free(answer.data);
    free(batch.out.data);
    free(batch.expected.data);
    free(batch.in.data);
    contender_figure("rate", (double)calls * 1e9 / (double)elapsed_ns);
    contender_figure("calls", (double)calls);
}

static void run_calls(void *data, const long numbers[])
{
    struct peer *peer = data;
    if (peer->process.pid == 0) {
        peer->process = start(peer->words);
        fcntl(peer->process.in, F_SETFL, O_NONBLOCK);
    }
    call_for(&peer->process, peer->gathered, numbers);
}

static void run_start(void *data, const long numbers[])
{
    static const long once[] = {0, 1, 5, 0};
    struct peer *peer = data;
    (void)numbers;
    uint64_t start_ns = contender_now_ns();
    struct process process = start(peer->words);
    call_for(&process, true, once);
    contender_figure("ms", (double)(contender_now_ns() - start_ns) / 1e6);
    stop(&process);
}

int main(int argc, char **argv)
{
    static const struct contender_command commands[] = {
        {"calls", run_calls}, {"start", run_start}, {NULL, NULL}};
    if (argc < 3)
        contender_die("usage", "raw gathered|single [WRAPPER...] PROGRAM");
    struct peer peer = {.words = argv + 2, .gathered = strcmp(argv[1], "gathered") == 0};
    contender_serve(commands, NULL, &peer);
    if (peer.process.pid != 0)
        stop(&peer.process);
    return 0;
}
