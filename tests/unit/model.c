/* What kaged-model makes of requests and of the streams that answer them, without a network. */
#include "model/worker/internal.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- helpers ----------------------------------------------------------------------------------- */

/* A request for the kind with more members, in JSON without the braces. */
static struct request *request_of(const char *kind, const char *more, struct failure *failure)
{
    kg_auto(kg_free) char *params =
        kg_format("{\"kind\":\"%s\",\"url\":\"https://h\",\"model\":\"m\"%s%s}", kind,
                  more[0] != '\0' ? "," : "", more);
    return request_new(7, kg_str(params), failure);
}

static struct request *must_make(const char *kind, const char *more)
{
    struct failure failure = {0};
    struct request *request = request_of(kind, more, &failure);
    if (request == NULL)
        fail_msg("%s: %s", more, failure.message);
    return request;
}

static void assert_body(const char *kind, const char *more, const char *body)
{
    struct request *request = must_make(kind, more);
    assert_string_equal(kg_buf_terminate(&request->body), body);
    request_free(request);
}

/* Drops what is the same in every line, for tests that can be read. */
static void strip(struct kg_buf *lines, struct kg_buf *out)
{
    static const char *const same[] = {
        "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"id\":7,", "}}\n"};
    const char *at = kg_buf_terminate(lines), *found;
    while ((found = strstr(at, same[0])) != NULL) {
        at = found + strlen(same[0]);
        const char *end = strstr(at, same[1]);
        kg_buf_append(out, at, (size_t)(end - at));
        kg_buf_char(out, '\n');
        at = end;
    }
}

/* Runs a stream through, in pieces of that size; events, then "= stop_reason" or "! failure". */
static char *told(const struct request *request, struct kg_str stream, size_t piece)
{
    kg_auto(kg_buf_free) struct kg_buf lines = {0};
    struct kg_buf out = {0};
    struct answer *answer = answer_new(request, &lines);
    int result = 0;
    for (size_t at = 0; at < stream.length && result == 0; at += piece) {
        size_t left = stream.length - at;
        result =
            answer_feed(answer, (struct kg_str){stream.data + at, left < piece ? left : piece});
    }
    if (result == 0)
        result = answer_finish(answer);
    strip(&lines, &out);
    if (result == 0)
        kg_buf_printf(&out, "= %s", answer->stop_reason);
    else
        kg_buf_printf(&out, "! %s: %s", failure_name(answer->failure.code),
                      answer->failure.message);
    answer_free(answer);
    return kg_buf_terminate(&out);
}

static void assert_told_for(const struct request *request, const char *stream, const char *wanted)
{
    kg_auto(kg_free) char *got = told(request, kg_str(stream), strlen(stream) + 1);
    assert_string_equal(got, wanted);
    kg_auto(kg_free) char *in_pieces = told(request, kg_str(stream), 1);
    /* Text goes out as it comes: only the rest is the same. */
    const char *rest = strrchr(wanted, '\n'), *got_rest = strrchr(in_pieces, '\n');
    assert_string_equal(got_rest ? got_rest : in_pieces, rest ? rest : wanted);
}

static void assert_told(const char *kind, const char *stream, const char *wanted)
{
    struct request *request = must_make(kind, "\"messages\":[]");
    assert_told_for(request, stream, wanted);
    request_free(request);
}

/* -- bodies ------------------------------------------------------------------------------------ */

#define CONVERSATION                                                                               \
    "\"system\":\"Be kind.\",\"messages\":["                                                       \
    "{\"role\":\"system\",\"content\":\"And short.\"},"                                            \
    "{\"role\":\"user\",\"content\":\"What is there?\"},"                                          \
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":["                                    \
    "{\"id\":\"c1\",\"name\":\"fs__list\",\"arguments\":{\"path\":\"/\"}},"                        \
    "{\"id\":\"c2\",\"name\":\"fs__list\",\"arguments\":{}}]},"                                    \
    "{\"role\":\"system\",\"content\":\"A note.\"},"                                               \
    "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"a b\"},"                             \
    "{\"role\":\"tool\",\"tool_call_id\":\"c2\",\"content\":\"no\",\"is_error\":true},"            \
    "{\"role\":\"assistant\",\"content\":\"a and b\"},"                                            \
    "{\"role\":\"user\",\"content\":\"Thanks\"}],"                                                 \
    "\"tools\":[{\"name\":\"fs__list\",\"description\":\"Lists\",\"parameters\":"                  \
    "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"}}}},{\"name\":\"now\"}],"  \
    "\"max_tokens\":100,\"temperature\":0.50"

static void a_conversation_becomes_chat_completions(void **state)
{
    (void)state;
    assert_body(
        "openai", CONVERSATION,
        "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"Be kind.\"},"
        "{\"role\":\"system\",\"content\":\"And short.\"},"
        "{\"role\":\"user\",\"content\":\"What is there?\"},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
        "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"fs__list\","
        "\"arguments\":\"{\\\"path\\\":\\\"/\\\"}\"}},"
        "{\"id\":\"c2\",\"type\":\"function\",\"function\":{\"name\":\"fs__list\","
        "\"arguments\":\"{}\"}}]},"
        "{\"role\":\"system\",\"content\":\"A note.\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"a b\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c2\",\"content\":\"no\"},"
        "{\"role\":\"assistant\",\"content\":\"a and b\"},"
        "{\"role\":\"user\",\"content\":\"Thanks\"}],"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"fs__list\","
        "\"description\":\"Lists\",\"parameters\":{\"type\":\"object\",\"properties\":"
        "{\"path\":{\"type\":\"string\"}}}}},{\"type\":\"function\",\"function\":{\"name\":\"now\","
        "\"parameters\":{\"type\":\"object\",\"properties\":{}}}}],"
        "\"max_tokens\":100,\"temperature\":0.50,\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true}}");
}

static void a_conversation_becomes_messages(void **state)
{
    (void)state;
    assert_body(
        "anthropic", CONVERSATION,
        "{\"model\":\"m\",\"max_tokens\":100,\"system\":\"Be kind.\\n\\nAnd short.\",\"messages\":["
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"What is there?\"}]},"
        "{\"role\":\"assistant\",\"content\":["
        "{\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"fs__list\",\"input\":{\"path\":\"/\"}},"
        "{\"type\":\"tool_use\",\"id\":\"c2\",\"name\":\"fs__list\",\"input\":{}}]},"
        "{\"role\":\"user\",\"content\":["
        "{\"type\":\"tool_result\",\"tool_use_id\":\"c1\",\"content\":\"a b\"},"
        "{\"type\":\"tool_result\",\"tool_use_id\":\"c2\",\"content\":\"no\","
        "\"is_error\":true},"
        "{\"type\":\"text\",\"text\":\"<system>\\nA note.\\n</system>\"}]},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a and b\"}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Thanks\"}]}],"
        "\"tools\":[{\"name\":\"fs__list\",\"description\":\"Lists\",\"input_schema\":"
        "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"}}}},"
        "{\"name\":\"now\",\"input_schema\":{\"type\":\"object\",\"properties\":{}}}],"
        "\"temperature\":0.50,\"stream\":true}");
}

static void what_is_not_said_is_left_out(void **state)
{
    (void)state;
    assert_body("openai", "\"messages\":[{\"role\":\"user\"}]",
                "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"
                "\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    assert_body("anthropic",
                "\"messages\":[{\"role\":\"user\"},{\"role\":\"assistant\",\"content\":\"\"}]",
                "{\"model\":\"m\",\"max_tokens\":4096,\"messages\":[],\"stream\":true}");
}

static void a_model_that_reasons_is_asked_in_its_own_way(void **state)
{
    (void)state;
    assert_body("openai", "\"messages\":[],\"reasoning\":true,\"max_tokens\":5,\"temperature\":1",
                "{\"model\":\"m\",\"messages\":[],\"max_completion_tokens\":5,"
                "\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
}

/* -- requests ---------------------------------------------------------------------------------- */

static void assert_list(char *const *list, const char *wanted)
{
    kg_auto(kg_buf_free) struct kg_buf all = {0};
    for (; *list != NULL; list++)
        kg_buf_printf(&all, "%s|", *list);
    assert_string_equal(kg_buf_terminate(&all), wanted);
}

static void key_and_headers_go_to_the_right_place(void **state)
{
    (void)state;
    struct request *request =
        must_make("anthropic", "\"messages\":[],\"key\":\"s3cret\",\"headers\":{\"X-Team\":\"t\","
                               "\"Anthropic-Version\":\"new\"}");
    assert_string_equal(request->url, "https://h/v1/messages");
    assert_list(request->headers, "X-Team: t|Anthropic-Version: new|x-api-key: s3cret|"
                                  "Content-Type: application/json|Accept: text/event-stream|"
                                  "Expect:|");
    assert_list(request->secrets, "t|new|s3cret|");
    request_free(request);
    request = must_make("openai", "\"messages\":[],\"key\":\"k\"");
    assert_string_equal(request->url, "https://h/chat/completions");
    assert_list(request->headers, "Authorization: Bearer k|Content-Type: application/json|"
                                  "Accept: text/event-stream|Expect:|");
    request_free(request);
}

static void a_request_that_does_not_fit_is_refused_in_words(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "messages is a list"},
        {"\"messages\":{}", "messages is a list"},
        {"\"messages\":[1]", "the role of a message is system, user, assistant or tool"},
        {"\"messages\":[{\"role\":\"robot\"}]",
         "the role of a message is system, user, assistant or tool"},
        {"\"messages\":[{\"role\":\"user\",\"content\":[]}]",
         "the content of a message is a string"},
        {"\"messages\":[{\"role\":\"tool\"}]", "a message of a tool has a tool_call_id"},
        {"\"messages\":[{\"role\":\"user\",\"tool_calls\":[]}]",
         "tool_calls is a list in a message of the assistant"},
        {"\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"name\":\"b\","
         "\"arguments\":\"{}\"}]}]",
         "a tool call has an id, a name and an object of arguments"},
        {"\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"name\":\"b.c\","
         "\"arguments\":{}}]}]",
         "a tool call has an id, a name and an object of arguments"},
        {"\"messages\":[{\"role\":\"tool\",\"tool_call_id\":\"a:0\"}]",
         "a message of a tool has a tool_call_id"},
        {"\"messages\":[],\"tools\":[{}]",
         "a tool has a name, a description and an object of parameters"},
        {"\"messages\":[],\"max_tokens\":-1", "max_tokens is a number"},
        {"\"messages\":[],\"temperature\":\"1\"", "temperature is a number"},
        {"\"messages\":[],\"limits\":{\"retries\":11}", "limits.retries is out of range"},
        {"\"messages\":[],\"headers\":{\"a\":\"b\\r\\nc: d\"}", "headers are texts of a line"},
        {"\"messages\":[],\"key\":\"b\\nc: d\"", "headers are texts of a line"},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct failure failure = {0};
        kg_auto(kg_free) char *message = kg_format("the request: %s", rows[i][1]);
        assert_null(request_of("openai", rows[i][0], &failure));
        assert_int_equal(failure.code, MODEL_INVALID);
        assert_string_equal(failure.message, message);
    }
    struct failure failure = {0};
    assert_null(request_of("gemini", "\"messages\":[]", &failure));
    assert_null(request_new(1, KG_STR("[]"), &failure));
    assert_null(request_new(1, KG_STR("{"), &failure));
    request_free(NULL);
}

/* -- streams of chat completions --------------------------------------------------------------- */

#define CHUNK(delta)   "data: {\"choices\":[{\"index\":0,\"delta\":" delta "}]}\n\n"
#define FINISH(reason) "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"" reason "\"}]}\n\n"
#define DONE           "data: [DONE]\n\n"

static void text_of_a_chat_comes_as_deltas(void **state)
{
    (void)state;
    assert_told("openai",
                ": comment\n\n" CHUNK("{\"role\":\"assistant\",\"content\":\"\"}")
                    CHUNK("{\"content\":\"Hel\"}") CHUNK("{\"content\":\"lo\"}")
                        FINISH("stop") "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
                                       "\"completion_tokens\":2,\"prompt_tokens_details\":"
                                       "{\"cached_tokens\":4}}}\n\n" DONE,
                "\"delta\":\"Hello\"\n"
                "\"usage\":{\"input_tokens\":9,\"cached_tokens\":4,\"output_tokens\":2}\n"
                "= stop");
}

static void tool_calls_of_a_chat_are_put_together(void **state)
{
    (void)state;
    assert_told(
        "openai",
        CHUNK("{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"fs__list\","
              "\"arguments\":\"\"}}]}")
            CHUNK(
                "{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"p\\\":\\n\"}}]}")
                CHUNK(
                    "{\"tool_calls\":[{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"now\"}}]}")
                    CHUNK(
                        "{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"[1.50]}\"}}]}")
                        FINISH("tool_calls") DONE,
        "\"tool_call\":{\"id\":\"a\",\"name\":\"fs__list\",\"arguments\":{\"p\":[1.50]}}\n"
        "\"tool_call\":{\"id\":\"b\",\"name\":\"now\",\"arguments\":{}}\n"
        "= tool_calls");
}

/* As some providers send them: all at once, under one index, and "stop" behind. */
static void tool_calls_with_one_index_are_told_apart_by_id(void **state)
{
    (void)state;
    assert_told("openai",
                CHUNK("{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\","
                      "\"arguments\":\"{\\\"n\\\":1}\"}},{\"index\":0,\"id\":\"b\",\"function\":"
                      "{\"name\":\"x\",\"arguments\":\"{\\\"n\\\":2}\"}}]}") FINISH("stop") DONE,
                "\"tool_call\":{\"id\":\"a\",\"name\":\"x\",\"arguments\":{\"n\":1}}\n"
                "\"tool_call\":{\"id\":\"b\",\"name\":\"x\",\"arguments\":{\"n\":2}}\n"
                "= tool_calls");
}

static void arguments_that_are_no_object_are_told_as_a_problem(void **state)
{
    (void)state;
    assert_told("openai",
                CHUNK("{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"x\","
                      "\"arguments\":\"{\\\"n\\\":\"}},{\"id\":\"b\",\"function\":{\"name\":\"x\","
                      "\"arguments\":\"[]\"}}]}") FINISH("tool_calls") DONE,
                "\"tool_call\":{\"id\":\"a\",\"name\":\"x\",\"arguments\":{},\"problem\":\"1:6: "
                "the text ends too early\"}\n"
                "\"tool_call\":{\"id\":\"b\",\"name\":\"x\",\"arguments\":{},\"problem\":\"they "
                "are not an object\"}\n"
                "= tool_calls");
}

static void a_call_without_an_id_of_its_own_gets_one(void **state)
{
    (void)state;
    struct request *request = must_make("openai", "\"messages\":[]");
    kg_auto(kg_free) char *got =
        told(request,
             KG_STR(CHUNK("{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"x\"}},"
                          "{\"index\":1,\"id\":\"a\",\"function\":{\"name\":\"y\"}},"
                          "{\"index\":2,\"id\":\"a\",\"function\":{\"name\":\"z\"}}]}") DONE),
             1000);
    assert_non_null(strstr(got, "{\"id\":\"call_0"));
    assert_non_null(strstr(got, "{\"id\":\"a\",\"name\":\"y\""));
    assert_null(strstr(got, "{\"id\":\"a\",\"name\":\"z\""));
    request_free(request);
}

static void reasons_to_stop_are_translated(void **state)
{
    (void)state;
    assert_told("openai", FINISH("length"), "= length");
    assert_told("openai", FINISH("content_filter") DONE, "= refused");
    assert_told("openai", FINISH("weather") DONE, "= other");
    assert_told("openai", DONE, "= other");
}

static void half_surrogates_do_not_lose_the_rest(void **state)
{
    (void)state;
    assert_told("openai", CHUNK("{\"content\":\"a\\uD83D\"}") FINISH("stop"),
                "\"delta\":\"a\xEF\xBF\xBD\"\n= stop");
    assert_told("openai", CHUNK("{\"content\":\"\\ude00\\ud83d\\ude00\\\\ud83d\"}") FINISH("stop"),
                "\"delta\":\"\xEF\xBF\xBD\xF0\x9F\x98\x80\\\\ud83d\"\n= stop");
}

/* -- streams of messages ----------------------------------------------------------------------- */

#define EVENT(type, more) "event: " type "\r\ndata: {\"type\":\"" type "\"" more "}\r\n\r\n"
#define BLOCK_TEXT(text)                                                                           \
    EVENT("content_block_delta",                                                                   \
          ",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" text "\"}")

static void a_message_comes_as_deltas_and_calls(void **state)
{
    (void)state;
    assert_told(
        "anthropic",
        EVENT("message_start", ",\"message\":{\"usage\":{\"input_tokens\":10,\"output_tokens\":1,"
                               "\"cache_read_input_tokens\":5}}")
            EVENT("content_block_start", ",\"index\":0,\"content_block\":{\"type\":\"thinking\"}")
                EVENT("content_block_delta", ",\"index\":0,\"delta\":{\"type\":\"thinking_delta\","
                                             "\"thinking\":\"hm\"}") EVENT("ping", "")
                    EVENT("content_block_start",
                          ",\"index\":1,\"content_block\":{\"type\":\"text\","
                          "\"text\":\"\"}") BLOCK_TEXT("Let ") BLOCK_TEXT("me")
                        EVENT("content_block_stop", ",\"index\":1")
                            EVENT("content_block_start",
                                  ",\"index\":2,\"content_block\":{\"type\":\"tool_use\","
                                  "\"id\":\"toolu_1\",\"name\":\"fs__list\",\"input\":{}}")
                                EVENT("content_block_delta",
                                      ",\"index\":2,\"delta\":{\"type\":\"input_json_delta\","
                                      "\"partial_json\":\"{\\\"p\\\":\"}")
                                    EVENT("content_block_delta",
                                          ",\"index\":2,\"delta\":{\"type\":\"input_json_delta\","
                                          "\"partial_json\":\"\\\"/\\\"}\"}")
                                        EVENT("message_delta",
                                              ",\"delta\":{\"stop_reason\":\"tool_use\"},"
                                              "\"usage\":{\"output_tokens\":30}")
                                            EVENT("message_stop", ""),
        "\"reasoning\":\"hm\"\n"
        "\"delta\":\"Let me\"\n"
        "\"tool_call\":{\"id\":\"toolu_1\",\"name\":\"fs__list\",\"arguments\":{\"p\":\"/\"}}\n"
        "\"usage\":{\"input_tokens\":15,\"cached_tokens\":5,\"output_tokens\":30}\n"
        "= tool_calls");
}

static void a_block_that_comes_whole_is_taken_whole(void **state)
{
    (void)state;
    assert_told("anthropic",
                EVENT("content_block_start", ",\"content_block\":{\"type\":\"tool_use\",\"id\":"
                                             "\"t\",\"name\":\"x\",\"input\":{\"a\":1}}")
                    EVENT("message_stop", ""),
                "\"tool_call\":{\"id\":\"t\",\"name\":\"x\",\"arguments\":{\"a\":1}}\n"
                "= tool_calls");
}

static void an_error_in_the_stream_is_classified(void **state)
{
    (void)state;
    assert_told("anthropic",
                EVENT("error", ",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}"),
                "! overloaded: the provider broke off with an error: busy");
    assert_told("openai", "data: {\"error\":{\"message\":\"oops\\u0007\"}}\n\n",
                "! server_error: the provider broke off with an error: oops\\x07");
    assert_told("openai", "data: {\"error\":\"plain\"}\n\n",
                "! server_error: the provider broke off with an error: plain");
}

/* -- what is wrong ----------------------------------------------------------------------------- */

static void a_stream_that_is_cut_is_told(void **state)
{
    (void)state;
    static const char lost[] =
        "! connection_lost: the provider broke the answer off before its end";
    kg_auto(kg_free) char *after = kg_format("\"delta\":\"Hel\"\n%s", lost);
    assert_told("openai", "", lost);
    assert_told("openai", CHUNK("{\"content\":\"Hel\"}"), after);
    assert_told("anthropic", BLOCK_TEXT("Hel"), after);
}

static void garbage_is_told(void **state)
{
    (void)state;
    static const char bad[] = "! bad_answer: the provider sent an event that is no JSON object";
    assert_told("openai", "data: {\n\n", bad);
    assert_told("openai", "data: 1\n\n", bad);
    assert_told("openai", "data: {\"a\":1}\ndata: {\"b\":2}\n\n", bad);
    assert_told("anthropic", "data:\n\n", bad);
    assert_told("openai", "<html>\n\n</html>",
                "! connection_lost: the provider broke the answer off before its end");
    assert_told("openai", CHUNK("{\"tool_calls\":[{\"index\":0}]}") DONE,
                "! bad_answer: the provider sent a tool call without a name");
}

static void fields_of_wrong_types_are_passed_over(void **state)
{
    (void)state;
    assert_told("openai",
                "data: {\"choices\":{}}\n\ndata: {\"choices\":[1]}\n\n"
                "data: {\"choices\":[{\"delta\":[]}],\"usage\":7}\n\n" CHUNK("{\"content\":1}")
                    CHUNK("{\"content\":null,\"tool_calls\":{}}") DONE,
                "= other");
    assert_told("anthropic",
                "data: {}\n\ndata: {\"type\":1}\n\n" EVENT("message_start", ",\"message\":1")
                    EVENT("content_block_delta", "") EVENT("message_delta", ",\"delta\":[]")
                        EVENT("message_stop", ""),
                "= other");
}

static void every_bound_holds(void **state)
{
    (void)state;
    struct request *request =
        must_make("openai", "\"messages\":[],\"limits\":{\"answer_bytes\":400,\"event_bytes\":150,"
                            "\"tool_calls\":2,\"argument_bytes\":3}");
#define CALL(index, arguments)                                                                     \
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":" index                            \
    ",\"function\":{\"arguments\":\"" arguments "\"}}]}}]}\n\n"
    assert_told_for(request, CALL("0", "abcd"),
                    "! answer_too_large: the arguments of a tool call have more than 3 bytes");
    assert_told_for(request, CALL("0", "ab") CALL("0", "cd"),
                    "! answer_too_large: the arguments of a tool call have more than 3 bytes");
    assert_told_for(request, CALL("0", "") CALL("1", "") CALL("2", ""),
                    "! answer_too_large: the model made more than 2 tool calls");
    kg_auto(kg_buf_free) struct kg_buf stream = {0};
    for (int i = 0; i < 401; i++)
        kg_buf_text(&stream, i % 10 ? "x" : "\n");
    assert_told_for(request, kg_buf_terminate(&stream),
                    "! answer_too_large: the answer has more than 400 bytes");
    stream.length = 0;
    for (int i = 0; i < 151; i++)
        kg_buf_text(&stream, "x");
    assert_told_for(request, kg_buf_terminate(&stream),
                    "! answer_too_large: the provider sent an event of more than 150 bytes");
    request_free(request);
}

/* -- answers without a stream ------------------------------------------------------------------ */

static void an_answer_that_is_an_error_is_classified(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *body, *code, *message;
    } rows[] = {
        {400, "{\"error\":{\"message\":\"bad\"}}", "invalid_request",
         "the provider answered 400: bad"},
        {400, "{\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"long\"}}",
         "context_too_long", "the provider answered 400: long"},
        {400,
         "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":"
         "\"prompt is too long: 9 tokens\"}}",
         "context_too_long", "the provider answered 400: prompt is too long: 9 tokens"},
        {400, "2", "invalid_request", "the provider answered 400"},
        {401, "", "unauthorized", "the provider answered 401"},
        {404, "{\"detail\":\"Not Found\"}", "not_found", "the provider answered 404: Not Found"},
        {429, "{\"error\":\"slow\"}", "rate_limited", "the provider answered 429: slow"},
        {429, "{\"error\":{\"code\":\"insufficient_quota\"}}", "quota_exhausted",
         "the provider answered 429"},
        {500, "<h1>\x1B[2J</h1>", "server_error", "the provider answered 500: <h1>\\x1b[2J</h1>"},
        {529, "null", "overloaded", "the provider answered 529"},
        {200, "", "bad_answer", "the provider answered 200"},
    };
    char *secrets[] = {NULL};
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct failure failure = {0};
        failure_from_answer(&failure, rows[i].status, kg_str(rows[i].body), secrets);
        assert_string_equal(failure_name(failure.code), rows[i].code);
        assert_string_equal(failure.message, rows[i].message);
        assert_int_equal(failure.status, rows[i].status);
    }
}

/* Freed of the key first, and cut then: no part of it is left at the end. */
static void a_key_that_comes_back_is_not_shown(void **state)
{
    (void)state;
    char *secrets[] = {"s3cret-key", "team", "", NULL};
    struct failure failure = {0};
    failure_from_answer(&failure, 401, KG_STR("{\"error\":\"no s3cret-key for team, s3cret-key\"}"),
                        secrets);
    assert_string_equal(failure.message,
                        "the provider answered 401: no [secret] for [secret], [secret]");
    for (size_t before = 285; before < 301; before++) {
        kg_auto(kg_buf_free) struct kg_buf body = {0};
        for (size_t i = 0; i < before; i++)
            kg_buf_char(&body, '.');
        kg_buf_text(&body, "s3cret-key");
        failure = (struct failure){0};
        failure_from_answer(&failure, 401, kg_buf_view(&body), secrets);
        assert_null(strstr(failure.message, "s3"));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_becomes_chat_completions),
        cmocka_unit_test(a_conversation_becomes_messages),
        cmocka_unit_test(what_is_not_said_is_left_out),
        cmocka_unit_test(a_model_that_reasons_is_asked_in_its_own_way),
        cmocka_unit_test(key_and_headers_go_to_the_right_place),
        cmocka_unit_test(a_request_that_does_not_fit_is_refused_in_words),
        cmocka_unit_test(text_of_a_chat_comes_as_deltas),
        cmocka_unit_test(tool_calls_of_a_chat_are_put_together),
        cmocka_unit_test(tool_calls_with_one_index_are_told_apart_by_id),
        cmocka_unit_test(arguments_that_are_no_object_are_told_as_a_problem),
        cmocka_unit_test(a_call_without_an_id_of_its_own_gets_one),
        cmocka_unit_test(reasons_to_stop_are_translated),
        cmocka_unit_test(half_surrogates_do_not_lose_the_rest),
        cmocka_unit_test(a_message_comes_as_deltas_and_calls),
        cmocka_unit_test(a_block_that_comes_whole_is_taken_whole),
        cmocka_unit_test(an_error_in_the_stream_is_classified),
        cmocka_unit_test(a_stream_that_is_cut_is_told),
        cmocka_unit_test(garbage_is_told),
        cmocka_unit_test(fields_of_wrong_types_are_passed_over),
        cmocka_unit_test(every_bound_holds),
        cmocka_unit_test(an_answer_that_is_an_error_is_classified),
        cmocka_unit_test(a_key_that_comes_back_is_not_shown),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
