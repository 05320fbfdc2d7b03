/*
 * Pings a running plugin at its interval, if its dialect has a word for that; so many failures in a
 * row end it. The pings of many are spread over the interval, though all of them were started
 * together.
 */
#include "supervisor/internal.h"

/* Pings of long intervals are due only at multiples of this, so that those that are close share one
 * waking up. The wheel of timers wakes for its own slots, of which this is a multiple. */
#define SLOT_MS     256
#define SLOTS_LEAST 8 /* in an interval that is taken for long */

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

/*
 * Whether the plugin may have missed it because it waited for an answer of ours. As with calls,
 * that excuses it for so long in sum and no longer.
 */
static bool is_excused(const struct instance *instance)
{
    uint64_t stood_ms = peer_stood_ms(instance->peer);
    return stood_ms > instance->ping_stood_ms &&
           stood_ms - instance->pong_stood_ms <= instance->supervisor->limits.wire.call_wait_ms;
}

static void on_pong(void *data, enum peer_outcome outcome, struct kg_str payload)
{
    struct instance *instance = data;
    instance->ping_in_flight = false;
    const char *(*check)(struct kg_str result) = instance->talk.dialect->check_pong;
    const char *problem = NULL;
    switch (outcome) {
    case PEER_RESULT:
        if (check != NULL && (problem = check(payload)) != NULL)
            health_failed(instance, problem);
        else
            instance->health_failures = 0;
        break;
    case PEER_ERROR:
        health_failed(instance, "the answer is an error");
        break;
    case PEER_TIMEOUT:
    case PEER_EXPIRED:
        if (is_excused(instance))
            return;
        health_failed(instance, "no answer in time");
        break;
    case PEER_GONE:
        return;
    }
    instance->pong_stood_ms = peer_stood_ms(instance->peer);
}

static void on_health_due(struct loop_timer *timer);

static void ping_after(struct instance *instance, uint64_t delay_ms)
{
    struct loop *loop = instance->supervisor->loop;
    if (instance->times.health_interval_ms >= (uint64_t)SLOT_MS * SLOTS_LEAST)
        delay_ms -= loop_due_ms(delay_ms) % SLOT_MS;
    loop_timer_start(loop, &instance->health_timer, delay_ms, on_health_due);
}

static void on_health_due(struct loop_timer *timer)
{
    struct instance *instance = KG_CONTAINER(timer, struct instance, health_timer);
    ping_after(instance, instance->times.health_interval_ms);
    if (instance->ping_in_flight)
        return;
    static const struct kg_str params = {"{}", 2};
    struct kg_err err;
    struct peer_call ping = {
        .method = kg_str(instance->talk.dialect->ping),
        .params = &params,
        .params_count = 1,
        .caller_timeout_ms = instance->supervisor->limits.ping_timeout_ms,
        .on_done = on_pong,
        .data = instance,
    };
    instance->ping_in_flight = true;
    instance->ping_stood_ms = peer_stood_ms(instance->peer);
    if (peer_call(instance->peer, &ping, NULL, &err) == 0)
        return;
    instance->ping_in_flight = false;
    if (err.code !=
        KG_E_BUSY) /* a full queue is not an answer; the calls in it have their deadlines */
        health_failed(instance, err.message);
}

/*
 * The first ping comes half an interval after the start, or up to a whole one later, at another
 * time for each plugin. Multiples of the golden ratio, here as a fraction of 2^32, lie evenly for
 * any number of them.
 */
static uint64_t first_delay_ms(const struct instance *instance)
{
    uint32_t part = ++instance->supervisor->health_turn * UINT32_C(2654435769);
    uint64_t interval_ms = instance->times.health_interval_ms;
    return interval_ms / 2 + ((interval_ms * part) >> 32);
}

void health_begin(struct instance *instance)
{
    instance->health_failures = 0;
    instance->ping_in_flight = false;
    instance->pong_stood_ms = 0;
    if (instance->talk.pings)
        ping_after(instance, first_delay_ms(instance));
}

void health_end(struct instance *instance)
{
    loop_timer_stop(instance->supervisor->loop, &instance->health_timer);
}
