/* Traces: what is written, what must not be in them, what a ring keeps, and what is read back. */
#include "trace/trace.h"
#include "kit/replay.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define V "{\"jsonrpc\":\"2.0\","

/* -- the ring ---------------------------------------------------------------------------------- */

static void add(struct trace_ring *ring, uint64_t at_ns, const char *text)
{
    trace_ring_add(ring, at_ns, kg_str(text));
}

static void assert_holds(const struct trace_ring *ring, const char *const *texts)
{
    uint64_t at_ns;
    size_t count = 0;
    for (; texts[count] != NULL; count++) {
        assert_true(count < trace_ring_count(ring));
        assert_true(kg_str_is(trace_ring_at(ring, count, &at_ns), texts[count]));
    }
    assert_int_equal(trace_ring_count(ring), count);
}

static void a_ring_keeps_the_last_and_counts_the_rest(void **state)
{
    (void)state;
    struct trace_ring *ring = trace_ring_new();
    trace_ring_set_limits(ring, 3, 100000);
    for (uint64_t i = 0; i < 100; i++)
        add(ring, i, i % 2 ? "odd" : "even");
    uint64_t at_ns;
    assert_true(kg_str_is(trace_ring_at(ring, 0, &at_ns), "odd"));
    assert_int_equal(at_ns, 97);
    assert_int_equal(trace_ring_dropped(ring), 97);
    assert_holds(ring, (const char *const[]){"odd", "even", "odd", NULL});
    trace_ring_set_limits(ring, 2, 100000);
    assert_holds(ring, (const char *const[]){"even", "odd", NULL});
    trace_ring_free(ring);
}

static void a_ring_is_bounded_in_bytes(void **state)
{
    (void)state;
    static char large[5000];
    struct trace_ring *ring = trace_ring_new();
    trace_ring_set_limits(ring, 1000, 4096);
    for (int i = 0; i < 1000; i++) {
        add(ring, 1, "a record of some length");
        assert_true(trace_ring_bytes(ring) <= 4096);
    }
    assert_true(trace_ring_count(ring) > 10);
    trace_ring_add(ring, 2, (struct kg_str){large, sizeof(large)}); /* fits in none */
    assert_int_equal(trace_ring_count(ring), 0);
    trace_ring_free(ring);
}

static void a_copy_stays_while_the_ring_goes_on(void **state)
{
    (void)state;
    struct trace_ring *ring = trace_ring_new();
    trace_ring_set_limits(ring, 2, 100000);
    add(ring, 1, "one");
    add(ring, 2, "two");
    struct trace_ring *copy = trace_ring_copy(ring);
    add(ring, 3, "three");
    trace_ring_free(ring);
    assert_holds(copy, (const char *const[]){"one", "two", NULL});
    trace_ring_free(copy);
}

/* -- records ----------------------------------------------------------------------------------- */

static void a_cut_line_ends_with_a_whole_character(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    trace_put_line(&out, TRACE_FROM, KG_STR("ab\xe2\x82\xac!"), false, 4);
    assert_string_equal(kg_buf_terminate(&out), "\"dir\":\"from\",\"line\":\"ab\",\"cut_from\":6");
}

static void whatever_a_plugin_writes_a_record_is_json(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf body = {0}, record = {0};
    trace_put_line(&body, TRACE_FROM, KG_STR("\"\\\x01\xff\n{"), true, 1000);
    trace_put_record(&record, -5, kg_buf_view(&body));
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&record), NULL);
    assert_non_null(doc);
    assert_true(kg_str_is(kg_node_get(doc->root, "line")->text, "\"\\\x01\xef\xbf\xbd\n{"));
}

/* -- redaction --------------------------------------------------------------------------------- */

static const char manifest_text[] =
    "name: keeper\nversion: 1.0.0\nkaged_api: 1\ndescription: x\ncommand: [./run]\n"
    "capabilities: []\nmethods: [a.login, a.free]\n"
    "config_schema:\n  type: object\n  properties:\n    url: {type: string}\n"
    "    phrase: {type: string, sensitive: true}\n"
    "system_config_schema:\n  type: object\n  properties:\n    token: {type: string}\n"
    "schemas:\n  a.login:\n    params: {type: object, properties: {user: {type: string},\n"
    "      password: {type: string, sensitive: true}}}\n"
    "    result: {type: object, properties: {session: {type: object, properties:\n"
    "      {key: {type: string, sensitive: true}, at: {type: integer}}}, ok: {type: boolean}}}\n";

struct keeper {
    struct manifest *manifest;
    struct kg_doc *system;
    struct redact_set *secrets;
    struct trace_redactor *redactor;
};

static int keeper_up(void **state)
{
    struct keeper *keeper = kg_alloc(sizeof(*keeper));
    struct kg_problems problems = {0};
    keeper->manifest = manifest_read(kg_str(manifest_text), &problems);
    kg_problems_free(&problems);
    keeper->system = kg_json_read(
        KG_STR("{\"token\":\"s3cr3t-t0ken\",\"pem\":\"-----BEGIN\\nAAAABBBBCCCC\\n-----END\","
               "\"short\":\"abcd\",\"pin\":271828}"),
        NULL);
    const struct trace_secret_parts parts = {
        .manifest = keeper->manifest,
        .system = keeper->system->root,
        .config = KG_STR("{\"url\":\"http://x\",\"phrase\":\"open sesame\"}"),
    };
    keeper->secrets = redact_set_new(NULL);
    keeper->redactor = trace_redactor_new(&parts, keeper->secrets);
    *state = keeper;
    return keeper->manifest == NULL;
}

static int keeper_down(void **state)
{
    struct keeper *keeper = *state;
    trace_redactor_free(keeper->redactor);
    redact_set_free(keeper->secrets);
    kg_doc_free(keeper->system);
    manifest_free(keeper->manifest);
    free(keeper);
    return 0;
}

static void assert_shown(struct keeper *keeper, enum trace_kind kind, const char *line,
                         const char *shown)
{
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    bool hidden = trace_redact(keeper->redactor, kind, kg_str(line), &out);
    assert_string_equal(kg_buf_terminate(&out), shown);
    assert_int_equal(hidden, strcmp(line, shown) != 0);
}

static void secrets_are_hidden_in_their_fields(void **state)
{
    struct keeper *keeper = *state;
    assert_shown(keeper, TRACE_TO,
                 V "\"id\":1,\"method\":\"config.update\",\"params\":{\"config\":{\"url\":\"u\","
                   "\"phrase\":\"x\",\"token\":1,\"pem\":null,\"odd\":[true,{\"a\":\"b\"}]}}}",
                 V "\"id\":1,\"method\":\"config.update\",\"params\":{\"config\":{\"url\":\"u\","
                   "\"phrase\":\"[redacted]\",\"token\":\"[redacted]\",\"pem\":\"[redacted]\","
                   "\"odd\":[\"[redacted]\",{\"a\":\"[redacted]\"}]}}}");
    assert_shown(keeper, TRACE_TO,
                 V "\"id\":2,\"method\":\"a.login\",\"params\":{\"_context\":{},\"_config\":"
                   "{\"phrase\":\"y\"},\"user\":\"ada\",\"password\":\"hunter2hunter2\"}}",
                 V "\"id\":2,\"method\":\"a.login\",\"params\":{\"_context\":{},\"_config\":"
                   "{\"phrase\":\"[redacted]\"},\"user\":\"ada\",\"password\":\"[redacted]\"}}");
    assert_shown(keeper, TRACE_FROM,
                 V "\"id\":2,\"result\":{\"session\":{\"key\":\"k-0815-k\",\"at\":5},\"ok\":true}}",
                 V "\"id\":2,\"result\":{\"session\":{\"key\":\"[redacted]\",\"at\":\"[redacted]\"}"
                   ",\"ok\":true}}");
    /* What was seen in such a field is hidden elsewhere, too: in storage, in an error, on stderr.
     */
    assert_shown(
        keeper, TRACE_FROM,
        V "\"id\":1,\"method\":\"kaged.storage.exec\",\"params\":{\"sql\":\"x\",\"params\":"
          "[\"hunter2hunter2\",\"k-0815-k\"]}}",
        V "\"id\":1,\"method\":\"kaged.storage.exec\",\"params\":{\"sql\":\"x\",\"params\":"
          "[\"[redacted]\",\"[redacted]\"]}}");
    assert_shown(keeper, TRACE_STDERR, "login as hunter2hunter2!", "login as [redacted]!");
}

static void secrets_of_the_configuration_are_hidden_wherever_they_stand(void **state)
{
    struct keeper *keeper = *state;
    static const struct {
        const char *line, *shown;
    } rows[] = {
        {V "\"id\":1,\"result\":\"Bearer s3cr3t-t0ken\"}",
         V "\"id\":1,\"result\":\"[redacted]\"}"}, /* an id from before: who knows what it is */
        {V "\"method\":\"log.info\",\"params\":{\"s3cr3t-t0ken\":\"as3cr3t-t0kenz\"}}",
         V "\"method\":\"log.info\",\"params\":{\"[redacted]\":\"a[redacted]z\"}}"},
        {V "\"method\":\"log.info\",\"params\":[\"\\u0073\\u0033cr3t\\u002dt0ken\"]}",
         V "\"method\":\"log.info\",\"params\":[\"[redacted]\"]}"},
        {V "\"method\":\"log.info\",\"params\":[271828,2718281,\"pin 271828\"]}",
         V "\"method\":\"log.info\",\"params\":[\"[redacted]\",2718281,\"pin [redacted]\"]}"},
        {"no JSON: open sesame", "no JSON: [redacted]"},
        {"one line of it: AAAABBBBCCCC", "one line of it: [redacted]"},
        {"abcd abcde", "[redacted] abcde"},
        {"nothing here", "nothing here"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        assert_shown(keeper, TRACE_FROM, rows[i].line, rows[i].shown);
}

static void a_message_without_secrets_stays_byte_for_byte(void **state)
{
    static const char line[] = V
        " \"id\" : 271828, \"method\":\"a.free\",\"params\":{ \"a\" : \"\\u0041\" , \"b\":[ ] } }";
    assert_shown(*state, TRACE_TO, line, line);
}

static void what_was_seen_is_hidden_after_a_restart_too(void **state)
{
    struct keeper *keeper = *state;
    kg_auto(kg_buf_free) struct kg_buf out = {0};
    trace_redact(keeper->redactor, TRACE_TO,
                 KG_STR(V "\"id\":2,\"method\":\"a.login\",\"params\":"
                          "{\"password\":\"hunter2hunter2\"}}"),
                 &out);
    const struct trace_secret_parts parts = {.manifest = keeper->manifest};
    trace_redactor_free(keeper->redactor);
    keeper->redactor = trace_redactor_new(&parts, keeper->secrets);
    assert_shown(keeper, TRACE_STDERR, "hunter2hunter2 and s3cr3t-t0ken",
                 "[redacted] and [redacted]");
}

static void what_takes_too_long_to_look_through_is_hidden_whole(void **state)
{
    struct keeper *keeper = *state;
    kg_auto(kg_buf_free) struct kg_buf secret = {0}, line = {0}, out = {0};
    for (int i = 0; i < 4000; i++)
        kg_buf_char(&secret, 'a');
    kg_buf_printf(&line, V "\"id\":7,\"method\":\"a.login\",\"params\":{\"password\":\"%s\"}}",
                  kg_buf_terminate(&secret));
    trace_redact(keeper->redactor, TRACE_TO, kg_buf_view(&line), &out);
    line.length = out.length = 0;
    for (int i = 0; i < 300000; i++)
        kg_buf_char(&line, i % 3000 == 2999 ? 'b' : 'a');
    assert_true(trace_redact(keeper->redactor, TRACE_STDERR, kg_buf_view(&line), &out));
    assert_string_equal(kg_buf_terminate(&out), "[redacted]");
}

static void numbers_take_time_to_look_through_too(void **state)
{
    struct keeper *keeper = *state;
    kg_auto(kg_buf_free) struct kg_buf line = {0}, out = {0};
    for (int i = 0; i < 256; i++) {
        line.length = 0;
        kg_buf_printf(&line, V "\"id\":7,\"method\":\"a.login\",\"params\":{\"password\":%d}}",
                      10000000 + i);
        trace_redact(keeper->redactor, TRACE_TO, kg_buf_view(&line), &out);
    }
    line.length = out.length = 0;
    kg_buf_text(&line, V "\"method\":\"log.info\",\"params\":[1");
    for (int i = 0; i < 100000; i++)
        kg_buf_text(&line, ",10000999");
    kg_buf_text(&line, "]}");
    assert_true(trace_redact(keeper->redactor, TRACE_FROM, kg_buf_view(&line), &out));
    assert_string_equal(kg_buf_terminate(&out), "[redacted]");
}

/* -- comparing --------------------------------------------------------------------------------- */

static void assert_compared(const char *was, const char *is, const char *ignored,
                            const char *expected)
{
    const char *const list[] = {ignored, NULL};
    const struct kit_place places[] = {{KG_STR("/home/a/data"), KG_STR("/tmp/x")}, {{0}, {0}}};
    struct kit_comparison comparison = {.ignored = list, .places = places};
    kg_auto(kg_buf_free) struct kg_buf found = {0};
    kit_compare(&comparison, kg_str(was), kg_str(is));
    for (size_t i = 0; i < comparison.count; i++)
        kg_buf_printf(&found, "%s %s %s|", comparison.differences[i].path,
                      comparison.differences[i].was, comparison.differences[i].is);
    assert_string_equal(kg_buf_terminate(&found), expected);
    kit_comparison_clear(&comparison);
}

static void answers_are_compared_as_json(void **state)
{
    (void)state;
    assert_compared("{\"a\":1,\"b\":[1.0,\"\\u0041\"]}", "{ \"b\":[1,\"A\"], \"a\":10e-1 }", NULL,
                    "");
    assert_compared("{\"a\":1}", "{\"b\":1}", NULL, "/a 1 |/b  1|");
    assert_compared("[1,2]", "[1,3,4]", NULL, "/1 2 3|/2  4|");
    assert_compared("{\"a\":{\"x/y~\":null}}", "{\"a\":{\"x/y~\":false}}", NULL,
                    "/a/x~1y~0 null false|");
    assert_compared("9007199254740993", "9007199254740992", NULL,
                    " 9007199254740993 9007199254740992|");
    assert_compared("{\"a\":\"[redacted]\"}", "{\"a\":{\"b\":1}}", NULL, "");
    assert_compared("\"in /home/a/data/f and /home/a/data2\"", "\"in /tmp/x/f and /home/a/data2\"",
                    NULL, "");
    assert_compared("\"/home/a/data\"", "\"/tmp/xy\"", NULL, " \"/home/a/data\" \"/tmp/xy\"|");
}

static void ignored_paths_take_all_that_is_below(void **state)
{
    (void)state;
    assert_compared("{\"r\":{\"a\":1,\"ab\":1}}", "{\"r\":{\"a\":2,\"ab\":2}}", "/r/a",
                    "/r/ab 1 2|");
    assert_compared("[{\"t\":1},{\"t\":2}]", "[{\"t\":3},{\"t\":{\"u\":4}}]", "/*/t", "");
    assert_compared("{\"t\":1}", "{\"t\":2}", "/t/u", "/t 1 2|");
}

static void many_differences_are_counted(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    static const struct kit_place nowhere[] = {{{0}, {0}}};
    struct kit_comparison comparison = {.ignored = none, .places = nowhere};
    kit_compare(&comparison, KG_STR("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"), KG_STR("[]"));
    assert_int_equal(comparison.count, KIT_DIFFERENCES_MAX);
    assert_int_equal(comparison.left_out, 2);
    kit_comparison_clear(&comparison);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_keeps_the_last_and_counts_the_rest),
        cmocka_unit_test(a_ring_is_bounded_in_bytes),
        cmocka_unit_test(a_copy_stays_while_the_ring_goes_on),
        cmocka_unit_test(a_cut_line_ends_with_a_whole_character),
        cmocka_unit_test(whatever_a_plugin_writes_a_record_is_json),
        cmocka_unit_test_setup_teardown(secrets_are_hidden_in_their_fields, keeper_up, keeper_down),
        cmocka_unit_test_setup_teardown(secrets_of_the_configuration_are_hidden_wherever_they_stand,
                                        keeper_up, keeper_down),
        cmocka_unit_test_setup_teardown(a_message_without_secrets_stays_byte_for_byte, keeper_up,
                                        keeper_down),
        cmocka_unit_test_setup_teardown(what_was_seen_is_hidden_after_a_restart_too, keeper_up,
                                        keeper_down),
        cmocka_unit_test_setup_teardown(what_takes_too_long_to_look_through_is_hidden_whole,
                                        keeper_up, keeper_down),
        cmocka_unit_test_setup_teardown(numbers_take_time_to_look_through_too, keeper_up,
                                        keeper_down),
        cmocka_unit_test(answers_are_compared_as_json),
        cmocka_unit_test(ignored_paths_take_all_that_is_below),
        cmocka_unit_test(many_differences_are_counted),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
