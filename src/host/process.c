/*
 * The processes of plugins, each named by whom it serves: one for nobody in particular, one for
 * each project, or one for each conversation, as the plugin wants it. A process keeps the manifest
 * that it was started with, whatever the plugin's is by now. One whose project is gone leaves: it
 * ends, its storage is closed, and then it is removed.
 */
#include "host/internal.h"

#include "redact/shared.h"

#include <errno.h>
#include <stdlib.h>

/* -- names ------------------------------------------------------------------------------------- */

const struct host_whom host_nobody = {.kind = HOST_NOBODY};

/* The name in status, logs, metrics, events and routes; owned. */
static char *host_process_name(const char *plugin, const struct host_whom *whom)
{
    return whom->kind == HOST_NOBODY ? kg_strdup(plugin) : kg_format("%s@%s", plugin, whom->id);
}

/* By whom they serve; nobody comes first. */
static int host_process_compare(const struct host_whom *a, const struct host_whom *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->kind == HOST_NOBODY ? 0 : strcmp(a->id, b->id);
}

struct host_process *host_process_find(const struct host_plugin *plugin,
                                       const struct host_whom *whom)
{
    struct host_process *process = plugin->processes;
    while (process != NULL && host_process_compare(&process->whom, whom) != 0)
        process = process->next;
    return process;
}

/* -- its cage ---------------------------------------------------------------------------------- */

/* Without a process, for nobody. */
struct host_cage_parts host_cage_parts_of(struct host_named named,
                                          const struct host_covers *covers_or_null)
{
    const struct host_process *process = named.process;
    const struct host *host = named.plugin->host;
    const struct host_whom *whom = process ? &process->whom : &host_nobody;
    bool has_own_home = process != NULL && host_plugin_parts_homes(named.plugin);
    const char *home = has_own_home ? process->name : named.plugin->name;
    const struct host_plugin *plugin = named.plugin;
    return (struct host_cage_parts){
        .manifest = process ? process->manifest : plugin->manifest,
        .grants = host_grants_of(named),
        .dir = plugin->dev ? plugin->dir : plugin->seen_dir,
        .source = process ? process->dir : plugin->dir,
        .plugins_dir = host->plugins_dir,
        .config = host->config,
        .paths = host->paths,
        .settings = process ? instance_config(process->instance) : KG_STR_NULL,
        .home = home,
        .project_root = whom->root,
        .project_id = whom->project,
        .project_file = whom->file,
        .covers = covers_or_null,
        .facts = host->facts,
    };
}

struct cage_plan *host_plan(struct host_named named, struct host_covers *ret_guards_or_null,
                            struct kg_err *err)
{
    kg_auto(host_covers_free) struct host_covers covers = {0};
    const struct host *host = named.plugin->host;
    if (host->no_cage.code != KG_OK) {
        *err = host->no_cage;
        return NULL;
    }
    host_covers_collect(host, &covers);
    struct host_cage_parts parts = host_cage_parts_of(named, &covers);
    parts.ret_guards = ret_guards_or_null;
    parts.search = named.process && ret_guards_or_null ? named.process->search : NULL;
    parts.make_folders = ret_guards_or_null != NULL;
    return host_tier_of(parts.manifest)->plan(&parts, err);
}

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

/* -- what the supervisor tells and asks -------------------------------------------------------- */

/* The last one that used a version that was replaced meanwhile has it removed. */
static void host_process_let_go(struct host_process *process)
{
    const struct host_plugin *plugin = process->plugin;
    struct store_version *version = kg_steal(&process->version);
    if (version == NULL)
        return;
    kg_auto(kg_free) char *place = store_place(plugin->host->store, plugin->name);
    bool replaced = strcmp(version->path, place) != 0;
    store_version_free(version);
    if (replaced && !plugin->host->stopping)
        host_tidy_store(plugin->host);
}

/*
 * Holds the version that it is started from, which must be the one that its manifest was read from
 * and the one that was approved: after a crash that may be another than before.
 */
static int hold_version(struct host_process *process, struct kg_err *err)
{
    struct host_plugin *plugin = process->plugin;
    struct store_version *version = NULL;
    if (plugin->dev == NULL && process->tier->is_stored &&
        store_version_current(plugin->host->store, plugin->name, &version, err) < 0)
        return -EINVAL;
    bool is_other = version != NULL && strcmp(version->path, process->dir) != 0;
    if (is_other && host_plugin_read(plugin) < 0) {
        store_version_free(version);
        *err = plugin->problem;
        return -EINVAL;
    }
    if (is_other)
        host_process_load(process);
    host_process_let_go(process);
    process->version = version;
    return 0;
}

static bool host_process_prepare(void *data)
{
    return host_search_ready(data);
}

/* What the cage of a running process is made of is kept, since its plan could be another by now. */
static struct cage_plan *host_process_make_plan(void *data, struct kg_err *err)
{
    struct host_process *process = data;
    const struct host *host = process->plugin->host;
    struct instance_times times = times_of(process->manifest, host->config);
    instance_set_times(process->instance,
                       &times); /* a restart after a crash takes new settings, too */
    process->start_settings = host->start_settings;
    host_script_note_start(process);
    if (hold_version(process, err) < 0 || host_check_start(process, err) < 0)
        return NULL;
    kg_auto(host_covers_free) struct host_covers guards = {0};
    host_guarded_end(kg_steal(&process->guarded));
    struct cage_plan *plan = host_plan((struct host_named){process->plugin, process}, &guards, err);
    host_search_forget(process);
    kg_buf_free(&process->cage_words);
    kg_list_free(kg_steal(&process->sees));
    if (plan != NULL) {
        cage_plan_words(plan, &process->cage_words);
        process->sees = cage_plan_sees(plan);
        process->guarded = host_guarded_new(process, &guards);
    }
    return plan;
}

void host_process_moved(struct host_process *process)
{
    struct host *host = process->plugin->host;
    if (process->plugin->change != NULL)
        host_change_look(process->plugin->change);
    if (process->standing == HOST_LEAVES)
        host_look_for_left(host);
    host_use_moved(process);
    if (process->plugin->package != NULL)
        host_package_moved(process);
    host_look_for_stop(host);
}

void host_tell_projects(struct host_process *process)
{
    struct host *host = process->plugin->host;
    host->project_ops->moved(host->projects, process);
}

static void on_state(void *data)
{
    struct host_process *process = data;
    if (!host_process_runs(process))
        host_process_let_go(process);
    host_process_moved(process);
    host_tell_projects(process);
}

/* One of a conversation goes with it, and so does that it failed. */
static void keep_failure(const struct host_process *process)
{
    const struct exit_report *last = instance_facts(process->instance).last_exit;
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    bool is_drift = last != NULL && last->cause == EXIT_REFUSED; /* each start looks at that */
    if (process->whom.kind >= HOST_SESSION || process->plugin->dev != NULL || is_drift)
        return;
    if (last != NULL)
        exit_report_words(last, &words);
    host_set_failure(process->plugin->host, process->name, kg_buf_terminate(&words));
}

static void on_move(void *data, enum instance_state from, enum instance_state to,
                    const char *reason)
{
    struct host_process *process = data;
    host_events_state(process->plugin->host->events, process->name, instance_state_name(from),
                      instance_state_name(to), reason);
    host_trace_moved(process, from, to, reason);
    if (host_process_runs(process))
        return;
    host_guarded_end(kg_steal(&process->guarded));
    host_door_end(process->plugin->host, process);
    host_calls_gone(process);
    host_script_runs_end(process);
    host_script_net_end(process);
    struct storage *storage = host_storage_owner(process)->storage;
    if (storage != NULL)
        storage_drop(storage, process); /* what a plugin asked dies with it */
    if (to == INSTANCE_FAILED)
        keep_failure(process);
    else if (from == INSTANCE_FAILED && to != INSTANCE_STOPPED)
        host_set_failure(process->plugin->host, process->name, NULL);
}

static void host_process_on_notification(void *data, struct kg_str method, struct kg_str params)
{
    struct host_process *process = data;
    host_events_notification(process->plugin->host->events, process->name, method, params);
    host_offers_heard(process, method, params);
}

static void host_process_on_log(void *data, struct kg_str message)
{
    host_offers_logged(data, message);
}

/* Whoever had it told may wait for that. */
static void host_process_on_configured(void *data)
{
    struct host_process *process = data;
    struct kg_str refused = instance_config_refused(process->instance);
    if (refused.length > 0)
        audit_emit(process->plugin->host->audit, AUDIT_PLUGIN_CONFIG_REFUSED, KG_STR_NULL,
                   AUDIT_V_TEXT(process->name), AUDIT_V_STR(refused));
    host_tell_projects(process);
}

static bool host_process_has_storage(void *data)
{
    return host_stores(data);
}

static bool host_process_may_claim(void *data, struct kg_str capability)
{
    const struct host_process *process = data;
    kg_auto(capability_free) struct capability claimed = {0};
    return capability_parse(capability, &claimed, NULL) == 0 &&
           grants_cover(&process->grants, &claimed);
}

static bool host_process_may_notify(void *data, struct kg_str type)
{
    const struct host_process *process = data;
    return kg_list_has(process->manifest->notifications, type);
}

static bool host_process_is_tool(void *data, struct kg_str method)
{
    const struct host_process *process = data;
    return manifest_tool_called(process->manifest, method) != NULL;
}

static void host_process_put_projects(void *data, struct kg_json_writer *json)
{
    const struct host_process *process = data;
    const struct host *host = process->plugin->host;
    host->project_ops->put(host->projects, process->plugin->name, &process->whom, json);
}

static void put_file_uri(struct kg_buf *out, const char *path)
{
    kg_buf_text(out, "file://");
    for (const char *at = path, *end; *at != '\0'; at = end) {
        end = strchrnul(at + 1, '/');
        kg_buf_char(out, '/');
        kg_buf_percent(out, (struct kg_str){at + 1, (size_t)(end - at - 1)});
    }
}

/* A server that reaches into its project is told where that is. */
static bool host_process_put_roots(void *data, struct kg_json_writer *json_or_null)
{
    const struct host_process *process = data;
    const struct host_whom *whom = &process->whom;
    if (whom->root == NULL)
        return false;
    if (json_or_null != NULL) {
        kg_auto(kg_buf_free) struct kg_buf uri = {0};
        put_file_uri(&uri, whom->root);
        kg_json_begin(json_or_null, '{');
        kg_json_named_str(json_or_null, "uri", kg_buf_view(&uri));
        kg_json_named_text(json_or_null, "name", whom->id);
        kg_json_end(json_or_null, '}');
    }
    return true;
}

static void host_process_on_tools(void *data)
{
    struct host_process *process = data;
    process->tier->on_tools(process);
}

/*
 * The author may have fixed the manifest since; if it is broken now, what ran before runs again.
 */
static void on_fresh_start(void *data)
{
    struct host_process *process = data;
    if (host_plugin_read(process->plugin) < 0)
        kg_log_about(KG_ERROR_LEVEL, process->name, "%s", process->plugin->problem.message);
    else
        host_process_load(process);
}

/* -- what it is started with ------------------------------------------------------------------- */

/* The lists are owned by the manifest; the supervisor only reads them. */
#define LIST(list) ((const char *const *)(list))

static void set_spec(struct host_process *process, struct kg_str settings)
{
    struct host *host = process->plugin->host;
    const struct manifest *manifest = process->manifest;
    const struct instance_spec spec = {
        .name = process->name,
        .plugin = host_package_own_name(process->plugin),
        .dialect = dialect_find(kg_str(process->tier->dialect)),
        .variant = host_tools_variant(process->plugin),
        .version = manifest->version,
        .methods = LIST(manifest->method_names),
        .capabilities = LIST(process->grants.texts),
        .times = times_of(manifest, host->config),
        .limits = policy_limits(host->config, process->plugin->name),
        .config = settings,
        .secrets = process->secrets,
    };
    static const struct instance_ops ops = {
        .on_state = on_state,
        .on_move = on_move,
        .on_notification = host_process_on_notification,
        .on_configured = host_process_on_configured,
        .on_fresh_start = on_fresh_start,
        .prepare = host_process_prepare,
        .make_plan = host_process_make_plan,
        .on_request = host_serve,
        .has_storage = host_process_has_storage,
        .may_claim = host_process_may_claim,
        .is_tool = host_process_is_tool,
        .may_notify = host_process_may_notify,
        .put_projects = host_process_put_projects,
        .put_roots = host_process_put_roots,
        .on_tools = host_process_on_tools,
        .on_log = host_process_on_log,
        .on_input = host_on_input,
        .drop_input = host_drop_input,
        .may_request = host_may_request,
    };
    if (process->instance == NULL)
        process->instance = instance_new(&host->supervisor, &spec, &ops, process);
    else
        instance_set_spec(process->instance, &spec);
    host_trace_loaded(process);
}

void host_process_load(struct host_process *process)
{
    struct host_plugin *plugin = process->plugin;
    kg_auto(kg_buf_free) struct kg_buf settings = {0};
    process->tier = host_tier_of(plugin->manifest);
    process->tier->settings(process, plugin->manifest, &settings);
    manifest_free(process->manifest);
    process->manifest = manifest_keep(plugin->manifest);
    (void)host_grants_renew(process);
    free(process->dir);
    process->dir = kg_strdup(plugin->dir);
    set_spec(process, kg_buf_view(&settings));
}

void host_process_configure(struct host_process *process, struct kg_str settings)
{
    instance_set_config(process->instance, settings);
    host_trace_configured(process);
}

/*
 * Where a setting of the type `path` points is a part of the cage: a change needs a new one. So are
 * what the operator granted, and the words that a server is started with.
 */
static void host_process_apply_settings(struct host_process *process, struct kg_str settings)
{
    struct kg_str before = instance_config(process->instance);
    bool moves = policy_paths_differ(process->manifest, before, settings) ||
                 (process->tier->words_have_settings && !kg_str_equal(before, settings));
    moves |= host_grants_renew(process);
    host_process_configure(process, settings);
    if (moves)
        instance_restart(process->instance);
}

void host_process_refresh(struct host_process *process)
{
    kg_auto(kg_buf_free) struct kg_buf settings = {0};
    if (process->standing == HOST_LEAVES || !host_process_runs(process) || process->in_turn)
        return;
    process->tier->settings(process, process->manifest, &settings);
    host_process_apply_settings(process, kg_buf_view(&settings));
}

/* -- its life ---------------------------------------------------------------------------------- */

struct host_process *host_process_keep(struct host_process *process)
{
    process->references++;
    return process;
}

void host_process_drop(struct host_process *process)
{
    if (--process->references > 0)
        return;
    host_plugin_drop(process->plugin);
    store_version_free(process->version);
    free(process->dir);
    free(process->usage.course);
    free(process->name);
    free((char *)process->whom.id);
    free((char *)process->whom.project);
    free((char *)process->whom.root);
    free((char *)process->whom.file);
    free((char *)process->whom.org);
    free(process);
}

static void link_process(struct host_process *process)
{
    struct host_process **at = &process->plugin->processes;
    while (*at != NULL && host_process_compare(&(*at)->whom, &process->whom) < 0)
        at = &(*at)->next;
    process->next = *at;
    *at = process;
}

struct host_process *host_process_add(struct host_plugin *plugin, const struct host_whom *whom)
{
    struct host_process *process = kg_alloc(sizeof(*process));
    struct kg_err err = {0};
    process->plugin = host_plugin_keep(plugin);
    process->references = 1;
    process->standing = plugin->change ? HOST_HELD : HOST_RESTS;
    process->tier = host_tier_of(plugin->manifest);
    process->secrets = redact_set_new(redact_shared());
    process->name = host_process_name(plugin->name, whom);
    process->name_length = strlen(process->name);
    process->whom = (struct host_whom){whom->kind,
                                       kg_strdup(whom->id),
                                       kg_strdup(whom->project),
                                       kg_strdup(whom->root),
                                       kg_strdup(whom->file),
                                       kg_strdup(whom->org)};
    process->manifest = manifest_keep(plugin->manifest);
    process->dir = kg_strdup(plugin->dir);
    if (plugin_config_check(plugin->host, plugin->manifest, &err) == 0) {
        host_process_load(process);
    } else {
        plugin->problem = err;
        (void)host_grants_renew(process);
        set_spec(process, KG_STR_NULL); /* it is not started while that is so */
    }
    link_process(process);
    const char *failed = host_failure(plugin->host, process->name);
    if (failed != NULL && plugin->dev == NULL)
        instance_set_failed(process->instance, failed);
    if (plugin->dev != NULL)
        host_dev_joined(plugin->dev, process);
    return process;
}

void host_process_remove(struct host_process *process)
{
    struct host *host = process->plugin->host;
    KG_UNLINK(process->plugin->processes, process);
    host_use_end(process);
    if (process->plugin->package != NULL)
        host_package_gone(process);
    host_offers_end(process);
    host_trace_free(process);
    instance_free(kg_steal(&process->instance));
    redact_set_free(kg_steal(&process->secrets));
    storage_free(kg_steal(&process->storage));
    host->project_ops->gone(host->projects, process);
    manifest_free(kg_steal(&process->manifest));
    grants_free(&process->grants);
    kg_doc_free(kg_steal(&process->registered));
    kg_buf_free(&process->cage_words);
    kg_list_free(kg_steal(&process->sees));
    host_guarded_end(kg_steal(&process->guarded));
    kg_list_free(kg_steal(&process->quarantined));
    host_search_forget(process);
    host_process_drop(process);
}

bool host_process_runs(const struct host_process *process)
{
    return instance_has_process(process->instance);
}

/* A plugin may still be storing something while it leaves, so its storage closes after it. */
bool host_process_is_busy(struct host_process *process)
{
    if (host_process_runs(process))
        return true;
    if (process->storage == NULL || storage_is_closed(process->storage))
        return false;
    storage_close(process->storage);
    return true;
}

void host_process_kill(struct host_process *process)
{
    instance_kill(process->instance);
    if (process->storage != NULL)
        storage_kill(process->storage);
}

/* One that serves nobody is missed if it could serve again. */
static void remove_process(struct host_process *process)
{
    struct host_plugin *plugin = process->plugin;
    bool was_nobodys = process->whom.kind == HOST_NOBODY;
    host_process_raise(process, HOST_ON_ENDED);
    if (was_nobodys && !plugin->leaving && host_plugin_load(plugin) == 0)
        host_plugin_follow(plugin);
}

static bool remove_left_of(struct host_plugin *plugin)
{
    bool any = false;
    for (struct host_process *at = plugin->processes, *next; at != NULL; at = next) {
        next = at->next;
        if (at->standing != HOST_LEAVES || host_process_is_busy(at))
            continue;
        remove_process(at);
        any = true;
    }
    if (plugin->leaving && plugin->processes == NULL)
        host_plugin_remove(plugin);
    return any;
}

static void remove_left(struct loop_task *task)
{
    struct host *host = KG_CONTAINER(task, struct host, leave_check);
    bool any = false;
    for (size_t i = host->plugin_count; i-- > 0;)
        if (host->plugins[i]->change == NULL)
            any |= remove_left_of(host->plugins[i]);
    if (any)
        host->project_ops->look_again(host->projects); /* one may want a new process of that name */
}

void host_look_for_left(struct host *host)
{
    host->leave_check.run = remove_left;
    loop_defer(host->loop, &host->leave_check);
}

/* -- whether it runs --------------------------------------------------------------------------- */

/* Disabling a plugin disables it in every project. */
bool host_process_is_allowed(const struct host_process *process)
{
    const struct host_plugin *plugin = process->plugin;
    struct host *host = plugin->host;
    bool is_nobodys = process->whom.kind == HOST_NOBODY;
    if (process->standing >= HOST_LEAVES)
        return false;
    if (plugin->package != NULL)
        return host_package_is_used(process);
    if (process->tier->joins_sessions)
        return !is_nobodys && host_script_is_enabled(plugin) &&
               host->project_ops->want(host->projects, plugin->name, &process->whom);
    if (plugin->dev != NULL && (is_nobodys || !host_dev_may_run(plugin->dev)))
        return host_dev_may_run(plugin->dev);
    if (!is_nobodys && plugin->dev == NULL && host_choice(host, plugin->name) == STATE_DISABLED)
        return false;
    enum state_choice choice = host_choice(host, process->name);
    if (choice != STATE_UNSAID)
        return choice == STATE_ENABLED;
    return kg_list_has(host->config->plugins_enabled, kg_str(process->name)) ||
           host->project_ops->want(host->projects, plugin->name, &process->whom);
}

bool host_process_is_wanted(const struct host_process *process)
{
    return host_process_is_allowed(process) && (process->in_use || !host_process_is_lazy(process));
}

bool host_process_is_starting(const struct host_process *process)
{
    if (process->standing == HOST_GONE || process->plugin->host->stopping)
        return false;
    return instance_is_starting(process->instance) ||
           (process->standing == HOST_CHECKED && !host_process_runs(process));
}

void host_process_restart(struct host_process *process)
{
    host_process_raise(process, HOST_ON_RESTART);
}

void host_process_leave(struct host_process *process)
{
    host_process_raise(process, HOST_ON_LEFT);
}

void host_process_follow(struct host_process *process)
{
    if (process->plugin->host->stopping)
        return;
    host_process_raise(process, !host_process_is_allowed(process) ? HOST_ON_UNWANTED
                                : host_process_is_wanted(process) ? HOST_ON_WANTED
                                                                  : HOST_ON_UNUSED);
}
