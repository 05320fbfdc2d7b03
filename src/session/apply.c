/*
 * A compaction becomes entries: a mark with its figures, what is new, each in its place, and the
 * mark as the reason why others no longer stand. Undoing it takes all three back.
 *
 * Places are ranks. Between two entries that stay there is a gap; what is new is spread over it,
 * and if ever a gap is used up, all entries of the agent are spread again first.
 */
#include "session/internal.h"

#include <errno.h>
#include <stdlib.h>

#define STEP_MIN ((int64_t)2 * RANK_ROOM) /* between what is new: injections go behind the last */

/* What is written, in the order of the context: the additions, and the mark behind the last one. */
struct writing {
    struct state *state;
    struct session session;
    struct session_compaction *compaction;
    int64_t *ranks; /* owned: of each addition */
    int64_t mark_rank;
    size_t mark_after; /* the entry that it stands behind, or NONE */
};

/* -- places ------------------------------------------------------------------------------------ */

static size_t first_gone(const struct session_compaction *compaction)
{
    size_t at = 0;
    while (at < compaction->entries.count && !compaction->goes[at])
        at++;
    return at;
}

static size_t mark_place(const struct session_compaction *compaction)
{
    const struct additions *additions = &compaction->additions;
    if (additions->count > 0)
        return additions->items[additions->count - 1].after;
    size_t first = first_gone(compaction);
    return first > 0 ? first - 1 : NONE;
}

/* The gap behind the entry `after` that stays: from its rank to that of the next that stays. */
static void find_gap(const struct session_compaction *compaction, size_t after, int64_t *ret_low,
                     int64_t *ret_high)
{
    const struct session_entries *entries = &compaction->entries;
    size_t next = after == NONE ? 0 : after + 1;
    while (next < entries->count && compaction->goes[next])
        next++;
    const struct session_entry *last = &entries->items[entries->count - 1];
    *ret_low = after == NONE ? entries->items[0].rank - RANK_GAP : entries->items[after].rank;
    *ret_high = next < entries->count ? entries->items[next].rank : last->rank + RANK_GAP;
}

/* False: a gap is too narrow. */
static bool find_ranks(struct writing *writing)
{
    const struct additions *additions = &writing->compaction->additions;
    size_t i = 0;
    do {
        size_t after = i < additions->count ? additions->items[i].after : writing->mark_after;
        size_t end = i;
        while (end < additions->count && additions->items[end].after == after)
            end++;
        int64_t low, high;
        find_gap(writing->compaction, after, &low, &high);
        int64_t step = (high - low) / (int64_t)(end - i + 2);
        if (step < STEP_MIN)
            return false;
        for (size_t k = i; k < end; k++)
            writing->ranks[k] = low + step * (int64_t)(k - i + 1);
        writing->mark_rank = low + step * (int64_t)(end - i + (end == i));
        i = end;
    } while (i < additions->count);
    return true;
}

/* Walks the ranks of what stands, in the order that the compaction was planned in. */
struct reranking {
    struct session_entries *entries;
    size_t at;
    bool same;
};

static bool visit_rank(void *data, const struct state_entry *row)
{
    struct reranking *reranking = data;
    if (row->tokens == 0)
        return true;
    if (reranking->at == reranking->entries->count)
        return false; /* what was appended since */
    struct session_entry *entry = &reranking->entries->items[reranking->at++];
    reranking->same = strcmp(entry->id.text, row->id) == 0;
    entry->rank = row->rank;
    return reranking->same;
}

static int place_all(struct writing *writing, struct kg_err *err)
{
    if (find_ranks(writing))
        return 0;
    struct session_compaction *compaction = writing->compaction;
    const struct state_entry_query rows = {.order = STATE_ENTRIES_LIVE,
                                           .session = writing->session.number,
                                           .agent = compaction->agent,
                                           .limit = SESSION_ENTRIES_MAX};
    struct reranking reranking = {.entries = &compaction->entries, .same = true};
    int result = state_entries_spread(writing->state, writing->session.number, compaction->agent,
                                      RANK_GAP, err);
    if (result == 0)
        result = state_entries(writing->state, &rows, visit_rank, &reranking, err);
    if (result < 0)
        return result;
    if (!reranking.same || !find_ranks(writing))
        return kg_fail(err, KG_E_CONFLICT, "the context was rewritten meanwhile");
    return 0;
}

/* -- what is written --------------------------------------------------------------------------- */

static void apply_write_text(struct kg_json_writer *writer, const char *key, const char *text)
{
    if (text == NULL)
        return;
    kg_json_named_text(writer, key, text);
}

static void write_figures(const struct session_compaction *compaction, struct kg_buf *buf)
{
    struct session_compaction_sums sums = session_compaction_sums(compaction);
    const struct {
        const char *key;
        uint64_t value;
    } figures[] = {
        {"superseded", sums.superseded},
        {"kept", sums.kept},
        {"added", sums.added},
        {"tokens_before", sums.tokens_before},
        {"tokens_after", sums.tokens_after},
    };
    struct kg_json_writer writer = kg_json_writer(buf);
    kg_json_begin(&writer, '{');
    apply_write_text(&writer, "strategy", session_strategy_names[compaction->strategy]);
    apply_write_text(&writer, "trigger", compaction->trigger);
    for (size_t i = 0; i < KG_COUNT(figures); i++)
        kg_json_named_int(&writer, figures[i].key, (int64_t)figures[i].value);
    apply_write_text(&writer, "plugin", compaction->plugin);
    apply_write_text(&writer, "summary", compaction->summary);
    apply_write_text(&writer, "fallback", compaction->fallback);
    kg_json_end(&writer, '}');
}

static int apply_write_mark(struct writing *writing, const struct kg_id *id, uint64_t *ret_seq,
                            struct kg_err *err)
{
    struct session_compaction *compaction = writing->compaction;
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    write_figures(compaction, &content);
    struct session_entry mark = {
        .id = *id,
        .kind = SESSION_COMPACTION,
        .role = SESSION_SYSTEM,
        .agent = compaction->agent,
        .rank = writing->mark_rank,
        .content = kg_buf_view(&content),
    };
    int result = session_entry_write(writing->state, &writing->session, &mark, err);
    if (result == 0)
        *ret_seq = mark.seq;
    return result;
}

static int write_additions(struct writing *writing, const struct kg_id *mark, struct kg_err *err)
{
    struct session_compaction *compaction = writing->compaction;
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    int result = 0;
    for (size_t i = 0; i < compaction->additions.count && result == 0; i++) {
        struct addition *addition = &compaction->additions.items[i];
        addition->id = kg_id_new("");
        struct session_entry entry = session_addition_entry(compaction, addition, &content);
        entry.parent = *mark;
        entry.rank = writing->ranks[i];
        result = session_entry_write(writing->state, &writing->session, &entry, err);
    }
    return result;
}

/* What goes and what stays, in the order that it was appended in. */
struct numbered {
    uint64_t seq;
    bool goes;
};

static int compare_seq(const void *a, const void *b)
{
    uint64_t left = ((const struct numbered *)a)->seq, right = ((const struct numbered *)b)->seq;
    return (left > right) - (left < right);
}

static struct numbered *by_seq(const struct session_compaction *compaction)
{
    size_t count = compaction->entries.count;
    struct numbered *list = kg_alloc_array(count + 1, sizeof(list[0]));
    bool sorted = true;
    for (size_t i = 0; i < count; i++) {
        list[i] = (struct numbered){compaction->entries.items[i].seq, compaction->goes[i]};
        sorted &= i == 0 || list[i].seq > list[i - 1].seq;
    }
    if (!sorted)
        qsort(list, count, sizeof(list[0]), compare_seq);
    return list;
}

/* Long runs go together, so that their rows are found by one walk. */
static int supersede(struct writing *writing, uint64_t mark, struct kg_err *err)
{
    const struct session_compaction *compaction = writing->compaction;
    kg_auto(kg_free) struct numbered *list = by_seq(compaction);
    size_t count = compaction->entries.count;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && list[end].goes == list[i].goes; end++)
            continue;
        const struct state_seq_range range = {.session = writing->session.number,
                                              .agent = compaction->agent,
                                              .first = (int64_t)list[i].seq,
                                              .last = (int64_t)list[end - 1].seq};
        int64_t done = 0;
        if (!list[i].goes)
            continue;
        int result = state_entries_supersede(writing->state, &range, (int64_t)mark, &done, err);
        if (result < 0)
            return result;
        if (done != (int64_t)(end - i))
            return kg_fail(err, KG_E_CONFLICT, "something to be removed was pinned meanwhile");
    }
    return 0;
}

static int count_change(struct writing *writing, struct kg_err *err)
{
    struct session_compaction_sums sums = session_compaction_sums(writing->compaction);
    const struct state_agent change = {
        .path = writing->compaction->agent,
        .entries = (int64_t)sums.added - (int64_t)sums.superseded,
        .tokens = (int64_t)sums.tokens_after - (int64_t)sums.tokens_before,
        .generation = 1,
    };
    int result = state_agent_add(writing->state, writing->session.number, &change, NULL, err);
    return result < 0 ? result : session_save(writing->state, &writing->session, err);
}

/* -- a compaction ------------------------------------------------------------------------------ */

static int check_still(struct writing *writing, struct kg_err *err)
{
    uint64_t tokens, generation = 0;
    int result = session_agent_tokens(writing->state, &writing->session, writing->compaction->agent,
                                      &tokens, &generation, err);
    if (result == 0 && generation != writing->compaction->generation)
        return kg_fail(err, KG_E_CONFLICT, "the context was rewritten meanwhile");
    return result;
}

static int write_all(struct writing *writing, const struct kg_id *mark, uint64_t *ret_seq,
                     struct kg_err *err)
{
    int result = check_still(writing, err);
    if (result == 0)
        result = place_all(writing, err);
    if (result == 0)
        result = apply_write_mark(writing, mark, ret_seq, err);
    if (result == 0)
        result = write_additions(writing, mark, err);
    if (result == 0)
        result = supersede(writing, *ret_seq, err);
    return result < 0 ? result : count_change(writing, err);
}

int session_compaction_apply(struct state *state, struct session_compaction *compaction,
                             struct session_added *ret_mark, struct kg_err *err)
{
    struct kg_id mark = kg_id_new("");
    kg_auto(kg_free) int64_t *ranks =
        kg_alloc_array(compaction->additions.count + 1, sizeof(ranks[0]));
    struct writing writing = {.state = state,
                              .compaction = compaction,
                              .ranks = ranks,
                              .mark_after = mark_place(compaction)};
    struct session_added added = {.id = mark};
    int result = session_load_open(state, compaction->session, &writing.session, err);
    if (result < 0)
        return result;
    session_go_on(&writing.session);
    result = write_all(&writing, &mark, &added.seq, err);
    if (result == 0)
        result = session_agent_tokens(state, &writing.session, compaction->agent,
                                      &added.context_tokens, NULL, err);
    session_clear(&writing.session);
    if (result < 0)
        return kg_wrap(err, result, "session %s: compact %s", compaction->session,
                       compaction->agent);
    compaction->applied = true;
    *ret_mark = added;
    return 0;
}

/* -- and back ---------------------------------------------------------------------------------- */

static int find_latest(struct state *state, const struct session *session, const char *agent,
                       struct session_entries *ret_mark, struct kg_err *err)
{
    const struct state_entry_query rows = {
        .order = STATE_ENTRIES_MARK, .session = session->number, .agent = agent, .limit = 1};
    int result = state_entries(state, &rows, session_entries_visit, ret_mark, err);
    if (result == 0 && ret_mark->count == 0)
        return kg_fail(err, KG_E_CONFLICT, "session %s: %s: no compaction is left to undo",
                       session->id.text, agent);
    return result;
}

static int write_undo(struct state *state, struct session *session,
                      const struct session_entry *mark, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    kg_json_put_string(&content, kg_str(mark->id.text));
    struct session_entry undo = {
        .kind = SESSION_UNDO,
        .role = SESSION_SYSTEM,
        .agent = mark->agent,
        .parent = mark->id,
        .rank = mark->rank,
        .content = kg_buf_view(&content),
    };
    int result = session_entry_write(state, session, &undo, err);
    if (mark->kind == SESSION_CHECKPOINT)
        session_go_on(session);
    return result < 0 ? result : session_save(state, session, err);
}

int session_compaction_undo(struct state *state, const char *id, const char *agent,
                            struct kg_id *ret_mark, struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    kg_auto(session_entries_clear) struct session_entries marks = {0};
    int result = session_check_agent(agent, err);
    if (result == 0)
        result = session_load_open(state, id, &session, err);
    if (result == 0)
        result = find_latest(state, &session, agent, &marks, err);
    if (result < 0 || marks.items == NULL)
        return result;
    const struct session_entry *mark = &marks.items[0];
    const struct state_agent change = {.path = agent, .generation = 1};
    result = state_mark_undo(state, session.number, (int64_t)mark->seq, mark->id.text, err);
    if (result == 0)
        result = write_undo(state, &session, mark, err);
    if (result == 0)
        result = state_agent_sum(state, session.number, agent, err);
    if (result == 0)
        result = state_agent_add(state, session.number, &change, NULL, err);
    if (result == 0)
        *ret_mark = mark->id;
    return result;
}
