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
static int live_talk_member_text(struct kg_str object, const char *key, char **ret_text,
                                 struct kg_err *err)
{
    struct kg_str value;
    if (!kg_json_member(object, key, &value) || kg_str_is(value, "null"))
        return 0;
    if (value.data[0] != '"' || value.length / 2 > SESSION_AGENT_MAX)
        return kg_fail(err, KG_E_INVALID_PARAMS, "\"%s\": it must be a short string", key);
    char *text = kg_alloc(value.length);
    text[kg_json_unescape((struct kg_str){value.data + 1, value.length - 2}, text)] = '\0';
    *ret_text = text;
    return 0;
}

static int read_kind(struct kg_str item, enum session_kind *ret_kind, struct kg_err *err)
{
    kg_auto(kg_free) char *name = NULL;
    int result = live_talk_member_text(item, "kind", &name, err);
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
    int result = live_talk_member_text(item, "role", &name, err);
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
        result = live_talk_member_text(item, "parent", &parent, err);
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
    int result = live_talk_member_text(body, "agent", &saying->agent, err);
    kg_json_member(body, "messages", &messages);
    return result < 0 ? result : read_messages(saying, messages, err);
}

static void live_talk_on_said(struct live_op *op)
{
    struct kg_json_writer json = kg_json_writer(&op->json);
    const struct session_added *added = op->work.added;
    size_t count = op->work.draft_count;
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "added", '[');
    for (size_t i = 0; i < count; i++) {
        kg_json_begin(&json, '{');
        kg_json_named_text(&json, "id", added[i].id.text);
        kg_json_named_int(&json, "seq", (int64_t)added[i].seq);
        kg_json_end(&json, '}');
    }
    kg_json_end(&json, ']');
    kg_json_named_int(&json, "context_tokens", (int64_t)added[count - 1].context_tokens);
    kg_json_named_bool(&json, "compacting", op->work.compacting);
    kg_json_end(&json, '}');
    live_op_answer(op);
}

static void say_started(struct live_op *op)
{
    struct saying *saying = KG_CONTAINER(op, struct saying, op);
    live_append(&op->work, saying->drafts, saying->count, NULL,
                live_op_then(op, live_talk_on_said));
}

static void say_open(struct live_op *op)
{
    struct saying *saying = KG_CONTAINER(op, struct saying, op);
    struct kg_err err;
    int result = live_check_open(op->work.live, &err);
    if (result == 0)
        result = settle_agent(op->work.live, &saying->agent, &err);
    for (size_t i = 0; i < saying->count && result == 0; i++) {
        saying->drafts[i].agent = saying->agent;
        result = session_check_draft(&saying->drafts[i], &err);
    }
    if (result < 0)
        live_op_fail(op, &err);
    else
        live_start(&op->work, live_op_then(op, say_started));
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

struct sessions_use {
    struct live_op op;
    char *agent, *tool;   /* owned; the first is NULL for the seat */
    struct kg_buf record; /* the content of the call's entry, */
    size_t from, length;  /* and where in it the arguments stand */
    struct kg_err unfit;  /* why it is not called; KG_OK: it is */
    struct session_draft draft;
    struct session_added call;
    struct live_tool called;
};

static void clear_using(struct live_op *op)
{
    struct sessions_use *using = KG_CONTAINER(op, struct sessions_use, op);
    live_tool_clear(&using->called);
    kg_buf_free(&using->record);
    free(using->agent);
    free(using->tool);
}

/* {"name", "arguments"}: arguments that are not JSON are kept as the text that they are. */
static void write_call(struct sessions_use *using, struct kg_str arguments)
{
    struct kg_json_writer json = kg_json_writer(&using->record);
    size_t offset = 0;
    enum kg_json_fault fault = kg_json_check(arguments, &offset);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "name", using->tool);
    kg_json_key(&json, "arguments");
    using->from = using->record.length;
    using->length = arguments.length;
    if (fault == KG_JSON_OK) {
        kg_json_raw(&json, arguments);
    } else {
        kg_json_str(&json, arguments);
        kg_fail(&using->unfit, KG_E_PARSE, "the arguments are not JSON: byte %zu: %s", offset + 1,
                kg_json_fault_text(fault));
    }
    kg_json_end(&json, '}');
}

/* On the store's thread, since both may be large. */
static void write_used(struct live_work *work)
{
    struct sessions_use *using = KG_CONTAINER(work, struct sessions_use, op.work);
    const struct live_tool *called = &using->called;
    using->op.json.length = 0;
    struct kg_json_writer json = kg_json_writer(&using->op.json);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "tool", using->tool);
    kg_json_named_text(&json, "plugin", called->plugin);
    kg_json_key(&json, "call");
    live_added_write(&using->draft, &using->call, &json);
    kg_json_key(&json, "entry");
    live_added_write(&called->draft, work->added, &json);
    kg_json_named_bool(&json, "blocked", called->blocked);
    kg_json_named_bool(&json, "is_error", called->is_error);
    kg_json_named_raw(&json, "result", live_tool_result(called));
    kg_json_end(&json, '}');
}

static void use_recorded(struct live_op *op)
{
    struct sessions_use *using = KG_CONTAINER(op, struct sessions_use, op);
    using->call = op->work.added[0];
    using->called = (struct live_tool){
        .work = &op->work,
        .name = kg_str(using->tool),
        .arguments = {using->record.data + using->from, using->length},
        .call = using->call.id,
    };
    live_tool_call(&using->called, using->unfit.code != KG_OK ? &using->unfit : NULL, write_used,
                   live_op_then(op, live_op_answer));
}

static void use_started(struct live_op *op)
{
    struct sessions_use *using = KG_CONTAINER(op, struct sessions_use, op);
    using->draft = (struct session_draft){
        .agent = op->work.asker->agent_path,
        .kind = SESSION_TOOL_CALL,
        .role = SESSION_ASSISTANT,
        .content = kg_buf_view(&using->record),
    };
    live_append(&op->work, &using->draft, 1, NULL, live_op_then(op, use_recorded));
}

static void use_open(struct live_op *op)
{
    struct sessions_use *using = KG_CONTAINER(op, struct sessions_use, op);
    struct kg_err err;
    int result = live_check_open(op->work.live, &err);
    if (result == 0)
        result = settle_agent(op->work.live, &using->agent, &err);
    if (result < 0) {
        live_op_fail(op, &err);
        return;
    }
    live_work_for(&op->work, using->agent);
    live_start(&op->work, live_op_then(op, use_started));
}

struct sessions_use *sessions_tool(struct sessions *sessions,
                                   const struct sessions_request *request, struct kg_str agent,
                                   struct kg_str tool, struct kg_str arguments)
{
    struct sessions_use *using = live_op_new(sizeof(*using), sessions, request, clear_using);
    using->agent = agent.data ? kg_str_dup(agent) : NULL;
    using->tool = kg_str_dup(tool);
    write_call(using, arguments.length > 0 ? arguments : KG_STR("{}"));
    if (live_op_admit(&using->op, true))
        live_op_open(&using->op, use_open);
    return using;
}

void sessions_tool_cancel(struct sessions_use *using)
{
    struct kg_err err = {0};
    kg_fail(&err, KG_E_CANCELLED, "[CANCELLED] the caller left before the tool was done");
    using->unfit = err;
    live_tool_cancel(&using->called, &err);
}

/* -- idle -------------------------------------------------------------------------------------- */

static void live_talk_on_idle(void *data, const struct projects_hook_answer *answers, size_t count,
                              const struct kg_err *err_or_null)
{
    struct live_op *op = data;
    if (err_or_null != NULL) {
        live_op_fail(op, err_or_null);
        return;
    }
    struct kg_json_writer json = kg_json_writer(&op->json);
    kg_json_begin(&json, '{');
    kg_json_named_begin(&json, "hooks", '[');
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
    if (live_idle(op->work.live, "request", op->work.asker, live_talk_on_idle, op, &err) < 0)
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

static void live_talk_on_compacted(void *data, const struct live_compacted *compacted_or_null,
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
    struct live_session *live = compacting->op.work.live;
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
        .asker = op->work.asker,
        .agent = compacting->agent,
        .trigger = "manual",
        .strategy = compacting->strategy ? &strategy : NULL,
        .keep_recent = compacting->keep_recent >= 0 ? &keep_recent : NULL,
    };
    live_compact(op->work.live, &compact, live_talk_on_compacted, op);
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
