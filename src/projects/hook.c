/*
 * Lifecycle hooks, fired at the plugins of an agent. A plugin answers one hook at a time; the
 * deadline of each counts from its fire, so that a hung one costs those behind it no more than they
 * would have waited for their own. A hook never ends a plugin, and a round always ends.
 *
 *   fire -> round -> a call for each plugin -> that plugin's queue -> the one door -> answer
 *   the last answer of a round -> on_done
 */
#include "projects/internal.h"

#include <errno.h>
#include <stdlib.h>

/* What waits for one plugin may have as many bytes as so many lines of the longest sort. */
#define WAITING_LINES_MAX 8

/* One plugin is asked. Owned by its round; once nobody waits for that, by the queue. */
struct hook_call {
    struct projects_hook_round *round; /* NULL: nobody waits */
    struct project_hook_queue *queue;  /* NULL: it is in none */
    struct hook_call *next;            /* behind it in there */
    struct host *host;
    enum manifest_hook hook;
    struct host_asker *asker;
    char *plugin, *use; /* owned */
    bool designated;
    uint64_t timeout_ms;
    struct loop_timer deadline; /* while it is not sent */
    bool sent;
    bool has_result;
    struct kg_err error;
    struct host_hook_result result;
    struct kg_buf raw;
};

struct project_hook_queue {
    struct project_hook_queue *next; /* of the projects */
    struct host_process *process;
    const char *name;        /* of the process */
    struct hook_call *first; /* alone may be sent */
    size_t waiting_bytes;    /* of params that are not sent */
    struct loop_task pump;
};

struct projects_hook_round {
    struct host *host;
    enum manifest_hook hook;
    struct host_asker *asker;
    struct kg_buf params, designated_params; /* one copy for all plugins */
    struct kg_err problem;                   /* with them; KG_OK: none */
    char *designated;                        /* NULL: none */
    struct loop_task begin;
    struct hook_call **calls; /* owned, in the order of the project's file */
    size_t count, left;       /* to be answered */
    void (*on_done)(void *data, const struct projects_hook_answer *answers, size_t count);
    void *data;
};

/* -- ends -------------------------------------------------------------------------------------- */

static void hook_free_call(struct hook_call *call)
{
    loop_timer_stop(host_loop(call->host), &call->deadline);
    free(call->plugin);
    free(call->use);
    host_asker_unref(call->asker);
    host_hook_result_free(&call->result);
    kg_buf_free(&call->raw);
    free(call);
}

static void free_round(struct projects_hook_round *round)
{
    loop_undefer(host_loop(round->host), &round->begin);
    for (size_t i = 0; i < round->count; i++)
        if (round->calls[i] != NULL)
            hook_free_call(round->calls[i]);
    free(round->calls);
    host_asker_unref(round->asker);
    kg_buf_free(&round->params);
    kg_buf_free(&round->designated_params);
    free(round->designated);
    free(round);
}

static void end_round(struct projects_hook_round *round)
{
    struct projects_hook_answer *answers = kg_alloc_array(round->count + 1, sizeof(*answers));
    for (size_t i = 0; i < round->count; i++) {
        const struct hook_call *call = round->calls[i];
        answers[i] = (struct projects_hook_answer){
            .plugin = call->plugin,
            .use = call->use,
            .error = call->error,
            .result = &call->result,
            .raw = kg_buf_view(&call->raw),
        };
    }
    round->on_done(round->data, answers, round->count);
    free(answers);
    free_round(round);
}

static void hook_answer(struct hook_call *call)
{
    struct projects_hook_round *round = call->round;
    if (round == NULL)
        hook_free_call(call);
    else if (--round->left == 0)
        end_round(round);
}

/* -- the audit log ----------------------------------------------------------------------------- */

static void audit_fired(const struct host_call *sent)
{
    const struct hook_call *call = host_call_data(sent);
    host_asker_emit(call->asker, host_audit(call->host), AUDIT_PLUGIN_HOOK_FIRED,
                    AUDIT_V_TEXT(call->queue->name), AUDIT_V_TEXT(host_hook_row(call->hook)->name),
                    AUDIT_V_TEXT(call->asker->agent_path), AUDIT_V_TEXT(call->asker->session_id));
}

/* rpc_code: as the plugin gave it, or the row's. */
static void audit_problem(const struct hook_call *call, const char *plugin,
                          const struct kg_err *error, int64_t rpc_code)
{
    struct audit_value hook = AUDIT_V_TEXT(host_hook_row(call->hook)->name);
    if (error->code == KG_E_PLUGIN_TIMEOUT)
        host_asker_emit(call->asker, host_audit(call->host), AUDIT_PLUGIN_HOOK_TIMEOUT,
                        AUDIT_V_TEXT(plugin), hook, AUDIT_V_TEXT(call->asker->agent_path),
                        AUDIT_V_INT((int64_t)(call->timeout_ms + 999) / 1000));
    else
        host_asker_emit(call->asker, host_audit(call->host), AUDIT_PLUGIN_HOOK_FAILED,
                        AUDIT_V_TEXT(plugin), hook, AUDIT_V_TEXT(call->asker->agent_path),
                        AUDIT_V_INT(rpc_code), AUDIT_V_TEXT(error->message));
}

static void audit_ended(const struct host_call *sent, const struct host_reply *reply,
                        int64_t duration_ms)
{
    const struct hook_call *call = host_call_data(sent);
    const struct kg_err *error = &reply->error;
    if (error->code != KG_OK)
        audit_problem(call, call->queue->name, error,
                      reply->plugin_error.length > 0 ? rpc_error_code(reply->plugin_error)
                                                     : kg_error_row(error->code)->rpc_code);
    else
        host_asker_emit(call->asker, host_audit(call->host), AUDIT_PLUGIN_HOOK_RETURNED,
                        AUDIT_V_TEXT(call->queue->name),
                        AUDIT_V_TEXT(host_hook_row(call->hook)->name), AUDIT_V_INT(duration_ms),
                        AUDIT_V_BOOL(call->has_result));
}

/* -- one plugin's queue ------------------------------------------------------------------------ */

static struct kg_str params_of(const struct hook_call *call)
{
    const struct projects_hook_round *round = call->round;
    return kg_buf_view(call->designated ? &round->designated_params : &round->params);
}

static int hook_check_room(const struct project_hook_queue *queue, const struct hook_call *call,
                           struct kg_err *err)
{
    size_t most = (size_t)host_config(call->host)->limits_line_max_bytes * WAITING_LINES_MAX;
    if (queue->waiting_bytes + params_of(call).length <= most)
        return 0;
    return kg_fail(err, KG_E_BUSY, "plugin %s: hook %s: %zu bytes of hooks wait for it already",
                   call->plugin, host_hook_row(call->hook)->name, queue->waiting_bytes);
}

static void enter_queue(struct project_hook_queue *queue, struct hook_call *call)
{
    struct hook_call **last = &queue->first;
    while (*last != NULL)
        last = &(*last)->next;
    *last = call;
    call->queue = queue;
    queue->waiting_bytes += params_of(call).length;
    loop_defer(host_loop(call->host), &queue->pump);
}

static void leave_queue(struct project_hook_queue *queue, struct hook_call *call)
{
    KG_UNLINK(queue->first, call);
    call->queue = NULL;
    if (!call->sent)
        queue->waiting_bytes -= params_of(call).length;
    loop_defer(host_loop(call->host), &queue->pump);
}

/* It is in no queue, and will not be sent. */
static void hook_fail(struct hook_call *call, const char *plugin, const struct kg_err *err)
{
    call->error = *err;
    audit_problem(call, plugin, err, kg_error_row(err->code)->rpc_code);
    loop_timer_stop(host_loop(call->host), &call->deadline);
    hook_answer(call);
}

static void say_timeout(const struct hook_call *call, struct kg_err *err)
{
    kg_fail(err, KG_E_PLUGIN_TIMEOUT, "plugin %s: hook %s: no result within %llu ms", call->plugin,
            host_hook_row(call->hook)->name, (unsigned long long)call->timeout_ms);
}

static void hook_on_deadline(struct loop_timer *timer)
{
    struct hook_call *call = KG_CONTAINER(timer, struct hook_call, deadline);
    struct project_hook_queue *queue = call->queue;
    struct kg_err err;
    say_timeout(call, &err);
    leave_queue(queue, call);
    hook_fail(call, queue->name, &err);
}

/* What an observer returned is read at once; what it retains of the line is bounded. */
static int hook_take_result(const struct host_call *sent, struct kg_str result, struct kg_err *err)
{
    struct hook_call *call = host_call_data(sent);
    if (call->round == NULL)
        return 0;
    if (call->designated) {
        kg_buf_str(&call->raw, result);
        call->has_result = !kg_str_is(result, "null");
        return 0;
    }
    int taken = host_hook_result_read(call->hook, result, &call->result, err);
    call->has_result = call->result.inject.length > 0 || call->result.retain != NULL;
    return taken;
}

static const struct host_call_kind hook_kind = {
    .act = DIALECT_HOOK,
    .take = hook_take_result,
    .audit_sent = audit_fired,
    .audit_ended = audit_ended,
};

static void hook_on_returned(void *data, const struct host_reply *reply)
{
    struct hook_call *call = data;
    call->error = reply->error;
    if (reply->error.code == KG_E_PLUGIN_TIMEOUT)
        say_timeout(call, &call->error);
    leave_queue(call->queue, call);
    hook_answer(call);
}

static const struct project_use *hook_find_use(const struct project_resolved_agent *agent,
                                               const struct hook_call *call)
{
    for (size_t i = 0; i < agent->use_count; i++) {
        const struct project_use *use = &agent->uses[i];
        if (strcmp(use->name, call->use) == 0)
            return use->state == PROJECT_READY && use->hooks[call->hook] ? use : NULL;
    }
    return NULL;
}

/* The project may have changed while the call waited. */
static int find_config(const struct hook_call *call, struct kg_str *ret_config, struct kg_err *err)
{
    struct project_place place;
    if (project_place_find(call->host, call->asker, &place, err) < 0)
        return -EINVAL;
    const struct project_use *use = hook_find_use(place.agent, call);
    if (use == NULL ||
        project_process(place.project, use, call->asker->session_id) != call->queue->process)
        return kg_fail(err, KG_E_NOT_APPLICABLE, "the agent %s no longer uses it for this hook",
                       call->asker->agent_path);
    *ret_config = project_config_for(place.project, use, call->queue->process);
    return 0;
}

static int hook_send_call(struct hook_call *call, struct kg_err *err)
{
    struct projects_hook_round *round = call->round;
    uint64_t now_ms = loop_now_ms(host_loop(call->host)), due_ms = call->deadline.due_ms;
    struct kg_str config;
    if (round->problem.code != KG_OK) {
        *err = round->problem;
        return -EINVAL;
    }
    if (find_config(call, &config, err) < 0)
        return kg_wrap(err, -EINVAL, "plugin %s: hook %s", call->plugin,
                       host_hook_row(call->hook)->name);
    const struct host_passage passage = {
        .process = call->queue->process,
        .method = kg_str(host_hook_row(call->hook)->method),
        .params = params_of(call),
        .params_are_checked = true,
        .config = config,
        .asker = round->asker,
        .caller_timeout_ms = due_ms > now_ms ? due_ms - now_ms : 1,
        .kind = &hook_kind,
        .on_done = hook_on_returned,
        .data = call,
    };
    return host_pass(call->host, &passage, err) != NULL ? 0 : -EINVAL;
}

static void hook_pump(struct loop_task *task)
{
    struct project_hook_queue *queue = KG_CONTAINER(task, struct project_hook_queue, pump);
    while (queue->first != NULL && !queue->first->sent) {
        struct hook_call *call = queue->first;
        struct kg_err err;
        host_process_use(queue->process);
        if (host_process_is_starting(queue->process))
            return;
        if (hook_send_call(call, &err) == 0) {
            call->sent = true;
            queue->waiting_bytes -= params_of(call).length;
            loop_timer_stop(host_loop(call->host), &call->deadline);
            return;
        }
        leave_queue(queue, call);
        hook_fail(call, queue->name, &err);
    }
}

/* Where the queue of the process is linked, or would be. */
static struct project_hook_queue **hook_link_of(struct projects *projects,
                                                const struct host_process *process)
{
    struct project_hook_queue **link = &projects->hook_queues;
    while (*link != NULL && (*link)->process != process)
        link = &(*link)->next;
    return link;
}

void project_hooks_look(struct projects *projects, const struct host_process *process)
{
    struct project_hook_queue *queue = *hook_link_of(projects, process);
    if (queue != NULL)
        loop_defer(host_loop(projects->host), &queue->pump);
}

bool project_hooks_hold(const struct projects *projects, const struct host_process *process)
{
    const struct project_hook_queue *queue = *hook_link_of((struct projects *)projects, process);
    return queue != NULL && queue->first != NULL;
}

/* Nothing of its queue can be sent any more. */
void project_hooks_end(struct projects *projects, const struct host_process *process)
{
    struct host *host = projects->host;
    struct project_hook_queue **link = hook_link_of(projects, process), *queue = *link;
    if (queue == NULL)
        return;
    *link = queue->next;
    while (queue->first != NULL) {
        struct hook_call *call = queue->first;
        struct kg_err err;
        if (host_is_stopping(host))
            kg_fail(&err, KG_E_STOPPING, "the daemon is stopping");
        else
            kg_fail(&err, KG_E_PLUGIN_DOWN, "plugin %s: its process is gone", queue->name);
        leave_queue(queue, call);
        hook_fail(call, queue->name, &err);
    }
    loop_undefer(host_loop(host), &queue->pump);
    free(queue);
}

/* -- a round ----------------------------------------------------------------------------------- */

static struct project_hook_queue *hook_queue_of(struct projects *projects,
                                                struct host_process *process)
{
    struct project_hook_queue **link = hook_link_of(projects, process);
    if (*link == NULL) {
        *link = kg_alloc(sizeof(**link));
        (*link)->process = process;
        (*link)->name = host_process_status(process).name;
        (*link)->pump.run = hook_pump;
    }
    return *link;
}

static bool hook_asks(const struct projects_hook_round *round, const struct project_use *use)
{
    return use->state == PROJECT_READY && use->hooks[round->hook];
}

static struct hook_call *hook_add_call(struct projects_hook_round *round,
                                       const struct project_use *use)
{
    struct hook_call *call = kg_alloc(sizeof(*call));
    call->round = round;
    call->host = round->host;
    call->hook = round->hook;
    call->plugin = kg_strdup(use->plugin->name);
    call->use = kg_strdup(use->name);
    call->asker = host_asker_ref(round->asker);
    call->designated = round->designated != NULL && strcmp(round->designated, use->name) == 0;
    round->calls[round->count++] = call;
    round->left++;
    return call;
}

static int hook_ask(struct hook_call *call, struct host_process *process_or_null,
                    struct kg_err *err)
{
    if (process_or_null == NULL)
        return kg_fail(err, KG_E_PLUGIN_DOWN, "plugin %s has no process for the project %s",
                       call->plugin, call->asker->project_id);
    struct project_hook_queue *queue = hook_queue_of(host_projects(call->host), process_or_null);
    int room = hook_check_room(queue, call, err);
    if (room < 0)
        return room;
    call->timeout_ms = host_hook_timeout_ms(
        host_process_status(process_or_null).manifest->hook_timeout_sec, host_config(call->host));
    loop_timer_start(host_loop(call->host), &call->deadline, call->timeout_ms, hook_on_deadline);
    enter_queue(queue, call);
    return 0;
}

/* One is held back until all are asked, so that the round does not end before. */
static void ask_all(struct projects_hook_round *round, const struct project_place *place)
{
    const struct project_resolved_agent *agent = place->agent;
    round->calls = kg_alloc_array(agent->use_count + 1, sizeof(struct hook_call *));
    round->left = 1;
    for (size_t i = 0; i < agent->use_count; i++) {
        const struct project_use *use = &agent->uses[i];
        struct kg_err err;
        if (!hook_asks(round, use))
            continue;
        struct hook_call *call = hook_add_call(round, use);
        struct host_process *process =
            project_process(place->project, use, round->asker->session_id);
        if (hook_ask(call, process, &err) < 0)
            hook_fail(call, process ? host_process_status(process).name : call->plugin, &err);
    }
    round->left--;
}

static void hook_on_begin(struct loop_task *task)
{
    struct projects_hook_round *round = KG_CONTAINER(task, struct projects_hook_round, begin);
    struct project_place place;
    struct kg_err err;
    if (host_hook_fires_for(round->hook, round->asker->agent_path) &&
        project_place_find(round->host, round->asker, &place, &err) == 0)
        ask_all(round, &place);
    if (round->left == 0)
        end_round(round);
}

static void take_params(struct projects_hook_round *round, struct kg_str params,
                        struct kg_buf *ret_copy)
{
    if (params.length > 0 && round->problem.code == KG_OK)
        (void)host_check_params(params, &round->problem);
    kg_buf_str(ret_copy, params);
}

struct projects_hook_round *projects_hook_fire(struct host *host,
                                               const struct projects_hook_fire *fire)
{
    struct projects_hook_round *round = kg_alloc(sizeof(*round));
    round->host = host;
    round->hook = fire->hook;
    round->designated = kg_strdup(fire->designated);
    round->on_done = fire->on_done;
    round->data = fire->data;
    round->begin.run = hook_on_begin;
    round->asker = host_asker_ref(fire->asker);
    take_params(round, fire->params, &round->params);
    if (fire->designated != NULL)
        take_params(round, fire->designated_params, &round->designated_params);
    loop_defer(host_loop(host), &round->begin);
    return round;
}

/* What was sent stays in its queue until it returns or its time is over. */
void projects_hook_cancel(struct projects_hook_round *round)
{
    for (size_t i = 0; i < round->count; i++) {
        struct hook_call *call = round->calls[i];
        if (call->queue == NULL)
            continue;
        if (call->sent) {
            call->round = NULL;
            round->calls[i] = NULL;
        } else {
            leave_queue(call->queue, call);
        }
    }
    free_round(round);
}
