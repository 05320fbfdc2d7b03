/*
 * What happens, told to whoever listens as it happens: notifications of plugins, changes of their
 * state, audit events. An event is written as JSON only if somebody wants it, once for all of them,
 * and what plugins wrote goes into it byte for byte. Nobody listens: nothing is done.
 */
#include "host/internal.h"

#include "redact/shared.h"

#include <assert.h>
#include <stdlib.h>

struct host_events {
    struct host_listener *listeners;
    struct host_listener *next; /* the one to be told after the one that is being told */
};

const char *const host_event_type_names[HOST_EVENT_TYPE_COUNT] = {
    [HOST_EVENT_NOTIFICATION] = "notification",
    [HOST_EVENT_STATE] = "state",
    [HOST_EVENT_AUDIT] = "audit",
    [HOST_EVENT_PROGRESS] = "progress",
    [HOST_EVENT_LOG] = "log",
    [HOST_EVENT_QUESTION] = "question",
    [HOST_EVENT_BRANCH] = "branch_moved",
};

struct host_events *host_events_new(void)
{
    return kg_alloc(sizeof(struct host_events));
}

void host_events_free(struct host_events *events)
{
    if (events == NULL)
        return;
    assert(events->listeners == NULL);
    free(events);
}

void host_events_listen(struct host_events *events, struct host_listener *listener)
{
    listener->next = events->listeners;
    events->listeners = listener;
}

void host_events_unlisten(struct host_events *events, struct host_listener *listener)
{
    KG_UNLINK(events->listeners, listener);
    if (events->next == listener)
        events->next = listener->next;
}

/* -- messages ---------------------------------------------------------------------------------- */

struct host_message *host_message_new(struct kg_str text)
{
    struct host_message *message = kg_realloc(NULL, sizeof(*message) + text.length);
    message->references = 1;
    message->length = text.length;
    memcpy(message->text, text.data, text.length);
    return message;
}

void host_message_free(struct host_message *message)
{
    if (message != NULL && --message->references == 0)
        free(message);
}

static void host_events_put_pair(struct kg_buf *buf, const char *key, struct kg_str text)
{
    kg_buf_text(buf, key);
    kg_json_put_string(buf, text);
}

static void host_events_put_text(struct kg_buf *buf, const char *key, const char *text_or_null)
{
    if (text_or_null != NULL)
        host_events_put_pair(buf, key, kg_str(text_or_null));
}

static void write_plugin_event(const struct host_event *event, struct kg_buf *buf)
{
    char at[KG_TIME_TEXT];
    kg_time_format(event->at_ms, at);
    host_events_put_pair(buf, "{\"type\":", kg_str(host_event_type_names[event->type]));
    host_events_put_pair(buf, ",\"plugin\":", event->plugin);
    host_events_put_text(buf, ",\"request_id\":", event->request_id);
    host_events_put_text(buf, ",\"session_id\":", event->session_id);
    if (event->type != HOST_EVENT_STATE) {
        static const char *const names[HOST_EVENT_TYPE_COUNT] = {
            [HOST_EVENT_NOTIFICATION] = ",\"method\":",
            [HOST_EVENT_PROGRESS] = ",\"method\":",
            [HOST_EVENT_LOG] = ",\"level\":",
            [HOST_EVENT_QUESTION] = ",\"state\":",
        };
        host_events_put_pair(buf, names[event->type], event->name);
        kg_buf_text(buf, ",\"params\":");
        kg_buf_str(buf, event->params.length > 0 ? event->params : KG_STR("null"));
    } else {
        host_events_put_pair(buf, ",\"from\":", kg_str(event->from));
        host_events_put_pair(buf, ",\"to\":", event->name);
        host_events_put_pair(buf, ",\"reason\":", kg_str(event->reason));
    }
    host_events_put_pair(buf, ",\"at\":", kg_str(at));
    kg_buf_char(buf, '}');
}

static void host_events_write_move(const struct host_event *event, struct kg_buf *buf)
{
    char at[KG_TIME_TEXT];
    kg_time_format(event->at_ms, at);
    host_events_put_pair(buf, "{\"type\":", kg_str(host_event_type_names[event->type]));
    host_events_put_pair(buf, ",\"session_id\":", kg_str(event->session_id));
    host_events_put_pair(buf, ",\"from\":", kg_str(event->from));
    host_events_put_pair(buf, ",\"to\":", event->name);
    host_events_put_pair(buf, ",\"at\":", kg_str(at));
    kg_buf_char(buf, '}');
}

/* An audit event is an object already: its type is put before its first member. */
static void write_event(const struct host_event *event, struct kg_buf *buf)
{
    if (event->type != HOST_EVENT_AUDIT) {
        (event->type == HOST_EVENT_BRANCH ? host_events_write_move : write_plugin_event)(event,
                                                                                         buf);
        return;
    }
    kg_buf_text(buf, "{\"type\":\"audit\",");
    kg_buf_append(buf, event->line.data + 1, event->line.length - 1);
}

struct host_message *host_event_message(struct host_event *event)
{
    if (event->message == NULL) {
        kg_auto(kg_buf_free) struct kg_buf text = {0}, shown = {0};
        write_event(event, &text);
        bool hides = redact_put_shared_json(kg_buf_view(&text), &shown);
        event->message = host_message_new(kg_buf_view(hides ? &shown : &text));
    }
    event->message->references++;
    return event->message;
}

/* -- what happens ------------------------------------------------------------------------------ */

/* A listener may leave while it is told, and so may others. */
static void host_events_tell(struct host_events *events, struct host_event *event)
{
    for (struct host_listener *at = events->listeners; at != NULL; at = events->next) {
        events->next = at->next;
        at->on_event(at, event);
    }
    host_message_free(event->message);
}

void host_events_notification(struct host_events *events, const char *plugin, struct kg_str method,
                              struct kg_str params)
{
    if (events->listeners == NULL)
        return;
    struct host_event event = {
        .type = HOST_EVENT_NOTIFICATION,
        .plugin = kg_str(plugin),
        .name = method,
        .params = params,
        .at_ms = kg_wall_ms(),
    };
    host_events_tell(events, &event);
}

void host_events_state(struct host_events *events, const char *plugin, const char *from,
                       const char *to, const char *reason)
{
    if (events->listeners == NULL)
        return;
    struct host_event event = {
        .type = HOST_EVENT_STATE,
        .plugin = kg_str(plugin),
        .name = kg_str(to),
        .from = from,
        .reason = reason,
        .at_ms = kg_wall_ms(),
    };
    host_events_tell(events, &event);
}

void host_events_progress(struct host_events *events, const char *plugin, const char *method,
                          const struct host_asker *asker, struct kg_str params)
{
    if (events->listeners == NULL)
        return;
    struct host_event event = {
        .type = HOST_EVENT_PROGRESS,
        .plugin = kg_str(plugin),
        .name = kg_str(method),
        .params = params,
        .request_id = asker->request_id,
        .session_id = asker->session_id,
        .at_ms = kg_wall_ms(),
    };
    host_events_tell(events, &event);
}

void host_events_log(struct host_events *events, const char *plugin, struct kg_str level,
                     struct kg_str message)
{
    if (events->listeners == NULL)
        return;
    struct host_event event = {
        .type = HOST_EVENT_LOG,
        .plugin = kg_str(plugin),
        .name = level,
        .params = message,
        .at_ms = kg_wall_ms(),
    };
    host_events_tell(events, &event);
}

void host_events_question(struct host_events *events, const char *plugin, const char *session_id,
                          const char *state, struct kg_str question)
{
    if (events->listeners == NULL)
        return;
    struct host_event event = {
        .type = HOST_EVENT_QUESTION,
        .plugin = kg_str(plugin),
        .name = kg_str(state),
        .params = question,
        .session_id = session_id,
        .at_ms = kg_wall_ms(),
    };
    host_events_tell(events, &event);
}

void host_events_branch(struct host_events *events, const char *session_id, const char *from,
                        const char *to)
{
    if (events->listeners == NULL)
        return;
    struct host_event event = {
        .type = HOST_EVENT_BRANCH,
        .name = kg_str(to),
        .from = from,
        .session_id = session_id,
        .at_ms = kg_wall_ms(),
    };
    host_events_tell(events, &event);
}

/* The plugin that an event is about is in its field "name"; others may have a name, too. */
static struct kg_str plugin_of_line(struct kg_str line, const char *event_name)
{
    struct kg_str name;
    if (strncmp(event_name, "plugin.", 7) != 0 || !kg_json_member(line, "name", &name) ||
        name.length < 2)
        return KG_STR_NULL;
    return (struct kg_str){name.data + 1, name.length - 2};
}

/* On its own: each call is audited twice, and mostly nobody listens. */
static __attribute__((noinline)) void tell_audited(struct host_events *events, struct kg_str line,
                                                   enum audit_event audited)
{
    const char *name = audit_event_row(audited)->name;
    struct host_event event = {
        .type = HOST_EVENT_AUDIT,
        .plugin = plugin_of_line(line, name),
        .name = kg_str(name),
        .line = line,
    };
    host_events_tell(events, &event);
}

void host_events_audit(struct host_events *events, struct kg_str line, enum audit_event audited)
{
    if (events->listeners != NULL)
        tell_audited(events, line, audited);
}
