/*
 * Changes of the store in a running daemon. One change of a plugin at a time, and it owns the
 * plugin while it lasts, and its processes in projects: nobody else starts, stops or changes them.
 * A worker does what blocks; what waits for a plugin goes on when its state changes.
 *
 *   upgrade:   stop -> another version -> start -> runs: the version before is removed
 *                                               -> does not: that one again, start
 *   uninstall: stop -> storage closed -> all of it removed
 */
#include "host/internal.h"
#include "store/report.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct host_change {
    struct host *host;
    struct host_plugin *plugin; /* NULL: a new one, which is not there yet */
    struct loop_task task;      /* looks whether it can go on */
    struct loop_job job;
    void (*go_on)(struct host_change *change); /* when what it waits for has come */
    bool (*is_ready)(const struct host_change *change);
    int result; /* of the job */
    struct kg_err err;

    char *name, *version, *old_version; /* owned, like the next three */
    char *hash, *operator_id;
    struct audit_request request;
    struct store_report *report; /* of the offer, for the audit log */
    enum store_change_kind kind;
    struct store_offer *offer;    /* owned until it is taken */
    struct store_consent consent; /* its hash is `hash` */
    struct store_trial *trial;    /* owned */
    struct store_removal removal;
    struct store_removed removed; /* owned */
    bool was_running, reverted, removed_all;
    bool has_own;                 /* lines of the operator's come with it */
    struct kg_err reason;         /* why it was reverted */
    void (*exchange)(void *data); /* of host_exchange, else NULL */

    host_changed_fn *on_done;
    void *data;
};

/* -- jobs of the store ------------------------------------------------------------------------- */

void host_store_job(struct host *host, struct loop_job *job)
{
    host->store_jobs++;
    loop_worker_submit(host->store_worker, job);
}

void host_store_job_done(struct host *host)
{
    host->store_jobs--;
    host_look_for_stop(host);
}

struct store *host_store(struct host *host)
{
    return host->store;
}

int host_check_unchanging(const struct host_plugin *plugin, struct kg_err *err)
{
    if (plugin->change == NULL)
        return 0;
    kg_fail(err, KG_E_CONFLICT, "plugin %s is being changed", plugin->name);
    return kg_hint(err, "try again when that is done");
}

/* -- one change -------------------------------------------------------------------------------- */

static void host_install_on_task(struct loop_task *task);

static struct host_change *host_install_change_new(struct host *host, const char *name,
                                                   const char *operator_id,
                                                   host_changed_fn *on_done, void *data)
{
    struct host_change *change = kg_alloc(sizeof(*change));
    change->host = host;
    change->name = kg_strdup(name);
    change->operator_id = kg_strdup(operator_id);
    change->request = audit_request(host->audit);
    change->on_done = on_done;
    change->data = data;
    change->task.run = host_install_on_task;
    change->plugin = host_plugin_find(host, kg_str(name));
    host->change_count++;
    return change;
}

static void change_free(struct host_change *change)
{
    struct host *host = change->host;
    loop_undefer(host->loop, &change->task);
    free(change->name);
    free(change->version);
    free(change->old_version);
    free(change->hash);
    free(change->operator_id);
    store_report_free(change->report);
    store_removed_free(&change->removed);
    free(change);
    host->change_count--;
    host_look_for_stop(host);
}

/* The first process that the change has; NULL: there is none. */
static struct host_process *held(const struct host_change *change)
{
    return change->plugin ? change->plugin->processes : NULL;
}

/* The plugin is the change's alone. */
static void host_install_hold(struct host_change *change, struct host_plugin *plugin)
{
    change->plugin = plugin;
    plugin->change = change;
    for (struct host_process *at = held(change); at != NULL; at = at->next)
        host_process_raise(at, HOST_ON_HELD);
}

/* It is everybody's again: what was enabled runs, whatever became of the change. */
static void host_install_let_go(struct host_change *change)
{
    struct host_plugin *plugin = kg_steal(&change->plugin);
    if (plugin == NULL || plugin->change != change)
        return;
    plugin->change = NULL;
    for (struct host_process *at = plugin->processes; at != NULL; at = at->next)
        host_process_raise(at, HOST_ON_FREED);
    host_look_for_left(change->host);
}

static void host_install_finish(struct host_change *change, const struct kg_err *err_or_null)
{
    const struct host_changed changed = {
        .outcome = {change->name, change->reverted ? change->old_version : change->version,
                    change->was_running, change->reverted, change->reason},
        .removed = change->removed_all ? &change->removed : NULL,
    };
    host_install_let_go(change);
    change->host->project_ops->refresh(change->host->projects);
    change->on_done(change->data, &changed, err_or_null);
    host_offer_drop(change->host, kg_steal(&change->offer));
    change_free(change);
}

/* Never before the caller has returned. */
static void finish_failed(struct host_change *change)
{
    host_install_finish(change, &change->err);
}

/* Whether it ends here, since nothing begins any more. */
static bool finish_stopping(struct host_change *change)
{
    if (!change->host->stopping)
        return false;
    kg_fail(&change->err, KG_E_STOPPING, "the daemon is stopping");
    host_install_finish(change, &change->err);
    return true;
}

static bool is_now(const struct host_change *change)
{
    (void)change;
    return true;
}

/* With the request that asked for it, which may free the change. */
static void host_install_resume(struct host_change *change)
{
    struct audit *audit = change->host->audit;
    struct audit_request before = audit_swap_request(audit, change->request);
    change->go_on(change);
    audit_swap_request(audit, before);
}

static void host_install_on_task(struct loop_task *task)
{
    struct host_change *change = KG_CONTAINER(task, struct host_change, task);
    if (change->is_ready != NULL && change->is_ready(change)) {
        change->is_ready = NULL;
        host_install_resume(change);
    }
}

/* Goes on at the end of the turn in which is_ready turns true. */
static void wait_until(struct host_change *change,
                       bool (*is_ready)(const struct host_change *change),
                       void (*go_on)(struct host_change *change))
{
    change->is_ready = is_ready;
    change->go_on = go_on;
    loop_defer(change->host->loop, &change->task);
}

void host_change_look(struct host_change *change)
{
    loop_defer(change->host->loop, &change->task);
}

static void host_install_fail_later(struct host_change *change)
{
    wait_until(change, is_now, finish_failed);
}

/* Takes hold of the plugin, if there is one and nobody else has. */
static bool take_hold(struct host_change *change)
{
    if (change->host->stopping) {
        kg_fail(&change->err, KG_E_STOPPING, "the daemon is stopping");
        change->plugin = NULL;
        return false;
    }
    if (change->plugin == NULL)
        return true;
    if (host_check_unchanging(change->plugin, &change->err) < 0 ||
        (change->exchange == NULL && host_check_not_dev(change->plugin, &change->err) < 0)) {
        change->plugin = NULL;
        return false;
    }
    host_install_hold(change, change->plugin);
    return true;
}

static void host_install_on_job_done(struct loop_job *job)
{
    struct host_change *change = KG_CONTAINER(job, struct host_change, job);
    host_store_job_done(change->host);
    host_install_resume(change);
}

static void host_install_work(struct host_change *change, void (*run)(struct loop_job *job),
                              void (*go_on)(struct host_change *change))
{
    change->job.run = run;
    change->job.done = host_install_on_job_done;
    change->go_on = go_on;
    host_store_job(change->host, &change->job);
}

/* -- the plugin's process ---------------------------------------------------------------------- */

static bool has_stopped(const struct host_change *change)
{
    for (const struct host_process *at = held(change); at != NULL; at = at->next)
        if (host_process_runs(at))
            return false;
    return true;
}

/* Nothing of it runs, and its storage is closed: whoever comes next finds none of it. */
static bool host_install_has_ended(const struct host_change *change)
{
    bool ended = true;
    for (struct host_process *at = held(change); at != NULL; at = at->next)
        ended &= !host_process_is_busy(at);
    return ended;
}

static void stop_first(struct host_change *change, bool (*is_ready)(const struct host_change *),
                       void (*go_on)(struct host_change *change))
{
    for (struct host_process *at = held(change); at != NULL; at = at->next)
        instance_disable(at->instance);
    wait_until(change, is_ready, go_on);
}

/* Manifest and local.toml are others now; what is wrong with them is the plugin's problem. */
static void host_install_read_again(struct host_change *change)
{
    struct kg_err err = {0};
    if (host_read_local_again(change->host, &err) < 0)
        kg_log_about(KG_ERROR_LEVEL, change->name, "%s", err.message);
    struct host_plugin *plugin = change->plugin;
    if (plugin == NULL)
        return;
    plugin->drift = (struct kg_err){.code = KG_OK};
    if (!plugin->leaving && host_plugin_load(plugin) < 0)
        kg_log_about(KG_ERROR_LEVEL, plugin->name, "%s", plugin->problem.message);
}

/* -- taking an offer --------------------------------------------------------------------------- */

/* What is told of the offer once it is used up. */
static void keep_facts(struct host_change *change, const struct store_consent *consent)
{
    const struct store_offer *offer = change->offer;
    change->version = kg_strdup(offer->manifest->version);
    change->old_version = kg_strdup(offer->installed_version);
    change->hash = kg_strdup(consent->hash);
    change->kind = offer->kind;
    change->has_own = !store_own_is_empty(&offer->added);
    change->consent = *consent;
    change->consent.hash = change->hash;
    change->report = store_report_new(offer, consent->local, change->operator_id);
}

static void host_install_run_take(struct loop_job *job)
{
    struct host_change *change = KG_CONTAINER(job, struct host_change, job);
    change->result = store_take(
        change->host->store, change->offer, &change->consent,
        change->was_running && change->kind != STORE_APPROVE ? &change->trial : NULL, &change->err);
    if (change->result == 0)
        change->offer = NULL; /* used up */
}

static void host_install_run_keep(struct loop_job *job)
{
    struct host_change *change = KG_CONTAINER(job, struct host_change, job);
    store_trial_keep(kg_steal(&change->trial));
}

static void run_revert(struct loop_job *job)
{
    struct host_change *change = KG_CONTAINER(job, struct host_change, job);
    change->result = store_trial_revert(kg_steal(&change->trial), &change->err);
}

static void finish_well(struct host_change *change)
{
    host_install_finish(change, NULL);
}

/* The version before has its files and its entry again, or the store says why not. */
static void on_reverted(struct host_change *change)
{
    if (change->result < 0) {
        kg_wrap(&change->err, 0, "put back version %s", change->old_version);
        host_install_read_again(change);
        host_install_finish(change, &change->err);
        return;
    }
    change->reverted = true;
    kg_log_about(KG_WARN, change->name, "version %s did not start: %s; version %s is back",
                 change->version, change->reason.message, change->old_version);
    audit_emit(change->host->audit, AUDIT_PLUGIN_UPGRADE_REVERTED, KG_STR_NULL,
               AUDIT_V_TEXT(change->name), AUDIT_V_TEXT(change->old_version),
               AUDIT_V_TEXT(change->version), AUDIT_V_TEXT(change->reason.message));
    host_install_read_again(change);
    host_install_finish(change, NULL);
}

static void revert_files(struct host_change *change)
{
    host_install_work(change, run_revert, on_reverted);
}

static void keep_reason(struct host_change *change, const struct host_process *process)
{
    kg_auto(kg_buf_free) struct kg_buf words = {0};
    const struct host_plugin *plugin = process->plugin;
    const struct kg_err *problem =
        plugin->problem.code != KG_OK ? &plugin->problem : &plugin->drift;
    if (problem->code != KG_OK) {
        change->reason = *problem;
        return;
    }
    const struct exit_report *report = instance_facts(process->instance).last_exit;
    if (report != NULL)
        exit_report_words(report, &words);
    kg_fail(&change->reason, KG_E_PLUGIN_DOWN, "%s", kg_buf_terminate(&words));
}

static bool host_install_has_settled(const struct host_change *change)
{
    for (const struct host_process *at = held(change); at != NULL; at = at->next)
        if (at->standing == HOST_TRIED && (instance_state(at->instance) == INSTANCE_SPAWNING ||
                                           instance_state(at->instance) == INSTANCE_STOPPING))
            return false;
    return true;
}

/* The first process that should run by now, and does not. */
static const struct host_process *find_failed(const struct host_change *change)
{
    for (const struct host_process *at = held(change); at != NULL; at = at->next)
        if (at->standing == HOST_TRIED && instance_state(at->instance) != INSTANCE_RUNNING)
            return at;
    return NULL;
}

/* The handshake is done, or is not. A daemon that stops meanwhile keeps what was approved. */
static void host_install_on_settled(struct host_change *change)
{
    const struct host_process *failed = find_failed(change);
    if (change->host->stopping || failed == NULL) {
        store_report_taken(change->report, change->host->audit);
        host_install_work(change, host_install_run_keep, finish_well);
        return;
    }
    keep_reason(change, failed);
    stop_first(change, has_stopped, revert_files);
}

/* Which of them ran before, when all of them ended. */
static void put_on_trial(struct host_change *change)
{
    for (struct host_process *at = held(change); at != NULL; at = at->next)
        if (host_process_runs(at))
            host_process_raise(at, HOST_ON_TRIED);
}

static void start_new_version(struct host_change *change)
{
    struct kg_err err;
    if (host_check_startable(change->plugin, &err) == 0) {
        for (struct host_process *at = held(change); at != NULL; at = at->next)
            if (at->standing == HOST_TRIED)
                instance_enable(at->instance);
        wait_until(change, host_install_has_settled, host_install_on_settled);
    } else if (change->host->stopping) {
        store_report_taken(change->report, change->host->audit);
        host_install_work(change, host_install_run_keep, finish_well);
    } else {
        change->reason = err;
        revert_files(change);
    }
}

/* It is there now, and the change's. */
static void host_install_find_new(struct host_change *change)
{
    host_find_plugins(change->host);
    change->plugin = host_plugin_find(change->host, kg_str(change->name));
    if (change->plugin != NULL)
        change->plugin->change = change;
}

static void settle_taken(struct host_change *change)
{
    if (change->kind == STORE_INSTALL)
        host_choices_removed(change->host, change->name); /* said of another of that name */
    if (change->plugin == NULL)
        host_install_find_new(change);
    host_install_read_again(change);
    if (change->trial != NULL && change->plugin != NULL) {
        start_new_version(change);
        return;
    }
    store_report_taken(change->report, change->host->audit);
    host_install_finish(change, NULL);
}

static void host_install_on_looked_up(void *data, const struct kg_err *err_or_null)
{
    struct host_change *change = data;
    if (err_or_null != NULL)
        kg_log_about(KG_ERROR_LEVEL, change->name, "%s", err_or_null->message);
    settle_taken(change);
}

/* Lines of the operator's may name secrets, which are looked up before local.toml is read. */
static void host_install_on_taken(struct host_change *change)
{
    if (change->result < 0)
        host_install_finish(change, &change->err);
    else if (change->has_own)
        host_look_up(change->host, host_install_on_looked_up, change);
    else
        settle_taken(change);
}

static void take_now(struct host_change *change)
{
    if (!finish_stopping(change))
        host_install_work(change, host_install_run_take, host_install_on_taken);
}

void host_take(struct host *host, struct store_offer *offer, const struct store_consent *consent,
               const char *operator_id, host_changed_fn *on_done, void *data)
{
    struct host_change *change =
        host_install_change_new(host, offer->manifest->name, operator_id, on_done, data);
    change->offer = offer;
    keep_facts(change, consent);
    if (!take_hold(change) || store_consent_check(offer, &change->consent, &change->err) < 0) {
        host_install_fail_later(change);
        return;
    }
    change->was_running = !has_stopped(change);
    if (offer->kind != STORE_APPROVE)
        put_on_trial(change);
    if (offer->kind == STORE_APPROVE)
        wait_until(change, is_now, take_now); /* what runs may go on running */
    else
        stop_first(change, has_stopped, take_now);
}

/* -- uninstalling ------------------------------------------------------------------------------ */

static void run_remove(struct loop_job *job)
{
    struct host_change *change = KG_CONTAINER(job, struct host_change, job);
    change->result = store_remove(change->host->store, change->name, &change->removal,
                                  &change->removed, &change->err);
}

/* The store has forgotten what was said of the plugin, and knows nothing of its processes. */
static void forget_choice(struct host *host, const struct host_process *process)
{
    if (process->whom.kind != HOST_NOBODY)
        host_choose(host, process->name, STATE_UNSAID, NULL, NULL);
}

static void host_install_on_removed(struct host_change *change)
{
    struct host *host = change->host;
    for (struct host_process *at = held(change); at != NULL; at = at->next)
        storage_free(kg_steal(&at->storage)); /* a new one is made when it is asked for */
    kg_auto(kg_free) char *place = store_place(host->store, change->name);
    if (change->result < 0 && access(place, F_OK) == 0) {
        host_install_finish(change, &change->err);
        return;
    }
    change->removed_all = change->result == 0;
    change->version = kg_strdup(change->removed.version);
    store_report_removed(host->audit, change->name, &change->removed, change->operator_id);
    host_choices_removed(host, change->name);
    for (const struct host_process *at = held(change); at != NULL; at = at->next)
        forget_choice(host, at);
    change->plugin->change = NULL;
    host_plugin_remove(kg_steal(&change->plugin));
    host_install_read_again(change);
    host_install_finish(change, change->result < 0 ? &change->err : NULL);
}

static void remove_now(struct host_change *change)
{
    if (!finish_stopping(change))
        host_install_work(change, run_remove, host_install_on_removed);
}

/* A process of one project is not a plugin of its own. */
static int host_install_check_whole(struct host_change *change)
{
    struct host_named named;
    if (host_find(change->host, kg_str(change->name), &named, &change->err) < 0)
        return -ENOENT;
    if (named.plugin == change->plugin)
        return 0;
    kg_fail(&change->err, KG_E_USAGE, "%s is the process of one project", change->name);
    return kg_hint(&change->err, "name the plugin: %s", named.plugin->name);
}

static int check_uninstall(struct host_change *change, bool force)
{
    struct kg_err *err = &change->err;
    if (host_install_check_whole(change) < 0)
        return -EINVAL;
    size_t sessions =
        change->host->project_ops->sessions(change->host->projects, change->plugin->name);
    if (sessions == 0 || force)
        return 0;
    kg_fail(err, KG_E_REFUSED, "plugin %s is active in %zu session(s)", change->name, sessions);
    return kg_hint(err, "stop the sessions first, or use --force");
}

void host_uninstall(struct host *host, struct kg_str name, const struct store_removal *removal,
                    bool force, const char *operator_id, host_changed_fn *on_done, void *data)
{
    kg_auto(kg_free) char *text = kg_str_dup(name);
    struct host_change *change = host_install_change_new(host, text, operator_id, on_done, data);
    change->removal = *removal;
    if (check_uninstall(change, force) < 0 || !take_hold(change)) {
        host_install_fail_later(change);
        return;
    }
    change->was_running = !has_stopped(change);
    stop_first(change, host_install_has_ended, remove_now);
}

/* -- other files in its place ------------------------------------------------------------------ */

static void exchange_now(struct host_change *change)
{
    struct host *host = change->host;
    if (finish_stopping(change))
        return;
    for (struct host_process *at = held(change); at != NULL; at = at->next)
        storage_free(kg_steal(&at->storage)); /* a closed one takes nothing any more */
    change->exchange(change->data);
    host_install_hold(change, host_plugin_find(host, kg_str(change->name))); /* it may be new */
    host_install_read_again(change);
    if (change->plugin->manifest != NULL)
        change->version = kg_strdup(change->plugin->manifest->version);
    host_install_finish(change, NULL);
}

void host_exchange(struct host *host, const char *name, void (*exchange)(void *data),
                   host_changed_fn *on_done, void *data)
{
    struct host_change *change = host_install_change_new(host, name, NULL, on_done, data);
    change->exchange = exchange;
    if (take_hold(change))
        stop_first(change, host_install_has_ended, exchange_now);
    else
        host_install_fail_later(change);
}

/* -- promoting --------------------------------------------------------------------------------- */

static void run_promote(struct loop_job *job)
{
    struct host_change *change = KG_CONTAINER(job, struct host_change, job);
    change->result = store_promote(change->host->store, change->name, &change->err);
}

static void host_install_on_promoted(struct host_change *change)
{
    struct kg_err err;
    if (change->result == 0) {
        store_report_promoted(change->host->audit, change->name, change->operator_id);
        if (host_read_local_again(change->host, &err) < 0)
            kg_log(KG_ERROR_LEVEL, "%s", err.message);
    }
    host_install_finish(change, change->result < 0 ? &change->err : NULL);
}

void host_promote(struct host *host, struct kg_str name, const char *operator_id,
                  host_changed_fn *on_done, void *data)
{
    kg_auto(kg_free) char *text = kg_str_dup(name);
    struct host_change *change = host_install_change_new(host, text, operator_id, on_done, data);
    if (host_install_check_whole(change) < 0 || !take_hold(change)) {
        host_install_fail_later(change);
        return;
    }
    if (change->plugin->manifest != NULL)
        change->version = kg_strdup(change->plugin->manifest->version);
    host_install_work(change, run_promote, host_install_on_promoted);
}

/* -- versions that nobody uses ----------------------------------------------------------------- */

struct tidying {
    struct loop_job job;
    struct host *host;
};

static void run_tidy(struct loop_job *job)
{
    store_tidy(KG_CONTAINER(job, struct tidying, job)->host->store);
}

static void on_tidied(struct loop_job *job)
{
    struct tidying *tidying = KG_CONTAINER(job, struct tidying, job);
    host_store_job_done(tidying->host);
    free(tidying);
}

void host_tidy_store(struct host *host)
{
    struct tidying *tidying = kg_alloc(sizeof(*tidying));
    tidying->host = host;
    tidying->job.run = run_tidy;
    tidying->job.done = on_tidied;
    host_store_job(host, &tidying->job);
}

/* -- an offer that nobody takes ---------------------------------------------------------------- */

struct dropping {
    struct loop_job job;
    struct host *host;
    struct store_offer *offer;
};

static void run_drop(struct loop_job *job)
{
    store_offer_free(KG_CONTAINER(job, struct dropping, job)->offer);
}

static void on_dropped(struct loop_job *job)
{
    struct dropping *dropping = KG_CONTAINER(job, struct dropping, job);
    host_store_job_done(dropping->host);
    free(dropping);
}

void host_offer_drop(struct host *host, struct store_offer *offer)
{
    if (offer == NULL)
        return;
    struct dropping *dropping = kg_alloc(sizeof(*dropping));
    *dropping = (struct dropping){.host = host, .offer = offer};
    dropping->job.run = run_drop;
    dropping->job.done = on_dropped;
    host_store_job(host, &dropping->job);
}
