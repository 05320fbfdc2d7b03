/*
 * A summary of what a compaction takes, written by a model. It is asked once, within a bound of
 * time and bytes; whatever goes wrong is said once, and the caller does without.
 */
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

#define TIMEOUT_MS      120000
#define TOKENS_MAX      4096 /* of the summary */
#define BYTES_PER_TOKEN 2    /* of the question: what it is given fills about half a window */
#define QUESTION_MAX    ((size_t)8 << 20)

/* What is too long is cut; the model had been told how much it may say. */
static void on_event(void *data, const struct model_event *event)
{
    struct live_summary *summary = data;
    if (event->kind == MODEL_TEXT && summary->text.length < SESSION_SUMMARY_MAX)
        kg_buf_str(&summary->text, event->text);
}

/* Without answer or with an empty one there is no summary. */
static int check_end(const struct live_summary *summary, const struct model_end *end,
                     struct kg_err *err)
{
    if (end->failure != MODEL_OK) {
        *err = end->err;
        return -EINVAL;
    }
    if (end->stop == MODEL_STOP_REFUSED)
        return kg_fail(err, KG_E_MODEL, "the model refused to write a summary");
    if (summary->text.length == 0)
        return kg_fail(err, KG_E_MODEL, "the model wrote no summary");
    return 0;
}

static void on_done(void *data, const struct model_end *model_end)
{
    struct live_summary *summary = data;
    struct kg_buf safe = {0};
    struct kg_err err = {0};
    if (check_end(summary, model_end, &err) < 0) {
        live_arrived(summary->work, &err);
        return;
    }
    struct kg_str text = kg_buf_view(&summary->text);
    if (text.length > SESSION_SUMMARY_MAX)
        text.length = kg_utf8_valid((struct kg_str){text.data, SESSION_SUMMARY_MAX});
    session_defuse(text, &safe);
    kg_buf_free(&summary->text);
    summary->text = safe;
    live_arrived(summary->work, NULL);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return b > 0 && b < a ? b : a;
}

static int ask(struct live_summary *summary, const struct session_compaction *compaction,
               struct models_call **ret_call, struct kg_err *err)
{
    static const struct model_ops ops = {.on_event = on_event, .on_done = on_done};
    struct host_asker *asker = summary->work->asker;
    kg_auto(kg_buf_free) struct kg_buf messages = {0};
    struct sessions *sessions = summary->work->sessions;
    struct live_agent agent;
    const struct local_model *model;
    if (live_agent_find(sessions, asker->project_id, asker->agent_path, &agent, err) < 0 ||
        models_find(sessions->models,
                    agent.summary_model ? agent.summary_model : agent.resolved->model,
                    "compaction.summary_model", &model, err) < 0)
        return -EINVAL;
    uint64_t window =
        model->context_window > 0 ? (uint64_t)model->context_window : agent.window_tokens;
    session_summary_question(compaction,
                             window < QUESTION_MAX / BYTES_PER_TOKEN ? window * BYTES_PER_TOKEN
                                                                     : QUESTION_MAX,
                             &messages);
    const struct models_purpose purpose = {.word = "summary", .asker = asker};
    const struct model_request request = {
        .model = model,
        .system = kg_str(session_summary_prompt),
        .messages = kg_buf_view(&messages),
        .max_tokens = smaller(TOKENS_MAX, model->max_tokens),
        .timeout_ms = smaller(TIMEOUT_MS, model->provider->timeout_ms),
    };
    return models_ask(sessions->models, &purpose, &request, &ops, summary, ret_call, err);
}

static void withdraw(void *call)
{
    models_cancel(call);
}

void live_summarize(struct live_summary *summary, struct live_work *work,
                    const struct session_compaction *compaction, live_next_fn *next)
{
    struct models_call *call;
    struct kg_err err = {0};
    summary->work = work;
    summary->text.length = 0;
    if (ask(summary, compaction, &call, &err) < 0)
        next(work, &err);
    else
        live_await(work, call, withdraw, next);
}
