/* Floods stdout with notifications and stderr with lines, and still answers calls. */
#include "../plugin.h"

#include <poll.h>
#include <time.h>

static long sent, limited, flood_until_ms;

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void flood_some(void)
{
    for (int i = 0; i < 100; i++)
        printf("{\"jsonrpc\":\"2.0\",\"method\":\"flood.drop\",\"params\":{\"n\":%ld}}\n", sent++);
    fflush(stdout);
    for (int i = 0; i < 100; i++)
        fprintf(stderr, "flood line %ld of many, long enough to be a nuisance\n", sent);
}

static void take(struct message *message)
{
    if (answer_system(message, "\"flood.start\",\"flood.stats\""))
        return;
    limited += is_method(message, "system.rate_limited");
    if (is_method(message, "flood.start"))
        flood_until_ms = now_ms() + number_of(message, "ms");
    if (message->id != 0)
        say("{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":{\"sent\":%ld,\"limited\":%ld}}",
            message->id, sent, limited);
}

int main(void)
{
    struct message message = {0};
    struct pollfd in = {.fd = 0, .events = POLLIN};
    setvbuf(stdin, NULL, _IONBF, 0);
    setvbuf(stderr, NULL, _IOFBF, 8192);
    for (;;) {
        bool flooding = now_ms() < flood_until_ms;
        if (poll(&in, 1, flooding ? 0 : 100) > 0) {
            if (!next_message(&message))
                return 0;
            take(&message);
        } else if (flooding) {
            flood_some();
        }
    }
}
