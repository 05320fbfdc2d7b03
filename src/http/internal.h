/* What the files of the HTTP server share. */
#ifndef KAGED_HTTP_INTERNAL_H
#define KAGED_HTTP_INTERNAL_H

#include "catalog/catalog.h"
#include "cluster/link.h"
#include "http/http.h"
#include "projects/projects.h"

#include <llhttp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define HTTP_URL_MAX        ((size_t)16 * 1024)
#define HTTP_HEADERS_MAX    128
#define HTTP_SEGMENTS_MAX   16
#define HTTP_QUERY_MAX      256
#define HTTP_OPERATOR_MAX   64
#define HTTP_REQUEST_ID_MAX 64
#define HTTP_PROFILE_MAX    64
#define HTTP_ALLOW_MAX      96
#define HTTP_SOURCE_TEXT    48
#define HTTP_SOURCE_KEY     16

/* -- router.c ---------------------------------------------------------------------------------- */

/* The rows of the table by how many parts their patterns have, in the table's order. */
struct http_index {
    struct http_index_row *rows;         /* owned */
    size_t first[HTTP_SEGMENTS_MAX + 2]; /* of those with so many parts; then where all end */
};
void http_index_make(struct http_index *index, const struct http_route *routes, size_t count);
void http_index_free(struct http_index *index);

/* -- server.c ---------------------------------------------------------------------------------- */

/* What all bodies in memory take; a request may outlive its server, and gives its part back. */
struct http_budget {
    size_t held;
    size_t references;
};
void http_budget_unref(struct http_budget *budget);

struct http_server {
    struct loop *loop;
    struct host *host;         /* borrowed, passed on to handlers only */
    struct sessions *sessions; /* the same */
    struct mcp *mcp;           /* the same */
    struct catalog *catalog;   /* the same */
    struct native *native;     /* borrowed, or NULL */
    struct http_nodes *nodes;  /* the same: NULL: there are no others */
    struct http_limits limits;
    const struct http_route *routes;
    size_t route_count;
    struct http_index index;
    struct schema **bodies; /* owned: what the body of each is checked against, or NULL */

    struct http_budget *budget; /* a reference */

    struct http_auth *auth; /* borrowed; NULL: unix socket only */
    uv_tcp_t tcp;
    bool has_tcp;           /* libuv holds it */
    char address[64];       /* "[::1]:7777"; "" unless listening on TCP */
    char host_name[64];     /* "[::1]" */
    char tcp_problem[256];  /* why it does not listen on TCP; "": it does, or was not asked to */
    size_t tcp_count;       /* connections over TCP: they have a bound of their own */
    size_t apart_count;     /* those that carry a stream, which is bounded elsewhere, of all ... */
    size_t tcp_apart_count; /* ... and of those over TCP */
    size_t node_count;      /* connections of other nodes, which are counted by themselves */

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

    size_t websocket_count;
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
#define HTTP_LISTEN_BACKLOG 128
void http_server_on_connection(uv_stream_t *listener, int status);
/* libuv has let go of one handle. */
void http_server_handle_closed(struct http_server *server);

/* -- connections: accept.c, connection.c, parse.c, write.c ------------------------------------- */

struct http_connection;
/* Where a connection comes from. */
struct http_source {
    bool tcp;
    bool is_node;                 /* it comes from another node, by kaged-link */
    char node[LINK_NODE_MAX + 1]; /* which one; "": one that is not of the cluster yet */
    char text[HTTP_SOURCE_TEXT];  /* its address; "" over the unix socket */
    /* What failed attempts are counted by: all of this machine is one, as is an IPv6 network. */
    unsigned char key[HTTP_SOURCE_KEY];
};
static inline const char *http_transport(const struct http_source *source)
{
    return source->is_node ? "node" : source->tcp ? "tcp" : "unix";
}
void http_source_of(const struct sockaddr *address, struct http_source *ret_source);

/* Takes a connection that another node made; "": one that is not of the cluster yet. */
void http_connection_take_node(struct http_server *server, int fd, const char *node);
/* Takes the connection that waits at the listener. */
void http_connection_accept(struct http_server *server, uv_stream_t *listener);
struct http_server *http_connection_server(const struct http_connection *connection);
const struct http_source *http_connection_source(const struct http_connection *connection);
/* The server stops: an idle one is closed, one that speaks another protocol is told to end. */
void http_connection_stop(struct http_connection *connection);
/* One that speaks another protocol, or is sent an answer in pieces, looks whether it still may. */
void http_connection_doubt(struct http_connection *connection);
struct http_connection *http_connection_next(const struct http_connection *connection);
/* The client is gone, or has to go. */
void http_connection_close(struct http_connection *connection);
/* Sends the answer to the request that runs, which the connection forgets. */
void http_connection_send(struct http_connection *connection, struct kg_str head,
                          struct kg_str body, bool keep_alive);
/* Whether another request may come after this one. */
bool http_connection_stays(const struct http_connection *connection);
/* There may be something to do: something was paused, or is not any more. */
void http_connection_wake(struct http_connection *connection);
/*
 * Writes at once, keeps what the socket does not take. False: not all of it is taken yet; the
 * request's on_room, or the takeover's on_drained, tells when it is.
 */
#define HTTP_PARTS_MAX 3
bool http_connection_put(struct http_connection *connection, const struct kg_str *parts,
                         size_t count);
/* It carries what lasts and is bounded elsewhere: it does not count among the connections. */
void http_connection_set_apart(struct http_connection *connection, bool apart);
/* The streamed answer is at its end. */
void http_connection_finish(struct http_connection *connection, bool keep_alive);

/* Who reads and writes a connection that speaks another protocol by now. */
struct http_takeover {
    void (*on_bytes)(void *data, const char *bytes, size_t length);
    void (*on_drained)(void *data); /* all that was written is taken */
    void (*on_stop)(void *data);    /* the server stops */
    void (*on_doubt)(void *data);   /* credentials were taken back, maybe those it lives by */
    void (*on_gone)(void *data);    /* the client is gone; never while one of the above runs */
};
/* Answers the request with HEAD, frees it, and hands its connection over. */
struct http_connection *http_connection_take(struct http_request *request, struct kg_str head,
                                             const struct http_takeover *takeover, void *data);
/* The takeover has no more to say, and hears nothing more; abrupt: nor does the client. */
void http_connection_end(struct http_connection *connection, bool abrupt);

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

enum http_via {
    HTTP_VIA_NONE,
    HTTP_VIA_UNIX,
    HTTP_VIA_SESSION,
    HTTP_VIA_TOKEN,
    HTTP_VIA_PROXY,
    HTTP_VIA_INSECURE,
};
extern const char *const http_via_names[];

struct http_request {
    struct http_connection *connection; /* NULL: the client left */
    struct host *host;
    struct sessions *sessions;
    enum http_via via;                   /* how it is known who sent it */
    char operator_id[HTTP_OPERATOR_MAX]; /* "": unknown */
    uint64_t scopes;                     /* what he may do; a bit for each */
    struct kg_id credential_id;          /* of the session or token, or "" */
    char profile[HTTP_PROFILE_MAX + 1];  /* of MCP clients, that the token is confined to, or "" */
    char principal[CATALOG_ID_TEXT];     /* whose the token is; "": the operator's own */
    char request_id[HTTP_REQUEST_ID_MAX + 1];
    char traceparent[KG_TRACEPARENT_TEXT]; /* "": it came with none that is one */
    bool passed;                           /* by another node, which knows who asks */
    struct host_asker *asker;              /* a reference; NULL: nobody wanted it yet */

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

    struct kg_buf body;  /* of a route that does not stream */
    struct kg_doc *tree; /* owned: the same, once it is checked; NULL: it is not */
    size_t body_max, body_bytes;
    size_t body_held;           /* of the budget */
    struct http_budget *budget; /* a reference; NULL while nothing is held */
    uint64_t body_wire_bytes;   /* with the framing of chunks */
    bool expects_continue;
    bool streams;                         /* the handler has the request before its body */
    bool body_done;                       /* nothing more of it will be read */
    bool body_paused;                     /* by the handler */
    const struct http_body_ops *body_ops; /* NULL: nobody wants it, or its end was told */
    void *body_data;

    bool answering;              /* its head is sent, its end is not */
    bool chunked;                /* and so is what is between */
    void (*on_room)(void *data); /* or NULL */
    void *on_room_data;

    struct kg_buf answer_headers; /* besides those that every answer has */
    const char *cache;            /* who may keep the answer; NULL: nobody */
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
size_t http_header_count(const struct http_request *request, const char *name);
struct http_field *http_request_add_field(struct http_request *request);
bool http_request_has_body(const struct http_request *request);
/* Whether a route is one of the catalog's trees, whose errors are flat: {"code","message",...}. */
bool http_pattern_is_flat(struct kg_str path);
/* The org that it is about: of its path, or X-ORG-ID; data NULL: none. */
struct kg_str http_request_org(const struct http_request *request);
/* The error of a refusal, to be filled in; status 0 means that of its row. */
struct kg_err *http_request_refuse(struct http_request *request, int status);
/* Takes the part of the budget that a body of so many bytes needs; refuses it if it is used up. */
int http_request_hold(struct http_request *request, const struct http_server *server, size_t bytes);
/* Takes X-Request-Id if it is acceptable, else makes an id. */
void http_request_identify(struct http_request *request);
/* Splits and decodes the url into segments and query. */
int http_request_decode_url(struct http_request *request);
/* System plugins hear that it is answered. */
void http_request_tell(const struct http_request *request, int status);
/* The head of an answer; with HTTP_LENGTH_UNKNOWN its body comes in pieces. */
#define HTTP_LENGTH_UNKNOWN SIZE_MAX
void http_request_write_head(const struct http_request *request, int status,
                             const char *content_type, size_t length, struct kg_buf *head);

/* -- auth.c ------------------------------------------------------------------------------------ */

/* Whether the request may go on; it is refused otherwise. Its route is known, or NULL. */
int http_auth_check(struct http_server *server, const struct http_source *source,
                    struct http_request *request);
enum http_auth_mode http_auth_mode(const struct http_auth *auth_or_null);
/* Whether who sent the request has the scope, beyond the one that its route needs. */
bool http_auth_allows(const struct http_request *request, const char *scope);
/* Whether what let a client in would do so again. */
bool http_auth_still_counts(const struct http_auth *auth_or_null, enum http_via via,
                            const struct kg_id *credential_id);

/* -- router.c ---------------------------------------------------------------------------------- */

/*
 * Finds the route and checks the request against its row; refuses the request if it does not fit.
 */
int http_router_find(const struct http_server *server, struct http_request *request);
/* The part of the pattern that starts at *at, without slashes; false at the end. */
bool http_pattern_next(const char *pattern, size_t *at, struct kg_str *ret_part);

/* -- plugins.c --------------------------------------------------------------------------------- */

/* What the path names; answers itself if there is none, and the second if it has no process. */
bool http_find_plugin(struct http_request *request, struct host_named *ret_named);
bool http_find_process(struct http_request *request, struct host_named *ret_named);
/* Answers with the plugin of the path, as GET does. */
void http_reply_plugin(struct http_request *request);
/* The same for who was asked to do something with it first. data: the request. */
void http_on_acted(void *data, const struct kg_err *err_or_null);
/* What several answers have in them. */
void http_put_plugins(struct kg_json_writer *json, const struct host *host);
void http_put_course(struct kg_json_writer *json, uint64_t now_ns,
                     const struct host_course_slot slots[HOST_COURSE_SLOTS]);
void http_put_status(struct kg_json_writer *json, const struct http_request *request);
void http_put_consents(struct kg_json_writer *json, const struct consent_queue *queue_or_null,
                       bool only_asking);
void http_put_projects(struct kg_json_writer *json, const struct host *host);
/* A list of texts: each line, without its newline. */
void http_put_lines(struct kg_json_writer *json, const char *key, struct kg_str text);

/* -- handlers, for the table of routes --------------------------------------------------------- */

http_handler_fn http_handle_health;
http_handler_fn http_handle_services;
http_handler_fn http_handle_system_plugins;
http_handler_fn http_handle_system_plugin;
http_handler_fn http_handle_status;
http_handler_fn http_handle_overview;
http_handler_fn http_handle_reload;
http_handler_fn http_handle_backup_made;
http_handler_fn http_handle_stop;
http_handler_fn http_handle_plugins;
http_handler_fn http_handle_enable;
http_handler_fn http_handle_disable;
http_handler_fn http_handle_restart;
http_handler_fn http_handle_why;
http_handler_fn http_handle_grant;
http_handler_fn http_handle_revoke;
http_handler_fn http_handle_call;
http_handler_fn http_handle_call_by_query;
http_handler_fn http_handle_logs;
http_handler_fn http_handle_audit;
http_handler_fn http_handle_events;
http_handler_fn http_handle_trace;
http_handler_fn http_handle_trace_switch;
/* Of an exit: what was recorded before it, if anything was. */
void http_put_exit_trace(struct kg_json_writer *json, struct host_named named, int64_t exit_at_ms);
http_handler_fn http_handle_storage;
http_handler_fn http_handle_storage_export;
http_handler_fn http_handle_storage_reset;
http_handler_fn http_handle_metrics;
http_handler_fn http_handle_openapi;
http_handler_fn http_handle_tools;
http_handler_fn http_handle_tools_decide;
http_handler_fn http_handle_script;
http_handler_fn http_handle_script_approve;
http_handler_fn http_handle_resources;
http_handler_fn http_handle_prompts;
http_handler_fn http_handle_questions;
http_handler_fn http_handle_open_questions;
http_handler_fn http_handle_doctor;
http_handler_fn http_handle_mcp_found;
http_handler_fn http_handle_mcp_found_take;
http_handler_fn http_handle_upload;
http_handler_fn http_handle_script_add;
http_handler_fn http_handle_answer;
http_handler_fn http_handle_prompt;
http_handler_fn http_handle_completion;
http_handler_fn http_handle_knobs;
http_handler_fn http_handle_knob_write;
http_handler_fn http_handle_schema;
http_handler_fn http_handle_plugin_reload;
http_handler_fn http_handle_root;
http_handler_fn http_handle_page_file;
http_handler_fn http_handle_audit_verify;
void http_reply_page(struct http_request *request); /* page.c */
http_handler_fn http_handle_launch;
http_handler_fn http_handle_launch_make;
http_handler_fn http_handle_session;
http_handler_fn http_handle_session_end;
http_handler_fn http_handle_tokens;
http_handler_fn http_handle_token_create;
http_handler_fn http_handle_token_revoke;
http_handler_fn http_handle_dev;
http_handler_fn http_handle_plugin_install;
http_handler_fn http_handle_plugin_upgrade;
http_handler_fn http_handle_session_create;
http_handler_fn http_handle_sessions;
http_handler_fn http_handle_session_show;
http_handler_fn http_handle_session_close;
http_handler_fn http_handle_session_entries;
http_handler_fn http_handle_session_context;
http_handler_fn http_handle_session_messages;
http_handler_fn http_handle_session_tool;
http_handler_fn http_handle_session_idle;
http_handler_fn http_handle_session_commands;
http_handler_fn http_handle_session_command;
http_handler_fn http_handle_session_compact;
http_handler_fn http_handle_session_undo;
http_handler_fn http_handle_session_pin;
http_handler_fn http_handle_session_fork;
http_handler_fn http_handle_session_move_back;
http_handler_fn http_handle_session_redo;
http_handler_fn http_handle_session_rewind;
http_handler_fn http_handle_session_resume;
http_handler_fn http_handle_run;
http_handler_fn http_handle_run_cancel;
http_handler_fn http_handle_plugin_approve;
http_handler_fn http_handle_plugin_uninstall;
http_handler_fn http_handle_plugin_promote;
http_handler_fn http_handle_secrets;
http_handler_fn http_handle_secret;
http_handler_fn http_handle_secret_set;
http_handler_fn http_handle_secret_remove;
http_handler_fn http_handle_secrets_rotate;
http_handler_fn http_handle_consents;
http_handler_fn http_handle_consent;
http_handler_fn http_handle_consent_approve;
http_handler_fn http_handle_consent_decline;
http_handler_fn http_handle_projects;
http_handler_fn http_handle_project;
http_handler_fn http_handle_project_load;
http_handler_fn http_handle_project_reload;
http_handler_fn http_handle_project_unload;
http_handler_fn http_handle_agents;
http_handler_fn http_handle_agent;
http_handler_fn http_handle_project_add;
http_handler_fn http_handle_mcp;
http_handler_fn http_handle_mcp_listen;
http_handler_fn http_handle_mcp_leave;
http_handler_fn http_handle_mcp_clients;
http_handler_fn http_handle_mcp_log;
http_handler_fn http_handle_mcp_log_forget;
http_handler_fn http_handle_mcp_profiles;
http_handler_fn http_handle_mcp_profile_set;
http_handler_fn http_handle_mcp_profile_remove;
http_handler_fn http_handle_mcp_mark;
/* What a request asks of the catalog, and who is told. */
struct catalog_request http_catalog_request(struct http_request *request);
http_handler_fn http_handle_orchestrators;
http_handler_fn http_handle_orchestrator_create;
http_handler_fn http_handle_orchestrator;
http_handler_fn http_handle_orchestrator_change;
http_handler_fn http_handle_orchestrator_delete;
http_handler_fn http_handle_orchestrator_settings;
http_handler_fn http_handle_orchestrator_activate;
http_handler_fn http_handle_orchestrator_load;
http_handler_fn http_handle_orchestrator_unload;
http_handler_fn http_handle_chat;
http_handler_fn http_handle_conversations;
http_handler_fn http_handle_conversation;
http_handler_fn http_handle_package_upload;
http_handler_fn http_handle_packages;
http_handler_fn http_handle_package_versions;
http_handler_fn http_handle_package;
http_handler_fn http_handle_package_schema;
http_handler_fn http_handle_package_settings;
http_handler_fn http_handle_package_settings_change;
http_handler_fn http_handle_package_grants;
http_handler_fn http_handle_package_grant;
http_handler_fn http_handle_package_revoke;
http_handler_fn http_handle_llm_list;
http_handler_fn http_handle_llm_show;
http_handler_fn http_handle_llm_create;
http_handler_fn http_handle_llm_change;
http_handler_fn http_handle_llm_remove;
http_handler_fn http_handle_catalog_rotate;
http_handler_fn http_handle_package_change;
http_handler_fn http_handle_package_delete;
http_handler_fn http_handle_package_download;
http_handler_fn http_handle_orgs;
http_handler_fn http_handle_orgs_all;
http_handler_fn http_handle_org;
http_handler_fn http_handle_org_create;
http_handler_fn http_handle_org_profile;
http_handler_fn http_handle_org_change;
http_handler_fn http_handle_org_settings;
http_handler_fn http_handle_org_settings_change;
http_handler_fn http_handle_org_quota;
http_handler_fn http_handle_users;
http_handler_fn http_handle_user_create;
http_handler_fn http_handle_user_change;
http_handler_fn http_handle_members;
http_handler_fn http_handle_member_add;
http_handler_fn http_handle_member_change;
http_handler_fn http_handle_member_remove;
http_handler_fn http_handle_cluster_token;
http_handler_fn http_handle_cluster_join;

/* -- stream.c ---------------------------------------------------------------------------------- */

/* Before it begins: the answer lasts for long, and its connection is counted apart. */
void http_stream_apart(struct http_request *request);

/* -- install.c --------------------------------------------------------------------------------- */

struct consent_wish;
/* Answers with the consent that waits for the operator's word on it, or why there is none. */
void http_raise_consent(struct http_request *request, const struct consent_wish *wish);

/* -- body.c ------------------------------------------------------------------------------------ */

/* schema/api-v1.json, the shapes of bodies and answers by their names. */
struct kg_str http_schemas(void);
/* A schema for each route whose row names one that the router checks; NULL for the others. */
struct schema **http_bodies_new(const struct http_route *routes, size_t count);
void http_bodies_free(struct schema **bodies, size_t count);
/* Reads and checks the body as the row says; refuses the request if it does not fit. */
int http_body_check(const struct http_server *server, struct http_request *request);

/* -- nodes.c ----------------------------------------------------------------------------------- */

void http_nodes_free(struct http_nodes *nodes); /* takes NULL */
/* Whether a request of another node may go on, and for whom it is; it is refused otherwise. */
int http_nodes_check(struct http_server *server, const struct http_source *source,
                     struct http_request *request);
/* True: another node has what it is about, and is asked; or it has to be found out who has it. */
bool http_nodes_take(struct http_request *request);

/* Has the handler of its row answer it. */
void http_handle(struct http_request *request);
/* True: it has to wait, and is handled later; see hold.c. */
bool http_hold(struct http_request *request);

#endif
