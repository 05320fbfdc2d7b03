/* Does all as it should, in C. */
#include "../plugin.h"

int main(void)
{
    struct message message = {0};
    while (next_message(&message)) {
        if (answer_system(&message, "\"good.echo\""))
            continue;
        if (is_method(&message, "good.echo"))
            say("{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":%s}", message.id, params_of(&message));
    }
    return 0;
}
