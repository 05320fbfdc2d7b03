/*
 * A tool's call and its result are two entries, whatever comes between them: the call is recorded
 * before the plugin hears of it, and a result follows even if the plugin is gone, the arguments do
 * not fit, or the daemon stops. What a model has to know of a failure is words in the result.
 */
#include "live/internal.h"

#include <stdlib.h>

#define WORDS_MAX 2048 /* bytes of what is told of a failure */

void live_tool_clear(struct live_tool *tool)
{
    kg_free(&tool->plugin);
    kg_buf_free(&tool->content);
    *tool = (struct live_tool){0};
}

struct kg_str live_tool_result(const struct live_tool *tool)
{
    return (struct kg_str){tool->content.data + tool->from, tool->length};
}

/* -- the result -------------------------------------------------------------------------------- */

static void live_tool_record(struct live_tool *tool);

/* `{"result":...` or `{"error":...`, to be closed. */
static void live_tool_put_result(struct live_tool *tool, struct kg_str json)
{
    tool->content.length = 0;
    kg_buf_text(&tool->content, tool->is_error ? "{\"error\":" : "{\"result\":");
    tool->from = tool->content.length;
    tool->length = json.length;
    kg_buf_str(&tool->content, json);
}

static void set_words(struct live_tool *tool, const char *words)
{
    kg_auto(kg_buf_free) struct kg_buf json = {0};
    kg_json_put_string(&json, kg_str(words));
    tool->is_error = true;
    live_tool_put_result(tool, kg_buf_view(&json));
    if (tool->blocked)
        kg_buf_text(&tool->content, ",\"blocked\":true");
    kg_buf_char(&tool->content, '}');
}

/* What a plugin returned may be too deep, or too large, to be kept; words can be. */
static void live_tool_on_recorded(struct live_work *work, const struct kg_err *err_or_null)
{
    struct live_tool *tool = work->tool;
    if (err_or_null == NULL || tool->is_error) {
        tool->next(work, err_or_null);
        return;
    }
    kg_auto(kg_free) char *words =
        kg_format("The tool's result cannot be used: %s", err_or_null->message);
    set_words(tool, words);
    live_tool_record(tool);
}

static void live_tool_record(struct live_tool *tool)
{
    tool->draft = (struct session_draft){
        .agent = tool->work->asker->agent_path,
        .kind = SESSION_TOOL_RESULT,
        .role = SESSION_TOOL,
        .source = tool->plugin,
        .parent = tool->call.text,
        .content = kg_buf_view(&tool->content),
    };
    live_append(tool->work, &tool->draft, 1, tool->on_added, live_tool_on_recorded);
}

static void live_tool_fail(struct live_tool *tool, const struct kg_err *err)
{
    /* A model that made a name up can do better with the real ones; what was refused to the
     * plugin is for the operator to allow. */
    bool hints = (err->code == KG_E_METHOD_NOT_FOUND || tool->names_grant) && err->hint[0] != '\0';
    tool->blocked |= err->code == KG_E_STOPPING;
    kg_auto(kg_free) char *words =
        kg_format("%s%.*s%s%.*s", tool->blocked ? "[BLOCKED] " : "", WORDS_MAX, err->message,
                  hints ? "; " : "", WORDS_MAX, hints ? err->hint : "");
    set_words(tool, words);
    live_tool_record(tool);
}

/* -- the call ---------------------------------------------------------------------------------- */

static void live_tool_withdraw(void *call)
{
    projects_tool_cancel(call);
}

static void live_tool_on_called(struct live_work *work, const struct kg_err *err_or_null)
{
    work->tool->calling = false;
    if (err_or_null != NULL)
        live_tool_fail(work->tool, err_or_null);
    else
        live_tool_record(work->tool);
}

void live_tool_cancel(struct live_tool *tool, const struct kg_err *why)
{
    if (!tool->calling || !live_withdraw(tool->work))
        return;
    tool->calling = false;
    live_tool_fail(tool, why);
}

static void on_reply(void *data, const struct projects_tool_reply *reply)
{
    struct live_tool *tool = data;
    bool failed = reply->error.code != KG_OK;
    tool->plugin = kg_strdup(reply->plugin);
    tool->blocked = reply->blocked;
    tool->names_grant = reply->names_grant;
    if (!failed) {
        live_tool_put_result(tool, reply->result);
        kg_buf_char(&tool->content, '}');
    }
    live_arrived(tool->work, failed ? &reply->error : NULL);
}

static void live_tool_on_progress(void *data, struct kg_str params)
{
    struct live_tool *tool = data;
    if (tool->on_progress != NULL)
        tool->on_progress(tool, params);
}

void live_tool_answer(struct live_tool *tool, struct kg_str json, live_next_fn *next)
{
    tool->work->tool = tool;
    tool->on_added = NULL;
    tool->next = next;
    live_tool_put_result(tool, json);
    kg_buf_char(&tool->content, '}');
    live_tool_record(tool);
}

void live_tool_call(struct live_tool *tool, const struct kg_err *problem_or_null,
                    void (*on_added_or_null)(struct live_work *work), live_next_fn *next)
{
    struct live_work *work = tool->work;
    struct host *host = work->sessions->host;
    const struct projects_tool_request request = {
        .asker = work->asker,
        .tool = tool->name,
        .arguments = tool->arguments,
        .on_done = on_reply,
        .on_progress = live_tool_on_progress,
        .asked = &live_asked_ops,
        .data = tool,
    };
    struct kg_err err;
    work->tool = tool;
    tool->on_added = on_added_or_null;
    tool->next = next;
    if (problem_or_null == NULL && work->sessions->stopping) {
        live_fail_stopping(&err);
        problem_or_null = &err;
    }
    tool->calling = problem_or_null == NULL;
    if (problem_or_null != NULL)
        live_tool_fail(tool, problem_or_null);
    else
        live_await(work, projects_tool_call(host, &request), live_tool_withdraw,
                   live_tool_on_called);
}
