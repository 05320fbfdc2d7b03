/*
 * kaged as an MCP server: what clients that speak the Model Context Protocol are offered of the
 * plugins that run here, in both eras of the protocol. It knows messages and not how they travel:
 * who carries them, http/, hands each in with its headers and a table to answer by.
 */
#ifndef KAGED_MCP_H
#define KAGED_MCP_H

#include "host/host.h"

struct mcp;
struct mcp *mcp_new(struct host *host, struct kg_err *err); /* borrowed; before the loop runs */
/* Nothing more begins; streams end, and so do those that wait on them. */
void mcp_stop(struct mcp *mcp);
void mcp_free(struct mcp *mcp); /* after whoever carries messages; takes NULL */

/* One request of a client that is not answered yet. */
struct mcp_exchange;

/* How it is answered. `carrier` is what was handed in; it is of no use after reply, end and drop.
 */
struct mcp_carrier_ops {
    /* The request stays: mcp_gone and mcp_room may be called from now on, with this. */
    void (*keep)(void *carrier, struct mcp_exchange *exchange);
    void (*add_header)(void *carrier, const char *name, const char *value);
    /* One that the client sent, until the call that it came with returns; no data: it has none. */
    struct kg_str (*header)(void *carrier, const char *name);
    /* The whole answer; an empty one has no body. */
    void (*reply)(void *carrier, int status, struct kg_str json);
    /* Or a stream of events: its head, its pieces (false: better wait for mcp_room), its end. */
    void (*begin)(void *carrier);
    bool (*piece)(void *carrier, struct kg_str text);
    void (*end)(void *carrier);
    void (*drop)(void *carrier); /* after mcp_gone: there is nobody to answer */
};

/* Who comes, to which door, with what. Texts that are missing have no data. */
struct mcp_visit {
    const struct mcp_carrier_ops *ops;
    void *carrier;
    struct kg_str plugin;     /* whose tools alone, by their own names; empty: all */
    struct kg_str project;    /* whose processes; empty: those for nobody */
    struct kg_str profile;    /* that the client asks for, and ... */
    struct kg_str confines;   /* ... that it is confined to whatever it asks for; empty: none */
    bool reads_only;          /* it asks for nothing but tools that read */
    bool searches;            /* it asks for three tools in place of all; see search.c */
    bool is_near;             /* it comes by the socket: nobody on its way reads headers alone */
    const char *owner;        /* whose sessions are his; copied */
    struct host_asker *asker; /* referred to for as long as it takes */
    struct kg_str body;       /* lasts until the answer, like the texts above */
    /* Headers, until the call returns: */
    struct kg_str accept, session, version, method, name, last_event;
};
/* Each answers by the table, maybe before it returns. */
void mcp_post(struct mcp *mcp, const struct mcp_visit *visit);
void mcp_listen(struct mcp *mcp, const struct mcp_visit *visit); /* GET */
void mcp_leave(struct mcp *mcp, const struct mcp_visit *visit);  /* DELETE */

/* -- what they did, see activity.c --------------------------------------------------------------
 */

struct mcp_log_query {
    struct kg_str client; /* how it begins; empty: any */
    struct kg_str tool;   /* a pattern over PLUGIN.TOOL, or a plugin; empty: any */
    int64_t since_ms, before /* this id; 0: none */, limit;
};
/* {"calls":[...]}, the newest first; once, never before the call returns. */
typedef void mcp_log_fn(void *data, struct kg_str json, const struct kg_err *err_or_null);
void mcp_log(struct mcp *mcp, const struct mcp_log_query *query, mcp_log_fn *on_done, void *data);
void mcp_log_forget(struct mcp *mcp, state_kept_fn *on_done, void *data);
/* {"activity":"calls","clients":[...]} */
void mcp_clients_json(const struct mcp *mcp, struct kg_buf *ret_json);

/* -- what clients may use, see profiles.c ------------------------------------------------------ */

/* {"profiles":[...],"marks":[...]} */
void mcp_profiles_json(const struct mcp *mcp, struct kg_buf *ret_json);
/* One of them; false: there is none of that name. */
bool mcp_profile_json(const struct mcp *mcp, struct kg_str name, struct kg_buf *ret_json);
/* Each counts once it is kept. Patterns were checked by their schema; no definition: remove it. */
int mcp_profile_change(struct mcp *mcp, struct kg_str name, const struct kg_node *definition,
                       const char *operator_id, state_kept_fn *on_done, void *data,
                       struct kg_err *err);
/* KG_BOOL: whether the tool, PLUGIN.TOOL, only reads; KG_NULL: as its server says. */
int mcp_mark_change(struct mcp *mcp, struct kg_str tool, const struct kg_node *reads,
                    const char *operator_id, state_kept_fn *on_done, void *data,
                    struct kg_err *err);

void mcp_gone(struct mcp_exchange *exchange); /* the client left */
void mcp_room(struct mcp_exchange *exchange); /* what was written is taken */

#endif
