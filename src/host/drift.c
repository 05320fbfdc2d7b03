/*
 * No plugin starts whose files are not those that the operator approved. A start looks at them
 * quickly, on the loop; where that does not tell, and when the operator enables a plugin, a worker
 * reads them in full, and the start waits for it.
 */
#include "host/internal.h"
#include "host/projects_internal.h"

#include <errno.h>
#include <stdlib.h>

typedef void checked_fn(struct host *host, struct host_plugin *plugin, void *data,
                        const struct kg_err *err_or_null);

struct check {
    struct loop_job job;
    struct host *host;
    char *name; /* owned: the plugin may be gone when the answer comes */
    char *base; /* owned; whose files they are */
    int result;
    struct kg_err err;
    checked_fn *on_done;
    void *data;
};

/* That it could not be told is a reason not to start it, too, but no drift. */
static void note_drift(struct host *host, struct host_plugin *plugin, const struct kg_err *err)
{
    plugin->drift = *err;
    kg_log(KG_ERROR_LEVEL, "%s; %s is not started", err->message, plugin->name);
    if (err->code != KG_E_NOT_APPROVED)
        return;
    audit_emit(host->audit, AUDIT_PLUGIN_DRIFTED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
               AUDIT_V_TEXT(err->message));
}

/* -- in full ----------------------------------------------------------------------------------- */

static void run_check(struct loop_job *job)
{
    struct check *check = KG_CONTAINER(job, struct check, job);
    check->result = store_check_full(check->host->store, check->base, &check->err);
}

static void on_check_done(struct loop_job *job)
{
    struct check *check = KG_CONTAINER(job, struct check, job);
    struct host *host = check->host;
    struct kg_err gone;
    struct host_plugin *plugin = host_plugin_find(host, kg_str(check->name), &gone);
    const struct kg_err *err = check->result < 0 ? &check->err : NULL;
    host_store_job_done(host);
    if (plugin != NULL && plugin->checks > 0) /* else it is another one of that name */
        plugin->checks--;
    if (plugin == NULL)
        err = &gone;
    else if (err == NULL)
        plugin->drift = (struct kg_err){.code = KG_OK};
    else
        note_drift(host, plugin, err);
    check->on_done(host, plugin, check->data, err);
    if (plugin != NULL)
        host_agents_look(plugin);
    free(check->name);
    free(check->base);
    free(check);
}

static void check_in_full(struct host *host, struct host_plugin *plugin, checked_fn *on_done,
                          void *data)
{
    plugin->checks++;
    struct check *check = kg_alloc(sizeof(*check));
    check->host = host;
    check->name = kg_strdup(plugin->name);
    check->base = kg_strdup(plugin->base);
    check->on_done = on_done;
    check->data = data;
    check->job.run = run_check;
    check->job.done = on_check_done;
    host_store_job(host, &check->job);
}

/* -- starting ---------------------------------------------------------------------------------- */

/* The check that was just made is the one of the start, if that follows at once. */
static void start_checked(struct host_plugin *plugin)
{
    plugin->checked = !instance_has_process(plugin->instance);
    instance_enable(plugin->instance);
    plugin->checked = false;
}

static void on_checked_to_start(struct host *host, struct host_plugin *plugin, void *data,
                                const struct kg_err *err_or_null)
{
    struct kg_err err;
    (void)data;
    if (err_or_null == NULL && !host->closing && plugin->change == NULL &&
        host_is_enabled(host, plugin) && host_check_startable(host, plugin, &err) == 0)
        start_checked(plugin);
}

void host_start_if_approved(struct host *host, struct host_plugin *plugin)
{
    struct kg_err err = {0};
    int result = store_check_quick(host->store, plugin->base, &err);
    if (result == 0) {
        plugin->drift = (struct kg_err){.code = KG_OK};
        start_checked(plugin);
    } else if (result == -EAGAIN) {
        check_in_full(host, plugin, on_checked_to_start, NULL);
    } else {
        note_drift(host, plugin, &err);
    }
}

int host_check_start(struct host *host, struct host_plugin *plugin, struct kg_err *err)
{
    if (plugin->checked)
        return 0;
    int result = store_check_quick(host->store, plugin->base, err);
    if (result == 0)
        return 0;
    err->code = KG_E_NOT_APPROVED; /* what cannot be looked at is not approved either */
    if (result == -EAGAIN)
        check_in_full(host, plugin, on_checked_to_start, NULL); /* it may start yet */
    else
        note_drift(host, plugin, err);
    return result;
}

/* -- what the operator asks for ---------------------------------------------------------------- */

/* An act of the operator that waits for the check. */
struct wanted {
    char *operator_id; /* owned */
    host_acted_fn *on_done;
    void *data;
};

static struct wanted *wanted_new(const char *operator_id, host_acted_fn *on_done, void *data)
{
    struct wanted *wanted = kg_alloc(sizeof(*wanted));
    *wanted = (struct wanted){kg_strdup(operator_id), on_done, data};
    return wanted;
}

static void answer(struct wanted *wanted, const struct kg_err *err_or_null)
{
    wanted->on_done(wanted->data, err_or_null);
    free(wanted->operator_id);
    free(wanted);
}

static int enable_now(struct host *host, struct host_plugin *plugin, const char *operator_id,
                      struct kg_err *err)
{
    int result = host_check_unchanging(plugin, err);
    if (result == 0)
        result = host_check_startable(host, plugin, err);
    if (result == 0)
        result = state_plugin_choice_set(host->state, kg_str(plugin->name), STATE_ENABLED, err);
    if (result < 0)
        return result;
    audit_emit(host->audit, AUDIT_PLUGIN_ENABLED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
               AUDIT_V_TEXT(operator_id));
    if (!host_is_template(plugin))
        start_checked(plugin);
    host_projects_follow(host, plugin);
    return 0;
}

static void on_checked_to_enable(struct host *host, struct host_plugin *plugin, void *data,
                                 const struct kg_err *err_or_null)
{
    struct wanted *wanted = data;
    struct kg_err err;
    if (err_or_null == NULL && enable_now(host, plugin, wanted->operator_id, &err) < 0)
        err_or_null = &err;
    answer(wanted, err_or_null);
}

void host_enable(struct host *host, struct kg_str name, const char *operator_id,
                 host_acted_fn *on_done, void *data)
{
    struct kg_err err = {0};
    struct host_plugin *plugin = host_plugin_find(host, name, &err);
    if (plugin != NULL && host_read_local_again(host, &err) == 0) {
        if (plugin->problem.code != KG_OK)
            host_load_plugin(host, plugin); /* its author may have mended it */
        if (host_check_unchanging(plugin, &err) == 0 &&
            host_check_startable(host, plugin, &err) == 0) {
            check_in_full(host, plugin, on_checked_to_enable,
                          wanted_new(operator_id, on_done, data));
            return;
        }
    }
    on_done(data, &err);
}

static void restart_now(struct host *host, struct host_plugin *plugin, const char *operator_id)
{
    audit_emit(host->audit, AUDIT_PLUGIN_RESTARTED, KG_STR_NULL, AUDIT_V_TEXT(plugin->name),
               AUDIT_V_TEXT(operator_id));
    instance_restart(plugin->instance);
}

static int check_restart(struct host *host, struct host_plugin *plugin, struct kg_err *err)
{
    int result = host_check_unchanging(plugin, err);
    if (result == 0)
        result = host_check_startable(host, plugin, err);
    if (result == 0)
        result = host_check_no_template(plugin, err);
    if (result < 0 || host_is_enabled(host, plugin))
        return result;
    result = kg_fail(err, KG_E_CONFLICT, "plugin %s is disabled", plugin->name);
    kg_hint(err, "kaged plugin enable %s", plugin->name);
    return result;
}

static void on_checked_to_restart(struct host *host, struct host_plugin *plugin, void *data,
                                  const struct kg_err *err_or_null)
{
    struct wanted *wanted = data;
    struct kg_err err;
    if (err_or_null == NULL && check_restart(host, plugin, &err) < 0)
        err_or_null = &err;
    if (err_or_null == NULL)
        restart_now(host, plugin, wanted->operator_id);
    answer(wanted, err_or_null);
}

/* One that runs goes on if what would follow it must not start. */
void host_restart(struct host *host, struct kg_str name, const char *operator_id,
                  host_acted_fn *on_done, void *data)
{
    struct kg_err err = {0};
    struct host_plugin *plugin = host_plugin_find(host, name, &err);
    if (plugin == NULL || check_restart(host, plugin, &err) < 0) {
        on_done(data, &err);
        return;
    }
    int result = store_check_quick(host->store, plugin->base, &err);
    if (result == -EAGAIN) {
        check_in_full(host, plugin, on_checked_to_restart, wanted_new(operator_id, on_done, data));
        return;
    }
    if (result < 0)
        note_drift(host, plugin, &err);
    else
        restart_now(host, plugin, operator_id);
    on_done(data, result < 0 ? &err : NULL);
}

const struct kg_err *host_plugin_problem(const struct host_plugin *plugin)
{
    return plugin->problem.code != KG_OK ? &plugin->problem : &plugin->drift;
}
