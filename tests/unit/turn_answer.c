/* What is kept of what a model says: all of it is bounded, and each call can become an entry. */
#include "live/internal.h"
#include "session/internal.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- helpers ----------------------------------------------------------------------------------- */

static int add_call(struct turn_answer *answer, const char *name, const char *arguments,
                    const char *problem)
{
    struct kg_err err = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_str(arguments), NULL);
    assert_non_null(doc);
    const struct model_event event = {
        .kind = MODEL_TOOL_CALL,
        .call = {.id = KG_STR("c"),
                 .name = kg_str(name),
                 .arguments = doc->root,
                 .problem = kg_str(problem)},
    };
    return turn_answer_add_call(answer, &event, &err);
}

/* {"a":{"a":...{}}}, so deep. */
static char *nested(size_t depth)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (size_t i = 1; i < depth; i++)
        kg_buf_text(&text, "{\"a\":");
    kg_buf_text(&text, "{}");
    for (size_t i = 1; i < depth; i++)
        kg_buf_char(&text, '}');
    return kg_strdup(kg_buf_terminate(&text));
}

/* {"a":"xxx..."}, with so many x. */
static char *large(size_t bytes)
{
    char *x = kg_alloc(bytes + 1);
    memset(x, 'x', bytes);
    char *text = kg_format("{\"a\":\"%s\"}", x);
    free(x);
    return text;
}

static void assert_drafts_fit(const struct turn_answer *answer, size_t wanted)
{
    struct session_draft drafts[1 + TURN_CALLS_MAX];
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    size_t count = turn_answer_drafts(answer, "primary", &content, drafts);
    assert_int_equal(count, wanted);
    for (size_t i = 0; i < count; i++) {
        struct kg_err err = {0};
        if (session_check_draft(&drafts[i], &err) < 0)
            fail_msg("%s", err.message);
    }
}

/* -- tests ------------------------------------------------------------------------------------- */

static void an_answer_becomes_a_message_and_its_calls(void **data)
{
    struct turn_answer answer = {0};
    struct kg_err err = {0};
    struct session_draft drafts[1 + TURN_CALLS_MAX];
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    (void)data;
    assert_int_equal(turn_answer_add_text(&answer, KG_STR("Let "), &err), 0);
    assert_int_equal(turn_answer_add_text(&answer, KG_STR("me \"look\"."), &err), 0);
    assert_int_equal(add_call(&answer, "fs__list", "{\"p\":[1.50]}", NULL), 0);
    assert_int_equal(turn_answer_drafts(&answer, "primary", &content, drafts), 2);
    assert_true(kg_str_is(drafts[0].content, "\"Let me \\\"look\\\".\""));
    assert_true(kg_str_is(drafts[1].content, "{\"name\":\"fs__list\",\"arguments\":{\"p\":[1.50]},"
                                             "\"call_id\":\"c\"}"));
    assert_null(answer.calls[0].problem);
    turn_answer_clear(&answer);
}

static void text_past_the_bound_is_not_taken(void **data)
{
    struct turn_answer answer = {0};
    struct kg_err err = {0};
    static char piece[65536]; /* of NULs, each of which is six bytes in JSON */
    int result = 0;
    (void)data;
    while (result == 0)
        result = turn_answer_add_text(&answer, (struct kg_str){piece, sizeof(piece)}, &err);
    assert_int_equal(err.code, KG_E_TOO_LARGE);
    assert_in_range(answer.text.length, 1 << 19, 1 << 20);
    assert_drafts_fit(&answer, 1);
    turn_answer_clear(&answer);
}

static void thoughts_without_end_are_not_taken(void **data)
{
    struct turn_answer answer = {0};
    struct kg_err err = {0};
    static char piece[65536];
    size_t taken = 0;
    (void)data;
    while (turn_answer_add_thought(&answer, (struct kg_str){piece, sizeof(piece)}, &err) == 0)
        taken += sizeof(piece);
    assert_int_equal(err.code, KG_E_TOO_LARGE);
    assert_in_range(taken, 1, 32 << 20);
    assert_drafts_fit(&answer, 0);
}

static void arguments_that_are_none_are_a_problem_of_the_call(void **data)
{
    struct turn_answer answer = {0};
    kg_auto(kg_free) char *deep = nested(200), *much = large((1 << 20) + 1);
    (void)data;
    assert_int_equal(add_call(&answer, "a", "{}", "1:1: not JSON"), 0);
    assert_int_equal(add_call(&answer, "a", deep, NULL), 0);
    assert_int_equal(add_call(&answer, "a", much, NULL), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_true(kg_str_is(kg_buf_view(&answer.calls[i].arguments), "{}"));
        assert_non_null(answer.calls[i].problem);
    }
    assert_string_equal(answer.calls[0].problem,
                        "the arguments are not a JSON object: 1:1: not JSON");
    assert_non_null(strstr(answer.calls[1].problem, "nested deeper"));
    assert_drafts_fit(&answer, 3);
    turn_answer_clear(&answer);
}

static void only_so_many_calls_are_made_and_not_many_more_are_heard(void **data)
{
    struct turn_answer answer = {0};
    kg_auto(kg_free) char *name = nested(100);
    (void)data;
    for (size_t i = 0; i < TURN_CALLS_MAX; i++)
        assert_int_equal(add_call(&answer, name, "{}", NULL), 0);
    assert_true(add_call(&answer, name, "{}", NULL) < 0);
    assert_null(answer.calls[63].problem);
    assert_non_null(answer.calls[64].problem);
    assert_drafts_fit(&answer, TURN_CALLS_MAX);
    turn_answer_clear(&answer);
}

static void all_arguments_together_are_bounded(void **data)
{
    struct turn_answer answer = {0};
    kg_auto(kg_free) char *much = large(1000000);
    (void)data;
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(add_call(&answer, "a", much, NULL), 0);
    assert_null(answer.calls[3].problem);
    assert_non_null(answer.calls[5].problem);
    assert_drafts_fit(&answer, 6);
    turn_answer_clear(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_becomes_a_message_and_its_calls),
        cmocka_unit_test(text_past_the_bound_is_not_taken),
        cmocka_unit_test(thoughts_without_end_are_not_taken),
        cmocka_unit_test(arguments_that_are_none_are_a_problem_of_the_call),
        cmocka_unit_test(only_so_many_calls_are_made_and_not_many_more_are_heard),
        cmocka_unit_test(all_arguments_together_are_bounded),
    };
    return cmocka_run_group_tests_name("turn_answer", tests, NULL, NULL);
}
