/*
 * A summary of what a compaction takes, written by a model. It is asked once, within a bound of
 * time and bytes; whatever goes wrong is said once, and the caller does without. Scripts that
 * listen hear of it first, and may ask otherwise, or write the summary themselves.
 */
#include "live/internal.h"

#include <errno.h>
#include <stdlib.h>

#define TIMEOUT_MS      120000
#define TOKENS_MAX      4096 /* of the summary */
#define BYTES_PER_TOKEN 2    /* of the question: what it is given fills about half a window */
#define QUESTION_MAX    ((size_t)8 << 20)

/* What is too long is cut; the model had been told how much it may say. */
static void summary_on_event(void *data, const struct model_event *event)
{
    struct live_summary *summary = data;
    if (event->kind == MODEL_TEXT && summary->text.length < SESSION_SUMMARY_MAX)
        kg_buf_str(&summary->text, event->text);
}

/* Without answer or with an empty one there is no summary. */
static int summary_check_end(const struct live_summary *summary, const struct model_end *end,
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

static void summary_on_done(void *data, const struct model_end *model_end)
{
    struct live_summary *summary = data;
    struct kg_buf safe = {0};
    struct kg_err err = {0};
    if (summary_check_end(summary, model_end, &err) < 0) {
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

/* Which model sums up, and how many bytes it is given. */
static int summary_find_model(const struct live_summary *summary,
                              const struct local_model **ret_model, size_t *ret_bytes,
                              struct kg_err *err)
{
    const struct host_asker *asker = summary->work->asker;
    const struct sessions *sessions = summary->work->sessions;
    struct live_agent agent;
    if (live_agent_find(sessions, asker->project_id, asker->agent_path, &agent, err) < 0 ||
        models_find(sessions->models,
                    agent.summary_model ? agent.summary_model : agent.resolved->model,
                    "compaction.summary_model", ret_model, err) < 0)
        return -EINVAL;
    uint64_t window = (*ret_model)->context_window > 0 ? (uint64_t)(*ret_model)->context_window
                                                       : agent.window_tokens;
    *ret_bytes = window < QUESTION_MAX / BYTES_PER_TOKEN ? window * BYTES_PER_TOKEN : QUESTION_MAX;
    return 0;
}

static void summary_withdraw(void *call)
{
    models_cancel(call);
}

static int summary_ask(struct live_summary *summary, struct models_call **ret_call,
                       struct kg_err *err)
{
    static const struct model_ops ops = {.on_event = summary_on_event, .on_done = summary_on_done};
    kg_auto(kg_buf_free) struct kg_buf system = {0};
    const struct local_model *model;
    size_t bytes;
    if (summary_find_model(summary, &model, &bytes, err) < 0)
        return -EINVAL;
    kg_buf_text(&system, summary->instruction);
    if (summary->prompt != NULL)
        kg_buf_printf(&system, "\n\n%s", summary->prompt);
    const struct model_request request = {
        .model = model,
        .system = kg_buf_view(&system),
        .messages = kg_buf_view(&summary->messages),
        .max_tokens = smaller(TOKENS_MAX, model->max_tokens),
        .timeout_ms = smaller(TIMEOUT_MS, model->provider->timeout_ms),
    };
    return live_ask_model(summary->work, "summary", &request, &ops, summary, ret_call, err);
}

/* -- scripts may change it, or write it -------------------------------------------------------- */

static int check_prepared(struct live_scripts *scripts, const struct kg_node *value,
                          struct kg_err *err)
{
    static const char *const texts[] = {"prompt", "instruction", "summary"};
    (void)scripts;
    for (size_t i = 0; i < KG_COUNT(texts); i++) {
        const struct kg_node *node = value->type == KG_OBJECT ? kg_node_get(value, texts[i]) : NULL;
        if (value->type != KG_OBJECT ||
            (node != NULL && (node->type != KG_STRING || node->text.length > SESSION_SUMMARY_MAX)))
            return kg_fail(err, KG_E_BAD_RESULT, "%s is not a text of at most %d bytes", texts[i],
                           SESSION_SUMMARY_MAX);
    }
    return 0;
}

static void summary_replace(char **text, struct kg_str with)
{
    if (with.data == NULL)
        return;
    free(*text);
    *text = kg_str_dup(with);
}

/* True: there is a summary, and no model is asked. */
static bool take_prepared(struct live_summary *summary)
{
    struct kg_err err;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        summary->scripts.changed ? kg_json_read(kg_buf_view(&summary->scripts.data), &err) : NULL;
    if (doc == NULL)
        return false;
    struct kg_str text = kg_node_text(doc->root, "summary");
    summary_replace(&summary->prompt, kg_node_text(doc->root, "prompt"));
    summary_replace(&summary->instruction, kg_node_text(doc->root, "instruction"));
    if (text.length > 0)
        session_defuse(text, &summary->text);
    return text.length > 0;
}

static void summary_on_prepared(struct live_work *work, const struct kg_err *err_or_null)
{
    struct live_summary *summary = work->summary;
    struct models_call *call;
    struct kg_err err = {0};
    if (err_or_null != NULL || take_prepared(summary))
        summary->next(work, err_or_null);
    else if (summary_ask(summary, &call, &err) < 0)
        summary->next(work, &err);
    else
        live_await(work, call, summary_withdraw, summary->next);
}

static void put_prepared(struct live_summary *summary, const struct session_compaction *compaction,
                         const struct local_model *model)
{
    const struct session_compaction_sums sums = session_compaction_sums(compaction);
    struct kg_json_writer json = kg_json_writer(&summary->told);
    struct kg_str items = kg_buf_view(&summary->messages), message, transcript;
    struct kg_json_cursor cursor = kg_json_inside(items);
    kg_json_begin(&json, '{');
    if (kg_json_next_item(&cursor, &message) && kg_json_member(message, "content", &transcript))
        kg_json_named_raw(&json, "transcript", transcript);
    kg_json_named_text(&json, "instruction", summary->instruction);
    kg_json_named_text(&json, "prompt", summary->prompt);
    kg_json_named_str(&json, "model", model->alias);
    kg_json_named_int(&json, "summarized", (int64_t)sums.superseded);
    kg_json_named_int(&json, "kept", (int64_t)sums.kept);
    kg_json_end(&json, '}');
}

void live_summary_clear(struct live_summary *summary)
{
    kg_buf_free(&summary->text);
    kg_buf_free(&summary->messages);
    kg_buf_free(&summary->told);
    kg_free(&summary->instruction);
    kg_free(&summary->prompt);
    live_scripts_clear(&summary->scripts);
}

void live_summarize(struct live_summary *summary, struct live_work *work,
                    const struct session_compaction *compaction, const char *prompt_or_null,
                    live_next_fn *next)
{
    const struct local_model *model;
    struct kg_err err = {0};
    size_t bytes;
    live_summary_clear(summary);
    summary->work = summary->scripts.work = work;
    summary->next = next;
    summary->instruction = kg_strdup(session_summary_prompt);
    summary->prompt = prompt_or_null ? kg_strdup(prompt_or_null) : NULL;
    work->summary = summary;
    if (summary_find_model(summary, &model, &bytes, &err) < 0) {
        next(work, &err);
        return;
    }
    session_summary_question(compaction, bytes, &summary->messages);
    bool told = strcmp(work->asker->agent_path, "primary") == 0 &&
                live_scripts_hear(&summary->scripts, "compact_prepare");
    if (!told) {
        summary_on_prepared(work, NULL);
        return;
    }
    put_prepared(summary, compaction, model);
    live_scripts_transform(&summary->scripts, "compact_prepare", kg_buf_view(&summary->told),
                           check_prepared, summary_on_prepared);
}
