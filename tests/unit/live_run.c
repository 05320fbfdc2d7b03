/* Turns inside turns: who may begin, who ends when, and that all are cancelled with the outermost.
 */
#include "live/internal.h"

#include <setjmp.h>

#include <cmocka.h>

struct world {
    struct sessions sessions;
    struct live_session live;
};

/* What stands for a turn: one that ends at once when it is cancelled, or when its inner one has. */
struct turning {
    struct live_run run;
    struct live_session *live;
    struct turning *outer;
    bool waits_for_inner;
    bool is_slow; /* it ends later, by itself */
    int cancelled;
    bool ended;
};

static void end(struct turning *turning)
{
    struct turning *outer = turning->outer;
    turning->ended = true;
    live_run_end(turning->live, &turning->run);
    if (outer == NULL)
        return;
    outer->waits_for_inner = false;
    if (outer->cancelled > 0 && !outer->ended)
        end(outer);
}

static void on_cancel(struct live_run *run, const struct kg_err *why)
{
    struct turning *turning = KG_CONTAINER(run, struct turning, run);
    assert_int_equal(why->code, KG_E_CANCELLED);
    turning->cancelled++;
    if (!turning->waits_for_inner && !turning->is_slow)
        end(turning);
}

static int begin(struct world *world, struct turning *turning, const char *agent,
                 struct turning *outer, struct kg_err *err)
{
    *turning = (struct turning){
        .run = {.agent = agent, .cancel = on_cancel}, .live = &world->live, .outer = outer};
    int result = live_run_begin(&world->live, &turning->run, outer ? &outer->run : NULL, err);
    if (result == 0 && outer != NULL)
        outer->waits_for_inner = true;
    return result;
}

static int setup(void **state)
{
    static struct world world;
    world = (struct world){0};
    world.sessions.loop = loop_new();
    world.live.sessions = &world.sessions;
    world.live.state = SESSION_IDLE;
    *state = &world;
    return world.sessions.loop != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    struct world *world = *state;
    assert_null(world->live.run);
    assert_int_equal(world->live.work, 0);
    loop_free(world->sessions.loop);
    return 0;
}

static void test_nested(void **state)
{
    struct world *world = *state;
    struct turning outer, inner, other;
    struct kg_err err = {0};
    assert_int_equal(begin(world, &outer, "primary", NULL, &err), 0);
    assert_int_equal(begin(world, &inner, "primary.subagents.maker", &outer, &err), 0);
    assert_int_equal(world->live.work, 2);
    assert_ptr_equal(world->live.run, &inner.run);
    end(&inner);
    assert_ptr_equal(world->live.run, &outer.run);
    assert_false(outer.ended);
    assert_int_equal(begin(world, &other, "primary.subagents.maker", &outer, &err), 0);
    end(&other);
    end(&outer);
}

static void test_refused(void **state)
{
    struct world *world = *state;
    struct turning outer, inner, refused;
    struct kg_err err = {0};
    assert_int_equal(begin(world, &outer, "primary", NULL, &err), 0);
    assert_true(begin(world, &refused, "primary.subagents.maker", NULL, &err) < 0);
    assert_int_equal(err.code, KG_E_CONFLICT);
    assert_true(begin(world, &refused, "primary", &outer, &err) < 0);
    assert_int_equal(begin(world, &inner, "primary.subagents.maker", &outer, &err), 0);
    assert_true(begin(world, &refused, "primary.subagents.other", &outer, &err) < 0);
    assert_true(begin(world, &refused, "primary", &inner, &err) < 0);
    end(&inner);
    end(&outer);
    assert_true(begin(world, &refused, "primary", &outer, &err) < 0);
    assert_int_equal(err.code, KG_E_CONFLICT);
}

static void cancel_both(struct world *world, bool inner_is_slow)
{
    struct turning outer, inner;
    struct kg_err err = {0}, why = {.code = KG_E_CANCELLED};
    assert_int_equal(begin(world, &outer, "primary", NULL, &err), 0);
    assert_int_equal(begin(world, &inner, "primary.subagents.maker", &outer, &err), 0);
    inner.is_slow = inner_is_slow;
    assert_true(live_run_cancel(&world->live, &why));
    assert_int_equal(inner.cancelled, 1);
    assert_true(outer.cancelled == 1 || outer.ended);
    assert_int_equal(outer.ended, !inner_is_slow);
    if (inner_is_slow) {
        assert_true(live_run_cancel(&world->live, &why));
        end(&inner);
    }
    assert_true(outer.ended);
    assert_false(live_run_cancel(&world->live, &why));
}

static void test_cancelled(void **state)
{
    cancel_both(*state, false);
    cancel_both(*state, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nested, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancelled, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
