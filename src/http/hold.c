/*
 * Requests that wait before they are handled. What changes something waits while the audit log is
 * behind: a slow disk slows callers, and refuses none. What is about projects and sessions waits
 * until the projects of the last run were read, which have no agents before.
 */
#include "http/internal.h"

#include <stdlib.h>

#define READ_MS 10000 /* for a project whose folder does not answer */

struct held {
    struct http_request *request;
    struct audit_waiter audit;
    struct kg_wait reading;
    struct loop_timer timer;
};

static struct http_request *hold_let_go(struct held *held)
{
    struct http_request *request = held->request;
    struct host *host = http_host(request);
    audit_unwait(host_audit(host), &held->audit);
    kg_wait_withdraw(&held->reading);
    loop_timer_stop(host_loop(host), &held->timer);
    http_on_gone(request, NULL, NULL);
    free(held);
    return request;
}

/* It may have to wait for the other. */
static void hold_look_again(struct held *held)
{
    struct http_request *request = hold_let_go(held);
    if (!http_hold(request))
        http_handle(request);
}

static void hold_on_audit_ready(struct audit_waiter *waiter)
{
    hold_look_again(KG_CONTAINER(waiter, struct held, audit));
}

static void hold_on_read(struct kg_wait *wait, const struct kg_err *err_or_null)
{
    (void)err_or_null;
    hold_look_again(KG_CONTAINER(wait, struct held, reading));
}

static void hold_on_late(struct loop_timer *timer)
{
    struct http_request *request = hold_let_go(KG_CONTAINER(timer, struct held, timer));
    http_handle(request);
}

static void hold_on_gone(void *data)
{
    struct http_request *request = hold_let_go(data);
    http_reply(request, kg_error_row(KG_E_CANCELLED)->http_status, KG_STR("{}"));
}

static bool waits_for_audit(const struct http_request *request)
{
    const struct http_route *route = request->route;
    return !route->at_once && strcmp(route->method, "GET") != 0 &&
           audit_is_behind(host_audit(http_host(request)));
}

static bool waits_for_projects(const struct http_request *request)
{
    struct kg_str pattern = kg_str(request->route->pattern);
    struct host *host = http_host(request);
    return (kg_str_starts(pattern, "/api/v1/projects") ||
            kg_str_starts(pattern, "/api/v1/sessions") || kg_str_starts(pattern, "/mcp")) &&
           !host_is_stopping(host) && !projects_are_read(host);
}

bool http_hold(struct http_request *request)
{
    struct host *host = http_host(request);
    if (host == NULL)
        return false;
    bool audit = waits_for_audit(request), projects = !audit && waits_for_projects(request);
    if (!audit && !projects)
        return false;
    struct held *held = kg_alloc(sizeof(*held));
    held->request = request;
    http_on_gone(request, hold_on_gone, held);
    if (audit) {
        held->audit.on_ready = hold_on_audit_ready;
        audit_wait_ready(host_audit(host), &held->audit);
    } else {
        projects_when_read(host, &held->reading, hold_on_read);
        loop_timer_start(host_loop(host), &held->timer, READ_MS, hold_on_late);
    }
    return true;
}
