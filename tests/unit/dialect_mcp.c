/* What kaged says to MCP servers of both eras, and what it makes of what they say. The test plays
 * the server, by a table of answers. */
#include "talk.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- the server -------------------------------------------------------------------------------- */

/* One answer for each request of that method: what follows the id. NULL: none. */
struct answer {
    const char *method, *members;
};

#define LEGACY_HELLO                                                                               \
    "\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{\"listChanged\":" \
    "true},\"prompts\":{},\"logging\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}"
#define MODERN_HELLO                                                                               \
    "\"result\":{\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\","              \
    "\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{\"listChanged\":true},"   \
    "\"resources\":{}}}"
#define UNKNOWN    "\"error\":{\"code\":-32601,\"message\":\"Method not found\"}"
#define ONE_TOOL   "\"result\":{\"tools\":[{\"name\":\"get.Sum\",\"inputSchema\":{}}]}"
#define ONE_LISTED "[{\"name\":\"get.Sum\",\"inputSchema\":{}}]"

static const struct answer legacy[] = {
    {"server/discover", UNKNOWN}, {"initialize", LEGACY_HELLO}, {"tools/list", ONE_TOOL}, {NULL}};
static const struct answer modern[] = {
    {"server/discover", MODERN_HELLO}, {"tools/list", ONE_TOOL}, {NULL}};

struct rig {
    struct talk_rig base;
    struct kg_buf all; /* that the server was told */
    const struct answer *answers;
    struct kg_buf log;
    bool has_root;
    bool offered[2];
};

static bool put_roots(void *data, struct kg_json_writer *json)
{
    struct rig *rig = data;
    if (json != NULL)
        kg_json_raw(json, KG_STR("{\"uri\":\"file:///p\"}"));
    return rig->has_root;
}

static void on_tools(void *data)
{
    struct rig *rig = data;
    kg_buf_printf(&rig->base.told, "tools %.*s|", KG_STR_ARG(kg_buf_view(&rig->base.talk.tools)));
}

static void on_log(void *data, struct kg_str line, struct kg_str message)
{
    (void)message;
    kg_buf_printf(&((struct rig *)data)->log, "%.*s|", KG_STR_ARG(line));
}

static const struct dialect_ops talk_ops = {.on_ready = talk_rig_on_ready,
                                            .on_failed = talk_rig_on_failed,
                                            .put_roots = put_roots,
                                            .on_tools = on_tools,
                                            .on_log = on_log};

static void on_request(void *data, int64_t request, struct kg_str method, struct kg_str params)
{
    struct rig *rig = data;
    if (!dialect_mcp.on_request(&rig->base.talk, request, method, params))
        peer_answer_error(rig->base.talk.peer, request, -32601, "no");
}

static void on_notification(void *data, struct kg_str method, struct kg_str params)
{
    struct rig *rig = data;
    static const char *const names[] = {"news", "taken", "noise"};
    enum dialect_hearing heard = dialect_mcp.on_notification(&rig->base.talk, method, params);
    kg_buf_printf(&rig->log, "%s|", names[heard]);
}

static void on_noise(void *data, struct kg_str line, const char *problem)
{
    (void)problem;
    kg_buf_printf(&((struct rig *)data)->log, "noise %.*s|", KG_STR_ARG(line));
}

static void on_violation(void *data, enum peer_violation violation, const char *detail)
{
    (void)detail;
    kg_buf_printf(&((struct rig *)data)->log, "%s|", peer_violation_name(violation));
}

static const struct peer_ops peer_ops = {.on_request = on_request,
                                         .on_noise = on_noise,
                                         .on_violation = on_violation,
                                         .on_notification = on_notification};
static char *methods[] = {"prompts/list", "resources/read", NULL};

static void answer(struct talk_rig *base, struct kg_str line)
{
    struct rig *rig = KG_CONTAINER(base, struct rig, base);
    struct kg_str id, method;
    kg_buf_str(&rig->all, line);
    kg_buf_char(&rig->all, '\n');
    if (!kg_json_member(line, "id", &id) || !kg_json_member(line, "method", &method))
        return;
    for (const struct answer *row = rig->answers; row->method != NULL; row++) {
        kg_auto(kg_free) char *quoted = kg_format("\"%s\"", row->method);
        if (!kg_str_is(method, quoted) || row->members == NULL)
            continue;
        kg_auto(kg_free) char *whole =
            kg_format("{" V ",\"id\":%.*s,%s}", KG_STR_ARG(id), row->members);
        talk_rig_say(base, whole);
        return;
    }
}

static struct rig *rig_new(const struct answer *answers)
{
    struct rig *rig = kg_alloc(sizeof(*rig));
    talk_rig_open(&rig->base, &dialect_mcp, &talk_ops, &peer_ops);
    rig->base.on_line = answer;
    rig->answers = answers;
    rig->base.talk.methods = methods;
    rig->base.talk.method_offered = rig->offered;
    return rig;
}

static void rig_free(struct rig *rig)
{
    talk_rig_close(&rig->base);
    kg_buf_free(&rig->all);
    kg_buf_free(&rig->log);
    free(rig);
}

static void say(struct rig *rig, const char *line)
{
    talk_rig_say(&rig->base, line);
}

/* Until that was said: to us, or to the server. */
static void wait_for(struct rig *rig, struct kg_buf *where, const char *words)
{
    talk_rig_wait(&rig->base, where, words);
}

static struct rig *greeted(const struct answer *answers)
{
    struct rig *rig = rig_new(answers);
    dialect_begin(&rig->base.talk);
    wait_for(rig, &rig->base.told, "ready|");
    return rig;
}

/* -- the greeting ------------------------------------------------------------------------------ */

#define CLIENT "{\"name\":\"kaged\",\"version\":\"" KAGED_VERSION "\"}"
#define META                                                                                       \
    "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                  \
    "\"io.modelcontextprotocol/clientInfo\":" CLIENT                                               \
    ",\"io.modelcontextprotocol/clientCapabilities\":{}"

static void a_legacy_server_is_initialized_after_it_did_not_know_discovery(void **state)
{
    (void)state;
    struct rig *rig = greeted(legacy);
    assert_string_equal(kg_buf_terminate(&rig->base.told), "tools " ONE_LISTED "|ready|");
    assert_string_equal(
        kg_buf_terminate(&rig->all),
        "{" V ",\"id\":1,\"method\":\"server/discover\",\"params\":{\"_meta\":{" META "}}}\n"
        "{" V ",\"id\":2,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","
        "\"capabilities\":{},\"clientInfo\":" CLIENT "}}\n"
        "{" V ",\"method\":\"notifications/initialized\",\"params\":{}}\n"
        "{" V ",\"id\":3,\"method\":\"tools/list\",\"params\":{}}\n");
    assert_true(rig->base.talk.pings);
    assert_true(rig->offered[0]);  /* prompts */
    assert_false(rig->offered[1]); /* resources */
    rig_free(rig);
}

static void a_modern_server_is_not_initialized(void **state)
{
    (void)state;
    struct rig *rig = greeted(modern);
    wait_for(rig, &rig->all, "subscriptions/listen");
    assert_null(strstr(kg_buf_terminate(&rig->all), "initialize"));
    assert_non_null(strstr(kg_buf_terminate(&rig->all),
                           "\"method\":\"tools/list\",\"params\":{\"_meta\":{" META "}}"));
    assert_false(rig->base.talk.pings);
    assert_false(rig->offered[0]);
    assert_true(rig->offered[1]);
    rig_free(rig);
}

static void a_server_that_dies_of_discovery_is_not_asked_again(void **state)
{
    (void)state;
    static const struct answer dead[] = {{NULL}};
    struct rig *rig = rig_new(dead);
    dialect_begin(&rig->base.talk);
    wait_for(rig, &rig->all, "server/discover");
    assert_int_equal(rig->base.talk.variant, DIALECT_MCP_LEGACY);
    rig_free(rig);
}

static void an_unknown_revision_is_named(void **state)
{
    (void)state;
    static const struct answer odd[] = {
        {"server/discover", UNKNOWN},
        {"initialize", "\"result\":{\"protocolVersion\":\"1999-01-01\",\"capabilities\":{}}"},
        {NULL}};
    struct rig *rig = rig_new(odd);
    dialect_begin(&rig->base.talk);
    wait_for(rig, &rig->base.told, "rejected it speaks the revision \"1999-01-01\" of MCP");
    rig_free(rig);
}

#define SUPPORTS(version)                                                                          \
    "\"error\":{\"code\":-32022,\"message\":\"Unsupported\",\"data\":{\"supported\":[\"" version   \
    "\"]}}"

static void a_server_that_speaks_another_modern_revision_is_told_apart(void **state)
{
    (void)state;
    static const struct answer newer[] = {
        {"server/discover", SUPPORTS("2030-01-01")}, {"initialize", UNKNOWN}, {NULL}};
    struct rig *rig = rig_new(newer);
    dialect_begin(&rig->base.talk);
    wait_for(rig, &rig->base.told, "rejected it speaks the revision \"2030-01-01\" of MCP");
    rig_free(rig);
    static const struct answer known[] = {
        {"server/discover", "\"result\":{\"supportedVersions\":[\"2031-01-01\"]}"}, {NULL}};
    rig = rig_new(known);
    dialect_begin(&rig->base.talk);
    wait_for(rig, &rig->base.told, "rejected it speaks the revision \"2031-01-01\" of MCP");
    rig_free(rig);
    static const struct answer older[] = {{"server/discover", SUPPORTS("2025-06-18")},
                                          {"initialize", LEGACY_HELLO},
                                          {"tools/list", ONE_TOOL},
                                          {NULL}};
    rig_free(greeted(older));
}

/* -- calls ------------------------------------------------------------------------------------- */

static void on_progress(void *data, struct kg_str params)
{
    kg_buf_printf(&((struct rig *)data)->log, "progress %.*s|", KG_STR_ARG(params));
}

static void begin_call(struct rig *rig, struct dialect_call *call, enum dialect_act act,
                       const char *method, const char *params)
{
    const struct dialect_message message = {act, .method = kg_str(method),
                                            .params = kg_str(params)};
    *call = (struct dialect_call){.talk = &rig->base.talk,
                                  .on_done = talk_rig_on_done,
                                  .on_progress = on_progress,
                                  .data = rig};
    assert_int_equal(dialect_call(call, &message, NULL), 0);
}

static void check_call(const struct answer *era, const char *answered, const char *told)
{
    const struct answer answers[] = {
        era[0], era[1], {"tools/list", ONE_TOOL}, {"tools/call", answered}, {NULL}};
    struct rig *rig = greeted(answers);
    struct dialect_call call;
    begin_call(rig, &call, DIALECT_TOOL, "server.get.Sum", "{\"a\":1}");
    wait_for(rig, &rig->base.told, told);
    rig_free(rig);
}

#define NO_TOOL "done 1 {\"code\":-32601,\"message\":\"the server no longer knows this tool\"}|"

static void an_unknown_tool_is_the_same_however_a_server_says_it(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"MCP error -32602: Tool get.Sum not "
        "found\"}],\"isError\":true}",
        "\"error\":{\"code\":-32602,\"message\":\"Unknown tool: get.Sum\"}",
        "\"error\":{\"code\":-32603,\"message\":\"No such tool\"}",
        "\"error\":{\"code\":-32601,\"message\":\"tool not found\"}",
    };
    for (size_t i = 0; i < KG_COUNT(ways); i++)
        check_call(legacy, ways[i], NO_TOOL);
}

static void a_result_is_passed_on_as_it_is(void **state)
{
    (void)state;
    check_call(legacy, "\"result\":{\"content\":[],\"isError\":true}",
               "done 0 {\"content\":[],\"isError\":true}|");
    check_call(modern, "\"result\":{\"resultType\":\"complete\",\"content\":[]}",
               "done 0 {\"resultType\":\"complete\",\"content\":[]}|");
    check_call(legacy, "\"error\":{\"code\":-32000,\"message\":\"broken\"}",
               "done 1 {\"code\":-32000,\"message\":\"broken\"}|");
    check_call(legacy, "\"result\":7", "the result is not an object");
    check_call(modern, "\"result\":{\"resultType\":\"input_required\",\"requestState\":\"x\"}",
               "there is no answer after 16 exchanges");
    check_call(modern,
               "\"result\":{\"resultType\":\"input_required\",\"inputRequests\":{\"a\":{\"method\":"
               "\"sampling/createMessage\"}}}",
               "it asks for input that it was not offered");
    check_call(legacy, "\"result\":{\"resultType\":\"input_required\"}",
               "it asks for input that it was not offered");
}

static void a_result_may_have_spaces_wherever_json_may(void **state)
{
    (void)state;
    check_call(legacy,
               "\"result\": { \"content\" : [ { \"type\" : \"image\" , \"data\" : \"AAEC/w==\" } , "
               "{ \"type\" : \"text\" } ] , \"isError\" : false }",
               "done 0 {");
    check_call(legacy, "\"result\": { \"content\" : [ ] }", "done 0 {");
}

static void bytes_that_are_not_base64_are_refused(void **state)
{
    (void)state;
    static const char *const data[] = {"not base64!", "AAE", "AA=A", "====", "AAEC/w=======", ""};
    for (size_t i = 0; i < KG_COUNT(data); i++) {
        kg_auto(kg_free) char *result =
            kg_format("\"result\":{\"content\":[{\"type\":\"image\",\"data\":\"%s\"}]}", data[i]);
        check_call(legacy, result, data[i][0] != '\0' ? "bytes that are not base64" : "done 0 {");
    }
}

static void a_call_has_its_own_name_a_token_and_a_way_to_be_cancelled(void **state)
{
    (void)state;
    struct rig *rig = greeted(legacy);
    struct dialect_call call, read;
    begin_call(rig, &call, DIALECT_TOOL, "server.get.Sum", "{\"a\":1}");
    wait_for(rig, &rig->all,
             "{" V ",\"id\":4,\"method\":\"tools/call\",\"params\":{\"name\":\"get.Sum\","
             "\"arguments\":{\"a\":1},\"_meta\":{\"progressToken\":4}}}\n");
    say(rig, "{" V ",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":4,"
             "\"progress\":0.5}}");
    wait_for(rig, &rig->log, "progress {\"progress\":0.5}|taken|");
    say(rig, "{" V ",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":4,"
             "\"progress\":0.25}}");
    wait_for(rig, &rig->log, "taken|noise|");
    dialect_drop(&call);
    wait_for(rig, &rig->all, "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":4,");
    say(rig, "{" V ",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":4,"
             "\"progress\":1}}");
    wait_for(rig, &rig->log, "taken|noise|noise|");
    begin_call(rig, &read, DIALECT_METHOD, "prompts/get",
               "{\"_meta\":{\"progressToken\":\"theirs\"},\"name\":\"x\"}");
    wait_for(rig, &rig->all,
             "\"method\":\"prompts/get\",\"params\":{\"name\":\"x\",\"_meta\":{"
             "\"progressToken\":5}}");
    rig_free(rig);
}

/* -- what a server says by itself -------------------------------------------------------------- */

static void tools_that_change_are_listed_again(void **state)
{
    (void)state;
    struct answer answers[] = {legacy[0], legacy[1], {"tools/list", ONE_TOOL}, {NULL}};
    struct rig *rig = greeted(answers);
    answers[2].members = "\"result\":{\"tools\":[]}";
    for (int i = 0; i < 50; i++)
        say(rig, "{" V ",\"method\":\"notifications/tools/list_changed\"}");
    wait_for(rig, &rig->base.told, "tools []|");
    unsigned lists = 0;
    for (const char *at = kg_buf_terminate(&rig->all); (at = strstr(at, "tools/list")); at++)
        lists++;
    assert_int_equal(lists, 2);
    rig_free(rig);
}

#define SUBSCRIBABLE "\"capabilities\":{\"resources\":{\"subscribe\":true},\"logging\":{}}"

static void a_legacy_server_is_told_of_each_subscription_once(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"server/discover", UNKNOWN},
        {"initialize", "\"result\":{\"protocolVersion\":\"2025-11-25\"," SUBSCRIBABLE "}"},
        {NULL}};
    struct rig *rig = greeted(answers);
    dialect_subscribe(&rig->base.talk, (char *[]){"a:1", "a:2", NULL});
    dialect_subscribe(&rig->base.talk, (char *[]){"a:2", NULL});
    dialect_set_log_level(&rig->base.talk, "error");
    wait_for(rig, &rig->all, "\"method\":\"logging/setLevel\",\"params\":{\"level\":\"error\"}}");
    const char *told = strstr(kg_buf_terminate(&rig->all), "{" V ",\"id\":3");
    assert_string_equal(
        told,
        "{" V ",\"id\":3,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"a:1\"}}\n"
        "{" V ",\"id\":4,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"a:2\"}}\n"
        "{" V ",\"id\":5,\"method\":\"resources/unsubscribe\",\"params\":{\"uri\":\"a:1\"}}\n"
        "{" V ",\"id\":6,\"method\":\"logging/setLevel\",\"params\":{\"level\":\"error\"}}\n");
    rig_free(rig);
}

static void a_modern_server_is_listened_to_anew_for_each_change(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"server/discover", "\"result\":{\"supportedVersions\":[\"2026-07-28\"]," SUBSCRIBABLE "}"},
        {NULL}};
    struct rig *rig = greeted(answers);
    dialect_subscribe(&rig->base.talk, (char *[]){"a:1", NULL});
    wait_for(rig, &rig->all, "\"notifications\":{\"resourceSubscriptions\":[\"a:1\"]}}}");
    dialect_subscribe(&rig->base.talk, (char *[]){"a:2", NULL});
    wait_for(rig, &rig->all, "\"notifications\":{\"resourceSubscriptions\":[\"a:2\"]}}}");
    wait_for(rig, &rig->all, "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2,");
    assert_non_null(strstr(rig->all.data, "\"io.modelcontextprotocol/logLevel\":\"info\""));
    rig_free(rig);
}

static void requests_of_a_server_are_answered_if_they_were_offered(void **state)
{
    (void)state;
    struct rig *rig = rig_new(legacy);
    rig->has_root = true;
    dialect_begin(&rig->base.talk);
    wait_for(rig, &rig->base.told, "ready|");
    assert_non_null(strstr(kg_buf_terminate(&rig->all), "\"capabilities\":{\"roots\":{}}"));
    say(rig, "{" V ",\"id\":\"a\",\"method\":\"ping\"}");
    say(rig, "{" V ",\"id\":0,\"method\":\"roots/list\"}");
    say(rig, "{" V ",\"id\":1.5,\"method\":\"sampling/createMessage\",\"params\":{}}");
    wait_for(rig, &rig->all, "{" V ",\"id\":\"a\",\"result\":{}}");
    wait_for(rig, &rig->all, "{" V ",\"id\":0,\"result\":{\"roots\":[{\"uri\":\"file:///p\"}]}}");
    wait_for(rig, &rig->all, "{" V ",\"id\":1.5,\"error\":{\"code\":-32601");
    rig_free(rig);
}

static void messages_go_to_the_log_and_the_rest_is_noise(void **state)
{
    (void)state;
    struct rig *rig = greeted(legacy);
    say(rig, "Welcome to the server!");
    say(rig, "{" V ",\"method\":\"notifications/message\",\"params\":{\"level\":\"warning\","
             "\"logger\":\"db\",\"data\":\"it is slow\"}}");
    say(rig, "{" V ",\"method\":\"notifications/message\",\"params\":{\"data\":{\"a\":[1]}}}");
    say(rig, "{" V ",\"method\":\"notifications/odd\",\"params\":{}}");
    say(rig, "{" V ",\"id\":99,\"result\":{}}");
    wait_for(rig, &rig->log,
             "noise Welcome to the server!|warning db: it is slow|taken|"
             "info: {\"a\":[1]}|taken|noise|");
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_legacy_server_is_initialized_after_it_did_not_know_discovery),
        cmocka_unit_test(a_modern_server_is_not_initialized),
        cmocka_unit_test(a_server_that_dies_of_discovery_is_not_asked_again),
        cmocka_unit_test(an_unknown_revision_is_named),
        cmocka_unit_test(a_server_that_speaks_another_modern_revision_is_told_apart),
        cmocka_unit_test(an_unknown_tool_is_the_same_however_a_server_says_it),
        cmocka_unit_test(a_result_is_passed_on_as_it_is),
        cmocka_unit_test(a_result_may_have_spaces_wherever_json_may),
        cmocka_unit_test(bytes_that_are_not_base64_are_refused),
        cmocka_unit_test(a_call_has_its_own_name_a_token_and_a_way_to_be_cancelled),
        cmocka_unit_test(tools_that_change_are_listed_again),
        cmocka_unit_test(a_legacy_server_is_told_of_each_subscription_once),
        cmocka_unit_test(a_modern_server_is_listened_to_anew_for_each_change),
        cmocka_unit_test(requests_of_a_server_are_answered_if_they_were_offered),
        cmocka_unit_test(messages_go_to_the_log_and_the_rest_is_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
