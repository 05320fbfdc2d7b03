/*
 * Requests on their way. One loop moves all of them; each is answered exactly once, unless the
 * process ends before. A request is sent again only while nothing of an answer has been passed on,
 * and never past its time. Redirects are not followed: whoever holds a key is asked by name.
 */
#include "fetch/worker/worker.h"
#include "model/worker/internal.h"

#include <errno.h>
#include <stdlib.h>

#define ERROR_BODY_BYTES 65536                /* of a refusal, in which its words are looked for */
#define HEADERS_BYTES    ((size_t)256 * 1024) /* of one answer */
#define RETRY_FIRST_MS   500                  /* doubled with each attempt */
#define RETRY_MOST_MS    8000
#define RETRY_WAIT_MS    60000 /* a longer Retry-After is told, not waited for */
#define LINGER_MS        500   /* after the last event, for the end of the transfer */
#define NEVER            UINT64_MAX

struct transfer {
    struct transfer *next;
    struct transfers *all;
    struct request *request;    /* owned */
    CURL *easy;                 /* owned; NULL while it waits for its next try */
    struct curl_slist *headers; /* owned */
    struct answer *answer;      /* of this try; owned */
    struct kg_buf error_body;   /* of an answer that is no stream of events */
    struct failure failure;     /* of this try */
    char curl_words[CURL_ERROR_SIZE];
    bool looked, is_stream; /* at the status and the type of the answer */
    size_t header_bytes;
    int64_t tries;
    curl_off_t uploaded;
    uint64_t deadline_ms, idle_since_ms;
    uint64_t linger_until_ms; /* NEVER: the stream is not over */
    uint64_t again_ms;        /* when it is to be tried again */
};

struct transfers {
    CURLM *multi;
    struct kg_buf *lines; /* borrowed */
    struct transfer *first;
};

/* -- what comes back --------------------------------------------------------------------------- */

static int transfer_refuse_type(struct transfer *transfer, const char *type)
{
    kg_auto(kg_buf_free) struct kg_buf said = {0};
    failure_put_words(&said, kg_str(type), transfer->request->secrets);
    return failure_set(&transfer->failure, MODEL_BAD_ANSWER,
                       "the provider's answer is not a stream of events%s",
                       kg_buf_terminate(&said));
}

/* Once, with the first bytes. */
static int look_at_answer(struct transfer *transfer)
{
    static const char wanted[] = "text/event-stream";
    long status = 0;
    char *type = NULL;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(transfer->easy, CURLINFO_CONTENT_TYPE, &type);
    transfer->looked = true;
    if (status != 200)
        return 0;
    if (type == NULL || curl_strnequal(type, wanted, sizeof(wanted) - 1) == 0)
        return transfer_refuse_type(transfer, type ? type : "it does not say what it is");
    transfer->is_stream = true;
    return 0;
}

static int transfer_take_bytes(struct transfer *transfer, struct kg_str bytes)
{
    if (!transfer->looked && look_at_answer(transfer) < 0)
        return -EPROTO;
    if (!transfer->is_stream) {
        size_t room = ERROR_BODY_BYTES - transfer->error_body.length;
        kg_buf_append(&transfer->error_body, bytes.data, bytes.length < room ? bytes.length : room);
        return room == 0 ? -EMSGSIZE : 0; /* no more of it is needed */
    }
    if (transfer->linger_until_ms != NEVER)
        return 0;
    if (answer_feed(transfer->answer, bytes) < 0) {
        transfer->failure = transfer->answer->failure;
        return -EPROTO;
    }
    if (transfer->answer->ended)
        transfer->linger_until_ms = kg_monotonic_ms() + LINGER_MS;
    return 0;
}

static size_t transfer_on_body(char *bytes, size_t size, size_t count, void *data)
{
    struct transfer *transfer = data;
    transfer->idle_since_ms = kg_monotonic_ms();
    return transfer_take_bytes(transfer, (struct kg_str){bytes, size * count}) < 0 ? 0
                                                                                   : size * count;
}

static size_t transfer_on_header(char *bytes, size_t size, size_t count, void *data)
{
    struct transfer *transfer = data;
    (void)bytes;
    transfer->idle_since_ms = kg_monotonic_ms();
    transfer->header_bytes += size * count;
    if (transfer->header_bytes <= HEADERS_BYTES)
        return size * count;
    failure_set(&transfer->failure, MODEL_BAD_ANSWER,
                "the provider's answer has more than %zu bytes of headers", HEADERS_BYTES);
    return 0;
}

/* -- one try ----------------------------------------------------------------------------------- */

static void transfer_end_try(struct transfer *transfer)
{
    if (transfer->easy != NULL) {
        curl_multi_remove_handle(transfer->all->multi, transfer->easy);
        curl_easy_cleanup(transfer->easy);
    }
    curl_slist_free_all(transfer->headers);
    answer_free(transfer->answer);
    kg_buf_free(&transfer->error_body);
    transfer->easy = NULL;
    transfer->headers = NULL;
    transfer->answer = NULL;
}

static void begin_try(struct transfer *transfer)
{
    transfer->tries++;
    transfer->easy = curl_easy_init();
    for (char **header = transfer->request->headers; *header != NULL; header++)
        transfer->headers = curl_slist_append(transfer->headers, *header);
    transfer->answer = answer_new(transfer->request, transfer->all->lines);
    transfer->failure = (struct failure){0};
    transfer->looked = transfer->is_stream = false;
    transfer->header_bytes = 0;
    transfer->uploaded = 0;
    transfer->idle_since_ms = kg_monotonic_ms();
    transfer->linger_until_ms = NEVER;
    fetch_set_options(transfer->easy, transfer->request->url, transfer->headers,
                      (long)transfer->request->bounds.connect_ms);
    fetch_set_body(transfer->easy, kg_buf_view(&transfer->request->body));
    fetch_set_receiver(transfer->easy, transfer_on_header, transfer_on_body, transfer->curl_words,
                       transfer);
    curl_multi_add_handle(transfer->all->multi, transfer->easy);
}

/* -- the end of a request ---------------------------------------------------------------------- */

static void transfer_free(struct transfer *transfer)
{
    KG_UNLINK(transfer->all->first, transfer);
    transfer_end_try(transfer);
    request_free(transfer->request);
    free(transfer);
}

/* How long to wait before the next try, or NEVER. */
static uint64_t wait_of(const struct transfer *transfer, uint64_t now_ms)
{
    const struct failure *failure = &transfer->failure;
    if (!failure_may_pass(failure->code) || transfer->answer->told ||
        transfer->tries > transfer->request->bounds.retries ||
        failure->retry_after_ms > RETRY_WAIT_MS)
        return NEVER;
    uint64_t wait_ms = (uint64_t)RETRY_FIRST_MS << (transfer->tries - 1);
    wait_ms = wait_ms < RETRY_MOST_MS ? wait_ms : RETRY_MOST_MS;
    wait_ms += kg_monotonic_ns() % (wait_ms / 4 + 1); /* so that many do not come back at once */
    if ((uint64_t)failure->retry_after_ms > wait_ms)
        wait_ms = (uint64_t)failure->retry_after_ms;
    return now_ms + wait_ms < transfer->deadline_ms ? wait_ms : NEVER;
}

static void transfer_fail(struct transfer *transfer)
{
    uint64_t now_ms = kg_monotonic_ms();
    uint64_t wait_ms = wait_of(transfer, now_ms);
    int64_t id = transfer->request->id;
    if (wait_ms == NEVER) {
        answer_put_failure(transfer->all->lines, id, &transfer->failure);
        transfer_free(transfer);
        return;
    }
    answer_put_retry(transfer->all->lines, id, &transfer->failure, wait_ms);
    transfer_end_try(transfer);
    transfer->again_ms = now_ms + wait_ms;
}

static void succeed_or_fail(struct transfer *transfer)
{
    if (answer_finish(transfer->answer) < 0) {
        transfer->failure = transfer->answer->failure;
        transfer_fail(transfer);
        return;
    }
    answer_put_result(transfer->all->lines, transfer->request->id, transfer->answer->stop_reason);
    transfer_free(transfer);
}

/* What the status and the body of an answer without a stream mean. */
static void transfer_read_refusal(struct transfer *transfer)
{
    long status = 0;
    curl_off_t after_sec = 0;
    char *location = NULL;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &after_sec);
    curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &location);
    struct kg_str body = kg_buf_view(&transfer->error_body);
    if (status >= 300 && status < 400) {
        kg_auto(kg_buf_free) struct kg_buf said = {0};
        failure_put_words(&said, kg_str(location), transfer->request->secrets);
        failure_set(&transfer->failure, MODEL_REFUSED,
                    "the provider sends elsewhere, which is not followed (status %ld)%s", status,
                    kg_buf_terminate(&said));
        transfer->failure.status = (int)status;
    } else {
        failure_from_answer(&transfer->failure, (int)status, body, transfer->request->secrets);
    }
    transfer->failure.retry_after_ms = after_sec > 0 ? (int64_t)after_sec * 1000 : 0;
}

static void read_curl_code(struct transfer *transfer, CURLcode result)
{
    const char *words = fetch_words(transfer->curl_words, result);
    enum model_failure code = MODEL_LOST;
    switch (result) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
        code = MODEL_REFUSED;
        break;
    case CURLE_URL_MALFORMAT:
        code = MODEL_INVALID;
        break;
    case CURLE_UNSUPPORTED_PROTOCOL: /* what came is no HTTP */
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
        code = MODEL_BAD_ANSWER;
        break;
    default:
        break;
    }
    failure_set(&transfer->failure, code, "the provider could not be asked: %s", words);
}

/* The first that applies tells how it went. */
static void on_transfer_done(void *ended, CURLcode result)
{
    struct transfer *transfer = ended;
    long status = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (!transfer->looked && result == CURLE_OK)
        (void)look_at_answer(transfer); /* it was empty */
    if (transfer->failure.code != MODEL_OK)
        transfer_fail(transfer);
    else if (transfer->is_stream)
        succeed_or_fail(transfer);
    else if (status != 0 && (result == CURLE_OK || transfer->error_body.length > 0)) {
        transfer_read_refusal(transfer);
        transfer_fail(transfer);
    } else {
        read_curl_code(transfer, result);
        transfer_fail(transfer);
    }
}

/* -- time -------------------------------------------------------------------------------------- */

static uint64_t due_of(const struct transfer *transfer)
{
    if (transfer->easy == NULL)
        return transfer->again_ms;
    uint64_t idle_ms = transfer->idle_since_ms + (uint64_t)transfer->request->bounds.idle_ms;
    uint64_t due_ms = idle_ms < transfer->deadline_ms ? idle_ms : transfer->deadline_ms;
    return due_ms < transfer->linger_until_ms ? due_ms : transfer->linger_until_ms;
}

/* A body on its way out is a sign of life too. */
static void note_upload(struct transfer *transfer, uint64_t now_ms)
{
    curl_off_t uploaded = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
    if (uploaded != transfer->uploaded)
        transfer->idle_since_ms = now_ms;
    transfer->uploaded = uploaded;
}

static void check_time(struct transfer *transfer, uint64_t now_ms)
{
    const struct bounds *bounds = &transfer->request->bounds;
    if (transfer->easy == NULL) {
        if (now_ms >= transfer->again_ms)
            begin_try(transfer);
        return;
    }
    note_upload(transfer, now_ms);
    if (now_ms < due_of(transfer))
        return;
    if (transfer->linger_until_ms <= now_ms) {
        succeed_or_fail(transfer);
        return;
    }
    if (now_ms >= transfer->deadline_ms)
        failure_set(&transfer->failure, MODEL_TIMEOUT, "the answer took longer than %lld ms",
                    (long long)bounds->total_ms);
    else
        failure_set(&transfer->failure, MODEL_TIMEOUT, "the provider sent nothing for %lld ms",
                    (long long)bounds->idle_ms);
    transfer_fail(transfer);
}

/* -- all of them ------------------------------------------------------------------------------- */

struct transfers *transfers_new(struct kg_buf *lines, struct kg_err *err)
{
    CURLM *multi = fetch_multi_new(err);
    if (multi == NULL)
        return NULL;
    struct transfers *transfers = kg_alloc(sizeof(*transfers));
    transfers->multi = multi;
    transfers->lines = lines;
    return transfers;
}

void transfers_free(struct transfers *transfers)
{
    if (transfers == NULL)
        return;
    while (transfers->first != NULL)
        transfer_free(transfers->first);
    fetch_multi_free(transfers->multi);
    free(transfers);
}

void transfers_start(struct transfers *transfers, struct request *request)
{
    struct transfer *transfer = kg_alloc(sizeof(*transfer));
    transfer->all = transfers;
    transfer->request = request;
    transfer->deadline_ms = kg_monotonic_ms() + (uint64_t)request->bounds.total_ms;
    transfer->next = transfers->first;
    transfers->first = transfer;
    begin_try(transfer);
}

void transfers_cancel(struct transfers *transfers, int64_t id)
{
    struct transfer *transfer = transfers->first;
    while (transfer != NULL && transfer->request->id != id)
        transfer = transfer->next;
    if (transfer == NULL)
        return; /* it is over already */
    struct failure failure = {0};
    failure_set(&failure, MODEL_CANCELLED, "the request was cancelled");
    answer_put_failure(transfers->lines, id, &failure);
    transfer_free(transfer);
}

static int transfer_wait_ms(const struct transfers *transfers)
{
    uint64_t now_ms = kg_monotonic_ms(), due_ms = NEVER;
    for (const struct transfer *at = transfers->first; at != NULL; at = at->next)
        if (due_of(at) < due_ms)
            due_ms = due_of(at);
    uint64_t wait = due_ms > now_ms ? due_ms - now_ms : 0;
    return wait < INT32_MAX ? (int)wait : INT32_MAX;
}

bool transfers_turn(struct transfers *transfers, int fd)
{
    bool is_readable =
        fetch_turn(transfers->multi, fd, transfer_wait_ms(transfers), on_transfer_done);
    uint64_t now_ms = kg_monotonic_ms();
    for (struct transfer *at = transfers->first, *next; at != NULL; at = next) {
        next = at->next;
        check_time(at, now_ms);
    }
    return is_readable;
}
