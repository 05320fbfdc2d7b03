/* Who is served by a provider, who waits, and who is next. */
#include "model/row.h"

#include <setjmp.h>

#include <cmocka.h>

#define SEATS 16

static struct model_seat seats[SEATS];

static struct model_row *row_of(uint32_t served_max, uint32_t waiting_max)
{
    struct model_row *row = model_row_new();
    model_row_bound(row, served_max, waiting_max);
    return row;
}

static enum model_row_entry enter(struct model_row *row, size_t seat, const char *group,
                                  const char *session)
{
    struct model_seat *out;
    enum model_row_entry entry = model_row_enter(row, &seats[seat], group, session, &out);
    assert_null(out);
    return entry;
}

/* Who is next, after one of those that are served has left. */
static void assert_next(struct model_row *row, size_t leaves, size_t wanted)
{
    model_row_leave(row, &seats[leaves]);
    const struct model_seat *next = model_row_next(row);
    assert_non_null(next);
    assert_int_equal(next - seats, wanted);
}

static void leave_all(struct model_row *row)
{
    for (size_t i = 0; i < SEATS; i++)
        if (seats[i].group != NULL)
            model_row_leave(row, &seats[i]);
    assert_int_equal(model_row_served_count(row) + model_row_waiting_count(row), 0);
    model_row_free(row);
}

static void places_are_given_in_turn(void **state)
{
    (void)state;
    struct model_row *row = row_of(2, 2);
    assert_int_equal(enter(row, 0, "a", "1"), MODEL_ROW_SERVED);
    assert_int_equal(enter(row, 1, "a", "1"), MODEL_ROW_SERVED);
    assert_int_equal(enter(row, 2, "a", "1"), MODEL_ROW_WAITS);
    assert_int_equal(enter(row, 3, "a", "1"), MODEL_ROW_WAITS);
    assert_int_equal(enter(row, 4, "a", "1"), MODEL_ROW_FULL);
    assert_null(model_row_next(row));
    assert_int_equal(model_row_served_count(row), 2);
    assert_int_equal(model_row_waiting_count(row), 2);
    assert_next(row, 1, 2);
    assert_next(row, 0, 3);
    assert_null(model_row_next(row));
    assert_null(model_row_waiting(row));
    leave_all(row);
}

static void nobody_comes_before_who_waits(void **state)
{
    (void)state;
    struct model_row *row = row_of(1, 4);
    enter(row, 0, "a", "1");
    enter(row, 1, "a", "1");
    model_row_leave(row, &seats[0]);
    assert_int_equal(enter(row, 2, "b", "2"), MODEL_ROW_WAITS);
    assert_ptr_equal(model_row_waiting(row), &seats[1]);
    assert_ptr_equal(model_row_next(row), &seats[1]);
    leave_all(row);
}

static void groups_have_the_same_however_much_they_ask(void **state)
{
    (void)state;
    struct model_row *row = row_of(2, 8);
    enter(row, 0, "a", "1");
    enter(row, 1, "a", "2");
    for (size_t i = 2; i < 6; i++)
        enter(row, i, "a", "3");
    enter(row, 6, "b", "9");
    enter(row, 7, "b", "9");
    assert_next(row, 0, 6); /* b has none yet */
    assert_next(row, 1, 2); /* now each would have one */
    assert_next(row, 2, 3);
    assert_next(row, 6, 7);
    leave_all(row);
}

static void sessions_of_a_group_have_the_same(void **state)
{
    (void)state;
    struct model_row *row = row_of(2, 8);
    enter(row, 0, "a", "1");
    enter(row, 1, "a", "1");
    enter(row, 2, "a", "1");
    enter(row, 3, "a", "2");
    assert_next(row, 0, 3);
    assert_next(row, 1, 2);
    leave_all(row);
}

static void who_waits_may_leave(void **state)
{
    (void)state;
    struct model_row *row = row_of(1, 3);
    enter(row, 0, "a", "1");
    enter(row, 1, "a", "2");
    enter(row, 2, "a", "3");
    enter(row, 3, "a", "4");
    model_row_leave(row, &seats[2]);
    model_row_leave(row, &seats[1]);
    assert_int_equal(model_row_waiting_count(row), 1);
    assert_next(row, 0, 3);
    leave_all(row);
}

static void a_full_row_has_room_for_who_has_less_of_it(void **state)
{
    (void)state;
    struct model_seat *out;
    struct model_row *row = row_of(1, 4);
    enter(row, 0, "a", "1");
    for (size_t i = 1; i < 5; i++)
        enter(row, i, "a", "1");
    assert_int_equal(enter(row, 5, "a", "2"), MODEL_ROW_FULL);
    assert_int_equal(model_row_enter(row, &seats[6], "b", "3", &out), MODEL_ROW_WAITS);
    assert_ptr_equal(out, &seats[4]); /* the newest */
    assert_int_equal(model_row_enter(row, &seats[7], "b", "4", &out), MODEL_ROW_WAITS);
    assert_ptr_equal(out, &seats[3]);
    assert_int_equal(enter(row, 8, "b", "5"), MODEL_ROW_FULL); /* they have the same now */
    assert_int_equal(enter(row, 9, "a", "5"), MODEL_ROW_FULL);
    assert_int_equal(model_row_waiting_count(row), 4);
    assert_next(row, 0, 1);
    assert_next(row, 1, 2);
    leave_all(row);
}

static void bounds_may_change_meanwhile(void **state)
{
    (void)state;
    struct model_row *row = row_of(3, 1);
    for (size_t i = 0; i < 4; i++)
        enter(row, i, "a", "1");
    model_row_bound(row, 2, 1);
    model_row_leave(row, &seats[0]);
    assert_null(model_row_next(row));
    model_row_bound(row, 3, 0);
    assert_int_equal(enter(row, 4, "a", "1"), MODEL_ROW_FULL);
    assert_ptr_equal(model_row_next(row), &seats[3]);
    leave_all(row);
}

static int set_up(void **state)
{
    (void)state;
    memset(seats, 0, sizeof(seats));
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(places_are_given_in_turn, set_up),
        cmocka_unit_test_setup(nobody_comes_before_who_waits, set_up),
        cmocka_unit_test_setup(groups_have_the_same_however_much_they_ask, set_up),
        cmocka_unit_test_setup(sessions_of_a_group_have_the_same, set_up),
        cmocka_unit_test_setup(who_waits_may_leave, set_up),
        cmocka_unit_test_setup(a_full_row_has_room_for_who_has_less_of_it, set_up),
        cmocka_unit_test_setup(bounds_may_change_meanwhile, set_up),
    };
    return cmocka_run_group_tests_name("model_row", tests, NULL, NULL);
}
