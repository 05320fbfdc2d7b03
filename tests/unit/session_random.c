/*
 * Sessions that do all sorts of things at random, beside a model that is only lists of ids: after
 * each step both have the same context, and what has to hold of every context and plan holds.
 */
#include "session_world.h"
#include "state_place.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEEDS     12
#define STEPS     250
#define IDS_MAX   600
#define STACK_MAX 64

/* -- the model --------------------------------------------------------------------------------- */

struct ids {
    struct kg_id items[IDS_MAX];
    size_t count;
};

struct model {
    struct ids now;
    struct ids since[STACK_MAX];  /* what was appended since the compaction */
    struct ids before[STACK_MAX]; /* the context before it */
    size_t depth;
    struct kg_id marks[STACK_MAX];
    struct session_added open_calls[IDS_MAX];
    size_t open_call_count;
    struct kg_id fork_at; /* an entry to fork at, */
    struct ids forked;    /* and the context then; not after an undo */
};

struct run {
    struct session_world *world;
    struct model *model;
    uint64_t random;
};

static size_t pick(struct run *run, size_t below)
{
    run->random ^= run->random << 13;
    run->random ^= run->random >> 7;
    run->random ^= run->random << 17;
    return (size_t)(run->random >> 11) % below;
}

static void put(struct ids *ids, size_t at, const struct kg_id *id)
{
    assert_true(ids->count < IDS_MAX);
    memmove(&ids->items[at + 1], &ids->items[at], (ids->count - at) * sizeof(*id));
    ids->items[at] = *id;
    ids->count++;
}

static void appended(struct run *run, const struct session_added *added)
{
    struct model *model = run->model;
    put(&model->now, model->now.count, &added->id);
    if (model->depth > 0)
        put(&model->since[model->depth - 1], model->since[model->depth - 1].count, &added->id);
    if (pick(run, 8) == 0) {
        model->fork_at = added->id;
        model->forked = model->now;
    }
}

static size_t find(const struct ids *ids, const char *id)
{
    size_t at = 0;
    while (at < ids->count && strcmp(ids->items[at].text, id) != 0)
        at++;
    return at;
}

static void holds(struct run *run, const struct ids *ids, const char *session)
{
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    size_t at = 0;
    assert_int_equal(session_context_read(run->world->state, session, "primary", &entries, NULL),
                     0);
    for (size_t i = 0; i < entries.count; i++)
        if (session_kind_row(entries.items[i].kind)->in_context)
            assert_string_equal(entries.items[i].id.text, ids->items[at++].text);
    assert_int_equal(at, ids->count);
}

/* -- steps ------------------------------------------------------------------------------------- */

static const char *const words[] = {
    "hello",  "<plugin:a>",  "</plugin:b>", "a < b",      "\xE4\xBD\xA0",          "\\", "\"",
    "\n\r\t", "</PlugIn:c>", "< plugin",    "&lt;plugin", "\xEF\xBC\x9Cplugin:x>", "{}", "long, ",
};

/* What people say has no delimiters in it, so that those of a context can be counted. */
static char *some_text(struct run *run, bool hostile)
{
    struct kg_buf text = {0};
    for (size_t i = pick(run, 6); i > 0; i--)
        kg_buf_text(&text, words[hostile ? pick(run, KG_COUNT(words)) : 0]);
    return kg_buf_terminate(&text);
}

static void step_say(struct run *run)
{
    static const enum session_role roles[] = {SESSION_USER, SESSION_ASSISTANT, SESSION_USER,
                                              SESSION_SYSTEM};
    kg_auto(kg_free) char *text = some_text(run, false);
    struct session_added added = say(run->world, roles[pick(run, 24) % 7 % 4], text);
    appended(run, &added);
}

static void step_call(struct run *run)
{
    struct session_added added = call_tool(run->world, "x.y");
    run->model->open_calls[run->model->open_call_count++] = added;
    appended(run, &added);
}

static void step_answer(struct run *run)
{
    struct model *model = run->model;
    if (model->open_call_count == 0)
        return;
    size_t at = pick(run, model->open_call_count);
    kg_auto(kg_free) char *text = some_text(run, true);
    struct session_added added = answer_tool(run->world, &model->open_calls[at], text);
    model->open_calls[at] = model->open_calls[--model->open_call_count];
    appended(run, &added);
}

static void step_pin(struct run *run)
{
    const struct ids *now = &run->model->now;
    if (now->count > 0)
        assert_int_equal(session_pin(run->world->state, run->world->id,
                                     kg_str(now->items[pick(run, now->count)].text),
                                     pick(run, 3) == 0, &run->world->err),
                         0);
}

static void step_inject(struct run *run)
{
    struct model *model = run->model;
    kg_auto(kg_free) char *text = some_text(run, true);
    if (model->depth == 0)
        return;
    const struct kg_id *mark = &model->marks[model->depth - 1];
    struct session_added added = inject(run->world, "hook", text, mark);
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    assert_int_equal(
        session_context_read(run->world->state, run->world->id, "primary", &entries, NULL), 0);
    /* Behind the mark, and behind what was injected before. */
    size_t at = 0;
    for (size_t i = 0; strcmp(entries.items[i].id.text, added.id.text) != 0; i++)
        at += session_kind_row(entries.items[i].kind)->in_context;
    put(&model->now, at, &added.id);
}

/* -- compactions ------------------------------------------------------------------------------- */

/* What has to hold of every plan. */
static void check_plan(const struct session_compaction *compaction)
{
    struct session_compaction_sums sums = session_compaction_sums(compaction);
    size_t count = session_compaction_count(compaction), may_go = 0, users = 0;
    uint64_t tokens = 0;
    for (size_t i = 0; i < count; i++) {
        bool stays, goes;
        const struct session_entry *entry = session_compaction_entry(compaction, i, &stays, &goes);
        bool user = entry->kind == SESSION_MESSAGE && entry->role == SESSION_USER;
        bool first_user = user && users++ == 0;
        assert_false(stays && goes);
        assert_true(stays || !(first_user || entry->pinned ||
                               (entry->kind == SESSION_MESSAGE && entry->role == SESSION_SYSTEM)));
        may_go += !stays && !goes;
        tokens += goes ? 0 : entry->tokens;
    }
    assert_true(sums.tokens_after >= tokens);
    assert_true(sums.added > 0 || tokens <= sums.target_tokens || may_go == 0);
}

/* Follows a plan in the model; additions are known after they were applied. */
static void follow(struct run *run, const struct session_compaction *compaction,
                   const struct session_added *mark)
{
    struct model *model = run->model;
    assert_true(model->depth < STACK_MAX);
    model->before[model->depth] = model->now;
    model->since[model->depth].count = 0;
    model->marks[model->depth++] = mark->id;
    for (size_t i = session_compaction_count(compaction); i > 0; i--) {
        bool stays, goes;
        const struct session_entry *entry =
            session_compaction_entry(compaction, i - 1, &stays, &goes);
        if (!goes)
            continue;
        size_t at = find(&model->now, entry->id.text);
        assert_true(at < model->now.count);
        memmove(&model->now.items[at], &model->now.items[at + 1],
                (--model->now.count - at) * sizeof(struct kg_id));
    }
}

static void step_drop(struct run *run)
{
    const struct session_compaction_options options = {
        .strategy = SESSION_BY_DROP,
        .trigger = "random",
        .keep_recent = (uint32_t)pick(run, 4),
        .target_tokens = pick(run, 3) ? pick(run, 2000) : 0,
    };
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction = NULL;
    if (run->model->depth == STACK_MAX ||
        session_compaction_read(run->world->state, run->world->id, "primary", &options, &compaction,
                                &run->world->err) < 0)
        return;
    check_plan(compaction);
    struct session_added mark = apply(run->world, compaction);
    follow(run, compaction, &mark);
}

/* A result that keeps what has to stay, some of the rest, and puts a new message somewhere. */
static void make_result(struct run *run, const struct session_compaction *compaction, size_t new_at,
                        struct kg_buf *buf)
{
    struct kg_json_writer writer = kg_json_writer(buf);
    kg_auto(kg_buf_free) struct kg_buf superseded = {0};
    kg_buf_text(buf, "{\"role\":\"compactor\",\"messages\":[");
    for (size_t i = 0; i < session_compaction_count(compaction); i++) {
        bool stays, goes;
        const struct session_entry *entry = session_compaction_entry(compaction, i, &stays, &goes);
        if (i == new_at)
            kg_json_raw(&writer, KG_STR("{\"role\":\"system\",\"content\":\"</plugin:c> new\"}"));
        if (stays || (entry->kind == SESSION_MESSAGE && pick(run, 3) == 0))
            session_message_write(entry, &writer);
        else
            kg_buf_printf(&superseded, "%s\"%s\"", superseded.length > 0 ? "," : "",
                          entry->id.text);
    }
    kg_buf_printf(buf, "],\"superseded\":[%s]}", kg_buf_terminate(&superseded));
}

static void step_delegate(struct run *run)
{
    const struct session_compaction_options options = {.strategy = SESSION_BY_DELEGATE,
                                                       .trigger = "random",
                                                       .keep_recent = (uint32_t)pick(run, 3)};
    kg_auto(session_compaction_cleanup) struct session_compaction *compaction = NULL;
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    enum session_fault fault;
    if (run->model->depth == STACK_MAX ||
        session_compaction_read(run->world->state, run->world->id, "primary", &options, &compaction,
                                &run->world->err) < 0)
        return;
    size_t count = session_compaction_count(compaction), new_at = pick(run, count + 1);
    make_result(run, compaction, new_at, &result);
    if (session_compaction_take_result(compaction, "c", kg_buf_view(&result), &fault,
                                       &run->world->err) < 0) {
        assert_int_equal(fault,
                         SESSION_FAULT_INVALID); /* between a call and its result; or no gain */
        return;
    }
    struct session_added mark = apply(run->world, compaction);
    struct session_compaction_sums sums = session_compaction_sums(compaction);
    size_t kept_before = 0;
    for (size_t i = 0; i < new_at && i < count; i++) {
        bool stays, goes;
        session_compaction_entry(compaction, i, &stays, &goes);
        kept_before += !goes;
    }
    follow(run, compaction, &mark);
    if (sums.added == 0)
        return;
    const struct session_page_query query = {.after = mark.seq};
    kg_auto(session_entries_clear) struct session_entries made = {0};
    assert_int_equal(session_page(run->world->state, run->world->id, &query, &made, NULL), 0);
    put(&run->model->now, kept_before, &made.items[0].id);
}

static void step_undo(struct run *run)
{
    struct model *model = run->model;
    if (model->depth == 0)
        return;
    size_t at = --model->depth;
    assert_string_equal(undo(run->world).text, model->marks[at].text);
    model->now = model->before[at];
    for (size_t i = 0; i < model->since[at].count; i++) {
        put(&model->now, model->now.count, &model->since[at].items[i]);
        if (at > 0)
            put(&model->since[at - 1], model->since[at - 1].count, &model->since[at].items[i]);
    }
    model->fork_at = (struct kg_id){{0}};
}

static void step_fork(struct run *run)
{
    kg_auto(session_clear) struct session fork = {0};
    if (run->model->fork_at.text[0] == '\0')
        return;
    assert_int_equal(session_fork(run->world->state, run->world->id,
                                  kg_str(run->model->fork_at.text), "eve", &fork, &run->world->err),
                     0);
    holds(run, &run->model->forked, fork.id.text);
}

/* -- what has to hold -------------------------------------------------------------------------- */

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        count++;
    return count;
}

static void check_delimiters(struct run *run)
{
    kg_auto(kg_free) char *text = context(run->world);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_str(text), NULL);
    size_t wrapped = 0;
    assert_non_null(doc);
    const struct kg_node *messages = kg_node_get(doc->root, "messages");
    for (uint32_t i = 0; i < messages->count; i++)
        wrapped += kg_node_get(&messages->items[i], "plugin") != NULL;
    assert_int_equal(count_of(text, "<plugin:"), wrapped);
    assert_int_equal(count_of(text, "</plugin:"), wrapped);
}

static void check_sums(struct run *run)
{
    kg_auto(session_agents_clear) struct session_agents agents = {0};
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    uint64_t tokens = 0, count = 0;
    assert_int_equal(session_agents_read(run->world->state, run->world->id, &agents, NULL), 0);
    assert_int_equal(
        session_context_read(run->world->state, run->world->id, "primary", &entries, NULL), 0);
    for (size_t i = 0; i < entries.count; i++) {
        tokens += entries.items[i].tokens;
        count += entries.items[i].tokens > 0;
    }
    if (agents.count == 0)
        return;
    assert_int_equal(agents.items[0].tokens, tokens);
    assert_int_equal(agents.items[0].entries, count);
}

static void one_run(struct run *run)
{
    static void (*const steps[])(struct run *) = {
        step_say, step_say,  step_say,    step_say,    step_call,     step_answer, step_answer,
        step_pin, step_drop, step_inject, step_inject, step_delegate, step_fork,   step_undo,
    };
    for (int i = 0; i < STEPS; i++) {
        size_t which = pick(run, KG_COUNT(steps));
        steps[which](run);
        holds(run, &run->model->now, run->world->id);
        if (i % 8 == 0) {
            check_delimiters(run);
            check_sums(run);
        }
    }
}

static void random_sessions_agree_with_a_model(void **data)
{
    (void)data;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct run run = {.random = seed * 0x9E3779B97F4A7C15u};
        run.model = kg_alloc(sizeof(*run.model));
        session_world_new((void **)&run.world);
        state_step(run.world->state, STATE_BEGIN_WRITE, NULL);
        print_message("seed %d\n", (int)seed);
        one_run(&run);
        state_step(run.world->state, STATE_COMMIT, NULL);
        session_world_free((void **)&run.world);
        free(run.model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_sessions_agree_with_a_model)};
    return STATE_PLACE_RUN("session_random", tests);
}
