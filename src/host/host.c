/*
 * The host owns the list of plugins, the audit log and the state database. A plugin is a folder in
 * the plugins folder; one whose manifest cannot be used is listed with the reason and never runs.
 */
#include "host/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
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
        .log_rotate_bytes = (size_t)config->logging_rotate_bytes,
        .watchdog_interval_ms = (uint64_t)config->limits_watchdog_interval_ms,
    };
}

static struct gate_limits gate_limits(const struct config *config)
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

static struct storage_limits storage_limits(const struct config *config)
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

static void apply_logging(const struct config *config)
{
    enum kg_level level = KG_INFO;
    for (enum kg_level at = KG_DEBUG; at <= KG_ERROR_LEVEL; at++)
        if (strcmp(config->logging_level, kg_level_names[at]) == 0)
            level = at;
    kg_log_set(level, strcmp(config->logging_format, "json") == 0 ? KG_LOG_JSON : KG_LOG_TEXT);
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
    (void)line;
    (void)event;
    KG_CONTAINER(listener, struct host, listener)->audit_count++;
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
    const struct gate_limits limits = gate_limits(host->config);
    if (host->facts == NULL)
        return 0; /* nobody will have a network */
    host->gate = gate_new(host->loop, &limits, err);
    host->supervisor.gate = host->gate;
    if (host->gate == NULL)
        return -EINVAL;
    gate_ask_first(host->gate, hearing_of_audit, host->audit);
    return 0;
}

struct host *host_new(const struct host_parts *parts, struct kg_err *err)
{
    struct host *host = kg_alloc(sizeof(*host));
    host->loop = parts->loop;
    host->paths = parts->paths;
    host->cages = parts->cages;
    host->user = parts->user;
    host->config = parts->config;
    host->on_reloaded = parts->on_reloaded;
    host->on_reloaded_data = parts->data;
    host->facts = parts->facts;
    if (parts->facts == NULL)
        host->no_cage = *parts->no_cage;
    host->plugins_dir = host_real_path(parts->config->plugins_dir[0] ? parts->config->plugins_dir
                                                                     : parts->paths->plugins_dir);
    apply_logging(host->config);
    host->local = local_load(parts->paths->local_file, LOCAL_REPLACE, err);
    host->state = host->local ? state_open(parts->paths->state_db, err) : NULL;
    if (host->state != NULL)
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
        .limits = storage_limits(host->config),
    };
    apply_limits(host);
    if (open_gate(host, err) < 0) {
        host_free(host);
        return NULL;
    }
    host->listener.on_event = on_audit_event;
    audit_listen(host->audit, &host->listener);
    host->reader = loop_worker_new(host->loop, "kaged-reader");
    return host;
}

/* -- plugins ----------------------------------------------------------------------------------- */

static void plugin_free(struct host_plugin *plugin)
{
    instance_free(plugin->instance);
    manifest_free(plugin->manifest);
    free(plugin->name);
    free(plugin->dir);
    kg_buf_free(&plugin->cage_words);
    storage_free(plugin->storage);
    free(plugin);
}

static void on_state(void *data, struct instance *instance);
static void on_fresh_start(void *data, struct instance *instance);
static struct cage_plan *make_plan(void *data, struct instance *instance, struct kg_err *err);
static bool on_request(void *data, struct instance *instance, int64_t id, struct kg_str method,
                       struct kg_str params);
static bool has_storage(void *data, struct instance *instance);
static bool may_claim(void *data, struct instance *instance, struct kg_str capability);

/* The lists are owned by the manifest; the supervisor only reads them. */
#define LIST(list) ((const char *const *)(list))

static void make_instance(struct host *host, struct host_plugin *plugin, struct kg_str settings)
{
    const struct manifest *manifest = plugin->manifest;
    const struct config *config = host->config;
    struct instance_spec spec = {
        .name = plugin->name,
        .version = manifest->version,
        .methods = LIST(manifest->method_names),
        .capabilities = LIST(manifest->capabilities),
        .shutdown_timeout_ms = manifest->shutdown_timeout_sec
                                   ? (uint64_t)manifest->shutdown_timeout_sec * 1000
                                   : (uint64_t)config->limits_shutdown_timeout_ms,
        .health_interval_ms = manifest->health_interval_sec
                                  ? (uint64_t)manifest->health_interval_sec * 1000
                                  : (uint64_t)config->limits_health_interval_ms,
        .limits = policy_limits(config, plugin->name),
        .config = settings,
    };
    if (plugin->instance != NULL) {
        instance_set_spec(plugin->instance, &spec);
        return;
    }
    static const struct instance_ops ops = {
        .on_state = on_state,
        .on_fresh_start = on_fresh_start,
        .make_plan = make_plan,
        .on_request = on_request,
        .has_storage = has_storage,
        .may_claim = may_claim,
    };
    plugin->instance = instance_new(&host->supervisor, &spec, &ops, host);
}

static void log_warnings(const struct host_plugin *plugin, const struct manifest_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++)
        if (manifest_code_row(problems->items[i].code)->severity == MANIFEST_SEVERITY_WARNING)
            kg_log_about(KG_WARN, plugin->name, "%s:%u:%u: %s", MANIFEST_FILE,
                         problems->items[i].line, problems->items[i].column,
                         problems->items[i].message);
}

static struct manifest *read_manifest(const struct host_plugin *plugin, struct kg_err *err)
{
    kg_auto(manifest_problems_free) struct manifest_problems problems = {0};
    struct manifest *manifest = manifest_load(plugin->dir, &problems);
    log_warnings(plugin, &problems);
    if (manifest == NULL) {
        kg_auto(kg_free) char *path = kg_format("%s/%s", plugin->dir, MANIFEST_FILE);
        manifest_problems_fail(&problems, path, err);
    } else if (strcmp(manifest->name, plugin->name) != 0) {
        kg_fail(err, KG_E_INVALID_MANIFEST,
                "%s/%s: the name is \"%s\", but the folder is called \"%s\"", plugin->dir,
                MANIFEST_FILE, manifest->name, plugin->name);
        kg_hint(err, "give both one name");
        manifest_free(kg_steal(&manifest));
    }
    return manifest;
}

/*
 * Reads the manifest again; on failure the plugin keeps its reason. One that runs goes on with what
 * it was started with, since its calls point into that, until its next start.
 */
static int load_plugin(struct host *host, struct host_plugin *plugin)
{
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf settings = {0};
    struct manifest *manifest = read_manifest(plugin, &err);
    if (manifest == NULL || plugin_config_make(host, manifest, &settings, &err) < 0) {
        plugin->problem = err;
        manifest_free(manifest);
        return -EINVAL;
    }
    plugin->problem = (struct kg_err){.code = KG_OK};
    if (plugin->instance != NULL && instance_has_process(plugin->instance)) {
        manifest_free(manifest);
        return 0;
    }
    manifest_free(plugin->manifest);
    plugin->manifest = manifest;
    make_instance(host, plugin, kg_buf_view(&settings));
    return 0;
}

static struct host_plugin *plugin_of(const struct host *host, const struct instance *instance)
{
    return host_plugin_find(host, kg_str(instance_name(instance)), NULL);
}

struct cage_plan *host_plugin_plan(struct host *host, const struct host_plugin *plugin,
                                   bool make_folders, struct kg_err *err)
{
    if (host->no_cage.code != KG_OK) {
        *err = host->no_cage;
        return NULL;
    }
    const struct host_cage_parts parts = {
        .manifest = plugin->manifest,
        .dir = plugin->dir,
        .plugins_dir = host->plugins_dir,
        .config = host->config,
        .paths = host->paths,
        .settings = instance_config(plugin->instance),
        .facts = host->facts,
        .make_folders = make_folders,
    };
    return host_cage_plan(&parts, err);
}

/* What the cage of a running plugin is made of is kept, since its plan could be another by now. */
static struct cage_plan *make_plan(void *data, struct instance *instance, struct kg_err *err)
{
    struct host *host = data;
    struct host_plugin *plugin = plugin_of(host, instance);
    struct cage_plan *plan = host_plugin_plan(host, plugin, true, err);
    kg_buf_free(&plugin->cage_words);
    if (plan != NULL)
        cage_plan_words(plan, &plugin->cage_words);
    return plan;
}

static bool on_request(void *data, struct instance *instance, int64_t id, struct kg_str method,
                       struct kg_str params)
{
    return host_serve(data, plugin_of(data, instance), id, method, params);
}

static bool has_storage(void *data, struct instance *instance)
{
    return host_has_storage(data, plugin_of(data, instance));
}

static bool may_claim(void *data, struct instance *instance, struct kg_str capability)
{
    const struct host_plugin *plugin = plugin_of(data, instance);
    kg_auto(capability_free) struct capability claimed = {0};
    return capability_parse(capability, &claimed, NULL) == 0 &&
           capability_set_covers(&plugin->manifest->capability_set, &claimed);
}

/*
 * The author may have mended the manifest since; if it is broken now, what ran before runs again.
 */
static void on_fresh_start(void *data, struct instance *instance)
{
    struct host *host = data;
    struct host_plugin *plugin = plugin_of(host, instance);
    if (load_plugin(host, plugin) < 0)
        kg_log_about(KG_ERROR_LEVEL, plugin->name, "%s", plugin->problem.message);
}

static void report_invalid(struct host *host, const struct host_plugin *plugin)
{
    kg_log_about(KG_ERROR_LEVEL, plugin->name, "disabled: %s", plugin->problem.message);
    audit_emit(host->audit, AUDIT_PLUGIN_DISABLED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
               AUDIT_V_TEXT(plugin->problem.message), AUDIT_V_NULL);
}

static int compare_plugins(const void *a, const void *b)
{
    return strcmp((*(struct host_plugin *const *)a)->name, (*(struct host_plugin *const *)b)->name);
}

static void add_plugin(struct host *host, const char *name)
{
    struct host_plugin *plugin = kg_alloc(sizeof(*plugin));
    plugin->host = host;
    plugin->name = kg_strdup(name);
    plugin->dir = kg_format("%s/%s", host->plugins_dir, name);
    host->plugins = kg_realloc(host->plugins, (host->plugin_count + 1) * sizeof(*host->plugins));
    host->plugins[host->plugin_count++] = plugin;
    if (load_plugin(host, plugin) < 0)
        report_invalid(host, plugin);
}

/* Folders in the plugins folder that are not known yet. A link could lead anywhere: it is no
 * plugin. */
static void find_plugins(struct host *host)
{
    DIR *dir = opendir(host->plugins_dir);
    if (dir == NULL) {
        kg_log(KG_WARN, "plugins folder %s: %s", host->plugins_dir, strerror(errno));
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct stat there;
        if (!manifest_name_is_valid(kg_str(entry->d_name)) ||
            fstatat(dirfd(dir), entry->d_name, &there, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISDIR(there.st_mode) || host_plugin_find(host, kg_str(entry->d_name), NULL) != NULL)
            continue;
        add_plugin(host, entry->d_name);
        qsort(host->plugins, host->plugin_count, sizeof(*host->plugins), compare_plugins);
    }
    closedir(dir);
}

size_t host_plugin_count(const struct host *host)
{
    return host->plugin_count;
}

struct host_plugin *host_plugin_at(const struct host *host, size_t index)
{
    return host->plugins[index];
}

static const char *nearest_name(const struct host *host, struct kg_str name)
{
    const char **names = kg_alloc_array(host->plugin_count + 1, sizeof(*names));
    for (size_t i = 0; i < host->plugin_count; i++)
        names[i] = host->plugins[i]->name;
    const char *nearest = kg_str_nearest(name, names, host->plugin_count);
    free(names);
    return nearest;
}

struct host_plugin *host_plugin_find(const struct host *host, struct kg_str name,
                                     struct kg_err *err)
{
    size_t low = 0, high = host->plugin_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = kg_str_compare(name, kg_str(host->plugins[middle]->name));
        if (order == 0)
            return host->plugins[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    if (err != NULL) {
        kg_fail(err, KG_E_NOT_FOUND, "there is no plugin \"%.*s\"", KG_STR_CUT(name, 64));
        const char *nearest = nearest_name(host, name);
        if (nearest != NULL)
            kg_hint(err, "did you mean %s?", nearest);
        else
            kg_hint(err, "plugins are folders in %s", host->plugins_dir);
    }
    return NULL;
}

const char *host_plugin_state(const struct host_plugin *plugin)
{
    return instance_state_name(plugin->instance ? instance_state(plugin->instance)
                                                : INSTANCE_DISABLED);
}

/* -- what the operator decides ----------------------------------------------------------------- */

static bool is_enabled(struct host *host, const struct host_plugin *plugin)
{
    enum state_choice choice = STATE_UNSAID;
    struct kg_err err;
    if (state_plugin_choice_get(host->state, kg_str(plugin->name), &choice, &err) < 0)
        kg_log(KG_ERROR_LEVEL, "%s", err.message);
    if (choice != STATE_UNSAID)
        return choice == STATE_ENABLED;
    return kg_list_has(host->config->plugins_enabled, kg_str(plugin->name));
}

static int check_startable(const struct host *host, const struct host_plugin *plugin,
                           struct kg_err *err)
{
    if (host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (plugin->problem.code != KG_OK) {
        *err = plugin->problem;
        return -EINVAL;
    }
    if (host->no_cage.code != KG_OK) {
        *err = host->no_cage;
        return kg_wrap(err, -EINVAL, "plugin %s: start", plugin->name);
    }
    return 0;
}

static void start_enabled(struct host *host)
{
    for (size_t i = 0; i < host->plugin_count; i++) {
        struct host_plugin *plugin = host->plugins[i];
        struct kg_err err;
        if (plugin->instance == NULL || !is_enabled(host, plugin) ||
            instance_state(plugin->instance) != INSTANCE_DISABLED)
            continue;
        if (check_startable(host, plugin, &err) == 0) {
            instance_enable(plugin->instance);
            continue;
        }
        kg_log_about(KG_ERROR_LEVEL, plugin->name, "%s%s%s", err.message,
                     err.hint[0] != '\0' ? "; to mend it: " : "", err.hint);
        audit_emit(host->audit, AUDIT_PLUGIN_FAILED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
                   AUDIT_V_INT(0), AUDIT_V_TEXT(err.message));
    }
}

static void stop_no_longer_enabled(struct host *host)
{
    for (size_t i = 0; i < host->plugin_count; i++)
        if (host->plugins[i]->instance != NULL && !is_enabled(host, host->plugins[i]))
            instance_disable(host->plugins[i]->instance);
}

static void warn_of_missing(struct host *host)
{
    for (char **name = host->config->plugins_enabled; *name != NULL; name++)
        if (host_plugin_find(host, kg_str(*name), NULL) == NULL)
            kg_log(KG_WARN, "plugin %s is enabled in %s, but there is no such folder in %s", *name,
                   host->paths->config_file, host->plugins_dir);
}

void host_start(struct host *host)
{
    host->started_at_ms = kg_wall_ms();
    audit_emit(host->audit, AUDIT_DAEMON_STARTED, KG_STR_NULL, AUDIT_V_TEXT(KAGED_VERSION),
               AUDIT_V_INT(getpid()), AUDIT_V_TEXT(host->paths->home));
    find_plugins(host);
    warn_of_missing(host);
    start_enabled(host);
}

static int remember(struct host *host, const struct host_plugin *plugin, enum state_choice choice,
                    struct kg_err *err)
{
    return state_plugin_choice_set(host->state, kg_str(plugin->name), choice, err);
}

/* The operator may have mended it since. */
static int read_local_again(struct host *host, struct kg_err *err)
{
    struct local *local = local_load(host->paths->local_file, LOCAL_REPLACE, err);
    if (local == NULL)
        return -EINVAL;
    local_free(host->local);
    host->local = local;
    return 0;
}

int host_enable(struct host *host, struct kg_str name, const char *operator_id, struct kg_err *err)
{
    struct host_plugin *plugin = host_plugin_find(host, name, err);
    if (plugin == NULL || read_local_again(host, err) < 0)
        return -EINVAL;
    if (plugin->problem.code != KG_OK)
        load_plugin(host, plugin); /* its author may have mended it */
    if (check_startable(host, plugin, err) < 0 || remember(host, plugin, STATE_ENABLED, err) < 0)
        return -EINVAL;
    audit_emit(host->audit, AUDIT_PLUGIN_ENABLED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
               AUDIT_V_TEXT(operator_id));
    instance_enable(plugin->instance);
    return 0;
}

int host_disable(struct host *host, struct kg_str name, const char *operator_id, struct kg_err *err)
{
    struct host_plugin *plugin = host_plugin_find(host, name, err);
    if (plugin == NULL || remember(host, plugin, STATE_DISABLED, err) < 0)
        return -EINVAL;
    audit_emit(host->audit, AUDIT_PLUGIN_DISABLED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
               AUDIT_V_TEXT("the operator disabled it"), AUDIT_V_TEXT(operator_id));
    if (plugin->instance != NULL)
        instance_disable(plugin->instance);
    return 0;
}

int host_restart(struct host *host, struct kg_str name, const char *operator_id, struct kg_err *err)
{
    struct host_plugin *plugin = host_plugin_find(host, name, err);
    if (plugin == NULL || check_startable(host, plugin, err) < 0)
        return -EINVAL;
    if (!is_enabled(host, plugin)) {
        kg_fail(err, KG_E_CONFLICT, "plugin %s is disabled", plugin->name);
        kg_hint(err, "kaged plugin enable %s", plugin->name);
        return -EINVAL;
    }
    audit_emit(host->audit, AUDIT_PLUGIN_RESTARTED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
               AUDIT_V_TEXT(operator_id));
    instance_restart(plugin->instance);
    return 0;
}

/* -- reload ------------------------------------------------------------------------------------ */

/* Where a setting of the type `path` points is a part of the cage: a change needs a new one. */
static void apply_settings(struct host_plugin *plugin, struct kg_str settings)
{
    struct instance *instance = plugin->instance;
    bool moves = policy_paths_differ(plugin->manifest, instance_config(instance), settings);
    instance_set_config(instance, settings);
    if (moves)
        instance_restart(instance);
}

/* A running plugin is told its new configuration, and keeps the old one if that does not fit. */
static void refresh(struct host *host, struct host_plugin *plugin)
{
    kg_auto(kg_buf_free) struct kg_buf settings = {0};
    struct kg_err err;
    struct instance_limits limits = policy_limits(host->config, plugin->name);
    if (plugin->instance != NULL)
        instance_set_limits(plugin->instance, &limits);
    if (plugin->instance == NULL || !instance_has_process(plugin->instance))
        (void)load_plugin(host, plugin);
    else if (plugin_config_make(host, plugin->manifest, &settings, &err) < 0)
        kg_log_about(KG_ERROR_LEVEL, plugin->name, "keeps its configuration: %s", err.message);
    else
        apply_settings(plugin, kg_buf_view(&settings));
}

int host_reload(struct host *host, const char *operator_id, struct kg_buf *ret_changed_json,
                struct kg_err *err)
{
    if (host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    struct config *config = config_load(host->paths->config_file, err);
    struct local *local = config ? local_load(host->paths->local_file, LOCAL_REPLACE, err) : NULL;
    if (local == NULL) {
        config_free(config);
        return -EINVAL;
    }
    config_diff(host->config, config, ret_changed_json);
    config_free(host->config);
    local_free(host->local);
    host->config = config;
    host->local = local;
    apply_logging(config);
    apply_limits(host);
    host->storage.limits = storage_limits(config);
    const struct gate_limits network = gate_limits(config);
    if (host->gate != NULL)
        gate_set_limits(host->gate, &network);
    audit_set_rotation(host->audit, (uint64_t)config->audit_rotate_mb * 1024 * 1024,
                       (unsigned)config->audit_keep);
    audit_emit(host->audit, AUDIT_CONFIG_RELOADED, KG_STR_NULL, AUDIT_V_TEXT(operator_id),
               AUDIT_V_RAW(kg_buf_view(ret_changed_json)));
    for (size_t i = 0; i < host->plugin_count; i++)
        refresh(host, host->plugins[i]);
    find_plugins(host);
    warn_of_missing(host);
    stop_no_longer_enabled(host);
    start_enabled(host);
    if (host->on_reloaded != NULL)
        host->on_reloaded(host->on_reloaded_data);
    kg_log(KG_INFO, "configuration reloaded: %.400s", kg_buf_terminate(ret_changed_json));
    return 0;
}

/* -- stopping ---------------------------------------------------------------------------------- */

/* A plugin may still be storing something while it leaves, so its storage closes after it. */
static bool is_busy(struct host_plugin *plugin)
{
    if (plugin->instance != NULL && instance_has_process(plugin->instance))
        return true;
    if (plugin->storage == NULL || storage_is_closed(plugin->storage))
        return false;
    storage_close(plugin->storage);
    return true;
}

static void check_stopped(struct loop_task *task)
{
    struct host *host = KG_CONTAINER(task, struct host, stop_check);
    for (size_t i = 0; i < host->plugin_count; i++)
        if (is_busy(host->plugins[i]))
            return;
    if (host->on_stopped == NULL)
        return;
    audit_emit(host->audit, AUDIT_DAEMON_STOPPED, KG_STR_NULL, AUDIT_V_TEXT(host->stop_reason));
    void (*on_stopped)(void *data) = host->on_stopped;
    host->on_stopped = NULL;
    on_stopped(host->on_stopped_data);
}

static void on_state(void *data, struct instance *instance)
{
    struct host *host = data;
    (void)instance;
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
        host->stop_check.run = check_stopped;
        kg_log(KG_INFO, "stopping: %s", reason);
    }
    for (size_t i = 0; i < host->plugin_count; i++) {
        if (host->plugins[i]->instance == NULL)
            continue;
        if (again)
            instance_kill(host->plugins[i]->instance);
        else
            instance_stop(host->plugins[i]->instance);
    }
    loop_defer(host->loop, &host->stop_check);
}

void host_free(struct host *host)
{
    if (host == NULL)
        return;
    host->closing = true;
    loop_undefer(host->loop, &host->stop_check);
    for (size_t i = 0; i < host->plugin_count; i++)
        plugin_free(host->plugins[i]);
    free(host->plugins);
    host_calls_free(host);
    gate_free(host->gate);
    audit_close(host->audit);
    loop_worker_free(host->reader);
    state_close(host->state);
    config_free(host->config);
    local_free(host->local);
    free(host->plugins_dir);
    free(host->storage_dir);
    free(host->stop_reason);
    free(host);
}

/* -- what others ask --------------------------------------------------------------------------- */

struct loop *host_loop(struct host *host)
{
    return host->loop;
}

struct audit *host_audit(struct host *host)
{
    return host->audit;
}

uint64_t host_audit_count(const struct host *host)
{
    return host->audit_count;
}

const struct config *host_config(const struct host *host)
{
    return host->config;
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
