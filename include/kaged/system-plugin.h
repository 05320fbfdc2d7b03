/*
 * System plugins of kaged: shared objects that the operator loads into the daemon by
 * [system_plugins.NAME] in local.toml. See kaged-system-plugin(3), which has a whole one.
 *
 * What grows later grows at its end, and each struct begins with its size: a plugin that was built
 * with an older header works on, and one that was built with a newer header works as long as it
 * uses nothing that the daemon does not know.
 */
#ifndef KAGED_SYSTEM_PLUGIN_H
#define KAGED_SYSTEM_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -- what happens ------------------------------------------------------------------------------ */

/* Given to a hook after the fact, and gone when it returns. */
struct kaged_event {
    size_t size;
    const char *hook; /* "auth.launchUrlReady" */
    int64_t at_ms;    /* when it happened, in milliseconds since 1970 */
    const char *json; /* all of it, an object: {"event":HOOK,"at":TIME,FIELD:VALUE,...} */
};

typedef void kaged_hook(void *state, const struct kaged_event *event);

/* -- what the daemon does for a plugin --------------------------------------------------------- */

enum kaged_level { KAGED_DEBUG, KAGED_INFO, KAGED_WARN, KAGED_ERROR };

struct kaged_http_request {
    size_t size;
    const char *url;            /* http:// or https:// */
    const char *method;         /* NULL: POST with a body, GET without */
    const char *const *headers; /* "Name: value", NULL at the end; or NULL */
    const char *body;           /* UTF-8, at most 1 MiB; or NULL */
    uint32_t timeout_ms;        /* of the whole, 10 to 300,000; 0: 10,000 */
};

/* Gone when the callback returns. */
struct kaged_http_answer {
    size_t size;
    int status;       /* of HTTP; 0: there is none, and error says why */
    const char *body; /* at most its first 64 KiB; what is no UTF-8 in it was replaced */
    size_t body_length;
    const char *error; /* "" if there is none */
};

/*
 * Each function may be called from any thread at any time, also after stop: then it does nothing,
 * and those that return an int return -ESHUTDOWN. 0 is success; -ENOBUFS: too much waits already;
 * -EINVAL: what was given does not fit, and the log says why. What they are given is copied.
 */
struct kaged {
    size_t size;
    const char *version; /* of the daemon */

    /* A line in the daemon's log, with the plugin's name. */
    void (*log)(const struct kaged *kaged, enum kaged_level level, const char *text);
    /* The table `config` of local.toml, a JSON object; it stays as it is until the daemon ends. */
    const char *(*config)(const struct kaged *kaged);
    /* One setting of it: a string as it is, all else as JSON; NULL: it is not set. It stays. */
    const char *(*setting)(const struct kaged *kaged, const char *name);
    /* One field of an event, in the same way; it is gone with the event. */
    const char *(*field)(const struct kaged_event *event, const char *name);
    /* Once, after so long, on the thread of the hooks; with 0 it is how to get there. */
    int (*timer)(const struct kaged *kaged, uint64_t delay_ms, void (*on_due)(void *data),
                 void *data);
    /* On the daemon's own loop. All of the daemon waits for it. */
    int (*run_on_loop)(const struct kaged *kaged, void (*function)(void *data), void *data);
    /*
     * Sends a request, by a process in a cage that reaches its host alone. on_answer comes once, on
     * the thread of the hooks; not after stop. Redirects are not followed.
     */
    int (*http)(const struct kaged *kaged, const struct kaged_http_request *request,
                void (*on_answer)(void *data, const struct kaged_http_answer *answer), void *data);
    /* The event system_plugin.event in the audit log; details: a JSON object, or NULL. */
    int (*audit)(const struct kaged *kaged, const char *event, const char *details);
};

/* -- what a plugin is -------------------------------------------------------------------------- */

/*
 * Every function of a plugin runs on one thread, which is the plugin's alone, one after the other.
 * One that takes over 50 ms is named in the daemon's log and by kaged doctor.
 */
struct kaged_system_plugin {
    size_t size;
    const char *name, *version; /* of the plugin itself */

    /* Before every hook; *state is theirs. NULL: it can work; else why not, in words. */
    const char *(*start)(const struct kaged *kaged, void **state);
    void (*stop)(void *state); /* after the last hook, when the daemon ends; or NULL */

    /*
     * NULL: not wanted. Looked at once start has returned, which may fill them in by what its
     * config asks for. Those that are must be named by `hooks` of [system_plugins.NAME].
     */
    kaged_hook *daemon_starting;
    kaged_hook *daemon_ready;
    kaged_hook *daemon_shutdown;
    kaged_hook *config_updated;
    kaged_hook *auth_nonce_issued;
    kaged_hook *auth_launch_url_ready;
    kaged_hook *auth_cookie_issued;
    kaged_hook *auth_failed;
    kaged_hook *transport_connected;
    kaged_hook *transport_request;
    kaged_hook *transport_closed;
    kaged_hook *plugin_state;
    kaged_hook *consent_raised;
    kaged_hook *audit_unavailable;
};

/* What the daemon looks for: KAGED_SYSTEM_PLUGIN(.name = "x", .start = start, ...); */
extern struct kaged_system_plugin kaged_system_plugin;
#define KAGED_SYSTEM_PLUGIN(...)                                                                   \
    __attribute__((visibility("default"))) struct kaged_system_plugin kaged_system_plugin = {      \
        .size = sizeof(struct kaged_system_plugin), __VA_ARGS__}

#ifdef __cplusplus
}
#endif

#endif
