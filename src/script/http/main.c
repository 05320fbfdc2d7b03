/*
 * kaged-http: one request over HTTP for a script. On stdin a line of JSON says what is asked for,
 * and behind it is the body; on stdout a line says what was answered, and behind it is that body.
 * Redirects are not followed: where they lead to was not looked at. It can do nothing else: its
 * cage lets it reach what the operator granted.
 *
 *   {"method":"GET","url":"...","headers":{"Name":"value"},"timeout_secs":30,"max_bytes":1024}
 *   {"status":200,"content_type":"text/plain","truncated":false}
 */
#include "base/confine.h"
#include "base/json/json.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN_FILES    32
#define INPUT_MAX     ((size_t)8 << 20)
#define READ_BYTES    65536
#define HEADERS_MAX   64
#define HEADERS_BYTES ((size_t)256 * 1024) /* of the answer */

struct fetch {
    struct kg_buf body;
    size_t max_bytes, header_bytes;
    bool truncated;
};

static int leave(const char *why)
{
    fprintf(stderr, "%s\n", why);
    return EXIT_FAILURE;
}

/* What is past the bound is not read: the connection ends there. */
static size_t on_body(char *bytes, size_t size, size_t count, void *data)
{
    struct fetch *fetch = data;
    size_t length = size * count, room = fetch->max_bytes - fetch->body.length;
    fetch->truncated |= length > room;
    kg_buf_str(&fetch->body, (struct kg_str){bytes, length < room ? length : room});
    return length <= room ? length : 0;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *data)
{
    struct fetch *fetch = data;
    (void)bytes;
    fetch->header_bytes += size * count;
    return fetch->header_bytes <= HEADERS_BYTES ? size * count : 0;
}

static bool is_line(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7F)
            return false;
    return true;
}

/* NULL: there are none, or they cannot be sent, which is said. */
static struct curl_slist *make_headers(const struct kg_node *asked, const char **ret_problem)
{
    const struct kg_node *headers = kg_node_typed(asked, "headers", KG_OBJECT);
    struct curl_slist *list = NULL;
    for (uint32_t i = 0; headers != NULL && i < headers->count && *ret_problem == NULL; i++) {
        const struct kg_member *member = &headers->members[i];
        kg_auto(kg_buf_free) struct kg_buf line = {0};
        if (i >= HEADERS_MAX || member->value.type != KG_STRING || !is_line(member->key) ||
            !is_line(member->value.text) || member->key.length == 0)
            *ret_problem = "headers are at most 64 texts of one line each";
        kg_buf_printf(&line, "%.*s: ", KG_STR_ARG(member->key));
        kg_buf_str(&line, member->value.type == KG_STRING ? member->value.text : KG_STR_NULL);
        list = curl_slist_append(list, kg_buf_terminate(&line));
    }
    return list;
}

static void set_up(CURL *easy, const struct kg_node *asked, const char *url, struct kg_str body,
                   struct fetch *fetch, const char *method)
{
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "kaged/" KAGED_VERSION);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)kg_node_number(asked, "timeout_secs"));
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
    if (body.length > 0 || strcmp(method, "POST") == 0) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.length);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.length > 0 ? body.data : "");
    }
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, fetch);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, fetch);
}

static int tell(CURL *easy, const struct fetch *fetch)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    struct kg_json_writer json = kg_json_writer(&out);
    char *type = NULL;
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type);
    bool is_text = type != NULL && kg_utf8_valid(kg_str(type)) == strlen(type);
    kg_json_begin(&json, '{');
    kg_json_named_int(&json, "status", status);
    kg_json_named_str(&json, "content_type",
                      is_text ? kg_str_first(kg_str(type), strnlen(type, 256)) : KG_STR(""));
    kg_json_named_bool(&json, "truncated", fetch->truncated);
    kg_json_end(&json, '}');
    kg_buf_char(&out, '\n');
    kg_buf_str(&out, kg_buf_view(&fetch->body));
    return kg_write_all(STDOUT_FILENO, out.data, out.length) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int fetch_it(CURL *easy, const struct kg_node *asked, struct kg_str body)
{
    char words[CURL_ERROR_SIZE] = "";
    const char *problem = NULL;
    struct fetch fetch = {.max_bytes = (size_t)kg_node_number(asked, "max_bytes")};
    kg_auto(kg_free) char *url = kg_str_dup(kg_node_text(asked, "url"));
    kg_auto(kg_free) char *method = kg_str_dup(kg_node_text(asked, "method"));
    struct curl_slist *headers = make_headers(asked, &problem);
    int code = EXIT_FAILURE;
    set_up(easy, asked, url, body, &fetch, method);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, words);
    CURLcode result = problem != NULL ? CURLE_OK : curl_easy_perform(easy);
    if (problem != NULL)
        leave(problem);
    else if (result == CURLE_OK || fetch.truncated)
        code = tell(easy, &fetch);
    else
        leave(words[0] != '\0' ? words : curl_easy_strerror(result));
    curl_slist_free_all(headers);
    kg_buf_free(&fetch.body);
    return code;
}

static int read_input(struct kg_buf *ret_input)
{
    for (;;) {
        kg_buf_reserve(ret_input, READ_BYTES);
        ssize_t got = read(STDIN_FILENO, ret_input->data + ret_input->length, READ_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : 0;
        ret_input->length += (size_t)got;
        if (ret_input->length > INPUT_MAX)
            return -EMSGSIZE;
    }
}

int main(void)
{
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf input = {0};
    kg_confine(077, 0, OPEN_FILES); /* no core with a key in it, no file */
    int result = read_input(&input);
    if (result < 0)
        return leave(strerror(-result));
    struct kg_str body = kg_buf_view(&input);
    struct kg_str head = kg_str_cut(&body, '\n');
    kg_auto(kg_doc_cleanup) struct kg_doc *asked = kg_json_read(head, &err);
    if (asked == NULL)
        return leave(err.message);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    CURL *easy = curl_easy_init();
    int code = easy != NULL ? fetch_it(easy, asked->root, body) : leave("there is no memory");
    curl_easy_cleanup(easy);
    curl_global_cleanup();
    return code;
}
