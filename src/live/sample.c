/*
 * A plugin that may asks the model of the session's agent, in words alone, for so many tokens and
 * so often as the operator allows. The model is told nothing of the session; what it writes goes to
 * the plugin and is not part of the context.
 */
#include "live/internal.h"

#include "host/asks.h"

#include <errno.h>
#include <stdlib.h>

#define ANSWER_MAX_BYTES ((size_t)1 << 20)

struct live_sample {
    struct live_sample *next; /* of its tool */
    struct live_tool *tool;
    struct host_ask *ask;
    struct models_call *call; /* NULL: it could not be asked, and `task` says so */
    struct loop_task task;
    struct kg_err err;
    char *model; /* owned */
    struct kg_buf text;
};

static void sample_free(struct live_sample *sample)
{
    KG_UNLINK(sample->tool->samples, sample);
    loop_undefer(sample->tool->work->sessions->loop, &sample->task);
    free(sample->model);
    kg_buf_free(&sample->text);
    free(sample);
}

static void live_sample_fail(struct live_sample *sample, const struct kg_err *why)
{
    struct host_ask *ask = sample->ask;
    struct kg_err err = *why;
    sample_free(sample);
    host_ask_fail(ask, &err);
}

static void live_sample_on_refused(struct loop_task *task)
{
    struct live_sample *sample = KG_CONTAINER(task, struct live_sample, task);
    live_sample_fail(sample, &sample->err);
}

/* -- what it says ------------------------------------------------------------------------------ */

static void live_sample_on_event(void *data, const struct model_event *event)
{
    struct live_sample *sample = data;
    if (event->kind == MODEL_TEXT && sample->text.length < ANSWER_MAX_BYTES)
        kg_buf_str(&sample->text, event->text);
}

static void live_sample_write_result(const struct live_sample *sample, enum model_stop stop,
                                     struct kg_buf *ret_json)
{
    struct kg_json_writer json = kg_json_writer(ret_json);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "role", "assistant");
    kg_json_named_begin(&json, "content", '{');
    kg_json_named_text(&json, "type", "text");
    kg_json_named_str(&json, "text", kg_buf_view(&sample->text));
    kg_json_end(&json, '}');
    kg_json_named_text(&json, "model", sample->model);
    kg_json_named_text(&json, "stopReason", stop == MODEL_STOP_LENGTH ? "maxTokens" : "endTurn");
    kg_json_end(&json, '}');
}

static void live_sample_on_done(void *data, const struct model_end *end)
{
    struct live_sample *sample = data;
    kg_auto(kg_buf_free) struct kg_buf result = {0};
    sample->call = NULL;
    if (end->failure != MODEL_OK) {
        live_sample_fail(sample, &end->err);
        return;
    }
    struct host_ask *ask = sample->ask;
    live_sample_write_result(sample, end->stop, &result);
    sample_free(sample);
    (void)host_ask_answer(ask, kg_buf_view(&result), NULL);
}

/* -- what it is asked -------------------------------------------------------------------------- */

/* Appends the text of a block, or of each of a list. */
static int live_sample_put_content(const struct kg_node *content, struct kg_buf *text,
                                   struct kg_err *err)
{
    if (content != NULL && content->type == KG_ARRAY) {
        for (uint32_t i = 0; i < content->count; i++)
            if (content->items[i].type == KG_ARRAY ||
                live_sample_put_content(&content->items[i], text, err) < 0)
                return -EINVAL;
        return 0;
    }
    const struct kg_node *words = kg_node_typed(content, "text", KG_STRING);
    if (words == NULL)
        return kg_fail(err, KG_E_INVALID_PARAMS, "a model can only be asked in text");
    if (text->length > 0)
        kg_buf_char(text, '\n');
    kg_buf_str(text, words->text);
    return 0;
}

static int live_sample_put_message(const struct kg_node *message, struct kg_json_writer *json,
                                   struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_str role = kg_node_text(message, "role");
    if (!kg_str_is(role, "user") && !kg_str_is(role, "assistant"))
        return kg_fail(err, KG_E_INVALID_PARAMS, "the role of a message must be user or assistant");
    if (live_sample_put_content(kg_node_get(message, "content"), &text, err) < 0)
        return -EINVAL;
    kg_json_begin(json, '{');
    kg_json_named_str(json, "role", role);
    kg_json_named_str(json, "content", kg_buf_view(&text));
    kg_json_end(json, '}');
    return 0;
}

static int live_sample_put_messages(const struct kg_node *params, struct kg_buf *ret_messages,
                                    struct kg_err *err)
{
    const struct kg_node *messages = kg_node_list(params, "messages");
    struct kg_json_writer json = kg_json_writer(ret_messages);
    int result = messages->count > 0 ? 0
                                     : kg_fail(err, KG_E_INVALID_PARAMS,
                                               "\"messages\" must be a list that is not empty");
    if (result == 0 && kg_node_list(params, "tools")->count > 0)
        result = kg_fail(err, KG_E_INVALID_PARAMS, "a model is asked without tools here");
    kg_json_begin(&json, '[');
    for (uint32_t i = 0; result == 0 && i < messages->count; i++)
        result = live_sample_put_message(&messages->items[i], &json, err);
    kg_json_end(&json, ']');
    return result;
}

static int64_t tokens_of(const struct live_sample *sample, const struct kg_node *params,
                         const struct local_model *model)
{
    int64_t most = host_config(sample->tool->work->sessions->host)->limits_sample_tokens;
    int64_t wanted = kg_node_number(params, "maxTokens");
    if (model->max_tokens > 0 && model->max_tokens < most)
        most = model->max_tokens;
    return wanted > 0 && wanted < most ? wanted : most;
}

static int live_sample_find_model(struct live_sample *sample, const struct local_model **ret_model,
                                  struct kg_err *err)
{
    const struct live_work *work = sample->tool->work;
    struct live_agent agent;
    int64_t most = host_config(work->sessions->host)->limits_samples_per_call;
    if (sample->tool->sample_count++ >= most)
        return kg_fail(err, KG_E_BUSY, "the model is asked at most %lld times during one call",
                       (long long)most);
    if (live_agent_find(work->sessions, work->asker->project_id, work->asker->agent_path, &agent,
                        err) < 0)
        return -EINVAL;
    return models_find(work->sessions->models, agent.resolved->model, "kaged:sample", ret_model,
                       err);
}

static int ask_model(struct live_sample *sample, struct kg_err *err)
{
    static const struct model_ops ops = {.on_event = live_sample_on_event,
                                         .on_done = live_sample_on_done};
    const struct live_work *work = sample->tool->work;
    kg_auto(kg_buf_free) struct kg_buf messages = {0};
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(sample->ask->params, err);
    const struct local_model *model;
    if (doc == NULL || live_sample_find_model(sample, &model, err) < 0 ||
        live_sample_put_messages(doc->root, &messages, err) < 0)
        return -EINVAL;
    sample->model = kg_str_dup(model->alias);
    const struct model_request request = {
        .model = model,
        .system = kg_node_text(doc->root, "systemPrompt"),
        .messages = kg_buf_view(&messages),
        .max_tokens = tokens_of(sample, doc->root, model),
    };
    return live_ask_model(work, "sample", &request, &ops, sample, &sample->call, err);
}

bool live_sample_begin(struct live_tool *tool, struct host_ask *ask)
{
    struct live_sample *sample = kg_alloc(sizeof(*sample));
    sample->tool = tool;
    sample->ask = ask;
    sample->task.run = live_sample_on_refused;
    sample->next = tool->samples;
    tool->samples = sample;
    if (ask_model(sample, &sample->err) < 0) {
        sample->call = NULL;
        loop_defer(tool->work->sessions->loop, &sample->task);
    }
    return true;
}

void live_sample_end(struct live_tool *tool, const struct host_ask *ask)
{
    struct live_sample *sample = tool->samples;
    while (sample != NULL && sample->ask != ask)
        sample = sample->next;
    if (sample == NULL)
        return;
    if (sample->call != NULL)
        models_cancel(sample->call);
    sample_free(sample);
}
