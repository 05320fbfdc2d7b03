/*
 * One request of the daemon, read and turned into what is sent: address, headers, body. The tree of
 * the request goes as soon as the body is there. Its key is in the headers and in the list of
 * secrets, and goes nowhere else.
 */
#include "model/worker/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

/* Each bound: its name, what stands in for it, the most that can be asked for. */
static const struct {
    const char *name;
    size_t offset;
    int64_t usual, min, max;
} bound_rows[] = {
#define BOUND(name, usual, min, max)                                                               \
    {                                                                                              \
#name, offsetof(struct bounds, name), usual, min, max                                      \
    }
    BOUND(connect_ms, 10000, 1, 86400000),
    BOUND(idle_ms, 120000, 1, 86400000),
    BOUND(total_ms, 600000, 1, 86400000),
    BOUND(retries, 2, 0, 10),
    BOUND(answer_bytes, INT64_C(32) << 20, 1, INT64_C(256) << 20),
    BOUND(event_bytes, INT64_C(1) << 20, 1, INT64_C(8) << 20),
    BOUND(tool_calls, 128, 1, 1024),
    BOUND(argument_bytes, INT64_C(1) << 20, 1, INT64_C(8) << 20),
#undef BOUND
};

static int read_bounds(const struct kg_node *limits, struct bounds *bounds, struct failure *failure)
{
    for (size_t i = 0; i < KG_COUNT(bound_rows); i++) {
        const struct kg_node *node = kg_node_get(limits, bound_rows[i].name);
        int64_t value = bound_rows[i].usual;
        if (node != NULL &&
            (!kg_node_int(node, &value) || value < bound_rows[i].min || value > bound_rows[i].max))
            return failure_set(failure, MODEL_INVALID, "the request: limits.%s is out of range",
                               bound_rows[i].name);
        memcpy((char *)bounds + bound_rows[i].offset, &value, sizeof(value));
    }
    return 0;
}

static int model_request_find_dialect(struct kg_str kind, const struct dialect **ret_dialect,
                                      struct failure *failure)
{
    static const struct dialect *const dialects[] = {&dialect_openai, &dialect_anthropic,
                                                     &dialect_demo};
    for (size_t i = 0; i < KG_COUNT(dialects); i++) {
        if (!kg_str_is(kind, dialects[i]->name))
            continue;
        *ret_dialect = dialects[i];
        return 0;
    }
    return failure_set(failure, MODEL_INVALID,
                       "the request: its kind is openai, anthropic or demo");
}

/* -- headers ----------------------------------------------------------------------------------- */

/* What would end a header, and begin another. */
static bool model_request_has_control(struct kg_str text)
{
    for (size_t i = 0; i < text.length; i++)
        if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7F)
            return true;
    return false;
}

static bool has_header(char *const *headers, const char *header)
{
    size_t name = strcspn(header, ":") + 1;
    for (; *headers != NULL; headers++)
        if (strncasecmp(*headers, header, name) == 0)
            return true;
    return false;
}

/* Unless the operator has one of that name. */
static void model_request_add_own(struct request *request, char *header)
{
    if (has_header(request->headers, header))
        free(header);
    else
        kg_list_add(&request->headers, header);
}

static int add_given(struct request *request, const struct kg_node *headers,
                     struct failure *failure)
{
    for (uint32_t i = 0; headers != NULL && i < headers->count; i++) {
        const struct kg_member *member = &headers->members[i];
        if (member->value.type != KG_STRING || member->key.length == 0 ||
            model_request_has_control(member->key) || model_request_has_control(member->value.text))
            return failure_set(failure, MODEL_INVALID, "the request: headers are texts of a line");
        kg_list_add(&request->headers, kg_format("%.*s: %.*s", KG_STR_ARG(member->key),
                                                 KG_STR_ARG(member->value.text)));
        kg_list_add(&request->secrets, kg_str_dup(member->value.text));
    }
    return 0;
}

static int model_request_make_headers(struct request *request, const struct kg_node *params,
                                      struct failure *failure)
{
    const struct kg_node *headers = kg_node_get(params, "headers");
    struct kg_str key = kg_node_text(params, "key");
    if (model_request_has_control(key) || (headers != NULL && headers->type != KG_OBJECT))
        return failure_set(failure, MODEL_INVALID, "the request: headers are texts of a line");
    if (add_given(request, headers, failure) < 0)
        return -EINVAL;
    if (key.length > 0 && !request->dialect->is_local) {
        model_request_add_own(request,
                              kg_format("%s%.*s", request->dialect->key_header, KG_STR_ARG(key)));
        kg_list_add(&request->secrets, kg_str_dup(key));
    }
    if (request->dialect->own_header != NULL)
        model_request_add_own(request, kg_strdup(request->dialect->own_header));
    model_request_add_own(request, kg_strdup("Content-Type: application/json"));
    model_request_add_own(request, kg_strdup("Accept: text/event-stream"));
    kg_list_add(&request->headers, kg_strdup("Expect:")); /* nothing to wait for */
    return 0;
}

/* -- the whole --------------------------------------------------------------------------------- */

/* A base that ends in "/v1" has the start of "/v1/messages" already. */
static int model_request_make_url(struct request *request, struct kg_str base,
                                  struct failure *failure)
{
    const char *path = request->dialect->path;
    if (request->dialect->is_local)
        return 0;
    if (!kg_str_starts(base, "https://") && !kg_str_starts(base, "http://"))
        return failure_set(failure, MODEL_INVALID, "the request: its url is not of http or https");
    if (model_request_has_control(base))
        return failure_set(failure, MODEL_INVALID, "the request: its url is not one line of text");
    if (kg_str_starts(kg_str(path), "/v1/") && kg_str_ends(base, "/v1"))
        path += strlen("/v1");
    request->url = kg_format("%.*s%s", KG_STR_ARG(base), path);
    return 0;
}

static int model_request_fill(struct request *request, const struct kg_node *params,
                              struct failure *failure)
{
    struct neutral neutral;
    if (params->type != KG_OBJECT)
        return failure_set(failure, MODEL_INVALID, "the request: it is not an object");
    if (model_request_find_dialect(kg_node_text(params, "kind"), &request->dialect, failure) < 0 ||
        read_bounds(kg_node_get(params, "limits"), &request->bounds, failure) < 0 ||
        model_request_make_url(request, kg_node_text(params, "url"), failure) < 0 ||
        model_request_make_headers(request, params, failure) < 0 ||
        neutral_read(params, &neutral, failure) < 0)
        return -EINVAL;
    request->dialect->write_body(&neutral, &request->body);
    return 0;
}

struct request *request_new(int64_t id, struct kg_str params, struct failure *failure)
{
    struct request *request = kg_alloc(sizeof(*request));
    request->id = id;
    request->headers = kg_list_new(0);
    request->secrets = kg_list_new(0);
    struct kg_err err = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(params, &err);
    int result = doc != NULL ? model_request_fill(request, doc->root, failure)
                             : failure_set(failure, MODEL_INVALID, "the request: %s", err.message);
    if (result == 0)
        return request;
    request_free(request);
    return NULL;
}

void request_free(struct request *request)
{
    if (request == NULL)
        return;
    free(request->url);
    kg_list_free(request->headers);
    kg_list_free(request->secrets);
    kg_buf_free(&request->body);
    free(request);
}
