/*
 * Who asks, as one node tells it to another: in a header that is signed with the cluster's key, for
 * one request to one node. Who was let in at one node is not asked for a credential at the next.
 */
#ifndef KAGED_CLUSTER_IDENTITY_H
#define KAGED_CLUSTER_IDENTITY_H

#include "cluster/link.h"

#define IDENTITY_HEADER "X-Kaged-Identity"

/* The request that it is for. */
struct identity_request {
    struct kg_str method; /* "POST" */
    struct kg_str target; /* path and query, as they are sent */
    int64_t body_bytes;   /* -1: they come in pieces */
};

/* Texts are borrowed: of a checked one, from what it was read from. */
struct identity {
    struct kg_str node;          /* that passes it on */
    struct kg_str via;           /* how it knows who asks: "token" */
    struct kg_str operator_id;   /* "": unknown */
    struct kg_str principal;     /* whose the token is; "": the operator's own */
    struct kg_str profile;       /* that it is confined to, or "" */
    struct kg_str credential_id; /* or "" */
    uint64_t scopes;
};

struct kg_doc;
struct identities;
/* node: our own name. */
struct identities *identities_new(const unsigned char key[LINK_KEY_BYTES], const char *node);
void identities_free(struct identities *identities); /* takes NULL */
/* Appends the header's value. */
void identity_sign(struct identities *identities, const struct identity *identity,
                   const struct identity_request *request, const char *to, struct kg_buf *out);
/*
 * Whether it is of this cluster, of the node that the connection comes from, for us and for this
 * request, not older than half a minute, and for the first time. *ret_text, owned, is what the
 * identity points into.
 */
int identity_check(struct identities *identities, struct kg_str value, const char *from,
                   const struct identity_request *request, struct kg_doc **ret_text,
                   struct identity *ret_identity, struct kg_err *err);

#endif
