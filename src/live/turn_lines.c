/* What happens in a turn, one JSON object a line. Who reads them may be slow: that is his concern.
 */
#include "live/internal.h"

#include "redact/shared.h"

static struct kg_json_writer turn_lines_begin_line(struct kg_buf *line, const char *type)
{
    struct kg_json_writer json = kg_json_writer(line);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "type", type);
    return json;
}

/* What happens inside of a turn is told by the outermost, with whose it is and for which call. */
static void tell_line(const struct turn *turn, struct kg_str line)
{
    kg_auto(kg_buf_free) struct kg_buf nested = {0};
    const struct turn *root = turn;
    while (root->outer != NULL)
        root = root->outer;
    if (root != turn) {
        struct kg_json_writer json = turn_lines_begin_line(&nested, "subagent");
        kg_json_named_text(&json, "agent", turn->work.asker->agent_path);
        kg_json_named_text(&json, "call", turn->call.text);
        kg_json_named_raw(&json, "event", (struct kg_str){line.data, line.length - 1});
        kg_json_end(&json, '}');
        kg_buf_char(&nested, '\n');
    }
    root->ops->on_line(root->data, root != turn ? kg_buf_view(&nested) : line);
}

static void turn_lines_end_line(const struct turn *turn, struct kg_json_writer *json)
{
    kg_auto(kg_buf_free) struct kg_buf shown = {0};
    kg_json_end(json, '}');
    bool hides = redact_put_shared_json(kg_buf_view(json->buf), &shown);
    struct kg_buf *line = hides ? &shown : json->buf;
    kg_buf_char(line, '\n');
    tell_line(turn, kg_buf_view(line));
}

void turn_tell_start(struct turn *turn)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = turn_lines_begin_line(&line, "start");
    kg_json_named_text(&json, "agent", turn->work.asker->agent_path);
    turn_lines_end_line(turn, &json);
}

void turn_tell_text(struct turn *turn, const char *type, struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = turn_lines_begin_line(&line, type);
    kg_json_named_str(&json, "text", text);
    turn_lines_end_line(turn, &json);
}

void turn_tell_usage(struct turn *turn, const struct model_event *event)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = turn_lines_begin_line(&line, "usage");
    kg_json_named_int(&json, "input_tokens", event->usage.input_tokens);
    kg_json_named_int(&json, "cached_tokens", event->usage.cached_tokens);
    kg_json_named_int(&json, "output_tokens", event->usage.output_tokens);
    turn_lines_end_line(turn, &json);
}

void turn_tell_retry(struct turn *turn, const struct model_event *event)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = turn_lines_begin_line(&line, "retry");
    kg_json_named_int(&json, "after_ms", event->retry.after_ms);
    kg_json_named_str(&json, "message", event->retry.message);
    turn_lines_end_line(turn, &json);
}

static void turn_lines_put_call(struct kg_json_writer *json, const struct turn_call *call)
{
    kg_json_named_text(json, "call", call->id.text);
    kg_json_named_text(json, "tool", call->name);
}

void turn_tell_call(struct turn *turn, const struct turn_call *call)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = turn_lines_begin_line(&line, "tool_call");
    turn_lines_put_call(&json, call);
    kg_json_named_raw(&json, "arguments", kg_buf_view(&call->arguments));
    turn_lines_end_line(turn, &json);
}

/* A plugin's result may have newlines between its parts. */
void turn_tell_result(struct turn *turn, const struct turn_call *call, bool blocked, bool is_error,
                      struct kg_str result)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = turn_lines_begin_line(&line, "tool_result");
    turn_lines_put_call(&json, call);
    kg_json_named_bool(&json, "blocked", blocked);
    kg_json_named_bool(&json, "is_error", is_error);
    kg_json_key(&json, "result");
    size_t from = line.length;
    kg_json_raw(&json, result);
    session_join_lines(&line, from);
    turn_lines_end_line(turn, &json);
}

/* It is an object, whose members follow those that say of what. */
void turn_tell_progress(struct turn *turn, const struct turn_call *call, struct kg_str progress)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = turn_lines_begin_line(&line, "progress");
    turn_lines_put_call(&json, call);
    kg_buf_char(&line, ',');
    kg_buf_append(&line, progress.data + 1, progress.length - 2);
    turn_lines_end_line(turn, &json);
}

void turn_tell_question(struct turn *turn, const struct turn_call *call_or_null,
                        const struct state_question *question)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = turn_lines_begin_line(&line, "question");
    if (call_or_null != NULL)
        turn_lines_put_call(&json, call_or_null);
    kg_json_key(&json, "question");
    live_question_write(question, &json);
    turn_lines_end_line(turn, &json);
}

void turn_tell_said(struct turn *turn, const char *plugin, struct kg_str text)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = turn_lines_begin_line(&line, "said");
    kg_json_named_text(&json, "plugin", plugin);
    kg_json_named_str(&json, "text", text);
    turn_lines_end_line(turn, &json);
}

void turn_tell_compaction(struct turn *turn, const struct live_compacted *compacted)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0}, object = {0};
    struct kg_json_writer inner = kg_json_writer(&object);
    live_compacted_write(compacted, &inner);
    kg_buf_text(&line, "{\"type\":\"compaction\",");
    kg_buf_append(&line, object.data + 1, object.length - 1);
    kg_buf_char(&line, '\n');
    tell_line(turn, kg_buf_view(&line));
}

void turn_tell_window(struct turn *turn, uint64_t window_tokens)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = turn_lines_begin_line(&line, "window");
    kg_json_named_int(&json, "tokens", (int64_t)turn->context_tokens);
    kg_json_named_int(&json, "window_tokens", (int64_t)window_tokens);
    turn_lines_end_line(turn, &json);
}

static void turn_lines_put_error(struct kg_json_writer *json, const struct kg_err *err)
{
    kg_json_key(json, "error");
    if (err->code == KG_OK) {
        kg_json_null(json);
        return;
    }
    kg_json_begin(json, '{');
    kg_json_named_text(json, "code", kg_error_row(err->code)->name);
    kg_json_named_text(json, "message", err->message);
    if (err->hint[0] != '\0')
        kg_json_named_text(json, "hint", err->hint);
    kg_json_end(json, '}');
}

void turn_tell_end(struct turn *turn)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    struct kg_json_writer json = turn_lines_begin_line(&line, "end");
    kg_json_named_text(&json, "stop", turn_stop_names[turn->stop]);
    kg_json_named_int(&json, "steps", turn->steps);
    turn_lines_put_error(&json, &turn->why);
    turn_lines_end_line(turn, &json);
}
