/*
 * Finds the envelope of one line without building a tree: id, method, params, result and error come
 * out as spans of the line, so that a result reaches its caller as the bytes that the plugin wrote.
 * The whole line is still validated. Keys are compared decoded: "\u0069d" is id.
 */
#include "wire/wire.h"

enum key { KEY_JSONRPC, KEY_ID, KEY_METHOD, KEY_PARAMS, KEY_RESULT, KEY_ERROR, KEY_COUNT };
static const struct kg_str key_names[KEY_COUNT] = {{"jsonrpc", 7}, {"id", 2},     {"method", 6},
                                                   {"params", 6},  {"result", 6}, {"error", 5}};

struct envelope {
    struct kg_str value[KEY_COUNT]; /* data NULL: absent */
    const char *duplicate;          /* the first key that came twice */
};

static enum key rpc_find_key(struct kg_str raw, bool escaped)
{
    for (enum key key = 0; key < KEY_COUNT; key++)
        if (escaped ? kg_json_raw_is(raw, true, key_names[key].data)
                    : kg_str_equal(raw, key_names[key]))
            return key;
    return KEY_COUNT;
}

/* One `"key": value` of the object; the cursor stands at the key's quote. */
static enum kg_json_fault scan_member(struct kg_json_cursor *cursor, struct envelope *envelope)
{
    struct kg_str raw, value;
    bool escaped;
    if (cursor->at == cursor->end)
        return KG_JSON_TRUNCATED;
    if (*cursor->at != '"')
        return KG_JSON_SYNTAX;
    enum kg_json_fault fault = kg_json_skip_string(cursor, &raw, &escaped);
    if (fault != KG_JSON_OK)
        return fault;
    kg_json_skip_space(cursor);
    if (cursor->at == cursor->end)
        return KG_JSON_TRUNCATED;
    if (*cursor->at++ != ':')
        return KG_JSON_SYNTAX;
    kg_json_skip_space(cursor);
    fault = kg_json_skip_value(cursor, &value);
    if (fault != KG_JSON_OK)
        return fault;
    enum key key = rpc_find_key(raw, escaped);
    if (key == KEY_COUNT)
        return KG_JSON_OK;
    if (envelope->value[key].data != NULL && envelope->duplicate == NULL)
        envelope->duplicate = key_names[key].data;
    envelope->value[key] = value;
    return KG_JSON_OK;
}

/* The members of the object; the cursor stands behind its brace. */
static enum kg_json_fault scan_members(struct kg_json_cursor *cursor, struct envelope *envelope)
{
    kg_json_skip_space(cursor);
    if (cursor->at < cursor->end && *cursor->at == '}') {
        cursor->at++;
        return KG_JSON_OK;
    }
    for (;;) {
        enum kg_json_fault fault = scan_member(cursor, envelope);
        if (fault != KG_JSON_OK)
            return fault;
        kg_json_skip_space(cursor);
        if (cursor->at == cursor->end)
            return KG_JSON_TRUNCATED;
        char c = *cursor->at++;
        if (c == '}')
            return KG_JSON_OK;
        if (c != ',')
            return KG_JSON_SYNTAX;
        kg_json_skip_space(cursor);
    }
}

static enum kg_json_fault scan_envelope(struct kg_json_cursor *cursor, struct envelope *envelope)
{
    cursor->at++;
    enum kg_json_fault fault = scan_members(cursor, envelope);
    if (fault != KG_JSON_OK)
        return fault;
    kg_json_skip_space(cursor);
    return cursor->at == cursor->end ? KG_JSON_OK : KG_JSON_SYNTAX;
}

static bool span_is_string(struct kg_str span)
{
    return span.data != NULL && span.data[0] == '"';
}

/* What stands between the quotes of a string. */
static struct kg_str span_inside(struct kg_str span)
{
    return (struct kg_str){span.data + 1, span.length - 2};
}

/* The decoded method; false if it is not a string, is too long, or contains a NUL. */
static bool span_method(struct kg_str span, char method[RPC_METHOD_MAX + 1])
{
    char decoded[6 * RPC_METHOD_MAX]; /* each byte may be written as \u00xx */
    if (!span_is_string(span) || span.length - 2 > sizeof(decoded))
        return false;
    size_t length = kg_json_unescape(span_inside(span), decoded);
    if (length > RPC_METHOD_MAX || memchr(decoded, '\0', length) != NULL)
        return false;
    memcpy(method, decoded, length);
    method[length] = '\0';
    return true;
}

static bool span_is_container(struct kg_str span)
{
    return span.data[0] == '{' || span.data[0] == '[';
}

/* Our ids are counted from 1 and written in plain decimal; nothing else is one. */
static bool span_id(struct kg_str span, int64_t *ret_id)
{
    int64_t id;
    if (span.length == 0 || span.data[0] == '0' || span.data[0] == '-' ||
        !kg_str_to_int(span, &id) || id < 1)
        return false;
    *ret_id = id;
    return true;
}

/* What JSON-RPC lets a request have, in a length that we can keep. */
static bool span_is_id(struct kg_str span)
{
    bool number = span.data[0] == '-' || (span.data[0] >= '0' && span.data[0] <= '9');
    return (number || span_is_string(span)) && span.length <= RPC_ID_MAX;
}

/* The id comes last: with another protocol's kind of id the rest of the request is right. */
static const char *rpc_check_request(const struct envelope *envelope, struct rpc_message *message)
{
    const struct kg_str *value = envelope->value;
    if (!span_method(value[KEY_METHOD], message->method))
        return "method is not a string of at most 128 bytes";
    if (value[KEY_RESULT].data != NULL || value[KEY_ERROR].data != NULL)
        return "a request has a result or an error";
    if (value[KEY_PARAMS].data != NULL && !span_is_container(value[KEY_PARAMS]))
        return "params is neither an object nor an array";
    if (value[KEY_ID].data == NULL || message->has_id)
        return NULL;
    message->has_foreign_id = span_is_id(value[KEY_ID]);
    return "id is not a positive integer";
}

static const char *check_error(struct kg_str error)
{
    struct kg_str code, text;
    int64_t number;
    if (error.data[0] != '{')
        return "error is not an object";
    if (!kg_json_member(error, "code", &code) || !kg_str_to_int(code, &number))
        return "error.code is not an integer";
    if (!kg_json_member(error, "message", &text) || !span_is_string(text))
        return "error.message is not a string";
    return NULL;
}

static const char *check_response(const struct envelope *envelope,
                                  const struct rpc_message *message)
{
    const struct kg_str *value = envelope->value;
    if (value[KEY_ID].data == NULL)
        return "there is neither a method nor an id";
    if (!message->has_id)
        return "id is not an integer that was issued";
    if (value[KEY_RESULT].data != NULL && value[KEY_ERROR].data != NULL)
        return "both result and error are given";
    if (value[KEY_RESULT].data == NULL && value[KEY_ERROR].data == NULL)
        return "neither result nor error is given";
    if (value[KEY_ERROR].data != NULL)
        return check_error(value[KEY_ERROR]);
    return NULL;
}

/* It may be written with escapes. */
static bool rpc_is_text(struct kg_str raw, const char *text)
{
    return kg_str_is(raw, text) || kg_json_raw_is(raw, true, text);
}

static const char *rpc_check_version(const struct envelope *envelope)
{
    struct kg_str version = envelope->value[KEY_JSONRPC];
    if (envelope->duplicate != NULL)
        return "a key of the envelope is given twice";
    if (!span_is_string(version) || !rpc_is_text(span_inside(version), "2.0"))
        return "jsonrpc is not \"2.0\"";
    return NULL;
}

static void rpc_classify(const struct envelope *envelope, struct rpc_message *message)
{
    const struct kg_str *value = envelope->value;
    bool request = value[KEY_METHOD].data != NULL;
    message->params = value[KEY_PARAMS];
    message->result = value[KEY_RESULT];
    message->error = value[KEY_ERROR];
    message->id_text = value[KEY_ID];
    message->has_id = value[KEY_ID].data != NULL && span_id(value[KEY_ID], &message->id);
    message->problem = rpc_check_version(envelope);
    if (message->problem == NULL)
        message->problem =
            request ? rpc_check_request(envelope, message) : check_response(envelope, message);
    if (message->problem != NULL)
        message->kind = request ? RPC_INVALID_REQUEST : RPC_INVALID_RESPONSE;
    else if (request)
        message->kind = message->has_id ? RPC_REQUEST : RPC_NOTIFICATION;
    else
        message->kind = value[KEY_RESULT].data != NULL ? RPC_RESULT : RPC_ERROR;
}

/* A log line in JSON may have an "id" or an "error", too: one such key alone makes no message. */
static bool looks_like_rpc(const struct envelope *envelope)
{
    const struct kg_str *value = envelope->value;
    if (value[KEY_JSONRPC].data != NULL || value[KEY_METHOD].data != NULL)
        return true;
    return value[KEY_ID].data != NULL &&
           (value[KEY_RESULT].data != NULL || value[KEY_ERROR].data != NULL);
}

static void noise(struct rpc_message *message, enum kg_json_fault fault, const char *problem)
{
    message->kind = RPC_NOISE;
    message->fault = fault;
    message->problem = problem;
}

static bool pass_text(struct kg_json_cursor *cursor, struct kg_str text)
{
    if ((size_t)(cursor->end - cursor->at) < text.length ||
        memcmp(cursor->at, text.data, text.length) != 0)
        return false;
    cursor->at += text.length;
    return true;
}

/* One that fits without a look at each digit; a longer id is not passed as a whole. */
static bool pass_id(struct kg_json_cursor *cursor, int64_t *ret_id)
{
    const char *start = cursor->at;
    int64_t id = 0;
    for (; cursor->at < cursor->end && kg_is_digit(*cursor->at) && cursor->at - start < 18;
         cursor->at++)
        id = id * 10 + (*cursor->at - '0');
    *ret_id = id;
    return cursor->at > start && *start != '0';
}

/*
 * Nearly every line is a result, written by a library that puts the keys in this order and no space
 * between them: then nothing has to be looked for. False, and nothing is said, for any other line.
 */
static bool parse_usual_result(struct kg_str line, struct rpc_message *message)
{
    struct kg_json_cursor cursor = {line.data, line.data + line.length};
    if (!pass_text(&cursor, KG_STR("{\"jsonrpc\":\"2.0\",\"id\":")))
        return false;
    struct kg_str id = {cursor.at, 0};
    if (!pass_id(&cursor, &message->id))
        return false;
    id.length = (size_t)(cursor.at - id.data);
    if (!pass_text(&cursor, KG_STR(",\"result\":")) ||
        kg_json_skip_value(&cursor, &message->result) != KG_JSON_OK ||
        cursor.end - cursor.at != 1 || *cursor.at != '}')
        return false;
    message->has_id = true;
    message->id_text = id;
    message->kind = RPC_RESULT;
    message->params = message->error = KG_STR_NULL;
    return true;
}

/* On its own: the usual line needs nothing of what this saves and clears. */
static __attribute__((noinline)) void parse_any(struct kg_str line, struct rpc_message *message)
{
    struct envelope envelope = {0};
    struct kg_json_cursor cursor = {line.data, line.data + line.length};
    kg_json_skip_space(&cursor);
    bool object = cursor.at < cursor.end && *cursor.at == '{';
    enum kg_json_fault fault =
        object ? scan_envelope(&cursor, &envelope) : kg_json_check(line, NULL);
    if (fault != KG_JSON_OK) {
        noise(message, fault, kg_json_fault_text(fault));
        return;
    }
    if (!object) {
        if (*cursor.at == '[')
            message->kind = RPC_BATCH;
        else
            noise(message, KG_JSON_OK, "not an object");
        return;
    }
    if (!looks_like_rpc(&envelope)) {
        noise(message, KG_JSON_OK, "not JSON-RPC");
        return;
    }
    rpc_classify(&envelope, message);
}

void rpc_parse(struct kg_str line, struct rpc_message *ret_message)
{
    ret_message->has_id = ret_message->has_foreign_id = false;
    ret_message->id_text = KG_STR_NULL;
    ret_message->problem = NULL;
    ret_message->fault = KG_JSON_OK;
    ret_message->method[0] = '\0';
    if (!parse_usual_result(line, ret_message))
        parse_any(line, ret_message);
}

int64_t rpc_error_code(struct kg_str error)
{
    struct kg_str code;
    int64_t number = -32603;
    if (kg_json_member(error, "code", &code))
        kg_str_to_int(code, &number);
    return number;
}

void rpc_error_message(struct kg_str error, struct kg_buf *ret_text)
{
    struct kg_str text;
    if (!kg_json_member(error, "message", &text) || text.length < 2)
        return;
    kg_buf_reserve(ret_text, text.length);
    ret_text->length += kg_json_unescape((struct kg_str){text.data + 1, text.length - 2},
                                         ret_text->data + ret_text->length);
}

void rpc_put_error(struct kg_buf *out, enum kg_code code, const char *message)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "code", kg_error_row(code)->rpc_code);
    kg_json_named_text(&json, "message", message);
    kg_json_end(&json, '}');
}
