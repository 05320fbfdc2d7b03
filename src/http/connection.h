/* A connection, for the files that make it up; see connection.c. */
#ifndef KAGED_HTTP_CONNECTION_H
#define KAGED_HTTP_CONNECTION_H

#include "http/internal.h"

/* For a refused client to read why. */
#define LINGER_MS 1000

enum http_phase {
    READING,   /* waits for a request or is in the middle of one */
    READY,     /* a request is whole or refused, and not handed on yet */
    RUNNING,   /* a handler has it */
    WRITING,   /* the answer does not fit the socket's buffer */
    UPGRADED,  /* another protocol reads and writes */
    LINGERING, /* answered for the last time; what still comes in is thrown away */
    CLOSED,
};

struct http_connection {
    struct http_connection *next, *previous;
    struct http_server *server;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } socket;
    struct http_source source;
    enum http_phase phase;
    bool reading;     /* libuv reads for us */
    bool input_ended; /* the client sends no more, but may still listen */
    bool advancing;   /* `http_connection_advance` is on the stack */
    bool last;        /* the answer on its way is the last one */
    bool unread;      /* the request was refused before all of it was read */
    bool apart;       /* it carries what lasts, and is not counted among the others */
    bool broken;      /* to be closed once nobody is in the middle of it */
    bool let_in;      /* who hears of connections has heard of it */
    struct loop_timer timer;
    struct loop_timer look; /* runs while nothing is read that would tell of its end */
    struct loop_task task;
    llhttp_t parser;
    struct http_request *request; /* from its first byte to its answer */
    struct kg_buf waiting;
    size_t waiting_used;
    size_t unsent;                        /* bytes of the answer when the timer was started */
    uint64_t streamed;                    /* the same for a body that streams in */
    struct kg_str piece;                  /* what the parser has just found of one */
    const struct http_takeover *takeover; /* of an UPGRADED one */
    void *takeover_data;
    char operator_id[HTTP_OPERATOR_MAX];
};

/* System plugins hear that it came, or went. */
void http_connection_tell(const struct http_connection *connection, enum native_hook hook);

static inline uv_stream_t *http_connection_stream(struct http_connection *connection)
{
    return &connection->socket.stream;
}

static inline int http_connection_fd(const struct http_connection *connection)
{
    uv_os_fd_t fd = -1;
    uv_fileno(&connection->socket.handle, &fd);
    return fd;
}

/* Bytes of what came in that nobody has taken yet. */
static inline size_t http_connection_waiting(const struct http_connection *connection)
{
    return connection->waiting.length - connection->waiting_used;
}

/* -- connection.c --------------------------------------------------------------------------------
 */

/* Puts one together for what comes from there; it is in the server's list. */
struct http_connection *http_connection_new(struct http_server *server, struct http_source source);
/* Takes every step that can be taken now. */
void http_connection_advance(struct http_connection *connection);
/* What is to be done once no step can be taken at once. */
void http_connection_settle(struct http_connection *connection);
/* What it is in the middle of may take so long. */
void http_connection_start_timer(struct http_connection *connection, uint64_t delay_ms);

/* -- head.c --------------------------------------------------------------------------------------
 */

/* Returns how many of the bytes belong to the head; a fault says why one cannot stand there. */
size_t http_head_scan(struct http_scan *scan, const char *bytes, size_t length,
                      const char **ret_fault);
/* Whether a whole head is one that all readers read alike; the request is refused otherwise. */
int http_head_check(struct http_request *request);
int http_head_fault(struct http_request *request, const char *what);

/* -- parse.c -------------------------------------------------------------------------------------
 */

void http_parse_begin(struct http_connection *connection);
/* The request has a refusal; what is left of it will not be read. */
void http_parse_refuse(struct http_connection *connection);
/* Takes bytes up to the end of one request; returns how many. */
size_t http_parse_feed(struct http_connection *connection, const char *bytes, size_t length);
/* Takes the next piece of a body that streams from what waits, and hands it on. */
void http_parse_stream(struct http_connection *connection);
/* Tells a client that waits for it to send its body. */
void http_parse_continue(struct http_connection *connection);

/* -- write.c -------------------------------------------------------------------------------------
 */

size_t http_write_left(struct http_connection *connection);
/* The client has to have taken some of it when the time is over. */
void http_write_watch(struct http_connection *connection);
/* Closing at once would take what is being used from under somebody's feet. */
void http_connection_close_later(struct http_connection *connection);

#endif
