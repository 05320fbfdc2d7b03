/*
 * One plugin, read again. Manifest and configuration are checked before anything is touched, and
 * taken both or neither; the plugin is disturbed only as far as what changed needs it.
 */
#include "host/internal.h"

#include <errno.h>

const char *const host_reload_names[] = {
    [HOST_RELOAD_NOTHING] = "nothing",
    [HOST_RELOAD_READ] = "read",
    [HOST_RELOAD_TOLD] = "told",
    [HOST_RELOAD_RESTART] = "restarted",
};

static void add_reason(struct host_reloaded *reloaded, const char *reason)
{
    size_t count = 0;
    while (reloaded->reasons[count] != NULL)
        count++;
    reloaded->reasons[count] = reason;
    reloaded->act = HOST_RELOAD_RESTART;
}

static bool same_manifest(const struct manifest *a, const struct manifest *b)
{
    kg_auto(kg_buf_free) struct kg_buf one = {0}, other = {0};
    struct kg_json_writer one_json = kg_json_writer(&one), other_json = kg_json_writer(&other);
    kg_json_node(&one_json, a->doc->root);
    kg_json_node(&other_json, b->doc->root);
    return kg_str_equal(kg_buf_view(&one), kg_buf_view(&other));
}

static bool same_limits(const struct instance_limits *a, const struct instance_limits *b)
{
    return a->memory_bytes == b->memory_bytes && a->cpu_shares == b->cpu_shares &&
           a->processes_max == b->processes_max && a->tmp_bytes == b->tmp_bytes;
}

/* What is new for a plugin that has a process. */
static struct host_reloaded compare(const struct host *host, const struct host_plugin *plugin,
                                    const struct manifest *manifest, struct kg_str settings)
{
    struct host_reloaded reloaded = {.act = HOST_RELOAD_NOTHING};
    struct kg_str before = instance_config(plugin->instance);
    struct instance_limits limits = policy_limits(host->config, plugin->base);
    struct instance_limits running = instance_facts(plugin->instance).limits;
    if (!kg_str_equal(before, settings))
        reloaded.act = HOST_RELOAD_TOLD;
    if (!same_manifest(plugin->manifest, manifest))
        add_reason(&reloaded, "manifest");
    else if (policy_paths_differ(manifest, before, settings))
        add_reason(&reloaded, "paths");
    if (!same_limits(&limits, &running))
        add_reason(&reloaded, "limits");
    if (plugin->start_settings != host->start_settings)
        add_reason(&reloaded, "settings");
    return reloaded;
}

/* Both of them, or neither: *ret_manifest is owned, and one that was approved. */
static int read_both(struct host *host, struct host_plugin *plugin, struct manifest **ret_manifest,
                     struct kg_buf *ret_settings, struct kg_err *err)
{
    struct manifest *manifest = host_read_manifest(plugin, err);
    struct local *before = host->local, *local = NULL;
    if (manifest != NULL && store_check_quick(host->store, plugin->base, err) == 0)
        local = local_load(host->paths->local_file, LOCAL_REPLACE, err);
    if (local == NULL) {
        manifest_free(manifest);
        return -EINVAL;
    }
    host->local = local;
    if (plugin_config_make(host, plugin, manifest, ret_settings, err) < 0) {
        host->local = before;
        local_free(local);
        manifest_free(manifest);
        return -EINVAL;
    }
    local_free(before);
    *ret_manifest = manifest;
    return 0;
}

/* Without a process there is nobody to tell; one that should run is given another try. */
static int reload_idle(struct host *host, struct host_plugin *plugin,
                       struct host_reloaded *ret_reloaded, struct kg_err *err)
{
    if (host_load_plugin(host, plugin) < 0) {
        *err = plugin->problem;
        return -EINVAL;
    }
    *ret_reloaded = (struct host_reloaded){.act = HOST_RELOAD_READ};
    if (!host_is_enabled(host, plugin))
        return 0;
    if (host_check_startable(host, plugin, err) < 0)
        return -EINVAL;
    add_reason(ret_reloaded, "not running");
    return 0;
}

int host_plugin_reload(struct host *host, struct host_plugin *plugin, const char *operator_id,
                       struct host_reloaded *ret_reloaded, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf settings = {0};
    struct host_reloaded reloaded = {0};
    struct manifest *manifest = NULL;
    if (host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (host_check_unchanging(plugin, err) < 0)
        return -EINVAL;
    int result = read_both(host, plugin, &manifest, &settings, err);
    if (result < 0)
        return result;
    if (plugin->instance != NULL && instance_has_process(plugin->instance)) {
        reloaded = compare(host, plugin, manifest, kg_buf_view(&settings));
        plugin->problem = (struct kg_err){.code = KG_OK};
    } else {
        result = reload_idle(host, plugin, &reloaded, err);
    }
    manifest_free(manifest);
    if (result < 0)
        return result;
    audit_emit(host->audit, AUDIT_PLUGIN_RELOADED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
               AUDIT_V_TEXT(operator_id), AUDIT_V_TEXT(host_reload_names[reloaded.act]));
    if (reloaded.act == HOST_RELOAD_RESTART)
        instance_restart(plugin->instance); /* which reads both once more */
    else if (reloaded.act == HOST_RELOAD_TOLD)
        instance_set_config(plugin->instance, kg_buf_view(&settings));
    *ret_reloaded = reloaded;
    return 0;
}
