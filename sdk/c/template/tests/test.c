/* Run with make test: a host in memory, no daemon. */
#define main plugin_main
#include "../plugin.c"
#undef main

#include <string.h>

static int failed;

static void check(const char *what, const char *got, const char *wanted)
{
    if (got != NULL && strcmp(got, wanted) == 0) {
        printf("ok: %s\n", what);
    } else {
        printf("FAILED: %s: got %s, wanted %s\n", what, got ? got : "nothing", wanted);
        failed = 1;
    }
}

int main(void)
{
    struct kaged_test *host = kaged_test_start(&plugin, "{\"word\":\"Welcome\"}");
    kaged_test_call(host, "my-plugin.greet", "{\"name\":\"Ada\"}");
    check("greets with the word of its config", kaged_test_result(host),
          "{\"text\":\"Welcome, Ada!\"}");
    kaged_test_call(host, "greeting.say", "{}");
    check("refuses to greet nobody", kaged_test_message(host),
          "invalid params: name must be a string");
    kaged_test_call(host, "kaged.hook.on_session_start", "{}");
    check("tells a session of its tool", kaged_test_result(host),
          "{\"inject\":\"The tool my-plugin.greet greets people.\"}");
    kaged_test_stop(host);
    return failed;
}
