/* Between the loop's side of a cluster and the thread that asks the database. */
#ifndef KAGED_CLUSTER_THREAD_H
#define KAGED_CLUSTER_THREAD_H

#include "cluster/cluster.h"

/* What the loop wants; it comes back with the answer. */
struct cluster_wish {
    struct loop_message message; /* first */
    struct cluster *cluster;
    bool is_take;               /* else it is given back, */
    bool is_left;               /* or only not held any more */
    char *project;              /* owned */
    int64_t epoch;              /* that was taken, or is given back */
    uint64_t asked_ms;          /* when the database was asked for it */
    struct cluster_wish *next;  /* the loop's, like the next two */
    cluster_taken_fn *on_taken; /* NULL: nobody wants it any more */
    void *data;
    struct kg_err err; /* KG_OK: it is taken */
};

/* Leases were renewed, all but those that are lost. */
struct cluster_renewed {
    struct loop_message message; /* first */
    struct cluster *cluster;
    uint64_t asked_ms;
    char **lost; /* owned */
};

struct cluster_change {
    enum cluster_kind kind;
    char *ref; /* owned */
};

/* What the database had when it was looked at. */
struct cluster_view {
    struct loop_message message; /* first */
    struct cluster *cluster;
    struct cluster_node *nodes; /* owned, with texts of its own */
    size_t node_count;
    struct kg_map *holders; /* owned: a node's name by project, owned; "": its lease is over */
    bool holders_changed;   /* since the view before */
    bool all_changed;       /* nobody can tell what */
    struct cluster_change *changes; /* owned */
    size_t change_count;
};
void cluster_view_free(struct cluster_view *view); /* takes NULL */

/* Answers come as messages, whose deliver is set here. */
struct cluster_thread;
struct cluster_thread_parts {
    struct loop *loop;
    struct cluster *cluster;
    struct state_cluster *state;
    const char *node; /* borrowed */
    uint64_t lease_ms;
    void (*on_wish)(struct loop_message *message);
    void (*on_renewed)(struct loop_message *message);
    void (*on_view)(struct loop_message *message);
};
struct cluster_thread *cluster_thread_new(const struct cluster_thread_parts *parts,
                                          struct kg_err *err);
void cluster_thread_ask(struct cluster_thread *thread, struct cluster_wish *wish);
void cluster_thread_set_address(struct cluster_thread *thread, const char *address);
/* Leaves all leases to others; what it has posted is delivered before this returns. */
void cluster_thread_free(struct cluster_thread *thread);

#endif
