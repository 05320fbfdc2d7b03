/* Answers its handshake, then writes to both streams as fast as they take it. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    static const char answer[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"name\":\"flood\",\"version\":\"1.0.0\","
        "\"api_version\":1,\"methods\":[\"flood.none\"],\"notifications\":[],"
        "\"capabilities_used\":[]}}\n";
    static const char note[] =
        "{\"jsonrpc\":\"2.0\",\"method\":\"flood.event\",\"params\":{\"n\":1}}\n";
    static char lines[65536], noise[65536], in[4096];
    size_t length = 0;
    while (length + sizeof(note) < sizeof(lines)) {
        memcpy(lines + length, note, sizeof(note) - 1);
        length += sizeof(note) - 1;
    }
    memset(noise, 'x', sizeof(noise));
    for (size_t i = 99; i < sizeof(noise); i += 100)
        noise[i] = '\n';
    if (read(0, in, sizeof(in)) <= 0 || write(1, answer, sizeof(answer) - 1) < 0)
        return 1;
    for (;;) {
        struct pollfd fds[] = {{0, POLLIN, 0}, {1, POLLOUT, 0}, {2, POLLOUT, 0}};
        if (poll(fds, 3, -1) < 0)
            return 1;
        if (fds[0].revents != 0 && read(0, in, sizeof(in)) <= 0)
            return 0;
        if ((fds[1].revents & POLLOUT) && write(1, lines, length) < 0)
            return 1;
        if ((fds[2].revents & POLLOUT) && write(2, noise, sizeof(noise)) < 0)
            return 1;
    }
}
