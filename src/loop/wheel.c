/*
 * A hierarchical timing wheel: adding and removing a timer costs a few instructions, whatever their
 * number. A timer sits at the level of the highest base-64 digit in which its due time differs from
 * now, in the slot of that digit; so every timer of a lower level is due before any of a higher
 * one, and the slot of now's own digit is always empty. When now reaches a slot of a higher level,
 * its timers move down. Seven digits of milliseconds are 139 years, so no due time is ever beyond
 * the top.
 */
#include "loop/internal.h"

#define DIGIT_BITS 6
#define DETACHED   0xFF /* level of a timer that is being expired */

static unsigned digit(uint64_t ms, unsigned level)
{
    return (unsigned)(ms >> (DIGIT_BITS * level)) & (WHEEL_SLOTS - 1);
}

static void list_init(struct loop_timer *head)
{
    head->next = head->previous = head;
}

static void list_push(struct loop_timer *head, struct loop_timer *timer)
{
    timer->previous = head->previous;
    timer->next = head;
    head->previous->next = timer;
    head->previous = timer;
}

static void list_unlink(struct loop_timer *timer)
{
    timer->previous->next = timer->next;
    timer->next->previous = timer->previous;
    timer->next = timer->previous = NULL;
}

/* Moves all timers of `from` to the empty list `to`. */
static void list_take(struct loop_timer *to, struct loop_timer *from)
{
    list_init(to);
    if (from->next == from)
        return;
    to->next = from->next;
    to->previous = from->previous;
    to->next->previous = to->previous->next = to;
    list_init(from);
}

void wheel_init(struct wheel *wheel, uint64_t now_ms)
{
    wheel->now_ms = now_ms;
    for (unsigned level = 0; level < WHEEL_LEVELS; level++)
        for (unsigned slot = 0; slot < WHEEL_SLOTS; slot++)
            list_init(&wheel->slots[level][slot]);
}

void wheel_add(struct wheel *wheel, struct loop_timer *timer)
{
    if (timer->due_ms <= wheel->now_ms)
        timer->due_ms = wheel->now_ms + 1;
    uint64_t differs = timer->due_ms ^ wheel->now_ms;
    unsigned level = (unsigned)(63 - __builtin_clzll(differs)) / DIGIT_BITS;
    timer->level = (uint8_t)level;
    timer->slot = (uint8_t)digit(timer->due_ms, level);
    list_push(&wheel->slots[level][timer->slot], timer);
    wheel->filled[level] |= 1ull << timer->slot;
}

void wheel_remove(struct wheel *wheel, struct loop_timer *timer)
{
    if (timer->next == NULL)
        return;
    list_unlink(timer);
    if (timer->level == DETACHED)
        return;
    struct loop_timer *head = &wheel->slots[timer->level][timer->slot];
    if (head->next == head)
        wheel->filled[timer->level] &= ~(1ull << timer->slot);
}

/* The first filled slot: its level and the time at which now reaches it. */
static uint64_t next_slot(const struct wheel *wheel, unsigned *ret_level, unsigned *ret_slot)
{
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        if (wheel->filled[level] == 0)
            continue;
        unsigned slot = (unsigned)__builtin_ctzll(wheel->filled[level]);
        uint64_t below = (1ull << (DIGIT_BITS * (level + 1))) - 1;
        *ret_level = level;
        *ret_slot = slot;
        return (wheel->now_ms & ~below) | ((uint64_t)slot << (DIGIT_BITS * level));
    }
    return UINT64_MAX;
}

uint64_t wheel_next(const struct wheel *wheel)
{
    unsigned level, slot;
    return next_slot(wheel, &level, &slot);
}

void wheel_advance(struct wheel *wheel, uint64_t now_ms)
{
    unsigned level = 0, slot = 0;
    uint64_t reached_ms;
    while ((reached_ms = next_slot(wheel, &level, &slot)) <= now_ms) {
        wheel->now_ms = reached_ms;
        struct loop_timer list;
        list_take(&list, &wheel->slots[level][slot]);
        wheel->filled[level] &= ~(1ull << slot);
        for (struct loop_timer *timer = list.next; timer != &list; timer = timer->next)
            timer->level = DETACHED;
        while (list.next != &list) {
            struct loop_timer *timer = list.next;
            list_unlink(timer);
            if (timer->due_ms > reached_ms)
                wheel_add(wheel, timer);
            else
                timer->on_due(timer);
        }
    }
    if (now_ms > wheel->now_ms)
        wheel->now_ms = now_ms;
}
