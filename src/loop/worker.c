/* A named thread that runs jobs in the order they were submitted; each comes back as a message. */
#include "loop/internal.h"

#include <pthread.h>
#include <stdlib.h>

struct loop_worker {
    struct loop *loop; /* borrowed; outlives the worker */
    char name[16];
    uv_thread_t thread;
    uv_mutex_t lock; /* around what follows */
    uv_cond_t wake;
    struct loop_message *jobs, **jobs_tail;
    bool stopping;
};

static void worker_on_done(struct loop_message *message)
{
    struct loop_job *job = KG_CONTAINER(message, struct loop_job, message);
    job->done(job);
}

static struct loop_job *take_job(struct loop_worker *worker)
{
    uv_mutex_lock(&worker->lock);
    while (worker->jobs == NULL && !worker->stopping)
        uv_cond_wait(&worker->wake, &worker->lock);
    struct loop_message *message = worker->jobs;
    if (message != NULL) {
        worker->jobs = message->next;
        if (worker->jobs == NULL)
            worker->jobs_tail = &worker->jobs;
    }
    uv_mutex_unlock(&worker->lock);
    return message ? KG_CONTAINER(message, struct loop_job, message) : NULL;
}

static void worker_work(void *data)
{
    struct loop_worker *worker = data;
    pthread_setname_np(pthread_self(), worker->name);
    struct loop_job *job;
    while ((job = take_job(worker)) != NULL) {
        job->run(job);
        loop_post(worker->loop, &job->message);
    }
}

struct loop_worker *loop_worker_new(struct loop *loop, const char *name)
{
    struct loop_worker *worker = kg_alloc(sizeof(*worker));
    worker->loop = loop;
    strncpy(worker->name, name, sizeof(worker->name) - 1);
    worker->jobs_tail = &worker->jobs;
    if (uv_mutex_init(&worker->lock) || uv_cond_init(&worker->wake) ||
        uv_thread_create(&worker->thread, worker_work, worker))
        abort(); /* no thread can be had at start-up */
    return worker;
}

void loop_worker_submit(struct loop_worker *worker, struct loop_job *job)
{
    job->worker = worker;
    job->message.deliver = worker_on_done;
    job->message.next = NULL;
    uv_mutex_lock(&worker->lock);
    *worker->jobs_tail = &job->message;
    worker->jobs_tail = &job->message.next;
    uv_cond_signal(&worker->wake);
    uv_mutex_unlock(&worker->lock);
}

void loop_worker_free(struct loop_worker *worker)
{
    if (worker == NULL)
        return;
    uv_mutex_lock(&worker->lock);
    worker->stopping = true;
    uv_cond_signal(&worker->wake);
    uv_mutex_unlock(&worker->lock);
    uv_thread_join(&worker->thread);
    loop_deliver_messages(worker->loop);
    uv_cond_destroy(&worker->wake);
    uv_mutex_destroy(&worker->lock);
    free(worker);
}
