/*
 * Resources and prompts of MCP servers go through the one door like every call. Who is subscribed
 * to a resource is counted here: a server is told of each URI once, whoever listens, and told again
 * when it starts again.
 */
#include "host/offers.h"
#include "host/internal.h"

#include <errno.h>

#define URI_MAX_BYTES       2048
#define SUBSCRIBERS_MAX     1024 /* of one process */
#define UPDATED_METHOD_NAME "notifications/resources/updated"

static const struct {
    const char *method;
    bool is_list;
} rows[HOST_OFFER_COUNT] = {
    [HOST_RESOURCES] = {"resources/list", true},
    [HOST_TEMPLATES] = {"resources/templates/list", true},
    [HOST_RESOURCE] = {"resources/read", false},
    [HOST_PROMPTS] = {"prompts/list", true},
    [HOST_PROMPT] = {"prompts/get", false},
    [HOST_COMPLETION] = {"completion/complete", false},
};

/* The process that the name means, if it can offer anything. */
static struct host_process *find_server(struct host *host, struct kg_str plugin, struct kg_err *err)
{
    struct host_named named;
    if (host_find(host, plugin, &named, err) < 0 || host_check_process(named, err) < 0)
        return NULL;
    if (named.process->tier->lists_tools)
        return named.process;
    kg_fail(err, KG_E_NOT_APPLICABLE,
            "plugin %s is not an MCP server: it has no resources and no prompts", host_name(named));
    return NULL;
}

struct host_call *host_offer_ask(struct host *host, enum host_offer what,
                                 const struct host_call_request *request, struct kg_err *err)
{
    struct host_call_request call = *request;
    call.method = kg_str(rows[what].method);
    call.all_pages = rows[what].is_list;
    return find_server(host, request->plugin, err) != NULL ? host_call(host, &call, err) : NULL;
}

/* -- subscriptions ----------------------------------------------------------------------------- */

static void tell_server(struct host_process *process)
{
    char **uris = kg_list_new(0);
    for (struct host_subscriber *at = process->subscribers; at != NULL; at = at->next)
        if (!kg_list_has(uris, kg_str(at->uri)))
            kg_list_add(&uris, kg_strdup(at->uri));
    instance_subscribe(process->instance, uris);
    kg_list_free(uris);
}

static size_t count_subscribers(const struct host_process *process)
{
    size_t count = 0;
    for (const struct host_subscriber *at = process->subscribers; at != NULL; at = at->next)
        count++;
    return count;
}

int host_subscribe(struct host *host, struct kg_str plugin, struct kg_str uri,
                   struct host_subscriber *subscriber, struct kg_err *err)
{
    struct host_process *process = find_server(host, plugin, err);
    if (process == NULL)
        return -EINVAL;
    if (uri.length == 0 || uri.length > URI_MAX_BYTES || memchr(uri.data, '\0', uri.length) != NULL)
        return kg_fail(err, KG_E_INVALID_PARAMS, "a URI must have 1 to %d bytes", URI_MAX_BYTES);
    if (count_subscribers(process) >= SUBSCRIBERS_MAX)
        return kg_fail(err, KG_E_BUSY, "plugin %s: %d are already subscribed", process->name,
                       SUBSCRIBERS_MAX);
    subscriber->process = process;
    subscriber->uri = kg_str_dup(uri);
    subscriber->next = process->subscribers;
    process->subscribers = subscriber;
    host_process_use(process);
    tell_server(process);
    return 0;
}

static void host_offers_leave(struct host_subscriber *subscriber)
{
    KG_UNLINK(subscriber->process->subscribers, subscriber);
    subscriber->process = NULL;
    kg_free(&subscriber->uri);
}

void host_unsubscribe(struct host_subscriber *subscriber)
{
    struct host_process *process = subscriber->process;
    if (process == NULL)
        return;
    host_offers_leave(subscriber);
    tell_server(process);
}

/* The text of a member that is a plain string; empty: it is none. */
static struct kg_str host_offers_member_text(const struct kg_doc *doc_or_null, const char *key)
{
    return doc_or_null != NULL ? kg_node_text(doc_or_null->root, key) : KG_STR_NULL;
}

void host_offers_heard(struct host_process *process, struct kg_str method, struct kg_str params)
{
    if (process->subscribers == NULL || !kg_str_is(method, UPDATED_METHOD_NAME))
        return;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, NULL);
    struct kg_str uri = host_offers_member_text(doc, "uri");
    for (struct host_subscriber *at = process->subscribers, *next; at != NULL; at = next) {
        next = at->next;
        if (uri.length > 0 && kg_str_starts(uri, at->uri))
            at->on_updated(at, uri);
    }
}

void host_offers_end(struct host_process *process)
{
    while (process->subscribers != NULL) {
        struct host_subscriber *subscriber = process->subscribers;
        host_offers_leave(subscriber);
        subscriber->on_ended(subscriber);
    }
}

/* -- its log ----------------------------------------------------------------------------------- */

int host_set_log_level(struct host *host, struct kg_str plugin, struct kg_str level,
                       struct kg_err *err)
{
    struct host_process *process = find_server(host, plugin, err);
    if (process == NULL)
        return -EINVAL;
    for (size_t i = 0; dialect_log_levels[i] != NULL; i++)
        if (kg_str_is(level, dialect_log_levels[i])) {
            instance_set_log_level(process->instance, dialect_log_levels[i]);
            return 0;
        }
    return kg_fail(err, KG_E_INVALID_PARAMS, "\"%.*s\" is not a level of logs",
                   KG_STR_CUT(level, KG_CUT_NAME));
}

void host_offers_logged(struct host_process *process, struct kg_str message)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(message, NULL);
    struct kg_str level = host_offers_member_text(doc, "level");
    host_events_log(process->plugin->host->events, process->name,
                    level.length > 0 ? level : KG_STR("info"), message);
}
