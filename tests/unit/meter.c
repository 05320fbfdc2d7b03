/* Figures: what a histogram counts, and what can be said from it. */
#include "host/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(histogram_without_anything_is_zero),
        cmocka_unit_test(duration_on_a_bound_is_within_it),
        cmocka_unit_test(what_takes_longest_is_counted_too),
        cmocka_unit_test(quantiles_lie_in_the_bucket_of_their_rank),
        cmocka_unit_test(bounds_rise_from_100_us_to_30_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
