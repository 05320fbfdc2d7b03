/*
 * The operator's secrets in a running daemon. The loop never waits for them: what local.toml names
 * is looked up on a worker, and is kept until it is looked up again, so that the file can be read
 * at any time. A change is written, looked up and told to the plugins that use it, in this order.
 */
#include "host/internal.h"

#include "redact/shared.h"

#include <errno.h>
#include <stdlib.h>

struct act {
    struct loop_job job;
    struct host *host;
    int (*write)(struct act *act); /* on the worker; NULL: nothing is changed */
    char *name;                    /* owned, like the next two */
    struct kg_buf value;
    char *operator_id;
    size_t count;                 /* that were sealed again */
    struct secret_values *values; /* that were looked up */
    int result;
    struct kg_err err;
    void (*report)(const struct act *act);
    host_acted_fn *on_done;
    void *data;
    struct audit_request request; /* that it is done for */
};

/* -- reading local.toml ------------------------------------------------------------------------ */

static void host_secrets_hide_value(void *data, struct kg_str value)
{
    (void)data;
    if (value.length >= SECRET_HIDDEN_MIN)
        redact_share(value);
}

/* From now on nothing that the daemon says has them in it; old values stay hidden, too. */
static void take_values(struct host *host, struct secret_values *values)
{
    secret_values_each(values, host_secrets_hide_value, NULL);
    secret_values_drop(host->secrets);
    host->secrets = values;
}

int host_secrets_open(struct host *host, struct kg_err *err)
{
    secret_places_find(host->paths, &host->secret_places);
    redact_log();
    struct secret_values *values =
        secret_values_read(host->paths->local_file, &host->secret_places, err);
    if (values == NULL)
        return -EINVAL;
    take_values(host, values);
    return 0;
}

void host_secrets_close(struct host *host)
{
    if (host->secret_worker != NULL)
        loop_worker_free(host->secret_worker);
    secret_values_drop(host->secrets);
    secret_places_free(&host->secret_places);
}

struct local *host_load_local(const struct host *host, struct kg_err *err)
{
    const struct local_lookup lookup = secret_values_lookup(host->secrets);
    return local_load(host->paths->local_file, &lookup, err);
}

struct secret_values *host_secrets(const struct host *host)
{
    return host->secrets;
}

void host_log_secrets(const struct host *host)
{
    for (size_t i = 0; i < secret_values_count(host->secrets); i++) {
        const struct secret_fact fact = secret_values_fact(host->secrets, i);
        kg_auto(kg_buf_free) struct kg_buf users = {0};
        for (char *const *user = fact.used_by; *user != NULL; user++)
            kg_buf_printf(&users, "%s%s", users.length > 0 ? ", " : "", *user);
        if (users.length > 0)
            kg_log(fact.is_known ? KG_INFO : KG_WARN, "secret %s%s is used by %" KG_S_CAUSE,
                   fact.name, fact.is_known ? "" : ", which is not known,",
                   kg_buf_terminate(&users));
    }
}

/* -- on the worker ----------------------------------------------------------------------------- */

static int write_set(struct act *act)
{
    return secret_set(&act->host->secret_places, kg_str(act->name), kg_buf_view(&act->value),
                      &act->err);
}

static int write_removal(struct act *act)
{
    return secret_remove(&act->host->secret_places, kg_str(act->name), &act->err);
}

static int write_rotation(struct act *act)
{
    return secret_rotate(&act->host->secret_places, &act->count, &act->err);
}

static void host_secrets_run(struct loop_job *job)
{
    struct act *act = KG_CONTAINER(job, struct act, job);
    act->result = act->write ? act->write(act) : 0;
    if (act->result < 0)
        return;
    act->values =
        secret_values_read(act->host->paths->local_file, &act->host->secret_places, &act->err);
    act->result = act->values ? 0 : -EINVAL;
}

/* -- on the loop ------------------------------------------------------------------------------- */

static void act_free(struct act *act)
{
    secret_wipe(&act->value);
    free(act->name);
    free(act->operator_id);
    secret_values_drop(act->values);
    free(act);
}

static void host_secrets_on_done(struct loop_job *job)
{
    struct act *act = KG_CONTAINER(job, struct act, job);
    struct host *host = act->host;
    struct audit_request before = audit_swap_request(host->audit, act->request);
    host->secret_jobs--;
    if (act->result == 0 && host->stopping)
        act->result = kg_fail(&act->err, KG_E_STOPPING, "the daemon is stopping");
    if (act->result == 0)
        take_values(host, kg_steal(&act->values));
    if (act->result == 0 && act->report != NULL) {
        act->report(act);
        if (host_read_local_again(host, &act->err) == 0)
            host_refresh_all(host);
        else
            act->result = -EINVAL;
    }
    act->on_done(act->data, act->result < 0 ? &act->err : NULL);
    audit_swap_request(host->audit, before);
    act_free(act);
    host_look_for_stop(host);
}

static struct act *host_secrets_act_new(struct host *host, const char *operator_id,
                                        host_acted_fn *done, void *data)
{
    struct act *act = kg_alloc(sizeof(*act));
    act->host = host;
    act->request = audit_request(host->audit);
    act->operator_id = kg_strdup(operator_id);
    act->on_done = done;
    act->data = data;
    return act;
}

static void host_secrets_submit(struct act *act)
{
    struct host *host = act->host;
    if (host->secret_worker == NULL)
        host->secret_worker = loop_worker_new(host->loop, "kaged-secrets");
    act->job.run = host_secrets_run;
    act->job.done = host_secrets_on_done;
    host->secret_jobs++;
    loop_worker_submit(host->secret_worker, &act->job);
}

void host_look_up(struct host *host, host_acted_fn *done, void *data)
{
    host_secrets_submit(host_secrets_act_new(host, NULL, done, data));
}

/* -- changes ----------------------------------------------------------------------------------- */

static void report_set(const struct act *act)
{
    audit_emit(act->host->audit, AUDIT_SECRET_SET, KG_STR_NULL, AUDIT_V_TEXT(act->name),
               AUDIT_V_TEXT(act->operator_id));
}

static void report_removed(const struct act *act)
{
    audit_emit(act->host->audit, AUDIT_SECRET_REMOVED, KG_STR_NULL, AUDIT_V_TEXT(act->name),
               AUDIT_V_TEXT(act->operator_id));
}

static void report_rotated(const struct act *act)
{
    audit_emit(act->host->audit, AUDIT_SECRET_ROTATED, KG_STR_NULL,
               AUDIT_V_INT((int64_t)act->count), AUDIT_V_TEXT(act->operator_id));
}

void host_secret_set(struct host *host, struct kg_str name, struct kg_str value,
                     const char *operator_id, host_acted_fn *done, void *data)
{
    struct act *act = host_secrets_act_new(host, operator_id, done, data);
    act->name = kg_str_dup(name);
    kg_buf_str(&act->value, value);
    act->write = write_set;
    act->report = report_set;
    host_secrets_submit(act);
}

void host_secret_remove(struct host *host, struct kg_str name, bool force, const char *operator_id,
                        host_acted_fn *done, void *data)
{
    struct kg_err err = {0};
    if (!force && secret_check_unused(host->secrets, name, &err) < 0) {
        done(data, &err);
        return;
    }
    struct act *act = host_secrets_act_new(host, operator_id, done, data);
    act->name = kg_str_dup(name);
    act->write = write_removal;
    act->report = report_removed;
    host_secrets_submit(act);
}

void host_secret_rotate(struct host *host, const char *operator_id, host_acted_fn *done, void *data)
{
    struct act *act = host_secrets_act_new(host, operator_id, done, data);
    act->write = write_rotation;
    act->report = report_rotated;
    host_secrets_submit(act);
}
