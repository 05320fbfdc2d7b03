/* A plugin's life over stdio. */
#include "internal.h"

#include <stdio.h>

int kaged_run(const struct kaged_plugin *plugin)
{
    struct engine engine;
    struct stdio_link *stdio = stdio_link_new();
    engine_init(&engine, plugin, stdio_link_of(stdio));
    engine_loop(&engine);
    engine_shut_down(&engine);
    engine_free(&engine);
    stdio_link_free(stdio);
    fflush(stdout);
    return 0;
}
