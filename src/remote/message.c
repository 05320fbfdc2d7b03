/*
 * What has to be known of messages to carry them over HTTP; pure. Nothing is changed in them: what
 * the server sent goes on as it is, but for the white space around its tokens.
 */
#include "remote/internal.h"

#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>

/* Decodes what stands between the quotes of a string; false: it is none, or too long. */
static bool remote_message_decode(struct kg_str value, struct kg_buf *out)
{
    if (value.length < 2 || value.data[0] != '"')
        return false;
    struct kg_str raw = {value.data + 1, value.length - 2};
    kg_buf_reserve(out, raw.length + 1);
    out->length = kg_json_unescape(raw, out->data);
    return true;
}

static void remote_message_copy_text(struct kg_str value, char *out, size_t size)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    out[0] = '\0';
    if (!remote_message_decode(value, &text) || text.length >= size ||
        !kg_str_is_plain(kg_buf_view(&text)))
        return;
    memcpy(out, text.data, text.length);
    out[text.length] = '\0';
}

/* -- ours -------------------------------------------------------------------------------------- */

/* Which member of the params names what a method is about. */
static const struct {
    const char *method, *key;
} named[] = {{"tools/call", "name"}, {"prompts/get", "name"}, {"resources/read", "uri"}};

static void remote_message_read_params(struct kg_str params, struct remote_message *message)
{
    static const char revision[] = "io.modelcontextprotocol/protocolVersion";
    struct kg_str meta, value;
    if (kg_json_member(params, "_meta", &meta) && kg_json_member(meta, revision, &value))
        remote_message_copy_text(value, message->revision, sizeof(message->revision));
    for (size_t i = 0; i < KG_COUNT(named); i++)
        if (strcmp(message->method, named[i].method) == 0 &&
            kg_json_member(params, named[i].key, &value))
            (void)remote_message_decode(value, &message->name);
}

bool remote_message_read(struct kg_str line, struct remote_message *ret_message)
{
    struct rpc_message parsed;
    rpc_parse(line, &parsed);
    struct remote_message message = {.kind = REMOTE_ANSWER, .id = parsed.id};
    if (parsed.kind == RPC_NOISE || parsed.kind == RPC_BATCH || parsed.kind == RPC_INVALID_REQUEST)
        return false;
    if (parsed.kind == RPC_REQUEST || parsed.kind == RPC_NOTIFICATION) {
        message.kind = parsed.kind == RPC_REQUEST ? REMOTE_REQUEST : REMOTE_NOTIFICATION;
        snprintf(message.method, sizeof(message.method), "%s", parsed.method);
        if (parsed.params.data != NULL)
            remote_message_read_params(parsed.params, &message);
    }
    *ret_message = message;
    return true;
}

void remote_message_free(struct remote_message *message)
{
    kg_buf_free(&message->name);
}

int64_t remote_cancelled(struct kg_str line)
{
    struct kg_str params, id;
    int64_t number = 0;
    bool found = kg_json_member(line, "params", &params) &&
                 kg_json_member(params, "requestId", &id) && kg_str_to_int(id, &number);
    return found ? number : 0;
}

/* -- the server's ------------------------------------------------------------------------------ */

/* No string of JSON has a raw line end in it. */
static void remote_message_put_line(struct kg_buf *lines, struct kg_str json)
{
    size_t start = lines->length;
    kg_buf_str(lines, json);
    for (size_t i = start; i < lines->length; i++)
        if (lines->data[i] == '\n' || lines->data[i] == '\r')
            lines->data[i] = ' ';
    kg_buf_char(lines, '\n');
}

void remote_put_lines(struct kg_buf *lines, struct kg_str json)
{
    struct kg_json_cursor cursor = {json.data, json.data + json.length};
    struct kg_str item;
    kg_json_skip_space(&cursor);
    bool is_list =
        cursor.at < cursor.end && *cursor.at == '[' && kg_json_check(json, NULL) == KG_JSON_OK;
    if (!is_list) {
        remote_message_put_line(
            lines, json); /* what is not JSON is noise, which is told of where it is read */
        return;
    }
    struct kg_json_cursor inside =
        kg_json_inside((struct kg_str){cursor.at, (size_t)(cursor.end - cursor.at)});
    while (kg_json_next_item(&inside, &item))
        remote_message_put_line(lines, item);
}

bool remote_answers(struct kg_str json, int64_t id)
{
    struct rpc_message parsed;
    rpc_parse(json, &parsed);
    return (parsed.kind == RPC_RESULT || parsed.kind == RPC_ERROR) && parsed.has_id &&
           parsed.id == id;
}

void remote_read_revision(struct kg_str json, char *revision, size_t size)
{
    struct kg_str result, value;
    revision[0] = '\0';
    if (kg_json_check(json, NULL) == KG_JSON_OK && kg_json_member(json, "result", &result) &&
        kg_json_member(result, "protocolVersion", &value))
        remote_message_copy_text(value, revision, size);
}

void remote_put_error(struct kg_buf *lines, int64_t id, struct kg_str body, const char *words)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = kg_json_writer(&line);
    struct kg_str error, code;
    bool has_own = kg_json_check(body, NULL) == KG_JSON_OK &&
                   kg_json_member(body, "error", &error) && kg_json_member(error, "code", &code);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "jsonrpc", "2.0");
    kg_json_named_int(&json, "id", id);
    if (has_own) {
        kg_json_named_raw(&json, "error", error);
    } else {
        kg_json_named_begin(&json, "error", '{');
        kg_json_named_int(&json, "code", -32000);
        kg_json_named_text(&json, "message", words);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, '}');
    remote_message_put_line(lines, kg_buf_view(&line));
}
