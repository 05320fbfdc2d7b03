/*
 * What is guarded in the folders that a process may write is looked for before its cage is planned,
 * by a worker: there may be thousands of folders, on a disk that sleeps. What was found is good for
 * the one plan that follows, and for exactly the folders that were looked at.
 */
#include "host/internal.h"

#include <errno.h>
#include <stdlib.h>

struct host_search {
    struct loop_job job;
    struct host *host;
    char **grants; /* owned; what is looked at */
    struct host_covers covers;
    int result;
    struct kg_err err;
    bool is_over, dropped;
    void (*on_over)(void *data);
    void *data;
};

static void search_free(struct host_search *search)
{
    kg_list_free(search->grants);
    host_covers_free(&search->covers);
    free(search);
}

static void host_search_run(struct loop_job *job)
{
    struct host_search *search = KG_CONTAINER(job, struct host_search, job);
    search->result = guards_find(search->grants, &search->covers, &search->err);
}

static void host_search_on_done(struct loop_job *job)
{
    struct host_search *search = KG_CONTAINER(job, struct host_search, job);
    struct host *host = search->host;
    host->search_jobs--;
    search->is_over = true;
    if (search->dropped)
        search_free(search);
    else
        search->on_over(search->data);
    host_look_for_stop(host);
}

struct host_search *host_search_begin(struct host *host, char **grants, void (*on_over)(void *data),
                                      void *data)
{
    struct host_search *search = kg_alloc(sizeof(*search));
    *search =
        (struct host_search){.host = host, .grants = grants, .on_over = on_over, .data = data};
    search->job.run = host_search_run;
    search->job.done = host_search_on_done;
    if (host->search_worker == NULL)
        host->search_worker = loop_worker_new(host->loop, "kaged-guards");
    host->search_jobs++;
    loop_worker_submit(host->search_worker, &search->job);
    return search;
}

/* One that is under way frees itself. */
void host_search_drop(struct host_search *search)
{
    if (search == NULL)
        return;
    search->dropped = true;
    if (search->is_over)
        search_free(search);
}

static void on_process_search(void *data)
{
    struct host_process *process = data;
    instance_prepared(process->instance);
}

bool host_search_ready(struct host_process *process)
{
    struct host *host = process->plugin->host;
    const struct host_cage_parts parts =
        host_cage_parts_of((struct host_named){process->plugin, process}, NULL);
    char **grants = policy_writable(&parts);
    host_search_forget(process);
    if (grants[0] == NULL || host->stopping) {
        kg_list_free(grants);
        return true;
    }
    process->search = host_search_begin(host, grants, on_process_search, process);
    return false;
}

static bool host_search_same_lists(char *const *a, char *const *b)
{
    size_t i = 0;
    while (a[i] != NULL && b[i] != NULL && strcmp(a[i], b[i]) == 0)
        i++;
    return a[i] == NULL && b[i] == NULL;
}

const struct host_covers *host_search_covers(const struct host_search *search, char *const *grants,
                                             int *ret_result, struct kg_err *err)
{
    if (search == NULL || !search->is_over || !host_search_same_lists(search->grants, grants))
        return NULL;
    *ret_result = search->result;
    if (search->result < 0 && err != NULL)
        *err = search->err;
    return &search->covers;
}

void host_search_forget(struct host_process *process)
{
    host_search_drop(kg_steal(&process->search));
}
