/* Writes its answer one byte at a time. */
#include "../plugin.h"

int main(void)
{
    struct message message = {0};
    while (next_message(&message)) {
        if (answer_system(&message, "\"work.do\""))
            continue;
        char answer[128];
        int length = snprintf(answer, sizeof(answer),
                              "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":\"done\"}\n", message.id);
        for (int i = 0; i < length; i++) {
            if (write(1, answer + i, 1) != 1)
                return 1;
            usleep(2000);
        }
    }
    return 0;
}
