/*
 * What the walls of a running plugin's cage tell: its sockets go to the gate, and what the gate
 * lets through or refuses goes to the audit log, as does what the kernel says that it refused.
 */
#include "supervisor/internal.h"

#define GATE_TEXT(text) ((text)[0] != '\0' ? AUDIT_V_TEXT(text) : AUDIT_V_NULL)
#define GATE_PORT(port) ((port) != 0 ? AUDIT_V_INT(port) : AUDIT_V_NULL)

static void log_denied(const struct instance *instance, const struct gate_event *event)
{
    if (event->port != 0)
        kg_log_about(KG_WARN, instance->name, "refused to connect to %s port %u: %s", event->host,
                     event->port, event->reason);
    else
        kg_log_about(KG_WARN, instance->name, "refused to look up %s: %s", event->host,
                     event->reason);
}

static void on_event(void *data, const struct gate_event *event)
{
    const struct instance *instance = data;
    struct audit *audit = instance->supervisor->audit;
    switch (event->kind) {
    case GATE_CONNECTED:
        audit_emit(audit, AUDIT_PLUGIN_NET_CONNECTED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
                   AUDIT_V_TEXT(event->host), GATE_PORT(event->port), GATE_TEXT(event->address));
        return;
    case GATE_ENDED:
        audit_emit(audit, AUDIT_PLUGIN_NET_ALLOWED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
                   AUDIT_V_TEXT(event->host), GATE_PORT(event->port), GATE_TEXT(event->address),
                   AUDIT_V_INT((int64_t)event->bytes_out), AUDIT_V_INT((int64_t)event->bytes_in),
                   AUDIT_V_INT((int64_t)event->duration_ms));
        return;
    case GATE_DENIED:
        log_denied(instance, event);
        audit_emit(audit, AUDIT_PLUGIN_NET_DENIED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
                   AUDIT_V_TEXT(event->host), GATE_PORT(event->port), GATE_TEXT(event->address),
                   AUDIT_V_TEXT(event->reason), GATE_TEXT(event->declare),
                   AUDIT_V_INT(event->suppressed));
        return;
    case GATE_FAILED:
        audit_emit(audit, AUDIT_PLUGIN_NET_FAILED, KG_STR_NULL, AUDIT_V_TEXT(instance->name),
                   AUDIT_V_TEXT(event->host), GATE_PORT(event->port), GATE_TEXT(event->address),
                   AUDIT_V_TEXT(event->reason), AUDIT_V_INT(event->suppressed));
        return;
    }
}

void walls_begin(struct instance *instance, const struct cage_plan *plan)
{
    if (cage_plan_has_network(plan))
        instance->network = gate_cage_new(instance->supervisor->gate, plan, on_event, instance);
}

void walls_take(void *data, uint32_t index, int fd)
{
    struct instance *instance = data;
    if (instance->network != NULL)
        gate_cage_take(instance->network, index, fd);
    else
        kg_close(&fd);
}

void walls_end(struct instance *instance)
{
    if (instance->network != NULL)
        gate_cage_free(instance->network);
    instance->network = NULL;
}

void walls_denied(void *data, enum cage_access access, const char *path)
{
    static const char *const names[] = {
        [CAGE_ACCESS_EXECUTE] = "execute",
        [CAGE_ACCESS_WRITE] = "write",
        [CAGE_ACCESS_PROCESS] = "reach",
    };
    struct instance *instance = data;
    uint32_t suppressed;
    if (!instance_may_complain(instance, &suppressed))
        return;
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_ACCESS_DENIED, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_TEXT(names[access]), AUDIT_V_TEXT(path),
               AUDIT_V_TEXT("none of its capabilities allows it"), AUDIT_V_INT(suppressed));
}
