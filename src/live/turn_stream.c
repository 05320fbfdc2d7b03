/*
 * What scripts hear of while a model writes or a tool works: message_start, message_update and
 * tool_update. The stream is not held up by them: what comes while they are told something is
 * gathered and told next, in one piece; of what a tool says only the last counts. Before the
 * message's end, or the tool's result, is told, all of it was heard. Where nobody listens when the
 * model is asked, none of this does anything.
 */
#include "live/internal.h"

#define UPDATE_BYTES_MAX ((size_t)256 << 10) /* gathered; past it the oldest are left out */

static struct turn *turn_stream_turn_of(struct turn_stream *stream)
{
    return KG_CONTAINER(stream, struct turn, stream);
}

static bool turn_stream_is_heard(const struct turn *turn, const char *event)
{
    return turn->scripted && !turn->work.sessions->stopping &&
           live_scripts_hear(&turn->stream.scripts, event);
}

static void turn_stream_tell(struct turn_stream *stream, const char *event,
                             struct kg_json_writer *json)
{
    kg_json_end(json, '}');
    stream->busy = live_scripts_tell_aside(&stream->scripts, event, kg_buf_view(&stream->told));
}

static struct kg_json_writer live_turn_stream_begin(struct turn_stream *stream, const char *id)
{
    stream->told.length = 0;
    struct kg_json_writer json = kg_json_writer(&stream->told);
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "id", id);
    return json;
}

static void tell_start(struct turn_stream *stream)
{
    struct kg_json_writer json = live_turn_stream_begin(stream, stream->id.text);
    stream->untold = false;
    if (stream->starts)
        turn_stream_tell(stream, "message_start", &json);
}

static void tell_update(struct turn_stream *stream)
{
    struct kg_json_writer json = live_turn_stream_begin(stream, stream->id.text);
    kg_json_named_str(&json, "delta", kg_buf_view(&stream->text));
    stream->text.length = 0;
    turn_stream_tell(stream, "message_update", &json);
}

static void tell_progress(struct turn_stream *stream)
{
    struct kg_str message;
    struct kg_json_writer json = live_turn_stream_begin(stream, stream->call.text);
    bool has_words = kg_json_member(kg_buf_view(&stream->progress), "message", &message) &&
                     message.data[0] == '"';
    kg_json_named_raw(&json, "content", has_words ? message : KG_STR("\"\""));
    kg_json_named_raw(&json, "structured", kg_buf_view(&stream->progress));
    stream->progress.length = 0;
    turn_stream_tell(stream, "tool_update", &json);
}

/* One after the other, until one is under way or nothing is left. */
static void turn_stream_pump(struct turn_stream *stream)
{
    while (!stream->busy &&
           (stream->untold || stream->text.length > 0 || stream->progress.length > 0)) {
        if (stream->untold)
            tell_start(stream);
        else if (stream->text.length > 0)
            tell_update(stream);
        else
            tell_progress(stream);
    }
}

static void turn_stream_on_told(struct live_scripts *scripts)
{
    struct turn_stream *stream = KG_CONTAINER(scripts, struct turn_stream, scripts);
    stream->busy = false;
    turn_stream_pump(stream);
    if (stream->busy || !stream->awaited)
        return;
    stream->awaited = false;
    live_arrived(&turn_stream_turn_of(stream)->work, NULL);
}

void turn_stream_begin(struct turn *turn)
{
    struct turn_stream *stream = &turn->stream;
    stream->scripts.work = &turn->work;
    stream->scripts.on_told = turn_stream_on_told;
    stream->id = (struct kg_id){{0}};
    stream->text.length = stream->progress.length = 0;
    stream->starts = turn_stream_is_heard(turn, "message_start");
    stream->updates = turn_stream_is_heard(turn, "message_update");
    stream->progresses = turn_stream_is_heard(turn, "tool_update");
}

void turn_stream_text(struct turn *turn, struct kg_str text)
{
    struct turn_stream *stream = &turn->stream;
    if (!stream->starts && !stream->updates)
        return;
    if (stream->id.text[0] == '\0') {
        stream->id = kg_id_new("");
        stream->untold = true;
    }
    if (stream->updates && stream->text.length + text.length <= UPDATE_BYTES_MAX)
        kg_buf_str(&stream->text, text);
    turn_stream_pump(stream);
}

void turn_stream_progress(struct turn *turn, struct kg_str params)
{
    struct turn_stream *stream = &turn->stream;
    if (!stream->progresses)
        return;
    stream->call = turn->answer.calls[turn->next_call].id;
    stream->progress.length = 0;
    kg_buf_str(&stream->progress, params);
    turn_stream_pump(stream);
}

static void turn_stream_withdraw(void *data)
{
    struct turn_stream *stream = data;
    stream->busy = stream->awaited = false;
    live_scripts_withdraw(&stream->scripts);
}

void turn_stream_end(struct turn *turn, live_next_fn *next)
{
    struct turn_stream *stream = &turn->stream;
    turn_stream_pump(stream);
    if (!stream->busy) {
        next(&turn->work, NULL);
        return;
    }
    stream->awaited = true;
    live_await(&turn->work, stream, turn_stream_withdraw, next);
}

void turn_stream_clear(struct turn *turn)
{
    struct turn_stream *stream = &turn->stream;
    live_scripts_withdraw(&stream->scripts);
    live_scripts_clear(&stream->scripts);
    kg_buf_free(&stream->text);
    kg_buf_free(&stream->progress);
    kg_buf_free(&stream->told);
}
