/* The loop: its wheel against a model that looks at every timer, tasks, messages, workers. */
#include "loop/internal.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS 60000 /* nobody waits that long: it only ends a test that hangs */

/* -- the wheel against a model ----------------------------------------------------------------- */

#define MODEL_TIMERS 300
#define STOPPED      UINT64_MAX

static struct model {
    struct wheel wheel;
    struct loop_timer timers[MODEL_TIMERS];
    uint64_t due_ms[MODEL_TIMERS];
    unsigned fired;
    uint32_t random;
} model;

static uint32_t random_below(uint32_t bound)
{
    model.random = model.random * 1664525 + 1013904223;
    return (uint32_t)(((uint64_t)model.random * bound) >> 32);
}

/* From nothing to ten years, each order of magnitude as likely as the next. */
static uint64_t random_span(void)
{
    static const uint64_t scales[] = {1, 10, 64, 100, 4096, 60000, 3600000, 86400000, 31536000000};
    uint64_t scale = scales[random_below(KG_COUNT(scales))];
    return scale * random_below(10) + random_below(3);
}

static void on_model_due(struct loop_timer *timer);

static void model_start(size_t i, uint64_t delay_ms)
{
    uint64_t due_ms = model.wheel.now_ms + delay_ms;
    wheel_remove(&model.wheel, &model.timers[i]);
    model.timers[i].on_due = on_model_due;
    model.timers[i].due_ms = due_ms;
    wheel_add(&model.wheel, &model.timers[i]);
    model.due_ms[i] = delay_ms ? due_ms : due_ms + 1;
}

static void model_stop(size_t i)
{
    wheel_remove(&model.wheel, &model.timers[i]);
    assert_false(loop_timer_running(&model.timers[i]));
    model.due_ms[i] = STOPPED;
}

static uint64_t model_next(void)
{
    uint64_t next_ms = STOPPED;
    for (size_t i = 0; i < MODEL_TIMERS; i++)
        if (model.due_ms[i] < next_ms)
            next_ms = model.due_ms[i];
    return next_ms;
}

/* Nothing is due before this one, and it is due now; then it meddles with others. */
static void on_model_due(struct loop_timer *timer)
{
    size_t i = (size_t)(timer - model.timers);
    assert_int_equal(model.due_ms[i], model.wheel.now_ms);
    assert_int_equal(model_next(), model.due_ms[i]);
    model.due_ms[i] = STOPPED;
    model.fired++;
    for (uint32_t more = random_below(3); more > 0; more--) {
        if (random_below(2))
            model_start(random_below(MODEL_TIMERS), random_span());
        else
            model_stop(random_below(MODEL_TIMERS));
    }
}

static void meddle_and_compare(uint32_t seed)
{
    model = (struct model){.random = seed, .fired = model.fired};
    wheel_init(&model.wheel, random_below(1000000));
    memset(model.due_ms, 0xFF, sizeof(model.due_ms));
    while (model.wheel.now_ms < 1ull << 41) { /* towards the end of its 139 years */
        uint32_t choice = random_below(10);
        if (choice < 5)
            model_start(random_below(MODEL_TIMERS), random_span());
        else if (choice < 6)
            model_stop(random_below(MODEL_TIMERS));
        else
            wheel_advance(&model.wheel, model.wheel.now_ms + random_span() / 8);
        uint64_t next_ms = model_next();
        assert_true(next_ms > model.wheel.now_ms);
        assert_true(wheel_next(&model.wheel) <= next_ms);
        assert_int_equal(wheel_next(&model.wheel) == STOPPED, next_ms == STOPPED);
    }
}

static void wheel_agrees_with_a_model_over_long_spans(void **state)
{
    (void)state;
    model.fired = 0;
    for (uint32_t seed = 1; seed <= 30; seed++)
        meddle_and_compare(seed);
    assert_true(model.fired > 10000);
}

static void wheel_wakes_rarely_for_a_far_timer(void **state)
{
    (void)state;
    model = (struct model){.random = 7};
    wheel_init(&model.wheel, 5);
    memset(model.due_ms, 0xFF, sizeof(model.due_ms));
    model_start(0, 315360000000); /* ten years */
    unsigned wakes = 0;
    while (model.fired == 0) {
        wheel_advance(&model.wheel, wheel_next(&model.wheel));
        wakes++;
    }
    assert_true(wakes <= WHEEL_LEVELS);
}

static void wheel_does_not_go_back(void **state)
{
    (void)state;
    model = (struct model){.random = 7};
    wheel_init(&model.wheel, 1000);
    memset(model.due_ms, 0xFF, sizeof(model.due_ms));
    model_start(0, 10);
    wheel_advance(&model.wheel, 900);
    assert_int_equal(model.wheel.now_ms, 1000);
    wheel_advance(&model.wheel, 1009);
    assert_int_equal(model.fired, 0);
    wheel_advance(&model.wheel, 1010);
    assert_int_equal(model.fired, 1);
}

/* -- timers on the loop ------------------------------------------------------------------------ */

struct alarm {
    struct loop_timer timer;
    struct loop *loop;
    uint64_t started_ns, delay_ms;
    unsigned rings;
};

static struct alarm *rung[16];
static size_t rung_count;

static void on_ring(struct loop_timer *timer)
{
    struct alarm *alarm = KG_CONTAINER(timer, struct alarm, timer);
    assert_true(kg_monotonic_ns() - alarm->started_ns >= alarm->delay_ms * 1000000);
    rung[rung_count++] = alarm;
}

static void alarm_start(struct loop *loop, struct alarm *alarm, uint64_t delay_ms)
{
    *alarm = (struct alarm){.loop = loop, .delay_ms = delay_ms};
    alarm->started_ns = kg_monotonic_ns();
    loop_timer_start(loop, &alarm->timer, delay_ms, on_ring);
}

static bool has_rung(void *data)
{
    return rung_count >= *(size_t *)data;
}

static void timers_fire_in_order_and_not_early(void **state)
{
    (void)state;
    static const uint64_t delays[] = {70, 10, 130, 1, 40};
    static const size_t order[] = {3, 1, 4, 0, 2};
    struct loop *loop = loop_new();
    struct alarm alarms[KG_COUNT(delays)];
    size_t wanted = KG_COUNT(delays);
    rung_count = 0;
    for (size_t i = 0; i < wanted; i++)
        alarm_start(loop, &alarms[i], delays[i]);
    assert_true(loop_run_until(loop, has_rung, &wanted, WAIT_MS));
    for (size_t i = 0; i < wanted; i++)
        assert_ptr_equal(rung[i], &alarms[order[i]]);
    loop_free(loop);
}

struct busy {
    struct loop_message message;
    struct loop *loop;
    struct alarm alarm;
};

static void start_after_much_work(struct loop_message *message)
{
    struct busy *busy = KG_CONTAINER(message, struct busy, message);
    for (uint64_t began_ns = kg_monotonic_ns(); kg_monotonic_ns() - began_ns < 60 * 1000000;)
        ;
    alarm_start(busy->loop, &busy->alarm, 30);
}

/* A delay was counted from the time that the loop read before the turn's work. */
static void a_turn_that_takes_long_shortens_no_delay(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    size_t wanted = 1;
    rung_count = 0;
    struct busy busy = {.message.deliver = start_after_much_work, .loop = loop};
    loop_post(loop, &busy.message);
    assert_true(loop_run_until(loop, has_rung, &wanted, WAIT_MS));
    loop_free(loop);
}

static void a_stopped_timer_does_not_fire(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct alarm alarms[2];
    size_t wanted = 1;
    rung_count = 0;
    alarm_start(loop, &alarms[0], 1);
    alarm_start(loop, &alarms[1], 20);
    loop_timer_stop(loop, &alarms[0].timer);
    loop_timer_stop(loop, &alarms[0].timer);
    assert_true(loop_run_until(loop, has_rung, &wanted, WAIT_MS));
    assert_ptr_equal(rung[0], &alarms[1]);
    loop_free(loop);
}

static void a_timer_started_again_is_moved(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct alarm alarms[2];
    size_t wanted = 2;
    rung_count = 0;
    alarm_start(loop, &alarms[0], 1);
    alarm_start(loop, &alarms[1], 10);
    alarms[0].delay_ms = 40;
    loop_timer_start(loop, &alarms[0].timer, 40, on_ring);
    assert_true(loop_run_until(loop, has_rung, &wanted, WAIT_MS));
    assert_ptr_equal(rung[0], &alarms[1]);
    assert_ptr_equal(rung[1], &alarms[0]);
    assert_int_equal(rung_count, 2);
    loop_free(loop);
}

static void on_ring_again(struct loop_timer *timer)
{
    struct alarm *alarm = KG_CONTAINER(timer, struct alarm, timer);
    if (++alarm->rings < 5)
        loop_timer_start(alarm->loop, timer, 0, on_ring_again);
    else
        loop_stop(alarm->loop);
}

static void a_timer_may_start_itself_without_delay(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct alarm alarm = {.loop = loop};
    loop_timer_start(loop, &alarm.timer, 0, on_ring_again);
    loop_run(loop);
    assert_int_equal(alarm.rings, 5);
    loop_free(loop);
}

static void a_delay_without_end_is_taken(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct alarm alarms[2];
    size_t wanted = 1;
    rung_count = 0;
    alarm_start(loop, &alarms[0], UINT64_MAX);
    alarm_start(loop, &alarms[1], 5);
    assert_true(loop_run_until(loop, has_rung, &wanted, WAIT_MS));
    assert_true(loop_timer_running(&alarms[0].timer));
    loop_timer_stop(loop, &alarms[0].timer);
    loop_free(loop);
}

/* -- tasks ------------------------------------------------------------------------------------- */

struct chore {
    struct loop_task task;
    struct loop *loop;
    struct loop_task *defers, *undefers;
    unsigned number;
};

static unsigned done_chores[16];
static size_t done_count;

static void do_chore(struct loop_task *task)
{
    struct chore *chore = KG_CONTAINER(task, struct chore, task);
    assert_false(task->queued);
    done_chores[done_count++] = chore->number;
    if (chore->defers)
        loop_defer(chore->loop, chore->defers);
    if (chore->undefers)
        loop_undefer(chore->loop, chore->undefers);
}

static bool has_done(void *data)
{
    return done_count >= *(size_t *)data;
}

static void make_chores(struct loop *loop, struct chore *chores, size_t count)
{
    done_count = 0;
    for (size_t i = 0; i < count; i++)
        chores[i] = (struct chore){.task.run = do_chore, .loop = loop, .number = (unsigned)i};
}

static void tasks_run_once_and_in_order(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct chore chores[3];
    size_t wanted = 3;
    make_chores(loop, chores, 3);
    loop_defer(loop, &chores[1].task);
    loop_defer(loop, &chores[0].task);
    loop_defer(loop, &chores[1].task);
    loop_defer(loop, &chores[2].task);
    assert_true(loop_run_until(loop, has_done, &wanted, WAIT_MS));
    assert_int_equal(done_count, 3);
    assert_int_equal(done_chores[0], 1);
    assert_int_equal(done_chores[1], 0);
    assert_int_equal(done_chores[2], 2);
    loop_free(loop);
}

static void a_task_may_defer_another_for_the_same_turn(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct chore chores[3];
    size_t wanted = 3;
    make_chores(loop, chores, 3);
    chores[0].defers = &chores[2].task;
    loop_defer(loop, &chores[0].task);
    loop_defer(loop, &chores[1].task);
    uv_run(loop_uv(loop), UV_RUN_NOWAIT);
    assert_true(has_done(&wanted));
    assert_int_equal(done_chores[1], 1);
    assert_int_equal(done_chores[2], 2);
    loop_free(loop);
}

static void a_task_may_take_another_back(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct chore chores[4];
    make_chores(loop, chores, 4);
    chores[0].undefers = &chores[2].task; /* the last in the queue */
    chores[1].undefers = &chores[1].task; /* itself, while it runs */
    chores[1].defers = &chores[3].task;
    loop_defer(loop, &chores[0].task);
    loop_defer(loop, &chores[1].task);
    loop_defer(loop, &chores[2].task);
    uv_run(loop_uv(loop), UV_RUN_NOWAIT);
    assert_int_equal(done_count, 3);
    assert_int_equal(done_chores[2], 3);
    assert_false(chores[2].task.queued);
    loop_free(loop);
}

static void undefer_works_at_every_place_of_the_queue(void **state)
{
    (void)state;
    for (size_t taken = 0; taken < 4; taken++) {
        struct loop *loop = loop_new();
        struct chore chores[4];
        make_chores(loop, chores, 4);
        for (size_t i = 0; i < 3; i++)
            loop_defer(loop, &chores[i].task);
        loop_undefer(loop, &chores[taken].task); /* the fourth is not in it */
        loop_defer(loop, &chores[3].task);
        uv_run(loop_uv(loop), UV_RUN_NOWAIT);
        assert_int_equal(done_count, taken == 3 ? 4 : 3);
        for (size_t i = 0; i < done_count; i++)
            assert_true(taken == 3 || done_chores[i] != taken);
        assert_int_equal(done_chores[done_count - 1], 3);
        loop_free(loop);
    }
}

/* -- messages ---------------------------------------------------------------------------------- */

#define POSTS 5000

struct post {
    struct loop_message message;
    unsigned thread, number;
};

static unsigned next_post[2];

static void on_post(struct loop_message *message)
{
    struct post *post = KG_CONTAINER(message, struct post, message);
    assert_int_equal(post->number, next_post[post->thread]);
    next_post[post->thread]++;
    free(post);
}

struct poster {
    struct loop *loop;
    unsigned thread;
};

static void *post_many(void *data)
{
    struct poster *poster = data;
    for (unsigned i = 0; i < POSTS; i++) {
        struct post *post = kg_alloc(sizeof(*post));
        *post = (struct post){{.deliver = on_post}, poster->thread, i};
        loop_post(poster->loop, &post->message);
    }
    return NULL;
}

static bool all_posted(void *data)
{
    (void)data;
    return next_post[0] == POSTS && next_post[1] == POSTS;
}

static void messages_of_a_thread_come_in_its_order(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    pthread_t threads[2];
    struct poster posters[2] = {{loop, 0}, {loop, 1}};
    next_post[0] = next_post[1] = 0;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    assert_true(loop_run_until(loop, all_posted, NULL, WAIT_MS));
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    loop_free(loop);
}

/* -- workers ----------------------------------------------------------------------------------- */

struct sum {
    struct loop_job job;
    unsigned number;
    bool ran, ran_elsewhere, done;
};

static pthread_t loop_thread;
static unsigned sums_run, sums_done;

static void run_sum(struct loop_job *job)
{
    struct sum *sum = KG_CONTAINER(job, struct sum, job);
    char name[16];
    pthread_getname_np(pthread_self(), name, sizeof(name));
    sum->ran_elsewhere = !pthread_equal(pthread_self(), loop_thread);
    sum->ran = sum->number == sums_run++ && strcmp(name, "sums-with-a-lon") == 0;
}

static void sum_done(struct loop_job *job)
{
    struct sum *sum = KG_CONTAINER(job, struct sum, job);
    assert_true(sum->ran && sum->ran_elsewhere);
    assert_true(pthread_equal(pthread_self(), loop_thread));
    assert_int_equal(sum->number, sums_done);
    sum->done = true;
    sums_done++;
}

static struct loop_worker *submit_sums(struct loop *loop, struct sum *sums, unsigned count)
{
    struct loop_worker *worker = loop_worker_new(loop, "sums-with-a-long-name");
    loop_thread = pthread_self();
    sums_run = sums_done = 0;
    for (unsigned i = 0; i < count; i++) {
        sums[i] = (struct sum){.job = {.run = run_sum, .done = sum_done}, .number = i};
        loop_worker_submit(worker, &sums[i].job);
    }
    return worker;
}

static bool all_summed(void *data)
{
    return sums_done == *(unsigned *)data;
}

static void jobs_run_on_the_worker_and_come_back_to_the_loop(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    static struct sum sums[1000];
    unsigned count = KG_COUNT(sums);
    struct loop_worker *worker = submit_sums(loop, sums, count);
    assert_true(loop_run_until(loop, all_summed, &count, WAIT_MS));
    loop_worker_free(worker);
    assert_int_equal(sums_done, count);
    loop_free(loop);
}

static void worker_free_finishes_what_was_submitted(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    static struct sum sums[1000];
    loop_worker_free(submit_sums(loop, sums, KG_COUNT(sums)));
    assert_int_equal(sums_done, KG_COUNT(sums));
    loop_worker_free(loop_worker_new(loop, "idle"));
    loop_worker_free(NULL);
    loop_free(loop);
}

/* -- waiting ----------------------------------------------------------------------------------- */

static bool is_set(void *data)
{
    return *(bool *)data;
}

static void run_until_gives_up_in_time_and_not_before(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    bool never = false;
    uint64_t started_ns = kg_monotonic_ns();
    assert_false(loop_run_until(loop, is_set, &never, 50));
    assert_true(kg_monotonic_ns() - started_ns >= 49000000);
    loop_free(loop);
}

static void run_until_returns_at_once_when_it_is_so_already(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    bool always = true;
    assert_true(loop_run_until(loop, is_set, &always, 0));
    uint64_t started_ns = kg_monotonic_ns();
    assert_true(loop_run_until(loop, is_set, &always, WAIT_MS));
    assert_true(kg_monotonic_ns() - started_ns < WAIT_MS / 2 * 1000000ull);
    loop_free(loop);
}

static void on_ring_defer(struct loop_timer *timer)
{
    struct alarm *alarm = KG_CONTAINER(timer, struct alarm, timer);
    static struct chore chore;
    chore = (struct chore){.task.run = do_chore};
    loop_defer(alarm->loop, &chore.task);
}

/* What a task does comes after the events of a turn: the loop must look before it waits again. */
static void run_until_does_not_sleep_over_a_task(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct chore chore;
    struct alarm alarm = {.loop = loop};
    size_t wanted = 1;
    uint64_t started_ns = kg_monotonic_ns();
    make_chores(loop, &chore, 1);
    loop_defer(loop, &chore.task);
    assert_true(loop_run_until(loop, has_done, &wanted, WAIT_MS));
    done_count = 0;
    loop_timer_start(loop, &alarm.timer, 1, on_ring_defer);
    assert_true(loop_run_until(loop, has_done, &wanted, WAIT_MS));
    assert_true(kg_monotonic_ns() - started_ns < WAIT_MS / 2 * 1000000ull);
    loop_free(loop);
}

static void loop_free_takes_null(void **state)
{
    (void)state;
    loop_free(NULL);
}

/* A question that takes longer than the wait let the timer run before the poll, which then waited
 * for nothing. */
static bool answer_slowly(void *data)
{
    (void)data;
    usleep(20000);
    return false;
}

static void waiting_ends_also_when_the_question_takes_longer(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    alarm(20);
    assert_false(loop_run_until(loop, answer_slowly, NULL, 5));
    alarm(0);
    loop_free(loop);
}

struct watched {
    int songs, others;
};

static void on_change(void *data, const char *name_or_null)
{
    struct watched *watched = data;
    if (name_or_null != NULL && strcmp(name_or_null, "song") == 0)
        watched->songs++;
    else
        watched->others++;
}

static bool heard_of_the_song(void *data)
{
    return ((struct watched *)data)->songs > 0;
}

static void a_watch_names_what_changed_in_its_folder(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    char folder[] = "/tmp/kaged-loop-XXXXXX";
    struct watched watched = {0};
    struct kg_err err = {0};
    assert_non_null(mkdtemp(folder));
    struct loop_watch *watch = loop_watch_new(loop, folder, on_change, &watched, &err);
    assert_non_null(watch);
    kg_auto(kg_free) char *new = kg_format("%s/new", folder);
    kg_auto(kg_free) char *song = kg_format("%s/song", folder);
    close(open(new, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(rename(new, song), 0); /* as editors do */
    assert_true(loop_run_until(loop, heard_of_the_song, &watched, 20000));
    assert_true(watched.others > 0);
    loop_watch_free(watch);
    unlink(song); /* nobody is told any more */
    rmdir(folder);
    loop_free(loop);
}

static void a_folder_that_is_not_there_cannot_be_watched(void **state)
{
    (void)state;
    struct loop *loop = loop_new();
    struct kg_err err = {0};
    assert_null(loop_watch_new(loop, "/nowhere/at/all", on_change, NULL, &err));
    assert_non_null(strstr(err.message, "/nowhere/at/all"));
    loop_watch_free(NULL);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wheel_agrees_with_a_model_over_long_spans),
        cmocka_unit_test(wheel_wakes_rarely_for_a_far_timer),
        cmocka_unit_test(wheel_does_not_go_back),
        cmocka_unit_test(timers_fire_in_order_and_not_early),
        cmocka_unit_test(a_stopped_timer_does_not_fire),
        cmocka_unit_test(a_turn_that_takes_long_shortens_no_delay),
        cmocka_unit_test(a_timer_started_again_is_moved),
        cmocka_unit_test(a_timer_may_start_itself_without_delay),
        cmocka_unit_test(a_delay_without_end_is_taken),
        cmocka_unit_test(tasks_run_once_and_in_order),
        cmocka_unit_test(a_task_may_defer_another_for_the_same_turn),
        cmocka_unit_test(a_task_may_take_another_back),
        cmocka_unit_test(undefer_works_at_every_place_of_the_queue),
        cmocka_unit_test(messages_of_a_thread_come_in_its_order),
        cmocka_unit_test(jobs_run_on_the_worker_and_come_back_to_the_loop),
        cmocka_unit_test(worker_free_finishes_what_was_submitted),
        cmocka_unit_test(run_until_gives_up_in_time_and_not_before),
        cmocka_unit_test(run_until_returns_at_once_when_it_is_so_already),
        cmocka_unit_test(run_until_does_not_sleep_over_a_task),
        cmocka_unit_test(loop_free_takes_null),
        cmocka_unit_test(waiting_ends_also_when_the_question_takes_longer),
        cmocka_unit_test(a_watch_names_what_changed_in_its_folder),
        cmocka_unit_test(a_folder_that_is_not_there_cannot_be_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
