/*
 * Tools of agents. A model names the tool, and a model reads what comes back: the tool must be on
 * for its agent, the arguments must fit the schema before the plugin sees them, and each refusal
 * says what to do instead. Whoever asks is answered exactly once, whatever the plugin does.
 */
#include "host/asks.h"
#include "host/package.h"
#include "projects/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define TOOLS_LISTED_MAX 150 /* bytes of names in a hint */

struct projects_tool_call {
    struct host *host;
    struct projects_tool_call *next, *previous; /* in the host's list */
    struct host_asker *asker;
    struct kg_str tool, arguments;  /* the caller's */
    struct loop_task task;          /* tries to send it */
    struct loop_timer patience;     /* how long a plugin that starts is waited for */
    struct host_process *waits_for; /* NULL: it does not wait */
    bool waited;                    /* for as long as that */
    struct host_call *sent;         /* NULL: it is not */
    char *plugin;                   /* whose tool it is; NULL until that is known */
    void (*on_done)(void *data, const struct projects_tool_reply *reply);
    peer_progress_fn *on_progress;      /* or NULL */
    const struct host_asked_ops *asked; /* or NULL */
    void *data;
};

/* -- its life ---------------------------------------------------------------------------------- */

static void projects_tool_link_call(struct projects_tool_call *call)
{
    struct projects_tool_call **first = &host_projects(call->host)->tool_calls;
    call->next = *first;
    if (*first != NULL)
        (*first)->previous = call;
    *first = call;
}

static void projects_tool_unlink_call(struct projects_tool_call *call)
{
    if (call->previous != NULL)
        call->previous->next = call->next;
    else
        host_projects(call->host)->tool_calls = call->next;
    if (call->next != NULL)
        call->next->previous = call->previous;
}

static void projects_tool_free_call(struct projects_tool_call *call)
{
    projects_tool_unlink_call(call);
    loop_undefer(host_loop(call->host), &call->task);
    loop_timer_stop(host_loop(call->host), &call->patience);
    host_asker_unref(call->asker);
    free(call->plugin);
    free(call);
}

/* Whether the plugin itself was not reached. */
static bool is_blocked(const struct projects_tool_reply *reply)
{
    static const enum kg_code codes[] = {KG_E_PLUGIN_DOWN, KG_E_PLUGIN_TIMEOUT,
                                         KG_E_BUSY,        KG_E_STOPPING,
                                         KG_E_CONFLICT,    KG_E_AUDIT_UNAVAILABLE};
    for (size_t i = 0; reply->plugin_error.length == 0 && i < KG_COUNT(codes); i++)
        if (reply->error.code == codes[i])
            return true;
    return false;
}

static void projects_tool_finish(struct projects_tool_call *call, struct projects_tool_reply *reply)
{
    kg_auto(kg_free) char *plugin = kg_steal(&call->plugin);
    void (*on_done)(void *, const struct projects_tool_reply *) = call->on_done;
    void *data = call->data;
    reply->plugin = plugin;
    reply->blocked = is_blocked(reply);
    projects_tool_free_call(call);
    on_done(data, reply);
}

/* -- which tool -------------------------------------------------------------------------------- */

static const char *plugin_name(const struct project_use *use)
{
    return use->plugin != NULL ? use->plugin->name : manifest_name_in(use->package);
}

/* Whether that plugin's tools have such names: "memory.recall", "memory__recall". */
static bool projects_tool_has_prefix(struct kg_str tool, const char *plugin)
{
    size_t length = strlen(plugin);
    if (!kg_str_starts(tool, plugin))
        return false;
    struct kg_str rest = {tool.data + length, tool.length - length};
    return kg_str_starts(rest, ".") || kg_str_starts(rest, "__");
}

static bool is_switched_off(const struct project_use *use, struct kg_str name)
{
    for (size_t i = 0; use->state == PROJECT_READY && i < use->plugin->tool_count; i++) {
        const struct project_tool *tool = &use->plugin->tools[i];
        if (!use->tools[i] && (kg_str_is(name, tool->name) || kg_str_is(name, tool->wire_name)))
            return true;
    }
    return false;
}

static void hint_tools(const struct project_resolved_agent *agent, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf names = {0};
    size_t left_out = 0;
    for (size_t i = 0; i < agent->use_count; i++) {
        const struct project_use *use = &agent->uses[i];
        for (size_t k = 0; use->state == PROJECT_READY && k < use->plugin->tool_count; k++)
            if (use->tools[k] && names.length >= TOOLS_LISTED_MAX)
                left_out++;
            else if (use->tools[k])
                kg_buf_printf(&names, "%s%s", names.length ? ", " : "", use->plugin->tools[k].name);
    }
    if (left_out > 0)
        kg_buf_printf(&names, " and %zu more", left_out);
    if (names.length > 0)
        kg_hint(err, "its tools are %s", kg_buf_terminate(&names));
    else
        kg_hint(err, "it has no tools of plugins");
}

/* Why there is no such tool, for whoever called it. */
static int projects_tool_explain(const struct project_resolved_agent *agent, struct kg_str name,
                                 struct kg_err *err)
{
    for (size_t i = 0; i < agent->use_count; i++) {
        const struct project_use *use = &agent->uses[i];
        if (is_switched_off(use, name)) {
            kg_fail(err, KG_E_REFUSED, "the tool %.*s is disabled for the agent %s",
                    KG_STR_CUT(name, KG_CUT_WORD), agent->path);
            return kg_hint(err, "the agent's `tools:` in the project's file switches it off");
        }
        if (use->state != PROJECT_READY && projects_tool_has_prefix(name, plugin_name(use)))
            return kg_fail(err, KG_E_NOT_APPLICABLE,
                           "the tool %.*s cannot be used: the plugin %s of the agent %s is not "
                           "ready: %" KG_S_CAUSE,
                           KG_STR_CUT(name, KG_CUT_WORD), use->name, agent->path, use->reason);
    }
    kg_fail(err, KG_E_METHOD_NOT_FOUND, "the agent %s has no tool \"%.*s\"", agent->path,
            KG_STR_CUT(name, KG_CUT_WORD));
    hint_tools(agent, err);
    return -EINVAL;
}

static const struct project_tool *
projects_tool_find_tool(const struct project_resolved_agent *agent, struct kg_str name,
                        const struct project_use **ret_use, struct kg_err *err)
{
    const struct project_tool *tool = project_tool_find(agent, name, ret_use);
    if (tool == NULL)
        tool = project_tool_called(agent, name, ret_use);
    if (tool == NULL)
        projects_tool_explain(agent, name, err);
    return tool;
}

/* -- the call ---------------------------------------------------------------------------------- */

static void projects_tool_on_returned(void *data, const struct host_reply *reply)
{
    struct projects_tool_reply answer = {.error = reply->error,
                                         .plugin_error = reply->plugin_error,
                                         .names_grant = reply->names_grant};
    if (reply->error.code == KG_OK)
        answer.result = reply->result;
    projects_tool_finish(data, &answer);
}

static void projects_tool_on_progress(void *data, struct kg_str params)
{
    struct projects_tool_call *call = data;
    call->on_progress(call->data, params);
}

static unsigned projects_tool_can(void *data)
{
    const struct projects_tool_call *call = data;
    return call->asked->can != NULL ? call->asked->can(call->data) : HOST_ASK_ANY;
}

static bool projects_tool_ask(void *data, struct host_ask *asked)
{
    struct projects_tool_call *call = data;
    return call->asked->ask(call->data, asked);
}

static void projects_tool_withdraw(void *data, struct host_ask *asked, const char *why)
{
    struct projects_tool_call *call = data;
    call->asked->withdraw(call->data, asked, why);
}

static const struct host_asked_ops asked_ops = {
    .can = projects_tool_can, .ask = projects_tool_ask, .withdraw = projects_tool_withdraw};

/* What runs may be another version than the project was resolved with. */
static const struct manifest_tool *offered(struct host_process *process,
                                           const struct project_tool *tool, struct kg_err *err)
{
    const char *dot = strchr(tool->name, '.');
    const struct host_status runs = host_process_status(process);
    const struct manifest_tool *found = manifest_tool_find(runs.manifest, kg_str(dot + 1));
    if (found == NULL) {
        kg_fail(err, KG_E_METHOD_NOT_FOUND, "plugin %s: the version %s that runs has no tool %s",
                runs.name, runs.manifest->version, tool->name);
        kg_hint(err, "reload the project");
    }
    return found;
}

static int send_to(struct projects_tool_call *call, struct host_process *process,
                   const struct project_tool *tool, struct kg_str config, struct kg_err *err)
{
    const struct manifest_tool *declared = offered(process, tool, err);
    kg_auto(kg_buf_free) struct kg_buf own = {0}; /* as a package calls it */
    if (declared == NULL)
        return -EINVAL;
    if (host_process_status(process).whom->kind == HOST_ORG)
        host_package_put_method(process, declared->name, &own);
    const struct host_passage passage = {
        .process = process,
        .method = own.length > 0 ? kg_buf_view(&own) : kg_str(tool->name),
        .params = call->arguments,
        .config = config,
        .asker = call->asker,
        .params_schema = declared->parameters,
        .result_schema = declared->output,
        .timeout_ms = host_call_timeout_ms(call->host, declared->timeout_ms),
        .kind = &host_tool_kind,
        .on_done = projects_tool_on_returned,
        .on_progress = call->on_progress != NULL ? projects_tool_on_progress : NULL,
        .asked = call->asked != NULL ? &asked_ops : NULL,
        .data = call,
    };
    call->sent = host_pass(call->host, &passage, err);
    return call->sent != NULL ? 0 : -EINVAL;
}

static void projects_tool_on_patience_over(struct loop_timer *timer)
{
    struct projects_tool_call *call = KG_CONTAINER(timer, struct projects_tool_call, patience);
    call->waited = true;
    loop_defer(host_loop(call->host), &call->task);
}

/* -EAGAIN: it will be tried again when the plugin has started, or has not. */
static int projects_tool_wait_for_start(struct projects_tool_call *call,
                                        struct host_process *process, struct kg_err *err)
{
    int64_t patience_ms = host_config(call->host)->limits_initialize_timeout_ms;
    if (call->waited) {
        const char *name = host_process_status(process).name;
        kg_fail(err, KG_E_PLUGIN_DOWN, "plugin %s is still starting after %lld ms", name,
                (long long)patience_ms);
        return kg_hint(err, "kaged plugin status %s says more", name);
    }
    call->waits_for = process;
    if (!loop_timer_running(&call->patience))
        loop_timer_start(host_loop(call->host), &call->patience, (uint64_t)patience_ms,
                         projects_tool_on_patience_over);
    return -EAGAIN;
}

/* What a script of the conversation registered. */
static int send_to_script(struct projects_tool_call *call, struct host_process *process,
                          struct kg_err *err)
{
    const struct host_passage passage = {
        .process = process,
        .method = call->tool,
        .params = call->arguments,
        .asker = call->asker,
        .timeout_ms = host_call_timeout_ms(call->host, 0),
        .kind = &host_tool_kind,
        .on_done = projects_tool_on_returned,
        .asked = call->asked != NULL ? &asked_ops : NULL,
        .data = call,
    };
    free(call->plugin);
    call->plugin = kg_strdup(host_process_status(process).plugin);
    call->sent = host_pass(call->host, &passage, err);
    return call->sent != NULL ? 0 : -EINVAL;
}

/* Why there is none. */
static int explain_process(const struct projects_entry *project, const struct project_use *use,
                           struct kg_err *err)
{
    if (project_may_use(project, use))
        return kg_fail(err, KG_E_PLUGIN_DOWN, "plugin %s has no process for the project %s",
                       use->plugin->name, project->id);
    kg_fail(err, KG_E_PLUGIN_DOWN, "plugin %s may not be used in the project %s yet",
            use->plugin->name, project->id);
    return kg_hint(err, "kaged project consent shows what it asks for");
}

static int try_call(struct projects_tool_call *call, struct kg_err *err)
{
    struct project_place place;
    const struct project_use *use;
    struct host_process *script =
        host_script_with_tool(call->host, call->asker->session_id, call->tool);
    if (script != NULL)
        return send_to_script(call, script, err);
    if (project_place_find(call->host, call->asker, &place, err) < 0)
        return -EINVAL;
    const struct project_tool *tool = projects_tool_find_tool(place.agent, call->tool, &use, err);
    if (tool == NULL)
        return -EINVAL;
    free(call->plugin);
    call->plugin = kg_strdup(use->plugin->name);
    struct host_process *process = project_process(place.project, use, call->asker->session_id);
    if (process == NULL)
        return explain_process(place.project, use, err);
    host_process_use(process);
    if (host_process_is_starting(process))
        return projects_tool_wait_for_start(call, process, err);
    return send_to(call, process, tool, project_config_for(place.project, use, process), err);
}

static void projects_tool_on_task(struct loop_task *task)
{
    struct projects_tool_call *call = KG_CONTAINER(task, struct projects_tool_call, task);
    struct projects_tool_reply reply = {.error.code = KG_OK};
    call->waits_for = NULL;
    int tried = try_call(call, &reply.error);
    if (tried == 0)
        loop_timer_stop(host_loop(call->host), &call->patience);
    else if (tried != -EAGAIN)
        projects_tool_finish(call, &reply);
}

struct projects_tool_call *projects_tool_call(struct host *host,
                                              const struct projects_tool_request *request)
{
    struct projects_tool_call *call = kg_alloc(sizeof(*call));
    call->host = host;
    call->tool = request->tool;
    call->arguments = request->arguments;
    call->on_done = request->on_done;
    call->on_progress = request->on_progress;
    call->asked = request->asked;
    call->data = request->data;
    call->task.run = projects_tool_on_task;
    call->asker = host_asker_ref(request->asker);
    projects_tool_link_call(call);
    loop_defer(host_loop(host), &call->task);
    return call;
}

void projects_tool_cancel(struct projects_tool_call *call)
{
    if (call->sent != NULL)
        host_call_cancel(call->sent);
    projects_tool_free_call(call);
}

void project_tools_look(struct projects *projects, const struct host_process *process)
{
    for (struct projects_tool_call *call = projects->tool_calls; call != NULL; call = call->next)
        if (call->waits_for == process)
            loop_defer(host_loop(call->host), &call->task);
}

bool project_tools_hold(const struct projects *projects, const struct host_process *process)
{
    const struct projects_tool_call *call = projects->tool_calls;
    while (call != NULL && call->waits_for != process)
        call = call->next;
    return call != NULL;
}

void project_tools_end(struct projects *projects)
{
    while (projects->tool_calls != NULL) {
        struct projects_tool_reply reply = {.error.code = KG_OK};
        kg_fail(&reply.error, KG_E_STOPPING, "the daemon is stopping");
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is finished leaves the list */
        projects_tool_finish(projects->tool_calls, &reply);
    }
}
