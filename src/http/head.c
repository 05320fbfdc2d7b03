/*
 * The head of a request is scanned line by line before llhttp sees it, and checked once it is
 * whole, so that nothing that only a lenient reader would take gets through, and no two readers
 * could read it differently.
 */
#include "http/connection.h"

#include <strings.h>

/* -- line by line --------------------------------------------------------------------------------
 */

/* Why a byte cannot stand where it does, or NULL. */
static const char *scan_byte(struct http_scan *scan, unsigned char c)
{
    if (scan->after_cr) {
        if (c != '\n')
            return "a CR without LF";
        scan->after_cr = false;
        scan->done = scan->line_length == 0 && scan->lines > 0;
        scan->lines += scan->line_length > 0; /* empty lines before the first are skipped */
        scan->line_length = 0;
        return NULL;
    }
    if (c == '\r') {
        scan->after_cr = true;
        return NULL;
    }
    if (c == '\n')
        return "an LF without CR";
    if ((c < 0x20 && c != '\t') || c == 0x7F)
        return "a control character";
    if (scan->line_length == 0 && scan->lines > 0 && (c == ' ' || c == '\t'))
        return "a folded header line";
    if (scan->line_length == 0 && scan->lines > 0 && c == ':')
        return "a header without a name";
    scan->line_length++;
    return NULL;
}

/* Whether one of eight bytes may be a control character. */
static bool has_control(const char *bytes)
{
    const uint64_t each = UINT64_C(0x0101010101010101);
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
    return (((word - each * 0x20) | ((word ^ each * 0x7F) - each)) & ~word & each * 0x80) != 0;
}

/* Bytes that may stand anywhere in a line but at its start. */
static size_t plain_run(const char *bytes, size_t length)
{
    size_t i = 0;
    while (length - i >= 8 && !has_control(bytes + i))
        i += 8;
    while (i < length && (unsigned char)bytes[i] >= 0x20 && bytes[i] != 0x7F)
        i++;
    return i;
}

/* Returns how many of the bytes belong to the head. */
size_t http_head_scan(struct http_scan *scan, const char *bytes, size_t length,
                      const char **ret_fault)
{
    size_t i = 0;
    while (i < length && !scan->done) {
        *ret_fault = scan_byte(scan, (unsigned char)bytes[i++]);
        if (*ret_fault != NULL)
            break;
        if (scan->line_length > 0 && !scan->after_cr) {
            size_t plain = plain_run(bytes + i, length - i);
            scan->line_length += plain;
            i += plain;
        }
    }
    return i;
}

/* -- as a whole ----------------------------------------------------------------------------------
 */

int http_head_fault(struct http_request *request, const char *what)
{
    return kg_fail(http_request_refuse(request, 0), KG_E_USAGE, "malformed request: %s", what);
}

static bool head_has(const struct http_request *request, size_t at, const char *text)
{
    size_t length = strlen(text);
    return at + length <= request->head.length &&
           memcmp(request->head.data + at, text, length) == 0;
}

/* One space on each side of the url, nothing else. */
static int check_request_line(struct http_request *request)
{
    const char *method = http_request_method(request);
    size_t before = strlen(method) + 1;
    size_t end = request->url.at + request->url.length;
    if (request->url.at < before || !head_has(request, request->url.at - before, method) ||
        request->head.data[request->url.at - 1] != ' ')
        return http_head_fault(request, "the request line is not METHOD URL HTTP/1.1");
    size_t start = request->url.at - before;
    if (start > 0 && request->head.data[start - 1] != '\n')
        return http_head_fault(request, "there is something before the method");
    if (!head_has(request, end, " HTTP/1.1\r\n") && !head_has(request, end, " HTTP/1.0\r\n"))
        return http_head_fault(request, "the version is neither HTTP/1.1 nor HTTP/1.0");
    return 0;
}

static int check_url(struct http_request *request)
{
    struct kg_str url = http_request_text(request, request->url);
    bool star = request->method == HTTP_OPTIONS && kg_str_is(url, "*");
    if (!star && !kg_str_starts(url, "/"))
        return http_head_fault(request, "the url is not a path");
    for (size_t i = 0; i < url.length; i++)
        if ((unsigned char)(url.data[i] - 0x21) > 0x7E - 0x21 || url.data[i] == '#' ||
            url.data[i] == '\\')
            return http_head_fault(request, "a character in the url that must be escaped");
    return 0;
}

static bool head_is_token(struct kg_str name)
{
    static const char separators[128] = {
        ['"'] = 1, ['('] = 1,  [')'] = 1, [','] = 1, ['/'] = 1, [':'] = 1,
        [';'] = 1, ['<'] = 1,  ['='] = 1, ['>'] = 1, ['?'] = 1, ['@'] = 1,
        ['['] = 1, ['\\'] = 1, [']'] = 1, ['{'] = 1, ['}'] = 1};
    for (size_t i = 0; i < name.length; i++) {
        unsigned char c = (unsigned char)name.data[i];
        if (c < 0x21 || c > 0x7E || separators[c])
            return false;
    }
    return name.length > 0;
}

static void head_trim(const struct http_request *request, struct http_span *value)
{
    const char *data = request->head.data + value->at;
    while (value->length > 0 && (data[value->length - 1] == ' ' || data[value->length - 1] == '\t'))
        value->length--;
}

static int check_fields(struct http_request *request)
{
    for (size_t i = 0; i < request->field_count; i++) {
        struct http_field *field = &request->fields[i];
        request->named |= http_name_bit(http_request_text(request, field->name));
        if (!head_is_token(http_request_text(request, field->name)) ||
            !head_has(request, field->name.at + field->name.length, ":"))
            return http_head_fault(request,
                                   "a header's name is not a token right before its colon");
        head_trim(request, &field->value);
    }
    return 0;
}

static size_t head_span(struct kg_str text, size_t at, bool (*fits)(char c))
{
    size_t length = 0;
    while (at + length < text.length && fits(text.data[at + length]))
        length++;
    return length;
}

static bool is_in_name(char c)
{
    return kg_is_letter_or_digit(c) || c == '.' || c == '-' || c == '_';
}

static bool is_in_address(char c)
{
    return kg_hex_digit(c) >= 0 || c == ':' || c == '.';
}

/* A name or an address, and perhaps a port; neither user nor path nor list. */
static bool head_is_host(struct kg_str host)
{
    bool bracket = kg_str_starts(host, "[");
    size_t at = bracket ? 1 : 0;
    size_t length = head_span(host, at, bracket ? is_in_address : is_in_name);
    if (length == 0)
        return false;
    at += length;
    if (bracket && (at == host.length || host.data[at++] != ']'))
        return false;
    if (at < host.length && host.data[at] == ':')
        at += 1 + head_span(host, at + 1, kg_is_digit);
    return at == host.length;
}

static int head_check_host(struct http_request *request)
{
    size_t count = http_header_count(request, "host");
    if (count > 1)
        return http_head_fault(request, "more than one Host");
    if (count == 0)
        return request->http_1_0 ? 0 : http_head_fault(request, "no Host");
    return head_is_host(http_header(request, "host"))
               ? 0
               : http_head_fault(request, "Host is not a host");
}

/* One way to tell the length of the body, or none; of two, each reader would take another. */
static int check_lengths(struct http_request *request)
{
    size_t encodings = http_header_count(request, "transfer-encoding");
    size_t lengths = http_header_count(request, "content-length");
    if (encodings + lengths > 1)
        return http_head_fault(request, "the length of the body is given more than once");
    if (encodings == 0)
        return 0;
    struct kg_str encoding = http_header(request, "transfer-encoding");
    if (encoding.length != 7 || strncasecmp(encoding.data, "chunked", 7) != 0)
        return http_head_fault(request, "a transfer encoding other than chunked");
    return request->http_1_0 ? http_head_fault(request, "a transfer encoding in HTTP/1.0") : 0;
}

static int check_expectation(struct http_request *request)
{
    struct kg_str expect = http_header(request, "expect");
    if (expect.data == NULL || request->http_1_0)
        return 0;
    if (expect.length != 12 || strncasecmp(expect.data, "100-continue", 12) != 0)
        return kg_fail(http_request_refuse(request, 417), KG_E_USAGE,
                       "Expect: only 100-continue is supported");
    request->expects_continue = http_request_has_body(request);
    return 0;
}

int http_head_check(struct http_request *request)
{
    static int (*const checks[])(struct http_request * request) = {
        check_request_line, check_url,     check_fields,
        head_check_host,    check_lengths, check_expectation,
    };
    for (size_t i = 0; i < KG_COUNT(checks); i++)
        if (checks[i](request) < 0)
            return -1;
    return 0;
}
