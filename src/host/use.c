/*
 * Processes that need not run all the time: those that serve one project or conversation, those for
 * nobody of a plugin that has such, and those of plugins that start at first use. They are started
 * when somebody needs them, and end when nothing of theirs was used for a while. A call that comes
 * before its process waits for it, for as long as a start and the call itself may take.
 */
#include "host/internal.h"

#include <stdlib.h>

/* -- whether it runs --------------------------------------------------------------------------- */

/* What its author works on shows itself at once, and a server whose tools nobody knows lists them.
 */
bool host_process_is_lazy(const struct host_process *process)
{
    const struct host_plugin *plugin = process->plugin;
    if (host_tools_are_unknown(plugin))
        return false;
    if (process->whom.kind != HOST_NOBODY)
        return true;
    if (plugin->dev != NULL)
        return false;
    return process->manifest->first_use ||
           host_plugin_serves(plugin, NULL, instance_config(process->instance)) != MANIFEST_SHARED;
}

static bool use_is_busy(const struct host_process *process);
static void end_idle(struct host_process *process, uint64_t idle_ms);

/* One more of the scripts will run. False: none of those that do can be spared for it. */
static bool use_make_room(const struct host *host)
{
    int64_t count = 0, most = host->config->scripts_processes_max;
    struct host_process *oldest = NULL;
    for (struct host_plugin *plugin = NULL; (plugin = host_script_after(host, plugin)) != NULL;)
        for (struct host_process *at = plugin->processes; at != NULL; at = at->next) {
            bool runs = at->standing == HOST_ENABLED && host_process_runs(at);
            count += runs;
            if (runs && !at->in_turn && !use_is_busy(at) &&
                (oldest == NULL || at->used_ns < oldest->used_ns))
                oldest = at;
        }
    if (count < most)
        return true;
    if (oldest == NULL)
        return false;
    kg_log_about(KG_WARN, oldest->name,
                 "ended, and its variables with it, since scripts.processes_max is %lld",
                 (long long)most);
    end_idle(oldest, (loop_now_ns(host->loop) - oldest->used_ns) / 1000000);
    return true;
}

void host_process_use(struct host_process *process)
{
    if (instance_talk(process->instance) != NULL) { /* as each call finds it but the first */
        process->in_use = true;
        return;
    }
    if (!host_process_is_allowed(process) || process->plugin->host->stopping)
        return;
    if (process->tier->joins_sessions && !host_process_runs(process) &&
        !use_make_room(process->plugin->host)) {
        kg_log_about(KG_WARN, process->name, "not started: scripts.processes_max are in use");
        return;
    }
    process->in_use = true;
    process->used_ns = loop_now_ns(process->plugin->host->loop);
    host_process_follow(process);
}

static uint64_t idle_after_ms(const struct host_process *process)
{
    int64_t declared_sec = process->manifest->idle_after_sec;
    return declared_sec > 0 ? (uint64_t)declared_sec * 1000
                            : (uint64_t)process->plugin->host->config->limits_idle_after_ms;
}

/* Whether it works for somebody. */
static bool use_is_busy(const struct host_process *process)
{
    const struct instance_facts facts = instance_facts(process->instance);
    return facts.in_flight > 0 || facts.debts > 0 || process->waiting != NULL;
}

/* And also: whether somebody may speak to it at any moment. */
static bool is_live(const struct host_process *process)
{
    const struct host *host = process->plugin->host;
    return use_is_busy(process) || process->subscribers != NULL ||
           process->standing != HOST_ENABLED ||
           process->plugin->package != NULL || /* as long as it is used */
           host->project_ops->hold(host->projects, process);
}

static void end_idle(struct host_process *process, uint64_t idle_ms)
{
    process->in_use = false;
    process->idle_since_ms = kg_wall_ms() - (int64_t)idle_ms;
    audit_emit(process->plugin->host->audit, AUDIT_PLUGIN_IDLE, KG_STR_NULL,
               AUDIT_V_TEXT(process->name), AUDIT_V_INT((int64_t)(idle_ms / 1000)));
    if (process->whom.kind == HOST_SESSION)
        host_process_leave(process); /* the conversation has another one when it goes on */
    else
        host_process_follow(process);
}

static void on_idle_look(struct loop_timer *timer)
{
    struct host_process *process = KG_CONTAINER(timer, struct host_process, idle_timer);
    struct loop *loop = process->plugin->host->loop;
    uint64_t after_ms = idle_after_ms(process);
    uint64_t idle_ms = (loop_now_ns(loop) - process->used_ns) / 1000000;
    if (instance_state(process->instance) != INSTANCE_RUNNING || !host_process_is_lazy(process) ||
        process->tier->joins_sessions)
        return;
    if (is_live(process))
        loop_timer_start(loop, timer, after_ms, on_idle_look);
    else if (idle_ms < after_ms)
        loop_timer_start(loop, timer, after_ms - idle_ms, on_idle_look);
    else
        end_idle(process, idle_ms);
}

/* -- calls that came before it ----------------------------------------------------------------- */

struct host_waiting {
    struct host_waiting *next; /* of the process */
    struct host_call *call;
    struct host_call_request request; /* its texts are those of the call, and the next */
    struct kg_buf params;
    uint64_t since_ms;
    struct loop_timer patience;
};

static void waiting_free(struct host_waiting *waiting)
{
    struct host_process *process = waiting->call->process;
    KG_UNLINK(process->waiting, waiting);
    loop_timer_stop(process->plugin->host->loop, &waiting->patience);
    kg_buf_free(&waiting->params);
    free(waiting);
}

static void use_refuse(struct host_waiting *waiting, const struct kg_err *err)
{
    struct host_call *call = waiting->call;
    const struct host_call_request request = waiting->request;
    const struct host_reply reply = {.error = *err};
    waiting_free(waiting);
    host_call_release(call);
    request.on_done(request.data, &reply);
}

/* The caller's own time went on meanwhile. */
static void use_send_waiting(struct host_waiting *waiting)
{
    struct host_call *call = waiting->call;
    uint64_t waited_ms = loop_now_ms(call->host->loop) - waiting->since_ms;
    struct host_call_request request = waiting->request;
    struct kg_err err;
    if (request.caller_timeout_ms > 0)
        request.caller_timeout_ms =
            request.caller_timeout_ms > waited_ms ? request.caller_timeout_ms - waited_ms : 1;
    if (host_call_send(call, &request, &err) < 0)
        use_refuse(waiting, &err);
    else
        waiting_free(waiting);
}

static void check_waiting(struct loop_task *task)
{
    struct host_process *process = KG_CONTAINER(task, struct host_process, wait_check);
    host_process_keep(process); /* an answered caller may do anything */
    while (process->waiting != NULL && process->instance != NULL &&
           !host_process_is_starting(process))
        use_send_waiting(process->waiting);
    host_process_drop(process);
}

static void use_on_patience_over(struct loop_timer *timer)
{
    struct host_waiting *waiting = KG_CONTAINER(timer, struct host_waiting, patience);
    const char *name = waiting->call->process->name;
    struct kg_err err;
    kg_fail(&err, KG_E_PLUGIN_TIMEOUT, "plugin %s: %s: it has not started in time", name,
            waiting->call->method);
    kg_hint(&err, "kaged plugin status %s says more", name);
    use_refuse(waiting, &err);
}

void host_wait(struct host_call *call, const struct host_call_request *request)
{
    struct host_process *process = call->process;
    struct host *host = call->host;
    struct host_waiting **last = &process->waiting;
    struct host_waiting *waiting = kg_alloc(sizeof(*waiting));
    uint64_t patience_ms = (uint64_t)host->config->limits_initialize_timeout_ms +
                           (uint64_t)host->config->limits_call_timeout_ms;
    while (*last != NULL)
        last = &(*last)->next;
    *last = waiting;
    waiting->call = call;
    waiting->request = *request;
    waiting->since_ms = loop_now_ms(host->loop);
    kg_buf_str(&waiting->params, request->params);
    kg_str_copy(request->method, call->method, sizeof(call->method));
    waiting->request.method = kg_str(call->method);
    waiting->request.params = kg_buf_view(&waiting->params);
    waiting->request.asker = call->asker;
    call->waiting = waiting;
    if (request->caller_timeout_ms > 0 && request->caller_timeout_ms < patience_ms)
        patience_ms = request->caller_timeout_ms;
    loop_timer_start(host->loop, &waiting->patience, patience_ms, use_on_patience_over);
}

void host_wait_cancel(struct host_call *call)
{
    waiting_free(call->waiting);
    host_call_release(call);
}

/* -- its life ---------------------------------------------------------------------------------- */

void host_use_moved(struct host_process *process)
{
    struct loop *loop = process->plugin->host->loop;
    if (process->instance == NULL)
        return;
    bool runs = instance_state(process->instance) == INSTANCE_RUNNING;
    process->wait_check.run = check_waiting;
    if (process->waiting != NULL)
        loop_defer(loop, &process->wait_check);
    if (!runs)
        loop_timer_stop(loop, &process->idle_timer);
    else if (!loop_timer_running(&process->idle_timer) && host_process_is_lazy(process))
        loop_timer_start(loop, &process->idle_timer, idle_after_ms(process), on_idle_look);
}

void host_use_look(struct host_process *process)
{
    if (loop_timer_running(&process->idle_timer))
        on_idle_look(&process->idle_timer);
}

void host_use_end(struct host_process *process)
{
    struct loop *loop = process->plugin->host->loop;
    loop_timer_stop(loop, &process->idle_timer);
    loop_undefer(loop, &process->wait_check);
    while (process->waiting != NULL) {
        struct kg_err err;
        kg_fail(&err, KG_E_PLUGIN_DOWN, "plugin %s: its process is gone", process->name);
        use_refuse(process->waiting, &err);
    }
}
