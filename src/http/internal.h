/* What the files of the HTTP server share. */
#ifndef KAGED_HTTP_INTERNAL_H
#define KAGED_HTTP_INTERNAL_H

#include "http/http.h"

#include <llhttp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define HTTP_URL_MAX        ((size_t)16 * 1024)
#define HTTP_HEADERS_MAX    128
#define HTTP_SEGMENTS_MAX   16
#define HTTP_QUERY_MAX      256
#define HTTP_OPERATOR_MAX   64
#define HTTP_REQUEST_ID_MAX 64
#define HTTP_ALLOW_MAX      96

/* -- server.c ---------------------------------------------------------------------------------- */

struct http_server {
    struct loop *loop;
    struct host *host; /* borrowed, passed on to handlers only */
    struct http_limits limits;
    const struct http_route *routes;
    size_t route_count;

    uv_pipe_t listener;
    char *path; /* owned; NULL unless listening */
    dev_t path_device;
    ino_t path_inode;
    bool stopped;

    char own_name[HTTP_OPERATOR_MAX], root_name[HTTP_OPERATOR_MAX];
    struct stat user_namespace; /* the daemon's; device and inode tell it from others */

    struct kg_rate refusals;
    http_refused_fn *on_refused; /* or NULL */
    void *refused_data;

    struct http_connection *connections; /* those that are open */
    size_t connection_count;
    size_t open_handles; /* that libuv still holds, the listener included */
    struct loop_task free_task;
    bool freed;
    void (*on_freed)(void *data);
    void *data;
};

/* Whether the process behind fd may use the API, and the name of its user. */
int http_server_check_peer(const struct http_server *server, int fd, const struct ucred *peer,
                           char ret_operator[HTTP_OPERATOR_MAX], struct kg_err *err);
/* libuv has let go of one handle. */
void http_server_handle_closed(struct http_server *server);

/* -- connection.c ------------------------------------------------------------------------------ */

struct http_connection;
/* Takes the connection that waits at the listener. */
void http_connection_accept(struct http_server *server);
bool http_connection_is_idle(const struct http_connection *connection);
struct http_connection *http_connection_next(const struct http_connection *connection);
/* The client is gone, or has to go. */
void http_connection_close(struct http_connection *connection);
/* Sends the answer to the request that runs, which the connection forgets. */
void http_connection_send(struct http_connection *connection, struct kg_str head,
                          struct kg_str body, bool keep_alive);
/* Whether another request may come after this one. */
bool http_connection_stays(const struct http_connection *connection);

/* -- request.c --------------------------------------------------------------------------------- */

/* A part of the head. Offsets, since the head moves while it grows. */
struct http_span {
    uint32_t at, length;
};

struct http_field {
    struct http_span name, value;
};

struct http_pair {
    struct kg_str name, value;
};

/* Where the reader of the head is; it sees each byte before the parser does. */
struct http_scan {
    uint32_t lines;       /* that are complete */
    uint32_t line_length; /* of the one that is being read */
    bool after_cr;
    bool done; /* the empty line was read */
};

struct http_refusal {
    int status; /* 0: that of the error's row */
    struct kg_err err;
};

struct http_request {
    struct http_connection *connection; /* NULL: the client left */
    struct host *host;
    char operator_id[HTTP_OPERATOR_MAX];
    char request_id[HTTP_REQUEST_ID_MAX + 1];

    struct kg_buf head;
    struct http_scan scan;
    bool head_done; /* the parser has seen all of it */
    struct http_span url;
    struct http_field *fields; /* owned */
    size_t field_count;
    enum llhttp_method method;
    bool http_1_0, keep_alive;

    char *decoded; /* owned: what segments and query point into */
    struct kg_str segments[HTTP_SEGMENTS_MAX];
    size_t segment_count;
    struct http_pair *query; /* owned */
    size_t query_count;
    const struct http_route *route;
    char allow[HTTP_ALLOW_MAX]; /* for the Allow header, or "" */

    struct kg_buf body;
    size_t body_max;
    uint64_t body_wire_bytes; /* with the framing of chunks */
    bool expects_continue;

    struct http_refusal *refusal; /* owned; NULL: nothing is wrong so far */
    void (*on_gone)(void *data);
    void *on_gone_data;
};

struct http_request *http_request_new(struct http_connection *connection, struct host *host,
                                      const char *operator_id);
void http_request_free(struct http_request *request);
struct kg_str http_request_text(const struct http_request *request, struct http_span span);
struct kg_str http_request_path(const struct http_request *request); /* as it was sent */
const char *http_request_method(const struct http_request *request);
bool http_request_has_body(const struct http_request *request);
/* The error of a refusal, to be filled in; status 0 means that of its row. */
struct kg_err *http_request_refuse(struct http_request *request, int status);
/* Takes X-Request-Id if it is acceptable, else makes an id. */
void http_request_identify(struct http_request *request);
/* Splits and decodes the url into segments and query. */
int http_request_decode_url(struct http_request *request);
void http_request_answer(struct http_request *request, int status, const char *content_type,
                         struct kg_str body);

/* -- router.c ---------------------------------------------------------------------------------- */

/*
 * Finds the route and checks the request against its row; refuses the request if it does not fit.
 */
int http_router_find(const struct http_server *server, struct http_request *request);
/* The part of the pattern that starts at *at, without slashes; false at the end. */
bool http_pattern_next(const char *pattern, size_t *at, struct kg_str *ret_part);

/* -- handlers, for the table of routes --------------------------------------------------------- */

/* The plugin of the path; answers 404 itself. */
struct host_plugin *http_find_plugin(struct http_request *request);
http_handler_fn http_handle_storage;
http_handler_fn http_handle_storage_export;
http_handler_fn http_handle_storage_reset;

#endif
