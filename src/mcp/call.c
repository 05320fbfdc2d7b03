/*
 * Calls of tools. Each goes through the host's one door, to the process for nobody or to that of
 * the client's project, and is answered once: whatever went wrong with the tool is a result that
 * says so, since a model reads it. An answer that takes its time, or of which there is progress to
 * tell, becomes a stream.
 */
#include "mcp/internal.h"

#include <errno.h>
#include <stdlib.h>

#define NAME_MAX_BYTES  128
#define TOKEN_MAX_BYTES 128
#define SLOW_MS         1000 /* past it the answer becomes a stream, which can be resumed */

/* -- its life ---------------------------------------------------------------------------------- */

static void mcp_call_link_call(struct mcp_call *call)
{
    call->next = call->mcp->calls;
    if (call->next != NULL)
        call->next->previous = call;
    call->mcp->calls = call;
    if (call->client != NULL)
        call->client->call_count++;
}

static void mcp_call_free(struct mcp_call *call)
{
    if (call->previous != NULL)
        call->previous->next = call->next;
    else
        call->mcp->calls = call->next;
    if (call->next != NULL)
        call->next->previous = call->previous;
    if (call->client != NULL)
        call->client->call_count--;
    if (call->exchange != NULL)
        call->exchange->call = NULL;
    if (call->has_entered)
        projects_leave(call->mcp->host, kg_str(call->asker->project_id), "");
    mcp_asks_free(call);
    host_asker_unref(call->asker);
    kg_buf_free(&call->again);
    kg_list_free(call->servers);
    kg_buf_free(&call->list);
    kg_buf_free(&call->texts);
    free(call->plugin);
    free(call->owner);
    free(call->client_name);
    free(call);
}

struct mcp_call *mcp_call_find(const struct mcp_client *client, struct kg_str id)
{
    struct mcp_call *call = client->mcp->calls;
    while (call != NULL && (call->client != client || !kg_str_equal(call->id, id)))
        call = call->next;
    return call;
}

/* A tool was called, and this came of it. */
static void mcp_call_note(struct mcp_call *call, const char *outcome, struct kg_str result)
{
    struct mcp_last *last = call->client != NULL
                                ? &call->client->last
                                : mcp_visitor_last(call->mcp, call->owner, call->client_name);
    mcp_last_note(last, call, outcome);
    mcp_activity_add(call, outcome, result);
}

void mcp_call_cancel(struct mcp_call *call)
{
    if (call->is_tool)
        mcp_call_note(call, "cancelled", KG_STR_NULL);
    if (call->sent != NULL)
        host_call_cancel(call->sent);
    if (call->in_tool != NULL)
        projects_tool_cancel(call->in_tool);
    if (call->stream != NULL)
        call->stream->has_ended = true;
    mcp_call_free(call);
}

/* -- its answer -------------------------------------------------------------------------------- */

/* The call is over. */
static void mcp_call_say_last(struct mcp_call *call, int status, struct kg_str message)
{
    struct mcp_exchange *exchange = call->exchange;
    struct mcp_stream *stream = call->stream;
    mcp_call_free(call);
    if (stream != NULL) {
        mcp_stream_put(stream, message);
        mcp_stream_end(stream);
    } else if (exchange != NULL) {
        mcp_reply(exchange, status, message);
    }
}

void mcp_call_answer(struct mcp_call *call, struct kg_str result)
{
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    mcp_put_result(&message, call->id, result);
    mcp_call_say_last(call, 200, kg_buf_view(&message));
}

static void mcp_call_refuse(struct mcp_call *call, int code, const char *message,
                            struct kg_str data)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    mcp_put_error(&text, call->id, code, message, data);
    mcp_call_say_last(call, code == MCP_MISSING_CAPABILITY ? 400 : 200, kg_buf_view(&text));
}

void mcp_call_fail(struct mcp_call *call, const struct kg_err *err)
{
    kg_auto(kg_free) char *words =
        kg_format("%s%s%s", err->message, err->hint[0] != '\0' ? "; " : "", err->hint);
    mcp_call_refuse(call, kg_error_row(err->code)->rpc_code, words, KG_STR_NULL);
}

static void mcp_call_put_type(struct kg_json_writer *json, enum mcp_era era)
{
    if (era == MCP_ERA_MODERN)
        kg_json_named_text(json, "resultType", "complete");
}

/* One block of text; raw: it is written as a JSON string already. */
static void mcp_call_put_text(struct kg_buf *out, enum mcp_era era, struct kg_str text, bool is_raw,
                              bool is_error)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    mcp_call_put_type(&json, era);
    kg_json_named_begin(&json, "content", '[');
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "type", "text");
    if (is_raw)
        kg_json_named_raw(&json, "text", text);
    else
        kg_json_named_str(&json, "text", text);
    kg_json_end(&json, '}');
    kg_json_end(&json, ']');
    if (is_error)
        kg_json_named_bool(&json, "isError", true);
    kg_json_end(&json, '}');
}

void mcp_reply_text(struct mcp_exchange *exchange, struct kg_str text, bool is_error)
{
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    mcp_call_put_text(&result, exchange->era, text, false, is_error);
    mcp_reply_result(exchange, kg_buf_view(&result));
}

/* With what helps, which often is a command. */
static void mcp_call_put_failure(struct kg_buf *out, enum mcp_era era, const struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    kg_buf_text(&words, err->message);
    if (err->hint[0] != '\0')
        kg_buf_printf(&words, "\n%s", err->hint);
    mcp_call_put_text(out, era, kg_buf_view(&words), false, true);
}

/* A modern result says which it is; one that says it already is as it is. */
static void mcp_call_put_typed(struct kg_buf *out, enum mcp_era era, struct kg_str object)
{
    struct kg_str type;
    if (era != MCP_ERA_MODERN || kg_json_member(object, "resultType", &type)) {
        kg_buf_str(out, object);
        return;
    }
    struct kg_json_cursor inside = kg_json_inside(object);
    kg_json_skip_space(&inside);
    kg_buf_text(out, "{\"resultType\":\"complete\"");
    if (*inside.at != '}')
        kg_buf_char(out, ',');
    kg_buf_append(out, inside.at, (size_t)(object.data + object.length - inside.at));
}

/* What an MCP server answers is passed on as it is; of what others answer, text is made. */
static void mcp_call_put_answer(struct kg_buf *out, const struct mcp_call *call,
                                struct kg_str result)
{
    struct kg_str content;
    if (call->is_mcp && kg_json_member(result, "content", &content) && content.data[0] == '[')
        mcp_call_put_typed(out, call->era, result);
    else
        mcp_call_put_text(out, call->era, result, result.data[0] == '"', false);
}

static const char *outcome_of(struct kg_str result, const struct kg_err *err)
{
    struct kg_str failed;
    if (err->code != KG_OK)
        return kg_error_row(err->code)->name;
    return kg_json_member(result, "isError", &failed) && kg_str_is(failed, "true") ? "failed"
                                                                                   : "done";
}

/* A modern client is told which capability it would have to declare, as its era has it. */
static bool lacks_capability(const struct mcp_call *call, struct kg_str error)
{
    return call->era == MCP_ERA_MODERN && call->is_mcp && error.length > 0 &&
           rpc_error_code(error) == MCP_MISSING_CAPABILITY;
}

void mcp_call_pass_error(struct mcp_call *call, int64_t code, struct kg_str error)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct kg_str data = KG_STR_NULL;
    rpc_error_message(error, &words);
    (void)kg_json_member(error, "data", &data);
    mcp_call_refuse(call, (int)code, kg_buf_terminate(&words), data);
}

/* error: the plugin's own, or empty. */
static void mcp_call_finish(struct mcp_call *call, struct kg_str result, const struct kg_err *err,
                            struct kg_str error)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    call->sent = NULL;
    call->in_tool = NULL;
    mcp_call_note(call, outcome_of(result, err), result);
    if (lacks_capability(call, error)) {
        mcp_call_pass_error(call, MCP_MISSING_CAPABILITY, error);
        return;
    }
    if (err->code == KG_OK)
        mcp_call_put_answer(&text, call, result);
    else
        mcp_call_put_failure(&text, call->era, err);
    mcp_call_answer(call, kg_buf_view(&text));
}

static void mcp_call_on_done(void *data, const struct host_reply *reply)
{
    mcp_call_finish(data, reply->result, &reply->error, reply->plugin_error);
}

static void on_tool_done(void *data, const struct projects_tool_reply *reply)
{
    mcp_call_finish(data, reply->result, &reply->error, reply->plugin_error);
}

/* -- before its answer ------------------------------------------------------------------------- */

/* If one more may be carried and its client is there. */
bool mcp_call_stream(struct mcp_call *call)
{
    if (call->stream != NULL)
        return true;
    if (call->exchange == NULL || !mcp_streams_have_room(call->mcp))
        return false;
    call->stream = mcp_stream_new(call->mcp, call->client);
    if (call->client != NULL)
        call->stream->number = ++call->client->stream_number;
    mcp_stream_carry(call->stream, call->exchange, 0);
    mcp_keep_alive(call->exchange);
    return true;
}

static void on_slow(struct loop_timer *timer)
{
    struct mcp_exchange *exchange = KG_CONTAINER(timer, struct mcp_exchange, timer);
    if (exchange->call != NULL)
        (void)mcp_call_stream(exchange->call);
}

static bool is_number(struct kg_str json)
{
    return json.length > 0 && (json.data[0] == '-' || kg_is_digit(json.data[0]));
}

/* The value must rise: what a plugin says against that is not passed on. */
static bool rises(struct mcp_call *call, struct kg_str progress)
{
    kg_auto(kg_free) char *text = kg_str_dup(progress);
    double value = strtod(text, NULL);
    if (call->has_progress && value <= call->progress)
        return false;
    call->has_progress = true;
    call->progress = value;
    return true;
}

void mcp_call_progress(void *data, struct kg_str params)
{
    struct mcp_call *call = data;
    struct kg_str progress, total, words;
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    if (call->token.length == 0 || !kg_json_member(params, "progress", &progress) ||
        !is_number(progress) || !rises(call, progress) || !mcp_call_stream(call))
        return;
    struct kg_json_writer json = kg_json_writer(&message);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "jsonrpc", "2.0");
    kg_json_named_text(&json, "method", "notifications/progress");
    kg_json_named_begin(&json, "params", '{');
    kg_json_named_raw(&json, "progressToken", call->token);
    kg_json_named_raw(&json, "progress", progress);
    if (kg_json_member(params, "total", &total) && is_number(total))
        kg_json_named_raw(&json, "total", total);
    if (kg_json_member(params, "message", &words) && words.data[0] == '"')
        kg_json_named_raw(&json, "message", words);
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    mcp_stream_put(call->stream, kg_buf_view(&message));
}

/* A client that has set no level hears nothing of it in the modern era. */
void mcp_call_log(struct mcp_call *call, struct kg_str level, struct kg_str message)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    int least = call->client != NULL ? (int)call->client->level : call->level, rank = 0;
    while (mcp_levels[rank] != NULL && !kg_str_is(level, mcp_levels[rank]))
        rank++;
    if (least < 0 || rank < least || mcp_levels[rank] == NULL || !mcp_call_stream(call))
        return;
    kg_buf_text(&text, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":");
    kg_buf_str(&text, message);
    kg_buf_char(&text, '}');
    mcp_stream_put(call->stream, kg_buf_view(&text));
}

/* -- sending ----------------------------------------------------------------------------------- */

static int send_to_nobodys(struct mcp_call *call, const struct manifest *manifest,
                           struct kg_err *err)
{
    const struct host_call_request request = {
        .plugin = kg_str(manifest->name),
        .method = call->method,
        .is_tool = true,
        .params = call->arguments,
        .asker = call->asker,
        .on_done = mcp_call_on_done,
        .on_progress = mcp_call_progress,
        .asked = &mcp_asked_ops,
        .data = call,
    };
    call->sent = host_call(call->mcp->host, &request, err);
    return call->sent != NULL ? 0 : -EINVAL;
}

/* For the primary agent. A session of the client is a conversation; without one, there is one for
 * all that its owner calls there. */
static int send_to_project(struct mcp_call *call, const struct mcp_exchange *exchange,
                           struct kg_err *err)
{
    struct host *host = call->mcp->host;
    kg_auto(kg_free) char *project = kg_str_dup(exchange->scope.project);
    kg_auto(kg_free) char *session =
        call->client != NULL
            ? kg_format("mcp_%s", call->client->id)
            : kg_format("mcp_%016llx", (unsigned long long)kg_hash(kg_str(exchange->owner)));
    if (projects_enter(host, exchange->scope.project, err) < 0)
        return -EINVAL;
    struct host_asker *asker = host_asker_for(
        call->asker, &(struct host_asker){
                         .project_id = project, .agent_path = "primary", .session_id = session});
    host_asker_unref(call->asker);
    call->asker = asker;
    call->has_entered = true;
    const struct projects_tool_request request = {
        .asker = asker,
        .tool = call->method,
        .arguments = call->arguments,
        .on_done = on_tool_done,
        .on_progress = mcp_call_progress,
        .asked = &mcp_asked_ops,
        .data = call,
    };
    call->in_tool = projects_tool_call(host, &request);
    return 0;
}

/* What a client asks for, as spans of its message. */
struct wanted {
    char name[NAME_MAX_BYTES + 1]; /* decoded */
    struct kg_str arguments, token;
    bool is_inner; /* it was called by a tool that searches: headers are about that one */
};

static bool decode_name(struct kg_str raw, char ret_name[NAME_MAX_BYTES + 1])
{
    char decoded[6 * NAME_MAX_BYTES]; /* each byte may be written as \u00xx */
    if (raw.length < 2 || raw.data[0] != '"' || raw.length - 2 > sizeof(decoded))
        return false;
    size_t length = kg_json_unescape((struct kg_str){raw.data + 1, raw.length - 2}, decoded);
    if (length == 0 || length > NAME_MAX_BYTES || memchr(decoded, '\0', length) != NULL)
        return false;
    memcpy(ret_name, decoded, length);
    ret_name[length] = '\0';
    return true;
}

struct kg_str mcp_progress_token(struct kg_str params)
{
    struct kg_str meta, token;
    bool has_one = kg_json_member(params, "_meta", &meta) &&
                   kg_json_member(meta, "progressToken", &token) &&
                   token.length <= TOKEN_MAX_BYTES && (token.data[0] == '"' || is_number(token));
    return has_one ? token : KG_STR_NULL;
}

/* NULL, or what is wrong with it. */
static const char *read_wanted(struct kg_str params, struct wanted *ret_wanted)
{
    struct kg_str name;
    *ret_wanted = (struct wanted){.arguments = KG_STR("{}")};
    if (!kg_json_member(params, "name", &name) || !decode_name(name, ret_wanted->name))
        return "params.name is not the name of a tool: 1 to 128 characters";
    if (kg_json_member(params, "arguments", &ret_wanted->arguments) &&
        ret_wanted->arguments.data[0] != '{')
        return "params.arguments is not an object";
    ret_wanted->token = mcp_progress_token(params);
    return NULL;
}

static struct kg_str mcp_call_keep_text(struct kg_buf *texts, struct kg_str text)
{
    size_t at = texts->length;
    kg_buf_str(texts, text); /* which was reserved, so that it does not move */
    return (struct kg_str){texts->data + at, text.length};
}

/* The exchange, and the message with it, may be gone before the call is sent. */
struct mcp_call *mcp_call_new(struct mcp_exchange *exchange, struct kg_str method,
                              struct kg_str arguments, struct kg_str token)
{
    struct mcp_call *call = kg_alloc(sizeof(*call));
    call->mcp = exchange->scope.mcp;
    call->client = exchange->client;
    call->era = exchange->era;
    call->level = exchange->level;
    call->owner = kg_strdup(exchange->owner);
    call->client_name = call->client != NULL
                            ? kg_format("%s %s", call->client->name, call->client->version)
                            : kg_strdup(exchange->client_name ? exchange->client_name : "unknown");
    call->began_ms = loop_now_ms(host_loop(call->mcp->host));
    call->number = ++call->mcp->call_number;
    call->declared = call->client != NULL ? call->client->declared : exchange->declared;
    call->asker = host_asker_called(
        exchange->asker, call->client != NULL ? call->client->id : exchange->asker->request_id);
    kg_buf_reserve(&call->texts,
                   exchange->id.length + token.length + method.length + arguments.length);
    call->id = mcp_call_keep_text(&call->texts, exchange->id);
    call->token = mcp_call_keep_text(&call->texts, token);
    call->method = mcp_call_keep_text(&call->texts, method);
    call->arguments = mcp_call_keep_text(&call->texts, arguments);
    call->exchange = exchange;
    exchange->call = call;
    mcp_call_link_call(call);
    return call;
}

void mcp_call_keep(struct mcp_call *call)
{
    struct mcp_exchange *exchange = call->exchange;
    mcp_exchange_keep(exchange);
    loop_timer_start(host_loop(call->mcp->host), &exchange->timer, SLOW_MS, on_slow);
}

const char *mcp_call_refusal(const struct mcp_exchange *exchange)
{
    const struct mcp_client *client = exchange->client;
    if (client == NULL)
        return NULL;
    if (mcp_call_find(client, exchange->id) != NULL)
        return "a request with this id is already under way";
    if (client->call_count >= (unsigned)host_config(exchange->scope.mcp->host)->limits_mcp_calls)
        return "too many calls of this session are under way; wait for one of them";
    return NULL;
}

void mcp_call_pause(struct mcp_call *call, struct kg_str result)
{
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    struct mcp_exchange *exchange = call->exchange;
    struct mcp_stream *stream = call->stream;
    mcp_put_result(&message, call->id, result);
    exchange->call = NULL;
    call->exchange = NULL;
    call->stream = NULL;
    if (stream != NULL) {
        mcp_stream_put(stream, kg_buf_view(&message));
        mcp_stream_end(stream);
    } else {
        mcp_reply(exchange, 200, kg_buf_view(&message));
    }
}

void mcp_call_resume(struct mcp_call *call, struct mcp_exchange *exchange, struct kg_str token)
{
    call->again.length = 0;
    kg_buf_reserve(&call->again, exchange->id.length + token.length);
    call->id = mcp_call_keep_text(&call->again, exchange->id);
    call->token = mcp_call_keep_text(&call->again, token);
    call->has_progress = false;
    call->exchange = exchange;
    exchange->call = call;
    mcp_call_keep(call);
}

static void mcp_call_begin(struct mcp_exchange *exchange, struct kg_str params,
                           const struct wanted *wanted, const struct mcp_tool *tool)
{
    struct kg_err err = {0};
    kg_auto(kg_free) char *method = kg_format("%s.%s", tool->manifest->name, tool->declared->name);
    if (mcp_call_again(exchange, params, kg_str(method), tool->manifest->name, wanted->arguments))
        return;
    struct mcp_call *call =
        mcp_call_new(exchange, kg_str(method), wanted->arguments, wanted->token);
    mcp_asks_bring(call, params);
    call->is_tool = true;
    call->is_mcp = tool->manifest->is_mcp;
    call->plugin = kg_strdup(tool->manifest->name);
    int result = exchange->scope.project.length > 0 ? send_to_project(call, exchange, &err)
                                                    : send_to_nobodys(call, tool->manifest, &err);
    if (result < 0) {
        mcp_call_finish(call, KG_STR_NULL, &err, KG_STR_NULL);
        return;
    }
    mcp_call_keep(call);
}

/* The text of an argument as its header has it; false: there is nothing to repeat. */
static bool mcp_call_put_argument(const struct kg_node *value, struct kg_buf *out)
{
    if (value == NULL || value->type == KG_NULL)
        return false;
    if (value->type == KG_STRING)
        kg_buf_str(out, value->text);
    else
        kg_json_put_node(out, value);
    return true;
}

/* NULL, or that a header which the tool's schema asks for does not say what the argument says. */
static const char *compare_params(const struct mcp_exchange *exchange, const struct mcp_tool *tool,
                                  struct kg_str arguments)
{
    const struct kg_node *properties =
        kg_node_typed(tool->declared->parameters_node, "properties", KG_OBJECT);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = NULL;
    for (uint32_t i = 0; properties != NULL && i < properties->count; i++) {
        const struct kg_member *property = &properties->members[i];
        struct kg_str suffix = kg_node_text(&property->value, "x-mcp-header");
        if (suffix.length == 0 || suffix.length > NAME_MAX_BYTES)
            continue;
        kg_auto(kg_buf_free) struct kg_buf text = {0};
        kg_auto(kg_free) char *name = kg_format("mcp-param-%.*s", KG_STR_ARG(suffix));
        kg_auto(kg_free) char *key = kg_str_dup(property->key);
        struct kg_str given = exchange->ops->header(exchange->carrier, name);
        doc = doc != NULL ? doc : kg_json_read(arguments, NULL);
        bool has_value = doc != NULL && mcp_call_put_argument(kg_node_get(doc->root, key), &text);
        if (given.data == NULL ? has_value && !exchange->is_near
                               : !has_value || !header_is(given, kg_buf_view(&text)))
            return "a header Mcp-Param-* does not match the arguments";
    }
    return NULL;
}

/* What is wanted of one of our own tools; false: it is answered, or the exchange is. */
static bool take_search(struct mcp_exchange *exchange, struct wanted *wanted)
{
    struct kg_str token = wanted->token, arguments = wanted->arguments;
    switch (mcp_search_call(exchange, wanted->name, arguments)) {
    case MCP_SEARCH_NONE:
        return true;
    case MCP_SEARCH_ANSWERED:
        return false;
    case MCP_SEARCH_CALL:
        break;
    }
    const char *wrong = read_wanted(arguments, wanted);
    wanted->token = token;
    wanted->is_inner = true;
    if (wrong != NULL)
        mcp_reply_text(exchange, kg_str(wrong), true);
    return wrong == NULL;
}

void mcp_handle_call(struct mcp_exchange *exchange, struct kg_str params)
{
    struct wanted wanted;
    struct mcp_tool tool;
    struct kg_err err;
    const char *wrong = read_wanted(params, &wanted);
    const char *refused = wrong == NULL ? mcp_call_refusal(exchange) : NULL;
    if (wrong != NULL)
        mcp_reply_error(exchange, 200, MCP_INVALID_PARAMS, wrong);
    else if (refused != NULL)
        mcp_reply_error(exchange, 200, MCP_INVALID_REQUEST, refused);
    else if (!take_search(exchange, &wanted))
        return;
    else if (mcp_tool_find(&exchange->scope, kg_str(wanted.name), &tool, &err) < 0)
        mcp_reply_error(exchange, 200, MCP_INVALID_PARAMS, err.message);
    else if (exchange->era == MCP_ERA_MODERN && !wanted.is_inner &&
             (wrong = compare_params(exchange, &tool, wanted.arguments)) != NULL)
        mcp_reply_error(exchange, 400, MCP_HEADER_MISMATCH, wrong);
    else
        mcp_call_begin(exchange, params, &wanted, &tool);
}
