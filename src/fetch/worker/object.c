/*
 * kaged-fetch object: one errand to a bucket of S3. The order comes on stdin as one object of JSON,
 *
 *   {"act":"put"|"get"|"check","url","region","access_key","secret_key","session_token"?,"sha256"?,
 *    "file"?,"bytes_max"}
 *
 * and what came of it goes to stdout: {"status","bytes","clock_ms","code"?,"words"?}, for a check
 * also "put", "got" and "removed". libcurl signs (SigV4); it does not send the hash of the body by
 * itself, so that is a header of ours. Of an error's XML one word is looked for, and nothing is
 * parsed. What may be over soon is tried again, a few times.
 */
#include "fetch/worker/internal.h"

#include "base/confine.h"
#include "base/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME          "kaged-fetch"
#define ORDER_BYTES   ((size_t)64 * 1024)
#define PROBLEM_BYTES ((size_t)16 * 1024) /* kept of the body of an error */
#define CODE_BYTES    64
#define HEADERS_BYTES ((size_t)64 * 1024)
#define CONNECT_MS    10000L
#define SLOW_BYTES    1024L /* a second: less, for so long, is given up */
#define SLOW_SEC      15L
#define ATTEMPTS      3
#define PAUSE_MS      300
#define CHECK_TEXT    "kaged\n"
#define EMPTY_HASH    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct object_order {
    const struct kg_doc *doc;
    const char *url, *region, *access_key, *secret_key, *session_token;
    uint64_t bytes_max;
};

/* One request: what goes, what comes, and how it went. */
struct object_request {
    const char *method, *hash;
    int from_fd, into_fd; /* -1: none */
    struct kg_str body;   /* that goes, if it is not a file */
    size_t body_at;
    uint64_t bytes_max, bytes; /* that came, or went */
    struct kg_buf kept;        /* what came, if it is not a file: of an error, or of a check */
    size_t header_bytes;
    int64_t clock_ms;
    bool is_too_long, is_lost; /* more came than may; the disk refused it */
    long status;
    CURL *easy;
    char words[CURL_ERROR_SIZE];
};

/* -- bytes ------------------------------------------------------------------------------------- */

static size_t object_on_read(char *space, size_t size, size_t count, void *data)
{
    struct object_request *request = data;
    size_t room = size * count;
    if (request->from_fd >= 0) {
        ssize_t got = read(request->from_fd, space, room);
        if (got < 0)
            return CURL_READFUNC_ABORT;
        request->bytes += (uint64_t)got;
        return (size_t)got;
    }
    size_t left = request->body.length - request->body_at;
    size_t length = left < room ? left : room;
    memcpy(space, request->body.data + request->body_at, length);
    request->body_at += length;
    return length;
}

/* A redirect of the signature's, or a second try: from its start. */
static int on_seek(void *data, curl_off_t offset, int origin)
{
    struct object_request *request = data;
    if (origin != SEEK_SET || offset != 0)
        return CURL_SEEKFUNC_CANTSEEK;
    request->body_at = 0;
    request->bytes = 0;
    return request->from_fd < 0 || lseek(request->from_fd, 0, SEEK_SET) == 0 ? CURL_SEEKFUNC_OK
                                                                             : CURL_SEEKFUNC_FAIL;
}

static size_t object_on_body(char *bytes, size_t size, size_t count, void *data)
{
    struct object_request *request = data;
    size_t length = size * count;
    long status = 0;
    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200 || request->into_fd < 0) {
        size_t room = PROBLEM_BYTES - request->kept.length;
        kg_buf_append(&request->kept, bytes, length < room ? length : room);
        return length <= room ? length : 0; /* the rest is not waited for */
    }
    request->is_too_long = request->bytes + length > request->bytes_max;
    if (request->is_too_long)
        return 0;
    request->is_lost = kg_write_all(request->into_fd, bytes, length) < 0;
    request->bytes += length;
    return request->is_lost ? 0 : length;
}

static size_t object_on_header(char *bytes, size_t size, size_t count, void *data)
{
    struct object_request *request = data;
    size_t length = size * count;
    request->header_bytes += length;
    if (length > 5 && length < 64 && strncasecmp(bytes, "date:", 5) == 0) {
        char text[64] = "";
        memcpy(text, bytes + 5, length - 5);
        time_t told = curl_getdate(text, NULL);
        if (told > 0)
            request->clock_ms = (int64_t)told * 1000 - kg_wall_ms();
    }
    return request->header_bytes > HEADERS_BYTES ? 0 : length;
}

/* -- one request ------------------------------------------------------------------------------- */

static struct curl_slist *object_make_headers(const struct object_order *order, const char *hash)
{
    kg_auto(kg_free) char *content = kg_format("x-amz-content-sha256: %s", hash);
    struct curl_slist *headers = curl_slist_append(NULL, content);
    if (order->session_token != NULL) {
        kg_auto(kg_free) char *token = kg_format("x-amz-security-token: %s", order->session_token);
        headers = curl_slist_append(headers, token);
    }
    return headers;
}

static void set_upload(struct object_request *request)
{
    struct stat file = {.st_size = (off_t)request->body.length};
    if (request->from_fd >= 0)
        fstat(request->from_fd, &file);
    curl_easy_setopt(request->easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(request->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)file.st_size);
    curl_easy_setopt(request->easy, CURLOPT_READFUNCTION, object_on_read);
    curl_easy_setopt(request->easy, CURLOPT_READDATA, request);
    curl_easy_setopt(request->easy, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(request->easy, CURLOPT_SEEKDATA, request);
}

/* Whether it got an answer, be it a refusal. */
static bool object_ask(const struct object_order *order, struct object_request *request)
{
    struct curl_slist *headers = object_make_headers(order, request->hash);
    kg_auto(kg_free) char *signature = kg_format("aws:amz:%s:s3", order->region);
    CURL *easy = request->easy = curl_easy_init();
    fetch_set_options(easy, order->url, headers, CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, signature);
    curl_easy_setopt(easy, CURLOPT_USERNAME, order->access_key);
    curl_easy_setopt(easy, CURLOPT_PASSWORD, order->secret_key);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, SLOW_SEC);
    if (strcmp(request->method, "PUT") == 0)
        set_upload(request);
    else
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    fetch_set_receiver(easy, object_on_header, object_on_body, request->words, request);
    request->kept.length = request->header_bytes = 0;
    request->bytes = 0;
    request->body_at = 0;
    CURLcode result = curl_easy_perform(easy);
    request->status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &request->status);
    bool answered = result == CURLE_OK || (result == CURLE_WRITE_ERROR && request->status != 200);
    if (!answered) {
        request->status = 0;
        kg_str_copy(kg_str(fetch_words(request->words, result)), request->words,
                    sizeof(request->words));
    }
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    return answered;
}

static bool may_be_over_soon(const struct object_request *request)
{
    return !request->is_too_long && !request->is_lost &&
           (request->status == 0 || request->status == 429 || request->status >= 500);
}

static bool object_rewind(const struct object_request *request)
{
    if (request->from_fd >= 0)
        return lseek(request->from_fd, 0, SEEK_SET) == 0;
    return request->into_fd < 0 ||
           (ftruncate(request->into_fd, 0) == 0 && lseek(request->into_fd, 0, SEEK_SET) == 0);
}

static bool object_do(const struct object_order *order, struct object_request *request)
{
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        const struct timespec pause = {.tv_nsec = (long)PAUSE_MS * 1000000 << attempt};
        if (!object_rewind(request))
            return false;
        object_ask(order, request);
        if (!may_be_over_soon(request))
            break;
        if (attempt + 1 < ATTEMPTS)
            nanosleep(&pause, NULL);
    }
    return request->status >= 200 && request->status < 300 && !request->is_too_long &&
           !request->is_lost;
}

/* -- what came of it --------------------------------------------------------------------------- */

/* <Code>NoSuchKey</Code>; a body that is anything else has none. */
static struct kg_str object_code_of(const struct kg_buf *kept)
{
    static const char begin[] = "<Code>";
    const char *at =
        kept->length > 0 ? memmem(kept->data, kept->length, begin, strlen(begin)) : NULL;
    if (at == NULL)
        return KG_STR_NULL;
    at += strlen(begin);
    size_t length = 0, left = (size_t)(kept->data + kept->length - at);
    while (length < left && length < CODE_BYTES && kg_is_letter_or_digit(at[length]))
        length++;
    return (struct kg_str){at, length};
}

static const char *object_words_of(const struct object_request *request)
{
    if (request->is_too_long)
        return "it sends more bytes than the object has";
    if (request->is_lost)
        return "what comes cannot be written here";
    return request->status == 0 ? request->words : "";
}

static void put_outcome(struct kg_json_writer *json, const struct object_request *request)
{
    struct kg_str code = object_code_of(&request->kept);
    const char *words = object_words_of(request);
    kg_json_named_int(json, "status", request->status);
    kg_json_named_int(json, "bytes", (int64_t)request->bytes);
    kg_json_named_int(json, "clock_ms", request->clock_ms);
    if (code.length > 0)
        kg_json_named_str(json, "code", code);
    if (words[0] != '\0' && kg_utf8_valid(kg_str(words)) == strlen(words))
        kg_json_named_text(json, "words", words);
}

/* -- errands ----------------------------------------------------------------------------------- */

static const char *order_text(const struct kg_doc *doc, const char *key)
{
    struct kg_str text = kg_node_text(doc->root, key);
    return text.data != NULL ? kg_arena_text(doc->arena, text) : NULL;
}

static int object_put(const struct object_order *order, struct kg_json_writer *json)
{
    const char *file = order_text(order->doc, "file"), *hash = order_text(order->doc, "sha256");
    if (file == NULL || hash == NULL)
        return -EINVAL;
    struct object_request request = {.method = "PUT", .hash = hash, .into_fd = -1};
    request.from_fd = open(file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (request.from_fd < 0)
        return -errno;
    object_do(order, &request);
    put_outcome(json, &request);
    close(request.from_fd);
    kg_buf_free(&request.kept);
    return 0;
}

static int object_get(const struct object_order *order, struct kg_json_writer *json)
{
    const char *file = order_text(order->doc, "file");
    if (file == NULL)
        return -EINVAL;
    struct object_request request = {
        .method = "GET", .hash = EMPTY_HASH, .from_fd = -1, .bytes_max = order->bytes_max};
    request.into_fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (request.into_fd < 0)
        return -errno;
    object_do(order, &request);
    put_outcome(json, &request);
    close(request.into_fd);
    kg_buf_free(&request.kept);
    return 0;
}

/* An object of a few bytes: put, read, removed. What fails first is what is told. */
static int object_check(const struct object_order *order, struct kg_json_writer *json)
{
    struct object_request put = {.method = "PUT",
                                 .hash = "UNSIGNED-PAYLOAD",
                                 .from_fd = -1,
                                 .into_fd = -1,
                                 .body = KG_STR(CHECK_TEXT)};
    struct object_request get = {.method = "GET", .hash = EMPTY_HASH, .from_fd = -1, .into_fd = -1};
    struct object_request drop = {
        .method = "DELETE", .hash = EMPTY_HASH, .from_fd = -1, .into_fd = -1};
    bool was_put = object_do(order, &put);
    bool was_got =
        was_put && object_do(order, &get) && kg_str_is(kg_buf_view(&get.kept), CHECK_TEXT);
    bool was_removed = was_put && object_do(order, &drop);
    put_outcome(json, !was_put ? &put : !was_got ? &get : &drop);
    kg_json_named_bool(json, "put", was_put);
    kg_json_named_bool(json, "got", was_got);
    kg_json_named_bool(json, "removed", was_removed);
    kg_buf_free(&put.kept);
    kg_buf_free(&get.kept);
    kg_buf_free(&drop.kept);
    return 0;
}

static const struct {
    const char *act;
    int (*run)(const struct object_order *order, struct kg_json_writer *json);
} errands[] = {{"put", object_put}, {"get", object_get}, {"check", object_check}};

static int object_run(const struct kg_doc *doc, struct kg_json_writer *json)
{
    const struct object_order order = {
        .doc = doc,
        .url = order_text(doc, "url"),
        .region = order_text(doc, "region"),
        .access_key = order_text(doc, "access_key"),
        .secret_key = order_text(doc, "secret_key"),
        .session_token = order_text(doc, "session_token"),
        .bytes_max = (uint64_t)kg_node_number(doc->root, "bytes_max"),
    };
    struct kg_str act = kg_node_text(doc->root, "act");
    if (order.url == NULL || order.region == NULL || order.access_key == NULL ||
        order.secret_key == NULL)
        return -EINVAL;
    for (size_t i = 0; i < KG_COUNT(errands); i++)
        if (kg_str_is(act, errands[i].act))
            return errands[i].run(&order, json);
    return -EINVAL;
}

static int read_order(struct kg_buf *ret_text)
{
    for (;;) {
        kg_buf_reserve(ret_text, ORDER_BYTES);
        ssize_t got =
            read(STDIN_FILENO, ret_text->data + ret_text->length, ORDER_BYTES - ret_text->length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : 0;
        ret_text->length += (size_t)got;
        if (ret_text->length == ORDER_BYTES)
            return -EMSGSIZE;
    }
}

int object_main(void)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, answer = {0};
    int result = read_order(&text);
    if (result < 0)
        return fetch_leave(NAME, strerror(-result));
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), NULL);
    if (doc == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
        return fetch_leave(NAME, "the order cannot be read");
    kg_confine(077, kg_node_number(doc->root, "bytes_max"), FETCH_OPEN_FILES);
    struct kg_json_writer json = kg_json_writer(&answer);
    kg_json_begin(&json, '{');
    result = object_run(doc, &json);
    kg_json_end(&json, '}');
    curl_global_cleanup();
    if (result < 0)
        return fetch_leave(NAME, strerror(-result));
    return kg_write_all(STDOUT_FILENO, answer.data, answer.length) < 0 ? EXIT_FAILURE
                                                                       : EXIT_SUCCESS;
}
