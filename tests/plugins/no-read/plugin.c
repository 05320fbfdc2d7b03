/* Sends requests without end once it is called, and never reads again. */
#include "../plugin.h"

int main(void)
{
    struct message message = {0};
    while (next_message(&message) && !is_method(&message, "work.do"))
        answer_system(&message, "\"work.do\"");
    for (long id = 1;; id++)
        say("{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"kaged.storage.schema\"}", id);
}
