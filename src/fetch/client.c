/*
 * HTTP requests by kaged-fetch. A call ends exactly once: by its process, or by us if that did not
 * live to, unless its caller cancels it. What a process says is believed only as far as it fits.
 */
#include "fetch/fetch.h"

#include "base/base64.h"
#include "base/url.h"

#include <errno.h>
#include <stdlib.h>

#define LINE_BYTES   ((size_t)8 << 20) /* a body in base64, and all around it */
#define MEMORY_BYTES ((uint64_t)256 << 20)

struct fetch_call {
    struct helper_pool_call *asked;
    fetch_done_fn *on_done;
    void *data;
};

/* -- requests ---------------------------------------------------------------------------------- */

/* Nothing in it can begin a line of its own. */
static bool is_one_line(const char *text, size_t max)
{
    size_t length = strnlen(text, max + 1);
    if (length == 0 || length > max)
        return false;
    for (size_t i = 0; i < length; i++)
        if (((unsigned char)text[i] < 0x20 && text[i] != '\t') || text[i] == 0x7F)
            return false;
    return true;
}

static bool is_method(const char *method)
{
    size_t length = strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return length > 0 && length <= 16 && method[length] == '\0';
}

int fetch_check(const struct fetch_request *request, struct kg_err *err)
{
    kg_auto(kg_free) char *host = NULL;
    uint16_t port;
    if (!is_method(request->method))
        return kg_fail(err, KG_E_USAGE, "its method is not a word in capital letters");
    if (!is_one_line(request->url, FETCH_URL_BYTES) || strpbrk(request->url, " \t") != NULL ||
        !kg_url_host(request->url, &host, &port))
        return kg_fail(err, KG_E_USAGE, "its url does not lead to a host by http:// or https://");
    if (kg_list_count(request->headers) > FETCH_HEADERS_MAX)
        return kg_fail(err, KG_E_USAGE, "it has more than %d headers", FETCH_HEADERS_MAX);
    for (char *const *header = request->headers; *header != NULL; header++)
        if (!is_one_line(*header, FETCH_HEADER_BYTES) || strchr(*header, ':') == NULL)
            return kg_fail(err, KG_E_USAGE, "one of its headers is not a line \"Name: value\"");
    if (request->body.length > FETCH_BODY_BYTES)
        return kg_fail(err, KG_E_TOO_LARGE, "its body has %zu bytes; the limit is %zu",
                       request->body.length, FETCH_BODY_BYTES);
    return 0;
}

static void write_params(const struct fetch_request *request, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    size_t most =
        request->answer_max < FETCH_ANSWER_BYTES ? request->answer_max : FETCH_ANSWER_BYTES;
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "method", request->method);
    kg_json_named_text(&json, "url", request->url);
    kg_json_named_list(&json, "headers", request->headers);
    kg_json_named_bytes(&json, "body", request->body);
    kg_json_named_int(&json, "timeout_ms", (int64_t)request->timeout_ms);
    kg_json_named_int(&json, "answer_bytes", (int64_t)most);
    kg_json_end(&json, '}');
}

/* -- answers ----------------------------------------------------------------------------------- */

static void fetch_client_end_call(struct fetch_call *call, const struct fetch_answer *answer)
{
    fetch_done_fn *on_done = call->on_done;
    void *data = call->data;
    free(call);
    on_done(data, answer);
}

static void fetch_client_fail_call(struct fetch_call *call, const char *what, const char *why)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    kg_buf_text(&words, what);
    if (why[0] != '\0') {
        kg_buf_text(&words, ": ");
        kg_buf_escaped(&words, kg_str(why));
    }
    fetch_client_end_call(call, &(struct fetch_answer){.error = kg_buf_terminate(&words)});
}

static void fetch_client_read_result(struct fetch_call *call, struct kg_str payload)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(payload, NULL);
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    int64_t status = doc ? kg_node_number(doc->root, "status") : 0;
    struct kg_str type = doc ? kg_node_text(doc->root, "content_type") : KG_STR_NULL;
    if (status < 100 || status > 999 ||
        kg_node_bytes(doc->root, "body", FETCH_ANSWER_BYTES, &body, NULL) < 0) {
        helper_user_give_up(helper_pool_user(call->asked), "it sent an invalid answer");
        fetch_client_fail_call(call, "the fetching process sent an invalid answer", "");
        return;
    }
    const struct fetch_answer answer = {
        .status = (int)status,
        .body = kg_buf_view(&body),
        .content_type = type.length <= FETCH_TYPE_BYTES ? type : KG_STR_NULL,
        .truncated = kg_node_is_true(doc->root, "truncated"),
        .error = "",
    };
    fetch_client_end_call(call, &answer);
}

static void fetch_client_read_error(struct fetch_call *call, const struct helper_answer *answer)
{
    kg_auto(kg_buf_free) struct kg_buf said = {0};
    rpc_error_message(answer->payload, &said);
    fetch_client_fail_call(call, "it could not be reached",
                           answer->words[0] != '\0' ? answer->words : kg_buf_terminate(&said));
}

static void fetch_client_on_answer(void *data, const struct helper_answer *answer)
{
    struct fetch_call *call = data;
    switch (answer->outcome) {
    case HELPER_RESULT:
        fetch_client_read_result(call, answer->payload);
        break;
    case HELPER_ERROR:
        fetch_client_read_error(call, answer);
        break;
    case HELPER_REFUSED:
        fetch_client_fail_call(call, answer->words, "");
        break;
    case HELPER_UNBUILT:
        fetch_client_fail_call(call, "the fetching process could not be started", answer->words);
        break;
    case HELPER_ENDED:
        fetch_client_fail_call(call, "the fetching process ended before the answer came",
                               answer->words);
        break;
    case HELPER_LATE:
        fetch_client_fail_call(call, "no answer came in time", "");
        break;
    case HELPER_GONE:
        fetch_client_fail_call(call, "the daemon is stopping", "");
        break;
    }
}

/* -- asking ------------------------------------------------------------------------------------ */

/* Whatever failed, the gatekeeper may have refused it. */
static bool fetch_client_is_lost(struct kg_str error)
{
    (void)error;
    return true;
}

struct helper_pool *fetch_pool_new(const struct helper_pool_place *place)
{
    static const struct helper_pool_kind kind = {
        .program = "kaged-fetch",
        .label = "http",
        .memory_bytes = MEMORY_BYTES,
        .line_bytes = LINE_BYTES,
        .is_lost = fetch_client_is_lost,
    };
    return helper_pool_new(place, &kind);
}

static int fetch_client_check_room(const struct helper_pool *pool, struct kg_str whose,
                                   struct kg_err *err)
{
    if (!helper_pool_is_open(pool))
        return kg_fail(err, KG_E_STOPPING, "no requests can be sent now");
    if (!helper_pool_is_full(pool, whose))
        return 0;
    return kg_fail(err, KG_E_BUSY, "%u requests are already under way",
                   helper_pool_calls(pool, whose));
}

int fetch_ask(struct helper_pool *pool, const struct fetch_request *request, fetch_done_fn *on_done,
              void *data, struct fetch_call **ret_call, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    kg_auto(kg_free) char *host = NULL;
    struct helper_target target = {.whose = kg_str(request->whose), .host = "*"};
    if (fetch_check(request, err) < 0 || fetch_client_check_room(pool, target.whose, err) < 0)
        return -EINVAL;
    if (!request->is_public) {
        (void)kg_url_host(request->url, &host, &target.port); /* as it was checked */
        target.host = host;
    }
    write_params(request, &params);
    struct fetch_call *call = kg_alloc(sizeof(*call));
    *call = (struct fetch_call){.on_done = on_done, .data = data};
    const struct helper_request asked = {
        .method = "fetch",
        .params = kg_buf_view(&params),
        .timeout_ms = request->timeout_ms,
        .on_done = fetch_client_on_answer,
        .data = call,
    };
    int result = helper_pool_ask(pool, &target, &asked, &call->asked, err);
    if (result < 0)
        free(call);
    else
        *ret_call = call;
    return result;
}

void fetch_cancel(struct fetch_call *call)
{
    helper_pool_withdraw(call->asked);
    free(call);
}
