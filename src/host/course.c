/*
 * Figures over the last minutes: what a plugin was called for, and how long that took, a slot for
 * each few seconds. A slot is summed up when the next one begins, so that what is kept is small and
 * what a call costs is an addition.
 */
#include "host/internal.h"

#define STEP_NS ((uint64_t)HOST_COURSE_STEP_MS * 1000000)

struct host_course {
    uint64_t slot; /* that is being filled, by its number since the clock began */
    uint32_t errors;
    struct host_histogram now;                       /* of that slot */
    struct host_course_slot past[HOST_COURSE_SLOTS]; /* by their number */
};

static uint32_t course_narrow(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* Slots in which nothing was called are empty. */
static void course_turn(struct host_course *course, uint64_t slot)
{
    course->past[course->slot % HOST_COURSE_SLOTS] = (struct host_course_slot){
        .calls = course_narrow(host_histogram_count(&course->now)),
        .errors = course->errors,
        .p50_us = course_narrow(host_histogram_quantile_us(&course->now, 50)),
        .p99_us = course_narrow(host_histogram_quantile_us(&course->now, 99)),
    };
    for (uint64_t i = 1; i < slot - course->slot && i <= HOST_COURSE_SLOTS; i++)
        course->past[(course->slot + i) % HOST_COURSE_SLOTS] = (struct host_course_slot){0};
    course->slot = slot;
    course->errors = 0;
    course->now = (struct host_histogram){0};
}

void host_course_add(struct host_course **course_or_null, uint64_t now_ns, uint64_t duration_ns,
                     bool failed)
{
    uint64_t slot = now_ns / STEP_NS;
    struct host_course *course = *course_or_null;
    if (course == NULL) {
        course = *course_or_null = kg_alloc(sizeof(*course));
        course->slot = slot;
    }
    if (slot > course->slot)
        course_turn(course, slot);
    host_histogram_add(&course->now, duration_ns);
    course->errors += failed;
}

void host_course_sum(struct host_course *course_or_null, uint64_t now_ns,
                     struct host_course_slot slots[HOST_COURSE_SLOTS])
{
    uint64_t slot = now_ns / STEP_NS;
    if (course_or_null == NULL)
        return;
    if (slot > course_or_null->slot)
        course_turn(course_or_null, slot);
    for (size_t i = 0; i < HOST_COURSE_SLOTS; i++) {
        const struct host_course_slot *from = &course_or_null->past[(slot + i) % HOST_COURSE_SLOTS];
        slots[i].calls += from->calls;
        slots[i].errors += from->errors;
        slots[i].p50_us = from->p50_us > slots[i].p50_us ? from->p50_us : slots[i].p50_us;
        slots[i].p99_us = from->p99_us > slots[i].p99_us ? from->p99_us : slots[i].p99_us;
    }
}

uint64_t host_course_age_ms(uint64_t now_ns)
{
    return now_ns % STEP_NS / 1000000;
}
