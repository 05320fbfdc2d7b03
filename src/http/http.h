/*
 * The HTTP server: llhttp on libuv streams, over the unix socket and, with authentication, over
 * TCP. Routes are rows of one table; a handler gets a checked request and answers it, at once or
 * later.
 */
#ifndef KAGED_HTTP_H
#define KAGED_HTTP_H

#include "base/json/json.h"
#include "base/problems.h"
#include "host/host.h"
#include "live/live.h"
#include "loop/loop.h"
#include "native/native.h"

struct http_server;
struct http_request;

typedef void http_handler_fn(struct http_request *request);

struct http_parameter {
    const char *name;
    const char *type; /* a row of http_types */
    const char *meaning;
};

/* Whom what a route is about belongs to: the node that has it answers, see nodes.c. */
enum http_of {
    HTTP_OF_NOBODY,       /* any node answers */
    HTTP_OF_PROJECT,      /* that {id} of the path, or the query's project, names; none: any node */
    HTTP_OF_SESSION,      /* that {id} names: the node that has its project */
    HTTP_OF_ORCHESTRATOR, /* that {instance_id} or X-INSTANCE-ID names */
};

/* One row is the whole truth about one route. */
struct http_route {
    const char *method;     /* "GET" */
    const char *pattern;    /* "/api/v1/plugins/{name}/call/{method}" */
    const char *permission; /* the scope it needs; "any": none, but be known; "": open */
    size_t body_max;        /* 0: takes no body; SIZE_MAX: limits.http_body_bytes */
    const struct http_parameter *query; /* those it knows, ended by a NULL name; NULL: none */
    http_handler_fn *handle;
    const char *summary;
    const char *operation; /* its name for programs: "plugin_call" */
    const char *answer;    /* a schema of schema/api-v1.json, or a media type: "text/plain" */
    const char *body;      /* a schema, which the router checks the body against, or a media type */
    const struct http_parameter *headers; /* as query, but others may come as well */
    int status;                           /* of the answer; 0: 200 */
    bool any_query;                       /* query parameters are free (a call's parameters) */
    bool at_once;                         /* it waits for nothing */
    bool passes_body; /* it is passed on as the bytes that came, and checked by who takes them */
    bool streams; /* the handler runs before the body is there, and reads it by http_read_body */
    enum http_of of;
};
extern const struct http_route http_routes[];
extern const size_t http_route_count;

/* What a parameter can be. */
struct http_type {
    const char *name;
    const char *schema; /* JSON Schema, for OpenAPI */
    bool (*fits)(struct kg_str text);
    const char *what; /* "an integer" */
    const char *hint; /* NULL: none */
};
extern const struct http_type http_types[]; /* ended by a NULL name */
/* The type of that name, which must be one of them. */
const struct http_type *http_type_find(const char *name);

/* The routes as an OpenAPI 3.1 document. */
void http_openapi_put(struct kg_buf *out, const struct http_route *routes, size_t route_count);

/* From config's limits.http_*; a change applies to what comes after it. */
struct http_limits {
    size_t header_bytes; /* request line and headers together */
    size_t body_bytes;   /* of a route whose body_max is SIZE_MAX */
    size_t connections;
    uint64_t idle_ms; /* for a request to come in whole, an answer to be read, and between them */
    size_t websockets;
    size_t websocket_queue_bytes; /* of events that wait for one reader */
    uint64_t websocket_ping_ms;   /* between two pings; the one before must be answered by then */
    size_t bodies_bytes;          /* of all bodies in memory; one alone is taken whatever it has */
};

/* Whether daemon.bind is an address and a port, and one that may be listened on in this mode. */
int http_address_check(const char *bind, bool behind_proxy, struct kg_err *err);
/* Whether the secret of a proxy is long enough, and can stand in a header. */
int http_nonce_check(struct kg_str nonce, struct kg_err *err);

/* Whether the parser that this program found on the machine refuses what is malformed. */
int http_parser_check(struct kg_err *err);

/* host is borrowed and not looked at; handlers reach it by http_host. SIGPIPE must be ignored. */
struct http_server *http_server_new(struct loop *loop, struct host *host,
                                    const struct http_limits *limits,
                                    const struct http_route *routes, size_t route_count);
/* Borrowed, like the host; before the server listens. */
void http_server_set_sessions(struct http_server *server, struct sessions *sessions);
struct mcp;
void http_server_set_mcp(struct http_server *server, struct mcp *mcp); /* the same */
struct catalog;
void http_server_set_catalog(struct http_server *server, struct catalog *catalog); /* the same */
/* The same: who is told of connections and requests. */
void http_server_set_native(struct http_server *server, struct native *native);
/* Told of a process that may not use the API and was turned away; not of more than one a second. */
typedef void http_refused_fn(void *data, uid_t uid, pid_t pid, const char *reason);
void http_server_on_refused(struct http_server *server, http_refused_fn *on_refused, void *data);
void http_server_set_limits(struct http_server *server, const struct http_limits *limits);
/* Binds PATH (0600) after removing a stale socket there. */
int http_server_listen(struct http_server *server, const char *path, struct kg_err *err);
/*
 * Binds "127.0.0.1:7777" or "[::1]:0", with port 0 to a free port; only a loopback address, unless
 * a proxy says who comes. The server must have its authentication by then.
 */
int http_server_listen_tcp(struct http_server *server, const char *bind, struct kg_err *err);
/* As a URL has it, the port as it is; NULL if it does not listen on TCP. */
const char *http_server_address(const struct http_server *server);
/* Why it does not, although it was asked to; or NULL. */
const char *http_server_tcp_problem(const struct http_server *server);
/* Takes a socket that listens at PATH already, as a service manager passes it; its file stays. */
int http_server_adopt(struct http_server *server, int fd, const char *path, struct kg_err *err);
/* Takes no new connection and closes idle ones; requests that run are still answered. */
void http_server_stop(struct http_server *server);
/*
 * Closes everything; on_gone is called for requests that run, and they stay valid until answered.
 * on_freed (or NULL) comes when libuv has let go, never before this returns. NULL is left alone.
 */
void http_server_free(struct http_server *server, void (*on_freed)(void *data), void *data);

/* -- authentication: who may use the server over TCP, see auth.c ------------------------------ */

enum http_auth_mode {
    HTTP_AUTH_LOCAL,    /* launch URL and API tokens */
    HTTP_AUTH_PROXY,    /* a reverse proxy knows who it is */
    HTTP_AUTH_INSECURE, /* everybody on this machine */
};
struct catalog;
struct cluster;
struct http_auth_options {
    struct state_keeper *keeper;   /* borrowed: where tokens and sessions are kept */
    struct audit *audit;           /* borrowed */
    struct native *native;         /* borrowed: who is told of launch URLs */
    const struct catalog *catalog; /* borrowed: who tokens belong to */
    const char *launch_file;       /* run/launch-url */
    enum http_auth_mode mode;
    struct kg_str nonce;   /* the proxy's secret */
    struct cluster *nodes; /* borrowed: who else makes tokens and takes them back; may be NULL */
    void (*on_gone)(void *data); /* another node has taken some back; may be NULL */
    void *data;
};
/* What a reload can change. */
struct http_auth_limits {
    char *const *hosts; /* names that are the daemon's; ended by NULL */
    int64_t session_ms; /* of sessions that begin from now on */
    uint32_t failures_per_min;
};
struct http_auth;
struct http_auth *http_auth_new(struct loop *loop, const struct http_auth_options *options,
                                const struct http_auth_limits *limits, struct kg_err *err);
void http_auth_set_limits(struct http_auth *auth, const struct http_auth_limits *limits);
void http_auth_free(struct http_auth *auth); /* after the server; takes NULL */
void http_server_set_auth(struct http_server *server, struct http_auth *auth); /* borrowed */
/* Credentials were taken back: connections that outlive their request look whether they may stay.
 */
void http_server_doubt(struct http_server *server);
/* Leaves a launch URL in its file, if this is the way in. */
int http_server_offer_launch(struct http_server *server, struct kg_err *err);

/* -- other nodes: who answers instead of us, and for whom we do; see nodes.c ------------------- */

struct link_keys;
/* Who has what, as far as this node knows. */
struct http_nodes_place {
    /* The node that has the project; NULL: this one has it, or may. Until the next turn. */
    const char *(*holder)(void *data, const char *project);
    /* Where that node is reached; NULL: it is away. Until the next turn. */
    const char *(*address)(void *data, const char *node);
    void *data;
};
struct http_nodes_options {
    const char *node;             /* our own name */
    const char *listen;           /* where other nodes connect */
    const char *address;          /* as they can reach it; "": as it listens */
    const struct link_keys *keys; /* copied */
    struct audit *audit;          /* borrowed, or NULL */
    struct http_nodes_place place;
};
struct http_nodes;
/* Listens from then on. It is the server's, which frees it. */
struct http_nodes *http_nodes_new(struct http_server *server,
                                  const struct http_nodes_options *options, struct kg_err *err);
/* Where others find this node. */
const char *http_nodes_address(const struct http_nodes *nodes);

/* -- requests ---------------------------------------------------------------------------------- */

struct host *http_host(const struct http_request *request);
struct sessions *http_sessions(const struct http_request *request);
const char *http_operator(const struct http_request *request); /* NULL: unknown */
/* The server that the request came to; NULL if its connection is gone. */
const struct http_server *http_server_of(const struct http_request *request);
const char *http_request_id(const struct http_request *request); /* req_..., also sent back */
/* Both of them, for all that is done for the request; the request holds the first reference. */
struct host_asker *http_asker(struct http_request *request);
struct kg_str http_body(const struct http_request *request);
/* The object that fits the schema of the route's row; of a request without a body it is empty. */
const struct kg_node *http_body_tree(const struct http_request *request);
/* Members of it. A text is the caller's to free; NULL if it is absent or null. */
char *http_body_text(const struct http_request *request, const char *key);
bool http_body_flag(const struct http_request *request, const char *key, bool fallback);
int64_t http_body_int(const struct http_request *request, const char *key, int64_t fallback);
/* The {name} of the pattern, decoded; empty if there is none. */
struct kg_str http_path_parameter(const struct http_request *request, const char *name);
/* data NULL if not given. */
struct kg_str http_query_parameter(const struct http_request *request, const char *name);
/* Of one whose row says that it is a number; of a boolean: whether it is true. */
int64_t http_query_int(const struct http_request *request, const char *name, int64_t fallback);
bool http_query_flag(const struct http_request *request, const char *name);
/* Walks all query parameters; start with *position 0. */
bool http_query_next(const struct http_request *request, size_t *position, struct kg_str *ret_name,
                     struct kg_str *ret_value);
struct kg_str http_header(const struct http_request *request, const char *name); /* lower case */
/* Called if the client goes away before the answer, which is still owed to free the request. */
void http_on_gone(struct http_request *request, void (*on_gone)(void *data), void *data);

/* Adds a header to the answer; neither text may hold a line end. */
void http_add_header(struct http_request *request, const char *name, const char *value);

/* -- a body in pieces, for a route that streams ------------------------------------------------ */

struct http_body_ops {
    void (*on_piece)(void *data, struct kg_str piece); /* which dies with the callback */
    /* Once, at the end; with an error if the rest does not come, and that is the answer then. */
    void (*on_end)(void *data, const struct kg_err *err_or_null);
};
/* Until this is called nothing of the body is read. Who answers before the end hears no more. */
void http_read_body(struct http_request *request, const struct http_body_ops *ops, void *data);
/* The client has to wait with what follows. */
void http_pause_body(struct http_request *request, bool paused);

/* -- an answer in pieces, when its length is not known yet ------------------------------------- */

void http_reply_begin(struct http_request *request, int status, const char *content_type);
/* False: the client does not read fast enough; better wait for on_room. */
bool http_reply_piece(struct http_request *request, struct kg_str piece);
void http_reply_end(struct http_request *request); /* the request must not be used afterwards */
void http_on_room(struct http_request *request, void (*on_room)(void *data), void *data);

/* -- a WebSocket on which the daemon speaks and the client listens ----------------------------- */

struct http_websocket;
struct http_websocket_ops {
    /*
     * The text to send now, which stays until the next question: then it is sent. False: there is
     * none, and http_websocket_wake says when there is.
     */
    bool (*next)(void *data, struct kg_str *ret_text);
    void (*on_gone)(void *data); /* the socket is no more; never before http_websocket_new ends */
};
/*
 * Takes the request, in its handler. NULL: it is answered, since it does not ask for a WebSocket as
 * it should, or there are too many.
 */
struct http_websocket *http_websocket_new(struct http_request *request,
                                          const struct http_websocket_ops *ops, void *data);
void http_websocket_wake(struct http_websocket *socket);

/* Events of the host on a WebSocket, with filters; see events.c. */
enum { HTTP_EVENT_ANY = (1 << HOST_EVENT_TYPE_COUNT) - 1 };
void http_serve_events(struct http_request *request, struct host_events *events, unsigned types);

/* -- answers ----------------------------------------------------------------------------------- */

/* Each answers; the request must not be used afterwards. */
void http_reply(struct http_request *request, int status, struct kg_str json);
/* content_type NULL: there is no body. */
void http_reply_text(struct http_request *request, int status, const char *content_type,
                     struct kg_str body);
/* {"error":{"code","message","hint","request_id"}}, with the status of the error's row. */
void http_reply_error(struct http_request *request, const struct kg_err *err);
/* The same with "problems", all that is wrong with a file; NULL: none of those. */
void http_reply_problems(struct http_request *request, const struct kg_err *err,
                         const struct kg_problems *problems_or_null);
/* For who was asked in between: JSON with the status of the row, or an error. data: the request. */
void http_on_answer(void *data, struct kg_str json, const struct kg_err *err_or_null);

#endif
