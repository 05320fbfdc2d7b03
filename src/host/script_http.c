/*
 * kage.http, as the daemon serves it: what a stranger asks for is checked, and kaged-fetch asks it
 * in a cage that reaches what the operator granted. Redirects are not followed: where they lead to
 * was not looked at. A request ends before it is answered, or with the process that asked.
 */
#include "host/internal.h"

#include "base/base64.h"
#include "base/url.h"
#include "fetch/fetch.h"

#include <stdlib.h>

#define REQUESTS_MAX 4 /* of one process at the same time */
#define IDLE_MS      30000
#define SEC          30
#define SEC_MAX      120

static const char kage_http[] = "kage.http";

struct script_fetch {
    struct script_fetch *next;
    struct host_script_request *request; /* owned */
    struct host_script_net *net;
    struct fetch_call *call;
};

struct host_script_net {
    struct host *host;
    struct helper_pool_place place;
    struct helper_pool *pool;
    struct script_fetch *first; /* owned */
    bool closing, closed;
};

/* -- the processes that ask -------------------------------------------------------------------- */

static void script_http_on_network(void *data, const char *whose, const struct gate_event *event)
{
    const struct host_script_net *net = data;
    struct host_named named;
    if (host_find(net->host, kg_str(whose), &named, NULL) == 0 && named.process != NULL)
        instance_heard_network(named.process->instance, event);
}

static struct host_script_net *net_of(struct host *host)
{
    if (host->script_net != NULL)
        return host->script_net;
    struct host_script_net *net = kg_alloc(sizeof(*net));
    net->host = host;
    net->place = (struct helper_pool_place){
        .where = {host->loop, host->supervisor.spawner, host->gate},
        .facts = host->facts,
        .calls_max = REQUESTS_MAX,
        .idle_ms = IDLE_MS,
        .on_network = script_http_on_network,
        .data = net,
    };
    net->pool = fetch_pool_new(&net->place);
    host->script_net = net;
    return net;
}

static void on_net_closed(void *data)
{
    struct host_script_net *net = data;
    net->closed = true;
    host_look_for_stop(net->host);
}

void host_script_net_close(struct host *host)
{
    struct host_script_net *net = host->script_net;
    if (net == NULL || net->closing)
        return;
    net->closing = true;
    helper_pool_close(net->pool, on_net_closed, net);
}

bool host_script_net_is_closed(const struct host *host)
{
    return host->script_net == NULL || host->script_net->closed;
}

void host_script_net_free(struct host *host)
{
    if (host->script_net == NULL)
        return;
    helper_pool_free(host->script_net->pool);
    free(kg_steal(&host->script_net));
}

/* -- answers ----------------------------------------------------------------------------------- */

static struct host_script_request *script_fetch_end(struct script_fetch *fetch)
{
    struct host_script_request *request = fetch->request;
    KG_UNLINK(fetch->net->first, fetch);
    free(fetch);
    return request;
}

static void script_http_on_fetched(void *data, const struct fetch_answer *answer)
{
    struct host_script_request *request = script_fetch_end(data);
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    struct kg_json_writer json = kg_json_writer(&result);
    if (answer->status == 0) {
        kg_fail(&err, KG_E_IO, "%" KG_S_CAUSE, answer->error);
        host_script_refuse(request, kage_http, &err);
        return;
    }
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "status", answer->status);
    kg_json_named_str(&json, "content_type",
                      answer->content_type.data ? answer->content_type : KG_STR(""));
    kg_json_named_bool(&json, "truncated", answer->truncated);
    kg_json_named_bytes(&json, "body", answer->body);
    kg_json_end(&json, '}');
    host_script_reply(request, kg_buf_view(&result));
}

void host_script_net_end(const struct host_process *process)
{
    struct host_script_net *net = process->plugin->host->script_net;
    for (struct script_fetch *at = net ? net->first : NULL, *next; at != NULL; at = next) {
        struct kg_err gone = {.code = KG_E_CANCELLED, .message = "its script is gone"};
        next = at->next;
        if (host_script_asker(at->request) != process)
            continue;
        fetch_cancel(at->call);
        host_script_refuse(script_fetch_end(at), kage_http, &gone);
    }
    if (net != NULL)
        helper_pool_leave(net->pool, kg_str(process->name));
}

/* -- requests ---------------------------------------------------------------------------------- */

/* A host that the grant names is reached wherever it is, any other not in a private network. */
static int script_http_check_host(const struct host_script_request *request, const char *url,
                                  bool *ret_is_public, struct kg_err *err)
{
    kg_auto(kg_free) char *host = NULL;
    uint16_t port = 0;
    if (!kg_url_host(url, &host, &port))
        return kg_fail(err, KG_E_INVALID_PARAMS, "the url must begin with https:// or http://");
    char *const *grants = host_script_grants(host_script_asker(request));
    if (!config_grants_cover(grants, POWER_NET, kg_str(host)))
        return host_script_check(request, POWER_NET, kg_str(host), kage_http, err);
    *ret_is_public = !config_grants_name(grants, POWER_NET, kg_str(host));
    return 0;
}

static int script_http_check_place(const struct host_script_request *request, struct kg_err *err)
{
    const struct host *host = host_script_asker(request)->plugin->host;
    if (host_script_whom(request)->root == NULL)
        return kg_fail(err, KG_E_NOT_APPLICABLE, "the session has no folder");
    if (host->no_cage.code == KG_OK)
        return 0;
    *err = host->no_cage;
    return -1;
}

/* "Name: value" of each; owned. What cannot stand in a line is left to fetch_check. */
static char **header_lines(const struct kg_node *params)
{
    const struct kg_node *headers = kg_node_typed(params, "headers", KG_OBJECT);
    char **lines = kg_list_new(0);
    for (uint32_t i = 0; headers != NULL && i < headers->count; i++) {
        const struct kg_member *member = &headers->members[i];
        struct kg_buf line = {0};
        kg_buf_str(&line, member->key);
        kg_buf_text(&line, ": ");
        kg_buf_str(&line, member->value.type == KG_STRING ? member->value.text : KG_STR("\n"));
        kg_list_add(&lines, kg_buf_terminate(&line));
    }
    return lines;
}

static int script_http_ask(struct host_script_request *request, const struct fetch_request *wanted,
                           struct kg_err *err)
{
    struct host_script_net *net = net_of(host_script_asker(request)->plugin->host);
    struct script_fetch *fetch = kg_alloc(sizeof(*fetch));
    *fetch = (struct script_fetch){.next = net->first, .request = request, .net = net};
    int result = fetch_ask(net->pool, wanted, script_http_on_fetched, fetch, &fetch->call, err);
    if (result < 0)
        free(fetch);
    else
        net->first = fetch;
    return result;
}

void host_script_serve_http(struct host_script_request *request, const struct kg_node *params,
                            void *data)
{
    struct kg_err err = {0};
    int64_t seconds = 0, max_bytes = 0;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_free) char *url = kg_str_dup(kg_node_text(params, "url"));
    kg_auto(kg_free) char *method = kg_str_dup(kg_node_text(params, "method"));
    struct fetch_request wanted = {
        .whose = host_script_asker(request)->name, .method = method, .url = url};
    (void)data;
    if (script_http_check_place(request, &err) < 0 ||
        script_http_check_host(request, url, &wanted.is_public, &err) < 0 ||
        host_script_number(params, "timeout_secs", SEC, SEC_MAX, &seconds, &err) < 0 ||
        host_script_number(params, "max_bytes", FETCH_ANSWER_BYTES, FETCH_ANSWER_BYTES, &max_bytes,
                           &err) < 0 ||
        kg_node_bytes(params, "body", FETCH_BODY_BYTES, &body, &err) < 0) {
        host_script_refuse(request, kage_http, &err);
        return;
    }
    char **headers = header_lines(params);
    wanted.headers = headers;
    wanted.body = kg_buf_view(&body);
    wanted.timeout_ms = (uint64_t)seconds * 1000;
    wanted.answer_max = (size_t)max_bytes;
    if (script_http_ask(request, &wanted, &err) < 0)
        host_script_refuse(request, kage_http, &err);
    kg_list_free(headers);
}
