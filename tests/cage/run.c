/* One run in a cage: what goes in comes out, bounded in size and time, whatever the command does.
 */
#include "world.h"

#include "helper/helper.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

#include <cmocka.h>

#define MIB ((size_t)1024 * 1024)

static struct world *world;
static struct helper_place place;

static const struct helper_run_options usual = {.output_max = 4 * MIB, .timeout_ms = WORLD_WAIT_MS};

static void run_in_cage(const char *const *command, const struct helper_run_options *options,
                        struct helper_run_result *ret_result)
{
    struct kg_err err = {0};
    struct cage_plan *plan = world_plan(world, command);
    int result = helper_run(&place, plan, options, ret_result, &err);
    cage_plan_free(plan);
    if (result < 0)
        fail_msg("%s", err.message);
}

static void assert_text(const struct kg_buf *text, const char *expected)
{
    kg_auto(kg_free) char *copy = kg_str_dup(kg_buf_view(text));
    assert_string_equal(copy, expected);
}

static void output_is_captured_and_errors_apart(void **state)
{
    (void)state;
    kg_auto(helper_run_result_free) struct helper_run_result result = {0};
    run_in_cage(COMMAND("sh", "-c", "echo out; echo err >&2"), &usual, &result);
    assert_text(&result.out, "out\n");
    assert_text(&result.err, "err\n");
    assert_true(result.how.built);
    assert_int_equal(result.how.exit_code, 0);
    assert_false(result.timed_out || result.truncated);
}

static void exit_codes_and_signals_are_told(void **state)
{
    (void)state;
    kg_auto(helper_run_result_free) struct helper_run_result left = {0}, killed = {0};
    run_in_cage(COMMAND("sh", "-c", "exit 42"), &usual, &left);
    assert_int_equal(left.how.exit_code, 42);
    run_in_cage(COMMAND("sh", "-c", "kill -TERM $$"), &usual, &killed);
    assert_int_equal(killed.how.signal, SIGTERM);
    assert_false(killed.timed_out);
}

static void program_that_cannot_run_is_not_built(void **state)
{
    (void)state;
    kg_auto(helper_run_result_free) struct helper_run_result result = {0};
    world_write(world, "no-program", "\177ELF", 0755);
    run_in_cage(COMMAND("./no-program"), &usual, &result);
    assert_false(result.how.built);
    assert_true(result.err.length > 0);
}

/* Far more than the pipes hold, in both directions at once. */
static void input_of_a_mebibyte_is_echoed_whole(void **state)
{
    (void)state;
    kg_auto(helper_run_result_free) struct helper_run_result result = {0};
    kg_auto(kg_free) char *input = kg_alloc(MIB);
    for (size_t i = 0; i < MIB; i++)
        input[i] = (char)('a' + i % 23);
    struct helper_run_options options = usual;
    options.input = (struct kg_str){input, MIB};
    run_in_cage(COMMAND("cat"), &options, &result);
    assert_int_equal(result.out.length, MIB);
    assert_memory_equal(result.out.data, input, MIB);
    assert_false(result.truncated);
}

static void command_that_does_not_read_its_input_is_no_error(void **state)
{
    (void)state;
    kg_auto(helper_run_result_free) struct helper_run_result result = {0};
    kg_auto(kg_free) char *input = kg_alloc(MIB);
    struct helper_run_options options = usual;
    options.input = (struct kg_str){input, MIB};
    run_in_cage(COMMAND("sh", "-c", "exec <&-; echo done"), &options, &result);
    assert_text(&result.out, "done\n");
    assert_int_equal(result.how.exit_code, 0);
}

static void output_is_cut_at_the_bound(void **state)
{
    (void)state;
    kg_auto(helper_run_result_free) struct helper_run_result result = {0};
    kg_auto(kg_free) char *input = kg_alloc(MIB);
    struct helper_run_options options = usual;
    options.input = (struct kg_str){input, MIB};
    options.output_max = 1000;
    run_in_cage(COMMAND("cat"), &options, &result);
    assert_int_equal(result.out.length, 1000);
    assert_true(result.truncated);
    assert_int_equal(result.how.exit_code, 0);
}

static void deadline_kills_the_whole_cage(void **state)
{
    (void)state;
    kg_auto(helper_run_result_free) struct helper_run_result result = {0};
    struct helper_run_options options = usual;
    options.timeout_ms = 300;
    run_in_cage(COMMAND("sh", "-c", "trap '' TERM; (while :; do :; done) & while :; do :; done"),
                &options, &result);
    assert_true(result.timed_out);
    assert_int_equal(result.how.signal, SIGKILL);
}

static void endless_output_ends_at_the_deadline(void **state)
{
    (void)state;
    kg_auto(helper_run_result_free) struct helper_run_result result = {0};
    struct helper_run_options options = usual;
    options.timeout_ms = 300;
    options.output_max = 4096;
    run_in_cage(COMMAND("sh", "-c", "while :; do echo more; done"), &options, &result);
    assert_true(result.timed_out);
    assert_true(result.out.length <= 4096);
}

static void plan_that_the_spawner_refuses_is_an_error(void **state)
{
    (void)state;
    struct kg_err err = {0};
    struct helper_run_result result = {0};
    kg_auto(kg_free) char *folder = kg_format("%s/gone", world->folder);
    kg_auto(kg_free) char *command = kg_format("mkdir %s", folder);
    assert_int_equal(system(command), 0);
    struct cage_policy policy = {.name = "gone",
                                 .install_dir = folder,
                                 .command = COMMAND("cat"),
                                 .processes_max = WORLD_PROCESSES,
                                 .tmp_bytes = WORLD_TMP_BYTES};
    struct cage_plan *plan = cage_plan_new(&policy, world->facts, &err);
    assert_non_null(plan);
    kg_auto(kg_free) char *remove = kg_format("rmdir %s", folder);
    assert_int_equal(system(remove), 0);
    assert_true(helper_run(&place, plan, &usual, &result, &err) < 0);
    cage_plan_free(plan);
    assert_non_null(strstr(err.message, "No such file"));
}

/* -- with callbacks ---------------------------------------------------------------------------- */

static void count_done(void *data, struct helper_run_result *result, const struct kg_err *err)
{
    (void)result, (void)err;
    ++*(unsigned *)data;
}

static bool are_two(void *data)
{
    return *(unsigned *)data == 2;
}

static void cancelled_run_tells_nobody_and_others_go_on(void **state)
{
    (void)state;
    unsigned done = 0;
    struct kg_err err = {0};
    struct cage_plan *forever = world_plan(world, COMMAND("./probe", "wait-forever"));
    struct cage_plan *hello = world_plan(world, COMMAND("./probe", "hello"));
    struct helper_run *run = helper_run_start(&place, forever, &usual, count_done, &done, &err);
    assert_non_null(run);
    for (int i = 0; i < 2; i++)
        assert_non_null(helper_run_start(&place, hello, &usual, count_done, &done, &err));
    assert_int_equal(done, 0);
    helper_run_cancel(run);
    assert_true(loop_run_until(world->loop, are_two, &done, WORLD_WAIT_MS));
    kg_auto(helper_run_result_free) struct helper_run_result last = {0};
    assert_int_equal(helper_run(&place, hello, &usual, &last, &err), 0);
    assert_int_equal(done, 2);
    cage_plan_free(forever);
    cage_plan_free(hello);
}

/* What a run handed over as it came, and how it ended. */
struct heard {
    struct helper_run *run;
    struct kg_buf text;
    bool done;
    int signal;
};

static void on_output(void *data, struct kg_str bytes)
{
    struct heard *heard = data;
    kg_buf_str(&heard->text, bytes);
    helper_run_kill(heard->run); /* it would go on for ever */
}

static void on_heard(void *data, struct helper_run_result *result, const struct kg_err *err)
{
    struct heard *heard = data;
    assert_null(err);
    assert_int_equal(result->out.length, 0);
    heard->signal = result->how.signal;
    heard->done = true;
}

static bool is_heard(void *data)
{
    return ((struct heard *)data)->done;
}

static void output_is_handed_over_as_it_comes_and_a_killed_run_is_told(void **state)
{
    (void)state;
    struct kg_err err = {0};
    struct heard heard = {0};
    struct helper_run_options options = usual;
    options.on_output = on_output;
    struct cage_plan *plan =
        world_plan(world, COMMAND("sh", "-c", "echo now; while :; do :; done"));
    heard.run = helper_run_start(&place, plan, &options, on_heard, &heard, &err);
    cage_plan_free(plan);
    assert_non_null(heard.run);
    assert_true(loop_run_until(world->loop, is_heard, &heard, WORLD_WAIT_MS));
    assert_text(&heard.text, "now\n");
    assert_int_equal(heard.signal, SIGKILL);
    kg_buf_free(&heard.text);
}

static void all_of_it_holds_for_an_ordinary_user_too(void **state)
{
    (void)state;
    world_again_as_ordinary_user();
}

static void all_of_it_holds_while_it_is_watched(void **state)
{
    (void)state;
    world_again_watched();
}

/* -- the suite --------------------------------------------------------------------------------- */

static int make_world(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    world = world_new();
    place = (struct helper_place){.loop = world->loop, .spawner = world->spawner};
    return 0;
}

static int free_world(void **state)
{
    (void)state;
    world_free(world);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_is_captured_and_errors_apart),
        cmocka_unit_test(exit_codes_and_signals_are_told),
        cmocka_unit_test(program_that_cannot_run_is_not_built),
        cmocka_unit_test(input_of_a_mebibyte_is_echoed_whole),
        cmocka_unit_test(command_that_does_not_read_its_input_is_no_error),
        cmocka_unit_test(output_is_cut_at_the_bound),
        cmocka_unit_test(deadline_kills_the_whole_cage),
        cmocka_unit_test(endless_output_ends_at_the_deadline),
        cmocka_unit_test(plan_that_the_spawner_refuses_is_an_error),
        cmocka_unit_test(cancelled_run_tells_nobody_and_others_go_on),
        cmocka_unit_test(output_is_handed_over_as_it_comes_and_a_killed_run_is_told),
        cmocka_unit_test(all_of_it_holds_for_an_ordinary_user_too),
        cmocka_unit_test(all_of_it_holds_while_it_is_watched),
    };
    return cmocka_run_group_tests_name("cage run", tests, make_world, free_world);
}
