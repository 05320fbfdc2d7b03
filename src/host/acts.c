/*
 * What the operator does to a plugin, or to one process of it: enable, disable, restart, reload.
 * Each is checked before anything is touched, remembered where it has to outlive the daemon, and in
 * the audit log. Nobody enables or restarts files that were not approved: where a quick look does
 * not tell, the act waits for the check.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

/* -- an act that waits for a check ------------------------------------------------------------- */

struct act {
    struct host_named named; /* one reference each, once it waits to be kept */
    char *operator_id;       /* owned */
    struct audit_request request;
    host_acted_fn *on_done;
    void *data;
};

static struct act *acts_act_new(struct host *host, const char *operator_id, host_acted_fn *on_done,
                                void *data)
{
    struct act *act = kg_alloc(sizeof(*act));
    act->request = audit_request(host->audit);
    act->operator_id = kg_strdup(operator_id);
    act->on_done = on_done;
    act->data = data;
    return act;
}

static void acts_answer(struct act *act, const struct kg_err *err_or_null)
{
    act->on_done(act->data, err_or_null);
    free(act->operator_id);
    free(act);
}

static void acts_choose(struct act *act, struct host_named named, enum state_choice choice,
                        host_acted_fn *on_kept)
{
    act->named = host_keep(named);
    host_choose(named.plugin->host, host_name(named), choice, on_kept, act);
}

static void end_choice(struct act *act, const struct kg_err *err_or_null)
{
    struct host_named named = act->named;
    acts_answer(act, err_or_null);
    if (named.process != NULL)
        host_tell_projects(named.process);
    host_drop(named);
}

/* A plugin's name means its processes in projects, too. */
static bool means(struct host_named named, const struct host_process *process)
{
    return named.process == NULL || named.process == process ||
           named.process->whom.kind == HOST_NOBODY;
}

static void acts_follow(struct host_named named)
{
    for (struct host_process *at = named.plugin->processes; at != NULL; at = at->next)
        if (means(named, at))
            host_process_follow(at);
    struct host *host = named.plugin->host;
    host->project_ops->chosen(host->projects);
}

/* -- enable, disable --------------------------------------------------------------------------- */

/* Neither a change nor its author has it. */
static int acts_check_free(const struct host_plugin *plugin, struct kg_err *err)
{
    int result = host_check_unchanging(plugin, err);
    return result < 0 ? result : host_check_not_dev(plugin, err);
}

static int check_enable(const struct host_plugin *plugin, struct kg_err *err)
{
    int result = acts_check_free(plugin, err);
    return result < 0 ? result : host_check_startable(plugin, err);
}

static int enable_now(const struct act *act, struct kg_err *err)
{
    struct host_named named = act->named;
    if (host_is_gone(named))
        return kg_fail(err, KG_E_NOT_FOUND, "plugin %s is gone", named.plugin->name);
    audit_emit(named.plugin->host->audit, AUDIT_PLUGIN_ENABLED, KG_STR_NULL,
               AUDIT_V_TEXT(host_name(named)), AUDIT_V_TEXT(act->operator_id));
    int result = check_enable(named.plugin, err);
    if (result < 0)
        return result;
    for (struct host_process *at = named.plugin->processes; at != NULL; at = at->next)
        if (means(named, at) && instance_state(at->instance) == INSTANCE_FAILED)
            host_process_raise(at, HOST_ON_UNWANTED); /* what it failed at is forgotten */
    if (named.process != NULL && named.process->whom.kind != HOST_NOBODY)
        named.process->in_use = !named.process->manifest->first_use; /* he means it, and now */
    if (named.process != NULL && host_process_is_wanted(named.process))
        host_process_raise(named.process, HOST_ON_APPROVED);
    acts_follow(named);
    return 0;
}

static void on_enabled(void *data, const struct kg_err *err_or_null)
{
    struct act *act = data;
    struct audit *audit = act->named.plugin->host->audit;
    struct audit_request before = audit_swap_request(audit, act->request);
    struct kg_err err;
    if (err_or_null == NULL && enable_now(act, &err) < 0)
        err_or_null = &err;
    if (act->named.process != NULL)
        host_process_raise(act->named.process, HOST_ON_CHECKED);
    end_choice(act, err_or_null);
    audit_swap_request(audit, before);
}

static void on_checked_to_enable(struct host_named named, void *data,
                                 const struct kg_err *err_or_null)
{
    struct kg_err err;
    if (err_or_null == NULL && check_enable(named.plugin, &err) < 0)
        err_or_null = &err;
    if (err_or_null != NULL) {
        acts_answer(data, err_or_null);
        return;
    }
    if (named.process != NULL) /* callers that want it to run wait for this, too */
        host_process_raise(named.process, HOST_ON_CHECK);
    acts_choose(data, named, STATE_ENABLED, on_enabled);
}

void host_enable(struct host *host, struct kg_str name, const char *operator_id,
                 host_acted_fn *on_done, void *data)
{
    struct kg_err err = {0};
    struct host_named named;
    if (host_find(host, name, &named, &err) == 0 && host_read_local_again(host, &err) == 0) {
        if (named.plugin->problem.code != KG_OK)
            (void)host_plugin_load(named.plugin); /* its author may have fixed it */
        if (check_enable(named.plugin, &err) == 0 && host_find(host, name, &named, &err) == 0) {
            host_check_in_full(named, on_checked_to_enable,
                               acts_act_new(host, operator_id, on_done, data));
            return;
        }
    }
    on_done(data, &err);
}

static void acts_on_disabled(void *data, const struct kg_err *err_or_null)
{
    struct act *act = data;
    struct host_named named = act->named;
    struct audit *audit = named.plugin->host->audit;
    struct audit_request before = audit_swap_request(audit, act->request);
    if (err_or_null == NULL)
        audit_emit(audit, AUDIT_PLUGIN_DISABLED, KG_STR_NULL, AUDIT_V_TEXT(host_name(named)),
                   AUDIT_V_TEXT("the operator disabled it"), AUDIT_V_TEXT(act->operator_id));
    if (err_or_null == NULL && !host_is_gone(named))
        acts_follow(named);
    end_choice(act, err_or_null);
    audit_swap_request(audit, before);
}

void host_disable(struct host *host, struct kg_str name, const char *operator_id,
                  host_acted_fn *on_done, void *data)
{
    struct host_named named;
    struct kg_err err;
    if (host_find(host, name, &named, &err) < 0 || acts_check_free(named.plugin, &err) < 0)
        on_done(data, &err);
    else
        acts_choose(acts_act_new(host, operator_id, on_done, data), named, STATE_DISABLED,
                    acts_on_disabled);
}

/* -- restart ----------------------------------------------------------------------------------- */

static void restart_one(struct host_process *process, const char *operator_id)
{
    audit_emit(process->plugin->host->audit, AUDIT_PLUGIN_RESTARTED, KG_STR_NULL,
               AUDIT_V_TEXT(process->name), AUDIT_V_TEXT(operator_id));
    process->in_use = true;
    host_process_raise(process, HOST_ON_RESTART);
}

/* Those that run; the named one also if none of them does. */
static void restart_now(struct host_named named, const char *operator_id)
{
    bool any = false;
    for (struct host_process *at = named.plugin->processes; at != NULL; at = at->next) {
        if (!means(named, at) || !host_process_runs(at))
            continue;
        restart_one(at, operator_id);
        any = true;
    }
    if (!any)
        restart_one(named.process, operator_id);
}

static int check_restart(struct host_named named, struct kg_err *err)
{
    int result = host_check_unchanging(named.plugin, err);
    if (result == 0)
        result = host_check_startable(named.plugin, err);
    if (result == 0)
        result = host_check_process(named, err);
    if (result < 0 || host_process_is_allowed(named.process))
        return result;
    if (named.plugin->dev != NULL) {
        kg_fail(err, KG_E_CONFLICT, "plugin %s asks for more than was agreed to", host_name(named));
        return kg_hint(err, "answer where kaged plugin dev runs");
    }
    kg_fail(err, KG_E_CONFLICT, "plugin %s is disabled", host_name(named));
    return kg_hint(err, "kaged plugin enable %s", host_name(named));
}

static void on_checked_to_restart(struct host_named named, void *data,
                                  const struct kg_err *err_or_null)
{
    struct act *act = data;
    struct kg_err err;
    if (err_or_null == NULL && check_restart(named, &err) < 0)
        err_or_null = &err;
    struct audit *audit = named.plugin->host->audit;
    struct audit_request before = audit_swap_request(audit, act->request);
    if (err_or_null == NULL)
        restart_now(named, act->operator_id);
    acts_answer(act, err_or_null);
    audit_swap_request(audit, before);
}

/* One that runs goes on if what would follow it must not start. */
void host_restart(struct host *host, struct kg_str name, const char *operator_id,
                  host_acted_fn *on_done, void *data)
{
    struct kg_err err = {0};
    struct host_named named;
    if (host_find(host, name, &named, &err) < 0 || check_restart(named, &err) < 0) {
        on_done(data, &err);
        return;
    }
    int result = host_check_quick(named.process, &err);
    if (result == -EAGAIN) {
        host_check_in_full(named, on_checked_to_restart,
                           acts_act_new(host, operator_id, on_done, data));
        return;
    }
    if (result < 0)
        host_note_drift(named, &err);
    else
        restart_now(named, operator_id);
    on_done(data, result < 0 ? &err : NULL);
}

/* -- reload ------------------------------------------------------------------------------------ */

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

/* What is new for a process that runs. */
static struct host_reloaded acts_compare(const struct host_process *process,
                                         const struct manifest *manifest, struct kg_str settings)
{
    const struct host *host = process->plugin->host;
    struct host_reloaded reloaded = {.act = HOST_RELOAD_NOTHING};
    struct kg_str before = instance_config(process->instance);
    struct instance_limits limits = policy_limits(host->config, process->plugin->name);
    struct instance_limits running = instance_facts(process->instance).limits;
    if (!kg_str_equal(before, settings))
        reloaded.act = HOST_RELOAD_TOLD;
    if (!same_manifest(process->manifest, manifest))
        add_reason(&reloaded, "manifest");
    else if (policy_paths_differ(manifest, before, settings))
        add_reason(&reloaded, "paths");
    if (!same_limits(&limits, &running))
        add_reason(&reloaded, "limits");
    if (process->start_settings != host->start_settings)
        add_reason(&reloaded, "settings");
    return reloaded;
}

/* Both of them, or neither: *ret_manifest is owned, and one that was approved. */
static int read_both(struct host_named named, struct manifest **ret_manifest,
                     struct kg_buf *ret_settings, struct kg_err *err)
{
    struct host_plugin *plugin = named.plugin;
    const struct host_whom *whom = named.process ? &named.process->whom : &host_nobody;
    struct host *host = plugin->host;
    struct manifest *manifest = host_read_manifest(plugin, err);
    struct local *before = host->local, *local = NULL;
    if (manifest != NULL && (!host_tier_of(manifest)->is_stored ||
                             store_check_quick(host->store, plugin->name, err) == 0))
        local = host_load_local(host, err);
    if (local == NULL) {
        manifest_free(manifest);
        return -EINVAL;
    }
    host->local = local;
    if (plugin_config_check(host, manifest, err) < 0) {
        host->local = before;
        local_free(local);
        manifest_free(manifest);
        return -EINVAL;
    }
    local_free(before);
    plugin_config_make(plugin, whom, manifest, ret_settings);
    *ret_manifest = manifest;
    return 0;
}

/* Without a process there is nobody to tell; one that should run is given another try. */
static int reload_idle(struct host_named *named, struct host_reloaded *ret_reloaded,
                       struct kg_err *err)
{
    if (host_plugin_load(named->plugin) < 0) {
        *err = named->plugin->problem;
        return -EINVAL;
    }
    *ret_reloaded = (struct host_reloaded){.act = HOST_RELOAD_READ};
    if (named->process == NULL)
        named->process = host_process_find(named->plugin, &host_nobody); /* it may be new */
    if (named->process == NULL || !host_process_is_wanted(named->process))
        return 0;
    if (host_check_startable(named->plugin, err) < 0)
        return -EINVAL;
    add_reason(ret_reloaded, "not running");
    return 0;
}

static void take_reload(struct host_process *process, const struct host_reloaded *reloaded,
                        struct kg_str settings)
{
    if (reloaded->act == HOST_RELOAD_RESTART)
        host_process_raise(process, HOST_ON_RESTART); /* which reads both once more */
    else if (reloaded->act == HOST_RELOAD_TOLD)
        host_process_configure(process, settings);
}

static void reload_others(const struct host_named *named, const struct manifest *manifest,
                          const char *operator_id, struct kg_json_writer *others)
{
    struct host_plugin *plugin = named->plugin;
    for (struct host_process *at = plugin->processes, *next; at != NULL; at = next) {
        kg_auto(kg_buf_free) struct kg_buf settings = {0};
        next = at->next;
        if (at == named->process || at->whom.kind == HOST_NOBODY || !host_process_runs(at))
            continue;
        plugin_config_make(plugin, &at->whom, manifest, &settings);
        const struct host_reloaded reloaded = acts_compare(at, manifest, kg_buf_view(&settings));
        kg_json_named_text(others, at->name, host_reload_names[reloaded.act]);
        audit_emit(plugin->host->audit, AUDIT_PLUGIN_RELOADED, KG_STR_NULL, AUDIT_V_TEXT(at->name),
                   AUDIT_V_TEXT(operator_id), AUDIT_V_TEXT(host_reload_names[reloaded.act]));
        take_reload(at, &reloaded, kg_buf_view(&settings));
    }
}

int host_plugin_reload(struct host *host, struct host_named named, const char *operator_id,
                       struct host_reloaded *ret_reloaded, struct kg_json_writer *others,
                       struct kg_err *err)
{
    bool is_of_all = named.process == NULL || named.process->whom.kind == HOST_NOBODY;
    kg_auto(kg_buf_free) struct kg_buf settings = {0};
    struct host_reloaded reloaded = {0};
    struct manifest *manifest = NULL;
    if (host->stopping)
        return kg_fail(err, KG_E_STOPPING, "the daemon is stopping");
    if (acts_check_free(named.plugin, err) < 0)
        return -EINVAL;
    int result = read_both(named, &manifest, &settings, err);
    if (result < 0)
        return result;
    if (named.process != NULL && host_process_runs(named.process)) {
        reloaded = acts_compare(named.process, manifest, kg_buf_view(&settings));
        named.plugin->problem = (struct kg_err){.code = KG_OK};
    } else {
        result = reload_idle(&named, &reloaded, err);
    }
    if (result == 0 && is_of_all)
        reload_others(&named, manifest, operator_id, others);
    manifest_free(manifest);
    if (result < 0)
        return result;
    audit_emit(host->audit, AUDIT_PLUGIN_RELOADED, KG_STR_NULL, AUDIT_V_TEXT(host_name(named)),
               AUDIT_V_TEXT(operator_id), AUDIT_V_TEXT(host_reload_names[reloaded.act]));
    take_reload(named.process, &reloaded, kg_buf_view(&settings));
    *ret_reloaded = reloaded;
    return 0;
}
