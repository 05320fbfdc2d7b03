/* Returns a text of so many bytes as are asked for. */
#include "../plugin.h"

int main(void)
{
    struct message message = {0};
    while (next_message(&message)) {
        if (answer_system(&message, "\"bytes.give\""))
            continue;
        printf("{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":\"", message.id);
        for (long left = number_of(&message, "bytes"); left > 0; left--)
            putchar('x');
        say("\"}");
    }
    return 0;
}
