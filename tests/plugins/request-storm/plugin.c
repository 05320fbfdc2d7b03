/* Sends as many requests as it is told to, as fast as they are taken. */
#include "../plugin.h"

#include <poll.h>

/*
 * Counts the answers that are there to read, so that neither side waits for the other; waits for
 * the first of them if told to.
 */
static long drain(bool wait)
{
    static char buffer[65536];
    struct pollfd in = {.fd = 0, .events = POLLIN};
    long lines = 0;
    while (poll(&in, 1, wait && lines == 0 ? -1 : 0) > 0) {
        ssize_t got = read(0, buffer, sizeof(buffer));
        if (got <= 0)
            exit(0);
        for (ssize_t i = 0; i < got; i++)
            lines += buffer[i] == '\n';
    }
    return lines;
}

int main(void)
{
    struct message message = {0};
    setvbuf(stdin, NULL, _IONBF, 0);
    while (next_message(&message)) {
        if (answer_system(&message, "\"storm.start\""))
            continue;
        long count = number_of(&message, "count"), answered = 0;
        for (long id = 1; id <= count; id++) {
            printf("{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"kaged.storage.schema\"}\n", id);
            if (id % 64 == 0) {
                fflush(stdout);
                answered += drain(false);
            }
        }
        fflush(stdout);
        while (answered < count)
            answered += drain(true);
        say("{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":%ld}", message.id, answered);
    }
    return 0;
}
