/*
 * The scripts of a conversation: each has a process, which lasts as long as the session is in use.
 * They hear of a turn in the order of their names, one after the other, and the turn waits for each
 * up to its deadline; one that lets that pass is ended, and the turn goes on. Where nobody listens,
 * nothing is sent.
 */
#include "host/asks.h"
#include "host/process.h"
#include "live/internal.h"

#include <stdlib.h>

/* -- their processes --------------------------------------------------------------------------- */

struct host_process *live_script_process(const struct live_session *live,
                                         const struct host_plugin *script)
{
    const struct host_whom whom = {.kind = HOST_SESSION, .id = live->id.text};
    return host_process_find(script, &whom);
}

static struct host_process *live_script_see_to(const struct live_session *live,
                                               struct host_plugin *script)
{
    struct host_process *process = live_script_process(live, script);
    const struct host_whom whom = {.kind = HOST_SESSION,
                                   .id = live->id.text,
                                   .project = live->project_id,
                                   .root = live->workdir};
    return process != NULL ? process : host_process_add(script, &whom);
}

static void withdraw_settling(void *settling)
{
    projects_settling_withdraw(settling);
}

/* Whether there is something to wait for; one that leaves makes room for another first. */
static bool use_all(struct live_scripts *scripts)
{
    struct host *host = scripts->work->sessions->host;
    const struct live_session *live = scripts->work->live;
    bool starting = false;
    scripts->leaving = false;
    for (struct host_plugin *at = NULL;
         live_has_folder(live) && (at = host_script_after(host, at)) != NULL;) {
        if (!host_script_is_enabled(at))
            continue;
        struct host_process *process = live_script_see_to(live, at);
        scripts->leaving |= host_process_status(process).is_leaving;
        host_process_use(process);
        starting |= host_process_is_starting(process);
    }
    return starting || scripts->leaving;
}

static void live_script_on_settled(struct kg_wait *wait, const struct kg_err *err_or_null)
{
    struct live_scripts *scripts = KG_CONTAINER(wait, struct live_scripts, settling.wait);
    const struct live_session *live = scripts->work->live;
    bool again = err_or_null == NULL && scripts->leaving && !scripts->work->sessions->stopping &&
                 !scripts->settling.is_over && use_all(scripts);
    if (again)
        projects_when_settled(live->sessions->host, live->project_id, live->id.text,
                              &scripts->settling, live_script_on_settled);
    else
        live_arrived(scripts->work, err_or_null);
}

void live_scripts_start(struct live_scripts *scripts, struct live_work *work, live_next_fn *next)
{
    const struct live_session *live = work->live;
    scripts->work = work;
    if (!use_all(scripts)) {
        next(work, NULL);
        return;
    }
    live_await(work, &scripts->settling, withdraw_settling, next);
    projects_when_settled(live->sessions->host, live->project_id, live->id.text, &scripts->settling,
                          live_script_on_settled);
}

void live_scripts_in_turn(struct live_session *live, bool in_turn)
{
    struct host *host = live->sessions->host;
    for (struct host_plugin *at = NULL; (at = host_script_after(host, at)) != NULL;) {
        struct host_process *process = live_script_process(live, at);
        if (process != NULL)
            host_process_in_turn(process, in_turn);
    }
}

void live_scripts_end(struct live_session *live)
{
    struct host *host = live->sessions->host;
    for (struct host_plugin *at = NULL; (at = host_script_after(host, at)) != NULL;) {
        struct host_process *process = live_script_process(live, at);
        if (process != NULL)
            host_process_leave(process);
    }
}

/* -- one event --------------------------------------------------------------------------------- */

static const struct host_call_kind event_kind = {
    .act = DIALECT_METHOD,
    .audit_sent = host_audit_called,
    .audit_ended = host_audit_returned,
};

/* The next that listens; one that is gone is skipped, one that came meanwhile is met. */
static struct host_process *next_listener(struct live_scripts *scripts)
{
    struct host *host = scripts->work->sessions->host;
    for (struct host_plugin *at = NULL; (at = host_script_after(host, at)) != NULL;) {
        struct host_process *process = live_script_process(scripts->work->live, at);
        const char *name = host_status((struct host_named){at, NULL}).plugin;
        if (process == NULL || (scripts->last != NULL && strcmp(name, scripts->last) <= 0) ||
            !host_script_hears(process, scripts->event))
            continue;
        kg_replace(&scripts->last, name);
        return process;
    }
    return NULL;
}

/* Blocking a call ends the round; the next ones hear of a changed input. */
static void live_script_take(struct live_scripts *scripts, struct kg_str result)
{
    struct kg_err err;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(result, &err);
    struct kg_str block = doc ? kg_node_text(doc->root, "block") : KG_STR_NULL;
    struct kg_str cancel = doc ? kg_node_text(doc->root, "cancel") : KG_STR_NULL;
    scripts->stop |= doc != NULL && kg_node_is_true(doc->root, "stop");
    struct kg_str patch = doc ? kg_node_text(doc->root, "patch") : KG_STR_NULL;
    if (cancel.data != NULL && scripts->cancelled == NULL)
        scripts->cancelled = kg_str_dup(cancel);
    if (patch.data != NULL && scripts->patched == NULL)
        scripts->patched = kg_str_dup(patch);
    if (block.data != NULL && scripts->blocked == NULL)
        scripts->blocked = kg_str_dup(block);
    struct kg_str input;
    if (!kg_json_member(result, "input", &input) || input.data[0] != '{')
        return;
    scripts->input.length = 0;
    kg_buf_str(&scripts->input, input);
}

/* What cannot be used is told, and what stood before goes on to the next. */
static void live_script_take_value(struct live_scripts *scripts, struct kg_str result)
{
    struct kg_err err = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(result, &err);
    const struct kg_node *value = doc ? kg_node_get(doc->root, "value") : NULL;
    if (value == NULL)
        return;
    if (scripts->check(scripts, value, &err) < 0) {
        kg_log_about(KG_WARN, scripts->last, "%s: what it returned is left out: %s", scripts->event,
                     err.message);
        return;
    }
    scripts->changed = true;
    scripts->data.length = 0;
    kg_json_put_node(&scripts->data, value);
}

static void send_next(struct live_scripts *scripts);

static void live_script_on_done(void *data, const struct host_reply *reply)
{
    struct live_scripts *scripts = data;
    scripts->call = NULL;
    if (reply->error.code != KG_OK)
        kg_log_about(KG_WARN, scripts->last, "%s: %s", scripts->event, reply->error.message);
    else if (scripts->check != NULL)
        live_script_take_value(scripts, reply->result);
    else
        live_script_take(scripts, reply->result);
    send_next(scripts);
}

static void live_script_tell_question(void *data, const struct state_question *row)
{
    struct live_scripts *scripts = data;
    if (scripts->on_question != NULL)
        scripts->on_question(scripts, row);
}

static bool live_script_ask(void *data, struct host_ask *asked)
{
    struct live_scripts *scripts = data;
    return asked->kind != HOST_ASK_SAMPLE &&
           live_question_begin(scripts->work, asked, live_script_tell_question, scripts);
}

static void live_script_withdraw_question(void *data, struct host_ask *asked, const char *why)
{
    struct live_scripts *scripts = data;
    (void)why;
    live_question_end(scripts->work, asked);
}

static const struct host_asked_ops asked_ops = {.ask = live_script_ask,
                                                .withdraw = live_script_withdraw_question};

static void live_script_put_params(const struct live_scripts *scripts, struct kg_buf *out)
{
    struct kg_json_writer json = kg_json_writer(out);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "event", scripts->event);
    kg_json_named_raw(&json, "data", kg_buf_view(&scripts->data));
    kg_json_end(&json, '}');
}

static bool live_script_send_event(struct live_scripts *scripts, struct host_process *process)
{
    struct host *host = scripts->work->sessions->host;
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_err err = {0};
    live_script_put_params(scripts, &params);
    const struct host_passage passage = {
        .process = process,
        .method = KG_STR("script.event"),
        .params = kg_buf_view(&params),
        .asker = scripts->work->asker,
        .timeout_ms = (uint64_t)host_config(host)->limits_hook_timeout_ms,
        .kind = &event_kind,
        .on_done = live_script_on_done,
        .asked = &asked_ops,
        .data = scripts,
    };
    scripts->call = host_pass(host, &passage, &err);
    if (scripts->call == NULL)
        kg_log_about(KG_WARN, scripts->last, "%s: %s", scripts->event, err.message);
    return scripts->call != NULL;
}

static void send_next(struct live_scripts *scripts)
{
    struct host_process *process;
    while (scripts->blocked == NULL && scripts->cancelled == NULL && scripts->patched == NULL &&
           (process = next_listener(scripts)) != NULL)
        if (live_script_send_event(scripts, process))
            return;
    if (scripts->on_told != NULL)
        scripts->on_told(scripts);
    else
        live_arrived(scripts->work, NULL);
}

static void withdraw_call(void *data)
{
    struct live_scripts *scripts = data;
    host_call_cancel(kg_steal(&scripts->call));
}

bool live_scripts_hear(const struct live_scripts *scripts, const char *event)
{
    struct host *host = scripts->work->sessions->host;
    for (struct host_plugin *at = NULL; (at = host_script_after(host, at)) != NULL;) {
        const struct host_process *process = live_script_process(scripts->work->live, at);
        if (process != NULL && host_script_hears(process, event))
            return true;
    }
    return false;
}

void live_scripts_tell(struct live_scripts *scripts, const char *event, struct kg_str data,
                       live_next_fn *next)
{
    live_scripts_transform(scripts, event, data, NULL, next);
}

/* Forgets the event before. False: nobody is asked. */
static bool live_script_begin_event(struct live_scripts *scripts, const char *event,
                                    struct kg_str data)
{
    struct host_process *process;
    scripts->event = event;
    scripts->changed = scripts->stop = false;
    kg_free(&scripts->last);
    kg_free(&scripts->blocked);
    kg_free(&scripts->cancelled);
    kg_free(&scripts->patched);
    scripts->input.length = scripts->data.length = 0;
    kg_buf_str(&scripts->data, data);
    while ((process = next_listener(scripts)) != NULL)
        if (live_script_send_event(scripts, process))
            return true;
    return false;
}

void live_scripts_transform(struct live_scripts *scripts, const char *event, struct kg_str data,
                            int (*check)(struct live_scripts *scripts, const struct kg_node *value,
                                         struct kg_err *err),
                            live_next_fn *next)
{
    struct live_work *work = scripts->work;
    scripts->check = check;
    if (live_script_begin_event(scripts, event, data))
        live_await(work, scripts, withdraw_call, next);
    else
        next(work, NULL);
}

bool live_scripts_tell_aside(struct live_scripts *scripts, const char *event, struct kg_str data)
{
    scripts->check = NULL;
    return live_script_begin_event(scripts, event, data);
}

void live_scripts_withdraw(struct live_scripts *scripts)
{
    if (scripts->call != NULL)
        withdraw_call(scripts);
}

void live_scripts_clear(struct live_scripts *scripts)
{
    kg_free(&scripts->last);
    kg_free(&scripts->blocked);
    kg_free(&scripts->cancelled);
    kg_free(&scripts->patched);
    kg_buf_free(&scripts->data);
    kg_buf_free(&scripts->input);
}
