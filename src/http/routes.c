/*
 * Every route, one row each, and the handlers behind them. A handler reads a checked request, asks
 * the host, and writes the answer; it decides nothing.
 */
#include "http/internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define POLL_EVERY_MS 200   /* how often a waiting question looks again */
#define WAIT_MAX_MS   60000 /* the longest that one question waits */

/* -- answers ----------------------------------------------------------------------------------- */

static void put_time(struct kg_json_writer *json, const char *key, int64_t wall_ms)
{
    char text[KG_TIME_TEXT];
    kg_json_key(json, key);
    if (wall_ms == 0) {
        kg_json_null(json);
        return;
    }
    kg_time_format(wall_ms, text);
    kg_json_text(json, text);
}

static void put_list(struct kg_json_writer *json, const char *key, char *const *list)
{
    kg_json_key(json, key);
    kg_json_begin(json, '[');
    for (; *list != NULL; list++)
        kg_json_text(json, *list);
    kg_json_end(json, ']');
}

static void put_named_text(struct kg_json_writer *json, const char *key, const char *text)
{
    kg_json_key(json, key);
    kg_json_text(json, text);
}

static void put_named_int(struct kg_json_writer *json, const char *key, int64_t value)
{
    kg_json_key(json, key);
    kg_json_int(json, value);
}

/* Calls visit-like: each line without its newline becomes an item. */
static void put_lines(struct kg_json_writer *json, const char *key, struct kg_str text)
{
    kg_json_key(json, key);
    kg_json_begin(json, '[');
    while (text.length > 0) {
        const char *newline = memchr(text.data, '\n', text.length);
        size_t length = newline ? (size_t)(newline - text.data) : text.length;
        kg_json_str(json, (struct kg_str){text.data, length});
        size_t used = newline ? length + 1 : length;
        text = (struct kg_str){text.data + used, text.length - used};
    }
    kg_json_end(json, ']');
}

static void put_hits(struct kg_json_writer *json, const uint32_t hits[2])
{
    put_named_int(json, "memory_kills", hits[CAGE_LIMIT_MEMORY]);
    put_named_int(json, "fork_refusals", hits[CAGE_LIMIT_PROCESSES]);
}

static void put_limits(struct kg_json_writer *json, const struct instance_limits *limits,
                       enum cage_limits_mode mode)
{
    kg_json_key(json, "limits");
    kg_json_begin(json, '{');
    put_named_text(json, "mode", cage_limits_names[mode]);
    put_named_int(json, "memory_bytes", (int64_t)limits->memory_bytes);
    put_named_int(json, "cpu_shares", limits->cpu_shares);
    put_named_int(json, "processes_max", limits->processes_max);
    put_named_int(json, "tmp_bytes", (int64_t)limits->tmp_bytes);
    kg_json_end(json, '}');
}

static void put_exit(struct kg_json_writer *json, const struct exit_report *report)
{
    kg_json_key(json, "last_exit");
    if (report == NULL) {
        kg_json_null(json);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    exit_report_words(report, &words);
    kg_json_begin(json, '{');
    put_named_text(json, "cause", exit_cause_name(report->cause));
    kg_json_key(json, "words");
    kg_json_str(json, kg_buf_view(&words));
    kg_json_key(json, "exit_code");
    if (report->exit_code >= 0)
        kg_json_int(json, report->exit_code);
    else
        kg_json_null(json);
    kg_json_key(json, "signal");
    if (report->signal != 0)
        kg_json_int(json, report->signal);
    else
        kg_json_null(json);
    put_time(json, "at", report->at_ms);
    put_time(json, "restart_at", report->restart_at_ms);
    put_named_int(json, "failures", report->failures);
    put_hits(json, report->hits);
    put_lines(json, "last_stderr", kg_buf_view(&report->last_stderr));
    kg_json_end(json, '}');
}

static void put_method(void *data, const char *method, bool offered)
{
    struct kg_json_writer *json = data;
    kg_json_begin(json, '{');
    put_named_text(json, "name", method);
    kg_json_key(json, "available");
    kg_json_bool(json, offered);
    kg_json_end(json, '}');
}

static void put_problem(struct kg_json_writer *json, const struct host_plugin *plugin)
{
    bool invalid = plugin->problem.code != KG_OK;
    put_named_text(json, "problem", invalid ? plugin->problem.message : NULL);
    put_named_text(json, "problem_code", invalid ? kg_error_row(plugin->problem.code)->name : NULL);
    if (invalid && plugin->problem.hint[0] != '\0')
        put_named_text(json, "problem_hint", plugin->problem.hint);
}

/* Read once for an answer: it looks into /proc. */
static struct instance_facts facts_of(const struct host_plugin *plugin)
{
    return plugin->instance ? instance_facts(plugin->instance)
                            : (struct instance_facts){.cage_id = ""};
}

/* What a plugin is, in a list and alone. */
static void put_identity(struct kg_json_writer *json, const struct host_plugin *plugin,
                         const struct instance_facts *facts)
{
    const struct manifest *manifest = plugin->manifest;
    put_named_text(json, "name", plugin->name);
    put_named_text(json, "version", manifest ? manifest->version : NULL);
    put_named_text(json, "state", host_plugin_state(plugin));
    put_named_text(json, "description", manifest ? manifest->description : NULL);
    put_named_text(json, "homepage", manifest ? manifest->homepage : NULL);
    put_named_text(json, "dir", plugin->dir);
    if (manifest != NULL)
        put_list(json, "capabilities", manifest->capabilities);
    kg_json_key(json, "pid");
    if (facts->pid != 0)
        kg_json_int(json, facts->pid);
    else
        kg_json_null(json);
    put_problem(json, plugin);
}

static void put_life(struct kg_json_writer *json, const struct host_plugin *plugin,
                     const struct instance_facts *facts, const char *cages)
{
    enum instance_state state = INSTANCE_DISABLED;
    if (plugin->instance != NULL)
        state = instance_state(plugin->instance);
    bool invalid = state == INSTANCE_DISABLED && plugin->problem.code != KG_OK;
    put_named_text(json, "state_meaning",
                   invalid ? "what it declares, or is configured with, cannot be used"
                           : instance_state_meaning(state));
    put_named_text(json, "cage_id", facts->cage_id[0] ? facts->cage_id : NULL);
    put_named_text(json, "cages", cages);
    put_time(json, "started_at", facts->started_at_ms);
    put_named_int(json, "starts", facts->starts);
    put_named_int(json, "failures", facts->failures);
    put_named_int(json, "health_failures", facts->health_failures);
    put_named_int(json, "calls", (int64_t)plugin->calls);
    put_named_int(json, "errors", (int64_t)plugin->errors);
    put_named_int(json, "in_flight", facts->in_flight);
    put_named_int(json, "bytes_in", (int64_t)facts->bytes_in);
    put_named_int(json, "bytes_out", (int64_t)facts->bytes_out);
    put_named_int(json, "notifications_dropped", (int64_t)facts->notifications_dropped);
    put_hits(json, facts->hits);
    if (plugin->instance != NULL)
        put_limits(json, &facts->limits, facts->limits_mode);
    kg_json_key(json, "methods");
    kg_json_begin(json, '[');
    if (plugin->instance != NULL)
        instance_methods(plugin->instance, put_method, json);
    kg_json_end(json, ']');
    put_exit(json, facts->last_exit);
}

/* A running plugin's cage as it is, else what the next start would build, or why it would not. */
static void put_cage(struct kg_json_writer *json, struct host *host,
                     const struct host_plugin *plugin)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    struct kg_err err = plugin->problem;
    kg_json_key(json, "cage");
    kg_json_begin(json, '{');
    if (plugin->instance != NULL && instance_has_process(plugin->instance)) {
        kg_buf_str(&words, kg_buf_view(&plugin->cage_words));
    } else if (plugin->instance != NULL) {
        struct cage_plan *plan = host_plugin_plan(host, plugin, false, &err);
        if (plan != NULL)
            cage_plan_words(plan, &words);
        cage_plan_free(plan);
    }
    put_lines(json, "words", kg_buf_view(&words));
    put_named_text(json, "problem", words.length == 0 ? err.message : NULL);
    put_named_text(json, "hint", words.length == 0 && err.hint[0] != '\0' ? err.hint : NULL);
    kg_json_end(json, '}');
}

static void reply_plugin(struct http_request *request, const struct host_plugin *plugin)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    struct instance_facts facts = facts_of(plugin);
    put_identity(&json, plugin, &facts);
    put_life(&json, plugin, &facts, host_cages(http_host(request)));
    if (kg_str_is(http_query_parameter(request, "cage"), "true"))
        put_cage(&json, http_host(request), plugin);
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

/* -- the daemon -------------------------------------------------------------------------------- */

static void handle_health(struct http_request *request)
{
    http_reply(request, 200, KG_STR("{\"status\":\"ok\"}"));
}

static void handle_status(struct http_request *request)
{
    struct host *host = http_host(request);
    unsigned counts[INSTANCE_STATE_COUNT] = {0};
    for (size_t i = 0; i < host_plugin_count(host); i++) {
        const struct host_plugin *plugin = host_plugin_at(host, i);
        counts[plugin->instance ? instance_state(plugin->instance) : INSTANCE_DISABLED]++;
    }
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    const char *why = NULL;
    bool audit_ok = audit_ready(host_audit(host), &why);
    kg_json_begin(&json, '{');
    put_named_text(&json, "version", KAGED_VERSION);
    put_named_int(&json, "pid", getpid());
    put_named_text(&json, "home", host_paths(host)->home);
    put_named_text(&json, "config_file", host_paths(host)->config_file);
    put_named_text(&json, "socket", host_paths(host)->socket);
    put_named_text(&json, "user", host_user(host));
    put_named_text(&json, "cages", host_cages(host));
    put_time(&json, "started_at", host_started_at_ms(host));
    put_named_int(&json, "uptime_ms", kg_wall_ms() - host_started_at_ms(host));
    kg_json_key(&json, "stopping");
    kg_json_bool(&json, host_is_stopping(host));
    put_named_text(&json, "audit_problem", audit_ok ? NULL : why);
    const struct cage_limits *limits = host_limits(host);
    put_named_text(&json, "limits_mode", cage_limits_names[limits->mode]);
    put_named_text(&json, "limits", limits->words);
    kg_json_key(&json, "plugins");
    kg_json_begin(&json, '{');
    for (enum instance_state state = 0; state < INSTANCE_STATE_COUNT; state++)
        if (counts[state] > 0)
            put_named_int(&json, instance_state_name(state), counts[state]);
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

static void handle_reload(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf changed = {0}, body = {0};
    struct kg_err err = {0};
    if (host_reload(http_host(request), http_operator(request), &changed, &err) < 0) {
        http_reply_error(request, &err);
        return;
    }
    kg_buf_printf(&body, "{\"changed\":%s}", kg_buf_terminate(&changed));
    http_reply(request, 200, kg_buf_view(&body));
}

static void handle_stop(struct http_request *request)
{
    http_reply(request, 202, KG_STR("{\"stopping\":true}"));
    kill(getpid(), SIGTERM); /* the one way to stop: the signal handler of the daemon */
}

/* -- plugins
 * -------------------------------------------------------------------------------------------------
 */

static void handle_plugins(struct http_request *request)
{
    struct host *host = http_host(request);
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_key(&json, "plugins");
    kg_json_begin(&json, '[');
    for (size_t i = 0; i < host_plugin_count(host); i++) {
        kg_json_begin(&json, '{');
        struct instance_facts facts = facts_of(host_plugin_at(host, i));
        put_identity(&json, host_plugin_at(host, i), &facts);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

/* The plugin of the path; answers 404 itself. */
struct host_plugin *http_find_plugin(struct http_request *request)
{
    struct kg_err err;
    struct host_plugin *plugin =
        host_plugin_find(http_host(request), http_path_parameter(request, "name"), &err);
    if (plugin == NULL)
        http_reply_error(request, &err);
    return plugin;
}

static void handle_plugin(struct http_request *request)
{
    struct host_plugin *plugin = http_find_plugin(request);
    if (plugin != NULL)
        reply_plugin(request, plugin);
}

typedef int host_act_fn(struct host *host, struct kg_str name, const char *operator_id,
                        struct kg_err *err);

static void act(struct http_request *request, host_act_fn *act_on)
{
    struct kg_err err = {0};
    struct host_plugin *plugin = http_find_plugin(request);
    if (plugin == NULL)
        return;
    if (act_on(http_host(request), kg_str(plugin->name), http_operator(request), &err) < 0)
        http_reply_error(request, &err);
    else
        reply_plugin(request, plugin);
}

static void handle_enable(struct http_request *request)
{
    act(request, host_enable);
}

static void handle_disable(struct http_request *request)
{
    act(request, host_disable);
}

static void handle_restart(struct http_request *request)
{
    act(request, host_restart);
}

/* -- calls
 * ------------------------------------------------------------------------------------------------------
 */

struct waiting_call {
    struct http_request *request;
    struct host_call *call;
};

/* A plugin's own error keeps its code and data. */
static void reply_plugin_error(struct http_request *request, const struct host_reply *reply)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    struct kg_str data;
    kg_json_begin(&json, '{');
    kg_json_key(&json, "error");
    kg_json_begin(&json, '{');
    put_named_text(&json, "code", kg_error_row(reply->error.code)->name);
    put_named_text(&json, "message", reply->error.message);
    put_named_text(&json, "request_id", http_request_id(request));
    put_named_int(&json, "rpc_code", rpc_error_code(reply->plugin_error));
    if (kg_json_member(reply->plugin_error, "data", &data)) {
        kg_json_key(&json, "data");
        kg_json_raw(&json, data);
    }
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    http_reply(request, kg_error_row(reply->error.code)->http_status, kg_buf_view(&body));
}

static void on_call_done(void *data, const struct host_reply *reply)
{
    struct waiting_call *waiting = data;
    struct http_request *request = waiting->request;
    free(waiting);
    if (reply->error.code == KG_OK)
        http_reply(request, 200, reply->result);
    else if (reply->plugin_error.length > 0)
        reply_plugin_error(request, reply);
    else
        http_reply_error(request, &reply->error);
}

static void on_caller_gone(void *data)
{
    struct waiting_call *waiting = data;
    host_call_cancel(waiting->call);
    http_reply(waiting->request, kg_error_row(KG_E_CANCELLED)->http_status, KG_STR("{}"));
    free(waiting);
}

static int caller_timeout(const struct http_request *request, uint64_t *ret_ms, struct kg_err *err)
{
    struct kg_str header = http_header(request, "kaged-timeout-ms");
    int64_t ms = 0;
    if (header.data != NULL && (!kg_str_to_int(header, &ms) || ms < 1))
        return kg_fail(err, KG_E_USAGE, "Kaged-Timeout-Ms must be a positive integer");
    *ret_ms = (uint64_t)ms;
    return 0;
}

static void make_call(struct http_request *request, struct kg_str params)
{
    struct kg_err err = {0};
    struct waiting_call *waiting = kg_alloc(sizeof(*waiting));
    waiting->request = request;
    struct host_call_request call = {
        .plugin = http_path_parameter(request, "name"),
        .method = http_path_parameter(request, "method"),
        .params = params,
        .context = {.operator_id = http_operator(request), .request_id = http_request_id(request)},
        .on_done = on_call_done,
        .data = waiting,
    };
    if (caller_timeout(request, &call.caller_timeout_ms, &err) == 0)
        waiting->call = host_call(http_host(request), &call, &err);
    if (waiting->call == NULL) {
        free(waiting);
        http_reply_error(request, &err);
        return;
    }
    http_on_gone(request, on_caller_gone, waiting);
}

/* A call that waits until the audit log has caught up: a slow disk slows callers, refuses none. */
struct held_call {
    struct audit_waiter waiter;
    struct http_request *request;
    http_handler_fn *handle;
};

static void on_caught_up(struct audit_waiter *waiter)
{
    struct held_call *held = KG_CONTAINER(waiter, struct held_call, waiter);
    struct http_request *request = held->request;
    http_handler_fn *handle = held->handle;
    http_on_gone(request, NULL, NULL);
    free(held);
    handle(request);
}

static void on_held_caller_gone(void *data)
{
    struct held_call *held = data;
    audit_unwait(host_audit(http_host(held->request)), &held->waiter);
    http_reply(held->request, kg_error_row(KG_E_CANCELLED)->http_status, KG_STR("{}"));
    free(held);
}

static bool hold_if_behind(struct http_request *request, http_handler_fn *handle)
{
    struct audit *audit = host_audit(http_host(request));
    if (!audit_is_behind(audit))
        return false;
    struct held_call *held = kg_alloc(sizeof(*held));
    held->waiter.on_ready = on_caught_up;
    held->request = request;
    held->handle = handle;
    http_on_gone(request, on_held_caller_gone, held);
    audit_wait_ready(audit, &held->waiter);
    return true;
}

static void handle_call(struct http_request *request)
{
    if (!hold_if_behind(request, handle_call))
        make_call(request, http_body(request));
}

/* Query parameters become string params. */
static void handle_call_by_query(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    struct kg_str name, value;
    size_t position = 0;
    if (hold_if_behind(request, handle_call_by_query))
        return;
    kg_buf_char(&params, '{');
    while (http_query_next(request, &position, &name, &value)) {
        if (params.length > 1)
            kg_buf_char(&params, ',');
        kg_json_put_string(&params, name);
        kg_buf_char(&params, ':');
        kg_json_put_string(&params, value);
    }
    kg_buf_char(&params, '}');
    make_call(request, kg_buf_view(&params));
}

/* -- questions that may wait for an answer ----------------------------------------------------- */

/* Asks again every now and then until there is something to tell, the time is over or the client
 * left. */
struct question {
    struct http_request *request;
    struct loop_timer timer;
    uint64_t until_ms;
    bool gone;
    uint64_t asked_at; /* host_audit_count when the audit log was last asked */
    void (*ask)(struct question *question);
    char *plugin;               /* owned */
    struct audit_filter filter; /* its texts are owned by the question */
    char *texts[3];
    int64_t cursor;
};

static int64_t query_int(const struct http_request *request, const char *name, int64_t fallback)
{
    int64_t value = fallback;
    struct kg_str text = http_query_parameter(request, name);
    if (text.data != NULL)
        kg_str_to_int(text, &value);
    return value;
}

static void question_free(struct question *question)
{
    loop_timer_stop(host_loop(http_host(question->request)), &question->timer);
    for (size_t i = 0; i < KG_COUNT(question->texts); i++)
        free(question->texts[i]);
    free(question->plugin);
    free(question);
}

static void question_answer(struct question *question, struct kg_str json)
{
    struct http_request *request = question->request;
    question_free(question);
    http_reply(request, 200, json);
}

static void question_fail(struct question *question, const struct kg_err *err)
{
    struct http_request *request = question->request;
    question_free(question);
    http_reply_error(request, err);
}

static void on_question_due(struct loop_timer *timer)
{
    struct question *question = KG_CONTAINER(timer, struct question, timer);
    question->ask(question);
}

/* True if the question waits for more; false if it must be answered now. */
static bool question_waits(struct question *question)
{
    struct host *host = http_host(question->request);
    if (question->gone || host_is_stopping(host) ||
        loop_now_ms(host_loop(host)) >= question->until_ms)
        return false;
    loop_timer_start(host_loop(host), &question->timer, POLL_EVERY_MS, on_question_due);
    return true;
}

static void on_asker_gone(void *data)
{
    struct question *question = data;
    question->gone = true;
    if (!loop_timer_running(&question->timer))
        return; /* it is being asked, and the answer will find nobody */
    loop_timer_stop(host_loop(http_host(question->request)), &question->timer);
    question->ask(question);
}

static struct question *question_new(struct http_request *request,
                                     void (*ask)(struct question *question))
{
    struct question *question = kg_alloc(sizeof(*question));
    int64_t wait_ms = query_int(request, "wait_ms", 0);
    if (wait_ms < 0)
        wait_ms = 0;
    question->request = request;
    question->ask = ask;
    question->until_ms = loop_now_ms(host_loop(http_host(request))) +
                         (uint64_t)(wait_ms < WAIT_MAX_MS ? wait_ms : WAIT_MAX_MS);
    http_on_gone(request, on_asker_gone, question);
    return question;
}

static void ask_logs(struct question *question)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0}, body = {0};
    struct kg_err err = {0};
    struct host_plugin *plugin =
        host_plugin_find(http_host(question->request), kg_str(question->plugin), &err);
    int64_t cursor = 0;
    int64_t lines = query_int(question->request, "lines", 100);
    bool follows = question->cursor >= 0;
    if (plugin == NULL ||
        (plugin->instance != NULL &&
         instance_log_read(plugin->instance, question->cursor, lines > 0 ? (size_t)lines : 1, &text,
                           &cursor, &err) < 0)) {
        question_fail(question, &err);
        return;
    }
    if (follows && text.length == 0 && question_waits(question))
        return;
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    put_lines(&json, "lines", kg_buf_view(&text));
    put_named_int(&json, "cursor", cursor);
    kg_json_end(&json, '}');
    question_answer(question, kg_buf_view(&body));
}

static void handle_logs(struct http_request *request)
{
    struct host_plugin *plugin = http_find_plugin(request);
    if (plugin == NULL)
        return;
    struct question *question = question_new(request, ask_logs);
    question->plugin = kg_strdup(plugin->name);
    question->cursor = query_int(request, "after", -1);
    ask_logs(question);
}

static void on_audit_lines(void *data, struct kg_str lines, const struct kg_err *err_or_null)
{
    struct question *question = data;
    if (err_or_null != NULL) {
        question_fail(question, err_or_null);
        return;
    }
    if (lines.length == 0 && question_waits(question))
        return;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_buf_str(&body, KG_STR("{\"events\":["));
    for (size_t i = 0; i < lines.length; i++)
        kg_buf_char(&body, lines.data[i] == '\n' ? ',' : lines.data[i]);
    if (lines.length > 0)
        body.length--; /* the comma after the last */
    kg_buf_str(&body, KG_STR("]}"));
    question_answer(question, kg_buf_view(&body));
}

static void ask_audit(struct question *question)
{
    uint64_t count = host_audit_count(http_host(question->request));
    if (count == question->asked_at && question_waits(question))
        return; /* nothing came since: the files need not be read again */
    question->asked_at = count;
    host_audit_query(http_host(question->request), &question->filter, on_audit_lines, question);
}

static struct kg_str keep_text(struct question *question, size_t slot, struct kg_str text)
{
    question->texts[slot] = kg_str_dup(text);
    return (struct kg_str){question->texts[slot], text.length};
}

static void handle_audit(struct http_request *request)
{
    struct kg_err err;
    int64_t since_ms = 0;
    struct kg_str since = http_query_parameter(request, "since");
    if (since.data != NULL && !kg_time_parse(since, &since_ms)) {
        kg_fail(&err, KG_E_USAGE, "since is not a time: \"%.*s\"", KG_STR_CUT(since, 40));
        kg_hint(&err, "write 2026-11-15T22:00:00Z, 2026-11-15, or a span like 15m or 2h");
        http_reply_error(request, &err);
        return;
    }
    int64_t limit = query_int(request, "limit", 100);
    struct question *question = question_new(request, ask_audit);
    question->asked_at = UINT64_MAX;
    question->filter = (struct audit_filter){
        .plugin = keep_text(question, 0, http_query_parameter(request, "plugin")),
        .event = keep_text(question, 1, http_query_parameter(request, "event")),
        .after_id = keep_text(question, 2, http_query_parameter(request, "after")),
        .since_ms = since_ms,
        .limit = limit > 0 ? (size_t)limit : 1,
    };
    ask_audit(question);
}

/* -- refusals ---------------------------------------------------------------------------------- */

static void on_refusals(void *data, struct kg_str json, const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    if (err_or_null != NULL)
        http_reply_error(request, err_or_null);
    else
        http_reply(request, 200, json);
}

static void handle_why(struct http_request *request)
{
    struct host_plugin *plugin = http_find_plugin(request);
    if (plugin != NULL)
        host_why(http_host(request), plugin, on_refusals, request);
}

/* -- the table
 * -------------------------------------------------------------------------------------------------------
 */

static const struct http_parameter plugin_query[] = {
    {"cage", "boolean", "true: also what its cage lets it see and do, in words"},
    {NULL, NULL, NULL},
};

static const struct http_parameter storage_query[] = {
    {"sql", "string", "one statement that only reads: its rows are the answer"},
    {NULL, NULL, NULL},
};

static const struct http_parameter logs_query[] = {
    {"lines", "integer", "how many of the last lines"},
    {"after", "integer", "only what came after this cursor"},
    {"wait_ms", "integer", "with after: wait so long for something to come"},
    {NULL, NULL, NULL},
};

static const struct http_parameter audit_query_parameters[] = {
    {"plugin", "string", "only events of this plugin"},
    {"event", "string", "only this event; plugin.hook.* takes all that start so"},
    {"since", "string", "only from this time on: RFC 3339, a date, or a span like 15m"},
    {"after", "string", "only events after the one with this id"},
    {"limit", "integer", "how many at most"},
    {"wait_ms", "integer", "wait so long for an event to come"},
    {NULL, NULL, NULL},
};

#define ANY_BODY SIZE_MAX

const struct http_route http_routes[] = {
    {"GET", "/healthz", "", 0, false, NULL, handle_health, "Whether the daemon answers"},
    {"GET", "/api/v1/status", "plugins:read", 0, false, NULL, handle_status, "The daemon's state"},
    {"POST", "/api/v1/reload", "admin", 0, false, NULL, handle_reload,
     "Read the configuration again"},
    {"POST", "/api/v1/stop", "admin", 0, false, NULL, handle_stop, "Stop the daemon"},
    {"GET", "/api/v1/plugins", "plugins:read", 0, false, NULL, handle_plugins, "All plugins"},
    {"GET", "/api/v1/plugins/{name}", "plugins:read", 0, false, plugin_query, handle_plugin,
     "One plugin with its state and its last exit"},
    {"POST", "/api/v1/plugins/{name}/enable", "plugins:write", 0, false, NULL, handle_enable,
     "Enable and start a plugin"},
    {"POST", "/api/v1/plugins/{name}/disable", "plugins:write", 0, false, NULL, handle_disable,
     "Stop and disable a plugin"},
    {"POST", "/api/v1/plugins/{name}/restart", "plugins:write", 0, false, NULL, handle_restart,
     "Restart a plugin"},
    {"GET", "/api/v1/plugins/{name}/logs", "plugins:read", 0, false, logs_query, handle_logs,
     "What a plugin wrote on stderr"},
    {"GET", "/api/v1/plugins/{name}/storage", "plugins:read", 0, false, storage_query,
     http_handle_storage, "What a plugin has stored"},
    {"POST", "/api/v1/plugins/{name}/storage/export", "admin", 0, false, NULL,
     http_handle_storage_export, "Copy a plugin's database to a file in the state folder"},
    {"POST", "/api/v1/plugins/{name}/storage/reset", "plugins:write", 0, false, NULL,
     http_handle_storage_reset, "Start with an empty database after one was damaged"},
    {"GET", "/api/v1/plugins/{name}/why", "plugins:read", 0, false, NULL, handle_why,
     "What a plugin was refused, and what would allow it"},
    {"GET", "/api/v1/plugins/{name}/call/{method}", "plugins:call", 0, true, NULL,
     handle_call_by_query, "Call a method, parameters in the query"},
    {"POST", "/api/v1/plugins/{name}/call/{method}", "plugins:call", ANY_BODY, false, NULL,
     handle_call, "Call a method, parameters in the body"},
    {"GET", "/api/v1/audit", "audit:read", 0, false, audit_query_parameters, handle_audit,
     "Events of the audit log"},
};
const size_t http_route_count = KG_COUNT(http_routes);
