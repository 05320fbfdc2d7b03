/*
 * What comes in, message by message: which era it speaks, whether its headers say what its body
 * says, whose session it is in, and which row of the table of methods answers it. Nothing of a
 * client is believed before that; each refusal has the status and the code that the protocol gives
 * it, and ends the exchange.
 */
#include "mcp/internal.h"

#include <stdlib.h>
#include <strings.h>

#define META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_CLIENT       "io.modelcontextprotocol/clientInfo"
#define META_LEVEL        "io.modelcontextprotocol/logLevel"
#define TEXT_MAX          128 /* bytes of what a client says of itself */

static const char *const legacy_revisions[] = {MCP_LATEST, "2025-06-18", "2025-03-26",
                                               "2024-11-05"};

/* The revision that it names, if it is one of the legacy era; else NULL. */
static const char *legacy_revision(struct kg_str text)
{
    for (size_t i = 0; i < KG_COUNT(legacy_revisions); i++)
        if (kg_str_is(text, legacy_revisions[i]))
            return legacy_revisions[i];
    return NULL;
}

/* -- both eras --------------------------------------------------------------------------------- */

static void mcp_message_put_capability(struct kg_json_writer *json, const char *name, bool changes,
                                       bool subscribes)
{
    kg_json_named_begin(json, name, '{');
    if (changes)
        kg_json_named_bool(json, "listChanged", true);
    if (subscribes)
        kg_json_named_bool(json, "subscribe", true);
    kg_json_end(json, '}');
}

/* At the door of one plugin that is not an MCP server there are only tools. */
static bool has_offers(const struct mcp_exchange *exchange)
{
    struct host_named named;
    struct kg_str plugin = exchange->scope.plugin;
    if (plugin.length == 0)
        return true;
    if (host_find(exchange->scope.mcp->host, plugin, &named, NULL) < 0)
        return false;
    const struct manifest *manifest = host_status(named).manifest;
    return manifest != NULL && manifest->is_mcp;
}

static void mcp_message_put_capabilities(struct kg_json_writer *json,
                                         const struct mcp_exchange *exchange)
{
    kg_json_named_begin(json, "capabilities", '{');
    mcp_message_put_capability(json, "tools", true, false);
    if (has_offers(exchange)) {
        mcp_message_put_capability(json, "resources", true, true);
        mcp_message_put_capability(json, "prompts", true, false);
        mcp_message_put_capability(json, "completions", false, false);
    }
    mcp_message_put_capability(json, "logging", false, false);
    kg_json_end(json, '}');
}

static struct mcp_last *last_of(const struct mcp_exchange *exchange)
{
    const char *name = exchange->client_name != NULL ? exchange->client_name : "unknown";
    return exchange->client != NULL ? &exchange->client->last
                                    : mcp_visitor_last(exchange->scope.mcp, exchange->owner, name);
}

/* All of them are on one page. */
static void handle_tools(struct mcp_exchange *exchange, struct kg_str params)
{
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    struct kg_json_writer json = kg_json_writer(&result);
    struct kg_str cursor;
    if (kg_json_member(params, "cursor", &cursor)) {
        mcp_reply_error(exchange, 200, MCP_INVALID_PARAMS,
                        "this cursor does not belong to any list");
        return;
    }
    kg_json_begin(&json, '{');
    mcp_put_result_head(&json, exchange);
    if (exchange->era == MCP_ERA_MODERN) {
        kg_json_named_int(&json, "ttlMs", 0);
        kg_json_named_text(&json, "cacheScope", "private");
    }
    kg_json_key(&json, "tools");
    size_t begin = result.length;
    mcp_tools_put(&exchange->scope, &json);
    struct kg_str list = kg_str_from(kg_buf_view(&result), begin);
    mcp_search_note(&exchange->scope, list, last_of(exchange));
    if (exchange->client != NULL)
        exchange->client->tools_told = kg_hash(list);
    kg_json_end(&json, '}');
    mcp_reply_result(exchange, kg_buf_view(&result));
}

static void handle_resources(struct mcp_exchange *exchange, struct kg_str params)
{
    mcp_offer(exchange, HOST_RESOURCES, params);
}

static void handle_templates(struct mcp_exchange *exchange, struct kg_str params)
{
    mcp_offer(exchange, HOST_TEMPLATES, params);
}

static void handle_read(struct mcp_exchange *exchange, struct kg_str params)
{
    mcp_offer(exchange, HOST_RESOURCE, params);
}

static void handle_prompts(struct mcp_exchange *exchange, struct kg_str params)
{
    mcp_offer(exchange, HOST_PROMPTS, params);
}

static void handle_prompt(struct mcp_exchange *exchange, struct kg_str params)
{
    mcp_offer(exchange, HOST_PROMPT, params);
}

static void handle_completion(struct mcp_exchange *exchange, struct kg_str params)
{
    mcp_offer(exchange, HOST_COMPLETION, params);
}

/* -- the legacy era ---------------------------------------------------------------------------- */

static void handle_ping(struct mcp_exchange *exchange, struct kg_str params)
{
    (void)params;
    mcp_reply_result(exchange, KG_STR("{}"));
}

static void handle_subscribe(struct mcp_exchange *exchange, struct kg_str params)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, NULL);
    struct kg_err err;
    if (mcp_subscribe(exchange, true, doc ? kg_node_text(doc->root, "uri") : KG_STR_NULL, &err) < 0)
        mcp_reply_error(exchange, 200, MCP_INVALID_PARAMS, err.message);
    else
        mcp_reply_result(exchange, KG_STR("{}"));
}

static void handle_unsubscribe(struct mcp_exchange *exchange, struct kg_str params)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, NULL);
    mcp_unsubscribe(exchange->client, doc ? kg_node_text(doc->root, "uri") : KG_STR_NULL);
    mcp_reply_result(exchange, KG_STR("{}"));
}

/* The servers log as much as the one that wants to hear most; each hears what it asked for. */
static void set_levels(const struct mcp_scope *scope)
{
    size_t count;
    unsigned least = (unsigned)-1;
    kg_auto(kg_free) struct host_named *names = host_names(scope->mcp->host, &count);
    for (const struct mcp_client *at = scope->mcp->clients; at != NULL; at = at->next)
        least = at->level < least ? at->level : least;
    for (size_t i = 0; i < count; i++)
        if (names[i].process != NULL && mcp_may_use(scope, kg_str(host_status(names[i]).plugin)))
            (void)host_set_log_level(scope->mcp->host, kg_str(host_name(names[i])),
                                     kg_str(mcp_levels[least]), NULL);
}

static void handle_level(struct mcp_exchange *exchange, struct kg_str params)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, NULL);
    struct kg_str wanted = doc != NULL ? kg_node_text(doc->root, "level") : KG_STR_NULL;
    for (unsigned i = 0; mcp_levels[i] != NULL; i++) {
        if (!kg_str_is(wanted, mcp_levels[i]))
            continue;
        exchange->client->level = i;
        set_levels(&exchange->scope);
        mcp_reply_result(exchange, KG_STR("{}"));
        return;
    }
    mcp_reply_error(exchange, 200, MCP_INVALID_PARAMS, "params.level is not a level of logging");
}

static char *own_text(const struct kg_node *node, const char *key)
{
    struct kg_str text = kg_node_text(node, key);
    if (text.length > TEXT_MAX)
        text.length = TEXT_MAX;
    return kg_str_dup(text);
}

/* The revision that was asked for, or the latest that there is with a handshake. */
static void handle_initialize(struct mcp_exchange *exchange, struct kg_str params)
{
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, NULL);
    struct kg_err err;
    const struct kg_node *wanted =
        doc ? kg_node_typed(doc->root, "protocolVersion", KG_STRING) : NULL;
    if (wanted == NULL) {
        mcp_reply_error(exchange, 400, MCP_INVALID_PARAMS, "params.protocolVersion is missing");
        return;
    }
    struct mcp_client *client = mcp_client_new(exchange, &err);
    if (client == NULL) {
        mcp_reply_error(exchange, 503, MCP_INTERNAL_ERROR, err.message);
        return;
    }
    const struct kg_node *info = kg_node_typed(doc->root, "clientInfo", KG_OBJECT);
    client->name = own_text(info, "name");
    client->version = own_text(info, "version");
    client->declared = mcp_asks_declared(kg_node_get(doc->root, "capabilities"));
    client->revision = legacy_revision(wanted->text);
    if (client->revision == NULL)
        client->revision = MCP_LATEST;
    struct kg_json_writer json = kg_json_writer(&result);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "protocolVersion", client->revision);
    mcp_message_put_capabilities(&json, exchange);
    mcp_put_server(&json, &exchange->scope, "serverInfo");
    kg_json_end(&json, '}');
    exchange->ops->add_header(exchange->carrier, "Mcp-Session-Id", client->id);
    mcp_reply_result(exchange, kg_buf_view(&result));
}

/* What is under way for this client, or was never, or is over. It is not answered. */
static void take_cancelled(struct mcp_client *client, struct kg_str params)
{
    struct kg_str id;
    struct mcp_call *call =
        kg_json_member(params, "requestId", &id) ? mcp_call_find(client, id) : NULL;
    if (call == NULL)
        return;
    struct mcp_exchange *exchange = call->stream ? call->stream->exchange : call->exchange;
    mcp_call_cancel(call);
    if (exchange != NULL && exchange->stream != NULL)
        mcp_exchange_end(exchange);
    else if (exchange != NULL)
        mcp_reply(exchange, 202, KG_STR_NULL);
}

/* -- the modern era ---------------------------------------------------------------------------- */

static void handle_discover(struct mcp_exchange *exchange, struct kg_str params)
{
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    struct kg_json_writer json = kg_json_writer(&result);
    (void)params;
    kg_json_begin(&json, '{');
    mcp_put_result_head(&json, exchange);
    kg_json_named_int(&json, "ttlMs", 0);
    kg_json_named_text(&json, "cacheScope", "private");
    kg_json_named_begin(&json, "supportedVersions", '[');
    kg_json_text(&json, MCP_MODERN);
    for (size_t i = 0; i < KG_COUNT(legacy_revisions); i++)
        kg_json_text(&json, legacy_revisions[i]);
    kg_json_end(&json, ']');
    mcp_message_put_capabilities(&json, exchange);
    kg_json_end(&json, '}');
    mcp_reply_result(exchange, kg_buf_view(&result));
}

static bool mcp_message_wants(const struct kg_node *filter, const char *what,
                              struct kg_json_writer *json)
{
    bool wanted = kg_node_is_true(filter, what);
    if (wanted)
        kg_json_named_bool(json, what, true);
    return wanted;
}

/* Those resources that it may hear of. */
static void subscribe_all(struct mcp_exchange *exchange, const struct kg_node *uris,
                          struct kg_json_writer *json)
{
    kg_json_named_begin(json, "resourceSubscriptions", '[');
    for (uint32_t i = 0; i < uris->count; i++)
        if (uris->items[i].type == KG_STRING &&
            mcp_subscribe(exchange, false, uris->items[i].text, NULL) == 0)
            kg_json_str(json, uris->items[i].text);
    kg_json_end(json, ']');
}

static void put_acknowledged(struct mcp_exchange *exchange, const struct kg_node *filter,
                             struct kg_buf *message)
{
    struct kg_json_writer json = kg_json_writer(message);
    bool has_more = has_offers(exchange);
    const struct kg_node *uris = kg_node_list(filter, "resourceSubscriptions");
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "jsonrpc", "2.0");
    kg_json_named_text(&json, "method", "notifications/subscriptions/acknowledged");
    kg_json_named_begin(&json, "params", '{');
    kg_json_named_begin(&json, "_meta", '{');
    kg_json_named_raw(&json, "io.modelcontextprotocol/subscriptionId", exchange->id);
    kg_json_end(&json, '}');
    kg_json_named_begin(&json, "notifications", '{');
    exchange->wants_tools = mcp_message_wants(filter, "toolsListChanged", &json);
    exchange->wants_prompts = has_more && mcp_message_wants(filter, "promptsListChanged", &json);
    exchange->wants_resources =
        has_more && mcp_message_wants(filter, "resourcesListChanged", &json);
    if (has_more && uris->count > 0)
        subscribe_all(exchange, uris, &json);
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
}

/* What of it is honoured comes first on the stream, which lasts until one of both ends it. */
static void handle_listen(struct mcp_exchange *exchange, struct kg_str params)
{
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, NULL);
    const struct kg_node *filter =
        doc ? kg_node_typed(doc->root, "notifications", KG_OBJECT) : NULL;
    if (filter == NULL) {
        mcp_reply_error(exchange, 400, MCP_INVALID_PARAMS, "params.notifications is missing");
        return;
    }
    if (!mcp_streams_have_room(exchange->scope.mcp)) {
        mcp_reply_error(exchange, 503, MCP_INTERNAL_ERROR, "there are already too many streams");
        return;
    }
    put_acknowledged(exchange, filter, &message);
    exchange->is_subscription = true;
    exchange->told = mcp_tools_digest(&exchange->scope);
    mcp_exchange_keep(exchange);
    struct mcp_stream *stream = mcp_stream_new(exchange->scope.mcp, NULL);
    mcp_stream_carry(stream, exchange, 0);
    mcp_keep_alive(exchange);
    mcp_stream_put(stream, kg_buf_view(&message));
}

/* -- methods ----------------------------------------------------------------------------------- */

static const struct method {
    const char *name;
    unsigned eras;
    const char *names; /* the member of params that the header Mcp-Name repeats; NULL: none */
    void (*handle)(struct mcp_exchange *exchange, struct kg_str params);
} methods[] = {
    {"initialize", MCP_ERA_LEGACY, NULL, handle_initialize},
    {"ping", MCP_ERA_LEGACY, NULL, handle_ping},
    {"logging/setLevel", MCP_ERA_LEGACY, NULL, handle_level},
    {"server/discover", MCP_ERA_MODERN, NULL, handle_discover},
    {"subscriptions/listen", MCP_ERA_MODERN, NULL, handle_listen},
    {"tools/list", MCP_ERA_LEGACY | MCP_ERA_MODERN, NULL, handle_tools},
    {"tools/call", MCP_ERA_LEGACY | MCP_ERA_MODERN, "name", mcp_handle_call},
    {"resources/list", MCP_ERA_LEGACY | MCP_ERA_MODERN, NULL, handle_resources},
    {"resources/templates/list", MCP_ERA_LEGACY | MCP_ERA_MODERN, NULL, handle_templates},
    {"resources/read", MCP_ERA_LEGACY | MCP_ERA_MODERN, "uri", handle_read},
    {"resources/subscribe", MCP_ERA_LEGACY, NULL, handle_subscribe},
    {"resources/unsubscribe", MCP_ERA_LEGACY, NULL, handle_unsubscribe},
    {"prompts/list", MCP_ERA_LEGACY | MCP_ERA_MODERN, NULL, handle_prompts},
    {"prompts/get", MCP_ERA_LEGACY | MCP_ERA_MODERN, "name", handle_prompt},
    {"completion/complete", MCP_ERA_LEGACY | MCP_ERA_MODERN, NULL, handle_completion},
};

static const struct method *find_method(const char *name, enum mcp_era era)
{
    for (size_t i = 0; i < KG_COUNT(methods); i++)
        if ((methods[i].eras & era) != 0 && strcmp(methods[i].name, name) == 0)
            return &methods[i];
    return NULL;
}

static void mcp_message_answer(struct mcp_exchange *exchange, const struct rpc_message *message)
{
    const struct method *method = find_method(message->method, exchange->era);
    struct kg_str params = message->params.data != NULL ? message->params : KG_STR("{}");
    if (method == NULL)
        mcp_reply_error(exchange, exchange->era == MCP_ERA_MODERN ? 404 : 200, MCP_METHOD_NOT_FOUND,
                        "there is no such method");
    else if (params.data[0] != '{')
        mcp_reply_error(exchange, 400, MCP_INVALID_PARAMS, "params is not an object");
    else
        method->handle(exchange, params);
}

static bool is_request(const struct rpc_message *message)
{
    return message->kind == RPC_REQUEST ||
           (message->kind == RPC_INVALID_REQUEST && message->has_foreign_id);
}

/* -- legacy messages --------------------------------------------------------------------------- */

static void take_notification(const struct mcp_exchange *exchange,
                              const struct rpc_message *message)
{
    if (strcmp(message->method, "notifications/cancelled") == 0)
        take_cancelled(exchange->client, message->params);
}

static void take_legacy(struct mcp_exchange *exchange, const struct mcp_visit *visit,
                        const struct rpc_message *message)
{
    bool begins = is_request(message) && strcmp(message->method, "initialize") == 0;
    if (!begins && visit->version.data != NULL && legacy_revision(visit->version) == NULL) {
        mcp_reply_error(exchange, 400, MCP_INVALID_REQUEST,
                        "MCP-Protocol-Version names a revision that is not supported here");
        return;
    }
    if (!begins && mcp_client_of(exchange, visit->session) == NULL)
        return;
    if (is_request(message)) {
        mcp_message_answer(exchange, message);
        return;
    }
    if (message->kind == RPC_NOTIFICATION)
        take_notification(exchange, message);
    else
        mcp_asks_answered(exchange->client, message);
    mcp_reply(exchange, 202, KG_STR_NULL);
}

/* -- modern messages --------------------------------------------------------------------------- */

static void refuse_version(struct mcp_exchange *exchange, struct kg_str wanted)
{
    kg_auto(kg_buf_free) struct kg_buf data = {0};
    struct kg_json_writer json = kg_json_writer(&data);
    if (wanted.length > TEXT_MAX)
        wanted.length = TEXT_MAX;
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "requested", wanted);
    kg_json_named_begin(&json, "supported", '[');
    kg_json_text(&json, MCP_MODERN);
    for (size_t i = 0; i < KG_COUNT(legacy_revisions); i++)
        kg_json_text(&json, legacy_revisions[i]);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    mcp_reply_error_data(exchange, 400, MCP_UNSUPPORTED_VERSION,
                         "this revision of the protocol is not supported here", kg_buf_view(&data));
}

/* NULL, or which header does not say what the body says. */
static const char *compare_headers(const struct mcp_visit *visit, const struct rpc_message *message,
                                   const struct kg_node *params)
{
    const struct method *method = find_method(message->method, MCP_ERA_MODERN);
    struct kg_str name =
        method != NULL && method->names != NULL ? kg_node_text(params, method->names) : KG_STR_NULL;
    if (!kg_str_is(visit->method, message->method))
        return "the header Mcp-Method does not match the method of the body";
    if (name.data != NULL && !header_is(visit->name, name))
        return "the header Mcp-Name does not match the name in the body";
    return NULL;
}

static void mcp_message_take_request(struct mcp_exchange *exchange, const struct mcp_visit *visit,
                                     const struct rpc_message *message)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        message->params.data != NULL ? kg_json_read(message->params, NULL) : NULL;
    const struct kg_node *params = doc != NULL ? doc->root : NULL;
    const struct kg_node *meta = kg_node_typed(params, "_meta", KG_OBJECT);
    struct kg_str version = kg_node_text(meta, META_VERSION);
    if (version.data == NULL || kg_node_typed(meta, META_CAPABILITIES, KG_OBJECT) == NULL) {
        mcp_reply_error(exchange, 400, MCP_INVALID_PARAMS,
                        "params._meta lacks the revision of the protocol, or the client's "
                        "capabilities");
        return;
    }
    const struct kg_node *info = kg_node_typed(meta, META_CLIENT, KG_OBJECT);
    if (info != NULL)
        exchange->client_name =
            kg_format("%.*s %.*s", KG_STR_CUT(kg_node_text(info, "name"), KG_CUT_WORD),
                      KG_STR_CUT(kg_node_text(info, "version"), KG_CUT_WORD));
    exchange->declared = mcp_asks_declared(kg_node_get(meta, META_CAPABILITIES));
    struct kg_str level = kg_node_text(meta, META_LEVEL);
    for (int i = 0; mcp_levels[i] != NULL; i++)
        if (kg_str_is(level, mcp_levels[i]))
            exchange->level = i;
    const char *mismatch =
        kg_str_equal(visit->version, version)
            ? compare_headers(visit, message, params)
            : "the header MCP-Protocol-Version does not match the revision of the body";
    if (mismatch != NULL)
        mcp_reply_error(exchange, 400, MCP_HEADER_MISMATCH, mismatch);
    else if (!kg_str_is(version, MCP_MODERN))
        refuse_version(exchange, version);
    else
        mcp_message_answer(exchange, message);
}

static void take_modern(struct mcp_exchange *exchange, const struct mcp_visit *visit,
                        const struct rpc_message *message)
{
    exchange->era = MCP_ERA_MODERN;
    if (is_request(message))
        mcp_message_take_request(exchange, visit, message);
    else
        mcp_reply(exchange, 202,
                  KG_STR_NULL); /* a client that no longer wants an answer closes its stream */
}

/* By its header, or by what only a modern request carries. */
static bool is_modern(const struct mcp_visit *visit, const struct rpc_message *message)
{
    struct kg_str meta, version;
    if (visit->version.data != NULL && kg_str_is(visit->version, MCP_MODERN))
        return true;
    return message->params.data != NULL && kg_json_member(message->params, "_meta", &meta) &&
           kg_json_member(meta, META_VERSION, &version);
}

/* -- what comes in ----------------------------------------------------------------------------- */

/* Whether an Accept header lets an answer have that type. */
static bool accepts(struct kg_str accept, const char *type)
{
    kg_auto(kg_free) char *text = kg_str_dup(accept);
    return accept.data == NULL || strcasestr(text, type) != NULL || strstr(text, "*/*") != NULL;
}

/* A message's own trace goes before that of the request which carries it. */
static void take_trace(struct mcp_exchange *exchange, struct kg_str params)
{
    char trace[KG_TRACEPARENT_TEXT];
    struct kg_str meta, given;
    if (params.data == NULL || !kg_json_member(params, "_meta", &meta) ||
        !kg_json_member(meta, "traceparent", &given) || given.length < 2 || given.data[0] != '"' ||
        !kg_traceparent_read((struct kg_str){given.data + 1, given.length - 2}, trace))
        return;
    struct host_asker *traced = host_asker_traced(exchange->asker, trace);
    host_asker_unref(exchange->asker);
    exchange->asker = traced;
}

static void mcp_message_take(struct mcp_exchange *exchange, const struct mcp_visit *visit)
{
    struct rpc_message message;
    rpc_parse(visit->body, &message);
    if (is_request(&message)) {
        exchange->id = message.id_text;
        take_trace(exchange, message.params);
    }
    if (message.kind == RPC_NOISE)
        mcp_reply_error(exchange, 400,
                        message.fault != KG_JSON_OK ? MCP_PARSE_ERROR : MCP_INVALID_REQUEST,
                        message.problem);
    else if (message.kind == RPC_BATCH)
        mcp_reply_error(exchange, 400, MCP_INVALID_REQUEST, "batches are not part of the protocol");
    else if (!is_request(&message) &&
             (message.kind == RPC_INVALID_REQUEST || message.kind == RPC_INVALID_RESPONSE))
        mcp_reply_error(exchange, 400, MCP_INVALID_REQUEST, message.problem);
    else
        (is_modern(visit, &message) ? take_modern : take_legacy)(exchange, visit, &message);
}

void mcp_post(struct mcp *mcp, const struct mcp_visit *visit)
{
    struct mcp_exchange *exchange = mcp_exchange_new(mcp, visit);
    if (mcp->is_stopping)
        mcp_reply_error(exchange, 503, MCP_INTERNAL_ERROR, "the daemon is stopping");
    else if (!accepts(visit->accept, "application/json") ||
             !accepts(visit->accept, "text/event-stream"))
        mcp_reply_error(exchange, 406, MCP_INVALID_REQUEST,
                        "Accept must list application/json and text/event-stream");
    else
        mcp_message_take(exchange, visit);
}

/* The newest connection has the stream: the one before may be dead without anybody knowing. */
static void carry(struct mcp_exchange *exchange, struct mcp_stream *stream, uint64_t after)
{
    if (stream->exchange != NULL) {
        struct mcp_exchange *before = stream->exchange;
        if (before->call != NULL)
            before->call->exchange = NULL;
        before->call = NULL;
        mcp_stream_leave(stream);
        mcp_exchange_end(before);
    }
    mcp_exchange_keep(exchange);
    mcp_keep_alive(exchange);
    mcp_stream_carry(stream, exchange, after);
}

static void listen_to(struct mcp_exchange *exchange, const struct mcp_visit *visit)
{
    struct mcp_client *client = exchange->client;
    struct mcp_stream *stream = mcp_client_stream(client);
    uint64_t after = 0;
    if (visit->last_event.length > 0) {
        stream = mcp_stream_find(client, visit->last_event, &after);
        if (stream == NULL) {
            mcp_reply_error(exchange, 404, MCP_INVALID_REQUEST,
                            "Last-Event-ID belongs to no stream of this session");
            return;
        }
    } else if (stream == NULL) {
        stream = mcp_stream_new(client->mcp, client);
    } else {
        after = stream->sequence - 1;
    }
    carry(exchange, stream, after);
}

void mcp_listen(struct mcp *mcp, const struct mcp_visit *visit)
{
    struct mcp_exchange *exchange = mcp_exchange_new(mcp, visit);
    if (mcp->is_stopping)
        mcp_reply_error(exchange, 503, MCP_INTERNAL_ERROR, "the daemon is stopping");
    else if (!accepts(visit->accept, "text/event-stream"))
        mcp_reply_error(exchange, 406, MCP_INVALID_REQUEST, "Accept must list text/event-stream");
    else if (visit->version.data != NULL && kg_str_is(visit->version, MCP_MODERN))
        mcp_reply_error(exchange, 405, MCP_INVALID_REQUEST,
                        "this revision has no streams but those of requests");
    else if (mcp_client_of(exchange, visit->session) == NULL)
        return;
    else if (!mcp_streams_have_room(mcp))
        mcp_reply_error(exchange, 503, MCP_INTERNAL_ERROR, "there are already too many streams");
    else
        listen_to(exchange, visit);
}

void mcp_leave(struct mcp *mcp, const struct mcp_visit *visit)
{
    struct mcp_exchange *exchange = mcp_exchange_new(mcp, visit);
    struct mcp_client *client = mcp_client_of(exchange, visit->session);
    if (client == NULL)
        return;
    exchange->client = NULL;
    mcp_client_end(client);
    mcp_reply(exchange, 204, KG_STR_NULL);
}
