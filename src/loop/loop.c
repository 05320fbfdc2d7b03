/*
 * One turn: libuv polls, callbacks run, then the deferred tasks, then the timer of the wheel is
 * armed and the loop waits again. Other threads reach it only through loop_post.
 */
#include "loop/internal.h"

#include <assert.h>
#include <stdlib.h>

#define DELAY_MAX_MS (10ull * 365 * 24 * 3600 * 1000) /* keeps due times inside the wheel */
#define NS_PER_MS    1000000

static void run_tasks(struct loop *loop)
{
    while (loop->tasks != NULL) {
        struct loop_task *task = loop->tasks;
        loop->tasks = task->next;
        if (loop->tasks == NULL)
            loop->tasks_tail = &loop->tasks;
        task->next = NULL;
        task->queued = false;
        task->run(task);
    }
}

static void on_wheel_timer(uv_timer_t *handle)
{
    struct loop *loop = handle->data;
    loop->armed_ms = UINT64_MAX;
    wheel_advance(&loop->wheel, uv_now(&loop->uv));
}

static void arm_wheel(struct loop *loop)
{
    uint64_t next_ms = wheel_next(&loop->wheel);
    if (next_ms == loop->armed_ms)
        return;
    loop->armed_ms = next_ms;
    if (next_ms == UINT64_MAX) {
        uv_timer_stop(&loop->timer);
        return;
    }
    uint64_t now_ms = uv_now(&loop->uv);
    uv_timer_start(&loop->timer, on_wheel_timer, next_ms > now_ms ? next_ms - now_ms : 0, 0);
}

static void on_prepare(uv_prepare_t *handle)
{
    struct loop *loop = handle->data;
    run_tasks(loop);
    arm_wheel(loop);
    if (loop->done != NULL && loop->done(loop->done_data))
        uv_stop(&loop->uv); /* a task did it: there may be no event left to wait for */
    loop->now_ns = 0;
}

void loop_deliver_messages(struct loop *loop)
{
    uv_mutex_lock(&loop->lock);
    struct loop_message *message = loop->messages;
    loop->messages = NULL;
    loop->messages_tail = &loop->messages;
    uv_mutex_unlock(&loop->lock);
    while (message != NULL) {
        struct loop_message *next = message->next;
        message->deliver(message);
        message = next;
    }
}

static void on_async(uv_async_t *handle)
{
    loop_deliver_messages(handle->data);
}

struct loop *loop_new(void)
{
    struct loop *loop = kg_alloc(sizeof(*loop));
    int failed = uv_loop_init(&loop->uv);
    failed |= uv_mutex_init(&loop->lock);
    failed |= uv_async_init(&loop->uv, &loop->async, on_async);
    failed |= uv_prepare_init(&loop->uv, &loop->prepare);
    failed |= uv_timer_init(&loop->uv, &loop->timer);
    failed |= uv_timer_init(&loop->uv, &loop->until);
    if (failed)
        abort(); /* only without memory or file descriptors at the very start */
    loop->async.data = loop->prepare.data = loop->timer.data = loop->until.data = loop;
    uv_prepare_start(&loop->prepare, on_prepare);
    loop->tasks_tail = &loop->tasks;
    loop->messages_tail = &loop->messages;
    loop->armed_ms = UINT64_MAX;
    wheel_init(&loop->wheel, uv_now(&loop->uv));
    loop->scratch = kg_alloc(LOOP_SCRATCH_BYTES);
    return loop;
}

void loop_free(struct loop *loop)
{
    if (loop == NULL)
        return;
    uv_close((uv_handle_t *)&loop->async, NULL);
    uv_close((uv_handle_t *)&loop->prepare, NULL);
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_close((uv_handle_t *)&loop->until, NULL);
    while (uv_run(&loop->uv, UV_RUN_NOWAIT) != 0)
        ;
    int busy = uv_loop_close(&loop->uv);
    assert(busy == 0);
    (void)busy;
    uv_mutex_destroy(&loop->lock);
    free(loop->scratch);
    free(loop);
}

uv_loop_t *loop_uv(struct loop *loop)
{
    return &loop->uv;
}

static _Thread_local bool runs_here;

static void loop_own_run(struct loop *loop, uv_run_mode mode)
{
    runs_here = true;
    uv_run(&loop->uv, mode);
    runs_here = false;
}

bool loop_runs_here(void)
{
    return runs_here;
}

void loop_run(struct loop *loop)
{
    loop_own_run(loop, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *loop)
{
    uv_stop(&loop->uv);
}

/* Timers run before the poll of the same turn, which must not wait any more then. */
static void on_until_timeout(uv_timer_t *timer)
{
    struct loop *loop = timer->data;
    loop->until_over = true;
    uv_stop(&loop->uv);
}

bool loop_run_until(struct loop *loop, bool (*done)(void *data), void *data, uint64_t timeout_ms)
{
    loop->until_over = false;
    uv_update_time(&loop->uv);
    uv_timer_start(&loop->until, on_until_timeout, timeout_ms, 0);
    loop->done = done;
    loop->done_data = data;
    while (!loop->until_over && !done(data))
        loop_own_run(loop, UV_RUN_ONCE);
    loop->done = NULL;
    uv_timer_stop(&loop->until);
    loop_own_run(loop, UV_RUN_NOWAIT); /* what was closed is let go */
    loop->now_ns = 0;
    return done(data);
}

uint64_t loop_now_ms(const struct loop *loop)
{
    return uv_now(&loop->uv);
}

uint64_t loop_now_ns(struct loop *loop)
{
    if (loop->now_ns == 0)
        loop->now_ns = kg_monotonic_ns();
    return loop->now_ns;
}

/* Rounded up: a millisecond that has begun is not one that is over. */
uint64_t loop_due_ms(uint64_t delay_ms)
{
    uint64_t now_ms = (uv_hrtime() + NS_PER_MS - 1) / NS_PER_MS;
    return now_ms + (delay_ms < DELAY_MAX_MS ? delay_ms : DELAY_MAX_MS);
}

char *loop_scratch(struct loop *loop)
{
    return loop->scratch;
}

void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t delay_ms,
                      void (*on_due)(struct loop_timer *timer))
{
    wheel_remove(&loop->wheel, timer);
    timer->on_due = on_due;
    timer->due_ms = loop_due_ms(delay_ms);
    wheel_add(&loop->wheel, timer);
}

void loop_timer_stop(struct loop *loop, struct loop_timer *timer)
{
    wheel_remove(&loop->wheel, timer);
}

void loop_defer(struct loop *loop, struct loop_task *task)
{
    if (task->queued)
        return;
    task->queued = true;
    task->next = NULL;
    *loop->tasks_tail = task;
    loop->tasks_tail = &task->next;
}

void loop_undefer(struct loop *loop, struct loop_task *task)
{
    if (!task->queued)
        return;
    struct loop_task **link = &loop->tasks;
    while (*link != task)
        link = &(*link)->next;
    *link = task->next;
    if (*link == NULL)
        loop->tasks_tail = link;
    task->queued = false;
}

void loop_post(struct loop *loop, struct loop_message *message)
{
    message->next = NULL;
    uv_mutex_lock(&loop->lock);
    *loop->messages_tail = message;
    loop->messages_tail = &message->next;
    uv_mutex_unlock(&loop->lock);
    uv_async_send(&loop->async);
}
