/*
 * What an operator looks at first, in one answer: a page that is opened, and that asks again every
 * two seconds, waits for one request.
 */
#include "http/internal.h"

static void overview_put_projects(struct kg_json_writer *json, const struct http_request *request)
{
    kg_json_named_begin(json, "projects", '[');
    if (http_auth_allows(request, "projects:read"))
        http_put_projects(json, http_host(request));
    kg_json_end(json, ']');
}

static void add_histogram(struct host_histogram *sum, const struct host_histogram *one)
{
    for (size_t i = 0; i < KG_COUNT(sum->counts); i++)
        sum->counts[i] += one->counts[i];
}

/* Of all calls, and of those of the last minutes. */
static void overview_put_calls(struct kg_json_writer *json, struct host *host)
{
    struct host_histogram latency = {0};
    struct host_course_slot slots[HOST_COURSE_SLOTS] = {0};
    uint64_t now_ns = loop_now_ns(host_loop(host));
    size_t count;
    kg_auto(kg_free) struct host_named *names = host_names(host, &count);
    for (size_t i = 0; i < count; i++) {
        const struct host_usage *usage = host_status(names[i]).usage;
        add_histogram(&latency, &usage->latency);
        host_course_sum(usage->course, now_ns, slots);
    }
    kg_json_named_int(json, "p50_us", (int64_t)host_histogram_quantile_us(&latency, 50));
    kg_json_named_int(json, "p99_us", (int64_t)host_histogram_quantile_us(&latency, 99));
    http_put_course(json, now_ns, slots);
}

static void on_overview_measured(void *data)
{
    struct http_request *request = data;
    struct host *host = http_host(request);
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_key(&json, "status");
    http_put_status(&json, request);
    http_put_plugins(&json, host);
    http_put_consents(&json, host_consents(host), true);
    overview_put_projects(&json, request);
    overview_put_calls(&json, host);
    kg_json_named_int(&json, "refusals", (int64_t)host_refusals(host));
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

void http_handle_overview(struct http_request *request)
{
    host_measure_plugins(http_host(request), NULL, on_overview_measured, request);
}
