/*
 * A plugin that hits its limits is noticed, told of and, where the kernel does not do it, ended.
 * Without groups of the kernel each process has a limit of its own, and many small ones have none:
 * so their memory is summed now and then, with that of the files in /tmp, of which nobody else
 * bounds the number; and a cage that is past its limit goes as a whole.
 */
#include "supervisor/internal.h"

#include <signal.h>

#define MIB(bytes) ((unsigned long long)((bytes) >> 20))

static void report_memory(struct instance *instance)
{
    uint32_t killed = instance->report.hits[CAGE_LIMIT_MEMORY];
    uint64_t limit = instance->report.limits.memory_bytes;
    kg_log_about(KG_WARN, instance->name,
                 "out of memory: %u of its processes were killed at its limit of %llu MiB", killed,
                 MIB(limit));
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_OUT_OF_MEMORY, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_INT((int64_t)limit), AUDIT_V_INT(killed));
}

static void report_processes(struct instance *instance)
{
    uint32_t refused = instance->report.hits[CAGE_LIMIT_PROCESSES];
    unsigned limit = instance->report.limits.processes_max;
    kg_log_about(KG_WARN, instance->name, "too many processes: %u were refused at its limit of %u",
                 refused, limit);
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_PROCESS_LIMIT, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_INT(limit), AUDIT_V_INT(refused));
}

void limits_report(struct instance *instance, enum cage_limit limit, uint32_t hits)
{
    static void (*const reports[])(struct instance * instance) = {
        [CAGE_LIMIT_MEMORY] = report_memory,
        [CAGE_LIMIT_PROCESSES] = report_processes,
    };
    if (limit >= KG_COUNT(reports) || hits <= instance->report.hits[limit])
        return;
    instance->report.hits[limit] = hits;
    reports[limit](instance);
}

/* -- the watchdog ------------------------------------------------------------------------------ */

static void end_for_memory(struct instance *instance, uint64_t bytes)
{
    uint64_t limit = instance->report.limits.memory_bytes;
    audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_OUT_OF_MEMORY, KG_STR_NULL,
               AUDIT_V_TEXT(instance->name), AUDIT_V_INT((int64_t)limit), AUDIT_V_INT(1));
    instance_end(instance, EXIT_MEMORY, ENDING_KILL, ON_CRASH,
                 "kaged ended it: its processes and files in memory used %llu MiB, its limit is "
                 "%llu MiB",
                 MIB(bytes), MIB(limit));
    cage_signal(instance->child, SIGKILL); /* also one that is on its way out */
}

static void on_look_due(struct loop_timer *timer)
{
    struct instance *instance = KG_CONTAINER(timer, struct instance, watchdog_timer);
    uint64_t bytes = cage_child_memory(instance->child);
    if (bytes > instance->report.limits.memory_bytes)
        end_for_memory(instance, bytes);
    else
        loop_timer_start(instance->supervisor->loop, timer,
                         instance->supervisor->limits.watchdog_interval_ms, on_look_due);
}

void watchdog_begin(struct instance *instance)
{
    struct supervisor *supervisor = instance->supervisor;
    if (instance->report.limits.memory_bytes != 0 &&
        cage_spawner_limits(supervisor->spawner)->mode == CAGE_LIMITS_NONE)
        loop_timer_start(supervisor->loop, &instance->watchdog_timer,
                         supervisor->limits.watchdog_interval_ms, on_look_due);
}

void watchdog_end(struct instance *instance)
{
    loop_timer_stop(instance->supervisor->loop, &instance->watchdog_timer);
}
