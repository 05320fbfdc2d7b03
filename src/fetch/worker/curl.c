/* How libcurl is set up here: the same for all, so that none of them follows or trusts more. */
#include "fetch/worker/worker.h"

#define CONNECTIONS_MAX  64L /* at the same time: requests past it wait */
#define KEPT_CONNECTIONS 8L  /* for the next requests */

CURLM *fetch_multi_new(struct kg_err *err)
{
    CURLM *multi = curl_global_init(CURL_GLOBAL_DEFAULT) == 0 ? curl_multi_init() : NULL;
    if (multi == NULL) {
        kg_fail(err, KG_E_INTERNAL, "libcurl failed to initialize");
        return NULL;
    }
    curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, CONNECTIONS_MAX);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, KEPT_CONNECTIONS);
    return multi;
}

void fetch_multi_free(CURLM *multi)
{
    curl_multi_cleanup(multi);
    curl_global_cleanup();
}

void fetch_set_options(CURL *easy, const char *url, struct curl_slist *headers, long connect_ms)
{
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "kaged/" KAGED_VERSION);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
}

void fetch_set_body(CURL *easy, struct kg_str body)
{
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.length);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data != NULL ? body.data : "");
}

void fetch_set_receiver(CURL *easy, fetch_bytes_fn *on_header, fetch_bytes_fn *on_body, char *words,
                        void *transfer)
{
    words[0] = '\0';
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, words);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
}

const char *fetch_words(const char *words, CURLcode result)
{
    return words[0] != '\0' ? words : curl_easy_strerror(result);
}

bool fetch_turn(CURLM *multi, int fd, int wait_ms, fetch_ended_fn *on_ended)
{
    struct curl_waitfd input = {.fd = fd, .events = CURL_WAIT_POLLIN};
    const CURLMsg *message;
    int running, left;
    curl_multi_poll(multi, &input, 1, wait_ms, NULL);
    curl_multi_perform(multi, &running);
    while ((message = curl_multi_info_read(multi, &left)) != NULL) {
        void *transfer = NULL;
        CURLcode result = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        if (message->msg == CURLMSG_DONE)
            on_ended(transfer, result);
    }
    return input.revents != 0;
}
