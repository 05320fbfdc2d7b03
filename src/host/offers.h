/*
 * What a plugin offers beside methods and tools: resources, prompts, completion, and a log whose
 * level can be set. Only MCP servers do. Models are not given any of it: it is for MCP clients and
 * for the operator. Links to resources in what a server says are text; nobody here follows them.
 */
#ifndef KAGED_HOST_OFFERS_H
#define KAGED_HOST_OFFERS_H

#include "host/host.h"

enum host_offer {
    HOST_RESOURCES,  /* {} -> {"resources":[...]}, all pages in one; the next and PROMPTS alike */
    HOST_TEMPLATES,  /* {} -> {"resourceTemplates":[...]} */
    HOST_RESOURCE,   /* {"uri"} -> {"contents":[...]} */
    HOST_PROMPTS,    /* {} -> {"prompts":[...]} */
    HOST_PROMPT,     /* {"name","arguments"?} -> {"messages":[...],"description"?} */
    HOST_COMPLETION, /* {"ref","argument","context"?} -> {"completion":{...}} */
    HOST_OFFER_COUNT
};

/*
 * The method of the request is what says; its params are as above, and a _meta in them is left out.
 * Results are as the server wrote them. A server that does not run is started for it. NULL with err
 * when it is refused at once; host_call_cancel takes the handle. KG_E_NOT_APPLICABLE: it is not an
 * MCP server; KG_E_METHOD_NOT_FOUND: the server does not offer that.
 */
struct host_call *host_offer_ask(struct host *host, enum host_offer what,
                                 const struct host_call_request *request, struct kg_err *err);

/* Who hears that a resource changed. Embed one, zeroed but for the functions. */
struct host_subscriber {
    struct host_subscriber *next; /* of the process; offers.c's, like the two below */
    struct host_process *process; /* NULL: it is not subscribed */
    char *uri;
    /* The resource changed, or one below it. Only here it may unsubscribe itself. */
    void (*on_updated)(struct host_subscriber *subscriber, struct kg_str uri);
    void (*on_ended)(struct host_subscriber *subscriber); /* its process is gone for good */
};
/*
 * From now on, through restarts of the server, which runs for as long as somebody is subscribed.
 * That lists changed is an event: HOST_EVENT_NOTIFICATION, named notifications/resources/
 * list_changed or notifications/prompts/list_changed. What a server logs is one, too:
 * HOST_EVENT_LOG.
 */
int host_subscribe(struct host *host, struct kg_str plugin, struct kg_str uri,
                   struct host_subscriber *subscriber, struct kg_err *err);
void host_unsubscribe(struct host_subscriber *subscriber); /* also one that is not subscribed */

/* How much the server logs, by a word of dialect_log_levels; until somebody sets another. */
int host_set_log_level(struct host *host, struct kg_str plugin, struct kg_str level,
                       struct kg_err *err);

#endif
