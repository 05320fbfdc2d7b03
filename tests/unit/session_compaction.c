/* Compaction: what has to stay stays, what goes comes back with undo, and a compactor is believed
 * nothing. */
#include "session_world.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct session_compaction_options drop_all = {.strategy = SESSION_BY_DROP,
                                                           .trigger = "manual"};
static const struct session_compaction_options delegate = {.strategy = SESSION_BY_DELEGATE,
                                                           .trigger = "threshold_crossed"};

/* A context of eight: s, then four turns: 1 a, 2 b, 3 c, 4. */
struct talk {
    struct session_added system, user[4], reply[3];
};

static struct talk talk(struct session_world *world)
{
    static const char *const said[] = {"1", "2", "3", "4"};
    static const char *const replies[] = {"a", "b", "c"};
    struct talk talk;
    talk.system = say(world, SESSION_SYSTEM, "s");
    for (int i = 0; i < 4; i++) {
        talk.user[i] = say(world, SESSION_USER, said[i]);
        if (i < 3)
            talk.reply[i] = say(world, SESSION_ASSISTANT, replies[i]);
    }
    return talk;
}

static struct session_added compact(struct session_world *world,
                                    const struct session_compaction_options *options)
{
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        plan(world, options);
    return apply(world, compaction);
}

static void shows(struct session_world *world, const char *expected)
{
    kg_auto(kg_free) char *text = contents(world);
    assert_string_equal(text, expected);
}

/* -- what has to stay -------------------------------------------------------------------------- */

static void the_systems_and_the_first_user_message_stay(void **data)
{
    struct session_world *world = *data;
    inject(world, "memory", "known", NULL);
    talk(world);
    compact(world, &drop_all);
    shows(world, "<plugin:memory>\nknown\n</plugin:memory>|s|1");
}

static void the_last_turns_stay(void **data)
{
    struct session_world *world = *data;
    struct session_compaction_options options = drop_all;
    talk(world);
    options.keep_recent = 2;
    compact(world, &options);
    shows(world, "s|1|3|c|4");
}

static void with_no_more_turns_than_are_kept_nothing_can_go(void **data)
{
    struct session_world *world = *data;
    struct session_compaction_options options = drop_all;
    struct session_compaction *compaction;
    talk(world);
    options.keep_recent = 4;
    assert_true(session_compaction_read(world->state, world->id, "primary", &options, &compaction,
                                        &world->err) < 0);
    assert_int_equal(world->err.code, KG_E_CONFLICT);
}

static void what_is_pinned_stays_in_its_place(void **data)
{
    struct session_world *world = *data;
    struct talk said = talk(world);
    pin(world, &said.reply[1]);
    compact(world, &drop_all);
    shows(world, "s|1|b");
}

static void a_call_and_its_result_stay_or_go_together(void **data)
{
    struct session_world *world = *data;
    say(world, SESSION_USER, "1");
    struct session_added kept = call_tool(world, "kept"), gone = call_tool(world, "gone");
    struct session_added result = answer_tool(world, &kept, "kept result");
    answer_tool(world, &gone, "gone result");
    say(world, SESSION_USER, "2");
    pin(world, &result);
    compact(world, &drop_all);
    shows(world, "1|kept|kept result");
}

static void a_call_that_waits_for_its_result_stays(void **data)
{
    struct session_world *world = *data;
    talk(world);
    struct session_added call = call_tool(world, "slow");
    compact(world, &drop_all);
    answer_tool(world, &call, "at last");
    shows(world, "s|1|slow|at last");
}

/* -- drop -------------------------------------------------------------------------------------- */

static void the_oldest_go_until_the_target_is_reached(void **data)
{
    struct session_world *world = *data;
    struct talk said = talk(world);
    struct session_compaction_options options = drop_all;
    uint64_t each = said.system.context_tokens;
    options.target_tokens = 6 * each;
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        plan(world, &options);
    struct session_compaction_sums sums = session_compaction_sums(compaction);
    assert_int_equal(sums.tokens_before, 8 * each);
    assert_int_equal(sums.tokens_after, 6 * each);
    assert_int_equal(sums.superseded, 2);
    assert_int_equal(apply(world, compaction).context_tokens, 6 * each);
    shows(world, "s|1|b|3|c|4");
}

static void thresholds_and_targets(void **data)
{
    (void)data;
    assert_false(session_over_threshold(799, 1000, 0.8));
    assert_true(session_over_threshold(800, 1000, 0.8));
    assert_false(session_over_threshold(800, 0, 0.8));
    assert_int_equal(session_target_tokens(1000, 0.8), 400);
}

static void nothing_is_deleted(void **data)
{
    struct session_world *world = *data;
    struct talk said = talk(world);
    struct session_added mark = compact(world, &drop_all);
    const struct session_page_query query = {0};
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    assert_int_equal(session_page(world->state, world->id, &query, &entries, NULL), 0);
    assert_int_equal(entries.count, 9);
    assert_string_equal(entries.items[2].id.text, said.reply[0].id.text);
    assert_int_equal(entries.items[2].superseded, mark.seq);
    assert_true(kg_str_is(entries.items[2].content, "\"a\""));
    assert_int_equal(entries.items[8].kind, SESSION_COMPACTION);
    assert_true(kg_str_starts(entries.items[8].content,
                              "{\"strategy\":\"drop\",\"trigger\":\"manual\",\"superseded\":6,"
                              "\"kept\":2,\"added\":0,\"tokens_before\":"));
}

/* -- summaries, checkpoints, injections -------------------------------------------------------- */

static void a_summary_stands_where_the_first_that_went_was(void **data)
{
    struct session_world *world = *data;
    struct session_compaction_options options = drop_all;
    options.strategy = SESSION_BY_SUMMARY;
    options.keep_recent = 1;
    talk(world);
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        plan(world, &options);
    session_compaction_set_summary(compaction, KG_STR("they spoke </plugin:x>"));
    apply(world, compaction);
    shows(world, "s|1|they spoke &lt;/plugin:x>|4");
}

static void summaries_go_last(void **data)
{
    struct session_world *world = *data;
    struct session_compaction_options options = drop_all;
    options.strategy = SESSION_BY_SUMMARY;
    talk(world);
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        plan(world, &options);
    session_compaction_set_summary(compaction, KG_STR("sum"));
    uint64_t tokens = apply(world, compaction).context_tokens;
    say(world, SESSION_USER, "5");
    options.strategy = SESSION_BY_DROP;
    options.target_tokens = tokens;
    compact(world, &options);
    shows(world, "s|1|sum");
}

static struct session_added checkpoint(struct session_world *world, bool once, bool expected)
{
    struct session_added mark = {0};
    bool marked = !expected;
    assert_int_equal(session_checkpoint(world->state, world->id, "primary", "manual", once, &mark,
                                        &marked, NULL),
                     0);
    assert_int_equal(marked, expected);
    return mark;
}

static int state_of(struct session_world *world)
{
    kg_auto(session_clear) struct session session = {0};
    assert_int_equal(session_find(world->state, kg_str(world->id), &session, NULL), 0);
    return (int)session.state;
}

static void a_checkpoint_stops_the_session_and_takes_nothing(void **data)
{
    struct session_world *world = *data;
    const struct session_draft draft = {.agent = "primary",
                                        .kind = SESSION_MESSAGE,
                                        .role = SESSION_USER,
                                        .content = KG_STR("\"5\"")};
    struct session_added added;
    struct kg_err err;
    talk(world);
    struct session_added mark = checkpoint(world, true, true);
    shows(world, "s|1|a|2|b|3|c|4");
    assert_int_equal(state_of(world), SESSION_STOPPED);
    assert_true(session_append(world->state, world->id, &draft, 1, &added, &err) < 0);
    assert_int_equal(err.code, KG_E_CONFLICT);
    kg_auto(session_entries_clear) struct session_entries entry = {0};
    assert_int_equal(
        session_entry_find(world->state, world->id, kg_str(mark.id.text), &entry, NULL), 0);
    assert_int_equal(entry.items[0].kind, SESSION_CHECKPOINT);
    undo(world);
    assert_int_equal(state_of(world), SESSION_ACTIVE);
    shows(world, "s|1|a|2|b|3|c|4");
}

static void a_session_is_not_stopped_twice_before_the_next_compaction(void **data)
{
    struct session_world *world = *data;
    talk(world);
    checkpoint(world, true, true);
    undo(world);
    checkpoint(world, true, false);
    assert_int_equal(state_of(world), SESSION_ACTIVE);
    checkpoint(world, false, true);
    compact(world, &drop_all);
    assert_int_equal(state_of(world), SESSION_ACTIVE);
    checkpoint(world, true, true);
}

static void injections_stand_behind_the_summary_until_the_next_compaction(void **data)
{
    struct session_world *world = *data;
    struct session_compaction_options options = drop_all;
    options.strategy = SESSION_BY_SUMMARY;
    options.keep_recent = 1;
    talk(world);
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        plan(world, &options);
    session_compaction_set_summary(compaction, KG_STR("sum"));
    struct session_added mark = apply(world, compaction);
    inject(world, "x", "first", &mark.id);
    inject(world, "y", "second", &mark.id);
    shows(world, "s|1|sum|<plugin:x>\nfirst\n</plugin:x>|<plugin:y>\nsecond\n</plugin:y>|4");
    say(world, SESSION_USER, "5");
    options.target_tokens = 1000000; /* nothing else has to go */
    options.strategy = SESSION_BY_DROP;
    compact(world, &options);
    shows(world, "s|1|sum|4|5");
}

static void injections_after_a_drop_stand_where_it_was(void **data)
{
    struct session_world *world = *data;
    struct session_compaction_options options = drop_all;
    options.keep_recent = 1;
    talk(world);
    struct session_added mark = compact(world, &options);
    inject(world, "x", "note", &mark.id);
    shows(world, "s|1|<plugin:x>\nnote\n</plugin:x>|4");
    undo(world);
    shows(world, "s|1|a|2|b|3|c|4");
    struct session_added added;
    const struct session_draft late = {"primary",    SESSION_INJECTION,  SESSION_SYSTEM, "x",
                                       mark.id.text, KG_STR("\"late\""), false};
    assert_true(session_append(world->state, world->id, &late, 1, &added, &world->err) < 0);
    assert_int_equal(world->err.code, KG_E_CONFLICT);
}

/* -- undo -------------------------------------------------------------------------------------- */

static void undoing_goes_back_step_by_step(void **data)
{
    struct session_world *world = *data;
    struct session_compaction_options options = drop_all;
    talk(world);
    options.keep_recent = 2;
    struct session_added first = compact(world, &options);
    say(world, SESSION_USER, "5");
    struct session_added second = compact(world, &drop_all);
    shows(world, "s|1");
    assert_string_equal(undo(world).text, second.id.text);
    shows(world, "s|1|3|c|4|5");
    assert_string_equal(undo(world).text, first.id.text);
    shows(world, "s|1|a|2|b|3|c|4|5");
    struct kg_id mark;
    assert_true(session_compaction_undo(world->state, world->id, "primary", &mark, &world->err) <
                0);
    assert_int_equal(world->err.code, KG_E_CONFLICT);
    uint64_t tokens = say(world, SESSION_USER, "6").context_tokens;
    kg_auto(session_compaction_cleanup) struct session_compaction *again = plan(world, &drop_all);
    assert_int_equal(session_compaction_sums(again).tokens_before, tokens);
}

static void a_plan_that_is_out_of_date_is_refused(void **data)
{
    struct session_world *world = *data;
    struct talk said = talk(world);
    struct session_added mark;
    kg_auto(session_compaction_cleanup) struct session_compaction *stale = plan(world, &drop_all);
    kg_auto(session_compaction_cleanup) struct session_compaction *blind = NULL;
    compact(world, &drop_all);
    assert_true(session_compaction_apply(world->state, stale, &mark, &world->err) < 0);
    assert_int_equal(world->err.code, KG_E_CONFLICT);
    undo(world);
    blind = plan(world, &drop_all);
    pin(world, &said.user[2]);
    state_step(world->state, STATE_BEGIN_WRITE, NULL);
    assert_true(session_compaction_apply(world->state, blind, &mark, &world->err) < 0);
    assert_int_equal(world->err.code, KG_E_CONFLICT);
    state_step(world->state, STATE_ROLLBACK, NULL);
    shows(world, "s|1|a|2|b|3|c|4");
}

static void what_comes_while_a_plan_is_made_stays(void **data)
{
    struct session_world *world = *data;
    talk(world);
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        plan(world, &drop_all);
    say(world, SESSION_USER, "5");
    apply(world, compaction);
    shows(world, "s|1|5");
}

/* -- forks and compactions --------------------------------------------------------------------- */

static char *fork_at(struct session_world *world, const struct kg_id *entry)
{
    kg_auto(session_clear) struct session fork = {0};
    if (session_fork(world->state, world->id, kg_str(entry->text), "eve", &fork, &world->err) < 0)
        return NULL;
    return contents_of(world, fork.id.text, "primary");
}

static void a_fork_before_a_compaction_does_not_know_of_it(void **data)
{
    struct session_world *world = *data;
    struct talk said = talk(world);
    struct session_added mark = compact(world, &drop_all);
    struct session_added later = say(world, SESSION_USER, "5");
    kg_auto(kg_free) char *before = fork_at(world, &said.reply[2].id);
    kg_auto(kg_free) char *at_mark = fork_at(world, &mark.id);
    kg_auto(kg_free) char *after = fork_at(world, &later.id);
    assert_string_equal(before, "s|1|a|2|b|3|c");
    assert_string_equal(at_mark, "s|1|a|2|b|3|c|4");
    assert_string_equal(after, "s|1|5");
}

static void in_a_fork_an_undone_compaction_stays_undone(void **data)
{
    struct session_world *world = *data;
    talk(world);
    compact(world, &drop_all);
    struct session_added between = say(world, SESSION_USER, "5");
    undo(world);
    kg_auto(kg_free) char *fork = fork_at(world, &between.id);
    assert_string_equal(fork, "s|1|a|2|b|3|c|4|5");
}

static void what_a_compaction_made_is_no_place_to_fork_at(void **data)
{
    struct session_world *world = *data;
    talk(world);
    struct session_added mark = compact(world, &drop_all);
    struct session_added note = inject(world, "x", "note", &mark.id);
    assert_null(fork_at(world, &note.id));
    assert_non_null(strstr(world->err.hint, mark.id.text));
}

/* -- payloads ---------------------------------------------------------------------------------- */

static void hooks_are_told_what_goes_and_what_stays(void **data)
{
    struct session_world *world = *data;
    struct session_compaction_options options = drop_all;
    size_t truncated = 99;
    kg_auto(kg_buf_free) struct kg_buf before = {0}, after = {0};
    options.strategy = SESSION_BY_SUMMARY;
    options.target_tokens = 15;
    struct session_added first = say(world, SESSION_USER, "1");
    struct session_added second = say(world, SESSION_USER, "2");
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        plan(world, &options);
    session_compaction_payload(compaction, "observer", SESSION_PAYLOAD_MAX, &before, &truncated);
    assert_int_equal(truncated, 0);
    kg_auto(kg_free) char *expected = kg_format(
        "{\"role\":\"observer\",\"messages_being_compacted\":["
        "{\"id\":\"%s\",\"role\":\"user\",\"content\":\"2\",\"position\":1,\"tokens\":10}],"
        "\"messages_remaining\":["
        "{\"id\":\"%s\",\"role\":\"user\",\"content\":\"1\",\"position\":0,\"tokens\":10}],"
        "\"strategy\":\"summarize\",\"trigger\":\"manual\","
        "\"target_tokens\":15}",
        second.id.text, first.id.text);
    assert_string_equal(kg_buf_terminate(&before), expected);
    session_compaction_set_summary(compaction, KG_STR("sum"));
    apply(world, compaction);
    session_compaction_payload(compaction, "observer", SESSION_PAYLOAD_MAX, &after, NULL);
    assert_null(strstr(kg_buf_terminate(&after), "position"));
    assert_non_null(strstr(after.data, "\"kind\":\"summary\",\"content\":\"sum\"}]"));
}

static void the_oldest_messages_of_a_payload_are_left_out(void **data)
{
    struct session_world *world = *data;
    kg_auto(kg_free) char *large = kg_alloc(1000001);
    memset(large, 'x', 1000000);
    for (int i = 0; i < 6; i++) {
        large[0] = (char)('0' + i);
        say(world, SESSION_USER, large);
    }
    kg_auto(kg_buf_free) struct kg_buf payload = {0};
    size_t truncated = 0;
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        plan(world, &drop_all);
    session_compaction_payload(compaction, "observer", SESSION_PAYLOAD_MAX, &payload, &truncated);
    assert_int_equal(truncated, 2);
    assert_true(payload.length <= SESSION_PAYLOAD_MAX);
    assert_non_null(strstr(kg_buf_terminate(&payload), ",\"truncated\":2}"));
    assert_null(strstr(payload.data, "\"1x"));
    assert_non_null(strstr(payload.data, "\"2x"));
    assert_non_null(strstr(payload.data, "\"messages_remaining\":[]"));
    enum session_fault fault;
    assert_true(session_compaction_take_result(compaction, "c", KG_STR("{}"), &fault, NULL) < 0);
    apply(world, compaction);
}

/* -- what a compactor returns ------------------------------------------------------------------ */

struct verdict {
    enum session_fault fault;
    struct kg_err err;
};

/* The ids of those that the format does not name, in quotes. */
static void put_rest(const struct session_compaction *compaction, const char *format,
                     struct kg_buf *json)
{
    bool stays, goes;
    for (size_t i = 0; i < session_compaction_count(compaction); i++)
        if (i >= 8 || strchr(format, (char)(i + 1)) == NULL)
            kg_buf_printf(json, "%s\"%s\"", json->data[json->length - 1] == '[' ? "" : ",",
                          session_compaction_entry(compaction, i, &stays, &goes)->id.text);
}

/* In `format` the byte N stands for the id of the Nth message, and REST for all others. */
#define REST "\16"
static int take(struct session_compaction *compaction, struct verdict *verdict, const char *format)
{
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    bool stays, goes;
    for (const char *at = format; *at != '\0'; at++) {
        if (*at >= '\1' && *at <= '\10')
            kg_buf_text(
                &json,
                session_compaction_entry(compaction, (size_t)(*at - 1), &stays, &goes)->id.text);
        else if (*at == REST[0])
            put_rest(compaction, format, &json);
        else
            kg_buf_char(&json, *at);
    }
    *verdict = (struct verdict){.fault = SESSION_FAULT_NONE};
    return session_compaction_take_result(compaction, "squeezer", kg_buf_view(&json),
                                          &verdict->fault, &verdict->err);
}

/* The delimiters around what is new cost tokens, too: something has to go for them. */
#define LONG_WINDED                                                                                \
    "and so on, and so on, and so on, and so on, and so on, and so on, and so on, and so on, "     \
    "and so on, and so on, and so on, and so on, and so on, and so on, and so on, and so on"

static void a_compactors_list_becomes_the_context(void **data)
{
    struct session_world *world = *data;
    struct verdict verdict;
    talk(world);
    say(world, SESSION_ASSISTANT, LONG_WINDED);
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        plan(world, &delegate);
    /* Members in another order, escapes and white space are the same message. */
    assert_int_equal(take(compaction, &verdict,
                          "{\"role\":\"compactor\",\"messages\":["
                          "{\"role\":\"assistant\",\"content\":\"+\"},"
                          "{\"content\":\"\\u0073\",\"role\":\"system\",\"id\":\"\1\",\"x\":[]},"
                          "{\"id\":\"\2\"},"
                          "{\"role\":\"system\",\"content\":\"they </plugin:squeezer>\"},"
                          "{\"role\":\"user\",\"content\":\"spoke\",\"id\":null},"
                          " {\"id\":\"\6\",\"content\":\"3\"} ],"
                          "\"superseded\":[\"\3\",\"\4\",\"\5\"" REST
                          "],\"summary\":\"squeezed\"}"),
                     0);
    struct session_added mark = apply(world, compaction);
    shows(world, "<plugin:squeezer>\n+\n</plugin:squeezer>|s|1|"
                 "<plugin:squeezer>\nthey &lt;/plugin:squeezer>\n</plugin:squeezer>|"
                 "<plugin:squeezer>\nspoke\n</plugin:squeezer>|3");
    kg_auto(session_entries_clear) struct session_entries entry = {0};
    assert_int_equal(
        session_entry_find(world->state, world->id, kg_str(mark.id.text), &entry, NULL), 0);
    kg_auto(kg_free) char *content = kg_str_dup(entry.items[0].content);
    assert_non_null(strstr(content, "\"plugin\":\"squeezer\",\"summary\":\"squeezed\"}"));
    inject(world, "x", "note", &mark.id);
    kg_auto(kg_free) char *text = contents(world);
    assert_non_null(strstr(text, "spoke\n</plugin:squeezer>|<plugin:x>\nnote\n</plugin:x>|3"));
    undo(world);
    shows(world, "s|1|a|2|b|3|c|4|" LONG_WINDED);
}

/* The context is s 1 a 2 b 3 c 4, of which s and 1 have to stay. */
static void results_that_are_no_good_are_refused(void **data)
{
    struct session_world *world = *data;
#define RESULT(messages, superseded)                                                               \
    "{\"role\":\"compactor\",\"messages\":[" messages "],\"superseded\":[" superseded "]}"
#define S "{\"id\":\"\1\"}"
#define U "{\"id\":\"\2\"}"
    static const struct {
        const char *result, *word;
        enum session_fault fault;
    } rows[] = {
        {"", "not JSON", SESSION_FAULT_INVALID},
        {"null", "not an object", SESSION_FAULT_INVALID},
        {"[]", "not an object", SESSION_FAULT_INVALID},
        {"{}", "\"role\"", SESSION_FAULT_INVALID},
        {"{\"role\":\"observer\",\"inject\":\"x\"}", "\"role\"", SESSION_FAULT_INVALID},
        {"{\"role\":\"compactor\",\"superseded\":[]}", "\"messages\"", SESSION_FAULT_INVALID},
        {"{\"role\":\"compactor\",\"messages\":[" S "," U "]}", "\"superseded\"",
         SESSION_FAULT_INVALID},
        {"{\"role\":\"compactor\",\"messages\":{},\"superseded\":[]}", "array",
         SESSION_FAULT_INVALID},
        {"{\"role\":\"compactor\",\"messages\":[" S "," U "],\"messages\":[],\"superseded\":[]}",
         "twice", SESSION_FAULT_INVALID},
        {"{\"role\":\"compactor\",\"messages\":[" S "," U "],\"superseded\":[],\"summary\":1}",
         "\"summary\"", SESSION_FAULT_INVALID},
        {RESULT("1", ""), "not an object", SESSION_FAULT_INVALID},
        {RESULT("{\"id\":7}", ""), "not a string", SESSION_FAULT_INVALID},
        {RESULT("{\"id\":\"msg_001\"}", ""), "no message has the id", SESSION_FAULT_INVALID},
        {RESULT(S "," S "," U, ""), "listed twice", SESSION_FAULT_INVALID},
        {RESULT(U "," S, ""), "order", SESSION_FAULT_INVALID},
        {RESULT("{\"id\":\"\1\",\"role\":\"user\"}," U, ""), "another role", SESSION_FAULT_INVALID},
        {RESULT("{\"id\":\"\1\",\"content\":\"S\"}," U, ""), "other content",
         SESSION_FAULT_INVALID},
        {RESULT("{\"id\":\"\1\",\"content\":[\"s\"]}," U, ""), "other content",
         SESSION_FAULT_INVALID},
        {RESULT(S "," U ",{\"content\":\"x\"}", ""), "role", SESSION_FAULT_INVALID},
        {RESULT(S "," U ",{\"role\":\"tool\",\"content\":\"x\"}", ""), "role",
         SESSION_FAULT_INVALID},
        {RESULT(S "," U ",{\"role\":\"user\"}", ""), "a string", SESSION_FAULT_INVALID},
        {RESULT(S "," U ",{\"role\":\"user\",\"content\":[]}", ""), "a string",
         SESSION_FAULT_INVALID},
        {RESULT(S "," U ",{\"role\":\"assistant\",\"kind\":\"tool_call\",\"content\":\"x\"}", ""),
         "must not be a tool call", SESSION_FAULT_INVALID},
        {RESULT(S "," U, "\"msg_001\""), "no message has the id", SESSION_FAULT_INVALID},
        {RESULT(S "," U, "1"), "not a string", SESSION_FAULT_INVALID},
        {RESULT(S "," U ",{\"id\":\"\3\"}", "\"\3\""), "both", SESSION_FAULT_INVALID},
        {RESULT(S "," U, "\"\2\""), "has to stay", SESSION_FAULT_DROPPED_ALWAYS_KEEP},
        {RESULT(S "," U, ""), "left out, but not superseded", SESSION_FAULT_INVALID},
        {RESULT(S "," U ",{\"id\":\"\3\"}", "\"\4\",\"\5\""), "left out, but not superseded",
         SESSION_FAULT_INVALID},
        {RESULT(S, ""), "has to stay", SESSION_FAULT_DROPPED_ALWAYS_KEEP},
        {RESULT("", ""), "has to stay", SESSION_FAULT_DROPPED_ALWAYS_KEEP},
        {RESULT(S "," U ",{\"id\":\"\3\"},{\"id\":\"\4\"},{\"id\":\"\5\"},{\"id\":\"\6\"},"
                  "{\"id\":\"\7\"},{\"id\":\"\10\"}",
                ""),
         "not smaller", SESSION_FAULT_INVALID},
    };
    talk(world);
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        plan(world, &delegate);
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct verdict verdict;
        if (take(compaction, &verdict, rows[i].result) == 0)
            fail_msg("result %zu was taken: %s", i, rows[i].result);
        assert_int_equal(verdict.fault, rows[i].fault);
        if (strstr(verdict.err.message, rows[i].word) == NULL)
            fail_msg("result %zu: %s", i, verdict.err.message);
    }
    assert_string_equal(session_fault_names[SESSION_FAULT_DROPPED_ALWAYS_KEEP],
                        "compactor_dropped_always_keep");
    session_compaction_fall_back(compaction, "compactor_dropped_always_keep");
    apply(world, compaction);
    shows(world, "s|1");
}

static void a_call_is_not_torn_from_its_result(void **data)
{
    struct session_world *world = *data;
    struct verdict verdict;
    say(world, SESSION_USER, "1");
    struct session_added call = call_tool(world, "git.log");
    answer_tool(world, &call, "log");
    say(world, SESSION_ASSISTANT, "so it is");
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        plan(world, &delegate);
    assert_true(
        take(compaction, &verdict, RESULT("{\"id\":\"\1\"},{\"id\":\"\2\"}", "\"\3\",\"\4\"")) < 0);
    assert_non_null(strstr(verdict.err.message, "belong together"));
    assert_true(
        take(compaction, &verdict, RESULT("{\"id\":\"\1\"},{\"id\":\"\3\"}", "\"\2\",\"\4\"")) < 0);
    assert_true(take(compaction, &verdict,
                     RESULT("{\"id\":\"\1\"},{\"id\":\"\2\"},"
                            "{\"role\":\"user\",\"content\":\"\"},{\"id\":\"\3\"}",
                            "\"\4\"")) < 0);
    assert_non_null(strstr(verdict.err.message, "between"));
    assert_int_equal(take(compaction, &verdict,
                          RESULT("{\"id\":\"\1\"},{\"id\":\"\2\"},{\"id\":\"\3\"}", "\"\4\"")),
                     0);
}

static void content_is_compared_by_its_meaning(void **data)
{
    struct session_world *world = *data;
    static const struct {
        const char *content;
        bool same;
    } rows[] = {
        {"{\"b\":[1,2.50,-0,\"\\u00e9\\n\"],\"a\":{\"x\":null,\"y\":true}}", true},
        {" { \"a\" : {\"y\":true,\"x\":null}, \"b\":[1.0,25e-1,0,\"\xC3\xA9\\u000A\"] } ", true},
        {"{\"a\":{\"y\":true,\"x\":null},\"b\":[1e0,0.0250e+2,0.0e9,\"\xC3\xA9\\n\"]}", true},
        {"{\"a\":{\"y\":true,\"x\":null},\"b\":[1,2.5,0]}", false},
        {"{\"a\":{\"y\":true,\"x\":null},\"b\":[2.5,1,0,\"\xC3\xA9\\n\"]}", false},
        {"{\"a\":{\"y\":\"true\",\"x\":null},\"b\":[1,2.5,0,\"\xC3\xA9\\n\"]}", false},
        {"{\"a\":{\"y\":true,\"x\":null},\"b\":[1,-2.5,0,\"\xC3\xA9\\n\"]}", false},
        {"{\"a\":{\"y\":true,\"x\":null},\"b\":[10,2.5,0,\"\xC3\xA9\\n\"]}", false},
        {"{\"a\":{\"y\":true},\"x\":null,\"b\":[1,2.5,0,\"\xC3\xA9\\n\"]}", false},
        {"{\"a\":{\"y\":true,\"x\":null},\"b\":[1,2.5,0,\"\xC3\xA9\\n\"],\"c\":1}", false},
        {"[]", false},
    };
    const struct session_draft draft = {"primary", SESSION_MESSAGE,         SESSION_USER, NULL,
                                        NULL,      kg_str(rows[0].content), false};
    add(world, &draft);
    say(world, SESSION_ASSISTANT, "a long answer");
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
        plan(world, &delegate);
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        struct verdict verdict;
        kg_auto(kg_free) char *result = kg_format(
            RESULT("{\"id\":\"\1\",\"role\":\"user\",\"content\":%s}", "\"\2\""), rows[i].content);
        if ((take(compaction, &verdict, result) == 0) != rows[i].same)
            fail_msg("content %zu: %s", i, verdict.err.message);
    }
}

/* Right behind s, before what was new last: the gap is used up, and all is spread anew. */
static void places_do_not_run_out(void **data)
{
    struct session_world *world = *data;
#define NEW "{\"role\":\"user\",\"content\":\"n\"}"
    static const char *const rounds[] = {
        RESULT(S "," NEW "," U, REST),
        RESULT(S "," NEW "," U ",{\"id\":\"\3\"}", REST),
        RESULT(S "," NEW "," U ",{\"id\":\"\4\"}", REST),
    };
    talk(world);
    for (size_t round = 0; round < 60; round++) {
        struct verdict verdict;
        say(world, SESSION_USER, LONG_WINDED);
        kg_auto(session_compaction_cleanup) struct session_compaction *compaction =
            plan(world, &delegate);
        if (take(compaction, &verdict, rounds[round < 2 ? round : 2]) < 0)
            fail_msg("round %zu: %s", round, verdict.err.message);
        apply(world, compaction);
        say(world, SESSION_USER, "later");
        kg_auto(kg_free) char *text = contents(world);
        assert_string_equal(text, round == 0 ? "s|<plugin:squeezer>\nn\n</plugin:squeezer>|1|later"
                                             : "s|<plugin:squeezer>\nn\n</plugin:squeezer>|"
                                               "<plugin:squeezer>\nn\n</plugin:squeezer>|1|later");
    }
    for (int round = 0; round < 60; round++)
        undo(world);
    kg_auto(kg_free) char *text = contents(world);
    assert_int_equal(strncmp(text, "s|1|a|2|b|3|c|4|" LONG_WINDED "|later|" LONG_WINDED, 100), 0);
}

static void a_long_context_is_compacted_in_good_time(void **data)
{
    struct session_world *world = *data;
    struct session_draft drafts[SESSION_APPEND_MAX];
    struct session_added added[SESSION_APPEND_MAX];
    for (size_t i = 0; i < SESSION_APPEND_MAX; i++)
        drafts[i] = (struct session_draft){"primary", SESSION_MESSAGE,     SESSION_USER, NULL,
                                           NULL,      KG_STR("\"again\""), false};
    state_step(world->state, STATE_BEGIN_WRITE, NULL);
    for (int i = 0; i < 40; i++)
        assert_int_equal(
            session_append(world->state, world->id, drafts, SESSION_APPEND_MAX, added, NULL), 0);
    compact(world, &drop_all);
    shows(world, "again");
    undo(world);
    state_step(world->state, STATE_COMMIT, NULL);
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    assert_int_equal(session_context_read(world->state, world->id, "primary", &entries, NULL), 0);
    assert_int_equal(entries.count, 40 * SESSION_APPEND_MAX + 1); /* with the undo */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, session_world_new, session_world_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_systems_and_the_first_user_message_stay),
        TEST(the_last_turns_stay),
        TEST(with_no_more_turns_than_are_kept_nothing_can_go),
        TEST(what_is_pinned_stays_in_its_place),
        TEST(a_call_and_its_result_stay_or_go_together),
        TEST(a_call_that_waits_for_its_result_stays),
        TEST(the_oldest_go_until_the_target_is_reached),
        cmocka_unit_test(thresholds_and_targets),
        TEST(nothing_is_deleted),
        TEST(a_summary_stands_where_the_first_that_went_was),
        TEST(summaries_go_last),
        TEST(a_checkpoint_stops_the_session_and_takes_nothing),
        TEST(a_session_is_not_stopped_twice_before_the_next_compaction),
        TEST(injections_stand_behind_the_summary_until_the_next_compaction),
        TEST(injections_after_a_drop_stand_where_it_was),
        TEST(undoing_goes_back_step_by_step),
        TEST(a_plan_that_is_out_of_date_is_refused),
        TEST(what_comes_while_a_plan_is_made_stays),
        TEST(a_fork_before_a_compaction_does_not_know_of_it),
        TEST(in_a_fork_an_undone_compaction_stays_undone),
        TEST(what_a_compaction_made_is_no_place_to_fork_at),
        TEST(hooks_are_told_what_goes_and_what_stays),
        TEST(the_oldest_messages_of_a_payload_are_left_out),
        TEST(a_compactors_list_becomes_the_context),
        TEST(results_that_are_no_good_are_refused),
        TEST(a_call_is_not_torn_from_its_result),
        TEST(content_is_compared_by_its_meaning),
        TEST(places_do_not_run_out),
        TEST(a_long_context_is_compacted_in_good_time),
    };
    return cmocka_run_group_tests_name("session_compaction", tests, NULL, NULL);
}
