/* The daemon itself: whether it answers, how it is, its configuration read again, its end. */
#include "http/internal.h"

#include <limits.h>
#include <signal.h>
#include <unistd.h>

void http_handle_health(struct http_request *request)
{
    http_reply(request, 200, KG_STR("{\"status\":\"ok\"}"));
}

static void http_daemon_put_plugin_counts(struct kg_json_writer *json, const struct host *host)
{
    unsigned counts[INSTANCE_STATE_COUNT] = {0};
    size_t count;
    kg_auto(kg_free) struct host_named *names = host_names(host, &count);
    for (size_t i = 0; i < count; i++)
        counts[host_status(names[i]).state]++;
    kg_json_named_begin(json, "plugins", '{');
    for (enum instance_state state = 0; state < INSTANCE_STATE_COUNT; state++)
        if (counts[state] > 0)
            kg_json_named_int(json, instance_state_name(state), counts[state]);
    kg_json_end(json, '}');
}

static void http_daemon_put_figures(struct kg_json_writer *json, struct host *host)
{
    const struct host_figures *figures = host_figures(host);
    uint64_t calls = 0, errors = 0;
    size_t count;
    kg_auto(kg_free) struct host_named *names = host_names(host, &count);
    for (size_t i = 0; i < count; i++) {
        calls += host_status(names[i]).usage->calls;
        errors += host_status(names[i]).usage->errors;
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

/* Where our own log goes: a file in the background, else what stderr is. */
static void http_daemon_put_log(struct kg_json_writer *json)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/fd/2", path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = '\0';
    kg_json_named_text(json, "log", path[0] == '/' ? path : "stderr");
}

static void put_places(struct kg_json_writer *json, const struct http_request *request,
                       const struct host *host)
{
    const struct http_server *server = http_server_of(request);
    const char *tcp = server ? http_server_address(server) : NULL;
    const struct config_paths *paths = host_paths(host);
    kg_json_named_text(json, "home", paths->home);
    kg_json_named_text(json, "config_file", paths->config_file);
    kg_json_named_text(json, "socket", paths->socket);
    kg_json_named_begin(json, "listeners", '[');
    kg_json_text(json, paths->socket);
    if (tcp != NULL)
        kg_json_text(json, tcp);
    kg_json_end(json, ']');
    kg_json_named_text(json, "tcp", tcp);
    kg_json_named_text(json, "tcp_problem", server ? http_server_tcp_problem(server) : NULL);
    http_daemon_put_log(json);
}

void http_put_status(struct kg_json_writer *json, const struct http_request *request)
{
    struct host *host = http_host(request);
    const char *why = NULL;
    bool audit_ok = audit_ready(host_audit(host), &why);
    kg_json_begin(json, '{');
    kg_json_named_text(json, "version", KAGED_VERSION);
    kg_json_named_int(json, "pid", getpid());
    put_places(json, request, host);
    kg_json_named_text(json, "user", host_user(host));
    kg_json_named_text(json, "cages", host_cages(host));
    kg_json_named_time(json, "started_at", host_started_at_ms(host));
    kg_json_named_int(json, "uptime_ms", kg_wall_ms() - host_started_at_ms(host));
    kg_json_named_bool(json, "stopping", host_is_stopping(host));
    kg_json_named_text(json, "audit_problem", audit_ok ? NULL : why);
    const struct cage_limits *limits = host_limits(host);
    kg_json_named_text(json, "limits_mode", cage_limits_names[limits->mode]);
    kg_json_named_text(json, "limits", limits->words);
    http_daemon_put_figures(json, host);
    http_daemon_put_plugin_counts(json, host);
    kg_json_end(json, '}');
}

static void on_daemon_measured(void *data)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    http_put_status(&json, data);
    http_reply(data, 200, kg_buf_view(&body));
}

void http_handle_status(struct http_request *request)
{
    host_measure(http_host(request), on_daemon_measured, request);
}

void http_handle_doctor(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    cage_checks_json(host_checks(http_host(request)),
                     cage_checks_worst(host_checks(http_host(request))), &json);
    http_reply(request, 200, kg_buf_view(&body));
}

/* Plugins whose manifest, or part of local.toml, cannot be used; each by one name. */
static void http_daemon_put_problems(struct kg_json_writer *json, const struct host *host)
{
    size_t count;
    kg_auto(kg_free) struct host_named *names = host_names(host, &count);
    kg_json_named_begin(json, "problems", '[');
    for (size_t i = 0; i < count; i++) {
        const struct host_status status = host_status(names[i]);
        if (status.problem->code == KG_OK || strcmp(status.name, status.plugin) != 0)
            continue;
        kg_json_begin(json, '{');
        kg_json_named_text(json, "plugin", status.plugin);
        kg_json_named_text(json, "message", status.problem->message);
        kg_json_named_text(json, "hint", status.problem->hint);
        kg_json_end(json, '}');
    }
    kg_json_end(json, ']');
}

static void http_daemon_on_reloaded(void *data, struct kg_str changed,
                                    const struct kg_err *err_or_null)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    if (err_or_null == NULL) {
        kg_json_begin(&json, '{');
        kg_json_key(&json, "changed");
        kg_json_raw(&json, changed);
        http_daemon_put_problems(&json, http_host(data));
        kg_json_end(&json, '}');
    }
    http_on_answer(data, kg_buf_view(&body), err_or_null);
}

void http_handle_reload(struct http_request *request)
{
    host_reload(http_host(request), http_operator(request), http_daemon_on_reloaded, request);
}

/* Whoever may read the whole home can copy it without a daemon: here it is only recorded. */
void http_handle_backup_made(struct http_request *request)
{
    kg_auto(kg_free) char *file = http_body_text(request, "file");
    audit_emit(host_audit(http_host(request)), AUDIT_HOME_BACKED_UP, KG_STR_NULL,
               AUDIT_V_TEXT(file), AUDIT_V_INT(http_body_int(request, "files", 0)),
               AUDIT_V_INT(http_body_int(request, "bytes", 0)),
               AUDIT_V_TEXT(http_operator(request)));
    http_reply(request, 201, http_body(request));
}

void http_handle_stop(struct http_request *request)
{
    http_reply(request, 202, KG_STR("{\"stopping\":true}"));
    kill(getpid(), SIGTERM); /* the one way to stop: the signal handler of the daemon */
}
