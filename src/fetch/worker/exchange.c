/*
 * Requests on their way. Each is answered exactly once, unless the process ends before: by status
 * and body, or by why there are none. Of a body no more than its bound is kept, and the rest is not
 * waited for.
 */
#include "base/base64.h"
#include "fetch/worker/internal.h"
#include "wire/wire.h"

#include <stdlib.h>

#define HEADERS_BYTES ((size_t)256 * 1024) /* of one answer */
#define TYPE_BYTES    256
#define CONNECT_MS    10000L
#define TURN_MS       60000 /* nothing of ours waits for a time: libcurl has its own */

struct exchange {
    struct exchange *next;
    struct exchanges *all;
    int64_t id;
    struct kg_doc *doc;         /* owned: url, method and headers lie in it */
    struct kg_buf request_body; /* owned, like all that follows */
    CURL *easy;
    struct curl_slist *headers; /* of the request */
    struct kg_buf body;         /* of the answer */
    size_t body_max, header_bytes;
    bool truncated;
    char words[CURL_ERROR_SIZE];
};

struct exchanges {
    CURLM *multi;
    struct kg_buf *lines; /* borrowed */
    struct exchange *first;
};

/* -- what comes back --------------------------------------------------------------------------- */

static size_t fetch_exchange_on_body(char *bytes, size_t size, size_t count, void *data)
{
    struct exchange *exchange = data;
    size_t length = size * count, room = exchange->body_max - exchange->body.length;
    exchange->truncated = length > room;
    kg_buf_append(&exchange->body, bytes, length < room ? length : room);
    return exchange->truncated ? 0 : length;
}

static size_t fetch_exchange_on_header(char *bytes, size_t size, size_t count, void *data)
{
    struct exchange *exchange = data;
    (void)bytes;
    exchange->header_bytes += size * count;
    return exchange->header_bytes > HEADERS_BYTES ? 0 : size * count;
}

static void fetch_exchange_free(struct exchange *exchange)
{
    KG_UNLINK(exchange->all->first, exchange);
    curl_multi_remove_handle(exchange->all->multi, exchange->easy);
    curl_easy_cleanup(exchange->easy);
    curl_slist_free_all(exchange->headers);
    kg_buf_free(&exchange->request_body);
    kg_buf_free(&exchange->body);
    kg_doc_free(exchange->doc);
    free(exchange);
}

void exchange_put_error(struct kg_buf *lines, int64_t id, const char *words)
{
    kg_buf_printf(lines, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"error\":", (long long)id);
    rpc_put_error(lines, KG_E_PLUGIN, words);
    kg_buf_text(lines, "}\n");
}

static void fetch_exchange_put_result(const struct exchange *exchange, long status)
{
    struct kg_buf *lines = exchange->all->lines;
    char *type = NULL;
    curl_easy_getinfo(exchange->easy, CURLINFO_CONTENT_TYPE, &type);
    kg_buf_printf(lines, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":", (long long)exchange->id);
    struct kg_json_writer json = kg_json_writer(lines);
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "status", status);
    if (type != NULL && kg_utf8_valid(kg_str(type)) == strlen(type))
        kg_json_named_str(&json, "content_type",
                          kg_str_first(kg_str(type), strnlen(type, TYPE_BYTES)));
    kg_json_named_bytes(&json, "body", kg_buf_view(&exchange->body));
    kg_json_named_bool(&json, "truncated", exchange->truncated);
    kg_json_end(&json, '}');
    kg_buf_text(lines, "}\n");
}

static void fetch_exchange_on_ended(void *transfer, CURLcode result)
{
    struct exchange *exchange = transfer;
    long status = 0;
    curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &status);
    if (exchange->header_bytes > HEADERS_BYTES)
        exchange_put_error(exchange->all->lines, exchange->id,
                           "the answer has more headers than kaged accepts");
    else if ((result == CURLE_OK || exchange->truncated) && status >= 100 && status <= 999)
        fetch_exchange_put_result(exchange, status);
    else
        exchange_put_error(exchange->all->lines, exchange->id,
                           result == CURLE_OK ? "the answer is not HTTP"
                                              : fetch_words(exchange->words, result));
    fetch_exchange_free(exchange);
}

/* -- what goes out ----------------------------------------------------------------------------- */

static const char *fetch_exchange_text_of(const struct kg_doc *doc, const char *key)
{
    struct kg_str text = kg_node_text(doc->root, key);
    return text.data != NULL ? kg_arena_text(doc->arena, text) : NULL;
}

static void fetch_exchange_add_headers(struct exchange *exchange)
{
    const struct kg_node *headers = kg_node_list(exchange->doc->root, "headers");
    for (uint32_t i = 0; i < headers->count; i++)
        if (headers->items[i].type == KG_STRING)
            exchange->headers = curl_slist_append(
                exchange->headers, kg_arena_text(exchange->doc->arena, headers->items[i].text));
    /* libcurl would wait for a server that does not know it. */
    exchange->headers = curl_slist_append(exchange->headers, "Expect:");
}

static void fetch_exchange_set_up(struct exchange *exchange, const char *url, const char *method)
{
    const struct kg_node *root = exchange->doc->root;
    CURL *easy = exchange->easy = curl_easy_init();
    int64_t timeout_ms = kg_node_number(root, "timeout_ms");
    exchange->body_max = (size_t)kg_node_number(root, "answer_bytes");
    fetch_exchange_add_headers(exchange);
    fetch_set_options(easy, url, exchange->headers, CONNECT_MS);
    if (exchange->request_body.length > 0 || strcmp(method, "POST") == 0)
        fetch_set_body(easy, kg_buf_view(&exchange->request_body));
    if (strcmp(method, "HEAD") == 0)
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(timeout_ms > 0 ? timeout_ms : 1));
    fetch_set_receiver(easy, fetch_exchange_on_header, fetch_exchange_on_body, exchange->words,
                       exchange);
}

void exchanges_start(struct exchanges *exchanges, int64_t id, struct kg_str params)
{
    struct kg_doc *doc = kg_json_read(params, NULL);
    const char *url = doc ? fetch_exchange_text_of(doc, "url") : NULL;
    const char *method = doc ? fetch_exchange_text_of(doc, "method") : NULL;
    struct kg_buf body = {0};
    if (url == NULL || method == NULL || kg_node_number(doc->root, "answer_bytes") < 0 ||
        kg_node_bytes(doc->root, "body", params.length, &body, NULL) < 0) {
        exchange_put_error(exchanges->lines, id, "the request does not fit");
        kg_buf_free(&body);
        kg_doc_free(doc);
        return;
    }
    struct exchange *exchange = kg_alloc(sizeof(*exchange));
    *exchange = (struct exchange){
        .all = exchanges, .id = id, .doc = doc, .request_body = body, .next = exchanges->first};
    exchanges->first = exchange;
    fetch_exchange_set_up(exchange, url, method);
    curl_multi_add_handle(exchanges->multi, exchange->easy);
}

void exchanges_cancel(struct exchanges *exchanges, struct kg_str params)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, NULL);
    struct exchange *exchange = exchanges->first;
    int64_t id = doc ? kg_node_number(doc->root, "id") : 0;
    while (exchange != NULL && exchange->id != id)
        exchange = exchange->next;
    if (exchange != NULL)
        fetch_exchange_free(exchange);
}

/* -- all of them ------------------------------------------------------------------------------- */

struct exchanges *exchanges_new(struct kg_buf *lines, struct kg_err *err)
{
    CURLM *multi = fetch_multi_new(err);
    if (multi == NULL)
        return NULL;
    struct exchanges *exchanges = kg_alloc(sizeof(*exchanges));
    *exchanges = (struct exchanges){.multi = multi, .lines = lines};
    return exchanges;
}

void exchanges_free(struct exchanges *exchanges)
{
    for (struct exchange *at = exchanges->first, *next; at != NULL; at = next) {
        next = at->next;
        fetch_exchange_free(at);
    }
    fetch_multi_free(exchanges->multi);
    free(exchanges);
}

bool exchanges_turn(struct exchanges *exchanges, int fd)
{
    return fetch_turn(exchanges->multi, fd, TURN_MS, fetch_exchange_on_ended);
}
