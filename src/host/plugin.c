/*
 * The list of plugins. A plugin is a folder in the plugins folder, or its author's; one whose
 * manifest cannot be used is listed with the reason and never runs. Who keeps a plugin or a process
 * over a turn of the loop holds a reference, and finds out when it is gone.
 */
#include "host/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- references -------------------------------------------------------------------------------- */

struct host_plugin *host_plugin_keep(struct host_plugin *plugin)
{
    plugin->references++;
    return plugin;
}

void host_plugin_drop(struct host_plugin *plugin)
{
    if (--plugin->references > 0)
        return;
    manifest_free(plugin->manifest);
    grants_free(&plugin->grants);
    host_tools_free(plugin->tools);
    host_script_free(plugin->script);
    host_package_free(plugin->package);
    free(plugin->name);
    free(plugin->dir);
    free(plugin->seen_dir);
    free(plugin);
}

struct host_named host_keep(struct host_named named)
{
    host_plugin_keep(named.plugin);
    if (named.process != NULL)
        host_process_keep(named.process);
    return named;
}

void host_drop(struct host_named named)
{
    if (named.process != NULL)
        host_process_drop(named.process);
    host_plugin_drop(named.plugin);
}

bool host_is_gone(struct host_named named)
{
    return named.plugin->gone || (named.process != NULL && named.process->standing == HOST_GONE);
}

/* -- the list ---------------------------------------------------------------------------------- */

/* The index of the one of that name, else of the first whose name is above it. */
static size_t host_plugin_place_of(const struct host *host, struct kg_str name, bool *ret_found)
{
    size_t low = 0, high = host->plugin_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = kg_str_compare(name, kg_str(host->plugins[middle]->name));
        if (order == 0) {
            *ret_found = true;
            return middle;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    *ret_found = false;
    return low;
}

struct host_plugin *host_plugin_find(const struct host *host, struct kg_str name)
{
    bool found;
    size_t place = host_plugin_place_of(host, name, &found);
    return found ? host->plugins[place] : NULL;
}

struct host_process *host_process_after(const struct host *host,
                                        const struct host_process *process_or_null)
{
    size_t place = 0;
    bool found;
    if (process_or_null != NULL && process_or_null->next != NULL)
        return process_or_null->next;
    if (process_or_null != NULL)
        place = host_plugin_place_of(host, kg_str(process_or_null->plugin->name), &found) + 1;
    while (place < host->plugin_count && host->plugins[place]->processes == NULL)
        place++;
    return place < host->plugin_count ? host->plugins[place]->processes : NULL;
}

static void insert(struct host *host, struct host_plugin *plugin)
{
    bool found;
    size_t place = host_plugin_place_of(host, kg_str(plugin->name), &found);
    host->plugins = kg_realloc(host->plugins, (host->plugin_count + 1) * sizeof(*host->plugins));
    memmove(&host->plugins[place + 1], &host->plugins[place],
            (host->plugin_count - place) * sizeof(*host->plugins));
    host->plugins[place] = plugin;
    host->plugin_count++;
}

/* Somebody who has just copied it there sees why it cannot start; that files changed is seen at a
 * start. */
static void look_for_approval(struct host_plugin *plugin)
{
    plugin->drift = (struct kg_err){.code = KG_OK};
    struct kg_err err;
    if (plugin->dev == NULL && store_check_known(plugin->host->store, plugin->name, &err) < 0)
        plugin->drift = err;
}

struct host_plugin *host_plugin_add(struct host *host, const char *name)
{
    struct host_plugin *plugin = kg_alloc(sizeof(*plugin));
    plugin->host = host;
    plugin->references = 1;
    plugin->name = kg_strdup(name);
    plugin->dir = store_place(host->store, name);
    plugin->seen_dir = kg_format("%s/%s", host->plugins_dir, name);
    insert(host, plugin);
    return plugin;
}

static void host_plugin_list_folder(struct host *host, const char *name)
{
    struct host_plugin *plugin = host_plugin_add(host, name);
    look_for_approval(plugin);
    if (host_plugin_load(plugin) == 0)
        return;
    kg_log_about(KG_ERROR_LEVEL, name, "disabled: %s", plugin->problem.message);
    audit_emit(host->audit, AUDIT_PLUGIN_DISABLED, KG_STR_NULL, AUDIT_V_TEXT(name),
               AUDIT_V_TEXT(plugin->problem.message), AUDIT_V_NULL);
}

void host_find_plugins(struct host *host)
{
    struct kg_err err;
    char **names = store_names(host->store, &err);
    if (names == NULL)
        kg_log(KG_WARN, "%s", err.message);
    for (char **name = names; name != NULL && *name != NULL; name++)
        if (host_plugin_find(host, kg_str(*name)) == NULL)
            host_plugin_list_folder(host, *name);
    kg_list_free(names);
}

void host_plugin_remove(struct host_plugin *plugin)
{
    struct host *host = plugin->host;
    bool found;
    size_t place = host_plugin_place_of(host, kg_str(plugin->name), &found);
    loop_undefer(host->loop, &plugin->tools_task);
    while (plugin->processes != NULL)
        host_process_remove(plugin->processes);
    host->plugin_count--;
    memmove(&host->plugins[place], &host->plugins[place + 1],
            (host->plugin_count - place) * sizeof(*host->plugins));
    plugin->dev = NULL;
    plugin->gone = true;
    host_plugin_drop(plugin);
}

void host_plugins_free(struct host *host)
{
    while (host->plugin_count > 0)
        host_plugin_remove(host->plugins[host->plugin_count - 1]);
    free(kg_steal(&host->plugins));
}

/* -- from where it is run ---------------------------------------------------------------------- */

void host_plugin_move(struct host_plugin *plugin, struct host_dev *dev_or_null)
{
    struct host_dev *before = plugin->dev;
    free(plugin->dir);
    plugin->dev = dev_or_null;
    plugin->dir = dev_or_null ? kg_strdup(host_dev_path(dev_or_null))
                              : store_place(plugin->host->store, plugin->name);
    plugin->leaving = dev_or_null == NULL && access(plugin->dir, F_OK) < 0;
    look_for_approval(plugin);
    for (struct host_process *at = plugin->processes; at != NULL; at = at->next) {
        if (before != NULL && before != dev_or_null)
            host_dev_left(before, at);
        if (dev_or_null != NULL && before != dev_or_null)
            host_dev_joined(dev_or_null, at);
        if (plugin->leaving)
            host_process_raise(at, HOST_ON_LEFT);
    }
    if (dev_or_null != NULL && before != dev_or_null)
        host_cover(plugin->host, plugin->dir, false, NULL);
}

/* -- reading it -------------------------------------------------------------------------------- */

static void log_warnings(const struct host_plugin *plugin, const struct kg_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++)
        if (problems->items[i].row->severity == KG_SEVERITY_WARNING)
            kg_log_about(KG_WARN, plugin->name, "%s:%u:%u: %s", MANIFEST_FILE,
                         problems->items[i].line, problems->items[i].column,
                         problems->items[i].message);
}

struct manifest *host_read_manifest(struct host_plugin *plugin, struct kg_err *err)
{
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    if (plugin->script != NULL)
        return host_script_manifest(plugin, err);
    if (plugin->package != NULL)
        return host_package_manifest(plugin);
    if (plugin->dev == NULL) {
        free(plugin->dir); /* by now another version may be the one that was approved */
        plugin->dir = store_place(plugin->host->store, plugin->name);
    }
    struct manifest *manifest = plugin->dev ? manifest_read(host_dev_text(plugin->dev), &problems)
                                            : manifest_load(plugin->dir, &problems);
    if (manifest != NULL)
        host_tools_load(plugin, manifest, &problems);
    log_warnings(plugin, &problems);
    if (manifest == NULL) {
        kg_auto(kg_free) char *path = kg_format("%s/%s", plugin->dir, MANIFEST_FILE);
        manifest_problems_fail(&problems, path, err);
    } else if (strcmp(manifest->name, plugin->name) != 0) {
        kg_fail(err, KG_E_INVALID_MANIFEST,
                "%s/%s: the name is \"%s\", but the folder is called \"%s\"", plugin->dir,
                MANIFEST_FILE, manifest->name, plugin->name);
        kg_hint(err, "give both the same name");
        manifest_free(kg_steal(&manifest));
    }
    return manifest;
}

int host_plugin_read(struct host_plugin *plugin)
{
    struct kg_err err = {0};
    struct manifest *manifest = host_read_manifest(plugin, &err);
    if (manifest == NULL || plugin_config_check(plugin->host, manifest, &err) < 0) {
        plugin->problem = err;
        manifest_free(manifest);
        return -EINVAL;
    }
    plugin->problem = (struct kg_err){.code = KG_OK};
    manifest_free(plugin->manifest);
    plugin->manifest = manifest;
    host_grants_make(plugin->host, manifest, &host_nobody, &plugin->grants);
    return 0;
}

/* What local.toml says of it; NULL: nothing. */
static const struct local_plugin *host_plugin_record_of(const struct host_plugin *plugin)
{
    return local_plugin_find(plugin->host->local, kg_str(plugin->manifest->package));
}

enum manifest_process host_plugin_serves(const struct host_plugin *plugin,
                                         const char *project_or_null, struct kg_str settings)
{
    const struct local_plugin *record = host_plugin_record_of(plugin);
    if (host_plugin_tier(plugin)->joins_sessions)
        return plugin->manifest->process;
    enum manifest_process serves = plugin->dev ? plugin->manifest->process : MANIFEST_SHARED;
    for (size_t i = 0; plugin->dev == NULL && record && i < MANIFEST_PROCESS_COUNT; i++)
        if (kg_str_is(record->process, manifest_process_names[i]))
            serves = (enum manifest_process)i;
    return serves == MANIFEST_SHARED &&
                   host_is_of_project(plugin->host, plugin->manifest, project_or_null, settings)
               ? MANIFEST_PROJECT
               : serves;
}

/* What was installed before processes had folders of their own goes on with the one it has. */
bool host_plugin_parts_homes(const struct host_plugin *plugin)
{
    const struct local_plugin *record = host_plugin_record_of(plugin);
    return plugin->dev != NULL || (record != NULL && record->process.length > 0);
}

/* A plugin that reaches into a project, by a capability or where a setting points, serves only
 * projects. */
static void see_to_nobody(struct host_plugin *plugin)
{
    kg_auto(kg_buf_free) struct kg_buf settings = {0};
    struct host_process *process = host_process_find(plugin, &host_nobody);
    if (plugin->package != NULL)
        return;
    const struct manifest *manifest =
        process != NULL && host_process_runs(process) ? process->manifest : plugin->manifest;
    plugin_config_make(plugin, &host_nobody, manifest, &settings);
    bool serves = !host_is_of_project(plugin->host, manifest, NULL, kg_buf_view(&settings));
    if (process == NULL && serves)
        host_process_add(plugin, &host_nobody);
    else if (process != NULL && !serves)
        host_process_raise(process, HOST_ON_LEFT);
}

/* By what was found above: its settings may be those of a project, which asks this. */
bool host_plugin_reaches_projects(const struct host_plugin *plugin)
{
    const struct host_process *process = host_process_find(plugin, &host_nobody);
    return plugin->manifest != NULL && (process == NULL || process->standing == HOST_LEAVES);
}

int host_plugin_load(struct host_plugin *plugin)
{
    if (host_plugin_read(plugin) < 0)
        return -EINVAL;
    see_to_nobody(plugin);
    for (struct host_process *at = plugin->processes; at != NULL; at = at->next)
        if (at->standing != HOST_LEAVES && !host_process_runs(at))
            host_process_load(at);
    return 0;
}

static bool all_run(const struct host_plugin *plugin)
{
    bool all = host_process_find(plugin, &host_nobody) != NULL;
    for (const struct host_process *at = plugin->processes; at != NULL && all; at = at->next)
        all = host_process_runs(at);
    return all;
}

/* If not, all that run keep what they have. Those of one manifest are checked once. */
static bool running_fit(struct host_plugin *plugin)
{
    const struct manifest *checked = NULL;
    struct kg_err err;
    for (const struct host_process *at = plugin->processes; at != NULL; at = at->next) {
        if (at->standing == HOST_LEAVES || !host_process_runs(at) || at->manifest == checked)
            continue;
        checked = at->manifest;
        if (plugin_config_check(plugin->host, checked, &err) == 0)
            continue;
        kg_log_about(KG_ERROR_LEVEL, plugin->name, "keeps its configuration: %s", err.message);
        plugin->problem = err;
        return false;
    }
    if (checked != NULL && plugin->problem.code == KG_E_INVALID_CONFIG)
        plugin->problem = (struct kg_err){.code = KG_OK};
    return true;
}

void host_plugin_refresh(struct host_plugin *plugin)
{
    struct instance_limits limits = policy_limits(plugin->host->config, plugin->name);
    if (plugin->change != NULL || plugin->leaving)
        return; /* a change reads it itself */
    for (struct host_process *at = plugin->processes; at != NULL; at = at->next)
        instance_set_limits(at->instance, &limits);
    for (struct host_process *at = plugin->processes; at != NULL; at = at->next)
        host_use_look(at);
    bool all = all_run(plugin);
    if (!all)
        (void)host_plugin_load(plugin);
    if (!running_fit(plugin))
        return;
    if (all)
        see_to_nobody(plugin);
    for (struct host_process *at = plugin->processes; at != NULL; at = at->next)
        host_process_refresh(at);
}

int host_check_startable(const struct host_plugin *plugin, struct kg_err *err)
{
    const struct host *host = plugin->host;
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

void host_plugin_follow(struct host_plugin *plugin)
{
    for (struct host_process *at = plugin->processes; at != NULL; at = at->next)
        host_process_follow(at);
}

/* -- names ------------------------------------------------------------------------------------- */

const char *host_name(struct host_named named)
{
    return named.process ? named.process->name : named.plugin->name;
}

static int host_plugin_compare_names(const void *a, const void *b)
{
    return strcmp(host_name(*(const struct host_named *)a),
                  host_name(*(const struct host_named *)b));
}

struct host_named *host_names(const struct host *host, size_t *ret_count)
{
    size_t count = 0, most = host->plugin_count;
    for (struct host_process *at = NULL; (at = host_process_after(host, at)) != NULL;)
        most++;
    struct host_named *names = kg_alloc_array(most + 1, sizeof(*names));
    for (size_t i = 0; i < host->plugin_count; i++) {
        struct host_plugin *plugin = host->plugins[i];
        if (host_process_find(plugin, &host_nobody) == NULL && plugin->package == NULL)
            names[count++] = (struct host_named){plugin, NULL};
        for (struct host_process *at = plugin->processes; at != NULL; at = at->next)
            names[count++] = (struct host_named){plugin, at};
    }
    qsort(names, count, sizeof(*names), host_plugin_compare_names);
    *ret_count = count;
    return names;
}

static int say_unknown(const struct host *host, struct kg_str name, struct kg_err *err)
{
    size_t count;
    kg_auto(kg_free) struct host_named *names = host_names(host, &count);
    kg_auto(kg_free) const char **texts = kg_alloc_array(count + 1, sizeof(*texts));
    for (size_t i = 0; i < count; i++)
        texts[i] = host_name(names[i]);
    const char *nearest = kg_str_nearest(name, texts, count);
    kg_fail(err, KG_E_NOT_FOUND, "there is no plugin \"%.*s\"", KG_STR_CUT(name, KG_CUT_NAME));
    if (nearest != NULL)
        kg_hint(err, "did you mean %s?", nearest);
    else
        kg_hint(err, "install it: kaged plugin install FOLDER, or an archive or a git URL");
    return -ENOENT;
}

int host_find(const struct host *host, struct kg_str name, struct host_named *ret_named,
              struct kg_err *err)
{
    struct host_named named = {.plugin = host_plugin_find(host, name)};
    const char *at = NULL;
    if (named.plugin != NULL) {
        named.process = host_process_find(named.plugin, &host_nobody);
    } else if (name.length > 0 && (at = memchr(name.data, '@', name.length)) != NULL) {
        named.plugin = host_plugin_find(host, (struct kg_str){name.data, (size_t)(at - name.data)});
        named.process = named.plugin ? named.plugin->processes : NULL;
        while (named.process != NULL && !kg_str_is(name, named.process->name))
            named.process = named.process->next;
    }
    if (named.plugin == NULL || (at != NULL && named.process == NULL))
        return say_unknown(host, name, err);
    *ret_named = named;
    return 0;
}

int host_check_process(struct host_named named, struct kg_err *err)
{
    const struct host_plugin *plugin = named.plugin;
    if (named.process != NULL)
        return 0;
    if (plugin->manifest == NULL)
        return kg_fail(err, KG_E_PLUGIN_DOWN, "plugin %s: %s", plugin->name,
                       plugin->problem.message);
    kg_fail(err, KG_E_PLUGIN_DOWN,
            "plugin %s works in a project: each that uses it has a process of its own",
            plugin->name);
    return kg_hint(err, "name one of them: %s@PROJECT", plugin->name);
}

/* -- what is told of it ------------------------------------------------------------------------ */

/* What it is for nobody holds its storage. */
static bool serves_sessions(struct host_named named)
{
    return host_plugin_tier(named.plugin)->joins_sessions &&
           (named.process == NULL || named.process->whom.kind == HOST_NOBODY);
}

/* It has no process of its own, and those of projects may run. */
static bool serves_projects(struct host_named named)
{
    const struct host_plugin *plugin = named.plugin;
    if (serves_sessions(named))
        return host_script_is_enabled(plugin);
    return named.process == NULL && plugin->manifest != NULL && plugin->problem.code == KG_OK &&
           host_is_enabled(plugin->host, plugin->name);
}

struct host_status host_status(struct host_named named)
{
    static const struct host_usage unused = {0};
    const struct host_plugin *plugin = named.plugin;
    struct host_process *process = named.process;
    const struct host_tier *tier = process ? process->tier : host_plugin_tier(plugin);
    return (struct host_status){
        .name = host_name(named),
        .plugin = plugin->name,
        .dir = plugin->dir,
        .whom = process ? &process->whom : &host_nobody,
        .tier = tier->name,
        .is_stored = tier->is_stored,
        .is_dev = plugin->dev != NULL,
        .tools_wait = host_tools_wait(plugin),
        .dev_text = plugin->dev ? host_dev_text(plugin->dev) : KG_STR_NULL,
        .is_leaving = process ? process->standing >= HOST_LEAVES : plugin->leaving,
        .is_checked = process != NULL && process->standing == HOST_CHECKED,
        .manifest = process ? process->manifest : plugin->manifest,
        .grants = host_grants_of(named),
        .problem = &plugin->problem,
        .drift = plugin->script ? host_script_notice(named) : &plugin->drift,
        .state = process && process->instance && !serves_sessions(named)
                     ? instance_state(process->instance)
                 : serves_projects(named) ? INSTANCE_IDLE
                                          : INSTANCE_DISABLED,
        .instance = process ? process->instance : NULL,
        .usage = process ? &process->usage : &unused,
        .quarantined = process ? process->quarantined : NULL,
        .idle_since_ms = process ? process->idle_since_ms : 0,
        .cage_words = process ? kg_buf_view(&process->cage_words) : KG_STR_NULL,
    };
}

void host_put_users(struct host_named named, struct kg_json_writer *json)
{
    const struct host *host = named.plugin->host;
    host->project_ops->put_users(host->projects, named.plugin->name, json);
}

struct host_status host_process_status(struct host_process *process)
{
    return host_status((struct host_named){process->plugin, process});
}

struct instance_facts host_run_facts(struct host_named named)
{
    const struct host *host = named.plugin->host;
    if (named.process != NULL)
        return instance_facts(named.process->instance);
    return (struct instance_facts){
        .cage_id = "",
        .limits = policy_limits(host->config, named.plugin->name),
        .limits_mode = host_limits(host)->mode,
    };
}
