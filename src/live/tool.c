/*
 * A tool's call and its result are two entries, whatever comes between them: the call is recorded
 * before the plugin hears of it, and a result follows even if the plugin is gone, the arguments do
 * not fit, or the daemon stops. What a model has to know of a failure is words in the result.
 */
#include "live/internal.h"

#include <stdlib.h>

#define WORDS_MAX 2048 /* bytes of what is told of a failure */

struct live_calling {
    struct live_wait wait;
    struct live_session *live; /* held */
    struct host_asker *asker;  /* the agent's */
    char *plugin, *tool;       /* owned */
    struct kg_buf arguments, call_id;
    struct host_tool_call *call; /* while the plugin works */
    struct kg_buf content;       /* of the result's entry */
    struct kg_buf result;        /* as it is told; JSON */
    bool blocked, is_error;
    bool kept_words; /* the result itself could not be kept */
    struct session_added call_entry, entry;
    bool compacting;
    void (*on_done)(void *data, const struct live_tool_result *result_or_null,
                    const struct kg_err *err_or_null);
    void *data;
};

static void end(struct live_calling *calling, const struct kg_err *err_or_null)
{
    struct live_session *live = calling->live;
    const struct live_tool_result result = {
        .plugin = calling->plugin,
        .call = calling->call_entry.id,
        .entry = calling->entry.id,
        .call_seq = calling->call_entry.seq,
        .entry_seq = calling->entry.seq,
        .blocked = calling->blocked,
        .is_error = calling->is_error,
        .result = kg_buf_view(&calling->result),
        .compacting = calling->compacting,
    };
    calling->on_done(calling->data, err_or_null ? NULL : &result, err_or_null);
    host_asker_unref(calling->asker);
    free(calling->plugin);
    free(calling->tool);
    kg_buf_free(&calling->arguments);
    kg_buf_free(&calling->call_id);
    kg_buf_free(&calling->content);
    kg_buf_free(&calling->result);
    free(calling);
    live_release(live);
}

static void append(struct live_calling *calling, const struct session_draft *draft,
                   void (*on_done)(void *data, const struct live_appended *appended_or_null,
                                   const struct kg_err *err_or_null))
{
    live_append(calling->live, calling->asker, draft, 1, on_done, calling);
}

/* -- the result -------------------------------------------------------------------------------- */

static void record_result(struct live_calling *calling);

static void set_words(struct live_calling *calling, const char *words)
{
    calling->is_error = true;
    calling->result.length = calling->content.length = 0;
    kg_json_put_string(&calling->result, kg_str(words));
    kg_buf_text(&calling->content, "{\"error\":");
    kg_buf_str(&calling->content, kg_buf_view(&calling->result));
    if (calling->blocked)
        kg_buf_text(&calling->content, ",\"blocked\":true");
    kg_buf_char(&calling->content, '}');
}

static void on_result_recorded(void *data, const struct live_appended *appended_or_null,
                               const struct kg_err *err_or_null)
{
    struct live_calling *calling = data;
    if (appended_or_null != NULL) {
        calling->entry = appended_or_null->added[0];
        calling->compacting |= appended_or_null->compacting;
    } else if (!calling->kept_words && !calling->is_error) {
        /* What a plugin returned may be too deep, or too large, to be kept. */
        kg_auto(kg_free) char *words =
            kg_format("The tool's result cannot be used: %s", err_or_null->message);
        calling->kept_words = true;
        set_words(calling, words);
        record_result(calling);
        return;
    }
    end(calling, err_or_null);
}

static void record_result(struct live_calling *calling)
{
    const struct session_draft draft = {
        .agent = calling->asker->agent_path,
        .kind = SESSION_TOOL_RESULT,
        .role = SESSION_TOOL,
        .source = calling->plugin,
        .parent = calling->call_entry.id.text,
        .content = kg_buf_view(&calling->content),
    };
    append(calling, &draft, on_result_recorded);
}

static void fail(struct live_calling *calling, const struct kg_err *err, bool blocked)
{
    /* Whoever made a name up can do better with those that there are. */
    bool unknown = err->code == KG_E_METHOD_NOT_FOUND && err->hint[0] != '\0';
    kg_auto(kg_free) char *words =
        kg_format("%s%.*s%s%.*s", blocked ? "[BLOCKED] " : "", WORDS_MAX, err->message,
                  unknown ? "; " : "", WORDS_MAX, unknown ? err->hint : "");
    calling->blocked = blocked;
    set_words(calling, words);
    record_result(calling);
}

/* -- the call ---------------------------------------------------------------------------------- */

static void on_abort(struct live_wait *wait)
{
    struct live_calling *calling = KG_CONTAINER(wait, struct live_calling, wait);
    struct kg_err err;
    host_tool_cancel(calling->call);
    calling->call = NULL;
    live_fail_stopping(&err);
    fail(calling, &err, true);
}

void live_tool_cancel(struct live_calling *calling)
{
    if (calling->call == NULL)
        return; /* it was answered, and that is being recorded */
    live_wait_remove(&calling->wait);
    host_tool_cancel(kg_steal(&calling->call));
    set_words(calling, "[CANCELLED] the turn ended before this tool did");
    record_result(calling);
}

static void on_reply(void *data, const struct host_tool_reply *reply)
{
    struct live_calling *calling = data;
    live_wait_remove(&calling->wait);
    calling->call = NULL;
    calling->plugin = kg_strdup(reply->plugin);
    if (reply->error.code != KG_OK) {
        fail(calling, &reply->error, reply->blocked);
        return;
    }
    kg_buf_str(&calling->result, reply->result);
    kg_buf_text(&calling->content, "{\"result\":");
    kg_buf_str(&calling->content, reply->result);
    kg_buf_char(&calling->content, '}');
    record_result(calling);
}

static void ask_plugin(struct live_calling *calling)
{
    struct live_session *live = calling->live;
    const struct host_tool_request request = {
        .asker = calling->asker,
        .tool = kg_str(calling->tool),
        .arguments = kg_buf_view(&calling->arguments),
        .on_done = on_reply,
        .data = calling,
    };
    live_wait_add(live->sessions, &calling->wait, on_abort);
    calling->call = host_tool_call(live->sessions->host, &request);
}

static void go_on(struct live_calling *calling)
{
    struct kg_err err;
    size_t offset = 0;
    enum kg_json_fault fault = kg_json_check(kg_buf_view(&calling->arguments), &offset);
    if (fault != KG_JSON_OK) {
        kg_fail(&err, KG_E_PARSE, "the arguments are not JSON: byte %zu: %s", offset + 1,
                kg_json_fault_text(fault));
        fail(calling, &err, false);
    } else if (calling->live->sessions->stopping) {
        live_fail_stopping(&err);
        fail(calling, &err, true);
    } else {
        ask_plugin(calling);
    }
}

static void on_call_recorded(void *data, const struct live_appended *appended_or_null,
                             const struct kg_err *err_or_null)
{
    struct live_calling *calling = data;
    if (err_or_null != NULL) {
        end(calling, err_or_null);
        return;
    }
    calling->call_entry = appended_or_null->added[0];
    calling->compacting = appended_or_null->compacting;
    go_on(calling);
}

/* Arguments that are no JSON are kept as the text that they are. */
static void write_call(const struct live_calling *calling, struct kg_buf *buf)
{
    struct kg_json_writer writer = kg_json_writer(buf);
    struct kg_str arguments = kg_buf_view(&calling->arguments);
    kg_json_begin(&writer, '{');
    kg_json_named_text(&writer, "name", calling->tool);
    kg_json_key(&writer, "arguments");
    if (kg_json_check(arguments, NULL) == KG_JSON_OK)
        kg_json_raw(&writer, arguments);
    else
        kg_json_str(&writer, arguments);
    if (calling->call_id.length > 0)
        kg_json_named_str(&writer, "call_id", kg_buf_view(&calling->call_id));
    kg_json_end(&writer, '}');
}

static void record_call(struct live_calling *calling)
{
    kg_auto(kg_buf_free) struct kg_buf content = {0};
    write_call(calling, &content);
    const struct session_draft draft = {
        .agent = calling->asker->agent_path,
        .kind = SESSION_TOOL_CALL,
        .role = SESSION_ASSISTANT,
        .content = kg_buf_view(&content),
    };
    append(calling, &draft, on_call_recorded);
}

struct live_calling *live_tool_call(struct live_session *live, const struct live_tool *tool)
{
    struct live_calling *calling = kg_alloc(sizeof(*calling));
    struct kg_str none = KG_STR("{}");
    live_hold(live);
    calling->live = live;
    calling->asker = live_asker_for(live, tool->asker, tool->agent);
    calling->tool = kg_str_dup(tool->tool);
    kg_buf_str(&calling->arguments, tool->arguments.length > 0 ? tool->arguments : none);
    kg_buf_str(&calling->call_id, tool->call_id);
    calling->on_done = tool->on_done;
    calling->data = tool->data;
    if (tool->recorded == NULL) {
        record_call(calling);
        return calling;
    }
    strncpy(calling->call_entry.id.text, tool->recorded, KG_ID_MAX - 1);
    go_on(calling);
    return calling;
}
