/*
 * A request belongs to its connection until it is handed to a handler, then to the handler until it
 * is answered; only the answer frees it, whether or not the client is still there. Names and values
 * out of the url are decoded once, after the path was split, so a decoded slash is data.
 */
#include "http/internal.h"
#include "redact/shared.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define ANSWER_HEAD_BYTES 512 /* more than nearly all need */
#define FIELDS_START      16  /* a power of two */
#define AWAY_RETRY_SEC    "5" /* by then the daemon has tried to connect again */

const char *const http_via_names[] = {
    [HTTP_VIA_NONE] = "none",   [HTTP_VIA_UNIX] = "unix",   [HTTP_VIA_SESSION] = "session",
    [HTTP_VIA_TOKEN] = "token", [HTTP_VIA_PROXY] = "proxy", [HTTP_VIA_INSECURE] = "insecure",
};

struct http_request *http_request_new(struct http_connection *connection, struct host *host,
                                      const char *operator_id)
{
    struct http_request *request = kg_alloc(sizeof(*request));
    request->connection = connection;
    request->host = host;
    request->method = HTTP_GET;
    kg_str_copy(kg_str(operator_id), request->operator_id, sizeof(request->operator_id));
    return request;
}

/* -- what bodies may take ---------------------------------------------------------------------- */

void http_budget_unref(struct http_budget *budget)
{
    if (budget != NULL && --budget->references == 0)
        free(budget);
}

int http_request_hold(struct http_request *request, const struct http_server *server, size_t bytes)
{
    struct http_budget *budget = server->budget;
    if (bytes <= request->body_held)
        return 0;
    size_t others = budget->held - request->body_held;
    if (others > 0 && others + bytes > server->limits.bodies_bytes) {
        http_add_header(request, "Retry-After", "1");
        return kg_fail(
            http_request_refuse(request, 503), KG_E_BUSY,
            "the bodies of other requests take all that limits.http_bodies_bytes allows");
    }
    if (request->budget == NULL) {
        request->budget = budget;
        budget->references++;
    }
    budget->held = others + bytes;
    request->body_held = bytes;
    return 0;
}

void http_request_free(struct http_request *request)
{
    if (request == NULL)
        return;
    if (request->budget != NULL)
        request->budget->held -= request->body_held;
    http_budget_unref(request->budget);
    kg_buf_free(&request->head);
    kg_buf_free(&request->body);
    kg_doc_free(request->tree);
    kg_buf_free(&request->answer_headers);
    free(request->fields);
    free(request->decoded);
    free(request->query);
    free(request->refusal);
    host_asker_unref(request->asker);
    free(request);
}

/* -- what came in ------------------------------------------------------------------------------ */

struct host *http_host(const struct http_request *request)
{
    return request->host;
}

struct sessions *http_sessions(const struct http_request *request)
{
    return request->sessions;
}

const char *http_operator(const struct http_request *request)
{
    return request->operator_id[0] != '\0' ? request->operator_id : NULL;
}

const struct http_server *http_server_of(const struct http_request *request)
{
    const struct http_connection *connection = request->connection;
    return connection ? http_connection_server(connection) : NULL;
}

const char *http_request_id(const struct http_request *request)
{
    return request->request_id;
}

static struct host_asker *asker_of(const struct http_request *request)
{
    struct host_asker *asker = host_asker_new(http_operator(request), http_request_id(request));
    if (request->traceparent[0] == '\0')
        return asker;
    struct host_asker *traced = host_asker_traced(asker, request->traceparent);
    host_asker_unref(asker);
    return traced;
}

struct host_asker *http_asker(struct http_request *request)
{
    if (request->asker == NULL)
        request->asker = asker_of(request);
    return request->asker;
}

struct kg_str http_body(const struct http_request *request)
{
    return kg_buf_view(&request->body);
}

struct kg_str http_request_text(const struct http_request *request, struct http_span span)
{
    return (struct kg_str){request->head.data + span.at, span.length};
}

struct kg_str http_request_path(const struct http_request *request)
{
    struct kg_str url = http_request_text(request, request->url);
    return kg_str_cut(&url, '?');
}

const char *http_request_method(const struct http_request *request)
{
    return llhttp_method_name(request->method);
}

/* Few requests have many. */
struct http_field *http_request_add_field(struct http_request *request)
{
    size_t count = request->field_count++;
    if (count == 0 || (count >= FIELDS_START && (count & (count - 1)) == 0)) {
        size_t room = count == 0 ? FIELDS_START : 2 * count;
        request->fields = kg_realloc(request->fields, room * sizeof(*request->fields));
    }
    request->fields[count] = (struct http_field){0};
    return &request->fields[count];
}

struct kg_str http_header(const struct http_request *request, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < request->field_count; i++) {
        struct kg_str given = http_request_text(request, request->fields[i].name);
        if (given.length == length && strncasecmp(given.data, name, length) == 0)
            return http_request_text(request, request->fields[i].value);
    }
    return KG_STR_NULL;
}

size_t http_header_count(const struct http_request *request, const char *name)
{
    size_t count = 0, length = strlen(name);
    for (size_t i = 0; i < request->field_count; i++) {
        struct kg_str given = http_request_text(request, request->fields[i].name);
        count += given.length == length && strncasecmp(given.data, name, length) == 0;
    }
    return count;
}

bool http_request_has_body(const struct http_request *request)
{
    if (http_header(request, "transfer-encoding").data != NULL)
        return true;
    struct kg_str length = http_header(request, "content-length");
    for (size_t i = 0; i < length.length; i++)
        if (length.data[i] != '0')
            return true;
    return false;
}

struct kg_str http_path_parameter(const struct http_request *request, const char *name)
{
    struct kg_str part;
    size_t at = 0;
    for (size_t i = 0; http_pattern_next(request->route->pattern, &at, &part); i++)
        if (part.length == strlen(name) + 2 && part.data[0] == '{' &&
            memcmp(part.data + 1, name, part.length - 2) == 0)
            return request->segments[i];
    return KG_STR("");
}

struct kg_str http_query_parameter(const struct http_request *request, const char *name)
{
    for (size_t i = 0; i < request->query_count; i++)
        if (kg_str_is(request->query[i].name, name))
            return request->query[i].value;
    return KG_STR_NULL;
}

int64_t http_query_int(const struct http_request *request, const char *name, int64_t fallback)
{
    struct kg_str text = http_query_parameter(request, name);
    if (text.data != NULL)
        kg_str_to_int(text, &fallback);
    return fallback;
}

bool http_query_flag(const struct http_request *request, const char *name)
{
    return kg_str_is(http_query_parameter(request, name), "true");
}

bool http_query_next(const struct http_request *request, size_t *position, struct kg_str *ret_name,
                     struct kg_str *ret_value)
{
    if (*position >= request->query_count)
        return false;
    *ret_name = request->query[*position].name;
    *ret_value = request->query[*position].value;
    (*position)++;
    return true;
}

void http_on_gone(struct http_request *request, void (*on_gone)(void *data), void *data)
{
    request->on_gone = on_gone;
    request->on_gone_data = data;
}

static bool is_id_character(char c)
{
    return kg_is_letter_or_digit(c) || c == '_' || c == '.' || c == '-';
}

void http_request_identify(struct http_request *request)
{
    struct kg_str given = http_header(request, "x-request-id");
    bool fine = given.length >= 1 && given.length <= HTTP_REQUEST_ID_MAX;
    for (size_t i = 0; fine && i < given.length; i++)
        fine = is_id_character(given.data[i]);
    struct kg_id made;
    if (!fine) {
        made = kg_id_new("req_");
        given = kg_str(made.text);
    }
    kg_str_copy(given, request->request_id, sizeof(request->request_id));
    if (http_header_count(request, "traceparent") == 1)
        (void)kg_traceparent_read(http_header(request, "traceparent"), request->traceparent);
}

struct kg_err *http_request_refuse(struct http_request *request, int status)
{
    free(request->refusal);
    request->refusal = kg_alloc(sizeof(*request->refusal));
    request->refusal->status = status;
    return &request->refusal->err;
}

/* -- url --------------------------------------------------------------------------------------- */

static int http_request_unescape(struct kg_str escape, char *ret_byte)
{
    int high = escape.length >= 3 ? kg_hex_digit(escape.data[1]) : -1;
    int low = escape.length >= 3 ? kg_hex_digit(escape.data[2]) : -1;
    if (high < 0 || low < 0 || (high == 0 && low == 0))
        return -EINVAL;
    *ret_byte = (char)(high * 16 + low);
    return 0;
}

/* Writes to *out, which moves on; the result is never longer than the text. */
static int http_request_decode(struct http_request *request, struct kg_str text, bool plus_is_space,
                               char **out, struct kg_str *ret_decoded)
{
    char *start = *out, *end = start;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.data[i];
        if (c == '%') {
            if (http_request_unescape((struct kg_str){text.data + i, text.length - i}, &c) < 0)
                return kg_fail(http_request_refuse(request, 0), KG_E_USAGE,
                               "url: a bad %% escape, or an escaped NUL, in \"%.*s\"",
                               KG_STR_CUT(text, 100u));
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        *end++ = c;
    }
    struct kg_str decoded = {start, (size_t)(end - start)};
    if (kg_utf8_valid(decoded) != decoded.length)
        return kg_fail(http_request_refuse(request, 0), KG_E_USAGE,
                       "url: \"%.*s\" does not decode to UTF-8", KG_STR_CUT(text, 100u));
    *out = end;
    *ret_decoded = decoded;
    return 0;
}

static int decode_path(struct http_request *request, struct kg_str path, char **out)
{
    size_t slashes = 0;
    for (size_t i = 0; i < path.length; i++)
        slashes += path.data[i] == '/';
    if (slashes > HTTP_SEGMENTS_MAX)
        return kg_fail(http_request_refuse(request, 0), KG_E_NOT_FOUND,
                       "no route has more than %d parts, the path has %zu", HTTP_SEGMENTS_MAX,
                       slashes);
    struct kg_str rest = path;
    kg_str_cut(&rest, '/');
    for (size_t i = 0; i < slashes; i++) {
        int result =
            http_request_decode(request, kg_str_cut(&rest, '/'), false, out, &request->segments[i]);
        if (result < 0)
            return result;
    }
    request->segment_count = slashes;
    return 0;
}

static int decode_pair(struct http_request *request, struct kg_str text, char **out)
{
    if (text.length == 0)
        return 0;
    if (request->query_count == HTTP_QUERY_MAX)
        return kg_fail(http_request_refuse(request, 0), KG_E_USAGE,
                       "url: more than %d query parameters", HTTP_QUERY_MAX);
    struct http_pair *pair = &request->query[request->query_count];
    struct kg_str name = kg_str_cut(&text, '=');
    int result = http_request_decode(request, name, true, out, &pair->name);
    if (result == 0)
        result = http_request_decode(request, text, true, out, &pair->value);
    if (result < 0)
        return result;
    if (pair->name.length == 0)
        return kg_fail(http_request_refuse(request, 0), KG_E_USAGE,
                       "url: a query parameter without a name");
    request->query_count++;
    return 0;
}

static int decode_query(struct http_request *request, struct kg_str query, char **out)
{
    if (query.length == 0)
        return 0;
    size_t most = 1;
    for (size_t i = 0; i < query.length; i++)
        most += query.data[i] == '&';
    if (most > HTTP_QUERY_MAX)
        most = HTTP_QUERY_MAX;
    request->query = kg_alloc_array(most, sizeof(*request->query));
    while (query.length > 0) {
        int result = decode_pair(request, kg_str_cut(&query, '&'), out);
        if (result < 0)
            return result;
    }
    return 0;
}

int http_request_decode_url(struct http_request *request)
{
    struct kg_str url = http_request_text(request, request->url);
    if (request->method == HTTP_OPTIONS && kg_str_is(url, "*"))
        return 0;
    request->decoded = kg_alloc(url.length + 1);
    char *out = request->decoded;
    struct kg_str path = kg_str_cut(&url, '?');
    int result = decode_path(request, path, &out);
    return result < 0 ? result : decode_query(request, url, &out);
}

/* -- answers ----------------------------------------------------------------------------------- */

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {303, "See Other"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
};

static const char *http_request_reason_of(int status)
{
    for (size_t i = 0; i < KG_COUNT(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "";
}

void http_add_header(struct http_request *request, const char *name, const char *value)
{
    kg_buf_printf(&request->answer_headers, "%s: %s\r\n", name, value);
}

static void http_request_put_header(struct kg_buf *head, const char *name_and_colon,
                                    const char *value)
{
    kg_buf_text(head, name_and_colon);
    kg_buf_text(head, value);
    kg_buf_str(head, KG_STR("\r\n"));
}

static void put_length(struct kg_buf *head, const struct http_request *request, int status,
                       size_t length)
{
    if (length == HTTP_LENGTH_UNKNOWN) {
        if (request->chunked)
            kg_buf_str(head, KG_STR("Transfer-Encoding: chunked\r\n"));
    } else if (status != 204 && status != 304) { /* RFC 9110, 8.6: a 204 has none */
        kg_buf_str(head, KG_STR("Content-Length: "));
        kg_buf_int(head, (int64_t)length);
        kg_buf_str(head, KG_STR("\r\n"));
    }
}

/* Without printf: every answer has this. */
void http_request_write_head(const struct http_request *request, int status,
                             const char *content_type, size_t length, struct kg_buf *head)
{
    kg_buf_reserve(head, ANSWER_HEAD_BYTES);
    kg_buf_str(head, KG_STR("HTTP/1.1 "));
    kg_buf_int(head, status);
    http_request_put_header(head, " ", http_request_reason_of(status));
    if (content_type != NULL)
        http_request_put_header(head, "Content-Type: ", content_type);
    put_length(head, request, status, length);
    http_request_put_header(head, "Cache-Control: ", request->cache ? request->cache : "no-store");
    kg_buf_str(head, KG_STR("X-Content-Type-Options: nosniff\r\n"));
    http_request_put_header(head, "X-Request-Id: ", request->request_id);
    kg_buf_str(head, kg_buf_view(&request->answer_headers));
    if (request->allow[0] != '\0')
        http_request_put_header(head, "Allow: ", request->allow);
    if (status == 426) /* RFC 9110, 15.5.22, and RFC 6455, 4.4 */
        kg_buf_text(head, "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
    if (!request->keep_alive)
        kg_buf_text(head, "Connection: close\r\n");
    else if (request->http_1_0)
        kg_buf_text(head, "Connection: keep-alive\r\n");
    kg_buf_str(head, KG_STR("\r\n"));
}

void http_request_tell(const struct http_request *request, int status)
{
    const struct http_server *server = http_connection_server(request->connection);
    if (!native_wants(server->native, NATIVE_TRANSPORT_REQUEST))
        return;
    native_tell(server->native, NATIVE_TRANSPORT_REQUEST,
                AUDIT_V_TEXT(http_request_method(request)), AUDIT_V_STR(http_request_path(request)),
                AUDIT_V_INT(status), AUDIT_V_TEXT(request->request_id),
                AUDIT_V_TEXT(http_operator(request)),
                AUDIT_V_TEXT(http_transport(http_connection_source(request->connection))));
}

void http_reply_text(struct http_request *request, int status, const char *content_type,
                     struct kg_str body)
{
    struct http_connection *connection = request->connection;
    if (connection != NULL) {
        request->keep_alive &= http_connection_stays(connection);
        http_request_tell(request, status);
        kg_auto(kg_buf_free) struct kg_buf head = {0};
        http_request_write_head(request, status, content_type, body.length, &head);
        if (request->method == HTTP_HEAD || status == 204)
            body = KG_STR_NULL;
        http_connection_send(connection, kg_buf_view(&head), body, request->keep_alive);
    }
    http_request_free(request);
}

/* What a plugin answered is its caller's own, as it is; all else is the daemon's. */
static bool is_plugins_answer(const struct http_request *request)
{
    const struct http_route *route = request->route;
    return route != NULL && (route->passes_body || kg_same_text(route->answer, "Result"));
}

void http_reply(struct http_request *request, int status, struct kg_str json)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    if (!is_plugins_answer(request) && redact_put_shared_json(json, &shown))
        json = kg_buf_view(&shown);
    http_reply_text(request, status, "application/json", json);
}

void http_reply_error(struct http_request *request, const struct kg_err *err)
{
    http_reply_problems(request, err, NULL);
}

bool http_pattern_is_flat(struct kg_str path)
{
    static const char *const trees[] = {"/api/orgs", "/api/admin", "/api/chat"};
    for (size_t i = 0; i < KG_COUNT(trees); i++) {
        size_t length = strlen(trees[i]);
        if (kg_str_starts(path, trees[i]) &&
            (path.length == length || path.data[length] == '/' || path.data[length] == '?'))
            return true;
    }
    return false;
}

struct kg_str http_request_org(const struct http_request *request)
{
    struct kg_str org = request->route ? http_path_parameter(request, "org_id") : KG_STR_NULL;
    return org.length > 0 ? org : http_header(request, "x-org-id");
}

/* As the rest of the API has it: what is wrong in an object of its own. */
static void http_request_put_error(struct kg_json_writer *writer,
                                   const struct http_request *request, const struct kg_err *err,
                                   const struct kg_problems *problems_or_null)
{
    kg_json_named_begin(writer, "error", '{');
    kg_json_named_text(writer, "code", kg_error_row(err->code)->name);
    kg_json_named_text(writer, "message", err->message);
    if (err->hint[0] != '\0')
        kg_json_named_text(writer, "hint", err->hint);
    kg_json_named_text(writer, "request_id", request->request_id);
    if (problems_or_null != NULL) {
        kg_json_key(writer, "problems");
        kg_problems_json(problems_or_null, writer);
    }
    kg_json_end(writer, '}');
}

/* As the catalog's clients know it. */
static void put_flat_error(struct kg_json_writer *writer, const struct kg_err *err)
{
    const struct kg_error_row *row = kg_error_row(err->code);
    kg_json_named_text(writer, "code", row->catalog_code);
    kg_json_named_text(writer, "message", err->message);
    kg_json_named_begin(writer, "details", '{');
    kg_json_named_text(writer, "error", row->name);
    if (err->hint[0] != '\0')
        kg_json_named_text(writer, "hint", err->hint);
    if (err->code == KG_E_INVALID_PARAMS) {
        kg_json_named_begin(writer, "validation_errors", '[');
        kg_json_text(writer, err->message);
        kg_json_end(writer, ']');
    }
    kg_json_end(writer, '}');
}

void http_reply_problems(struct http_request *request, const struct kg_err *err,
                         const struct kg_problems *problems_or_null)
{
    if (err->code == KG_E_DATABASE_AWAY || err->code == KG_E_ELSEWHERE ||
        err->code == KG_E_NODE_AWAY)
        http_add_header(request, "Retry-After", AWAY_RETRY_SEC);
    const struct kg_error_row *row = kg_error_row(err->code);
    int refused = request->refusal ? request->refusal->status : 0;
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    struct kg_json_writer writer = kg_json_writer(&json);
    kg_json_begin(&writer, '{');
    if (http_pattern_is_flat(http_request_path(request)))
        put_flat_error(&writer, err);
    else
        http_request_put_error(&writer, request, err, problems_or_null);
    kg_json_end(&writer, '}');
    if (err->code == KG_E_OBJECTS)
        http_add_header(request, "Retry-After", "5");
    http_reply(request, refused ? refused : row->http_status, kg_buf_view(&json));
}

void http_on_answer(void *data, struct kg_str json, const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    int status = request->route->status;
    if (err_or_null != NULL)
        http_reply_error(request, err_or_null);
    else
        http_reply(request, status ? status : 200, json);
}
