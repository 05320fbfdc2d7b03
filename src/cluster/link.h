/*
 * From node to node: kaged-link speaks TLS, the daemon plain HTTP.
 *
 *   daemon a                kaged-link a          kaged-link b              daemon b
 *   link_connect -- fds --> handshake <=== TLS ===> handshake <-- fds -- accepts a connection
 *   HTTP on a socket <----> bytes    <============>  bytes    <----> on_came: HTTP on a socket
 *
 * The daemon makes and accepts the connections, and hands each to kaged-link, which can open
 * nothing itself, together with one end of a pair of sockets. Who is at the other end of it is said
 * by a certificate of the cluster's own authority, which has the node's name.
 */
#ifndef KAGED_CLUSTER_LINK_H
#define KAGED_CLUSTER_LINK_H

#include "base/base.h"
#include "loop/loop.h"

#define LINK_NODE_MAX  64 /* bytes of a node's name */
#define LINK_KEY_BYTES 32

/* -- what a home has of its cluster, in one file ----------------------------------------------- */

struct link_keys {
    struct kg_buf authority, authority_key;    /* PEM: who signs certificates of nodes */
    struct kg_buf certificate, key;            /* PEM: this node's own */
    unsigned char cluster_key[LINK_KEY_BYTES]; /* what identities are signed with */
};
/* 1: there is no such file. */
int link_keys_read(const char *path, struct link_keys *ret_keys, struct kg_err *err);
/* The operator's alone to read, whole, and to stay. */
int link_keys_write(const char *path, const struct link_keys *keys, struct kg_err *err);
void link_keys_free(struct link_keys *keys); /* overwrites them; also for kg_auto */

/*
 * Runs kaged-link with these words, ended by NULL: keys and certificates are made, and what it is
 * given on stdin is not kept. May wait for a quarter of a minute. The output is to be overwritten.
 */
int link_tool(const char *const *words, struct kg_str input, struct kg_buf *ret_output,
              struct kg_err *err);
#define LINK_FINGERPRINT 65 /* SHA-256 in hex, and NUL */
/* Of a certificate in PEM; "" of what is none. */
void link_fingerprint(struct kg_str certificate, char ret_text[LINK_FINGERPRINT]);
/* A new authority and cluster key, and a certificate of it for this node. */
int link_keys_make(const char *node, struct link_keys *ret_keys, struct kg_err *err);
/* For a node that joins: its key, and what it has signed by one that is there. */
int link_keys_request(const char *node, struct kg_buf *ret_request, struct kg_buf *ret_key,
                      struct kg_err *err);
int link_keys_sign(const struct link_keys *keys, const char *node, struct kg_str request,
                   struct kg_buf *ret_certificate, struct kg_err *err);
/* Overwrites what it had; also for kg_auto. */
void link_wipe(struct kg_buf *secret);

/* -- connections ------------------------------------------------------------------------------- */

struct link;
struct link_options {
    struct loop *loop;
    const char *node;   /* our own name, as the certificate has it; copied like the next */
    const char *listen; /* "10.0.0.1:7800"; port 0: a free one */
    const struct link_keys *keys; /* borrowed until link_new returns */
    /*
     * Another node connected; the socket is the receiver's. node "": it showed no certificate, as
     * one that wants to join.
     */
    void (*on_came)(void *data, int fd, const char *node);
    /* Somebody was turned away: for the audit log, at most once a second. */
    void (*on_refused)(void *data, const char *address, const char *words);
    void *data;
};
struct link *link_new(const struct link_options *options, struct kg_err *err);
/* What is under way is forgotten; connections that were handed over end. Takes NULL. */
void link_free(struct link *link);
/* As others can reach it: "10.0.0.1:7800", with the port as it is. */
const char *link_address(const struct link *link);

struct link_call;
/* A socket that leads to that node, the receiver's; -1: err says why not. Once, and never before
 * link_connect returns. */
typedef void link_connected_fn(void *data, int fd, const struct kg_err *err_or_null);
struct link_call *link_connect(struct link *link, const char *node, const char *address,
                               link_connected_fn *on_connected, void *data);
void link_withdraw(struct link_call *call); /* on_connected is not called */

#endif
