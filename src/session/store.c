/*
 * The loop never waits for the disk: jobs go to two threads, one that writes and one that reads,
 * each with a handle of its own. Writers that came in one turn of the loop, or while the one before
 * was under way, share a transaction; each has a place in it that it can return to alone. A job is
 * told that it is done only after the commit.
 */
#include "session/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define BATCH_MAX    256 /* jobs in one transaction */
#define BATCH_MAX_MS 50  /* others, the loop among them, wait for the lock at most a second */
#define PAUSE_MIN_NS                                                                               \
    UINT64_C(1000000) /* shorter ones add up: a sleep takes longer than they do                    \
                       */
#define PAUSE_MAX_NS UINT64_C(25000000)

struct lane {
    struct session_store *store;
    struct state *state; /* owned; the worker's between submit and done */
    struct loop_worker *worker;
    struct session_job *first, **tail; /* waiting */
    struct session_job *batch; /* under way; those that it had no time for stay at its end */
    size_t queued;
    bool busy;
    struct loop_task task;
    struct loop_job job;
    void (*run_batch)(struct lane *lane);
    size_t finished;   /* of the batch */
    uint64_t ended_ns; /* when the lock was given back, */
    uint64_t owed_ns;  /* and for how long others may still want to find it free */
};

struct session_store {
    struct loop *loop;
    struct lane writer, reader;
    bool closing;
};

/* -- on the lane's thread ---------------------------------------------------------------------- */

static void fail_all(struct lane *lane, int result, const struct kg_err *err)
{
    struct session_job *job = lane->batch;
    for (size_t i = 0; i < lane->finished; i++, job = job->next) {
        job->result = result;
        job->err = *err;
    }
}

/*
 * One job with a place to return to; false if the whole transaction is lost. One that is alone in
 * it needs no place.
 */
static bool run_in_place(struct lane *lane, struct session_job *job, struct kg_err *err)
{
    if (job == lane->batch && job->next == NULL) {
        job->result = job->run(job, lane->state, &job->err);
        if (job->result < 0)
            *err = job->err;
        return job->result == 0;
    }
    job->result = state_step(lane->state, STATE_SAVE, &job->err);
    if (job->result == 0)
        job->result = job->run(job, lane->state, &job->err);
    if (!state_in_transaction(lane->state)) {
        *err = job->err;
        return false;
    }
    return state_step(lane->state, job->result < 0 ? STATE_RETURN : STATE_FORGET, err) == 0;
}

/*
 * SQLite's lock knows no queue: who has had it leaves others the time to find it free, half as long
 * as it was held. While nothing is to be written it is free anyway.
 */
static void wait_for_turn(struct lane *lane)
{
    uint64_t idle_ns = kg_monotonic_ns() - lane->ended_ns;
    lane->owed_ns -= idle_ns < lane->owed_ns ? idle_ns : lane->owed_ns;
    if (lane->owed_ns < PAUSE_MIN_NS)
        return;
    const struct timespec pause = {.tv_nsec = (long)lane->owed_ns};
    lane->owed_ns = 0;
    nanosleep(&pause, NULL);
}

static void run_writers(struct lane *lane)
{
    struct kg_err err = {0};
    uint64_t deadline = kg_monotonic_ms() + BATCH_MAX_MS;
    int result = state_step(lane->state, STATE_BEGIN_WRITE, &err);
    lane->finished = 0;
    for (struct session_job *job = lane->batch; job != NULL; job = job->next) {
        lane->finished++;
        if (result == 0 && !run_in_place(lane, job, &err))
            result = -EIO;
        if (result == 0 && (lane->finished == BATCH_MAX || kg_monotonic_ms() >= deadline))
            break;
    }
    if (result == 0)
        result = state_step(lane->state, STATE_COMMIT, &err);
    if (result < 0) {
        if (state_in_transaction(lane->state))
            state_step(lane->state, STATE_ROLLBACK, NULL);
        fail_all(lane, result, &err);
    }
}

static void write_batch(struct lane *lane)
{
    if (!state_has_one_writer(lane->state)) {
        run_writers(lane);
        return;
    }
    wait_for_turn(lane);
    uint64_t start_ns = kg_monotonic_ns();
    run_writers(lane);
    lane->ended_ns = kg_monotonic_ns();
    lane->owed_ns += (lane->ended_ns - start_ns) / 2;
    if (lane->owed_ns > PAUSE_MAX_NS)
        lane->owed_ns = PAUSE_MAX_NS;
}

/* One at a time, so that nobody waits for the reading of another. */
static void read_one(struct lane *lane)
{
    struct session_job *job = lane->batch;
    lane->finished = 1;
    job->result = job->once ? 0 : state_step(lane->state, STATE_BEGIN_READ, &job->err);
    if (job->result < 0)
        return;
    job->result = job->run(job, lane->state, &job->err);
    if (state_in_transaction(lane->state))
        state_step(lane->state, STATE_ROLLBACK, NULL);
}

static void session_store_run_job(struct loop_job *loop_job)
{
    struct lane *lane = KG_CONTAINER(loop_job, struct lane, job);
    lane->run_batch(lane);
}

/* -- on the loop ------------------------------------------------------------------------------- */

static void take_batch(struct lane *lane)
{
    lane->batch = lane->first;
    lane->first = NULL;
    lane->tail = &lane->first;
    lane->busy = true;
}

/* What the batch had no time for goes before what came since. */
static struct session_job *split_batch(struct lane *lane)
{
    struct session_job *done = lane->batch, **end = &lane->batch;
    for (size_t i = 0; i < lane->finished; i++)
        end = &(*end)->next;
    struct session_job *rest = *end;
    *end = NULL;
    lane->batch = NULL;
    if (rest != NULL) {
        struct session_job **rest_end = &rest->next;
        while (*rest_end != NULL)
            rest_end = &(*rest_end)->next;
        *rest_end = lane->first;
        if (lane->first == NULL)
            lane->tail = rest_end;
        lane->first = rest;
    }
    return done;
}

static void session_store_end_batch(struct lane *lane)
{
    struct session_job *job = split_batch(lane);
    lane->busy = false;
    while (job != NULL) {
        struct session_job *next = job->next;
        lane->queued--;
        job->done(job, job->result < 0 ? &job->err : NULL);
        job = next;
    }
}

static void session_store_submit(struct lane *lane)
{
    if (lane->busy || lane->first == NULL)
        return;
    take_batch(lane);
    loop_worker_submit(lane->worker, &lane->job);
}

static void on_batch_done(struct loop_job *loop_job)
{
    struct lane *lane = KG_CONTAINER(loop_job, struct lane, job);
    session_store_end_batch(lane);
    if (!lane->store->closing)
        session_store_submit(lane);
}

static void session_store_on_turn_end(struct loop_task *task)
{
    session_store_submit(KG_CONTAINER(task, struct lane, task));
}

static void queue(struct lane *lane, struct session_job *job)
{
    job->next = NULL;
    job->result = 0;
    *lane->tail = job;
    lane->tail = &job->next;
    lane->queued++;
    if (!lane->store->closing)
        loop_defer(lane->store->loop, &lane->task);
}

void session_store_write(struct session_store *store, struct session_job *job)
{
    queue(&store->writer, job);
}

void session_store_read(struct session_store *store, struct session_job *job)
{
    queue(&store->reader, job);
}

size_t session_store_queued(const struct session_store *store)
{
    return store->writer.queued + store->reader.queued;
}

/* -- its life ---------------------------------------------------------------------------------- */

static void lane_start(struct lane *lane, struct session_store *store, const char *name,
                       void (*run_batch)(struct lane *lane))
{
    lane->store = store;
    lane->tail = &lane->first;
    lane->task.run = session_store_on_turn_end;
    lane->job.run = session_store_run_job;
    lane->job.done = on_batch_done;
    lane->run_batch = run_batch;
    lane->worker = loop_worker_new(store->loop, name);
}

static void lane_stop(struct lane *lane)
{
    loop_undefer(lane->store->loop, &lane->task);
    loop_worker_free(lane->worker);
}

/* What still waits is run here, now that the threads are gone. */
static void session_store_drain(struct lane *lane)
{
    while (lane->first != NULL) {
        take_batch(lane);
        lane->run_batch(lane);
        session_store_end_batch(lane);
    }
}

struct session_store *session_store_new(struct loop *loop, const char *place, struct kg_err *err)
{
    struct state *writer = state_open(place, err);
    struct state *reader = writer ? state_open_readonly(place, err) : NULL;
    if (reader == NULL) {
        state_close(writer);
        return NULL;
    }
    struct session_store *store = kg_alloc(sizeof(*store));
    store->loop = loop;
    store->writer.state = writer;
    store->reader.state = reader;
    lane_start(&store->writer, store, "session-write", write_batch);
    lane_start(&store->reader, store, "session-read", read_one);
    return store;
}

void session_store_free(struct session_store *store)
{
    if (store == NULL)
        return;
    store->closing = true;
    lane_stop(&store->reader);
    lane_stop(&store->writer);
    while (session_store_queued(store) > 0) {
        session_store_drain(&store->writer);
        session_store_drain(&store->reader);
    }
    state_close(store->reader.state);
    state_close(store->writer.state);
    free(store);
}
