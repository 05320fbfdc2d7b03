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
    struct host_named named; /* one reference each, while it is under way */
    char **grants;           /* owned; what is looked at */
    struct host_covers covers;
    int result;
    struct kg_err err;
    bool is_over;
};

static void search_free(struct host_search *search)
{
    kg_list_free(search->grants);
    host_covers_free(&search->covers);
    free(search);
}

static void run(struct loop_job *job)
{
    struct host_search *search = KG_CONTAINER(job, struct host_search, job);
    search->result = guards_find(search->grants, &search->covers, &search->err);
}

static void on_done(struct loop_job *job)
{
    struct host_search *search = KG_CONTAINER(job, struct host_search, job);
    struct host_named named = search->named;
    struct host *host = named.plugin->host;
    host->search_jobs--;
    search->is_over = true;
    if (named.process->search != search)
        search_free(search); /* nobody waits for it any more */
    else if (named.process->instance != NULL)
        instance_prepared(named.process->instance);
    host_drop(named);
    host_look_for_stop(host);
}

bool host_search_ready(struct host_process *process)
{
    struct host *host = process->plugin->host;
    const struct host_named named = {process->plugin, process};
    const struct host_cage_parts parts = host_cage_parts_of(named, NULL);
    char **grants = policy_writable(&parts);
    host_search_forget(process);
    if (grants[0] == NULL || host->stopping) {
        kg_list_free(grants);
        return true;
    }
    struct host_search *search = kg_alloc(sizeof(*search));
    search->named = host_keep(named);
    search->grants = grants;
    search->job.run = run;
    search->job.done = on_done;
    process->search = search;
    if (host->search_worker == NULL)
        host->search_worker = loop_worker_new(host->loop, "kaged-guards");
    host->search_jobs++;
    loop_worker_submit(host->search_worker, &search->job);
    return false;
}

static bool same_lists(char *const *a, char *const *b)
{
    size_t i = 0;
    while (a[i] != NULL && b[i] != NULL && strcmp(a[i], b[i]) == 0)
        i++;
    return a[i] == NULL && b[i] == NULL;
}

const struct host_covers *host_search_covers(const struct host_search *search, char *const *grants,
                                             int *ret_result, struct kg_err *err)
{
    if (search == NULL || !search->is_over || !same_lists(search->grants, grants))
        return NULL;
    *ret_result = search->result;
    if (search->result < 0 && err != NULL)
        *err = search->err;
    return &search->covers;
}

/* One that is under way frees itself. */
void host_search_forget(struct host_process *process)
{
    struct host_search *search = kg_steal(&process->search);
    if (search != NULL && search->is_over)
        search_free(search);
}
