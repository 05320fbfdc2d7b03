/* What the daemon itself asks outside, and how that does: for doctor, and for whoever wonders. */
#include "http/internal.h"

static void put_bucket(struct kg_json_writer *json, const struct objects_check *check,
                       const char *bucket)
{
    kg_json_begin(json, '{');
    kg_json_named_text(json, "bucket", bucket);
    kg_json_named_bool(json, "reached", check->reached);
    kg_json_named_bool(json, "may_write", check->may_write);
    kg_json_named_bool(json, "may_read", check->may_read);
    kg_json_named_bool(json, "may_remove", check->may_remove);
    kg_json_named_int(json, "clock_ms", check->clock_ms);
    kg_json_named_text(json, "problem", check->problem);
    kg_json_named_text(json, "hint", check->hint);
    kg_json_end(json, '}');
}

static void services_reply(struct http_request *request, const struct objects_check *check_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    const struct forward *forward = host_forward(http_host(request));
    kg_json_begin(&json, '{');
    kg_json_key(&json, "audit_forward");
    if (forward != NULL) {
        const struct forward_facts facts = forward_facts(forward);
        forward_facts_json(&facts, &json);
    } else {
        kg_json_null(&json);
    }
    kg_json_key(&json, "bucket");
    if (check_or_null != NULL)
        put_bucket(&json, check_or_null, host_config(http_host(request))->cluster_bucket);
    else
        kg_json_null(&json);
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

static void on_bucket_checked(void *data, const struct objects_check *check)
{
    services_reply(data, check);
}

void http_handle_services(struct http_request *request)
{
    struct objects *objects = catalog_objects(http_server_of(request)->catalog);
    if (objects_facts(objects).bucket != NULL)
        objects_check(objects, on_bucket_checked, request);
    else
        services_reply(request, NULL);
}
