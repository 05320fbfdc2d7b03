/* Leaves behind a child that keeps stdout open. */
#include "../plugin.h"

int main(void)
{
    struct message message = {0};
    while (next_message(&message)) {
        if (answer_system(&message, "\"work.do\""))
            continue;
        if (fork() == 0) {
            setsid();
            pause();
        }
        say("{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":\"left\"}", message.id);
        exit(0);
    }
    return 0;
}
