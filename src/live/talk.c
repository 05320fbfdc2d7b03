/* What is said in a session, and what is done in it by request: messages, tools, idle, compact. */
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

/* The agent of a request, the seat if it names none; it has to be one of the project. */
static int settle_agent(const struct live_session *live, char **agent, struct kg_err *err)
{
    struct live_agent found;
    if (*agent == NULL)
        *agent = kg_strdup(live->seat);
    return live_agent_find(live->sessions, live->project_id, *agent, &found, err);
}

/* -- messages ---------------------------------------------------------------------------------- */

struct saying {
    struct live_op op;
    struct kg_buf body;
    char *agent;                  /* owned */
    struct session_draft *drafts; /* owned; content points into the body */
    char **parents;               /* owned: a list of what drafts point to */
    size_t count;
};

static void clear_saying(struct live_op *op)
{
    struct saying *saying = KG_CONTAINER(op, struct saying, op);
    kg_buf_free(&saying->body);
    kg_list_free(saying->parents);
    free(saying->agent);
    free(saying->drafts);
}

/* The text of a member that is a string; NULL if it is absent. Owned. */
static int member_text(struct kg_str object, const char *key, char **ret_text, struct kg_err *err)
{
    struct kg_str value;
    if (!kg_json_member(object, key, &value) || kg_str_is(value, "null"))
        return 0;
    if (value.data[0] != '"' || value.length / 2 > SESSION_AGENT_MAX)
        return kg_fail(err, KG_E_INVALID_PARAMS, "\"%s\": it has to be a short string", key);
    char *text = kg_alloc(value.length);
    text[kg_json_unescape((struct kg_str){value.data + 1, value.length - 2}, text)] = '\0';
    *ret_text = text;
    return 0;
}

static int read_kind(struct kg_str item, enum session_kind *ret_kind, struct kg_err *err)
{
    kg_auto(kg_free) char *name = NULL;
    int result = member_text(item, "kind", &name, err);
    if (result < 0)
        return result;
    *ret_kind = SESSION_MESSAGE;
    if (name != NULL)
        session_kind_find(kg_str(name), ret_kind);
    return 0;
}

/* Of a call and a result the role is known. */
static int read_role(struct kg_str item, enum session_kind kind, enum session_role *ret_role,
                     struct kg_err *err)
{
    kg_auto(kg_free) char *name = NULL;
    int result = member_text(item, "role", &name, err);
    if (result < 0)
        return result;
    *ret_role = kind == SESSION_TOOL_CALL ? SESSION_ASSISTANT : SESSION_TOOL;
    if (name == NULL && kind != SESSION_MESSAGE)
        return 0;
    if (name == NULL || !session_role_find(kg_str(name), ret_role))
        return kg_fail(err, KG_E_INVALID_PARAMS, "\"role\": system, user, assistant or tool");
    return 0;
}

static int read_message(struct saying *saying, struct kg_str item, struct kg_err *err)
{
    struct session_draft draft = {0};
    kg_auto(kg_free) char *parent = NULL;
    int result = read_kind(item, &draft.kind, err);
    if (result == 0)
        result = read_role(item, draft.kind, &draft.role, err);
    if (result == 0)
        result = member_text(item, "parent", &parent, err);
    if (result < 0)
        return result;
    kg_json_member(item, "content", &draft.content);
    if (parent != NULL) {
        draft.parent = parent;
        kg_list_add(&saying->parents, kg_steal(&parent));
    }
    saying->drafts[saying->count++] = draft;
    return 0;
}

static int read_messages(struct saying *saying, struct kg_str array, struct kg_err *err)
{
    saying->drafts = kg_alloc_array(SESSION_APPEND_MAX, sizeof(saying->drafts[0]));
    saying->parents = kg_list_new(0);
    struct kg_json_cursor cursor = kg_json_inside(array);
    struct kg_str item;
    int result = 0;
    while (result == 0 && saying->count < SESSION_APPEND_MAX && kg_json_next_item(&cursor, &item))
        result = read_message(saying, item, err);
    return result < 0 ? kg_wrap(err, result, "message %zu", saying->count + 1) : 0;
}

static int read_saying(struct saying *saying, struct kg_err *err)
{
    struct kg_str body = kg_buf_view(&saying->body), messages = KG_STR("[]");
    int result = member_text(body, "agent", &saying->agent, err);
    kg_json_member(body, "messages", &messages);
    return result < 0 ? result : read_messages(saying, messages, err);
}

static void on_said(void *data, const struct live_appended *appended_or_null,
                    const struct kg_err *err_or_null)
{
    struct live_op *op = data;
    if (err_or_null != NULL) {
        live_op_fail(op, err_or_null);
        return;
    }
    struct kg_json_writer json = kg_json_writer(&op->json);
    const struct session_added *added = appended_or_null->added;
    kg_json_begin(&json, '{');
    kg_json_key(&json, "added");
    kg_json_begin(&json, '[');
    for (size_t i = 0; i < appended_or_null->count; i++) {
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "id", added[i].id.text);
        kg_json_named_int(&json, "seq", (int64_t)added[i].seq);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    kg_json_named_int(&json, "context_tokens",
                      (int64_t)added[appended_or_null->count - 1].context_tokens);
    kg_json_named_bool(&json, "compacting", appended_or_null->compacting);
    kg_json_end(&json, '}');
    live_op_answer(op);
}

static void say_started(void *data, struct live_session *live_or_null,
                        const struct kg_err *err_or_null)
{
    struct saying *saying = data;
    if (err_or_null != NULL)
        live_op_fail(&saying->op, err_or_null);
    else
        live_append(live_or_null, saying->op.asker, saying->drafts, saying->count, on_said, saying);
}

static void say_open(struct live_op *op)
{
    struct saying *saying = KG_CONTAINER(op, struct saying, op);
    struct kg_err err;
    int result = live_check_open(op->live, &err);
    if (result == 0)
        result = settle_agent(op->live, &saying->agent, &err);
    for (size_t i = 0; i < saying->count && result == 0; i++) {
        saying->drafts[i].agent = saying->agent;
        result = session_check_draft(&saying->drafts[i], &err);
    }
    if (result < 0)
        live_op_fail(op, &err);
    else
        live_ensure_started(op->live, op->asker, say_started, saying);
}

void sessions_append(struct sessions *sessions, const struct sessions_request *request,
                     struct kg_str body)
{
    struct saying *saying = live_op_new(sizeof(*saying), sessions, request, clear_saying);
    struct kg_err err;
    if (!live_op_admit(&saying->op, true))
        return;
    kg_buf_str(&saying->body, body);
    if (read_saying(saying, &err) < 0)
        live_op_fail_later(&saying->op, &err);
    else
        live_op_open(&saying->op, say_open);
}

/* -- tools ------------------------------------------------------------------------------------- */

struct using
{
    struct live_op op;
    char *agent, *tool; /* owned */
    struct kg_buf arguments, result;
    char *plugin; /* owned */
    struct kg_id call, entry;
    bool blocked, is_error;
};

static void clear_using(struct live_op *op)
{
    struct using *using = KG_CONTAINER(op, struct using, op);
    kg_buf_free(&using->arguments);
    kg_buf_free(&using->result);
    free(using->agent);
    free(using->tool);
    free(using->plugin);
}

static int write_entry(struct state *state, const char *session, const struct kg_id *entry,
                       struct kg_json_writer *json, struct kg_err *err)
{
    kg_auto(session_entries_clear) struct session_entries found = {0};
    int result = session_entry_find(state, session, kg_str(entry->text), &found, err);
    if (result == 0)
        live_entry_write(&found.items[0], json);
    return result;
}

static int run_used(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct using *using = KG_CONTAINER(job, struct using, op.job);
    const char *session = using->op.live->id.text;
    struct kg_json_writer json = kg_json_writer(&using->op.json);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "tool", using->tool);
    kg_json_named_text(&json, "plugin", using->plugin);
    kg_json_key(&json, "call");
    int result = write_entry(state, session, &using->call, &json, err);
    kg_json_key(&json, "entry");
    if (result == 0)
        result = write_entry(state, session, &using->entry, &json, err);
    kg_json_named_bool(&json, "blocked", using->blocked);
    kg_json_named_bool(&json, "is_error", using->is_error);
    kg_json_key(&json, "result");
    kg_json_raw(&json, kg_buf_view(&using->result));
    kg_json_end(&json, '}');
    return result;
}

static void on_used(void *data, const struct live_tool_result *result_or_null,
                    const struct kg_err *err_or_null)
{
    struct using *using = data;
    if (err_or_null != NULL) {
        live_op_fail(&using->op, err_or_null);
        return;
    }
    using->plugin = kg_strdup(result_or_null->plugin);
    using->call = result_or_null->call;
    using->entry = result_or_null->entry;
    using->blocked = result_or_null->blocked;
    using->is_error = result_or_null->is_error;
    kg_buf_str(&using->result, result_or_null->result);
    live_op_read(&using->op, run_used, live_op_answer);
}

static void use_started(void *data, struct live_session *live_or_null,
                        const struct kg_err *err_or_null)
{
    struct using *using = data;
    const struct live_tool tool = {
        .asker = using->op.asker,
        .agent = using->agent,
        .tool = kg_str(using->tool),
        .arguments = kg_buf_view(&using->arguments),
        .on_done = on_used,
        .data = using,
    };
    if (err_or_null != NULL)
        live_op_fail(&using->op, err_or_null);
    else
        live_tool_call(live_or_null, &tool);
}

static void use_open(struct live_op *op)
{
    struct using *using = KG_CONTAINER(op, struct using, op);
    struct kg_err err;
    int result = live_check_open(op->live, &err);
    if (result == 0)
        result = settle_agent(op->live, &using->agent, &err);
    if (result < 0)
        live_op_fail(op, &err);
    else
        live_ensure_started(op->live, op->asker, use_started, using);
}

void sessions_tool(struct sessions *sessions, const struct sessions_request *request,
                   struct kg_str agent, struct kg_str tool, struct kg_str arguments)
{
    struct using *using = live_op_new(sizeof(*using), sessions, request, clear_using);
    using->agent = agent.data ? kg_str_dup(agent) : NULL;
    using->tool = kg_str_dup(tool);
    kg_buf_str(&using->arguments, arguments);
    if (live_op_admit(&using->op, true))
        live_op_open(&using->op, use_open);
}

/* -- idle -------------------------------------------------------------------------------------- */

static void on_idle(void *data, const struct host_hook_answer *answers, size_t count,
                    const struct kg_err *err_or_null)
{
    struct live_op *op = data;
    if (err_or_null != NULL) {
        live_op_fail(op, err_or_null);
        return;
    }
    struct kg_json_writer json = kg_json_writer(&op->json);
    kg_json_begin(&json, '{');
    kg_json_key(&json, "hooks");
    kg_json_begin(&json, '[');
    for (size_t i = 0; i < count; i++) {
        bool ok = answers[i].error.code == KG_OK;
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "plugin", answers[i].plugin);
        kg_json_named_bool(&json, "ok", ok);
        if (!ok)
            kg_json_named_text(&json, "error", answers[i].error.message);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    kg_json_end(&json, '}');
    live_op_answer(op);
}

static void idle_open(struct live_op *op)
{
    struct kg_err err;
    if (live_idle(op->live, "request", op->asker, on_idle, op, &err) < 0)
        live_op_fail(op, &err);
}

void sessions_idle(struct sessions *sessions, const struct sessions_request *request)
{
    struct live_op *op = live_op_new(sizeof(*op), sessions, request, NULL);
    if (live_op_admit(op, true))
        live_op_open(op, idle_open);
}

/* -- compaction -------------------------------------------------------------------------------- */

struct compacting {
    struct live_op op;
    char *agent, *strategy; /* owned */
    int64_t keep_recent;    /* negative: not given */
};

static void clear_compacting(struct live_op *op)
{
    struct compacting *compacting = KG_CONTAINER(op, struct compacting, op);
    free(compacting->agent);
    free(compacting->strategy);
}

static void on_compacted(void *data, const struct live_compacted *compacted_or_null,
                         const struct kg_err *err_or_null)
{
    struct live_op *op = data;
    struct kg_json_writer json = kg_json_writer(&op->json);
    if (err_or_null != NULL) {
        live_op_fail(op, err_or_null);
        return;
    }
    live_compacted_write(compacted_or_null, &json);
    live_op_answer(op);
}

static int check_compact(struct compacting *compacting, enum session_strategy *ret_strategy,
                         struct kg_err *err)
{
    struct live_session *live = compacting->op.live;
    if (compacting->strategy != NULL &&
        !session_strategy_find(kg_str(compacting->strategy), ret_strategy))
        return kg_fail(err, KG_E_INVALID_PARAMS,
                       "\"strategy\": drop, summarize, delegate or checkpoint");
    if (live->state == SESSION_CLOSED)
        return live_check_open(live, err);
    int result = settle_agent(live, &compacting->agent, err);
    return result < 0 ? result : live_enter(live, err);
}

static void compact_open(struct live_op *op)
{
    struct compacting *compacting = KG_CONTAINER(op, struct compacting, op);
    enum session_strategy strategy = SESSION_BY_DROP;
    uint32_t keep_recent =
        compacting->keep_recent > UINT32_MAX ? UINT32_MAX : (uint32_t)compacting->keep_recent;
    struct kg_err err;
    if (check_compact(compacting, &strategy, &err) < 0) {
        live_op_fail(op, &err);
        return;
    }
    const struct live_compact compact = {
        .asker = op->asker,
        .agent = compacting->agent,
        .trigger = "manual",
        .strategy = compacting->strategy ? &strategy : NULL,
        .keep_recent = compacting->keep_recent >= 0 ? &keep_recent : NULL,
    };
    live_compact(op->live, &compact, on_compacted, op);
}

void sessions_compact(struct sessions *sessions, const struct sessions_request *request,
                      const struct sessions_compaction *wanted)
{
    struct compacting *compacting =
        live_op_new(sizeof(*compacting), sessions, request, clear_compacting);
    compacting->agent = wanted->agent.data ? kg_str_dup(wanted->agent) : NULL;
    compacting->strategy = wanted->strategy.data ? kg_str_dup(wanted->strategy) : NULL;
    compacting->keep_recent = wanted->keep_recent;
    if (live_op_admit(&compacting->op, true))
        live_op_open(&compacting->op, compact_open);
}
