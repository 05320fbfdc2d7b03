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

static void put_list(struct kg_json_writer *json, const char *key, char *const *list)
{
    kg_json_key(json, key);
    kg_json_begin(json, '[');
    for (; *list != NULL; list++)
        kg_json_text(json, *list);
    kg_json_end(json, ']');
}

/* Each line without its newline becomes an item. */
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
    kg_json_named_int(json, "memory_kills", hits[CAGE_LIMIT_MEMORY]);
    kg_json_named_int(json, "fork_refusals", hits[CAGE_LIMIT_PROCESSES]);
}

static void put_limits(struct kg_json_writer *json, const struct instance_limits *limits,
                       enum cage_limits_mode mode)
{
    kg_json_key(json, "limits");
    kg_json_begin(json, '{');
    kg_json_named_text(json, "mode", cage_limits_names[mode]);
    kg_json_named_int(json, "memory_bytes", (int64_t)limits->memory_bytes);
    kg_json_named_int(json, "cpu_shares", limits->cpu_shares);
    kg_json_named_int(json, "processes_max", limits->processes_max);
    kg_json_named_int(json, "tmp_bytes", (int64_t)limits->tmp_bytes);
    kg_json_end(json, '}');
}

static void put_exit(struct kg_json_writer *json, const struct host_plugin *plugin,
                     const struct exit_report *report)
{
    kg_json_key(json, "last_exit");
    if (report == NULL) {
        kg_json_null(json);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    exit_report_words(report, &words);
    kg_json_begin(json, '{');
    kg_json_named_text(json, "cause", exit_cause_name(report->cause));
    kg_json_named_str(json, "words", kg_buf_view(&words));
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
    kg_json_named_time(json, "at", report->at_ms);
    kg_json_named_time(json, "restart_at", report->restart_at_ms);
    kg_json_named_int(json, "failures", report->failures);
    put_hits(json, report->hits);
    put_lines(json, "last_stderr", kg_buf_view(&report->last_stderr));
    http_put_exit_trace(json, plugin, report->at_ms);
    kg_json_end(json, '}');
}

static void put_method(void *data, const char *method, bool offered)
{
    struct kg_json_writer *json = data;
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", method);
    kg_json_named_bool(json, "available", offered);
    kg_json_end(json, '}');
}

static void put_problem(struct kg_json_writer *json, const struct host_plugin *plugin)
{
    const struct kg_err *problem = host_plugin_problem(plugin);
    bool invalid = problem->code != KG_OK;
    kg_json_named_text(json, "problem", invalid ? problem->message : NULL);
    kg_json_named_text(json, "problem_code", invalid ? kg_error_row(problem->code)->name : NULL);
    if (invalid && problem->hint[0] != '\0')
        kg_json_named_text(json, "problem_hint", problem->hint);
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
    kg_json_named_text(json, "name", plugin->name);
    kg_json_named_text(json, "version", manifest ? manifest->version : NULL);
    kg_json_named_text(json, "state", host_plugin_state(plugin));
    kg_json_named_text(json, "description", manifest ? manifest->description : NULL);
    kg_json_named_text(json, "homepage", manifest ? manifest->homepage : NULL);
    kg_json_named_text(json, "dir", plugin->dir);
    kg_json_named_bool(json, "dev", plugin->dev != NULL);
    if (manifest != NULL)
        put_list(json, "capabilities", manifest->capabilities);
    kg_json_key(json, "pid");
    if (facts->pid != 0)
        kg_json_int(json, facts->pid);
    else
        kg_json_null(json);
    put_problem(json, plugin);
}

/* How much it is used, in a list and alone. */
static void put_use(struct kg_json_writer *json, const struct host_plugin *plugin,
                    const struct instance_facts *facts)
{
    kg_json_named_time(json, "started_at", facts->started_at_ms);
    kg_json_named_int(json, "starts", facts->starts);
    kg_json_named_int(json, "calls", (int64_t)plugin->calls);
    kg_json_named_int(json, "errors", (int64_t)plugin->errors);
    kg_json_named_int(json, "in_flight", facts->in_flight);
    kg_json_named_int(json, "p50_us", (int64_t)host_histogram_quantile_us(&plugin->latency, 50));
    kg_json_named_int(json, "p99_us", (int64_t)host_histogram_quantile_us(&plugin->latency, 99));
    kg_json_named_int(json, "memory_bytes", (int64_t)plugin->memory_bytes);
}

static void put_life(struct kg_json_writer *json, const struct host_plugin *plugin,
                     const struct instance_facts *facts, const char *cages)
{
    enum instance_state state = INSTANCE_DISABLED;
    if (plugin->instance != NULL)
        state = instance_state(plugin->instance);
    const char *meaning = instance_state_meaning(state);
    if (state == INSTANCE_DISABLED && plugin->problem.code != KG_OK)
        meaning = "what it declares, or is configured with, cannot be used";
    else if (state == INSTANCE_DISABLED && plugin->checks > 0)
        meaning = "its files are being compared with those that were approved";
    else if (state == INSTANCE_DISABLED && plugin->drift.code != KG_OK)
        meaning = "its files are not those that were approved; no process";
    kg_json_named_text(json, "state_meaning", meaning);
    kg_json_named_text(json, "cage_id", facts->cage_id[0] ? facts->cage_id : NULL);
    kg_json_named_text(json, "cages", cages);
    kg_json_named_int(json, "failures", facts->failures);
    kg_json_named_int(json, "health_failures", facts->health_failures);
    kg_json_named_int(json, "bytes_in", (int64_t)facts->bytes_in);
    kg_json_named_int(json, "bytes_out", (int64_t)facts->bytes_out);
    kg_json_named_int(json, "notifications_dropped", (int64_t)facts->notifications_dropped);
    kg_json_named_int(json, "net_connections", facts->net_connections);
    put_hits(json, facts->hits);
    if (plugin->instance != NULL)
        put_limits(json, &facts->limits, facts->limits_mode);
    kg_json_key(json, "methods");
    kg_json_begin(json, '[');
    if (plugin->instance != NULL)
        instance_methods(plugin->instance, put_method, json);
    kg_json_end(json, ']');
    kg_json_named_bool(json, "recording", host_trace_recorded(plugin) != NULL);
    put_exit(json, plugin, facts->last_exit);
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
    kg_json_named_text(json, "problem", words.length == 0 ? err.message : NULL);
    kg_json_named_text(json, "hint", words.length == 0 && err.hint[0] != '\0' ? err.hint : NULL);
    kg_json_end(json, '}');
}

static void on_plugin_measured(void *data)
{
    struct http_request *request = data;
    struct host_plugin *plugin = http_find_plugin(request);
    if (plugin == NULL)
        return;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    struct instance_facts facts = facts_of(plugin);
    put_identity(&json, plugin, &facts);
    put_use(&json, plugin, &facts);
    put_life(&json, plugin, &facts, host_cages(http_host(request)));
    if (kg_str_is(http_query_parameter(request, "cage"), "true"))
        put_cage(&json, http_host(request), plugin);
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

static void reply_plugin(struct http_request *request, struct host_plugin *plugin)
{
    host_measure_plugins(http_host(request), plugin, on_plugin_measured, request);
}

void http_reply_plugin(struct http_request *request)
{
    struct host_plugin *plugin = http_find_plugin(request);
    if (plugin != NULL)
        reply_plugin(request, plugin);
}

/* -- the daemon -------------------------------------------------------------------------------- */

static void handle_health(struct http_request *request)
{
    http_reply(request, 200, KG_STR("{\"status\":\"ok\"}"));
}

static void put_plugin_counts(struct kg_json_writer *json, const struct host *host)
{
    unsigned counts[INSTANCE_STATE_COUNT] = {0};
    for (size_t i = 0; i < host_plugin_count(host); i++) {
        const struct host_plugin *plugin = host_plugin_at(host, i);
        counts[plugin->instance ? instance_state(plugin->instance) : INSTANCE_DISABLED]++;
    }
    kg_json_key(json, "plugins");
    kg_json_begin(json, '{');
    for (enum instance_state state = 0; state < INSTANCE_STATE_COUNT; state++)
        if (counts[state] > 0)
            kg_json_named_int(json, instance_state_name(state), counts[state]);
    kg_json_end(json, '}');
}

static void put_figures(struct kg_json_writer *json, struct host *host)
{
    const struct host_figures *figures = host_figures(host);
    uint64_t calls = 0, errors = 0;
    for (size_t i = 0; i < host_plugin_count(host); i++) {
        calls += host_plugin_at(host, i)->calls;
        errors += host_plugin_at(host, i)->errors;
    }
    kg_json_named_int(json, "calls", (int64_t)calls);
    kg_json_named_int(json, "errors", (int64_t)errors);
    kg_json_named_int(json, "memory_bytes", (int64_t)figures->memory_bytes);
    kg_json_named_int(json, "open_fds", figures->open_fds);
    kg_json_named_int(json, "loop_lag_us", (int64_t)figures->lag_last_us);
    kg_json_named_int(json, "loop_lag_max_us", (int64_t)figures->lag_max_us);
    kg_json_named_int(json, "audit_events", (int64_t)host_audit_count(host));
    kg_json_named_int(json, "audit_queue_bytes", (int64_t)audit_waiting_bytes(host_audit(host)));
}

static void put_places(struct kg_json_writer *json, const struct http_request *request,
                       const struct host *host)
{
    const char *tcp = http_tcp_address(request);
    const struct config_paths *paths = host_paths(host);
    kg_json_named_text(json, "home", paths->home);
    kg_json_named_text(json, "config_file", paths->config_file);
    kg_json_named_text(json, "socket", paths->socket);
    kg_json_key(json, "listeners");
    kg_json_begin(json, '[');
    kg_json_text(json, paths->socket);
    if (tcp != NULL)
        kg_json_text(json, tcp);
    kg_json_end(json, ']');
    kg_json_named_text(json, "tcp", tcp);
}

static void on_daemon_measured(void *data)
{
    struct http_request *request = data;
    struct host *host = http_host(request);
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    const char *why = NULL;
    bool audit_ok = audit_ready(host_audit(host), &why);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "version", KAGED_VERSION);
    kg_json_named_int(&json, "pid", getpid());
    put_places(&json, request, host);
    kg_json_named_text(&json, "user", host_user(host));
    kg_json_named_text(&json, "cages", host_cages(host));
    kg_json_named_time(&json, "started_at", host_started_at_ms(host));
    kg_json_named_int(&json, "uptime_ms", kg_wall_ms() - host_started_at_ms(host));
    kg_json_named_bool(&json, "stopping", host_is_stopping(host));
    kg_json_named_text(&json, "audit_problem", audit_ok ? NULL : why);
    const struct cage_limits *limits = host_limits(host);
    kg_json_named_text(&json, "limits_mode", cage_limits_names[limits->mode]);
    kg_json_named_text(&json, "limits", limits->words);
    put_figures(&json, host);
    put_plugin_counts(&json, host);
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

static void handle_status(struct http_request *request)
{
    host_measure(http_host(request), on_daemon_measured, request);
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

/* -- plugins ----------------------------------------------------------------------------------- */

static void on_plugins_measured(void *data)
{
    struct http_request *request = data;
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
        put_use(&json, host_plugin_at(host, i), &facts);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

static void handle_plugins(struct http_request *request)
{
    host_measure_plugins(http_host(request), NULL, on_plugins_measured, request);
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

static void on_acted(void *data, const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    if (err_or_null != NULL)
        http_reply_error(request, err_or_null);
    else
        http_reply_plugin(request);
}

static void handle_enable(struct http_request *request)
{
    host_enable(http_host(request), http_path_parameter(request, "name"), http_operator(request),
                on_acted, request);
}

static void handle_disable(struct http_request *request)
{
    struct kg_err err;
    int result = host_disable(http_host(request), http_path_parameter(request, "name"),
                              http_operator(request), &err);
    on_acted(request, result < 0 ? &err : NULL);
}

static void handle_restart(struct http_request *request)
{
    host_restart(http_host(request), http_path_parameter(request, "name"), http_operator(request),
                 on_acted, request);
}

/* The router has checked that it is a number. */
static int64_t int_or(struct kg_str text, int64_t fallback)
{
    if (text.data != NULL)
        kg_str_to_int(text, &fallback);
    return fallback;
}

static int64_t query_int(const struct http_request *request, const char *name, int64_t fallback)
{
    return int_or(http_query_parameter(request, name), fallback);
}

static int64_t header_int(const struct http_request *request, const char *name, int64_t fallback)
{
    return int_or(http_header(request, name), fallback);
}

/* -- calls ------------------------------------------------------------------------------------- */

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
    kg_json_named_text(&json, "code", kg_error_row(reply->error.code)->name);
    kg_json_named_text(&json, "message", reply->error.message);
    if (reply->error.hint[0] != '\0')
        kg_json_named_text(&json, "hint", reply->error.hint);
    kg_json_named_text(&json, "request_id", http_request_id(request));
    kg_json_named_int(&json, "rpc_code", rpc_error_code(reply->plugin_error));
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

static void make_call(struct http_request *request, struct kg_str params)
{
    struct kg_err err = {0};
    struct waiting_call *waiting = kg_alloc(sizeof(*waiting));
    waiting->request = request;
    struct host_call_request call = {
        .plugin = http_path_parameter(request, "name"),
        .method = http_path_parameter(request, "method"),
        .params = params,
        .asker = http_asker(request),
        .caller_timeout_ms = (uint64_t)header_int(request, "kaged-timeout-ms", 0),
        .on_done = on_call_done,
        .data = waiting,
    };
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
    kg_json_named_int(&json, "cursor", cursor);
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
    int64_t since_ms = 0;
    struct kg_str since = http_query_parameter(request, "since");
    if (since.data != NULL)
        kg_time_parse(since, &since_ms);
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

/* -- the table --------------------------------------------------------------------------------- */

static const struct http_parameter plugin_query[] = {
    {"cage", "boolean", "true: also what its cage lets it see and do, in words"},
    {NULL, NULL, NULL},
};

static const struct http_parameter uninstall_query[] = {
    {"force", "boolean", "true: also while sessions use it"},
    {"keep_storage", "boolean", "true: its database is kept, moved aside"},
    {NULL, NULL, NULL},
};

static const struct http_parameter storage_query[] = {
    {"sql", "string", "one statement that only reads: its rows are the answer"},
    {NULL, NULL, NULL},
};

static const struct http_parameter logs_query[] = {
    {"lines", "count", "how many of the last lines"},
    {"after", "count", "only what came after this cursor"},
    {"wait_ms", "count", "with after: wait so long for something to come"},
    {NULL, NULL, NULL},
};

static const struct http_parameter trace_query[] = {
    {"of", "string",
     "live: as it happens, which is what goes without saying; recorded: what the recorder has; "
     "crash: what it had when the plugin last died"},
    {NULL, NULL, NULL},
};

static const struct http_parameter audit_query_parameters[] = {
    {"plugin", "string", "only events of this plugin"},
    {"event", "string", "only this event; plugin.hook.* takes all that start so"},
    {"since", "time", "only from this time on: RFC 3339, a date, or a span like 15m"},
    {"after", "string", "only events after the one with this id"},
    {"limit", "count", "how many at most"},
    {"wait_ms", "count", "wait so long for an event to come"},
    {NULL, NULL, NULL},
};

static const struct http_parameter call_headers[] = {
    {"kaged-timeout-ms", "positive", "the caller's own deadline"},
    {NULL, NULL, NULL},
};

static const struct http_parameter events_query[] = {
    {"plugin", "string", "only events of this plugin"},
    {"event", "string",
     "only this notification, new state or audit event; a last * takes all that start so"},
    {"type", "string", "only notification, state or audit"},
    {NULL, NULL, NULL},
};

static const struct http_parameter unload_query[] = {
    {"force", "boolean", "true: also while sessions are in it"},
    {NULL, NULL, NULL},
};

static const struct http_parameter agent_query[] = {
    {"tools", "string", "openai or anthropic: also its tools as that API takes them"},
    {NULL, NULL, NULL},
};

static const struct http_parameter knob_query[] = {
    {"project", "string", "as an agent of this project has it"},
    {"agent", "string", "that agent, by its path; the primary without it"},
    {NULL, NULL, NULL},
};

static const struct http_parameter launch_query[] = {
    {"token", "string", "the one-time token of a launch URL"},
    {NULL, NULL, NULL},
};

static const struct http_parameter sessions_query[] = {
    {"state", "string", "only sessions that are active, idle, stopped or closed"},
    {"before", "string", "only sessions that are older than the one with this id"},
    {"limit", "count", "how many at most"},
    {NULL, NULL, NULL},
};

static const struct http_parameter entries_query[] = {
    {"agent", "string", "only entries of this agent"},
    {"after", "count", "only entries with a larger seq"},
    {"limit", "count", "how many at most"},
    {NULL, NULL, NULL},
};

static const struct http_parameter context_query[] = {
    {"agent", "string", "of this agent, instead of the one that is spoken to"},
    {"tools", "string", "also its tools, as openai or anthropic take them"},
    {NULL, NULL, NULL},
};

static const struct http_parameter tool_query[] = {
    {"agent", "string", "for this agent, instead of the one that is spoken to"},
    {NULL, NULL, NULL},
};

#define ANY_BODY    SIZE_MAX
#define TOKEN_BODY  ((size_t)4096)
#define SOURCE_BODY ((size_t)4096)

/* In order: method, pattern, permission, body, query, handler, summary. */
const struct http_route http_routes[] = {
    {"GET", "/healthz", "", 0, NULL, handle_health, "Whether the daemon answers",
     .operation = "health", .answer = "Health"},
    {"GET", "/metrics", "plugins:read", 0, NULL, http_handle_metrics,
     "Figures of the daemon and its plugins, for Prometheus", .operation = "metrics",
     .answer = "text/plain"},
    {"GET", "/api/v1/status", "plugins:read", 0, NULL, handle_status, "The daemon's state",
     .operation = "status", .answer = "Status"},
    {"GET", "/api/v1/openapi.json", "any", 0, NULL, http_handle_openapi,
     "This API as an OpenAPI document", .operation = "openapi", .answer = "OpenApi"},
    {"POST", "/api/v1/reload", "admin", 0, NULL, handle_reload, "Read the configuration again",
     .operation = "reload", .answer = "Reload"},
    {"POST", "/api/v1/stop", "admin", 0, NULL, handle_stop, "Stop the daemon", .operation = "stop",
     .answer = "Stopping", .status = 202},
    {"GET", "/api/v1/plugins", "plugins:read", 0, NULL, handle_plugins, "All plugins",
     .operation = "plugin_list", .answer = "PluginList"},
    {"GET", "/api/v1/plugins/{name}", "plugins:read", 0, plugin_query, http_reply_plugin,
     "One plugin with its state and its last exit", .operation = "plugin_status",
     .answer = "Plugin"},
    {"POST", "/api/v1/plugins", "plugins:write", SOURCE_BODY, NULL, http_handle_plugin_install,
     "Fetch a plugin, and offer it for consent", .operation = "plugin_install", .answer = "Consent",
     .status = 202, .body = "Source"},
    {"POST", "/api/v1/dev", "admin", SOURCE_BODY, NULL, http_handle_dev,
     "Run a plugin from its author's folder while he changes it: what happens, one object a line",
     .operation = "plugin_dev", .answer = "application/x-ndjson", .body = "DevWanted"},
    {"DELETE", "/api/v1/plugins/{name}", "plugins:write", 0, uninstall_query,
     http_handle_plugin_uninstall, "Stop a plugin and remove it", .operation = "plugin_uninstall",
     .answer = "Uninstalled"},
    {"POST", "/api/v1/plugins/{name}/upgrade", "plugins:write", SOURCE_BODY, NULL,
     http_handle_plugin_upgrade, "Fetch another version of a plugin, and offer it for consent",
     .operation = "plugin_upgrade", .answer = "Consent", .status = 202, .body = "Source"},
    {"POST", "/api/v1/plugins/{name}/approve", "plugins:write", 0, NULL, http_handle_plugin_approve,
     "Offer the files of a plugin, as they are, for consent", .operation = "plugin_approve",
     .answer = "Consent", .status = 202},
    {"POST", "/api/v1/plugins/{name}/promote", "plugins:write", 0, NULL, http_handle_plugin_promote,
     "Make a plugin available to every project", .operation = "plugin_promote", .answer = "Plugin"},
    {"POST", "/api/v1/plugins/{name}/enable", "plugins:write", 0, NULL, handle_enable,
     "Enable and start a plugin", .operation = "plugin_enable", .answer = "Plugin"},
    {"POST", "/api/v1/plugins/{name}/disable", "plugins:write", 0, NULL, handle_disable,
     "Stop and disable a plugin", .operation = "plugin_disable", .answer = "Plugin"},
    {"POST", "/api/v1/plugins/{name}/restart", "plugins:write", 0, NULL, handle_restart,
     "Restart a plugin", .operation = "plugin_restart", .answer = "Plugin"},
    {"POST", "/api/v1/plugins/{name}/reload", "plugins:write", 0, NULL, http_handle_plugin_reload,
     "Read a plugin's manifest and configuration again", .operation = "plugin_reload",
     .answer = "PluginReload"},
    {"GET", "/api/v1/plugins/{name}/logs", "plugins:read", 0, logs_query, handle_logs,
     "What a plugin wrote on stderr", .operation = "plugin_logs", .answer = "Logs"},
    {"GET", "/api/v1/plugins/{name}/tools", "plugins:read", 0, NULL, http_handle_tools,
     "The tools that a plugin declares", .operation = "plugin_tools", .answer = "Tools"},
    {"GET", "/api/v1/plugins/{name}/knobs", "plugins:read", 0, knob_query, http_handle_knobs,
     "The knobs that a plugin declares, with their values", .operation = "plugin_knobs",
     .answer = "Knobs"},
    {"PUT", "/api/v1/plugins/{name}/knobs/{knob}", "projects:write", ANY_BODY, knob_query,
     http_handle_knob_write, "Turn a knob for an agent: its project's file is changed",
     .operation = "plugin_knob_write", .answer = "KnobWritten", .body = "KnobWanted"},
    {"GET", "/api/v1/plugins/{name}/schema", "plugins:read", 0, NULL, http_handle_schema,
     "The schemas that a plugin declares, of its configuration and its methods",
     .operation = "plugin_schema", .answer = "DeclaredSchemas"},
    {"GET", "/api/v1/plugins/{name}/storage", "plugins:read", 0, storage_query, http_handle_storage,
     "What a plugin has stored", .operation = "plugin_storage", .answer = "StorageAnswer"},
    {"POST", "/api/v1/plugins/{name}/storage/export", "admin", 0, NULL, http_handle_storage_export,
     "Copy a plugin's database to a file in the state folder", .operation = "plugin_storage_export",
     .answer = "StorageExport"},
    {"POST", "/api/v1/plugins/{name}/storage/reset", "plugins:write", 0, NULL,
     http_handle_storage_reset, "Start with an empty database after one was damaged",
     .operation = "plugin_storage_reset", .answer = "Storage"},
    {"GET", "/api/v1/plugins/{name}/why", "plugins:read", 0, NULL, handle_why,
     "What a plugin was refused, and what would allow it", .operation = "plugin_why",
     .answer = "Refusals"},
    {"GET", "/api/v1/plugins/{name}/trace", "admin", 0, trace_query, http_handle_trace,
     "What is said with a plugin, one record a line; secrets are redacted",
     .operation = "plugin_trace", .answer = "application/x-ndjson"},
    {"POST", "/api/v1/plugins/{name}/trace", "admin", SOURCE_BODY, NULL, http_handle_trace_switch,
     "Switch the recorder of a plugin on or off", .operation = "plugin_trace_switch",
     .answer = "TraceRecorder", .body = "TraceSwitch"},
    {"GET", "/api/v1/plugins/{name}/call/{method}", "plugins:call", 0, NULL, handle_call_by_query,
     "Call a method, parameters in the query", .operation = "plugin_call_by_query",
     .answer = "Result", .headers = call_headers, .any_query = true},
    {"POST", "/api/v1/plugins/{name}/call/{method}", "plugins:call", ANY_BODY, NULL, handle_call,
     "Call a method, parameters in the body", .operation = "plugin_call", .answer = "Result",
     .body = "Params", .headers = call_headers},
    {"GET", "/", "", 0, launch_query, http_handle_root,
     "With a launch token: a session for the browser", .operation = "root", .answer = "text/plain"},
    {"GET", "/auth/launch", "", 0, launch_query, http_handle_launch,
     "A session for the browser, as a cookie", .operation = "launch", .answer = "text/plain",
     .status = 303},
    {"POST", "/api/v1/launch", "admin", 0, NULL, http_handle_launch_make,
     "The launch URL that waits to be used, or a new one", .operation = "launch_make",
     .answer = "Launch", .status = 201},
    {"GET", "/api/v1/session", "any", 0, NULL, http_handle_session,
     "Who asks, what he may do, and his CSRF token", .operation = "session", .answer = "Session"},
    {"DELETE", "/api/v1/session", "any", 0, NULL, http_handle_session_end, "Log out",
     .operation = "session_end", .status = 204},
    {"GET", "/api/v1/tokens", "admin", 0, NULL, http_handle_tokens, "All API tokens",
     .operation = "token_list", .answer = "TokenList"},
    {"POST", "/api/v1/tokens", "admin", TOKEN_BODY, NULL, http_handle_token_create,
     "Make an API token of {name, scopes, expires}; its text is in this answer only",
     .operation = "token_create", .answer = "TokenMade", .body = "TokenWanted", .status = 201},
    {"DELETE", "/api/v1/tokens/{id}", "admin", 0, NULL, http_handle_token_revoke,
     "Revoke an API token, by its id or name", .operation = "token_revoke", .answer = "Token"},
    {"GET", "/api/v1/consents", "plugins:read", 0, NULL, http_handle_consents,
     "What waits for the operator's word, and what was answered", .operation = "consent_list",
     .answer = "ConsentList"},
    {"GET", "/api/v1/consents/{id}", "plugins:read", 0, NULL, http_handle_consent,
     "One consent, with what is offered", .operation = "consent_show", .answer = "Consent"},
    {"POST", "/api/v1/consents/{id}/approve", "consents:write", SOURCE_BODY, NULL,
     http_handle_consent_approve, "Let it be fetched; or, with its hash, take what was shown",
     .operation = "consent_approve", .answer = "Consent", .status = 202, .body = "Approval"},
    {"POST", "/api/v1/consents/{id}/decline", "consents:write", 0, NULL,
     http_handle_consent_decline, "Say no", .operation = "consent_decline", .answer = "Consent"},
    {"GET", "/api/v1/projects", "projects:read", 0, NULL, http_handle_projects,
     "All projects that are loaded", .operation = "project_list", .answer = "ProjectList"},
    {"POST", "/api/v1/projects", "projects:write", SOURCE_BODY, NULL, http_handle_project_load,
     "Load a project, or read it again", .operation = "project_load", .answer = "Project",
     .body = "ProjectWanted"},
    {"GET", "/api/v1/projects/{id}", "projects:read", 0, NULL, http_handle_project,
     "One project with all that its agents have", .operation = "project_show", .answer = "Project"},
    {"DELETE", "/api/v1/projects/{id}", "projects:write", 0, unload_query,
     http_handle_project_unload, "Forget a project; its files stay", .operation = "project_unload",
     .answer = "Unloaded"},
    {"POST", "/api/v1/projects/{id}/reload", "projects:write", 0, NULL, http_handle_project_reload,
     "Read a project's file again, and say what changed", .operation = "project_reload",
     .answer = "Project"},
    {"GET", "/api/v1/projects/{id}/agents", "projects:read", 0, NULL, http_handle_agents,
     "The agents of a project", .operation = "agent_list", .answer = "AgentList"},
    {"GET", "/api/v1/projects/{id}/agents/{path}", "projects:read", 0, agent_query,
     http_handle_agent, "One agent with its plugins, tools and settings", .operation = "agent_show",
     .answer = "Agent"},
    {"POST", "/api/v1/projects/{id}/sessions", "sessions:write", ANY_BODY, NULL,
     http_handle_session_create, "Begin a session", .operation = "session_create",
     .answer = "AgentSession", .body = "SessionWanted", .status = 201},
    {"GET", "/api/v1/projects/{id}/sessions", "sessions:read", 0, sessions_query,
     http_handle_sessions, "The sessions of a project, the newest first",
     .operation = "project_sessions", .answer = "AgentSessions"},
    {"GET", "/api/v1/sessions", "sessions:read", 0, sessions_query, http_handle_sessions,
     "All sessions, the newest first", .operation = "session_list", .answer = "AgentSessions"},
    {"GET", "/api/v1/sessions/{id}", "sessions:read", 0, NULL, http_handle_session_show,
     "One session", .operation = "session_show", .answer = "AgentSession"},
    {"DELETE", "/api/v1/sessions/{id}", "sessions:write", 0, NULL, http_handle_session_close,
     "Close a session; what was said stays", .operation = "session_close",
     .answer = "AgentSession"},
    {"GET", "/api/v1/sessions/{id}/entries", "sessions:read", 0, entries_query,
     http_handle_session_entries, "What was said, in its order", .operation = "session_entries",
     .answer = "SessionEntries"},
    {"GET", "/api/v1/sessions/{id}/context", "sessions:read", 0, context_query,
     http_handle_session_context, "What the model of an agent would be sent",
     .operation = "session_context", .answer = "SessionContext"},
    {"POST", "/api/v1/sessions/{id}/messages", "sessions:write", ANY_BODY, NULL,
     http_handle_session_messages, "Add messages, without asking a model",
     .operation = "session_messages", .answer = "SessionAdded", .body = "SessionMessages"},
    {"POST", "/api/v1/sessions/{id}/tools/{tool}", "sessions:write", ANY_BODY, tool_query,
     http_handle_session_tool, "Call a tool, its arguments in the body; call and result are kept",
     .operation = "session_tool", .answer = "SessionTool", .body = "Params"},
    {"POST", "/api/v1/sessions/{id}/idle", "sessions:write", 0, NULL, http_handle_session_idle,
     "Tell the plugins that the session is idle", .operation = "session_idle",
     .answer = "SessionIdle"},
    {"POST", "/api/v1/sessions/{id}/compact", "sessions:write", SOURCE_BODY, NULL,
     http_handle_session_compact, "Make the context of an agent smaller",
     .operation = "session_compact", .answer = "SessionCompacted", .body = "SessionCompact"},
    {"POST", "/api/v1/sessions/{id}/undo-compact", "sessions:write", SOURCE_BODY, NULL,
     http_handle_session_undo, "Take the latest compaction of an agent back",
     .operation = "session_undo_compact", .answer = "SessionUndone", .body = "SessionAgent"},
    {"POST", "/api/v1/sessions/{id}/pin", "sessions:write", SOURCE_BODY, NULL,
     http_handle_session_pin, "Keep an entry in its context, whatever is compacted",
     .operation = "session_pin", .answer = "SessionEntry", .body = "SessionPin"},
    {"POST", "/api/v1/sessions/{id}/fork", "sessions:write", SOURCE_BODY, NULL,
     http_handle_session_fork, "Make a session of all up to an entry", .operation = "session_fork",
     .answer = "AgentSession", .body = "SessionFork", .status = 201},
    {"POST", "/api/v1/sessions/{id}/resume", "sessions:write", SOURCE_BODY, NULL,
     http_handle_session_resume, "Let a session go on, maybe with another agent",
     .operation = "session_resume", .answer = "AgentSession", .body = "SessionSeat"},
    {"POST", "/api/v1/sessions/{id}/runs", "sessions:write", ANY_BODY, NULL, http_handle_run,
     "Say something, and have the agent's model answer: events of the turn, one a line",
     .operation = "session_run", .answer = "application/x-ndjson", .body = "SessionRun"},
    {"POST", "/api/v1/sessions/{id}/cancel", "sessions:write", 0, NULL, http_handle_run_cancel,
     "End the turn that runs, if one does", .operation = "session_cancel",
     .answer = "SessionCancelled"},
    {"GET", "/api/v1/audit", "audit:read", 0, audit_query_parameters, handle_audit,
     "Events of the audit log", .operation = "audit", .answer = "Audit"},
    {"GET", "/api/v1/events", "plugins:read", 0, events_query, http_handle_events,
     "A WebSocket of events as they happen", .operation = "events", .status = 101},
};
const size_t http_route_count = KG_COUNT(http_routes);
