/* What the files of kaged-link share. */
#ifndef KAGED_CLUSTER_WORKER_INTERNAL_H
#define KAGED_CLUSTER_WORKER_INTERNAL_H

#include "cluster/link_wire.h"

#include <openssl/ssl.h>

/* Why OpenSSL refused, as one line; what it has to say is used up. */
void tls_words(const char *what, char ret_words[LINK_WORDS]);

/* -- tls.c: who is believed -------------------------------------------------------------------- */

struct tls {
    SSL_CTX *server, *client; /* owned */
};
/* PEM of certificate, authority and key. */
int tls_open(struct tls *tls, struct kg_str pem, char ret_words[LINK_WORDS]);
/* Who is at the other end after a handshake; "": it showed no certificate. */
int tls_peer(const SSL *ssl, char ret_node[LINK_NODE_MAX + 1]);
/*
 * For one that has no certificate yet: the server's chain has to end at the authority with this
 * SHA-256, in hex.
 */
SSL_CTX *tls_pinned(const char *fingerprint, char ret_words[LINK_WORDS]);

/* -- confine.c --------------------------------------------------------------------------------- */

/* From here on nothing can be opened, connected or run: only what is there is read and written. */
int link_confine(void);

/* -- tunnel.c ---------------------------------------------------------------------------------- */

struct tunnels;
/* control: where it is told what becomes of each. */
struct tunnels *tunnels_new(int control, const struct tls *tls);
/* Takes both fds, whatever comes of it. */
void tunnels_add(struct tunnels *tunnels, const struct link_message *order, int net, int plain);
/* Waits for what happens, and does it; -1: the daemon has something to say, or is gone. */
int tunnels_turn(struct tunnels *tunnels);

/* -- certificates.c: each reads stdin, writes stdout and ends ---------------------------------- */

int authority_main(const char *name);                        /* key and certificate */
int request_main(const char *node);                          /* key and request */
int certificate_main(const char *node);                      /* authority, its key, request */
int expiry_main(void);                                       /* of a certificate, as JSON */
int join_main(const char *address, const char *fingerprint); /* one exchange over TLS */
/* Says it, and returns how a program ends that failed. */
int program_leave(const char *what);
/* All of stdin, up to a bound. */
int program_read(struct kg_buf *ret_text);

#endif
