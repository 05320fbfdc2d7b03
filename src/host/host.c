/*
 * The host owns the list of plugins, the audit log and the state database. A plugin is a folder in
 * the plugins folder; one whose manifest cannot be used is listed with the reason and never runs.
 */
#include "host/internal.h"
#include "host/projects_internal.h"

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
    struct host *host = data;
    if (host->stopping)
        loop_defer(host->loop, &host->stop_check);
}

static void open_store(struct host *host, const struct host_parts *parts)
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
    host->paths = parts->paths;
    host->cages = parts->cages;
    host->user = parts->user;
    host->config = parts->config;
    host->on_reloaded = parts->on_reloaded;
    host->on_reloading = parts->on_reloading;
    host->on_reloaded_data = parts->data;
    host->facts = parts->facts;
    if (parts->facts == NULL)
        host->no_cage = *parts->no_cage;
    host->plugins_dir = host_real_path(parts->config->plugins_dir[0] ? parts->config->plugins_dir
                                                                     : parts->paths->plugins_dir);
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
        .limits = host_storage_limits(host->config),
    };
    apply_limits(host);
    if (open_gate(host, err) < 0 || host_consents_open(host, err) < 0) {
        host_free(host);
        return NULL;
    }
    host->listener.on_event = on_audit_event;
    audit_listen(host->audit, &host->listener);
    host->reader = loop_worker_new(host->loop, "kaged-reader");
    host->store_worker = loop_worker_new(host->loop, "kaged-store");
    open_store(host, parts);
    host_projects_open(host);
    return host;
}

/* -- plugins ----------------------------------------------------------------------------------- */

static void plugin_free(struct host_plugin *plugin)
{
    host_trace_free(plugin);
    instance_free(kg_steal(&plugin->instance));
    host_hooks_end(plugin);
    manifest_free(plugin->manifest);
    free(plugin->name);
    free(plugin->base);
    free(plugin->project_id);
    free(plugin->project_root);
    free(plugin->project_file);
    free(plugin->dir);
    kg_buf_free(&plugin->cage_words);
    storage_free(plugin->storage);
    free(plugin);
}

static void on_state(void *data, struct instance *instance);
static void on_move(void *data, struct instance *instance, enum instance_state from,
                    enum instance_state to, const char *reason);
static void on_notification(void *data, struct instance *instance, struct kg_str method,
                            struct kg_str params);
static void on_fresh_start(void *data, struct instance *instance);
static struct cage_plan *make_plan(void *data, struct instance *instance, struct kg_err *err);
static bool on_request(void *data, struct instance *instance, int64_t id, struct kg_str method,
                       struct kg_str params);
static bool has_storage(void *data, struct instance *instance);
static bool may_claim(void *data, struct instance *instance, struct kg_str capability);
static void put_projects(void *data, struct instance *instance, struct kg_json_writer *json);

/* The lists are owned by the manifest; the supervisor only reads them. */
#define LIST(list) ((const char *const *)(list))

static struct instance_times times_of(const struct manifest *manifest, const struct config *config)
{
    return (struct instance_times){
        .shutdown_timeout_ms = manifest->shutdown_timeout_sec
                                   ? (uint64_t)manifest->shutdown_timeout_sec * 1000
                                   : (uint64_t)config->limits_shutdown_timeout_ms,
        .health_interval_ms = manifest->health_interval_sec
                                  ? (uint64_t)manifest->health_interval_sec * 1000
                                  : (uint64_t)config->limits_health_interval_ms,
    };
}

static void make_instance(struct host *host, struct host_plugin *plugin, struct kg_str settings)
{
    const struct manifest *manifest = plugin->manifest;
    const struct config *config = host->config;
    struct instance_spec spec = {
        .name = plugin->name,
        .plugin = plugin->base,
        .version = manifest->version,
        .methods = LIST(manifest->method_names),
        .capabilities = LIST(manifest->capabilities),
        .times = times_of(manifest, config),
        .limits = policy_limits(config, plugin->base),
        .config = settings,
    };
    if (plugin->instance != NULL) {
        instance_set_spec(plugin->instance, &spec);
        return;
    }
    static const struct instance_ops ops = {
        .on_state = on_state,
        .on_move = on_move,
        .on_notification = on_notification,
        .on_fresh_start = on_fresh_start,
        .make_plan = make_plan,
        .on_request = on_request,
        .has_storage = has_storage,
        .may_claim = may_claim,
        .put_projects = put_projects,
    };
    plugin->instance = instance_new(&host->supervisor, &spec, &ops, host);
}

static void log_warnings(const struct host_plugin *plugin, const struct kg_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++)
        if (problems->items[i].row->severity == KG_SEVERITY_WARNING)
            kg_log_about(KG_WARN, plugin->name, "%s:%u:%u: %s", MANIFEST_FILE,
                         problems->items[i].line, problems->items[i].column,
                         problems->items[i].message);
}

struct manifest *host_read_manifest(const struct host_plugin *plugin, struct kg_err *err)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct manifest *manifest = plugin->dev ? manifest_read(host_dev_text(plugin->dev), &problems)
                                            : manifest_load(plugin->dir, &problems);
    log_warnings(plugin, &problems);
    if (manifest == NULL) {
        kg_auto(kg_free) char *path = kg_format("%s/%s", plugin->dir, MANIFEST_FILE);
        manifest_problems_fail(&problems, path, err);
    } else if (strcmp(manifest->name, plugin->base) != 0) {
        kg_fail(err, KG_E_INVALID_MANIFEST,
                "%s/%s: the name is \"%s\", but the folder is called \"%s\"", plugin->dir,
                MANIFEST_FILE, manifest->name, plugin->base);
        kg_hint(err, "give both one name");
        manifest_free(kg_steal(&manifest));
    }
    return manifest;
}

int host_load_plugin(struct host *host, struct host_plugin *plugin)
{
    struct kg_err err = {0};
    kg_auto(kg_buf_free) struct kg_buf settings = {0};
    struct manifest *manifest = host_read_manifest(plugin, &err);
    if (manifest == NULL || plugin_config_make(host, plugin, manifest, &settings, &err) < 0) {
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
    host_trace_loaded(plugin);
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
        .project_root = plugin->project_root,
        .project_id = plugin->project_id,
        .project_file = plugin->project_file,
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
    struct instance_times times = times_of(plugin->manifest, host->config);
    instance_set_times(instance, &times); /* a restart after a crash takes new settings, too */
    plugin->start_settings = host->start_settings;
    if (host_check_start(host, plugin, err) < 0)
        return NULL;
    struct cage_plan *plan = host_plugin_plan(host, plugin, true, err);
    kg_buf_free(&plugin->cage_words);
    if (plan != NULL)
        cage_plan_words(plan, &plugin->cage_words);
    return plan;
}

static void on_move(void *data, struct instance *instance, enum instance_state from,
                    enum instance_state to, const char *reason)
{
    struct host *host = data;
    struct host_plugin *plugin = plugin_of(host, instance);
    host_events_state(host->events, instance_name(instance), instance_state_name(from),
                      instance_state_name(to), reason);
    if (plugin != NULL)
        host_trace_moved(plugin, from, to, reason);
}

static void on_notification(void *data, struct instance *instance, struct kg_str method,
                            struct kg_str params)
{
    struct host *host = data;
    host_events_notification(host->events, instance_name(instance), method, params);
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

static void put_projects(void *data, struct instance *instance, struct kg_json_writer *json)
{
    host_projects_put(data, plugin_of(data, instance), json);
}

/*
 * The author may have mended the manifest since; if it is broken now, what ran before runs again.
 */
static void on_fresh_start(void *data, struct instance *instance)
{
    struct host *host = data;
    struct host_plugin *plugin = plugin_of(host, instance);
    if (host_load_plugin(host, plugin) < 0)
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

/* Who has just copied it there sees why it cannot start; that files changed is seen at a start. */
static void look_for_approval(struct host *host, struct host_plugin *plugin)
{
    struct kg_err err;
    if (plugin->dev == NULL && store_check_known(host->store, plugin->base, &err) < 0)
        plugin->drift = err;
}

static struct host_plugin *plugin_new(struct host *host, const char *name, const char *base)
{
    struct host_plugin *plugin = kg_alloc(sizeof(*plugin));
    plugin->host = host;
    plugin->name = kg_strdup(name);
    plugin->base = kg_strdup(base);
    plugin->dir = kg_format("%s/%s", host->plugins_dir, base);
    return plugin;
}

static void insert_plugin(struct host *host, struct host_plugin *plugin)
{
    host->plugins = kg_realloc(host->plugins, (host->plugin_count + 1) * sizeof(*host->plugins));
    host->plugins[host->plugin_count++] = plugin;
    qsort(host->plugins, host->plugin_count, sizeof(*host->plugins), compare_plugins);
}

static void list_plugin(struct host *host, struct host_plugin *plugin)
{
    insert_plugin(host, plugin);
    look_for_approval(host, plugin);
    if (host_load_plugin(host, plugin) < 0)
        report_invalid(host, plugin);
}

/* -- processes of one project ------------------------------------------------------------------ */

/* What bore the name before is used again, so that projects may come and go for ever. */
static struct host_plugin *take_back(struct host *host, const char *name)
{
    for (size_t i = 0; i < host->gone_count; i++) {
        struct host_plugin *plugin = host->gone[i];
        if (strcmp(plugin->name, name) != 0)
            continue;
        host->gone[i] = host->gone[--host->gone_count];
        plugin->problem = plugin->drift = (struct kg_err){.code = KG_OK};
        plugin->leaving = false;
        return plugin;
    }
    return NULL;
}

struct host_plugin *host_add_instance(struct host *host, const struct host_plugin *base,
                                      const struct host_project_facts *project)
{
    kg_auto(kg_free) char *name = kg_format("%s@%s", base->base, project->id);
    struct host_plugin *plugin = take_back(host, name);
    if (plugin == NULL)
        plugin = plugin_new(host, name, base->base);
    free(plugin->project_id);
    free(plugin->project_root);
    free(plugin->project_file);
    plugin->project_id = kg_strdup(project->id);
    plugin->project_root = kg_strdup(project->root);
    plugin->project_file = kg_strdup(project->path);
    plugin->change = base->change; /* which ends for both */
    host_plugin_move(plugin, base->dev);
    list_plugin(host, plugin);
    return plugin;
}

/* -- from where one is run --------------------------------------------------------------------- */

void host_plugin_move(struct host_plugin *plugin, struct host_dev *dev_or_null)
{
    struct host_dev *before = plugin->dev;
    free(plugin->dir);
    plugin->dev = dev_or_null;
    plugin->drift = (struct kg_err){.code = KG_OK};
    plugin->dir = dev_or_null ? kg_strdup(host_dev_path(dev_or_null))
                              : kg_format("%s/%s", plugin->host->plugins_dir, plugin->base);
    look_for_approval(plugin->host, plugin);
    if (before != NULL && before != dev_or_null)
        host_dev_left(before, plugin);
    if (dev_or_null != NULL && before != dev_or_null)
        host_dev_joined(dev_or_null, plugin);
}

void host_add_dev(struct host *host, const char *name)
{
    struct host_plugin *plugin = take_back(host, name);
    insert_plugin(host, plugin ? plugin : plugin_new(host, name, name));
}

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

static void remove_left(struct loop_task *task)
{
    struct host *host = KG_CONTAINER(task, struct host, leave_check);
    bool any = false;
    for (size_t i = host->plugin_count; i-- > 0;) {
        struct host_plugin *plugin = host->plugins[i];
        if (!plugin->leaving || plugin->change != NULL || is_busy(plugin))
            continue;
        host_remove_plugin(host, plugin);
        any = true;
    }
    if (any)
        host_projects_look_again(host); /* one may want a new process of that name */
}

void host_look_for_left(struct host *host)
{
    host->leave_check.run = remove_left;
    loop_defer(host->loop, &host->leave_check);
}

void host_leave_plugin(struct host_plugin *plugin)
{
    plugin->leaving = true;
    if (plugin->instance != NULL)
        instance_disable(plugin->instance);
    host_look_for_left(plugin->host);
}

/* -- finding them ------------------------------------------------------------------------------ */

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
        list_plugin(host, plugin_new(host, entry->d_name, entry->d_name));
    }
    closedir(dir);
}

struct host_plugin *host_add_plugin(struct host *host, const char *name)
{
    find_plugins(host);
    return host_plugin_find(host, kg_str(name), NULL);
}

/* Answers to questions about it may be on their way, and find a plugin without anything. */
void host_remove_plugin(struct host *host, struct host_plugin *plugin)
{
    size_t index = 0;
    while (host->plugins[index] != plugin)
        index++;
    memmove(&host->plugins[index], &host->plugins[index + 1],
            (host->plugin_count - index - 1) * sizeof(*host->plugins));
    host->plugin_count--;
    plugin->dev = NULL; /* which may end before the name is used again */
    host_trace_free(plugin);
    instance_free(kg_steal(&plugin->instance));
    manifest_free(kg_steal(&plugin->manifest));
    storage_free(kg_steal(&plugin->storage));
    kg_buf_free(&plugin->cage_words);
    kg_fail(&plugin->problem, KG_E_NOT_FOUND, "it is gone");
    host_agents_look(plugin);
    host->gone = kg_realloc(host->gone, (host->gone_count + 1) * sizeof(*host->gone));
    host->gone[host->gone_count++] = plugin;
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
            kg_hint(err, "plugins are folders in %s; new ones are found by: kaged reload",
                    host->plugins_dir);
    }
    return NULL;
}

const char *host_plugin_state(const struct host_plugin *plugin)
{
    return instance_state_name(plugin->instance ? instance_state(plugin->instance)
                                                : INSTANCE_DISABLED);
}

/* -- what the operator decides ----------------------------------------------------------------- */

bool host_is_template(const struct host_plugin *plugin)
{
    return plugin->project_id == NULL && plugin->instance != NULL &&
           policy_is_of_project(plugin->manifest, instance_config(plugin->instance));
}

int host_check_no_template(const struct host_plugin *plugin, struct kg_err *err)
{
    if (!host_is_template(plugin))
        return 0;
    kg_fail(err, KG_E_PLUGIN_DOWN,
            "plugin %s works in a project: each that uses it has a process of its own",
            plugin->name);
    kg_hint(err, "name one of them: %s@PROJECT", plugin->name);
    return -EINVAL;
}

static enum state_choice choice_of(struct host *host, const char *name)
{
    enum state_choice choice = STATE_UNSAID;
    struct kg_err err;
    if (state_plugin_choice_get(host->state, kg_str(name), &choice, &err) < 0)
        kg_log(KG_ERROR_LEVEL, "%s", err.message);
    return choice;
}

/* Who disables a plugin disables it in every project. */
bool host_is_enabled(struct host *host, const struct host_plugin *plugin)
{
    if (plugin->leaving || host_is_template(plugin))
        return false;
    if (plugin->dev != NULL && (plugin->project_id == NULL || !host_dev_may_run(plugin->dev)))
        return host_dev_may_run(plugin->dev);
    if (plugin->project_id != NULL && plugin->dev == NULL &&
        choice_of(host, plugin->base) == STATE_DISABLED)
        return false;
    enum state_choice choice = choice_of(host, plugin->name);
    if (choice != STATE_UNSAID)
        return choice == STATE_ENABLED;
    return kg_list_has(host->config->plugins_enabled, kg_str(plugin->name)) ||
           host_projects_want(host, plugin);
}

int host_check_startable(const struct host *host, const struct host_plugin *plugin,
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

static void start(struct host *host, struct host_plugin *plugin)
{
    struct kg_err err;
    if (host_check_startable(host, plugin, &err) == 0) {
        host_start_if_approved(host, plugin);
        return;
    }
    kg_log_about(KG_ERROR_LEVEL, plugin->name, "%s%s%s", err.message,
                 err.hint[0] != '\0' ? "; to mend it: " : "", err.hint);
    audit_emit(host->audit, AUDIT_PLUGIN_FAILED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
               AUDIT_V_INT(0), AUDIT_V_TEXT(err.message));
}

void host_follow_choice(struct host *host, struct host_plugin *plugin)
{
    if (plugin->instance == NULL || plugin->change != NULL || host->stopping)
        return;
    if (!host_is_enabled(host, plugin))
        instance_disable(plugin->instance);
    else if (instance_state(plugin->instance) == INSTANCE_DISABLED ||
             instance_state(plugin->instance) == INSTANCE_STOPPING)
        start(host, plugin);
}

static void start_enabled(struct host *host)
{
    for (size_t i = 0; i < host->plugin_count; i++) {
        struct host_plugin *plugin = host->plugins[i];
        if (plugin->instance != NULL && plugin->change == NULL && host_is_enabled(host, plugin) &&
            instance_state(plugin->instance) == INSTANCE_DISABLED)
            start(host, plugin);
    }
}

static void stop_no_longer_enabled(struct host *host)
{
    for (size_t i = 0; i < host->plugin_count; i++)
        if (host->plugins[i]->instance != NULL && host->plugins[i]->change == NULL &&
            !host_is_enabled(host, host->plugins[i]))
            instance_disable(host->plugins[i]->instance);
}

static void warn_of_missing(struct host *host)
{
    for (char **name = host->config->plugins_enabled; *name != NULL; name++)
        if (host_plugin_find(host, kg_str(*name), NULL) == NULL)
            kg_log(KG_WARN, "plugin %s is enabled in %s, but there is no such folder in %s", *name,
                   host->paths->config_file, host->plugins_dir);
}

/* Before anything is looked at: what a killed daemon or command left is finished or undone. */
static void recover_store(struct host *host)
{
    struct kg_err err;
    if (store_recover(host->store, &err) < 0)
        kg_log(KG_ERROR_LEVEL, "%s%s%s", err.message, err.hint[0] != '\0' ? "; to mend it: " : "",
               err.hint);
}

void host_start(struct host *host)
{
    host->started_at_ms = kg_wall_ms();
    meter_start(host);
    audit_emit(host->audit, AUDIT_DAEMON_STARTED, KG_STR_NULL, AUDIT_V_TEXT(KAGED_VERSION),
               AUDIT_V_INT(getpid()), AUDIT_V_TEXT(host->paths->home));
    recover_store(host);
    find_plugins(host);
    warn_of_missing(host);
    start_enabled(host);
    host_projects_start(host);
}

static int remember(struct host *host, const struct host_plugin *plugin, enum state_choice choice,
                    struct kg_err *err)
{
    return state_plugin_choice_set(host->state, kg_str(plugin->name), choice, err);
}

int host_read_local_again(struct host *host, struct kg_err *err)
{
    struct local *local = local_load(host->paths->local_file, LOCAL_REPLACE, err);
    if (local == NULL)
        return -EINVAL;
    local_free(host->local);
    host->local = local;
    return 0;
}

int host_disable(struct host *host, struct kg_str name, const char *operator_id, struct kg_err *err)
{
    struct host_plugin *plugin = host_plugin_find(host, name, err);
    if (plugin == NULL || host_check_unchanging(plugin, err) < 0 ||
        host_check_not_dev(plugin, err) < 0 || remember(host, plugin, STATE_DISABLED, err) < 0)
        return -EINVAL;
    audit_emit(host->audit, AUDIT_PLUGIN_DISABLED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
               AUDIT_V_TEXT("the operator disabled it"), AUDIT_V_TEXT(operator_id));
    for (size_t i = 0; i < host->plugin_count; i++)
        if (host->plugins[i]->instance != NULL &&
            (host->plugins[i] == plugin || strcmp(host->plugins[i]->base, plugin->name) == 0))
            instance_disable(host->plugins[i]->instance);
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
void host_refresh_plugin(struct host *host, struct host_plugin *plugin)
{
    kg_auto(kg_buf_free) struct kg_buf settings = {0};
    struct kg_err err;
    if (plugin->change != NULL)
        return; /* which reads it itself */
    struct instance_limits limits = policy_limits(host->config, plugin->base);
    if (plugin->instance != NULL)
        instance_set_limits(plugin->instance, &limits);
    if (plugin->instance == NULL || !instance_has_process(plugin->instance))
        (void)host_load_plugin(host, plugin);
    else if (plugin_config_make(host, plugin, plugin->manifest, &settings, &err) < 0)
        kg_log_about(KG_ERROR_LEVEL, plugin->name, "keeps its configuration: %s", err.message);
    else
        apply_settings(plugin, kg_buf_view(&settings));
}

static int reload(struct host *host, const char *operator_id, struct kg_buf *ret_changed_json,
                  struct kg_err *err)
{
    struct config *config = config_load(host->paths->config_file, err);
    struct local *local = config ? local_load(host->paths->local_file, LOCAL_REPLACE, err) : NULL;
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
    for (size_t i = 0; i < host->plugin_count; i++)
        host_refresh_plugin(host, host->plugins[i]);
    find_plugins(host);
    warn_of_missing(host);
    stop_no_longer_enabled(host);
    start_enabled(host);
    host_projects_refresh(host);
    if (host->on_reloaded != NULL)
        host->on_reloaded(host->on_reloaded_data);
    kg_log(KG_INFO, "configuration reloaded: %.400s", kg_buf_terminate(ret_changed_json));
    return 0;
}

int host_reload(struct host *host, const char *operator_id, struct kg_buf *ret_changed_json,
                struct kg_err *err)
{
    if (host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (host->on_reloading != NULL)
        host->on_reloading(host->on_reloaded_data, true);
    int result = reload(host, operator_id, ret_changed_json, err);
    if (host->on_reloading != NULL)
        host->on_reloading(host->on_reloaded_data, false);
    return result;
}

/* -- stopping ---------------------------------------------------------------------------------- */

static void check_stopped(struct loop_task *task)
{
    struct host *host = KG_CONTAINER(task, struct host, stop_check);
    if (host->change_count > 0 || host->store_jobs > 0 || host_projects_busy(host) ||
        store_is_fetching(host->store))
        return;
    for (size_t i = 0; i < host->plugin_count; i++)
        if (is_busy(host->plugins[i]))
            return;
    if (host->on_stopped == NULL)
        return;
    for (size_t i = 0; i < host->plugin_count; i++)
        host_trace_end(host->plugins[i]);
    audit_emit(host->audit, AUDIT_DAEMON_STOPPED, KG_STR_NULL, AUDIT_V_TEXT(host->stop_reason));
    void (*on_stopped)(void *data) = host->on_stopped;
    host->on_stopped = NULL;
    on_stopped(host->on_stopped_data);
}

static void on_state(void *data, struct instance *instance)
{
    struct host *host = data;
    struct host_plugin *plugin = plugin_of(host, instance);
    if (plugin != NULL && plugin->change != NULL)
        host_change_look(plugin->change);
    if (plugin != NULL && plugin->leaving)
        host_look_for_left(host);
    if (plugin != NULL) {
        host_projects_on_state(host, plugin);
        host_agents_look(plugin);
    }
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
        host_projects_stop(host);
        host_devs_stop(host);
        host_consents_close(host);
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
    host_projects_close(host);
    host_consents_close(host);
    meter_stop(host);
    if (host->store_worker != NULL)
        loop_worker_free(host->store_worker); /* what it has to say is said to plugins */
    loop_undefer(host->loop, &host->stop_check);
    loop_undefer(host->loop, &host->leave_check);
    for (size_t i = 0; i < host->plugin_count; i++)
        plugin_free(host->plugins[i]);
    for (size_t i = 0; i < host->gone_count; i++)
        plugin_free(host->gone[i]);
    free(host->gone);
    free(host->plugins);
    host->plugin_count = 0; /* who is answered by the last jobs finds none */
    host_tools_end(host);
    host_devs_free(host);
    host_projects_free(host);
    host_calls_free(host);
    gate_free(host->gate);
    audit_close(host->audit);
    host_events_free(host->events);
    loop_worker_free(host->reader);
    state_close(host->state);
    store_free(host->store);
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

struct state *host_state(struct host *host)
{
    return host->state;
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
