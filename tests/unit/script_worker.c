/* What a script can do to kaged-lua, and what it cannot. */
#include "script/worker/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

struct rig {
    struct options options;
    struct runner *runner;
    int to[2];  /* what it reads */
    int out;    /* a file with what it says */
    off_t read; /* of that, so far */
    char said[1 << 16];
};

static int setup(void **state)
{
    struct rig *rig = kg_alloc(sizeof(*rig));
    struct kg_err err = {0};
    kg_options_preset(options_rows, &rig->options);
    rig->options.instructions = 20000000;
    rig->options.memory_bytes = 32 << 20;
    rig->options.line_bytes = 1 << 20;
    rig->options.timers = 100;
    assert_int_equal(pipe2(rig->to, O_CLOEXEC), 0);
    rig->out = memfd_create("said", MFD_CLOEXEC);
    rig->runner = runner_new(&rig->options, rig->to[0], rig->out, &err);
    if (rig->runner == NULL)
        fail_msg("%s", err.message);
    *state = rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    runner_free(rig->runner);
    close(rig->to[0]);
    close(rig->to[1]);
    close(rig->out);
    free(rig);
    return 0;
}

/* What it has said since the last look. */
static const char *said(struct rig *rig)
{
    ssize_t got = pread(rig->out, rig->said, sizeof(rig->said) - 1, rig->read);
    rig->said[got > 0 ? got : 0] = '\0';
    rig->read += got > 0 ? got : 0;
    return rig->said;
}

static const char *ask(struct rig *rig, const char *method, const char *params)
{
    kg_auto(kg_free) char *line =
        kg_format("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"%s\",\"params\":%s}", method, params);
    runner_take(rig->runner, kg_str(line));
    return said(rig);
}

static const char *load(struct rig *rig, const char *source)
{
    kg_auto(kg_buf_free) struct kg_buf params = {0};
    kg_buf_text(&params, "{\"name\":\"t\",\"grants\":{\"context\":true},\"source\":");
    kg_json_put_string(&params, kg_str(source));
    kg_buf_char(&params, '}');
    return ask(rig, "script.load", kg_buf_terminate(&params));
}

#define assert_has(text, part)                                                                     \
    do {                                                                                           \
        const char *has_in = (text);                                                               \
        if (strstr(has_in, part) == NULL)                                                          \
            fail_msg("\"%s\" is not in: %s", part, has_in);                                        \
    } while (0)
#define assert_loads(rig, source) assert_has(load(rig, source), "\"result\":{}}")

/* A chunk whose last value is told as the text of a command. */
static const char *eval(struct rig *rig, const char *body)
{
    kg_auto(kg_free) char *source =
        kg_format("kage.override_command{name='e',description='',handler=function() %s end}", body);
    struct kg_err err;
    runner_free(rig->runner);
    rig->runner = runner_new(&rig->options, rig->to[0], rig->out, &err);
    assert_loads(rig, source);
    return ask(rig, "script.command", "{\"name\":\"e\"}");
}

/* -- the wall ---------------------------------------------------------------------------------- */

static void what_reaches_outside_is_not_there(void **state)
{
    static const char *const gone[] = {
        "dofile",    "loadfile",   "load",      "loadstring",   "require",     "package",
        "debug",     "rawset",     "io",        "os.execute",   "os.exit",     "os.remove",
        "os.rename", "os.tmpname", "os.getenv", "os.setlocale", "string.dump",
    };
    for (size_t i = 0; i < KG_COUNT(gone); i++) {
        kg_auto(kg_free) char *body = kg_format("return tostring(%s)", gone[i]);
        assert_has(eval(*state, body), "\"text\":\"nil\"");
    }
    assert_has(eval(*state, "return type(os.date())"), "\"text\":\"string\"");
}

static void metatables_on_the_way_cannot_be_had(void **state)
{
    assert_has(eval(*state, "return tostring(getmetatable(''))"), "\"text\":\"false\"");
    assert_has(eval(*state, "return tostring(getmetatable(_G))"), "\"text\":\"false\"");
    assert_has(eval(*state, "return tostring(getmetatable(kage.api))"), "\"text\":\"false\"");
    assert_has(eval(*state, "setmetatable(_G, {})"), "cannot change a protected metatable");
    assert_has(eval(*state, "setmetatable({}, {__gc = print})"), "no finalizers");
}

static void bytecode_is_not_read(void **state)
{
    assert_has(ask(*state, "script.load", "{\"name\":\"t\",\"source\":\"\\u001bLua\"}"),
               "attempt to load a binary chunk");
}

static void what_a_script_replaces_is_its_own(void **state)
{
    struct rig *rig = *state;
    assert_loads(rig, "string.format = nil table.insert = nil pairs = nil pcall = nil "
                      "coroutine.yield = nil kage.notify = nil kage.json = nil "
                      "kage.register_command{name='a',description='',args={{name='x',kind='text'}},"
                      "handler=function(raw, ctx, parsed) return parsed.x end}");
    assert_has(ask(rig, "script.command", "{\"name\":\"a\",\"args\":\" b c \"}"),
               "\"text\":\"b c\"");
    assert_has(ask(rig, "script.command", "{\"name\":\"a\"}"), "missing required arg `x`");
}

/* -- budgets ----------------------------------------------------------------------------------- */

static void endless_loops_end_wherever_they_are(void **state)
{
    static const char *const loops[] = {
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "coroutine.wrap(function() while true do end end)()",
        "local c = coroutine.create(function() while true do end end) coroutine.resume(c) "
        "while true do pcall(coroutine.wrap(function() while true do end end)) end",
        "xpcall(function() while true do end end, function() while true do end end) "
        "while true do end",
        "table.sort({1,2,3}, function() while true do end end)",
        "string.gsub('a', 'a', function() while true do end end)",
    };
    for (size_t i = 0; i < KG_COUNT(loops); i++)
        assert_has(eval(*state, loops[i]), "exceeded its CPU budget");
}

static void an_endless_chunk_ends_and_what_it_registered_stays(void **state)
{
    struct rig *rig = *state;
    assert_has(load(rig, "kage.register_command{name='a',description='',handler=function() return "
                         "'still here' end} while true do end"),
               "exceeded its CPU budget");
    assert_has(ask(rig, "script.command", "{\"name\":\"a\"}"), "still here");
}

static void memory_bombs_are_errors_and_lua_goes_on(void **state)
{
    struct rig *rig = *state;
    assert_has(eval(rig, "return #string.rep('x', 1 << 30)"), "not enough memory");
    assert_has(eval(rig, "local t = {} for i = 1, 1 << 30 do t[i] = {} end"), "not enough memory");
    assert_has(eval(rig, "local s = 'x' while true do s = s .. s end"), "not enough memory");
    assert_has(ask(rig, "script.command", "{\"name\":\"none\"}"), "there is no command none");
}

static void deep_recursion_is_an_error(void **state)
{
    assert_has(eval(*state, "local function f() return 1 + f() end return f()"),
               "\"is_error\":true");
    assert_has(eval(*state, "local function f() string.gsub('a', 'a', f) end f()"), "overflow");
}

static void timers_are_bounded(void **state)
{
    assert_has(eval(*state, "for i = 1, 10000 do kage.defer(print, 1000) end"),
               "at most 100 timers");
}

/* -- errors ------------------------------------------------------------------------------------ */

static void errors_may_be_of_any_type(void **state)
{
    assert_has(eval(*state, "error()"), "an error that is a nil");
    assert_has(eval(*state, "error({})"), "an error that is a table");
    assert_has(eval(*state, "error(setmetatable({}, {__tostring = function() error('x') end}))"),
               "(without words)");
    assert_has(eval(*state, "error(setmetatable({}, {__tostring = function() return 'mine' end}))"),
               "mine");
}

static void long_words_of_an_error_are_cut(void **state)
{
    struct rig *rig = *state;
    assert_in_range(strlen(eval(rig, "error(string.rep('x', 1 << 21))")), 1000, 9000);
    const char *problem = load(rig, "error(string.rep('x', 1 << 21))");
    assert_has(problem, "xxx");
    assert_in_range(strlen(problem), 1000, 20000);
}

static void a_handler_that_yields_is_an_error(void **state)
{
    assert_has(eval(*state, "coroutine.yield(1)"), "yielded outside of a coroutine of its own");
    assert_has(eval(*state, "return coroutine.wrap(function() coroutine.yield('in it') end)()"),
               "in it");
}

static void a_screen_is_accepted_and_never_raises(void **state)
{
    assert_has(eval(*state, "kage.ui.set_header(print) kage.register_widget{} kage.opt.x() "
                            "kage.register_keybinding('x', print)() return 'drawn'"),
               "\"text\":\"drawn\"");
}

static void an_unknown_capability_raises_and_a_known_one_is_told(void **state)
{
    assert_has(eval(*state, "kage.request_capabilities{'exce'}"), "there is no capability exce");
    assert_has(eval(*state, "local c = kage.request_capabilities{'context','exec'} "
                            "return tostring(c.context) .. tostring(c.exec)"),
               "truefalse");
}

/* -- events ------------------------------------------------------------------------------------ */

static void transforms_go_from_one_handler_to_the_next(void **state)
{
    struct rig *rig = *state;
    assert_has(load(rig,
                    "kage.on('transform_context', function(m) m[1].a = 1 return m end) "
                    "kage.on('transform_context', function(m) m[1].lost = 1 error('no') end) "
                    "kage.on('transform_context', function(m) m[1].lost = 1 end) "
                    "kage.on('transform_context', function(m) return '\\xff' end) "
                    "kage.on('transform_context', function(m) m[1].b = m[1].a + 1 return m end)"),
               "\"events\":[\"transform_context\"]");
    const char *answer =
        ask(rig, "script.event", "{\"event\":\"transform_context\",\"data\":[{\"content\":[]}]}");
    assert_has(answer, "\"content\":[]");
    assert_has(answer, "\"b\":2");
    assert_null(strstr(answer, "lost"));
}

static void a_tool_call_may_be_blocked_or_changed(void **state)
{
    struct rig *rig = *state;
    assert_has(load(rig, "kage.on('tool_call', function(c) if c.name == 'rm' then return {block = "
                         "'not that'} end return {input = {x = c.input.x + 1}} end)"),
               "tool_call");
    assert_has(ask(rig, "script.event",
                   "{\"event\":\"tool_call\",\"data\":{\"name\":\"rm\",\"input\":{}}}"),
               "{\"block\":\"not that\"}");
    assert_has(ask(rig, "script.event",
                   "{\"event\":\"tool_call\",\"data\":{\"name\":\"ls\",\"input\":{\"x\":1}}}"),
               "{\"input\":{\"x\":2}}");
}

static void who_is_off_hears_nothing(void **state)
{
    struct rig *rig = *state;
    assert_has(load(rig, "local off off = kage.on('turn_end', function() kage.notify('heard') "
                         "off() off() end)"),
               "turn_end");
    assert_has(ask(rig, "script.event", "{\"event\":\"turn_end\",\"data\":{}}"), "heard");
    assert_null(strstr(ask(rig, "script.event", "{\"event\":\"turn_end\",\"data\":{}}"), "heard"));
}

/* -- questions --------------------------------------------------------------------------------- */

static const char picks[] =
    "kage.register_command{name='pick',description='',handler=function() return "
    "tostring(kage.ui.select('colour', {'red', {label = 'green', value = {1, 2}}})) end} "
    "kage.register_command{name='sure',description='',handler=function() return "
    "tostring(kage.ui.confirm('t', 'm')) end}";

static void a_question_parks_its_command_and_others_are_told_busy(void **state)
{
    struct rig *rig = *state;
    load(rig, picks);
    const char *asked = ask(rig, "script.command", "{\"name\":\"pick\"}");
    assert_has(asked, "\"id\":1,\"method\":\"kaged.ask\"");
    assert_has(asked, "\"enum\":[\"red\",\"green\"]");
    assert_has(ask(rig, "script.command", "{\"name\":\"sure\"}"), "busy");
    runner_take(rig->runner, KG_STR("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"action\":"
                                    "\"accept\",\"content\":{\"choice\":\"green\"}}}"));
    assert_has(said(rig), "\"text\":\"table: ");
    asked = ask(rig, "script.command", "{\"name\":\"sure\"}");
    assert_has(asked, "\"id\":2,\"method\":\"kaged.ask\"");
}

static void a_question_without_an_answer_is_nil(void **state)
{
    struct rig *rig = *state;
    load(rig, picks);
    ask(rig, "script.command", "{\"name\":\"pick\"}");
    runner_take(rig->runner, KG_STR("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,"
                                    "\"message\":\"nobody is there\"}}"));
    assert_has(said(rig), "\"text\":\"nil\"");
    ask(rig, "script.command", "{\"name\":\"sure\"}");
    runner_take(rig->runner, KG_STR("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":null}"));
    assert_has(said(rig), "\"text\":\"false\"");
}

/* -- the wire ---------------------------------------------------------------------------------- */

static void write_in(struct rig *rig, const char *lines)
{
    assert_int_equal(kg_write_all(rig->to[1], lines, strlen(lines)), 0);
}

static void pings_are_answered_while_it_waits_and_all_else_keeps(void **state)
{
    struct rig *rig = *state;
    kg_auto(kg_buf_free) struct kg_buf result = {0}, words = {0};
    load(rig, "kage.on('turn_end', function() kage.notify('late') end)");
    write_in(rig, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"script.event\",\"params\":{\"event\":"
                  "\"turn_end\",\"data\":{}}}\n"
                  "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\",\"params\":{}}\n"
                  "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}\n");
    assert_int_equal(runner_ask(rig->runner, "kage.x", KG_STR("{}"), &result, &words), 0);
    assert_string_equal(kg_buf_terminate(&result), "[1]");
    const char *meanwhile = said(rig);
    assert_has(meanwhile, "\"id\":4,\"result\":{\"status\":\"ok\"}");
    assert_null(strstr(meanwhile, "late"));
    write_in(rig, "{\"jsonrpc\":\"2.0\",\"method\":\"shutdown\"}\n");
    assert_int_equal(runner_serve(rig->runner), 0);
    assert_has(said(rig), "late");
}

static void lines_that_are_no_messages_are_dropped(void **state)
{
    struct rig *rig = *state;
    static const char *const rubbish[] = {"", "{", "[]", "null", "{\"id\":1}", "\xff"};
    for (size_t i = 0; i < KG_COUNT(rubbish); i++)
        runner_take(rig->runner, kg_str(rubbish[i]));
    assert_has(ask(rig, "nothing", "{}"), "-32601");
    assert_has(ask(rig, "script.nothing", "{}"), "there is no such method");
    assert_has(ask(rig, "script.load", "[]"), "\"error\"");
}

static void a_timer_runs_and_one_that_raises_stops(void **state)
{
    struct rig *rig = *state;
    load(rig, "kage.schedule(function() kage.notify('ran') end) "
              "kage.defer(function() error('no') end, 1)");
    write_in(rig, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\",\"params\":{}}\n");
    close(rig->to[1]);
    rig->to[1] = -1;
    assert_int_equal(runner_serve(rig->runner), 0);
    assert_has(said(rig), "ran");
}

static void a_time_need_not_be_whole(void **state)
{
    struct rig *rig = *state;
    load(rig, "kage.defer(function() kage.notify('late') end, 10.5) "
              "kage.defer(function() kage.notify('never') end, math.huge)");
    assert_in_range(runner_run_due(rig->runner), 0, 11);
}

static void a_timer_past_its_budget_is_not_tried_again(void **state)
{
    struct rig *rig = *state;
    load(rig, "kage.timer(function() kage.notify('spins') while true do end end, 50)");
    while (runner_run_due(rig->runner) > 0)
        usleep(1000);
    assert_has(said(rig), "spins");
    assert_int_equal(runner_run_due(rig->runner), -1);
}

/* -- JSON -------------------------------------------------------------------------------------- */

/* A value through Lua and back. */
static void assert_trip(struct rig *rig, const char *json, const char *back)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    kg_auto(kg_free) char *want = kg_format("\"structured\":{\"v\":%s}", back);
    kg_buf_printf(&body, "return {text = '', structured = {v = kage.json.decode[==[%s]==]}}", json);
    assert_has(eval(rig, kg_buf_terminate(&body)), want);
}

static void json_comes_back_as_it_went_in(void **state)
{
    assert_trip(*state, "[]", "[]");
    assert_trip(*state, "{}", "{}");
    assert_trip(*state, "[[],{},[1]]", "[[],{},[1]]");
    assert_trip(*state, "[1,null,3]", "[1,null,3]");
    assert_trip(*state, "9223372036854775807", "9223372036854775807");
    assert_trip(*state, "9223372036854775808", "9.223372036854776e+18");
    assert_trip(*state, "0.1", "0.1");
    assert_trip(*state, "1.0", "1.0");
    assert_trip(*state, "\"\\u0000\\ud83d\\ude00\"", "\"\\u0000\xf0\x9f\x98\x80\"");
}

static void json_has_bounds_and_metatables_do_not_lie_to_it(void **state)
{
    assert_has(eval(*state, "local t = {} t.t = t return t"), "or in itself");
    assert_has(eval(*state, "return {text = '\\xff'}"), "not UTF-8");
    assert_has(eval(*state, "return {[1.5] = 1}"), "neither a string nor an integer");
    assert_has(eval(*state, "return {string.rep('x', 1 << 21)}"), "larger than");
    /* What is escaped is longer than it was, and a line has to hold it and what is around it. */
    assert_has(eval(*state, "return string.rep('\\1', 1 << 19)"), "larger than");
    assert_has(eval(*state, "return string.rep('x', (1 << 20) - 50)"), "larger than");
    assert_has(eval(*state, "return {[string.rep('\\1', 1 << 19)] = 1, b = 1}"), "larger than");
    assert_has(eval(*state, "kage.json.decode('[')"), "kage.json.decode: ");
    assert_has(eval(*state, "kage.json.decode(string.rep('[', 1000))"), "kage.json.decode: ");
    assert_has(eval(*state,
                    "return kage.json.encode(setmetatable({1, 2}, {__len = function() "
                    "return 9 end, __index = function() return 'lie' end, __pairs = error}))"),
               "\"text\":\"[1,2]\"");
    assert_has(eval(*state, "return kage.json.encode{1, 2, x = 3}"), "[1,2]");
    assert_has(eval(*state, "return kage.json.encode{f = print, n = 0/0}"), "null");
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_reaches_outside_is_not_there),
        TEST(metatables_on_the_way_cannot_be_had),
        TEST(bytecode_is_not_read),
        TEST(what_a_script_replaces_is_its_own),
        TEST(endless_loops_end_wherever_they_are),
        TEST(an_endless_chunk_ends_and_what_it_registered_stays),
        TEST(memory_bombs_are_errors_and_lua_goes_on),
        TEST(deep_recursion_is_an_error),
        TEST(timers_are_bounded),
        TEST(errors_may_be_of_any_type),
        TEST(long_words_of_an_error_are_cut),
        TEST(a_handler_that_yields_is_an_error),
        TEST(a_screen_is_accepted_and_never_raises),
        TEST(an_unknown_capability_raises_and_a_known_one_is_told),
        TEST(transforms_go_from_one_handler_to_the_next),
        TEST(a_tool_call_may_be_blocked_or_changed),
        TEST(who_is_off_hears_nothing),
        TEST(a_question_parks_its_command_and_others_are_told_busy),
        TEST(a_question_without_an_answer_is_nil),
        TEST(pings_are_answered_while_it_waits_and_all_else_keeps),
        TEST(lines_that_are_no_messages_are_dropped),
        TEST(a_timer_runs_and_one_that_raises_stops),
        TEST(a_time_need_not_be_whole),
        TEST(a_timer_past_its_budget_is_not_tried_again),
        TEST(json_comes_back_as_it_went_in),
        TEST(json_has_bounds_and_metatables_do_not_lie_to_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
