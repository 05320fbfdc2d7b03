/*
 * A fork has its own copies of the entries up to a place, and shares their content. What happened
 * behind the place has not happened in it: entries that were superseded later stand.
 */
#include "session/internal.h"

#include <errno.h>

/* Up to which seq a fork at this entry goes. */
static int cut_at(const struct session_entry *entry, const char *id, uint64_t *ret_cut,
                  struct kg_err *err)
{
    bool made = entry->kind == SESSION_SUMMARY ||
                (entry->kind == SESSION_INJECTION && entry->parent.text[0] != '\0');
    if (made) {
        kg_fail(err, KG_E_CONFLICT, "session %s: entry %s: a compaction made it", id,
                entry->id.text);
        return kg_hint(err, "fork at a message, or at %s for what was before that compaction",
                       entry->parent.text);
    }
    *ret_cut = entry->seq - session_kind_row(entry->kind)->is_mark;
    return 0;
}

static int add_copy(struct state *state, const struct session *parent, const char *entry_or_null,
                    const char *operator_id, uint64_t cut, struct kg_id *ret_id, struct kg_err *err)
{
    struct kg_id id = kg_id_new("ses_"), branch = session_first_branch(id);
    int64_t now = kg_wall_ms(), number;
    const struct state_session row = {
        .id = id.text,
        .project_id = parent->project_id,
        .workdir = parent->workdir,
        .seat = parent->seat,
        .state = session_state_names[SESSION_ACTIVE],
        .operator_id = operator_id,
        .title = parent->title,
        .branch = branch.text,
        .parent = parent->id.text,
        .parent_entry = entry_or_null,
        .created_ms = now,
        .updated_ms = now,
        .entries = (int64_t)cut,
    };
    int result = state_session_add(state, &row, &number, err);
    if (result == 0)
        result = state_session_copy(state, parent->number, number, (int64_t)cut, err);
    if (result == 0)
        *ret_id = id;
    return result;
}

static int find_cut(struct state *state, const struct session *parent, struct kg_str entry,
                    struct session_entries *ret_place, uint64_t *ret_cut, struct kg_err *err)
{
    int result = session_entry_named(state, parent, entry, false, ret_place, err);
    return result < 0 ? result : cut_at(&ret_place->items[0], parent->id.text, ret_cut, err);
}

/* The last entry, whatever it is: all of a compaction is as good a place as any. */
static int fork_find_end(struct state *state, const struct session *parent,
                         struct session_entries *ret_place, uint64_t *ret_cut, struct kg_err *err)
{
    const struct state_entry_query last = {
        .order = STATE_ENTRIES_DOWN, .session = parent->number, .after = INT64_MAX, .limit = 1};
    *ret_cut = parent->entries;
    return state_entries(state, &last, session_entries_visit, ret_place, err);
}

int session_fork_cut(struct state *state, const struct session *parent, struct kg_str entry,
                     struct session_entries *ret_place, uint64_t *ret_cut, struct kg_err *err)
{
    return entry.length > 0 ? find_cut(state, parent, entry, ret_place, ret_cut, err)
                            : fork_find_end(state, parent, ret_place, ret_cut, err);
}

int session_fork(struct state *state, const char *id, struct kg_str entry, const char *operator_id,
                 struct session *ret_session, struct kg_err *err)
{
    kg_auto(session_clear) struct session parent = {0};
    kg_auto(session_entries_clear) struct session_entries place = {0};
    uint64_t cut = 0;
    struct kg_id fork_id;
    int result = session_load(state, id, &parent, err);
    if (result == 0)
        result = session_fork_cut(state, &parent, entry, &place, &cut, err);
    if (result == 0)
        result = add_copy(state, &parent, place.count ? place.items[0].id.text : NULL, operator_id,
                          cut, &fork_id, err);
    return result < 0 ? result : session_load(state, fork_id.text, ret_session, err);
}
