/*
 * Requests on their way to one server, by streamable HTTP in both of its eras. Each request of ours
 * is answered exactly once: by what the server sends, or by why it does not. Redirects are not
 * followed, since the cage reaches one host, and a header may hold a key.
 */
#include "remote/internal.h"
#include "wire/wire.h"

#include "base/sse.h"
#include "fetch/worker/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define HEADERS_BYTES  ((size_t)256 * 1024) /* of one answer */
#define ERROR_BYTES    ((size_t)65536)      /* of an answer that is a refusal */
#define CONNECT_MS     30000L
#define END_MS         3000L /* for the end of a session */
#define AGAIN_FIRST_MS 1000u /* before a stream is asked for again, doubled each time */
#define AGAIN_MOST_MS  30000u
#define RESUMES_MAX    16 /* of one request, without an event in between */
#define NEVER          UINT64_MAX
#define SESSION_MAX    256

enum what { SEND, RESUME, LISTEN };

struct exchange {
    struct exchange *next;
    struct remote *remote;
    enum what what;
    bool is_request, is_greeting; /* initialize, or that it is over: what follows waits for it */
    bool answered;
    int64_t id;         /* of a request */
    char method[160];   /* of what is sent; "" of an answer */
    char revision[32];  /* "": legacy */
    struct kg_buf name; /* owned, like the next */
    struct kg_buf body;
    CURL *easy; /* NULL while it waits */
    struct curl_slist *headers;
    struct kg_sse *sse;
    struct kg_buf answer;  /* that is not a stream */
    struct kg_buf last_id; /* of an event: where to go on from */
    char curl_words[CURL_ERROR_SIZE];
    long status;
    bool looked, too_large;
    size_t header_bytes;
    unsigned tries;
    uint64_t again_ms; /* when to ask again; NEVER: it is under way */
};

/* Lines that wait for the greeting. */
struct waiting {
    struct waiting *next;
    struct kg_buf line;
};

struct remote {
    CURLM *multi;
    const char *url;
    char *const *own_headers;
    struct kg_buf *lines;
    struct exchange *first;
    struct waiting *waiting, **waiting_end;
    char session[SESSION_MAX + 1]; /* "": none */
    char revision[32];             /* of a legacy server; "": not agreed yet */
    bool is_modern;
    const char *problem;
};

/* -- what comes back --------------------------------------------------------------------------- */

static int remote_exchange_on_event(void *user, struct kg_str data)
{
    struct exchange *exchange = user;
    exchange->tries = 0;
    if (data.length == 0)
        return 0; /* only its id counts: a place to go on from */
    if (exchange->is_request && remote_answers(data, exchange->id)) {
        exchange->answered = true;
        if (strcmp(exchange->method, "initialize") == 0)
            remote_read_revision(data, exchange->remote->revision,
                                 sizeof(exchange->remote->revision));
    }
    remote_put_lines(exchange->remote->lines, data);
    return 0;
}

/* Once, with the first bytes of a body. */
static void remote_exchange_look(struct exchange *exchange)
{
    static const char events[] = "text/event-stream";
    char *type = NULL;
    exchange->looked = true;
    curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &exchange->status);
    curl_easy_getinfo(exchange->easy, CURLINFO_CONTENT_TYPE, &type);
    if (exchange->status == 200 && type != NULL &&
        curl_strnequal(type, events, sizeof(events) - 1) != 0)
        exchange->sse = kg_sse_new(REMOTE_LINE_BYTES);
}

static size_t remote_exchange_on_body(char *bytes, size_t size, size_t count, void *data)
{
    struct exchange *exchange = data;
    struct kg_str got = {bytes, size * count};
    if (!exchange->looked)
        remote_exchange_look(exchange);
    if (exchange->sse != NULL) {
        exchange->too_large =
            kg_sse_feed(exchange->sse, got, remote_exchange_on_event, exchange) < 0;
        return exchange->too_large ? 0 : got.length;
    }
    size_t most = exchange->status == 200 ? REMOTE_LINE_BYTES : ERROR_BYTES;
    exchange->too_large = exchange->answer.length + got.length > most;
    if (exchange->too_large)
        return 0;
    kg_buf_str(&exchange->answer, got);
    return got.length;
}

/* A session is named in the answer to initialize, and in no other. */
static void remote_exchange_take_session(struct exchange *exchange, struct kg_str value)
{
    struct remote *remote = exchange->remote;
    if (strcmp(exchange->method, "initialize") != 0 || value.length > SESSION_MAX)
        return;
    for (size_t i = 0; i < value.length; i++)
        if (value.data[i] <= 0x20 || value.data[i] >= 0x7F)
            return;
    memcpy(remote->session, value.data, value.length);
    remote->session[value.length] = '\0';
}

static size_t remote_exchange_on_header(char *bytes, size_t size, size_t count, void *data)
{
    static const char session[] = "mcp-session-id:";
    struct exchange *exchange = data;
    struct kg_str line = {bytes, size * count};
    exchange->header_bytes += line.length;
    exchange->too_large = exchange->header_bytes > HEADERS_BYTES;
    if (exchange->too_large)
        return 0;
    if (line.length > strlen(session) && strncasecmp(bytes, session, strlen(session)) == 0) {
        struct kg_str value = kg_str_from(line, strlen(session));
        while (value.length > 0 && value.data[0] == ' ')
            value = kg_str_from(value, 1);
        while (value.length > 0 && strchr("\r\n ", value.data[value.length - 1]) != NULL)
            value.length--;
        remote_exchange_take_session(exchange, value);
    }
    return line.length;
}

/* -- what goes out ----------------------------------------------------------------------------- */

static void remote_exchange_add_header(struct exchange *exchange, const char *name,
                                       struct kg_str value)
{
    kg_auto(kg_buf_free) struct kg_buf header = {0};
    kg_buf_printf(&header, "%s: ", name);
    header_put(&header, value);
    exchange->headers = curl_slist_append(exchange->headers, kg_buf_terminate(&header));
}

static void remote_exchange_add_headers(struct exchange *exchange)
{
    struct remote *remote = exchange->remote;
    bool is_modern = exchange->revision[0] != '\0';
    for (char *const *own = remote->own_headers; *own != NULL; own++)
        exchange->headers = curl_slist_append(exchange->headers, *own);
    remote_exchange_add_header(exchange, "Accept",
                               exchange->what == SEND
                                   ? KG_STR("application/json, text/event-stream")
                                   : KG_STR("text/event-stream"));
    if (exchange->what == SEND)
        remote_exchange_add_header(exchange, "Content-Type", KG_STR("application/json"));
    const char *revision = is_modern ? exchange->revision : remote->revision;
    if (revision[0] != '\0')
        remote_exchange_add_header(exchange, "MCP-Protocol-Version", kg_str(revision));
    if (is_modern && exchange->method[0] != '\0')
        remote_exchange_add_header(exchange, "Mcp-Method", kg_str(exchange->method));
    if (is_modern && exchange->name.length > 0)
        remote_exchange_add_header(exchange, "Mcp-Name", kg_buf_view(&exchange->name));
    if (!is_modern && remote->session[0] != '\0')
        remote_exchange_add_header(exchange, "Mcp-Session-Id", kg_str(remote->session));
    if (exchange->last_id.length > 0)
        remote_exchange_add_header(exchange, "Last-Event-ID", kg_buf_view(&exchange->last_id));
}

static void remote_exchange_begin(struct exchange *exchange)
{
    CURL *easy = exchange->easy = curl_easy_init();
    exchange->again_ms = NEVER;
    exchange->looked = exchange->too_large = false;
    exchange->header_bytes = 0;
    exchange->status = 0;
    remote_exchange_add_headers(exchange);
    fetch_set_options(easy, exchange->remote->url, exchange->headers, CONNECT_MS);
    if (exchange->what == SEND)
        fetch_set_body(easy, kg_buf_view(&exchange->body));
    fetch_set_receiver(easy, remote_exchange_on_header, remote_exchange_on_body,
                       exchange->curl_words, exchange);
    curl_multi_add_handle(exchange->remote->multi, easy);
}

/* What one try used; the exchange itself stays. */
static void remote_exchange_end_try(struct exchange *exchange)
{
    if (exchange->easy != NULL) {
        curl_multi_remove_handle(exchange->remote->multi, exchange->easy);
        curl_easy_cleanup(exchange->easy);
    }
    curl_slist_free_all(exchange->headers);
    kg_sse_free(exchange->sse);
    exchange->easy = NULL;
    exchange->headers = NULL;
    exchange->sse = NULL;
    exchange->answer.length = 0;
}

static void remote_exchange_free(struct exchange *exchange)
{
    KG_UNLINK(exchange->remote->first, exchange);
    remote_exchange_end_try(exchange);
    kg_buf_free(&exchange->name);
    kg_buf_free(&exchange->body);
    kg_buf_free(&exchange->answer);
    kg_buf_free(&exchange->last_id);
    free(exchange);
}

static struct exchange *exchange_new(struct remote *remote, enum what what)
{
    struct exchange *exchange = kg_alloc(sizeof(*exchange));
    exchange->remote = remote;
    exchange->what = what;
    exchange->again_ms = NEVER;
    exchange->next = remote->first;
    remote->first = exchange;
    return exchange;
}

/* -- the end of one ---------------------------------------------------------------------------- */

/* Why a request has no answer, in words. */
static void remote_exchange_put_reason(const struct exchange *exchange, CURLcode result,
                                       struct kg_buf *out)
{
    long status = exchange->status;
    if (exchange->too_large)
        kg_buf_text(out, "the server's answer is larger than kaged accepts");
    else if (status == 401)
        kg_buf_text(out,
                    "needs login: the server answers 401, and accepts no request without a key");
    else if (status >= 300 && status < 400)
        kg_buf_printf(out, "the server redirects, which is not followed (status %ld)", status);
    else if (status >= 400)
        kg_buf_printf(out, "the server answers with status %ld", status);
    else if (result != CURLE_OK)
        kg_buf_printf(out, "the server could not be reached: %s",
                      fetch_words(exchange->curl_words, result));
    else
        kg_buf_text(out, "the server ended its stream without an answer");
}

static void remote_exchange_fail(struct exchange *exchange, CURLcode result)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    remote_exchange_put_reason(exchange, result, &words);
    bool is_refusal = exchange->status >= 400 && exchange->status != 401;
    fprintf(stderr, "kaged-remote: %s: %s\n", exchange->method[0] ? exchange->method : "answer",
            kg_buf_terminate(&words));
    if (exchange->is_request && !exchange->answered)
        remote_put_error(exchange->remote->lines, exchange->id,
                         is_refusal ? kg_buf_view(&exchange->answer) : KG_STR(""),
                         kg_buf_terminate(&words));
}

/* Later, from the last event on, and each time later unless something comes. */
static void ask_again(struct exchange *exchange, enum what what)
{
    uint64_t wait_ms = AGAIN_FIRST_MS << (exchange->tries < 5 ? exchange->tries : 5);
    int64_t wished_ms = exchange->sse ? kg_sse_retry_ms(exchange->sse) : -1;
    if (exchange->sse != NULL && kg_sse_id(exchange->sse).length > 0) {
        exchange->last_id.length = 0;
        kg_buf_str(&exchange->last_id, kg_sse_id(exchange->sse));
    }
    if (wished_ms >= 0 && exchange->tries == 0)
        wait_ms = (uint64_t)wished_ms;
    exchange->tries++;
    exchange->what = what;
    remote_exchange_end_try(exchange);
    exchange->again_ms = kg_monotonic_ms() + (wait_ms < AGAIN_MOST_MS ? wait_ms : AGAIN_MOST_MS);
}

/* A stream that broke off can be gone on with, if its events have ids; a modern one cannot. */
static bool may_resume(const struct exchange *exchange)
{
    return exchange->is_request && !exchange->answered && exchange->revision[0] == '\0' &&
           exchange->sse != NULL && kg_sse_id(exchange->sse).length > 0 && !exchange->too_large &&
           exchange->tries < RESUMES_MAX;
}

static void listen_for_news(struct remote *remote)
{
    for (struct exchange *at = remote->first; at != NULL; at = at->next)
        if (at->what == LISTEN)
            return;
    remote_exchange_begin(exchange_new(remote, LISTEN));
}

static void remote_exchange_send_waiting(struct remote *remote);

static void remote_exchange_on_answer(struct exchange *exchange, CURLcode result)
{
    bool is_good = result == CURLE_OK && exchange->status >= 200 && exchange->status < 300;
    if (is_good && exchange->sse == NULL && exchange->is_request && exchange->answer.length > 0)
        (void)remote_exchange_on_event(exchange, kg_buf_view(&exchange->answer));
    if (is_good && exchange->is_request && !exchange->answered && exchange->answer.length > 0)
        exchange->answered = kg_json_check(kg_buf_view(&exchange->answer), NULL) == KG_JSON_OK;
    if (!is_good || (exchange->is_request && !exchange->answered))
        remote_exchange_fail(exchange, result);
}

static void remote_exchange_on_sent(struct exchange *exchange, CURLcode result)
{
    struct remote *remote = exchange->remote;
    bool was_greeting = exchange->is_greeting;
    bool was_last = strcmp(exchange->method, "notifications/initialized") == 0;
    bool is_legacy = exchange->revision[0] == '\0';
    bool is_lost = exchange->status == 404 && is_legacy && remote->session[0] != '\0';
    remote_exchange_on_answer(exchange, result);
    remote_exchange_free(exchange);
    if (is_lost)
        remote->problem = "the server has forgotten the session";
    else if (was_last && is_legacy)
        listen_for_news(remote);
    if (was_greeting)
        remote_exchange_send_waiting(remote);
}

/* Not every server has such a stream. */
static void on_news_end(struct exchange *exchange)
{
    bool was_there = exchange->sse != NULL;
    if (!was_there && exchange->status != 0) {
        remote_exchange_free(exchange);
        return;
    }
    ask_again(exchange, LISTEN);
}

static void remote_exchange_on_done(void *transfer, CURLcode result)
{
    struct exchange *exchange = transfer;
    if (!exchange->looked)
        remote_exchange_look(exchange);
    if (exchange->sse != NULL && !exchange->too_large)
        exchange->too_large = kg_sse_finish(exchange->sse, remote_exchange_on_event, exchange) < 0;
    if (exchange->what == LISTEN)
        on_news_end(exchange);
    else if (may_resume(exchange))
        ask_again(exchange, RESUME);
    else
        remote_exchange_on_sent(exchange, exchange->answered ? CURLE_OK : result);
}

/* -- sending ----------------------------------------------------------------------------------- */

/* Closing a modern stream cancels what it was for; a legacy server has to be told. */
static void remote_exchange_cancel(struct remote *remote, int64_t id)
{
    for (struct exchange *at = remote->first, *next; at != NULL; at = next) {
        next = at->next;
        if (at->is_request && at->id == id && !at->is_greeting)
            remote_exchange_free(at);
    }
}

static bool remote_exchange_is_greeted(const struct remote *remote)
{
    for (const struct exchange *at = remote->first; at != NULL; at = at->next)
        if (at->is_greeting)
            return false;
    return true;
}

static void remote_exchange_keep_waiting(struct remote *remote, struct kg_str line)
{
    struct waiting *waiting = kg_alloc(sizeof(*waiting));
    kg_buf_str(&waiting->line, line);
    *remote->waiting_end = waiting;
    remote->waiting_end = &waiting->next;
}

static void send_now(struct remote *remote, struct kg_str line)
{
    struct remote_message message;
    if (!remote_message_read(line, &message))
        return; /* the daemon writes nothing else */
    bool is_cancel = strcmp(message.method, "notifications/cancelled") == 0;
    if (message.kind == REMOTE_REQUEST)
        remote->is_modern = message.revision[0] != '\0';
    if (is_cancel)
        remote_exchange_cancel(remote, remote_cancelled(line));
    if (is_cancel && remote->is_modern) {
        remote_message_free(&message);
        return;
    }
    struct exchange *exchange = exchange_new(remote, SEND);
    exchange->is_request = message.kind == REMOTE_REQUEST;
    exchange->id = message.id;
    exchange->is_greeting = strcmp(message.method, "initialize") == 0 ||
                            strcmp(message.method, "notifications/initialized") == 0;
    memcpy(exchange->method, message.method, sizeof(exchange->method));
    memcpy(exchange->revision, message.revision, sizeof(exchange->revision));
    exchange->name = message.name;
    kg_buf_str(&exchange->body, line);
    remote_exchange_begin(exchange);
}

/* In the order in which they came, up to the next that others have to wait for. */
static void remote_exchange_send_waiting(struct remote *remote)
{
    while (remote->waiting != NULL && remote_exchange_is_greeted(remote)) {
        struct waiting *waiting = remote->waiting;
        remote->waiting = waiting->next;
        if (remote->waiting == NULL)
            remote->waiting_end = &remote->waiting;
        send_now(remote, kg_buf_view(&waiting->line));
        kg_buf_free(&waiting->line);
        free(waiting);
    }
}

void remote_send(struct remote *remote, struct kg_str line)
{
    if (remote->waiting != NULL || !remote_exchange_is_greeted(remote))
        remote_exchange_keep_waiting(remote, line);
    else
        send_now(remote, line);
}

/* -- all of them ------------------------------------------------------------------------------- */

struct remote *remote_new(const char *url, char *const *headers, struct kg_buf *lines,
                          struct kg_err *err)
{
    CURLM *multi = fetch_multi_new(err);
    if (multi == NULL)
        return NULL;
    struct remote *remote = kg_alloc(sizeof(*remote));
    *remote = (struct remote){.multi = multi, .url = url, .own_headers = headers, .lines = lines};
    remote->waiting_end = &remote->waiting;
    return remote;
}

static int remote_exchange_wait_ms(const struct remote *remote)
{
    uint64_t now_ms = kg_monotonic_ms(), due_ms = now_ms + AGAIN_MOST_MS;
    for (const struct exchange *at = remote->first; at != NULL; at = at->next)
        if (at->again_ms < due_ms)
            due_ms = at->again_ms;
    return due_ms > now_ms ? (int)(due_ms - now_ms) : 0;
}

bool remote_turn(struct remote *remote, int fd)
{
    bool is_readable =
        fetch_turn(remote->multi, fd, remote_exchange_wait_ms(remote), remote_exchange_on_done);
    for (struct exchange *at = remote->first, *next; at != NULL; at = next) {
        next = at->next;
        if (at->again_ms <= kg_monotonic_ms())
            remote_exchange_begin(at);
    }
    return is_readable;
}

const char *remote_problem(const struct remote *remote)
{
    return remote->problem;
}

/* A server need not end it on request; nobody waits long for that. */
static void remote_exchange_end_session(struct remote *remote)
{
    kg_auto(kg_free) char *session = kg_format("Mcp-Session-Id: %s", remote->session);
    struct curl_slist *headers = curl_slist_append(NULL, session);
    CURL *easy = curl_easy_init();
    for (char *const *own = remote->own_headers; *own != NULL; own++)
        headers = curl_slist_append(headers, *own);
    fetch_set_options(easy, remote->url, headers, CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, END_MS);
    (void)curl_easy_perform(easy);
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
}

void remote_free(struct remote *remote)
{
    while (remote->first != NULL)
        remote_exchange_free(remote->first);
    while (remote->waiting != NULL) {
        struct waiting *waiting = remote->waiting;
        remote->waiting = waiting->next;
        kg_buf_free(&waiting->line);
        free(waiting);
    }
    if (remote->session[0] != '\0' && remote->problem == NULL)
        remote_exchange_end_session(remote);
    fetch_multi_free(remote->multi);
    free(remote);
}
