/* What the daemon and kaged-model say to each other; the process may be a stranger's by then. */
#include "model/internal.h"

#include <setjmp.h>

#include <cmocka.h>

static struct local *read_local(void)
{
    return local_read(KG_STR("[providers.p]\nkind = \"anthropic\"\napi_key = \"k\"\n"
                             "headers = { a = \"b\" }\nretries = 1\n"
                             "[models.m]\nprovider = \"p\"\nmodel = \"x\"\nmax_tokens = 9\n"
                             "temperature = 0.5\nreasoning = true\n"),
                      LOCAL_REPLACE, NULL);
}

static void a_request_says_all_that_is_configured(void **state)
{
    (void)state;
    struct local *local = read_local();
    struct model_request request = {.model = local_model_find(local, KG_STR("m")),
                                    .system = KG_STR("s"),
                                    .messages = KG_STR("[{\"role\":\"user\"}]"),
                                    .tools = KG_STR("[]")};
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    model_wire_request(&request, 77, &out);
    assert_string_equal(kg_buf_terminate(&out),
                        "{\"kind\":\"anthropic\",\"url\":\"https://api.anthropic.com\","
                        "\"key\":\"k\",\"headers\":{\"a\":\"b\"},\"model\":\"x\",\"system\":\"s\","
                        "\"messages\":[{\"role\":\"user\"}],\"tools\":[],\"max_tokens\":9,"
                        "\"temperature\":0.5,\"reasoning\":true,\"limits\":{\"connect_ms\":10000,"
                        "\"idle_ms\":120000,\"total_ms\":77,\"retries\":1}}");
    out.length = 0;
    request.max_tokens = 3;
    model_wire_request(&request, 77, &out);
    assert_non_null(strstr(kg_buf_terminate(&out), "\"max_tokens\":3,"));
    local_free(local);
}

static bool take(const char *json, struct model_event *ret_event)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_str(json), NULL);
    assert_non_null(doc);
    return model_wire_event(doc->root, ret_event);
}

static void events_are_taken_for_what_they_are(void **state)
{
    (void)state;
    struct model_event event;
    assert_true(take("{\"id\":1,\"delta\":\"a\"}", &event));
    assert_int_equal(event.kind, MODEL_TEXT);
    assert_true(take("{\"id\":1,\"reasoning\":\"a\"}", &event));
    assert_int_equal(event.kind, MODEL_REASONING);
    assert_true(take("{\"tool_call\":{\"id\":\"a\",\"name\":\"b\",\"arguments\":{}}}", &event));
    assert_int_equal(event.kind, MODEL_TOOL_CALL);
    assert_int_equal(event.call.problem.length, 0);
    assert_true(
        take("{\"usage\":{\"input_tokens\":1,\"cached_tokens\":2,\"output_tokens\":3}}", &event));
    assert_int_equal(event.usage.output_tokens, 3);
    assert_true(take("{\"retry\":{\"after_ms\":5,\"message\":\"m\"}}", &event));
    assert_int_equal(event.retry.after_ms, 5);
}

static void claims_of_tokens_are_bounded(void **state)
{
    (void)state;
    struct model_event event;
    assert_true(take("{\"usage\":{\"input_tokens\":9223372036854775807,\"cached_tokens\":0,"
                     "\"output_tokens\":1000000001}}",
                     &event));
    assert_int_equal(event.usage.input_tokens, 1000000000);
    assert_int_equal(event.usage.output_tokens, 1000000000);
}

static void events_that_are_none_are_not_taken(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{}",
        "[]",
        "{\"id\":1}",
        "{\"delta\":1}",
        "{\"tool_call\":{}}",
        "{\"tool_call\":{\"id\":\"a\",\"name\":\"b\",\"arguments\":\"{}\"}}",
        "{\"usage\":{\"input_tokens\":-1,\"cached_tokens\":0,\"output_tokens\":0}}",
        "{\"retry\":{\"after_ms\":\"5\",\"message\":\"m\"}}",
    };
    struct model_event event;
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_false(take(rows[i], &event));
}

static void ends_are_taken_only_whole(void **state)
{
    (void)state;
    struct model_end end;
    assert_true(model_wire_result(KG_STR("{\"stop_reason\":\"length\"}"), &end));
    assert_int_equal(end.failure, MODEL_OK);
    assert_int_equal(end.stop, MODEL_STOP_LENGTH);
    assert_false(model_wire_result(KG_STR("{\"stop_reason\":\"boredom\"}"), &end));
    assert_false(model_wire_result(KG_STR("null"), &end));
    assert_true(
        model_wire_error(KG_STR("{\"message\":\"slow\\u001b\",\"data\":{\"code\":\"rate_limited\","
                                "\"status\":429,\"retry_after_ms\":1000}}"),
                         &end));
    assert_int_equal(end.failure, MODEL_RATE_LIMITED);
    assert_int_equal(end.status, 429);
    assert_int_equal(end.retry_after_ms, 1000);
    assert_string_equal(end.err.message, "slow\\x1b");
    static const char *const rows[] = {
        "{}",
        "{\"message\":\"m\"}",
        "{\"message\":\"m\",\"data\":{\"code\":\"ok\",\"status\":0,\"retry_after_ms\":0}}",
        "{\"message\":\"m\",\"data\":{\"code\":\"bored\",\"status\":0,\"retry_after_ms\":0}}",
        "{\"message\":\"m\",\"data\":{\"code\":\"timeout\",\"status\":9999,\"retry_after_ms\":0}}",
        "{\"message\":1,\"data\":{\"code\":\"timeout\",\"status\":0,\"retry_after_ms\":0}}",
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_false(model_wire_error(kg_str(rows[i]), &end));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_says_all_that_is_configured),
        cmocka_unit_test(events_are_taken_for_what_they_are),
        cmocka_unit_test(claims_of_tokens_are_bounded),
        cmocka_unit_test(events_that_are_none_are_not_taken),
        cmocka_unit_test(ends_are_taken_only_whole),
    };
    return cmocka_run_group_tests_name("model_wire", tests, NULL, NULL);
}
