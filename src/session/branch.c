/*
 * Moves of a session from branch to branch. A branch is a row with entries of its own; the
 * session's id is given from row to row, so that whoever knows it finds what is said now. Nothing
 * is deleted: the row that is left keeps all that it had, under an id of its own.
 */
#include "session/internal.h"

#include <errno.h>
#include <stdlib.h>

const char *const session_act_names[SESSION_ACT_COUNT] = {
    [SESSION_MOVE_UNDO] = "undo",     [SESSION_MOVE_REDO] = "redo",
    [SESSION_MOVE_REWIND] = "rewind", [SESSION_MOVE_FORK] = "fork",
    [SESSION_MOVE_SWITCH] = "switch",
};

void session_move_clear(struct session_move *move)
{
    free(move->said);
    *move = (struct session_move){0};
}

/* Of the first the letters are the session's own; later ones have theirs. */
struct kg_id session_first_branch(struct kg_id id)
{
    struct kg_id branch = {"br_"};
    kg_str_copy(kg_str(id.text + strlen("ses_")), branch.text + 3, sizeof(branch.text) - 3);
    return branch;
}

/* -- plans ------------------------------------------------------------------------------------- */

/* From the end backwards: the user's last message, and the entry before it. */
struct last_said {
    struct kg_id said, before;
    uint64_t cut;
};

/* By the user: a task for a subagent is another agent's. */
static bool branch_is_said(const struct state_entry *row)
{
    return strcmp(row->kind, session_kind_row(SESSION_MESSAGE)->name) == 0 &&
           strcmp(row->role, session_role_names[SESSION_USER]) == 0 && row->parent == NULL;
}

static bool look_for_said(void *data, const struct state_entry *row)
{
    struct last_said *last = data;
    if (last->said.text[0] != '\0') {
        kg_str_copy(kg_str(row->id), last->before.text, sizeof(last->before.text));
        last->cut = (uint64_t)row->seq;
        return false;
    }
    if (branch_is_said(row))
        kg_str_copy(kg_str(row->id), last->said.text, sizeof(last->said.text));
    return true;
}

static int plan_undo(struct state *state, const struct session *session, struct session_move *move,
                     struct kg_err *err)
{
    struct last_said last = {0};
    const struct state_entry_query query = {.order = STATE_ENTRIES_DOWN,
                                            .session = session->number,
                                            .after = INT64_MAX,
                                            .limit = SESSION_ENTRIES_MAX};
    int result = state_entries(state, &query, look_for_said, &last, err);
    if (result < 0)
        return result;
    if (last.cut == 0)
        return kg_fail(err, KG_E_CONFLICT, "session %s: there is nothing to undo",
                       session->id.text);
    move->cut = last.cut;
    move->entry = last.before;
    return 0;
}

static int plan_cut(struct state *state, const struct session *session, struct kg_str target,
                    struct session_move *move, struct kg_err *err)
{
    kg_auto(session_entries_clear) struct session_entries place = {0};
    int result = session_fork_cut(state, session, target, &place, &move->cut, err);
    if (result < 0)
        return result;
    if (move->act == SESSION_MOVE_REWIND && move->cut == session->entries)
        return kg_fail(err, KG_E_CONFLICT, "session %s: it is already at that entry",
                       session->id.text);
    if (place.count > 0)
        move->entry = place.items[0].id;
    return 0;
}

static void take_move(void *data, const struct state_move *row)
{
    struct session_move *move = data;
    move->takes_back = row->number;
    kg_str_copy(kg_str(row->from_branch), move->to.text, sizeof(move->to.text));
    if (row->snapshot != NULL)
        kg_str_copy(kg_str(row->snapshot), move->snapshot.text, sizeof(move->snapshot.text));
}

/* Whether the branch is still there to be returned to. */
static int check_branch(struct state *state, const struct session *session,
                        struct session_move *move, struct kg_err *err)
{
    kg_auto(session_clear) struct session branch = {0};
    int result = session_load_branch(state, move->to.text, &branch, err);
    if (result < 0)
        return result;
    if (branch.number == session->number)
        return kg_fail(err, KG_E_CONFLICT, "session %s: it is already on that branch",
                       session->id.text);
    if (strcmp(branch.left_by.text, session->id.text) != 0) {
        kg_fail(err, KG_E_CONFLICT, "session %s: the branch to return to is a session of its own",
                session->id.text);
        return kg_hint(err, "it is %s", branch.id.text);
    }
    move->cut = branch.entries;
    return 0;
}

static int plan_redo(struct state *state, const struct session *session, struct session_move *move,
                     struct kg_err *err)
{
    if (move->takes_back == 0)
        return kg_fail(err, KG_E_CONFLICT, "session %s: there is nothing to redo",
                       session->id.text);
    return check_branch(state, session, move, err);
}

/* A branch that it left, by the id of the branch or of the row; or any other session, as a copy. */
static int plan_switch(struct state *state, const struct session *session, struct kg_str target,
                       struct session_move *move, struct kg_err *err)
{
    kg_auto(session_clear) struct session other = {0};
    kg_auto(kg_free) char *name = kg_str_dup(target);
    int result = kg_str_starts(target, "br_") ? session_load_branch(state, name, &other, err)
                                              : session_find(state, target, &other, err);
    if (result < 0)
        return result;
    if (strcmp(other.project_id, session->project_id) != 0 ||
        strcmp(other.operator_id, session->operator_id) != 0)
        return kg_fail(err, KG_E_NOT_FOUND, "session %.*s does not exist in this project",
                       KG_STR_CUT(target, KG_CUT_NAME));
    move->to = other.branch;
    if (strcmp(other.left_by.text, session->id.text) == 0 || other.number == session->number)
        return check_branch(state, session, move, err);
    move->to = (struct kg_id){{0}};
    move->source = other.id;
    move->cut = other.entries;
    return 0;
}

/* The first entry behind the cut, and the first words of the user there. */
struct behind {
    struct kg_id next;
    char *said;
};

static bool look_behind(void *data, const struct state_entry *row)
{
    struct behind *behind = data;
    if (behind->next.text[0] == '\0')
        kg_str_copy(kg_str(row->id), behind->next.text, sizeof(behind->next.text));
    if (!branch_is_said(row))
        return true;
    behind->said = session_title_of(row->content);
    return false;
}

/* What goes, in words. A redo brings back rather than takes. */
static int see_behind(struct state *state, const struct session *session, struct session_move *move,
                      struct kg_err *err)
{
    struct behind behind = {0};
    const struct state_entry_query query = {.order = STATE_ENTRIES_UP,
                                            .session = session->number,
                                            .after = (int64_t)move->cut,
                                            .limit = SESSION_PAGE_ENTRIES,
                                            .content = true};
    if (move->act == SESSION_MOVE_REDO || move->act == SESSION_MOVE_SWITCH)
        return 0;
    int result = state_entries(state, &query, look_behind, &behind, err);
    move->next = behind.next;
    move->said = behind.said;
    return result;
}

int session_move_plan(struct state *state, const char *id, enum session_act act,
                      struct kg_str target, struct session_move *ret_move, struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    struct session_move move = {.act = act};
    int result = session_load(state, id, &session, err);
    if (result == 0)
        result = state_move_last(state, id, take_move, &move, &move.redoable, err);
    if (result < 0)
        return result;
    move.from = session.branch;
    move.entries = session.entries;
    if (act == SESSION_MOVE_REDO)
        result = plan_redo(state, &session, &move, err);
    else {
        move.takes_back = 0;
        move.to = move.snapshot = (struct kg_id){{0}};
        result = act == SESSION_MOVE_UNDO     ? plan_undo(state, &session, &move, err)
                 : act == SESSION_MOVE_SWITCH ? plan_switch(state, &session, target, &move, err)
                                              : plan_cut(state, &session, target, &move, err);
    }
    if (result == 0)
        result = see_behind(state, &session, &move, err);
    if (result == 0)
        *ret_move = move;
    else
        session_move_clear(&move);
    return result;
}

/* -- carried out ------------------------------------------------------------------------------- */

/* The row that stood for the session has an id of its own from now on. */
static int branch_leave(struct state *state, const struct session *session, struct kg_err *err)
{
    struct kg_id own = kg_id_new("ses_");
    const struct state_session row = {.number = session->number,
                                      .id = own.text,
                                      .left_by = session->id.text,
                                      .state = session_state_names[SESSION_CLOSED]};
    return state_session_rename(state, &row, err);
}

/* A new row with the entries of another up to the cut, which is the session now. */
static int add_branch(struct state *state, const struct session *session,
                      const struct session *source, struct session_move *move, int64_t *ret_number,
                      struct kg_err *err)
{
    move->to = kg_id_new("br_");
    const struct state_session row = {
        .id = session->id.text,
        .project_id = session->project_id,
        .workdir = session->workdir,
        .seat = source->seat,
        .state = session_state_names[SESSION_ACTIVE],
        .operator_id = session->operator_id,
        .title = source->title,
        .parent = session->parent.text[0] ? session->parent.text : NULL,
        .parent_entry = session->parent_entry.text[0] ? session->parent_entry.text : NULL,
        .created_ms = session->created_ms,
        .updated_ms = kg_wall_ms(),
        .entries = (int64_t)move->cut,
        .branch = move->to.text,
    };
    int result = state_session_add(state, &row, ret_number, err);
    return result < 0
               ? result
               : state_session_copy(state, source->number, *ret_number, (int64_t)move->cut, err);
}

static int make_branch(struct state *state, const struct session *session,
                       struct session_move *move, int64_t *ret_number, struct kg_err *err)
{
    kg_auto(session_clear) struct session other = {0};
    if (move->source.text[0] == '\0')
        return add_branch(state, session, session, move, ret_number, err);
    int result = session_load(state, move->source.text, &other, err);
    return result < 0 ? result : add_branch(state, session, &other, move, ret_number, err);
}

static int return_to(struct state *state, const struct session *session,
                     const struct session_move *move, int64_t *ret_number, struct kg_err *err)
{
    kg_auto(session_clear) struct session branch = {0};
    int result = session_load_branch(state, move->to.text, &branch, err);
    if (result < 0)
        return result;
    const struct state_session row = {.number = branch.number,
                                      .id = session->id.text,
                                      .state = session_state_names[SESSION_ACTIVE]};
    *ret_number = branch.number;
    return state_session_rename(state, &row, err);
}

static int keep_move(struct state *state, const char *id, const struct session_move *move,
                     const char *snapshot_or_null, struct kg_err *err)
{
    const struct state_move row = {
        .session = id,
        .act = session_act_names[move->act],
        .from_branch = move->from.text,
        .to_branch = move->to.text,
        .entry = move->entry.text[0] ? move->entry.text : NULL,
        .snapshot = snapshot_or_null,
        .at_ms = kg_wall_ms(),
    };
    int result = state_move_add(state, &row, err);
    return result == 0 && move->takes_back != 0 ? state_move_redone(state, move->takes_back, err)
                                                : result;
}

/* What was planned for one moment is not done in another. */
static int branch_check_same(struct state *state, const struct session *session,
                             struct session_move *move, struct kg_err *err)
{
    if (strcmp(session->branch.text, move->from.text) != 0 || session->entries != move->entries)
        return kg_fail(err, KG_E_CONFLICT, "session %s: something was said meanwhile; try again",
                       session->id.text);
    return move->to.text[0] != '\0' ? check_branch(state, session, move, err) : 0;
}

int session_move_apply(struct state *state, const char *id, struct session_move *move,
                       const char *snapshot_or_null, struct session *ret_session,
                       struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    int64_t number = 0;
    int result = session_load_open(state, id, &session, err);
    if (result == 0)
        result = branch_check_same(state, &session, move, err);
    if (result == 0)
        result = branch_leave(state, &session, err);
    if (result == 0)
        result = move->to.text[0] != '\0' ? return_to(state, &session, move, &number, err)
                                          : make_branch(state, &session, move, &number, err);
    if (result == 0)
        result = state_session_rewritten(state, session.number, number, err);
    if (result == 0)
        result = keep_move(state, id, move, snapshot_or_null, err);
    return result < 0 ? result : session_load(state, id, ret_session, err);
}
