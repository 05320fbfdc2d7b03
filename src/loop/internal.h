/* What the files of loop/ share. */
#ifndef KAGED_LOOP_INTERNAL_H
#define KAGED_LOOP_INTERNAL_H

#include "loop/loop.h"

#define WHEEL_LEVELS 7
#define WHEEL_SLOTS  64

/* See wheel.c. */
struct wheel {
    uint64_t now_ms;
    uint64_t filled[WHEEL_LEVELS];                      /* a bit for each slot that has timers */
    struct loop_timer slots[WHEEL_LEVELS][WHEEL_SLOTS]; /* heads of circular lists */
};
void wheel_init(struct wheel *wheel, uint64_t now_ms);
void wheel_add(struct wheel *wheel, struct loop_timer *timer);
void wheel_remove(struct wheel *wheel, struct loop_timer *timer);
void wheel_advance(struct wheel *wheel, uint64_t now_ms);
uint64_t wheel_next(const struct wheel *wheel); /* UINT64_MAX: nothing to wait for */

struct loop {
    uv_loop_t uv;
    uv_async_t async;
    uv_prepare_t prepare;
    uv_timer_t timer;
    uint64_t armed_ms; /* when `timer` fires, UINT64_MAX: stopped */
    struct wheel wheel;
    struct loop_task *tasks, **tasks_tail;
    bool (*done)(void *data); /* what loop_run_until waits for, or NULL */
    void *done_data;
    uv_timer_t until; /* how long it waits */
    bool until_over;
    uv_mutex_t lock; /* around messages only */
    struct loop_message *messages, **messages_tail;
    char *scratch;
    uint64_t now_ns; /* 0: not read in this turn */
};

#endif
