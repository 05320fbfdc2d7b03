/* A system plugin of a time to come: its table goes on, and something stands there. */
#include <kaged/system-plugin.h>

static const char *start(const struct kaged *kaged, void **state)
{
    (void)kaged, (void)state;
    return 0;
}

struct newer {
    struct kaged_system_plugin known;
    const char *unknown;
};

#ifndef UNKNOWN
#define UNKNOWN "a hook that nobody knows"
#endif

__attribute__((visibility("default"))) struct newer table __asm__("kaged_system_plugin") = {
    .known = {.size = sizeof(struct newer), .name = "newer", .start = start}, .unknown = UNKNOWN};
