/*
 * Events as they happen, on a WebSocket. All readers share the text of an event; what waits for one
 * of them is bounded, and a reader that is too slow loses events, is told how many, and costs the
 * others nothing. Nobody is sent what he may not see.
 */
#include "http/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define MESSAGE_OVERHEAD 64 /* bytes that a message costs besides its text */
#define QUEUE_START      16 /* a power of two, as all sizes of a queue are */

struct reader {
    struct host_listener listener;
    struct host_events *events;
    struct http_websocket *socket; /* NULL: there was none, or it is gone */
    unsigned types;                /* bits of enum host_event_type */
    char *plugin;                  /* owned; NULL: any */
    char *event;                   /* owned; NULL: any */
    bool is_prefix;                /* the event is what names start with */

    struct host_message **queue; /* owned, a ring */
    size_t capacity, first, count;
    size_t bytes, bytes_max;
    uint64_t missed;              /* since the last message in the queue */
    struct host_message *current; /* is being sent */
};

/* -- the queue --------------------------------------------------------------------------------- */

/* The place of the index-th message in the queue. */
static struct host_message **http_events_slot(const struct reader *reader, size_t index)
{
    return &reader->queue[(reader->first + index) & (reader->capacity - 1)];
}

static void http_events_grow(struct reader *reader)
{
    size_t capacity = reader->capacity ? 2 * reader->capacity : QUEUE_START;
    struct host_message **queue = kg_alloc_array(capacity, sizeof(struct host_message *));
    for (size_t i = 0; i < reader->count; i++)
        queue[i] = *http_events_slot(reader, i);
    free(reader->queue);
    reader->queue = queue;
    reader->capacity = capacity;
    reader->first = 0;
}

static size_t http_events_cost(const struct host_message *message)
{
    return message->length + MESSAGE_OVERHEAD;
}

/* Takes the reference. */
static void http_events_push(struct reader *reader, struct host_message *message)
{
    if (reader->count == reader->capacity)
        http_events_grow(reader);
    *http_events_slot(reader, reader->count++) = message;
    reader->bytes += http_events_cost(message);
}

static struct host_message *pop(struct reader *reader)
{
    struct host_message *message = *http_events_slot(reader, 0);
    reader->first++;
    reader->count--;
    reader->bytes -= http_events_cost(message);
    if (reader->count == 0 && reader->capacity > QUEUE_START) {
        kg_free(&reader->queue);
        reader->capacity = reader->first = 0;
    }
    return message;
}

/* In the place of what was passed over. */
static void push_missed(struct reader *reader)
{
    char text[64];
    if (reader->missed == 0)
        return;
    int length = snprintf(text, sizeof(text), "{\"type\":\"missed\",\"count\":%llu}",
                          (unsigned long long)reader->missed);
    reader->missed = 0;
    http_events_push(reader, host_message_new((struct kg_str){text, (size_t)length}));
}

/* -- events ------------------------------------------------------------------------------------ */

static bool http_events_wants(const struct reader *reader, const struct host_event *event)
{
    if ((reader->types >> event->type & 1) == 0)
        return false;
    if (reader->plugin != NULL && !kg_str_is(event->plugin, reader->plugin))
        return false;
    if (reader->event == NULL)
        return true;
    return reader->is_prefix ? kg_str_starts(event->name, reader->event)
                             : kg_str_is(event->name, reader->event);
}

/* One that is alone fits always: it is no longer than a line of a plugin. */
static void http_events_on_event(struct host_listener *listener, struct host_event *event)
{
    struct reader *reader = KG_CONTAINER(listener, struct reader, listener);
    if (!http_events_wants(reader, event))
        return;
    struct host_message *message = host_event_message(event);
    if (reader->count > 0 && reader->bytes + http_events_cost(message) > reader->bytes_max) {
        reader->missed++;
        host_message_free(message);
        return;
    }
    push_missed(reader);
    http_events_push(reader, message);
    http_websocket_wake(reader->socket);
}

static bool next_text(void *data, struct kg_str *ret_text)
{
    struct reader *reader = data;
    host_message_free(kg_steal(&reader->current));
    if (reader->count == 0)
        push_missed(reader);
    if (reader->count == 0)
        return false;
    reader->current = pop(reader);
    *ret_text = (struct kg_str){reader->current->text, reader->current->length};
    return true;
}

/* -- life -------------------------------------------------------------------------------------- */

static void http_events_reader_free(struct reader *reader)
{
    host_message_free(reader->current);
    while (reader->count > 0)
        host_message_free(pop(reader));
    free(reader->queue);
    free(reader->plugin);
    free(reader->event);
    free(reader);
}

static void http_events_on_gone(void *data)
{
    struct reader *reader = data;
    host_events_unlisten(reader->events, &reader->listener);
    http_events_reader_free(reader);
}

static int read_type(const struct http_request *request, unsigned *types, struct kg_err *err)
{
    struct kg_str wanted = http_query_parameter(request, "type");
    for (unsigned type = 0; type < HOST_EVENT_TYPE_COUNT; type++) {
        if (!kg_str_is(wanted, host_event_type_names[type]))
            continue;
        if ((*types & 1U << type) == 0)
            return kg_fail(err, KG_E_REFUSED, "you may not see events of the type %s",
                           host_event_type_names[type]);
        *types = 1U << type;
    }
    return 0;
}

static void read_filter(const struct http_request *request, struct reader *reader)
{
    struct kg_str plugin = http_query_parameter(request, "plugin");
    struct kg_str event = http_query_parameter(request, "event");
    reader->is_prefix = event.length > 0 && event.data[event.length - 1] == '*';
    event.length -= reader->is_prefix;
    if (plugin.length > 0)
        reader->plugin = kg_str_dup(plugin);
    if (event.length > 0)
        reader->event = kg_str_dup(event);
}

void http_serve_events(struct http_request *request, struct host_events *events, unsigned types)
{
    static const struct http_websocket_ops ops = {.next = next_text,
                                                  .on_gone = http_events_on_gone};
    struct kg_err err;
    if (read_type(request, &types, &err) < 0) {
        http_reply_error(request, &err);
        return;
    }
    struct reader *reader = kg_alloc(sizeof(*reader));
    reader->events = events;
    reader->listener.on_event = http_events_on_event;
    reader->types = types;
    reader->bytes_max = http_connection_server(request->connection)->limits.websocket_queue_bytes;
    read_filter(request, reader);
    reader->socket = http_websocket_new(request, &ops, reader);
    if (reader->socket == NULL)
        http_events_reader_free(reader);
    else
        host_events_listen(events, &reader->listener);
}

static unsigned visible_types(const struct http_request *request)
{
    unsigned types = HTTP_EVENT_ANY;
    if (!http_auth_allows(request, "audit:read"))
        types &= ~(1U << HOST_EVENT_AUDIT);
    if (!http_auth_allows(request, "sessions:read"))
        types &= ~(1U << HOST_EVENT_QUESTION | 1U << HOST_EVENT_BRANCH);
    return types;
}

void http_handle_events(struct http_request *request)
{
    http_serve_events(request, host_events(http_host(request)), visible_types(request));
}
