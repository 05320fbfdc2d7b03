/*
 * The life of a turn. At each moment it waits for one thing: the session, the store, a compaction,
 * the model or a tool; whoever cancels it withdraws that wait, or it ends by itself. However a turn
 * ends, what was said is kept, each call that was recorded has its result, and the reader hears the
 * end.
 *
 *   open -> start the session -> append the user's message -> step -> end
 *   step: wait for a compaction -> read the context -> ask the model -> append its answer -> tools
 */
#include "audit/audit.h"
#include "host/process.h"
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

const char *const turn_stop_names[] = {
    [TURN_STOP] = "stop",
    [TURN_LENGTH] = "length",
    [TURN_REFUSED] = "refused",
    [TURN_STEPS] = "steps",
    [TURN_CANCELLED] = "cancelled",
    [TURN_FAILED] = "failed",
    [TURN_CHECKPOINT] = "checkpoint",
    [TURN_OTHER] = "other",
};

static void turn_step(struct turn *turn);
static void make_next_call(struct turn *turn);

static struct turn *live_turn_of(struct live_work *work)
{
    return KG_CONTAINER(work, struct turn, work);
}

static const char *agent_of(const struct turn *turn)
{
    return turn->work.asker->agent_path;
}

/* -- its end ----------------------------------------------------------------------------------- */

static void turn_free(struct turn *turn)
{
    loop_undefer(turn->work.sessions->loop, &turn->cancel_task);
    if (turn->scripted) {
        live_script_turn_ended(turn->work.live, turn->stop == TURN_STOP);
        live_scripts_in_turn(turn->work.live, false);
    }
    turn_stream_clear(turn);
    live_scripts_clear(&turn->scripts);
    live_snapshot_clear(&turn->snapshot);
    kg_buf_free(&turn->told);
    kg_buf_free(&turn->tools);
    kg_buf_free(&turn->called);
    if (turn->begun)
        live_run_end(turn->work.live, &turn->run);
    live_tool_clear(&turn->tool);
    live_work_end(&turn->work);
    free(turn->prompt);
    free(turn->agent);
    kg_buf_free(&turn->words);
    kg_buf_free(&turn->answer_json);
    kg_buf_free(&turn->said);
    kg_buf_free(&turn->content);
    kg_buf_free(&turn->mark);
    session_conversation_clear(&turn->conversation);
    turn_answer_clear(&turn->answer);
    free(turn);
}

static void turn_refuse(struct turn *turn, const struct kg_err *why)
{
    const struct turn_ops *ops = turn->ops;
    void *data = turn->data;
    struct kg_err err = *why;
    if (err.code == KG_OK)
        kg_fail(&err, KG_E_CANCELLED, "the turn was cancelled before it began");
    turn_free(turn);
    ops->on_refused(data, &err);
}

static void tell_audit(const struct turn *turn)
{
    const struct live_work *work = &turn->work;
    uint64_t took_ms = loop_now_ms(work->sessions->loop) - turn->began_ms;
    audit_emit(host_audit(work->sessions->host), AUDIT_SESSION_TURN_ENDED,
               kg_str(work->asker->request_id), AUDIT_V_TEXT(work->live->id.text),
               AUDIT_V_TEXT(agent_of(turn)), AUDIT_V_TEXT(turn_stop_names[turn->stop]),
               AUDIT_V_INT(turn->steps), AUDIT_V_INT(turn->input_tokens),
               AUDIT_V_INT(turn->output_tokens), AUDIT_V_INT((int64_t)took_ms),
               AUDIT_V_TEXT(turn->why.code != KG_OK ? turn->why.message : NULL));
}

static void wrap_up(struct turn *turn)
{
    const struct turn_ops *ops = turn->ops;
    void *data = turn->data;
    tell_audit(turn);
    turn_tell_end(turn);
    if (turn->outer != NULL)
        turn_take_answer(turn->outer, turn);
    turn_free(turn);
    ops->on_end(data);
}

static void on_end_heard(struct live_work *work, const struct kg_err *err_or_null)
{
    (void)err_or_null;
    wrap_up(live_turn_of(work));
}

static void on_last_words(struct live_work *work, const struct kg_err *err_or_null)
{
    if (err_or_null != NULL)
        kg_log(KG_WARN, "a turn's last words could not be kept: %s", err_or_null->message);
    turn_hear_end(live_turn_of(work), on_end_heard);
}

#define CANCELLED(what) "\"[CANCELLED] the turn ended before this tool " what "\""

static struct session_draft result_draft(const struct turn *turn, const struct turn_call *call,
                                         struct kg_str content)
{
    return (struct session_draft){.agent = agent_of(turn),
                                  .kind = SESSION_TOOL_RESULT,
                                  .role = SESSION_TOOL,
                                  .parent = call->id.text,
                                  .content = content};
}

/* Results for calls that have none, the first of which may have been made. */
static size_t cancelled_drafts(const struct turn *turn, struct session_draft *drafts)
{
    size_t count = 0;
    for (size_t i = turn->next_call; i < turn->answer.call_count; i++) {
        const struct turn_call *call = &turn->answer.calls[i];
        bool made = turn->calling && i == turn->next_call;
        if (call->id.text[0] != '\0')
            drafts[count++] =
                result_draft(turn, call,
                             made ? KG_STR("{\"error\":" CANCELLED("did") "}")
                                  : KG_STR("{\"error\":" CANCELLED("was called") "}"));
    }
    return count;
}

/* What a reader of the session sees of it later, and no model. */
static struct session_draft failed_draft(struct turn *turn)
{
    struct kg_json_writer json = kg_json_writer(&turn->mark);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "event", "turn_failed");
    kg_json_named_text(&json, "code", kg_error_row(turn->why.code)->name);
    kg_json_named_text(&json, "message", turn->why.message);
    kg_json_end(&json, '}');
    return (struct session_draft){.agent = agent_of(turn),
                                  .kind = SESSION_EVENT,
                                  .role = SESSION_SYSTEM,
                                  .content = kg_buf_view(&turn->mark)};
}

/* The turn may be gone afterwards. */
static void turn_finish(struct turn *turn, enum turn_stop stop, const struct kg_err *why_or_null)
{
    turn->ending = true;
    turn->stop = stop;
    turn->why = why_or_null != NULL ? *why_or_null : (struct kg_err){0};
    turn->content.length = 0;
    size_t count = turn_answer_message(&turn->answer, agent_of(turn), &turn->content, turn->drafts);
    count += cancelled_drafts(turn, turn->drafts + count);
    if (stop == TURN_FAILED && turn->started)
        turn->drafts[count++] = failed_draft(turn);
    if (count > 0)
        live_append(&turn->work, turn->drafts, count, NULL, on_last_words);
    else
        turn_hear_end(turn, on_end_heard);
}

/* True: the turn was cancelled meanwhile, and is gone or will be. */
static bool ends(struct turn *turn, const struct kg_err *err_or_null)
{
    if (turn->cancelled) {
        struct kg_err why = turn->why;
        turn_finish(turn, TURN_CANCELLED, &why);
        return true;
    }
    if (err_or_null != NULL)
        turn_finish(turn, TURN_FAILED, err_or_null);
    return err_or_null != NULL;
}

/* -- cancelling -------------------------------------------------------------------------------- */

static void note_cancelled(struct turn *turn, const struct kg_err *why)
{
    if (turn->cancelled || turn->ending)
        return;
    turn->cancelled = true;
    turn->why = *why;
}

/* What the store does ends soon, and the turn with it; so does a turn inside of it. */
static void stop_waiting(struct turn *turn)
{
    struct kg_err why = turn->why;
    for (struct turn *inner = turn->inner; inner != NULL; inner = inner->inner) {
        note_cancelled(inner, &why);
        turn = inner;
    }
    if (turn->ending || !turn->started || !live_withdraw(&turn->work))
        return;
    if (turn->calling)
        turn_tell_result(turn, &turn->answer.calls[turn->next_call], false, true,
                         KG_STR(CANCELLED("did")));
    turn_finish(turn, TURN_CANCELLED, &why);
}

static void on_cancel_task(struct loop_task *task)
{
    stop_waiting(KG_CONTAINER(task, struct turn, cancel_task));
}

/* Later, since the reader may say so while it is told something. */
void turn_cancel(struct turn *turn, const struct kg_err *why)
{
    note_cancelled(turn, why);
    loop_defer(turn->work.sessions->loop, &turn->cancel_task);
}

static void turn_on_run_cancel(struct live_run *run, const struct kg_err *why)
{
    struct turn *turn = KG_CONTAINER(run, struct turn, run);
    note_cancelled(turn, why);
    stop_waiting(turn);
}

/* -- tools ------------------------------------------------------------------------------------- */

static void on_result_heard(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    if (!ends(turn, err_or_null))
        make_next_call(turn);
}

static void on_progress_streamed(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    if (!ends(turn, err_or_null))
        turn_hear_result(turn, &turn->answer.calls[turn->next_call - 1], on_result_heard);
}

static void on_tool(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    const struct turn_call *call = &turn->answer.calls[turn->next_call++];
    turn->calling = false;
    if (err_or_null == NULL)
        turn_tell_result(turn, call, turn->tool.blocked, turn->tool.is_error,
                         live_tool_result(&turn->tool));
    if (!ends(turn, err_or_null))
        turn_stream_end(turn, on_progress_streamed);
}

static void turn_on_progress(struct live_tool *tool, struct kg_str params)
{
    struct turn *turn = live_turn_of(tool->work);
    turn_stream_progress(turn, params);
    turn_tell_progress(turn, &turn->answer.calls[turn->next_call], params);
}

static void on_question(struct live_tool *tool, const struct state_question *question)
{
    struct turn *turn = live_turn_of(tool->work);
    turn_tell_question(turn, &turn->answer.calls[turn->next_call], question);
}

static void on_script_question(struct live_scripts *scripts, const struct state_question *question)
{
    struct turn *turn = KG_CONTAINER(scripts, struct turn, scripts);
    bool has_call = turn->next_call < turn->answer.call_count;
    turn_tell_question(turn, has_call ? &turn->answer.calls[turn->next_call] : NULL, question);
}

static void turn_make_call(struct turn *turn, const struct turn_call *call)
{
    live_tool_clear(&turn->tool);
    turn->tool = (struct live_tool){
        .work = &turn->work,
        .name = kg_str(call->name),
        .arguments = kg_buf_view(&call->arguments),
        .call = call->id,
        .on_progress = turn_on_progress,
        .on_question = on_question,
    };
    turn->calling = true;
    if (!turn_delegate(turn, call, on_tool))
        live_tool_call(&turn->tool, NULL, NULL, on_tool);
}

static void on_refusal_kept(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    turn->next_call++;
    if (!ends(turn, err_or_null))
        make_next_call(turn);
}

/* A call that cannot be made gets its result all the same, for the model to see. */
static void refuse_call(struct turn *turn, const struct turn_call *call)
{
    struct kg_buf *content = &turn->content;
    content->length = 0;
    kg_buf_text(content, "{\"error\":");
    size_t from = content->length;
    kg_json_put_string(content, kg_str(call->problem));
    struct kg_str words = {content->data + from, content->length - from};
    turn_tell_result(turn, call, false, true, words);
    kg_buf_char(content, '}');
    turn->drafts[0] = result_draft(turn, call, kg_buf_view(content));
    live_append(&turn->work, turn->drafts, 1, NULL, on_refusal_kept);
}

/* A script may forbid the call, with words for the model, or make it with another input. */
static void on_call_heard(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    struct turn_call *call = &turn->answer.calls[turn->next_call];
    if (ends(turn, err_or_null))
        return;
    if (turn->scripts.blocked != NULL) {
        call->problem = kg_format("A script forbids this call: %s", turn->scripts.blocked);
        refuse_call(turn, call);
        return;
    }
    if (turn->scripts.input.length > 0) {
        call->arguments.length = 0;
        kg_buf_str(&call->arguments, kg_buf_view(&turn->scripts.input));
    }
    turn_make_call(turn, call);
}

static void make_next_call(struct turn *turn)
{
    if (turn->next_call == turn->answer.call_count) {
        turn_step(turn);
        return;
    }
    const struct turn_call *call = &turn->answer.calls[turn->next_call];
    if (call->problem != NULL)
        refuse_call(turn, call);
    else
        turn_hear_call(turn, call, on_call_heard);
}

/* -- the answer -------------------------------------------------------------------------------- */

static enum turn_stop stop_of(enum model_stop stop)
{
    static const enum turn_stop stops[MODEL_STOPS] = {
        [MODEL_STOP_END] = TURN_STOP,      [MODEL_STOP_TOOLS] = TURN_OTHER,
        [MODEL_STOP_LENGTH] = TURN_LENGTH, [MODEL_STOP_REFUSED] = TURN_REFUSED,
        [MODEL_STOP_OTHER] = TURN_OTHER,
    };
    return stops[stop];
}

/* What the answer has is recorded: its calls are made, or the turn ends, as scripts may want it. */
static void on_stop_heard(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    if (ends(turn, err_or_null))
        return;
    bool goes_on = turn->answer.call_count == 0 && !turn->scripts.stop && turn->scripted &&
                   stop_of(turn->model_stop) == TURN_STOP && live_message_waits(work->live) &&
                   turn->steps < turn->steps_max;
    if (goes_on)
        turn_step(turn);
    else if (turn->answer.call_count == 0)
        turn_finish(turn, stop_of(turn->model_stop), NULL);
    else if (turn->scripts.stop)
        turn_finish(turn, TURN_STOP, NULL);
    else
        make_next_call(turn);
}

static void on_turn_heard(struct live_work *work, const struct kg_err *err_or_null)
{
    if (!ends(live_turn_of(work), err_or_null))
        turn_hear_answer(live_turn_of(work), "should_stop_after_turn", on_stop_heard);
}

static void on_response_heard(struct live_work *work, const struct kg_err *err_or_null)
{
    if (!ends(live_turn_of(work), err_or_null))
        turn_hear_answer(live_turn_of(work), "turn_end", on_turn_heard);
}

static void on_message_heard(struct live_work *work, const struct kg_err *err_or_null)
{
    if (!ends(live_turn_of(work), err_or_null))
        turn_hear_message(live_turn_of(work), "after_provider_response", on_response_heard);
}

static void on_answer_kept(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    struct turn_answer *answer = &turn->answer;
    size_t texts = answer->text.length > 0;
    turn->words.length = 0;
    if (turn->outer != NULL)
        kg_buf_str(&turn->words, kg_buf_view(&answer->text));
    kg_buf_free(&answer->text);
    for (size_t i = 0; err_or_null == NULL && i < answer->call_count; i++) {
        answer->calls[i].id = work->added[texts + i].id;
        turn_tell_call(turn, &answer->calls[i]);
    }
    if (err_or_null == NULL)
        turn->message = work->added[0].id;
    if (!ends(turn, err_or_null))
        turn_hear_message(turn, "message_end", on_message_heard);
}

static void keep_answer(struct turn *turn)
{
    turn->content.length = 0;
    size_t count = turn_answer_drafts(&turn->answer, agent_of(turn), &turn->content, turn->drafts);
    if (count > 0 && turn->stream.id.text[0] != '\0')
        turn->drafts[0].id = turn->stream.id.text;
    if (count > 0)
        live_append(&turn->work, turn->drafts, count, NULL, on_answer_kept);
    else
        turn_hear_message(turn, "message_end", on_message_heard);
}

static int turn_take_text(struct turn *turn, const struct model_event *event, struct kg_err *err)
{
    int result = turn_answer_add_text(&turn->answer, event->text, err);
    if (result == 0) {
        turn_tell_text(turn, "text", event->text);
        turn_stream_text(turn, event->text);
    }
    return result;
}

static int take_thought(struct turn *turn, const struct model_event *event, struct kg_err *err)
{
    int result = turn_answer_add_thought(&turn->answer, event->text, err);
    if (result == 0)
        turn_tell_text(turn, "reasoning", event->text);
    return result;
}

static int find_own(const struct turn *turn, struct live_agent *ret_agent, struct kg_err *err)
{
    return live_agent_find(turn->work.sessions, turn->work.live->project_id, agent_of(turn),
                           ret_agent, err);
}

static const struct project_tool *find_called(const struct turn *turn, struct kg_str called)
{
    struct live_agent agent;
    const struct project_use *use;
    if (find_own(turn, &agent, NULL) < 0)
        return NULL;
    const struct project_handoff *handoff = project_handoff_find(agent.resolved, called);
    return handoff ? &handoff->tool : project_tool_called(agent.resolved, called, &use);
}

/*
 * A tool has one name wherever people look; models have another, since they take no dot, and
 * scripts may have given it a third.
 */
static struct kg_str own_name(struct turn *turn, struct kg_str called)
{
    const struct project_tool *tool = find_called(turn, called);
    turn->called.length = 0;
    if (turn->scripted) {
        host_script_put_called(turn->work.sessions->host, turn->work.live->id.text, called,
                               tool != NULL, &turn->called);
        called = kg_buf_view(&turn->called);
        tool = find_called(turn, called);
    }
    return tool != NULL ? kg_str(tool->name) : called;
}

static int turn_take_call(struct turn *turn, const struct model_event *event, struct kg_err *err)
{
    struct model_event named = *event;
    named.call.name = own_name(turn, event->call.name);
    return turn_answer_add_call(&turn->answer, &named, err);
}

static int turn_take_usage(struct turn *turn, const struct model_event *event, struct kg_err *err)
{
    (void)err;
    turn->input_tokens += event->usage.input_tokens;
    turn->output_tokens += event->usage.output_tokens;
    turn->usage.input_tokens = event->usage.input_tokens;
    turn->usage.cached_tokens = event->usage.cached_tokens;
    turn->usage.output_tokens = event->usage.output_tokens;
    turn_tell_usage(turn, event);
    return 0;
}

static int turn_take_retry(struct turn *turn, const struct model_event *event, struct kg_err *err)
{
    (void)err;
    turn_tell_retry(turn, event);
    return 0;
}

static void turn_on_event(void *data, const struct model_event *event)
{
    static int (*const take[])(struct turn *, const struct model_event *, struct kg_err *) = {
        [MODEL_TEXT] = turn_take_text,      [MODEL_REASONING] = take_thought,
        [MODEL_TOOL_CALL] = turn_take_call, [MODEL_USAGE] = turn_take_usage,
        [MODEL_RETRY] = turn_take_retry,
    };
    struct turn *turn = data;
    struct kg_err err = {0};
    if (take[event->kind](turn, event, &err) == 0)
        return;
    live_withdraw(&turn->work);
    turn_finish(turn, TURN_FAILED, &err);
}

static void on_model_done(void *data, const struct model_end *end)
{
    struct turn *turn = data;
    turn->failure = end->failure;
    turn->model_stop = end->stop;
    live_arrived(&turn->work, end->failure != MODEL_OK ? &end->err : NULL);
}

/* For scripts that ask. */
static void note_usage(struct turn *turn)
{
    struct live_usage *usage = &turn->work.live->usage;
    struct live_agent agent;
    if (find_own(turn, &agent, NULL) < 0)
        return;
    kg_replace(&usage->model, agent.resolved->model);
    usage->input_tokens = turn->usage.input_tokens;
    usage->output_tokens = turn->usage.output_tokens;
    usage->cached_tokens = turn->usage.cached_tokens;
    usage->context_tokens = turn->usage.input_tokens > 0
                                ? turn->usage.input_tokens + turn->usage.output_tokens
                                : (int64_t)turn->context_tokens;
}

static void on_streamed(struct live_work *work, const struct kg_err *err_or_null)
{
    if (!ends(live_turn_of(work), err_or_null))
        keep_answer(live_turn_of(work));
}

static void turn_on_answered(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    if (err_or_null == NULL && turn->scripted)
        note_usage(turn);
    if (err_or_null == NULL)
        turn_stream_end(turn, on_streamed);
    else
        turn_finish(turn, turn->failure == MODEL_CANCELLED ? TURN_CANCELLED : TURN_FAILED,
                    err_or_null);
}

static void withdraw_model(void *call)
{
    models_cancel(call);
}

/* -- one step ---------------------------------------------------------------------------------- */

static int turn_find_model(const struct turn *turn, struct live_agent *ret_agent,
                           const struct local_model **ret_model, struct kg_err *err)
{
    kg_auto(kg_free) char *who = kg_format("agent %s", agent_of(turn));
    int result = find_own(turn, ret_agent, err);
    return result < 0 ? result
                      : models_find(turn->work.sessions->models, ret_agent->resolved->model, who,
                                    ret_model, err);
}

static int turn_ask(struct turn *turn, struct kg_err *err)
{
    static const struct model_ops ops = {.on_event = turn_on_event, .on_done = on_model_done};
    struct kg_str tools = kg_buf_view(&turn->tools);
    struct live_agent agent;
    const struct local_model *model;
    struct models_call *call;
    int result = turn_find_model(turn, &agent, &model, err);
    if (result < 0)
        return result;
    if (model->context_window > 0 && turn->context_tokens > agent.window_tokens)
        turn_tell_window(turn, agent.window_tokens);
    const struct models_purpose purpose = {.word = "turn", .asker = turn->work.asker};
    const struct model_request request = {
        .model = model,
        .system = kg_buf_view(&turn->conversation.system),
        .messages = kg_buf_view(&turn->conversation.messages),
        .tools = kg_str_is(tools, "[]") ? KG_STR_NULL : tools,
    };
    result = models_ask(turn->work.sessions->models, &purpose, &request, &ops, turn, &call, err);
    session_conversation_clear(&turn->conversation);
    if (result < 0)
        return result;
    turn->steps++;
    turn->failure = MODEL_OK;
    turn->usage.input_tokens = turn->usage.cached_tokens = turn->usage.output_tokens = 0;
    turn_stream_begin(turn);
    live_await(&turn->work, call, withdraw_model, turn_on_answered);
    return 0;
}

/* On the store's thread: the turn waits, and nobody else touches these fields. */
static int turn_read_context(struct session_job *job, struct state *state, struct kg_err *err)
{
    struct turn *turn = KG_CONTAINER(job, struct turn, work.job);
    kg_auto(session_entries_clear) struct session_entries entries = {0};
    int result =
        session_context_read(state, turn->work.live->id.text, agent_of(turn), &entries, err);
    turn->context_tokens = turn->prompt ? session_tokens(kg_str(turn->prompt), NULL) : 0;
    for (size_t i = 0; i < entries.count; i++)
        turn->context_tokens += entries.items[i].tokens;
    if (result == 0)
        session_conversation_write(turn->prompt, &entries, &turn->conversation);
    return result;
}

static void on_request_heard(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    struct kg_err err = {0};
    if (ends(turn, err_or_null))
        return;
    turn_take_request(turn);
    if (turn_ask(turn, &err) < 0)
        turn_finish(turn, TURN_FAILED, &err);
}

static void on_context_heard(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    struct live_agent agent;
    struct kg_err err = {0};
    if (ends(turn, err_or_null))
        return;
    if (find_own(turn, &agent, &err) < 0) {
        turn_finish(turn, TURN_FAILED, &err);
        return;
    }
    turn_take_context(turn);
    turn->tools.length = 0;
    struct kg_json_writer json = kg_json_writer(&turn->tools);
    struct project_resolved_agent offered = *agent.resolved;
    if (!turn_may_delegate(turn))
        offered.handoff_count = 0;
    project_tools_json(&offered, PROJECT_NEUTRAL, &json);
    if (turn->scripted)
        host_script_put_tools(work->sessions->host, work->live->id.text, &turn->tools);
    turn_hear_request(turn, agent.resolved->model, on_request_heard);
}

static void on_context(struct live_work *work, const struct kg_err *err_or_null)
{
    if (!ends(live_turn_of(work), err_or_null))
        turn_hear_context(live_turn_of(work), on_context_heard);
}

static void on_step_heard(struct live_work *work, const struct kg_err *err_or_null)
{
    if (!ends(live_turn_of(work), err_or_null))
        live_read_once(work, turn_read_context, on_context);
}

static void on_model_heard(struct live_work *work, const struct kg_err *err_or_null)
{
    if (!ends(live_turn_of(work), err_or_null))
        turn_hear_step(live_turn_of(work), on_step_heard);
}

/* Scripts hear if the model is another than it was in this session. */
static void hear_model(struct turn *turn, const char *model)
{
    struct live_session *live = turn->work.live;
    kg_auto(kg_free) char *before = turn->scripted ? kg_steal(&live->model) : NULL;
    if (turn->scripted)
        live->model = kg_strdup(model);
    if (before != NULL && strcmp(before, model) != 0)
        turn_hear_model(turn, before, model, on_model_heard);
    else
        turn_hear_step(turn, on_step_heard);
}

static void on_uncompacting(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    struct live_agent agent;
    struct kg_err err = {0};
    if (ends(turn, err_or_null))
        return;
    if (work->live->state == SESSION_STOPPED) {
        turn_finish(turn, TURN_CHECKPOINT, NULL);
    } else if (find_own(turn, &agent, &err) < 0) {
        turn_finish(turn, TURN_FAILED, &err);
    } else {
        kg_replace(&turn->prompt, agent.resolved->prompt);
        hear_model(turn, agent.resolved->model ? agent.resolved->model : "");
    }
}

static void on_steered(struct live_work *work, const struct kg_err *err_or_null)
{
    if (!ends(live_turn_of(work), err_or_null))
        turn_step(live_turn_of(work));
}

/* What scripts want to be said is said before the model is asked again. */
static bool steer(struct turn *turn)
{
    kg_auto(kg_free) char *plugin = NULL;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (!turn->scripted || !live_message_take(turn->work.live, &plugin, &text))
        return false;
    turn->content.length = 0;
    kg_json_put_string(&turn->content, kg_buf_view(&text));
    turn_tell_said(turn, plugin, kg_buf_view(&text));
    turn->drafts[0] = (struct session_draft){.agent = agent_of(turn),
                                             .kind = SESSION_MESSAGE,
                                             .role = SESSION_USER,
                                             .content = kg_buf_view(&turn->content)};
    live_append(&turn->work, turn->drafts, 1, NULL, on_steered);
    return true;
}

static void turn_step(struct turn *turn)
{
    turn_answer_clear(&turn->answer);
    turn->next_call = 0;
    if (turn->steps + turn->spent >= turn->steps_max)
        turn_finish(turn, TURN_STEPS, NULL);
    else if (!steer(turn))
        live_when_compacted(&turn->work, agent_of(turn), on_uncompacting);
}

/* -- its beginning ----------------------------------------------------------------------------- */

static void on_start_heard(struct live_work *work, const struct kg_err *err_or_null)
{
    if (!ends(live_turn_of(work), err_or_null))
        turn_step(live_turn_of(work));
}

static void on_before_heard(struct live_work *work, const struct kg_err *err_or_null)
{
    if (!ends(live_turn_of(work), err_or_null))
        turn_hear_start(live_turn_of(work), on_start_heard);
}

static void turn_on_said(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    if (err_or_null != NULL) {
        turn_refuse(turn, err_or_null);
        return;
    }
    turn->started = true;
    turn_tell_start(turn);
    if (!ends(turn, NULL))
        turn_hear_before(turn, on_before_heard);
}

static void turn_tell_started(const struct turn *turn, const struct local_model *model)
{
    const struct live_work *work = &turn->work;
    audit_emit(host_audit(work->sessions->host), AUDIT_SESSION_TURN_STARTED,
               kg_str(work->asker->request_id), AUDIT_V_TEXT(work->live->id.text),
               AUDIT_V_TEXT(work->live->project_id), AUDIT_V_TEXT(agent_of(turn)),
               AUDIT_V_STR(model->alias), AUDIT_V_TEXT(work->asker->operator_id),
               AUDIT_V_TEXT(turn->outer != NULL ? turn->call.text : NULL));
}

static void on_files_kept(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    struct live_agent agent;
    const struct local_model *model;
    struct kg_err err = {0};
    if (err_or_null != NULL || turn->cancelled) {
        turn_refuse(turn, err_or_null != NULL ? err_or_null : &turn->why);
    } else if (turn_find_model(turn, &agent, &model, &err) < 0) {
        turn_refuse(turn, &err);
    } else {
        turn_tell_started(turn, model);
        kg_replace(&turn->prompt, agent.resolved->prompt);
        if (turn->scripted)
            live_scripts_in_turn(work->live, true);
        turn->drafts[0] = (struct session_draft){.agent = agent_of(turn),
                                                 .kind = SESSION_MESSAGE,
                                                 .role = SESSION_USER,
                                                 .parent = turn->outer ? turn->call.text : NULL,
                                                 .content = kg_buf_view(&turn->said)};
        live_append(work, turn->drafts, 1, NULL, turn_on_said);
    }
}

/* What the turn does to files can be undone, where the project wants that. */
static void turn_on_scripts(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    if (err_or_null == NULL && !turn->cancelled && turn->outer == NULL &&
        live_snapshots_wanted(work->live))
        live_snapshot_take(&turn->snapshot, work, on_files_kept);
    else
        on_files_kept(work, err_or_null);
}

/* Scripts hear of the primary's turns alone. */
static void turn_on_started(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    turn->scripted =
        err_or_null == NULL && turn->outer == NULL && strcmp(agent_of(turn), "primary") == 0;
    turn->scripts.on_question = on_script_question;
    if (turn->scripted)
        live_scripts_start(&turn->scripts, work, turn_on_scripts);
    else
        turn_on_scripts(work, err_or_null);
}

static void turn_on_compacted(struct live_run *run, const struct live_compacted *compacted)
{
    struct turn *turn = KG_CONTAINER(run, struct turn, run);
    if (turn->started && !turn->ending)
        turn_tell_compaction(turn, compacted);
}

static int turn_begin(struct turn *turn, struct kg_err *err)
{
    struct live_session *live = turn->work.live;
    struct live_agent agent;
    const struct local_model *model;
    int result = live_check_open(live, err);
    if (result < 0)
        return result;
    live_work_for(&turn->work, turn->agent != NULL ? turn->agent : live->seat);
    turn->run = (struct live_run){
        .agent = agent_of(turn), .cancel = turn_on_run_cancel, .on_compacted = turn_on_compacted};
    result = live_run_begin(live, &turn->run, turn->outer ? &turn->outer->run : NULL, err);
    turn->begun = result == 0;
    if (result == 0 && turn->outer == NULL && turn->ops != &live_script_turn_ops)
        live->script_turns = 0; /* somebody is there */
    return result < 0 ? result : turn_find_model(turn, &agent, &model, err);
}

static void turn_on_open(struct live_work *work, const struct kg_err *err_or_null)
{
    struct turn *turn = live_turn_of(work);
    struct kg_err err = {0};
    if (err_or_null != NULL || turn->cancelled)
        turn_refuse(turn, err_or_null != NULL ? err_or_null : &turn->why);
    else if (turn_begin(turn, &err) < 0)
        turn_refuse(turn, &err);
    else
        live_start(work, turn_on_started);
}

static struct turn *turn_new(struct sessions *sessions, struct host_asker *asker,
                             struct kg_str text, const struct turn_ops *ops, void *data)
{
    struct turn *turn = kg_alloc(sizeof(*turn));
    live_work_begin(&turn->work, sessions, asker);
    turn->ops = ops;
    turn->data = data;
    kg_json_put_string(&turn->said, text);
    turn->cancel_task.run = on_cancel_task;
    turn->began_ms = loop_now_ms(sessions->loop);
    return turn;
}

struct turn *turn_start(struct sessions *sessions, const struct sessions_request *request,
                        struct kg_str text, int64_t steps, const struct turn_ops *ops, void *data,
                        struct kg_err *err)
{
    if (live_op_check(sessions, true, err) < 0)
        return NULL;
    struct turn *turn = turn_new(sessions, request->asker, text, ops, data);
    int64_t steps_max = host_config(sessions->host)->sessions_steps_max;
    turn->steps_max = steps < steps_max ? steps : steps_max;
    live_open(&turn->work, request->session, turn_on_open);
    return turn;
}

struct turn *turn_start_inside(struct turn *outer, const char *agent, struct kg_id call,
                               struct kg_str task, int64_t steps, const struct turn_ops *ops)
{
    struct turn *turn = turn_new(outer->work.sessions, outer->work.asker, task, ops, outer);
    turn->outer = outer;
    turn->agent = kg_strdup(agent);
    turn->call = call;
    turn->depth = outer->depth + 1;
    turn->steps_max = steps;
    live_open(&turn->work, kg_str(outer->work.live->id.text), turn_on_open);
    return turn;
}

/* -- from outside ------------------------------------------------------------------------------ */

static void cancel_open(struct live_op *op)
{
    const struct kg_err by_operator = {0}; /* who asked for it needs no reason */
    bool any = live_run_cancel(op->work.live, &by_operator);
    kg_buf_printf(&op->json, "{\"cancelled\":%s}", any ? "true" : "false");
    live_op_answer(op);
}

void sessions_cancel(struct sessions *sessions, const struct sessions_request *request)
{
    struct live_op *op = live_op_new(sizeof(*op), sessions, request, NULL);
    if (live_op_admit(op, false))
        live_op_open(op, cancel_open);
}
