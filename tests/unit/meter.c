/* Figures: what a histogram counts, and what can be said from it. */
#include "host/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define US ((uint64_t)1000)
#define MS (1000 * US)

static void histogram_without_anything_is_zero(void **state)
{
    (void)state;
    struct host_histogram histogram = {0};
    assert_int_equal(host_histogram_count(&histogram), 0);
    assert_int_equal(host_histogram_quantile_us(&histogram, 50), 0);
    assert_int_equal(host_histogram_quantile_us(&histogram, 99), 0);
}

static void duration_on_a_bound_is_within_it(void **state)
{
    (void)state;
    struct host_histogram histogram = {0};
    host_histogram_add(&histogram, 100 * US);
    host_histogram_add(&histogram, 100 * US + 1);
    host_histogram_add(&histogram, 0);
    assert_int_equal(histogram.counts[0], 2);
    assert_int_equal(histogram.counts[1], 1);
    assert_int_equal(histogram.sum_ns, 200 * US + 1);
}

static void what_takes_longest_is_counted_too(void **state)
{
    (void)state;
    struct host_histogram histogram = {0};
    host_histogram_add(&histogram, 30000 * MS);
    host_histogram_add(&histogram, 3600000 * MS);
    assert_int_equal(histogram.counts[HOST_BUCKETS - 1], 1);
    assert_int_equal(histogram.counts[HOST_BUCKETS], 1);
    assert_int_equal(host_histogram_count(&histogram), 2);
    /* Of what is past the last bound only that is known. */
    assert_int_equal(host_histogram_quantile_us(&histogram, 99), 30000000);
}

static void quantiles_lie_in_the_bucket_of_their_rank(void **state)
{
    (void)state;
    struct host_histogram histogram = {0};
    for (int i = 0; i < 98; i++)
        host_histogram_add(&histogram, 2 * MS); /* from 1 to 2.5 ms */
    host_histogram_add(&histogram, 700 * MS);   /* from 500 ms to 1 s */
    host_histogram_add(&histogram, 700 * MS);
    uint64_t p50 = host_histogram_quantile_us(&histogram, 50);
    uint64_t p99 = host_histogram_quantile_us(&histogram, 99);
    assert_in_range(p50, 1000, 2500);
    assert_in_range(p99, 500000, 1000000);
    assert_int_equal(p99, 750000); /* in the middle: the first of two */
}

static void bounds_rise_from_100_us_to_30_s(void **state)
{
    (void)state;
    assert_int_equal(host_bucket_us[0], 100);
    assert_int_equal(host_bucket_us[HOST_BUCKETS - 1], 30000000);
    for (size_t i = 1; i < HOST_BUCKETS; i++)
        assert_true(host_bucket_us[i] > host_bucket_us[i - 1]);
}

#define STEP ((uint64_t)HOST_COURSE_STEP_MS * MS)

static void course_has_each_step_that_is_over_once(void **state)
{
    (void)state;
    struct host_course *course = NULL;
    struct host_course_slot slots[HOST_COURSE_SLOTS] = {0};
    const uint64_t start = 1000 * STEP;
    host_course_sum(course, start, slots); /* of nothing */
    assert_int_equal(slots[HOST_COURSE_SLOTS - 1].calls, 0);
    for (int i = 0; i < 3; i++)
        host_course_add(&course, start + STEP / 2, 2 * MS, i == 0);
    host_course_add(&course, start + 2 * STEP, 700 * MS, true);
    host_course_sum(course, start + 2 * STEP + 1, slots);
    assert_int_equal(slots[HOST_COURSE_SLOTS - 1].calls, 0); /* a step without any */
    const struct host_course_slot *first = &slots[HOST_COURSE_SLOTS - 2];
    assert_int_equal(first->calls, 3);
    assert_int_equal(first->errors, 1);
    assert_in_range(first->p50_us, 1000, 2500);
    host_course_sum(course, start + 3 * STEP, slots);
    assert_int_equal(slots[HOST_COURSE_SLOTS - 1].calls, 1); /* the step that was not over then */
    assert_in_range(slots[HOST_COURSE_SLOTS - 1].p99_us, 500000, 1000000);
    free(course);
}

static void course_forgets_what_is_too_old(void **state)
{
    (void)state;
    for (uint64_t later = 1; later <= 2 * HOST_COURSE_SLOTS + 1; later++) {
        struct host_course *course = NULL;
        struct host_course_slot slots[HOST_COURSE_SLOTS] = {0};
        uint64_t calls = 0;
        host_course_add(&course, 500 * STEP, MS, false);
        host_course_sum(course, (500 + later) * STEP, slots);
        for (size_t i = 0; i < HOST_COURSE_SLOTS; i++)
            calls += slots[i].calls;
        assert_int_equal(calls, later <= HOST_COURSE_SLOTS ? 1 : 0);
        if (calls == 1)
            assert_int_equal(slots[HOST_COURSE_SLOTS - later].calls, 1);
        free(course);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(histogram_without_anything_is_zero),
        cmocka_unit_test(duration_on_a_bound_is_within_it),
        cmocka_unit_test(what_takes_longest_is_counted_too),
        cmocka_unit_test(quantiles_lie_in_the_bucket_of_their_rank),
        cmocka_unit_test(bounds_rise_from_100_us_to_30_s),
        cmocka_unit_test(course_has_each_step_that_is_over_once),
        cmocka_unit_test(course_forgets_what_is_too_old),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
