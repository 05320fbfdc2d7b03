/*
 * The log of a session: entries are added at its end and keep their number and content for ever.
 * What changes is where one stands in a context, and whether.
 */
#include "session/internal.h"

#include <errno.h>
#include <stdlib.h>

/* -- one session ------------------------------------------------------------------------------- */

int session_load_open(struct state *state, const char *id, struct session *ret_session,
                      struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    int result = session_load(state, id, &session, err);
    if (result < 0)
        return result;
    if (session.state == SESSION_CLOSED) {
        kg_fail(err, KG_E_CONFLICT, "session %s: it is closed", id);
        return kg_hint(err, "kaged session resume %s opens it again", id);
    }
    *ret_session = session;
    session = (struct session){0};
    return 0;
}

void session_go_on(struct session *session)
{
    if (session->state == SESSION_STOPPED)
        session->state = SESSION_ACTIVE;
}

int session_save(struct state *state, const struct session *session, struct kg_err *err)
{
    const struct state_session row = {
        .number = session->number,
        .seat = session->seat,
        .title = session->title,
        .state = session_state_names[session->state],
        .updated_ms = session->updated_ms,
        .entries = (int64_t)session->entries,
    };
    return state_session_set(state, &row, err);
}

int session_create(struct state *state, const struct session_new *new, struct session *ret_session,
                   struct kg_err *err)
{
    int result = session_check_new(new, err);
    if (result < 0)
        return kg_wrap(err, result, "new session");
    kg_auto(kg_free) char *title = session_title_given(new->title);
    struct kg_id id = kg_id_new("ses_"), branch = session_first_branch(id);
    int64_t now = kg_wall_ms(), number;
    const struct state_session row = {
        .id = id.text,
        .project_id = new->project_id,
        .workdir = new->workdir,
        .seat = new->seat ? new->seat : "primary",
        .state = session_state_names[SESSION_ACTIVE],
        .operator_id = new->operator_id,
        .title = title,
        .branch = branch.text,
        .created_ms = now,
        .updated_ms = now,
    };
    result = state_session_add(state, &row, &number, err);
    return result < 0 ? result : session_load(state, id.text, ret_session, err);
}

/* -- entries ----------------------------------------------------------------------------------- */

int session_entry_write(struct state *state, struct session *session, struct session_entry *entry,
                        struct kg_err *err)
{
    if (session->entries >= SESSION_ENTRIES_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "session %s: it has %d entries, which is the most",
                       session->id.text, SESSION_ENTRIES_MAX);
    entry->seq = ++session->entries;
    if (entry->id.text[0] == '\0')
        entry->id = kg_id_new("");
    entry->created_ms = session->updated_ms = kg_wall_ms();
    if (session->title == NULL && entry->kind == SESSION_MESSAGE && entry->role == SESSION_USER)
        session->title = session_title_of(entry->content);
    const struct state_entry row = {
        .seq = (int64_t)entry->seq,
        .id = entry->id.text,
        .agent = entry->agent,
        .kind = session_kind_row(entry->kind)->name,
        .role = session_role_names[entry->role],
        .source = entry->source,
        .parent = entry->parent.text[0] ? entry->parent.text : NULL,
        .rank = entry->rank,
        .created_ms = entry->created_ms,
        .tokens = (int64_t)entry->tokens,
        .content = entry->content,
    };
    return state_entry_add(state, session->number, &row, err);
}

/* Ranks of what is added in one go. */
struct places {
    const char *agent; /* of those that go first */
    int64_t next;      /* the rank of the next that goes first */
};

static int place_first(struct state *state, const struct session *session,
                       const struct session_draft *drafts, size_t count, struct places *ret_places,
                       struct kg_err *err)
{
    int64_t firsts = 0;
    struct places places = {0};
    for (size_t i = 0; i < count; i++) {
        if (!drafts[i].first)
            continue;
        if (places.agent != NULL && strcmp(places.agent, drafts[i].agent) != 0)
            return kg_fail(err, KG_E_INVALID_PARAMS, "first: in one go of one agent only");
        places.agent = drafts[i].agent;
        firsts++;
    }
    if (firsts > 0) {
        kg_auto(session_entries_clear) struct session_entries lowest = {0};
        const struct state_entry_query query = {.order = STATE_ENTRIES_LIVE,
                                                .session = session->number,
                                                .agent = places.agent,
                                                .limit = 1};
        int result = state_entries(state, &query, session_entries_visit, &lowest, err);
        if (result < 0)
            return result;
        places.next = (lowest.count ? lowest.items[0].rank : 0) - firsts * RANK_GAP;
    }
    *ret_places = places;
    return 0;
}

/* A result belongs to a call of the same agent that has none. */
static int session_log_check_result(struct state *state, const struct session *session,
                                    const struct session_draft *draft,
                                    const struct session_entry *call, struct kg_err *err)
{
    if (call->kind != SESSION_TOOL_CALL || strcmp(call->agent, draft->agent) != 0)
        return kg_fail(err, KG_E_INVALID_PARAMS, "parent %s: it is not a tool call of that agent",
                       draft->parent);
    kg_auto(session_entries_clear) struct session_entries earlier = {0};
    const struct state_entry_query query = {.order = STATE_ENTRIES_RESULT,
                                            .session = session->number,
                                            .first = call->id.text,
                                            .limit = 1};
    int result = state_entries(state, &query, session_entries_visit, &earlier, err);
    if (result == 0 && earlier.count > 0)
        return kg_fail(err, KG_E_CONFLICT, "parent %s: the call has its result", draft->parent);
    return result;
}

/* A task was given to an agent by a call of the one above it. */
static int session_log_check_task(const struct session_draft *draft,
                                  const struct session_entry *call, struct kg_err *err)
{
    size_t length = strlen(call->agent);
    if (call->kind == SESSION_TOOL_CALL && strncmp(call->agent, draft->agent, length) == 0 &&
        draft->agent[length] == '.')
        return 0;
    return kg_fail(err, KG_E_INVALID_PARAMS,
                   "parent %s: it is not a tool call of an agent above %s", draft->parent,
                   draft->agent);
}

/* What hooks inject after a compaction stands behind what that compaction made, in order. */
static int place_injection(struct state *state, const struct session *session,
                           const struct session_draft *draft, const struct session_entry *mark,
                           int64_t *ret_rank, struct kg_err *err)
{
    if (!session_kind_row(mark->kind)->is_mark || strcmp(mark->agent, draft->agent) != 0)
        return kg_fail(err, KG_E_INVALID_PARAMS, "parent %s: it is not a compaction of that agent",
                       draft->parent);
    if (mark->superseded != 0)
        return kg_fail(err, KG_E_CONFLICT, "parent %s: the compaction was undone", draft->parent);
    kg_auto(session_entries_clear) struct session_entries made = {0};
    const struct state_entry_query query = {.order = STATE_ENTRIES_MADE,
                                            .session = session->number,
                                            .first = mark->id.text,
                                            .limit = RANK_ROOM};
    int result = state_entries(state, &query, session_entries_visit, &made, err);
    if (result < 0)
        return result;
    int64_t injections = 1;
    for (size_t i = 0; i < made.count; i++)
        injections += made.items[i].kind == SESSION_INJECTION;
    if (made.count >= RANK_ROOM - SESSION_NEW_MAX)
        return kg_fail(err, KG_E_TOO_LARGE, "parent %s: it has too many injections", draft->parent);
    *ret_rank = mark->rank + injections;
    return 0;
}

static int find_parent(struct state *state, const struct session *session,
                       const struct session_draft *draft, struct session_entry *entry,
                       struct kg_err *err)
{
    kg_auto(session_entries_clear) struct session_entries parent = {0};
    int result = session_entry_named(state, session, kg_str(draft->parent), false, &parent, err);
    if (result < 0)
        return kg_wrap(err, result, "parent");
    entry->parent = parent.items[0].id;
    if (draft->kind == SESSION_TOOL_RESULT)
        return session_log_check_result(state, session, draft, &parent.items[0], err);
    if (draft->kind == SESSION_MESSAGE)
        return session_log_check_task(draft, &parent.items[0], err);
    return place_injection(state, session, draft, &parent.items[0], &entry->rank, err);
}

static bool see_last(void *data, const struct state_entry *row)
{
    kg_str_copy(kg_str(row->id), ((struct kg_id *)data)->text, sizeof(struct kg_id));
    return false;
}

/* Ids of entries go up with their order: one that was told beforehand may come too late. */
static int session_log_take_id(struct state *state, const struct session *session, const char *id,
                               struct kg_id *ret_id, struct kg_err *err)
{
    struct kg_id last = {{0}};
    const struct state_entry_query query = {
        .order = STATE_ENTRIES_DOWN, .session = session->number, .after = INT64_MAX, .limit = 1};
    int result = state_entries(state, &query, see_last, &last, err);
    if (result == 0 && strcmp(last.text, id) < 0)
        kg_str_copy(kg_str(id), ret_id->text, sizeof(ret_id->text));
    return result;
}

static int append_one(struct state *state, struct session *session,
                      const struct session_draft *draft, struct places *places,
                      struct session_added *ret_added, struct kg_err *err)
{
    struct session_entry entry = {
        .kind = draft->kind,
        .role = draft->role,
        .agent = draft->agent,
        .source = draft->source,
        .content = draft->content,
        .rank = (int64_t)(session->entries + 1) * RANK_GAP,
    };
    if (draft->first) {
        entry.rank = places->next;
        places->next += RANK_GAP;
    }
    int result = draft->parent ? find_parent(state, session, draft, &entry, err) : 0;
    if (result == 0 && draft->id != NULL)
        result = session_log_take_id(state, session, draft->id, &entry.id, err);
    if (result < 0)
        return result;
    if (session_kind_row(draft->kind)->in_context)
        entry.tokens = session_tokens(draft->content, draft->source);
    const struct state_agent more = {
        .path = draft->agent, .entries = entry.tokens > 0, .tokens = (int64_t)entry.tokens};
    int64_t tokens = 0;
    result = session_entry_write(state, session, &entry, err);
    if (result == 0)
        result = state_agent_add(state, session->number, &more, &tokens, err);
    if (result == 0)
        *ret_added = (struct session_added){.id = entry.id,
                                            .seq = entry.seq,
                                            .tokens = entry.tokens,
                                            .created_ms = entry.created_ms,
                                            .context_tokens = (uint64_t)tokens};
    return result;
}

/* What a context amounts to is known with the last entry that it got. */
static void settle_tokens(const struct session_draft *drafts, size_t count,
                          struct session_added *added)
{
    for (size_t i = 0; i < count; i++) {
        size_t last = count - 1;
        while (strcmp(drafts[last].agent, drafts[i].agent) != 0)
            last--;
        added[i].context_tokens = added[last].context_tokens;
    }
}

static int append_all(struct state *state, struct session *session,
                      const struct session_draft *drafts, size_t count, struct session_added *added,
                      struct kg_err *err)
{
    struct places places = {0};
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++)
        result = session_check_draft(&drafts[i], err);
    if (result == 0)
        result = place_first(state, session, drafts, count, &places, err);
    for (size_t i = 0; i < count && result == 0; i++)
        result = append_one(state, session, &drafts[i], &places, &added[i], err);
    return result;
}

static bool is_begun_before(const struct session_draft *draft, enum session_state state)
{
    return draft->kind == SESSION_TOOL_RESULT ||
           (state == SESSION_STOPPED &&
            !(draft->kind == SESSION_MESSAGE || draft->kind == SESSION_TOOL_CALL));
}

static int fail_stopped(const struct session *session, struct kg_err *err)
{
    const char *id = session->id.text;
    if (session->state == SESSION_CLOSED) {
        kg_fail(err, KG_E_CONFLICT, "it is closed");
        return kg_hint(err, "kaged session resume %s opens it again", id);
    }
    kg_fail(err, KG_E_CONFLICT, "it is stopped at a checkpoint");
    return kg_hint(
        err,
        "kaged session resume %s lets it go on; kaged session compact %s --strategy drop makes "
        "room first",
        id, id);
}

/* A stopped or closed session takes what ends something: results of calls, what hooks returned. */
static int check_takes(const struct session *session, const struct session_draft *drafts,
                       size_t count, struct kg_err *err)
{
    if (session->state != SESSION_STOPPED && session->state != SESSION_CLOSED)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (!is_begun_before(&drafts[i], session->state))
            return fail_stopped(session, err);
    return 0;
}

static int append_by_steps(struct state *state, const char *id, const struct session_draft *drafts,
                           size_t count, struct session_added *added, struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    int result = session_load(state, id, &session, err);
    if (result < 0)
        return result;
    result = check_takes(&session, drafts, count, err);
    if (result == 0)
        result = append_all(state, &session, drafts, count, added, err);
    if (result < 0)
        return kg_wrap(err, result, "session %s: append", id);
    if (session.state == SESSION_IDLE)
        session.state = SESSION_ACTIVE;
    result = session_save(state, &session, err);
    settle_tokens(drafts, count, added);
    return result;
}

int session_append(struct state *state, const char *id, const struct session_draft *drafts,
                   size_t count, struct session_added *ret_added, struct kg_err *err)
{
    if (count == 0 || count > SESSION_APPEND_MAX)
        return kg_fail(err, KG_E_INVALID_PARAMS,
                       "session %s: append: from 1 to %d entries in one go", id,
                       SESSION_APPEND_MAX);
    kg_auto(kg_free) struct session_added *added = kg_alloc_array(count, sizeof(added[0]));
    bool done = false;
    int result = session_append_at_once(state, id, drafts, count, added, &done, err);
    if (result == 0 && !done)
        result = append_by_steps(state, id, drafts, count, added, err);
    if (result == 0)
        memcpy(ret_added, added, count * sizeof(added[0]));
    return result;
}

/* -- changes ----------------------------------------------------------------------------------- */

int session_pin(struct state *state, const char *id, struct kg_str entry, bool pinned,
                struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    kg_auto(session_entries_clear) struct session_entries found = {0};
    int result = session_load_open(state, id, &session, err);
    if (result == 0)
        result = session_entry_named(state, &session, entry, false, &found, err);
    if (result < 0)
        return result;
    const struct session_entry *at = &found.items[0];
    if (!session_kind_row(at->kind)->in_context)
        return kg_fail(err, KG_E_CONFLICT, "session %s: entry %s: no model sees it anyway", id,
                       at->id.text);
    if (pinned && at->superseded != 0) {
        kg_fail(err, KG_E_CONFLICT, "session %s: entry %s: a compaction has left it out", id,
                at->id.text);
        return kg_hint(err, "kaged session undo-compact %s brings it back", id);
    }
    return state_entry_pin(state, session.number, (int64_t)at->seq, pinned, err);
}

static void session_log_write_move(const char *from, const char *to, struct kg_buf *buf)
{
    struct kg_json_writer writer = kg_json_writer(buf);
    kg_json_begin(&writer, '{');
    kg_json_named_text(&writer, "event", "seat_moved");
    kg_json_named_text(&writer, "from", from);
    kg_json_named_text(&writer, "to", to);
    kg_json_end(&writer, '}');
}

int session_move_seat(struct state *state, const char *id, const char *seat, struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    int result = session_check_agent(seat, err);
    if (result == 0)
        result = session_load_open(state, id, &session, err);
    if (result < 0 || session.seat == NULL || strcmp(session.seat, seat) == 0)
        return result;
    session_log_write_move(session.seat, seat, &content);
    struct session_entry event = {
        .kind = SESSION_EVENT,
        .role = SESSION_SYSTEM,
        .agent = seat,
        .content = kg_buf_view(&content),
        .rank = (int64_t)(session.entries + 1) * RANK_GAP,
    };
    result = session_entry_write(state, &session, &event, err);
    if (result < 0)
        return result;
    free(session.seat);
    session.seat = kg_strdup(seat);
    return session_save(state, &session, err);
}

/* A branch that was left, and goes on under its own id, is nobody's to return to. */
static int stand_alone(struct state *state, const struct session *session, struct kg_err *err)
{
    const struct state_session row = {.number = session->number,
                                      .id = session->id.text,
                                      .state = session_state_names[session->state]};
    return state_session_rename(state, &row, err);
}

int session_set_state(struct state *state, const char *id, enum session_state new_state,
                      struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    int result = session_load(state, id, &session, err);
    if (result < 0 || session.state == new_state)
        return result;
    if (new_state == SESSION_IDLE && session.state != SESSION_ACTIVE)
        return kg_fail(err, KG_E_CONFLICT, "session %s: it is %s", id,
                       session_state_names[session.state]);
    session.state = new_state;
    session.updated_ms = kg_wall_ms();
    if (new_state == SESSION_ACTIVE && session.left_by.text[0] != '\0')
        result = stand_alone(state, &session, err);
    return result < 0 ? result : session_save(state, &session, err);
}
