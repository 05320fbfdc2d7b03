/* A system plugin that does what its setting `act` says: right or wrong. */
#include <kaged/system-plugin.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct kaged *kaged;

static int acts(const char *act)
{
    const char *wanted = kaged->setting(kaged, "act");
    return wanted != NULL && strcmp(wanted, act) == 0;
}

static void tell(void *state, const struct kaged_event *event)
{
    (void)state;
    kaged->audit(kaged, event->hook, event->json);
}

static void wait_for_file(void *state, const struct kaged_event *event)
{
    (void)state, (void)event;
    while (access(kaged->setting(kaged, "file"), F_OK) != 0)
        usleep(5000);
}

static void take_long(void *state, const struct kaged_event *event)
{
    (void)state, (void)event;
    usleep(120000);
}

static void die(void *state, const struct kaged_event *event)
{
    (void)state, (void)event;
    kill(getpid(), SIGKILL);
}

static void say(void *data)
{
    kaged->audit(kaged, data, NULL);
}

static void *work(void *data)
{
    (void)data;
    kaged->run_on_loop(kaged, say, "loop");
    kaged->timer(kaged, 10, say, "timer");
    return NULL;
}

static void use_threads(void *state, const struct kaged_event *event)
{
    static pthread_t thread;
    (void)state, (void)event;
    pthread_create(&thread, NULL, work, NULL);
    pthread_detach(thread);
}

/* What does not fit is refused, each with its own number. */
static void ask_badly(void *state, const struct kaged_event *event)
{
    struct kaged_http_request no_url = {.size = sizeof(no_url)};
    struct kaged_http_request no_host = {.size = sizeof(no_host), .url = "ftp://x/"};
    struct kaged_http_request split = {.size = sizeof(split),
                                       .url = "http://127.0.0.1:1/",
                                       .headers = (const char *const[]){"A: b\r\nC: d", NULL}};
    char line[128];
    int timers = 0;
    (void)state, (void)event;
    while (kaged->timer(kaged, 3600000, say, "never") == 0)
        timers++;
    snprintf(line, sizeof(line), "{\"http\":[%d,%d,%d],\"audit\":[%d,%d],\"timers\":%d}",
             kaged->http(kaged, &no_url, NULL, NULL), kaged->http(kaged, &no_host, NULL, NULL),
             kaged->http(kaged, &split, NULL, NULL), kaged->audit(kaged, "", NULL),
             kaged->audit(kaged, "x", "[1]"), timers);
    kaged->audit(kaged, "refused", line);
}

static void register_all(void)
{
    kaged_hook **hooks = &kaged_system_plugin.daemon_starting;
    for (size_t i = 0; &hooks[i] <= &kaged_system_plugin.audit_unavailable; i++)
        hooks[i] = tell;
}

static const char *start(const struct kaged *given, void **state)
{
    (void)state;
    kaged = given;
    if (acts("fail"))
        return "it was told to fail";
    if (acts("hang"))
        pause();
    if (acts("tell"))
        register_all();
    if (acts("wait")) {
        kaged_system_plugin.transport_request = wait_for_file;
        kaged_system_plugin.daemon_ready = tell;
    }
    kaged_system_plugin.daemon_ready = acts("slow")      ? take_long
                                       : acts("die")     ? die
                                       : acts("threads") ? use_threads
                                       : acts("badly")   ? ask_badly
                                                         : kaged_system_plugin.daemon_ready;
    return NULL;
}

/* When all of the daemon is gone: what it was given is still there, and does nothing. */
__attribute__((destructor)) static void at_the_end(void)
{
    const struct kaged_http_request request = {.size = sizeof(request), .url = "http://127.0.0.1/"};
    if (kaged == NULL || !acts("late"))
        return;
    FILE *file = fopen(kaged->setting(kaged, "file"), "w");
    if (file == NULL)
        return;
    kaged->log(kaged, KAGED_INFO, "late");
    fprintf(file, "%d %d %d %d\n", kaged->timer(kaged, 0, say, "late"),
            kaged->run_on_loop(kaged, say, "late"), kaged->http(kaged, &request, NULL, NULL),
            kaged->audit(kaged, "late", NULL));
    fclose(file);
}

KAGED_SYSTEM_PLUGIN(.name = "acts", .version = "0.1.0", .start = start);
