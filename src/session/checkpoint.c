/*
 * A checkpoint leaves the context as it is and stops the session: whoever wants it so decides
 * himself what a full context loses. It is not asked for twice before the next compaction, or a
 * session that was resumed would be stopped again by its next message.
 */
#include "session/internal.h"

/* The newest first. */
struct looking {
    bool flagged;
};

static bool visit_mark(void *data, const struct state_entry *row)
{
    struct looking *looking = data;
    looking->flagged = strcmp(row->kind, session_kind_row(SESSION_CHECKPOINT)->name) == 0;
    /* A compaction that was undone has not happened; a checkpoint was seen even if it was. */
    return !looking->flagged && row->superseded != 0;
}

static int was_flagged(struct state *state, const struct session *session, const char *agent,
                       bool *ret_flagged, struct kg_err *err)
{
    const struct state_entry_query marks = {.order = STATE_ENTRIES_MARKED,
                                            .session = session->number,
                                            .agent = agent,
                                            .limit = SESSION_ENTRIES_MAX};
    struct looking looking = {0};
    int result = state_entries(state, &marks, visit_mark, &looking, err);
    if (result == 0)
        *ret_flagged = looking.flagged;
    return result;
}

static void checkpoint_write_content(const char *trigger, uint64_t tokens, struct kg_buf *buf)
{
    struct kg_json_writer writer = kg_json_writer(buf);
    kg_json_begin(&writer, '{');
    kg_json_named_text(&writer, "strategy", session_strategy_names[SESSION_BY_CHECKPOINT]);
    kg_json_named_text(&writer, "trigger", trigger);
    kg_json_named_int(&writer, "tokens_before", (int64_t)tokens);
    kg_json_end(&writer, '}');
}

static int checkpoint_write_mark(struct state *state, struct session *session, const char *agent,
                                 const char *trigger, struct session_added *ret_mark,
                                 struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    struct session_added added = {0};
    int result = session_agent_tokens(state, session, agent, &added.context_tokens, NULL, err);
    if (result < 0)
        return result;
    checkpoint_write_content(trigger, added.context_tokens, &content);
    struct session_entry mark = {
        .kind = SESSION_CHECKPOINT,
        .role = SESSION_SYSTEM,
        .agent = agent,
        .rank = (int64_t)(session->entries + 1) * RANK_GAP,
        .content = kg_buf_view(&content),
    };
    result = session_entry_write(state, session, &mark, err);
    if (result < 0)
        return result;
    session->state = SESSION_STOPPED;
    added.id = mark.id;
    added.seq = mark.seq;
    *ret_mark = added;
    return session_save(state, session, err);
}

int session_checkpoint(struct state *state, const char *id, const char *agent, const char *trigger,
                       bool once, struct session_added *ret_mark, bool *ret_marked,
                       struct kg_err *err)
{
    kg_auto(session_clear) struct session session = {0};
    bool flagged = false;
    int result = session_check_agent(agent, err);
    if (result == 0)
        result = session_load_open(state, id, &session, err);
    if (result == 0 && once)
        result = was_flagged(state, &session, agent, &flagged, err);
    if (result == 0 && !flagged)
        result = checkpoint_write_mark(state, &session, agent, trigger, ret_mark, err);
    if (result == 0)
        *ret_marked = !flagged;
    return result;
}
