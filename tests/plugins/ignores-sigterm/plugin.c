/* Stays on shutdown, at the end of its stdin, and on SIGTERM. */
#include "../plugin.h"

#include <signal.h>

int main(void)
{
    struct message message = {0};
    signal(SIGTERM, SIG_IGN);
    while (next_message(&message))
        if (!is_method(&message, "shutdown"))
            answer_system(&message, "\"work.do\"");
    for (;;)
        pause();
}
