/*
 * Questions about the audit log read files, so a worker answers them, after all that was emitted.
 */
#include "host/internal.h"

#include <stdlib.h>

struct query {
    struct loop_message flushed;
    struct loop_job job;
    struct host *host;
    struct audit_filter filter; /* its texts are owned copies */
    host_audit_done_fn *on_done;
    void *data;
    struct kg_buf lines;
    struct kg_err err;
    int result;
};

static struct kg_str host_query_own(struct kg_str text)
{
    return (struct kg_str){kg_str_dup(text), text.length};
}

static void host_query_run_query(struct loop_job *job)
{
    struct query *query = KG_CONTAINER(job, struct query, job);
    query->result =
        audit_query(query->host->paths->audit_dir, &query->filter, &query->lines, &query->err);
}

static void on_query_done(struct loop_job *job)
{
    struct query *query = KG_CONTAINER(job, struct query, job);
    query->on_done(query->data, kg_buf_view(&query->lines), query->result < 0 ? &query->err : NULL);
    free((char *)query->filter.plugin.data);
    free((char *)query->filter.event.data);
    free((char *)query->filter.after_id.data);
    kg_buf_free(&query->lines);
    free(query);
}

static void run_verify(struct loop_job *job)
{
    struct query *query = KG_CONTAINER(job, struct query, job);
    const struct audit_options options = {
        .dir = query->host->paths->audit_dir,
        .state_db = query->host->paths->state_db,
        .key_file = query->host->paths->audit_key,
    };
    struct audit_report report = {0};
    query->result = audit_verify(&options, &report, &query->err);
    if (query->result == 0)
        audit_report_write(&report, &query->lines);
}

static void host_query_on_flushed(struct loop_message *message)
{
    struct query *query = KG_CONTAINER(message, struct query, flushed);
    loop_worker_submit(query->host->reader, &query->job);
}

/* Once everything emitted so far is in the files. */
static void host_query_ask(struct query *query, void (*run)(struct loop_job *job),
                           host_audit_done_fn *on_done, void *data)
{
    query->on_done = on_done;
    query->data = data;
    query->job.run = run;
    query->job.done = on_query_done;
    query->flushed.deliver = host_query_on_flushed;
    audit_flush(query->host->audit, &query->flushed);
}

void host_audit_query(struct host *host, const struct audit_filter *filter,
                      host_audit_done_fn *on_done, void *data)
{
    struct query *query = kg_alloc(sizeof(*query));
    query->host = host;
    query->filter = *filter;
    query->filter.plugin = host_query_own(filter->plugin);
    query->filter.event = host_query_own(filter->event);
    query->filter.after_id = host_query_own(filter->after_id);
    host_query_ask(query, host_query_run_query, on_done, data);
}

static void on_verified(struct loop_job *job)
{
    struct query *query = KG_CONTAINER(job, struct query, job);
    query->host->verifies = false;
    on_query_done(job);
}

/* All of the log is read for it: one at a time is enough, and others wait for the worker, too. */
int host_audit_verify(struct host *host, host_audit_done_fn *on_done, void *data,
                      struct kg_err *err)
{
    if (host->verifies) {
        kg_fail(err, KG_E_BUSY, "the audit log is already being verified");
        return kg_hint(err, "ask again when that is done");
    }
    struct query *query = kg_alloc(sizeof(*query));
    query->host = host;
    host->verifies = true;
    host_query_ask(query, run_verify, on_done, data);
    query->job.done = on_verified;
    return 0;
}
