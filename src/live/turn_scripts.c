/*
 * What scripts hear of a turn of the primary, and when; the order is a part of what they rely on:
 * before_agent_start, agent_start, then for each answer of the model model_select if it is another
 * than before, turn_start, transform_context, before_provider_request, message_start and _update
 * (see turn_stream.c), message_end, after_provider_response, turn_end, should_stop_after_turn, and
 * for each of its calls tool_call, tool_update and tool_result; agent_end at last.
 */
#include "live/internal.h"

static struct kg_json_writer turn_scripts_begin(struct turn *turn)
{
    turn->told.length = 0;
    struct kg_json_writer json = kg_json_writer(&turn->told);
    kg_json_begin(&json, '{');
    return json;
}

static void turn_scripts_tell(struct turn *turn, const char *event, struct kg_json_writer *json,
                              live_next_fn *next)
{
    kg_json_end(json, '}');
    if (turn->scripted && !turn->work.sessions->stopping)
        live_scripts_tell(&turn->scripts, event, kg_buf_view(&turn->told), next);
    else
        next(&turn->work, NULL);
}

void turn_hear_before(struct turn *turn, live_next_fn *next)
{
    struct kg_json_writer json = turn_scripts_begin(turn);
    kg_json_named_text(&json, "system_prompt", turn->prompt);
    kg_json_named_raw(&json, "first_user_message", kg_buf_view(&turn->said));
    turn_scripts_tell(turn, "before_agent_start", &json, next);
}

void turn_hear_start(struct turn *turn, live_next_fn *next)
{
    struct kg_json_writer json = turn_scripts_begin(turn);
    turn_scripts_tell(turn, "agent_start", &json, next);
}

void turn_hear_model(struct turn *turn, const char *before, const char *now, live_next_fn *next)
{
    struct kg_json_writer json = turn_scripts_begin(turn);
    kg_json_named_text(&json, "prev", before);
    kg_json_named_text(&json, "next", now);
    kg_json_named_text(&json, "source", "project");
    turn_scripts_tell(turn, "model_select", &json, next);
}

void turn_hear_step(struct turn *turn, live_next_fn *next)
{
    struct kg_json_writer json = turn_scripts_begin(turn);
    kg_json_named_int(&json, "index", turn->steps);
    turn_scripts_tell(turn, "turn_start", &json, next);
}

static void turn_scripts_put_usage(const struct turn *turn, struct kg_json_writer *json)
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
    struct kg_json_writer json = turn_scripts_begin(turn);
    kg_json_named_text(&json, "id", turn->message.text);
    turn_scripts_put_usage(turn, &json);
    turn_scripts_tell(turn, event, &json, next);
}

void turn_hear_answer(struct turn *turn, const char *event, live_next_fn *next)
{
    struct kg_json_writer json = turn_scripts_begin(turn);
    kg_json_named_int(&json, "index", turn->steps - 1);
    kg_json_named_bool(&json, "had_tool_calls", turn->answer.call_count > 0);
    turn_scripts_put_usage(turn, &json);
    turn_scripts_tell(turn, event, &json, next);
}

void turn_hear_call(struct turn *turn, const struct turn_call *call, live_next_fn *next)
{
    struct kg_json_writer json = turn_scripts_begin(turn);
    kg_json_named_text(&json, "id", call->id.text);
    kg_json_named_text(&json, "name", call->name);
    kg_json_named_raw(&json, "input", kg_buf_view(&call->arguments));
    turn_scripts_tell(turn, "tool_call", &json, next);
}

void turn_hear_result(struct turn *turn, const struct turn_call *call, live_next_fn *next)
{
    struct kg_json_writer json = turn_scripts_begin(turn);
    kg_json_named_text(&json, "id", call->id.text);
    kg_json_named_text(&json, "name", call->name);
    kg_json_named_bool(&json, "is_error", turn->tool.is_error);
    kg_json_named_str(&json, "text", live_tool_result(&turn->tool));
    turn_scripts_tell(turn, "tool_result", &json, next);
}

void turn_hear_end(struct turn *turn, live_next_fn *next)
{
    struct kg_json_writer json = turn_scripts_begin(turn);
    kg_json_named_bool(&json, "ok", turn->stop == TURN_STOP);
    turn_scripts_tell(turn, "agent_end", &json, next);
}

/* -- what the model is asked with ---------------------------------------------------------------
 */

static bool turn_scripts_is_heard(const struct turn *turn, const char *event)
{
    return turn->scripted && !turn->work.sessions->stopping &&
           live_scripts_hear(&turn->scripts, event);
}

static int turn_scripts_check_context(struct live_scripts *scripts, const struct kg_node *value,
                                      struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf neutral = {0};
    (void)scripts;
    return turn_unshape(value, &neutral, err);
}

void turn_hear_context(struct turn *turn, live_next_fn *next)
{
    turn->scripts.changed = false;
    if (!turn_scripts_is_heard(turn, "transform_context")) {
        next(&turn->work, NULL);
        return;
    }
    turn->told.length = 0;
    struct kg_json_writer json = kg_json_writer(&turn->told);
    turn_shape(kg_buf_view(&turn->conversation.messages), &json);
    live_scripts_transform(&turn->scripts, "transform_context", kg_buf_view(&turn->told),
                           turn_scripts_check_context, next);
}

static void take_messages(struct turn *turn, const struct kg_node *shaped)
{
    struct kg_buf neutral = {0};
    if (turn_unshape(shaped, &neutral, NULL) == 0) {
        kg_buf_free(&turn->conversation.messages);
        turn->conversation.messages = neutral;
    } else {
        kg_buf_free(&neutral);
    }
}

void turn_take_context(struct turn *turn)
{
    struct kg_err err;
    if (!turn->scripts.changed)
        return;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        kg_json_read(kg_buf_view(&turn->scripts.data), &err);
    if (doc != NULL)
        take_messages(turn, doc->root);
}

static int turn_scripts_check_request(struct live_scripts *scripts, const struct kg_node *value,
                                      struct kg_err *err)
{
    const struct kg_node *system = value->type == KG_OBJECT ? kg_node_get(value, "system") : NULL;
    if (value->type != KG_OBJECT || (system != NULL && system->type != KG_STRING))
        return kg_fail(err, KG_E_BAD_RESULT, "it is not a request");
    return turn_scripts_check_context(scripts, kg_node_get(value, "messages"), err);
}

void turn_hear_request(struct turn *turn, const char *model, live_next_fn *next)
{
    struct kg_str system = kg_buf_view(&turn->conversation.system);
    turn->scripts.changed = false;
    if (!turn_scripts_is_heard(turn, "before_provider_request")) {
        next(&turn->work, NULL);
        return;
    }
    struct kg_json_writer json = turn_scripts_begin(turn);
    kg_json_named_text(&json, "model", model);
    if (system.length > 0)
        kg_json_named_str(&json, "system", system);
    kg_json_key(&json, "messages");
    turn_shape(kg_buf_view(&turn->conversation.messages), &json);
    kg_json_named_raw(&json, "tools", kg_buf_view(&turn->tools));
    kg_json_end(&json, '}');
    live_scripts_transform(&turn->scripts, "before_provider_request", kg_buf_view(&turn->told),
                           turn_scripts_check_request, next);
}

/* Its system prompt and its messages count; the model and the tools stay what they are. */
void turn_take_request(struct turn *turn)
{
    struct kg_err err;
    if (!turn->scripts.changed)
        return;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc =
        kg_json_read(kg_buf_view(&turn->scripts.data), &err);
    if (doc == NULL)
        return;
    struct kg_str system = kg_node_text(doc->root, "system");
    turn->conversation.system.length = 0;
    kg_buf_str(&turn->conversation.system, system);
    take_messages(turn, kg_node_get(doc->root, "messages"));
}
