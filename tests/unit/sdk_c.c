/*
 * The SDK for C, by its own host in memory: what authors write handlers with, and what a host sees
 * of them. What comes over pipes is sdk/conformance's.
 */
#include <kaged-plugin.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* -- a plugin that does what a test wants ------------------------------------------------------ */

static kaged_handler *wanted;

static int run_wanted(struct kaged_call *call)
{
    return wanted(call);
}

static int check_config(struct kaged_call *call)
{
    if (kaged_json_is_true(kaged_json_get(kaged_params(call), "bad")))
        return kaged_fail(call, 0, "bad is bad");
    return 0;
}

static void note_shutdown(void *data)
{
    *(int *)data += 1;
}

static int shutdowns;
static const struct kaged_plugin plugin = {
    .name = "notes",
    .version = "1.0.0",
    .methods = (const struct kaged_entry[]){{"notes.do", run_wanted}, {NULL, NULL}},
    .tools = (const struct kaged_entry[]){{"recall", run_wanted}, {NULL, NULL}},
    .hooks = (const struct kaged_entry[]){{"pre_compact", run_wanted}, {NULL, NULL}},
    .on_config = check_config,
    .on_shutdown = note_shutdown,
    .data = &shutdowns,
};

static struct kaged_test *start(kaged_handler *handler)
{
    wanted = handler;
    struct kaged_test *test = kaged_test_start(&plugin, "{\"most\":3}");
    assert_non_null(test);
    return test;
}

/* The result of notes.do with these params, and nothing else. */
static void expect(kaged_handler *handler, const char *params, const char *result)
{
    struct kaged_test *test = start(handler);
    kaged_test_call(test, "notes.do", params);
    assert_int_equal(kaged_test_error(test), 0);
    assert_string_equal(kaged_test_result(test), result);
    kaged_test_stop(test);
}

static void expect_error(kaged_handler *handler, const char *params, int code, const char *message)
{
    struct kaged_test *test = start(handler);
    assert_null(kaged_test_call(test, "notes.do", params));
    assert_int_equal(kaged_test_error(test), code);
    assert_string_equal(kaged_test_message(test), message);
    kaged_test_stop(test);
}

/* -- values ------------------------------------------------------------------------------------ */

static int look_at_values(struct kaged_call *call)
{
    const struct kaged_json *params = kaged_params(call);
    const struct kaged_json *list = kaged_json_get(params, "list");
    int64_t integer = 0;
    double real = 0;
    assert_int_equal(kaged_json_type(params), KAGED_OBJECT);
    assert_string_equal(kaged_json_text(kaged_json_get(params, "text")),
                        "gr\xc3\xbc\xc3\x9f \"e\"");
    assert_int_equal(kaged_json_length(kaged_json_get(params, "nul")), 3);
    assert_true(kaged_json_int(kaged_json_get(params, "most"), &integer));
    assert_true(integer == INT64_MAX);
    assert_false(kaged_json_int(kaged_json_get(params, "more"), &integer));
    assert_true(kaged_json_double(kaged_json_get(params, "real"), &real));
    assert_true(real == -0.25);
    assert_false(kaged_json_double(kaged_json_get(params, "huge"), &real));
    assert_true(kaged_json_is_true(kaged_json_get(params, "yes")));
    assert_int_equal(kaged_json_count(list), 3);
    assert_int_equal(kaged_json_type(kaged_json_at(list, 1)), KAGED_NULL);
    assert_null(kaged_json_at(list, 3));
    assert_string_equal(kaged_json_key_at(params, 0), "text");
    return 0;
}

static void values_of_all_kinds_are_read(void **state)
{
    (void)state;
    expect(look_at_values,
           "{\"text\":\"gr\\u00fc\\u00df "
           "\\\"e\\\"\",\"nul\":\"a\\u0000b\",\"most\":9223372036854775807,"
           "\"more\":9223372036854775808,\"real\":-2.5e-1,\"huge\":1e400,\"yes\":true,"
           "\"list\":[1,null,[]]}",
           "null");
}

static int look_at_nothing(struct kaged_call *call)
{
    const struct kaged_json *none = kaged_json_get(kaged_params(call), "none");
    int64_t integer;
    double real;
    assert_null(none);
    assert_int_equal(kaged_json_type(none), KAGED_NULL);
    assert_null(kaged_json_get(none, "deeper"));
    assert_null(kaged_json_text(none));
    assert_int_equal(kaged_json_count(none), 0);
    assert_null(kaged_json_at(none, 0));
    assert_null(kaged_json_key_at(none, 0));
    assert_false(kaged_json_int(none, &integer));
    assert_false(kaged_json_double(none, &real));
    assert_false(kaged_json_is_true(none));
    return 0;
}

static void what_is_not_there_may_be_asked_for(void **state)
{
    (void)state;
    expect(look_at_nothing, "{}", "null");
}

static int echo(struct kaged_call *call)
{
    kaged_put(kaged_result(call), kaged_json(kaged_params(call)));
    return 0;
}

static void of_a_key_that_comes_twice_the_last_counts(void **state)
{
    (void)state;
    expect(echo, "{\"a\":1,\"b\":{\"c\":1,\"c\":2},\"a\":3}", "{\"a\":3,\"b\":{\"c\":2}}");
    /* past the number up to which each key is compared with each */
    char params[1024] = "{", result[1024] = "{";
    for (int i = 0; i < 20; i++) {
        snprintf(params + strlen(params), 32, "\"k%d\":0,", i);
        snprintf(result + strlen(result), 32, "%s\"k%d\":%d", i ? "," : "", i, i == 7 ? 1 : 0);
    }
    strcat(params, "\"k7\":1}");
    strcat(result, "}");
    expect(echo, params, result);
}

static int write_values(struct kaged_call *call)
{
    struct kaged_writer *result = kaged_result(call);
    kaged_begin_array(result);
    kaged_put(result, kaged_null());
    kaged_put(result, kaged_bool(true));
    kaged_put(result, kaged_int(INT64_MIN));
    kaged_put(result, kaged_double(0.1));
    kaged_put(result, kaged_double(1e300));
    kaged_put(result, kaged_double(NAN));
    kaged_put(result, kaged_text("a\"\n\xff"));
    kaged_put(result, kaged_text(NULL));
    kaged_put(result, kaged_text_n("a\0b", 3));
    kaged_put(result, kaged_json(NULL));
    kaged_put_fields(result, KAGED_FIELDS({"x", kaged_int(1)}, {"y", kaged_text("z")}));
    kaged_end_array(result);
    return 0;
}

static void values_of_all_kinds_are_written(void **state)
{
    (void)state;
    expect(write_values, NULL,
           "[null,true,-9223372036854775808,0.1,1e+300,null,\"a\\\"\\n\xef\xbf\xbd\",null,"
           "\"a\\u0000b\",null,{\"x\":1,\"y\":\"z\"}]");
}

/* -- calls ------------------------------------------------------------------------------------- */

static int look_at_context(struct kaged_call *call)
{
    const struct kaged_context *context = kaged_context(call);
    assert_string_equal(context->operator_id, "anna");
    assert_null(context->project_id);
    assert_ptr_equal(kaged_data(call), &shutdowns);
    assert_int_equal(kaged_json_count(kaged_params(call)), 1);
    kaged_put(kaged_result(call), kaged_json(kaged_config(call)));
    return 0;
}

static void a_handler_gets_params_context_and_config(void **state)
{
    (void)state;
    expect(look_at_context, "{\"_context\":{\"operator_id\":\"anna\",\"project_id\":null},\"a\":1}",
           "{\"most\":3}");
    expect(look_at_context,
           "{\"_context\":{\"operator_id\":\"anna\"},\"a\":1,\"_config\":{\"own\":1}}",
           "{\"own\":1}");
}

static int do_nothing(struct kaged_call *call)
{
    (void)call;
    return 0;
}

static void tools_and_hooks_are_called_by_their_wire_names(void **state)
{
    (void)state;
    struct kaged_test *test = start(do_nothing);
    assert_non_null(kaged_test_call(test, "notes.recall", NULL));
    assert_non_null(kaged_test_call(test, "kaged.hook.pre_compact", NULL));
    assert_null(kaged_test_call(test, "recall", NULL));
    assert_int_equal(kaged_test_error(test), -32601);
    assert_null(kaged_test_call(test, "kaged.hook.post_compact", NULL));
    kaged_test_stop(test);
}

static int compact(struct kaged_call *call)
{
    const struct kaged_json *params = kaged_params(call);
    return kaged_reply_compacted(call, kaged_json_get(params, "messages_remaining"),
                                 kaged_json_get(params, "messages_being_compacted"), NULL);
}

static void a_compactor_names_what_it_replaces(void **state)
{
    (void)state;
    expect(
        compact,
        "{\"messages_being_compacted\":[{\"id\":\"m1\"},{\"id\":\"m2\"}],"
        "\"messages_remaining\":[{\"id\":\"m3\"}]}",
        "{\"role\":\"compactor\",\"messages\":[{\"id\":\"m3\"}],\"superseded\":[\"m1\",\"m2\"]}");
}

static int fail_so(struct kaged_call *call)
{
    return kaged_fail_with(call, -32050, KAGED_FIELDS({"id", kaged_int(5)}), "no note %d", 5);
}

static int fail_params(struct kaged_call *call)
{
    return kaged_invalid_params(call, "id is missing");
}

static int fail_without_a_word(struct kaged_call *call)
{
    (void)call;
    return -1;
}

static int leave_open(struct kaged_call *call)
{
    kaged_begin_array(kaged_result(call));
    return 0;
}

static void failures_are_answered(void **state)
{
    (void)state;
    expect_error(fail_so, NULL, -32050, "no note 5");
    expect_error(fail_params, NULL, -32602, "invalid params: id is missing");
    expect_error(fail_without_a_word, NULL, -32603, "internal error");
    expect_error(leave_open, NULL, -32603,
                 "internal error: the result is too large, too deep, or not JSON");
}

static void bad_lines_are_answered(void **state)
{
    (void)state;
    struct kaged_test *test = start(do_nothing);
    assert_non_null(strstr(kaged_test_line(test, "nonsense"), "-32700"));
    assert_non_null(strstr(kaged_test_line(test, "[]"), "-32600"));
    assert_null(kaged_test_line(test, "  "));
    assert_null(kaged_test_line(test, "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":1}"));
    assert_non_null(kaged_test_call(test, "ping", NULL));
    kaged_test_stop(test);
}

/* -- configuration and the end ----------------------------------------------------------------- */

static void a_configuration_may_be_refused(void **state)
{
    (void)state;
    assert_null(kaged_test_start(&plugin, "{\"bad\":true}"));
    struct kaged_test *test = start(look_at_context);
    assert_null(kaged_test_call(test, "config.update", "{\"config\":{\"bad\":true}}"));
    assert_int_equal(kaged_test_error(test), KAGED_CONFIG_INVALID);
    kaged_test_call(test, "notes.do", "{\"_context\":{\"operator_id\":\"anna\"},\"a\":1}");
    assert_string_equal(kaged_test_result(test), "{\"most\":3}");
    kaged_test_stop(test);
}

static void the_end_is_told_once(void **state)
{
    (void)state;
    struct kaged_test *test = start(do_nothing);
    shutdowns = 0;
    kaged_test_stop(test);
    kaged_test_stop(NULL);
    assert_int_equal(shutdowns, 1);
}

/* -- storage and notifications ----------------------------------------------------------------- */

struct asked {
    char methods[256];
    char params[256];
};

static const char *answer_storage(void *data, struct kaged_test *test, const char *method,
                                  const struct kaged_json *params)
{
    struct asked *asked = data;
    (void)test;
    strcat(asked->methods, method + strlen("kaged.storage."));
    strcat(asked->methods, " ");
    const struct kaged_json *values = kaged_json_get(params, "params");
    const struct kaged_json *first = kaged_json_get(kaged_json_at(values, 0), "$blob");
    if (first != NULL)
        strcpy(asked->params, kaged_json_text(first));
    if (strcmp(method, "kaged.storage.query") == 0)
        return "{\"columns\":[\"data\"],\"rows\":[{\"data\":{\"$blob\":\"aGVsbG8=\"}}]}";
    return strcmp(method, "kaged.storage.schema") == 0 ? "{\"tables\":[]}"
                                                       : "{\"rows_affected\":1}";
}

static int use_storage(struct kaged_call *call)
{
    const struct kaged_json *result;
    size_t length = 0;
    assert_true(kaged_has_storage(call));
    assert_int_equal(
        kaged_exec(call, "INSERT INTO n VALUES (?)", KAGED_PARAMS(kaged_blob("hi", 2)), NULL), 0);
    assert_int_equal(kaged_query(call, "SELECT * FROM n", KAGED_NO_PARAMS, &result), 0);
    const struct kaged_json *row = kaged_json_at(kaged_json_get(result, "rows"), 0);
    const char *data = kaged_json_blob(call, kaged_json_get(row, "data"), &length);
    assert_int_equal(length, 5);
    assert_memory_equal(data, "hello", 5);
    const struct kaged_statement both[] = {{"DELETE FROM a", KAGED_NO_PARAMS},
                                           {"DELETE FROM b", KAGED_PARAMS(kaged_int(1))}};
    assert_int_equal(kaged_batch(call, both, 2, NULL), 0);
    assert_int_equal(kaged_schema(call, &result), 0);
    kaged_put(kaged_result(call), kaged_json(result));
    return 0;
}

static void storage_asks_the_host(void **state)
{
    (void)state;
    struct asked asked = {0};
    struct kaged_test *test = start(use_storage);
    kaged_test_on_request(test, answer_storage, &asked);
    kaged_test_call(test, "notes.do", NULL);
    assert_string_equal(kaged_test_result(test), "{\"tables\":[]}");
    assert_string_equal(asked.methods, "exec query batch schema ");
    assert_string_equal(asked.params, "aGk=");
    kaged_test_stop(test);
}

static const char *refuse_storage(void *data, struct kaged_test *test, const char *method,
                                  const struct kaged_json *params)
{
    (void)data;
    (void)method;
    (void)params;
    kaged_test_refuse(test, KAGED_STORAGE_DENIED, "not yours");
    return NULL;
}

static int pass_on(struct kaged_call *call)
{
    return kaged_exec(call, "DROP TABLE x", KAGED_NO_PARAMS, NULL);
}

static int catch_it(struct kaged_call *call)
{
    assert_int_equal(pass_on(call), -1);
    assert_int_equal(kaged_error_code(call), KAGED_STORAGE_DENIED);
    assert_string_equal(kaged_error_message(call), "not yours");
    assert_null(kaged_error_data(call));
    kaged_error_forget(call);
    return kaged_reply(call, KAGED_FIELDS({"caught", kaged_bool(true)}));
}

static void a_refusal_of_the_host_is_the_answer_or_is_caught(void **state)
{
    (void)state;
    struct kaged_test *test = start(pass_on);
    kaged_test_on_request(test, refuse_storage, NULL);
    assert_null(kaged_test_call(test, "notes.do", NULL));
    assert_int_equal(kaged_test_error(test), KAGED_STORAGE_DENIED);
    assert_string_equal(kaged_test_message(test), "not yours");
    wanted = catch_it;
    kaged_test_call(test, "notes.do", NULL);
    assert_string_equal(kaged_test_result(test), "{\"caught\":true}");
    kaged_test_stop(test);
}

static int notify(struct kaged_call *call)
{
    struct kaged_writer *params = kaged_writer(call);
    kaged_put_fields(params, KAGED_FIELDS({"n", kaged_int(1)}));
    assert_int_equal(kaged_notify(call, "notes.changed", params), 0);
    assert_int_equal(kaged_notify(call, "notes.emptied", NULL), 0);
    kaged_begin_array(params);
    assert_int_equal(kaged_notify(call, "notes.broken", params), -1);
    return 0;
}

static void notifications_reach_the_host(void **state)
{
    (void)state;
    int64_t n = 0;
    struct kaged_test *test = start(notify);
    assert_non_null(kaged_test_call(test, "notes.do", NULL));
    const struct kaged_json *first = kaged_test_notification(test, 0);
    assert_string_equal(kaged_json_text(kaged_json_get(first, "method")), "notes.changed");
    assert_true(kaged_json_int(kaged_json_get(kaged_json_get(first, "params"), "n"), &n) && n == 1);
    assert_non_null(kaged_test_notification(test, 1));
    assert_null(kaged_test_notification(test, 2));
    kaged_test_stop(test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_all_kinds_are_read),
        cmocka_unit_test(what_is_not_there_may_be_asked_for),
        cmocka_unit_test(of_a_key_that_comes_twice_the_last_counts),
        cmocka_unit_test(values_of_all_kinds_are_written),
        cmocka_unit_test(a_handler_gets_params_context_and_config),
        cmocka_unit_test(tools_and_hooks_are_called_by_their_wire_names),
        cmocka_unit_test(a_compactor_names_what_it_replaces),
        cmocka_unit_test(failures_are_answered),
        cmocka_unit_test(bad_lines_are_answered),
        cmocka_unit_test(a_configuration_may_be_refused),
        cmocka_unit_test(the_end_is_told_once),
        cmocka_unit_test(storage_asks_the_host),
        cmocka_unit_test(a_refusal_of_the_host_is_the_answer_or_is_caught),
        cmocka_unit_test(notifications_reach_the_host),
    };
    return cmocka_run_group_tests_name("sdk_c", tests, NULL, NULL);
}
