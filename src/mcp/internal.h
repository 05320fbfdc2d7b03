/* What the files of mcp/ share. */
#ifndef KAGED_MCP_INTERNAL_H
#define KAGED_MCP_INTERNAL_H

#include "cluster/cluster.h"
#include "host/offers.h"
#include "host/process.h"
#include "mcp/mcp.h"
#include "projects/projects.h"

#define MCP_MODERN "2026-07-28"
#define MCP_LATEST "2025-11-25" /* of the legacy era */

/* In which way a client speaks; each method says in which of them it is known. */
enum mcp_era { MCP_ERA_LEGACY = 1, MCP_ERA_MODERN = 2 };

/* Codes of JSON-RPC and of MCP that are sent. */
enum {
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_METHOD_NOT_FOUND = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_INTERNAL_ERROR = -32603,
    MCP_NO_SESSION = -32001, /* as the SDKs say it */
    MCP_NOT_FOUND = -32002,  /* a resource, in the legacy era */
    MCP_HEADER_MISMATCH = -32020,
    MCP_MISSING_CAPABILITY = -32021,
    MCP_UNSUPPORTED_VERSION = -32022,
};

/* Whose tools, by which processes. */
struct mcp_scope {
    struct mcp *mcp;
    struct kg_str plugin;            /* empty: of all */
    struct kg_str project;           /* empty: of none */
    struct kg_str profile, confines; /* both count; empty: none */
    bool reads_only, searches;
};

/* The last that was heard of a client. */
struct mcp_last {
    uint64_t calls;
    char *tool; /* owned */
    const char *outcome;
    int64_t at_ms;             /* wall clock; 0: it called nothing */
    int64_t characters, saved; /* of its list of tools; 0: it asked for none */
};
/* A modern client, which has no session. */
#define MCP_VISITORS_MAX 64
struct mcp_visitor {
    char *owner, *name; /* owned; NULL: nobody */
    struct mcp_last last;
};
/* Calls that are not kept yet; see activity.c. */
struct mcp_activity {
    struct kg_buf bunch; /* the beginning of a JSON list */
    struct loop_timer timer;
    bool is_writing;
    uint64_t bunches, lost;
};

struct mcp_ask;
struct mcp_index;
struct mcp_event;
struct mcp_subscription;
/*
 * Messages to a client, in their order. Those of a session are kept for a while after they were
 * sent, so that a client whose connection broke can have what it missed.
 */
struct mcp_stream {
    struct mcp_stream *next;       /* of the client */
    struct mcp *mcp;               /* borrowed */
    struct mcp_client *client;     /* NULL: it is the exchange's own, and ends with it */
    struct mcp_exchange *exchange; /* that carries it; NULL: nobody does */
    uint64_t number;               /* in the session; 0 is the one that belongs to no request */
    uint64_t sequence;             /* of the next event */
    struct mcp_event *first, **last;
    struct mcp_event *unsent; /* the first that was not handed to the carrier */
    size_t bytes;
    bool has_ended; /* no more is put in */
};

/* A session of a legacy client. */
struct mcp_client {
    struct mcp *mcp;
    struct mcp_client *next, *previous;
    char id[40];  /* chance, as text */
    char tag[12]; /* the same, in the ids of its events */
    char *owner;  /* owned, like those that follow */
    char *plugin, *project, *profile, *confines;
    bool reads_only, searches;
    char *name, *version; /* owned; what it says it is; "" if it does not */
    const char *revision;
    unsigned level;    /* of logging: see mcp_levels */
    unsigned declared; /* what it can be asked: see mcp_asks_declared */
    struct mcp_stream *streams;
    uint64_t stream_number;
    struct mcp_subscription *subscriptions;
    unsigned call_count;
    struct mcp_last last;
    uint64_t tools_told; /* a digest of the list that it has */
    uint64_t used_ms;
    struct loop_timer idle;
};

struct mcp_exchange {
    struct mcp_exchange *next, *previous; /* of all that are kept */
    const struct mcp_carrier_ops *ops;
    void *carrier;
    struct mcp_scope scope;
    char *owner;              /* owned */
    struct host_asker *asker; /* a reference */
    enum mcp_era era;
    struct mcp_client *client; /* NULL: a modern one, or not known */
    struct kg_str id;          /* as it was written; points into the body, or is empty */
    struct mcp_call *call;     /* that it waits for; NULL: none */
    struct mcp_stream *stream; /* that it carries; NULL: none */
    uint64_t told;             /* of a subscription: a digest of the list that it has */
    bool is_kept, is_full, is_subscription, is_near;
    bool wants_tools, wants_prompts, wants_resources; /* of a subscription: when they change */
    struct mcp_subscription *subscriptions;           /* the same, to resources */
    int level;         /* of what a modern client wants to hear of logs; -1: nothing */
    unsigned declared; /* what a modern client can be asked */
    char *client_name; /* owned; what a modern client says it is; NULL: nothing */
    struct loop_timer timer;
};

/* A call that is under way for a client. */
struct mcp_call {
    struct mcp *mcp;
    struct mcp_call *next, *previous; /* of all */
    struct mcp_client *client;        /* NULL: a modern one's */
    struct mcp_exchange *exchange;    /* NULL: it left; the answer is kept in the stream, if any */
    struct mcp_stream *stream;        /* that the answer goes to; NULL: it is the whole answer */
    enum mcp_era era;
    struct kg_str id, token; /* as they were written, in `texts`, like what follows */
    struct kg_str method, arguments;
    struct kg_buf texts;
    struct host_asker *asker;  /* a reference; of an agent, if it is in a project */
    char *owner, *client_name; /* owned; who called, and what he says his client is */
    uint64_t began_ms;
    bool is_tool;          /* and nothing else that servers offer */
    bool is_mcp;           /* the plugin answers as MCP has it */
    char *plugin;          /* owned; whose process has it, or who is asked */
    enum host_offer offer; /* of what is no tool; see offers.c, like what follows */
    bool is_of_all;        /* it came to the door of all plugins */
    char **servers;        /* owned; that are asked one after the other; NULL: one is */
    size_t server;
    struct kg_buf list;
    int level;        /* of what the client wants to hear of logs; -1: nothing */
    bool has_entered; /* the project */
    double progress;  /* that was told last */
    bool has_progress;
    uint64_t number;                    /* of all calls, one after the other */
    unsigned declared;                  /* what its client can be asked */
    struct mcp_ask *asks;               /* owned; that are not answered; see asks.c */
    struct loop_timer asks_timer;       /* of a modern client: it is told in a moment */
    struct kg_buf responses;            /* what it brought for them, an object, or empty */
    char state[33];                     /* by which it comes back; empty: it need not */
    struct kg_buf again;                /* id and token of the request by which it did */
    struct host_call *sent;             /* one of the two, or none */
    struct projects_tool_call *in_tool; /* in a project */
};

struct mcp {
    struct host *host;            /* borrowed */
    struct kg_map *by_id;         /* sessions */
    struct kg_map *profiles;      /* owned, like its values; see profiles.c */
    struct kg_map *marks;         /* owned; the values only say which */
    struct cluster_follow follow; /* what other nodes change of both */
    struct mcp *fresh;            /* owned; these two, as that has read them */
    struct kg_map *prompts;       /* owned; a map of names for each plugin; see offers.c */
    struct mcp_index *indexes;    /* owned; see search.c */
    struct mcp_client *clients;
    struct mcp_exchange *exchanges; /* that wait for something, or carry a stream */
    struct mcp_call *calls;
    uint64_t call_number, ask_number; /* of the last */
    size_t stream_count;              /* that are carried */
    struct mcp_activity activity;
    struct mcp_visitor visitors[MCP_VISITORS_MAX];
    struct host_listener listener;
    struct projects_listener project_listener;
    struct loop_timer look; /* whether lists are others now */
    bool is_stopping;
};

/* -- exchange.c -------------------------------------------------------------------------------- */

struct mcp_exchange *mcp_exchange_new(struct mcp *mcp, const struct mcp_visit *visit);
/* It is not answered yet, and waits; it may be gone by itself from now on. */
void mcp_exchange_keep(struct mcp_exchange *exchange);
/* Each answers, and frees it. */
void mcp_reply(struct mcp_exchange *exchange, int status, struct kg_str json);
void mcp_reply_result(struct mcp_exchange *exchange, struct kg_str result);
void mcp_reply_error(struct mcp_exchange *exchange, int status, int code, const char *message);
/* The same with `data`, a JSON value. */
void mcp_reply_error_data(struct mcp_exchange *exchange, int status, int code, const char *message,
                          struct kg_str data);
/* The carrier has all of its stream. */
void mcp_exchange_end(struct mcp_exchange *exchange);
/* Messages. */
void mcp_put_result(struct kg_buf *out, struct kg_str id, struct kg_str result);
void mcp_put_error(struct kg_buf *out, struct kg_str id, int code, const char *message,
                   struct kg_str data);
/* What every modern result has: its type and who answers, in an object that is open. */
void mcp_put_result_head(struct kg_json_writer *json, const struct mcp_exchange *exchange);
void mcp_put_server(struct kg_json_writer *json, const struct mcp_scope *scope, const char *key);

/* -- stream.c ---------------------------------------------------------------------------------- */

struct mcp_stream *mcp_stream_new(struct mcp *mcp, struct mcp_client *client_or_null);
void mcp_stream_free(struct mcp_stream *stream); /* nobody carries it */
/* Whether one more may be carried. */
bool mcp_streams_have_room(const struct mcp *mcp);
/* Begins to carry it, with what came after the event of that sequence. */
void mcp_stream_carry(struct mcp_stream *stream, struct mcp_exchange *exchange, uint64_t after);
/* It is carried no more: by another at once, or by nobody, who may not want it kept. */
void mcp_stream_leave(struct mcp_stream *stream);
void mcp_stream_let_go(struct mcp_stream *stream);
void mcp_stream_put(struct mcp_stream *stream, struct kg_str message);
void mcp_stream_end(struct mcp_stream *stream);     /* after what was put last */
void mcp_stream_flush(struct mcp_stream *stream);   /* as far as the carrier takes it */
void mcp_stream_comment(struct mcp_stream *stream); /* so that nobody takes it for dead */
/* The stream that the event of a session belongs to, and its place there; NULL: it has none. */
struct mcp_stream *mcp_stream_find(const struct mcp_client *client, struct kg_str event_id,
                                   uint64_t *ret_sequence);

/* -- client.c ---------------------------------------------------------------------------------- */

/* NULL, and the exchange is answered: there is no such session, or it is another's. */
struct mcp_client *mcp_client_of(struct mcp_exchange *exchange, struct kg_str session);
/* NULL with err: there are too many. */
struct mcp_client *mcp_client_new(struct mcp_exchange *exchange, struct kg_err *err);
void mcp_client_end(struct mcp_client *client);
void mcp_client_use(struct mcp_client *client); /* it is not idle */
struct mcp_scope mcp_client_scope(const struct mcp_client *client);
/* The stream that belongs to no request; NULL: it never listened. */
struct mcp_stream *mcp_client_stream(const struct mcp_client *client);
/* Removes what is kept for nobody, as far as it is too much. */
void mcp_client_tidy(struct mcp_client *client);

/* Text of chance, two characters a byte, of 16 at most. */
void mcp_make_chance(char *text, size_t bytes);

extern const char *const mcp_levels[]; /* of logging; ended by NULL */

/* -- tools.c ----------------------------------------------------------------------------------- */

/* Until the next turn of the loop. */
struct mcp_tool {
    const struct manifest *manifest;
    const struct manifest_tool *declared;
};
/* KG_OK and the tool, or why there is none of that name. */
int mcp_tool_find(const struct mcp_scope *scope, struct kg_str name, struct mcp_tool *ret_tool,
                  struct kg_err *err);
/* The plugin that a name at the door of all begins with; empty: none. */
struct kg_str mcp_plugin_in(struct kg_str name);
void mcp_tool_put_name(const struct mcp_scope *scope, const struct mcp_tool *tool,
                       struct kg_buf *out);
void mcp_tool_put(const struct mcp_scope *scope, const struct mcp_tool *tool,
                  struct kg_json_writer *json);
/* All that the client may use; false: enough. */
typedef bool mcp_tool_fn(void *data, const struct mcp_tool *tool);
void mcp_tools_walk(const struct mcp_scope *scope, mcp_tool_fn *on_tool, void *data);
/* All of them as a list; or as it is offered, with three tools that find and call the others. */
void mcp_tools_put_all(const struct mcp_scope *scope, struct kg_json_writer *json);
void mcp_tools_put(const struct mcp_scope *scope, struct kg_json_writer *json);
uint64_t mcp_tools_all_digest(const struct mcp_scope *scope);
uint64_t mcp_tools_digest(const struct mcp_scope *scope);
/* Whether the plugin is offered to the client at all. */
bool mcp_has_plugin(const struct mcp_scope *scope, struct host_named named);

/* -- profiles.c -------------------------------------------------------------------------------- */

int mcp_profiles_open(struct mcp *mcp, struct kg_err *err);
void mcp_profiles_close(struct mcp *mcp);
/* Whether a client of the scope may see and call it; and whether it may use all of a plugin. */
bool mcp_allows(const struct mcp_scope *scope, const struct mcp_tool *tool);
bool mcp_allows_plugin(const struct mcp_scope *scope, const char *plugin);
/* Whether it is offered tools that search, in place of all. */
bool mcp_searches(const struct mcp_scope *scope);

/* -- search.c ---------------------------------------------------------------------------------- */

enum mcp_searching {
    MCP_SEARCH_NONE,     /* it is no tool that searches */
    MCP_SEARCH_ANSWERED, /* it was, and the exchange is answered */
    MCP_SEARCH_CALL,     /* its arguments are the name and the arguments of another */
};
enum mcp_searching mcp_search_call(struct mcp_exchange *exchange, const char *name,
                                   struct kg_str arguments);
void mcp_search_put(struct kg_json_writer *json);
/* How much the list takes of a model's context, and how much it would. */
void mcp_search_note(const struct mcp_scope *scope, struct kg_str list, struct mcp_last *last);
void mcp_search_close(struct mcp *mcp);

/* -- call.c ------------------------------------------------------------------------------------ */

void mcp_handle_call(struct mcp_exchange *exchange, struct kg_str params);
/* A tool of ours answers. */
void mcp_reply_text(struct mcp_exchange *exchange, struct kg_str text, bool is_error);
/* A call of this exchange; texts are copied. */
struct mcp_call *mcp_call_new(struct mcp_exchange *exchange, struct kg_str method,
                              struct kg_str arguments, struct kg_str token);
void mcp_call_keep(struct mcp_call *call); /* it is sent, and its exchange waits */
/* NULL, or why the client may not ask for anything now. */
const char *mcp_call_refusal(const struct mcp_exchange *exchange);
/* Each answers it, and it is over: with a result, with an error of ours or of the plugin's. */
void mcp_call_answer(struct mcp_call *call, struct kg_str result);
void mcp_call_fail(struct mcp_call *call, const struct kg_err *err);
void mcp_call_pass_error(struct mcp_call *call, int64_t code, struct kg_str error);
peer_progress_fn mcp_call_progress;
/* The token of a request as it was written; empty: it has none. */
struct kg_str mcp_progress_token(struct kg_str params);
/* What a server logged while the call is under way. */
void mcp_call_log(struct mcp_call *call, struct kg_str level, struct kg_str message);
/* Ends it without an answer; its exchange, if it has one, is still to be answered. */
void mcp_call_cancel(struct mcp_call *call);
/* What a client called with that id, and has no answer to; NULL: nothing. */
struct mcp_call *mcp_call_find(const struct mcp_client *client, struct kg_str id);
/* Makes the answer a stream, if it can be one. */
bool mcp_call_stream(struct mcp_call *call);
/* Answers the exchange, and goes on with the call when its client comes back by another. */
void mcp_call_pause(struct mcp_call *call, struct kg_str result);
void mcp_call_resume(struct mcp_call *call, struct mcp_exchange *exchange, struct kg_str token);
/* A look at the exchange from time to time, so that its stream is not taken for dead. */
void mcp_keep_alive(struct mcp_exchange *exchange);

/* -- asks.c ------------------------------------------------------------------------------------ */

extern const struct host_asked_ops mcp_asked_ops; /* data is the call */
/* A bit for each enum host_ask_kind that the client can be asked. */
unsigned mcp_asks_declared(const struct kg_node *capabilities_or_null);
/* A legacy client answers. */
void mcp_asks_answered(struct mcp_client *client, const struct rpc_message *message);
/* What a modern one brings along with a call, before it is asked. */
void mcp_asks_bring(struct mcp_call *call, struct kg_str params);
/* True: it came back to a call that waits for it, or said so, and the exchange is taken care of. */
bool mcp_call_again(struct mcp_exchange *exchange, struct kg_str params, struct kg_str method,
                    const char *plugin, struct kg_str arguments);
void mcp_asks_free(struct mcp_call *call);

/* -- offers.c ---------------------------------------------------------------------------------- */

/* Asks for it, and answers the exchange, at once or later. */
void mcp_offer(struct mcp_exchange *exchange, enum host_offer what, struct kg_str params);
void mcp_offers_close(struct mcp *mcp);
bool mcp_resource_split(struct kg_str outer, struct kg_str *ret_plugin, struct kg_str *ret_uri);
/* The process that serves the client, by its name; owned. */
char *mcp_server_name(const struct mcp_scope *scope, struct kg_str plugin);
bool mcp_may_use(const struct mcp_scope *scope, struct kg_str plugin);

/* -- subscriptions.c --------------------------------------------------------------------------- */

/* For the client's session, or for the exchange, which carries a stream. */
int mcp_subscribe(struct mcp_exchange *exchange, bool for_client, struct kg_str uri,
                  struct kg_err *err);
void mcp_unsubscribe(struct mcp_client *client, struct kg_str uri);
void mcp_subscriptions_free(struct mcp_subscription **list);

/* -- activity.c -------------------------------------------------------------------------------- */

/* A call of a tool is over. The outcome is a text that stays. */
void mcp_activity_add(const struct mcp_call *call, const char *outcome, struct kg_str result);
void mcp_activity_close(struct mcp *mcp);
void mcp_last_note(struct mcp_last *last, const struct mcp_call *call, const char *outcome);
struct mcp_last *mcp_visitor_last(struct mcp *mcp, const char *owner, const char *name);
void mcp_visitor_free(struct mcp_visitor *visitor);

/* -- news.c ------------------------------------------------------------------------------------ */

void mcp_news_open(struct mcp *mcp);
void mcp_news_close(struct mcp *mcp);

#endif
