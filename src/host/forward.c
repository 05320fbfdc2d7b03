/* The audit log, sent on: what forward/ needs to know of the configuration, and when it may. */
#include "host/internal.h"

#include <errno.h>

static unsigned forward_keep(void *data)
{
    const struct host *host = data;
    return (unsigned)host->config->audit_keep;
}

static char **forward_headers(void *data, struct kg_err *err)
{
    const struct host *host = data;
    const struct local_services *services = &host->local->services;
    const struct kg_node *own = services->audit_headers;
    size_t count = own != NULL ? own->count : 0, at = 0;
    if (services->audit_problem != NULL) {
        *err = *services->audit_problem;
        return NULL;
    }
    char **headers = kg_list_new(count + 1);
    headers[at++] = kg_strdup("Content-Type: application/x-ndjson");
    for (size_t i = 0; i < count; i++)
        headers[at++] = kg_format("%.*s: %.*s", KG_STR_ARG(own->members[i].key),
                                  KG_STR_ARG(own->members[i].value.text));
    return headers;
}

static void on_forward_idle(void *data)
{
    host_look_for_stop(data);
}

int host_forward_open(struct host *host, struct kg_err *err)
{
    const struct forward_parts parts = {
        .loop = host->loop,
        .audit = host->audit,
        .place = {host->loop, host->supervisor.spawner, host->gate},
        .facts = host->facts,
        .audit_dir = host->paths->audit_dir,
        .position_file = host->paths->audit_forward,
        .target = host->config->audit_forward,
        .keep = forward_keep,
        .headers = forward_headers,
        .on_idle = on_forward_idle,
        .data = host,
    };
    if (parts.target[0] == '\0')
        return 0;
    host->forward = forward_open(&parts, err);
    return host->forward != NULL ? 0 : -EINVAL;
}

const struct forward *host_forward(const struct host *host)
{
    return host->forward;
}
