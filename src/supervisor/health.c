/* Pings a running plugin at its interval; so many failures in a row end it. */
#include "supervisor/internal.h"

static void health_failed(struct instance *instance, const char *reason)
{
    struct supervisor *supervisor = instance->supervisor;
    instance->health_failures++;
    kg_log_about(KG_WARN, instance->name, "health check: %s (%u of %u)", reason,
                 instance->health_failures, supervisor->limits.health_failures);
    audit_emit(supervisor->audit, AUDIT_PLUGIN_HEALTH_FAIL, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_INT(instance->health_failures),
               AUDIT_V_TEXT(reason));
    if (instance->health_failures >= supervisor->limits.health_failures)
        instance_end(instance, EXIT_HEALTH, ENDING_TERM, ON_CRASH,
                     "%u pings in a row failed, the "
                     "last one: %s",
                     instance->health_failures, reason);
}

static void on_pong(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct instance *instance = data;
    instance->ping_in_flight = false;
    struct kg_str status;
    switch (outcome) {
    case PEER_RESULT:
        if (kg_json_member(payload, "status", &status) && kg_str_is(status, "\"ok\""))
            instance->health_failures = 0;
        else
            health_failed(instance, "the answer is not {\"status\":\"ok\"}");
        break;
    case PEER_ERROR:
        health_failed(instance, "the answer is an error");
        break;
    case PEER_TIMEOUT:
    case PEER_EXPIRED:
        health_failed(instance, "no answer in time");
        break;
    case PEER_GONE:
        break;
    }
}

static void on_health_due(struct loop_timer *timer)
{
    struct instance *instance = KG_CONTAINER(timer, struct instance, health_timer);
    loop_timer_start(instance->supervisor->loop, timer, instance->times.health_interval_ms,
                     on_health_due);
    if (instance->ping_in_flight)
        return;
    static const struct kg_str params = {"{}", 2};
    struct kg_err err;
    struct peer_call ping = {
        .method = KG_STR("ping"),
        .params = &params,
        .params_count = 1,
        .caller_timeout_ms = instance->supervisor->limits.ping_timeout_ms,
        .on_done = on_pong,
        .data = instance,
    };
    instance->ping_in_flight = true;
    if (peer_call(instance->peer, &ping, NULL, &err) == 0)
        return;
    instance->ping_in_flight = false;
    if (err.code != KG_E_BUSY) /* a full queue is no answer; the calls in it have their deadlines */
        health_failed(instance, err.message);
}

void health_begin(struct instance *instance)
{
    instance->health_failures = 0;
    instance->ping_in_flight = false;
    loop_timer_start(instance->supervisor->loop, &instance->health_timer,
                     instance->times.health_interval_ms, on_health_due);
}

void health_end(struct instance *instance)
{
    loop_timer_stop(instance->supervisor->loop, &instance->health_timer);
}
