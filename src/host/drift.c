/*
 * No plugin starts whose files are not those that the operator approved. A start looks at them
 * quickly, on the loop; where that does not tell, and when the operator enables a plugin, a worker
 * reads them in full, and the start waits for it.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

struct check {
    struct loop_job job;
    struct host *host;
    struct host_named named; /* one reference each: they may be gone when the answer comes */
    int result;
    struct kg_err err;
    host_checked_fn *on_done;
    void *data;
};

void host_note_drift(struct host_named named, const struct kg_err *err)
{
    struct host_plugin *plugin = named.plugin;
    const char *name = host_name(named);
    if (plugin->dev != NULL)
        return; /* by now it is run from elsewhere */
    plugin->drift = *err;
    kg_log(KG_ERROR_LEVEL, "%s; %s is not started", err->message, name);
    if (err->code != KG_E_NOT_APPROVED)
        return;
    audit_emit(plugin->host->audit, AUDIT_PLUGIN_DRIFTED, KG_STR_NULL, AUDIT_V_TEXT(name),
               AUDIT_V_TEXT(err->message));
}

/* -- in full ----------------------------------------------------------------------------------- */

static void drift_run_check(struct loop_job *job)
{
    struct check *check = KG_CONTAINER(job, struct check, job);
    check->result = store_check_full(check->host->store, check->named.plugin->name, &check->err);
}

static void on_check_done(struct loop_job *job)
{
    struct check *check = KG_CONTAINER(job, struct check, job);
    struct host_named named = check->named;
    const struct kg_err *err = check->result < 0 ? &check->err : NULL;
    struct kg_err gone;
    host_store_job_done(check->host);
    if (named.process != NULL)
        host_process_raise(named.process, HOST_ON_CHECKED);
    if (host_is_gone(named)) {
        kg_fail(&gone, KG_E_NOT_FOUND, "plugin %s is gone", named.plugin->name);
        err = &gone;
    } else if (err == NULL) {
        named.plugin->drift = (struct kg_err){.code = KG_OK};
    } else {
        host_note_drift(named, err);
    }
    check->on_done(named, check->data, err);
    if (named.process != NULL)
        host_tell_projects(named.process);
    host_drop(named);
    free(check);
}

void host_check_in_full(struct host_named named, host_checked_fn *on_done, void *data)
{
    struct check *check = kg_alloc(sizeof(*check));
    check->host = named.plugin->host;
    check->named = host_keep(named);
    check->on_done = on_done;
    check->data = data;
    check->job.run = drift_run_check;
    check->job.done = on_check_done;
    if (named.process != NULL)
        host_process_raise(named.process, HOST_ON_CHECK);
    host_store_job(check->host, &check->job);
}

/* -- starting ---------------------------------------------------------------------------------- */

static void on_checked_to_start(struct host_named named, void *data,
                                const struct kg_err *err_or_null)
{
    struct kg_err err;
    (void)data;
    if (err_or_null == NULL && host_process_is_wanted(named.process) &&
        host_check_startable(named.plugin, &err) == 0)
        host_process_raise(named.process, HOST_ON_APPROVED);
}

/* What is run from elsewhere was approved by its manifest, which it is started with. */
int host_check_quick(const struct host_process *process, struct kg_err *err)
{
    const struct host_plugin *plugin = process->plugin;
    return plugin->dev || !process->tier->is_stored
               ? 0
               : store_check_quick(plugin->host->store, plugin->name, err);
}

/* Where it does not tell, a full check follows, and the start that. */
static int drift_look(struct host_process *process, struct kg_err *err)
{
    int result = host_check_quick(process, err);
    if (result == -EAGAIN)
        host_check_in_full((struct host_named){process->plugin, process}, on_checked_to_start,
                           NULL);
    return result;
}

static void report_unstartable(const struct host_process *process, const struct kg_err *err)
{
    kg_log_about(KG_ERROR_LEVEL, process->name, "%s%s%s", err->message,
                 err->hint[0] != '\0' ? "; to fix it: " : "", err->hint);
    audit_emit(process->plugin->host->audit, AUDIT_PLUGIN_FAILED, KG_STR_NULL,
               AUDIT_V_TEXT(process->name), AUDIT_V_INT(0), AUDIT_V_TEXT(err->message));
}

void host_start_if_approved(struct host_process *process)
{
    struct kg_err err = {0};
    if (host_check_startable(process->plugin, &err) < 0) {
        report_unstartable(process, &err);
        return;
    }
    int result = drift_look(process, &err);
    if (result == 0) {
        process->plugin->drift = (struct kg_err){.code = KG_OK};
        host_process_raise(process, HOST_ON_APPROVED);
    } else if (result != -EAGAIN) {
        host_note_drift((struct host_named){process->plugin, process}, &err);
    }
}

/*
 * After its manifest was read: what is run is what is looked at here. One that was just compared in
 * full and is another by now is not compared once more: somebody is writing there.
 */
int host_check_start(struct host_process *process, struct kg_err *err)
{
    int result = process->standing == HOST_STARTS ? host_check_quick(process, err)
                                                  : drift_look(process, err);
    if (result == 0)
        return 0;
    err->code = KG_E_NOT_APPROVED; /* what cannot be looked at is not approved either */
    if (result != -EAGAIN)
        host_note_drift((struct host_named){process->plugin, process}, err);
    return result;
}
