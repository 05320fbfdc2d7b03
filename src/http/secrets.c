/* Secrets over HTTP: they can be set, listed and removed. No answer has a value in it. */
#include "http/internal.h"

static void http_secrets_put_missing(struct kg_str name, struct kg_err *err)
{
    kg_fail(err, KG_E_NOT_FOUND, "there is no secret %.*s", KG_STR_CUT(name, KG_CUT_NAME));
}

void http_handle_secrets(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    secret_values_json(host_secrets(http_host(request)), &body);
    http_reply(request, 200, kg_buf_view(&body));
}

void http_handle_secret(struct http_request *request)
{
    struct kg_str name = http_path_parameter(request, "secret");
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    struct secret_fact fact;
    struct kg_err err = {0};
    if (!secret_values_find(host_secrets(http_host(request)), name, &fact)) {
        http_secrets_put_missing(name, &err);
        http_reply_error(request, &err);
        return;
    }
    secret_fact_json(&fact, &json);
    http_reply(request, 200, kg_buf_view(&body));
}

static void on_set(void *data, const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        http_reply_error(data, err_or_null);
    else
        http_handle_secret(data);
}

void http_handle_secret_set(struct http_request *request)
{
    struct kg_str name = http_path_parameter(request, "secret");
    struct kg_str value = kg_node_text(http_body_tree(request), "value");
    struct kg_err err = {0};
    if (secret_check(name, value, &err) < 0)
        http_reply_error(request, &err);
    else
        host_secret_set(http_host(request), name, value, http_operator(request), on_set, request);
}

static void http_secrets_on_removed(void *data, const struct kg_err *err_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_str(&json, "name", http_path_parameter(data, "secret"));
    kg_json_end(&json, '}');
    http_on_answer(data, kg_buf_view(&body), err_or_null);
}

void http_handle_secret_remove(struct http_request *request)
{
    host_secret_remove(http_host(request), http_path_parameter(request, "secret"),
                       http_query_flag(request, "force"), http_operator(request),
                       http_secrets_on_removed, request);
}

static void http_secrets_on_rotated(void *data, const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        http_reply_error(data, err_or_null);
    else
        http_handle_secrets(data);
}

void http_handle_secrets_rotate(struct http_request *request)
{
    host_secret_rotate(http_host(request), http_operator(request), http_secrets_on_rotated,
                       request);
}
