/*
 * The plugins as the API shows them, one and all, and what an operator does with one: enable,
 * disable, restart, and ask what it was refused.
 */
#include "http/internal.h"

/* -- what a plugin is -------------------------------------------------------------------------- */

void http_put_lines(struct kg_json_writer *json, const char *key, struct kg_str text)
{
    kg_json_named_begin(json, key, '[');
    while (text.length > 0)
        kg_json_str(json, kg_str_cut(&text, '\n'));
    kg_json_end(json, ']');
}

/* null unless there is one. */
static void put_int(struct kg_json_writer *json, const char *key, bool there, int64_t value)
{
    kg_json_key(json, key);
    if (there)
        kg_json_int(json, value);
    else
        kg_json_null(json);
}

static void put_hits(struct kg_json_writer *json, const uint32_t hits[2])
{
    kg_json_named_int(json, "memory_kills", hits[CAGE_LIMIT_MEMORY]);
    kg_json_named_int(json, "fork_refusals", hits[CAGE_LIMIT_PROCESSES]);
}

static void http_plugins_put_limits(struct kg_json_writer *json,
                                    const struct instance_limits *limits,
                                    enum cage_limits_mode mode)
{
    kg_json_named_begin(json, "limits", '{');
    kg_json_named_text(json, "mode", cage_limits_names[mode]);
    kg_json_named_int(json, "memory_bytes", (int64_t)limits->memory_bytes);
    kg_json_named_int(json, "cpu_shares", limits->cpu_shares);
    kg_json_named_int(json, "processes_max", limits->processes_max);
    kg_json_named_int(json, "tmp_bytes", (int64_t)limits->tmp_bytes);
    kg_json_end(json, '}');
}

static void put_exit(struct kg_json_writer *json, struct host_named named,
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
    put_int(json, "exit_code", report->exit_code >= 0, report->exit_code);
    put_int(json, "signal", report->signal != 0, report->signal);
    kg_json_named_time(json, "at", report->at_ms);
    kg_json_named_time(json, "restart_at", report->restart_at_ms);
    kg_json_named_int(json, "failures", report->failures);
    put_hits(json, report->hits);
    http_put_lines(json, "last_stderr", kg_buf_view(&report->last_stderr));
    http_put_exit_trace(json, named, report->at_ms);
    kg_json_end(json, '}');
}

static void http_plugins_put_method(void *data, const char *method, bool offered)
{
    struct kg_json_writer *json = data;
    kg_json_begin(json, '{');
    kg_json_named_text(json, "name", method);
    kg_json_named_bool(json, "available", offered);
    kg_json_end(json, '}');
}

/* With its manifest, or else with its files. */
static void http_plugins_put_problem(struct kg_json_writer *json, const struct host_status *status)
{
    const struct kg_err *problem = status->problem->code != KG_OK ? status->problem : status->drift;
    bool invalid = problem->code != KG_OK;
    kg_json_named_text(json, "problem", invalid ? problem->message : NULL);
    kg_json_named_text(json, "problem_code", invalid ? kg_error_row(problem->code)->name : NULL);
    if (invalid && problem->hint[0] != '\0')
        kg_json_named_text(json, "problem_hint", problem->hint);
}

static void put_lines(struct kg_json_writer *json, const char *key,
                      const struct capability_set *set, size_t first)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_json_named_begin(json, key, '[');
    for (size_t i = first; i < set->count; i++) {
        text.length = 0;
        capability_print(&set->items[i], &text);
        kg_json_str(json, kg_buf_view(&text));
    }
    kg_json_end(json, ']');
}

/* What it may do, and which of it is the operator's own word. */
static void http_plugins_put_grants(struct kg_json_writer *json, const struct grants *grants)
{
    put_lines(json, "capabilities", &grants->set, 0);
    put_lines(json, "granted", &grants->set, grants->declared);
    put_lines(json, "closed", &grants->closed, 0);
}

/* What a plugin is, in a list and alone. */
static void http_plugins_put_identity(struct kg_json_writer *json, const struct host_status *status,
                                      const struct instance_facts *facts)
{
    const struct manifest *manifest = status->manifest;
    kg_json_named_text(json, "name", status->name);
    kg_json_named_text(json, "version", manifest ? manifest->version : NULL);
    if (manifest != NULL)
        kg_json_named_text(json, "protocol", manifest->is_mcp ? "mcp" : "kaged");
    kg_json_named_text(json, "state", instance_state_name(status->state));
    kg_json_named_text(json, "description", manifest ? manifest->description : NULL);
    kg_json_named_text(json, "homepage", manifest ? manifest->homepage : NULL);
    kg_json_named_text(json, "dir", status->dir);
    kg_json_named_text(json, "tier", status->tier);
    kg_json_named_bool(json, "dev", status->is_dev);
    kg_json_named_bool(json, "tools_wait", status->tools_wait);
    if (manifest != NULL)
        http_plugins_put_grants(json, status->grants);
    put_int(json, "pid", facts->pid != 0, facts->pid);
    http_plugins_put_problem(json, status);
}

static void put_exit_words(struct kg_json_writer *json, const struct exit_report *report)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    if (report != NULL)
        exit_report_words(report, &words);
    kg_json_named_text(json, "last_exit_words", report != NULL ? kg_buf_terminate(&words) : NULL);
}

/* How much it is used, in a list and alone. */
static void http_plugins_put_use(struct kg_json_writer *json, const struct host_usage *usage,
                                 const struct instance_facts *facts)
{
    kg_json_named_time(json, "started_at", facts->started_at_ms);
    kg_json_named_int(json, "starts", facts->starts);
    kg_json_named_int(json, "calls", (int64_t)usage->calls);
    kg_json_named_int(json, "errors", (int64_t)usage->errors);
    kg_json_named_int(json, "in_flight", facts->in_flight);
    kg_json_named_int(json, "p50_us", (int64_t)host_histogram_quantile_us(&usage->latency, 50));
    kg_json_named_int(json, "p99_us", (int64_t)host_histogram_quantile_us(&usage->latency, 99));
    kg_json_named_int(json, "memory_bytes", (int64_t)usage->memory_bytes);
    put_exit_words(json, facts->last_exit);
}

static const struct {
    const char *name;
    size_t offset;
} slot_members[] = {
    {"calls", offsetof(struct host_course_slot, calls)},
    {"errors", offsetof(struct host_course_slot, errors)},
    {"p50_us", offsetof(struct host_course_slot, p50_us)},
    {"p99_us", offsetof(struct host_course_slot, p99_us)},
};

void http_put_course(struct kg_json_writer *json, uint64_t now_ns,
                     const struct host_course_slot slots[HOST_COURSE_SLOTS])
{
    kg_json_named_begin(json, "course", '{');
    kg_json_named_int(json, "step_ms", HOST_COURSE_STEP_MS);
    kg_json_named_time(json, "until", kg_wall_ms() - (int64_t)host_course_age_ms(now_ns));
    for (size_t i = 0; i < KG_COUNT(slot_members); i++) {
        kg_json_named_begin(json, slot_members[i].name, '[');
        for (size_t k = 0; k < HOST_COURSE_SLOTS; k++) {
            uint32_t value;
            memcpy(&value, (const char *)&slots[k] + slot_members[i].offset, sizeof(value));
            kg_json_int(json, value);
        }
        kg_json_end(json, ']');
    }
    kg_json_end(json, '}');
}

static void put_own_course(struct kg_json_writer *json, struct host *host,
                           const struct host_usage *usage)
{
    struct host_course_slot slots[HOST_COURSE_SLOTS] = {0};
    uint64_t now_ns = loop_now_ns(host_loop(host));
    host_course_sum(usage->course, now_ns, slots);
    http_put_course(json, now_ns, slots);
}

static const char *meaning_of(const struct host_status *status)
{
    bool rests = status->state == INSTANCE_DISABLED || status->state == INSTANCE_IDLE;
    if (rests && status->problem->code != KG_OK)
        return "what it declares, or is configured with, cannot be used";
    if (rests && status->is_checked)
        return "its files are being compared with those that were approved";
    if (rests && status->drift->code != KG_OK && !status->is_stored)
        return status->drift->code == KG_E_NOT_APPROVED
                   ? "its file changed: it runs without what it was granted"
                   : "its file could not be run to its end; what it registered until then counts";
    if (rests && status->drift->code != KG_OK)
        return "its files are not those that were approved; no process";
    if (status->state == INSTANCE_IDLE && status->instance == NULL)
        return "enabled for the projects that want it; no process of its own";
    if (status->state == INSTANCE_IDLE && status->idle_since_ms == 0)
        return "starts at first use; no process";
    return instance_state_meaning(status->state);
}

static void http_plugins_put_methods(struct kg_json_writer *json, const struct host_status *status)
{
    kg_json_named_begin(json, "methods", '[');
    if (status->instance != NULL)
        instance_methods(status->instance, http_plugins_put_method, json);
    else if (status->manifest != NULL)
        for (char **method = status->manifest->method_names; *method != NULL; method++)
            http_plugins_put_method(json, *method, false);
    kg_json_end(json, ']');
}

static void put_life(struct kg_json_writer *json, struct host_named named,
                     const struct instance_facts *facts, const char *cages)
{
    const struct host_status status = host_status(named);
    kg_json_named_text(json, "state_meaning", meaning_of(&status));
    kg_json_named_time(json, "idle_since",
                       status.state == INSTANCE_IDLE ? status.idle_since_ms : 0);
    struct kg_str refused =
        status.instance ? instance_config_refused(status.instance) : KG_STR_NULL;
    kg_json_key(json, "config_refused");
    if (refused.length > 0)
        kg_json_str(json, refused);
    else
        kg_json_null(json);
    kg_json_named_begin(json, "projects", '[');
    host_put_users(named, json);
    kg_json_end(json, ']');
    kg_json_named_text(json, "cage_id", facts->cage_id[0] ? facts->cage_id : NULL);
    kg_json_named_text(json, "cages", cages);
    kg_json_named_int(json, "failures", facts->failures);
    kg_json_named_int(json, "health_failures", facts->health_failures);
    kg_json_named_int(json, "bytes_in", (int64_t)facts->bytes_in);
    kg_json_named_int(json, "bytes_out", (int64_t)facts->bytes_out);
    kg_json_named_int(json, "notifications_dropped", (int64_t)facts->notifications_dropped);
    kg_json_named_int(json, "net_connections", facts->net_connections);
    put_hits(json, facts->hits);
    if (status.manifest != NULL)
        http_plugins_put_limits(json, &facts->limits, facts->limits_mode);
    http_plugins_put_methods(json, &status);
    kg_json_named_bool(json, "recording",
                       named.process != NULL && host_trace_recorded(named.process) != NULL);
    kg_json_named_begin(json, "quarantined", '[');
    for (char *const *path = status.quarantined; path != NULL && *path != NULL; path++)
        kg_json_text(json, *path);
    kg_json_end(json, ']');
    put_exit(json, named, facts->last_exit);
}

/* A running plugin's cage as it is, else what the next start would build, or why it would not. */
static void http_plugins_put_cage(struct kg_json_writer *json, struct host_named named)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    const struct host_status status = host_status(named);
    struct kg_err err = *status.problem;
    kg_json_named_begin(json, "cage", '{');
    if (status.instance != NULL && instance_has_process(status.instance)) {
        kg_buf_str(&words, status.cage_words);
    } else if (status.manifest != NULL) {
        struct cage_plan *plan = host_plan(named, NULL, &err);
        if (plan != NULL)
            cage_plan_words(plan, &words);
        cage_plan_free(plan);
    }
    http_put_lines(json, "words", kg_buf_view(&words));
    kg_json_named_text(json, "problem", words.length == 0 ? err.message : NULL);
    kg_json_named_text(json, "hint", words.length == 0 && err.hint[0] != '\0' ? err.hint : NULL);
    kg_json_end(json, '}');
}

static void on_plugin_measured(void *data)
{
    struct http_request *request = data;
    struct host_named named;
    if (!http_find_plugin(request, &named))
        return;
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    const struct host_status status = host_status(named);
    const struct instance_facts facts = host_run_facts(named);
    http_plugins_put_identity(&json, &status, &facts);
    http_plugins_put_use(&json, status.usage, &facts);
    put_own_course(&json, http_host(request), status.usage);
    put_life(&json, named, &facts, host_cages(http_host(request)));
    if (http_query_flag(request, "cage"))
        http_plugins_put_cage(&json, named);
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

void http_reply_plugin(struct http_request *request)
{
    struct host_named named;
    if (http_find_plugin(request, &named))
        host_measure_plugins(http_host(request), &named, on_plugin_measured, request);
}

/* -- all of them, and what is done with one ---------------------------------------------------- */

void http_put_plugins(struct kg_json_writer *json, const struct host *host)
{
    size_t count;
    kg_auto(kg_free) struct host_named *names = host_names(host, &count);
    kg_json_named_begin(json, "plugins", '[');
    for (size_t i = 0; i < count; i++) {
        const struct host_status status = host_status(names[i]);
        const struct instance_facts facts = host_run_facts(names[i]);
        kg_json_begin(json, '{');
        http_plugins_put_identity(json, &status, &facts);
        http_plugins_put_use(json, status.usage, &facts);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

static void on_plugins_measured(void *data)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    http_put_plugins(&json, http_host(data));
    kg_json_end(&json, '}');
    http_reply(data, 200, kg_buf_view(&body));
}

void http_handle_plugins(struct http_request *request)
{
    host_measure_plugins(http_host(request), NULL, on_plugins_measured, request);
}

bool http_find_plugin(struct http_request *request, struct host_named *ret_named)
{
    struct kg_err err;
    int found =
        host_find(http_host(request), http_path_parameter(request, "name"), ret_named, &err);
    if (found < 0)
        http_reply_error(request, &err);
    return found == 0;
}

bool http_find_process(struct http_request *request, struct host_named *ret_named)
{
    struct kg_err err;
    if (!http_find_plugin(request, ret_named))
        return false;
    int found = host_check_process(*ret_named, &err);
    if (found < 0)
        http_reply_error(request, &err);
    return found == 0;
}

void http_on_acted(void *data, const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    if (err_or_null != NULL)
        http_reply_error(request, err_or_null);
    else
        http_reply_plugin(request);
}

void http_handle_enable(struct http_request *request)
{
    host_enable(http_host(request), http_path_parameter(request, "name"), http_operator(request),
                http_on_acted, request);
}

void http_handle_disable(struct http_request *request)
{
    host_disable(http_host(request), http_path_parameter(request, "name"), http_operator(request),
                 http_on_acted, request);
}

void http_handle_restart(struct http_request *request)
{
    host_restart(http_host(request), http_path_parameter(request, "name"), http_operator(request),
                 http_on_acted, request);
}

/* -- the operator's own lines ------------------------------------------------------------------ */

static void on_granted(void *data, const char *plugin, char *const *restarted,
                       const struct kg_err *err_or_null)
{
    struct http_request *request = data;
    struct host_named named;
    if (err_or_null != NULL) {
        http_reply_error(request, err_or_null);
        return;
    }
    if (!http_find_plugin(request, &named))
        return; /* it is gone by now */
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", plugin);
    http_plugins_put_grants(&json, host_status(named).grants);
    kg_json_named_list(&json, "restarted", (char **)restarted);
    kg_json_end(&json, '}');
    http_reply(request, 200, kg_buf_view(&body));
}

static void change_grants(struct http_request *request, bool revokes)
{
    const struct kg_node *lines = kg_node_list(http_body_tree(request), "capabilities");
    char **texts = kg_list_new(0);
    for (uint32_t i = 0; i < lines->count; i++)
        kg_list_add(&texts, kg_str_dup(lines->items[i].text));
    const struct host_grant grant = {
        .name = http_path_parameter(request, "name"),
        .project = kg_node_text(http_body_tree(request), "project"),
        .lines = texts,
        .revokes = revokes,
        .operator_id = http_operator(request),
    };
    host_grant(http_host(request), &grant, on_granted, request);
    kg_list_free(texts);
}

void http_handle_grant(struct http_request *request)
{
    change_grants(request, false);
}

void http_handle_revoke(struct http_request *request)
{
    change_grants(request, true);
}

/* -- refusals ---------------------------------------------------------------------------------- */

void http_handle_why(struct http_request *request)
{
    struct host_named named;
    if (http_find_plugin(request, &named))
        host_why(http_host(request), named, http_on_answer, request);
}
