/*
 * What a plugin tries in a cage that is watched, and is not given though it is on the host, goes to
 * the audit log. Whether it is there is looked at by a worker: a file system may take its time.
 */
#include "supervisor/internal.h"

#include <stdlib.h>

const char instance_seen_reason[] = "its cage does not have it, or not so";

/* One attempt on its way to the worker and back. */
struct explain_look {
    struct loop_job job;
    struct instance *instance;
    struct cage_attempt attempt; /* its texts are owned */
    bool is_need;
    struct cage_need need;
};

static void explain_look_at(struct loop_job *job)
{
    struct explain_look *look = KG_CONTAINER(job, struct explain_look, job);
    look->is_need = cage_need_of(&look->attempt, &look->need);
}

static void explain_tell(struct instance *instance, const struct cage_need *need)
{
    uint32_t suppressed;
    const char *access = need->act == CAGE_ACT_RUN     ? "execute"
                         : need->act == CAGE_ACT_WRITE ? "write"
                                                       : "read";
    if (need->left_out == NULL && instance_may_complain(instance, &suppressed))
        audit_emit(instance->supervisor->audit, AUDIT_PLUGIN_ACCESS_DENIED, KG_STR_NULL,
                   AUDIT_V_TEXT(instance->name), AUDIT_V_TEXT(access), AUDIT_V_TEXT(need->path),
                   AUDIT_V_TEXT(instance_seen_reason), AUDIT_V_INT(suppressed));
}

static void explain_look_done(struct loop_job *job)
{
    struct explain_look *look = KG_CONTAINER(job, struct explain_look, job);
    if (look->is_need) {
        explain_tell(look->instance, &look->need);
        cage_need_free(&look->need);
    }
    free(look->attempt.what);
    free(look->attempt.call);
    free(look);
}

static void explain_on_tried(void *data, const struct cage_attempt *attempt)
{
    struct instance *instance = data;
    struct explain_look *look = kg_alloc(sizeof(*look));
    look->job.run = explain_look_at;
    look->job.done = explain_look_done;
    look->instance = instance;
    look->attempt = *attempt;
    look->attempt.what = kg_strdup(attempt->what);
    look->attempt.call = kg_strdup(attempt->call);
    loop_worker_submit(instance->looker, &look->job);
}

void explain_take(struct instance *instance, int fd)
{
    struct loop *loop = instance->supervisor->loop;
    if (instance->looker == NULL)
        instance->looker = loop_worker_new(loop, "kaged-explain");
    cage_attempts_free(instance->attempts);
    instance->attempts = cage_attempts_new(loop, fd, explain_on_tried, instance);
}

void explain_end(struct instance *instance)
{
    if (instance->attempts != NULL)
        cage_attempts_finish(instance->attempts);
    cage_attempts_free(instance->attempts);
    instance->attempts = NULL;
}

void explain_forget(struct instance *instance)
{
    explain_end(instance);
    if (instance->looker != NULL)
        loop_worker_free(instance->looker);
    instance->looker = NULL;
}
