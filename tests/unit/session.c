/* The log of sessions: what was appended is there after reopening, in its order, byte by byte. */
#include "session_world.h"
#include "state_place.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#define RESEARCHER "primary.subagents.researcher"

static struct session_entries page(struct session_world *world, const char *agent, uint64_t after,
                                   size_t limit)
{
    const struct session_page_query query = {.agent = agent, .after = after, .limit = limit};
    struct session_entries entries = {0};
    assert_int_equal(session_page(world->state, world->id, &query, &entries, &world->err), 0);
    return entries;
}

/* -- sessions ---------------------------------------------------------------------------------- */

static void a_session_survives_reopening(void **data)
{
    struct session_world *world = *data;
    session_world_reopen(world);
    kg_auto(session_clear) struct session found = {0};
    assert_int_equal(session_find(world->state, kg_str(world->id), &found, NULL), 0);
    assert_string_equal(found.id.text, world->id);
    assert_int_equal(strncmp(found.id.text, "ses_", 4), 0);
    assert_string_equal(found.project_id, "music");
    assert_string_equal(found.workdir, "/srv/music");
    assert_string_equal(found.operator_id, "eve");
    assert_string_equal(found.seat, "primary");
    assert_int_equal(found.state, SESSION_ACTIVE);
    assert_int_equal(found.entries, 0);
    assert_true(found.created_ms > 0 && found.updated_ms >= found.created_ms);
    assert_string_equal(found.parent.text, "");
}

static void a_new_session_is_checked(void **data)
{
    struct session_world *world = *data;
    kg_auto(kg_free) char *long_name = kg_alloc(200);
    memset(long_name, 'a', 199);
    const struct session_new bad[] = {
        {.project_id = "", .workdir = "/", .operator_id = "eve"},
        {.project_id = "music", .workdir = "here", .operator_id = "eve"},
        {.project_id = "music", .workdir = "/", .operator_id = NULL},
        {.project_id = long_name, .workdir = "/", .operator_id = "eve"},
        {.project_id = "music", .workdir = "/\xFF", .operator_id = "eve"},
        {.project_id = "music", .workdir = "/", .operator_id = "eve", .seat = "secondary"},
    };
    struct session session;
    for (size_t i = 0; i < KG_COUNT(bad); i++)
        assert_true(session_create(world->state, &bad[i], &session, NULL) < 0);
}

static void a_session_is_found_by_a_prefix_that_only_it_has(void **data)
{
    struct session_world *world = *data;
    struct session found;
    struct kg_str all = kg_str(world->id);
    kg_auto(kg_free) char *small = kg_strdup(world->id + 4);
    for (char *at = small; *at != '\0'; at++)
        *at = *at >= 'A' ? (char)(*at + 32) : *at;
    const struct kg_str names[] = {
        all, {all.data, 12}, {all.data + 4, 3}, {all.data + 4, 26}, kg_str(small)};
    for (size_t i = 0; i < KG_COUNT(names); i++) {
        assert_int_equal(session_find(world->state, names[i], &found, &world->err), 0);
        assert_string_equal(found.id.text, world->id);
        session_clear(&found);
    }
    static const char *const others[] = {
        "", "ses_", "ses_~", "ses_%", "7ZZ", "ses_7ZZ", "0123456789012345678901234567890"};
    for (size_t i = 0; i < KG_COUNT(others); i++)
        assert_int_equal(session_find(world->state, kg_str(others[i]), &found, NULL), -ENOENT);
}

static void a_prefix_of_several_is_refused_with_their_ids(void **data)
{
    struct session_world *world = *data;
    const struct session_new new = {.project_id = "p", .workdir = "/", .operator_id = "eve"};
    struct session other, found;
    assert_int_equal(session_create(world->state, &new, &other, NULL), 0);
    assert_true(session_find(world->state, (struct kg_str){world->id, 6}, &found, &world->err) < 0);
    assert_int_equal(world->err.code, KG_E_CONFLICT);
    assert_non_null(strstr(world->err.message, world->id));
    assert_non_null(strstr(world->err.message, other.id.text));
    session_clear(&other);
}

static void sessions_are_listed_newest_first_in_pages(void **data)
{
    struct session_world *world = *data;
    struct kg_id ids[5];
    for (int i = 0; i < 5; i++) {
        struct session session;
        const struct session_new new = {
            .project_id = i % 2 ? "odd" : "even", .workdir = "/", .operator_id = "eve"};
        assert_int_equal(session_create(world->state, &new, &session, NULL), 0);
        ids[i] = session.id;
        session_clear(&session);
    }
    struct session_list_query query = {.limit = 2};
    kg_auto(session_list_clear) struct session_list list = {0};
    assert_int_equal(session_list(world->state, &query, &list, NULL), 0);
    assert_int_equal(list.count, 2);
    assert_true(list.more);
    assert_string_equal(list.items[0].id.text, ids[4].text);
    query = (struct session_list_query){.before = ids[3].text, .project_id = "even"};
    session_list_clear(&list);
    assert_int_equal(session_list(world->state, &query, &list, NULL), 0);
    assert_int_equal(list.count, 2);
    assert_false(list.more);
    assert_string_equal(list.items[0].id.text, ids[2].text);
    assert_string_equal(list.items[1].id.text, ids[0].text);
    const enum session_state closed = SESSION_CLOSED;
    query = (struct session_list_query){.state = &closed};
    session_list_clear(&list);
    assert_int_equal(session_set_state(world->state, ids[1].text, SESSION_CLOSED, NULL), 0);
    assert_int_equal(session_list(world->state, &query, &list, NULL), 0);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.items[0].id.text, ids[1].text);
}

static void a_closed_session_takes_nothing_until_it_is_resumed(void **data)
{
    struct session_world *world = *data;
    struct session_added added;
    const struct session_draft draft = {.agent = "primary",
                                        .kind = SESSION_MESSAGE,
                                        .role = SESSION_USER,
                                        .content = KG_STR("\"hi\"")};
    assert_int_equal(session_set_state(world->state, world->id, SESSION_CLOSED, NULL), 0);
    assert_true(session_append(world->state, world->id, &draft, 1, &added, &world->err) < 0);
    assert_int_equal(world->err.code, KG_E_CONFLICT);
    assert_non_null(strstr(world->err.hint, "resume"));
    assert_true(session_move_seat(world->state, world->id, RESEARCHER, NULL) < 0);
    assert_true(session_set_state(world->state, world->id, SESSION_IDLE, NULL) < 0);
    assert_int_equal(session_set_state(world->state, world->id, SESSION_ACTIVE, NULL), 0);
    assert_int_equal(session_append(world->state, world->id, &draft, 1, &added, NULL), 0);
}

static void a_closed_session_takes_the_result_of_a_call(void **data)
{
    struct session_world *world = *data;
    struct session_added call, added;
    struct session_draft draft = {.agent = "primary",
                                  .kind = SESSION_TOOL_CALL,
                                  .role = SESSION_ASSISTANT,
                                  .content = KG_STR("{\"name\":\"x.y\"}")};
    assert_int_equal(session_append(world->state, world->id, &draft, 1, &call, NULL), 0);
    assert_int_equal(session_set_state(world->state, world->id, SESSION_CLOSED, NULL), 0);
    draft.kind = SESSION_TOOL_RESULT;
    draft.role = SESSION_TOOL;
    draft.parent = call.id.text;
    assert_int_equal(session_append(world->state, world->id, &draft, 1, &added, NULL), 0);
    kg_auto(session_clear) struct session found = {0};
    assert_int_equal(session_find(world->state, kg_str(world->id), &found, NULL), 0);
    assert_int_equal(found.state, SESSION_CLOSED);
}

static void an_idle_session_wakes_up_with_an_entry(void **data)
{
    struct session_world *world = *data;
    kg_auto(session_clear) struct session found = {0};
    assert_int_equal(session_set_state(world->state, world->id, SESSION_IDLE, NULL), 0);
    say(world, SESSION_USER, "still there?");
    assert_int_equal(session_find(world->state, kg_str(world->id), &found, NULL), 0);
    assert_int_equal(found.state, SESSION_ACTIVE);
}

static void the_seat_moves_and_leaves_an_event(void **data)
{
    struct session_world *world = *data;
    kg_auto(session_clear) struct session found = {0};
    assert_int_equal(session_move_seat(world->state, world->id, RESEARCHER, NULL), 0);
    assert_int_equal(session_move_seat(world->state, world->id, RESEARCHER, NULL), 0);
    assert_true(session_move_seat(world->state, world->id, "nobody", &world->err) < 0);
    assert_int_equal(session_find(world->state, kg_str(world->id), &found, NULL), 0);
    assert_string_equal(found.seat, RESEARCHER);
    kg_auto(session_entries_clear) struct session_entries entries = page(world, NULL, 0, 0);
    assert_int_equal(entries.count, 1);
    assert_int_equal(entries.items[0].kind, SESSION_EVENT);
    assert_true(kg_str_is(entries.items[0].content,
                          "{\"event\":\"seat_moved\",\"from\":\"primary\",\"to\":\"" RESEARCHER
                          "\"}"));
}

/* -- entries ----------------------------------------------------------------------------------- */

static void content_is_kept_as_it_was_received(void **data)
{
    struct session_world *world = *data;
    const struct kg_str content =
        KG_STR(" { \"a\" : [1.0, 1e400,\n \"\\u0041\\/\"] , \"a\":2 }\r\n");
    const struct session_draft draft = {
        .agent = "primary", .kind = SESSION_MESSAGE, .role = SESSION_USER, .content = content};
    struct session_added added = add(world, &draft);
    assert_int_equal(added.seq, 1);
    assert_int_equal(strlen(added.id.text), KG_ULID_LENGTH);
    session_world_reopen(world);
    kg_auto(session_entries_clear) struct session_entries found = {0};
    assert_int_equal(
        session_entry_find(world->state, world->id, kg_str(added.id.text), &found, NULL), 0);
    assert_true(kg_str_equal(found.items[0].content, content));
    assert_int_equal(found.items[0].bytes, content.length);
    assert_string_equal(found.items[0].agent, "primary");
    assert_int_equal(found.items[0].role, SESSION_USER);
    assert_false(found.items[0].pinned);
    assert_int_equal(found.items[0].superseded, 0);
}

static void drafts_that_make_no_sense_are_refused(void **data)
{
    struct session_world *world = *data;
    struct session_added call = call_tool(world, "git.log"), added;
    struct session_added message = say(world, SESSION_USER, "hi");
    kg_auto(kg_free) char *deep = kg_alloc(2 * SESSION_DEPTH_MAX + 8);
    memset(deep, '[', SESSION_DEPTH_MAX + 1);
    memset(deep + SESSION_DEPTH_MAX + 1, ']', SESSION_DEPTH_MAX + 1);
    const struct kg_str text = KG_STR("\"x\"");
    const struct session_draft bad[] = {
        {"secondary", SESSION_MESSAGE, SESSION_USER, NULL, NULL, text, false},
        {"primary.subagents.", SESSION_MESSAGE, SESSION_USER, NULL, NULL, text, false},
        {"primary.Subagents.x", SESSION_MESSAGE, SESSION_USER, NULL, NULL, text, false},
        {NULL, SESSION_MESSAGE, SESSION_USER, NULL, NULL, text, false},
        {"primary", SESSION_MESSAGE, SESSION_TOOL, NULL, NULL, text, false},
        {"primary", SESSION_TOOL_CALL, SESSION_USER, NULL, NULL, KG_STR("{\"name\":\"x\"}"), false},
        {"primary", SESSION_TOOL_CALL, SESSION_ASSISTANT, NULL, NULL, text, false},
        {"primary", SESSION_TOOL_CALL, SESSION_ASSISTANT, NULL, NULL, KG_STR("{\"name\":1}"),
         false},
        {"primary", SESSION_TOOL_RESULT, SESSION_TOOL, NULL, NULL, text, false},
        {"primary", SESSION_TOOL_RESULT, SESSION_TOOL, NULL, message.id.text, text, false},
        {RESEARCHER, SESSION_TOOL_RESULT, SESSION_TOOL, NULL, call.id.text, text, false},
        {"primary", SESSION_TOOL_RESULT, SESSION_TOOL, NULL, "7ZZ", text, false},
        {"primary", SESSION_MESSAGE, SESSION_USER, NULL, message.id.text, text, false},
        {"primary", SESSION_INJECTION, SESSION_SYSTEM, NULL, NULL, text, false},
        {"primary", SESSION_INJECTION, SESSION_SYSTEM, "a>b", NULL, text, false},
        {"primary", SESSION_INJECTION, SESSION_SYSTEM, "git", NULL, KG_STR("{}"), false},
        {"primary", SESSION_INJECTION, SESSION_SYSTEM, "git", message.id.text, text, false},
        {"primary", SESSION_SUMMARY, SESSION_SYSTEM, NULL, NULL, text, false},
        {"primary", SESSION_COMPACTION, SESSION_SYSTEM, NULL, NULL, text, false},
        {"primary", SESSION_MESSAGE, SESSION_USER, NULL, NULL, KG_STR(""), false},
        {"primary", SESSION_MESSAGE, SESSION_USER, NULL, NULL, KG_STR("\"\xFF\""), false},
        {"primary", SESSION_MESSAGE, SESSION_USER, NULL, NULL, KG_STR("\"\\ud800\""), false},
        {"primary", SESSION_MESSAGE, SESSION_USER, NULL, NULL, KG_STR("1 2"), false},
        {"primary", SESSION_MESSAGE, SESSION_USER, NULL, NULL, kg_str(deep), false},
    };
    for (size_t i = 0; i < KG_COUNT(bad); i++)
        if (session_append(world->state, world->id, &bad[i], 1, &added, &world->err) == 0)
            fail_msg("draft %zu was taken", i);
    assert_true(session_append(world->state, world->id, bad, 0, &added, NULL) < 0);
    assert_true(session_append(world->state, world->id, bad, SESSION_APPEND_MAX + 1, &added, NULL) <
                0);
}

static void content_has_a_largest_size(void **data)
{
    struct session_world *world = *data;
    kg_auto(kg_free) char *content = kg_alloc(SESSION_CONTENT_MAX + 2);
    memset(content, ' ', SESSION_CONTENT_MAX + 1);
    content[0] = '1';
    struct session_draft draft = {.agent = "primary",
                                  .kind = SESSION_MESSAGE,
                                  .role = SESSION_USER,
                                  .content = {content, SESSION_CONTENT_MAX + 1}};
    struct session_added added;
    assert_true(session_append(world->state, world->id, &draft, 1, &added, &world->err) < 0);
    assert_int_equal(world->err.code, KG_E_TOO_LARGE);
    draft.content.length--;
    assert_int_equal(session_append(world->state, world->id, &draft, 1, &added, NULL), 0);
}

static void a_call_has_one_result(void **data)
{
    struct session_world *world = *data;
    struct session_added call = call_tool(world, "git.log"), added;
    answer_tool(world, &call, "done");
    const struct session_draft again = {"primary",    SESSION_TOOL_RESULT, SESSION_TOOL, NULL,
                                        call.id.text, KG_STR("\"twice\""), false};
    assert_true(session_append(world->state, world->id, &again, 1, &added, &world->err) < 0);
    assert_int_equal(world->err.code, KG_E_CONFLICT);
}

static void entries_come_in_pages_in_their_order(void **data)
{
    struct session_world *world = *data;
    for (int i = 0; i < 7; i++) {
        kg_auto(kg_free) char *text = kg_format("%d", i);
        say_as(world, i % 2 ? RESEARCHER : "primary", SESSION_USER, text);
    }
    kg_auto(session_entries_clear) struct session_entries first = page(world, NULL, 0, 4);
    assert_int_equal(first.count, 4);
    assert_true(first.more);
    for (size_t i = 0; i < first.count; i++)
        assert_int_equal(first.items[i].seq, i + 1);
    kg_auto(session_entries_clear) struct session_entries rest =
        page(world, NULL, first.items[3].seq, 4);
    assert_int_equal(rest.count, 3);
    assert_false(rest.more);
    kg_auto(session_entries_clear) struct session_entries of_one = page(world, RESEARCHER, 2, 1);
    assert_int_equal(of_one.count, 1);
    assert_true(kg_str_is(of_one.items[0].content, "\"3\""));
    assert_true(of_one.more);
}

static void a_page_is_bounded_in_entries_and_bytes(void **data)
{
    struct session_world *world = *data;
    struct session_draft drafts[SESSION_APPEND_MAX];
    struct session_added added[SESSION_APPEND_MAX];
    for (size_t i = 0; i < SESSION_APPEND_MAX; i++)
        drafts[i] = (struct session_draft){"primary", SESSION_MESSAGE, SESSION_USER, NULL,
                                           NULL,      KG_STR("1"),     false};
    assert_int_equal(
        session_append(world->state, world->id, drafts, SESSION_APPEND_MAX, added, NULL), 0);
    kg_auto(session_entries_clear) struct session_entries many = page(world, NULL, 0, 1000000);
    assert_int_equal(many.count, SESSION_PAGE_ENTRIES);
    assert_true(many.more);
    kg_auto(kg_free) char *content = kg_alloc(SESSION_PAGE_BYTES / 2);
    memset(content, ' ', SESSION_PAGE_BYTES / 2);
    content[0] = '1';
    for (int i = 0; i < 3; i++) {
        drafts[0].content = (struct kg_str){content, SESSION_PAGE_BYTES / 2};
        add(world, drafts);
    }
    kg_auto(session_entries_clear) struct session_entries large =
        page(world, NULL, SESSION_APPEND_MAX, 0);
    assert_int_equal(large.count, 2);
    assert_true(large.more);
}

static void sums_follow_what_stands(void **data)
{
    struct session_world *world = *data;
    uint64_t tokens = say(world, SESSION_USER, "one").context_tokens;
    assert_int_equal(say(world, SESSION_USER, "one").context_tokens, 2 * tokens);
    assert_int_equal(say_as(world, RESEARCHER, SESSION_USER, "one").context_tokens, tokens);
    session_move_seat(world->state, world->id, RESEARCHER, NULL);
    kg_auto(session_agents_clear) struct session_agents agents = {0};
    assert_int_equal(session_agents_read(world->state, world->id, &agents, NULL), 0);
    assert_int_equal(agents.count, 2);
    assert_string_equal(agents.items[0].path, "primary");
    assert_int_equal(agents.items[0].entries, 2);
    assert_int_equal(agents.items[0].tokens, 2 * tokens);
    assert_string_equal(agents.items[1].path, RESEARCHER);
    assert_int_equal(agents.items[1].entries, 1);
}

static void only_what_a_model_sees_can_be_pinned(void **data)
{
    struct session_world *world = *data;
    struct session_added message = say(world, SESSION_USER, "remember");
    pin(world, &message);
    kg_auto(session_entries_clear) struct session_entries entries = page(world, NULL, 0, 0);
    assert_true(entries.items[0].pinned);
    session_move_seat(world->state, world->id, RESEARCHER, NULL);
    kg_auto(session_entries_clear) struct session_entries moved = page(world, NULL, 1, 0);
    assert_true(session_pin(world->state, world->id, kg_str(moved.items[0].id.text), true, NULL) <
                0);
    assert_int_equal(session_pin(world->state, world->id, kg_str(message.id.text), false, NULL), 0);
}

/* -- transcripts ------------------------------------------------------------------------------- */

static void a_transcript_has_what_was_said_since(void **data)
{
    struct session_world *world = *data;
    inject(world, "memory", "known", NULL);
    struct session_added old = say(world, SESSION_USER, "old");
    say(world, SESSION_USER, "new");
    struct session_added call = call_tool(world, "git.log");
    answer_tool(world, &call, "log");
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    uint64_t left;
    assert_int_equal(session_transcript_read(world->state, world->id, "primary", old.seq,
                                             SESSION_PAYLOAD_MAX, &entries, &left, NULL),
                     0);
    assert_int_equal(entries.count, 3);
    assert_int_equal(left, 0);
    assert_true(kg_str_is(entries.items[0].content, "\"new\""));
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    session_transcript_write(&entries, left, SESSION_PAYLOAD_MAX, &text);
    assert_non_null(strstr(kg_buf_terminate(&text), "\"role\":\"user\",\"content\":\"new\"}"));
    assert_null(strstr(text.data, "truncated"));
}

static void the_oldest_of_a_transcript_are_left_out_and_counted(void **data)
{
    struct session_world *world = *data;
    for (int i = 0; i < 10; i++)
        say(world, SESSION_USER, i == 9 ? "the last" : "one of many");
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    uint64_t left;
    assert_int_equal(
        session_transcript_read(world->state, world->id, "primary", 0, 1000, &entries, &left, NULL),
        0);
    assert_int_equal(entries.count, 3);
    assert_int_equal(left, 7);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    session_transcript_write(&entries, left, 250, &text);
    assert_non_null(strstr(kg_buf_terminate(&text), "the last"));
    assert_non_null(strstr(text.data, "\"truncated\":9}"));
    assert_true(text.length <= 250);
}

/* -- forks ------------------------------------------------------------------------------------- */

static void a_fork_has_all_up_to_its_entry_and_goes_its_own_way(void **data)
{
    struct session_world *world = *data;
    say(world, SESSION_USER, "one");
    struct session_added two = say(world, SESSION_ASSISTANT, "two");
    say(world, SESSION_USER, "three");
    kg_auto(session_clear) struct session fork = {0};
    assert_int_equal(
        session_fork(world->state, world->id, kg_str(two.id.text), "ann", &fork, &world->err), 0);
    assert_string_equal(fork.parent.text, world->id);
    assert_string_equal(fork.parent_entry.text, two.id.text);
    assert_string_equal(fork.operator_id, "ann");
    assert_string_equal(fork.workdir, "/srv/music");
    assert_int_equal(fork.entries, 2);
    struct session_added added;
    const struct session_draft draft = {"primary", SESSION_MESSAGE, SESSION_USER, NULL,
                                        NULL,      KG_STR("\"4\""), false};
    assert_int_equal(session_append(world->state, fork.id.text, &draft, 1, &added, NULL), 0);
    assert_int_equal(added.seq, 3);
    kg_auto(kg_free) char *theirs = contents_of(world, fork.id.text, "primary");
    kg_auto(kg_free) char *ours = contents(world);
    assert_string_equal(theirs, "one|two|4");
    assert_string_equal(ours, "one|two|three");
}

/* -- branches ---------------------------------------------------------------------------------- */

static int move(struct session_world *world, enum session_act act, const char *target)
{
    kg_auto(session_move_clear) struct session_move plan = {0};
    kg_auto(session_clear) struct session moved = {0};
    int result =
        session_move_plan(world->state, world->id, act, kg_str(target), &plan, &world->err);
    return result < 0
               ? result
               : session_move_apply(world->state, world->id, &plan, NULL, &moved, &world->err);
}

static void assert_said(struct session_world *world, const char *expected)
{
    kg_auto(kg_free) char *said = contents(world);
    assert_string_equal(said, expected);
}

static void an_id_stays_while_its_session_moves(void **data)
{
    struct session_world *world = *data;
    say(world, SESSION_SYSTEM, "start");
    say(world, SESSION_USER, "one");
    say(world, SESSION_ASSISTANT, "two");
    say(world, SESSION_USER, "three");
    say(world, SESSION_ASSISTANT, "four");
    assert_int_equal(move(world, SESSION_MOVE_UNDO, ""), 0);
    assert_said(world, "start|one|two");
    assert_int_equal(move(world, SESSION_MOVE_UNDO, ""), 0);
    assert_said(world, "start");
    assert_int_equal(move(world, SESSION_MOVE_UNDO, ""), kg_fail(NULL, KG_E_CONFLICT, "x"));
    assert_non_null(strstr(world->err.message, "nothing to undo"));
    say(world, SESSION_USER, "five");
    assert_int_equal(move(world, SESSION_MOVE_REDO, ""), 0);
    assert_said(world, "start|one|two");
    assert_int_equal(move(world, SESSION_MOVE_REDO, ""), 0);
    assert_said(world, "start|one|two|three|four");
    assert_true(move(world, SESSION_MOVE_REDO, "") < 0);
    assert_non_null(strstr(world->err.message, "nothing to redo"));
}

static void a_move_that_something_was_said_since_is_not_made(void **data)
{
    struct session_world *world = *data;
    kg_auto(session_move_clear) struct session_move plan = {0};
    kg_auto(session_clear) struct session moved = {0};
    say(world, SESSION_SYSTEM, "start");
    say(world, SESSION_USER, "one");
    assert_int_equal(session_move_plan(world->state, world->id, SESSION_MOVE_UNDO, KG_STR(""),
                                       &plan, &world->err),
                     0);
    assert_string_equal(plan.said, "one");
    say(world, SESSION_USER, "two");
    assert_true(session_move_apply(world->state, world->id, &plan, NULL, &moved, &world->err) < 0);
    assert_non_null(strstr(world->err.message, "meanwhile"));
    assert_said(world, "start|one|two");
}

static void a_switch_goes_to_what_was_left_or_to_a_copy(void **data)
{
    struct session_world *world = *data;
    kg_auto(session_move_clear) struct session_move plan = {0};
    say(world, SESSION_SYSTEM, "start");
    struct session_added one = say(world, SESSION_USER, "one");
    kg_auto(session_clear) struct session fork = {0};
    assert_int_equal(session_fork(world->state, world->id, kg_str(one.id.text), "ann", &fork, NULL),
                     0);
    assert_int_equal(move(world, SESSION_MOVE_UNDO, ""), 0);
    assert_int_equal(
        session_move_plan(world->state, world->id, SESSION_MOVE_REDO, KG_STR(""), &plan, NULL), 0);
    assert_int_equal(move(world, SESSION_MOVE_SWITCH, plan.to.text), 0);
    assert_said(world, "start|one");
    assert_true(move(world, SESSION_MOVE_SWITCH, plan.to.text) < 0);
    assert_true(move(world, SESSION_MOVE_SWITCH, "ses_0") < 0);
}

static void an_unknown_entry_is_named(void **data)
{
    struct session_world *world = *data;
    struct session fork;
    say(world, SESSION_USER, "one");
    assert_true(session_fork(world->state, world->id, KG_STR("7ZZZ"), "ann", &fork, &world->err) <
                0);
    assert_int_equal(world->err.code, KG_E_NOT_FOUND);
    assert_non_null(strstr(world->err.message, "7ZZZ"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, session_world_new, session_world_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_session_survives_reopening),
        TEST(a_new_session_is_checked),
        TEST(a_session_is_found_by_a_prefix_that_only_it_has),
        TEST(a_prefix_of_several_is_refused_with_their_ids),
        TEST(sessions_are_listed_newest_first_in_pages),
        TEST(a_closed_session_takes_nothing_until_it_is_resumed),
        TEST(a_closed_session_takes_the_result_of_a_call),
        TEST(an_idle_session_wakes_up_with_an_entry),
        TEST(the_seat_moves_and_leaves_an_event),
        TEST(content_is_kept_as_it_was_received),
        TEST(drafts_that_make_no_sense_are_refused),
        TEST(content_has_a_largest_size),
        TEST(a_call_has_one_result),
        TEST(entries_come_in_pages_in_their_order),
        TEST(a_page_is_bounded_in_entries_and_bytes),
        TEST(sums_follow_what_stands),
        TEST(only_what_a_model_sees_can_be_pinned),
        TEST(a_transcript_has_what_was_said_since),
        TEST(the_oldest_of_a_transcript_are_left_out_and_counted),
        TEST(a_fork_has_all_up_to_its_entry_and_goes_its_own_way),
        TEST(an_id_stays_while_its_session_moves),
        TEST(a_move_that_something_was_said_since_is_not_made),
        TEST(a_switch_goes_to_what_was_left_or_to_a_copy),
        TEST(an_unknown_entry_is_named),
    };
    return STATE_PLACE_RUN("session", tests);
}
