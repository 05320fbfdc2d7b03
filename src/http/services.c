/* What the daemon itself asks outside, and how that does: for doctor, and for who wonders. */
#include "http/internal.h"

void http_handle_services(struct http_request *request)
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
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}
