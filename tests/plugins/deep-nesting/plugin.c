/* Writes notifications nested past every bound, then answers. */
#include "../plugin.h"

int main(void)
{
    struct message message = {0};
    while (next_message(&message)) {
        if (answer_system(&message, "\"nest.send\""))
            continue;
        for (const char *open = "[{"; *open; open++) {
            printf("{\"jsonrpc\":\"2.0\",\"method\":\"deep.down\",\"params\":");
            for (long depth = number_of(&message, "depth"); depth > 0; depth--)
                fputs(*open == '[' ? "[" : "{\"a\":", stdout);
            say("%s", "");
        }
        say("{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":\"still here\"}", message.id);
    }
    return 0;
}
