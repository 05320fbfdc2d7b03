/* Does all as it should, in C. */
#include "../plugin.h"

int main(void)
{
    struct message message = {0};
    while (next_message(&message)) {
        if (answer_system(&message, "\"good.echo\""))
            continue;
        if (is_method(&message, "good.echo"))
            say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", message.id_text,
                params_of(&message));
        else if (message.id_text[0] != '\0')
            say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32601,"
                "\"message\":\"no such method\"}}",
                message.id_text);
    }
    return 0;
}
