/*
 * This node among those that share its database: who is there, who has which project, and what was
 * changed elsewhere. A thread with connections of its own asks the database; all that the loop asks
 * is answered from memory. A daemon whose state is its own has none of it: NULL.
 *
 * A project is where its name says: one with a folder is pinned to the node whose disk has it, one
 * of the catalog (an orchestrator, "orchestrator-ID") moves, and is where its lease is. A lease is
 * had for a time by the database's clock, and renewed well before; who could not renew it stops
 * what it is for before the time is over. Its epoch grows each time that it is taken, and a write
 * to a session of the project fails in the database itself where the lease is another's.
 */
#ifndef KAGED_CLUSTER_H
#define KAGED_CLUSTER_H

#include "loop/loop.h"
#include "state/cluster.h"

struct cluster;

struct cluster_options {
    struct loop *loop;
    struct state_cluster *state; /* borrowed; joined */
    const char *node;            /* this one's name, as it joined */
    uint64_t lease_ms;           /* how long a lease lives that is not renewed */
};
/* Waits for nothing: the database was there when the state was joined. */
struct cluster *cluster_new(const struct cluster_options *options, struct kg_err *err);
/* Leaves what it has to others, who need not wait. Not while the loop runs. Takes NULL. */
void cluster_free(struct cluster *cluster);

/* -- nodes ------------------------------------------------------------------------------------- */

struct cluster_node {
    const char *name;    /* texts live as long as the callback, or until the loop's next turn */
    const char *address; /* "": none */
    const char *program; /* its version */
    bool is_self;
    bool is_alive;   /* it was seen lately, and has not said that it stops */
    int64_t seen_ms; /* since then, by the database's clock */
    size_t leases;   /* that it has */
};
const char *cluster_self(const struct cluster *cluster);
/* Where other nodes find this one; they know some seconds later. */
void cluster_set_address(struct cluster *cluster, const char *address);
/* NULL: nobody of that name was ever there. */
const struct cluster_node *cluster_node_find(const struct cluster *cluster, const char *name);
typedef void cluster_node_fn(void *data, const struct cluster_node *node);
void cluster_nodes(const struct cluster *cluster, cluster_node_fn *visit, void *data); /* by name */

/* -- who has which project --------------------------------------------------------------------- */

/*
 * The node where a project is, as far as is known here, alive or not; NULL: it may be had anywhere.
 * Lives until the loop's next turn.
 */
const char *cluster_holder(const struct cluster *cluster, const char *project);
/* Whether its lease was lost by who had it, and not given back: somebody should go on with it. */
bool cluster_is_left(const struct cluster *cluster, const char *project);
/* Whether it is this node, and may act for it now. */
bool cluster_holds(const struct cluster *cluster, const char *project);

/* On the loop, once, never before cluster_take returns; KG_E_ELSEWHERE names who has it. */
typedef void cluster_taken_fn(void *data, const struct kg_err *err_or_null);
void cluster_take(struct cluster *cluster, const char *project, cluster_taken_fn *on_taken,
                  void *data);
void cluster_withdraw(struct cluster *cluster, const void *data); /* on_taken does not come */
void cluster_release(struct cluster *cluster, const char *project);
/* A lease is lost, or about to be: what it is for must stop at once. Not after a release. */
typedef void cluster_lost_fn(void *data, const char *project);
void cluster_on_lost(struct cluster *cluster, cluster_lost_fn *on_lost, void *data);

/* Why a request for the project cannot be answered here: KG_E_ELSEWHERE, with the node's name. */
int cluster_fail_elsewhere(const struct cluster *cluster, const char *project, struct kg_err *err);

/* -- what was changed -------------------------------------------------------------------------- */

enum cluster_kind {
    CLUSTER_CREDENTIAL,
    CLUSTER_MCP_SETTING,
    CLUSTER_PROJECT,
    CLUSTER_ORG,
    CLUSTER_PRINCIPAL,
    CLUSTER_MEMBER,
    CLUSTER_PACKAGE, /* with settings and grants; "ORG PID" */
    CLUSTER_ORCHESTRATOR,
    CLUSTER_LEASE,
    CLUSTER_KIND_COUNT,
};
/* What others have changed in the database; this node knows what it did itself. Embed it, zeroed.
 */
struct cluster_listener {
    struct cluster_listener *next; /* the cluster's */
    uint64_t kinds;                /* that it hears of: 1 << enum cluster_kind each */
    /* On the loop, some seconds after the change at most. ref: what it is of; NULL: maybe all. */
    void (*on_change)(struct cluster_listener *listener, enum cluster_kind kind,
                      const char *ref_or_null);
};
/* Takes NULL for the cluster: then nothing changes elsewhere. */
void cluster_listen(struct cluster *cluster, struct cluster_listener *listener);
void cluster_unlisten(struct cluster *cluster, struct cluster_listener *listener);

/* -- memory that follows: follow.c ------------------------------------------------------------- */

/* Reads again what was changed, once for all changes that came meanwhile. Embed it, zeroed. */
struct cluster_follow {
    struct cluster_listener listener;
    struct cluster *cluster;
    struct state_keeper *keeper; /* borrowed */
    struct state_task task;
    bool is_reading, again, ended;
    /* On the keeper's thread, in a transaction that reads. */
    int (*read)(struct cluster_follow *follow, struct state *state, struct kg_err *err);
    /* On the loop; after an error, and at the end, with take false: what was read is dropped. */
    void (*take)(struct cluster_follow *follow, bool take);
};
/* read and take are set. */
void cluster_follow_begin(struct cluster_follow *follow, struct cluster *cluster_or_null,
                          struct state_keeper *keeper, uint64_t kinds);
/* Waits until what it reads is read. One that never began, too. */
void cluster_follow_end(struct cluster_follow *follow);

#endif
