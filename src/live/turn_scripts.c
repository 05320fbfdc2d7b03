/*
 * What scripts hear of a turn of the primary, and when; the order is a part of what they rely on:
 * agent_start, then for each answer of the model turn_start, message_end, turn_end,
 * should_stop_after_turn, and for each of its calls tool_call and tool_result; agent_end at last.
 */
#include "live/internal.h"

static struct kg_json_writer begin(struct turn *turn)
{
    turn->told.length = 0;
    struct kg_json_writer json = kg_json_writer(&turn->told);
    kg_json_begin(&json, '{');
    return json;
}

static void tell(struct turn *turn, const char *event, struct kg_json_writer *json,
                 live_next_fn *next)
{
    kg_json_end(json, '}');
    if (turn->scripted && !turn->work.sessions->stopping)
        live_scripts_tell(&turn->scripts, event, kg_buf_view(&turn->told), next);
    else
        next(&turn->work, NULL);
}

void turn_hear_start(struct turn *turn, live_next_fn *next)
{
    struct kg_json_writer json = begin(turn);
    tell(turn, "agent_start", &json, next);
}

void turn_hear_step(struct turn *turn, live_next_fn *next)
{
    struct kg_json_writer json = begin(turn);
    kg_json_named_int(&json, "index", turn->steps);
    tell(turn, "turn_start", &json, next);
}

static void put_usage(const struct turn *turn, struct kg_json_writer *json)
{
    kg_json_named_begin(json, "usage", '{');
    kg_json_named_int(json, "input", turn->usage.input_tokens);
    kg_json_named_int(json, "output", turn->usage.output_tokens);
    kg_json_named_int(json, "cache_read", turn->usage.cached_tokens);
    kg_json_named_int(json, "cache_write", 0);
    kg_json_end(json, '}');
}

void turn_hear_message(struct turn *turn, const char *event, live_next_fn *next)
{
    struct kg_json_writer json = begin(turn);
    kg_json_named_text(&json, "id", turn->message.text);
    put_usage(turn, &json);
    tell(turn, event, &json, next);
}

void turn_hear_answer(struct turn *turn, const char *event, live_next_fn *next)
{
    struct kg_json_writer json = begin(turn);
    kg_json_named_int(&json, "index", turn->steps - 1);
    kg_json_named_bool(&json, "had_tool_calls", turn->answer.call_count > 0);
    put_usage(turn, &json);
    tell(turn, event, &json, next);
}

void turn_hear_call(struct turn *turn, const struct turn_call *call, live_next_fn *next)
{
    struct kg_json_writer json = begin(turn);
    kg_json_named_text(&json, "id", call->id.text);
    kg_json_named_text(&json, "name", call->name);
    kg_json_named_raw(&json, "input", kg_buf_view(&call->arguments));
    tell(turn, "tool_call", &json, next);
}

void turn_hear_result(struct turn *turn, const struct turn_call *call, live_next_fn *next)
{
    struct kg_json_writer json = begin(turn);
    kg_json_named_text(&json, "id", call->id.text);
    kg_json_named_text(&json, "name", call->name);
    kg_json_named_bool(&json, "is_error", turn->tool.is_error);
    kg_json_named_str(&json, "text", live_tool_result(&turn->tool));
    tell(turn, "tool_result", &json, next);
}

void turn_hear_end(struct turn *turn, live_next_fn *next)
{
    struct kg_json_writer json = begin(turn);
    kg_json_named_bool(&json, "ok", turn->stop == TURN_STOP);
    tell(turn, "agent_end", &json, next);
}
