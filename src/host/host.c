/*
 * The host from its start to its end: it owns the audit log, the state database, the store, the
 * gate and the list of plugins, and follows a new configuration whole or not at all.
 */
#include "cluster/cluster.h"
#include "host/cluster.h"
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define ENVELOPE_BYTES 256 /* around a result, on its line */

/* -- making it --------------------------------------------------------------------------------- */

static void apply_limits(struct host *host)
{
    const struct config *config = host->config;
    host->supervisor.limits = (struct supervisor_limits){
        .wire =
            {
                .line_max_bytes = (size_t)config->limits_line_max_bytes,
                .write_queue_max_bytes = (size_t)config->limits_write_queue_bytes,
                .calls_in_flight_max = (uint32_t)config->limits_calls_in_flight,
                .notifications_per_sec = (uint32_t)config->limits_notifications_per_sec,
                .call_wait_ms = (uint64_t)config->limits_call_wait_ms,
            },
        .initialize_timeout_ms = (uint64_t)config->limits_initialize_timeout_ms,
        .ping_timeout_ms = (uint64_t)config->limits_ping_timeout_ms,
        .health_failures = (uint32_t)config->limits_health_failures,
        .restart_delay_ms = (uint64_t)config->limits_restart_delay_ms,
        .restart_delay_max_ms = (uint64_t)config->limits_restart_delay_max_ms,
        .restart_failures = (uint32_t)config->limits_restart_failures,
        .restart_window_ms = (uint64_t)config->limits_restart_window_ms,
        .restart_reset_ms = (uint64_t)config->limits_restart_reset_ms,
        .term_timeout_ms = (uint64_t)config->limits_term_timeout_ms,
        .noise_events_per_sec = (uint32_t)config->limits_noise_events_per_sec,
        .stderr_line_max_bytes = (size_t)config->limits_stderr_line_bytes,
        .stderr_lines_per_sec = (uint32_t)config->limits_stderr_lines_per_sec,
        .audit_stderr = config->audit_stderr,
        .log_rotate_bytes = (size_t)config->logging_rotate_bytes,
        .watchdog_interval_ms = (uint64_t)config->limits_watchdog_interval_ms,
    };
}

struct gate_limits host_gate_limits(const struct config *config)
{
    return (struct gate_limits){
        .connections_max = (uint32_t)config->limits_net_connections,
        .connections_per_sec = (uint32_t)config->limits_net_connections_per_sec,
        .events_per_sec = (uint32_t)config->limits_net_events_per_sec,
        .connect_timeout_ms = (uint64_t)config->limits_net_connect_timeout_ms,
        .idle_timeout_ms = (uint64_t)config->limits_net_idle_timeout_ms,
        .private_networks = config->sandbox_private_networks,
    };
}

struct storage_limits host_storage_limits(const struct config *config)
{
    int64_t longest = config->limits_line_max_bytes - ENVELOPE_BYTES;
    int64_t result = config->limits_storage_result_bytes;
    return (struct storage_limits){
        .size_bytes = config->limits_storage_size_bytes,
        .statement_ms = config->limits_storage_statement_ms,
        .rows_max = config->limits_storage_rows,
        .result_bytes = result < longest ? result : longest,
        .line_bytes = config->limits_line_max_bytes,
        .sql_bytes = config->limits_storage_sql_bytes,
        .value_bytes = config->limits_storage_value_bytes,
        .depth = config->limits_storage_depth,
        .variables = config->limits_storage_variables,
        .requests_max = (uint32_t)config->limits_storage_requests,
        .idle_ms = (uint64_t)config->limits_storage_idle_ms,
        .sync_full = strcmp(config->storage_sync, "full") == 0,
    };
}

static struct audit *open_audit(struct host *host, struct kg_err *err)
{
    const struct audit_options options = {
        .dir = host->paths->audit_dir,
        .state_db = host->paths->state_db,
        .key_file = host->paths->audit_key,
        .rotate_bytes = (uint64_t)host->config->audit_rotate_mb * 1024 * 1024,
        .keep = (unsigned)host->config->audit_keep,
        .seal_interval_ms = (uint64_t)host->config->audit_seal_interval_ms,
        .queue_bytes = (size_t)host->config->audit_queue_bytes,
    };
    return audit_open(host->loop, &options, err);
}

static void on_audit_event(struct audit_listener *listener, struct kg_str line,
                           enum audit_event event)
{
    struct host *host = KG_CONTAINER(listener, struct host, listener);
    host->audit_count++;
    host_events_audit(host->events, line, event);
}

/* On the gate's thread. A connection that cannot be audited is not made. */
static enum gate_hearing hearing_of_audit(void *audit)
{
    if (audit_ready(audit, NULL))
        return GATE_HEARS;
    return audit_is_behind(audit) ? GATE_HEARS_LATER : GATE_HEARS_NOTHING;
}

static int open_gate(struct host *host, struct kg_err *err)
{
    const struct gate_limits limits = host_gate_limits(host->config);
    if (host->facts == NULL)
        return 0; /* nobody will have a network */
    host->gate = gate_new(host->loop, &limits, err);
    host->supervisor.gate = host->gate;
    if (host->gate == NULL)
        return -EINVAL;
    gate_ask_first(host->gate, hearing_of_audit, host->audit);
    return 0;
}

/* The daemon stops only when nothing is being fetched any more. */
static void on_store_idle(void *data)
{
    host_look_for_stop(data);
}

static void host_open_store(struct host *host, const struct host_parts *parts)
{
    const struct store_parts store = {
        .loop = host->loop,
        .spawner = parts->spawner,
        .facts = parts->facts,
        .gate = host->gate,
        .on_network = host_fetch_network,
        .network_data = host,
        .paths = parts->paths,
        .plugins_dir = host->plugins_dir,
        .limits = store_limits_of(host->config),
    };
    host->store = store_new(&store);
    store_on_idle(host->store, on_store_idle, host);
}

struct host *host_new(const struct host_parts *parts, struct kg_err *err)
{
    struct host *host = kg_alloc(sizeof(*host));
    host->loop = parts->loop;
    host->events = host_events_new();
    host_door_open(host);
    host->paths = parts->paths;
    host->cages = parts->cages;
    host->user = parts->user;
    host->config = parts->config;
    host->on_reloaded = parts->on_reloaded;
    host->on_reloading = parts->on_reloading;
    host->on_reloaded_data = parts->data;
    host->facts = parts->facts;
    host->checks = parts->checks;
    if (parts->facts == NULL)
        host->no_cage = *parts->no_cage;
    host->plugins_dir = host_real_path(parts->config->plugins_dir[0] ? parts->config->plugins_dir
                                                                     : parts->paths->plugins_dir);
    host->local = host_secrets_open(host, err) == 0 ? host_load_local(host, err) : NULL;
    bool has_state = host->local != NULL && host_cluster_join(host->config, host->local,
                                                              host->paths, &host->shared, err) == 0;
    host->keeper = has_state ? state_keeper_new(host->loop, parts->paths->state_db, err) : NULL;
    if (host->keeper != NULL && host_cluster_open(host, err) == 0 &&
        host_choices_open(host, err) == 0 && host_script_grants_open(host, err) == 0)
        host->audit = open_audit(host, err);
    if (host->audit == NULL) {
        host_free(host);
        return NULL;
    }
    host->supervisor = (struct supervisor){
        .loop = parts->loop,
        .audit = host->audit,
        .spawner = parts->spawner,
        .log_dir = parts->paths->logs_dir,
    };
    host->storage_dir = host_real_path(parts->paths->storage_dir);
    host->storage = (struct storage_place){
        .loop = parts->loop,
        .spawner = parts->spawner,
        .facts = parts->facts,
        .dir = host->storage_dir,
        .limits = host_storage_limits(host->config),
    };
    apply_limits(host);
    if (open_gate(host, err) < 0 || host_forward_open(host, err) < 0 ||
        host_consents_open(host, err) < 0) {
        host_free(host);
        return NULL;
    }
    host->listener.on_event = on_audit_event;
    audit_listen(host->audit, &host->listener);
    host->reader = loop_worker_new(host->loop, "kaged-reader");
    host->store_worker = loop_worker_new(host->loop, "kaged-store");
    host_open_store(host, parts);
    return host;
}

void host_set_projects(struct host *host, const struct host_project_ops *ops,
                       struct projects *projects)
{
    host->project_ops = ops;
    host->projects = projects;
}

/* -- from its start to its end ----------------------------------------------------------------- */

/* Starts what is enabled, and ends what no longer is. */
static void follow_all(struct host *host)
{
    for (struct host_process *at = NULL; (at = host_process_after(host, at)) != NULL;)
        host_process_follow(at);
}

/* Tables of local.toml that configure nothing: most often their name is misspelt. */
static void warn_of_tables(const struct host *host)
{
    for (size_t i = 0; i < host->local->plugin_count; i++) {
        struct kg_str package = host->local->plugins[i].package;
        const struct host_plugin *plugin = host_plugin_find(host, manifest_package_name(package));
        const struct manifest *manifest = plugin ? plugin->manifest : NULL;
        if (plugin == NULL)
            kg_log(KG_WARN, "%s: [plugins.\"%.*s\"]: there is no such plugin",
                   host->paths->local_file, KG_STR_CUT(package, 64));
        else if (manifest != NULL && !kg_str_is(package, manifest->package))
            kg_log(KG_WARN, "%s: [plugins.\"%.*s\"]: the plugin is the package %s",
                   host->paths->local_file, KG_STR_CUT(package, 64), manifest->package);
    }
}

static void warn_of_missing(struct host *host)
{
    struct host_named found;
    for (char **name = host->config->plugins_enabled; *name != NULL; name++)
        if (host_find(host, kg_str(*name), &found, NULL) < 0)
            kg_log(KG_WARN, "plugin %s is enabled in %s, but there is no such folder in %s", *name,
                   host->paths->config_file, host->plugins_dir);
}

/* Before anything is looked at: what a killed daemon or command left is finished or undone. */
static void recover_store(struct host *host)
{
    struct kg_err err;
    if (store_recover(host->store, &err) < 0)
        kg_log(KG_ERROR_LEVEL, "%s%s%s", err.message, err.hint[0] != '\0' ? "; to fix it: " : "",
               err.hint);
}

void host_start(struct host *host)
{
    host->started_at_ms = kg_wall_ms();
    meter_start(host);
    audit_emit(host->audit, AUDIT_DAEMON_STARTED, KG_STR_NULL, AUDIT_V_TEXT(KAGED_VERSION),
               AUDIT_V_INT(getpid()), AUDIT_V_TEXT(host->paths->home));
    recover_store(host);
    host_log_secrets(host);
    host_find_plugins(host);
    host_find_scripts(host);
    warn_of_missing(host);
    warn_of_tables(host);
    follow_all(host);
    host->project_ops->start(host->projects);
}

int host_read_local_again(struct host *host, struct kg_err *err)
{
    struct local *local = host_load_local(host, err);
    if (local == NULL)
        return -EINVAL;
    local_free(host->local);
    host->local = local;
    return 0;
}

/* -- reload ------------------------------------------------------------------------------------ */

void host_refresh_all(struct host *host)
{
    for (size_t i = 0; i < host->plugin_count; i++)
        host_plugin_refresh(host->plugins[i]);
    host_find_plugins(host);
    host_find_scripts(host);
    warn_of_missing(host);
    warn_of_tables(host);
    follow_all(host);
    host->project_ops->refresh(host->projects);
}

static int reload(struct host *host, const char *operator_id, struct kg_buf *ret_changed_json,
                  struct kg_err *err)
{
    struct config *config = config_load(host->paths->config_file, err);
    struct local *local = config ? host_load_local(host, err) : NULL;
    if (local == NULL) {
        config_free(config);
        return -EINVAL;
    }
    config_diff(host->config, config, ret_changed_json);
    host->start_settings += config_start_differs(host->config, config);
    config_free(host->config);
    local_free(host->local);
    host->config = config;
    host->local = local;
    config_apply_logging(config);
    apply_limits(host);
    host->storage.limits = host_storage_limits(config);
    const struct store_limits fetched = store_limits_of(config);
    store_set_limits(host->store, &fetched);
    host_consents_set_limits(host);
    host_traces_set_limits(host);
    const struct gate_limits network = host_gate_limits(config);
    if (host->gate != NULL)
        gate_set_limits(host->gate, &network);
    audit_set_rotation(host->audit, (uint64_t)config->audit_rotate_mb * 1024 * 1024,
                       (unsigned)config->audit_keep);
    audit_emit(host->audit, AUDIT_CONFIG_RELOADED, KG_STR_NULL, AUDIT_V_TEXT(operator_id),
               AUDIT_V_RAW(kg_buf_view(ret_changed_json)));
    host_refresh_all(host);
    if (host->on_reloaded != NULL)
        host->on_reloaded(host->on_reloaded_data);
    kg_log(KG_INFO, "configuration reloaded: %.400s", kg_buf_terminate(ret_changed_json));
    return 0;
}

struct reloading {
    struct host *host;
    char *operator_id; /* owned */
    host_reloaded_fn *on_done;
    void *data;
};

/* The files are read on the loop, once what they name is known. */
static void host_on_looked_up(void *data, const struct kg_err *err_or_null)
{
    struct reloading *reloading = data;
    struct host *host = reloading->host;
    kg_auto(kg_buf_free) struct kg_buf changed = {0};
    struct kg_err err = {0};
    if (err_or_null == NULL && reload(host, reloading->operator_id, &changed, &err) < 0)
        err_or_null = &err;
    if (host->on_reloading != NULL)
        host->on_reloading(host->on_reloaded_data, false);
    reloading->on_done(reloading->data, kg_buf_view(&changed), err_or_null);
    free(reloading->operator_id);
    free(reloading);
}

void host_reload(struct host *host, const char *operator_id, host_reloaded_fn *on_done, void *data)
{
    struct kg_err err = {0};
    if (host->stopping) {
        kg_fail(&err, KG_E_STOPPING, "the daemon is stopping");
        on_done(data, KG_STR_NULL, &err);
        return;
    }
    struct reloading *reloading = kg_alloc(sizeof(*reloading));
    *reloading = (struct reloading){host, kg_strdup(operator_id), on_done, data};
    if (host->on_reloading != NULL)
        host->on_reloading(host->on_reloaded_data, true);
    host_look_up(host, host_on_looked_up, reloading);
}

/* -- stopping ---------------------------------------------------------------------------------- */

static void host_check_stopped(struct loop_task *task)
{
    struct host *host = KG_CONTAINER(task, struct host, stop_check);
    if (host->change_count > 0 || host->store_jobs > 0 || host->secret_jobs > 0 ||
        host->search_jobs > 0 || host->project_ops->busy(host->projects) ||
        store_is_fetching(host->store) || !host_script_net_is_closed(host) ||
        !forward_is_idle(host->forward))
        return;
    for (struct host_process *at = NULL; (at = host_process_after(host, at)) != NULL;)
        if (host_process_is_busy(at))
            return;
    if (host->on_stopped == NULL)
        return;
    for (struct host_process *at = NULL; (at = host_process_after(host, at)) != NULL;)
        host_trace_end(at);
    audit_emit(host->audit, AUDIT_DAEMON_STOPPED, KG_STR_NULL, AUDIT_V_TEXT(host->stop_reason));
    void (*on_stopped)(void *data) = host->on_stopped;
    host->on_stopped = NULL;
    on_stopped(host->on_stopped_data);
}

void host_look_for_stop(struct host *host)
{
    if (host->stopping)
        loop_defer(host->loop, &host->stop_check);
}

void host_stop(struct host *host, const char *reason, void (*on_stopped)(void *data), void *data)
{
    bool again = host->stopping;
    if (!again) {
        host->stopping = true;
        host->stop_reason = kg_strdup(reason);
        host->on_stopped = on_stopped;
        host->on_stopped_data = data;
        host->stop_check.run = host_check_stopped;
        kg_log(KG_INFO, "stopping: %s", reason);
        host->project_ops->stop(host->projects);
        host_door_end(host, NULL);
        host_devs_stop(host);
        host_consents_close(host);
        host_script_net_close(host);
        forward_stop(host->forward);
    }
    for (struct host_process *at = NULL; (at = host_process_after(host, at)) != NULL;)
        if (again)
            host_process_kill(at);
        else
            instance_stop(at->instance);
    loop_defer(host->loop, &host->stop_check);
}

void host_free(struct host *host)
{
    if (host == NULL)
        return;
    host->closing = true;
    if (host->keeper != NULL)
        state_keeper_drain(host->keeper); /* what it has to say is said to plugins and projects */
    host->stopping = true;                /* nothing that was read is taken any more */
    if (host->projects != NULL)
        host->project_ops->close(host->projects);
    host_consents_close(host);
    meter_stop(host);
    if (host->store_worker != NULL)
        loop_worker_free(host->store_worker); /* what it has to say is said to plugins */
    loop_undefer(host->loop, &host->stop_check);
    loop_undefer(host->loop, &host->leave_check);
    host_script_net_free(host);
    forward_free(host->forward);
    host_scripts_free(host);
    host_plugins_free(host); /* who is answered by the last jobs finds none */
    host_devs_free(host);
    if (host->projects != NULL)
        host->project_ops->free(host->projects);
    host_calls_free(host);
    gate_free(host->gate);
    audit_close(host->audit);
    host_events_free(host->events);
    loop_worker_free(host->reader);
    cluster_free(host->nodes);
    state_keeper_free(host->keeper);
    host_choices_free(host);
    host_script_grants_free(host);
    store_free(host->store);
    config_free(host->config);
    local_free(host->local);
    host_secrets_close(host);
    if (host->search_worker != NULL)
        loop_worker_free(host->search_worker);
    state_cluster_leave(host->shared); /* every handle is closed */
    free(host->plugins_dir);
    free(host->storage_dir);
    free(host->stop_reason);
    free(host);
}

/* -- what others ask --------------------------------------------------------------------------- */

struct cluster *host_nodes(const struct host *host)
{
    return host->nodes;
}

struct loop *host_loop(struct host *host)
{
    return host->loop;
}

struct audit *host_audit(struct host *host)
{
    return host->audit;
}

struct state_keeper *host_keeper(struct host *host)
{
    return host->keeper;
}

struct projects *host_projects(const struct host *host)
{
    return host->projects;
}

struct host_events *host_events(struct host *host)
{
    return host->events;
}

uint64_t host_audit_count(const struct host *host)
{
    return host->audit_count;
}

struct cage_spawner *host_spawner(struct host *host)
{
    return host->supervisor.spawner;
}

const struct cage_checks *host_checks(const struct host *host)
{
    return host->checks;
}

const struct cage_facts *host_facts(const struct host *host)
{
    return host->facts;
}

struct gate *host_gate(struct host *host)
{
    return host->gate;
}

const struct config *host_config(const struct host *host)
{
    return host->config;
}

const struct local *host_local(const struct host *host)
{
    return host->local;
}

const struct config_paths *host_paths(const struct host *host)
{
    return host->paths;
}

int64_t host_started_at_ms(const struct host *host)
{
    return host->started_at_ms;
}

const char *host_cages(const struct host *host)
{
    return host->cages;
}

const char *host_user(const struct host *host)
{
    return host->user;
}

const struct cage_limits *host_limits(const struct host *host)
{
    return cage_spawner_limits(host->supervisor.spawner);
}

bool host_is_stopping(const struct host *host)
{
    return host->stopping;
}
