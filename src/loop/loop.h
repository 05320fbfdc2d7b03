/*
 * The one thread that owns all host state: libuv underneath, and on it timers that cost no heap
 * operation, tasks for the end of a turn, messages from other threads, and workers.
 */
#ifndef KAGED_LOOP_H
#define KAGED_LOOP_H

#include "base/base.h"

#include <uv.h>

struct loop;
struct loop *loop_new(void);
void loop_free(struct loop *loop); /* every handle of its users must be closed before */
uv_loop_t *loop_uv(struct loop *loop);
void loop_run(struct loop *loop); /* until loop_stop */
void loop_stop(struct loop *loop);
/* Runs until done(data) is true or the time is over; for start-up, shutdown and tests. */
bool loop_run_until(struct loop *loop, bool (*done)(void *data), void *data, uint64_t timeout_ms);
bool loop_runs_here(void); /* whether this thread is in one of the two */
/* Monotonic, read once a turn; the second by the first caller. */
uint64_t loop_now_ms(const struct loop *loop);
uint64_t loop_now_ns(struct loop *loop);
/* When a delay that begins now is over, by that clock. Not counted from loop_now_ms: that is as old
 * as the turn, and what took its time in it would come off the delay. */
uint64_t loop_due_ms(uint64_t delay_ms);

/* A buffer for one read, shared by all readers of the loop; its content dies with the callback. */
#define LOOP_SCRATCH_BYTES 65536
char *loop_scratch(struct loop *loop);

/* -- timers: embed one in what it belongs to; zeroed means stopped ----------------------------- */

struct loop_timer {
    struct loop_timer *next, *previous; /* in its slot of the wheel; NULL when stopped */
    uint64_t due_ms;
    void (*on_due)(struct loop_timer *timer);
    uint8_t level, slot;
};
/* Starting a running timer moves it. */
void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t delay_ms,
                      void (*on_due)(struct loop_timer *timer));
void loop_timer_stop(struct loop *loop, struct loop_timer *timer);
static inline bool loop_timer_running(const struct loop_timer *timer)
{
    return timer->next != NULL;
}

/* -- tasks: run once, before the loop waits again ---------------------------------------------- */

struct loop_task {
    struct loop_task *next;
    void (*run)(struct loop_task *task);
    bool queued;
};
void loop_defer(struct loop *loop, struct loop_task *task); /* a queued one stays queued once */
void loop_undefer(struct loop *loop, struct loop_task *task);

/* -- messages from other threads, delivered on the loop in the order they were posted ---------- */

struct loop_message {
    struct loop_message *next;
    void (*deliver)(
        struct loop_message *message); /* on the loop thread; owns the message from then */
};
void loop_post(struct loop *loop, struct loop_message *message); /* from any thread */
/* Delivers what was posted, now: for whoever ends a thread and must hear its last messages. */
void loop_deliver_messages(struct loop *loop);

/* -- fds: one that is polled, and owned; embed it in what it belongs to ------------------------ */

struct loop_fd {
    uv_poll_t *poll; /* its data is the loop_fd; NULL: at its end, or not open yet */
    int fd;          /* -1 then */
};
/* Takes the fd over. If it cannot be polled it is at its end at once. */
void loop_fd_begin(struct loop *loop, struct loop_fd *polled, int fd);
void loop_fd_end(struct loop_fd *polled); /* one at its end, too */

/* -- folders: what changes in one -------------------------------------------------------------- */

struct loop_watch;
/* name: of what was made, changed or removed in the folder; NULL: nobody can tell. */
typedef void loop_watch_fn(void *data, const char *name_or_null);
struct loop_watch *loop_watch_new(struct loop *loop, const char *folder, loop_watch_fn *on_change,
                                  void *data, struct kg_err *err);
void loop_watch_free(struct loop_watch *watch); /* takes NULL */

/* -- workers: a named thread that runs jobs one after the other -------------------------------- */

struct loop_worker;
struct loop_job {
    struct loop_message message;        /* first: how it comes back */
    void (*run)(struct loop_job *job);  /* on the worker */
    void (*done)(struct loop_job *job); /* on the loop */
    struct loop_worker *worker;
};
struct loop_worker *loop_worker_new(struct loop *loop, const char *name);
void loop_worker_submit(struct loop_worker *worker, struct loop_job *job);
/* Finishes what was submitted, joins the thread; `done` of the last jobs runs before it returns. */
void loop_worker_free(struct loop_worker *worker);

#endif
