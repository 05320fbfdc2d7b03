/*
 * The Model Context Protocol on stdio, as a client, in both of its eras. A modern server
 * (2026-07-28) is told the revision with each request; a legacy one is initialized first. Which it
 * is, is found by asking, and remembered with the talk, so that only a first start waits for
 * silence. What the server says of its tools is kept as it came: whoever approves them reads it.
 */
#include "dialect/mcp.h"
#include "dialect/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define MODERN_REVISION "2026-07-28"
#define LEGACY_REVISION "2025-11-25" /* what we ask for; an older one is taken */

#define UNSUPPORTED_VERSION (-32022) /* what only a modern server says */

/* A node server needs seconds to read its first line; then most answer at once. */
#define DISCOVER_PATIENCE_MS 5000
#define LIST_AGAIN_MS        1000 /* at the most so often, whatever the server says */

static const char *const legacy_revisions[] = {LEGACY_REVISION, "2025-06-18", "2025-03-26",
                                               "2024-11-05"};

enum step { DISCOVER, INITIALIZE, INITIALIZED, TOOLS };

/* -- what each message carries ----------------------------------------------------------------- */

static void dialect_mcp_put_client(struct kg_json_writer *json, const char *key)
{
    kg_json_named_begin(json, key, '{');
    kg_json_named_text(json, "name", "kaged");
    kg_json_named_text(json, "version", KAGED_VERSION);
    kg_json_end(json, '}');
}

bool mcp_may_request(const struct dialect_talk *talk, const char *method)
{
    return talk->ops->may_request != NULL && talk->ops->may_request(talk->data, kg_str(method));
}

static void put_elicitation(struct kg_json_writer *json, unsigned answers)
{
    kg_json_named_begin(json, "elicitation", '{');
    if ((answers & DIALECT_FORMS) != 0)
        kg_json_named_raw(json, "form", KG_STR("{}"));
    if ((answers & DIALECT_URLS) != 0)
        kg_json_named_raw(json, "url", KG_STR("{}"));
    kg_json_end(json, '}');
}

/* What we answer of what a server may ask. */
static void dialect_mcp_put_capabilities(const struct dialect_talk *talk,
                                         struct kg_json_writer *json, const char *key,
                                         unsigned answers)
{
    kg_json_named_begin(json, key, '{');
    if (mcp_has_roots(talk) ||
        ((answers & DIALECT_ROOTS) != 0 && mcp_may_request(talk, "kaged.roots")))
        kg_json_named_raw(json, "roots", KG_STR("{}"));
    if ((answers & (DIALECT_FORMS | DIALECT_URLS)) != 0 && mcp_may_request(talk, "kaged.ask"))
        put_elicitation(json, answers);
    if ((answers & DIALECT_SAMPLES) != 0 && mcp_may_request(talk, "kaged.sample"))
        kg_json_named_raw(json, "sampling", KG_STR("{}"));
    kg_json_end(json, '}');
}

/* What it may log of a request, where it is told with each. */
static const char *log_level(const struct dialect_talk *talk)
{
    const struct mcp *mcp = talk->state;
    if (talk->log_level != NULL || !mcp->has.logging)
        return talk->log_level;
    return "info";
}

void mcp_put_meta(const struct dialect_talk *talk, struct kg_json_writer *json, uint64_t token,
                  unsigned answers, const char *traceparent_or_null)
{
    if (!mcp_is_modern(talk) && token == 0)
        return;
    kg_json_named_begin(json, "_meta", '{');
    if (token != 0)
        kg_json_named_int(json, "progressToken", (int64_t)token);
    if (traceparent_or_null != NULL)
        kg_json_named_text(json, "traceparent", traceparent_or_null);
    if (mcp_is_modern(talk)) {
        kg_json_named_text(json, "io.modelcontextprotocol/protocolVersion", MODERN_REVISION);
        dialect_mcp_put_client(json, "io.modelcontextprotocol/clientInfo");
        dialect_mcp_put_capabilities(talk, json, "io.modelcontextprotocol/clientCapabilities",
                                     answers);
        if (log_level(talk) != NULL)
            kg_json_named_text(json, "io.modelcontextprotocol/logLevel", log_level(talk));
    }
    kg_json_end(json, '}');
}

static void put_list_meta(struct dialect_talk *talk, struct kg_json_writer *json)
{
    mcp_put_meta(talk, json, 0, DIALECT_ANSWERS_ALL, NULL);
}

/* -- the greeting ------------------------------------------------------------------------------ */

/* One that dies of the question is not asked it again. */
static void put_discover(struct dialect_talk *talk, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    talk->variant = DIALECT_MCP_MODERN;
    kg_json_begin(&json, '{');
    mcp_put_meta(talk, &json, 0, DIALECT_ANSWERS_ALL, NULL);
    kg_json_end(&json, '}');
    talk->variant = DIALECT_MCP_LEGACY;
}

static const struct kg_node *capability(const struct kg_node *result, const char *name)
{
    return kg_node_typed(kg_node_get(result, "capabilities"), name, KG_OBJECT);
}

/* Which of our methods the server has an answer for. */
static void offer_methods(struct dialect_talk *talk, const struct mcp_features *has)
{
    for (size_t i = 0; talk->methods[i] != NULL; i++) {
        struct kg_str method = kg_str(talk->methods[i]);
        bool subscribes =
            kg_str_is(method, "resources/subscribe") || kg_str_is(method, "resources/unsubscribe");
        talk->method_offered[i] =
            subscribes
                ? has->subscribe && !mcp_is_modern(talk)
                : (has->resources && kg_str_starts(method, "resources/")) ||
                      (has->prompts && kg_str_starts(method, "prompts/")) ||
                      (has->completions && kg_str_starts(method, "completion/")) ||
                      (has->logging && !mcp_is_modern(talk) && kg_str_starts(method, "logging/"));
    }
}

static void take_features(struct dialect_talk *talk, const struct kg_node *result)
{
    struct mcp *mcp = talk->state;
    const struct kg_node *tools = capability(result, "tools");
    const struct kg_node *resources = capability(result, "resources");
    const struct kg_node *prompts = capability(result, "prompts");
    mcp->has = (struct mcp_features){
        .tools = tools != NULL,
        .tools_change = kg_node_is_true(tools, "listChanged"),
        .resources = resources != NULL,
        .resources_change = kg_node_is_true(resources, "listChanged"),
        .subscribe = kg_node_is_true(resources, "subscribe"),
        .prompts = prompts != NULL,
        .prompts_change = kg_node_is_true(prompts, "listChanged"),
        .completions = capability(result, "completions") != NULL,
        .logging = capability(result, "logging") != NULL,
    };
    offer_methods(talk, &mcp->has);
}

static bool is_spoken(struct kg_str revision)
{
    for (size_t i = 0; i < KG_COUNT(legacy_revisions); i++)
        if (kg_str_is(revision, legacy_revisions[i]))
            return true;
    return false;
}

static int reject_revision(struct dialect_talk *talk, struct kg_str revision)
{
    return dialect_reject(talk,
                          "it speaks the revision \"%.*s\" of MCP; kaged speaks %s, %s and older "
                          "ones",
                          KG_STR_CUT(revision, KG_CUT_NAME), MODERN_REVISION, LEGACY_REVISION);
}

/* A modern server of other revisions, unless one of them is spoken here. */
static int dialect_mcp_take_others(struct dialect_talk *talk, const struct kg_node *supported)
{
    struct kg_str last = KG_STR_NULL;
    for (uint32_t i = 0; i < supported->count; i++) {
        last = supported->items[i].type == KG_STRING ? supported->items[i].text : last;
        if (is_spoken(last))
            return INITIALIZE;
    }
    return last.length > 0 ? reject_revision(talk, last) : INITIALIZE;
}

static int take_discovered(struct dialect_talk *talk, const struct kg_node *result)
{
    const struct kg_node *supported = kg_node_list(result, "supportedVersions");
    if (!kg_node_has_text(supported, KG_STR(MODERN_REVISION)))
        return dialect_mcp_take_others(talk, supported);
    talk->variant = DIALECT_MCP_MODERN;
    talk->pings = false;
    take_features(talk, result);
    return TOOLS;
}

static int take_unsupported(struct dialect_talk *talk, struct kg_str error)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(error, NULL);
    const struct kg_node *data = doc != NULL ? kg_node_get(doc->root, "data") : NULL;
    return dialect_mcp_take_others(talk, kg_node_list(data, "supported"));
}

/* Whatever else is not a result of discovery, silence included, means a legacy server. */
static int take_discover(struct dialect_talk *talk, enum peer_outcome outcome,
                         struct kg_str payload)
{
    if (outcome == PEER_ERROR && rpc_error_code(payload) == UNSUPPORTED_VERSION)
        return take_unsupported(talk, payload);
    if (outcome != PEER_RESULT)
        return INITIALIZE;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(payload, NULL);
    return doc != NULL ? take_discovered(talk, doc->root) : INITIALIZE;
}

static void put_initialize(struct dialect_talk *talk, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "protocolVersion", LEGACY_REVISION);
    dialect_mcp_put_capabilities(talk, &json, "capabilities", DIALECT_ANSWERS_ALL);
    dialect_mcp_put_client(&json, "clientInfo");
    kg_json_end(&json, '}');
}

static int take_initialized(struct dialect_talk *talk, struct kg_str payload)
{
    struct kg_err err;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(payload, &err);
    if (doc == NULL)
        return dialect_fail(talk, "the result of initialize: %s", err.message);
    const struct kg_node *revision = kg_node_typed(doc->root, "protocolVersion", KG_STRING);
    if (revision == NULL)
        return dialect_fail(talk, "the result of initialize has no string \"protocolVersion\"");
    if (!is_spoken(revision->text))
        return reject_revision(talk, revision->text);
    take_features(talk, doc->root);
    return INITIALIZED;
}

static int dialect_mcp_take_initialize(struct dialect_talk *talk, enum peer_outcome outcome,
                                       struct kg_str payload)
{
    return outcome == PEER_RESULT ? take_initialized(talk, payload)
                                  : dialect_fail_initialize(talk, outcome, payload);
}

static int tell_initialized(struct dialect_talk *talk)
{
    struct kg_err err;
    if (peer_notify(talk->peer, "notifications/initialized", KG_STR("{}"), &err) < 0)
        return dialect_fail(talk, "%s", err.message);
    return TOOLS;
}

/* -- what it tells of by itself ---------------------------------------------------------------- */

static void dialect_mcp_on_told(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct dialect_talk *talk = data;
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    if (outcome != PEER_ERROR)
        return;
    rpc_error_message(payload, &words);
    kg_log_about(KG_WARN, talk->name, "it refused what it was told: %" KG_S_PATH,
                 kg_buf_terminate(&words));
}

/* A request whose answer nobody waits for; an error is a line of our log. *ret_id may be NULL. */
static void mcp_tell(struct dialect_talk *talk, const char *method, struct kg_str params,
                     uint64_t *ret_id)
{
    const struct peer_call call = {
        .method = kg_str(method),
        .params = &params,
        .params_count = 1,
        .on_done = dialect_mcp_on_told,
        .data = talk,
    };
    struct kg_err err;
    if (peer_call(talk->peer, &call, ret_id, &err) < 0)
        kg_log_about(KG_WARN, talk->name, "%s: %s", method, err.message);
}

/* What was cancelled is not answered: a server that keeps to that must not count as hung. */
static void mcp_cancel(struct dialect_talk *talk, uint64_t id, const char *reason)
{
    char params[96];
    snprintf(params, sizeof(params), "{\"requestId\":%llu,\"reason\":\"%s\"}",
             (unsigned long long)id, reason);
    (void)peer_notify(talk->peer, "notifications/cancelled", kg_str(params), NULL);
    peer_forget(talk->peer, id);
}

static char *const *subscriptions(const struct dialect_talk *talk)
{
    static char *const none[] = {NULL};
    return talk->subscriptions != NULL ? talk->subscriptions : none;
}

/* What a modern server is asked to tell of. False: nothing. */
static bool put_filter(const struct dialect_talk *talk, struct kg_json_writer *json)
{
    const struct mcp *mcp = talk->state;
    bool subscribes = mcp->has.subscribe && kg_list_count(subscriptions(talk)) > 0;
    kg_json_named_begin(json, "notifications", '{');
    if (mcp->has.tools_change)
        kg_json_named_bool(json, "toolsListChanged", true);
    if (mcp->has.resources_change)
        kg_json_named_bool(json, "resourcesListChanged", true);
    if (mcp->has.prompts_change)
        kg_json_named_bool(json, "promptsListChanged", true);
    if (subscribes)
        kg_json_named_list(json, "resourceSubscriptions", subscriptions(talk));
    kg_json_end(json, '}');
    return subscribes || mcp->has.tools_change || mcp->has.resources_change ||
           mcp->has.prompts_change;
}

/* It tells of changes only to whoever listens, by a request that lasts; a new one takes its place.
 */
static void listen_anew(struct dialect_talk *talk)
{
    struct mcp *mcp = talk->state;
    uint64_t before = mcp->listening;
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    kg_json_begin(&json, '{');
    mcp_put_meta(talk, &json, 0, DIALECT_ANSWERS_ALL, NULL);
    bool any = put_filter(talk, &json);
    kg_json_end(&json, '}');
    mcp->listening = 0;
    if (any)
        mcp_tell(talk, "subscriptions/listen", kg_buf_view(&params), &mcp->listening);
    if (before != 0)
        mcp_cancel(talk, before, "another one takes its place");
}

/* Of those that are not among the others, to a legacy server. */
static void tell_each(struct dialect_talk *talk, const char *method, char *const *uris,
                      char *const *others)
{
    for (size_t i = 0; i < kg_list_count(uris); i++) {
        kg_auto(kg_buf_free) struct kg_buf params = {0};
        struct kg_json_writer json = kg_json_writer(&params);
        if (kg_list_has(others, kg_str(uris[i])))
            continue;
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "uri", uris[i]);
        kg_json_end(&json, '}');
        mcp_tell(talk, method, kg_buf_view(&params), NULL);
    }
}

static void subscribe(struct dialect_talk *talk)
{
    struct mcp *mcp = talk->state;
    if (!mcp->is_greeted || !mcp->has.subscribe)
        return;
    if (mcp_is_modern(talk)) {
        listen_anew(talk);
        return;
    }
    tell_each(talk, "resources/subscribe", subscriptions(talk), mcp->subscribed);
    tell_each(talk, "resources/unsubscribe", mcp->subscribed, subscriptions(talk));
    kg_list_free(mcp->subscribed);
    mcp->subscribed = kg_list_copy((const char *const *)subscriptions(talk));
}

/* A modern one is told with each request. */
static void set_log_level(struct dialect_talk *talk)
{
    const struct mcp *mcp = talk->state;
    char params[64];
    if (!mcp->is_greeted || !mcp->has.logging || mcp_is_modern(talk) || talk->log_level == NULL)
        return;
    snprintf(params, sizeof(params), "{\"level\":\"%s\"}", talk->log_level);
    mcp_tell(talk, "logging/setLevel", kg_str(params), NULL);
}

/* -- its tools --------------------------------------------------------------------------------- */

static void on_rested(struct loop_timer *timer)
{
    struct mcp *mcp = KG_CONTAINER(timer, struct mcp, listing_rest);
    if (mcp->is_stale)
        mcp_list_again(mcp);
}

static void end_greeting(struct dialect_talk *talk)
{
    struct mcp *mcp = talk->state;
    mcp->is_greeted = true;
    if (mcp_is_modern(talk))
        listen_anew(talk);
    else
        subscribe(talk);
    set_log_level(talk);
    dialect_go_on(talk, GREETING_DONE);
}

static void keep_tools(struct dialect_talk *talk, struct kg_str tools)
{
    bool changed = !kg_str_equal(kg_buf_view(&talk->tools), tools);
    talk->tools.length = 0;
    kg_buf_str(&talk->tools, tools);
    if (changed && talk->ops->on_tools != NULL)
        talk->ops->on_tools(talk->data);
}

static void dialect_mcp_on_tools(struct dialect_talk *talk, struct kg_str tools,
                                 const struct kg_err *err_or_null)
{
    struct mcp *mcp = talk->state;
    mcp->is_listing = false;
    loop_timer_start(talk->loop, &mcp->listing_rest, LIST_AGAIN_MS, on_rested);
    if (err_or_null == NULL)
        keep_tools(talk, tools);
    if (!mcp->is_greeted && err_or_null != NULL)
        dialect_go_on(talk, dialect_fail(talk, "%s", err_or_null->message));
    else if (!mcp->is_greeted)
        end_greeting(talk);
    else if (err_or_null != NULL)
        kg_log_about(KG_WARN, talk->name, "keeps the tools that it had: %s", err_or_null->message);
}

static void list_tools(struct mcp *mcp)
{
    static const struct dialect_list tools = {
        .method = "tools/list",
        .items = "tools",
        .next = "nextCursor",
        .cursor = "cursor",
        .pages_max = MCP_PAGES_MAX,
        .bytes_max = MCP_LIST_MAX_BYTES,
        .put_more = put_list_meta,
        .on_list = dialect_mcp_on_tools,
    };
    mcp->is_listing = true;
    mcp->is_stale = false;
    dialect_list(mcp->talk, &tools);
}

static int list_first(struct dialect_talk *talk)
{
    struct mcp *mcp = talk->state;
    if (!mcp->has.tools) {
        keep_tools(talk, KG_STR("[]"));
        end_greeting(talk);
    } else {
        list_tools(mcp);
    }
    return GREETING_LATER;
}

/* A change that comes while the list is read, or too soon after that, is looked at later. */
void mcp_list_again(struct mcp *mcp)
{
    if (mcp->is_listing || loop_timer_running(&mcp->listing_rest))
        mcp->is_stale = true;
    else
        list_tools(mcp);
}

static const struct dialect_step steps[] = {
    [DISCOVER] = {.method = "server/discover",
                  .put_params = put_discover,
                  .patience_ms = DISCOVER_PATIENCE_MS,
                  .take = take_discover},
    [INITIALIZE] = {.method = "initialize",
                    .put_params = put_initialize,
                    .take = dialect_mcp_take_initialize},
    [INITIALIZED] = {.act = tell_initialized},
    [TOOLS] = {.act = list_first},
};

static int first_step(const struct dialect_talk *talk)
{
    return talk->variant == DIALECT_MCP_LEGACY ? INITIALIZE : DISCOVER;
}

static void open_talk(struct dialect_talk *talk)
{
    struct mcp *mcp = kg_alloc(sizeof(*mcp));
    mcp->talk = talk;
    mcp->subscribed = kg_list_new(0);
    talk->state = mcp;
}

static void close_talk(struct dialect_talk *talk)
{
    struct mcp *mcp = talk->state;
    loop_timer_stop(talk->loop, &mcp->listing_rest);
    kg_list_free(mcp->subscribed);
    kg_buf_free(&mcp->token);
    free(mcp);
}

static void dialect_mcp_cancel(struct dialect_call *call)
{
    mcp_cancel(call->talk, call->id, "the caller left");
}

const struct dialect dialect_mcp = {
    .name = "mcp",
    .rules =
        {
            .begins = PEER_OPEN,
            .takes_any_id = true,
            .verdicts =
                {
                    [PEER_OVERSIZE] = PEER_FATAL,
                    [PEER_UNKNOWN_ID] = PEER_MILD,
                    [PEER_BAD_RESPONSE] = PEER_MILD,
                    [PEER_TOO_EARLY] = PEER_PASSED_OVER,
                    [PEER_BAD_REQUEST] = PEER_MILD,
                    [PEER_BATCH] = PEER_MILD,
                    [PEER_UNREAD] = PEER_FATAL,
                },
        },
    .ping = "ping",
    .steps = steps,
    .first_step = first_step,
    .open = open_talk,
    .close = close_talk,
    .knows = {[DIALECT_METHOD] = true, [DIALECT_TOOL] = true, [DIALECT_LIST] = true},
    .call = mcp_call,
    .read = mcp_read,
    .end = mcp_end,
    .cancel = dialect_mcp_cancel,
    .subscribe = subscribe,
    .set_log_level = set_log_level,
    .on_request = mcp_on_request,
    .on_notification = mcp_on_notification,
};
