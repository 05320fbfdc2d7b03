/* Answers with a line of exactly so many bytes. */
#include "../plugin.h"

int main(void)
{
    struct message message = {0};
    while (next_message(&message)) {
        if (answer_system(&message, "\"line.send\""))
            continue;
        char head[64];
        int used = snprintf(head, sizeof(head), "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":\"",
                            message.id);
        fputs(head, stdout);
        for (long left = number_of(&message, "bytes") - used - 2; left > 0; left--)
            putchar('x');
        say("\"}");
    }
    return 0;
}
