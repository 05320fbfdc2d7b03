/*
 * What happens in the daemon, told to system plugins. Most of it is in the audit log, and is told
 * as it stands there, without what is secret; the rest is told where it happens.
 */
#include "cli/cli.h"

#include "cli/start_hooks.h"

#include <stdlib.h>
#include <unistd.h>

#define AUDIT_LOOK_MS 1000

struct start_hooks {
    struct host *host;
    struct native *native;
    struct loop *loop;
    struct host_listener listener;
    struct loop_timer audit_timer; /* runs if somebody wants to hear that the log fails */
    bool audit_fails;
};

static const struct {
    enum audit_event event;
    enum native_hook hook;
} audited[] = {
    {AUDIT_CONFIG_RELOADED, NATIVE_CONFIG_UPDATED},
    {AUDIT_AUTH_LAUNCH_MADE, NATIVE_AUTH_NONCE_ISSUED},
    {AUDIT_AUTH_SESSION_OPENED, NATIVE_AUTH_COOKIE_ISSUED},
    {AUDIT_AUTH_FAILED, NATIVE_AUTH_FAILED},
    {AUDIT_CONSENT_RAISED, NATIVE_CONSENT_RAISED},
};

static void start_hooks_on_event(struct host_listener *listener, struct host_event *event)
{
    struct start_hooks *hooks = KG_CONTAINER(listener, struct start_hooks, listener);
    if (event->type == HOST_EVENT_STATE)
        native_tell(hooks->native, NATIVE_PLUGIN_STATE, AUDIT_V_STR(event->plugin),
                    AUDIT_V_TEXT(event->from), AUDIT_V_STR(event->name),
                    AUDIT_V_TEXT(event->reason));
    if (event->type != HOST_EVENT_AUDIT)
        return;
    for (size_t i = 0; i < KG_COUNT(audited); i++)
        if (kg_str_is(event->name, audit_event_row(audited[i].event)->name))
            native_tell_object(hooks->native, audited[i].hook, event->line);
}

/* The log itself cannot tell. One that is only behind is not meant. */
static void on_audit_look(struct loop_timer *timer)
{
    struct start_hooks *hooks = KG_CONTAINER(timer, struct start_hooks, audit_timer);
    struct audit *audit = host_audit(hooks->host);
    const char *why = NULL;
    bool fails = !audit_ready(audit, &why) && !audit_is_behind(audit);
    if (fails && !hooks->audit_fails)
        native_tell(hooks->native, NATIVE_AUDIT_UNAVAILABLE, AUDIT_V_TEXT(why));
    hooks->audit_fails = fails;
    if (native_wants(hooks->native, NATIVE_AUDIT_UNAVAILABLE))
        loop_timer_start(hooks->loop, timer, AUDIT_LOOK_MS, on_audit_look);
}

struct start_hooks *start_hooks_open(struct host *host, struct native *native)
{
    struct start_hooks *hooks = kg_alloc(sizeof(*hooks));
    hooks->host = host;
    hooks->native = native;
    hooks->loop = host_loop(host);
    hooks->listener.on_event = start_hooks_on_event;
    host_events_listen(host_events(host), &hooks->listener);
    native_tell(native, NATIVE_DAEMON_STARTING, AUDIT_V_TEXT(KAGED_VERSION), AUDIT_V_INT(getpid()),
                AUDIT_V_TEXT(host_paths(host)->home));
    if (native_wants(native, NATIVE_AUDIT_UNAVAILABLE))
        loop_timer_start(hooks->loop, &hooks->audit_timer, AUDIT_LOOK_MS, on_audit_look);
    return hooks;
}

void start_hooks_close(struct start_hooks *hooks)
{
    if (hooks == NULL)
        return;
    host_events_unlisten(host_events(hooks->host), &hooks->listener);
    loop_timer_stop(hooks->loop, &hooks->audit_timer);
    free(hooks);
}
