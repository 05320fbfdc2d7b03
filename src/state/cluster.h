/*
 * What daemons share is in PostgreSQL where [cluster] database says so; what is a node's own (the
 * audit log's head, choices, failures and script grants) stays in its kaged.db. Who has joined
 * opens kaged.db as before, and gets a handle over both; its connection is made when something that
 * is shared is asked for first, and made again after it was lost. Several daemons may have joined,
 * under names of their own: who else is there, and what the others change, is cluster/'s to know.
 */
#ifndef KAGED_STATE_CLUSTER_H
#define KAGED_STATE_CLUSTER_H

#include "state/state.h"

struct state_cluster_options {
    const char *database;         /* a URL, without a password */
    const char *password_or_null; /* else as libpq finds one: PGPASSFILE, ~/.pgpass */
    const char *node;             /* what this node is called */
    const char *program;          /* its version */
    const char *place;            /* kaged.db of its home */
    uint64_t wait_ms;             /* for a database that is away, or for who is about to leave it */
    uint64_t lives_ms;            /* for which a node is alive after each sign of it; 0: 10 s */
};
/* Whether the URL is one, and has no password in it, which would be shown. */
int state_cluster_check_url(const char *database, struct kg_err *err);

/* -- the home's own note of where its state is ------------------------------------------------- */

/* Of the cluster's name, owned; NULL in it: its state is its own. */
int state_cluster_noted(const char *place, char **ret_name, struct kg_err *err);

/* Fails where what is shared of that home is in a database that this process did not join. */
int state_cluster_check(const char *place, struct kg_err *err);

/* -- a daemon's part in it --------------------------------------------------------------------- */

struct state_cluster;
/*
 * Waits for the database, brings its schema up to date, and takes it for this node. Before anybody
 * opens options->place, and once in a process. The home must have been noted by init.
 */
struct state_cluster *state_cluster_join(const struct state_cluster_options *options,
                                         struct kg_err *err);
/* What tells this life of the node from others; sessions are fenced by it. */
const char *state_cluster_life(const struct state_cluster *cluster);
/* After the last handle was closed. Takes NULL. */
void state_cluster_leave(struct state_cluster *cluster);

/* -- for the operator; each connects for itself ------------------------------------------------ */

struct state_cluster_facts {
    char *shown; /* owned, like all texts: the URL */
    char *name;  /* NULL: init was never run */
    char *holder;
    bool held;              /* by a daemon that runs */
    int64_t version;        /* of the schema; 0: there is none */
    int64_t newest_version; /* that this kaged knows */
    int server;             /* 150018 */
    bool may_create;        /* schemas */
    bool is_utf8;
    int64_t clock_ms; /* its clock less ours */
    int64_t seen_ms;  /* since the holder was seen; -1: never */
    int64_t sessions, entries;
    int64_t connections, connections_max;
    struct state_cluster_node *nodes; /* owned; all that ever used it, by name */
    size_t node_count;
};
struct state_cluster_node {
    char *name, *program, *address; /* owned; address "": other nodes cannot reach it */
    bool stopped;                   /* it has said so */
    bool alive;                     /* it was seen lately, by the database's clock */
    int64_t seen_ms;                /* since then */
    int64_t leases;                 /* that it has now */
};
#define STATE_CLUSTER_NODES_MAX 1000 /* of them in facts */
int state_cluster_look(const struct state_cluster_options *options,
                       struct state_cluster_facts *ret_facts, struct kg_err *err);
void state_cluster_facts_free(struct state_cluster_facts *facts); /* also for kg_auto */
#define STATE_CLUSTER_LIVES_MS   10000
#define STATE_CLUSTER_SERVER_MIN 150000
#define STATE_CLUSTER_SERVER_MAX 179999

/* How a home's state and a database's come together. */
enum state_cluster_start {
    STATE_CLUSTER_EMPTY,      /* a new schema with nothing in it */
    STATE_CLUSTER_FROM_LOCAL, /* with all that is shared of kaged.db, which keeps it */
    STATE_CLUSTER_EXISTING,   /* the schema is there, from another home */
};
struct state_carried {
    const char *table;
    int64_t rows;
};
/* For each table that was carried over, once all is there to stay. */
typedef void state_carried_fn(void *data, const struct state_carried *carried);
/* All of it, counted and compared by hashes, or nothing. No daemon may run on either side. */
int state_cluster_init(const struct state_cluster_options *options, enum state_cluster_start start,
                       state_carried_fn *visit, void *data, struct kg_err *err);
/* The other way round: kaged.db has what the database has, and the home is its own again. */
int state_cluster_to_local(const struct state_cluster_options *options, state_carried_fn *visit,
                           void *data, struct kg_err *err);

#endif
