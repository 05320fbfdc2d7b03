/*
 * Streams of server-sent events. A stream is a row of messages, and an exchange that carries it
 * takes them as fast as its client reads; what a client does not read is bounded, and the oldest
 * goes first. In a session events have ids, and stay for a while after they were sent: who comes
 * back with the last one that it saw gets what followed it, and never anything of another's stream.
 */
#include "mcp/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define RETRY_MS 3000 /* that a client should wait before it comes back */

struct mcp_event {
    struct mcp_event *next;
    uint64_t sequence;
    size_t length;
    char text[]; /* the message */
};

struct mcp_stream *mcp_stream_new(struct mcp *mcp, struct mcp_client *client_or_null)
{
    struct mcp_stream *stream = kg_alloc(sizeof(*stream));
    stream->mcp = mcp;
    stream->client = client_or_null;
    stream->last = &stream->first;
    stream->sequence = 1;
    if (client_or_null != NULL) {
        stream->next = client_or_null->streams;
        client_or_null->streams = stream;
    }
    return stream;
}

static void drop_first(struct mcp_stream *stream)
{
    struct mcp_event *event = stream->first;
    stream->first = event->next;
    if (stream->unsent == event)
        stream->unsent = event->next;
    if (stream->first == NULL)
        stream->last = &stream->first;
    stream->bytes -= event->length;
    free(event);
}

void mcp_stream_free(struct mcp_stream *stream)
{
    if (stream->client != NULL)
        KG_UNLINK(stream->client->streams, stream);
    while (stream->first != NULL)
        drop_first(stream);
    free(stream);
}

bool mcp_streams_have_room(const struct mcp *mcp)
{
    return mcp->stream_count < (size_t)host_config(mcp->host)->limits_mcp_streams;
}

/* -- ids: TAG-STREAM-SEQUENCE ------------------------------------------------------------------ */

static void put_id(const struct mcp_stream *stream, uint64_t sequence, struct kg_buf *out)
{
    if (stream->client != NULL)
        kg_buf_printf(out, "id: %s-%llu-%llu\n", stream->client->tag,
                      (unsigned long long)stream->number, (unsigned long long)sequence);
}

static bool take_number(struct kg_str text, uint64_t *ret_number)
{
    int64_t number;
    if (!kg_str_to_int(text, &number) || number < 0)
        return false;
    *ret_number = (uint64_t)number;
    return true;
}

struct mcp_stream *mcp_stream_find(const struct mcp_client *client, struct kg_str event_id,
                                   uint64_t *ret_sequence)
{
    uint64_t number;
    struct kg_str rest = event_id;
    if (!kg_str_is(kg_str_cut(&rest, '-'), client->tag) ||
        !take_number(kg_str_cut(&rest, '-'), &number) || !take_number(rest, ret_sequence))
        return NULL;
    struct mcp_stream *stream = client->streams;
    while (stream != NULL && stream->number != number)
        stream = stream->next;
    return stream;
}

/* -- putting in -------------------------------------------------------------------------------- */

/* A line end in JSON is white space, and would cut an event. */
static void copy_in_one_line(char *to, struct kg_str text)
{
    memcpy(to, text.data, text.length);
    for (size_t i = 0; i < text.length; i++)
        if (to[i] == '\n' || to[i] == '\r')
            to[i] = ' ';
}

void mcp_stream_put(struct mcp_stream *stream, struct kg_str message)
{
    size_t most = (size_t)host_config(stream->mcp->host)->limits_mcp_queue_bytes;
    while (stream->first != NULL && stream->bytes + message.length > most)
        drop_first(stream);
    struct mcp_event *event = kg_realloc(NULL, sizeof(*event) + message.length);
    event->next = NULL;
    event->sequence = stream->sequence++;
    event->length = message.length;
    copy_in_one_line(event->text, message);
    *stream->last = event;
    stream->last = &event->next;
    stream->bytes += message.length;
    if (stream->unsent == NULL)
        stream->unsent = event;
    mcp_stream_flush(stream);
}

void mcp_stream_end(struct mcp_stream *stream)
{
    stream->has_ended = true;
    mcp_stream_flush(stream);
}

/* -- carrying ---------------------------------------------------------------------------------- */

static void send_event(struct mcp_stream *stream, const struct mcp_event *event)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct mcp_exchange *exchange = stream->exchange;
    kg_buf_reserve(&text, event->length + 64);
    put_id(stream, event->sequence, &text);
    kg_buf_text(&text, "event: message\ndata: ");
    kg_buf_append(&text, event->text, event->length);
    kg_buf_text(&text, "\n\n");
    exchange->is_full = !exchange->ops->piece(exchange->carrier, kg_buf_view(&text));
}

void mcp_stream_flush(struct mcp_stream *stream)
{
    struct mcp_exchange *exchange = stream->exchange;
    while (exchange != NULL && !exchange->is_full && stream->unsent != NULL) {
        send_event(stream, stream->unsent);
        stream->unsent = stream->unsent->next;
    }
    if (exchange != NULL && stream->unsent == NULL && stream->has_ended)
        mcp_exchange_end(exchange);
}

void mcp_stream_comment(struct mcp_stream *stream)
{
    struct mcp_exchange *exchange = stream->exchange;
    if (!exchange->is_full)
        exchange->is_full = !exchange->ops->piece(exchange->carrier, KG_STR(": \n\n"));
}

/* Where to come back to is told first; an older client would take what has no data for a message.
 */
static void send_first(struct mcp_stream *stream, uint64_t after)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (stream->client == NULL) {
        kg_buf_text(&text, ": \n\n");
    } else {
        bool primes = strcmp(stream->client->revision, MCP_LATEST) == 0;
        if (primes)
            put_id(stream, after, &text);
        kg_buf_printf(&text, "retry: %d\n%s\n", RETRY_MS, primes ? "data: \n" : "");
    }
    struct mcp_exchange *exchange = stream->exchange;
    exchange->is_full = !exchange->ops->piece(exchange->carrier, kg_buf_view(&text));
}

void mcp_stream_carry(struct mcp_stream *stream, struct mcp_exchange *exchange, uint64_t after)
{
    stream->exchange = exchange;
    exchange->stream = stream;
    stream->mcp->stream_count++;
    stream->unsent = stream->first;
    while (stream->unsent != NULL && stream->unsent->sequence <= after)
        stream->unsent = stream->unsent->next;
    exchange->ops->begin(exchange->carrier);
    send_first(stream, after);
    mcp_stream_flush(stream);
}

void mcp_stream_leave(struct mcp_stream *stream)
{
    stream->exchange->stream = NULL;
    stream->exchange = NULL;
    stream->mcp->stream_count--;
}

void mcp_stream_let_go(struct mcp_stream *stream)
{
    mcp_stream_leave(stream);
    if (stream->client == NULL)
        mcp_stream_free(stream);
    else
        mcp_client_tidy(stream->client);
}
