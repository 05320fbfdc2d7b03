/* Waits: each is told once, in order, unless it was withdrawn. */
#include "base/wait.h"

#include <setjmp.h>

#include <cmocka.h>

struct waiter {
    struct kg_wait wait;
    int told;                 /* the how-manieth it was; 0: it was not told */
    struct waiter *withdraws; /* while it is told */
    struct kg_waits *again;   /* it waits anew */
};

static int told;

static void on_done(struct kg_wait *wait, const struct kg_err *err_or_null)
{
    struct waiter *waiter = KG_CONTAINER(wait, struct waiter, wait);
    assert_null(wait->list);
    assert_true(err_or_null == NULL || err_or_null->code == KG_E_STOPPING);
    waiter->told = ++told;
    if (waiter->withdraws != NULL)
        kg_wait_withdraw(&waiter->withdraws->wait);
    if (waiter->again != NULL)
        kg_wait_add(waiter->again, wait, on_done);
}

static void add(struct kg_waits *list, struct waiter *waiters, size_t count)
{
    told = 0;
    for (size_t i = 0; i < count; i++)
        kg_wait_add(list, &waiters[i].wait, on_done);
}

static void test_in_order(void **state)
{
    struct kg_waits list = {0};
    struct waiter waiters[3] = {0};
    struct kg_err err = {.code = KG_E_STOPPING};
    (void)state;
    add(&list, waiters, KG_COUNT(waiters));
    kg_waits_tell(&list, &err);
    for (size_t i = 0; i < KG_COUNT(waiters); i++)
        assert_int_equal(waiters[i].told, i + 1);
    assert_null(list.first);
    assert_null(list.last);
    kg_waits_tell(&list, NULL);
    assert_int_equal(told, 3);
}

static void test_withdrawn(void **state)
{
    struct kg_waits list = {0};
    (void)state;
    for (size_t gone = 0; gone < 3; gone++) {
        struct waiter waiters[3] = {0};
        add(&list, waiters, KG_COUNT(waiters));
        kg_wait_withdraw(&waiters[gone].wait);
        kg_wait_withdraw(&waiters[gone].wait);
        kg_waits_tell(&list, NULL);
        for (size_t i = 0; i < KG_COUNT(waiters); i++)
            assert_int_equal(waiters[i].told != 0, i != gone);
        assert_null(list.first);
    }
}

static void test_withdrawn_meanwhile(void **state)
{
    struct kg_waits list = {0};
    struct waiter waiters[3] = {0};
    (void)state;
    waiters[0].withdraws = &waiters[2];
    add(&list, waiters, KG_COUNT(waiters));
    kg_waits_tell(&list, NULL);
    assert_int_equal(waiters[1].told, 2);
    assert_int_equal(waiters[2].told, 0);
}

/* Who waits anew while it is told hears of the next time. */
static void test_anew(void **state)
{
    struct kg_waits list = {0};
    struct waiter waiters[2] = {0};
    (void)state;
    waiters[0].again = &list;
    add(&list, waiters, KG_COUNT(waiters));
    kg_waits_tell(&list, NULL);
    assert_int_equal(told, 2);
    assert_ptr_equal(list.first, &waiters[0].wait);
    assert_ptr_equal(list.last, &waiters[0].wait);
    kg_wait_withdraw(&waiters[0].wait);
    assert_null(list.first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_withdrawn),
        cmocka_unit_test(test_withdrawn_meanwhile),
        cmocka_unit_test(test_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
