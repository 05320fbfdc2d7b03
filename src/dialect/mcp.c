/*
 * The Model Context Protocol on stdio, as a client, in both of its eras. A modern server
 * (2026-07-28) is told the revision with each request; a legacy one is initialized first. Which it
 * is, is found by asking, and remembered with the talk, so that only a first start waits for
 * silence. What the server says of its tools is kept as it came: whoever approves them reads it.
 */
#include "dialect/dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define MODERN_REVISION "2026-07-28"
#define LEGACY_REVISION "2025-11-25" /* what we ask for; an older one is taken */

/* A node server needs seconds to read its first line; then most answer at once. */
#define DISCOVER_PATIENCE_MS 5000
#define PAGES_MAX            100
#define LIST_MAX_BYTES       ((size_t)4 << 20)
#define LIST_AGAIN_MS        1000 /* at the most so often, whatever the server says */
#define LOG_MAX_BYTES        4096
#define WORDS_MAX_BYTES      200 /* of an answer that may say that there is no such tool */

static const char *const legacy_revisions[] = {LEGACY_REVISION, "2025-06-18", "2025-03-26",
                                               "2024-11-05"};

enum step { DISCOVER, INITIALIZE, INITIALIZED, TOOLS };

/* What a server can do, by its own word. */
struct mcp_features {
    bool tools, resources, subscribe, prompts, completions, logging, tools_change;
};

struct mcp {
    struct dialect_talk *talk;
    struct mcp_features has;
    bool is_greeted;
    bool is_listing, is_stale;      /* tools are being listed; they changed meanwhile */
    struct loop_timer listing_rest; /* until they may be listed again */
};

static bool is_modern(const struct dialect_talk *talk)
{
    return talk->variant == DIALECT_MCP_MODERN;
}

/* -- what each message carries ----------------------------------------------------------------- */

static void put_client(struct kg_json_writer *json, const char *key)
{
    kg_json_named_begin(json, key, '{');
    kg_json_named_text(json, "name", "kaged");
    kg_json_named_text(json, "version", KAGED_VERSION);
    kg_json_end(json, '}');
}

/* What we answer of what a server may ask. */
static void put_capabilities(const struct dialect_talk *talk, struct kg_json_writer *json,
                             const char *key)
{
    kg_json_named_begin(json, key, '{');
    if (talk->ops->put_roots != NULL && talk->ops->put_roots(talk->data, NULL)) {
        kg_json_named_begin(json, "roots", '{');
        kg_json_end(json, '}');
    }
    kg_json_end(json, '}');
}

/* The _meta of a request; progress is told under the token, which is the id of the request. */
static void put_meta(const struct dialect_talk *talk, struct kg_json_writer *json, uint64_t token)
{
    if (!is_modern(talk) && token == 0)
        return;
    kg_json_named_begin(json, "_meta", '{');
    if (token != 0)
        kg_json_named_int(json, "progressToken", (int64_t)token);
    if (is_modern(talk)) {
        kg_json_named_text(json, "io.modelcontextprotocol/protocolVersion", MODERN_REVISION);
        put_client(json, "io.modelcontextprotocol/clientInfo");
        put_capabilities(talk, json, "io.modelcontextprotocol/clientCapabilities");
    }
    kg_json_end(json, '}');
}

static void put_list_meta(struct dialect_talk *talk, struct kg_json_writer *json)
{
    put_meta(talk, json, 0);
}

/* -- the greeting ------------------------------------------------------------------------------ */

/* One that dies of the question is not asked it again. */
static void put_discover(struct dialect_talk *talk, struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    talk->variant = DIALECT_MCP_MODERN;
    kg_json_begin(&json, '{');
    put_meta(talk, &json, 0);
    kg_json_end(&json, '}');
    talk->variant = DIALECT_MCP_LEGACY;
}

static bool has_text(const struct kg_node *list, const char *text)
{
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (list->items[i].type == KG_STRING && kg_str_is(list->items[i].text, text))
            return true;
    return false;
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
                ? has->subscribe && !is_modern(talk)
                : (has->resources && kg_str_starts(method, "resources/")) ||
                      (has->prompts && kg_str_starts(method, "prompts/")) ||
                      (has->completions && kg_str_starts(method, "completion/")) ||
                      (has->logging && !is_modern(talk) && kg_str_starts(method, "logging/"));
    }
}

static void take_features(struct dialect_talk *talk, const struct kg_node *result)
{
    struct mcp *mcp = talk->state;
    const struct kg_node *tools = capability(result, "tools");
    const struct kg_node *resources = capability(result, "resources");
    mcp->has = (struct mcp_features){
        .tools = tools != NULL,
        .tools_change = kg_node_is_true(tools, "listChanged"),
        .resources = resources != NULL,
        .subscribe = kg_node_is_true(resources, "subscribe"),
        .prompts = capability(result, "prompts") != NULL,
        .completions = capability(result, "completions") != NULL,
        .logging = capability(result, "logging") != NULL,
    };
    offer_methods(talk, &mcp->has);
}

static int take_discovered(struct dialect_talk *talk, const struct kg_node *result)
{
    if (!has_text(kg_node_typed(result, "supportedVersions", KG_ARRAY), MODERN_REVISION))
        return INITIALIZE;
    talk->variant = DIALECT_MCP_MODERN;
    talk->pings = false;
    take_features(talk, result);
    return TOOLS;
}

/* Whatever is no result of discovery, silence included, is a legacy server's. */
static int take_discover(struct dialect_talk *talk, enum peer_outcome outcome,
                         struct kg_str payload)
{
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
    put_capabilities(talk, &json, "capabilities");
    put_client(&json, "clientInfo");
    kg_json_end(&json, '}');
}

static bool is_spoken(struct kg_str revision)
{
    for (size_t i = 0; i < KG_COUNT(legacy_revisions); i++)
        if (kg_str_is(revision, legacy_revisions[i]))
            return true;
    return false;
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
        return dialect_reject(talk,
                              "it speaks the revision \"%.*s\" of MCP; kaged speaks %s, "
                              "%s and older ones",
                              KG_STR_CUT(revision->text, 64), MODERN_REVISION, LEGACY_REVISION);
    take_features(talk, doc->root);
    return INITIALIZED;
}

static int take_initialize(struct dialect_talk *talk, enum peer_outcome outcome,
                           struct kg_str payload)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    switch (outcome) {
    case PEER_RESULT:
        return take_initialized(talk, payload);
    case PEER_ERROR:
        rpc_error_message(payload, &words);
        return dialect_fail(talk, "it refused initialize: %.200s", kg_buf_terminate(&words));
    default:
        audit_emit(talk->audit, AUDIT_PLUGIN_INITIALIZE_TIMEOUT, KG_STR_NULL,
                   AUDIT_V_TEXT(talk->name), AUDIT_V_INT((int64_t)talk->timeout_ms));
        return dialect_fail(talk, "no answer to initialize within %llu ms",
                            (unsigned long long)talk->timeout_ms);
    }
}

static int tell_initialized(struct dialect_talk *talk)
{
    struct kg_err err;
    if (peer_notify(talk->peer, "notifications/initialized", KG_STR("{}"), &err) < 0)
        return dialect_fail(talk, "%s", err.message);
    return TOOLS;
}

/* -- its tools --------------------------------------------------------------------------------- */

static void list_again(struct mcp *mcp);

static void on_rested(struct loop_timer *timer)
{
    struct mcp *mcp = KG_CONTAINER(timer, struct mcp, listing_rest);
    if (mcp->is_stale)
        list_again(mcp);
}

/* A modern server tells of changes only to who listens, for as long as it runs. */
static void on_listened(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    (void)data, (void)outcome, (void)payload;
}

static void listen_for_changes(struct dialect_talk *talk)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    kg_json_begin(&json, '{');
    put_meta(talk, &json, 0);
    kg_json_named_begin(&json, "notifications", '{');
    kg_json_named_bool(&json, "toolsListChanged", true);
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    struct kg_str view = kg_buf_view(&params);
    const struct peer_call call = {
        .method = KG_STR("subscriptions/listen"),
        .params = &view,
        .params_count = 1,
        .on_done = on_listened,
        .data = talk,
    };
    struct kg_err err;
    if (peer_call(talk->peer, &call, NULL, &err) < 0)
        kg_log_about(KG_WARN, talk->name, "subscriptions/listen: %s", err.message);
}

static void end_greeting(struct dialect_talk *talk)
{
    struct mcp *mcp = talk->state;
    mcp->is_greeted = true;
    if (is_modern(talk) && mcp->has.tools_change)
        listen_for_changes(talk);
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

static void on_tools(struct dialect_talk *talk, struct kg_str tools,
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
        .pages_max = PAGES_MAX,
        .bytes_max = LIST_MAX_BYTES,
        .put_more = put_list_meta,
        .on_list = on_tools,
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
static void list_again(struct mcp *mcp)
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
    [INITIALIZE] = {.method = "initialize", .put_params = put_initialize, .take = take_initialize},
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
    talk->state = mcp;
}

static void close_talk(struct dialect_talk *talk)
{
    struct mcp *mcp = talk->state;
    loop_timer_stop(talk->loop, &mcp->listing_rest);
    free(mcp);
}

/* -- calls ------------------------------------------------------------------------------------- */

/* The members of a caller's object but for its _meta, which is ours to write. */
static void put_members(struct kg_json_writer *json, struct kg_str object)
{
    struct kg_json_cursor cursor = kg_json_inside(object);
    struct kg_str key, value;
    bool escaped;
    while (kg_json_next_member(&cursor, &key, &escaped, &value)) {
        if (kg_json_raw_is(key, escaped, "_meta"))
            continue;
        if (json->comma)
            kg_buf_char(json->buf, ',');
        kg_buf_char(json->buf, '"');
        kg_buf_str(json->buf, key);
        kg_buf_str(json->buf, KG_STR("\":"));
        kg_buf_str(json->buf, value);
        json->comma = true;
    }
}

static int call(struct dialect_call *call, const struct dialect_message *message,
                struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_json_writer json = kg_json_writer(&params);
    struct kg_str method = message->method;
    kg_json_begin(&json, '{');
    if (message->act == DIALECT_TOOL) {
        const char *dot = memchr(method.data, '.', method.length);
        size_t prefix = (size_t)(dot + 1 - method.data);
        kg_json_named_str(&json, "name", (struct kg_str){dot + 1, method.length - prefix});
        kg_json_named_raw(&json, "arguments",
                          message->params.length ? message->params : KG_STR("{}"));
        method = KG_STR("tools/call");
    } else if (message->params.length > 0) {
        put_members(&json, message->params);
    }
    put_meta(call->talk, &json, peer_next_id(call->talk->peer));
    kg_json_end(&json, '}');
    struct kg_str view = kg_buf_view(&params);
    return dialect_send(call, method, &view, 1, err);
}

/* -- answers ----------------------------------------------------------------------------------- */

/* At the start of the words: a long answer is about something else. */
static bool has_phrase(struct kg_str words, const char *phrase)
{
    size_t length = strlen(phrase);
    for (size_t i = 0; i + length <= words.length && i < WORDS_MAX_BYTES; i++)
        if (strncasecmp(words.data + i, phrase, length) == 0)
            return true;
    return false;
}

/* Servers say it with six codes, or as a result; the words are nearly the same in all of them. */
static bool says_unknown_tool(struct kg_str words)
{
    static const char *const phrases[] = {"unknown tool", "tool not found", "no such tool",
                                          "not found: tool", "invalid tool name"};
    for (size_t i = 0; i < KG_COUNT(phrases); i++)
        if (has_phrase(words, phrases[i]))
            return true;
    return has_phrase(words, "tool ") && has_phrase(words, " not found");
}

static enum dialect_reading unknown_tool(struct kg_buf *ret_json)
{
    rpc_put_error(ret_json, KG_E_METHOD_NOT_FOUND, "the server does not know this tool any more");
    return DIALECT_ERROR;
}

static enum dialect_reading read_error(struct kg_str error, struct kg_buf *ret_json)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    rpc_error_message(error, &words);
    return says_unknown_tool(kg_buf_view(&words)) ? unknown_tool(ret_json) : DIALECT_AS_IT_IS;
}

static enum dialect_reading bad_result(struct kg_buf *ret_json, const char *words)
{
    rpc_put_error(ret_json, KG_E_BAD_RESULT, words);
    return DIALECT_ERROR;
}

/* The text of the first block, which says what went wrong in a result that is an error. */
static struct kg_str first_text(struct kg_str content)
{
    struct kg_json_cursor cursor = kg_json_inside(content);
    struct kg_str block, text;
    if (kg_json_next_item(&cursor, &block) && kg_json_member(block, "text", &text))
        return text;
    return KG_STR_NULL;
}

static enum dialect_reading read_result(struct kg_str result, struct kg_buf *ret_json)
{
    struct kg_str type, content, is_error;
    if (result.length == 0 || result.data[0] != '{')
        return bad_result(ret_json, "the result is not an object");
    if (kg_json_member(result, "resultType", &type) && kg_str_is(type, "\"input_required\""))
        return bad_result(ret_json, "it asks for input that it was not offered");
    if (kg_json_member(result, "isError", &is_error) && kg_str_is(is_error, "true") &&
        kg_json_member(result, "content", &content) && content.data[0] == '[' &&
        says_unknown_tool(first_text(content)))
        return unknown_tool(ret_json);
    return DIALECT_AS_IT_IS;
}

static enum dialect_reading read_answer(struct dialect_call *call, enum peer_outcome outcome,
                                        struct kg_str payload, struct kg_buf *ret_json)
{
    (void)call;
    switch (outcome) {
    case PEER_RESULT:
        return read_result(payload, ret_json);
    case PEER_ERROR:
        return read_error(payload, ret_json);
    default:
        return DIALECT_AS_IT_IS;
    }
}

static void cancel(struct dialect_call *call)
{
    char params[96];
    snprintf(params, sizeof(params), "{\"requestId\":%llu,\"reason\":\"the caller left\"}",
             (unsigned long long)call->id);
    (void)peer_notify(call->talk->peer, "notifications/cancelled", kg_str(params), NULL);
}

/* -- the server -------------------------------------------------------------------------------- */

static void answer_roots(struct dialect_talk *talk, int64_t request)
{
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    struct kg_json_writer json = kg_json_writer(&result);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "roots", '[');
    talk->ops->put_roots(talk->data, &json);
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    peer_answer(talk->peer, request, PEER_ANSWER_RESULT, kg_buf_view(&result));
}

static bool on_request(struct dialect_talk *talk, int64_t request, struct kg_str method,
                       struct kg_str params)
{
    (void)params;
    if (kg_str_is(method, "ping")) {
        peer_answer(talk->peer, request, PEER_ANSWER_RESULT, KG_STR("{}"));
        return true;
    }
    if (kg_str_is(method, "roots/list") && talk->ops->put_roots != NULL &&
        talk->ops->put_roots(talk->data, NULL)) {
        answer_roots(talk, request);
        return true;
    }
    return false;
}

static enum dialect_hearing hear_progress(struct dialect_talk *talk, struct kg_str params)
{
    struct kg_str token, progress;
    int64_t id;
    return kg_json_member(params, "progressToken", &token) && kg_str_to_int(token, &id) && id > 0 &&
                   kg_json_member(params, "progress", &progress) &&
                   peer_progress(talk->peer, (uint64_t)id, params)
               ? DIALECT_TAKEN
               : DIALECT_NOISE;
}

/* "warning search: the index is old" */
static enum dialect_hearing hear_message(struct dialect_talk *talk, struct kg_str params)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, NULL);
    const struct kg_node *said = doc != NULL ? kg_node_get(doc->root, "data") : NULL;
    if (said == NULL)
        return DIALECT_NOISE;
    struct kg_str level = kg_node_text(doc->root, "level");
    struct kg_str logger = kg_node_text(doc->root, "logger");
    kg_buf_printf(&line, "%.*s", KG_STR_CUT(level.length ? level : KG_STR("info"), 32));
    if (logger.length > 0)
        kg_buf_printf(&line, " %.*s", KG_STR_CUT(logger, 64));
    kg_buf_text(&line, ": ");
    if (said->type == KG_STRING)
        kg_buf_str(&line, said->text);
    else
        kg_json_put_node(&line, said);
    if (line.length > LOG_MAX_BYTES)
        line.length = LOG_MAX_BYTES;
    talk->ops->on_log(talk->data, kg_buf_view(&line));
    return DIALECT_TAKEN;
}

static enum dialect_hearing hear_tools_changed(struct dialect_talk *talk, struct kg_str params)
{
    struct mcp *mcp = talk->state;
    (void)params;
    if (mcp->is_greeted && mcp->has.tools)
        list_again(mcp);
    return DIALECT_TAKEN;
}

static enum dialect_hearing hear_news(struct dialect_talk *talk, struct kg_str params)
{
    (void)talk, (void)params;
    return DIALECT_NEWS;
}

static enum dialect_hearing hear_nothing(struct dialect_talk *talk, struct kg_str params)
{
    (void)talk, (void)params;
    return DIALECT_TAKEN;
}

static const struct {
    const char *method;
    enum dialect_hearing (*hear)(struct dialect_talk *talk, struct kg_str params);
} notifications[] = {
    {"notifications/progress", hear_progress},
    {"notifications/message", hear_message},
    {"notifications/tools/list_changed", hear_tools_changed},
    {"notifications/resources/updated", hear_news},
    {"notifications/resources/list_changed", hear_news},
    {"notifications/prompts/list_changed", hear_news},
    {"notifications/cancelled", hear_nothing}, /* of requests that are answered at once */
    {"notifications/subscriptions/acknowledged", hear_nothing},
};

static enum dialect_hearing on_notification(struct dialect_talk *talk, struct kg_str method,
                                            struct kg_str params)
{
    for (size_t i = 0; i < KG_COUNT(notifications); i++)
        if (kg_str_is(method, notifications[i].method))
            return notifications[i].hear(talk, params);
    return DIALECT_NOISE;
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
                },
        },
    .ping = "ping",
    .steps = steps,
    .first_step = first_step,
    .open = open_talk,
    .close = close_talk,
    .knows = {[DIALECT_METHOD] = true, [DIALECT_TOOL] = true},
    .call = call,
    .read = read_answer,
    .cancel = cancel,
    .on_request = on_request,
    .on_notification = on_notification,
};
