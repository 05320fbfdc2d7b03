/* Envelopes: what each line is taken for, and that its parts are the very bytes of the line. */
#include "wire/wire.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- helpers ---------------------------------------------------------------------------------- */

static const char *const kind_names[] = {
    [RPC_NOISE] = "noise",
    [RPC_BATCH] = "batch",
    [RPC_REQUEST] = "request",
    [RPC_NOTIFICATION] = "notification",
    [RPC_RESULT] = "result",
    [RPC_ERROR] = "error",
    [RPC_INVALID_REQUEST] = "invalid request",
    [RPC_INVALID_RESPONSE] = "invalid response",
};

struct row {
    struct kg_str line;
    enum rpc_kind kind;
    const char *problem; /* a part of it, or NULL */
};

/* Parses a copy of exactly its size, so that a read past the end is found. */
static void check_row(const struct row *row)
{
    kg_auto(kg_free) char *exact = malloc(row->line.length);
    if (row->line.length > 0)
        memcpy(exact, row->line.data, row->line.length);
    struct rpc_message message;
    memset(&message, 0xA5, sizeof(message));
    rpc_parse((struct kg_str){exact, row->line.length}, &message);
    if (message.kind != row->kind)
        fail_msg("%.*s is taken for %s", KG_STR_CUT(row->line, 200), kind_names[message.kind]);
    bool bad = row->kind == RPC_NOISE || row->kind == RPC_INVALID_REQUEST ||
               row->kind == RPC_INVALID_RESPONSE;
    if (bad != (message.problem != NULL))
        fail_msg("%.*s has the problem %s", KG_STR_CUT(row->line, 200), message.problem);
    if (row->problem != NULL && strstr(message.problem, row->problem) == NULL)
        fail_msg("%.*s: %s", KG_STR_CUT(row->line, 200), message.problem);
}

#define CHECK_ROWS(rows)                                                                           \
    for (size_t i = 0; i < KG_COUNT(rows); i++)                                                    \
    check_row(&(rows)[i])

#define V "\"jsonrpc\":\"2.0\""

/* -- what is what ----------------------------------------------------------------------------- */

static void requests_and_notifications(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {KG_STR("{" V ",\"id\":1,\"method\":\"a.b\"}"), RPC_REQUEST, NULL},
        {KG_STR("{" V ",\"id\":1,\"method\":\"a.b\",\"params\":{}}"), RPC_REQUEST, NULL},
        {KG_STR("{\"params\":[1],\"method\":\"a.b\",\"id\":9223372036854775807," V "}"),
         RPC_REQUEST, NULL},
        {KG_STR("{" V ",\"method\":\"a.b\"}"), RPC_NOTIFICATION, NULL},
        {KG_STR("{" V ",\"method\":\"a.b\",\"params\":{\"x\":[1,2]}}"), RPC_NOTIFICATION, NULL},
        {KG_STR("{" V ",\"method\":\"\"}"), RPC_NOTIFICATION, NULL},
        {KG_STR(" \t{ \"jsonrpc\" : \"2.0\" , \"method\" : \"a.b\" } \r"), RPC_NOTIFICATION, NULL},
    };
    CHECK_ROWS(rows);
}

static void results_and_errors(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {KG_STR("{" V ",\"id\":1,\"result\":null}"), RPC_RESULT, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":{\"id\":2,\"error\":3,\"method\":4}}"), RPC_RESULT,
         NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":1,\"params\":5}"), RPC_RESULT, NULL},
        {KG_STR("{" V ",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"no\"}}"), RPC_ERROR,
         NULL},
        {KG_STR("{" V ",\"id\":1,\"error\":{\"message\":\"\",\"data\":{},\"code\":0}}"), RPC_ERROR,
         NULL},
        {KG_STR("{" V ",\"id\":1,\"error\":{\"c\\u006fde\":1,\"mess\\u0061ge\":\"x\"}}"), RPC_ERROR,
         NULL},
        {KG_STR("{" V ",\"id\":1}"), RPC_INVALID_RESPONSE, "neither result nor error"},
        {KG_STR("{" V ",\"id\":1,\"result\":1,\"error\":{\"code\":1,\"message\":\"\"}}"),
         RPC_INVALID_RESPONSE, "both result and error"},
        {KG_STR("{" V ",\"id\":1,\"result\":1,\"error\":null}"), RPC_INVALID_RESPONSE,
         "both result and error"},
    };
    CHECK_ROWS(rows);
}

/* Both are parsed from copies of exactly their size. */
static void check_same(struct kg_str line)
{
    kg_auto(kg_free) char *plain = malloc(line.length), *behind_a_space = malloc(line.length + 1);
    struct rpc_message one, other;
    memcpy(plain, line.data, line.length);
    behind_a_space[0] = ' ';
    memcpy(behind_a_space + 1, line.data, line.length);
    rpc_parse((struct kg_str){plain, line.length}, &one);
    rpc_parse((struct kg_str){behind_a_space, line.length + 1}, &other);
    if (one.kind != other.kind || one.has_id != other.has_id ||
        (one.kind == RPC_RESULT && (one.id != other.id || !kg_str_equal(one.result, other.result))))
        fail_msg("%.*s is another thing behind a space", KG_STR_ARG(line));
}

/* Results as most plugins write them are found in a quicker way, which a space in front is not. */
static void the_quick_way_finds_what_the_other_finds(void **state)
{
    (void)state;
    static const char line[] = "{" V ",\"id\":120,\"result\":{\"a\":[1,\"x\"]}}";
    static const char odd[] = "\",:{}[]01-9 e.\\\n\x80";
    for (size_t at = 1; at < sizeof(line) - 1; at++) {
        char changed[sizeof(line) + 1];
        check_same((struct kg_str){line, at});
        for (size_t i = 0; i < sizeof(odd); i++) {
            memcpy(changed, line, sizeof(line));
            changed[at] = odd[i];
            check_same((struct kg_str){changed, sizeof(line) - 1});
            memcpy(changed + at + 1, line + at, sizeof(line) - at);
            check_same((struct kg_str){changed, sizeof(line)});
        }
    }
}

static void the_quick_way_takes_ids_of_any_length(void **state)
{
    (void)state;
    static const char digits[] = "9223372036854775807922";
    for (int length = 0; length < (int)sizeof(digits); length++) {
        kg_auto(kg_free) char *line = kg_format("{" V ",\"id\":%.*s,\"result\":1}", length, digits);
        check_same(kg_str(line));
    }
}

static void errors_of_the_wrong_shape(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {KG_STR("{" V ",\"id\":1,\"error\":null}"), RPC_INVALID_RESPONSE, "error is not an object"},
        {KG_STR("{" V ",\"id\":1,\"error\":\"x\"}"), RPC_INVALID_RESPONSE, "not an object"},
        {KG_STR("{" V ",\"id\":1,\"error\":[1,\"x\"]}"), RPC_INVALID_RESPONSE, "not an object"},
        {KG_STR("{" V ",\"id\":1,\"error\":{}}"), RPC_INVALID_RESPONSE, "error.code"},
        {KG_STR("{" V ",\"id\":1,\"error\":{\"message\":\"x\"}}"), RPC_INVALID_RESPONSE,
         "error.code"},
        {KG_STR("{" V ",\"id\":1,\"error\":{\"code\":1.5,\"message\":\"x\"}}"),
         RPC_INVALID_RESPONSE, "error.code"},
        {KG_STR("{" V ",\"id\":1,\"error\":{\"code\":\"1\",\"message\":\"x\"}}"),
         RPC_INVALID_RESPONSE, "error.code"},
        {KG_STR("{" V ",\"id\":1,\"error\":{\"code\":99999999999999999999,\"message\":\"x\"}}"),
         RPC_INVALID_RESPONSE, "error.code"},
        {KG_STR("{" V ",\"id\":1,\"error\":{\"code\":1}}"), RPC_INVALID_RESPONSE, "error.message"},
        {KG_STR("{" V ",\"id\":1,\"error\":{\"code\":1,\"message\":null}}"), RPC_INVALID_RESPONSE,
         "error.message"},
    };
    CHECK_ROWS(rows);
}

static void ids_are_positive_plain_integers_and_nothing_else(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "0",
        "-1",
        "-0",
        "1.0",
        "1e2",
        "1E0",
        "\"1\"",
        "null",
        "{}",
        "[1]",
        "{\"id\":1}",
        "true",
        "\"\"",
        "9223372036854775808",
        "-9223372036854775808",
        "1000000000000000000000000000000000000000000",
    };
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        kg_auto(kg_free) char *request = kg_format("{" V ",\"id\":%s,\"method\":\"a.b\"}", bad[i]);
        kg_auto(kg_free) char *result = kg_format("{" V ",\"id\":%s,\"result\":1}", bad[i]);
        check_row(&(struct row){kg_str(request), RPC_INVALID_REQUEST, "id is not a positive"});
        check_row(&(struct row){kg_str(result), RPC_INVALID_RESPONSE, "id is not an integer"});
    }
    static const char *const good[] = {"1", "17", "9007199254740993", "9223372036854775807"};
    for (size_t i = 0; i < KG_COUNT(good); i++) {
        kg_auto(kg_free) char *line = kg_format("{" V ",\"id\":%s,\"result\":1}", good[i]);
        struct rpc_message message;
        rpc_parse(kg_str(line), &message);
        assert_int_equal(message.kind, RPC_RESULT);
        assert_true(message.has_id);
        assert_int_equal(message.id, strtoll(good[i], NULL, 10));
    }
}

static void an_answer_without_an_id_is_none(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {KG_STR("{" V ",\"result\":1}"), RPC_INVALID_RESPONSE, "neither a method nor an id"},
        {KG_STR("{" V ",\"error\":{\"code\":1,\"message\":\"x\"}}"), RPC_INVALID_RESPONSE,
         "neither a method nor an id"},
        {KG_STR("{" V "}"), RPC_INVALID_RESPONSE, "neither a method nor an id"},
    };
    CHECK_ROWS(rows);
}

static void the_version_must_be_there(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {KG_STR("{\"id\":1,\"result\":1}"), RPC_INVALID_RESPONSE, "jsonrpc is not"},
        {KG_STR("{\"jsonrpc\":2.0,\"id\":1,\"result\":1}"), RPC_INVALID_RESPONSE, "jsonrpc"},
        {KG_STR("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"a.b\"}"), RPC_INVALID_REQUEST,
         "jsonrpc"},
        {KG_STR("{\"jsonrpc\":\"2.0 \",\"id\":1,\"method\":\"a.b\"}"), RPC_INVALID_REQUEST,
         "jsonrpc"},
        {KG_STR("{\"jsonrpc\":\"2.0\\u0000\",\"id\":1,\"method\":\"a.b\"}"), RPC_INVALID_REQUEST,
         "jsonrpc"},
        {KG_STR("{\"jsonrpc\":\"\",\"id\":1,\"method\":\"a.b\"}"), RPC_INVALID_REQUEST, "jsonrpc"},
        {KG_STR("{\"jsonrpc\":null,\"method\":\"a.b\"}"), RPC_INVALID_REQUEST, "jsonrpc"},
        {KG_STR("{\"jsonrpc\":\"2\\u002e0\",\"id\":1,\"method\":\"a.b\"}"), RPC_REQUEST, NULL},
        {KG_STR("{\"jsonrpc\":\"\\u0032\\u002e\\u0030\",\"method\":\"a.b\"}"), RPC_NOTIFICATION,
         NULL},
    };
    CHECK_ROWS(rows);
}

static void methods_and_params_of_the_wrong_type(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {KG_STR("{" V ",\"id\":1,\"method\":1}"), RPC_INVALID_REQUEST, "method is not a string"},
        {KG_STR("{" V ",\"id\":1,\"method\":null}"), RPC_INVALID_REQUEST, "method"},
        {KG_STR("{" V ",\"method\":[\"a\"]}"), RPC_INVALID_REQUEST, "method"},
        {KG_STR("{" V ",\"method\":\"a\\u0000b\"}"), RPC_INVALID_REQUEST, "method"},
        {KG_STR("{" V ",\"id\":1,\"method\":\"a\",\"params\":1}"), RPC_INVALID_REQUEST, "params"},
        {KG_STR("{" V ",\"id\":1,\"method\":\"a\",\"params\":\"{}\"}"), RPC_INVALID_REQUEST,
         "params"},
        {KG_STR("{" V ",\"id\":1,\"method\":\"a\",\"params\":null}"), RPC_INVALID_REQUEST,
         "params"},
        {KG_STR("{" V ",\"id\":1,\"method\":\"a\",\"result\":1}"), RPC_INVALID_REQUEST,
         "a request has a result"},
        {KG_STR("{" V ",\"id\":1,\"method\":\"a\",\"error\":{}}"), RPC_INVALID_REQUEST,
         "a request has a result or an error"},
    };
    CHECK_ROWS(rows);
}

static void check_method_of(const char *piece, size_t count, bool taken)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_text(&line, "{" V ",\"method\":\"");
    for (size_t i = 0; i < count; i++)
        kg_buf_text(&line, piece);
    kg_buf_text(&line, "\"}");
    struct rpc_message message;
    rpc_parse(kg_buf_view(&line), &message);
    assert_int_equal(message.kind, taken ? RPC_NOTIFICATION : RPC_INVALID_REQUEST);
    if (taken)
        assert_int_equal(strspn(message.method, "a"), count);
}

static void methods_are_bounded_as_they_read_and_not_as_they_are_written(void **state)
{
    (void)state;
    check_method_of("a", RPC_METHOD_MAX, true);
    check_method_of("a", RPC_METHOD_MAX + 1, false);
    check_method_of("\\u0061", RPC_METHOD_MAX, true);
    check_method_of("\\u0061", RPC_METHOD_MAX + 1, false);
    check_method_of("a", 1000000, false);
}

static void methods_come_decoded(void **state)
{
    (void)state;
    struct rpc_message message;
    rpc_parse(KG_STR("{" V ",\"method\":\"p\\u0069ng\\n\\u00e9\"}"), &message);
    assert_int_equal(message.kind, RPC_NOTIFICATION);
    assert_string_equal(message.method, "ping\n\xC3\xA9");
}

/* -- keys ------------------------------------------------------------------------------------- */

static void keys_are_compared_decoded(void **state)
{
    (void)state;
    struct rpc_message message;
    rpc_parse(KG_STR("{\"json\\u0072pc\":\"2.0\",\"\\u0069d\":7,\"\\u0072esult\":[1]}"), &message);
    assert_int_equal(message.kind, RPC_RESULT);
    assert_int_equal(message.id, 7);
    assert_true(kg_str_is(message.result, "[1]"));
}

static void no_key_of_the_envelope_may_come_twice(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {KG_STR("{" V ",\"id\":1,\"id\":2,\"result\":1}"), RPC_INVALID_RESPONSE, "twice"},
        {KG_STR("{" V ",\"id\":1,\"\\u0069d\":1,\"result\":1}"), RPC_INVALID_RESPONSE, "twice"},
        {KG_STR("{" V "," V ",\"id\":1,\"result\":1}"), RPC_INVALID_RESPONSE, "twice"},
        {KG_STR("{" V ",\"id\":1,\"result\":1,\"result\":1}"), RPC_INVALID_RESPONSE, "twice"},
        {KG_STR("{" V ",\"method\":\"a\",\"method\":\"b\"}"), RPC_INVALID_REQUEST, "twice"},
        {KG_STR("{" V ",\"method\":\"a\",\"params\":{},\"params\":{}}"), RPC_INVALID_REQUEST,
         "twice"},
        {KG_STR("{" V ",\"id\":1,\"x\":1,\"x\":2,\"result\":1}"), RPC_RESULT, NULL},
    };
    CHECK_ROWS(rows);
}

static void other_keys_mean_nothing(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {KG_STR("{" V ",\"id\":1,\"result\":1,\"__proto__\":{\"id\":2}}"), RPC_RESULT, NULL},
        {KG_STR("{\"__proto__\":{" V ",\"id\":1,\"result\":1}}"), RPC_NOISE, "not JSON-RPC"},
        {KG_STR("{" V ",\"id\":1,\"result\":1,\"extra\":{},\"\":[],\"ID\":2,\"id \":3}"),
         RPC_RESULT, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":1,\"id\\u0000\":3}"), RPC_RESULT, NULL},
        {KG_STR("{}"), RPC_NOISE, "not JSON-RPC"},
        {KG_STR("{\"level\":\"info\",\"params\":{}}"), RPC_NOISE, "not JSON-RPC"},
        {KG_STR("{\"level\":\"error\",\"error\":\"disk full\"}"), RPC_NOISE, "not JSON-RPC"},
        {KG_STR("{\"msg\":\"done\",\"id\":7}"), RPC_NOISE, "not JSON-RPC"},
        {KG_STR("{\"result\":1}"), RPC_NOISE, "not JSON-RPC"},
        {KG_STR("{\"id\":7,\"result\":1}"), RPC_INVALID_RESPONSE, "jsonrpc"},
    };
    CHECK_ROWS(rows);
}

/* -- what is no message ----------------------------------------------------------------------- */

static void an_array_is_a_batch_whatever_is_in_it(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {KG_STR("[]"), RPC_BATCH, NULL},
        {KG_STR(" [1,2] "), RPC_BATCH, NULL},
        {KG_STR("[{" V ",\"id\":1,\"result\":1}]"), RPC_BATCH, NULL},
        {KG_STR("[{" V ",\"id\":1,\"method\":\"a\"},{" V ",\"method\":\"b\"}]"), RPC_BATCH, NULL},
        {KG_STR("[{]"), RPC_NOISE, NULL},
        {KG_STR("["), RPC_NOISE, NULL},
    };
    CHECK_ROWS(rows);
}

static void a_batch_of_ten_thousand_is_still_a_batch(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    for (int i = 0; i < 10000; i++)
        kg_buf_printf(&line, "%c{" V ",\"id\":%d,\"result\":1}", i ? ',' : '[', i + 1);
    kg_buf_char(&line, ']');
    check_row(&(struct row){kg_buf_view(&line), RPC_BATCH, NULL});
}

static void what_is_not_one_json_value_is_noise(void **state)
{
    (void)state;
#define GOOD "{" V ",\"id\":1,\"result\":1}"
    static const struct row rows[] = {
        {KG_STR(""), RPC_NOISE, NULL},
        {KG_STR("\r"), RPC_NOISE, NULL},
        {KG_STR("Listening on stdio..."), RPC_NOISE, NULL},
        {KG_STR("null"), RPC_NOISE, "not an object"},
        {KG_STR("42"), RPC_NOISE, "not an object"},
        {KG_STR("\"text\""), RPC_NOISE, "not an object"},
        {KG_STR(GOOD GOOD), RPC_NOISE, NULL},
        {KG_STR(GOOD " " GOOD), RPC_NOISE, NULL},
        {KG_STR(GOOD ","), RPC_NOISE, NULL},
        {KG_STR(GOOD "x"), RPC_NOISE, NULL},
        {KG_STR(GOOD "\0"), RPC_NOISE, NULL},
        {KG_STR("\0" GOOD), RPC_NOISE, NULL},
        {KG_STR("\xEF\xBB\xBF" GOOD), RPC_NOISE, NULL},
        {KG_STR("\xFF\xFE{\0}\0"), RPC_NOISE, NULL},
        {KG_STR("{\0\"\0i\0d\0"), RPC_NOISE, NULL},
        {KG_STR("// comment\r" GOOD), RPC_NOISE, NULL},
        {KG_STR("{/**/" V ",\"id\":1,\"result\":1}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":NaN}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":Infinity}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":01}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":+1}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":'x'}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":1,}"), RPC_NOISE, NULL},
        {KG_STR("{," V ",\"id\":1,\"result\":1}"), RPC_NOISE, NULL},
        {KG_STR("{" V " \"id\":1,\"result\":1}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",id:1,\"result\":1}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\" 1,\"result\":1}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":,\"result\":1}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":1]"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":[1}"), RPC_NOISE, NULL},
    };
    CHECK_ROWS(rows);
}

static void bad_text_anywhere_spoils_the_line(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {KG_STR("{" V ",\"id\":1,\"result\":\"\xFF\"}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":\"\xC0\xAF\"}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":\"\xED\xA0\x80\"}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":\"\\ud800\"}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":\"\\udc00\\ud800\"}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":\"\\ud83d\\ude00\"}"), RPC_RESULT, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":1,\"\\ud800\":1}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":1,\"\xFF\":1}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":\"a\tb\"}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":\"a\0b\"}"), RPC_NOISE, NULL},
        {KG_STR("{" V ",\"id\":1,\"result\":\"\\x41\"}"), RPC_NOISE, NULL},
    };
    CHECK_ROWS(rows);
}

static void every_cut_of_a_message_is_noise(void **state)
{
    (void)state;
    struct kg_str whole =
        KG_STR("{" V ",\"id\":12,\"result\":{\"a\":[true,\"\\u00e9\"],\"b\":-1.5e3}}");
    for (size_t length = 0; length < whole.length; length++)
        check_row(&(struct row){{whole.data, length}, RPC_NOISE, NULL});
    check_row(&(struct row){whole, RPC_RESULT, NULL});
}

static enum rpc_kind kind_of_nested(const char *open, const char *close, size_t depth)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_text(&line, "{" V ",\"id\":1,\"result\":");
    for (size_t i = 0; i < depth; i++)
        kg_buf_text(&line, open);
    kg_buf_char(&line, '1');
    for (size_t i = 0; i < depth; i++)
        kg_buf_text(&line, close);
    kg_buf_char(&line, '}');
    struct rpc_message message;
    rpc_parse(kg_buf_view(&line), &message);
    assert_int_equal(message.kind == RPC_NOISE ? message.fault : KG_JSON_DEPTH, KG_JSON_DEPTH);
    return message.kind;
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(kind_of_nested("[", "]", KG_JSON_DEPTH_MAX), RPC_RESULT);
    assert_int_equal(kind_of_nested("[", "]", KG_JSON_DEPTH_MAX + 1), RPC_NOISE);
    assert_int_equal(kind_of_nested("{\"a\":", "}", 10000), RPC_NOISE);
    assert_int_equal(kind_of_nested("[", "]", 200000), RPC_NOISE);
}

static void numbers_of_any_size_pass_as_they_are(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_text(&line, "{" V ",\"id\":1,\"result\":[1e400,-0,");
    for (int i = 0; i < 1000000; i++)
        kg_buf_char(&line, '9');
    kg_buf_text(&line, "]}");
    check_row(&(struct row){kg_buf_view(&line), RPC_RESULT, NULL});
}

/* -- spans ------------------------------------------------------------------------------------ */

static void assert_span(struct kg_str line, struct kg_str span, const char *wanted)
{
    const char *place = strstr(line.data, wanted);
    assert_non_null(place);
    assert_ptr_equal(span.data, place);
    assert_int_equal(span.length, strlen(wanted));
}

static void spans_are_the_bytes_of_the_line(void **state)
{
    (void)state;
    struct rpc_message message;
    struct kg_str line =
        KG_STR("{" V ", \"id\" : 3 , \"result\" : { \"a\" : [ 1.50, \"\\u0041\" ] } }");
    rpc_parse(line, &message);
    assert_span(line, message.result, "{ \"a\" : [ 1.50, \"\\u0041\" ] }");
    assert_null(message.error.data);
    assert_null(message.params.data);

    line = KG_STR("{" V ",\"id\":3,\"error\":{\"code\": -1,\"message\":\"x\"}}");
    rpc_parse(line, &message);
    assert_span(line, message.error, "{\"code\": -1,\"message\":\"x\"}");
    assert_null(message.result.data);

    line = KG_STR("{" V ",\"method\":\"m\",\"params\":\t[ ]\t}");
    rpc_parse(line, &message);
    assert_span(line, message.params, "[ ]");

    line = KG_STR("{" V ",\"method\":\"m\"}");
    rpc_parse(line, &message);
    assert_null(message.params.data);
}

static void a_bad_request_still_tells_its_id(void **state)
{
    (void)state;
    struct rpc_message message;
    rpc_parse(KG_STR("{" V ",\"id\":12,\"method\":5}"), &message);
    assert_int_equal(message.kind, RPC_INVALID_REQUEST);
    assert_true(message.has_id);
    assert_int_equal(message.id, 12);
    rpc_parse(KG_STR("{" V ",\"id\":\"x\",\"method\":5}"), &message);
    assert_false(message.has_id);
}

static void error_code_and_message_are_decoded(void **state)
{
    (void)state;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_str error = KG_STR("{\"code\":-32004,\"message\":\"no \\\"key\\\" \\u00e9\"}");
    assert_int_equal(rpc_error_code(error), -32004);
    kg_buf_text(&text, "> ");
    rpc_error_message(error, &text);
    assert_true(kg_str_is(kg_buf_view(&text), "> no \"key\" \xC3\xA9"));
    text.length = 0;
    rpc_error_message(KG_STR("{\"code\":1,\"message\":\"\"}"), &text);
    assert_int_equal(text.length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_and_notifications),
        cmocka_unit_test(results_and_errors),
        cmocka_unit_test(the_quick_way_finds_what_the_other_finds),
        cmocka_unit_test(the_quick_way_takes_ids_of_any_length),
        cmocka_unit_test(errors_of_the_wrong_shape),
        cmocka_unit_test(ids_are_positive_plain_integers_and_nothing_else),
        cmocka_unit_test(an_answer_without_an_id_is_none),
        cmocka_unit_test(the_version_must_be_there),
        cmocka_unit_test(methods_and_params_of_the_wrong_type),
        cmocka_unit_test(methods_are_bounded_as_they_read_and_not_as_they_are_written),
        cmocka_unit_test(methods_come_decoded),
        cmocka_unit_test(keys_are_compared_decoded),
        cmocka_unit_test(no_key_of_the_envelope_may_come_twice),
        cmocka_unit_test(other_keys_mean_nothing),
        cmocka_unit_test(an_array_is_a_batch_whatever_is_in_it),
        cmocka_unit_test(a_batch_of_ten_thousand_is_still_a_batch),
        cmocka_unit_test(what_is_not_one_json_value_is_noise),
        cmocka_unit_test(bad_text_anywhere_spoils_the_line),
        cmocka_unit_test(every_cut_of_a_message_is_noise),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(numbers_of_any_size_pass_as_they_are),
        cmocka_unit_test(spans_are_the_bytes_of_the_line),
        cmocka_unit_test(a_bad_request_still_tells_its_id),
        cmocka_unit_test(error_code_and_message_are_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
