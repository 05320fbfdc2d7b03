/* Requests between nodes, for the files that carry them; see nodes.c, tunnel.c, pass.c. */
#ifndef KAGED_HTTP_NODES_H
#define KAGED_HTTP_NODES_H

#include "cluster/identity.h"
#include "http/internal.h"

#define HTTP_JOIN_TOKENS 16
#define HTTP_JOIN_HASH   32

struct http_tunnel;
struct http_nodes {
    struct http_server *server;    /* borrowed */
    struct audit *audit;           /* borrowed, or NULL */
    struct http_nodes_place place; /* who has what */
    char *node;                    /* owned; our own name */
    char *reached_at;              /* owned; where others find us */
    struct link *link;
    struct identities *identities;
    struct http_tunnel *tunnels; /* those that there are */
    struct kg_map *projects;     /* of sessions, by their ids; owned texts */
    struct kg_rate refusals;
    char fingerprint[LINK_FINGERPRINT]; /* of the cluster's authority */
    struct http_join_token {
        unsigned char hash[HTTP_JOIN_HASH]; /* of the secret */
        int64_t expires_ms;                 /* 0: none */
    } tokens[HTTP_JOIN_TOKENS];
    struct loop_worker *worker; /* makes certificates; NULL: nobody has joined yet */
};

/* For the audit log, and the daemon's own, at most once a second. */
void http_nodes_refused(struct http_nodes *nodes, const char *node, const char *address,
                        const char *reason);

/* -- tunnel.c: connections to other nodes, used again ------------------------------------------ */

struct http_tunnel_ops {
    void (*on_bytes)(void *data, const char *bytes, size_t length);
    void (*on_sent)(void *data); /* all that was written is taken */
    void (*on_gone)(void *data); /* it ended; not to be used any more */
};
/* Takes the socket; NULL: it is none that can be used. */
struct http_tunnel *http_tunnel_new(struct http_nodes *nodes, const char *node, int fd);
/* One to that node that nobody uses; NULL: there is none. */
struct http_tunnel *http_tunnel_idle(struct http_nodes *nodes, const char *node);
/* ops and data are its user's until it is rested or closed. */
void http_tunnel_use(struct http_tunnel *tunnel, const struct http_tunnel_ops *ops, void *data);
/* The bytes stay where they are until on_sent, or until it is closed. */
void http_tunnel_send(struct http_tunnel *tunnel, struct kg_str head, struct kg_str body);
void http_tunnel_pause(struct http_tunnel *tunnel, bool paused);
void http_tunnel_rest(struct http_tunnel *tunnel);  /* for the next one */
void http_tunnel_close(struct http_tunnel *tunnel); /* nothing more is told */

/* -- pass.c ------------------------------------------------------------------------------------ */

/* Passes the request on to that node, and its answer back. */
void http_pass_to(struct http_request *request, const char *node, const char *address);

#endif
