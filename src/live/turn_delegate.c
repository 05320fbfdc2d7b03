/*
 * An agent's model hands work to a subagent: a turn inside of the turn, whose task is the argument
 * of a tool and whose last words are the tool's result. It works with its own context, plugins and
 * model; its steps are taken from those of the turn around it, it is cancelled with it, and however
 * it ends the call gets a result, if need be in words.
 */
#include "live/internal.h"

#include <inttypes.h>

#define TASK_MAX_BYTES ((size_t)256 << 10)
#define SAID_CUT       300 /* bytes of what was said last, where there is no answer */

bool turn_may_delegate(const struct turn *turn)
{
    return turn->depth < host_config(turn->work.sessions->host)->sessions_delegate_depth;
}

/* -- what comes of it -------------------------------------------------------------------------- */

/* Why there is no answer; of the others there may be one. */
static const char *const stop_words[] = {
    [TURN_REFUSED] = "its model refused to answer",
    [TURN_STEPS] = "it reached its maximum of steps before it had an answer",
    [TURN_CANCELLED] = "[CANCELLED] it was cancelled before it had an answer",
    [TURN_FAILED] = "it failed",
    [TURN_CHECKPOINT] = "its context is full, and the session waits for the operator",
    [TURN_OTHER] = NULL,
};

static void fail_answer(struct turn *outer, const struct turn *inner)
{
    const char *words = stop_words[inner->stop];
    struct kg_str said = kg_buf_view(&inner->words);
    kg_auto(kg_free) char *cut =
        said.length > 0 ? kg_format("; it said last: %.*s", KG_STR_CUT(said, SAID_CUT)) : NULL;
    bool has_reason = inner->why.code != KG_OK;
    kg_fail(&outer->answer_err, KG_E_MODEL, "agent %s: %s%s%s%s", inner->agent,
            words ? words : "it ended without an answer", has_reason ? ": " : "",
            has_reason ? inner->why.message : "", cut ? cut : "");
}

void turn_take_answer(struct turn *outer, const struct turn *inner)
{
    bool has_words =
        inner->stop == TURN_STOP || inner->stop == TURN_LENGTH || inner->stop == TURN_OTHER;
    outer->spent += inner->steps + inner->spent;
    outer->answer_json.length = 0;
    outer->answer_err.code = KG_OK;
    if (has_words && inner->words.length > 0)
        kg_json_put_string(&outer->answer_json, kg_buf_view(&inner->words));
    else
        fail_answer(outer, inner);
}

static void on_inside_refused(void *data, const struct kg_err *err)
{
    struct turn *outer = data;
    outer->inner = NULL;
    live_tool_call(&outer->tool, err, NULL, outer->delegated);
}

static void on_inside_end(void *data)
{
    struct turn *outer = data;
    outer->inner = NULL;
    if (outer->answer_err.code != KG_OK)
        live_tool_call(&outer->tool, &outer->answer_err, NULL, outer->delegated);
    else
        live_tool_answer(&outer->tool, kg_buf_view(&outer->answer_json), outer->delegated);
}

/* -- its beginning ----------------------------------------------------------------------------- */

static int turn_delegate_check_task(const struct kg_doc *doc, struct kg_str *ret_task,
                                    struct kg_err *err)
{
    const struct kg_node *task = doc ? kg_node_typed(doc->root, "task", KG_STRING) : NULL;
    if (task == NULL || task->text.length == 0)
        return kg_fail(err, KG_E_INVALID_PARAMS,
                       "the arguments are {\"task\": \"...\"}: what the subagent is to do");
    if (task->text.length > TASK_MAX_BYTES)
        return kg_fail(err, KG_E_TOO_LARGE, "a task has at most %zu bytes", TASK_MAX_BYTES);
    *ret_task = task->text;
    return 0;
}

static int begin_inside(struct turn *turn, const struct project_handoff *handoff,
                        const struct turn_call *call, struct kg_err *err)
{
    static const struct turn_ops ops = {.on_refused = on_inside_refused, .on_end = on_inside_end};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&call->arguments), NULL);
    int64_t most = host_config(turn->work.sessions->host)->sessions_delegate_steps;
    int64_t left = turn->steps_max - turn->steps - turn->spent;
    struct kg_str task;
    int result = turn_delegate_check_task(doc, &task, err);
    if (result == 0 && left <= 0)
        result = kg_fail(err, KG_E_CONFLICT,
                         "the turn has no steps left to delegate work; the maximum is %" PRId64,
                         turn->steps_max);
    if (result < 0)
        return result;
    turn->inner =
        turn_start_inside(turn, handoff->agent, call->id, task, left < most ? left : most, &ops);
    return 0;
}

bool turn_delegate(struct turn *turn, const struct turn_call *call, live_next_fn *next)
{
    const struct live_work *work = &turn->work;
    struct live_agent agent;
    struct kg_err err = {0};
    if (!turn_may_delegate(turn) || live_agent_find(work->sessions, work->live->project_id,
                                                    work->asker->agent_path, &agent, NULL) < 0)
        return false;
    const struct project_handoff *handoff =
        project_handoff_find(agent.resolved, kg_str(call->name));
    if (handoff == NULL)
        return false;
    turn->delegated = next;
    if (begin_inside(turn, handoff, call, &err) < 0)
        live_tool_call(&turn->tool, &err, NULL, next);
    return true;
}
