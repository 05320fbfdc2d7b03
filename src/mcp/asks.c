/*
 * What a plugin wants to know of the client whose call it works at: something that a person fills
 * in or opens, words of a model, its folders. A client is asked only for what it declared. One of
 * the legacy era gets a request on the stream of its call, and answers by a message; to one of the
 * modern era the call is answered with what is wanted, and goes on when the client calls again with
 * that. Meanwhile nobody but its owner can find it, by a state that is chance and good for once.
 */
#include "mcp/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define KEY_MAX_BYTES   128
#define WORDS_MAX_BYTES 200
#define CANCEL          "{\"action\":\"cancel\"}"

struct mcp_ask {
    struct mcp_ask *next; /* of its call */
    struct host_ask *ask; /* the host's, until it is answered or withdrawn */
    char *key;            /* owned; what a modern client calls it by */
    uint64_t id;          /* of the request to a legacy client */
    bool is_tried;        /* an answer was looked for already */
};

unsigned mcp_asks_declared(const struct kg_node *capabilities)
{
    const struct kg_node *elicits = kg_node_typed(capabilities, "elicitation", KG_OBJECT);
    bool opens = kg_node_get(elicits, "url") != NULL;
    unsigned declared = 0;
    if (elicits != NULL && (!opens || kg_node_get(elicits, "form") != NULL))
        declared |= 1u << HOST_ASK_FORM;
    if (opens)
        declared |= 1u << HOST_ASK_URL;
    if (kg_node_typed(capabilities, "sampling", KG_OBJECT) != NULL)
        declared |= 1u << HOST_ASK_SAMPLE;
    if (kg_node_typed(capabilities, "roots", KG_OBJECT) != NULL)
        declared |= 1u << HOST_ASK_ROOTS;
    return declared;
}

/* -- what is asked ----------------------------------------------------------------------------- */

/* A server's own _meta means nothing to a client that it does not know. */
static void put_sample(struct kg_json_writer *json, struct kg_str params)
{
    struct kg_json_cursor cursor = kg_json_inside(params);
    struct kg_str key, value;
    bool escaped;
    while (kg_json_next_member(&cursor, &key, &escaped, &value)) {
        kg_auto(kg_free) char *name = kg_str_dup(key);
        if (!escaped && strcmp(name, "_meta") != 0)
            kg_json_named_raw(json, name, value);
    }
}

/* The method and the params of the protocol's request. */
static void mcp_asks_put_request(struct kg_json_writer *json, const struct host_ask *ask)
{
    static const char *const methods[HOST_ASK_KIND_COUNT] = {[HOST_ASK_FORM] = "elicitation/create",
                                                             [HOST_ASK_URL] = "elicitation/create",
                                                             [HOST_ASK_SAMPLE] =
                                                                 "sampling/createMessage",
                                                             [HOST_ASK_ROOTS] = "roots/list"};
    bool opens = ask->kind == HOST_ASK_URL;
    kg_json_named_text(json, "method", methods[ask->kind]);
    kg_json_named_begin(json, "params", '{');
    if (opens) {
        kg_json_named_text(json, "mode", "url");
        kg_json_named_text(json, "elicitationId", ask->id.text);
        kg_json_named_str(json, "url", ask->url);
    }
    if (opens || ask->kind == HOST_ASK_FORM)
        kg_json_named_str(json, "message", ask->title);
    if (ask->kind == HOST_ASK_FORM)
        kg_json_named_raw(json, "requestedSchema", ask->schema);
    if (ask->kind == HOST_ASK_SAMPLE)
        put_sample(json, ask->params);
    kg_json_end(json, '}');
}

static void ask_free(struct mcp_call *call, struct mcp_ask *ask)
{
    KG_UNLINK(call->asks, ask);
    free(ask->key);
    free(ask);
}

void mcp_asks_free(struct mcp_call *call)
{
    loop_timer_stop(host_loop(call->mcp->host), &call->asks_timer);
    while (call->asks != NULL)
        ask_free(call, call->asks);
    kg_buf_free(&call->responses);
}

/* False: it does not fit, and the question goes on. The call may be over after it. */
static bool mcp_asks_settle(struct mcp_call *call, struct mcp_ask *ask, struct kg_str answer)
{
    struct kg_err err;
    struct host_ask *asked = ask->ask;
    KG_UNLINK(call->asks, ask);
    if (host_ask_answer(asked, answer, &err) < 0) {
        ask->next = call->asks;
        call->asks = ask;
        return false;
    }
    free(ask->key);
    free(ask);
    return true;
}

/* -- the legacy era ---------------------------------------------------------------------------- */

static bool tell_legacy(struct mcp_call *call, struct mcp_ask *ask)
{
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    struct kg_json_writer json = kg_json_writer(&message);
    if (!mcp_call_stream(call))
        return false;
    ask->id = ++call->mcp->ask_number;
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "jsonrpc", "2.0");
    kg_json_named_int(&json, "id", (int64_t)ask->id);
    mcp_asks_put_request(&json, ask->ask);
    kg_json_end(&json, '}');
    mcp_stream_put(call->stream, kg_buf_view(&message));
    return true;
}

static struct mcp_ask *mcp_asks_find_asked(const struct mcp_client *client, uint64_t id,
                                           struct mcp_call **ret_call)
{
    for (struct mcp_call *call = client->mcp->calls; call != NULL; call = call->next)
        for (struct mcp_ask *at = call->client == client ? call->asks : NULL; at; at = at->next)
            if (at->id == id) {
                *ret_call = call;
                return at;
            }
    return NULL;
}

static void mcp_asks_fail(struct mcp_call *call, struct mcp_ask *ask, struct kg_str error)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct kg_err err;
    struct host_ask *asked = ask->ask;
    rpc_error_message(error, &words);
    kg_fail(&err, KG_E_CANCELLED, "the client refused: %.*s",
            KG_STR_CUT(kg_buf_view(&words), WORDS_MAX_BYTES));
    ask_free(call, ask);
    host_ask_fail(asked, &err);
}

/* An answer to nothing, or to what is another's, is passed over. */
void mcp_asks_answered(struct mcp_client *client, const struct rpc_message *message)
{
    struct mcp_call *call;
    struct mcp_ask *ask =
        message->has_id ? mcp_asks_find_asked(client, (uint64_t)message->id, &call) : NULL;
    if (ask == NULL)
        return;
    if (message->kind == RPC_ERROR) {
        mcp_asks_fail(call, ask, message->error);
        return;
    }
    if (mcp_asks_settle(call, ask, message->result))
        return;
    kg_log_about(KG_INFO, ask->ask->plugin, "the client's answer to its question does not fit");
    if (ask->ask->kind == HOST_ASK_SAMPLE || ask->ask->kind == HOST_ASK_ROOTS)
        mcp_asks_fail(call, ask, KG_STR("{\"message\":\"its answer does not fit\"}"));
    else
        (void)mcp_asks_settle(call, ask, KG_STR(CANCEL));
}

/* -- the modern era ---------------------------------------------------------------------------- */

/* What a client brought for it, as it was written. */
static bool find_response(struct kg_str responses, const char *key, struct kg_str *ret_answer)
{
    return responses.length > 0 && kg_json_member(responses, key, ret_answer);
}

/* An answer may end the call: it is looked up again by its number. */
static struct mcp_call *take_responses(struct mcp_call *call)
{
    struct mcp *mcp = call->mcp;
    uint64_t number = call->number;
    kg_auto(kg_buf_free) struct kg_buf responses = call->responses;
    call->responses = (struct kg_buf){0};
    for (struct mcp_ask *ask = call->asks; ask != NULL;) {
        struct kg_str answer;
        bool found = !ask->is_tried && find_response(kg_buf_view(&responses), ask->key, &answer);
        ask->is_tried = true;
        if (!found || !mcp_asks_settle(call, ask, answer)) {
            ask = found ? call->asks : ask->next;
            continue;
        }
        call = mcp->calls;
        while (call != NULL && call->number != number)
            call = call->next;
        ask = call != NULL ? call->asks : NULL;
    }
    return call;
}

static void mcp_asks_put_wanted(struct kg_buf *out, const struct mcp_call *call)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "resultType", "input_required");
    kg_json_named_begin(&json, "inputRequests", '{');
    for (const struct mcp_ask *at = call->asks; at != NULL; at = at->next) {
        kg_json_named_begin(&json, at->key, '{');
        mcp_asks_put_request(&json, at->ask);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, '}');
    kg_json_named_text(&json, "requestState", call->state);
    kg_json_end(&json, '}');
}

static void mcp_asks_on_due(struct loop_timer *timer)
{
    struct mcp_call *call = KG_CONTAINER(timer, struct mcp_call, asks_timer);
    kg_auto(kg_buf_free) struct kg_buf wanted = {0};
    call = take_responses(call);
    if (call == NULL || call->asks == NULL || call->exchange == NULL)
        return;
    mcp_make_chance(call->state, sizeof(call->state) / 2);
    mcp_asks_put_wanted(&wanted, call);
    mcp_call_pause(call, kg_buf_view(&wanted));
}

/* Once all that is asked now is known, and nobody is called back any more. */
static void mcp_asks_look_soon(struct mcp_call *call)
{
    if (!loop_timer_running(&call->asks_timer))
        loop_timer_start(host_loop(call->mcp->host), &call->asks_timer, 0, mcp_asks_on_due);
}

/* Those that wait for their owner have no connection that would bound them. */
static bool may_pause(const struct mcp_call *call)
{
    int64_t paused = 0;
    for (const struct mcp_call *at = call->mcp->calls; at != NULL; at = at->next)
        paused += at->exchange == NULL && at->client == NULL && strcmp(at->owner, call->owner) == 0;
    return paused < host_config(call->mcp->host)->limits_mcp_calls;
}

static bool has_key(const struct mcp_call *call, const char *key)
{
    const struct mcp_ask *at = call->asks;
    while (at != NULL && strcmp(at->key, key) != 0)
        at = at->next;
    return at != NULL;
}

/* The server's own name for it, or else ours. */
static char *mcp_asks_key_of(const struct host_ask *ask)
{
    struct kg_str raw = ask->key;
    char decoded[KEY_MAX_BYTES + 2];
    if (raw.length < 3 || raw.length > KEY_MAX_BYTES)
        return kg_strdup(ask->id.text);
    size_t length = kg_json_unescape((struct kg_str){raw.data + 1, raw.length - 2}, decoded);
    bool is_text = memchr(decoded, '\0', length) == NULL;
    return is_text ? kg_str_dup((struct kg_str){decoded, length}) : kg_strdup(ask->id.text);
}

/* -- the host ---------------------------------------------------------------------------------- */

static unsigned mcp_asks_can(void *data)
{
    return ((const struct mcp_call *)data)->declared;
}

static bool ask_client(void *data, struct host_ask *asked)
{
    struct mcp_call *call = data;
    kg_auto(kg_free) char *key = mcp_asks_key_of(asked);
    if ((call->declared & 1u << asked->kind) == 0 || has_key(call, key) ||
        (call->era == MCP_ERA_MODERN && !may_pause(call)))
        return false;
    struct mcp_ask *ask = kg_alloc(sizeof(*ask));
    ask->ask = asked;
    ask->key = kg_steal(&key);
    ask->next = call->asks;
    call->asks = ask;
    if (call->era == MCP_ERA_MODERN) {
        mcp_asks_look_soon(call);
        return true;
    }
    bool is_told = tell_legacy(call, ask);
    if (!is_told)
        ask_free(call, ask);
    return is_told;
}

static void mcp_asks_withdraw(void *data, struct host_ask *asked, const char *why)
{
    struct mcp_call *call = data;
    struct mcp_ask *ask = call->asks;
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    while (ask != NULL && ask->ask != asked)
        ask = ask->next;
    if (ask == NULL)
        return;
    if (call->era == MCP_ERA_LEGACY && call->stream != NULL && !call->stream->has_ended) {
        struct kg_json_writer json = kg_json_writer(&message);
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "jsonrpc", "2.0");
        kg_json_named_text(&json, "method", "notifications/cancelled");
        kg_json_named_begin(&json, "params", '{');
        kg_json_named_int(&json, "requestId", (int64_t)ask->id);
        kg_json_named_text(&json, "reason", why);
        kg_json_end(&json, '}');
        kg_json_end(&json, '}');
        mcp_stream_put(call->stream, kg_buf_view(&message));
    }
    ask_free(call, ask);
}

const struct host_asked_ops mcp_asked_ops = {
    .can = mcp_asks_can, .ask = ask_client, .withdraw = mcp_asks_withdraw};

/* -- the client comes back --------------------------------------------------------------------- */

/* What of its params is about that, and nothing that a server is told. */
static const char *mcp_asks_read_again(struct kg_str params, struct kg_str *ret_state,
                                       struct kg_str *ret_responses)
{
    *ret_state = *ret_responses = KG_STR_NULL;
    if (kg_json_member(params, "requestState", ret_state) &&
        (ret_state->length < 2 || ret_state->data[0] != '"'))
        return "params.requestState is not a string";
    if (kg_json_member(params, "inputResponses", ret_responses) && ret_responses->data[0] != '{')
        return "params.inputResponses is not an object";
    if (ret_state->data != NULL)
        *ret_state = (struct kg_str){ret_state->data + 1, ret_state->length - 2};
    return NULL;
}

static struct mcp_call *find_paused(const struct mcp_exchange *exchange, struct kg_str state)
{
    for (struct mcp_call *at = exchange->scope.mcp->calls; at != NULL; at = at->next)
        if (at->exchange == NULL && at->state[0] != '\0' && kg_str_is(state, at->state) &&
            strcmp(at->owner, exchange->owner) == 0)
            return at;
    return NULL;
}

void mcp_asks_bring(struct mcp_call *call, struct kg_str params)
{
    struct kg_str state, responses;
    call->responses.length = 0;
    if (call->era == MCP_ERA_MODERN && mcp_asks_read_again(params, &state, &responses) == NULL)
        kg_buf_str(&call->responses, responses);
}

bool mcp_call_again(struct mcp_exchange *exchange, struct kg_str params, struct kg_str method,
                    const char *plugin, struct kg_str arguments)
{
    struct kg_str state, responses;
    const char *wrong = mcp_asks_read_again(params, &state, &responses);
    if (exchange->era != MCP_ERA_MODERN || (wrong == NULL && state.data == NULL))
        return false;
    struct mcp_call *call = wrong == NULL ? find_paused(exchange, state) : NULL;
    bool is_same = call != NULL && kg_str_equal(call->method, method) &&
                   kg_same_text(call->plugin, plugin) && kg_str_equal(call->arguments, arguments);
    if (wrong != NULL || !is_same) {
        mcp_reply_error(exchange, 200, MCP_INVALID_PARAMS,
                        wrong ? wrong
                              : "no call of yours waits with this requestState: call without it");
        return true;
    }
    call->state[0] = '\0';
    for (struct mcp_ask *at = call->asks; at != NULL; at = at->next)
        at->is_tried = false;
    mcp_asks_bring(call, params);
    mcp_call_resume(call, exchange, mcp_progress_token(params));
    mcp_asks_look_soon(call);
    return true;
}
