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

static struct kg_str own(struct kg_str text)
{
    return (struct kg_str){kg_str_dup(text), text.length};
}

static void run_query(struct loop_job *job)
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

static void on_flushed(struct loop_message *message)
{
    struct query *query = KG_CONTAINER(message, struct query, flushed);
    loop_worker_submit(query->host->reader, &query->job);
}

void host_audit_query(struct host *host, const struct audit_filter *filter,
                      host_audit_done_fn *on_done, void *data)
{
    struct query *query = kg_alloc(sizeof(*query));
    query->host = host;
    query->filter = *filter;
    query->filter.plugin = own(filter->plugin);
    query->filter.event = own(filter->event);
    query->filter.after_id = own(filter->after_id);
    query->on_done = on_done;
    query->data = data;
    query->job.run = run_query;
    query->job.done = on_query_done;
    query->flushed.deliver = on_flushed;
    audit_flush(host->audit, &query->flushed);
}
